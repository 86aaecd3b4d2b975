"""Tangents of the results of an operation, from the tangents of its inputs.

Each family has its own method. What is left over, operations with several outputs or rules of their
own, goes by transposing twice: a rule is linear in ``g``, so the gradient of *it* with respect to
``g`` takes a tangent forward.

Inputs and tangents may be raw arrays, Tensors, whose history goes on, or lifted values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd._modes import modes
from retrograd.autograd._backward import grad
from retrograd.autograd._levels import raised
from retrograd.autograd._variables import Variables
from retrograd.autograd._wrap import wrap
from retrograd.autograd.grad_mode import enable_grad
from retrograd.ops import copies, linear
from retrograd.ops._lifted import LazyTangent
from retrograd.ops._operands import Rule
from retrograd.ops._operation import Linear, Operation, Reduction, Selecting, TensorLike, raw


def push_forward(
    op: Operation, inputs: Sequence[Any], tangents: Sequence[Any], options: dict[str, Any],
    outputs: Sequence[Any], lazily: bool = False,
) -> Sequence[Any]:  # fmt: skip
    """The tangents of ``outputs``, the results of ``op(*inputs, **options)``.

    ``tangents`` has None for inputs that do not move. So has the result for outputs that do not,
    or that no number could move (indices, bools). ``lazily``: it may have a ``LazyTangent``.
    """
    if op.jvp is not None:
        alone = len(op.inputs) == 1 and op.inputs != ("tensors",)
        t = tangents[0] if alone else tuple(tangents)
        result = run_rule(op, op.jvp, t, inputs, outputs, options, 0)
    elif op.symmetric:
        assert op.rules[0] is not None
        result = run_rule(op, op.rules[0], tangents[0], inputs, outputs, options, 0)
    elif isinstance(op, Linear):
        linear_options = options if op.offset is None else {**options, op.offset: 0}
        result = call(op, _moving(op, inputs, tangents), linear_options)
    elif op.family == "multilinear":
        result = _product_rule(op, inputs, tangents, options)
    elif isinstance(op, Selecting):
        selected = run_rule(op, op.gather, tangents[0], inputs, outputs, options, 0)
        result = (selected, *(None,) * (len(outputs) - 1))
    elif op.family == "elementwise":
        result = _sum_of_derivatives(op, inputs, tangents, options, outputs)
    elif op.family == "matrix function":
        moved = _between_transpositions(op, inputs, tangents[0], options, outputs)
        result = (moved, *(None,) * (len(outputs) - 1))
    elif isinstance(op, Reduction):
        moved = _reduced_derivatives(op, inputs, tangents[0], options, outputs)
        result = (moved, *(None,) * (len(outputs) - 1))
    else:
        assert not op.random, f"{op.name} needs a tangent rule: calling it again draws again"
        return transposed_twice(lambda xs: call(op, xs, options), inputs, tangents)
    if not isinstance(result, (tuple, list)):
        return (result,)
    return result if lazily else [t.compute() if type(t) is LazyTangent else t for t in result]


def call(op: Operation, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """An operation on its inputs, whether it takes them one by one or as a list."""
    if op is linear.view or op is linear.reshape_alias:  # a tangent may lie otherwise in memory
        return linear.reshape(inputs[0], options["size"])
    return op(list(inputs), **options) if op.inputs == ("tensors",) else op(*inputs, **options)


def _moving(op: Operation, inputs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The tangents as inputs of a linear operation: zeros for what does not move. Inputs without
    derivative (indices, masks) are as good as options."""
    moves = [True] * len(inputs) if op.joint else [rule is not None for rule in op.rules]
    return [
        t if t is not None else copies.zeros_like(x) if may_move and x is not None else x
        for x, t, may_move in zip(inputs, tangents, moves, strict=True)
    ]


def _product_rule(
    op: Operation, inputs: Sequence[Any], tangents: Sequence[Any], options: dict[str, Any]
) -> Any:
    """The product rule: the sum of the results in which one factor is replaced by its tangent."""
    parts = [
        op(*inputs[:i], t, *inputs[i + 1 :], **options)
        for i, t in enumerate(tangents)
        if t is not None
    ]
    if isinstance(parts[0], tuple):
        return tuple(_total(list(moved)) for moved in zip(*parts, strict=True))
    return _total(parts)


def _sum_of_derivatives(
    op: Operation, inputs: Sequence[Any], tangents: Sequence[Any], options: dict[str, Any],
    outputs: Sequence[Any],
) -> Any:  # fmt: skip
    """Rules of elementwise operations are products with derivatives, and serve tangents as well."""
    parts = [
        _real_derivatives(op, rule, t, inputs, outputs, options, i)
        if op.adjoint and (copies.is_complex(inputs[i]) or copies.is_complex(outputs[0]))
        else run_rule(op, rule, t, inputs, outputs, options, i)
        for i, (rule, t) in enumerate(zip(op.rules, tangents, strict=True))
        if rule is not None and t is not None
    ]
    return _like(_total(parts), outputs[0]) if parts else None


