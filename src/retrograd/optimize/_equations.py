"""``root``, ``fsolve`` and ``fixed_point``: systems of equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.func._jacobians import jacfwd
from retrograd.func._programs import Evaluation
from retrograd.ops._operation import raw
from retrograd.optimize._implicit import Problem
from retrograd.optimize._points import Point
from retrograd.tensor._tensor import Tensor

WITH_JACOBIAN = ("hybr", "lm")


def as_args(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


class Equations(Problem):
    """A square system of equations, ``fun(x) = 0``."""

    name = "root"

    def __init__(
        self, fun: Callable[..., Any], x0: Any, args: tuple[Any, ...], solver: Callable[..., Any],
        name: str,
    ) -> None:  # fmt: skip
        """``solver`` takes a function of arrays, its Jacobian and a start, and returns SciPy's
        result."""
        super().__init__(args)
        self.name = name
        self.point = Point(x0, name)
        self.solver = solver
        self._residual = _residual_of(fun, self.point)
        self.look_at(fun)
        of_values: Callable[[], Any] = lambda: self.parameters.of_values(self._residual)
        self._value = self.evaluation(fun, "value", of_values, "value")
        self._jacobian = self.evaluation(fun, "jacobian", lambda: jacfwd(of_values()), "matrix")

    def functions(self, x: Tensor, tree: Any) -> Tensor:
        return self._residual(x, tree)

    def residual(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        found: Tensor = self.parameters.call(self.functions, values, x)
        return found

    def solve(self, x0: Any, values: Sequence[Tensor]) -> Tensor:
        result = self.solver(
            once(lambda x: doubles(self._value, vector(x, x0), *values)),
            once(lambda x: doubles(self._jacobian, vector(x, x0), *values)), wide(x0),
        )  # fmt: skip
        self.results.append(result)
        return vector(result.x, x0)


def _residual_of(fun: Callable[..., Any], point: Point) -> Callable[[Tensor, Any], Tensor]:
    return lambda x, args: point.residual_of(fun(point.tree(x), *args), "fun")


def once(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of an array that is not called again at the point of the last call: SciPy looks at
    the shapes of results at the start, and begins with the same point."""
    last: list[Any] = []

    def called(x: Any) -> Any:
        point = x.tobytes()
        if not last or last[0] != point:
            last[:] = point, function(x)
        return arrays.copy(last[1])

    return called


def vector(x: Any, like: Tensor) -> Tensor:
    """An array of SciPy's as a Tensor of the dtype of another."""
    found: Tensor = wrap(arrays.asarray(x, raw(like).dtype))
    return found


def wide(x: Tensor) -> Any:
    """A Tensor as an array of the dtype that SciPy computes in."""
    return arrays.asarray(raw(x), arrays.float64)


def doubles(function: Evaluation, *tensors: Tensor) -> Any:
    """What a function of tensors gives, as an array of the dtype that SciPy computes in."""
    return arrays.asarray(function.arrays(*tensors)[0], arrays.float64)


def merged(results: Sequence[Any]) -> Any:
    """SciPy's result; for a batch, the results of all entries combined."""
    result = arrays.solvers.result(**results[0])
    if len(results) > 1:
        failed = [r for r in results if not r.success]
        result = arrays.solvers.result(
            success=not failed, status=(failed or results)[0].status,
            message=(failed or results)[0].message,
        )  # fmt: skip
        for name in ("nfev", "njev", "nhev", "nit"):
            if name in results[0]:
                result[name] = sum(r[name] for r in results)
    return result


def solved(problem: Problem) -> tuple[Any, Tensor]:
    """SciPy's result with ``x`` as the user's tree, and the solution as a vector."""
    x = problem.solution(problem.point.vector)
    result = merged(problem.results)
    known = x[: problem.point.count] if x.numel() > problem.point.count else x
    result.x = problem.point.user_tree(known, keep_tensors=problem.has_derivatives)
    return result, known


