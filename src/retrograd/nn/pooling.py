"""Pooling: layers that reduce each window of their input to one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn._options import Family, WithOptions
from retrograd.nn.convolution import sizes
from retrograd.ops._sections import sections
from retrograd.tensor._tensor import Tensor

_MAX = """\
Args:
    kernel_size: size of the window, {sizes}.
    stride: distance between windows; ``kernel_size`` by default.
    padding: elements of minus infinity added on both sides; at most half a window.
    dilation: distance between the elements of a window.
    return_indices: also return the index of each maximum in its flattened input channel, for
        ``MaxUnpool{n}d``.
    ceil_mode: round the output size up in place of down, so that the last window may reach over
        the end.

Shape:
    Input: ``(N, C, {input})`` or ``(C, {input})``.
    Output: ``(N, C, {output})`` or ``(C, {output})``; each output size is
    ``floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1)``.
"""


class _MaxPool(WithOptions):
    shared = _MAX
    shown: ClassVar[tuple[str, ...]] = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size=kernel_size, stride=kernel_size if stride is None else stride,
            padding=padding, dilation=dilation, ceil_mode=ceil_mode, return_indices=return_indices,
        )  # fmt: skip

    if TYPE_CHECKING:  # the indices, too, if they are returned

        def forward(self, input: Tensor) -> Any: ...


class MaxPool1d(_MaxPool, spatial=1, function="max_pool1d"):
    """Max pooling over sequences.

    Example:
        >>> torch.nn.MaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
        tensor([[3., 2.]])
    """


class MaxPool2d(_MaxPool, spatial=2, function="max_pool2d"):
    """Max pooling over images.

    Example:
        >>> torch.nn.MaxPool2d(2)(torch.arange(16.0).reshape(1, 4, 4))
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
    """


class MaxPool3d(_MaxPool, spatial=3, function="max_pool3d"):
    """Max pooling over volumes.

    Example:
        >>> torch.nn.MaxPool3d(2)(torch.zeros(1, 3, 4, 4, 4)).shape
        torch.Size([1, 3, 2, 2, 2])
    """


_UNPOOL = """\
Args:
    kernel_size: size of the window that was pooled, {sizes}.
    stride: distance between windows; ``kernel_size`` by default.
    padding: padding that was added before pooling.

Shape:
    Input and indices: ``(N, C, {input})`` or ``(C, {input})``, as ``MaxPool{n}d`` returned them.
    Output: ``(N, C, {output})`` or ``(C, {output})``; each output size is
    ``(size - 1) * stride - 2 * padding + kernel_size``, or given by the argument ``output_size``
    of the call.
