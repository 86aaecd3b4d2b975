"""Counts: nonzero elements, occurrences of integers, histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import check_int
from retrograd.ops._batching import batches_of, refuse
from retrograd.ops._batching_declarations import Refused
from retrograd.ops._dims import Dims, many_dims, numel
from retrograd.ops._lifted import bare
from retrograd.ops._operands import is_lifted
from retrograd.ops._operation import (
    Operation,
    TensorLike,
    composite,
    constant,
    raw,
    undifferentiable,
)
from retrograd.ops._public import public
from retrograd.ops._refusals import c_name, kernel
from retrograd.ops._results import named_result
from retrograd.ops.comparisons import eq, ge, le, logical_and
from retrograd.ops.copies import clone, index_for, to_dtype, zeros_like
from retrograd.ops.piecewise import clamp, where
from retrograd.ops.selecting import amax_dim, amin_dim

_INDEX = arrays.int64

# -- not zero --------------------------------------------------------------------------------


def _count_nonzero(self: Raw, dim: tuple[int, ...]) -> Raw:
    return arrays.statistics.count_nonzero(self, dim)


count_nonzero_op = constant("count_nonzero", _count_nonzero)


@public("torch method")
def count_nonzero(input: Any, dim: Dims = None) -> Any:
    """The number of nonzero elements, of all or along dimensions.

    Args:
        dim: dimension or dimensions to reduce; all by default.

    Returns:
        A tensor of counts (int64).

    Example:
        >>> torch.count_nonzero(torch.tensor([[0., 1.], [2., 3.]]), dim=0)
        tensor([1, 2])
    """
    return count_nonzero_op(input, dim=many_dims(dim, len(input.shape)))


# -- integers --------------------------------------------------------------------------------


def placed(values: Any, indices: Any, dim: int, length: int) -> Any:
    """The sums of the values that go to the same place along a dimension."""
    shape = (*values.shape[:dim], length, *values.shape[dim + 1 :])
    return linear.scatter_zeros(values, shape=shape, dim=dim, indices=index_for(indices, values))


_DYNAMIC = Refused(
    "bincount", "each entry may have another greatest number. Use scatter_add() into zeros of a "
    "size that is known.",
)  # fmt: skip


def _weighed_by_placing(self: Any, indices: Any, minlength: int) -> Any:
    """The indices must be the same for all entries, and with them the number of results."""
    if batches_of(raw(indices)):
        refuse(_DYNAMIC)
    length = max(minlength, int(arrays.amax(bare(indices))) + 1)
    return placed(self, indices, 0, length)


bincount_op = constant(
    "bincount", lambda self, minlength: arrays.statistics.bincount(self, None, minlength),
    check=kernel("bincount_cpu", "bfc"), batch=_DYNAMIC,
)  # fmt: skip
weighed_bincount = composite(
    "weighed_bincount", _weighed_by_placing,
    lambda self, indices, minlength: arrays.statistics.bincount(indices, self, minlength),
    rules={"self": lambda g, indices: linear.index(g, where=(indices,))}, node="BincountBackward0",
)  # fmt: skip


@public("torch method")
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """The number of occurrences of each value in a vector of non-negative integers.

    Args:
        input: a vector of non-negative integers.
        weights: the weight of each element; instead of counts, the weights are summed.
        minlength: smallest length of the result.

    Returns:
        A vector of counts, or of sums of weights, indexed by value.

    Example:
        >>> torch.bincount(torch.tensor([1, 3, 1]))
        tensor([0, 2, 0, 1])
    """
    check_int("bincount", "minlength", 3, minlength)
    values = raw(input)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if values.ndim != 1 or (values.dtype.kind in "iu" and arrays.any(bare(values) < 0)):
        if values.dtype.kind in "iu":
            raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
        kernel("bincount_cpu", "bfc")(values)
    if weights is None or not values.size:
        return bincount_op(input, minlength=int(minlength))
    if raw(weights).shape != values.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    kernel("bincount_cpu", "bfc")(values)
    if raw(weights).dtype.name != "float32":
        weights = weights.double()
    indices = clone(values)
    return weighed_bincount(weights, indices=indices, minlength=int(minlength))


def _hash_tensor(self: Raw, dim: tuple[int, ...], keepdim: bool) -> Raw:
    return arrays.statistics.xor_of_bits(self, dim, keepdim)


hash_op = constant("hash_tensor", _hash_tensor)


@public("torch method", out="same, constant")
def hash_tensor(input: Any, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Any:
    """A hash of the elements: the exclusive or of their bits, as 64-bit numbers.

    Args:
        dim: the dimensions to reduce; by default, all of them.
        keepdim: whether they remain, with size 1.
        mode: 0, the only one that there is.

    Returns:
        A tensor of dtype uint64.

    Example:
        >>> torch.hash_tensor(torch.tensor([1, 2, 4]))
        tensor(7, dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor: mode must be 0, got {mode}")
    return hash_op(input, dim=many_dims(dim, len(input.shape)), keepdim=bool(keepdim))


# -- bins ------------------------------------------------------------------------------------


def _histc(self: Raw, bins: int, min: float, max: float) -> Raw:
    return arrays.statistics.counts_in_range(self, bins, min, max)


histc_op = constant("histc", _histc)


@public("torch method", out="same, constant")
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """A histogram with bins of equal width.

    If ``min`` equals ``max``, the bins cover the range from the smallest to the largest element.

    Args:
        bins: number of bins.
        min: lower end of the range; elements below it are not counted.
        max: upper end of the range; elements above it are not counted.

    Returns:
        A vector with the number of elements in each bin.

    Example:
        >>> torch.histc(torch.tensor([1., 2., 1.]), bins=4, min=0, max=3)
        tensor([0., 2., 1., 0.])
    """
    check_int("histc", "bins", 2, bins)
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    values = raw(input)
    in_operations = is_lifted(values)
    if min == max and values.size:
        kernel("aminmax_cpu", "c")(values)
        if not in_operations:
            min, max = (float(f(values)) for f in (arrays.amin, arrays.amax))
    if not _finite(min) or not _finite(max):
        raise RuntimeError(f"torch.histc: range of [{min:g}, {max:g}] is not finite")
    if min > max:
        raise RuntimeError("torch.histc: max must be larger than min")
    kernel("histogram_cpu", "biuc")(values)
    if in_operations:
        return _histc_by_operations(input, int(bins), min, max)
    if min == max:
        min, max = min - 1, max + 1
    if values.dtype.kind == "V":  # PyTorch rounds every step to bfloat16
        return _histc_by_operations(input, int(bins), min, max)
    return histc_op(input, bins=int(bins), min=min, max=max)


def _histc_by_operations(input: Any, bins: int, low: Any, high: Any) -> Any:
    """``histc`` by operations that round to the dtype of the values: of those that stand under a
    transform, where each entry of a batch may have a range of its own, and of bfloat16."""
    values = linear.reshape(input.detach(), (numel(input.shape),))
    if low == high:
        low, high = _range_of(values, low, high, 1)
    else:
        low, high = (values.new_full((), x) for x in (low, high))
    indices = (values - low) * bins / (high - low)
    return _counts(values, None, indices, low, high, bins)


def _range_of(values: Any, low: Any, high: Any, margin: float) -> tuple[Any, Any]:
    """The least and the greatest of some values, or two numbers if there are none; a little more
    where they are equal."""
    if not values.shape[0]:
        return low - margin, high + margin
    low, high = (f(values, dim=(0,), keepdim=False) for f in (amin_dim, amax_dim))
    same = eq(low, high)
    return where(same, low - margin, low), where(same, high + margin, high)


def _counts(values: Any, weights: Any, indices: Any, low: Any, high: Any, bins: int) -> Any:
    """How many values, or which sum of their weights, there are in each of some bins, from the
    indices of the values among them; those outside of the range count nowhere."""
    inside = logical_and(ge(values, low), le(values, high))
    last = to_dtype(clamp(where(inside, indices, zeros_like(indices)), max=bins - 1), dtype=_INDEX)
    where_to = where(inside, last, zeros_like(last) + bins)
    each = zeros_like(values) + 1 if weights is None else weights
    return linear.slice_(placed(each, where_to, 0, bins + 1), where=(slice(None, -1),))


def _finite(x: float) -> bool:
    return x - x == 0


def _histogram(self: Raw, edges: Raw, density: bool) -> tuple[Raw, Raw]:
    return arrays.statistics.histogram(self, None, edges, density), arrays.copy(edges)


def _weighed_histogram(self: Raw, weight: Raw, edges: Raw, density: bool) -> tuple[Raw, Raw]:
    return arrays.statistics.histogram(self, weight, edges, density), arrays.copy(edges)


def _histogram_of(name: str, forward: Any, *inputs: str) -> Operation:
    error = RuntimeError("derivative for aten::histogram is not implemented")
    return undifferentiable(
        name, forward, error, inputs=inputs, outputs=("hist", "bin_edges"), node="NotImplemented",
        dtypes="free",
    )  # fmt: skip


histogram_op = _histogram_of("histogram", _histogram, "self")
weighed_histogram = _histogram_of("weighed_histogram", _weighed_histogram, "self", "weight")


# Computed on devices by operations that have derivatives, a histogram still has none.
_without_derivative = undifferentiable(
    "histogram_of", lambda self, source: arrays.copy(self),
    RuntimeError("derivative for aten::histogram is not implemented"), inputs=("self", "source"),
    definition=lambda self, source: clone(self), node="NotImplemented", dtypes="free",
)  # fmt: skip


def _check_edges(values: Raw, edges: Raw, dim: int = 0) -> None:
    """Whether edges of bins that a user gives can be those of a histogram of values."""
    if edges.dtype != values.dtype:
        raise RuntimeError(
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but "
            f"got input with dtype {c_name(values.dtype)} and bins for dimension {dim} with dtype "
            f"{c_name(edges.dtype)}"
        )
    if edges.ndim != 1:
        raise RuntimeError(
            f"torch.histogramdd: bins tensor should have one dimension, but got {edges.ndim} "
            f"dimensions in the bins tensor for dimension {dim}"
        )
    if not edges.size:
        raise RuntimeError(
            "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements "
            f"in the bins tensor for dimension {dim}"
        )


def _edges(values: Raw, bins: Any, limits: Sequence[float] | None, dim: int = 0) -> Raw:
    """The edges between bins, if they are given or can be made."""
    if isinstance(bins, TensorLike):
        edges = raw(bins)
        _check_edges(values, edges, dim)
        return arrays.copy(edges)
    _check_bins(bins, limits, dim)
    low, high = (0.0, 1.0)
    if limits is not None:
        low, high = limits
    elif values.size:
        low, high = (float(f(values)) for f in (arrays.amin, arrays.amax))
    if not _finite(low) or not _finite(high):
        raise RuntimeError(
            f"torch.histogramdd: dimension {dim}'s range [{low:g}, {high:g}] is not finite"
        )
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for "
            f"dimension {dim}"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return arrays.statistics.even_edges(low, high, bins, values.dtype)


def _check_bins(bins: int, limits: Sequence[float] | None, dim: int = 0) -> None:
    """Whether there can be so many bins of equal width, between limits if they are given."""
    if bins <= 0:
        raise RuntimeError(
            f"torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}"
        )
    if limits is not None and len(limits) != 2:
        raise RuntimeError(
            "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, "
            f"but got {len(limits)}"
        )


def _histogram_by_operations(
    input: Any, bins: Any, limits: Sequence[float] | None, weight: Any, density: bool
) -> tuple[Any, Any]:
    """``histogram`` of values that stand under a transform, as ``_histc_by_operations``."""
    values = linear.reshape(input.detach(), (numel(input.shape),))
    if not isinstance(bins, int):
        _check_edges(raw(values), raw(bins))
        edges = clone(bins.detach())
    elif limits is not None or not values.shape[0]:
        edges = values.new_tensor(_edges(bare(values), bins, limits))
    else:
        _check_bins(bins, limits)
        low, high = _range_of(values, 0.0, 1.0, 0.5)
        steps = arrays.statistics.even_edges(0, 1, bins, values._data.dtype)[:-1]
        edges = linear.cat([low + (high - low) * steps, linear.reshape(high, (1,))], dim=0)
    count = edges.shape[0] - 1
    first, last = (linear.select(edges, dim=0, index=i) for i in (0, count))
    column = linear.reshape(values, (numel(input.shape), 1))
    indices = linear.sum_dim(ge(column, edges), dim=(1,), keepdim=False) - 1
    if weight is not None:
        weight = linear.reshape(weight.detach(), (numel(input.shape),))
    result = _counts(values, weight, indices, first, last, count)
    if density:
        widths = linear.slice_(edges, where=(slice(1, None),)) - linear.slice_(
            edges, where=(slice(None, -1),))  # fmt: skip
        result = result / (linear.sum_all(result) * widths)
    return result, edges


@public("torch method", out="same")
def histogram(
    input: Any, bins: Any, *, range: Sequence[float] | None = None, weight: Any = None,
    density: bool = False,
) -> Any:  # fmt: skip
    """A histogram, and the edges of its bins.

    Args:
        bins: number of bins of equal width, or a vector of increasing edges.
        range: lowest and highest edge; by default, the smallest and the largest element.
        weight: the weight of each element, a tensor of the shape of ``input``.
        density: whether to normalize, so that the histogram integrates to 1.

    Returns:
        A named tuple ``(hist, bin_edges)``.

    Example:
        >>> torch.histogram(torch.tensor([1., 2., 1.]), bins=2, range=(0., 3.)).hist
        tensor([2., 1.])
    """
    values = raw(input)
    if values.dtype.kind != "f" or values.dtype.itemsize < 4:
        raise NotImplementedError(
            f"\"histogramdd\" not implemented for '{dtypes.type_word(values.dtype)}'"
        )
    lifted = any(is_lifted(x) for x in (input, bins, weight))
    edges = None if lifted else _edges(values, bins, range)
    if weight is not None and raw(weight).shape != values.shape:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{[values.size, 1]} and weight with shape {[raw(weight).size]}"
        )
    if edges is None:
        source = input if weight is None else input + weight
        result = tuple([
            _without_derivative(x, source)
            for x in _histogram_by_operations(input, bins, range, weight, density)
        ])  # fmt: skip
        return named_result("histogram", "hist", "bin_edges")(result)
    options = {"edges": edges, "density": bool(density)}
    if weight is None:
        result = histogram_op(input, **options)
    else:
        result = weighed_histogram(input, weight, **options)
    return named_result("histogram", "hist", "bin_edges")(result)


