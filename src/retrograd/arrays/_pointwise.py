"""Less common elementwise functions of one or two operands, as PyTorch defines them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.arrays._blocks import in_blocks
from retrograd.arrays._numpy import RAW_TYPES, Raw, copy, where

nextafter, gcd, lcm, fmax, fmin, copysign = (
    np.nextafter, np.gcd, np.lcm, np.fmax, np.fmin, np.copysign)  # fmt: skip


def addcmul(x: Raw, y: Raw, z: Raw, value: Any) -> Raw:
    product = y * z
    return x + (product if value == 1 else value * product)


def addcdiv(x: Raw, y: Raw, z: Raw, value: Any) -> Raw:
    return x + (y / z if value == 1 else value * y / z)


def lerp(start: Raw, end: Raw, weight: Any) -> Raw:
    """From the nearer end, so that a weight of 1 gives ``end`` exactly."""
    if start.dtype == np.float16:  # the way may be too long for it where the result is not
        if isinstance(weight, RAW_TYPES):
            weight = weight.astype(np.float32)  # type: ignore[attr-defined]
        distance = lerp(start.astype(np.float32), end.astype(np.float32), weight)
        return distance.astype(np.float16)
    if isinstance(weight, np.ndarray) and weight.ndim:
        return in_blocks(_lerp, start, end, weight)
    distance = end - start
    if abs(weight) < 0.5:
        return start + weight * distance
    return end - (1 - weight) * distance


def _lerp(start: Raw, end: Raw, weight: Raw) -> Raw:
    distance = end - start
    return where(np.abs(weight) < 0.5, start + weight * distance, end - (1 - weight) * distance)


def logaddexp(x: Raw, y: Raw) -> Raw:
    return in_blocks(_complex_logaddexp if x.dtype.kind == "c" else _logaddexp, x, y)


def logaddexp2(x: Raw, y: Raw) -> Raw:
    return in_blocks(_logaddexp2, x, y)


def _logaddexp(x: Raw, y: Raw) -> Raw:
    result = np.log1p(np.exp(-np.abs(x - y))) + np.maximum(x, y)
    # Infinities of one sign: their difference says nothing.
    return np.logaddexp(x, y) if np.isnan(result).any() else result


def _logaddexp2(x: Raw, y: Raw) -> Raw:
    result = np.log1p(np.exp2(-np.abs(x - y))) / math.log(2) + np.maximum(x, y)
    return np.logaddexp2(x, y) if np.isnan(result).any() else result


def _complex_logaddexp(x: Raw, y: Raw) -> Raw:
    first = x.real < y.real
    low: Raw = np.where(first, x, y)
    high: Raw = np.where(first, y, x)
    result = high + np.log1p(np.exp(low - high))
    # Infinite alike: their difference says nothing. Of two -inf, either is the result.
    both = ~np.isfinite(low.real) & (low.real == high.real)
    alike = np.where(low.real < 0, low, np.log(np.exp(low) + np.exp(high)))
    return np.where(both, alike, result)


def hypot(x: Raw, y: Raw) -> Raw:
    return in_blocks(_hypot, x, y)


def _hypot(x: Raw, y: Raw) -> Raw:
    if x.dtype != np.float32 or np.size(x) < _MANY:
        return np.hypot(x, y)
    # In double precision, squares of single precision neither overflow nor vanish.
    square = np.square(x, dtype=np.float64)
    square += np.square(y, dtype=np.float64)
    result = np.sqrt(square, out=square).astype(np.float32)
    return np.hypot(x, y) if np.isnan(result).any() else result


_MANY = 1 << 9  # elements from which several steps on all of them are faster than one by one


def sinc(x: Raw) -> Raw:
    """sin(pi x) / (pi x), and 1 at 0."""
    return in_blocks(_sinc, x)


def _sinc(x: Raw) -> Raw:
    angle = x * math.pi
    return np.where(angle == 0, x.dtype.type(1), np.sin(angle) / angle)


def frac(x: Raw) -> Raw:
    return x - np.trunc(x)


def angle(x: Raw) -> Raw:
    if x.dtype.kind == "c":
        return np.arctan2(x.imag, x.real)
    result = (x < 0) * x.dtype.type(math.pi)
    unknown = np.isnan(x)
    return np.where(unknown, x, result) if unknown.any() else result


def complex_of(real: Raw, imag: Raw) -> Raw:
    result = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real, 1j))
    result.real, result.imag = real, imag
    return result


def polar(size: Raw, angle: Raw) -> Raw:
    return complex_of(size * np.cos(angle), size * np.sin(angle))


def heaviside(x: Raw, values: Raw) -> Raw:
    return np.where(x == 0, values, (x > 0).astype(x.dtype))


def nan_to_num(x: Raw, nan: float, posinf: float | None, neginf: float | None) -> Raw:
    # A finite sum has no term that is not, and mostly there is none to replace.
    if x.dtype.kind not in "fc" or np.isfinite(np.add.reduce(x, None)):
        return copy(x)
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


def signbit(x: Raw) -> Raw:
    return np.signbit(x) if x.dtype.kind == "f" else x < x.dtype.type(0)


def two_to(exponent: Raw, dtype: Any) -> Raw:
    return np.exp2(exponent, dtype=dtype)


def ldexp(x: Raw, exponent: Raw) -> Raw:
    return x * np.exp2(exponent)


def ldexp_whole(x: Raw, exponent: Raw) -> Raw:
    """``x`` times a power of two that need not be a number of its dtype."""
    far = 5000  # from any number to infinity or 0
    return np.ldexp(x, np.clip(exponent.astype(np.int64), -far, far).astype(np.int32))


def frexp(x: Raw) -> tuple[Raw, Raw]:
    mantissa, exponent = np.frexp(x)
    return mantissa, exponent.astype(np.int32)


def left_shift(x: Raw, count: Raw) -> Raw:
    """Bits pushed out are lost, however far; a negative distance is as good as too far."""
    fits = (count >= 0) & (count < 8 * x.dtype.itemsize)
    return np.where(fits, np.left_shift(x, np.where(fits, count, 0)), x.dtype.type(0))


def right_shift(x: Raw, count: Raw) -> Raw:
    most = x.dtype.type(8 * x.dtype.itemsize - 1)
    far = (count < 0) | (count > most)
    shifted = np.right_shift(x, np.where(far, most, count))
    return shifted if x.dtype.kind == "i" else np.where(far, x.dtype.type(0), shifted)


def isclose(x: Raw, y: Raw, rtol: float, atol: float, equal_nan: bool) -> Raw:
    close = np.equal(x, y)
    if equal_nan and x.dtype.kind in "fc":
        close = close | (np.isnan(x) & np.isnan(y))
    if x.dtype.kind == "b":  # which have no difference
        x, y = np.asarray(x, np.int8), np.asarray(y, np.int8)
    distance = np.abs(x - y)
    allowed = atol + np.abs(rtol * y)
    return close | (np.isfinite(distance) & (distance <= allowed))


def isposinf(x: Raw) -> Raw:
    return np.isposinf(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)


def isneginf(x: Raw) -> Raw:
    return np.isneginf(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)


def isreal(x: Raw) -> Raw:
    return x.imag == 0 if x.dtype.kind == "c" else np.ones(x.shape, bool)


def isin(x: Raw, among: Raw, invert: bool) -> Raw:
    return np.isin(x, among, invert=invert)
