"""Graphs of single steps of ``checkpoint_loop``, and their boundaries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from retrograd.autograd._history import edge
from retrograd.autograd._node import NOWHERE, AccumulateGrad, Node, orders
from retrograd.autograd._wrap import Plug
from retrograd.utils.checkpoint._loop_state import Edge


class Collector(Node):
    """Stands where the graph of a step ends: for a part of the state before it, or for a tensor
    from outside. Holds the sum of the gradients that have come."""

    __slots__ = ("collecting", "total")

    def __init__(self, total: Any = None) -> None:
        self.order = next(orders)
        self.next_nodes = ()
        self.saved = self.extras = self.code = None
        self.lasti = 0
        self.collecting = False
        self.total = total

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        if not self.collecting:
            raise RuntimeError(
                "a backward pass inside the body of checkpoint_loop came to the state that the "
                "step began with, and the steps before are not recorded. Detach the state first, "
                "or call torch.autograd.grad(outputs, inputs) with the inputs that are meant."
            )
        self.total = g
        return ()

    backward_recorded = backward


class Passage(Node):
    """Stands before a tensor from outside in the graph of a whole loop, and lets gradients pass.
    A backward pass can stop here, and leave the hooks of the tensor to the pass around it."""

    __slots__ = ()

    def __init__(self, onward: Edge) -> None:
        self.order = next(orders)
        self.next_nodes = (onward[0],)
        self.saved = self.extras = self.code = None
        self.lasti = 0
        if onward[1] is not None:
            self.get_extras().next_numbers = (onward[1],)

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        return (g,)

    backward_recorded = backward


# -- graphs of steps -------------------------------------------------------------------------


def inside(node: Node, start: int) -> bool:
    """Whether a node was made after ``start``, by an operation. (A leaf's node is made when the
    leaf is first used, so its age says nothing.)"""
    return node.order < start and not isinstance(node, AccumulateGrad)


def new_leaf(to: Edge, start: int) -> Any:
    """The leaf that an edge leads to, if no graph used it before ``start``."""
    node = to[0]
    return node.variable if isinstance(node, AccumulateGrad) and node.order < start else None


def recorded_nodes(parts: Iterable[Any], start: int) -> Iterator[Node]:
    """All nodes that ``parts`` come from and that were made after ``start``."""
    seen: set[Node] = set()
    to_visit = [edge(part)[0] for part in parts if isinstance(part, Plug.tensor)]
    while to_visit:
        node = to_visit.pop()
        if node is not None and node not in seen and inside(node, start):
            seen.add(node)
            yield node
            to_visit.extend(node.next_nodes)


def edges_outside(node: Node, start: int, own: Collection[Node]) -> Iterator[tuple[int, Edge]]:
    """The edges of a node that lead to tensors from outside, but for those to ``own`` nodes: which
    input it is, and where it leads."""
    numbers = node.extras.next_numbers if node.extras is not None else None
    for i, following in enumerate(node.next_nodes):
        if following is None or following in own or inside(following, start):
            continue
        if following is not NOWHERE:
            yield i, (following, numbers[i] if numbers is not None else None)


def lead_to(node: Node, i: int, end: Node | None) -> None:
    """Make the gradient of input ``i`` of a node go to ``end``."""
    node.next_nodes = (*node.next_nodes[:i], end, *node.next_nodes[i + 1 :])
    if node.extras is not None and node.extras.next_numbers is not None:
        numbers = node.extras.next_numbers
        node.extras.next_numbers = (*numbers[:i], None, *numbers[i + 1 :])


def differs(step: int, how: str) -> RuntimeError:
    """The error of a body that does not do the same each time."""
    return RuntimeError(
        f"checkpoint_loop ran step {step} again for the backward pass, and {how} when it was run "
        "first. The body must do the same each time it is given the same state: it must not depend "
        "on what changes in between, such as a counter of its own or tensors that are replaced."
    )


def unknown_end(end: tuple[Node | None, int | None], step: int) -> RuntimeError:
    """The error of a gradient that has nowhere to go, because the first run did not end there."""
    node = end[0]
    assert node is not None
    if isinstance(node, AccumulateGrad):
        leaf = node.variable
        name = f"a leaf tensor of shape {tuple(leaf.shape)} and dtype {leaf.dtype}"
    else:
        name = f"the result of {node.name()}" + (f", made at {node.source}" if node.source else "")
    return differs(step, f"it used {name}, which it did not use")
