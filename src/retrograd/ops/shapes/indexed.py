"""Whole slices picked and put by number, elements by position or mask: ``index_select``,
``index_add``, ``take``, ``masked_select`` and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import element
from retrograd.ops._batching import batches_of
from retrograd.ops._batching_declarations import Dims
from retrograd.ops._dims import broadcast, numel, one_dim
from retrograd.ops._lifted import Lifted, bare
from retrograd.ops._operation import Composite, composite, raw
from retrograd.ops._public import public
from retrograd.ops._words import PADDED
from retrograd.ops.elementwise import clamp, clone, eq, ne, to_dtype, where, zeros_like
from retrograd.ops.linear import new_zeros
from retrograd.ops.shapes._places import (
    as_places_or_mask,
    check_in_bounds,
    check_index,
    check_index_put,
    check_same_dtype,
    is_index,
    size_along,
    tensor_argument,
)

# -- slices along a dimension ----------------------------------------------------------------


def _index_select(self: Raw, index: Raw, dim: int) -> Raw:
    if not self.ndim:
        return arrays.copy(self)
    return arrays.ascontiguous(arrays.sorting.take(self, index, dim))


def _add_slices(self: Raw, index: Raw, size: tuple[int, ...], dim: int) -> Raw:
    return arrays.sorting.add_slices(size, index, self, dim)


# The definitions index a dimension, of which a scalar is given one of size 1.


def _at(index: Any, dim: int) -> tuple[Any, ...]:
    """The index of slices along ``dim``."""
    return (*(slice(None),) * dim, raw(linear.reshape(index, (numel(index.shape),))))


def _with_dim(x: Any) -> Any:
    return x if x.shape else linear.reshape(x, (1,))


def _selected(self: Any, index: Any, dim: int) -> Any:
    result = linear.index(_with_dim(self), where=_at(index, dim))
    return result if self.shape else linear.reshape(result, ())


def _added(self: Any, index: Any, size: tuple[int, ...], dim: int) -> Any:
    where_to = _at(index, dim)
    return linear.reshape(
        linear.index_add_zeros(_with_dim(self), shape=size or (1,), where=where_to), size
    )


def _put_slices(self: Any, index: Any, values: Any, dim: int, accumulate: bool = False) -> Any:
    """Slices, or one value, put or added."""
    result = linear.index_put(
        _with_dim(self), values, where=_at(index, dim), accumulate=accumulate
    )
    return result if self.shape else linear.reshape(result, ())


index_select_at: Composite = composite(
    "index_select", _selected, _index_select, inputs=("self", "index"),
    batch=Dims(shared=("index",)),
    rules={"self": lambda g, index, shape, dim:
           add_slices(g, index, size=tuple(shape), dim=dim)},
    words="Each selected row gets its gradient; one selected several times gets the sum, all "
          "others get zero.",
)  # fmt: skip
add_slices: Composite = composite(
    "add_slices", _added, _add_slices, inputs=("self", "index"), node="IndexAddBackward0",
    batch=Dims(shared=("index",)),
    rules={"self": lambda g, index, shape, dim:
           linear.reshape(index_select_at(g, index, dim=dim), tuple(shape))},
)  # fmt: skip


def _index_add(self: Raw, index: Raw, source: Raw, dim: int, alpha: Any) -> Raw:
    if alpha != 1:
        source = source * element(alpha, self.dtype)
    return self + arrays.sorting.add_slices(self.shape, index, source, dim)


def _index_copy(self: Raw, index: Raw, source: Raw, dim: int) -> Raw:
    return arrays.sorting.put_slices(self, index, source, dim)


def _index_fill(self: Raw, index: Raw, dim: int, value: Any) -> Raw:
    return arrays.sorting.put_slices(self, index, element(value, self.dtype), dim)


def _index_fill_tensor(self: Raw, index: Raw, value: Raw, dim: int) -> Raw:
    return arrays.sorting.put_slices(self, index, value, dim)


def _slices_of(g: Any, index: Any, shape: Any, dim: int) -> Any:
    """The gradient of slices that were put: of several put at one place, each gets it."""
    picked = index_select_at(g, index, dim=dim)
    if not shape and len(g.shape) <= 1 and numel(picked.shape) == 1:
        return linear.reshape(picked, ())
    if not g.shape:  # a scalar, that slices were put into one after the other
        return linear.expand(linear.reshape(picked, (1,)), size=tuple(shape))
    return linear.reshape(picked, tuple(shape))


def _filled_gradient(g: Any, index: Any, dim: int) -> Any:
    """Of each place once, however often it was filled."""
    zeros = zeros_like(g)
    filled = index_fill_number(zeros, index, dim=dim, value=1)
    return linear.sum_all(where(eq(filled, 1), g, zeros))


def _added_to(self: Any, index: Any, source: Any, dim: int, alpha: Any) -> Any:
    if alpha != 1:
        source = source * element(alpha, raw(self).dtype)
    return _put_slices(self, index, _with_dim(source), dim, accumulate=True)


def _copied_to(self: Any, index: Any, source: Any, dim: int) -> Any:
    return _put_slices(self, index, _with_dim(source), dim)


def _filled(self: Any, index: Any, dim: int, value: Any) -> Any:
    dtype = raw(self).dtype
    return _put_slices(self, index, arrays.asarray(element(value, dtype), dtype), dim)


def _filled_by_tensor(self: Any, index: Any, value: Any, dim: int) -> Any:
    """A slice that is named twice is filled once, and counts once in the gradient of the value."""
    filled = _filled(zeros_like(self), index, dim, 1)
    return where(ne(filled, 0), to_dtype(value, dtype=raw(self).dtype), self)


index_add_tensor = composite(
    "index_add", _added_to, _index_add, inputs=("self", "index", "source"),
    batch=Dims(shared=("index",)),
    writes="elements of others",
    rules={"self": lambda g: g,
           "source": lambda g, index, shape, dim, alpha:
           _slices_of(g if alpha == 1 else g * alpha, index, shape, dim)},
)  # fmt: skip
index_fill_number: Composite = composite(
    "index_fill", _filled, _index_fill, inputs=("self", "index"), batch=Dims(shared=("index",)),
    rules={"self": lambda g, index, dim: index_fill_number(g, index, dim=dim, value=0)},
)  # fmt: skip
index_fill_tensor = composite(
    "index_fill_tensor", _filled_by_tensor, _index_fill_tensor, inputs=("self", "index", "value"),
    node="IndexFillBackward1", dtypes="free", batch="definition",
    rules={"self": lambda g, index, dim: index_fill_number(g, index, dim=dim, value=0),
           "value": _filled_gradient},
)  # fmt: skip
index_copy_tensor = composite(
    "index_copy", _copied_to, _index_copy, inputs=("self", "index", "source"),
    batch=Dims(shared=("index",)),
    writes="elements of others",
    rules={"self": lambda g, index, dim: index_fill_number(g, index, dim=dim, value=0),
           "source": _slices_of},
)  # fmt: skip


@public("torch method", out="same, apart")
def index_select(input: Any, dim: int, index: Any) -> Any:
    """Selects slices along a dimension by their indices.

    Args:
        input: The input tensor.
        dim: The dimension along which slices are selected.
        index: A vector of integers, the indices of the slices.

    Returns:
        A copy of the slices, as many along ``dim`` as there are indices.

    Example:
        >>> import retrograd as torch
        >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 0, torch.tensor([1, 1]))
        tensor([[3, 4],
                [3, 4]])
    """
    tensor_argument("index_select", "index", index, 2)
    places, shape = raw(index), raw(input).shape
    plain = one_dim(dim, len(shape))
    if places.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not is_index(places):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not shape and places.size != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {places.size} value(s)"
        )
    size = size_along(shape, plain)
    if places.size and not size and len(shape) > 1:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    if len(shape) > 1 and (plain or 0 in shape):
        check_in_bounds(places, plain, size,
                        "INDICES element is out of DATA bounds, id={0} axis_dim={2}")  # fmt: skip
    else:
        check_in_bounds(places, plain, size, "index out of range in self", error=IndexError)
    return index_select_at(input, index, dim=plain)


@public("torch method", in_place=True, out="same")
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Adds slices of ``source`` to slices of a copy of ``input``.

    Args:
        input: The input tensor.
        dim: The dimension along which slices are taken.
        index: For each slice of ``source``, the index of the slice of ``input`` that it is added
            to. Indices may repeat.
        source: The slices to add.
        alpha: A factor that ``source`` is multiplied by.

    Returns:
        A tensor of the shape of ``input``.

    Example:
        >>> import retrograd as torch
        >>> torch.zeros(2, 2).index_add(0, torch.tensor([1, 1]), torch.ones(2, 2))
        tensor([[0., 0.],
                [2., 2.]])
    """
    tensor_argument("index_add", "index", index, 2)
    tensor_argument("index_add", "source", source, 3)
    plain = check_slices("index_add", input, dim, index, source)
    if alpha != 1:
        element(alpha, raw(input).dtype)  # for the error of what does not fit
        if raw(input).dtype.kind in "biu":
            alpha = int(alpha.real)
    return index_add_tensor(input, index, source, dim=plain, alpha=alpha)


