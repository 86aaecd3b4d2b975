"""Operations on the device ``xla:cpu`` that wait until a value is needed, run by
tests/devices/test_on_devices.py in a process of their own."""

from __future__ import annotations

import gc
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from _device import DEVICE, made

import retrograd as torch
from retrograd import nn
from retrograd.devices import _deferred, _pending
from retrograd.nn import functional as F


def is_pending(x: Any) -> bool:
    content = x._data.memory.content
    return type(content) is _deferred.Later and content.queue is not None


@pytest.fixture(autouse=True)
def compiled_soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Queues are compiled when they come up for the second time, so that tests need few turns."""
    _deferred.run_all()
    monkeypatch.setattr(_deferred, "REPEATS", 2)
    monkeypatch.setattr(_deferred, "_plans", {})
    yield
    _deferred.run_all()
    _pending.check()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """How queues ran from here on: as one function or one by one, and of how many calls."""
    found: list[tuple[str, int]] = []
    one_by_one, compiled_for = _deferred._one_by_one, _deferred._Plan.compiled_for

    def counted(keys: Any, *rest: Any) -> Any:
        found.append(("one by one", len(keys)))
        return one_by_one(keys, *rest)

    def looked_up(self: Any, keys: Any, *rest: Any) -> Any:
        whole = compiled_for(self, keys, *rest)
        if whole is not None:
            found.append(("whole", len(keys)))
        return whole

    monkeypatch.setattr(_deferred, "_one_by_one", counted)
    monkeypatch.setattr(_deferred._Plan, "compiled_for", looked_up)
    return found


def chain(x: Any, y: Any) -> list[float]:
    z = x
    for _ in range(25):
        z = (z * y).tanh()
    total = z.sum()
    gradients = torch.autograd.grad(total, (x, y))
    return [total.item(), *gradients[0].tolist(), *gradients[1].tolist()]


def test_a_chain_is_one_call(runs: list[tuple[str, int]]) -> None:
    start = np.linspace(0.1, 1, 10), np.linspace(0.5, 1.5, 10)
    x, y = (made(v.tolist(), dtype=torch.float64, requires_grad=True) for v in start)
    z, dx, dy = start[0], np.ones(10), np.zeros(10)
    for _ in range(25):  # forward mode, by hand
        p = z * start[1]
        dy = (1 - np.tanh(p) ** 2) * (dy * start[1] + z)
        dx = (1 - np.tanh(p) ** 2) * dx * start[1]
        z = np.tanh(p)
    expected = [z.sum(), *dx, *dy]
    for how in ("one by one", "whole", "whole"):
        runs.clear()
        np.testing.assert_allclose(chain(x, y), expected, rtol=1e-12)
        assert runs == [(how, 101)]


def test_nothing_runs_before_a_value_is_needed(runs: list[tuple[str, int]]) -> None:
    x = made([1.0, 2.0])
    y = (x * 3).exp()
    assert (y.shape, y.dtype, y.device.type, y.stride()) == ((2,), torch.float32, DEVICE, (1,))
    assert y.reshape(1, 2).t()[1].shape == (1,)
    assert is_pending(y)
    assert not runs
    assert y[1].item() == pytest.approx(math.exp(6), rel=1e-6)
    assert runs == [("one by one", 3)]
    assert not is_pending(y)
    for read in (lambda v: repr(v), lambda v: v.cpu(), lambda v: bool((v > 0).all()),
                 lambda v: v.tolist(), lambda v: v.numpy(force=True)):  # fmt: skip
        z = x + 1
        assert is_pending(z)
        read(z)
        assert not is_pending(z)
    z = x + 1
    _deferred.synchronize()
    assert not is_pending(z)


def test_the_algebra_of_xla_does_not_show() -> None:
    x = made([1000.0, 1.0])
    for _ in range(4):
        found = x.exp().log().tolist()
        assert found == [math.inf, 1.0]
        between = x.exp()  # which is a result, too
        found = between.log().tolist()
        assert found == [math.inf, 1.0]
        assert between.tolist() == [math.inf, pytest.approx(math.e)]
        assert ((x * 1e37) * 1e-37).tolist() == [math.inf, pytest.approx(1, rel=1e-6)]


def test_results_between_are_rounded_to_bfloat16() -> None:
    torch.manual_seed(0)
    x = torch.randn(3000, 7).bfloat16().to(DEVICE).requires_grad_()

    def results() -> Any:
        y = F.log_softmax(1000 * x, 1)
        (g,) = torch.autograd.grad(y, x, torch.ones_like(y))
        return y.tolist(), g.tolist()

    first = results()
    for _ in range(10):
        assert results() == first


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("function", [
    lambda x: x - x.amax(0, keepdim=True) * 2, lambda x: x / x.abs().sum(0, keepdim=True),
    lambda x: x.softmax(0) * 4096,
])  # fmt: skip
def test_reductions_of_long_vectors(function: Any, dtype: Any) -> None:
    """XLA may fuse them with operations on their broadcast results, and then crash the process."""
    x = torch.linspace(-1.0, 1.0, 4096).to(dtype)
    y, expected = x.to(DEVICE), function(x).tolist()
    for _ in range(3):
        np.testing.assert_allclose(function(y).tolist(), expected, rtol=0.02)


def test_numbers_change_without_a_compilation(runs: list[tuple[str, int]]) -> None:
    x = made([1.0, 2.0])
    for k in (0.5, 3.0, -0.0, 0.0, math.nan, math.inf, 7.25):
        found = ((x * k) + 1.5).tolist()
        assert repr(found) == repr([k + 1.5, 2 * k + 1.5])
    assert runs == [("one by one", 2), *[("whole", 2)] * 6]
    assert (x * -0.0).reciprocal().tolist() == [-math.inf, -math.inf]
    mixed = made([1, 2])  # promoted to float32 by a number, and by a tensor
    for _ in range(3):
        assert ((mixed * 0.5) + x).tolist() == [1.5, 3.0]
        assert ((mixed + 1) * 2).dtype is torch.int64
        assert (x.double() * 0.1 + mixed).tolist() == [1.1, 2.2]
    half = made([1.0, 2.0], dtype=torch.bfloat16)
    for _ in range(3):
        assert ((half * 1.01) + half).dtype is torch.bfloat16
        assert ((half * 1.01) + half).tolist() == [2.0, 4.0]  # rounded twice


def written() -> list[Any]:
    """Views, aliases and writes, of values that wait."""
    x = torch.zeros(3, 4, device=DEVICE) + 1
    row, column, turned = x[1], x[:, 2], x.t()
    before = x * 2  # of the contents before the writes
    row += 5
    column.mul_(2)
    turned[0] = 7
    x.diagonal().sub_(row[:3])
    alias = x.detach()
    alias[2, 3] = before[0, 0]
    out = torch.empty(4, device=DEVICE)
    torch.add(row, x[0], out=out)
    x.zero_()
    assert is_pending(before)
    assert is_pending(row)
    a = made([1.0, 2.0, 3.0], requires_grad=True)
    b = a * 2
    b[1:].mul_(a[:2])
    b[0] = b[2].clone() * a[1]
    b.sum().backward()
    first = a.grad
    (a * a).sum().backward()
    c = a.exp()
    with torch.no_grad():
        c.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()
    assert first is a.grad
    return [x, row, column, turned, before, alias, out, a, b, first, c]


def test_views_and_writes_of_values_that_wait() -> None:
    expected_out = [7.0 + 7 - 7, 6.0 - 6 + 1, 12 + 2, 6 + 1]
    for _ in range(3):
        x, row, column, turned, before, alias, out, a, b, first, c = written()
        for view in (x, row, column, turned, alias):
            assert not any(np.ravel(view.tolist()))
        assert before.tolist() == [[2.0] * 4] * 3
        # row: [7, 6, 12, 6] after turned[0] = 7; the diagonal subtracts 7, 6 and 12.
        assert out.tolist() == expected_out
        assert a.tolist() == [1.0, 2.0, 3.0]
        assert b.detach().tolist() == [24.0, 4.0, 12.0]
        # b = [2 a2 a1 a1, 2 a1 a0, 2 a2 a1] and a·a
        assert first.tolist() == [2 * 2.0 + 2, 4 * 3 * 2 + 2 + 6 + 4.0, 2 * 4 + 4 + 6.0]
        np.testing.assert_allclose(c.tolist(), np.exp([1, 2, 3]) + 1, rtol=1e-6)


def trained(model: Any, optimizer: Any, loss_of: Callable[[], Any], read: bool) -> list[Any]:
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item() if read else loss.detach())
    return [float(x) for x in losses] + [p.sum().item() for p in model.parameters()]


@pytest.mark.parametrize("read", [True, False])
def test_training_is_what_it_is_operation_by_operation(
    read: bool, monkeypatch: pytest.MonkeyPatch, runs: list[tuple[str, int]]
) -> None:
    found = []
    for device, most in (("cpu", 0), (DEVICE, 1), (DEVICE, 128)):
        monkeypatch.setattr(_deferred, "MOST", most)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        x, y = torch.randn(5, 4), torch.randint(0, 3, (5,))
        model.to(device)
        x, y = x.to(device), y.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        runs.clear()
        loss_of = lambda model=model, x=x, y=y: F.cross_entropy(model(x), y)
        found.append(trained(model, optimizer, loss_of, read))
    on_cpu, by_one, whole = found
    np.testing.assert_allclose(whole, by_one, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(whole, on_cpu, rtol=2e-5, atol=1e-5)
    assert "whole" in [how for how, _ in runs]
    assert len(runs) < 12 * 2 + len(list(model.parameters()))


def test_limits_of_a_queue(monkeypatch: pytest.MonkeyPatch, runs: list[tuple[str, int]]) -> None:
    x = made([1.0])
    y = x
    for _ in range(2 * _deferred.MOST + 3):
        y = y + x
    assert {n for _, n in runs} <= {_deferred.ENOUGH, _deferred.MOST}
    assert y.item() == 2 * _deferred.MOST + 4
    runs.clear()
    monkeypatch.setattr(_deferred, "MOST_BYTES", 100)
    z = torch.ones(20, device=DEVICE)  # an operation reads or writes 160 bytes
    z = z * z
    assert not is_pending(z)
    monkeypatch.setattr(_deferred, "MOST_BYTES", 400)
    z = (z.exp().log().exp()).log()
    assert [n for _, n in runs] == [1, 3]
    assert is_pending(z)


@pytest.mark.parametrize("count", [1, 3, 7, 33, 90])
def test_loops_that_read_nothing_repeat_their_queues(count: int) -> None:
    """Whatever the number of operations of a turn, queues have few keys, all compiled in time."""
    names = ["sin", "cos", "tanh", "abs", "neg"]
    x = made([0.5])
    for _ in range(3000 // count):
        for i in range(count):
            x = getattr(x, names[i * i % 5])()
    assert len(_deferred._plans) <= 12
    assert abs(x.item()) <= 1


def test_what_nobody_refers_to_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = made([1.0, 2.0])
    y = x.exp()
    called: list[int] = []
    (function,) = [key[0] for queue in _deferred.all_queues() for key, _ in queue.calls or ()]
    compiled = function.function
    monkeypatch.setattr(function, "function", lambda *a: called.append(1) or compiled(*a))
    del y
    assert (x + 1).tolist() == [2.0, 3.0]
    assert not called
    y = x.exp()
    z = y * 2
    del y
    np.testing.assert_allclose(z.tolist(), np.exp([1, 2]) * 2, rtol=1e-6)
    assert called == [1]


def test_memory_is_let_go() -> None:
    x = made([1.0, 2.0])
    array = weakref.ref(x._data.memory.array)
    y = x * 2
    del x
    assert array() is not None  # what waits needs it
    assert y.tolist() == [2.0, 4.0]
    y + 1
    gc.disable()
    try:
        assert array() is None
        inner = weakref.ref(y._data.memory.array)
        z = (y * 3).exp()
        del y, z
        _deferred.run_all()
        assert inner() is None
    finally:
        gc.enable()


def full_at_first(function: Any) -> Callable[..., Any]:
    """A function that finds no memory when it is first called."""
    import jax

    left = [1]

    def call(*args: Any) -> Any:
        if left:
            left.clear()
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes")
        return function(*args)

    return call


def test_a_queue_that_fails_waits_for_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    x = made([1.0, 2.0])
    for turn in range(4):  # one by one, and as one function, which then runs one by one
        target = made([1.0, 1.0])
        y = x * 2
        target.add_(y)
        z = y.tanh()
        total = z.sum()
        calls = next(q.calls for q in _deferred.all_queues() if q.calls)
        function = next(key[0] for key, _ in calls if key[0].name == "tanh")
        with monkeypatch.context() as patch:
            patch.setattr(function, "function", full_at_first(function.function))
            for plan in _deferred._plans.values():
                if plan.whole is not None:
                    patch.setattr(plan.whole, "function", full_at_first(plan.whole.function))
            with pytest.raises(torch.OutOfMemoryError, match="It happened in tanh, which may"):
                total.item()
            assert is_pending(z)
            assert (x + 1).tolist() == [2.0, 3.0]  # others are not concerned
            assert target.tolist() == [3.0, 5.0]  # which tries again
        assert not is_pending(z)
        assert total.item() == pytest.approx(np.tanh([2, 4]).sum(), rel=1e-6), turn
    inputs = weakref.ref(x._data.memory.array)
    y = x.exp().tanh()
    with monkeypatch.context() as patch:
        patch.setattr(function, "function", full_at_first(function.function))
        with pytest.raises(torch.OutOfMemoryError):
            y.tolist()
    del x, y  # and with them all that has failed
    assert inputs() is None


def test_an_index_out_of_range_is_found_with_the_next_value() -> None:
    x = made([1.0, 2.0, 3.0])
    for _ in range(4):
        x[made([5])]  # nobody refers to the result
        with pytest.raises(IndexError, match="out of range"):
            (x + 1).tolist()
        assert (x[made([2])] * 2).tolist() == [6.0]
        x[made([1])] = 9.0
        assert x.tolist() == [1.0, 9.0, 3.0]


def test_anomaly_mode_does_not_defer() -> None:
    x = made([-1.0, 4.0], requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        y = x.sqrt()
        assert not is_pending(y)
        total = y.sum()
        with pytest.raises(RuntimeError, match="nan"):
            total.backward()
    assert is_pending(x + 1)


def test_threads_share_values_that_wait() -> None:
    x = made([1.0, 2.0])
    shared, results, problems = [], [], []
    ready = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            for turn in range(15):
                value = x
                for _ in range(number + 2):
                    value = value * 2 + x
                shared.append(value)
                ready.wait(30)
                total = sum(shared[4 * turn : 4 * turn + 4], value * 0)  # of all four threads
                results.append((turn, (total * 1).tolist()))
                ready.wait(30)
        except BaseException as error:
            problems.append(error)
            ready.abort()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not problems
    expected = sum(2.0 ** (k + 3) - 1 for k in range(4))
    assert results
    assert all(found == [expected, 2 * expected] for _, found in results)
    value: list[Any] = []
    thread = threading.Thread(target=lambda: value.append(x.exp() + 1))
    thread.start()
    thread.join()
    assert is_pending(value[0])  # its thread is gone, and it is not
    np.testing.assert_allclose(value[0].tolist(), np.exp([1, 2]) + 1, rtol=1e-6)


def test_a_value_is_read_while_its_thread_goes_on() -> None:
    x, values, over = made([1.0]), [], threading.Event()
    problems: list[Any] = []

    def read() -> None:
        try:
            while not over.is_set():
                for i, value in enumerate(list(values)[-3:], max(len(values) - 3, 0)):
                    del i
                    assert value[1].item() == value[0]
        except BaseException as error:
            problems.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    y, count = x, 1.0
    for _ in range(600):
        y, count = y + x, count + 1
        values.append((count, y))
    sys.setswitchinterval(interval)
    over.set()
    for reader in readers:
        reader.join(60)
    assert not problems
    assert [v.item() for _, v in values] == [k for k, _ in values]
