"""Programs on the device ``xla:cpu``, run by tests/devices/test_on_devices.py in a process of their
own."""

from __future__ import annotations

import copy
import io
import pickle
import re
import sys
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import nn
from retrograd.autograd.gradcheck import get_numerical_jacobian
from retrograd.devices import _calls, _fused
from retrograd.nn import functional as F
from retrograd.optim import SGD, Adafactor, Adagrad, AdamW, Muon, NAdam

DEVICE = "xla:cpu"
HERE = torch.device(DEVICE, 0)


def made(*values: Any, **options: Any) -> Any:
    return torch.tensor(*values, device=DEVICE, **options)


def test_tensors_know_their_device_and_move() -> None:
    x = made([1.0, 2.0])
    assert (x.device, x.is_cpu, x.is_cuda, x.get_device()) == (HERE, False, False, 0)
    assert repr(x) == "tensor([1., 2.], device='xla:cpu:0')"
    assert repr(made([2.0], requires_grad=True)) == (
        "tensor([2.], device='xla:cpu:0', requires_grad=True)"
    )
    assert x.to(DEVICE) is x
    assert x.to(torch.device(DEVICE)) is x
    assert x.to(HERE) is x
    back = x.cpu()
    assert back.device == torch.device("cpu")
    back[0] = 9
    assert x.tolist() == [1.0, 2.0]
    assert x.to("cpu", torch.float64).dtype is torch.float64
    assert torch.ones(2).to(x).device == HERE
    assert (x.sum().item(), float(x[0]), bool(x[1] > 1)) == (3.0, 1.0, True)
    assert x.numpy(force=True).tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match=r"can't convert xla:cpu:0 device type tensor to numpy\. "):
        x.numpy()
    assert copy.deepcopy(x).device == HERE


@pytest.mark.parametrize("make", [
    lambda d: torch.zeros(2, 3, device=d), lambda d: torch.ones(2, dtype=torch.int32, device=d),
    lambda d: torch.arange(4, device=d), lambda d: torch.full((2,), 3.5, device=d),
    lambda d: torch.eye(2, device=d), lambda d: torch.linspace(0, 1, 3, device=d),
    lambda d: torch.randn(3, device=d), lambda d: torch.randint(0, 9, (3,), device=d),
    lambda d: torch.zeros_like(torch.ones(2, device=d)), lambda d: torch.randperm(5, device=d),
    lambda d: torch.ones(2, device=d).new_full((2,), 4), lambda d: torch.tensor(True, device=d),
    lambda d: torch.empty(2, 0, device=d), lambda d: torch.as_tensor([1, 2], device=d),
    lambda d: torch.rand_like(torch.ones(2, device=d)),
    lambda d: F.dropout(torch.ones(9, device=d), 0.5),
])  # fmt: skip
def test_new_tensors_are_those_of_the_cpu(make: Any) -> None:
    torch.manual_seed(3)
    expected = make("cpu")
    torch.manual_seed(3)
    found = make(DEVICE)
    assert found.device == HERE
    assert found.dtype is expected.dtype
    assert torch.equal(found.cpu(), expected)
    torch.manual_seed(3)
    with torch.device(DEVICE):
        assert torch.equal(make(None).cpu(), expected)


def test_tensors_of_two_devices_are_refused() -> None:
    x, y = made([1.0, 2.0]), torch.ones(2)
    words = "Expected all tensors to be on the same device, but found at least two devices, "
    for call in (
        lambda: x + y, lambda: y * x, lambda: torch.cat([x, y]), lambda: x.add_(y),
        lambda: y.add_(x), lambda: torch.where(x > 0, x, y), lambda: F.linear(x, y.expand(1, 2)),
        lambda: torch.atan2(y, x),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=words):
            call()
    assert (x * torch.tensor(3.0)).tolist() == [3.0, 6.0]  # a number may come from the CPU
    assert y.copy_(x).tolist() == [1.0, 2.0]
    assert x.copy_(torch.zeros(2)).tolist() == [0.0, 0.0]


def test_out_of_memory_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    net(torch.ones(3, 2)).sum().backward()
    before = {name: (p._data, p.grad) for name, p in net.named_parameters()}
    left, device_put = [5], jax.device_put

    def full(*args: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes")
        return device_put(*args)

    monkeypatch.setattr(jax, "device_put", full)
    with pytest.raises(torch.OutOfMemoryError, match=r"xla:cpu is out of memory.*smaller batch"):
        net.to(DEVICE)
    for name, p in net.named_parameters():
        data, grad = before[name]
        assert p._data is data
        assert p.grad is grad
    assert {x.device.type for x in net.buffers()} == {"cpu"}
    net(torch.ones(3, 2))
    monkeypatch.undo()
    net.to(DEVICE)
    assert {x.device for x in (*net.parameters(), *net.buffers())} == {HERE}


def test_there_is_no_such_device() -> None:
    with pytest.raises(RuntimeError, match=r"device 'cuda' is not available: .*'jax\[cuda12\]'"):
        torch.ones(2, device="cuda")
    with pytest.raises(RuntimeError, match="there is no device 'xla:cpu:5': there is one of"):
        torch.ones(2, device="xla:cpu:5")
    assert not torch.cuda.is_available()
    assert torch.ones(1, device="xla").device.type == "xla"


def test_gradients() -> None:
    x = made([1.0, 2.0, 3.0], requires_grad=True)
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(g.device))
    y = (x.exp() * x).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    np.testing.assert_allclose(g.tolist(), (np.exp([1, 2, 3]) * [2, 3, 4]).tolist(), rtol=1e-6)
    g.sum().backward()
    expected = (np.exp([1, 2, 3]) * [3, 4, 5]).tolist()
    np.testing.assert_allclose(x.grad.tolist(), expected, rtol=1e-6)
    assert x.grad.device == HERE
    assert seen == [HERE, HERE]
    before = x.grad
    (2 * x).sum().backward()
    assert x.grad is before
    np.testing.assert_allclose(x.grad.tolist(), [e + 2 for e in expected], rtol=1e-6)
    # One gradient for two leaves: each has memory of its own.
    a, b = made([1.0], requires_grad=True), made([1.0], requires_grad=True)
    (a + b).sum().backward()
    a.grad.mul_(7)
    assert b.grad.tolist() == [1.0]
    power = torch.linalg.matrix_power(torch.ones(2, 2, device=DEVICE, requires_grad=True), 0)
    assert power.device == HERE
    (zeros,) = torch.autograd.grad((a * 1).copy_(b).sum(), a)
    assert (zeros.device, zeros.tolist()) == (HERE, [0.0])
    on_cpu = torch.ones(2, requires_grad=True)
    (on_cpu.to(DEVICE) * 3).sum().backward()
    assert on_cpu.grad.device.type == "cpu"
    assert on_cpu.grad.tolist() == [3.0, 3.0]


def test_views_share_memory_and_writes_are_recorded() -> None:
    x = torch.zeros(3, 4, device=DEVICE)
    row, column, turned = x[1], x[:, 2], x.t()
    row += 5
    column.mul_(2)
    turned[0] = 7
    x.diagonal().sub_(1)
    expected = [[6.0, 0.0, 0.0, 0.0], [7.0, 4.0, 10.0, 5.0], [7.0, 0.0, -1.0, 0.0]]
    assert x.tolist() == expected
    assert row.tolist() == expected[1]
    assert turned.stride() == (1, 4)
    assert row.storage_offset() == 4
    a = torch.ones(3, device=DEVICE, requires_grad=True)
    b = a * 2
    b[1:].mul_(a[:2])
    b.sum().backward()
    assert a.grad.tolist() == [4.0, 4.0, 2.0]
    c = a.exp()
    with torch.no_grad():
        c.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()
    shared = a.detach()
    shared.zero_()
    assert a.tolist() == [0.0, 0.0, 0.0]
    d = a.detach().clone()
    d.fill_(3)
    assert a.tolist() == [0.0, 0.0, 0.0]


