"""The part of a graph between a loss and one tensor, and the paths through it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from retrograd.autograd._backward import nodes_between
from retrograd.autograd._engine import Root
from retrograd.autograd._explaining._amounts import Amount
from retrograd.autograd._node import FREED, Node

EXACT = 2**53  # counts of paths beyond it are floats: exact ones may have a million digits


def next_numbers(node: Node) -> Sequence[int | None]:
    """For each input of a node, which output of the next node its gradient is for."""
    numbers = node.extras.next_numbers if node.extras else None
    return numbers or (None,) * len(node.next_nodes)


def reachable(nodes: Sequence[Node]) -> set[Node]:
    """All nodes that some lead to, themselves included."""
    result: set[Node] = set()
    to_visit = list(nodes)
    while to_visit:
        node = to_visit.pop()
        if node not in result:
            result.add(node)
            to_visit.extend(n for n in node.next_nodes if n is not None)
    return result


def in_order(nodes: Iterable[Node]) -> list[Node]:
    """Nodes in the order in which a pass would run them."""
    return sorted(nodes, key=lambda node: node.order)


class Paths:
    """All paths from the roots of a pass to output ``number`` of ``target``."""

    def __init__(self, roots: Sequence[Root], target: Node, number: int | None) -> None:
        self.roots = roots
        self.target, self.number = target, number
        self.needed = nodes_between(roots, {target})
        self.nodes = in_order(self.needed)  # newest first
        self.edges: dict[Node, list[tuple[Node, int]]] = {n: [] for n in self.nodes}
        self.starts: dict[Node, int] = {}
        self.count = self._count()

    def _count(self) -> float:
        """How many paths there are, and the edges that lead to each node on them."""
        counts: dict[Node, float] = dict.fromkeys(self.nodes, 0)
        for root in self.roots:
            if self.starts_at(root):
                self.starts[root[0]] = self.starts.get(root[0], 0) + 1
                counts[root[0]] += 1
        for node in self.nodes:
            for i, n in enumerate(node.next_nodes):
                if n is None or n not in self.needed:
                    continue
                if n is self.target and next_numbers(node)[i] != self.number:
                    continue
                self.edges[n].append((node, i))
                total = counts[n] + counts[node]
                counts[n] = total if total < EXACT else float(total)
        return counts.get(self.target, 0)

    def starts_at(self, root: Root) -> bool:
        """Whether a path starts at a root. (It may be another output of the target.)"""
        node, number, _ = root
        return node in self.needed and (node is not self.target or number == self.number)

    def all_nodes(self) -> set[Node]:
        """The nodes that the roots lead to, on a path to the target or not."""
        return reachable([node for node, _, _ in self.roots])

    def can_run(self) -> bool:
        """Whether all saved values on the paths are there."""
        return all(n.saved is not FREED or n is self.target for n in self.nodes)

    def used_up(self) -> bool:
        """Whether there is a path without any saved values left: a pass may have used it."""
        passed = set(self.starts)
        for node in self.nodes:
            if node is not self.target and node.saved is not None and node.saved is not FREED:
                passed.discard(node)
            elif any(user in passed for user, _ in self.edges[node]):
                passed.add(node)
        return self.target in passed


class Arrival(NamedTuple):
    """What one node sends to another: along each edge between them."""

    user: Node | None  # None: the gradient that the pass starts from
    amounts: tuple[Amount | None, ...]


class PathLink(NamedTuple):
    """A path from a root to the target, as a linked list, since paths share their ends."""

    node: Node
    arrivals: int  # how many edges end at the node
    sent: tuple[Amount | None, ...]  # to the node, by the one before it
    rest: PathLink | None


Arrivals = Callable[[Node], list[Arrival]]


def shares(arrivals: list[Arrival]) -> list[float]:
    """The part that each arrival has in the whole, by its norm."""
    norms = [math.fsum(a.norm for a in arrival.amounts if a) for arrival in arrivals]
    if not all(map(math.isfinite, norms)):
        norms = [0.0 if math.isfinite(norm) else 1.0 for norm in norms]
    whole = math.fsum(norms)
    return [norm / whole if whole else 1 / len(norms) for norm in norms]


def strongest(paths: Paths, arrivals: Arrivals, count: int) -> list[tuple[PathLink, float]]:
    """The paths that bring most, and the share of each: the product of its shares wherever
    gradients are added up.

    The best share from the start to each node is found first, newest nodes first. With that
    known, each path is followed from the target to a start without ever turning back, and what it
    passes by is remembered for the paths after it.
    """
    best: dict[Node, float] = {}  # logarithms: shares of long paths are below what floats can hold

    def options(node: Node) -> list[tuple[float, float, Arrival]]:
        """For each arrival: the best share of a path through it, its own share, itself."""
        results = []
        came = arrivals(node)
        for arrival, share in zip(came, shares(came) if len(came) != 1 else (1.0,), strict=True):
            own = math.log(max(share, 1e-300))
            before = 0.0 if arrival.user is None else best[arrival.user]
            results.append((own + before, own, arrival))
        return results

    for node in paths.nodes:
        edges = paths.edges[node]
        if len(edges) == 1 and node not in paths.starts:  # most nodes: there is no choice
            best[node] = best[edges[0][0]]
        else:  # where nothing arrives, only another output of the target is reached
            best[node] = max((score for score, _, _ in options(node)), default=-math.inf)

    results: list[tuple[PathLink, float]] = []
    waiting: list[tuple[float, float, Node, PathLink | None, Arrival | None]]
    waiting = [(best[paths.target], 0.0, paths.target, None, None)]
    while waiting and len(results) < count:
        _, log_share, node, rest, first = waiting.pop(0)
        passed: list[tuple[float, float, Node, PathLink | None, Arrival | None]] = []
        while True:
            edges = paths.edges[node]
            if len(edges) == 1 and node not in paths.starts:  # no choice here either
                rest, node = PathLink(node, 1, arrivals(node)[0].amounts, rest), edges[0][0]
                continue
            choices = sorted(options(node), key=lambda choice: -choice[0])
            arrived = sum(len(arrival.amounts) for _, _, arrival in choices)
            if first is not None:
                choices = [c for c in choices if c[2].user is first.user]
            _, own, arrival = choices[0]
            for other, _, another in choices[1:]:
                passed.append((log_share + other, log_share, node, rest, another))
            rest = PathLink(node, arrived, arrival.amounts, rest)
            log_share, first = log_share + own, None
            if arrival.user is None:
                break
            node = arrival.user
        results.append((rest, math.exp(log_share)))
        waiting = heapq.nlargest(count, [*waiting, *passed], key=lambda entry: entry[0])
    return results


def along(link: PathLink) -> Iterator[PathLink]:
    """The links of a path, from its start to the target."""
    current: PathLink | None = link
    while current is not None:
        yield current
        current = current.rest
