"""Resampling of images: maps along each dimension, and interpolation between pixels.

Averaging over adaptive windows and every kind of resizing are linear maps along one dimension after
the other. A ``Map`` says which elements each result is made of, and with which weights; its
transpose is a map too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from retrograd.arrays._numpy import Raw
from retrograd.arrays._windows import add_at_indices, divided


class Map:
    """Result ``i`` is the sum over ``k`` of ``weights[i, k] * x[indices[i, k]]``; where ``used`` is
    false, the entry only fills the table up."""

    def __init__(self, size: int, indices: Raw, weights: Raw, used: Raw | None = None) -> None:
        self.size = size
        self.count = len(indices)
        self.indices = indices
        self.weights = weights
        self.used = np.ones(indices.shape, bool) if used is None else used

    @cached_property
    def picks(self) -> bool:
        """Whether every result is one element as it is."""
        return self.indices.shape[1] == 1 and bool((self.weights == 1).all())

    @cached_property
    def matrix(self) -> Raw:
        result = np.zeros((self.count, self.size))
        rows = np.broadcast_to(np.arange(self.count)[:, None], self.indices.shape)
        np.add.at(result, (rows[self.used], self.indices[self.used]), self.weights[self.used])
        return result

    @cached_property
    def transposed(self) -> Map:
        rows = np.broadcast_to(np.arange(self.count)[:, None], self.indices.shape)[self.used]
        columns, weights = self.indices[self.used], self.weights[self.used]
        order = np.argsort(columns, kind="stable")
        rows, columns, weights = rows[order], columns[order], weights[order]
        each = np.bincount(columns, minlength=self.size)
        within = np.arange(len(columns)) - np.repeat(np.cumsum(each) - each, each)
        shape = (self.size, max(1, int(each.max(initial=0))))
        indices, heavy, used = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape, bool)
        indices[columns, within], heavy[columns, within] = rows, weights
        used[columns, within] = True
        return Map(self.count, indices, heavy, used)

    def along(self, x: Raw, axis: int) -> Raw:
        """The results along ``axis`` (counted from the end) of ``x``."""
        if self.picks and self.used.all():
            return np.take(x, self.indices[:, 0], axis)
        # A matrix product does many more multiplications, but each takes far less time. It would
        # spread what is not finite to where it does not belong.
        dense = self.size <= 64 * self.indices.shape[1]
        if dense and x.dtype.kind != "i" and np.isfinite(np.add.reduce(x, None)):
            matrix = self.matrix.astype(x.dtype)
            if axis == -1:
                return np.matmul(x, matrix.T)
            lead, rest = x.shape[:axis], x.shape[x.ndim + axis + 1 :]
            wide = np.matmul(matrix, x.reshape(*lead, self.size, prod(rest)))
            return wide.reshape(*lead, self.count, *rest)
        return self._tap_by_tap(x, axis)

    def _tap_by_tap(self, x: Raw, axis: int) -> Raw:
        shape = (-1, *(1,) * (-1 - axis))
        total: Raw = None
        for k in range(self.indices.shape[1]):
            part = np.take(x, self.indices[:, k], axis)
            part *= self.weights[:, k].astype(x.dtype).reshape(shape)
            if not self.used[:, k].all():
                np.copyto(part, 0, where=~self.used[:, k].reshape(shape))
            total = part if total is None else np.add(total, part, out=total)
        return total


def resample(x: Raw, maps: Sequence[Map]) -> Raw:
    """``x`` with a map applied along each of its last dimensions; those that shrink it first."""
    given = x.dtype
    if given == np.uint8 and not all(m.picks for m in maps):
        return _resample_bytes(x, maps)
    if given == np.float16:
        x = x.astype(np.float32)
    axes = sorted(range(-len(maps), 0), key=lambda d: maps[d].count / max(maps[d].size, 1))
    for d in axes:
        x = maps[d].along(x, d)
    return np.ascontiguousarray(x).astype(given, copy=False)


def _resample_bytes(x: Raw, maps: Sequence[Map]) -> Raw:
    """The same for bytes, as PyTorch computes it: rows before columns, with weights that are
    integers of 16 bits, and bytes between the two."""
    for axis, m in reversed([*zip(range(-len(maps), 0), maps, strict=True)]):
        most, bits = m.matrix.max(initial=0.0), 0
        while bits < 22 and int(0.5 + most * (1 << bits + 1)) < 1 << 15:
            bits += 1
        scaled = m.matrix * (1 << bits)
        weights = np.trunc(scaled + np.copysign(0.5, scaled))
        total = np.matmul(np.moveaxis(x, axis, -1).astype(np.float64), weights.T)
        rounded = total.astype(np.int64) + (1 << bits >> 1) >> bits
        x = np.moveaxis(np.clip(rounded, 0, 255).astype(np.uint8), -1, axis)
    return np.ascontiguousarray(x)


@lru_cache(256)
def average(size: int, count: int) -> Map:
    """Averages over ``count`` windows of about the same size."""
    indices = divided(size, count)
    used = np.ones(indices.shape, bool)
    used[:, 1:] = indices[:, 1:] != indices[:, :-1]  # a repeated index fills the table up
    weights = np.where(used, 1 / np.maximum(used.sum(1, keepdims=True), 1), 0.0)
    return Map(size, indices, weights, used)


# -- resizing --------------------------------------------------------------------------------


def _scale(size: int, count: int, align_corners: bool, factor: float | None) -> float:
    """How far apart in the old image two neighbours of the new one lie."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / factor if factor is not None and factor > 0 else size / count


