"""Observes a real backward pass: the gradients that each node receives.

It looks and does not touch. No ``.grad`` is changed, nothing is freed, post-accumulate hooks are
not called. Users' other hooks run, because what they return is part of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from retrograd import arrays
from retrograd._modes import within
from retrograd.autograd._engine import Task, run
from retrograd.autograd._explaining._amounts import Amount, amount_of, together
from retrograd.autograd._explaining._paths import Arrival, Paths
from retrograd.autograd._node import Node


class Measured:
    """What a pass brought: to each node, and along each edge where several meet."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.received: dict[Node, list[Amount]] = {}
        self.sent: dict[tuple[Node, int], Amount | None] = {}
        self.seeds: dict[Node, list[Amount]] = {}
        self.gradient: Any = None  # the raw gradient of the target; None if none came

    def norm(self, node: Node) -> float | None:
        """The norm of what a node received, of all its outputs; None if nothing came."""
        received = self.received.get(node)
        return together(received) if received else None

    def amount(self, node: Node) -> Amount | None:
        """The amount of what a node received; None if nothing came."""
        received = self.received.get(node)
        if not received or len(received) == 1:
            return received[0] if received else None
        return Amount(together(received), ())

    def arrivals(self, node: Node) -> list[Arrival]:
        """What came to a node, by the node that sent it."""
        paths = self.paths
        result = [Arrival(None, tuple(self.seeds[node]))] if node in self.seeds else []
        edges = paths.edges[node]
        if len(edges) == 1 and edges[0] not in self.sent:  # not watched: all that it received
            amounts = self.received.get(node)
            return [*result, Arrival(edges[0][0], (amounts[0] if amounts else None,))]
        by_user: dict[Node, list[Amount | None]] = {}
        for user, i in edges:
            by_user.setdefault(user, []).append(self.sent.get((user, i)))
        return [*result, *(Arrival(user, tuple(sent)) for user, sent in by_user.items())]


def unmeasured(paths: Paths) -> Callable[[Node], list[Arrival]]:
    """The edges of a graph that cannot be run: the senders, without gradients."""

    def arrivals(node: Node) -> list[Arrival]:
        by_user: dict[Node, int] = {}
        for user, _ in paths.edges[node]:
            by_user[user] = by_user.get(user, 0) + 1
        started = paths.starts.get(node, 0)
        starts = [Arrival(None, (None,) * started)] if started else []
        return [*starts, *(Arrival(user, (None,) * n) for user, n in by_user.items())]

    return arrivals


class _Watcher:
    """Is told of every node that a pass runs. It notes how large gradients are and lets them go, so
    that a long pass needs little more memory than usual."""

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        paths = measured.paths
        # Nodes where several gradients meet or a hook may change them. To all others is sent what
        # they receive.
        self.met = {
            n for n in paths.nodes if len(paths.edges[n]) + paths.starts.get(n, 0) > 1 or _hooked(n)
        }

    def arrived(self, node: Node, grads: list[Any]) -> None:
        """Gradients have come to a node; hooks have not seen them."""

    def begins(self, node: Node, grads: list[Any]) -> None:
        """A node is about to run."""

    def gave(self, node: Node, grads: list[Any], received: Sequence[Any]) -> None:
        """The rules of a node have run."""

    def ends(self, node: Node, grads: list[Any], received: Sequence[Any] | None) -> None:
        """A node has run, or is an end of the pass."""
        measured, met = self.measured, self.met
        measured.received[node] = [amount_of(g) for g in grads if g is not None]
        if received is not None:
            for i, n in enumerate(node.next_nodes):
                if n in met:
                    g = received[i]
                    measured.sent[node, i] = None if g is None else amount_of(g)


def measure(paths: Paths) -> Measured:
    """Run a pass over the paths to a tensor, and measure its gradients."""
    measured = Measured(paths)
    for root in filter(paths.starts_at, paths.roots):
        measured.seeds.setdefault(root[0], []).append(amount_of(root[2]))
    task = Task(keep_graph=True, recorded=False)
    task.needed, task.wanted = paths.needed, {paths.target: [(paths.number or 0, 0)]}
    task.observer = _Watcher(measured)
    # NaN is to be told about here, not to be an error; and this is no pass of the user's.
    with within(check_nan=False, pass_observer=None), _grads_kept(paths.nodes):
        captured = run(task, [root for root in paths.roots if root[0] in paths.needed])
    gradient = captured.get(0)
    measured.received.pop(paths.target, None)  # which has those of its other outputs, too
    if gradient is not None:
        measured.gradient = arrays.copy(gradient)
        measured.received[paths.target] = [amount_of(gradient)]
    return measured


def _hooked(node: Node) -> bool:
    extras = node.extras
    return extras is not None and bool(extras.tensor_hooks and any(extras.tensor_hooks.values()))


@contextmanager
def _grads_kept(nodes: Sequence[Node]) -> Iterator[None]:
    """Leave the ``.grad`` of results that retain theirs as it is. A pass never writes into the
    tensor there, but puts a new one in its place."""
    before = []
    for node in nodes:
        for reference in ((node.extras.retained if node.extras else None) or {}).values():
            tensor = reference()
            if tensor is not None:
                before.append((tensor._meta, tensor._meta.grad))
    try:
        yield
    finally:
        for meta, grad in before:
            meta.grad = grad
