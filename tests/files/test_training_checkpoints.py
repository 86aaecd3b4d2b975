"""Checkpoints of training runs: a resumed run goes on to the bit, what does not fit changes
nothing, and the last few files and the best one are kept."""

from __future__ import annotations

import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _file_contents import same

import retrograd as torch
from retrograd.files import Checkpoints, FileFormatError, load_checkpoint, save_checkpoint

# -- going on to the bit -----------------------------------------------------------------------


class Run:
    """A small training run in which everything is random that can be."""

    def __init__(self, make_optimizer: Any, make_scheduler: Any, seed: int = 0) -> None:
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3),
            torch.nn.Linear(8, 1),
        )  # fmt: skip
        self.optimizer = make_optimizer(self.model)
        self.scheduler = make_scheduler(self.optimizer)
        data = torch.utils.data.TensorDataset(torch.arange(80.0).reshape(20, 4).sin())
        shuffling = torch.Generator().manual_seed(seed + 5)
        self.loader = torch.utils.data.DataLoader(
            data, batch_size=4, shuffle=True, generator=shuffling
        )
        self.noise = np.random.default_rng(seed)
        self.batches = iter(self.loader)
        self.losses: list[float] = []

    @property
    def parts(self) -> dict[str, Any]:
        names = ("model", "optimizer", "scheduler", "loader", "noise")
        return {name: getattr(self, name) for name in names}

    def step(self) -> None:
        try:
            (x,) = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            (x,) = next(self.batches)
        shift = random.random() + np.random.rand() + self.noise.normal()

        def closure() -> Any:
            self.optimizer.zero_grad()
            loss = ((self.model(x) - shift) ** 2).mean()
            loss.backward()
            return loss

        loss = self.optimizer.step(closure)
        takes_loss = isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
        self.scheduler.step(*([loss.item()] if takes_loss else []))
        torch.rand(1)
        self.losses.append(loss.item())

    def resumed_from(self, path: Path) -> None:
        self.losses = load_checkpoint(path, **self.parts)["losses"]
        self.batches = iter(self.loader)

    def everything(self) -> Any:
        numpy_state: Any = np.random.get_state(legacy=False)
        optimizer = self.optimizer.state_dict()
        for group in optimizer["param_groups"]:
            group.pop("differentiable", None)  # loading adds it to some, as in PyTorch
        return [
            dict(self.model.state_dict()), optimizer,
            self.scheduler.state_dict(), self.losses, random.getstate(), torch.get_rng_state(),
            numpy_state["state"]["key"].tolist(), numpy_state["state"]["pos"],
            self.noise.bit_generator.state, self.loader.state_dict(),
        ]  # fmt: skip


OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, nesterov=True),
    "Adam": lambda m: torch.optim.Adam(m.parameters(), amsgrad=True),
    "two groups": lambda m: torch.optim.AdamW(
        [{"params": list(m[0].parameters()), "lr": 0.1}, {"params": list(m[3].parameters())}]
    ),
    "LBFGS": lambda m: torch.optim.LBFGS(m.parameters(), lr=0.1, max_iter=3),
}
PLAIN = {"StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 2)}


def all_optimizers() -> dict[str, Any]:
    """Those above, and every other with its defaults."""
    names = [n for n in torch.optim.__all__ if isinstance(getattr(torch.optim, n), type)]
    with_defaults = {n: getattr(torch.optim, n) for n in names}
    leave = ("Optimizer", "SparseAdam", "LBFGS", "Muon", *OPTIMIZERS)  # Muon: matrices only
    others = {n: (lambda m, k=k: k(m.parameters())) for n, k in with_defaults.items()
              if n not in leave}  # fmt: skip
    return OPTIMIZERS | others


def schedulers() -> dict[str, Any]:
    lr = torch.optim.lr_scheduler
    step: Any = lambda o: lr.StepLR(o, 2)
    return {
        "StepLR": step, "MultiStepLR": lambda o: lr.MultiStepLR(o, [2, 4]),
        "LambdaLR": lambda o: lr.LambdaLR(o, lambda e: 0.9**e),
        "OneCycleLR": lambda o: lr.OneCycleLR(o, 0.1, total_steps=30),
        "CosineAnnealingWarmRestarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 3),
        "CyclicLR": lambda o: lr.CyclicLR(o, 0.01, 0.1, step_size_up=3, cycle_momentum=False),
        "ReduceLROnPlateau": lambda o: lr.ReduceLROnPlateau(o, patience=1),
        "SequentialLR": lambda o: lr.SequentialLR(
            o, [lr.ConstantLR(o, total_iters=2), lr.ExponentialLR(o, 0.9)], [3]
        ),
        "ChainedScheduler": lambda o: lr.ChainedScheduler([step(o), lr.ExponentialLR(o, 0.9)]),
    }  # fmt: skip


PAIRS = [(n, "StepLR") for n in all_optimizers()] + [("SGD", n) for n in schedulers()]


@pytest.mark.parametrize(("optimizer", "scheduler"), PAIRS)
def test_a_resumed_run_is_as_one_that_never_stopped(
    tmp_path: Path, optimizer: str, scheduler: str
) -> None:
    make = all_optimizers()[optimizer], schedulers()[scheduler]
    path = tmp_path / "run"
    whole = Run(*make)
    for done in range(9):
        if done == 3:  # amid an epoch of five batches
            save_checkpoint(path, **whole.parts, losses=whole.losses)
        whole.step()
    expected = whole.everything()
    other = Run(*make, seed=77)  # of another seed, and with a past of its own
    other.step()
    other.resumed_from(path)
    while len(other.losses) < 9:
        other.step()
    for found, wanted in zip(other.everything(), expected, strict=True):
        assert same(found, wanted)


TRAINING = """
    import sys, time
    import retrograd as torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Dropout(0.5), torch.nn.Linear(5, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randn(30, 3))
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    checkpoints = torch.files.Checkpoints(
        sys.argv[1], keep=2, model=model, optimizer=optimizer, loader=loader)
    step = checkpoints.load().get("step", 0)
    print("from", step, flush=True)
    while step < 60:
        for (x,) in loader:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            step += 1
            checkpoints.save(step, metric=loss)
            print(step, flush=True)
            if step == 60:
                break
    torch.save(model.state_dict(), sys.argv[2])
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no kill -9")
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    def start(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", textwrap.dedent(TRAINING)]
        command += [str(tmp_path / name), str(tmp_path / f"{name}.safetensors")]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    with start("whole") as process:
        process.communicate()
        assert process.returncode == 0
    kills = 0
    while True:
        with start("killed") as process:
            assert process.stdout is not None
            first = int(process.stdout.readline().split()[1])
            wanted = 60 if kills > 8 else random.randint(1, 9)
            for _ in range(wanted):
                if not process.stdout.readline():
                    break
            if kills <= 8:
                time.sleep(random.random() * 0.005)
                process.kill()
            process.communicate()
        if process.returncode == 0:
            break
        kills += 1
        assert first < 60
    assert kills >= 5
    states = [torch.load(tmp_path / f"{name}.safetensors") for name in ("whole", "killed")]
    assert same(*map(dict, states))
    assert all(len(os.listdir(tmp_path / name)) <= 3 for name in ("whole", "killed"))


DOCUMENT = Path(__file__).parents[2] / "docs" / "files.md"


def run_the_document(folder: Path, kill_at: tuple[str, int] | None) -> int:
    """Run the examples of the document on files in another process, which may kill itself
    somewhere in a step. How it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        tempfile.mkdtemp = lambda *args, **named: str(folder)  # type: ignore[assignment]
        sys.stdout = open(os.devnull, "w")
        count = dict.fromkeys(("begins", "written", "ends"), 0)

        def reached(moment: str) -> None:
            count[moment] += 1
            if kill_at == (moment, count[moment]):
                os.kill(os.getpid(), signal.SIGKILL)

        save, unlink = Checkpoints.save, os.unlink

        def watched(self: Checkpoints, *args: Any, **named: Any) -> str:
            reached("begins")
            path = save(self, *args, **named)
            reached("ends")
            return path

        def removing(path: str) -> None:  # after a checkpoint was written
            reached("written")
            unlink(path)

        Checkpoints.save, os.unlink = watched, removing  # type: ignore[assignment,method-assign]
        namespace: dict[str, Any] = {"__name__": "__main__"}
        for block in re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S):
            exec(compile(block, "files.md", "exec"), namespace)
        end = {"model": namespace["model"].state_dict(), "step": namespace["step"],
               "optimizer": namespace["optimizer"].state_dict(), "random": torch.get_rng_state(),
               "loader": namespace["loader"].state_dict()}  # fmt: skip
        torch.save(end, folder / "end")
        code = 0
    finally:
        os._exit(code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no kill -9")
def test_the_document_keeps_its_promise(tmp_path: Path) -> None:
    # Killed at every step: before it is saved, amid that, and after.
    (tmp_path / "whole").mkdir()
    assert run_the_document(tmp_path / "whole", None) == 0
    whole = torch.load(tmp_path / "whole" / "end")
    assert whole["step"] == 12
    kills = 0
    for moment in ("begins", "written", "ends"):
        for number in range(1, 13):
            folder = tmp_path / f"{moment} {number}"
            folder.mkdir()
            if run_the_document(folder, (moment, number)) == 0:
                assert (moment, number > 7) == ("written", True)  # it removes fewer than it writes
                continue
            kills += 1
            assert run_the_document(folder, None) == 0
            assert same(torch.load(folder / "end"), whole), (moment, number)
            # The same again: it has nothing left to do.
            assert run_the_document(folder, None) == 0
            assert same(torch.load(folder / "end"), whole), (moment, number)
    assert kills >= 30


# -- what is in a checkpoint -------------------------------------------------------------------


def model_and_optimizer() -> dict[str, Any]:
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer}


def test_values_come_back(tmp_path: Path) -> None:
    path = tmp_path / "run"
    values = {"step": 3, "best": math.inf, "config": {"layers": (1, 2)}, "history": torch.ones(2)}
    save_checkpoint(path, **model_and_optimizer(), **values)
    assert same(load_checkpoint(path, **model_and_optimizer()), values)


def test_generators_of_all_kinds(tmp_path: Path) -> None:
    path = tmp_path / "run"
    makers: dict[str, Any] = {
        "ours": lambda seed: torch.Generator().manual_seed(seed),
        "python": random.Random, "old": np.random.RandomState, "new": np.random.default_rng,
        "mt": lambda seed: np.random.Generator(np.random.MT19937(seed)),
        "philox": lambda seed: np.random.Generator(np.random.Philox(seed)),
        "sfc": lambda seed: np.random.Generator(np.random.SFC64(seed)),
    }  # fmt: skip

    def draw(generators: dict[str, Any]) -> list[float]:
        ours = generators["ours"]
        rest = [g.random() for name, g in generators.items() if name != "ours"]
        defaults = [random.random(), np.random.rand(), np.random.randn(), torch.rand(1).item()]
        return [torch.randn(1, generator=ours).item(), *rest, *defaults, random.gauss(0, 1)]

    generators = {name: make(3) for name, make in makers.items()}
    draw(generators)
    save_checkpoint(path, **generators)
    expected = draw(generators)
    assert draw(generators) != expected
    others = {name: make(4) for name, make in makers.items()}
    load_checkpoint(path, **others)
    assert draw(others) == expected
    load_checkpoint(path, **others)
    draw({name: make(5) for name, make in makers.items()})
    before = random.getstate()
    load_checkpoint(path, **others, random=False)
    assert random.getstate() == before


def test_a_part_alone(tmp_path: Path) -> None:
    path = tmp_path / "run"
    given = model_and_optimizer()
    save_checkpoint(path, **given, step=1)
    model = torch.nn.Linear(2, 3)
    with pytest.raises(RuntimeError, match=r"optimizer: it is in the file but was not given.*"):
        load_checkpoint(path, model=model)
    load_checkpoint(path, model=model, strict=False, random=False)
    assert same(dict(model.state_dict()), dict(given["model"].state_dict()))


