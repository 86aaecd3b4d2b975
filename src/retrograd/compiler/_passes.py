"""Passes, which simplify a program and leave its results bit-identical.

``Rewriting`` visits each line once, from the first to the last. A line may be computed now,
simplified, or replaced by an equal variable. Rules may rely on the semantics of programs: variables
do not change, and a line without effects may be removed. They must preserve which outputs share
memory: an output that was a new array must not become an array that something else refers to.
"""

from __future__ import annotations

import itertools
import keyword
import linecache
import re
from collections import Counter
from functools import reduce
from types import CodeType
from typing import Any

from retrograd import arrays
from retrograd.compiler._control_lines import Control
from retrograd.compiler._program import IN_LAYOUT, IN_ROWS, Line, Program, Var, mapped
from retrograd.compiler._statements import is_temporary, line_number, runs_of
from retrograd.ops import copies, linear
from retrograd.ops._dims import broadcast
from retrograd.ops._operation import Operation

LARGE = 10_000  # elements; larger constants are not computed in advance, because they take memory


def simplified(program: Program) -> Program:
    """The program after all passes, which also apply to nested programs."""
    remove_unused(program)
    Rewriting(program).run()
    for line in program.lines:
        if isinstance(line.operation, Control):
            line.operation.take_constants(line)
            for inner in line.operation.programs:
                simplified(inner)
    remove_unused(program)
    name_results(program)
    return program


def remove_unused(program: Program) -> None:
    """Remove lines whose outputs are not needed."""
    needed = set(program.outputs)
    kept = []
    for line in reversed(program.lines):
        if line.effects or not needed.isdisjoint(line.outputs):
            kept.append(line)
            if isinstance(line.operation, Control):
                line.operation.without_unused(line, needed)
            needed.update(line.inputs)
    program.lines = kept[::-1]


