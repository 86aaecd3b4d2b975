"""Right-hand sides with kinks: derivatives are as accurate as the solution, by closed forms and by
differences of solutions to small tolerances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.integrate
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import retrograd as torch
from retrograd.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from retrograd.integrate import odeint, solve_ivp

METHODS = ["RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"]
# Methods of low order take thousands of steps to the smallest tolerance.
TOLERANCES = {m: [1e-3, 1e-6] if m in ("RK23", "BDF") else [1e-3, 1e-6, 1e-9] for m in METHODS}


def tensor(x: Any, **options: Any) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64, **options)


def end(fun: Any, method: str, tolerance: float, start: Any = (0.0,), until: float = 1.0) -> Any:
    options = {"rtol": tolerance, "atol": tolerance * 1e-2}
    return lambda a: solve_ivp(fun, (0.0, until), tensor(start), method, args=(a,), **options).y[
        0, -1
    ]


def growth(t: Any, y: Any, a: Any) -> Any:
    return 1 + 5 * torch.relu(y - a)


# Each with a function of the parameter that is y(1), from y(0) = 0, and a parameter.
CLOSED_FORMS = {
    "relu of the state": (growth, lambda a: a + (torch.exp(5 * (1 - a)) - 1) / 5, 0.4),
    "relu of the time": (lambda t, y, a: torch.relu(t - a) + 0 * y,
                         lambda a: (1 - a) ** 2 / 2, 0.3),
    "abs": (lambda t, y, a: 1 + 3 * (y - a).abs(),
            lambda a: a + (torch.exp(3 * (1 - torch.log(1 + 3 * a) / 3)) - 1) / 3, 0.5),
    "two kinks in one step": (lambda t, y, a: torch.clamp(t, a, a + 0.02) + 0 * y,
                              lambda a: a**2 + 0.02 * a + 0.0002 + (0.98 - a) * (a + 0.02), 0.437),
    "where": (lambda t, y, a: torch.where(y < a, 1.0 + 0 * y, 1 + 2 * (y - a)),
              lambda a: a + (torch.exp(2 * (1 - a)) - 1) / 2, 0.6),
    "maximum": (lambda t, y, a: torch.maximum(a * torch.ones(1).double(), 2 * t) + 0 * y,
                lambda a: 1 + a**2 / 4, 0.8),
}  # fmt: skip


def check_closed_form(name: str, method: str, tolerance: float, derivatives: Any) -> None:
    """The error of the derivative is at most 30 times that of the solution, or the tolerance."""
    fun, exact, at = CLOSED_FORMS[name]
    a = tensor(at)
    value, slope = float(exact(a)), float(grad(exact)(a))
    f = end(fun, method, tolerance)
    error = abs(float(f(a)) - value) / abs(value)
    for derivative in derivatives:
        wrong = abs(float(derivative(f)(a)) - slope) / abs(slope)
        assert wrong <= 30 * max(error, tolerance), (tolerance, derivative)


@pytest.mark.parametrize("name", CLOSED_FORMS)
@pytest.mark.parametrize("method", METHODS)
def test_closed_forms(name: str, method: str) -> None:
    check_closed_form(name, method, 1e-3, (grad, jacfwd))
    check_closed_form(name, method, 1e-6, (grad,))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CLOSED_FORMS)
@pytest.mark.parametrize("method", METHODS)
def test_closed_forms_at_all_tolerances(name: str, method: str) -> None:
    for tolerance in TOLERANCES[method]:
        check_closed_form(name, method, tolerance, (grad, jacfwd))


@pytest.mark.parametrize(
    "method",
    ["RK45", *[pytest.param(m, marks=pytest.mark.long) for m in METHODS if m != "RK45"]],
)
def test_second_derivatives_have_the_term_of_the_kink(method: str) -> None:
    fun, exact, at = CLOSED_FORMS["relu of the state"]
    f = end(fun, method, 1e-4)
    expected = float(hessian(exact)(tensor(at)))
    assert abs(float(hessian(f)(tensor(at))) / expected - 1) < 2e-3
    a = tensor(at, requires_grad=True)
    (first,) = torch.autograd.grad(f(a), a, create_graph=True)
    np.testing.assert_allclose(torch.autograd.grad(first, a)[0], expected, rtol=2e-3)


@pytest.mark.long
def test_a_third_derivative() -> None:
    fun, exact, at = CLOSED_FORMS["relu of the state"]
    third = lambda f: grad(grad(grad(f)))(tensor(at))
    np.testing.assert_allclose(third(end(fun, "DOP853", 1e-8)), third(exact), rtol=1e-5)


def test_second_derivatives_of_a_selection_that_changes_are_an_error() -> None:
    """``sort`` does not say how far it is from another order."""
    fun = lambda t, y, a: torch.sort(torch.stack([y[0] - a, 0 * t])).values[1:] + 1
    f = end(fun, "RK45", 1e-7)
    expected = 1 - math.exp(0.6)  # y' = 1 + relu(y - a)
    np.testing.assert_allclose(grad(f)(tensor(0.4)), expected, rtol=1e-5)
    with pytest.raises(RuntimeError, match=r"(?s)near t = 0\.4 .* by a terminal event"):
        hessian(f)(tensor(0.4))
    largest = lambda t, y, a: torch.stack([y[0] - a, 0 * t]).amax(0, keepdim=True) + 1
    np.testing.assert_allclose(
        hessian(end(largest, "RK45", 1e-7))(tensor(0.4)), math.exp(0.6), rtol=1e-5
    )


@pytest.mark.parametrize("method", ["RK45", pytest.param("LSODA", marks=pytest.mark.long)])
def test_outputs_dense_output_and_events(method: str) -> None:
    """Outputs before, at and after the kink, which is at t = a."""
    times = [0.1, 0.4, 0.4 + 1e-9, 0.5, 1.0]
    a = tensor(0.4, requires_grad=True)
    hits = lambda t, y, a: y[0] - 2
    at_the_kink = lambda t, y, a: y[0] - a
    events = [hits, at_the_kink]
    result = solve_ivp(growth, (0, 1), tensor([0.0]), method, times, True, events, (a,),
                       rtol=1e-8, atol=1e-10)  # fmt: skip
    exact = [0.0 if t <= 0.4 + 1e-8 else 1 - math.exp(5 * (t - 0.4)) for t in times]
    jacobian = [torch.autograd.grad(x, a, retain_graph=True)[0].item() for x in result.y[0]]
    np.testing.assert_allclose(jacobian, exact, rtol=1e-5, atol=1e-6)
    dense = [torch.autograd.grad(result.sol(t)[0], a, retain_graph=True)[0].item() for t in times]
    np.testing.assert_allclose(dense, exact, rtol=1e-5, atol=1e-6)
    # y is 2 at a + log(1 + 5 (2 - a)) / 5, and a at t = a
    when = lambda a: a + torch.log(1 + 5 * (2 - a)) / 5
    for i, expected in ((0, when(a)), (1, a * 1.0)):
        found = result.t_events[i][0]
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-6)
        mine = torch.autograd.grad(found, a, retain_graph=True)[0]
        np.testing.assert_allclose(mine, torch.autograd.grad(expected, a)[0], rtol=1e-5)
    time = lambda a: solve_ivp(growth, (0, 1), tensor([0.0]), method, events=hits, args=(a,),
                               rtol=1e-8, atol=1e-10).t_events[0][0]  # fmt: skip
    np.testing.assert_allclose(hessian(time)(a.detach()), hessian(when)(a.detach()), rtol=1e-4)


def test_kinks_in_vectors_backwards_under_vmap_and_jvp() -> None:
    rate = lambda t, y, a: 1 + 5 * torch.relu(y - a)
    a, y0 = tensor([0.2, 0.4, 0.7]), tensor([0.0, 0.0, 0.0])
    f = lambda a, y0: solve_ivp(rate, (0, 1), y0, t_eval=[1.0], args=(a,), rtol=1e-8, atol=1e-10).y[
        :, 0
    ]
    slopes = 1 - np.exp(5 * (1 - a.numpy()))
    for jacobian in (jacfwd, jacrev):
        np.testing.assert_allclose(jacobian(f)(a, y0), np.diag(slopes), rtol=1e-5, atol=1e-9)
        by_start = jacobian(f, 1)(a, y0)
        np.testing.assert_allclose(by_start, np.diag(1 - slopes), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(jvp(f, (a, y0), (a, y0))[1], slopes * a.numpy(), rtol=1e-5)
    one = lambda a: f(a.reshape(1), y0[:1])[0]
    for derivative in (grad, jacfwd):
        np.testing.assert_allclose(vmap(derivative(one))(a), slopes, rtol=1e-5)
    back = lambda a: solve_ivp(lambda t, y, a: 1 + torch.relu(a - y), (1.0, 0.0), tensor([1.2]),
                               args=(a,), rtol=1e-8, atol=1e-10).y[0, -1]  # fmt: skip
    # for 1.2 - a units of time above a, and for s units below, where y is a + 1 - exp(s)
    exact = lambda a: a + 1 - torch.exp(1 - (1.2 - a))
    np.testing.assert_allclose(back(tensor(0.5)), exact(tensor(0.5)), rtol=1e-5)
    np.testing.assert_allclose(grad(back)(tensor(0.5)), grad(exact)(tensor(0.5)), rtol=1e-5)
    single = lambda y: odeint(lambda y, t: 1 + 5 * torch.relu(y - 0.4), y, [0.0, 1.0])[-1, 0]
    np.testing.assert_allclose(grad(single)(tensor([0.0])), [math.exp(3.0)], rtol=1e-5)


ACTIVATIONS = [
    torch.relu, torch.abs, lambda x: torch.clamp(x, -0.3, 0.4), lambda x: torch.maximum(x, -x / 3),
    torch.nn.functional.leaky_relu, lambda x: torch.nn.functional.elu(x, 0.4),
    torch.nn.functional.hardswish, lambda x: torch.nn.functional.softshrink(x, 0.2),
    lambda x: torch.where(x > 0.1, x**2, 0.1 * x), lambda x: x.clone().relu_(),
    lambda x: vmap(lambda z: torch.relu(z) + torch.minimum(z, 2 * z))(x),
    lambda x: x - torch.linalg.vector_norm(x, 1) - torch.linalg.vector_norm(x, math.inf),
    lambda x: torch.stack([x.sort().values[0], x.max(), x.median(), x.min()]),
]  # fmt: skip


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(range(len(ACTIVATIONS))), st.sampled_from(METHODS),
       st.sampled_from([1e-4, 1e-6]))  # fmt: skip
def test_random_networks(seed: int, activation: int, method: str, tolerance: float) -> None:
    """Against differences of solutions to a small tolerance."""
    generator = np.random.default_rng(seed)
    act, given_sizes = ACTIVATIONS[activation], ((4, 2), (4,), (2, 4), (2,))
    first, bias, second, start = (tensor(generator.normal(size=s)) for s in given_sizes)
    direction = tensor(generator.normal(size=4))

    def rate(t: Any, y: Any, bias: Any) -> Any:
        return second @ act(first @ y + bias) - 0.5 * y

    def final(bias: Any, tolerance: float, method: str) -> Any:
        options = {"rtol": tolerance, "atol": tolerance * 1e-2}
        found = solve_ivp(rate, (0.0, 1.0), start, method, args=(bias,), **options)
        assume(found.success and float(found.y.detach().abs().max()) < 1e3)  # with x**2 it may end
        return found.y[:, -1]

    h = 1e-5
    moved = [final(bias + s * direction, 1e-11, "DOP853") for s in (h, 0.0, -h)]
    expected, true = (moved[0] - moved[2]) / (2 * h), moved[1]
    value, tangent = jvp(lambda b: final(b, tolerance, method), (bias,), (direction,))
    error = float((value - true).abs().max() / true.abs().max())
    scale = float(expected.abs().max()) + float(true.abs().max())
    for mine in (tangent, jacrev(lambda b: final(b, tolerance, method))(bias) @ direction):
        wrong = float((mine - expected).abs().max()) / scale
        assert wrong <= 100 * max(error, tolerance)


def test_a_jump_that_no_step_was_repeated_for_is_an_error() -> None:
    """The jump is small, so that the method does not notice it."""
    fun = lambda t, y, a: 1 + torch.where(y > a, 1e-3, 0.0)
    f = end(fun, "RK45", 1e-3)
    with pytest.raises(RuntimeError, match=r"fun jumps at t = 0\.4"):
        grad(f)(tensor(0.4))
    fixed = end(lambda t, y, a: a * torch.where(t < 0.4, 2.0, 1.0) + 0 * y, "RK45", 1e-3)
    np.testing.assert_allclose(grad(fixed)(tensor(0.7)), 1.4, rtol=1e-9)


def test_branches_in_python_and_roots_beyond_a_kink() -> None:
    def branching(t: Any, y: Any, a: Any) -> Any:
        if y[0] < a:
            return 1.0 + 0 * y
        return 1 + 5 * (y - a)

    a = tensor(0.4)
    mine, theirs = (grad(end(fun, "RK45", 1e-6))(a) for fun in (branching, growth))
    np.testing.assert_allclose(mine, theirs, rtol=1e-9)
    np.testing.assert_allclose(mine, 1 - math.exp(3.0), rtol=1e-4)
    # a branch that is NaN on the other side, and has no second derivative at its end
    rooted = lambda t, y, a: 1 + torch.clamp(y - a, min=0.0) ** 1.5
    h = 1e-5
    options = {"rtol": 1e-11, "atol": 1e-13}
    plain = lambda a: scipy.integrate.solve_ivp(
        lambda t, y: 1 + np.maximum(y - a, 0) ** 1.5, (0, 1), [0.0], "DOP853", **options
    ).y[0, -1]
    expected = (plain(0.4 + h) - plain(0.4 - h)) / (2 * h)
    np.testing.assert_allclose(grad(end(rooted, "RK45", 1e-7))(a), expected, rtol=1e-3)


def test_kinks_that_are_not_looked_for() -> None:
    def pooled(t: Any, y: Any, a: Any) -> Any:
        found = torch.nn.functional.max_pool2d((y - a).reshape(1, 1, 1, 2), (1, 2))
        return 1 + found.reshape(1) + 0 * y

    f = lambda a: solve_ivp(pooled, (0, 1), tensor([0.0, 0.1]), args=(a,)).y[0, -1]
    with pytest.warns(UserWarning, match="kinks of max_pool2d_with_indices in fun are not looked"):
        grad(f)(tensor(0.4))


def test_a_margin_that_only_comes_near_to_zero() -> None:
    """Two kinks between two samples of a step, about which no stage may know."""
    fun = lambda t, y, a: 1 + torch.relu(0.001 - (t - a) ** 2) * 50 + 0 * y
    width = 0.001**0.5
    f = end(fun, "DOP853", 1e-4)
    exact = 50 * (2 * 0.001 * width - 2 * width**3 / 3)
    assert abs(float(grad(f)(tensor(0.4)))) < 1e-6  # it does not matter when
    wider = lambda a: end(lambda t, y, w: 1 + torch.relu(w - (t - 0.4) ** 2) * 50 + 0 * y,
                          "DOP853", 1e-4)(a)  # fmt: skip
    np.testing.assert_allclose(f(tensor(0.4)), 1 + exact, rtol=1e-3)
    np.testing.assert_allclose(grad(wider)(tensor(0.001)), 100 * width, rtol=1e-3)
