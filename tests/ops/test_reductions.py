"""Reductions where the dtype decides what comes out."""

import pytest

import retrograd as torch

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int8])
def test_nansum_in_integers_leaves_nan_out_before_the_cast(dtype: torch.dtype) -> None:
    x = torch.tensor([[1.5, NAN], [-2.7, 100.0]], requires_grad=True)
    total = torch.nansum(x, dtype=dtype)
    assert (total.item(), total.dtype) == (99, dtype)
    assert torch.nansum(x, 1, dtype=dtype).tolist() == [1, 98]
    assert torch.func.vmap(lambda row: torch.nansum(row, dtype=dtype))(x).tolist() == [1, 98]


def half(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float16)


def test_roots_and_means_of_halves_that_are_larger_before() -> None:
    """PyTorch's values. A half is 65504 at most; the variance, or the sum, would be more."""
    x = half([600.0, -600.0, 900.0, -900.0])
    assert x.var().item() == INF
    assert x.std().item() == 883.0
    assert torch.std_mean(x)[0].item() == 883.0
    x.requires_grad_()
    (grad,) = torch.autograd.grad(x.std(), x)
    assert grad.tolist() == pytest.approx([0.2265, -0.2265, 0.3398, -0.3398], abs=1e-3)
    many, zero = half([100.0] * 1000), half([0.0] * 1000)
    F = torch.nn.functional
    assert F.mse_loss(many, zero).item() == 10000.0
    assert F.huber_loss(many, zero).item() == F.smooth_l1_loss(many, zero).item() == 99.5
    assert torch.lerp(half([60000.0]), half([-60000.0]), 0.75).item() == -30000.0
    weight = half([0.25])
    assert torch.lerp(half([60000.0]), half([-60000.0]), weight).item() == 30000.0