def _real_derivatives(
    op: Operation, rule: Rule, t: Any, inputs: Sequence[Any], outputs: Sequence[Any],
    options: dict[str, Any], position: int,
) -> Any:  # fmt: skip
    """Where an operation is not complex-differentiable its rule gives, for ones, the gradient of
    the real part of the result, and for imaginary ones that of the imaginary part. A tangent moves
    each part by its scalar product with the gradient, both taken as points of the plane."""

    def part(seed: Any) -> Any:
        derivatives = run_rule(op, rule, seed, inputs, outputs, options, position)
        moved = copies.conj(derivatives) * t if copies.is_complex(derivatives) else derivatives * t
        return copies.real(moved) if copies.is_complex(moved) else moved

    ones = copies.zeros_like(outputs[0]) + 1
    return part(ones) + part(ones * 1j) * 1j if copies.is_complex(ones) else part(ones)


def _reduced_derivatives(
    op: Reduction, inputs: Sequence[Any], t: Any, options: dict[str, Any], outputs: Sequence[Any]
) -> Any:
    """The derivatives of every result, times the tangents, summed where the operation reduces."""
    rule, x = op.rules[0], inputs[0]
    assert rule is not None
    ones = copies.zeros_like(outputs[0]) + 1
    several = len(outputs) > 1
    seed = (ones, *(None,) * (len(outputs) - 1)) if several else ones
    derivatives = run_rule(op, rule, seed, inputs, outputs, options, 0)
    if derivatives is None:
        return None
    dim = options.get("dim", op.reduced)
    dims = (dim,) if isinstance(dim, int) and x.shape else dim
    moved = derivatives * t
    if op.adjoint and raw(derivatives).dtype.kind == "c":  # of a real result
        moved = copies.real(copies.conj(derivatives) * t)
    if dims is None or isinstance(dims, int):
        dims = tuple(range(len(x.shape)))
    return linear.sum_dim(moved, dim=dims, keepdim=options.get("keepdim", False))


def _between_transpositions(
    op: Operation, inputs: Sequence[Any], t: Any, options: dict[str, Any], outputs: Sequence[Any]
) -> Any:
    rule, seed = op.rules[0], linear.transposed(t)
    assert rule is not None
    if len(outputs) > 1:
        seed = (seed, *(None,) * (len(outputs) - 1))
    return linear.transposed(run_rule(op, rule, seed, inputs, outputs, options, 0))


def _total(parts: list[Any]) -> Any:
    total = parts[0] if parts else None
    for part in parts[1:]:
        total = total + part
    return total


def _like(x: Any, output: Any) -> Any:
    """A tangent, brought to the shape and dtype of its value."""
    shape, dtype = output.shape, raw(output).dtype
    if x.shape != shape:
        x = copies.clone(linear.expand(x, size=tuple(shape)))  # which may be written to
    return x if raw(x).dtype == dtype else copies.to_dtype(x, dtype=dtype)


def run_rule(
    op: Operation, rule: Rule, t: Any, inputs: Sequence[Any], outputs: Sequence[Any],
    options: dict[str, Any], position: int,
) -> Any:  # fmt: skip
    """Call a rule with ``t`` and the values that it names."""
    values = dict(options)
    if op.inputs != ("tensors",):
        values.update(zip(op.inputs, inputs, strict=True))
    values.update(zip(op.output_names, outputs, strict=False))
    shape = tuple(getattr(inputs[position], "shape", ())) if rule.names_shape else ()
    return rule.function(t, *rule.arguments(values, shape))


def transposed_twice(
    function: Callable[[list[Any]], Any], inputs: Sequence[Any], tangents: Sequence[Any]
) -> Sequence[Any]:
    """The tangents of what ``function`` gives for some inputs, from its gradients alone."""
    deeper = modes.grad_enabled and any(
        getattr(x, "requires_grad", False) for x in (*inputs, *tangents)
    )
    moving = [t is not None for t in tangents]
    scope = Variables()
    with enable_grad():
        variables = [_variable(x, scope) if m else x for x, m in zip(inputs, moving, strict=True)]
        results = function(variables)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        roots = [r for r in results if r.requires_grad]
        given = [scope.make(copies.zeros_like(r)) for r in roots]
        moved_inputs = [v for v, m in zip(variables, moving, strict=True) if m]
        back = grad(roots, moved_inputs, given, create_graph=True, materialize_grads=True)
        directions = [t for t in tangents if t is not None]
        pairs = [(b, t) for b, t in zip(back, directions, strict=True) if b.requires_grad]
        pushed: Sequence[Any] = [None] * len(given)
        if pairs:
            ends, seeds = zip(*pairs, strict=True)
            seeds = tuple(t if isinstance(t, TensorLike) else wrap(t) for t in seeds)
            pushed = grad(ends, given, seeds, allow_unused=True, create_graph=deeper)
            if deeper:
                some = iter(scope.separate([t for t in pushed if t is not None], scope.start))
                pushed = [None if t is None else next(some) for t in pushed]
    scope.close()
    moved = iter(pushed)
    in_kind = raw if not any(isinstance(x, TensorLike) for x in inputs) else _as_is
    return [in_kind(next(moved)) if r.requires_grad else None for r in results]


def _as_is(x: Any) -> Any:
    return x


def _variable(x: Any, scope: Variables) -> Any:
    """A variable of the value ``x``, whose history goes on from that of ``x`` if it has one."""
    x = raised(x if isinstance(x, TensorLike) else wrap(x))
    return linear.alias(x) if x.requires_grad else scope.make(x)
