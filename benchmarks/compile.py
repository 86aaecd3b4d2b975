"""Compiled functions beside eager ones, hand-written NumPy, PyTorch and JAX's jit.

The programs are those of the groups `overhead` and `transforms`: gradients of a chain, an LSTM and
an MLP, a Hessian, and gradients for each sample. If JAX is installed, the first three are compiled
for XLA, too. The last column is how long the first call takes, in which the function is traced, in
runs of the eager one. `large` is a table of functions of a million elements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import overhead, transforms
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
from benchmarks.libraries import BY_KEY, Library
from benchmarks.libraries._inputs import make_inputs

KEYS = ("numpy", "retrograd", "torch", "jax-jit")
COMPILED = "compiled"
ON_XLA = "compiled-xla"
AS_JAX = Target(ON_XLA, "ratio_jax-jit", 1.3, "on XLA at most 1.3 of JAX's jit")


@dataclass(frozen=True)
class Program:
    """A derivative, where it is defined, and what is wanted of it compiled."""

    name: str
    title: str
    group: str
    targets: tuple[Target, ...]


PROGRAMS = (
    Program("chain", "gradient of 51 operations on 10 elements", "overhead",
            (Target(COMPILED, "ratio_numpy", 1.1, "at most 1.1 of hand-written NumPy"), AS_JAX)),
    Program("lstm", "gradient of an LSTM cell over 100 steps, 32 wide", "overhead",
            (Target(COMPILED, "ratio_numpy", 1.5, "at most 1.5 of hand-written NumPy"), AS_JAX)),
    Program("mlp", "gradient of a 3-layer MLP, 32 rows", "overhead",
            (Target(COMPILED, "ratio_numpy", 1.5, "at most 1.5 of hand-written NumPy"), AS_JAX)),
    Program("hessian", "the Hessian of a 2-layer MLP's output (100 inputs, 100 wide)", "transforms",
            (Target(COMPILED, "ratio_torch", 0.5, "at most half of PyTorch's eager time"),)),
    Program("per_sample", "gradients of a 2-layer MLP for each of 128 samples (64 wide)",
            "transforms",
            (Target(COMPILED, "ratio_torch", 0.5, "at most half of PyTorch's eager time"),)),
)  # fmt: skip
COLUMNS = (
    Column("median", "median", show_seconds),
    Column("min", "min", show_seconds),
    Column("ratio_numpy", "× NumPy", show_ratio),
    Column("ratio_torch", "× PyTorch", show_ratio),
    Column("ratio_jax-jit", "× JAX's jit", show_ratio),
    Column("tracing", "traced in eager runs", lambda x: f"{x:,.0f}"),
)


def make_run(key: str, name: str, group: str) -> Callable[[], object]:
    """A contestant's program, after a check that it computes what the others do."""
    compiled = key in (COMPILED, ON_XLA)
    library = BY_KEY["retrograd" if compiled else key]
    if not compiled:
        if group == "overhead":
            return overhead.make_run(key, name)
        return transforms.make_run(key, library.module, library.options, name)
    run = compiled_run(name, group, "xla" if key == ON_XLA else "numpy")
    run()
    if group == "overhead":
        overhead.check(name, library, make_inputs(), run())
    else:
        transforms.check(name, key, transforms.to_numpy(run()))
    return run


def eager_run(name: str, group: str) -> Callable[[], Any]:
    library = BY_KEY["retrograd"]
    if group == "overhead":
        return library.programs(make_inputs())[name]
    return transforms.programs_of("retrograd", library.module, library.options)[name]


def compiled_run(name: str, group: str, backend: str = "numpy") -> Callable[[], Any]:
    import retrograd

    compiled: Callable[[], Any] = retrograd.compile(
        eager_run(name, group), fullgraph=True, backend=backend
    )
    return compiled


def tracing_in_runs(name: str, group: str) -> float:
    """The time of the first compiled call, in runs of the eager function."""
    run = eager_run(name, group)
    run()
    start = time.perf_counter()
    for _ in range(5):
        run()
    eager = (time.perf_counter() - start) / 5
    found = []
    for _ in range(3):
        compiled = compiled_run(name, group)
        start = time.perf_counter()
        compiled()
        found.append(time.perf_counter() - start)
    return min(found) / eager


def time_program(
    program: Program, libraries: Sequence[Library], rounds: int, progress: Progress
) -> Result:
    """A table of one derivative."""
    there = [x for x in libraries if x.key != "numpy" or program.group == "overhead"]
    labels = {x.key: x.label for x in there}
    keys = [key for key in labels if key in ("numpy", "retrograd")]
    on_xla = [ON_XLA] if "jax-jit" in labels and program.group == "overhead" else []
    keys += [COMPILED, *on_xla, *(key for key in labels if key not in keys)]
    labels |= {COMPILED: "retrograd, compiled", ON_XLA: "retrograd, on XLA"}
    makers = {key: (make_run, key, program.name, program.group) for key in keys}
    samples = measure(program.name, makers, rounds, progress)
    measured = figures(samples, ("numpy", "torch", "jax-jit"))
    measured[COMPILED]["tracing"] = tracing_in_runs(program.name, program.group)
    rows = [Row(key, labels[key], measured[key]) for key in keys]
    columns = overhead.used(COLUMNS, rows)
    return Result(program.name, program.title, columns, rows, program.targets)
