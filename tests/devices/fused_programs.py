"""Operations, composites and rules that become one function of XLA, on the device ``xla:cpu``.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from _device import DEVICE, made

import retrograd as torch
from retrograd.devices import _calls, _fused, _level, _pending
from retrograd.nn import functional as F


def test_an_operation_is_compiled_once_for_a_signature() -> None:
    from retrograd.devices import _calls

    x = made([1.0, 2.0, 3.0])
    (x * 1.5).tolist()
    before = len(_calls._calls)
    for number in (2.5, 3.5):
        assert (x * number).tolist() == [number, 2 * number, 3 * number]
    assert len(_calls._calls) == before


ARITHMETIC = [
    lambda x, k: x + k, lambda x, k: x - k, lambda x, k: k - x, lambda x, k: x * k,
    lambda x, k: x / k, lambda x, k: x > k, lambda x, k: x == k, lambda x, k: x.add(x, alpha=k),
]  # fmt: skip


@pytest.mark.parametrize("function", ARITHMETIC)
def test_integers_in_arithmetic(function: Any) -> None:
    """They are arguments of compiled functions if they have at most 64 bits."""
    for dtype in (torch.float32, torch.bfloat16, torch.uint8, torch.int64, torch.bool):
        x = torch.tensor([1, 0, 3]).to(dtype)
        for number in (2, 3, -1, 300, 16777217, -(2**63), *[2**70] * dtype.is_floating_point):
            try:
                expected = function(x, number)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=str(error)[:20]):
                    function(x.to(DEVICE), number)
                continue
            result = function(x.to(DEVICE), number)
            assert result.dtype is expected.dtype
            assert torch.equal(result.cpu(), expected)


@pytest.mark.parametrize("function", ARITHMETIC[:-1])
def test_other_integers_are_not_compiled_again(function: Any) -> None:
    x = made([1.0, 2.0, 3.0]).requires_grad_()
    before = 0
    for number in range(2, 6):
        result = function(x, number)
        if result.requires_grad:
            result.sum().backward()
        assert number < 4 or len(_calls._calls) == before
        before = len(_calls._calls)


def count_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the compiled functions that are called from now on."""
    from retrograd.devices import _calls, _fused

    called: list[str] = []
    for kind in (_calls.Call, _fused.Fused):
        def noted(self: Any, *args: Any, call: Any = kind.__call__) -> Any:
            called.append(getattr(self, "name", None) or self.operation.name)
            return call(self, *args)

        monkeypatch.setattr(kind, "__call__", noted)
    return called


def test_the_rules_of_a_node_and_sums_of_gradients_are_one_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gradients(device: str) -> Any:
        x = torch.tensor([0.5, -1.0, 2.0], device=device, requires_grad=True)
        y = torch.tensor([[0.25], [0.75]], device=device, requires_grad=True)  # is broadcast
        z = x
        for _ in range(3):
            z = (z * y).tanh()
        total = z.sum()
        return total, torch.autograd.grad(total, (x, y), retain_graph=True), (x, y)

    expected = gradients("cpu")[1]
    total, found, inputs = gradients(DEVICE)
    for a, b in zip(expected, found, strict=True):
        assert torch.allclose(b.cpu(), a, rtol=1e-6)
    called = count_calls(monkeypatch)
    again = torch.autograd.grad(total, inputs)
    assert called == ["TanhBackward0", "MulBackward0"] * 3
    for a, b in zip(found, again, strict=True):
        assert a.tolist() == b.tolist()


