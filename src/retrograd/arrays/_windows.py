"""Kernels with sliding windows over images: convolution and pooling.

Images come in batches, ``(..., *sizes)``; a window at an index shows ``kernel`` elements in each
dimension, ``dilation`` apart, and the next window is ``stride`` further on. All windows at once are
a view of the images with more dimensions. Products with them go through one matrix of columns at a
time, small enough to stay in a processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from retrograd.arrays import _blocks
from retrograd.arrays._numpy import Raw, is_channels_last

Sizes = tuple[int, ...]

SINGLE_PRODUCT = 1 << 18  # multiplications; OpenBLAS does not share out fewer among threads
CACHED = 1 << 19  # bytes
MOST_TAPS = SINGLE_PRODUCT >> 8  # with more, parts of a product that small would be too thin


def framed(x: Raw, before: Sequence[int], sizes: Sequence[int], value: Any = 0) -> Raw:
    """What a frame of ``sizes`` shows of the last dimensions of ``x``, if the first element of
    ``x`` is put ``before`` elements into it: ``value`` where there is nothing of ``x``. A view if
    the frame lies within ``x``."""
    have = x.shape[x.ndim - len(sizes) :]
    lead = x.shape[: x.ndim - len(sizes)]
    if all(b <= 0 and s - b <= h for b, s, h in zip(before, sizes, have, strict=True)):
        return x[(..., *(slice(-b, s - b) for b, s in zip(before, sizes, strict=True)))]
    shape = (*lead, *sizes)
    out = np.zeros(shape, x.dtype) if value == 0 else np.full(shape, value, x.dtype)
    source: list[Any] = []
    target: list[Any] = []
    for b, s, h in zip(before, sizes, have, strict=True):
        length = max(0, min(h + min(b, 0), s - max(b, 0)))
        source.append(slice(max(-b, 0), max(-b, 0) + length))
        target.append(slice(max(b, 0), max(b, 0) + length))
    out[(..., *target)] = x[(..., *source)]
    return out


def channels_last(x: Raw) -> Raw:
    """A copy with the channels innermost in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def alike(x: Raw, result: Raw) -> Raw:
    """A result of images, with the channels innermost in memory if those of the images are."""
    return channels_last(result) if is_channels_last(x) else result


def extents(counts: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
            dilation: Sequence[int]) -> Sizes:  # fmt: skip
    """How far ``counts`` windows reach in each dimension."""
    return tuple(
        s * (n - 1) + d * (k - 1) + 1
        for n, k, s, d in zip(counts, kernel, stride, dilation, strict=True)
    )


def windows(x: Raw, kernel: Sizes, stride: Sizes, dilation: Sizes, counts: Sizes) -> Raw:
    """The windows of ``x`` as a view ``(..., *kernel, *counts)``."""
    n = len(kernel)
    lead, steps = x.strides[:-n], x.strides[-n:]
    within = tuple(d * s for d, s in zip(dilation, steps, strict=True))
    between = tuple(t * s for t, s in zip(stride, steps, strict=True))
    shape = (*x.shape[:-n], *kernel, *counts)
    return as_strided(x, shape, (*lead, *within, *between), writeable=False)


def _at(position: Sizes, stride: Sizes, dilation: Sizes, counts: Sizes) -> tuple[Any, ...]:
    """The index of the elements that all windows have at one position of the kernel."""
    return (..., *(
        slice(p * d, p * d + s * (n - 1) + 1, s)
        for p, s, d, n in zip(position, stride, dilation, counts, strict=True)
    ))  # fmt: skip


# -- convolution -----------------------------------------------------------------------------


def _multiply(a: Raw, b: Raw, out: Raw) -> None:
    """Products of stacks of matrices, in parts so small that BLAS does not spread them over
    threads of its own: images are spread over threads already."""
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    width = SINGLE_PRODUCT // max(1, rows * inner)
    if width >= columns or inner > MOST_TAPS or out.strides[-1] != out.itemsize:
        np.matmul(a, b, out=out)
        return
    if width < 16:
        half = rows // 2
        _multiply(a[..., :half, :], b, out[..., :half, :])
        _multiply(a[..., half:, :], b, out[..., half:, :])
        return
    width = width // 16 * 16
    whole = columns // width * width
    strips = a[..., None, :, :]
    np.matmul(strips, _strips(b, whole, width), out=_strips(out, whole, width))
    if whole < columns:
        np.matmul(a, b[..., whole:], out=out[..., whole:])


