"""Views and shared memory: shapes, strides, offsets, and writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided as _numpy_as_strided

from retrograd.arrays._numpy import Raw, copy, writable


def reshape(x: Raw, shape: Sequence[int]) -> Raw:
    return (x if isinstance(x, np.ndarray) else np.array(x)).reshape(shape)


def permute(x: Raw, dims: Sequence[int] | None) -> Raw:
    """``x`` with its dimensions in another order; None reverses them."""
    return (x if isinstance(x, np.ndarray) else np.array(x)).transpose(dims)


def view_as_real(x: Raw) -> Raw:
    """The same memory as pairs of real numbers along a new last dimension."""
    x = writable(x)
    part = x.real
    return _numpy_as_strided(part, (*x.shape, 2), (*part.strides, part.itemsize))


def view_as_complex(x: Raw) -> Raw:
    """Pairs of real numbers along the last dimension as complex ones, in the same memory if they
    lie side by side in it."""
    if x.strides[-1] != x.itemsize:
        x = np.ascontiguousarray(x)
    return x.view(f"c{2 * x.itemsize}")[..., 0]


def expand(x: Raw, shape: tuple[int, ...]) -> Raw:
    """``x`` repeated to ``shape`` without copying, and as writable as ``x`` is: writing through the
    overlap is refused one level up, in PyTorch's words."""
    x = writable(x)
    if x.size == 1:  # by far the most frequent case, the gradient of a sum, and ten times faster
        return np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    if not x.flags.c_contiguous:
        return _numpy_as_strided(x, shape, np.broadcast_to(x, shape).strides)
    # What as_strided does, without its checks: a size of 1 is repeated by a stride of 0.
    added = len(shape) - x.ndim
    steps = (0,) * added + tuple(
        step if size == want else 0
        for step, size, want in zip(x.strides, x.shape, shape[added:], strict=True)
    )
    return np.ndarray(shape, x.dtype, x, 0, steps)