# -- what does not fit -------------------------------------------------------------------------


def test_all_that_does_not_fit_is_said_at_once_and_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "run"
    save_checkpoint(
        path, **model_and_optimizer(), generator=torch.Generator(), gone=random.Random()
    )
    model = torch.nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(3)
    parts = {"model": model, "optimizer": optimizer, "generator": generator, "new": torch.nn.ReLU()}
    before = _states(model, optimizer, generator)
    with pytest.raises(RuntimeError) as caught:
        load_checkpoint(path, **parts, other=3)
    said = str(caught.value)
    assert "does not fit. Nothing was changed." in said
    for line in ("size mismatch for weight: copying a param with shape torch.Size([3, 2])",
                 "new: it is not in the file, which has model, optimizer, generator, gone",
                 "gone: it is in the file but was not given", "other: a int has no state",
                 "optimizer: the state in the file is not of a SGD: only one of them has amsgrad, ",
                 ):  # fmt: skip
        assert line in said
    assert same(_states(model, optimizer, generator), before)


def _states(model: Any, optimizer: Any, generator: Any) -> Any:
    state = {name: x.clone() for name, x in model.state_dict().items()}
    randoms = [random.getstate(), torch.get_rng_state(), np.random.get_state()[1].tolist()]
    return [state, repr(optimizer.state_dict()), generator.get_state(), randoms]


class Stubborn:
    """Takes half of a state, and then refuses."""

    def __init__(self) -> None:
        self.value = 1

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.value = state["value"]
        if self.value == 13:
            raise ValueError("not that one")
        if self.value == 14:
            raise KeyboardInterrupt


def test_a_part_that_refuses_puts_the_others_back(tmp_path: Path) -> None:
    path = tmp_path / "run"
    stubborn, generator, given = Stubborn(), torch.Generator(), model_and_optimizer()
    stubborn.value = 13
    save_checkpoint(path, **given, stubborn=stubborn, generator=generator)
    stubborn.value = 5
    other, generator = model_and_optimizer(), torch.Generator().manual_seed(9)
    before = _states(**other, generator=generator)
    with pytest.raises(RuntimeError, match=r"Nothing was changed\.\n  stubborn: not that one$"):
        load_checkpoint(path, **other, stubborn=stubborn, generator=generator)
    assert same(_states(**other, generator=generator), before)
    assert stubborn.value == 5
    stubborn.value = 14
    save_checkpoint(path, **given, stubborn=stubborn, generator=torch.Generator())
    stubborn.value = 5
    with pytest.raises(KeyboardInterrupt):
        load_checkpoint(path, **other, stubborn=stubborn, generator=generator)
    assert same(_states(**other, generator=generator), before)
    assert stubborn.value == 5


@pytest.mark.parametrize(("change", "words"), [
    (lambda m: torch.nn.Linear(2, 4), r"model: .*\n.*size mismatch for weight: .*\n.*for bias"),
    (lambda m: torch.nn.Linear(2, 3, bias=False), r"model: .*\n\s*Unexpected key.*\"bias\""),
    (lambda m: torch.nn.Sequential(torch.nn.Linear(2, 3)), r'Missing key.*"0.weight", "0.bias"'),
])  # fmt: skip
def test_models_that_do_not_fit(tmp_path: Path, change: Any, words: str) -> None:
    save_checkpoint(tmp_path / "run", model=torch.nn.Linear(2, 3))
    with pytest.raises(RuntimeError, match=words):
        load_checkpoint(tmp_path / "run", model=change(None))


