"""Elements where a mask is True: masked_select, masked_scatter."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.ops import linear
from retrograd.ops._batching import batches_of
from retrograd.ops._dims import broadcast, numel
from retrograd.ops._lifted import Lifted, bare
from retrograd.ops._operation import Composite, composite, raw
from retrograd.ops._public import public
from retrograd.ops._words import PADDED
from retrograd.ops.copies import clone, index_for, to_dtype, zeros_like
from retrograd.ops.linear import new_zeros
from retrograd.ops.piecewise import clamp, where
from retrograd.ops.shapes._index_arguments import check_same_dtype, tensor_argument


def _back_to_mask(g: Any, mask: Any, shape: Any) -> Any:
    full = broadcast(tuple(shape), tuple(mask.shape))
    return masked_scatter_tensor(new_zeros(g, full), mask, g)


def _used_of_source(g: Any, mask: Any, shape: Any) -> Any:
    """The gradient of as many elements as were placed; none for the rest."""
    if isinstance(raw(mask), Lifted):  # of which it cannot be said how many
        full, size = tuple(g.shape), numel(shape)
        if not size:
            return new_zeros(g, tuple(shape))
        positions = raw(_count_before(linear.expand(mask, size=full)))
        used = where(mask, g, zeros_like(g))
        return linear.reshape(
            linear.add_flat(used, shape=(size,), positions=positions), tuple(shape)
        )
    picked = masked_select_at(g, mask)
    count, size = numel(picked.shape), numel(shape)
    if count < size:
        picked = linear.put_zeros(picked, shape=(size,), where=(slice(0, count),))
    return linear.reshape(picked, tuple(shape))


def _selected_by_mask(self: Any, mask: Any) -> Any:
    if batches_of(raw(mask)):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot "
            "support this because for each batch this would return a differently shaped Tensor. "
            "Use torch.where() instead."
        )
    full = broadcast(tuple(self.shape), tuple(mask.shape)) or (1,)
    return linear.index(_expanded(self, full), where=(_expanded(index_for(mask, self), full),))


def _expanded(x: Any, shape: tuple[int, ...]) -> Any:
    return x if tuple(x.shape) == shape else linear.expand(x, size=shape)


def _count_before(mask: Any) -> Any:
    """For each element how many before it, in reading order, the mask selects."""
    shape = tuple(mask.shape)
    flat = to_dtype(linear.reshape(mask, (numel(shape),)), dtype=arrays.int64)
    counted = linear.cumsum(flat, dim=0)
    return linear.reshape(clamp(counted - 1, min=0, max=None), shape)


def _scattered_by_mask(self: Any, mask: Any, source: Any) -> Any:
    """Where the mask is true, the element of the source whose position is how many were before."""
    full = broadcast(tuple(self.shape), tuple(mask.shape))
    mask = _expanded(mask, full)
    size, known = numel(source.shape), bare(mask)
    counts = arrays.sum(known, tuple(range(known.ndim - len(full), known.ndim)), False)
    if counts.size and int(counts.max()) > size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    if not size:
        return clone(linear.expand(self, size=full))
    return where(mask, linear.take_positions(source, raw(_count_before(mask))), self)


masked_select_at: Composite = composite(
    "masked_select", _selected_by_mask, arrays.sorting.masked, inputs=("self", "mask"),
    rules={"self": _back_to_mask}, broadcasts=True, batch="definition",
    words=PADDED,
)  # fmt: skip
masked_scatter_tensor: Composite = composite(
    "masked_scatter", _scattered_by_mask, arrays.sorting.put_masked,
    inputs=("self", "mask", "source"), broadcasts=True, batch="definition",
    rules={"self": lambda g, mask: where(mask, zeros_like(g), g), "source": _used_of_source},
)  # fmt: skip


@public("torch method", out="same, apart")
def masked_select(input: Any, mask: Any) -> Any:
    """Selects the elements for which a mask is true.

    Args:
        mask: A tensor of bool, which is broadcast with ``input``.

    Returns:
        A 1-D tensor of the selected elements, in row-major order.

    Example:
        >>> x = torch.tensor([1., -2., 3.])
        >>> torch.masked_select(x, x > 0)
        tensor([1., 3.])
    """
    tensor_argument("masked_select", "mask", mask, 1)
    if raw(mask).dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    broadcast(tuple(mask.shape), tuple(input.shape))
    return masked_select_at(input, mask)


@public("torch method", in_place=True)
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """Replaces the elements for which a mask is true by consecutive elements of ``source``.

    Args:
        mask: A tensor of bool, which is broadcast with ``input``.
        source: A tensor with at least as many elements as the mask selects.

    Returns:
        A copy of ``input`` with the elements replaced.

    Example:
        >>> mask = torch.tensor([True, False, True])
        >>> torch.zeros(3).masked_scatter(mask, torch.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    tensor_argument("masked_scatter", "mask", mask, 1)
    tensor_argument("masked_scatter", "source", source, 2)
    broadcast(tuple(mask.shape), tuple(input.shape))
    if raw(mask).dtype.kind != "b":
        word = dtypes.type_word(raw(mask).dtype)
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {word}"
        )
    check_same_dtype("masked_scatter: expected self and source to have same dtypes but got{} and "
                     "{}", input, source)  # fmt: skip
    return masked_scatter_tensor(input, mask, source)
