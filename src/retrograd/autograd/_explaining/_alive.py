"""The graphs that are alive: their sizes, where they were recorded, and what holds them."""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from retrograd._source import describe, short
from retrograd.autograd._explaining._holders import Holder, holders
from retrograd.autograd._explaining._words import bytes_text
from retrograd.autograd._history import CopySlices
from retrograd.autograd._node import FREED, NOWHERE, AccumulateGrad, Node
from retrograd.autograd._wrap import SPARSE, Plug

LINES = 3  # of a graph that are printed
GROUPS = 12  # of graphs that are printed
LISTED = re.compile(r"\[(\d+|\.\.\.)\]")  # an element of a list
MOST_ASKED = 2_000  # tensors whose holders are looked for


class AliveGraph:
    """A graph that something keeps alive: nodes that lead to each other, leaves apart.

    Attributes:
        nodes: the number of its nodes.
        bytes: the memory of the tensors that these have saved, without that of leaves.
        freed: whether a backward pass has freed what was saved.
        lines: the lines that made the nodes (``train.py:12: loss = f(x)``) and how many each,
            most first.
        held_by: the variables that hold it, such as ``losses[3]``.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = len(nodes)
        self.freed = any(node.saved is FREED for node in nodes)
        self.arrays = dict(saved_arrays(nodes))
        self.bytes = sum(self.arrays.values())
        places = Counter((node.code, node.lasti) for node in nodes)
        lines: Counter[str] = Counter()
        for place, count in places.items():
            lines[short(describe(place)) or "unknown"] += count
        self.lines = lines.most_common()
        self.held_by: list[str] = []

    def __repr__(self) -> str:
        held = ", ".join(self.held_by) or "nothing that is known"
        return f"<graph of {self.nodes} nodes, {bytes_text(self.bytes)}, held by {held}>"


class Alive(list[AliveGraph]):
    """The graphs that are alive, the largest first. Printed, it says who holds them.

    Attributes:
        bytes: the memory of all that they have saved; what several share counts once.
    """

    def __init__(self, graphs: Iterable[AliveGraph]) -> None:
        super().__init__(sorted(graphs, key=lambda graph: (-graph.bytes, -graph.nodes)))
        shared: dict[int, int] = {}
        for graph in self:
            shared.update(graph.arrays)
            graph.arrays = {}
        self.bytes = sum(shared.values())

    def __str__(self) -> str:
        if not self:
            return "No graph is alive."
        nodes = sum(graph.nodes for graph in self)
        lines = [f"{_are(len(self))} alive: {_sizes(nodes, self.bytes, False)}."]
        groups: dict[Any, list[AliveGraph]] = {}
        for graph in self:
            main = _whole(graph.held_by[0]) if graph.held_by else "something that has no name"
            groups.setdefault((main, tuple(x for x, _ in graph.lines)), []).append(graph)
        for (main, made_at), graphs in list(groups.items())[:GROUPS]:
            lines += _group_text(main, made_at, graphs)
        if len(groups) > GROUPS:
            lines.append(f"  ... and {len(groups) - GROUPS} more")
        kept = [main for (main, _), graphs in groups.items() if len(graphs) > 1 and "[...]" in main]
        if kept:
            lines += [
                f"What to do: {kept[0]} keeps every graph: keep numbers, by loss.item(), or values",
                "            without their history, by loss.detach().",
            ]
        return "\n".join(lines)


def _are(count: int) -> str:
    return "1 graph is" if count == 1 else f"{count:,} graphs are"


def _whole(name: str) -> str:
    """``losses[...]`` for ``losses[3]``: graphs held in the same way are reported together."""
    return LISTED.sub("[...]", name)


def _sizes(nodes: int, size: int, freed: bool) -> str:
    saved = f"{bytes_text(size)} of saved tensors"
    if freed and not size:
        saved = "a backward pass has freed what was saved"
    return f"{nodes:,} {'node' if nodes == 1 else 'nodes'}, {saved}"


def _group_text(main: str, made_at: tuple[str, ...], graphs: list[AliveGraph]) -> Iterator[str]:
    size = sum(graph.bytes for graph in graphs)
    freed = all(graph.freed for graph in graphs)
    count = "1 graph" if len(graphs) == 1 else f"{len(graphs):,} graphs"
    others = [] if len(graphs) > 1 else graphs[0].held_by[1:]
    also = f" (and so {'does' if len(others) == 1 else 'do'} {', '.join(others[:3])})"
    sizes = _sizes(sum(graph.nodes for graph in graphs), size, freed)
    yield f"  {main} holds {count}{also * bool(others)}: {sizes}"
    for line in made_at[:LINES]:
        yield f"    made at {line}"
    if len(made_at) > LINES:
        yield f"    and at {len(made_at) - LINES} more lines"


def alive() -> Alive:
    """The graphs that are alive in this process."""
    gc.collect()  # what only cycles of garbage hold is not alive
    everything = gc.get_objects()
    # By type, not isinstance, which asks objects for their class: some warn when asked anything.
    every_node: list[Node] = [x for x in everything if issubclass(type(x), Node)]
    nodes = [x for x in every_node if not isinstance(x, AccumulateGrad) and x is not NOWHERE]
    tensors = [x for x in everything if issubclass(type(x), Plug.tensor)
               and type(x) not in SPARSE and x._node is not None]  # fmt: skip
    del everything, every_node
    groups = components(nodes)
    results: dict[int, AliveGraph] = {}
    for node in nodes:
        group = groups[id(node)]
        if group[0] is node:
            results[id(group)] = AliveGraph(group)
    by_tensor = {id(x): results[id(groups[id(x._node)])] for x in tensors if id(x._node) in groups}
    asked: list[Any] = tensors[:MOST_ASKED]
    held = {id(graph) for graph in by_tensor.values()}
    for graph_nodes in {id(group): group for group in groups.values()}.values():
        graph = results[id(graph_nodes)]
        if id(graph) not in held:  # somebody holds a node itself
            newest = min(graph_nodes, key=lambda node: node.order)
            by_tensor[id(newest)] = graph
            asked.append(newest)
    for holder in holders(asked, [nodes, tensors, groups, *groups.values()]):
        _note(holder, by_tensor)
    return Alive(results.values())


def _note(holder: Holder, by_tensor: dict[int, AliveGraph]) -> None:
    for target in holder.targets:
        graph = by_tensor.get(target)
        if graph is not None and holder.text not in graph.held_by:
            graph.held_by.append(holder.text)
            graph.held_by.sort(key=lambda text: not LISTED.search(text))  # lists first


def components(nodes: list[Node]) -> dict[int, list[Node]]:
    """Nodes that lead to each other, by the id of each of them. Leaves join nothing: graphs of
    different steps share the parameters."""
    groups = {id(node): [node] for node in nodes}
    for node in nodes:
        inner = [node.write] if isinstance(node, CopySlices) else []
        for other in (*node.next_nodes, *inner):
            if other is None or id(other) not in groups:
                continue
            ours, theirs = groups[id(node)], groups[id(other)]
            if ours is theirs:
                continue
            small, large = (ours, theirs) if len(ours) < len(theirs) else (theirs, ours)
            large += small
            for moved in small:
                groups[id(moved)] = large
    return groups


def saved_arrays(nodes: list[Node]) -> Iterator[tuple[int, int]]:
    """The memory that nodes have saved, by an id and its size; not that of leaves."""
    leaves = set()
    for node in nodes:
        for other in node.next_nodes:
            if isinstance(other, AccumulateGrad):
                leaves.add(id(_owner(other.variable._data)))
    for node in nodes:
        for value in node.saved if isinstance(node.saved, (tuple, list)) else ():
            value = value[0] if isinstance(value, tuple) and value else value
            value = getattr(value, "packed", value)
            owner = _owner(getattr(value, "_data", value))
            size = getattr(owner, "nbytes", None)
            if isinstance(size, int) and id(owner) not in leaves:
                yield id(owner), size


def _owner(array: Any) -> Any:
    """The array whose memory another one shows."""
    base = getattr(array, "base", None)
    return array if base is None or not hasattr(base, "nbytes") else base
