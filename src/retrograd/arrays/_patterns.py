"""Patterns: which elements depend on which others, as sparse matrices of truths.

A pattern has a row for each element of a value, in reading order, and a column for each element
that it may depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse  # type: ignore[import-untyped]

Pattern: TypeAlias = Any  # a csr_array of bool; SciPy ships no types

MOST_PROBES = 1 << 28  # elements that a map is probed with, one input at a time, at most


def identity(n: int) -> Pattern:
    """Every element depends on itself."""
    return sparse.csr_array(sparse.identity(n, dtype=bool, format="csr"))


def full(rows: int, columns: int) -> Pattern:
    """Every element depends on everything."""
    return sparse.csr_array(np.ones((rows, columns), bool))


def empty(rows: int, columns: int) -> Pattern:
    return sparse.csr_array((rows, columns), dtype=bool)


def from_entries(rows: Any, columns: Any, shape: tuple[int, int]) -> Pattern:
    """The pattern with the entries given, each of which may be repeated."""
    truths = np.ones(len(rows), bool)
    found = sparse.csr_array((truths, (rows, columns)), shape=shape)
    found.sum_duplicates()
    return _truths(found)


def from_array(x: Any) -> Pattern:
    """The entries that are not zero of a matrix, dense or sparse."""
    found = sparse.csr_array(x)
    found.eliminate_zeros()
    return _truths(found)


def taken(pattern: Pattern, rows: Any) -> Pattern:
    """Some rows of a pattern; none where the row is -1."""
    rows = np.asarray(rows)
    if not (rows < 0).any():
        return pattern[rows]
    with_none = sparse.vstack([pattern, empty(1, pattern.shape[1])], format="csr")
    return with_none[np.where(rows < 0, pattern.shape[0], rows)]


def union(patterns: Sequence[Pattern]) -> Pattern:
    """What any of some patterns has."""
    found = patterns[0]
    for pattern in patterns[1:]:
        found = found + pattern
    return _truths(found)


def through(relation: Pattern, pattern: Pattern) -> Pattern:
    """What results depend on, by which inputs each depends on, and what these depend on."""
    return _truths(sparse.csr_array(relation.astype(np.int32) @ pattern.astype(np.int32)))


def written(pattern: Pattern, rows: Any, new: Pattern) -> Pattern:
    """A pattern with some rows replaced."""
    count = pattern.shape[0]
    order = np.arange(count)
    order[np.asarray(rows)] = count + np.arange(len(rows))
    return sparse.vstack([pattern, new], format="csr")[order]


def entries(pattern: Pattern) -> tuple[Any, Any]:
    """The rows and the columns of all entries, row by row."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    return rows, pattern.indices


def broadcast_indices(shape: tuple[int, ...], to: tuple[int, ...]) -> Any:
    """For each element of a broadcast value, which element it is of the value itself."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.broadcast_to(np.arange(count).reshape(shape), to).reshape(-1)


def _truths(matrix: Any) -> Pattern:
    matrix.sort_indices()
    return sparse.csr_array(
        (np.ones(matrix.nnz, bool), matrix.indices, matrix.indptr), shape=matrix.shape
    )


# -- linear maps ---------------------------------------------------------------------------------

Map = Callable[[Any], Any]


def of_map(
    apply: Map, transpose: Map | None, size: tuple[int, ...], result: tuple[int, ...]
) -> Pattern:
    """Which inputs each result of a linear map depends on, found by calling it.

    Three calls show whether every result is a multiple of one input, as where elements are only
    moved. Three of the transposed map show whether every input goes to one result, as in sums.
    What is neither is probed input by input, if it is small; otherwise every result is taken to
    depend on every input.
    """
    count, results = _count(size), _count(result)
    if not count or not results:
        return empty(results, count)
    source = _single_source(apply, size, results)
    if source is not None:
        there = np.flatnonzero(source >= 0)
        return from_entries(there, source[there], (results, count))
    if transpose is not None:
        source = _single_source(transpose, result, count)
        if source is not None:
            there = np.flatnonzero(source >= 0)
            return from_entries(source[there], there, (results, count))
    if count * (count + results) > MOST_PROBES:
        return full(results, count)
    return _probed(apply, size, results)


def _single_source(apply: Map, size: tuple[int, ...], results: int) -> Any:
    """For each result the one input that it is a multiple of, -1 for those that are zero; None if
    some result is not a multiple of one input."""
    count = _count(size)
    numbers = np.arange(1.0, count + 1)
    weights = np.random.default_rng(count).uniform(1, 2, count)
    factor, numbered, weighed = (
        np.asarray(apply(x.reshape(size)), complex).reshape(-1)
        for x in (np.ones(count), numbers, weights)
    )
    if len(factor) != results or not np.isfinite(weighed).all():
        return None
    zero = factor == 0
    if (numbered[zero] != 0).any() or (weighed[zero] != 0).any():
        return None
    number = numbered / np.where(zero, 1, factor)
    source = np.rint(number.real).astype(np.int64) - 1
    inside = zero | ((source >= 0) & (source < count))
    if not inside.all() or (np.abs(number - source - 1)[~zero] > 1e-6).any():
        return None
    source = np.where(zero, -1, source)
    expected = factor * weights[np.where(zero, 0, source)]
    if not np.allclose(expected[~zero], weighed[~zero], rtol=1e-12, atol=0):
        return None
    return source


def _probed(apply: Map, size: tuple[int, ...], results: int) -> Pattern:
    count = _count(size)
    rows, columns = [], []
    for j in range(count):
        unit = np.zeros(count)
        unit[j] = 1
        hit = np.flatnonzero(np.asarray(apply(unit.reshape(size))).reshape(-1))
        rows.append(hit)
        columns.append(np.full(len(hit), j))
    return from_entries(np.concatenate(rows), np.concatenate(columns), (results, count))


def generic(shape: tuple[int, ...]) -> Any:
    """Numbers of which no sum of products is zero by chance."""
    return np.random.default_rng(_count(shape)).uniform(1, 2, shape)


def _count(size: tuple[int, ...]) -> int:
    return int(np.prod(size, dtype=np.int64))


# -- matrices of numbers ------------------------------------------------------------------------


def assembled(pattern: Pattern, values: Any) -> Any:
    """A sparse matrix with the entries of a pattern, and their values in its order."""
    return sparse.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)


def transposed(pattern: Pattern) -> Pattern:
    return sparse.csr_array(pattern.T)


def is_sparse(x: Any) -> bool:
    return bool(sparse.issparse(x))


def banded(rows: int, columns: int, lower: int, upper: int) -> Pattern:
    """Entries from ``lower`` diagonals below the main one to ``upper`` above it."""
    diagonals = np.arange(-lower, upper + 1)
    i = np.repeat(np.arange(rows), len(diagonals))
    j = i + np.tile(diagonals, rows)
    inside = (j >= 0) & (j < columns)
    return from_entries(i[inside], j[inside], (rows, columns))


def agree(a: Any, b: Any, scale: Any) -> bool:
    """Whether two vectors are equal up to rounding."""
    tolerance = 1e3 * np.finfo(b.dtype).eps
    return bool((np.abs(a - b) <= tolerance * (scale + np.abs(b))).all())
