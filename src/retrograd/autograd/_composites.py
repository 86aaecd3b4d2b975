"""The derivative of a composite from its definition.

Fused rules take arrays only. Where a backward pass carries more than arrays, because it is recorded
itself or because a transform is open, the definition is evaluated again on what the node saved, and
differentiated as the expression that it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._backward import grad
from retrograd.autograd._levels import raised
from retrograd.autograd._node import Node
from retrograd.autograd._operation_node import OperationNode
from retrograd.autograd._wrap import wrap
from retrograd.autograd.grad_mode import enable_grad
from retrograd.ops import linear
from retrograd.ops._lifted import tracer
from retrograd.ops._operation import TensorLike, raw


def by_definition(
    node: OperationNode, g: Any, next_nodes: Sequence[Node | None], recorded: bool,
    saved: dict[str, Any] | None = None,
) -> Sequence[Any]:  # fmt: skip
    """The gradients of the inputs of a composite, for those of its outputs. ``saved``: what the
    node saved, if it has been unpacked already."""
    operation = node.operation
    assert operation.definition is not None
    tracing = None if recorded else tracer()
    if tracing is not None:
        traced = tracing.fused_rules(node, g, next_nodes, saved)
        if traced is not NotImplemented:
            return traced  # type: ignore[no-any-return]
    with enable_grad():
        inputs = inputs_of(node, node.saved_as_tensors() if saved is None else saved)
        variables = [
            x if n is None else variable(x, recorded)
            for x, n in zip(inputs, next_nodes, strict=True)
        ]
        outputs = operation.definition(*variables, **node.options)
        several = isinstance(outputs, (tuple, list))
        pairs = [
            (y, t if isinstance(t, TensorLike) else wrap(t))
            for y, t in (zip(outputs, g, strict=True) if several else [(outputs, g)])
            if t is not None and y.requires_grad
        ]
        wanted = [x for x, n in zip(variables, next_nodes, strict=True) if n is not None]
        if not pairs:
            return (None,) * len(variables)
        roots, seeds = zip(*pairs, strict=True)
        result = iter(grad(roots, wanted, seeds, create_graph=recorded, allow_unused=True))
    gradients = [None if n is None else next(result) for n in next_nodes]
    return gradients if recorded else [None if x is None else raw(x) for x in gradients]


def inputs_of(node: OperationNode, saved: dict[str, Any]) -> list[Any]:
    """The inputs of a composite. The derivative does not depend on the values of those that its
    node did not save, and zeros stand for them."""
    return [
        saved[name] if saved.get(name) is not None
        else None if dtype is None else wrap(arrays.zeros(shape, dtype))
        for name, (shape, dtype) in zip(node.operation.inputs, node.infos, strict=True)
    ]  # fmt: skip


def variable(x: Any, recorded: bool) -> Any:
    """A variable of the value ``x``. In a pass that is recorded its history goes on from ``x``."""
    x = raised(x)
    return linear.alias(x) if recorded and x.requires_grad else wrap(x._data).requires_grad_()

