"""Sampling of images at the points of a grid, between their pixels.

A sample is a sum over some pixels around its point, each with a weight that depends on where the
point lies between them. Rules are written with the same weights, as functions of the grid, so that
derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import check_int
from retrograd.ops._dims import numel, one_dim, sizes_of
from retrograd.ops._operation import Linear, TensorLike, composite, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops._sections import like
from retrograd.ops.comparisons import ge, gt, le, logical_and, logical_xor, lt
from retrograd.ops.copies import to_dtype, zeros_like
from retrograd.ops.piecewise import abs as absolute
from retrograd.ops.piecewise import floor, where
from retrograd.ops.piecewise import round as rounded
from retrograd.ops.pointwise.division import remainder

Sizes = tuple[int, ...]
BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)

# -- pixels of images, the same for all channels ---------------------------------------------


def _pick(self: Raw, indices: Raw, inside: Raw, sizes: Sizes) -> Raw:
    return arrays.images.pick_pixels(self, indices, inside)


pick: Linear = declare(
    "pick_pixels", _pick,
    lambda g, indices, inside, sizes: unpick(g, indices=indices, inside=inside, sizes=sizes),
    node="PickPixelsBackward0", batch="fold",
)  # fmt: skip
unpick: Linear = declare(
    "add_pixels", arrays.images.add_pixels,
    lambda g, indices, inside, sizes: pick(g, indices=indices, inside=inside, sizes=sizes),
    node="AddPixelsBackward0", batch="fold",
)  # fmt: skip


class Tap(NamedTuple):
    """One of the pixels that a sample is made of, in one dimension: where it is, whether that is
    within the image, its weight, and the derivative of that in the coordinate of the grid."""

    place: Any
    inside: Any
    weight: Any
    derivative: Any


def _taps(
    grid: Any, d: int, size: int, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> list[Tap]:
    """The pixels that all samples are made of, in the ``d``-th dimension of the grid."""
    coordinate = linear.select(grid, dim=2, index=d)
    points = raw(coordinate)
    at, derivative = _unnormalized(points, size, align_corners)
    if interpolation_mode != BICUBIC:
        at, turn = _inward(at, size, padding_mode, align_corners)
        derivative = turn * derivative
    if interpolation_mode == NEAREST:
        place, inside = _pixel(rounded(at), size)
        return [Tap(place, inside, None, None)]
    below = floor(at)
    share = at - below
    if isinstance(coordinate, TensorLike):
        share = (coordinate - points) * derivative + share  # the same value, with a history
    if interpolation_mode == BILINEAR:
        weights = [(1 - share, -derivative), (share, derivative)]
        indices = [below, below + 1]
    else:
        weights = [(w, s * derivative) for w, s in _cubic(share)]
        indices = [_inward(below + k, size, padding_mode, align_corners)[0] for k in range(-1, 3)]
    return [Tap(*_pixel(place, size), *pair) for place, pair in zip(indices, weights, strict=True)]


def _unnormalized(points: Any, size: int, align_corners: bool) -> tuple[Any, float]:
    """Coordinates from -1 to 1 as numbers of pixels, and how many pixels a unit is."""
    if align_corners:
        return (points + 1) / 2 * (size - 1), (size - 1) / 2
    return ((points + 1) * size - 1) / 2, size / 2


def _inward(at: Any, size: int, padding_mode: int, align_corners: bool) -> tuple[Any, Any]:
    """Coordinates outside the image moved into it, to the border or reflected, and what that does
    to their derivative."""
    if padding_mode == ZEROS:
        return at, 1
    turn: Any = 1
    if padding_mode == REFLECTION:
        at, turn = _reflected(at, size, align_corners)
    positive, below = gt(at, 0), lt(at, size - 1)
    within = to_dtype(logical_and(positive, below), dtype=at.dtype)
    return where(positive, where(below, at, size - 1), 0), within * turn


def _reflected(at: Any, size: int, align_corners: bool) -> tuple[Any, Any]:
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if span == 0:
        return zeros_like(at), zeros_like(at)
    away = at - low
    distance = absolute(away)
    extra, odd = remainder(distance, span), ge(remainder(distance, 2 * span), span)
    backwards = to_dtype(logical_xor(lt(away, 0), odd), dtype=at.dtype)
    return where(odd, span - extra, extra) + low, 1 - 2 * backwards


def _pixel(at: Any, size: int) -> tuple[Any, Any]:
    """Whole coordinates as indices, and whether they are in the image; others are moved into it."""
    inside = logical_and(ge(at, 0), le(at, size - 1))
    return to_dtype(where(inside, at, 0), dtype=arrays.int64), inside


def _cubic(t: Any) -> list[tuple[Any, Any]]:
    """The weights of the four pixels around a point ``t`` past the second; their derivatives."""
    a = -0.75
    u = 1 - t

    def inner(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def inner_derivative(x: Any) -> Any:
        return (3 * (a + 2) * x - 2 * (a + 3)) * x

    def outer(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    def outer_derivative(x: Any) -> Any:
        return (3 * a * x - 10 * a) * x + 8 * a

    return [
        (outer(t + 1), outer_derivative(t + 1)),
        (inner(t), inner_derivative(t)),
        (inner(u), -inner_derivative(u)),
        (outer(u + 1), -outer_derivative(u + 1)),
    ]


class Corner(NamedTuple):
    """One of the pixels that samples are made of: its index, and its taps in each dimension."""

    indices: Any
    inside: Any
    taps: tuple[Tap, ...]

    def weight(self, but: int | None = None) -> Any:
        """The product of the weights; of the derivative instead in one dimension."""
        result: Any = None
        for d, tap in enumerate(self.taps):
            factor = tap.derivative if d == but else tap.weight
            if factor is not None:
                result = factor if result is None else result * factor
        return result


def _corners(
    grid: Any, sizes: Sequence[int], interpolation_mode: int, padding_mode: int, align_corners: bool
) -> list[Corner]:
    flat = linear.reshape(grid, (grid.shape[0], _points(grid), len(sizes)))
    dims = [
        _taps(flat, len(sizes) - 1 - d, size, interpolation_mode, padding_mode, align_corners)
        for d, size in enumerate(sizes)
    ]
    results = []
    for taps in product(*dims):
        indices, inside = taps[0].place, taps[0].inside
        for tap, size in zip(taps[1:], sizes[1:], strict=True):
            indices, inside = indices * size + tap.place, logical_and(inside, tap.inside)
        results.append(Corner(indices, inside, taps))
    return results


def _points(grid: Any) -> int:
    count = 1
    for n in grid.shape[1:-1]:
        count *= n
    return count


def _sample(
    input: Raw, grid: Raw, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Raw:
    sizes = tuple(input.shape[2:])
    total: Raw = None
    for corner in _corners(grid, sizes, interpolation_mode, padding_mode, align_corners):
        part = _pick(input, corner.indices, corner.inside, sizes)
        weight = corner.weight()
        if weight is not None:
            part *= weight[:, None]
        total = part if total is None else arrays.add_to(total, part, total)
    return total.reshape(*input.shape[:2], *grid.shape[1:-1])


def _sample_of(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    sizes, total = tuple(input.shape[2:]), None
    for corner in _corners(grid, sizes, interpolation_mode, padding_mode, align_corners):
        part = pick(input, indices=raw(corner.indices), inside=raw(corner.inside), sizes=sizes)
        weight = corner.weight()
        total = _plus(total, part if weight is None else part * _for_channels(weight))
    return linear.reshape(total, (*input.shape[:2], *grid.shape[1:-1]))


def _sample_rule(
    g: Any, input: Any, grid: Any, needs: list[bool], interpolation_mode: int, padding_mode: int,
    align_corners: bool,
) -> list[Any]:  # fmt: skip
    sizes = tuple(input.shape[2:])
    g = linear.reshape(g, (*input.shape[:2], _points(grid)))
    by_input: Any = None
    by_grid: list[Any] = [None] * len(sizes)
    for corner in _corners(grid, sizes, interpolation_mode, padding_mode, align_corners):
        where = {"indices": corner.indices, "inside": corner.inside, "sizes": sizes}
        if needs[0]:
            weight = corner.weight()
            part = g if weight is None else g * _for_channels(weight)
            by_input = _plus(by_input, unpick(part, **where))
        if needs[1] and interpolation_mode != NEAREST:
            seen = linear.sum_dim(g * pick(input, **where), dim=(1,), keepdim=False)
            for d in range(len(sizes)):
                by_grid[d] = _plus(by_grid[d], seen * corner.weight(d))
    if not needs[1]:
        return [by_input, None]
    if interpolation_mode == NEAREST:
        return [by_input, zeros_like(grid)]
    stacked = linear.stack(by_grid[::-1], dim=2)
    return [by_input, linear.reshape(stacked, tuple(grid.shape))]


def _for_channels(weight: Any) -> Any:
    return linear.reshape(weight, (weight.shape[0], 1, weight.shape[1]))


def _plus(total: Any, part: Any) -> Any:
    return part if total is None else total + part


SAMPLE = {
    n: composite(
        f"grid_sampler_{n}d", _sample_of, _sample, inputs=("input", "grid"), joint=_sample_rule,
        node=f"GridSampler{n}DBackward0", check=kernel(f"grid_sampler_{n}d_cpu{end}", "biuc"),
        batch="fold",
    ) for n, end in ((2, "_kernel_impl"), (3, ""))
}  # fmt: skip

_MODES = {"bilinear": BILINEAR, "nearest": NEAREST, "bicubic": BICUBIC}
_PADDINGS = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}


@public("functional")
def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """Sample images or volumes at the points of a grid.

    Args:
        input: images, of shape ``(N, C, H, W)``, or volumes, ``(N, C, D, H, W)``.
        grid: points ``(x, y)`` or ``(x, y, z)`` in coordinates from -1 to 1, of shape
            ``(N, H_out, W_out, 2)`` or ``(N, D_out, H_out, W_out, 3)``.
        mode: "bilinear", "nearest" or "bicubic" (images only).
        padding_mode: what is outside of the image: "zeros", "border" or "reflection".
        align_corners: whether -1 and 1 are the centers of the elements at the corners, or the
            corners themselves.

    Returns:
        The samples, of shape ``(N, C, H_out, W_out)`` or ``(N, C, D_out, H_out, W_out)``.

    Example:
        >>> image = torch.tensor([[[[1.0, 3.0]]]])
        >>> torch.nn.functional.grid_sample(image, torch.zeros(1, 1, 1, 2), align_corners=False)
        tensor([[[[2.]]]])
    """
    if mode not in _MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    return grid_sampler(input, grid, _MODES[mode], _PADDINGS[padding_mode], bool(align_corners))


@public("torch", alias="grid_sampler_2d grid_sampler_3d")
@like(grid_sample)
def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Sample images or volumes at the points of a grid.

    The same as ``nn.functional.grid_sample``, with numbers for the modes.

    Args:
        interpolation_mode: 0 for bilinear, 1 for nearest, 2 for bicubic.
        padding_mode: 0 for zeros, 1 for border, 2 for reflection.

    Example:
        >>> image = torch.tensor([[[[1.0, 3.0]]]])
        >>> torch.grid_sampler(image, torch.zeros(1, 1, 1, 2), 0, 0, False)
        tensor([[[[2.]]]])
    """
    check_int("grid_sampler", "interpolation_mode", 3, interpolation_mode)
    check_int("grid_sampler", "padding_mode", 4, padding_mode)
    x, points = list(input.shape), list(grid.shape)
    if points[0] != x[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {x} and grid with sizes {points}"
        )
    if points[-1] != len(x) - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(x) - 2} in last dimension, but got "
            f"grid with sizes {points}"
        )
    for d in range(2, len(x)):
        if x[d] == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {x} with dimension {d} being empty"
            )
    if len(x) not in (4, 5) or len(points) != len(x):
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got input with sizes {x} and grid with sizes {points}"
        )
    if len(x) == 5 and interpolation_mode == BICUBIC:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if raw(input).dtype != raw(grid).dtype:
        words = [arrays.dtypes.type_word(raw(t).dtype) for t in (input, grid)]
        raise RuntimeError(f"expected scalar type {words[0]} but found {words[1]}")
    return SAMPLE[len(x) - 2](
        input, grid, interpolation_mode=interpolation_mode, padding_mode=padding_mode,
        align_corners=bool(align_corners),
    )  # fmt: skip


