"""Distances between all rows of two arrays, and the cross product."""

from __future__ import annotations

import math

import numpy as np

from retrograd.arrays._numpy import Raw


def same_batch(*arrays: Raw) -> tuple[Raw, ...]:
    """Some batches of matrices, broadcast to each other."""
    batch = np.broadcast_shapes(*[x.shape[:-2] for x in arrays])
    return tuple(np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in arrays)


_CHUNK = 1 << 20  # differences held at a time


def distances(x: Raw, y: Raw, p: float) -> Raw:
    """The p-norms of the differences of all rows of ``x`` and ``y``."""
    x, y = same_batch(x, y)
    rows, others, width = x.shape[-2], y.shape[-2], x.shape[-1]
    out = np.empty((*x.shape[:-2], rows, others), x.dtype)
    count = math.prod(x.shape[:-2])
    step = max(1, _CHUNK // max(count * others * width, 1))
    for start in range(0, rows, step):
        apart = np.abs(x[..., start : start + step, None, :] - y[..., None, :, :])
        out[..., start : start + step, :] = _norm(apart, p)
    return out


def _norm(sizes: Raw, p: float) -> Raw:
    """The p-norms along the last axis; ``sizes`` may be written."""
    if p == 0:
        return unequal(sizes)
    if p == math.inf:
        return sizes.max(-1, initial=0)
    if p == 1:
        return sizes.sum(-1)
    if p == 2:
        return np.sqrt(np.einsum("...i,...i->...", sizes, sizes))
    return np.power(np.power(sizes, p, out=sizes).sum(-1), 1 / p)


def unequal(differences: Raw, axes: tuple[int, ...] = (-1,)) -> Raw:
    """How many differences along some axes, the last one if none is named, are not zero; NaN if one
    of them is."""
    counted = np.where(differences == 0, 0, 1).astype(differences.dtype)
    return np.where(np.isnan(differences), differences, counted).sum(axes)


def euclidean_distances(x: Raw, y: Raw) -> Raw:
    """By squares and one matrix product: faster, and less exact where rows are close together."""
    squares = np.matmul(-2 * x, np.swapaxes(y, -2, -1))
    squares += np.einsum("...i,...i->...", x, x)[..., None]
    squares += np.einsum("...i,...i->...", y, y)[..., None, :]
    np.maximum(squares, 0, out=squares)
    return np.sqrt(squares, out=squares)


def cross(x: Raw, y: Raw, axis: int) -> Raw:
    x, y = np.broadcast_arrays(x, y)
    out = np.empty(x.shape, x.dtype)
    a, b, c = (np.moveaxis(z, axis, 0) for z in (x, y, out))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        target = c[i, ...]
        np.multiply(a[j], b[k], out=target)
        target -= a[k] * b[j]
    return out
