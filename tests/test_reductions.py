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
