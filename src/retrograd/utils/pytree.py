"""Flattening and unflattening nested tuples, lists and dicts.

>>> from retrograd.utils.pytree import tree_map
>>> tree_map(lambda x: x + 1, {"a": 1, "b": (2, [3])})
{'a': 2, 'b': (3, [4])}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from retrograd.func import _trees
from retrograd.func._trees import Shape as TreeSpec
from retrograd.ops._sections import complete_all

PyTree = Any
Leaves = Callable[[Any], bool]


def tree_flatten(tree: Any, is_leaf: Leaves | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure."""
    if is_leaf is None:
        return _trees.flatten(tree)
    leaves, shape = _trees.flatten(_held(tree, is_leaf))
    return [x.value if isinstance(x, _Whole) else x for x in leaves], shape


class _Whole:
    """A container that is to stay whole."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _held(tree: Any, is_leaf: Leaves) -> Any:
    if is_leaf(tree):
        return _Whole(tree)
    if not _trees.is_nest(tree):
        return tree
    if type(tree) in _trees.DICTS:
        made = type(tree)() if type(tree) is not defaultdict else defaultdict(
            tree.default_factory)  # fmt: skip
        made.update({key: _held(x, is_leaf) for key, x in tree.items()})
        return made
    members = [_held(x, is_leaf) for x in tree]
    return type(tree)(*members) if hasattr(tree, "_fields") else type(tree)(members)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Rebuild a tree from its leaves and its structure.

    Args:
        leaves: the leaves.
        treespec: what ``tree_flatten`` returned with them.

    Returns:
        The tree.
    """
    return _trees.unflatten(list(leaves), treespec)


def tree_leaves(tree: Any, is_leaf: Leaves | None = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Leaves | None = None) -> Any:
    """An iterator over the leaves of a tree."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: Leaves | None = None) -> TreeSpec:
    """The tree without its leaves, which ``tree_unflatten`` needs."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaves | None = None
) -> Any:
    """Call a function for each leaf.

    Args:
        func: a function of a leaf of each tree.
        rests: more trees of the same structure.

    Returns:
        A tree of the results.
    """
    leaves, shape = tree_flatten(tree, is_leaf)
    others = [_trees.flatten_as(shape, rest) for rest in rests]
    return _trees.unflatten([func(*given) for given in zip(leaves, *others, strict=True)], shape)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Call a function for each leaf and discard the results.

    Args:
        func: a function of a leaf of each tree.
        rests: more trees of the same structure.

    Returns:
        The tree itself.
    """
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kinds: Any, func: Any = None, tree: Any = None, is_leaf: Any = None) -> Any:
    """Call a function for each leaf of some types.

    Args:
        kinds: the type or types, or a function that says whether a leaf is meant.
        func: a function of a leaf.

    Returns:
        A tree with the results in place of these leaves.
    """
    chosen = kinds if callable(kinds) and not isinstance(kinds, type) else (
        lambda x: isinstance(x, kinds))  # fmt: skip
    return tree_map(lambda x: func(x) if chosen(x) else x, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Leaves | None = None) -> bool:
    """Whether a predicate is true for all leaves.

    Args:
        pred: the question.
    """
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Leaves | None = None) -> bool:
    """Whether a predicate is true for some leaf.

    Args:
        pred: the question.
    """
    return any(map(pred, tree_leaves(tree, is_leaf)))


__all__ = ["PyTree", "TreeSpec", "tree_all", "tree_any", "tree_flatten", "tree_iter",
           "tree_leaves", "tree_map", "tree_map_", "tree_map_only", "tree_structure",
           "tree_unflatten"]  # fmt: skip


complete_all(globals(), {
    "tree": "nested containers.",
    "is_leaf": "whether a part is to stay whole.",
})  # fmt: skip
