"""Facts about nodes and tensors, as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from retrograd import _source
from retrograd.arrays import dtypes
from retrograd.autograd._explaining._names import Names
from retrograd.autograd._explaining._paths import reachable
from retrograd.autograd._history import CopySlices
from retrograd.autograd._node import FREED, NOWHERE, AccumulateGrad, Node
from retrograd.autograd._operation_node import OperationNode
from retrograd.autograd._wrap import SPARSE
from retrograd.autograd.function import FunctionCtx

MOST_NAMED = 4  # of what there are many


def operation_name(node: Node) -> str:
    """What a user calls the operation that made a node: ``mul`` for ``MulBackward0``."""
    if isinstance(node, CopySlices):
        return f"{operation_name(node.write)} to a part"
    if isinstance(node, FunctionCtx):
        return node.function.__name__
    plain = re.sub(r"Backward\d*$", "", node.name())
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()


def place(node: Node) -> str | None:
    """``train.py:12: y = x.exp()``: where a node was made."""
    return _source.short(node.source)


def at(node: Node) -> str:
    """`` at train.py:12: y = x.exp()``, or nothing where the line is not known. It ends a
    sentence, without a period: that would look like code."""
    result = place(node)
    return f" at {result}" if result else "."


def at_line(node: Node) -> str:
    """`` at train.py:12``, or nothing, for the middle of a sentence."""
    result = place(node)
    return " at " + ":".join(result.split(":", 2)[:2]) if result else ""


def shape_text(shape: Iterable[int]) -> str:
    return str(list(shape))


def kind(tensor: Any) -> str:
    """``float32 [2, 3]``."""
    data = tensor._data
    return f"{dtypes.from_numpy_dtype(data.dtype).name} {shape_text(data.shape)}"


def name_list(names: Iterable[str]) -> str:
    """``a, b, c and 7 more``."""
    result = list(names)
    more = len(result) - MOST_NAMED
    if more <= 0:
        return " and ".join([", ".join(result[:-1]), result[-1]] if len(result) > 1 else result)
    return f"{', '.join(result[:MOST_NAMED])} and {more} more"


def leaves(nodes: Iterable[Node], names: Names) -> list[str]:
    """The leaves among nodes: their names, or their kinds."""
    result = sorted((n for n in nodes if isinstance(n, AccumulateGrad)), key=lambda n: -n.order)
    return [names.of(n.variable) or f"a leaf of {kind(n.variable)}" for n in result]


def grad_of(tensor: Any) -> Any:
    """``.grad`` without the warning for results; the dense form of a sparse one."""
    grad: Any = None if tensor._meta is None else tensor._meta.grad
    return grad.to_dense() if type(grad) in SPARSE else grad


def shared_with(tensor: Any, names: Names) -> list[tuple[str, Any]]:
    """The variables that require grad and show the same memory as a tensor."""
    return [
        (name, other)
        for name, other in names.tensors
        if other is not tensor and other.requires_grad and same_memory(tensor, other)
    ]


def same_memory(one: Any, other: Any) -> bool:
    version = one._version_counter
    return one._data is other._data or (version is not None and version is other._version_counter)


def constants(nodes: Iterable[Node]) -> Iterator[tuple[Node, Any]]:
    """The raw values that nodes have kept of inputs that need no gradient, as far as they keep
    them."""
    for node in nodes:
        if node.saved is FREED or not node.saved:
            continue
        if isinstance(node, OperationNode):
            operation = node.operation
            for i, name in enumerate(operation.saves):
                inputs = operation.inputs
                if name in inputs and node.next_nodes[inputs.index(name)] is None:
                    yield node, node.saved[3 * i]
        elif isinstance(node, FunctionCtx):
            for entry in node.saved:
                if entry[0] is not None and not getattr(entry[0], "requires_grad", True):
                    yield node, entry[0]._data


def changed(nodes: Iterable[Node]) -> tuple[Node, _source.Place] | None:
    """A node that has saved a value which was written since, and where it was written."""
    for maker in nodes:
        node: Any = maker.write if isinstance(maker, CopySlices) else maker
        if node.saved is FREED or not node.saved:
            continue
        if isinstance(node, OperationNode):
            pairs = [(node.saved[i + 1], node.saved[i + 2]) for i in range(0, len(node.saved), 3)]
        elif isinstance(node, FunctionCtx):
            pairs = [(entry[1], entry[2]) for entry in node.saved if entry[0] is not None]
        else:
            continue
        for version, count in pairs:
            if version.count != count:
                return node, version.written_at
    return None


def into_nowhere(nodes: Iterable[Node]) -> Node | None:
    """A node that uses a view which was taken in no_grad mode, if there is one."""
    return next((n for n in nodes if NOWHERE in n.next_nodes), None)


def only_reshaped(node: Node | None) -> AccumulateGrad | None:
    """The leaf of which a node's result is the same values in another shape or dtype."""
    while isinstance(node, OperationNode) and node.operation.rearranges:
        node = node.next_nodes[0]
    return node if isinstance(node, AccumulateGrad) else None


def leads_to(tensor: Any, target: Node) -> bool:
    """Whether a tensor's history leads to a node."""
    return tensor._node is not None and target in reachable([tensor._node])
