"""Functions that are no programs, or hardly: a clear message, and the right answer."""

import copy
import datetime
import gc
import os
import threading
import time
import uuid
import warnings
import weakref
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.compiler import CannotCompile

generator = np.random.default_rng(0)
state = np.random.RandomState(0)
clock = time


def imports_inside(x: Any) -> Any:
    import secrets

    return x + secrets.randbits(40)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x: x + time.perf_counter(), r"time\.perf_counter\(\)"),
        (lambda x: x + clock.monotonic_ns(), r"time\.monotonic_ns\(\)"),
        (lambda x: x + perf_counter_ns(), r"time\.perf_counter_ns\(\)"),
        (lambda x: x + datetime.datetime.now().timestamp(), r"datetime\.now\(\)"),
        (lambda x: x + uuid.uuid4().int % 2**40, r"uuid\.uuid4\(\)"),
        (lambda x: x + int.from_bytes(os.urandom(5)), r"os\.urandom\(\)"),
        (imports_inside, r"secrets\.randbits\(\)"),
        (lambda x: x + np.random.rand(), "NumPy's random numbers"),
        (lambda x: x + torch.from_numpy(np.random.rand(1)), "NumPy's random numbers"),
        (lambda x: x + generator.random(), "NumPy's random numbers"),
        (lambda x: x + state.standard_normal(), "NumPy's random numbers"),
    ],
)
def test_answers_that_change_from_call_to_call(function: Any, what: str) -> None:
    x = torch.zeros(1, dtype=torch.float64)
    compiled = torch.compile(function)
    with pytest.warns(UserWarning, match=what):
        found = [compiled(x).item() for _ in range(3)]
    assert len(set(found)) == 3
    with pytest.raises(CannotCompile, match=what):
        torch.compile(function, fullgraph=True)(x)


def test_clocks_in_closures_and_in_functions_that_are_called() -> None:
    ticks = time.perf_counter

    def inner(x: Any) -> Any:
        return x + ticks()

    compiled = torch.compile(lambda x: inner(x) * 2)
    with pytest.warns(UserWarning, match=r"can call time\.perf_counter\(\)"):
        first = compiled(torch.zeros(1, dtype=torch.float64))
    assert compiled(torch.zeros(1, dtype=torch.float64)).item() > first.item()


def test_modules_whose_clocks_nobody_asks_are_no_matter() -> None:
    def function(x: Any) -> Any:
        return x + len(os.sep) + (time.timezone is None)

    compiled = torch.compile(function, fullgraph=True)
    assert [compiled(torch.zeros(1)).item() for _ in range(2)] == [1, 1]


class Counter:
    def __init__(self) -> None:
        self.calls = 0


def test_counts_of_calls_are_counted() -> None:
    counter, calls = Counter(), 0

    def function(x: Any) -> Any:
        nonlocal calls
        calls += 1
        counter.calls += 2
        return x + calls * counter.calls

    compiled = torch.compile(function)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [compiled(torch.zeros(1)).item() for _ in range(20)]
    assert found == [2 * n * n for n in range(1, 21)]
    assert len(caught) == 1
    assert "it has been traced 16 times" in str(caught[0].message)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x: (part for part in x), "a new generator that is part of the result"),
        (lambda x: lambda: x, "a new function that is part of the result"),
        (lambda x: Counter(), "a new Counter that is part of the result"),
    ],
)
def test_results_that_no_program_makes(function: Any, what: str) -> None:
    compiled = torch.compile(function)
    with pytest.warns(UserWarning, match=f"a program cannot create {what}"):
        results = [compiled(torch.ones(2)) for _ in range(2)]
    assert results[0] is not results[1]
    assert type(results[0]) is type(function(torch.ones(2)))


def test_compiled_functions_that_call_themselves() -> None:
    def doubled(x: Any, times: int) -> Any:
        return x if times == 0 else compiled(x, times - 1) * 2 + 1

    compiled = torch.compile(doubled, fullgraph=True)
    for _ in range(2):
        assert compiled(torch.tensor([1.0]), 4).item() == 31
    assert len(compiled.entries) == 1


