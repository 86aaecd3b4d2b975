"""The forward values of each pass. Graphs of the same structure share their items, so a pass has
only those values that differ from those of the items."""

from __future__ import annotations

from collections.abc import Iterator

from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.viz import _facts
from retrograd.viz._model import Graph
from retrograd.viz._node_info import recorded_info
from retrograd.viz._record_passes import PassRecord
from retrograd.viz._values import Value


def leaf_values(
    nodes: list[Node], leaves: list[Node], max_elements: int
) -> dict[Node, Value | None]:
    """The values of leaves before a pass: as the operations that use them were recorded to receive
    them, or as they are now."""
    result: dict[Node, Value | None] = {}
    for node in nodes:
        info = recorded_info(node)
        if info is None or len(info.inputs) != len(node.next_nodes):
            continue
        for described, origin in zip(info.inputs, node.next_nodes, strict=True):
            if described is not None and origin is not None and _facts.is_leaf(origin):
                result.setdefault(origin, described.value)
    for leaf in leaves:
        if leaf not in result and isinstance(leaf, AccumulateGrad):
            result[leaf] = Value.of(leaf.variable, max_elements)
    return result


def use_first_values(graph: Graph, passes: list[PassRecord]) -> None:
    """Give each leaf the value that it had in the first pass over it."""
    for record in reversed(passes):
        for leaf, value in record.leaf_values.items():
            item = graph.leaf_item(leaf)
            if item is not None:
                graph.items[item].value = value


def differing_values(
    graph: Graph, record: PassRecord, nodes: list[Node]
) -> dict[int, Value | None]:
    """The values of a pass over ``nodes`` that differ from those of the items, by item; None where
    the value is not known."""
    result: dict[int, Value | None] = {}
    for item, value in _values(graph, record, nodes):
        known = graph.items[item].value
        if value is not known and not (known and value and value.same_as(known)):
            result.setdefault(item, value)
    return result


def _values(
    graph: Graph, record: PassRecord, nodes: list[Node]
) -> Iterator[tuple[int, Value | None]]:
    """The items that a pass shares with others, and their values in it."""
    for leaf, value in record.leaf_values.items():
        if (item := graph.leaf_item(leaf)) is not None:
            yield item, value
    for node in nodes:
        first = graph.stand_ins.get(node)
        if first is None:
            continue
        info, shown = recorded_info(node), recorded_info(first)
        for number, item in graph.result_items(first):
            outputs = info.outputs if info is not None else ()
            yield item, outputs[number].value if number < len(outputs) else None
        inputs = info.inputs if info is not None else ()
        for position, described in enumerate(shown.inputs if shown is not None else ()):
            if described is not None and described.constant:
                own = inputs[position] if position < len(inputs) else None
                if (data := graph.constant_item(described.identity)) is not None:
                    yield data, own.value if own is not None else None
