"""Patterns: which elements depend on which others, as sparse matrices of bool.

A pattern has a row for each element of a value, in reading order, and a column for each element
that it may depend on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse  # type: ignore[import-untyped]

Pattern: TypeAlias = Any  # a csr_array of bool; SciPy ships no types

MOST_PROBES = 1 << 28  # elements that a map is probed with, one input at a time, at most
MOST_COLUMNS = 512  # for which rows are sets of bits, not of a sparse matrix, where that is faster
MOST_WORDS = 1 << 21  # of 64 bits, for that
MOST_ENTRIES = 1 << 24  # of the relation of a product of matrices to one factor
MOST_IN_ROW = 64  # inputs of a row, of maps that act row by row


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
    pattern = sparse.csr_array((truths, (rows, columns)), shape=shape)
    pattern.sum_duplicates()
    return _truths(pattern)


def from_array(x: Any) -> Pattern:
    """The entries that are not zero of a matrix, dense or sparse."""
    pattern = sparse.csr_array(x)
    pattern.eliminate_zeros()
    return _truths(pattern)


def taken(pattern: Pattern, rows: Any) -> Pattern:
    """Some rows of a pattern; none where the row is -1."""
    rows = np.asarray(rows)
    if not (rows < 0).any():
        return pattern[rows]
    with_none = sparse.vstack([pattern, empty(1, pattern.shape[1])], format="csr")
    return with_none[np.where(rows < 0, pattern.shape[0], rows)]


def union(patterns: Sequence[Pattern]) -> Pattern:
    """What any of some patterns has."""
    result = patterns[0]
    for pattern in patterns[1:]:
        result = result + pattern
    return _truths(result)


def through(relation: Pattern, pattern: Pattern) -> Pattern:
    """The dependencies of results, from their dependence on inputs and the dependencies of
    those."""
    columns = pattern.shape[1]
    kept = np.flatnonzero(np.bincount(pattern.indices, minlength=columns))
    words = -(-len(kept) // 64)
    if len(kept) <= MOST_COLUMNS and words * max(relation.nnz, relation.shape[0]) <= MOST_WORDS:
        number = np.zeros(columns, np.int64)
        number[kept] = np.arange(len(kept))
        truths = np.zeros((pattern.shape[0], words * 64), bool)
        rows, own = entries(pattern)
        truths[rows, number[own]] = True
        sets = np.packbits(truths, axis=1, bitorder="little").view(np.uint64)
        return from_bits(any_bits(relation, sets), kept, columns)
    return _truths(sparse.csr_array(relation.astype(np.int32) @ pattern.astype(np.int32)))


def stacked(patterns: Sequence[Pattern]) -> Pattern:
    """The rows of several patterns, one after the other."""
    return sparse.csr_array(sparse.vstack(patterns, format="csr"))


def from_sorted(rows: Any, columns: Any, shape: tuple[int, int]) -> Pattern:
    """The pattern with the entries given, in order and none repeated."""
    return from_counts(np.bincount(rows, minlength=shape[0]), columns, shape)


def from_counts(counts: Any, columns: Any, shape: tuple[int, int]) -> Pattern:
    """The pattern with so many entries in each row, and their columns in order."""
    small = max(len(columns), *shape) < 1 << 31
    starts = np.zeros(shape[0] + 1, np.int32 if small else np.int64)
    np.cumsum(counts, out=starts[1:])
    columns = np.asarray(columns).astype(starts.dtype, copy=False)
    return sparse.csr_array((np.ones(len(columns), bool), columns, starts), shape=shape)


def from_sources(source: Any, columns: int) -> Pattern:
    """The pattern with one entry in each row, or none where the column is -1."""
    there = np.flatnonzero(source >= 0)
    return from_sorted(there, source[there], (len(source), columns))


def from_bits(sets: Any, kept: Any, columns: int) -> Pattern:
    """The pattern whose rows are sets of columns, as the bits of words: bits stand for the columns
    in ``kept``."""
    truths = np.unpackbits(sets.view(np.uint8), axis=1, count=len(kept), bitorder="little")
    indices = np.broadcast_to(kept.astype(np.int32), truths.shape)[truths.view(bool)]
    return from_counts(np.bitwise_count(sets).sum(1), indices, (len(sets), columns))


def any_bits(relation: Pattern, sets: Any) -> Any:
    """For each row of a relation the union of sets, which are the bits of words."""
    return by_row(np.bitwise_or, relation, sets[relation.indices], 0)


def by_row(combine: Any, relation: Pattern, values: Any, none: int) -> Any:
    """What the values of the entries of each row are, combined; ``none`` for rows without any."""
    rows, longest = relation.shape[0], len(values) // max(relation.shape[0], 1)
    lengths = np.diff(relation.indptr)
    if 0 < longest <= 16 and (lengths == longest).all():
        return functools.reduce(combine, [values[i::longest] for i in range(longest)])
    result = np.full((rows, *values.shape[1:]), none, values.dtype)
    filled = np.flatnonzero(lengths)
    if len(filled):
        result[filled] = combine.reduceat(values, relation.indptr[filled], axis=0)
    return result


def entries(pattern: Pattern) -> tuple[Any, Any]:
    """The rows and the columns of all entries, row by row."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    return rows, pattern.indices


