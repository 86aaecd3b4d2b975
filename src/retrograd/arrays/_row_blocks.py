"""Functions that work row by row: results in groups that have no variable in common, found from the
steps by which elements depend on others (``arrays/_dependencies.py``)."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from retrograd.arrays import _patterns as patterns
from retrograd.arrays._dependencies import Step, bits, carried_out, single_bits, taken_or_none
from retrograd.arrays._patterns import Pattern

MOST_ROUNDS = 64  # of uniting labels; grids and rows take one or two
MOST_BITS = 64  # variables of one block
MOST_DIFFERENT = 16  # sets of variables that are gone through one by one


class NoBlocks(Exception):  # noqa: N818 - an answer, not a failure
    """The elements do not fall into small blocks."""


class Leaves(NamedTuple):
    """The variables that a function was given in place of copies of its inputs. For each leaf:

    ``sources`` has which input each variable is a copy of, or -1 for a constant; ``alike`` a
    number, the same for leaves that hold the same values; ``shapes`` its shape. Leaves that nothing
    depends on are empty.
    """

    sources: Sequence[Any]
    alike: Sequence[int]
    shapes: Sequence[tuple[int, ...]]


class Groups(NamedTuple):
    """Results in groups that have no variable in common. ``variable_of``: for each leaf, the leaf
    whose variables are used for it. ``results``: those that depend on something; for each of them
    the ``group``, and the ``sets`` of variables, as bits. ``variable`` gives the variables that a
    bit stands for, by some groups."""

    variable_of: list[int]
    results: Any
    group: Any
    sets: Any
    variable: Callable[[Any, int], Any]


class Blocks:
    """Results in groups that have no variable in common, so that one product with the transposed
    Jacobian gives a row of each group. Leaves that are alike become one variable, unless that would
    join groups."""

    def __init__(self, step: Step, leaves: Leaves, columns: int) -> None:
        try:
            groups = by_rows(step, leaves)
        except NoBlocks:
            groups = by_labels(step, leaves)
        kept = sorted(set(groups.variable_of))
        self.variable_of = groups.variable_of
        self.variables = [i for i in kept if len(leaves.sources[i])]
        source = np.concatenate([*[leaves.sources[i] for i in kept], np.zeros(0, np.int64)])
        self.count = len(source)  # of variables
        self.row_colors = np.full(step.size, -1)
        ranks, _ = _ranks(groups.group)
        self.row_colors[groups.results] = ranks
        self._entries(groups, ranks, source, (step.size, columns))

    def _entries(self, groups: Groups, ranks: Any, source: Any, shape: tuple[int, int]) -> None:
        """Find the entries of the Jacobian, and where each is among all gradients."""
        sets = groups.sets
        lengths = np.bitwise_count(sets).astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        variable = np.empty(int(lengths.sum()), np.int64)
        for has, bit, before in _members(sets):
            variable[starts[has] + before] = groups.variable(groups.group[has], bit)
        column = source[variable]
        self.index = np.repeat(ranks * self.count, lengths) + variable
        self.repeated = None
        row = np.repeat(groups.results, lengths)
        key = row * shape[1] + column
        if (key[1:] <= key[:-1]).any():
            order = _sorting(key, lengths)
            key, row, column = key[order], row[order], column[order]
            self.index = self.index[order]
            new = np.concatenate([np.ones(min(len(key), 1), bool), key[1:] != key[:-1]])
            if not new.all():
                self.repeated = np.cumsum(new) - 1
                row, column = row[new], column[new]
        self.pattern = patterns.from_sorted(row, column, shape)

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


def _members(sets: Any) -> Iterator[tuple[Any, int, Any]]:
    """The members of all sets, one number at a time: which sets have it, which number, and how many
    lower ones each of them has."""
    different = np.unique(sets)
    if len(different) <= MOST_DIFFERENT:
        for value in different.tolist():
            has = np.flatnonzero(sets == np.uint64(value))
            members = [bit for bit in range(MOST_BITS) if value >> bit & 1]
            yield from ((has, bit, before) for before, bit in enumerate(members))
        return
    every = int(np.bitwise_or.reduce(sets))
    for bit in [bit for bit in range(MOST_BITS) if every >> bit & 1]:
        has = np.flatnonzero(sets & np.uint64(1 << bit))
        yield has, bit, np.bitwise_count(sets[has] & np.uint64((1 << bit) - 1))


def _sorting(key: Any, lengths: Any) -> Any:
    """The order that sorts keys, which are in order from row to row."""
    length = int(lengths[0])
    if (lengths != length).any():
        return np.argsort(key, kind="stable")
    order = np.argsort(key.reshape(-1, length), axis=1, kind="stable")
    order += np.arange(0, len(key), length)[:, None]
    return order.reshape(-1)


def by_rows(step: Step, leaves: Leaves) -> Groups:
    """The groups, if the function works on each row along the first dimensions of its leaves alone.
    The variables of a row are the bits of a word, with the same meaning in every row, so nothing
    needs to be united or sorted. NoBlocks if it does something else."""
    used = [i for i, source in enumerate(leaves.sources) if len(source)]
    rows = patterns.size_of(_shared([leaves.shapes[i] for i in used]))
    widths = [len(source) // max(rows, 1) for source in leaves.sources]
    if rows < 2 or sum(widths) > MOST_BITS:
        raise NoBlocks
    # Bits in the order of the inputs that they stand for in the first row.
    members = [(i, j) for i in used for j in range(widths[i])]
    members.sort(key=lambda member: int(leaves.sources[member[0]][member[1]]))
    bit_of = {member: np.uint64(bit) for bit, member in enumerate(members)}
    own = [
        np.where(source.reshape(rows, -1) < 0, 0, [1 << bit_of[i, j] for j in range(widths[i])])
        for i, source in enumerate(leaves.sources)
    ]
    labels, sets = _row_by_row(step, [x.astype(np.uint64).reshape(-1) for x in own], rows)
    results = np.flatnonzero(sets)
    labels, sets = labels[results], sets[results]
    parts, count = _parts(sets, len(members))
    variable_of = list(range(len(widths)))
    first: dict[Any, int] = {}
    for i in used:  # leaves that are alike become one, if their variables are in the same parts
        in_parts = tuple(int(parts[bit_of[i, j]]) for j in range(widths[i]))
        variable_of[i] = first.setdefault((leaves.alike[i], in_parts), i)
    for (i, j), bit in bit_of.items():
        to = bit_of[variable_of[i], j]
        if to != bit:
            sets |= (sets >> bit & 1) << to
            sets &= ~(np.uint64(1) << bit)
    kept = sorted(set(variable_of))
    starts = np.cumsum([0, *[len(leaves.sources[i]) for i in kept]])
    lowest = np.bitwise_count((sets & -sets) - np.uint64(1))

    def variable(group: Any, bit: int) -> Any:
        i, j = members[bit]
        return starts[kept.index(i)] + j + group // count * widths[i]

    group = labels.astype(np.int64) * count + parts[lowest]
    return Groups(variable_of, results, group, sets, variable)


def _shared(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The first dimensions, as far as all shapes have them in common."""
    sizes = itertools.takewhile(lambda own: len(set(own)) == 1, zip(*shapes, strict=False))
    return tuple(own[0] for own in sizes)


