"""Elementwise operations that choose, take signs, or ask: fewer programs use them than those of
``elementwise``."""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.arrays import _pointwise as pointwise
from retrograd.ops import linear
from retrograd.ops._arguments import (
    check_operands,
    check_tensor,
    element,
    invalid_combination,
    is_number,
    with_number,
)
from retrograd.ops._batching_declarations import Dims
from retrograd.ops._dims import numel
from retrograd.ops._operation import (
    Elementwise,
    Linear,
    asking,
    constant,
    elementwise,
    raw,
)
from retrograd.ops._operation import linear as declare_linear
from retrograd.ops._public import public
from retrograd.ops._refusals import Check, kernel, refuses
from retrograd.ops.elementwise import (
    conj,
    cos,
    eq,
    ge,
    gt,
    imag,
    isfinite,
    isnan,
    le,
    logical_not,
    logical_or,
    lt,
    real,
    sin,
    where,
    zeros_like,
)
from retrograd.ops.selecting import all_of, any_of

# -- the greater, the smaller ----------------------------------------------------------------


def _only_if(chosen: Any, g: Any) -> Any:
    return where(chosen, g, zeros_like(g))


def _unless(chosen: Any, g: Any) -> Any:
    return where(chosen, zeros_like(g), g)


# Of two that are equal, the first is taken; a NaN is never taken if there is a number.
fmax = elementwise(
    "fmax", pointwise.fmax,
    lambda g, self, other: _only_if(logical_or(ge(self, other), isnan(other)), g),
    lambda g, self, other: _unless(logical_or(ge(self, other), isnan(other)), g),
    dtypes="promote",
    check=refuses("c", "fmax not implemented for complex tensors.", RuntimeError),
    public="torch method", accepts="tensors",
    doc="""The elementwise maximum of two tensors; of a number and NaN, the number.

    >>> import retrograd as torch
    >>> torch.fmax(torch.tensor([1., torch.nan]), torch.tensor([3., 2.]))
    tensor([3., 2.])
    """,
)  # fmt: skip
fmin = elementwise(
    "fmin", pointwise.fmin,
    lambda g, self, other: _only_if(logical_or(le(self, other), isnan(other)), g),
    lambda g, self, other: _unless(logical_or(le(self, other), isnan(other)), g),
    dtypes="promote",
    check=refuses("c", "fmin not implemented for complex tensors.", RuntimeError),
    public="torch method", accepts="tensors",
    doc="""The elementwise minimum of two tensors; of a number and NaN, the number.

    >>> import retrograd as torch
    >>> torch.fmin(torch.tensor([1., torch.nan]), torch.tensor([3., 2.]))
    tensor([1., 2.])
    """,
)  # fmt: skip

_CLAMPED = refuses("c", "clamp is not supported for complex types")


def _clamp_min(self: Raw, min: Any) -> Raw:
    return arrays.maximum(min, self)  # of two zeros, the second: self


def _clamp_max(self: Raw, max: Any) -> Raw:
    return arrays.minimum(max, self)


# NumPy is faster with two bounds that are numbers than with one.
def _at_least(self: Raw, min: Any) -> Raw:
    if self.dtype.kind == "f":
        return arrays.clip(self, min, math.inf)
    return arrays.clip(self, element(min, self.dtype), None)


def _at_most(self: Raw, max: Any) -> Raw:
    if self.dtype.kind == "f":
        return arrays.clip(self, -math.inf, max)
    return arrays.clip(self, None, element(max, self.dtype))


_clamp_min_number = elementwise(
    "clamp_min", _at_least, lambda g, self, min: _only_if(ge(self, min), g), dtypes="promote",
    check=_CLAMPED,
)  # fmt: skip
_clamp_min_tensor = Elementwise(
    "clamp_min_tensor", _clamp_min, inputs=("self", "min"), node="ClampMinBackward1",
    rules={"self": lambda g, self, min: _only_if(ge(self, min), g),
           "min": lambda g, self, min: _only_if(lt(self, min), g)},
    dtypes="promote", check=kernel("maximum_cpu"),
)  # fmt: skip
_clamp_max_number = elementwise(
    "clamp_max", _at_most, lambda g, self, max: _only_if(le(self, max), g), dtypes="promote",
    check=_CLAMPED,
)  # fmt: skip
_clamp_max_tensor = Elementwise(
    "clamp_max_tensor", _clamp_max, inputs=("self", "max"), node="ClampMaxBackward1",
    rules={"self": lambda g, self, max: _only_if(le(self, max), g),
           "max": lambda g, self, max: _only_if(gt(self, max), g)},
    dtypes="promote", check=kernel("minimum_cpu"),
)  # fmt: skip


