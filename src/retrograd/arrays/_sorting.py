"""Scattering, sorting and searching: array primitives that move or select elements by index."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from retrograd.arrays._memory import add_flat
from retrograd.arrays._numpy import Raw
from retrograd.arrays._reducing import are_indices

# -- adding at indices that may repeat -------------------------------------------------------

# Below this many elements a sparse product takes longer to set up than it saves.
_SMALL = 4096
_SPARSE = "fdFDilILqQ"  # dtypes (by their letters) that sparse products keep


def scatter_rows(rows: int, indices: Raw, values: Raw) -> Raw:
    """``rows`` rows of zeros, with each row of ``values`` added at the place given for it.

    The result has the shape ``(rows, *values.shape[1:])``. ``indices`` is a vector of numbers from
    0 to ``rows - 1``; they may repeat.
    """
    shape = (rows, *values.shape[1:])
    width = math.prod(shape[1:])
    if not values.size:
        return np.zeros(shape, values.dtype)
    if width == 1:
        return add_flat(shape, indices, values)
    if values.size < _SMALL or values.dtype.char not in _SPARSE:
        flat = indices[:, None].astype(np.int64, copy=False) * width + np.arange(width)
        return add_flat(shape, flat, values)
    from scipy.sparse import csc_array  # type: ignore[import-untyped]

    # One column for each row of values, with a one at its place: the product adds whole rows.
    count = len(indices)
    ones = np.ones(count, values.dtype)
    where_to = csc_array((ones, indices, np.arange(count + 1)), shape=(rows, count))
    return (where_to @ np.reshape(values, (count, width))).reshape(shape)


def add_slices(shape: tuple[int, ...], indices: Raw, values: Raw, dim: int) -> Raw:
    """Zeros of ``shape`` with each slice of ``values`` along ``dim`` added at its place."""
    if not shape:
        return np.add.reduce(values, None).astype(values.dtype)
    indices = np.reshape(indices, -1)
    if not dim:
        return scatter_rows(shape[0], indices, values)
    rows = scatter_rows(shape[dim], indices, np.moveaxis(values, dim, 0))
    return np.ascontiguousarray(np.moveaxis(rows, 0, dim))


def add_along(shape: tuple[int, ...], indices: Raw, values: Raw, dim: int) -> Raw:
    """Zeros of ``shape`` with each of ``values`` added at its own place along ``dim``."""
    if _moves_slices(shape, indices, dim):
        first = tuple(slice(None) if d == dim else 0 for d in range(indices.ndim))
        return add_slices(shape, indices[first], values, dim)
    return add_flat(shape, indices_along(shape, indices, dim), values)


def _moves_slices(shape: tuple[int, ...], indices: Raw, dim: int) -> bool:
    """Whether all elements of a slice along ``dim`` have the same place, as after ``expand``."""
    if indices.ndim < 2 or 0 not in indices.strides or not indices.size:
        return False
    others = [d for d in range(indices.ndim) if d != dim]
    return all(indices.strides[d] == 0 and indices.shape[d] == shape[d] for d in others)


def add_index(shape: tuple[int, ...], where_to: tuple[Any, ...], values: Raw) -> Raw:
    """Zeros of ``shape`` with ``values`` added at an index with arrays in it.

    The dimensions that arrays speak of are brought to the front and made one, so that this adds
    rows.
    """
    if len(where_to) == 1 and where_to[0].dtype.kind == "b":
        return put_rows(shape, where_to[0], values)
    dims: list[int] = []
    indices: list[Raw] = []
    dim = 0
    for item in where_to:
        if isinstance(item, slice):  # the whole dimension: others are views, taken before
            dim += 1
            continue
        result = np.nonzero(item) if item.dtype.kind == "b" else (item,)
        indices += result
        dims += range(dim, dim + len(result))
        dim += len(result)
    indices = list(np.broadcast_arrays(*indices))
    block = indices[0].ndim  # how many dimensions of the values the arrays give
    others = [d for d in range(len(shape)) if d not in dims]
    together = dims == list(range(dims[0], dims[0] + len(dims)))
    before = dims[0] if together else 0  # dimensions of the values before those of the arrays
    full = [shape[d] for d in others]
    full[before:before] = indices[0].shape
    values = np.broadcast_to(values, full)
    values = np.moveaxis(values, range(before, before + block), range(block))
    indexed, rest = [shape[d] for d in dims], [shape[d] for d in others]
    flat: Any = 0
    for size, place in zip(indexed, indices, strict=True):
        flat = flat * size + from_front(place, size)
    count = math.prod(indexed)
    rows = scatter_rows(count, flat.reshape(-1), values.reshape(flat.size, *rest))
    moved = rows.reshape(*indexed, *rest)
    return np.ascontiguousarray(np.moveaxis(moved, range(len(dims)), dims))


def put_rows(shape: tuple[int, ...], mask: Raw, values: Raw) -> Raw:
    """Zeros of ``shape`` with ``values`` for the rows at which ``mask``, of its first dimensions,
    holds."""
    out = np.zeros(shape, values.dtype)
    rows = out.reshape(mask.size, *shape[mask.ndim :])
    rows[np.flatnonzero(mask)] = values
    return out


def from_front(indices: Raw, size: int) -> Raw:
    """Places counted from the front, of which some may count from the end."""
    if not indices.size or indices.min() >= 0:
        return indices.astype(np.int64, copy=False)
    return np.where(indices < 0, indices + size, indices)


# -- indices along one dimension -------------------------------------------------------------


def indices_along(shape: tuple[int, ...], indices: Raw, dim: int) -> Raw:
    """Places along ``dim`` of an array of ``shape`` as positions in reading order."""
    flat = indices.astype(np.int64, copy=False)
    if len(shape) <= 1 or not indices.ndim:
        return flat
    step = math.prod(shape[dim + 1 :])
    if step != 1:
        flat = flat * step
    lines = math.prod(indices.shape) // max(indices.shape[dim], 1)
    if lines <= 1:  # the only one starts at zero
        return flat
    return flat + (_known_starts if lines <= _SMALL else _starts)(shape, indices.shape, dim)


def _starts(shape: tuple[int, ...], index_shape: tuple[int, ...], dim: int) -> Raw:
    """Where, in reading order, the lines along ``dim`` that an index speaks of start."""
    start = np.zeros((), np.int64)
    for d, size in enumerate(index_shape):
        if d != dim and size > 1:
            line = np.arange(size) * math.prod(shape[d + 1 :])
            start = start + line.reshape(-1, *(1,) * (len(index_shape) - d - 1))
    return start


_known_starts = lru_cache(maxsize=64)(_starts)


def gather(x: Raw, indices: Raw, dim: int) -> Raw:
    """For each place, the element of ``x`` there along ``dim``."""
    return x.reshape(-1).take(indices_along(x.shape, indices, dim))


def put_along(x: Raw, indices: Raw, values: Raw, dim: int) -> Raw:
    """A copy of ``x`` with ``values`` (a number, or one for each place) put along ``dim``."""
    out = np.array(x, order="C")
    out.reshape(-1)[indices_along(x.shape, indices, dim)] = values
    return out


def take(x: Raw, indices: Raw, dim: int) -> Raw:
    """The slices of ``x`` along ``dim`` at some indices."""
    return x.take(np.reshape(indices, -1), axis=dim)


def put_slices(x: Raw, indices: Raw, values: Raw, dim: int) -> Raw:
    """A copy of ``x`` with ``values`` (slices along ``dim``, or one value) put at indices there."""
    out = np.array(x, order="C")
    if not out.ndim:
        if indices.size:
            out[...] = np.reshape(values, -1)[-1]
        return out
    if values.ndim == out.ndim:
        values = np.moveaxis(values, dim, 0)
    np.moveaxis(out, dim, 0)[np.reshape(indices, -1)] = values
    return out


_COMBINE = {"sum": np.add, "mean": np.add, "prod": np.multiply,
            "amax": np.maximum, "amin": np.minimum}  # fmt: skip


def reduce_along(x: Raw, indices: Raw, values: Raw, dim: int, how: str, include_self: bool) -> Raw:
    """A copy of ``x`` in which elements are combined with the values that go to their indices."""
    out = np.array(x, order="C")
    flat, into = np.reshape(indices_along(x.shape, indices, dim), -1), out.reshape(-1)
    if not include_self:
        into[flat] = neutral(how, x.dtype)
    _COMBINE[how].at(into, flat, np.reshape(values, -1))
    if how == "mean":
        counts = np.bincount(flat, minlength=into.size) + int(include_self)
        counts = np.maximum(counts, 1).astype(x.real.dtype)
        into[...] = into // counts if x.dtype.kind in "iu" else into / counts
    return out


def neutral(how: str, dtype: np.dtype[Any]) -> Any:
    """What changes nothing when combined with other values."""
    if how in ("sum", "mean", "prod"):
        return int(how == "prod")
    if dtype.kind == "f":
        return -np.inf if how == "amax" else np.inf
    if dtype.kind == "b":
        return how == "amin"
    limits = np.iinfo(dtype)
    return limits.min if how == "amax" else limits.max


def outside(indices: Raw, low: int, high: int) -> int | None:
    """The first of some indices that is not in ``[low, high)``; None if all are."""
    if not indices.size:
        return None
    if not low and isinstance(indices, np.ndarray) and are_indices(indices, high):
        return None
    if indices.min() >= low and indices.max() < high:
        return None
    bad = (indices < low) | (indices >= high)
    return int(np.reshape(indices, -1)[np.flatnonzero(bad)[0]])


# -- masks -----------------------------------------------------------------------------------


def masked(x: Raw, mask: Raw) -> Raw:
    """The elements of ``x`` where ``mask`` holds, one after the other."""
    if np.shape(x) != np.shape(mask):
        x, mask = np.broadcast_arrays(x, mask)
    # Much faster than indexing with the mask.
    return np.reshape(x, -1).take(np.flatnonzero(mask))


def put_masked(x: Raw, mask: Raw, values: Raw) -> Raw:
    """A copy of ``x`` whose elements where ``mask`` holds are the first of ``values``."""
    if np.shape(x) != np.shape(mask):
        x, mask = np.broadcast_arrays(x, mask)
    out = np.array(x, order="C")
    where_to = np.flatnonzero(mask)
    if len(where_to) > values.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    out.reshape(-1)[where_to] = np.reshape(values, -1)[: len(where_to)]
    return out


def nonzero(x: Raw) -> Raw:
    """The indices of the elements that are not zero, each a row of the result."""
    flat = np.flatnonzero(x)
    out = np.empty((flat.size, np.ndim(x)), np.int64)
    for d in range(np.ndim(x) - 1, 0, -1):
        flat, out[:, d] = np.divmod(flat, max(x.shape[d], 1))
    if np.ndim(x):
        out[:, 0] = flat
    return out


# -- sorting ---------------------------------------------------------------------------------


def argsort(x: Raw, dim: int, descending: bool) -> Raw:
    """The order that sorts ``x`` along ``dim``. Equal elements keep theirs; NaN is the largest."""
    if not np.ndim(x):
        return np.zeros((), np.int64)
    if not descending:
        return x.argsort(dim, "stable")
    # Backwards from both sides, so that equal elements keep their order.
    backwards = (slice(None),) * dim + (slice(None, None, -1),)
    return x.shape[dim] - 1 - x[backwards].argsort(dim, "stable")[backwards]


def sort(x: Raw, dim: int, descending: bool) -> tuple[Raw, Raw]:
    """Sorted values, and where each came from."""
    order = argsort(x, dim, descending)
    return (gather(x, order, dim) if np.ndim(x) else np.array(x)), order


def topk(x: Raw, k: int, dim: int, largest: bool) -> tuple[Raw, Raw]:
    """The ``k`` largest (or smallest) elements along ``dim``, in order, and where they are."""
    if not np.ndim(x):
        return np.array(x), np.zeros((), np.int64)
    size = x.shape[dim]
    if 8 * k > size or not x.size:
        values, order = sort(x, dim, largest)
        front = (slice(None),) * dim + (slice(0, k),)
        return values[front].copy(), order[front].copy()
    some = _candidates(x, k, dim, largest)
    values = gather(x, some, dim)
    order = argsort(values, dim, largest)
    return gather(values, order, dim), gather(some, order, dim)


def _candidates(x: Raw, k: int, dim: int, largest: bool) -> Raw:
    """Where the ``k`` largest (or smallest) elements along ``dim`` are, in order of place."""
    rows = np.moveaxis(x, dim, -1)
    size = rows.shape[-1]
    at = size - k if largest else k - 1
    if not k:
        return np.zeros((*x.shape[:dim], 0, *x.shape[dim + 1 :]), np.int64)
    # The k-th value first, which needs no indices, and then who reaches it.
    limit = np.partition(rows, at, -1)[..., at : at + 1]
    reached = ~(rows < limit) if largest else rows <= limit
    result = np.flatnonzero(reached)
    if result.size == k * (x.size // size) and (np.count_nonzero(reached, -1) == k).all():
        result = result.reshape(*rows.shape[:-1], k) % size
    else:  # several reach it, or it is NaN
        chosen = np.argpartition(rows, at, -1)
        result = np.sort(chosen[..., at:] if largest else chosen[..., :k], -1)
    return np.moveaxis(result, -1, dim)


def unique(x: Raw, with_inverse: bool, with_counts: bool) -> tuple[Raw, Raw, Raw]:
    """The different values, sorted; which of them each element is; how often each occurs. What is
    not asked for is empty."""
    if x.dtype.kind in "iu" and x.size and int(x.max()) - int(x.min()) < 2 * x.size:
        return _unique_numbers(x, with_inverse, with_counts)
    find: Any = np.unique  # whose stubs want to know what is asked for
    result = find(
        np.reshape(x, -1), return_inverse=with_inverse, return_counts=with_counts, equal_nan=False
    )
    none = np.zeros(0, np.int64)
    if not with_inverse and not with_counts:
        return result, none, none
    inverse = result[1].reshape(np.shape(x)) if with_inverse else none
    return result[0], inverse, result[-1] if with_counts else none


def _unique_numbers(x: Raw, with_inverse: bool, with_counts: bool) -> tuple[Raw, Raw, Raw]:
    """As ``unique``, of integers not far apart: by counting, which is faster than sorting."""
    low = x.min()
    wide = x if x.dtype.kind == "u" else x.astype(np.int64, copy=False)  # for the differences
    offsets = (wide - low).astype(np.int64, copy=False)
    counts = np.bincount(np.reshape(offsets, -1))
    present = np.flatnonzero(counts)
    values = (present.astype(wide.dtype) + low).astype(x.dtype)
    none = np.zeros(0, np.int64)
    inverse = np.asarray((np.cumsum(counts > 0) - 1)[offsets]) if with_inverse else none
    return values, inverse, counts[present] if with_counts else none


def unique_slices(x: Raw, dim: int) -> tuple[Raw, Raw, Raw]:
    """As ``unique``, of the slices along ``dim``, which are sorted as words are."""
    rows = _as_rows(x, dim)
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    starts, number, counts = _runs(rows[order])
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = number
    return _as_slices(rows[order[starts]], x, dim), inverse, counts


def unique_runs(x: Raw, dim: int | None) -> tuple[Raw, Raw, Raw]:
    """As ``unique``, but only neighbours (elements, or slices along ``dim``) are compared."""
    if dim is None:
        starts, number, counts = _runs(np.reshape(x, (-1, 1)))
        return np.reshape(x, -1)[starts], number.reshape(np.shape(x)), counts
    rows = _as_rows(x, dim)
    starts, number, counts = _runs(rows)
    return _as_slices(rows[starts], x, dim), number, counts


def _as_rows(x: Raw, dim: int) -> Raw:
    """The slices along ``dim``, each as a row."""
    width = math.prod(s for d, s in enumerate(x.shape) if d != dim)
    return np.moveaxis(x, dim, 0).reshape(x.shape[dim], width)


def _as_slices(rows: Raw, x: Raw, dim: int) -> Raw:
    """The inverse of ``_as_rows``: rows as slices along ``dim``, each in one piece of memory."""
    others = (s for d, s in enumerate(x.shape) if d != dim)
    return np.moveaxis(rows.reshape(len(rows), *others), 0, dim)


def _runs(rows: Raw) -> tuple[Raw, Raw, Raw]:
    """Where runs of equal rows start, which run each row is in, and how long each is."""
    if not len(rows):
        none = np.zeros(0, np.int64)
        return none, none, none
    differs = np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])
    starts = np.flatnonzero(differs)
    return starts, np.cumsum(differs) - 1, np.diff(np.append(starts, len(rows)))


def search(bounds: Raw, values: Raw, right: bool) -> Raw:
    """Where each value belongs among sorted bounds; these may be rows, one for each of values."""
    side = "right" if right else "left"
    if bounds.ndim == 1:
        return np.searchsorted(bounds, values, side)  # type: ignore[call-overload]
    out = np.empty(values.shape, np.int64)
    count = math.prod(bounds.shape[:-1])
    rows = (a.reshape(count, a.shape[-1]) for a in (bounds, values, out))
    for row, wanted, result in zip(*rows, strict=True):
        result[...] = np.searchsorted(row, wanted, side)  # type: ignore[call-overload]
    return out


# -- repeating -------------------------------------------------------------------------------


def repeated_indices(repeats: Raw) -> Raw:
    """The number of each element of ``repeats``, as often as the element says."""
    return np.repeat(np.arange(len(repeats)), repeats)


def rising(size: int, count: int, equal: bool) -> Raw:
    """Which of all tuples of ``count`` numbers below ``size`` rise, or, if ``equal``, do not
    fall: an array of truths with one dimension for each number."""
    compare = np.less_equal if equal else np.less
    numbers = np.arange(size)
    out = np.ones((size,) * count, bool)
    for d in range(count - 1):
        pair = compare(numbers[:, None], numbers)
        out &= pair.reshape((1,) * d + pair.shape + (1,) * (count - d - 2))
    return out


def unravel(positions: Raw, shape: tuple[int, ...]) -> tuple[Raw, ...]:
    """Positions in reading order as indices along each dimension."""
    results: list[Raw] = []
    for size in reversed(shape):
        positions, place = np.divmod(positions, size)
        results.append(np.asarray(place))
    return tuple(reversed(results))


def one_hot(indices: Raw, classes: int) -> Raw:
    """For each place a row of zeros with a one there."""
    out = np.zeros((*np.shape(indices), classes), np.int64)
    if out.size:
        np.put_along_axis(out, np.asarray(indices)[..., None], 1, -1)
    return out
