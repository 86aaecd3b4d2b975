"""Converts the generator's random words to random numbers, as PyTorch's kernels do.

Uniform numbers are bits scaled; normal numbers come from pairs of uniform ones by Box and Muller's
method, in PyTorch's order and with its polynomials, so that they are equal to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from retrograd.arrays._blocks import run
from retrograd.arrays._fused import scale_and_shift

Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Precision = type[np.float32 | np.float64]


class Words(Protocol):
    """What a generator gives: 32- and 64-bit words, and room for one normal number to come."""

    next_normal: Any
    lock: Any

    def words(self, count: int) -> npt.NDArray[np.uint32]: ...

    def double_words(self, count: int) -> npt.NDArray[np.uint64]: ...


# ---- from words to numbers ----------------------------------------------------------------------


def unit_uniforms(generator: Words, count: int, precision: Precision) -> Array:
    """Multiples of ``2**-24`` or ``2**-53`` in [0, 1), from the low bits of one or two words."""
    if precision is np.float32:
        low_bits = generator.words(count)
        low_bits &= np.uint32((1 << 24) - 1)
        short: Array = low_bits.view(np.int32).astype(np.float32)
        short *= np.float32(2.0**-24)
        return short
    low_bits_of_two = generator.double_words(count) & np.uint64((1 << 53) - 1)
    fractions: Array = low_bits_of_two.view(np.int64).astype(np.float64)
    fractions *= 2.0**-53
    return fractions


def below(generator: Words, count: int, p: float) -> npt.NDArray[np.bool_]:
    """Whether each of the next float64 uniforms is less than ``p``, without making them.

    A uniform is 53 bits, 21 in the first of two words and 32 in the second.  ``p`` has as many, and
    hardly ever are the first 21 equal.
    """
    pairs = generator.words(2 * count).reshape(count, 2)
    high, low = divmod(math.ceil(p * 2.0**53), 1 << 32)
    first = pairs[:, 0] & np.uint32((1 << 21) - 1)
    less = first < np.uint32(high)
    undecided = np.flatnonzero(first == np.uint32(high))
    less[undecided] = pairs[undecided, 1] < low
    return less


def by_c_library(function: Callable[[float], float], values: Float64) -> Float64:
    """One of ``math``'s functions of every value."""
    results = map(function, values.ravel().tolist())
    return np.fromiter(results, np.float64, values.size).reshape(values.shape)


def as_c_library(
    quick: Callable[[Any], Any], exact: Callable[[float], float], values: Float64,
    finish: Callable[[Float64], Array],
) -> Array:  # fmt: skip
    """``finish`` of a function of every value, as computed by the C library.

    ``quick`` is NumPy's version, which differs in the last bits at most. Only where the outcome
    depends on these is the C library called, value by value.
    """
    near = quick(values)
    result = finish(near * (1 - 2.0**-48))
    doubtful = np.flatnonzero(result != finish(near * (1 + 2.0**-48)))
    if doubtful.size:
        result[doubtful] = finish(by_c_library(exact, values[doubtful]))
    return result


def narrowed(values: Float64, dtype: np.dtype[Any]) -> Array:
    """float64 values in another dtype; one of two bytes is reached through float32, rounding
    twice."""
    return values.astype(np.float32).astype(dtype) if dtype.itemsize == 2 else values.astype(dtype)


# ---- normal numbers -----------------------------------------------------------------------------


def normals_in_pairs(generator: Words, count: int) -> Float64:
    """Standard normals for the short path: the waiting one if any, then pair after pair."""
    with generator.lock:
        waiting = [] if generator.next_normal is None else [generator.next_normal]
        pairs = (count - len(waiting) + 1) // 2
        uniforms = unit_uniforms(generator, 2 * pairs, np.float64).reshape(pairs, 2)
        radius = np.sqrt(-2.0 * by_c_library(math.log1p, -uniforms[:, 1]))
        cosine, sine = _cosine_sine_float64(2.0 * math.pi * uniforms[:, 0])
        new = np.stack((radius * cosine, radius * sine), axis=1).ravel()
        normals = np.concatenate((waiting, new))
        generator.next_normal = float(normals[count]) if normals.size > count else None
    return normals[:count]


