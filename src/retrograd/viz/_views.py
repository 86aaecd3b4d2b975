"""What each picture of a folded graph shows: the picture of the whole graph, and those of groups.
All are computed in one traversal of the edges; there may be a thousand pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrograd.viz._model import Item

Pair = tuple[int, int]


class Views:
    """For each group, and for None, the whole: the items right inside it, and the edges between
    those and with what lies outside.

    A folded item is represented by its group. What is outside a group is represented by the
    outermost group that does not contain both ends of the edge."""

    def __init__(self, items: Sequence[Item], edges: Sequence[Pair]) -> None:
        self.inside: dict[int | None, list[int]] = defaultdict(list)
        self.pairs: dict[int | None, list[Pair]] = defaultdict(list)
        for item in items:
            self.inside[item.group].append(item.id)
        self._items = items
        self._ancestors: dict[int | None, list[int | None]] = {None: [None]}
        once: set[tuple[int | None, int, int]] = set()
        for edge in edges:
            source, target = edge
            for group, start, end in self._showing(source, target):
                folded = (start, end) != edge  # one for all that are folded
                if not folded or (group, start, end) not in once:
                    self.pairs[group].append((start, end))
                    if folded:
                        once.add((group, start, end))

    def opened(self, edges: Sequence[Pair], open_: frozenset[int]) -> tuple[list[int], list[Pair]]:
        """The items in the picture of the whole if some groups in it are open, and the edges."""
        shown = [n for group in (None, *sorted(open_)) for n in self.inside[group]]
        pairs: list[Pair] = []
        once: set[Pair] = set()
        for edge in edges:
            source, target = (self._outermost(end, open_) for end in edge)
            folded = (source, target) != edge
            if source != target and not (folded and (source, target) in once):
                pairs.append((source, target))
                if folded:
                    once.add((source, target))
        return sorted(n for n in shown if n not in open_), pairs

    def _outermost(self, number: int, open_: frozenset[int]) -> int:
        """The outermost closed group around an item, or the item."""
        closed = [g for g in self.around(number) if g is not None and g not in open_]
        return closed[0] if closed else number

    def _showing(self, source: int, target: int) -> list[tuple[int | None, int, int]]:
        """The pictures that an edge is in, and between which boxes."""
        up, down = [*self.around(source), source], [*self.around(target), target]
        shared = 1
        while shared < min(len(up), len(down)) and up[shared] == down[shared]:
            shared += 1
        if shared == len(up) or shared == len(down):
            return []  # from a group to something in it
        start, end = up[shared], down[shared]
        result = [(up[shared - 1], start, end)]
        result += [(up[k], up[k + 1], end) for k in range(shared, len(up) - 1)]
        result += [(down[k], start, down[k + 1]) for k in range(shared, len(down) - 1)]
        return result  # type: ignore[return-value]  # only the first of a way is None

    def around(self, number: int) -> list[int | None]:
        """The groups around an item, outermost first, beginning with the whole."""
        group = self._items[number].group
        known = self._ancestors.get(group)
        if known is None:
            assert group is not None
            known = self._ancestors[group] = [*self.around(group), group]
        return known