# -- grids from affine maps ------------------------------------------------------------------


def _affine_grid(theta: Raw, size: Sizes, align_corners: bool) -> Raw:
    base = arrays.images.base_grid(size[2:], align_corners, theta.dtype)
    flat = arrays.matmul(base, arrays.permute(theta, (0, 2, 1)))
    return flat.reshape(theta.shape[0], *size[2:], len(size) - 2)


def _affine_gradient(self: Raw, size: Sizes, align_corners: bool) -> Raw:
    base = arrays.images.base_grid(size[2:], align_corners, self.dtype)
    rows = self.reshape(self.shape[0], len(base), len(size) - 2)
    return arrays.matmul(arrays.permute(rows, (0, 2, 1)), base)


affine_points: Linear = Linear(
    "affine_grid_generator", _affine_grid, inputs=("theta",),
    rules={
        "theta": lambda g, size, align_corners: affine_gradient(
            g, size=size, align_corners=align_corners
        )
    },
    batch="fold",
)  # fmt: skip
affine_gradient: Linear = declare(
    "affine_gradient", _affine_gradient,
    lambda g, size, align_corners: affine_points(g, size=size, align_corners=align_corners),
    node="AffineGridGeneratorBackwardBackward0", batch="fold",
)  # fmt: skip


@public("torch")
def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    """Sampling grid of an affine transformation.

    The same as ``nn.functional.affine_grid``.

    Args:
        theta: affine matrices, of shape ``(N, 2, 3)`` for images or ``(N, 3, 4)`` for volumes.
        size: size of the output images, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: whether -1 and 1 are the centers of the elements at the corners, or the
            corners themselves.

    Returns:
        The grid, of shape ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``.

    Example:
        >>> identity = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> torch.affine_grid_generator(identity, (1, 1, 1, 2), True)
        tensor([[[[-1.,  0.],
                  [ 1.,  0.]]]])
    """
    sizes = sizes_of("affine_grid_generator", "size", 2, size)
    if len(sizes) not in (4, 5):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    for dim in (1, 2):  # the dimensions that PyTorch transposes
        one_dim(dim, len(theta.shape))
    if len(theta.shape) > 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    n, (batch, rows, columns) = len(sizes) - 2, theta.shape
    if (batch, columns) != (sizes[0], n + 1):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{sizes[0]}, {n + 1}] "
            f"but got: [{batch}, {columns}]."
        )
    if rows != n:
        raise RuntimeError(
            f"shape '{[batch, *sizes[2:], n]}' is invalid for input of size "
            f"{batch * numel(sizes[2:]) * rows}"
        )
    return affine_points(theta, size=sizes, align_corners=bool(align_corners))


@public("functional")
@like(affine_grid_generator)
def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """Sampling grid of an affine transformation, for ``grid_sample``.

    Example:
        >>> same = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> torch.nn.functional.affine_grid(same, (1, 1, 1, 2), align_corners=True)
        tensor([[[[-1.,  0.],
                  [ 1.,  0.]]]])
    """
    dtype = raw(theta).dtype
    if dtype.kind not in dtypes.FLOATS:
        raise ValueError(f"Expected theta to have floating point type, but got torch.{dtype.name}")
    sizes = sizes_of("affine_grid_generator", "size", 2, size)
    if len(sizes) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    n = len(sizes) - 2
    if len(theta.shape) != 3 or tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. Got "
            f"torch.Size({list(theta.shape)})."
        )
    if min(sizes) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, sizes, bool(align_corners))
