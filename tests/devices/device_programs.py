"""Tensors on the device ``xla:cpu``.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
from _device import DEVICE, HERE, made

import retrograd as torch
from retrograd import nn
from retrograd.nn import functional as F


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


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_random_numbers_under_vmap(randomness: str) -> None:
    for draw in (F.dropout, F.gumbel_softmax, lambda x: F.alpha_dropout(x, 0.5, True),
                 lambda x: F.rrelu(-x, training=True)):  # fmt: skip
        found = []
        for device in ("cpu", DEVICE):
            torch.manual_seed(0)
            x = torch.linspace(0.5, 1, 12, device=device).view(3, 4)
            found.append(torch.func.vmap(draw, randomness=randomness)(x).tolist())
        np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_low_rank_decompositions_and_laplacians() -> None:
    found = []
    for device in ("cpu", DEVICE):
        x = torch.linspace(0.1, 1, 8, dtype=torch.float64, device=device)
        matrix = x.view(4, 2) @ x.view(2, 4)
        torch.manual_seed(0)
        values = torch.svd_lowrank(matrix, 2)[1]
        laplacian = torch.func.laplacian(lambda y: (y**3).sum())(x)
        orders = (1, 2, 0, 0, 0, 0, 0, 0)
        mixed = torch.func.mixed_partial(lambda y: (y**3).prod(), x, orders)
        assert values.device == laplacian.device == mixed.device == x.device
        found.append([values.tolist(), laplacian.item(), mixed.item()])
    for here, there in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-9)


def test_solvers_take_functions_that_compute_on_a_device() -> None:
    """Which is differentiated by tensors that it captures there."""
    start = torch.linspace(0.1, 1, 3, dtype=torch.float64)
    found = []
    for device in ("cpu", DEVICE):
        target = (start * 2).to(device)
        weight = torch.ones(3, dtype=torch.float64, device=device, requires_grad=True)

        def distance(y: Any, target: Any = target, weight: Any = weight) -> Any:
            there = y.to(target.device)
            return ((there * weight - target) ** 2).sum().cpu() + (y**4).sum()

        solution = torch.optimize.minimize(distance, start).x
        solution.sum().backward()
        assert weight.grad.device == weight.device
        found.append([solution.tolist(), weight.grad.tolist()])
        # A tensor that requires no grad is a constant, and of a batch each entry is solved.
        constant = torch.optimize.minimize(lambda y, f=distance: f(y, weight=1), start).x
        assert not constant.requires_grad
        rows = torch.stack([target, target * 4])
        near = start + 1
        solve = lambda v, x=near: torch.optimize.root(lambda y: (y.to(v.device) ** 2 - v).cpu(), x)
        roots = torch.vmap(lambda v, solve=solve: solve(v).x)(rows)
        np.testing.assert_allclose(roots.tolist(), rows.sqrt().tolist())
    assert max(map(abs, found[0][1])) > 0.05
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
