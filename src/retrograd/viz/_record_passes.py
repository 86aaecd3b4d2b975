"""Recording a backward pass: what came to each node, what its rule used, what it sent on.

The engine tells an observer of every node that it runs (``autograd/_engine.py:visit``). What is
told are the values that the pass itself works with; they are copied or summarised on the spot,
since the engine goes on to add to them and to free them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from retrograd._source import Place
from retrograd.autograd._engine import Root, Task
from retrograd.autograd._history import CopySlices
from retrograd.autograd._node import FREED, AccumulateGrad, Node
from retrograd.autograd._operation_node import OperationNode, Packed
from retrograd.autograd.function import FunctionCtx
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
    arrived: list[Value | None]  # per output, added up
    incoming: list[Value | None] = field(default_factory=list)  # as hooks left it
    parts: list[Part] = field(default_factory=list)
    saved: list[tuple[str, Value | None]] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    outgoing: list[tuple[Node | None, Value | None]] = field(default_factory=list)
    before: Value | None = None  # .grad of a leaf
    after: Value | None = None
    captured: bool = False  # autograd.grad, or inputs=: the gradient was taken out here
    ran: bool = False  # whether the rule came to its end
    complete: bool = True  # whether all values are kept

    def norms(self) -> tuple[float | None, int, int]:
        """The norm of what came in, and how many of its elements are nan and inf."""
        values = [v for v in self.incoming or self.arrived if v is not None]
        norms = [v.norm for v in values if v.norm is not None]
        total = max(norms) if norms else None
        return total, sum(v.nan for v in values), sum(v.inf for v in values)


@dataclass(slots=True)
class Brief:
    """All that is kept of a step beyond the number that are kept whole."""

    node: Node
    norm: float | None
    nan: int
    inf: int
    out_nan: int
    out_inf: int


class PassRecord:
    """One backward pass, as it is told by the engine step by step."""

    def __init__(
        self, roots: Sequence[Root], place: Place, max_elements: int, max_steps: int
    ) -> None:
        self.roots = [(node, number or 0) for node, number, _ in roots]
        self.place = place
        self.steps: list[Step] = []
        self.briefs: dict[int, Brief] = {}  # by the number of the step in the pass
        self.numbers: list[int] = []  # of the steps that are kept
        self.count = 0
        self.memory: list[tuple[Node, int]] = []  # what each node kept before the pass
        self.error: str | None = None
        self.wanted: dict[Node, Any] = {}  # nodes at which gradients are asked for
        self._max_elements = max_elements
        self._max_steps = max_steps
        self._operations = 0
        self._parts: dict[Node, list[Part]] = {}
        self._step: Step | None = None
        self._undo: list[Callable[[], None]] = []
        for node, number, g in roots:
            self._send(None, node, number, self._value(g))

    # -- what the engine tells ---------------------------------------------------------------

    def arrived(self, node: Node, grads: list[Any]) -> None:
        """Gradients have come to a node, before any hook has seen them."""
        parts = self._parts.pop(node, [])
        self._step = Step(node, [self._value(g) for g in grads], parts=parts)
        self._step.captured = bool(self.wanted.get(node))

    def begins(self, node: Node, grads: list[Any]) -> None:
        """The rule of a node is about to run on ``grads``."""
        step = self._step
        assert step is not None
        step.incoming = self._again(step.arrived, grads)
        if isinstance(node, AccumulateGrad):
            self._watch_leaf(step, node)
        else:
            step.options = options_of(node)
            self._watch_saved(step, node)
        self._keep(step)

    def ends(self, node: Node, grads: list[Any], received: Sequence[Any] | None) -> None:
        """A node has run, hooks and all; None: it was only a place to take gradients out."""
        step = self._step
        assert step is not None
        self._undo_all()
        if received is None:
            step.incoming = self._again(step.arrived, grads)
            step.captured = step.ran = True
            self._keep(step)
            return
        step.ran = True
        numbers = node.extras.next_numbers if node.extras is not None else None
        for i, (target, g) in enumerate(zip(node.next_nodes, received, strict=False)):
            value = self._value(g)
            wanted = target is not None and value is not None
            step.outgoing.append((target if wanted else None, value))
            if target is not None and wanted:
                self._send(node, target, numbers[i] if numbers else None, value)
        if isinstance(node, AccumulateGrad) and step.after is None:
            step.after = self._value(node.variable._meta.grad)
        if not step.complete:
            self._shorten(step)

    def close(self) -> None:
        """The pass is over, whether it came to its end or not."""
        self._undo_all()
        self._parts.clear()
        self._step, self.wanted = None, {}

    # -- keeping it --------------------------------------------------------------------------

    def _value(self, g: Any) -> Value | None:
        return Value.of(g, self._max_elements)

    def _again(self, arrived: list[Value | None], grads: list[Any]) -> list[Value | None]:
        """What hooks have left of the gradients; what they left alone is not kept twice."""
        now = [self._value(g) for g in grads]
        pairs = zip(arrived, now, strict=False)
        kept = [a if a is not None and b is not None and b.same_as(a) else b for a, b in pairs]
        return kept if len(kept) == len(now) else now

    def _send(self, sender: Node | None, to: Node, number: int | None, value: Value | None) -> None:
        self._parts.setdefault(to, []).append(Part(sender, number or 0, value))

    def _keep(self, step: Step) -> None:
        leaf = isinstance(step.node, AccumulateGrad)
        self._operations += not leaf
        step.complete = leaf or self._operations <= self._max_steps
        if step.complete:
            self.steps.append(step)
            self.numbers.append(self.count)
        self.count += 1

    def _shorten(self, step: Step) -> None:
        norm, nan, inf = step.norms()
        sent = [value for _, value in step.outgoing if value is not None]
        self.briefs[self.count - 1] = Brief(
            step.node, norm, nan, inf, sum(v.nan for v in sent), sum(v.inf for v in sent)
        )

    # -- looking at what a rule uses ---------------------------------------------------------

    def _undo_all(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _watch_leaf(self, step: Step, node: AccumulateGrad) -> None:
        """Note ``.grad`` before, and after, where hooks may change it before the node is done."""
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
        """Note the values that are saved. One that hooks have packed away is noted when the rule
        has it unpacked: that may be expensive, and not be possible twice."""
        for name, value in saved_values(node):
            if isinstance(value, Packed):
                step.saved.append((name, None))
                self._watch_unpacking(step, len(step.saved) - 1, value)
            elif (found := self._value(value)) is not None:
                step.saved.append((name, found))

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


def saved_values(node: Node) -> Iterator[tuple[str, Any]]:
    """The names of what a node has saved and what is kept under them, packed as it may be."""
    if isinstance(node, CopySlices):
        yield from saved_values(node.write)
    elif node.saved is FREED or node.saved is None:
        return
    elif isinstance(node, OperationNode):
        yield from zip(node.operation.saves, node.saved[::3], strict=True)
    elif isinstance(node, FunctionCtx):
        for i, entry in enumerate(node.saved):
            yield f"saved_tensors[{i}]", entry[0]


def options_of(node: Node) -> dict[str, str]:
    """What an operation was told beside tensors, in few words."""
    found = getattr(node, "options", None) if isinstance(node, OperationNode) else None
    texts = {name: repr(value) for name, value in (found or {}).items()}
    return {n: text for n, text in texts.items() if len(text) <= 80 and " at 0x" not in text}


@contextmanager
def observed(task: Task, record: PassRecord) -> Iterator[None]:
    """Have a pass told to a record."""
    task.observer, record.wanted = record, task.wanted
    try:
        yield
    except BaseException as error:
        record.error = f"{type(error).__name__}: {error}"
        raise
    finally:
        task.observer = None
        record.close()
