"""Batching rules of indexing: ``index``, ``index_put``, ``index_add_zeros`` and ``gather``.

Indices that are the same for all entries are used on the whole batch at once. To those of each
entry the index of the entry is added as one more: the dimension of the batch is indexed, too. All
other operations that take indices are defined by these, or are told of dimensions only.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import copies, linear, piecewise
from retrograd.ops._batching import Batched, BatchLevel
from retrograd.ops._batching_declarations import own
from retrograd.ops._batching_dims import as_vectors
from retrograd.ops._dims import numel
from retrograd.ops._operation import Operation, raw

WHOLE = slice(None)


def entry_indices(level: BatchLevel, rank: int) -> Raw:
    """The index of each entry, with ``rank`` dimensions behind."""
    return arrays.arange(level.size).reshape(-1, *(1,) * rank)


def is_mask(x: Any) -> bool:
    return not isinstance(x, slice) and bool(x.dtype.kind == "b")


# -- an index with arrays in it ----------------------------------------------------------------


class BatchIndex:
    """An index of each entry as one of the whole batch.

    ``where`` is the index. Its result has its dimensions in NumPy's order; ``order`` says which of
    them come first in ours, that of the batch and then those of the result of an entry.
    """

    def __init__(self, level: BatchLevel, ndim: int, where: tuple[Any, ...]) -> None:
        indexed = [d for d, w in enumerate(where) if not isinstance(w, slice)]
        apart = len(indexed) <= indexed[-1] - indexed[0]
        own = any(map(level.owns, where))
        if own:
            where = _without_masks(level, where)
        given = [w for w in where if not isinstance(w, slice)]
        rank = max(1 if is_mask(w) else len(w.shape) for w in given)
        taken = sum(len(w.shape) if is_mask(w) else 1 for w in given)
        before = 0 if apart else indexed[0]
        last = 1 + rank + ndim - taken
        if own:
            indices = [w if isinstance(w, slice) else raw(level.aligned(w, rank)) for w in where]
            self.where = (entry_indices(level, rank), *indices)
            first = [0, *range(1 + rank, 1 + rank + before), *range(1, 1 + rank)]
        else:
            self.where = (WHOLE, *where)
            first = [rank, *range(rank)] if apart else []
        self.order = (*first, *range(len(first), last))

    def batch_first(self, x: Any) -> Any:
        """The result of the index, with the batch first."""
        return linear.permute(x, dims=self.order) if self.moves else x

    def in_order(self, x: Any) -> Any:
        """What to put at the index, from what has the batch first."""
        return linear.permute(x, dims=linear._inverse(self.order)) if self.moves else x

    @property
    def moves(self) -> bool:
        return self.order != tuple(range(len(self.order)))


def _without_masks(level: BatchLevel, where: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index with the indices of elements for masks that are the same for all entries."""
    indices: list[Any] = []
    for w in where:
        if is_mask(w) and not numel(w.shape):  # which holds nowhere, whatever the values
            indices += arrays.nonzero(arrays.zeros(tuple(w.shape), arrays.bool_))
        elif is_mask(w):
            if level.owns(w):
                raise RuntimeError(
                    "vmap: We do not support batching operators that can support dynamic shape. "
                    "Attempting to batch over indexing with a boolean mask: each entry may have "
                    "another number of elements there. Use torch.where() instead."
                )
            indices += arrays.nonzero(w)
        else:
            indices.append(w)
    return tuple(indices)


