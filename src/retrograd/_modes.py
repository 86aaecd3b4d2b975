"""Modes per thread, such as ``no_grad``, and the one flag that hot paths check.

A thread starts in the plain state: gradients are recorded and nothing else is on. As long as every
thread is in it, ``switch.active`` is empty, and that is all an operation has to check. Only when
it is not does an operation ask what exactly is on in its own thread.

**Modes come back whatever happens.** Python may deliver an interrupt (Ctrl-C) between any two
bytecodes, those of a ``finally`` or of an ``__exit__`` included, so no Python code that restores a
mode can be relied on to run. Here none has to. A ``with`` statement keeps what it will call at its
end on the interpreter's stack, where nobody else refers to it, and lets it go when the block is
left, in whatever way. Every scope hands it a ``Key`` there. The modes of a scope are a weak
reference to that key, and the callback of the reference is a C function that takes them away:

- The modes of a ``Scope`` are an entry of the list of states of its thread; the innermost is what
  holds. When the key goes, the entry is removed. Scopes may end in any order, as they do in
  generators and coroutines.
- ``within`` is for functions that call others: transforms, backward passes, hooks. It begins a list
  of its own. When the key goes, the list from before is put back. What was opened inside and not
  closed goes with it.

A scope takes effect by the last thing it does when it is entered, one store or one append. If an
interrupt comes before that, nothing has changed; if it comes after, the key is gone already or
goes with the ``with`` statement that failed to begin.
"""

from __future__ import annotations

import os
import types
import weakref
from _thread import _local  # threading.local, without the rest of threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

Hooks = tuple[Callable[..., Any], Callable[..., Any]]


class Modes:
    """Everything that can be switched, and what it is in the plain state."""

    grad_enabled: bool = True
    inference: bool = False
    anomaly: bool = False
    check_nan: bool = True
    multithreading: bool = True  # what is_multithreading_enabled answers; nothing depends on it
    # The (pack, unpack) pairs of saved_tensors_hooks, innermost last.
    saved_tensor_hooks: tuple[Hooks, ...] = ()
    hooks_disabled: str | None = None  # the message of disable_saved_tensors_hooks
    # allow_mutation_on_saved_tensors: is told before a write
    before_mutation: Callable[[Any], None] | None = None
    # Called in place of tensor/_calls.py:apply, with the same arguments: the last, which calls the
    # one before it.
    interceptors: tuple[Callable[[Any, Any, dict[str, Any], Any], Any], ...] = ()
    levels: tuple[Any, ...] = ()  # transforms that are open: forward mode, vmap; innermost last
    # Called in place of the loop of a backward pass, with the pass and that loop.
    pass_observer: Callable[[Any, Callable[[Any], Any]], Any] | None = None
    # Who is told what no operation tells: writes in place, custom Functions, and tensors that
    # leave the graph. It is set along with an interceptor, which makes the state less plain.
    observer: Any = None
    # What watches over the function that is being differentiated by a function of ``func``. It has
    # nothing to say but to writes and to ``backward``, and so does not make the state less plain.
    running: Any = None
    # The interceptor of autocast, which also sees functions that are made of operations.
    autocast: Any = None
    device: Any = None  # that new tensors are created on; None is the CPU
    overrides: bool = True  # whether classes that define __torch_function__ are asked
    function_modes: tuple[Any, ...] = ()  # the modes of __torch_function__, innermost last
    checkpoint_group: Any = None  # the GraphExecGroup that passes belong to
    checkpoint_early_stop: bool | None = None  # set_checkpoint_early_stop
    checkpoint_debug: bool | None = None  # set_checkpoint_debug_enabled


PLAIN: dict[str, Any] = {name: getattr(Modes, name) for name in Modes.__annotations__}
# Modes that operations do not look up, unless they are on the general path for another reason.
_APART = {"autocast", "check_nan", "multithreading", "hooks_disabled", "pass_observer", "observer",
          "running", "device", "overrides", "function_modes", "checkpoint_group",
          "checkpoint_early_stop", "checkpoint_debug"}  # fmt: skip


class Key:
    """What a block has for as long as it runs. Nothing but the interpreter's stack may refer to
    it: a local variable would be kept by the traceback of an interrupt."""

    __slots__ = ("__weakref__",)


