"""A scene as PNG, drawn by matplotlib."""

from __future__ import annotations

import io
import warnings
from typing import Any

from retrograd.viz._colours import EDGE, LIGHT
from retrograd.viz._layout import need
from retrograd.viz._scene import Arrow, Box, Scene
from retrograd.viz._svg import corner, line_width
from retrograd.viz._text import LINE

SHARPNESS = 2.0  # pixels for each point of the scene
LARGEST = 60_000  # pixels along a side: more, the renderer cannot
POINTS = 72.0  # in an inch


def png(scene: Scene) -> bytes:
    """The bytes of a PNG file."""
    figures, canvases = need("matplotlib.figure"), need("matplotlib.backends.backend_agg")
    need("matplotlib.patches"), need("matplotlib.path")
    sharpness = min(SHARPNESS, LARGEST / max(scene.width, scene.height))
    size = (scene.width / POINTS, scene.height / POINTS)
    figure = figures.Figure(figsize=size, dpi=POINTS * sharpness, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, scene.width), ylim=(scene.height, 0))
    axes.axis("off")
    for arrow in scene.arrows:
        _draw_arrow(axes, arrow)
    for box in [*scene.boxes, *scene.legend]:
        _draw_box(axes, box)
    picture = io.BytesIO()
    with warnings.catch_warnings():  # letters that its typeface lacks are shown as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        canvases.FigureCanvasAgg(figure).print_png(picture)
    return picture.getvalue()


def _draw_arrow(axes: Any, arrow: Arrow) -> None:
    patches, paths = need("matplotlib.patches"), need("matplotlib.path")
    path = paths.Path
    (x, y), *rest = arrow.points
    tip_x, tip_y = rest[-1]
    points, codes = [(x, y)], [path.MOVETO]
    for next_x, next_y in [*rest[:-1], (tip_x, tip_y - 6)]:
        middle = (y + next_y) / 2
        points += [(x, middle), (next_x, middle), (next_x, next_y)]
        codes += [path.CURVE4] * 3
        x, y = next_x, next_y
    line = paths.Path(points, codes)
    axes.add_patch(patches.PathPatch(line, fill=False, edgecolor=EDGE, linewidth=1.4))
    head = [(tip_x, tip_y), (tip_x - 3.5, tip_y - 7), (tip_x + 3.5, tip_y - 7)]
    axes.add_patch(patches.Polygon(head, closed=True, facecolor=EDGE, edgecolor="none"))


def _draw_box(axes: Any, box: Box) -> None:
    patches = need("matplotlib.patches")
    palette, opacity = LIGHT[box.kind], 0.65 if box.stub else 1.0
    for offset in (6.0, 3.0, 0.0) if box.kind == "group" else (0.0,):
        style = f"round,pad=0,rounding_size={corner(box)}"
        shape = patches.FancyBboxPatch(
            (box.x + offset, box.y + offset), box.width, box.height, boxstyle=style,
            facecolor=palette.fill, edgecolor=palette.line, linewidth=line_width(box),
            linestyle=(0, (3, 2)) if box.kind == "data" else "solid", alpha=opacity,
        )  # fmt: skip
        axes.add_patch(shape)
    y = box.y + (box.height - sum(line.size * LINE for line in box.lines)) / 2
    for line in box.lines:
        y += line.size * LINE
        axes.text(
            box.x + box.width / 2, y - line.size * 0.36, line.text, ha="center", va="baseline",
            fontsize=line.size, color=palette.text, fontweight="bold" if line.bold else "normal",
            fontfamily="DejaVu Sans", alpha=opacity, parse_math=False,
        )  # fmt: skip
