"""``minimize``: minima of functions, with bounds and constraints."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.func._jacobians import jacfwd, jacrev
from retrograd.func._linearize import linearize
from retrograd.func._programs import Evaluation
from retrograd.func._reverse import grad, grad_and_value
from retrograd.func._sparse import sparse_hessian
from retrograd.ops._operation import raw
from retrograd.ops.shapes import slicing
from retrograd.optimize._constraints import (
    SMALL,
    bounds_of,
    check_bounds,
    check_clear,
    constraints_of,
    for_scipy,
    held,
    if_sparse,
    with_bounds,
)
from retrograd.optimize._equations import as_args, doubles, solved, vector, wide
from retrograd.optimize._implicit import Problem
from retrograd.optimize._points import Point
from retrograd.tensor._tensor import Tensor

WITHOUT_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
WITH_HESSIAN = ("dogleg", "trust-exact")
WITH_EITHER = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")  # Hessian, or products
# What is made of a function to minimize, and its kind (see ``_programs.CALLS``).
MADE: dict[str, tuple[Callable[..., Any], str]] = {
    "value": (lambda f: f, "value"), "gradient": (grad_and_value, "gradient"),
    "hessian": (lambda f: jacfwd(grad(f)), "matrix"),
}  # fmt: skip
SMALL_HESSIAN = 64  # up to how many unknowns a Hessian is faster than products with it


class Minimization(Problem):
    """A function of unknowns, possibly with bounds and constraints. With constraints, the vector
    that solves it is that of the unknowns followed by the multipliers."""

    name = "minimize"
    interior = False  # whether limits that hold the solution are not quite reached

    def __init__(
        self, fun: Callable[..., Any], x0: Any, args: tuple[Any, ...], bounds: Any,
        constraints: Any, given: Callable[..., Any], name: str = "minimize",
    ) -> None:  # fmt: skip
        """``given``: the function that the user gave, of which ``fun`` was made."""
        self.name = name
        self.point = Point(x0, name)
        self.constraints = constraints_of(constraints, self.point)
        data = [c.data for c in self.constraints]
        super().__init__((args, bounds_of(bounds, self.point), data))
        self.objective = _objective_of(fun, self.point)
        self.has_limits = bounds is not None or bool(self.constraints)
        self.symmetric = not self.has_limits
        self.look_at(None if self.constraints else given)

    def functions(self, x: Tensor, tree: Any) -> Any:
        values = [c.value(x, own) for c, own in zip(self.constraints, tree[2], strict=True)]
        return self.objective(x, tree), values

    # -- what is zero at the solution ----------------------------------------------------------

    def residual(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        found: Tensor = self.parameters.call(self._conditions, values, x)
        return found

    def _conditions(self, z: Tensor, tree: Any) -> Tensor:
        _, bounds, data = tree
        x = z[: self.point.count] if self.constraints else z
        if not self.constraints:
            return with_bounds(x, grad(self.objective)(x, tree), bounds, self.interior)
        multipliers = self._split(z, x, data)

        def lagrangian(x: Tensor) -> Tensor:
            total = self.objective(x, tree)
            for c, own, m in zip(self.constraints, data, multipliers, strict=True):
                total = total - (m * c.value(x, own)).sum()
            return total

        rows = [
            c.rows(c.value(x, own), m, own, self.interior)
            for c, own, m in zip(self.constraints, data, multipliers, strict=True)
        ]
        found: Tensor = slicing.cat(
            [with_bounds(x, grad(lagrangian)(x), bounds, self.interior), *rows]
        )
        return found

    def _split(self, z: Tensor, x: Tensor, data: Any) -> list[Tensor]:
        """The multipliers of each constraint."""
        counts = [c.value(x, own).numel() for c, own in zip(self.constraints, data, strict=True)]
        return list(slicing.split(z[self.point.count :], counts))

    def check(self, z: Tensor, values: Sequence[Tensor]) -> None:
        self.parameters.call(self._check, values, z)

    def _check(self, z: Tensor, tree: Any) -> None:
        _, bounds, data = tree
        x = z[: self.point.count].detach()
        g, value = grad_and_value(self.objective)(x, tree)
        if not bool(value.isfinite()):
            raise RuntimeError(f"{self.name}: the function is infinite or NaN at its solution.")
        size = float(g.abs().max()) if g.numel() else 0.0
        if self.constraints:
            for c, own, m in zip(
                self.constraints, data, self._split(z.detach(), x, data), strict=True
            ):
                value = c.value(x, own)
                pulled = jacrev(lambda x, c=c, own=own: c.value(x, own))(x)
                g = g - m @ pulled
                lower, upper = c.limits(own, value)
                if self.interior:
                    check_clear(self.name, value, (lower, upper), m, "constraint")
                low, high = (held(value, x, m, self.interior) for x in (lower, upper))
                strength = m.where(low, -m)
                weak = (low ^ high) & ~(strength > SMALL * max(size, SMALL))
                if bool(weak.any()):
                    raise RuntimeError(
                        f"{self.name}: the solution has no derivative: constraint "
                        f"{int(weak.nonzero()[0])} is at its limit, but would not be left if the "
                        "limit were moved away: its multiplier is zero or negative."
                    )
        check_bounds(self.name, x, g, bounds, self.interior)

    # -- solving -------------------------------------------------------------------------------

    def solve(self, x0: Any, values: Sequence[Tensor]) -> Tensor:
        result = self._run(x0, values)
        self.results.append(result)
        x = vector(result.x, x0)
        if not self.constraints:
            return x
        found: Tensor = self.parameters.call(self._with_multipliers, values, x)
        return found

    def _run(self, x0: Tensor, values: Sequence[Tensor]) -> Any:
        """SciPy's result."""
        raise NotImplementedError

    def _with_multipliers(self, x: Tensor, tree: Any) -> Tensor:
        """The unknowns and the multipliers for which the gradient of the Lagrangian is as small as
        it can be, where constraints that are not at their limits have none."""
        _, bounds, data = tree
        g = grad(self.objective)(x, tree)
        free = x == x
        if bounds is not None:
            force = self.interior * g  # without constraints, which is a guess
            free = ~(held(x, bounds[0], force, self.interior)
                     | held(x, bounds[1], force, self.interior))  # fmt: skip
        columns, active = [], []
        for c, own in zip(self.constraints, data, strict=True):
            value = c.value(x, own)
            lower, upper = c.limits(own, value)
            strong = value.new_full((), float("inf"))  # if there is no force, it turns out
            low, high = (held(value, limit, strong, self.interior) for limit in (lower, upper))
            active.append(low | high)
            columns.append(jacrev(lambda x, c=c, own=own: c.value(x, own))(x))
        matrix, which = slicing.cat(columns), slicing.cat(active)
        matrix = matrix * which[:, None] * free
        found = arrays.solvers.least_squares_solution(raw(matrix.T), raw(g * free))
        whole: Tensor = slicing.cat([x, vector(found, x)])
        return whole


