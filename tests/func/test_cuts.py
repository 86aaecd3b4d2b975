"""Sparse Jacobians of functions that gather elements and then work row by row: they are cut behind
the gathering, and what comes out is what dense derivatives give."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.arrays import row_blocks
from retrograd.func import _cuts, _programs, grad, jacfwd, sparse_jacobian, sparsity

F = torch.nn.functional
ROOT = Path(__file__).resolve().parents[2]


def points(n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(0.2, 1.5, n))


def heat(x: Any) -> Any:
    grid = x.reshape(4, 5)
    padded = F.pad(grid, (1, 1, 1, 1))
    around = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2]
    return around - 4 * grid + grid**3


INDEX = torch.tensor([0, 3, 3, 7, 19, 2])

# For each function of twenty numbers the passes it takes: as many as a block has rows.
CUT: dict[str, tuple[Any, int]] = {
    "neighbours": (lambda x: x[1:] * x[:-1] * torch.sin(x[1:]), 1),
    "five points of a grid": (heat, 1),
    "a number for all": (lambda x: x * x[0] + x[3], 1),
    "gathered rows": (lambda x: torch.tanh(x.reshape(5, 4)[INDEX[:3] % 5]).sum(1), 1),
    "products of rows": (lambda x: x.reshape(10, 2)[INDEX % 10] @ torch.ones(2, 2).double(), 2),
    "cross products": (
        lambda x: torch.linalg.cross(x[:9].reshape(3, 3), x[9:18].reshape(3, 3)), 3
    ),
    "a row twice": (lambda x: x[INDEX] ** 2 * x[INDEX], 1),
    "used twice, apart": (lambda x: torch.cat([x[:5] * x[5:10], 1 - x[:5] ** 2]), 1),
    "copies as they are": (lambda x: torch.cat([x[:3], x[3:6].exp()]), 1),
    "transposed": (lambda x: (x.reshape(4, 5) ** 2).T.reshape(-1) * x, 1),
    "small matrices": (lambda x: torch.bmm(x.reshape(5, 2, 2), x.flip(0).reshape(5, 2, 2)), 4),
    "softmax of rows": (lambda x: torch.softmax(x.reshape(5, 4), 1), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_cut_functions(name: str, dtype: Any) -> None:
    f, passes = CUT[name]
    x, other = points(20), points(20, 3)
    if dtype == torch.float32 and name == "products of rows":
        pytest.skip("its matrix is of float64")
    jac = sparse_jacobian(f, x.to(dtype), mode="cut")
    assert (jac.mode, jac.color_count) == ("cut", passes)
    np.testing.assert_array_equal(jac.pattern.toarray(), sparsity(f, x, every_value=True).toarray())
    tolerance = 1e-13 if dtype == torch.float64 else 1e-5
    for point in (x.to(dtype), other.to(dtype), -other.to(dtype)):
        dense = np.asarray(jacfwd(f)(point)).reshape(-1, 20)
        np.testing.assert_allclose(jac(point).toarray(), dense, atol=tolerance)
        assert jac(point).dtype == dense.dtype
    assert "where elements are gathered" in repr(jac)


@pytest.mark.parametrize("name", CUT)
def test_groups_by_rows_are_those_that_labels_find(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of equal structure are a shortcut: with it and without it the Jacobian is the same."""
    f, passes = CUT[name]
    x = points(20)
    jac = sparse_jacobian(f, x, mode="cut")

    def none(*given: Any) -> Any:
        raise row_blocks.NoBlocks

    monkeypatch.setattr(row_blocks, "by_rows", none)
    other = sparse_jacobian(f, x, mode="cut")
    assert jac.color_count == other.color_count == passes
    np.testing.assert_array_equal(jac.pattern.toarray(), other.pattern.toarray())
    np.testing.assert_allclose(jac(x).toarray(), other(x).toarray(), rtol=1e-14)


