"""The state of each thread, and checks of indices whose result is not known yet.

Waiting for the result of a check would stop the program at every index. So it is examined when a
value is read from a device, which has to wait anyway.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any


class Tracing(threading.local):
    """The state of a thread: whether JAX is tracing a function (``_fused.py``), and the queue of
    calls that wait (``_deferred.py``)."""

    # While a function is traced: the checks of indices that its operations make. Otherwise None.
    expected: list[Any] | None = None
    calls = 0  # the number of operations that the traced function has called
    queue: Any = None  # calls that wait
    separate = False  # run the calls of a queue one by one, without compiling the queue


class CannotTraceError(Exception):
    """Code cannot be compiled as one function."""


tracing = Tracing()
_MANY = 256
_expected: list[tuple[str, Any]] = []


def note(name: str, holds: Any) -> None:
    """Record a check of an operation's indices. ``holds`` is a bool on the device, which may not be
    computed yet."""
    if tracing.expected is not None:  # it becomes a result of the function that is traced
        tracing.expected.append(holds)
        return
    _expected.append((name, holds))
    check_some()


def expect(several: Iterable[tuple[str, Any]]) -> None:
    """Record several checks: the name of each operation, and a bool on the device."""
    _expected.extend(several)


def check_some() -> None:
    """Examine the oldest checks if there are many."""
    while len(_expected) > _MANY:
        _check(_expected.pop(0))


def check() -> None:
    """Raise an IndexError if an index of any operation so far was out of range."""
    while _expected:
        _check(_expected.pop(0))


def _check(expected: tuple[str, Any]) -> None:
    name, holds = expected
    if not holds:
        _expected.clear()
        raise IndexError(
            f"{name}(): index out of range. Indices on a device are checked while the program "
            "continues, so the line that called the operation comes earlier. On the CPU the error "
            "names that line."
        )
