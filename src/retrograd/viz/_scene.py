"""A picture before it is drawn: boxes with their text, edges and a legend, in points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from retrograd.viz._frames import Border, Framed
from retrograd.viz._layout import Layout, Point, lay_out
from retrograd.viz._model import Graph, Item
from retrograd.viz._text import (
    LINE,
    SMALL,
    STATEMENTS,
    Line,
    lines_of,
    result_lines,
    shape_text,
    shortened,
)

MARGIN = 16.0
MAX_STUBS = 40  # items outside a group that the picture of its contents shows
MAX_BOXES = 1000  # in a picture; the contents of a larger group of tensors are left out
FRAME_GAP, TITLE, TITLE_GAP = 12.0, 24.0, 8.0  # inside frames: the gap, the title's height and gap
LONGEST_TITLE = 60  # characters
PADDING = (14.0, 6.0)  # beside and above the text of a box
LEGEND = {
    "data": "data",
    "leaf": "leaf",
    "intermediate": "result",
    "operation": "operation",
    "input": "input",
    "line": "line of the program",
    "backward": "line of the backward pass",
    "group": "group",
}


@dataclass(frozen=True)
class Look:
    """How pictures are drawn, by the names of the arguments of ``draw``."""

    show: tuple[str, ...] = ()
    compact: bool = False
    direction: str = "TB"
    theme: str = "auto"


PLAIN = Look()


@dataclass
class Box:
    """A box with its upper left corner."""

    id: int
    kind: str
    lines: list[Line]
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    root: bool = False
    stub: bool = False  # represents something outside the group that is shown
    tip: str = ""
    opacity: float = 1.0


@dataclass
class Frame:
    """A frame around the boxes of a group."""

    id: int
    title: Line
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0


@dataclass
class Arrow:
    """An edge, from the side of a box to the side of another."""

    source: int
    target: int
    points: list[Point]


@dataclass
class Scene:
    """All that a picture consists of."""

    width: float
    height: float
    boxes: list[Box]
    arrows: list[Arrow]
    legend: list[Box]
    title: str = ""
    look: Look = PLAIN
    frames: list[Frame] = field(default_factory=list)


def box_of(graph: Graph, item: Item, show: Iterable[str], stub: bool = False) -> Box:
    """The box of an item, large enough for its text."""
    lines = lines_of(graph, item, show)
    if stub:
        lines = [Line(shortened(item.name or shape_text(item) or item.label, 20))]
    return measured(item.id, item.kind, lines, item.root, stub, tip(graph, item))


def measured(
    number: int, kind: str, lines: list[Line], root: bool = False, stub: bool = False, tip: str = ""
) -> Box:
    beside, above = (10.0, 5.0) if stub else PADDING
    if kind == "operation":
        beside += 4.0  # its ends are round
    wide = max(line.width for line in lines) + 2 * beside
    high = sum(line.size * LINE for line in lines) + 2 * above
    return Box(number, kind, lines, round(max(wide, 44.0)), round(high), root=root, stub=stub,
               tip=tip, opacity=0.65 if stub else 1.0)  # fmt: skip


def tip(graph: Graph, item: Item) -> str:
    """The tooltip of an item: its full name, and where it was created."""
    lines = [" ".join(filter(None, [item.name, shape_text(item)])) or item.label]
    if item.kind in ("operation", "group", *STATEMENTS):
        lines = [item.label, *item.details]
    if item.module:
        lines.append(f"in {item.module}")
    if item.place is not None:
        lines.append(f"{graph.files.name(item.place[0])}:{item.place[1]}: "
                     f"{graph.files.text(item.place)}")  # fmt: skip
    return "\n".join(lines)


def scene_of(graph: Graph, group: int | None = None, look: Look = PLAIN,
             legend: bool = True, title: str = "") -> Scene:  # fmt: skip
    """The picture of the whole graph, or of the contents of a group."""
    boxes, pairs = contents(graph, group, look)
    frames = frames_of(graph) if group is None else []
    return arranged(graph, boxes, pairs, frames, look, legend, title)


def contents(
    graph: Graph, group: int | None = None, look: Look = PLAIN
) -> tuple[list[Box], list[tuple[int, int]]]:
    """What a picture shows, without positions: boxes, and the edges between them."""
    views = graph.views
    inside = set(views.inside[group])
    stubs: set[int] = set()
    pairs: list[tuple[int, int]] = []
    edges = views.pairs[group]
    if group is None and graph.framed:
        shown, edges = views.opened(graph.edges, graph.framed)
        inside = set(shown)
    for pair in edges:
        outside = {number for number in pair if number not in inside} - stubs
        if len(stubs) + len(outside) <= MAX_STUBS:
            stubs |= outside
            pairs.append(pair)
    numbers = [*sorted(inside), *sorted(stubs)]
    boxes = [box_of(graph, graph.items[n], look.show, n in stubs) for n in numbers]
    return joined(graph, boxes, pairs, look.show) if look.compact else (boxes, pairs)


def joined(
    graph: Graph, boxes: list[Box], pairs: list[tuple[int, int]], show: tuple[str, ...]
) -> tuple[list[Box], list[tuple[int, int]]]:
    """Merge results into the boxes of their operations."""
    by_id = {box.id: box for box in boxes}
    maker = {
        b: a for a, b in pairs
        if by_id[b].kind == "intermediate" and not by_id[a].stub and not by_id[b].stub
    }  # fmt: skip
    results: dict[int, list[int]] = {}
    for result, operation in maker.items():
        results.setdefault(operation, []).append(result)
    kept = []
    for box in boxes:
        if box.id in results:
            made = [graph.items[number] for number in sorted(results[box.id])]
            lines = [*box.lines, *(line for item in made for line in result_lines(item, show))]
            box = measured(box.id, box.kind, lines, any(i.root for i in made), tip=box.tip)
        if box.id not in maker:
            kept.append(box)
    return kept, [(maker.get(a, a), b) for a, b in pairs if b not in maker]


def frames_of(graph: Graph) -> list[Frame]:
    """The frames of open groups, the outer ones first, as large as their titles."""
    frames = []
    for number in sorted(graph.framed, key=lambda n: (len(graph.views.around(n)), n)):
        item = graph.items[number]
        words = dict.fromkeys(filter(None, [item.name, item.label]))
        title = Line(shortened(" · ".join(words), LONGEST_TITLE))
        frames.append(Frame(number, title, title.width + 2 * TITLE_GAP, 0.0))
    return frames


def positioned(
    graph: Graph, boxes: list[Box], pairs: list[tuple[int, int]], frames: list[Frame], look: Look
) -> Layout:
    """The layout of boxes, in which the frames get their positions and sizes too."""
    position = {box.id: k for k, box in enumerate(boxes)}
    sizes = {box.id: oriented((box.width, box.height), look) for box in boxes}
    if not frames:
        edges = tuple((position[a], position[b]) for a, b in pairs)
        result = lay_out(tuple(sizes.values()), edges)
        return result.transposed() if look.direction == "LR" else result
    around = {number: graph.items[number].group for number in (*sizes, *(f.id for f in frames))}
    least = {frame.id: oriented((frame.width, 0.0), look) for frame in frames}
    left, top = oriented((FRAME_GAP, TITLE), look)
    framed = Framed(sizes, pairs, around, least, Border(left, top, FRAME_GAP, FRAME_GAP))
    result = framed.run()
    for frame in frames:
        frame.x, frame.y = oriented(framed.corners[frame.id], look)
        frame.width, frame.height = oriented(framed.frames[frame.id], look)
    return result.transposed() if look.direction == "LR" else result


def arranged(
    graph: Graph, boxes: list[Box], pairs: list[tuple[int, int]], frames: list[Frame], look: Look,
    legend: bool, title: str,
) -> Scene:  # fmt: skip
    result = positioned(graph, boxes, pairs, frames, look)
    kinds = [kind for kind in LEGEND if any(b.kind == kind and not b.stub for b in boxes)]
    keys = legend_boxes(kinds, max(result.width, 400.0)) if legend else []
    top = max((key.y + key.height for key in keys), default=0.0)
    top += 26.0 if keys else 0.0
    wide = max([result.width, *(key.x + key.width for key in keys)])
    left = MARGIN + (wide - result.width) / 2
    for key in keys:
        key.x, key.y = key.x + MARGIN, key.y + MARGIN
    for box, (x, y) in zip(boxes, result.corners, strict=True):
        box.x, box.y = round(x + left, 1), round(y + top + MARGIN, 1)
    for frame in frames:
        frame.x, frame.y = round(frame.x + left, 1), round(frame.y + top + MARGIN, 1)
    arrows = [
        Arrow(a, b, [(round(x + left, 1), round(y + top + MARGIN, 1)) for x, y in points])
        for (a, b), points in zip(pairs, result.routes, strict=True)
    ]
    width, height = wide + 2 * MARGIN, result.height + top + 2 * MARGIN
    return Scene(round(width), round(height), boxes, arrows, keys, title, look, frames)


def legend_boxes(kinds: list[str], width: float) -> list[Box]:
    """The meaning of colours and shapes, in rows of a width."""
    keys: list[Box] = []
    x = y = 0.0
    for kind in kinds:
        key = measured(-1, kind, [Line(LEGEND[kind], False, SMALL)], stub=True)
        if x and x + key.width > width:
            x, y = 0.0, y + key.height + 8.0
        key.x, key.y, key.stub, key.opacity = x, y, False, 1.0
        x += key.width + 10.0
        keys.append(key)
    return keys


def oriented(point: Point, look: Look) -> Point:
    """A point with its coordinates exchanged, if data flows from left to right."""
    return point[::-1] if look.direction == "LR" else point


def curves(arrow: Arrow, look: Look, head: float) -> Iterator[tuple[Point, Point, Point]]:
    """The cubic curves of an arrow, without its head: two control points and an end for each."""
    (x, y), *rest = [oriented(point, look) for point in arrow.points]
    rest[-1] = (rest[-1][0], rest[-1][1] - head)
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        one, other, end = (x, middle), (to_x, middle), (to_x, to_y)
        yield oriented(one, look), oriented(other, look), oriented(end, look)
        x, y = to_x, to_y


def pictures_of(graph: Graph, **look: Any) -> list[dict[str, Any]]:
    """The picture of the whole graph and those of groups, as numbers. ``look``: of ``Look``."""
    how = Look(**look)
    groups = [None, *groups_with_inside(graph)]
    return [picture_json(scene_of(graph, group, how, legend=False), group) for group in groups]


def groups_with_inside(graph: Graph) -> list[int]:
    """The groups that can be opened."""
    sizes = Counter(item.group for item in graph.items)
    return [item.id for item in graph.groups() if 0 < sizes[item.id] <= MAX_BOXES]


def picture_json(scene: Scene, group: int | None) -> dict[str, Any]:
    return {
        "group": group,
        "width": scene.width,
        "height": scene.height,
        "boxes": {str(b.id): [b.x, b.y, b.width, b.height] for b in scene.boxes},
        "stubs": [b.id for b in scene.boxes if b.stub],
        "edges": [
            {"from": a.source, "to": a.target, "points": [list(p) for p in a.points]}
            for a in scene.arrows
        ],
        "frames": {str(f.id): [f.x, f.y, f.width, f.height] for f in scene.frames},
    }
