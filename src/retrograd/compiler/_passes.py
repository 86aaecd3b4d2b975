"""Passes: each takes a program and makes it simpler without changing a bit of what it gives.

A pass may rely on what a program means: variables do not change, and a line without effects may be
left out. What it must keep is which outputs share memory: a program whose output was a new array
must not give an array that somebody else has.
"""

from __future__ import annotations

import keyword
import linecache
import re
from collections import Counter
from functools import reduce
from typing import Any

from retrograd import arrays
from retrograd.compiler._program import IN_LAYOUT, Line, Program, Var, mapped
from retrograd.compiler._statements import is_temporary, line_number, runs_of
from retrograd.ops import copies, linear
from retrograd.ops._dims import broadcast
from retrograd.ops._operation import Operation

LARGE = 10_000  # elements: constants that would take more memory than time are not computed ahead


def simplified(program: Program) -> Program:
    """The program after all passes."""
    remove_unused(program)
    fold_constants(program)
    merge_equal_lines(program)
    drop_identities(program)
    drop_whole_views(program)
    drop_expansions(program)
    shrink_constants(program)
    merge_equal_lines(program)
    drop_copies(program)
    remove_unused(program)
    name_results(program)
    return program


def remove_unused(program: Program) -> None:
    """Leave out lines whose outputs nobody needs."""
    needed = set(program.outputs)
    kept = []
    for line in reversed(program.lines):
        if line.effects or any(v in needed for v in line.outputs):
            kept.append(line)
            needed.update(line.inputs)
    program.lines = kept[::-1]


def fold_constants(program: Program) -> None:
    """Compute now what depends on constants only, but for outputs, which are new in each run."""
    outputs = {v.root for v in program.outputs}
    kept = []
    for line in program.lines:
        inner = all(v.nbytes <= LARGE * 8 and v.root not in outputs for v in line.outputs)
        if line.effects or line.writes or not inner or not _is_constant(line):
            kept.append(line)
            continue
        args, options = _with_constants(line)
        found = line.operation.forward(*args, **options)
        for v, value in zip(line.outputs, found if line.several else [found], strict=True):
            v.constant = arrays.copy(value)
            v.root = v
    program.lines = kept


def _is_constant(line: Line) -> bool:
    return all(v.constant is not None for v in line.inputs)


def _with_constants(line: Line) -> tuple[list[Any], dict[str, Any]]:
    return (
        [mapped(x, lambda v: v.constant) for x in line.args],
        {name: mapped(x, lambda v: v.constant) for name, x in line.options.items()},
    )


def merge_equal_lines(program: Program) -> None:
    """Compute once what is computed twice: the same operation of the same variables. Outputs of
    the program stay arrays of their own."""
    outputs = {v.root for v in program.outputs}
    known: dict[Any, Line] = {}
    new: dict[Var, Var] = {}
    kept = []
    for line in program.lines:
        line.rename(new)
        if line.effects or line.writes or any(v.root in outputs for v in line.outputs):
            kept.append(line)
            continue
        key = (id(line.operation), _key(line.args), _key(line.options))
        same = known.setdefault(key, line)
        if same is line:
            kept.append(line)
        else:
            new.update(zip(line.outputs, same.outputs, strict=True))
    program.lines = kept
    _rename_outputs(program, new)


def _rename_outputs(program: Program, new: dict[Var, Var]) -> None:
    program.outputs = [new.get(v, v) for v in program.outputs]
    program.updates = [(old, new.get(v, v)) for old, v in program.updates]


def _key(x: Any) -> Any:
    """What tells arguments apart: variables and other objects by identity, numbers by value."""
    if type(x) is Var:
        return id(x)
    if type(x) in (list, tuple):
        return (type(x), tuple([_key(part) for part in x]))
    if type(x) is dict:
        return tuple([(name, _key(part)) for name, part in x.items()])
    if type(x) in (bool, int, float, complex, str):
        return (type(x), repr(x))
    return id(x)


def drop_identities(program: Program) -> None:
    """Leave out what IEEE arithmetic says changes nothing: ``x * 1``, ``x / 1``, ``x - 0``. (Not
    ``x + 0``, which makes 0 of -0.)"""
    _replace(program, _unchanged)


def _unchanged(line: Line) -> Var | None:
    name = line.operation.name
    if line.options or len(line.args) != 2 or name not in ("mul", "div", "sub"):
        return None
    x, y = line.args
    neutral = 0 if name == "sub" else 1
    if _is_all(y, neutral) and isinstance(x, Var) and _alike(x, line.outputs[0]):
        return x
    if name == "mul" and _is_all(x, 1) and isinstance(y, Var) and _alike(y, line.outputs[0]):
        return y
    return None


def _is_all(x: Any, number: int) -> bool:
    """Whether an operand is a number, or an array of nothing else. -0 is not 0 here."""
    if isinstance(x, Var):
        if x.constant is None or x.constant.size > LARGE or x.dtype.kind not in "fiu":
            return False
        equal = bool((x.constant == number).all())
        return equal and (number != 0 or not arrays.programs.numpy.signbit(x.constant).any())
    return type(x) in (int, float) and x == number and (x != 0 or str(x)[0] != "-")


def _alike(x: Var, y: Var) -> bool:
    return (x.shape, x.dtype, x.strides) == (y.shape, y.dtype, y.strides)