def test_values_decide_and_bad_indices_are_found() -> None:
    x = made([[1.0, -2.0], [3.0, 4.0]])
    assert x[x > 0].tolist() == [1.0, 3.0, 4.0]
    assert x.nonzero().device == HERE
    x[x < 0] = 0
    assert x.tolist() == [[1.0, 0.0], [3.0, 4.0]]
    for call in (
        lambda: x[made([2])], lambda: x.gather(0, made([[5]])),
        lambda: F.embedding(made([9]), x), lambda: F.cross_entropy(x, made([0, 7])),
    ):  # fmt: skip
        with pytest.raises(IndexError):
            call().tolist()
    with pytest.raises(RuntimeError, match="singular"):
        torch.linalg.inv(torch.zeros(2, 2, device=DEVICE))
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied"):
        x @ torch.ones(3, 3, device=DEVICE)


def test_transforms_and_custom_functions() -> None:
    x = made([[1.0, 2.0], [3.0, 4.0]])
    assert torch.vmap(lambda r: r.sum())(x).tolist() == [3.0, 7.0]
    _, tangent = torch.func.jvp(torch.square, (x,), (torch.ones_like(x),))
    assert tangent.device == HERE
    assert tangent.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert torch.func.grad(lambda t: (t**3).sum())(x).tolist() == [[3.0, 12.0], [27.0, 48.0]]

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Any) -> Any:
            ctx.save_for_backward(t)
            return t * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (t,) = ctx.saved_tensors
            return g * t

    leaf = x.clone().requires_grad_()
    Double.apply(leaf).sum().backward()
    assert leaf.grad.tolist() == x.tolist()


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.norm1, self.norm2, self.end = nn.LayerNorm(8), nn.LayerNorm(8), nn.LayerNorm(8)
        self.mix, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, ids: Any) -> Any:
        b, t = ids.shape
        x = self.tokens(ids) + self.places(torch.arange(t, device=ids.device))
        q, k, v = (y.view(b, t, 2, 4).transpose(1, 2) for y in self.mix(self.norm1(x)).split(8, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, 8))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return F.linear(self.end(x), self.tokens.weight)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2),
                         nn.Linear(8, 3))  # fmt: skip


def trained(device: str, model: str, optimizer: Any, steps: int = 4) -> tuple[list[float], Any]:
    torch.manual_seed(0)
    net = (GPT() if model == "gpt" else mlp()).to(device)
    opt = optimizer(net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        if model == "gpt":
            ids = torch.randint(0, 11, (3, 6)).to(device)
            loss = F.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        else:
            x, y = torch.randn(8, 5).to(device), torch.randint(0, 3, (8,)).to(device)
            loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        schedule.step()
        losses.append(loss.item())
    return losses, (net, opt)


@pytest.mark.parametrize(("model", "optimizer"), [
    ("mlp", lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    pytest.param("gpt", lambda p: torch.optim.AdamW(p, 1e-2), marks=pytest.mark.long),
])  # fmt: skip
def test_training_follows_the_cpu(model: str, optimizer: Any) -> None:
    expected, (on_cpu, _) = trained("cpu", model, optimizer)
    found, (net, opt) = trained(DEVICE, model, optimizer)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    for a, b in zip(net.buffers(), on_cpu.buffers(), strict=True):
        np.testing.assert_allclose(a.tolist(), b.tolist(), atol=1e-5)
    for a, b in zip(net.parameters(), on_cpu.parameters(), strict=True):
        assert a.device == HERE
        assert a.grad.device == HERE
        if model == "mlp":  # Adam makes steps of gradients that are nothing but rounding
            np.testing.assert_allclose(a.tolist(), b.tolist(), atol=1e-4)
    state = opt.state_dict()
    other = (GPT() if model == "gpt" else mlp()).to(DEVICE)
    other.load_state_dict(net.state_dict())
    assert torch.equal(next(iter(other.parameters())), next(iter(net.parameters())))
    again = optimizer(other.parameters())
    again.load_state_dict(state)
    kept = [x for s in again.state.values() for x in s.values() if getattr(x, "ndim", 0)]
    assert kept
    assert all(x.device == HERE for x in kept)


def test_files_and_loaders() -> None:
    layer = nn.Linear(2, 1).to(DEVICE)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    for place, expected in ((None, "cpu"), ("cpu", "cpu"), (DEVICE, "xla:cpu:0")):
        file.seek(0)
        state = torch.load(file, map_location=place)
        assert str(state["weight"].device) == expected
        assert state["weight"].tolist() == layer.weight.tolist()
    nn.Linear(2, 1).load_state_dict(layer.state_dict())  # from a device to the CPU
    data = torch.utils.data.TensorDataset(torch.ones(4, 2))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True):
        assert layer(batch.to(DEVICE, non_blocking=True)).device == HERE


@pytest.mark.parametrize("optimizer", [
    lambda p: torch.optim.AdamW(p, 1e-2), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
])  # fmt: skip
def test_a_compiled_step_stays_on_the_device(optimizer: Any) -> None:
    found = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3)).to(device)
        opt = optimizer(net.parameters())

        def step(x: Any, y: Any, net: Any = net, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            return loss

        run = step if device == "cpu" else torch.compile(step, fullgraph=True)
        torch.manual_seed(1)
        losses = []
        for _ in range(5):
            old = net[0].weight._data.memory.array if device != "cpu" else None
            x, y = torch.randn(4, 5).to(device), torch.randint(0, 3, (4,)).to(device)
            losses.append(run(x, y).item())
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    assert len(run.entries) == 2  # without, and with the state of the optimizer
    assert {p.device for p in net.parameters()} == {HERE}
    assert {p.grad.device for p in net.parameters()} == {HERE}
    kept = [x for s in opt.state.values() for x in s.values() if x.ndim]
    assert {x.device for x in kept} == {HERE}
    # The memory of parameters was given to XLA, unless somebody else refers to it.
    assert not old.is_deleted()
    del old
    memory = net[0].weight._data.memory
    parts = [p for s in run.last.function.steps for p in getattr(s[0], "variants", {}).values()]
    assert any(given for part in parts for _, given, *_ in part.calls)
    before = net[0].weight.detach().clone()
    run(x, y)
    assert net[0].weight._data.memory is memory
    assert not torch.equal(before, net[0].weight)
    assert before.isfinite().all()


def test_a_compiled_function_has_a_gradient() -> None:
    f = torch.compile(lambda t: (t.sin() * torch.arange(3, device=t.device)).sum())
    x = made([1.0, 2.0, 3.0], requires_grad=True)
    for k in range(1, 4):
        y = f(x)
        y.backward()
        assert y.device == HERE
        expected = [k * i * float(np.cos(i + 1)) for i in range(3)]
        np.testing.assert_allclose(x.grad.tolist(), expected, rtol=1e-5, atol=1e-6)
    assert f.eager_because is None


def test_bfloat16() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)
    for f in (lambda t: t * 3 + 0.1, lambda t: t.softmax(0), lambda t: t @ t, torch.tanh,
              lambda t: F.layer_norm(t, (3,))):  # fmt: skip
        found = f(x.to(DEVICE))
        assert found.dtype is torch.bfloat16
        assert found.tolist() == pytest.approx(f(x).tolist(), rel=1e-2)
    leaf = x.to(DEVICE).requires_grad_()
    (leaf * leaf).sum().backward()
    assert leaf.grad.dtype is torch.bfloat16
    assert leaf.grad.tolist() == [2.0, 4.0, 6.0]


