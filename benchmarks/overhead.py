"""The cost of recording and differentiating, on arrays so small that it is all there is.

Four programs, each run forward and backward by every library; the time of `import`; and the
memory that a recorded operation takes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._runner import (
    Column,
    Progress,
    Result,
    Row,
    Target,
    figures,
    measure,
    show_ratio,
    show_seconds,
)
from benchmarks._workers import WorkerError
from benchmarks.libraries import BY_KEY, Library, Run, by_hand
from benchmarks.libraries._inputs import Inputs, make_inputs

MEMORY_OPERATIONS = 1_000_000
RECORDED_STEPS = 300
TOLERANCE = 1e-3  # of the largest element, in float32 over a hundred steps

TIME_COLUMNS = (
    Column("median", "median", show_seconds),
    Column("min", "min", show_seconds),
    Column("ratio_numpy", "× NumPy", show_ratio),
    Column("ratio_torch", "× PyTorch", show_ratio),
)


@dataclass(frozen=True)
class Plan:
    """What was asked for on the command line."""

    libraries: Sequence[Library]
    rounds: int
    progress: Progress
    memory_operations: int = MEMORY_OPERATIONS


@dataclass(frozen=True)
class Program:
    """A benchmark of this group."""

    name: str
    title: str
    measure: Callable[[Program, Plan], Result]
    targets: tuple[Target, ...] = ()


# -- programs that are timed -----------------------------------------------------------------


def time_program(program: Program, plan: Plan) -> Result:
    makers = {x.key: (make_run, x.key, program.name) for x in plan.libraries}
    samples = measure(program.name, makers, plan.rounds, plan.progress)
    measured = figures(samples, ("numpy", "torch"))
    rows = [Row(x.key, x.label, measured[x.key]) for x in plan.libraries]
    return Result(program.name, program.title, used(TIME_COLUMNS, rows), rows, program.targets)


def make_run(key: str, name: str) -> Run:
    """A library's program, after a check that it computes what the others do."""
    library, inputs = BY_KEY[key], make_inputs()
    run = library.programs(inputs)[name]
    check(name, library, inputs, run())
    return run


def check(name: str, library: Library, inputs: Inputs, results: tuple[object, ...]) -> None:
    """Raise an error if a library computes something else than the hand-written program."""
    expected = by_hand.programs(inputs)[name]()
    got = [np.asarray(library.to_numpy(x)) for x in results]
    if len(got) != len(expected):
        raise AssertionError(f"{name}: {library.label} gives {len(got)} results")
    for position, (have, want) in enumerate(zip(got, map(np.asarray, expected), strict=True)):
        off = np.abs(have - want).max() / np.abs(want).max() if have.shape == want.shape else np.inf
        if not off <= TOLERANCE:
            raise AssertionError(
                f"{name}: result {position} of {library.label} is not that of hand-written NumPy "
                f"(shape {have.shape} and {want.shape}, off by {off:.1e} of the largest element)"
            )


