"""Transforms take arrays in place of tensors, and give arrays back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import retrograd as torch
from retrograd import func


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


X = np.array([0.5, -0.3, 0.8])


def the_same(found: Any, expected: Any) -> None:
    """Arrays of the values of tensors."""
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, expected.detach().numpy(), 1e-12)


def test_derivatives_of_arrays_are_the_arrays_of_those_of_tensors() -> None:
    t = torch.tensor(X)
    for transform in (func.grad, func.jacrev, func.jacfwd, func.hessian):
        the_same(transform(rosenbrock)(X), transform(rosenbrock)(t))
    gradient, value = func.grad_and_value(rosenbrock)(X)
    the_same(gradient, func.grad(rosenbrock)(t))
    assert float(value) == pytest.approx(rosenbrock(X))
    assert type(value) is np.ndarray
    the_same(func.jvp(rosenbrock, (X,), (2 * X,))[1], func.jvp(rosenbrock, (t,), (2 * t,))[1])
    value, pull_back = func.vjp(np.sin, X)
    the_same(value, torch.sin(t))
    the_same(pull_back(X)[0], t * torch.cos(t))
    value, push_forward = func.linearize(np.sin, X)
    the_same(value, torch.sin(t))
    the_same(push_forward(X), t * torch.cos(t))
    batch = np.stack([X, 2 * X])
    the_same(func.vmap(func.grad(rosenbrock))(batch),
             func.vmap(func.grad(rosenbrock))(torch.tensor(batch)))  # fmt: skip
    the_same(func.vmap(np.sum, chunk_size=1)(batch), torch.tensor(batch).sum(1))
    the_same(func.taylor(np.sin, X, X, 3)[3], func.taylor(torch.sin, t, t, 3)[3])
    the_same(func.derivatives(np.sin, X, 2)[2], -torch.sin(t))
    the_same(func.laplacian(rosenbrock)(X), func.laplacian(rosenbrock)(t))
    the_same(func.jet(np.sin, (X,), ([X, X],))[1][1], func.jet(torch.sin, (t,), ([t, t],))[1][1])


def test_each_derivative_is_of_the_kind_of_its_argument() -> None:
    def loss(weights: Any, x: Any) -> Any:
        return np.sum(weights["a"] * x) + np.sum(weights["b"] ** 2)

    weights = {"a": X, "b": torch.tensor(X)}
    found = func.grad(loss)(weights, X)
    the_same(found["a"], torch.tensor(X))
    assert isinstance(found["b"], torch.Tensor)
    assert found["b"].tolist() == (2 * X).tolist()
    second, first = func.grad(loss, argnums=(1, 0))(weights, torch.tensor(X))
    assert isinstance(second, torch.Tensor)
    the_same(first["a"], torch.tensor(X))
    gradient, value = func.grad_and_value(lambda w, x: loss(w, x))(weights, X)
    assert isinstance(value, torch.Tensor)  # a tensor took part
    assert type(gradient["a"]) is np.ndarray


def test_what_is_not_differentiated_by_is_passed_on() -> None:
    kinds: list[type] = []

    def loss(w: Any, x: Any) -> Any:
        kinds.append(type(x))
        return np.sum(w * x)

    func.grad(loss)(torch.tensor(X), X)
    func.vmap(loss, in_dims=(0, None))(X, X)
    assert kinds == [np.ndarray, np.ndarray]


def test_aux_is_given_as_arrays() -> None:
    gradient, aux = func.grad(lambda x: (np.sum(x**2), {"twice": 2 * x}), has_aux=True)(X)
    the_same(gradient, torch.tensor(2 * X))
    the_same(aux["twice"], torch.tensor(2 * X))


def test_what_has_a_history_or_is_transformed_stays_a_tensor() -> None:
    w = torch.tensor(X, requires_grad=True)
    found = func.grad(lambda x: np.sum(w * x**2))(X)
    assert found.requires_grad
    found.sum().backward()
    assert w.grad.tolist() == (2 * X).tolist()
    batched = func.vmap(lambda s: func.grad(lambda x: np.sum(s * x**2))(X))(torch.arange(2.0))
    assert batched.tolist() == [[0.0] * 3, (2 * X).tolist()]


def test_numbers_of_numpy_are_arrays_and_numbers_of_python_are_not() -> None:
    found = func.grad(np.sin)(np.float64(0.5))
    assert type(found) is np.ndarray
    assert float(found) == np.cos(0.5)
    with pytest.raises(ValueError, match="must be Tensor, got <class 'float'>"):
        func.grad(np.sin)(0.5)


def test_scipy_takes_derivatives_as_they_are() -> None:
    start = np.full(4, 0.3)
    for method, more in {
        "BFGS": {}, "L-BFGS-B": {}, "CG": {}, "trust-exact": {"hess": func.hessian(rosenbrock)},
    }.items():  # fmt: skip
        found = scipy.optimize.minimize(
            rosenbrock, start, jac=func.grad(rosenbrock), method=method, **more
        )
        assert found.success
        np.testing.assert_allclose(found.x, 1.0, atol=1e-3)
    both = func.grad_and_value(rosenbrock)
    found = scipy.optimize.minimize(lambda x: both(x)[::-1], start, jac=True)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)

    def residuals(x: Any) -> Any:
        return np.stack([np.exp(x[0]) - 2.0, x[0] * x[1] - 1.0])

    for solved in (
        scipy.optimize.least_squares(residuals, [1.0, 1.0], jac=func.jacfwd(residuals)),
        scipy.optimize.root(residuals, [1.0, 1.0], jac=func.jacrev(residuals)),
    ):
        np.testing.assert_allclose(solved.x, [np.log(2.0), 1 / np.log(2.0)], 1e-6)
    jacobian = func.sparse_jacobian(residuals, np.ones(2))
    np.testing.assert_allclose(jacobian(np.ones(2)).toarray(), [[np.e, 0.0], [1.0, 1.0]])
    curvature = func.sparse_hessian(rosenbrock, X)
    np.testing.assert_allclose(curvature(X).toarray(), func.hessian(rosenbrock)(X), 1e-10)
