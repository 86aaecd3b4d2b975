"""Derivatives of solutions of equations: against closed forms, finite differences and Newton's
method differentiated step by step, in all modes and orders."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as torch
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import grad, hessian, jacfwd, jacrev, jvp, taylor, vmap
from retrograd.optimize import _equations, _implicit, fixed_point, fsolve, implicit, root

pytestmark = pytest.mark.filterwarnings("ignore:Backwards compatibility")
D = torch.float64


def tensor(x: Any, **options: Any) -> torch.Tensor:
    return torch.tensor(x, dtype=D, **options)


def cube_root(a: torch.Tensor) -> torch.Tensor:
    """By args."""
    return root(lambda x, a: x**3 - a, torch.ones_like(a), args=(a,)).x


def captured_cube_root(a: torch.Tensor) -> torch.Tensor:
    """By a tensor that the function has captured."""
    return root(lambda x: x**3 - a, torch.ones_like(a)).x


def coupled(a: torch.Tensor) -> torch.Tensor:
    return root(lambda x: x**3 + x * x.flip(0) - a, tensor([1.0, 1.0])).x


def newton(a: torch.Tensor) -> torch.Tensor:
    """What ``coupled`` computes, by steps that are differentiated one by one."""
    f = lambda x: x**3 + x * x.flip(0) - a
    x = tensor([1.0, 1.5])
    for _ in range(12):
        x = x - torch.linalg.solve(jacfwd(f)(x), f(x))
    return x


@pytest.mark.parametrize("f", [cube_root, captured_cube_root, coupled])
def test_finite_differences(f: Any) -> None:
    a = tensor([4.0, 9.0], requires_grad=True)
    assert gradcheck(f, (a,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(f, (a,), check_fwd_over_rev=True)


@pytest.mark.parametrize("f", [cube_root, captured_cube_root])
def test_closed_forms_of_high_order(f: Any) -> None:
    a = tensor([2.0, 5.0])
    exact = lambda a: a ** (1 / 3)
    for order in range(1, 5):
        of, expected = f, exact
        for _ in range(order):
            of, expected = (
                grad(lambda a, of=of: of(a).sum()), grad(lambda a, of=expected: of(a).sum())
            )  # fmt: skip
        np.testing.assert_allclose(of(a), expected(a), rtol=1e-6)
    for x, y in zip(*(taylor(g, a, torch.ones(2, dtype=D), 5) for g in (f, exact)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_all_transforms_agree_with_newton() -> None:
    a = tensor([4.0, 9.0])
    for transform in (jacrev, jacfwd, lambda f: jacrev(jacfwd(f)), lambda f: jacfwd(jacrev(f)),
                      lambda f: hessian(lambda a: (f(a) ** 2).sum()),
                      lambda f: jacrev(jacrev(jacrev(f)))):  # fmt: skip
        np.testing.assert_allclose(transform(coupled)(a), transform(newton)(a), rtol=1e-6,
                                   atol=1e-12)  # fmt: skip
    v = tensor([0.3, -0.7])
    for x, y in zip(jvp(coupled, (a,), (v,)), jvp(newton, (a,), (v,)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8)


def test_vmap_is_a_loop() -> None:
    batch = tensor([[4.0, 9.0], [5.0, 2.0], [1.0, 7.0]])
    for f in (coupled, jacrev(coupled), jacfwd(coupled), lambda a: hessian(
            lambda a: coupled(a).sum())(a)):  # fmt: skip
        expected = np.stack([f(a) for a in batch])
        np.testing.assert_allclose(vmap(f)(batch), expected, rtol=1e-9, atol=1e-13)
    starts = tensor([[1.0], [-1.0]])  # of one equation, to two roots
    found = vmap(lambda x0: root(lambda x: x**2 - 4, x0).x)(starts)
    np.testing.assert_allclose(found, [[2.0], [-2.0]])


def test_gradients_of_a_batch() -> None:
    batch = tensor([[4.0, 9.0], [5.0, 2.0]], requires_grad=True)
    vmap(coupled)(batch).sum().backward()
    expected = [grad(lambda a: coupled(a).sum())(a) for a in batch.detach()]
    np.testing.assert_allclose(batch.grad, np.stack(expected), rtol=1e-9)


def test_solutions_inside_of_solutions() -> None:
    # The inner root of y² = x, in an outer equation, with a tensor that both have captured.
    def nested(a: torch.Tensor) -> torch.Tensor:
        def outer(x: torch.Tensor) -> torch.Tensor:
            y = root(lambda y: y**2 - a * x, torch.ones_like(x)).x
            return x * y - a**2

        return root(outer, torch.ones_like(a)).x

    # x √(a x) = a² has the solution a.
    a = tensor([2.0, 3.0], requires_grad=True)
    np.testing.assert_allclose(nested(a).detach(), [2.0, 3.0], rtol=1e-9)
    for transform in (jacrev, jacfwd):
        np.testing.assert_allclose(transform(nested)(a.detach()), np.eye(2), atol=1e-6)
    (gradient,) = torch.autograd.grad(nested(a).sum(), a, create_graph=True)
    np.testing.assert_allclose(gradient.detach(), [1.0, 1.0], atol=1e-6)
    (second,) = torch.autograd.grad(gradient.sum(), a)
    np.testing.assert_allclose(second, [0.0, 0.0], atol=1e-5)


def test_trees_and_modules() -> None:
    layer = torch.nn.Linear(2, 2).double()
    with torch.no_grad():
        layer.weight.copy_(tensor([[0.2, 0.1], [-0.1, 0.3]]))
        layer.bias.copy_(tensor([0.5, -0.5]))
    # The fixed point of an affine map, in a dictionary.
    found = fixed_point(lambda p: {"x": layer(p["x"])}, {"x": torch.zeros(2, dtype=D)}, xtol=1e-12)
    solved = torch.linalg.solve(torch.eye(2, dtype=D) - layer.weight, layer.bias)
    np.testing.assert_allclose(found["x"].detach(), solved.detach(), rtol=1e-9)
    for parameter in layer.parameters():
        mine, theirs = (
            torch.autograd.grad((y**2).sum(), parameter, retain_graph=True)[0]
            for y in (found["x"], solved)
        )
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)


def test_a_solver_of_ones_own() -> None:
    def bisect(a: torch.Tensor, low: float) -> torch.Tensor:
        assert not a.requires_grad
        bottom, top = low * torch.ones_like(a), a + 1
        for _ in range(60):
            middle = (bottom + top) / 2
            below = middle**2 < a
            bottom, top = torch.where(below, middle, bottom), torch.where(below, top, middle)
        return middle

    solve = implicit(bisect, lambda x, a, low: x**2 - a)
    a = tensor([4.0, 2.0], requires_grad=True)
    assert gradcheck(lambda a: solve(a, 0.0), (a,), check_forward_ad=True)
    assert gradgradcheck(lambda a: solve(a, 0.0), (a,))
    batch = tensor([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(vmap(lambda a: solve(a, 0.0))(batch), batch.sqrt(), rtol=1e-12)
    b = tensor(3.0, requires_grad=True)  # which only the equation has captured
    found = implicit(lambda: {"y": tensor([3.0**0.5])}, lambda x: x["y"] ** 2 - b)()
    found["y"].sum().backward()
    np.testing.assert_allclose(b.grad, 0.5 / 3.0**0.5)
    assert solve(tensor([4.0]), 0.0).requires_grad is False


def test_large_problems_need_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 6
    a = tensor(np.linspace(1, 2, n))
    f = lambda a: root(lambda x: x**3 + 3 * x + 0.3 * x.roll(1) - a, torch.ones_like(a)).x
    expected = jacrev(f)(a), jacfwd(f)(a), hessian(lambda a: f(a).sum())(a)
    monkeypatch.setattr(_implicit, "DENSE", 2)
    monkeypatch.setattr(_implicit.Problem, "_by_matrix", None)
    for x, y in zip((jacrev(f)(a), jacfwd(f)(a), hessian(lambda a: f(a).sum())(a)), expected,
                    strict=True):  # fmt: skip
        np.testing.assert_allclose(x, y, atol=1e-8)
    b = tensor([1.0] * n, requires_grad=True)
    singular = implicit(lambda b: torch.zeros(n, dtype=D), lambda x, b: x.sum() * b)
    with pytest.raises(RuntimeError, match="the linear equations for the derivatives were not"):
        singular(b)[0].backward()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_random_systems(seed: int, n: int) -> None:
    generator = np.random.default_rng(seed)
    matrix = tensor(generator.uniform(-1, 1, (n, n)) + 4 * np.eye(n))
    right, weights = tensor(generator.uniform(-1, 1, n)), tensor(generator.uniform(-1, 1, n))

    def loss(matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        f = lambda x, right: matrix @ x + torch.tanh(x) - right
        return weights @ root(f, torch.zeros(n, dtype=D), args=(right,), tol=1e-13).x

    for argument in (0, 1):
        exact = grad(loss, argument)(matrix, right)
        v = tensor(generator.uniform(-1, 1, exact.shape))
        h = 1e-5
        moved = [[matrix, right], [matrix, right]]
        moved[0][argument], moved[1][argument] = (
            moved[0][argument] + h * v, moved[1][argument] - h * v
        )  # fmt: skip
        difference = (loss(*moved[0]) - loss(*moved[1])) / (2 * h)
        np.testing.assert_allclose((exact * v).sum(), difference, rtol=1e-5, atol=1e-9)


# -- what cannot be differentiated --------------------------------------------------------------


def test_a_singular_equation_is_refused() -> None:
    a = tensor([0.0], requires_grad=True)
    x = root(lambda x: x**3 - a, tensor([0.0])).x
    with pytest.raises(RuntimeError, match="derivative of the equation by x is singular"):
        x.sum().backward()
    with pytest.raises(RuntimeError, match="derivative of the equation by x is singular"):
        jvp(lambda a: root(lambda x: x**3 - a, tensor([0.0])).x, (a.detach(),), (a.detach() + 1,))


def test_a_solution_that_is_none_is_refused() -> None:
    a = tensor([4.0], requires_grad=True)
    result = root(lambda x: x**2 + a, tensor([1.0]))
    assert not result.success
    with pytest.raises(RuntimeError, match="the solver did not converge"):
        result.x.sum().backward()
    wrong = implicit(lambda a: a, lambda x, a: x**2 - a)
    with pytest.raises(RuntimeError, match="Newton's method would still move x by"):
        wrong(a).sum().backward()


def test_what_cannot_be_followed_is_refused() -> None:
    def f(a: torch.Tensor) -> torch.Tensor:
        # The captured tensor goes into a transform, and not into an operation.
        return root(lambda x: x - vmap(lambda s: s**2)(a), torch.zeros(2, dtype=D)).x

    with pytest.raises(RuntimeError, match="could not be followed"):
        jvp(f, (tensor([1.0, 2.0]),), (tensor([1.0, 1.0]),))
    by_args = lambda a: root(lambda x, a: x - vmap(lambda s: s**2)(a), torch.zeros(2, dtype=D),
                             args=(a,)).x  # fmt: skip
    np.testing.assert_allclose(jacfwd(by_args)(tensor([1.0, 2.0])), np.diag([2.0, 4.0]))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="must return as many numbers as there are unknowns, 2"):
        root(lambda x: x[:1], tensor([1.0, 2.0]))
    with pytest.raises(TypeError, match="must return Tensors, got float"):
        root(lambda x: 1.0, tensor([1.0]))
    with pytest.raises(TypeError, match="x0 is complex"):
        root(lambda x: x, torch.ones(2, dtype=torch.complex64))
    with pytest.raises(TypeError, match="expected x0 to be a Tensor"):
        root(lambda x: x, "start")
    with pytest.raises(ValueError, match="nothing to solve for"):
        root(lambda x: x, {})
    with pytest.raises(RuntimeError, match="fsolve: no root was found"):
        fsolve(lambda x: x**2 + 1, tensor([1.0]))
    with pytest.raises(RuntimeError, match="Failed to converge"):
        fixed_point(lambda x: 2 * x + 1, tensor([1.0]), maxiter=1, xtol=0.0)


def test_nothing_is_recorded_without_need() -> None:
    a = tensor([4.0], requires_grad=True)
    with torch.no_grad():
        assert not root(lambda x: x**2 - a, tensor([1.0])).x.requires_grad
    found = root(lambda x: x**2 - 4, np.ones(2))
    assert type(found.x) is np.ndarray
    np.testing.assert_allclose(found.x, [2.0, 2.0])
    assert isinstance(root(lambda x: x**2 - a, np.ones(1)).x, torch.Tensor)


@pytest.mark.parametrize("method", ["hybr", "lm", "broyden1", "krylov", "df-sane"])
def test_methods(method: str) -> None:
    a = tensor([4.0, 9.0], requires_grad=True)
    found = root(lambda x, a: x**2 - a, tensor([2.5, 2.5]), args=(a,), method=method, tol=1e-9)
    np.testing.assert_allclose(found.x.detach(), [2.0, 3.0], rtol=1e-6)
    found.x.sum().backward()
    np.testing.assert_allclose(a.grad, [0.25, 1 / 6], rtol=1e-6)


def test_threads_do_not_mix() -> None:
    a = tensor([4.0, 9.0])
    found: dict[int, Any] = {}

    def work(i: int) -> None:
        found[i] = jacrev(captured_cube_root)(a + i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(4):
        np.testing.assert_allclose(found[i], np.diag((np.array([4.0, 9.0]) + i) ** (-2 / 3) / 3))


def test_a_point_is_not_evaluated_twice_in_a_row() -> None:
    points: list[Any] = []
    f = _equations.once(lambda x: points.append(x.copy()) or 2 * x)
    x = np.array([1.0, 2.0])
    first = f(x)
    first[0] = 5.0
    np.testing.assert_array_equal(f(x), [2.0, 4.0])
    x[1] = 3.0
    np.testing.assert_array_equal(f(x), [2.0, 6.0])
    assert len(points) == 2
