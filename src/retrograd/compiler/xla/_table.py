"""The table of lowerings: for each primitive operation, a function that does in JAX what its
forward does in NumPy.

A lowering takes what the forward takes: arrays as JAX knows them, numbers, and options by name. If
it has a parameter ``line``, that is the line of the program, which knows shapes, dtypes and layouts
of its inputs and outputs. What it gives is cast to the dtypes of the outputs, so that it need not
care how JAX converts numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from retrograd.compiler._program import Line

LOWERINGS: dict[str, Callable[..., Any]] = {}
# Operations that XLA has nothing for. Their kernels run on NumPy, between two parts of the program.
ON_HOST: dict[str, str] = {}
_WANT_LINE: set[str] = set()


def lowering(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the lowering of one operation, or of several that do the same."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        code = getattr(function, "__code__", None)
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
        for name in names:
            assert name not in LOWERINGS, f"{name} has two lowerings"
            LOWERINGS[name] = function
            if "line" in arguments:
                _WANT_LINE.add(name)
        return function

    return declare


def lowerings(**functions: Callable[..., Any]) -> None:
    """Declare several lowerings by name."""
    for name, function in functions.items():
        lowering(name)(function)


def on_host(reason: str, *names: str) -> None:
    """Declare operations that have no lowering, and why."""
    ON_HOST.update(dict.fromkeys(names, reason))


class _Stated(threading.local):
    """What the lowerings that a thread runs have stated."""

    def __init__(self) -> None:
        self.doubts: list[Any] = []
        self.expected: list[Any] | None = None


_stated = _Stated()


def trust(condition: Any) -> None:
    """Say when the answer of a lowering is that of eager mode. Where the condition does not hold,
    as for a matrix that has no inverse, the program is run again on NumPy, which raises the errors
    and gives the values that eager mode does."""
    _stated.doubts.append(condition)


def doubts() -> list[Any]:
    """The conditions stated since the last call."""
    results, _stated.doubts = _stated.doubts, []
    return results


def expect(condition: Callable[[], Any]) -> None:
    """Say what has to hold of the operands, such as indices in range, which XLA does not check. In
    a program a line of its own checks it; eager operations on devices ask for it."""
    if _stated.expected is not None:
        _stated.expected.append(condition())


@contextmanager
def expectations() -> Iterator[list[Any]]:
    """Within it, what lowerings expect is noted in a list."""
    outer, found = _stated.expected, list[Any]()
    _stated.expected = found
    try:
        yield found
    finally:
        _stated.expected = outer


@contextmanager
def aside() -> Iterator[list[Any]]:
    """Within it, the conditions that are stated go to a list of their own."""
    before = doubts()
    found: list[Any] = []
    try:
        yield found
    finally:
        found += doubts()
        _stated.doubts.extend(before)


def lowered(line: Line, args: list[Any], options: dict[str, Any]) -> list[Any]:
    """The outputs of a line, for values of its arguments and options."""
    name = line.operation.name
    if name in _WANT_LINE:
        options = {**options, "line": line}
    found = LOWERINGS[name](*args, **options)
    outputs = list(found) if line.several else [found]
    assert len(outputs) == len(line.outputs), f"the lowering of {name} gives {len(outputs)} results"
    return outputs
