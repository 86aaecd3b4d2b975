"""``linalg`` of the array API."""

from __future__ import annotations

from typing import Any

import retrograd as torch
from retrograd.array_api._dtypes import Array
from retrograd.array_api._elements import pair
from retrograd.array_api._statistics import (
    _total_dtype,
    matmul,
    matrix_transpose,
    tensordot,
    vecdot,
)
from retrograd.numpy_protocols import _linalg

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The triangular factor of positive definite matrices."""
    return torch.linalg.cholesky(x, upper=upper)


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Cross products of vectors of three elements."""
    x1, x2 = pair("cross", x1, x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError("cross: expected vectors of 3 elements")
    return torch.linalg.cross(*torch.broadcast_tensors(x1, x2), dim=axis)


def det(x: Array, /) -> Array:
    """Determinants."""
    return torch.linalg.det(x)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices."""
    return torch.diagonal(x, offset, -2, -1)


def eigh(x: Array, /) -> Any:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    return torch.linalg.eigh(x)


def eigvalsh(x: Array, /) -> Array:
    """Eigenvalues of symmetric or Hermitian matrices."""
    return torch.linalg.eigvalsh(x)


def inv(x: Array, /) -> Array:
    """Inverse matrices."""
    return torch.linalg.inv(x)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Norms of matrices."""
    return torch.linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x: Array, n: int, /) -> Array:
    """Powers of matrices."""
    return torch.linalg.matrix_power(x, n)


def matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    """Ranks of matrices: how many singular values exceed ``rtol`` times the largest."""
    if x.ndim < 2:
        raise ValueError("matrix_rank: expected an array of at least two dimensions")
    return torch.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Array, x2: Array, /) -> Array:
    """The products of all pairs of elements of two vectors."""
    x1, x2 = pair("outer", x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError("outer: expected vectors")
    return x1[:, None] * x2


def pinv(x: Array, /, *, rtol: Any = None) -> Array:
    """Pseudo-inverse matrices."""
    return torch.linalg.pinv(x, rtol=rtol)


def qr(x: Array, /, *, mode: str = "reduced") -> Any:
    """Orthogonal and upper triangular factors."""
    return torch.linalg.qr(x, mode)


def slogdet(x: Array, /) -> Any:
    """Signs of determinants, and logarithms of their absolute values."""
    return torch.linalg.slogdet(x)


def solve(x1: Array, x2: Array, /) -> Array:
    """Solutions of linear equations. ``x2`` is a vector if it has one dimension."""
    return _linalg.solve(*pair("solve", x1, x2))


def svd(x: Array, /, *, full_matrices: bool = True) -> Any:
    """Singular values and vectors."""
    return torch.linalg.svd(x, full_matrices)


def svdvals(x: Array, /) -> Array:
    """Singular values."""
    return torch.linalg.svdvals(x)


def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Sums of diagonals."""
    return diagonal(x, offset=offset).sum(-1, dtype=_total_dtype(x, dtype))


def vector_norm(x: Array, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """Norms of vectors along axes, by default of all elements."""
    if axis == ():  # each element is a vector
        return vector_norm(x[..., None], axis=-1, ord=ord)
    return _linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
