"""Operations whose every result is one of the elements they were given.

Choosing between two tensors (``where``, ``masked_fill``) stands with the elementwise operations.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._operation import Selecting, constant, hidden, raw
from retrograd.ops._tangents import by_slopes, ones_like
from retrograd.ops.elementwise import (
    eq,
    isnan,
    logical_and,
    logical_or,
    to_dtype,
    where,
    zeros_like,
)


def evenly(g: Any, self: Any, result: Any) -> Any:
    """Every element that equals the extreme gets the same share of its gradient."""
    values, extreme = raw(self), raw(result)
    chosen = eq(values, extreme)
    if hidden(extreme):
        chosen = logical_or(chosen, logical_and(isnan(extreme), isnan(values)))
    elif arrays.isnan(extreme):  # NaN wins, though it equals nothing
        chosen = isnan(values)
    share = g / to_dtype(linear.sum_all(chosen), dtype=extreme.dtype)
    return where(chosen, share, zeros_like(share))


def _amax(self: Raw, dim: tuple[int, ...], keepdim: bool) -> Raw:
    return arrays.amax(self, dim, keepdim)


def _amin(self: Raw, dim: tuple[int, ...], keepdim: bool) -> Raw:
    return arrays.amin(self, dim, keepdim)


def evenly_dim(g: Any, self: Any, result: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    """As ``evenly``, for the extremes along dimensions."""
    values, extreme = raw(self), raw(result)
    if not keepdim:
        g, extreme = (linear.kept(x, values.shape, dim) for x in (g, extreme))
    chosen = eq(values, extreme)
    count = linear.sum_dim(chosen, dim=dim, keepdim=True)
    # Nothing equals NaN: none was chosen, and the share of none is NaN.
    return g / to_dtype(count, dtype=extreme.dtype) * to_dtype(chosen, dtype=extreme.dtype)


def even_tangent(t: Any, self: Any, result: Any) -> Any:
    """The mean of the tangents of the elements that equal the extreme."""
    return linear.sum_all(evenly(ones_like(result), self, result) * t)


def even_tangent_dim(t: Any, self: Any, result: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    """As ``even_tangent``, for the extremes along dimensions."""
    slopes = evenly_dim(ones_like(result), self, result, dim, keepdim)
    return by_slopes(slopes, t, dim, keepdim)


max_all = Selecting(
    "max", lambda self: arrays.amax(self), inputs=("self",), rules={"self": evenly},
    jvp=even_tangent, node="MaxBackward1",
)  # fmt: skip
min_all = Selecting(
    "min", lambda self: arrays.amin(self), inputs=("self",), rules={"self": evenly},
    jvp=even_tangent, node="MinBackward1",
)  # fmt: skip
amax_dim = Selecting(
    "amax", _amax, inputs=("self",), rules={"self": evenly_dim}, jvp=even_tangent_dim
)
amin_dim = Selecting(
    "amin", _amin, inputs=("self",), rules={"self": evenly_dim}, jvp=even_tangent_dim
)


def _max_dim(self: Raw, dim: int, keepdim: bool) -> tuple[Raw, Raw]:
    return _at(self, arrays.amax, arrays.argmax, dim, keepdim)


def _min_dim(self: Raw, dim: int, keepdim: bool) -> tuple[Raw, Raw]:
    return _at(self, arrays.amin, arrays.argmin, dim, keepdim)


def _at(self: Raw, extreme: Any, choose: Any, dim: int, keepdim: bool) -> tuple[Raw, Raw]:
    if not self.ndim:
        return arrays.copy(self), arrays.asarray(0, arrays.int64)
    return extreme(self, dim, keepdim), choose(self, dim, keepdim)


def scatter_rule(g: Any, indices: Any, shape: Any, dim: int, keepdim: bool) -> Any:
    """All of the gradient goes to the elements that were chosen."""
    if not shape:
        return g[0]
    value_grad, places = g[0], indices
    if not keepdim:
        value_grad, places = (linear.kept(x, shape, (dim,)) for x in (value_grad, places))
    return linear.scatter_zeros(value_grad, shape=tuple(shape), dim=dim, places=raw(places))


def gather_tangent(t: Any, indices: Any, dim: int, keepdim: bool) -> Any:
    """The tangents of the elements that were chosen; their places do not move."""
    if not t.shape:
        return t, None
    places = raw(indices) if keepdim else linear.kept(raw(indices), t.shape, (dim,))
    moved = linear.gather(t, places, dim=dim)
    return moved if keepdim else linear.reshape(moved, raw(indices).shape), None


def choosing(name: str, node: str, forward: Any, check: Any = None) -> Selecting:
    """An operation ``f(self, dim=, keepdim=)`` that chooses one element along a dimension, and says
    which."""
    return Selecting(
        name, forward, inputs=("self",), rules={"self": scatter_rule}, jvp=gather_tangent,
        outputs=("values", "indices"), node=node, check=check,
    )  # fmt: skip


max_dim = choosing("max_dim", "MaxBackward0", _max_dim)
min_dim = choosing("min_dim", "MinBackward0", _min_dim)


def _argmax(self: Raw, dim: int | None, keepdim: bool) -> Raw:
    return arrays.argmax(self, dim if self.ndim else None, keepdim)


def _argmin(self: Raw, dim: int | None, keepdim: bool) -> Raw:
    return arrays.argmin(self, dim if self.ndim else None, keepdim)


argmax_at = constant("argmax", _argmax)
argmin_at = constant("argmin", _argmin)


def _all(self: Raw, dim: tuple[int, ...], keepdim: bool) -> Raw:
    return _as_truth(arrays.all(self, dim, keepdim), self.dtype)


def _any(self: Raw, dim: tuple[int, ...], keepdim: bool) -> Raw:
    return _as_truth(arrays.any(self, dim, keepdim), self.dtype)


def _as_truth(result: Raw, dtype: Any) -> Raw:
    # Bytes were PyTorch's bools before it had any, and still give bytes.
    return arrays.cast(result, dtype) if dtype.name == "uint8" else result


all_of = constant("all", _all)
any_of = constant("any", _any)
