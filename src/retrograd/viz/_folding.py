"""Folding: a long list of operations as a short list of groups that can be opened.

Every group is an interval of the operations in the order in which they were recorded. A path in the
graph only leads to operations recorded later, so no path leaves a group and comes back: however
much is folded, the picture has no cycles. Groups are calls of Modules where these are known, runs
of the same structure ("×1000") and, if nothing else helps, intervals of equal length.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class Group:
    """Operations ``low`` to ``high`` as one."""

    low: int
    high: int
    children: list[Group | int] = field(default_factory=list)
    module: str = ""
    kind: str = ""  # of the module
    times: int = 1  # how often its structure is repeated
    abridged: bool = False  # whether only the first repetition is among the children
    part: tuple[int, int, int] | None = None  # first and last repetition, and how many there are
    ends: tuple[str, str] | None = None  # the modules of the first and the last repetition

    def __len__(self) -> int:
        return self.high - self.low


@dataclass
class Operations:
    """The operations in the order in which they were recorded, as folding needs them."""

    strict: Sequence[int]  # equal numbers: the same operation with the same inputs
    loose: Sequence[int]  # equal numbers: the same operation
    modules: Sequence[str]
    kinds: Sequence[tuple[str, ...]]  # class names along the path

    def __len__(self) -> int:
        return len(self.strict)


def fold(operations: Operations, limit: int, detail: int, keep_modules: bool = False) -> Group:
    """All operations as one group of at most ``limit`` children, and those likewise. With more than
    ``detail`` operations, of a repeated structure only the first repetition is kept. A small group
    is shown by its contents, unless it is a Module and these are to be kept."""
    top, groups = by_module(operations)
    folder = _Folder(operations, max(limit, 2), len(operations) > detail, keep_modules)
    for group in reversed(groups):  # the inner ones first
        folder.shorten(group)
    return top


def by_module(operations: Operations) -> tuple[Group, list[Group]]:
    """The calls of Modules as nested groups, and a list of all, outer ones first."""
    top = Group(0, len(operations))
    groups, open_groups, path = [top], [top], ""
    for i, module in enumerate(operations.modules):
        if module != path:
            path = module
            parts = module.split(".") if module else []
            depth = 0
            while depth < len(parts) and depth + 1 < len(open_groups):
                if open_groups[depth + 1].module != ".".join(parts[: depth + 1]):
                    break
                depth += 1
            for closed in open_groups[depth + 1 :]:
                closed.high = i
            del open_groups[depth + 1 :]
            kinds = operations.kinds[i]
            for k in range(depth, len(parts)):
                kind = kinds[k] if k < len(kinds) else ""
                inner = Group(i, i, module=".".join(parts[: k + 1]), kind=kind)
                open_groups[-1].children.append(inner)
                open_groups.append(inner)
                groups.append(inner)
        open_groups[-1].children.append(i)
    for closed in open_groups[1:]:
        closed.high = len(operations)
    return top, groups


class _Folder:
    """Shortens the lists of children of groups."""

    def __init__(
        self, operations: Operations, limit: int, abridged: bool, keep_modules: bool
    ) -> None:
        self.operations = operations
        self.limit = limit
        self.abridged = abridged
        self.keep_modules = keep_modules
        self.numbers: dict[tuple[int, ...], int] = {}

    def shorten(self, group: Group) -> None:
        """Reduce a group to at most ``limit`` children. (Recursive for repeated pieces, each of
        which is at most half as long.)"""
        if len(group.children) <= self.limit and not any(
            isinstance(child, Group) for child in group.children
        ):
            return
        self.dissolve(group)
        for _ in range(3):  # runs, runs of runs, and once more
            before = len(group.children)
            if before <= self.limit:
                break
            group.children = self.runs(group.children)
            if len(group.children) == before:
                break
        self.dissolve(group)  # there may be room for them now
        group.children = self.in_parts(group.children)

    def dissolve(self, group: Group) -> None:
        """Show the contents of small groups directly, as long as there is room: of all groups of
        the same structure, or of none."""
        alike: dict[tuple[int, int], list[Group]] = defaultdict(list)
        for child in group.children:
            if not isinstance(child, Group) or child.times > 1 or child.part is not None:
                continue
            if not (self.keep_modules and child.module and len(child) > 1):
                alike[len(child.children), self.strict(child)].append(child)
        total = len(group.children)
        gone: set[int] = set()
        for (size, _), members in sorted(alike.items(), key=lambda entry: entry[0]):
            added = (size - 1) * len(members)
            if size > 1 and total + added > self.limit:
                break
            total += added
            gone |= {id(m) for m in members}
        if gone:
            group.children = [
                inner
                for child in group.children
                for inner in (
                    child.children if isinstance(child, Group) and id(child) in gone else [child]
                )
            ]

    # -- runs of the same structure ----------------------------------------------------------

    def strict(self, child: Group | int) -> int:
        return self._signature(child, self.operations.strict)

    def loose(self, child: Group | int) -> int:
        return self._signature(child, self.operations.loose)

    def _signature(self, child: Group | int, of: Sequence[int]) -> int:
        if isinstance(child, int):
            return of[child]
        key = (-1, id(of), *of[child.low : child.high])
        return self.numbers.setdefault(key, -1 - len(self.numbers))

    def runs(self, children: list[Group | int]) -> list[Group | int]:
        """The list with each run of a repeated structure as one group."""
        strict = list(map(self.strict, children))
        loose = list(map(self.loose, children))
        result: dict[int, tuple[int, int]] = {}  # start: period, times
        taken = bytearray(len(children) + 1)
        # The longest first, so that an inner loop does not break up the outer one.
        for start, period, times in sorted(repetitions(strict), key=lambda r: -r[1] * r[2]):
            end = start + period * times
            if taken[start] or taken[end - 1]:
                continue
            # In the first repetition the inputs come from elsewhere: there, and at the end, it is
            # enough that the operations are the same.
            while start and not taken[start - 1] and loose[start - 1] == loose[start - 1 + period]:
                start -= 1
            while end < len(loose) and not taken[end] and loose[end] == loose[end - period]:
                end += 1
            times = (end - start) // period
            if period * times >= 3:
                result[start] = (period, times)
                taken[start : start + period * times] = b"\1" * (period * times)
        folded: list[Group | int] = []
        done = 0
        for start, (period, times) in sorted(result.items()):
            end = start + period * times
            folded += children[done:start]
            folded.append(self.run(children[start:end], period, times))
            done = end
        return [*folded, *children[done:]]

    def run(self, children: list[Group | int], period: int, times: int) -> Group:
        low, high = _low(children[0]), _high(children[-1])
        group = Group(low, high, times=times, abridged=self.abridged)
        first, last = children[0], children[-1]
        if period == 1 and isinstance(first, Group) and isinstance(last, Group):
            group.ends, group.kind = (first.module, last.module), first.kind
        if self.abridged:
            group.children = children[:period]
            self.shorten(group)
        elif len(children) <= self.limit:
            group.children = children
        else:
            together = max(self.limit // period, 1)  # repetitions in one group
            each: list[Group | int] = []
            for k in range(0, times, together):
                part = children[k * period : (k + together) * period]
                inner = Group(_low(part[0]), _high(part[-1]), part)
                self.shorten(inner)
                inner.part = (k + 1, min(k + together, times), times)
                each.append(inner)
            group.children = self.in_parts(each)
        return group

    def in_parts(self, children: list[Group | int]) -> list[Group | int]:
        """At most ``limit`` groups of as many children, and so on."""
        while len(children) > self.limit:
            parts = [children[k : k + self.limit] for k in range(0, len(children), self.limit)]
            wrapped: list[Group | int] = []
            for part in parts:
                group = Group(_low(part[0]), _high(part[-1]), part)
                ends = [c.part for c in (part[0], part[-1]) if isinstance(c, Group) and c.part]
                if len(ends) == 2:  # parts of the same repetition
                    group.part = (ends[0][0], ends[1][1], ends[0][2])
                wrapped.append(group)
            children = wrapped
        return children


def _low(child: Group | int) -> int:
    return child if isinstance(child, int) else child.low


def _high(child: Group | int) -> int:
    return child + 1 if isinstance(child, int) else child.high


def repetitions(symbols: list[int], candidates: int = 16) -> Iterator[tuple[int, int, int]]:
    """Runs in which a piece is repeated at least twice: start, length of the piece, how often.

    >>> list(repetitions([7, 1, 2, 1, 2, 1, 2, 9]))
    [(1, 2, 3)]
    >>> list(repetitions([5] * 1000))
    [(0, 1, 1000)]
    """
    positions: dict[int, list[int]] = defaultdict(list)
    for i, symbol in enumerate(symbols):
        positions[symbol].append(i)
    seen: Counter[int] = Counter()
    at, total = 0, len(symbols)
    while at < total:
        symbol = symbols[at]
        same = positions[symbol]
        k = seen[symbol]
        while same[k] < at:
            k += 1
        seen[symbol] = k
        best, best_period = 0, 0
        for other in same[k + 1 : k + 1 + candidates]:
            period = other - at
            if at + 2 * period > total:
                break
            if period * 2 <= best or not _may_match(symbols, at, period):
                continue
            times = 1 + matching(symbols, at, period) // period
            if times >= 2 and times * period > best:
                best, best_period = times * period, period
        if best:
            yield at, best_period, best // best_period
            at += best
        else:
            at += 1


def _may_match(symbols: list[int], start: int, period: int) -> bool:
    """Whether a few elements equal those a period later; most candidates fail here."""
    return all(symbols[start + k] == symbols[start + k + period] for k in (period - 1, period // 2))


def matching(symbols: list[int], start: int, period: int) -> int:
    """For how many elements from ``start`` on a list equals itself ``period`` later."""
    count, step = 0, max(period, 16)
    while step:
        low = start + count
        left, right = symbols[low : low + step], symbols[low + period : low + period + step]
        if len(right) == step and left == right:
            count += step
            step *= 2
        elif step > 1:
            step //= 2
            # From here on, steps only get smaller: the rest is shorter than the last step.
            while step:
                low = start + count
                right = symbols[low + period : low + period + step]
                if len(right) == step and symbols[low : low + step] == right:
                    count += step
                step //= 2
            return count
        else:
            return count
    return count
