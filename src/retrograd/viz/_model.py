"""A graph as items that can be drawn: operations, tensors, and groups of them.

``Graph.of`` walks a graph from some tensors back to its leaves, once and without recursion, folds
it so that no picture has too many boxes, and creates an item for everything that is shown.
``Graph.to_json`` is the form in which files, pages and tests have it.
"""

from __future__ import annotations

import bisect
import linecache
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from retrograd.autograd._node import NOWHERE, Node
from retrograd.autograd._roots import GradientEdge, as_tuple, is_tensor, locate
from retrograd.viz import _facts
from retrograd.viz._folding import Group, Operations, fold
from retrograd.viz._modules import modules_of
from retrograd.viz._naming import Names
from retrograd.viz._values import Value
from retrograd.viz._views import Views

MAX_NODES = 80  # operations and groups in one picture
DETAIL = 4000  # operations that are shown individually


@dataclass(slots=True)
class Item:
    """One box of a picture."""

    id: int
    # "operation", "leaf", "data", "intermediate", "group"; of programs "input", "line", "backward"
    kind: str
    label: str
    name: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    module: str = ""
    place: tuple[int, int] | None = None  # number of a file, line
    group: int | None = None  # the group that it is in
    bytes: int | None = None  # kept for backward
    value: Value | None = None
    grad: Value | None = None
    count: int | None = None  # groups: how many operations, or, without any, tensors it holds
    times: int | None = None  # groups of operations: how often a structure is repeated
    root: bool = False  # whether this tensor was passed to draw()
    details: tuple[str, ...] = ()  # options of an operation, what a group consists of
    saved: tuple[str, ...] = ()  # names of the values that an operation keeps for backward
    freed: bool = False  # whether a backward pass has freed them
    room: tuple[str, ...] = ()  # lines that a page shows as it goes on: a value and a gradient

    def to_json(self) -> dict[str, Any]:
        """As files and pages have it, by the names above."""
        result: dict[str, Any] = {
            "id": self.id, "kind": self.kind, "label": self.label, "name": self.name,
            "shape": None if self.shape is None else list(self.shape), "dtype": self.dtype,
            "module": self.module, "place": None if self.place is None else list(self.place),
            "group": self.group, "bytes": self.bytes,
            "value": None if self.value is None else self.value.to_json(),
            "grad": None if self.grad is None else self.grad.to_json(),
            "root": self.root, "details": list(self.details), "saved": list(self.saved),
            "freed": self.freed,
        }  # fmt: skip
        if self.room:
            result["room"] = list(self.room)
        if self.kind == "group":
            result["count"], result["times"] = self.count, self.times
        return result


class Files:
    """Files of the program by number, and the lines of each that are referred to."""

    def __init__(self, known: Files | None = None) -> None:
        self.paths: list[str] = [] if known is None else list(known.paths)
        self.lines: list[set[int]] = [] if known is None else [set(x) for x in known.lines]

    def place(self, file: str, line: int) -> tuple[int, int]:
        if file not in self.paths:
            self.paths.append(file)
            self.lines.append(set())
        number = self.paths.index(file)
        self.lines[number].add(line)
        return number, line

    def name(self, number: int) -> str:
        """The name of a file, without its folder."""
        return os.path.basename(self.paths[number])

    def text(self, place: tuple[int, int]) -> str:
        """The text of a line."""
        return linecache.getline(self.paths[place[0]], place[1]).strip()

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {"name": os.path.basename(path),
             "lines": {str(n): linecache.getline(path, n).rstrip("\n") for n in sorted(lines)}}
            for path, lines in zip(self.paths, self.lines, strict=True)
        ]  # fmt: skip


