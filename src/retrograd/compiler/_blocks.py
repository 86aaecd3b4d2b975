"""Branches and loop bodies, each traced as a program, and the lines that contain these programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from retrograd import arrays
from retrograd._modes import modes, within
from retrograd.autograd._node import AccumulateGrad, orders
from retrograd.autograd._variables import VariableEnd
from retrograd.autograd._wrap import wrap
from retrograd.compiler._control_lines import Control
from retrograd.compiler._passes import name_outputs, names_at
from retrograd.compiler._program import IN_ROWS, Line, Program, Var, in_rows
from retrograd.compiler._traced import Traced
from retrograd.compiler._tracing import TraceLevel
from retrograd.compiler._writer import Block
from retrograd.ops._lifted import Lifted

Fn = Callable[..., Any]


class CannotTrace(RuntimeError):  # noqa: N818 - reads as a statement
    """A branch or a loop body cannot be traced as a program."""


class Blocks:
    """The branches or the body of control flow: functions from tensors to lists of tensors. They
    run in the grad mode in which the control flow was called."""

    def __init__(self, level: TraceLevel, *functions: Fn) -> None:
        self.level = level
        self.functions = functions
        self.grad_enabled = modes.grad_enabled
        self.captured: dict[Any, int] = {}  # memory, and its version

    def derived(self, *functions: Fn) -> Blocks:
        """Functions derived from these, such as gradients, with the same captured memory."""
        for memory, version in self.captured.items():
            if memory.version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    "inplace operation: control flow in a compiled function captured a tensor that "
                    "was written before the derivative was computed"
                )
        result = Blocks(self.level, *functions)
        result.captured = self.captured
        return result


class Part:
    """The lines of one function, the variables of its arguments, and its results."""

    def __init__(
        self, blocks: Blocks, function: Fn, examples: Sequence[tuple[Any, str]],
        owned: int | None = None,
    ) -> None:  # fmt: skip
        """``owned``: how many of the first outputs must be separate arrays; all if None."""
        level = blocks.level
        self.start = next(orders)
        with aside(level) as block:
            self.lines = block
            formals = [Traced(level, value, Var(name, value)) for value, name in examples]
            for x in formals:
                x.memory.block = None  # the function must not write to it
            self.formals = [x.var for x in formals]
            # Other transforms do not apply to these lines.
            with unnoted(), within(grad_enabled=blocks.grad_enabled, levels=(level,)):
                results = function(*[wrap(x) for x in formals])
            self.outputs: list[Var] = []
            self.values: list[Any] = []
            for i, y in enumerate(results):
                self.add_output(level, y, owned is None or i < owned)
        for line in block:
            line.backward = bool(modes.frame.tasks)
        for memory, version in block.captured.items():
            blocks.captured.setdefault(memory, version)
            if memory.block is not level.lines:
                level.lines.captured[memory] = version
        level.lines.known.update(block.known)
        self.made = {v for line in block for v in line.outputs} | {*self.formals}

    def add_output(self, level: TraceLevel, y: Any, owned: bool) -> None:
        """Record a result; ``owned``: as a contiguous array that nothing else refers to."""
        data = y._data
        above = isinstance(data, Lifted) and getattr(data, "level", None) is not level
        if above or leads_outside(y, self.start):
            raise CannotTrace("control flow that captures a tensor by which a higher derivative is "
                              "taken. Pass it as an operand")  # fmt: skip
        if not isinstance(data, Traced):
            data = level.constant(y)
        var, value = data.var, data.value
        is_result = any(var in line.outputs for line in self.lines)
        own = is_result and var.root is var and var not in self.outputs and in_rows(var)
        if owned and not own:
            value = arrays.programs.in_rows(value)
            copy = level.variable(value)
            self.lines.append(Line((copy,), IN_ROWS, (var,), {}, False, (None, 0), False))
            var = copy
        self.outputs.append(var)
        self.values.append(value)

    def free(self) -> list[Var]:
        """The variables from outside that the lines use."""
        used = [v for line in self.lines for v in line.inputs] + self.outputs
        return [v for v in dict.fromkeys(used) if v not in self.made and v.constant is None]

    def program(self, name: str, free: Sequence[Var]) -> Program:
        """A program whose last inputs are variables from outside."""
        own = {v: Var(v.name, v) for v in free}
        roots = {v.root: formal for v, formal in own.items()}
        for line in self.lines:
            line.rename(own)
            for v in line.outputs:
                if v.root not in self.made:
                    v.root = roots.get(v.root, v)
        outputs = [own.get(v, v) for v in self.outputs]
        return Program(name, [*self.formals, *own.values()], self.lines, outputs)


def leads_outside(y: Any, start: int) -> bool:
    """Whether the history of a tensor leads to nodes recorded before, or to a leaf."""
    if y._node is None:
        return bool(y.requires_grad)
    to_visit, seen = [y._node], set()
    while to_visit:
        node = to_visit.pop()
        if node is None or node in seen:
            continue
        if isinstance(node, VariableEnd):
            if node.scope.open:
                return True
        elif node.order > start or isinstance(node, AccumulateGrad):
            return True
        seen.add(node)
        to_visit += node.next_nodes
    return False


def programs_of(parts: Sequence[Part], names: Sequence[str]) -> tuple[list[Program], list[Var]]:
    """Programs of some functions, and the variables from outside that each of them takes."""
    free = list(dict.fromkeys(v for part in parts for v in part.free()))
    return [part.program(n, free) for part, n in zip(parts, names, strict=True)], free


def write(
    blocks: Blocks, operation: Control, args: Sequence[Var], values: Any, hidden: int = 0
) -> tuple[Any, ...]:
    """Write the line of an operation with these results. The last ``hidden`` results are not
    visible to the user."""
    level = blocks.level
    outputs = [Traced(level, value, level.variable(value)) for value in values]
    line = Line(
        tuple([y.var for y in outputs]), operation, tuple(args), {}, True, level.place(4),
        bool(modes.frame.tasks),
    )  # fmt: skip
    if not line.backward:
        name_outputs(line, len(outputs) - hidden, names_at(*line.place))
    level.lines.append(line)
    return tuple([wrap(y) for y in outputs])


def given_in_rows(level: TraceLevel, x: Any) -> tuple[Var, Any]:
    """An argument of a loop, which has to be contiguous, and its value."""
    var, value = level.known(x)
    if in_rows(var):
        return var, value
    value = arrays.programs.in_rows(value)
    copy = level.variable(value)
    level.lines.append(Line((copy,), IN_ROWS, (var,), {}, False, (None, 0),
                            bool(modes.frame.tasks)))  # fmt: skip
    return copy, value


def write_loop(
    blocks: Blocks, operation: Control, pairs: Sequence[tuple[Var, Any]], free: Sequence[Var],
    hidden: int = 0,
) -> tuple[Any, ...]:  # fmt: skip
    """Run a loop on the current values, and write its line."""
    known = blocks.level.lines.known
    results = operation.run(*[value for _, value in pairs], *[known[v] for v in free])
    return write(blocks, operation, [*[var for var, _ in pairs], *free], results, hidden)


def restore(level: TraceLevel, states: Sequence[Any]) -> None:
    """Set random generators back, without recording that their state was set."""
    for g, state in zip(level.generators, states, strict=True):
        type(g).restore(g, state)


def unnoted() -> Any:
    """A context in which rehearsals do not record the operands of operations."""
    others = [x for x in modes.interceptors if not getattr(x, "notes", False)]
    return within(interceptors=tuple(others))


@contextmanager
def aside(level: TraceLevel) -> Iterator[Block]:
    """A context in which lines are written to a separate block."""
    outer = level.lines
    block = level.lines = level.block()
    try:
        yield block
    finally:
        level.lines = outer
