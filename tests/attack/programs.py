"""Random programs that run in PyTorch and here, line by line, and must do the same."""

from __future__ import annotations

import time

from ._known import known
from ._machine import Libraries, Machine, differs, is_rounding
from ._report import Report
from ._shrinking import reproduction, shrunk, title_of
from ._writing import Writer

MOST_SHRUNK = 3  # of differences that look alike at first sight


def attack(report: Report, seed: int, seconds: float) -> None:
    """Write and run programs until the time is up."""
    libraries = Libraries()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        one_program(report, libraries, (seed << 32) + report.tried)
        report.tried += 1


def one_program(report: Report, libraries: Libraries, seed: int) -> None:
    writer = Writer(seed, libraries)
    machine = writer.machine
    machine.watcher = report.watcher
    found = writer.write()
    libraries.reset()
    report.trying("")
    report.counts["lines"] += len(machine.lines)
    if found is None:
        return
    why = known(found, machine.lines, is_whole=False)
    if why is not None:
        report.counts[f"known: {why}"] += 1
        return
    if is_rounding(machine.lines, found, libraries, coarsest(machine)):
        report.counts["rounding"] += 1
        return
    report.counts["differences"] += 1
    lines, found = shrunk(machine.lines, found, libraries, report)
    why = known(found, lines, is_whole=True)
    if why is not None:
        report.counts[f"known: {why}"] += 1
        return
    if is_rounding(lines, found, libraries, coarsest(machine)):
        report.counts["rounding"] += 1
        return
    report.found(title_of(lines, found), reproduction(lines, found, libraries))


def coarsest(machine: Machine) -> str:
    """The least exact dtype of a program."""
    if machine.tolerance > 1e-3:
        return "float16"
    return "float32" if machine.tolerance > 1e-6 else "float64"


__all__ = ["attack", "differs"]
