"""Resizing of images, and shuffling between channels and pixels."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._dims import is_integer
from retrograd.ops._operation import Linear, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops._sections import like
from retrograd.ops.networks.avg_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)

Sizes = tuple[int, ...]
Factors = tuple[float | None, ...]

# -- resizing --------------------------------------------------------------------------------


def _maps(
    mode: str, sizes: Sequence[int], counts: Sequence[int], align_corners: bool, scales: Factors
) -> list[Any]:
    return [
        arrays.images.resizing(mode, n, m, align_corners, s)
        for n, m, s in zip(sizes, counts, scales, strict=True)
    ]


def _resize(self: Raw, mode: str, output_size: Sizes, align_corners: bool, scales: Factors) -> Raw:
    maps = _maps(mode, self.shape[-len(scales) :], output_size, align_corners, scales)
    return arrays.windows.alike(self, arrays.images.resample(self, maps))


def _unresize(self: Raw, mode: str, sizes: Sizes, align_corners: bool, scales: Factors) -> Raw:
    maps = _maps(mode, sizes, self.shape[-len(scales) :], align_corners, scales)
    return arrays.images.unresample(self, maps)


def _resize_rule(
    g: Any, shape: Sequence[int], mode: str, align_corners: bool, scales: Factors
) -> Any:
    sizes = tuple(shape[-len(scales) :])
    return unresize(g, mode=mode, sizes=sizes, align_corners=align_corners, scales=scales)


def _unresize_rule(
    g: Any, shape: Sequence[int], mode: str, sizes: Sizes, align_corners: bool, scales: Factors
) -> Any:
    counts = tuple(shape[-len(sizes) :])
    return RESIZE[mode, len(sizes)](
        g, mode=mode, output_size=counts, align_corners=align_corners, scales=scales
    )


_KINDS = {
    ("nearest", 1): ("nearest1d", "Nearest1D", "compute_indices_weights_nearest"),
    ("nearest", 2): ("nearest2d", "Nearest2D", "upsample_nearest2d_channels_last"),
    ("nearest", 3): ("nearest3d", "Nearest3D", "compute_indices_weights_nearest"),
    ("nearest-exact", 1): ("nearest_exact1d", "NearestExact1D", "compute_indices_weights_nearest"),
    ("nearest-exact", 2): ("nearest_exact2d", "NearestExact2D", "upsample_nearest2d_channels_last"),
    ("nearest-exact", 3): ("nearest_exact3d", "NearestExact3D", "compute_indices_weights_nearest"),
    ("linear", 1): ("linear1d", "Linear1D", "compute_indices_weights_linear"),
    ("linear", 2): ("bilinear2d", "Bilinear2D", "upsample_bilinear2d_channels_last"),
    ("linear", 3): ("trilinear3d", "Trilinear3D", "compute_indices_weights_linear"),
    ("cubic", 2): ("bicubic2d", "Bicubic2D", "compute_indices_weights_cubic"),
    ("linear-antialias", 2): ("bilinear2d_aa", "Bilinear2DAa", "compute_index_ranges_weights"),
    ("cubic-antialias", 2): ("bicubic2d_aa", "Bicubic2DAa", "compute_index_ranges_weights"),
    ("lanczos-antialias", 2): ("lanczos2d_aa", "Lanczos2DAa", "compute_index_ranges_weights"),
}
RESIZE: dict[tuple[str, int], Linear] = {
    key: declare(
        f"upsample_{name}", _resize, _resize_rule, node=f"Upsample{word}Backward0",
        check=kernel(words, "bic"), batch="leading",
    ) for key, (name, word, words) in _KINDS.items()
}  # fmt: skip
unresize: Linear = declare(
    "unresize", _unresize, _unresize_rule, node="UpsampleBackwardBackward0", batch="leading"
)


def _refuse_sizes(x: Raw, counts: Sizes) -> None:
    sizes, shape = x.shape[2:], list(x.shape)
    if min(sizes, default=1) < 1 or min(counts, default=1) < 1:
        names = "DHW"[-len(sizes) :]
        have, want = (
            ", ".join(f"{c}: {n}" for c, n in zip(names, values, strict=True))
            for values in (sizes, counts)
        )
        joint = " and" if len(sizes) == 1 else ""
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"({have}){joint} output ({want})"
        )
    if 0 in shape[1:]:
        raise RuntimeError(
            f"Non-empty {x.ndim}D data tensor expected but got a tensor with sizes {shape}"
        )


def _wanted(
    input: Any, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[Sizes, Factors]:
    """The sizes asked for, and the factors they come from where these count."""
    have = [int(n) for n in input.shape[2:]]
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        if isinstance(size, (list, tuple)):
            if len(size) != len(have):
                raise ValueError(_unfit("output", "output size of", have, size, "output size", "o"))
            if not all(map(is_integer, size)):
                raise TypeError(
                    "expected size to be one of int or Tuple[int] or Tuple[int, int] or "
                    f"Tuple[int, int, int], but got size with types {[type(n) for n in size]}"
                )
            return tuple(operator.index(n) for n in size), (None,) * len(have)
        if not is_integer(size):
            raise TypeError(
                "interpolate() received an invalid combination of arguments: size must be int or "
                f"tuple of ints, not {type(size).__name__}"
            )
        return (operator.index(size),) * len(have), (None,) * len(have)
    factors = scale_factor
    if isinstance(factors, (list, tuple)):
        if len(factors) != len(have):
            raise ValueError(
                _unfit("scale_factor", "scale_factor of shape", have, factors, "scale_factor", "s")
            )
    else:
        factors = (factors,) * len(have)
    counts = tuple(math.floor(float(n) * f) for n, f in zip(have, factors, strict=True))
    return counts, (None,) * len(have) if recompute else tuple(float(f) for f in factors)


def _unfit(what: str, shown: str, have: list[int], given: Any, name: str, letter: str) -> str:
    return (
        f"Input and {what} must have the same number of spatial dimensions, but got input with "
        f"spatial dimensions of {have} and {shown} {given}. Please provide input tensor in (N, C, "
        f"d1, d2, ...,dK) format and {name} in ({letter}1, {letter}2, ...,{letter}K) format."
    )


_NEEDS = {"linear": 3, "bilinear": 4, "trilinear": 5}


@public("functional")
def interpolate(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:  # fmt: skip
    """Resize sequences, images or volumes by interpolation.

    Args:
        input: the input, of shape ``(N, C, L)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        size: sizes of the output, an int or a tuple with one for each spatial dimension.
        scale_factor: factors in place of sizes; one of the two must be given.
        mode: "nearest", "linear" (3-D input), "bilinear" or "bicubic" (4-D), "trilinear" (5-D),
            "area", "nearest-exact", or "lanczos" (4-D, with ``antialias``).
        align_corners: align the centers of the elements at the corners, and not the corners
            themselves. Not for "nearest".
        recompute_scale_factor: compute the factors anew from the sizes of the output.
        antialias: smooth when the output is smaller than the input. Only for "bilinear",
            "bicubic" and "lanczos".

    Returns:
        The resized input.

    Example:
        >>> signal = torch.tensor([[[1.0, 2.0]]])
        >>> torch.nn.functional.interpolate(signal, 4)
        tensor([[[1., 1., 2., 2.]]])
        >>> torch.nn.functional.interpolate(signal, scale_factor=2, mode="linear")
        tensor([[[1.0000, 1.2500, 1.7500, 2.0000]]])
    """
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | "
            "bilinear | bicubic | trilinear"
        )
    ndim = len(input.shape)
    counts, scales = _wanted(input, size, scale_factor, recompute_scale_factor)
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueError("Lanczos mode " + (
            "does not support align_corners=True" if align_corners else "requires antialias=True"
        ))  # fmt: skip
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if ndim in (3, 4, 5) and mode in _NEEDS and _NEEDS[mode] != ndim:
        raise NotImplementedError(f"Got {ndim}D input, but {mode} mode needs {_NEEDS[mode]}D input")
    kind = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode == "area" and ndim in (3, 4, 5):
        pool = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[ndim - 3]
        return pool(input, counts)
    if antialias:
        kind += "-antialias"
    if (kind, ndim - 2) not in RESIZE:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D) for the modes: "
            "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact "
            f"(got {mode})"
        )
    _refuse_sizes(raw(input), counts)
    if raw(input).dtype.name == "uint8" and mode in ("linear", "trilinear"):
        raise NotImplementedError("\"compute_indices_weights_linear\" not implemented for 'Byte'")
    return RESIZE[kind, ndim - 2](
        input, mode=kind, output_size=counts, align_corners=bool(align_corners), scales=scales
    )


@public("functional")
@like(interpolate)
def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """Resize sequences, images or volumes. Deprecated name of ``interpolate``.

    Args:
        mode: "nearest", "linear" (3-D input), "bilinear" or "bicubic" (4-D), "trilinear" (5-D).

    Example:
        >>> signal = torch.tensor([[[1.0, 2.0]]])
        >>> torch.nn.functional.upsample(signal, 4)
        tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


