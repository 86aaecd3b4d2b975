"""Lowerings of convolution, resizing of images, sampling of pixels and the CTC loss."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from retrograd import arrays
from retrograd.compiler.xla._table import gathered_except, is_on_mesh, lowering, lowerings
from retrograd.ops.networks import avg_pooling as pooling_ops
from retrograd.ops.networks import padding as padding_ops
from retrograd.ops.networks import resampling as resampling_ops

np = arrays.programs.numpy

# -- convolution -----------------------------------------------------------------------------

# On a mesh, only the dimension of samples may be split. If images or kernels are split along other
# dimensions, XLA's partitioner computes wrong results or crashes (jax-ml/jax, issue 16894).


def _letters(n: int) -> tuple[str, str, str]:
    spatial = "DHW"[-n:]
    return (f"NC{spatial}", f"OI{spatial}", f"NC{spatial}")


@lowering("correlation")
def _correlation(
    x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    n = len(stride)
    x, weight = gathered_except(x, 0), gathered_except(weight)
    if not transposed:
        return gathered_except(lax.conv_general_dilated(
            x, weight, stride, [(p, p) for p in padding], rhs_dilation=dilation,
            dimension_numbers=_letters(n), feature_group_count=groups,
            precision=lax.Precision.HIGHEST,
        ), 0)  # fmt: skip
    # The transpose: a correlation with the flipped kernel, and with images dilated by the strides.
    channels, per_group = weight.shape[:2]
    kernel = weight.shape[2:]
    flipped = weight.reshape(groups, channels // groups, per_group, *kernel)
    flipped = jnp.flip(jnp.swapaxes(flipped, 1, 2), tuple(range(3, 3 + n)))
    flipped = flipped.reshape(groups * per_group, channels // groups, *kernel)
    sides = [
        (d * (k - 1) - p, d * (k - 1) - p + o)
        for d, k, p, o in zip(dilation, kernel, padding, output_padding, strict=True)
    ]
    return gathered_except(lax.conv_general_dilated(
        x, flipped, (1,) * n, sides, lhs_dilation=stride, rhs_dilation=dilation,
        dimension_numbers=_letters(n), feature_group_count=groups,
        precision=lax.Precision.HIGHEST,
    ), 0)  # fmt: skip


@lowering("convolution_weight")
def _convolution_weight(
    x: Any, grad: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The gradient of the kernel: a correlation of the images with the gradient of the result, in
    which batch and channels exchange their roles."""
    n = len(kernel)
    x, grad = gathered_except(x, 0), gathered_except(grad, 0)
    if groups > 1 and is_on_mesh():
        return _weight_by_position(x, grad, kernel, stride, padding, dilation, groups)
    sizes, counts = x.shape[2:], grad.shape[2:]
    sides = []
    for size, count, k, s, d, p in zip(
        sizes, counts, kernel, stride, dilation, padding, strict=True
    ):
        reach = s * (count - 1) + d * (k - 1) + 1
        sides.append((p, reach - size - p))
    result = lax.conv_general_dilated(
        jnp.swapaxes(x, 0, 1), jnp.swapaxes(grad, 0, 1), dilation, sides, rhs_dilation=stride,
        dimension_numbers=_letters(n), batch_group_count=groups, precision=lax.Precision.HIGHEST,
    )  # fmt: skip
    return gathered_except(jnp.swapaxes(result, 0, 1))


