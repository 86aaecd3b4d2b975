"""Calls that sample images at the points of grids."""

import re

import numpy as np

from samples._pool import draw
from samples._words import calls, every

SMOOTH = {
    "gdx": draw((2, 2, 4, 5), -2, 2, 1601), "gdg": draw((2, 3, 3, 2), -1.6, 1.6, 1602),
    "gdx3": draw((1, 2, 3, 4, 2), -2, 2, 1603), "gdg3": draw((1, 2, 3, 2, 3), -1.6, 1.6, 1604),
    "gdt": draw((2, 2, 3), -2, 2, 1605), "gdt3": draw((1, 3, 4), -2, 2, 1606),
    "gdturn": draw((2, 4, 5, 2), -2, 2, 1607).transpose(0, 3, 1, 2),
    "gdwide": draw((2, 30, 20, 2), -1.6, 1.6, 1615),  # points enough to choose among bits
}  # fmt: skip
SPECIAL = {
    "gdedge": np.array([[[[-1.0, -1.0], [1.0, 1.0], [0.0, 0.25]],
                         [[-3.0, 0.5], [7.0, -0.6], [0.2, 0.4]]]]),
    "gdone": draw((1, 1, 1, 1), -2, 2, 1608).real, "gdinf": draw((1, 1, 4, 4), -2, 2, 1609).real,
    "gdno": draw((0, 2, 4, 5), -2, 2, 1610).real, "gdnog": draw((0, 3, 3, 2), -2, 2, 1611).real,
}  # fmt: skip
SPECIAL["gdinf"][0, 0, 0, 0] = float("inf")
FIXED = {
    "gdint": np.ones((2, 2, 4, 5), int), "gdintg": np.ones((2, 3, 3, 2), int),
    "gdf": draw((2, 3, 3, 2), -1, 1, 1612).real.astype("float32"),
    "gdtint": np.ones((2, 2, 3), int),
    "gdc": draw((2, 2, 4, 5), -1, 1, 1613), "gdcg": draw((2, 3, 3, 2), -1, 1, 1614),
}  # fmt: skip
_SAMPLE = "torch.nn.functional.grid_sample"
_PADDED = "'zeros'; 'border'; 'reflection'"


def gradient(call: str, by: str) -> str:
    """The gradients of a call, as an expression whose values are compared."""
    return f"torch.enable_grad()(lambda: torch.autograd.grad(({call} ** 2).sum(), [{by}]))()"


def _inputs(call: str) -> list[str]:
    return [n for n in ("gdx3", "gdg3", "gdx", "gdturn", "gdone", "gdg", "gdedge")
            if re.search(rf"\b{n}\b", call)]  # fmt: skip


_TWO = [
    *every(_SAMPLE + "({x}, {mode}, {pad}, {align})", x="gdx, gdg; gdturn, gdg",
           mode="'bilinear'; 'nearest'; 'bicubic'", pad=_PADDED, align="True; False"),
    *every(_SAMPLE + "(gdx3, gdg3, {mode}, {pad}, {align})",
           mode="'bilinear'; 'nearest'", pad=_PADDED, align="True; False"),
    _SAMPLE + "(gdx, gdg)", _SAMPLE + "(gdx, gdg.transpose(1, 2))",
    "torch.grid_sampler(gdx, gdg, 0, 1, True)", "torch.grid_sampler_2d(gdx, gdg, 0, 0, True)",
    "torch.grid_sampler_3d(gdx3, gdg3, 0, 2, False)", "torch.grid_sampler(gdx, gdwide, 0, 0, True)",
]  # fmt: skip
_EDGES = [
    e for e in every(_SAMPLE + "({x}, gdedge, {mode}, {pad}, {align})", x="gdx[:1]; gdone; gdinf",
                     mode="'bilinear'; 'nearest'; 'bicubic'", pad=_PADDED, align="True; False")
    if not ("gdinf" in e and ("bicubic" in e or "reflection" in e))
]  # fmt: skip
GROUPS = {
    "samples": _TWO,
    "gradients": [gradient(e, ", ".join(_inputs(e))) for e in _TWO],
    "edges": _EDGES,
    "at edges": [gradient(e, ", ".join(_inputs(e))) for e in _EDGES if "gdinf" not in e],
    "empty": [_SAMPLE + "(gdno, gdnog)"],
    "affine": calls("""
        torch.nn.functional.affine_grid(?) <- gdt, (2, 3, 4, 5); gdt, (2, 3, 4, 5), True
        torch.nn.functional.affine_grid(?) <- gdt, [2, 1, 1, 3], False
        torch.nn.functional.affine_grid(?) <- gdt3, (1, 2, 2, 3, 4)
        torch.nn.functional.affine_grid(?) <- gdt3, (1, 2, 2, 3, 4), align_corners=True
        torch.nn.functional.affine_grid(?) <- gdt, torch.Size((2, 1, 1, 1)), True
        torch.affine_grid_generator(gdt, (2, 3, 4, 5), False)
        torch.nn.functional.grid_sample(gdx, torch.nn.functional.affine_grid(gdt, (2, 2, 3, 3)))
    """),
}  # fmt: skip
ERRORS = calls(f"""
    torch.grid_sampler(?) <- gdx, gdg, 0., 1, True; gdx, gdg, 0, 1., True
    torch.nn.functional.affine_grid(gdt, (2., 3, 4, 5))
    {_SAMPLE}(?) <- gdx, gdg, mode='foo'; gdx, gdg, padding_mode='foo'; gdx, gdg3[..., 0]
    {_SAMPLE}(?) <- gdx, gdedge; gdx, gdf
    {_SAMPLE}(?) <- gdx, gdg3.expand(2, 2, 3, 2, 3); gdx3, gdg3, mode='bicubic'; gdx[:, :, :0], gdg
    {_SAMPLE}(?) <- gdint, gdintg; gdc, gdcg
    torch.nn.functional.affine_grid(?) <- gdt, (2, 3, 4); gdt3, (2, 3, 4, 4); mat, (2, 3, 4, 4)
    torch.nn.functional.affine_grid(?) <- gdt, (3, 3, 4, 4)
    torch.nn.functional.affine_grid(?) <- gdt, (2, 3, 0, 4); gdt, (2, 3, -1, 4)
    torch.nn.functional.affine_grid(?) <- gdtint, (2, 3, 4, 4); gdt, (1, 3, 2, 3, 4)
""")
ONLY_OURS = {
    r"^torch.nn.functional.grid_sample|^torch.grid_sampler":
        "PyTorch has no second derivative; first ones are compared in the group of gradients",
}  # fmt: skip
NOT_COMPLEX = {"grid": "refused"}
