"""Padding: layers that add elements around their input."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn.convolution import sizes
from retrograd.nn.module import Module
from retrograd.ops._sections import sections
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


class _Padding(Module):
    spatial: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = sizes(padding, 2 * self.spatial)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _Constant(_Padding):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


@sections(_CONSTANT, 1)
class ConstantPad1d(_Constant):
    """Pad sequences with a constant.

    Example:
        >>> torch.nn.ConstantPad1d(1, 9.0)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[9., 1., 2., 3., 9.]])
    """

    spatial, mode = 1, "constant"


@sections(_CONSTANT, 2)
class ConstantPad2d(_Constant):
    """Pad images with a constant.

    Example:
        >>> torch.nn.ConstantPad2d(1, 9.0)(torch.arange(4.0).reshape(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """

    spatial, mode = 2, "constant"


@sections(_CONSTANT, 3)
class ConstantPad3d(_Constant):
    """Pad volumes with a constant.

    Example:
        >>> torch.nn.ConstantPad3d(1, 9.0)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 5, 6, 7])
    """

    spatial, mode = 3, "constant"


@sections(_PADDING, 1)
class ZeroPad1d(_Padding):
    """Pad sequences with zeros.

    Example:
        >>> torch.nn.ZeroPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[0., 1., 2., 3., 0.]])
    """

    spatial, mode = 1, "constant"


@sections(_PADDING, 2)
class ZeroPad2d(_Padding):
    """Pad images with zeros.

    Example:
        >>> torch.nn.ZeroPad2d(1)(torch.arange(4.0).reshape(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """

    spatial, mode = 2, "constant"


@sections(_PADDING, 3)
class ZeroPad3d(_Padding):
    """Pad volumes with zeros.

    Example:
        >>> torch.nn.ZeroPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 5, 6, 7])
    """

    spatial, mode = 3, "constant"


@sections(_PADDING, 1)
class ReflectionPad1d(_Padding):
    """Pad sequences with the reflection of the input at its border.

    Example:
        >>> torch.nn.ReflectionPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[2., 1., 2., 3., 2.]])
    """

    spatial, mode = 1, "reflect"


@sections(_PADDING, 2)
class ReflectionPad2d(_Padding):
    """Pad images with the reflection of the input at its border.

    Example:
        >>> torch.nn.ReflectionPad2d(1)(torch.arange(4.0).reshape(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """

    spatial, mode = 2, "reflect"


@sections(_PADDING, 3)
class ReflectionPad3d(_Padding):
    """Pad volumes with the reflection of the input at its border.

    Example:
        >>> torch.nn.ReflectionPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 5, 6, 7])
    """

    spatial, mode = 3, "reflect"


@sections(_PADDING, 1)
class ReplicationPad1d(_Padding):
    """Pad sequences with copies of the elements at the border.

    Example:
        >>> torch.nn.ReplicationPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[1., 1., 2., 3., 3.]])
    """

    spatial, mode = 1, "replicate"


@sections(_PADDING, 2)
class ReplicationPad2d(_Padding):
    """Pad images with copies of the elements at the border.

    Example:
        >>> torch.nn.ReplicationPad2d(1)(torch.arange(4.0).reshape(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """

    spatial, mode = 2, "replicate"


@sections(_PADDING, 3)
class ReplicationPad3d(_Padding):
    """Pad volumes with copies of the elements at the border.

    Example:
        >>> torch.nn.ReplicationPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 5, 6, 7])
    """

    spatial, mode = 3, "replicate"


@sections(_PADDING, 1)
class CircularPad1d(_Padding):
    """Pad sequences with the elements at the opposite border.

    Example:
        >>> torch.nn.CircularPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[3., 1., 2., 3., 1.]])
    """

    spatial, mode = 1, "circular"


@sections(_PADDING, 2)
class CircularPad2d(_Padding):
    """Pad images with the elements at the opposite border.

    Example:
        >>> torch.nn.CircularPad2d(1)(torch.arange(4.0).reshape(1, 2, 2)).shape
        torch.Size([1, 4, 4])
    """

    spatial, mode = 2, "circular"


@sections(_PADDING, 3)
class CircularPad3d(_Padding):
    """Pad volumes with the elements at the opposite border.

    Example:
        >>> torch.nn.CircularPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
        torch.Size([1, 5, 6, 7])
    """

    spatial, mode = 3, "circular"


__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d",
    "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d",
    "ZeroPad3d",
]  # fmt: skip
