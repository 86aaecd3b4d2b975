"""Sparse matrices in programs: products and solutions, differentiable by values and by the dense
side, in all modes; the same results as PyTorch gives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import hessian, jacfwd, jacrev, taylor, vmap

INDICES = [[0, 1, 2, 1, 2], [0, 1, 2, 0, 2]]  # one entry is repeated
VALUES = [3.0, 4.0, 5.0, 1.0, 0.5]


def matrix(values: Any, indices: Any = INDICES) -> Any:
    return torch.sparse_coo_tensor(indices, values, (3, 3))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(1, 2, shape))


PAIRS: dict[str, tuple[Any, Any]] = {
    "mm": (lambda v, d: matrix(v) @ d, lambda v, d: matrix(v).to_dense() @ d),
    "spsolve": (
        lambda v, d: torch.sparse.spsolve(matrix(v), d),
        lambda v, d: torch.linalg.solve(matrix(v).to_dense(), d),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives(name: str) -> None:
    f, dense = PAIRS[name]
    v, d = torch.tensor(VALUES, dtype=torch.float64), random(3, 2)
    np.testing.assert_allclose(f(v, d), dense(v, d), rtol=1e-12)
    inputs = (v.clone().requires_grad_(), d.clone().requires_grad_())
    assert gradcheck(f, inputs, check_forward_ad=True)
    assert gradgradcheck(f, inputs)
    for transform in (jacrev, jacfwd):
        for a, b in zip(transform(f, (0, 1))(v, d), transform(dense, (0, 1))(v, d), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
    square = lambda f: hessian(lambda v: (f(v, d) ** 2).sum())(v)
    np.testing.assert_allclose(square(f), square(dense), atol=1e-10)
    for k, (a, b) in enumerate(zip(*(taylor(lambda v, f=f: f(v, d), v, v.flip(0), 4)
                                     for f in (f, dense)), strict=True)):  # fmt: skip
        np.testing.assert_allclose(a, b, atol=1e-9, err_msg=f"order {k}")
    compiled = torch.compile(f)
    for shift in (0, 1, 2):
        np.testing.assert_allclose(compiled(v + shift, d), dense(v + shift, d), rtol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0), (None, 2), (1, 1)])
def test_batches(name: str, dims: tuple[Any, Any]) -> None:
    f, dense = PAIRS[name]
    v, d = random(4, 5), random(4, 3, 2, seed=1)
    given = [
        x[0] if dim is None else x.movedim(0, dim) for x, dim in zip((v, d), dims, strict=True)
    ]
    np.testing.assert_allclose(
        vmap(f, in_dims=dims)(*given), vmap(dense, in_dims=dims)(*given), rtol=1e-10
    )


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("vector", [True, False])
def test_as_pytorch(pytorch: Any, layout: str, vector: bool) -> None:
    found = []
    for lib in (torch, pytorch):
        values = lib.tensor([3.0, 4.0, 5.0], requires_grad=True)
        shape = (3,) if vector else (3, 2)
        dense = lib.arange(1.0, 7.0)[: 3 if vector else 6].reshape(shape).requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's, of a beta state
            if layout == "coo":
                a = lib.sparse_coo_tensor(lib.tensor([[0, 1, 1], [2, 0, 2]]), values, (2, 3))
            else:
                crow, col = lib.tensor([0, 1, 3]), lib.tensor([2, 0, 2])
                a = lib.sparse_csr_tensor(crow, col, values, (2, 3))
            y = a @ dense
            (y * y).sum().backward()
            found.append((y, dense.grad, a.to_dense(), a.t().to_dense()))
            if layout == "coo":  # of CSR, PyTorch's gradient of the values is sparse
                found[-1] += (values.grad, a.coalesce().indices(), a.coalesce().values())
            else:
                found[-1] += (a.crow_indices(), a.col_indices(), a.values())
        assert tuple(a.shape) == (2, 3)
        assert str(a.layout) == f"torch.sparse_{layout}"
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())


def test_dense_matrices_made_sparse() -> None:
    x = torch.tensor([[0.0, 2.0], [3.0, 0.0]], requires_grad=True)
    a = torch.sparse.to_sparse(x)
    assert a.indices().tolist() == [[0, 1], [1, 0]]
    (torch.sparse.mm(a, torch.tensor([[1.0], [10.0]])) ** 2).sum().backward()
    assert x.grad.tolist() == [[0.0, 400.0], [6.0, 0.0]]
    assert x.to_sparse_csr().crow_indices().tolist() == [0, 1, 2]
    assert torch.sparse.sum(a).item() == 5.0
    assert torch.sparse.sum(a, 0).to_dense().tolist() == [3.0, 2.0]
    assert torch.sparse.sum(a, 1).to_dense().tolist() == [2.0, 3.0]
    assert (2 * a).to_dense().tolist() == [[0.0, 4.0], [6.0, 0.0]]
    assert not a.detach().requires_grad
    assert a.requires_grad


def test_a_graph_network_learns_through_a_sparse_matrix() -> None:
    """Two clusters of nodes, told apart by a network that sees neighbours only."""
    torch.manual_seed(0)
    n = 20
    pairs = [(i, j) for i in range(n) for j in range(n) if i // 10 == j // 10 or (i + j) % 19 == 0]
    rows, columns = (torch.tensor(side) for side in zip(*pairs, strict=True))
    ones = torch.ones(len(pairs))
    graph = torch.sparse_coo_tensor(torch.stack([rows, columns]), ones, (n, n))
    degree = torch.sparse.sum(graph, 1).to_dense()
    adjacency = torch.sparse_coo_tensor(torch.stack([rows, columns]), ones / degree[rows], (n, n))
    features = torch.randn(n, 8)
    labels = torch.arange(n) // 10
    first, second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 2)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        hidden = torch.relu(torch.sparse.mm(adjacency, first(features)))
        loss = torch.nn.functional.cross_entropy(adjacency @ second(hidden), labels)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_errors() -> None:
    a = matrix(torch.tensor(VALUES))
    for call, words in {
        (lambda: a @ torch.ones(2)): "Expected dim 0 size 3",
        (lambda: a @ torch.ones(3, dtype=torch.float64)): "scalar type Float but found Double",
        (lambda: a @ 3): "expected a Tensor, got int",
        (lambda: torch.sparse_coo_tensor([[0, 5], [0, 1]], [1.0, 2.0], (2, 2))):
            "for dim 0, size is 2 but found index 5",
        (lambda: torch.sparse_coo_tensor([[0], [-1]], [1.0], (2, 2))): "index -1 for dim 1",
        (lambda: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2, 2))): "sparse_dim = 1",
        (lambda: torch.sparse_coo_tensor([0, 1], [1.0, 2.0], (2,))): "must be sparse_dim x nnz",
        (lambda: torch.sparse_coo_tensor([[0], [1]], [1.0, 2.0], (2, 2))): "must have same nnz",
        (lambda: torch.sparse_coo_tensor([[0]], [[1.0]], (2, 2))): "values has incorrect size",
        (lambda: torch.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (2,), is_coalesced=True)):
            "cannot set is_coalesced",
        (lambda: torch.sparse_csr_tensor([0, 1], [0, 1], [1.0, 2.0], (2, 2))): "number of rows",
        (lambda: torch.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2))): "must rise",
        (lambda: torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0], (2, 2))): "values of the shape",
        (lambda: torch.sparse.spsolve(torch.ones(2, 3).to_sparse(), torch.ones(2))): "square",
        (lambda: torch.ones(3).to_sparse_csr()): "expected a matrix",
        (lambda: torch.ones(2, 2, 2).to_sparse() @ torch.ones(2)): "expected a sparse matrix",
        (lambda: torch.sparse_coo_tensor((1 << 40, 1 << 40))): "integer multiplication overflow",
        (lambda: a.indices()): "Cannot get indices on an uncoalesced tensor",
        (lambda: a + torch.ones(3, 3)): "add\\(sparse, dense\\) is not supported",
        (lambda: a + a.t()[0].unsqueeze(0)): "expected sizes of 'self' and 'other' to match",
        (lambda: a / torch.ones(3)): "Sparse division requires a scalar",
        (lambda: a[0:1]): "indexed by integers",
        (lambda: a[7]): "index 7 out of range",
        (lambda: a.numpy()): "to_dense",
        (lambda: torch.exp(a)): "torch.exp does not support sparse tensors",
        (lambda: torch.atan2(torch.ones(3, 3), a)): "torch.atan2 does not support",
    }.items():  # fmt: skip
        with pytest.raises((RuntimeError, TypeError, IndexError), match=words):
            call()
    empty = torch.sparse_coo_tensor([[], []], torch.tensor([]), (2, 3))
    assert (empty @ torch.ones(3, 1)).tolist() == [[0.0], [0.0]]
