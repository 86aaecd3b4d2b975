"""Convolutions and their transposes, over one, two and three dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn import init
from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.tensor._creation import empty

PADDINGS = {"same", "valid"}
PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


def sizes(value: Any, count: int) -> tuple[Any, ...]:
    """One number for all dimensions, or one for each."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


class _Convolution(Module):
    """What all convolutions share. ``spatial`` is the number of dimensions that the window has."""

    spatial: ClassVar[int]
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
        """Draw weights and bias from an interval that shrinks with the number of inputs."""
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


class _Plain(_Convolution):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, 0,
                         groups, bias, padding_mode, device, dtype)  # fmt: skip
        self._convolve = getattr(F, f"conv{self.spatial}d")

    def forward(self, input: Any) -> Any:
        x, padding = input, self.padding
        if self.padding_mode != "zeros":
            x, padding = F.pad(input, self._around(), mode=self.padding_mode), (0,) * self.spatial
        return self._convolve(
            x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _around(self) -> list[int]:
        """How much to pad, in the order of ``F.pad``: the last dimension first."""
        if self.padding == "valid":
            return [0, 0] * self.spatial
        found = []
        for d in reversed(range(self.spatial)):
            if self.padding == "same":
                total = self.dilation[d] * (self.kernel_size[d] - 1)
                found += [total // 2, total - total // 2]
            else:
                found += [self.padding[d]] * 2
        return found


class Conv1d(_Plain):
    """A window that slides along sequences: ``(N, C, L)``.

    >>> import retrograd as torch
    >>> torch.nn.Conv1d(2, 4, kernel_size=3, padding=1)(torch.ones(1, 2, 5)).shape
    torch.Size([1, 4, 5])
    """

    spatial = 1


class Conv2d(_Plain):
    """A window that slides over images: ``(N, C, H, W)``.

    >>> import retrograd as torch
    >>> torch.nn.Conv2d(3, 8, kernel_size=3, stride=2)
    Conv2d(3, 8, kernel_size=(3, 3), stride=(2, 2))
    """

    spatial = 2


class Conv3d(_Plain):
    """A window that slides through volumes: ``(N, C, D, H, W)``."""

    spatial = 3


class _Transposed(_Convolution):
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

    def forward(self, input: Any, output_size: Sequence[int] | None = None) -> Any:
        extra = self.output_padding
        if output_size is not None:
            extra = self._reaching(input, list(output_size))
        return self._convolve(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _reaching(self, input: Any, wanted: list[int]) -> tuple[int, ...]:
        """The output padding that gives a size."""
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


class ConvTranspose1d(_Transposed):
    """The transpose of ``Conv1d``, which makes sequences longer."""

    spatial = 1


class ConvTranspose2d(_Transposed):
    """The transpose of ``Conv2d``, which makes images larger.

    >>> import retrograd as torch
    >>> torch.nn.ConvTranspose2d(8, 3, 2, stride=2)(torch.ones(1, 8, 4, 4)).shape
    torch.Size([1, 3, 8, 8])
    """

    spatial = 2


class ConvTranspose3d(_Transposed):
    """The transpose of ``Conv3d``, which makes volumes larger."""

    spatial = 3
