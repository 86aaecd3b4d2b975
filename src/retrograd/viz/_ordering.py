"""The order of vertices within rows, such that few edges cross.

This is the second step of the method of Sugiyama, Tagawa and Toda, in the way of Gansner,
Koutsofios, North and Vo ("A technique for drawing directed graphs", 1993): sweeps down and up the
rows move each vertex to the mean or the median of its neighbours in the row before, exchanges of
neighbours remove the crossings that remain, and the best order is kept.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

SWEEPS = 24
PATIENCE = 6  # sweeps without any progress before giving up
WORK = 20_000  # vertices times sweeps: large pictures get fewer
Neighbours = Sequence[Sequence[int]]  # of each vertex, in the row above or below


def ordered(rows: list[list[int]], above: Neighbours, below: Neighbours) -> list[list[int]]:
    """The rows with their vertices in an order with few crossings. Among equally good orders, an
    operation's inputs are in the order of its operands.

    >>> ordered([[0, 1], [2, 3]], above=[[], [], [1], [0]], below=[[3], [2], [], []])
    [[1, 0], [2, 3]]
    """
    number = _by_operands(above, below)
    best: list[list[int]] = []
    fewest = -1
    for start in (number, _breadth_first(above, below, number)):
        order = Order([sorted(row, key=start.__getitem__) for row in rows], above, below, number)
        count = order.improve()
        if fewest < 0 or count < fewest:
            best, fewest = order.rows, count
        if not fewest:
            break
    return best


def _by_operands(above: Neighbours, below: Neighbours) -> list[int]:
    """For each vertex the time at which a walk from the results upwards reaches it that goes to
    the first input first."""
    time = [-1] * len(above)
    reached = 0
    for end in [v for v in range(len(above)) if not below[v]]:
        todo = [end]
        while todo:
            v = todo.pop()
            if time[v] < 0:
                time[v] = reached
                reached += 1
                todo += reversed(above[v])
    return time


def _breadth_first(above: Neighbours, below: Neighbours, number: list[int]) -> list[int]:
    """For each vertex the time at which a search in breadth reaches it."""
    time = [-1] * len(number)
    reached = 0
    for start in sorted(range(len(number)), key=number.__getitem__):
        todo = [start] if time[start] < 0 else []
        for v in todo:  # grows during the iteration
            if time[v] < 0:
                time[v] = reached
                reached += 1
                todo += [u for u in (*above[v], *below[v]) if time[u] < 0]
    return time


class Order:
    """Rows of vertices, improved step by step."""

    def __init__(
        self, rows: list[list[int]], above: Neighbours, below: Neighbours, number: Sequence[int]
    ) -> None:
        self.rows = rows
        self.above, self.below, self.number = above, below, number
        self.at = [0] * len(number)  # the position of each vertex in its row
        for row in rows:
            self.place(row)

    def place(self, row: list[int]) -> None:
        for k, v in enumerate(row):
            self.at[v] = k

    def improve(self) -> int:
        """Sweep and exchange until nothing helps any more. The number of crossings that remain."""
        self.exchange()
        best, fewest = [list(row) for row in self.rows], self.crossings()
        patience = min(PATIENCE, max(2, WORK // len(self.at)))
        last = 0
        for sweep in range(min(SWEEPS, max(4, WORK // len(self.at)))):
            if not fewest or sweep - last > patience:
                break
            self.sweep(down=sweep % 2 == 0, median=sweep % 4 > 1)
            self.exchange()
            count = self.crossings()
            if count < fewest:
                best, fewest, last = [list(row) for row in self.rows], count, sweep
        self.rows = best
        return fewest

    def sweep(self, down: bool, median: bool) -> None:
        """Move each vertex to the middle of its neighbours in the row before. Those without any
        keep their positions."""
        near = self.above if down else self.below
        for row in self.rows if down else reversed(self.rows):
            moving = [v for v in row if near[v]]
            middle = {v: self.middle(near[v], median) for v in moving}
            moved = iter(sorted(moving, key=middle.__getitem__))
            row[:] = [next(moved) if near[v] else v for v in row]
            self.place(row)

    def middle(self, near: Iterable[int], median: bool) -> float:
        ends = sorted(self.at[u] for u in near)
        if median:
            return (ends[(len(ends) - 1) // 2] + ends[len(ends) // 2]) / 2
        return sum(ends) / len(ends)

    def exchange(self) -> None:
        """Exchange neighbours as long as fewer edges cross then, or equally many and the two are
        in the given order. Each exchange improves one of the two, so that this comes to an end."""
        todo = list(range(len(self.rows)))
        while todo:
            changed = [row for row in todo if self.exchange_in(self.rows[row])]
            near = {row + side for row in changed for side in (-1, 1)}
            todo = sorted(near & set(range(len(self.rows))))

    def exchange_in(self, row: list[int]) -> bool:
        changed, k = False, 0
        at, number = self.at, self.number
        while k < len(row) - 1:
            left, right = row[k], row[k + 1]
            gain = self.gain(left, right)
            if gain > 0 or (gain == 0 and number[left] > number[right]):
                row[k], row[k + 1] = right, left
                at[left], at[right] = k + 1, k
                changed = True
                k = max(k - 1, 0)  # the next on the left has a new neighbour
            else:
                k += 1
        return changed

    def gain(self, left: int, right: int) -> int:
        """How many crossings are avoided if two neighbours are exchanged."""
        at, gain = self.at, 0
        for near in (self.above, self.below):
            mine, other = near[left], near[right]
            if len(mine) == len(other) == 1:
                gain += (at[mine[0]] > at[other[0]]) - (at[mine[0]] < at[other[0]])
            elif mine and other:
                ends = sorted([at[u] for u in other])
                for u in mine:
                    gain += bisect.bisect_left(ends, at[u]) + bisect.bisect_right(ends, at[u])
                gain -= len(mine) * len(other)
        return gain

    def crossings(self) -> int:
        """How many pairs of edges cross: the inversions of their lower ends when the upper ends are
        in order (Barth, Mutzel and Jünger, 2004)."""
        total = 0
        for row in self.rows:
            passed: list[int] = []
            for v in row:
                ends = sorted([self.at[u] for u in self.below[v]])
                for end in ends:
                    total += len(passed) - bisect.bisect_right(passed, end)
                for end in ends:
                    bisect.insort(passed, end)
        return total
