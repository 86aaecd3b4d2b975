"""Control flow as lines of a program: an ``if``, a ``while`` and a ``for``.

A branch, a condition or a body is a separate program, which takes all values that it uses as
inputs. The line that contains it passes them: operands, carried values of a loop, and captured
values. So passes may rename and replace the arguments of the line without looking inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.compiler._program import Kernel, Line, Program, Var


class Control(Kernel):
    """An operation that contains programs. It returns a tuple of new contiguous arrays."""

    __slots__ = ("programs",)

    def __init__(self, name: str, programs: Sequence[Program]) -> None:
        effects = any(line.effects for program in programs for line in program.lines)
        super().__init__(name, self.run, random=effects)
        self.programs = list(programs)

    def run(self, *args: Any) -> tuple[Any, ...]:
        """The results for some arrays."""
        raise NotImplementedError

    def formals(self, number: int) -> list[Var]:
        """The inputs of the programs that an argument of the line becomes. An empty list if it
        is carried, or passed slice by slice."""
        raise NotImplementedError

    def slices(self, number: int) -> list[Var]:
        """The inputs of the programs that a slice of an argument becomes, if it may be removed."""
        return []

    def without_unused(self, line: Line, needed: set[Var]) -> None:
        """Remove unused outputs and arguments."""
        self.drop_outputs(line, needed)
        for number in reversed(range(len(line.args))):
            formals = self.formals(number) or self.slices(number)
            if formals and not any(
                is_used(program, v) for program in self.programs for v in formals
            ):  # fmt: skip
                self.drop_argument(line, number, formals)

    def take_constants(self, line: Line) -> None:
        """Make the arguments that are constants known to the programs."""
        for number in reversed(range(len(line.args))):
            x, formals = line.args[number], self.formals(number)
            if formals and isinstance(x, Var) and x.constant is not None:
                for v in formals:
                    v.name, v.constant = x.name, x.constant
                self.drop_argument(line, number, formals)

    def drop_argument(self, line: Line, number: int, formals: Sequence[Var]) -> None:
        """Remove an argument, and the inputs that it becomes."""
        for program in self.programs:
            program.inputs = [v for v in program.inputs if v not in formals]
        line.take((*line.args[:number], *line.args[number + 1 :]), line.options)

    def drop_outputs(self, line: Line, needed: set[Var]) -> None:
        """Remove outputs that are not needed."""


class Branch(Control):
    """``if``: the first argument selects which of two programs runs on the others."""

    __slots__ = ()

    def __init__(self, if_true: Program, if_false: Program) -> None:
        super().__init__("branch", [if_true, if_false])

    def run(self, *args: Any) -> tuple[Any, ...]:
        pred, *rest = args
        return self.programs[0 if pred.item() else 1].run(*rest)

    def formals(self, number: int) -> list[Var]:
        return [program.inputs[number - 1] for program in self.programs] if number else []

    def drop_outputs(self, line: Line, needed: set[Var]) -> None:
        kept = [i for i, v in enumerate(line.outputs) if v in needed]
        line.outputs = tuple([line.outputs[i] for i in kept])
        for program in self.programs:
            program.outputs = [program.outputs[i] for i in kept]


class Loop(Control):
    """A loop, whose first arguments are the initial carried values."""

    __slots__ = ("carried",)

    carried: int


class While(Loop):
    """``while``: as long as the first program returns true, the second computes the next values."""

    __slots__ = ()

    def __init__(self, condition: Program, body: Program, carried: int) -> None:
        super().__init__("while_loop", [condition, body])
        self.carried = carried

    def run(self, *args: Any) -> tuple[Any, ...]:
        condition, body = self.programs
        values, rest = [arrays.copy(x) for x in args[: self.carried]], args[self.carried :]
        while condition.run(*values, *rest)[0].item():
            values = list(body.run(*values, *rest))
        return tuple(values)

    def formals(self, number: int) -> list[Var]:
        if number < self.carried:
            return []
        return [program.inputs[number] for program in self.programs]


class Scan(Loop):
    """``for``: a program runs on each slice of some arrays. The arguments are the carried values,
    these arrays, and other values; its outputs are the next carried values, and results for the
    slice."""

    __slots__ = ("reverse", "sliced")

    def __init__(self, body: Program, carried: int, sliced: int, reverse: bool) -> None:
        super().__init__("scan", [body])
        self.carried = carried
        self.sliced = sliced
        self.reverse = reverse

    def order(self, count: int) -> range:
        """The indices of the slices in the order in which they are processed."""
        return range(count - 1, -1, -1) if self.reverse else range(count)

    def run(self, *args: Any) -> tuple[Any, ...]:
        (body,) = self.programs
        ends = self.carried, self.carried + self.sliced
        values, xs, rest = args[: ends[0]], args[ends[0] : ends[1]], args[ends[1] :]
        count = xs[0].shape[0]
        rows: list[Any] = [None] * count
        for i in self.order(count):
            outputs = body.run(*values, *[x[i] for x in xs], *rest)
            values, rows[i] = outputs[: self.carried], outputs[self.carried :]
        stacked = [arrays.programs.stacked(column) for column in zip(*rows, strict=True)]
        return (*values, *stacked)

    def formals(self, number: int) -> list[Var]:
        if number < self.carried + self.sliced:
            return []
        return [self.programs[0].inputs[number]]

    def slices(self, number: int) -> list[Var]:
        is_slice = self.carried <= number < self.carried + self.sliced
        # One stays: it determines the number of iterations.
        return [self.programs[0].inputs[number]] if is_slice and self.sliced > 1 else []

    def drop_argument(self, line: Line, number: int, formals: Sequence[Var]) -> None:
        self.sliced -= number < self.carried + self.sliced
        super().drop_argument(line, number, formals)

    def drop_outputs(self, line: Line, needed: set[Var]) -> None:
        kept = [i for i, v in enumerate(line.outputs) if i < self.carried or v in needed]
        line.outputs = tuple([line.outputs[i] for i in kept])
        body = self.programs[0]
        body.outputs = [body.outputs[i] for i in kept]


def is_used(program: Program, v: Var) -> bool:
    """Whether a program uses a variable."""
    return v in program.outputs or any(v in line.inputs for line in program.lines)
