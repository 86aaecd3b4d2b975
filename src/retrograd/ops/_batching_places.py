"""Batching rules of operations that pick and put elements by number.

Numbers that are the same for all entries are used on the whole batch at once. Those of each entry
are completed by the number of the entry: the dimension of the batch is indexed, too.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import elementwise, linear
from retrograd.ops._arguments import element
from retrograd.ops._batching import Batched, BatchLevel, rows, rule
from retrograd.ops._dims import broadcast, numel
from retrograd.ops._lifted import bare
from retrograd.ops._operation import Operation, raw

WHOLE = slice(None)


def entry_numbers(level: BatchLevel, rank: int) -> Raw:
    """The number of each entry, with ``rank`` dimensions behind."""
    return arrays.arange(level.size).reshape(-1, *(1,) * rank)


def is_mask(x: Any) -> bool:
    return not isinstance(x, slice) and bool(x.dtype.kind == "b")


# -- an index with arrays in it ----------------------------------------------------------------


class Inside:
    """An index of each entry as one of the whole batch.

    ``where`` is the index. What it gives has its dimensions in NumPy's order; ``order`` says which
    of them come first in ours, that of the batch and then those that an entry gives.
    """

    def __init__(self, level: BatchLevel, ndim: int, where: tuple[Any, ...]) -> None:
        numbered = [d for d, w in enumerate(where) if not isinstance(w, slice)]
        apart = len(numbered) <= numbered[-1] - numbered[0]
        own = any(map(level.owns, where))
        if own:
            where = _without_masks(level, where)
        given = [w for w in where if not isinstance(w, slice)]
        rank = max(1 if is_mask(w) else len(w.shape) for w in given)
        taken = sum(len(w.shape) if is_mask(w) else 1 for w in given)
        before = 0 if apart else numbered[0]
        last = 1 + rank + ndim - taken
        if own:
            numbers = [w if isinstance(w, slice) else raw(level.aligned(w, rank)) for w in where]
            self.where = (entry_numbers(level, rank), *numbers)
            first = [0, *range(1 + rank, 1 + rank + before), *range(1, 1 + rank)]
        else:
            self.where = (WHOLE, *where)
            first = [rank, *range(rank)] if apart else []
        self.order = (*first, *range(len(first), last))

    def given(self, x: Any) -> Any:
        """What the index gave, with the batch first."""
        return linear.permute(x, dims=self.order) if self.moves else x

    def wanted(self, x: Any) -> Any:
        """What to put at the index, from what has the batch first."""
        return linear.permute(x, dims=linear._inverse(self.order)) if self.moves else x

    @property
    def moves(self) -> bool:
        return self.order != tuple(range(len(self.order)))


def _without_masks(level: BatchLevel, where: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index with places for masks that are the same for all entries."""
    found: list[Any] = []
    for w in where:
        if is_mask(w) and not numel(w.shape):  # which holds nowhere, whatever the values
            found += arrays.nonzero(arrays.zeros(tuple(w.shape), arrays.bool_))
        elif is_mask(w):
            if level.owns(w):
                raise RuntimeError(
                    "vmap: We do not support batching operators that can support dynamic shape. "
                    "Attempting to batch over indexing with a boolean mask: each entry may have "
                    "another number of elements there. Use torch.where() instead."
                )
            found += arrays.nonzero(w)
        else:
            found.append(w)
    return tuple(found)


