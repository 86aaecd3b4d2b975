"""Colourings of sparse matrices: columns of one colour are computed together.

Matrices of discretized equations repeat one pattern of neighbours at every point of a grid. Their
columns are coloured by a linear form of the coordinates, which often needs no more colours than the
longest row has entries, the least possible number (``lattices``). All others are coloured greedily,
one column after the other, each with the first colour that fits. The colours that are taken in a
row are the bits of a number, so that a column takes a few operations on integers. A greedy
colouring is then improved by colouring whole classes again (``recolored``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from retrograd.arrays._patterns import Pattern, transposed

ORDERS = ("natural", "largest_first", "smallest_last", "incidence_degree")
MOST_COLUMNS = 50_000  # for which all orders are tried
FEW_COLUMNS = 1000  # that are coloured one by one before anything else is tried
MOST_NEIGHBOURS = 1 << 24  # entries of a graph of columns
PASSES = 6  # of colouring classes again


def columns(pattern: Pattern, order: str | None = None) -> Any:
    """A colour for each column, such that two that have an entry in one row differ. Without an
    order, several colourings are compared, and the one with the fewest colours is taken."""
    if order is not None:
        return greedy(pattern, sequence(pattern, order))
    n, least = pattern.shape[1], longest_row(pattern)
    if least == n:
        return np.arange(n)
    best = greedy(different_rows(pattern), range(n)) if n <= FEW_COLUMNS else None
    if best is not None and count(best) == least:
        return best
    colors = _on_grid(pattern, least)
    if colors is not None and (best is None or count(colors) < count(best)):
        best = colors
        if count(best) == least:
            return best
    for name in _affordable_orders(pattern):
        colors = greedy(pattern, sequence(pattern, name))
        best = colors if best is None or count(colors) < count(best) else best
        if count(best) == least:
            return best
    return recolored(pattern, best, least)


def different_rows(pattern: Pattern) -> Pattern:
    """The rows of a pattern, each of them once, if it has few columns and many rows."""
    rows, n = pattern.shape
    if rows <= n or rows * n > MOST_NEIGHBOURS:
        return pattern
    packed = np.packbits(pattern.toarray(), axis=1)
    _, first = np.unique(packed.view(f"V{packed.shape[1]}").reshape(-1), return_index=True)
    return pattern[np.sort(first)]


def count(colors: Any) -> int:
    """The number of colours."""
    return int(colors.max(initial=-1)) + 1


def longest_row(pattern: Pattern) -> int:
    """The largest number of entries of a row: columns cannot do with fewer colours."""
    return int(np.diff(pattern.indptr).max(initial=0))


def _affordable_orders(pattern: Pattern) -> tuple[str, ...]:
    lengths = np.diff(pattern.indptr).astype(np.int64)
    small = pattern.shape[1] <= MOST_COLUMNS and (lengths**2).sum() <= MOST_NEIGHBOURS
    return ORDERS if small else ("natural", "largest_first")


def greedy(pattern: Pattern, order: Any) -> Any:
    """Columns one after the other, each with the first colour that none of its rows has."""
    by_column = transposed(pattern)
    starts, rows = by_column.indptr.tolist(), by_column.indices.tolist()
    taken = [0] * pattern.shape[0]  # for each row, the colours that it has, as bits
    colors = [0] * pattern.shape[1]
    for j in order:
        own = rows[starts[j] : starts[j + 1]]
        used = 0
        for r in own:
            used |= taken[r]
        free = ~used & (used + 1)  # the lowest bit that is not set
        colors[j] = free.bit_length() - 1
        for r in own:
            taken[r] |= free
    return np.array(colors, dtype=np.int64)


def is_valid(pattern: Pattern, colors: Any) -> bool:
    """Whether the columns of every row differ in colour."""
    return bool(single(pattern, colors).all())


def single(pattern: Pattern, colors: Any) -> Any:
    """For each entry, in order, whether it is the only one of its row with the colour of its
    column."""
    lengths = np.diff(pattern.indptr)
    rows = np.repeat(np.arange(pattern.shape[0]), lengths)
    k = count(colors)
    key = rows * k + colors[pattern.indices]
    if pattern.shape[0] * k <= 8 * max(pattern.nnz, 1):
        return np.bincount(key, minlength=pattern.shape[0] * k)[key] == 1
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    return counts[inverse] == 1


# -- orders ---------------------------------------------------------------------------------------


def sequence(pattern: Pattern, order: str) -> Any:
    """The columns in the order in which they are to be coloured."""
    if order not in ORDERS:
        raise ValueError(f"expected an order of {', '.join(ORDERS)}, got {order!r}")
    n = pattern.shape[1]
    if order == "natural":
        return range(n)
    if order == "largest_first":
        # The number of entries that a column shares rows with; a neighbour in two rows counts
        # twice, which the graph of columns would tell, but that may be large.
        others = np.diff(pattern.indptr) - 1
        degree = pattern.T.astype(np.int64) @ others
        return np.argsort(-degree, kind="stable").tolist()
    graph = neighbours(pattern)
    return by_buckets(graph, np.diff(graph.indptr), order)


def neighbours(pattern: Pattern) -> Any:
    """Which columns have an entry in a row in common: a graph, as a sparse matrix."""
    counts = pattern.astype(np.int32)
    graph = (counts.T @ counts).tocsr()
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph


def by_buckets(graph: Any, degree: Any, order: str) -> list[int]:
    """Smallest last: the vertex with the fewest remaining neighbours comes last and is removed.
    Incidence degree: the vertex with the most neighbours already taken comes next."""
    n = graph.shape[0]
    starts, others = graph.indptr.tolist(), graph.indices.tolist()
    last = order == "smallest_last"
    key = degree.tolist() if last else [0] * n
    buckets: list[dict[int, None]] = [{} for _ in range(int(degree.max(initial=0)) + 1)]
    for v in range(n):
        buckets[key[v]][v] = None
    done = [False] * n
    found = []
    best = 0
    for _ in range(n):
        if last:
            best = max(best - 1, 0)
            while not buckets[best]:
                best += 1
        else:
            best = min(best + 1, len(buckets) - 1)
            while not buckets[best]:
                best -= 1
        v, _ = buckets[best].popitem()
        done[v] = True
        found.append(v)
        for w in others[starts[v] : starts[v + 1]]:
            if not done[w]:
                del buckets[key[w]][w]
                key[w] += -1 if last else 1
                buckets[key[w]][w] = None
    return found[::-1] if last else found


# -- improving a colouring ------------------------------------------------------------------------


def recolored(pattern: Pattern, colors: Any, least: int) -> Any:
    """A colouring with at most as many colours, by colouring the classes of another one greedily
    in another order. The columns of a class share no row, so a class takes a few operations."""
    by_column = transposed(pattern)
    for turn in range(PASSES):
        k = count(colors)
        if k <= least:
            break
        if turn % 2 == 0:
            classes = np.arange(k)[::-1]
        else:
            classes = np.argsort(-np.bincount(colors, minlength=k), kind="stable")
        colors = _by_classes(by_column, colors, classes)
    return colors


def _by_classes(by_column: Pattern, colors: Any, classes: Any) -> Any:
    """Columns, class by class, each with the first colour that none of its rows has."""
    k, (n, row_count) = len(classes), by_column.shape
    lengths = np.diff(by_column.indptr)
    taken = np.zeros((row_count, -(-k // 64)), np.uint64)
    result = np.zeros(n, np.int64)
    order = np.argsort(colors, kind="stable")
    bounds = np.searchsorted(colors[order], np.arange(k + 1))
    for c in classes:
        members = order[bounds[c] : bounds[c + 1]]
        members = members[lengths[members] > 0]  # those without entries keep the first colour
        if not len(members):
            continue
        sizes = lengths[members]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        entries = np.arange(sizes.sum()) + np.repeat(by_column.indptr[members] - starts, sizes)
        rows = by_column.indices[entries]
        used = np.bitwise_or.reduceat(taken[rows], starts, axis=0)
        own = _lowest_free(used)
        result[members] = own
        own = np.repeat(own, sizes)
        taken[rows, own // 64] |= np.uint64(1) << (own % 64).astype(np.uint64)
    return result


def _lowest_free(used: Any) -> Any:
    """The first bit of each row of words that is not set."""
    words = np.argmax(used != np.uint64(0xFFFFFFFFFFFFFFFF), axis=1)
    word = used[np.arange(len(used)), words]
    free = ~word & (word + np.uint64(1))
    return words * 64 + np.bitwise_count(free - np.uint64(1)).astype(np.int64)


# -- lattices ------------------------------------------------------------------------------------

MOST_STEPS = 400  # different vectors from one column of a row to another
MOST_FORMS = 1 << 15  # linear forms to be looked at for one number of colours
MOST_TRIALS = 40  # of these, those to be tried
SAMPLE = 2000  # rows that steps are read off


class Lattice(NamedTuple):
    """A colouring by a linear form of the coordinates of a grid, modulo the number of colours. The
    coordinates of column ``j`` are the digits of ``j`` for the widths of the grid: neighbours along
    the next dimension are that far apart."""

    widths: tuple[int, ...]
    form: Any
    number: int  # of colours

    def colors(self, columns: Any) -> Any:
        return (_digits(columns, self.widths) @ self.form) % self.number

    def corner(self, n: int) -> Any:
        """The columns in one corner of a grid of ``n``."""
        side = (96, 12, 6)[len(self.widths)]
        first = np.arange(min(n, side * (self.widths[0] if self.widths else 1)))
        return first[(_digits(first, self.widths) < side).all(axis=1)]


def lattices(pairs: Any, counts: range) -> Iterator[Lattice]:
    """Lattices in which all of some pairs of columns differ, from the fewest colours on. ``pairs``
    are two arrays, or None."""
    if pairs is None or counts.stop > 65:
        return
    grids = [(widths, _vectors(pairs, widths)) for widths in _widths(pairs)]
    grids = [grid for grid in grids if len(grid[1]) <= MOST_STEPS]
    grids.sort(key=lambda grid: int(np.abs(grid[1]).max()))  # in the right one, steps are short
    for k in counts:
        for widths, vectors in grids:
            if k > 1 and k ** (len(widths) + 1) <= MOST_FORMS:
                for form in _forms(vectors, k)[:MOST_TRIALS]:
                    yield Lattice(widths, form, k)


def _on_grid(pattern: Pattern, least: int) -> Any:
    """A lattice with the least number of colours, or few more; None if there is none."""
    numbers = np.arange(pattern.shape[1])
    forms = lattices(_steps(pattern), range(least, least + 3))
    for lattice in itertools.islice(forms, 8):
        colors = lattice.colors(numbers)
        if is_valid(pattern, colors):
            return colors
    return None


def _steps(pattern: Pattern) -> Any:
    """Pairs of columns that have a row in common, from some of the rows; None if there are too
    many different distances for a grid."""
    lengths = np.diff(pattern.indptr)
    if int(lengths.max(initial=0)) > 64:
        return None
    rows = np.flatnonzero(lengths > 1)
    if len(rows) > SAMPLE:
        spread = np.random.default_rng(0).choice(rows, SAMPLE // 2, replace=False)
        rows = np.concatenate([rows[: SAMPLE // 4], spread, rows[-SAMPLE // 4 :]])
    first, second = [], []
    for length in np.unique(lengths[rows]):
        own = rows[lengths[rows] == length]
        table = pattern.indices[pattern.indptr[own][:, None] + np.arange(length)]
        for a, b in itertools.combinations(range(length), 2):
            first.append(table[:, a])
            second.append(table[:, b])
    if not first:
        return None
    pairs = np.concatenate(first).astype(np.int64), np.concatenate(second).astype(np.int64)
    return pairs if len(np.unique(pairs[1] - pairs[0])) <= MOST_STEPS else None


def _widths(pairs: Any) -> list[tuple[int, ...]]:
    """What the widths of a grid may be: none, one, or two of which one divides the other."""
    distances, counts = np.unique(pairs[1] - pairs[0], return_counts=True)
    often = [int(d) for d in distances[np.argsort(-counts, kind="stable")] if d > 2][:24]
    widths: list[tuple[int, ...]] = [(), *[(d,) for d in often]]
    return widths + [(b, a) for a in often for b in often if b > a and b % a == 0][:24]


def _digits(numbers: Any, widths: tuple[int, ...]) -> Any:
    digits = []
    for width in widths:
        quotient, numbers = np.divmod(numbers, width)
        digits.append(quotient)
    return np.stack([*digits, numbers], axis=1)


def _vectors(pairs: Any, widths: tuple[int, ...]) -> Any:
    """The different steps from one column to another."""
    steps = _digits(pairs[1], widths) - _digits(pairs[0], widths)
    size = np.abs(steps).max(axis=0) + 1
    key = np.zeros(len(steps), np.int64)
    for d in range(steps.shape[1]):
        key = key * (2 * size[d]) + steps[:, d] + size[d]
    _, where = np.unique(key, return_index=True)
    return steps[where]


def _forms(vectors: Any, k: int) -> Any:
    """The linear forms that are not zero modulo ``k`` for any of some vectors."""
    axes = np.meshgrid(*[np.arange(k)] * vectors.shape[1], indexing="ij")
    forms = np.stack([a.reshape(-1) for a in axes], axis=1)
    for start in range(0, len(vectors), 50):
        part = vectors[start : start + 50]
        forms = forms[((forms @ part.T) % k != 0).all(axis=1)]
    return forms


# -- products ------------------------------------------------------------------------------------


def seeds(colors: Any, dtype: Any) -> Any:
    """For each colour, a vector with ones where the columns of that colour are; none for columns
    whose colour is -1."""
    result = np.zeros((count(colors), len(colors)), dtype)
    colored = np.flatnonzero(colors >= 0)
    result[colors[colored], colored] = 1
    return result
