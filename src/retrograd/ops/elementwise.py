"""Elementwise operations: forward and partial derivatives side by side.

``g`` is the gradient of the result; a rule gives ``g`` times the partial derivative. Expressions
avoid Python numbers where a product of arrays will do: on small arrays NumPy takes as long to
convert a number as to multiply.
"""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._arguments import factor, operand
from retrograd.ops._operands import is_differentiated, is_lifted
from retrograd.ops._operation import (
    Elementwise,
    Singular,
    TensorLike,
    elementwise,
    multilinear,
    raw,
)
from retrograd.ops._refusals import both, kernel, no_bool_subtraction, refuses
from retrograd.ops.comparisons import eq, ge, logical_and, logical_or, ne
from retrograd.ops.copies import imag, is_complex, real, zeros_like
from retrograd.ops.piecewise import where

# -- arithmetic ------------------------------------------------------------------------------


def _add(self: Raw, other: Raw, alpha: Any = 1) -> Raw:
    scaled = factor(self.dtype, alpha) * other
    return self + (bool(scaled) if isinstance(other, bool) and self.dtype.kind == "b" else scaled)


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
    doc="The elementwise product, ``input * other``.",
    example=("torch.mul(torch.tensor([1., 2.]), torch.tensor([10., 20.]))", "tensor([10., 40.])"),
)  # fmt: skip


def _div_tangent(t: Any, other: Any, result: Any) -> Any:
    """The quotient rule. Unlike a sum of two terms, its result has a sign where ``other`` is 0."""
    upper, lower = t
    if lower is None:
        return upper / other
    return (-lower * result if upper is None else upper - lower * result) / other


div = elementwise(
    "div", arrays.true_divide,
    lambda g, other: g / other, lambda g, self, other: -g * ((self / other) / other),
    jvp=_div_tangent, dtypes="float",
    reason="the quotient rule has a sign where the divisor is zero; a sum of terms is NaN there",
    words="The numerator gets the gradient divided by the denominator; the denominator gets it "
          "times −self/other².",
    singular=(Singular("other", (0.0,), "the denominator is 0",
                       "divide by a number that is not 0: x / torch.where(y == 0, 1.0, y)"),),
)  # fmt: skip
neg = elementwise(
    "neg", arrays.negative, lambda g: -g,
    public="torch method", alias="negative", in_place="torch method",
    words="The gradient is negated.",
    doc="The negative of each element.",
    example=("torch.neg(torch.tensor([1., -2.]))", "tensor([-1.,  2.])"),
)  # fmt: skip
reciprocal = elementwise(
    "reciprocal", lambda self: 1 / self, lambda g, result: -g * (result * result), dtypes="float",
    public="torch method", in_place="torch method",
    singular=(Singular("result", (float("inf"), float("-inf")), "the denominator is 0",
                       "divide by a number that is not 0: 1 / torch.where(x == 0, 1.0, x)"),),
    doc="The reciprocal of each element, ``1 / input``.",
    example=("torch.reciprocal(torch.tensor([2., 4.]))", "tensor([0.5000, 0.2500])"),
)  # fmt: skip

# -- powers ----------------------------------------------------------------------------------


def _pow_scalar_rule(g: Any, self: Any, exponent: Any) -> Any:
    if exponent == 0:
        return zeros_like(g)
    if exponent == 2:
        return (g + g) * self
    return g * (exponent * pow_scalar(self, exponent=exponent - 1))


def _pow_base_rule(g: Any, self: Any, exponent: Any) -> Any:
    flat = eq(exponent, 0)
    if isinstance(g, TensorLike) or is_lifted(g) or is_lifted(self) or is_lifted(exponent):
        # This is differentiated again, and depends on the exponent, too.
        flat = logical_and(flat, logical_or(eq(self, 0), ne(self, self)))
        if not is_differentiated(exponent):
            # The power below is infinite at 0 ** 0, and NaN would come of that. It is left out.
            self = where(flat, zeros_like(self) + 1, self)
    gradient = g * (exponent * self ** (exponent - 1))
    return where(flat, zeros_like(gradient), gradient)


