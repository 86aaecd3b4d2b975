"""Padding: layers that add elements around their input."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn._options import Family
from retrograd.nn.convolution import sizes
from retrograd.tensor._tensor import Tensor

_ARGUMENTS = """\
Args:
    padding: how many elements to add on every side: an int, or a tuple of 2 * {{n}} in the order of
        ``F.pad``, the last dimension first: (left, right, top, bottom, front, back). Negative
        widths remove elements.{value}

Shape:
    Input: ``(N, C, {{input}})`` or ``(C, {{input}})``.
    Output: ``(N, C, {{output}})`` or ``(C, {{output}})``; each size grows by both widths.
"""
_CONSTANT = _ARGUMENTS.format(value="\n    value: the constant.")
_PADDING = _ARGUMENTS.format(value="")


class _Padding(Family):
    shared = _PADDING
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = sizes(padding, 2 * self.spatial)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _Constant(_Padding):
    shared = _CONSTANT

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_Constant, spatial=1, mode="constant"):
    """Pad sequences with a constant.

    Example:
        >>> torch.nn.ConstantPad1d(1, 9.0)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[9., 1., 2., 3., 9.]])
    """


class ConstantPad2d(_Constant, spatial=2, mode="constant"):
    """Pad images with a constant.

    Example:
        >>> torch.nn.ConstantPad2d(1, 9.0)(torch.arange(4.0).reshape(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """


class ConstantPad3d(_Constant, spatial=3, mode="constant"):
    """Pad volumes with a constant.

    Example:
        >>> torch.nn.ConstantPad3d(1, 9.0)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 5, 6, 7])
    """


class ZeroPad1d(_Padding, spatial=1, mode="constant"):
    """Pad sequences with zeros.

    Example:
        >>> torch.nn.ZeroPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[0., 1., 2., 3., 0.]])
    """


class ZeroPad2d(_Padding, spatial=2, mode="constant"):
    """Pad images with zeros.

    Example:
        >>> torch.nn.ZeroPad2d(1)(torch.arange(4.0).reshape(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """


class ZeroPad3d(_Padding, spatial=3, mode="constant"):
    """Pad volumes with zeros.

    Example:
        >>> torch.nn.ZeroPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 5, 6, 7])
    """


class ReflectionPad1d(_Padding, spatial=1, mode="reflect"):
    """Pad sequences with the reflection of the input at its border.

    Example:
        >>> torch.nn.ReflectionPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[2., 1., 2., 3., 2.]])
    """


class ReflectionPad2d(_Padding, spatial=2, mode="reflect"):
    """Pad images with the reflection of the input at its border.

    Example:
        >>> torch.nn.ReflectionPad2d(1)(torch.arange(4.0).reshape(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """


class ReflectionPad3d(_Padding, spatial=3, mode="reflect"):
    """Pad volumes with the reflection of the input at its border.

    Example:
        >>> torch.nn.ReflectionPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 5, 6, 7])
    """


class ReplicationPad1d(_Padding, spatial=1, mode="replicate"):
    """Pad sequences with copies of the elements at the border.

    Example:
        >>> torch.nn.ReplicationPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[1., 1., 2., 3., 3.]])
    """


class ReplicationPad2d(_Padding, spatial=2, mode="replicate"):
    """Pad images with copies of the elements at the border.

    Example:
        >>> torch.nn.ReplicationPad2d(1)(torch.arange(4.0).reshape(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """


class ReplicationPad3d(_Padding, spatial=3, mode="replicate"):
    """Pad volumes with copies of the elements at the border.

    Example:
        >>> torch.nn.ReplicationPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 5, 6, 7])
    """


class CircularPad1d(_Padding, spatial=1, mode="circular"):
    """Pad sequences with the elements at the opposite border.

    Example:
        >>> torch.nn.CircularPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[3., 1., 2., 3., 1.]])
    """


class CircularPad2d(_Padding, spatial=2, mode="circular"):
    """Pad images with the elements at the opposite border.

    Example:
        >>> torch.nn.CircularPad2d(1)(torch.arange(4.0).reshape(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """


class CircularPad3d(_Padding, spatial=3, mode="circular"):
    """Pad volumes with the elements at the opposite border.

    Example:
        >>> torch.nn.CircularPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 5, 6, 7])
    """


__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip
