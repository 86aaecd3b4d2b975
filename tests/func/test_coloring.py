"""Colourings: valid ones, with as few colours as the literature says, of rows and columns, of
symmetric matrices read directly or by substitution."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import retrograd as torch
from retrograd.arrays import _bidirectional as bidirectional
from retrograd.arrays import _coloring as coloring
from retrograd.arrays import _patterns as patterns
from retrograd.arrays import _symmetric as symmetric
from retrograd.func import banded, hessian, jacrev, sparse_hessian, sparse_jacobian

count = coloring.count


# -- what a valid colouring is, spelled out ---------------------------------------------------


def valid_columns(pattern: Any, colors: np.ndarray) -> bool:
    rows = [pattern.indices[a:b] for a, b in pairwise(pattern.indptr)]
    return all(len(set(colors[row])) == len(row) for row in rows)


def near(pattern: Any) -> list[np.ndarray]:
    graph = pattern.toarray().copy()
    np.fill_diagonal(graph, False)
    return [np.flatnonzero(row) for row in graph]


def valid_star(pattern: Any, colors: np.ndarray) -> bool:
    """Neighbours differ, and no path of four has two colours only."""
    others = near(pattern)
    for v, neighbours in enumerate(others):
        for w in neighbours:
            if colors[v] == colors[w]:
                return False
            for x in others[w]:
                ends = [y for y in others[x] if y not in (w, v)]
                if x != v and colors[x] == colors[v] and colors[w] in colors[ends]:
                    return False
    return True


def valid_acyclic(pattern: Any, colors: np.ndarray) -> bool:
    """Neighbours differ, and no cycle has two colours only: taking away vertices with one neighbour
    left leaves nothing of any two colours."""
    others = near(pattern)
    if any(colors[v] == colors[w] for v in range(len(others)) for w in others[v]):
        return False
    for a in range(count(colors)):
        for b in range(a):
            left = {v for v in range(len(others)) if colors[v] in (a, b)}
            while ends := {v for v in left if sum(w in left for w in others[v]) <= 1}:
                left -= ends
            if left:
                return False
    return True


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.05, 0.9), st.integers(0, 10**6))
def test_colourings_are_valid(rows: int, columns: int, density: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    pattern = patterns.from_array(generator.uniform(size=(rows, columns)) < density)
    found = [coloring.columns(pattern, order) for order in (*coloring.ORDERS, None)]
    assert all(valid_columns(pattern, colors) for colors in found)
    assert all(coloring.is_valid(pattern, colors) for colors in found)
    again = coloring.recolored(pattern, found[0], 0)
    assert valid_columns(pattern, again)
    assert count(again) <= count(found[0])
    assert count(found[-1]) <= min(map(count, found))
    square = generator.uniform(size=(rows, rows)) < density
    symmetric_pattern = patterns.from_array(square | square.T)
    for order in (*symmetric.ORDERS, None):
        assert valid_star(symmetric_pattern, symmetric.star(symmetric_pattern, order))
        assert valid_acyclic(symmetric_pattern, symmetric.acyclic(symmetric_pattern, order))


def test_checks_of_colourings_tell_wrong_ones() -> None:
    band = banded(6, 6, 1, 1)
    assert not coloring.is_valid(band, np.array([0, 1, 0, 1, 0, 1]))
    assert not symmetric.is_direct(band, np.array([0, 1, 0, 1, 0, 1]))
    ring = band.toarray()
    ring[0, 5] = ring[5, 0] = True
    closed = patterns.from_array(ring)
    assert symmetric.is_acyclic(band, np.array([0, 1, 0, 1, 0, 1]))
    assert not symmetric.is_acyclic(closed, np.array([0, 1, 0, 1, 0, 1]))
    assert symmetric.is_acyclic(closed, np.array([0, 1, 0, 1, 0, 2]))


# -- numbers of colours ------------------------------------------------------------------------


def line(n: int) -> Any:
    return sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))


def unit(n: int) -> Any:
    return sparse.eye_array(n)


def five_points(n: int, m: int) -> Any:
    return patterns.from_array(sparse.kron(line(n), unit(m)) + sparse.kron(unit(n), line(m)))


def nine_points(n: int, m: int) -> Any:
    return patterns.from_array(sparse.kron(line(n), line(m)))


def seven_points(n: int) -> Any:
    """Of a grid in three dimensions."""
    one, two = sparse.kron(unit(n), unit(n)), sparse.kron(unit(n), line(n))
    return patterns.from_array(
        sparse.kron(line(n), one) + sparse.kron(unit(n), two + sparse.kron(line(n), unit(n)))
    )


def arrow(n: int, width: int = 1) -> Any:
    found = np.eye(n, dtype=bool)
    found[:width] = found[:, :width] = True
    return patterns.from_array(found)


@pytest.mark.parametrize(("n", "m"), [(7, 7), (20, 20), (21, 33), (24, 10)])
def test_columns_of_stencils(n: int, m: int) -> None:
    """As many colours as the stencil has points, which are the least: D. Goldfarb and Ph. L. Toint,
    Optimal estimation of Jacobian and Hessian matrices that arise in finite difference calculations
    (Math. Comp. 43, 1984)."""
    for pattern, points in ((five_points(n, m), 5), (nine_points(n, m), 9)):
        found = coloring.columns(pattern)
        assert coloring.is_valid(pattern, found)
        assert count(found) == points


def test_columns_of_other_structures() -> None:
    assert count(coloring.columns(seven_points(9))) == 7
    for lower, upper in ((1, 1), (2, 3), (0, 4)):
        assert count(coloring.columns(banded(60, 60, lower, upper))) == lower + upper + 1
    assert count(coloring.columns(arrow(30))) == 30
    # Smallest last is optimal on this grid, the others are not.
    counts = {
        order: count(coloring.columns(five_points(20, 20), order)) for order in coloring.ORDERS
    }
    assert counts["smallest_last"] == 5
    assert max(counts.values()) <= 7


def test_columns_of_random_matrices() -> None:
    """Close to the longest row, which no colouring can do better than."""
    for density, most in ((0.01, 1.0), (0.02, 1.7), (0.03, 2.1)):
        places = np.random.default_rng(0).choice(500**2, round(density * 500**2), replace=False)
        rows, columns = divmod(places, 500)  # random_array has no argument rng in SciPy 1.13
        matrix = sparse.coo_array((np.ones(len(places)), (rows, columns)), (500, 500))
        pattern = patterns.from_array(matrix)
        found = coloring.columns(pattern)
        assert coloring.is_valid(pattern, found)
        assert count(found) <= most * coloring.longest_row(pattern)


@pytest.mark.parametrize("width", [2, 10, 20])
def test_symmetric_bands(width: int) -> None:
    """With ``width`` diagonals besides the main one, a star colouring takes 2 ⌊width/2⌋ + 1
    colours and an acyclic one ⌊width/2⌋ + 1: A. H. Gebremedhin, A. Tarafdar, A. Pothen, A. Walther,
    Efficient computation of sparse Hessians using coloring and automatic differentiation (INFORMS
    J. Comput. 21, 2009). SparseMatrixColorings.jl has the same numbers in its test/theory.jl."""
    band = banded(500, 500, width // 2, width // 2)
    assert count(symmetric.star(band)) == 2 * (width // 2) + 1
    assert count(symmetric.acyclic(band)) == width // 2 + 1


def test_symmetric_stencils() -> None:
    """A grid has a star colouring of 5 colours and no smaller one (G. Fertin, A. Raspaud, B. Reed,
    Star coloring of graphs, J. Graph Theory 47, 2004), and an acyclic one of 3, less than which no
    graph with a cycle can do with."""
    for n, m in ((9, 9), (20, 20), (21, 33)):
        grid = five_points(n, m)
        star, acyclic = symmetric.star(grid), symmetric.acyclic(grid)
        assert (count(star), count(acyclic)) == (5, 3)
        assert symmetric.is_direct(grid, star)
        assert symmetric.is_acyclic(grid, acyclic)
        assert count(symmetric.star(nine_points(n, m))) <= 9
        assert count(symmetric.acyclic(nine_points(n, m))) <= 5
    assert count(symmetric.star(arrow(30))) == 2
    assert count(symmetric.acyclic(arrow(30))) == 2


# Figure 4.1 of A. H. Gebremedhin, F. Manne, A. Pothen, What color is your Jacobian? (SIAM Rev. 47,
# 2005), and figure 1 of the paper on Hessians above: which entries there are, above the diagonal.
FIGURES = {
    "What color is your Jacobian": (6, 3, [(0, 1), (1, 2), (1, 4), (1, 5), (2, 3), (3, 5)]),
    "Efficient computation of sparse Hessians": (
        10, 5,
        [(0, 1), (0, 6), (1, 2), (1, 4), (2, 3), (2, 5), (3, 9), (4, 5), (4, 7), (5, 8), (6, 7),
         (7, 8), (8, 9)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_star_colourings_of_published_figures(name: str) -> None:
    n, published, edges = FIGURES[name]
    pattern = np.eye(n, dtype=bool)
    for i, j in edges:
        pattern[i, j] = pattern[j, i] = True
    found = symmetric.star(patterns.from_array(pattern))
    assert valid_star(patterns.from_array(pattern), found)
    assert count(found) <= published


# -- rows and columns together ---------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.05, 0.9), st.integers(0, 10**6))
def test_rows_and_columns_give_all_entries(m: int, n: int, density: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    matrix = np.where(generator.uniform(size=(m, n)) < density, generator.normal(size=(m, n)), 0)
    a = torch.from_numpy(matrix)
    x = torch.zeros(n, dtype=torch.float64)
    for mode in ("both", "auto", "forward", "reverse"):
        jac = sparse_jacobian(lambda x: a @ x, x, mode=mode)
        np.testing.assert_allclose(jac(x).toarray(), matrix, atol=1e-12)


def test_dense_rows_and_columns() -> None:
    """Three products in place of one for each column: a column for the dense one, one for the
    diagonal, and a row."""
    for width in (1, 3):
        pattern = arrow(200, width)
        found = bidirectional.color(pattern, "auto")
        assert count(found.columns) + count(found.rows) == 2 * width + 1
        assert found.cost < min(
            bidirectional.color(pattern, mode).cost for mode in ("forward", "reverse")
        )

    def f(x: Any) -> Any:
        return torch.cat([(x**2).sum().reshape(1), x[1:] ** 3 * x[0]])

    x = torch.linspace(0.5, 1.5, 60, dtype=torch.float64)
    jac = sparse_jacobian(f, x, mode="both")
    assert (jac.mode, jac.color_count) == ("both", 3)
    assert "in both modes" in repr(jac)
    np.testing.assert_allclose(jac(x).toarray(), jacrev(f)(x), rtol=1e-12)
    columns, rows = jac.colors
    assert (columns.max(), rows.max()) == (1, 0)


# -- substitution --------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 14), st.floats(0.05, 0.9), st.integers(0, 10**6))
def test_substitution_gives_all_entries(n: int, density: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    square = np.where(generator.uniform(size=(n, n)) < density, generator.normal(size=(n, n)), 0)
    matrix = square + square.T
    pattern = patterns.from_array(matrix)
    for order in (*symmetric.ORDERS, None):
        recovery = symmetric.Substitution(pattern, symmetric.acyclic(pattern, order))
        products = coloring.seeds(recovery.colors, np.float64) @ matrix
        values = recovery.values(products)
        np.testing.assert_allclose(
            patterns.assembled(pattern, values).toarray(), matrix, atol=1e-11
        )


def test_hessians_by_substitution() -> None:
    n = 12

    def energy(u: Any) -> Any:
        u = u.reshape(n, n)
        return (u.diff(dim=0) ** 4).sum() + (u.diff(dim=1) ** 4).sum() + (u**3).sum()

    u = torch.from_numpy(np.random.default_rng(0).uniform(0.5, 1.5, n * n))
    dense = hessian(energy)(u)
    for mode, colors in (("direct", 5), ("substitution", 3), ("auto", 3)):
        hess = sparse_hessian(energy, u, mode=mode)
        assert hess.color_count == colors
        assert hess.mode == ("direct" if mode == "direct" else "substitution")
        np.testing.assert_allclose(hess(u).toarray(), dense, atol=1e-10)
    assert "from 3 products, by substitution" in repr(hess)
    single = sparse_hessian(energy, u.float(), mode="substitution")(u.float())
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.toarray(), dense, atol=1e-4)
    with pytest.raises(ValueError, match="mode of direct, substitution or auto"):
        sparse_hessian(energy, u, mode="forward")


# -- size ----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("name", "seconds"), [("tridiagonal", 5), ("grid", 10), ("irregular", 30)])
def test_a_million_columns(name: str, seconds: float) -> None:
    n = 1_000_000
    if name == "tridiagonal":
        pattern, colors = banded(n, n, 1, 1), 3
    elif name == "grid":
        pattern, colors = five_points(1000, 1000), 5
    else:
        generator = np.random.default_rng(0)
        shuffled = generator.permutation(n)
        pattern, colors = banded(n, n, 1, 1)[shuffled][:, generator.permutation(n)], 5
    start = time.process_time()  # what others use of the machine does not count
    found = coloring.columns(pattern)
    assert time.process_time() - start < seconds
    assert coloring.is_valid(pattern, found)
    assert count(found) <= colors


def test_a_dense_row_takes_no_graph_of_all_columns() -> None:
    n = 20_000
    x = torch.ones(n, dtype=torch.float64)
    jac = sparse_jacobian(lambda x: torch.cat([x**2, (x**3).sum().reshape(1)]), x)
    assert jac.color_count <= 2
    both = sparse_jacobian(lambda x: torch.cat([(x**2).sum().reshape(1), x[1:] ** 3 * x[0]]), x)
    assert (both.mode, both.color_count) == ("both", 3)
