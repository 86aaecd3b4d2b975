"""Where a function of the time, which decides between branches, changes its decisions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

PLACES = 6  # where each step is looked at
ABSENT = -np.inf  # fills up the decisions of a branch that makes fewer of them
MOST_ROUNDS = 8
SHORT = 0.01  # the length of a short piece
Look = Callable[[Any], tuple[Any, Any]]  # from times: decisions and margins, a row for each time


class Piece(NamedTuple):
    """A part of a step in which a function decides alike."""

    start: float
    end: float
    decisions: Any  # a vector; None if they are not given
    switch: int  # which decision changes at the end; -1 if none does


Switches = tuple[list[tuple[float, float]], list[list[Piece]]]


def with_short_ends(pieces: list[Piece]) -> list[Piece]:
    """Pieces of a step, each of which is divided close to where it begins or ends with a switch.

    If that moves, derivatives are also by the length of a piece. Each of them takes an order from
    the accuracy of the method, which a short piece can spare."""
    found = []
    for j, piece in enumerate(pieces):
        short = SHORT * (piece.end - piece.start)
        edges = [piece.start, piece.start + short, piece.end - short, piece.end]
        edges = [edges[0], *edges[1 + (j == 0) : 3 - (j == len(pieces) - 1)], edges[3]]
        for start, end in pairwise(edges):
            switch = piece.switch if end == piece.end else -1
            found.append(Piece(start, end, piece.decisions, switch))
    return found


def switches(look: Look, times: Any, dtype: Any) -> Switches:
    """Where decisions change, as pairs of times before and after it, and the pieces of each step.
    ``times`` are the ends of steps, and ``dtype`` says what can be told apart."""
    sign = 1.0 if times[-1] >= times[0] else -1.0
    ends = sign * np.asarray(times, np.float64)
    search = _Search(lambda t: look(sign * t), ends, float(np.finfo(dtype).eps))
    search.look_between()
    search.bisect()
    return search.result(sign)


class _Search:
    def __init__(self, look: Look, ends: Any, eps: float) -> None:
        self.look, self.ends = look, ends
        within = np.arange(PLACES) / PLACES
        inner = ends[:-1, None] + within * np.diff(ends)[:, None]
        self.times = np.unique(np.r_[inner.reshape(-1), ends])
        self.decisions, self.margins = look(self.times)
        self.tight = 4 * eps * np.abs(ends).max()

    def _add(self, times: Any) -> bool:
        new = np.setdiff1d(times, self.times)
        if not len(new):
            return False
        decisions, margins = self.look(new)
        width = max(decisions.shape[1], self.decisions.shape[1])
        order = np.argsort(np.r_[self.times, new], kind="stable")
        self.times = np.r_[self.times, new][order]
        self.decisions, self.margins = (
            np.concatenate([_wide(x, width, fill) for x in pair])[order]
            for pair, fill in (((self.decisions, decisions), ABSENT),
                               ((self.margins, margins), np.nan))
        )  # fmt: skip
        return True

    def look_between(self) -> None:
        """Look where a margin comes near to zero between samples, and may pass it twice."""
        for _ in range(3):
            x, d, m = self.times, self.decisions, np.abs(self.margins)
            if len(x) < 3:
                return
            same = (d[:-2] == d[1:-1]) & (d[1:-1] == d[2:])
            left, right = (x[1:-1] - x[:-2])[:, None], (x[2:] - x[1:-1])[:, None]
            with np.errstate(all="ignore"):
                before, after = (m[1:-1] - m[:-2]) / left, (m[2:] - m[1:-1]) / right
                bend = (after - before) / (left + right)
                slope = before + bend * left  # at the middle one
                place = -slope / (2 * bend)
                least = m[1:-1] - slope**2 / (4 * bend)
                lowest = np.minimum(np.minimum(m[:-2], m[2:]), m[1:-1])
                near = same & (bend > 0) & (-left < place) & (place < right)
                near &= least < 0.25 * lowest
            rows, elements = np.nonzero(near)
            if not len(rows) or not self._add(x[1:-1][rows] + place[rows, elements]):
                return

    def bisect(self) -> None:
        for _ in range(MOST_ROUNDS):
            differ = self.decisions[1:] != self.decisions[:-1]
            differ[np.diff(self.times) <= 1.5 * self.tight] = False
            rows, elements = np.nonzero(differ)
            if not len(rows) or not self._add(self._located(rows, elements)):
                return

    def _located(self, rows: Any, elements: Any) -> Any:
        """Pairs of times around each change of a decision, by Chandrupatla's method: a margin with
        the sign of "as before" or "as after" has a zero there."""
        before = self.decisions[rows, elements]

        def signed(margins: Any, same: Any) -> Any:
            size = np.maximum(np.where(np.isnan(margins), 1.0, np.abs(margins)), 1e-300)
            return np.where(same, -size, size)

        def f(t: Any, which: Any) -> Any:
            decisions, margins = self.look(t)
            columns = elements[which]
            width = max(int(columns.max()) + 1, decisions.shape[1])
            at = np.arange(len(t)), columns
            same = _wide(decisions, width, ABSENT)[at] == before[which]
            return signed(_wide(margins, width, np.nan)[at], same)

        b, a = self.times[rows], self.times[rows + 1]
        fb = signed(self.margins[rows, elements], np.full(len(rows), True))
        fa = signed(self.margins[rows + 1, elements], np.full(len(rows), False))
        c, fc, share = a.copy(), fa.copy(), np.full(len(a), 0.5)
        for _ in range(100):
            open_ = np.flatnonzero(np.abs(b - a) > self.tight)
            if not len(open_):
                break
            t = a[open_] + share[open_] * (b - a)[open_]
            ft = f(t, open_)
            same = np.sign(ft) == np.sign(fa[open_])
            c[open_], fc[open_] = np.where(same, a[open_], b[open_]), np.where(
                same, fa[open_], fb[open_]
            )  # fmt: skip
            b[open_], fb[open_] = np.where(same, b[open_], a[open_]), np.where(
                same, fb[open_], fa[open_]
            )  # fmt: skip
            a[open_], fa[open_] = t, ft
            share = _next_share(a, b, c, fa, fb, fc, self.tight)
        return np.r_[a, b]

    def _is_far(self, first: int, last: int) -> bool:
        """Whether no margin would be zero even at states that are twice as far apart as those of a
        step, so that all stages decide alike."""
        sizes = np.abs(self.margins[first : last + 1])
        least, change = sizes.min(0), np.ptp(sizes, 0)
        return bool(((least > change) | (change == 0)).all())

    def result(self, sign: float) -> Switches:
        times, found = self.times, []
        differ = self.decisions[1:] != self.decisions[:-1]
        for row in np.flatnonzero(differ.any(1)):
            elements = np.flatnonzero(differ[row])
            if 0 < row < len(times) - 2 or times[row + 1] - times[row] > 2 * self.tight:
                before = np.abs(self.margins[row, elements])  # zero for what is an extreme now
                found.append((int(row), int(elements[np.argmax(np.nan_to_num(before, nan=-1.0))])))
        pieces = []
        for start, end in pairwise(self.ends):
            first, last = np.searchsorted(times, (start, end))
            own = [s for s in found if first <= s[0] < last]
            if not own and self._is_far(int(first), int(last)):
                pieces.append([Piece(sign * float(start), sign * float(end), None, -1)])
                continue
            edges = [int(first), *[row + 1 for row, _ in own]], [*[s[0] for s in own], int(last)]
            parts = []
            for j, (low, high) in enumerate(zip(*edges, strict=True)):
                chosen = self.decisions[(low + high + 1) // 2]
                parts.append(Piece(
                    sign * float(start if j == 0 else times[low - 1]),
                    sign * float(end if j == len(own) else times[high]),
                    chosen[chosen != ABSENT], -1 if j == len(own) else own[j][1],
                ))  # fmt: skip
            pieces.append(parts)
        return [(sign * float(times[i]), sign * float(times[i + 1])) for i, _ in found], pieces


def _next_share(a: Any, b: Any, c: Any, fa: Any, fb: Any, fc: Any, tight: float) -> Any:
    """How far to go from ``a`` towards ``b``: by inverse interpolation where that is safe, else
    half of the way."""
    with np.errstate(all="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        share = fa / (fb - fa) * fc / (fb - fc)
        share = share + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        least = np.minimum(0.5 * tight / np.abs(b - a), 0.5)
        share = np.where(safe & np.isfinite(share), share, 0.5)
    return np.clip(share, least, 1 - least)


def padded(rows: list[Any]) -> tuple[Any, Any]:
    """Decisions and margins, from pairs of vectors whose lengths may differ."""
    width = max(row.shape[-1] for row in rows)
    decisions, margins = (
        np.stack([_wide(row[k : k + 1], width, fill)[0] for row in rows])
        for k, fill in ((0, ABSENT), (1, np.nan))
    )
    return decisions, margins


def _wide(x: Any, width: int, fill: float) -> Any:
    missing = width - x.shape[1]
    return np.pad(x, ((0, 0), (0, missing)), constant_values=fill) if missing > 0 else x


def first_rows(x: Any, count: int) -> Any:
    """So many rows, of which the last is repeated if there are fewer."""
    return x[np.minimum(np.arange(count), len(x) - 1)]


def in_blocks(f: Any, times: Any, states: Any, size: int) -> Any:
    """Rows of what a function gives for blocks of times and states, all of one size."""
    found = []
    for i in range(0, len(times), size):
        t, y = (first_rows(x[i : i + size], size) for x in (times, states))
        found.append(f(t, y)[: len(times) - i])
    return np.concatenate(found)
