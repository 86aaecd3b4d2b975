"""Lowerings of elementwise operations."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from retrograd.compiler._program import Line
from retrograd.compiler.xla._table import lowering, lowerings, trust

# -- arithmetic ------------------------------------------------------------------------------


def _number(x: Any, like: Any) -> Any:
    """A number in the dtype of the array that it is combined with. Integers wrap around."""
    if isinstance(x, int) and not isinstance(x, bool) and like.dtype.kind in "iu":
        bits = 8 * like.dtype.itemsize
        x &= (1 << bits) - 1
        if like.dtype.kind == "i" and x >> (bits - 1):
            x -= 1 << bits
        return jnp.asarray(x, like.dtype)
    return x


def _factor(alpha: Any, x: Any) -> Any:
    """A number to multiply an array by. For an array of bool, it is converted to bool."""
    return bool(alpha) if x.dtype.kind == "b" else _number(alpha, x)


def _wide(*values: Any) -> list[Any]:
    """Values with bool converted to integers, which can be subtracted."""
    return [x.astype("int8") if x.dtype.kind == "b" else x for x in values]


def _divided(x: Any, y: Any) -> Any:
    return jnp.true_divide(x, y)


def _whole_power(x: Any, y: Any) -> Any:
    """Powers of integers by repeated squaring. JAX uses only six bits of the exponent."""
    x = x.astype(jnp.promote_types(x.dtype, y.dtype))

    def squared(state: Any) -> Any:
        power, x, y = state
        return jnp.where(y % 2 == 1, power * x, power), x * x, y // 2

    return lax.while_loop(lambda state: jnp.any(state[2] > 0), squared, (jnp.ones_like(x), x, y))[0]


def _power(x: Any, y: Any) -> Any:
    x, y = jnp.asarray(x), jnp.asarray(y)
    if x.dtype.kind in "iub" and y.dtype.kind in "iub":
        whole = _whole_power(*jnp.broadcast_arrays(x, jnp.maximum(y, 0)))
        if y.dtype.kind == "u":
            return whole
        inverse = jnp.where(x == 1, 1, jnp.where(x == -1, 1 - 2 * (jnp.abs(y) % 2), 0))
        return jnp.where(y < 0, inverse, whole)
    result = jnp.power(x, y)
    if result.dtype.kind == "c":  # XLA computes it by a logarithm, which fails for zero
        result = jnp.where((x == 0) & (y.real > 0), 0, jnp.where(y == 0, 1, result))
    return result


@lowering("pow_scalar")
def _pow_scalar(x: Any, exponent: Any) -> Any:
    if x.dtype == bool:
        return jnp.logical_or(x, not exponent)
    if exponent == -0.5:
        return 1 / jnp.sqrt(x)
    if isinstance(exponent, float) and exponent.is_integer() and abs(exponent) < 64:
        exponent = int(exponent)
    if isinstance(exponent, int) and x.dtype.kind in "fc":
        return lax.integer_pow(x, exponent)
    return _power(x, exponent)


lowerings(
    add=lambda x, y: x + y,
    sub=lambda x, y: x - y,
    mul=lambda x, y: x * y,
    div=_divided,
    neg=lambda x: -x,
    add_scaled=lambda x, y, alpha: x + _factor(alpha, x) * y,
    sub_scaled=lambda x, y, alpha: x - _number(alpha, x) * y,
    rsub=lambda x, other: _number(other, x) - x,
    rsub_number=lambda x, other, alpha: _number(other, x) - _number(alpha, x) * x,
    rsub_tensor=lambda x, other, alpha: other - _number(alpha, x) * x,
    reciprocal=lambda x: 1 / x,
    pow_tensor=_power,
    pow_of_number=lambda exponent, self: _power(_number(self, exponent), exponent),
    plus_number=lambda x, number: x + number,
    minus_number=lambda x, number: x + number,
    times_number=lambda x, number: x * number,
    over_number=lambda x, number: x / number,
    addcmul=lambda x, y, z, value: x + value * (y * z),
    addcdiv=lambda x, y, z, value: x + value * y / z,
    bounded=lambda x, limit: jnp.clip(x, -limit, limit),
    at_least=lambda x, least: jnp.maximum(x, least),
    frac=lambda x: x - jnp.trunc(x),
    deg2rad=lambda x: x * (math.pi / 180),
    rad2deg=lambda x: x * (180 / math.pi),
    hypot=jnp.hypot,
    ldexp=lambda x, y: x * jnp.exp2(y),
    clone=lambda x: x,
    conj_in_place=jnp.conj,
    conj_physical=jnp.conj,
    conj=jnp.conj,
    conj_of_half=jnp.conj,
    nextafter=jnp.nextafter,
)


@lowering("lerp", "lerp_number")
def _lerp(start: Any, end: Any, weight: Any) -> Any:
    difference = end - start
    near_end = end - (1 - weight) * difference
    return jnp.where(jnp.abs(weight) < 0.5, start + weight * difference, near_end)


@lowering("ldexp_whole")
def _ldexp_whole(x: Any, exponent: Any) -> Any:
    return jnp.ldexp(x, jnp.clip(exponent.astype("int64"), -5000, 5000).astype("int32"))


@lowering("frexp_exponent")
def _frexp_exponent(x: Any) -> Any:
    return jnp.frexp(x)[1]


# -- rounding and dividing -------------------------------------------------------------------


def _of_floats(function: Any) -> Any:
    return lambda x: function(x) if x.dtype.kind == "f" else x


def _divisor(x: Any, y: Any) -> Any:
    """A divisor. If it is an integer, zero is an error, which NumPy raises."""
    y = jnp.asarray(_number(y, x))
    if x.dtype.kind in "iu" and y.dtype.kind in "iub":
        trust(y != 0)
    return y


def _remainder(x: Any, y: Any) -> Any:
    return jnp.remainder(x, _divisor(x, y))


def _fmod(x: Any, y: Any) -> Any:
    return jnp.fmod(x, _divisor(x, y))


def _floor_divide(x: Any, y: Any) -> Any:
    y = _divisor(x, y)
    if x.dtype.kind != "f":
        return jnp.floor_divide(x, y)
    # NumPy's algorithm, which uses the remainder, because that is exact.
    rest = jnp.fmod(x, y)
    quotient = (x - rest) / y
    quotient = jnp.where((rest != 0) & ((y < 0) != (rest < 0)), quotient - 1, quotient)
    whole = jnp.floor(quotient)
    whole = jnp.where(quotient - whole > 0.5, whole + 1, whole)
    signed_zero = jnp.copysign(jnp.zeros_like(whole), x / y)
    return jnp.where(y == 0, x / y, jnp.where(quotient != 0, whole, signed_zero))


def _trunc_divide(x: Any, y: Any) -> Any:
    if x.dtype.kind == "f":
        return jnp.trunc(x / y)
    return lax.div(*jnp.broadcast_arrays(x, _divisor(x, y).astype(x.dtype)))


@lowering("div_rounded")
def _div_rounded(x: Any, y: Any, rounding_mode: str) -> Any:
    x, y = jnp.broadcast_arrays(x, jnp.asarray(y))
    return _floor_divide(x, y) if rounding_mode == "floor" else _trunc_divide(x, y)


@lowering("round_decimals")
def _round_decimals(x: Any, decimals: int) -> Any:
    scale = 10.0 ** abs(decimals)
    if decimals < 0:
        return jnp.rint(x / scale) * scale
    return jnp.rint(x * scale) / scale if decimals else jnp.rint(x)


lowerings(
    floor=_of_floats(jnp.floor),
    ceil=_of_floats(jnp.ceil),
    trunc=_of_floats(jnp.trunc),
    round=_of_floats(jnp.rint),
    remainder=_remainder,
    remainder_number=lambda x, other: _remainder(x, other),
    floor_divide=_floor_divide,
    floor_divide_number=lambda x, other: _floor_divide(x, other),
    fmod=_fmod,
    fmod_number=lambda x, other: _fmod(x, other),
)

# -- exponentials, angles --------------------------------------------------------------------

lowerings(
    sqrt=jnp.sqrt,
    rsqrt=lambda x: 1 / jnp.sqrt(x),
    exp=jnp.exp,
    exp2=jnp.exp2,
    expm1=jnp.expm1,
    log=jnp.log,
    log2=jnp.log2,
    log10=jnp.log10,
    log1p=jnp.log1p,
    sin=jnp.sin,
    cos=jnp.cos,
    tan=jnp.tan,
    asin=jnp.arcsin,
    acos=jnp.arccos,
    atan=jnp.arctan,
    atan2=jnp.arctan2,
    sinh=jnp.sinh,
    cosh=jnp.cosh,
    tanh=jnp.tanh,
    asinh=jnp.arcsinh,
    acosh=jnp.arccosh,
    atanh=jnp.arctanh,
    sigmoid=lambda x: 1 / (1 + jnp.exp(-x)) if x.dtype.kind == "c" else jax.nn.sigmoid(x),
    logaddexp2=jnp.logaddexp2,
    sinc=jnp.sinc,
)


@lowering("logaddexp")
def _logaddexp(x: Any, y: Any) -> Any:
    if x.dtype.kind != "c":
        return jnp.logaddexp(x, y)
    first = x.real < y.real
    low, high = jnp.where(first, x, y), jnp.where(first, y, x)
    both = ~jnp.isfinite(low.real) & (low.real == high.real)
    alike = jnp.where(low.real < 0, low, jnp.log(jnp.exp(low) + jnp.exp(high)))
    return jnp.where(both, alike, high + jnp.log1p(jnp.exp(low - high)))


# -- signs, parts of complex numbers ---------------------------------------------------------


@lowering("sgn", "sign")
def _sgn(x: Any) -> Any:
    if x.dtype == bool:
        return x
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.sign(x)
    return jnp.where(x > 0, 1, jnp.where(x < 0, -1, 0)).astype(x.dtype)  # 0 for -0.0 and NaN


@lowering("angle")
def _angle(x: Any) -> Any:
    if x.dtype.kind == "c":
        return jnp.arctan2(x.imag, x.real)
    result = jnp.where(x < 0, math.pi, 0.0)
    return jnp.where(jnp.isnan(x), x, result) if x.dtype.kind == "f" else result


def _copysign(x: Any, y: Any) -> Any:
    return jnp.copysign(x, jnp.asarray(y, x.dtype))


lowerings(
    abs=jnp.abs,
    real=jnp.real,
    imag=jnp.imag,
    polar=lambda abs, angle: lax.complex(abs * jnp.cos(angle), abs * jnp.sin(angle)),
    copysign=_copysign,
    copysign_number=lambda x, other: _copysign(x, other),
    signbit=lambda x: jnp.signbit(x) if x.dtype.kind == "f" else x < 0,
    heaviside=lambda x, values: jnp.where(x == 0, values, (x > 0).astype(x.dtype)),
)


@lowering("complex")
def _complex(real: Any, imag: Any) -> Any:
    return lax.complex(*jnp.broadcast_arrays(real, imag))


# -- choosing --------------------------------------------------------------------------------


def _clip(x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = jnp.maximum(jnp.asarray(_number(low, x)).astype(x.dtype), x)
    if high is not None:
        x = jnp.minimum(jnp.asarray(_number(high, x)).astype(x.dtype), x)
    return x


@lowering("nan_to_num")
def _nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if x.dtype.kind not in "fc":
        return x
    return jnp.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


@lowering("fmax")
def _fmax(x: Any, y: Any) -> Any:
    return jnp.fmax(x, y)


lowerings(
    fmin=jnp.fmin,
    maximum=jnp.maximum,
    minimum=jnp.minimum,
    clamp=lambda x, min=None, max=None: _clip(x, min, max),
    clamp_tensor=lambda x, min, max: _clip(x, min, max),
    clamp_min=lambda x, min: _clip(x, min, None),
    clamp_max=lambda x, max: _clip(x, None, max),
    clamp_min_tensor=lambda x, min: jnp.maximum(min, x),
    clamp_max_tensor=lambda x, max: jnp.minimum(max, x),
    where=lambda condition, x, y: jnp.where(condition, x, y),
    masked_fill_number=lambda x, mask, value: jnp.where(
        mask, jnp.asarray(_number(value, x), x.dtype), x
    ),
)

# -- comparing, logic, bits ------------------------------------------------------------------


@lowering("isclose")
def _isclose(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    close = x == y
    if equal_nan and x.dtype.kind in "fc":
        close = close | (jnp.isnan(x) & jnp.isnan(y))
    x, y = _wide(x, y)
    distance = jnp.abs(x - y)
    return close | (jnp.isfinite(distance) & (distance <= atol + jnp.abs(rtol * y)))


@lowering("isin")
def _isin(x: Any, test_elements: Any, invert: bool) -> Any:
    return jnp.isin(x, test_elements, invert=invert)


@lowering("bitwise_left_shift")
def _left_shift(x: Any, bits: Any) -> Any:
    fits = (bits >= 0) & (bits < 8 * x.dtype.itemsize)
    return jnp.where(fits, jnp.left_shift(x, jnp.where(fits, bits, 0)), 0)


@lowering("bitwise_right_shift")
def _right_shift(x: Any, bits: Any) -> Any:
    most = 8 * x.dtype.itemsize - 1
    far = (bits < 0) | (bits > most)
    shifted = jnp.right_shift(x, jnp.where(far, most, bits))
    return shifted if x.dtype.kind == "i" else jnp.where(far, 0, shifted)


def _infinite(x: Any, sign: int) -> Any:
    if x.dtype.kind != "f":
        return jnp.zeros(x.shape, bool)
    return jnp.isposinf(x) if sign > 0 else jnp.isneginf(x)


lowerings(
    eq=jnp.equal,
    ne=jnp.not_equal,
    lt=jnp.less,
    le=jnp.less_equal,
    gt=jnp.greater,
    ge=jnp.greater_equal,
    logical_and=jnp.logical_and,
    logical_or=jnp.logical_or,
    logical_xor=jnp.logical_xor,
    logical_not=jnp.logical_not,
    bitwise_and=jnp.bitwise_and,
    bitwise_or=jnp.bitwise_or,
    bitwise_xor=jnp.bitwise_xor,
    bitwise_not=jnp.invert,
    isnan=jnp.isnan,
    isinf=jnp.isinf,
    isfinite=jnp.isfinite,
    isposinf=lambda x: _infinite(x, 1),
    isneginf=lambda x: _infinite(x, -1),
    isreal=lambda x: x.imag == 0 if x.dtype.kind == "c" else jnp.ones(x.shape, bool),
    gcd=jnp.gcd,
    lcm=jnp.lcm,
)

# -- making and converting -------------------------------------------------------------------


@lowering("to_dtype")
def to_dtype(x: Any, dtype: Any) -> Any:
    if x.dtype.kind == "b" and dtype.kind in "fc":
        # XLA rewrites the product with a converted bool as a selection, so that 0 * NaN is 0. It
        # does not do so if the conversion itself is a selection.
        return jnp.where(x, jnp.ones((), dtype), jnp.zeros((), dtype))
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.itemsize < 8:
        return x.astype("int64").astype(dtype)  # so that values out of range wrap around
    return x.astype(dtype)


@lowering("copy")
def _copy(x: Any, source: Any, line: Line) -> Any:
    return jnp.broadcast_to(to_dtype(jnp.asarray(source), x.dtype), line.outputs[0].shape)


@lowering("fill", "fill_number", "fill_by_number", "fill_by_tensor")
def _fill(x: Any, value: Any, line: Line) -> Any:
    value = jnp.asarray(_number(value, x))
    return jnp.broadcast_to(to_dtype(value, x.dtype), line.outputs[0].shape)


lowerings(zeros_like=jnp.zeros_like, zero=jnp.zeros_like)

# -- activations -----------------------------------------------------------------------------


@lowering("threshold_backward")
def _where_positive(g: Any, x: Any) -> Any:
    return jnp.where(x <= 0, 0, g)


@lowering("gelu")
def _gelu(x: Any, approximate: str) -> Any:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@lowering("softplus")
def _softplus(x: Any, beta: float, threshold: float) -> Any:
    scaled = x * beta
    large = scaled > threshold
    return jnp.where(large, x, jnp.log1p(jnp.exp(jnp.where(large, 0, scaled))) / beta)


@lowering("elu")
def _elu(x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    below = jnp.expm1(jnp.minimum(x, 0) * input_scale) * (alpha * scale)
    return below + jnp.maximum(x, 0) * scale


@lowering("mish")
def _mish(x: Any) -> Any:
    e = jnp.exp(jnp.minimum(x, 20.0))
    n = e * (e + 2)
    return x * (n / (n + 2))


@lowering("leaky_relu")
def _leaky_relu(x: Any, negative_slope: float) -> Any:
    return jnp.where(x > 0, x, x * negative_slope)


def _hard(x: Any) -> Any:
    return jnp.clip(x + 3, 0, 6)


lowerings(
    relu=lambda x: jnp.maximum(x, 0),
    threshold=lambda x, threshold, value: jnp.where(
        x <= _number(threshold, x), jnp.asarray(value).astype(x.dtype), x
    ),
    hardtanh=lambda x, min_val, max_val: _clip(x, min_val, max_val),
    hardswish=lambda x: x * _hard(x) / 6,
    hardsigmoid=lambda x: _hard(x) / 6,
    hardsigmoid_backward=lambda g, x: jnp.where(jnp.abs(x) < 3, g / 6, 0),
    softshrink=lambda x, lambd: x - jnp.clip(x, -lambd, lambd),
    hardshrink=lambda x, lambd: jnp.where(jnp.abs(x) <= lambd, 0, x),
    silu=lambda x: x * jax.nn.sigmoid(x),
    prelu=lambda x, weight: jnp.where(x > 0, x, weight * x),
)


@lowering("binary_cross_entropy_losses")
def _bce_losses(x: Any, target: Any) -> Any:
    for y in (x, target):
        trust((y >= 0) & (y <= 1))
    losses = (target - 1) * jnp.maximum(jnp.log1p(-x), -100)
    return losses - target * jnp.maximum(jnp.log(x), -100)
