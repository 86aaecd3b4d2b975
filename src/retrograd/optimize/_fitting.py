"""``least_squares`` and ``curve_fit``."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays, linalg
from retrograd.func._jacobians import jacfwd, jacrev
from retrograd.func._sparse import sparse_jacobian
from retrograd.ops._operation import raw
from retrograd.optimize._constraints import Bounds
from retrograd.optimize._equations import as_args, doubles, solved, vector, wide
from retrograd.optimize._minimize import Minimization
from retrograd.optimize._points import Point, as_data
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor

# What is summed for each squared residual, as in SciPy.
LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * ((1 + z).sqrt() - 1),
    "huber": lambda z: z.where(z <= 1, 2 * z.clamp(min=1).sqrt() - 1),
    "cauchy": lambda z: z.log1p(),
    "arctan": lambda z: z.arctan(),
}


def _residuals_of(fun: Callable[..., Any], point: Point) -> Callable[[Tensor, Any], Tensor]:
    return lambda x, tree: point.vector_of(fun(point.tree(x), *tree[0]), "fun")


class _Squares(Minimization):
    """Half the sum of squared residuals, or of a function of these squares."""

    def __init__(
        self, fun: Callable[..., Any], x0: Any, args: tuple[Any, ...], bounds: Any, loss: str,
        f_scale: float, sparse: bool, more: dict[str, Any], name: str = "least_squares",
    ) -> None:  # fmt: skip
        if loss not in LOSSES:
            raise ValueError(f"{name}: expected a loss of {', '.join(LOSSES)}, got {loss!r}.")
        self.loss, self.f_scale, self.sparse, self.more = loss, f_scale, sparse, more
        self.residuals_of = fun
        super().__init__(self._cost, x0, args, bounds, (), fun, name)
        self.residuals = _residuals_of(fun, self.point)
        r = self.parameters.of_values(self.residuals)
        self._residuals = self.evaluation(fun, "value", lambda: r, "value")
        self._dense: Any = None

    def _cost(self, x: Any, *args: Any) -> Tensor:
        r = self.point.vector_of(self.residuals_of(x, *args), "fun")
        squares = (r / self.f_scale) ** 2
        found: Tensor = 0.5 * self.f_scale**2 * LOSSES[self.loss](squares).sum()
        return found

    def _run(self, x0: Tensor, values: Sequence[Tensor]) -> Any:
        given = dict(self.more, loss=self.loss, f_scale=self.f_scale)
        bounds = self.parameters.call(lambda tree: tree[1], values)
        if bounds is not None:
            given["bounds"] = (wide(bounds[0]), wide(bounds[1]))
        return arrays.solvers.least_squares(
            lambda x: doubles(self._residuals, vector(x, x0), *values), wide(x0),
            jac=self._jacobian(x0, values), **given,
        )  # fmt: skip

    def _jacobian(self, x0: Tensor, values: Sequence[Tensor]) -> Callable[[Any], Any]:
        r = self.parameters.of_values(self.residuals)
        if self.sparse:
            sparse = sparse_jacobian(lambda x: r(x, *values), x0)
            return lambda x: sparse(vector(x, x0)).astype(arrays.float64)
        if self._dense is None:
            few = r(x0, *values).numel() < self.point.count
            of = jacrev if few else jacfwd
            self._dense = self.evaluation(self.residuals_of, "jacobian", lambda: of(r), "matrix")
        return lambda x: doubles(self._dense, vector(x, x0), *values)


def least_squares(
    fun: Callable[..., Any], x0: Any, args: Any = (), jac: str = "dense", bounds: Any = None,
    method: str = "trf", ftol: float | None = 1e-8, xtol: float | None = 1e-8,
    gtol: float | None = 1e-8, loss: str = "linear", f_scale: float = 1.0,
    **options: Any,
) -> Any:  # fmt: skip
    """Minimizes a sum of squares, as ``scipy.optimize.least_squares`` does, with exact Jacobians.

    ``x``, ``fun`` and ``cost`` of the result are differentiable with respect to ``args`` and to
    tensors that ``fun`` has captured: see ``minimize``. Derivatives of the solution take second
    derivatives of the residuals into account.

    Args:
        fun: A function of ``x`` and ``args``, written with Tensors, that returns the residuals: a
            Tensor, or a tree of them.
        x0: Where to start: a Tensor, an array, or a tuple, list or dictionary of them.
        args: Further arguments of ``fun``.
        jac: "dense", or "sparse" for a sparse Jacobian, whose pattern is found out.
        bounds: A pair of lower and upper bounds, each a number, a vector or a tree like ``x0``, or
            ``Bounds``.
        method: "trf", "dogbox" or "lm", as in SciPy.
        ftol: The relative change of the cost at which to stop.
        xtol: The relative change of ``x`` at which to stop.
        gtol: The size of the gradient at which to stop.
        loss: "linear" for squares, or "soft_l1", "huber", "cauchy", "arctan", as in SciPy.
        f_scale: The residual from which on these others count.
        options: As in SciPy: ``x_scale``, ``max_nfev``, ``tr_solver`` and so on.

    Returns:
        SciPy's ``OptimizeResult``, where ``x`` is a tree like ``x0``.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import least_squares
        >>> t = torch.tensor([0.0, 1.0, 2.0])
        >>> y = torch.tensor([1.0, 3.0, 5.0], requires_grad=True)
        >>> result = least_squares(lambda p, y: p[0] + p[1] * t - y, torch.zeros(2), args=(y,))
        >>> result.x.detach()
        tensor([1., 2.])
        >>> result.x[1].backward(); y.grad
        tensor([-0.5000, -0.0000,  0.5000])
    """
    if jac not in ("dense", "sparse"):
        raise ValueError(f"least_squares: expected jac to be 'dense' or 'sparse', got {jac!r}.")
    if isinstance(bounds, tuple) and len(bounds) == 2:
        bounds = Bounds(*bounds)
    if bounds is not None and _unlimited(bounds):
        bounds = None
    more = {"method": method, "ftol": ftol, "xtol": xtol, "gtol": gtol, **options}
    problem = _Squares(fun, x0, as_args(args), bounds, loss, f_scale, jac == "sparse", more)
    return _finished(problem)


def _unlimited(bounds: Any) -> bool:
    low, high = bounds.lb, bounds.ub
    numbers = isinstance(low, (int, float)) and isinstance(high, (int, float))
    return numbers and low == -math.inf and high == math.inf


def _finished(problem: _Squares) -> Any:
    result, x = solved(problem)
    if problem.has_derivatives:
        live = problem.parameters.live
        result.fun = problem.parameters.call(problem.residuals, live, x)
        result.cost = problem.parameters.call(problem.objective, live, x)
    return result


# -- curves --------------------------------------------------------------------------------------


def curve_fit(
    f: Callable[..., Any], xdata: Any, ydata: Any, p0: Any = None, sigma: Any = None,
    absolute_sigma: bool = False, bounds: Any = (-math.inf, math.inf), method: str | None = None,
    **options: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Fits the parameters of a curve to data, as ``scipy.optimize.curve_fit`` does, with the exact
    Jacobian and the covariance from it.

    Args:
        f: The curve: a function of ``xdata`` and the parameters, each a Tensor of no dimensions,
            written with Tensors.
        xdata: Where the data were taken: a Tensor, or an array, a list or a column of a data frame,
            of which ``f`` gets a Tensor. Anything else is passed on to ``f`` as it is.
        ydata: The data.
        p0: Where to start. By default 1 for each parameter, or within the bounds.
        sigma: The standard deviations of ``ydata``, or their covariance matrix.
        absolute_sigma: Whether ``sigma`` has the unit of the data. By default, only the ratios
            count, and the covariance is scaled so that the residuals are as large as expected.
        bounds: A pair of lower and upper bounds of the parameters.
        method: "lm", "trf" or "dogbox". By default "lm", or with bounds "trf".
        options: As for ``least_squares``.

    Returns:
        The parameters and their covariance matrix: tensors if one of the arguments is a Tensor.
        Both are differentiable with respect to ``xdata``, ``ydata``, ``sigma`` and tensors that
        ``f`` has captured.

    Raises:
        RuntimeError: if the least squares minimization fails.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import curve_fit
        >>> t = torch.linspace(0, 2, 5, dtype=torch.float64)
        >>> y = 2 * torch.exp(-t) + torch.tensor([0.01, -0.01, 0.0, 0.01, -0.01])
        >>> p, covariance = curve_fit(lambda t, a, b: a * torch.exp(-b * t), t, y)
        >>> p
        tensor([2.0065, 1.0063], dtype=torch.float64)
        >>> covariance.diagonal().sqrt()  # the standard errors of the parameters
        tensor([0.0100, 0.0098], dtype=torch.float64)
    """
    given = [xdata, ydata, p0, sigma]
    y = as_data(ydata)
    x = as_data(xdata) if isinstance(xdata, list) or hasattr(xdata, "__array__") else xdata
    spread = None if sigma is None else as_tensor(sigma, dtype=y.dtype)
    if isinstance(bounds, tuple):
        bounds = Bounds(*bounds)
    start = _start(f, p0, bounds, y)
    limits = None if _unlimited(bounds) else bounds

    def residuals(p: Tensor, x: Any, y: Tensor, spread: Any) -> Tensor:
        difference = f(x, *p.unbind()) - y
        return difference.reshape(-1) if spread is None else _weighted(difference, spread)

    more = {"method": method or ("lm" if limits is None else "trf"), **options}
    problem = _Squares(
        residuals, start, (x, y, spread), limits, "linear", 1.0, False, more, "curve_fit"
    )
    result, p = solved(problem)
    if not result.success:
        raise RuntimeError(f"curve_fit: Optimal parameters not found: {result.message}")
    live = problem.parameters.live
    covariance = problem.parameters.call(
        lambda p, tree: _covariance(lambda p: problem.residuals(p, tree), p, absolute_sigma),
        live, p,
    )  # fmt: skip
    if problem.has_derivatives or any(isinstance(a, Tensor) for a in given):
        return p, covariance
    return raw(p), raw(covariance)


