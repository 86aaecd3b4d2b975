"""``torch.masked`` beside PyTorch: values, gradients and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from _side_by_side import outcome

import retrograd

SETUP = """
x = torch.tensor([[-3.0, -2.0, -1.0], [0.5, 1.0, 2.0]], requires_grad=True)
m = torch.tensor([[True, False, True], [False, False, False]])
some = torch.tensor([[True, False, True], [True, True, False]])
i = torch.tensor([[3, -2, 1], [7, 5, 6]], dtype=torch.int32)
"""
CALLS = [
    "sum(x, 1, mask=m)", "prod(x, 1, mask=m)", "amax(x, 1, mask=m)", "amin(x, 1, mask=m)",
    "mean(x, 1, mask=m)", "var(x, 1, unbiased=False, mask=m)", "std(x, 1, unbiased=True, mask=m)",
    "var(x, 1, correction=0.5, mask=some)", "var(x, mask=some)", "norm(x, 2.0, 1, mask=m)",
    "norm(x, 1.0, mask=some)", "norm(x, float('-inf'), 1, mask=some)", "softmax(x, 1, mask=m)",
    "log_softmax(x, 1, mask=m)", "softmin(x, 1, mask=m)", "normalize(x, 2.0, 1, mask=m)",
    "cumsum(x, 1, mask=m)", "cumprod(x, 1, mask=m)", "logsumexp(x, 1, mask=m)",
    "logsumexp(x, mask=some)", "argmax(x, 1, mask=m)", "argmin(x, 1, mask=some)",
    "median(x, 1, mask=m)", "median(x, 0, keepdim=True, mask=some)", "sum(x, mask=m)", "mean(x)",
    "logaddexp(x, x * 2, input_mask=m, other_mask=some)", "sum(i, 1, mask=m)", "prod(i, mask=some)",
    "mean(x, 1, keepdim=True, mask=m)", "sum(x, (0, 1), mask=m)", "amax(i, 1, mask=m)",
    "amin(i, 1, mask=m)", "sum(x, 1, dtype=torch.float64, mask=m[0])", "mean(i > 0, 1, mask=m)",
    "mean(i, 1, mask=m)", "mean(i, 1, dtype=torch.float32, mask=some)", "softmax(x, 1)",
    "var(x, 1, True)", "std(x)", "softmax(i, 1)", "cumsum(i, 0, mask=some)",
]  # fmt: skip
DIFFERENTIABLE = [
    "sum(x, 1, mask=some)", "prod(x, 1, mask=some)", "amax(x, 1, mask=some)",
    "mean(x, 1, mask=some)", "var(x, 1, mask=some)", "std(x, 1, unbiased=False, mask=some)",
    "norm(x, 2.0, 1, mask=some)", "softmax(x, 1, mask=some)", "softmin(x, 1, mask=some)",
    "normalize(x, 2.0, 1, mask=some)", "cumsum(x, 1, mask=some)", "cumprod(x, 1, mask=some)",
    "logsumexp(x, 1, mask=some)", "median(x, 1, mask=some)",
    "logaddexp(x, x * 2, input_mask=some)",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_values(torch: Any, call: str) -> None:
    program = f"{SETUP.strip()}\ny = torch.masked.{call}\ny.detach(), y.dtype, y.requires_grad"
    assert outcome(retrograd, program) == outcome(torch, program)


@pytest.mark.parametrize("call", DIFFERENTIABLE)
def test_gradients(torch: Any, call: str) -> None:
    program = f"""{SETUP.strip()}
y = torch.masked.{call}
weights = torch.arange(1.0, y.numel() + 1).reshape(y.shape)
torch.autograd.grad((y * weights).sum(), x)"""
    assert outcome(retrograd, program) == outcome(torch, program)


def test_what_there_is_not_says_what_to_do() -> None:
    with pytest.raises(NotImplementedError, match="makes a program"):
        retrograd.fx.symbolic_trace(retrograd.nn.Linear(1, 1))
    with pytest.raises(NotImplementedError, match="export that"):
        retrograd.onnx.export(retrograd.nn.Linear(1, 1), retrograd.ones(1), "model.onnx")
    assert not retrograd.onnx.is_in_onnx_export()
    with pytest.raises(NotImplementedError, match=r"torch\.masked\.sum\(data, mask=mask\)"):
        retrograd.masked.masked_tensor(retrograd.ones(2), retrograd.tensor([True, False]))
    assert not isinstance(retrograd.ones(2), retrograd.masked.MaskedTensor)
