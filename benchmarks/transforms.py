"""Derivatives of functions beside PyTorch's and JAX's: tangents, Jacobians, Hessians, gradients for
each sample, and what checkpointing saves.

Each program is written once for retrograd and PyTorch, which share the names, and once for JAX,
with and without `jit`. All compute in float32 on one thread. A derivative that is compared with
the function itself is timed in the same rounds as the function.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from benchmarks.libraries import Library

KEYS = ("retrograd", "torch", "jax", "jax-jit")
TOLERANCE = 2e-4  # of the largest element


@dataclass(frozen=True)
class Program:
    """A derivative, and the function or derivative that its time is compared with, if any."""

    name: str
    title: str
    base: str | None = None
    targets: tuple[Target, ...] = ()


PROGRAMS = (
    Program("jvp", "a tangent of tanh(x @ a) @ b + sin(x), 1000 × 1000, beside the function",
            "function", (Target("retrograd", "ratio_base", 3.0,
                                "at most 3 times the function's own time"),)),
    Program("hvp", "a Hessian-vector product (forward over reverse) of a 3-layer MLP's loss, "
            "256 wide, 256 rows, beside the gradient", "gradient",
            (Target("retrograd", "ratio_base", 5.0, "at most 5 times a gradient's time"),)),
    Program("jacrev", "the Jacobian of a 200 → 200 MLP (3 layers), by rows",
            None, (Target("retrograd", "ratio_torch", 1.0, "no slower than PyTorch"),)),
    Program("jacfwd", "the same Jacobian, by columns"),
    Program("hessian", "the Hessian of a 2-layer MLP's output (100 inputs, 100 wide)"),
    Program("per_sample", "gradients of a 2-layer MLP for each of 128 samples (64 wide)"),
    Program("per_sample_conv", "gradients of a small convolutional network for each of 32 samples"),
    Program("small_jvp", "a tangent of 100 operations on 8 numbers: of which a hundredth is what "
            "one costs"),
    Program("small_vmap_jvp", "the same tangent for each of 4 samples"),
    Program("small_vmap_grad", "a gradient of the same operations for each of 4 samples"),
)  # fmt: skip
COLUMNS = (
    Column("median", "median", show_seconds),
    Column("min", "min", show_seconds),
    Column("ratio_torch", "× PyTorch", show_ratio),
    Column("ratio_base", "× {base}", show_ratio),
)


def make_run(key: str, module: str, options: dict[str, Any], name: str) -> Callable[[], object]:
    """A library's program, after a check that it computes what the definition in NumPy says."""
    runs = programs_of(key, module, options)
    run = runs[name]
    check(name, key, [np.asarray(x) for x in to_numpy(run())])
    return run


def programs_of(key: str, module: str, options: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    style = "transforms_jax" if module == "jax" else "transforms_torch"
    source = importlib.import_module(f"benchmarks.libraries.{style}")
    made: dict[str, Callable[[], Any]] = source.programs(
        importlib.import_module(module), make_inputs(), **options
    )
    return made


def to_numpy(value: Any) -> list[Any]:
    """All arrays of a result, in order."""
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in to_numpy(part)]
    return [value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)]


def make_inputs() -> dict[str, Any]:
    """The arrays of all programs, the same for everybody."""
    random = np.random.default_rng(0)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (random.standard_normal(shape) * scale).astype(np.float32)

    def layers(*sizes: int) -> list[np.ndarray]:
        return [normal(m, n, scale=m**-0.5) for m, n in pairwise(sizes)]

    return {
        "x": normal(1000, 1000), "t": normal(1000, 1000),
        "a": normal(1000, 1000, scale=0.03), "b": normal(1000, 1000, scale=0.03),
        "rows": normal(256, 256), "targets": normal(256, 256),
        "weights": layers(256, 256, 256, 256), "directions": layers(256, 256, 256, 256),
        "point": normal(200), "mlp": layers(200, 200, 200, 200),
        "spot": normal(100), "head": layers(100, 100, 1),
        "samples": normal(128, 64), "labels": normal(128, 10), "small": layers(64, 64, 10),
        "images": normal(32, 1, 14, 14), "classes": normal(32, 10),
        "filters": normal(8, 1, 3, 3, scale=0.3), "dense": normal(8 * 36, 10, scale=0.1),
        "few": normal(4, 8), "few_directions": normal(4, 8),
    }  # fmt: skip