def _pow_exponent_rule(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    # 0 ** e is 0 for every e > 0, so its derivative in e is 0 there, where log(0) would say NaN.
    derivative = result * log(self)
    zero = logical_and(eq(self, 0), _not_negative(exponent))
    return g * where(zero, zeros_like(derivative), derivative)


def _pow_of_number_rule(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    derivative = result * arrays.log(arrays.asarray(self, dtype=raw(result).dtype))
    if self != 0:
        return g * derivative
    return g * where(_not_negative(exponent), zeros_like(derivative), derivative)


def _not_negative(x: Any) -> Any:
    return logical_and(ge(real(x), 0), eq(imag(x), 0)) if is_complex(x) else ge(x, 0)


def _power(self: Raw, exponent: Any) -> Raw:
    if self.dtype.kind == "b":
        return arrays.logical_or(self, not exponent)
    if exponent == -0.5:  # the derivative of a root: as rsqrt, also at zeros of either sign
        return 1 / arrays.sqrt(self)
    if exponent in _PRODUCTS and self.dtype.itemsize > 2 and self.dtype.kind == "f":
        return _PRODUCTS[exponent](self)
    return arrays.power(self, exponent)


# NumPy has a fast path for squares only; the next powers are hundreds of times faster as products.
_PRODUCTS: dict[float, Any] = {
    3: lambda x: x * x * x,
    4: lambda x: arrays.square(x * x),
    5: lambda x: arrays.square(x * x) * x,
    6: lambda x: arrays.square(x * x * x),
    -1: lambda x: 1 / x,
    -2: lambda x: 1 / (x * x),
    -3: lambda x: 1 / (x * x * x),
}


def _power_of_array(self: Raw, exponent: Raw) -> Raw:
    if exponent.size == 1 and self.dtype.kind == "f" and exponent.item() == 0.5:
        # NumPy takes a root, which differs from a power at -inf and -0.0.
        base = self + 0 * exponent
        return arrays.sqrt(arrays.where(base == -math.inf, math.inf, base))
    return arrays.power(self, exponent)


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
    singular=(Singular("self", (0.0,), "the derivative of a power below 1 is infinite at 0",
                       "add a small number first: (x + 1e-12) ** p"),),
)  # fmt: skip
pow_tensor = Elementwise(
    "pow_tensor", _power_of_array, inputs=("self", "exponent"),
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
    return pow_of_number(exponent, self=complex(base) if is_complex(exponent) else base)


sqrt = elementwise(
    "sqrt", arrays.sqrt, lambda g, result: g / (result + result), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of a square root is one over twice the root.",
    singular=(Singular("result", (0.0,), "the derivative of sqrt is infinite at 0",
                       "add a small number first: (x + 1e-12).sqrt()"),),
    doc="The square root of each element.",
    example=("torch.sqrt(torch.tensor([4., 9.]))", "tensor([2., 3.])"),
)  # fmt: skip
rsqrt = elementwise(
    "rsqrt", lambda self: 1 / arrays.sqrt(self),
    lambda g, result: -0.5 * g * (result * result * result), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of one over the root: minus half its third power.",
    singular=(Singular("result", (float("inf"),), "rsqrt is infinite at 0",
                       "add a small number first: (x + 1e-12).rsqrt()"),),
    doc="The reciprocal of the square root of each element, ``1 / sqrt(input)``.",
    example=("torch.rsqrt(torch.tensor([4., 16.]))", "tensor([0.5000, 0.2500])"),
)  # fmt: skip

# -- exponentials and logarithms -------------------------------------------------------------

_LN2, _LN10 = 0.6931471805599453, 2.302585092994046

exp = elementwise(
    "exp", arrays.exp, lambda g, result: g * result, dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of exp is its result: the gradient is multiplied by it.",
    singular=(Singular("result", (float("inf"),), "exp has overflowed to infinity",
                       "subtract the largest element first, or use softmax, logsumexp or "
                       "softplus, which do"),),
    doc="The exponential of each element, ``e ** input``.",
    example=("torch.exp(torch.tensor([0., 1.]))", "tensor([1.0000, 2.7183])"),
)  # fmt: skip
exp2 = elementwise(
    "exp2", arrays.exp2, lambda g, result: g * result * _LN2, dtypes="float",
    public="torch method special", in_place="torch method", heavy=True,
    doc="2 raised to the power of each element, ``2 ** input``.",
    example=("torch.exp2(torch.tensor([0., 3.]))", "tensor([1., 8.])"),
)  # fmt: skip
expm1 = elementwise(
    "expm1", arrays.expm1, lambda g, result: g * (result + 1), dtypes="float",
    public="torch method special", in_place="torch method", heavy=True,
    doc="``exp(input) - 1``, accurate for small values, too.",
    example=("torch.expm1(torch.tensor([0., 1.]))", "tensor([0.0000, 1.7183])"),
)  # fmt: skip
log = elementwise(
    "log", arrays.log, lambda g, self: g / self, dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of the logarithm is one over the input: small inputs get large "
          "gradients.",
    singular=(Singular("self", (0.0,), "log is -inf at 0, and its derivative is infinite",
                       "add a small number first, (x + 1e-12).log(), or use log_softmax, "
                       "logsigmoid or log1p"),),
    doc="The natural logarithm of each element.",
    example=("torch.log(torch.tensor([1., 10.]))", "tensor([0.0000, 2.3026])"),
)  # fmt: skip
log2 = elementwise(
    "log2", arrays.log2, lambda g, self: g / (self * _LN2), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    singular=(Singular("self", (0.0,), "log2 is -inf at 0, and its derivative is infinite",
                       "add a small number first: (x + 1e-12).log2()"),),
    doc="The logarithm to base 2 of each element.",
    example=("torch.log2(torch.tensor([1., 8.]))", "tensor([0., 3.])"),
)  # fmt: skip
log10 = elementwise(
    "log10", arrays.log10, lambda g, self: g / (self * _LN10), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    singular=(Singular("self", (0.0,), "log10 is -inf at 0, and its derivative is infinite",
                       "add a small number first: (x + 1e-12).log10()"),),
    doc="The logarithm to base 10 of each element.",
    example=("torch.log10(torch.tensor([1., 20.]))", "tensor([0.0000, 1.3010])"),
)  # fmt: skip
log1p = elementwise(
    "log1p", arrays.log1p, lambda g, self: g / (self + 1), node="Log1PBackward0", dtypes="float",
    public="torch method special", in_place="torch method", heavy=True,
    doc="``log(1 + input)``, accurate for small values, too.",
    example=("torch.log1p(torch.tensor([0., 1.]))", "tensor([0.0000, 0.6931])"),
)  # fmt: skip

# -- activations -----------------------------------------------------------------------------

sigmoid = elementwise(
    "sigmoid", arrays.sigmoid, lambda g, result: g * (result - result * result), dtypes="float",
    public="torch method special.expit functional", in_place="torch method", heavy=True,
    words="The derivative of the sigmoid is result · (1 − result): at most a quarter, and near 0 "
          "where it saturates.",
    doc="The logistic sigmoid of each element, ``1 / (1 + exp(-input))``.",
    example=("torch.sigmoid(torch.tensor([0., 1.]))", "tensor([0.5000, 0.7311])"),
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
    doc="The rectified linear unit, ``max(input, 0)``, of each element.",
    example=("torch.relu(torch.tensor([-1., 2.]))", "tensor([0., 2.])"),
)  # fmt: skip