def drop_whole_views(program: Program) -> None:
    """Leave out views that show all of their input as it is: of the shape that it has, or the
    transpose of a transpose."""
    made_by = {v: line for line in program.lines for v in line.outputs}

    def whole(line: Line) -> Var | None:
        x, y = line.args[0] if line.args else None, line.outputs[0]
        if not line.operation.view or line.several or not isinstance(x, Var):
            return None
        if line.operation.name == "as_strided":
            return None
        while True:
            if _alike(x, y):
                return x
            before = made_by.get(x)
            if before is None or not before.operation.view or before.several:
                return None
            if before.operation.name == "as_strided" or not isinstance(before.args[0], Var):
                return None
            if before.args[0].nbytes != y.nbytes:
                return None
            x = before.args[0]

    _replace(program, whole)


def drop_expansions(program: Program) -> None:
    """Hand what is expanded to operations that expand their operands themselves."""
    expanded = {
        line.outputs[0]: line.args[0]
        for line in program.lines
        if line.operation is linear.expand and isinstance(line.args[0], Var)
    }
    for line in program.lines:
        if not isinstance(line.operation, Operation) or not line.operation.of_elements:
            continue
        for i, x in enumerate(line.args):
            if not isinstance(x, Var) or x not in expanded:
                continue
            others = [y.shape for k, y in enumerate(line.args) if k != i and isinstance(y, Var)]
            small = expanded[x]
            if small.shape and reduce(broadcast, others, small.shape) == line.outputs[0].shape:
                line.args = (*line.args[:i], small, *line.args[i + 1 :])


_ARITHMETIC = ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge")


def shrink_constants(program: Program) -> None:
    """Hand a number in place of an array of nothing else to arithmetic, which expands it."""
    known: dict[Var, Var | None] = {}
    for line in program.lines:
        if line.operation.name not in _ARITHMETIC or len(line.args) != 2 or line.options:
            continue
        result = line.outputs[0]
        for i, (x, other) in enumerate((line.args, line.args[::-1])):
            if not isinstance(x, Var) or x.constant is None or not x.shape:
                continue
            if not isinstance(other, Var) or other.constant is not None:
                continue
            if x not in known:
                known[x] = _number_of(x)
            number = known[x]
            if number is not None and other.shape == result.shape and (
                other.strides == result.strides or result.dtype != other.dtype
            ):  # fmt: skip
                line.args = (number, other) if i == 0 else (other, number)
                break


def _number_of(x: Var) -> Var | None:
    """The one number that an array consists of, as a constant."""
    value = x.constant
    if not value.size or value.dtype.kind != "f":
        return None
    first = value.reshape(-1)[0]
    if not arrays.programs.same_bits(value, first):
        return None
    number = Var(x.name, first)
    number.constant = first
    return number


def _replace(program: Program, same_as: Any) -> None:
    """Use another variable wherever one is used that is the same. Outputs become copies."""
    outputs = set(program.outputs)
    new: dict[Var, Var] = {}
    kept = []
    for line in program.lines:
        line.rename(new)
        found = same_as(line) if len(line.outputs) == 1 and not line.writes else None
        if found is None:
            kept.append(line)
        elif line.outputs[0] not in outputs or (line.operation.view and found not in outputs):
            new[line.outputs[0]] = found
        else:
            if not line.operation.view:
                line.operation, line.args, line.options = copies.clone, (found,), {}
            kept.append(line)
    program.lines = kept
    _rename_outputs(program, new)


def drop_copies(program: Program) -> None:
    """Leave out copies: variables do not change, so that a copy is no other than what it is of. An
    output stays an array that nobody else has."""
    outputs = set(program.outputs)
    taken = Counter(v.root for v in program.outputs)
    made = {v for line in program.lines for v in line.outputs}
    new: dict[Var, Var] = {}
    kept = []
    for line in program.lines:
        line.rename(new)
        copy = line.outputs[0] if line.outputs else None
        x = line.args[0] if line.operation in (copies.clone, IN_LAYOUT) else None
        if copy is None or not isinstance(x, Var) or not _alike(x, copy):
            kept.append(line)
            continue
        own = x.root in made and x.root.constant is None and x.root.nbytes == x.nbytes
        if copy in outputs and (taken[copy] > 1 or taken[x.root] or not own):
            kept.append(line)
            continue
        new[copy] = x
        if is_temporary(x):
            x.name = copy.name
        if copy in outputs:
            taken[x.root] += 1
    program.lines = kept
    _rename_outputs(program, new)


_ASSIGNMENT = re.compile(r"(\w+)\s*[-+*/@]?=[^=]")


def name_results(program: Program) -> None:
    """Name what the user's lines assign as these do: the last result of ``h = f(x)`` is ``h``."""
    lines = [line for line in program.lines if line.place[0] is not None and line.outputs]
    runs = runs_of(lines)
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        if not line.backward and (following is None or runs[following] != runs[line]):
            _name(line)


def _name(line: Line) -> None:
    code, offset = line.place
    assert code is not None
    text = linecache.getline(code.co_filename, line_number(code, offset))
    match = _ASSIGNMENT.match(text.strip())
    if match is not None and match[1] != "np" and not keyword.iskeyword(match[1]):
        line.outputs[0].name = match[1]
