"""Products with sparse matrices and sparse solves, in coordinate format.
Entries that are repeated count as their sum."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy import sparse  # type: ignore[import-untyped]
from scipy.sparse.linalg import splu  # type: ignore[import-untyped]

from retrograd.arrays._numpy import Raw


class Structure:
    """Where the entries of a matrix are."""

    def __init__(self, rows: Any, columns: Any, shape: tuple[int, int]) -> None:
        self.rows = np.asarray(rows, np.int64)
        self.columns = np.asarray(columns, np.int64)
        self.shape = shape

    @functools.cached_property
    def transposed(self) -> Structure:
        result = Structure(self.columns, self.rows, (self.shape[1], self.shape[0]))
        result.__dict__["transposed"] = self
        return result

    @functools.cached_property
    def _by_rows(self) -> tuple[Any, Any, Any]:
        """The order of the entries by rows, where each row begins, and the columns in that
        order."""
        order = np.argsort(self.rows, kind="stable")
        return order, starts(self.rows, self.shape[0]), self.columns[order]

    def matrix(self, values: Any) -> Any:
        """The matrix with the values given, in SciPy's form."""
        order, starts, columns = self._by_rows
        return sparse.csr_array((np.asarray(values)[order], columns, starts), shape=self.shape)

    def times(self, values: Any, dense: Any) -> Any:
        """The product with a dense matrix."""
        product = self.matrix(values) @ np.asarray(dense)
        return np.ascontiguousarray(product)

    def solved(self, values: Any, right: Any) -> Any:
        """The solution of a system of equations with the matrix, for each column."""
        if not self.shape[0]:
            return np.zeros_like(right)
        dtype = np.asarray(values).dtype
        wide = np.complex128 if dtype.kind == "c" else np.float64
        factors = splu(self.matrix(values).astype(wide).tocsc())
        return np.ascontiguousarray(factors.solve(np.asarray(right, wide))).astype(dtype)


def nonzero(x: Any, dims: int) -> Any:
    """The indices, in the first dimensions, of slices that are not all zero."""
    while x.ndim > dims:
        x = (x != 0).any(-1)
    return np.stack(np.nonzero(x)) if dims else np.zeros((0, int((x != 0).sum())), np.int64)


def flat(indices: Raw, sizes: tuple[int, ...]) -> Raw:
    """The number of each entry, counted in reading order."""
    out = np.zeros(indices.shape[1], np.int64)
    for row, size in zip(indices, sizes, strict=True):
        out = out * size + row
    return out


def unflat(numbers: Raw, sizes: tuple[int, ...]) -> Raw:
    """The indices that belong to numbers in reading order."""
    if not sizes:
        return np.zeros((0, len(numbers)), np.int64)
    return np.stack(np.unravel_index(numbers, sizes)).astype(np.int64)


def distinct(numbers: Raw) -> tuple[Raw, Raw]:
    """The different numbers, in order, and which of them each is."""
    return np.unique(numbers, return_inverse=True)


def same(a: Raw, b: Raw) -> bool:
    """Whether indices are the same."""
    return a is b or np.array_equal(a, b)


def is_rising(numbers: Raw) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def with_zeros(indices: Raw, dim: int) -> Raw:
    """Indices with a row of zeros more."""
    return np.insert(indices, dim, 0, axis=0)


def without(indices: Raw, dim: int) -> Raw:
    """Indices with a row less."""
    return np.delete(indices, dim, axis=0)


def shifted(indices: Raw, dim: int, by: int) -> Raw:
    """Indices with a number added to a row."""
    out = indices.copy()
    out[dim] += by
    return out


def positions_of(numbers: Raw, value: int) -> Raw:
    """Where a number is."""
    return np.flatnonzero(numbers == value)


def pairs(a: Raw, b: Raw) -> tuple[Raw, Raw]:
    """All pairs of positions at which ``a`` and ``b`` have the same number, by those in ``a``."""
    order = np.argsort(b, kind="stable")
    first = np.asarray(np.searchsorted(b[order], a, "left"))
    counts = np.searchsorted(b[order], a, "right") - first
    of_a = np.repeat(np.arange(len(a)), counts)
    within = np.arange(len(of_a)) - np.repeat(np.cumsum(counts) - counts, counts)
    return of_a, order[first[of_a] + within]


