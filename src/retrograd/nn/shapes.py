"""Layers that only arrange their input otherwise: flat, padded, larger, shuffled."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn._options import WithOptions
from retrograd.nn.convolution import sizes
from retrograd.nn.module import Module


class Flatten(Module):
    """Some dimensions made one; by default all but the first.

    >>> import retrograd as torch
    >>> torch.nn.Flatten()(torch.ones(2, 3, 4)).shape
    torch.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension made several."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError("invalid argument type for dim parameter")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                "unflattened_size must be a tuple of ints, but found type "
                f"{type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {i}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Any) -> Any:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(WithOptions):
    """Channels made pixels: ``(C * r * r, H, W)`` becomes ``(C, H * r, W * r)``."""

    function = "pixel_shuffle"
    shown = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__(upscale_factor=upscale_factor)


class PixelUnshuffle(WithOptions):
    """Pixels made channels, the inverse of ``PixelShuffle``."""

    function = "pixel_unshuffle"
    shown = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__(downscale_factor=downscale_factor)


class ChannelShuffle(WithOptions):
    """Channels of several groups, dealt out in turns."""

    function = "channel_shuffle"
    shown = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__(groups=groups)


class Upsample(Module):
    """An input made larger, to a size or by a factor.

    >>> import retrograd as torch
    >>> torch.nn.Upsample(scale_factor=2)(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
        align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Any:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images made larger by repeating pixels."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Images made larger by straight lines between pixels."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class Fold(WithOptions):
    """Windows put back where they overlap, and summed: the transpose of ``Unfold``."""

    function = "fold"
    shown = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
        stride: Any = 1,
    ) -> None:  # fmt: skip
        super().__init__(output_size=output_size, kernel_size=kernel_size, dilation=dilation,
                         padding=padding, stride=stride)  # fmt: skip


class Unfold(WithOptions):
    """Every window of an image as a column."""

    function = "unfold"
    shown = ("kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(
            kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
        )


# -- padding -----------------------------------------------------------------------------------


class _Padding(Module):
    """Something around the input, as much on each side as ``padding`` says."""

    spatial: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = sizes(padding, 2 * self.spatial)

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _Constant(_Padding):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _Zeros(_Padding):
    mode = "constant"


def _padding(name: str, base: type[_Padding], what: str, spatial: int, mode: str) -> Any:
    """A class for padding of one kind, over so many dimensions."""
    doc = f"{what} around inputs of {spatial} dimension{'s' if spatial > 1 else ''}."
    members = {"spatial": spatial, "mode": mode, "__doc__": doc, "__module__": __name__}
    return type(f"{name}{spatial}d", (base,), members)


ConstantPad1d, ConstantPad2d, ConstantPad3d = (
    _padding("ConstantPad", _Constant, "One value", n, "constant") for n in (1, 2, 3)
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = (
    _padding("ZeroPad", _Zeros, "Zeros", n, "constant") for n in (1, 2, 3)
)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (
    _padding("ReflectionPad", _Padding, "A mirror image", n, "reflect") for n in (1, 2, 3)
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (
    _padding("ReplicationPad", _Padding, "The outermost elements", n, "replicate")
    for n in (1, 2, 3)
)
CircularPad1d, CircularPad2d, CircularPad3d = (
    _padding("CircularPad", _Padding, "The other end", n, "circular") for n in (1, 2, 3)
)