def _sources(size: int, count: int, align_corners: bool, factor: float | None) -> Raw:
    """Where in the old image the pixels of the new one lie."""
    scale = _scale(size, count, align_corners, factor)
    if align_corners:
        return np.arange(count) * scale
    return (np.arange(count) + 0.5) * scale - 0.5


@lru_cache(256)
def resizing(mode: str, size: int, count: int, align_corners: bool, factor: float | None) -> Map:
    """The map that stretches ``size`` pixels to ``count``."""
    if mode in ("nearest", "nearest-exact"):
        return _nearest(mode, size, count, factor)
    if mode.endswith("-antialias"):
        return _antialiased(mode, size, count, align_corners, factor)
    if size == count and mode != "cubic":  # PyTorch copies, whatever the factor is
        indices = np.arange(size)[:, None]
        return Map(size, indices, np.ones(indices.shape))
    sources = _sources(size, count, align_corners, factor)
    if mode == "cubic":
        first = np.floor(sources).astype(np.int64)
        indices = first[:, None] + np.arange(-1, 3)
        return Map(size, np.clip(indices, 0, size - 1), cubic_weights(sources - first, -0.75))
    sources = np.maximum(sources, 0)
    first = np.minimum(sources.astype(np.int64), size - 1)
    share = np.clip(sources - first, 0, 1)
    indices = np.stack([first, np.minimum(first + 1, size - 1)], 1)
    return Map(size, indices, np.stack([1 - share, share], 1))


def _nearest(mode: str, size: int, count: int, factor: float | None) -> Map:
    # PyTorch computes these in single precision, for every dtype.
    scale = np.float32(_scale(size, count, False, factor))
    middle = np.float32(0.5 if mode == "nearest-exact" else 0)
    indices = np.floor((np.arange(count, dtype=np.float32) + middle) * scale).astype(np.int64)
    indices = np.minimum(indices, size - 1)[:, None]
    return Map(size, indices, np.ones(indices.shape))


def cubic_weights(t: Raw, a: float) -> Raw:
    """The weights of the four pixels around a point ``t`` past the second of them."""
    near, far = t, 1 - t

    def inner(d: Raw) -> Raw:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def outer(d: Raw) -> Raw:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return np.stack([outer(near + 1), inner(near), inner(far), outer(far + 1)], -1)


