"""Convolutions and transposed convolutions over one, two and three dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn._options import Family
from retrograd.nn.parameter import Parameter
from retrograd.tensor._creation import empty
from retrograd.tensor._tensor import Tensor

PADDINGS = {"same", "valid"}
PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


def sizes(value: Any, count: int) -> tuple[Any, ...]:
    """A size for each of ``count`` dimensions, of one number for all or a sequence of them."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


class _Convolution(Family):
    """The base of all convolutions. ``spatial`` is the number of dimensions of the window."""

    transposed: ClassVar[bool] = False
    weight: Any
    bias: Any

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, output_padding: Any, groups: int, bias: bool, padding_mode: str,
        device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        n = self.spatial
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = sizes(kernel_size, n)
        self.stride = sizes(stride, n)
        self.padding = padding if isinstance(padding, str) else sizes(padding, n)
        self.dilation = sizes(dilation, n)
        self.output_padding = sizes(output_padding, n)
        self.groups = groups
        self.padding_mode = padding_mode
        self._check()
        first, second = out_channels, in_channels
        if self.transposed:
            first, second = second, first
        shape = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check(self) -> None:
        if self.groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) % self.groups:
                raise ValueError(f"{name} must be divisible by groups")
        if isinstance(self.padding, str):
            if self.padding not in PADDINGS:
                raise ValueError(
                    f"Invalid padding string {self.padding!r}, should be one of {PADDINGS}"
                )
            if self.padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {PADDING_MODES}, but got "
                f"padding_mode='{self.padding_mode}'"
            )

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from ``[-b, b]``, with ``b = 1 / sqrt(fan_in)``."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            bound = 1 / math.sqrt(fan_in) if fan_in else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zeros, ones = (0,) * self.spatial, (1,) * self.spatial
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}",
                 f"stride={self.stride}"]  # fmt: skip
        for name, usual in (("padding", zeros), ("dilation", ones), ("output_padding", zeros),
                            ("groups", 1)):  # fmt: skip
            if getattr(self, name) != usual:
                parts.append(f"{name}={getattr(self, name)}")
        parts += ["bias=False"] if self.bias is None else []
        parts += [f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []
        return ", ".join(parts)


_PLAIN = """\
Slides a window over the input and computes, for each output channel, the sum of products of the
window with the filter of that channel (a cross-correlation), plus a bias.

Args:
    in_channels: number of channels of the input.
    out_channels: number of channels of the output.
    kernel_size: size of the window, {sizes}.
    stride: distance between windows, {sizes}.
    padding: elements added on both sides, {sizes}; or "valid" for none, or "same" for an output
        as large as the input (with a stride of 1).
    dilation: distance between the elements of a window, {sizes}.
    groups: number of groups that channels are divided into. Each group of outputs sees one group
        of inputs only.
    bias: whether to add a learned bias to each output channel.
    padding_mode: "zeros", "reflect", "replicate" or "circular".
    device: must be the CPU.
    dtype: dtype of the parameters.

Shape:
    Input: ``(N, in_channels, {input})`` or ``(in_channels, {input})``.
    Output: ``(N, out_channels, {output})`` or ``(out_channels, {output})``; each output size is
    ``floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1)``.
    weight: ``(out_channels, in_channels / groups, *kernel_size)``. bias: ``(out_channels,)``.
"""


class _Plain(_Convolution):
    shared = _PLAIN

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, 0,
                         groups, bias, padding_mode, device, dtype)  # fmt: skip
        self._convolve = getattr(F, f"conv{self.spatial}d")

    def forward(self, input: Tensor) -> Tensor:
        x, padding = input, self.padding
        if self.padding_mode != "zeros":
            x = F.pad(input, self._pad_widths(), mode=self.padding_mode)
            padding = (0,) * self.spatial
        result: Tensor = self._convolve(
            x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )
        return result

    def _pad_widths(self) -> list[int]:
        """The widths of the padding in the order of ``F.pad``: the last dimension first."""
        if self.padding == "valid":
            return [0, 0] * self.spatial
        widths = []
        for d in reversed(range(self.spatial)):
            if self.padding == "same":
                total = self.dilation[d] * (self.kernel_size[d] - 1)
                widths += [total // 2, total - total // 2]
            else:
                widths += [self.padding[d]] * 2
        return widths


class Conv1d(_Plain, spatial=1):
    """Convolution over sequences.

    Example:
        >>> torch.nn.Conv1d(2, 4, kernel_size=3, padding=1)(torch.ones(1, 2, 5)).shape
        torch.Size([1, 4, 5])
    """


class Conv2d(_Plain, spatial=2):
    """Convolution over images.

    Example:
        >>> layer = torch.nn.Conv2d(3, 8, kernel_size=3, stride=2)
        >>> layer
        Conv2d(3, 8, kernel_size=(3, 3), stride=(2, 2))
        >>> layer(torch.ones(1, 3, 9, 9)).shape
        torch.Size([1, 8, 4, 4])
    """


class Conv3d(_Plain, spatial=3):
    """Convolution over volumes.

    Example:
        >>> torch.nn.Conv3d(1, 4, kernel_size=(1, 3, 3))(torch.ones(2, 1, 5, 6, 7)).shape
        torch.Size([2, 4, 5, 4, 5])
    """


_TRANSPOSED = """\
Computes the gradient of ``Conv{n}d`` with respect to its input, as a layer (also called
fractionally strided convolution, or deconvolution).

Args:
    in_channels: number of channels of the input.
    out_channels: number of channels of the output.
    kernel_size: size of the window, {sizes}.
    stride: distance between windows in the output, {sizes}.
    padding: elements removed on both sides of the output, {sizes}.
    output_padding: elements added on one side of the output, {sizes}; less than the stride or the
        dilation.
    groups: number of groups that channels are divided into.
    bias: whether to add a learned bias to each output channel.
    dilation: distance between the elements of a window, {sizes}.
    padding_mode: only "zeros".
    device: must be the CPU.
    dtype: dtype of the parameters.

Shape:
    Input: ``(N, in_channels, {input})`` or ``(in_channels, {input})``.
    Output: ``(N, out_channels, {output})`` or ``(out_channels, {output})``; each output size is
    ``(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``,
    or given by the argument ``output_size`` of the call.
    weight: ``(in_channels, out_channels / groups, *kernel_size)``. bias: ``(out_channels,)``.
"""


class _Transposed(_Convolution):
    shared = _TRANSPOSED
    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}'
            )
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation,
                         output_padding, groups, bias, padding_mode, device, dtype)  # fmt: skip
        self._convolve = getattr(F, f"conv_transpose{self.spatial}d")

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding
        if output_size is not None:
            extra = self._output_padding_for(input, list(output_size))
        result: Tensor = self._convolve(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip
        return result

    def _output_padding_for(self, input: Any, wanted: list[int]) -> tuple[int, ...]:
        """The output padding that gives an output of size ``wanted``."""
        n = self.spatial
        leading = 2 if input.dim() == n + 2 else 1
        if len(wanted) == leading + n:
            wanted = wanted[leading:]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{leading + n} elements (got {len(wanted)})"
            )
        least = [
            (input.shape[d + leading] - 1) * self.stride[d] - 2 * self.padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1) + 1
            for d in range(n)
        ]  # fmt: skip
        most = [low + step - 1 for low, step in zip(least, self.stride, strict=True)]
        if any(not low <= w <= high for low, w, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to "
                f"{most} (for an input of {input.shape[2:]})"
            )
        return tuple(w - low for w, low in zip(wanted, least, strict=True))


class ConvTranspose1d(_Transposed, spatial=1):
    """Transposed convolution over sequences.

    Example:
        >>> torch.nn.ConvTranspose1d(4, 2, 2, stride=2)(torch.ones(1, 4, 5)).shape
        torch.Size([1, 2, 10])
    """


class ConvTranspose2d(_Transposed, spatial=2):
    """Transposed convolution over images.

    Example:
        >>> torch.nn.ConvTranspose2d(8, 3, 2, stride=2)(torch.ones(1, 8, 4, 4)).shape
        torch.Size([1, 3, 8, 8])
    """


class ConvTranspose3d(_Transposed, spatial=3):
    """Transposed convolution over volumes.

    Example:
        >>> torch.nn.ConvTranspose3d(2, 1, 2, stride=2)(torch.ones(1, 2, 2, 3, 4)).shape
        torch.Size([1, 1, 4, 6, 8])
    """


__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip
