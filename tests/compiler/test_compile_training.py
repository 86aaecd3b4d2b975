"""Training steps as programs: after each step everything is as an eager step leaves it, to the bit.

Parameters, buffers, gradients, the state of optimizers and generators are found by running the step
once. Models and optimizers are trained twice, eagerly and compiled, and compared.
"""

import copy
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import nn
from retrograd.nn import functional as F


def array(*shape: int, seed: int = 0) -> Any:
    return torch.tensor(np.random.RandomState(seed).randn(*shape).astype(np.float32))


def labels(count: int, classes: int, seed: int = 1) -> Any:
    return torch.tensor(np.random.RandomState(seed).randint(0, classes, count))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(4, 8, batch_first=True)
        self.out = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.out(self.cells(x)[0][:, -1])


class Attending(nn.Module):
    """A small GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 16), nn.Embedding(7, 16)
        self.qkv, self.project = nn.Linear(16, 48), nn.Linear(16, 16)
        self.before, self.after = nn.LayerNorm(16), nn.LayerNorm(16)
        self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x: Any) -> Any:
        h = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        q, k, v = self.qkv(self.before(h)).split(16, dim=2)
        q, k, v = (t.view(*x.shape, 2, 8).transpose(1, 2) for t in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.project(mixed.transpose(1, 2).reshape(*x.shape, 16))
        h = h + self.narrow(F.gelu(self.wide(self.after(h))))
        return self.head(h).view(-1, 11)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 5))


def cnn() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(36, 5),
    )  # fmt: skip


TOKENS = labels(4 * 8, 11, 3).view(4, 8)
MODELS = {
    "mlp": (mlp, array(32, 20), labels(32, 5)),
    "cnn": (cnn, array(8, 1, 8, 8), labels(8, 5)),
    "lstm": (Recurrent, array(8, 6, 4), labels(8, 5)),
    "gpt": (Attending, TOKENS[:, :-1], TOKENS[:, 1:].reshape(-1)),
}
OPTIMIZERS = {
    "Adadelta": {}, "Adafactor": {}, "Adagrad": {"lr_decay": 0.1}, "Adam": {"amsgrad": True},
    "AdamW": {"weight_decay": 0.1}, "Adamax": {}, "ASGD": {"t0": 2}, "NAdam": {}, "RAdam": {},
    "RMSprop": {"centered": True, "momentum": 0.5}, "Rprop": {},
    "SGD": {"momentum": 0.9, "nesterov": True},
}  # fmt: skip


class Training:
    """A model, an optimizer and a step, compiled or not."""

    def __init__(self, model: Any, optimizer: Any, compiled: bool) -> None:
        torch.manual_seed(0)
        self.model = model()
        self.optimizer = optimizer(self.model.parameters())

        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return loss

        self.step = torch.compile(step, fullgraph=True) if compiled else step

    def state(self) -> dict[str, Any]:
        found = {f"model {name}": x for name, x in self.model.state_dict().items()}
        for name, p in self.model.named_parameters():
            found[f"grad {name}"] = p.grad
            for key, value in self.optimizer.state.get(p, {}).items():
                found[f"state {name} {key}"] = value
        return found


def check_same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert list(a) == list(b)
    for name, x in a.items():
        y = b[name]
        if isinstance(x, torch.Tensor):
            assert x.dtype is y.dtype
            assert np.array_equal(x.numpy(force=True), y.numpy(force=True), equal_nan=True), name
        else:
            assert x == y, name


def pair(name: str, optimizer: Any) -> tuple[Training, Training, Any, Any]:
    model, x, y = MODELS[name]
    return Training(model, optimizer, False), Training(model, optimizer, True), x, y


def train_both(eager: Training, compiled: Training, steps: int, *batch: Any) -> None:
    for training in (eager, compiled):
        torch.manual_seed(1)
        training.losses = [training.step(*batch).item() for _ in range(steps)]  # type: ignore[attr-defined]
    assert eager.losses == compiled.losses  # type: ignore[attr-defined]
    check_same(eager.state(), compiled.state())


@pytest.mark.parametrize("name", MODELS)
def test_training_for_200_steps(name: str) -> None:
    eager, compiled, x, y = pair(name, lambda p: torch.optim.Adam(p, lr=0.01))
    train_both(eager, compiled, 200, x, y)
    assert eager.losses[-1] < eager.losses[0] / 2  # type: ignore[attr-defined]
    assert len(compiled.step.entries) == 2, "the first step makes the state of the optimizer"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    kind, options = getattr(torch.optim, name), OPTIMIZERS[name]
    eager, compiled, x, y = pair("mlp", lambda p: kind(p, lr=0.01, **options))
    train_both(eager, compiled, 8, x, y)
    assert len(compiled.step.entries) == 2


def test_learning_rate_schedules_need_no_new_program() -> None:
    eager, compiled, x, y = pair("mlp", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    for training in (eager, compiled):
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(training.optimizer, 10)
        torch.manual_seed(1)
        for _ in range(10):
            training.step(x, y)
            schedule.step()
    check_same(eager.state(), compiled.state())
    assert len(compiled.step.entries) == 2


def test_learning_rates_that_the_function_reads_are_noticed() -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)

    @torch.compile(fullgraph=True)
    def scaled(x: Any) -> Any:
        return x * optimizer.param_groups[0]["lr"]

    assert scaled(torch.ones(1)).item() == 0.5
    optimizer.param_groups[0]["lr"] = 0.25
    assert scaled(torch.ones(1)).item() == 0.25


def test_modes_batch_sizes_and_frozen_parameters_are_noticed() -> None:
    eager, compiled, x, y = pair("cnn", lambda p: torch.optim.Adam(p, lr=0.01))
    train_both(eager, compiled, 3, x, y)
    train_both(eager, compiled, 2, x[:5], y[:5])
    for training in (eager, compiled):
        training.model.eval()
    train_both(eager, compiled, 3, x, y)
    for training in (eager, compiled):
        training.model.train()
        training.model[0].weight.requires_grad_(False)
    train_both(eager, compiled, 3, x, y)
    programs = len(compiled.step.entries)
    train_both(eager, compiled, 3, x, y)
    assert len(compiled.step.entries) == programs


def test_state_dicts_in_the_middle() -> None:
    eager, compiled, x, y = pair("cnn", lambda p: torch.optim.Adam(p, lr=0.01))
    train_both(eager, compiled, 4, x, y)
    saved = copy.deepcopy((compiled.model.state_dict(), compiled.optimizer.state_dict()))
    train_both(eager, compiled, 4, x, y)
    for training in (eager, compiled):
        training.model.load_state_dict(saved[0])
        training.optimizer.load_state_dict(saved[1])
    train_both(eager, compiled, 4, x, y)
    fresh = Training(MODELS["cnn"][0], lambda p: torch.optim.Adam(p, lr=0.01), True)
    fresh.model.load_state_dict(saved[0])
    fresh.optimizer.load_state_dict(saved[1])
    torch.manual_seed(1)
    losses = [fresh.step(x, y).item() for _ in range(4)]
    assert losses == eager.losses  # type: ignore[attr-defined]


TRAINING = """
import os, signal, sys
import retrograd as torch

path, until, ends = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(0.25),
    torch.nn.Linear(8, 2),
)
optimizer = torch.optim.AdamW(model.parameters(), 0.05)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
start = 0
if os.path.exists(path):
    found = torch.load(path)
    start = found["step"]
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    scheduler.load_state_dict(found["scheduler"])
    torch.set_rng_state(found["random"])

@torch.compile(fullgraph=True)
def step(x, y):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

x = torch.arange(64.0).reshape(16, 4).sin()
y = (x.sum(1) > 0).long()
for number in range(start, until):
    loss = step(x, y).item()
    scheduler.step()
    torch.save({"step": number + 1, "model": model.state_dict(),
                "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
                "random": torch.get_rng_state()}, path)
    print(loss.hex(), flush=True)
if ends == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_and_resume_in_the_middle(tmp_path: Path) -> None:
    def train(path: str, until: int, ends: str = "as it should") -> list[str]:
        command = [sys.executable, "-c", TRAINING, str(tmp_path / path), str(until), ends]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == (-9 if ends == "killed" else 0), done.stderr
        return done.stdout.split()

    whole = train("whole", 9)
    assert len(whole) == 9
    assert [*train("parts", 4, "killed"), *train("parts", 9)] == whole


def test_eager_and_compiled_steps_in_turn() -> None:
    eager, compiled, x, y = pair("mlp", lambda p: torch.optim.Adam(p, lr=0.01))
    torch.manual_seed(1)
    for _ in range(6):
        eager.step(x, y)
    torch.manual_seed(1)
    for i in range(6):
        (compiled.step if i % 2 else compiled.step.function)(x, y)
    check_same(eager.state(), compiled.state())


def test_accumulated_gradients_keep_their_memory() -> None:
    weights = [torch.ones(3, requires_grad=True) for _ in range(2)]

    def accumulate(weight: Any) -> Any:
        def function(x: Any) -> None:
            (weight * x).sum().backward()

        return function

    steps = [accumulate(weights[0]), torch.compile(accumulate(weights[1]), fullgraph=True)]
    views = []
    for i in range(5):
        for step in steps:
            step(torch.full((3,), float(i)))
        if not views:
            views = [w.grad[1:] for w in weights]
    assert weights[0].grad.tolist() == weights[1].grad.tolist() == [10] * 3
    assert views[0].tolist() == views[1].tolist() == [10] * 2
    assert len(steps[1].entries) == 2


