"""Nested tuples, lists and dicts of values, taken apart and put together again.

What a function takes and returns may be nested to any depth. A *tree* is such a nest, or a single
value; its *leaves* are what is inside, in order (dicts in the order of their insertion).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Shape(NamedTuple):
    """The nest without its leaves: how to put them together again."""

    kind: type | None  # None: a leaf
    keys: tuple[Any, ...]  # of a dict
    parts: tuple[Shape, ...]

    @property
    def leaf_count(self) -> int:
        return 1 if self.kind is None else sum(part.leaf_count for part in self.parts)


LEAF = Shape(None, (), ())


def flatten(tree: Any) -> tuple[list[Any], Shape]:
    """The leaves of a tree, and its shape.

    >>> flatten({"a": 1, "b": (2, [3])})[0]
    [1, 2, 3]
    """
    if isinstance(tree, dict):
        keys, members = tuple(tree), list(tree.values())
    elif isinstance(tree, (tuple, list)) and not _is_size(tree):
        keys, members = (), list(tree)
    else:
        return [tree], LEAF
    leaves: list[Any] = []
    parts = []
    for member in members:
        found, shape = flatten(member)
        leaves += found
        parts.append(shape)
    return leaves, Shape(type(tree), keys, tuple(parts))


def _is_size(tree: Any) -> bool:
    """A torch.Size is one value: the shape of something."""
    return type(tree).__name__ == "Size"


def unflatten(leaves: Sequence[Any], shape: Shape) -> Any:
    """The tree of a shape with the leaves given.

    >>> leaves, shape = flatten((1, {"a": 2}))
    >>> unflatten([x * 10 for x in leaves], shape)
    (10, {'a': 20})
    """
    if shape.kind is None:
        return leaves[0]
    members, start = [], 0
    for part in shape.parts:
        count = part.leaf_count
        members.append(unflatten(leaves[start : start + count], part))
        start += count
    if issubclass(shape.kind, dict):
        return shape.kind(zip(shape.keys, members, strict=True))
    if hasattr(shape.kind, "_fields"):  # a named tuple
        return shape.kind(*members)
    kind: Any = shape.kind
    return kind(members)


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """``function`` applied to each leaf, together with those at the same place of other trees.

    >>> tree_map(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    leaves, shape = flatten(tree)
    columns = [leaves, *(flatten_as(shape, other) for other in others)]
    return unflatten([function(*row) for row in zip(*columns, strict=True)], shape)


def flatten_as(shape: Shape, tree: Any) -> list[Any]:
    """The leaves of a tree that must have a given shape."""
    leaves, own = flatten(tree)
    if own != shape:
        raise ValueError(f"expected a tree of the structure {describe(shape)}, got {describe(own)}")
    return leaves


def broadcast_to(prefix: Any, shape: Shape) -> list[Any] | None:
    """A value for each leaf of a shape, from a tree that may end earlier: what it has at a place
    goes for all leaves below. None if it does not fit."""
    if shape.kind is None or not isinstance(prefix, (tuple, list, dict)) or _is_size(prefix):
        return None if isinstance(prefix, (tuple, list, dict)) else [prefix] * shape.leaf_count
    if type(prefix) is not shape.kind and not (
        isinstance(prefix, (tuple, list)) and issubclass(shape.kind, (tuple, list))
    ):
        return None
    if isinstance(prefix, dict):
        if set(prefix) != set(shape.keys):
            return None
        prefix = [prefix[key] for key in shape.keys]
    if len(prefix) != len(shape.parts):
        return None
    found: list[Any] = []
    for member, part in zip(prefix, shape.parts, strict=True):
        values = broadcast_to(member, part)
        if values is None:
            return None
        found += values
    return found


def describe(shape: Shape) -> str:
    """A shape in words: ``(*, {'a': *})``."""
    if shape.kind is None:
        return "*"
    inside = [describe(part) for part in shape.parts]
    if issubclass(shape.kind, dict):
        pairs = zip(shape.keys, inside, strict=True)
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in pairs) + "}"
    brackets = "[]" if issubclass(shape.kind, list) else "()"
    return brackets[0] + ", ".join(inside) + brackets[1]
