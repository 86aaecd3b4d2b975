"""Less common elementwise operations; the common ones are in ``elementwise``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.arrays import _pointwise as pointwise
from retrograd.ops import elementwise as basic
from retrograd.ops._arguments import (
    check_operands,
    check_tensor,
    either_number,
    element,
    factor,
    invalid_combination,
    is_number,
    number_of,
    older_order,
    with_number,
)
from retrograd.ops._dims import broadcast
from retrograd.ops._operands import Target
from retrograd.ops._operation import (
    Elementwise,
    Operation,
    composite,
    elementwise,
    elementwise_constant,
    raw,
)
from retrograd.ops._public import public
from retrograd.ops._refusals import c_name, kernel, no_bool_subtraction, refuses
from retrograd.ops._results import named_result
from retrograd.ops.comparisons import eq, le, logical_and
from retrograd.ops.copies import to_dtype, zeros_like
from retrograd.ops.elementwise import exp, exp2
from retrograd.ops.piecewise import where

# -- arithmetic ------------------------------------------------------------------------------


def _rsub_scaled(self: Raw, other: Any, alpha: Any) -> Raw:
    alpha = factor(self.dtype, alpha)
    if is_number(other) and self.dtype.kind in "iu":
        other = arrays.wrapped(other, self.dtype)
    return other - alpha * self


def _rsub_rule(g: Any, alpha: Any) -> Any:
    return -g if alpha == 1 else -g * alpha


_rsub_number = elementwise(
    "rsub_number", _rsub_scaled, _rsub_rule, node="RsubBackward1", dtypes="promote",
    check=lambda self, other, alpha: no_bool_subtraction(self, other=other),
)  # fmt: skip
_rsub_tensor = elementwise(
    "rsub_tensor", _rsub_scaled, _rsub_rule, lambda g: g, node="RsubBackward0", dtypes="promote",
    check=lambda self, other, alpha: no_bool_subtraction(self, other),
)  # fmt: skip


@public("torch")
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The reversed difference, ``other - alpha * input``.

    Args:
        input: the tensor to subtract.
        other: tensor or number to subtract from, broadcast with ``input``.
        alpha: number to multiply ``input`` by.

    Returns:
        A tensor of the shape that ``input`` and ``other`` broadcast to.

    Example:
        >>> torch.rsub(torch.tensor([1., 2.]), 10, alpha=2)
        tensor([8., 6.])
    """
    check_operands("rsub", input, other)
    if is_number(input):
        raise invalid_combination("rsub", input, other)
    if is_number(other):
        return _rsub_number(input, other=other, alpha=alpha)
    broadcast(raw(other).shape, raw(input).shape)
    return _rsub_tensor(input, other, alpha=alpha)


_THREE = ("self", "tensor1", "tensor2")
_addcmul_of = Elementwise(
    "addcmul", pointwise.addcmul, inputs=_THREE, dtypes="promote",
    check=kernel("addcmul_cpu_out", "b"),
    rules={
        "self": lambda g: g,
        "tensor1": lambda g, tensor2, value: g * (tensor2 * value),
        "tensor2": lambda g, tensor1, value: g * (tensor1 * value),
    },
    words="The first input gets the gradient unchanged; each factor gets it times the other.",
)  # fmt: skip
_addcdiv_of = Elementwise(
    "addcdiv", pointwise.addcdiv, inputs=_THREE, dtypes="promote",
    rules={
        "self": lambda g: g,
        "tensor1": lambda g, tensor2, value: g * (value / tensor2),
        "tensor2": lambda g, tensor1, tensor2, value:
            -g * (value * tensor1 / (tensor2 * tensor2)),
    },
    words="The first input gets the gradient unchanged; the quotient passes it on as a division.",
)  # fmt: skip


def _fitting(value: Any, *operands: Any) -> Any:
    """A factor in the dtype of the product it scales; what does not fit is refused."""
    common = dtypes.result_type([raw(x) for x in operands])
    if common.kind in dtypes.INEXACT and not isinstance(value, complex):
        return value
    return element(value, common).item()


@public("torch method", in_place=True, out="cast")
def addcmul(
    input: Any, tensor1: Any, tensor2: Any, _older: Any = None, *, value: Any = 1
) -> Any:  # fmt: skip
    """``input + value * tensor1 * tensor2``, element by element.

    Args:
        tensor1: the first factor, a tensor.
        tensor2: the second factor, a tensor.
        value: number to multiply the product by.

    Returns:
        A tensor of the shape that the three tensors broadcast to.

    Example:
        >>> x = torch.tensor([1., 1.])
        >>> torch.addcmul(x, torch.tensor([3., 6.]), torch.tensor([1., 1.]), value=2)
        tensor([ 7., 13.])
    """
    if _older is not None:
        tensor1, tensor2, value = older_order("addcmul", "value", input, tensor1, tensor2, _older)
    check_tensor("addcmul", "input", 1, input)
    check_tensor("addcmul", "tensor1", 2, tensor1)
    check_tensor("addcmul", "tensor2", 3, tensor2)
    value = _fitting(number_of("addcmul", "value", value, input), input, tensor1, tensor2)
    return _addcmul_of(input, tensor1, tensor2, value=value)


