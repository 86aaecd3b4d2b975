"""Linear algebra on raw arrays: whatever needs LAPACK. Leading dimensions are batches.

NumPy's own functions work on batches; where they lack something (pivots, error codes, triangular
solves) SciPy's LAPACK is called for each matrix of a batch. SciPy is imported when first needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from retrograd.arrays import _non_finite as non_finite
from retrograd.arrays import _small
from retrograd.arrays._distances import cross as cross
from retrograd.arrays._distances import distances as distances
from retrograd.arrays._distances import euclidean_distances as euclidean_distances
from retrograd.arrays._distances import same_batch
from retrograd.arrays._distances import unequal as unequal
from retrograd.arrays._linalg_errors import LinAlgError as LinAlgError
from retrograd.arrays._linalg_errors import failed, refuse_wrong_blocks
from retrograd.arrays._linalg_errors import refuse_not_positive as refuse_not_positive
from retrograd.arrays._linalg_errors import refuse_singular_inverse as refuse_singular_inverse
from retrograd.arrays._linalg_errors import refuse_singular_solve as refuse_singular_solve
from retrograd.arrays._linalg_errors import refuse_wrong_pivots as refuse_wrong_pivots
from retrograd.arrays._linalg_errors import refuse_zero_block as refuse_zero_block
from retrograd.arrays._linalg_errors import refuse_zero_pivot as refuse_zero_pivot
from retrograd.arrays._numpy import Raw


def first_true(x: Raw) -> Raw:
    """Where along the last axis something is first true, counted from 1; 0 for nowhere."""
    return np.where(x.any(-1), np.argmax(x, -1) + 1, 0) if x.shape[-1] else np.zeros(x.shape[:-1])


# -- for each matrix of a batch --------------------------------------------------------------


@cache
def _routine(library: str, name: str, dtype: np.dtype[Any]) -> Any:
    """A routine of SciPy's BLAS or LAPACK for a dtype."""
    import importlib

    module = importlib.import_module(f"scipy.linalg.{library}")
    prefix = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[dtype.name]
    if name.startswith(("or", "sy")) and dtype.kind == "c":
        name = {"or": "un", "sy": "he"}[name[:2]] + name[2:]
    return getattr(module, prefix + name)


def _each(work: Callable[..., Any], *batches: Raw, depth: int = 2) -> tuple[Raw, ...]:
    """``work`` done on each matrix of some batches, which share their leading dimensions, and its
    results as batches again."""
    batch = batches[0].shape[:-depth]
    if not batch:
        return tuple(np.asarray(x) for x in work(*batches))
    count = math.prod(batch)
    flat = [x.reshape((count, *x.shape[len(batch) :])) for x in batches]
    if not count:
        samples = work(*[np.zeros(x.shape[1:], x.dtype) for x in flat])
        return tuple(np.zeros((*batch, *np.shape(x)), np.asarray(x).dtype) for x in samples)
    results = [work(*pieces) for pieces in zip(*flat, strict=True)]
    stacked = [np.stack(column) for column in zip(*results, strict=True)]
    return tuple(x.reshape((*batch, *x.shape[1:])) for x in stacked)


def _spoiled(x: Raw) -> bool:
    return non_finite.where(x) is not None


def tril(x: Raw, k: int = 0) -> Raw:
    return np.tril(x, k)


def triu(x: Raw, k: int = 0) -> Raw:
    return np.triu(x, k)


def diagonal(x: Raw) -> Raw:
    """The diagonals of matrices, as a view."""
    return np.diagonal(x, axis1=-2, axis2=-1)


def eps(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).eps)


def allclose(x: Raw, y: Raw, rtol: float, atol: float) -> bool:
    return bool(np.allclose(x, y, rtol=rtol, atol=atol))


# -- orthogonal decompositions ---------------------------------------------------------------


def svd(x: Raw, full_matrices: bool) -> tuple[Raw, Raw, Raw]:
    """The decomposition; NaN for a matrix with infinities, and an error for one with NaN."""
    if (bad := non_finite.where(x)) is not None:
        _refuse_nan_in_svd(x)
        result = svd(non_finite.replaced(x, bad), full_matrices)
        u, s, vh = non_finite.marked(bad, *result)
        return u, s, vh
    try:
        u, s, vh = np.linalg.svd(x, full_matrices)
    except np.linalg.LinAlgError:
        raise failed("linalg.svd", 0, x.shape, _NO_SVD) from None
    return u, s, vh