"""


class _MaxUnpool(Family):
    shared = _UNPOOL

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        n = self.spatial
        self.kernel_size = sizes(kernel_size, n)
        self.stride = sizes(kernel_size if stride is None else stride, n)
        self.padding = sizes(padding, n)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        unpool = getattr(F, f"max_unpool{self.spatial}d")
        window = (self.kernel_size, self.stride, self.padding)
        result: Tensor = unpool(input, indices, *window, output_size)
        return result

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool, spatial=1):
    """Partial inverse of ``MaxPool1d``: maxima at their indices, zeros elsewhere.

    Example:
        >>> pool = torch.nn.MaxPool1d(2, return_indices=True)
        >>> maxima, indices = pool(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
        >>> torch.nn.MaxUnpool1d(2)(maxima, indices)
        tensor([[0., 3., 2., 0.]])
    """


class MaxUnpool2d(_MaxUnpool, spatial=2):
    """Partial inverse of ``MaxPool2d``: maxima at their indices, zeros elsewhere.

    Example:
        >>> pool = torch.nn.MaxPool2d(2, return_indices=True)
        >>> maxima, indices = pool(torch.arange(4.0).reshape(1, 2, 2))
        >>> torch.nn.MaxUnpool2d(2)(maxima, indices)
        tensor([[[0., 0.],
                 [0., 3.]]])
    """


class MaxUnpool3d(_MaxUnpool, spatial=3):
    """Partial inverse of ``MaxPool3d``: maxima at their indices, zeros elsewhere.

    Example:
        >>> pool = torch.nn.MaxPool3d(2, return_indices=True)
        >>> maxima, indices = pool(torch.ones(1, 4, 4, 4))
        >>> torch.nn.MaxUnpool3d(2)(maxima, indices).sum()
        tensor(8.)
    """


_AVERAGE = """\
Args:
    kernel_size: size of the window, {{sizes}}.
    stride: distance between windows; ``kernel_size`` by default.
    padding: zeros added on both sides; at most half a window.
    ceil_mode: round the output size up in place of down, so that the last window may reach over
        the end.
    count_include_pad: count padding as elements when dividing.{divisor}

Shape:
    Input: ``(N, C, {{input}})`` or ``(C, {{input}})``.
    Output: ``(N, C, {{output}})`` or ``(C, {{output}})``; each output size is
    ``floor((size + 2 * padding - kernel_size) / stride + 1)``.
"""
_AVERAGE_1D = _AVERAGE.format(divisor="")
_AVERAGE_ND = _AVERAGE.format(
    divisor="\n    divisor_override: divide by this number, not by the number of elements."
)


@sections(_AVERAGE_1D, 1)
class AvgPool1d(WithOptions, function="avg_pool1d"):
    """Average pooling over sequences.

    Example:
        >>> torch.nn.AvgPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
        tensor([[2., 1.]])
    """

    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size=sizes(kernel_size, 1),
            stride=sizes(kernel_size if stride is None else stride, 1), padding=sizes(padding, 1),
            ceil_mode=ceil_mode, count_include_pad=count_include_pad,
        )  # fmt: skip


class _AvgPool(WithOptions):
    shared = _AVERAGE_ND
    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size=kernel_size, stride=kernel_size if stride is None else stride,
            padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad,
            divisor_override=divisor_override,
        )  # fmt: skip


class AvgPool2d(_AvgPool, spatial=2, function="avg_pool2d"):
    """Average pooling over images.

    Example:
        >>> torch.nn.AvgPool2d(2)(torch.arange(16.0).reshape(1, 4, 4))
        tensor([[[ 2.5000,  4.5000],
                 [10.5000, 12.5000]]])
    """


class AvgPool3d(_AvgPool, spatial=3, function="avg_pool3d"):
    """Average pooling over volumes.

    Example:
        >>> torch.nn.AvgPool3d(2)(torch.ones(1, 3, 4, 4, 4)).shape
        torch.Size([1, 3, 2, 2, 2])
    """


_POWER = """\
Each result is ``(sum of x**p over the window)**(1 / p)``, with ``p = norm_type``.

Args:
    norm_type: the exponent ``p``; 1 gives sums, infinity maxima.
    kernel_size: size of the window, {sizes}.
    stride: distance between windows; ``kernel_size`` by default.
    ceil_mode: round the output size up in place of down.

Shape:
    Input: ``(N, C, {input})`` or ``(C, {input})``.
    Output: ``(N, C, {output})`` or ``(C, {output})``; each output size is
    ``floor((size - kernel_size) / stride + 1)``.
"""


class _LPPool(WithOptions):
    shared = _POWER
    shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__(
            norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode
        )


class LPPool1d(_LPPool, spatial=1, function="lp_pool1d"):
    """Power-average pooling over sequences.

    Example:
        >>> torch.nn.LPPool1d(2, 2)(torch.tensor([[3.0, 4.0]]))
        tensor([[5.]])
    """


class LPPool2d(_LPPool, spatial=2, function="lp_pool2d"):
    """Power-average pooling over images.

    Example:
        >>> torch.nn.LPPool2d(2, 2)(torch.ones(1, 2, 2))
        tensor([[[2.]]])
    """


class LPPool3d(_LPPool, spatial=3, function="lp_pool3d"):
    """Power-average pooling over volumes.

    Example:
        >>> torch.nn.LPPool3d(2, 2)(torch.ones(1, 3, 4, 4, 4)).shape
        torch.Size([1, 3, 2, 2, 2])
    """


_ADAPTIVE = """\
The windows cover the input evenly: along each dimension, the i-th begins at
``floor(i * size / output_size)`` and ends before ``ceil((i + 1) * size / output_size)``.

Args:
    output_size: size of the output, {{sizes}}; None keeps the size of a dimension.{indices}

Shape:
    Input: ``(N, C, {{input}})`` or ``(C, {{input}})``.
    Output: ``(N, C, {{output}})`` or ``(C, {{output}})``, sizes as ``output_size`` says.
"""
_ADAPTIVE_MAX = _ADAPTIVE.format(indices="""
    return_indices: also return the index of each maximum in its flattened input channel.""")
_ADAPTIVE_AVERAGE = _ADAPTIVE.format(indices="")


class _AdaptiveMaxPool(WithOptions):
    shared = _ADAPTIVE_MAX
    shown = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size=output_size, return_indices=return_indices)

    if TYPE_CHECKING:  # the indices, too, if they are returned

        def forward(self, input: Tensor) -> Any: ...


class AdaptiveMaxPool1d(_AdaptiveMaxPool, spatial=1, function="adaptive_max_pool1d"):
    """Max pooling of sequences to a given length.

    Example:
        >>> torch.nn.AdaptiveMaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
        tensor([[3., 2.]])
    """


class AdaptiveMaxPool2d(_AdaptiveMaxPool, spatial=2, function="adaptive_max_pool2d"):
    """Max pooling of images to a given size.

    Example:
        >>> torch.nn.AdaptiveMaxPool2d((1, 2))(torch.arange(16.0).reshape(1, 4, 4))
        tensor([[[13., 15.]]])
    """


class AdaptiveMaxPool3d(_AdaptiveMaxPool, spatial=3, function="adaptive_max_pool3d"):
    """Max pooling of volumes to a given size.

    Example:
        >>> torch.nn.AdaptiveMaxPool3d(1)(torch.ones(2, 3, 5, 7, 9)).shape
        torch.Size([2, 3, 1, 1, 1])
    """


class _AdaptiveAvgPool(WithOptions):
    shared = _ADAPTIVE_AVERAGE
    shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__(output_size=output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool, spatial=1, function="adaptive_avg_pool1d"):
    """Average pooling of sequences to a given length.

    Example:
        >>> torch.nn.AdaptiveAvgPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
        tensor([[2., 1.]])
    """


class AdaptiveAvgPool2d(_AdaptiveAvgPool, spatial=2, function="adaptive_avg_pool2d"):
    """Average pooling of images to a given size.

    Example:
        >>> torch.nn.AdaptiveAvgPool2d(1)(torch.ones(2, 3, 5, 7)).shape
        torch.Size([2, 3, 1, 1])
    """


class AdaptiveAvgPool3d(_AdaptiveAvgPool, spatial=3, function="adaptive_avg_pool3d"):
    """Average pooling of volumes to a given size.

    Example:
        >>> torch.nn.AdaptiveAvgPool3d((1, None, 2))(torch.ones(2, 3, 5, 7, 9)).shape
        torch.Size([2, 3, 1, 7, 2])
    """


__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip
