"""Calls of the decomposition of symmetric matrices."""

import numpy as np

from samples._pool import draw
from samples._words import calls

_A = draw((3, 3), -1, 1, 4501)
FIXED = {
    "ld_a": (_A + _A.T).real, "ld_c": _A + _A.T, "ld_h": _A + _A.T.conj(),
    "ld_b": np.stack([(_A + _A.T).real, np.diag([2.0, -1.0, 3.0])]), "ld_r": _A.real,
    "ld_swap": np.array([[0.0, 1.0], [1.0, 0.0]]), "ld_zero": np.zeros((2, 3, 3)),
    "ld_f": np.eye(3, dtype=np.float32), "ld_none": np.zeros((0, 0)), "ld_rc": _A,
    "ld_p": np.array([1, 2, 3], np.int32),
}  # fmt: skip
_SOLVE = "torch.linalg.ldl_solve(*torch.linalg.ldl_factor(?), {})"
GROUPS = {
    "ldl": calls(f"""
        torch.linalg.ldl_factor(?) <- ld_a; ld_b; ld_c; ld_h, hermitian=True; ld_swap; ld_f; ld_none
        torch.linalg.ldl_factor_ex(?) <- ld_a; ld_zero; ld_zero[0]; ld_h, hermitian=True
        torch.linalg.ldl_factor_ex(ld_a, check_errors=True)
        {_SOLVE.format("ld_r")} <- ld_a; ld_b; ld_r + ld_r.mT
        {_SOLVE.format("ld_rc")} <- ld_c
        {_SOLVE.format("ld_rc, hermitian=True")} <- ld_h, hermitian=True
        {_SOLVE.format("ld_b")} <- ld_a
        {_SOLVE.format("ld_r[:, :0]")} <- ld_a
    """)
}
ERRORS = calls("""
    torch.linalg.ldl_factor(?) <- mat; vec; i[:, :2]
    torch.linalg.ldl_solve(ld_a, ?) <- ld_p, f64; ld_p, ld_r[:2]; ld_p[:2], ld_r; ld_p, ld_f
""")
NO_SLOPE = dict.fromkeys(
    ("linalg_ldl_factor_ex", "linalg_ldl_solve"), "has no derivative, as in PyTorch"
)