def _histogramdd(self: Raw, edges: tuple[Raw, ...], density: bool) -> Raw:
    return arrays.statistics.histogramdd(self, None, edges, density)


_NO_SLOPE = RuntimeError("derivative for aten::histogramdd is not implemented")
_OWN_RANGE = Refused("histogramdd", "each entry may have a range of its own.")
histogramdd_op = undifferentiable(
    "histogramdd", _histogramdd, _NO_SLOPE, node="NotImplemented", batch=_OWN_RANGE
)
weighed_histogramdd = undifferentiable(
    "weighed_histogramdd", arrays.statistics.histogramdd, _NO_SLOPE, inputs=("self", "weight"),
    node="NotImplemented", batch=_OWN_RANGE,
)  # fmt: skip


@public("torch")
def histogramdd(
    input: Any, bins: Any, range: Sequence[float] | None = None, weight: Any = None,
    density: bool = False,
) -> Any:  # fmt: skip
    """A histogram of points in several dimensions, and the edges of its bins.

    Args:
        input: the points, ``(..., d)``.
        bins: number of bins in every dimension, or in each, or for each a vector of increasing
            edges.
        range: lowest and highest edge of each dimension, one after the other; by default, the
            smallest and the largest element.
        weight: the weight of each point.
        density: whether to normalize, so that the histogram integrates to 1.

    Returns:
        A named tuple ``(hist, bin_edges)``: a tensor of d dimensions, and a tuple of d vectors.

    Example:
        >>> points = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
        >>> torch.histogramdd(points, bins=[2, 2]).hist
        tensor([[0., 1.],
                [1., 1.]])
    """
    values = raw(input)
    if values.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    dims = values.shape[-1]
    each = (bins,) * dims if isinstance(bins, int) else tuple(bins)
    if len(each) != dims:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    if values.dtype.kind != "f" or values.dtype.itemsize < 4:
        raise NotImplementedError(
            f"\"histogramdd\" not implemented for '{dtypes.type_word(values.dtype)}'"
        )
    if range is not None and len(range) != 2 * dims:
        raise RuntimeError(
            f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} "
            f"elements, but got {len(range)}"
        )
    if weight is not None and raw(weight).shape != values.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{list(values.shape)} and weight with shape {list(raw(weight).shape)}"
        )
    if any(batches_of(raw(x)) for x in (input, weight, *each) if isinstance(x, TensorLike)):
        refuse(_OWN_RANGE)
    # Where the edges are known, the values are not looked at.
    looks = range is None and not all(isinstance(b, TensorLike) for b in each)
    known = bare(input) if looks else arrays.zeros((0, dims), values.dtype)
    edges = tuple(
        _edges(known[..., d], b, None if range is None else range[2 * d : 2 * d + 2], d)
        for d, b in enumerate(each)
    )
    options = {"edges": edges, "density": bool(density)}
    inputs = (input,) if weight is None else (input, weight)
    hist = (histogramdd_op if weight is None else weighed_histogramdd)(*inputs, **options)
    bin_edges = tuple(input.new_tensor(e) for e in edges)
    return named_result("histogramdd", "hist", "bin_edges")((hist, bin_edges))
