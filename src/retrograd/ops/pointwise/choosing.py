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
    asking,
    constant,
    elementwise,
    raw,
)
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
    doc="The greater of two elements; a number is greater than NaN.",
)  # fmt: skip
fmin = elementwise(
    "fmin", pointwise.fmin,
    lambda g, self, other: _only_if(logical_or(le(self, other), isnan(other)), g),
    lambda g, self, other: _unless(logical_or(le(self, other), isnan(other)), g),
    dtypes="promote",
    check=refuses("c", "fmin not implemented for complex tensors.", RuntimeError),
    public="torch method", accepts="tensors",
    doc="The smaller of two elements; a number is smaller than NaN.",
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
    """Every element at least ``min``, a number or a tensor."""
    if min is None or is_number(input):
        raise invalid_combination("clamp_min", input, min)
    return _clamp_min_number(input, min=min) if is_number(min) else _clamp_min_tensor(input, min)


@public("torch method", in_place="torch method", out="computed")
def clamp_max(input: Any, max: Any) -> Any:
    """Every element at most ``max``, a number or a tensor."""
    if max is None or is_number(input):
        raise invalid_combination("clamp_max", input, max)
    return _clamp_max_number(input, max=max) if is_number(max) else _clamp_max_tensor(input, max)


def _nan_to_num(self: Raw, nan: Any, posinf: Any, neginf: Any) -> Raw:
    return pointwise.nan_to_num(self, nan, posinf, neginf)


_nan_to_num_of = elementwise("nan_to_num", _nan_to_num, lambda g, self: _only_if(isfinite(self), g))


@public("torch method", in_place="torch method", out="computed")
def nan_to_num(input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """Numbers in place of NaN and infinities: 0, and the greatest and least there are, or those
    given.

    >>> import retrograd as torch
    >>> torch.nan_to_num(torch.tensor([torch.nan, torch.inf, 2.]), posinf=9.)
    tensor([0., 9., 2.])
    """
    check_tensor("nan_to_num", "input", 1, input)
    return _nan_to_num_of(input, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


def _fill(self: Raw, value: Any) -> Raw:
    fit = element if is_number(value) else arrays.cast
    return arrays.full(self.shape, fit(value, self.dtype), self.dtype)


def _fill_tangent(t: Any, self: Any) -> Any:
    return None if t[1] is None else _fill_tensor(self, t[1])


_fill_number = elementwise("fill_by_number", _fill, lambda g: zeros_like(g), node="FillBackward0",
                           dtypes="free", jvp=lambda t: None)  # fmt: skip
_fill_tensor: Elementwise = Elementwise(
    "fill_by_tensor", _fill, inputs=("self", "value"), node="FillBackward1", dtypes="free",
    adjoint=True, rules={"self": lambda g: zeros_like(g), "value": lambda g: g},
    jvp=_fill_tangent, batch="overwrite",
)  # fmt: skip


@public("torch")
def fill(input: Any, value: Any) -> Any:
    """A tensor like ``input`` with every element ``value``, a number or a tensor of one element."""
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
    """0 where ``input`` is negative, 1 where it is positive, ``values`` where it is 0."""
    check_tensor("heaviside", "input", 1, input)
    check_tensor("heaviside", "values", 2, values)
    return _heaviside(input, values)


nextafter = elementwise(
    "nextafter", pointwise.nextafter, lambda g, self, other: _unless(eq(self, other), g),
    lambda g, self, other: zeros_like(g), dtypes="promote",
    check=kernel("nextafter_cpu", "biuc"),
    public="torch method", in_place=True, accepts="tensors",
    doc="The next number that there is from ``input`` towards ``other``.",
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
    """The size of ``input`` with the sign of ``other``."""
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


def _angle_tangent(t: Any, self: Any) -> Any:
    if raw(self).dtype.kind != "c":
        return None
    turned = imag(conj(self) * t) / real(self * conj(self))
    return where(eq(self, 0), zeros_like(turned), turned)


angle = elementwise(
    "angle", pointwise.angle, _angle_rule, dtypes="float", adjoint=True, jvp=_angle_tangent,
    public="torch method",
    doc="""The argument of each complex number.

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
    """Complex numbers from their parts.

    >>> import retrograd as torch
    >>> torch.complex(torch.tensor([1., 2.]), torch.tensor([0., 3.]))
    tensor([1.+0.j, 2.+3.j])
    """
    check_tensor("complex", "real", 1, real)
    check_tensor("complex", "imag", 2, imag)
    return _complex(real, imag)


@public("torch", out="computed")
def polar(abs: Any, angle: Any) -> Any:
    """Complex numbers from their size and angle."""
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
    """The complex conjugate; a real tensor is its own."""
    check_tensor("conj_physical", "input", 1, input)
    return _conj_physical(input) if raw(input).dtype.kind == "c" else input


@public("torch method")
def resolve_conj(input: Any) -> Any:
    """The tensor itself: conjugates are computed at once here."""
    check_tensor("resolve_conj", "input", 1, input)
    return input


@public("torch method")
def resolve_neg(input: Any) -> Any:
    """The tensor itself: negatives are computed at once here."""
    check_tensor("resolve_neg", "input", 1, input)
    return input


# -- integers and bits -----------------------------------------------------------------------

_PAIR = ("self", "other")
gcd = asking(
    "gcd", pointwise.gcd, _PAIR, dtypes="promote", check=kernel("gcd_cpu", "bfc"),
    public="torch method", in_place="torch method", accepts="tensors", out="cast",
    doc="The greatest common divisor.",
)  # fmt: skip
lcm = asking(
    "lcm", pointwise.lcm, _PAIR, dtypes="promote", check=kernel("lcm_cpu", "bfc"),
    public="torch method", in_place="torch method", accepts="tensors", out="cast",
    doc="The least common multiple.",
)  # fmt: skip
bitwise_left_shift = asking(
    "bitwise_left_shift", pointwise.left_shift, _PAIR, dtypes="promote",
    check=kernel("lshift_cpu", "bfc"),
    public="torch method", in_place=True, accepts="either", out="cast",
    doc="Bits moved up: ``input * 2 ** other``, without what leaves the dtype.",
)  # fmt: skip
bitwise_right_shift = asking(
    "bitwise_right_shift", pointwise.right_shift, _PAIR, dtypes="promote",
    check=kernel("rshift_cpu", "bfc"),
    public="torch method", in_place=True, accepts="either", out="cast",
    doc="Bits moved down; the sign stays.",
)  # fmt: skip

# -- questions -------------------------------------------------------------------------------

signbit = asking(
    "signbit", pointwise.signbit,
    check=refuses("c", "signbit is not implemented for complex tensors."),
    public="torch method",
    doc="""Whether each element has its sign bit set, as -0.0 has.

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

    >>> import retrograd as torch
    >>> torch.isneginf(torch.tensor([1., -torch.inf]))
    tensor([False,  True])
    """,
)  # fmt: skip
isreal = asking(
    "isreal", pointwise.isreal,
    public="torch method", out="no",
    doc="""Whether the imaginary part of each element is 0.

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
    """Whether elements differ by no more than ``atol + rtol * abs(other)``."""
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
    """Whether all elements are close to each other: see ``isclose``."""
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
    """Whether each of ``elements`` is among ``test_elements``; either may be one number."""
    check_operands("isin", elements, test_elements)
    for x in (elements, test_elements):
        if not is_number(x) and raw(x).dtype.kind in "bc":
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {dtypes.type_word(raw(x).dtype)}"
            )
    return _isin_of(elements, test_elements, invert=invert)


@public("torch method")
def is_conj(input: Any) -> bool:
    """Whether a conjugation is still to be computed: never here."""
    check_tensor("is_conj", "input", 1, input)
    return False


@public("torch method")
def is_neg(input: Any) -> bool:
    """Whether a negation is still to be computed: never here."""
    check_tensor("is_neg", "input", 1, input)
    return False


@public("torch method")
def is_signed(input: Any) -> bool:
    """Whether the dtype has negative numbers."""
    check_tensor("is_signed", "input", 1, input)
    return bool(raw(input).dtype.kind in "ifc")


@public("torch method")
def is_nonzero(input: Any) -> bool:
    """Whether the one element is not zero."""
    check_tensor("is_nonzero", "input", 1, input)
    return bool(input)


@public("torch method")
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    check_tensor("is_same_size", "input", 1, input)
    check_tensor("is_same_size", "other", 2, other)
    return bool(raw(input).shape == raw(other).shape)
