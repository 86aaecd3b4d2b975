"""What the tests of pipelines run under ``mpiexec``: models to train, and ways to break training.

Which program, and its arguments, is in JSON in the environment variable ``PIPELINE_PROGRAM``:
``["train", jobs, folder]`` trains several models one after the other and leaves in ``folder`` what
each rank saw.
"""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import retrograd as torch
from retrograd import distributed, nn, pipeline
from retrograd.nn import functional as F

WIDTH = 6


@dataclass(frozen=True)
class Case:
    """A model and how it is trained."""

    layers: Callable[[], Any]
    item: Callable[[Any], Any]  # a micro-batch, from a generator
    loss_fn: Callable[[Any, Any], Any] = F.mse_loss
    optimizer: Callable[[Any], Any] = lambda parameters: torch.optim.Adam(parameters, lr=0.01)
    options: dict[str, Any] = field(default_factory=dict)
    plain: bool = True  # whether an ordinary loop does the same


def rows(generator: Any) -> Any:
    return (torch.randn(4, WIDTH, generator=generator), torch.randn(4, WIDTH, generator=generator))


def blocks() -> Any:
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(8)))


# -- shared weights, and inputs that are whole numbers -----------------------------------------


class Unembed(nn.Module):
    """Scores of words by the same matrix that embeds them."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(len(weight)))

    def forward(self, x: Any) -> Any:
        return F.linear(x, self.weight, self.bias)


def tied() -> list[Any]:
    embed = nn.Embedding(11, WIDTH)
    middle = [nn.Linear(WIDTH, WIDTH) for _ in range(6)]
    return [embed, *middle, Unembed(embed.weight)]


def untied() -> list[Any]:
    """The same, to be tied by name."""
    embed = nn.Embedding(11, WIDTH)
    middle = [nn.Linear(WIDTH, WIDTH) for _ in range(6)]
    return [embed, *middle, Unembed(nn.Parameter(embed.weight.detach().clone() * 2))]


def words(generator: Any) -> Any:
    return (torch.randint(0, 11, (3, 5), generator=generator),
            torch.randint(0, 11, (3, 5), generator=generator))  # fmt: skip


def of_words(scores: Any, targets: Any) -> Any:
    return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))


# -- skip connections and tuples ---------------------------------------------------------------


class Joined(nn.Module):
    """A layer that is given several values."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any, *others: Any) -> Any:
        for number, other in enumerate(others):
            x = x + (number + 2) * other
        return torch.tanh(self.linear(x))


SKIPS = [(0, 3), (-1, 6), (1, 6), (1, 4), (2, 3), (5, 7)]


class Unpacked(nn.Module):
    """A layer on a structure: tensors of several dtypes, numbers, words, nothing."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, given: Any) -> Any:
        if isinstance(given, torch.Tensor):
            given = (given, {"rows": torch.tensor([3, 1, 0, 2]), "again": [given * 2]}, 0.5, None)
        x, more, scale, nothing = given
        assert nothing is None
        assert more["rows"].dtype == torch.int64
        y = torch.tanh(self.linear(x[more["rows"]])) * scale + more["again"][0]
        if self.number == 7:
            return y
        again = [y * 0.5, torch.tensor(True), y.sum()] if self.number % 2 else [y * 0.5]
        return (y, {"rows": more["rows"], "again": again}, scale + 0.25 * self.number, None)


class Unused(nn.Module):
    """Gives a second result that no layer after it uses, and has a parameter of no use."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.idle = nn.Parameter(torch.ones(2))

    def forward(self, x: Any) -> Any:
        x = x[0] if isinstance(x, tuple) else x
        return (torch.tanh(self.linear(x)), self.linear(x))


