"""Positions of boxes: layers from inputs to results, with few crossings and short edges.

This is the layered method of Sugiyama, Tagawa and Toda (1981). A layer is given by longest paths,
an edge that passes a layer has a bend there, ``viz/_ordering.py`` puts the layers in an order with
few crossings, and then each box moves as near to its neighbours as the order allows.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from retrograd.viz._ordering import ordered

Point = tuple[float, float]
Ports = tuple[float | None, float | None]
GAP, BEND_GAP, ROW_GAP = 24.0, 12.0, 25.0  # gaps beside boxes, beside edges, and between rows
BEND = 2.0  # the width of an edge where it passes a row
SWEEPS, STRAIGHTENINGS = 30, 8
MAX_BENDS = 4000
PATIENCE = 30_000  # vertices times sweeps: large pictures get fewer
CLOSE = 8.0  # a shorter distance than the head of an arrow
FAR = 80.0  # much more than the height of a usual box
TOLERANCE = 1.05  # how much longer edges may get if the backbone is straight then
LARGE = 1e9


@dataclass
class Layout:
    """Boxes by their upper left corners, and the points that edges go through."""

    corners: list[Point]
    routes: list[list[Point]]
    width: float
    height: float

    def transposed(self) -> Layout:
        """The same from left to right."""
        corners = [(y, x) for x, y in self.corners]
        routes = [[(y, x) for x, y in route] for route in self.routes]
        return Layout(corners, routes, self.height, self.width)


def need(module: str) -> Any:
    """A module of the extra ``viz``, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ImportError(
            f'pictures need {name}, which is not installed: pip install "retrograd[viz]"'
        ) from error


@functools.lru_cache(maxsize=32)  # the repetitions of a structure look the same
def lay_out(
    sizes: tuple[tuple[float, float], ...], edges: tuple[tuple[int, int], ...],
    ports: tuple[Ports, ...] = (), first: frozenset[int] = frozenset(),
    last: frozenset[int] = frozenset(),
) -> Layout:  # fmt: skip
    """Lay boxes out in rows, so that all edges lead downwards. There must be no cycle.

    Args:
        sizes: width and height of each box.
        edges: pairs of boxes.
        ports: where each edge leaves its box and arrives at the other, from the left; None where
            that may be chosen. Without any, all may be chosen.
        first: boxes in a row of their own, above the others.
        last: likewise, below the others.
    """
    if not sizes:
        return Layout([], [], 0.0, 0.0)
    depths, levels = layers(len(sizes), edges)
    levels = [0 if v in first else level + bool(first) for v, level in enumerate(levels)]
    lowest = max((level for v, level in enumerate(levels) if v not in last), default=0) + 1
    levels = [lowest if v in last else level for v, level in enumerate(levels)]
    grid = _Grid(sizes, edges, depths, levels, ports, first)
    grid.order()
    grid.find_columns()
    grid.straighten()
    return grid.layout()


# -- layers --------------------------------------------------------------------------------------


