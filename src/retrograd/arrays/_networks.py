"""Kernels of neural networks: activations and their derivatives.

Each is a few steps on a block of numbers that fits the processor's cache, every step in the memory
of the last. Two things shape them. On random masks ``np.where`` takes thirty times as long as a
sum, so choices are made on the bits of numbers: an integer times 0 or 1 is nothing or itself. And
NumPy has a fast ``exp`` for float32 but no error function, so that there the normal distribution
function is written as the logistic function of a polynomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.arrays import _blocks as blocks
from retrograd.arrays._numpy import _ONE, _ZERO, Raw, float32

_INTEGERS = {2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def over_blocks(kernel: Callable[..., None], *inputs: Raw) -> Raw:
    """A new array, filled by ``kernel(*inputs, out)`` block by block. The inputs have one shape,
    or that of a batch of them; half precision is computed in single."""
    if len(inputs) > 1 and any([x.shape != inputs[-1].shape for x in inputs[:-1]]):
        inputs = np.broadcast_arrays(*inputs)
    like = inputs[-1]
    if like.dtype.char == "e":
        wide = [x.astype(np.float32) for x in inputs]
        return over_blocks(kernel, *wide).astype(like.dtype)
    out = np.empty_like(like)
    if out.nbytes <= blocks.BLOCK_BYTES:
        kernel(*inputs, out)
        return out if out.ndim else out[()]
    arrays = [*inputs, out]
    if out.flags.c_contiguous:
        arrays = [x.reshape(-1) for x in arrays]
    blocks.run(kernel, *arrays)
    return out


def keep(x: Raw, mask: Raw, out: Raw) -> None:
    """``x`` where ``mask`` holds, zero elsewhere."""
    ints = _INTEGERS[out.itemsize]
    np.multiply(x.view(ints), mask.view(np.int8), out=out.view(ints))


def choose(mask: Raw, x: Any, y: Any, out: Raw) -> None:
    """``x`` where ``mask`` holds, ``y`` elsewhere: ``y`` plus the difference of their bits, or
    not. ``out`` may be ``x``; both may be numbers."""
    ints = _INTEGERS[out.itemsize]
    x, y = (np.asarray(a, out.dtype).view(ints) for a in (x, y))
    bits = out.view(ints)
    if x.ndim or y.ndim:
        np.subtract(x, y, out=bits)
        np.multiply(bits, mask.view(np.int8), out=bits)
    else:
        np.multiply(mask.view(np.int8), np.subtract(x, y), out=bits)
    np.add(bits, y, out=bits)


# -- linear pieces ---------------------------------------------------------------------------


def keep_above(g: Raw, x: Raw, threshold: float) -> Raw:
    """``g``, but zero where ``x <= threshold``."""

    def kernel(g: Raw, x: Raw, out: Raw) -> None:
        keep(g, np.logical_not(np.less_equal(x, threshold)), out)

    return over_blocks(kernel, g, x)


def keep_inside(g: Raw, x: Raw, low: float, high: float) -> Raw:
    """``g``, but zero where ``x <= low`` or ``x >= high``."""

    def kernel(g: Raw, x: Raw, out: Raw) -> None:
        outside = np.logical_or(np.less_equal(x, low), np.greater_equal(x, high))
        keep(g, np.logical_not(outside), out)

    return over_blocks(kernel, g, x)


def keep_outside(g: Raw, x: Raw, size: float) -> Raw:
    """``g``, but zero where ``-size <= x <= size``."""

    def kernel(g: Raw, x: Raw, out: Raw) -> None:
        keep(g, np.logical_not(np.less_equal(np.abs(x), size)), out)

    return over_blocks(kernel, g, x)


def threshold(x: Raw, limit: float, value: float) -> Raw:
    """``x``, but ``value`` where ``x <= limit``."""

    def kernel(x: Raw, out: Raw) -> None:
        choose(np.less_equal(x, limit), value, x, out)

    return over_blocks(kernel, x)


def clamped(x: Raw, low: float, high: float) -> Raw:
    """``x`` moved between two bounds."""
    if x.dtype.kind != "f":
        return np.clip(x, int(low), int(high))

    def kernel(x: Raw, out: Raw) -> None:
        np.clip(x, low, high, out=out)

    return over_blocks(kernel, x)


def soft_shrink(x: Raw, size: float) -> Raw:
    """``x`` moved towards zero by ``size``, but not beyond."""

    def kernel(x: Raw, out: Raw) -> None:
        np.clip(x, -size, size, out=out)
        np.subtract(x, out, out=out)

    return over_blocks(kernel, x)


def leaky_relu(x: Raw, slope: float) -> Raw:
    """``x`` where positive, ``x * slope`` elsewhere."""
    pick = np.minimum if slope > 1 else np.maximum

    def kernel(x: Raw, out: Raw) -> None:
        # An infinity is not to be multiplied by a slope of 0.
        np.multiply(x if slope else np.minimum(x, 0), slope, out=out)
        pick(x, out, out=out)

    return over_blocks(kernel, x)


def leaky_relu_backward(g: Raw, x: Raw, slope: float) -> Raw:
    """``g`` where ``x`` is positive, ``g * slope`` elsewhere."""

    def kernel(g: Raw, x: Raw, out: Raw) -> None:
        choose(np.greater(x, 0), 1, slope, out)
        np.multiply(out, g, out=out)

    return over_blocks(kernel, g, x)


def hard_sigmoid(x: Raw) -> Raw:
    """``(x + 3) / 6`` between 0 and 1."""

    def kernel(x: Raw, out: Raw) -> None:
        np.add(x, 3, out=out)
        np.clip(out, 0, 6, out=out)
        np.divide(out, 6, out=out)

    return over_blocks(kernel, x)


def hard_sigmoid_backward(g: Raw, x: Raw) -> Raw:
    """``g / 6`` between -3 and 3; a NaN is not between them."""

    def kernel(g: Raw, x: Raw, out: Raw) -> None:
        np.divide(g, 6, out=out)
        keep(out, np.less(np.abs(x), 3), out)

    return over_blocks(kernel, g, x)


def hard_swish(x: Raw) -> Raw:
    """``x * hard_sigmoid(x)``."""

    def kernel(x: Raw, out: Raw) -> None:
        np.add(x, 3, out=out)
        np.clip(out, 0, 6, out=out)
        np.multiply(out, x, out=out)
        np.divide(out, 6, out=out)

    return over_blocks(kernel, x)


def hard_swish_backward(g: Raw, x: Raw) -> Raw:
    def kernel(g: Raw, x: Raw, out: Raw) -> None:
        np.divide(x, 3, out=out)
        np.add(out, 0.5, out=out)
        np.multiply(out, g, out=out)
        keep(out, np.logical_not(np.less_equal(x, -3)), out)
        choose(np.less(x, 3), out.copy(), g, out)

    return over_blocks(kernel, g, x)


# -- exponential pieces ----------------------------------------------------------------------


def elu(x: Raw, alpha: float, scale: float, input_scale: float) -> Raw:
    """``scale * x`` where positive, ``scale * alpha * (exp(input_scale * x) - 1)`` elsewhere."""

    def kernel(x: Raw, out: Raw) -> None:
        zero = _ZERO[x.dtype]
        np.minimum(x, zero, out=out)
        if input_scale != 1:
            np.multiply(out, input_scale, out=out)
        np.expm1(out, out)
        if alpha * scale != 1:
            np.multiply(out, alpha * scale, out=out)
        positive = np.maximum(x, zero)
        np.add(out, positive if scale == 1 else positive * scale, out)

    return over_blocks(kernel, x)


def elu_backward(g: Raw, x: Raw, alpha: float, scale: float, input_scale: float) -> Raw:
    slope = alpha * scale * input_scale

    def kernel(g: Raw, x: Raw, out: Raw) -> None:
        np.fmin(x, _ZERO[x.dtype], out)  # a NaN counts as positive
        if input_scale != 1:
            np.multiply(out, input_scale, out=out)
        np.exp(out, out)
        if slope != 1:
            np.multiply(out, slope, out=out)
        if slope != scale:  # or the exponential of 0 times the slope is right for what is positive
            choose(np.less_equal(x, 0), out.copy(), scale, out)
        np.multiply(out, g, out)

    return over_blocks(kernel, g, x)


def elu_backward_of_result(g: Raw, y: Raw, alpha: float, scale: float, input_scale: float) -> Raw:
    """The same from the result: the exponential is what it has in excess of its least value."""

    def kernel(g: Raw, y: Raw, out: Raw) -> None:
        np.add(y, alpha * scale, out=out)
        np.multiply(out, input_scale, out=out)
        choose(np.less_equal(y, 0), out.copy(), scale, out)
        np.multiply(out, g, out=out)

    return over_blocks(kernel, g, y)


def softplus(x: Raw, beta: float, limit: float) -> Raw:
    """``log(1 + exp(beta * x)) / beta``, and ``x`` itself where ``beta * x > limit``."""
    limit = min(limit, 40.0)  # beyond which the two are the same to the last bit

    def kernel(x: Raw, out: Raw) -> None:
        scaled = x if beta == 1 else np.multiply(x, beta, out=out)
        large = np.greater(scaled, limit)
        np.exp(scaled, out)
        _log_of_one_and(out)
        if beta != 1:
            np.divide(out, beta, out=out)
        if np.count_nonzero(large):
            choose(large, x, out.copy(), out)

    return over_blocks(kernel, x)


def _log_of_one_and(x: Raw) -> None:
    """``log(1 + x)`` in the memory of ``x``, for numbers that are not negative. For float32 NumPy
    has a fast logarithm, of which ``log1p`` makes no use; what rounding the sum loses is added to
    its result to first order."""
    if x.dtype is not float32:
        np.log1p(x, out=x)
        return
    one, total, lost = _ONE[float32], np.empty_like(x), np.empty_like(x)
    np.add(x, one, total)
    np.subtract(total, one, lost)
    np.subtract(lost, x, lost)
    np.divide(lost, total, lost)
    np.log(total, x)
    np.subtract(x, lost, x)


def softplus_backward(g: Raw, x: Raw, beta: float, limit: float) -> Raw:
    def kernel(g: Raw, x: Raw, out: Raw) -> None:
        np.multiply(x, -beta, out=out)
        large = np.less(out, -limit)
        np.exp(out, out)
        np.add(out, _ONE[x.dtype], out)
        np.divide(g, out, out)
        if np.count_nonzero(large):
            choose(large, g, out.copy(), out)

    return over_blocks(kernel, g, x)


def log_sigmoid(x: Raw, buffer: Raw) -> Raw:
    """``log(1 / (1 + exp(-x)))``, where ``buffer`` is ``exp(-abs(x))``."""

    def kernel(x: Raw, buffer: Raw, out: Raw) -> None:
        np.copyto(out, buffer)
        _log_of_one_and(out)
        np.subtract(np.minimum(x, _ZERO[x.dtype]), out, out)

    return over_blocks(kernel, x, buffer)


def exp_minus_abs(x: Raw) -> Raw:
    """``exp(-abs(x))``, which never overflows."""

    def kernel(x: Raw, out: Raw) -> None:
        np.abs(x, out=out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    return over_blocks(kernel, x)


def log_sigmoid_backward(g: Raw, x: Raw, buffer: Raw) -> Raw:
    """``g / (1 + exp(x))``: with ``buffer`` in place of one of the two terms of its fraction."""

    def kernel(g: Raw, x: Raw, buffer: Raw, out: Raw) -> None:
        choose(np.less(x, 0), 1, buffer, out)
        np.divide(out, np.add(buffer, 1), out=out)
        np.multiply(out, g, out=out)

    return over_blocks(kernel, g, x, buffer)


def silu_divisor(x: Raw, out: Raw | None = None) -> Raw:
    """``1 + exp(-x)``."""
    out = np.negative(x, out=out)
    np.exp(out, out)
    return np.add(out, _ONE.get(x.dtype, 1), out)


def silu(x: Raw) -> Raw:
    """``x / (1 + exp(-x))``: where the exponential overflows, the quotient is the right zero."""

    def kernel(x: Raw, out: Raw) -> None:
        np.divide(x, silu_divisor(x, out), out=out)

    return over_blocks(kernel, x)


def silu_backward_of(g: Raw, x: Raw, divisor: Raw, out: Raw | None = None) -> Raw:
    """The gradient of silu by what that divides ``x`` by: ``g * s * (1 + x * (1 - s))`` for the
    sigmoid ``s``."""
    s = np.divide(1, divisor)
    out = np.subtract(1, s, out=out)
    np.multiply(out, x, out=out)
    np.add(out, 1, out=out)
    np.multiply(out, s, out=out)
    return np.multiply(out, g, out=out)


def silu_backward(g: Raw, x: Raw) -> Raw:
    def kernel(g: Raw, x: Raw, out: Raw) -> None:
        silu_backward_of(g, x, silu_divisor(x, out), out)

    return over_blocks(kernel, g, x)


# tanh(softplus(x)) is n / (n + 2) with n = e * (e + 2) and e = exp(x). From here on it is 1.
_MISH_LIMIT = 20.0


def mish(x: Raw) -> Raw:
    """``x * tanh(softplus(x))``."""

    def kernel(x: Raw, out: Raw) -> None:
        np.exp(np.minimum(x, _MISH_LIMIT), out=out)
        np.multiply(out, np.add(out, 2), out=out)
        np.divide(out, np.add(out, 2), out=out)
        np.multiply(out, x, out=out)

    return over_blocks(kernel, x)


def mish_backward(g: Raw, x: Raw) -> Raw:
    """``t + x * s * (1 - t * t)`` for the sigmoid ``s`` of ``x`` and ``t = tanh(softplus(x))``."""

    def kernel(g: Raw, x: Raw, out: Raw) -> None:
        e = np.exp(np.minimum(x, _MISH_LIMIT))
        t = np.multiply(e, np.add(e, 2, out=out), out=out)
        t = np.divide(t, np.add(t, 2))
        np.divide(e, np.add(e, 1), out=out)
        np.multiply(out, x, out=out)
        np.multiply(out, np.subtract(1, np.square(t)), out=out)
        np.add(out, t, out=out)
        np.multiply(out, g, out=out)

    return over_blocks(kernel, g, x)


# -- the normal distribution -----------------------------------------------------------------

_HALF_ROOT, _DENSITY_AT_0 = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)
_TWO_BETA, _KAPPA = 2 * math.sqrt(2 / math.pi), 0.044715  # of the approximation by tanh
# The normal distribution function is the logistic function of x * q(x * x). This is q up to an
# error that moves the former by 1e-7, fitted for abs(x) < 6; the slower terms come last. Beyond,
# x * q(x * x) only grows, as it should.
_LOGIT_OF_NORMAL = (
    1.5957689853419064, 0.07266782264541273, -6.5909499074173e-05, -0.00011055588823412967,
    7.94622695325536e-06, -2.6729376430483334e-07, 3.618727107511775e-09,
)  # fmt: skip


def _one_over_normal(x: Raw, out: Raw) -> Raw:
    """The inverse of the normal distribution function at ``x``, for float32."""
    square = np.square(x, out=np.empty_like(x))
    np.multiply(square, -_LOGIT_OF_NORMAL[-1], out=out)
    for coefficient in _LOGIT_OF_NORMAL[-2:0:-1]:
        np.subtract(out, coefficient, out=out)
        np.multiply(out, square, out=out)
    np.subtract(out, _LOGIT_OF_NORMAL[0], out=out)
    np.multiply(out, x, out=out)
    np.exp(out, out=out)
    return np.add(out, 1, out=out)


def gelu_divisor(x: Raw) -> Raw:
    """What gelu divides ``x`` by, for float32."""
    return _one_over_normal(x, np.empty_like(x))


def _normal(x: Raw, out: Raw) -> None:
    """The normal distribution function of float64."""
    from scipy.special import erf  # type: ignore[import-untyped]

    np.multiply(x, _HALF_ROOT, out=out)
    erf(out, out=out)
    np.add(out, 1, out=out)
    np.multiply(out, 0.5, out=out)


def _gelu(x: Raw, out: Raw) -> None:
    if x.dtype == np.float32:
        np.divide(x, _one_over_normal(x, out), out=out)
    else:
        _normal(x, out)
        np.multiply(out, x, out=out)


def _gelu_backward(g: Raw, x: Raw, out: Raw) -> None:
    if x.dtype == np.float32:
        gelu_backward_of(g, x, _one_over_normal(x, out), out)
    else:
        _normal(x, out)
        _add_slope(g, x, out)


def gelu_backward_of(g: Raw, x: Raw, divisor: Raw, out: Raw | None = None) -> Raw:
    """The gradient of gelu by what that divides ``x`` by, for float32."""
    out = np.divide(1, divisor, out=out)
    _add_slope(g, x, out)
    return out


def _add_slope(g: Raw, x: Raw, out: Raw) -> None:
    """The gradient of gelu, where ``out`` is the normal distribution function."""
    density = np.square(x, out=np.empty_like(x))
    np.multiply(density, -0.5, out=density)
    np.exp(density, out=density)
    np.multiply(density, _DENSITY_AT_0, out=density)
    np.multiply(density, x, out=density)
    np.add(out, density, out=out)
    np.multiply(out, g, out=out)


def _one_over_logistic(x: Raw, square: Raw, out: Raw) -> None:
    """``1 + exp(-2u)`` for what the approximation takes the tanh of."""
    np.multiply(square, -_TWO_BETA * _KAPPA, out=out)
    np.subtract(out, _TWO_BETA, out=out)
    np.multiply(out, x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)


def _gelu_tanh(x: Raw, out: Raw) -> None:
    _one_over_logistic(x, np.square(x), out)
    np.divide(x, out, out=out)


def _gelu_tanh_backward(g: Raw, x: Raw, out: Raw) -> None:
    square = np.square(x)
    _one_over_logistic(x, square, out)
    s = np.divide(1, out)
    np.multiply(square, 3 * _KAPPA * _TWO_BETA, out=out)
    np.add(out, _TWO_BETA, out=out)
    np.multiply(out, x, out=out)
    np.multiply(out, np.subtract(1, s), out=out)
    np.add(out, 1, out=out)
    np.multiply(out, s, out=out)
    np.multiply(out, g, out=out)


def gelu(x: Raw, approximate: str) -> Raw:
    """``x`` times the normal distribution function, or nearly."""
    return over_blocks(_gelu if approximate == "none" else _gelu_tanh, x)


def gelu_backward(g: Raw, x: Raw, approximate: str) -> Raw:
    return over_blocks(_gelu_backward if approximate == "none" else _gelu_tanh_backward, g, x)


# -- gates -----------------------------------------------------------------------------------


def halves(x: Raw, axis: int) -> tuple[Raw, Raw]:
    """The first and the second half along an axis, as views."""
    before, half = (slice(None),) * axis, x.shape[axis] // 2
    return x[(*before, slice(half))], x[(*before, slice(half, None))]


def glu(x: Raw, axis: int) -> Raw:
    """The first half times the sigmoid of the second."""
    first, second = halves(x, axis)

    def kernel(first: Raw, second: Raw, out: Raw) -> None:
        np.negative(second, out=out)
        np.exp(out, out=out)
        np.add(out, 1, out=out)
        np.divide(first, out, out=out)

    return over_blocks(kernel, first, np.ascontiguousarray(second))


def glu_backward(g: Raw, x: Raw, axis: int) -> Raw:
    first, second = halves(x, axis)
    out = np.empty(x.shape, x.dtype)
    first_out, second_out = halves(out, axis)
    s = over_blocks(_sigmoid, second)
    np.multiply(g, s, out=first_out)
    np.multiply(first_out, np.multiply(first, np.subtract(1, s)), out=second_out)
    return out


def _sigmoid(x: Raw, out: Raw) -> None:
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.divide(1, out, out=out)


# -- slopes that are drawn -------------------------------------------------------------------


def leaky_noise(x: Raw, lower: float, upper: float) -> Raw:
    """1 where ``x`` is positive; elsewhere, in reading order, numbers drawn between the bounds."""
    from retrograd.arrays import _random

    x = np.asarray(x)
    negative = x <= 0
    noise = np.ones(x.shape, x.dtype)
    noise[negative] = _random.uniform(int(negative.sum()), np.float64, None, lower, upper)
    return noise
