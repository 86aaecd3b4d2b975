"""A pipeline beside one process: a model whose stages are balanced, on as many cores as stages.

Every rank computes with one thread, and so does the one process. Both do the same: the losses are
compared. The table has one batch; "speed" is how many batches are done in the time in which one
process does one. What a stage's communication costs, and how long it waits for other stages, is in
the notes, for the rank where it is most.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._runner import Column, Progress, Result, Row, Target, show_ratio, show_seconds
from benchmarks._workers import ONE_THREAD, WorkerError

MICROBATCHES = 32
BATCHES = 4  # in each run
LONGEST = 300.0  # seconds of a run


@dataclass(frozen=True)
class Way:
    """A way to train: how many ranks, and by which schedule."""

    key: str
    label: str
    stages: int
    schedule: str


ONE = Way("one", "one process", 1, "1f1b")


def ways(stages: int) -> list[Way]:
    names = {"1f1b": "1F1B", "zb-h1": "ZB-H1"}
    return [ONE, *(Way(s, f"{stages} stages, {n}", stages, s) for s, n in names.items())]


COLUMNS = (
    Column("median", "median", show_seconds),
    Column("min", "min", show_seconds),
    Column("speed", "speed", show_ratio),
    Column("ideal", "ideal", show_ratio),
)


def mpiexec() -> str:
    """The launcher that belongs to this Python, or any."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise LookupError('there is no mpiexec. Try: pip install "retrograd[mpi]"')
    return found


def command(way: Way) -> list[str]:
    program = [sys.executable, "-m", "benchmarks._pipeline_program", str(way.stages), way.schedule,
               str(MICROBATCHES), str(BATCHES)]  # fmt: skip
    if way.stages == 1:
        return program
    launcher = mpiexec()
    told = subprocess.run([launcher, "--version"], capture_output=True, text=True, timeout=60)
    open_mpi = "Open MPI" in told.stdout + told.stderr
    flags = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if open_mpi else []
    return [launcher, *flags, "-n", str(way.stages), *program]


def run_once(way: Way) -> dict[str, Any]:
    """One run in processes of its own: what it prints."""
    threads = {name: os.environ.get(name, value) for name, value in ONE_THREAD.items()}
    done = subprocess.run(
        command(way), env={**os.environ, **threads}, capture_output=True, text=True,
        timeout=LONGEST, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        error = WorkerError(f"{way.label}: the program ended with code {done.returncode}")
        error.add_note(done.stdout + done.stderr)
        raise error
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def measure(stages: int, rounds: int, progress: Progress) -> Result:
    """Ways take turns, a short run each, so that noise of the machine hits all alike."""
    compared = ways(stages)
    runs: dict[str, list[dict[str, Any]]] = {way.key: [] for way in compared}
    progress.start("pipeline", rounds)
    for number in range(rounds):
        for way in compared[number % 3 :] + compared[: number % 3]:
            runs[way.key].append(run_once(way))
        progress.step()
    losses = {key: found[0]["loss"] for key, found in runs.items()}
    if max(losses.values()) - min(losses.values()) > 1e-5:
        raise WorkerError(f"the ways do not train alike: their losses are {losses}")
    rows = [row(way, runs, stages) for way in compared]
    notes = [note for way in compared[1:] for note in notes_on(way, runs, stages)]
    targets = [
        Target(way.key, "time_of_one", 1 / 1.6, f"{way.label}: at least 1.6 times the speed of one "
               "process (its time, as a part of one process's)")
        for way in compared[1:]
    ] if stages == 2 else []  # fmt: skip
    title = f"{MICROBATCHES} micro-batches through a balanced model, one thread a process"
    return Result("pipeline", title, COLUMNS, rows, targets, notes)


def row(way: Way, runs: dict[str, list[dict[str, Any]]], stages: int) -> Row:
    every = [second for run in runs[way.key] for second in run["seconds"]]
    pairs = zip(runs[way.key], runs[ONE.key], strict=True)
    ratios = [median(one["seconds"]) / median(run["seconds"]) for run, one in pairs]
    speed = median(ratios)
    figures = {"median": median(every), "min": min(every), "speed": speed}
    if way is not ONE:
        figures |= {"ideal": stages / (1 + bubble(way, stages)), "time_of_one": 1 / speed}
    return Row(way.key, way.label, figures)


def bubble(way: Way, stages: int) -> float:
    """The time that stages wait, as a part of the time they work, by the schedule alone."""
    return (stages - 1) / (MICROBATCHES * (3 if way.schedule == "zb-h1" else 1))


def notes_on(way: Way, all_runs: dict[str, list[dict[str, Any]]], stages: int) -> list[str]:
    runs = all_runs[way.key]

    def work(run: dict[str, Any]) -> float:
        """What passes take by the processor's clock, and messages, on the busiest rank."""
        return max(rank["processor"] + rank["communication"] for rank in run["stats"])

    def most(*names: str) -> float:
        """The share of the time that goes into something, on the rank where it is most."""
        shares = [[sum(rank[n] for n in names) / rank["seconds"] for rank in run["stats"]]
                  for run in runs]  # fmt: skip
        return max(median(ranks) for ranks in zip(*shares, strict=True))

    stats = [rank for run in runs for rank in run["stats"]]
    busiest = median(map(work, runs)) / BATCHES
    alone = median(map(work, all_runs[ONE.key])) / BATCHES
    each = median(rank["communication"] / rank["batches"] / MICROBATCHES for rank in stats)
    sent = stats[0]["bytes"] / stats[0]["batches"] / MICROBATCHES / 1024
    return [
        f"{way.label}: communication takes {show_seconds(each)} a micro-batch ({sent:.0f} KiB sent "
        f"by each rank), at most {most('communication'):.1%} of a rank's time; waiting "
        f"{most('waiting'):.1%}, computing {most('compute'):.1%}",
        f"{way.label}: by the processor's clock the busiest rank works {show_seconds(busiest)} a "
        f"batch and one process {show_seconds(alone)}: on cores of their own that makes a speed of "
        f"{alone / busiest / (1 + bubble(way, stages)):.2f}",
    ]
