"""Functions that solvers call many times run as programs, and nobody notices but by the time."""

from __future__ import annotations

import functools
import logging
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as torch
import retrograd.compiler  # it is used if it is there
from retrograd.func import _programs
from retrograd.integrate import solve_ivp
from retrograd.optimize import curve_fit, least_squares, minimize, root

D = torch.float64
START = np.tile([-1.2, 1.0], 5)
T = torch.linspace(0, 1, 20, dtype=D)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that are called many times, soon as programs."""
    found: list[Any] = []
    init = _programs.Evaluation.__init__

    def noted(self: Any, *args: Any) -> None:
        init(self, *args)
        found.append(self)

    monkeypatch.setattr(_programs.Evaluation, "__init__", noted)
    monkeypatch.setattr(_programs, "CALLS", dict.fromkeys(_programs.CALLS, 2))
    vars(rosenbrock).clear()  # of what it has kept
    return found


def programs(made: list[Any]) -> int:
    """How many of the functions are programs."""
    return sum(bool(getattr(e.function, "entries", None)) for e in made)


def eagerly(solve: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(_programs, "CALLS", dict.fromkeys(_programs.CALLS, 10**9))
    vars(rosenbrock).clear()
    return solve()


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def robertson() -> Any:
    k = torch.tensor([0.04, 3e7, 1e4], dtype=D, requires_grad=True)

    def rate(t: Any, y: Any, k: Any) -> Any:
        a, b, c = k[0] * y[0], k[1] * y[1] * y[1], k[2] * y[1] * y[2]
        return torch.stack([c - a, a - b - c, b])

    y0 = torch.tensor([1.0, 0.0, 0.0], dtype=D)
    y = solve_ivp(rate, (0.0, 1.0), y0, "Radau", args=(k,)).y
    return y.detach().numpy(), *[x.numpy() for x in torch.autograd.grad(y[0, -1], k)]


def oscillator() -> Any:
    k = torch.tensor(2.0, dtype=D, requires_grad=True)
    layer = lambda t, y: torch.stack([y[1], -k * y[0] + 0.1 * t])  # k is captured
    times = [0.5, 1.5]
    y = solve_ivp(layer, (0.0, 2.0), torch.tensor([1.0, 0.0], dtype=D), t_eval=times).y
    return y.detach().numpy(), torch.autograd.grad(y[0].sum(), k)[0].numpy()


def with_captures() -> Any:
    a = torch.linspace(1, 2, 10, dtype=D).requires_grad_()
    x = minimize(lambda x, b: ((x - a) ** 4).sum() + (b * x * x).sum(), START, args=(a * 0.1,)).x
    return x.detach().numpy(), torch.autograd.grad(x.sum(), a)[0].numpy()


SOLVES: dict[str, tuple[Callable[[], Any], int]] = {
    "minimize": (lambda: minimize(rosenbrock, START, method="L-BFGS-B").x, 1),
    "hessian": (lambda: minimize(rosenbrock, START, method="trust-exact").x, 2),
    "without gradient": (
        lambda: minimize(rosenbrock, START[:2], method="Nelder-Mead", tol=1e-3).x, 1),
    "root": (lambda: root(lambda x: x**3 + x.flip(0) - 2, START).x, 1),
    "least_squares": (
        lambda: least_squares(lambda p: (-p[0] * T).exp() + p[1] - T, np.array([3.0, 2.0])).x, 2),
    "curve_fit": (
        lambda: curve_fit(lambda x, a, b: a * (-b * x).exp(), T, 1 / (1 + T))[0].numpy(), 2),
    "explicit steps": (oscillator, 2),
    "implicit steps": (robertson, 4),
    "captures": (with_captures, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SOLVES)
def test_programs_give_what_eager_mode_does(
    name: str, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    solve, count = SOLVES[name]
    found = solve()
    assert programs(made) == count
    expected = eagerly(solve, monkeypatch)
    pairs = zip(found, expected, strict=True) if type(found) is tuple else [(found, expected)]
    assert all(np.array_equal(a, b) for a, b in pairs)  # to the bit


class Counting:
    def __init__(self) -> None:
        self.calls = 0
        self.seen: list[Any] = []

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return rosenbrock(x)

    def noting(self, x: Any) -> Any:
        self.seen.append(float(x.detach()[0]))
        return rosenbrock(x)


def branching(x: Any) -> Any:
    return rosenbrock(x) if x[0] < 0.5 else rosenbrock(x) + 0.0 * x[0]


def printing(x: Any) -> Any:
    print("called")
    return rosenbrock(x)


def logging_to_file(x: Any) -> Any:
    logging.getLogger(__name__).debug("called")
    return rosenbrock(x)


@pytest.mark.parametrize("fun", [branching, printing, logging_to_file, Counting().noting])
def test_what_does_more_than_compute_stays_eager(fun: Any, made: list[Any]) -> None:
    found = minimize(fun, START, method="L-BFGS-B")
    assert programs(made) == 0
    assert np.array_equal(found.x, minimize(rosenbrock, START, method="L-BFGS-B").x)


def test_every_call_is_counted_and_printed(
    made: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    counting = Counting()
    found = minimize(counting, START, method="L-BFGS-B")
    assert counting.calls == found.nfev + 1  # one to see what it uses
    found = minimize(printing, START, method="L-BFGS-B")
    assert capsys.readouterr().out.count("called") == found.nfev + 1


def test_what_a_callback_changes_counts(made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def solve() -> Any:
        weight, data, numbers = {"of": 1.0}, torch.ones(10, dtype=D), np.ones(10)
        shared = torch.from_numpy(np.ones(10))

        def fun(x: Any) -> Any:
            return weight["of"] * rosenbrock(x) + ((x - data) ** 2 * numbers * shared).sum()

        def callback(x: Any) -> None:
            weight["of"] *= 1.5
            data.mul_(1.1)
            numbers[:] *= 0.9
            shared.numpy()[:] *= 0.8

        return minimize(fun, START, method="BFGS", callback=callback, options={"maxiter": 12}).x

    assert np.array_equal(solve(), eagerly(solve, monkeypatch))


def test_other_threads_see_no_traced_values(made: list[Any]) -> None:
    ready, done = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    try:
        minimize(rosenbrock, START, method="L-BFGS-B")
        assert programs(made) == 0
    finally:
        done.set()
        thread.join()


def test_errors_of_the_function_are_its_own(made: list[Any]) -> None:
    calls: list[None] = []

    def fun(x: Any) -> Any:
        calls.append(None)
        if len(calls) > 3:  # the call that is traced
            raise KeyError("mine")
        return rosenbrock(x)

    with pytest.raises(KeyError, match="mine"):
        minimize(fun, START, method="L-BFGS-B")


def test_programs_are_kept_for_the_next_solve(
    made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = {"of": 2.0}
    data = torch.ones(10, dtype=D)

    def fun(x: Any, a: Any) -> Any:
        return weight["of"] * ((x - a * data) ** 2).sum() + rosenbrock(x)

    def solve(value: float, start: Any = START) -> Any:
        a = torch.tensor(value, dtype=D, requires_grad=True)
        x = minimize(fun, start, args=(a,), method="L-BFGS-B").x
        return x.detach().numpy(), torch.autograd.grad(x.sum(), a)[0].numpy()

    found = [solve(0.5), solve(0.7)]
    count = len(made)
    assert programs(made) == 1
    found.append(solve(0.9))
    assert len(made) == count  # nothing is made for it
    weight["of"] = 3.0
    found.append(solve(0.9))
    data.mul_(2.0)
    found.append(solve(0.9))
    assert len(made) == count
    solve(0.9, START.astype(np.float32))
    assert len(made) > count  # another dtype
    expected = []
    vars(fun).clear()
    for weight["of"], factor, a in ((2.0, 0.5, 0.5), (2.0, 1, 0.7), (2.0, 1, 0.9), (3.0, 1, 0.9),
                                    (3.0, 2, 0.9)):  # fmt: skip
        data.mul_(factor)
        expected.append(eagerly(lambda a=a: solve(a), monkeypatch))
    for pair in zip(found, expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(*pair, strict=True))


def test_calls_of_all_solves_count_toward_a_program(made: list[Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(_programs, "CALLS", {"value": 10**9, "gradient": 10**9, "matrix": 4})
    jacobians = 0

    def fun(x: Any) -> Any:
        return x**3 + x.flip(0) - 2

    found = []
    for _ in range(6):
        result = root(fun, START)
        found.append(result.x)
        jacobians += result.njev
        assert programs(made) == int(jacobians > 5)  # one more, which is the one that is traced
    assert jacobians > 5
    assert len(made) == 2  # the function and its Jacobian, for all solves
    assert all(np.array_equal(x, found[0]) for x in found)


def test_the_compiler_is_loaded_when_eager_calls_have_taken_as_long_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_programs._Eager, "seconds", 0.0)
    monkeypatch.setattr(_programs, "LOADING", 0.02)
    monkeypatch.delitem(sys.modules, "retrograd.compiler", raising=False)
    clock = iter(range(10**6))
    monkeypatch.setattr(_programs.time, "perf_counter", lambda: next(clock) * 0.002)
    one, other = (_programs.Evaluation(lambda x: x + 1, "matrix") for _ in range(2))
    x = torch.ones(1)
    for _ in range(7):
        one(x)  # 2 ms each; the first does not count
    assert not one.is_program
    for _ in range(5):
        other(x)
    assert not other.is_program
    one(x)
    assert one.is_program
    assert _programs._Eager.seconds > _programs.LOADING
    assert not other.is_program  # it has not been called often enough
    assert one(x).item() == 2.0


def test_code_that_is_loaded_again_is_traced_again(made: list[Any]) -> None:
    def fun(x: Any) -> Any:
        return ((x - 1) ** 2).sum()

    for _ in range(3):
        minimize(fun, START, method="L-BFGS-B")
    assert programs(made) == 1
    fun.__code__ = (lambda x: ((x - 2) ** 2).sum()).__code__
    np.testing.assert_allclose(minimize(fun, START, method="L-BFGS-B").x, 2.0, atol=1e-5)


def test_a_wrapper_has_nothing_of_what_it_wraps(made: list[Any]) -> None:
    def fun(x: Any) -> Any:
        return ((x - 1) ** 2).sum()

    minimize(fun, START, method="L-BFGS-B")
    minimize(fun, START, method="L-BFGS-B")

    @functools.wraps(fun)
    def other(x: Any) -> Any:
        return ((x - 2) ** 2).sum()

    np.testing.assert_allclose(minimize(other, START, method="L-BFGS-B").x, 2.0, atol=1e-5)
    assert pickle.loads(pickle.dumps(vars(other)["__retrograd__"])).known == {}


def test_steps_through_a_network_are_one_program_with_and_one_without_gradients(
    made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).to(D)
    torch.tanh(T)  # its function is loaded: it refers to modes

    def rate(t: Any, y: Any) -> Any:
        return net(y)

    def solve() -> list[Any]:
        result = []
        for _ in range(3):
            y = solve_ivp(rate, (0, 2), torch.tensor([1.0, 0.0], dtype=D), t_eval=T * 2).y
            y.sum().backward()  # by a gradient that is expanded
            result += [y.detach().numpy(), *[p.grad.numpy().copy() for p in net.parameters()]]
        net.zero_grad()
        return result

    found = solve()
    counts = {len(e.function.entries) for e in made if e.is_program}
    reasons = [e.function.eager_because for e in made if e.is_program]
    assert set(reasons) == {None}
    assert counts == {2}
    vars(rate).clear()
    for a, b in zip(found, eagerly(solve, monkeypatch), strict=True):
        assert np.array_equal(a, b)


def test_what_is_captured_is_found_when_there_is_a_program_already(made: list[Any]) -> None:
    data = torch.tensor([1.0, 2.0], dtype=D)

    def fun(x: Any) -> Any:
        return ((x - data) ** 2).sum() + (x**4).sum()

    def rate(t: Any, y: Any, k: Any) -> Any:
        return -k * data * y

    def solved() -> tuple[Any, Any]:
        k = torch.tensor(0.5, dtype=D, requires_grad=True)
        y = solve_ivp(rate, (0.0, 1.0), data.detach(), args=(k,), rtol=1e-10, atol=1e-12).y
        return minimize(fun, np.zeros(2), tol=1e-10).x, y[:, -1].sum()

    with torch.no_grad():
        for _ in range(3):
            solved()
    for _ in range(3):
        solved()[1].backward()
    assert programs(made) >= 3
    data.requires_grad_()
    with torch.no_grad():
        for _ in range(3):
            solved()
    for _ in range(3):  # without a program for this, and with one
        x, y = solved()
        found = torch.autograd.grad(x.sum(), data)[0]
        expected = 2 / (2 + 12 * x.detach() ** 2)  # 2 (x - data) + 4 x³ = 0
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
        found = torch.autograd.grad(y, data)[0]
        d = data.detach()
        np.testing.assert_allclose(found.numpy(), (-0.5 * d * (-0.5 * d).exp()).numpy(), rtol=1e-7)


@pytest.mark.parametrize("branches", [False, True])
def test_stages_together_or_one_after_the_other(branches: bool, made: list[Any]) -> None:
    def rate(t: Any, y: Any, k: Any) -> Any:
        if branches and y[0] < -1.0:  # which has no meaning for a batch
            return 0.0 * y
        return torch.stack([-k * y[0] + t, y[0] - y[1]])

    def end(k: Any) -> Any:
        y0 = torch.tensor([1.0, 0.0], dtype=D)
        return solve_ivp(rate, (0.0, 1.0), y0, "Radau", args=(k,), rtol=1e-9, atol=1e-11).y[1, -1]

    k = torch.tensor(2.0, dtype=D, requires_grad=True)
    found = [torch.autograd.grad(end(k), k)[0].item() for _ in range(3)]
    step = 1e-4
    expected = (end(k.detach() + step) - end(k.detach() - step)).item() / (2 * step)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    single = torch.tensor([1.0, 0.0], requires_grad=True)
    y = solve_ivp(rate, (0.0, 1.0), single, "Radau", args=(torch.tensor(2.0),), rtol=1e-4).y[1, -1]
    (by_y,) = torch.autograd.grad(y, single)
    exact = [np.exp(-1) - np.exp(-2), np.exp(-1)]
    np.testing.assert_allclose(by_y.numpy(), exact, rtol=1e-3)
    assert by_y.dtype == torch.float32
