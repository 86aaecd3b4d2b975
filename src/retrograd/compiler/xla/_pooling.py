"""Lowerings of pooling, of windows of images, and of pairwise distances."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from retrograd import arrays
from retrograd.compiler._program import Line
from retrograd.compiler.xla._shapes import windows_of
from retrograd.compiler.xla._table import lowering, lowerings
from retrograd.ops.networks import avg_pooling as pooling_ops

np = arrays.programs.numpy


def _padded(x: Any, before: Any, reach: Any, value: Any) -> Any:
    """Pad or crop the last dimensions of ``x``: ``before`` elements in front, and up to a total
    size of ``reach``."""
    n = len(reach)
    sides = [(0, 0, 0)] * (x.ndim - n)
    sides += [
        (b, r - b - s, 0) for b, r, s in zip(before, reach, x.shape[x.ndim - n :], strict=True)
    ]
    return lax.pad(x, jnp.asarray(value, x.dtype), sides)


# -- averages --------------------------------------------------------------------------------


def _reach(counts: Any, kernel: Any, stride: Any, dilation: Any) -> Any:
    return arrays.windows.extents(counts, kernel, stride, dilation)


@lowering("avg_pool2d", "avg_pool3d")
def _avg_pool(
    x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: Any, line: Line,
) -> Any:  # fmt: skip
    n = len(kernel_size)
    sizes, counts = x.shape[-n:], line.outputs[0].shape[-n:]
    dtype = x.dtype
    x = x.astype("float32") if dtype == "float16" else x
    once = (1,) * n
    frame = _padded(x, padding, _reach(counts, kernel_size, stride, once), 0)
    lead = (1,) * (x.ndim - n)
    sums = lax.reduce_window(
        frame, jnp.zeros((), x.dtype), lax.add, (*lead, *kernel_size), (*lead, *stride), "VALID"
    )
    divisors = jnp.asarray(pooling_ops._divisors(
        sizes, kernel_size, stride, padding, counts, count_include_pad, divisor_override,
        np.dtype(x.dtype),
    ))  # fmt: skip
    if dtype.kind in "iu":
        return lax.div(sums, jnp.broadcast_to(divisors, sums.shape))
    return sums / divisors


@lowering("avg_spread")
def _avg_spread(
    x: Any, like: Any, sizes: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: Any,
) -> Any:  # fmt: skip
    n = len(sizes)
    counts = x.shape[-n:]
    divisors = pooling_ops._divisors(
        sizes, kernel_size, stride, padding, counts, count_include_pad, divisor_override,
        np.dtype(x.dtype),
    )  # fmt: skip
    shares = x / jnp.asarray(divisors)
    # Each element is the sum of the shares of the windows that contain it.
    lead = [(0, 0, 0)] * (x.ndim - n)
    sides = [(k - 1, k - 1, s - 1) for k, s in zip(kernel_size, stride, strict=True)]
    spread = lax.pad(shares, jnp.zeros((), x.dtype), [*lead, *sides])
    ones = (1,) * (x.ndim - n)
    sums = lax.reduce_window(
        spread, jnp.zeros((), x.dtype), lax.add, (*ones, *kernel_size), (1,) * x.ndim, "VALID"
    )
    return _padded(sums, [-p for p in padding], sizes, 0)


# -- extremes --------------------------------------------------------------------------------


def _maxima(
    x: Any, kernel: Any, stride: Any, before: Any, dilation: Any, counts: Any
) -> tuple[Any, Any]:
    """The maximum of every window, and its flat index in the image: the first of equal elements,
    but the last NaN."""
    n = len(kernel)
    sizes = x.shape[x.ndim - n :]
    lowest = -jnp.inf if x.dtype.kind == "f" else jnp.iinfo(x.dtype).min
    reach = _reach(counts, kernel, stride, dilation)
    shown = windows_of(_padded(x, before, reach, lowest), kernel, stride, dilation, counts)
    indices = np.full([s + 2 * b for s, b in zip(sizes, before, strict=True)], -1)
    inner = tuple(slice(b, b + s) for s, b in zip(sizes, before, strict=True))
    indices[inner] = np.arange(math.prod(sizes)).reshape(sizes)
    total_sizes = [max(r, s) for r, s in zip(reach, indices.shape, strict=True)]
    wide = np.full(total_sizes, -1)
    wide[tuple(slice(0, s) for s in indices.shape)] = indices
    where = windows_of(wide, kernel, stride, dilation, counts)
    best = jnp.full((*x.shape[: x.ndim - n], *counts), lowest, x.dtype)
    chosen = jnp.full(best.shape, -1)
    for values, index in zip(shown, where, strict=True):
        better = (values > best) | (chosen < 0) | jnp.isnan(values)
        better &= jnp.asarray(index >= 0)
        best = jnp.where(better, values, best)
        chosen = jnp.where(better, jnp.asarray(index), chosen)
    return best, chosen


@lowering("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(
    x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, line: Line
) -> tuple[Any, Any]:
    counts = line.outputs[0].shape[-len(kernel_size) :]
    return _maxima(x, kernel_size, stride, padding, dilation, counts)


@lowering("adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max_pool(x: Any, output_size: Any) -> tuple[Any, Any]:
    n = len(output_size)
    sizes = x.shape[-n:]
    parts = [arrays.windows.divided(s, m) for s, m in zip(sizes, output_size, strict=True)]
    spread, numbers = x, np.arange(math.prod(sizes)).reshape(sizes)
    for d, part in zip(range(-n, 0), parts, strict=True):
        spread = jnp.take(spread, jnp.asarray(part.reshape(-1)), d)
        numbers = np.take(numbers, part.reshape(-1), d)
    kernel = tuple(part.shape[1] for part in parts)
    best, among = _maxima(spread, kernel, kernel, (0,) * n, (1,) * n, tuple(output_size))
    return best, jnp.asarray(numbers.reshape(-1))[among] if numbers.size else among


@lowering("take_in_images")
def _take_in_images(x: Any, indices: Any, ndim: int) -> Any:
    lead = x.shape[: x.ndim - ndim]
    rows = x.reshape(math.prod(lead), math.prod(x.shape[x.ndim - ndim :]))
    flat = indices.reshape(math.prod(lead), math.prod(indices.shape[x.ndim - ndim :]))
    taken = jnp.take_along_axis(rows, jnp.maximum(flat, 0), 1)
    return jnp.where(flat < 0, 0, taken).reshape(indices.shape)


def _put_in_images(x: Any, indices: Any, sizes: Any, distinct: bool) -> Any:
    lead = x.shape[: x.ndim - len(sizes)]
    rows, count = math.prod(lead), math.prod(sizes)
    each = math.prod(x.shape[x.ndim - len(sizes) :])
    values, flat = x.reshape(rows, each), indices.reshape(rows, each)
    flat = jnp.where(flat < 0, count, flat)  # an additional element, removed below
    out = jnp.zeros((rows, count + 1), x.dtype).at[jnp.arange(rows)[:, None], flat]
    result = out.set(values) if distinct else out.add(values)
    return result[:, :count].reshape(*lead, *sizes)


lowerings(
    put_in_images=lambda x, like, indices, sizes, distinct: _put_in_images(
        x, indices, sizes, distinct
    ),
    max_unpool2d=lambda x, indices, output_size: _put_in_images(x, indices, output_size, True),
    max_unpool3d=lambda x, indices, output_size: _put_in_images(x, indices, output_size, True),
)

# -- windows as columns ----------------------------------------------------------------------


def _window_counts(sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    options = zip(sizes, kernel, dilation, padding, stride, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in options)


@lowering("im2col")
def _im2col(x: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    counts = _window_counts(x.shape[-2:], kernel_size, dilation, padding, stride)
    frame = _padded(x, padding, _reach(counts, kernel_size, stride, dilation), 0)
    shown = jnp.stack(windows_of(frame, kernel_size, stride, dilation, counts), -3)
    return shown.reshape(*x.shape[:-3], x.shape[-3] * math.prod(kernel_size),
                         math.prod(counts))  # fmt: skip


@lowering("col2im")
def _col2im(
    x: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Any:
    counts = _window_counts(output_size, kernel_size, dilation, padding, stride)
    taps = math.prod(kernel_size)
    channels = x.shape[-2] // taps
    columns = x.reshape(*x.shape[:-2], channels, taps, *counts)
    reach = _reach(counts, kernel_size, stride, dilation)
    frame = jnp.zeros((*x.shape[:-2], channels, *reach), x.dtype)
    number = 0
    for i in range(kernel_size[0]):
        for j in range(kernel_size[1]):
            where = [
                slice(p * d, p * d + s * (n - 1) + 1, s)
                for p, s, d, n in zip((i, j), stride, dilation, counts, strict=True)
            ]
            frame = frame.at[(..., *where)].add(columns[..., number, :, :])
            number += 1
    return _padded(frame, [-p for p in padding], output_size, 0)


# -- distances -------------------------------------------------------------------------------


@lowering("pdist_backward")
def _pdist_backward(g: Any, x: Any, result: Any, p: float) -> Any:
    first, second = np.triu_indices(x.shape[-2], 1)
    difference = x[..., first, :] - x[..., second, :]
    g, result = g[..., None], result[..., None]
    if p == 0:
        return jnp.zeros_like(x)
    if math.isinf(p):
        slope = g * jnp.sign(difference) * (jnp.abs(difference) == result)
    elif p == 1:
        slope = g * jnp.sign(difference)
    else:
        safe = jnp.where(result == 0, 1, result)
        ratio = jnp.abs(difference) / safe
        slope = g * jnp.sign(difference) * jnp.where(ratio == 0, 0, ratio ** (p - 1))
        slope = jnp.where(result == 0, 0, slope)
    out = jnp.zeros_like(x)
    return out.at[..., first, :].add(slope).at[..., second, :].add(-slope)