@public("torch method", in_place=True, out="cast")
def addcdiv(
    input: Any, tensor1: Any, tensor2: Any, _older: Any = None, *, value: Any = 1
) -> Any:  # fmt: skip
    """``input + value * tensor1 / tensor2``, element by element.

    Args:
        tensor1: the numerator, a tensor.
        tensor2: the denominator, a tensor.
        value: number to multiply the quotient by.

    Returns:
        A tensor of the shape that the three tensors broadcast to.

    Example:
        >>> x = torch.tensor([1., 1.])
        >>> torch.addcdiv(x, torch.tensor([3., 6.]), torch.tensor([2., 4.]), value=2)
        tensor([4., 4.])
    """
    if _older is not None:
        tensor1, tensor2, value = older_order("addcdiv", "value", input, tensor1, tensor2, _older)
    check_tensor("addcdiv", "input", 1, input)
    check_tensor("addcdiv", "tensor1", 2, tensor1)
    check_tensor("addcdiv", "tensor2", 3, tensor2)
    if raw(tensor1).dtype.kind in "biu" and raw(tensor2).dtype.kind in "biu":
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release "
            "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv "
            "behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2))"
            ".to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for "
            "float inputs. The future addcdiv behavior is just the latter implementation: (input "
            "+ value * tensor1 / tensor2), for all dtypes."
        )
    value = _fitting(number_of("addcdiv", "value", value, input), input, tensor1, tensor2)
    return _addcdiv_of(input, tensor1, tensor2, value=value)


_lerp_number = Elementwise(
    "lerp_number", pointwise.lerp, inputs=("self", "end"), node="LerpBackward0",
    check=kernel("lerp_kernel_scalar", "biu"),
    rules={"self": lambda g, weight: g * (1 - weight), "end": lambda g, weight: g * weight},
    words="Each end gets the gradient times its share.",
)  # fmt: skip
_lerp_tensor = Elementwise(
    "lerp", pointwise.lerp, inputs=("self", "end", "weight"), node="LerpBackward1",
    check=kernel("lerp_kernel_tensor", "biu"),
    rules={
        "self": lambda g, weight: g * (1 - weight),
        "end": lambda g, weight: g * weight,
        "weight": lambda g, self, end: g * (end - self),
    },
    words="Each end gets the gradient times its share; the weight gets it times the difference.",
)  # fmt: skip


@public("torch method", in_place=True, out="cast")
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """Linear interpolation, ``input + weight * (end - input)``.

    Args:
        input: the start, a tensor.
        end: the end, a tensor of the same dtype.
        weight: the interpolation weight, a number or a tensor; 0 gives ``input``, 1 gives
            ``end``.

    Returns:
        A tensor of the shape that the arguments broadcast to.

    Example:
        >>> torch.lerp(torch.tensor([1., 2.]), torch.tensor([3., 6.]), 0.25)
        tensor([1.5000, 3.0000])
    """
    given = {"end": end, "weight": weight}
    if any(isinstance(x, str) or x is None for x in given.values()) or is_number(end):
        raise invalid_combination("lerp", input, end, weight)
    own = raw(input).dtype
    for name, x in given.items():
        other = own if is_number(x) else raw(x).dtype
        # A weight with no dimensions is as good as a number, of whatever precision.
        free = name == "weight" and other.kind in dtypes.FLOATS
        if other != own and not (free and not raw(x).ndim):
            raise RuntimeError(
                f"expected dtype {c_name(own)} for `{name}` but got dtype {c_name(other)}"
            )
    if is_number(weight):
        if isinstance(weight, complex):
            element(weight, own)
        return _lerp_number(input, end, weight=weight)
    if raw(weight).dtype != own:
        weight = to_dtype(weight, dtype=own)
    return _lerp_tensor(input, end, weight)


# -- exponentials, roots and angles ----------------------------------------------------------


