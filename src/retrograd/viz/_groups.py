"""Assigning items to groups.

An operation is in the group that folding put it in. A result is in the group of its operation or,
if only others use it, between the groups that make and use it. A leaf or constant is in the group
that it belongs to. Many tensors with the same edges form a group of their own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from retrograd.autograd._node import Node
from retrograd.viz import _facts
from retrograd.viz._folding import Group
from retrograd.viz._model import Item

if TYPE_CHECKING:
    from retrograd.viz._items import Maker

MAX_CROSSING = 6  # results shown between groups; if there are more, they stay inside
MAX_ALIKE = 16  # tensors with the same maker and the same users that are shown one by one
_WORDS = {"leaf": "leaves", "data": "constants", "intermediate": "results"}


def place_in_groups(maker: Maker) -> None:
    """Assign each item to a group."""
    placer = _Placer(maker)
    placer.place_operations()
    placer.place_results()
    placer.place_sources()
    placer.bundle()


class _Placer:
    def __init__(self, maker: Maker) -> None:
        self.maker = maker
        self.graph = maker.graph
        self.items = maker.graph.items
        self.users: dict[int, list[int]] = defaultdict(list)  # of tensors
        self.makers: dict[int, int] = {}
        for source, target in self.graph.edges:
            if self.items[source].kind in _WORDS:
                self.users[source].append(target)
            if self.items[target].kind in _WORDS:
                self.makers[target] = source

    def place_operations(self) -> None:
        maker, numbers = self.maker, self.maker.group_items
        for group in (*maker.opened, *maker.closed):
            parent = maker.parent[id(group)]
            self.items[numbers[id(group)]].group = numbers.get(id(parent))
        for i, owner in maker.owner.items():
            self.items[self.graph._operation_items[i]].group = numbers.get(id(owner))

    def chain(self, number: int | None) -> list[int]:
        """A group and those around it, outermost first."""
        result = []
        while number is not None:
            result.append(number)
            number = self.items[number].group
        return result[::-1]

    def around(self, user: int) -> list[int]:
        """The groups around an operation, including a group that stands for operations."""
        item = self.items[user]
        return self.chain(user if item.kind == "group" else item.group)

    # -- results -----------------------------------------------------------------------------

    def place_results(self) -> None:
        """Move results out of groups in which nobody uses them, from the inside out, if they are
        few."""
        here: dict[int | None, list[Item]] = defaultdict(list)
        for item in self.items:
            if item.kind == "intermediate" and item.id in self.makers:
                made_by = self.items[self.makers[item.id]]
                item.group = made_by.id if made_by.kind == "group" else made_by.group
                here[item.group].append(item)
        inside = {i.id: {g for u in self.users[i.id] for g in self.around(u)} for i in self.items}
        groups = sorted((g.id for g in self.graph.groups()), key=lambda g: -len(self.chain(g)))
        for group in groups:
            leaving = [item for item in here[group] if group not in inside[item.id]]
            if len(leaving) > MAX_CROSSING:
                leaving = [item for item in leaving if item.root][:MAX_ALIKE]
            for item in leaving:
                item.group = self.items[group].group
                here[item.group].append(item)

    # -- leaves and constants ----------------------------------------------------------------

    def place_sources(self) -> None:
        for item in self.items:
            if item.kind in ("leaf", "data") and not item.root:
                item.group = self.innermost(item)

    def innermost(self, item: Item) -> int | None:
        """The innermost group that a leaf or constant belongs to."""
        chains = [self.around(user) for user in self.users[item.id]]
        result = None
        for level in zip(*chains, strict=False):
            group = self.maker.groups[level[0]]
            if len(set(level)) > 1 or not self.belongs(item, group):
                break
            result = level[0]
        return result

    def belongs(self, item: Item, group: Group) -> bool:
        """Whether a leaf or constant that is used only in a group belongs to it: a parameter of the
        Module or, in a repeated structure, one that differs between repetitions."""
        if group.times > 1:
            return self.differs(item.id, group)
        if group.module and item.name is not None:
            return item.module == group.module or item.module.startswith(f"{group.module}.")
        return True

    def differs(self, item: int, group: Group) -> bool:
        """Whether the next repetition has a different leaf or constant at this position."""
        nodes, period = self.graph.nodes, len(group) // group.times
        for i in range(group.low, group.low + period):
            for position, key in self.fixed(nodes[i]):
                if self.known(key) == item:
                    again = [k for at, k in self.fixed(nodes[i + period]) if at == position]
                    return bool(again) and again != [key]
        return True

    def known(self, key: Any) -> int | None:
        """The item of a leaf's node or of a constant."""
        return self.graph._leaf_items.get(key, self.maker.constants.get(key))

    def fixed(self, node: Node) -> list[tuple[int, Any]]:
        """A node's leaves and constants, with their positions."""
        result: list[tuple[int, Any]] = [
            (position, n) for n, _, position in _facts.inputs_of(node) if _facts.is_leaf(n)
        ]
        return result + [(c.position, c.key) for c in _facts.constants_of(node)]

    # -- many alike --------------------------------------------------------------------------

    def bundle(self) -> None:
        """Show the inputs of an operation that has hundreds of them as one box."""
        alike: dict[Any, list[Item]] = defaultdict(list)
        for item in self.items:
            if item.kind in _WORDS and not item.root and self.users[item.id]:
                users = frozenset(self.users[item.id])
                alike[item.group, item.kind, self.makers.get(item.id), users].append(item)
        for (group, kind, _, _), members in alike.items():
            if len(members) > MAX_ALIKE:
                named = [item.name for item in members if item.name]
                names = f"{named[0]} … {named[-1]}" if len(named) > 1 else None
                bundled = self.maker.add("group", f"{len(members):,} {_WORDS[kind]}", name=names,
                                         count=len(members), group=group)  # fmt: skip
                for item in members:
                    item.group = bundled.id
