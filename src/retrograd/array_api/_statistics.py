"""Statistical, cumulative and linear algebra functions of the array API."""

# ruff: noqa: A001 - the standard's names

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import retrograd as torch
from retrograd.array_api._dtypes import SIGNED, UNSIGNED, Array
from retrograd.array_api._elements import pair
from retrograd.numpy_protocols import _arguments, _reductions

__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "matmul", "matrix_transpose", "max", "mean",
    "min", "prod", "std", "sum", "tensordot", "var", "vecdot",
]  # fmt: skip

Axis = int | tuple[int, ...] | None


def _fresh(result: Array) -> Array:
    """A result that may be written to: a copy, if its derivative may need it."""
    return result.clone() if result.requires_grad else result


def _total_dtype(x: Array, dtype: Any) -> Any:
    """The dtype of sums: integers are added in the widest of their kind."""
    if dtype is not None:
        return dtype
    if x.dtype in UNSIGNED:
        return torch.uint64
    return torch.int64 if x.dtype in (*SIGNED, torch.bool) else x.dtype


def sum(x: Array, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum of elements."""
    return _reductions.sum(x, axis, _total_dtype(x, dtype), None, keepdims)


def prod(x: Array, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product of elements."""
    kind = _total_dtype(x, dtype)
    return _fresh(_reductions.prod(x.to(kind), axis, None, None, keepdims).to(kind))


def cumulative_sum(x: Array, /, *, axis: int | None = None, dtype: Any = None,
                   include_initial: bool = False) -> Array:  # fmt: skip
    """The sums of all elements up to each, along an axis."""
    return _reductions.cumulative_sum(
        x, axis=axis, dtype=_total_dtype(x, dtype), include_initial=include_initial
    )


def cumulative_prod(x: Array, /, *, axis: int | None = None, dtype: Any = None,
                    include_initial: bool = False) -> Array:  # fmt: skip
    """The products of all elements up to each, along an axis."""
    return _reductions.cumulative_prod(
        x, axis=axis, dtype=_total_dtype(x, dtype), include_initial=include_initial
    )


def mean(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The arithmetic mean."""
    return _reductions.mean(x, axis, None, None, keepdims)


def var(x: Array, /, *, axis: Axis = None, correction: float = 0.0,
        keepdims: bool = False) -> Array:  # fmt: skip
    """The variance: the sum of squares over the number of elements less ``correction``."""
    return _reductions.var(x, axis, None, None, correction, keepdims)


def std(x: Array, /, *, axis: Axis = None, correction: float = 0.0,
        keepdims: bool = False) -> Array:  # fmt: skip
    """The standard deviation."""
    return _fresh(_reductions.std(x, axis, None, None, correction, keepdims))


def max(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The largest element."""
    return _fresh(_reductions.max(x, axis, None, keepdims))


def min(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The smallest element."""
    return _fresh(_reductions.min(x, axis, None, keepdims))


def _truth(function: Callable[..., Any], x: Array, axis: Axis, keepdims: bool) -> Array:
    return _arguments.along_one(function, x != 0, axis, keepdims)


def all(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether all elements are true, or not zero."""
    return _truth(torch.all, x, axis, keepdims)


def any(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether any element is true, or not zero."""
    return _truth(torch.any, x, axis, keepdims)


# -- products --------------------------------------------------------------------------------


def matmul(x1: Array, x2: Array, /) -> Array:
    """The product of matrices."""
    return torch.matmul(*pair("matmul", x1, x2))


def matrix_transpose(x: Array, /) -> Array:
    """Matrices transposed."""
    if x.ndim < 2:
        raise ValueError("matrix_transpose: expected an array of at least two dimensions")
    return x.mT


def tensordot(x1: Array, x2: Array, /, *, axes: Any = 2) -> Array:
    """The sum of products over axes of two arrays."""
    x1, x2 = pair("tensordot", x1, x2)
    return torch.tensordot(x1, x2, axes if isinstance(axes, int) else [list(a) for a in axes])


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Inner products along an axis, the first vector conjugated."""
    x1, x2 = pair("vecdot", x1, x2)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError("vecdot: expected vectors of the same size")
    return (torch.conj(torch.movedim(x1, axis, -1)) * torch.movedim(x2, axis, -1)).sum(
        -1, dtype=x1.dtype
    )
