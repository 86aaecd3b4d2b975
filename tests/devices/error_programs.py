"""Errors, and what is as before after them, on the device ``xla:cpu``.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import io
import re
import threading
from typing import Any

import numpy as np
import pytest
from _device import DEVICE, HERE, made

import retrograd as torch
from retrograd import nn
from retrograd.devices import _calls, _fused, _pending
from retrograd.nn import functional as F


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


def test_shapes_and_dtypes_that_do_not_fit_are_pytorchs_errors() -> None:
    x, mask = made([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), made([True, False])
    words = r"The size of tensor a \(2\) must match the size of tensor b \(3\) at non-singleton "
    for call in (lambda: x + made([1.0, 2.0, 3.0]), lambda: x.add_(made([1.0, 2.0, 3.0]))):
        with pytest.raises(RuntimeError, match=words + "dimension 1"):
            call()
    with pytest.raises(RuntimeError, match="Negation, the `-` operator, on a bool tensor is not"):
        -mask
    with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with two bool tensors"):
        mask - mask
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert x._version == 0


def test_histograms_that_cannot_be() -> None:
    x = made([1.0, 2.0, 3.0])
    for call, error, words in (
        (lambda: x.histc(4, 1, -1), RuntimeError, "max must be larger than min"),
        (lambda: x.histc(4, 0, float("inf")), RuntimeError, r"range of \[0, inf\] is not finite"),
        (lambda: x.long().histc(), NotImplementedError, "not implemented for 'Long'"),
        (lambda: x.histogram(0), RuntimeError, "bins must be > 0, but got 0"),
        (lambda: x.histogram(2, range=(1.0,)), RuntimeError, "range should have 2 elements"),
    ):
        with pytest.raises(error, match=words):
            call()


def test_out_that_overlaps_an_operand_is_refused() -> None:
    x = made([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        torch.pow(x[:2], 2, out=x[1:])
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert torch.pow(x[:2], 2, out=x[:2]).tolist() == [1.0, 4.0]
    assert x.tolist() == [1.0, 4.0, 3.0]


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


    x = made([1.0, 2.0, 3.0], requires_grad=True)
    y = x.tanh()
    torch.autograd.grad(y.sum(), x, retain_graph=True)

    def full(*args: Any) -> Any:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes")

    for call in [*_calls._calls.values(), *y.grad_fn.parameters.calls.values()]:
        if isinstance(call, (_calls.Call, _fused.Fused)):
            monkeypatch.setattr(call, "function", full)
    with pytest.raises(torch.OutOfMemoryError, match="xla:cpu:0 is out of memory"):
        x.tanh().tolist()
    with pytest.raises(torch.OutOfMemoryError, match="xla:cpu:0 is out of memory"):
        torch.autograd.grad(y.sum(), x)[0].tolist()
    monkeypatch.undo()
    assert x.grad is None
    assert x.tanh().tolist() == y.tolist()


def test_out_of_memory_when_a_number_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    def full(*args: Any) -> Any:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes")

    x = made([1.0, 2.0])
    with monkeypatch.context() as patch:
        patch.setattr(jax, "device_put", full)
        with pytest.raises(torch.OutOfMemoryError, match="xla:cpu:0 is out of memory"):
            x * 17.0625
    assert (x * 17.0625).tolist() == [17.0625, 34.125]


def test_as_strided_of_a_view_of_another_dtype_is_refused() -> None:
    parts = torch.view_as_real(torch.ones(3, dtype=torch.complex64, device=DEVICE))
    with pytest.raises(RuntimeError, match="a view as another dtype"):
        parts.as_strided((2,), (1,))


def test_sparse_tensors_are_on_the_cpu_only() -> None:
    message = re.escape(f"a sparse tensor cannot be on the device {DEVICE}")
    x = torch.eye(2)
    for call in (
        lambda: x.to_sparse().to(DEVICE), lambda: x.to(DEVICE).to_sparse(),
        lambda: x.to_sparse_csr().to(DEVICE),
        lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], device=DEVICE),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            call()


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


@pytest.mark.parametrize("solve", [
    lambda x: torch.optimize.minimize(lambda y: (y * y).sum(), x),
    lambda x: torch.optimize.root(lambda y: y - 1, x),
    lambda x: torch.integrate.odeint(lambda y, t: -y, x, torch.linspace(0, 1, 3).double()),
    lambda x: torch.integrate.odeint(lambda y, t: -y, torch.ones(1).double(), x),
    lambda x: torch.integrate.solve_ivp(lambda t, y: -y, (0, x[0]), torch.ones(1).double()),
    lambda x: torch.integrate.quad(lambda t: t, 0.0, x[0]),
    lambda x: torch.interpolate.CubicSpline(x, x),
    lambda x: torch.interpolate.CubicSpline(x.cpu(), x.cpu())(x),
])  # fmt: skip
def test_solvers_refuse_tensors_on_a_device(solve: Any) -> None:
    with pytest.raises(TypeError, match=r"a tensor passed to one is on xla:cpu:0\. Pass x\.cpu"):
        solve(made([1.0, 2.0], dtype=torch.float64))


def test_code_for_arrays_refuses_tensors_on_a_device() -> None:
    message = r"on the CPU, such as NumPy and SciPy \(data_ptr\(\)\)\. Move it there first"
    with pytest.raises(TypeError, match=message):
        made([1.0]).data_ptr()


def test_an_interrupt_while_indices_are_checked_forgets_no_check() -> None:
    class Computed:
        """What a device says of indices, when it has computed that."""

        interrupts = True

        def __bool__(self) -> bool:
            if self.interrupts:
                self.interrupts = False
                raise KeyboardInterrupt
            return False

    x = made([1.0, 2.0])
    _pending.note("index", Computed())
    with pytest.raises(KeyboardInterrupt):
        x.tolist()
    with pytest.raises(IndexError, match=r"index\(\): index out of range"):
        x.tolist()
    assert x.tolist() == [1.0, 2.0]


def test_threads_check_indices_at_once() -> None:
    class Computed:
        """While a thread waits for this, another one checks it, and all that follow."""

        waits = True

        def __bool__(self) -> bool:
            seen.append(self)
            if self.waits:
                self.waits = False
                other = threading.Thread(target=_pending.check)
                other.start()
                other.join()
            return True

    seen: list[Any] = []
    x, expected = made([1.0, 2.0]), [Computed() for _ in range(3)]
    for holds in expected:
        _pending.note("index", holds)
    assert x.tolist() == [1.0, 2.0]
    assert set(seen) == set(expected)