def _weight_by_position(
    x: Any, grad: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The gradient of the kernel, by a matrix product for each of its positions. Used on meshes,
    because XLA's partitioner computes convolutions with ``batch_group_count`` wrongly if samples
    are on several devices."""
    counts = grad.shape[2:]
    x = jnp.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    grad = grad.reshape(grad.shape[0], groups, -1, *counts)
    letters = "xyz"[: len(kernel)]
    parts = []
    for position in np.ndindex(*kernel):
        starts = [i * d for i, d in zip(position, dilation, strict=True)]
        ends = [i + s * (c - 1) + 1 for i, s, c in zip(starts, stride, counts, strict=True)]
        window = lax.slice(x, (0, 0, 0, *starts), (*x.shape[:3], *ends), (1, 1, 1, *stride))
        parts.append(jnp.einsum(f"ngi{letters},ngo{letters}->goi", window, grad,
                                precision=lax.Precision.HIGHEST))  # fmt: skip
    result = jnp.stack(parts, -1)
    return gathered_except(result.reshape(-1, result.shape[2], *kernel))


# -- maps along dimensions -------------------------------------------------------------------


def _along(x: Any, map: Any, axis: int) -> Any:
    """Apply a linear map, such as an interpolation, along an axis counted from the end."""
    if map.picks and map.used.all():
        return jnp.take(x, jnp.asarray(map.indices[:, 0]), axis)
    dense = map.size <= 64 * map.indices.shape[1] and x.dtype.kind != "i"
    if dense and map.indices.shape[1] > 8:
        matrix = jnp.asarray(map.matrix.astype(x.dtype))
        moved = jnp.matmul(jnp.moveaxis(x, axis, -1), matrix.T, precision=lax.Precision.HIGHEST)
        return jnp.moveaxis(moved, -1, axis)
    shape = (-1, *(1,) * (-1 - axis))
    total: Any = None
    for k in range(map.indices.shape[1]):
        part = jnp.take(x, jnp.asarray(map.indices[:, k]), axis)
        part = part * jnp.asarray(map.weights[:, k].astype(x.dtype)).reshape(shape)
        if not map.used[:, k].all():
            part = jnp.where(jnp.asarray(map.used[:, k]).reshape(shape), part, 0)
        total = part if total is None else total + part
    return total


def _resample(x: Any, maps: Any) -> Any:
    dtype = x.dtype
    x = x.astype("float32") if dtype == "float16" else x
    axes = sorted(range(-len(maps), 0), key=lambda d: maps[d].count / max(maps[d].size, 1))
    for d in axes:
        x = _along(x, maps[d], d)
    return x


def _unresample(x: Any, maps: Any) -> Any:
    return _resample(x, [m.transposed for m in maps])


@lowering(*[f"{mode}_pad{n}d" for mode in ("reflection", "replication", "circular")
            for n in (1, 2, 3)])  # fmt: skip
def _framed(x: Any, mode: str, padding: Any) -> Any:
    sizes = x.shape[x.ndim - len(padding) // 2 :]
    return _resample(x, padding_ops._maps(mode, sizes, padding))


@lowering(*[f"adaptive_avg_pool{n}d" for n in (2, 3)])
def _adaptive_avg_pool(x: Any, output_size: Any) -> Any:
    return _resample(x, pooling_ops._averages(x.shape[-len(output_size) :], output_size))


@lowering(
    *[f"upsample_{mode}{n}d" for mode in ("nearest", "nearest_exact") for n in (1, 2, 3)],
    "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "upsample_bilinear2d_aa", "upsample_bicubic2d_aa", "upsample_lanczos2d_aa",
)  # fmt: skip
def _resize(x: Any, mode: str, output_size: Any, align_corners: bool, scales: Any) -> Any:
    sizes = x.shape[-len(scales) :]
    return _resample(x, resampling_ops._maps(mode, sizes, output_size, align_corners, scales))


@lowering("unresize")
def _unresize(x: Any, mode: str, sizes: Any, align_corners: bool, scales: Any) -> Any:
    counts = x.shape[-len(scales) :]
    return _unresample(x, resampling_ops._maps(mode, sizes, counts, align_corners, scales))


lowerings(
    unframed=lambda x, like, mode, sizes, padding: _unresample(
        x, padding_ops._maps(mode, sizes, padding)
    ),
    adaptive_avg_spread=lambda x, like, sizes: _unresample(
        x, pooling_ops._averages(sizes, x.shape[-len(sizes) :])
    ),
)

# -- points between pixels -------------------------------------------------------------------


@lowering("pick_pixels")
def _pick_pixels(x: Any, indices: Any, inside: Any, sizes: Any) -> Any:
    count, channels = x.shape[:2]
    flat = x.reshape(count, channels, int(np.prod(x.shape[2:])))
    where = jnp.broadcast_to(indices[:, None], (count, channels, indices.shape[1]))
    if not where.size:
        return jnp.zeros(where.shape, x.dtype)
    pixels = jnp.take_along_axis(flat, where, 2)
    return jnp.where(inside[:, None], pixels, 0)


@lowering("add_pixels")
def _add_pixels(x: Any, indices: Any, inside: Any, sizes: Any) -> Any:
    count, channels = x.shape[:2]
    x = jnp.where(inside[:, None], x, 0)
    room = int(np.prod(sizes))
    image = jnp.arange(count)[:, None, None]
    channel = jnp.arange(channels)[None, :, None]
    out = jnp.zeros((count, channels, room), x.dtype).at[image, channel, indices[:, None]].add(x)
    return out.reshape(count, channels, *sizes)


@lowering("affine_grid_generator")
def _affine_grid(theta: Any, size: Any, align_corners: bool) -> Any:
    base = arrays.images.base_grid(tuple(size[2:]), align_corners, np.dtype(theta.dtype))
    flat = jnp.matmul(jnp.asarray(base), jnp.swapaxes(theta, 1, 2), precision="highest")
    return flat.reshape(theta.shape[0], *size[2:], len(size) - 2)


@lowering("affine_gradient")
def _affine_gradient(x: Any, size: Any, align_corners: bool) -> Any:
    base = arrays.images.base_grid(tuple(size[2:]), align_corners, np.dtype(x.dtype))
    rows = x.reshape(x.shape[0], len(base), len(size) - 2)
    return jnp.matmul(jnp.swapaxes(rows, 1, 2), jnp.asarray(base), precision="highest")


# -- the CTC loss ----------------------------------------------------------------------------


class _Layout:
    """The labels of sequences with blanks between them, and the allowed transitions."""

    def __init__(self, log_probs: Any, targets: Any, lengths: Any, blank: int) -> None:
        lengths = np.asarray(lengths, np.int64)
        most = int(lengths.max(initial=0))
        if targets.ndim == 1:
            starts = np.cumsum(lengths) - lengths
            where = np.minimum(starts[:, None] + np.arange(most), max(targets.shape[0] - 1, 0))
            inside = np.arange(most) < lengths[:, None]
            padded = jnp.where(inside, targets[where] if targets.shape[0] else blank, blank)
        else:
            padded = targets[:, :most]
        labels = jnp.full((len(lengths), 2 * most + 1), blank, "int64")
        self.labels = labels.at[:, 1::2].set(padded)
        skips = jnp.full(labels.shape, -jnp.inf, log_probs.dtype)
        differs = self.labels[:, 3::2] != self.labels[:, 1:-2:2]
        self.skips = skips.at[:, 3::2].set(jnp.where(differs, 0, -jnp.inf))
        self.ends = 2 * lengths
        frames = jnp.broadcast_to(self.labels, (log_probs.shape[0], *labels.shape))
        emitted = jnp.take_along_axis(log_probs, frames, 2)
        beyond = np.arange(labels.shape[1]) > self.ends[:, None]
        self.emitted = jnp.where(beyond, -jnp.inf, emitted)


def _moved(x: Any, count: int) -> Any:
    """``x`` with its columns shifted. New columns contain the logarithm of zero."""
    empty = jnp.full((x.shape[0], min(abs(count), x.shape[1])), -jnp.inf, x.dtype)
    if count > 0:
        return jnp.concatenate([empty, x[:, : max(x.shape[1] - count, 0)]], 1)
    return jnp.concatenate([x[:, -count:], empty], 1)


@lowering("ctc_loss")
def _ctc(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int,
    zero_infinity: bool,
) -> Any:  # fmt: skip
    layout = _Layout(log_probs, targets, target_lengths, blank)
    frames, batch, states = layout.emitted.shape
    dtype = log_probs.dtype
    first = jnp.where(np.arange(states) < 2, layout.emitted[0] if frames else 0, -jnp.inf)

    def step(before: Any, emitted: Any) -> Any:
        incoming = jnp.logaddexp(before, _moved(before, 1))
        if states > 2:
            incoming = jnp.logaddexp(incoming, _moved(before, 2) + layout.skips)
        now = incoming + emitted
        return now, now

    rows, last = np.arange(batch), np.asarray(input_lengths, np.int64) - 1
    if frames:
        rest = lax.scan(step, first, layout.emitted[1:])[1]
        alpha = jnp.swapaxes(jnp.concatenate([first[None], rest]), 0, 1)
        final = alpha[rows, last]
    else:
        alpha = jnp.zeros((batch, 0, states), dtype)
        final = jnp.zeros((batch, states), dtype)
    at_end = final[rows, layout.ends]
    before_end = jnp.where(layout.ends > 0, final[rows, np.maximum(layout.ends - 1, 0)], -jnp.inf)
    losses = -jnp.logaddexp(at_end, before_end)
    nothing = np.where(layout.ends > 0, np.inf, 0)
    return jnp.where(last < 0, nothing, losses), alpha


@lowering("ctc_backward")
def _ctc_backward(
    g: Any, log_probs: Any, losses: Any, alpha: Any, targets: Any, lengths: Any, blank: int,
    zero_infinity: bool,
) -> Any:  # fmt: skip
    layout = _Layout(log_probs, targets, lengths[1], blank)
    frames, batch, states = layout.emitted.shape
    last = np.asarray(lengths[0], np.int64) - 1
    ending = np.full((batch, states), -np.inf)
    rows = np.arange(batch)
    ending[rows, np.maximum(layout.ends - 1, 0)] = 0
    ending[rows, layout.ends] = 0

    def step(beta: Any, xs: Any) -> Any:
        t, begun, emitted, probabilities = xs
        outgoing = jnp.logaddexp(beta, _moved(beta, -1))
        if states > 2:
            outgoing = jnp.logaddexp(outgoing, _moved(beta + layout.skips, -2))
        outgoing = jnp.where((last == t)[:, None], ending.astype(beta.dtype), outgoing)
        expected = jnp.exp(begun + outgoing + losses[:, None])
        slope = probabilities.at[rows[:, None], layout.labels].add(-expected)
        return outgoing + emitted, slope

    start = jnp.full((batch, states), -jnp.inf, log_probs.dtype)
    xs = (jnp.arange(frames), jnp.swapaxes(alpha, 0, 1), layout.emitted, jnp.exp(log_probs))
    out = lax.scan(step, start, xs, reverse=True)[1] * g[:, None]
    out = jnp.where((np.arange(frames)[:, None] > last)[:, :, None], 0, out)
    return jnp.where(jnp.isinf(losses)[:, None], 0, out) if zero_infinity else out