@own("the index of the entry is one more index")
def _index(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    (x,), where = args, options["where"]
    if level.owns(x):
        index = BatchIndex(level, len(x.shape), where)
        return index.batch_first(linear.index(x.value, where=index.where))
    # One value for all: the indices of all entries at once, as so many more indices.
    where = _without_masks(level, where)
    if not any(map(level.owns, where)):
        return level.stacked(linear.index(x, where=where))
    rank = max(len(w.shape) for w in where if not isinstance(w, slice))
    indices = tuple(w if isinstance(w, slice) else raw(level.aligned(w, rank)) for w in where)
    result = linear.index(x, where=indices)
    at = [d for d, w in enumerate(where) if not isinstance(w, slice)]
    before = 0 if len(at) <= at[-1] - at[0] else at[0]
    if not before:
        return result
    order = (before, *range(before), *range(before + 1, len(result.shape)))
    return linear.permute(result, dims=order)


@own("the index of the entry is one more index, in the result")
def _index_add_zeros(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    shape = options["shape"]
    index = BatchIndex(level, len(shape), options["where"])
    values = index.in_order(level.stacked(args[0]))
    return linear.index_add_zeros(values, shape=(level.size, *shape), where=index.where)


@own("the index of the entry is one more index, but for masks of each entry")
def _index_put(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    x, values = args
    where, accumulate = options["where"], options["accumulate"]
    if level.owns(where[-1]) and is_mask(where[-1]) and _one_value(x, values, where):
        return _put_at_mask(level, x, values, where, accumulate)
    index = BatchIndex(level, len(x.shape), where)
    rank = len(index.order) - 1
    values = level.aligned(values, rank)
    if index.moves:  # all dimensions must be there to be moved
        shape = tuple(values.shape)
        values = linear.reshape(values, (1,) * (1 + rank - len(shape)) + shape)
    return linear.index_put(
        level.stacked(x), index.in_order(values), where=index.where, accumulate=accumulate
    )


def _one_value(x: Any, values: Any, where: tuple[Any, ...]) -> bool:
    """Whether the value written at a mask is the same at all its elements."""
    behind = len(x.shape) - len(where) + 1 - len(where[-1].shape)
    shape = tuple(values.shape)
    return all(isinstance(w, slice) for w in where[:-1]) and (
        len(shape) <= behind or shape[len(shape) - behind - 1] == 1
    )


def _put_at_mask(level: BatchLevel, x: Any, values: Any, where: Any, accumulate: bool) -> Any:
    """A mask for each entry, and values that are the same wherever it is true."""
    before, mask = len(where) - 1, where[-1]
    rank = len(mask.shape)
    behind, shape = len(x.shape) - before - rank, tuple(values.shape)
    values = copies.to_dtype(level.stacked(values), dtype=raw(x).dtype)
    if len(shape) > behind:  # one dimension as those of the mask
        at = len(shape) - behind
        values = linear.reshape(values, (level.size, *shape[: at - 1], *(1,) * rank, *shape[at:]))
    values = level.aligned(Batched(level, values), len(x.shape))
    holds = linear.reshape(mask.value, (level.size, *(1,) * before, *mask.shape, *(1,) * behind))
    old = level.stacked(x)
    if not accumulate:
        return piecewise.where(holds, values, old)
    return old + piecewise.where(holds, values, copies.zeros_like(values))


# -- an index for each element along a dimension -----------------------------------------------


@own("of a value that is the same for all entries, no copy for each is made")
def _gather(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    (x, index), dim = args, options["dim"]
    shape = (level.size, *index.shape)
    if not numel(index.shape):
        return linear.new_zeros(level.plain(x), shape)
    if index.shape and x.shape and not level.owns(x):
        return _gather_of_one(level, x, index, dim)
    result = linear.gather(as_vectors(level, x), as_vectors(level, index), dim=dim + 1)
    return linear.reshape(result, shape)


def _gather_of_one(level: BatchLevel, x: Any, index: Any, dim: int) -> Any:
    """From one value for all: the indices of all entries side by side along the dimension."""
    sizes = tuple(index.shape)
    beside = (*range(1, dim + 1), 0, *range(dim + 1, len(sizes) + 1))
    indices = linear.permute(index.value, dims=beside)
    indices = linear.reshape(indices, (*sizes[:dim], level.size * sizes[dim], *sizes[dim + 1 :]))
    result = linear.gather(x, indices, dim=dim)
    result = linear.reshape(result, (*sizes[:dim], level.size, *sizes[dim:]))
    return linear.permute(result, dims=linear._inverse(beside))


linear.index.batch, linear.index_put.batch = _index, _index_put
linear.index_add_zeros.batch, linear.gather.batch = _index_add_zeros, _gather
