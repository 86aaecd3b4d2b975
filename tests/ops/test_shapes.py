"""Shapes that an operation is not meant for."""

import pytest

import retrograd as torch


def test_transposing_what_is_no_matrix() -> None:
    """PyTorch's words; a tensor without dimensions is its own transpose."""
    vector, batch, number = torch.ones(2), torch.ones(2, 3, 4), torch.tensor(2.0 + 1j)
    for name in ("mT", "mH"):
        words = f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D"
        with pytest.raises(RuntimeError, match=words):
            getattr(vector, name)
        assert getattr(batch, name).shape == (2, 4, 3)
    with pytest.raises(RuntimeError, match=r"tensor.H is only supported on matrices \(2-D"):
        _ = vector.H
    with pytest.raises(RuntimeError, match=r"For batches of matrices, consider using tensor\.mH"):
        _ = batch.H
    assert (number.mT.item(), number.H.item(), number.mH.item()) == (2 + 1j, 2 - 1j, 2 - 1j)


def test_gradient_of_a_source_that_is_longer_than_an_index_without_dimensions() -> None:
    """PyTorch computes such a value, and raises in the backward pass."""
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    source = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    place = torch.tensor(0)
    for function in (
        lambda x, source: x.scatter(0, place, source),
        lambda x, source: x.scatter_add(0, place, source),
        lambda x, source: x.scatter_reduce(0, place, source, "prod"),
    ):
        assert torch.autograd.gradcheck(function, (x, source))
        assert torch.autograd.gradgradcheck(function, (x, source))
