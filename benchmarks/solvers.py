"""SciPy's solvers with derivatives from here, written by hand, and by finite differences.

All methods call the same SciPy functions, in one process with one thread, and take turns. Times are
those of the processor, so that whatever else the machine does is not counted. "calls" are those of
the user's function, or the steps where a library does not count calls. Solutions are compared with
each other. Solvers of JAX (``libraries.jax_solvers``) take part if they are installed. They are run
once before, so that compiling is not counted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.integrate
import scipy.optimize

import retrograd as torch
from benchmarks._runner import Column, Progress, Result, Row, Target, show_ratio, show_seconds
from benchmarks.libraries import jax_solvers
from retrograd.integrate import solve_ivp
from retrograd.optimize import minimize, root

D = torch.float64
LABELS = {
    "retrograd": "retrograd", "hand": "SciPy, derivatives by hand",
    "differences": "SciPy, finite differences", **jax_solvers.LABELS,
}  # fmt: skip
# What a method returns: the solution, and how often it called the function.
Method = Callable[[], tuple[Any, int]]


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
    counted = Counted(fun)  # it changes what it can see at each call, and so is no program
    solved(counted)

    def with_tensors() -> tuple[Any, int]:
        return solved(fun), counted.calls

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


def measure(name: str, rounds: int, progress: Progress) -> Result:
    title, make, tolerance = PROGRAMS[name]
    methods = make()
    seconds: dict[str, list[float]] = {key: [] for key in methods}
    found: dict[str, tuple[Any, int]] = {}
    progress.start(name, rounds)
    for key in methods.keys() & jax_solvers.LABELS.keys():
        methods[key]()
    for _ in range(rounds):
        for key, method in methods.items():
            before = time.process_time()
            found[key] = method()
            seconds[key].append(time.process_time() - before)
        progress.step()
    reference = np.asarray(found["hand"][0])
    for key, (solution, _) in found.items():
        error = np.max(np.abs(np.asarray(solution) - reference)) / np.max(np.abs(reference))
        # What stops after so many steps depends on the method.
        stopped = name == "rosenbrock" and key in ("jaxopt:own", "optimistix")
        if key != "differences" and not stopped and not error <= tolerance:
            raise AssertionError(f"{name}, {key}: off by {error:.1e} of the solution")
    rows = []
    for key in methods:
        pairs = zip(seconds[key], seconds["hand"], strict=True)
        figures = {
            "seconds": statistics.median(seconds[key]), "calls": float(found[key][1]),
            "ratio": statistics.median(a / b for a, b in pairs),
            "calls_ratio": found[key][1] / found["differences"][1],
        }  # fmt: skip
        rows.append(Row(key, LABELS[key], figures))
    columns = [
        Column("seconds", "time", show_seconds), Column("ratio", "× by hand", show_ratio),
        Column("calls", "calls", lambda x: f"{x:,.0f}"),
    ]  # fmt: skip
    targets = [
        Target("retrograd", "ratio", 1.2, "at most 1.2 of derivatives written by hand"),
        Target("retrograd", "calls_ratio", 1.0, "fewer calls than differences"),
    ]
    return Result(name, title, columns, rows, targets)


def run(names: Sequence[str], rounds: int, progress: Progress) -> list[Result]:
    results = []
    for name in names:
        results.append(measure(name, rounds, progress))
        progress.clear()
        print(f"\n{results[-1]}")
    return results
