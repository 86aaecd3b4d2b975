"""Layers that rearrange their input: flatten, shuffle, resize, extract windows."""

from __future__ import annotations

from typing import Any

from retrograd.nn import functional as F
from retrograd.nn._options import WithOptions
from retrograd.nn.module import Module
from retrograd.tensor._tensor import Tensor


class Flatten(Module):
    """Merge a range of dimensions into one.

    Args:
        start_dim: first dimension of the range.
        end_dim: last dimension of the range.

    Shape:
        Input: ``(*, S_start, ..., S_end, *)``. Output: ``(*, S_start * ... * S_end, *)``.

    Example:
        >>> torch.nn.Flatten()(torch.ones(2, 3, 4)).shape
        torch.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split a dimension into several.

    Named dimensions, which PyTorch takes as well, are not supported.

    Args:
        dim: dimension to split.
        unflattened_size: sizes of the new dimensions; -1 for one that follows from the others.

    Shape:
        Input: ``(*, S_dim, *)``. Output: ``(*, *unflattened_size, *)``.

    Example:
        >>> torch.nn.Unflatten(1, (3, 4))(torch.ones(2, 12)).shape
        torch.Size([2, 3, 4])
    """

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

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(WithOptions, function="pixel_shuffle"):
    """Rearrange channels into blocks of ``r * r`` pixels, ``r = upscale_factor``.

    Args:
        upscale_factor: factor by which height and width grow.

    Shape:
        Input: ``(*, C * r * r, H, W)``. Output: ``(*, C, H * r, W * r)``.

    Example:
        >>> torch.nn.PixelShuffle(2)(torch.arange(4.0).reshape(4, 1, 1))
        tensor([[[0., 1.],
                 [2., 3.]]])
    """

    shown = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__(upscale_factor=upscale_factor)


class PixelUnshuffle(WithOptions, function="pixel_unshuffle"):
    """Rearrange blocks of ``r * r`` pixels into channels: the inverse of ``PixelShuffle``.

    Args:
        downscale_factor: the factor ``r`` by which height and width shrink.

    Shape:
        Input: ``(*, C, H * r, W * r)``. Output: ``(*, C * r * r, H, W)``.

    Example:
        >>> torch.nn.PixelUnshuffle(2)(torch.ones(1, 4, 6)).shape
        torch.Size([4, 2, 3])
    """

    shown = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__(downscale_factor=downscale_factor)


class ChannelShuffle(WithOptions, function="channel_shuffle"):
    """Interleave the channels of several groups.

    Args:
        groups: number of groups; divides the number of channels.

    Shape:
        Input and output: ``(N, C, *)``.

    Example:
        >>> torch.nn.ChannelShuffle(2)(torch.arange(4.0).reshape(1, 4, 1)).flatten()
        tensor([0., 2., 1., 3.])
    """

    shown = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__(groups=groups)


class Upsample(Module):
    """Resize sequences, images or volumes by interpolation.

    Args:
        size: sizes of the output, an int or a tuple with one for each spatial dimension.
        scale_factor: factors in place of sizes; one of the two must be given.
        mode: "nearest", "linear" (3-D input), "bilinear" or "bicubic" (4-D), "trilinear" (5-D).
        align_corners: align the centers of the elements at the corners, and not the corners
            themselves. Not for "nearest".
        recompute_scale_factor: compute the factors anew from the sizes of the output.

    Shape:
        Input: ``(N, C, L)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        Output: the same with the sizes asked for; with factors ``floor(size * scale_factor)``.

    Example:
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

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Enlarge images by repeating the nearest pixel.

    Args:
        size: height and width of the output.
        scale_factor: factors in place of sizes.

    Shape:
        Input: ``(N, C, H, W)``. Output: ``(N, C, H_out, W_out)``.

    Example:
        >>> torch.nn.UpsamplingNearest2d(scale_factor=2)(torch.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1., 1., 2., 2.],
                  [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Enlarge images by bilinear interpolation, with ``align_corners=True``.

    Args:
        size: height and width of the output.
        scale_factor: factors in place of sizes.

    Shape:
        Input: ``(N, C, H, W)``. Output: ``(N, C, H_out, W_out)``.

    Example:
        >>> torch.nn.UpsamplingBilinear2d(size=(1, 3))(torch.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class Fold(WithOptions, function="fold"):
    """Sum windows, given as columns, into images: the transpose of ``Unfold``.

    Args:
        output_size: height and width of the images.
        kernel_size: size of the windows, an int or a tuple of 2.
        dilation: distance between the elements of a window.
        padding: elements around the images that windows reach into.
        stride: distance between windows.

    Shape:
        Input: ``(N, C * prod(kernel_size), windows)`` or without ``N``.
        Output: ``(N, C, *output_size)`` or without ``N``.

    Example:
        >>> torch.nn.Fold((2, 3), kernel_size=2)(torch.ones(1, 4, 2))
        tensor([[[[1., 2., 1.],
                  [1., 2., 1.]]]])
    """

    shown = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
        stride: Any = 1,
    ) -> None:  # fmt: skip
        super().__init__(output_size=output_size, kernel_size=kernel_size, dilation=dilation,
                         padding=padding, stride=stride)  # fmt: skip


class Unfold(WithOptions, function="unfold"):
    """Extract the windows of images as columns.

    Args:
        kernel_size: size of the windows, an int or a tuple of 2.
        dilation: distance between the elements of a window.
        padding: zeros added around the images.
        stride: distance between windows.

    Shape:
        Input: ``(N, C, H, W)`` or ``(C, H, W)``.
        Output: ``(N, C * prod(kernel_size), windows)`` or without ``N``.

    Example:
        >>> torch.nn.Unfold(kernel_size=2)(torch.arange(6.0).reshape(1, 1, 2, 3))
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])
    """

    shown = ("kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(
            kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
        )


__all__ = [
    "ChannelShuffle", "Flatten", "Fold", "PixelShuffle", "PixelUnshuffle", "Unflatten", "Unfold",
    "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
]  # fmt: skip
