"""Tangents of one operation: how its results move when its inputs do.

Each family has its own way. What is left over, operations with several outputs or rules of their
own, goes by transposing twice: a rule is linear in ``g``, so the gradient of *it* with respect to
``g`` takes a tangent forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._backward import grad
from retrograd.autograd._wrap import wrap
from retrograd.autograd.grad_mode import enable_grad
from retrograd.ops import linear
from retrograd.ops._operation import Operation, Rule, raw


def push_forward(
    op: Operation, inputs: Sequence[Any], tangents: Sequence[Any], options: dict[str, Any]
) -> tuple[Any, ...]:
    """The tangents of the results of ``op(*inputs, **options)``, for arrays.

    ``tangents`` has None for inputs that do not move; the result has None for outputs that are not
    numbers one could move (places, truths).
    """
    outputs = _called(op, inputs, options)
    if op.jvp is not None:
        t = tangents[0] if len(op.inputs) == 1 and op.inputs != ("tensors",) else tuple(tangents)
        return _as_tuple(_run(op, op.jvp, t, inputs, outputs, options, 0))
    if op.family == "linear":
        moving = [
            t if t is not None else linear.new_zeros(x, x.shape) if moves else x
            for x, t, moves in zip(inputs, tangents, _may_move(op, inputs), strict=True)
        ]
        return _called(op, moving, options)
    if op.family == "multilinear":
        return (_product_rule(op, inputs, tangents, options),)
    if op.family == "elementwise" and not op.adjoint:
        parts = [
            _run(op, rule, t, inputs, outputs, options, i)
            for i, (rule, t) in enumerate(zip(op.rules, tangents, strict=True))
            if rule is not None and t is not None
        ]
        return (arrays.cast(arrays.expand(_total(parts), outputs[0].shape), outputs[0].dtype),)
    return _transposed_twice(op, inputs, tangents, options, outputs)


def _may_move(op: Operation, inputs: Sequence[Any]) -> list[bool]:
    """Which inputs have a derivative. Others (places, masks) are as good as options."""
    if op.joint is not None:
        return [True] * len(inputs)
    return [rule is not None for rule in op.rules]


def _called(op: Operation, inputs: Sequence[Any], options: dict[str, Any]) -> tuple[Any, ...]:
    arguments = (list(inputs),) if op.inputs == ("tensors",) else inputs
    return _as_tuple(op(*arguments, **options))


def _as_tuple(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def _total(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _product_rule(
    op: Operation, inputs: Sequence[Any], tangents: Sequence[Any], options: dict[str, Any]
) -> Any:
    """One factor moves at a time."""
    return _total([
        op(*inputs[:i], t, *inputs[i + 1 :], **options)
        for i, t in enumerate(tangents)
        if t is not None
    ])  # fmt: skip


def _run(
    op: Operation, rule: Rule, t: Any, inputs: Sequence[Any], outputs: tuple[Any, ...],
    options: dict[str, Any], position: int,
) -> Any:  # fmt: skip
    """A rule, given ``t`` and whatever it names."""
    values = {**options, "shape": getattr(inputs[position], "shape", ())}
    values.update(zip(op.output_names, outputs, strict=False))
    if op.inputs != ("tensors",):
        values.update(zip(op.inputs, inputs, strict=True))
    return rule.function(t, *[values[name] for name in rule.names])


def _transposed_twice(
    op: Operation, inputs: Sequence[Any], tangents: Sequence[Any], options: dict[str, Any],
    outputs: tuple[Any, ...],
) -> tuple[Any, ...]:  # fmt: skip
    with enable_grad():
        variables = [
            x if t is None else wrap(raw(x)).requires_grad_(True)
            for x, t in zip(inputs, tangents, strict=True)
        ]
        results = _called(op, variables, options)
        roots = [r for r in results if r.requires_grad]
        given = [wrap(arrays.zeros(r._data.shape, r._data.dtype)).requires_grad_() for r in roots]
        moving = [v for v, t in zip(variables, tangents, strict=True) if t is not None]
        back = grad(roots, moving, given, create_graph=True, materialize_grads=True)
    directions = [wrap(t) for t in tangents if t is not None]
    pairs = [(b, t) for b, t in zip(back, directions, strict=True) if b.requires_grad]
    found: Sequence[Any] = [None] * len(given)
    if pairs:
        ends, seeds = zip(*pairs, strict=True)
        found = grad(ends, given, seeds, allow_unused=True)
    moved = iter(found)
    return tuple(_tangent(next(moved), y) if r.requires_grad else None
                 for r, y in zip(results, outputs, strict=True))  # fmt: skip


def _tangent(found: Any, output: Any) -> Any:
    return arrays.zeros(output.shape, output.dtype) if found is None else found._data