def test_gradients_are_written_in_the_memory_of_the_last_unless_somebody_has_them() -> None:
    found = {}
    for device in ("cpu", DEVICE):
        weight, other = (
            torch.linspace(k, 1, 12, dtype=torch.float64).reshape(4, 3).to(device).requires_grad_()
            for k in (-1, 2)
        )
        opt = torch.optim.SGD([weight, other], 1e-3, momentum=0.9)

        @torch.compile(fullgraph=True)
        def step(x: Any, weight: Any = weight, other: Any = other, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = ((x @ weight) * (x @ other).sin()).sum()
            loss.backward()
            opt.step()
            return loss.detach()

        inputs = [torch.linspace(-1, k, 8, dtype=torch.float64).reshape(2, 4).to(device)
                  for k in range(7)]  # fmt: skip
        losses = [step(x).item() for x in inputs[:4]]
        address = lambda p=weight: p.grad._data.memory.array.unsafe_buffer_pointer()
        before = address() if device == DEVICE else None
        losses.append(step(inputs[4]).item())
        assert device == "cpu" or address() == before
        kept, values = weight.grad, weight.grad.tolist()
        view, part = other.grad[1], other.grad[1].tolist()
        losses.append(step(inputs[5]).item())
        assert kept.tolist() == values  # as the step before left it
        assert view.tolist() == part
        assert kept is not weight.grad
        losses.append(step(inputs[6]).item())
        found[device] = [losses, *[x.tolist() for x in (weight, other, weight.grad, other.grad)]]
    for here, there in zip(found[DEVICE], found["cpu"], strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-10)


def test_compiled_programs_find_bad_indices_when_a_value_is_read() -> None:
    table = torch.arange(15.0).reshape(5, 3).to(DEVICE)

    @torch.compile(fullgraph=True)
    def loss(rows: Any, targets: Any) -> Any:
        return F.cross_entropy(F.embedding(rows, table), targets)

    def called(rows: Any, targets: Any) -> float:
        return float(loss(made(rows), made(targets)))

    for _ in range(2):
        right = called([0, 4, 1], [0, 2, -100])
        want = F.cross_entropy(F.embedding(torch.tensor([0, 4, 1]), table.cpu()),
                               torch.tensor([0, 2, -100]))  # fmt: skip
        assert right == pytest.approx(want.item(), rel=1e-6)
    for bad in (([0, 5, 1], [0, 1, 2]), ([0, -1, 1], [0, 1, 2]), ([0, 1, 1], [0, 1, 3]),
                ([0, 1, 1], [0, 1, -1])):  # fmt: skip
        with pytest.raises(IndexError, match=r"loss\(\): index out of range"):
            called(*bad)
    assert called([0, 4, 1], [0, 2, -100]) == right

    @torch.compile(fullgraph=True)
    def parts(x: Any, at: Any) -> Any:
        return x.gather(0, at[None]), x[at], x.index_select(0, at)

    for _ in range(2):
        assert [y.tolist() for y in parts(table, made([4, 0, 1]))] == [
            [[12.0, 1.0, 5.0]], *[[[12.0, 13.0, 14.0], [0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]] * 2
        ]
    for at in ([0, 5, 1], [0, 1, -1]):
        with pytest.raises(IndexError, match=r"parts\(\): index out of range"):
            parts(table, made(at))[0].tolist()


def test_autocast_and_the_scaler() -> None:
    x = torch.randn(4, 5)
    for device in ("cpu", DEVICE):
        with torch.autocast(device):
            assert torch.is_autocast_enabled(device)
            here, there = x.to(device), x.to(DEVICE if device == "cpu" else "cpu")
            assert (here @ here.t()).dtype is torch.bfloat16
            assert (here @ here.t()).exp().dtype is torch.bfloat16
            assert F.mse_loss(here, here).dtype is torch.float32
            assert (there @ there.t()).dtype is torch.float32  # which is on another device
    losses = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        net = nn.Linear(5, 3).to(device)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        scaler = torch.amp.GradScaler(device, init_scale=64.0)

        def step(given: Any, net: Any = net, opt: Any = opt, device: str = device) -> Any:
            opt.zero_grad()
            with torch.autocast(device, torch.bfloat16):
                loss = net(given).float().pow(2).mean()
            loss.backward()
            opt.step()
            return loss

        run = torch.compile(step, fullgraph=True) if device == DEVICE else step
        losses.append([run(x.to(device)).item() for _ in range(4)])
        opt.zero_grad()
        scaler.scale(net(x.to(device)).mean()).backward()
        before = net.bias.detach().clone()
        scaler.step(opt)
        scaler.update()
        assert (before - net.bias).tolist() == pytest.approx([0.1 / 3] * 3, rel=1e-4)
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)
    assert losses[1][-1] < losses[1][0]


def test_an_operation_is_compiled_once_for_a_signature() -> None:
    from retrograd.devices import _calls

    x = made([1.0, 2.0, 3.0])
    (x * 1.5).tolist()
    before = len(_calls._calls)
    for number in (2.5, 3.5):
        assert (x * number).tolist() == [number, 2 * number, 3 * number]
    assert len(_calls._calls) == before


def masked(y: Any, mask: Any, values: Any) -> Any:
    y = y.clone()
    y[1, mask] = values
    return y


@pytest.mark.parametrize("write", [
    lambda y, mask, values: torch.index_put(y[0], (mask,), values),
    lambda y, mask, values: masked(y, mask, values),
    lambda y, mask, values: masked(y, mask, values[None]),
    lambda y, mask, values: torch.index_put(y, (torch.tensor([1], device=y.device),
                                                torch.tensor([[0, 2]], device=y.device)),
                                            values[None]),
    lambda y, mask, values: y[0].put(torch.tensor([0, 2], device=y.device), values),
])  # fmt: skip
def test_gradients_of_values_that_are_written(write: Any) -> None:
    def gradients(device: str) -> Any:
        y = torch.ones(2, 3, device=device, requires_grad=True)
        values = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
        mask = torch.tensor([True, False, True], device=device)
        result = write(y, mask, values)
        weights = torch.arange(1.0, 1.0 + result.numel(), device=device).reshape(result.shape)
        return [g.tolist() for g in torch.autograd.grad((result * weights).sum(), (y, values))]

    assert gradients(DEVICE) == gradients("cpu")


def test_the_gradient_of_a_number_is_on_its_device() -> None:
    z = torch.tensor(3.0, device=DEVICE, requires_grad=True)
    (z * 2).backward()
    assert str(z.grad.device) == str(z.device)
    assert z.grad.item() == 2


def test_control_flow_calls_one_branch() -> None:
    z = torch.tensor(0.0, device=DEVICE, requires_grad=True)
    called = []
    torch.cond(z > 0, lambda: z.sqrt(), lambda: called.append(1) or z * 2).backward()
    assert (called, z.grad.item()) == ([1], 2)  # sqrt has no finite derivative there
    (y,) = torch.while_loop(lambda a: a < 20, lambda a: (a * 2,), (made(3.0),))
    assert y.item() == 24
    assert F.one_hot(torch.tensor([0, 2], device=DEVICE)).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_truth_of_complex_numbers_and_searches_of_nothing() -> None:
    z = torch.tensor([1j, 1.0], device=DEVICE)
    assert torch.all(z).item()
    assert torch.any(z[:1]).item()
    nothing = torch.ones(0, device=DEVICE)
    assert torch.searchsorted(nothing, nothing).tolist() == []
    assert torch.searchsorted(nothing, torch.ones(2, device=DEVICE)).tolist() == [0, 0]
    rows = torch.nonzero_static(torch.ones(0, 2, device=DEVICE), size=1)
    assert rows.tolist() == [[-1, -1]]


# -- one function for several operations -----------------------------------------------------


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
        sizes.append(len(y.grad_fn.asked.calls))
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


def test_threads_compute_on_a_device_at_once() -> None:
    import threading

    found: dict[int, Any] = {}

    def work(number: int) -> None:
        x = torch.full((4,), number / 4, device=DEVICE, requires_grad=True)
        for _ in range(10):
            x.grad = None
            (x * x).tanh().sum().backward()
        found[number] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(6):
        slope = i / 2 * (1 - np.tanh((i / 4) ** 2) ** 2)
        assert found[i] == pytest.approx([slope] * 4, rel=1e-5)


def test_a_training_step_copies_nothing_from_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(11, 8)
            self.norm, self.projection = nn.LayerNorm(8), nn.Linear(8, 24)
            self.convolution, self.batch_norm = nn.Conv1d(8, 8, 1), nn.BatchNorm1d(8)
            self.head = nn.Linear(8, 11)

        def forward(self, ids: Any) -> Any:
            x = self.embedding(ids)
            q, k, v = self.projection(self.norm(x)).split(8, 2)
            q, k, v = (z.view(*z.shape[:2], 2, 4).transpose(1, 2) for z in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
            x = x + y.reshape(x.shape)
            return self.head(self.batch_norm(self.convolution(x.transpose(1, 2))).transpose(1, 2))

    net = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(net.parameters())
    ids = torch.randint(0, 11, (2, 6)).to(DEVICE)

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    step()
    from retrograd.devices._values import DeviceValue

    def refused(self: Any) -> Any:
        raise AssertionError("a value is copied to the CPU")

    with monkeypatch.context() as patched:
        patched.setattr(DeviceValue, "host", property(refused))
        loss = step()
    assert 0 < loss.item() < 10


# -- tools -----------------------------------------------------------------------------------


def test_jacobians_and_hessians_of_functions_on_a_device() -> None:
    x = torch.tensor([0.5, 1.0, -0.25])
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        expected = transform(lambda a: (a * a).tanh())(x)
        assert torch.allclose(transform(lambda a: (a * a).tanh())(x.to(DEVICE)).cpu(), expected)
    expected = torch.func.hessian(lambda a: (a * a).tanh().sum())(x)
    found = torch.func.hessian(lambda a: (a * a).tanh().sum())(x.to(DEVICE))
    assert found.device == HERE
    assert torch.allclose(found.cpu(), expected, atol=1e-6)


def test_anomaly_mode_says_where_a_nan_comes_from() -> None:
    x = made([0.0, 1.0], requires_grad=True)
    with (
        torch.autograd.set_detect_anomaly(True),
        pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values") as caught,
    ):
        (x.sqrt() * 0).sum().backward()
    assert "  0/0 at element [0]: the derivative of sqrt is infinite at 0." in (
        caught.value.__notes__
    )


def test_explain_and_pictures_are_those_of_the_cpu() -> None:
    from retrograd import viz

    def texts(device: str) -> list[str]:
        torch.manual_seed(0)
        x = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
        loss = (x * x).tanh().sum()
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
        optimizer = torch.optim.Adam(net.parameters())
        given = torch.ones(5, 3, device=device)
        net(given).mean().backward()
        with viz.gradient_flow(net) as flow:
            net(given).mean().backward()
        with viz.recording() as story:
            net(given).mean().backward()
        return [str(torch.autograd.explain(x, loss)), str(torch.autograd.explain(x)),
                str(torch.autograd.explain(net, net(given).mean(), optimizer=optimizer)),
                str(flow), str(viz.draw(loss)), type(story).__name__]  # fmt: skip

    assert texts(DEVICE) == texts("cpu")


def test_the_profiler_names_operations_and_nodes() -> None:
    from retrograd import profiler

    x = made([1.0, 2.0], requires_grad=True)
    with profiler.profile() as profile:
        (x * x).tanh().sum().backward()
    names = {event.key for event in profile.key_averages()}
    assert {"aten::mul", "aten::tanh", "aten::sum", "MulBackward0", "TanhBackward0"} <= names


# -- errors ----------------------------------------------------------------------------------


def test_an_interrupt_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.BatchNorm1d(2))
    net(torch.ones(3, 2)).sum().backward()
    before = {name: p._data for name, p in net.named_parameters()}
    buffers = dict(net.named_buffers())
    device_put = jax.device_put
    for last in (0, 3, 7, 13, 17):  # of the 12 parameters and gradients, and 6 buffers
        left = [last]

        def put(*args: Any, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return device_put(*args)

        monkeypatch.setattr(jax, "device_put", put)
        with pytest.raises(KeyboardInterrupt):
            net.to(DEVICE)
        assert left == [-1]
        assert all(p._data is before[name] for name, p in net.named_parameters())
        assert all(p.grad.device == torch.device("cpu") for p in net.parameters())
        assert all(x is buffers[name] for name, x in net.named_buffers())
    monkeypatch.undo()
    net.to(DEVICE)
    assert {x.device for x in (*net.parameters(), *net.buffers())} == {HERE}


def test_gradients_and_indices_of_another_device_are_refused() -> None:
    x = made([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="assigned grad has data located on a different device"):
        x.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match=r"index 0 - expected device xla:cpu:0 but got cpu"):
        (x * 2).backward(torch.ones(2))
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        torch.ones(2)[made([0, 1])]
    assert x.detach()[torch.tensor([1, 0])].tolist() == [2.0, 1.0]
    assert x.grad is None


def test_files_are_not_loaded_to_a_device_that_is_not_there() -> None:
    file = io.BytesIO()
    torch.save({"x": made([1.0, 2.0])}, file)
    for place, words in (("cuda", r"device 'cuda' is not available: .*'jax\[cuda12\]'"),
                         ("xla:cpu:3", "there is no device 'xla:cpu:3': there is one of this"),
                         ("gpu", "Expected one of cpu, cuda")):  # fmt: skip
        file.seek(0)
        with pytest.raises(RuntimeError, match=words):
            torch.load(file, map_location=place)
    file.seek(0)
    assert torch.load(file, map_location=DEVICE)["x"].device == HERE


def test_a_driver_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    import jax

    from retrograd.devices import _platforms

    def refused(platform: Any) -> Any:
        raise RuntimeError("Unable to initialize backend 'cuda': CUDA driver version is "
                           "insufficient for CUDA runtime version")  # fmt: skip

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec",
                        lambda name: found("jax" if name == "jax_plugins" else name))  # fmt: skip
    monkeypatch.setattr(jax, "devices", refused)
    monkeypatch.setattr(_platforms, "_devices", {})
    monkeypatch.setattr(_platforms, "_refused", {})
    assert not torch.cuda.is_available()
    with pytest.raises(RuntimeError, match=r"no driver that fits\. JAX says: .*driver version "
                                           r"is insufficient.*nvidia-smi.*Use device='cpu'"):
        torch.ones(2, device="cuda")


def test_out_of_memory_in_an_operation_and_in_a_backward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import jax

    from retrograd.devices import _calls, _fused

    x = made([1.0, 2.0, 3.0], requires_grad=True)
    y = x.tanh()
    torch.autograd.grad(y.sum(), x, retain_graph=True)

    def full(*args: Any) -> Any:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes")

    for call in [*_calls._calls.values(), *y.grad_fn.asked.calls.values()]:
        if isinstance(call, (_calls.Call, _fused.Fused)):
            monkeypatch.setattr(call, "function", full)
    with pytest.raises(torch.OutOfMemoryError, match="xla:cpu:0 is out of memory"):
        x.tanh().tolist()
    with pytest.raises(torch.OutOfMemoryError, match="xla:cpu:0 is out of memory"):
        torch.autograd.grad(y.sum(), x)[0].tolist()
    monkeypatch.undo()
    assert x.grad is None
    assert x.tanh().tolist() == y.tolist()


@pytest.mark.parametrize("counts", [(3.0, 3.0, 3.0), (3.0, 7.0, 3.0)])
def test_compiled_steps_of_parameters_with_equal_and_unequal_counts(counts: Any) -> None:
    found = {}
    for device in ("cpu", DEVICE):
        weights = [torch.linspace(-1, k, 6).to(device).requires_grad_() for k in (1, 2, 3)]
        opt = torch.optim.Adam(weights, 0.1)
        for w in weights:
            w.grad = torch.ones_like(w)
        opt.step()
        for w, count in zip(weights, counts, strict=True):
            opt.state[w]["step"].fill_(count)

        def step(weights: Any = weights, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = sum([(w.sin() * w).sum() for w in weights])
            loss.backward()
            opt.step()
            return loss.detach()

        run = torch.compile(step, fullgraph=True) if device == DEVICE else step
        found[device] = [float(run()) for _ in range(4)], [w.tolist() for w in weights]
        assert [float(opt.state[w]["step"]) for w in weights] == [c + 4 for c in counts]
        assert [w._version for w in weights] == [5] * 3
    for here, there in zip(found[DEVICE], found["cpu"], strict=True):
        np.testing.assert_allclose(here, there, rtol=2e-6, atol=1e-7)


def test_updates_are_a_program_after_the_one_that_gives_the_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weight = torch.linspace(-1, 1, 6).to(DEVICE).requires_grad_()
    opt = torch.optim.Adam([weight], 0.1)

    @torch.compile(fullgraph=True)
    def step() -> Any:
        opt.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        nn.utils.clip_grad_norm_([weight], 1.0)
        opt.step()
        return loss.detach()

    for _ in range(3):
        step()
    from retrograd.devices._programs import Part

    calls = []
    run = Part.__call__

    def noted(part: Any, *values: Any) -> Any:
        found = run(part, *values)
        names = {line.operation.name for line in part.program.lines}
        calls.append((names, dict(zip(part.program.outputs, found, strict=True))))
        return found

    before = weight.tolist()
    monkeypatch.setattr(Part, "__call__", noted)
    loss = step()
    (passes, results), (updates, _) = calls
    assert updates == {"optimizer_update"}
    assert not updates & passes
    assert loss.item() in [float(y) for v, y in results.items() if not v.shape]
    assert loss.item() == pytest.approx(sum(x * x for x in before))


def test_a_gradient_of_a_compiled_step_is_a_new_tensor() -> None:
    weight = torch.ones(3, device=DEVICE, requires_grad=True)
    opt = torch.optim.SGD([weight], 0.5)

    @torch.compile(fullgraph=True)
    def step(x: Any) -> None:
        opt.zero_grad()
        (weight * weight * x).sum().backward()
        opt.step()

    x = torch.full((3,), 0.5, device=DEVICE)
    for _ in range(3):
        step(x)
    weight.grad.mine = True
    weight.grad.mul_(2)
    seen = weakref.ref(weight.grad)
    step(x)
    assert seen() is None
    assert not hasattr(weight.grad, "mine")
    assert weight.grad._version == 0
    assert weight.grad.tolist() == [0.125] * 3
    assert weight.tolist() == [0.0625] * 3


def test_integer_powers_with_large_exponents() -> None:
    x, y = torch.tensor([3, -3, 2, 7, -1]), torch.tensor([1000, 12345, 70, -1, -3])
    assert (x.to(DEVICE) ** y.to(DEVICE)).tolist() == [pow(3, 1000, 1 << 64),
           pow(-3, 12345, 1 << 64) - (1 << 64) * (pow(-3, 12345, 1 << 64) >> 63), 0, 0, -1]
    small = torch.tensor([250, 3], dtype=torch.uint8), torch.tensor([-7, 100], dtype=torch.int8)
    assert (small[0].to(DEVICE) ** small[1].to(DEVICE)).tolist() == [0, 5073]  # PyTorch's


def test_operations_that_went_wrong_on_devices_only() -> None:
    number = torch.tensor(2.0).to(DEVICE).requires_grad_()
    (number.swapdims(0, 0) * 3).backward()
    assert number.grad.item() == 3
    at, values = torch.tensor([[1], [0]]), torch.tensor([5.0, 6.0])
    found = torch.arange(6.0).reshape(2, 3).to(DEVICE).put(at.to(DEVICE), values.to(DEVICE))
    assert found.tolist() == [[6, 5, 2], [3, 4, 5]]
    torch.manual_seed(3)
    there = F.gumbel_softmax(torch.linspace(-1, 1, 6).reshape(2, 3).to(DEVICE), 0.5, hard=True)
    torch.manual_seed(3)
    here = F.gumbel_softmax(torch.linspace(-1, 1, 6).reshape(2, 3), 0.5, hard=True)
    assert there.device == torch.device(DEVICE, 0)
    assert there.tolist() == here.tolist()
    (number.gather(0, torch.tensor([0]).to(DEVICE)) * 5).sum().backward()
    assert number.grad.item() == 8
    truths = torch.tensor([[0.0, 1.0], [2.0, 0.0]], device=DEVICE)
    assert truths.all(dim=[], keepdim=True).tolist() == [[False, True], [True, False]]
    assert truths.sign().neg().sign().signbit().tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_as_strided_of_a_view_shows_the_memory(device: str) -> None:
    x = torch.arange(12.0).to(device)
    part = x[2:].reshape(5, 2)[1:]  # from the fifth element on
    before = part.as_strided((2, 3), (6, 1), 1)
    assert before.tolist() == [[1, 2, 3], [7, 8, 9]]
    assert part.as_strided((2,), (3,)).tolist() == [4, 7]
    before[0].fill_(-1.0)
    assert x.tolist() == [0, -1, -1, -1, 4, 5, 6, 7, 8, 9, 10, 11]
    x[8] = 20.0
    assert before.tolist() == [[-1, -1, -1], [7, 20, 9]]
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 48"):
        part.as_strided((5,), (3,))
    # A write whose elements are in no view but the one that is written.
    leaf = torch.arange(12.0).to(device).requires_grad_()
    y = leaf.clone()
    y[2:].as_strided((3,), (2,), 1).mul_(torch.tensor([2.0, 3.0, 4.0]).to(device))
    (y * y).sum().backward()
    factors = [1, 2, 1, 3, 1, 4, 1, 1, 1, 1, 1, 1]
    assert leaf.grad.tolist() == [2 * i * k * k for i, k in enumerate(factors)]


def test_as_strided_of_a_view_of_another_dtype_is_refused() -> None:
    parts = torch.view_as_real(torch.ones(3, dtype=torch.complex64, device=DEVICE))
    with pytest.raises(RuntimeError, match="the memory of a view of another dtype"):
        parts.as_strided((2,), (1,))


def test_out_on_another_device_is_refused() -> None:
    on, off = torch.ones(2, device=DEVICE), torch.ones(2)
    for x, out in ((on, off), (off, on)):
        message = f"found at least two devices, {x.device} and {out.device}!"
        with pytest.raises(RuntimeError, match=re.escape(message)):
            torch.add(x, 1, out=out)
        assert out.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="from device cpu to device meta, but cross-device"):
        torch.add(off, 1, out=torch.ones(2, device="meta"))
    torch.add(torch.tensor(1.0), 2, out=(total := torch.ones((), device=DEVICE)))
    assert total.item() == 3


@pytest.mark.parametrize("create", [torch.empty, torch.zeros, torch.ones])
def test_tensors_that_do_not_fit_are_out_of_memory(create: Any) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="xla:cpu is out of memory"):
        create(1 << 50, device=DEVICE)
    with pytest.raises(torch.OutOfMemoryError, match="xla:cpu:0 is out of memory"):
        create(1, device=DEVICE).expand(1 << 50) * 2


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


