"""Passes over graphs that are alike, as a training loop makes them: one picture serves all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retrograd.autograd._node import Node
from retrograd.viz import _facts
from retrograd.viz._model import walk
from retrograd.viz._node_info import recorded_info


def stand_ins(passes: Iterable[list[Node]]) -> dict[Node, Node]:
    """For each operation of a graph that is like one before, the operation there that stands for
    it. ``passes``: the nodes that each pass began with.

    Alike are graphs of the same operations, made by the same lines, wired in the same way to the
    same leaves, with the same shapes and options. A graph that shares operations with one before is
    not looked at: it goes on from there."""
    graphs: dict[int, list[list[Node]]] = {}  # by their sizes: most that differ do so in that
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
    """What is the same for graphs that are alike."""
    index = {node: i for i, node in enumerate(nodes)}
    return tuple(
        (type(node), node.code, node.lasti, _wiring(node, index), *_looks(node)) for node in nodes
    )


def _wiring(node: Node, index: dict[Node, int]) -> tuple[Any, ...]:
    inputs = [(index.get(origin, origin), number) for origin, number, _ in _facts.inputs_of(node)]
    return (len(node.next_nodes), *inputs)


def _looks(node: Node) -> tuple[Any, ...]:
    info = recorded_info(node)
    if info is None:
        return (None, tuple(_facts.options_of(node)))
    shapes = [None if d is None else d.shape for d in (*info.inputs, *info.outputs)]
    return (info.module, *shapes, *_facts.options_of(node))
