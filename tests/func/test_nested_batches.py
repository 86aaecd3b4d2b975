"""Operations of several operands, of different ranks, where each is batched at a level of its own.

Every operation of the table that takes two tensors is called as in some of its samples, under
``vmap`` in ``vmap`` and under mixtures of ``vmap`` with derivatives. Each gives what loops over the
entries give.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from samples import SAMPLES, reason
from samples._pool import FIXED, SPECIAL, as_array, names_in
from test_ops_transformed import STATISTICS, fixed, run, same, tensors, variables

import retrograd
from retrograd._modes import within
from retrograd.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from retrograd.tensor import _calls

SAMPLES_EACH = 2  # of an operation: those whose operands have the most different ranks
REFUSED = (  # in PyTorch's words, and by PyTorch too
    "vmap: inplace arithmetic",
    "vmap: called random operation",
    "vmap: It looks like",
    "vmap: We do not support batching operators",
    "vmap: Attempted to vmap over `mask`",
    STATISTICS,
)
LEFT_OUT = (
    "as_strided",  # of an entry that lies otherwise in memory, it is something else
    "max_norm",  # writes the table, which is not batched where the places are
)
UNDEFINED = {"sc / i"}  # divides by zero: 0 * inf here or there

Arrays = dict[str, np.ndarray]
Function = Callable[..., tuple[Any, ...]]


# -- which samples ---------------------------------------------------------------------------


def operations_in(expression: str) -> set[str]:
    """The operations with several operands that a sample calls; none if it fails."""
    found: set[str] = set()

    def watch(op: Any, args: Any, options: Any, computed: Any) -> Any:
        operands = args[0] if op.inputs == ("tensors",) else args
        if sum(isinstance(x, retrograd.Tensor) for x in operands) > 1:
            found.add(op.name)
        with within(interceptors=()):
            return _calls.apply(op, args, options, computed)

    with within(interceptors=(watch,)):
        try:
            run(expression, tensors(entry_of(expression, 0)))
        except Exception:
            return set()
    return found


@cache
def chosen() -> dict[str, list[str]]:
    """Some samples for each operation that takes several tensors."""
    candidates: dict[str, list[str]] = {}
    for expression in SAMPLES:
        names = names_in(expression)
        if len(names) < 2 or any(n in SPECIAL for n in names):
            continue
        if any(reason(table, expression) for table in ("NOT_BATCHED", "NO_TANGENT")):
            continue
        if any(word in expression for word in LEFT_OUT) or expression in UNDEFINED:
            continue
        for name in operations_in(expression):
            candidates.setdefault(name, []).append(expression)

    def spread(expression: str) -> tuple[int, int]:
        shapes = [x.shape for x in entry_of(expression, 0).values()]
        ranks = [len(shape) for shape in shapes]
        return min(ranks) - max(ranks), sum(map(np.prod, shapes))  # the small ones first

    return {
        name: sorted(dict.fromkeys(found), key=spread)[:SAMPLES_EACH]
        for name, found in sorted(candidates.items())
    }


def entry_of(expression: str, k: int) -> Arrays:
    return {**variables(expression, "float64", k), **fixed(expression, k)}


# -- what is compared ------------------------------------------------------------------------


class Sample:
    """A sample as a function of two of its arrays, for two entries of each."""

    def __init__(self, expression: str, a: str, b: str) -> None:
        self.expression = expression
        self.a, self.b = a, b
        self.entries = [entry_of(expression, k) for k in (0, 1)]

    def value(self, name: str, k: int) -> Any:
        return retrograd.from_numpy(self.entries[k][name].copy())

    def stacked(self, name: str, dim: int = 0) -> Any:
        return retrograd.from_numpy(np.stack([e[name] for e in self.entries], dim))

    def __call__(self, a: Any, b: Any) -> tuple[Any, ...]:
        return tuple(run(self.expression, {**tensors(self.entries[0]), self.a: a, self.b: b}))

    def floats(self, a: Any, b: Any) -> tuple[Any, ...]:
        return tuple(y for y in self(a, b) if y.is_floating_point())

    def number(self, a: Any, b: Any) -> Any:
        """A number whose second derivatives are not zero."""
        return sum((y.sin() + 0.3 * y * y).sum() for y in self.floats(a, b))

    def loop(self, function: Function, pairs: Sequence[tuple[int, int]]) -> list[np.ndarray] | None:
        """The results for some pairs of entries, stacked; None if some cannot be."""
        try:
            found = [function(self.value(self.a, i), self.value(self.b, j)) for i, j in pairs]
            return [np.stack([as_array(y) for y in ys]) for ys in zip(*found, strict=True)]
        except Exception:
            return None


def derivatives(sample: Sample) -> Iterator[tuple[str, Function]]:
    """Functions of the same two arrays: derivatives by the first."""
    size = sample.entries[0][sample.a].size
    outputs = sample.floats(sample.value(sample.a, 0), sample.value(sample.b, 0))
    rows = sum(y.numel() for y in outputs)
    if not outputs:
        return
    yield "jvp", lambda a, b: jvp(lambda x: sample.floats(x, b), (a,), (a.cos(),))[1]
    if size * rows <= 200:
        yield "jacrev", lambda a, b: jacrev(sample.floats)(a, b)
    if size <= 6 and rows <= 24:
        yield "hessian", lambda a, b: (hessian(sample.number)(a, b),)
    else:
        yield "grad", lambda a, b: (grad(sample.number)(a, b),)


def ways(sample: Sample) -> Iterator[tuple[str, Function, Any, Any]]:
    """What to compare: a title, a function to loop over, for which entries, and the result."""
    a, b = sample.a, sample.b
    all_a, all_b, last_a, last_b = (
        sample.stacked(a), sample.stacked(b), sample.stacked(a, -1), sample.stacked(b, -1)
    )  # fmt: skip
    every = list(itertools.product((0, 1), repeat=2))

    def twice(f: Function, over: Any, under: Any, dim: int) -> Any:
        inner = lambda x: vmap(lambda y: f(x, y), in_dims=dim)(under)
        return [y.flatten(0, 1) for y in vmap(inner, in_dims=dim)(over)]

    yield "vmap of vmap", sample, every, lambda: twice(sample, all_a, all_b, 0)
    yield "vmap of vmap, last", sample, every, lambda: twice(sample, last_a, last_b, -1)
    if a in FIXED:
        return
    first = [(0, 0), (1, 0)]
    second = [(0, 0), (0, 1)]
    for name, f in derivatives(sample):
        yield f"vmap of {name}, of one", f, first, lambda f=f: vmap(f, (0, None))(
            all_a, sample.value(b, 0))  # fmt: skip
        yield f"vmap of {name}, of the other", f, second, lambda f=f: vmap(f, (None, -1))(
            sample.value(a, 0), last_b)  # fmt: skip
        yield f"vmap of vmap of {name}", f, every, lambda f=f: twice(f, all_a, all_b, 0)
        if name == "jacrev":
            mapped = lambda x: vmap(lambda y: sample.floats(x, y))(all_b)
            yield (
                "jacfwd of vmap",
                lambda a, b: jacfwd(sample.floats)(a, b),
                second,
                (lambda mapped=mapped: jacfwd(mapped)(sample.value(a, 0))),
            )
            yield (
                "jacrev of vmap",
                f,
                second,
                (lambda mapped=mapped: jacrev(mapped)(sample.value(a, 0))),
            )


def differences(expression: str) -> Iterator[str]:
    names = list(entry_of(expression, 0))
    for a, b in itertools.islice(itertools.permutations(names, 2), 2):
        sample = Sample(expression, a, b)
        for title, function, pairs, compute in ways(sample):
            expected = sample.loop(function, pairs)
            if expected is None:
                continue
            where = f"{expression}: {title}, {a} and {b}"
            try:
                got = compute()
            except Exception as error:
                if not str(error).startswith(REFUSED):
                    yield f"{where}: {type(error).__name__}: {error}"
                continue
            for x, y in zip(expected, got, strict=True):
                if not same(x, as_array(y)):
                    yield f"{where}: {as_array(y).tolist()}, a loop gives {x.tolist()}"


@pytest.mark.filterwarnings("ignore:vmap. .* has no batching rule")
@pytest.mark.parametrize("operation", chosen())
def test_batches_at_different_levels(operation: str) -> None:
    assert [d for e in chosen()[operation] for d in differences(e)] == []


def test_there_are_samples_for_most_operations() -> None:
    assert len(chosen()) > 100


# -- what was wrong once ---------------------------------------------------------------------

MATRIX = retrograd.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
VECTOR = retrograd.tensor([1.0, 2.0, 4.0])


def test_a_result_that_does_not_depend_on_the_batch_keeps_its_history() -> None:
    def rows(v: Any) -> Any:
        return vmap(lambda m: retrograd.addr(m[None], VECTOR[:1], v, beta=0))(MATRIX)

    assert jacrev(rows)(VECTOR).tolist() == [[np.eye(3).tolist()]] * 2


def test_a_slice_that_is_filled_twice_counts_once() -> None:
    places = retrograd.tensor([1, 1])

    def filled(value: Any) -> Any:
        return vmap(lambda row: row.index_fill(0, places, value))(MATRIX)

    number = retrograd.tensor(7.0)
    assert filled(number).tolist() == [[1, 7, 3], [4, 7, 6]]
    assert jacrev(filled)(number).tolist() == [[0, 1, 0], [0, 1, 0]]
    assert jacfwd(filled)(number).tolist() == [[0, 1, 0], [0, 1, 0]]


def test_blocks_of_different_batches() -> None:
    found = vmap(lambda a: vmap(lambda b: retrograd.block_diag(a, b))(VECTOR))(MATRIX)
    assert found.shape == (2, 3, 2, 4)
    assert found[1, 2].tolist() == [[4, 5, 6, 0], [0, 0, 0, 4]]


def test_a_value_that_is_written_is_kept_for_the_levels_below() -> None:
    def divided(v: Any) -> Any:
        return vmap(lambda row: row.clone().div_(v))(MATRIX)

    expected = -MATRIX / VECTOR**2
    assert jacrev(divided)(VECTOR).tolist() == [np.diag(row).tolist() for row in expected]


def test_cross_products_of_operands_of_different_ranks() -> None:
    cross = retrograd.linalg.cross
    by_hand = [[0.0, -4.0, 2.0], [4.0, 0.0, -1.0], [-2.0, 1.0, 0.0]]  # the matrix of "v x"
    found = vmap(jacrev(lambda x: cross(VECTOR, x)))(MATRIX)
    assert found.tolist() == [by_hand] * 2
    square = lambda x: (cross(VECTOR, x) ** 2).sum()
    product = np.array(by_hand).T @ np.array(by_hand)
    assert vmap(hessian(square))(MATRIX).tolist() == [(2 * product).tolist()] * 2
    pairs = vmap(lambda x: vmap(lambda y: cross(x, y))(MATRIX))(MATRIX)
    assert pairs[0, 1].tolist() == [-3, 6, -3]
    assert pairs[1, 0].tolist() == [3, -6, 3]


@pytest.mark.parametrize("loss", ["multi_margin_loss", "multilabel_margin_loss"])
def test_tangents_of_losses_of_each_row(loss: str) -> None:
    f = getattr(retrograd.nn.functional, loss)
    target = retrograd.tensor([0, 2]) if loss == "multi_margin_loss" else (
        retrograd.tensor([[0, -1, -1], [2, 1, -1]]))  # fmt: skip
    batch = retrograd.stack([MATRIX / 8, MATRIX / 4])

    def moved(x: Any) -> Any:
        return jvp(lambda y: f(y, target, reduction="none"), (x,), (x.cos(),))[1]

    assert vmap(moved)(batch).tolist() == [moved(x).tolist() for x in batch]
