"""Elements picked and put by number under transforms: numbers that are the same for all entries of
a batch, numbers of each entry, and one value for all entries with numbers of each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import retrograd as torch
from retrograd.func import grad, jvp, vmap
from retrograd.ops import _batching

# Functions of a matrix of 3 by 4, of a matrix of places along its rows, and of one place.
PICKING: dict[str, Callable[[Any, Any, Any], Any]] = {
    "one row": lambda x, i, k: x[k] * x,
    "one element": lambda x, i, k: x[k, k].exp(),
    "one column": lambda x, i, k: x[:, k] * x[:, 0],
    "rows": lambda x, i, k: x[i[0]].sin(),
    "columns": lambda x, i, k: x[:, i[1]] * x[:, :2],
    "places": lambda x, i, k: x[i[0], i[1]].exp() * x[1, 1],
    "places apart": lambda x, i, k: (x[None] * torch.ones(2, 1, 1))[i[0] % 2, :, i].cos(),
    "places in the middle": lambda x, i, k: x.reshape(3, 2, 2)[:, i[0] % 2, :].exp(),
    "a mask and a place": lambda x, i, k: x[torch.tensor([True, False, True]), k].exp(),
    "gather": lambda x, i, k: x.gather(1, i.repeat(1, 2)[:3, :4] if i.shape[0] > 2 else i).exp(),
    "gather rows": lambda x, i, k: x.gather(0, i).exp(),
    "index_select": lambda x, i, k: x.index_select(1, i[0]).exp(),
    "take": lambda x, i, k: x.take(i).exp(),
    "take_along_dim": lambda x, i, k: torch.take_along_dim(x, i[:1], 1).exp(),
    "sorted places": lambda x, i, k: x[:, x[0].argsort()] * x,
    "largest": lambda x, i, k: x[x.sum(1).argmax()] ** 2,
    "top": lambda x, i, k: x.gather(1, x.topk(2).indices).exp(),
}
PUTTING: dict[str, Callable[[Any, Any, Any], Any]] = {
    "row": lambda x, i, k: put(own(x, k), k, x[0] * x[1]) ** 2,
    "element": lambda x, i, k: put(own(x, k), (k, k), x[0, 1] ** 2) * x,
    "column": lambda x, i, k: put(own(x, k), (slice(None), k), x[:, 1].exp()).sin(),
    "number at places": lambda x, i, k: put(own(x, k), (i[0], i[1]), 2.0) ** 3,
    "values at places": lambda x, i, k: put(own(x, k), ([0, 1], i[1, :2]), x[2, :2].exp()) ** 2,
    "added at places": lambda x, i, k: x.index_put((i[0], i[1]), x[1, :2].exp(), True) ** 2,
    "mask": lambda x, i, k: put(own(x, k), x > x[0, 0], 0.5) * x,
    "mask of rows": lambda x, i, k: put(own(x, k), x[:, 0] > x[1, 1], x[2]) * x,
    "scatter": lambda x, i, k: x.scatter(0, torch.argsort(x, 0), x.exp()) * x,
    "scatter number": lambda x, i, k: x.scatter(0, i, 3.0) ** 2,
    "scatter_add": lambda x, i, k: x.scatter_add(0, i, x[:2, :2].exp()) ** 2,
    "amax": lambda x, i, k: x.scatter_reduce(0, i, x[:2, :2] * 2, "amax") ** 2,
    "mean": lambda x, i, k: x.scatter_reduce(1, i, x[1:, 1:3], "mean") ** 2,
    "prod": lambda x, i, k: x.scatter_reduce(1, i, x[1:, 1:3], "prod", include_self=False) ** 2,
    "index_add": lambda x, i, k: x.index_add(1, i[0], x[:, 2:].exp(), alpha=2) ** 2,
    "index_copy": lambda x, i, k: x.index_copy(0, k.reshape(1), x[1:2].exp()) ** 2,
    "index_fill": lambda x, i, k: x.index_fill(1, i[0], 2.0) ** 3,
    "index_fill by a value": lambda x, i, k: x.index_fill(0, i[0], x[0, 0] ** 2) ** 3,
    "index_reduce": lambda x, i, k: x.index_reduce(1, i[1], x[:, 1:3], "amin") ** 2,
    "put": lambda x, i, k: x.put(i + 4, x[:2, :2].exp(), True) ** 2,
    "masked_scatter": lambda x, i, k: x.masked_scatter(x > x[1, 2], x.exp()) ** 2,
    "masked_fill": lambda x, i, k: x.masked_fill(x > x[1, 2], 2.0) * x,
}
FUNCTIONS = PICKING | PUTTING
every = pytest.mark.parametrize("name", FUNCTIONS)


def put(target: Any, index: Any, value: Any) -> Any:
    target[index] = value
    return target


def own(x: Any, k: Any) -> Any:
    """A copy for each entry, also of a value that all share."""
    return x + k * 0


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.3, 1.5, shape)


def batch() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A batch of values, and two kinds of places; those in a column of ``i`` differ, so that none
    is put at twice."""
    x = numbers(5, 3, 4)
    i = np.array([[[0, 2], [1, 0]], [[2, 1], [0, 2]], [[1, 0], [2, 1]], [[0, 1], [2, 0]],
                  [[2, 0], [1, 2]]])  # fmt: skip
    return x, i, np.array([2, 0, 1, 1, 2])


