"""Colourings: columns of a sparse matrix that may be computed at once have one colour.

Greedy, one column after the other, each with the first colour that fits. The colours that are
taken in a row are the bits of a number, so that a column takes a few operations on integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.arrays._patterns import Pattern, transposed

ORDERS = ("natural", "largest_first", "smallest_last", "incidence_degree")


def columns(pattern: Pattern, order: str | None = None) -> Any:
    """A colour for each column, such that two that have an entry in one row differ. Without an
    order, that of two which needs fewer colours is taken."""
    if order is None:
        found = [columns(pattern, name) for name in ("natural", "largest_first")]
        return min(found, key=lambda colors: int(colors.max(initial=-1)))
    by_column = transposed(pattern)
    starts, rows = by_column.indptr.tolist(), by_column.indices.tolist()
    taken = [0] * pattern.shape[0]  # for each row, the colours that it has, as bits
    colors = np.full(pattern.shape[1], 0)
    found_colors = [0] * pattern.shape[1]
    for j in sequence(pattern, order):
        own = rows[starts[j] : starts[j + 1]]
        used = 0
        for r in own:
            used |= taken[r]
        free = ~used & (used + 1)  # the lowest bit that is not set
        found_colors[j] = free.bit_length() - 1
        for r in own:
            taken[r] |= free
    colors[:] = found_colors
    return colors


def sequence(pattern: Pattern, order: str) -> Any:
    """The columns in the order in which they are to be coloured."""
    if order not in ORDERS:
        raise ValueError(f"expected an order of {', '.join(ORDERS)}, got {order!r}")
    n = pattern.shape[1]
    if order == "natural":
        return range(n)
    graph = neighbours(pattern)
    degree = np.diff(graph.indptr)
    if order == "largest_first":
        return np.argsort(-degree, kind="stable").tolist()
    return _by_buckets(graph, degree, order)


def neighbours(pattern: Pattern) -> Any:
    """Which columns have an entry in a row in common: a graph, as a sparse matrix."""
    counts = pattern.astype(np.int32)
    graph = (counts.T @ counts).tocsr()
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph


def _by_buckets(graph: Any, degree: Any, order: str) -> list[int]:
    """Smallest last: whoever has the fewest neighbours left comes last, and is then taken away.
    Incidence degree: whoever has the most neighbours that were taken already comes next."""
    n = graph.shape[0]
    starts, others = graph.indptr.tolist(), graph.indices.tolist()
    last = order == "smallest_last"
    key = degree.tolist() if last else [0] * n
    buckets: list[set[int]] = [set() for _ in range(int(degree.max(initial=0)) + 1)]
    for v in range(n):
        buckets[key[v]].add(v)
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
        v = buckets[best].pop()
        done[v] = True
        found.append(v)
        for w in others[starts[v] : starts[v + 1]]:
            if not done[w]:
                buckets[key[w]].remove(w)
                key[w] += -1 if last else 1
                buckets[key[w]].add(w)
    return found[::-1] if last else found


def star(pattern: Pattern, order: str = "largest_first") -> Any:
    """A colour for each column of a symmetric pattern, such that neighbours differ, and every path
    of four has three colours. Each entry can then be read off one product directly, its own or
    that of its mirror image."""
    graph = pattern.copy()
    graph.setdiag(False)
    graph.eliminate_zeros()
    n = graph.shape[0]
    starts, others = graph.indptr.tolist(), graph.indices.tolist()
    near = [others[starts[v] : starts[v + 1]] for v in range(n)]
    degree = np.diff(graph.indptr)
    turn = range(n) if order == "natural" else np.argsort(-degree, kind="stable").tolist()
    color = [-1] * n
    for v in turn:
        used = set()
        for w in near[v]:
            cw = color[w]
            if cw >= 0:
                used.add(cw)
            for x in near[w]:
                cx = color[x]
                if x == v or cx < 0 or cx in used:
                    continue
                if cw < 0 or any(y != w and color[y] == cw for y in near[x]):
                    used.add(cx)
        c = 0
        while c in used:
            c += 1
        color[v] = c
    return np.array(color, dtype=np.int64)


def readable(pattern: Pattern, colors: Any) -> Any:
    """For each entry of a symmetric pattern, in order, whether it is the only one of its row that
    has the colour of its column. Otherwise its mirror image is, by a star colouring."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    colored = colors[pattern.indices]
    count = int(colors.max(initial=0)) + 1
    key = rows * count + colored
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    return counts[inverse] == 1


def seeds(colors: Any, dtype: Any) -> Any:
    """For each colour, a vector with ones where the columns of that colour are."""
    count = int(colors.max(initial=-1)) + 1
    found = np.zeros((count, len(colors)), dtype)
    found[colors, np.arange(len(colors))] = 1
    return found