def test_constant_factors_with_zeros_leave_entries_out() -> None:
    """Patterns of products are read off the constant factor, which may be on either side."""
    with_zeros = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]).double()
    many = torch.stack([with_zeros, with_zeros.flip(1)])
    vector = torch.tensor([0.0, 1.0, 2.0]).double()
    functions = [
        lambda x: with_zeros @ x.reshape(3, 4), lambda x: x.reshape(6, 2) @ with_zeros,
        lambda x: torch.bmm(many, x.reshape(2, 3, 2)), lambda x: x.reshape(2, 3, 2) @ many,
        lambda x: x.reshape(4, 3) @ vector, lambda x: with_zeros @ x[:3],
        lambda x: torch.dot(x[:3], vector)[None],
        lambda x: torch.linalg.cross(x.reshape(4, 3), vector[None]),
        lambda x: torch.cross(x.reshape(3, 4), x.flip(0).reshape(3, 4), dim=0),
    ]  # fmt: skip
    for f in functions:
        dense = np.asarray(jacfwd(f)(points(12))).reshape(-1, 12)
        found = sparsity(f, points(12), every_value=True).toarray()
        np.testing.assert_array_equal(found, dense != 0)


def writes(x: Any) -> Any:
    y = x[:4].clone()
    y[1] = x[5] * 2
    return y.sin()


NOT_CUT: dict[str, Any] = {
    "everything with everything": lambda x: torch.cumsum(x.sin(), 0).exp() * x,
    "written": writes,
    "an index that varies": lambda x: x[x.argsort()] * 2,
    "a solution": lambda x: torch.linalg.solve(x[:16].reshape(4, 4), x[16:]),
    "constant": lambda x: torch.ones(3),
    "the input itself": lambda x: x.flip(0),
    "blocks that are too long": lambda x: (torch.cat([x] * 5).reshape(1, -1) ** 2).sum(1),
}


@pytest.mark.parametrize("name", NOT_CUT)
def test_functions_that_are_not_cut(name: str) -> None:
    f, x = NOT_CUT[name], points(20)
    dense = np.asarray(jacfwd(f)(x)).reshape(-1, 20)
    np.testing.assert_allclose(sparse_jacobian(f, x)(x).toarray(), dense, atol=1e-12)
    if name in ("everything with everything", "an index that varies", "a solution"):
        return  # these can be cut into one block, which is not worth while
    with pytest.raises(ValueError, match="cannot be cut"):
        sparse_jacobian(f, x, mode="cut")


GRADIENTS: list[Any] = [
    lambda x: grad(lambda y: (y[1:] * y[:-1]).pow(2).sum())(x),
    lambda x: grad(lambda y: (torch.tanh(y) ** 2).sum())(x[INDEX]) * x[INDEX],
    lambda x: x[1:] * grad(lambda y: (y[1:] * y[:-1]).pow(2).sum())(x)[:-1],
    lambda x: grad(lambda y: (y[INDEX] ** 3).sum())(torch.sin(x)),
]


@pytest.mark.parametrize("f", GRADIENTS)
def test_functions_that_take_gradients_themselves(f: Any) -> None:
    x = points(20)
    jac = sparse_jacobian(f, x)
    np.testing.assert_allclose(jac(x).toarray(), jacfwd(f)(x), atol=1e-12)


def test_a_function_that_changes_is_refused() -> None:
    power = [2]
    f = lambda x: x[1:] * x[:-1] if power[0] == 2 else x[1:].exp() * x[:-1]
    x = points(5)
    jac = sparse_jacobian(f, x, mode="cut")
    jac(x)
    power[0] = 3
    with pytest.raises(RuntimeError, match="calls other operations than when"):
        jac(x)


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(_programs, "LOADING", 0.0)
    return importlib.import_module("benchmarks.libraries.adbench")


def check_programs(f: Any, x: Any, jac: Any) -> None:
    """After a few evaluations a program runs, and gives the same to the bit."""
    eager = sparse_jacobian(f, x, compile=False)
    for k in range(6):
        point = x * (1 + 0.01 * k)
        np.testing.assert_array_equal(jac(point).data, eager(point).data)
    assert jac._compressed.function.last is not None


def test_bundle_adjustment(problems: Any) -> None:
    """Two passes, one for each coordinate of an observation; errors of weights are in the first."""
    f, x = problems.bundle_adjustment(torch, cameras=4, points=10, observations=20)
    jac = sparse_jacobian(f, x)
    assert (jac.mode, jac.color_count) == ("cut", 2)
    np.testing.assert_allclose(jac(x).toarray(), jacfwd(f)(x), atol=1e-9)
    check_programs(f, x, jac)
    # A row for a coordinate: rotation, centre, focal length, one of the principal point,
    # distortion, the point, the weight.
    assert jac.nnz == 20 * (2 * (3 + 3 + 1 + 1 + 2 + 3 + 1) + 1)


