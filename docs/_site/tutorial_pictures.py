"""Writes the pictures of the tutorials, docs/pictures/tutorials/*.svg, from their own variables:
``python docs/_site/tutorial_pictures.py [page ...]``.

It runs the examples of each page and draws what they have computed. Run it again when an example
has changed. The pictures are transparent, for light and dark pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
from _documents import examples, run  # noqa: E402

BLUE, ORANGE, GREEN, GRAY = "#3b82d0", "#e0812c", "#35a06c", "#888888"
STYLE = {
    "axes.edgecolor": GRAY, "axes.labelcolor": GRAY, "axes.spines.right": False,
    "axes.spines.top": False, "font.size": 9, "legend.frameon": False, "legend.labelcolor": GRAY,
    "svg.fonttype": "none", "svg.hashsalt": "retrograd", "text.color": GRAY, "xtick.color": GRAY,
    "ytick.color": GRAY,
}  # fmt: skip


def soap_film(names: dict[str, Any], plt: Any) -> Any:
    u = names["surface"](names["x"]).numpy()
    t = names["t"].numpy()
    x, y = t[:, None] + 0 * t, t + 0 * t[:, None]
    figure, axes = plt.subplots(figsize=(5, 3.6), subplot_kw={"projection": "3d"})
    axes.plot_surface(x, y, u, cmap="viridis", linewidth=0.2, edgecolor="#ffffff55", rcount=20,
                      ccount=20)  # fmt: skip
    axes.set(xticks=[], yticks=[], zticks=[])
    axes.set_axis_off()
    axes.set_box_aspect((1, 1, 0.7), zoom=1.3)
    return figure


def hyper_parameters(names: dict[str, Any], plt: Any) -> Any:
    fine = names["torch"].linspace(0, 1, 200)
    figure, axes = plt.subplots(figsize=(6, 3.2))
    axes.plot(names["t"], names["y"], "o", color=GRAY, markersize=4, label="samples")
    axes.plot(fine, names["truth"](fine), "--", color=GRAY, label="the curve")
    for hyper, color, label in (
        (names["start"], ORANGE, "first hyper-parameters"), (names["best"].x, BLUE, "the best"),
    ):  # fmt: skip
        curve = names["features"](fine) @ names["fit"](hyper)
        axes.plot(fine, curve.detach(), color=color, label=label)
    axes.set(xlabel="t", ylim=(-0.8, 1.3))
    axes.legend()
    return figure


def error_bars(names: dict[str, Any], plt: Any) -> Any:
    fine, band = names["fine"], names["band"]
    curve = names["model"](fine, *names["best"].detach())
    figure, axes = plt.subplots(figsize=(6, 3.2))
    axes.errorbar(names["t"], names["y"].detach(), names["sigma"], fmt="o", color=GRAY,
                  markersize=3, linewidth=1, label="measurements")  # fmt: skip
    axes.plot(fine, curve, color=BLUE, label="fit")
    axes.fill_between(fine, curve - 2 * band, curve + 2 * band, color=BLUE, alpha=0.3, linewidth=0,
                      label="two standard errors")  # fmt: skip
    axes.set(xlabel="t")
    axes.legend()
    return figure


def neural_ode(names: dict[str, Any], plt: Any) -> Any:
    figure, axes = plt.subplots(figsize=(6, 3.2))
    times = names["times"]
    for i, (color, name) in enumerate(((BLUE, "position"), (ORANGE, "speed"))):
        axes.plot(times, names["measured"][i].detach(), "o", color=color, markersize=4,
                  label=f"{name}, measured")  # fmt: skip
        fine = names["torch"].linspace(0, 3, 100)
        axes.plot(fine, names["path"](fine)[i].detach(), color=color, label=f"{name}, trained")
        axes.plot(times, names["untrained"][i], ":", color=color)
    axes.plot([], [], ":", color=GRAY, label="before training")
    axes.set(xlabel="time", ylim=(-3, 3))
    axes.legend(ncols=1, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def optimal_control(names: dict[str, Any], plt: Any) -> Any:
    states = names["path"](names["control"].x).detach()
    times = names["dt"] * names["torch"].arange(1.0, names["steps"] + 1)
    figure, axes = plt.subplots(figsize=(6, 3.2))
    axes.stairs(names["control"].x.detach(), [0.0, *times], color=ORANGE, baseline=None,
                label="acceleration, m/s²")  # fmt: skip
    axes.plot(times, states[:, 0], color=BLUE, label="position, m")
    axes.plot(times, states[:, 2], color=GREEN, label="angle of the cable, rad")
    axes.axhline(0, color=GRAY, linewidth=0.5)
    axes.set(xlabel="time, s")
    axes.legend()
    return figure


PICTURES: dict[str, tuple[str, Callable[[dict[str, Any], Any], Any]]] = {
    "sparse-newton": ("soap-film", soap_film),
    "hyper-parameters": ("hyper-parameters", hyper_parameters),
    "error-bars": ("error-bars", error_bars),
    "neural-ode": ("neural-ode", neural_ode),
    "optimal-control": ("optimal-control", optimal_control),
}


def main() -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    folder = ROOT / "docs" / "pictures" / "tutorials"
    for page in sys.argv[1:] or PICTURES:
        file, draw = PICTURES[page]
        names: dict[str, Any] = {"__name__": "__main__"}
        text = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
        for example in examples(text):
            run(example.source, names, may_fail=False)
        with pyplot.rc_context(STYLE):
            figure = draw(names, pyplot)
            figure.savefig(folder / f"{file}.svg", transparent=True, bbox_inches="tight",
                           metadata={"Date": None})  # fmt: skip


if __name__ == "__main__":
    main()