logaddexp = elementwise(
    "logaddexp", pointwise.logaddexp,
    lambda g, self, other: g / (1 + exp(other - self)),
    lambda g, self, other: g / (1 + exp(self - other)),
    dtypes="promote", check=kernel("logaddexp_cpu", "biu"),
    public="torch method", accepts="tensors",
    doc="``log(exp(input) + exp(other))``, computed without overflow.",
    example=("torch.logaddexp(torch.tensor([0., 1000.]), torch.tensor([0., 1000.]))",
             "tensor([6.9315e-01, 1.0007e+03])"),
)  # fmt: skip
logaddexp2 = elementwise(
    "logaddexp2", pointwise.logaddexp2,
    lambda g, self, other: g / (1 + exp2(other - self)),
    lambda g, self, other: g / (1 + exp2(self - other)),
    dtypes="promote", check=kernel("logaddexp2_cpu", "biuc"),
    public="torch method", accepts="tensors",
    doc="``log2(2**input + 2**other)``, computed without overflow.",
    example=("torch.logaddexp2(torch.tensor([0., 1000.]), torch.tensor([0., 1000.]))",
             "tensor([1.0000e+00, 1.0010e+03])"),
)  # fmt: skip
hypot = elementwise(
    "hypot", pointwise.hypot,
    lambda g, self, result: g * (self / result), lambda g, other, result: g * (other / result),
    dtypes="promote", check=kernel("hypot_cpu", "biuc"),
    public="torch method", in_place=True, accepts="tensors",
    doc="The hypotenuse of right triangles, ``sqrt(input**2 + other**2)``.",
    example=("torch.hypot(torch.tensor([3., 5.]), torch.tensor([4., 12.]))", "tensor([ 5., 13.])"),
)  # fmt: skip
frac = elementwise(
    "frac", pointwise.frac, lambda g: g, check=kernel("frac_cpu", "biuc"),
    public="torch method", in_place="torch method",
    doc="The fractional part of each element, with the sign of the element.",
    example=("torch.frac(torch.tensor([1.25, -2.5]))", "tensor([ 0.2500, -0.5000])"),
)  # fmt: skip
_DEGREE = math.pi / 180
deg2rad = elementwise(
    "deg2rad", lambda self: self * _DEGREE, lambda g: g * _DEGREE, node="Deg2RadBackward0",
    dtypes="float",
    check=refuses("c", "deg2rad is not supported for complex tensors.", RuntimeError),
    public="torch method", in_place="torch method",
    doc="Angles converted from degrees to radians.",
    example=("torch.deg2rad(torch.tensor([180., 90.]))", "tensor([3.1416, 1.5708])"),
)  # fmt: skip
rad2deg = elementwise(
    "rad2deg", lambda self: self * (180 / math.pi), lambda g: g * (180 / math.pi),
    node="Rad2DegBackward0", dtypes="float",
    check=refuses("c", "rad2deg is not supported for complex tensors.", RuntimeError),
    public="torch method", in_place="torch method",
    doc="Angles converted from radians to degrees.",
    example=("torch.rad2deg(torch.tensor([3.141592653589793]))", "tensor([180.])"),
)  # fmt: skip


def _exponent_rule(g: Any, result: Any) -> Any:
    return g * result * math.log(2)


_ldexp = elementwise(
    "ldexp", pointwise.ldexp, lambda g, other: g * exp2(other), _exponent_rule, dtypes="float",
)  # fmt: skip
_ldexp_whole: Operation = elementwise(
    "ldexp_whole", pointwise.ldexp_whole, lambda g, other: _ldexp_whole(g, other),
    _exponent_rule, node="LdexpBackward0", dtypes="free",
)  # fmt: skip


@public("torch method", in_place="torch method", out="cast")
def ldexp(input: Any, other: Any) -> Any:
    """``input * 2**other``, element by element.

    Args:
        input: the mantissas, a tensor.
        other: the exponents, a tensor, broadcast with ``input``.

    Returns:
        A tensor of the shape that ``input`` and ``other`` broadcast to.

    Example:
        >>> torch.ldexp(torch.tensor([1., 3.]), torch.tensor([2, 3]))
        tensor([ 4., 24.])
    """
    check_tensor("ldexp", "input", 1, input)
    check_tensor("ldexp", "other", 2, other)
    kind = raw(other).dtype.kind
    if raw(input).dtype.kind not in dtypes.FLOATS or kind not in "biu":
        return _ldexp(input, other)
    if kind == "b":
        raise NotImplementedError("\"ldexp_cpu_exp\" not implemented for 'Bool'")
    return _ldexp_whole(input, other)


def _check_frexp(self: Raw) -> None:
    if self.dtype.kind not in dtypes.FLOATS:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")


def _frexp_of(self: Any) -> Any:
    exponent = _frexp_exponent(self)
    return _ldexp_whole(self, -exponent), exponent


_frexp_exponent = elementwise_constant("frexp_exponent", lambda self: pointwise.frexp(self)[1])
_frexp = composite(
    "frexp", _frexp_of, pointwise.frexp, outputs=("mantissa", "exponent"),
    rules={"self": lambda g, exponent: _ldexp_whole(g[0], -raw(exponent))}, batch="pointwise",
    check=_check_frexp,
)  # fmt: skip
_FREXP = named_result("frexp", "mantissa", "exponent")


