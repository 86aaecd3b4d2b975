"""Sorting, the largest elements, and searching: sort, topk, searchsorted, nonzero."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import check_int
from retrograd.ops._batching import BatchLevel
from retrograd.ops._batching_declarations import Refused, own
from retrograd.ops._dims import as_shape, one_dim
from retrograd.ops._lifted import Lifted, bare, checked_by_line
from retrograd.ops._operation import Operation, constant, raw
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops._words import PICKED
from retrograd.ops.selecting import with_indices

# -- sorting ---------------------------------------------------------------------------------


sort_by_value = with_indices(
    "sort", "SortBackward0", arrays.sorting.sort,
    words=PICKED,
)  # fmt: skip
# The same, called in another way.
sort_stable = with_indices("sort_stable", "SortBackward1", arrays.sorting.sort)
topk_values = with_indices(
    "topk", "TopkBackward0", arrays.sorting.topk,
    words=PICKED,
)  # fmt: skip
argsort_by_value = constant("argsort", arrays.sorting.argsort)


def _refuse_complex(self: Any, name: str) -> None:
    if raw(self).dtype.kind == "c":
        raise RuntimeError(f" {name} does not support complex dtypes on CPU")


@public("torch method", out="same")
def sort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Any:
    """Sorts a tensor along a dimension.

    Equal elements keep their order, whether ``stable`` is requested or not. NaN counts as the
    largest value.

    Args:
        dim: The dimension to sort along.
        descending: Whether the largest element comes first.
        stable: Accepted for compatibility. The sort is always stable.

    Returns:
        A named tuple ``(values, indices)``: the sorted elements, and their indices in ``input``.

    Example:
        >>> torch.sort(torch.tensor([3., 1., 2.]), descending=True)
        torch.return_types.sort(
        values=tensor([3., 2., 1.]),
        indices=tensor([0, 2, 1]))
    """
    if isinstance(dim, bool):
        raise TypeError(
            "sort() received an invalid combination of arguments - got (Tensor, bool), but "
            "expected one of:"
        )
    plain = one_dim(dim, len(input.shape))
    _refuse_complex(input, "Sort")
    how = sort_by_value if stable is None else sort_stable
    return named_result("sort", "values", "indices")(
        how(input, dim=plain, descending=bool(descending))
    )


@public("torch method", out="same")
def argsort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """Computes the indices that sort a tensor along a dimension.

    Args:
        dim: The dimension to sort along.
        descending: Whether the largest element comes first.
        stable: Accepted for compatibility. The sort is always stable.

    Returns:
        A tensor of integers of the shape of ``input``.

    Example:
        >>> torch.argsort(torch.tensor([3., 1., 2.]))
        tensor([1, 2, 0])
    """
    plain = one_dim(dim, len(input.shape))
    _refuse_complex(input, "Sort")
    return argsort_by_value(input, dim=plain, descending=bool(descending))


@public("torch method", out="same")
def msort(input: Any) -> Any:
    """Sorts a tensor along its first dimension, in ascending order.

    Returns:
        The sorted elements.

    Example:
        >>> torch.msort(torch.tensor([[3, 1], [2, 4]]))
        tensor([[2, 1],
                [3, 4]])
    """
    return sort(input, 0)[0]


@public("torch method", out="same")
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Finds the ``k`` largest or smallest elements along a dimension.

    Args:
        k: The number of elements.
        dim: The dimension to search along.
        largest: Whether the largest elements are wanted, or else the smallest.
        sorted: Accepted for compatibility. The elements are always sorted.

    Returns:
        A named tuple ``(values, indices)``: the elements, and their indices along ``dim``.

    Example:
        >>> torch.topk(torch.tensor([3., 1., 2.]), 2).values
        tensor([3., 2.])
    """
    check_int("topk", "k", 2, k)
    plain = one_dim(dim, len(input.shape))
    if not 0 <= k <= (input.shape[plain] if input.shape else 1):
        raise RuntimeError("selected index k out of range")
    _refuse_complex(input, "topk")
    if raw(input).dtype.kind == "b":
        raise RuntimeError("topk does not support bool dtypes on CPU")
    return named_result("topk", "values", "indices")(
        topk_values(input, k=int(k), dim=plain, largest=bool(largest))
    )


# -- searching -------------------------------------------------------------------------------


