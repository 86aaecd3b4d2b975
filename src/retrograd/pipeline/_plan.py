"""A comparison of schedules for a pipeline that is being planned, and advice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from retrograd.pipeline import schedules
from retrograd.pipeline._drawing import in_bytes, short
from retrograd.pipeline._simulator import simulate
from retrograd.pipeline._timeline import Timeline

WHY = {
    "gpipe": "Forward passes follow each other without a pause, and so do backward passes.",
    "1f1b": "A stage goes backward as soon as it can, so few micro-batches are in flight.",
    "interleaved": "Micro-batches reach the last stage sooner, because each stage's part is cut "
    "into chunks that take turns.",
    "zb-h1": "Gradients for weights, which nobody waits for, are computed when a stage would "
    "otherwise wait.",
}
AFFORDABLE = 500_000  # the most passes of a simulation that is run once
REPEATABLE = 60_000  # and of one that is run several times


class Row(NamedTuple):
    """A schedule and its cost."""

    label: str
    timeline: Timeline
    needed: Needed

    @property
    def time(self) -> Fraction:
        return Fraction(self.timeline.time)

    @property
    def bubble(self) -> Fraction:
        return Fraction(self.timeline.bubble)

    @property
    def activations(self) -> Fraction:
        return Fraction(max(self.timeline.peak_activations))

    @property
    def memory(self) -> Fraction | None:
        result = self.timeline.peak_memory
        return None if result is None else Fraction(max(result))


class Needed(NamedTuple):
    """The smallest number of micro-batches for a small bubble; ``None`` if no number does, or if
    it would take too long to find out."""

    microbatches: int | None
    exact: bool
    known: bool = True

    def __str__(self) -> str:
        if self.microbatches is None:
            return "none" if self.known else "?"
        return f"{'' if self.exact else '~'}{self.microbatches:,}"


class Plan(NamedTuple):
    """What to compare: schedules, stages, micro-batches, costs and limits."""

    names: Sequence[str]
    stages: int
    microbatches: int
    chunks: int
    costs: dict[str, Any]  # for simulate()
    target: Fraction  # of the bubble
    memory: Fraction | None  # for the activations of a stage, in bytes


def compare(plan: Plan, progress: Callable[[str, float], None]) -> list[Row]:
    """Simulate each schedule."""
    rows = []
    for name in plan.names:
        run = _runner(plan, name, partial(progress, name))
        chunks = f" x{plan.chunks}" if name == "interleaved" else ""
        timeline = run(plan.microbatches)
        rows.append(Row(name + chunks, timeline, _needed(plan, timeline, run)))
    return rows


def _runner(plan: Plan, name: str, progress: Callable[[float], None]) -> Callable[[int], Timeline]:
    kind = schedules.get(name)
    chunks = plan.chunks if kind.takes_chunks else 1
    return lambda microbatches: simulate(
        kind(plan.stages, microbatches, chunks), progress=progress, **plan.costs
    )


def _needed(plan: Plan, timeline: Timeline, run: Callable[[int], Timeline]) -> Needed:
    """How many micro-batches bring the bubble down to the target.

    Once a pipeline is full, every further group of micro-batches adds the same work and the same
    pauses. So two simulations predict all larger ones, up to a few micro-batches; these are found
    by trying, if that does not take long.
    """
    passes = 2 * plan.stages * timeline.schedule.chunks  # for each micro-batch
    few = 2 * plan.stages if passes * 4 * plan.stages <= AFFORDABLE else plan.stages
    many = max(2 * few, plan.microbatches)
    if passes * few > AFFORDABLE or (many > plan.microbatches and passes * many > AFFORDABLE):
        return Needed(None, exact=False, known=False)
    first = _waits(run(few))
    second = _waits(timeline if many == plan.microbatches else run(many))
    more_pauses = (second[0] - first[0]) / (many - few)
    more_work = (second[1] - first[1]) / (many - few)
    once = first[0] - more_pauses * few  # the cost of filling and draining, for any number
    gain = plan.target * more_work - more_pauses
    if once <= 0 and gain >= 0:
        guess = 1
    elif gain <= 0:
        return Needed(None, exact=False)
    else:
        guess = max(1, math.ceil(once / gain))
    if guess * passes > REPEATABLE:
        return Needed(guess, exact=False)
    for _ in range(2 * plan.stages):
        if Fraction(run(guess).bubble) > plan.target:
            guess += 1
        elif guess > 1 and Fraction(run(guess - 1).bubble) <= plan.target:
            guess -= 1
        else:
            return Needed(guess, exact=True)
    return Needed(guess, exact=False)


def _waits(timeline: Timeline) -> tuple[Fraction, Fraction]:
    """How long the stages wait, and how long they work, all together."""
    idle, busy = ([Fraction(time) for time in times] for times in (timeline.idle, timeline.busy))
    return sum(idle, Fraction(0)), sum(busy, Fraction(0))


# -- words -------------------------------------------------------------------------------------


def table(plan: Plan, rows: Sequence[Row]) -> str:
    """The schedules as lines, their costs as columns."""
    head = ["schedule", "time", "bubble", "activations"]
    with_memory = rows[0].memory is not None
    head += ["memory"] if with_memory else []
    head += [f"for {short(100 * plan.target)} %"]
    lines = [head]
    for row in rows:
        line = [row.label, short(row.time), percent(row.bubble), short(row.activations)]
        line += [in_bytes(row.memory)] if row.memory is not None else []
        lines.append([*line, str(row.needed)])
    lines.append(["(no waiting)", short(Fraction(rows[0].timeline.ideal)), "0 %"])
    sizes = [max(len(line[i]) for line in lines if i < len(line)) for i in range(len(head))]
    return "\n".join(
        "   ".join(
            cell.ljust(size) if i == 0 else cell.rjust(size)
            for i, (cell, size) in enumerate(zip(line, sizes, strict=False))
        ).rstrip()
        for line in lines
    )


def legend(plan: Plan, rows: Sequence[Row]) -> list[str]:
    """What the columns are."""
    target = f"for {short(100 * plan.target)} %"
    lines = [
        "bubble       time spent waiting, as a part of the time spent working",
        "activations  micro-batches whose activations the fullest stage keeps at once",
    ]
    if rows[0].memory is not None:
        lines.append("memory       what these take")
    lines.append(f"{target:<11}  how many micro-batches bring the bubble down to that")
    return lines


def percent(share: Fraction) -> str:
    """
    >>> percent(Fraction(3, 8))
    '37.5 %'
    """
    return f"{short(100 * share)} %"


def advice(plan: Plan, rows: Sequence[Row]) -> list[str]:
    """Which schedule is best, why, and what would help, a sentence or two a line."""
    if plan.stages == 1:
        return ["One stage has nobody to wait for: all schedules are the same."]
    limit = math.inf if plan.memory is None else plan.memory
    fitting = [row for row in rows if row.memory is None or row.memory <= limit]
    if not fitting:
        least = min(rows, key=lambda row: (row.memory or 0, row.time))
        assert plan.memory is not None
        assert least.memory is not None
        return [
            f"None fits into {in_bytes(plan.memory)} a stage: {least.label} needs the least, "
            f"{in_bytes(least.memory)}. Use more stages, smaller micro-batches, or recomputation."
        ]
    best = min(fitting, key=lambda row: (row.time, row.activations))
    lines = [_verdict(best, fitting)] if len(rows) > 1 else []
    fastest = min(rows, key=lambda row: row.time)
    if fastest.time < best.time:
        assert plan.memory is not None
        lines.append(
            f"{fastest.label} would be faster by {percent(best.time / fastest.time - 1)}, but "
            f"does not fit into {in_bytes(plan.memory)}."
        )
    return [*lines, *_suggestions(plan, best, fitting)]


def _verdict(best: Row, rows: Sequence[Row]) -> str:
    others = [row for row in rows if row is not best]
    why = WHY[best.timeline.schedule.name]
    if not others:
        return f"Best: {best.label}, the only one that fits. {why}"
    second = min(others, key=lambda row: (row.time, row.activations))
    if second.time == best.time:
        same = [row.label for row in others if row.time == best.time]
        fewer = f"with {short(best.activations)} activations in place of "
        fewer += " and ".join(short(row.activations) for row in others if row.time == best.time)
        if second.activations == best.activations:
            fewer = "with as many activations"
        return f"Best: {best.label}, as fast as {' and '.join(same)} {fewer}. {why}"
    memory = "as many"
    if best.activations != second.activations:
        memory = f"{short(best.activations)} in place of {short(second.activations)}"
    return (
        f"Best: {best.label}, {percent(second.time / best.time - 1)} faster than {second.label}, "
        f"with {memory} activations. {why}"
    )


def _suggestions(plan: Plan, best: Row, rows: Sequence[Row]) -> list[str]:
    lines = []
    under = percent(plan.target)
    needed = best.needed.microbatches
    if needed is None and best.needed.known:
        lines.append(
            f"No number of micro-batches brings the bubble of {best.label} down to {under}: "
            "stages wait in every round, for messages or for slower stages."
        )
    elif needed is not None and best.bubble > plan.target:
        about = "" if best.needed.exact else "about "
        lines.append(
            f"For a bubble of at most {under}, use {about}{needed:,} micro-batches or more."
        )
    if plan.costs["communication"] or plan.costs["latency"]:
        unhindered = {**plan.costs, "communication": 0, "latency": 0}
        slower = best.time / Fraction(simulate(best.timeline.schedule, **unhindered).time) - 1
        lines.append(f"Messages make it {percent(slower)} longer than it would be without them.")
    lean = min(rows, key=lambda row: (row.activations, row.time))
    if lean.activations < best.activations:
        lines.append(
            f"If memory is short, {lean.label} keeps {short(lean.activations)} activations in "
            f"place of {short(best.activations)}, and takes {percent(lean.time / best.time - 1)} "
            "longer."
        )
    worked = best.timeline.busy
    busiest = max(range(plan.stages), key=lambda rank: worked[rank])
    mean = Fraction(best.timeline.ideal)
    if Fraction(worked[busiest]) > mean * Fraction(21, 20):
        lines.append(
            f"Stage {busiest} works {percent(Fraction(worked[busiest]) / mean - 1)} more than the "
            "mean, and the others wait for it: move layers to other stages."
        )
    if plan.microbatches < plan.stages:
        lines.append(
            f"There are fewer micro-batches than stages: never more than {plan.microbatches} of "
            f"{plan.stages} stages can work at once."
        )
    return lines
