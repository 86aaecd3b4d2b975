"""Everything a user can switch on or off, per thread, and the one flag that hot paths look at.

A thread starts in the plain state: gradients are recorded and nothing else is on. As long as every
thread is in it, ``switch.active`` is zero, and that is all an operation has to check. Only when
it is not does an operation ask what exactly is on in its own thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


class ThreadModes(threading.local):
    """The modes of the current thread. The class attributes are what every thread starts with."""

    grad_enabled: bool = True
    inference: bool = False
    anomaly: bool = False
    check_nan: bool = True
    multithreading: bool = True  # what is_multithreading_enabled answers; nothing depends on it
    # The (pack, unpack) pairs of saved_tensors_hooks, innermost last.
    saved_tensor_hooks: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = ()
    hooks_disabled: str | None = None  # the message of disable_saved_tensors_hooks
    not_plain: NotPlain | None = None
    before_mutation: Callable[[Any], None] | None = None  # allow_mutation_on_saved_tensors
    # Called in place of tensor/_calls.py:apply, with the same arguments.
    interceptor: Callable[[Any, Any, dict[str, Any], Any], Any] | None = None
    levels: tuple[Any, ...] = ()  # transforms that are open: forward mode, vmap; innermost last
    # Called in place of the loop of a backward pass, with the pass and that loop.
    pass_observer: Callable[[Any, Callable[[Any], Any]], Any] | None = None
    # Who is told what no operation tells: writes in place, custom Functions, and tensors that
    # leave the graph. It is set along with an interceptor, which makes the state less plain.
    observer: Any = None
    # What watches over the function that is being differentiated by a function of ``func``. It has
    # nothing to say but to writes and to ``backward``, and so does not make the state less plain.
    running: Any = None


class Switch:
    """How many threads are not in the plain state."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active = 0


class NotPlain:
    """Counts its thread in ``switch.active`` for as long as it lives: until the thread is plain
    again, or ends."""

    __slots__ = ()

    def __init__(self) -> None:
        with _counting:
            switch.active += 1

    def __del__(self) -> None:
        with _counting:
            switch.active -= 1


modes = ThreadModes()
switch = Switch()
_counting = threading.RLock()  # a collection while it is held may run __del__


def free_in_forks(lock: Any) -> None:
    """Let a process that is forked have a lock that nobody holds, whoever held it at the time."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)


free_in_forks(_counting)


def _plain() -> bool:
    return (
        modes.grad_enabled
        and not modes.inference
        and not modes.anomaly
        and not modes.saved_tensor_hooks
        and modes.before_mutation is None
        and modes.interceptor is None
        and not modes.levels
    )


def recording_in(recorded: bool) -> bool:
    """Whether what users' code computes in a backward pass is recorded: if the pass is. Under
    transforms it is in any case, since the parts of values may have a history that goes on."""
    return recorded or (bool(modes.levels) and modes.grad_enabled)


def go_below(number: int) -> tuple[Any, Any]:
    """Leave open only the transforms with a lower number, and let nobody intercept what they do.
    Gives back what was, for ``come_back``. The same as ``set_modes``, which takes thrice as long:
    every operation under a transform does this."""
    before = modes.levels, modes.interceptor
    levels = before[0]
    while levels and levels[-1].number >= number:
        levels = levels[:-1]
    modes.levels = levels
    modes.interceptor = None
    if not levels and _plain():
        modes.not_plain = None
    return before


def come_back(before: tuple[Any, Any]) -> None:
    """Undo ``go_below``."""
    modes.levels, modes.interceptor = before
    if modes.not_plain is None and (before[0] or before[1] is not None):
        modes.not_plain = NotPlain()


def set_modes(**changes: Any) -> dict[str, Any]:
    """Change modes of this thread and give back what they were, to be set again later."""
    before = {name: getattr(modes, name) for name in changes}
    for name, value in changes.items():
        setattr(modes, name, value)
    if _plain():
        modes.not_plain = None
    elif modes.not_plain is None:
        modes.not_plain = NotPlain()
    return before
