"""Random numbers as users draw them: the right distributions, seeds, generators and versions.

That they are PyTorch's own numbers is tested by the samples and in ``test_random.py``. Here is what
must hold without PyTorch.
"""

from __future__ import annotations

import copy
import math
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from scipy import stats

import retrograd as torch

MANY = 20_000


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(12345)


def filled(method: str, *arguments: Any, dtype: Any = torch.float64) -> np.ndarray:
    return np.asarray(getattr(torch.empty(MANY, dtype=dtype), method)(*arguments).numpy())


# -- distributions ---------------------------------------------------------------------------

CONTINUOUS = {
    "uniform_": ((-1.0, 3.0), stats.uniform(-1, 4)),
    "normal_": ((2.0, 0.5), stats.norm(2, 0.5)),
    "exponential_": ((2.5,), stats.expon(scale=0.4)),
    "cauchy_": ((1.0, 2.0), stats.cauchy(1, 2)),
    "log_normal_": ((0.5, 0.25), stats.lognorm(0.25, scale=math.exp(0.5))),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("method", CONTINUOUS)
def test_continuous_distribution(method: str, dtype: Any) -> None:
    arguments, expected = CONTINUOUS[method]
    drawn = filled(method, *arguments, dtype=dtype)
    assert stats.kstest(drawn, expected.cdf).pvalue > 1e-4


def frequencies_fit(drawn: np.ndarray, probability: Any) -> bool:
    """Whether counts of whole numbers fit a distribution (chi squared)."""
    values, counts = np.unique(drawn, return_counts=True)
    expected = np.array([probability(v) for v in values]) * drawn.size
    often = expected > 5
    rest = drawn.size - counts[often].sum(), drawn.size - expected[often].sum()
    observed = np.append(counts[often], rest[0])
    wanted = np.append(expected[often], rest[1])
    keep = wanted > 1
    statistic = ((observed[keep] - wanted[keep]) ** 2 / wanted[keep]).sum()
    return bool(stats.chi2.sf(statistic, max(keep.sum() - 1, 1)) > 1e-4)


DISCRETE = {
    "geometric": (lambda: filled("geometric_", 0.3), stats.geom(0.3).pmf),
    "bernoulli": (lambda: filled("bernoulli_", 0.3), stats.bernoulli(0.3).pmf),
    "integers": (lambda: filled("random_", 3, 10), stats.randint(3, 10).pmf),
    "few": (lambda: torch.poisson(torch.full((MANY,), 2.5)).numpy(), stats.poisson(2.5).pmf),
    "many": (lambda: torch.poisson(torch.full((MANY,), 30.0)).numpy(), stats.poisson(30).pmf),
    "rare": (lambda: binomial(12, 0.2), stats.binom(12, 0.2).pmf),
    "usual": (lambda: binomial(60, 0.9), stats.binom(60, 0.9).pmf),
    "halves": (lambda: binomial(100, 0.5), stats.binom(100, 0.5).pmf),
}


def binomial(count: float, chance: float) -> np.ndarray:
    counts = torch.full((MANY,), float(count))
    return np.asarray(torch.binomial(counts, torch.full((MANY,), chance)).numpy())


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distribution(name: str) -> None:
    draw, probability = DISCRETE[name]
    assert frequencies_fit(draw(), probability)


@pytest.mark.parametrize("replacement", [True, False])
def test_choices_are_made_in_proportion_to_their_weights(replacement: bool) -> None:
    weights = torch.tensor([1.0, 0.0, 3.0, 4.0])
    first = torch.multinomial(weights.expand(MANY, 4), 2, replacement)[:, 0].numpy()
    assert frequencies_fit(first, lambda v: weights[int(v)].item() / 8)


def test_nothing_is_chosen_twice_without_replacement() -> None:
    chosen = torch.multinomial(torch.rand(200, 9), 5).numpy()
    assert all(len(set(row)) == 5 for row in chosen.tolist())


def test_a_choice_of_weight_zero_is_never_made() -> None:
    chosen = torch.multinomial(torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0]), 5000, True)
    assert set(chosen.tolist()) == {1, 3}


def test_normals_of_many_means_and_deviations() -> None:
    means, deviations = torch.arange(MANY, dtype=torch.float64), torch.rand(MANY).double() + 0.5
    drawn = (torch.normal(means, deviations) - means) / deviations
    assert stats.kstest(drawn.numpy(), "norm").pvalue > 1e-4


def test_huge_counts_are_finite() -> None:
    drawn = torch.poisson(torch.tensor([1e9, 1e6, 0.0], dtype=torch.float64))
    assert abs(drawn[0].item() / 1e9 - 1) < 1e-3
    assert drawn[2].item() == 0
    assert 0 <= binomial(1e9, 1e-12).max() < 5


# -- seeds and generators --------------------------------------------------------------------


