"""Networks under the transforms: gradients of every example of a batch, ensembles of networks, and
what holds for operations of networks beyond their samples.

What a transform gives is compared with a loop, and with PyTorch where it is installed. Warnings are
errors, so nothing here may be run entry by entry.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.ops import _batching

Arrays = dict[str, np.ndarray]
RANDOM = np.random.default_rng(7)
WIDTH, HEADS, WORDS, LENGTH, EXAMPLES = 8, 2, 11, 6, 5


@pytest.fixture(autouse=True)
def _every_warning_is_given_again() -> None:
    _batching._announced.clear()


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape) * 0.4


def in_library(library: Any, values: Any) -> Any:
    if isinstance(values, dict):
        return {n: library.from_numpy(a.copy()) for n, a in values.items()}
    return [library.from_numpy(a.copy()) for a in values]


def as_arrays(values: Any) -> list[np.ndarray]:
    found = values.values() if isinstance(values, dict) else values
    return [x.detach().numpy() for x in found]


def assert_close(found: Any, expected: Any) -> None:
    for a, b in zip(as_arrays(found), as_arrays(expected), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * (1 + np.abs(b).max()))


# -- networks, of one example ----------------------------------------------------------------


def convolutional(library: Any, p: Any, image: Any, target: Any) -> Any:
    F = library.nn.functional
    x = F.relu(F.conv2d(image.unsqueeze(0), p["w1"], p["b1"], padding=1))
    x = F.conv2d(F.max_pool2d(x, 2), p["w2"], p["b2"], stride=2, groups=2)
    x = F.gelu(F.group_norm(x, 2, p["scale"], p["shift"]))
    x = F.batch_norm(F.conv_transpose2d(x, p["w3"], stride=2), None, None, training=True)
    x = F.avg_pool2d(F.pad(x, (1, 1, 0, 0), mode="replicate"), 2).flatten(1)
    return F.cross_entropy(F.linear(x, p["w4"], p["b4"]), target.unsqueeze(0))


def transformer(library: Any, p: Any, words: Any, targets: Any) -> Any:
    F = library.nn.functional
    x = F.embedding(words, p["table"])
    normal = F.layer_norm(x, (WIDTH,), p["scale1"], p["shift1"])
    parts = F.linear(normal, p["in"], p["in_bias"]).chunk(3, -1)
    q, k, v = (y.reshape(LENGTH, HEADS, -1).transpose(0, 1).unsqueeze(0) for y in parts)
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + F.linear(seen.squeeze(0).transpose(0, 1).reshape(LENGTH, WIDTH), p["out"])
    inner = F.gelu(F.linear(F.rms_norm(x, (WIDTH,), p["scale2"]), p["wide"], p["wide_bias"]))
    x = x + F.linear(inner, p["narrow"])
    weights = library.ones(WORDS, dtype=library.float64)
    return F.cross_entropy(F.linear(x, p["table"]), targets, weights, ignore_index=3)


def many_heads(library: Any, p: Any, words: Any, targets: Any) -> Any:
    F = library.nn.functional
    x = F.embedding(words, p["table"]).unsqueeze(1)
    mask = library.ones(LENGTH, LENGTH, dtype=library.bool).triu(1)
    seen, weights = F.multi_head_attention_forward(
        x, x, x, WIDTH, HEADS, p["in"], p["in_bias"], None, None, False, 0.0, p["out"], None,
        attn_mask=mask,
    )  # fmt: skip
    logits = F.linear(F.layer_norm(x + seen, (WIDTH,)).squeeze(1), p["table"])
    return F.nll_loss(F.log_softmax(logits, -1), targets) + weights.square().sum()


CONVOLUTIONAL: Arrays = {
    "w1": numbers(4, 3, 3, 3), "b1": numbers(4), "w2": numbers(6, 2, 2, 2), "b2": numbers(6),
    "scale": numbers(6), "shift": numbers(6), "w3": numbers(6, 2, 2, 2), "w4": numbers(4, 12),
    "b4": numbers(4),
}  # fmt: skip
TRANSFORMER: Arrays = {
    "table": numbers(WORDS, WIDTH), "scale1": numbers(WIDTH), "shift1": numbers(WIDTH),
    "in": numbers(3 * WIDTH, WIDTH), "in_bias": numbers(3 * WIDTH), "out": numbers(WIDTH, WIDTH),
    "scale2": numbers(WIDTH), "wide": numbers(12, WIDTH), "wide_bias": numbers(12),
    "narrow": numbers(WIDTH, 12),
}  # fmt: skip
SENTENCES = [RANDOM.integers(0, WORDS, (EXAMPLES, LENGTH)) for _ in range(2)]
NETWORKS: dict[str, tuple[Callable[..., Any], Arrays, list[np.ndarray]]] = {
    "convolutional": (
        convolutional, CONVOLUTIONAL, [numbers(EXAMPLES, 3, 9, 9), RANDOM.integers(0, 4, EXAMPLES)]
    ),
    "transformer": (transformer, TRANSFORMER, SENTENCES),
    "many heads": (many_heads, TRANSFORMER, SENTENCES),
}  # fmt: skip


def network(name: str, library: Any = retrograd) -> tuple[Callable[..., Any], Any, list[Any]]:
    function, parameters, examples = NETWORKS[name]
    return (
        lambda *args: function(library, *args),
        in_library(library, parameters),
        in_library(library, examples),
    )


def in_loop(function: Callable[..., Any], *batch: Any) -> Any:
    """What a function gives for each entry, stacked."""
    found = [function(*entry) for entry in zip(*batch, strict=True)]
    if isinstance(found[0], dict):
        return {n: retrograd.stack([x[n] for x in found]) for n in found[0]}
    return [retrograd.stack(list(xs)) for xs in zip(*found, strict=True)]


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_every_example(name: str) -> None:
    loss, parameters, examples = network(name)
    gradient = retrograd.func.grad(loss)
    found = retrograd.func.vmap(gradient, in_dims=(None, 0, 0))(parameters, *examples)
    assert_close(found, in_loop(lambda *example: gradient(parameters, *example), *examples))


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_every_example_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for library in (retrograd, torch):
        loss, parameters, examples = network(name, library)
        with warnings.catch_warnings():
            if library is torch:  # of operations that PyTorch runs entry by entry
                warnings.simplefilter("ignore")
            gradients = library.func.vmap(library.func.grad(loss), in_dims=(None, 0, 0))
            found.append(gradients(parameters, *examples))
    assert_close(*found)


@pytest.mark.parametrize("name", NETWORKS)
def test_ensembles_of_networks(name: str) -> None:
    loss, parameters, examples = network(name)
    example = [x[0] for x in examples]
    several = {n: retrograd.stack([x, x * 0.5, x * -1.5]) for n, x in parameters.items()}
    gradient = retrograd.func.grad_and_value(loss)
    found, values = retrograd.func.vmap(gradient, in_dims=(0, None, None))(several, *example)
    for i in range(3):
        one = {n: x[i] for n, x in several.items()}
        expected, value = gradient(one, *example)
        assert_close([values[i], *(x[i] for x in found.values())], [value, *expected.values()])


@pytest.mark.parametrize("name", NETWORKS)
def test_products_with_the_second_derivative(name: str) -> None:
    """Forward over reverse, of every example, against reverse over reverse in a loop."""
    loss, parameters, examples = network(name)
    direction = {n: x * 0.5 + 0.1 for n, x in parameters.items()}

    def product(*example: Any) -> Any:
        gradient = retrograd.func.grad(lambda p: loss(p, *example))
        return retrograd.func.jvp(gradient, (parameters,), (direction,))[1]

    def product_in_reverse(*example: Any) -> Any:
        leaves = [x.clone().requires_grad_() for x in parameters.values()]
        value = loss(dict(zip(parameters, leaves, strict=True)), *example)
        slopes = retrograd.autograd.grad(value, leaves, create_graph=True, materialize_grads=True)
        along = sum((s * d).sum() for s, d in zip(slopes, direction.values(), strict=True))
        return retrograd.autograd.grad(along, leaves, materialize_grads=True)

    found = retrograd.func.vmap(product)(*examples)
    assert_close(found, in_loop(product_in_reverse, *examples))


# -- what has rules of its own ---------------------------------------------------------------

F = retrograd.nn.functional


def test_batch_norm_refuses_to_write_statistics_that_all_entries_share() -> None:
    mean, var = retrograd.zeros(2), retrograd.ones(2)
    with pytest.raises(RuntimeError, match="which will be updated in place, were not batched"):
        retrograd.func.vmap(lambda x: F.batch_norm(x, mean, var, training=True))(
            retrograd.randn(3, 4, 2)
        )
    assert mean.tolist() == [0, 0]
    assert var.tolist() == [1, 1]


def test_batch_norm_writes_the_statistics_of_each_entry() -> None:
    x, mean, var = in_library(retrograd, [numbers(3, 4, 2), np.zeros((3, 2)), np.ones((3, 2))])
    retrograd.func.vmap(lambda *args: F.batch_norm(*args, training=True))(x, mean, var)
    np.testing.assert_allclose(mean.numpy(), 0.1 * x.numpy().mean(1), rtol=1e-12)
    expected = 0.9 + 0.1 * x.numpy().var(1, ddof=1)
    np.testing.assert_allclose(var.numpy(), expected, rtol=1e-12)


def test_batch_norm_updates_its_statistics_once_in_forward_mode() -> None:
    x, t, mean, var = in_library(retrograd, [numbers(4, 2), numbers(4, 2), np.zeros(2), np.ones(2)])
    retrograd.func.jvp(lambda x: F.batch_norm(x, mean, var, training=True), (x,), (t,))
    np.testing.assert_allclose(mean.numpy(), 0.1 * x.numpy().mean(0), rtol=1e-12)


def test_the_gradient_of_a_mask_goes_through_vmap() -> None:
    """One that requires grad outside of ``vmap``, where the values inside do not say so."""
    q, k, v, mask = in_library(
        retrograd, [*(numbers(3, 1, 2, 4, 5) for _ in range(3)), numbers(3, 4, 4)]
    )
    batched, looped = (mask.clone().requires_grad_() for _ in range(2))
    attend = F.scaled_dot_product_attention
    (retrograd.func.vmap(attend)(q, k, v, batched) ** 2).sum().backward()
    sum((attend(q[i], k[i], v[i], looped[i]) ** 2).sum() for i in range(3)).backward()
    assert looped.grad.abs().max() > 0
    assert_close([batched.grad], [looped.grad])


def test_the_tangent_of_a_mask() -> None:
    q, k, v, mask, t = in_library(
        retrograd, [*(numbers(1, 2, 4, 5) for _ in range(3)), numbers(4, 4), numbers(4, 4)]
    )
    attend = F.scaled_dot_product_attention
    found = retrograd.func.jvp(lambda mask: attend(q, k, v, mask), (mask,), (t,))[1]
    step = 1e-6
    low, high = (attend(q, k, v, mask + s * t).numpy() for s in (-step, step))
    np.testing.assert_allclose(found.numpy(), (high - low) / (2 * step), rtol=0, atol=1e-8)


@pytest.mark.parametrize("options", [{"padding_idx": 1}, {"scale_grad_by_freq": True}])
@pytest.mark.parametrize("shared", [True, False])
def test_rows_of_tables_of_many_entries(options: dict[str, Any], shared: bool) -> None:
    """The gradient outside of ``vmap`` is what a loop gives: rows count in their entry only."""
    places = retrograd.tensor([[0, 1, 1, 2], [1, 3, 3, 3]])
    rows = retrograd.from_numpy(numbers(*(() if shared else (2,)), 4, 3))
    weight = retrograd.from_numpy(numbers(2, 4, 3))
    batched, looped = (rows.clone().requires_grad_() for _ in range(2))
    dims = (0, None if shared else 0)
    look_up = retrograd.func.vmap(lambda i, rows: F.embedding(i, rows, **options), in_dims=dims)
    (look_up(places, batched) * weight).sum().backward()
    for i in range(2):
        table = looped if shared else looped[i]
        (F.embedding(places[i], table, **options) * weight[i]).sum().backward()
    assert_close([batched.grad], [looped.grad])


def test_places_out_of_range_are_refused_in_any_entry() -> None:
    table = retrograd.zeros(3, 2)
    with pytest.raises(IndexError, match="index out of range in self"):
        retrograd.func.vmap(lambda i: F.embedding(i, table))(retrograd.tensor([[0], [-1]]))
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        retrograd.func.vmap(F.cross_entropy)(retrograd.zeros(2, 3), retrograd.tensor([0, 3]))


def test_filters_of_many_entries_in_two_vmaps() -> None:
    images, filters = in_library(retrograd, [numbers(2, 1, 4, 5), numbers(3, 6, 2, 3)])
    convolve = retrograd.func.vmap(
        retrograd.func.vmap(lambda x, w: F.conv1d(x, w, groups=2, padding=1), in_dims=(None, 0)),
        in_dims=(0, None),
    )
    found = convolve(images, filters)
    for i in range(2):
        for j in range(3):
            expected = F.conv1d(images[i], filters[j], groups=2, padding=1)
            assert_close([found[i, j]], [expected])


def test_sequences_of_other_lengths_in_each_entry() -> None:
    frames, labels = in_library(retrograd, [numbers(3, 6, 2, 5), RANDOM.integers(1, 5, (3, 2, 3))])
    frames = frames.log_softmax(3)
    lengths = retrograd.tensor([[6, 5], [4, 6], [5, 3]]), retrograd.tensor([[3, 1], [2, 3], [1, 2]])
    found = retrograd.func.vmap(F.ctc_loss)(frames, labels, *lengths)
    expected = in_loop(lambda *args: [F.ctc_loss(*args)], frames, labels, *lengths)
    assert_close([found], expected)