class Rewriting:
    """One pass over the lines of a program, in which each is simplified or removed."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.outputs = set(program.outputs)
        self.output_roots = {v.root for v in program.outputs}
        self.taken = Counter(v.root for v in program.outputs)
        self.made = {v for line in program.lines for v in line.outputs}
        self.views: dict[Var, list[Var]] = {}  # by the variable whose memory they share
        for line in program.lines:
            for v in line.outputs:
                if v.root is not v:
                    self.views.setdefault(v.root, []).append(v)
        self.new: dict[Var, Var] = {}  # the replacements of removed variables
        self.kept: list[Line] = []
        self.made_by: dict[Var, Line] = {}
        self._known: dict[Any, Line] = {}  # lines by what they compute
        self.expands = any([line.operation is linear.expand for line in program.lines])
        self._numbers: dict[Var, Var | None] = {}

    def run(self) -> None:
        for line in self.program.lines:
            if self.new:
                line.rename(self.new)
            if line.effects or line.writes or not self.is_left_out(line):
                self.kept.append(line)
                for v in line.outputs:
                    self.made_by[v] = line
        program, new = self.program, self.new
        program.lines = self.kept
        program.outputs = [new.get(v, v) for v in program.outputs]
        program.updates = [(old, new.get(v, v)) for old, v in program.updates]
        program.gradients = [(x, new.get(v, v)) for x, v in program.gradients]

    def is_left_out(self, line: Line) -> bool:
        """Simplify a line, or determine that it is not needed."""
        inputs = line.inputs
        constants = [v for v in inputs if v.constant is not None]
        if len(constants) == len(inputs) and self.is_folded(line):
            return True
        operation = line.operation
        if (constants or self.expands) and isinstance(operation, Operation):
            if self.expands and operation.of_elements:
                self.remove_expand(line)
            if constants and operation.of_elements:
                self.shrink_constants(line)
        if len(line.outputs) == 1:
            numbers = constants or len(inputs) != len(line.args)
            same = unchanged(line) if numbers else None
            if same is None and (operation.view or operation is linear.unsafe_squeeze):
                same = self.whole(line)
            if same is not None and self.is_replaced(line, same):
                return True
            if operation in _COPIES and self.is_needless_copy(line):
                return True
        return self.is_known(line)

    # -- constants -----------------------------------------------------------------------------

    def is_folded(self, line: Line) -> bool:
        """Fold a line that depends only on constants, unless it is an output, which must be new in
        each run."""
        if any(v.nbytes > LARGE * 8 or v.root in self.output_roots for v in line.outputs):
            return False
        args = [mapped(x, lambda v: v.constant) for x in line.args]
        options = {name: mapped(x, lambda v: v.constant) for name, x in line.options.items()}
        results = line.operation.forward(*args, **options)
        for v, value in zip(line.outputs, results if line.several else [results], strict=True):
            self.program.folded[v] = v.root
            v.constant = arrays.copy(value)
            v.root = v
        return True

    def shrink_constants(self, line: Line) -> None:
        """Replace a constant array of equal elements by a number, which arithmetic broadcasts."""
        if line.operation.name not in _ARITHMETIC or len(line.args) != 2 or line.options:
            return
        result = line.outputs[0]
        for i, (x, other) in enumerate((line.args, line.args[::-1])):
            if not isinstance(x, Var) or x.constant is None or not x.shape:
                continue
            if not isinstance(other, Var) or other.constant is not None:
                continue
            if x not in self._numbers:
                self._numbers[x] = number_of(x)
            number = self._numbers[x]
            if number is not None and other.shape == result.shape and (
                other.strides == result.strides or result.dtype != other.dtype
            ):  # fmt: skip
                line.take((number, other) if i == 0 else (other, number), line.options)
                return

    # -- equal lines ---------------------------------------------------------------------------

    def is_known(self, line: Line) -> bool:
        """Eliminate a common subexpression: the same operation on the same variables. Outputs of
        the program stay separate arrays."""
        for v in line.outputs:
            if v.root in self.output_roots:
                return False
        key: Any = (line.operation, *[x if type(x) is Var else _key(x) for x in line.args])
        if line.options:
            key = (key, _key(line.options))
        elif line.operation.name in ("add", "mul") and len(line.args) == 2:
            key = (line.operation, frozenset(key[1:]))  # a * b is b * a, to the bit
        same = self._known.setdefault(key, line)
        if same is line or not all(map(_alike, line.outputs, same.outputs)):
            return False
        for v, known in zip(line.outputs, same.outputs, strict=True):
            self.replace(v, known)
        return True

    # -- lines that compute nothing new --------------------------------------------------------

    def replace(self, old: Var, new: Var) -> None:
        """Replace a removed variable. Its views become views of the new one."""
        self.new[old] = new
        if old.root is old and (views := self.views.pop(old, None)):
            for v in views:
                v.root = new.root
            self.views.setdefault(new.root, []).extend(views)

    def is_replaced(self, line: Line, same: Var) -> bool:
        """Use an equal variable. Outputs, and variables that outputs are views of, become
        copies."""
        result = line.outputs[0]
        if result.root is not result:
            replaced = result not in self.outputs or same not in self.outputs
        else:
            replaced = result not in self.output_roots
        if replaced:
            self.replace(result, same)
        elif result.root is result:
            line.operation = copies.clone
            line.take((same,), {})
        return replaced

    def whole(self, line: Line) -> Var | None:
        """The variable that a view is equal to, because it keeps the shape or is the transpose of a
        transpose. None if there is none."""
        if not _shows(line):
            return None
        result = line.outputs[0]
        while line.operation.name != "as_strided":
            x = line.args[0] if line.args else None
            if not isinstance(x, Var) or x.nbytes != result.nbytes:
                return None
            if _alike(x, result):
                return x
            before = self.made_by.get(x)
            if before is None or not _shows(before):
                return None
            line = before
        return None

    def is_needless_copy(self, line: Line) -> bool:
        """Remove a copy: variables do not change, so a copy is equal to its original. An output,
        or the variable that it is a view of, stays an array that nothing else refers to."""
        x, copy = line.args[0], line.outputs[0]
        if not isinstance(x, Var) or not _alike(x, copy):
            return False
        own = x.root in self.made and x.root.constant is None and x.root.nbytes == x.nbytes
        if copy in self.output_roots:
            if self.taken[copy] > 1 or self.taken[x.root] or not own:
                return False
            self.taken[x.root] += 1
            self.output_roots.add(x.root)
        if is_temporary(x):
            x.name = copy.name
        self.replace(copy, x)
        return True

    def remove_expand(self, line: Line) -> None:
        """Pass the unexpanded value to operations that broadcast their operands themselves."""
        for i, x in enumerate(line.args):
            before = self.made_by.get(x) if isinstance(x, Var) else None
            if before is None or before.operation is not linear.expand:
                continue
            small = before.args[0]
            if not isinstance(small, Var):
                continue
            if not small.shape and line.operation.name not in _ARITHMETIC:
                continue
            others = [y.shape for k, y in enumerate(line.args) if k != i and isinstance(y, Var)]
            if reduce(broadcast, others, small.shape) == line.outputs[0].shape:
                line.take((*line.args[:i], small, *line.args[i + 1 :]), line.options)


_COPIES = frozenset({copies.clone, IN_LAYOUT, IN_ROWS})
_ARITHMETIC = ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge")


def number_of(x: Var) -> Var | None:
    """The number that all elements of a constant array are equal to, as a constant without
    dimensions; None if there is none."""
    value = x.constant
    if not value.size or value.dtype.kind != "f":
        return None
    first = value.reshape(-1)[0]
    if not arrays.programs.same_bits(value, first):
        return None
    number = Var(x.name, first)
    number.constant = first
    return number


def _key(x: Any) -> Any:
    """A key of an argument: variables and other objects by identity, numbers by value."""
    kind = type(x)
    if kind is Var:
        return x
    if kind in (list, tuple):
        return (kind, tuple([_key(part) for part in x]))
    if kind is dict:
        return tuple([(name, _key(part)) for name, part in x.items()])
    if kind in (bool, int, float, complex, str):
        return (kind, repr(x))
    return id(x)


def unchanged(line: Line) -> Var | None:
    """The operand ``x`` of ``x * 1``, ``x / 1`` and ``x - 0``, which do not change it in IEEE
    arithmetic. (``x + 0`` does: it returns 0 for -0.)"""
    name = line.operation.name
    if name not in ("mul", "div", "sub") or line.options or len(line.args) != 2:
        return None
    x, y = line.args
    if isinstance(x, Var) and _is_all(y, 0 if name == "sub" else 1) and _alike(x, line.outputs[0]):
        return x
    if name == "mul" and isinstance(y, Var) and _is_all(x, 1) and _alike(y, line.outputs[0]):
        return y
    return None


def _is_all(x: Any, number: int) -> bool:
    """Whether an operand is this number, or an array of it. -0 is not equal to 0 here."""
    if isinstance(x, Var):
        if x.constant is None or x.constant.size > LARGE or x.dtype.kind not in "fiu":
            return False
        equal = bool((x.constant == number).all())
        return equal and (number != 0 or not arrays.programs.numpy.signbit(x.constant).any())
    return type(x) in (int, float) and x == number and (x != 0 or str(x)[0] != "-")


def _shows(line: Line) -> bool:
    """Whether the result of a line has the elements of its operand in the same memory."""
    return (line.operation.view or line.operation is linear.unsafe_squeeze) and not line.several


def _alike(x: Var, y: Var) -> bool:
    return (x.shape, x.dtype, x.strides) == (y.shape, y.dtype, y.strides)


_ASSIGNMENT = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*[-+*/@]?=[^=]")


def name_results(program: Program) -> None:
    """Name variables as the user's code does: the last result of ``h = f(x)`` is ``h``."""
    lines = [line for line in program.lines if line.place[0] is not None and line.outputs]
    runs = runs_of(lines)
    names: dict[Any, list[str]] = {}  # a loop repeats a line of the user's code

    def source(line: Line) -> tuple[Any, ...]:
        return runs[line], line.place[0], line_number(*line.place)

    for line, following in itertools.zip_longest(lines, lines[1:]):
        if line.backward or isinstance(line.operation, Control):
            continue
        if following is None or source(line) != source(following):
            if line.place not in names:
                names[line.place] = names_at(*line.place)
            name_outputs(line, len(line.outputs) if line.several else 1, names[line.place])


def name_outputs(line: Line, count: int, names: list[str]) -> None:
    """Name the first ``count`` outputs of a line like the targets in the user's line, if there are
    equally many."""
    if len(names) == count:
        for v, name in zip(line.outputs, names, strict=False):
            v.name = name or v.name


def names_at(code: CodeType | None, offset: int) -> list[str]:
    """The names that an assignment in the user's code has as targets; "" for a target that is not a
    suitable name."""
    text = ""
    if code is not None:
        text = linecache.getline(code.co_filename, line_number(code, offset))
    match = _ASSIGNMENT.match(text.strip())
    names = [] if match is None else [name.strip() for name in match[1].split(",")]
    return ["" if name in ("np", "_") or keyword.iskeyword(name) or not name.isidentifier()
            else name for name in names]  # fmt: skip
