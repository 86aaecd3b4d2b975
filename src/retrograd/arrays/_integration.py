"""SciPy's integrators, and the coefficients of their methods."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy import integrate as _integrate  # type: ignore[import-untyped]
from scipy.integrate._ivp import ivp as _ivp  # type: ignore[import-untyped]

from retrograd.arrays._solvers import Factors

solve_ivp, quad, quad_vec = _integrate.solve_ivp, _integrate.quad, _integrate.quad_vec
OdeResult = _ivp.OdeResult

EXPLICIT = {"RK23": _integrate.RK23, "RK45": _integrate.RK45, "DOP853": _integrate.DOP853}
IMPLICIT = ("Radau", "BDF", "LSODA")

_ROOT = 6**0.5
# Radau's method of order 5, by which steps of all implicit methods are differentiated.
RADAU = (
    [[(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
     [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
     [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9]],
    [(4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0],
)  # fmt: skip


def tableau(method: str) -> tuple[list[list[float]], list[float], list[float]]:
    """The coefficients of an explicit method: of stages, of the result, and of times."""
    kind = EXPLICIT[method]
    count = kind.n_stages
    matrix = np.asarray(kind.A)[:count]
    rows = [[float(x) for x in matrix[i, :i]] for i in range(count)]
    return rows, [float(x) for x in kind.B[:count]], [float(x) for x in kind.C[:count]]


class Stages:
    """The equations of the stages of an implicit step: ``z - h (a ⊗ 1) f = 0`` for the rates ``f``
    at the stages, where ``z`` is how far the state moves until each of them. Rows are stages."""

    t: Any
    y: Any
    times: Any  # of the stages
    scaled: Any  # the coefficients, times the length of the step

    def __init__(self, matrix: Any, times: Any) -> None:
        self.matrix, self.places = np.asarray(matrix), np.asarray(times)
        self.unit = np.zeros((0, 0))

    def at(self, t: Any, h: Any, y: Any) -> Stages:
        """The equations of one step."""
        found = copy.copy(self)
        found.t, found.y = t, y
        found.times = np.asarray(t + self.places * h, y.dtype)
        found.scaled = self.matrix * np.float64(h)
        if len(self.unit) != len(self.places) * len(y):
            self.unit = found.unit = np.eye(len(self.places) * len(y))
        return found

    def factors(self, jacobians: Any, scaled: bool = True) -> Factors:
        """Of the derivative of the equations by ``z``."""
        blocks = self.scaled[:, None, :, None] * jacobians.transpose(1, 0, 2)
        return Factors(self.unit - blocks.reshape(self.unit.shape), scaled)

    def step(self, factors: Factors, z: Any, rates: Any) -> Any:
        """A step of Newton's method from ``z``, with the sign turned."""
        left = (z - self.scaled @ rates).reshape(-1)
        return factors.solved(left, False).reshape(z.shape).astype(z.dtype)

    def sizes(self, change: Any, z: Any) -> tuple[float, float]:
        """Of a change of ``z``, and of what is changed."""
        return float(np.abs(change).max()), float(np.abs(self.y).max() + np.abs(z).max())

    def adjoint(self, factors: Factors, rates: Any, g: Any) -> tuple[Any, Any]:
        """The gradients by the rates and by ``h``, as far as it stands before them, from that of
        the state after the step."""
        right = np.zeros(rates.shape)
        right[-1] = g
        w = factors.solved(right.reshape(-1), True).reshape(rates.shape)
        by_rates = (self.scaled.T @ w).astype(rates.dtype)
        return by_rates, (w * (self.matrix @ rates)).sum()

    def gathered(self, by_times: Any, by_states: Any, by_h: Any, g: Any) -> tuple[Any, Any, Any]:
        """The gradients by the time, the length of the step and the state before it."""
        by_length = (by_h + self.places @ by_times).astype(g.dtype)
        return by_times.sum(), by_length, g + by_states.sum(0)


def segments(grid: Any, times: Any) -> Any:
    """For each time, the number of the step of a grid that it is in; the grid may go down."""
    grid, times = np.asarray(grid, np.float64), np.asarray(times, np.float64)
    sign = 1.0 if grid[-1] >= grid[0] else -1.0
    found = np.searchsorted(sign * grid, sign * times, side="left") - 1
    return np.clip(found, 0, max(len(grid) - 2, 0))


def integral(f: Any, low: float, high: float, options: dict[str, Any]) -> tuple[Any, float]:
    """The integral of a function that returns a vector, and an estimate of its error."""
    width = None
    given = {name: x for name, x in options.items() if x is not None}

    def first(x: float) -> float:
        nonlocal width
        values = f(x)
        width = len(values)
        return float(values[0]) if width else 0.0

    if low == high:
        first(low)
        return np.zeros(width or 0), 0.0
    if "points" in given and not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError("quad: infinite limits cannot be combined with points.")
    middle = 0.5 * (np.clip(low, -1e3, 1e3) + np.clip(high, -1e3, 1e3))
    first(float(middle))
    if width == 1:
        found, error = quad(first, low, high, **given)
        return np.asarray([found]), float(error)
    found, error = quad_vec(f, low, high, norm="max", **given)
    return found, float(error)
