"""Timelines as text and as pictures.

A picture is made once, as a list of shapes, and written as SVG or handed to matplotlib.
"""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

from retrograd.pipeline._instructions import Kind

if TYPE_CHECKING:
    from retrograd.pipeline._timeline import Event, Timeline

Number = int | float | Fraction


class Look(NamedTuple):
    """How an activity of a rank is shown. The colours are safe for colour-blind readers."""

    letter: str
    name: str
    colour: str


FORWARD = Look("F", "forward", "#0072B2")
BACKWARD = Look("B", "backward", "#E69F00")
INPUT = Look("B", "backward, inputs", "#E69F00")
WEIGHT = Look("W", "backward, weights", "#009E73")
MESSAGE = Look("~", "communication", "#CC79A7")
IDLE = Look("·", "idle", "#E8E8E8")
LOOKS = {
    Kind.FORWARD: FORWARD,
    Kind.BACKWARD: BACKWARD,
    Kind.BACKWARD_INPUT: INPUT,
    Kind.BACKWARD_WEIGHT: WEIGHT,
}
MOST_ROWS = 64
MOST_BOXES = 8000


def look_of(kind: Kind) -> Look:
    return LOOKS.get(kind, MESSAGE)


# -- numbers -----------------------------------------------------------------------------------


def short(value: Number) -> str:
    """A number as readable text.

    >>> short(37.5), short(Fraction(100, 3)), short(33), short(123456.7)
    ('37.5', '33.3', '33', '123457')
    """
    number = float(value)
    if number == int(number) or abs(number) >= 10000:
        return f"{number:.0f}"
    digits = 1 if abs(number) >= 10 else 2 if abs(number) >= 1 else 3
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")


def in_bytes(size: Number) -> str:
    """A size in bytes as readable text.

    >>> in_bytes(512), in_bytes(3 * 2**20), in_bytes(1.5 * 2**30)
    ('512 B', '3 MB', '1.5 GB')
    """
    number = float(size)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if number < 1024 or unit == "TB":
            break
        number /= 1024
    return f"{short(number)} {unit}"


# -- text --------------------------------------------------------------------------------------


def text(timeline: Timeline, width: int) -> str:
    """A cell for each unit of time if that fits, else a letter, else how busy the stages are."""
    schedule = timeline.schedule
    unit = _unit(timeline)
    units = timeline.length // unit if unit else 0
    digits = len(str(schedule.microbatches - 1)) + (1 if schedule.chunks > 1 else 0)
    names = _row_names(schedule.stages)
    room = max(10, width - len(names[0]) - 2)
    if len(names) == schedule.stages and units * (digits + 2) <= room + 1:
        rows = [_cells(events, units, unit, digits + 2) for events in timeline.ticks]
        legend = _letters(timeline) + ("  a, b... chunk" if schedule.chunks > 1 else "")
    elif len(names) == schedule.stages and units <= room:
        rows = [_cells(events, units, unit, 1) for events in timeline.ticks]
        legend = _letters(timeline)
    else:
        rows, legend = _busyness(timeline, room, len(names))
    lines = [f"{name}  {row}".rstrip() for name, row in zip(names, rows, strict=True)]
    return "\n".join([timeline.title(), *lines, legend])


def _unit(timeline: Timeline) -> int:
    """The largest time that all starts and ends are multiples of."""
    return math.gcd(*(t for events in timeline.ticks for e in events for t in (e.start, e.end)))


def _row_names(stages: int) -> list[str]:
    """One for each stage, or for several together if there are too many."""
    together = math.ceil(stages / MOST_ROWS)
    names = []
    for first in range(0, stages, together):
        last = min(first + together, stages) - 1
        names.append(f"stage {first}" if last == first else f"stages {first}-{last}")
    size = max(map(len, names))
    return [name.ljust(size) for name in names]


