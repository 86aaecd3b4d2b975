"""Observes what a thread does: operations, writes, custom Functions, passes, Modules, optimizers.

Everything here is told by what exists for others: the interceptor that the general path of calling
operations asks first, the ``observer`` of the thread, the observer of a backward pass, and the
hooks of all Modules and optimizers. Nothing is looked up while no profiler is on.
"""

from __future__ import annotations

import re
import sys
from _thread import get_ident
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from retrograd._modes import call_below, modes, within
from retrograd._source import Place, user_frame, user_place
from retrograd.autograd._engine import Task
from retrograd.autograd._node import Node
from retrograd.nn._calling import register_module_forward_hook, register_module_forward_pre_hook
from retrograd.ops._operation import Operation
from retrograd.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from retrograd.profiler._ledger import Event, Ledger
from retrograd.tensor._calls import apply
from retrograd.tensor._tensor import Tensor
from retrograd.viz._record_modules import Modules

ALL_LEVELS = 1 << 62  # more than the number of any transform


class Recorder:
    """Records the events of one thread in a ledger, while ``recording``."""

    def __init__(self, shapes: bool = False, memory: bool = False, stacks: bool = False) -> None:
        self.shapes, self.memory, self.stacks = shapes, memory, stacks
        self.recording = False
        self.ledger: Ledger = Ledger(False)
        self._modules = Modules(lambda module, prefix: None)
        self._running: list[tuple[Any, Event]] = []  # calls of Modules and steps of optimizers
        self._hooks: list[Any] = []
        self._thread = 0
        self._outer: tuple[Any, Any] = (None, None)  # the observers around this one

    def modes(self) -> dict[str, Any]:
        """The modes of a thread that is recorded."""
        self._outer = modes.observer, modes.pass_observer
        return {
            "interceptors": (*modes.interceptors, self),
            "observer": self,
            "pass_observer": self.run_pass,
        }

    def start(self) -> None:
        """Begin a ledger."""
        if not self._hooks:
            self._hooks = [
                register_module_forward_pre_hook(self._enter_module),
                register_module_forward_hook(self._leave_module, always_call=True),
                register_optimizer_step_pre_hook(self._enter_step),
                register_optimizer_step_post_hook(self._leave_step),
            ]
        self.ledger = Ledger(self.memory)
        self._thread = self.ledger.root.thread
        self.recording = True

    def stop(self) -> Ledger:
        """End the ledger."""
        if self.recording:
            self.recording = False
            self.ledger.close()
            self._running.clear()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        return self.ledger

    # -- events ------------------------------------------------------------------------------

    def begin(self, name: str, kind: str) -> Event:
        """Make an event that belongs to the present line, to be opened by the ledger, which has
        been paused."""
        parent = self.ledger.open[-1]
        event = Event(name, kind, parent)
        if parent.kind == "backward" or kind == "backward":
            # What a rule does belongs to the line of the operation, and a node that has no line of
            # its own, as leaves have none, to the line of the pass.
            event.place, event.stack = parent.place, parent.stack
        else:
            event.place = user_place(2)
            if self.stacks:
                event.stack = _stack()
        return event

    def timed(self, event: Event, function: Callable[..., Any], *args: Any) -> Any:
        """What a function returns: the inside of an event."""
        self.ledger.begin(event)
        try:
            return function(*args)
        finally:
            self.ledger.finish(event)

    def _made(self, event: Event, result: Any) -> None:
        """Note the node that an operation made, so that its backward belongs to the same line and
        Module."""
        for x in result if type(result) in (tuple, list) else (result,):
            if isinstance(x, Tensor) and x._node is not None:
                event.order = -x._node.order
                self.ledger.by_node.setdefault(event.order, event)
                return

    def _operation(self, name: str, operands: Sequence[Any]) -> Event:
        event = self.begin(name, "operation")
        if self.shapes:
            event.shapes = [list(x.shape) if isinstance(x, Tensor) else [] for x in operands]
        return event

    # -- operations --------------------------------------------------------------------------

    def __call__(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        if self.recording:
            self.ledger.pause()
        interceptors = modes.frame.states[-1].interceptors
        alone = len(interceptors) == 1 and computed is None
        run = partial(apply, op, args, options, computed)
        if alone:  # by the path that is taken without a profiler
            assert op.function is not None
            run = partial(op.function, *args, **options)
        event: Event | None = None
        if self.recording:
            event = self._operation(name_of(op), args)
            run = partial(self.timed, event, run)
        if alone:
            result = call_below(ALL_LEVELS, run)
        else:
            with within(interceptors=tuple([x for x in interceptors if x is not self])):
                result = run()
        if event is not None:
            self._made(event, result)
            self.ledger.go_on()
        return result

    def _observed(
        self, event: Event, outer: Callable[..., Any] | None, function: Callable[..., Any],
        *args: Any,
    ) -> Any:  # fmt: skip
        """Call what told this observer, or the observer around it, which does that."""
        with within(observer=self._outer[0]):
            result = self.timed(event, *((function, *args) if outer is None else (outer, *args)))
        self._made(event, result)
        self.ledger.go_on()
        return result

    def write(
        self, write_in_place: Callable[..., Any], op: Operation, operands: list[Any],
        options: dict[str, Any],
    ) -> Any:  # fmt: skip
        """Time a write in place."""
        args: tuple[Any, ...] = (op, operands, options)
        outer = None if self._outer[0] is None else self._outer[0].write
        if not self.recording:
            with within(observer=self._outer[0]):
                return write_in_place(*args)
        self.ledger.pause()
        event = self._operation(f"{name_of(op)}_", operands)
        if outer is not None:
            args = (write_in_place, *args)
        return self._observed(event, outer, write_in_place, *args)

    def custom(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Time a custom Function; the operations that it does are events inside of it."""
        outer = None if self._outer[0] is None else self._outer[0].custom
        if not self.recording:
            with within(observer=self._outer[0]):
                return function.apply(*args)
        self.ledger.pause()
        event = self._operation(function.__name__, args)
        if outer is not None:
            args = (function, args)
        return self._observed(event, outer, function.apply, *args)

    def compiled(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Time a compiled function as one operation: it runs as a program, not step by step."""
        others = tuple(x for x in modes.interceptors if x is not self)
        outer, outer_pass = self._outer
        with within(interceptors=others, observer=outer, pass_observer=outer_pass):
            if not self.recording:
                return function(*args, **named)
            self.ledger.pause()
            event = self._operation(f"compiled {function.__name__}", args)
            result = self.timed(event, partial(function, *args, **named))
        self._made(event, result)
        self.ledger.go_on()
        return result

    def asked_for_grad(self, tensor: Tensor) -> None:
        if self._outer[0] is not None:
            self._outer[0].asked_for_grad(tensor)

    def left(self, source: Tensor, result: Tensor) -> None:
        """``detach`` takes no time worth an event."""
        if self._outer[0] is not None:
            self._outer[0].left(source, result)

    def number(self, source: Tensor, value: Any) -> Any:
        """Nor does ``item``."""
        return value if self._outer[0] is None else self._outer[0].number(source, value)

    # -- passes ------------------------------------------------------------------------------

    def run_pass(self, task: Task, loop: Callable[[Task], Any]) -> Any:
        """Replaces the loop of a backward pass: the same, with an event for each node."""

        def watched(task: Task) -> Any:
            before = task.observer
            task.observer = PassWatcher(self, before)
            try:
                return loop(task)
            finally:
                task.observer = before

        outer = self._outer[1]
        if not self.recording:
            return loop(task) if outer is None else outer(task, loop)
        self.ledger.pause()
        event = self.begin("backward pass", "pass")
        event.backward = True
        inside = (watched, task) if outer is None else (outer, task, watched)
        result = self.timed(event, *inside)
        self.ledger.go_on()
        return result

    # -- Modules and optimizers ----------------------------------------------------------------

    def _is_ours(self) -> bool:
        return self.recording and get_ident() == self._thread

    def _enter(self, what: Any, event: Event) -> None:
        self._running.append((what, event))
        self.ledger.begin(event)

    def _leave(self, what: Any) -> None:
        """End a call, and those inside of it that did not report their end."""
        for i in range(len(self._running) - 1, -1, -1):
            if self._running[i][0] is what:
                self.ledger.finish(self._running[i][1])
                del self._running[i:]
                self.ledger.go_on()
                return

    def _enter_module(self, module: Any, args: Any) -> None:
        if not self._is_ours():
            return
        self.ledger.pause()
        event = self.begin("", "module")
        self._modules.enter(module)
        kind = type(module).__name__
        path = self._modules.path_of(module)
        event.module = f"{path} ({kind})" if path and path != kind else kind
        event.name = f"nn.Module: {event.module}"
        self._enter(module, event)

    def _leave_module(self, module: Any, args: Any, result: Any) -> None:
        if self._is_ours():
            self._modules.leave(module)
            self._leave(module)

    def _enter_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._is_ours():
            self.ledger.pause()
            kind = type(optimizer).__name__
            self._enter(optimizer, self.begin(f"Optimizer.step#{kind}.step", "step"))

    def _leave_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._is_ours():
            self._leave(optimizer)


class PassWatcher:
    """Observes the nodes of a pass for the recorder, and forwards to any other observer."""

    def __init__(self, recorder: Recorder, other: Any) -> None:
        self._recorder, self._other = recorder, other
        self._events: list[tuple[Node, Event]] = []

    def arrived(self, node: Node, grads: Any) -> None:
        if self._other is not None:
            self._other.arrived(node, grads)

    def begins(self, node: Node, grads: Any) -> None:
        if self._other is not None:
            self._other.begins(node, grads)
        recorder = self._recorder
        if not recorder.recording:
            return
        recorder.ledger.pause()
        event = recorder.begin(node.name(), "backward")
        if node.code is not None:
            event.place = (node.code, node.lasti)
        event.order, event.backward = -node.order, True
        forward = recorder.ledger.by_node.get(event.order)
        if forward is not None:
            event.module, event.stack = forward.module, forward.stack
        if recorder.shapes:
            event.shapes = [[] if g is None else list(g.shape) for g in grads]
        self._events.append((node, event))
        recorder.ledger.begin(event)

    def gave(self, node: Node, grads: Any, received: Any) -> None:
        if self._other is not None:
            self._other.gave(node, grads, received)

    def ends(self, node: Node, grads: Any, received: Any) -> None:
        if self._events and self._events[-1][0] is node:
            event = self._events.pop()[1]
            if self._recorder.recording:
                self._recorder.ledger.finish(event)
                self._recorder.ledger.go_on()
        if self._other is not None:
            self._other.ends(node, grads, received)


_names: dict[Operation, str] = {}


def name_of(op: Operation) -> str:
    """PyTorch's name of an operation. The table has some by kinds of operands (``pow_scalar``,
    ``plus_number``), whose nodes have the name."""
    name = _names.get(op)
    if name is None:
        plain = re.sub(r"(?<!^)(?=[A-Z])", "_", op.node_name.partition("Backward")[0]).lower()
        by_kind = op.name.startswith(f"{plain}_") or op.name.endswith("_number")
        known = by_kind and op.node_name != "NotImplemented" and "_backward" not in op.name
        name = _names[op] = f"aten::{plain if known else op.name}"
    return name


def _stack() -> tuple[Place, ...]:
    """The user's frames, the innermost first."""
    frames: list[Place] = []
    frame = user_frame(sys._getframe(1))
    while frame is not None:
        frames.append((frame.f_code, frame.f_lasti))
        frame = user_frame(frame.f_back)
    return tuple(frames)
