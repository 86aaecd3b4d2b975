"""Tangents of reductions. Each result depends on elements of its own, so that its slopes are the
gradient of the sum of all results: with those at hand, a tangent is a scalar product."""

from __future__ import annotations

from typing import Any

from retrograd.ops import linear
from retrograd.ops._operation import raw
from retrograd.ops.elementwise import conj, real, zeros_like


def ones_like(x: Any) -> Any:
    """The gradient of the sum of all results."""
    return zeros_like(x) + 1


def by_slopes(slopes: Any, t: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The tangent of what is reduced along ``dims``, and differentiable in complex numbers."""
    return linear.sum_dim(slopes * t, dim=dims, keepdim=keepdim)


def by_real_slopes(slopes: Any, t: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The tangent of what is real, whatever the numbers are that it is reduced from."""
    if raw(slopes).dtype.kind == "c":
        return linear.sum_dim(real(conj(slopes) * t), dim=dims, keepdim=keepdim)
    return by_slopes(slopes, t, dims, keepdim)