def test_running_statistics_follow_the_cpu() -> None:
    found = {}
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        norm = nn.BatchNorm1d(3).to(device)
        x = torch.linspace(-1, 2, 12).sin().reshape(4, 3).to(device).requires_grad_()
        for _ in range(3):
            (norm(x) * x.cos()).sum().backward()
        norm.eval()
        (norm(x) * x).sum().backward()
        found[device] = [t.tolist() for t in (x.grad, norm.weight.grad, norm.running_mean,
                                              norm.running_var)]  # fmt: skip
    for here, there in zip(found[DEVICE], found["cpu"], strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("error")
def test_gradients_that_are_inputs_are_given_without_a_warning() -> None:
    weights = [torch.ones(3, device=DEVICE, requires_grad=True) for _ in range(2)]
    opt = torch.optim.SGD(weights, 0.5)

    @torch.compile(fullgraph=True)
    def step(x: Any) -> None:
        opt.zero_grad()
        sum([(w * x).sum() for w in weights]).backward()
        opt.step()

    x = torch.full((3,), 0.5, device=DEVICE)
    for _ in range(4):
        step(x)
    assert [w.tolist() for w in weights] == [[0.0] * 3] * 2
    weights[0].grad.add_(1)
    assert weights[1].grad.tolist() == x.tolist() == [0.5] * 3


def test_copies_and_pickles_have_memory_of_their_own() -> None:
    norm = nn.BatchNorm1d(2).to(DEVICE)
    for copied in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        twin = copied(norm)
        twin(torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=DEVICE)).sum().backward()
        assert twin.running_mean.device == twin.weight.device == norm.weight.device
        np.testing.assert_allclose(twin.running_mean.tolist(), [0.2, 0.3], rtol=1e-6)
        assert (norm.running_mean.tolist(), norm.num_batches_tracked.item()) == ([0, 0], 0)
        assert norm.weight.grad is None