@public("torch method", in_place="torch method", out="computed")
def clamp_min(input: Any, min: Any) -> Any:
    """Each element, or ``min`` where the element is smaller.

    Args:
        input: the input tensor.
        min: lower bound, a number or a tensor, broadcast with ``input``.

    Returns:
        A tensor of the shape that the arguments broadcast to.

    Example:
        >>> import retrograd as torch
        >>> torch.clamp_min(torch.tensor([-1., 2.]), 0)
        tensor([0., 2.])
    """
    if min is None or is_number(input):
        raise invalid_combination("clamp_min", input, min)
    return _clamp_min_number(input, min=min) if is_number(min) else _clamp_min_tensor(input, min)


@public("torch method", in_place="torch method", out="computed")
def clamp_max(input: Any, max: Any) -> Any:
    """Each element, or ``max`` where the element is larger.

    Args:
        input: the input tensor.
        max: upper bound, a number or a tensor, broadcast with ``input``.

    Returns:
        A tensor of the shape that the arguments broadcast to.

    Example:
        >>> import retrograd as torch
        >>> torch.clamp_max(torch.tensor([-1., 2.]), 0)
        tensor([-1.,  0.])
    """
    if max is None or is_number(input):
        raise invalid_combination("clamp_max", input, max)
    return _clamp_max_number(input, max=max) if is_number(max) else _clamp_max_tensor(input, max)


def _nan_to_num(self: Raw, nan: Any, posinf: Any, neginf: Any) -> Raw:
    return pointwise.nan_to_num(self, nan, posinf, neginf)


_nan_to_num_of = elementwise("nan_to_num", _nan_to_num, lambda g, self: _only_if(isfinite(self), g))


