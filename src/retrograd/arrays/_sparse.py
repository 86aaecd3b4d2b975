"""Products and solutions with sparse matrices, whose entries are given by rows, columns and values.
Entries that are repeated count as their sum."""

from __future__ import annotations

import functools
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
        counts = np.bincount(self.rows, minlength=self.shape[0])
        return order, np.concatenate([[0], np.cumsum(counts)]), self.columns[order]

    @property
    def crow(self) -> Any:
        """Where each row begins, if the entries are sorted by rows."""
        return self._by_rows[1]

    @functools.cached_property
    def order(self) -> Any:
        """The order of the entries by rows and, within a row, by columns."""
        return np.lexsort((self.columns, self.rows))

    @functools.cached_property
    def distinct(self) -> tuple[Any, Structure]:
        """For each entry, which of the different ones it is; and these, in order."""
        key = self.rows * max(self.shape[1], 1) + self.columns
        different, which = np.unique(key, return_inverse=True)
        rows, columns = np.divmod(different, max(self.shape[1], 1))
        return which, Structure(rows, columns, self.shape)

    def matrix(self, values: Any) -> Any:
        """The matrix with the values given, in SciPy's form."""
        order, starts, columns = self._by_rows
        return sparse.csr_array((np.asarray(values)[order], columns, starts), shape=self.shape)

    def times(self, values: Any, dense: Any) -> Any:
        """The product with a dense matrix."""
        found = self.matrix(values) @ np.asarray(dense)
        return np.ascontiguousarray(found)

    def solved(self, values: Any, right: Any) -> Any:
        """The solution of a system of equations with the matrix, for each column."""
        if not self.shape[0]:
            return np.zeros_like(right)
        dtype = np.asarray(values).dtype
        wide = np.complex128 if dtype.kind == "c" else np.float64
        factors = splu(self.matrix(values).astype(wide).tocsc())
        return np.ascontiguousarray(factors.solve(np.asarray(right, wide))).astype(dtype)


def nonzero(x: Any) -> tuple[Any, Any]:
    """The rows and columns of the elements of a matrix that are not zero."""
    rows, columns = np.nonzero(x)
    return rows, columns


def rows_of(crow: Any) -> Any:
    """The row of each entry, by where each row begins."""
    return np.repeat(np.arange(len(crow) - 1), np.diff(crow))


def segment_members(starts: Raw, counts: Raw, size: int) -> tuple[Raw, Raw]:
    """The members of segments, and which segment each is in. The last axis counts the segments of a
    row of ``size`` elements; rows, and the segments of all rows, are counted on."""
    first = np.arange(starts[..., 0].size).reshape((*starts.shape[:-1], 1)) * size
    flat, count = (starts + first).reshape(-1), counts.reshape(-1)
    segments = np.repeat(np.arange(len(count)), count)
    before = np.repeat(np.cumsum(count) - count, count)
    return np.arange(len(segments)) - before + flat[segments], segments