def root(
    fun: Callable[..., Any], x0: Any, args: Any = (), method: str = "hybr",
    tol: float | None = None, callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Finds a root of a function, as ``scipy.optimize.root`` does, with the exact Jacobian.

    ``x`` of the result is differentiable with respect to ``args``, and to tensors that ``fun`` uses
    and that were not passed to it: see ``implicit``.

    Args:
        fun: A function of ``x`` and ``args``, written with Tensors, that returns as many numbers as
            ``x`` has: a Tensor, or a tree of them.
        x0: Where to start: a Tensor, an array, or a tuple, list or dictionary of them.
        args: Further arguments of ``fun``.
        method: As in SciPy. The Jacobian is passed to "hybr" and "lm"; others do without.
        tol: The tolerance for termination.
        callback: Called by the methods that SciPy calls one for, with ``x`` and the residual as
            arrays.
        options: As in SciPy.

    Returns:
        SciPy's ``OptimizeResult``, where ``x`` is a tree like ``x0``: tensors and arrays as given,
        or tensors only if they have derivatives.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import root
        >>> a = torch.tensor(9.0, requires_grad=True)
        >>> result = root(lambda x, a: x**2 - a, torch.tensor(1.0), args=(a,))
        >>> result.x.detach(), result.success
        (tensor(3.), True)
        >>> result.x.backward(); a.grad
        tensor(0.1667)
    """

    def solver(value: Any, jacobian: Any, start: Any) -> Any:
        jac = jacobian if method in WITH_JACOBIAN else None
        return arrays.solvers.root(
            value, start, method=method, jac=jac, tol=tol, callback=callback, options=options
        )

    return solved(Equations(fun, x0, as_args(args), solver, "root"))[0]


def fsolve(
    func: Callable[..., Any], x0: Any, args: Any = (), *, xtol: float = 1.49012e-08,
    maxfev: int = 0, factor: float = 100,
) -> Any:  # fmt: skip
    """Finds a root of a function, as ``scipy.optimize.fsolve`` does: ``root`` with another
    interface.

    Args:
        func: A function of ``x`` and ``args``: see ``root``.
        x0: Where to start.
        args: Further arguments of ``func``.
        xtol: The relative error of ``x`` at which to stop.
        maxfev: The largest number of evaluations; 0 for SciPy's default.
        factor: A bound of the first step.

    Returns:
        The solution: a tree like ``x0``.

    Raises:
        RuntimeError: if no root was found. (SciPy warns only.)

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import fsolve
        >>> fsolve(lambda x: torch.cos(x) - x, torch.tensor(1.0))
        tensor(0.7391)
    """
    options = {"xtol": xtol, "maxfev": maxfev, "factor": factor}
    result = root(func, x0, args, options=options)
    if not result.success:
        raise RuntimeError(f"fsolve: no root was found: {' '.join(result.message.split())}")
    return result.x


class _FixedPoint(Equations):
    """``x - func(x)`` is zero; solved by iteration."""

    def __init__(
        self, func: Callable[..., Any], x0: Any, args: tuple[Any, ...], xtol: float, maxiter: int
    ) -> None:
        super().__init__(func, x0, args, self._iterated, "fixed_point")
        self.xtol, self.maxiter = xtol, maxiter

    def residual(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        return x - super().residual(x, values)

    def _iterated(self, value: Any, jacobian: Any, x: Any) -> Any:
        found = arrays.solvers.fixed_point(value, x, xtol=self.xtol, maxiter=self.maxiter)
        return arrays.solvers.result(x=found, success=True)


def fixed_point(
    func: Callable[..., Any], x0: Any, args: Any = (), xtol: float = 1e-8, maxiter: int = 500
) -> Any:
    """Finds a fixed point of a function, ``func(x) = x``, as ``scipy.optimize.fixed_point`` does.

    Args:
        func: A function of ``x`` and ``args``, written with Tensors, that returns a tree like
            ``x0``.
        x0: Where to start: a Tensor, an array, or a tree of them.
        args: Further arguments of ``func``.
        xtol: The relative change of ``x`` at which to stop.
        maxiter: The largest number of iterations.

    Returns:
        The fixed point: a tree like ``x0``, differentiable with respect to ``args`` and to tensors
        that ``func`` has captured.

    Raises:
        RuntimeError: if the iteration does not converge.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import fixed_point
        >>> a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        >>> x = fixed_point(lambda x, a: (x + a / x) / 2, torch.tensor(1.0).double(), args=(a,))
        >>> x.detach(), torch.autograd.grad(x, a)
        (tensor(1.4142, dtype=torch.float64), (tensor(0.3536, dtype=torch.float64),))
    """
    problem = _FixedPoint(func, x0, as_args(args), xtol, maxiter)
    return solved(problem)[0].x
