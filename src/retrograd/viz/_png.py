"""A scene as PNG, drawn by matplotlib."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

from retrograd.viz._colours import DARK, EDGE, LIGHT, PAPER, Palette
from retrograd.viz._layout import need
from retrograd.viz._scene import TITLE_GAP, Arrow, Box, Frame, Look, Scene, curves, oriented
from retrograd.viz._svg import HEAD, corner, line_width
from retrograd.viz._text import LINE

SHARPNESS = 2.0  # pixels for each point of the scene
LARGEST = 60_000  # pixels along a side: more, the renderer cannot
POINTS = 72.0  # in an inch


def png(scene: Scene, over: Callable[[Any], None] | None = None) -> bytes:
    """The bytes of a PNG file. ``over`` draws on matplotlib's axes when all else is drawn."""
    figures, canvases = need("matplotlib.figure"), need("matplotlib.backends.backend_agg")
    need("matplotlib.patches"), need("matplotlib.path")
    sharpness = min(SHARPNESS, LARGEST / max(scene.width, scene.height))
    size = (scene.width / POINTS, scene.height / POINTS)
    dark = scene.look.theme == "dark"
    paper, palettes = PAPER["dark" if dark else "light"], DARK if dark else LIGHT
    figure = figures.Figure(figsize=size, dpi=POINTS * sharpness, facecolor=paper)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, scene.width), ylim=(scene.height, 0))
    axes.axis("off")
    for frame in scene.frames:
        _draw_frame(axes, frame, palettes["group"])
    for arrow in scene.arrows:
        _draw_arrow(axes, arrow, scene.look)
    for box in [*scene.boxes, *scene.legend]:
        _draw_box(axes, box, palettes[box.kind])
    if over is not None:
        over(axes)
    picture = io.BytesIO()
    with warnings.catch_warnings():  # letters that its typeface lacks are shown as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        canvases.FigureCanvasAgg(figure).print_png(picture)
    return picture.getvalue()


def _draw_frame(axes: Any, frame: Frame, palette: Palette) -> None:
    patches = need("matplotlib.patches")
    for line, alpha in (("none", 0.09), (EDGE, 1.0)):
        shape = patches.FancyBboxPatch(
            (frame.x, frame.y), frame.width, frame.height, boxstyle="round,pad=0,rounding_size=8",
            facecolor=EDGE, edgecolor=line, alpha=alpha, fill=line == "none", linewidth=1.0,
        )  # fmt: skip
        axes.add_patch(shape)
    axes.text(
        frame.x + TITLE_GAP, frame.y + 16, frame.title.text, fontsize=frame.title.size,
        color=palette.text, fontfamily="DejaVu Sans", parse_math=False, zorder=3,
    )  # fmt: skip


def draw_line(axes: Any, arrow: Arrow, look: Look, colour: str, width: float) -> None:
    """The line of an arrow."""
    patches, paths = need("matplotlib.patches"), need("matplotlib.path")
    points, codes = [arrow.points[0]], [paths.Path.MOVETO]
    for curve in curves(arrow, look, HEAD):
        points += curve
        codes += [paths.Path.CURVE4] * 3
    line = paths.Path(points, codes)
    axes.add_patch(patches.PathPatch(line, fill=False, edgecolor=colour, linewidth=width))


def _draw_arrow(axes: Any, arrow: Arrow, look: Look) -> None:
    patches = need("matplotlib.patches")
    draw_line(axes, arrow, look, EDGE, 1.4)
    x, y = oriented(arrow.points[-1], look)
    head = [oriented(point, look) for point in ((x, y), (x - 3.5, y - 7), (x + 3.5, y - 7))]
    axes.add_patch(patches.Polygon(head, facecolor=EDGE, edgecolor="none"))


def _draw_box(axes: Any, box: Box, palette: Palette) -> None:
    patches = need("matplotlib.patches")
    opacity = box.opacity
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