def tensors(*arrays: Any) -> list[Any]:
    return [torch.from_numpy(np.array(a)) for a in arrays]


def total(name: str) -> Callable[..., Any]:
    """A number made of all results, no two of which count the same."""

    def function(x: Any, i: Any, k: Any) -> Any:
        y = FUNCTIONS[name](x, i, k)
        weights = np.cos(1 + np.arange(y.numel())).reshape(tuple(y.shape))
        return (y * torch.from_numpy(weights)).sum()

    return function


def gradient(name: str, x: np.ndarray, i: np.ndarray, k: np.ndarray) -> np.ndarray:
    leaf, *places = tensors(x, i, k)
    (g,) = torch.autograd.grad(total(name)(leaf.requires_grad_(), *places), leaf)
    return np.asarray(g.numpy())


def check(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-9, atol=1e-9)


CHOICES = {"all": (0, 0, 0), "values": (0, None, None), "places": (None, 0, 0)}
choices = pytest.mark.parametrize("which", CHOICES)


def entries(which: str) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Arguments for a batch, and for each of its entries."""
    given, dims = batch(), CHOICES[which]
    whole = [a if d == 0 else a[0] for a, d in zip(given, dims, strict=True)]
    each = [tuple(a[n if d == 0 else 0] for a, d in zip(given, dims, strict=True))
            for n in range(5)]  # fmt: skip
    return tensors(*whole), each


@every
def test_gradients_agree_with_differences(name: str) -> None:
    x, i, k = (a[0] for a in batch())
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        above, below = (total(name)(*tensors(x + s, i, k)).item() for s in (step, -step))
        found[place] = (above - below) / 2e-6
    np.testing.assert_allclose(gradient(name, x, i, k), found, rtol=1e-6, atol=1e-6)


@every
@choices
def test_batch(name: str, which: str, recwarn: Any) -> None:
    _batching._announced.clear()
    whole, each = entries(which)
    found = vmap(FUNCTIONS[name], in_dims=CHOICES[which])(*whole)
    check(found, [FUNCTIONS[name](*tensors(*e)) for e in each])
    assert not recwarn.list  # nothing was run entry by entry


@every
@choices
def test_batch_of_gradients(name: str, which: str) -> None:
    whole, each = entries(which)
    found = vmap(grad(total(name)), in_dims=CHOICES[which])(*whole)
    check(found, [gradient(name, *e) for e in each])


@every
@choices
def test_gradient_of_a_batch(name: str, which: str) -> None:
    whole, each = entries(which)

    def function(x: Any) -> Any:
        return vmap(total(name), in_dims=CHOICES[which])(x, *whole[1:]).sum()

    expected: Any = [gradient(name, *e) for e in each]
    check(grad(function)(whole[0]), expected if which != "places" else sum(expected))


@every
@choices
def test_batch_of_tangents(name: str, which: str) -> None:
    whole, each = entries(which)
    t = numbers(3, 4, seed=1)

    def along(x: Any, i: Any, k: Any) -> Any:
        return jvp(lambda x: total(name)(x, i, k), (x,), tuple(tensors(t)))[1]

    found = vmap(along, in_dims=CHOICES[which])(*whole)
    check(found, [(gradient(name, *e) * t).sum() for e in each])


@every
def test_second_derivatives(name: str) -> None:
    """Forward over reverse, in a batch, against reverse over reverse."""
    whole, each = entries("all")
    t = numbers(3, 4, seed=1)

    def along(x: Any, i: Any, k: Any) -> Any:
        return jvp(grad(lambda x: total(name)(x, i, k)), (x,), tuple(tensors(t)))[1]

    expected = []
    for x, i, k in each:
        leaf, *places = tensors(x, i, k)
        value = total(name)(leaf.requires_grad_(), *places)
        (g,) = torch.autograd.grad(value, leaf, create_graph=True)
        expected.append(torch.autograd.grad(g, leaf, tensors(t)[0], materialize_grads=True)[0])
    check(vmap(along)(*whole), expected)


@every
def test_places_of_two_batches(name: str) -> None:
    """The values belong to one batch, the places to another."""
    x, i, k = batch()
    inner = vmap(FUNCTIONS[name], in_dims=(None, 0, 0))
    found = vmap(inner, in_dims=(0, None, None))(*tensors(x[:2], i, k))
    expected = [[np.asarray(FUNCTIONS[name](*tensors(a, b, c))) for b, c in zip(i, k, strict=True)]
                for a in x[:2]]  # fmt: skip
    check(found, expected)


# -- what cannot be done, and why --------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x > 1],
        lambda x: x.nonzero(),
        lambda x: torch.unique(x),
        lambda x: torch.masked_select(x, x > 1),
        lambda x: torch.unique_consecutive(x),
        lambda x: put(x.clone(), x > 1, x[0, :3]),
    ],
)
def test_shapes_that_depend_on_values_are_refused(function: Any) -> None:
    with pytest.raises(RuntimeError, match=r"vmap: (We do not support batching|Attempted to vmap)"):
        vmap(function)(torch.from_numpy(numbers(5, 3, 4)))


@pytest.mark.parametrize(
    "write",
    [
        lambda y, x: y.copy_(x),
        lambda y, x: y.add_(x),
        lambda y, x: put(y, 0, x[0]),
        lambda y, x: put(y, (slice(None), 1), x[:, 0]),
        lambda y, x: put(y, (0, x[0].argsort()), 2.0),
        lambda y, x: put(y, x > 1, 2.0),
        lambda y, x: y[0].mul_(x[0, 0]),
        lambda y, x: y.index_add_(0, torch.tensor([0]), x[:1]),
    ],
)
def test_what_all_entries_share_is_not_written(write: Any) -> None:
    shared = torch.zeros(3, 4, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"^vmap: inplace arithmetic\(self, "):
        vmap(lambda x: write(shared, x))(torch.from_numpy(numbers(5, 3, 4)))
    assert not shared.any()
    assert shared._version == 0


def test_places_out_of_bounds_are_refused_for_every_entry() -> None:
    x, places = torch.ones(4, 3), torch.tensor([0, 2, 3, 1])
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        vmap(lambda x, i: x[i])(x, places)
    with pytest.raises(RuntimeError, match="index 3 is out of bounds for dimension 0 with size 3"):
        vmap(lambda x, i: x.gather(0, i.reshape(1)))(x, places)


# -- any index -----------------------------------------------------------------------------------

SHAPE = (3, 4, 2)


class Drawn(NamedTuple):
    """An item of an index that is an array: its values for each of three entries."""

    values: np.ndarray
    batched: bool


@st.composite
def indices(draw: Any) -> list[Any]:
    """An index of an array of ``SHAPE``: numbers, slices, new dimensions, masks and places."""
    items: list[Any] = []
    for size in SHAPE[: draw(st.integers(1, 3))]:
        kind = draw(st.sampled_from(["whole", "slice", "number", "places", "places", "mask"]))
        if kind == "whole":
            items.append(slice(None))
        elif kind == "slice":
            items.append(slice(draw(st.integers(-size, size)), None, draw(st.integers(1, 2))))
        elif kind == "number":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "mask":  # two hold, so that it goes with places
            mask = np.zeros(size, bool)
            mask[draw(st.permutations(range(size)))[:2]] = True
            items.append(Drawn(np.stack([mask] * 3), False))
        else:
            shape = (3, *draw(st.sampled_from([(), (2,), (1,), (2, 1), (2, 2)])))
            random = np.random.default_rng(draw(st.integers(0, 99)))
            items.append(Drawn(random.integers(-size, size, shape), draw(st.booleans())))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), None)
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), ...)
    return items


def entry(items: list[Any], n: int) -> tuple[Any, ...]:
    return tuple(
        torch.from_numpy(np.array(w.values[n if w.batched else 0])) if isinstance(w, Drawn) else w
        for w in items
    )


def given_to(items: list[Any], batched: list[Any]) -> tuple[Any, ...]:
    """The index of one entry, some arrays of which are arguments."""
    arguments = iter(batched)
    first = entry(items, 0)
    return tuple(
        next(arguments) if isinstance(w, Drawn) and w.batched else known
        for w, known in zip(items, first, strict=True)
    )


@given(indices(), st.booleans())
def test_any_index(items: list[Any], shared: bool) -> None:
    values = numbers(3, *SHAPE)
    try:
        expected = [torch.from_numpy(values[0 if shared else n])[entry(items, n)].numpy()
                    for n in range(3)]  # fmt: skip
    except IndexError:  # arrays that do not broadcast
        assume(False)
    arguments = tensors(*[w.values for w in items if isinstance(w, Drawn) and w.batched])
    assume(arguments or not shared)
    x = torch.from_numpy(values[0] if shared else values)

    def picked(x: Any, *batched: Any) -> Any:
        return x[given_to(items, list(batched))]

    dims = (None if shared else 0, *(0,) * len(arguments))
    check(vmap(picked, in_dims=dims)(x, *arguments), expected)

    def weighed(x: Any, *batched: Any) -> Any:
        y = picked(x, *batched)
        weights = np.cos(1 + np.arange(y.numel())).reshape(tuple(y.shape))
        return (y * y * torch.from_numpy(weights)).sum()

    gradients = []
    for n in range(3):
        leaf = torch.from_numpy(values[0 if shared else n].copy()).requires_grad_()
        y = leaf[entry(items, n)]
        weights = np.cos(1 + np.arange(y.numel())).reshape(tuple(y.shape))
        (y * y * torch.from_numpy(weights)).sum().backward()
        gradients.append(leaf.grad.numpy())
    check(vmap(grad(weighed), in_dims=dims)(x, *arguments), gradients)


@given(indices(), st.sampled_from(["whole", "last", "number"]), st.booleans())
def test_any_index_is_written(items: list[Any], what: str, accumulated: bool) -> None:
    """With values of each entry; at places of each or of all."""
    values = numbers(3, *SHAPE)
    try:
        shapes = {torch.zeros(SHAPE)[entry(items, n)].shape for n in range(3)}
    except IndexError:
        assume(False)
    (shape,) = shapes
    new = numbers(3, *{"whole": shape, "last": shape[-1:], "number": ()}[what], seed=1)

    def written(x: Any, value: Any, *batched: Any) -> Any:
        y, where = x.clone(), given_to(items, list(batched))
        if accumulated:
            y[where] += value
        else:
            y[where] = value
        return y

    chosen = [w for w in items if isinstance(w, Drawn) and w.batched]
    expected = [
        written(*tensors(values[n], new[n]), *tensors(*[w.values[n] for w in chosen])).numpy()
        for n in range(3)
    ]
    found = vmap(written)(*tensors(values, new), *tensors(*[w.values for w in chosen]))
    check(found, expected)