def test_a_write_through_detach_is_noticed() -> None:
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    y = x.exp()
    y.detach().add_(1)
    assert y._version == 1
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        y.sum().backward()


def test_a_write_through_data_is_not_noticed() -> None:
    found = []
    for device in ("cpu", DEVICE):
        x = torch.ones(3, device=device, requires_grad=True)
        y = x.sin()
        z = y * y
        y.data[1:].add_(1)
        z.sum().backward()
        found.append([x.grad.tolist(), y.tolist(), y._version])
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-6)
    assert found[1][2] == found[0][2] == 0


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return tangent * 2


def test_custom_tangents_and_tensors_that_vmap_makes() -> None:
    x = torch.arange(6.0, device=DEVICE).view(3, 2)
    values, tangents = torch.func.jvp(Doubled.apply, (x,), (x + 1,))
    assert (values.tolist(), tangents.tolist()) == ((x * 2).tolist(), (x * 2 + 2).tolist())
    torch.manual_seed(0)
    expected = torch.randn(3, 2)
    torch.manual_seed(0)
    with torch.device(DEVICE):
        found = torch.func.vmap(lambda v: v * 0 + torch.randn(2), randomness="different")(x)
    assert found.device == x.device
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[:1].expand(3).add_(1),
        lambda x: x[:1].expand(3).copy_(x[1:]),
        lambda x: x[:1].expand(3).__setitem__(slice(None), x[1:]),
        lambda x: torch.add(x[1:], 1, out=x[:1].expand(3)),
        lambda x: x[1:].add_(x[:-1]),
    ],
)
def test_writes_that_overlap_are_refused(write: Any) -> None:
    """The result would depend on the order in which elements are written."""
    messages = []
    for device in ("cpu", DEVICE):
        x = torch.arange(4.0, device=device)
        with pytest.raises(RuntimeError, match=r"refers? to a single memory location") as error:
            write(x)
        messages.append(str(error.value))
        assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert messages[0] == messages[1]