def _searchsorted(bounds: Raw, values: Raw, right: bool, dtype: Any) -> Raw:
    common = dtypes.promote(bounds.dtype, values.dtype)
    if common.kind == "c":
        word = dtypes.type_word(common)
        raise NotImplementedError(f"\"searchsorted_out_cpu\" not implemented for '{word}'")
    result = arrays.sorting.search(arrays.cast(bounds, common), arrays.cast(values, common), right)
    return arrays.cast(result, dtype)


@own("one sequence takes values of any shape, rows of them as many rows")
def _search_all(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    bounds, wanted = args
    if len(bounds.shape) > 1:  # rows of bounds, as many as of values
        return op(level.stacked(bounds), level.stacked(wanted), **options)
    if not level.owns(bounds):
        return op(bounds, wanted.value, **options)
    shape = (level.size, *wanted.shape)
    result = op(bounds.value, linear.reshape(level.stacked(wanted), (level.size, -1)), **options)
    return linear.reshape(result, shape)


search_for = constant(
    "searchsorted", _searchsorted, inputs=("sorted_sequence", "input"),
    batch=_search_all,
)  # fmt: skip


def _search(bounds: Any, wanted: Any, right: bool, out_int32: bool) -> Any:
    if not hasattr(wanted, "shape"):
        own = raw(bounds).dtype
        kinds = {bool: "b", int: "i", float: "f", complex: "c"}
        ranks = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
        if ranks[kinds[type(wanted)]] > ranks[own.kind]:
            own = dtypes.result_type([raw(bounds), wanted])
        wanted = arrays.asarray(wanted, own)
    dtype = arrays.asarray(0).dtype if not out_int32 else dtypes.int32.numpy
    return search_for(bounds, wanted, right=right, dtype=dtype)


@public("torch", out="same, constant")
def searchsorted(
    sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None,
) -> Any:  # fmt: skip
    """Finds the indices at which elements would be inserted into a sorted sequence.

    Args:
        sorted_sequence: A sorted 1-D tensor, or sequences along the last dimension, one for each
            row of ``input``.
        input: The elements: a tensor or a number.
        out_int32: Whether the indices are int32. By default, they are int64.
        right: Whether an element is inserted after those equal to it. By default, it is inserted
            before.
        side: ``"left"`` or ``"right"``, which is the same as ``right`` being false or true.
        sorter: The indices that sort ``sorted_sequence``, if it is not sorted itself.

    Returns:
        A tensor of integers of the shape of ``input``.

    Example:
        >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
        tensor([1, 3])
    """
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    bounds = raw(sorted_sequence)
    if not bounds.ndim:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
            "dimension"
        )
    shape = tuple(input.shape) if hasattr(input, "shape") else ()
    if bounds.ndim > 1 and (len(shape) != bounds.ndim or shape[:-1] != bounds.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {list(bounds.shape)} and input value tensor {list(shape)}"
        )
    if sorter is not None:
        _check_sorter(raw(sorter), bounds)
        sorted_sequence = linear.gather(sorted_sequence, sorter, dim=bounds.ndim - 1)
    return _search(sorted_sequence, input, right or side == "right", out_int32)


def _check_sorter(order: Raw, bounds: Raw) -> None:
    if order.shape != bounds.shape:
        raise RuntimeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
            f"tensor {list(bounds.shape)}and got sorter tensor {list(order.shape)}"
        )
    if order.dtype != arrays.int64:
        raise RuntimeError(
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            f"{dtypes.type_word(order.dtype)}"
        )
    if arrays.sorting.outside(bare(order), 0, bounds.shape[-1]) is not None:
        raise RuntimeError("torch.searchsorted(): sorter index out of range")


