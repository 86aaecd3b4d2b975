"""The cost of a program: operations, bytes moved, and peak memory."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from retrograd.compiler._control_lines import Control
from retrograd.compiler._program import Kernel, Line, Program, Var
from retrograd.compiler._tiles import Tile
from retrograd.ops._operation import Operation


class Measured(NamedTuple):
    """The cost of running some lines."""

    operations: int
    bytes_moved: int
    peak_bytes: int


class Cost(NamedTuple):
    """The cost of a program, and in ``eager`` that of the same call in eager mode.

    ``operations`` is the number of lines, ``bytes_moved`` the number of bytes that they read and
    write (views move nothing), and ``peak_bytes`` the largest amount of memory that results take at
    one time, without inputs.
    """

    operations: int
    bytes_moved: int
    peak_bytes: int
    eager: Measured

    def __str__(self) -> str:
        rows = [("", "program", "eager")]
        for name in ("operations", "bytes_moved", "peak_bytes"):
            rows.append(
                (
                    name.replace("_", " "),
                    f"{getattr(self, name):,}",
                    f"{getattr(self.eager, name):,}",
                )
            )
        return "\n".join(f"{a:<12}{b:>14}{c:>14}" for a, b, c in rows)


class Traced:
    """The information that the cost of a program depends on, recorded before all passes. The cost
    itself is computed only when it is asked for."""

    def __init__(self, program: Program) -> None:
        self.lines = [(operations_of(line), line.operation.view, line.inputs, line.outputs)
                      for line in program.lines]  # fmt: skip
        self.inputs = program.inputs
        self.outputs = program.outputs
        self.folded = program.folded


def measured(program: Traced) -> Measured:
    """The cost of a program, determined without running it."""
    first: dict[Var, int] = {}  # the line that creates some memory
    last: dict[Var, int] = {}  # the line that uses it last
    folded = program.folded
    count = moved = 0
    for number, (operations, view, inputs, outputs) in enumerate(program.lines):
        count += operations
        if not view:
            moved += sum([v.nbytes for v in (*dict.fromkeys(inputs), *outputs)])
        for v in inputs:
            last[folded.get(v, v.root)] = number
        for v in outputs:
            root = folded.get(v, v.root)
            last[root] = number
            first.setdefault(root, number)
    kept = {folded.get(v, v.root) for v in program.outputs}
    of_inputs = {v.root for v in program.inputs}
    changes = [0] * (len(program.lines) + 1)
    for root, number in first.items():
        if root not in of_inputs and (root.constant is None or root in folded):
            changes[number] += root.nbytes
            if root not in kept:
                changes[last[root] + 1] -= root.nbytes
    return Measured(count, moved, max(accumulate(changes)))


def operations_of(line: Line) -> int:
    """The number of operations of a line. A branch or a body is counted once, however often it
    runs."""
    operation = line.operation
    if type(operation) is Kernel or isinstance(operation, Operation):
        return 1
    if isinstance(operation, Tile):
        return len(operation.program.lines)
    if isinstance(operation, Control):
        return sum(operations_of(x) for program in operation.programs for x in program.lines)
    return 1


def cost_of(program: Program, eager: Traced) -> Cost:
    """The cost of a program, with that of eager mode."""
    return Cost(*measured(Traced(program)), measured(eager))