class State(weakref.ref, Modes):  # type: ignore[type-arg]
    """The modes within a scope: a weak reference to its key."""

    if TYPE_CHECKING:
        plain: bool  # whether nothing is on: operations may take the fast path
        only_levels: bool  # whether nothing is on but, perhaps, transforms
        unrecorded: bool  # whether operations only have to be computed, as in no_grad mode
        changed: Any  # the modes that the scope sets: what is set outside of it ends at these
        # What stands for the state in ``switch.active``, if it is not plain.
        mark: weakref.ref[Key] | None
        own: Key | None  # a key that it has itself, and not a block
        lowered: dict[int, State] | None  # what ``call_below`` makes of it, by the number


class Frame(weakref.ref):  # type: ignore[type-arg]
    """A list of states, and the one around it."""

    __slots__ = ("outer", "shared", "states", "tasks")

    states: list[State]
    outer: Frame | None
    shared: Any  # the modes that the frame sets, if its first state is another's, too; or None
    tasks: tuple[Any, ...]  # the backward passes under way: a hook may start one inside another


class Switch:
    """What stands for states that are not plain, of all threads: empty if there are none. It may
    hold a mark for a little longer than needed; never for less."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active: set[weakref.ref[Key]] = set()


def _classify(state: dict[str, Any]) -> None:
    """Work out from the modes of a state how operations may be called in it."""
    state["only_levels"] = only_levels = (
        state["grad_enabled"]
        and not state["inference"]
        and not state["anomaly"]
        and not state["saved_tensor_hooks"]
        and state["before_mutation"] is None
        and not state["interceptors"]
    )
    state["plain"] = only_levels and not state["levels"]
    state["unrecorded"] = not (
        state["grad_enabled"] or state["inference"] or state["levels"] or state["interceptors"]
    )


class ThreadModes(_local, Modes):
    """The modes of the current thread. Each mode can be read as an attribute."""

    frame: Frame

    def __init__(self) -> None:
        state = State(PERMANENT)
        state.__dict__.update(PLAIN, changed=PLAIN, mark=None, own=None, lowered=None)
        _classify(state.__dict__)
        frame = Frame(PERMANENT)
        frame.states, frame.outer, frame.shared, frame.tasks = [state], None, None, ()
        self.frame = frame

    @property
    def tasks(self) -> tuple[Any, ...]:
        """The backward passes under way in this thread, the innermost last."""
        return self.frame.tasks

    @property
    def now(self) -> State:
        """All modes of this thread."""
        return self.frame.states[-1]

    @property
    def records(self) -> bool:
        """Whether operations are recorded. In inference mode none is, not even within
        ``enable_grad``."""
        now = self.frame.states[-1]
        return now.grad_enabled and not now.inference

    @property
    def interceptor(self) -> Callable[[Any, Any, dict[str, Any], Any], Any] | None:
        interceptors = self.frame.states[-1].interceptors
        return interceptors[-1] if interceptors else None


def _reader(name: str) -> Any:
    def read(self: ThreadModes) -> Any:
        return getattr(self.frame.states[-1], name)

    return property(read)


for _name in PLAIN:
    setattr(ThreadModes, _name, _reader(_name))

PERMANENT = Key()
switch = Switch()
_active = switch.active
modes = ThreadModes()


def free_in_forks(lock: Any) -> None:
    """Let a process that is forked have a lock that nobody holds, whoever held it at the time."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)


def let_go(lock: Any) -> None:
    """Release an RLock, if this thread has it. An interrupt may come between any two bytecodes,
    those at the end of a ``with`` statement included, so this is called from two ``finally`` blocks
    around each other, of which an interrupt can stop only one."""
    if lock._is_owned():
        lock.release()


def recording_in(recorded: bool) -> bool:
    """Whether what users' code computes in a backward pass is recorded: if the pass is. Under
    transforms it is in any case, since the parts of values may have a history that goes on."""
    now = modes.frame.states[-1]
    return recorded or (bool(now.levels) and now.grad_enabled)


# -- scopes --------------------------------------------------------------------------------------


def _changed(outer: State, changes: dict[str, Any], changed: Any) -> dict[str, Any]:
    """The attributes of a state with the modes of another and some changes."""
    results = {**outer.__dict__, **changes}
    results.update(changed=changed, mark=None, own=None, lowered=None)
    if not changes.keys() <= _APART:
        _classify(results)
    return results


