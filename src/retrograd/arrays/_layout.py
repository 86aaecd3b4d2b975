"""Memory layout: strided views such as windows and diagonals, and copies in another order."""

from __future__ import annotations

import math
import mmap
import sys
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided as numpy_as_strided

from retrograd.arrays._memory import empty_strided, in_reading_order, is_dense
from retrograd.arrays._numpy import Raw, copy, writable

# -- views -----------------------------------------------------------------------------------


def diagonal(x: Raw, offset: int, axis1: int, axis2: int) -> Raw:
    """The diagonal of two dimensions as the last one: a view, as writable as ``x``."""
    result = x.diagonal(offset, axis1, axis2)
    if x.flags.writeable:
        result.flags.writeable = True
    return result


def trace(x: Raw) -> Raw:
    """The sum of the diagonal of the last two dimensions."""
    return np.trace(x, axis1=-2, axis2=-1)


def tril(x: Raw, k: int) -> Raw:
    """``x`` with zeros above the ``k``-th diagonal."""
    return in_reading_order(np.where(_known_triangle(x.shape[-2], x.shape[-1], k), x, _zero(x)))


def triu(x: Raw, k: int) -> Raw:
    """``x`` with zeros below the ``k``-th diagonal."""
    below = _known_triangle(x.shape[-2], x.shape[-1], k - 1)
    return in_reading_order(np.where(below, _zero(x), x))


def _zero(x: Raw) -> Raw:
    return np.zeros((), x.dtype)


def _known_triangle(rows: int, columns: int, k: int) -> Raw:
    return (_small_triangle if rows * columns <= _SMALL else _triangle)(rows, columns, k)


def _triangle(rows: int, columns: int, k: int) -> Raw:
    return np.tri(rows, columns, k, bool)


_SMALL = 1 << 16  # elements that it is worth while to keep
_small_triangle = lru_cache(maxsize=64)(_triangle)


def fill_diagonal(x: Raw, value: Raw, wrap: bool) -> None:
    """Overwrite the diagonal; of a tall matrix, on request, again after each square."""
    np.fill_diagonal(x, value, wrap)


def unfold(x: Raw, axis: int, size: int, step: int) -> Raw:
    """All windows of ``size`` along ``axis``, ``step`` apart, as a new last dimension: a view."""
    x = writable(x)
    if not x.ndim:
        return numpy_as_strided(x, (size,), (x.itemsize,))
    shape, steps = list(x.shape), list(x.strides)
    shape[axis] = (shape[axis] - size) // step + 1
    steps[axis] *= step
    steps.append(x.strides[axis])
    if x.flags.c_contiguous and x.flags.writeable:  # the same, without the checks
        return np.ndarray((*shape, size), x.dtype, x, 0, steps)
    return numpy_as_strided(x, (*shape, size), steps)


def add_windows(shape: tuple[int, ...], windows: Raw, axis: int, size: int, step: int) -> Raw:
    """Zeros of ``shape`` to which windows as ``unfold`` makes them are added where they overlap."""
    out = np.zeros(shape, windows.dtype)
    if not shape:
        return out + windows.sum() if size else out
    count = windows.shape[axis]
    for n in range(size):  # the n-th elements of all windows, which are different indices
        part = (slice(None),) * axis + (slice(n, n + step * (count - 1) + 1, step),)
        out[part] += windows[..., n]
    return out


class _Layout:
    """A layout of memory, for NumPy to make an array of; keeps the owner of the memory alive."""

    def __init__(self, interface: dict[str, Any], owner: Raw) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def _in(layout: _Layout, dtype: np.dtype[Any]) -> Raw:
    """The array of a layout. What NumPy is told of bfloat16 is only that it has two bytes."""
    array: Raw = np.asarray(layout)
    return array.view(dtype) if dtype.kind == "V" else array


class _Start(_Layout):
    """A layout that is a memory by itself, whatever else its owner has."""


def memory(x: Raw) -> Raw:
    """The memory that ``x`` is part of: what PyTorch calls its storage. It is found from the array
    alone, so that it is the same for whatever Tensor holds it."""
    while not isinstance(x.base, _Start) and (owner := owner_of(x)) is not None:
        x = owner
    return x


def owner_of(x: Raw) -> Raw | None:
    """The array whose memory another one shows; None if it has its own, or that of an object which
    is no array."""
    base = x.base
    if isinstance(base, np.ndarray):
        return base
    if isinstance(base, _Layout):
        return base.owner
    inner = getattr(base, "base", None)  # of what NumPy's as_strided puts in between
    return inner if isinstance(inner, np.ndarray) else None


def start_of_memory(x: Raw) -> Raw:
    """``x`` as a memory that begins with it, as an array that comes from elsewhere does."""
    if x.base is None:
        return x
    if not x.size:
        return x.copy()
    writeable = bool(x.flags.writeable)
    interface = {**x.__array_interface__, "strides": x.strides}
    interface["data"] = (interface["data"][0], not writeable)
    return _in(_Start(interface, x), x.dtype)


def offset(x: Raw) -> int:
    """How many elements into its memory an array starts."""
    low, _ = np.lib.array_utils.byte_bounds(memory(x))
    first: int = x.__array_interface__["data"][0]
    return int(first - low) // int(x.itemsize)


def address(x: Raw) -> int:
    """Where the first byte of the memory of an array is."""
    return int(np.lib.array_utils.byte_bounds(memory(x))[0])