def _strips(x: Raw, whole: int, width: int) -> Raw:
    """The first columns of matrices as a stack of narrow ones."""
    *stack, rows, _ = x.shape
    *by_stack, by_row, by_column = x.strides
    shape = (*stack, whole // width, rows, width)
    return as_strided(x, shape, (*by_stack, width * by_column, by_row, by_column))


def _over_images(block: Any, taps: int, *rows: Raw) -> None:
    """Run ``block`` on some images at a time, on several threads where products are small."""
    if taps > MOST_TAPS or len(rows[0]) == 1:
        block(*rows)
    else:
        _blocks.run(block, *rows)


def correlate(x: Raw, weight: Raw, stride: Sizes, before: Sizes, dilation: Sizes, counts: Sizes,
              groups: int) -> Raw:  # fmt: skip
    """The products of every window with every filter.

    ``x`` is ``(images, channels, *sizes)``, ``weight`` is ``(filters, channels of a group,
    *kernel)``, the result ``(images, filters, *counts)``. The first window begins ``before``
    elements ahead of the image.
    """
    kernel, filters = weight.shape[2:], weight.shape[0]
    taps, positions = weight[0].size, prod(counts)
    matrix = np.ascontiguousarray(weight).reshape(groups, filters // groups, taps)
    x = framed(x, before, extents(counts, kernel, stride, dilation))
    out = np.empty((x.shape[0], groups, filters // groups, positions), x.dtype)

    def block(x: Raw, out: Raw) -> None:
        for some, columns in _columns(x, kernel, stride, dilation, counts, groups):
            _multiply(matrix, columns, out[some])

    if out.size:
        _over_images(block, taps, x, out)
    return out.reshape(x.shape[0], filters, *counts)


def _columns(x: Raw, kernel: Sizes, stride: Sizes, dilation: Sizes, counts: Sizes,
             groups: int) -> Iterator[tuple[slice, Raw]]:  # fmt: skip
    """The windows of some images at a time, as columns ``(images, groups, taps, positions)``.
    The memory is reused: as many images as fit a processor's cache, and at least one."""
    seen = windows(x, kernel, stride, dilation, counts)
    images = len(x)
    shape = (groups, x.shape[1] // groups * prod(kernel), prod(counts))
    if prod(kernel) == 1 and seen.flags.c_contiguous:
        yield slice(0, images), seen.reshape(images, *shape)
        return
    at_once = _images_at_once(images, prod(shape) * x.itemsize)
    buffer = np.empty((at_once, *seen.shape[1:]), x.dtype)
    for start in range(0, images, at_once):
        some = slice(start, min(start + at_once, images))
        filled = buffer[: some.stop - start]
        np.copyto(filled, seen[some])
        yield some, filled.reshape(len(filled), *shape)


def _images_at_once(images: int, size: int) -> int:
    """How many images to take together, whose columns are of ``size`` bytes each."""
    return max(1, min(images, CACHED // max(size, 1)))


def correlate_weight(x: Raw, y: Raw, kernel: Sizes, stride: Sizes, before: Sizes, dilation: Sizes,
                     groups: int) -> Raw:  # fmt: skip
    """The transpose of ``correlate`` in its weight: ``y`` is shaped like its result."""
    images, filters = y.shape[:2]
    counts = y.shape[2:]
    per_group, channels = filters // groups, x.shape[1] // groups
    taps = channels * prod(kernel)
    if images == 1 and groups > 1:
        together = _groups_at_once(groups, taps * prod(counts) * y.itemsize)
        x = x.reshape(groups // together, together * channels, *x.shape[2:])
        y = y.reshape(groups // together, together, per_group, prod(counts))
        x = framed(x, before, extents(counts, kernel, stride, dilation))
        each = _weights_of_each(x, y, kernel, stride, dilation, counts)
        return each.reshape(filters, channels, *kernel)
    y = y.reshape(images, groups, per_group, prod(counts))
    x = framed(x, before, extents(counts, kernel, stride, dilation))
    parts: dict[int, Raw] = {}  # by the number of the first image

    def block(x: Raw, y: Raw, numbers: Raw) -> None:
        part = np.zeros((groups, per_group, taps), y.dtype)
        for some, columns in _columns(x, kernel, stride, dilation, counts, groups):
            products = np.empty((len(columns), groups, per_group, taps), y.dtype)
            _multiply(y[some], columns.swapaxes(-1, -2), products)
            np.add(part, products.sum(0), out=part)
        parts[int(numbers[0])] = part

    if y.size:
        _over_images(block, prod(counts), x, y, np.arange(images))
    total = np.zeros((groups, per_group, taps), y.dtype)
    for _, part in sorted(parts.items()):  # in this order, whichever thread was first
        total += part
    return total.reshape(filters, channels, *kernel)


def _groups_at_once(groups: int, size: int) -> int:
    """How many groups to take together, so that their columns, of ``size`` bytes each, stay in a
    processor's cache."""
    most = max(1, min(groups, CACHED // max(size, 1)))
    return next(n for n in range(most, 0, -1) if groups % n == 0)


def _weights_of_each(x: Raw, y: Raw, kernel: Sizes, stride: Sizes, dilation: Sizes,
                     counts: Sizes) -> Raw:  # fmt: skip
    """As ``correlate_weight``, but for each image on its own."""
    groups, per_group = y.shape[1:3]
    out = np.empty((len(x), groups, per_group, x.shape[1] // groups * prod(kernel)), y.dtype)

    def block(x: Raw, y: Raw, out: Raw) -> None:
        for some, columns in _columns(x, kernel, stride, dilation, counts, groups):
            _multiply(y[some], columns.swapaxes(-1, -2), out[some])

    if out.size:
        _over_images(block, prod(counts), x, y, out)
    return out


def correlate_input(y: Raw, weight: Raw, stride: Sizes, before: Sizes, dilation: Sizes,
                    sizes: Sizes, groups: int) -> Raw:  # fmt: skip
    """The transpose of ``correlate`` in its images, which are of ``sizes``."""
    images, filters = y.shape[:2]
    kernel, channels = weight.shape[2:], weight.shape[1]
    grouped = weight.reshape(groups, filters // groups, channels, *kernel)
    if all(s == 1 for s in stride):
        # Windows that move by one see each element from every side: the same with a flipped kernel.
        flipped = np.flip(grouped.swapaxes(1, 2), tuple(range(3, grouped.ndim)))
        flipped = flipped.reshape(groups * channels, filters // groups, *kernel)
        ahead = tuple(d * (k - 1) - b for d, k, b in zip(dilation, kernel, before, strict=True))
        return correlate(y, flipped, stride, ahead, dilation, sizes, groups)
    taps = channels * prod(kernel)
    matrix = np.ascontiguousarray(grouped.reshape(groups, filters // groups, taps).swapaxes(1, 2))
    counts, positions = y.shape[2:], prod(y.shape[2:])
    rows = y.reshape(images, groups, filters // groups, positions)
    out = np.empty((images, groups * channels, *sizes), y.dtype)

    def block(rows: Raw, out: Raw) -> None:
        at_once = _images_at_once(len(rows), groups * taps * positions * y.itemsize)
        columns = np.empty((at_once, groups, taps, positions), y.dtype)
        for start in range(0, len(rows), at_once):
            some = slice(start, min(start + at_once, len(rows)))
            filled = columns[: some.stop - start]
            _multiply(matrix, rows[some], filled)
            windows = filled.reshape(len(filled), groups * channels, *kernel, *counts)
            out[some] = fold(windows, sizes, stride, before, dilation)

    if out.size:
        _over_images(block, filters // groups, rows, out)
    return out


def unfold(x: Raw, kernel: Sizes, stride: Sizes, before: Sizes, dilation: Sizes,
           counts: Sizes) -> Raw:  # fmt: skip
    """A copy of all windows, ``(..., *kernel, *counts)``."""
    frame = framed(x, before, extents(counts, kernel, stride, dilation))
    return windows(frame, kernel, stride, dilation, counts).copy(order="C")


def fold(columns: Raw, sizes: Sizes, stride: Sizes, before: Sizes, dilation: Sizes) -> Raw:
    """The transpose of ``unfold``: windows added up into images of ``sizes``."""
    n = len(sizes)
    lead = columns.shape[: columns.ndim - 2 * n]
    kernel, counts = columns.shape[len(lead) : len(lead) + n], columns.shape[len(lead) + n :]
    reach = extents(counts, kernel, stride, dilation)
    frame = np.zeros((*lead, *reach), columns.dtype)
    for position in product(*map(range, kernel)):
        target = frame[_at(position, stride, dilation, counts)]
        target += columns[(*(slice(None),) * len(lead), *position)]
    return framed(frame, tuple(-b for b in before), sizes)


# -- pooling ---------------------------------------------------------------------------------


def window_sums(x: Raw, kernel: Sizes, stride: Sizes, before: Sizes, counts: Sizes) -> Raw:
    """The sum of every window, one dimension after the other."""
    once = (1,) * len(kernel)
    x = framed(x, before, extents(counts, kernel, stride, once))
    for d in reversed(range(-len(kernel), 0)):
        k, s, n = kernel[d], stride[d], counts[d]
        shown = [_along(x, d, slice(i, i + s * (n - 1) + 1, s)) for i in range(k)]
        x = shown[0].copy() if k == 1 else shown[0] + shown[1]
        for part in shown[2:]:
            x += part
    return x


def window_spread(y: Raw, kernel: Sizes, stride: Sizes, before: Sizes, sizes: Sizes) -> Raw:
    """The transpose of ``window_sums``: every element of a window gets its sum's value."""
    for d in range(-len(kernel), 0):
        k, s, n = kernel[d], stride[d], y.shape[d]
        shape = list(y.shape)
        shape[d] = s * (n - 1) + k
        spread = np.zeros(shape, y.dtype)
        for i in range(k):
            target = _along(spread, d, slice(i, i + s * (n - 1) + 1, s))
            target += y
        y = spread
    return np.ascontiguousarray(framed(y, tuple(-b for b in before), sizes))


def _along(x: Raw, dim: int, where: slice) -> Raw:
    return x[(..., where, *(slice(None),) * (-1 - dim))]


def divisors(kernel: Sizes, stride: Sizes, before: Sizes, counts: Sizes, sizes: Sizes,
             include_pad: bool, dtype: Any) -> Raw:  # fmt: skip
    """How many elements every window averages. Its part outside the image may count, but never
    what lies outside the padding too."""
    result: Raw = np.ones((), np.int64)
    for k, s, b, n, size in zip(kernel, stride, before, counts, sizes, strict=True):
        start = np.arange(n) * s - b
        end = np.minimum(start + k, size + b)
        if not include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, size)
        result = result[..., None] * (end - start)
    return result.astype(dtype)


def window_maxima(x: Raw, kernel: Sizes, stride: Sizes, before: Sizes, dilation: Sizes,
                  counts: Sizes) -> tuple[Raw, Raw]:  # fmt: skip
    """The maximum of every window and its flat index in the image: the first of equal elements, but
    the last NaN."""
    n = len(kernel)
    lead, sizes = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    reach = extents(counts, kernel, stride, dilation)
    rows = x.reshape(prod(lead), *sizes)
    best = np.empty((len(rows), *counts), x.dtype)
    # Narrow numbers of kernel positions are quicker to go through than indices.
    code = np.zeros(best.shape, np.uint8 if prod(kernel) <= 256 else np.int64)
    positions = list(product(*map(range, kernel)))

    def block(rows: Raw, best: Raw, code: Raw) -> None:
        frame = framed(rows, before, reach, lowest)
        shown = [frame[_at(p, stride, dilation, counts)] for p in positions]
        np.copyto(best, shown[0])
        for values in shown[1:]:
            np.maximum(best, values, out=best)
        # How many stand before the first that is the largest: several times faster than to write
        # numbers where a mask says so.
        not_yet = np.ones(best.shape, bool)
        differs, counted = np.empty_like(not_yet), not_yet.view(np.uint8)
        for values in shown[:-1]:
            np.not_equal(values, best, out=differs)
            not_yet &= differs
            np.add(code, counted, out=code)

    with np.errstate(invalid="ignore"):
        _blocks.run(block, rows, best, code)
    windows = _WindowIndices(kernel, stride, before, dilation, counts, sizes)
    indices = windows.of(code)
    unclear = (best == lowest) | (best != best)
    if unclear.any():
        where = np.nonzero(unclear)
        indices[where] = windows.first_or_last_nan(rows, where)
    return best.reshape(*lead, *counts), indices.reshape(*lead, *counts)


class _WindowIndices:
    """The flat indices in the image of the elements of each window."""

    def __init__(self, kernel: Sizes, stride: Sizes, before: Sizes, dilation: Sizes, counts: Sizes,
                 sizes: Sizes) -> None:  # fmt: skip
        self.sizes = sizes
        self.starts = [np.arange(n) * s - b for n, s, b in zip(counts, stride, before, strict=True)]
        self.steps = [np.arange(k) * d for k, d in zip(kernel, dilation, strict=True)]

    def flat(self, coordinates: list[Raw]) -> Raw:
        total: Raw = np.zeros((), np.int64)
        for c, size in zip(coordinates, self.sizes, strict=True):
            total = total[..., None] * size + c
        return total

    def of(self, code: Raw) -> Raw:
        """The indices of the elements with numbers ``code`` in their windows."""
        indices: Raw = np.take(self.flat(self.steps).reshape(-1), code)
        indices += self.flat(self.starts)
        return indices

    def first_or_last_nan(self, rows: Raw, where: tuple[Raw, ...]) -> Raw:
        """For some windows, the first index within the image, or that of the last NaN."""
        chosen = np.full(len(where[0]), -1)
        for position in product(*self.steps):
            at = [
                start[w] + step
                for start, w, step in zip(self.starts, where[1:], position, strict=True)
            ]
            inside = np.ones(len(chosen), bool)
            index = np.zeros(len(chosen), np.int64)
            for c, size in zip(at, self.sizes, strict=True):
                inside &= (c >= 0) & (c < size)
                index = index * size + c
            clipped = [np.clip(c, 0, size - 1) for c, size in zip(at, self.sizes, strict=True)]
            values = rows[(where[0], *clipped)]
            better = inside & ((chosen < 0) | (values != values))
            chosen = np.where(better, index, chosen)
        return chosen


def maxima_among(x: Raw, coordinates: Sequence[Raw]) -> tuple[Raw, Raw]:
    """As ``window_maxima``, for windows of any kind: ``coordinates`` are, for each dimension, an
    array ``(counts, kernel)`` of the indices that each window shows."""
    n = len(coordinates)
    sizes = x.shape[x.ndim - n :]
    spread = x
    for d, c in zip(range(-n, 0), coordinates, strict=True):
        spread = np.take(spread, c.reshape(-1), axis=d)
    counts, kernel = zip(*(c.shape for c in coordinates), strict=True)
    none, once = (0,) * n, (1,) * n
    best, among = window_maxima(spread, kernel, kernel, none, once, counts)
    indices = np.zeros(among.shape, np.int64)
    inner = prod(spread.shape[x.ndim - n :])
    for c, size in zip(coordinates, sizes, strict=True):
        inner //= max(c.size, 1)
        indices = indices * size + np.take(c, among // max(inner, 1) % max(c.size, 1))
    return best, indices


def divided(size: int, count: int) -> Raw:
    """``size`` indices in ``count`` windows of about the same size, which may overlap by one, as
    ``(count, most indices)``; the last index is repeated where a window has fewer."""
    number = np.arange(count)
    start, end = number * size // max(count, 1), -((number + 1) * -size // max(count, 1))
    most = int((end - start).max(initial=1))
    return np.minimum(start[:, None] + np.arange(most), end[:, None] - 1)


def take_at_indices(x: Raw, indices: Raw, ndim: int) -> Raw:
    """The elements of images at indices counted in reading order; ``ndim`` dimensions are an
    image's. An index of -1, that of a window with nothing but padding, gives zero."""
    lead = x.shape[: x.ndim - ndim]
    rows = x.reshape(prod(lead), prod(x.shape[x.ndim - ndim :]))
    flat_indices = indices.reshape(prod(lead), prod(indices.shape[x.ndim - ndim :]))
    taken = np.take_along_axis(rows, flat_indices, 1)
    taken[flat_indices < 0] = 0
    return taken.reshape(indices.shape)


def add_at_indices(y: Raw, indices: Raw, sizes: Sizes, distinct: bool) -> Raw:
    """The transpose of ``take_at_indices``, into images of ``sizes``. ``distinct`` promises that no
    index occurs twice, or allows the last value for it to win."""
    lead = y.shape[: y.ndim - len(sizes)]
    rows, count = prod(lead), prod(sizes)
    out = np.zeros((rows, count), y.dtype)
    each = prod(y.shape[y.ndim - len(sizes) :])
    values, flat_indices = y.reshape(rows, each), indices.reshape(rows, each)

    def block(values: Raw, flat_indices: Raw, out: Raw) -> None:
        flat = (flat_indices + np.arange(len(flat_indices))[:, None] * count).reshape(-1)
        values = values.reshape(-1)
        if flat_indices.min() < 0:
            somewhere = flat_indices.reshape(-1) >= 0
            flat, values = flat[somewhere], values[somewhere]
        if distinct:
            out.reshape(-1)[flat] = values
        elif out.dtype.kind == "c":
            np.add.at(out.reshape(-1), flat, values)
        else:
            sums = np.bincount(flat, values, minlength=out.size)
            out[...] = sums.reshape(out.shape)

    if values.size:
        _blocks.run(block, values, flat_indices, out)
    return out.reshape(*lead, *sizes)


# -- bags of rows ----------------------------------------------------------------------------


def counts_of(indices: Raw, count: int) -> Raw:
    """How often each number below ``count`` occurs."""
    return np.bincount(indices.reshape(-1), minlength=count)


def bag_numbers(starts: Raw, length: int) -> Raw:
    """For each of ``length`` elements the number of its bag; bags begin at ``starts``."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=length))


def bag_maxima(rows: Raw, indices: Raw, bags: Raw, count: int) -> tuple[Raw, Raw]:
    """The largest elements of the rows of each bag, and the indices of the (first) rows they are
    in; zeros for empty bags. ``bags`` are in order. NaN is larger than nothing, and nothing is
    larger than NaN: it counts where it comes first in its bag, as in PyTorch."""
    width = rows.shape[1]
    best, largest = np.zeros((count, width), rows.dtype), np.zeros((count, width), indices.dtype)
    if len(rows):
        filled, first = np.unique(bags, return_index=True)
        odd = np.isnan(rows)
        if odd.any():
            begins = np.zeros((len(rows), 1), bool)
            begins[first] = True
            leads = odd & begins
            leads = leads[first][np.searchsorted(filled, bags)]  # for each row of such a bag
            rows = np.where(leads, np.nan, np.where(odd, -np.inf, rows)).astype(rows.dtype)
        best[filled] = np.maximum.reduceat(rows, first)
        result = (rows == best[bags]) | np.isnan(rows)
        numbers = np.where(result, np.arange(len(rows))[:, None], len(rows) - 1)
        largest[filled] = indices[np.minimum.reduceat(numbers, first)]
    return best, largest


def row_norms(rows: Raw, order: float) -> Raw:
    """The norm of each row."""
    return np.linalg.norm(rows, order, axis=1)


def windows_at_random(
    samples: Raw, shape: tuple[int, ...], kernel: tuple[int, ...], out: tuple[int, ...],
    order: tuple[int, ...],
) -> Raw:  # fmt: skip
    """The flat indices of the elements of windows whose distances samples in ``[0, 1)`` choose, for
    each channel of each entry: ``(N, C, windows, elements of a window)``. ``order`` says which
    sample is for which dimension."""
    count, channels, spatial = samples.shape
    flat = np.zeros((count, channels, 1, 1), np.int64)
    for d in range(spatial):
        starts = _starts_at_random(samples[..., order[d]], shape[d], out[d], kernel[d])
        along = starts[..., :, None] + np.arange(kernel[d])
        flat = flat[..., :, None, :, None] * shape[d] + along[:, :, None, :, None, :]
        windows, elements = flat.shape[2] * flat.shape[3], flat.shape[4] * flat.shape[5]
        flat = flat.reshape(count, channels, windows, elements)
    return flat


def _starts_at_random(sample: Raw, size: int, out: int, kernel: int) -> Raw:
    """Where the windows along a dimension begin; the last one ends at its end."""
    starts = np.full((*sample.shape, out), size - kernel, np.int64)
    if out > 1:
        alpha = np.asarray((size - kernel) / (out - 1), sample.dtype)
        steps = np.arange(out - 1, dtype=sample.dtype)
        moved = ((steps + sample[..., None]) * alpha).astype(np.int64)
        starts[..., :-1] = moved - (sample[..., None] * alpha).astype(np.int64)
    return starts
