"""What all benchmarks share: fair timing, tables, verdicts on targets, and a progress line."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from benchmarks._workers import Worker

# How often everybody gets a new process. The layout of memory, which is chosen anew in each, is
# worth a few per cent, for better or worse.
GENERATIONS = 3
LONG_START = 10.0  # seconds; who takes longer to start goes on in the old process
# What a slow program may take in a generation. Past this it sits out rounds, evenly spread.
BUDGET = 1.0


# -- results ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of figures: the name of the figure, its heading, and how one is written."""

    key: str
    heading: str
    show: Callable[[float], str]


@dataclass(frozen=True)
class Row:
    """One library's figures. A figure that could not be had is missing."""

    key: str
    label: str
    figures: dict[str, float]


@dataclass(frozen=True)
class Target:
    """What a library must reach: a figure of its row, at most so much."""

    row: str
    figure: str
    at_most: float
    says: str

    def verdict(self, rows: Iterable[Row]) -> Verdict:
        figure = next((r.figures.get(self.figure) for r in rows if r.key == self.row), None)
        return Verdict(self, figure)


@dataclass(frozen=True)
class Verdict:
    """A target and what was reached."""

    target: Target
    figure: float | None

    @property
    def met(self) -> bool | None:
        return None if self.figure is None else self.figure <= self.target.at_most

    def __str__(self) -> str:
        if self.figure is None:
            return f"target: {self.target.says}: not measured"
        return f"target: {self.target.says}: {'met' if self.met else 'MISSED'} ({self.figure:.2f})"


@dataclass(frozen=True)
class Result:
    """One program's table."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    targets: Sequence[Target] = ()
    notes: Sequence[str] = field(default_factory=list)

    def verdicts(self) -> list[Verdict]:
        return [target.verdict(self.rows) for target in self.targets]

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.title}"]
        lines += _table(self.columns, self.rows) if self.rows else ["  not for these libraries"]
        lines += [f"  {line}" for line in (*self.notes, *map(str, self.verdicts()))]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "rows": [{"library": r.key, "label": r.label, **r.figures} for r in self.rows],
            "notes": list(self.notes),
            "targets": [
                {"says": v.target.says, "figure": v.figure, "at_most": v.target.at_most,
                 "met": v.met}
                for v in self.verdicts()
            ],
        }  # fmt: skip


def _table(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    cells = [["", *(c.heading for c in columns)]]
    for row in rows:
        figures = (row.figures.get(c.key) for c in columns)
        shown = ("-" if f is None else c.show(f) for f, c in zip(figures, columns, strict=True))
        cells.append([row.label, *shown])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  " + "  ".join(
            cell.rjust(w) if i else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]  # fmt: skip


def show_seconds(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.{_decimals(seconds / size)}f} {unit}"
    return f"{seconds * 1e6:.{_decimals(seconds * 1e6)}f} µs"


def show_ratio(ratio: float) -> str:
    return f"{ratio:.{_decimals(ratio)}f}"


def _decimals(number: float) -> int:
    """Three significant digits, without an exponent."""
    return 2 if number < 9.995 else 1 if number < 99.95 else 0


# -- timing ----------------------------------------------------------------------------------


Samples = Mapping[str, Sequence[float | None]]  # per library, one for each round


def measure(
    name: str, makers: Mapping[str, tuple[Any, ...]], rounds: int, progress: Progress
) -> Samples:
    """Time programs in turns, round by round. None stands for a round that was sat out.

    Each maker is a function that makes the program, and its arguments; see ``Worker``.
    """
    samples: dict[str, list[float | None]] = {key: [] for key in makers}
    generations = min(GENERATIONS, rounds)
    workers: dict[str, Worker] = {}
    progress.start(name, rounds)
    try:
        for generation in range(generations):
            for key, maker in makers.items():
                if key not in workers:
                    progress.say(f"{name}: warming up {key}")
                    workers[key] = Worker(key, *maker)
            take_turns(workers, (rounds + generation) // generations, samples, progress)
            for key in makers:
                if workers[key].seconds_to_start < LONG_START:
                    workers.pop(key).stop()
        return samples
    finally:
        for worker in workers.values():
            worker.stop()


def take_turns(
    workers: Mapping[str, Worker],
    rounds: int,
    samples: dict[str, list[float | None]],
    progress: Progress,
) -> None:
    """Add so many rounds to the samples."""
    turns = {key: turns_in(rounds, w.seconds_per_turn) for key, w in workers.items()}
    keys = list(samples)
    for number in range(rounds):
        first = number % len(keys)
        for key in (*keys[first:], *keys[:first]):
            plays = takes_part(turns[key], number, rounds)
            samples[key].append(workers[key].turn() if plays else None)
        progress.step()


def turns_in(rounds: int, seconds_per_turn: float) -> int:
    """In how many of the rounds a program takes part."""
    return min(rounds, max(1, int(BUDGET / seconds_per_turn)))


def takes_part(turns: int, number: int, rounds: int) -> bool:
    """Whether a program with so many turns, evenly spread, has one in round ``number``."""
    return (number + 1) * turns // rounds > number * turns // rounds


def figures(samples: Samples, baselines: Sequence[str]) -> dict[str, dict[str, float]]:
    """Median and minimum for each library, and the median of its ratios to each baseline."""
    result: dict[str, dict[str, float]] = {}
    for key, mine in samples.items():
        taken = [s for s in mine if s is not None]
        row = {"median": statistics.median(taken), "min": min(taken), "rounds": float(len(taken))}
        for baseline in baselines:
            pairs = zip(mine, samples.get(baseline, ()), strict=False)
            ratios = [m / b for m, b in pairs if m is not None and b is not None]
            if ratios:
                row[f"ratio_{baseline}"] = statistics.median(ratios)
        result[key] = row
    return result


# -- progress --------------------------------------------------------------------------------


class Progress:
    """A line on stderr that keeps changing; where that is no terminal, a plain line at times."""

    SECONDS_BETWEEN_LINES = 10.0

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.terminal = self.stream.isatty()
        self.width = 0
        self.last_line = -self.SECONDS_BETWEEN_LINES
        self.name, self.rounds, self.done, self.started = "", 0, 0, 0.0

    def start(self, name: str, rounds: int) -> None:
        self.name, self.rounds, self.done, self.started = name, rounds, 0, time.monotonic()

    def step(self) -> None:
        """Another round of the program named last is done."""
        self.done += 1
        left = (time.monotonic() - self.started) / self.done * (self.rounds - self.done)
        self.say(f"{self.name}: {self.done} of {self.rounds} rounds, about {left:.0f} s left")

    def say(self, text: str) -> None:
        now = time.monotonic()
        if self.terminal:
            if now - self.last_line >= 0.1 or not self.width:
                self.stream.write("\r" + text.ljust(self.width))
                self.stream.flush()
                self.width, self.last_line = max(self.width, len(text)), now
        elif now - self.last_line >= self.SECONDS_BETWEEN_LINES:
            print(text, file=self.stream, flush=True)
            self.last_line = now

    def clear(self) -> None:
        """Make room for results."""
        if self.terminal and self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
        self.width = 0
