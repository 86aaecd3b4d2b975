"""SparseAdam: rows without a gradient stay as they are, and so do their averages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd


@pytest.mark.parametrize("maximize", [False, True])
def test_steps(torch: Any, maximize: bool) -> None:
    """As PyTorch, to many decimals. ``tests/nn/test_sparse_embeddings.py`` has other options."""
    found = []
    for lib in (retrograd, torch):
        table = lib.nn.Embedding(5, 2, sparse=True)
        table.weight.data.copy_(lib.arange(10.0).reshape(5, 2).sin())
        optimizer = lib.optim.SparseAdam(table.parameters(), lr=0.1, maximize=maximize)
        for rows in ([0, 3, 3], [1], [3, 4]):
            optimizer.zero_grad()
            (table(lib.tensor(rows)) ** 2).sum().backward()
            optimizer.step()
        state = optimizer.state_dict()["state"][0]
        found.append([table.weight.detach(), *[state[k] for k in ("exp_avg", "exp_avg_sq")]])
        assert state["step"] == 3
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)


def test_errors() -> None:
    with pytest.raises(ValueError, match="Invalid learning rate"):
        retrograd.optim.SparseAdam([retrograd.ones(1)], lr=0.0)
    with pytest.raises(ValueError, match="Invalid beta parameter at index 1"):
        retrograd.optim.SparseAdam([retrograd.ones(1)], betas=(0.9, 1.0))


def test_infinite_weights_and_closures_without_grad() -> None:
    weight = retrograd.tensor([[1.0], [retrograd.inf]], requires_grad=True)
    optimizer, rows = retrograd.optim.SparseAdam([weight], lr=0.1), retrograd.tensor([0])

    def closure() -> Any:
        loss = retrograd.nn.functional.embedding(rows, weight, sparse=True).sum()
        loss.backward()
        return loss

    with retrograd.no_grad():
        assert optimizer.step(closure).item() == 1.0
    assert optimizer.state[weight]["exp_avg"].tolist() == [[pytest.approx(0.1)], [0.0]]
    assert weight.tolist() == [[pytest.approx(0.9)], [retrograd.inf]]
