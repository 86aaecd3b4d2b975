"""Random programs that run on the CPU and on a device, by XLA, and must do the same.

With an odd seed, XLA compiles each queue of operations as one function when it comes up for the
first time, with all its passes. With an even one, operations run one after the other, as those of
queues do that come up for the first time, and XLA compiles with few passes: more programs are
tried then.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any

from ._comparing import Difference, elements, is_tensor, largest
from ._machine import (
    ASSIGNED,
    FINE,
    NAME,
    TOLERANCE,
    Facts,
    Libraries,
    Machine,
    alike,
    compiled,
    is_rounding,
    run,
    told,
)
from ._report import Report
from ._shrinking import shrunk, title_of
from ._writing import Writer

DEVICE = "xla:cpu"
# XLA then compiles small programs in a third of the time.
FEW_PASSES = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_llvm_disable_expensive_passes=true"
)
# What docs/devices.md says about devices, and what depends on uninitialized memory.
_EXPECTED = {
    "properties of a device": re.compile(
        r"\.numpy\(|\.cpu\(|to\('cpu'\)|is_cpu|get_device|from_numpy|frombuffer|\.device\b|stride\("
        r"|is_contiguous|contiguous_format|as_strided|resize_|\.view\(|set_\("
    ),
    "random numbers for memory that is not contiguous": re.compile(
        r"normal_?\(|uniform_\(|bernoulli|dropout|random_\(|exponential_|geometric_|cauchy_"
    ),
    "integers from numbers that they cannot hold": re.compile(
        r"(?s)(inf|nan|e\+?[1-9]\d).*(\.(int|long|short|char|byte)\(|torch\.u?int\d)"
    ),
    "boundaries that are not in order": re.compile("searchsorted|bucketize"),
    "branch cuts, where XLA takes -0.0 for 0.0": re.compile(
        r"(?s)complex.*(a(sin|cos|tan)h?\(|arc(sin|cos|tan)|log|sqrt|pow|\*\*)"
    ),
}
# Devices find indices out of range later, or take them for others.
_OUT_OF_RANGE = re.compile("out of (range|(DATA )?bounds)")


class Devices(Libraries):
    """retrograd on the CPU in place of PyTorch, and on a device in place of retrograd."""

    def __init__(self, whole: bool) -> None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        if not whole:
            os.environ.setdefault("XLA_FLAGS", FEW_PASSES)
        import warnings

        import retrograd

        warnings.simplefilter("ignore")
        self.torch = self.retrograd = retrograd
        retrograd.zeros((), device=DEVICE)
        if whole:
            importlib.import_module("retrograd.devices._deferred").REPEATS = 1

    def machine(self) -> Machine:
        return DeviceMachine(self)

    def forget_checks(self) -> None:
        """Forget indices of the last program that are still to be checked: it failed elsewhere."""
        importlib.import_module("retrograd.devices._pending")._expected.clear()

    def here(self) -> AbstractContextManager[Any]:
        device: AbstractContextManager[Any] = self.retrograd.device(DEVICE)
        return device


class DeviceMachine(Machine):
    """Runs lines on the CPU as they are drawn. In the end, all of them run on the device, where no
    value is read in between, and the results are compared."""

    def __init__(self, libraries: Libraries) -> None:
        super().__init__(libraries)
        self.codes: list[tuple[CodeType, Exception | None]] = []

    def step(self, line: str) -> Difference | None:
        code = compiled(line)
        self.lines.append(line)
        if self.watcher is not None:
            self.watcher("\n".join(self.lines))
        self.libraries.torch.manual_seed(0)
        error = run(code, self.theirs)
        self.failed = error is not None
        self.is_over = self.failed and ("backward" in line or self.was_written())
        if self.is_over:  # an error in the middle of a line is for other tests
            self.lines.pop()
            return None
        self.codes.append((code, error))
        if error is None:
            assign(line, self.theirs)
        for name, value in self.theirs.items():
            if name != "_" and is_tensor(value) and not name.startswith("__"):
                array = elements(value)
                dtype = NAME.get(array.dtype, "object")
                self.live[name] = Facts(
                    array.shape, dtype, largest(array), None, array.tobytes()
                )
                self.tolerance = max(self.tolerance, TOLERANCE.get(dtype, FINE))
        return None

    def compare_all(self, line: str, gradients: bool = False) -> Difference | None:
        """Run all lines on the device, and compare what every name stands for."""
        torch = self.libraries.retrograd
        self.libraries.forget_checks()
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        with self.libraries.here():
            for text, (code, theirs) in zip(self.lines, self.codes, strict=True):
                if theirs is not None and _OUT_OF_RANGE.search(str(theirs)):
                    continue
                torch.manual_seed(0)
                ours = run(code, self.ours)
                if not alike(theirs, ours):
                    return Difference("error", "", told(theirs), told(ours), line=text)
                if ours is None:
                    assign(text, self.ours)
        for name, value in self.theirs.items():
            if not re.fullmatch(r"[tc]\d+(_\d+)?", name):
                continue
            try:
                found = self.compare(name, value, self.ours[name], line)
                if found is None and is_tensor(value) and is_leaf(value):
                    found = self.compare_gradient(name)
            except IndexError as error:  # known only when a value is read
                found = Difference("error", name, "no error", told(error))
            if found is not None:
                return found
        return None

    def compare_tensors(self, what: str, a: Any, b: Any, line: str) -> Difference | None:
        if str(b.device) != f"{DEVICE}:0" and b.layout == self.libraries.torch.strided:
            return Difference("device", what, f"{DEVICE}:0", str(b.device))
        counted = not (a.is_inference() or b.is_inference())
        if counted and a._version != b._version:
            return Difference("version", what, str(a._version), str(b._version))
        return super().compare_tensors(what, a, b, line)

    def line_tolerance(self, line: str) -> float:
        return self.tolerance

    def scale(self, line: str) -> float:
        return max([f.top for f in self.live.values() if f.top < 1e300], default=1.0)


def is_leaf(x: Any) -> bool:
    """Whether a tensor is a leaf. Some views may not even be asked after their base was written."""
    try:
        return bool(x.is_leaf)
    except RuntimeError:
        return False


def assign(line: str, space: dict[str, Any]) -> None:
    """Give the value of a line ``name = expression`` to its name."""
    assigned = ASSIGNED.match(line)
    if assigned is not None and line.startswith(assigned[1]):
        space[assigned[1]] = space["_"]


def attack(report: Report, seed: int, seconds: float) -> None:
    """Write and run programs until the time is up."""
    libraries = Devices(whole=seed % 2 == 1)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not report.is_done:
        one_program(report, libraries, (seed << 32) + report.tried)
        report.tried += 1


def one_program(report: Report, libraries: Devices, seed: int) -> None:
    """Write and run one program, and report what it does otherwise on the device."""
    writer = Writer(seed, libraries)
    machine = writer.machine
    machine.watcher = report.watcher
    found = writer.write()
    if machine.is_over:
        found = machine.compare_all("", gradients=True)
    libraries.reset()
    report.trying("")
    report.counts["lines"] += len(machine.lines)
    if found is None or explained(report, machine.lines, found, machine):
        return
    report.counts["differences"] += 1
    lines, found = shrunk(machine.lines, found, libraries, report)
    if not explained(report, lines, found, machine):
        report.found(title_of(lines, found), reproduction(lines, found))


def explained(report: Report, lines: list[str], found: Difference, machine: Machine) -> bool:
    """Whether a difference is expected, or no more than rounding; if so, it is counted as such."""
    text = "\n".join(lines)
    why = next((why for why, texts in _EXPECTED.items() if texts.search(text)), None)
    if why is None and is_rounding(lines, found, machine.libraries, coarsest(machine)):
        why = "rounding"
    if why is not None:
        report.counts[f"known: {why}"] += 1
    return why is not None


def coarsest(machine: Machine) -> str:
    """The least exact dtype of a program. Values on their way to ``out=`` may have another one."""
    if machine.tolerance > 1e-3:
        return "float16"
    is_single = machine.tolerance > 1e-6 or any("out=" in line for line in machine.lines)
    return "float32" if is_single else "float64"


def reproduction(lines: list[str], found: Difference) -> str:
    """A program that runs as it is, with what it gives on both."""
    written = "\n".join(lines)
    return (
        "import retrograd as torch\nfrom math import inf, nan\n"
        f"torch.set_default_device('{DEVICE}')\n{written}\nprint({found.what})\n"
        f"# CPU:    {found.theirs}\n# device: {found.ours}\n"
    )