def test_optimizers_and_schedulers_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "run"
    optimizer = model_and_optimizer()["optimizer"]
    lr = torch.optim.lr_scheduler
    save_checkpoint(path, optimizer=optimizer, scheduler=lr.StepLR(optimizer, 3))

    def refuse(other: Any, words: str, scheduler: Any = None) -> None:
        with pytest.raises(RuntimeError, match=words):
            load_checkpoint(path, optimizer=other, scheduler=scheduler or lr.StepLR(other, 3))

    x, y = torch.zeros(3, 2, requires_grad=True), torch.zeros(3, requires_grad=True)
    adam = torch.optim.Adam([x, y])
    refuse(adam, "scheduler: .*not of a ExponentialLR: only .*gamma|step_size",
           lr.ExponentialLR(adam, 0.9))  # fmt: skip
    refuse(torch.optim.Adam([x]), "optimizer: .* doesn't match the size of optimizer's group")
    refuse(torch.optim.Adam([{"params": [x]}, {"params": [y]}]), "different number of parameter")
    wrong = torch.optim.Adam([torch.zeros(3, 4, requires_grad=True), y])
    refuse(wrong, r"optimizer: .*'exp_avg' of shape \(3, 2\) for a parameter of shape \(3, 4\)")
    load_checkpoint(path, optimizer=adam, scheduler=lr.StepLR(adam, 3))
    save_checkpoint(path, optimizer=torch.nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="is not of an optimizer"):
        load_checkpoint(path, optimizer=adam)


def test_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for tree in (
        {"w": torch.ones(1)},
        [1],
        {"checkpoint": 1, "parts": 1, "values": 2, "random": 3},
    ):
        torch.save(tree, path)
        with pytest.raises(FileFormatError, match=r"x is not a checkpoint of a training run"):
            load_checkpoint(path)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "nothing")
    with pytest.raises(TypeError, match="'strict' cannot be the name"):
        save_checkpoint(path, strict=1)
    with pytest.raises(TypeError, match=r"cannot save obj\['values'\]\['thing'\], a object"):
        save_checkpoint(path, thing=object())


# -- a folder of them --------------------------------------------------------------------------


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    model = torch.nn.Linear(1, 1)
    checkpoints = Checkpoints(tmp_path / "run", keep=2, model=model)
    assert checkpoints.load() == {}
    assert checkpoints.latest() is checkpoints.best() is None
    for step, metric in enumerate([3.0, 1.0, torch.tensor(2.0), math.nan, None, 1.5]):
        with torch.no_grad():
            model.bias.fill_(float(step))
        path = checkpoints.save(step, metric=metric, note="x")
        assert path == checkpoints.latest() == str(tmp_path / f"run/step-0000000{step}.safetensors")
    assert checkpoints.steps() == [1, 4, 5]
    assert len(names(tmp_path / "run")) == 3
    assert checkpoints.load("best") == {"step": 1, "metric": 1.0, "note": "x"}
    assert model.bias.item() == 1
    assert checkpoints.load() == {"step": 5, "metric": 1.5, "note": "x"}
    assert model.bias.item() == 5
    again = Checkpoints(tmp_path / "run", keep=1, best="max", model=model)
    again.save(6, metric=1.2)
    assert again.steps() == [5, 6]
    assert again.best() == again.path(5)


def test_folders_with_other_things_in_them(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    (tmp_path / "step-1.safetensors").write_text("not ours")
    (tmp_path / "notes").write_text("mine")
    Path(checkpoints.path(1)).write_bytes(b"damaged")
    with pytest.raises(FileFormatError, match="step-00000001"):
        checkpoints.load()
    checkpoints.save(2, metric=1)
    assert names(tmp_path) == ["notes", "step-00000002.safetensors", "step-1.safetensors"]
    with pytest.raises(RuntimeError, match="checkpoint of step 2, which is after step 1"):
        checkpoints.save(1)
    checkpoints.save(2)  # in its own place
    with pytest.raises(FileNotFoundError, match="no checkpoint that was saved with a metric"):
        checkpoints.load("best")


def test_bad_arguments(tmp_path: Path) -> None:
    for keep in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="keep must be a number"):
            Checkpoints(tmp_path, keep=keep)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'min' or 'max'"):
        Checkpoints(tmp_path, best="lowest")
    with pytest.raises(ValueError, match="step must be an integer"):
        Checkpoints(tmp_path).save(-1)
    with pytest.raises(ValueError, match="'latest' or 'best'"):
        Checkpoints(tmp_path).load("newest")
