"""Calls of decompositions. Vectors are unique only up to a sign or phase: what is compared are
expressions that do not depend on it, and the values that are unique."""

import numpy as np

from samples._pool import draw
from samples._words import calls, every


def _spread(*shape: int, seed: int) -> np.ndarray:
    """Matrices whose singular values and eigenvalues are far from each other, so that single
    precision is enough to compare derivatives."""
    large = np.zeros(shape[-2:])
    np.fill_diagonal(large, [3.5, 1.0, 2.2][: min(shape[-2:])])
    return large + draw(shape, -0.3, 0.3, seed)


SMOOTH = {
    "dc_a": _spread(3, 3, seed=801), "dc_b": _spread(2, 3, 3, seed=802),
    "dc_t": _spread(4, 3, seed=803), "dc_w": _spread(3, 4, seed=804),
    "dc_bt": _spread(2, 4, 2, seed=805), "dc_tr": _spread(3, 3, seed=806).T,
    "dc_one": draw((1, 1), -2, 2, 807), "dc_four": _spread(2, 1, 2, 3, seed=808),
}  # fmt: skip
SPECIAL = {
    "dc_eye": np.eye(3), "dc_low": np.array([[1.0, 2.0], [2.0, 4.0]]),
    "dc_zero": np.zeros((2, 2)), "dc_nan": np.array([[np.nan, 1.0], [1.0, 2.0]]),
    "dc_e": np.zeros((0, 0)), "dc_e3": np.zeros((0, 3)), "dc_3e": np.zeros((3, 0)),
    "dc_be": np.zeros((0, 3, 3)), "dc_diag": np.diag([3.0, 1.0, 2.0]),
}  # fmt: skip
FIXED = {
    "dc_i": np.array([[2, 1], [1, 3]]), "dc_k": np.array([[True, False], [False, True]]),
    "dc_f16": np.array([[2, 1], [1, 3]], np.float16),
    "dc_wide": np.ones(1),  # what is multiplied by it is computed in double precision
    "dc_f32": np.array([[2, 1], [1, 3]], np.float32),
}  # fmt: skip

