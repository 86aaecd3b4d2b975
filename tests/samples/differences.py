"""Calls of differences along a dimension, integrals by trapezoids, and numerical gradients."""

import numpy as np

from samples._pool import draw
from samples._words import calls, every

SMOOTH = {
    "dline": draw((5,), -2, 2, 4101), "dgrid": draw((4, 5), -2, 2, 4102),
    "dat": np.array([0.1j, 0.5 - 0.2j, 1.7, 2.0 + 0.3j, 4.0]),
    "dside": np.array([-1.0, 0.3 + 0.2j, 1.0 - 0.1j, 3.0]),
    "dfew": draw((4, 2), -2, 2, 4103),
}  # fmt: skip

DIFFERENCES = [
    *every("{x}.diff({d})", x="dgrid; mat; cube; tran",
            d="; 1; 2; 1, 0; n=2, dim=-1; dim=0; 9; 0; 1, -2"),
    *calls("""
        dgrid.diff(?) <- prepend=dfew; append=dfew; 2, 1, dfew, dfew; 0, prepend=dfew
        ?.diff() <- vec; one; i; k; u8; f16; kv; gap; none; inf
        kv.diff(2); torch.diff(dline, 3); torch.diff(i, dim=0); torch.diff(vec, append=f32)
        dline.diff(2, append=dline)
    """),
]  # fmt: skip
INTEGRALS = [
    *every("torch.{f}({a})", f="trapezoid; cumulative_trapezoid",
            a="dgrid; dline; dgrid, dim=0; dgrid, dx=2; dgrid, dx=0.5, dim=-2; dgrid, dat; "
              "dgrid, dside, dim=0; dgrid, dgrid; dline, dat; cube; cube, mat[:, :2]; i; iv, dx=3;"
              " tran; i, f64; i, iv"),
    *calls("""
        torch.trapezoid(?) <- empty; gap; none; one; dgrid[:, :1]; gap, dim=0
        torch.cumulative_trapezoid(?) <- none; one; empty; dgrid[:, :1]
        torch.trapz(?) <- dgrid; dgrid, dat; dline, dx=3.
    """),
]  # fmt: skip
GRADIENTS = [
    *every("torch.gradient({x}{a})", x="dgrid; dline; sq; btran",
            a="; , spacing=2.; , edge_order=2; , dim=0; , spacing=0.5, edge_order=2"),
    *calls("""
        torch.gradient(dgrid, ?) <- spacing=[2., 3.]; spacing=(2., 3), dim=(1, 0); dim=1, spacing=2
        torch.gradient(dgrid, ?) <- spacing=(dside, dat); spacing=(dat,), dim=1; spacing=[2.], dim=1
        torch.gradient(dgrid, ?) <- spacing=(dat,), dim=1, edge_order=2; dim=(); dim=(0, 1)
        torch.gradient(dgrid, ?) <- spacing=None; spacing=None, dim=None; spacing=None, dim=1
        torch.gradient(dline, ?) <- spacing=(dat,); spacing=(dat,), edge_order=2
        torch.gradient(i); torch.gradient(sc); torch.gradient(f16); torch.gradient(dgrid, dim=-1)
    """),
]  # fmt: skip
GROUPS = {"differences": DIFFERENCES, "integrals": INTEGRALS, "gradients": GRADIENTS}
ERRORS = calls("""
    torch.diff(?) <- sc; mat, -1; mat, 1, 2; mat, prepend=vec; dgrid, dim=0, prepend=dfew; mat, 1.5
    torch.diff(?) <- vec, prepend=sc; mat, append=cube
    torch.trapezoid(?) <- sc; mat, vec, dim=0; mat, vec, dx=1.; mat, dx=2j; k; mat, dim=2; mat, kv
    torch.trapezoid(?) <- mat, mat3; vec, empty; mat, dx=True; mat, vec[:1]
    torch.cumulative_trapezoid(?) <- sc; mat, vec, dim=0; k; mat, kv; mat, vec[:1]; mat, dim=2
    torch.gradient(?) <- empty; dline, edge_order=3; one; vec2, edge_order=2; mat, dim=2
    torch.gradient(?) <- mat, dim=(0, 0); mat, spacing=(1., 2., 3.); mat, spacing=(1.,); u8; k
    torch.gradient(?) <- mat, spacing=(vec,); mat, spacing=vec; mat, spacing=(sc, sc)
    torch.gradient(sc, ?) <- dim=0; dim=-1; dim=(0,); dim=[-1], spacing=2.
    torch.gradient(?) <- mat, spacing=(1., 2.), dim=1; [1., 2.]; mat, spacing=(mat, mat)
    torch.gradient(?) <- dgrid, spacing=(dat, dat)
""")

OTHER_WORDS = {"torch.trapezoid(mat, vec, dx=1.)", "torch.gradient(mat, spacing=vec)"}
OTHER_GRAPH = {
    r"diff\(0(, prepend=dfew)?\)$": "PyTorch copies into zeros, which says no more than a copy",
    r"gradient.*spacing=\((dat|dside)": "the coefficients are computed in other steps",
}
NOT_COMPLEX = {r"^inf.diff": "differences of complex infinities, where NumPy and C disagree"}