def test_one_value_may_be_written_to_overlapping_elements() -> None:
    x = torch.arange(4.0, device=DEVICE)
    x[:1].expand(3).fill_(7.0)
    x[1:3].mul_(x[1:3])
    assert x.tolist() == [7.0, 1.0, 4.0, 3.0]


# -- LBFGS, and the states of optimizers -----------------------------------------------------


def lbfgs(device: str, dtype: Any = torch.float64, **options: Any) -> tuple[Any, Any, Any]:
    """A search, the function that it searches, and the losses that this has found."""
    random = np.random.default_rng(0)
    x = torch.tensor(random.standard_normal(6), dtype=dtype, device=device, requires_grad=True)
    w = torch.tensor(random.standard_normal((2, 3)), dtype=dtype, device=device).t()
    number = torch.tensor(0.5, dtype=dtype, device=device)
    unused = torch.ones(2, dtype=dtype, device=device, requires_grad=True)
    c = torch.complex(x.detach()[:2], x.detach()[2:4])
    params = [x, unused, *[p.requires_grad_() for p in (w, number, c)]]
    optimizer = torch.optim.LBFGS(params, max_iter=4, history_size=3, **options)
    losses: list[float] = []

    def closure() -> Any:
        optimizer.zero_grad(set_to_none=False)
        valley = ((1 - x[:-1]) ** 2 + 10 * (x[1:] - x[:-1] ** 2) ** 2).sum()
        loss = valley + ((w - 1) ** 4).sum() + 3 * (number - w[0, 0]) ** 2 + (c.abs() ** 2).sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    return optimizer, closure, losses


def values_in(optimizer: Any) -> list[Any]:
    return [p.detach().cpu().numpy().copy() for p in optimizer.param_groups[0]["params"]]


def agree(found: Any, expected: Any, tolerance: float) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance)


SEARCHES: list[dict[str, Any]] = [{"lr": 0.02}, {"line_search_fn": "strong_wolfe"}]


@pytest.mark.parametrize("options", SEARCHES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_lbfgs_follows_the_cpu(dtype: Any, options: Any) -> None:
    tolerance = 1e-10 if dtype is torch.float64 else 1e-4
    runs = [lbfgs(device, dtype, **options) for device in ("cpu", DEVICE)]
    for _ in range(3):
        (on_cpu, expected), (optimizer, found) = (
            (optimizer, optimizer.step(closure).item()) for optimizer, closure, _ in runs
        )
        assert found == pytest.approx(expected, rel=tolerance)
        agree(values_in(optimizer), values_in(on_cpu), tolerance)
    assert len(runs[1][2]) == len(runs[0][2]) > 11
    np.testing.assert_allclose(runs[1][2], runs[0][2], rtol=tolerance)
    assert runs[1][2][-1] < 0.8 * runs[1][2][0]
    params = optimizer.param_groups[0]["params"]
    assert {x.device for p in params for x in (p, p.grad) if x is not None} == {HERE}
    assert all(type(p._version) is int and p._version > 11 for p in params)
    kept, theirs = optimizer.state[params[0]], on_cpu.state[on_cpu.param_groups[0]["params"][0]]
    assert (kept["n_iter"], kept["func_evals"]) == (theirs["n_iter"], theirs["func_evals"])
    for name in ("d", "prev_flat_grad", "H_diag"):
        assert kept[name].device == HERE
        agree([kept[name].tolist()], [theirs[name].tolist()], 10 * tolerance)
    for name in ("old_dirs", "old_stps", "ro"):
        assert len(kept[name]) == len(theirs[name]) == 3
        assert all(x.device == HERE for x in kept[name])


@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_lbfgs_is_saved_and_resumed(options: Any) -> None:
    whole, closure, expected = lbfgs("cpu", **options)
    for _ in range(4):
        whole.step(closure)
    for first, second, place in (
        (DEVICE, DEVICE, None), (DEVICE, DEVICE, DEVICE), ("cpu", DEVICE, "cpu"),
        (DEVICE, "cpu", DEVICE), (DEVICE, "cpu", "cpu"),
    ):  # fmt: skip
        optimizer, closure, losses = lbfgs(first, **options)
        for _ in range(2):
            optimizer.step(closure)
        file = io.BytesIO()
        torch.save((optimizer.param_groups[0]["params"], optimizer.state_dict()), file)
        file.seek(0)
        params, state = torch.load(file, map_location=place)
        again, closure, later = lbfgs(second, **options)
        with torch.no_grad():
            for p, saved in zip(again.param_groups[0]["params"], params, strict=True):
                p.copy_(saved)
        again.load_state_dict(state)
        (held,) = again.state.values()
        assert {held[name].device.type for name in ("d", "H_diag")} == {second}
        for _ in range(2):
            again.step(closure)
        np.testing.assert_allclose(losses + later, expected, rtol=1e-9)
        agree(values_in(again), values_in(whole), 1e-9)


@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_lbfgs_after_an_error_in_the_closure(options: Any) -> None:
    for fails in (1, 2, 4, 7):
        runs = []
        for device in ("cpu", DEVICE):
            optimizer, closure, losses = lbfgs(device, **options)

            def failing(closure: Any = closure, losses: Any = losses, fails: int = fails) -> Any:
                if len(losses) + 1 == fails:
                    losses.append(0.0)
                    raise ValueError("no loss")
                return closure()

            with pytest.raises(ValueError, match="no loss"):
                for _ in range(4):
                    optimizer.step(failing)
            after = values_in(optimizer)
            optimizer.step(failing)
            runs.append((after, values_in(optimizer), losses))
        agree(runs[1][0], runs[0][0], 1e-10)
        agree(runs[1][1], runs[0][1], 1e-10)
        np.testing.assert_allclose(runs[1][2], runs[0][2], rtol=1e-10)


def test_lbfgs_goes_on_after_an_interrupt_at_any_line() -> None:
    lines, stop_at = 0, -1

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(("lbfgs.py", "devices/_updates.py")):
            return None
        lines += event == "line"
        if lines == stop_at:
            raise KeyboardInterrupt
        return trace

    def traced_step(stop: int) -> tuple[Any, Any]:
        nonlocal lines, stop_at
        optimizer, closure, _ = lbfgs(DEVICE, line_search_fn="strong_wolfe")
        lines, stop_at, before = 0, stop, sys.gettrace()
        sys.settrace(trace)
        try:
            if stop > 0:
                with pytest.raises(KeyboardInterrupt):
                    optimizer.step(closure)
            else:
                optimizer.step(closure)
        finally:
            sys.settrace(before)
        return optimizer, closure

    traced_step(-1)
    count = lines
    assert count > 100
    for stop in (*range(1, 60, 3), *range(60, count, 23)):
        optimizer, closure = traced_step(stop)
        start = closure().item()
        for _ in range(2):
            optimizer.step(closure)
        assert closure().item() < start


def test_lbfgs_refuses_two_devices() -> None:
    x, y = torch.ones(2, requires_grad=True), made([1.0], requires_grad=True)
    words = "Expected all tensors to be on the same device, but found at least two devices, "
    for params in ([x, y], [y, x]):
        optimizer = torch.optim.LBFGS(params)
        with pytest.raises(RuntimeError, match=f"{words}xla:cpu:0 and cpu!"):
            optimizer.step(lambda: (x.sum() + y.cpu()).sum().backward() or 1.0)
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=2)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (layer(torch.ones(2, device=layer.weight.device)) - 1).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    layer.to(DEVICE)
    with pytest.raises(RuntimeError, match=f"{words}xla:cpu:0 and cpu! The parameters were moved"):
        optimizer.step(closure)
    optimizer.load_state_dict(optimizer.state_dict())
    first = optimizer.step(closure).item()
    assert closure().item() < first


