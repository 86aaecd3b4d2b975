"""SciPy's integrators, and the coefficients of their methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import integrate as _integrate  # type: ignore[import-untyped]
from scipy.integrate._ivp import ivp as _ivp  # type: ignore[import-untyped]

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