def layers(count: int, edges: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """For each vertex the length of the longest path to it, and the layer to show it in: as far up
    as possible, then closer to its consumers if that makes edges shorter in total."""
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        after[source].append(target)
        before[target].append(source)
    waiting = [len(b) for b in before]
    order = [v for v in range(count) if not waiting[v]]
    level = [0] * count
    for v in order:  # grows during the iteration
        for user in after[v]:
            level[user] = max(level[user], level[v] + 1)
            waiting[user] -= 1
            if not waiting[user]:
                order.append(user)
    if len(order) < count:
        raise ValueError("there is a cycle in what is to be drawn")
    depths = list(level)
    for v in reversed(order):
        if after[v]:
            level[v] = min(level[user] for user in after[v]) - 1
    return depths, level


# -- order and coordinates -----------------------------------------------------------------------


class _Grid:
    """Vertices in rows: boxes, and bends where an edge passes a row."""

    def __init__(
        self, sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]],
        depths: list[int], levels: list[int], ports: Sequence[Ports] = (),
        first: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        self.sizes = sizes
        self.edges = edges
        self.given = ports or [(None, None)] * len(edges)
        self.level = list(levels)
        self.widths = [w for w, _ in sizes]
        self.boxes = len(sizes)
        self.chains: list[list[int]] = []
        self.direct = self.too_long()
        for number, (source, target) in enumerate(edges):
            chain = [source]
            for row in range(levels[source] + 1, levels[target]):
                if number in self.direct:
                    break
                chain.append(len(self.level))
                self.level.append(row)
                self.widths.append(BEND)
            self.chains.append([*chain, target])
        self.rows: list[list[int]] = [[] for _ in range(max(self.level) + 1)]
        for v, row in enumerate(self.level):
            self.rows[row].append(v)
        self.x = [0.0] * len(self.level)
        # Neighbours above and below, how much each counts (long edges should be straight), and how
        # far to the right of it a vertex should be.
        self.above: list[list[tuple[int, float, float]]] = [[] for _ in self.level]
        self.below: list[list[tuple[int, float, float]]] = [[] for _ in self.level]
        self.spine = self.longest_paths(depths, first)
        for number, upper, lower in self.links():
            bends = (upper >= self.boxes) + (lower >= self.boxes)
            weight = 8.0 if number in self.spine and not bends else (1.0, 4.0, 32.0)[bends]
            aside = self.aside(number, upper, lower)
            self.below[upper].append((lower, weight, -aside))
            self.above[lower].append((upper, weight, aside))

    def aside(self, number: int, upper: int, lower: int) -> float:
        """How far to the right of the upper one the lower one is if a piece of an edge between them
        leads straight down."""
        return self.port(number, upper, 0) - self.port(number, lower, 1)

    def port(self, number: int, v: int, end: int) -> float:
        """How far from the middle of a vertex the port of an edge is, if it is given."""
        port = self.given[number][end] if v == self.edges[number][end] else None
        return 0.0 if port is None else port - self.widths[v] / 2

    def too_long(self) -> set[int]:
        """The longest edges, if there would be too many bends: they are drawn behind the boxes.
        Nobody can follow single edges in such a picture, and routing them takes minutes."""
        spans = [(self.level[b] - self.level[a], k) for k, (a, b) in enumerate(self.edges)]
        room, direct = MAX_BENDS, set()
        for span, number in sorted(spans):
            room -= span - 1
            if room < 0:
                direct.add(number)
        return direct

    def links(self) -> Iterator[tuple[int, int, int]]:
        """The pieces of edges from row to row, with the numbers of the edges."""
        for number, chain in enumerate(self.chains):
            if number not in self.direct:
                for upper, lower in itertools.pairwise(chain):
                    yield number, upper, lower

    def longest_paths(self, depths: list[int], first: frozenset[int]) -> set[int]:
        """The edges on longest paths: one into each box, and no two from the same box. They form
        the backbone of a picture. What is in the first row comes from afar."""
        best: dict[int, tuple[tuple[bool, int], int]] = {}
        for number, (source, target) in enumerate(self.edges):
            depth = source in first, depths[source]
            if target not in best or depth > best[target][0]:
                best[target] = (depth, number)
        longest: dict[int, int] = {}
        below = [0] * self.boxes  # the length of the rest of the path
        for v in sorted(range(self.boxes), key=lambda v: -depths[v]):
            if v in best:
                source = self.edges[best[v][1]][0]
                if source not in longest or below[v] + 1 > below[source]:
                    longest[source] = best[v][1]
                    below[source] = max(below[source], below[v] + 1)
        return set(longest.values())

    def order(self) -> None:
        """Put the vertices of each row in an order with few crossings."""
        above, below = (
            [[u for u, _, _ in near] for near in side] for side in (self.above, self.below)
        )
        self.rows = ordered(self.rows, above, below)

    def spacing(self, left: int, right: int) -> float:
        bends = (left >= self.boxes) + (right >= self.boxes)
        gap = (GAP, (GAP + BEND_GAP) / 2, BEND_GAP)[bends]
        return (self.widths[left] + self.widths[right]) / 2 + gap

    def find_columns(self) -> None:
        """Compute the centres of all vertices: each as near to its neighbours as its row allows."""
        for row in self.rows:
            at = 0.0
            for k, v in enumerate(row):
                at += self.spacing(row[k - 1], v) if k else 0.0
                self.x[v] = at
            middle = (self.x[row[0]] + self.x[row[-1]]) / 2
            for v in row:
                self.x[v] -= middle
        sweeps = min(SWEEPS, max(8, PATIENCE // len(self.level)))
        for sweep in range(sweeps):
            down = sweep % 2 == 0
            both = sweep >= sweeps * 3 // 4
            for row in self.rows if down else reversed(self.rows):
                self.relax(row, down, both)

    def relax(self, row: list[int], down: bool, both: bool) -> None:
        wanted, weights = [], []
        for v in row:
            near = self.above[v] if down else self.below[v]
            near = [*self.above[v], *self.below[v]] if both or not near else near
            weight = sum(w for _, w, _ in near)
            total = sum((self.x[u] + aside) * w for u, w, aside in near)
            wanted.append(total / weight if near else self.x[v])
            weights.append(max(weight, 0.1))
        offsets = [0.0]
        for left, right in itertools.pairwise(row):
            offsets.append(offsets[-1] + self.spacing(left, right))
        shifted = [w - o for w, o in zip(wanted, offsets, strict=True)]
        for v, x, offset in zip(row, increasing(shifted, weights), offsets, strict=True):
            self.x[v] = x + offset

    # -- straight lines ----------------------------------------------------------------------

    def straighten(self) -> None:
        """Align the vertices of one line vertically, where their rows have room for that."""
        lines = self.lines()
        position = {v: (row, k) for row in self.rows for k, v in enumerate(row)}
        for _ in range(min(STRAIGHTENINGS, max(3, PATIENCE // len(self.level) // 2))):
            for line in lines:
                self.straighten_line(line, position)
        before, sideways = list(self.x), sum(self.sideways())
        self.make_way(lines[-1], position)
        for line in lines[:-1]:
            self.straighten_line(line, position)
        if sum(self.sideways()) > sideways * TOLERANCE:
            self.x = before

    def sideways(self) -> Iterator[float]:
        """How far to the side the pieces of edges go."""
        for number, upper, lower in self.links():
            yield abs(self.x[upper] + self.aside(number, upper, lower) - self.x[lower])

    def make_way(self, line: list[int], position: dict[int, tuple[list[int], int]]) -> None:
        """Give all vertices of the longest line the same column, and push others aside."""
        columns = sorted(self.x[v] - self.shift[v] for v in line)
        for v in line:
            row, k = position[v]
            self.x[v] = columns[len(columns) // 2] + self.shift[v]
            for left, right in itertools.pairwise(row[k:]):
                self.x[right] = max(self.x[right], self.x[left] + self.spacing(left, right))
            for right, left in itertools.pairwise(row[k::-1]):
                self.x[left] = min(self.x[left], self.x[right] - self.spacing(left, right))

    def lines(self) -> list[list[int]]:
        """Vertices that should be aligned vertically: the bends of an edge, boxes that are
        connected only with each other, and the backbone. The most important come last and take
        precedence."""
        following: dict[int, int] = {}
        self.shift = [0.0] * len(self.level)  # from the column of its line
        taken: set[int] = set()
        for _, upper, lower, aside in sorted(self.straight_pairs(), reverse=True):
            if upper not in following and lower not in taken:
                following[upper] = lower
                self.shift[lower] = aside
                taken.add(lower)
        lines = []
        for start in range(len(self.level)):
            if start in taken:
                continue
            line = [start]
            while line[-1] in following:
                line.append(following[line[-1]])
                self.shift[line[-1]] += self.shift[line[-2]]
            lines.append(line)
        return sorted(lines, key=len)

    def straight_pairs(self) -> Iterator[tuple[int, int, int, float]]:
        """Neighbours that should be aligned vertically, with what weight, and how far aside."""
        for number, upper, lower in self.links():
            bends = (upper >= self.boxes) + (lower >= self.boxes)
            alone = len(self.below[upper]) == len(self.above[lower]) == 1
            if bends == 2 or alone or number in self.spine:
                weight = 3 if bends == 2 else 2 if number in self.spine else 1
                yield weight, upper, lower, self.aside(number, upper, lower)

    def straighten_line(self, line: list[int], position: dict[int, tuple[list[int], int]]) -> None:
        """Give as many vertices of a line as possible the same column, from the top."""
        start = 0
        while start < len(line):
            low, high = self.room(line[start], position)
            end = start + 1
            while end < len(line):
                left, right = self.room(line[end], position)
                if max(low, left) > min(high, right):
                    break
                low, high, end = max(low, left), min(high, right), end + 1
            self.move(line[start:end], low, high)
            start = end

    def room(self, v: int, position: dict[int, tuple[list[int], int]]) -> tuple[float, float]:
        """The range of columns that a vertex can be moved in."""
        row, k = position[v]
        low = self.x[row[k - 1]] + self.spacing(row[k - 1], v) if k else -LARGE
        high = self.x[row[k + 1]] - self.spacing(v, row[k + 1]) if k + 1 < len(row) else LARGE
        return low - self.shift[v], max(low, high) - self.shift[v]

    def move(self, members: list[int], low: float, high: float) -> None:
        inside = set(members)
        total = weight = 0.0
        for v in members:
            for u, w, aside in (*self.above[v], *self.below[v]):
                if u not in inside:
                    total += (self.x[u] + aside - self.shift[v]) * w
                    weight += w
        own = sum(self.x[v] - self.shift[v] for v in members) / len(members)
        wanted = total / weight if weight else own
        x = min(max(wanted, low), high)
        for v in members:
            self.x[v] = x + self.shift[v]

    def layout(self) -> Layout:
        heights = [0.0] * len(self.rows)
        for v in range(self.boxes):
            heights[self.level[v]] = max(heights[self.level[v]], self.sizes[v][1])
        widest = [0.0] * len(self.rows)  # the largest shift between a row and the next
        for (_, upper, _), aside in zip(self.links(), self.sideways(), strict=True):
            widest[self.level[upper]] = max(widest[self.level[upper]], aside)
        tops, at = [], 0.0
        for row, (height, aside) in enumerate(zip(heights, widest, strict=True)):
            tops.append(at)
            is_border = 0.0 in heights[row : row + 2]  # the first or the last row, of ends of edges
            at += height + (ROW_GAP / 2 if is_border else ROW_GAP) + min(aside * 0.06, 50.0)
        left = min(x - w / 2 for x, w in zip(self.x, self.widths, strict=True))
        right = max(x + w / 2 for x, w in zip(self.x, self.widths, strict=True))
        corners = []
        for v in range(self.boxes):
            row = self.level[v]
            y = tops[row] + self.down(v, heights[row] - self.sizes[v][1])
            corners.append((self.x[v] - self.widths[v] / 2 - left, y))
        routes = self.routes(corners, tops, heights, left)
        bottom = tops[-1] + heights[-1]
        return Layout(corners, routes, right - left, bottom)

    def down(self, v: int, room: float) -> float:
        """How far down in its row a box is: in the middle, or near its only neighbours if the row
        is much higher."""
        if room > FAR and not (self.above[v] and self.below[v]):
            return room if self.below[v] else 0.0
        return room / 2

    def routes(
        self, corners: list[Point], tops: list[float], heights: list[float], left: float
    ) -> list[list[Point]]:
        """The routes of edges, from the lower side of a box to the upper side of another: straight
        down within rows, where other boxes are, and sideways only between rows. Edges that meet at
        a box are kept apart."""
        leaving = self.ports(lower=True)
        arriving = self.ports(lower=False)
        routes = []
        for number, chain in enumerate(self.chains):
            source, target = chain[0], chain[-1]
            start, end = leaving[number] - left, arriving[number] - left
            bottom = tops[self.level[source]] + heights[self.level[source]]
            points = [(start, corners[source][1] + self.sizes[source][1])]
            if bottom - points[0][1] > CLOSE:
                points.append((start, bottom))
            for v in chain[1:-1]:
                x, top = self.x[v] - left, tops[self.level[v]]
                points += [(x, top), (x, top + heights[self.level[v]])]
            if corners[target][1] - tops[self.level[target]] > CLOSE:
                points.append((end, tops[self.level[target]]))
            points.append((end, corners[target][1]))
            routes.append(points)
        return routes

    def ports(self, lower: bool) -> list[float]:
        """Where each edge leaves its box (or arrives at it): side by side in the order of the other
        ends."""
        at_box: dict[int, list[tuple[float, int]]] = {}
        for number, chain in enumerate(self.chains):
            box, neighbour = (chain[0], chain[1]) if lower else (chain[-1], chain[-2])
            at = self.x[neighbour] + self.port(number, neighbour, int(lower))
            at_box.setdefault(box, []).append((at, number))
        centers = [0.0] * len(self.chains)
        for box, ends in at_box.items():
            ends.sort()
            middle = self.middle_port(box, ends)
            reach = max(middle, len(ends) - 1 - middle)  # ports on the longer side
            step = min(16.0, self.widths[box] * 0.38 / max(reach, 1))
            for k, (_, number) in enumerate(ends):
                centers[number] = self.x[box] + (k - middle) * step
        for number, chain in enumerate(self.chains):
            if self.given[number][not lower] is not None:
                box = chain[0] if lower else chain[-1]
                centers[number] = self.x[box] + self.port(number, box, int(not lower))
        return centers

    def middle_port(self, box: int, ends: list[tuple[float, int]]) -> float:
        """Which edge of a box gets the middle port: one that comes straight down, if there are
        others on both sides or few."""
        for k, (x, number) in enumerate(ends):
            if number in self.spine and abs(x - self.x[box]) < 1.0 and len(ends) <= 5:
                return k
        return (len(ends) - 1) / 2


def increasing(values: list[float], weights: list[float]) -> list[float]:
    """The nearest list that never goes down, by weighted squares (pool adjacent violators).

    >>> increasing([1.0, 4.0, 2.0], [1.0, 1.0, 1.0])
    [1.0, 3.0, 3.0]
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
    for value, weight in zip(values, weights, strict=True):
        count = 1
        while blocks and blocks[-1][0] > value:
            mean, more, members = blocks.pop()
            value = (value * weight + mean * more) / (weight + more)
            weight, count = weight + more, count + members
        blocks.append((value, weight, count))
    return [mean for mean, _, count in blocks for _ in range(count)]