def broadcast_indices(shape: tuple[int, ...], to: tuple[int, ...]) -> Any:
    """For each element of a broadcast value, which element it is of the value itself."""
    count = size_of(shape)
    return np.broadcast_to(np.arange(count).reshape(shape), to).reshape(-1)


def _truths(matrix: Any) -> Pattern:
    matrix.sort_indices()
    return sparse.csr_array(
        (np.ones(matrix.nnz, bool), matrix.indices, matrix.indptr), shape=matrix.shape
    )


# -- linear maps ---------------------------------------------------------------------------------

Map = Callable[[Any], Any]


class Relation(NamedTuple):
    """Which inputs each result of a linear map depends on. ``source``: the one input, or -1 for
    none, if it is one at most. ``copies``: whether every result is exactly that input, or zero.
    Without ``source`` and ``matrix``, each may depend on all."""

    matrix: Pattern = None
    source: Any = None
    copies: bool = False


def of_map(
    apply: Map, transpose: Map | None, size: tuple[int, ...], result: tuple[int, ...]
) -> Relation:
    """Which inputs each result of a linear map depends on, found by calling it.

    Three calls show whether every result is a multiple of one input, as where elements are only
    moved. Three of the transposed map show whether every input goes to one result, as in sums. A
    few more show whether it acts row by row. What is none of this is probed input by input, if it
    is small; otherwise every result is taken to depend on every input.
    """
    count, results = size_of(size), size_of(result)
    if not count or not results:
        return Relation(empty(results, count), np.full(results, -1), True)
    source, copies = _single_source(apply, size, results)
    if source is not None:
        return Relation(source=source, copies=copies)
    if transpose is not None:
        source, _ = _single_source(transpose, result, count)
        if source is not None:
            there = np.flatnonzero(source >= 0)
            return Relation(from_entries(source[there], there, (results, count)))
    by_rows = _by_rows(apply, size, result)
    if by_rows is not None:
        return Relation(by_rows)
    if count * (count + results) > MOST_PROBES:
        return Relation()
    return Relation(_probed(apply, size, results))


def from_numbers(x: Any) -> Any:
    """Which elements numbers stand for that begin with one; -1 for zero."""
    return np.asarray(x).reshape(-1).real.astype(np.int64) - 1


def joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts)


def rows_of(x: Any, rows: Any) -> Any:
    """Some elements; -1 where the row is -1."""
    return np.append(x, -1)[rows]


def rolled(x: Any, by: int, dim: int) -> Any:
    """The elements of an array, moved along a dimension, in reading order."""
    return np.roll(x, by, dim).reshape(-1)


