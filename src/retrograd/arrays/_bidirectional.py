"""Colourings of rows and columns together, for matrices with a few dense rows and a few dense
columns: the dense rows are computed by products with the transposed matrix, and what is left by
products with the matrix itself, or the other way round."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from retrograd.arrays import _coloring as coloring
from retrograd.arrays._patterns import Pattern, transposed

# A product with the transposed Jacobian takes about twice the time of one with it.
REVERSE_COST = 2
MOST_SPLITS = 64


class Colors(NamedTuple):
    """Colours of columns and of rows; -1 for those that take part in no product."""

    columns: Any
    rows: Any

    @property
    def cost(self) -> int:
        return coloring.count(self.columns) + REVERSE_COST * coloring.count(self.rows)


def color(pattern: Pattern, mode: str, order: str | None = None) -> Colors:
    """The cheapest colouring of those that a mode allows: ``forward`` for columns, ``reverse`` for
    rows, ``both``, ``auto`` for any."""
    rows, columns = pattern.shape
    flipped = transposed(pattern)
    none = Colors(np.full(columns, -1), np.full(rows, -1))
    if mode == "forward":
        return none._replace(columns=coloring.columns(pattern, order))
    if mode == "reverse":
        return none._replace(rows=coloring.columns(flipped, order))
    if mode == "both":
        return _split(pattern, flipped, order)
    # What each mode takes at least; the more promising one is looked at first.
    bounds = coloring.longest_row(pattern), REVERSE_COST * coloring.longest_row(flipped)
    names = ("forward", "reverse") if bounds[0] <= bounds[1] else ("reverse", "forward")
    best = color(pattern, names[0], order)
    if best.cost > max(bounds):
        best = min(best, color(pattern, names[1], order), key=lambda found: found.cost)
    if best.cost > 4 and best.cost > 2 * _typical(pattern) and best.cost > 4 * _typical(flipped):
        best = min(best, _split(pattern, flipped, order), key=lambda found: found.cost)
    return best


def least_cost(pattern: Pattern) -> int:
    """What a colouring of columns or of rows costs at least."""
    columns = np.bincount(pattern.indices, minlength=1)
    return min(coloring.longest_row(pattern), REVERSE_COST * int(columns.max()))


def _typical(pattern: Pattern) -> float:
    """The number of entries of a row, on average."""
    return int(pattern.nnz) / max(int(pattern.shape[0]), 1)


def _split(pattern: Pattern, flipped: Pattern, order: str | None) -> Colors:
    by_rows = _without_long_rows(pattern, 1, REVERSE_COST)
    by_columns = _without_long_rows(flipped, REVERSE_COST, 1)
    if by_rows[1] <= by_columns[1]:
        rows, columns = _colored(pattern, by_rows[0], order)
    else:
        columns, rows = _colored(flipped, by_columns[0], order)
    return Colors(columns, rows)


def _without_long_rows(pattern: Pattern, cost: int, cost_of_rows: int) -> tuple[int, int]:
    """The length above which rows are to be computed by themselves, and what all products cost at
    least, if so."""
    lengths = np.diff(pattern.indptr)
    splits = np.unique(lengths)
    if len(splits) > MOST_SPLITS:
        splits = splits[np.linspace(0, len(splits) - 1, MOST_SPLITS).astype(np.int64)]
    candidates = []
    rows = np.repeat(np.arange(pattern.shape[0]), lengths)
    for split in splits:
        met = np.bincount(pattern.indices[lengths[rows] > split], minlength=pattern.shape[1])
        candidates.append((int(cost * split + cost_of_rows * met.max(initial=0)), int(split)))
    least, split = min(candidates, default=(0, 0))
    return split, least


def _colored(pattern: Pattern, split: int, order: str | None) -> tuple[Any, Any]:
    """Colours of the rows that are longer than ``split``, and of the columns of all others."""
    lengths = np.diff(pattern.indptr)
    long = np.flatnonzero(lengths > split)
    short = np.flatnonzero(lengths <= split)
    rows = np.full(pattern.shape[0], -1)
    rows[long] = coloring.columns(transposed(pattern[long]), order)
    left = pattern[short]
    columns = coloring.columns(left, order)
    columns[np.bincount(left.indices, minlength=pattern.shape[1]) == 0] = -1
    return rows, columns


def by_rows(pattern: Pattern, colors: Colors) -> Any:
    """For each entry, in order, whether it is read off a product with the transposed matrix: where
    its column has no colour, or others of its row have the same."""
    entries = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr)), pattern.indices
    if (colors.rows < 0).all():
        return np.zeros(pattern.nnz, bool)
    if (colors.columns < 0).all():
        return np.ones(pattern.nnz, bool)
    shifted = np.where(colors.columns < 0, coloring.count(colors.columns), colors.columns)
    alone = coloring.single(pattern, shifted) & (colors.columns[entries[1]] >= 0)
    return ~alone
