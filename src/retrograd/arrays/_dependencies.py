"""What elements depend on, noted as a graph of steps, and read off it in several ways.

While a function is followed, only steps are noted: elements taken from others, elements that depend
on what two others do, results of a linear map. Afterwards the steps are carried out on sparse
matrices, for the pattern of a Jacobian (``pattern``), or on labels and sets of bits, which is much
faster, to find out whether a function works row by row (``Blocks``).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.arrays import _patterns as patterns
from retrograd.arrays._patterns import Pattern

_numbers = itertools.count()


class Step:
    """What each of some elements depends on, by what others depend on."""

    __slots__ = ("data", "inputs", "kind", "number", "size")

    def __init__(self, kind: str, inputs: tuple[Step, ...], data: Any, size: int) -> None:
        self.number = next(_numbers)  # inputs have lower ones
        self.kind = kind
        self.inputs = inputs
        self.data = data
        self.size = size  # the number of elements


def leaf(index: int, size: int) -> Step:
    """Variables, each of which depends on itself. ``index`` is their number among all leaves."""
    return Step("leaf", (), index, size)


def nothing(size: int) -> Step:
    """Elements that depend on nothing."""
    return Step("nothing", (), None, size)


def taken(step: Step, rows: Any) -> Step:
    """Some of the elements; -1 for one that depends on nothing."""
    return Step("taken", (step,), np.asarray(rows), len(rows))


def union(steps: Sequence[Step]) -> Step:
    """Elements that depend on all that the corresponding elements of several steps do."""
    different = tuple({id(step): step for step in steps}.values())
    return different[0] if len(different) == 1 else Step("union", different, None, steps[0].size)


def through(relation: Pattern, step: Step) -> Step:
    """The results of a linear map, by which elements each depends on."""
    return Step("through", (step,), relation, relation.shape[0])


def all_of(step: Step, size: int) -> Step:
    """Elements that depend on everything that any element does."""
    return taken(through(patterns.full(1, step.size), step), np.zeros(size, np.int64))


def written(step: Step, rows: Any, new: Step) -> Step:
    """Elements of which some are replaced."""
    order = np.arange(step.size)
    order[np.asarray(rows)] = step.size + np.arange(len(rows))
    return taken(Step("stacked", (step, new), None, step.size + new.size), order)


def needed(step: Step) -> list[Step]:
    """A step and all that it needs, in the order in which they can be carried out."""
    found = {step.number: step}
    to_visit = [step]
    while to_visit:
        for other in to_visit.pop().inputs:
            if other.number not in found:
                found[other.number] = other
                to_visit.append(other)
    return [found[number] for number in sorted(found)]


def carried_out(step: Step, kinds: dict[str, Callable[..., Any]]) -> Any:
    """The result of a step. ``kinds`` has, for each kind of step, a function of the step and the
    results of its inputs. A result is freed when nobody needs it any more."""
    order = needed(step)
    users: dict[int, int] = {}
    for each in order:
        for other in each.inputs:
            users[other.number] = users.get(other.number, 0) + 1
    found: dict[int, Any] = {}
    for each in order:
        inputs = []
        for other in each.inputs:
            users[other.number] -= 1
            done = users[other.number] == 0
            inputs.append(found.pop(other.number) if done else found[other.number])
        found[each.number] = kinds[each.kind](each, *inputs)
    return found[step.number]


def pattern(step: Step, leaves: Sequence[Pattern], columns: int) -> Pattern:
    """The pattern of what elements depend on, by that of each leaf."""
    return carried_out(step, {
        "leaf": lambda each: leaves[each.data],
        "nothing": lambda each: patterns.empty(each.size, columns),
        "taken": lambda each, x: patterns.taken(x, each.data),
        "union": lambda each, *xs: patterns.union(xs),
        "stacked": lambda each, *xs: patterns.stacked(xs),
        "through": lambda each, x: patterns.through(each.data, x),
    })  # fmt: skip


# -- row by row ----------------------------------------------------------------------------------

MOST_ROUNDS = 64  # of uniting labels; grids and rows take one or two
MOST_BITS = 64  # variables of one block


class NoBlocks(Exception):  # noqa: N818 - an answer, not a failure
    """The elements do not fall into small blocks."""


class Labels:
    """The connected parts of a graph of variables, by labels that are united."""

    def __init__(self, count: int) -> None:
        self.parent = np.arange(count, dtype=np.int32)
        self._united: dict[tuple[int, int], Any] = {}  # by identity, with what keeps it alive

    def roots(self, x: Any) -> Any:
        start, x = x, self.parent[x]
        while not ((above := self.parent[x]) == x).all():
            x = above
            self.parent[start] = x
        return x

    def unite(self, a: Any, b: Any) -> None:
        """Put the labels ``a`` in one part with the labels ``b``."""
        pair = (id(a), id(b))
        if pair in self._united:
            return
        self._united[pair] = (a, b)
        for _ in range(MOST_ROUNDS):
            a, b = self.roots(a), self.roots(b)
            apart = a != b
            if not apart.any():
                return
            a, b = a[apart], b[apart]
            self.parent[np.maximum(a, b)] = np.minimum(a, b)
        raise NoBlocks


def labelled(step: Step, leaves: Sequence[Any]) -> tuple[Any, Labels]:
    """A label for each element, -1 if it depends on nothing, and which labels belong together: any
    two variables that some element depends on do. ``leaves`` has, for each leaf, the label of each
    of its variables, or -1."""
    labels = Labels(1 + max([int(x.max(initial=-1)) for x in leaves], default=-1))

    def union(each: Step, result: Any, *others: Any) -> Any:
        for other in others:
            some, more = result >= 0, other >= 0
            if some.all() and more.all():
                labels.unite(result, other)
                continue
            both = some & more
            labels.unite(result[both], other[both])
            result = np.where(some, result, other)
        return result

    found = carried_out(step, {
        "leaf": lambda each: leaves[each.data],
        "nothing": lambda each: np.full(each.size, -1, np.int32),
        "taken": lambda each, x: np.append(x, np.int32(-1))[each.data],  # -1 finds the last one
        "union": union,
        "stacked": lambda each, *xs: np.concatenate(xs),
        "through": lambda each, x: _first_of_rows(each.data, x, labels),
    })  # fmt: skip
    return found, labels


def _first_of_rows(relation: Pattern, x: Any, labels: Labels) -> Any:
    rows = np.repeat(np.arange(relation.shape[0]), np.diff(relation.indptr))
    own = x[relation.indices]
    rows, own = rows[own >= 0], own[own >= 0]
    result = np.full(relation.shape[0], -1, np.int32)
    result[rows[::-1]] = own[::-1]
    labels.unite(own, result[rows])
    return result


def bits(step: Step, leaves: Sequence[Any]) -> Any:
    """For each element the set of variables that it depends on, as the bits of a number.
    ``leaves`` has, for each leaf, the set of each of its variables."""

    def through(each: Step, x: Any) -> Any:
        result = np.zeros(each.size, np.uint64)
        if each.data.nnz:
            filled = np.flatnonzero(np.diff(each.data.indptr))
            starts = each.data.indptr[filled]
            result[filled] = np.bitwise_or.reduceat(x[each.data.indices], starts)
        return result

    return carried_out(step, {
        "leaf": lambda each: leaves[each.data],
        "nothing": lambda each: np.zeros(each.size, np.uint64),
        "taken": lambda each, x: np.append(x, np.uint64(0))[each.data],
        "union": lambda each, *xs: functools.reduce(np.bitwise_or, xs),
        "stacked": lambda each, *xs: np.concatenate(xs),
        "through": through,
    })  # fmt: skip


class Blocks:
    """Results in groups that have no variable in common, so that one product with the transposed
    Jacobian gives a row of each group.

    ``sources`` has, for each leaf, which input each of its variables is a copy of, or -1 for a
    constant; ``alike`` numbers the leaves, with one number for those that hold the same values.
    Leaves that are alike become one variable, unless that would join groups.
    """

    def __init__(
        self, step: Step, sources: Sequence[Any], alike: Sequence[int], columns: int
    ) -> None:
        sizes = [len(source) for source in sources]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        numbers = [
            np.where(source < 0, -1, start + np.arange(len(source))).astype(np.int32)
            for source, start in zip(sources, starts[:-1], strict=True)
        ]
        group, labels = labelled(step, numbers)
        roots = labels.roots(np.arange(starts[-1]))
        self.variable_of = _variables(numbers, roots, alike)
        kept = sorted(set(self.variable_of))
        self.variables = [i for i in kept if sizes[i]]
        # The variables that are left, in their order, with the group and the input of each.
        chosen = np.concatenate([numbers[i] for i in kept]) if kept else np.zeros(0, np.int64)
        source = np.concatenate([sources[i] for i in kept]) if kept else np.zeros(0, np.int64)
        self.count = len(chosen)
        depends = np.flatnonzero(chosen >= 0)
        own = roots[chosen[depends]]
        order = np.argsort(own, kind="stable")
        ranks, first_of = _ranks(own, order)
        if len(ranks) and int(ranks.max()) >= MOST_BITS:
            raise NoBlocks
        sets = np.zeros(self.count, np.uint64)
        sets[depends] = np.uint64(1) << ranks.astype(np.uint64)
        ends = np.cumsum([sizes[i] for i in kept])
        by_leaf = dict(zip(kept, np.split(sets, ends[:-1]) if kept else [], strict=True))
        results = bits(step, [by_leaf[i] for i in self.variable_of])
        self._entries(step.size, group, labels, results, depends[order], first_of, source, columns)

    def _entries(
        self, rows: int, group: Any, labels: Labels, results: Any, members: Any,
        first_of: dict[str, Any], source: Any, columns: int,
    ) -> None:  # fmt: skip
        there = np.flatnonzero((group >= 0) & (results != 0))
        own = labels.roots(group[there])
        place = np.searchsorted(first_of["groups"], own)
        start = first_of["starts"][place]
        ranks, _ = _ranks(own, np.argsort(own, kind="stable"))
        self.row_colors = np.full(rows, -1)
        self.row_colors[there] = ranks
        sets = results[there]
        found_rows, found_variables = [], []
        for bit in range(int(sets.max(initial=0)).bit_length()):
            has = (sets >> np.uint64(bit)) & np.uint64(1) != 0
            found_rows.append(there[has])
            found_variables.append(members[start[has] + bit])
        if not found_rows:
            found_rows, found_variables = [there], [there]
        row, variable = np.concatenate(found_rows), np.concatenate(found_variables)
        key = row * columns + source[variable]
        order = np.argsort(key, kind="stable")
        key = key[order]
        new = np.ones(len(key), bool)
        new[1:] = key[1:] != key[:-1]
        entry = order[new]
        self.pattern = patterns.from_sorted(row[entry], source[variable[entry]], (rows, columns))
        self.repeated = None if new.all() else np.cumsum(new) - 1
        self.index = (self.row_colors[row] * self.count + variable)[order]

    @property
    def color_count(self) -> int:
        return int(self.row_colors.max(initial=-1)) + 1

    def values(self, gradients: Any) -> Any:
        """The values of all entries of the pattern, in order, from the gradients by all variables,
        those of one colour after those of the other."""
        result = gradients[self.index]
        if self.repeated is None:
            return result
        summed = np.bincount(self.repeated, result, self.pattern.nnz)
        return summed.astype(result.dtype, copy=False)


def _ranks(groups: Any, order: Any) -> tuple[Any, dict[str, Any]]:
    """The position of each element among those of its group, and where each group begins if they
    are sorted by ``order``."""
    ordered = groups[order]
    new = np.ones(len(ordered), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(new)
    ranks = np.empty(len(ordered), np.int64)
    ranks[order] = np.arange(len(ordered)) - starts[np.cumsum(new) - 1] if len(ordered) else 0
    return ranks, {"groups": ordered[new], "starts": starts}


def _variables(numbers: Sequence[Any], roots: Any, alike: Sequence[int]) -> list[int]:
    """For each leaf the first one that holds the same values and belongs to the same groups."""
    results: list[int] = []
    seen: dict[int, list[int]] = {}
    for i, (own, number) in enumerate(zip(numbers, alike, strict=True)):
        depends = own >= 0
        for j in seen.setdefault(number, []):
            if (roots[own[depends]] == roots[numbers[j][depends]]).all():
                results.append(j)
                break
        else:
            seen[number].append(i)
            results.append(i)
    return results
