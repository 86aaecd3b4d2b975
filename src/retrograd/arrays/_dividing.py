"""Division with rounding. Of large arrays in single precision it is done in double precision, where
a quotient of two singles is exact enough to be cut to the right integer: NumPy's own way, which
makes no such assumption, takes ten times as long."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.arrays import _numpy as adapter
from retrograd.arrays._blocks import in_blocks
from retrograd.arrays._numpy import Raw

_MANY = 1 << 12  # elements from which several steps on all of them are faster than one by one
_EXACT = 2.0**28  # quotients below this are cut to the right integer, and their products are exact


def fmod(x: Raw, y: Any) -> Raw:
    return in_blocks(_fmod, x, y) if _is_float(x) else adapter.fmod(x, y)


def remainder(x: Raw, y: Any) -> Raw:
    return in_blocks(_remainder, x, y) if _is_float(x) else adapter.remainder(x, y)


def floor_divide(x: Raw, y: Any) -> Raw:
    return in_blocks(_floor_divide, x, y) if _is_float(x) else adapter.floor_divide(x, y)


def _is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _fmod(x: Raw, y: Any) -> Raw:
    if x.dtype != np.float32 or x.size < _MANY:
        return np.fmod(x, y)
    result = x.astype(np.float64)
    divisor = np.asarray(y, np.float32).astype(np.float64)
    quotient = np.trunc(result / divisor)
    result = result - quotient * divisor
    inexact = ~(np.abs(quotient) < _EXACT) | np.isnan(result)  # also for a NaN
    result = np.copysign(result, x, dtype=np.float32, casting="same_kind")
    return np.where(inexact, np.fmod(x, y), result) if inexact.any() else result


def _remainder(x: Raw, y: Any) -> Raw:
    if x.size < _MANY:
        return np.remainder(x, y)
    result = _fmod(x, y)
    other_side = (result < 0) != np.less(y, 0)
    other_side &= result != 0
    if np.isinf(y).any():  # and 0 * inf would be NaN
        return np.where(other_side, result + y, result)
    return result + other_side * np.asarray(y, x.dtype)


def _floor_divide(x: Raw, y: Any) -> Raw:
    if x.dtype != np.float32 or x.size < _MANY:
        return np.floor_divide(x, y)
    divisor = np.asarray(y, np.float32).astype(np.float64)
    quotient = x / divisor
    result = np.floor(quotient).astype(np.float32)
    inexact = ~(np.abs(quotient) < _EXACT) | np.isinf(divisor)
    return np.where(inexact, np.floor_divide(x, y), result) if inexact.any() else result
