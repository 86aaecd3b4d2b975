"""What ``vmap`` and forward mode do where a value, not only its shape, matters: questions that are
answered with Python's numbers, new tensors made like others, dtypes of single numbers, results as
many as values say, and slopes at special points."""

from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.func import grad, jacfwd, jvp, vmap

CONTROL_FLOW = "data-dependent control flow"
X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


# -- questions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda v: bool((v > 0).all()), lambda v: torch.allclose(v, v), lambda v: torch.equal(v, v),
        lambda v: torch.is_nonzero(v[0]), lambda v: v if v.sum() > 0 else -v,
        lambda v: bool(torch.any(v > 2)), lambda v: bool(torch.isnan(v).any()),
    ],
)  # fmt: skip
def test_no_answer_for_a_whole_batch(ask: Any) -> None:
    with pytest.raises(RuntimeError, match=CONTROL_FLOW):
        vmap(ask)(X)


def test_answers_that_are_the_same_for_all_entries_and_under_forward_mode() -> None:
    shared = torch.ones(3)
    found = vmap(lambda v: v * (2 if torch.allclose(shared, torch.ones(3)) else 0))(X)
    assert found.tolist() == (2 * X).tolist()

    def branch(x: Any) -> Any:
        assert torch.equal(x, x)
        assert not torch.equal(x, x[:1])
        return x * x if torch.allclose(x, x) and (x > 0).all() else -x

    assert jvp(branch, (X[0],), (torch.ones(3),))[1].tolist() == [2.0, 4.0, 6.0]


def test_bincount_of_a_batch() -> None:
    numbers = torch.tensor([[0, 1, 1], [2, 0, 0]])
    with pytest.raises(RuntimeError, match=r"dynamic shape.*aten::bincount.*scatter_add"):
        vmap(torch.bincount)(numbers)
    found = vmap(lambda w: torch.bincount(numbers[0], w, minlength=4))(X)
    assert found.tolist() == [[1.0, 5.0, 0.0, 0.0], [4.0, 11.0, 0.0, 0.0]]
    slope = vmap(grad(lambda w: (torch.bincount(numbers[0], w) ** 2).sum()))(X)
    assert slope.tolist() == [[2.0, 10.0, 10.0], [8.0, 22.0, 22.0]]


def test_histograms_have_a_range_for_each_entry() -> None:
    counts, edges = vmap(lambda v: tuple(torch.histogram(v, 2)))(X)
    assert counts.tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert edges.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert vmap(lambda v: torch.histc(v, 2))(X).tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert vmap(lambda v: torch.histc(v, 3, 0, 6))(X).tolist() == [[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]


# -- new tensors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda v: v.new_zeros(2), lambda v: v.new_full((2,), 0.0), lambda v: v.new_tensor([0.0, 0]),
        lambda v: torch.zeros_like(v[:2]), lambda v: torch.full_like(v[:2], 0.0),
        lambda v: v.new_ones(2) - 1, lambda v: torch.empty_like(v[:2]).zero_(),
        lambda v: v.new_empty(2).fill_(0), lambda v: torch.ones_like(v[:2]).sub_(1),
    ],
)  # fmt: skip
def test_what_is_made_like_a_batched_tensor_can_be_written(make: Any) -> None:
    def function(v: Any) -> Any:
        made = make(v)
        made[1] = v[0]
        return made.add_(v[1])

    assert vmap(function)(X).tolist() == [[2.0, 3.0], [5.0, 9.0]]
    twice = vmap(vmap(function))(torch.stack([X, 2 * X]))
    assert twice.tolist() == [[[2.0, 3.0], [5.0, 9.0]], [[4.0, 6.0], [10.0, 18.0]]]
    gradient = vmap(grad(lambda v: (function(v) ** 2).sum()))(X)
    assert gradient.tolist() == [[6.0, 10.0, 0.0], [18.0, 28.0, 0.0]]


def test_what_is_made_of_nothing_is_the_same_for_all_entries() -> None:
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        vmap(lambda v: torch.zeros(3).add_(v))(X)
    assert vmap(lambda v: torch.zeros(3).add_(1) + v)(X).tolist() == (X + 1).tolist()
    with pytest.raises(RuntimeError, match=r"calling \.item\(\)"):
        vmap(lambda v: torch.full_like(v, v[0]))(X)
    with pytest.raises(RuntimeError, match=r"calling \.item\(\)"):
        vmap(lambda v: torch.tensor([v[0], v[1]]))(X)


def test_what_is_made_like_a_tensor_that_moves_does_not() -> None:
    makers = [torch.zeros_like, torch.ones_like, torch.rand_like, lambda x: x.new_ones(3),
              lambda x: x.new_tensor([1.0, 1, 1]), lambda x: torch.full_like(x, x[0])]  # fmt: skip
    for make in makers:
        tangent = jvp(lambda x, make=make: make(x), (X[0],), (torch.ones(3),))[1]
        assert tangent.tolist() == [0.0, 0.0, 0.0]
        moved = jvp(lambda x, make=make: make(x).copy_(x * x), (X[0],), (torch.ones(3),))[1]
        assert moved.tolist() == [2.0, 4.0, 6.0]


# -- dtypes ----------------------------------------------------------------------------------


