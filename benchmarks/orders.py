"""Derivatives of high order: Taylor series beside nested `jvp` here, in PyTorch and in JAX, and
beside JAX's `jet`; Laplacians beside traces of Hessians; sparse Jacobians of problems of ADBench.

Each method runs in a process of its own, in one thread. Times are those of the processor, so that
whatever else the machine does is not counted. Results are compared with each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks._orders_program import ORDERS
from benchmarks._runner import Column, Progress, Result, Row, Target, show_ratio, show_seconds
from benchmarks._workers import ONE_THREAD

SERIES = {
    "scalar": "a function of one number: exp(sin x / 2) / (1 + x²) + tanh 3x",
    "mlp": "a network of three layers (64, 128, 128, 64), 32 rows, along one direction",
    "gpt": "a block of a GPT: 32 tokens, 64 wide, 4 heads, along one direction",
}
SERIES_METHODS = {
    "retrograd:taylor": "retrograd, Taylor series",
    "retrograd:nested": "retrograd, nested jvp",
    "torch:nested": "PyTorch, nested jvp",
    "jax:jet": "JAX, jet",
    "jax:jet:compiled": "JAX, jet, jitted",
    "jax:nested:compiled": "JAX, nested jvp, jitted",
}
DIMENSIONS = (2, 10, 100)
LAPLACIANS = {
    "retrograd:collapsed": "retrograd, collapsed",
    "retrograd:collapsed:compiled": "retrograd, collapsed, compiled",
    "retrograd:collapsed:xla:compiled": "retrograd, collapsed, on XLA",
    "retrograd:hessian": "retrograd, trace of the Hessian",
    "retrograd:products": "retrograd, products",
    "torch:hessian": "PyTorch, trace of the Hessian",
    "torch:products": "PyTorch, products",
    "torch:products:compiled": "PyTorch, products, compiled",
    "jax:hessian": "JAX, trace of the Hessian",
    "jax:hessian:compiled": "JAX, trace, jitted",
    "jax:products:compiled": "JAX, products, jitted",
    "jax:collapsed:compiled": "JAX, folx, jitted",
}
TOLERANCE = 1e-2  # of the largest element, in float32, at the orders that are compared
COMPARED = 4  # the highest order that is compared: beyond it float32 loses digits
NAMES = (*SERIES, *(f"laplacian:{d}" for d in DIMENSIONS), "adbench")


def run_method(method: str, program: str) -> dict[str, Any] | str:
    """What a method gives, or why it gives nothing, in one line."""
    command = [sys.executable, "-m", "benchmarks._orders_program", method, program]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **ONE_THREAD}
    )
    if done.returncode:
        return done.stderr.strip().rpartition("\n")[2][:90]
    found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def check(program: str, method: str, found: dict[str, Any], reference: dict[str, Any]) -> None:
    """AssertionError if a method computes something else."""
    for key, (total, largest) in found["check"].items():
        if key not in reference["check"] or (key.isdigit() and int(key) > COMPARED):
            continue
        wanted, scale = reference["check"][key]
        if abs(largest - scale) > TOLERANCE * scale:
            raise AssertionError(f"{program}, {method}, {key}: {largest}, not {scale}")
        del total, wanted


def measure(
    name: str, methods: dict[str, str], progress: Progress
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What all methods give for a program, and a word on each that gives nothing."""
    measured: dict[str, dict[str, Any]] = {}
    notes = []
    progress.start(name, len(methods))
    for method, label in methods.items():
        found = run_method(method, name)
        if isinstance(found, str):
            notes.append(f"{label}: {found}")
        else:
            if measured:
                check(name, method, found, next(iter(measured.values())))
            measured[method] = found
        progress.step()
    return measured, notes


