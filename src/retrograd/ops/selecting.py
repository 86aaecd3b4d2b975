"""Operations whose every result is one of the elements they were given.

Choosing between two tensors (``where``, ``masked_fill``) stands with the elementwise operations.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._operation import Selecting, constant, raw
from retrograd.ops.elementwise import eq, isnan, logical_and, logical_or, where, zeros_like

def _evenly(g: Any, self: Any, result: Any) -> Any:
    """Every element that equals the extreme gets the same share of its gradient."""
    chosen = eq(self, result)
    if arrays.any(arrays.isnan(raw(result))):  # NaN wins, though it equals nothing
        chosen = logical_or(chosen, logical_and(isnan(self), isnan(result)))
    return where(chosen, g / _how_many(chosen, result), zeros_like(self))


def _how_many(chosen: Any, result: Any) -> Any:
    """How many were chosen for each element of ``result``, in its dtype."""
    marks, values = raw(chosen), raw(result)
    dims = tuple(d for d in range(marks.ndim) if not values.ndim or values.shape[d] == 1)
    return arrays.cast(arrays.sum(marks, dims, bool(values.ndim)), values.dtype)


def _amax(self: Raw, dim: tuple[int, ...], keepdim: bool) -> Raw:
    return arrays.amax(self, dim, keepdim)


def _amin(self: Raw, dim: tuple[int, ...], keepdim: bool) -> Raw:
    return arrays.amin(self, dim, keepdim)


def _evenly_dim(g: Any, self: Any, result: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    if not keepdim:
        g, result = (linear.kept(x, self.shape, dim) for x in (g, result))
    return _evenly(g, self, result)


max_all = Selecting(
    "max", lambda self: arrays.amax(self), inputs=("self",), rules={"self": _evenly},
    node="MaxBackward1",
)  # fmt: skip
min_all = Selecting(
    "min", lambda self: arrays.amin(self), inputs=("self",), rules={"self": _evenly},
    node="MinBackward1",
)  # fmt: skip
amax_dim = Selecting("amax", _amax, inputs=("self",), rules={"self": _evenly_dim})
amin_dim = Selecting("amin", _amin, inputs=("self",), rules={"self": _evenly_dim})


def _max_dim(self: Raw, dim: int, keepdim: bool) -> tuple[Raw, Raw]:
    return _at(self, arrays.argmax, dim, keepdim)


def _min_dim(self: Raw, dim: int, keepdim: bool) -> tuple[Raw, Raw]:
    return _at(self, arrays.argmin, dim, keepdim)


def _at(self: Raw, choose: Any, dim: int, keepdim: bool) -> tuple[Raw, Raw]:
    if not self.ndim:
        return self, arrays.asarray(0, arrays.int64)
    places = choose(self, dim, True)
    values = arrays.take_along(self, places, dim)
    if keepdim:
        return values, places
    shape = tuple(s for d, s in enumerate(self.shape) if d != dim)
    return values.reshape(shape), places.reshape(shape)


def _scatter_rule(g: Any, result1: Any, shape: Any, dim: int, keepdim: bool) -> Any:
    if not shape:
        return g[0]
    value_grad, places = g[0], result1
    if not keepdim:
        value_grad, places = (linear.kept(x, shape, (dim,)) for x in (value_grad, places))
    return linear.scatter_zeros(value_grad, shape=tuple(shape), dim=dim, places=raw(places))


max_dim = Selecting(
    "max_dim", _max_dim, inputs=("self",), rules={"self": _scatter_rule}, outputs=2,
    node="MaxBackward0",
)  # fmt: skip
min_dim = Selecting(
    "min_dim", _min_dim, inputs=("self",), rules={"self": _scatter_rule}, outputs=2,
    node="MinBackward0",
)  # fmt: skip


def _argmax(self: Raw, dim: int | None, keepdim: bool) -> Raw:
    return arrays.argmax(self, dim, keepdim)


def _argmin(self: Raw, dim: int | None, keepdim: bool) -> Raw:
    return arrays.argmin(self, dim, keepdim)


argmax_at = constant("argmax", _argmax)
argmin_at = constant("argmin", _argmin)
all_of = constant("all", lambda self, dim, keepdim: arrays.all(self, dim, keepdim))
any_of = constant("any", lambda self, dim, keepdim: arrays.any(self, dim, keepdim))