def some(generator: Any = None) -> list[Any]:
    """A little of everything that can be drawn."""
    chances = torch.linspace(0.1, 0.9, 20)
    return [
        torch.rand(3, generator=generator), torch.randn(3, generator=generator),
        torch.randn(40, generator=generator), torch.randint(9, (4,), generator=generator),
        torch.randperm(6, generator=generator), torch.bernoulli(chances, generator=generator),
        torch.poisson(20 * chances, generator=generator),
        torch.multinomial(chances, 5, generator=generator),
        torch.multinomial(chances, 5, True, generator=generator),
        torch.normal(chances, 1.0, generator=generator),
        torch.binomial(100 * chances, chances, generator=generator),
        torch.empty(5).exponential_(generator=generator),
        torch.empty(5).cauchy_(generator=generator),
        torch.rand_like(chances, generator=generator),
        torch.randint_like(chances, 7, generator=generator),
    ]  # fmt: skip


def same(left: list[Any], right: list[Any]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def test_a_seed_brings_everything_back() -> None:
    torch.manual_seed(3)
    first = some()
    torch.manual_seed(3)
    assert same(first, some())
    assert not same(first, some())


def test_a_generator_of_ones_own_leaves_the_default_one_alone() -> None:
    before = torch.get_rng_state()
    first = some(torch.Generator().manual_seed(3))
    assert torch.equal(before, torch.get_rng_state())
    assert same(first, some(torch.Generator().manual_seed(3)))


def test_states_are_tensors() -> None:
    generator = torch.Generator().manual_seed(3)
    some(generator)
    state = generator.get_state()
    assert isinstance(state, torch.Tensor)
    assert state.dtype is torch.uint8
    first = some(generator)
    assert same(first, some(torch.Generator().set_state(state)))
    for duplicate in (copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))):
        assert same(some(generator.clone_state()), some(duplicate))
    assert torch.default_generator.get_state().tolist() == torch.get_rng_state().tolist()
    assert str(generator.device) == "cpu"


def test_fork_rng_restores_even_after_an_error() -> None:
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), torch.random.fork_rng():
        torch.rand(7)
        raise ZeroDivisionError
    assert torch.equal(before, torch.get_rng_state())
    with torch.random.fork_rng(enabled=False):
        torch.rand(7)
    assert not torch.equal(before, torch.get_rng_state())


def test_the_module_random_has_the_same_functions() -> None:
    assert torch.random.manual_seed(5) is torch.default_generator
    assert torch.random.initial_seed() == torch.initial_seed() == 5
    assert torch.random.seed() == torch.initial_seed()
    torch.random.set_rng_state(torch.random.get_rng_state())


def test_threads_share_the_default_generator_without_repeating_it() -> None:
    torch.manual_seed(1)
    alone = torch.rand(8 * 50 * 10).tolist()
    torch.manual_seed(1)
    drawn: list[float] = []

    def work() -> None:
        for _ in range(50):
            drawn.extend(torch.rand(10).tolist())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(drawn) == sorted(alone)


def test_counts_drawn_in_threads_take_the_stream_in_turns() -> None:
    rates = torch.full((40,), 3.0)
    torch.manual_seed(1)
    alone = [tuple(torch.poisson(rates).tolist()) for _ in range(40)]
    torch.manual_seed(1)
    drawn: list[tuple[float, ...]] = []

    def work() -> None:
        for _ in range(10):
            drawn.append(tuple(torch.poisson(rates).tolist()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(drawn) == sorted(alone)


# -- in place --------------------------------------------------------------------------------

IN_PLACE = ("uniform_", "normal_", "exponential_", "cauchy_", "log_normal_", "random_",
            "bernoulli_")  # fmt: skip


@pytest.mark.parametrize("method", IN_PLACE)
def test_filling_bumps_the_version_and_ends_the_history(method: str) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    version = y._version
    assert getattr(y, method)() is y
    assert y._version == version + 1
    (y * 3).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("method", IN_PLACE)
def test_a_leaf_is_filled_only_unrecorded(method: str) -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        getattr(x, method)()
    with torch.no_grad():
        getattr(x, method)()
    assert x.is_leaf
    assert x.requires_grad


def test_a_saved_value_that_is_filled_is_noticed() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    y.uniform_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_a_view_is_filled_in_its_base() -> None:
    base = torch.zeros(3, 4)
    base[:, 1].uniform_(5, 6)
    assert (base[:, 1] >= 5).all()
    assert base.sum().item() == base[:, 1].sum().item()


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0, 2.0**-30, 1 - 2.0**-30, 0.1])
def test_the_quick_way_to_compare_with_p_is_right(p: float) -> None:
    torch.manual_seed(9)
    quick = torch.empty(5000).bernoulli_(p)
    torch.manual_seed(9)
    assert torch.equal(quick, (torch.rand(5000, dtype=torch.float64) < p).float())


def test_masks_for_dropout() -> None:
    from retrograd.ops import sampling

    torch.manual_seed(4)
    drawn = torch.empty(6, 5).bernoulli_(0.7).numpy()
    torch.manual_seed(4)
    np.testing.assert_array_equal(sampling.keep_mask((6, 5), 0.7, np.zeros(1, "float32")), drawn)
    torch.manual_seed(4)
    layout = np.empty((5, 6), np.float32).T
    laid_out = sampling.keep_mask_like(layout, 0.7)
    np.testing.assert_array_equal(laid_out.T.ravel(), drawn.ravel())
