"""A picture before it is drawn: boxes with their text, edges and a legend, in points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from retrograd.viz._layout import Point, lay_out
from retrograd.viz._model import Graph, Item
from retrograd.viz._text import LINE, SMALL, STATEMENTS, Line, lines_of, shape_text, shortened

MARGIN = 16.0
MAX_STUBS = 40  # items outside a group that the picture of its contents shows
MAX_BOXES = 1000  # in a picture; the contents of a larger group of tensors are left out
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
               tip=tip)  # fmt: skip


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


def scene_of(graph: Graph, group: int | None = None, show: Iterable[str] = (),
             legend: bool = True, title: str = "") -> Scene:  # fmt: skip
    """The picture of the whole graph, or of the contents of a group."""
    boxes, pairs = contents(graph, group, show)
    return arranged(boxes, pairs, legend, title)


def contents(
    graph: Graph, group: int | None = None, show: Iterable[str] = ()
) -> tuple[list[Box], list[tuple[int, int]]]:
    """What a picture shows, without positions: boxes, and the edges between them."""
    views = graph.views
    inside = set(views.inside[group])
    stubs: set[int] = set()
    pairs: list[tuple[int, int]] = []
    for pair in views.pairs[group]:
        outside = {number for number in pair if number not in inside} - stubs
        if len(stubs) + len(outside) <= MAX_STUBS:
            stubs |= outside
            pairs.append(pair)
    numbers = [*sorted(inside), *sorted(stubs)]
    show = tuple(show)
    return [box_of(graph, graph.items[n], show, n in stubs) for n in numbers], pairs


def arranged(boxes: list[Box], pairs: list[tuple[int, int]], legend: bool, title: str) -> Scene:
    position = {box.id: k for k, box in enumerate(boxes)}
    sizes = tuple((b.width, b.height) for b in boxes)
    result = lay_out(sizes, tuple((position[a], position[b]) for a, b in pairs))
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
    arrows = [
        Arrow(a, b, [(round(x + left, 1), round(y + top + MARGIN, 1)) for x, y in points])
        for (a, b), points in zip(pairs, result.routes, strict=True)
    ]
    width, height = wide + 2 * MARGIN, result.height + top + 2 * MARGIN
    return Scene(round(width), round(height), boxes, arrows, keys, title)


def legend_boxes(kinds: list[str], width: float) -> list[Box]:
    """The meaning of colours and shapes, in rows of a width."""
    keys: list[Box] = []
    x = y = 0.0
    for kind in kinds:
        key = measured(-1, kind, [Line(LEGEND[kind], False, SMALL)], stub=True)
        if x and x + key.width > width:
            x, y = 0.0, y + key.height + 8.0
        key.x, key.y, key.stub = x, y, False
        x += key.width + 10.0
        keys.append(key)
    return keys


def pictures_of(graph: Graph, show: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The picture of the whole graph and those of groups, as numbers."""
    show = tuple(show)
    groups = [None, *groups_with_inside(graph)]
    return [picture_json(scene_of(graph, group, show, legend=False), group) for group in groups]


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
    }
