"""Passes over graphs of the same structure, as in a training loop: one picture serves all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retrograd.autograd._node import Node
from retrograd.viz import _facts
from retrograd.viz._model import walk
from retrograd.viz._node_info import recorded_info


def stand_ins(passes: Iterable[list[Node]]) -> dict[Node, Node]:
    """For each operation of a graph that has the structure of an earlier one, the corresponding
    operation there. ``passes``: the nodes that each pass began with.

    Graphs have the same structure if they consist of the same operations, created by the same
    lines, with the same edges to the same leaves, and with the same shapes and options. A graph
    that shares operations with an earlier one is not considered."""
    graphs: dict[int, list[list[Node]]] = {}  # by their sizes, in which most graphs differ
    seen: set[Node] = set()
    for roots in passes:
        nodes, _ = walk(roots)
        if seen.isdisjoint(nodes):
            graphs.setdefault(len(nodes), []).append(nodes)
        seen.update(nodes)
    result: dict[Node, Node] = {}
    for candidates in graphs.values():
        known: dict[Any, list[Node]] = {}
        for nodes in candidates if len(candidates) > 1 else ():
            first = known.setdefault(_structure(nodes), nodes)
            if first is not nodes:
                result.update(zip(nodes, first, strict=True))
    return result


def _structure(nodes: list[Node]) -> tuple[Any, ...]:
    """A description that is equal for graphs of the same structure."""
    index = {node: i for i, node in enumerate(nodes)}
    return tuple(
        (type(node), node.code, node.lasti, len(node.next_nodes),
         tuple((index.get(n, n), number) for n, number, _ in _facts.inputs_of(node)), *_looks(node))
        for node in nodes
    )  # fmt: skip


def _looks(node: Node) -> tuple[Any, ...]:
    info = recorded_info(node)
    if info is None:
        return (None, tuple(_facts.options_of(node)))
    shapes = [None if d is None else d.shape for d in (*info.inputs, *info.outputs)]
    return (info.module, *shapes, *_facts.options_of(node))