def _watch(state: State) -> None:
    """Let ``switch.active`` hold a mark for a state that is not plain."""
    state.mark = weakref.ref(state(), _active.discard)  # type: ignore[arg-type]
    _active.add(state.mark)


class _Exit:
    """The ``__exit__`` of scopes. ``with`` asks for it before it enters, and gets a C function that
    has the key. Called by hand, it ends what was entered by hand."""

    def __get__(self, scope: Any, owner: Any = None) -> Any:
        if scope is None:
            return _leave
        if scope._held:
            return types.MethodType(_leave, scope)
        finish = scope._finish
        # What does nothing, whatever it is called with, is ``type.__prepare__``.
        leaving: Any = partial(type.__prepare__ if finish is None else finish)
        leaving.key = Key()
        scope._pending = weakref.ref(leaving.key)
        return leaving


def _leave(scope: Any, *exc: object) -> Any:
    """End a scope that was entered by hand, or by an ``ExitStack``."""
    if not scope._held:
        return None
    state = scope._held[-1][1]
    states = modes.frame.states
    if state is not None and not any(state is other for other in states):
        # It was entered outside of the function that runs, and ends there. Here only its effect
        # does.
        before = scope._held[-1][2]
        set_modes(**{name: getattr(before, name) for name in state.changed})
        return None
    scope._held.pop()
    return None if scope._finish is None else scope._finish(*exc)


class Scope:
    """A context in which modes are changed, for its thread."""

    # What is called at the end, as ``__exit__`` is. It need not restore modes.
    _finish: Callable[..., Any] | None = None
    # The key of the ``with`` statement that is about to begin.
    _pending: weakref.ref[Key] | None = None
    # The key, the state and the state before, for every time it was entered by hand.
    _held: tuple[Any, ...] | list[Any] = ()

    def changes(self) -> dict[str, Any]:
        """The modes that are different inside.

        Returns:
            Their values by name.
        """
        raise NotImplementedError

    def __enter__(self) -> Any:
        self._enter(self.changes())

    def _enter(self, changes: dict[str, Any]) -> State:
        pending, self._pending = self._pending, None
        if pending is not None and pending() is not None:
            return self._open(pending, changes)
        if not self._held:
            self._held = []
        key, before = Key(), modes.frame.states[-1]
        state = self._open(weakref.ref(key), changes)
        self._held.append((key, state, before))  # type: ignore[union-attr]
        return state

    def _open(self, key: weakref.ref[Key], changes: dict[str, Any]) -> State:
        states = modes.frame.states
        attributes = _changed(states[-1], changes, changes)
        state: Any = None
        try:
            state = State(key(), states.remove)
            state.__dict__.update(attributes)
            if not state.plain:
                _watch(state)
            states.append(state)
        except BaseException:  # an interrupt: let there be no callback
            if state is not None and not any(state is other for other in states):
                state = None
            raise
        return state  # type: ignore[no-any-return]

    if TYPE_CHECKING:

        def __exit__(self, *exc: object) -> None: ...

    else:
        __exit__ = _Exit()


class Within(Scope):
    """A scope around a function that is called: whatever that leaves open ends with it."""

    changed: Any = None  # the modes that are as before afterwards; what is changed, if None

    def _open(self, key: weakref.ref[Key], changes: dict[str, Any]) -> State:
        thread = vars(modes)
        outer: Frame = thread["frame"]
        state = State(key())
        changed = changes if self.changed is None else self.changed
        state.__dict__.update(_changed(outer.states[-1], changes, changed))
        if not state.plain:
            _watch(state)
        inner = Frame(PERMANENT)
        inner.states, inner.shared, inner.tasks = [state], None, outer.tasks
        back: Any = None
        try:
            back = Frame(key(), partial(thread.__setitem__, "frame"))
            back.states, back.outer, back.shared = outer.states, outer.outer, outer.shared
            back.tasks = outer.tasks
            inner.outer = back
        except BaseException:  # an interrupt: let there be no callback
            back = inner.outer = None
            raise
        thread["frame"] = inner
        return state


class within(Within):  # noqa: N801 - a context
    """Modes that are different for a function that is called."""

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def __enter__(self) -> None:
        self._enter(self._changes)


class sealed(within):  # noqa: N801
    """The same, and no mode that the function sets for good is set outside of it."""

    changed = PLAIN


