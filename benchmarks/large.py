"""Compiled functions of a million elements beside PyTorch, forward and backward, on two threads.

Each case is one line of code, the same for both libraries, timed with its gradients. `AdamW` is a
step of the optimizer.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import ops
from benchmarks._runner import Column, Progress, Result, Row, Target, show_ratio, show_seconds
from benchmarks._workers import Worker
from benchmarks.libraries import Library

NAME = "large"
TITLE = "a million float32 elements, forward and backward, two threads"
COMPILED = "compiled"
MODULES = {"retrograd": "retrograd", COMPILED: "retrograd", "torch": "torch"}
CASES = {
    "gelu": "F.gelu(x)",
    "silu": "F.silu(x)",
    "sigmoid": "x.sigmoid()",
    "softmax": "x.softmax(1)",
    "layer norm": "F.layer_norm(x, (x.shape[1],), weight, bias)",
    "cross entropy": "F.cross_entropy(x, classes)",
    "ten operations": "(((((x * y + 1.5).tanh() * x - y).sigmoid() + x) * y) - 0.25).exp()",
    "AdamW": "",
}
AT_MOST = 1.3  # of PyTorch's time
COLUMNS = (
    Column("eager", "eager", show_seconds),
    Column("eager_ratio", "× PyTorch", show_ratio),
    Column("compiled", "compiled", show_seconds),
    Column("ratio", "× PyTorch", show_ratio),
)
TARGETS = tuple(
    Target(name, "ratio", AT_MOST, f"{name} at most {AT_MOST:g} of PyTorch's eager time")
    for name in CASES
)


def make_run(key: str, name: str, size: int = ops.LARGE) -> Callable[[], Any]:
    """A case in one library, to run again and again."""
    torch = importlib.import_module(MODULES[key])
    torch.set_num_threads(ops.THREADS)
    run = adamw(torch, size) if name == "AdamW" else gradients(torch, CASES[name], size)
    return torch.compile(run, fullgraph=True) if key == COMPILED else run


def gradients(torch: Any, code: str, size: int) -> Callable[[], Any]:
    """A line of code, and its gradients by all that is differentiable in it."""
    functional = importlib.import_module(f"{torch.__name__}.nn.functional")
    used = compile(code, "<case>", "eval").co_names
    tensors = {n: torch.from_numpy(x) for n, x in ops.inputs_of(size).items() if n in used}
    function = eval(f"lambda: {code}", {"torch": torch, "F": functional, **tensors})
    leaves = [t.requires_grad_() for t in tensors.values() if t.is_floating_point()]
    given = torch.ones_like(function().detach())

    def run() -> Any:
        result = function()
        return result.detach(), *torch.autograd.grad(result, leaves, given)

    return run


def adamw(torch: Any, size: int) -> Callable[[], Any]:
    """A step of AdamW."""
    inputs = ops.inputs_of(size)
    parameter = torch.nn.Parameter(torch.from_numpy(inputs["x"].copy()))
    parameter.grad = torch.from_numpy(inputs["y"].copy())
    optimizer = torch.optim.AdamW([parameter])

    def run() -> Any:
        optimizer.step()
        return parameter

    return run


def time_cases(libraries: Sequence[Library], rounds: int, progress: Progress) -> Result:
    """The table of all cases."""
    keys = ["retrograd", COMPILED, *[x.key for x in libraries if x.key == "torch"]]
    workers: dict[str, Worker] = {}
    rows = []
    try:
        for number, name in enumerate(CASES):
            progress.say(f"{NAME}: {name} ({number + 1} of {len(CASES)})")
            for key in keys:
                if key in workers:
                    workers[key].change_to(key, name)
                else:
                    workers[key] = Worker(key, make_run, key, name, threads=ops.THREADS)
            rows.append(Row(name, name, figures(ops.take_turns(workers, rounds))))
    finally:
        for worker in workers.values():
            worker.stop()
    return Result(NAME, TITLE, COLUMNS, rows, TARGETS)


def figures(samples: dict[str, list[float]]) -> dict[str, float]:
    """Medians, and medians of the ratios of turns that follow each other."""
    found = {
        "eager": statistics.median(samples["retrograd"]),
        "compiled": statistics.median(samples[COMPILED]),
    }
    if "torch" in samples:
        for key, name in (("retrograd", "eager_ratio"), (COMPILED, "ratio")):
            pairs = zip(samples[key], samples["torch"], strict=True)
            found[name] = statistics.median([a / b for a, b in pairs])
    return found
