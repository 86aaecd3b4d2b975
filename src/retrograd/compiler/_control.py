"""``cond``, ``while_loop`` and ``scan`` in a function that is being traced.

Each is a custom Function (``_control_functions.py``) of tensors. A transform cannot see the tensors
that a branch or a body captures. So these functions are first run in a rehearsal, which records
their captured tensors (``_rehearsal.py``). Those that have a history, or belong to a transform, are
passed as additional operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd._modes import modes
from retrograd.compiler._blocks import Blocks, CannotTrace, aside, restore, unnoted
from retrograd.compiler._control_functions import Cond, WhileLoop, run_scan
from retrograd.compiler._rehearsal import (
    Closed,
    Failed,
    Noting,
    Rehearsal,
    captured_in,
    check_numbers,
    check_random,
    frozen,
    has_history,
    replaced,
)
from retrograd.compiler._tracing import TraceLevel
from retrograd.compiler._writer import WritesOutside
from retrograd.func import _control as eager
from retrograd.func._trees import Shape, flatten, unflatten
from retrograd.tensor._tensor import Tensor

Fn = Callable[..., Any]


def cond(level: TraceLevel, pred: Any, true_fn: Fn, false_fn: Fn, operands: Any) -> Any:
    leaves, shape = given_to(operands)
    branches = (frozen(true_fn), frozen(false_fn))

    def traced() -> Any:
        rehearsals = [Rehearsal(level, fn, leaves, shape) for fn in branches]
        yes, no = rehearsals
        eager.check_branches(yes.leaves, yes.shape, no.leaves, no.shape)
        check_numbers(yes.leaves, no.leaves)
        captured, values = captured_in(rehearsals)
        check_random(rehearsals, [pred, *leaves, *values])
        functions = [Closed(fn, shape, captured) for fn in branches]
        with unnoted():
            outputs = Cond.apply(Blocks(level, *functions), replaced(pred), *leaves, *values)
        return yes.filled(outputs)

    return tried(level, "cond", traced, lambda: eager.cond_now(pred, true_fn, false_fn, operands))


def while_loop(level: TraceLevel, cond_fn: Fn, body_fn: Fn, carried: Any) -> Any:
    leaves, shape = given_to(carried)
    parts = (frozen(cond_fn), frozen(body_fn))

    def traced() -> Any:
        if not all(isinstance(x, Tensor) for x in leaves):
            raise CannotTrace("a loop that carries an int, whose value is not known. Carry a "
                              "tensor instead")  # fmt: skip
        rehearsals = [Rehearsal(level, fn, leaves, shape) for fn in parts]
        if not isinstance(eager.checked_condition(rehearsals[0].output), Tensor):
            raise CannotTrace("a loop whose condition is a bool. Compute a tensor instead")
        eager.checked_values(leaves, shape, rehearsals[1].output)
        captured, values = captured_in(rehearsals)
        inputs = [*leaves, *values]
        check_random(rehearsals, inputs)
        if modes.grad_enabled and any(map(has_history, inputs)):
            raise CannotTrace("while_loop(), whose gradient needs the values of all iterations. "
                              "Use torch.scan(), which keeps them, for a known number of "
                              "iterations, or forward mode")  # fmt: skip
        functions = [Closed(fn, shape, captured) for fn in parts]
        with unnoted():
            outputs = WhileLoop.apply(Blocks(level, *functions), len(leaves), *inputs)
        return tuple(unflatten(outputs, shape))

    return tried(
        level, "while_loop", traced, lambda: eager.while_loop_now(cond_fn, body_fn, carried)
    )


def scan(level: TraceLevel, combine_fn: Fn, init: Any, xs: Any, dim: int, reverse: bool) -> Any:
    carry, carry_shape = given_to(init)
    slices, _ = given_to(xs)
    moved = [x.movedim(dim, 0) if dim else x for x in slices]
    shape = flatten((init, xs))[1]
    function = frozen(combine_fn)

    def traced() -> Any:
        with aside(level):
            first = [*carry, *[x.select(0, -1 if reverse else 0) for x in moved]]
            rehearsal = Rehearsal(level, function, first, shape)
        ys_shape = eager.combined(carry, carry_shape, rehearsal.output)[2]
        captured, values = captured_in([rehearsal])
        inputs = [*carry, *moved, *values]
        check_random([rehearsal], inputs)
        combine = Closed(function, shape, captured)
        blocks = Blocks(level, combine)
        with unnoted():
            outputs = run_scan(blocks, combine, len(carry), len(moved), reverse, inputs)
        ys = rehearsal.filled(outputs[: len(rehearsal.tensors)])[1]
        ys_leaves = [
            y.movedim(0, dim) if isinstance(y, Tensor) and 0 < dim < y.dim() else y
            for y in flatten(ys)[0]
        ]
        return unflatten(outputs[: len(carry)], carry_shape), unflatten(ys_leaves, ys_shape)

    return tried(level, "scan", traced, lambda: eager.scan_now(combine_fn, init, xs, dim, reverse))


def given_to(tree: Any) -> tuple[list[Any], Shape]:
    """The leaves of the arguments of control flow, and how they are nested. Rehearsals of enclosing
    control flow record them, and enclosing control flow may have replaced them."""
    leaves, shape = flatten(tuple(tree) if isinstance(tree, list) else tree)
    for noting in modes.interceptors:
        if isinstance(noting, Noting):
            for x in leaves:
                if isinstance(x, Tensor):
                    noting.note(x)
    return [replaced(x) for x in leaves], shape


def tried(level: TraceLevel, name: str, traced: Callable[[], Any], now: Callable[[], Any]) -> Any:
    """Control flow as a line of the program. If that is not possible, it runs eagerly, and the
    function is not compiled."""
    start = len(level.lines)
    states = [g.saved() for g in level.generators]
    looked = level.looked
    try:
        return traced()
    except WritesOutside:
        why = f"{name}(), in which a tensor from outside is written. Return the new value instead"
    except CannotTrace as error:
        why = str(error)
    except Failed as failed:  # such as a branch that these operands are not meant for
        why = f"{name}(), in which {type(failed.error).__name__} is raised: {failed.error}"
        level.looked = looked  # this reason says more than that an operation failed
    del level.lines[start:]
    restore(level, states)
    level.look(f"control flow: {why}")
    return now()