def check_slices(name: str, self: Any, dim: int, index: Any, source: Any, outside: str = "") -> int:
    """The dimension made plain, if an index and the slices that it places fit."""
    places, into, of = raw(index), raw(self).shape, raw(source).shape
    plain = one_dim(dim, len(into))
    if places.ndim > 1:
        word = dtypes.type_word(places.dtype)
        raise IndexError(
            f"{name}_(): Index is supposed to be a vector, but got dim: {places.ndim} with type: "
            f"{word} and size: {list(places.shape)}"
        )
    if not is_index(places):
        word = dtypes.type_word(places.dtype)
        raise RuntimeError(f"{name}_(): Expected dtype int32/int64 for index but got: {word}")
    check_same_dtype(f"{name}_(): self ({{}}) and source ({{}}) must have the same scalar type",
                     self, source)  # fmt: skip
    count = size_along(of, plain) if plain < max(len(of), 1) else 0
    if places.size != count:
        raise RuntimeError(
            f"{name}_(): Number of indices ({places.size}) should be equal to source.size(dim): "
            f"({count}), for dim: {plain}"
        )
    same = of[:plain] == into[:plain] and of[plain + 1 :] == into[plain + 1 :]
    if not same or len(of) != len(into):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(into)} source.shape = {list(of)}"
        )
    if into and not outside:
        check_in_bounds(places, plain, into[plain])
    else:
        outside = "index out of range in self"
        check_in_bounds(places, plain, size_along(into, plain), outside, error=IndexError)
    return plain


