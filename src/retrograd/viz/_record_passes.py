"""Records a backward pass: the gradients and saved values of each node.

The engine notifies an observer of every node that it runs (``autograd/_engine.py:visit``), with the
values that the pass itself works with. They are copied or summarised at once, since the engine adds
to them and frees them later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from retrograd import arrays
from retrograd._source import Place
from retrograd.autograd._engine import Root, Task
from retrograd.autograd._explaining._singular import cause_in_pass, note_infinity
from retrograd.autograd._node import NOWHERE, AccumulateGrad, Node
from retrograd.autograd._operation_node import OperationNode
from retrograd.autograd._saved import Packed
from retrograd.ops._operation import raw
from retrograd.viz import _facts
from retrograd.viz._pass_errors import PassError
from retrograd.viz._record_updates import Update
from retrograd.viz._values import Value


@dataclass(slots=True)
class Part:
    """A gradient that one node sent to another."""

    sender: Node | None  # None: the gradient that the pass was started with
    number: int  # for which output of the receiver
    value: Value | None


@dataclass(slots=True)
class Step:
    """One node of a pass."""

    node: Node
    arrived: list[Value | None]  # per output, summed
    incoming: list[Value | None] = field(default_factory=list)  # as hooks left it
    parts: list[Part] = field(default_factory=list)
    saved: list[tuple[str, Value | None]] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    outgoing: list[tuple[Node | None, Value | None]] = field(default_factory=list)
    before: Value | None = None  # .grad of a leaf
    after: Value | None = None
    captured: bool = False  # the gradient was captured here, by autograd.grad or inputs=
    ran: bool = False  # whether the rule completed

    def norms(self) -> tuple[float | None, int, int]:
        """The norm of what arrived, and how many of its elements are nan and inf."""
        values = [v for v in self.incoming or self.arrived if v is not None]
        norms = [v.norm for v in values if v.norm is not None]
        total = max(norms) if norms else None
        return total, sum(v.nan for v in values), sum(v.inf for v in values)


class PassRecord:
    """One backward pass, as the engine reports it step by step."""

    def __init__(
        self, roots: Sequence[Root], place: Place, max_elements: int, max_steps: int
    ) -> None:
        self.roots = [(node, number or 0) for node, number, _ in roots]
        self.place = place
        self.steps: list[Step] = []
        self.numbers: list[int] = []  # of the steps that are kept, in the pass
        self.count = 0
        # Of the steps that are not kept, the first that passed on a nan or an inf: node and number.
        self.first_late: dict[str, tuple[Node, int]] = {}
        self.why: dict[str, list[str]] = {}  # the causes of the first nan and the first inf
        self.causes: dict[Node, list[str]] = {}  # those of values of the forward run
        self.memory: list[tuple[Node, int]] = []  # the bytes that each node kept before the pass
        self.leaf_values: dict[Node, Value | None] = {}  # as the forward run had them
        self.updates: list[Update] = []  # steps of optimizers after the pass
        self.error: PassError | None = None
        self.running: Node | None = None
        self.wanted: dict[Node, Any] = {}  # nodes at which gradients are captured
        self._max_elements = max_elements
        self.max_steps = max_steps
        self._operations = 0
        self._parts: dict[Node, list[Part]] = {}
        self._step: Step | None = None  # the one that is running; None if it is not kept
        self._gave: tuple[Any, list[Value | None]] = (None, [])  # what it gave, and the values
        self._users_code_ran = False
        self._undo: list[Callable[[], None]] = []
        for node, number, g in roots:
            self._send(None, node, number, self._value(g))

    # -- what the engine tells ---------------------------------------------------------------

    def arrived(self, node: Node, grads: list[Any]) -> None:
        """Gradients have arrived at a node, before any hook has seen them. (At NOWHERE they end,
        and nothing is recorded.)"""
        parts = self._parts.pop(node, [])
        self._step, self.running = None, node
        if node is NOWHERE:
            return
        if not isinstance(node, AccumulateGrad):
            self._operations += 1
            if self._operations > self.max_steps:
                return
        values = [self._arrived(parts, number, g) for number, g in enumerate(grads)]
        self._step = Step(node, values, parts=parts, captured=bool(self.wanted.get(node)))

    def begins(self, node: Node, grads: list[Any]) -> None:
        """The rule of a node is about to run on ``grads``."""
        if node is NOWHERE:
            return
        step = self._step
        if step is not None:
            step.incoming = self._after_hooks(step, grads)
            if isinstance(node, AccumulateGrad):
                self._watch_leaf(step, node)
            else:
                step.options = options_of(node)
                self._watch_saved(step, node)
        self._count(step)

    def gave(self, node: Node, grads: list[Any], received: Sequence[Any]) -> None:
        """The rules of a node have run; what it has saved is still there."""
        values = [self._value(g) for g in received] if self._step is not None else []
        self._gave = received, values
        if len(self.why) == 2 or node is NOWHERE or all(v is None or v.finite for v in values):
            return
        gradients = [raw(g) for g in grads]
        for g in filter(arrays.is_raw, map(raw, received)):
            if "nan" not in self.why and arrays.isnan(g).any():
                self.why["nan"] = cause_in_pass(self, node, g, gradients)
            if "inf" not in self.why and arrays.isinf(g).any():
                note_infinity(self, node, [g], gradients)
                self.why["inf"] = cause_in_pass(self, node, g, gradients)

    def ends(self, node: Node, grads: list[Any], received: Sequence[Any] | None) -> None:
        """A node and its hooks have run; None: gradients were only captured there."""
        if node is NOWHERE:
            return
        step = self._step
        self._undo_all()
        self._users_code_ran = self._users_code_ran or runs_users_code(node)
        if received is None:
            if step is not None:
                step.incoming = self._after_hooks(step, grads)
                step.captured = step.ran = True
            self._count(step)
        elif step is None:
            self._pass_on(node, received)
        else:
            step.ran = True
            gave, values = self._gave
            if gave is not received or _has_hooks(node):
                values = [self._value(g) for g in received]
            step.outgoing = [
                (to, self._send(node, to, number, value))
                for (to, number, _), value in zip(sent(node, received), values, strict=False)
            ]
            if isinstance(node, AccumulateGrad) and step.after is None:
                step.after = self._value(node.variable._meta.grad)

    def close(self) -> None:
        """The pass is over, completed or not."""
        self._undo_all()
        self._parts.clear()
        self._step, self.running, self.wanted, self._gave = None, None, {}, (None, [])

    # -- keeping it --------------------------------------------------------------------------

    def _value(self, g: Any) -> Value | None:
        return Value.of(g, self._max_elements)

    def _arrived(self, parts: list[Part], number: int, g: Any) -> Value | None:
        """What has arrived for an output. A single part was recorded when it was sent, and is
        unchanged, unless the user's code has a reference to it and has written to it."""
        own = [part.value for part in parts if part.number == number]
        if len(own) == 1 and own[0] is not None:
            if not self._users_code_ran:
                return own[0]
            return self._value_or(own[0], g)
        return self._value(g)

    def _after_hooks(self, step: Step, grads: list[Any]) -> list[Value | None]:
        """The gradients after hooks; unchanged ones are not stored twice."""
        extras = step.node.extras
        if extras is None or not (extras.tensor_hooks or extras.pre_hooks):
            return step.arrived
        pairs = zip(step.arrived, grads, strict=True)
        return [self._value_or(before, g) for before, g in pairs]

    def _value_or(self, known: Value | None, g: Any) -> Value | None:
        """The value of a gradient: the known one, if it is the same."""
        value = self._value(g)
        same = known is not None and value is not None and value.same_as(known)
        return known if same else value

    def _send(
        self, sender: Node | None, to: Node | None, number: int | None, value: Value | None
    ) -> Value | None:
        if to is not None:
            self._parts.setdefault(to, []).append(Part(sender, number or 0, value))
        return value

    def _count(self, step: Step | None) -> None:
        if step is not None:
            self.steps.append(step)
            self.numbers.append(self.count)
        self.count += 1

    def _pass_on(self, node: Node, received: Sequence[Any]) -> None:
        """A step that is not kept. Leaves are kept, and need to know what arrived at them; and the
        first NaN and Inf are reported."""
        for to, number, g in sent(node, received):
            if isinstance(to, AccumulateGrad):
                self._send(node, to, number, self._value(g))
            array = raw(g)
            usual = not arrays.is_raw(array) or array.dtype.kind not in "fcV"
            if len(self.first_late) == 2 or usual or arrays.isfinite(array).all():
                continue
            for kind, is_kind in (("nan", arrays.isnan), ("inf", arrays.isinf)):
                if is_kind(array).any():
                    self.first_late.setdefault(kind, (node, self.count - 1))

    # -- looking at what a rule uses ---------------------------------------------------------

    def _undo_all(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _watch_leaf(self, step: Step, node: AccumulateGrad) -> None:
        """Record ``.grad`` before and after, since hooks may change it before the node is done."""
        meta = node.variable._meta
        step.before = self._value(meta.grad)
        if not meta.post_hooks:
            return
        hooks, key = meta.post_hooks, object()

        def look(leaf: Any) -> None:
            step.after = self._value(leaf._meta.grad)

        hooks[key] = look
        hooks.move_to_end(key, last=False)
        self._undo.append(lambda: hooks.pop(key, None))

    def _watch_saved(self, step: Step, node: Node) -> None:
        """Record the saved values. One that hooks have packed is recorded when the rule unpacks it:
        unpacking may be expensive, or possible only once."""
        for name, value, *_ in _facts.entries_of(node):
            if isinstance(value, Packed):
                step.saved.append((name, None))
                self._watch_unpacking(step, len(step.saved) - 1, value)
            elif (result := self._value(value)) is not None:
                step.saved.append((name, result))

    def _watch_unpacking(self, step: Step, place: int, packed: Packed) -> None:
        unpack, name = packed.unpack, step.saved[place][0]

        def look(kept: Any) -> Any:
            value = unpack(kept)
            step.saved[place] = (name, self._value(value))
            return value

        packed.unpack = look

        def undo() -> None:
            packed.unpack = unpack

        self._undo.append(undo)


def runs_users_code(node: Node) -> bool:
    """Whether a node runs code of the user, which may modify its arguments."""
    if isinstance(node, AccumulateGrad):
        meta = node.variable._meta
        return bool(meta.hooks or meta.post_hooks) or _has_hooks(node)
    return _has_hooks(node) or not isinstance(node, OperationNode)


def _has_hooks(node: Node) -> bool:
    extras = node.extras
    return extras is not None and bool(
        extras.tensor_hooks or extras.pre_hooks or extras.post_hooks or extras.packed
    )


def sent(node: Node, received: Sequence[Any]) -> Iterator[tuple[Node | None, int | None, Any]]:
    """Where the results of a node go: None if they are not needed, or there are none."""
    numbers = node.extras.next_numbers if node.extras is not None else None
    for i, (target, g) in enumerate(zip(node.next_nodes, received, strict=False)):
        yield (None if g is None else target), (numbers[i] if numbers else None), g


def options_of(node: Node) -> dict[str, str]:
    """The options of an operation as short text."""
    result = getattr(node, "options", None) if isinstance(node, OperationNode) else None
    texts = {name: repr(value) for name, value in (result or {}).items()}
    return {n: text for n, text in texts.items() if len(text) <= 80 and " at 0x" not in text}


@contextmanager
def observed(task: Task, record: PassRecord) -> Iterator[None]:
    """Let a record observe a pass."""
    task.observer, record.wanted = record, task.wanted
    try:
        yield
    except BaseException as error:
        record.error = PassError.of(error, record.running, record.place)
        raise
    finally:
        task.observer = None
        record.close()
