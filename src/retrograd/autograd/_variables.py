"""The variables of transforms: leaves that stand for values while a function of them is recorded.

Nobody but the transform differentiates by them. Once it has its gradients, what these were computed
from counts as constant, as far as it leads to the variables and nowhere else.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from retrograd.autograd._history import meta_of
from retrograd.autograd._node import AccumulateGrad, Node, orders
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import wrap


class Scope:
    """Whether a transform is still under way. (An object of its own, so that the ends of a graph
    need not refer to what refers to them.)"""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open = True


class VariableEnd(AccumulateGrad):
    """Where the gradient of a variable of a transform ends."""

    __slots__ = ("scope",)

    scope: Scope


class Variables:
    """The variables of one transform, and which nodes lead elsewhere: to something else that can
    be differentiated by. That is a user's leaf, or a variable of a transform around this one."""

    __slots__ = ("ends", "leading", "scope", "start")

    def __init__(self) -> None:
        self.start = next(orders)  # nodes that are made from here on have lower numbers
        self.scope = Scope()
        self.ends: list[VariableEnd] = []  # leaves refer to theirs weakly
        self.leading: dict[Node, bool] = {}  # what is known of nodes

    def close(self) -> None:
        """The transform has ended: for all others, its variables are constants."""
        self.scope.open = False

    def make(self, x: Any) -> Any:
        """A variable with the value of ``x``, and without its history."""
        variable = wrap(x._data, version=version_of(x)).requires_grad_()
        end = VariableEnd(variable)
        end.scope = self.scope
        meta = meta_of(variable)
        meta.ending = meta.accumulator = weakref.ref(end)
        self.ends.append(end)
        return variable

    def is_elsewhere(self, node: Node) -> bool:
        """Whether a node is an end that is no variable of this transform, or is older than it."""
        if isinstance(node, VariableEnd):
            return node.scope.open and node.scope is not self.scope
        return isinstance(node, AccumulateGrad) or node.order > self.start

    def leads_elsewhere(self, tensor: Any) -> bool:
        """Whether a Tensor was computed from more than the variables."""
        node = tensor.grad_fn
        if node is not None:
            self.explore([node])
            return self.leading[node]
        if not tensor.requires_grad:
            return False
        return all(end.variable is not tensor for end in self.ends)

    def explore(self, nodes: Iterable[Node]) -> None:
        """Find out which of some nodes, and of those behind them, lead elsewhere."""
        leading = self.leading
        results: list[Node] = []
        seen: set[Node] = set()
        to_visit = list(nodes)
        while to_visit:
            node = to_visit.pop()
            if node in leading or node in seen:
                continue
            if self.is_elsewhere(node):
                leading[node] = True
                continue
            seen.add(node)
            results.append(node)
            to_visit += [n for n in node.next_nodes if n is not None]
        results.sort(key=_order, reverse=True)  # the oldest first: it depends on none of the others
        for node in results:
            leading[node] = any([n is not None and leading[n] for n in node.next_nodes])

    def separate(self, tensors: Iterable[Any], since: int) -> list[Any]:
        """Tensors whose history leads elsewhere only: out of all nodes that are newer than
        ``since``, the edges are taken that do not."""
        tensors = list(tensors)
        new: list[Node] = []
        seen: set[Node] = set()
        older: list[Node] = []
        to_visit = [x.grad_fn for x in tensors]
        while to_visit:
            node = to_visit.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if node.order >= since or isinstance(node, AccumulateGrad):
                older.append(node)
            else:
                new.append(node)
                to_visit += node.next_nodes
        self.explore(older)
        kept = {node for node in older if self.leading[node]}
        for node in sorted(new, key=_order, reverse=True):
            nodes = node.next_nodes
            node.next_nodes = tuple([n if n in kept else None for n in nodes])
            if any([n is not None for n in node.next_nodes]):
                kept.add(node)
        return [x if self._is_kept(x, kept) else wrap(x._data) for x in tensors]

    def _is_kept(self, tensor: Any, kept: set[Node]) -> bool:
        node = tensor.grad_fn
        if node is not None:
            return node in kept
        return not tensor.requires_grad or self.leads_elsewhere(tensor)


def _order(node: Node) -> int:
    return node.order
