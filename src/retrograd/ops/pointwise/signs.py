"""Signs and steps: heaviside, copysign, signbit, nextafter."""

from __future__ import annotations

from typing import Any

from retrograd.arrays import Raw
from retrograd.arrays import _pointwise as pointwise
from retrograd.ops._arguments import (
    check_operands,
    check_tensor,
    invalid_combination,
    is_number,
    with_number,
)
from retrograd.ops._operation import Elementwise, elementwise, elementwise_constant
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel, refuses
from retrograd.ops.comparisons import eq
from retrograd.ops.copies import zeros_like
from retrograd.ops.piecewise import where


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
        values: value where ``input`` is zero, a tensor of the same dtype, broadcast with
            ``input``.

    Returns:
        A tensor of the shape that the arguments broadcast to.

    Example:
        >>> torch.heaviside(torch.tensor([-1., 0., 2.]), torch.tensor([0.5]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    check_tensor("heaviside", "input", 1, input)
    check_tensor("heaviside", "values", 2, values)
    return _heaviside(input, values)


nextafter = elementwise(
    "nextafter", pointwise.nextafter,
    lambda g, self, other: where(eq(self, other), zeros_like(g), g),
    lambda g, self, other: zeros_like(g), dtypes="promote",
    check=kernel("nextafter_cpu", "biuc"),
    public="torch method", in_place=True, accepts="tensors",
    doc="The next floating-point number after ``input`` in the direction of ``other``.",
    example=("torch.nextafter(torch.tensor([1.]), torch.tensor([2.])) > 1", "tensor([True])"),
)  # fmt: skip



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
        >>> torch.copysign(torch.tensor([1., -2.]), torch.tensor([-3., 4.]))
        tensor([-1.,  2.])
    """
    check_operands("copysign", input, other)
    if is_number(input):
        raise invalid_combination("copysign", input, other)
    return _copysign(input, other)


signbit = elementwise_constant(
    "signbit", pointwise.signbit,
    check=refuses("c", "signbit is not implemented for complex tensors."),
    public="torch method",
    doc="Whether the sign bit of each element is set, as it is for -0.0.",
    example=("torch.signbit(torch.tensor([-0.0, 1.]))",
             "tensor([ True, False])"), returns="A bool tensor",
)  # fmt: skip
