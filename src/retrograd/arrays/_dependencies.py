"""Dependencies of elements on inputs, recorded as a graph of steps.

While a function is followed, only steps are noted: elements taken from others, elements that depend
on what two others do, results of a linear map. Afterwards the steps are carried out on sparse
matrices or on sets of bits, for the pattern of a Jacobian (``pattern``). Whether a function works
row by row is read off them, too (``arrays/_row_blocks.py``).
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


def stacked(steps: Sequence[Step]) -> Step:
    """The elements of several steps, one after the other."""
    size = sum(step.size for step in steps)
    return steps[0] if len(steps) == 1 else Step("stacked", tuple(steps), None, size)


def written(step: Step, rows: Any, new: Step) -> Step:
    """Elements of which some are replaced."""
    order = np.arange(step.size)
    order[np.asarray(rows)] = step.size + np.arange(len(rows))
    return taken(stacked([step, new]), order)


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
    results: dict[int, Any] = {}
    for each in order:
        inputs = []
        for other in each.inputs:
            users[other.number] -= 1
            done = users[other.number] == 0
            inputs.append(results.pop(other.number) if done else results[other.number])
        results[each.number] = kinds[each.kind](each, *inputs)
    return results[step.number]


def pattern(step: Step, sources: Sequence[Any], columns: int) -> Pattern:
    """The pattern of what elements depend on. ``sources`` has, for each leaf, which column each of
    its variables is, or -1 for none."""
    order = needed(step)
    used = np.zeros(columns + 1, bool)
    for each in order:
        if each.kind == "leaf":
            used[sources[each.data]] = True  # -1 is the last one
    kept = np.flatnonzero(used[:-1])
    words = max(-(-len(kept) // 64), 1)
    most = max(each.size for each in order)
    if len(kept) <= patterns.MOST_COLUMNS and words * most <= patterns.MOST_WORDS:
        number = np.full(columns + 1, -1)
        number[kept] = np.arange(len(kept))
        sets = bits(step, lambda leaf: single_bits(number[sources[leaf]], words), words)
        return patterns.from_bits(sets, kept, columns)
    return carried_out(step, {
        "leaf": lambda each: patterns.from_sources(sources[each.data], columns),
        "nothing": lambda each: patterns.empty(each.size, columns),
        "taken": lambda each, x: patterns.taken(x, each.data),
        "union": lambda each, *xs: patterns.union(xs),
        "stacked": lambda each, *xs: patterns.stacked(xs),
        "through": lambda each, x: patterns.through(each.data, x),
    })  # fmt: skip


# -- sets of bits --------------------------------------------------------------------------------


def bits(step: Step, leaf: Callable[[int], Any], words: int) -> Any:
    """For each element the set of variables that it depends on, as the bits of some words. ``leaf``
    gives, for each leaf, the set of each of its variables."""
    return carried_out(step, {
        "leaf": lambda each: leaf(each.data),
        "nothing": lambda each: np.zeros((each.size, words), np.uint64),
        "taken": lambda each, x: taken_or_none(x, each.data),
        "union": lambda each, *xs: functools.reduce(np.bitwise_or, xs),
        "stacked": lambda each, *xs: np.concatenate(xs),
        "through": lambda each, x: patterns.any_bits(each.data, x),
    })  # fmt: skip


def single_bits(numbers: Any, words: int) -> Any:
    """Sets of one number each, or of none for -1."""
    sets = np.zeros((len(numbers), words), np.uint64)
    there = np.flatnonzero(numbers >= 0)
    own = numbers[there]
    sets[there, own // 64] = np.uint64(1) << (own % 64).astype(np.uint64)
    return sets


def taken_or_none(x: Any, rows: Any) -> Any:
    """Some of the sets; the empty one for -1."""
    rows_taken = x[rows] if len(x) else np.zeros((len(rows), *x.shape[1:]), x.dtype)
    none = rows < 0
    if none.any():
        rows_taken[none] = 0
    return rows_taken
