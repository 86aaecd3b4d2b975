"""The result of a simulation: when each rank does what, and figures derived from it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from retrograd.files._atomic import write_as
from retrograd.pipeline import _drawing
from retrograd.pipeline._costs import Costs
from retrograd.pipeline._instructions import PASSES, RECEIVES, SENDS, Kind, Program

Number = int | float | Fraction


class Event(NamedTuple):
    """A pass or a message that occupies a rank from start to end.

    Args:
        start: when it begins.
        end: when it ends.
        kind: what it is, a ``Kind``.
        microbatch: the number of the micro-batch.
        chunk: the number of the chunk, of those that the rank holds.

    Example:
        >>> from retrograd.pipeline import schedules, simulate
        >>> timeline = simulate(schedules.get("1f1b")(stages=2, microbatches=2))
        >>> event = next(timeline.events(0))
        >>> event.start, event.end, str(event.kind), event.microbatch
        (0, 1, 'forward', 0)
    """

    start: Any
    end: Any
    kind: Kind
    microbatch: int
    chunk: int


class Timeline:
    """The simulated run of a schedule: its events, time, bubble and peak memory.

    Results are exact, whole numbers or fractions, unless a cost was a float. ``simulate`` makes it.

    Args:
        schedule: the schedule.
        costs: what passes and messages cost.
        events: for each rank, its events, with times in whole ticks.
        ends: for each rank, when it is done, in ticks.
        peaks: for each rank, how many micro-batches it holds at most, and how many bytes.

    Example:
        >>> from retrograd.pipeline import schedules, simulate
        >>> timeline = simulate(schedules.get("1f1b")(stages=2, microbatches=4))
        >>> timeline.time, timeline.ideal, timeline.bubble
        (15, 12, Fraction(1, 4))
    """

    def __init__(
        self, schedule: Program, costs: Costs, *, events: Sequence[list[Event]],
        ends: Sequence[int], peaks: Sequence[tuple[int, int]],
    ) -> None:  # fmt: skip
        self.schedule = schedule
        self._costs = costs
        self._peaks = peaks
        self.ticks = events  #: for each rank, with times in whole ticks
        self.length = max(ends)  #: in ticks

    def events(self, rank: int) -> Iterator[Event]:
        """The events of a rank, with times in the unit of the costs.

        Args:
            rank: the rank.

        Returns:
            An iterator of ``Event``.
        """
        for event in self.ticks[rank]:
            yield event._replace(start=self._time(event.start), end=self._time(event.end))

    @property
    def time(self) -> Number:
        """The time at which the last rank finishes."""
        return self._time(self.length)

    @property
    def ideal(self) -> Number:
        """The time if no rank ever waited: the mean busy time of the ranks."""
        return self._costs.number(self._costs.tick * sum(self._worked) / self.schedule.stages)

    @property
    def bubble(self) -> Number:
        """The time that ranks spend waiting, as a fraction of the time they work.

        This is the figure of the papers, (p - 1) / m for 1F1B. It is not bounded by one.
        """
        work = sum(self._worked)
        idle = self.length * self.schedule.stages - work
        return self._costs.number(Fraction(idle, work) if work else 0)

    @property
    def busy(self) -> tuple[Number, ...]:
        """How long each rank works."""
        return tuple(self._time(worked) for worked in self._worked)

    @property
    def idle(self) -> tuple[Number, ...]:
        """How long each rank waits, for whatever reason."""
        return tuple(self._time(self.length - worked) for worked in self._worked)

    @property
    def exposed_communication(self) -> tuple[Number, ...]:
        """How long each rank waits for messages in transit."""
        return tuple(
            self._time(sum(e.end - e.start for e in events if e.kind not in PASSES))
            for events in self.ticks
        )

    @property
    def peak_activations(self) -> tuple[Number, ...]:
        """How many micro-batches' activations each rank keeps at most.

        They are kept from the forward pass to the end of the backward pass, that for weights
        included. Those of one chunk count as ``1 / chunks``.
        """
        chunks = self.schedule.chunks
        exact = (Fraction(count, chunks) for count, _ in self._peaks)
        return tuple(n.numerator if n.denominator == 1 else n for n in exact)

    @property
    def peak_memory(self) -> tuple[Number, ...] | None:
        """How many bytes of activations each rank keeps at most, if their size was given."""
        if not self._costs.counts_bytes:
            return None
        exact = (self._costs.byte * size for _, size in self._peaks)
        return tuple(n.numerator if n.denominator == 1 else float(n) for n in exact)

    @cached_property
    def _worked(self) -> list[int]:
        return [sum(e.end - e.start for e in events if e.kind in PASSES) for events in self.ticks]

    def _time(self, ticks: int) -> Number:
        return self._costs.number(ticks * self._costs.tick)

    # -- showing it ----------------------------------------------------------------------------

    def title(self) -> str:
        """A summary in one line.

        Example:
            >>> from retrograd.pipeline import schedules, simulate
            >>> simulate(schedules.get("gpipe")(stages=4, microbatches=8)).title()
            'gpipe: 4 stages, 8 micro-batches; time 33, bubble 37.5 %, at most 8 activations'
        """
        schedule = self.schedule
        chunks = f" of {schedule.chunks} chunks" if schedule.chunks > 1 else ""
        peak = max(self.peak_activations)
        text = (
            f"{schedule.name}: {_count(schedule.stages, 'stage')}{chunks}, "
            f"{_count(schedule.microbatches, 'micro-batch')}; time {_drawing.short(self.time)}, "
            f"bubble {_drawing.short(100 * self.bubble)} %"
        )
        if schedule.trains:
            text += f", at most {_drawing.short(peak)} activation{'s' if peak != 1 else ''}"
        if self.peak_memory is not None:
            text += f" ({_drawing.in_bytes(max(self.peak_memory))})"
        return text

    def text(self, width: int = 120) -> str:
        """A drawing for a terminal: stages as lines, time from left to right.

        Args:
            width: number of columns.

        Example:
            >>> from retrograd.pipeline import schedules, simulate
            >>> print(simulate(schedules.get("1f1b")(stages=2, microbatches=3)).text())
            1f1b: 2 stages, 3 micro-batches; time 12, bubble 33.3 %, at most 2 activations
            stage 0  F0 F1 ·  ·  B0─── F2 B1─── ·  B2───
            stage 1  ·  F0 B0─── F1 B1─── F2 B2─── ·  ·
            F forward  B backward  · idle
        """
        return _drawing.text(self, width)

    def svg(self) -> str:
        """A drawing as SVG."""
        return _drawing.svg(self)

    def _repr_svg_(self) -> str:
        return self.svg()

    def trace(self) -> dict[str, Any]:
        """The events in the format of Perfetto and ``chrome://tracing``, with a millisecond per
        unit.

        Returns:
            A dictionary for JSON.
        """
        stages = range(self.schedule.stages)
        names = [
            {"ph": "M", "pid": 0, "tid": r, "name": "thread_name", "args": {"name": f"stage {r}"}}
            for r in stages
        ]
        boxes = [
            {
                "ph": "X",
                "pid": 0,
                "tid": rank,
                "name": f"{Kind(kind)} {microbatch}",
                "cat": "communication" if kind in RECEIVES | SENDS else str(Kind(kind)),
                "ts": float(start * self._costs.tick) * 1000,
                "dur": float((end - start) * self._costs.tick) * 1000,
                "args": {"microbatch": microbatch, "chunk": chunk},
            }
            for rank in stages
            for start, end, kind, microbatch, chunk in self.ticks[rank]
        ]
        return {"traceEvents": [*names, *boxes], "otherData": self.figures()}

    def figures(self) -> dict[str, Any]:
        """The figures by name, as a dictionary for JSON."""
        memory = self.peak_memory
        return {
            "schedule": self.schedule.name,
            "stages": self.schedule.stages,
            "microbatches": self.schedule.microbatches,
            "chunks": self.schedule.chunks,
            "time": _plain(self.time),
            "ideal": _plain(self.ideal),
            "bubble": _plain(self.bubble),
            "peak_activations": [_plain(count) for count in self.peak_activations],
            "peak_memory": None if memory is None else [_plain(size) for size in memory],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.svg``, ``.png``, ``.txt`` or ``.json`` file, atomically.

        Args:
            path: the file.
        """
        write_as(path, {
            ".svg": self.svg, ".png": lambda: _drawing.png(self), ".txt": lambda: f"{self}\n",
            ".json": lambda: json.dumps(self.trace()),
        })  # fmt: skip

    def __repr__(self) -> str:
        return f"<{self.title()}>"

    def __str__(self) -> str:
        return self.text()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 'es' if what.endswith('ch') else 's'}"


def _plain(number: Number) -> int | float:
    return number if isinstance(number, int) else float(number)