def test_hooks_see_the_gradient_of_one_use_where_others_are_summed() -> None:
    def seen(device: str) -> list[Any]:
        x = torch.tensor([0.5, -0.75, 0.25], device=device, requires_grad=True)
        notes: list[Any] = []
        z = x * 2
        first, second = z.tanh(), z.exp()
        first.grad_fn.register_hook(lambda given, _: notes.append(given[0].tolist()))
        second.grad_fn.register_hook(lambda given, _: notes.append(given[0].tolist()))
        z.register_hook(lambda g: notes.append(g.tolist()))
        x.register_hook(lambda g: g * 2)
        (first * second * z).sum().backward()
        wanted = torch.autograd.grad((z * z).sum() + z.sum(), [z])[0]
        return [*notes, x.grad.tolist(), wanted.tolist()]

    expected, found = seen("cpu"), seen(DEVICE)
    assert len(found) == len(expected) == 6
    for a, b in zip(expected, found, strict=True):
        assert b == pytest.approx(a, rel=1e-5)


def test_a_number_that_changes_compiles_no_rule_again() -> None:
    x = made([1.0, 2.0], requires_grad=True)
    sizes = []
    for number in (1.5, 2.5, 3.5):
        y = x * number
        assert torch.autograd.grad(y.sum(), x)[0].tolist() == [number, number]
        sizes.append(len(y.grad_fn.parameters.calls))
    assert sizes[0] == sizes[1] == sizes[2]


@pytest.mark.parametrize("draw", [
    lambda x: F.dropout(x, 0.5), lambda x: F.alpha_dropout(x, 0.5, True),
    lambda x: F.rrelu(-x, training=True), lambda x: F.gumbel_softmax(x, dim=0),
    lambda x: F.scaled_dot_product_attention(x.view(1, 8, 8), x.view(1, 8, 8), x.view(1, 8, 8),
                                             dropout_p=0.5),
])  # fmt: skip
def test_functions_that_draw_numbers_draw_others_each_time(draw: Any) -> None:
    results = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(5)
        x = torch.linspace(0.5, 1, 64).to(device).requires_grad_()
        for _ in range(3):
            y = draw(x)
            results.append([*y.flatten().tolist(), *torch.autograd.grad(y.sum(), x)[0].tolist()])
    for a, b in zip(results[:3], results[3:], strict=True):
        assert b == pytest.approx(a, rel=1e-5, abs=1e-6)
    assert results[3] != results[4] != results[5]


def test_composites_are_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.linspace(-2, 2, 12).view(3, 4)
    there = x.to(DEVICE)
    F.softmax(there, dim=1)
    called = count_calls(monkeypatch)
    assert torch.allclose(F.softmax(there, dim=1).cpu(), F.softmax(x, dim=1))
    assert called == ["softmax"]