@public("torch method", in_place=True, out="same")
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """Copies slices of ``source`` to slices of a copy of ``input``.

    Args:
        input: The input tensor.
        dim: The dimension along which slices are taken.
        index: For each slice of ``source``, the index of the slice of ``input`` that it replaces.
        source: The slices to copy.

    Returns:
        A tensor of the shape of ``input``.

    Example:
        >>> import retrograd as torch
        >>> torch.zeros(2, 2).index_copy(0, torch.tensor([1]), torch.ones(1, 2))
        tensor([[0., 0.],
                [1., 1.]])
    """
    tensor_argument("index_copy", "index", index, 2)
    tensor_argument("index_copy", "source", source, 3)
    plain, places = one_dim(dim, len(input.shape)), raw(index)
    have, want = len(source.shape), len(input.shape)
    if places.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {places.ndim})")
    if not have and places.size != 1:
        raise IndexError(
            "index_copy_(): When source is scalar, index should have one element "
            f"(got {places.size})"
        )
    if have != want and have and want:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must "
            f"match. Source dimensionality ({have}), destination dimensionality ({want})"
        )
    if places.dtype != arrays.int64:
        word = dtypes.type_word(places.dtype)
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {word}")
    check_same_dtype("index_copy_(): self and source expected to have the same dtype, but got "
                     "(self) {} and (source) {}", input, source)  # fmt: skip
    slices = [[*s[:plain], *s[plain + 1 :]] for s in (input.shape, source.shape)]
    if slices[0] != slices[1]:
        words = [" ".join(map(str, s)) for s in slices]
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
            f"slice shape: {words[0]} at dimension {plain} and source slice shape: {words[1]} at "
            f"dimension {plain if have else 0}."
        )
    count = size_along(source.shape, plain)
    if places.size != count:
        raise IndexError(
            f"index_copy_(): Number of indices ({places.size}) should be equal to "
            f"source.size(dim) ({count})"
        )
    check_in_bounds(places, plain, size_along(input.shape, plain),
                    "index_copy_(): index {} is out of bounds for dimension {} with size {}",
                    error=IndexError)  # fmt: skip
    return index_copy_tensor(input, index, source, dim=plain)


