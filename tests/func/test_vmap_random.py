"""Random numbers under ``vmap``: refused, the same for all entries, or others for each.

The generator is PyTorch's number for number, so that what is drawn for a whole batch at once can be
said exactly: it is what the same call draws for one more dimension.
"""

import importlib
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.func import grad, jvp, vmap

REFUSED = "vmap: called random operation while in randomness error mode"
NO_BATCH = "Vmap does not currently support same randomness with a batched tensor input"
UNBATCHED = "vmap: Cannot ask for different inplace randomness on an unbatched tensor"
CHANCES = np.linspace(0.1, 0.9, 12).reshape(3, 4)

# Expressions in x, one of three vectors of four numbers between 0 and 1. None of these looks at
# values of x, so that "same" has a meaning.
FREE = (
    "torch.rand(2, 2)", "torch.randn(5)", "torch.randint(0, 9, (3,))", "torch.randperm(5)",
    "torch.normal(1.0, 2.0, (3,))", "torch.rand_like(x)", "torch.randn_like(x)",
    "torch.randint_like(x, 9)", "x.clone().uniform_()", "x.clone().normal_(1, 3)",
    "x.clone().exponential_(2)", "x.clone().cauchy_()", "x.clone().log_normal_()",
    "x.clone().geometric_(0.4)", "x.clone().random_(0, 50)", "x.clone().bernoulli_(0.3)",
    "x.clone().bernoulli_(chances)", "torch.bernoulli(chances)", "torch.poisson(chances * 9)",
    "torch.multinomial(chances, 3)", "torch.normal(chances, 1.0)", "torch.normal(0.0, chances)",
    "torch.normal(chances, chances)", "F.dropout(x, 0.4)", "F.dropout(chances, 0.4)",
    "F.dropout(x.clone(), 0.4, inplace=True)", "F.alpha_dropout(x, 0.4, training=True)",
    "F.dropout1d(x[None, :, None].expand(1, 4, 2), 0.4)", "torch.rand(())",
    "torch.rand(2, dtype=torch.float64)", "F.feature_alpha_dropout(x[None, :, None], 0.4, True)",
)  # fmt: skip
# What is drawn depends on values of each entry.
OF_ENTRIES = (
    "torch.bernoulli(x)", "torch.bernoulli(x, 0.3)", "torch.poisson(x * 9)",
    "torch.multinomial(x, 3)", "torch.multinomial(torch.stack([x, 1 - x]), 2)",
    "torch.normal(x, 1.0)", "torch.normal(0.0, x)", "torch.normal(x, x)",
    "torch.normal(x, chances)", "torch.binomial(x * 0 + 9, x)", "x.clone().bernoulli_(x)",
)  # fmt: skip
IN_PLACE_UNBATCHED = ("torch.zeros(3).uniform_()", "torch.zeros(3).normal_()",
                      "torch.ones(3).bernoulli_(0.5)")  # fmt: skip


def under_vmap(library: Any, expression: str, randomness: str) -> Any:
    """What an expression gives for each row, from a generator that has just been seeded."""
    chances = library.from_numpy(CHANCES[0].copy())
    words = {"torch": library, "F": importlib.import_module(f"{library.__name__}.nn.functional"),
             "chances": chances}  # fmt: skip
    library.manual_seed(11)
    function = library.func.vmap(lambda x: eval(expression, {**words, "x": x}),
                                 randomness=randomness)  # fmt: skip
    return np.asarray(function(library.from_numpy(CHANCES.copy())))


def once(expression: str, **words: Any) -> np.ndarray:
    """What an expression gives without ``vmap``."""
    retrograd.manual_seed(11)
    chances = retrograd.from_numpy(CHANCES[0].copy())
    words = {"torch": retrograd, "F": retrograd.nn.functional, "chances": chances, **words}
    return np.asarray(eval(expression, words))


@pytest.mark.parametrize("expression", FREE + OF_ENTRIES + IN_PLACE_UNBATCHED)
def test_refused_unless_said_otherwise(expression: str) -> None:
    with pytest.raises(RuntimeError, match=REFUSED):
        under_vmap(retrograd, expression, "error")
    with pytest.raises(RuntimeError, match=REFUSED):
        vmap(lambda x: eval(expression, {"torch": retrograd, "F": retrograd.nn.functional, "x": x,
                                         "chances": x}))(retrograd.rand(3, 4))  # fmt: skip