def series(name: str, progress: Progress) -> Result:
    """Times of orders 1 to 10. What takes too long is left out from some order on."""
    measured, notes = measure(name, SERIES_METHODS, progress)
    rows = []
    for method, found in measured.items():
        figures = {f"order_{k}": s for k, s in found["seconds"].items()}
        rows.append(Row(method, SERIES_METHODS[method], figures))
    columns = [Column(f"order_{k}", str(k), show_seconds) for k in ORDERS]
    return Result(
        name, f"derivatives of orders 1 to 10 of {SERIES[name]}", columns, rows, (), notes
    )


def laplacians(name: str, progress: Progress) -> Result:
    """Time and memory of a Laplacian, and how many times as long as the fastest dense one it
    takes: of those that are compiled, or of those that are not."""
    measured, notes = measure(name, LAPLACIANS, progress)
    seconds = {method: found["seconds"][name] for method, found in measured.items()}
    rows = []
    for method, found in measured.items():
        compiled = method.endswith("compiled")
        dense = [other for other in seconds if ":collapsed" not in other]
        peers = [seconds[other] for other in dense if other.endswith("compiled") == compiled]
        figures = {"seconds": seconds[method], "bytes": float(found["bytes"])}
        if peers:
            figures["ratio"] = seconds[method] / min(peers)
        rows.append(Row(method, LAPLACIANS[method], figures))
    columns = [
        Column("seconds", "time", show_seconds),
        Column("bytes", "memory", lambda x: f"{x / 1e6:,.1f} MB"),
        Column("ratio", "× best dense", show_ratio),
    ]
    dims = name.split(":")[1]
    title = f"the Laplacian of a network (3 hidden layers of 64) in {dims} dimensions, at 64 points"
    targets = [
        Target(key, "ratio", 0.5, f"at least 2 times faster than the best dense one{what}")
        for key, what in (
            ("retrograd:collapsed", ""), ("retrograd:collapsed:compiled", ", compiled"),
            ("retrograd:collapsed:xla:compiled", ", on XLA"),
        )
    ]  # fmt: skip
    return Result(name, title, columns, rows, targets, notes)


def adbench(progress: Progress) -> Result:
    """Sparse Jacobians in times of the function itself."""
    rows = []
    progress.start("adbench", 2)
    for problem, label in (("ba", "bundle adjustment"), ("ht", "hand tracking")):
        found = run_method("retrograd:sparse", problem)
        if isinstance(found, str):
            raise AssertionError(found)
        times = found["seconds"]
        figures = {"function": times["function"], "plan": times["plan"] / times["function"],
                   "eager": times["eager"] / times["function"],
                   "jacobian": times["jacobian"] / times["function"],
                   "products": float(found["products"])}  # fmt: skip
        rows.append(Row(problem, label, figures))
        progress.step()
    columns = [
        Column("function", "function", show_seconds), Column("plan", "plan", show_ratio),
        Column("eager", "first Jacobians", show_ratio), Column("jacobian", "later", show_ratio),
        Column("products", "products or passes", lambda x: f"{x:.0f}"),
    ]  # fmt: skip
    targets = [
        Target("ba", "eager", 7, "bundle adjustment: at most 7 times the function"),
        Target("ba", "jacobian", 7, "the same, later"),
        Target("ht", "eager", 15, "hand tracking: at most 15 times the function"),
        Target("ht", "jacobian", 15, "the same, later"),
        Target("ba", "plan", 25, "bundle adjustment: the plan at most 25 times the function"),
        Target("ht", "plan", 25, "hand tracking: the plan at most 25 times the function"),
    ]
    title = "sparse Jacobians of ADBench's problems, in times of the function"
    return Result("adbench", title, columns, rows, targets)


def run(names: Sequence[str], progress: Progress) -> list[Result]:
    found = []
    for name in names:
        if name in SERIES:
            found.append(series(name, progress))
        elif name == "adbench":
            found.append(adbench(progress))
        else:
            found.append(laplacians(name, progress))
        progress.clear()
        print(f"\n{found[-1]}", flush=True)
    return found
