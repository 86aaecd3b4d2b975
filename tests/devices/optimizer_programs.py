"""Training, optimizers and their states on the device ``xla:cpu``.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from _device import DEVICE, HERE, made

import retrograd as torch
from retrograd import nn
from retrograd.nn import functional as F
from retrograd.optim import SGD, Adafactor, Adagrad, AdamW, Muon, NAdam


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


STEPPED = [
    lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9), lambda p, lr: torch.optim.Adam(p, lr),
    lambda p, lr: torch.optim.NAdam(p, lr), lambda p, lr: torch.optim.Adagrad(p, lr),
    lambda p, lr: torch.optim.Adafactor(p, lr), lambda p, lr: torch.optim.Muon(p[:1], lr),
    lambda p, lr: torch.optim.Muon(p[:1], lr, nesterov=False),
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
