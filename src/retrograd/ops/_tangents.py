"""Tangents of reductions. Each result depends on elements of its own, so its derivatives are the
gradient of the sum of all results, and its tangent is a scalar product with them."""

from __future__ import annotations

from typing import Any

from retrograd.ops import linear
from retrograd.ops.copies import zeros_like


def ones_like(x: Any) -> Any:
    """The gradient of the sum of all results."""
    return zeros_like(x) + 1


def by_derivatives(derivatives: Any, t: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The tangent of what is reduced along ``dims``, and differentiable in complex numbers."""
    return linear.sum_dim(derivatives * t, dim=dims, keepdim=keepdim)