class Counting(nn.Module):
    """Gives a number that is another one each time, so that no two messages are of one form."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.count = 0

    def forward(self, given: Any) -> Any:
        x, before = given if isinstance(given, tuple) else (given, 1)
        self.count += 1
        return torch.tanh(self.linear(x) * (before % 5)), self.count


def counting() -> list[Any]:
    return [*(Counting() for _ in range(7)), lambda given: given[0]]


def varying_rows(generator: Any) -> Any:
    count = int(torch.randint(0, 5, (1,), generator=generator))  # at times, none at all
    shape = (count, WIDTH)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def sum_of_squares(outputs: Any, targets: Any) -> Any:
    return (outputs - targets).pow(2).sum()


def unused() -> list[Any]:
    return [*(Unused() for _ in range(7)), lambda x: x[0]]


def frozen() -> list[Any]:
    layers = [nn.Linear(WIDTH, WIDTH), torch.tanh, nn.Linear(WIDTH, WIDTH), torch.sin,
              nn.Linear(WIDTH, WIDTH), torch.tanh, torch.sin, nn.ReLU(inplace=True)]  # fmt: skip
    layers[2].requires_grad_(False)
    return layers


def noisy() -> list[Any]:
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.3), nn.Tanh()) for _ in range(8)]


def normalized() -> list[Any]:
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)) for _ in range(8)]


def in_place() -> list[Any]:
    layers: list[Any] = []
    for _ in range(4):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True)]
    return layers


def lazy() -> list[Any]:
    return [pipeline.Lazy(nn.Linear, WIDTH, WIDTH) for _ in range(8)]


def momentum(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def momentum_small(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


CASES = {
    "blocks": Case(blocks, rows),
    "tied": Case(tied, words, of_words),
    "untied": Case(untied, words, of_words, options={"tied": [("0.weight", "7.weight")]},
                   plain=False),
    "skips": Case(lambda: [Joined() for _ in range(8)], rows, options={"skips": SKIPS}),
    "structures": Case(lambda: [Unpacked(n) for n in range(8)], rows),
    "unused": Case(unused, rows),
    "varying": Case(counting, varying_rows, sum_of_squares, momentum_small),
    "frozen": Case(frozen, rows, options={"partition": [3, 5]}),
    "recomputed": Case(blocks, rows, options={"checkpoint": 2}),
    "noisy": Case(noisy, rows, plain=False),
    "noisy recomputed": Case(noisy, rows, options={"checkpoint": 1}, plain=False),
    "clipped": Case(tied, words, of_words, options={"clip_grad_norm": 0.05}),
    "normalized": Case(normalized, rows, optimizer=momentum),
    "normalized recomputed": Case(normalized, rows, optimizer=momentum, options={"checkpoint": 2}),
    "in place": Case(in_place, rows),
    "lazy": Case(lazy, rows, plain=False),
    "profiled": Case(blocks, rows, options={
        "partition": "profile", "example": torch.ones(4, WIDTH, dtype=torch.float64)}),
    "scheduled": Case(blocks, rows, optimizer=momentum, options={
        "scheduler": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3)}),
}  # fmt: skip


def make_layers(case: Case) -> Any:
    torch.manual_seed(1)
    return case.layers()


def items(case: Case, count: int, replica: int = 0, replicas: int = 1) -> Iterator[Any]:
    """The micro-batches of a replica, out of ``count`` for all."""
    generator = torch.Generator().manual_seed(5)
    everything = [case.item(generator) for _ in range(count)]
    return iter(everything[replica::replicas])


# -- training ----------------------------------------------------------------------------------


def train(
    name: str, stages: int, microbatches: int, steps: int, replicas: int = 1, **options: Any
) -> dict[str, Any]:
    """Train a case as a pipeline; what this rank has to show for it."""
    case = CASES[name]
    options = {**case.options, **options}
    if name == "frozen":
        options["partition"] = {1: [], 2: [5], 3: [3, 5], 4: [2, 3, 5]}[stages]
    layers = make_layers(case)
    existing = [weakref.ref(layer) for layer in layers if isinstance(layer, nn.Module)]
    pipe = pipeline.Pipeline(
        layers, stages, microbatches=microbatches, replicas=replicas,
        loss_fn=case.loss_fn, optimizer=case.optimizer, **options,
    )  # fmt: skip
    del layers
    data = items(case, steps * microbatches * replicas, pipe.replica, replicas)
    losses = [pipe.train_batch(data) for _ in range(steps)]
    try:
        pipe.train_batch(data)
        ended = False
    except StopIteration:
        ended = True
    evaluated = pipe.eval_batch(items(case, microbatches * replicas, pipe.replica, replicas))
    return {
        "losses": losses,
        "ended": ended,
        "evaluated": evaluated,
        "gradients": {n: p.grad for n, p in pipe.named_parameters() if p.grad is not None},
        "state": dict(pipe.state_dict()),
        "peak": pipe.stats.peak_activations,
        "live": pipe.stats.live_activations,
        "stage": pipe.stage,
        "layers": sum(layer() is not None for layer in existing),
    }


def plainly(name: str, microbatches: int, steps: int, replicas: int = 1) -> dict[str, Any]:
    """The same by an ordinary loop in one process."""
    case = CASES[name]
    layers = list(make_layers(case))
    modules = nn.ModuleDict({str(i): m for i, m in enumerate(layers) if isinstance(m, nn.Module)})
    optimizer = case.optimizer(modules.parameters())
    scheduler = case.options["scheduler"](optimizer) if "scheduler" in case.options else None
    skips, count = case.options.get("skips", ()), microbatches * replicas

    def forward(x: Any) -> Any:
        values = {-1: x}
        for j, layer in enumerate(layers):
            values[j] = layer(values[j - 1], *(values[i] for i, to in sorted(skips) if to == j))
        return values[len(layers) - 1]

    losses = []
    data = items(case, steps * count)
    for _ in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(count):
            inputs, targets = next(data)
            loss = case.loss_fn(forward(inputs), targets) / count
            loss.backward()
            total += loss.item()
        if "clip_grad_norm" in case.options:
            nn.utils.clip_grad_norm_(modules.parameters(), case.options["clip_grad_norm"])
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(total)
    named = modules.named_parameters(remove_duplicate=False)
    return {
        "losses": losses,
        "gradients": {n: p.grad for n, p in named if p.grad is not None},
        "state": modules.state_dict(),
    }


def train_all(jobs: Sequence[dict[str, Any]], folder: str) -> None:
    """Train one job after the other, and leave what came out in files."""
    for number, job in enumerate(jobs):
        result = train(**job)
        torch.save(result, os.path.join(folder, f"{number}-{distributed.get_rank()}.safetensors"))


# -- checkpoints -------------------------------------------------------------------------------


def checkpointed(folder: str, stages: int, steps: int, resume: bool, options: dict[str, Any],
                 every: int = 3) -> list[float]:  # fmt: skip
    """Train with checkpoints, from the beginning or from the last one; the losses of all steps."""
    case = CASES["noisy"]
    pipe = pipeline.Pipeline(
        make_layers(case), stages, microbatches=4, loss_fn=case.loss_fn,
        optimizer=case.optimizer, clip_grad_norm=1.0,
        scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 4, 0.5), **options,
    )  # fmt: skip
    losses: list[float] = []
    if resume:
        losses = pipe.load_checkpoint(folder)["losses"]
    data = items(case, (steps + 1) * 4 * pipe.replicas, pipe.replica, pipe.replicas)
    for _ in range(len(losses) * 4):
        next(data)
    slowly = float(os.environ.get("SLOWLY", "0"))
    while len(losses) < steps:
        losses.append(pipe.train_batch(data))
        if len(losses) % every == 0:
            pipe.save_checkpoint(folder, keep=2, losses=losses)
        if distributed.get_rank() == 0:
            print(f"step {len(losses)}", flush=True)
        time.sleep(slowly)
    return losses


def checkpoint_and_report(*runs: Sequence[Any]) -> None:
    """One run after the other; a line with the losses of all."""
    losses = [checkpointed(*arguments) for arguments in runs]
    if distributed.get_rank() == 0:
        print("losses", json.dumps(losses), flush=True)


# -- faults ------------------------------------------------------------------------------------


class Raises(nn.Module):
    """Fails in the fifth micro-batch."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        if self.calls == 5:
            raise ArithmeticError("this layer has had enough")
        return x


class RaisesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise ArithmeticError("no way back")


def fault(kind: str, ranks: int, folder: str) -> None:
    """Train a pipeline in which something is wrong, on the last but one rank if on one."""
    distributed.init_process_group("mpi")
    rank = distributed.get_rank()
    concerned = rank == ranks - 2
    case = CASES["blocks"]
    layers = list(make_layers(case))
    microbatches, steps = 4, 3
    optimizer: Any = case.optimizer
    at = len(layers) * (ranks - 2) // ranks
    if kind == "raises":
        layers[at] = Raises()
    elif kind == "raises backward":
        layers[at] = RaisesBackward.apply
    elif kind == "shapes":
        layers[at] = nn.Linear(WIDTH + 1, WIDTH)
    elif kind == "cannot be sent":
        layers[len(layers) * (ranks - 1) // ranks - 1] = lambda x: (x, object())
    elif kind == "weights" and concerned:
        torch.manual_seed(2)
        layers[0] = nn.Linear(WIDTH, WIDTH)
    elif kind == "optimizer":
        everything = [p for layer in layers for p in layer.parameters()]
        if concerned:
            optimizer = lambda _: case.optimizer(everything)
    elif kind == "settings" and concerned:
        microbatches = 3
    count = microbatches * steps
    if kind == "fewer batches" and rank == ranks - 1:
        count -= microbatches
    if kind == "part of a batch" and rank == ranks - 1:
        count -= 1
    pipe = pipeline.Pipeline(
        layers, ranks, microbatches=microbatches, loss_fn=case.loss_fn, optimizer=optimizer
    )
    data = items(case, count)
    if kind == "folder":
        os.chdir(os.path.join(folder, "elsewhere") if concerned else folder)
        pipe.save_checkpoint("checkpoints")
    if kind == "other data" and rank == ranks - 1:
        next(data)
    if kind == "other call" and concerned:
        pipe.eval_batch(data)
    for _ in range(steps):
        pipe.train_batch(data)
    print("trained", flush=True)


PROGRAMS = {
    "train": train_all,
    "checkpointed": checkpoint_and_report,
    "fault": fault,
}

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    name, *arguments = json.loads(os.environ["PIPELINE_PROGRAM"])
    PROGRAMS[name](*arguments)
