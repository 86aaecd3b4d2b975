"""Rehearsals determine what branches and loop bodies return and capture.

In a rehearsal a function runs on its operands, and the lines that this writes are discarded. An
interceptor sees which tensors its operations use. It records those from outside that have a history
or belong to a transform: they are captured. Afterwards the function can run with other tensors in
their place (``Closed``), as transforms and derivatives of control flow do.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.autograd._node import orders
from retrograd.autograd._variables import VariableEnd
from retrograd.autograd._wrap import wrap
from retrograd.compiler._blocks import CannotTrace, aside, restore
from retrograd.compiler._control_lines import Control
from retrograd.compiler._program import Line
from retrograd.compiler._traced import Traced
from retrograd.compiler._tracing import TraceLevel
from retrograd.compiler._writer import Block, WritesOutside
from retrograd.func._captured import captured_by
from retrograd.func._trees import Shape, flatten, unflatten
from retrograd.ops._lifted import Lifted, tracer
from retrograd.ops._operation import raw
from retrograd.tensor._calls import apply
from retrograd.tensor._tensor import Tensor
from retrograd.utils.checkpoint._interception import Interceptor

Tensors = Sequence[Any]
Fn = Callable[..., Any]
CONTENTS = ("_data", "_node", "_meta", "_version_counter")  # of a Tensor


class Failed(Exception):  # noqa: N818 - reads as a statement
    """A function raised an exception in a rehearsal."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Rehearsal:
    """A run of a function whose lines are discarded: what it returns, which tensors it captures,
    and whether it draws random numbers."""

    def __init__(self, level: TraceLevel, function: Fn, leaves: Tensors, shape: Shape) -> None:
        states = [g.saved() for g in level.generators]
        reached = list(captured_by(function))
        outside = [
            (x, x._version, arrays.copy(x._data))
            for x in reached
            if not isinstance(raw(x), Lifted)
        ]
        with aside(level) as block:
            # New tensors, because the function may also capture those in ``leaves``.
            operands = [x.detach() for x in leaves]
            noting = Noting(level, block, operands, reached)
            try:
                with noting:
                    self.output = function(*unflatten(operands, shape))
                noting.note_all(flatten(self.output)[0])
            except (WritesOutside, CannotTrace):
                raise
            except Exception as error:
                raise Failed(error) from error
            finally:
                restore(level, states)
            written = [(x, data) for x, version, data in outside if x._version != version]
            for x, data in written:
                x._data = data
            if written:
                raise WritesOutside
            self.draws = any(draws(line) for line in block)
        self.captured = list(noting.captured.values())
        self.leaves, self.shape = flatten(self.output)
        self.tensors = [x for x in self.leaves if isinstance(x, Tensor)]

    def filled(self, tensors: Tensors) -> Any:
        """The result of the function, with its tensors replaced."""
        remaining = iter(tensors)
        return unflatten(
            [next(remaining) if isinstance(x, Tensor) else x for x in self.leaves], self.shape
        )


