"""Calls of functions of matrices: determinants, inverses, solving, factors, powers."""

import numpy as np

from samples._pool import draw
from samples._words import calls, every

SMOOTH = {
    "la_a": np.diag([3.0, -2.0, 1.5]) + draw((3, 3), -0.6, 0.6, 901),
    "la_b": np.diag([-2.0, 3.0, 2.5]) + draw((2, 3, 3), -0.6, 0.6, 902),
    "la_tr": (np.diag([2.0, 4.0, -3.0]) + draw((3, 3), -0.6, 0.6, 903)).T,
    "la_1": np.diag([2.0, 4.0, -3.0]) + draw((2, 1, 3, 3), -0.6, 0.6, 904),
    "la_r": draw((3, 2), -2, 2, 905), "la_rb": draw((2, 3, 2), -2, 2, 906),
    "la_v": draw((3,), -2, 2, 907), "la_vb": draw((2, 3), -2, 2, 908),
    "la_t": draw((4, 3), -2, 2, 909), "la_w": draw((3, 4), -2, 2, 910),
    "la_bt": draw((2, 4, 2), -2, 2, 911), "la_small": draw((3, 3), -0.5, 0.5, 912),
    "la_6": draw((6, 2, 3), -2, 2, 913), "la_23": draw((2, 3), -2, 2, 914),
    "la_236": draw((2, 3, 6), -2, 2, 915), "la_up": draw((2, 3), -2, 2, 916),
    "la_m": np.diag([2.0, 4.0, -3.0]) + draw((13, 3, 3), -0.9, 0.9, 919),
    "la_r4": draw((4, 3, 2), -2, 2, 917), "la_tv": draw((4,), -2, 2, 918),
}  # fmt: skip
SPECIAL = {
    "la_0": np.zeros((2, 2)), "la_low": np.array([[1.0, 2.0], [2.0, 4.0]]),
    "la_low3": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]])
    * np.array([[1.0], [1.0], [0.0]]),
    "la_some": np.stack([np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([[1.0, 2.0], [2.0, 4.0]])]),
    "la_neg": np.diag([-1.0, 2.0]), "la_e": np.zeros((0, 0)), "la_be": np.zeros((0, 3, 3)),
    "la_e3": np.zeros((0, 3)), "la_3e": np.zeros((3, 0)), "la_nan": np.full((2, 2), np.nan),
    "la_ind": np.array([[4.0, 1.0, 0.0], [1.0, -5.0, 1.0], [0.0, 1.0, 2.0]]),
    "la_eye": np.eye(2),
}  # fmt: skip
FIXED = {
    "la_i": np.array([[2, 1], [1, 3]]), "la_k": np.array([[True, False], [True, True]]),
    "la_f16": np.array([[2, 1], [1, 3]], np.float16),
    "la_f32": np.array([[2, 1], [1, 3]], np.float32), "la_f64": np.array([[2.0, 1.0], [1.0, 3.0]]),
    "la_piv": np.array([2, 2, 3], np.int32), "la_piv2": np.array([[3, 3, 3], [1, 3, 3]], np.int32),
    "la_piv64": np.array([2, 2, 3]),
}  # fmt: skip