def _cells(events: Sequence[Event], units: int, unit: int, size: int) -> str:
    row = [IDLE.letter.ljust(size)] * units
    has_chunks = any(event.chunk > 0 for event in events)
    for start, end, kind, microbatch, chunk in events:
        letter = look_of(kind).letter
        if size == 1:
            row[start // unit : end // unit] = [letter] * ((end - start) // unit)
        elif end > start:
            which = chr(ord("a") + chunk % 26) if has_chunks else ""
            label = f"{letter}{microbatch}{which}"
            width = size * ((end - start) // unit)
            fill = " " if width <= size else "─"
            cell = label.ljust(width - 1, fill) + " "
            row[start // unit : end // unit] = [
                cell[i : i + size] for i in range(0, width, size)
            ]  # as many pieces as units, so that positions stay the same
    return "".join(row)


def _letters(timeline: Timeline) -> str:
    return "  ".join(f"{look.letter} {look.name}" for look in _looks(timeline))


def _looks(timeline: Timeline) -> list[Look]:
    """The activities that occur, in the order of the legend."""
    kinds = {event.kind for events in timeline.ticks for event in events}
    result = {look_of(kind) for kind in kinds}
    order = [*LOOKS.values(), MESSAGE]
    return [look for look in order if look in result] + [IDLE]


SHADES = "·░▒▓█"


def _busyness(timeline: Timeline, room: int, rows: int) -> tuple[list[str], str]:
    shares, _ = _shares(timeline, room, rows)
    lines = []
    for row in shares:
        working = [sum(v for look, v in column.items() if look != MESSAGE) for column in row]
        lines.append("".join(SHADES[min(4, int(w * 4 + 0.1))] for w in working))
    return lines, "of the time at work:  · none  ░ 25 %  ▒ 50 %  ▓ 75 %  █ all"


Shares = list[dict[Look, float]]


def _shares(timeline: Timeline, columns: int, rows: int) -> tuple[list[Shares], float]:
    """For rows of stages and columns of time: the share of each activity. Also the width of a
    column, in ticks; the last one may be narrower.

    A column is a whole number of rounds, forward and backward of a micro-batch, so that a
    pipeline that runs evenly looks even.
    """
    schedule = timeline.schedule
    work = sum(e.end - e.start for events in timeline.ticks for e in events)
    a_round = max(1.0, work / (schedule.stages * schedule.microbatches))
    together = math.ceil(schedule.stages / rows)
    size = a_round * max(1, math.ceil(timeline.length / (a_round * columns)))
    count = max(1, math.ceil(timeline.length / size - 1e-9))
    widths = [size] * (count - 1) + [timeline.length - size * (count - 1) or 1.0]
    result: list[Shares] = [[{} for _ in range(count)] for _ in range(rows)]
    for rank, events in enumerate(timeline.ticks):
        row = result[rank // together]
        ranks = min(together, schedule.stages - rank // together * together)
        for start, end, kind, _, _ in events:
            look = look_of(kind)
            for column in range(int(start / size), min(count, int(end / size) + 1)):
                within = min(end, (column + 1) * size) - max(start, column * size)
                if within > 0:
                    share = within / (widths[column] * ranks)
                    row[column][look] = row[column].get(look, 0.0) + share
    return result, size


# -- pictures ----------------------------------------------------------------------------------


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    colour: str


class Area(NamedTuple):
    points: list[tuple[float, float]]
    colour: str


class Label(NamedTuple):
    x: float
    y: float  # of the base line
    text: str
    size: float
    colour: str = "#222222"
    anchor: str = "start"
    bold: bool = False


class Picture(NamedTuple):
    width: float
    height: float
    shapes: list[Box | Area | Label]


def picture(timeline: Timeline) -> Picture:
    """Rows of boxes, or of areas where boxes would be too small to see."""
    names = _row_names(timeline.schedule.stages)
    row = 26 if len(names) <= 8 else 20 if len(names) <= 24 else 14
    left, top = 12 + 6.2 * max(map(len, names)), 56
    shortest = _shortest(timeline)
    boxes = sum(map(len, timeline.ticks))
    ideal = 24 * timeline.length / shortest if shortest else 480
    width = min(1160, max(480, ideal))
    scale = width / max(1, timeline.length)
    shapes: list[Box | Area | Label] = []
    bottom = top + row * len(names)
    detailed = boxes <= MOST_BOXES and shortest * scale >= 2 and len(names) == len(timeline.ticks)
    heading, costs = timeline.title().split("; ", 1)
    shapes.append(Label(12, 22, heading, 15, bold=True))
    shapes.append(Label(12, 42, costs, 12, "#444444"))
    for number, name in enumerate(names):
        y = top + number * row
        shapes.append(Label(left - 8, y + row * 0.5 + 4, name.strip(), 11, anchor="end"))
        shapes.append(Box(left, y + 1, width, row - 2, IDLE.colour))
    if detailed:
        for number, events in enumerate(timeline.ticks):
            shapes += _boxes(events, left, top + number * row + 1, scale, row - 2)
    else:
        table, column = _shares(timeline, 160, len(names))
        edges = [left + min(width, i * column * scale) for i in range(len(table[0]) + 1)]
        for number, shares in enumerate(table):
            shapes += _areas(shares, edges, top + (number + 1) * row - 1, row - 2)
    shapes += _axis(timeline, left, bottom, scale)
    shapes += _legend(timeline, left, bottom + 46, detailed)
    return Picture(max(left + width + 20, 560), bottom + 62, shapes)


def _shortest(timeline: Timeline) -> int:
    """Of the passes, in ticks."""
    passes = (e for events in timeline.ticks for e in events if e.kind in LOOKS)
    return min((e.end - e.start for e in passes if e.end > e.start), default=0)


def _boxes(
    events: Sequence[Event], left: float, y: float, scale: float, height: float
) -> Iterator[Box | Label]:
    last_chunk = max((event.chunk for event in events), default=0)
    for start, end, kind, microbatch, chunk in events:
        x, width = left + start * scale, (end - start) * scale
        if width <= 0:
            continue
        look = look_of(kind)
        colour = _tinted(look.colour, chunk / (last_chunk + 1) if last_chunk else 0)
        gap = min(0.6, width / 5)
        yield Box(x + gap / 2, y, width - gap, height, colour)
        size = 10.0 if height >= 16 else 8.5
        number = str(microbatch)
        if look is not MESSAGE and 0.62 * size * len(number) + 2 <= width:
            ink = "#FFFFFF" if _brightness(colour) < 0.45 else "#111111"
            middle = y + height / 2 + size * 0.36
            yield Label(x + width / 2, middle, number, size, ink, "middle")


def _areas(shares: Shares, edges: Sequence[float], y: float, height: float) -> Iterator[Area]:
    """Stacked areas: the share of each activity in each column."""
    floor = [0.0] * len(shares)
    for look in (FORWARD, BACKWARD, INPUT, WEIGHT, MESSAGE):
        if not any(look in column for column in shares):
            continue
        tops = [low + column.get(look, 0.0) for low, column in zip(floor, shares, strict=True)]
        upper = _steps(tops, edges, y, height)
        lower = _steps(floor, edges, y, height)
        yield Area([*upper, *reversed(lower)], look.colour)
        floor = tops


def _steps(
    values: Sequence[float], edges: Sequence[float], y: float, height: float
) -> list[tuple[float, float]]:
    """The corners of a line that is flat in each column. Equal columns make one piece."""
    points: list[tuple[float, float]] = []
    for value, (start, end) in zip(values, pairwise(edges), strict=True):
        level = round(y - min(1.0, value) * height, 1)
        if len(points) >= 2 and points[-1][1] == level:
            points[-1] = (end, level)
        else:
            points += [(start, level), (end, level)]
    return points


def _axis(timeline: Timeline, left: float, y: float, scale: float) -> Iterator[Box | Label]:
    total = float(timeline.time)
    if total <= 0:
        return
    step = 10 ** math.floor(math.log10(total / 5))
    step *= next(s for s in (1, 2, 5, 10) if total / (step * s) <= 8)
    per_unit = timeline.length * scale / total
    for number in range(int(total / step + 1e-9) + 1):
        x = left + number * step * per_unit
        yield Box(x - 0.5, y + 1, 1, 4, "#888888")
        yield Label(x, y + 17, short(round(number * step, 9)), 10, "#444444", "middle")
    yield Label(left + timeline.length * scale, y + 31, "time", 10, "#444444", "end")


def _legend(timeline: Timeline, left: float, y: float, detailed: bool) -> Iterator[Box | Label]:
    x = left
    for look in _looks(timeline):
        yield Box(x, y - 9, 11, 11, look.colour)
        yield Label(x + 16, y, look.name, 11)
        x += 32 + 6.2 * len(look.name)
    if not detailed:
        yield Label(x, y, "height: share of the time", 11, "#666666")
    elif timeline.schedule.chunks > 1:
        yield Label(x, y, "lighter: later chunks", 11, "#666666")


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def _tinted(colour: str, share: float) -> str:
    """A colour mixed with white."""
    mixed = (round(c + (255 - c) * share * 0.8) for c in _channels(colour))
    return "#" + "".join(f"{c:02X}" for c in mixed)


def _brightness(colour: str) -> float:
    red, green, blue = _channels(colour)
    return (0.299 * red + 0.587 * green + 0.114 * blue) / 255


# -- files -------------------------------------------------------------------------------------


def svg(timeline: Timeline) -> str:
    """The picture as the text of an SVG file."""
    drawn = picture(timeline)
    size = f'width="{drawn.width:.0f}" height="{drawn.height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {drawn.width:.0f} {drawn.height:.0f}" '
        'font-family="Helvetica, Arial, sans-serif" role="img">',
        f"<title>{escape(timeline.title())}</title>",
        '<rect width="100%" height="100%" fill="#FFFFFF"/>',
        *map(_svg_shape, drawn.shapes),
        "</svg>\n",
    ]
    return "\n".join(lines)


def _svg_shape(shape: Box | Area | Label) -> str:
    if isinstance(shape, Box):
        corner = f'x="{_n(shape.x)}" y="{_n(shape.y)}"'
        size = f'width="{_n(shape.width)}" height="{_n(shape.height)}"'
        return f'<rect {corner} {size} fill="{shape.colour}"/>'
    if isinstance(shape, Area):
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
        return f'<polygon points="{points}" fill="{shape.colour}"/>'
    style = f'font-size="{_n(shape.size)}" fill="{shape.colour}"'
    if shape.anchor != "start":
        style += f' text-anchor="{shape.anchor}"'
    if shape.bold:
        style += ' font-weight="bold"'
    return f'<text x="{_n(shape.x)}" y="{_n(shape.y)}" {style}>{escape(shape.text)}</text>'


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def png(timeline: Timeline) -> bytes:
    """The picture as the contents of a PNG file, drawn by matplotlib."""
    try:
        figures = importlib.import_module("matplotlib.figure")
        patches = importlib.import_module("matplotlib.patches")
    except ImportError:
        raise ImportError(
            'a PNG is drawn by matplotlib: pip install "retrograd[viz]", or save a .svg'
        ) from None
    drawn = picture(timeline)
    figure = figures.Figure(figsize=(drawn.width / 72, drawn.height / 72), dpi=144)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, drawn.width)
    axes.set_ylim(drawn.height, 0)
    axes.axis("off")
    for shape in drawn.shapes:
        if isinstance(shape, Box):
            corner, size = (shape.x, shape.y), (shape.width, shape.height)
            axes.add_patch(patches.Rectangle(corner, *size, facecolor=shape.colour, linewidth=0))
        elif isinstance(shape, Area):
            axes.add_patch(patches.Polygon(shape.points, facecolor=shape.colour, linewidth=0))
        else:
            axes.text(
                shape.x, shape.y, shape.text, fontsize=shape.size, color=shape.colour,
                ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
                va="baseline", weight="bold" if shape.bold else "normal",
            )  # fmt: skip
    contents = io.BytesIO()
    figure.savefig(contents, format="png")
    return contents.getvalue()