@public("torch method", in_place="torch method", out="computed")
def nan_to_num(input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """A tensor with NaN and infinities replaced by finite numbers.

    Args:
        input: the input tensor.
        nan: replacement for NaN; 0 by default.
        posinf: replacement for infinity; by default, the largest number of the dtype.
        neginf: replacement for negative infinity; by default, the lowest number of the dtype.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> import retrograd as torch
        >>> torch.nan_to_num(torch.tensor([torch.nan, torch.inf, 2.]), posinf=9.)
        tensor([0., 9., 2.])
    """
    check_tensor("nan_to_num", "input", 1, input)
    return _nan_to_num_of(input, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


def _fill(self: Raw, value: Any) -> Raw:
    fit = element if is_number(value) else arrays.cast
    return arrays.full(self.shape, fit(value, self.dtype), self.dtype)


_fill_number = declare_linear(
    "fill_by_number", _fill, lambda g: zeros_like(g), offset="value", broadcasts=True,
    node="FillBackward0", dtypes="free",
)  # fmt: skip
_fill_tensor = Linear(
    "fill_by_tensor", _fill, inputs=("self", "value"), node="FillBackward1", dtypes="free",
    adjoint=True, broadcasts=True, rules={"self": lambda g: zeros_like(g), "value": lambda g: g},
    batch="overwrite",
)  # fmt: skip


@public("torch")
def fill(input: Any, value: Any) -> Any:
    """A tensor of the shape and dtype of ``input`` with every element set to ``value``.

    Args:
        input: the input tensor.
        value: a number, or a tensor without dimensions.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> import retrograd as torch
        >>> torch.fill(torch.zeros(2), 3.)
        tensor([3., 3.])
    """
    if is_number(value):
        return _fill_number(input, value=value)
    if raw(value).ndim:
        raise RuntimeError(
            "fill_ only supports 0-dimension value tensor but got tensor with "
            f"{raw(value).ndim} dimensions."
        )
    return _fill_tensor(input, value)


def _not_implemented(g: Any) -> Any:
    raise RuntimeError("derivative for aten::heaviside is not implemented")


def _check_heaviside(self: Raw, values: Raw) -> None:
    if "c" in (self.dtype.kind, values.dtype.kind):
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if self.dtype != values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


_heaviside = Elementwise(
    "heaviside", pointwise.heaviside, inputs=("self", "values"), node="NotImplemented",
    rules={"self": _not_implemented, "values": _not_implemented}, check=_check_heaviside,
)  # fmt: skip


@public("torch method", in_place=True, out="computed")
def heaviside(input: Any, values: Any) -> Any:
    """The Heaviside step function: 0 for negative elements, 1 for positive ones.

    Args:
        input: the input tensor.
        values: value where ``input`` is zero, a tensor of the same dtype, broadcast with
            ``input``.

    Returns:
        A tensor of the shape that the arguments broadcast to.

    Example:
        >>> import retrograd as torch
        >>> torch.heaviside(torch.tensor([-1., 0., 2.]), torch.tensor([0.5]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    check_tensor("heaviside", "input", 1, input)
    check_tensor("heaviside", "values", 2, values)
    return _heaviside(input, values)


nextafter = elementwise(
    "nextafter", pointwise.nextafter, lambda g, self, other: _unless(eq(self, other), g),
    lambda g, self, other: zeros_like(g), dtypes="promote",
    check=kernel("nextafter_cpu", "biuc"),
    public="torch method", in_place=True, accepts="tensors",
    doc="""The next floating-point number after ``input`` in the direction of ``other``.

    >>> import retrograd as torch
    >>> torch.nextafter(torch.tensor([1.]), torch.tensor([2.])) > 1
    tensor([True])
    """,
)  # fmt: skip

# -- signs and angles ------------------------------------------------------------------------


def _copysign_rule(g: Any, self: Any, result: Any) -> Any:
    ratio = result / self
    return g * where(eq(self, 0), zeros_like(ratio), ratio)


def _copysign_of(self: Raw, other: Any) -> Raw:
    return pointwise.copysign(self, other)


_COPYSIGN = kernel("copysign_cpu")
_copysign = elementwise(
    "copysign", pointwise.copysign, _copysign_rule, lambda g: zeros_like(g), dtypes="float",
    check=_COPYSIGN,
    number=elementwise("copysign_number", _copysign_of, _copysign_rule, node="CopysignBackward1",
                       dtypes="float", check=with_number(_COPYSIGN)),
)  # fmt: skip


@public("torch method", in_place=True, out="cast")
def copysign(input: Any, other: Any) -> Any:
    """The absolute value of ``input`` with the sign of ``other``, element by element.

    Args:
        input: the tensor of magnitudes.
        other: the signs, a tensor or a number, broadcast with ``input``.

    Returns:
        A tensor of the shape that ``input`` and ``other`` broadcast to.

    Example:
        >>> import retrograd as torch
        >>> torch.copysign(torch.tensor([1., -2.]), torch.tensor([-3., 4.]))
        tensor([-1.,  2.])
    """
    check_operands("copysign", input, other)
    if is_number(input):
        raise invalid_combination("copysign", input, other)
    return _copysign(input, other)


def _angle_rule(g: Any, self: Any) -> Any:
    if raw(self).dtype.kind != "c":
        return zeros_like(g)
    square = real(self * conj(self))
    turned = g * self / square * 1j
    return where(eq(self, 0), zeros_like(turned), turned)


angle = elementwise(
    "angle", pointwise.angle, _angle_rule, dtypes="float", adjoint=True,
    public="torch method",
    doc="""The argument (angle) of each complex number, in radians.

    >>> import retrograd as torch
    >>> torch.angle(torch.tensor([1j, -1.0 + 0j]))
    tensor([1.5708, 3.1416])
    """,
)  # fmt: skip


def _check_parts(name: str) -> Check:
    def check(first: Raw, second: Raw) -> None:
        kinds = [dtypes.type_word(x.dtype) for x in (first, second)]
        if first.dtype.kind != "f" or second.dtype.kind != "f":
            raise RuntimeError(
                "Expected both inputs to be Half, Float or Double tensors but got "
                f"{kinds[0]} and {kinds[1]}"
            )
        if first.dtype != second.dtype:
            raise RuntimeError(
                f"Expected object of scalar type {kinds[0]} but got scalar type {kinds[1]} for "
                "second argument"
            )
        if kinds[0] == "Half":
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Half'")

    return check


_complex = Elementwise(
    "complex", pointwise.complex_of, inputs=("real", "imag"), adjoint=True,
    rules={"real": lambda g: real(g), "imag": lambda g: imag(g)}, check=_check_parts("complex"),
)  # fmt: skip
_polar = Elementwise(
    "polar", pointwise.polar, inputs=("abs", "angle"), adjoint=True,
    rules={"abs": lambda g, angle: real(g) * cos(angle) + imag(g) * sin(angle),
           "angle": lambda g, result: real(conj(g) * result * 1j)},
    check=_check_parts("polar"),
)  # fmt: skip


@public("torch", out="computed")
def complex(real: Any, imag: Any) -> Any:
    """A complex tensor from its real and imaginary parts.

    Args:
        real: the real parts, a float32 or float64 tensor.
        imag: the imaginary parts, a tensor of the same dtype, broadcast with ``real``.

    Returns:
        A complex tensor.

    Example:
        >>> import retrograd as torch
        >>> torch.complex(torch.tensor([1., 2.]), torch.tensor([0., 3.]))
        tensor([1.+0.j, 2.+3.j])
    """
    check_tensor("complex", "real", 1, real)
    check_tensor("complex", "imag", 2, imag)
    return _complex(real, imag)


@public("torch", out="computed")
def polar(abs: Any, angle: Any) -> Any:
    """A complex tensor from polar coordinates: ``abs * exp(1j * angle)``.

    Args:
        abs: the absolute values, a float32 or float64 tensor.
        angle: the angles in radians, a tensor of the same dtype, broadcast with ``abs``.

    Returns:
        A complex tensor.

    Example:
        >>> import retrograd as torch
        >>> torch.polar(torch.tensor([1., 2.]), torch.tensor([0., 0.]))
        tensor([1.+0.j, 2.+0.j])
    """
    check_tensor("polar", "abs", 1, abs)
    check_tensor("polar", "angle", 2, angle)
    return _polar(abs, angle)


_conj_physical: Elementwise = elementwise(
    "conj_physical", arrays.conj, lambda g: _conj_physical(g), adjoint=True,
    node="ConjPhysicalBackward0",
)  # fmt: skip


conj_in_place = elementwise(
    "conj_in_place", arrays.conj, lambda g: _conj_physical(g), adjoint=True,
    node="ConjPhysicalBackward1",
    in_place="torch.conj_physical method.conj_physical",
)  # fmt: skip


@public("torch method", out="computed")
def conj_physical(input: Any) -> Any:
    """The complex conjugate of each element.

    Args:
        input: the input tensor.

    Returns:
        A tensor of the same shape; a real ``input`` is returned itself.

    Example:
        >>> import retrograd as torch
        >>> torch.conj_physical(torch.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    check_tensor("conj_physical", "input", 1, input)
    return _conj_physical(input) if raw(input).dtype.kind == "c" else input


@public("torch method")
def resolve_conj(input: Any) -> Any:
    """A tensor without a pending conjugation, which no tensor has here.

    Args:
        input: the input tensor.

    Returns:
        ``input`` itself.

    Example:
        >>> import retrograd as torch
        >>> torch.resolve_conj(torch.tensor([1j]).conj())
        tensor([0.-1.j])
    """
    check_tensor("resolve_conj", "input", 1, input)
    return input


@public("torch method")
def resolve_neg(input: Any) -> Any:
    """A tensor without a pending negation, which no tensor has here.

    Args:
        input: the input tensor.

    Returns:
        ``input`` itself.

    Example:
        >>> import retrograd as torch
        >>> torch.resolve_neg(torch.tensor([1., -2.]))
        tensor([ 1., -2.])
    """
    check_tensor("resolve_neg", "input", 1, input)
    return input


# -- integers and bits -----------------------------------------------------------------------

_PAIR = ("self", "other")
gcd = asking(
    "gcd", pointwise.gcd, _PAIR, dtypes="promote", check=kernel("gcd_cpu", "bfc"),
    public="torch method", in_place="torch method", accepts="tensors", out="cast",
    doc="""The greatest common divisor of two integer tensors.

    >>> import retrograd as torch
    >>> torch.gcd(torch.tensor([12, 18]), torch.tensor([8, 27]))
    tensor([4, 9])
    """,
)  # fmt: skip
lcm = asking(
    "lcm", pointwise.lcm, _PAIR, dtypes="promote", check=kernel("lcm_cpu", "bfc"),
    public="torch method", in_place="torch method", accepts="tensors", out="cast",
    doc="""The least common multiple of two integer tensors.

    >>> import retrograd as torch
    >>> torch.lcm(torch.tensor([4, 6]), torch.tensor([6, 9]))
    tensor([12, 18])
    """,
)  # fmt: skip
bitwise_left_shift = asking(
    "bitwise_left_shift", pointwise.left_shift, _PAIR, dtypes="promote",
    check=kernel("lshift_cpu", "bfc"),
    public="torch method", in_place=True, accepts="either", out="cast",
    doc="""The bits of ``input`` shifted left by ``other`` bits: ``input * 2**other``.

    >>> import retrograd as torch
    >>> torch.bitwise_left_shift(torch.tensor([1, 3]), torch.tensor([2, 1]))
    tensor([4, 6])
    """,
)  # fmt: skip
bitwise_right_shift = asking(
    "bitwise_right_shift", pointwise.right_shift, _PAIR, dtypes="promote",
    check=kernel("rshift_cpu", "bfc"),
    public="torch method", in_place=True, accepts="either", out="cast",
    doc="""The bits of ``input`` shifted right by ``other`` bits, with the sign kept.

    >>> import retrograd as torch
    >>> torch.bitwise_right_shift(torch.tensor([8, -8]), torch.tensor([2, 1]))
    tensor([ 2, -4])
    """,
)  # fmt: skip

# -- questions -------------------------------------------------------------------------------

signbit = asking(
    "signbit", pointwise.signbit,
    check=refuses("c", "signbit is not implemented for complex tensors."),
    public="torch method",
    doc="""Whether the sign bit of each element is set, as it is for -0.0.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> import retrograd as torch
    >>> torch.signbit(torch.tensor([-0.0, 1.]))
    tensor([ True, False])
    """,
)  # fmt: skip
isposinf = asking(
    "isposinf", pointwise.isposinf,
    check=refuses("c", "isposinf does not support complex inputs.", RuntimeError),
    public="torch method",
    doc="""Whether each element is positive infinity.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> import retrograd as torch
    >>> torch.isposinf(torch.tensor([1., torch.inf]))
    tensor([False,  True])
    """,
)  # fmt: skip
isneginf = asking(
    "isneginf", pointwise.isneginf,
    check=refuses("c", "isneginf does not support complex inputs.", RuntimeError),
    public="torch method",
    doc="""Whether each element is negative infinity.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> import retrograd as torch
    >>> torch.isneginf(torch.tensor([1., -torch.inf]))
    tensor([False,  True])
    """,
)  # fmt: skip
isreal = asking(
    "isreal", pointwise.isreal,
    public="torch method", out="no",
    doc="""Whether the imaginary part of each element is zero.

    Returns:
        A bool tensor of the same shape as ``input``.

    >>> import retrograd as torch
    >>> torch.isreal(torch.tensor([1 + 0j, 2j]))
    tensor([ True, False])
    """,
)  # fmt: skip


def _isclose(self: Raw, other: Raw, rtol: float, atol: float, equal_nan: bool) -> Raw:
    return pointwise.isclose(self, other, rtol, atol, equal_nan)


_isclose_to = asking("isclose", _isclose, _PAIR)


@public("torch method")
def isclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Whether elements are close: ``abs(input - other) <= atol + rtol * abs(other)``.

    Args:
        input: the first tensor.
        other: the second tensor, of the same dtype, broadcast with ``input``.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether NaN counts as close to NaN.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    Example:
        >>> import retrograd as torch
        >>> torch.isclose(torch.tensor([1., 2.]), torch.tensor([1. + 1e-7, 2.1]))
        tensor([ True, False])
    """
    _check_close("isclose", input, other, rtol, atol)
    return _isclose_to(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _check_close(function: str, input: Any, other: Any, rtol: float, atol: float) -> None:
    check_tensor(function, "input", 1, input)
    check_tensor(function, "other", 2, other)
    words = [dtypes.type_word(raw(x).dtype) for x in (input, other)]
    if words[0] != words[1]:
        raise RuntimeError(f"{words[0]} did not match {words[1]}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")


@public("torch method")
def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close: ``abs(input - other) <= atol + rtol * abs(other)``.

    Args:
        input: the first tensor.
        other: the second tensor, of the same dtype, broadcast with ``input``.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether NaN counts as close to NaN.

    Returns:
        True or False.

    Example:
        >>> import retrograd as torch
        >>> torch.allclose(torch.tensor([1., 2.]), torch.tensor([1. + 1e-7, 2.]))
        True
    """
    _check_close("allclose", input, other, rtol, atol)
    close = isclose(input, other, rtol, atol, equal_nan)
    return bool(all_of(close, dim=tuple(range(len(close.shape))), keepdim=False))


def _isin(self: Raw, test_elements: Raw, invert: bool) -> Raw:
    return pointwise.isin(self, test_elements, invert)


def _equals_any(self: Any, test_elements: Any, invert: bool) -> Any:
    """Each element beside each of those that it may be among."""
    if not hasattr(self, "shape"):
        self = arrays.asarray(self)
    shape = tuple(self.shape)
    column = linear.reshape(self, (numel(shape), 1))
    row = linear.reshape(test_elements, (1, numel(test_elements.shape)))
    equal = any_of(raw(eq(column, row)), dim=(1,), keepdim=False)
    return linear.reshape(logical_not(equal) if invert else equal, shape)


_isin_of = constant(
    "isin", _isin, ("self", "test_elements"), definition=_equals_any,
    batch=Dims(shared=("test_elements",)),
)  # fmt: skip


@public("torch", out="same, constant")
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Whether each of ``elements`` is among ``test_elements``.

    Args:
        elements: a tensor, or a number if ``test_elements`` is a tensor.
        test_elements: the values to look for, a tensor or a number.
        assume_unique: whether neither argument has duplicates; has no effect here.
        invert: whether to return the opposite: which elements are not among them.

    Returns:
        A bool tensor of the shape of ``elements``.

    Example:
        >>> import retrograd as torch
        >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 4]))
        tensor([False,  True, False])
    """
    check_operands("isin", elements, test_elements)
    for x in (elements, test_elements):
        if not is_number(x) and raw(x).dtype.kind in "bc":
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {dtypes.type_word(raw(x).dtype)}"
            )
    return _isin_of(elements, test_elements, invert=invert)


@public("torch method")
def is_conj(input: Any) -> bool:
    """Whether a conjugation of the tensor is pending. Here conjugations are computed at once.

    Args:
        input: the input tensor.

    Returns:
        False.

    Example:
        >>> import retrograd as torch
        >>> torch.is_conj(torch.tensor([1j]).conj())
        False
    """
    check_tensor("is_conj", "input", 1, input)
    return False


@public("torch method")
def is_neg(input: Any) -> bool:
    """Whether a negation of the tensor is pending. Here negations are computed at once.

    Args:
        input: the input tensor.

    Returns:
        False.

    Example:
        >>> import retrograd as torch
        >>> torch.is_neg(torch.tensor([1.]))
        False
    """
    check_tensor("is_neg", "input", 1, input)
    return False


@public("torch method")
def is_signed(input: Any) -> bool:
    """Whether the dtype of a tensor can represent negative numbers.

    Args:
        input: the input tensor.

    Returns:
        True or False.

    Example:
        >>> import retrograd as torch
        >>> torch.is_signed(torch.tensor([1.])), torch.is_signed(torch.tensor([True]))
        (True, False)
    """
    check_tensor("is_signed", "input", 1, input)
    return bool(raw(input).dtype.kind in "ifc")


@public("torch method")
def is_nonzero(input: Any) -> bool:
    """Whether the only element of a tensor is nonzero.

    Args:
        input: a tensor of one element.

    Returns:
        True or False.

    Example:
        >>> import retrograd as torch
        >>> torch.is_nonzero(torch.tensor([2.]))
        True
    """
    check_tensor("is_nonzero", "input", 1, input)
    return bool(input)


@public("torch method")
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape.

    Args:
        input: the first tensor.
        other: the second tensor.

    Returns:
        True or False.

    Example:
        >>> import retrograd as torch
        >>> torch.is_same_size(torch.zeros(2, 3), torch.ones(2, 3))
        True
    """
    check_tensor("is_same_size", "input", 1, input)
    check_tensor("is_same_size", "other", 2, other)
    return bool(raw(input).shape == raw(other).shape)
