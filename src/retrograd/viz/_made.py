"""What a node remembers of the forward run, where that was recorded.

A graph holds what its rules need, and no more: not the values of intermediate results, nor the
constants that an operation was given, nor the Module that was running. ``viz.recording`` notes
these on each node as it is made, and whatever draws or explains the graph looks here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from retrograd.autograd._node import Node
from retrograd.viz._values import Value

KEY = "retrograd.viz"  # in the metadata of a node


@dataclass(slots=True)
class Described:
    """One tensor, as it was when an operation took it or gave it."""

    shape: tuple[int, ...]
    dtype: str
    value: Value | None  # None under transforms, where there is no array to look at
    identity: int  # the same tensor seen twice, and not written between, has the same
    name: str | None = None
    constant: bool = False  # data that needs no gradient
    cut: str | None = None  # "detach", "no_grad" or "item": how it was cut off from a history
    cut_place: tuple[Any, int] | None = None  # the user's code that cut it off, as in _source.py


@dataclass(slots=True)
class Made:
    """One operation, as it was run."""

    outputs: tuple[Described, ...]
    inputs: tuple[Described | None, ...]  # in the order of next_nodes; None: not a tensor
    module: str = ""  # path of the Module call it was made in, "layers.0.attention"
    module_types: tuple[str, ...] = ()  # class names along that path


def made_of(node: Node) -> Made | None:
    """What was noted on a node; None if it was made outside a recording. Changes nothing on it."""
    metadata = node.extras.metadata if node.extras is not None else None
    return metadata.get(KEY) if metadata else None


def note(node: Node, made: Made) -> None:
    """Put what was recorded on a node. (``node.metadata`` would have it run with care from then
    on, which a note is no reason for.)"""
    extras = node.get_extras()
    if extras.metadata is None:
        extras.metadata = {}
    extras.metadata[KEY] = made
