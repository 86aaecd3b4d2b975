"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops._operation import Elementwise, Singular, elementwise
from retrograd.ops._refusals import kernel
from retrograd.ops.comparisons import eq
from retrograd.ops.copies import is_complex, zeros_like
from retrograd.ops.elementwise import rsqrt
from retrograd.ops.piecewise import where

# -- trigonometry ----------------------------------------------------------------------------

sin = elementwise(
    "sin", arrays.sin, lambda g, self: g * cos(self), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of the sine is the cosine.",
    doc="The sine of each element.",
    example=("torch.sin(torch.tensor([0., 1.]))", "tensor([0.0000, 0.8415])"),
)  # fmt: skip
cos: Elementwise = elementwise(
    "cos", arrays.cos, lambda g, self: -g * sin(self), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    words="The derivative of the cosine is minus the sine.",
    doc="The cosine of each element.",
    example=("torch.cos(torch.tensor([0., 1.]))", "tensor([1.0000, 0.5403])"),
)  # fmt: skip
tan = elementwise(
    "tan", arrays.tan, lambda g, result: g * (result * result + 1), dtypes="float",
    public="torch method", in_place="torch method", heavy=True,
    doc="The tangent of each element.",
    example=("torch.tan(torch.tensor([0., 1.]))", "tensor([0.0000, 1.5574])"),
)  # fmt: skip


def _arc(x: Any) -> Any:
    """The derivative of the arc sine. On the branch cuts of complex numbers the sign of zero says
    which side is meant. A subtraction keeps that sign; products and sums with a number do not."""
    return rsqrt(-(x - 1)) * rsqrt(x - -1) if is_complex(x) else rsqrt(1 - x * x)


asin = elementwise(
    "asin", arrays.arcsin, lambda g, self: g * _arc(self), dtypes="float",
    public="torch method", alias="arcsin", in_place="torch method",
    singular=(Singular("self", (1.0, -1.0), "the derivative of asin is infinite at 1 and -1",
                       "clamp the input: x.clamp(-1 + 1e-6, 1 - 1e-6).asin()"),),
    doc="The arcsine of each element, in radians.",
    example=("torch.asin(torch.tensor([0., 1.]))", "tensor([0.0000, 1.5708])"),
)  # fmt: skip
acos = elementwise(
    "acos", arrays.arccos, lambda g, self: -g * _arc(self), dtypes="float",
    public="torch method", alias="arccos", in_place="torch method",
    singular=(Singular("self", (1.0, -1.0), "the derivative of acos is infinite at 1 and -1",
                       "clamp the input: x.clamp(-1 + 1e-6, 1 - 1e-6).acos()"),),
    doc="The arccosine of each element, in radians.",
    example=("torch.acos(torch.tensor([0., 1.]))", "tensor([1.5708, 0.0000])"),
)  # fmt: skip
atan = elementwise(
    "atan", arrays.arctan, lambda g, self: g / (self * self + 1), dtypes="float",
    public="torch method", alias="arctan", in_place="torch method",
    doc="The arctangent of each element, in radians.",
    example=("torch.atan(torch.tensor([0., 1.]))", "tensor([0.0000, 0.7854])"),
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

    >>> torch.atan2(torch.tensor([1., 1.]), torch.tensor([1., -1.]))
    tensor([0.7854, 2.3562])
    """,
)  # fmt: skip
sinh = elementwise(
    "sinh", arrays.sinh, lambda g, self: g * cosh(self), dtypes="float",
    public="torch method", in_place="torch method",
    doc="The hyperbolic sine of each element.",
    example=("torch.sinh(torch.tensor([0., 1.]))", "tensor([0.0000, 1.1752])"),
)  # fmt: skip
cosh: Elementwise = elementwise(
    "cosh", arrays.cosh, lambda g, self: g * sinh(self), dtypes="float",
    public="torch method", in_place="torch method",
    doc="The hyperbolic cosine of each element.",
    example=("torch.cosh(torch.tensor([0., 1.]))", "tensor([1.0000, 1.5431])"),
)  # fmt: skip
tanh = elementwise(
    "tanh", arrays.tanh, lambda g, result: g - g * (result * result), dtypes="float",
    public="torch method functional", in_place="torch method",
    words="The derivative of tanh is 1 − result²: near 1 in the middle, near 0 where it saturates.",
    doc="The hyperbolic tangent of each element.",
    example=("torch.tanh(torch.tensor([0., 1.]))", "tensor([0.0000, 0.7616])"),
)  # fmt: skip
# Subtracting -1 keeps the sign of an imaginary part of zero, and so the side of the cut.
asinh = elementwise(
    "asinh", arrays.arcsinh, lambda g, self: g * rsqrt(self * self - -1), dtypes="float",
    public="torch method", alias="arcsinh", in_place="torch method",
    doc="The inverse hyperbolic sine of each element.",
    example=("torch.asinh(torch.tensor([0., 1.]))", "tensor([0.0000, 0.8814])"),
)  # fmt: skip


def _acosh_rule(g: Any, self: Any) -> Any:
    if is_complex(self):  # where the root of the product may lie on the other branch
        return g * (rsqrt(self - 1) * rsqrt(self - -1))
    return g * rsqrt(self * self - 1)


acosh = elementwise(
    "acosh", arrays.arccosh, _acosh_rule, dtypes="float",
    public="torch method", alias="arccosh", in_place="torch method",
    doc="The inverse hyperbolic cosine of each element.",
    example=("torch.acosh(torch.tensor([1., 2.]))", "tensor([0.0000, 1.3170])"),
)  # fmt: skip
atanh = elementwise(
    "atanh", arrays.arctanh, lambda g, self: g / (1 - self * self), dtypes="float",
    public="torch method", alias="arctanh", in_place="torch method",
    doc="The inverse hyperbolic tangent of each element.",
    example=("torch.atanh(torch.tensor([0., 0.5]))", "tensor([0.0000, 0.5493])"),
)  # fmt: skip