def whole_memory(x: Raw, dtype: np.dtype[Any]) -> Raw:
    """All of the memory of an array, as elements of a dtype, in order: a view."""
    base = memory(x)
    low, high = np.lib.array_utils.byte_bounds(base)
    interface = {
        "shape": ((high - low) // dtype.itemsize,), "strides": None, "version": 3,
        "typestr": dtype.str, "data": (low, not base.flags.writeable),
    }  # fmt: skip
    return _in(_Layout(interface, base), dtype) if high > low else np.empty(0, dtype)


def memory_size(x: Raw) -> int:
    """How many elements of its dtype the memory of an array has room for."""
    low, high = np.lib.array_utils.byte_bounds(memory(x))
    return int(high - low) // int(x.itemsize)


def copy_with_gaps(x: Raw) -> Raw:
    """A copy that lies in a memory of its own as ``x`` does, with gaps where that has some."""
    if is_dense(x):
        return copy(x)
    new = empty_strided(x.shape, tuple(step // x.itemsize for step in x.strides), x.dtype)
    np.copyto(new, x)
    return new


def same_place(x: Raw, new: Raw) -> Raw:
    """What ``x`` is in its memory, in ``new``, which is a copy of that."""
    old = memory(x)
    if x is old:
        return new
    (low, _), (start, _) = map(np.lib.array_utils.byte_bounds, (old, new))
    interface = {**x.__array_interface__, "strides": x.strides}
    interface["data"] = (start + interface["data"][0] - low, False)
    return _in(_Layout(interface, new), x.dtype)


def as_strided(x: Raw, shape: tuple[int, ...], steps: tuple[int, ...], start: int) -> Raw:
    """The memory of ``x``, from ``start`` elements after its first on, with other strides (all in
    elements)."""
    if 0 in shape:
        return np.empty(shape, x.dtype)
    address, writeable = x.__array_interface__["data"][0] + start * x.itemsize, x.flags.writeable
    last = sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) * x.itemsize
    low, high = np.lib.array_utils.byte_bounds(memory(x))
    if address < low or address + last + x.itemsize > high:
        raise RuntimeError("as_strided: this is not in the memory of the tensor")
    interface = {
        "shape": shape, "strides": tuple(s * x.itemsize for s in steps), "version": 3,
        "typestr": x.dtype.str, "data": (address, not writeable),
    }  # fmt: skip
    return _in(_Layout(interface, x), x.dtype)


def within(storage: Raw, x: Raw, shape: tuple[int, ...]) -> Raw | None:
    """An array of ``shape`` in reading order that begins where ``x`` does, if ``storage``, whose
    memory ``x`` shows, has room for it."""
    if math.prod(shape) > room(storage, x):
        return None
    steps = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
    return as_strided(x, shape, steps, 0)


def room(storage: Raw, x: Raw) -> int:
    """How many elements there are from the first of ``x`` to the end of ``storage``; none if ``x``
    has no first, for then NumPy does not say where it is."""
    if not x.size:
        return 0
    end = np.lib.array_utils.byte_bounds(storage)[1]
    left: int = end - x.__array_interface__["data"][0]
    return left // int(x.itemsize)


def strided_positions(shape: tuple[int, ...], steps: tuple[int, ...], start: int) -> Raw:
    """Which element of a memory each element of a layout is."""
    out = np.full(shape, start, np.int64)
    for d, (size, step) in enumerate(zip(shape, steps, strict=True)):
        out += (np.arange(size) * step).reshape(-1, *(1,) * (len(shape) - d - 1))
    return out


def times_each(positions: Raw) -> Raw | None:
    """For each position, how many equal it; None if they are all different."""
    _, inverse, counts = np.unique(positions, return_inverse=True, return_counts=True)
    return None if counts.max(initial=1) == 1 else counts[inverse].reshape(positions.shape)


def view_dtype(x: Raw, dtype: np.dtype[Any]) -> Raw:
    """The same bytes as elements of another dtype."""
    return writable(x).view(dtype)


_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # mmap of Python 3.11 has no name for it


def reserved(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Raw:
    """Zeros that take up address space but no memory until they are written."""
    count = math.prod(shape)
    if count * dtype.itemsize < mmap.PAGESIZE or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(shape, dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    pages = mmap.mmap(-1, count * dtype.itemsize, flags=flags)
    return np.frombuffer(pages, dtype, count).reshape(shape)


# -- copies in another order -----------------------------------------------------------------


def roll(x: Raw, shifts: tuple[int, ...], axes: tuple[int, ...] | None) -> Raw:
    """The elements moved along ``axes`` (None: in reading order), round the end."""
    if axes is None:
        return roll(np.reshape(x, -1), shifts, (0,)).reshape(x.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        size = x.shape[axis]
        cut = -shift % size if size else 0
        before = (slice(None),) * axis
        x = np.concatenate((x[(*before, slice(cut, None))], x[(*before, slice(0, cut))]), axis)
    return x if x.flags.c_contiguous else x.copy(order="C")


def rot90(x: Raw, k: int, axes: tuple[int, int]) -> Raw:
    return np.array(np.rot90(x, k, axes), order="C")


def tile(x: Raw, repeats: tuple[int, ...]) -> Raw:
    """``x`` repeated along its dimensions, copied once."""
    x = writable(x)
    shape = (1,) * (len(repeats) - x.ndim) + x.shape
    apart = [n for size in shape for n in (1, size)]
    wide = [n for pair in zip(repeats, shape, strict=True) for n in pair]
    whole = [n * size for n, size in zip(repeats, shape, strict=True)]
    return np.array(np.broadcast_to(x.reshape(apart), wide), order="C").reshape(whole)


# -- indices ---------------------------------------------------------------------------------


def triangle(rows: int, columns: int, offset: int, lower: bool) -> Raw:
    """The rows and the columns of the indices on one side of a diagonal."""
    row, column = np.arange(rows)[:, None], np.arange(columns)
    inside = column - row <= offset if lower else column - row >= offset
    return np.array(np.nonzero(inside))