@public("torch method", out="same")
def frexp(input: Any) -> Any:
    """The decomposition ``mantissa * 2**exponent``, with ``0.5 <= abs(mantissa) < 1``.

    Args:
        input: a floating-point tensor.

    Returns:
        A named tuple ``(mantissa, exponent)``; exponents are int32.

    Example:
        >>> torch.frexp(torch.tensor([4., 10.])).mantissa
        tensor([0.5000, 0.6250])
    """
    check_tensor("frexp", "input", 1, input)
    return _FREXP(_frexp(input))


@public("torch method", in_place=True, out="same, aligned")
def float_power(input: Any, exponent: Any) -> Any:
    """``input ** exponent``, computed in double precision.

    Args:
        input: the base, a tensor or a number.
        exponent: the exponent, a tensor, or a number if ``input`` is a tensor.

    Returns:
        A float64 or complex128 tensor of the shape that the operands broadcast to.

    Example:
        >>> torch.float_power(torch.tensor([2, 3]), 2)
        tensor([4., 9.], dtype=torch.float64)
    """
    check_operands("float_power", input, exponent)
    common = dtypes.result_type([raw(input), raw(exponent)])
    wide = (dtypes.complex128 if common.kind == "c" else dtypes.float64).numpy
    if type(input) is Target and raw(input).dtype != wide:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {dtypes.type_word(raw(input).dtype)} but "
            f"the operation's result requires dtype {dtypes.type_word(wide)}"
        )
    input, exponent = (_in_dtype(x, wide) for x in (input, exponent))
    if is_number(input):
        return basic.power_of_number(input, exponent)
    if is_number(exponent):
        return basic.pow_scalar(input, exponent=exponent)
    return basic.pow_tensor(input, exponent)


def _in_dtype(x: Any, dtype: Any) -> Any:
    if is_number(x) or raw(x).dtype == dtype:
        return x
    return to_dtype(x, dtype=dtype)


# -- x log y ---------------------------------------------------------------------------------


_XLOG_DOC = """\
``input * {logarithm}(other)``, which is 0 where ``input`` is 0, unless ``other`` is NaN.

    Args:
        input: the factor, a tensor or a number.
        other: the argument of the logarithm, a tensor, or a number if ``input`` is a tensor.

    Returns:
        A tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> {call}(torch.tensor([0., 2.]), torch.tensor([0., 3.]))
    tensor([0.0000, {shown}])
    """


def _times_logarithm(
    name: str, logarithm: str, node: str, argument: Callable[[Any], Any],
    pole: float, call: str, shown: str, **face: Any,
) -> tuple[Elementwise, Callable[..., Any]]:  # fmt: skip
    """``input * log(argument(other))``, where ``argument(pole)`` is 0: an operation of two tensors,
    and the function, which takes a number for either."""
    short = f"x{logarithm}y"
    check = kernel(f"{short}_cpu")
    check_number = with_number(check)

    def compute(self: Any, other: Any) -> Raw:
        return getattr(arrays.special, short)(self, other)

    def rule(g: Any, self: Any, other: Any) -> Any:
        slope = both(g, other)
        return where(logical_and(eq(self, 0), le(other, pole)), zeros_like(slope), slope)

    def rule_by_number(g: Any, self: Any, other: Any) -> Any:
        slope = by_number(g, other=other)
        return slope if other > pole else where(eq(self, 0), zeros_like(slope), slope)

    both: Elementwise = elementwise(
        name, lambda self, other: compute(self, other), rule,
        lambda g, self, other: g * self / argument(other), dtypes="float", check=check,
        node=f"{node}Backward0",
    )  # fmt: skip
    of_number = Elementwise(
        f"{short}_of_number", lambda other, self: compute(other.dtype.type(self), other),
        inputs=("other",), rules={"other": lambda g, other, self: g * self / argument(other)},
        dtypes="float", check=check_number, node=f"{node}Backward1",
    )  # fmt: skip
    by_number: Elementwise = elementwise(
        f"{short}_by_number", lambda self, other: compute(self, self.dtype.type(other)),
        rule_by_number, dtypes="float", check=check_number, node=f"{node}Backward2",
    )  # fmt: skip
    doc = _XLOG_DOC.format(logarithm=logarithm, call=call, shown=shown)
    return both, either_number(name, both, of_number, by_number, doc, out="cast", **face)


_xlogy, xlogy = _times_logarithm(
    "xlogy", "log", "Xlogy", lambda y: y, 0, "torch.xlogy", "2.1972",
    public="torch method special", in_place="torch method",
)  # fmt: skip
_xlog1py, xlog1py = _times_logarithm(
    "special_xlog1py", "log1p", "SpecialXlog1Py", lambda y: y + 1, -1,
    "torch.special.xlog1py", "2.7726", public="special.xlog1py",
)  # fmt: skip
