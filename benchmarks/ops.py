"""The time of single operations beside PyTorch's: float32, a thousand elements and a million.

Each case is one line of code, the same for both libraries. It is timed forward alone, on tensors
that require no gradient, and forward and backward together. Both may use two threads.
"""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._runner import Column, Progress, Result, Row, show_ratio, show_seconds
from benchmarks._workers import Worker

SMALL, LARGE = 10**3, 10**6
THREADS = 2
MODULES = {"retrograd": "retrograd", "torch": "torch"}
COLUMNS = (
    Column("forward", "forward", show_seconds),
    Column("ratio_forward", "× PyTorch", show_ratio),
    Column("both", "+ backward", show_seconds),
    Column("ratio_both", "× PyTorch", show_ratio),
)


@dataclass(frozen=True)
class Case:
    """A line of code, what its names stand for, and the most of PyTorch's time it should take."""

    name: str
    code: str
    at_most: float | None = None  # None: as all others of its size
    only: int | None = None  # the one size it is for


# -- what the names in a line stand for ------------------------------------------------------


def inputs_of(size: int) -> dict[str, np.ndarray]:
    """Arrays with ``size`` elements and what goes with them, by name."""
    random = np.random.default_rng(0)
    side = math.isqrt(size)
    rows, width = (1, size) if side * side != size else (side, side)
    side = 32 if size == SMALL else side

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    # No two of them equal, since libraries differ in which of equal elements comes first.
    distinct = (random.permutation(size) / size * 6 - 3).astype(np.float32)
    return {
        "x": distinct.reshape(rows, width), "y": normal(rows, width), "row": normal(width),
        "column": normal(rows, 1), "positive": np.abs(normal(rows, width)) + 0.5,
        "unit": np.tanh(normal(rows, width)), "a": normal(side, side), "b": normal(side, side),
        "mask": random.random((rows, width)) > 0.5, "classes": random.integers(0, width, rows),
        "order": random.permutation(size).reshape(rows, width) % rows,
        "places": random.integers(0, width, (rows, width)),
        "weight": normal(width), "bias": normal(width),
        "image": normal(32, 16, 28, 28), "filters": normal(32, 16, 3, 3), "shifts": normal(32),
        "table": normal(10_000, 64), "words": random.integers(0, 10_000, size // 64),
        "updates": normal(size // 64, 64),
    }  # fmt: skip


CASES = (
    Case("add", "x + y"), Case("add a row", "x + row"), Case("sub a column", "x - column"),
    Case("mul", "x * y"), Case("div", "x / positive"), Case("mul by a number", "x * 2.5"),
    Case("neg", "-x"), Case("square", "x ** 2"), Case("pow 2.5", "positive ** 2.5"),
    Case("sqrt", "positive.sqrt()"), Case("abs", "x.abs()"), Case("exp", "x.exp()"),
    Case("log", "positive.log()"), Case("log1p", "positive.log1p()"), Case("sin", "x.sin()"),
    Case("cos", "x.cos()"), Case("atan", "x.atan()"), Case("tanh", "x.tanh()"),
    Case("sigmoid", "x.sigmoid()"), Case("erf", "x.erf()"), Case("relu", "x.relu()"),
    Case("gelu", "F.gelu(x)"), Case("silu", "F.silu(x)"), Case("softplus", "F.softplus(x)"),
    Case("leaky relu", "F.leaky_relu(x)"), Case("elu", "F.elu(x)"),
    Case("clamp", "x.clamp(-1, 1)"), Case("where", "torch.where(mask, x, y)"),
    Case("maximum", "torch.maximum(x, y)"), Case("masked fill", "x.masked_fill(mask, 0.5)"),
    Case("sum", "x.sum()"), Case("sum of columns", "x.sum(0)"), Case("sum of rows", "x.sum(1)"),
    Case("mean", "x.mean()"), Case("var of rows", "x.var(1)"), Case("norm", "x.norm()"),
    Case("amax of rows", "x.amax(1)"), Case("max of rows", "x.max(1).values"),
    Case("prod of rows", "positive.prod(1)"), Case("cumsum", "x.cumsum(1)"),
    Case("logsumexp", "x.logsumexp(1)"), Case("sort", "x.sort(1).values", 3.0),
    Case("softmax", "x.softmax(1)"), Case("log softmax", "x.log_softmax(1)"),
    Case("layer norm", "F.layer_norm(x, (x.shape[1],), weight, bias)"),
    Case("cross entropy", "F.cross_entropy(x, classes)"),
    Case("mse loss", "F.mse_loss(x, y)"),
    Case("bce with logits", "F.binary_cross_entropy_with_logits(x, unit.detach().abs())"),
    Case("matmul", "a @ b"), Case("linear", "F.linear(a, b, b[0].detach())"),
    Case("transpose and copy", "x.t().contiguous()"), Case("cat", "torch.cat([x, y], 1)"),
    Case("slice", "x[:, 1:]"), Case("gather", "x.gather(1, places)"),
    Case("scatter add", "x.scatter_add(1, places, y)"),
    Case("index add", "table.index_add(0, words, updates)", only=LARGE),
    Case("embedding", "F.embedding(words, table)", only=LARGE),
    Case("conv2d", "F.conv2d(image, filters, shifts, padding=1)", 3.0, only=LARGE),
    Case("max pool", "F.max_pool2d(image, 2)", 3.0, only=LARGE),
)  # fmt: skip


# -- one case in one library, in a process of its own ----------------------------------------


def make_case(key: str, case: Case, size: int) -> tuple[Any, Callable[[], Any], dict[str, Any]]:
    """A library, the line of a case as a function, and the tensors that it uses."""
    torch = importlib.import_module(MODULES[key])
    functional = importlib.import_module(f"{MODULES[key]}.nn.functional")
    used = compile(case.code, f"<{case.name}>", "eval").co_names
    tensors = {n: torch.from_numpy(x) for n, x in inputs_of(size).items() if n in used}
    scope = {"torch": torch, "F": functional, **tensors}
    return torch, eval(f"lambda: {case.code}", scope), tensors


def make_run(key: str, name: str, size: int, backward: bool) -> Callable[[], object]:
    """The line of a case, with its gradients or without, to run again and again."""
    case = next(c for c in CASES if c.name == name)
    torch, function, tensors = make_case(key, case, size)
    torch.set_num_threads(THREADS)
    if not backward:
        return function
    leaves = [t.requires_grad_() for t in tensors.values() if t.is_floating_point()]
    given = torch.ones_like(function().detach())

    def run() -> object:
        for leaf in leaves:
            leaf.grad = None
        result = function()
        result.backward(given)
        return result

    return run


# -- all cases -------------------------------------------------------------------------------


def measure_size(
    size: int, cases: Sequence[Case], keys: Sequence[str], rounds: int, progress: Progress
) -> Result:
    """A table of all cases of a size."""
    chosen = [c for c in cases if c.only in (None, size)]
    workers: dict[str, Worker] = {}
    rows, misses = [], []
    try:
        for number, case in enumerate(chosen):
            progress.say(f"{size:,} elements: {case.name} ({number + 1} of {len(chosen)})")
            row: dict[str, float] = {}
            for what in ("forward", "both"):
                arguments = (case.name, size, what == "both")
                for key in keys:
                    if key in workers:
                        workers[key].change_to(key, *arguments)
                    else:
                        workers[key] = Worker(key, make_run, key, *arguments, threads=THREADS)
                row |= figures(take_turns(workers, rounds), what)
            rows.append(Row(case.name, case.name, row))
            limit = case.at_most or (2.0 if size == LARGE else 1.0)
            over = [f"{row[f'ratio_{w}']:.2f}" for w in ("forward", "both")
                    if row.get(f"ratio_{w}", 0) > limit]  # fmt: skip
            if over:
                misses.append(f"{case.name} ({' and '.join(over)}, at most {limit:g})")
    finally:
        for worker in workers.values():
            worker.stop()
    progress.clear()
    notes = []
    if "torch" in keys:
        notes = [f"over the target: {', '.join(misses)}" if misses else "all within their targets"]
    title = f"one operation on {size:,} float32 elements, retrograd's time and its ratio"
    return Result(f"{size:,} elements", title, COLUMNS, rows, notes=notes)


def take_turns(workers: dict[str, Worker], rounds: int) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {key: [] for key in workers}
    keys = list(workers)
    for number in range(rounds):
        for key in keys if number % 2 else reversed(keys):
            samples[key].append(workers[key].turn())
    return samples


def figures(samples: dict[str, list[float]], what: str) -> dict[str, float]:
    ours = samples["retrograd"]
    found = {what: statistics.median(ours)}
    if "torch" in samples:
        ratios = [a / b for a, b in zip(ours, samples["torch"], strict=True)]
        found[f"ratio_{what}"] = statistics.median(ratios)
    return found
