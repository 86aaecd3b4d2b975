"""Compiled training steps on the device ``xla:cpu`` compared with eager steps on the CPU.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from _device import DEVICE

import retrograd as torch
from retrograd import nn

Weights = list[Any]


def numbers(end: float) -> Any:
    return torch.linspace(-1, end, 4, dtype=torch.float64)


def run_steps(
    device: str, make: Callable[[Weights], tuple[Callable[..., Any], list[Any]]], *args: Any
) -> tuple[list[Any], Any]:
    """Losses, parameters, gradients and optimizer states of 6 steps, and the step itself, which is
    compiled on a device."""
    weights = [numbers(k).to(device).requires_grad_() for k in (1, 2, 3)]
    step, optimizers = make(weights)
    run = step if device == "cpu" else torch.compile(step, fullgraph=True)
    results = []
    for i in range(6):
        losses = run(numbers(1).to(device), *[x[i % len(x)] for x in args])
        results += [loss.item() for loss in losses]
        for w in weights:
            results += [w.tolist(), None if w.grad is None else w.grad.tolist()]
            results += [x.tolist() for o in optimizers for x in o.state[w].values()]
    return results, run


def check(make: Any, *args: Any) -> Any:
    """Compare compiled steps on the device with eager steps on the CPU."""
    expected, _ = run_steps("cpu", make, *args)
    results, run = run_steps(DEVICE, make, *args)
    assert len(results) == len(expected)
    for here, there in zip(results, expected, strict=True):
        if there is None:
            assert here is None
        else:
            np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12)
    return run


def test_several_updates_of_one_parameter_in_a_program() -> None:
    """The step count of an optimizer's second step is a result of its first."""

    def make(weights: Weights) -> Any:
        a, b, c = weights
        optimizers = [torch.optim.Adam([a], 0.1), torch.optim.NAdam([b], 0.05),
                      torch.optim.SGD([c, a], 0.1, momentum=0.9)]  # fmt: skip

        def step(x: Any) -> Any:
            losses = []
            for k in range(3):
                for optimizer in optimizers:
                    optimizer.zero_grad()
                loss = ((a * x * b - k) ** 2).sum() + (c * a).sin().sum()
                loss.backward()
                for optimizer in optimizers[: 2 + k % 2]:
                    optimizer.step()
                losses.append(loss.detach())
            return losses

        return step, optimizers

    assert len(check(make).entries) == 2


def test_a_count_that_the_function_changes_before_a_step() -> None:
    def make(weights: Weights) -> Any:
        optimizer = torch.optim.Adam(weights, 0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = sum([(w * x).sin().sum() for w in weights])
            loss.backward()
            for state in optimizer.state.values():
                state["step"].add_(1)
            optimizer.step()
            return [loss.detach()]

        return step, [optimizer]

    check(make)


def test_learning_rates_that_the_function_sets() -> None:
    def make(weights: Weights) -> Any:
        optimizer = torch.optim.Adam(weights, 0.1)

        def step(x: Any, rate: float) -> Any:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            loss = sum([(w * x).sin().sum() for w in weights])
            loss.backward()
            optimizer.step()
            return [loss.detach()]

        return step, [optimizer]

    check(make, [0.1, 0.1, 0.02])


@pytest.mark.parametrize("join", [
    lambda a, b: [(a + b).cos()], lambda a, b: [torch.cat([a, b]).sin()],
    lambda a, b: [torch.stack([a, b]).sin()],
])  # fmt: skip
def test_parameters_with_equal_gradients_or_parts_of_one(join: Any) -> None:
    def make(weights: Weights) -> Any:
        optimizer = torch.optim.SGD(weights, 0.1)

        def step(x: Any) -> Any:
            a, b, c = weights
            optimizer.zero_grad()
            loss = sum([y.sum() for y in join(a, b)]) + (c * x).sum()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, 0.5)
            optimizer.step()
            return [loss.detach()]

        return step, [optimizer]

    check(make)


def test_an_update_that_is_compiled_again_has_its_own_options() -> None:
    """RAdam updates in another way from step 6 on. While something refers to a parameter, it cannot
    be donated, so the program of the update is compiled again."""
    results = []
    for device in ("cpu", DEVICE):
        weight = numbers(2).to(device).requires_grad_()
        optimizer = torch.optim.RAdam([weight], 0.05)

        def step(x: Any, weight: Any = weight, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (x * weight).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = step if device == "cpu" else torch.compile(step, fullgraph=True)
        x = numbers(1).to(device)
        values = [run(x).item() for _ in range(9)]
        optimizer.state[weight]["step"].fill_(1)
        held = weight._data.memory.array if device == DEVICE else None
        values += [run(x).item() for _ in range(5)]
        assert device == "cpu" or held.is_deleted() is False
        results.append(values)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-9)


def test_results_that_do_not_depend_on_values_are_on_the_device() -> None:
    """They are constants of the program, which then may have no line for the device."""
    x = torch.zeros(2, 2, device=DEVICE, requires_grad=True)

    def backward(x: Any) -> None:
        x.t().sum().backward()

    run = torch.compile(backward)
    for _ in range(3):
        x.grad = None
        run(x)
        assert x.grad.device == x.device
        assert x.grad.tolist() == [[1, 1], [1, 1]]
    filled = torch.compile(lambda x: (torch.full_like(x, 0.5).t(), x))
    for _ in range(3):
        y = filled(x.detach())[0]
        assert y.device == x.device
        assert y.tolist() == [[0.5, 0.5], [0.5, 0.5]]
        y += 1  # in memory of its own