def normals_in_blocks(
    generator: Words, count: int, dtype: np.dtype[Any], mean: float, std: float
) -> Array:
    """Normals for the long path: whole blocks, then 16 more draws that redo the last 16 elements.

    Of the uniforms drawn for a last block that is not whole, the 16 more take the place; float16
    and bfloat16 do not even draw them.
    """
    precision = np.float64 if dtype == np.float64 else np.float32
    whole, redone = count - count % 16, 16 if count % 16 else 0
    drawn = redone + (whole if dtype.itemsize == 2 else count)
    uniforms = unit_uniforms(generator, drawn, precision)
    blocks = np.concatenate((uniforms[:whole], uniforms[drawn - redone :])).reshape(-1, 2, 8)
    run(_box_muller, blocks)
    normals = scale_and_shift(blocks.ravel(), std, mean)
    values = np.empty(count, dtype)
    values[:whole] = normals[:whole]
    values[count - redone :] = normals[whole:]
    return values


def _box_muller(blocks: Array) -> None:
    """Turn uniforms into normals in place: the first 8 of a block with the 8 after them."""
    single = blocks.dtype == np.float32
    fractions: Array = 1.0 - blocks[:, 0]  # constants take the precision of the array
    log: Array = _log_float32(fractions) if single else by_c_library(math.log, fractions)
    turn = _cosine_sine_float32 if single else _cosine_sine_float64
    angle: Array = 2.0 * math.pi * blocks[:, 1]
    cosine, sine = turn(angle)
    radius = np.sqrt(-2.0 * log)
    blocks[:, 0] = radius * cosine
    blocks[:, 1] = radius * sine


def _cosine_sine_float64(angle: Float64) -> tuple[Float64, Float64]:
    rotation = np.exp(1j * angle)  # NumPy leaves this to the C library, on every processor
    return rotation.real, rotation.imag


# The AVX2 kernel has its own float32 log, sin and cos: the polynomials of the Cephes library,
# evaluated with fused multiply-adds.  Here the detour through float64 is exact: of the 2**24
# uniforms there are, none makes a step of ``_multiply_add`` round otherwise than a fused one.

# fmt: off
_LOG = np.array([
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
], np.float32)
# fmt: on
_LOG_2 = np.array([-2.12194440e-4, 0.693359375], np.float32)  # log(2) in two parts
_PI_4 = np.array([0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8], np.float32)
_COSINE = np.array([2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2], np.float32)
_SINE = np.array([-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1], np.float32)


def _multiply_add(factor: Float32, other: Any, addend: Any) -> Float32:
    sums: Float64 = np.multiply(factor, other, dtype=np.float64) + addend
    return sums.astype(np.float32)


def _polynomial(coefficients: Float32, x: Float32) -> Float32:
    """Horner's scheme, the leading coefficient first."""
    value = _multiply_add(x, coefficients[0], coefficients[1])
    for coefficient in coefficients[2:]:
        value = _multiply_add(value, x, coefficient)
    return value


def _log_float32(x: Float32) -> Float32:
    mantissa, exponent = np.frexp(x)
    below = mantissa < np.float32(math.sqrt(0.5))
    power = (exponent - below).astype(np.float32)
    f = np.where(below, mantissa + mantissa, mantissa) - np.float32(1.0)  # x = (1 + f) * 2**power
    square = f * f
    tail = _multiply_add(_polynomial(_LOG, f) * f, square, power * _LOG_2[0])
    tail = _multiply_add(square, -0.5, tail)
    return _multiply_add(power, _LOG_2[1], f + tail)


def _cosine_sine_float32(angle: Float32) -> tuple[Float32, Float32]:
    # The angle is an even number of eighths of a turn, plus a rest of at most one either way.
    eighths = ((angle * np.float32(4.0 / math.pi)).astype(np.int32) + 1) & ~1
    rest = angle
    for part in _PI_4:
        rest = _multiply_add(eighths.astype(np.float32), -part, rest)
    square = rest * rest
    cosine = _multiply_add(_polynomial(_COSINE, square) * square, square, square * np.float32(-0.5))
    cosine += np.float32(1.0)
    sine = _multiply_add(_polynomial(_SINE, square) * square, rest, rest)
    swapped = (eighths & 2) != 0
    cosine, sine = np.where(swapped, sine, cosine), np.where(swapped, cosine, sine)
    np.negative(cosine, out=cosine, where=((eighths + 2) & 4) != 0)
    np.negative(sine, out=sine, where=(eighths & 4) != 0)
    return cosine, sine