def set_modes(**changes: Any) -> dict[str, Any]:
    """Change modes of this thread from now on, to the end of the scopes that set them. Gives back
    what they were."""
    before = {name: getattr(modes, name) for name in changes}
    until_done = Key()  # counts as a state that is not plain
    _active.add(weakref.ref(until_done, _active.discard))
    for name, value in changes.items():
        frame: Frame | None = modes.frame
        while frame is not None:
            if frame.shared is not None:
                _unshare(frame)
            for state in reversed(frame.states):
                setattr(state, name, value)
                _mark(state)
                if name in state.changed:
                    frame = None
                    break
            else:
                frame = frame.outer
    return before


def _unshare(frame: Frame) -> None:
    """Let a frame have a first state of its own."""
    state = State(PERMANENT)
    state.__dict__.update(frame.states[0].__dict__)
    state.changed, state.own, state.lowered = frame.shared, None, None
    frame.states[0] = state
    frame.shared = None


def drop_interceptor(interceptor: Any) -> None:
    """Take an interceptor out of all states that are open in this thread, though the scope that set
    it goes on."""
    frame: Frame | None = modes.frame
    while frame is not None:
        for state in frame.states:
            if any(one is interceptor for one in state.interceptors):
                state.interceptors = tuple(x for x in state.interceptors if x is not interceptor)
                _mark(state)
        frame = frame.outer


def _mark(state: State) -> None:
    """Let the mark of a state that has changed be what it should be."""
    state.lowered = None
    _classify(state.__dict__)
    if state.plain:
        if state.mark is not None:
            _active.discard(state.mark)
        state.mark = state.own = None
    elif state.mark is None:
        state.own = Key()
        state.mark = weakref.ref(state.own, _active.discard)
        _active.add(state.mark)


# -- what is done often --------------------------------------------------------------------------

# These call a function with other modes, and put the frame back twice, by one ``finally`` around
# the other: an interrupt can come in one of them only. That takes a quarter of the time of a scope.


def call_in_pass(task: Any, function: Callable[[Any, State], Any]) -> Any:
    """Run a backward pass, ``function(task, modes)``. As with ``sealed``, no mode that is set in it
    is set outside."""
    outer = modes.frame
    now = outer.states[-1]
    try:
        try:
            inner = Frame(PERMANENT)
            inner.states, inner.outer, inner.shared = [now], outer, PLAIN
            inner.tasks = (*outer.tasks, task)
            modes.frame = inner
            return function(task, now)
        finally:
            modes.frame = outer
    finally:
        modes.frame = outer


BELOW = ("levels", "interceptors")
ABOVE_ALL = 1 << 62  # greater than the number of any transform


def call_below(number: int, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function with only the transforms open that have a lower number, and with nobody to
    intercept what it does, as every operation under a transform is."""
    outer = modes.frame
    try:
        try:
            _go_below(outer, number)
            return function(*args)
        finally:
            _come_back(outer)
    finally:
        _come_back(outer)


def _go_below(outer: Frame, number: int) -> None:
    now = outer.states[-1]
    lowered = now.lowered
    state = None if lowered is None else lowered.get(number)
    if state is None:
        state = _lowered(now, number)
    inner = Frame(PERMANENT)
    inner.states, inner.outer, inner.shared, inner.tasks = [state], outer, BELOW, outer.tasks
    modes.frame = inner
    if state.plain:
        _active.difference_update(_marks(outer))


def _come_back(frame: Frame) -> None:
    mark = frame.states[-1].mark
    if mark is not None and mark not in _active:
        _active.update(_marks(frame))
    modes.frame = frame


def _lowered(now: State, number: int) -> State:
    levels = now.levels
    while levels and levels[-1].number >= number:
        levels = levels[:-1]
    state = State(PERMANENT)
    own = state.__dict__
    own.update(now.__dict__)
    own.update(levels=levels, interceptors=(), changed=BELOW, own=None, lowered=None)
    _classify(own)
    now.lowered = {**(now.lowered or {}), number: state}
    return state


def _marks(frame: Frame | None) -> list[Any]:
    """The marks of the states that are open in this thread."""
    results = []
    while frame is not None:
        for state in frame.states:
            mark = state.mark
            if mark is not None and mark() is not None:
                results.append(mark)
        frame = frame.outer
    return results