def strides(x: Raw) -> tuple[int, ...]:
    """Strides in elements, as PyTorch counts them."""
    if x.size == 0:  # NumPy gives such an array no strides to speak of
        return tuple(math.prod(max(s, 1) for s in x.shape[d + 1 :]) for d in range(x.ndim))
    return tuple(s // x.itemsize for s in x.strides)


def is_contiguous(x: Raw) -> bool:
    """Whether the elements lie in memory as they are read. Asks for shape and strides only, which
    values under transforms have too."""
    if isinstance(x, np.ndarray):
        return bool(x.flags.c_contiguous)
    step = x.itemsize
    for size, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if size != 1 and stride != step and x.size:
            return False
        step *= size
    return True


def in_reading_order(x: Raw) -> Raw:
    """``x``, or a copy of it, whose elements lie in memory as they are read."""
    return x if x.flags.c_contiguous else x.copy(order="C")


def ascontiguous(x: Raw) -> Raw:
    return np.ascontiguousarray(x) if np.ndim(x) else x


def view_as_shape(x: Raw, shape: Sequence[int]) -> Raw | None:
    """``x`` in another shape without copying, or None where its strides do not allow that."""
    x = writable(x)
    if x.flags.c_contiguous:
        return x.reshape(shape)
    view = np.reshape(x, shape)  # a copy if it must be, which is then not in the memory of x
    return view if not x.size or np.may_share_memory(view, x) else None


def positions(base: Raw, view: Raw) -> Raw:
    """Which element of ``base``, counted in reading order, each element of ``view`` shows.

    ``view`` must lie in the memory of ``base``. This is what makes "the same view of another
    array" (a gradient, a new version of the base) mean something for every layout, negative and
    zero strides included.
    """
    if base.itemsize != view.itemsize:
        raise RuntimeError(
            "a view of the bits of a tensor, as another dtype, cannot be written in place while "
            "recording, nor used after its base was. Use a clone() of it."
        )
    lowest, highest = np.lib.array_utils.byte_bounds(base)
    numbers = np.empty((highest - lowest) // base.itemsize, np.int64)

    def same_layout(x: Raw) -> Raw:
        start = (x.__array_interface__["data"][0] - lowest) // base.itemsize
        steps = tuple(s // base.itemsize * numbers.itemsize for s in x.strides)
        return _numpy_as_strided(numbers[start:], x.shape, steps)

    same_layout(base)[...] = np.arange(base.size).reshape(base.shape)
    return same_layout(view).copy()


def is_counting(positions: Raw) -> bool:
    """Whether positions are 0, 1, 2... in reading order."""
    return bool((positions.reshape(-1) == np.arange(positions.size)).all())


def take_flat(x: Raw, where_from: Raw) -> Raw:
    """The elements of ``x`` at ``where_from``, positions in reading order."""
    return np.reshape(x, -1)[where_from]


def put_flat(x: Raw, where_to: Raw, values: Raw) -> Raw:
    """A copy of ``x`` with ``values`` written at ``where_to``."""
    out = np.array(x, order="C")
    out.reshape(-1)[where_to] = values
    return out


def add_flat(shape: tuple[int, ...], where_to: Raw, values: Raw) -> Raw:
    """Zeros of ``shape`` with ``values`` added at ``where_to``; indices may repeat."""
    out = np.zeros(math.prod(shape), values.dtype)
    # In one dimension, and only there, this is as fast as a loop in C.
    np.add.at(out, where_to.reshape(-1), values.reshape(-1))
    return out.reshape(shape)


def index(x: Raw, where_from: tuple[Any, ...]) -> Raw:
    """The elements of ``x`` at an index with arrays in it: a copy."""
    x = writable(x)
    if len(where_from) == 1:  # by far the most frequent case, and taking is faster
        indices = where_from[0]
        if indices.dtype.kind != "b":
            return x.take(indices, axis=0)
        if indices.ndim and indices.shape == x.shape[: indices.ndim]:
            rows = x.reshape(indices.size, *x.shape[indices.ndim :])
            return rows.take(np.flatnonzero(indices), axis=0)
    elif _indexes_one_dimension(where_from):  # as under vmap
        return x.take(where_from[-1], axis=len(where_from) - 1)
    return in_reading_order(x[where_from])


def _indexes_one_dimension(where_from: tuple[Any, ...]) -> bool:
    """Whether an index takes all of the first dimensions, and an array of integers of the next."""
    *first, last = where_from
    return (
        isinstance(last, np.ndarray)
        and last.dtype.kind in "iu"
        and all(isinstance(part, slice) and part == slice(None) for part in first)
    )


def index_put(x: Raw, where_to: tuple[Any, ...], values: Raw) -> Raw:
    """A copy of ``x`` with ``values`` put at an index."""
    out = copy(writable(x))
    out[where_to] = values
    return out


def put_slice(shape: tuple[int, ...], where_to: tuple[Any, ...], values: Raw) -> Raw:
    """Zeros of ``shape`` but for ``values`` at a basic index (which names no place twice)."""
    out = np.zeros(shape, values.dtype)
    out[where_to] = values
    return out


def is_dense(x: Raw) -> bool:
    """Whether ``x`` fills a stretch of memory, in any order of its dimensions, without gaps."""
    step = x.itemsize
    for stride, size in sorted(zip(x.strides, x.shape, strict=True)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def overlap(a: Raw, b: Raw) -> str:
    """Whether two arrays show the same memory: "full", "partial" or "none". As in PyTorch, arrays
    with gaps are given the benefit of the doubt."""
    if not isinstance(b, np.ndarray) or not a.size or not b.size:
        return "none"
    if not is_dense(a) or not is_dense(b):
        return "none"
    (a_start, a_end), (b_start, b_end) = map(np.lib.array_utils.byte_bounds, (a, b))
    if a_end <= b_start or b_end <= a_start:
        return "none"
    a_steps, b_steps = (
        [step for step, size in zip(x.strides, x.shape, strict=True) if size > 1] for x in (a, b)
    )
    same = (a_start, a_end, a_steps) == (b_start, b_end, b_steps)
    return "full" if same else "partial"


def may_overlap(a: Raw, b: Raw) -> bool:
    """Whether two arrays may show some of the same memory."""
    return bool(np.may_share_memory(a, b))


def overlaps_itself(x: Raw) -> bool:
    """Whether two elements of ``x`` are one and the same memory, as after ``expand``."""
    steps = zip(x.strides, x.shape, strict=True)
    return x.size > 0 and any(stride == 0 and size > 1 for stride, size in steps)


# NumPy 2.0 has the protocol without versions, devices and copies.
_HAS_DLPACK_1 = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def from_dlpack(value: Any, copy: bool | None = None) -> Raw:
    """The memory of an object of another library, shared, or copied if ``copy`` is true."""
    if copy is None or not _HAS_DLPACK_1:
        array = np.from_dlpack(value)
        return array.copy() if copy else array
    return np.from_dlpack(value, copy=copy)


def to_dlpack(
    x: Raw, max_version: tuple[int, int] | None, device: tuple[int, int] | None, copy: bool | None
) -> Any:
    """A capsule with the memory of ``x``, or with a copy of it, for another library."""
    if _HAS_DLPACK_1:
        return x.__dlpack__(max_version=max_version, dl_device=device, copy=copy)
    if device not in (None, (1, 0)):
        raise BufferError("memory of the CPU cannot be exported to another device")
    return (x.copy() if copy else x).__dlpack__()  # an older capsule is always allowed


def from_buffer(buffer: Any, dtype: np.dtype[Any], count: int, offset: int) -> Raw:
    """The memory of ``buffer`` as elements of ``dtype``."""
    return np.frombuffer(buffer, dtype, count, offset)


def empty_strided(shape: tuple[int, ...], steps: tuple[int, ...], dtype: np.dtype[Any]) -> Raw:
    """An array with strides (counted in elements) of one's own choice."""
    reach = 0 if 0 in shape else 1
    for size, step in zip(shape, steps, strict=True):
        reach += max(size - 1, 0) * step
    memory = np.empty(reach, dtype)
    return np.ndarray(shape, dtype, memory, 0, tuple(s * dtype.itemsize for s in steps))


def float_limits(dtype: np.dtype[Any]) -> Any:
    """The numerical limits of a float dtype."""
    if dtype.kind != "V":
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)
