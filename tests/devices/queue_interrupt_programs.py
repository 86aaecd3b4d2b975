"""Interrupts and finalizers at every line of the code that queues operations, on ``xla:cpu``.

Run by tests/devices/test_on_devices.py in a process of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from _device import made
from deferred_programs import compiled_soon as compiled_soon  # a fixture of all tests

from retrograd.devices import _deferred


def at_line(number: int, act: Callable[[], None]) -> Callable[..., Any]:
    """A trace function that calls ``act`` before the line with this number, counted from 1 in the
    order in which lines of the module run."""
    left = [number]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != _deferred.__file__:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                act()
        return trace

    return trace


def small(x: Any) -> tuple[Any, ...]:
    y = x * 2
    z = y.tanh()
    return y, z, (z + y).sum()


EXPECTED = [[2.0, 4.0], np.tanh([2.0, 4.0]), 6 + np.tanh([2.0, 4.0]).sum()]


def check(values: tuple[Any, ...]) -> None:
    for found, expected in zip(values, EXPECTED, strict=True):
        np.testing.assert_allclose(found.tolist(), expected, rtol=1e-6)


def values_with(number: int, act: Callable[[], None]) -> tuple[Any, ...]:
    """The values of ``small``. ``act`` is called while they are computed, if there are that many
    lines."""
    before = sys.gettrace()
    sys.settrace(at_line(number, act))
    try:
        values = small(made([1.0, 2.0]))
        values[2].item()
    finally:
        sys.settrace(before)
    return values


def test_an_interrupt_at_any_line_loses_nothing() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    x, interrupted, number = made([1.0, 2.0]), True, 0
    waits = x + 10
    while interrupted:
        number += 1
        try:
            check(values_with(number, interrupt))
            interrupted = False
        except KeyboardInterrupt:
            pass
        if number % 7 == 0:
            assert waits.tolist() == [11.0, 12.0]
            waits = x + 10
        check(small(x))
    assert number > 100


def test_operations_in_between_at_any_line() -> None:
    """As finalizers call them, which Python may run at any time."""
    x, others, number = made([1.0, 2.0]), [], 0
    acted = True
    waits = x + 10
    while acted:
        number += 1
        acted = False

        def act(read: bool = bool(number % 2)) -> None:
            nonlocal acted, waits
            acted = True
            others.append(waits * 3)
            if read:
                assert waits.tolist() == [11.0, 12.0]
            waits = x + 10

        check(values_with(number, act))
    assert number > 100
    assert all(other.tolist() == [33.0, 36.0] for other in others)


def test_a_finalizer_that_reads_a_value_of_the_queue() -> None:
    x, number, acted = made([1.0, 2.0]), 0, True
    while acted:
        number += 1
        acted = False
        waits = x + 10

        def act(waits: Any = waits) -> None:
            nonlocal acted
            acted = True
            assert waits.tolist() == [11.0, 12.0]

        check(values_with(number, act))
    assert number > 100
