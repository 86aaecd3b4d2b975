"""Softmax layers, and gated linear units: functions of the elements along a dimension."""

from __future__ import annotations

from retrograd.nn import functional as F
from retrograd.nn._options import WithOptions
from retrograd.nn.module import Module
from retrograd.tensor._tensor import Tensor


class _AlongDim(WithOptions):
    shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)


class Softmax(_AlongDim, function="softmax"):
    """Softmax: ``exp(x_i) / sum_j exp(x_j)`` along a dimension.

    Args:
        dim: dimension along which the results sum to one. If omitted, it is chosen by the number
            of dimensions, with a warning, as in PyTorch.

    Shape:
        Input and output: any shape.

    Example:
        >>> torch.nn.Softmax(dim=0)(torch.tensor([0.0, 1.0]))
        tensor([0.2689, 0.7311])
    """


class Softmin(_AlongDim, function="softmin"):
    """Softmin: ``softmax(-x)``.

    Args:
        dim: dimension along which the results sum to one.

    Shape:
        Input and output: any shape.

    Example:
        >>> torch.nn.Softmin(dim=0)(torch.tensor([0.0, 1.0]))
        tensor([0.7311, 0.2689])
    """


class LogSoftmax(_AlongDim, function="log_softmax"):
    """Logarithm of the softmax: ``x_i - log(sum_j exp(x_j))`` along a dimension.

    Args:
        dim: dimension along which the exponentials of the results sum to one.

    Shape:
        Input and output: any shape.

    Example:
        >>> torch.nn.LogSoftmax(dim=0)(torch.tensor([0.0, 1.0]))
        tensor([-1.3133, -0.3133])
    """


class Softmax2d(Module):
    """Softmax over the channels of an image, at every pixel.

    Shape:
        Input and output: ``(N, C, H, W)`` or ``(C, H, W)``.

    Example:
        >>> torch.nn.Softmax2d()(torch.zeros(2, 1, 1)).flatten()
        tensor([0.5000, 0.5000])
    """

    def __init__(self) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)


class GLU(WithOptions, function="glu"):
    """Gated linear unit: ``a * sigmoid(b)``, where ``a`` and ``b`` are halves of the input.

    Args:
        dim: dimension to split in halves; its size must be even.

    Shape:
        Input: any shape, with size ``2 * M`` along ``dim``.
        Output: the same shape, with size ``M`` along ``dim``.

    Example:
        >>> torch.nn.GLU()(torch.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """

    shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)


__all__ = ["GLU", "LogSoftmax", "Softmax", "Softmax2d", "Softmin"]