def test_single_numbers_keep_to_the_dtype_of_tensors_with_dimensions() -> None:
    narrow, wide = torch.ones(2, 3), torch.ones(2, dtype=torch.float64)
    assert vmap(lambda a, b: a + b)(narrow, wide).dtype is torch.float32
    assert vmap(lambda a, b: torch.where(a > 0, a, b))(narrow, wide).dtype is torch.float32
    assert vmap(lambda b: torch.ones(3) * b)(wide).dtype is torch.float32
    assert vmap(lambda b: torch.ones(3, dtype=torch.int64) * b)(wide).dtype is torch.float64
    whole = torch.tensor([2, 3])
    slope = vmap(grad(lambda e, b: b**e))(torch.tensor([2.0, 2.0], dtype=torch.float64), whole)
    np.testing.assert_allclose(np.asarray(slope), [4 * np.log(2), 9 * np.log(3)], rtol=1e-15)


def test_one_number_filled_in_for_each_entry() -> None:
    masks = torch.tensor([True, False, True])
    found = vmap(lambda v: v.masked_fill(masks, v[1]))(X)
    assert found.tolist() == [[2.0, 2.0, 2.0], [5.0, 5.0, 5.0]]
    square = torch.arange(8.0).reshape(2, 2, 2)
    last = [[[3.0] * 2] * 2, [[7.0] * 2] * 2]
    assert vmap(lambda m: m.clone().fill_(m[1, 1]))(square).tolist() == last
    assert vmap(lambda m: torch.fill(m, m[1, 1]))(square).tolist() == last
    first_rows = [[[0.0, 1.0]] * 2, [[4.0, 5.0]] * 2]
    assert vmap(lambda m: m.clone().copy_(m[0]))(square).tolist() == first_rows


# -- special points --------------------------------------------------------------------------


def test_tangents_of_equal_extremes_are_shared() -> None:
    x, t = torch.tensor([3.0, 1.0, 3.0]), torch.tensor([1.0, 10.0, 2.0])
    for extreme in (torch.amax, torch.max, lambda v: torch.amax(v, 0, keepdim=True)[0]):
        assert jvp(extreme, (x,), (t,))[1].item() == 1.5
    assert vmap(grad(torch.median))(torch.tensor([[2.0, 2.0, 5.0], [1.0, 4.0, 9.0]])).tolist() == [
        [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]  # fmt: skip
    batch = torch.tensor([[2.0, 2.0, 5.0], [1.0, 4.0, 9.0]], requires_grad=True)
    vmap(torch.median)(batch).sum().backward()
    assert batch.grad.tolist() == [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]


def test_norms_and_deviations_of_nothing_but_zeros_do_not_move() -> None:
    zeros, ones = torch.zeros(3), torch.ones(3)
    for size in (torch.linalg.vector_norm, torch.std, lambda v: torch.linalg.vector_norm(v, 1.5),
                 lambda v: torch.dist(v, zeros), lambda v: torch.std_mean(v)[0]):  # fmt: skip
        assert jvp(size, (zeros,), (ones,))[1].item() == 0


def test_products_with_zeros_in_some_entries_only() -> None:
    batch = torch.tensor([[1.0, 2.0, 3.0], [0.0, 2.0, 3.0], [0.0, 0.0, 3.0]], dtype=torch.float64)
    expected = [[6.0, 3.0, 2.0], [6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert vmap(grad(torch.prod))(batch).tolist() == expected
    assert vmap(jacfwd(torch.prod))(batch).tolist() == expected
    running = vmap(grad(lambda v: v.cumprod(0).sum()))(batch)
    assert running.tolist() == [[9.0, 4.0, 2.0], [9.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    second = vmap(jacfwd(grad(torch.prod)))(batch)
    assert second.tolist() == [
        [[0.0, 3.0, 2.0], [3.0, 0.0, 1.0], [2.0, 1.0, 0.0]],
        [[0.0, 3.0, 2.0], [3.0, 0.0, 0.0], [2.0, 0.0, 0.0]],
        [[0.0, 3.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    ]


@pytest.mark.parametrize("z", [2 + 0j, complex(2, -0.0), -2 + 0j, complex(-2, -0.0), 0.5 + 0j])
@pytest.mark.parametrize("name", ["asin", "acos", "acosh"])
def test_both_modes_mean_the_same_side_of_a_cut(name: str, z: complex) -> None:
    function = getattr(torch, name)
    point, one = torch.tensor(z, dtype=torch.complex128), torch.tensor(1 + 0j).to(torch.complex128)
    slope = jvp(function, (point,), (one,))[1].item()
    away = 1e-7j if np.signbit(z.imag) == np.signbit(0.0) else -1e-7j
    values = [function(point + k * away).item() for k in (1, 2)]
    assert slope == pytest.approx((values[1] - values[0]) / away, abs=1e-5)
    leaf = point.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(leaf), leaf, one)
    assert gradient.item() == pytest.approx(slope.conjugate(), abs=1e-12)


def test_mixed_derivative_of_a_power_where_its_exponent_is_zero() -> None:
    x, y = torch.tensor(2.0, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    by_x_then_y = grad(lambda y: grad(torch.pow)(x, y))(y)
    by_y_then_x = grad(lambda x: grad(torch.pow, 1)(x, y))(x)
    assert by_x_then_y.item() == by_y_then_x.item() == 0.5
    assert jvp(lambda y: grad(torch.pow)(x, y), (y,), (torch.ones_like(y),))[1].item() == 0.5
