"""Flattening and unflattening nested tuples, lists and dicts.

What a function takes and returns may be nested to any depth. A *tree* is such a nest, or a single
value; its *leaves* are what is inside, in order (dicts in the order of their insertion). None is a
leaf, and so is whatever is not one of the containers of Python itself.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from retrograd.ops._results import NamedResult

DICTS = (dict, OrderedDict, defaultdict)


class Shape(NamedTuple):
    """The structure of a tree, without its leaves."""

    kind: type | None  # None: a leaf
    keys: tuple[Any, ...]  # of a dict
    parts: tuple[Shape, ...]
    extra: Any  # the default of a defaultdict, the length of a deque

    @property
    def leaf_count(self) -> int:
        return 1 if self.kind is None else sum(part.leaf_count for part in self.parts)


LEAF = Shape(None, (), (), None)


def is_nest(tree: Any) -> bool:
    """Whether something is a container of parts, rather than a leaf. A torch.Size, for one, is a
    leaf: it is the shape of something."""
    kind = type(tree)
    return (
        kind in (tuple, list, deque)
        or kind in DICTS
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))  # a named tuple
        or issubclass(kind, NamedResult)
    )


def flatten(tree: Any) -> tuple[list[Any], Shape]:
    """The leaves of a tree, and its shape.

    >>> flatten({"a": 1, "b": (2, [3])})[0]
    [1, 2, 3]
    """
    if not is_nest(tree):
        return [tree], LEAF
    members, outer = taken_apart(tree)
    leaves: list[Any] = []
    parts = []
    for member in members:
        own, shape = flatten(member)
        leaves += own
        parts.append(shape)
    return leaves, outer._replace(parts=tuple(parts))


def taken_apart(tree: Any) -> tuple[list[Any], Shape]:
    """The members of a nest, which may be nests, and its shape with a leaf for each."""
    keys, members = (tuple(tree), tree.values()) if type(tree) in DICTS else ((), tree)
    extra = getattr(tree, "default_factory", None) or getattr(tree, "maxlen", None)
    return [*members], Shape(type(tree), keys, (LEAF,) * len(tree), extra)


def unflatten(leaves: Sequence[Any], shape: Shape) -> Any:
    """The tree of a shape with the leaves given.

    >>> leaves, shape = flatten((1, {"a": 2}))
    >>> unflatten([x * 10 for x in leaves], shape)
    (10, {'a': 20})
    """
    kind: Any = shape.kind
    if kind is None:
        return leaves[0]
    members, start = [], 0
    for part in shape.parts:
        count = part.leaf_count
        members.append(unflatten(leaves[start : start + count], part))
        start += count
    if kind in DICTS:
        pairs = zip(shape.keys, members, strict=True)
        return kind(shape.extra, pairs) if kind is defaultdict else kind(pairs)
    if kind is deque:
        return kind(members, shape.extra)
    return kind(*members) if hasattr(kind, "_fields") else kind(members)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """``function`` applied to each leaf.

    >>> tree_map(lambda x: x + 1, (1, [2]))
    (2, [3])
    """
    leaves, shape = flatten(tree)
    return unflatten([function(x) for x in leaves], shape)


def flatten_as(shape: Shape, tree: Any) -> list[Any]:
    """The leaves of a tree that must have a given shape; ValueError if it has another. Dicts may
    have their keys in another order.

    >>> flatten_as(flatten({"a": 1, "b": 2})[1], {"b": 20, "a": 10})
    [10, 20]
    """
    result = _leaves_as(shape, tree)
    if result is None:
        raise ValueError(f"expected {describe(shape)}, got {describe(flatten(tree)[1])}")
    return result


def _leaves_as(shape: Shape, tree: Any) -> list[Any] | None:
    if shape.kind is None:
        return None if is_nest(tree) else [tree]
    return _parts_as(shape, tree, _leaves_as)


def broadcast_to(prefix: Any, shape: Shape) -> list[Any] | None:
    """A value for each leaf of a shape, from a prefix tree: a value at an inner node applies to all
    leaves below. None if the trees do not match.

    >>> broadcast_to((0, None), flatten(("x", {"a": "y", "b": "z"}))[1])
    [0, None, None]
    """
    if not is_nest(prefix):
        return [prefix] * shape.leaf_count
    return None if shape.kind is None else _parts_as(shape, prefix, lambda s, t: broadcast_to(t, s))


def _parts_as(
    shape: Shape, tree: Any, each: Callable[[Shape, Any], list[Any] | None]
) -> list[Any] | None:
    """What ``each`` finds in the members of a tree that should have the type, the keys and the
    length of a shape; None if it does not."""
    same = type(tree) is shape.kind or (type(tree) in DICTS and shape.kind in DICTS)
    if not same or len(tree) != len(shape.parts):
        return None
    if shape.kind in DICTS:
        if set(tree) != set(shape.keys):
            return None
        tree = [tree[key] for key in shape.keys]
    results: list[Any] = []
    for part, member in zip(shape.parts, tree, strict=True):
        values = each(part, member)
        if values is None:
            return None
        results += values
    return results


def describe(shape: Shape) -> str:
    """A shape as text.

    >>> describe(flatten((1, {"a": [2]}))[1])
    "(*, {'a': [*]})"
    """
    if shape.kind is None:
        return "*"
    inside = [describe(part) for part in shape.parts]
    if shape.kind in DICTS:
        pairs = zip(shape.keys, inside, strict=True)
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in pairs) + "}"
    if shape.kind is list:
        return "[" + ", ".join(inside) + "]"
    name = "" if shape.kind is tuple else shape.kind.__name__
    return f"{name}({', '.join(inside)}{',' if len(inside) == 1 and not name else ''})"
