"""Indexing as PyTorch reads it: one basic step at a time, then one step for all index arrays.

``x[0, 1:, None, mask]`` selects, slices and adds dimensions first, each of which is a view with
its own node; what remains are arrays of places or masks, which copy.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.ops import elementwise, linear, shaping
from retrograd.tensor._inplace import write_in_place
from retrograd.tensor._tensor import Tensor

_ALLOWED = (
    "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
    "indices (got {})"
)


def as_index_array(item: Any) -> Any:
    """An index given as a tensor, array or list, as a raw integer or boolean array."""
    if isinstance(item, Tensor):
        raw = arrays.copy(item._data)  # it may be written before the gradient needs it
    else:
        raw = arrays.asarray([x._data if isinstance(x, Tensor) else x for x in item]
                             if isinstance(item, (list, tuple)) else item)  # fmt: skip
        if raw.size == 0:
            raw = arrays.cast(raw, arrays.int64)
    if raw.dtype.kind not in "biu":
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return arrays.cast(raw, arrays.bool_) if raw.dtype.name == "uint8" else raw


def is_index_array(item: Any) -> bool:
    return isinstance(item, (Tensor, list, tuple)) or arrays.is_raw(item)


def split_index(
    self: Tensor, index: Any, to_write: bool = False
) -> tuple[Tensor, tuple[Any, ...] | None]:
    """The view that the basic parts of an index give, and the arrays that remain, if any.

    A slice that is all of its dimension takes no step, unless it is all there is to be read.
    """
    if isinstance(index, slice) and not to_write:
        return one_slice(self, 0, index), None
    if type(index) is int:
        return one_element(self, 0, index), None
    items = index if isinstance(index, tuple) else (index,)
    taken = sum(dims_taken(item) for item in items)
    if taken > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim}")
    view, dim, remaining = self, 0, {}
    for position, item in enumerate(items):
        if item is Ellipsis:
            dim += self.ndim - taken
        elif item is None:
            view, dim = linear.unsqueeze(view, dim=dim), dim + 1
        elif isinstance(item, slice):
            if not is_whole(item, view, dim):
                view = one_slice(view, dim, item)
            dim += 1
        elif isinstance(item, (bool, arrays.bool_type)):
            view = linear.unsqueeze(view, dim=dim)
            remaining[dim] = arrays.asarray([bool(item)])
            dim += 1
        elif is_integer(item):
            before = items[:position]
            named = dim + sum(is_integer(x) for x in before) - sum(x is None for x in before)
            view = one_element(view, dim, operator.index(item), named)
        elif is_index_array(item):
            array = as_index_array(item)
            if array.dtype.kind == "b" and not array.ndim:  # as True or False
                view, array = linear.unsqueeze(view, dim=dim), array.reshape(1)
            check_mask(array, view, dim, len(remaining))
            remaining[dim] = array
            dim += max(array.ndim, 1) if array.dtype.kind == "b" else 1
        elif isinstance(item, str):
            raise TypeError("new(): invalid data type 'str'")
        else:
            raise IndexError(_ALLOWED.format(type(item).__name__))
    return view, arrays_by_dim(remaining, dim) if remaining else None


def is_whole(item: slice, view: Tensor, dim: int) -> bool:
    """Whether a slice takes all of a dimension, as PyTorch sees it: a start counted from the end
    is not looked into."""
    if not view.ndim or item.start not in (None, 0) or item.step not in (None, 1):
        return False
    return item.stop is None or operator.index(item.stop) >= view.shape[dim]


def dims_taken(item: Any) -> int:
    """How many dimensions of the tensor an item of an index speaks of."""
    if item is None or item is Ellipsis or isinstance(item, (bool, arrays.bool_type)):
        return 0
    if isinstance(item, Tensor) or arrays.is_raw(item):
        raw = item._data if isinstance(item, Tensor) else item
        return raw.ndim if raw.dtype.kind == "b" or raw.dtype.name == "uint8" else 1
    if isinstance(item, (list, tuple)):
        raw = as_index_array(item)
        return raw.ndim if raw.dtype.kind == "b" else 1
    return 1


def is_integer(item: Any) -> bool:
    if isinstance(item, Tensor):
        return item.ndim == 0 and item._data.dtype.kind in "iu"
    return hasattr(item, "__index__") and not (arrays.is_raw(item) and item.ndim)


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


def check_mask(array: Any, view: Tensor, dim: int, position: int) -> None:
    if array.dtype.kind == "b":
        for k, size in enumerate(array.shape):
            if view.shape[dim + k] != size:
                raise IndexError(
                    f"The shape of the mask {list(array.shape)} at index {k} does not match the "
                    f"shape of the indexed tensor {list(view.shape)} at index {dim + k}"
                )
        return
    size = view.shape[dim]
    if array.size and not size:
        raise IndexError("index is out of bounds for dimension with size 0")
    if array.size and (array.max() >= size or array.min() < -size):
        bad = next(int(i) for i in array.ravel() if not -size <= i < size)
        raise IndexError(f"index {bad} is out of bounds for dimension {position} with size {size}")


def one_slice(view: Tensor, dim: int, item: slice) -> Tensor:
    if not view.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    item.indices(0)  # for the errors of what is no index, and of a step of zero
    if item.step is not None and operator.index(item.step) <= 0:
        raise ValueError("step must be greater than zero")
    bounds = [b if b is None else operator.index(b) for b in (item.start, item.stop, item.step)]
    result: Tensor = linear.slice_(view, where=(slice(None),) * dim + (slice(*bounds),))
    return result


def one_element(view: Tensor, dim: int, index: int, named: int = 0) -> Tensor:
    """``view`` at ``index`` along ``dim``, which was dimension ``named`` of what was indexed."""
    shape = view._data.shape
    if not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
            "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
        )
    size = shape[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension {named} with size {size}")
    result: Tensor = linear.select(view, dim=dim, index=index % size)
    return result


def getitem(self: Tensor, index: Any) -> Any:
    """``self[index]``: a view for basic indices, a copy where arrays or masks take part."""
    view, where = split_index(self, index)
    if where is None:
        return linear.alias(self) if view is self else view
    return linear.index(view, where=where)


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """``self[index] = value``, written into memory and recorded in the graph."""
    view, where = split_index(self, index, to_write=True)
    if not isinstance(value, Tensor):
        value = as_value(value, self)
    if where is not None:
        check_same_dtype(view, value, where)
        write_in_place(linear.index_put, [view, value], {"where": where, "accumulate": False})
    elif view.ndim and not value.ndim:
        write_in_place(elementwise.fill, [view, value], {})
    else:
        write_in_place(elementwise.copy, [view, brought_to(view.shape, value)], {})


def check_same_dtype(view: Tensor, value: Tensor, where: tuple[Any, ...]) -> None:
    """PyTorch converts a single value put at a mask, and no other."""
    have, want = value._data.dtype, view._data.dtype
    at_mask = len(where) == 1 and where[0].dtype.kind == "b"
    if have != want and not (at_mask and not value.ndim):
        words = [arrays.dtypes.type_word(d) for d in (want, have)]
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{words[0]} for the destination and {words[1]} for the source."
        )


def as_value(value: Any, like: Tensor) -> Any:
    if arrays.is_raw(value):
        return wrap(value)
    if isinstance(value, (bool, int, float, complex)):
        return wrap(arrays.as_value(value, like._data.dtype))
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
    return result if size == tuple(shape) else shaping.expand(result, shape)
