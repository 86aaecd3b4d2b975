"""Which lines of a program are separate statements, and which are nested in the only line that uses
them: ``t = g - g * (h * h)`` for three lines.

An intermediate result of an expression is freed as soon as it is used, so the next line reuses its
memory while it is in the cache. On small arrays this saves a third of the time of an operation.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence

from retrograd import _source
from retrograd.compiler._control_lines import Branch
from retrograd.compiler._program import Line, Program, Var

MOST_OPERATIONS = 5  # in one statement
MOST_NESTED = 10  # nested lines, including views, so that expressions stay readable
# From this many bytes on, it is worth while to pass ``out=`` and to free memory early. NumPy itself
# reuses smaller pieces of memory, in less time than a keyword argument takes.
WORTHWHILE = 1 << 15
line_number = functools.lru_cache(maxsize=4096)(_source.line_number)


def is_temporary(var: Var) -> bool:
    """Whether a variable has no name in the user's code."""
    return var.name[:1] == "t" and var.name[1:].isdecimal()


class Statements:
    """The statements of a program, in order, and the lines that are nested in others."""

    def __init__(self, program: Program, lines: Sequence[Line]) -> None:
        self.nested: dict[Var, Line] = {}
        # The variables that a statement names, including those of nested lines.
        self.inputs: dict[Line, list[Var]] = {}
        sizes: dict[Line, tuple[int, int]] = {}  # operations, and the depth of nesting
        uses = Counter([v for line in lines for v in line.inputs])
        uses.update(program.outputs)
        runs = runs_of(lines)
        may_nest: dict[Var, Line] = {}
        for line in lines:
            size, depth = (0 if line.operation.view else 1), 1
            outermost = self.inputs[line] = line.inputs
            if line.several:  # its text names its arguments, maybe several times
                first = line.args[:1] if isinstance(line.operation, Branch) else ()
                outermost = [v for v in first if isinstance(v, Var)]
            for v in outermost:
                inner = may_nest.get(v)
                if inner is None or (line.writes and v in [line.args[i] for i in line.writes]):
                    continue
                if runs[inner] != runs[line] and not inner.operation.view:
                    continue
                inner_size, inner_depth = sizes[inner]
                if size + inner_size <= MOST_OPERATIONS and inner_depth < MOST_NESTED:
                    size += inner_size
                    depth = max(depth, inner_depth + 1)
                    self.nested[v] = inner
            if depth > 1:
                self.inputs[line] = [
                    x
                    for v in line.inputs
                    for x in (self.inputs[self.nested[v]] if v in self.nested else (v,))
                ]
            sizes[line] = size, depth
            if len(line.outputs) == 1 and uses[line.outputs[0]] == 1 and nests(line):
                may_nest[line.outputs[0]] = line
        inside = set(self.nested.values())
        self.lines = [line for line in lines if line not in inside]


def nests(line: Line) -> bool:
    """Whether a line with one output may be nested in another one from the same line of the user's
    code."""
    if line.several or line.effects or line.writes:
        return False
    result = line.outputs[0]
    return is_temporary(result) and (line.operation.view or result.nbytes < WORTHWHILE)


def runs_of(lines: Iterable[Line]) -> dict[Line, int]:
    """A number for each line: the same for consecutive lines that come from one execution of a line
    of the user's code. (Views are ignored, because they take no time.)"""
    results: dict[Line, int] = {}
    number, previous, backward = 0, None, None
    before: _source.Place = (None, 0)
    for line in lines:
        if not line.operation.view:
            code, offset = line.place
            if code is not before[0] or offset != before[1] or line.backward is not backward:
                backward = line.backward
                current = (code, code and line_number(code, offset), backward)
                # A line that a loop repeats starts again at its first instruction, or at its last
                # in the backward pass.
                again = offset > before[1] if backward else offset < before[1]
                if current != previous or again:
                    number, previous = number + 1, current
                before = line.place
        results[line] = number
    return results