def _composites() -> dict[str, Any]:
    """Composites with fused rules, as functions of 2 x 4 x 6 numbers and 6 weights."""
    target = torch.tensor([0, 3])
    return {
        "layer_norm": lambda x, w: F.layer_norm(x, (6,), w, w.sin()),
        "layer_norm without weights": lambda x, w: F.layer_norm(x * w, (4, 6)),
        "group_norm": lambda x, w: F.group_norm(x * w, 2),
        "batch_norm": lambda x, w: F.batch_norm(x[0], None, None, w, w.cos(), True),
        "attention": lambda x, w: F.scaled_dot_product_attention(x, x * w, x.sin(), is_causal=True),
        "cdist": lambda x, w: torch.cdist(x * w, x.cos()),
        "multi_margin_loss": lambda x, w: F.multi_margin_loss(
            (x * w)[:, 0], target.to(x.device), reduction="none"
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", _composites())
def test_composites_with_fused_rules_are_one_call_each_way(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = _composites()[name]
    x, w = torch.linspace(-2, 3, 48).reshape(2, 4, 6).sin(), torch.linspace(0.5, 2, 6)
    weights = torch.linspace(-1, 1, f(x, w).numel()).reshape(f(x, w).shape)

    def derivatives(device: str) -> list[Any]:
        a, b, c = x.to(device).requires_grad_(), w.to(device).requires_grad_(), weights.to(device)
        total = (f(a, b) * c).sum()
        first = torch.autograd.grad(total, (a, b), create_graph=True)
        again = torch.autograd.grad(sum([(g * g.detach()).sum() for g in first]), (a, b),
                                    allow_unused=True)  # fmt: skip
        plain = torch.autograd.grad((f(a, b) * c).sum(), (a, b))
        scalar = lambda x, w: (f(x, w) * c).sum()
        pushed = torch.func.jvp(scalar, (a.detach(), b.detach()), (a.cos().detach(), b.detach()))
        scales = torch.tensor([0.5, 1.5]).to(device)
        batch = torch.func.vmap(torch.func.grad(lambda s: scalar(a.detach() * s, b.detach())))
        return [total, *first, *again, *plain, *pushed, batch(scales)]

    for here, there in zip(derivatives("cpu"), derivatives(DEVICE), strict=True):
        assert (here is None) == (there is None)
        if here is not None:
            np.testing.assert_allclose(there.tolist(), here.tolist(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["layer_norm", "attention"])
def test_calls_of_a_composite_with_fused_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = {
        "layer_norm": lambda x: F.layer_norm(x, (3,)),
        "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    }[name]
    x = torch.linspace(-1, 1, 24).reshape(1, 2, 4, 3).to(DEVICE).requires_grad_()
    seed = torch.ones_like(x)
    torch.autograd.grad(f(x), x, seed)
    calls: list[str] = []
    for kind in (_calls.Call, _fused.Fused):
        monkeypatch.setattr(kind, "__call__", _counted(kind.__call__, calls))
    y = f(x)
    assert len(calls) == 1
    torch.autograd.grad(y, x, seed)
    # One call of the rules, and sums of the gradients of one leaf given three times.
    assert len(calls) == {"layer_norm": 2, "attention": 4}[name]


def _counted(call: Any, calls: list[str]) -> Any:
    def counted(self: Any, *args: Any) -> Any:
        calls.append(type(self).__name__)
        return call(self, *args)

    return counted


def test_numbers_are_put_on_a_device_once() -> None:
    x = torch.tensor([1.0, -2.0], dtype=torch.float64).to(DEVICE)
    for number in (0.1, 1e300, float("inf"), 0.0, -0.0, float("nan"), 0.0):
        found = (x * number).tolist()
        assert repr(found) == repr([number, -2.0 * number])
    before = len(_calls._numbers)
    for _ in range(3):
        assert ((x.float() * 0.1).dtype, (x * 0.1).tolist()[0]) == (torch.float32, 0.1)
    assert len(_calls._numbers) == before


def test_views_of_views_are_found_again() -> None:
    for _ in range(2):
        x = torch.arange(24.0).reshape(2, 3, 4).to(DEVICE)
        y = x.transpose(0, 2)[1:, :, 0]
        assert (y.stride(), y.storage_offset()) == ((1, 4), 1)
        first, second = y.split([1, 2])
        second.mul_(-1)
        x[0, 0, 3] = 50
        assert y.tolist() == [[1, 5, 9], [-2, -6, -10], [50, -7, -11]]
        assert first.tolist() == [[1, 5, 9]]
        assert (second + y[:2]).tolist() == [[-1, -1, -1], [48, -13, -21]]


def interrupt_at(number: int, *modules: Any) -> Any:
    """A trace function that raises KeyboardInterrupt at a line of some modules."""
    left, names = [number], {module.__file__ for module in modules}

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in names:
            return None
        if event in ("line", "call"):
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    return trace


def test_an_interrupt_at_any_line_ends_tracing() -> None:
    x, other, number, interrupted = made([1.0, 2.0]), torch.ones(2), 0, True
    indices = made([1, 0])
    before = sys.gettrace()
    while interrupted:
        number += 1
        _calls._calls.clear()  # so that the composite is traced again
        sys.settrace(interrupt_at(number, _fused, _level))
        try:
            values = F.smooth_l1_loss(x[indices] * 3, x)
            interrupted = False
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert _pending.tracing.expected is None
        assert (x * 2).tolist() == [2.0, 4.0]
        with pytest.raises(RuntimeError, match="at least two devices"):
            x * other
    assert values.item() == pytest.approx(2.5)
    assert number > 100