@pytest.mark.parametrize("expression", FREE)
def test_the_same_numbers_for_all_entries(expression: str) -> None:
    found = under_vmap(retrograd, expression, "same")
    for row, x in zip(found, CHANCES, strict=True):
        expected = once(expression, x=retrograd.from_numpy(x.copy()))
        np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize("expression", FREE + OF_ENTRIES)
def test_other_numbers_for_each_entry(expression: str) -> None:
    found = under_vmap(retrograd, expression, "different")
    assert len({row.tobytes() for row in found}) > 1
    first = once(expression, x=retrograd.from_numpy(CHANCES[0].copy()))
    assert found.shape == (3, *first.shape)
    assert found.dtype == first.dtype


@pytest.mark.parametrize(
    ("expression", "at_once"),
    [
        ("torch.rand(2, 2)", "torch.rand(3, 2, 2)"), ("torch.randn(5)", "torch.randn(3, 5)"),
        ("torch.randint(0, 9, (3,))", "torch.randint(0, 9, (3, 3))"),
        ("x.clone().uniform_()", "torch.empty(3, 4, dtype=torch.float64).uniform_()"),
        ("torch.bernoulli(x)", "torch.bernoulli(x)"), ("F.dropout(x)", "F.dropout(x)"),
        ("torch.multinomial(x, 3)", "torch.multinomial(x, 3)"),
        ("torch.randperm(4)", "torch.stack([torch.randperm(4) for _ in range(3)])"),
    ],
)  # fmt: skip
def test_different_numbers_are_those_of_one_more_dimension(expression: str, at_once: str) -> None:
    found = under_vmap(retrograd, expression, "different")
    np.testing.assert_array_equal(found, once(at_once, x=retrograd.from_numpy(CHANCES.copy())))


@pytest.mark.parametrize("expression", OF_ENTRIES)
def test_no_same_numbers_for_values_that_differ(expression: str) -> None:
    with pytest.raises(RuntimeError, match=NO_BATCH):
        under_vmap(retrograd, expression, "same")


@pytest.mark.parametrize("expression", IN_PLACE_UNBATCHED)
def test_no_different_numbers_in_one_memory(expression: str) -> None:
    with pytest.raises(RuntimeError, match=UNBATCHED):
        under_vmap(retrograd, expression, "different")
    row = once(expression)
    np.testing.assert_array_equal(under_vmap(retrograd, expression, "same"), np.stack([row] * 3))


@pytest.mark.parametrize("randomness", ["different", "same"])
@pytest.mark.parametrize("expression", FREE + OF_ENTRIES + IN_PLACE_UNBATCHED)
def test_as_pytorch_draws_them(expression: str, randomness: str) -> None:
    torch = pytest.importorskip("torch")
    try:
        expected = under_vmap(torch, expression, randomness)
    except RuntimeError as error:
        words = str(error).split(". ")[0]
        with pytest.raises(RuntimeError) as caught:
            under_vmap(retrograd, expression, randomness)
        assert str(caught.value).split(". ")[0] == words
        return
    found = under_vmap(retrograd, expression, randomness)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


