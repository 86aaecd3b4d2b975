"""A scene as SVG, a file by itself, with colours for light and dark themes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from xml.sax.saxutils import escape, quoteattr

from retrograd.viz._colours import DARK, EDGE, LIGHT, PAPER, Palette
from retrograd.viz._scene import TITLE_GAP, Arrow, Box, Frame, Look, Scene, curves
from retrograd.viz._text import LINE

_FORBIDDEN = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
FONT = "'Helvetica Neue', 'Segoe UI', Arial, 'DejaVu Sans', sans-serif"
NONE: Mapping[int, str] = MappingProxyType({})
HEAD = 6.0  # how far before its tip the line of an arrow ends


def svg(
    scene: Scene, links: Mapping[int, str] = NONE, inside: Mapping[int, str] = NONE, over: str = ""
) -> str:
    """The text of an SVG file.

    Args:
        scene: what to draw.
        links: where a click on a box leads, by the box's number.
        inside: what else the element of a box contains.
        over: what is drawn over everything.
    """
    width, height = f"{scene.width:g}", f"{scene.height:g}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="retrograd-graph" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="{escape(FONT)}">',
        f"<title>{text(scene.title)}</title>",
    ]
    theme, palettes = scene.look.theme, DARK if scene.look.theme == "dark" else LIGHT
    if theme == "auto":
        parts.append(f"<style>{style()}</style>")
    else:
        parts.append(f'<rect width="100%" height="100%" fill="{PAPER[theme]}"/>')
    parts += [frame_svg(frame) for frame in scene.frames]
    parts += [arrow_svg(arrow, scene.look) for arrow in scene.arrows]
    parts += [title_svg(frame, palettes["group"]) for frame in scene.frames]
    for box in (*scene.boxes, *scene.legend):
        drawn = box_svg(box, palettes[box.kind], inside.get(box.id, ""))
        parts.append(
            f"<a href={quoteattr(links[box.id])}>{drawn}</a>" if box.id in links else drawn
        )
    parts += [over, "</svg>"] if over else ["</svg>"]
    return "\n".join(parts) + "\n"


def text(words: str) -> str:
    """Text escaped for XML, without characters that XML does not allow."""
    return escape(_FORBIDDEN.sub("\ufffd", words))


def style() -> str:
    """Colours for the dark theme. Light colours are set on the shapes themselves, for viewers
    without style sheets."""
    rules = []
    for kind, palette in DARK.items():
        of_kind = f".retrograd-graph .{kind}"
        rules.append(f"{of_kind} .shape{{fill:{palette.fill};stroke:{palette.line}}}")
        rules.append(f"{of_kind} text{{fill:{palette.text}}}")
    return "@media (prefers-color-scheme: dark){" + "".join(rules) + "}"


def frame_svg(frame: Frame) -> str:
    """A frame; where several lie over each other, it is darker."""
    return (
        f'<rect class="frame" x="{frame.x:g}" y="{frame.y:g}" width="{frame.width:g}" '
        f'height="{frame.height:g}" rx="8" fill="{EDGE}" fill-opacity="0.09" stroke="{EDGE}"/>'
    )


def title_svg(frame: Frame, palette: Palette) -> str:
    return (
        f'<g class="group"><text x="{frame.x + TITLE_GAP:g}" y="{frame.y + 16:g}" '
        f'font-size="{frame.title.size:g}" fill="{palette.text}">'
        f"{text(frame.title.text)}</text></g>"
    )


def arrow_svg(arrow: Arrow, look: Look) -> str:
    """A smooth line with a head."""
    x, y = arrow.points[-1]
    tip = f"M{x:g},{y:g}" + ("l-7,-3.5v7z" if look.direction == "LR" else "l-3.5,-7h7z")
    return f'<g class="edge">{line_svg(arrow, look, EDGE, 1.4)}<path d="{tip}" fill="{EDGE}"/></g>'


def line_svg(arrow: Arrow, look: Look, colour: str, width: float) -> str:
    """The line of an arrow."""
    x, y = arrow.points[0]
    path = f"M{x:g},{y:g}"
    for (a, b), (c, d), (to_x, to_y) in curves(arrow, look, HEAD):
        if x == to_x and a == c == x:
            path += f"V{to_y:g}"
        elif y == to_y and b == d == y:
            path += f"H{to_x:g}"
        else:
            path += f"C{a:g},{b:g} {c:g},{d:g} {to_x:g},{to_y:g}"
        x, y = to_x, to_y
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'


def box_svg(box: Box, palette: Palette, inside: str = "") -> str:
    opacity = f' opacity="{box.opacity:g}"' if box.opacity < 1.0 else ""
    parts = [f'<g class="{box.kind}"{opacity}>{inside}']
    if box.tip:
        parts.append(f"<title>{text(box.tip)}</title>")
    if box.kind == "group":  # drawn as a stack of cards
        parts += [_rectangle(box, palette, offset) for offset in (6.0, 3.0)]
    parts.append(_rectangle(box, palette, 0.0))
    y = box.y + (box.height - sum(line.size * LINE for line in box.lines)) / 2
    for line in box.lines:
        y += line.size * LINE
        weight = ' font-weight="bold"' if line.bold else ""
        parts.append(
            f'<text x="{box.x + box.width / 2:g}" y="{y - line.size * 0.36:g}" '
            f'text-anchor="middle" font-size="{line.size:g}"{weight} fill="{palette.text}">'
            f"{text(line.text)}</text>"
        )
    parts.append("</g>")
    return "".join(parts)


def corner(box: Box) -> float:
    """How round the corners are: operations have round ends, tensors have corners."""
    return {"operation": min(box.height / 2, 16.0), "group": 8.0}.get(box.kind, 2.0)


def _rectangle(box: Box, palette: Palette, offset: float) -> str:
    dashes = ' stroke-dasharray="4 3"' if box.kind == "data" else ""
    return (
        f'<rect class="shape" x="{box.x + offset:g}" y="{box.y + offset:g}" '
        f'width="{box.width:g}" height="{box.height:g}" rx="{corner(box):g}" '
        f'fill="{palette.fill}" stroke="{palette.line}" '
        f'stroke-width="{line_width(box):g}"{dashes}/>'
    )


def line_width(box: Box) -> float:
    """The line width of a box: requested results and leaves stand out."""
    return 2.6 if box.root else 2.0 if box.kind == "leaf" else 1.3
