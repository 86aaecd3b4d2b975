"""Caches of compiled functions, which are emptied from time to time.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

import jax
import pytest
from _device import DEVICE, made

import retrograd as torch
from retrograd.devices import _caches, _deferred, _level, _programs, _values


def gradient(size: int) -> float:
    """The derivative of ``sum((w * x) ** 2)`` at ``w = 2``, for ``x = 0, 1, ..., size - 1``."""
    weight = made([2.0]).requires_grad_()
    (torch.arange(float(size), device=DEVICE) * weight).square().sum().backward()
    result: float = weight.grad.item()
    return result


def expected(size: int) -> float:
    return 4.0 * sum(k * k for k in range(size))


def test_functions_for_many_shapes_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shape needs about ten functions."""
    monkeypatch.setattr(_caches, "MOST_FUNCTIONS", 20)
    client = jax.devices("cpu")[0].client
    functions, executables = [], []
    for size in range(1, 9):
        assert gradient(size) == expected(size)
        gc.collect()
        functions.append(sum(isinstance(x, _deferred.Function) for x in gc.get_objects()))
        executables.append(len(client.live_executables()))
    for counts in (functions, executables):
        assert max(counts[2:]) <= max(counts[:2]) + 20


def test_compiled_programs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be compiled again in the middle of a training run, which can take minutes."""
    traces = []
    trace = _programs.Part.trace

    def counted(part: Any, *values: Any) -> Any:
        traces.append(part)
        return trace(part, *values)

    monkeypatch.setattr(_programs.Part, "trace", counted)
    weight = made([1.0, 2.0]).requires_grad_()
    optimizer = torch.optim.SGD([weight], 0.5)

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (weight * x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = made([1.0, 1.0])
    losses = [step(x).item() for _ in range(5)]
    count = len(traces)
    assert count > 0
    monkeypatch.setattr(_caches, "MOST_FUNCTIONS", 3)
    assert gradient(5) == expected(5)
    losses.append(step(x).item())
    assert losses == [3.0 - k for k in range(6)]
    assert len(traces) == count


def test_several_threads_while_caches_are_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_caches, "MOST_FUNCTIONS", 3)
    results: list[dict[int, float]] = []

    def work() -> None:
        results.append({size: gradient(size) for size in (3, 2, 4, 3, 5)})

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [{size: expected(size) for size in (3, 2, 4, 5)}] * 3


def test_a_cache_has_a_largest_size() -> None:
    cache = _caches.Cache(3)
    for k in range(8):
        cache[k] = k
        assert cache.get(k) == k
        assert len(cache) <= 3


def test_kinds_that_are_not_used_are_freed() -> None:
    _level._known_views.clear()
    x = torch.arange(300.0, device=DEVICE)
    gc.collect()
    count = len(_values._kinds)
    views = [x[k:] for k in range(200)]
    assert len(_values._kinds) >= count + 199
    del views
    _level._known_views.clear()
    gc.collect()
    assert len(_values._kinds) <= count + 1
