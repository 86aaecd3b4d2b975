"""Batches of small matrices: each elimination step is applied to all of them.

LAPACK works on one matrix at a time, and calling it takes longer than it works where matrices are
small. Here the loops go over rows, and NumPy goes over the batch.
"""

from __future__ import annotations

import math

import numpy as np

from retrograd.arrays._numpy import Raw

_MOST_ROWS = 32
_FEWEST_PER_ROW = 4


def pays(x: Raw) -> bool:
    """Whether there are so many matrices, and so small, that this is the faster way."""
    rows = max(x.shape[-2:])
    return bool(0 < rows <= _MOST_ROWS and math.prod(x.shape[:-2]) >= _FEWEST_PER_ROW * rows)


def lu_factor(x: Raw) -> tuple[Raw, Raw, Raw]:
    """L and U, the exchanges of rows, and the first zero on the diagonal, as from LAPACK. Of
    matrices that are not finite, too, with every NaN that follows."""
    batch, (m, n) = x.shape[:-2], x.shape[-2:]
    a = x.reshape((-1, m, n)).copy()
    every, k = np.arange(len(a)), min(m, n)
    pivots, infos = np.empty((len(a), k), np.int32), np.zeros(len(a), np.int32)
    finite = bool(np.isfinite(a).all())
    for j in range(k):
        column = a[:, j:, j]
        sizes = np.abs(column.real) + np.abs(column.imag) if a.dtype.kind == "c" else np.abs(column)
        if not finite:  # NaN is no larger than anything, nor is anything larger than it
            sizes = np.where(np.isnan(sizes), -1.0, sizes)
            sizes[:, 0] = np.where(np.isnan(column[:, 0]), np.inf, sizes[:, 0])
        chosen = np.argmax(sizes, 1) + j
        pivots[:, j] = chosen + 1
        rows = a[every, chosen]
        a[every, chosen] = a[:, j]
        a[:, j] = rows
        pivot = rows[:, j]
        infos[(pivot == 0) & (infos == 0)] = j + 1
        a[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)[:, None]
        a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 :]
    return a.reshape(x.shape), pivots.reshape((*batch, k)), infos.reshape(batch)


def substituted(a: Raw, b: Raw, upper: bool, unit: bool) -> Raw:
    """X of A X = B for triangular matrices of the same batch."""
    n = a.shape[-1]
    x = np.array(b)
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        x[..., i, :] -= np.matmul(a[..., i : i + 1, known], x[..., known, :])[..., 0, :]
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
    return x


def lu_solve(lu: Raw, order: Raw, b: Raw, transposed: int) -> Raw:
    """As LAPACK's, by the order of rows that P makes."""
    rows = order[..., None]
    if not transposed:
        right = np.take_along_axis(b, np.argsort(rows, -2), -2)
        return substituted(lu, substituted(lu, right, False, True), True, False)
    factors = np.swapaxes(lu, -2, -1)
    if transposed == 2:
        factors = factors.conj()
    result = substituted(factors, substituted(factors, b, False, False), True, True)
    return np.take_along_axis(result, rows, -2)
