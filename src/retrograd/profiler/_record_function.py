"""Naming a piece of a program, for the profiler."""

from __future__ import annotations

import functools
from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from retrograd.profiler._ledger import Event
    from retrograd.profiler._recorder import Recorder

Function = TypeVar("Function", bound=Callable[..., Any])
# The recorders of profilers that are open, by thread, the innermost last.
RECORDERS: dict[int, list[Recorder]] = {}


class record_function:  # noqa: N801 - PyTorch's name
    """Labels a block, or a function as a decorator, in the records of a profiler.

    Without a profiler it does nothing.

    Args:
        name: the name.
        args: more about it, for PyTorch's sake.

    Example:
        >>> from retrograd.profiler import profile, record_function
        >>> with profile() as prof, record_function("squares"):
        ...     y = torch.ones(3) ** 2
        >>> [event.name for event in prof.events()]
        ['squares', 'aten::pow']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._open: list[list[tuple[Recorder, Event]]] = []

    def __enter__(self) -> Self:
        begun = []
        for recorder in RECORDERS.get(get_ident(), ()):
            if recorder.recording:
                recorder.ledger.pause()
                event = recorder.begin(self.name, "range")
                recorder.ledger.begin(event)
                begun.append((recorder, event))
        self._open.append(begun)
        return self

    def __exit__(self, *exc: object) -> None:
        for recorder, event in reversed(self._open.pop()):
            if recorder.recording:
                recorder.ledger.finish(event)
                recorder.ledger.go_on()

    def __call__(self, function: Function) -> Function:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name, self.args):
                return function(*args, **kwargs)

        return named  # type: ignore[return-value]
