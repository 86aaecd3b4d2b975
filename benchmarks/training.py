"""Training beside PyTorch: seconds until digits are read well enough, and single steps.

Model, data, order and loop are those of `retrograd train`, the same code with the one library or
the other, from the same seed and so from the same weights. All compute in float32 on one thread.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
from benchmarks._workers import Worker
from benchmarks.libraries import Library

KEYS = ("retrograd", "torch")
ENOUGH = 0.97
RUNS = 7  # of training from start to end, per library
FOLLOWED = 50  # steps
NO_SLOWER = (Target("retrograd", "ratio_torch", 1.0, "no slower than PyTorch"),)


@dataclass(frozen=True)
class Program:
    """Something to time, or to compare."""

    name: str
    title: str
    targets: tuple[Target, ...] = ()


PROGRAMS = (
    Program("digits", f"seconds until {ENOUGH:.0%} of the test digits are read correctly",
            (Target("retrograd", "ratio_torch", 1.0, "in fewer seconds than PyTorch"),)),
    Program("mlp", "a step of AdamW on an MLP, 784-256-256-10, 64 rows", NO_SLOWER),
    Program("conv", "a step of the digits' network, 64 images", NO_SLOWER),
    Program("gpt", "a step of the characters' GPT (2 layers, 96 wide, 16 windows of 64)",
            NO_SLOWER),
    Program("follow", f"the losses of {FOLLOWED} steps of the GPT from the same seed",
            (Target("retrograd", "off", 1e-3, "within 1e-3 of PyTorch's"),)),
)  # fmt: skip
COLUMNS = (
    Column("median", "median", show_seconds),
    Column("min", "min", show_seconds),
    Column("ratio_torch", "× PyTorch", show_ratio),
)
FOLLOW_COLUMNS = (
    Column("first", "first", lambda x: f"{x:.4f}"),
    Column("last", "last", lambda x: f"{x:.4f}"),
    Column("off", "furthest apart", lambda x: f"{x:.1e}"),
)


def library_named(module: str) -> Any:
    torch = importlib.import_module(module)
    importlib.import_module(f"{module}.utils.data")
    return torch


def make_loop(torch: Any, task: str, **given: Any) -> Any:
    """The loop of ``retrograd train``, on either library."""
    # Here, because workers of other benchmarks import this module, and nothing more than they need.
    from retrograd.training._loop import Loop
    from retrograd.training._settings import complete
    from retrograd.training.chars import Chars
    from retrograd.training.digits import Digits

    settings = complete({"task": task, **given})
    torch.manual_seed(settings["seed"])
    make: Any = {"digits": Digits, "chars": Chars}[task]
    return Loop(torch, make(torch, settings), settings)


# -- programs ----------------------------------------------------------------------------------


def make_run(module: str, name: str) -> Callable[[], object]:
    """A library's program."""
    torch = library_named(module)
    makers: dict[str, Callable[[Any], Callable[[], object]]] = {
        "digits": lambda torch: lambda: until_read(torch),
        "mlp": make_mlp,
        "conv": lambda torch: steps_of(make_loop(torch, "digits", epochs=10_000)),
        "gpt": lambda torch: steps_of(make_loop(torch, "chars", steps=1_000_000)),
    }
    return makers[name](torch)


def until_read(torch: Any) -> int:
    """Train until enough digits are read correctly; how many steps that took."""
    loop = make_loop(torch, "digits")
    for _ in loop.losses():
        whole_epoch = loop.step % len(loop.task.loader) == 0
        if whole_epoch and loop.evaluate()["test_accuracy"] >= ENOUGH:
            return int(loop.step)
    raise AssertionError(f"{loop.total} steps were not enough")


def steps_of(loop: Any) -> Callable[[], float]:
    losses = loop.losses()
    return lambda: next(losses)


def make_mlp(torch: Any) -> Callable[[], float]:
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    rows, labels = torch.randn(64, 784), torch.randint(0, 10, (64,))

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(model(rows), labels)
        loss.backward()
        optimizer.step()
        value: float = loss.item()
        return value

    return step


# -- measuring ---------------------------------------------------------------------------------


def run_program(
    program: Program, libraries: Sequence[Library], rounds: int, progress: Progress
) -> Result:
    """The table of one program."""
    if program.name == "follow":
        return follow(program, libraries)
    notes: list[str] = []
    makers = {x.key: (make_run, x.module, program.name) for x in libraries}
    if program.name == "digits":
        samples = whole_runs(makers, min(rounds, RUNS), progress)
        steps = {until_read(library_named(x.module)) for x in libraries}
        notes.append(f"after {' and '.join(map(str, sorted(steps)))} steps")
    else:
        samples = measure(program.name, makers, rounds, progress)
    measured = figures(samples, ("torch",))
    rows = [Row(x.key, x.label, measured[x.key]) for x in libraries]
    return Result(program.name, program.title, COLUMNS, rows, program.targets, notes)


def whole_runs(
    makers: dict[str, tuple[Any, ...]], runs: int, progress: Progress
) -> dict[str, list[float | None]]:
    """Libraries take turns, a whole run each: too long for the rounds of ``measure``."""
    samples: dict[str, list[float | None]] = {key: [] for key in makers}
    workers: dict[str, Worker] = {}
    progress.start("digits", runs)
    try:
        for key, maker in makers.items():
            progress.say(f"digits: warming up {key}")
            workers[key] = Worker(key, *maker)
        for number in range(runs):
            for key in sorted(workers, reverse=bool(number % 2)):
                samples[key].append(workers[key].turn())
            progress.step()
    finally:
        for worker in workers.values():
            worker.stop()
    return samples


def follow(program: Program, libraries: Sequence[Library]) -> Result:
    """How far the losses of each library are from PyTorch's."""
    losses = {
        x.key: list(make_loop(library_named(x.module), "chars", steps=FOLLOWED).losses())
        for x in libraries
    }
    rows = []
    for x in libraries:
        found = {"first": losses[x.key][0], "last": losses[x.key][-1]}
        if "torch" in losses and x.key != "torch":
            pairs = zip(losses[x.key], losses["torch"], strict=True)
            found["off"] = max(abs(mine - theirs) / theirs for mine, theirs in pairs)
        rows.append(Row(x.key, x.label, found))
    return Result(program.name, program.title, FOLLOW_COLUMNS, rows, program.targets)