# -- nested ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outer", "inner", "shape"),
    [
        ("different", "different", (2, 3)), ("different", "same", (2, 1)),
        ("same", "different", (1, 3)), ("same", "same", (1, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("expression", ["torch.rand(2)", "z.new_empty(2).uniform_()"])
def test_nested_vmaps_each_have_their_own_say(
    outer: str, inner: str, shape: tuple[int, ...], expression: str
) -> None:
    retrograd.manual_seed(5)
    function = vmap(
        vmap(lambda z: eval(expression, {"torch": retrograd, "z": z}), randomness=inner),
        randomness=outer,
    )
    found = function(retrograd.zeros(2, 3))
    retrograd.manual_seed(5)
    expected = retrograd.rand(*shape, 2).expand(2, 3, 2)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_one_of_nested_vmaps_can_refuse(which: str) -> None:
    modes = {"outer": "different", "inner": "different", which: "error"}
    function = vmap(vmap(lambda z: z + retrograd.rand(()), randomness=modes["inner"]),
                    randomness=modes["outer"])  # fmt: skip
    with pytest.raises(RuntimeError, match=REFUSED):
        function(retrograd.zeros(2, 3))


@pytest.mark.parametrize(
    ("outer", "inner", "words"),
    [("different", "same", None), ("same", "different", UNBATCHED), ("error", "same", REFUSED)],
)
def test_a_tensor_of_the_outer_vmap_written_in_the_inner(
    outer: str, inner: str, words: str | None
) -> None:
    def function(x: Any) -> Any:
        y = x.clone()
        return vmap(lambda z: y.uniform_() + 0 * z, randomness=inner)(retrograd.zeros(3))

    def call() -> Any:
        retrograd.manual_seed(5)
        return vmap(function, randomness=outer)(retrograd.zeros(2, 4))

    if words is not None:
        with pytest.raises(RuntimeError, match=words):
            call()
        return
    found = call()
    retrograd.manual_seed(5)
    expected = retrograd.rand(2, 4)[:, None].expand(2, 3, 4)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


# -- with other transforms -------------------------------------------------------------------


def dropped(x: Any) -> Any:
    return (retrograd.nn.functional.dropout(x, 0.5) ** 2).sum()


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_gradients_of_a_batch_with_dropout(randomness: str) -> None:
    x = retrograd.arange(1.0, 13.0).reshape(3, 4)
    retrograd.manual_seed(2)
    found = vmap(grad(dropped), randomness=randomness)(x)
    retrograd.manual_seed(2)
    mask = retrograd.nn.functional.dropout(retrograd.ones(3, 4), 0.5)
    if randomness == "same":
        retrograd.manual_seed(2)
        mask = retrograd.nn.functional.dropout(retrograd.ones(4), 0.5).expand(3, 4)
    np.testing.assert_allclose(np.asarray(found), np.asarray(2 * x * mask * mask))
    leaf = x.clone().requires_grad_()
    retrograd.manual_seed(2)
    vmap(dropped, randomness=randomness)(leaf).sum().backward()
    np.testing.assert_allclose(np.asarray(leaf.grad), np.asarray(found))


def test_tangents_of_a_batch_with_dropout() -> None:
    x, t = retrograd.arange(1.0, 13.0).reshape(3, 4), retrograd.ones(3, 4)

    def tangent(x: Any, t: Any) -> Any:
        return jvp(dropped, (x,), (t,))[1]

    retrograd.manual_seed(2)
    found = vmap(tangent, randomness="different")(x, t)
    retrograd.manual_seed(2)
    mask = retrograd.nn.functional.dropout(retrograd.ones(3, 4), 0.5)
    expected = np.asarray((2 * x * mask * mask).sum(1))
    np.testing.assert_allclose(np.asarray(found), expected)
    retrograd.manual_seed(2)
    outside = jvp(vmap(dropped, randomness="different"), (x,), (t,))[1]
    np.testing.assert_allclose(np.asarray(outside), expected)


def test_random_numbers_do_not_move() -> None:
    value, tangent = jvp(lambda x: x.clone().uniform_() + retrograd.bernoulli(x),
                         (retrograd.full((3,), 0.5),), (retrograd.ones(3),))  # fmt: skip
    assert value.shape == (3,)
    assert tangent.tolist() == [0.0, 0.0, 0.0]


def test_a_generator_of_ones_own() -> None:
    def draw(x: Any) -> Any:
        return x + retrograd.rand(2, generator=own)

    own = retrograd.Generator().manual_seed(3)
    before = retrograd.get_rng_state()
    found = vmap(draw, randomness="different")(retrograd.zeros(3))
    expected = retrograd.rand(3, 2, generator=retrograd.Generator().manual_seed(3))
    assert retrograd.equal(found, expected)
    assert retrograd.equal(before, retrograd.get_rng_state())


def test_what_is_not_drawn_is_not_refused() -> None:
    functional = retrograd.nn.functional
    x = retrograd.ones(2, 3)
    assert vmap(lambda v: functional.dropout(v, training=False))(x).tolist() == x.tolist()
    assert vmap(lambda v: functional.dropout(v, 0.0))(x).tolist() == x.tolist()
    assert vmap(lambda v: functional.dropout(v, 1.0))(x).tolist() == [[0.0] * 3] * 2


def test_nothing_stays_behind_an_error() -> None:
    with pytest.raises(RuntimeError, match=REFUSED):
        vmap(lambda x: x + retrograd.rand(2))(retrograd.zeros(3))
    assert retrograd.rand(2).shape == (2,)
    x = retrograd.zeros(3, 4)
    with pytest.raises(RuntimeError, match=REFUSED):
        vmap(lambda v: v.uniform_())(x)
    assert x.tolist() == [[0.0] * 4] * 3