def _row_by_row(step: Step, leaves: Sequence[Any], rows: int) -> tuple[Any, Any]:
    """For each element the row that it belongs to, and the set of variables of that row that it
    depends on. NoBlocks if one depends on two rows."""

    @functools.cache
    def regular(width: int) -> Any:
        return np.repeat(np.arange(rows, dtype=np.int32), width)

    def known(labels: Any, sets: Any) -> tuple[Any, Any]:
        """The same, with labels that are one object for all values that have them."""
        width, rest = divmod(len(labels), rows)
        if rest or ((labels != regular(width)) & (sets != 0)).any():
            return labels, sets
        return regular(width), sets

    def union(_: Step, first: Any, *others: Any) -> Any:
        labels, sets = first
        for more, other in others:
            if more is not labels:
                own = sets != 0
                if (own & (other != 0) & (labels != more)).any():
                    raise NoBlocks
                labels = np.where(own, labels, more)
            sets = sets | other
        return (labels, sets) if labels is first[0] else known(labels, sets)

    def through(each: Step, x: Any) -> Any:
        labels, sets = (part[each.data.indices] for part in x)
        least = patterns.by_row(np.minimum, each.data, np.where(sets == 0, rows, labels), rows)
        most = patterns.by_row(np.maximum, each.data, np.where(sets == 0, -1, labels), -1)
        if (least < most).any():
            raise NoBlocks
        return known(most, patterns.by_row(np.bitwise_or, each.data, sets, 0))

    labels, sets = carried_out(step, {
        "leaf": lambda each: known(regular(each.size // rows), leaves[each.data]),
        "nothing": lambda each: known(np.zeros(each.size, np.int32),
                                      np.zeros(each.size, np.uint64)),
        "taken": lambda each, x: known(*[taken_or_none(part, each.data) for part in x]),
        "union": union,
        "stacked": lambda each, *xs: known(*map(np.concatenate, zip(*xs, strict=True))),
        "through": through,
    })  # fmt: skip
    return labels, sets


def _parts(sets: Any, count: int) -> tuple[Any, int]:
    """For each bit the part that it is in, and how many parts there are: bits that are together in
    any set are in one part."""
    joined = [1 << bit for bit in range(count)]
    for value in np.unique(sets).tolist():
        members = [bit for bit in range(count) if value >> bit & 1]
        together = functools.reduce(operator.or_, [joined[bit] for bit in members])
        for bit in range(count):
            if together >> bit & 1:
                joined[bit] = together
    different = sorted(set(joined))
    return np.array([different.index(x) for x in joined], np.int64), max(len(different), 1)


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

    output_labels = carried_out(step, {
        "leaf": lambda each: leaves[each.data],
        "nothing": lambda each: np.full(each.size, -1, np.int32),
        "taken": lambda each, x: np.append(x, np.int32(-1))[each.data],  # -1 finds the last one
        "union": union,
        "stacked": lambda each, *xs: np.concatenate(xs),
        "through": lambda each, x: _first_of_rows(each.data, x, labels),
    })  # fmt: skip
    return output_labels, labels


def _first_of_rows(relation: Pattern, x: Any, labels: Labels) -> Any:
    rows = np.repeat(np.arange(relation.shape[0]), np.diff(relation.indptr))
    own = x[relation.indices]
    rows, own = rows[own >= 0], own[own >= 0]
    result = np.full(relation.shape[0], -1, np.int32)
    result[rows[::-1]] = own[::-1]
    labels.unite(own, result[rows])
    return result


def by_labels(step: Step, leaves: Leaves) -> Groups:
    """The groups of any function: those of variables that some result depends on together."""
    sizes = [len(source) for source in leaves.sources]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    numbers = [
        np.where(source < 0, -1, start + np.arange(len(source))).astype(np.int32)
        for source, start in zip(leaves.sources, starts[:-1], strict=True)
    ]
    label, labels = labelled(step, numbers)
    roots = labels.roots(np.arange(starts[-1]))
    variable_of = _variables(numbers, roots, leaves.alike)
    kept = sorted(set(variable_of))
    # The variables that are left, in their order, and the group of each.
    chosen = np.concatenate([*[numbers[i] for i in kept], np.zeros(0, np.int64)])
    depends = np.flatnonzero(chosen >= 0)
    ranks, first_of = _ranks(roots[chosen[depends]])
    if int(ranks.max(initial=0)) >= MOST_BITS:
        raise NoBlocks
    numbered = np.full(len(chosen), -1)
    numbered[depends] = ranks
    ends = np.cumsum([sizes[i] for i in kept])
    of_leaf = dict(zip(kept, np.split(numbered, ends[:-1]) if kept else [], strict=True))
    sets = bits(step, lambda i: single_bits(of_leaf[variable_of[i]], 1), 1)[:, 0]
    results = np.flatnonzero(sets)
    group = np.searchsorted(first_of.groups, labels.roots(label[results]))
    members = depends[first_of.order]
    return Groups(variable_of, results, group, sets[results],
                  lambda group, bit: members[first_of.starts[group] + bit])  # fmt: skip


class Sorted(NamedTuple):
    """An order in which the elements of a group are side by side, the groups in that order, and
    where each begins."""

    order: Any
    groups: Any
    starts: Any


def _ranks(groups: Any) -> tuple[Any, Sorted]:
    """The position of each element among those of its group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    new = np.ones(len(ordered), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(new)
    ranks = np.empty(len(ordered), np.int64)
    ranks[order] = np.arange(len(ordered)) - starts[np.cumsum(new) - 1] if len(ordered) else 0
    return ranks, Sorted(order, ordered[new], starts)


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
