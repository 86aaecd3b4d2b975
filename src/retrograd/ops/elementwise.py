"""Elementwise operations: forward and partial derivatives side by side.

``g`` is the gradient of the result; a rule gives ``g`` times the partial derivative. Expressions
avoid Python numbers where a product of arrays will do: on small arrays NumPy takes as long to
convert a number as to multiply.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._arguments import element, factor, operand
from retrograd.ops._dims import broadcast
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import (
    Constant,
    Elementwise,
    Linear,
    TensorLike,
    asking,
    composite,
    constant,
    elementwise,
    hidden,
    linear,
    multilinear,
    raw,
)
from retrograd.ops._refusals import (
    both,
    c_name,
    kernel,
    no_bool_subtraction,
    refuses,
)

# -- arithmetic ------------------------------------------------------------------------------


def _add(self: Raw, other: Raw, alpha: Any = 1) -> Raw:
    return self + factor(self.dtype, alpha) * other


def _sub(self: Raw, other: Raw, alpha: Any = 1) -> Raw:
    return self - factor(self.dtype, alpha) * other


def _rsub(self: Raw, other: Any) -> Raw:
    try:
        return other - self
    except OverflowError:  # NumPy's word for a number that a narrow integer does not hold
        return arrays.wrapped(other, self.dtype) - self


add = elementwise(
    "add", arrays.add, lambda g: g, lambda g: g, dtypes="promote",
    words="A sum passes the gradient to both inputs unchanged.",
    doc="""The elementwise sum, ``input + alpha * other``.

    Args:
        input: the first operand, a tensor.
        other: the second operand, a tensor or a number, broadcast with ``input``.
        alpha: number to multiply ``other`` by.

    Returns:
        A tensor of the shape that ``input`` and ``other`` broadcast to.

    Example:
        >>> import retrograd as torch
        >>> torch.add(torch.tensor([1., 2.]), torch.tensor([10., 20.]))
        tensor([11., 22.])
    """,
)  # fmt: skip
sub = elementwise(
    "sub", arrays.subtract, lambda g: g, lambda g: -g, dtypes="promote", check=no_bool_subtraction,
    words="A difference passes the gradient on: unchanged to the first, negated to the second.",
    doc="""The elementwise difference, ``input - alpha * other``.

    Args:
        input: the first operand, a tensor.
        other: the second operand, a tensor or a number, broadcast with ``input``.
        alpha: number to multiply ``other`` by.

    Returns:
        A tensor of the shape that ``input`` and ``other`` broadcast to.

    Example:
        >>> import retrograd as torch
        >>> torch.sub(torch.tensor([1., 2.]), torch.tensor([10., 20.]))
        tensor([ -9., -18.])
    """,
)  # fmt: skip
add_scaled = elementwise(
    "add_scaled", _add, lambda g: g, lambda g, alpha: g * alpha,
    node="AddBackward0", dtypes="promote",
    words="A sum passes the gradient on: unchanged to the first, times alpha to the second.",
)  # fmt: skip
sub_scaled = elementwise(
    "sub_scaled", _sub, lambda g: g, lambda g, alpha: -g * alpha,
    node="SubBackward0", dtypes="promote", check=no_bool_subtraction,
    words="A difference passes the gradient on; the second input gets it times −alpha.",
)  # fmt: skip
rsub = elementwise(
    "rsub", _rsub, lambda g: -g, node="RsubBackward1", dtypes="promote",
    check=no_bool_subtraction,
    words="The input is subtracted: it gets the gradient negated.",
)  # fmt: skip
mul = multilinear(
    "mul", arrays.multiply,
    {"self": lambda g, other: g * other, "other": lambda g, self: g * self}, dtypes="promote",
    broadcasts=True,
    public="torch method", alias="multiply", in_place=True,
    words="Each input gets the incoming gradient times the other input.",
    doc="""The elementwise product, ``input * other``.

    >>> import retrograd as torch
    >>> torch.mul(torch.tensor([1., 2.]), torch.tensor([10., 20.]))
    tensor([10., 40.])
    """,
)  # fmt: skip


def _div_tangent(t: Any, other: Any, result: Any) -> Any:
    """The rule of quotients, which unlike a sum of two slopes has a sign where ``other`` is 0."""
    upper, lower = t
    if lower is None:
        return upper / other
    return (-lower * result if upper is None else upper - lower * result) / other


div = elementwise(
    "div", arrays.true_divide,
    lambda g, other: g / other, lambda g, self, other: -g * ((self / other) / other),
    jvp=_div_tangent, dtypes="float",
    reason="the quotient rule has a sign where the divisor is zero; a sum of slopes is NaN there",
    words="The numerator gets the gradient divided by the denominator; the denominator gets it "
          "times −self/other².",
)  # fmt: skip
neg = elementwise(
    "neg", arrays.negative, lambda g: -g,
    public="torch method", alias="negative", in_place="torch method",
    words="The gradient is negated.",
    doc="""The negative of each element.

    >>> import retrograd as torch
    >>> torch.neg(torch.tensor([1., -2.]))
    tensor([-1.,  2.])
    """,
)  # fmt: skip
reciprocal = elementwise(
    "reciprocal", lambda self: 1 / self, lambda g, result: -g * (result * result), dtypes="float",
    public="torch method", in_place="torch method",
    doc="""The reciprocal of each element, ``1 / input``.

    >>> import retrograd as torch
    >>> torch.reciprocal(torch.tensor([2., 4.]))
    tensor([0.5000, 0.2500])
    """,
)  # fmt: skip

# -- powers ----------------------------------------------------------------------------------


def _pow_scalar_rule(g: Any, self: Any, exponent: Any) -> Any:
    if exponent == 0:
        return zeros_like(g)
    if exponent == 2:
        return (g + g) * self
    return g * (exponent * pow_scalar(self, exponent=exponent - 1))


def _pow_base_rule(g: Any, self: Any, exponent: Any) -> Any:
    slope = g * (exponent * self ** (exponent - 1))
    flat = eq(exponent, 0)
    if isinstance(slope, TensorLike) or hidden(slope):  # which still depends on the exponent
        flat = logical_and(flat, logical_or(eq(self, 0), ne(self, self)))
    return where(flat, zeros_like(slope), slope)


def _pow_exponent_rule(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    # 0 ** e is 0 for every e > 0, so its slope in e is 0 there, where log(0) would say NaN.
    slope = result * log(self)
    return g * where(logical_and(eq(self, 0), _not_negative(exponent)), zeros_like(slope), slope)


def _pow_of_number_rule(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    slope = result * arrays.log(arrays.asarray(self, dtype=raw(result).dtype))
    if self != 0:
        return g * slope
    return g * where(_not_negative(exponent), zeros_like(slope), slope)


def _not_negative(x: Any) -> Any:
    return logical_and(ge(real(x), 0), eq(imag(x), 0)) if _is_complex(x) else ge(x, 0)


def _is_complex(x: Any) -> bool:
    return bool(raw(x).dtype.kind == "c")


def _power(self: Raw, exponent: Any) -> Raw:
    if self.dtype.kind == "b":
        return arrays.logical_or(self, not exponent)
    if exponent == -0.5:  # the slope of a root: as rsqrt, also at zeros of either sign
        return 1 / arrays.sqrt(self)
    if exponent in _PRODUCTS and self.dtype.itemsize > 2 and self.dtype.kind == "f":
        return _PRODUCTS[exponent](self)
    return arrays.power(self, exponent)


# NumPy has a short way for squares only; the next powers are hundreds of times faster as products.
_PRODUCTS: dict[float, Any] = {
    3: lambda x: x * x * x,
    4: lambda x: arrays.square(x * x),
    5: lambda x: arrays.square(x * x) * x,
    6: lambda x: arrays.square(x * x * x),
    -1: lambda x: 1 / x,
    -2: lambda x: 1 / (x * x),
    -3: lambda x: 1 / (x * x * x),
}


def _check_power(self: Raw, exponent: Any) -> None:
    if self.dtype.kind in "biu" and isinstance(exponent, int) and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if self.dtype.kind in "iu" and isinstance(exponent, int):
        arrays.as_value(exponent, self.dtype)


def _check_power_of_number(exponent: Raw, self: Any) -> None:
    kernel("pow", "b")(self, exponent)


pow_scalar = elementwise(
    "pow_scalar", _power, _pow_scalar_rule, node="PowBackward0", dtypes="promote",
    check=_check_power,
    words="The derivative of a power is exponent · self^(exponent − 1).",
)  # fmt: skip
pow_tensor = Elementwise(
    "pow_tensor", arrays.power, inputs=("self", "exponent"),
    rules={"self": _pow_base_rule, "exponent": _pow_exponent_rule},
    node="PowBackward1", dtypes="promote", check=kernel("pow", "b"),
    words="The base gets the derivative of a power, the exponent that of an exponential: the "
          "result times the logarithm of the base.",
)  # fmt: skip
pow_of_number = Elementwise(
    "pow_of_number", lambda exponent, self: arrays.power(operand(self, exponent.dtype), exponent),
    inputs=("exponent",),
    rules={"exponent": _pow_of_number_rule}, node="PowBackward2", dtypes="promote",
    check=_check_power_of_number,
    words="The derivative of an exponential is its result times the logarithm of the base.",
)  # fmt: skip


def power_of_number(base: Any, exponent: Any) -> Any:
    """``base ** exponent`` of a number. Beside a complex exponent it is a complex number: reverse
    mode then conjugates it, and takes the logarithm of a negative base from the other side of the
    cut, as it must."""
    return pow_of_number(exponent, self=complex(base) if _is_complex(exponent) else base)


sqrt = elementwise(
    "sqrt", arrays.sqrt, lambda g, result: g / (result + result), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of a square root is one over twice the root.",
    doc="""The square root of each element.

    >>> import retrograd as torch
    >>> torch.sqrt(torch.tensor([4., 9.]))
    tensor([2., 3.])
    """,
)  # fmt: skip
rsqrt = elementwise(
    "rsqrt", lambda self: 1 / arrays.sqrt(self),
    lambda g, result: -0.5 * g * (result * result * result), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of one over the root: minus half its third power.",
    doc="""The reciprocal of the square root of each element, ``1 / sqrt(input)``.

    >>> import retrograd as torch
    >>> torch.rsqrt(torch.tensor([4., 16.]))
    tensor([0.5000, 0.2500])
    """,
)  # fmt: skip

# -- exponentials and logarithms -------------------------------------------------------------

_LN2, _LN10 = 0.6931471805599453, 2.302585092994046

exp = elementwise(
    "exp", arrays.exp, lambda g, result: g * result, dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of exp is its result: the gradient is multiplied by it.",
    doc="""The exponential of each element, ``e ** input``.

    >>> import retrograd as torch
    >>> torch.exp(torch.tensor([0., 1.]))
    tensor([1.0000, 2.7183])
    """,
)  # fmt: skip
exp2 = elementwise(
    "exp2", arrays.exp2, lambda g, result: g * result * _LN2, dtypes="float",
    public="torch method special", in_place="torch method", heavy=True,
    doc="""2 raised to the power of each element, ``2 ** input``.

    >>> import retrograd as torch
    >>> torch.exp2(torch.tensor([0., 3.]))
    tensor([1., 8.])
    """,
)  # fmt: skip
expm1 = elementwise(
    "expm1", arrays.expm1, lambda g, result: g * (result + 1), dtypes="float",
    public="torch method special", in_place="torch method", heavy=True,
    doc="""``exp(input) - 1``, accurate for small values, too.

    >>> import retrograd as torch
    >>> torch.expm1(torch.tensor([0., 1.]))
    tensor([0.0000, 1.7183])
    """,
)  # fmt: skip
log = elementwise(
    "log", arrays.log, lambda g, self: g / self, dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of the logarithm is one over the input: small inputs get large "
          "gradients.",
    doc="""The natural logarithm of each element.

    >>> import retrograd as torch
    >>> torch.log(torch.tensor([1., 10.]))
    tensor([0.0000, 2.3026])
    """,
)  # fmt: skip
log2 = elementwise(
    "log2", arrays.log2, lambda g, self: g / (self * _LN2), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    doc="""The logarithm to base 2 of each element.

    >>> import retrograd as torch
    >>> torch.log2(torch.tensor([1., 8.]))
    tensor([0., 3.])
    """,
)  # fmt: skip
log10 = elementwise(
    "log10", arrays.log10, lambda g, self: g / (self * _LN10), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    doc="""The logarithm to base 10 of each element.

    >>> import retrograd as torch
    >>> torch.log10(torch.tensor([1., 20.]))
    tensor([0.0000, 1.3010])
    """,
)  # fmt: skip
log1p = elementwise(
    "log1p", arrays.log1p, lambda g, self: g / (self + 1), node="Log1PBackward0", dtypes="float",
    public="torch method special", in_place="torch method", heavy=True,
    doc="""``log(1 + input)``, accurate for small values, too.

    >>> import retrograd as torch
    >>> torch.log1p(torch.tensor([0., 1.]))
    tensor([0.0000, 0.6931])
    """,
)  # fmt: skip

# -- trigonometry ----------------------------------------------------------------------------

sin = elementwise(
    "sin", arrays.sin, lambda g, self: g * cos(self), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of the sine is the cosine.",
    doc="""The sine of each element.

    >>> import retrograd as torch
    >>> torch.sin(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8415])
    """,
)  # fmt: skip
cos: Elementwise = elementwise(
    "cos", arrays.cos, lambda g, self: -g * sin(self), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of the cosine is minus the sine.",
    doc="""The cosine of each element.

    >>> import retrograd as torch
    >>> torch.cos(torch.tensor([0., 1.]))
    tensor([1.0000, 0.5403])
    """,
)  # fmt: skip
tan = elementwise(
    "tan", arrays.tan, lambda g, result: g * (result * result + 1), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    doc="""The tangent of each element.

    >>> import retrograd as torch
    >>> torch.tan(torch.tensor([0., 1.]))
    tensor([0.0000, 1.5574])
    """,
)  # fmt: skip


def _arc(x: Any) -> Any:
    """The slope of the arc sine. On the cuts of complex ones the sign of a zero says which side is
    meant: it survives subtraction, as no product, and no sum with a number."""
    return rsqrt(-(x - 1)) * rsqrt(x - -1) if _is_complex(x) else rsqrt(1 - x * x)


asin = elementwise(
    "asin", arrays.arcsin, lambda g, self: g * _arc(self), dtypes="float",
    public="torch method", alias="arcsin", in_place="torch method",
    doc="""The arcsine of each element, in radians.

    >>> import retrograd as torch
    >>> torch.asin(torch.tensor([0., 1.]))
    tensor([0.0000, 1.5708])
    """,
)  # fmt: skip
acos = elementwise(
    "acos", arrays.arccos, lambda g, self: -g * _arc(self), dtypes="float",
    public="torch method", alias="arccos", in_place="torch method",
    doc="""The arccosine of each element, in radians.

    >>> import retrograd as torch
    >>> torch.acos(torch.tensor([0., 1.]))
    tensor([1.5708, 0.0000])
    """,
)  # fmt: skip
atan = elementwise(
    "atan", arrays.arctan, lambda g, self: g / (self * self + 1), dtypes="float",
    public="torch method", alias="arctan", in_place="torch method",
    doc="""The arctangent of each element, in radians.

    >>> import retrograd as torch
    >>> torch.atan(torch.tensor([0., 1.]))
    tensor([0.0000, 0.7854])
    """,
)  # fmt: skip


def _over_square(x: Any, self: Any, other: Any) -> Any:
    """``x`` over the squared distance from the origin; nothing at the origin itself."""
    square = self * self + other * other
    return where(eq(square, 0), zeros_like(square), x / square)


atan2 = elementwise(
    "atan2", arrays.arctan2,
    lambda g, self, other: g * _over_square(other, self, other),
    lambda g, self, other: -g * _over_square(self, self, other), dtypes="float",
    check=kernel("atan2_cpu"),
    public="torch method", alias="arctan2", in_place=True, accepts="tensors",
    doc="""The angle between the positive x axis and the point (``other``, ``input``), in radians.

    Args:
        input: the y coordinates, a tensor.
        other: the x coordinates, a tensor, broadcast with ``input``.

    Returns:
        A tensor of angles between -pi and pi.

    >>> import retrograd as torch
    >>> torch.atan2(torch.tensor([1., 1.]), torch.tensor([1., -1.]))
    tensor([0.7854, 2.3562])
    """,
)  # fmt: skip
sinh = elementwise(
    "sinh", arrays.sinh, lambda g, self: g * cosh(self), dtypes="float",
    public="torch method", in_place="torch method",
    doc="""The hyperbolic sine of each element.

    >>> import retrograd as torch
    >>> torch.sinh(torch.tensor([0., 1.]))
    tensor([0.0000, 1.1752])
    """,
)  # fmt: skip
cosh: Elementwise = elementwise(
    "cosh", arrays.cosh, lambda g, self: g * sinh(self), dtypes="float",
    public="torch method", in_place="torch method",
    doc="""The hyperbolic cosine of each element.

    >>> import retrograd as torch
    >>> torch.cosh(torch.tensor([0., 1.]))
    tensor([1.0000, 1.5431])
    """,
)  # fmt: skip
tanh = elementwise(
    "tanh", arrays.tanh, lambda g, result: g - g * (result * result), dtypes="float",
    public="torch method functional", in_place="torch method",
    words="The derivative of tanh is 1 − result²: near 1 in the middle, near 0 where it saturates.",
    doc="""The hyperbolic tangent of each element.

    >>> import retrograd as torch
    >>> torch.tanh(torch.tensor([0., 1.]))
    tensor([0.0000, 0.7616])
    """,
)  # fmt: skip
# Subtracting -1 keeps the sign of an imaginary part of zero, and so the side of the cut.
asinh = elementwise(
    "asinh", arrays.arcsinh, lambda g, self: g * rsqrt(self * self - -1), dtypes="float",
    public="torch method", alias="arcsinh", in_place="torch method",
    doc="""The inverse hyperbolic sine of each element.

    >>> import retrograd as torch
    >>> torch.asinh(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8814])
    """,
)  # fmt: skip


def _acosh_rule(g: Any, self: Any) -> Any:
    if _is_complex(self):  # where the root of the product may lie on the other branch
        return g * (rsqrt(self - 1) * rsqrt(self - -1))
    return g * rsqrt(self * self - 1)


acosh = elementwise(
    "acosh", arrays.arccosh, _acosh_rule, dtypes="float",
    public="torch method", alias="arccosh", in_place="torch method",
    doc="""The inverse hyperbolic cosine of each element.

    >>> import retrograd as torch
    >>> torch.acosh(torch.tensor([1., 2.]))
    tensor([0.0000, 1.3170])
    """,
)  # fmt: skip
atanh = elementwise(
    "atanh", arrays.arctanh, lambda g, self: g / (1 - self * self), dtypes="float",
    public="torch method", alias="arctanh", in_place="torch method",
    doc="""The inverse hyperbolic tangent of each element.

    >>> import retrograd as torch
    >>> torch.atanh(torch.tensor([0., 0.5]))
    tensor([0.0000, 0.5493])
    """,
)  # fmt: skip

# -- activations -----------------------------------------------------------------------------

sigmoid = elementwise(
    "sigmoid", arrays.sigmoid, lambda g, result: g * (result - result * result), dtypes="float",
    public="torch method special.expit functional", in_place="torch method", heavy=True,
    words="The derivative of the sigmoid is result · (1 − result): at most a quarter, and near 0 "
          "where it saturates.",
    doc="""The logistic sigmoid of each element, ``1 / (1 + exp(-input))``.

    >>> import retrograd as torch
    >>> torch.sigmoid(torch.tensor([0., 1.]))
    tensor([0.5000, 0.7311])
    """,
)  # fmt: skip
# The rule of relu, as an operation: zero wherever the result is, also in its own derivatives.
threshold_backward: Elementwise = elementwise(
    "threshold_backward", arrays.where_positive,
    lambda g, other: threshold_backward(g, other), lambda g: zeros_like(g),
    node="ThresholdBackwardBackward0",
)  # fmt: skip
relu = elementwise(
    "relu", arrays.relu, lambda g, result: threshold_backward(g, result),
    check=both(refuses("b", "Boolean inputs not supported for relu", RuntimeError),
               refuses("c", "clamp is not supported for complex types")),
    public="torch method", in_place="torch method", out="no",
    words="Where the result is positive the gradient passes unchanged; elsewhere it is zero.",
    doc="""The rectified linear unit, ``max(input, 0)``, of each element.

    >>> import retrograd as torch
    >>> torch.relu(torch.tensor([-1., 2.]))
    tensor([0., 2.])
    """,
)  # fmt: skip

# -- pieces: sign, rounding, choice ----------------------------------------------------------


def _sgn_rule(g: Any, self: Any, result: Any) -> Any:
    if not _is_complex(self):
        return zeros_like(g)
    size = abs(self)
    turned = (g - real(g * conj(result)) * result) / size
    return where(eq(size, 0), zeros_like(turned), turned)


def _rounding(name: str, forward: Any, complexes: str, **face: Any) -> Elementwise:
    """Steps: flat wherever they have a derivative at all."""
    check = both(kernel(f"{name}_vml_cpu", "b"), refuses("c", complexes))
    return elementwise(name, forward, lambda g: zeros_like(g), check=check, **face)


sgn = elementwise(
    "sgn", arrays.sgn, _sgn_rule, adjoint=True,
    public="torch method", in_place=True,
    doc="""The sign of each element; of a complex number z, ``z / abs(z)``, and 0 for 0.

    >>> import retrograd as torch
    >>> torch.sgn(torch.tensor([3 + 4j, 0j]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """,
)  # fmt: skip
abs = elementwise(
    "abs", arrays.absolute, lambda g, self: g * sgn(self), adjoint=True,
    check=kernel("abs_cpu", "b"),
    public="torch method", alias="absolute", out="computed, or complex",
    words="The gradient passes where the input is positive, and is negated where it is negative; "
          "at zero it is zero.",
    doc="""The absolute value of each element.

    >>> import retrograd as torch
    >>> torch.abs(torch.tensor([-1., 2.]))
    tensor([1., 2.])
    """,
)  # fmt: skip
sign = elementwise(
    "sign", arrays.sgn, lambda g: zeros_like(g),
    check=refuses("c", "Unlike NumPy, torch.sign is not intended to support complex numbers. "
                       "Please use torch.sgn instead."),
    public="torch method", in_place=True,
    doc="""The sign of each element: -1, 0 or 1.

    >>> import retrograd as torch
    >>> torch.sign(torch.tensor([-3., 0., 2.]))
    tensor([-1.,  0.,  1.])
    """,
)  # fmt: skip
floor = _rounding(
    "floor", arrays.floor, "floor is not supported for complex inputs",
    public="torch method", in_place="torch method",
    doc="""The largest integer that is less than or equal to each element.

    >>> import retrograd as torch
    >>> torch.floor(torch.tensor([1.5, -1.5]))
    tensor([ 1., -2.])
    """,
)  # fmt: skip
ceil = _rounding(
    "ceil", arrays.ceil, "ceil is not supported for complex inputs",
    public="torch method", in_place="torch method",
    doc="""The smallest integer that is greater than or equal to each element.

    >>> import retrograd as torch
    >>> torch.ceil(torch.tensor([1.5, -1.5]))
    tensor([ 2., -1.])
    """,
)  # fmt: skip
trunc = _rounding(
    "trunc", arrays.trunc, "trunc is not supported for complex inputs",
    public="torch method", alias="fix", in_place="torch method",
    doc="""The integer part of each element: rounding towards zero.

    >>> import retrograd as torch
    >>> torch.trunc(torch.tensor([1.5, -1.5]))
    tensor([ 1., -1.])
    """,
)  # fmt: skip
round = _rounding("round", arrays.rint, "\"round_vml_cpu\" not implemented for '{}'")


def _round_decimals(self: Raw, decimals: int) -> Raw:
    scale = 10.0 ** builtins.abs(decimals)
    if decimals < 0:
        return arrays.rint(self / scale) * scale
    return arrays.rint(self * scale) / scale if decimals else arrays.rint(self)


def _check_round_decimals(self: Raw, decimals: int) -> None:
    kernel("round_cpu" if decimals else "round_vml_cpu", "biuc")(self)


round_decimals = elementwise(
    "round_decimals", _round_decimals, lambda g: zeros_like(g), node="RoundBackward1",
    check=_check_round_decimals,
)  # fmt: skip


def _share_of_extreme(g: Any, self: Any, other: Any, lost: Any) -> Any:
    """All of ``g`` for what was chosen, half of it where both are equal. A NaN loses to nothing,
    and nothing to it, so both get all."""
    return where(lost, zeros_like(g), where(eq(self, other), g / 2, g))


# NumPy prefers the second of two zeros of different signs, PyTorch the first.
maximum = elementwise(
    "maximum", lambda self, other: arrays.maximum(other, self),
    lambda g, self, other: _share_of_extreme(g, self, other, lt(self, other)),
    lambda g, self, other: _share_of_extreme(g, self, other, gt(self, other)), dtypes="promote",
    check=refuses("c", "maximum not implemented for complex tensors.", RuntimeError),
    public="torch method", accepts="tensors",
    doc="""The elementwise maximum of two tensors; NaN if either element is NaN.

    >>> import retrograd as torch
    >>> torch.maximum(torch.tensor([1., 5.]), torch.tensor([3., 2.]))
    tensor([3., 5.])
    """,
    words="The gradient goes to the larger of the two; where they are equal each gets half.",
)  # fmt: skip
minimum = elementwise(
    "minimum", lambda self, other: arrays.minimum(other, self),
    lambda g, self, other: _share_of_extreme(g, self, other, gt(self, other)),
    lambda g, self, other: _share_of_extreme(g, self, other, lt(self, other)), dtypes="promote",
    check=refuses("c", "minimum not implemented for complex tensors.", RuntimeError),
    public="torch method", accepts="tensors",
    doc="""The elementwise minimum of two tensors; NaN if either element is NaN.

    >>> import retrograd as torch
    >>> torch.minimum(torch.tensor([1., 5.]), torch.tensor([3., 2.]))
    tensor([1., 2.])
    """,
    words="The gradient goes to the smaller of the two; where they are equal each gets half.",
)  # fmt: skip


def _within(x: Any, low: Any, high: Any) -> Any:
    if low is None:
        return le(x, high)
    return ge(x, low) if high is None else logical_and(ge(x, low), le(x, high))


def _clamp(self: Raw, min: Any = None, max: Any = None) -> Raw:
    if self.dtype.kind == "f":  # NumPy is faster with two bounds than with one
        min, max = -math.inf if min is None else min, math.inf if max is None else max
    if self.dtype.kind in "iu" or self.dtype.itemsize == 2:  # bounds may not fit
        min, max = (x if x is None else element(x, self.dtype) for x in (min, max))
    return arrays.clip(self, min, max)


def _clamp_rule(g: Any, self: Any, min: Any, max: Any) -> Any:
    return where(_within(self, min, max), g, zeros_like(g))


def _clamp_min_rule(g: Any, self: Any, min: Any, max: Any) -> Any:
    below = lt(self, min)
    return where(below if max is None else logical_and(lt(min, max), below), g, zeros_like(g))


def _clamp_max_rule(g: Any, self: Any, min: Any, max: Any) -> Any:
    above = gt(self, max)
    return where(above if min is None else logical_or(lt(max, min), above), g, zeros_like(g))


def _check_clamp(self: Raw, min: Any = None, max: Any = None) -> None:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    refuses("c", "clamp is not supported for complex types")(self, min, max)


def _check_clamp_tensor(self: Raw, min: Any = None, max: Any = None) -> None:
    _check_clamp(self, min, max)
    if min is not None and max is not None:
        kernel("clamp_cpu", "b")(self, min, max)


clamp = elementwise(
    "clamp", _clamp, _clamp_rule, node="ClampBackward1", dtypes="promote", check=_check_clamp,
    words="Within the limits the gradient passes unchanged; beyond them it is zero.",
)  # fmt: skip
clamp_tensor = Elementwise(
    "clamp_tensor", arrays.clip, inputs=("self", "min", "max"),
    rules={"self": _clamp_rule, "min": _clamp_min_rule, "max": _clamp_max_rule},
    node="ClampBackward0", dtypes="promote", check=_check_clamp_tensor,
)  # fmt: skip
where: Elementwise = Elementwise(
    "where", arrays.where, inputs=("condition", "self", "other"),
    rules={
        "self": lambda g, condition: where(condition, g, zeros_like(g)),
        "other": lambda g, condition: where(condition, zeros_like(g), g),
    }, dtypes="where",
    words="Each element of the gradient goes to the input that the element was taken from.",
)  # fmt: skip


def _check_fill(self: Any, mask: Any, value: Any) -> None:
    if raw(mask).dtype.kind != "b":
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype "
            f"{c_name(raw(mask).dtype)}"
        )
    if getattr(value, "ndim", 0):
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    broadcast(raw(mask).shape, raw(self).shape)


def _masked_fill(self: Raw, mask: Raw, value: Any) -> Raw:
    return arrays.in_reading_order(arrays.where(mask, element(value, self.dtype), self))


masked_fill = composite(
    "masked_fill",
    lambda self, mask, value: where(mask, to_dtype(value, dtype=raw(self).dtype), self),
    _masked_fill, inputs=("self", "mask", "value"), broadcasts=True, batch="definition",
    rules={
        "self": lambda g, mask: where(mask, zeros_like(g), g),
        "value": lambda g, mask: where(mask, g, zeros_like(g)),
    }, node="MaskedFillBackward1", dtypes="free", check=_check_fill,
    in_place=True, writes="one value, some",
    words="The gradient is zero where the mask was filled, and passes elsewhere.",
    number=Elementwise(
        "masked_fill_number", _masked_fill, inputs=("self", "mask"),
        rules={"self": lambda g, mask: where(mask, zeros_like(g), g)},
        node="MaskedFillBackward0", dtypes="free", check=_check_fill, writes="one value, some",
        words="The gradient is zero where the mask was filled, and passes elsewhere.",
    ),
)  # fmt: skip

# -- complex parts ---------------------------------------------------------------------------

# These are linear over the real numbers.
conj: Linear = linear(
    "conj", arrays.conj, lambda g: conj(g), adjoint=True, broadcasts=True, node="ConjBackward0"
)
# Copies. What users call real and imag are views: see shaping.
real = linear(
    "real", arrays.real_part, lambda g: g, adjoint=True, broadcasts=True, dtypes="real"
)
imag = linear(
    "imag", arrays.imag_part, lambda g: g * 1j, adjoint=True, broadcasts=True, dtypes="real"
)

# -- copies ----------------------------------------------------------------------------------

clone = elementwise(
    "clone", arrays.copy, lambda g: g, rearranges=True,
    words="A copy passes the gradient unchanged.",
)  # fmt: skip
zeros_like: Constant = constant(
    "zeros_like", lambda self: arrays.zeros_like(self), batch="leading"
)


def _cast(self: Raw, dtype: Any) -> Raw:
    return arrays.copy(self) if self.dtype == dtype else arrays.cast(self, dtype)


to_dtype: Linear = linear(
    "to_dtype", _cast, lambda g: g, node="ToCopyBackward0", adjoint=True, broadcasts=True,
    dtypes="free", rearranges=True,
    words="Only the dtype changes: the gradient passes, in the dtype of the input.",
)  # fmt: skip


def new_zeros(like: Any, shape: Sequence[int]) -> Any:
    """Zeros of the kind and dtype of ``like``."""
    if isinstance(like, Lifted) or arrays.is_raw(like):
        return arrays.zeros(tuple(shape), like.dtype)
    return like.new_zeros(shape)


# The result of these is broadcast when it is written over ``self``, whose gradient has its shape.


def _check_copy(self: Raw, src: Any) -> None:
    broadcast(self.shape, getattr(src, "shape", ()))


copy = Linear(
    "copy", lambda self, src: arrays.cast(arrays.asarray(src), self.dtype), inputs=("self", "src"),
    rules={"self": lambda g, shape: new_zeros(g, shape), "src": lambda g: g},
    dtypes="free", adjoint=True, broadcasts=True, node="CopyBackwards", check=_check_copy,
    batch="overwrite",
    words="The old values were overwritten and get zero; the source gets the whole gradient.",
)  # fmt: skip


def _fill(self: Raw, value: Any) -> Raw:
    return element(value, self.dtype)


fill = Linear(
    "fill", lambda self, value: arrays.cast(value, self.dtype), inputs=("self", "value"),
    rules={"self": lambda g, shape: new_zeros(g, shape), "value": lambda g: g},
    dtypes="free", adjoint=True, broadcasts=True, node="FillBackward3",
    writes="a value read before", batch="overwrite",
    words="The old values were overwritten and get zero; the value gets the sum of the gradient.",
)  # fmt: skip
fill_number = linear(
    "fill_number", _fill, lambda g, shape: new_zeros(g, shape), offset="value", broadcasts=True,
    dtypes="free", node="FillBackward2", writes="one value",
    batch="overwrite",
    words="The old values were overwritten: they get zero.",
)  # fmt: skip
zero = linear(
    "zero", lambda self: arrays.zeros_like(self), lambda g: zeros_like(g), broadcasts=True,
    writes="one value",
    words="The old values were overwritten: they get zero.",
)  # fmt: skip

# -- comparisons and logic: constant wherever they have a derivative at all ------------------

_PAIR = ("self", "other")


def _comparison(name: str, forward: Any, check: Any = None, **face: Any) -> Constant:
    """A comparison. Its rules are for ``eq_`` and its kin, which write over a value."""
    rules = {n: (lambda g: zeros_like(g)) for n in _PAIR}
    return Constant(name, forward, inputs=_PAIR, rules=rules, node=f"{name.capitalize()}Backward1",
                    dtypes="promote", broadcasts=True, check=check, public="torch method",
                    in_place=True, accepts="tensor first", out="any", **face)  # fmt: skip


def _logic(name: str, forward: Any, doc: str) -> Constant:
    return asking(name, forward, _PAIR, public="torch method", in_place=True, accepts="tensors",
                  out="any", doc=doc)  # fmt: skip


def _bitwise(name: str, forward: Any, doc: str) -> Constant:
    return asking(name, forward, _PAIR, dtypes="promote", check=kernel(f"{name}_cpu", "fc"),
                  public="torch method", in_place=True, accepts="either", out="cast",
                  doc=doc)  # fmt: skip


eq = _comparison(
    "eq", arrays.equal,
    doc="""The elementwise comparison ``input == other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> import retrograd as torch
    >>> torch.eq(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    tensor([ True, False])
    """,
)  # fmt: skip
ne = _comparison(
    "ne", arrays.not_equal,
    alias="not_equal",
    doc="""The elementwise comparison ``input != other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> import retrograd as torch
    >>> torch.ne(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    tensor([False,  True])
    """,
)  # fmt: skip
lt: Constant = _comparison(
    "lt", arrays.less, kernel("lt_cpu"),
    alias="less",
    doc="""The elementwise comparison ``input < other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> import retrograd as torch
    >>> torch.lt(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    tensor([False,  True])
    """,
)  # fmt: skip
le = _comparison(
    "le", arrays.less_equal, kernel("le_cpu"),
    alias="less_equal",
    doc="""The elementwise comparison ``input <= other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> import retrograd as torch
    >>> torch.le(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    tensor([True, True])
    """,
)  # fmt: skip
gt: Constant = _comparison(
    "gt", arrays.greater, kernel("gt_cpu"),
    alias="greater",
    doc="""The elementwise comparison ``input > other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> import retrograd as torch
    >>> torch.gt(torch.tensor([1., 2.]), torch.tensor([1., 0.]))
    tensor([False,  True])
    """,
)  # fmt: skip
ge = _comparison(
    "ge", arrays.greater_equal, kernel("ge_cpu"),
    alias="greater_equal",
    doc="""The elementwise comparison ``input >= other``.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> import retrograd as torch
    >>> torch.ge(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    tensor([ True, False])
    """,
)  # fmt: skip
logical_and = _logic(
    "logical_and", arrays.logical_and,
    doc="""Whether both elements are nonzero.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> import retrograd as torch
    >>> torch.logical_and(torch.tensor([1, 2, 0]), torch.tensor([3, 0, 0]))
    tensor([ True, False, False])
    """,
)  # fmt: skip
logical_or = _logic(
    "logical_or", arrays.logical_or,
    doc="""Whether at least one of two elements is nonzero.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> import retrograd as torch
    >>> torch.logical_or(torch.tensor([1, 2, 0]), torch.tensor([3, 0, 0]))
    tensor([ True,  True, False])
    """,
)  # fmt: skip
logical_xor = _logic(
    "logical_xor", arrays.logical_xor,
    doc="""Whether exactly one of two elements is nonzero.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> import retrograd as torch
    >>> torch.logical_xor(torch.tensor([1, 2, 0]), torch.tensor([3, 0, 0]))
    tensor([False,  True, False])
    """,
)  # fmt: skip
logical_not = asking(
    "logical_not", arrays.logical_not,
    public="torch method", in_place=True, out="any",
    doc="""Whether each element is zero.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> import retrograd as torch
    >>> torch.logical_not(torch.tensor([0., 2.]))
    tensor([ True, False])
    """,
)  # fmt: skip
bitwise_and = _bitwise(
    "bitwise_and", arrays.bitwise_and,
    doc="""The bitwise AND of two integer or bool tensors.

    >>> import retrograd as torch
    >>> torch.bitwise_and(torch.tensor([6, 3]), torch.tensor([3, 3]))
    tensor([2, 3])
    """,
)  # fmt: skip
bitwise_or = _bitwise(
    "bitwise_or", arrays.bitwise_or,
    doc="""The bitwise OR of two integer or bool tensors.

    >>> import retrograd as torch
    >>> torch.bitwise_or(torch.tensor([6, 3]), torch.tensor([3, 3]))
    tensor([7, 3])
    """,
)  # fmt: skip
bitwise_xor = _bitwise(
    "bitwise_xor", arrays.bitwise_xor,
    doc="""The bitwise exclusive OR of two integer or bool tensors.

    >>> import retrograd as torch
    >>> torch.bitwise_xor(torch.tensor([6, 3]), torch.tensor([3, 3]))
    tensor([5, 0])
    """,
)  # fmt: skip
bitwise_not = asking(
    "bitwise_not", arrays.bitwise_not, check=kernel("bitwise_not_cpu", "fc"),
    public="torch method", in_place=True,
    doc="""The bitwise complement of each element of an integer or bool tensor.

    >>> import retrograd as torch
    >>> torch.bitwise_not(torch.tensor([0, 5]))
    tensor([-1, -6])
    """,
)  # fmt: skip
isnan = asking(
    "isnan", arrays.isnan,
    public="torch method", out="no",
    doc="""Whether each element is NaN.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> import retrograd as torch
    >>> torch.isnan(torch.tensor([1., torch.nan]))
    tensor([False,  True])
    """,
)  # fmt: skip
isinf = asking(
    "isinf", arrays.isinf,
    public="torch method", out="no",
    doc="""Whether each element is infinite.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> import retrograd as torch
    >>> torch.isinf(torch.tensor([1., torch.inf]))
    tensor([False,  True])
    """,
)  # fmt: skip
isfinite = asking(
    "isfinite", arrays.isfinite,
    public="torch method", out="no",
    doc="""Whether each element is finite, that is, neither infinite nor NaN.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> import retrograd as torch
    >>> torch.isfinite(torch.tensor([1., torch.inf]))
    tensor([ True, False])
    """,
)  # fmt: skip
