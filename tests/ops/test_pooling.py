"""Pools whose windows hold nothing but padding, where PyTorch writes outside of the gradient."""

from typing import Any

import pytest

import retrograd as torch

F = torch.nn.functional
POOLS = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_window_of_padding_has_no_gradient(ndim: int) -> None:
    """One window, at places -1 and 2 of an image of size 2: outside, in every dimension."""
    x = torch.arange(2.0 * 2**ndim).reshape(2, 1, *(2,) * ndim).requires_grad_()

    def pool(x: Any) -> Any:
        return POOLS[ndim](x, 2, 3, 1, 3, True)

    values, indices = POOLS[ndim](x, 2, 3, 1, 3, True, return_indices=True)
    assert values.flatten().tolist() == [-float("inf")] * 2
    assert indices.flatten().tolist() == [-1, -1]
    (grad,) = torch.autograd.grad(values.sum(), x, create_graph=True)
    assert not grad.any()
    (again,) = torch.autograd.grad((grad * x).sum(), x)
    assert not again.any()
    moved = torch.func.jvp(pool, (x.detach(),), (torch.ones_like(x.detach()),))[1]
    assert moved.flatten().tolist() == [0.0, 0.0]
    assert not torch.func.vmap(torch.func.grad(lambda x: pool(x).sum()))(x.detach()).any()


def test_several_windows_of_padding_in_a_row() -> None:
    """Outside in one dimension is enough, and no gradient goes to another image."""
    x = torch.arange(12.0).reshape(2, 1, 2, 3).requires_grad_()
    values = F.max_pool2d(x, 2, 1, 1, (3, 1))
    assert values.tolist() == [[[[-float("inf")] * 4]]] * 2
    values.sum().backward()
    assert not x.grad.any()
