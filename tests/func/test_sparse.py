"""Sparse Jacobians and Hessians: patterns that miss nothing, colourings that are valid, values that
agree with dense derivatives."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from samples import SAMPLES, reason
from scipy import sparse
from test_ops_transformed import fixed, run, tensors, variables

import retrograd as torch
from retrograd.func import (
    _programs,
    banded,
    hessian,
    hessian_sparsity,
    jacrev,
    jvp,
    sparse_hessian,
    sparse_jacobian,
    sparsity,
)

F = torch.nn.functional
float64 = torch.float64


def t64(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=float64)


def points(n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(0.2, 1.5, n))


def dense(f: Any, x: torch.Tensor) -> np.ndarray:
    found = np.asarray(jacrev(f)(x))
    return found.reshape(-1, x.numel())


def entries(f: Any, x: torch.Tensor, **options: Any) -> np.ndarray:
    return np.asarray(sparsity(f, x, **options).toarray())


A = torch.from_numpy(np.where(np.random.default_rng(1).uniform(size=(6, 8)) < 0.3, 1.7, 0.0))
B = points(6, 2).reshape(2, 3)


def writes(x: Any) -> Any:
    z = torch.zeros(4, dtype=x.dtype)
    z[0] = x[0]
    z[1:3] = x[2:4] * x[5]
    part = z[1:]
    part.mul_(2)
    z[3] = x[1]
    return part * 1


# Functions of eight numbers whose pattern is exactly that of the Jacobian.
TIGHT: dict[str, Any] = {
    "neighbours": lambda x: x[1:] * x[:-1],
    "sum": lambda x: x.sin() + x.sum(),
    "sum of rows": lambda x: x.reshape(2, 4).sum(0),
    "mean of columns": lambda x: x.reshape(2, 4).mean(1, keepdim=True).exp(),
    "logsumexp": lambda x: x.reshape(2, 4).logsumexp(1),
    "softmax of rows": lambda x: torch.softmax(x.reshape(2, 4), 1),
    "sparse matrix": lambda x: A @ x,
    "matrix": lambda x: x.reshape(4, 2) @ B,
    "two matrices": lambda x: x.reshape(4, 2) @ x.reshape(2, 4),
    "matrix and vector": lambda x: x.reshape(4, 2) @ x[2:4],
    "batch of matrices": lambda x: torch.bmm(x.reshape(2, 2, 2), x.reshape(2, 2, 2) * 2),
    "sorted": lambda x: x.sort()[0][:3],
    "largest": lambda x: x.reshape(2, 4).amax(1),
    "cumulative sum": lambda x: x.cumsum(0),
    "where": lambda x: torch.where(x > 0.8, x, x.flip(0)),
    "joined": lambda x: torch.cat([x[:2], x[5:] ** 2]).outer(x[:2]),
    "stacked": lambda x: torch.stack([x[:4], x[4:]], 1).transpose(0, 1),
    "indexed": lambda x: x[torch.tensor([0, 3, 3, 7])] * x[1],
    "scattered": lambda x: torch.zeros(5).double().index_add(0, torch.tensor([1, 1, 4]), x[:3]),
    "differences": lambda x: x.diff() ** 2,
    "written": writes,
    "inverse": lambda x: torch.linalg.inv(x[:4].reshape(2, 2) + 3 * torch.eye(2, dtype=x.dtype)),
    "constant": lambda x: torch.ones(2, dtype=x.dtype),
    "detached": lambda x: x.detach() * x[0],
    "steps": lambda x: (x > 1).to(x.dtype) * x,
    "one number": lambda x: x[0] * x[3],
    "nothing": lambda x: x[:0] * 2,
}  # fmt: skip


@pytest.mark.parametrize("name", TIGHT)
def test_patterns(name: str) -> None:
    f, x = TIGHT[name], points(8)
    jacobian = dense(f, x)
    found = entries(f, x)
    assert found.shape == jacobian.shape
    if name == "steps":  # zero by its value, not by where it is
        assert not (jacobian != 0)[~found].any()
    else:
        np.testing.assert_array_equal(found, jacobian != 0)
    jac = sparse_jacobian(f, x)
    np.testing.assert_allclose(jac(x).toarray(), jacobian, atol=1e-13)
    other = points(8, 5)
    np.testing.assert_allclose(jac(other).toarray(), dense(f, other), atol=1e-13)


def test_patterns_for_every_value() -> None:
    x = points(6)
    chosen = lambda x: torch.where(x > 0.8, x, x.flip(0))
    every = entries(chosen, x, every_value=True)
    np.testing.assert_array_equal(every, np.eye(6, dtype=bool) | np.eye(6, dtype=bool)[::-1])
    assert entries(lambda x: x.sort()[0], x, every_value=True).all()
    with pytest.raises(RuntimeError, match="looks at values that depend on x"):
        sparsity(lambda x: x * float(x[0]), x, every_value=True)
    assert sparsity(lambda x: x * float(x[0] > 0), x).nnz == 6


def flat(f: Any, x: Any) -> Any:
    """Whatever a sample gives, as one vector of real numbers."""
    found = [y for y in f(x) if y.is_floating_point()]
    return torch.cat([y.reshape(-1).double() for y in found]) if found else None


SLICES = 120


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "start", [0, *[pytest.param(n, marks=pytest.mark.exhaustive) for n in range(1, SLICES)]]
)
def test_patterns_of_samples_miss_nothing(start: int) -> None:
    chosen = [e for e in SAMPLES if variables(e, "float64") and not reason("NO_TANGENT", e)]
    compared, failed = 0, []
    for expression in chosen[start::SLICES]:
        arrays = variables(expression, "float64")
        name = next(iter(arrays))
        others = {**tensors({n: a for n, a in arrays.items() if n != name}),
                  **tensors(fixed(expression))}  # fmt: skip

        def f(x: Any, expression: str = expression, name: str = name, others: Any = others) -> Any:
            torch.manual_seed(0)
            return flat(lambda x: run(expression, {**others, name: x}), x)

        x = tensors({name: arrays[name]})[name]
        try:
            if f(x.clone()) is None:
                continue
            jacobian = dense(f, x)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
            continue
        compared += 1
        if ((jacobian != 0) & ~np.isnan(jacobian) & ~entries(f, x)).any():
            failed.append(expression)
    assert not failed
    assert compared > 30


# -- random functions ------------------------------------------------------------------------------

STEPS: list[Any] = [
    lambda x, k: x.sin(),
    lambda x, k: x * x.roll(k),
    lambda x, k: x.flip(0) + 1,
    lambda x, k: torch.cat([x[k:], x[:k] ** 2]),
    lambda x, k: x + x[k],
    lambda x, k: x * 2 - x.mean(),
    lambda x, k: torch.where(x > 0.5, x.exp() * 0.1, x),
    lambda x, k: x.cumsum(0) * 0.1,
    lambda x, k: x.reshape(2, -1).transpose(0, 1).reshape(-1),
    lambda x, k: x / (1 + x.roll(1) ** 2),
    lambda x, k: x.detach() * x.roll(k),
    lambda x, k: x.index_fill(0, torch.tensor([k]), 0.3),
    lambda x, k: torch.tanh(x).diff(append=x[:1]),
    lambda x, k: x.clone().index_add_(0, torch.tensor([k]), x[:1]),
]


random_steps = given(
    st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 5)), min_size=1, max_size=4)
)


@settings(max_examples=60, deadline=None)
@random_steps
def test_random_functions(steps: list[tuple[int, int]]) -> None:
    compare_random_function(steps)


@pytest.mark.exhaustive
@settings(max_examples=1000, deadline=None)
@random_steps
def test_a_thousand_random_functions(steps: list[tuple[int, int]]) -> None:
    compare_random_function(steps)


def compare_random_function(steps: list[tuple[int, int]]) -> None:
    def f(x: Any) -> Any:
        for number, k in steps:
            x = STEPS[number](x, k)
        return x

    x = points(6)
    jacobian = dense(f, x)
    found = entries(f, x)
    assert not (jacobian != 0)[~found].any()
    np.testing.assert_allclose(sparse_jacobian(f, x)(x).toarray(), jacobian, atol=1e-12)
    np.testing.assert_allclose(
        sparse_jacobian(f, x, mode="reverse")(x).toarray(), jacobian, atol=1e-12
    )
    g = lambda x: (f(x) ** 2).sum()
    np.testing.assert_allclose(
        sparse_hessian(g, x)(x).toarray(), np.asarray(hessian(g)(x)), atol=1e-10
    )


# -- using them --------------------------------------------------------------------------------


def heat(u: Any) -> Any:
    """The discrete Laplacian of a square, plus a source that depends on the values."""
    grid = u.reshape(12, 12)
    inner = -4 * grid
    inner = inner + F.pad(grid[1:], (0, 0, 0, 1)) + F.pad(grid[:-1], (0, 0, 1, 0))
    inner = inner + F.pad(grid[:, 1:], (0, 1)) + F.pad(grid[:, :-1], (1, 0))
    return (inner - grid**3 + 1).reshape(-1)


def test_newton_with_a_sparse_jacobian() -> None:
    from scipy.sparse.linalg import spsolve

    u = torch.zeros(144, dtype=torch.float64)
    jac = sparse_jacobian(heat, u, pattern=sparsity(heat, u))
    for _ in range(25):
        u = u - torch.from_numpy(spsolve(jac(u).tocsc(), heat(u).numpy()))
    assert heat(u).abs().max() < 1e-12


def test_scipy_takes_the_matrices() -> None:
    from scipy.optimize import least_squares

    residual = lambda x: torch.cat([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])
    start = torch.full((20,), 0.5, dtype=torch.float64)
    jac = sparse_jacobian(residual, start)
    found = least_squares(
        lambda x: residual(torch.from_numpy(x)).numpy(), start.numpy(),
        jac=lambda x: jac(torch.from_numpy(x)), tr_solver="lsmr", xtol=1e-12, ftol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(found.x, np.ones(20), atol=1e-6)


def test_solve_ivp_takes_the_matrices() -> None:
    """A chain of reactions, which is stiff, by an implicit method with and without the Jacobian."""
    from scipy.integrate import solve_ivp

    def rates(y: Any) -> Any:
        flow = 50 * y[:-1] - y[1:] ** 2
        return F.pad(flow, (1, 0)) - F.pad(flow, (0, 1))

    start = torch.zeros(30, dtype=torch.float64)
    start[0] = 1
    jac = sparse_jacobian(rates, start, compile=True)
    options: Any = {"method": "BDF", "rtol": 1e-8, "atol": 1e-10}
    given = solve_ivp(
        lambda t, y: rates(torch.from_numpy(y)).numpy(), (0, 2), start.numpy(),
        jac=lambda t, y: jac(torch.from_numpy(y)), **options,
    )  # fmt: skip
    without = solve_ivp(
        lambda t, y: rates(torch.from_numpy(y)).numpy(), (0, 2), start.numpy(), **options
    )
    assert given.success
    assert given.nfev < without.nfev
    np.testing.assert_allclose(given.y[:, -1], without.y[:, -1], atol=1e-6)
    np.testing.assert_allclose(given.y[:, -1].sum(), 1, atol=1e-8)


@pytest.mark.parametrize("mode", ["forward", "reverse", "cut"])
def test_compiled_evaluations(mode: str) -> None:
    x = points(12)
    f = lambda x: x[1:] * x[:-1] * x[1:].sin() + x[:-1]
    jac = sparse_jacobian(f, x, mode=mode, compile=True)
    for point in (x, points(12, 1), points(12, 2)):
        np.testing.assert_allclose(jac(point).toarray(), dense(f, point), rtol=1e-12)
    g = lambda x: (f(x) ** 2).sum()
    hess = sparse_hessian(g, x, compile=True)
    for point in (x, points(12, 1)):
        np.testing.assert_allclose(hess(point).toarray(), hessian(g)(point), atol=1e-10)


@pytest.mark.parametrize("mode", ["forward", "reverse", "both", "cut"])
def test_later_evaluations_run_a_program_and_give_the_same(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_programs, "LOADING", 0.0)
    factor = points(11, 7)
    f = lambda x: factor * x[1:] * x[:-1] * x[1:].sin() + x[:-1]
    eager = sparse_jacobian(f, points(12), mode=mode, compile=False)
    jac = sparse_jacobian(f, points(12), mode=mode)
    for seed in range(8):
        factor += seed  # what the function has captured is read at each evaluation
        x = points(12, seed)
        assert_array_equal(jac(x).data, eager(x).data)
    assert jac._compressed.function.last is not None
    bounded = sparse_jacobian(f, points(12), mode=mode, chunk_size=1)
    assert bounded._compressed(x) is not None
    assert not isinstance(bounded._compressed, _programs.Evaluation)


def test_later_evaluations_of_hessians_and_of_what_cannot_be_a_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_programs, "LOADING", 0.0)
    calls: list[int] = []
    f = lambda x: (x[1:] * x[:-1].sin()).sum()
    counted = lambda x: (calls.append(1), f(x))[1]
    eager = sparse_hessian(f, points(12), compile=False)
    hess, watched = sparse_hessian(f, points(12)), sparse_hessian(counted, points(12))
    for seed in range(8):
        x = points(12, seed)
        assert_array_equal(hess(x).data, eager(x).data)
        before = len(calls)
        assert_array_equal(watched(x).data, eager(x).data)
        assert len(calls) > before
    assert hess._products.function.last is not None
    assert watched._products.function.eager_because is not None


def coupled(x: Any) -> Any:
    return x[1:] * x[:-1].sin()


def total(x: Any) -> Any:
    return coupled(x).sum()


@pytest.mark.parametrize("make", [partial(sparse_jacobian), partial(sparse_jacobian, mode="both"),
                                  partial(sparse_hessian)])  # fmt: skip
def test_copies_and_pickles(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_programs, "LOADING", 0.0)
    x = points(8)
    matrix = make(total if make.func is sparse_hessian else coupled, x)
    for _ in range(5):  # before and after it has become a program
        wanted = matrix(x).data
        again = pickle.loads(pickle.dumps(matrix))
        assert_array_equal(again(x).data, wanted)
        assert_array_equal(copy.deepcopy(again)(x).data, wanted)


def test_forms_and_chunks() -> None:
    x = points(40)
    f = lambda x: x[1:] * x[:-1]
    jac = sparse_jacobian(f, x, chunk_size=1)
    csr = jac(x)
    assert isinstance(csr, sparse.csr_array)
    np.testing.assert_allclose(jac(x, form="dense"), csr.toarray())
    rows, columns, values = jac(x, form="triplets")
    rebuilt = sparse.coo_array((values, (rows, columns)), shape=jac.shape).toarray()
    np.testing.assert_allclose(rebuilt, csr.toarray())
    np.testing.assert_allclose(csr.toarray(), dense(f, x))
    many_to_one = sparse_jacobian(lambda x: x.reshape(2, -1).prod(1), x)
    assert many_to_one.mode == "reverse"
    assert many_to_one.color_count == 1


def test_large_tridiagonal() -> None:
    n = 20_000
    f = lambda x: torch.cat([x[:1], x[1:-1] * x[2:] * x[:-2], x[-1:]])
    x = points(n)
    jac = sparse_jacobian(f, x)
    assert (jac.nnz, jac.mode, jac.color_count) == (3 * n - 4, "cut", 1)
    assert sparse_jacobian(f, x, mode="forward").color_count == 3
    v = points(n, 3)
    np.testing.assert_allclose(jac(x) @ v.numpy(), jvp(f, (x,), (v,))[1], rtol=1e-12)


def test_hessian_patterns() -> None:
    chain = lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum()
    x = points(9)
    band = banded(9, 9, 1, 1).toarray()
    np.testing.assert_array_equal(hessian_sparsity(chain, x).toarray(), band)
    hess = sparse_hessian(chain, x)
    assert hess.color_count == 3
    np.testing.assert_allclose(hess(x).toarray(), hessian(chain)(x))
    assert "9 × 9: 25 entries, from 3 products" in repr(hess)
    linear = sparse_hessian(lambda x: x.sum(), x)
    assert linear(x).nnz == 0


# -- values that vary with x without depending on it smoothly --------------------------------------


class Square(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * grad * x


VARYING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "index": lambda x: x[x.argsort()],
    "gather": lambda x: x.gather(0, x.argsort()) ** 2,
    "mask as a matrix": lambda x: torch.diag((x > 1.5).double()) @ x,
    "detached matrix": lambda x: torch.diag((x - 2).detach()) @ x,
    "one-hot": lambda x: torch.nn.functional.one_hot(x.argsort(), 4).double() @ x,
    "scatter": lambda x: torch.zeros(4, dtype=float64).scatter(0, x.argsort(), x * 3),
    "masked write": lambda x: x.clone().masked_fill(x > 2, 0.0).flip(0),
    "written with a detached value": lambda x: (
        torch.zeros(4, 4, dtype=float64).copy_(torch.outer(x.detach() - 1, x.detach() - 2)) @ x
    ),
    "custom operation": lambda x: Square.apply(x).flip(0),
}


@pytest.mark.parametrize("name", VARYING)
def test_patterns_for_every_value_hold_at_other_values(name: str) -> None:
    f = VARYING[name]
    found_at, other = t64([1.0, 2.0, 3.0, 4.0]), t64([3.0, 1.0, 2.0, 4.0])
    jac = sparse_jacobian(f, found_at)
    for x in (found_at, other, -other):
        np.testing.assert_allclose(jac(x).toarray(), dense(f, x))
        np.testing.assert_allclose(
            sparse_hessian(lambda x: (f(x) ** 3).sum(), found_at)(x).toarray(),
            hessian(lambda x: (f(x) ** 3).sum())(x),
            atol=1e-12,
        )


def test_branches_on_values_are_checked_where_they_are_evaluated() -> None:
    f = lambda x: x * 2 if x[0] > 2 else x.flip(0)
    low, high = t64([1.0, 2.0, 3.0]), t64([3.0, 2.0, 1.0])
    jac = sparse_jacobian(f, low)
    np.testing.assert_allclose(jac(low - 1).toarray(), dense(f, low))
    with pytest.raises(ValueError, match="pattern at this x is not the one that was found"):
        jac(high)
    hess = sparse_hessian(lambda x: f(x).cumsum(0).prod() if x[0] > 2 else (f(x) ** 2).sum(), low)
    np.testing.assert_allclose(hess(low + 0.5).toarray(), 2 * np.eye(3))
    with pytest.raises(ValueError, match="pattern at this x is not the one that was found"):
        hess(high)


def test_a_function_that_changes_from_call_to_call_is_found_out() -> None:
    scale = [1.0]
    f = lambda x: x[1:] * x[:-1] * (x[0] if scale[0] > 1 else 1.0)
    x = points(6)
    for mode in ("forward", "reverse"):
        scale[0] = 1.0
        jac = sparse_jacobian(f, x, mode=mode)
        np.testing.assert_allclose(jac(x).toarray(), dense(f, x))
        scale[0] = 2.0
        with pytest.raises(ValueError, match="computes something else than when its pattern"):
            jac(x)
    hess = sparse_hessian(lambda x: f(x).sum() * (x.sum() if scale[0] > 2 else 1.0), x)
    hess(x)
    scale[0] = 3.0
    with pytest.raises(ValueError, match="computes something else than when its pattern"):
        hess(x)
    infinite = sparse_jacobian(lambda x: x.sqrt() * x.flip(0), x)
    assert np.isinf(infinite(x * 0 + torch.eye(6)[0]).toarray()).any()


# -- bad input -----------------------------------------------------------------------------------


def test_errors() -> None:
    x = points(5)
    f = lambda x: x[1:] * x[:-1]
    with pytest.raises(ValueError, match="misses entries"):
        sparse_jacobian(f, x, pattern=np.eye(4, 5))
    with pytest.raises(ValueError, match="misses entries"):
        sparse_hessian(lambda x: f(x).sum(), x, pattern=np.eye(5))
    with pytest.raises(ValueError, match=r"shape \[4, 5\], but the pattern has \[5, 5\]"):
        sparse_jacobian(f, x, pattern=np.eye(5))
    with pytest.raises(ValueError, match=r"expected x of shape \[5\]"):
        sparse_jacobian(f, x)(points(6))
    with pytest.raises(TypeError, match="floating-point"):
        sparsity(f, torch.arange(4))
    with pytest.raises(TypeError, match="Complex numbers are not supported"):
        sparsity(f, x.to(torch.complex128))
    with pytest.raises(RuntimeError, match="unsupported type"):
        sparsity(lambda x: 3, x)
    with pytest.raises(ValueError, match="form of 'csr'"):
        sparse_jacobian(f, x)(x, form="coo")
    with pytest.raises(ValueError, match="mode of auto"):
        sparse_jacobian(f, x, mode="rows")
    with pytest.raises(ValueError, match="an order of natural"):
        sparse_jacobian(f, x, order="random")
    assert sparsity(lambda x: x * 2, points(1)[0]).toarray().tolist() == [[True]]
    empty = sparse_jacobian(torch.sin, points(0))
    assert empty(points(0)).shape == (0, 0)
    assert sparse_hessian(torch.sin, points(1)[0])(points(1)[0]).shape == (1, 1)
    with pytest.raises(TypeError, match="func returned complex numbers"):
        sparse_jacobian(lambda x: torch.complex(x, x), x)
    rounded = sparse_jacobian(lambda x: (x * 3).long(), x)(x)
    assert (rounded.shape, rounded.nnz) == ((5, 5), 0)
    integers = sparsity(lambda x: (x * 3).long(), x)
    assert (integers.shape, integers.nnz) == ((5, 5), 0)
