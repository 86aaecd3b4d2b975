"""Rehearsals: find what branches and loop bodies return and capture.

In a rehearsal a function is run on its operands, and the lines that this writes are thrown away. An
interceptor sees which tensors its operations use. Those that it did not make, and that have a
history or belong to a transform, are noted. Afterwards the function can be run with others in their
place (``Closed``), as transforms and derivatives of control flow do.
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


class Failed(Exception):  # noqa: N818 - it says what happened
    """A function raised an exception in a rehearsal."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Rehearsal:
    """A run of a function whose lines are thrown away: what it returns, which tensors it captured,
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
            # Other tensors than those that were given, which the function may have captured, too.
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
        """What the function returns, with other tensors."""
        given = iter(tensors)
        return unflatten(
            [next(given) if isinstance(x, Tensor) else x for x in self.leaves], self.shape
        )


class Noting(Interceptor):
    """Notes which tensors operations use that were made before, if derivatives or transforms are
    about them."""

    notes = True

    def __init__(
        self, level: TraceLevel, block: Block, operands: Tensors, reached: Sequence[Any]
    ) -> None:
        """``reached``: the tensors that can be reached from the function."""
        self.reached = {id(x): x for x in reached}
        self.kept = [x._data for x in reached]  # so that ids stay theirs
        self.holding: dict[int, list[Any]] = {}  # tensors, by the value that they hold
        for x in reached:
            self.holding.setdefault(id(x._data), []).append(x)
        self.level = level
        self.block = block
        self.start = next(orders)  # nodes that are made from here on have lower numbers
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
        """Note values, and the tensors whose values they hold: a transform inside of the function,
        and a custom Function, put these into tensors of their own."""
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
        """Note the arguments of a custom Function."""
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
        value = replaced(x)  # which control flow around this one may have put in its place
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
    """The node that a tensor comes from: of a variable of a transform, where its gradient ends."""
    if x._node is None and x._meta is not None and x._meta.ending is not None:
        end = x._meta.ending()
        return end if isinstance(end, VariableEnd) else None
    return x._node


def at_bottom(x: Any) -> Any:
    """The innermost value that a tensor is made of."""
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


def captured_in(found: Sequence[Rehearsal]) -> tuple[list[Any], list[Any]]:
    """What functions captured, each once, and the tensors to hand them for it. Rehearsals around
    these note it, too."""
    captured = list({id(x): x for rehearsal in found for x in rehearsal.captured}.values())
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


def check_random(found: Sequence[Rehearsal], given: Tensors) -> None:
    """CannotTrace if a derivative would have to draw the same random numbers again."""
    if any(rehearsal.draws for rehearsal in found) and any(
        has_history(x) or not isinstance(raw(x), (Traced, arrays.ndarray)) for x in given
    ):
        raise CannotTrace("random numbers in control flow that is differentiated or vectorized. "
                          "Draw them outside, and pass them in")  # fmt: skip


def draws(line: Line) -> bool:
    return line.draws if not isinstance(line.operation, Control) else any(
        draws(x) for program in line.operation.programs for x in program.lines
    )  # fmt: skip


# -- functions of nothing but their arguments --------------------------------------------------


def frozen(function: Any, known: dict[int, Any] | None = None) -> Any:
    """A function with the variables that it captured as they are now, those of functions among them
    included. A derivative calls it again later, when a loop may have given them other values."""
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
        except ValueError:  # it has no value yet
            continue
    return copy


class Closed:
    """A function of tensors whose last arguments replace the tensors it captured."""

    def __init__(self, function: Fn, shape: Shape, captured: Sequence[Any]) -> None:
        self.function = function
        self.shape = shape
        self.captured = captured
        self.count = shape.leaf_count

    def __call__(self, *given: Any) -> list[Any]:
        level = tracer()
        node, level.node = level.node, None  # what follows comes from the lines of the function
        try:
            with Replacing(self.captured, given[self.count :]) as replacing, replacing.held():
                found = self.function(*unflatten(given[: self.count], self.shape))
                return [replaced(x) for x in flatten(found)[0] if isinstance(x, Tensor)]
        finally:
            level.node = node


class Replacing(Interceptor):
    """Within it, operations are given other values in place of what was captured. While these are
    ``held`` by the captured tensors, so are transforms and custom Functions."""

    def __init__(self, captured: Sequence[Any], values: Tensors) -> None:
        self.kept = captured  # so that ids stay theirs
        self.new = {
            id(x): value if isinstance(x, Tensor) else value._data
            for x, value in zip(captured, values, strict=True)
        }

    def handle(self, op: Any, args: Sequence[Any], options: dict[str, Any], computed: Any) -> Any:
        given, shape = flatten((list(args), options))
        new = self.new
        args, options = unflatten([new.get(id(x), x) for x in given], shape)
        return apply(op, args, options, computed)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it, the captured tensors hold the other values."""
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
        """Other arguments for a custom Function."""
        return tuple([self.new.get(id(x), x) for x in args])

    def detach(self, x: Any, detached: Fn) -> Any:
        return detached(self.new.get(id(x), x))


def replaced(x: Any) -> Any:
    """What operations are given in place of a value, in functions that are closed."""
    for interceptor in reversed(modes.interceptors):
        if isinstance(interceptor, Replacing):
            x = interceptor.new.get(id(x), x)
    return x