_SQUARE = "la_a; la_b; la_tr; la_1; one"
_EMPTY = "la_e; la_be"
DETERMINANTS = [
    *every("torch.linalg.{f}({x})", f="det; slogdet", x=f"{_SQUARE}; {_EMPTY}; la_neg"),
    *every("torch.{f}({x})", f="det; slogdet; logdet", x=f"{_SQUARE}; {_EMPTY}"),
    *every("torch.linalg.det({x})", x="la_0; la_low; la_low3; la_some; la_eye"),
    *every("torch.enable_grad()(lambda: torch.autograd.grad(torch.linalg.det({x}).sum().real, "
           "{x}))()",
           x="la_0; la_eye"),
    *every("torch.linalg.slogdet({x})", x="la_some; la_low"),
    "torch.linalg.det(la_r @ la_r.mT)",
    *every("torch.logdet({x})", x="la_neg; la_eye; la_a @ la_a.mT; la_b @ la_b.mT"),
    *every("torch.linalg.slogdet({x}).logabsdet", x="la_a; la_b"),
    *calls("""
        la_a.det(); la_a.slogdet().sign; (la_a @ la_a.mT).logdet()
        type(torch.slogdet(la_a)).__name__
        torch.linalg.slogdet(la_a).sign; type(torch.linalg.slogdet(la_a)).__name__
        torch.det(la_nan)
    """),
]  # fmt: skip
POWERS = [
    *every("torch.linalg.matrix_power({x}, {n})", x="la_a; la_b; la_tr", n="0; 1; 2; 3; 4; 5; "
      "7; -1; -2; -3"),
    *every("torch.linalg.matrix_power({x}, {n})", x="la_i; la_f16; la_e; la_be", n="0; 2; 3"),
    *every("torch.linalg.matrix_exp({x})", x="la_small; la_a; la_b; la_tr; la_0; la_e; la_be; "
      "one; la_nan"),
    *calls("""
        torch.matrix_power(la_a, 2); la_a.matrix_power(3); torch.matrix_exp(la_small)
        la_small.matrix_exp()
        torch.linalg.matrix_exp(la_small * 1e-9); torch.linalg.matrix_exp(la_f32)
        torch.linalg.matmul(mat, mat3); torch.linalg.matmul(cube, vec2)
    """),
]  # fmt: skip
CHAINS = calls("""
    torch.linalg.multi_dot([?]) <- mat, mat3; mat, mat3, mat; vec, mat3, mat; mat, mat3, mat, vec
    torch.linalg.multi_dot([?]) <- vec, vec
    torch.linalg.multi_dot([?]) <- vec, sq, vec; mat, sq, mat3, row; none, mat3, mat; mat, vec
    torch.linalg.multi_dot([?]) <- vec, mat3
    torch.linalg.multi_dot([?]) <- tran, mat3, mat; col, row, mat3, mat
    torch.linalg.multi_dot((mat, mat3)); torch.chain_matmul(mat, mat3, mat)
    torch.chain_matmul(mat, mat3)
    torch.linalg.vecdot(?) <- vec, vec; mat, mat2; mat, vec; mat, mat2, dim=0; row, mat; sc, sc2
    torch.linalg.vecdot(?) <- none, none
    torch.linalg.vecdot(?) <- cube, cube, dim=1; empty, empty; tran, mat; mat, col
    torch.chain_matmul(mat) * 1
""")
SOLVING = [
    *every("torch.linalg.solve({x})",
           x="la_a, la_r; la_a, la_v; la_b, la_rb; la_b, la_vb; la_b, la_v; la_b, la_r; "
             "la_a, la_rb; "
             "la_1, la_rb; la_tr, la_r; la_a, la_up.mT; la_e, la_e3; la_be, la_r; la_a, la_3e; "
             "la_a, la_up, left=False; la_b, la_rb.mT, left=False; la_1, la_up, left=False; "
             "la_a, la_a"),
    *every("torch.linalg.inv({x})", x=f"{_SQUARE}; {_EMPTY}"),
    *every("torch.linalg.inv_ex({x})", x="la_a; la_b; la_low.detach()"),
    *every("torch.linalg.solve_ex({x})", x="la_a, la_r; la_b, la_v; la_a, la_up, left=False"),
    *calls("""
        torch.inverse(la_a); la_a.inverse(); torch.linalg.solve(A=la_a, B=la_r)
        torch.linalg.solve_ex(la_low.detach(), la_0)[1]; torch.linalg.inv_ex(la_some.detach()).info
        type(torch.linalg.inv_ex(la_a)).__name__; type(torch.linalg.solve_ex(la_a, la_a)).__name__
        torch.linalg.tensorinv(la_6, ind=1); torch.linalg.tensorinv(la_236)
        torch.linalg.tensorinv(la_236, 2)
        torch.linalg.tensorsolve(la_236, la_23)
        torch.linalg.tensorsolve(la_6.movedim(0, 1), la_23, dims=(1,))
        torch.linalg.tensorsolve(la_6, la_23.reshape(6)); torch.linalg.tensorsolve(la_a, la_v)
        torch.linalg.inv(la_nan); torch.linalg.solve(la_nan, la_low)
    """),
    *every("torch.linalg.lstsq({x}).solution",
           x="la_t, la_r4[:, 0]; la_t, la_tv; la_w, la_r; la_a, la_r; la_bt, la_bt; "
             "la_b, la_rb; la_b, la_vb; "
             "la_w, la_v; la_e, la_e3; la_t, la_r4[:, 0], driver='gelsd'; "
             "la_t, la_tv, driver='gels'"),
    *every("torch.linalg.lstsq({x})",
           x="la_t, la_tv; la_t, la_r4[:, 0], driver='gels'; la_t, la_r4[:, 0], driver='gelsd'; "
             "la_t, la_tv, driver='gelss'; la_w, la_r; la_b, la_rb, driver='gelsd'; "
             "la_a, la_r, 0.1"),
    "torch.linalg.lstsq(la_low3.detach(), la_r)", "type(torch.linalg.lstsq(la_a, la_r)).__name__",
    "torch.linalg.lstsq(la_low3.detach(), la_r, rcond=0.9).rank",
]  # fmt: skip
TRIANGULAR = [
    *every("torch.linalg.solve_triangular({x}, upper={u})", u="True; False",
           x="la_a, la_r; la_b, la_rb; la_b, la_r; la_a, la_rb; la_tr, la_r; la_1, la_rb; "
             "la_e, la_e3; "
             "la_be, la_r; la_a, la_3e"),
    *every("torch.linalg.solve_triangular({x}, upper={u}, left={l}, unitriangular={n})",
           u="True; False",
           l="True; False", n="True; False", x="la_a, la_a; la_b, la_a"),
    *every("torch.linalg.solve_triangular({x}, upper=True, left=False)", x="la_a, la_up; "
      "la_1, la_up"),
    *every("torch.triangular_solve({x})",
           x="la_r, la_a; la_rb, la_b; la_r, la_b; la_rb, la_a; la_r, la_a, False; "
             "la_r, la_a, transpose=True; "
             "la_r, la_a, unitriangular=True; "
             "la_r, la_a, upper=False, transpose=True, unitriangular=True"),
    *calls("""
        la_r.triangular_solve(la_a).solution; type(torch.triangular_solve(la_r, la_a)).__name__
        torch.linalg.solve_triangular(la_low, la_0, upper=True)
    """),
]  # fmt: skip
CHOLESKY = [
    *every("torch.linalg.cholesky({x} @ {x}.mT.conj(){u})", x=f"{_SQUARE}; {_EMPTY}", u="; "
      ", upper=True"),
    *every("torch.linalg.cholesky_ex({x} @ {x}.mT.conj(){u})", x="la_a; la_b", u="; , upper=True"),
    *every("torch.cholesky({x} @ {x}.mT.conj(){u})", x="la_a; la_b; la_e", u="; , upper=True; "
      ", True"),
    *every("torch.cholesky_solve({x}{u})", u="; , True; , upper=True",
           x="la_r, la_a; la_rb, la_b; la_r, la_b; la_rb, la_a; la_r, la_tr; la_e3, la_e"),
    *every("torch.cholesky_inverse({x}{u})", x="la_a; la_b; la_tr; la_e; la_be", u="; , True; "
      ", upper=True"),
    *every("torch.{f}torch.linalg.cholesky({x} @ {x}.mT.conj()))", x="la_a; la_b",
           f="cholesky_inverse(; cholesky_solve(la_r, "),
    *calls("""
        (la_a @ la_a.mT.conj()).cholesky(); la_r.cholesky_solve(la_a); la_a.cholesky_inverse()
        torch.linalg.cholesky_ex(la_ind.detach()).info
        torch.linalg.cholesky_ex(la_ind.detach())[0][:1]
        torch.linalg.cholesky(la_eye); type(torch.linalg.cholesky_ex(la_eye)).__name__
        torch.linalg.cholesky(torch.tril(la_a) + 6 * torch.eye(3)).detach()
        torch.linalg.cholesky_ex(la_eye, check_errors=True)
    """),
]  # fmt: skip
LU = [
    *every("torch.linalg.lu({x})", x=f"{_SQUARE}; la_t; la_w; la_bt; {_EMPTY}; la_e3; la_3e; "
      "mat; tran"),
    *every("torch.linalg.lu_factor({x})", x="la_a; la_b; la_t; la_w; la_bt; la_e; la_be"),
    *every("torch.linalg.lu_factor_ex({x})", x="la_a; la_t; la_b; la_low.detach(); "
      "la_some.detach()"),
    *every("torch.linalg.lu({x}).{p}", x="la_a; la_t; la_w; la_bt", p="L; U; P"),
    *every("torch.lu_unpack(*torch.linalg.lu_factor({x}))", x="la_a; la_t; la_w; la_bt"),
    *every("torch.lu_unpack({x}, la_piv{o})", x="la_a; la_t; la_w",
           o="; , unpack_data=False; , unpack_pivots=False"),
    *every("torch.linalg.lu_solve({x}{o})", x="la_a, la_piv, la_r; la_b, la_piv2, la_rb; "
      "la_b, la_piv2, la_r; "
           "la_a, la_piv, la_rb; la_tr, la_piv, la_r", o="; , adjoint=True"),
    *every("torch.linalg.lu_solve({x}, left=False{o})", x="la_a, la_piv, la_up; "
      "la_b, la_piv2, la_up",
           o="; , adjoint=True"),
    *calls("""
        torch.linalg.lu_solve(*torch.linalg.lu_factor(la_a), la_r)
        torch.lu_solve(la_r, la_a, la_piv)
        la_r.lu_solve(la_a, la_piv); torch.lu(la_a); torch.lu(la_b, get_infos=True); la_a.lu()
        type(torch.linalg.lu(la_a)).__name__; type(torch.linalg.lu_factor(la_a)).__name__
        type(torch.lu_unpack(la_a, la_piv)).__name__
        torch.linalg.lu_factor_ex(la_a, check_errors=True)
        torch.linalg.lu(la_low.detach())
    """),
]  # fmt: skip
MANY = [  # matrices, worked on together
    *every("torch.linalg.{f}(la_m)", f="inv; det; slogdet; lu; lu_factor; matrix_exp; pinv"),
    *every("torch.linalg.lu(la_m[..., {s}])", s=":2; :2, :"),
    *every("torch.linalg.solve({x})", x="la_m, la_r; la_m, la_v; la_m, la_up, left=False"),
    *every("torch.linalg.solve_triangular(la_m, {x}, upper={u}, unitriangular={n})",
           x="la_r; la_up, left=False", u="True; False", n="True; False"),
    *every("torch.linalg.lu_solve(*torch.linalg.lu_factor(la_m), {x})",
           x="la_r; la_r, adjoint=True; la_up, left=False; la_up, left=False, adjoint=True"),
    *every("torch.linalg.cholesky(la_m @ la_m.mT.conj(){u})", u="; , upper=True"),
    "torch.linalg.lu_factor_ex((la_m * 0).detach())", "torch.linalg.lu(torch.zeros(13, 3, 3))",
]  # fmt: skip
RANKS = [
    *every("torch.linalg.pinv({x})", x="la_a; la_b; la_t; la_w; la_bt; la_tr; one; la_e; la_be; "
      "la_e3; la_3e; mat"),
    *every("torch.linalg.pinv({x} + {x}.mT.conj(), hermitian=True)", x="la_a; la_b; la_e"),
    *every("torch.linalg.pinv({x})", x="la_low.detach(); la_t, 0.1; la_t, rtol=0.1; "
      "la_t, atol=0.1; "
           "la_t, atol=0.5, rtol=0.1; la_t, rcond=0.2; la_bt, rtol=fsc; la_t, atol=0.0"),
    *every("torch.linalg.matrix_rank({x})", x="la_a; la_b; la_t; la_low; la_0; la_some; "
      "la_low3; la_e; la_be; "
           "la_e3; la_t, 0.5; la_t, tol=0.5; la_t, atol=1.0; la_t, rtol=0.5; "
           "la_low, hermitian=True; "
           "la_low, atol=6.0, hermitian=True; la_some, atol=fsc; la_t, 0.5, False"),
    *every("torch.linalg.cond({x})", x="la_a; la_b; la_t; la_a, 2; la_a, -2; la_b, -2; la_w; "
      "la_eye"),
    *every("torch.linalg.cond({x}, {p})", x="la_a; la_b; la_tr", p="1; -1; INF; -INF; 'fro'; "
      "'nuc'"),
    *every("torch.linalg.cond({x})", x="la_low.detach(), 1; la_0.detach(), 'fro'; la_e; la_be; "
      "la_e, 1; la_be, 'nuc'"),
    *calls("torch.pinverse(la_t); la_t.pinverse(); torch.pinverse(la_t, 0.1)"),
]  # fmt: skip
GROUPS = {
    "determinants": DETERMINANTS, "powers": POWERS, "chains": CHAINS, "solving": SOLVING,
    "triangular": TRIANGULAR, "cholesky": CHOLESKY, "lu": LU, "many": MANY,
    "ranks": RANKS,
}  # fmt: skip
_ONES = (
    "det; slogdet; inv; inv_ex; cholesky; cholesky_ex; lu; lu_factor; lu_factor_ex; matrix_exp; "
    "cond"
)
ERRORS = [
    *every("torch.linalg.{f}({x})", f=_ONES, x="la_i; la_k; vec; sc; 2"),
    *every("torch.linalg.{f}({x})", f="det; slogdet; inv; inv_ex; cholesky; cholesky_ex; lu; "
      "lu_factor; cond", x="la_f16"),
    *every("torch.linalg.{f}({x})", f="det; slogdet; inv; inv_ex; cholesky; cholesky_ex; "
      "matrix_exp", x="mat; la_e3"),
    *every("torch.linalg.{f}({x})", f="pinv; matrix_rank", x="la_i; la_f16; vec; sc"),
    *every("torch.{f}({x})", f="det; slogdet; logdet; inverse; cholesky; cholesky_inverse; "
      "matrix_exp",
           x="la_i; vec; mat"),
    *every("torch.{f}(2)", f="det; slogdet; logdet; inverse; cholesky; cholesky_inverse; pinverse"),
    *every("torch.linalg.{f}({x})", f="solve", x="la_low, la_0; la_some, la_0; "
      "la_some[None], la_0"),
    *every("torch.linalg.{f}({x})", f="inv; cholesky; lu_factor", x="la_0; la_some; la_low; "
      "la_0[None]"),
    *every("torch.linalg.solve({x})", x="la_i, la_i; la_f16, la_f16; la_f32, la_f64; vec, vec; "
      "mat, la_r; "
           "la_a, mat; la_a, mat3, left=False; la_a, sc; la_a, 2; 2, la_a; la_b, la_r4; "
           "la_a, vec2"),
    *every("torch.linalg.solve_triangular({x}, upper=True)", x="la_i, la_i; la_f16, la_f16; "
      "vec, vec; la_a, vec; "
           "mat, la_r; la_a, mat; la_a, 2; 2, la_a; la_b, la_r4"),
    *every("torch.triangular_solve({x})", x="la_i, la_i; la_f32, la_f64; vec, la_a; la_r, vec; "
      "la_r, mat; mat, la_a; 2, la_a; la_a, 2"),
    *every("torch.cholesky_solve({x})", x="la_i, la_i; la_f32, la_f64; vec, la_a; la_r, vec; "
      "la_r, mat; mat, la_a; 2, la_a; la_a, 2"),
    *every("torch.linalg.lu_solve({x})", x="la_i, la_piv[:2], la_i; la_a, la_piv64, la_r; "
      "la_a, la_piv[:2], la_r; "
           "la_b, la_piv, la_r; mat, la_piv, la_r; la_a, la_piv, mat; "
           "la_f32, la_piv[:2], la_f64; la_a, la_piv, vec; la_a, la_piv, 2; "
           "la_f16, la_piv[:2], la_f16"),
    *every("torch.linalg.lstsq({x})", x="la_i, la_i; la_f16, la_f16; la_f32, la_f64; vec, vec; "
      "la_a, mat; la_a, sc; la_a, 2; "
           "la_a, la_r, driver='zz'; la_b, la_r; la_a, la_r4"),
    *calls("""
        torch.linalg.multi_dot(?) <- [mat]; []; mat; [mat, mat]; [mat, vec, mat3]
        torch.linalg.multi_dot(?) <- [la_f32, la_f64]; [cube, mat]; [mat, 2]; [sc, vec]
        torch.chain_matmul(); torch.chain_matmul(vec, mat); torch.chain_matmul(mat, mat)
        torch.linalg.vecdot(?) <- vec, vec2; iv, iv; kv, kv; f32, f64; mat, vec, dim=5; 2, vec
        torch.linalg.vecdot(?) <- mat, mat3
        torch.linalg.matrix_power(?) <- la_a, 1.5; mat, 2; vec, 2; la_i, -1; la_low, -1; 2, 2
        torch.matrix_power(la_a, 'a'); torch.linalg.cond(la_a, 3); torch.linalg.cond(mat, 1)
        torch.linalg.cond(mat, 'fro')
        torch.linalg.cond(la_a, 'x'); torch.linalg.lu(la_a, pivot=False)
        torch.linalg.pinv(mat, hermitian=True)
        torch.linalg.tensorinv(?) <- la_a; la_6, 0; la_236, 1; vec; 2
        torch.linalg.tensorsolve(?) <- la_a, la_a; la_236, la_a; 2, la_a; la_a, 2
        torch.lu_unpack(la_a, la_piv64); torch.cholesky_inverse(la_0); torch.cholesky(la_0)
        torch.cholesky(la_some - 2)
        torch.linalg.inv_ex(la_0, check_errors=True)
        torch.linalg.solve_ex(la_0, la_0, check_errors=True)
        torch.linalg.cholesky_ex(la_0, check_errors=True)
        torch.linalg.lu_factor_ex(la_0, check_errors=True)
        torch.linalg.inv(la_some[None]); torch.linalg.matrix_rank(mat, hermitian=True)
        torch.linalg.matmul(mat, 2); torch.linalg.inv(la_m * (la_v > -5) - la_m)
    """),
]  # fmt: skip

