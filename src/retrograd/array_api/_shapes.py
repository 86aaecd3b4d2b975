"""Manipulation, indexing, sorting and searching functions of the array API."""

from __future__ import annotations

from typing import Any, NamedTuple

import retrograd as torch
from retrograd.array_api._dtypes import Array, result_type
from retrograd.array_api._elements import pair
from retrograd.numpy_protocols import _arguments, _elements, _selecting, _shapes

__all__ = [
    "argmax", "argmin", "argsort", "broadcast_arrays", "broadcast_to", "concat", "count_nonzero",
    "diff", "expand_dims", "flip", "moveaxis", "nonzero", "permute_dims", "repeat", "reshape",
    "roll", "searchsorted", "sort", "squeeze", "stack", "take", "take_along_axis", "tile",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack",
]  # fmt: skip


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """Arrays expanded to the shape that they have in common."""
    return list(torch.broadcast_tensors(*arrays))


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """An array expanded to a shape."""
    return torch.broadcast_to(x, tuple(shape))


def _joined(arrays: Any) -> list[Array]:
    dtype = result_type(*arrays)
    return [x.to(dtype) for x in arrays]


def concat(arrays: Any, /, *, axis: int | None = 0) -> Array:
    """Arrays one after the other along an axis; flattened, for None."""
    tensors = _joined(arrays)
    if axis is None:
        return torch.cat([x.reshape(-1) for x in tensors])
    if any(x.ndim != tensors[0].ndim for x in tensors):
        raise ValueError("concat: expected arrays of the same number of dimensions")
    return torch.cat(tensors, axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Array:
    """Arrays of one shape along a new axis."""
    return torch.stack(_joined(arrays), axis)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts of an array along an axis."""
    return tuple(x.unbind(axis))


def expand_dims(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """An array with axes of size one put in."""
    return _shapes.expand_dims(x, axis)


def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """An array without axes, which must have size one."""
    return _shapes.squeeze(x, axis)


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The elements in another shape, in new memory if ``copy`` is true, in the same if false."""
    if copy is False:
        try:
            return x.view(tuple(shape))
        except RuntimeError as error:
            raise ValueError(f"reshape: not without a copy: {error}") from None
    return (x.clone() if copy else x).reshape(tuple(shape))


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """The axes in another order."""
    return torch.permute(x, tuple(axes))


def moveaxis(x: Array, source: Any, destination: Any, /) -> Array:
    """Axes moved to other positions."""
    return torch.movedim(x, source, destination)


def flip(x: Array, /, *, axis: Any = None) -> Array:
    """The elements in reverse order along axes, by default all."""
    return _shapes.flip(x, axis)


def roll(x: Array, /, shift: Any, *, axis: Any = None) -> Array:
    """The elements moved along axes, those at the end coming first again."""
    return _shapes.roll(x, shift, axis)


def repeat(x: Array, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Each element repeated."""
    return _shapes.repeat(x, repeats, axis)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """Copies of an array beside each other."""
    return torch.tile(x, tuple(repetitions))


def diff(x: Array, /, *, axis: int = -1, n: int = 1, prepend: Any = None,
         append: Any = None) -> Array:  # fmt: skip
    """Differences of neighbours along an axis, ``n`` times."""
    return _elements.diff(x, n, axis, prepend, append)


# -- sorting and searching -------------------------------------------------------------------


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements in order along an axis."""
    return torch.sort(x, dim=axis, descending=descending, stable=True).values


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False,
            stable: bool = True) -> Array:  # fmt: skip
    """The indices that sort an array along an axis."""
    return torch.argsort(x, dim=axis, descending=descending, stable=True)


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the largest element."""
    return _arguments.along_one(torch.argmax, x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the smallest element."""
    return _arguments.along_one(torch.argmin, x, axis, keepdims)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """The indices of the nonzero elements, one array per axis."""
    if not x.ndim:
        raise ValueError("nonzero: expected an array of at least one dimension")
    return tuple(torch.nonzero(x, as_tuple=True))


def count_nonzero(x: Array, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The number of elements that are not zero."""
    return _arguments.along_one(lambda y, dim: (y != 0).sum(dim), x, axis, keepdims)


def searchsorted(x1: Array, x2: Array, /, *, side: str = "left",
                 sorter: Array | None = None) -> Array:  # fmt: skip
    """Where to insert elements of ``x2`` in ``x1`` so that it stays in order."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: expected side 'left' or 'right', got {side!r}")
    x1, x2 = pair("searchsorted", x1, x2)
    return _selecting.searchsorted(x1, x2, side, sorter)


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The elements at indices along an axis."""
    if axis is None and x.ndim != 1:
        raise ValueError("take: expected an axis, for an array of more than one dimension")
    return _selecting.take(x, indices, axis or 0)


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """The elements at indices that differ from position to position."""
    return torch.take_along_dim(x, indices.to(torch.int64), axis)


# -- what differs ----------------------------------------------------------------------------


class unique_all_result(NamedTuple):  # noqa: N801
    """What ``unique_all`` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class unique_counts_result(NamedTuple):  # noqa: N801
    """What ``unique_counts`` returns."""

    values: Array
    counts: Array


class unique_inverse_result(NamedTuple):  # noqa: N801
    """What ``unique_inverse`` returns."""

    values: Array
    inverse_indices: Array


def unique_all(x: Array, /) -> unique_all_result:
    """The unique values, their first indices, the inverse indices, and their counts. Each NaN
    counts as a separate value."""
    values, first, inverse, counts = _selecting.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    return unique_all_result(values, first, inverse.reshape(x.shape), counts)


def unique_counts(x: Array, /) -> unique_counts_result:
    """The values that occur, and how often each does."""
    result = unique_all(x)
    return unique_counts_result(result.values, result.counts)


def unique_inverse(x: Array, /) -> unique_inverse_result:
    """The values that occur, and which of them is where."""
    result = unique_all(x)
    return unique_inverse_result(result.values, result.inverse_indices)


def unique_values(x: Array, /) -> Array:
    """The values that occur."""
    return unique_all(x).values
