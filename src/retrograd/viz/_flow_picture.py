"""The picture of a flow of gradients: a heat map of norms, bars of the latest, and their ratio."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

from retrograd.viz._layout import need
from retrograd.viz._text import shortened

# Colours that people with any kind of colour blindness can tell apart; words say the same.
PLAIN, TROUBLE, NOTHING = "#4477aa", "#cc3311", "#dddddd"
MOST_COLUMNS = 400
ROW = 0.19  # inches
TALLEST = 60.0  # inches; with more rows, they get thinner and only some have a name
LONGEST_NAME = 44


def picture(flow: Any, kind: str) -> bytes:
    """The picture as the bytes of a file."""
    figures, matplotlib = need("matplotlib.figure"), need("matplotlib")
    style = {"svg.hashsalt": "retrograd", "svg.fonttype": "none", "font.size": 8}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # Letters that the typeface lacks are shown as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = _figure(flow, figures, matplotlib)
        target = io.BytesIO()
        # Without a date, the same flow gives the same file.
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(target, format=kind, metadata=metadata)
        return target.getvalue()


def _figure(flow: Any, figures: Any, matplotlib: Any) -> Any:
    rows = len(flow.names)
    over_time = len(flow.steps) > 1
    widths = [6.0, 2.2, 2.2] if over_time else [3.5, 3.5]
    names = [shortened(name, LONGEST_NAME) for name in flow.names]
    margin = 0.075 * max(map(len, names)) + 1.2
    height = min(TALLEST, ROW * rows) + 1.3
    figure = figures.Figure(figsize=(sum(widths) + margin, height), layout="constrained", dpi=110)
    panels = figure.subplots(1, len(widths), sharey=True, width_ratios=widths, squeeze=False)[0]
    if over_time:
        _heat_map(figure, panels[0], flow, matplotlib)
    _bars(panels[-2], flow)
    _ratios(panels[-1], flow)
    _label_rows(panels[0], names)
    return figure


def _label_rows(axes: Any, names: list[str]) -> None:
    every = max(1, math.ceil(len(names) * 0.12 / TALLEST))
    axes.set_yticks(range(0, len(names), every), names[::every])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)  # a dollar sign is not mathematical text
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _heat_map(figure: Any, axes: Any, flow: Any, matplotlib: Any) -> None:
    table = [_binned(flow.norms(name)) for name in flow.names]
    size = -(-len(flow.steps) // MOST_COLUMNS)
    nothing = float("nan")
    logs = [[math.log10(x) if x is not None and 0 < x < math.inf else nothing for x in row]
            for row in table]  # fmt: skip
    known = [x for row in logs for x in row if not math.isnan(x)]
    low, high = (min(known), max(known)) if known else (-1.0, 0.0)
    low, high = (low, high) if high - low > 0.5 else (low - 0.5, high + 0.5)
    colours = matplotlib.colormaps["viridis"].with_extremes(bad=NOTHING)
    extent = (-0.5, len(table[0]) - 0.5, len(table) - 0.5, -0.5)
    image = axes.imshow(logs, aspect="auto", cmap=colours, vmin=low, vmax=high, extent=extent,
                        interpolation="nearest")  # fmt: skip
    bar = figure.colorbar(image, ax=axes, location="top", shrink=0.5, aspect=40, pad=0.01)
    bar.set_label("log10 of the norm (grey: none, or zero; ×: NaN or infinite)")
    for row, line in enumerate(table):
        bad = [i for i, x in enumerate(line) if x is not None and not x < math.inf]
        axes.plot(bad, [row] * len(bad), "x", color=TROUBLE, markersize=4, markeredgewidth=1.2)
    ticks = range(0, len(table[0]), max(1, len(table[0]) // 8))
    axes.set_xticks(ticks, [str(flow.steps[i * size]) for i in ticks])
    axes.set_xlabel("backward pass" + (f" (the largest of each {size})" if size > 1 else ""))


def _binned(norms: list[float | None]) -> list[float | None]:
    """At most as many numbers as the picture has room for: the largest of each bin."""
    size = -(-len(norms) // MOST_COLUMNS)
    parts = [norms[i : i + size] for i in range(0, len(norms), size)]
    return [_largest([x for x in part if x is not None]) for part in parts]


def _largest(numbers: list[float]) -> float | None:
    if any(map(math.isnan, numbers)):
        return float("nan")
    return max(numbers, default=None)


def _bars(axes: Any, flow: Any) -> None:
    words = flow.words()
    known = [[x for x in flow.norms(name) if x is not None] for name in flow.names]
    latest = [norms[-1] if norms else None for norms in known]
    drawn = [x if x is not None and 0 < x < math.inf else None for x in latest]
    left, right = _range([x for x in drawn if x is not None])
    for row, (name, x) in enumerate(zip(flow.names, drawn, strict=True)):
        marked = words.get(name)
        if x is not None:
            colour = PLAIN if marked is None else TROUBLE
            axes.barh(row, x - left, left=left, height=0.7, color=colour)
        if marked is not None:
            axes.annotate(marked, (x or left, row), xytext=(3, 0), textcoords="offset points",
                          va="center", color=TROUBLE, fontsize=7)  # fmt: skip
            if x is not None:  # room for the labels
                right = max(right, left * (x / left) ** (3 if "," in marked else 2))
    _logarithmic(axes, left, min(right, 1e300))
    axes.set_xlabel("latest norm")


def _ratios(axes: Any, flow: Any) -> None:
    ratios = [flow.ratio(name) for name in flow.names]
    points = [(x, row) for row, x in enumerate(ratios) if x is not None and 0 < x < math.inf]
    axes.plot([x for x, _ in points], [row for _, row in points], "o", color=PLAIN, markersize=4)
    _logarithmic(axes, *_range([x for x, _ in points]))
    axes.set_xlabel("latest norm / norm of weights")


def _logarithmic(axes: Any, left: float, right: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(left, right)
    if right / left < 300:  # too few powers of ten for a readable scale
        powers = range(math.floor(math.log10(left)), math.ceil(math.log10(right)) + 1)
        digits = (1, 2, 5) if right / left < 30 else (1, 3)
        ticks = [d * 10.0**k for k in powers for d in digits]
        ticks = [x for x in ticks if left <= x <= right]
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.set_xticks([], minor=True)
    _plain(axes)


def _range(numbers: list[float]) -> tuple[float, float]:
    """Limits of a logarithmic axis, at least a decade apart."""
    low, high = (min(numbers), max(numbers)) if numbers else (0.1, 1.0)
    low, high = math.log10(low) - 0.3, math.log10(high) + 0.2
    wider = max(0.0, 1.0 - (high - low)) / 2
    return max(10 ** max(low - wider, -300.0), 1e-300), 10 ** min(high + wider, 300.0)


def _plain(axes: Any) -> None:
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
