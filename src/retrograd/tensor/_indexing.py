"""Indexing as PyTorch reads it: one basic step at a time, then one step for all index arrays.

``x[0, 1:, None, mask]`` selects, slices and adds dimensions first, each of which is a view with
its own node; what remains are arrays of indices or masks, which copy.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes, switch
from retrograd.arrays import dtypes
from retrograd.autograd._wrap import wrap
from retrograd.ops import copies, linear
from retrograd.ops._arguments import element
from retrograd.ops._lifted import Lifted
from retrograd.ops.shapes import reshaping
from retrograd.ops.shapes._index_arguments import (
    as_indices_or_mask,
    check_index,
    check_index_put,
    is_byte,
)
from retrograd.tensor._fast import bind
from retrograd.tensor._inplace import write_in_place
from retrograd.tensor._tensor import Tensor


def as_index_array(item: Any) -> Any:
    """An index given as a tensor, array or list, as a raw array of indices or a mask."""
    if isinstance(item, Tensor):
        # A copy: it may be written before the gradient needs it.
        return as_indices_or_mask(copies.clone(item._data))
    if not arrays.is_raw(item):
        refuse_words(item)
        item = arrays.asarray(item)
    dtypes.from_numpy_dtype(item.dtype)  # for the error of what is no number
    if item.dtype.kind == "b" or is_byte(item.dtype):
        return as_indices_or_mask(item)
    return arrays.cast(item, arrays.int64)


def refuse_words(items: Any) -> None:
    """Strings are sequences, but not of numbers."""
    if isinstance(items, str):
        raise TypeError("new(): invalid data type 'str'")
    for item in items:
        if isinstance(item, (str, list, tuple)):
            refuse_words(item)


def as_items(index: Any) -> tuple[Any, ...]:
    """What an index says about each dimension. A list means the same as a tuple if there is
    anything in it that a list of numbers would not have, such as another list."""
    if isinstance(index, tuple):
        return index
    if isinstance(index, Sequence) and not isinstance(index, str) and len(index) < 32:
        for item in index:
            if item is None or item is Ellipsis or isinstance(item, (Tensor, slice, Sequence)):
                return tuple(index)
    return (index,)


def split_index(self: Tensor, index: Any) -> tuple[Tensor, tuple[Any, ...] | None]:
    """The view that the basic parts of an index give, and the arrays that remain, if any.

    A slice that is all of its dimension takes no step.
    """
    items = [plain_item(item) for item in as_items(index)]
    taken = sum([dims_taken(item) for item in items])
    ndim = self._data.ndim
    if taken > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    view, dim = self, 0
    remaining: dict[int, Any] = {}
    for position, item in enumerate(items):
        kind = type(item)
        if kind is slice:
            if not is_whole(item, view._data.shape[dim]):
                view = one_slice(view, dim, item)
            dim += 1
        elif item is Ellipsis:
            dim += ndim - taken
        elif item is None:
            view, dim = _unsqueeze(view, dim=dim), dim + 1
        elif kind is int:
            view = one_element(view, dim, item, items[:position])
        else:
            if item.dtype.kind == "b" and not item.ndim:  # a dimension of its own, 1 or 0 long
                view, item = _unsqueeze(view, dim=dim), item.reshape(1)
            check_index(item, view._data.shape, dim, len(remaining))
            remaining[dim] = item
            dim += item.ndim if item.dtype.kind == "b" else 1
    return view, arrays_by_dim(remaining, dim) if remaining else None


def plain_item(item: Any) -> Any:
    """An item of an index as an integer, a slice, None, an ellipsis, or a raw array of indices or
    truths."""
    kind = type(item)
    if kind is int or kind is slice or item is None or item is Ellipsis:
        return item
    if isinstance(item, Lifted):  # looked at before
        return item
    if kind is bool:
        return arrays.asarray(item)
    if is_integer(item):
        return operator.index(item)
    if isinstance(item, (Tensor, Sequence, arrays.ndarray)):
        return as_index_array(item)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {name})"
    )


def is_whole(item: slice, size: int) -> bool:
    """Whether a slice takes all of a dimension, as PyTorch sees it: a start counted from the end
    is not looked into."""
    if item.start not in (None, 0) or item.step not in (None, 1):
        return False
    return item.stop is None or operator.index(item.stop) >= size


def dims_taken(item: Any) -> int:
    """How many dimensions of the tensor an item of an index speaks of."""
    if item is None or item is Ellipsis:
        return 0
    is_mask = not isinstance(item, (int, slice)) and item.dtype.kind == "b"
    return item.ndim if is_mask else 1


def is_integer(item: Any) -> bool:
    """Whether an item of an index is one number: a Python integer, or an array of one."""
    if isinstance(item, Tensor):
        item = item._data
    if isinstance(item, Lifted):
        item = item.shared
        if item is None:  # another for each entry of a batch: indices, as far as we are concerned
            return False
    if arrays.is_raw(item):
        return not item.ndim and item.dtype.kind in "iu" and not is_byte(item.dtype)
    return hasattr(item, "__index__")


def arrays_by_dim(remaining: dict[int, Any], ndim: int) -> tuple[Any, ...]:
    """An index that has each array at its dimension and everything at the others."""
    where: list[Any] = []
    dim = 0
    while dim < ndim:
        array = remaining.get(dim)
        where.append(slice(None) if array is None else array)
        dim += array.ndim if array is not None and array.dtype.kind == "b" and array.ndim else 1
    while isinstance(where[-1], slice):
        where.pop()
    return tuple(where)


def one_slice(view: Tensor, dim: int, item: slice) -> Tensor:
    if not view._data.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    start, stop, step = item.start, item.stop, item.step
    for bound in (start, stop, step):
        if bound is not None and type(bound) is not int:
            item.indices(0)  # for the errors of what is no index
            item = slice(*[b if b is None else operator.index(b) for b in (start, stop, step)])
            break
    if step is not None and not item.step:
        item.indices(0)  # for the error of a step of zero
    result: Tensor = _slice(view, where=(_WHOLE,) * dim + (item,))
    return result


_slice, _select, _unsqueeze = map(bind, (linear.slice_, linear.select, linear.unsqueeze))
_WHOLE = slice(None)


def one_element(view: Tensor, dim: int, index: int, before: Sequence[Any] = ()) -> Tensor:
    """``view`` at ``index`` along ``dim``; ``before`` are the items of the index before this."""
    shape = view._data.shape
    if not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
            "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
        )
    size = shape[dim]
    if not -size <= index < size:
        named = dim + sum([type(x) is int for x in before]) - sum([x is None for x in before])
        raise IndexError(f"index {index} is out of bounds for dimension {named} with size {size}")
    result: Tensor = _select(view, dim=dim, index=index % size)
    return result


def getitem(self: Tensor, index: Any) -> Any:
    """``self[index]``: a view for basic indices, a copy where arrays or masks take part."""
    kind = type(index)
    if kind is int:
        return one_element(self, 0, index)
    if kind is slice:
        return one_slice(self, 0, index)
    if switch.active and modes.levels and (steps := two_steps(index)) is not None:
        return getitem(getitem(self, steps[0]), steps[1])
    view, where = split_index(self, index)
    if where is None:
        return linear.alias(self) if view is self else view
    return linear.index(view, where=where)


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """``self[index] = value``, written into memory and recorded in the graph."""
    if switch.active and modes.levels and (steps := two_steps(index)) is not None:
        chosen = getitem(self, steps[0])
        setitem(chosen, steps[1], value)
        index, value = steps[0], chosen
    view, where = split_index(self, index)
    if not isinstance(value, Tensor):
        value = as_value(value, self)
    if where is not None:
        ones = next((d for d, size in enumerate(value.shape) if size != 1), value.ndim)
        if ones:  # dimensions of size 1 in front do not matter
            value = linear.view(value, size=tuple(value.shape[ones:]))
        check_index_put(view, value, where)
        write_in_place(linear.index_put, [view, value], {"where": where, "accumulate": False})
    elif view.ndim and not value.ndim:
        write_in_place(copies.fill, [view, value], {})
    else:
        write_in_place(copies.copy, [view, brought_to(view.shape, value)], {})


def two_steps(index: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """An index by a number of each entry of a batch and by arrays, as one by the number and one by
    the arrays; None if it is not such an index. A number takes its dimension away before arrays are
    looked at, but what is not the same for all entries takes its place among the arrays."""
    items = [plain_item(item) for item in as_items(index)]
    numbers = [isinstance(w, Lifted) and not w.ndim and w.dtype.kind in "iu" for w in items]
    both = list(zip(items, numbers, strict=True))
    if not any(numbers) or not any(hasattr(w, "dtype") and not n for w, n in both):
        return None
    first: list[Any] = []
    for item, number in both:
        if number or item is Ellipsis:
            first.append(item)
        elif item is not None:
            first += [_WHOLE] * dims_taken(item)
    return tuple(first), tuple([item for item, number in both if not number])


def as_value(value: Any, like: Tensor) -> Any:
    if arrays.is_raw(value):
        return wrap(value)
    if isinstance(value, (bool, int, float, complex)):
        return wrap(element(value, like._data.dtype))
    raise TypeError(f"can't assign a {type(value).__name__} to a {like.type()}")


def brought_to(shape: Sequence[int], value: Tensor) -> Tensor:
    """A value in the shape of its place: it may have fewer dimensions, and more of size 1 in
    front. In PyTorch's steps, since the graph shows them: a view without those, then expanded."""
    size = tuple(value.shape)
    if size == tuple(shape):
        return value
    while size and size[0] == 1:
        size = size[1:]
    result: Tensor = linear.reshape(value, size)
    return result if size == tuple(shape) else reshaping.expand(result, shape)
