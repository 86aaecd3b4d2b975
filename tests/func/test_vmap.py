"""``vmap``: where dimensions go, what may be returned, and random numbers under it."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
from _transform_programs import LIBRARIES, assert_same, library_named, warnings_of

import retrograd

Torch = Any
Pair = namedtuple("Pair", ["left", "right"])


@pytest.fixture(params=LIBRARIES)
def torch(request: pytest.FixtureRequest) -> Iterator[Torch]:
    library = library_named(request.param)
    with warnings_of(library):
        yield library


def numbers(torch: Torch, *shape: int) -> Any:
    size = 1
    for n in shape:
        size *= n
    return torch.sin(torch.arange(1, size + 1, dtype=torch.float64)).reshape(shape)


# -- dimensions ------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("outside", [0, 1, 2, -1, -2, -3])
def test_in_dims_and_out_dims(torch: Torch, inside: int, outside: int) -> None:
    x = numbers(torch, 2, 3, 4)
    found = torch.func.vmap(lambda a: a.cumsum(0), in_dims=inside, out_dims=outside)(x)
    rows = [a.cumsum(0) for a in x.movedim(inside, 0)]
    assert_same(found, torch.stack(rows, 0).movedim(0, outside), 0)


def test_each_argument_has_its_own_dimension(torch: Torch) -> None:
    vmap = torch.func.vmap
    a, b = numbers(torch, 2, 3), numbers(torch, 3, 2)
    assert_same(vmap(torch.dot, in_dims=(0, 1))(a, b), (a * b.mT).sum(1), 1e-15)
    assert_same(vmap(torch.dot, in_dims=(0, None))(a, b[:, 0]), a @ b[:, 0], 1e-15)
    assert_same(vmap(torch.dot, in_dims=(None, -1))(a[0], b), a[0] @ b, 1e-15)
    assert_same(vmap(lambda x, s: x * s, in_dims=(0, None))(a, 2.0), 2 * a, 0)
    outer = vmap(vmap(torch.mul, (None, 0)), (0, None))(a[0], b[0])
    assert_same(outer, torch.outer(a[0], b[0]), 0)
    crossed = vmap(vmap(torch.mul, (0, None)), (None, 0))(a[0], b[0])
    assert_same(crossed, torch.outer(a[0], b[0]).mT, 0)


def test_trees_of_dimensions(torch: Torch) -> None:
    vmap = torch.func.vmap
    a, b = numbers(torch, 2, 3), numbers(torch, 5)
    found = vmap(lambda d, s: d["a"][0] * s, in_dims=({"a": [1], "b": None}, None))(
        {"a": [a], "b": b}, 2.0
    )
    assert_same(found, 2 * a.mT, 0)
    # what is said of a branch holds for all leaves on it
    found = vmap(lambda d: d["a"][0] + d["a"][1] + d["b"].sum(), in_dims=({"a": 0, "b": None},))(
        {"a": [a, a], "b": b}
    )
    assert_same(found, 2 * a + b.sum(), 1e-15)
    assert_same(vmap(lambda pair: pair[0] * pair[1])([a, a]), a * a, 0)
    found = vmap(lambda pair: pair[0] * pair[1], in_dims=([0, 1],))([a, a.mT])
    assert_same(found, a * a, 0)
    found = vmap(lambda p: Pair(p.left * 2, p.right), in_dims=(Pair(0, 1),), out_dims=Pair(1, 0))(
        Pair(a, numbers(torch, 4, 2))
    )
    assert isinstance(found, Pair)
    assert_same(found.left, 2 * a.mT, 0)
    assert tuple(found.right.shape) == (2, 4)


def test_trees_of_results(torch: Torch) -> None:
    vmap, x = torch.func.vmap, numbers(torch, 2, 3)

    def f(a: Any) -> Any:
        return {"a": a, "b": [a * 2, (a.sum(),)]}

    found = vmap(f)(x)
    assert_same(found["a"], x, 0)
    assert_same(found["b"][1][0], x.sum(1), 1e-15)
    assert isinstance(found["b"][1], tuple)
    found = vmap(f, out_dims={"a": 1, "b": [-1, 0]})(x)
    assert_same(found["a"], x.mT, 0)
    assert_same(found["b"][0], 2 * x.mT, 0)
    found = vmap(lambda a: {"a": a, "b": [a, a]}, out_dims={"a": 0, "b": 1})(x)
    assert_same(found["b"][1], x.mT, 0)
    found = vmap(lambda a: (a, a), out_dims=(0, 1))(x)
    assert isinstance(found, tuple)
    assert_same(found[1], x.mT, 0)
    assert_same(vmap(lambda a: a, out_dims=(1,))(x), x.mT, 0)


def test_keywords_are_not_mapped(torch: Torch) -> None:
    x = numbers(torch, 3)
    found = torch.func.vmap(lambda a, *, k: a * k)(x, k=x)
    assert_same(found, torch.outer(x, x), 0)


def test_results_that_are_the_same_for_all(torch: Torch) -> None:
    vmap, x, c = torch.func.vmap, numbers(torch, 3), numbers(torch, 2)
    assert_same(vmap(lambda a: c)(x), c.expand(3, 2), 0)
    assert_same(vmap(lambda a: (a, c), out_dims=(0, None))(x)[1], c, 0)
    assert vmap(lambda a: (a, 5), out_dims=(0, None))(x)[1] == 5
    assert vmap(lambda a: (a, "name", None), out_dims=(0, None, None))(x)[1:] == ("name", None)
    assert_same(vmap(lambda a: torch.zeros(2))(x), torch.zeros(3, 2), 0)


def test_a_write_to_one_entry_of_a_derivative_leaves_the_others_alone(torch: Torch) -> None:
    func, x = torch.func, torch.ones(3, dtype=torch.float64)
    last = torch.tensor([False, False, True])
    for slope in (func.grad(lambda a: a * 2), func.jacfwd(lambda a: a * 2)):
        found = func.vmap(slope)(x)
        found[last] = 0.25
        assert_same(found, torch.tensor([2.0, 2.0, 0.25], dtype=torch.float64), 0)


def test_results_that_are_the_same_for_all_have_memory_of_their_own() -> None:
    c = retrograd.ones(2)
    found = retrograd.func.vmap(lambda a: c)(retrograd.ones(3))
    found[1] = 5.0  # PyTorch's result is expanded: a write reaches all entries, and c
    assert found.tolist() == [[1.0, 1.0], [5.0, 5.0], [1.0, 1.0]]
    assert c.tolist() == [1.0, 1.0]


def test_constant_results_may_have_their_batch_dimension_anywhere() -> None:
    """PyTorch reads foreign memory here: sizes like 34359738369, or the end of the process."""
    torch = retrograd
    c = numbers(torch, 3, 4)
    for dim in (-3, -2, -1, 0, 1, 2):
        found = torch.func.vmap(lambda a: c, out_dims=dim)(torch.ones(2))
        assert_same(found, torch.stack([c, c], dim), 0)


def test_inside_the_batch_cannot_be_seen(torch: Torch) -> None:
    seen: list[Any] = []

    def f(a: Any) -> Any:
        seen.append((
            tuple(a.shape), a.dim(), a.ndim, a.numel(), tuple(a.size()), a.size(-1), len(a),
            a.dtype == torch.float64, a.is_floating_point(),
        ))  # fmt: skip
        return a

    torch.func.vmap(f, in_dims=1)(numbers(torch, 2, 3, 4))
    assert seen == [((2, 4), 2, 2, 8, (2, 4), 4, 2, True, True)]  # called once


def test_mapping_over_nothing(torch: Torch) -> None:
    found = torch.func.vmap(lambda a: a.sin().sum(0, keepdim=True))(torch.zeros(0, 3))
    assert tuple(found.shape) == (0, 1)
    found = torch.func.vmap(lambda a: a * 2)(torch.zeros(3, 0))
    assert tuple(found.shape) == (3, 0)


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 100])
def test_chunks_give_the_same(torch: Torch, chunk_size: int) -> None:
    x, y = numbers(torch, 5, 3), numbers(torch, 3, 5)
    sizes: list[int] = []

    def f(a: Any, b: Any) -> Any:
        sizes.append(1)
        return {"outer": torch.outer(a, b), "sum": (a.sum() * b,)}

    dims = {"outer": -1, "sum": (0,)}
    whole = torch.func.vmap(f, in_dims=(0, 1), out_dims=dims)(x, y)
    calls = len(sizes)
    found = torch.func.vmap(f, in_dims=(0, 1), out_dims=dims, chunk_size=chunk_size)(x, y)
    assert len(sizes) - calls == -(-5 // chunk_size)
    assert_same(found["outer"], whole["outer"], 0)
    assert_same(found["sum"][0], whole["sum"][0], 0)
    same = torch.func.vmap(lambda a: torch.ones(2), chunk_size=chunk_size)(x)
    assert tuple(same.shape) == (5, 2)


def test_in_chunks_gradients_flow(torch: Torch) -> None:
    x = numbers(torch, 5)
    found = torch.func.grad(lambda x: torch.func.vmap(torch.sin, chunk_size=2)(x).sum())(x)
    assert_same(found, x.cos(), 1e-15)


# -- operations ------------------------------------------------------------------------------


def test_indexing_with_mapped_indices(torch: Torch) -> None:
    vmap, x = torch.func.vmap, numbers(torch, 2, 3)
    i = torch.tensor([0, 2])
    picked = torch.stack([x[0, 0], x[1, 2]])
    assert_same(vmap(lambda a, i: a[i])(x, i), picked, 0)
    assert_same(vmap(lambda i: x[0][i])(i), x[0, [0, 2]], 0)
    assert_same(vmap(lambda a: a[i])(x), x[:, [0, 2]], 0)
    assert_same(vmap(lambda a, i: a.index_select(0, i[None])[0])(x, i), picked, 0)
    assert_same(vmap(lambda a, i: a.gather(0, i[None])[0])(x, i), picked, 0)
    assert_same(vmap(lambda a, i: a.take(i))(x, i), picked, 0)
    one_hot = vmap(lambda i: torch.nn.functional.one_hot(i, 3))(i)
    assert one_hot.tolist() == [[1, 0, 0], [0, 0, 1]]
    written = vmap(lambda a, i: a.scatter(0, i[None], 9.0))(x, i)
    assert written[0, 0].item() == written[1, 2].item() == 9

    def write(a: Any, i: Any) -> Any:
        b = a.clone()
        b[i] = 7.0
        return b

    written = vmap(write)(x, i)
    assert written[0, 0].item() == written[1, 2].item() == 7
    assert_same(written[:, 1], x[:, 1], 0)


def test_comparisons_and_integers(torch: Torch) -> None:
    vmap, x = torch.func.vmap, torch.tensor([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
    assert vmap(lambda a: a.argmax())(x).tolist() == [0, 1]
    assert vmap(lambda a: a.sort().indices)(x).tolist() == [[1, 2, 0], [0, 2, 1]]
    assert vmap(lambda a: a > a.mean())(x).tolist() == [[True, False, False], [False, True, False]]
    assert vmap(lambda a: torch.where(a > 2, a, 0.0))(x).tolist() == [[3, 0, 0], [4, 6, 5]]
    assert vmap(lambda a: a.long() // 2)(x).tolist() == [[1, 0, 1], [2, 3, 2]]
    assert vmap(lambda a: (a == 6).any())(x).tolist() == [False, True]


def test_broadcasting_does_not_meet_the_batch(torch: Torch) -> None:
    """The batch of one operand must not line up with a dimension of the other."""
    vmap = torch.func.vmap
    a, b = numbers(torch, 3), numbers(torch, 3, 3)
    assert_same(vmap(lambda x, m: x + m, in_dims=(0, None))(a, b), a[:, None, None] + b, 0)
    assert_same(vmap(lambda x, m: x + m)(a, b), a[:, None] + b, 0)
    assert_same(vmap(lambda m, x: m * x)(b.expand(3, 3, 3), b), b * b[:, None, :], 0)
    assert_same(vmap(lambda x, m: m @ x, in_dims=(0, None))(b, b), b @ b.mT, 1e-15)
    assert_same(vmap(lambda x: torch.stack([x, a]))(b)[1], torch.stack([b[1], a]), 0)
    assert_same(vmap(lambda x: torch.cat([a, x]))(b)[2], torch.cat([a, b[2]]), 0)
    assert_same(vmap(lambda x: torch.einsum("i,j->ij", x, a))(b)[1], torch.outer(b[1], a), 0)


def test_scalars_promote_as_outside(torch: Torch) -> None:
    """A tensor without dimensions does not raise the dtype of one with; nor does it mapped."""
    wide = torch.ones(2, dtype=torch.float64)
    narrow = torch.ones(2, 3)
    found = torch.func.vmap(lambda s, v: s * v)(wide, narrow)
    assert found.dtype == torch.float32
    assert torch.func.vmap(lambda s: s * 2.5)(torch.tensor([1, 2])).dtype == torch.float32


def test_gradients_of_what_was_mapped(torch: Torch) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    torch.func.vmap(lambda a: a**2)(x).sum().backward()
    assert x.grad.tolist() == [2, 4, 6]
    w = torch.tensor([2.0, 3.0])
    found = torch.func.grad(lambda w: torch.func.vmap(lambda a: (a * w).sum())(x.detach()).sum())(w)
    assert found.tolist() == [6, 6]


# -- random numbers --------------------------------------------------------------------------

SAMPLERS = {
    "rand": "torch.rand(50)",
    "randn": "torch.randn(50)",
    "randint": "torch.randint(0, 1000, (50,))",
    "randperm": "torch.randperm(50)",
    "rand_like": "torch.rand_like(x)",
    "dropout": "torch.nn.functional.dropout(x + 1)",
    "bernoulli": "torch.bernoulli(torch.full((50,), 0.5))",
    "normal_": "x.clone().normal_()",
    "multinomial": "torch.multinomial(torch.ones(50), 20)",
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_randomness(torch: Torch, sampler: str) -> None:
    vmap, x = torch.func.vmap, torch.ones(4, 50)

    def f(x: Any) -> Any:
        return eval(SAMPLERS[sampler], {"torch": torch, "x": x})

    with pytest.raises(RuntimeError, match="called random operation while in randomness error"):
        vmap(f)(x)
    same = vmap(f, randomness="same")(x)
    assert bool((same == same[0]).all())
    assert len(set(same[0].tolist())) > 1
    different = vmap(f, randomness="different")(x)
    assert len({tuple(row) for row in different.tolist()}) == 4


def test_the_same_numbers_are_those_drawn_outside(torch: Torch) -> None:
    torch.manual_seed(5)
    found = torch.func.vmap(lambda x: torch.rand(3), randomness="same")(torch.ones(4))
    torch.manual_seed(5)
    assert_same(found[2], torch.rand(3), 0)
    torch.manual_seed(5)
    found = torch.func.vmap(lambda x: torch.rand(3), randomness="different")(torch.ones(4))
    torch.manual_seed(5)
    assert_same(found, torch.rand(4, 3), 0)


def test_randomness_of_nested_maps(torch: Torch) -> None:
    vmap, x = torch.func.vmap, torch.zeros(4, 5)

    def f(x: Any) -> Any:
        return torch.rand(3)

    found = vmap(vmap(f, randomness="same"), randomness="different")(x)
    assert tuple(found.shape) == (4, 5, 3)
    assert bool((found == found[:, :1]).all())
    assert len(set(found.flatten().tolist())) == 12
    found = vmap(vmap(f, randomness="different"), randomness="same")(x)
    assert bool((found == found[:1]).all())
    assert len(set(found.flatten().tolist())) == 15
    for outer, inner in (("error", "same"), ("same", "error")):
        with pytest.raises(RuntimeError, match="randomness error mode"):
            vmap(vmap(f, randomness=inner), randomness=outer)(x)


def test_randomness_in_chunks(torch: Torch) -> None:
    def draw(randomness: str) -> Any:
        f = torch.func.vmap(lambda x: torch.rand(3), randomness=randomness, chunk_size=2)
        return f(torch.zeros(5))

    same = draw("same")
    assert bool((same == same[0]).all())
    assert len(set(draw("different").flatten().tolist())) == 15


def test_what_draws_nothing_is_no_random_operation(torch: Torch) -> None:
    F, x = torch.nn.functional, torch.ones(2, 3)
    assert torch.func.vmap(lambda x: F.dropout(x, training=False))(x).tolist() == x.tolist()


def test_the_mask_of_dropout_is_that_of_its_gradient(torch: Torch) -> None:
    F, x = torch.nn.functional, torch.ones(3, 40)

    def f(x: Any) -> Any:
        return F.dropout(x, 0.5).sum()

    gradients = torch.func.vmap(torch.func.grad_and_value(f), randomness="different")(x)
    assert_same(gradients[0].sum(1), gradients[1], 1e-6)
    assert {0.0, 2.0} == set(gradients[0].flatten().tolist())
    assert len({tuple(row) for row in gradients[0].tolist()}) == 3