@public("torch method", in_place=True)
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Fills slices of a copy of ``input`` with one value.

    Args:
        input: The input tensor.
        dim: The dimension along which slices are taken.
        index: A vector of integers, the indices of the slices.
        value: A number, or a tensor without dimensions.

    Returns:
        A tensor of the shape of ``input``.

    Example:
        >>> import retrograd as torch
        >>> torch.zeros(2, 2).index_fill(1, torch.tensor([0]), 5.0)
        tensor([[5., 0.],
                [5., 0.]])
    """
    tensor_argument("index_fill", "index", index, 2)
    is_tensor = hasattr(value, "shape")
    if not is_tensor and not isinstance(value, (bool, int, float, complex)):
        raise TypeError(
            "index_fill() received an invalid combination of arguments - got (int, Tensor, "
            f"{type(value).__name__}), but expected one of:"
        )
    if is_tensor and len(value.shape):
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{len(value.shape)} dimension(s)."
        )
    plain, places = one_dim(dim, len(input.shape)), raw(index)
    if places.dtype != arrays.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if places.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    is_complex = raw(value).dtype.kind == "c" if is_tensor else isinstance(value, complex)
    if is_complex and raw(input).dtype.kind != "c":
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    check_in_bounds(places, plain, size_along(input.shape, plain), negative=True, error=IndexError)
    if is_tensor:
        return index_fill_tensor(input, index, value, dim=plain)
    return index_fill_number(input, index, dim=plain, value=value)


# -- elements by position --------------------------------------------------------------------


def _take(self: Raw, index: Raw) -> Raw:
    return arrays.take_flat(self, index)


def _put(self: Raw, index: Raw, source: Raw, accumulate: bool) -> Raw:
    places = arrays.sorting.from_front(index, self.size)
    if accumulate:
        return self + arrays.add_flat(self.shape, places, source)
    return arrays.put_flat(self, places, source.reshape(places.shape))


def _from_positions(g: Any, index: Any, shape: Any) -> Any:
    return linear.add_flat(g, shape=tuple(shape), positions=raw(index))


def _put_self(g: Any, index: Any, accumulate: bool) -> Any:
    if accumulate:
        return g
    return put_tensor(g, index, new_zeros(g, tuple(index.shape)), accumulate=False)


def _put_in_order(self: Any, index: Any, source: Any, accumulate: bool) -> Any:
    flat = linear.reshape(self, (numel(self.shape),))
    values = linear.reshape(source, tuple(index.shape))
    flat = linear.index_put(flat, values, where=(raw(index),), accumulate=accumulate)
    return linear.reshape(flat, tuple(self.shape))


take_at = composite(
    "take", lambda self, index: linear.take_positions(self, raw(index)), _take,
    inputs=("self", "index"), rules={"self": _from_positions}, batch="definition",
)  # fmt: skip
put_tensor: Composite = composite(
    "put", _put_in_order, _put, inputs=("self", "index", "source"), batch="definition",
    rules={"self": _put_self,
           "source": lambda g, index, shape: linear.reshape(take_at(g, index), tuple(shape))},
)  # fmt: skip


def _check_positions(name: str, self: Any, index: Any) -> None:
    places, count = raw(index), numel(self.shape)
    if places.dtype != arrays.int64:
        word = dtypes.type_word(places.dtype)
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {word}")
    if places.size and not count:
        raise IndexError(f"{name}(): tried to {name.rstrip('_')} from an empty tensor")
    words = "out of range: tried to access index {} on a tensor of {2} elements."
    check_in_bounds(places, 0, count, words.replace("{}", "{0}"), True, IndexError)


@public("torch method", out="same")
def take(input: Any, index: Any) -> Any:
    """Selects elements by their indices in the flattened tensor.

    Args:
        input: The input tensor.
        index: A tensor of integers. Negative ones count from the end.

    Returns:
        A tensor of the shape of ``index``.

    Example:
        >>> import retrograd as torch
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
        input: The input tensor.
        index: A tensor of integers.
        source: The elements, as many as there are indices.
        accumulate: Whether the elements are added to those of ``input`` instead of replacing them.

    Returns:
        A tensor of the shape of ``input``.

    Example:
        >>> import retrograd as torch
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