def sums(shape: tuple[int, ...], dims: tuple[int, ...]) -> Pattern:
    """Which elements of a value meet in each element of its sum over some dimensions."""
    kept = [d for d in range(len(shape)) if d not in dims]
    count, results = size_of(shape), size_of(tuple(shape[d] for d in kept))
    order = np.arange(count).reshape(shape).transpose(*kept, *sorted(dims)).reshape(-1)
    return from_counts(np.full(results, count // max(results, 1)), order, (results, count))


def of_product(other: Any, position: int, shape: tuple[int, ...]) -> Pattern | None:
    """Which elements of the factor of that shape and position each element of a product of matrices
    depends on, by those of the other factor that are not zero; None if there are too many."""
    other = np.asarray(other)
    batch = shape[0] if len(shape) == 3 else 1
    summed = other.shape[-1] if position else shape[-1]
    kept = size_of(shape) // max(batch * summed, 1)  # the size of the dimension that remains
    if np.count_nonzero(other) * kept > MOST_ENTRIES:
        return None
    free = np.arange(kept)
    if position:
        of_batch, row, k = np.nonzero(other.reshape(batch, -1, summed))
        rows = other.size // max(batch * summed, 1)
        results = ((of_batch * rows + row) * kept)[:, None] + free
        own = ((of_batch * summed + k) * kept)[:, None] + free
    else:
        of_batch, k, column = np.nonzero(other.reshape(batch, summed, -1))
        columns = rows = other.size // max(batch * summed, 1)
        results = (of_batch * kept * columns + column)[:, None] + free * columns
        own = (of_batch * kept * summed + k)[:, None] + free * summed
    size = (batch * rows * kept, size_of(shape))
    return from_entries(results.reshape(-1), own.reshape(-1), size)


def either(a: Relation, b: Relation, shape: tuple[int, int]) -> Relation:
    """What either of two maps of the same input depends on."""
    return Relation(union([_matrix(a, shape), _matrix(b, shape)]))


def _matrix(relation: Relation, shape: tuple[int, int]) -> Pattern:
    if relation.source is None:
        return full(*shape) if relation.matrix is None else relation.matrix
    there = np.flatnonzero(relation.source >= 0)
    return from_entries(there, relation.source[there], shape)


def only_source(rows: Sequence[Any], sources: Sequence[Any]) -> Any:
    """What the results of a map of several inputs are copies of, if each is a copy of an element
    of one of them at most. ``rows``: for each input, which element each result is a copy of;
    ``sources``: what these are copies of. None if a result has something of two inputs."""
    found = np.full(len(rows[0]), -1)
    taken_by = np.zeros(len(found), np.int64)
    for own, source in zip(rows, sources, strict=True):
        there = own >= 0
        taken_by += there
        found[there] = source[own[there]]
    return found if (taken_by <= 1).all() else None


def _single_source(apply: Map, size: tuple[int, ...], results: int) -> tuple[Any, bool]:
    """For each result the one input that it is a multiple of, -1 for those that are zero, and
    whether it is always once that input; None if some result is not a multiple of one input."""
    count = size_of(size)
    numbers = np.arange(1.0, count + 1)
    weights = np.random.default_rng(count).uniform(1, 2, count)
    factor, numbered = (np.asarray(apply(x.reshape(size))).reshape(-1)
                        for x in (np.ones(count), numbers))  # fmt: skip
    if len(factor) != results or not np.isfinite(numbered).all():
        return None, False
    zero = factor == 0
    if (numbered[zero] != 0).any():
        return None, False
    number = numbered / np.where(zero, 1, factor)
    nearest = np.rint(number.real)
    if ((np.abs(number - nearest) > 1e-6) | (nearest > count) | (zero ^ (nearest < 1))).any():
        return None, False
    source = nearest.astype(np.int64) - 1
    weighed = np.asarray(apply(weights.reshape(size))).reshape(-1)
    if not np.isfinite(weighed).all() or (weighed[zero] != 0).any():
        return None, False
    source[zero] = -1
    expected = factor * np.append(weights, 0.0)[source]
    if (np.abs(expected - weighed) > 1e-12 * np.abs(expected)).any():
        return None, False
    return source, bool((zero | (factor == 1)).all())


def _by_rows(apply: Map, size: tuple[int, ...], result: tuple[int, ...]) -> Pattern:
    """The relation of a map that acts on each row along the first dimensions alone; None if it does
    not. Each input of a row is probed in all rows at once. If a result depended on another row, it
    would not be the same combination of random numbers of its own row."""
    for d in range(min(len(size), len(result)), 0, -1):
        rows, inner, outer = size_of(size[:d]), size_of(size[d:]), size_of(result[d:])
        if size[:d] != result[:d] or rows < 2 or inner > MOST_IN_ROW:
            continue
        weights = np.random.default_rng(rows).uniform(1, 2, (rows, inner))
        wanted = np.asarray(apply(weights.reshape(size))).reshape(rows, outer)
        total, scale = np.zeros_like(wanted), np.zeros(wanted.shape)
        hits = []
        for i in range(inner):
            unit = np.zeros((rows, inner))
            unit[:, i] = 1
            probe = np.asarray(apply(unit.reshape(size))).reshape(rows, outer)
            total = total + probe * weights[:, i, None]
            scale += np.abs(probe)
            row, j = np.nonzero(probe)
            hits.append((row * outer + j, row * inner + i))
        if (np.abs(total - wanted) <= 1e-10 * scale).all():
            into, of = (np.concatenate(parts) for parts in zip(*hits, strict=True))
            return from_entries(into, of, (rows * outer, rows * inner))
    return None


def _probed(apply: Map, size: tuple[int, ...], results: int) -> Pattern:
    count = size_of(size)
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
    return np.random.default_rng(size_of(shape)).uniform(1, 2, shape)


def size_of(size: tuple[int, ...]) -> int:
    """The number of elements of a shape."""
    return math.prod(size)


# -- matrices of numbers ------------------------------------------------------------------------


def assembled(pattern: Pattern, values: Any) -> Any:
    """A sparse matrix with the entries of a pattern, and their values in its order."""
    return sparse.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)


def transposed(pattern: Pattern) -> Pattern:
    return sparse.csr_array(pattern.T)


def banded(rows: int, columns: int, lower: int, upper: int) -> Pattern:
    """Entries from ``lower`` diagonals below the main one to ``upper`` above it."""
    diagonals = np.arange(-lower, upper + 1)
    i = np.repeat(np.arange(rows), len(diagonals))
    j = i + np.tile(diagonals, rows)
    inside = (j >= 0) & (j < columns)
    return from_entries(i[inside], j[inside], (rows, columns))


def agree(a: Any, b: Any, scale: Any, roughly: bool = False) -> bool:
    """Whether two vectors are equal up to rounding; ``roughly``: up to a lot of it, where both are
    finite."""
    if b.dtype.kind != "f":
        return True
    eps = np.finfo(b.dtype).eps
    if not roughly:
        return bool((np.abs(a - b) <= 1e3 * eps * (scale + np.abs(b))).all())
    there = np.isfinite(a) & np.isfinite(b)
    a, b, scale = a[there], b[there], scale[there]
    return bool((np.abs(a - b) <= eps**0.25 * (scale + np.abs(b))).all())


class Composed:
    """The Jacobian of a function of an input and of an intermediate value, which depends on that
    input. ``outer`` has a column for each input, and then for each intermediate element."""

    def __init__(self, outer: Pattern, inner: Pattern) -> None:
        inputs = inner.shape[1]
        rows, columns = entries(outer)
        is_direct = columns < inputs
        direct = from_sorted(rows[is_direct], columns[is_direct], (outer.shape[0], inputs))
        behind = ~is_direct
        shape = (outer.shape[0], inner.shape[0])
        self._outer = from_sorted(rows[behind], columns[behind] - inputs, shape)
        self.columns = np.flatnonzero(np.bincount(inner.indices, minlength=inputs))
        self.inner = inner[:, self.columns]  # what is not empty of it
        indirect = through(self._outer, inner)
        both = assembled(direct, np.ones(direct.nnz, np.int8)) + assembled(
            indirect, np.full(indirect.nnz, 2, np.int8)
        )
        self.pattern = _truths(both)
        self._behind, self._before = np.flatnonzero(behind), np.flatnonzero(is_direct)
        # Which element of the product each entry is. Of an entry that is none, any: it is cleared.
        rows, columns = entries(self.pattern)
        number = np.zeros(inputs, np.int64)
        number[self.columns] = np.arange(len(self.columns))
        self._place = number[columns]
        self._place += rows * len(self.columns)
        self._cleared = np.flatnonzero(both.data == 1)
        self._sums = np.flatnonzero((both.data & 1).view(bool))

    @property
    def is_cheap(self) -> bool:
        """Whether the product, which is computed as a dense matrix, is not much larger."""
        size = self.pattern.shape[0] * len(self.columns)
        return bool(0 < size <= 8 * self.pattern.nnz)

    def values(self, outer: Any, inner: Any) -> Any:
        """The values of all entries, from those of both patterns."""
        behind = assembled(self._outer, outer.take(self._behind))
        product = behind @ assembled(self.inner, inner).toarray()
        result = product.take(self._place)
        result[self._cleared] = 0
        result[self._sums] += outer.take(self._before)
        return result
