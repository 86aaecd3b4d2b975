"""Elements by position: take, put, index_put."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._dims import numel
from retrograd.ops._lifted import bare
from retrograd.ops._operation import Composite, composite, raw
from retrograd.ops._public import public
from retrograd.ops.copies import clone, index_for
from retrograd.ops.linear import new_zeros
from retrograd.ops.shapes._index_arguments import (
    as_indices_or_mask,
    check_in_bounds,
    check_index,
    check_index_put,
    check_same_dtype,
    tensor_argument,
)

# -- elements by position --------------------------------------------------------------------


def _put(self: Raw, index: Raw, source: Raw, accumulate: bool) -> Raw:
    indices = arrays.sorting.from_front(index, self.size)
    if accumulate:
        return self + arrays.add_flat(self.shape, indices, source)
    return arrays.put_flat(self, indices, source.reshape(indices.shape))


def _from_positions(g: Any, index: Any, shape: Any) -> Any:
    return linear.add_flat(g, shape=tuple(shape), positions=index_for(index, g))


def _put_self(g: Any, index: Any, accumulate: bool) -> Any:
    if accumulate:
        return g
    return put_tensor(g, index, new_zeros(g, tuple(index.shape)), accumulate=False)


def _put_in_order(self: Any, index: Any, source: Any, accumulate: bool) -> Any:
    flat = linear.reshape(self, (numel(self.shape),))
    values = linear.reshape(source, tuple(index.shape))
    where_to = (index_for(index, flat, values),)
    flat = linear.index_put(flat, values, where=where_to, accumulate=accumulate)
    return linear.reshape(flat, tuple(self.shape))


take_at = composite(
    "take", lambda self, index: linear.take_positions(self, index_for(index, self)),
    arrays.take_flat,
    inputs=("self", "index"), rules={"self": _from_positions}, batch="definition",
)  # fmt: skip
put_tensor: Composite = composite(
    "put", _put_in_order, _put, inputs=("self", "index", "source"), batch="definition",
    rules={"self": _put_self,
           "source": lambda g, index, shape: linear.reshape(take_at(g, index), tuple(shape))},
)  # fmt: skip


def _check_positions(name: str, self: Any, index: Any) -> None:
    indices, count = raw(index), numel(self.shape)
    if indices.dtype != arrays.int64:
        word = dtypes.type_word(indices.dtype)
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {word}")
    if indices.size and not count:
        raise IndexError(f"{name}(): tried to {name.rstrip('_')} from an empty tensor")
    words = "out of range: tried to access index {} on a tensor of {2} elements."
    check_in_bounds(indices, 0, count, words.replace("{}", "{0}"), True, IndexError)


@public("torch method", out="same, apart")
def take(input: Any, index: Any) -> Any:
    """Selects elements by their indices in the flattened tensor.

    Args:
        index: A tensor of integers. Negative ones count from the end.

    Returns:
        A tensor of the shape of ``index``.

    Example:
        >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([3, -4]))
        tensor([4, 1])
    """
    tensor_argument("take", "index", index, 1)
    _check_positions("take", input, index)
    return take_at(input, index)


@public("torch method", in_place=True)
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Writes elements to a copy of ``input``, by their indices in the flattened tensor.

    Args:
        index: A tensor of integers.
        source: The elements, as many as there are indices.
        accumulate: Whether the elements are added to those of ``input`` instead of replacing them.

    Example:
        >>> torch.put(torch.zeros(2, 2), torch.tensor([3, 0]), torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 1.]])
    """
    tensor_argument("put", "index", index, 1)
    tensor_argument("put", "source", source, 2)
    check_same_dtype("put_(): self and source expected to have the same dtype, but got "
                     "self.dtype = {} and source.dtype = {}", input, source)  # fmt: skip
    if raw(index).dtype == arrays.int64 and raw(index).size != raw(source).size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {raw(source).size}, index.numel() = {raw(index).size}"
        )
    _check_positions("put_", input, index)
    return put_tensor(input, index, source, accumulate=accumulate)


# -- at an index, as in x[...] = y -----------------------------------------------------------


@public("torch method", in_place="torch method")
def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """Writes values to ``input[indices]`` in a copy of ``input``.

    Args:
        indices: A tuple of index tensors, one for each of the leading dimensions. ``None`` selects
            all of a dimension.
        values: A tensor that can be broadcast to the shape of ``input[indices]``.
        accumulate: Whether the values are added to the elements instead of replacing them. Indices
            may repeat then.

    Example:
        >>> at = (torch.tensor([0, 0]), torch.tensor([1, 1]))
        >>> torch.zeros(2, 2).index_put(at, torch.tensor([1., 2.]), accumulate=True)
        tensor([[0., 3.],
                [0., 0.]])
    """
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            "index_put(): argument 'indices' (position 1) must be tuple of Tensors, not "
            f"{type(indices).__name__}"
        )
    for number, index in enumerate(indices):
        if not hasattr(index, "shape"):
            raise TypeError(
                f"expected Tensor as element {number} in argument 0, but got {type(index).__name__}"
            )
    tensor_argument("index_put", "values", values, 2)
    where_to = tuple([clone(as_indices_or_mask(raw(index))) for index in indices])
    taken = sum(index.ndim if index.dtype.kind == "b" else 1 for index in where_to)
    if taken > len(input.shape):
        raise IndexError(
            f"too many indices for tensor of dimension {len(input.shape)} (got {taken})"
        )
    dim = 0
    for number, index in enumerate(where_to):
        check_index(index, tuple(input.shape), dim, number)
        dim += index.ndim if index.dtype.kind == "b" else 1
    check_index_put(input, values, where_to, accumulate)
    values = _fitting(input, values, where_to, taken, accumulate)
    return linear.index_put(input, values, where=where_to, accumulate=accumulate)


def _fitting(
    input: Any, values: Any, where_to: tuple[Any, ...], taken: int, accumulate: bool
) -> Any:
    """Values that have no more dimensions than they are put to; NumPy would ignore those of size 1.
    A single value that fills a mask may have any number. ``taken``: how many dimensions of the
    input are indexed."""
    masks = [index.dtype.kind == "b" for index in where_to]
    if masks == [True] and not accumulate and numel(values.shape) == 1:
        return linear.reshape(values, ()) if len(values.shape) else values
    ranks = [1 if is_mask else x.ndim for x, is_mask in zip(where_to, masks, strict=True)]
    rest = tuple(input.shape[taken:])
    if len(values.shape) <= max(ranks, default=0) + len(rest):
        return values
    shapes = [(int(bare(x).sum()),) if is_mask else tuple(x.shape)
              for x, is_mask in zip(where_to, masks, strict=True)]  # fmt: skip
    raise RuntimeError(
        f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
        f"indexing result of shape {[*arrays.broadcast_shapes(*shapes), *rest]}"
    )