@public("functional")
@like(interpolate)
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Resize by repeating the nearest elements. Deprecated.

    The same as ``interpolate`` with ``mode="nearest"``.

    Example:
        >>> image = torch.tensor([[[[1.0, 3.0]]]])
        >>> torch.nn.functional.upsample_nearest(image, (1, 4))
        tensor([[[[1., 1., 3., 3.]]]])
    """
    return interpolate(input, size, scale_factor, "nearest")


@public("functional")
@like(interpolate)
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Resize images by bilinear interpolation. Deprecated.

    The same as ``interpolate`` with ``mode="bilinear"`` and ``align_corners=True``.

    Args:
        input: the input, of shape ``(N, C, H, W)``.

    Example:
        >>> image = torch.tensor([[[[1.0, 3.0]]]])
        >>> torch.nn.functional.upsample_bilinear(image, (1, 3))
        tensor([[[[1., 2., 3.]]]])
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


# -- channels and pixels ---------------------------------------------------------------------


def _shuffle_pixels(self: Raw, upscale_factor: int) -> Raw:
    r = upscale_factor
    *lead, channels, height, width = self.shape
    n = len(lead)
    apart = self.reshape(*lead, channels // (r * r), r, r, height, width)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    result = arrays.permute(apart, order).reshape(*lead, channels // (r * r), height * r, width * r)
    return result if r > 1 else arrays.copy(result)


def _unshuffle_pixels(self: Raw, downscale_factor: int) -> Raw:
    r = downscale_factor
    *lead, channels, height, width = self.shape
    n = len(lead)
    apart = self.reshape(*lead, channels, height // r, r, width // r, r)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    result = arrays.permute(apart, order).reshape(*lead, channels * r * r, height // r, width // r)
    return result if r > 1 else arrays.copy(result)


def _shuffle_channels(self: Raw, groups: int) -> Raw:
    batch, channels, *rest = self.shape
    apart = self.reshape(batch, groups, channels // groups, *rest)
    order = (0, 2, 1, *range(3, apart.ndim))
    result = arrays.permute(apart, order).reshape(self.shape)
    return result if 1 < groups < channels else arrays.copy(result)


shuffle_pixels: Linear = declare(
    "pixel_shuffle", _shuffle_pixels,
    lambda g, upscale_factor: unshuffle_pixels(g, downscale_factor=upscale_factor),
    batch="leading",
)  # fmt: skip
unshuffle_pixels: Linear = declare(
    "pixel_unshuffle", _unshuffle_pixels,
    lambda g, downscale_factor: shuffle_pixels(g, upscale_factor=downscale_factor),
    batch="leading",
)  # fmt: skip
shuffle_channels: Linear = declare(
    "channel_shuffle", _shuffle_channels,
    lambda g, shape, groups: shuffle_channels(g, groups=shape[1] // groups), batch="fold",
)  # fmt: skip


def _refuse_shuffle(name: str, word: str, input: Any, factor: int) -> None:
    if len(input.shape) < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with "
            f"{len(input.shape)} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {word}, but got {factor}")


@public("torch functional")
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Rearrange channels into blocks of ``r * r`` pixels, ``r = upscale_factor``.

    Args:
        input: images, of shape ``(..., C * r * r, H, W)``.
        upscale_factor: factor by which height and width grow.

    Returns:
        Images of shape ``(..., C, H * r, W * r)``.

    Example:
        >>> torch.pixel_shuffle(torch.arange(4.0).reshape(4, 1, 1), 2)
        tensor([[[0., 1.],
                 [2., 3.]]])
    """
    _refuse_shuffle("pixel_shuffle", "upscale_factor", input, upscale_factor)
    channels, square = input.shape[-3], upscale_factor * upscale_factor
    if channels % square:
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {square}"
        )
    return shuffle_pixels(input, upscale_factor=upscale_factor)


