"""Random programs that run in PyTorch and here, line by line, and must do the same."""

from __future__ import annotations

import gc
import re
import time
from collections import Counter

from ._comparing import Difference, shown
from ._differences import verdict
from ._known import UNDEFINED, known
from ._machine import Libraries, Machine, is_rounding
from ._report import Report
from ._shrinking import reproduction, shrunk, title_of
from ._writing import Writer

# Of differences that look alike, only so many are reduced to few lines: that takes seconds.
MOST_ALIKE = 3
_OF_MANY_LINES = re.compile(r"backward|grad")


def attack(report: Report, seed: int, seconds: float) -> None:
    """Write and run programs until the time is up."""
    libraries = Libraries()
    gc.freeze()  # the libraries stay: no need to go through them again and again
    gc.set_threshold(20_000, 20, 50)
    alike: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not report.is_done:
        one_program(report, libraries, (seed << 32) + report.tried, alike)
        report.tried += 1


def one_program(report: Report, libraries: Libraries, seed: int, alike: Counter[str]) -> None:
    """Write and run one program, and report what it does otherwise than in PyTorch."""
    writer = Writer(seed, libraries)
    machine = writer.machine
    machine.watcher = report.watcher
    found = writer.write()
    libraries.reset()
    report.trying("")
    report.counts["lines"] += len(machine.lines)
    if found is None or is_explained(report, machine.lines, found, machine, is_whole=False):
        return
    report.counts["differences"] += 1
    if not _OF_MANY_LINES.search(found.line) and found.line:
        title = title_of([found.line], found)
        alike[title] += 1
        if alike[title] > MOST_ALIKE:
            report.counts["like others before"] += 1
            return
    if theirs_changes(machine.lines, found, libraries):
        report.counts["known: PyTorch's result is not the same a second time"] += 1
        return
    lines, found = shrunk(machine.lines, found, libraries, report)
    if not is_explained(report, lines, found, machine, is_whole=True):
        report.found(title_of(lines, found), reproduction(lines, found, libraries))


def theirs_changes(lines: list[str], found: Difference, libraries: Libraries) -> bool:
    """Whether the program has no difference when it is run again, because PyTorch gives something
    else: what memory happened to hold, say. Ours must be the same as before."""
    if found.kind not in ("values", "gradient"):
        return False
    machine = Machine(libraries)
    again = None
    for line in lines:
        again = again or machine.step(line)
    again = again or machine.compare_all("", gradients=True)
    libraries.reset()
    if again is not None:
        return False
    return shown(eval(found.what, machine.ours)) == found.ours


def is_explained(
    report: Report, lines: list[str], found: Difference, machine: Machine, is_whole: bool
) -> bool:
    """Whether a difference is known, or no more than rounding, or a derivative that PyTorch gets
    wrong; if so, it is counted as such. A derivative of PyTorch's that is right needs no reason."""
    why = known(found, lines, is_whole)
    if why is None and is_rounding(lines, found, machine.libraries, coarsest(machine)):
        why = "rounding"
    right = verdict(lines, found, machine.libraries, of_ours=why in UNDEFINED)
    if right == "theirs":
        report.counts[f"against differences, although {why}"] += 1
        return False
    if why is None and right == "ours":
        why = "PyTorch's derivative is not that of differences"
    if why is not None:
        report.counts[f"known: {why}"] += 1
    return why is not None


def coarsest(machine: Machine) -> str:
    """The least exact dtype of a program."""
    if machine.tolerance > 1e-3:
        return "float16"
    return "float32" if machine.tolerance > 1e-6 else "float64"
