"""What was expected of operands and is not known yet: waiting for a device would stop the program
at every index. It is asked when a value is read from a device, which waits anyway."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any


class Tracing(threading.local):
    """What a thread is doing: whether JAX is tracing a function of it (``_fused.py``), and what the
    operations that the function calls expect of their indices; which calls wait."""

    expected: list[Any] | None = None  # None: it is not
    calls = 0  # of operations, so far
    queue: Any = None  # of calls of this thread that wait (``_deferred.py``)
    separate = False  # whether the calls of a queue are not to become one function


class CannotTraceError(Exception):
    """Code cannot be compiled as one function."""


tracing = Tracing()
_MANY = 256
_expected: list[tuple[str, Any]] = []


def note(name: str, holds: Any) -> None:
    """Note that what an operation expects of its indices is being computed."""
    if tracing.expected is not None:  # one of the results of the function that is traced
        tracing.expected.append(holds)
        return
    _expected.append((name, holds))
    check_some()


def expect(several: Iterable[tuple[str, Any]]) -> None:
    """Note the names of operations, and what they expect."""
    _expected.extend(several)


def check_some() -> None:
    """Keep the list short."""
    while len(_expected) > _MANY:
        _check(_expected.pop(0))


def check() -> None:
    """IndexError if some operation so far was given indices out of range."""
    while _expected:
        _check(_expected.pop(0))


def _check(expected: tuple[str, Any]) -> None:
    name, holds = expected
    if not holds:
        _expected.clear()
        raise IndexError(
            f"{name}(): index out of range. An operation on a device had started when this became "
            "known, so the line that called it comes earlier; on the CPU the error names it."
        )
