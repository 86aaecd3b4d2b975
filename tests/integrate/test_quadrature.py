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