@public("torch functional")
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Rearrange blocks of ``r * r`` pixels into channels, ``r = downscale_factor``.

    The inverse of ``pixel_shuffle``.

    Args:
        input: images, of shape ``(..., C, H * r, W * r)``.
        downscale_factor: factor by which height and width shrink.

    Returns:
        Images of shape ``(..., C * r * r, H, W)``.

    Example:
        >>> torch.pixel_unshuffle(torch.arange(4.0).reshape(1, 2, 2), 2).flatten()
        tensor([0., 1., 2., 3.])
    """
    _refuse_shuffle("pixel_unshuffle", "downscale_factor", input, downscale_factor)
    for name, d in (("height", -2), ("width", -1)):
        if input.shape[d] % downscale_factor:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({d})={input.shape[d]} is not divisible by {downscale_factor}"
            )
    return unshuffle_pixels(input, downscale_factor=downscale_factor)


@public("torch functional")
def channel_shuffle(input: Any, groups: int) -> Any:
    """Interleave groups of channels.

    The first channels of all groups come first, then the second ones, and so on.

    Args:
        input: the input, of shape ``(N, C, ...)``.
        groups: number of groups; divides ``C``.

    Example:
        >>> torch.channel_shuffle(torch.arange(4.0).reshape(1, 4, 1), 2).flatten()
        tensor([0., 2., 1., 3.])
    """
    if len(input.shape) <= 2:
        raise RuntimeError(
            "channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if input.shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {input.shape[1]} channels and "
            f"{groups} groups."
        )
    return shuffle_channels(input, groups=groups)
