"""A program in stages: parts that XLA runs, and parts that NumPy runs between them.

On NumPy, by the kernels of eager mode: draws of random numbers, which come from the package's own
generators in the order that they are written in, checks of values, and operations that XLA has
nothing for. Most programs draw and check first and compute then, so that they have two stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from retrograd.compiler._program import Line, Program, Var


class Stage(NamedTuple):
    """A part of a program, as a program."""

    on_host: bool
    program: Program


def stages_of(
    program: Program, on_host: Callable[[Line], bool], late: Callable[[Line], bool] | None = None
) -> list[Stage]:
    """The stages of a program, in order: as few as there can be if lines keep what they need and
    lines with effects their order.

    ``late`` are lines for NumPy that begin a second part of the program. What does not depend on
    them is in stages before theirs."""
    shown = _shown_parts(program)
    number: dict[Var, int] = {}
    parts: dict[int, list[Line]] = {}
    effects = 0
    for line in program.lines:
        host = bool(line.effects or on_host(line) or any(v in shown for v in line.outputs))
        stage = int(not host)  # even numbers are NumPy's
        if late is not None and late(line):
            stage = 2  # the lines of stage 1, which do not need it, are XLA's first part
        for v in line.inputs:
            before = number.get(v, 0)
            stage = max(stage, before if before % 2 == (not host) else before + 1)
        if line.effects:
            stage = effects = max(stage, effects)
        number.update(dict.fromkeys(line.outputs, stage))
        parts.setdefault(stage, []).append(line)
    return _with_ends(program, [(k % 2 == 0, parts[k]) for k in sorted(parts)])


def _shown_parts(program: Program) -> set[Var]:
    """Outputs that are views of inputs, and the views that lead there. They stay views."""
    made_by = {v: line for line in program.lines for v in line.outputs}
    inputs = set(program.inputs)
    results: set[Var] = set()
    for v in program.outputs:
        while v.root is not v and v.root in inputs and v in made_by and v not in results:
            line = made_by[v]
            if not line.operation.view:
                break
            results.update(line.outputs)
            v = line.inputs[0]
    return results


def _with_ends(program: Program, parts: list[tuple[bool, list[Line]]]) -> list[Stage]:
    """Stages with their inputs and outputs. What the last stage overwrites, if NumPy runs it, may
    be written in the memory of the inputs of the program."""
    needed = dict.fromkeys(program.outputs)
    found = []
    for number, (host, lines) in reversed(list(enumerate(parts))):
        made = {v for line in lines for v in line.outputs}
        used = _unique(v for line in lines for v in line.inputs)
        inputs = [v for v in used if v not in made and v.constant is None]
        outputs = [v for v in needed if v in made]
        last = host and number == len(parts) - 1
        updates = [(old, new) for old, new in program.updates if new in made] if last else []
        name = program.name if len(parts) == 1 else f"{program.name}_{number + 1}"
        found.append(Stage(host, Program(name, inputs, lines, outputs, updates)))
        needed.update(dict.fromkeys(inputs))
    return found[::-1]


def _unique(values: Iterable[Var]) -> list[Var]:
    return list(dict.fromkeys(values))