ONLY_OURS = {
    r"cond\(\w+, (-?1|-?INF|'fro')\)": "PyTorch writes over an inverse that it needs, and fails",
    r"det\(la_0\)$": "PyTorch's second derivative is NaN",
    r"det\(la_(low|low3|some)\)$": "PyTorch's gradient of a singular matrix is zero",
    r"unpack_data=False": "PyTorch cannot differentiate what is empty",
    r"cholesky_(inverse|solve)\((?!.*linalg)":
        "the gradient of a factor is zero in the triangle that is not read, and does not depend on "
        "it; PyTorch's is not, and does",
}  # fmt: skip
NOT_COMPLEX = {
    r"det\(la_(low|low3|some|r @ la_r.mT)\)$": "PyTorch divides by a rounding error",
    r"cholesky_(inverse|solve)\((?!.*linalg)": "the diagonal of a factor is real",
    r"la_nan": "NumPy and C multiply what is not a number differently",
}
NO_SLOPE = {
    "cofactor_backward": "the second derivative of a determinant; a third one is refused",
}
SYMMETRIC = {"linalg_cholesky_ex", "cholesky"}
NO_RULE = {("linalg_lu_solve", "pivots"): "they are places"}
OTHER_TRANSFORM = {
    r"^torch\.linalg\.solve\((la_b, la_r|la_1, la_rb|la_1, la_up, left=False)\)$":
        "matrices of unknowns for several systems, as without a batch; PyTorch's vmap takes them "
        "for vectors, which a batch makes them look like",
    r"^(torch|la_r)\.triangular_solve\((?!la_rb, la_a)":
        "the other triangle is not read: that it moves changes nothing, as differences show and "
        "both gradients say; PyTorch's tangent counts it",
    r"cholesky_inverse\(torch\.linalg\.cholesky":
        "our tangent is that of differences; PyTorch's is not",
    r"^torch\.linalg\.cholesky(_ex)?\(la_eye\b":
        "the gradient is that of a symmetric matrix, and our tangent takes the symmetric part of a "
        "direction; PyTorch's takes what it finds below the diagonal",
    r"^torch\.lu_unpack\(la_[atw], la_piv, unpack_(data|pivots)=False\)$":
        "what is not unpacked has no elements; PyTorch's vmap gives it without a batch",
}  # fmt: skip
