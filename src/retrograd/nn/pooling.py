"""Layers that reduce windows of their input to one number each."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn._options import WithOptions
from retrograd.nn.convolution import sizes
from retrograd.nn.module import Module


class _MaxPool(WithOptions):
    shown: ClassVar[tuple[str, ...]] = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size=kernel_size, stride=kernel_size if stride is None else stride,
            padding=padding, dilation=dilation, ceil_mode=ceil_mode, return_indices=return_indices,
        )  # fmt: skip


class MaxPool1d(_MaxPool):
    """The largest number of each window of a sequence."""

    function = "max_pool1d"


class MaxPool2d(_MaxPool):
    """The largest number of each window of an image.

    >>> import retrograd as torch
    >>> torch.nn.MaxPool2d(2)(torch.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    function = "max_pool2d"


class MaxPool3d(_MaxPool):
    """The largest number of each window of a volume."""

    function = "max_pool3d"


class _MaxUnpool(Module):
    spatial: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        n = self.spatial
        self.kernel_size = sizes(kernel_size, n)
        self.stride = sizes(kernel_size if stride is None else stride, n)
        self.padding = sizes(padding, n)

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        unpool = getattr(F, f"max_unpool{self.spatial}d")
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts back what ``MaxPool1d`` took, with zeros around it."""

    spatial = 1


class MaxUnpool2d(_MaxUnpool):
    """Puts back what ``MaxPool2d`` took, with zeros around it."""

    spatial = 2


class MaxUnpool3d(_MaxUnpool):
    """Puts back what ``MaxPool3d`` took, with zeros around it."""

    spatial = 3


class AvgPool1d(WithOptions):
    """The mean of each window of a sequence."""

    function = "avg_pool1d"
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


class AvgPool2d(_AvgPool):
    """The mean of each window of an image."""

    function = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """The mean of each window of a volume."""

    function = "avg_pool3d"


class _LPPool(WithOptions):
    shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__(
            norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode
        )


class LPPool1d(_LPPool):
    """The p-norm of each window of a sequence."""

    function = "lp_pool1d"


class LPPool2d(_LPPool):
    """The p-norm of each window of an image."""

    function = "lp_pool2d"


class LPPool3d(_LPPool):
    """The p-norm of each window of a volume."""

    function = "lp_pool3d"


class _AdaptiveMaxPool(WithOptions):
    shown = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size=output_size, return_indices=return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """As many windows as are wanted, and the largest number of each."""

    function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """As ``AdaptiveMaxPool1d``, of images."""

    function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """As ``AdaptiveMaxPool1d``, of volumes."""

    function = "adaptive_max_pool3d"


class _AdaptiveAvgPool(WithOptions):
    shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__(output_size=output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """As many windows as are wanted, and the mean of each."""

    function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """As ``AdaptiveAvgPool1d``, of images.

    >>> import retrograd as torch
    >>> torch.nn.AdaptiveAvgPool2d(1)(torch.ones(2, 3, 5, 7)).shape
    torch.Size([2, 3, 1, 1])
    """

    function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """As ``AdaptiveAvgPool1d``, of volumes."""

    function = "adaptive_avg_pool3d"