def svdvals(x: Raw) -> Raw:
    if (bad := non_finite.where(x)) is not None:
        _refuse_nan_in_svd(x)
        return non_finite.marked(bad, svdvals(non_finite.replaced(x, bad)))[0]
    try:
        return np.linalg.svd(x, compute_uv=False)
    except np.linalg.LinAlgError:
        raise failed("linalg.svd", 0, x.shape, _NO_SVD) from None


_NO_SVD = (
    "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
    "repeated singular values."
)


def _refuse_nan_in_svd(x: Raw) -> None:
    if (number := non_finite.first_with_nan(x)) is not None:
        raise failed(
            "linalg.svd", number, x.shape,
            "The algorithm failed to converge because the input matrix contained non-finite "
            "values.",
        )  # fmt: skip


def eigh(x: Raw, lower: bool) -> tuple[Raw, Raw]:
    """Values and vectors, NaN for a matrix with infinities, and an error for one with NaN. Only
    one triangle is looked at."""
    triangle = np.tril(x) if lower else np.triu(x)
    if (bad := non_finite.where(triangle)) is not None:
        _refuse_nan_in_eigh(triangle, x.shape[-1] - 1)
        result = eigh(non_finite.replaced(triangle, bad), lower)
        values, vectors = non_finite.marked(bad, *result)
        return values, vectors
    try:
        values, vectors = np.linalg.eigh(x, "L" if lower else "U")
    except np.linalg.LinAlgError:
        raise _eigh_failure(x, 0, x.shape[-1] - 1) from None
    return values, vectors


def eigvalsh(x: Raw, lower: bool) -> Raw:
    triangle = np.tril(x) if lower else np.triu(x)
    if (bad := non_finite.where(triangle)) is not None:
        _refuse_nan_in_eigh(triangle, x.shape[-1] - 2)
        return non_finite.marked(bad, eigvalsh(non_finite.replaced(triangle, bad), lower))[0]
    try:
        return np.linalg.eigvalsh(x, "L" if lower else "U")
    except np.linalg.LinAlgError:
        raise _eigh_failure(x, 0, x.shape[-1] - 2) from None


def _refuse_nan_in_eigh(x: Raw, code: int) -> None:
    number = non_finite.first_with_nan(x)
    if number is not None and x.shape[-1] > 2:  # up to two rows PyTorch finds NaN
        raise _eigh_failure(x, number, code)


def _eigh_failure(x: Raw, number: int, code: int) -> LinAlgError:
    words = (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
        f"many repeated eigenvalues (error code: {code})."
    )
    return failed("linalg.eigh", number, x.shape, words)


def _complex_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype("c8" if dtype.itemsize // (2 if dtype.kind == "c" else 1) == 4 else "c16")


def eig(x: Raw) -> tuple[Raw, Raw]:
    if _spoiled(x):
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    values, vectors = np.linalg.eig(x)
    kind = _complex_of(x.dtype)
    return values.astype(kind), vectors.astype(kind)


def eigvals(x: Raw) -> Raw:
    """The eigenvalues, NaN for a matrix that is not finite. (PyTorch leaves it to LAPACK, which
    may end the process.)"""
    if (bad := non_finite.where(x)) is not None:
        return non_finite.marked(bad, eigvals(non_finite.replaced(x, bad)))[0]
    return np.linalg.eigvals(x).astype(_complex_of(x.dtype))


def qr(x: Raw, mode: str) -> tuple[Raw, Raw]:
    if mode == "r":
        return np.zeros((0,), x.dtype), qr(x, "reduced")[1] if _spoiled(x) else np.linalg.qr(x, "r")
    if _spoiled(x):
        q, r = _each(lambda a: non_finite.qr(a, mode), x)
        return q, r
    q, r = np.linalg.qr(x, mode)  # type: ignore[call-overload]
    return q, r


def geqrf(x: Raw) -> tuple[Raw, Raw]:
    """R above the diagonal, and below it the reflectors that make Q, scaled by ``tau``."""
    if _spoiled(x):
        result, tau = _each(non_finite.geqrf, x)
        return result, tau
    reflectors, tau = np.linalg.qr(x, "raw")
    return np.swapaxes(reflectors, -2, -1), tau


# -- triangular decompositions and solving ---------------------------------------------------


def lu_factor(x: Raw) -> tuple[Raw, Raw, Raw]:
    """L and U in one array, the rows exchanged (counted from 1), and the first zero on U's diagonal
    (0 for none)."""
    size = min(x.shape[-2:])
    if _small.pays(x) or _spoiled(x):
        return _small.lu_factor(x)

    def factor(a: Raw) -> tuple[Raw, Raw, Any]:
        if not size:
            return a.copy(), np.zeros((0,), np.int32), np.int32(0)
        lu, pivots, info = _routine("lapack", "getrf", x.dtype)(a)
        return lu, (pivots + 1).astype(np.int32), np.int32(info)

    lu, pivots, infos = _each(factor, x)
    return lu, pivots, infos


def permutation(pivots: Raw, rows: int) -> Raw:
    """The order of rows that a sequence of exchanges leaves: of A = P L U, where each row of P
    has its one."""
    batch, count = pivots.shape[:-1], math.prod(pivots.shape[:-1])
    flat = pivots.reshape((count, pivots.shape[-1]))
    indices = np.tile(np.arange(rows), (count, 1))
    every = np.arange(count)
    for i in range(flat.shape[1]):
        other = flat[:, i] - 1
        moved = indices[every, other]
        indices[every, other] = indices[:, i]
        indices[:, i] = moved
    return np.argsort(indices, -1).reshape((*batch, rows))


def inverse_order(order: Raw) -> Raw:
    """The permutation that undoes another."""
    return np.argsort(order, axis=-1)


def permutation_matrix(pivots: Raw, rows: int, dtype: np.dtype[Any]) -> Raw:
    return np.eye(rows, dtype=dtype)[permutation(pivots, rows)]


def sign_of_exchanges(pivots: Raw) -> Raw:
    """1 for an even number of exchanges and -1 for an odd one."""
    moved = pivots != np.arange(1, pivots.shape[-1] + 1)
    return 1 - 2 * (np.count_nonzero(moved, axis=-1) % 2)


def product_of_pivots(lu: Raw, pivots: Raw) -> Raw:
    """The determinant, from the factors."""
    return (np.prod(diagonal(lu), -1) * sign_of_exchanges(pivots)).astype(lu.dtype)[()]


def sign_and_log_of_pivots(lu: Raw, pivots: Raw) -> tuple[Raw, Raw]:
    """The sign of the determinant, and the logarithm of its absolute value."""
    on_it = diagonal(lu)
    signs = np.sign(on_it)
    if lu.dtype.kind == "f":
        signs = np.where(np.isnan(signs), 0, signs)  # the sign of NaN is 0, as in PyTorch
    sign = (np.prod(signs, -1) * sign_of_exchanges(pivots)).astype(lu.dtype)
    with np.errstate(divide="ignore"):
        return sign[()], np.log(np.abs(on_it)).sum(-1)


def cofactors(x: Raw) -> Raw:
    """The derivative of the determinant by each element, of singular matrices too."""
    u, s, vh = svd(x, False)
    rotated = _turn(u, vh) * u.conj()
    return np.matmul(rotated * _products_without(s)[..., None, :], vh.conj())


def _turn(u: Raw, vh: Raw) -> Raw:
    """The determinant of the rotations of a singular value decomposition."""
    return (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


def _products_without(s: Raw) -> Raw:
    """For each of some numbers, the product of all others."""
    return np.stack([np.delete(s, i, -1).prod(-1) for i in range(s.shape[-1])], -1)


def cofactor_backward(x: Raw, t: Raw) -> Raw:
    """How the cofactors of ``x`` move with it in the direction of ``t``.

    Turned to where the matrix is diagonal, the determinant is, to second order in what is added,
    a sum over pairs i, j of (t_ii t_jj - t_ij t_ji) times all other values on the diagonal.
    """
    u, s, vh = svd(x, False)
    uh, v = (np.swapaxes(z, -2, -1).conj() for z in (u, vh))
    moved = np.matmul(np.matmul(uh, t), v)
    n = s.shape[-1]
    others = np.zeros((*s.shape, n), s.dtype)  # the products without both i and j
    for i in range(n):
        for j in range(i):
            others[..., i, j] = others[..., j, i] = np.delete(s, (i, j), -1).prod(-1)
    derivative = -others * np.swapaxes(moved, -2, -1)
    rows = np.matmul(others, diagonal(moved)[..., None])[..., 0]
    derivative = derivative + rows[..., None] * np.eye(n, dtype=s.dtype)
    return (_turn(u, vh) * np.matmul(np.matmul(u.conj(), derivative), vh.conj())).astype(x.dtype)


def lu_solve(lu: Raw, pivots: Raw, b: Raw, transposed: int = 0) -> Raw:
    """The solution of A X = B from the factors of A; ``transposed``: of A^T (1) or A^H (2)."""
    lu, b = same_batch(lu, b)
    pivots = np.broadcast_to(pivots, (*lu.shape[:-2], pivots.shape[-1]))
    if not b.size:
        return np.zeros(b.shape, b.dtype)
    refuse_wrong_pivots("torch.linalg.lu_solve: pivots", pivots, lu.shape[-1])
    if _small.pays(lu):
        return _small.lu_solve(lu, permutation(pivots, lu.shape[-1]), b, transposed)
    getrs = _routine("lapack", "getrs", lu.dtype)

    def solve(factors: Raw, right: Raw, exchanges: Raw) -> tuple[Raw]:
        return (getrs(factors, exchanges[0] - 1, right, trans=transposed)[0],)

    return _each(solve, lu, b, pivots[..., None, :])[0]


def inverse(x: Raw) -> tuple[Raw, Raw]:
    """The inverses, infinite where there are none, and where elimination first met a zero."""
    if _spoiled(x):
        return _inverse_by_elimination(x)
    try:
        # That of the transpose, transposed: column by column in memory, as from LAPACK.
        transposed = np.linalg.inv(np.swapaxes(x, -2, -1))
        return np.swapaxes(transposed, -2, -1), np.zeros(x.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        return _inverse_by_elimination(x)


def _inverse_by_elimination(x: Raw) -> tuple[Raw, Raw]:
    lu, pivots, infos = lu_factor(x)
    return lu_solve(lu, pivots, np.eye(lu.shape[-1], dtype=lu.dtype)), infos


def solve_triangular(a: Raw, b: Raw, upper: bool, left: bool, unit: bool) -> Raw:
    """X of A X = B, or of X A = B, for a triangular A."""
    a, b = same_batch(a, b)
    if not b.size:
        return np.zeros(b.shape, b.dtype)
    if _small.pays(a):
        if left:
            return _small.substituted(a, b, upper, unit)
        a, b = (np.swapaxes(x, -2, -1) for x in (a, b))
        return np.swapaxes(_small.substituted(a, b, not upper, unit), -2, -1)
    trsm = _routine("blas", "trsm", a.dtype)
    side, low, diag = int(not left), int(not upper), int(unit)

    def solve(triangle: Raw, right: Raw) -> tuple[Raw]:
        if triangle.flags.c_contiguous and not triangle.flags.f_contiguous:
            # In Fortran's order that is the transpose, of the other triangle: no copy is made.
            return (trsm(1, triangle.T, right, side=side, lower=1 - low, trans_a=1, diag=diag),)
        return (trsm(1, triangle, right, side=side, lower=low, diag=diag),)

    return _each(solve, a, b)[0]


def cholesky(x: Raw, upper: bool) -> tuple[Raw, Raw]:
    """The factor, and the order of the first leading minor that is not positive (0 for none)."""
    if _spoiled(x):
        return _partial_cholesky(x, upper)
    try:
        result = np.linalg.cholesky(x, upper=upper)
        return result, np.zeros(x.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        return _partial_cholesky(x, upper)


def _partial_cholesky(x: Raw, upper: bool) -> tuple[Raw, Raw]:
    """As far as it goes, for each matrix."""
    potrf = _routine("lapack", "potrf", x.dtype)

    def factor(a: Raw) -> tuple[Raw, Any]:
        if not a.size:
            return a.copy(), np.int32(0)
        if not np.isfinite(a).all():
            result, info = non_finite.cholesky(a, upper)
            return result, np.int32(info)
        result, info = potrf(a, lower=int(not upper), clean=1)
        return result, np.int32(info)

    factors, infos = _each(factor, x)
    return factors, infos


def cholesky_solve(b: Raw, factor: Raw, upper: bool) -> Raw:
    factor, b = same_batch(factor, b)
    if not b.size:
        return np.zeros(b.shape, b.dtype)
    potrs = _routine("lapack", "potrs", b.dtype)
    return _each(lambda f, y: (potrs(f, y, lower=int(not upper))[0],), factor, b)[0]


def lstsq(a: Raw, b: Raw, driver: str, rcond: float) -> tuple[Raw, Raw, Raw]:
    """The solution of the least squares, the rank and, where the driver finds them, the singular
    values. All are NaN, and the rank 0, for a matrix with infinities."""
    import scipy.linalg  # type: ignore[import-untyped]

    bad, bad_right = non_finite.where(a), non_finite.where(b)
    if bad is not None or bad_right is not None:
        return _spoiled_lstsq(a, b, driver, rcond, bad, bad_right)
    m, n = a.shape[-2:]
    k, columns = min(m, n), b.shape[-1]
    real = np.real(a).dtype
    method = "gelsd" if driver == "gels" else driver

    def solve(x: Raw, y: Raw) -> tuple[Raw, Any, Raw]:
        if not x.size or not y.size:
            return np.zeros((n, columns), a.dtype), np.int64(0), np.zeros(k, real)
        result, _, rank, values = scipy.linalg.lstsq(
            x, y, cond=rcond, lapack_driver=method, check_finite=False
        )
        return result, np.int64(rank), np.zeros(k, real) if values is None else values

    solution, rank, values = _each(solve, a, b)
    return solution, rank, values


def _spoiled_lstsq(
    a: Raw, b: Raw, driver: str, rcond: float, bad: Raw | None, bad_right: Raw | None
) -> tuple[Raw, Raw, Raw]:
    """Least squares where matrices or right sides are not finite."""
    for x in (a, b):
        if (number := non_finite.first_with_nan(x)) is not None:
            words = (
                "The least squares solution could not be computed because the input contained NaN."
            )
            raise failed("torch.linalg.lstsq", number, x.shape, words)
    none = np.zeros(a.shape[:-2], bool)
    bad = none if bad is None else bad
    either = bad if bad_right is None else bad | bad_right
    cleaned = non_finite.replaced(a, bad), non_finite.replaced(b, either)
    solution, rank, values = lstsq(*cleaned, driver, rcond)
    non_finite.marked(either, solution)
    non_finite.marked(bad, values)
    return solution, rank, values


def pinv(x: Raw, atol: Raw, rtol: Raw, hermitian: bool) -> Raw:
    """The pseudo-inverse, of singular values above a tolerance."""
    if not x.size:
        return np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    if hermitian:
        values, v = eigh(x, True)
        inverse = _inverted(values, atol, rtol)
        return np.matmul(v * inverse[..., None, :], np.swapaxes(v, -2, -1).conj())
    u, values, vh = svd(x, False)
    inverse = _inverted(values, atol, rtol)
    left = np.swapaxes(vh, -2, -1).conj() * inverse[..., None, :]
    return np.matmul(left, np.swapaxes(u, -2, -1).conj())


def _inverted(values: Raw, atol: Raw, rtol: Raw) -> Raw:
    """One over each value, and zero for those that count as zero."""
    counts = _above(values, atol, rtol)
    return np.where(counts, 1 / np.where(counts, values, 1), 0).astype(values.dtype)


def _above(values: Raw, atol: Raw, rtol: Raw) -> Raw:
    sizes = np.abs(values)
    limit = np.maximum(atol, rtol * sizes.max(-1, initial=0))
    return sizes > limit[..., None]


def rank(x: Raw, atol: Raw, rtol: Raw, hermitian: bool) -> Raw:
    if not x.size:
        return np.zeros(x.shape[:-2], np.int64)
    values = eigvalsh(x, True) if hermitian else svdvals(x)
    return np.count_nonzero(_above(values, atol, rtol), axis=-1)


def expm(x: Raw) -> Raw:
    """The exponential of square matrices."""
    import scipy.linalg

    if not x.size:
        return x.copy()
    if (bad := non_finite.where(x)) is not None:
        return non_finite.marked(bad, expm(non_finite.replaced(x, bad)))[0]
    if x.dtype == np.float16:
        return expm(x.astype(np.float32)).astype(np.float16)
    return np.asarray(scipy.linalg.expm(x), x.dtype)


def ldl_factor(x: Raw, hermitian: bool) -> tuple[Raw, Raw, Raw]:
    """L and D in one lower triangle, the exchanges as LAPACK notes them, and the first zero block
    of D (0 for none)."""
    routine = _symmetric_routine("trf", x.dtype, hermitian)

    def factor(a: Raw) -> tuple[Raw, Raw, Any]:
        if not len(a):
            return a.copy(), np.zeros((0,), np.int32), np.int32(0)
        ld, pivots, info = routine(np.tril(a), lower=1)
        return np.tril(ld), pivots.astype(np.int32), np.int32(info)

    ld, pivots, infos = _each(factor, x)
    return ld, pivots, infos


def ldl_solve(ld: Raw, pivots: Raw, b: Raw, hermitian: bool) -> Raw:
    """The solution of the equations whose matrix ``ldl_factor`` has factored, computed as LAPACK's
    ``sytrs2`` does (SciPy has ``sytrs`` only since version 1.15)."""
    batch = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
    ld, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (ld, b))
    if not b.size:
        return np.zeros(b.shape, b.dtype)
    refuse_wrong_blocks(pivots, ld.shape[-1])
    order = np.broadcast_to(pivots, (*batch, pivots.shape[-1])).astype(np.int32)
    convert = _symmetric_routine("conv", ld.dtype, hermitian=False)
    trsm = _routine("blas", "trsm", ld.dtype)
    transposed = 2 if hermitian else 1

    def solve(a: Raw, row: Raw, right: Raw) -> tuple[Raw]:
        factor, below, _ = convert(a, row[0], lower=1)
        rows, starts = _ldl_exchanges(row[0])
        x = trsm(1, factor, right[rows], lower=1, diag=1)
        x = _divided_by_blocks(factor.diagonal(), below, starts, x, hermitian)
        result = np.empty_like(x)
        result[rows] = trsm(1, factor, x, lower=1, diag=1, trans_a=transposed)
        return (result,)

    return _each(solve, ld, order[..., None, :], b)[0]


def _ldl_exchanges(pivots: Raw) -> tuple[Raw, list[int]]:
    """The order of the rows after all exchanges, and where the 2×2 blocks of D begin."""
    rows, starts, k = np.arange(len(pivots)), [], 0
    while k < len(pivots):
        if pivots[k] < 0:  # the same number for both rows of a block: the second is exchanged
            starts.append(k)
            k += 1
        other = abs(pivots[k]) - 1
        rows[[k, other]] = rows[[other, k]]
        k += 1
    return rows, starts


def _divided_by_blocks(
    diagonal: Raw, below: Raw, starts: list[int], b: Raw, hermitian: bool
) -> Raw:
    """The solution for a matrix of blocks of size 1 and 2, scaled as in LAPACK against overflow."""
    first = np.asarray(starts, np.intp)
    second = first + 1
    single = np.ones(len(diagonal), bool)
    single[first] = single[second] = False
    x = np.empty_like(b)
    x[single] = b[single] / diagonal[single, None]
    lower = below[first, None]
    upper = lower.conj() if hermitian else lower
    p, q = diagonal[first, None] / upper, diagonal[second, None] / lower
    top, bottom = b[first] / upper, b[second] / lower
    x[first] = (q * top - bottom) / (p * q - 1)
    x[second] = (p * bottom - top) / (p * q - 1)
    return x


def _symmetric_routine(name: str, dtype: np.dtype[Any], hermitian: bool) -> Any:
    if dtype.kind == "c" and not hermitian:
        from scipy.linalg import lapack

        return getattr(lapack, {"complex64": "c", "complex128": "z"}[dtype.name] + "sy" + name)
    return _routine("lapack", f"sy{name}", dtype)
