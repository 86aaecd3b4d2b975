"""Passes: each takes a program and makes it simpler without changing a bit of what it gives."""

from __future__ import annotations

from retrograd.compiler._program import Program


def simplified(program: Program) -> Program:
    """The program after all passes."""
    remove_unused(program)
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
