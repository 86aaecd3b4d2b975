"""Complex numbers from their parts, their angles and conjugates."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.arrays import _pointwise as pointwise
from retrograd.ops._arguments import check_tensor
from retrograd.ops._operation import Elementwise, elementwise, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import Check
from retrograd.ops.comparisons import eq
from retrograd.ops.copies import conj, imag, real, zeros_like
from retrograd.ops.piecewise import where
from retrograd.ops.pointwise.trigonometry import cos, sin


def _angle_rule(g: Any, self: Any) -> Any:
    if raw(self).dtype.kind != "c":
        return zeros_like(g)
    square = real(self * conj(self))
    gradient = g * self / square * 1j
    return where(eq(self, 0), zeros_like(gradient), gradient)


angle = elementwise(
    "angle", pointwise.angle, _angle_rule, dtypes="float", adjoint=True,
    public="torch method",
    doc="The argument (angle) of each complex number, in radians.",
    example=("torch.angle(torch.tensor([1j, -1.0 + 0j]))", "tensor([1.5708, 3.1416])"),
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

    Example:
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

    Example:
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

    Returns:
        A tensor of the same shape; a real ``input`` is returned itself.

    Example:
        >>> torch.conj_physical(torch.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    check_tensor("conj_physical", "input", 1, input)
    return _conj_physical(input) if raw(input).dtype.kind == "c" else input


@public("torch method")
def resolve_conj(input: Any) -> Any:
    """A tensor without a pending conjugation, which no tensor has here.

    Returns:
        ``input`` itself.

    Example:
        >>> torch.resolve_conj(torch.tensor([1j]).conj())
        tensor([0.-1.j])
    """
    check_tensor("resolve_conj", "input", 1, input)
    return input


@public("torch method")
def resolve_neg(input: Any) -> Any:
    """A tensor without a pending negation, which no tensor has here.

    Returns:
        ``input`` itself.

    Example:
        >>> torch.resolve_neg(torch.tensor([1., -2.]))
        tensor([ 1., -2.])
    """
    check_tensor("resolve_neg", "input", 1, input)
    return input


@public("torch method")
def is_conj(input: Any) -> bool:
    """Whether a conjugation of the tensor is pending. Here conjugations are computed at once.

    Returns:
        False.

    Example:
        >>> torch.is_conj(torch.tensor([1j]).conj())
        False
    """
    check_tensor("is_conj", "input", 1, input)
    return False


@public("torch method")
def is_neg(input: Any) -> bool:
    """Whether a negation of the tensor is pending. Here negations are computed at once.

    Returns:
        False.

    Example:
        >>> torch.is_neg(torch.tensor([1.]))
        False
    """
    check_tensor("is_neg", "input", 1, input)
    return False