STEPPERS = [
    lambda p: SGD(p, 0.1, momentum=0.9), lambda p: AdamW(p, 0.01), lambda p: NAdam(p, 0.01),
    lambda p: Adafactor(p, 0.01), lambda p: Muon(p[:1], 0.1), lambda p: Adagrad(p, 0.1),
]  # fmt: skip


@pytest.mark.parametrize("make", STEPPERS)
def test_states_of_optimizers_are_loaded_to_the_device_of_the_parameters(make: Any) -> None:
    def trained(device: str, steps: int, before: Any = None) -> tuple[Any, Any]:
        torch.manual_seed(0)
        layer = nn.Linear(3, 2, dtype=torch.float64).to(device)
        optimizer = make(list(layer.parameters()))
        if before is not None:
            layer.load_state_dict(before[0])
            optimizer.load_state_dict(before[1])
        for _ in range(steps):
            optimizer.zero_grad()
            (layer(torch.ones(4, 3, dtype=torch.float64, device=device)) ** 2).sum().backward()
            optimizer.step()
        return layer, optimizer

    expected = trained("cpu", 4)[0]
    for first, second, place in (
        (DEVICE, DEVICE, "cpu"), (DEVICE, DEVICE, DEVICE), ("cpu", DEVICE, None),
        (DEVICE, "cpu", DEVICE),
    ):  # fmt: skip
        layer, optimizer = trained(first, 2)
        file = io.BytesIO()
        torch.save((layer.state_dict(), optimizer.state_dict()), file)
        file.seek(0)
        found, again = trained(second, 2, torch.load(file, map_location=place))
        # Muon rounds to eight bits.
        tolerance = 1e-2 if isinstance(again, Muon) else 1e-9
        agree([p.tolist() for p in found.parameters()],
              [p.tolist() for p in expected.parameters()], tolerance)  # fmt: skip
        for state in again.state.values():
            for x in state.values():
                assert x.device.type == ("cpu" if x.ndim == 0 else second)
    for place, words in ((DEVICE, "xla:cpu:0 and cpu!"), ("cpu", "cpu and xla:cpu:0!")):
        again.load_state_dict(again.state_dict())
        found.to(place)
        for p in found.parameters():
            p.grad = torch.ones_like(p)
        before = [x.tolist() for s in again.state.values() for x in (*s.values(), *again.state)]
        with pytest.raises(RuntimeError, match=f"at least two devices, {words} The parameters"):
            again.step()
        state = [x.tolist() for s in again.state.values() for x in (*s.values(), *again.state)]
        assert state == before


def test_optimizers_step_where_modes_are_on() -> None:
    for optimizer_class in (torch.optim.Adam, torch.optim.LBFGS):
        found = []
        for device in ("cpu", DEVICE):
            x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
            optimizer = optimizer_class([x], lr=0.1)

            def closure(optimizer: Any = optimizer, x: Any = x) -> Any:
                optimizer.zero_grad()
                loss = (x**4).sum()
                loss.backward()
                return loss

            with torch.profiler.profile():
                optimizer.step(closure)
            found.append(x.tolist())
            assert x.tolist() != [1.0, 2.0]
        np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


# -- gradcheck -------------------------------------------------------------------------------


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
    assert "Batched" not in repr(list(type(y.grad_fn).asked.calls))
    for one, g in zip(found, gradients, strict=True):
        (expected,) = torch.autograd.grad(y, x, g, retain_graph=True)
        np.testing.assert_allclose(one.tolist(), expected.tolist(), atol=1e-14)
STEPPED = [
    lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9), lambda p, lr: torch.optim.Adam(p, lr),
    lambda p, lr: torch.optim.NAdam(p, lr), lambda p, lr: torch.optim.Adagrad(p, lr),
    lambda p, lr: torch.optim.Adafactor(p, lr), lambda p, lr: torch.optim.Muon(p[:1], lr),
]  # fmt: skip


def stepped(device: str, make: Any, change: Any = None, lr: Any = 0.1) -> list[Any]:
    """Parameters after some steps, in the middle of which the optimizer may be changed."""
    weight = torch.linspace(-1, 1, 12, device=device).view(4, 3).requires_grad_()
    bias = torch.linspace(1, 2, 3, device=device).requires_grad_()
    x = torch.linspace(-1, 2, 8, device=device).view(2, 4)
    optimizer = make([weight, bias], lr)
    for k in range(5):
        optimizer.zero_grad()
        (x @ weight + bias).pow(2).sum().backward()
        optimizer.step()
        if k == 2 and change is not None:
            optimizer = change(make, [weight, bias], optimizer) or optimizer
    for state in optimizer.state.values():
        for name, x in state.items():
            assert x.device == (torch.device("cpu") if x.ndim == 0 else weight.device), name
    return [weight.tolist(), bias.tolist()]


@pytest.mark.parametrize("make", STEPPED)
def test_states_of_optimizers_are_loaded_from_other_devices(make: Any) -> None:
    def reload(place: str) -> Any:
        def change(make: Any, parameters: Any, optimizer: Any) -> Any:
            file = io.BytesIO()
            torch.save(optimizer.state_dict(), file)
            file.seek(0)
            other = make(parameters, 0.1)
            other.load_state_dict(torch.load(file, map_location=place))
            return other

        return change

    expected = stepped("cpu", make)
    for device, place in ((DEVICE, "cpu"), (DEVICE, DEVICE), ("cpu", DEVICE)):
        for here, there in zip(stepped(device, make, reload(place)), expected, strict=True):
            np.testing.assert_allclose(here, there, rtol=2e-4, atol=1e-4)


def test_a_step_with_a_state_on_another_device_is_refused() -> None:
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(2)).sum().backward()
    optimizer.step()
    layer.to(DEVICE)
    with pytest.raises(RuntimeError, match="found at least two devices, xla:cpu:0 and cpu!"):
        optimizer.step()


@pytest.mark.parametrize("options", [{"fused": True}, {"capturable": True}, {"foreach": True}])
def test_options_of_optimizers_that_only_matter_for_speed(options: dict[str, bool]) -> None:
    make = lambda p, lr: torch.optim.Adam(p, lr, **options)
    expected = stepped("cpu", STEPPED[1])
    for here, there in zip(stepped(DEVICE, make), expected, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-6)
    torch.autograd.set_detect_anomaly(True)
    try:
        stepped(DEVICE, STEPPED[1])
    finally:
        torch.autograd.set_detect_anomaly(False)


