"""The steps of a backward pass as pictures for slides: a PNG for each, or one animated SVG.

Both are made from the JSON of a story, whose pictures have the positions of boxes. What has run is
filled, what runs has a frame, with the edges along which its gradients leave, and what is still to
run is pale.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from retrograd.files._atomic import write_whole
from retrograd.viz._colours import ACCENT, DARK, LIGHT
from retrograd.viz._layout import need
from retrograd.viz._model import Item
from retrograd.viz._png import draw_line, png
from retrograd.viz._scene import MARGIN, Arrow, Box, Look, Scene
from retrograd.viz._svg import corner, line_svg, svg, text
from retrograd.viz._text import json_text, lines_of, shape_text, shortened

CAPTION = 34.0  # the height of the caption
PALE = 0.3  # the opacity of what is still to run
AROUND = 4.0  # between a box and the frame of what runs


@dataclass
class Moment:
    """A step of a pass in the picture of the whole graph."""

    caption: str
    box: int | None
    arrows: list[int]


def scene_from(story: dict[str, Any], theme: str) -> Scene:
    """The picture of the whole graph, with room for a caption above."""
    graph = story["graph"]
    picture = next(p for p in graph["pictures"] if p["group"] is None)
    boxes = []
    for number, (x, y, width, height) in picture["boxes"].items():
        item = item_from(graph["items"][int(number)])
        boxes.append(Box(item.id, item.kind, lines_of(None, item, ()), width, height,
                         x, y + CAPTION, item.root))  # fmt: skip
    arrows = [
        Arrow(edge["from"], edge["to"], [(x, y + CAPTION) for x, y in edge["points"]])
        for edge in picture["edges"]
    ]
    width = max(picture["width"], 420.0)
    return Scene(
        width, picture["height"] + CAPTION, boxes, arrows, [], story["title"], Look(theme=theme)
    )


def item_from(given: dict[str, Any]) -> Item:
    """An item without its values."""
    names = {field.name for field in dataclasses.fields(Item)} - {"value", "grad", "place", "room"}
    known = {name: value for name, value in given.items() if name in names}
    return Item(**known | {"details": tuple(given["details"]), "saved": tuple(given["saved"])})


def moments(story: dict[str, Any], number: int, scene: Scene) -> list[Moment]:
    """The steps of a pass that ran, in their order."""
    items = story["graph"]["items"]
    shown = {box.id for box in scene.boxes}
    data = {box.id for box in scene.boxes if box.kind == "data"}  # which gets no gradient
    steps = [step for step in story["passes"][number]["steps"] if step["done"]]
    result = []
    for k, step in enumerate(steps):
        at = step["item"]
        while at is not None and at not in shown:  # in a folded group
            at = items[at]["group"]
        arrows = [n for n, a in enumerate(scene.arrows) if a.target == at and a.source not in data]
        result.append(Moment(f"{k + 1} of {len(steps)} · {said(step, items)}", at, arrows))
    return result


def said(step: dict[str, Any], items: list[dict[str, Any]]) -> str:
    """What a step does: the node, and the gradient that arrives."""
    arrived = next((value for value in step["incoming"] if value is not None), None)
    gradient = "" if arrived is None else f" · gradient {json_text(arrived)}"
    item = None if step["item"] is None else items[step["item"]]
    if item is not None and item["kind"] == "leaf":
        named = item["name"] or shape_text(item_from(item))
        return shortened(f"{named}.grad{gradient}", 64)
    return shortened(f"{step['name']}{gradient}", 64)


def save_steps(
    story: dict[str, Any], path: str, number: int, seconds: float, theme: str
) -> list[str]:
    """Write the steps of a pass: to one animated SVG, or to a PNG for each. The files written."""
    stem, ending = os.path.splitext(path)
    if ending.lower() not in (".svg", ".png"):
        raise ValueError(f"cannot tell from {path!r} what to write: give a name in .svg or .png")
    scene = scene_from(story, theme)
    steps = moments(story, number, scene)
    files: dict[str, Callable[[], bytes]]
    if ending.lower() == ".svg":
        files = {path: lambda: animated(scene, steps, seconds).encode()}
    else:
        digits = len(str(len(steps)))
        files = {f"{stem}-{k + 1:0{digits}}{ending}": partial(still, scene, steps, k)
                 for k in range(len(steps))}  # fmt: skip
    for name, content in files.items():
        write_whole(name, content())
    return list(files)


def still(scene: Scene, steps: list[Moment], k: int) -> bytes:
    """The PNG of one step."""
    moment, makers = steps[k], makers_of(scene)
    waiting = {later.box for later in steps[k + 1 :]} - {done.box for done in steps[: k + 1]}
    boxes = [
        dataclasses.replace(box, opacity=PALE if makers.get(box.id, box.id) in waiting else 1.0)
        for box in scene.boxes
    ]

    def over(axes: Any) -> None:
        patches = need("matplotlib.patches")
        for n in moment.arrows:
            draw_line(axes, scene.arrows[n], scene.look, ACCENT, 3.0)
        for x, y, width, height, radius in accents(scene, moment):
            style = f"round,pad=0,rounding_size={radius:g}"
            shape = patches.FancyBboxPatch((x, y), width, height, boxstyle=style, fill=False,
                                           edgecolor=ACCENT, linewidth=3.0)  # fmt: skip
            axes.add_patch(shape)
        colour = (DARK if scene.look.theme == "dark" else LIGHT)["group"].text
        axes.text(MARGIN, 26, moment.caption, fontsize=13, fontweight="bold", color=colour,
                  fontfamily="DejaVu Sans", parse_math=False)  # fmt: skip

    return png(dataclasses.replace(scene, boxes=boxes), over)


def makers_of(scene: Scene) -> dict[int, int]:
    """The operation of each result: a result has its gradient when its operation runs."""
    results = {box.id for box in scene.boxes if box.kind == "intermediate"}
    return {arrow.target: arrow.source for arrow in scene.arrows if arrow.target in results}


def accents(scene: Scene, moment: Moment) -> list[tuple[float, float, float, float, float]]:
    """The rectangle around what runs, if that is in the picture: corner, size and radius."""
    return [
        (box.x - AROUND, box.y - AROUND, box.width + 2 * AROUND, box.height + 2 * AROUND,
         corner(box) + AROUND)
        for box in scene.boxes if box.id == moment.box
    ]  # fmt: skip


def animated(scene: Scene, steps: list[Moment], seconds: float) -> str:
    """An SVG that shows one step after the other, and begins again."""
    total = len(steps) + 1  # the last step stays twice as long
    makers = makers_of(scene)
    palette = (DARK if scene.look.theme == "dark" else LIGHT)["group"]
    first: dict[int | None, int] = {}
    for k, moment in enumerate(steps):
        first.setdefault(moment.box, k)
    inside = {}
    for box in scene.boxes:
        start = first.get(makers.get(box.id, box.id), 0)
        if start:
            inside[box.id] = _change([(0, PALE), (start, 1.0)], total, seconds)
    over = []
    for k, moment in enumerate(steps):
        when = [(0, 0.0)] * (k > 0) + [(k, 1.0)] + [(k + 1, 0.0)] * (k + 1 < len(steps))
        over.append(f'<g class="group" opacity="{int(k == 0)}">{_change(when, total, seconds)}')
        over.append(
            f'<text x="{MARGIN:g}" y="26" font-size="13" font-weight="bold" '
            f'fill="{palette.text}">{text(moment.caption)}</text>'
        )
        over += [line_svg(scene.arrows[n], scene.look, ACCENT, 3.0) for n in moment.arrows]
        for x, y, width, height, radius in accents(scene, moment):
            over.append(
                f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
                f'rx="{radius:g}" fill="none" stroke="{ACCENT}" stroke-width="3"/>'
            )
        over.append("</g>")
    return svg(scene, inside=inside, over="".join(over))


def _change(when: list[tuple[int, float]], total: int, seconds: float) -> str:
    """Opacities that begin at some steps, over and over again."""
    values = ";".join(f"{value:g}" for _, value in when)
    times = ";".join(f"{start / total:.5g}" for start, _ in when)
    return (
        f'<animate attributeName="opacity" calcMode="discrete" values="{values}" '
        f'keyTimes="{times}" dur="{total * seconds:g}s" repeatCount="indefinite"/>'
    )