def used(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    """The columns in which some row has something."""
    return [c for c in columns if any(c.key in row.figures for row in rows)]


# -- fresh processes -------------------------------------------------------------------------


def in_fresh_process(script: str, *arguments: str, **variables: str) -> Any:
    """What a script prints as JSON, run by this Python in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        last_line = done.stderr.strip().rpartition("\n")[2]
        error = WorkerError(f"{arguments[0]}: {last_line}")
        error.add_note(done.stderr)
        raise error
    return json.loads(done.stdout)


TIME_IMPORT = """
import importlib, json, sys, time
start = time.perf_counter()
importlib.import_module(sys.argv[1])
print(json.dumps(time.perf_counter() - start))
"""


def time_imports(program: Program, plan: Plan) -> Result:
    """The import statement alone, without the start of Python, which would flatter the ratio.

    Everybody's byte code is in one temporary folder, so that it makes no difference whether a
    package was compiled when it was installed, or where it may leave its byte code.
    """
    libraries = [x for x in plan.libraries if x.key in ("numpy", "retrograd")]
    rounds = min(plan.rounds, 30)
    seconds: dict[str, list[float]] = {x.key: [] for x in libraries}
    with tempfile.TemporaryDirectory() as folder:
        cache = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        for library in libraries:
            in_fresh_process(TIME_IMPORT, library.module, **cache)  # compiles, not timed
        plan.progress.start(program.name, rounds)
        for _ in range(rounds):
            for library in libraries:
                took = in_fresh_process(TIME_IMPORT, library.module, **cache)
                seconds[library.key].append(took)
            plan.progress.step()
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    rows = []
    for library in libraries:
        row = {"median": medians[library.key], "min": min(seconds[library.key])}
        if "numpy" in medians:
            row["ratio_numpy"] = medians[library.key] / medians["numpy"]
        rows.append(Row(library.key, f"import {library.module}", row))
    return Result(program.name, program.title, used(TIME_COLUMNS, rows), rows, program.targets)


MEASURE_MEMORY = """
import importlib, json, resource, sys, time

def peak():
    # Linux's ru_maxrss counts what the parent process had, too; VmHWM does not.
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

torch, operations = importlib.import_module(sys.argv[1]), int(sys.argv[2])
y = torch.full((10,), 1.2).requires_grad_()

def run(operations):
    z = y
    for _ in range(operations // 2):
        z = z * y
        z = z.tanh()
    forward = peak()
    z.sum().backward()
    return forward

run(100)
before, start = peak(), time.perf_counter()
forward = run(operations)
seconds = time.perf_counter() - start
figures = {"forward": (forward - before) / operations, "peak": (peak() - before) / operations}
print(json.dumps({**figures, "seconds": seconds / operations}))
"""

MEMORY_COLUMNS = (
    Column("forward", "bytes/op forward", lambda x: f"{x:,.0f}"),
    Column("peak", "peak bytes/op", lambda x: f"{x:,.0f}"),
    Column("ratio_torch", "× PyTorch", show_ratio),
    Column("seconds", "time/op", show_seconds),
)


def measure_memory(program: Program, plan: Plan) -> Result:
    """How far a process grows for each operation of a long chain, forward and backward."""
    libraries = [x for x in plan.libraries if x.key in ("retrograd", "torch")]
    measured = {}
    for library in libraries:
        plan.progress.say(f"{program.name}: {plan.memory_operations:,} operations, {library.key}")
        measured[library.key] = in_fresh_process(
            MEASURE_MEMORY, library.module, str(plan.memory_operations)
        )
    for row in measured.values():
        if "torch" in measured:
            row["ratio_torch"] = row["peak"] / measured["torch"]["peak"]
    rows = [Row(x.key, x.label, measured[x.key]) for x in libraries]
    title = program.title.format(operations=plan.memory_operations)
    return Result(program.name, title, used(MEMORY_COLUMNS, rows), rows, program.targets)


MEASURE_RECORDING = """
import importlib, json, sys, time

torch, steps = importlib.import_module(sys.argv[1]), int(sys.argv[2])
viz = importlib.import_module(sys.argv[1] + ".viz")
torch.manual_seed(0)
nn = torch.nn
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                      nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, target = torch.randn(64, 64), torch.randint(0, 10, (64,))

def run(count):
    start = time.perf_counter()
    for _ in range(count):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()
    return time.perf_counter() - start

run(10)
with viz.recording():
    run(1)
figures = []
for _ in range(5):
    plain = run(steps)
    with viz.recording():
        kept = run(10)  # as many passes as are kept
        rest = run(steps - 10)
    figures.append((plain / steps, kept / 10 / (plain / steps), (kept + rest) / plain))
print(json.dumps([sorted(column)[2] for column in zip(*figures)]))
"""

RECORDING_COLUMNS = (
    Column("seconds", "time/step", show_seconds),
    Column("kept", "× in a pass that is kept", show_ratio),
    Column("ratio", "× over the run", show_ratio),
)


def measure_recording(program: Program, plan: Plan) -> Result:
    """What ``viz.recording`` costs in a training run."""
    rows = []
    for library in plan.libraries:
        if library.key == "retrograd":
            plan.progress.say(program.name)
            found = in_fresh_process(MEASURE_RECORDING, library.module, str(RECORDED_STEPS))
            figures = dict(zip(("seconds", "kept", "ratio"), found, strict=True))
            rows.append(Row(library.key, library.label, figures))
    title = program.title.format(steps=RECORDED_STEPS)
    return Result(program.name, title, used(RECORDING_COLUMNS, rows), rows, program.targets)


# -- the group -------------------------------------------------------------------------------

PROGRAMS = (
    Program(
        "chain", "51 operations on 10-element float32 tensors, forward + backward", time_program,
        (
            Target("retrograd", "ratio_torch", 0.5, "retrograd at most 0.5 × PyTorch"),
            Target("retrograd", "ratio_numpy", 3.0, "retrograd at most 3 × NumPy by hand"),
        ),
    ),
    Program("scalar", "100 operations on scalars, forward + backward", time_program),
    Program("lstm", "an LSTM cell over 100 steps, batch 1, width 32, forward + backward",
            time_program),
    Program("mlp", "a 32×64×64×10 MLP with cross entropy, batch 32, forward + backward",
            time_program),
    Program(
        "import", "the import statement, in fresh processes", time_imports,
        (Target("retrograd", "ratio_numpy", 1.3, "import retrograd at most 1.3 × import numpy"),),
    ),
    Program("memory", "growth of the process over a chain of {operations:,} operations on "
            "10-element tensors, in fresh processes", measure_memory),
    Program(
        "recording", "viz.recording of {steps} steps of a 64×256×256×10 MLP, batch 64, of which "
        "ten passes are kept", measure_recording,
        (Target("retrograd", "ratio", 1.5, "recording at most 1.5 × the run"),),
    ),
)  # fmt: skip
