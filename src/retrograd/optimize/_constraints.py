"""Bounds and constraints: as SciPy takes them, and as conditions that a minimum fulfils."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.func._jacobians import jacfwd, jacrev
from retrograd.func._reverse import grad
from retrograd.func._sparse import sparse_hessian, sparse_jacobian
from retrograd.ops._operation import raw
from retrograd.ops.shapes import slicing
from retrograd.optimize._points import Point
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor

INFINITY = float("inf")
SMALL_MATRIX = 64 * 64  # entries up to which a matrix is never sparse
SPARSE = 0.1  # the share of entries up to which a matrix is
# How near to a limit a solution is at it, relative to the limit. Methods that stay in the interior
# end a little off.
NEAR = 1e-6
# How close a method that goes through the interior comes to a limit, and how much larger than the
# distance from it the force must be.
CLOSE, FORCE = 3e-3, 100.0
# A multiplier that is smaller, relative to the gradient, may be zero: then the solution moves along
# the limit in one direction and off it in the other, and has no derivative.
SMALL = 1e-6


class Bounds(NamedTuple):
    """Bounds of unknowns, as SciPy's class of that name, of numbers, vectors or trees.

    Args:
        lb: The lower bounds.
        ub: The upper bounds.
        keep_feasible: Whether methods that can must stay within the bounds all the time.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import Bounds, minimize
        >>> minimize(lambda x: (x - 3) ** 2, torch.tensor(0.0), bounds=Bounds(-1.0, 2.0)).x
        tensor(2.)
    """

    lb: Any = -INFINITY
    ub: Any = INFINITY
    keep_feasible: bool = False


class LinearConstraint(NamedTuple):
    """``lb <= A @ x <= ub``, as SciPy's class of that name, where ``x`` is the vector of unknowns.

    Args:
        A: A matrix.
        lb: The lower limits.
        ub: The upper limits.
        keep_feasible: Whether methods that can must keep to the constraint all the time.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import LinearConstraint, minimize
        >>> total = LinearConstraint(torch.ones(1, 2), 1.0, 1.0)  # x[0] + x[1] = 1
        >>> minimize(lambda x: (x**2).sum(), torch.zeros(2), constraints=total).x
        tensor([0.5000, 0.5000])
    """

    A: Any
    lb: Any = -INFINITY
    ub: Any = INFINITY
    keep_feasible: bool = False


class NonlinearConstraint(NamedTuple):
    """``lb <= fun(x) <= ub``, as SciPy's class of that name. Derivatives are computed.

    Args:
        fun: A function written with Tensors.
        lb: The lower limits.
        ub: The upper limits.
        keep_feasible: Whether methods that can must keep to the constraint all the time.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import NonlinearConstraint, minimize
        >>> disk = NonlinearConstraint(lambda x: (x**2).sum(), -torch.inf, 2.0)
        >>> minimize(lambda x: x.sum(), torch.ones(2), constraints=disk).x
        tensor([-1.0000, -1.0000])
    """

    fun: Callable[..., Any]
    lb: Any
    ub: Any
    keep_feasible: bool = False


def near(x: Tensor, limit: Tensor) -> Tensor:
    """Where values are at a limit."""
    # (An infinite limit is far away from everything.)
    found: Tensor = (x - limit).abs() <= NEAR * limit.abs().clamp(1.0, 1e30)
    return found


def held(x: Tensor, limit: Tensor, force: Tensor, interior: bool) -> Tensor:
    """Where values are at a limit. A method that goes through the interior stops before a limit
    that holds it, the nearer the larger the force (the multiplier) is by which it does."""
    found = near(x, limit)
    if interior:
        gap = (x - limit).abs()
        close = gap <= CLOSE * limit.abs().clamp(1.0, 1e30)
        found = found | (close & (force.abs() > FORCE * gap))
    return found


# -- bounds ------------------------------------------------------------------------------------


def bounds_of(bounds: Any, point: Point) -> tuple[Tensor, Tensor] | None:
    """The lower and the upper bound of each unknown, from pairs or from SciPy's ``Bounds``."""
    if bounds is None:
        return None
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        return point.limits(bounds.lb), point.limits(bounds.ub)
    try:
        pairs = [(low, high) for low, high in bounds]
    except (TypeError, ValueError):
        raise ValueError(
            f"{point.name}: expected bounds as a (low, high) pair for each unknown, or as Bounds."
        ) from None
    if len(pairs) != point.count:
        raise ValueError(
            f"{point.name}: got {len(pairs)} pairs of bounds for {point.count} unknowns."
        )
    lows = [-INFINITY if low is None else low for low, _ in pairs]
    highs = [INFINITY if high is None else high for _, high in pairs]
    return _one_vector(lows, point), _one_vector(highs, point)


