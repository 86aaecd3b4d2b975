"""A backward pass in two halves: gradients of a stage's inputs, then of its weights.

Other stages wait only for the gradients of the inputs. The first half runs a node on a path from
the outputs to the inputs only for the gradients that continue on such a path. If the node also
leads to a weight, the gradient that has arrived at it is kept, and the second half starts there: it
runs the node again, for the other gradients only. Nodes that can only compute all their gradients
at once do so in the first half, and those for weights are kept. Thus every rule of every node is
evaluated once, and both halves together cost as much as one pass. Saved values of nodes that the
second half does not need are freed after the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from retrograd.autograd._backward import nodes_between
from retrograd.autograd._engine import Root, Task, run
from retrograd.autograd._history import edge
from retrograd.autograd._node import NOWHERE, Node
from retrograd.autograd._operation_node import OperationNode
from retrograd.autograd._roots import make_roots
from retrograd.autograd._wrap import wrap
from retrograd.utils.checkpoint import CheckpointFunction


class Split:
    """The second half of a backward pass, which computes the gradients of the weights."""

    def __init__(self, roots: list[Root], nodes: set[Node]) -> None:
        self._roots = roots
        self._nodes = nodes  # those between the nodes where the halves meet and the weights

    def run(self) -> None:
        """The second half: add to the ``.grad`` of the weights."""
        task = Task(keep_graph=False, recorded=False)
        task.needed = self._nodes
        roots, self._roots = self._roots, []
        run(task, roots)


def backward_inputs(
    outputs: Sequence[Any], gradients: Sequence[Any], inputs: Sequence[Any]
) -> tuple[list[Any], Split] | None:
    """The first half: the gradients of ``inputs``, which are leaves, and the second half to be run
    later. None if the pass cannot be divided, because there are hooks that would see only half of
    what they expect, or values that would be recomputed for each half; then nothing has been done.

    >>> x, w = torch.ones(2, requires_grad=True), torch.tensor([3.0, 4.0], requires_grad=True)
    >>> (g,), later = backward_inputs([w * x * 2], [torch.ones(2)], [x])
    >>> g, w.grad
    (tensor([6., 8.]), None)
    >>> later.run()
    >>> w.grad
    tensor([2., 2.])
    """
    roots = make_roots(tuple(outputs), tuple(gradients), recorded=False)
    leaves = [node for node, _ in map(edge, inputs) if node is not None]
    path = nodes_between(roots, set(leaves)) if leaves else set()
    if any(map(_recomputes, path)):
        return None
    twice, once = _parting(path)
    ahead = {n for node in once for n in _elsewhere(node, path)}
    if any(map(_is_watched, (*twice, *ahead))) or ahead & _beyond(ahead, path, inside=False):
        return None

    task = Task(keep_graph=True, recorded=False)
    task.needed = path | ahead
    slots: list[tuple[Node, int | None]] = []
    for node in {*leaves, *twice, *ahead}:
        numbers = _outputs(node)
        task.wanted[node] = [(n or 0, len(slots) + i) for i, n in enumerate(numbers)]
        slots += [(node, number) for number in numbers]
    result = run(task, [root for root in roots if root[0] in path])

    arrived = {node: result.get(slot) for slot, (node, _) in enumerate(slots)}
    for node in path.difference(twice):
        node.release()
    starts: list[Root] = [root for root in roots if root[0] not in path]
    starts += [
        (node, number, result[slot])
        for slot, (node, number) in enumerate(slots)
        if (node in ahead or node in twice) and result.get(slot) is not None
    ]
    of_inputs = [None if arrived[n] is None else wrap(arrived[n]) for n in leaves]
    return of_inputs, Split(starts, _beyond((node for node, _, _ in starts), path))


def _parting(path: set[Node]) -> tuple[set[Node], set[Node]]:
    """The nodes of a path that also lead elsewhere: those whose gradients can be computed
    separately, in two runs, and those that are run once, for all."""
    parting = {node for node in path if _elsewhere(node, path)}
    once = {node for node in parting if not _divisible(node)}
    while True:
        # A node that has received gradients early must not receive others later.
        ahead = {n for node in once for n in _elsewhere(node, path)}
        more = {n for n in parting - once if not ahead.isdisjoint(_elsewhere(n, path))}
        if not more:
            return parting - once, once
        once |= more


def _divisible(node: Node) -> bool:
    """Whether a node computes only the gradients that are asked for. Custom Functions, and rules
    that give all gradients together, do not."""
    if not isinstance(node, OperationNode):
        return False
    joint = node.operation.joint
    return joint is None or "needs" in joint.names


def _outputs(node: Node) -> list[int | None]:
    outputs = getattr(node, "outputs", None)
    return [None] if outputs is None else list(range(len(outputs)))


def _elsewhere(node: Node, path: set[Node]) -> list[Node]:
    """The nodes that a node leads to off the path."""
    return [n for n in node.next_nodes if n is not None and n is not NOWHERE and n not in path]


def _recomputes(node: Node) -> bool:
    """Whether a node belongs to a checkpoint, or saves its values by other hooks."""
    packed = node.extras is not None and node.extras.packed
    return packed or getattr(node, "function", None) is CheckpointFunction


def _is_watched(node: Node) -> bool:
    """Whether a hook observes the gradients of a node: it would see them twice or in parts."""
    extras = node.extras
    return extras is not None and bool(
        extras.tensor_hooks or extras.retained or extras.pre_hooks or extras.post_hooks
    )


def _beyond(starts: Iterable[Node], path: set[Node], inside: bool = True) -> set[Node]:
    """All nodes off the path that the starts lead to, with the starts themselves if ``inside``."""
    result: set[Node] = set()
    to_visit = [n for node in starts for n in ((node,) if inside else ()) + tuple(node.next_nodes)]
    while to_visit:
        node = to_visit.pop()
        if node is not None and node not in path and node not in result:
            result.add(node)
            to_visit.extend(node.next_nodes)
    return result