def _objective_of(fun: Callable[..., Any], point: Point) -> Callable[[Tensor, Any], Tensor]:
    """The function to minimize, of the vector of unknowns and of the tree of parameters."""

    def objective(x: Tensor, tree: Any) -> Tensor:
        value = fun(point.tree(x), *tree[0])
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{point.name}: fun must return a Tensor, got {type(value).__name__}. Write it "
                "with operations on Tensors, so that it can be differentiated."
            )
        if value.numel() != 1:
            raise ValueError(
                f"{point.name}: fun must return one number, got the shape {list(value.shape)}."
            )
        return value if value.ndim == 0 else value.reshape(())

    return objective


class _ByScipy(Minimization):
    """A minimum that ``scipy.optimize.minimize`` looks for."""

    def __init__(
        self, fun: Callable[..., Any], x0: Any, args: tuple[Any, ...], bounds: Any,
        constraints: Any, callback: Any, method: Any, more: dict[str, Any],
    ) -> None:  # fmt: skip
        super().__init__(fun, x0, args, bounds, constraints, fun)
        default = "SLSQP" if self.constraints else "BFGS" if bounds is None else "L-BFGS-B"
        self.method = default if method is None else method
        self.interior = str(self.method).lower() == "trust-constr"
        self.callback = None if callback is None else self._callback(callback)
        self.more = more
        self._fun = fun

    def _evaluation(self, what: str) -> Evaluation:
        """The function and what is made of it: its "value", "gradient" and value, or "hessian"."""
        make, kind = MADE[what]
        of_values = lambda: make(self.parameters.of_values(self.objective))
        return self.evaluation(self._fun, what, of_values, kind)

    def _run(self, x0: Tensor, values: Sequence[Tensor]) -> Any:
        method = self.method.lower() if isinstance(self.method, str) else ""
        given: dict[str, Any] = {"method": self.method, "callback": self.callback, **self.more}
        if method in WITHOUT_GRADIENT:
            objective = self._evaluation("value")
            value = lambda x: float(objective.arrays(vector(x, x0), *values)[0])
        else:
            value, given["jac"] = self._with_gradient(x0, values), True
        few = self.point.count <= SMALL_HESSIAN
        if method in WITH_HESSIAN or (method in WITH_EITHER and few):
            hessian = self._evaluation("hessian")
            given["hess"] = lambda x: doubles(hessian, vector(x, x0), *values)
        elif method in WITH_EITHER or not method:
            f = self.parameters.of_values(self.objective)
            sparse = None
            if method == "trust-constr":  # the only method that takes one
                sparse = if_sparse(sparse_hessian(lambda x: f(x, *values), x0))
            if sparse is not None:
                given["hess"] = lambda x: sparse(vector(x, x0)).astype(arrays.float64)
            else:
                given["hessp"] = _Products(grad(f), x0, values)
        if self.has_limits:
            self.parameters.call(lambda tree: self._limits(tree, values, method, given), values)
        return arrays.solvers.minimize(value, wide(x0), **given)

    def _with_gradient(self, x0: Tensor, values: Sequence[Tensor]) -> Callable[[Any], Any]:
        both = self._evaluation("gradient")

        def value_and_gradient(x: Any) -> tuple[float, Any]:
            gradient, value = both.arrays(vector(x, x0), *values)
            return float(value), arrays.asarray(gradient, arrays.float64)

        return value_and_gradient

    def _limits(
        self, tree: Any, values: Sequence[Tensor], method: str, given: dict[str, Any]
    ) -> None:
        _, bounds, data = tree
        if bounds is not None:
            given["bounds"] = arrays.solvers.Bounds(wide(bounds[0]), wide(bounds[1]))
        found = []
        for i, (c, own) in enumerate(zip(self.constraints, data, strict=True)):
            one = lambda x, tree, i=i: self.constraints[i].value(x, tree[2][i])
            of_x = lambda x, one=one: self.parameters.call(one, values, x)
            found.append(for_scipy(c, of_x, own, self.point, method == "trust-constr"))
        if found:
            given["constraints"] = [c for c, _ in found]
        if any(is_sparse for _, is_sparse in found):  # then all must be
            given["options"] = {"sparse_jacobian": True, **(given["options"] or {})}

    def _callback(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """A function that is called with ``x`` in the user's form."""

        def tree(x: Any) -> Any:
            return self.point.user_tree(vector(x, self.point.vector).clone())

        if set(inspect.signature(callback).parameters) == {"intermediate_result"}:

            def told(intermediate_result: Any) -> Any:
                fields = {**intermediate_result, "x": tree(intermediate_result.x)}
                return callback(intermediate_result=arrays.solvers.result(**fields))

            return told
        return lambda x, *state: callback(tree(x), *state)


class _Products:
    """Products with a Hessian. What is recorded at a point serves all that follow there."""

    def __init__(
        self, gradient: Callable[..., Tensor], like: Tensor, values: Sequence[Tensor]
    ) -> None:
        self.gradient, self.like = lambda x: gradient(x, *values), like
        self.at: Any = None
        self.push: Any = None

    def __call__(self, x: Any, p: Any) -> Any:
        if self.at is None or not (self.at == x).all():
            self.at = x.copy()
            self.push = linearize(self.gradient, vector(x, self.like))[1]
        return wide(self.push(vector(p, self.like)))


def minimize(
    fun: Callable[..., Any], x0: Any, args: Any = (), method: Any = None, bounds: Any = None,
    constraints: Any = (), tol: float | None = None, callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Minimizes a function, as ``scipy.optimize.minimize`` does, with exact derivatives.

    Gradients, Hessians or products with Hessians are computed as the method wants them, and the
    Jacobians of constraints too. "trust-constr" gets sparse Hessians and Jacobians where these have
    more than 64² entries, of which at most a tenth can be other than zero. ``x`` and ``fun`` of the
    result are differentiable with respect to ``args``, bounds and limits of constraints, and
    tensors that the functions use and that were not passed to them: see ``implicit``. With bounds
    or constraints, those that the minimum is held by are taken to stay the same.

    Args:
        fun: A function of ``x`` and ``args``, written with Tensors, that returns a Tensor of one
            element.
        x0: Where to start: a Tensor, an array, or a tuple, list or dictionary of them.
        args: Further arguments of ``fun``.
        method: As in SciPy. By default "BFGS", with bounds "L-BFGS-B", with constraints "SLSQP".
        bounds: A pair ``(low, high)`` for each unknown, in order, or ``Bounds(low, high)``, where
            both may be numbers, vectors, or trees like ``x0``.
        constraints: In SciPy's forms: a dictionary with ``type``, ``fun`` and perhaps ``args``,
            a ``NonlinearConstraint``, a ``LinearConstraint``, or a list of these. Functions take
            ``x`` as ``fun`` does, and are written with Tensors.
        tol: The tolerance for termination.
        callback: Called after each iteration, with ``x`` in the form of ``x0``. With the signature
            ``callback(intermediate_result)``, it gets an ``OptimizeResult``.
        options: As in SciPy.

    Returns:
        SciPy's ``OptimizeResult``, where ``x`` and ``jac`` are trees like ``x0``: tensors and
        arrays as given, or tensors only if they have derivatives. Then ``fun`` is a Tensor.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import minimize
        >>> a = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> loss = lambda p, a: ((p["x"] - a) ** 2).sum() + p["y"] ** 2
        >>> start = {"x": torch.zeros(2), "y": torch.tensor(3.0)}
        >>> result = minimize(loss, start, args=(a,))
        >>> result.x["x"].detach(), result.success
        (tensor([1.0000, 2.0000]), True)
        >>> result.x["x"].sum().backward(); a.grad
        tensor([1., 1.])
    """
    problem = _ByScipy(
        fun, x0, as_args(args), bounds, constraints, callback, method,
        {"tol": tol, "options": options},
    )  # fmt: skip
    result, x = solved(problem)
    if problem.has_derivatives or "fun" not in result:
        live = problem.parameters.live
        result.fun = problem.parameters.call(problem.objective, live, x)
    if "jac" in result and arrays.is_raw(result.jac):
        result.jac = problem.point.user_tree(vector(result.jac, problem.point.vector))
    return result