def _antialiased(
    mode: str, size: int, count: int, align_corners: bool, factor: float | None
) -> Map:
    """Each new pixel is a weighted mean over all old ones that it covers."""
    scale = _scale(size, count, align_corners, factor)
    reach = {"linear": 1.0, "cubic": 2.0, "lanczos": 3.0}[mode.removesuffix("-antialias")]
    support = reach * max(scale, 1.0)
    rows = []
    for i in range(count):
        center = scale * (i + 0.5)
        start = max(int(center - support + 0.5), 0)
        end = min(int(center + support + 0.5), size)
        distance = np.abs(np.arange(start, end) - center + 0.5) / max(scale, 1.0)
        weights = _filter(distance, reach)
        total = weights.sum()
        rows.append((start, weights / total if total else weights))
    most = max((len(w) for _, w in rows), default=1) or 1
    indices = np.zeros((count, most), np.int64)
    weights, used = np.zeros((count, most)), np.zeros((count, most), bool)
    for i, (start, row) in enumerate(rows):
        indices[i, : len(row)] = start + np.arange(len(row))
        weights[i, : len(row)], used[i, : len(row)] = row, True
    return Map(size, indices, weights, used)


def _filter(distance: Raw, reach: float) -> Raw:
    if reach == 1:
        return np.maximum(1 - distance, 0)
    if reach == 3:
        return np.where(distance < 3, np.sinc(distance) * np.sinc(distance / 3), 0.0)
    a = -0.5
    inner = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    outer = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance < 1, inner, np.where(distance < 2, outer, 0.0))


# -- padding ---------------------------------------------------------------------------------


@lru_cache(256)
def padding(mode: str, size: int, before: int, after: int) -> Map:
    """The map that frames ``size`` elements with copies of them; negative numbers crop."""
    if mode == "circular":  # what is cropped is not there to go around to
        first, length = max(-before, 0), size + min(before, 0) + min(after, 0)
        indices = first + np.arange(-max(before, 0), length + max(after, 0)) % max(length, 1)
        return Map(size, indices[:, None], np.ones((len(indices), 1)))
    indices = np.arange(-before, size + after)
    if mode == "reflect":
        indices = np.abs(indices)
        indices = np.where(indices >= size, 2 * (size - 1) - indices, indices)
    else:
        indices = np.clip(indices, 0, size - 1)
    return Map(size, indices[:, None], np.ones((len(indices), 1)))


def unresample(x: Raw, maps: Sequence[Map]) -> Raw:
    """The transpose of ``resample``."""
    return resample(x, [m.transposed for m in maps])


# -- points between pixels -------------------------------------------------------------------


def pick_pixels(images: Raw, indices: Raw, inside: Raw) -> Raw:
    """From every channel the pixels at the indices of its image, zero where they are outside it."""
    count, channels = images.shape[:2]
    flat = images.reshape(count, channels, prod(images.shape[2:]))
    result = np.empty((count, channels, indices.shape[1]), images.dtype)
    for image, where_from, out in zip(flat, indices, result, strict=True):
        np.take(image, where_from, 1, out=out, mode="clip")  # they are in range: do not check
    if not inside.all():
        np.copyto(result, 0, where=~inside[:, None])
    return result


def add_pixels(values: Raw, indices: Raw, inside: Raw, sizes: tuple[int, ...]) -> Raw:
    """The transpose of ``pick_pixels``."""
    count, channels = values.shape[:2]
    if not inside.all():
        values = np.where(inside[:, None], values, 0)
    where_to = np.broadcast_to(indices[:, None], values.shape)
    return add_at_indices(
        values.reshape(count * channels, -1 if values.size else indices.shape[1]),
        where_to.reshape(count * channels, indices.shape[1]), (prod(sizes),), False,
    ).reshape(count, channels, *sizes)  # fmt: skip


def base_grid(sizes: tuple[int, ...], align_corners: bool, dtype: Any) -> Raw:
    """The points of a grid that shows an image as it is, each followed by a one."""
    axes = []
    for size in sizes:
        line = np.zeros(1) if size == 1 else np.linspace(-1, 1, size)
        axes.append(line if align_corners else line * (size - 1) / size)
    points = np.meshgrid(*axes, indexing="ij")[::-1]
    rows = [p.reshape(-1) for p in points]
    return np.stack([*rows, np.ones(rows[0].size)], 1).astype(dtype)