def check(name: str, key: str, got: list[np.ndarray]) -> None:
    """Raise an error if a library computes something else than the definition says."""
    from benchmarks.libraries import transforms_by_hand

    expected = transforms_by_hand.expected(name, make_inputs())
    if len(got) < len(expected):
        raise AssertionError(f"{name}: {key} gives {len(got)} results, not {len(expected)}")
    for i, (have, want) in enumerate(zip(got, expected, strict=False)):
        off = np.abs(have - want).max() / np.abs(want).max() if have.shape == want.shape else np.inf
        if not off <= TOLERANCE:
            raise AssertionError(
                f"{name}: result {i} of {key} is off by {off:.1e} of the largest element (shape "
                f"{have.shape} and {want.shape})"
            )


def time_program(
    program: Program, libraries: Sequence[Library], rounds: int, progress: Progress
) -> Result:
    """A table of one derivative in all libraries."""
    names = [program.name, *([program.base] if program.base else [])]
    makers = {
        (x.key if name == program.name else f"{x.key}: {name}"): (
            make_run, x.key, x.module, x.options, name
        )
        for x in libraries
        for name in names
    }  # fmt: skip
    samples = measure(program.name, makers, rounds, progress)
    bases = [f"{x.key}: {program.base}" for x in libraries] if program.base else []
    measured = figures(samples, ("torch", *bases))
    rows = []
    for x in libraries:
        row = measured[x.key]
        if program.base:
            row["ratio_base"] = row[f"ratio_{x.key}: {program.base}"]
        rows.append(Row(x.key, x.label, row))
    columns = [
        Column(c.key, c.heading.format(base=program.base), c.show)
        for c in COLUMNS
        if any(c.key in row.figures for row in rows)
    ]
    return Result(program.name, program.title, columns, rows, program.targets)


# -- memory ----------------------------------------------------------------------------------

PEAK = """
import json, sys, threading
import {module} as torch
import {module}.utils.checkpoint as checkpointing

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

torch.manual_seed(0)
weights = [(torch.randn(512, 512) * 0.06).requires_grad_() for _ in range({depth})]
x = torch.randn(2048, 512)

def layer(x, w):
    return torch.tanh(x @ w).sin()

def run(checkpointed):
    y = x
    for w in weights:
        y = checkpointing.checkpoint(layer, y, w, use_reentrant=False) if checkpointed else layer(y, w)
    y.sum().backward()

layer(x, weights[0]).sum().backward()  # what is needed, and loaded, in any case
checkpointing.checkpoint(layer, x, weights[0], use_reentrant=False).sum().backward()
for w in weights:
    w.grad = torch.zeros_like(w)
before = peak()
run({checkpointed})
print(json.dumps(peak() - before))
"""  # noqa: E501 - a program of its own
DEPTH = 24
MEMORY_COLUMNS = (
    Column("plain", "plain", lambda x: f"{x / 1e6:,.0f} MB"),
    Column("checkpointed", "checkpointed", lambda x: f"{x / 1e6:,.0f} MB"),
    Column("ratio", "× plain", show_ratio),
)


def measure_checkpoint(libraries: Sequence[Library]) -> Result:
    """How far a process grows while a deep network is differentiated, plain and checkpointed."""
    rows = []
    for x in libraries:
        if x.module == "jax":
            continue
        peaks = {}
        for kind, on in (("plain", False), ("checkpointed", True)):
            script = PEAK.format(module=x.module, depth=DEPTH, checkpointed=on)
            peaks[kind] = float(in_fresh_process(script))
        peaks["ratio"] = peaks["checkpointed"] / peaks["plain"]
        rows.append(Row(x.key, x.label, peaks))
    title = f"peak memory of {DEPTH} layers of 512 on 2,048 rows, each layer checkpointed"
    return Result("checkpoint", title, MEMORY_COLUMNS, rows)


def in_fresh_process(script: str) -> Any:
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    if done.returncode:
        error = WorkerError(done.stderr.strip().rpartition("\n")[2])
        error.add_note(done.stderr)
        raise error
    return json.loads(done.stdout)
