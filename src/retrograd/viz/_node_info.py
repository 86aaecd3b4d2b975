"""Information on each node that ``viz.recording`` adds.

A graph contains only what its rules need: no values of intermediate results, no constants, and not
the module that was running. ``viz.recording`` stores these on each new node, for everything that
draws or explains the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from retrograd.autograd._node import Node
from retrograd.viz._values import Value

KEY = "retrograd.viz"  # in the metadata of a node


@dataclass(slots=True)
class Described:
    """A tensor, as it was when an operation received or returned it."""

    shape: tuple[int, ...]
    dtype: str
    value: Value | None  # None under transforms, where there is no array
    identity: int  # the same tensor seen twice, and not written between, has the same
    name: str | None = None
    constant: bool = False  # data that needs no gradient
    cut: str | None = None  # "detach", "no_grad" or "item": how it was cut off from a history
    cut_place: tuple[Any, int] | None = None  # the user's code that cut it off, as in _source.py
    tangent: Value | None = None  # in forward mode, where it moves


@dataclass(slots=True)
class NodeInfo:
    """One operation, as it ran."""

    outputs: tuple[Described, ...]
    inputs: tuple[Described | None, ...]  # in the order of next_nodes; None: not a tensor
    module: str = ""  # path of the module that was running, "layers.0.attention"
    module_types: tuple[str, ...] = ()  # class names along that path
    numbers: dict[int, Any] | None = None  # inputs that are Python numbers, by position
    ran: bool = True  # in the recording; otherwise it was there before


def recorded_info(node: Node) -> NodeInfo | None:
    """The information on a node; None if it was created outside of a recording."""
    metadata = node.extras.metadata if node.extras is not None else None
    return metadata.get(KEY) if metadata else None


def note(node: Node, info: NodeInfo) -> None:
    """Store information on a node. (Accessing ``node.metadata`` would make the node take the slower
    path in backward passes.)"""
    extras = node.get_extras()
    if extras.metadata is None:
        extras.metadata = {}
    extras.metadata[KEY] = info
