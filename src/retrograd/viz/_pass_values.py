"""The forward values of each pass. Graphs of the same structure share their items, so a pass has
only those values that differ from those of the items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.viz import _facts
from retrograd.viz._model import Graph
from retrograd.viz._node_info import recorded_info
from retrograd.viz._record_passes import PassRecord
from retrograd.viz._text import value_text
from retrograd.viz._values import Value

MOST_BOXES = 60  # of a picture whose boxes show values and gradients
FEW, LONGEST_LIST = 4, 26  # elements of an array that are all shown, and their characters
TENSORS = ("leaf", "data", "intermediate")


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


# -- values in boxes -----------------------------------------------------------------------------


def make_room(
    graph: Graph, passes: list[PassRecord], differing: list[dict[int, Value | None]]
) -> None:
    """Make boxes large enough for the values and gradients that a page shows in them, in pictures
    that are not large."""
    sizes = Counter(item.group for item in graph.items)
    shown = {i.id for i in graph.items if i.kind in TENSORS and sizes[i.group] <= MOST_BOXES}
    values = {item: {text_of(graph.items[item].value)} for item in shown}
    gradients: dict[int, set[str]] = {item: {""} for item in shown}
    for changed in differing:
        for item in changed.keys() & shown:
            values[item].add(text_of(changed[item]))
    for record in passes:
        for at, gradient in _gradients(graph, record):
            if at in shown:
                gradients[at].add(f"grad {text_of(gradient)}")
        for change in (change for update in record.updates for change in update.changes):
            leaf = graph.tensor_item(change.tensor())
            if leaf is not None and leaf in shown:
                values[leaf].add(text_of(change.after))
    for node in graph.nodes:
        for known, tangent in _tangents(graph, node):
            if known is not None and known in shown and tangent is not None:
                gradients[known].add(f"tangent {text_of(tangent)}")
    for item in shown:
        lines = [f"= {max(values[item], key=len)}", max(gradients[item], key=len)]
        graph.items[item].room = tuple(line for line in lines if line not in ("= ", "", "grad "))


def _tangents(graph: Graph, node: Node) -> Iterator[tuple[int | None, Value | None]]:
    """The tangents of the results of an operation, and of leaves that it was given."""
    info = recorded_info(node)
    if info is None:
        return
    for number, item in graph.result_items(node):
        if number < len(info.outputs):
            yield item, info.outputs[number].tangent
    for origin, described in zip(node.next_nodes, info.inputs, strict=False):
        if origin is not None and described is not None:
            yield graph.leaf_item(origin), described.tangent


def text_of(value: Value | None) -> str:
    return value_text(value, FEW, LONGEST_LIST)


def _gradients(graph: Graph, record: PassRecord) -> Iterator[tuple[int, Value | None]]:
    """The gradients that a page shows in boxes: of results, and those that leaves keep."""
    for step in record.steps:
        if isinstance(step.node, AccumulateGrad):
            if (item := graph.leaf_item(step.node)) is not None:
                yield item, step.after
        elif len(step.incoming) == 1:
            first = graph.stand_ins.get(step.node, step.node)
            for _, item in graph.result_items(first):
                yield item, step.incoming[0]