def _one_vector(numbers: list[Any], point: Point) -> Tensor:
    if any(isinstance(x, Tensor) for x in numbers):
        parts = [as_tensor(x, dtype=point.dtype).reshape(()) for x in numbers]
        found: Tensor = slicing.stack(parts)
        return found
    return as_tensor(numbers, dtype=point.dtype)


def with_bounds(
    x: Tensor, g: Tensor, bounds: tuple[Tensor, Tensor] | None, interior: bool
) -> Tensor:
    """What is zero at a minimum within bounds: the gradient of an unknown that is free, and the
    distance from the bound for one that the gradient holds there."""
    if bounds is None:
        return g
    lower, upper = bounds
    low = held(x, lower, g, interior) & (g > 0)
    high = held(x, upper, g, interior) & (g < 0)
    found: Tensor = (x - lower).where(low, (x - upper).where(high, g))
    return found


def check_clear(name: str, x: Tensor, limits: Any, force: Tensor, what: str) -> None:
    """RuntimeError if a method that goes through the interior stopped so close to a limit that it
    cannot be told whether the limit holds it: the force is about as large as the distance."""
    for limit in limits:
        gap = (x - limit).abs()
        close = (gap <= CLOSE * limit.abs().clamp(1.0, 1e30)) & (force.abs() > gap / FORCE)
        unclear = close & ~held(x, limit, force, True)
        if bool(unclear.any()):
            raise RuntimeError(
                f"{name}: it cannot be told whether {what} {int(unclear.nonzero()[0])} is held at "
                "its limit, so that the solution has no derivative. Ask for a smaller tolerance, "
                "or use a method that reaches limits: SLSQP, or without constraints L-BFGS-B."
            )


def check_bounds(
    name: str, x: Tensor, g: Tensor, bounds: tuple[Tensor, Tensor] | None, interior: bool
) -> None:
    """RuntimeError if an unknown is at a bound without being held there."""
    if bounds is None or not x.numel():
        return
    if interior:
        check_clear(name, x, bounds, g, "unknown")
    lower, upper = bounds
    at = near(x, lower) | near(x, upper)
    fixed = lower == upper
    weak = at & ~fixed & (g.abs() <= SMALL * g.abs().max().clamp(min=1.0))
    if bool(weak.any()):
        raise RuntimeError(
            f"{name}: the solution has no derivative: unknown {int(weak.nonzero()[0])} is at a "
            "bound, but its gradient is zero there, so that the bound only holds it from one side."
        )


# -- constraints -------------------------------------------------------------------------------


class Constraint(NamedTuple):
    """``lower <= fun(x, extra) <= upper``, where ``fun`` takes and returns a vector. ``data`` is
    ``(extra, lower, upper)``: what a solution can be differentiated by."""

    fun: Callable[[Tensor, Any], Tensor]
    data: tuple[Any, Any, Any]
    is_linear: bool = False
    keep_feasible: Any = False

    def value(self, x: Tensor, data: Any) -> Tensor:
        return self.fun(x, data[0])

    def rows(self, c: Tensor, multipliers: Tensor, data: Any, interior: bool) -> Tensor:
        """What is zero at a minimum, for each value: the distance from the limit that it is at, or
        else the multiplier."""
        lower, upper = self.limits(data, c)
        low, high = (held(c, limit, multipliers, interior) for limit in (lower, upper))
        found: Tensor = (c - lower).where(low, (c - upper).where(high, multipliers))
        return found

    @staticmethod
    def limits(data: Any, c: Tensor) -> tuple[Tensor, Tensor]:
        lower, upper = (as_tensor(x, dtype=c.dtype) for x in data[1:])
        return lower.expand(c.shape), upper.expand(c.shape)