def starts(numbers: Raw, count: int) -> Raw:
    """For each number below ``count`` how many are less, and how many there are at the end: along
    the last dimension, for each index of the others."""
    batch = numbers.shape[:-1]
    ahead = np.arange(math.prod(batch)).reshape(*batch, 1) * count
    each = np.bincount((numbers + ahead).reshape(-1), minlength=math.prod(batch) * count)
    sums = np.cumsum(each.reshape(*batch, count), -1)
    return np.concatenate([np.zeros((*batch, 1), np.int64), sums], -1)


def is_even(indices: Raw, sizes: tuple[int, ...]) -> bool:
    """Whether each index is there as often as each other."""
    counts = np.bincount(flat(indices, sizes), minlength=math.prod(sizes))
    return bool((counts == counts[:1]).all())


def inside_blocks(indices: Raw, block: tuple[int, ...]) -> Raw:
    """The indices of the elements of blocks of a matrix, block by block. Rows of indices in front
    of the last two are those of a batch."""
    shape = (1,) * (len(indices) - 2) + block
    within = np.indices(shape).reshape(len(shape), 1, -1)
    corners = indices * np.asarray(shape)[:, None]
    return (corners[:, :, None] + within).reshape(len(shape), -1)


def blocks(
    indices: Raw, sizes: tuple[int, ...], block: tuple[int, int], first: int
) -> tuple[Raw, Raw]:
    """The indices of blocks of a matrix that elements are in, ordered by dimension ``first`` of the
    last two, those in front are a batch's; and the position of each element among those of all
    blocks."""
    batch = len(indices) - 2
    lengths = (1,) * batch + block
    shape = np.asarray(lengths)[:, None]
    outer, inner = indices // shape, indices % shape
    order = [*range(batch), batch + first, batch + 1 - first]
    counts = tuple(sizes[d] // lengths[d] for d in order)
    numbers, which = distinct(flat(outer[order], counts))
    block_indices = unflat(numbers, counts)[order]
    return block_indices, (which * block[0] + inner[batch]) * block[1] + inner[batch + 1]


def diagonals(offsets: Raw, length: int, shape: tuple[int, int]) -> tuple[Raw, Raw]:
    """The indices of the elements of diagonals of a matrix, one diagonal after the other, and
    where they are in a matrix that has the diagonals as its rows, by columns."""
    columns = np.arange(min(length, shape[1]))
    rows = columns - offsets[:, None]
    which, at = np.nonzero((rows >= 0) & (rows < shape[0]))
    return np.stack([rows[which, at], columns[at]]), np.stack([which, at])


def decompressed(starts: Raw, others: Raw, dim: int) -> Raw:
    """The indices of the entries of a batch of matrices, by where each row (``dim`` is 0) or column
    begins and by the column or row of each entry."""
    batch, count = starts.shape[:-1], starts.shape[-1] - 1
    each = np.tile(np.arange(count), math.prod(batch))
    rows = np.repeat(each, np.diff(starts).reshape(-1))
    pair = (rows, others.reshape(-1)) if dim == 0 else (others.reshape(-1), rows)
    ahead = np.indices(others.shape).reshape(others.ndim, others.size)[:-1]
    return np.concatenate([ahead, np.stack(pair)]).astype(np.int64)


def segment_members(starts: Raw, counts: Raw, size: int) -> tuple[Raw, Raw]:
    """The members of segments, and which segment each is in. The last axis counts the segments of a
    row of ``size`` elements; rows, and the segments of all rows, are counted on."""
    first = np.arange(starts[..., 0].size).reshape((*starts.shape[:-1], 1)) * size
    flat, count = (starts + first).reshape(-1), counts.reshape(-1)
    segments = np.repeat(np.arange(len(count)), count)
    before = np.repeat(np.cumsum(count) - count, count)
    return np.arange(len(segments)) - before + flat[segments], segments
