"""Divides a program into stages: parts that XLA runs, and parts that NumPy runs between them.

NumPy runs three kinds of lines, by the kernels of eager mode: those that draw random numbers, which
the package's own generators supply in program order; checks of values; and operations without a
lowering. Most programs draw and check first, and then compute, so they have two stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from retrograd.compiler._program import Line, Program, Var


class Stage(NamedTuple):
    """A part of a program, itself a program."""

    on_host: bool
    program: Program


def stages_of(
    program: Program, on_host: Callable[[Line], bool], late: Callable[[Line], bool] | None = None
) -> list[Stage]:
    """The stages of a program, in order. Their number is minimal, given that a line runs after the
    lines that it depends on, and that lines with effects keep their order.

    ``late`` selects lines for NumPy that begin a second part of the program. Lines that do not
    depend on them are in earlier stages."""
    shown = _shown_parts(program)
    number: dict[Var, int] = {}
    parts: dict[int, list[Line]] = {}
    effects = 0
    for line in program.lines:
        host = bool(line.effects or on_host(line) or any(v in shown for v in line.outputs))
        stage = int(not host)  # NumPy's stages have even numbers
        if late is not None and late(line):
            stage = 2  # after stage 1: XLA's lines that do not depend on this one
        for v in line.inputs:
            before = number.get(v, 0)
            stage = max(stage, before if before % 2 == (not host) else before + 1)
        if line.effects:
            stage = effects = max(stage, effects)
        number.update(dict.fromkeys(line.outputs, stage))
        parts.setdefault(stage, []).append(line)
    return _with_ends(program, [(k % 2 == 0, parts[k]) for k in sorted(parts)])


def _shown_parts(program: Program) -> set[Var]:
    """Outputs that are views of inputs, and intermediate views. NumPy computes them, so that they
    share the memory of the inputs."""
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
    """Stages with their inputs and outputs. If NumPy runs the last stage, it may write to the
    memory of the program's inputs."""
    needed = dict.fromkeys(program.outputs)
    stages = []
    for number, (host, lines) in reversed(list(enumerate(parts))):
        computed = {v for line in lines for v in line.outputs}
        used = _unique(v for line in lines for v in line.inputs)
        inputs = [v for v in used if v not in computed and v.constant is None]
        outputs = [v for v in needed if v in computed]
        last = host and number == len(parts) - 1
        updates = [(old, new) for old, new in program.updates if new in computed] if last else []
        name = program.name if len(parts) == 1 else f"{program.name}_{number + 1}"
        stages.append(Stage(host, Program(name, inputs, lines, outputs, updates)))
        needed.update(dict.fromkeys(inputs))
    return stages[::-1]


def _unique(values: Iterable[Var]) -> list[Var]:
    return list(dict.fromkeys(values))
