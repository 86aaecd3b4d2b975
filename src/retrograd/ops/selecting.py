"""Selecting operations: each result is an element of the input.

Choosing between two tensors (``where``, ``masked_fill``) stands with the elementwise operations.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching_declarations import AllElements, Dims
from retrograd.ops._operation import Selecting, Selection, composite, constant, raw
from retrograd.ops._words import EXTREME, PICKED
from retrograd.ops.comparisons import eq, isnan, logical_and, logical_or
from retrograd.ops.copies import index_for, to_dtype, zeros_like
from retrograd.ops.piecewise import where

# -- tangents ----------------------------------------------------------------------------------

# Each result of a reduction depends on elements of its own, so its derivatives are the gradient of
# the sum of all results, and its tangent is a scalar product with them.


def ones_like(x: Any) -> Any:
    """The gradient of the sum of all results."""
    return zeros_like(x) + 1


def by_derivatives(derivatives: Any, t: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The tangent of what is reduced along ``dims``, and differentiable in complex numbers."""
    return linear.sum_dim(derivatives * t, dim=dims, keepdim=keepdim)


# -- extremes, of which equal elements share the gradient --------------------------------------


def _same(self: Raw, other: Raw) -> Raw:
    equal, missing = arrays.equal(self, other), arrays.isnan(other)
    return equal | (missing & arrays.isnan(self)) if missing.any() else equal


# Which elements are equal to another, or NaN as that is.
same_value = composite(
    "same_value",
    lambda self, other: logical_or(eq(self, other), logical_and(isnan(self), isnan(other))),
    _same, inputs=("self", "other"), batch="pointwise",
)  # fmt: skip


def _evenly(g: Any, self: Any, result: Any) -> Any:
    """Every element that equals the extreme gets the same share of its gradient."""
    chosen = same_value(raw(self), raw(result))
    share = g / to_dtype(linear.sum_all(chosen), dtype=raw(result).dtype)
    return where(chosen, share, zeros_like(share))


def evenly_dim(g: Any, self: Any, result: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    """The same for the extremes along dimensions."""
    values, extreme = raw(self), raw(result)
    if not keepdim:
        g, extreme = (linear.kept(x, values.shape, dim) for x in (g, extreme))
    chosen = eq(values, extreme)
    count = linear.sum_dim(chosen, dim=dim, keepdim=True)
    # Nothing equals NaN: none was chosen, and the share of none is NaN.
    return g / to_dtype(count, dtype=extreme.dtype) * to_dtype(chosen, dtype=extreme.dtype)


def _mean_of_equals_dim(t: Any, self: Any, result: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    derivatives = evenly_dim(ones_like(result), self, result, dim, keepdim)
    return by_derivatives(derivatives, t, dim, keepdim)


EQUALS = Selection(
    lambda t, self, result: linear.sum_all(_evenly(ones_like(result), self, result) * t), _evenly
)
EQUALS_DIM = Selection(_mean_of_equals_dim, evenly_dim)
max_all = Selecting(
    "max", lambda self: arrays.amax(self), EQUALS, node="MaxBackward1", batch=AllElements("amax"),
    words=EXTREME,
)  # fmt: skip
min_all = Selecting(
    "min", lambda self: arrays.amin(self), EQUALS, node="MinBackward1", batch=AllElements("amin"),
    words=EXTREME,
)  # fmt: skip
amax_dim = Selecting(
    "amax", lambda self, dim, keepdim: arrays.amax(self, dim, keepdim), EQUALS_DIM,
    words=EXTREME,
)  # fmt: skip
amin_dim = Selecting(
    "amin", lambda self, dim, keepdim: arrays.amin(self, dim, keepdim), EQUALS_DIM,
    words=EXTREME,
)  # fmt: skip

# -- elements along a dimension, with their indices ----------------------------------------------


def _gathered(t: Any, indices: Any, dim: int) -> Any:
    index_array, shape = index_for(indices, t), tuple(t.shape)
    if len(index_array.shape) == len(shape):
        return linear.gather(t, index_array, dim=dim) if shape else t
    result = linear.gather(t, linear.kept(index_array, shape, (dim,)), dim=dim)
    return linear.reshape(result, index_array.shape)


def scattered(g: Any, indices: Any, shape: Any, dim: int) -> Any:
    """All of the gradient goes to the elements that were chosen."""
    selected, index_array = g[0], index_for(indices, g[0])
    if not shape:
        return selected
    if len(index_array.shape) < len(shape):
        selected, index_array = (linear.kept(x, shape, (dim,)) for x in (selected, index_array))
    return linear.scatter_zeros(selected, shape=tuple(shape), dim=dim, indices=index_array)


ALONG = Selection(_gathered, scattered)


def with_indices(name: str, node: str, forward: Any, **declared: Any) -> Selecting:
    """An operation that selects elements along its option ``dim``, and says which."""
    return Selecting(name, forward, ALONG, outputs=("values", "indices"), node=node, **declared)


def _at(self: Raw, extreme: Any, choose: Any, dim: int, keepdim: bool) -> tuple[Raw, Raw]:
    if not self.ndim:
        return arrays.copy(self), arrays.asarray(0, arrays.int64)
    return extreme(self, dim, keepdim), choose(self, dim, keepdim)


max_dim = with_indices(
    "max_dim", "MaxBackward0",
    lambda self, dim, keepdim: _at(self, arrays.amax, arrays.argmax, dim, keepdim),
    words=PICKED,
)  # fmt: skip
min_dim = with_indices(
    "min_dim", "MinBackward0",
    lambda self, dim, keepdim: _at(self, arrays.amin, arrays.argmin, dim, keepdim),
    words=PICKED,
)  # fmt: skip

# -- where the extremes are, and truths ----------------------------------------------------------


argmax_at = constant(
    "argmax", lambda self, dim, keepdim: arrays.argmax(self, dim if self.ndim else None, keepdim),
    batch=Dims(row=1),
)  # fmt: skip
argmin_at = constant(
    "argmin", lambda self, dim, keepdim: arrays.argmin(self, dim if self.ndim else None, keepdim),
    batch=Dims(row=1),
)  # fmt: skip


def _as_truth(result: Raw, dtype: Any) -> Raw:
    # Bytes were PyTorch's bools before it had any, and still give bytes.
    return arrays.cast(result, dtype) if dtype.name == "uint8" else result


all_of = constant(
    "all", lambda self, dim, keepdim: _as_truth(arrays.all(self, dim, keepdim), self.dtype)
)
any_of = constant(
    "any", lambda self, dim, keepdim: _as_truth(arrays.any(self, dim, keepdim), self.dtype)
)