def test_gradients_of_compiled_models() -> None:
    torch.manual_seed(0)
    model = cnn()
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, fullgraph=True)
    x, y = array(8, 1, 8, 8), labels(8, 5)
    for _ in range(3):
        given = [x.clone().requires_grad_() for _ in range(2)]
        for f, i in ((compiled, 0), (twin, 1)):
            loss = F.cross_entropy(f(given[i] * 2), y)
            loss.backward()
        assert np.array_equal(given[0].grad.numpy(), given[1].grad.numpy())
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            assert np.array_equal(p.grad.numpy(), q.grad.numpy())
            p.grad = q.grad = None
    check_same(model.state_dict(), twin.state_dict())
    assert len(compiled.entries) == 1
    with torch.no_grad():
        assert not compiled(x).requires_grad


def test_gradients_of_compiled_functions_follow_eager_rules() -> None:
    weight = torch.ones(2, requires_grad=True)
    compiled = torch.compile(lambda x: (x * weight * weight).exp(), fullgraph=True)
    for _ in range(2):
        y = compiled(torch.ones(2))
        y.sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.sum().backward()
        y = compiled(torch.ones(2))
        with torch.no_grad():
            weight.add_(0.5)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            y.sum().backward()


def test_a_loss_whose_graph_is_gone() -> None:
    weight = torch.ones(2, requires_grad=True)

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        loss = (weight * x).exp().sum()
        loss.backward()
        return loss

    for _ in range(2):
        loss = step(torch.ones(2))
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 + x * 0


def test_custom_functions_are_traced_through() -> None:
    weight = torch.tensor([3.0], requires_grad=True)

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        weight.grad = None
        Doubled.apply(weight * x).backward()
        return weight.grad

    for x in (1.0, 2.0, 5.0):
        assert step(torch.tensor([x])).item() == 2 * x
    assert len(step.entries) == 2


def test_hooks_are_part_of_the_program() -> None:
    weight = torch.ones(2, requires_grad=True)
    weight.register_hook(lambda g: g * 10)

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        weight.grad = None
        (weight * x).sum().backward()
        return weight.grad.clone()

    for _ in range(3):
        assert step(torch.ones(2)).tolist() == [10, 10]
    handle = weight.register_hook(lambda g: g + 1)
    assert step(torch.ones(2)).tolist() == [11, 11]
    handle.remove()
    assert step(torch.ones(2)).tolist() == [10, 10]


def test_state_that_a_module_keeps() -> None:
    class Smoothed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last: Any = None
            self.calls = torch.zeros(())

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.last = x if self.last is None else 0.5 * self.last + 0.5 * x
            return self.last * 1

    eager, compiled = Smoothed(), Smoothed()
    program = torch.compile(compiled, fullgraph=True)
    for i in range(5):
        x = torch.tensor([float(i)])
        assert eager(x).item() == program(x).item()
        assert eager.last.item() == compiled.last.item()
    assert compiled.calls.item() == 5
    assert len(program.entries) == 2


def test_weights_that_are_tied_or_replaced() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.ones(2))
            self.b = self.a

        def forward(self, x: Any) -> Any:
            return x * self.a + self.b

    model = Tied()
    compiled = torch.compile(model, fullgraph=True)
    x = torch.ones(2)
    with torch.no_grad():
        assert compiled(x).tolist() == [2, 2]
        model.b = nn.Parameter(torch.full((2,), 5.0))
        assert compiled(x).tolist() == [6, 6]
        model.a.data = torch.full((2,), 3.0)
        assert compiled(x).tolist() == [8, 8]
    assert len(compiled.entries) == 2


def test_a_program_writes_at_the_line_of_its_call() -> None:
    weight = torch.ones(3, requires_grad=True)

    @torch.compile
    def step(x: Any) -> Any:
        with torch.no_grad():
            weight.add_(x)
        return x * 2

    step(torch.ones(3))
    loss = (weight * weight).sum()
    step(torch.ones(3))  # by the program
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
        loss.backward()
    assert f"changed at {__file__}:" in str(error.value)
    assert "step(torch.ones(3))  # by the program" in str(error.value)


def test_what_a_function_says_about_the_collector_stays() -> None:
    thresholds = gc.get_threshold()

    def step(x: Any) -> Any:
        gc.set_threshold(1234)
        gc.disable()
        return x * 2

    try:
        torch.compile(lambda x: x * 2)(torch.ones(2))
        assert gc.isenabled()
        assert gc.get_threshold() == thresholds
        step_twice = torch.compile(step)
        assert step_twice(torch.ones(2)).tolist() == [2, 2]
        assert not gc.isenabled()
        assert gc.get_threshold()[0] == 1234
    finally:
        gc.enable()
        gc.set_threshold(*thresholds)