def test_recursion_without_end() -> None:
    def endless(x: Any) -> Any:
        return endless(x + 1)

    x = torch.ones(1)
    with pytest.raises(RecursionError):
        torch.compile(endless)(x)
    assert (x + 1).item() == 2, "x is as it was"


def test_steps_in_threads() -> None:
    """Each thread trains a model of its own by the same function."""

    def step(model: Any, optimizer: Any, x: Any) -> Any:
        loss = (model(x) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def train(run: Any) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), 0.1)
        return [run(model, optimizer, torch.ones(4, 3)).item() for _ in range(6)]

    expected = train(step)
    compiled = torch.compile(step)
    found: dict[int, Any] = {}
    lock = threading.Lock()

    def make() -> Any:
        with lock:  # the seed is everybody's
            torch.manual_seed(0)
            model = torch.nn.Linear(3, 2)
        return model, torch.optim.Adam(model.parameters(), 0.1)

    def work(number: int) -> None:
        model, optimizer = make()
        losses = [compiled(model, optimizer, torch.ones(4, 3)).item() for _ in range(6)]
        found[number] = losses

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n] for n in range(3)] == [expected] * 3


def test_errors_between_two_updates_leave_both_undone() -> None:
    first, second = torch.zeros(3), torch.zeros(3)

    def function(x: Any, index: Any) -> Any:
        first.add_(x)
        chosen = x[index]
        second.add_(chosen.sum())
        return chosen

    compiled = torch.compile(function, fullgraph=True)
    x = torch.arange(3.0)
    for _ in range(2):
        compiled(x, torch.tensor([2]))
    before = first.tolist(), second.tolist()
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        compiled(x, torch.tensor([5]))
    assert (first.tolist(), second.tolist()) == before
    compiled(x, torch.tensor([0]))
    assert first.tolist() == [0, 3, 6]
    assert second.tolist() == [4, 4, 4]


@pytest.mark.parametrize("frozen", [False, True])
def test_tensors_in_containers_that_cannot_be_searched(frozen: bool) -> None:
    box = {1: torch.ones(3)}
    values = weakref.WeakValueDictionary(box)
    compiled = torch.compile(lambda x: x * values[1])
    gc.collect()
    before = gc.get_freeze_count()
    if frozen:  # as servers do before they fork
        gc.freeze()
    try:
        with pytest.warns(UserWarning, match="but in a dict"):
            assert compiled(torch.ones(3)).tolist() == [1, 1, 1]
        box[1] = values[1] = torch.full((3,), 5.0)
        assert compiled(torch.ones(3)).tolist() == [5, 5, 5]
        assert (gc.get_freeze_count() > 0) is (frozen or before > 0)
    finally:
        if frozen and not before:
            gc.unfreeze()


def test_what_a_call_stored_before_an_exception_are_tensors_of_arrays() -> None:
    layer = torch.nn.Linear(2, 1)
    twin = copy.deepcopy(layer)
    stored: list[Any] = []

    def stepping(layer: Any, optimizer: Any, log: Any, fails: bool) -> Any:
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = layer(x).pow(2).sum()
            log.append(loss)
            log.append(loss.detach() * 2)
            loss.backward()
            optimizer.step()
            if fails:
                raise ValueError("late")
            return loss

        return step

    x = torch.ones(3, 2)
    optimizers = [torch.optim.Adam(m.parameters()) for m in (layer, twin)]
    logs: list[list[Any]] = [stored, []]
    for m, optimizer, log, wrapped in zip(
        (layer, twin), optimizers, logs, (torch.compile, lambda f: f), strict=True
    ):
        with pytest.raises(ValueError, match="late"):
            wrapped(stepping(m, optimizer, log, True))(x)
        for _ in range(2):
            stepping(m, optimizer, log, False)(x)
    assert [v.item() for v in logs[0]] == [v.item() for v in logs[1]]
    assert [p.tolist() for p in layer.parameters()] == [p.tolist() for p in twin.parameters()]
    states = [o.state_dict()["state"] for o in optimizers]
    assert [s["exp_avg"].tolist() for s in states[0].values()] == [
        s["exp_avg"].tolist() for s in states[1].values()
    ]
    with pytest.raises(RuntimeError, match="there is no graph of this tensor"):
        stored[0].backward()
