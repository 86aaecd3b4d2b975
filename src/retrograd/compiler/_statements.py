"""Which lines of a program are statements, and which are written inside of the one line that uses
them: ``t = g - g * (h * h)`` for three lines.

What is computed inside of an expression is freed as soon as it is used, so the next line finds its
memory in the cache: on small arrays that is worth a third of the time of an operation.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable

from retrograd import _source
from retrograd.compiler._control_lines import Branch
from retrograd.compiler._program import Line, Program, Var
from retrograd.compiler._tiles import Tile

MOST_OPERATIONS = 5  # in one statement
MOST_NESTED = 10  # lines inside of each other, views included: a reader can follow no more
# Bytes from which on it pays to name memory for a result, and to free it early: below, NumPy keeps
# freed memory at hand itself, and a keyword takes longer to read than that.
WORTHWHILE = 1 << 15
line_number = functools.lru_cache(maxsize=4096)(_source.line_number)


def is_temporary(var: Var) -> bool:
    """Whether a variable has no name that the user gave."""
    return var.name[:1] == "t" and var.name[1:].isdecimal()


class Statements:
    """The statements of a program, in order, and the lines that are nested in others."""

    def __init__(self, program: Program, lines: Iterable[Line]) -> None:
        lines = list(lines)
        self.nested: dict[Var, Line] = {}
        self._sizes: dict[Line, int] = {}
        depths: dict[Line, int] = {}
        made_by = {v: line for line in lines for v in line.outputs}
        inputs = {line: line.inputs for line in lines}
        uses = Counter([v for line in lines for v in inputs[line]])
        uses.update(program.outputs)
        runs = runs_of(lines)
        for line in lines:
            size, depth = (0 if line.operation.view else 1), 1
            written = [line.args[position] for position in line.writes]
            outermost = inputs[line]
            if isinstance(line.operation, Branch):
                outermost = [v for v in line.args[:1] if isinstance(v, Var)]
            elif line.several or isinstance(line.operation, Tile):
                outermost = []  # it names all of them, and maybe several times
            for v in outermost:
                inner = made_by.get(v)
                if inner is None or uses[v] > 1 or v in written or not nests(inner):
                    continue
                if runs[inner] != runs[line] and not inner.operation.view:
                    continue
                if size + self._sizes[inner] <= MOST_OPERATIONS and depths[inner] < MOST_NESTED:
                    size += self._sizes[inner]
                    depth = max(depth, depths[inner] + 1)
                    self.nested[v] = inner
            self._sizes[line], depths[line] = size, depth
        inside = set(self.nested.values())
        self.lines = [line for line in lines if line not in inside]

    def inputs(self, line: Line) -> list[Var]:
        """The variables that a statement names: those of the lines inside of it, too."""
        results: list[Var] = []
        for v in line.inputs:
            inner = self.nested.get(v)
            if inner is None:
                results.append(v)
            else:
                results += self.inputs(inner)
        return results


def nests(line: Line) -> bool:
    """Whether a line may be written inside of one that comes from the same line of the user's."""
    if line.several or line.effects or line.writes or len(line.outputs) != 1:
        return False
    result = line.outputs[0]
    return is_temporary(result) and (line.operation.view or result.nbytes < WORTHWHILE)


def runs_of(lines: Iterable[Line]) -> dict[Line, int]:
    """Lines by number: the same one for lines that follow each other and come from one run of a
    line of the user's. (Views do not count, since they take no time.)"""
    results: dict[Line, int] = {}
    number, place, before = 0, None, 0
    for line in lines:
        code, offset = line.place
        if not line.operation.view:
            here = (code, code and line_number(code, offset), line.backward)
            # In a loop a line comes again: from its first instruction on, or from its last if
            # backward.
            again = offset > before if line.backward else offset < before
            if here != place or again:
                number, place = number + 1, here
            before = offset
        results[line] = number
    return results
