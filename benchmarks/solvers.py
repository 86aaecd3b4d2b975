"""SciPy's solvers with derivatives from here, written by hand, and by finite differences.

"first solve" is what a program pays that solves a problem once: the first solve of a process, after
imports. "later" is what a program pays that solves it again and again: solves after the first 41.
Both are medians over several processes, in which all methods take turns, in one thread. Times are
those of the processor, so that whatever else the machine does is not counted. "calls" are those of
the user's function, or the steps where a library does not count calls. Solutions are compared with
each other. Solvers of JAX (``libraries.jax_solvers``) take part if they are installed; what they
compile is a part of their first solve.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.integrate
import scipy.optimize

import retrograd as torch
from benchmarks._runner import Column, Progress, Result, Row, Target, show_ratio, show_seconds
from benchmarks._workers import ONE_THREAD, WorkerError
from benchmarks.libraries import jax_solvers
from retrograd.integrate import solve_ivp
from retrograd.optimize import minimize, root

D = torch.float64
LABELS = {
    "retrograd": "retrograd", "hand": "SciPy, derivatives by hand",
    "differences": "SciPy, finite differences", **jax_solvers.LABELS,
}  # fmt: skip
# What a method returns: the solution, and how often it called the function (or what tells that).
Method = Callable[[], tuple[Any, Any]]
PROCESSES = 5
WARM_UP = 40  # solves of each method between the first and those that count as later
SLOW = 1.0  # seconds; a method that takes longer is solved twice only


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.function(*args)


# -- the problems ----------------------------------------------------------------------------------


def rosenbrock() -> dict[str, Method]:
    start = np.tile([-1.2, 1.0], 500)
    options = {"maxiter": 60}

    def value(x: Any) -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def by_hand(x: Any) -> Any:
        step, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
        gradient = np.zeros_like(x)
        gradient[1:] = 200 * step
        gradient[:-1] -= 400 * x[:-1] * step + 2 * rest
        return (100 * step**2 + rest**2).sum(), gradient

    def with_tensors() -> tuple[Any, int]:
        found = minimize(value, start, method="L-BFGS-B", options=options)
        return found.fun, found.nfev

    def scipy_with(function: Any, jac: Any, options: Any) -> tuple[Any, int]:
        counted = Counted(function)
        found = scipy.optimize.minimize(counted, start, method="L-BFGS-B", jac=jac, options=options)
        return found.fun, counted.calls

    return {
        "retrograd": with_tensors,
        "hand": lambda: scipy_with(by_hand, True, options),
        "differences": lambda: scipy_with(value, None, {**options, "maxfun": 10**7}),
        **jax_solvers.minimized(lambda xp, x: value(x), start, options),
    }


def logistic() -> dict[str, Method]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2000, 50))
    y = np.where(x @ generator.normal(size=50) + generator.normal(size=2000) > 0, 1.0, -1.0)
    data, labels = torch.tensor(x), torch.tensor(y)

    def loss(w: Any) -> Any:
        return torch.nn.functional.softplus(-labels * (data @ w)).mean() + 0.01 * (w * w).sum()

    def value(w: Any) -> Any:
        return np.logaddexp(0, -y * (x @ w)).mean() + 0.01 * (w * w).sum()

    def by_hand(w: Any) -> Any:
        margin = -y * (x @ w)
        shares = -y / (1 + np.exp(-margin)) / len(y)
        return np.logaddexp(0, margin).mean() + 0.01 * (w * w).sum(), x.T @ shares + 0.02 * w

    def with_tensors() -> tuple[Any, int]:
        found = minimize(loss, np.zeros(50), method="L-BFGS-B")
        return found.fun, found.nfev

    def scipy_with(function: Any, jac: Any) -> tuple[Any, int]:
        counted = Counted(function)
        found = scipy.optimize.minimize(counted, np.zeros(50), method="L-BFGS-B", jac=jac)
        return found.fun, counted.calls

    return {
        "retrograd": with_tensors,
        "hand": lambda: scipy_with(by_hand, True),
        "differences": lambda: scipy_with(value, None),
        **jax_solvers.minimized(
            lambda xp, w: xp.logaddexp(0.0, -y * (x @ w)).mean() + 0.01 * (w * w).sum(),
            np.zeros(50), {},
        ),
    }  # fmt: skip


def heat() -> dict[str, Method]:
    """A step of the implicit Euler method, where the conductivity depends on the temperature."""
    n, dt = 100, 1e-3
    grid = np.linspace(0, 1, n + 2)[1:-1]
    before = np.sin(np.pi * grid)
    plain_before, scale = torch.tensor(before), dt * (n + 1) ** 2

    def residual(u: Any, before: Any, padded: Any) -> Any:
        middle = (padded[1:] + padded[:-1]) / 2
        flow = (1 + middle * middle) * (padded[1:] - padded[:-1])
        return u - before - scale * (flow[1:] - flow[:-1])

    def with_zeros(u: Any) -> Any:
        return np.concatenate([[0.0], u, [0.0]])

    def value(u: Any) -> Any:
        return residual(u, before, with_zeros(u))

    def jacobian(u: Any) -> Any:
        padded = with_zeros(u)
        middle, step = (padded[1:] + padded[:-1]) / 2, padded[1:] - padded[:-1]
        right, left = middle * step + 1 + middle**2, middle * step - 1 - middle**2
        whole = np.diag(1 - scale * (left[1:] - right[:-1]))
        return whole - scale * (np.diag(right[1:-1], 1) - np.diag(left[1:-1], -1))

    def with_pad(u: Any) -> Any:
        return residual(u, plain_before, torch.nn.functional.pad(u, (1, 1)))

    def with_tensors() -> tuple[Any, int]:
        found = root(with_pad, before)
        return found.x, found.nfev

    def scipy_with(jac: Any) -> tuple[Any, int]:
        counted = Counted(value)
        found = scipy.optimize.root(counted, before, jac=jac)
        return found.x, counted.calls

    return {
        "retrograd": with_tensors,
        "hand": lambda: scipy_with(jacobian),
        "differences": lambda: scipy_with(None),
        **jax_solvers.root_of(lambda xp, u: residual(u, before, xp.pad(u, 1)), before),
    }


RATES = [0.04, 3e7, 1e4]


def robertson() -> dict[str, Method]:
    """The state at t = 40, and its derivatives by the three rates."""
    options: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-9}
    start = [1.0, 0.0, 0.0]

    def rates(t: Any, y: Any, k: Any) -> tuple[Any, Any, Any]:
        a, b, c = k[0] * y[0], k[1] * y[1] * y[1], k[2] * y[1] * y[2]
        return c - a, a - b - c, b

    def solved(fun: Any) -> Any:
        k = torch.tensor(RATES, dtype=D, requires_grad=True)
        y0 = torch.tensor(start, dtype=D)
        y = solve_ivp(fun, (0.0, 40.0), y0, "Radau", t_eval=[40.0], args=(k,), **options).y
        (gradient,) = torch.autograd.grad(y[0, 0], k)
        return gradient.numpy() * RATES

    fun = lambda t, y, k: torch.stack(rates(t, y, k))

    def calls() -> int:
        counted = Counted(fun)
        solved(counted)
        return counted.calls

    def with_tensors() -> tuple[Any, Any]:
        return solved(fun), calls

    def augmented(t: float, z: Any) -> Any:
        y, s, k = z[:3], z[3:].reshape(3, 3), RATES
        by_y = np.array([[-k[0], k[2] * y[2], k[2] * y[1]],
                         [k[0], -2 * k[1] * y[1] - k[2] * y[2], -k[2] * y[1]],
                         [0.0, 2 * k[1] * y[1], 0.0]])  # fmt: skip
        by_k = np.array([[-y[0], 0, y[1] * y[2]], [y[0], -y[1] ** 2, -y[1] * y[2]],
                         [0, y[1] ** 2, 0]])  # fmt: skip
        return np.concatenate([rates(t, y, k), (by_y @ s + by_k).reshape(-1)])

    def by_hand() -> tuple[Any, int]:
        counted = Counted(augmented)
        z0 = np.concatenate([start, np.zeros(9)])
        z = scipy.integrate.solve_ivp(counted, (0.0, 40.0), z0, "Radau", **options).y[:, -1]
        return z[3:6] * RATES, counted.calls

    def by_differences() -> tuple[Any, int]:
        counted = Counted(lambda t, y, k: np.array(rates(t, y, k)))
        end = lambda k: scipy.integrate.solve_ivp(
            counted, (0.0, 40.0), start, "Radau", args=(k,), rtol=1e-9, atol=1e-13
        ).y[0, -1]
        found = []
        for i in range(3):
            high, low = (
                [k * (1 + s * (i == j)) for j, k in enumerate(RATES)] for s in (1e-4, -1e-4)
            )
            found.append((end(high) - end(low)) / 2e-4)
        return np.array(found), counted.calls

    return {
        "retrograd": with_tensors, "hand": by_hand, "differences": by_differences,
        **jax_solvers.stiff(rates, start, RATES, 40.0),
    }  # fmt: skip


PROGRAMS: dict[str, tuple[str, Callable[[], dict[str, Method]], float]] = {
    "rosenbrock": ("60 iterations of L-BFGS-B on Rosenbrock's function in 1,000 dimensions",
                   rosenbrock, 1e-3),
    "logistic": ("a logistic regression, 2,000 rows of 50 features, by L-BFGS-B", logistic, 1e-4),
    "heat": ("a step of an implicit heat equation at 100 points, by root()", heat, 1e-6),
    "robertson": ("Robertson's stiff equation to t = 40, with derivatives by its rates, by Radau",
                  robertson, 2e-2),
}  # fmt: skip
NAMES = tuple(PROGRAMS)


@dataclass
class Times:
    """What one process measured: processor time for each method, and the calls of the function."""

    first: dict[str, float]  # of the first solve
    later: dict[str, list[float]]  # of later ones, in turns
    calls: dict[str, int]


def timed(name: str, rounds: int, turn: int) -> Times:
    """Solve a problem by all methods in this process. ``turn``: which method begins."""
    _, make, tolerance = PROGRAMS[name]
    methods = make()
    keys = list(methods)
    keys = keys[turn % len(keys) :] + keys[: turn % len(keys)]
    found: dict[str, tuple[Any, Any]] = {}

    def seconds(key: str) -> float:
        before = time.process_time()
        found[key] = methods[key]()
        return time.process_time() - before

    first = {key: seconds(key) for key in keys}
    for _ in range(WARM_UP):
        for key in keys:
            if first[key] < SLOW:
                seconds(key)
    later: dict[str, list[float]] = {key: [] for key in keys}
    # In one order, the same method would always find the caches as the slowest one leaves them.
    orders = random.Random(turn)
    for i in range(rounds):
        for key in orders.sample(keys, len(keys)):
            if i == 0 or first[key] < SLOW:
                later[key].append(seconds(key))
    _compare(name, tolerance, {key: solution for key, (solution, _) in found.items()})
    calls = {key: count() if callable(count) else count for key, (_, count) in found.items()}
    return Times(first, later, calls)


def _compare(name: str, tolerance: float, solutions: dict[str, Any]) -> None:
    """AssertionError if methods do not agree."""
    reference = np.asarray(solutions["hand"])
    for key, solution in solutions.items():
        error = np.max(np.abs(np.asarray(solution) - reference)) / np.max(np.abs(reference))
        # What stops after so many steps depends on the method.
        stopped = name == "rosenbrock" and key in ("jaxopt:own", "optimistix")
        if key != "differences" and not stopped and not error <= tolerance:
            raise AssertionError(f"{name}, {key}: off by {error:.1e} of the solution")


def in_new_process(name: str, rounds: int, turn: int, bytecode: str) -> Times:
    """As ``timed``, in a process that has solved nothing before. Modules are loaded from bytecode,
    as they are for users, even if Python is told not to write any here."""
    environment = {**ONE_THREAD, **os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "benchmarks.solvers", name, str(rounds), str(turn)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise WorkerError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    return Times(**json.loads(done.stdout))


def measure(name: str, rounds: int, progress: Progress, processes: int = PROCESSES) -> Result:
    progress.start(name, processes)
    with tempfile.TemporaryDirectory() as bytecode:
        in_new_process(name, 1, 0, bytecode)
        runs = []
        for turn in range(processes):
            runs.append(in_new_process(name, rounds, turn, bytecode))
            progress.step()
    first = {key: [run.first[key] for run in runs] for key in LABELS if key in runs[0].first}
    later = {key: [t for run in runs for t in run.later[key]] for key in first}
    calls = {key: float(runs[0].calls[key]) for key in first}
    rows = [
        Row(key, LABELS[key], {
            "first": statistics.median(first[key]), "first_ratio": _ratio(first, key),
            "later": statistics.median(later[key]), "later_ratio": _ratio(later, key),
            "calls": calls[key], "calls_ratio": calls[key] / calls["differences"],
        })
        for key in first
    ]  # fmt: skip
    columns = [
        Column("first", "first solve", show_seconds), Column("first_ratio", "× hand", show_ratio),
        Column("later", "later", show_seconds), Column("later_ratio", "× hand", show_ratio),
        Column("calls", "calls", lambda x: f"{x:,.0f}"),
    ]  # fmt: skip
    targets = [
        Target("retrograd", "first_ratio", 1.2, "the first solve at most 1.2 of by hand"),
        Target("retrograd", "later_ratio", 1.2, "later ones at most 1.2 of by hand"),
        Target("retrograd", "calls_ratio", 1.0, "fewer calls than differences"),
    ]
    return Result(name, PROGRAMS[name][0], columns, rows, targets)


def _ratio(times: dict[str, list[float]], key: str) -> float:
    """The median over the rounds; of methods that sat rounds out, the ratio of medians."""
    mine, hand = times[key], times["hand"]
    if len(mine) != len(hand):
        return statistics.median(mine) / statistics.median(hand)
    return statistics.median(a / b for a, b in zip(mine, hand, strict=True))


def run(names: Sequence[str], rounds: int, progress: Progress) -> list[Result]:
    results = []
    for name in names:
        results.append(measure(name, rounds, progress))
        progress.clear()
        print(f"\n{results[-1]}")
    return results


if __name__ == "__main__":
    print(json.dumps(vars(timed(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