_ANY = "dc_a; dc_b; dc_t; dc_w; dc_bt; dc_tr; dc_one; dc_four; mat; tran; step"
_SQUARE = "dc_a; dc_b; dc_tr; dc_one"
_EMPTY = "dc_e; dc_e3; dc_3e; dc_be"
SINGULAR = [
    *every("torch.linalg.svdvals({x})", x=f"{_ANY}; {_EMPTY}; dc_low; dc_diag; dc_eye; dc_f32"),
    *every("torch.linalg.svdvals({x}.detach())", x=_ANY),
    *every("torch.linalg.svd({x}).S", x=f"{_ANY}; {_EMPTY}; dc_low; dc_diag"),
    *every("(lambda u, s, v: (u * s[..., None, :]) @ v)"
           "(*torch.linalg.svd({x} * dc_wide, full_matrices=False))",
           x=f"{_ANY}; {_EMPTY}; dc_diag"),
    *every("(lambda u, s, v: (u * s.cos()[..., None, :]) @ v)(*torch.linalg.svd({x}, False))",
           x="dc_a; dc_b; dc_w; dc_bt; dc_tr; dc_one; dc_four; mat; tran; step; dc_diag"),
    *every("(lambda u, s, v: u.abs() @ (v.abs() * s[..., None]))"
           "(*torch.linalg.svd({x} * dc_wide, False))",
           x="dc_a; dc_b; dc_t; dc_w; dc_bt; mat; tran"),
    *every("(lambda u, s, v: {e})(*torch.linalg.svd({x} * dc_wide, False))",
           x="dc_a; dc_t; dc_w; dc_b; dc_bt",
           e="u.abs(); v.abs(); (u.abs() * u.abs()).sum(-1) * s[..., :1]; "
             "u.abs().sum() + v.abs().sum()"),
    *every("(lambda u, s, v: (u[..., :2].abs() * s[..., None, :2]).sum())"
           "(*torch.linalg.svd({x} * dc_wide))",
           x="dc_a; dc_t; dc_w"),
    *every("[tuple(x.shape) for x in torch.linalg.svd({x})]", x=f"{_ANY}; {_EMPTY}"),
    *every("torch.svd({x}).S", x="dc_a; dc_t; dc_w; dc_b"),
    *every("(lambda u, s, v: (u * s[..., None, :]) @ v.mT.conj())(*torch.svd({x} * dc_wide))",
           x="dc_a; dc_t; dc_w; dc_b"),
    *calls("""
        [tuple(x.shape) for x in torch.svd(dc_t, some=False)]; torch.svd(dc_t, compute_uv=False)
        torch.svd(dc_a, True, False)[1]; dc_a.svd().S; torch.linalg.svd(dc_a, full_matrices=True)[1]
        torch.linalg.svd(dc_eye)[0].abs(); torch.linalg.svd(dc_zero).S; torch.linalg.svd(A=dc_a).S
        type(torch.linalg.svd(dc_a)).__name__; type(torch.svd(dc_a)).__name__
    """),
]  # fmt: skip
EIGEN = [
    *every("torch.linalg.eigvalsh({x} + {x}.mT.conj())", x=f"{_SQUARE}; dc_e; dc_be; dc_diag; "
      "dc_eye"),
    *every("torch.linalg.eigvalsh(({x} + {x}.mT.conj()).detach())", x=_SQUARE),
    *every("torch.linalg.eigvalsh({x} + {x}.mT.conj(), UPLO='{u}')", x="dc_a; dc_b", u="L; U; u"),
    *every("torch.linalg.eigh({x}).eigenvalues", x="dc_a; dc_b; dc_tr"),
    *every("torch.linalg.eigh({x}, UPLO='U')[0]", x="dc_a; dc_tr"),
    *every("(lambda w, v: (v * w{f}[..., None, :]) @ v.mT.conj())"
           "(*torch.linalg.eigh({x} + {x}.mT.conj()))",
           x=f"{_SQUARE}; dc_e; dc_be", f="; .cos()"),
    *every("(lambda w, v: {e})(*torch.linalg.eigh({x} + {x}.mT.conj(), '{u}'))", x="dc_a; dc_b",
           u="L; U", e="v.abs(); (v.abs() * w[..., None, :]).sum(-1)"),
    *every("(lambda w, v: v.abs() @ w[..., None])(*torch.linalg.eigh(dc_diag + {x}))",
           x="dc_eye; 0"),
    *calls("""
        torch.linalg.eigh(dc_eye)[1].abs(); torch.linalg.eigh(dc_eye).eigenvalues.prod()
        type(torch.linalg.eigh(dc_a)).__name__
    """),
    *every("torch.linalg.eigvals({x}){e}", x="dc_a; dc_b; dc_tr; dc_one",
           e=".sum(-1); .prod(-1); .abs().sum(); .exp().sum(-1)"),
    *every("torch.linalg.eigvals({x}.detach()).prod(-1)", x="dc_a; dc_b"),
    *every("torch.linalg.eigvals({x})", x="dc_e; dc_be; dc_zero"),
    *every("torch.linalg.eig({x}).eigenvalues{e}", x="dc_a; dc_b", e=".sum(-1); .prod(-1)"),
    *every("(lambda w, v: (v * w{f}[..., None, :]) @ torch.linalg.inv(v))(*torch.linalg.eig({x}))",
           x="dc_a; dc_b; dc_tr", f="; .exp()"),
    *every("(lambda w, v: (v.abs() ** 2 @ w.abs()[..., None]).sum(-1))(*torch.linalg.eig({x}))",
           x="dc_a; dc_b"),
    *calls("""
        [tuple(x.shape) for x in torch.linalg.eig(dc_be)]; type(torch.linalg.eig(dc_a)).__name__
        torch.linalg.eigvals(dc_nan).isnan()
    """),
]  # fmt: skip
QR = [
    *every("torch.linalg.qr({x}{m})", x=f"{_ANY}; {_EMPTY}", m="; , mode='reduced'"),
    *every("torch.linalg.qr({x}, mode='complete')", x="dc_a; dc_w; dc_b; mat"),
    *every("torch.linalg.qr({x}.detach(), mode='{m}')", x="dc_a; dc_t; dc_w; dc_bt; dc_e3; dc_3e",
           m="complete; r"),
    *every("torch.linalg.qr({x}).{p}", x="dc_a; dc_t; dc_w; dc_bt", p="Q; R; Q.sin(); R.cos()"),
    *every("torch.qr({x})", x="dc_a; dc_t; dc_w; dc_t.detach(), False; dc_a, some=False"),
    *calls("""
        dc_a.qr().R; torch.linalg.qr(dc_t, 'complete'); torch.linalg.qr(dc_t, 'r')
        torch.linalg.qr(dc_zero); type(torch.linalg.qr(dc_a)).__name__
        type(torch.qr(dc_a)).__name__
    """),
]  # fmt: skip
GROUPS = {"singular": SINGULAR, "eigen": EIGEN, "qr": QR}
_BAD = "dc_i; dc_k; dc_f16; vec; sc; 2"
ERRORS = [
    *every("torch.linalg.{f}({x})", f="svd; svdvals; eigh; eigvalsh; eig; eigvals; qr", x=_BAD),
    *every("torch.{f}({x})", f="svd; qr", x=_BAD),
    *every("torch.linalg.{f}({x})", f="eigh; eigvalsh; eig; eigvals", x="mat; dc_e3; dc_3e"),
    *calls("""
        torch.linalg.svd(dc_nan); torch.linalg.svdvals(dc_nan); torch.linalg.eig(dc_nan)
        torch.linalg.svd(dc_nan[None]); torch.linalg.eigh(dc_a, 'X'); torch.linalg.qr(dc_a, 'X')
        torch.linalg.svd(dc_a, driver='gesvd'); torch.svd(dc_nan)
        torch.linalg.svd(torch.stack([dc_low, dc_nan]))
        torch.linalg.svdvals(torch.stack([dc_low, dc_nan]))
        torch.linalg.eig(torch.stack([dc_low, dc_nan]))
        torch.linalg.qr(dc_t, 'r').R.sum().backward()
        torch.linalg.qr(dc_t, 'complete').R.sum().backward()
        torch.linalg.svd(dc_a + 1j * dc_tr).U.real.sum().backward()
        torch.linalg.svd(dc_a + 1j * dc_tr).Vh.real.sum().backward()
        torch.linalg.eigh(dc_a + 1j * dc_tr).eigenvectors.real.sum().backward()
        torch.linalg.eig(dc_a + 1j * dc_tr).eigenvectors.real.sum().backward()
        torch.linalg.eig(dc_tr).eigenvectors.imag.sum().backward()
    """),
]  # fmt: skip

NOT_COMPLEX = {r"dc_low": "a singular value of zero is found as a small number, of any size"}
OTHER_GRAPH = {
    r"@.*(svd|eigh?)\(dc_(b|bt|four)\b": "factors lie in memory row by row, not column by column",
}
ROUGH = {
    r"eigh\(dc_\w+(, UPLO='U')?\)(\.eigenvalues|\[0\])$":
        "reads one triangle; the gradient is that of a symmetric matrix",
    r"qr\(dc_t, '(complete|r)'\)": "has no gradient",
}  # fmt: skip
NO_SLOPE = {
    "linalg_svd": "complex vectors may turn by any phase",
    "linalg_eig": "complex vectors may turn by any phase",
}
SYMMETRIC = {"linalg_eigh", "hermitian_eigenvalues"}
OTHER_TRANSFORM = {
    r"linalg\.qr\(dc_\w+(\.detach\(\))?, (mode=)?'r'\)$":
        "the Q that is not computed has no elements; PyTorch's vmap gives it without a batch",
}  # fmt: skip