@rule(linear.index)
def _index(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    (x,), where = args, options["where"]
    if level.owns(x):
        inside = Inside(level, len(x.shape), where)
        return inside.given(linear.index(x.value, where=inside.where))
    # One value for all: the places of all entries at once, as so many more places.
    places = _without_masks(level, where)
    if not any(map(level.owns, places)):
        return level.stacked(linear.index(x, where=places))
    rank = max(len(w.shape) for w in places if not isinstance(w, slice))
    numbers = tuple(w if isinstance(w, slice) else raw(level.aligned(w, rank)) for w in places)
    found = linear.index(x, where=numbers)
    at = [d for d, w in enumerate(places) if not isinstance(w, slice)]
    before = 0 if len(at) <= at[-1] - at[0] else at[0]
    if not before:
        return found
    order = (before, *range(before), *range(before + 1, len(found.shape)))
    return linear.permute(found, dims=order)


@rule(linear.index_add_zeros)
def _index_add_zeros(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    shape = options["shape"]
    inside = Inside(level, len(shape), options["where"])
    values = inside.wanted(level.stacked(args[0]))
    return linear.index_add_zeros(values, shape=(level.size, *shape), where=inside.where)


@rule(linear.index_put)
def _index_put(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    x, values = args
    where, accumulate = options["where"], options["accumulate"]
    if level.owns(where[-1]) and is_mask(where[-1]) and _alike(x, values, where):
        return _put_where(level, x, values, where, accumulate)
    inside = Inside(level, len(x.shape), where)
    rank = len(inside.order) - 1
    values = level.aligned(values, rank)
    if inside.moves:  # all dimensions must be there to be moved
        shape = tuple(values.shape)
        values = linear.reshape(values, (1,) * (1 + rank - len(shape)) + shape)
    return linear.index_put(
        level.stacked(x), inside.wanted(values), where=inside.where, accumulate=accumulate
    )


def _alike(x: Any, values: Any, where: tuple[Any, ...]) -> bool:
    """Whether what is put at a mask is the same for all places where that holds."""
    behind = len(x.shape) - len(where) + 1 - len(where[-1].shape)
    shape = tuple(values.shape)
    return all(isinstance(w, slice) for w in where[:-1]) and (
        len(shape) <= behind or shape[len(shape) - behind - 1] == 1
    )


def _put_where(level: BatchLevel, x: Any, values: Any, where: Any, accumulate: bool) -> Any:
    """A mask for each entry, and values that are the same for all places where it holds."""
    before, mask = len(where) - 1, where[-1]
    rank = len(mask.shape)
    behind, shape = len(x.shape) - before - rank, tuple(values.shape)
    values = elementwise.to_dtype(level.stacked(values), dtype=raw(x).dtype)
    if len(shape) > behind:  # the dimension of the places as those of the mask
        at = len(shape) - behind
        values = linear.reshape(values, (level.size, *shape[: at - 1], *(1,) * rank, *shape[at:]))
    values = level.aligned(Batched(level, values), len(x.shape))
    holds = linear.reshape(mask.value, (level.size, *(1,) * before, *mask.shape, *(1,) * behind))
    old = level.stacked(x)
    if not accumulate:
        return elementwise.where(holds, values, old)
    return old + elementwise.where(holds, values, elementwise.zeros_like(values))


# -- positions in reading order ----------------------------------------------------------------


def flat_places(level: BatchLevel, positions: Any) -> tuple[Any, ...]:
    """An index into rows, one for each entry, from positions in the row."""
    if not level.owns(positions):
        return (WHOLE, raw(positions))
    return (entry_numbers(level, len(positions.shape)), raw(positions.value))


def flat(level: BatchLevel, x: Any) -> Any:
    """A row of elements for each entry."""
    return rows(level, x) if level.owns(x) else linear.reshape(
        level.stacked(x), (level.size, numel(x.shape))
    )  # fmt: skip


def take_positions(level: BatchLevel, x: Any, positions: Any) -> Any:
    """Of each entry the elements at some positions in reading order."""
    if not level.owns(x):
        return linear.take_flat(x, positions=raw(positions.value))
    return linear.index(rows(level, x), where=flat_places(level, positions))


def add_positions(level: BatchLevel, values: Any, shape: Any, positions: Any) -> Any:
    """Zeros of ``shape`` for each entry, with values added at positions in reading order."""
    where = flat_places(level, positions)
    values = linear.reshape(level.stacked(values), (level.size, *positions.shape))
    found = linear.index_add_zeros(values, shape=(level.size, numel(shape)), where=where)
    return linear.reshape(found, (level.size, *shape))


def put_positions(
    level: BatchLevel, x: Any, values: Any, positions: Any, accumulate: bool = False
) -> Any:
    """Each entry with values put, or added, at positions in reading order."""
    values = level.aligned(values, len(positions.shape))
    found = linear.index_put(
        flat(level, x), values, where=flat_places(level, positions), accumulate=accumulate
    )
    return linear.reshape(found, (level.size, *x.shape))


@rule(linear.take_flat)
def _take_flat(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    return take_positions(level, args[0], options["positions"])


@rule(linear.add_flat)
def _add_flat(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    return add_positions(level, args[0], options["shape"], options["positions"])


# -- a place for each element along a dimension ------------------------------------------------


def lined_up(level: BatchLevel, x: Any) -> Any:
    """A batch of values with a dimension to go along, if they have none of their own."""
    stacked = level.stacked(x)
    return stacked if len(x.shape) else linear.unsqueeze(stacked, dim=1)


@rule(linear.gather)
def _gather(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    (x, index), dim = args, options["dim"]
    shape = (level.size, *index.shape)
    if not numel(index.shape):
        return linear.new_zeros(level.plain(x), shape)
    if index.shape and x.shape and not level.owns(x):
        return _gather_of_one(level, x, index, dim)
    found = linear.gather(lined_up(level, x), lined_up(level, index), dim=dim + 1)
    return linear.reshape(found, shape)


def _gather_of_one(level: BatchLevel, x: Any, index: Any, dim: int) -> Any:
    """From one value for all: the places of all entries side by side along the dimension."""
    sizes = tuple(index.shape)
    beside = (*range(1, dim + 1), 0, *range(dim + 1, len(sizes) + 1))
    places = linear.permute(index.value, dims=beside)
    places = linear.reshape(places, (*sizes[:dim], level.size * sizes[dim], *sizes[dim + 1 :]))
    found = linear.gather(x, places, dim=dim)
    found = linear.reshape(found, (*sizes[:dim], level.size, *sizes[dim:]))
    return linear.permute(found, dims=linear._inverse(beside))


@rule(linear.scatter_zeros)
def _scatter_zeros(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    (values,), places, shape = args, options["places"], options["shape"]
    whole = (level.size, *shape)
    if not numel(places.shape):
        return linear.new_zeros(level.plain(values), whole)
    found = linear.scatter_zeros(
        lined_up(level, values), shape=whole if shape else (level.size, 1),
        dim=options["dim"] + 1, places=raw(lined_up(level, places)),
    )  # fmt: skip
    return linear.reshape(found, whole)


def along_lines(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """``op(self, index, ...)`` that puts elements at places along ``dim``, a place for each."""
    x, index, *more = args
    if not numel(index.shape):
        return elementwise.clone(level.stacked(x))
    values = [lined_up(level, y) for y in more]
    dim = options["dim"] + 1
    found = op(lined_up(level, x), lined_up(level, index), *values, **{**options, "dim": dim})
    return linear.reshape(found, (level.size, *x.shape))


# -- slices along a dimension ------------------------------------------------------------------


def by_slices(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """``op(self, index, ...)`` along ``dim``, by numbers that are the same for all entries."""
    x, index, *more = args
    shifted = {**options, "dim": options["dim"] + 1}
    return op(lined_up(level, x), index, *[lined_up(level, y) for y in more], **shifted)


def slices_where(level: BatchLevel, index: Any, dim: int) -> tuple[Any, ...]:
    """The index of slices along ``dim``, by numbers of each entry."""
    numbers = linear.reshape(index.value, (level.size, numel(index.shape)))
    return (*(WHOLE,) * dim, Batched(level, numbers))


def take_slices(level: BatchLevel, x: Any, index: Any, dim: int) -> Any:
    """Of each entry the slices at numbers of its own."""
    if not x.shape:
        return level.stacked(x)
    return _index(level, linear.index, [x], {"where": slices_where(level, index, dim)})


def add_slices(level: BatchLevel, values: Any, index: Any, shape: Any, dim: int) -> Any:
    """Zeros of ``shape`` with slices added at numbers of each entry."""
    options = {"shape": shape or (1,), "where": slices_where(level, index, dim)}
    lines = Batched(level, lined_up(level, values))
    found = _index_add_zeros(level, linear.index_add_zeros, [lines], options)
    return linear.reshape(found, (level.size, *shape))


def put_slices(
    level: BatchLevel, x: Any, index: Any, values: Any, dim: int, accumulate: bool = False
) -> Any:
    """Slices, or one value, put or added at numbers of each entry."""
    where = slices_where(level, Batched(level, level.stacked(index)), dim)
    options = {"where": where, "accumulate": accumulate}
    lines = Batched(level, lined_up(level, x))
    found = _index_put(level, linear.index_put, [lines, values], options)
    return linear.reshape(found, (level.size, *x.shape))


def slices_taken(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """Slices picked: ``op(self, index)``."""
    (x, index), dim = args, options["dim"]
    if level.owns(index):
        return take_slices(level, x, index, dim)
    found = by_slices(level, op, args, options)
    return found if x.shape else linear.reshape(found, (level.size,))


def slices_added(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """Slices added to zeros: ``op(self, index, size=)``."""
    (values, index), size = args, options["size"]
    if level.owns(index):
        return add_slices(level, values, index, size, options["dim"])
    whole = {**options, "size": (level.size, *(size or (1,)))}
    found = by_slices(level, op, args, whole)
    return linear.reshape(found, (level.size, *size))


def slices_put(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """Slices put or added: ``op(self, index, source)``."""
    x, index, source = args
    if not level.owns(index):
        found = by_slices(level, op, args, options)
        return linear.reshape(found, (level.size, *x.shape))
    if options.get("alpha", 1) != 1:
        source = Batched(level, level.stacked(source) * element(options["alpha"], raw(x).dtype))
    lines = Batched(level, lined_up(level, source))
    return put_slices(level, x, index, lines, options["dim"], "alpha" in options)


def slices_filled(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """One value put in slices: ``op(self, index, value)``."""
    x, index = args[:2]
    dtype = raw(x).dtype
    if len(args) == 2:
        return put_slices(level, x, index, element(options["value"], dtype), options["dim"])
    # A slice that is named twice is filled once, and counts once in the gradient of the value.
    stacked = level.stacked(x)
    zeros = Batched(level, elementwise.zeros_like(stacked))
    filled = put_slices(level, zeros, index, element(1, dtype), options["dim"])
    value = level.aligned(args[2], len(x.shape))
    if raw(value).dtype != dtype:
        value = elementwise.to_dtype(value, dtype=dtype)
    return elementwise.where(elementwise.ne(filled, 0), value, stacked)


def positions_taken(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """``op(self, index)`` by positions in reading order."""
    return take_positions(level, *args)


def positions_put(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """``op(self, index, source)`` by positions in reading order."""
    x, index, source = args
    values = linear.reshape(level.stacked(source), (level.size, *index.shape))
    return put_positions(level, x, Batched(level, values), index, options["accumulate"])


# -- masks -------------------------------------------------------------------------------------


def numbers_where(mask: Any, first: int = 0) -> Any:
    """At each place where a mask holds, how many there are before it, in reading order from
    dimension ``first`` on."""
    shape = tuple(mask.shape)
    each = linear.reshape(mask, (*shape[:first], numel(shape[first:])))
    counted = linear.cumsum(elementwise.to_dtype(each, dtype=arrays.int64), dim=first)
    return linear.reshape(elementwise.clamp(counted - 1, min=0, max=None), shape)


def mask_taken(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """``masked_select``, by a mask that is the same for all entries."""
    x, mask = args
    if level.owns(mask):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot "
            "support this because for each batch this would return a differently shaped Tensor. "
            "Use torch.where() instead."
        )
    full = broadcast(tuple(x.shape), tuple(mask.shape)) or (1,)
    values = linear.expand(level.aligned(x, len(full)), size=(level.size, *full))
    return linear.index(values, where=(WHOLE, raw(linear.expand(mask, size=full))))


def mask_filled(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """``masked_scatter``: at each place where the mask holds the element of the source whose
    number is that of the place."""
    x, mask, source = args
    full = broadcast(tuple(x.shape), tuple(mask.shape))
    holds = linear.expand(level.aligned(mask, len(full)), size=(level.size, *full))
    size = numel(source.shape)
    counted = linear.sum_dim(rows(level, Batched(level, holds)), dim=(1,), keepdim=False)
    if level.size and int(bare(counted).max()) > size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    old = linear.expand(level.aligned(x, len(full)), size=(level.size, *full))
    if not size:
        return elementwise.clone(old)
    numbers = Batched(level, numbers_where(holds, 1))
    return elementwise.where(holds, take_positions(level, source, numbers), old)
