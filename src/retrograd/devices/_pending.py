"""The state of each thread, and checks of indices whose result is not known yet.

Waiting for the result of a check would stop the program at every index. So it is examined when a
value is read from a device, which has to wait anyway.
"""

from __future__ import annotations

import itertools
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
# By numbers in order. A thread looks at several, and another may have taken some of them meanwhile.
_expected: dict[int, tuple[str, Any]] = {}
_numbers = itertools.count()


def note(name: str, holds: Any) -> None:
    """Record a check of an operation's indices. ``holds`` is a bool on the device, which may not be
    computed yet."""
    if tracing.expected is not None:  # it becomes a result of the function that is traced
        tracing.expected.append(holds)
        return
    _expected[next(_numbers)] = name, holds
    check_some()


def expect(several: Iterable[tuple[str, Any]]) -> None:
    """Record several checks: the name of each operation, and a bool on the device."""
    _expected.update(zip(_numbers, several, strict=False))


def check_some() -> None:
    """Examine the oldest checks if there are many."""
    if len(_expected) > _MANY:
        _check(list(_expected)[:-_MANY])


def check() -> None:
    """Raise an IndexError if an index of any operation so far was out of range."""
    if _expected:
        _check(list(_expected))


def _check(numbers: list[int]) -> None:
    for number in numbers:
        name, holds = _expected.get(number, ("", True))
        fine = bool(holds)  # waits for the device, and may be interrupted
        _expected.pop(number, None)
        if not fine:
            _expected.clear()
            raise IndexError(
                f"{name}(): index out of range. Indices on a device are checked while the program "
                "continues, so the line that called the operation comes earlier. On the CPU the "
                "error names that line."
            )
