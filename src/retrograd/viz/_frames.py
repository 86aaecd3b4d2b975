"""Layouts with frames: boxes that contain other boxes.

The contents of a frame are laid out by themselves, then the frame is a box in the layout around it.
A value that enters a frame has a vertex at its top, one that leaves it a vertex at its bottom, and
an edge from box to box consists of pieces that meet there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from retrograd.viz._layout import BEND, Layout, Point, lay_out

Pair = tuple[int, int]
Size = tuple[float, float]
Vertex = tuple[str, int]  # "box" or "frame", or "in" or "out" with the box that a value comes from


@dataclass(frozen=True)
class Border:
    """What surrounds the contents of frames, and how large a frame is at least."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass
class _Inside:
    """The layout of the contents of a frame, or of the whole picture."""

    vertices: dict[Vertex, int] = field(default_factory=dict)
    sizes: list[Size] = field(default_factory=list)
    edges: dict[Hashable, tuple[Pair, tuple[float | None, float | None]]] = field(
        default_factory=dict
    )
    layout: Layout | None = None
    order: dict[Hashable, int] = field(default_factory=dict)

    def add(self, vertex: Vertex, size: Size) -> int:
        if vertex not in self.vertices:
            self.vertices[vertex] = len(self.sizes)
            self.sizes.append(size)
        return self.vertices[vertex]

    def corner(self, vertex: Vertex) -> Point:
        assert self.layout is not None
        return self.layout.corners[self.vertices[vertex]]


class Framed:
    """Lays out boxes in frames.

    Args:
        sizes: of all boxes, by number.
        pairs: the edges between boxes.
        around: for each box and each frame the frame that it is in; None if it is in none.
        least: for each frame the size that it has at least.
        border: the space around the contents of a frame.
    """

    def __init__(
        self, sizes: Mapping[int, Size], pairs: Sequence[Pair],
        around: Mapping[int, int | None], least: Mapping[int, Size], border: Border,
    ) -> None:  # fmt: skip
        self.sizes, self.pairs, self.around = sizes, pairs, around
        self.least, self.border = least, border
        self.inside: dict[int | None, _Inside] = {frame: _Inside() for frame in (None, *least)}
        self.corners: dict[int, Point] = {}  # of boxes and frames
        self.frames: dict[int, Size] = {}
        self.pieces = [self.split(number) for number in range(len(pairs))]

    def chain(self, number: int) -> list[int]:
        """The frames around a box or frame, the innermost first."""
        result = []
        frame = self.around[number]
        while frame is not None:
            result.append(frame)
            frame = self.around[frame]
        return result

    def split(self, number: int) -> list[tuple[int | None, Vertex, Vertex, Hashable]]:
        """The pieces of an edge: the frame that each is in, its ends, and what is equal for pieces
        that are the same. The last piece leads to the box and belongs to this edge only."""
        source, target = self.pairs[number]
        leaving, entering = self.chain(source), self.chain(target)
        while leaving and entering and leaving[-1] == entering[-1]:
            leaving.pop()
            entering.pop()
        both = self.around[leaving[-1] if leaving else source]
        at: Vertex = ("box", source)
        pieces: list[tuple[int | None, Vertex, Vertex, Hashable]] = []
        for frame in leaving:
            pieces.append((frame, at, ("out", source), None))
            at = ("frame", frame)
        where = both
        for frame in reversed(entering):
            pieces.append((where, at, ("frame", frame), None))
            where, at = frame, ("in", source)
        pieces.append((where, at, ("box", target), number))
        return [(f, a, b, (a, b, source, own)) for f, a, b, own in pieces]

    def run(self) -> Layout:
        """Lay out all frames, the innermost first, and put the results together."""
        order: list[int | None] = [*sorted(self.least, key=lambda f: -len(self.chain(f))), None]
        members: dict[int | None, list[Vertex]] = {frame: [] for frame in order}
        for number, frame in self.around.items():
            members[frame].append(("frame" if number in self.least else "box", number))
        mine: dict[int | None, list[tuple[Vertex, Vertex, Hashable]]] = {f: [] for f in order}
        for pieces in self.pieces:
            for frame, start, end, key in pieces:
                mine[frame].append((start, end, key))
        for frame in order:
            self.lay_out(frame, members[frame], mine[frame])
        for frame in reversed(order):
            self.place(frame, members[frame])
        whole = self.inside[None].layout
        assert whole is not None
        corners = [self.corners[number] for number in self.sizes]
        return Layout(corners, list(map(self.route, self.pieces)), whole.width, whole.height)

    def lay_out(
        self, frame: int | None, members: list[Vertex],
        pieces: list[tuple[Vertex, Vertex, Hashable]],
    ) -> None:  # fmt: skip
        inside, border = self.inside[frame], self.border
        for kind, number in members:
            size = self.frames[number] if kind == "frame" else self.sizes[number]
            inside.add((kind, number), size)
        for start, end, key in pieces:
            a, b = (inside.add(vertex, (BEND, 0.0)) for vertex in (start, end))
            at = self.port(start, key, "out"), self.port(end, key, "in")
            inside.edges.setdefault(key, ((a, b), at))
        ends = {kind: frozenset(n for v, n in inside.vertices.items() if v[0] == kind)
                for kind in ("in", "out")}  # fmt: skip
        inside.order = {key: k for k, key in enumerate(inside.edges)}
        edges = tuple(pair for pair, _ in inside.edges.values())
        ports = tuple(where for _, where in inside.edges.values())
        inside.layout = lay_out(tuple(inside.sizes), edges, ports, ends["in"], ends["out"])
        if frame is not None:
            width = inside.layout.width + border.left + border.right
            height = inside.layout.height + border.top + border.bottom
            least = self.least[frame]
            self.frames[frame] = (max(width, least[0]), max(height, least[1]))

    def port(self, vertex: Vertex, key: Hashable, side: str) -> float | None:
        """Where an edge meets a frame, from its left; None for boxes, where there is a choice."""
        if vertex[0] != "frame":
            return None
        source = key[2]  # type: ignore[index]
        return self.inside[vertex[1]].corner((side, source))[0] + BEND / 2 + self.border.left

    def place(self, frame: int | None, members: list[Vertex]) -> None:
        left, top = self.origin(frame)
        for vertex in members:
            x, y = self.inside[frame].corner(vertex)
            self.corners[vertex[1]] = (x + left, y + top)

    def origin(self, frame: int | None) -> Point:
        """Where the contents of a frame begin."""
        if frame is None:
            return 0.0, 0.0
        x, y = self.corners[frame]
        return x + self.border.left, y + self.border.top

    def route(self, pieces: list[tuple[int | None, Vertex, Vertex, Hashable]]) -> list[Point]:
        points: list[Point] = []
        for frame, _, _, key in pieces:
            inside = self.inside[frame]
            assert inside.layout is not None
            left, top = self.origin(frame)
            route = inside.layout.routes[inside.order[key]]
            points += [(x + left, y + top) for x, y in route]
        return points
