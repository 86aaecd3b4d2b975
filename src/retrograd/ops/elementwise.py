"""Elementwise operations: forward and partial derivatives side by side.

``g`` is the gradient of the result; a rule gives ``g`` times the partial derivative. Expressions
avoid Python numbers where a product of arrays will do: on small arrays NumPy takes as long to
convert a number as to multiply.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._operation import Elementwise, Selecting, constant, elementwise, multilinear

# -- arithmetic ------------------------------------------------------------------------------


def _add(self: Raw, other: Raw, alpha: Any = 1) -> Raw:
    return self + other if alpha == 1 else self + alpha * other


def _sub(self: Raw, other: Raw, alpha: Any = 1) -> Raw:
    return self - other if alpha == 1 else self - alpha * other


def _rsub(self: Raw, other: Any) -> Raw:
    return other - self


add = elementwise("add", arrays.add, lambda g: g, lambda g: g, dtypes="promote")
sub = elementwise("sub", arrays.subtract, lambda g: g, lambda g: -g, dtypes="promote")
add_scaled = elementwise(
    "add_scaled", _add, lambda g: g, lambda g, alpha: g * alpha, node="AddBackward0", dtypes="promote"
)
sub_scaled = elementwise(
    "sub_scaled", _sub, lambda g: g, lambda g, alpha: -g * alpha, node="SubBackward0", dtypes="promote"
)
rsub = elementwise("rsub", _rsub, lambda g: -g, node="RsubBackward1", dtypes="promote")
mul = multilinear(
    "mul", arrays.multiply,
    {"self": lambda g, other: g * other, "other": lambda g, self: g * self}, dtypes="promote",
    broadcasts=True,
)  # fmt: skip
div = elementwise(
    "div", arrays.true_divide,
    lambda g, other: g / other, lambda g, self, other: -g * ((self / other) / other), dtypes="float",
)  # fmt: skip
neg = elementwise("neg", arrays.negative, lambda g: -g)
reciprocal = elementwise(
    "reciprocal", lambda self: 1 / self, lambda g, result: -g * (result * result), dtypes="float"
)
remainder = elementwise(
    "remainder", arrays.remainder, lambda g: g, lambda g, self, other: -g * floor(self / other),
    dtypes="promote",
)  # fmt: skip
floor_divide = constant("floor_divide", arrays.floor_divide, ("self", "other"), dtypes="promote")

# -- powers ----------------------------------------------------------------------------------


def _pow_scalar_rule(g: Any, self: Any, exponent: Any) -> Any:
    if exponent == 0:
        return zeros_like(g)
    if exponent == 2:
        return (g + g) * self
    return g * (exponent * self ** (exponent - 1))


def _pow_exponent_rule(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    # 0 ** e is 0 for every e >= 0, so its slope in e is 0 there, where log(0) would say NaN.
    stays_zero = logical_and(eq(self, 0), ge(exponent, 0)) if not _is_complex(self) else eq(self, 0)
    return g * where(stays_zero, zeros_like(result), result * log(self))


def _pow_base_rule(g: Any, self: Any, exponent: Any) -> Any:
    slope = exponent * self ** (exponent - 1)
    return g * where(eq(exponent, 0), zeros_like(slope), slope)


def _pow_of_number_rule(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    if self == 0:
        return g * where(ge(exponent, 0), zeros_like(result), result * -float("inf"))
    return g * (result * arrays.log(arrays.asarray(self, dtype=_raw_dtype(result))))


def _is_complex(x: Any) -> bool:
    return getattr(x.dtype, "kind", None) == "c" or bool(getattr(x.dtype, "is_complex", False))


def _raw_dtype(x: Any) -> Any:
    return getattr(x.dtype, "numpy", x.dtype)


def _power(self: Raw, exponent: Any) -> Raw:
    return arrays.power(self, exponent)


pow_scalar = elementwise(
    "pow_scalar", _power, _pow_scalar_rule, node="PowBackward0", dtypes="promote"
)
pow_tensor = Elementwise(
    "pow_tensor", arrays.power, inputs=("self", "exponent"),
    rules={"self": _pow_base_rule, "exponent": _pow_exponent_rule},
    node="PowBackward1", dtypes="promote",
)  # fmt: skip
pow_of_number = Elementwise(
    "pow_of_number", lambda exponent, self: arrays.power(self, exponent), inputs=("exponent",),
    rules={"exponent": _pow_of_number_rule}, node="PowBackward2", dtypes="promote",
)  # fmt: skip
sqrt = elementwise("sqrt", arrays.sqrt, lambda g, result: g / (result + result), dtypes="float")
rsqrt = elementwise(
    "rsqrt", lambda self: 1 / arrays.sqrt(self),
    lambda g, result: -0.5 * g * (result * result * result), dtypes="float",
)  # fmt: skip

# -- exponentials and logarithms -------------------------------------------------------------

_LN2, _LN10 = 0.6931471805599453, 2.302585092994046

exp = elementwise("exp", arrays.exp, lambda g, result: g * result, dtypes="float")
exp2 = elementwise("exp2", arrays.exp2, lambda g, result: g * result * _LN2, dtypes="float")
expm1 = elementwise("expm1", arrays.expm1, lambda g, result: g * result + g, dtypes="float")
log = elementwise("log", arrays.log, lambda g, self: g / self, dtypes="float")
log2 = elementwise("log2", arrays.log2, lambda g, self: g / (self * _LN2), dtypes="float")
log10 = elementwise("log10", arrays.log10, lambda g, self: g / (self * _LN10), dtypes="float")
log1p = elementwise(
    "log1p", arrays.log1p, lambda g, self: g / (self + 1), node="Log1PBackward0", dtypes="float"
)

# -- trigonometry ----------------------------------------------------------------------------

sin = elementwise("sin", arrays.sin, lambda g, self: g * cos(self), dtypes="float")
cos = elementwise("cos", arrays.cos, lambda g, self: -g * sin(self), dtypes="float")
tan = elementwise("tan", arrays.tan, lambda g, result: g + g * (result * result), dtypes="float")
asin = elementwise(
    "asin", arrays.arcsin, lambda g, self: g * rsqrt(1 - self * self), dtypes="float"
)
acos = elementwise(
    "acos", arrays.arccos, lambda g, self: -g * rsqrt(1 - self * self), dtypes="float"
)
atan = elementwise("atan", arrays.arctan, lambda g, self: g / (self * self + 1), dtypes="float")
atan2 = elementwise(
    "atan2", arrays.arctan2,
    lambda g, self, other: g * (other / (self * self + other * other)),
    lambda g, self, other: -g * (self / (self * self + other * other)), dtypes="float",
)  # fmt: skip
sinh = elementwise("sinh", arrays.sinh, lambda g, self: g * cosh(self), dtypes="float")
cosh = elementwise("cosh", arrays.cosh, lambda g, self: g * sinh(self), dtypes="float")
tanh = elementwise("tanh", arrays.tanh, lambda g, result: g - g * (result * result), dtypes="float")
asinh = elementwise(
    "asinh", arrays.arcsinh, lambda g, self: g * rsqrt(self * self + 1), dtypes="float"
)
acosh = elementwise(
    "acosh", arrays.arccosh, lambda g, self: g * rsqrt(self * self - 1), dtypes="float"
)
atanh = elementwise("atanh", arrays.arctanh, lambda g, self: g / (1 - self * self), dtypes="float")

# -- activations -----------------------------------------------------------------------------

sigmoid = elementwise(
    "sigmoid", arrays.sigmoid, lambda g, result: g * (result - result * result), dtypes="float"
)
relu = elementwise("relu", arrays.relu, lambda g, result: where(le(result, 0), zeros_like(g), g))

# -- pieces: sign, rounding, choice ----------------------------------------------------------

sgn = elementwise(
    "sgn", arrays.sign,
    lambda g, self, result: (g - real(g * conj(result)) * result) / abs(self)
    if _is_complex(self) else zeros_like(g), adjoint=True,
)  # fmt: skip
abs = elementwise(
    "abs", arrays.absolute, lambda g, self: g * sgn(self), adjoint=True, dtypes="real"
)
sign = elementwise("sign", arrays.sign, lambda g: zeros_like(g))
floor = elementwise("floor", arrays.floor, lambda g: zeros_like(g))
ceil = elementwise("ceil", arrays.ceil, lambda g: zeros_like(g))
trunc = elementwise("trunc", arrays.trunc, lambda g: zeros_like(g))
round = elementwise("round", arrays.rint, lambda g: zeros_like(g))


def _share_of_extreme(g: Any, chosen: Any, mine: Any, theirs: Any) -> Any:
    """All of ``g`` where ``mine`` alone was chosen, half of it where both are equal."""
    tied = eq(mine, theirs)
    return where(tied, g / 2, where(chosen, g, zeros_like(g)))


maximum = elementwise(
    "maximum", arrays.maximum,
    lambda g, self, other: _share_of_extreme(g, gt(self, other), self, other),
    lambda g, self, other: _share_of_extreme(g, gt(other, self), other, self), dtypes="promote",
)  # fmt: skip
minimum = elementwise(
    "minimum", arrays.minimum,
    lambda g, self, other: _share_of_extreme(g, lt(self, other), self, other),
    lambda g, self, other: _share_of_extreme(g, lt(other, self), other, self), dtypes="promote",
)  # fmt: skip


def _within(x: Any, low: Any, high: Any) -> Any:
    if low is None:
        return le(x, high)
    return ge(x, low) if high is None else logical_and(ge(x, low), le(x, high))


def _clamp(self: Raw, min: Any = None, max: Any = None) -> Raw:
    return arrays.clip(self, min, max)


clamp = elementwise(
    "clamp", _clamp,
    lambda g, self, min, max: where(_within(self, min, max), g, zeros_like(g)),
    node="ClampBackward1", dtypes="promote",
)  # fmt: skip
where = Selecting(
    "where", arrays.where, inputs=("condition", "self", "other"),
    rules={
        "self": lambda g, condition: where(condition, g, zeros_like(g)),
        "other": lambda g, condition: where(condition, zeros_like(g), g),
    }, dtypes="where", broadcasts=True,
)  # fmt: skip
masked_fill = Selecting(
    "masked_fill", lambda self, mask, value: arrays.where(mask, value, self),
    inputs=("self", "mask", "value"),
    rules={
        "self": lambda g, mask: where(mask, zeros_like(g), g),
        "value": lambda g, mask: where(mask, g, zeros_like(g)),
    }, dtypes="first", broadcasts=True,
)  # fmt: skip

# -- complex parts ---------------------------------------------------------------------------

conj = elementwise(
    "conj", arrays.conj, lambda g: conj(g), adjoint=True, node="ConjBackward0"
)
real = elementwise("real", arrays.real, lambda g: g, adjoint=True, dtypes="real")
imag = elementwise("imag", arrays.imag, lambda g: g * 1j, adjoint=True, dtypes="real")

# -- copies ----------------------------------------------------------------------------------

clone = elementwise("clone", arrays.copy, lambda g: g)
zeros_like = constant("zeros_like", lambda self: arrays.zeros_like(self))


def _cast(self: Raw, dtype: Any) -> Raw:
    return arrays.cast(self, dtype)


to_dtype = elementwise(
    "to_dtype", _cast, lambda g: g, node="ToCopyBackward0", adjoint=True, dtypes="free"
)

copy = Elementwise(
    "copy", lambda self, src: arrays.cast(arrays.asarray(src), self.dtype), inputs=("self", "src"),
    rules={"self": lambda g: zeros_like(g), "src": lambda g: g},
    dtypes="free", adjoint=True, node="CopyBackwards",
)  # fmt: skip
fill = Elementwise(
    "fill", lambda self, value: arrays.cast(arrays.asarray(value), self.dtype),
    inputs=("self", "value"), rules={"self": lambda g: zeros_like(g), "value": lambda g: g},
    dtypes="free", adjoint=True, node="FillBackward1",
)  # fmt: skip
zero = elementwise("zero", lambda self: arrays.zeros_like(self), lambda g: zeros_like(g))

# -- comparisons and logic: constant wherever they have a derivative at all ------------------

_PAIR = ("self", "other")
eq = constant("eq", arrays.equal, _PAIR, dtypes="promote")
ne = constant("ne", arrays.not_equal, _PAIR, dtypes="promote")
lt = constant("lt", arrays.less, _PAIR, dtypes="promote")
le = constant("le", arrays.less_equal, _PAIR, dtypes="promote")
gt = constant("gt", arrays.greater, _PAIR, dtypes="promote")
ge = constant("ge", arrays.greater_equal, _PAIR, dtypes="promote")
logical_and = constant("logical_and", arrays.logical_and, _PAIR)
logical_or = constant("logical_or", arrays.logical_or, _PAIR)
logical_xor = constant("logical_xor", arrays.logical_xor, _PAIR)
logical_not = constant("logical_not", arrays.logical_not)
bitwise_and = constant("bitwise_and", arrays.bitwise_and, _PAIR, dtypes="promote")
bitwise_or = constant("bitwise_or", arrays.bitwise_or, _PAIR, dtypes="promote")
bitwise_xor = constant("bitwise_xor", arrays.bitwise_xor, _PAIR, dtypes="promote")
bitwise_not = constant("bitwise_not", arrays.bitwise_not)
isnan = constant("isnan", arrays.isnan)
isinf = constant("isinf", arrays.isinf)
isfinite = constant("isfinite", arrays.isfinite)
