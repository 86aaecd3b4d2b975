"""Writes the lines and variables of a program, with the user's code they come from.

``ProgramWriter`` is the half of tracing that knows nothing of operations; ``_tracing.TraceLevel``
is the other half.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd._source import Place, user_place
from retrograd.compiler._program import Kernel, Line, Step, Var
from retrograd.compiler._traced import Traced
from retrograd.ops._lifted import Level, Lifted, LooksAtValues
from retrograd.ops._operation import TensorLike, raw


class Block(list[Line]):
    """Lines in the order that they are done: of a function, or of a branch or a body inside of it.
    What is inside of others has a higher number."""

    __slots__ = ("captured", "known", "number")

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.captured: dict[Any, int] = {}  # memory from outside, and how often it had changed
        self.known: dict[Var, Any] = {}  # variables from outside, and their values

    def note_captured(self, x: Traced) -> None:
        """Note that these lines use a value from outside."""
        self.known[x._var] = x.value
        if x.memory.block is not None:
            self.captured[x.memory] = x.memory.version


class WritesOutside(Exception):  # noqa: N818 - it says what code does
    """A branch or a body is about to write a tensor that it did not make."""


class ProgramWriter(Level):
    """A level with the lines of a program that is being written."""

    __slots__ = (
        "_blocks",
        "_constants",
        "_count",
        "checked",
        "checking",
        "explains",
        "kept",
        "lines",
        "looked",
        "node",
        "thread",
        "unknown",
    )

    def __init__(self) -> None:
        super().__init__()
        self._blocks = 0
        self.lines = self.block()
        self.node: Any = None  # of the graph, whose rules are running
        self.looked: tuple[str, Place] | None = None  # at which value, first, and where
        self.unknown: list[Any] = []  # tensors that came from nowhere that was looked at before
        self.kept: list[Any] = []  # arrays that constants were made of, so that ids stay theirs
        self._constants: dict[int, Var] = {}
        self._count = 0
        self.checking = False  # what is looked at now is no more than checked
        self.checked = False
        self.explains = True  # whether errors of backward passes say where they come from
        self.thread = threading.get_ident()

    @property
    def closed(self) -> bool:
        """Whether the trace has ended, or this thread has no part in it, so that values are as
        after the end."""
        opened_by = self.opened_by
        if opened_by is not None and opened_by() is None:
            return True
        if threading.get_ident() == self.thread:
            return False
        frame: Any = modes.frame
        while frame is not None:  # a pass that the trace runs in a thread of its own has a part
            if any(self in state.levels for state in frame.states):
                return False
            frame = frame.outer
        return True

    # -- lines ---------------------------------------------------------------------------------

    def block(self) -> Block:
        """New lines, inside of those that are being written."""
        self._blocks += 1
        return Block(self._blocks)

    def check_inside(self, memory: Any) -> None:
        """WritesOutside if some memory does not belong to the lines that are being written."""
        if memory.block is not self.lines:
            raise WritesOutside

    # -- the user's code -----------------------------------------------------------------------

    def place(self, depth: int) -> Place:
        """The user's line that the program is at: in a backward pass, that of the node."""
        if self.node is not None and self.node.code is not None:
            return (self.node.code, self.node.lasti)
        return user_place(depth + 1)

    def watch_pass(self, task: Any, loop: Callable[[Any], Any]) -> Any:
        """Run a backward pass, and follow which node runs."""
        task.observer = self
        outer = self.node
        try:
            return loop(task)
        finally:
            self.node = outer

    def arrived(self, node: Any, grads: Any) -> None:
        self.node = node

    def begins(self, node: Any, grads: Any) -> None:
        self.node = node

    def gave(self, node: Any, grads: Any, received: Any) -> None:
        """The rules of a node have run, which ``ends`` says again."""

    def ends(self, node: Any, grads: Any, received: Any) -> None:
        """What is done from here on is done for the next node."""

    def look(self, how: str) -> None:
        """Note that a value was looked at: the program would depend on it."""
        if self.checking:
            self.checked = True
        elif self.looked is None:
            self.looked = (how, user_place(3))

    def check(
        self, check: Callable[..., None], values: Sequence[Any], options: dict[str, Any]
    ) -> None:
        """What an operation refuses. If that depends on values, the check is a line, too."""
        self.checking, self.checked = True, False
        try:
            check(*values, **options)
        except LooksAtValues:
            return
        finally:
            self.checking = False
        if not self.checked or any_above(self, [*values, *options.values()]):
            return
        named = {name: self.known(x)[0] for name, x in options.items()}
        args = tuple([self.known(x)[0] for x in values])
        self.lines.append(Line((), Kernel("check", check), args, named, False, self.place(3),
                               bool(modes.frame.tasks)))  # fmt: skip

    def check_values(self, check: Callable[..., None], args: Sequence[Any]) -> bool:
        """Call a check of values, as a line. False if they are above this level."""
        if any_above(self, args):
            return False
        pairs = [self.known(x) for x in args]
        check(*[v for _, v in pairs])
        kernel = Kernel(check.__name__.lstrip("_"), check)
        self.lines.append(Line((), kernel, tuple([p for p, _ in pairs]), {}, False, self.place(3),
                               bool(modes.frame.tasks)))  # fmt: skip
        return True

    # -- variables ---------------------------------------------------------------------------

    def variable(self, value: Any, root: Var | None = None) -> Var:
        self._count += 1
        return Var(f"t{self._count}", value, root)

    def given(self, value: Any, name: str) -> Traced:
        """A traced value that is an input of the program."""
        return Traced(self, value, Var(name, value))

    def constant_of(self, value: Any) -> Var:
        """The variable of an array that is the same in every run."""
        var = self._constants.get(id(value))
        if var is None:
            var = Var(f"c{len(self._constants)}", value)
            var.constant = value
            self._constants[id(value)] = var
            self.kept.append(value)
        return var

    def made(self, value: Any) -> Traced:
        """A traced value that holds a new array, which may be written: the constant is a copy."""
        return Traced(self, value, self.constant_of(arrays.copy(value)))

    def constant(self, x: Any) -> Traced:
        data = raw(x)
        if isinstance(data, Traced):
            if data.level is self:
                return data
            data = data.value
        if isinstance(x, TensorLike):
            if getattr(x, "requires_grad", False):
                raise RuntimeError(
                    "compile: the function uses a tensor that requires grad, but that was not "
                    "found among its arguments, its closure, its globals, or their attributes. "
                    "Pass it as an argument."
                )
            self.unknown.append(x)
        return Traced(self, data, self.constant_of(data))

    def known(self, x: Any) -> tuple[Any, Any]:
        """An argument as the program has it, and its value."""
        kind = type(x)
        if kind is Traced and x.level is self:
            return x.var, x.value
        if kind in (list, tuple):
            pairs = [self.known(part) for part in x]
            return kind([p for p, _ in pairs]), kind([v for _, v in pairs])
        if isinstance(x, TensorLike) or kind is Traced:
            traced = self.constant(x)
            return traced.var, traced.value
        if arrays.is_raw(x):
            return self.constant_of(x), x
        return x, x

    def viewed(self, var: Var, step: Step, value: Any, block: Any) -> Var:
        """The line that takes a view of what some memory holds now; ``value`` is that view. It goes
        where the memory was written, so that all that follows knows the view."""
        several = step.number is not None
        view = self.variable(value, var.root)
        operation: Any = step.operation
        if several:
            operation = Kernel(f"{operation.name}_{step.number}", step)
            operation.view = True
        block.append(Line((view,), operation, (var,), {} if several else step.options, False,
                          self.place(3), bool(modes.frame.tasks)))  # fmt: skip
        return view


def any_above(level: Level, values: Sequence[Any]) -> bool:
    """Whether some values belong to transforms inside of a function that is traced."""
    for x in values:
        if type(x) in (list, tuple):
            if any_above(level, x):
                return True
        elif isinstance(raw(x), Lifted) and raw(x).level is not level:
            return True
    return False