def constraints_of(constraints: Any, point: Point) -> list[Constraint]:
    """Constraints in SciPy's forms: dictionaries, ``NonlinearConstraint``, ``LinearConstraint``."""
    if isinstance(constraints, dict) or hasattr(constraints, "lb"):
        constraints = [constraints]
    return [_constraint(c, point) for c in constraints]


def _constraint(given: Any, point: Point) -> Constraint:
    what = "the function of a constraint"
    if isinstance(given, dict):
        kind = str(given.get("type", "")).lower()
        if kind not in ("eq", "ineq") or "fun" not in given:
            raise ValueError(
                f"{point.name}: a constraint needs 'fun', and a 'type' of 'eq' or 'ineq', got "
                f"{given}."
            )
        fun, extra = given["fun"], given.get("args", ())
        return Constraint(
            lambda x, extra: point.vector_of(fun(point.tree(x), *extra), what),
            (tuple(extra), 0.0, 0.0 if kind == "eq" else INFINITY),
        )
    if hasattr(given, "A"):
        matrix = as_tensor(given.A, dtype=point.dtype).reshape(-1, point.count)
        return Constraint(lambda x, matrix: matrix @ x, (matrix, given.lb, given.ub), True,
                          given.keep_feasible)  # fmt: skip
    if hasattr(given, "fun") and hasattr(given, "lb"):
        return Constraint(
            lambda x, _: point.vector_of(given.fun(point.tree(x)), what),
            (None, given.lb, given.ub), False, given.keep_feasible,
        )  # fmt: skip
    raise TypeError(
        f"{point.name}: expected a constraint as a dictionary, a NonlinearConstraint or a "
        f"LinearConstraint, got {type(given).__name__}."
    )


def if_sparse(matrix: Any) -> Any:
    """A sparse Jacobian or Hessian, if it is large and at most a tenth of its entries can be other
    than zero, whatever the values are; else None."""
    size = matrix.shape[0] * matrix.shape[1]
    few = size > SMALL_MATRIX and matrix.nnz <= SPARSE * size
    return matrix if few and not matrix.local else None


def for_scipy(
    constraint: Constraint, value: Callable[[Tensor], Tensor], data: Any, point: Point,
    with_hessian: bool,
) -> tuple[Any, bool]:  # fmt: skip
    """A constraint on arrays, with its exact Jacobian and, if it is used, Hessian; and whether the
    Jacobian is sparse, which is possible where Hessians are used. ``value`` is its function of the
    unknowns alone."""

    def vector(x: Any) -> Tensor:
        return as_tensor(arrays.asarray(x, raw(point.vector).dtype))

    def wide(x: Tensor) -> Any:
        return arrays.asarray(raw(x.detach()), arrays.float64)

    c = value(point.vector)
    lower, upper = (wide(x) for x in constraint.limits(data, c))
    if constraint.is_linear:
        return arrays.solvers.LinearConstraint(
            wide(data[0]), lower, upper, keep_feasible=constraint.keep_feasible
        ), False  # fmt: skip
    dense = (jacrev if c.numel() <= point.count else jacfwd)(value)
    jacobian = lambda x: wide(dense(vector(x)))
    options: dict[str, Any] = {"keep_feasible": constraint.keep_feasible}
    sparse = None
    if with_hessian:
        weights = [c.detach() * 0 + 1]
        weighted = lambda x: (value(x) * weights[0]).sum()

        def hessian(x: Any, v: Any) -> Any:
            weights[0] = vector(v)
            if sparse_weighted is not None:
                return sparse_weighted(vector(x)).astype(arrays.float64)
            return wide(jacfwd(grad(weighted))(vector(x)))

        options["hess"] = hessian
        sparse_weighted = None
        if point.count**2 > SMALL_MATRIX:
            sparse_weighted = if_sparse(sparse_hessian(weighted, point.vector))
            sparse = if_sparse(sparse_jacobian(value, point.vector))
    if sparse is not None:
        jacobian = lambda x: sparse(vector(x)).astype(arrays.float64)
    return arrays.solvers.NonlinearConstraint(
        lambda x: wide(value(vector(x))), lower, upper, jac=jacobian, **options
    ), sparse is not None  # fmt: skip
