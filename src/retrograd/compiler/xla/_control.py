"""Lowerings of control flow. A branch or body also returns whether all conditions stated by its
lowerings hold (``_table.py:trust``)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from retrograd.compiler._control_lines import Scan, While
from retrograd.compiler._program import Line, Program
from retrograd.compiler.xla._table import aside, lowering, trust


class _Function:
    """A program as a function of JAX arrays. It returns the outputs, and whether the conditions
    stated by lowerings hold."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.in_doubt = False  # whether its lowerings have stated conditions

    def __call__(self, *values: Any) -> tuple[Any, Any]:
        from retrograd.compiler.xla._executable import run_line

        program = self.program
        known = dict(zip(program.inputs, values, strict=True))
        with aside() as conditions:
            for line in program.lines:
                run_line(line, known)
        self.in_doubt = self.in_doubt or bool(conditions)
        holds = jnp.asarray(True)
        for condition in conditions:
            holds = holds & jnp.all(condition)
        return tuple([jnp.asarray(known.get(v, v.constant)) for v in program.outputs]), holds


def _is_true(x: Any) -> Any:
    return jnp.reshape(x, ()) != 0


@lowering("branch")
def _branch(pred: Any, *args: Any, line: Line) -> Any:
    yes, no = map(_Function, line.operation.programs)
    outputs, holds = lax.cond(_is_true(pred), yes, no, *args)
    if yes.in_doubt or no.in_doubt:
        trust(holds)
    return outputs


@lowering("while_loop")
def _while_loop(*args: Any, line: Line) -> Any:
    operation: While = line.operation
    condition, body = map(_Function, operation.programs)
    rest = args[operation.carried :]

    def is_going(state: Any) -> Any:
        values, holds = state
        (going,), sure = condition(*values, *rest)
        return _is_true(going) & holds & sure  # if not, the program runs again on NumPy

    def step(state: Any) -> Any:
        values, holds = state
        new, sure = body(*values, *rest)
        return new, holds & sure

    start = tuple(map(jnp.asarray, args[: operation.carried]))
    outputs, holds = lax.while_loop(is_going, step, (start, jnp.asarray(True)))
    if condition.in_doubt or body.in_doubt:
        trust(holds & condition(*outputs, *rest)[1])
    return outputs


@lowering("scan")
def _scan(*args: Any, line: Line) -> Any:
    operation: Scan = line.operation
    body = _Function(operation.programs[0])
    start, end = operation.carried, operation.carried + operation.sliced

    def step(state: Any, slices: Any) -> Any:
        values, holds = state
        outputs, sure = body(*values, *slices, *args[end:])
        return (outputs[:start], holds & sure), outputs[start:]

    first = tuple(map(jnp.asarray, args[:start])), jnp.asarray(True)
    (values, holds), results = lax.scan(step, first, args[start:end], reverse=operation.reverse)
    if body.in_doubt:
        trust(holds)
    return (*values, *results)
