"""Sums, minima, maxima and cumulative sums along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.arrays._memory import in_reading_order
from retrograd.arrays._numpy import Raw, copy, float32, float64

Axes = int | tuple[int, ...] | None


def wide(x: Raw) -> Raw:
    """``x`` in a dtype that sums can be kept in: half precision is too narrow for that."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def sum_all(x: Raw) -> Raw:
    if x.size >= 8 * _LONGEST and x.dtype in _ONES and x.flags.c_contiguous:
        return _sum_of_sums(x.reshape(-1))
    return np.add.reduce(x, None)


def sum_of_products(a: Raw, b: Raw) -> Raw:
    """The sum of ``a * b`` along the second axis, without an array of the products."""
    return np.einsum("ij...,ij...->i...", a, b)


def sum(x: Raw, axes: Axes = None, keepdims: Any = False, dtype: Any = None) -> Raw:
    """Sums along axes. Long ones of floats are products with ones, which BLAS does several times
    faster than NumPy adds."""
    if (
        x.size >= _LONGEST
        and x.ndim == 2
        and x.dtype in _ONES
        and axes in ((0,), (1,))
        and dtype is None
        and x.flags.c_contiguous
    ):
        short = x.shape[axes[0]] <= _LONGEST
        if axes == (1,):
            sums = x @ _ONES[x.dtype][: x.shape[1]] if short else np.add.reduce(x, 1)
            return sums[:, None] if keepdims else sums
        if short:
            sums = _ONES[x.dtype][: x.shape[0]] @ x
            return sums[None] if keepdims else sums
    if x.dtype.char == "e" and dtype is None:  # too narrow to add up in
        return np.add.reduce(x, axis=axes, keepdims=keepdims, dtype=float32).astype(x.dtype)
    return _in_rows(np.add.reduce(x, axis=axes, keepdims=keepdims, dtype=dtype))


def _in_rows(reduced: Raw) -> Raw:
    """A result row by row in memory, as PyTorch has it. NumPy orders it as its input is."""
    return reduced if reduced.ndim < 2 or reduced.flags.c_contiguous else reduced.copy(order="C")


# What one product with ones adds up. BLAS adds in a few running sums, whose rounding errors grow
# with their length, so long rows are cut and the parts added up pairwise.
_LONGEST = 4096
_ONES = {d: np.ones(_LONGEST, d) for d in (float32, float64)}


def _sum_of_sums(x: Raw) -> Raw:
    """The sum of a long vector, by sums of stretches of it."""
    whole = x.size - x.size % 1024
    sums = x[:whole].reshape(-1, 1024) @ _ONES[x.dtype][:1024]
    return np.add.reduce(sums) + np.add.reduce(x[whole:])


def sum_to(x: Raw, shape: Sequence[int]) -> Raw:
    """``x`` summed over the dimensions that broadcasting from ``shape`` to its own had added."""
    shape, sizes = tuple(shape), x.shape
    added = len(sizes) - len(shape)
    if not added:
        axes = tuple([d for d, s in enumerate(shape) if s == 1 and sizes[d] != 1])
        return sum(x, axes, True) if axes else x
    front = tuple(range(added))
    if sizes[added:] == shape:  # a bias
        return x[0] if added == 1 and sizes[0] == 1 else sum(x, front)
    rest = [added + d for d, s in enumerate(shape) if s == 1 and sizes[added + d] != 1]
    return sum(x, (*front, *rest)).reshape(shape)


def prod(x: Raw, axes: Axes = None, keepdims: Any = False) -> Raw:
    return _in_rows(np.multiply.reduce(x, axis=axes, keepdims=keepdims))


def amax(x: Raw, axes: Axes = None, keepdims: Any = False) -> Raw:
    return _in_rows(np.maximum.reduce(x, axis=axes, keepdims=keepdims))


def amin(x: Raw, axes: Axes = None, keepdims: Any = False) -> Raw:
    return _in_rows(np.minimum.reduce(x, axis=axes, keepdims=keepdims))


def any(x: Raw, axes: Axes = None, keepdims: bool = False) -> Raw:
    return _in_rows(np.any(x, axis=axes, keepdims=keepdims))


def all(x: Raw, axes: Axes = None, keepdims: bool = False) -> Raw:
    return _in_rows(np.all(x, axis=axes, keepdims=keepdims))


def argmax(x: Raw, axis: int | None = None, keepdims: bool = False) -> Raw:
    return np.argmax(x, axis=axis, keepdims=keepdims)


def argmin(x: Raw, axis: int | None = None, keepdims: bool = False) -> Raw:
    return np.argmin(x, axis=axis, keepdims=keepdims)


def are_indices(x: Raw, size: int) -> bool:
    """Whether all integers, of which there are some, are indices from the front of ``size``
    elements."""
    if x.dtype.kind == "i":  # as unsigned numbers, negative ones are larger than any size
        x = x.view(_UNSIGNED[x.dtype.itemsize])
    return bool(np.maximum.reduce(x, None) < size)


_UNSIGNED = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def cumsum(x: Raw, axis: int) -> Raw:
    if x.size >= _LONGEST and x.dtype in _ONES:
        from retrograd.arrays import _statistics

        return _statistics.cumsum(x, axis, False)
    if x.dtype.char == "e":  # too narrow to add up in
        return cumsum(x.astype(float32), axis).astype(x.dtype)
    return in_reading_order(np.cumsum(x, axis=axis)) if np.ndim(x) else copy(x)


def cumsum_from_end(x: Raw, axis: int) -> Raw:
    """For each element, the sum of it and all that follow along ``axis``."""
    if x.size >= _LONGEST and x.dtype in _ONES:
        from retrograd.arrays import _statistics

        return _statistics.cumsum(x, axis, True)
    return flip(np.cumsum(np.flip(x, axis), axis=axis), axis) if np.ndim(x) else copy(x)


def flip(x: Raw, axes: Axes) -> Raw:
    """A copy with the elements in reverse order along ``axes``."""
    return np.array(np.flip(x, axes), order="C")