@pytest.mark.parametrize("make", STEPPED)
def test_a_learning_rate_on_a_device(make: Any) -> None:
    def halve(_: Any, parameters: Any, optimizer: Any) -> None:
        for group in optimizer.param_groups:
            group["lr"] *= 0.5

    expected = stepped("cpu", make, halve, torch.tensor(0.1))
    found = stepped(DEVICE, make, halve, made(0.1))
    for here, there in zip(found, expected, strict=True):
        np.testing.assert_allclose(here, there, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("where", [DEVICE, "cpu"])
def test_averages_of_models(where: str) -> None:
    def averaged(device: str, where: str) -> list[Any]:
        torch.manual_seed(0)
        layer = nn.Linear(3, 2).to(device)
        swa = torch.optim.swa_utils
        by = swa.get_ema_multi_avg_fn(0.9)
        averages = [swa.AveragedModel(layer, where, multi_avg_fn=by, use_buffers=True),
                    swa.AveragedModel(layer, where)]  # fmt: skip
        for _ in range(3):
            with torch.no_grad():
                layer.weight.mul_(1.5)
            for average in averages:
                average.update_parameters(layer)
        return [x.module.weight.tolist() for x in averages]

    expected = averaged("cpu", "cpu")
    np.testing.assert_allclose(averaged(DEVICE, where), expected, rtol=1e-5)


def test_views_that_a_compiled_function_returns_share_memory() -> None:
    """Also those of its first call, which runs on copies."""

    def views(x: Any, w: Any) -> Any:
        y, z = x * 2, x * 3
        q = w * 2
        return y, y[1:], z[0], z[:, 1], x.t(), q, q.detach()[0]

    def written(run: Any, device: str) -> Any:
        x = torch.ones(2, 2, device=device)
        w = torch.ones(2, 2, device=device, requires_grad=True)
        y, part, row, column, turned, q, under = run(x, w)
        part[0] = 5
        column[0] = 7
        turned[1] = 9
        under.add_(1)
        (q * x).sum().backward()
        found = [v.tolist() for v in (x, y, part, row, column, turned, q, under, w.grad)]
        return [*found, y._version, row._version]

    expected = written(views, "cpu")
    run = torch.compile(views, fullgraph=True)
    for _ in range(3):
        assert written(run, DEVICE) == expected


def test_generators_for_a_device() -> None:
    def drawn(device: str) -> list[Any]:
        generator = torch.Generator(device=device).manual_seed(3)
        state = generator.get_state()
        first = torch.rand(3, generator=generator, device=device)
        again = torch.randn(2, generator=pickle.loads(pickle.dumps(generator)), device=device)
        assert generator.device.type == device
        generator.set_state(state)
        assert torch.equal(torch.rand(3, generator=generator, device=device), first)
        with torch.device(device):
            data = torch.utils.data.TensorDataset(torch.arange(6))
            loader = torch.utils.data.DataLoader(data, shuffle=True, generator=generator)
            order = [int(x) for (x,) in loader]
        return [first.tolist(), again.tolist(), order]

    assert drawn(DEVICE) == drawn("cpu")
    assert torch.Generator(DEVICE).device == HERE
    with pytest.raises(RuntimeError, match="there is no device 'xla:cpu:99'"):
        torch.Generator("xla:cpu:99")


def test_arrays_of_others_stay_on_the_cpu() -> None:
    with torch.device(DEVICE):
        assert torch.from_numpy(np.ones(2)).device == torch.device("cpu")
        assert torch.from_dlpack(np.ones(2)).device == torch.device("cpu")
        assert torch.as_tensor(np.ones(2)).device == HERE
        assert torch.tensor(np.ones(2)).device == HERE


@pytest.mark.parametrize("convert", [torch.as_tensor, torch.asarray])
def test_conversions_go_to_the_device_that_is_asked_for(convert: Any) -> None:
    for data in (np.ones(2, np.float32), torch.ones(2), [1.0, 1.0], made([1.0, 1.0])):
        for place in ("cpu", DEVICE):
            for dtype in (None, torch.float64):
                found = convert(data, device=place, dtype=dtype)
                assert found.device.type == place
                assert found.dtype is (dtype or torch.float32)
                assert found.tolist() == [1.0, 1.0]
    assert convert(made([1.0])).device == HERE
    with torch.device(DEVICE):
        assert convert(torch.ones(2, device="cpu")).device == HERE
    x = torch.ones(2, requires_grad=True)
    (convert(x, device=DEVICE) * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_compiled_functions_of_tensors_that_share_memory() -> None:
    def later(whole: Any, part: Any, x: Any) -> Any:
        whole.add_(x)
        return part * 2

    for begin in (0, 2):  # first with tensors that share memory, and first with others
        run = torch.compile(later)
        for k in range(begin, begin + 4):
            whole, x = torch.zeros(2, 3, device=DEVICE), torch.ones(3, device=DEVICE)
            part = whole[0] if k % 4 < 2 else torch.zeros(3, device=DEVICE)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it is not compiled
                found = run(whole, part, x)
            assert found.tolist() == ([2.0] * 3 if k % 4 < 2 else [0.0] * 3)
            assert whole.tolist() == [[1.0] * 3] * 2
        assert "share memory" in run.eager_because


def test_compiled_steps_of_parameters_that_are_parts_of_a_buffer() -> None:
    found = []
    for device in ("cpu", DEVICE):
        buffer = torch.linspace(-1, 1, 9, device=device)
        weight, bias = nn.Parameter(buffer[:6].view(2, 3)), nn.Parameter(buffer[6:8])
        viewed = torch.linspace(-1, 1, 2, device=device).view(2).requires_grad_()
        optimizer = torch.optim.SGD([weight, bias, viewed], 0.1, momentum=0.9)

        def step(x: Any, parts: Any = (weight, bias, viewed), opt: Any = optimizer) -> Any:
            w, b, v = parts
            opt.zero_grad()
            loss = (w @ x + b * v).pow(2).sum()
            loss.backward()
            opt.step()
            return loss

        run = step if device == "cpu" else torch.compile(step, fullgraph=True)
        losses = [run(torch.ones(3, device=device)).item() for _ in range(5)]
        found.append([losses, buffer.tolist(), viewed.tolist()])
    assert run.eager_because is None
    for here, there in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("device", "where"), [("cpu", "cpu"), (DEVICE, "cpu"), (DEVICE, DEVICE)])
def test_compiled_steps_with_a_learning_rate_in_a_tensor(device: str, where: str) -> None:
    def losses(device: str, where: str, compiled: bool, inside: bool) -> list[float]:
        x = torch.linspace(-1, 1, 3, device=device, requires_grad=True)
        optimizer = torch.optim.Adam([x], torch.tensor(0.1, device=where))
        rate = optimizer.param_groups[0]["lr"]

        def step() -> Any:
            optimizer.zero_grad()
            loss = (x * x).sum()
            loss.backward()
            if inside:
                rate.mul_(0.5)
            optimizer.step()
            return loss

        run = torch.compile(step) if compiled else step
        found = []
        for _ in range(5):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it is not compiled
                found.append(run().item())
            rate.mul_(0.5)
        assert not compiled or (run.eager_because is None) is not inside
        return found

    for inside in (False, True):
        expected = losses("cpu", "cpu", False, inside)
        assert losses(device, where, True, inside) == pytest.approx(expected, rel=1e-5)


def test_a_compiled_function_returns_a_copy_of_what_it_overwrites() -> None:
    found = []
    for device in ("cpu", DEVICE):
        x = torch.ones(3, device=device, requires_grad=True)
        optimizer = torch.optim.SGD([x], 0.1)

        def step(x: Any = x, optimizer: Any = optimizer) -> Any:
            before = x.detach().clone()
            optimizer.zero_grad()
            (x * x).sum().backward()
            optimizer.step()
            return before, x.detach() - before

        run = step if device == "cpu" else torch.compile(step, fullgraph=True)
        results = [run() for _ in range(5)]
        found.append([y.tolist() for result in results for y in result])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_packed_sequences(kind: Any) -> None:
    rnn = nn.utils.rnn
    found = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        layer = kind(3, 2, bidirectional=True).to(device)
        x = torch.linspace(-1, 1, 24).view(4, 2, 3).to(device).requires_grad_()
        packed = rnn.pack_padded_sequence(x, torch.tensor([2, 4]), enforce_sorted=False)
        result, _ = layer(packed)
        padded, lengths = rnn.pad_packed_sequence(result)
        padded.pow(2).sum().backward()
        assert (packed.batch_sizes.device, lengths.device) == (torch.device("cpu"),) * 2
        there = packed.cpu().to(device)
        assert there.data.device == there.sorted_indices.device == x.device
        assert packed.cpu().unsorted_indices.device == torch.device("cpu")
        found.append([padded.tolist(), x.grad.tolist()])
    for here, there in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(here, there, atol=1e-6)
