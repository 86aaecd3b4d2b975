"""Minima: SciPy's results with exact derivatives in fewer calls, and derivatives of minima."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from _versions import needs_scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as torch
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import grad, hessian, jacfwd, jacrev, vmap
from retrograd.optimize import (
    Bounds,
    LinearConstraint,
    NonlinearConstraint,
    least_squares,
    minimize,
)

pytestmark = pytest.mark.filterwarnings("ignore:Backwards compatibility")
D = torch.float64
INFINITY = float("inf")


def tensor(x: Any, **options: Any) -> torch.Tensor:
    return torch.tensor(x, dtype=D, **options)


def rosenbrock(x: Any, a: Any = 1.0, b: Any = 100.0) -> Any:
    return (b * (x[1:] - x[:-1] ** 2) ** 2 + (a - x[:-1]) ** 2).sum()


METHODS = ["BFGS", "CG", "COBYLA", "COBYQA", "L-BFGS-B", "Nelder-Mead", "Newton-CG", "Powell",
           "SLSQP", "TNC", "dogleg", "trust-constr", "trust-exact", "trust-krylov",
           "trust-ncg"]  # fmt: skip


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=needs_scipy(1, 14)) if m == "COBYQA" else m for m in METHODS]
)
def test_methods(method: str) -> None:
    a = tensor(1.2, requires_grad=True)
    tol = 1e-5 if method == "trust-krylov" else 1e-8
    options = {"maxiter": 10000} if method == "COBYLA" else {}
    result = minimize(rosenbrock, tensor([1.1, 1.2, 1.3]), args=(a, 5.0), method=method, tol=tol,
                      options=options)  # fmt: skip
    expected = scipy.optimize.minimize(rosenbrock, [1.1, 1.2, 1.3], args=(1.2, 5.0), tol=1e-10)
    np.testing.assert_allclose(result.x.detach(), expected.x, rtol=2e-3)
    assert result.fun.detach() == pytest.approx(expected.fun, abs=1e-6)
    (gradient,) = torch.autograd.grad(result.x.sum(), a)
    h = 1e-4
    high, low = (
        scipy.optimize.minimize(rosenbrock, expected.x, args=(1.2 + s, 5.0), tol=1e-10).x.sum()
        for s in (h, -h)
    )
    np.testing.assert_allclose(gradient, (high - low) / (2 * h), rtol=1e-3)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "SLSQP", "trust-constr"])
def test_fewer_calls_than_differences(method: str) -> None:
    start = np.linspace(-1, 1, 10)
    mine = minimize(rosenbrock, start, method=method)
    theirs = scipy.optimize.minimize(rosenbrock, start, method=method)
    np.testing.assert_allclose(mine.x, theirs.x, atol=1e-3)
    assert mine.nfev * 4 < theirs.nfev
    assert type(mine.x) is np.ndarray
    assert isinstance(mine, scipy.optimize.OptimizeResult)


def precise(a: Any, b: Any) -> Any:
    return minimize(rosenbrock, tensor([1.1, 1.2, 1.3]), args=(a, b), method="trust-exact",
                    tol=1e-12).x  # fmt: skip


def newton(a: Any, b: Any) -> Any:
    x = tensor([1.1, 1.2, 1.3])
    for _ in range(12):
        x = x - torch.linalg.solve(hessian(rosenbrock)(x, a, b), grad(rosenbrock)(x, a, b))
    return x


def test_derivatives_of_all_orders() -> None:
    a, b = tensor(1.2), tensor(5.0)
    for k in (0, 1):
        for transform in (jacrev, jacfwd, lambda f, k: jacfwd(jacrev(f, k), k),
                          lambda f, k: jacrev(jacrev(jacfwd(f, k), k), k)):  # fmt: skip
            np.testing.assert_allclose(
                transform(precise, k)(a, b), transform(newton, k)(a, b), rtol=1e-6, atol=1e-10
            )
    inputs = (a.clone().requires_grad_(), b.clone().requires_grad_())
    assert gradcheck(precise, inputs, check_forward_ad=True)
    assert gradgradcheck(precise, inputs)
    # The value at a minimum moves as the function does there.
    value = lambda a: minimize(rosenbrock, tensor([1.1, 1.2]), args=(a, 5.0), tol=1e-10).fun
    x = minimize(rosenbrock, tensor([1.1, 1.2]), args=(a, 5.0), tol=1e-10).x
    np.testing.assert_allclose(grad(value)(a), grad(rosenbrock, 1)(x, a, 5.0), atol=1e-7)


def test_vmap_is_a_loop() -> None:
    batch = tensor([1.2, 0.8, 1.0])
    for f in (lambda a: precise(a, tensor(5.0)), jacrev(lambda a: precise(a, tensor(5.0)))):
        np.testing.assert_allclose(vmap(f)(batch), np.stack([f(a) for a in batch]), rtol=1e-8)
    many = vmap(lambda a: minimize(rosenbrock, tensor([1.1, 1.2]), args=(a, 5.0)).fun)(batch)
    one = [minimize(rosenbrock, tensor([1.1, 1.2]), args=(a, 5.0)).fun for a in batch]
    np.testing.assert_allclose(many, one, rtol=1e-9, atol=1e-12)


def test_trees() -> None:
    target = {"w": tensor([[1.0, 2.0], [3.0, 4.0]]), "b": tensor(5.0)}
    loss = lambda p: ((p["w"] - target["w"]) ** 2).sum() + (p["b"] - target["b"]) ** 4
    start = {"w": np.zeros((2, 2)), "b": torch.tensor(0.0)}
    seen = []
    result = minimize(loss, start, callback=lambda p: seen.append(p["w"].copy()), tol=1e-9)
    assert type(result.x["w"]) is np.ndarray
    assert result.x["b"].dtype == torch.float32
    np.testing.assert_allclose(result.x["w"], target["w"], atol=1e-6)
    assert result.jac["w"].shape == (2, 2)
    assert len(seen) == result.nit
    np.testing.assert_array_equal(seen[-1], result.x["w"])
    bounds = Bounds({"w": 0.0, "b": -INFINITY}, {"w": np.full((2, 2), 2.5), "b": 1.0})
    bounded = minimize(loss, start, bounds=bounds)
    np.testing.assert_allclose(bounded.x["w"], [[1.0, 2.0], [2.5, 2.5]], atol=1e-4)
    assert float(bounded.x["b"]) == 1.0


def test_callbacks() -> None:
    seen: list[Any] = []

    def told(intermediate_result: Any) -> None:
        seen.append((intermediate_result.x, intermediate_result.fun))
        if len(seen) == 3:
            raise StopIteration

    minimize(rosenbrock, torch.zeros(3, dtype=D), callback=told)
    assert len(seen) == 3
    assert all(isinstance(x, torch.Tensor) for x, _ in seen)
    assert seen[0][1] == pytest.approx(float(rosenbrock(seen[0][0])))


# -- bounds and constraints ----------------------------------------------------------------------


def bowl(x: Any, a: Any) -> Any:
    return ((x - a) ** 2).sum() + 0.3 * x.prod()


def test_bounds() -> None:
    a = tensor([0.5, 2.0, 3.0], requires_grad=True)
    low = tensor([1.0, 0.0, 0.0], requires_grad=True)
    high = tensor([9.0, 9.0, 2.5], requires_grad=True)

    def solve(a: Any, low: Any, high: Any) -> Any:
        return minimize(bowl, tensor([1.0, 1.0, 1.0]), args=(a,), bounds=Bounds(low, high),
                        tol=1e-12).x  # fmt: skip

    x = solve(a, low, high).detach()
    assert float(x[0]) == 1.0
    assert float(x[2]) == 2.5
    assert gradcheck(solve, (a, low, high), check_forward_ad=True)
    assert gradgradcheck(solve, (a, low, high))
    pairs = minimize(bowl, [1.0, 1.0, 1.0], args=(np.array([0.5, 2.0, 3.0]),),
                     bounds=[(1.0, None), (None, None), (0, 2.5)])  # fmt: skip
    np.testing.assert_allclose(pairs.x, x, atol=1e-5)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_constraints(method: str) -> None:
    a, c = tensor([0.5, 2.0, 3.0], requires_grad=True), tensor(2.5, requires_grad=True)
    top = tensor(2.0, requires_grad=True)
    tol = 1e-13 if method == "SLSQP" else 1e-11

    def solve(a: Any, c: Any, top: Any) -> Any:
        constraints = [
            {"type": "eq", "fun": lambda x, c: x.sum() - c, "args": (c,)},
            NonlinearConstraint(lambda x: x[1] ** 2 + x[2], -INFINITY, top),
            LinearConstraint([[1.0, 0.0, 0.0]], -7.0, 7.0),  # which does not hold it
        ]
        return minimize(bowl, tensor([1.0, 1.0, 1.0]), args=(a,), constraints=constraints,
                        method=method, tol=tol).x  # fmt: skip

    x = solve(a, c, top).detach()
    np.testing.assert_allclose([x.sum(), x[1] ** 2 + x[2]], [2.5, 2.0], atol=1e-6)
    expected = scipy.optimize.minimize(
        lambda x: float(((x - [0.5, 2, 3]) ** 2).sum() + 0.3 * x.prod()), np.ones(3), tol=1e-12,
        constraints=[{"type": "eq", "fun": lambda x: x.sum() - 2.5},
                     {"type": "ineq", "fun": lambda x: 2 - x[1] ** 2 - x[2]}])  # fmt: skip
    np.testing.assert_allclose(x, expected.x, atol=1e-5)
    if method == "SLSQP":
        assert gradcheck(solve, (a, c, top), check_forward_ad=True)
        assert gradgradcheck(solve, (a, c, top))
    else:
        mine = torch.autograd.grad(solve(a, c, top)[1], (a, c, top))
        method, tol = "SLSQP", 1e-13
        for g, h in zip(mine, torch.autograd.grad(solve(a, c, top)[1], (a, c, top)), strict=True):
            np.testing.assert_allclose(g, h, atol=1e-4)


def test_bounds_and_constraints_together() -> None:
    a = tensor([0.5, 2.0, 3.0], requires_grad=True)
    total = {"type": "eq", "fun": lambda x: x.sum() - 3.0}
    solve = lambda a: minimize(bowl, tensor([1.0, 1.0, 1.0]), args=(a,), constraints=total,
                               bounds=[(0, 4), (0, 4), (0, 1.5)], tol=1e-13).x  # fmt: skip
    assert float(solve(a)[2].detach()) == pytest.approx(1.5)
    assert gradcheck(solve, (a,), check_forward_ad=True)


def test_no_derivative_at_a_limit_that_does_not_hold() -> None:
    a = tensor([1.0], requires_grad=True)
    square = lambda x, a: ((x - a) ** 2).sum()
    x = minimize(square, tensor([2.0]), args=(a,), bounds=[(1.0, None)]).x
    with pytest.raises(RuntimeError, match="unknown 0 is at a bound, but its gradient is zero"):
        x.sum().backward()
    x = minimize(square, tensor([2.0]), args=(a,),
                 constraints={"type": "ineq", "fun": lambda x: x - 1}).x  # fmt: skip
    with pytest.raises(RuntimeError, match="constraint 0 is at its limit"):
        x.sum().backward()


@needs_scipy(1, 16)  # for equations with COBYLA
def test_constraints_that_depend_on_each_other_are_refused() -> None:
    a = tensor([0.0, 0.0], requires_grad=True)
    both = [{"type": "eq", "fun": lambda x, k=k: k * (x.sum() - 1)} for k in (1, 2)]
    x = minimize(lambda x, a: ((x - a) ** 2).sum(), tensor([0.5, 0.6]), args=(a,),
                 constraints=both, method="COBYLA").x  # fmt: skip
    with pytest.raises(RuntimeError, match="singular"):
        x[0].backward()


def test_not_converged() -> None:
    a = tensor(1.2, requires_grad=True)
    result = minimize(rosenbrock, tensor([-1.0, 3.0]), args=(a,), options={"maxiter": 3})
    assert not result.success
    with pytest.raises(RuntimeError, match=r"minimize: .* did not converge"):
        result.x.sum().backward()


def test_flat_directions_are_refused() -> None:
    a = tensor(1.0, requires_grad=True)
    x = minimize(lambda x, a: (x[0] + x[1] - a) ** 2, tensor([0.0, 0.0]), args=(a,)).x
    with pytest.raises(RuntimeError, match="The solution may not be isolated"):
        x.sum().backward()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_random_ridge_regressions(seed: int, n: int) -> None:
    """The derivative of what a regression predicts by its penalty has a closed form."""
    generator = np.random.default_rng(seed)
    x, y = tensor(generator.normal(size=(n + 3, n))), tensor(generator.normal(size=n + 3))

    def solved(penalty: torch.Tensor) -> torch.Tensor:
        loss = lambda w: ((x @ w - y) ** 2).sum() + penalty * (w**2).sum()
        return minimize(loss, torch.zeros(n, dtype=D), method="trust-exact", tol=1e-9).x

    def exact(penalty: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve(x.T @ x + penalty * torch.eye(n, dtype=D), x.T @ y)

    penalty = tensor(0.5)
    for transform in (lambda f: f, jacrev, jacfwd, lambda f: jacrev(jacfwd(f))):
        np.testing.assert_allclose(transform(solved)(penalty), transform(exact)(penalty), rtol=1e-6,
                                   atol=1e-9)  # fmt: skip


def test_bad_input() -> None:
    x0 = tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="fun must return a Tensor, got float"):
        minimize(lambda x: 1.0, x0)
    with pytest.raises(ValueError, match="fun must return one number, got the shape"):
        minimize(lambda x: x, x0)
    with pytest.raises(ValueError, match="got 1 pairs of bounds for 2 unknowns"):
        minimize(lambda x: x.sum(), x0, bounds=[(0, 1)])
    with pytest.raises(ValueError, match=r"expected bounds as a .low, high. pair"):
        minimize(lambda x: x.sum(), x0, bounds=[1, 2])
    with pytest.raises(ValueError, match="'type' of 'eq' or 'ineq'"):
        minimize(lambda x: x.sum(), x0, constraints={"type": "le", "fun": lambda x: x})
    with pytest.raises(TypeError, match="expected a constraint as a dictionary"):
        minimize(lambda x: x.sum(), x0, constraints=[lambda x: x])
    with pytest.raises(ValueError, match="Unknown solver"):
        minimize(lambda x: x.sum(), x0, method="fastest")


# -- sums of squares -----------------------------------------------------------------------------

T = np.linspace(0, 1, 7)
DATA = 2 * np.exp(-1.7 * T) + 0.05 * np.sin(3 * np.arange(7))


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy", "arctan"])
def test_losses(loss: str) -> None:
    t, y = tensor(T), tensor(DATA, requires_grad=True)
    f = lambda y: least_squares(
        lambda p: p[0] * torch.exp(-p[1] * t) - y, tensor([1.0, 1.0]), loss=loss, f_scale=0.06,
        xtol=1e-12, ftol=1e-12, gtol=1e-12,
    ).x  # fmt: skip
    expected = scipy.optimize.least_squares(
        lambda p: p[0] * np.exp(-p[1] * T) - DATA, [1.0, 1.0], loss=loss, f_scale=0.06
    )
    np.testing.assert_allclose(f(y).detach(), expected.x, rtol=1e-3)
    assert gradcheck(f, (y,), eps=1e-4, atol=1e-3, rtol=1e-2, check_forward_ad=True)
    if loss == "linear":
        assert gradgradcheck(f, (y,))


@pytest.mark.parametrize("method", ["trf", "dogbox"])
def test_least_squares_with_bounds(method: str) -> None:
    t, y = tensor(T), tensor(DATA, requires_grad=True)
    f = lambda y: least_squares(
        lambda p: p[0] * torch.exp(-p[1] * t) - y, tensor([1.0, 1.0]),
        bounds=([0.0, 0.0], [3.0, 1.5]), method=method, xtol=1e-14, ftol=1e-14, gtol=1e-14,
    ).x  # fmt: skip
    assert float(f(y)[1].detach()) == pytest.approx(1.5)
    assert gradcheck(f, (y,), check_forward_ad=True)


def test_sparse_jacobians() -> None:
    n = 100
    r = lambda x: torch.cat([x[1:] - torch.sin(x[:-1]), x - 0.5])
    dense = least_squares(r, torch.ones(n, dtype=D))
    sparse = least_squares(r, torch.ones(n, dtype=D), jac="sparse")
    np.testing.assert_allclose(dense.x, sparse.x, atol=1e-6)
    assert scipy.sparse.issparse(sparse.jac)
    for bad, words in (({"jac": "2-point"}, "'dense' or 'sparse'"), ({"loss": "l0"}, "a loss of")):
        with pytest.raises(ValueError, match=words):
            least_squares(r, torch.ones(3, dtype=D), **bad)


def test_sparse_matrices_where_the_pattern_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd import arrays
    from retrograd.optimize import LinearConstraint

    kinds: list[bool] = []
    scipys = arrays.solvers.minimize

    def noted(fun: Any, x0: Any, **given: Any) -> Any:
        (own, *_) = given["constraints"]
        matrices = (given["hess"](x0), own.jac(x0), own.hess(x0, np.ones(len(x0) - 1)))
        kinds.extend(scipy.sparse.issparse(m) for m in matrices)
        return scipys(fun, x0, **given)

    def chain(x: Any) -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def solve(penalty: Any) -> Any:
        products = NonlinearConstraint(lambda x: x[1:] * x[:-1], -np.inf, 0.8)
        sums = LinearConstraint(np.eye(70)[:2], -5, 5)  # sparse, since the other one is
        return minimize(
            lambda x: chain(x) + penalty * (x * x).sum(), np.full(70, 0.5), method="trust-constr",
            constraints=[products, sums], options={"gtol": 1e-7, "xtol": 1e-9},
        )  # fmt: skip

    monkeypatch.setattr(arrays.solvers, "minimize", noted)
    found = solve(0.1)
    assert kinds == [True, True, True]
    monkeypatch.setattr("retrograd.optimize._constraints.SPARSE", -1.0)
    monkeypatch.setattr(arrays.solvers, "minimize", scipys)
    np.testing.assert_allclose(found.x, solve(0.1).x, atol=1e-5)
    # All of it couples: products with the Hessian, as ever.
    monkeypatch.undo()
    start = np.full(70, 0.5)
    dense = minimize(lambda x: (x * x).sum() + x.sum() ** 2, start, method="trust-constr")
    assert np.abs(dense.x).max() < 1e-5


@pytest.mark.parametrize("options", [{}, {"gtol": 1e-10, "xtol": 1e-12, "maxiter": 5000}])
def test_methods_that_do_not_quite_reach_limits(options: dict[str, Any]) -> None:
    p = torch.tensor([2.0, 1.0], dtype=D, requires_grad=True)

    def solve(**limits: Any) -> Any:
        found = minimize(
            lambda x, p: ((x - p) ** 2).sum(), np.array([0.1, 0.2]), args=(p,),
            method="trust-constr", options=options, **limits,
        )  # fmt: skip
        return [torch.autograd.grad(y, p, retain_graph=True)[0].numpy() for y in found.x]

    disk = [{"type": "ineq", "fun": lambda x: 1 - (x**2).sum()}]
    n = p.detach().numpy() / 5**0.5  # the nearest point of the unit disk
    projection = (np.eye(2) - np.outer(n, n)) / 5**0.5
    np.testing.assert_allclose(solve(constraints=disk), projection, atol=2e-3)
    held = solve(bounds=[(0.0, 1.5), (0.0, 1.5)])
    np.testing.assert_allclose(held, [[0.0, 0.0], [0.0, 1.0]], atol=1e-6)


@pytest.mark.parametrize("p", [1.0, 0.9985])
def test_limits_that_may_hold_or_not_are_refused(p: float) -> None:
    center = torch.tensor([p, 0.3], dtype=D, requires_grad=True)
    f = lambda x, p: ((x - p) ** 2).sum()
    given: dict[str, Any] = {"args": (center,), "method": "trust-constr",
                             "options": {"gtol": 1e-10, "xtol": 1e-12}}  # fmt: skip
    by_bounds = minimize(f, np.array([0.1, 0.2]), bounds=[(0, 1)] * 2, **given)
    with pytest.raises(RuntimeError, match="cannot be told whether unknown 0 is held"):
        by_bounds.x.sum().backward()
    constraint = [{"type": "ineq", "fun": lambda x: 1 - x[0]}]
    by_constraint = minimize(f, np.array([0.1, 0.2]), constraints=constraint, **given)
    with pytest.raises(RuntimeError, match="cannot be told whether constraint 0 is held"):
        by_constraint.x.sum().backward()


def test_a_function_that_is_nan_at_its_solution_has_no_derivative() -> None:
    # the gradient is a number, since the derivative of log(u) is 1 / u, for negative u as well
    a = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    start = torch.zeros(1, dtype=torch.float64)
    with np.errstate(invalid="ignore"):
        result = minimize(lambda x: torch.log(-a - x * x).sum(), start)
    with pytest.raises(RuntimeError, match="infinite or NaN at its solution"):
        result.x.sum().backward()


def test_a_tensor_that_is_passed_and_captured_as_well() -> None:
    p = tensor([2.0, 1.0, 0.4], requires_grad=True)

    def solve(p: Any, twice: bool) -> Any:
        goal = (lambda x, q: ((x - q[:2]) ** 2).sum()) if twice else (
            lambda x: ((x - p[:2]) ** 2).sum())  # fmt: skip
        line = {"type": "eq", "fun": lambda x: x[0] + x[1] - p[2]}
        args = (p,) if twice else ()
        return minimize(goal, tensor([0.1, 0.1]), args=args, constraints=line, tol=1e-12).x

    for transform in (jacrev, jacfwd):
        jacobian = transform(lambda p: solve(p, True))(p.detach())
        np.testing.assert_allclose(jacobian, [[0.5, -0.5, 0.5], [-0.5, 0.5, 0.5]], atol=1e-8)
    (both,) = torch.autograd.grad(solve(p, True)[0], p)
    (once,) = torch.autograd.grad(solve(p, False)[0], p)
    np.testing.assert_allclose(both, once, atol=1e-10)
