"""SciPy's solvers, and linear systems with a word on how well they are conditioned. All functions
that are passed in take and return raw arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize as _optimize  # type: ignore[import-untyped]
from scipy.linalg import lapack  # type: ignore[import-untyped]
from scipy.sparse import linalg as _linalg  # type: ignore[import-untyped]

minimize, root, least_squares = _optimize.minimize, _optimize.root, _optimize.least_squares
fixed_point = _optimize.fixed_point
OptimizeResult, OptimizeWarning = _optimize.OptimizeResult, _optimize.OptimizeWarning
Bounds, LinearConstraint = _optimize.Bounds, _optimize.LinearConstraint
NonlinearConstraint, LinearOperator = _optimize.NonlinearConstraint, _linalg.LinearOperator


def result(**fields: Any) -> Any:
    """SciPy's OptimizeResult with the fields given."""
    return _optimize.OptimizeResult(**fields)


class Factors:
    """A square matrix, factored to solve systems of equations with it and with its transpose."""

    def __init__(self, matrix: Any) -> None:
        matrix = np.asarray(matrix, np.float64)
        self.finite = bool(np.isfinite(matrix).all())
        self.condition = 0.0  # the reciprocal of an estimate of the condition number
        if not self.finite or not len(matrix):
            self.condition = float(self.finite)
            return
        # Rows and columns are scaled, so that the units of equations and unknowns do not count.
        self._rows = _scale(np.abs(matrix).max(axis=1))
        matrix = matrix * self._rows[:, None]
        self._columns = _scale(np.abs(matrix).max(axis=0))
        matrix = matrix * self._columns
        self._lu, self._pivots, info = lapack.dgetrf(matrix)
        if info == 0:
            norm = float(np.abs(matrix).sum(axis=0).max())
            self.condition = float(lapack.dgecon(self._lu, norm)[0])

    def solved(self, right: Any, transposed: bool) -> Any:
        """The solution for a vector, or for each column of a matrix."""
        right = np.asarray(right)
        if not right.size:
            return right.copy()
        before, after = self._rows, self._columns
        if transposed:
            before, after = after, before
        wide = np.asarray(right, np.float64).reshape(len(before), -1) * before[:, None]
        solution, _ = lapack.dgetrs(self._lu, self._pivots, wide, trans=int(transposed))
        return (solution * after[:, None]).reshape(right.shape).astype(right.dtype)


def _scale(sizes: Any) -> Any:
    return 1 / np.where(sizes == 0.0, 1.0, sizes)


def iterated(
    product: Callable[[Any], Any], right: Any, symmetric: bool, tolerance: float
) -> tuple[Any, float]:
    """Solve a linear system given by matrix-vector products; returns the solution and the relative
    residual."""
    right = np.asarray(right, np.float64)
    size = float(np.linalg.norm(right))
    if size == 0.0:
        return np.zeros_like(right), 0.0
    operator = _linalg.LinearOperator((len(right), len(right)), matvec=product, dtype=np.float64)
    solution, left = None, np.inf
    if symmetric:  # it may be indefinite; then another method takes over
        solution, _ = _linalg.cg(operator, right, rtol=tolerance, atol=0.0)
        left = float(np.linalg.norm(product(solution) - right)) / size
    if not left <= 10 * tolerance:
        restart = min(len(right), 100)
        solution, _ = _linalg.gmres(operator, right, rtol=tolerance, atol=0.0, restart=restart)
        left = float(np.linalg.norm(product(solution) - right)) / size
    return solution, left


def least_squares_solution(matrix: Any, right: Any) -> Any:
    """The shortest vector that minimizes the residual of a system of equations."""
    return np.linalg.lstsq(np.asarray(matrix, np.float64), np.asarray(right, np.float64))[0]


def step_scale(step: Any, x: Any) -> float:
    """The largest element of a step, relative to a vector (or to 1, where that is small)."""
    if not np.size(x):
        return 0.0
    return float(np.max(np.abs(step)) / max(1.0, float(np.max(np.abs(x)))))


def columns(vectors: Any) -> Any:
    """A matrix with the vectors given as its columns."""
    return np.stack(vectors, 1)


def rows(vectors: Any, width: int) -> Any:
    """A matrix with the vectors given as its rows."""
    return np.stack(vectors) if vectors else np.zeros((0, width))


def linear(
    name: str, product: Callable[[Any], Any], right: Any, start: Any, options: dict[str, Any]
) -> Any:
    """The solution of a linear system by an iterative method of SciPy's."""
    count = 0

    def counted(_: Any) -> None:
        nonlocal count
        count += 1

    size = (len(right), len(right))
    given = {key: x for key, x in options.items() if x is not None}
    if callable(given.get("M")) and not hasattr(given["M"], "matvec"):
        given["M"] = _linalg.LinearOperator(size, matvec=given["M"], dtype=np.float64)
    operator = _linalg.LinearOperator(size, matvec=product, dtype=np.float64)
    if name == "gmres":
        given["callback_type"] = "pr_norm"
    x, info = getattr(_linalg, name)(operator, right, x0=start, callback=counted, **given)
    norm = float(np.linalg.norm(right))
    left = float(np.linalg.norm(product(x) - right)) / norm if norm else 0.0
    return result(x=x, success=info == 0, nit=count, left=left, status=int(info), message="")
