"""Schedulers: rates known in closed form, and everything beside PyTorch's."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as torch

Make = Callable[[Any, Any], Any]


@pytest.fixture
def pytorch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is the reference to compare with")


class Power:
    """A function of the epoch with a state of its own, which is saved with the scheduler."""

    def __init__(self, base: float) -> None:
        self.base = base

    def __call__(self, epoch: float) -> float:
        return self.base**epoch


# Of s, the module of schedulers, and o, an optimizer of two groups with momentum.
SCHEDULERS: dict[str, Make] = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.95**epoch),
    "lambdas": lambda s, o: s.LambdaLR(o, [lambda e: 1 / (e + 1), Power(0.9)]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.95),
    "multiplicatives": lambda s, o: s.MultiplicativeLR(o, [lambda e: 0.9, Power(0.99)]),
    "step": lambda s, o: s.StepLR(o, 7, 0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [3, 3, 20, 50], 0.3),
    "constant": lambda s, o: s.ConstantLR(o, 0.25, 10),
    "linear": lambda s, o: s.LinearLR(o, 0.2, 0.8, 30),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.97),
    "polynomial": lambda s, o: s.PolynomialLR(o, 60, 2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 17, 0.001),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 10),
    "longer restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2, 0.001),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 8, 5),
    "cyclic, lists": lambda s, o: s.CyclicLR(
        o, [0.01, 0.02], [0.2, 0.3], 8, mode="triangular2", base_momentum=[0.7, 0.6]
    ),
    "cyclic, fading": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 8, mode="exp_range", gamma=0.99),
    "cyclic, custom": lambda s, o: s.CyclicLR(
        o, 0.01, 0.2, 8, scale_fn=Power(0.5), cycle_momentum=False
    ),
    "cyclic, custom iterations": lambda s, o: s.CyclicLR(
        o, 0.01, 0.2, 8, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations"
    ),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.5, 120),
    "one cycle of three": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.3], epochs=12, steps_per_epoch=10, anneal_strategy="linear", three_phase=True
    ),
    "one cycle without momentum": lambda s, o: s.OneCycleLR(o, 0.5, 101, cycle_momentum=False),
    "sequence": lambda s, o: s.SequentialLR(
        o,
        [s.LinearLR(o, 0.1, 1.0, 10), s.CosineAnnealingLR(o, 50), s.ExponentialLR(o, 0.9)],
        [10, 60],
    ),
    "sequence from the second": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1), s.StepLR(o, 5)], [0]
    ),
    "chain": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.98)], optimizer=o
    ),
    "chain of steps": lambda s, o: s.ChainedScheduler([s.StepLR(o, 10), s.LinearLR(o)]),
    "sequence of chains": lambda s, o: s.SequentialLR(
        o, [s.ChainedScheduler([s.StepLR(o, 3), s.LinearLR(o)]), s.ExponentialLR(o, 0.9)], [20]
    ),
}
ALL = pytest.mark.parametrize("name", SCHEDULERS)


def optimizer_of(library: Any, lr: Any = 0.1, **options: Any) -> Any:
    x, y = library.ones(1, requires_grad=True), library.ones(1, requires_grad=True)
    options = options or {"momentum": 0.9}
    kind = library.optim.Adam if "betas" in options else library.optim.SGD
    return kind([{"params": [x]}, {"params": [y], "lr": lr * 2}], lr=lr, **options)


def rates(library: Any, make: Make, steps: int = 100, **options: Any) -> list[list[float]]:
    """What the groups have for rate and momentum in each epoch."""
    optimizer = optimizer_of(library, **options)
    scheduler = make(library.optim.lr_scheduler, optimizer)
    found = []
    for _ in range(steps):
        found.append(seen(optimizer, scheduler))
        optimizer.step()
        scheduler.step()
    return found


def seen(optimizer: Any, scheduler: Any) -> list[float]:
    values = [float(lr) for lr in scheduler.get_last_lr()]
    groups = optimizer.param_groups
    assert [float(group["lr"]) for group in groups] == values
    momenta = [g["betas"][0] if "betas" in g else g["momentum"] for g in groups]
    return values + [float(m) for m in momenta]


def assert_equal_rates(ours: list[list[float]], theirs: list[list[float]]) -> None:
    for epoch, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == pytest.approx(other, rel=1e-12, abs=1e-15), f"epoch {epoch}"


# -- rates that are known --------------------------------------------------------------------------

KNOWN: dict[str, Callable[[int], float]] = {
    "lambda": lambda n: 0.1 * 0.95**n,
    "multiplicative": lambda n: 0.1 * 0.95**n,
    "step": lambda n: 0.1 * 0.5 ** (n // 7),
    "multistep": lambda n: 0.1 * 0.3 ** sum(n >= m for m in (3, 3, 20, 50)),
    "constant": lambda n: 0.1 * (0.25 if n < 10 else 1.0),
    "linear": lambda n: 0.1 * (0.2 + 0.6 * min(n, 30) / 30),
    "exponential": lambda n: 0.1 * 0.97**n,
    "polynomial": lambda n: 0.1 * (1 - min(n, 60) / 60) ** 2,
    "cosine": lambda n: 0.001 + 0.099 * (1 + math.cos(math.pi * n / 17)) / 2,
    "restarts": lambda n: 0.1 * (1 + math.cos(math.pi * (n % 10) / 10)) / 2,
    "chain": lambda n: 0.1 * 0.98**n * (0.1 if n < 20 else 1.0),
}


@pytest.mark.parametrize("name", KNOWN)
def test_rates_follow_their_formula(name: str) -> None:
    for epoch, (rate, *_) in enumerate(rates(torch, SCHEDULERS[name])):
        assert rate == pytest.approx(KNOWN[name](epoch), rel=1e-9, abs=1e-12), f"epoch {epoch}"


@pytest.mark.parametrize("name", [n for n in KNOWN if n not in ("chain", "multiplicative")])
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_an_epoch_can_be_gone_to(name: str) -> None:
    optimizer = optimizer_of(torch)
    scheduler = SCHEDULERS[name](torch.optim.lr_scheduler, optimizer)
    optimizer.step()
    for epoch in (40, 3, 0, 61, 10):
        scheduler.step(epoch)
        assert scheduler.get_last_lr()[0] == pytest.approx(KNOWN[name](epoch), abs=1e-12)


def test_plateaus_are_noticed() -> None:
    optimizer = optimizer_of(torch)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2, cooldown=1)
    found = []
    for loss in (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0):
        scheduler.step(loss)
        found.append(round(scheduler.get_last_lr()[0], 6))
    # Three bad epochs, then one that does not count, then three again.
    assert found == [0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01, 0.001]


# -- beside PyTorch's ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"betas": (0.9, 0.99)}], ids=["momentum", "betas"])
@pytest.mark.filterwarnings("ignore:Detected call of")  # when a chain is part of a sequence
@ALL
def test_a_hundred_epochs_agree(pytorch: Any, name: str, options: dict[str, Any]) -> None:
    make = SCHEDULERS[name]
    assert_equal_rates(rates(torch, make, **options), rates(pytorch, make, **options))


@pytest.mark.filterwarnings("ignore:Detected call of")
@ALL
def test_rates_that_are_tensors_stay_those_tensors(pytorch: Any, name: str) -> None:
    found = []
    for library in (torch, pytorch):
        lr = library.tensor(0.1, dtype=library.float64)
        optimizer = optimizer_of(library, lr)
        scheduler = SCHEDULERS[name](library.optim.lr_scheduler, optimizer)
        seen_rates = []
        for _ in range(30):
            optimizer.step()
            scheduler.step()
            seen_rates.append([float(x) for x in scheduler.get_last_lr()])
        assert optimizer.param_groups[0]["lr"] is lr
        found.append(seen_rates)
    assert_equal_rates(*found)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
@settings(max_examples=30)
@given(st.lists(st.floats(-2, 2), min_size=5, max_size=40), st.integers(0, 3), st.integers(0, 2))
def test_plateaus_agree(
    mode: str, threshold_mode: str, losses: list[float], patience: int, cooldown: int
) -> None:
    pytorch = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    found = []
    for library in (torch, pytorch):
        optimizer = optimizer_of(library)
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, mode, 0.5, patience, 0.1, threshold_mode, cooldown, [0.01, 0.02]
        )
        path = []
        for loss in losses:
            scheduler.step(loss)
            path.append(seen(optimizer, scheduler))
        found.append((path, scheduler.state_dict()))
    assert found[0] == found[1]


@ALL
@pytest.mark.filterwarnings("ignore:Detected call of")  # of those that are made anew
def test_states_move_between_both(pytorch: Any, name: str) -> None:
    make, runs = SCHEDULERS[name], []
    for library in (torch, pytorch):
        optimizer = optimizer_of(library)
        scheduler = make(library.optim.lr_scheduler, optimizer)
        for _ in range(15):
            optimizer.step()
            scheduler.step()
        runs.append((optimizer, scheduler))
    states = [copy.deepcopy(scheduler.state_dict()) for _, scheduler in runs]
    assert_equal_states(*states)
    options = [copy.deepcopy(optimizer.state_dict()) for optimizer, _ in runs]
    fresh = []
    for library, state, option in zip((torch, pytorch), states[::-1], options[::-1], strict=True):
        optimizer = optimizer_of(library)
        scheduler = make(library.optim.lr_scheduler, optimizer)
        kept = copy.deepcopy(state)
        scheduler.load_state_dict(state)
        if library is torch:
            assert_equal_states(state, kept)  # what is loaded is left as it was
        optimizer.load_state_dict({**option, "state": {}})
        fresh.append((optimizer, scheduler))
    paths = []
    for optimizer, scheduler in (*runs, *fresh):
        path = []
        for _ in range(15):
            optimizer.step()
            scheduler.step()
            path.append(seen(optimizer, scheduler))
        paths.append(path)
    for path in paths[1:]:
        assert_equal_rates(path, paths[0])


def assert_equal_states(ours: Any, theirs: Any) -> None:
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        if key == "_schedulers":
            for one, other in zip(ours[key], value, strict=True):
                assert_equal_states(one, other)
        elif key in ("_last_lr", "base_lrs"):
            assert ours[key] == pytest.approx(value, rel=1e-12), key
        else:
            assert ours[key] == value, key


REFUSED = [
    "S.StepLR(3, 1)",
    "S.StepLR(o, 1, last_epoch=3)",
    "S.LambdaLR(o, [abs])",
    "S.MultiplicativeLR(o, 3)",
    "S.MultiplicativeLR(o, [abs, abs, abs])",
    "S.ConstantLR(o, 1.5)",
    "S.LinearLR(o, 0.0)",
    "S.LinearLR(o, 0.5, 2.0)",
    "S.CosineAnnealingWarmRestarts(o, 0)",
    "S.CosineAnnealingWarmRestarts(o, 2, 0)",
    "S.CosineAnnealingWarmRestarts(o, 2, eta_min='a')",
    "S.CosineAnnealingWarmRestarts(o, 2).step(-1)",
    "S.CyclicLR(3, 0.1, 0.2)",
    "S.CyclicLR(o, [0.1], 0.2)",
    "S.CyclicLR(o, 0.1, 0.2, mode='other')",
    "S.CyclicLR(a, 0.1, 0.2)",
    "S.OneCycleLR(3, 0.1, 10)",
    "S.OneCycleLR(o, 0.1)",
    "S.OneCycleLR(o, 0.1, -1)",
    "S.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=1)",
    "S.OneCycleLR(o, 0.1, epochs=1, steps_per_epoch=0)",
    "S.OneCycleLR(o, 0.1, 10, pct_start=2.0)",
    "S.OneCycleLR(o, 0.1, 10, anneal_strategy='other')",
    "S.OneCycleLR(a, 0.1, 10)",
    "[s := S.OneCycleLR(o, 0.1, 2), *[(o.step(), s.step()) for _ in range(4)]]",
    "S.ReduceLROnPlateau(o, factor=1.0)",
    "S.ReduceLROnPlateau(3)",
    "S.ReduceLROnPlateau(o, 'other')",
    "S.ReduceLROnPlateau(o, threshold_mode='other')",
    "S.ReduceLROnPlateau(o, min_lr=[0.1])",
    "S.SequentialLR(o, [], [])",
    "S.SequentialLR(o, [S.StepLR(o, 1)], [1])",
    "S.SequentialLR(o, [S.StepLR(o, 1), S.ReduceLROnPlateau(o)], [1])",
    "S.SequentialLR(o, [S.StepLR(o, 1), S.StepLR(a, 1)], [1])",
    "S.SequentialLR(o, [3], [])",
    "S.ChainedScheduler([])",
    "S.ChainedScheduler([S.StepLR(o, 1), S.ReduceLROnPlateau(o)])",
    "S.ChainedScheduler([S.StepLR(o, 1), S.StepLR(a, 1)])",
    "S.LRScheduler(o)",
]


def refusal(library: Any, code: str) -> str:
    x = library.ones(1, requires_grad=True)
    without = library.optim.Adagrad([x], lr=0.1)
    names = {"S": library.optim.lr_scheduler, "o": optimizer_of(library), "a": without}
    with pytest.raises(Exception) as caught:
        eval(code, names)
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_refused_is_refused_in_the_same_words(pytorch: Any, code: str) -> None:
    assert refusal(torch, code) == refusal(pytorch, code)


def test_min_lrs_that_do_not_fit_new_groups(pytorch: Any) -> None:
    words = []
    for library in (torch, pytorch):
        optimizer = optimizer_of(library)
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, min_lr=[0, 0])
        optimizer.add_param_group({"params": [library.ones(1, requires_grad=True)]})
        with pytest.raises(RuntimeError) as caught:
            for _ in range(20):
                scheduler.step(1.0)
        words.append(str(caught.value))
    assert words[0] == words[1]


# -- warnings --------------------------------------------------------------------------------------


def too_early(library: Any) -> None:
    scheduler = library.optim.lr_scheduler.StepLR(optimizer_of(library), 1)
    scheduler.step()


def early_although_stepped_before(library: Any) -> None:
    optimizer = optimizer_of(library)
    optimizer.step()
    library.optim.lr_scheduler.StepLR(optimizer, 1).step()


def overridden(library: Any) -> None:
    optimizer = optimizer_of(library)
    scheduler = library.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step = lambda: None
    optimizer.step()
    scheduler.step()


def by_number(library: Any) -> None:
    optimizer = optimizer_of(library)
    scheduler = library.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    scheduler.step(3)


def plateau_by_number(library: Any) -> None:
    library.optim.lr_scheduler.ReduceLROnPlateau(optimizer_of(library)).step(1.0, 3)


def asked_directly(library: Any) -> None:
    library.optim.lr_scheduler.StepLR(optimizer_of(library), 1).get_lr()


@pytest.mark.parametrize("program", [
    too_early, early_although_stepped_before, overridden, by_number, plateau_by_number,
    asked_directly,
])  # fmt: skip
def test_warnings_are_pytorchs(pytorch: Any, program: Callable[[Any], None]) -> None:
    words = []
    for library in (torch, pytorch):
        with pytest.warns(UserWarning, match=".") as caught:
            program(library)
        words.append([str(w.message) for w in caught])
        if library is torch:
            assert caught[0].filename == __file__
    assert words[0] == words[1]


def test_the_right_order_is_not_warned_about() -> None:
    optimizer = optimizer_of(torch)
    first = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    second = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    first.step()
    second.step()


RESUMED: dict[str, Make] = {
    "step": lambda s, o: s.StepLR(o, 3, last_epoch=4),
    "linear": lambda s, o: s.LinearLR(o, 0.5, last_epoch=2),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9, last_epoch=4),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 9, last_epoch=4),
    "polynomial": lambda s, o: s.PolynomialLR(o, 9, last_epoch=4),
    "lambda": lambda s, o: s.LambdaLR(o, lambda e: 0.9**e, last_epoch=4),
}


@pytest.mark.parametrize("name", RESUMED)
def test_training_is_resumed_from_an_epoch(pytorch: Any, name: str) -> None:
    found = []
    for library in (torch, pytorch):
        optimizer = optimizer_of(library)
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
        scheduler = RESUMED[name](library.optim.lr_scheduler, optimizer)
        path = []
        for _ in range(12):
            path.append(seen(optimizer, scheduler))
            optimizer.step()
            scheduler.step()
        found.append(path)
    assert_equal_rates(*found)