class Graph:
    """The items of a graph, and the edges between them in the direction in which data flows.

    >>> import retrograd as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> graph = Graph.of((x * 3).sum())
    >>> [item.label for item in graph.items]
    ['leaf', 'Mul', 'result', 'Sum', 'result']
    >>> graph.edges
    [(0, 1), (1, 2), (2, 3), (3, 4)]
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.edges: list[tuple[int, int]] = []
        self.files = Files()
        self.nodes: list[Node] = []  # of operations, in the order they were made
        self.leaves: list[Node] = []  # the ends of the graph
        self.roots: list[int] = []  # items of the tensors asked for
        self.framed: frozenset[int] = frozenset()  # groups that are open in the whole picture
        self.abridged = False  # whether there are operations without an item of their own
        self.stand_ins: dict[Node, Node] = {}  # for operations of graphs that look the same
        self._index: dict[Node, int] = {}  # of operations
        self._representative: list[int] = []
        self._operation_items: dict[int, int] = {}  # by number of the operation
        self._leaf_items: dict[Node, int] = {}
        self._result_items: dict[tuple[int, int], int] = {}  # by operation, number of the output
        self._constant_items: dict[Any, int] = {}  # by what is equal for the same value
        self._collapsed: list[tuple[int, int, int]] = []  # from, to, group

    @classmethod
    def of(
        cls,
        tensors: Any,
        params: Any = None,
        max_nodes: int = MAX_NODES,
        names: Names | None = None,
        detail: int = DETAIL,
        frames: bool = False,
    ) -> Graph:
        """The graph of a tensor, of several, or of gradient edges. ``frames``: Modules are groups
        that are open in the picture of the whole, as far as ``max_nodes`` allows."""
        from retrograd.viz._items import Maker

        roots = checked(tensors)
        graph = cls()
        graph.nodes, graph.leaves = walk([locate(root)[0] for root in roots])
        graph._index = {node: i for i, node in enumerate(graph.nodes)}
        names = names if names is not None else Names.of(params)
        top = folded(graph, names, max_nodes, detail, frames)
        Maker(graph, names, roots, top, detail).run()
        if frames:
            graph.framed = opened(graph, max_nodes)
        return graph

    def item_of(self, node: Node) -> int:
        """The item that represents a node: an operation, a leaf, or the group that contains it. Of
        a structure that is repeated very often, only the first repetition has items, which
        represent the others."""
        if node in self._leaf_items:
            return self._leaf_items[node]
        index = self._index.get(node)
        if index is None and node in self.stand_ins:
            index = self._index[self.stand_ins[node]]
        if index is None:
            return self._collapsed_leaf(node)
        kept = self._representative[index] if self._representative else index
        if kept in self._operation_items:
            return self._operation_items[kept]
        return self._collapsed_group(kept)

    def has(self, node: Node) -> bool:
        """Whether a node is an operation of the graph."""
        return node in self._index

    def leaf_item(self, leaf: Node) -> int | None:
        """The item of a leaf, if it has one of its own."""
        return self._leaf_items.get(leaf)

    @cached_property
    def _leaf_tensors(self) -> dict[int, int]:
        return {id(node.variable): item for node, item in self._leaf_items.items()}  # type: ignore[attr-defined]

    def tensor_item(self, tensor: Any) -> int | None:
        """The item of a leaf tensor, if it has one."""
        return self._leaf_tensors.get(id(tensor))

    def result_items(self, node: Node) -> Iterator[tuple[int, int]]:
        """The results of an operation: the number of the output, and its item."""
        index = self._index.get(node, -1)
        for number in self._outputs_shown.get(index, ()):
            yield number, self._result_items[index, number]

    @cached_property
    def _outputs_shown(self) -> dict[int, list[int]]:
        """For each operation, the outputs that have items."""
        result: dict[int, list[int]] = {}
        for index, number in self._result_items:
            result.setdefault(index, []).append(number)
        return result

    def constant_item(self, identity: int) -> int | None:
        """The item of a constant that a recording has seen."""
        return self._constant_items.get(("recorded", identity))

    def _collapsed_group(self, index: int) -> int:
        at = bisect.bisect_right(self._collapsed, index, key=lambda hidden: hidden[1])
        if at < len(self._collapsed) and self._collapsed[at][0] <= index:
            return self._collapsed[at][2]
        raise KeyError("this node is not in the graph")

    def _collapsed_leaf(self, leaf: Node) -> int:
        """The item of a leaf that only operations without items use."""
        if leaf not in self._first_uses:
            raise KeyError("this node is not in the graph")
        user, position = self._first_uses[leaf]
        there = self.nodes[self._representative[self._index[user]]].next_nodes[position]
        known = self._leaf_items.get(there) if there is not None else None
        return self.item_of(user) if known is None else known

    @cached_property
    def _first_uses(self) -> dict[Node, tuple[Node, int]]:
        """For each leaf, the operation that uses it first, and the position of the input."""
        result: dict[Node, tuple[Node, int]] = {}
        for node in self.nodes:
            for position, origin in enumerate(node.next_nodes):
                if origin is not None and _facts.is_leaf(origin):
                    result.setdefault(origin, (node, position))
        return result

    def let_go(self) -> None:
        """Drop the nodes, so that a picture keeps no graph in memory; ``item_of`` cannot be used
        afterwards."""
        self.nodes, self.leaves, self.stand_ins = [], [], {}
        self._index, self._leaf_items, self._representative = {}, {}, []
        self._result_items, self._constant_items = {}, {}
        for known in ("_first_uses", "_outputs_shown", "_leaf_tensors"):
            self.__dict__.pop(known, None)

    @cached_property
    def views(self) -> Views:
        """What each picture shows."""
        return Views(self.items, self.edges)

    def groups(self) -> Iterable[Item]:
        """The items that are groups."""
        return (item for item in self.items if item.kind == "group")

    def to_json(self, pictures: bool = True, **look: Any) -> dict[str, Any]:
        """The graph in plain lists and dictionaries. ``look``: what boxes show, as ``draw`` has
        it."""
        result: dict[str, Any] = {
            "items": [item.to_json() for item in self.items],
            "edges": [list(edge) for edge in self.edges],
            "files": self.files.to_json(),
        }
        if pictures:
            from retrograd.viz._scene import pictures_of

            result["pictures"] = pictures_of(self, **look)
        return result


def checked(tensors: Any) -> tuple[Any, ...]:
    """What to draw, as a tuple of tensors and gradient edges."""
    hint = "draw a tensor, or several in a list: viz.draw(loss)"
    if not (is_tensor(tensors) or isinstance(tensors, (GradientEdge, tuple, list))):
        raise TypeError(f"expected a Tensor, but got a {type(tensors).__name__}; {hint}")
    roots = as_tuple(tensors)
    if not roots:
        raise ValueError(f"there is nothing to draw in an empty list; {hint}")
    for root in roots:
        if not (is_tensor(root) or isinstance(root, GradientEdge)):
            raise TypeError(f"expected Tensors, but got a {type(root).__name__} among them; {hint}")
    return roots


def walk(starts: Iterable[Node | None]) -> tuple[list[Node], list[Node]]:
    """All operations that lead to some nodes, oldest first, and all leaves likewise."""
    todo = [node for node in starts if node is not None and node is not NOWHERE]
    seen = set(todo)
    operations: list[Node] = []
    leaves: list[Node] = []
    while todo:
        node = todo.pop()
        (leaves if _facts.is_leaf(node) else operations).append(node)
        for origin in node.next_nodes:
            if origin is not None and origin is not NOWHERE and origin not in seen:
                seen.add(origin)
                todo.append(origin)
    operations.sort(key=_age)
    leaves.sort(key=_age)
    return operations, leaves


def _age(node: Node) -> int:
    return -node.order


# -- folding -------------------------------------------------------------------------------------


def folded(graph: Graph, names: Names, max_nodes: int, detail: int, frames: bool) -> Group:
    """The operations in groups, so that no picture has more than ``max_nodes`` of them."""
    nodes = graph.nodes
    if len(nodes) <= max_nodes and not frames:
        return Group(0, len(nodes), list(range(len(nodes))))
    strict, loose = signatures(nodes, graph._index)
    modules, kinds = modules_of(nodes, graph._index, names)
    return fold(Operations(strict, loose, modules, kinds), max_nodes, detail, frames)


def opened(graph: Graph, max_nodes: int) -> frozenset[int]:
    """The Modules that can be open in one picture of at most ``max_nodes`` operations and groups,
    the outer ones first."""
    items, inside = graph.items, graph.views.inside
    contents = {g: [n for n in inside[g] if items[n].kind in ("operation", "group")]
                for g in (None, *(item.id for item in graph.groups()))}  # fmt: skip
    room = max_nodes - len(contents[None])
    result = set()
    todo = list(contents[None])
    for number in todo:  # grows during the iteration
        added = len(contents.get(number, ())) - 1
        if items[number].kind == "group" and items[number].module and 0 <= added <= room:
            result.add(number)
            room -= added
            todo += contents[number]
    return frozenset(result)


def signatures(nodes: list[Node], index: dict[Node, int]) -> tuple[list[int], list[int]]:
    """For each operation a number that is equal if the operation and its inputs are, and one that
    is equal if the operation is."""
    strict: list[int] = []
    loose: list[int] = []
    numbers: dict[Any, int] = {}
    kinds: dict[Any, int] = {}
    for i, node in enumerate(nodes):
        kind = type(node)
        wiring = [
            -1 if n is None else -2 if (at := index.get(n)) is None else i - at
            for n in node.next_nodes
        ]
        strict.append(numbers.setdefault((kind, *wiring), len(numbers)))
        loose.append(kinds.setdefault((kind, len(wiring)), len(kinds)))
    return strict, loose