@public("torch", out="same, constant")
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Finds the interval between sorted boundaries that each element belongs to.

    Args:
        input: A tensor or a number.
        boundaries: A sorted 1-D tensor.
        out_int32: Whether the indices are int32. By default, they are int64.
        right: Whether an element equal to a boundary belongs to the interval above it. By default,
            it belongs to the interval below.

    Returns:
        A tensor of integers of the shape of ``input``, the indices of the intervals.

    Example:
        >>> torch.bucketize(torch.tensor([1, 4]), torch.tensor([2, 3]))
        tensor([0, 2])
    """
    if len(boundaries.shape) != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({len(boundaries.shape)})"
        )
    return _search(boundaries, input, right, out_int32)


# -- indices ---------------------------------------------------------------------------------


_unravelled = constant("unravel_index", arrays.sorting.unravel, outputs=(), batch="leading")


@public("torch")
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Converts indices into a flattened tensor to indices along each dimension.

    Args:
        indices: A tensor of integers.
        shape: The shape of the tensor that is indexed.

    Returns:
        A tuple of tensors, one for each dimension, of the shape of ``indices``.

    Example:
        >>> torch.unravel_index(torch.tensor([4, 1]), (2, 3))
        (tensor([1, 0]), tensor([1, 1]))
    """
    values = raw(indices)
    if values.dtype.kind not in "iu":
        raise TypeError(
            "expected 'indices' to be integer dtype, but got "
            f"{dtypes.from_numpy_dtype(values.dtype)}"
        )
    sizes = as_shape((shape,))
    if any(s < 0 for s in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    return tuple(_unravelled(indices, shape=sizes))


def _nonzero_columns(self: Raw) -> tuple[Raw, ...]:
    result = arrays.sorting.nonzero(self if self.ndim else self.reshape(1))
    return tuple(arrays.copy(result[:, d]) for d in range(result.shape[1]))


nonzero_rows = constant("nonzero", arrays.sorting.nonzero, batch=Refused("nonzero"))
nonzero_columns = constant(
    "nonzero_numpy", _nonzero_columns, outputs=(), batch=Refused("nonzero_numpy")
)


@public("torch method", out="same, constant")
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Finds the indices of the elements that are not zero.

    Args:
        as_tuple: Whether the result is a tuple of one index tensor for each dimension.

    Returns:
        A matrix with one row of indices for each element, or a tuple of vectors.

    Example:
        >>> torch.nonzero(torch.tensor([[0, 7], [8, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    return nonzero_columns(input) if as_tuple else nonzero_rows(input)


def _nonzero_static(self: Raw, size: int, fill_value: int) -> Raw:
    rows = arrays.sorting.nonzero(self)[:size]
    missing = arrays.zeros((size - len(rows), rows.shape[1]), rows.dtype) + fill_value
    return arrays.concatenate([rows, missing])


nonzero_static_rows = constant("nonzero_static", _nonzero_static)


@public("torch method", out="same, constant")
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """Finds the indices of a given number of elements that are not zero.

    Args:
        size: The number of rows of the result: of further elements nothing is said.
        fill_value: What rows hold for which there is no element.

    Returns:
        A matrix with ``size`` rows of indices.

    Example:
        >>> torch.nonzero_static(torch.tensor([0, 7]), size=2)
        tensor([[ 1],
                [-1]])
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    return nonzero_static_rows(input, size=int(size), fill_value=int(fill_value))


@public("torch method")
def argwhere(input: Any) -> Any:
    """Finds the indices of the elements that are not zero.

    Returns:
        A matrix with one row of indices for each element.

    Example:
        >>> torch.argwhere(torch.tensor([[0, 7], [8, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    return nonzero_rows(input)


def _one_hot(self: Raw, num_classes: int) -> Raw:
    return arrays.sorting.one_hot(self, num_classes)


one_hot_rows = constant("one_hot", _one_hot, batch="leading")


@public("functional")
def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Encodes class indices as one-hot vectors.

    Args:
        tensor: A tensor of class indices, of dtype int64.
        num_classes: The number of classes. By default, one more than the largest index.

    Returns:
        A tensor with a new last dimension of size ``num_classes``: 1 at the index, and 0 elsewhere.

    Example:
        >>> torch.nn.functional.one_hot(torch.tensor([2, 0]))
        tensor([[0, 0, 1],
                [1, 0, 0]])
    """
    indices = raw(tensor)
    if indices.dtype != arrays.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not indices.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return one_hot_rows(tensor, num_classes=num_classes)
    if num_classes != -1 and checked_by_line(_check_classes, indices, num_classes):
        return one_hot_rows(tensor, num_classes=num_classes)
    known = bare(indices)
    _check_classes(known, num_classes)
    if num_classes == -1:
        if isinstance(indices, Lifted) and indices.differs:
            raise RuntimeError(
                "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive "
                "num_classes argument."
            )
        num_classes = int(known.max()) + 1
    return one_hot_rows(tensor, num_classes=num_classes)


def _check_classes(indices: Raw, num_classes: int) -> None:
    if indices.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes != -1 and indices.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