def _start(f: Callable[..., Any], p0: Any, bounds: Any, y: Tensor) -> Tensor:
    """Where the fit starts, as in SciPy: at 1, or in the middle of bounds."""
    if p0 is not None:
        return Point(p0, "curve_fit").vector
    names = [
        p for p in inspect.signature(f).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]  # fmt: skip
    if len(names) < 2 or any(
        p.kind == p.VAR_POSITIONAL for p in inspect.signature(f).parameters.values()
    ):
        raise ValueError("curve_fit: Unable to determine number of fit parameters. Pass p0.")
    ones = y.detach().new_ones(len(names) - 1)
    low, high = (
        as_tensor(b, dtype=y.dtype).detach().expand(ones.shape) for b in (bounds.lb, bounds.ub)
    )
    both = low.isfinite() & high.isfinite()
    start = ((low + high) / 2).where(both, ones)
    start = (low + 1).where(low.isfinite() & ~both, start)
    found: Tensor = (high - 1).where(high.isfinite() & ~both, start)
    return found


def _weighted(difference: Tensor, spread: Tensor) -> Tensor:
    """Residuals in units of their standard deviations."""
    flat = difference.reshape(-1)
    if spread.ndim <= 1:
        return flat / spread
    if tuple(spread.shape) != (flat.numel(), flat.numel()):
        raise ValueError("curve_fit: `sigma` has incorrect shape.")
    lower = linalg.cholesky(spread)
    found: Tensor = linalg.solve_triangular(lower, flat[:, None], upper=False)[:, 0]
    return found


def _covariance(residuals: Callable[[Tensor], Tensor], p: Tensor, absolute: bool) -> Tensor:
    jacobian = jacfwd(residuals)(p)
    rows, columns = jacobian.shape
    rank = int(linalg.matrix_rank(jacobian.detach()))
    if rank < columns or (not absolute and rows <= columns):
        warnings.warn(
            "curve_fit: Covariance of the parameters could not be estimated", stacklevel=3,
            category=arrays.solvers.OptimizeWarning,
        )  # fmt: skip
        return p.detach().new_full((columns, columns), math.inf)
    covariance: Tensor = linalg.inv(jacobian.T @ jacobian)
    if not absolute:
        covariance = covariance * (residuals(p) ** 2).sum() / (rows - columns)
    return covariance
