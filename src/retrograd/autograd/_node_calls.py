"""Calling a node directly: ``y.grad_fn(g)`` returns the gradients of its inputs.

Nothing but its rules is run: no hooks, and no step that the engine takes afterwards. So a gradient
has the shape of the node's output where an input was broadcast, and what was saved stays.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.autograd._history import CopySlices
from retrograd.autograd._node import Node
from retrograd.autograd._operation_node import bare_rules
from retrograd.autograd._wrap import Plug, wrap


def call_node(node: Node, grads: tuple[Any, ...]) -> Any:
    """The gradients of a node's inputs from those of its outputs."""
    outputs = getattr(node, "outputs", None)
    slots = [0] if outputs is None else [
        i for i, (_, dtype) in enumerate(outputs) if arrays.dtypes.has_derivative(dtype)
    ]  # fmt: skip
    if len(grads) != len(slots):
        raise TypeError(f"expected {len(slots)} arguments, got {len(grads)} instead")
    for i, g in enumerate(grads):
        if g is not None and not isinstance(g, Plug.tensor):
            raise TypeError(f"argument {i} is not a Variable")
    kept = _inputs_shown(node)
    received: Any = [None] * len(kept)
    if any(g is not None for g in grads):
        recorded = modes.grad_enabled
        every: list[Any] = [None] * (1 if outputs is None else len(outputs))
        for slot, g in zip(slots, grads, strict=True):
            every[slot] = g if g is None or recorded else g._data
        given = every[0] if outputs is None else every
        received = bare_rules(node, given, node.next_nodes, recorded)
    results = [
        x if x is None or isinstance(x, Plug.tensor) else wrap(x)
        for x, is_kept in zip(received, kept, strict=True)
        if is_kept
    ]
    return results[0] if len(results) == 1 else tuple(results)


def _inputs_shown(node: Node) -> list[bool]:
    """Which inputs a node shows: not those without a derivative by their nature."""
    written = isinstance(node, CopySlices)
    operation = (node.write if isinstance(node, CopySlices) else node).operation
    if operation is None or operation.joint:
        return [True] * len(node.next_nodes)
    shown = [rule is not None for rule in operation.rules]
    return [True, *shown[1:]] if written else shown
