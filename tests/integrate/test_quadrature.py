"""Integrals, and their derivatives by limits and parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as torch
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import grad, hessian, jacfwd, jacrev, taylor, vmap
from retrograd.integrate import quad

pytestmark = pytest.mark.filterwarnings("ignore:Backwards compatibility")
D = torch.float64


def tensor(x: Any, **options: Any) -> torch.Tensor:
    return torch.tensor(x, dtype=D, **options)


def by_args(k: Any, a: Any, b: Any) -> Any:
    return quad(lambda x, k: torch.sin(k * x) * torch.exp(-x), a, b, args=(k,))[0]


def by_closure(k: Any, a: Any, b: Any) -> Any:
    return quad(lambda x: torch.sin(k * x) * torch.exp(-x), a, b)[0]


@pytest.mark.parametrize("f", [by_args, by_closure])
def test_finite_differences(f: Any) -> None:
    inputs = tuple(tensor(x, requires_grad=True) for x in (2.0, 0.3, 1.7))
    assert gradcheck(f, inputs, check_forward_ad=True)
    assert gradgradcheck(f, inputs, check_fwd_over_rev=True)


def test_closed_forms() -> None:
    k = tensor(2.0)
    f = lambda k: quad(lambda x: torch.exp(-k * x), 0, math.inf)[0]
    exact = lambda k: 1 / k
    for transform in (lambda f: f, jacrev, jacfwd, hessian, lambda f: grad(grad(grad(f)))):
        np.testing.assert_allclose(transform(f)(k), transform(exact)(k), rtol=1e-6)
    for a, b in zip(taylor(f, k, tensor(1.0), 3), taylor(exact, k, tensor(1.0), 3), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    batch = tensor([1.0, 2.0, 4.0])
    np.testing.assert_allclose(vmap(f)(batch), 1 / batch, rtol=1e-8)
    np.testing.assert_allclose(vmap(grad(f))(batch), -1 / batch**2, rtol=1e-8)


def test_limits() -> None:
    b = tensor(1.5, requires_grad=True)
    value, error = quad(torch.cos, 0.0, b)
    value.backward()
    np.testing.assert_allclose(value.detach(), math.sin(1.5))
    np.testing.assert_allclose(b.grad, math.cos(1.5))
    assert 0 < error < 1e-8
    gauss = lambda low: quad(lambda x: torch.exp(-x * x), low, math.inf)[0]
    np.testing.assert_allclose(grad(gauss)(tensor(0.5)), -math.exp(-0.25))
    infinite = tensor(math.inf, requires_grad=True)
    (zero,) = torch.autograd.grad(quad(lambda x: torch.exp(-x), 0.0, infinite)[0], infinite)
    assert float(zero) == 0.0
    assert float(quad(torch.cos, 1.0, 1.0)[0]) == 0.0


def test_vectors_and_points() -> None:
    k = tensor([1.0, 2.0, 3.0], requires_grad=True)
    value, _ = quad(lambda x, k: x**k, 0, 1, args=(k,))
    np.testing.assert_allclose(value.detach(), [1 / 2, 1 / 3, 1 / 4], rtol=1e-8)
    (gradient,) = torch.autograd.grad(value.sum(), k)
    np.testing.assert_allclose(gradient, [-1 / 4, -1 / 9, -1 / 16], rtol=1e-6)
    assert quad(lambda x: x * torch.ones(2, 3, dtype=D), 0, 1)[0].shape == (2, 3)
    edge, _ = quad(lambda x: torch.where(x < 0.3, x, 1 - x), 0, 1, points=[0.3])
    np.testing.assert_allclose(edge, 0.045 + 0.245)


def step(a: Any, x: Any) -> Any:
    return torch.where(x < a, torch.cos(x), 0 * x)


# Integrands that jump where a parameter says.
JUMPS: dict[str, Any] = {
    "step": lambda a: quad(lambda x: step(a, x), 0, 1),
    "at half of the interval": lambda a: quad(lambda x: step(a, x), 0, 2 * float(a.detach())),
    "small beside the rest": lambda a: quad(lambda x: torch.exp(3 * x) + 1e-3 * step(a, x), 0, 1),
    "rough": lambda a: quad(lambda x: step(a, x), 0, 1, epsabs=1e-2, epsrel=1e-2),
    "backwards": lambda a: quad(lambda x: step(a, x), 1, 0),
    "infinite": lambda a: quad(lambda x: step(a, x) * torch.exp(-x), 0, math.inf),
    "both infinite": lambda a: quad(lambda x: step(a, x) * torch.exp(-x * x), -math.inf, math.inf),
    "vector": lambda a: quad(lambda x: torch.stack([x * a, step(a, x)]), 0, 1),
    "floor": lambda a: quad(lambda x: torch.floor(10 * a * x), 0, 1),
    "narrow": lambda a: quad(lambda x: step(a + 1e-3, x) - step(a, x), 0, 1, points=[0.3]),
    "point as a number": lambda a: quad(lambda x: step(a, x), 0, 1, points=[0.3]),
}


@pytest.mark.parametrize("name", JUMPS)
def test_a_jump_that_moves_is_an_error(name: str) -> None:
    f = lambda a: JUMPS[name](a)[0].sum()
    assert f(tensor(0.3, requires_grad=True)).isfinite()
    for derivative in (grad, jacfwd):
        with pytest.raises(RuntimeError, match=r"the integrand jumps at x = .* by points"):
            derivative(f)(tensor(0.3))


def test_a_jump_in_single_precision() -> None:
    f = lambda a: quad(lambda x: torch.where(x < a, 1.0, 0.0), 0, 1)[0]
    with pytest.raises(RuntimeError, match=r"the integrand jumps at x = 0\.3"):
        grad(f)(torch.tensor(0.3))
    smooth = lambda a: quad(lambda x: torch.sin(a * x), 0, 1)[0]
    exact = math.sin(2) / 2 + (math.cos(2) - 1) / 4
    np.testing.assert_allclose(grad(smooth)(torch.tensor(2.0)), exact, rtol=1e-5)


def test_a_jump_of_a_derivative() -> None:
    # the second derivative of the integral of relu(x - a) is 1, from the jump of the first
    f = lambda a: quad(lambda x: torch.relu(x - a), 0, 1)[0]
    np.testing.assert_allclose(grad(f)(tensor(0.3)), -0.7)
    with pytest.raises(RuntimeError, match="the integrand jumps"):
        grad(grad(f))(tensor(0.3))
    split = lambda a: quad(lambda x: torch.relu(x - a), 0, 1, points=[a])[0]
    np.testing.assert_allclose(grad(grad(split))(tensor(0.3)), 1.0)


def test_jumps_that_stay() -> None:
    fixed = lambda a: quad(lambda x: torch.where(x < 0.3, a * x, 2 * a), 0, 1)[0]
    np.testing.assert_allclose(grad(fixed)(tensor(0.7)), 0.045 + 1.4, rtol=1e-7)
    other = lambda a: quad(lambda x: torch.stack([step(a, x), a * x]), 0, 1)[0][1]
    np.testing.assert_allclose(grad(other)(tensor(0.4)), 0.5)


def test_moving_points() -> None:
    # two jumps, from 0 to cos(a) and from cos(2 a) to 0
    def f(a: Any, low: Any = 0.0, high: Any = 1.0, k: Any = 1.0) -> Any:
        window = lambda x: torch.where((x > a) & (x < 2 * a), torch.cos(k * x), 0 * x)
        return quad(window, low, high, points=[2 * a, a])[0]

    exact = lambda a, k=1.0: (torch.sin(2 * a * k) - torch.sin(a * k)) / k
    a, k = tensor(0.3), tensor(1.5)
    for transform in (lambda f: f, grad, jacfwd, hessian, lambda f: grad(grad(f))):
        np.testing.assert_allclose(transform(f)(a), transform(exact)(a), rtol=1e-7)
        np.testing.assert_allclose(
            transform(lambda a: f(a, 1.0, 0.0))(a), -transform(exact)(a), rtol=1e-7
        )
    mixed = lambda a, k: f(a, 0.0, math.inf, k)
    for transform in (lambda f: jacrev(f, (0, 1)), lambda f: jacfwd(jacrev(f, 1), 0)):
        for found, known in zip(
            torch.utils._pytree.tree_leaves(transform(mixed)(a, k)),
            torch.utils._pytree.tree_leaves(transform(exact)(a, k)), strict=True,
        ):  # fmt: skip
            np.testing.assert_allclose(found, known, rtol=1e-7)
    batch = tensor([0.3, 0.4, 0.9])  # in the last, a point is outside
    expected = [2 * math.cos(0.6) - math.cos(0.3), 2 * math.cos(0.8) - math.cos(0.4),
                -math.cos(0.9)]  # fmt: skip
    np.testing.assert_allclose(vmap(grad(f))(batch), expected, rtol=1e-7)


def test_limits_at_jumps() -> None:
    # the limit moves over what is inside, whatever the function is at the limit itself
    below = lambda a: quad(lambda x: torch.where(x < a, torch.exp(x), 0 * x), 0, a)[0]
    above = lambda a: quad(lambda x: torch.where(x > a, torch.exp(x), 0 * x), a, 1)[0]
    for transform in (grad, jacfwd, lambda f: grad(grad(f)), hessian):
        np.testing.assert_allclose(transform(below)(tensor(0.3)), math.exp(0.3), rtol=1e-7)
        np.testing.assert_allclose(transform(above)(tensor(0.3)), -math.exp(0.3), rtol=1e-7)
    np.testing.assert_allclose(
        grad(lambda a: quad(lambda x: torch.sin(x) / x, a, 1)[0])(tensor(0.0)), -1.0
    )
    assert float(grad(lambda a: quad(lambda x: x**-0.5, a, 1)[0])(tensor(0.0))) == -math.inf


def test_steep_functions() -> None:
    # the derivative is a narrow peak, which the first points of a rule do not see
    for width in (1e-4, 1e-6):
        for low, high in ((0, 1), (0, math.inf), (-math.inf, 1)):
            f = lambda a, w=width, b=(low, high): quad(
                lambda x: torch.sigmoid((a - x) / w) * torch.exp(-x * x), *b, limit=200
            )[0]
            np.testing.assert_allclose(grad(f)(tensor(0.3)), math.exp(-0.09), rtol=1e-6)


def test_vectors_that_do_not_converge_warn() -> None:
    with pytest.warns(Warning, match="quad: "):
        quad(lambda x: torch.stack([x, torch.sin(1 / (x + 1e-4))]), 0, 1, limit=3)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=4), st.floats(-2, 2), st.floats(-2, 2))
def test_random_polynomials(coefficients: list[float], a: float, b: float) -> None:
    c = tensor(coefficients, requires_grad=True)
    powers = torch.arange(len(coefficients), dtype=D)
    value, _ = quad(lambda x: (c * x**powers).sum(), a, b)
    exact = [(b ** (n + 1) - a ** (n + 1)) / (n + 1) for n in range(len(coefficients))]
    np.testing.assert_allclose(value.detach(), np.dot(coefficients, exact), atol=1e-9)
    np.testing.assert_allclose(torch.autograd.grad(value, c)[0], exact, atol=1e-9)


def test_bad_input() -> None:
    with pytest.raises(TypeError, match="func must return a Tensor, got float"):
        quad(lambda x: 1.0, 0, 1)
    with pytest.raises(ValueError, match="infinite limits cannot be combined with points"):
        quad(lambda x: torch.exp(-x), 0, math.inf, points=[1.0])
