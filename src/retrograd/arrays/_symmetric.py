"""Colourings of symmetric matrices, in which each entry equals its mirror image.

*Star* colourings let every entry be read directly: it is the only one of its row with the colour of
its column, or its mirror image is. *Acyclic* colourings need fewer colours: the entries between two
colours form trees, which are solved from the leaves to the root, by substitution.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse  # type: ignore[import-untyped]
from scipy.sparse import csgraph  # type: ignore[import-untyped]
from scipy.sparse.linalg import splu  # type: ignore[import-untyped]

from retrograd.arrays import _coloring as coloring
from retrograd.arrays._patterns import Pattern

ORDERS = ("natural", "largest_first", "smallest_last")


def star(pattern: Pattern, order: str | None = None) -> Any:
    """A colour for each column of a symmetric pattern, such that neighbours differ, and every path
    of four has three colours."""
    return _best(pattern, order, _star, is_direct)


def acyclic(pattern: Pattern, order: str | None = None) -> Any:
    """A colour for each column of a symmetric pattern, such that neighbours differ, and every cycle
    has three colours."""
    return _best(pattern, order, _acyclic, is_acyclic)


def _best(pattern: Pattern, order: str | None, color: Any, fits: Any) -> Any:
    graph = pattern.copy()
    graph.setdiag(False)
    graph.eliminate_zeros()
    if order is not None:
        return color(graph, _sequence(graph, order))
    large = graph.shape[0] > coloring.MOST_COLUMNS
    if large and (regular := _on_grid(pattern, graph, range(2, 13), fits)) is not None:
        return regular
    colorings = [color(graph, _sequence(graph, name)) for name in (ORDERS[:1] if large else ORDERS)]
    best = min(colorings, key=coloring.count)
    if large or not graph.nnz:
        return best
    regular = _on_grid(pattern, graph, range(2, coloring.count(best)), fits)
    return best if regular is None else regular


def _on_grid(pattern: Pattern, graph: Any, counts: range, fits: Any) -> Any:
    """A colouring by a lattice; None if there is none. Most that do not fit are told by a corner of
    the grid."""
    numbers = np.arange(pattern.shape[0])
    corners: dict[tuple[int, ...], tuple[Any, Any]] = {}
    for lattice in coloring.lattices(_sampled_edges(graph), counts):
        if lattice.widths not in corners:
            corner = lattice.corner(len(numbers))
            corners[lattice.widths] = corner, pattern[corner][:, corner]
        corner, part = corners[lattice.widths]
        if fits(part, lattice.colors(corner)):
            colors = lattice.colors(numbers)
            if fits(pattern, colors):
                return colors
    return None


def _sampled_edges(graph: Any) -> Any:
    """Pairs of neighbours, from some of the rows; None if they are at too many distances."""
    n = graph.shape[0]
    rows = np.arange(n)
    if n > coloring.SAMPLE:
        rows = np.linspace(0, n - 1, coloring.SAMPLE).astype(np.int64)
    part = graph[rows]
    i, j = np.repeat(rows, np.diff(part.indptr)), part.indices.astype(np.int64)
    i, j = np.minimum(i, j), np.maximum(i, j)
    return (i, j) if len(np.unique(j - i)) <= 64 else None


def _sequence(graph: Any, order: str) -> Any:
    if order not in ORDERS:
        raise ValueError(f"expected an order of {', '.join(ORDERS)}, got {order!r}")
    degree = np.diff(graph.indptr)
    if order == "natural":
        return range(graph.shape[0])
    if order == "largest_first":
        return np.argsort(-degree, kind="stable").tolist()
    return coloring.by_buckets(graph, degree, order)


# -- star -----------------------------------------------------------------------------------------


def _star(graph: Any, order: Any) -> Any:
    """Greedy. For each vertex and each colour of its neighbours, the number of these and the last
    one is kept, by which a path of two colours is told from a star."""
    starts, others = graph.indptr.tolist(), graph.indices.tolist()
    n = graph.shape[0]
    color = [-1] * n
    around: list[dict[int, tuple[int, int]]] = [{} for _ in range(n)]
    for v in order:
        own = around[v]
        near = [w for w in others[starts[v] : starts[v + 1]] if color[w] >= 0]
        used = set(own)
        for w in near:
            b = color[w]
            if own[b][0] > 1:
                used.update(around[w])
            else:
                used.update([
                    c for c, (number, x) in around[w].items() if number == 1 and around[x][b][0] > 1
                ])  # fmt: skip
        c = 0
        while c in used:
            c += 1
        color[v] = c
        for w in others[starts[v] : starts[v + 1]]:
            number, _ = around[w].get(c, (0, v))
            around[w][c] = (number + 1, v)
    return np.array(color, dtype=np.int64)


def is_direct(pattern: Pattern, colors: Any) -> bool:
    """Whether every entry, or its mirror image, can be read off one product."""
    alone = coloring.single(pattern, colors)
    return bool((alone | alone[mirrored(pattern)]).all())


def mirrored(pattern: Pattern) -> Any:
    """For each entry of a symmetric pattern, in order, where its mirror image is."""
    numbers = sparse.csr_array(
        (np.arange(1, pattern.nnz + 1), pattern.indices, pattern.indptr), shape=pattern.shape
    )
    return numbers.T.tocsr().data - 1


# -- acyclic --------------------------------------------------------------------------------------


def _acyclic(graph: Any, order: Any) -> Any:
    """Greedy. For each vertex and each colour of its neighbours, the tree of the two colours that
    both belong to is kept; trees that grow together are united."""
    starts, others = graph.indptr.tolist(), graph.indices.tolist()
    n = graph.shape[0]
    color = [-1] * n
    around: list[dict[int, int]] = [{} for _ in range(n)]
    parent: list[int] = []

    def root(t: int) -> int:
        while parent[t] != t:
            parent[t] = parent[parent[t]]
            t = parent[t]
        return t

    for v in order:
        near = [w for w in others[starts[v] : starts[v + 1]] if color[w] >= 0]
        used = {color[w] for w in near}
        reached: set[int] = set()
        for w in near:
            for c, tree in around[w].items():
                tree = root(tree)
                if tree in reached:
                    used.add(c)
                reached.add(tree)
        c = 0
        while c in used:
            c += 1
        color[v] = c
        for w in near:
            b = color[w]
            new = around[v].get(b)
            if new is None:
                new = around[v][b] = len(parent)
                parent.append(new)
            old = around[w].setdefault(c, new)
            parent[root(old)] = root(new)
    return np.array(color, dtype=np.int64)


def _edges(pattern: Pattern, colors: Any) -> tuple[Any, Any, Any, int]:
    """The entries below the diagonal, by their positions, and the two vertices of each in the graph
    that has a vertex for each column and each colour of its neighbours."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    below = np.flatnonzero(rows > pattern.indices)
    i, j = rows[below], pattern.indices[below].astype(np.int64)
    k = coloring.count(colors)
    keys, numbers = np.unique(
        np.concatenate([i * k + colors[j], j * k + colors[i]]), return_inverse=True
    )
    return below, numbers[: len(below)], numbers[len(below) :], len(keys)


