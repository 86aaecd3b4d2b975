"""Error functions of large arrays in single precision.

SciPy's take ten nanoseconds an element. These are quotients of polynomials, fitted so that the
relative error is below that of single precision, and evaluated on whole blocks of an array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from retrograd.arrays._numpy import Raw

# erf(x) = x P(x ** 2) / Q(x ** 2) where it is not 1 in single precision.
_ERF_END = 3.95
_ERF_P = (1.1283791065216064, 0.19154466688632965, 0.05287444591522217, 0.003807838773354888,
          0.0002846670104190707, 2.025783260251046e-06)  # fmt: skip
_ERF_Q = (1.0, 0.5030847191810608, 0.11455705761909485, 0.01505446806550026,
          0.0011706214863806963, 3.782940621022135e-05)  # fmt: skip
# erfinv(x) = x P(w) / Q(w) with w = -log(1 - x ** 2).
_INV_P = (0.8862269520759583, 0.30700817704200745, 0.059710562229156494, 0.007782020140439272,
          0.0006449762149713933, 2.4085315089905635e-05)  # fmt: skip
_INV_Q = (1.0, 0.08462266623973846, 0.03218808025121689, 0.0018893933156505227,
          0.00017866679991129786, 1.2737261840811698e-06)  # fmt: skip
# erfc(x) = exp(-x ** 2) P(1 / (1 + x / 2)) for x from 0 to where it is 0 in single precision.
_ERFC_END = 10.5
_ERFC_P = (-5.403587238106411e-06, 0.28220823407173157, 0.28121885657310486, 0.2491806447505951,
           0.18316449224948883, 0.013259575702250004, 0.22606579959392548, -0.4453320801258087,
           0.2656208574771881, -0.05538098141551018)  # fmt: skip
_UPPER_BITS = np.int32(-4096)  # of a single-precision number: so few that its square is exact


def erf(x: Raw) -> Raw:
    near = np.clip(x, -_ERF_END, _ERF_END)
    square = near * near
    result = horner(_ERF_P, square)
    result *= near
    result /= horner(_ERF_Q, square)
    return np.clip(result, -1, 1, out=result)


def erfc(x: Raw) -> Raw:
    size = np.abs(x)
    np.clip(size, 0, _ERFC_END, out=size)
    result = horner(_ERFC_P, 1 / (1 + 0.5 * size))
    # exp(-x ** 2) loses what rounding x ** 2 does, unless a part of x is squared exactly.
    part = (size.view(np.int32) & _UPPER_BITS).view(np.float32)
    result *= np.exp((part - size) * (part + size))
    result *= np.exp(-part * part)
    np.copysign(result, x, out=result)
    result += np.signbit(x) * np.float32(2)  # also for -0.0
    return result


def erfinv(x: Raw) -> Raw:
    depth = -np.log((1 - x) * (1 + x))
    result = horner(_INV_P, depth)
    result *= x
    result /= horner(_INV_Q, depth)
    at_end = np.abs(x) == 1
    if at_end.any():
        result[at_end] = np.copysign(np.inf, x[at_end])
    return result


def ndtr(x: Raw) -> Raw:
    result = erfc(x * np.float32(-math.sqrt(0.5)))
    result *= 0.5
    return result


def horner(coefficients: Sequence[float], x: Raw) -> Raw:
    """The polynomial with these coefficients, that of the highest power last."""
    total = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        total += c
        total *= x
    total += coefficients[0]
    return total
