"""Compiled functions and training steps on the device ``xla:cpu``.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
from _device import DEVICE, HERE, made

import retrograd as torch
from retrograd import nn
from retrograd.nn import functional as F


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


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.Muon])
def test_compiled_steps_of_parameters_of_different_shapes_with_writes_between(
    optimizer: Any,
) -> None:
    found = {}
    for device in ("cpu", DEVICE):
        weights = [torch.linspace(-1, 1, 3 * rows).reshape(rows, 3).to(device).requires_grad_()
                   for rows in (2, 3, 9)]  # fmt: skip
        opt = optimizer(weights, 0.1)

        def step(x: Any, weights: Any = weights, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = sum([(w @ x).sin().sum() for w in weights])
            loss.backward()
            opt.step()
            return loss.detach()

        run = torch.compile(step, fullgraph=True) if device == DEVICE else step
        losses = []
        for k in range(7):
            losses.append(float(run(torch.ones(3, device=device) * k)))
            if k > 3:  # these writes are pending when the program is called
                with torch.no_grad():
                    weights[1].mul_(0.5)
                weights[0].grad.add_(1)
        found[device] = [losses, *[w.tolist() for w in weights]]
    assert len(run.entries) == 2
    for here, there in zip(found[DEVICE], found["cpu"], strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5)


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


def test_tensors_stay_on_the_device_if_a_function_cannot_be_traced() -> None:
    table = torch.arange(3.0, device=DEVICE)
    table.tolist()
    row = table.index_select(0, made([7]))  # whose index is checked when it is copied to the CPU
    run = torch.compile(lambda x, y: x.sum() + y.sum())
    with pytest.raises(IndexError, match="out of range"):
        run(table, row)
    assert table.device == row.device == HERE
    assert (table * 2).tolist() == [0, 2, 4]
    assert run(table, made([1.0])).item() == 4


def test_a_step_with_a_parameter_on_the_cpu_is_not_compiled() -> None:
    x, scale = made([1.0, 2.0]), nn.Parameter(torch.tensor(2.0))
    optimizer = torch.optim.SGD([scale], 0.1)

    def step() -> Any:
        optimizer.zero_grad()
        loss = (x * scale).sum()
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step)
    with pytest.warns(UserWarning, match="it can see tensors on two devices"):
        losses = [run().item() for _ in range(3)]
    np.testing.assert_allclose(losses, [6.0, 5.1, 4.2], rtol=1e-6)
    assert scale.grad.device.type == "cpu"


def test_an_interrupt_at_any_line_leaves_parameters_old_or_new() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(3, 2).to(DEVICE)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    x = torch.randn(4, 3).to(DEVICE)

    @torch.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = layer(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def tensors() -> list[Any]:
        states = optimizer.state.values()
        return [*layer.parameters(), *[s[n] for s in states for n in ("exp_avg", "exp_avg_sq")]]

    for _ in range(4):
        step()
    before = [t.tolist() for t in tensors()]
    counts = [s["step"].clone() for s in optimizer.state.values()]

    def reset() -> None:
        with torch.no_grad():
            for t, value in zip(tensors(), before, strict=True):
                t.copy_(torch.tensor(value))
            for state, count in zip(optimizer.state.values(), counts, strict=True):
                state["step"].copy_(count)
        assert [t.tolist() for t in tensors()] == before

    lines, stop = 0, 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith("devices/_programs.py"):
            return None
        lines += 1
        if lines == stop:
            raise KeyboardInterrupt
        return trace

    def interrupted(number: int) -> bool:
        nonlocal lines, stop
        lines, stop, outer = 0, number, sys.gettrace()
        sys.settrace(trace)
        try:
            step()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(outer)
        return False

    reset()
    step()
    after = [t.tolist() for t in tensors()]
    number, changed = 1, set()
    reset()
    while interrupted(number):
        found = [t.tolist() for t in tensors()]
        assert found in (before, after)
        changed.add(found == after)
        assert all(len(p.grad.tolist()) == len(p) for p in layer.parameters())
        number += 1
        reset()
    assert changed == {False, True}
    assert number > 100
    assert step.eager_because is None


def test_the_first_gradient_of_a_function_that_stays_eager() -> None:
    net = nn.Linear(3, 2).to(DEVICE)
    run = torch.compile(lambda x: net(x) * x.sum().item())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            net.zero_grad()
            run(torch.ones(4, 3, device=DEVICE)).sum().backward()
            assert net.weight.grad.tolist() == [[48.0] * 3] * 2


def test_one_tensor_in_two_places() -> None:
    @torch.compile(fullgraph=True)
    def accumulate(x: Any, y: Any) -> None:
        (x * y * y).sum().backward()

    for i in range(4):
        x = torch.ones(2, device=DEVICE, requires_grad=True)
        y = x if i == 2 else torch.ones(2, device=DEVICE, requires_grad=True)
        accumulate(x, y)
        assert x.grad.tolist() == [3.0 if x is y else 1.0] * 2


def test_a_parameter_that_is_overwritten_before_backward() -> None:
    net = nn.Linear(3, 3).to(DEVICE)
    run = torch.compile(lambda x: net(x.tanh()), fullgraph=True)
    for _ in range(3):
        y = run(torch.ones(2, 3, device=DEVICE, requires_grad=True))
        with torch.no_grad():
            net.weight.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