def is_acyclic(pattern: Pattern, colors: Any) -> bool:
    """Whether neighbours have different colours, and any two colours induce a graph without
    cycles."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    off = rows != pattern.indices
    if (colors[rows[off]] == colors[pattern.indices[off]]).any():
        return False
    below, a, b, vertices = _edges(pattern, colors)
    graph = sparse.coo_array((np.ones(len(below), bool), (a, b)), shape=(vertices, vertices))
    trees = csgraph.connected_components(graph, directed=False, return_labels=False)
    return bool(len(below) == vertices - trees)


class Direct:
    """How the entries of a symmetric matrix are read off products with it, by a star colouring."""

    name = "direct"

    def __init__(self, pattern: Pattern, colors: Any) -> None:
        self.colors = colors
        rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        own = coloring.single(pattern, colors)
        self.rows = np.where(own, rows, pattern.indices)
        self.columns = np.where(own, pattern.indices, rows)

    def values(self, compressed: Any) -> Any:
        """The values of all entries, in order, from the products with the sum of each colour."""
        return compressed[self.colors[self.columns], self.rows]


class Substitution:
    """How the entries of a symmetric matrix follow from products with it, by an acyclic colouring.

    An entry is what the product of one of its two colours has in the other's row, less the entries
    further from the root that the product has there, too. This is a system of equations with a
    triangular matrix, which is kept factored.
    """

    name = "substitution"

    def __init__(self, pattern: Pattern, colors: Any) -> None:
        self.pattern = pattern
        self.colors = colors
        rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        self.diagonal = np.flatnonzero(rows == pattern.indices)
        self.centres = rows[self.diagonal]
        below, a, b, vertices = _edges(pattern, colors)
        self.below, self.above = below, mirrored(pattern)[below]
        position, before = _from_roots(a, b, vertices)
        far = np.where(before[a] == b, a, b)  # the vertex that is further from the root
        i, j = rows[below], pattern.indices[below]
        self.rows = np.where(far == a, i, j)
        self.columns = np.where(far == a, j, i)
        edge_of = np.full(vertices, -1)  # the edge that leads from a vertex towards the root
        edge_of[far] = np.arange(len(below))
        near = np.where(far == a, b, a)
        after = edge_of[near]  # the edge that an edge is subtracted in, if any
        inside = np.flatnonzero(after >= 0)
        order = np.argsort(-position[far], kind="stable")  # from the leaves
        place = np.empty(len(below), np.int64)
        place[order] = np.arange(len(below))
        ones = sparse.coo_array(
            (np.ones(len(inside)), (place[after[inside]], place[inside])),
            shape=(len(below), len(below)),
        )
        self.order = order
        system = sparse.csc_array(ones + sparse.eye_array(len(below)))
        self.solver = None
        if len(inside):
            self.solver = splu(system, permc_spec="NATURAL", diag_pivot_thresh=0)

    def values(self, compressed: Any) -> Any:
        """The values of all entries, in order, from the products with the sum of each colour."""
        result = np.zeros(self.pattern.nnz, compressed.dtype)
        result[self.diagonal] = compressed[self.colors[self.centres], self.centres]
        if not len(self.below):
            return result
        known = compressed[self.colors[self.columns], self.rows]
        if self.solver is not None:
            solved = self.solver.solve(known[self.order].astype(np.float64))
            known = np.empty_like(known)
            known[self.order] = solved
        result[self.below] = known
        result[self.above] = known
        return result


def _from_roots(a: Any, b: Any, vertices: int) -> tuple[Any, Any]:
    """For each vertex of a forest, its position in a search that begins at the roots, and the
    vertex that it is reached from."""
    graph = sparse.coo_array((np.ones(len(a)), (a, b)), shape=(vertices, vertices)).tocsr()
    trees, labels = csgraph.connected_components(graph, directed=False)
    # A vertex that all trees hang from, so that one search goes through them all.
    _, roots = np.unique(labels, return_index=True)
    ends = np.concatenate([a, np.full(trees, vertices)]), np.concatenate([b, roots])
    whole = sparse.coo_array((np.ones(len(ends[0])), ends), shape=(vertices + 1, vertices + 1))
    order, before = csgraph.breadth_first_order(whole.tocsr(), vertices, directed=False)
    position = np.empty(vertices + 1, np.int64)
    position[order] = np.arange(vertices + 1)
    return position, before


def recovery(pattern: Pattern, mode: str, order: str | None) -> Direct | Substitution:
    """What a mode asks for: ``direct``, ``substitution``, or ``auto`` for the one with fewer
    products."""
    if mode == "direct":
        return Direct(pattern, star(pattern, order))
    colors = acyclic(pattern, order)
    if mode == "auto":
        direct = star(pattern, order)
        if coloring.count(direct) <= coloring.count(colors):
            return Direct(pattern, direct)
    return Substitution(pattern, colors)
