"""Creates the items of a graph."""

from __future__ import annotations

from collections import Counter, deque
from functools import cached_property
from typing import Any

from retrograd.autograd._node import NOWHERE, Node
from retrograd.autograd._roots import is_tensor, locate
from retrograd.viz import _facts
from retrograd.viz._facts import Constant, Info, Input, info_of, label_of
from retrograd.viz._folding import Group
from retrograd.viz._groups import place_in_groups
from retrograd.viz._model import Graph, Item
from retrograd.viz._naming import Names, Source
from retrograd.viz._node_info import recorded_info
from retrograd.viz._values import Value

Result = tuple[int, int]  # number of an operation, number of its output


class Maker:
    """Fills a Graph with items and edges."""

    def __init__(
        self, graph: Graph, names: Names, roots: tuple[Any, ...], top: Group, detail: int
    ) -> None:  # fmt: skip
        self.graph = graph
        self.names = names
        self.roots = roots
        self.top = top
        self.detail = detail
        self.source = Source()
        self.owner: dict[int, Group] = {}  # of each operation that gets an item
        self.closed: list[Group] = []  # groups whose contents are left out
        self.opened: list[Group] = []
        self.group_items: dict[int, int] = {}
        self.groups: dict[int, Group] = {}  # by item
        self.parent: dict[int, Group] = {}
        self.constants = graph._constant_items
        self.results = graph._result_items
        self.root_tensors: dict[Result, Any] = {}
        self.shapes: dict[Result, Info] = {}

    def run(self) -> None:
        """Make all items, then all edges."""
        graph = self.graph
        self.choose()
        kept = sorted(self.owner)
        graph.abridged = len(kept) < len(graph.nodes)
        self.find_roots()
        self.find_shapes(kept)
        sizes = dict(zip(kept, _facts.memory([graph.nodes[i] for i in kept]), strict=True))
        groups = {id(g): g for g in (*self.opened, *self.closed)}
        for i in kept:
            self.add_operation(i, sizes[i])
        self.add_roots_without_graph()
        for group in sorted(groups.values(), key=lambda g: (g.low, -g.high)):
            self.add_group(group)
        graph._collapsed = sorted((g.low, g.high, self.group_items[id(g)]) for g in self.closed)
        self.add_edges(kept)
        place_in_groups(self)

    # -- what gets an item -------------------------------------------------------------------

    def choose(self) -> None:
        """Open groups from the outside in until as many operations are shown as may be shown in
        detail; later groups stay closed."""
        graph, budget = self.graph, max(self.detail, len(self.top.children))
        representative = list(range(len(graph.nodes)))
        runs: list[Group] = []
        todo = deque([self.top])
        while todo:
            group = todo.popleft()
            if group is not self.top:
                if budget < len(group.children):
                    self.closed.append(group)
                    continue
                self.opened.append(group)
            for child in group.children:
                if isinstance(child, Group):
                    self.parent[id(child)] = group
                    todo.append(child)
                else:
                    budget -= 1
                    self.owner[child] = group
            if group.abridged:
                runs.append(group)
        for run in reversed(runs):  # the inner ones first
            period = len(run) // run.times
            first = representative[run.low : run.low + period]
            representative[run.low : run.high] = first * run.times
        graph._representative = representative

    def find_roots(self) -> None:
        for root in self.roots:
            node, number = locate(root)
            if node is not None and node in self.graph._index:
                self.root_tensors[self.graph._index[node], number or 0] = root

    def find_shapes(self, kept: list[int]) -> None:
        """Shapes of results: from their operations, then from their consumers."""
        index, nodes, shapes = self.graph._index, self.graph.nodes, self.shapes
        for i in kept:
            for number, info in _facts.outputs_of(nodes[i]).items():
                shapes[i, number] = info
        for result, root in self.root_tensors.items():
            if is_tensor(root) and (exact := info_of(root._data)) is not None:
                shapes[result] = exact
        for i in reversed(kept):
            infos = _facts.input_infos(nodes[i])
            keeps = shapes.get((i, 0)) if _facts.keeps_shape(nodes[i]) else None
            for origin, number, position in _facts.inputs_of(nodes[i]):
                at = index.get(origin)
                used_as = infos[position] or keeps
                if at is not None and used_as is not None:
                    known = shapes.setdefault((at, number), used_as)
                    if known[1] is None:
                        shapes[at, number] = (known[0], used_as[1])
        for i in kept:  # and forwards, where only the inputs are known
            if (i, 0) not in shapes and _facts.keeps_shape(nodes[i]):
                results = self.input_shape(nodes[i])
                if results is not None:
                    shapes[i, 0] = results

    def input_shape(self, node: Node) -> Info | None:
        for origin, number, _ in _facts.inputs_of(node):
            if _facts.is_leaf(origin):
                return info_of(origin.variable._data)  # type: ignore[attr-defined]
            at = self.graph._index.get(origin)
            if at is not None and (at, number) in self.shapes:
                return self.shapes[at, number]
        return None

    # -- items -------------------------------------------------------------------------------

    def add(self, kind: str, label: str, **what: Any) -> Item:
        item = Item(len(self.graph.items), kind, label, **what)
        self.graph.items.append(item)
        return item

    def add_operation(self, i: int, size: int | None) -> None:
        """An operation, its leaves and constants before it, its results after it."""
        node, graph = self.graph.nodes[i], self.graph
        constants, numbers = self.constants_of(node)
        inputs: list[Input | Constant] = [*_facts.inputs_of(node), *constants]
        for given in sorted(inputs, key=lambda given: given.position):
            if isinstance(given, Constant):
                if given.key not in self.constants:
                    self.constants[given.key] = self.add_constant(node, given).id
            elif _facts.is_leaf(given.node) and given.node not in graph._leaf_items:
                item = self.add_leaf(given.node.variable)  # type: ignore[attr-defined]
                graph._leaf_items[given.node] = item.id
        info = recorded_info(node)
        item = self.add(
            "operation", label_of(node), module=info.module if info is not None else "",
            place=self.place(node), bytes=size, details=(*_facts.options_of(node), *numbers),
            saved=tuple(saved.name for saved in _facts.saved_of(node)), freed=_facts.is_freed(node),
        )  # fmt: skip
        graph._operation_items[i] = item.id
        for number in self.outputs(i):
            self.add_result(i, number)

    def outputs(self, i: int) -> list[int]:
        """The outputs of an operation that are used, or asked for."""
        return self.used.get(i, [0])

    @cached_property
    def used(self) -> dict[int, list[int]]:
        """For operations with several outputs, those that are used, or asked for."""
        result: dict[int, set[int]] = {}
        index, representative = self.graph._index, self.graph._representative
        for node in self.graph.nodes:
            if node.extras is not None and node.extras.next_numbers is not None:
                for origin, number, _ in _facts.inputs_of(node):
                    if origin in index:
                        result.setdefault(representative[index[origin]], set()).add(number)
        for at, number in self.root_tensors:
            result.setdefault(representative[at], set()).add(number)
        return {at: sorted(numbers) for at, numbers in result.items()}

    def add_leaf(self, variable: Any) -> Item:
        shape, dtype = info_of(variable._data) or (None, None)
        grad = variable._meta.grad if variable._meta is not None else None
        return self.add(
            "leaf", "leaf", name=self.names.tensors.get(id(variable)), shape=shape, dtype=dtype,
            value=Value.of(variable), grad=Value.of(grad),
            module=self.names.parameters.get(id(variable), "").rpartition(".")[0],
        )  # fmt: skip

    def constants_of(self, node: Node) -> tuple[list[Constant], list[str]]:
        """The inputs of a node that need no gradient, and numbers that it does not keep, as the
        source has them: ``other=2``."""
        constants, numbers = [], []
        for constant in _facts.constants_of(node):
            number = self.source.number(node, constant.position) if constant.missing else None
            unknown = constant.info is None and self.source.operand(node, constant.position) is None
            if constant.missing and unknown and _facts.is_freed(node):
                continue  # most often a number
            if number is None:
                constants.append(constant)
            elif node.operation is not None:
                numbers.append(f"{node.operation.inputs[constant.position]}={number}")
        return constants, numbers

    def add_constant(self, node: Node, constant: Constant) -> Item:
        shape, dtype = constant.info or (None, None)
        if constant.missing:
            why = "freed" if _facts.is_freed(node) else "not saved"
            name = self.source.operand(node, constant.position)
            known = name is not None or shape is not None
            label = why if known else f"number or tensor, {why}"
            details = (why,) if known else ()
            return self.add("data", label, name=name, shape=shape, dtype=dtype, details=details)
        recorded = constant.recorded
        name = recorded.name if recorded is not None else None
        value = recorded.value if recorded is not None else Value.of(constant.value)
        name = name or self.names.arrays.get(id(constant.value))
        details = (f"cut off by {recorded.cut}",) if recorded is not None and recorded.cut else ()
        return self.add(
            "data", "data", name=name, shape=shape, dtype=dtype, value=value, details=details
        )

    def add_result(self, i: int, number: int) -> None:
        node, root = self.graph.nodes[i], self.root_tensors.get((i, number))
        shape, dtype = self.shapes.get((i, number), (None, None))
        info = recorded_info(node)
        described = info.outputs[number] if info and number < len(info.outputs) else None
        name = described.name if described is not None else None
        name = name or self.names.results.get((id(node), number)) or self.assigned(i, number)
        value = described.value if described is not None else self.kept_value(node, number)
        grad = None
        if root is not None and is_tensor(root):
            value = Value.of(root) or value
            grad = root._meta.grad if root._meta is not None else None
        item = self.add(
            "intermediate", "result", name=name, shape=shape, dtype=dtype, value=value,
            grad=Value.of(self.retained(node, number) if grad is None else grad),
            module=info.module if info is not None else "", place=self.place(node),
            root=root is not None,
        )  # fmt: skip
        self.results[i, number] = item.id
        if root is not None:
            self.graph.roots.append(item.id)

    def kept_value(self, node: Node, number: int) -> Value | None:
        """The value of a result that its own node keeps."""
        operation = node.operation
        if operation is None:
            return None
        for name, value, _ in _facts.saved_of(node):
            if name in operation.output_names and operation.output_names.index(name) == number:
                return Value.of(value)
        return None

    def retained(self, node: Node, number: int) -> Any:
        """The gradient that a result keeps because ``retain_grad`` was called."""
        kept = node.extras.retained if node.extras is not None else None
        tensor = kept[number]() if kept and number in kept else None
        return None if tensor is None or tensor._meta is None else tensor._meta.grad

    def assigned(self, i: int, number: int) -> str | None:
        """The variable that a result was assigned to. A call that consists of several operations
        has one result, the last. A loop around one operation assigns them all."""
        return self.source.assigned(self.graph.nodes[i], number) if self.is_last(i) else None

    def is_last(self, i: int) -> bool:
        """Whether no operation of another kind follows that the same piece of code made."""
        node = self.graph.nodes[i]
        for following in self.graph.nodes[i + 1 : i + 101]:  # more is a loop
            if following.code is not node.code or following.lasti != node.lasti:
                break
            if type(following) is not type(node):
                return False
        return True

    def place(self, node: Node) -> tuple[int, int] | None:
        result = self.source.span(node)
        return None if result is None else self.graph.files.place(result[0], result[1][0])

    def add_roots_without_graph(self) -> None:
        """Requested tensors that are leaves or constants: no operation leads to them."""
        graph = self.graph
        for root in self.roots:
            node, number = locate(root)
            if node is not None and node is not NOWHERE:
                if node in graph._leaf_items:
                    item = graph.items[graph._leaf_items[node]]
                elif node in graph._index:
                    at, key = graph._representative[graph._index[node]], number or 0
                    if (at, key) in self.results:
                        graph.items[self.results[at, key]].root = True
                    continue
                else:
                    item = self.add_leaf(node.variable)  # type: ignore[attr-defined]
                    graph._leaf_items[node] = item.id
            else:
                name = self.names.tensors.get(id(root))
                shape, dtype = info_of(root._data) or (None, None)
                item = self.add("data", "data", name=name, shape=shape, dtype=dtype,
                                value=Value.of(root))  # fmt: skip
            item.root = True
            graph.roots.append(item.id)

    # -- groups ------------------------------------------------------------------------------

    def add_group(self, group: Group) -> None:
        inside = Counter(label_of(n) for n in self.graph.nodes[group.low : group.high])
        path = group.ends[0] if group.ends is not None else group.module
        group.kind = group.kind or self.names.kinds.get(path, "")
        label, name = _group_label(group, inside)
        item = self.add(
            "group", label, name=name, module=group.module, count=len(group), times=group.times,
            place=self.place(self.graph.nodes[group.low]), details=_contents(inside, group.times),
        )  # fmt: skip
        self.group_items[id(group)] = item.id
        self.groups[item.id] = group

    # -- edges -------------------------------------------------------------------------------

    def add_edges(self, kept: list[int]) -> None:
        graph = self.graph
        by_operation: dict[int, list[int]] = {}
        for (i, _), item in self.results.items():
            by_operation.setdefault(i, []).append(item)
        for i in kept:
            node, item = graph.nodes[i], graph._operation_items[i]
            inputs = [(position, self.source_item(n, number))
                      for n, number, position in _facts.inputs_of(node)]  # fmt: skip
            inputs += [(c.position, self.constants[c.key]) for c in self.constants_of(node)[0]]
            graph.edges += [(source, item) for _, source in sorted(inputs)]
            graph.edges += [(item, result) for result in by_operation.get(i, ())]
        self.add_edges_of_closed()

    def source_item(self, origin: Any, number: int) -> int:
        graph = self.graph
        if origin in graph._leaf_items:
            return graph._leaf_items[origin]
        at = graph._representative[graph._index[origin]]
        result = self.results.get((at, number))
        return graph._collapsed_group(at) if result is None else result

    def add_edges_of_closed(self) -> None:
        """Add the edges of closed groups, which stand for their operations."""
        graph = self.graph
        edges: dict[tuple[int, int], None] = {}
        for group in self.closed:
            own = self.group_items[id(group)]
            for node in graph.nodes[group.low : group.high]:
                for origin, number, _ in _facts.inputs_of(node):
                    if origin in graph._index or origin in graph._leaf_items:
                        source = self.source_item(origin, number)
                        if source != own:
                            edges[source, own] = None
        for (i, number), root in self.root_tensors.items():
            at = graph._representative[i]
            if (at, number) not in self.results and at not in self.owner:
                self.add_collapsed_root(at, root, edges)
        graph.edges += edges

    def add_collapsed_root(self, at: int, root: Any, edges: dict[tuple[int, int], None]) -> None:
        """Add a requested tensor whose operation is in a closed group."""
        tensor = root if is_tensor(root) else None
        shape, dtype = (info_of(tensor._data) if tensor is not None else None) or (None, None)
        name = self.names.tensors.get(id(root))
        item = self.add("intermediate", "result", name=name, shape=shape, dtype=dtype, root=True,
                        value=Value.of(tensor))  # fmt: skip
        self.graph.roots.append(item.id)
        edges[self.graph._collapsed_group(at), item.id] = None


def _group_label(group: Group, inside: Counter[str]) -> tuple[str, str | None]:
    """What a folded group is called, and its name."""
    if group.part is not None:
        first, last, times = group.part
        span = f"{first:,}" if first == last else f"{first:,}–{last:,}"
        return f"{span} of {times:,}", None
    if group.times > 1:
        if group.ends is not None and all(group.ends):
            return f"{group.kind or group.ends[0]} ×{group.times:,}", " … ".join(group.ends)
        period = len(group) // group.times
        what = next(iter(inside)) if period == 1 else f"{period} operations"
        return f"{what} ×{group.times:,}", None
    if group.module:
        return group.kind or group.module, group.module
    return f"{len(group):,} operations", None


def _contents(inside: Counter[str], times: int) -> tuple[str, ...]:
    """The contents of a group in one line."""
    words = [f"{label} ×{n // times:,}" if n // times > 1 else label
             for label, n in inside.most_common(4)]  # fmt: skip
    omitted = len(inside) - len(words)
    return (", ".join(words) + (f", {omitted} more" if omitted > 0 else ""),)
