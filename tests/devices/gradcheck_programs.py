"""``gradcheck`` on the device ``xla:cpu``.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from _device import DEVICE, HERE

import retrograd as torch
from retrograd.autograd.gradcheck import get_numerical_jacobian
from retrograd.nn import functional as F


def random(*shape: int, dtype: Any = torch.float64) -> Any:
    torch.manual_seed(1)
    return torch.randn(shape, dtype=dtype).to(DEVICE).requires_grad_()


X, W, C = random(2, 3), random(3, 2), random(2, dtype=torch.complex128)


OPTIONS: list[dict[str, Any]] = [
    {}, {"fast_mode": True}, {"check_forward_ad": True},
    {"check_forward_ad": True, "fast_mode": True}, {"check_grad_dtypes": True},
    {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True},
    {"check_backward_ad": False, "check_forward_ad": True},
]  # fmt: skip


SECOND: list[dict[str, Any]] = [
    {}, {"fast_mode": True}, {"gen_non_contig_grad_outputs": True}, {"check_fwd_over_rev": True},
    {"check_batched_grad": True},
]  # fmt: skip


@pytest.mark.parametrize(("function", "inputs"), [
    (lambda x, w: (x @ w, x.sin().sum()), (X, W)), (lambda c: (c * c).exp(), (C,)),
    (lambda x: F.layer_norm(x, (3,)), (X,)), (lambda x: x.clone().mul_(x.t()[1:].sum()), (X,)),
    (lambda number: number**3, (random(),)),
])  # fmt: skip
def test_gradcheck_passes(function: Any, inputs: Any) -> None:
    before = [x.tolist() for x in inputs]
    for options in OPTIONS:
        assert torch.autograd.gradcheck(function, inputs, **options)
    for options in SECOND:
        assert torch.autograd.gradgradcheck(function, inputs, **options)
    assert [x.tolist() for x in inputs] == before
    assert [x._version for x in inputs] == [0] * len(inputs)


class WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0].cos() * 1.1


class WrongSecond(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (2 * x * x + (x * x).detach())


def test_gradcheck_fails_as_on_the_cpu() -> None:
    check, check_twice = torch.autograd.gradcheck, torch.autograd.gradgradcheck
    messages: list[list[str]] = [[], []]
    for device, found in zip(("cpu", DEVICE), messages, strict=True):
        x = torch.tensor([0.5, 1.0], dtype=torch.float64, device=device, requires_grad=True)
        assert check(WrongSecond.apply, x)
        for call in (
            lambda x: check(WrongBackward.apply, x),
            lambda x: check(WrongBackward.apply, x, fast_mode=True),
            lambda x: check_twice(WrongSecond.apply, x, torch.ones_like(x).requires_grad_()),
            lambda x: check(lambda x: x.detach() * 2, x),
            lambda x: check(lambda x: x * x.detach(), x, check_forward_ad=True),
            lambda x: check(lambda x: x * 2, x.detach()[:1].expand(3).requires_grad_()),
        ):
            with pytest.raises(RuntimeError) as caught:
                call(x)
            found.append(str(caught.value))
            assert x.tolist() == [0.5, 1.0]
        assert not check(WrongBackward.apply, x, raise_exception=False)
    assert messages[1] == messages[0]
    assert messages[1][0].startswith(
        "Jacobian mismatch for output 0 with respect to input 0,\n"
        "numerical:tensor([[0.8776, 0.0000],\n        [0.0000, 0.5403]], dtype=torch.float64)\n"
        "analytical:tensor([[0.9653, 0.0000],\n        [0.0000, 0.5943]], dtype=torch.float64)\n"
    )
    assert "has a dimension with stride 0" in messages[1][-1]


def test_gradcheck_moves_views_and_puts_back_what_it_moved() -> None:
    base = torch.arange(4.0, dtype=torch.float64, device=DEVICE)
    view = base[1:3].requires_grad_()
    # The function sees the input by another way, too.
    assert not torch.autograd.gradcheck(lambda v: v * base[1], view, raise_exception=False)
    assert torch.autograd.gradcheck(lambda v: v * base[3], view)
    assert base.tolist() == [0.0, 1.0, 2.0, 3.0]
    calls = []

    def stops(v: Any) -> Any:
        calls.append(v.tolist())
        if len(calls) == 4:
            raise KeyboardInterrupt
        return v * 2

    with pytest.raises(KeyboardInterrupt):
        torch.autograd.gradcheck(stops, view)
    assert calls == [[1, 2], [1 - 1e-6, 2], [1 + 1e-6, 2], [1, 2 - 1e-6]]
    assert base.tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.warns(FutureWarning, match="private API"):
        (jacobian,) = get_numerical_jacobian(lambda inputs: inputs[0] ** 2, (view,), eps=1e-6)
    assert jacobian.device == HERE
    np.testing.assert_allclose(jacobian.tolist(), [[2, 0], [0, 4]], atol=1e-6)


def test_batches_of_gradients_are_no_constants_of_compiled_rules() -> None:
    x, gradients = random(2, 3), random(4, 2, 3).detach()
    y = F.layer_norm(x, (3,))
    for _ in range(2):
        (found,) = torch.autograd.grad(y, x, gradients, retain_graph=True, is_grads_batched=True)
    assert not gradients._data.kind.traced
    assert "Batched" not in repr(list(type(y.grad_fn).parameters.calls))
    for one, g in zip(found, gradients, strict=True):
        (expected,) = torch.autograd.grad(y, x, g, retain_graph=True)
        np.testing.assert_allclose(one.tolist(), expected.tolist(), atol=1e-14)