# -- elements by mask ------------------------------------------------------------------------


def _masked_select(self: Raw, mask: Raw) -> Raw:
    return arrays.sorting.masked(self, mask)


def _masked_scatter(self: Raw, mask: Raw, source: Raw) -> Raw:
    return arrays.sorting.put_masked(self, mask, source)


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
    return linear.index(_expanded(self, full), where=(raw(_expanded(mask, full)),))


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
    "masked_select", _selected_by_mask, _masked_select, inputs=("self", "mask"),
    rules={"self": _back_to_mask}, broadcasts=True, batch="definition",
    words=PADDED,
)  # fmt: skip
masked_scatter_tensor: Composite = composite(
    "masked_scatter", _scattered_by_mask, _masked_scatter, inputs=("self", "mask", "source"),
    broadcasts=True, batch="definition",
    rules={"self": lambda g, mask: where(mask, zeros_like(g), g), "source": _used_of_source},
)  # fmt: skip


@public("torch method", out="same, apart")
def masked_select(input: Any, mask: Any) -> Any:
    """Selects the elements for which a mask is true.

    Args:
        input: The input tensor.
        mask: A tensor of bool, which is broadcast with ``input``.

    Returns:
        A 1-D tensor of the selected elements, in row-major order.

    Example:
        >>> import retrograd as torch
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
        input: The input tensor.
        mask: A tensor of bool, which is broadcast with ``input``.
        source: A tensor with at least as many elements as the mask selects.

    Returns:
        A copy of ``input`` with the elements replaced.

    Example:
        >>> import retrograd as torch
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


# -- at an index, as in x[...] = y -----------------------------------------------------------


@public("torch method", in_place="torch method")
def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """Writes values to ``input[indices]`` in a copy of ``input``.

    Args:
        input: The input tensor.
        indices: A tuple of index tensors, one for each of the leading dimensions. ``None`` selects
            all of a dimension.
        values: A tensor that can be broadcast to the shape of ``input[indices]``.
        accumulate: Whether the values are added to the elements instead of replacing them. Indices
            may repeat then.

    Returns:
        A tensor of the shape of ``input``.

    Example:
        >>> import retrograd as torch
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
    where_to = tuple([clone(as_places_or_mask(raw(index))) for index in indices])
    taken = sum(index.ndim if index.dtype.kind == "b" else 1 for index in where_to)
    if taken > len(input.shape):
        raise IndexError(
            f"too many indices for tensor of dimension {len(input.shape)} (got {taken})"
        )
    dim = 0
    for number, index in enumerate(where_to):
        check_index(index, tuple(input.shape), dim, number)
        dim += index.ndim if index.dtype.kind == "b" else 1
    check_index_put(input, values, where_to)
    return linear.index_put(input, values, where=where_to, accumulate=accumulate)