class Noting(Interceptor):
    """Records the tensors from outside that operations use, if they have a history or belong to a
    transform."""

    notes = True

    def __init__(
        self, level: TraceLevel, block: Block, operands: Tensors, reached: Sequence[Any]
    ) -> None:
        """``reached``: the tensors that can be reached from the function."""
        self.reached = {id(x): x for x in reached}
        self.kept = [x._data for x in reached]  # keeps the ids valid
        self.holding: dict[int, list[Any]] = {}  # tensors, by the value that they hold
        for x in reached:
            self.holding.setdefault(id(x._data), []).append(x)
        self.level = level
        self.block = block
        self.start = next(orders)  # nodes created from here on have lower numbers
        self.levels = modes.levels  # of transforms; others are opened inside
        self.made = {id(x): x for x in operands}
        self.captured: dict[int, Any] = {}

    def handle(self, op: Any, args: Sequence[Any], options: dict[str, Any], computed: Any) -> Any:
        self.note_all(flatten((list(args), options))[0])
        result = apply(op, args, options, computed)
        for y in result if isinstance(result, (tuple, list)) else [result]:
            self.made[id(y)] = y
        return result

    def note_all(self, values: Sequence[Any]) -> None:
        """Record values, and captured tensors with the same values: transforms and custom Functions
        put values into new tensors."""
        to_visit = [x for x in values if isinstance(x, (Tensor, Lifted))]
        while to_visit:
            x = to_visit.pop()
            self.note(x)
            data = raw(x)
            if id(x) not in self.reached:
                for other in self.holding.get(id(data), ()):
                    self.note(other)
            if isinstance(data, Lifted) and data.level not in self.levels:
                to_visit += [part for part in data.parts if part is not None]

    def custom_args(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Record the arguments of a custom Function."""
        self.note_all(flatten(args)[0])
        return args

    def detach(self, x: Any, detached: Fn) -> Any:
        self.note(x)
        result = detached(x)
        self.made[id(result)] = result
        return result

    def note(self, x: Any) -> None:
        if id(x) in self.made or id(x) in self.captured:
            return
        value = replaced(x)  # by enclosing control flow
        node = origin(value) if isinstance(value, Tensor) else None
        if node is not None and node.order < self.start:
            return
        bottom = at_bottom(value)
        if isinstance(bottom, Traced):
            block = bottom.memory.block
            if block is not None and block.number >= self.block.number:
                return
        level = raw(value).level if isinstance(raw(value), Lifted) else None
        if level is not None and level not in self.levels:
            return
        if has_history(value) or level not in (None, self.level):
            self.captured[id(x)] = x


def origin(x: Any) -> Any:
    """The node that computed a tensor. For a variable of a transform, the node where its gradient
    ends."""
    if x._node is None and x._meta is not None and x._meta.ending is not None:
        end = x._meta.ending()
        return end if isinstance(end, VariableEnd) else None
    return x._node


def at_bottom(x: Any) -> Any:
    """The innermost value of a tensor."""
    x = raw(x)
    while isinstance(x, Lifted) and not isinstance(x, Traced):
        x = raw(x.inner)
    return x


def has_history(x: Any) -> bool:
    """Whether a tensor, or a part of its value, requires grad."""
    to_visit = [x]
    while to_visit:
        x = to_visit.pop()
        if isinstance(x, Tensor) and x.requires_grad:
            return True
        data = raw(x)
        if isinstance(data, Lifted) and not isinstance(data, Traced):
            to_visit += [part for part in data.parts if part is not None]
    return False


def captured_in(rehearsals: Sequence[Rehearsal]) -> tuple[list[Any], list[Any]]:
    """All values that functions captured, without duplicates, and the tensors to pass for them.
    Enclosing rehearsals record them, too."""
    captured = list({id(x): x for rehearsal in rehearsals for x in rehearsal.captured}.values())
    for noting in modes.interceptors:
        if isinstance(noting, Noting):
            for x in captured:
                noting.note(x)
    values = [replaced(x) for x in captured]
    return captured, [x if isinstance(x, Tensor) else wrap(x) for x in values]


def check_numbers(these: Sequence[Any], those: Sequence[Any]) -> None:
    """CannotTrace if two branches return different Python values."""
    for a, b in zip(these, those, strict=True):
        if not isinstance(a, Tensor) and a != b:
            raise CannotTrace(f"cond(), whose branches return {a} and {b}. Return tensors")


def check_random(rehearsals: Sequence[Rehearsal], inputs: Tensors) -> None:
    """CannotTrace if a derivative would have to draw the same random numbers again."""
    if any(rehearsal.draws for rehearsal in rehearsals) and any(
        has_history(x) or not isinstance(raw(x), (Traced, arrays.ndarray)) for x in inputs
    ):
        raise CannotTrace("random numbers in control flow that is differentiated or vectorized. "
                          "Draw them outside, and pass them in")  # fmt: skip


def draws(line: Line) -> bool:
    return line.draws if not isinstance(line.operation, Control) else any(
        draws(x) for program in line.operation.programs for x in program.lines
    )  # fmt: skip


# -- functions without captured tensors --------------------------------------------------------


def frozen(function: Any, known: dict[int, Any] | None = None) -> Any:
    """A copy of a function that keeps the present values of its captured variables, including those
    of captured functions. A derivative calls it later, when a loop may have changed them."""
    known = {} if known is None else known
    if id(function) in known:
        return known[id(function)]
    if isinstance(function, functools.partial):
        inner = frozen(function.func, known)
        return functools.partial(inner, *function.args, **function.keywords)
    if not isinstance(function, types.FunctionType) or not function.__closure__:
        return function
    cells = tuple([types.CellType() for _ in function.__closure__])
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )
    copy.__kwdefaults__, copy.__dict__ = function.__kwdefaults__, function.__dict__
    known[id(function)] = copy
    for cell, old in zip(cells, function.__closure__, strict=True):
        try:
            cell.cell_contents = frozen(old.cell_contents, known)
        except ValueError:  # the variable has no value yet
            continue
    return copy


class Closed:
    """A function of tensors whose last arguments replace the tensors it captured."""

    def __init__(self, function: Fn, shape: Shape, captured: Sequence[Any]) -> None:
        self.function = function
        self.shape = shape
        self.captured = captured
        self.count = shape.leaf_count

    def __call__(self, *inputs: Any) -> list[Any]:
        level = tracer()
        node, level.node = level.node, None  # lines refer to the source of the function
        try:
            with Replacing(self.captured, inputs[self.count :]) as replacing, replacing.held():
                result = self.function(*unflatten(inputs[: self.count], self.shape))
                return [replaced(x) for x in flatten(result)[0] if isinstance(x, Tensor)]
        finally:
            level.node = node


class Replacing(Interceptor):
    """A context in which operations get other values in place of captured ones. In ``held``, the
    captured tensors hold these values, so that transforms and custom Functions use them, too."""

    def __init__(self, captured: Sequence[Any], values: Tensors) -> None:
        self.kept = captured  # keeps the ids valid
        self.new = {
            id(x): value if isinstance(x, Tensor) else value._data
            for x, value in zip(captured, values, strict=True)
        }

    def handle(self, op: Any, args: Sequence[Any], options: dict[str, Any], computed: Any) -> Any:
        leaves, shape = flatten((list(args), options))
        new = self.new
        args, options = unflatten([new.get(id(x), x) for x in leaves], shape)
        return apply(op, args, options, computed)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A context in which the captured tensors hold the other values."""
        tensors = [x for x in self.kept if isinstance(x, Tensor)]
        before = [[getattr(x, name) for name in CONTENTS] for x in tensors]
        for x in tensors:
            for name in CONTENTS:
                setattr(x, name, getattr(self.new[id(x)], name))
        try:
            yield
        finally:
            for x, contents in zip(tensors, before, strict=True):
                for name, value in zip(CONTENTS, contents, strict=True):
                    setattr(x, name, value)

    def custom_args(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a custom Function, with captured ones replaced."""
        return tuple([self.new.get(id(x), x) for x in args])

    def detach(self, x: Any, detached: Fn) -> Any:
        return detached(self.new.get(id(x), x))


def replaced(x: Any) -> Any:
    """The value that operations in a ``Closed`` function get in place of this one."""
    for interceptor in reversed(modes.interceptors):
        if isinstance(interceptor, Replacing):
            x = interceptor.new.get(id(x), x)
    return x
