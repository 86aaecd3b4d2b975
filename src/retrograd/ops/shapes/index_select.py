"""Whole slices by index along a dimension: index_select, index_add, index_copy, index_fill."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import element
from retrograd.ops._batching_declarations import Dims
from retrograd.ops._dims import numel, one_dim
from retrograd.ops._operation import Composite, composite, raw
from retrograd.ops._public import public
from retrograd.ops.comparisons import eq, ne
from retrograd.ops.copies import index_for, to_dtype, zeros_like
from retrograd.ops.piecewise import where
from retrograd.ops.shapes._index_arguments import (
    check_in_bounds,
    check_same_dtype,
    is_index,
    size_along,
    tensor_argument,
)


def _index_select(self: Raw, index: Raw, dim: int) -> Raw:
    if not self.ndim:
        return arrays.copy(self)
    return arrays.ascontiguous(arrays.sorting.take(self, index, dim))


# The definitions index a dimension, of which a scalar is given one of size 1.


def _at(index: Any, dim: int, *operands: Any) -> tuple[Any, ...]:
    """The index of slices along ``dim``, for an operation on ``operands``."""
    flat = linear.reshape(index_for(index, *operands), (numel(index.shape),))
    return (*(slice(None),) * dim, raw(flat))


def _with_dim(x: Any) -> Any:
    return x if x.shape else linear.reshape(x, (1,))


def _selected(self: Any, index: Any, dim: int) -> Any:
    result = linear.index(_with_dim(self), where=_at(index, dim, self))
    return result if self.shape else linear.reshape(result, ())


def _added(self: Any, index: Any, size: tuple[int, ...], dim: int) -> Any:
    where_to = _at(index, dim, self)
    return linear.reshape(
        linear.index_add_zeros(_with_dim(self), shape=size or (1,), where=where_to), size
    )


def _put_slices(self: Any, index: Any, values: Any, dim: int, accumulate: bool = False) -> Any:
    """Slices, or one value, put or added."""
    result = linear.index_put(
        _with_dim(self), values, where=_at(index, dim, self, values), accumulate=accumulate
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
    "add_slices", _added,
    lambda self, index, size, dim: arrays.sorting.add_slices(size, index, self, dim),
    inputs=("self", "index"), node="IndexAddBackward0",
    batch=Dims(shared=("index",)),
    rules={"self": lambda g, index, shape, dim:
           linear.reshape(index_select_at(g, index, dim=dim), tuple(shape))},
)  # fmt: skip


def _index_add(self: Raw, index: Raw, source: Raw, dim: int, alpha: Any) -> Raw:
    if alpha != 1:
        source = source * element(alpha, self.dtype)
    return self + arrays.sorting.add_slices(self.shape, index, source, dim)


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
    "index_fill", _filled,
    lambda self, index, dim, value:
        arrays.sorting.put_slices(self, index, element(value, self.dtype), dim),
    inputs=("self", "index"), batch=Dims(shared=("index",)),
    rules={"self": lambda g, index, dim: index_fill_number(g, index, dim=dim, value=0)},
)  # fmt: skip
index_fill_tensor = composite(
    "index_fill_tensor", _filled_by_tensor, arrays.sorting.put_slices,
    inputs=("self", "index", "value"), node="IndexFillBackward1", dtypes="free", batch="definition",
    writes="a value read before",
    rules={"self": lambda g, index, dim: index_fill_number(g, index, dim=dim, value=0),
           "value": _filled_gradient},
)  # fmt: skip
index_copy_tensor = composite(
    "index_copy", lambda self, index, source, dim: _put_slices(self, index, _with_dim(source), dim),
    arrays.sorting.put_slices, inputs=("self", "index", "source"),
    batch=Dims(shared=("index",)),
    writes="elements of others",
    rules={"self": lambda g, index, dim: index_fill_number(g, index, dim=dim, value=0),
           "source": _slices_of},
)  # fmt: skip


@public("torch method", out="same, apart")
def index_select(input: Any, dim: int, index: Any) -> Any:
    """Selects slices along a dimension by their indices.

    Args:
        dim: The dimension along which slices are selected.
        index: A vector of integers, the indices of the slices.

    Returns:
        A copy of the slices, as many along ``dim`` as there are indices.

    Example:
        >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 0, torch.tensor([1, 1]))
        tensor([[3, 4],
                [3, 4]])
    """
    tensor_argument("index_select", "index", index, 2)
    indices, shape = raw(index), raw(input).shape
    plain = one_dim(dim, len(shape))
    if indices.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not is_index(indices):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not shape and indices.size != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {indices.size} value(s)"
        )
    size = size_along(shape, plain)
    if indices.size and not size and len(shape) > 1:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    if len(shape) > 1 and (plain or 0 in shape):
        check_in_bounds(indices, plain, size,
                        "INDICES element is out of DATA bounds, id={0} axis_dim={2}")  # fmt: skip
    else:
        check_in_bounds(indices, plain, size, "index out of range in self", error=IndexError)
    return index_select_at(input, index, dim=plain)


@public("torch method", in_place=True, out="same")
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Adds slices of ``source`` to slices of a copy of ``input``.

    Args:
        dim: The dimension along which slices are taken.
        index: For each slice of ``source``, the index of the slice of ``input`` that it is added
            to. Indices may repeat.
        source: The slices to add.
        alpha: A factor that ``source`` is multiplied by.

    Example:
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
    indices, into, of = raw(index), raw(self).shape, raw(source).shape
    plain = one_dim(dim, len(into))
    if indices.ndim > 1:
        word = dtypes.type_word(indices.dtype)
        raise IndexError(
            f"{name}_(): Index is supposed to be a vector, but got dim: {indices.ndim} with type: "
            f"{word} and size: {list(indices.shape)}"
        )
    if not is_index(indices):
        word = dtypes.type_word(indices.dtype)
        raise RuntimeError(f"{name}_(): Expected dtype int32/int64 for index but got: {word}")
    check_same_dtype(f"{name}_(): self ({{}}) and source ({{}}) must have the same scalar type",
                     self, source)  # fmt: skip
    count = size_along(of, plain) if plain < max(len(of), 1) else 0
    if indices.size != count:
        raise RuntimeError(
            f"{name}_(): Number of indices ({indices.size}) should be equal to source.size(dim): "
            f"({count}), for dim: {plain}"
        )
    same = of[:plain] == into[:plain] and of[plain + 1 :] == into[plain + 1 :]
    if not same or len(of) != len(into):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(into)} source.shape = {list(of)}"
        )
    if into and not outside:
        check_in_bounds(indices, plain, into[plain])
    else:
        outside = "index out of range in self"
        check_in_bounds(indices, plain, size_along(into, plain), outside, error=IndexError)
    return plain


@public("torch method", in_place=True, out="same")
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """Copies slices of ``source`` to slices of a copy of ``input``.

    Args:
        dim: The dimension along which slices are taken.
        index: For each slice of ``source``, the index of the slice of ``input`` that it replaces.
        source: The slices to copy.

    Example:
        >>> torch.zeros(2, 2).index_copy(0, torch.tensor([1]), torch.ones(1, 2))
        tensor([[0., 0.],
                [1., 1.]])
    """
    tensor_argument("index_copy", "index", index, 2)
    tensor_argument("index_copy", "source", source, 3)
    plain, indices = one_dim(dim, len(input.shape)), raw(index)
    have, want = len(source.shape), len(input.shape)
    if indices.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {indices.ndim})")
    if not have and indices.size != 1:
        raise IndexError(
            "index_copy_(): When source is scalar, index should have one element "
            f"(got {indices.size})"
        )
    if have != want and have and want:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must "
            f"match. Source dimensionality ({have}), destination dimensionality ({want})"
        )
    if indices.dtype != arrays.int64:
        word = dtypes.type_word(indices.dtype)
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
    if indices.size != count:
        raise IndexError(
            f"index_copy_(): Number of indices ({indices.size}) should be equal to "
            f"source.size(dim) ({count})"
        )
    check_in_bounds(indices, plain, size_along(input.shape, plain),
                    "index_copy_(): index {} is out of bounds for dimension {} with size {}",
                    error=IndexError)  # fmt: skip
    return index_copy_tensor(input, index, source, dim=plain)


@public("torch method", in_place=True)
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Fills slices of a copy of ``input`` with one value.

    Args:
        dim: The dimension along which slices are taken.
        index: A vector of integers, the indices of the slices.
        value: A number, or a tensor without dimensions.

    Example:
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
    plain, indices = one_dim(dim, len(input.shape)), raw(index)
    if indices.dtype != arrays.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if indices.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    is_complex = raw(value).dtype.kind == "c" if is_tensor else isinstance(value, complex)
    if is_complex and raw(input).dtype.kind != "c":
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    check_in_bounds(indices, plain, size_along(input.shape, plain), negative=True, error=IndexError)
    if is_tensor:
        return index_fill_tensor(input, index, value, dim=plain)
    return index_fill_number(input, index, dim=plain, value=value)
