"""Compiled training steps that an interrupt or an error ends, on the device ``xla:cpu``.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _device import DEVICE

import retrograd as torch
from retrograd import nn


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


def a_step(device: str) -> tuple[Any, Any, Any, Callable[[Any], Any]]:
    """A layer, its optimizer, a batch, and a training step that calls a function at its end."""
    torch.manual_seed(0)
    layer, x = nn.Linear(3, 2).to(device), torch.randn(4, 3).to(device)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)

    def step(after: Any) -> Any:
        optimizer.zero_grad()
        loss = layer(x).square().sum()
        loss.backward()
        if after == "a backward pass":
            raise ValueError(after)
        optimizer.step()
        if after == "an update":
            raise ValueError(after)
        return loss.detach()

    return layer, optimizer, x, step


def places_of(layer: Any, optimizer: Any) -> set[tuple[str, str]]:
    """On which devices parameters, gradients and the state of the optimizer are."""
    found = [("", p) for p in layer.parameters()]
    found += [("", p.grad) for p in layer.parameters() if p.grad is not None]
    found += [(name, x) for state in optimizer.state.values() for name, x in state.items()]
    return {("step" if name == "step" else "", x.device.type) for name, x in found}


@pytest.mark.parametrize("after", ["a backward pass", "an update"])
def test_after_an_error_in_a_traced_call_all_is_on_the_device(after: str) -> None:
    losses = []
    for device in ("cpu", DEVICE):
        layer, optimizer, _, step = a_step(device)
        compiled = torch.compile(step)
        with pytest.raises(ValueError, match=after):
            compiled(after)
        assert places_of(layer, optimizer) <= {("", device), ("step", "cpu")}
        losses.append([step(None).item() for _ in range(3)])
        losses[-1] += [compiled(None).item() for _ in range(4)]
        assert compiled.eager_because is None
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_after_an_interrupt_of_a_traced_call_all_is_on_the_device() -> None:
    """At some of all lines of the compiler, and more of those that move tensors."""
    package = str(Path(torch.__file__).parent / "compiler")
    lines, stop, everywhere = 0, 0, False

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal lines
        name = frame.f_code.co_filename
        if not name.startswith(package):
            return None
        lines += 1 if everywhere or name.endswith("_host_copies.py") else 0
        if lines == stop:
            lines += 1
            raise KeyboardInterrupt
        return trace

    def interrupted(number: int) -> None:
        nonlocal lines, stop
        layer, optimizer, _, step = a_step(DEVICE)
        compiled = torch.compile(step)
        lines, stop, outer = 0, number, sys.gettrace()
        sys.settrace(trace)
        try:
            compiled(None)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(outer)
        assert places_of(layer, optimizer) <= {("", DEVICE), ("step", "cpu")}
        start = step(None).item()
        for _ in range(4):
            compiled(None)
        assert step(None).item() < start

    interrupted(0)
    for number in range(1, lines, 5):
        interrupted(number)
    everywhere = True
    interrupted(0)
    for number in range(1, lines, 400):
        interrupted(number)
