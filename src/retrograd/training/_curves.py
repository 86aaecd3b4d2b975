"""Plots of a run: the loss, and the score on held-out data."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import Any

from retrograd.files._atomic import write_whole

FORMATS = ("png", "svg")
TRAINING, TEST = "#8fa8c8", "#c4532d"


def draw(folder: Path, title: str, records: list[dict[str, Any]]) -> list[Path]:
    """Write the curves of some records, and return the files; none without matplotlib."""
    try:
        figures = importlib.import_module("matplotlib.figure")
        matplotlib = importlib.import_module("matplotlib")
    except ImportError:
        return []
    scored = [r for r in records if r.get("test_accuracy") is not None]
    with matplotlib.rc_context({"svg.hashsalt": "retrograd", "font.size": 9}):
        figure = figures.Figure(figsize=(9 if scored else 6, 3.6), layout="constrained", dpi=130)
        figure.suptitle(title)
        panels = figure.subplots(1, 2 if scored else 1, squeeze=False)[0]
        _losses(panels[0], records)
        if scored:
            _accuracy(panels[1], scored)
        return [_written(figure, folder / f"loss.{kind}", kind) for kind in FORMATS]


def _losses(axes: Any, records: list[dict[str, Any]]) -> None:
    kept = [r for r in records if r.get("loss") is not None]
    axes.plot(*_points(kept, "loss"), color=TRAINING, linewidth=1, label="training")
    tested = [r for r in records if r.get("test_loss") is not None]
    if tested:
        mark = "o" if len(tested) < 50 else None
        axes.plot(*_points(tested, "test_loss"), color=TEST, marker=mark, markersize=3,
                  label="test")  # fmt: skip
    axes.set(xlabel="step", ylabel="loss")
    positive = [r["loss"] for r in kept if r["loss"] > 0]
    if positive and max(positive) > 30 * min(positive):
        axes.set_yscale("log")
    axes.legend(frameon=False)
    _plain(axes)


def _accuracy(axes: Any, scored: list[dict[str, Any]]) -> None:
    steps, shares = _points(scored, "test_accuracy")
    axes.plot(steps, [100 * share for share in shares], color=TEST, marker="o", markersize=3)
    best = 100 * max(shares)
    axes.axhline(best, color="0.7", linewidth=0.8, linestyle=":")
    axes.annotate(f"{best:.1f}%", (steps[0], best), xytext=(0, 3), textcoords="offset points",
                  color="0.4")  # fmt: skip
    axes.set(xlabel="step", ylabel="test accuracy, %", ylim=(None, 103))
    _plain(axes)


def _points(records: list[dict[str, Any]], name: str) -> tuple[list[Any], list[Any]]:
    return [r["step"] for r in records], [r[name] for r in records]


def _plain(axes: Any) -> None:
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _written(figure: Any, path: Path, kind: str) -> Path:
    picture = io.BytesIO()
    # Without a date, the same run gives the same file.
    figure.savefig(picture, format=kind, metadata={"Date": None} if kind == "svg" else None)
    write_whole(path, picture.getvalue())
    return path
