"""Batches of matrices in compressed layouts: what PyTorch 2.13 has of them, and products."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.autograd import gradcheck

X = np.array([[[1.0, 0, 2], [0, 0, 3]], [[0, 4, 0], [5, 6, 0]]], np.float32)
CROW, COL = [[0, 2, 3], [0, 1, 3]], [[0, 2, 2], [1, 0, 1]]
VALUES = np.array([[1.0, 2, 3], [4, 5, 6]], np.float32)
BLOCKS = np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2)

NAMES = """
csr; torch.sparse_csr_tensor(torch.tensor(CROW), torch.tensor(COL), torch.tensor(VALUES)).shape
csr.to_dense(); csr.crow_indices(); csr.col_indices(); csr.values(); csr._nnz(); csr.sparse_dim()
csr.dense_dim(); csr.dim(); csr.numel(); csr.shape; csr.layout; csr.is_sparse_csr; csr.is_sparse
csr.to_sparse(); csr.to_sparse_csc(); csr.to_sparse(layout=torch.sparse_csc); csr.sum(); csr.sin()
-csr; csr.double(); csr.int(); csr.clone(); csr.detach(); csr * 2; csr + csr; dense + csr
csr.transpose(1, 2); csr.transpose(-1, -2); csr.mT; csr.mT.values(); csr[1]; csr[1, 0]; list(csr)
csr.select(0, -1); dense.sparse_mask(csr); torch.zeros_like(csr); csr.clone().requires_grad_()
torch.sparse.sampled_addmm(csr, torch.ones(2, 2, 4), torch.ones(2, 4, 3), alpha=2.0)
torch.zeros(2, 2, 3, layout=torch.sparse_csr); torch.zeros(2, 2, 3).to_sparse_csr()
dense.to_sparse_csr(); dense.to_sparse_csc(); dense.to_sparse_bsr((1, 3))
dense.to_sparse_bsc((2, 1)); dense.to_sparse(layout=torch.sparse_csr)
dense.to_sparse_csr(dense_dim=1); torch.stack([dense, dense]).to_sparse_csr()
torch.stack([dense, dense]).to_sparse_csc().to_dense(); csc; csc.to_dense(); csc.ccol_indices()
bsr; bsr.to_dense(); bsr.transpose(1, 2); bsr.to_sparse(); bsr[0]; bsr.values().shape
bsc.to_dense(); deep; deep.to_dense(); deep.dense_dim(); saved(csr); saved(bsr); saved(csc)
csr.t(); csr.transpose(0, 1); csr.coalesce(); csr.is_coalesced(); csr.indices(); csr.numpy()
csr.select(1, 0); csr.select(0, 5); csr.ccol_indices(); csc.crow_indices()
uneven.to_sparse_csr(); uneven.to_sparse_csc(); torch.zeros(0, 2, 3).to_sparse_csr()
"""
EXPRESSIONS = [x for line in NAMES.strip().splitlines() for x in line.split("; ")]


def names(lib: Any) -> dict[str, Any]:
    """What the expressions are about."""
    tensor = lib.tensor

    def saved(x: Any) -> Any:
        file = io.BytesIO()
        lib.save(x, file)
        file.seek(0)
        return lib.load(file)

    return {
        "torch": lib, "CROW": CROW, "COL": COL, "VALUES": VALUES, "dense": tensor(X),
        "uneven": tensor(X * (X != 6)), "saved": saved,
        "csr": lib.sparse_csr_tensor(tensor(CROW), tensor(COL), tensor(VALUES), (2, 2, 3)),
        "csc": lib.sparse_csc_tensor(
            tensor([[0, 1, 1, 3], [0, 1, 3, 3]]), tensor([[0, 0, 1], [1, 0, 1]]), tensor(VALUES),
            (2, 2, 3),
        ),
        "bsr": lib.sparse_bsr_tensor(
            tensor([[0, 1, 2], [0, 2, 2]]), tensor([[0, 1], [0, 1]]), tensor(BLOCKS), (2, 4, 4)
        ),
        "bsc": lib.sparse_bsc_tensor(
            tensor([[0, 1, 2], [0, 2, 2]]), tensor([[0, 1], [0, 1]]), tensor(BLOCKS), (2, 4, 4)
        ),
        "deep": lib.sparse_csr_tensor(
            tensor(CROW), tensor(COL), tensor(BLOCKS.reshape(-1)[:12].reshape(2, 3, 2)),
            (2, 2, 3, 2),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_in_pytorch(torch: Any, expression: str) -> None:
    """The same text, or the same error."""
    found = []
    for lib in (retrograd, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append(repr(eval(expression, names(lib))))
            except (RuntimeError, IndexError, TypeError) as error:
                found.append(f"{type(error).__name__}: {error}")
    assert found[0] == found[1]


@pytest.mark.parametrize("leaf", [False, True])
def test_gradients_of_values(torch: Any, leaf: bool) -> None:
    found = []
    for lib in (retrograd, torch):
        values = lib.tensor(VALUES, requires_grad=not leaf)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = lib.sparse_csr_tensor(
                lib.tensor(CROW), lib.tensor(COL), values, (2, 2, 3), requires_grad=leaf
            )
        (x.values() ** 2).sum().backward()
        found.append((x if leaf else values).grad)
    assert repr(found[0]) == repr(found[1])


def test_gradients_of_a_dense_tensor(torch: Any) -> None:
    found = []
    for lib in (retrograd, torch):
        x = lib.tensor(X, requires_grad=True)
        (x.to_sparse_csr().values() ** 2).sum().backward()
        found.append(x.grad.tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_products_and_their_gradients(layout: str) -> None:
    """PyTorch has them on GPUs only: compared with dense matrices and finite differences."""
    rng = np.random.default_rng(0)
    x = retrograd.tensor(X.astype(np.float64), requires_grad=True)
    y = retrograd.tensor(rng.normal(size=(2, 3, 4)), requires_grad=True)
    block = ((1, 3),) if layout[0] == "b" else ()

    def product(x: Any, y: Any) -> Any:
        return getattr(x, f"to_sparse_{layout}")(*block) @ y

    np.testing.assert_allclose(product(x, y).detach().numpy(), (x @ y).detach().numpy())
    weights = retrograd.tensor(rng.normal(size=(2, 2, 4)))
    sparse = retrograd.autograd.grad((product(x, y) * weights).sum(), (x, y))
    dense = retrograd.autograd.grad(((x @ y) * weights).sum(), (x, y))
    for ours, theirs in zip(sparse, dense, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy())
    made = getattr(x.detach(), f"to_sparse_{layout}")(*block)
    values = made.values().clone().requires_grad_()
    indices = (made.crow_indices(), made.col_indices()) if layout[-1] == "r" else (
        made.ccol_indices(), made.row_indices())  # fmt: skip
    make = getattr(retrograd, f"sparse_{layout}_tensor")
    assert gradcheck(lambda v, y: make(*indices, v, (2, 2, 3)) @ y, (values, y))
    assert gradcheck(lambda v: make(*indices, v, (2, 2, 3)).to_dense().sin(), (values,))


@pytest.mark.parametrize(
    ("crow", "col", "size", "message"),
    [
        ([[0, 2, 3], [0, 1, 2]], COL, (2, 2, 3), "must rise from 0 to 3"),
        (CROW, [[0, 2, 2], [1, 0, 7]], (2, 2, 3), "size is 3 but found index 7"),
        (CROW, COL[0], (2, 2, 3), "indices of the shapes"),
        (CROW, COL, (3, 2, 3), "do not fit"),
        (CROW, COL, (2, 3, 3), "number of rows"),
    ],
)
def test_wrong_indices(crow: Any, col: Any, size: Any, message: str) -> None:
    """Checked when the tensor is made; PyTorch checks with ``check_invariants`` only."""
    with pytest.raises(RuntimeError, match=message):
        retrograd.sparse_csr_tensor(crow, col, VALUES, size)


def test_a_product_with_what_is_not_a_batch() -> None:
    with pytest.raises(RuntimeError, match="expected batches of matrices"):
        retrograd.tensor(X).to_sparse_csr() @ retrograd.ones(3, 2)