def test_hand_tracking(problems: Any) -> None:
    f, x = problems.hand_tracking(torch, correspondences=30, vertices=20)
    jac = sparse_jacobian(f, x)
    assert jac.color_count <= 28  # the two of a point, and the pose
    np.testing.assert_allclose(jac(x).toarray(), jacfwd(f)(x), atol=1e-10)
    check_programs(f, x, jac)


def test_leaves_that_are_alike_become_one_variable() -> None:
    x = points(6)
    plan, *_ = _cuts.find(lambda x: x[:3] * x[3:] + torch.sin(x[:3]), x, "")
    assert plan is not None
    assert plan.blocks.color_count == 1
    # Two views are different tensors, and hold the same elements: both are kept.
    assert plan.blocks.count == 9
    view = lambda x, y: x * y + torch.sin(x)
    plan, *_ = _cuts.find(lambda x: view(x[:3], x[3:]), x, "")
    assert plan is not None
    assert plan.blocks.count == 6


# -- cuts at an intermediate value ---------------------------------------------------------------

TABLE = torch.from_numpy(np.random.default_rng(5).standard_normal((3, 8)))
ROWS = torch.from_numpy(np.random.default_rng(6).integers(0, 8, (40, 3)))
OWN = 40  # inputs, one for each row; three more pose the points


def posed(x: Any) -> Any:
    points = torch.tanh(torch.stack([x[OWN:] @ TABLE, (x[OWN:] ** 2) @ TABLE], 1))
    corners = points[ROWS]
    own = x[:OWN, None]
    return (own * corners[:, 0] * corners[:, 1] + (1 - own) * corners[:, 2]).reshape(-1)


def posed_twice(x: Any) -> Any:
    points = (x[OWN:] @ TABLE).sin()
    return points[ROWS[:, 0]] * x[:OWN].exp() + points[ROWS[:, 1]] ** 2 * x[OWN - 1]


def posed_and_direct(x: Any) -> Any:
    scale = x[OWN:].exp()
    points = (scale @ TABLE).sin()
    return points.index_select(0, ROWS[:, 0]) * x[:OWN] * scale[0] ** 2 + x[OWN]


def posed_by_dense_rows(x: Any) -> Any:
    points = (x[OWN:] @ TABLE).cos()
    return torch.cumsum(points[ROWS[:, 0]] * x[:OWN], 0)


@pytest.mark.parametrize("f", [posed, posed_twice, posed_and_direct, posed_by_dense_rows])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_functions_that_gather_of_an_intermediate_value(f: Any, dtype: Any) -> None:
    def typed(x: Any) -> Any:
        return f(x.double()).to(dtype)

    function = f if dtype == torch.float64 else typed
    x, other = points(OWN + 3).to(dtype), points(OWN + 3, 3).to(dtype)
    for program in (False, True):
        jac = sparse_jacobian(function, x, compile=program)
        for at in (x, other):
            dense = jacfwd(function)(at).numpy()
            atol = 1e-12 if f is function else 1e-5
            np.testing.assert_allclose(jac(at).toarray(), dense, atol=atol)
    wanted = sparsity(function, x).toarray()
    assert (jac.pattern.toarray() >= (dense != 0)).all()
    assert (jac.pattern.toarray() <= wanted).all()


def test_an_intermediate_value_takes_few_products() -> None:
    jac = sparse_jacobian(posed, points(OWN + 3), mode="cut")
    assert isinstance(jac._method, _cuts.Composed)
    # Two passes back, for the two numbers of a row, and products for the three that pose it.
    assert (jac.row_colors.max() + 1, jac.column_colors.max() + 1) == (2, 3)


def test_an_intermediate_value_that_changes_is_found_out() -> None:
    turns = [0]

    def f(x: Any) -> Any:
        turns[0] += 1
        points = torch.tanh(x[OWN:] @ TABLE)
        return x[:OWN] * (points if turns[0] == 1 else points[:5])[ROWS[:, 0] % 5]

    jac = sparse_jacobian(f, points(OWN + 3), mode="cut")
    with pytest.raises(RuntimeError, match="calls other operations than when"):
        jac(points(OWN + 3))
