"""Writes the lines and variables of a program, and records the user's code that they come from.

``ProgramWriter`` is the part of tracing that does not depend on operations;
``_tracing.TraceLevel`` is the other part.
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
from retrograd.ops import copies
from retrograd.ops._lifted import Level, Lifted, LooksAtValues
from retrograd.ops._operation import TensorLike, raw


class Block(list[Line]):
    """The lines of a function, of a branch or of a loop body, in order. Nested blocks have higher
    numbers."""

    __slots__ = ("captured", "known", "number")

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.captured: dict[Any, int] = {}  # memory from outside, and its version
        self.known: dict[Var, Any] = {}  # variables from outside, and their values

    def note_captured(self, x: Traced) -> None:
        """Record that these lines use a value from outside."""
        self.known[x._var] = x.value
        if x.memory.block is not None:
            self.captured[x.memory] = x.memory.version


class WritesOutside(Exception):  # noqa: N818 - reads as a statement
    """A branch or a loop body is about to write to a tensor from outside."""


class ProgramWriter(Level):
    """A level that writes the lines of a program."""

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
        self.node: Any = None  # the node of the graph whose rules are running
        self.looked: tuple[str, Place] | None = None  # how and where a value was first read
        self.unknown: list[Any] = []  # tensors that the guards do not know
        self.kept: list[Any] = []  # the arrays of constants, to keep their ids valid
        self._constants: dict[int, Var] = {}
        self._count = 0
        self.checking = False  # whether a check of operands is running
        self.checked = False
        self.explains = True  # whether errors of backward passes include a location
        self.thread = threading.get_ident()

    @property
    def closed(self) -> bool:
        """Whether the trace has ended, or this thread does not take part in it."""
        opened_by = self.opened_by
        if opened_by is not None and opened_by() is None:
            return True
        if threading.get_ident() == self.thread:
            return False
        frame: Any = modes.frame
        while frame is not None:  # a backward pass of the trace may run in another thread
            if any(self in state.levels for state in frame.states):
                return False
            frame = frame.outer
        return True

    # -- lines ---------------------------------------------------------------------------------

    def block(self) -> Block:
        """A new block, nested in the current one."""
        self._blocks += 1
        return Block(self._blocks)

    def check_inside(self, memory: Any) -> None:
        """Raise WritesOutside if some memory does not belong to the current block."""
        if memory.block is not self.lines:
            raise WritesOutside

    # -- the user's code -----------------------------------------------------------------------

    def place(self, depth: int) -> Place:
        """The line of the user's code that is running; in a backward pass, that of the node."""
        if self.node is not None and self.node.code is not None:
            return (self.node.code, self.node.lasti)
        return user_place(depth + 1)

    def watch_pass(self, task: Any, loop: Callable[[Any], Any]) -> Any:
        """Run a backward pass, and record which node is running."""
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
        """The rules of a node have run. Nothing to do: ``ends`` follows."""

    def ends(self, node: Any, grads: Any, received: Any) -> None:
        """A node has ended. Nothing to do: the next one begins."""

    def look(self, how: str) -> None:
        """Record that a value was read: the program would depend on it."""
        if self.checking:
            self.checked = True
        elif self.looked is None:
            self.looked = (how, user_place(3))

    def fail(self) -> None:
        """Record that an operation raises an exception, which the function may handle: with other
        values it may raise none."""
        self.look("an operation that raises an exception")

    def check(
        self, check: Callable[..., None], values: Sequence[Any], options: dict[str, Any]
    ) -> None:
        """Check the operands of an operation. If the check reads values, it becomes a line."""
        self.checking, self.checked = True, False
        try:
            check(*values, **options)
        except LooksAtValues:
            return
        except Exception:
            self.checking = False
            if self.checked:
                self.fail()
            raise
        finally:
            self.checking = False
        if not self.checked or any_above(self, [*values, *options.values()]):
            return
        named = {name: self.known(x)[0] for name, x in options.items()}
        args = tuple([self.known(x)[0] for x in values])
        self.lines.append(Line((), Kernel("check", check), args, named, False, self.place(3),
                               bool(modes.frame.tasks)))  # fmt: skip

    def check_values(self, check: Callable[..., None], args: Sequence[Any]) -> bool:
        """Call a check of values, and write a line that does so. False if some values belong to
        transforms inside the traced function."""
        if any_above(self, args):
            return False
        pairs = [self.known(x) for x in args]
        try:
            check(*[v for _, v in pairs])
        except Exception:
            self.fail()
            raise
        kernel = Kernel(check.__name__.lstrip("_"), check)
        self.lines.append(Line((), kernel, tuple([p for p, _ in pairs]), {}, False, self.place(3),
                               bool(modes.frame.tasks)))  # fmt: skip
        return True

    # -- variables ---------------------------------------------------------------------------

    def variable(self, value: Any, root: Var | None = None) -> Var:
        self._count += 1
        return Var(f"t{self._count}", value, root)

    def copied(self, var: Var, copy: Any, operation: Any = copies.clone, *like: Var) -> Var:
        """Write a line that copies a variable, for ``IN_LAYOUT`` in the layout of ``like``, and
        return the variable of the copy, whose value is ``copy``."""
        result = self.variable(copy)
        self.lines.append(Line((result,), operation, (var, *like), {}, False, (None, 0),
                               bool(modes.frame.tasks)))  # fmt: skip
        return result

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
        """A traced value of a new array, which may be written to. The constant is a copy."""
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
        """An argument as a variable or a constant of the program, and its value."""
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
        """Write a line that takes a view of the current contents of some memory; ``value`` is the
        view. The line belongs to the block of the memory, where nested blocks see it, too."""
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
    """Whether some values belong to transforms inside a traced function."""
    for x in values:
        if type(x) in (list, tuple):
            if any_above(level, x):
                return True
        elif isinstance(raw(x), Lifted) and raw(x).level is not level:
            return True
    return False
