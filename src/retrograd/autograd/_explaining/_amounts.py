"""Summaries of gradients, which remain after the arrays are freed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.ops._lifted import bare


class Amount(NamedTuple):
    """The size of a gradient: its norm, its shape, and the value itself if it is one number."""

    norm: float
    shape: tuple[int, ...]
    value: float | complex | None = None

    def __str__(self) -> str:
        return f"norm {self.norm:.4g}" if self.value is None else f"{self.value:.4g}"

    @property
    def finite(self) -> bool:
        return math.isfinite(self.norm)


def amount_of(g: Any) -> Amount:
    """The amount of a raw array."""
    shape = tuple(g.shape)
    if g.size == 1:
        value = g.item()
        return Amount(abs(value), shape, value)
    return Amount(norm_of(g), shape)


def norm_of(g: Any) -> float:
    """The Euclidean norm of a raw array, or of a value on a device, in double precision."""
    g = bare(g)
    flat = arrays.cast(abs(g) if g.dtype.kind == "c" else g, arrays.float64).ravel()
    squares = float(flat @ flat)
    if 1e-200 < squares < math.inf or not flat.size:
        return math.sqrt(squares)
    largest = float(arrays.amax(abs(flat)))  # squares may be out of range where the norm is not
    if largest == 0 or not math.isfinite(largest):
        return largest
    flat = flat / largest
    return largest * math.sqrt(float(flat @ flat))


def together(amounts: Iterable[Amount]) -> float:
    """The norm of several gradients side by side."""
    return math.hypot(*(a.norm for a in amounts))
