"""Products and sums that round once, as the fused instruction of processors does, and the ranges
that PyTorch's kernels compute with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


def scale_and_shift(values: Array, scale: float, shift: float) -> Array:
    """``values * scale + shift``, rounded once as the processor's fused instruction does."""
    scale, shift = float(values.dtype.type(scale)), float(values.dtype.type(shift))
    if shift == 0.0:  # only the product rounds; the sum still turns -0.0 into 0.0
        return values * scale + shift
    fused = _fused_float32 if values.dtype == np.float32 else _fused_float64
    return fused(values, scale, shift)


def _fused_float32(values: Float32, scale: float, shift: float) -> Float32:
    products = values.astype(np.float64) * scale  # exact: 24 bits times 24 bits
    sums = products + shift
    # Rounding to 53 bits and then to 24 goes wrong only where the first lands halfway between two
    # float32 numbers that the exact sum was not halfway between: give way to what was lost.
    halfway = np.flatnonzero((sums.view(np.int64) & 0x1FFFFFFF) == 0x10000000)
    if halfway.size:
        lost = _lost_in_sum(products[halfway], shift, sums[halfway])
        beyond = np.where(lost == 0.0, sums[halfway], np.copysign(np.inf, lost))
        sums[halfway] = np.nextafter(sums[halfway], beyond)
    return sums.astype(np.float32)


def _fused_float64(values: Float64, scale: float, shift: Any) -> Float64:
    # No wider type is at hand: keep what the product and the sum lose (Dekker, Knuth) and add it
    # in the end.
    if 2.0**960 <= np.maximum(abs(scale), np.max(np.abs(shift), initial=0.0)) < np.inf:
        # What is lost on the way would overflow. Zeros have nothing to round.
        smaller = _fused_float64(values, scale * 2.0**-128, shift * 2.0**-128)
        return np.where(values == 0.0, shift, smaller * 2.0**128)
    scale_high, scale_low = _halves(scale)
    high, low = _halves(values)
    products = values * scale
    lost = high * scale_high - products + high * scale_low + low * scale_high + low * scale_low
    sums = products + shift
    fused: Float64 = sums + _odd_sum(_lost_in_sum(products, shift, sums), lost)
    return fused


def _odd_sum(x: Float64, y: Float64) -> Float64:
    """``x + y``, rounded to the neighbour with an odd last bit where it is not exact, so that it is
    on the right side of the middle when it is rounded again (Boldo and Melquiond)."""
    total = np.asarray(x + y)
    lost = _lost_in_sum(x, y, total)
    even = (lost != 0.0) & ((total.view(np.int64) & 1) == 0)
    odd: Float64 = np.where(even, np.nextafter(total, np.copysign(np.inf, lost)), total)
    return odd


def _halves(value: Any) -> tuple[Any, Any]:
    """Two numbers of 26 bits whose sum is ``value``, so that products of them are exact."""
    shifted = value * 134217729.0  # 2**27 + 1
    high = shifted - (shifted - value)
    return high, value - high


def _lost_in_sum(left: Float64, right: Any, total: Float64) -> Float64:
    """What rounding took from ``left + right`` to make it ``total``, exactly."""
    from_right = total - left
    lost: Float64 = (left - (total - from_right)) + (right - from_right)
    return lost


# ---- ranges -------------------------------------------------------------------------------------


def evenly(start: float, end: float, count: int, dtype: np.dtype[Any]) -> Array:
    """``count`` numbers from ``start`` to ``end``, each counted from the nearer end."""
    first, last, steps = (dtype.type(x) for x in (start, end, max(count - 1, 1)))
    with np.errstate(over="ignore"):
        distance = last - first
    step = float(distance / steps if np.isfinite(distance) else last / steps - first / steps)
    index = np.arange(count)
    near = scale_and_shift(index.astype(dtype), step, start)
    far = scale_and_shift(index[::-1].astype(dtype), -step, end)
    return np.where(index < count // 2, near, far)


def stepped(start: float, step: float, count: int, dtype: np.dtype[Any]) -> Array:
    """``count`` numbers from ``start`` on.

    Every eighth (fourth, in float64) is computed in float64 and rounded; those after it are
    computed from it. At the end, where no two such groups are left, all are computed by themselves.
    """
    index = np.arange(count)
    most = 1 << 10 if dtype.itemsize == 2 else 1 << 23
    if start.is_integer() and step.is_integer() and abs(start) + abs(step) * count < most:
        return (index * int(step) + int(start)).astype(dtype)  # nothing to round
    alone = scale_and_shift(index.astype(np.float64), step, start)
    width = 32 // dtype.itemsize
    if dtype.itemsize == 2 or step == 0:
        return alone.astype(dtype)
    grouped = count - count % (2 * width)
    firsts = alone[:grouped:width].astype(dtype).astype(np.float64)
    offsets = np.arange(width, dtype=np.float64)
    within = _fused_float64(np.tile(offsets, len(firsts)), step, np.repeat(firsts, width))
    return np.concatenate((within, alone[grouped:])).astype(dtype)
