"""Lowerings of linear algebra. Leading dimensions are batches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as scipy_linalg
from jax import lax
from jax.lax import linalg

from retrograd.compiler._program import Line
from retrograd.compiler.xla._table import lowering, on_host, trust

PRECISE = lax.Precision.HIGHEST

on_host("XLA does not provide LAPACK's drivers",
        "linalg_lstsq", "linalg_ldl_factor_ex", "linalg_ldl_solve")  # fmt: skip
on_host("XLA does not return Householder reflectors", "geqrf")


def _matmul(x: Any, y: Any) -> Any:
    return jnp.matmul(x, y, precision=PRECISE)


def _adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -2, -1))


def _same_batch(x: Any, y: Any) -> tuple[Any, Any]:
    batch = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return (
        jnp.broadcast_to(x, (*batch, *x.shape[-2:])),
        jnp.broadcast_to(y, (*batch, *y.shape[-2:])),
    )


# -- triangular factors ----------------------------------------------------------------------


@lowering("linalg_solve_triangular")
def _solve_triangular(
    a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    a, b = _same_batch(a, b)
    if not b.size:
        return jnp.zeros(b.shape, b.dtype)
    return linalg.triangular_solve(
        a, b, left_side=left, lower=not upper, unit_diagonal=unitriangular
    )


@lowering("linalg_cholesky_ex")
def _cholesky(x: Any, upper: bool = False) -> tuple[Any, Any]:
    lower = _adjoint(x) if upper else x
    factor = linalg.cholesky(lower, symmetrize_input=False)
    trust(jnp.isfinite(factor))
    return _adjoint(factor) if upper else factor, jnp.zeros(x.shape[:-2], "int32")


@lowering("cholesky_solve")
def _cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    factor, b = _same_batch(factor, b)
    if not b.size:
        return jnp.zeros(b.shape, b.dtype)
    factor = _adjoint(factor) if upper else factor
    half = linalg.triangular_solve(factor, b, left_side=True, lower=True)
    return linalg.triangular_solve(
        factor, half, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )


def _lu(x: Any) -> tuple[Any, Any, Any]:
    """Both LU factors in one matrix, the pivots (from 1), and the position of the first zero on the
    diagonal (from 1; 0 if there is none)."""
    if not x.size:
        size = min(x.shape[-2:])
        zeros = jnp.zeros(x.shape[:-2], "int32")
        return x, jnp.zeros((*x.shape[:-2], size), "int32"), zeros
    trust(jnp.isfinite(x))
    lu, pivots, _ = linalg.lu(x)
    zero = jnp.diagonal(lu, axis1=-2, axis2=-1) == 0
    info = jnp.where(zero.any(-1), jnp.argmax(zero, -1) + 1, 0)
    return lu, pivots + 1, info


@lowering("linalg_lu_factor_ex")
def _lu_factor(A: Any, pivot: bool = True) -> tuple[Any, Any, Any]:  # noqa: N803 - its name
    return _lu(A)


def _order(pivots: Any, rows: int) -> Any:
    """The permutation of rows in A = P L U: for each row of A, its row in L U."""
    if not pivots.size:
        return jnp.broadcast_to(jnp.arange(rows), (*pivots.shape[:-1], rows))
    order = linalg.lu_pivots_to_permutation(pivots.astype("int32") - 1, rows)
    return jnp.argsort(order, -1)


@lowering("order_of_rows")
def _order_of_rows(pivots: Any, rows: int, inverse: bool) -> Any:
    order = _order(pivots, rows)
    return jnp.argsort(order, -1) if inverse else order


@lowering("permutation_matrix")
def _permutation_matrix(pivots: Any, rows: int, dtype: Any) -> Any:
    return jnp.eye(rows, dtype=dtype)[_order(pivots, rows)]


def _lu_solve(lu: Any, pivots: Any, b: Any) -> Any:
    lu, b = _same_batch(lu, b)
    if not b.size:
        return jnp.zeros(b.shape, b.dtype)
    n = lu.shape[-1]
    order = jnp.argsort(_order(pivots, n), -1)
    order = jnp.broadcast_to(order, (*b.shape[:-2], n))
    moved = jnp.take_along_axis(b, order[..., None], -2)
    half = linalg.triangular_solve(lu, moved, left_side=True, lower=True, unit_diagonal=True)
    return linalg.triangular_solve(lu, half, left_side=True, lower=False)


@lowering("linalg_solve_ex")
def _solve(A: Any, B: Any, left: bool = True) -> Any:  # noqa: N803
    lu, pivots, info = _lu(A)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    right = B[..., None] if vector else B
    if left:
        solution = _lu_solve(lu, pivots, right)
    else:
        factors, exchanges, _ = _lu(jnp.swapaxes(A, -2, -1))
        transposed = _lu_solve(factors, exchanges, jnp.swapaxes(right, -2, -1))
        solution = jnp.swapaxes(transposed, -2, -1)
    return (solution[..., 0] if vector else solution), lu, pivots, info


@lowering("linalg_inv_ex")
def _inverse(A: Any) -> tuple[Any, Any]:  # noqa: N803
    lu, pivots, info = _lu(A)
    return _lu_solve(lu, pivots, jnp.eye(A.shape[-1], dtype=A.dtype)), info


# -- determinants ----------------------------------------------------------------------------


def _sign_of_exchanges(pivots: Any) -> Any:
    moved = pivots != jnp.arange(1, pivots.shape[-1] + 1)
    return 1 - 2 * (jnp.sum(moved, -1) % 2)


@lowering("linalg_det")
def _det(A: Any) -> Any:  # noqa: N803
    lu, pivots, _ = _lu(A)
    on_it = jnp.diagonal(lu, axis1=-2, axis2=-1)
    return jnp.prod(on_it, -1) * _sign_of_exchanges(pivots), lu, pivots


@lowering("linalg_slogdet")
def _slogdet(A: Any) -> Any:  # noqa: N803
    lu, pivots, _ = _lu(A)
    on_it = jnp.diagonal(lu, axis1=-2, axis2=-1)
    signs = jnp.sign(on_it)
    if A.dtype.kind == "f":
        signs = jnp.where(jnp.isnan(on_it), 0, signs)
    sign = jnp.prod(signs, -1) * _sign_of_exchanges(pivots)
    return sign, jnp.sum(jnp.log(jnp.abs(on_it)), -1), lu, pivots


def _orientation(u: Any, vh: Any) -> Any:
    """The product of the determinants of both orthogonal factors of a singular value
    decomposition."""
    return (_det(u)[0] * _det(vh)[0])[..., None, None]


def _products_without(s: Any, left_out: Any) -> Any:
    n = s.shape[-1]
    kept = [i for i in range(n) if i not in left_out]
    return jnp.prod(s[..., jnp.asarray(kept, "int32")], -1) if kept else jnp.ones(s.shape[:-1])


@lowering("cofactors")
def _cofactors(A: Any) -> Any:  # noqa: N803
    u, s, vh = _svd(A, False)
    others = jnp.stack([_products_without(s, (i,)) for i in range(s.shape[-1])], -1)
    return _matmul(_orientation(u, vh) * jnp.conj(u) * others[..., None, :], jnp.conj(vh))


@lowering("cofactor_backward")
def _cofactor_backward(A: Any, t: Any) -> Any:  # noqa: N803
    u, s, vh = _svd(A, False)
    moved = _matmul(_matmul(_adjoint(u), t), _adjoint(vh))
    n = s.shape[-1]
    zero = jnp.zeros(s.shape[:-1], s.dtype)
    others = jnp.stack([
        jnp.stack([zero if i == j else _products_without(s, (i, j)) for j in range(n)], -1)
        for i in range(n)
    ], -2)  # fmt: skip
    slope = -others * jnp.swapaxes(moved, -2, -1)
    on_it = jnp.diagonal(moved, axis1=-2, axis2=-1)
    rows = _matmul(others.astype(moved.dtype), on_it[..., None])[..., 0]
    slope = slope + rows[..., None] * jnp.eye(n, dtype=s.dtype)
    return _orientation(u, vh) * _matmul(_matmul(jnp.conj(u), slope), jnp.conj(vh))


# -- orthogonal factors ----------------------------------------------------------------------


@lowering("linalg_svd")
def _svd(A: Any, full_matrices: bool) -> Any:  # noqa: N803
    trust(jnp.isfinite(A))
    return linalg.svd(A, full_matrices=full_matrices)


@lowering("linalg_eigh")
def _eigh(A: Any, UPLO: str) -> Any:  # noqa: N803
    half = jnp.tril(A) if UPLO == "L" else _adjoint(jnp.triu(A))
    trust(jnp.isfinite(half))
    vectors, values = linalg.eigh(half, lower=True, symmetrize_input=False)
    return values, vectors


@lowering("linalg_eig")
def _eig(A: Any) -> Any:  # noqa: N803
    trust(jnp.isfinite(A))
    values, vectors = linalg.eig(A, compute_left_eigenvectors=False)
    return values, vectors


@lowering("linalg_qr")
def _qr(A: Any, mode: str, line: Line) -> Any:  # noqa: N803
    trust(jnp.isfinite(A))
    q, r = linalg.qr(A, full_matrices=mode == "complete")
    return (jnp.zeros((0,), A.dtype) if mode == "r" else q), r


@lowering("linalg_matrix_exp")
def _matrix_exp(x: Any) -> Any:
    if not x.size:
        return x
    trust(jnp.isfinite(x))
    rows = x.reshape(-1, *x.shape[-2:])
    rows = rows.astype("float32") if x.dtype == "float16" else rows
    return jax.vmap(scipy_linalg.expm)(rows).reshape(x.shape)


# -- ranks -----------------------------------------------------------------------------------


def _above(values: Any, atol: Any, rtol: Any) -> Any:
    sizes = jnp.abs(values)
    limit = jnp.maximum(atol, rtol * jnp.max(sizes, -1, initial=0))
    return sizes > limit[..., None]


@lowering("linalg_pinv")
def _pinv(x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    if not x.size:
        return jnp.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    if hermitian:
        values, v = _eigh(x, "L")
        u, vh = v, _adjoint(v)
    else:
        u, values, vh = _svd(x, False)
    counts = _above(values, atol, rtol)
    inverse = jnp.where(counts, 1 / jnp.where(counts, values, 1), 0)
    return _matmul(_adjoint(vh) * inverse[..., None, :], _adjoint(u))


@lowering("matrix_rank")
def _matrix_rank(x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    if not x.size:
        return jnp.zeros(x.shape[:-2], "int64")
    if hermitian:
        values = linalg.eigh(jnp.tril(x), symmetrize_input=False)[1]
    else:
        values = linalg.svd(x, compute_uv=False)
    return jnp.sum(_above(values, atol, rtol), -1)


