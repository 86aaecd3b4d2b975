"""Divergences of all pairs of classes that PyTorch has one for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import retrograd as ours

theirs = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")

REGISTERED = sorted((p.__name__, q.__name__) for p, q in theirs.distributions.kl._KL_REGISTRY)


def samples(d: Any, p: Any) -> dict[str, list[Any]]:
    """Two or more distributions of each class. The second is what the first is compared with."""
    matrix = p([2.0, 0.5], [0.5, 1.0])
    return {
        "Bernoulli": [d.Bernoulli(p(0.3, 0.9, 0.0)), d.Bernoulli(p(0.5, 0.2, 0.4))],
        "Beta": [d.Beta(p(0.5, 2.0), p(3.0, 1.0)), d.Beta(p(1.5, 1.0), p(2.0, 4.0))],
        "Binomial": [d.Binomial(4, p(0.3, 0.9)), d.Binomial(4, p(0.5, 0.2))],
        "Categorical": [d.Categorical(p([0.2, 0.8], [1.0, 0.0])), d.Categorical(p(0.5, 0.5))],
        "Cauchy": [d.Cauchy(p(0.0, 1.0), p(1.0, 2.0)), d.Cauchy(p(1.0, 3.0), p(0.5, 1.0))],
        "ContinuousBernoulli": [
            d.ContinuousBernoulli(p(0.3, 0.9)),
            d.ContinuousBernoulli(p(0.5, 0.2)),
        ],
        "Dirichlet": [d.Dirichlet(p(0.3, 2.0)), d.Dirichlet(p(1.0, 1.5))],
        "Exponential": [d.Exponential(p(0.5, 2.0)), d.Exponential(p(1.5, 1.0))],
        "ExponentialFamily": [d.Poisson(p(0.5, 2.0)), d.Poisson(p(1.5, 1.0))],
        "Gamma": [d.Gamma(p(0.5, 2.0), p(3.0, 1.0)), d.Gamma(p(1.5, 1.0), p(2.0, 4.0))],
        "Geometric": [d.Geometric(p(0.3, 0.9)), d.Geometric(p(0.5, 0.2))],
        "Gumbel": [d.Gumbel(p(0.5, 2.0), p(3.0, 1.0)), d.Gumbel(p(1.5, 1.0), p(2.0, 4.0))],
        "HalfNormal": [d.HalfNormal(p(0.5, 2.0)), d.HalfNormal(p(1.5, 1.0))],
        "Independent": [
            d.Independent(d.Normal(p(0.0, 1.0), p(1.0, 2.0)), 1),
            d.Independent(d.Normal(p(1.0, 1.0), p(2.0, 0.5)), 1),
        ],
        "Laplace": [d.Laplace(p(0.5, 2.0), p(3.0, 1.0)), d.Laplace(p(1.5, 1.0), p(2.0, 4.0))],
        "LowRankMultivariateNormal": [
            d.LowRankMultivariateNormal(p(0.0, 1.0), p([1.0], [0.5]), p(1.0, 2.0)),
            d.LowRankMultivariateNormal(p([1.0, 1.0], [0.0, 0.0]), p([0.3], [-0.5]), p(0.5, 1.0)),
        ],
        "MultivariateNormal": [
            d.MultivariateNormal(p(0.0, 1.0), matrix),
            d.MultivariateNormal(p([1.0, 1.0], [0.0, 0.0]), scale_tril=p([1.0, 0.0], [0.3, 2.0])),
        ],
        "Normal": [d.Normal(p(0.5, 2.0), p(3.0, 1.0)), d.Normal(p(1.5, 1.0), p(2.0, 4.0))],
        "OneHotCategorical": [
            d.OneHotCategorical(p([0.2, 0.8], [0.9, 0.1])),
            d.OneHotCategorical(p(0.5, 0.5)),
        ],
        "Pareto": [
            d.Pareto(p(1.0, 2.0, 1.5), p(3.0, 0.9, 1.7)),
            d.Pareto(p(0.2, 1.0, 3.0), p(1.0, 2.0, 2.0)),
        ],
        "Poisson": [d.Poisson(p(0.5, 2.0)), d.Poisson(p(1.5, 1.0))],
        "TransformedDistribution": [
            d.LogNormal(p(0.0, 1.0), p(1.0, 2.0)),
            d.LogNormal(p(1.0, 1.0), p(0.5, 2.0)),
        ],
        "Uniform": [
            d.Uniform(p(0.2, 0.1, 0.3), p(0.5, 0.9, 0.8)),
            d.Uniform(p(-1.0, 0.3, -2.0), p(2.0, 3.0, 2.0)),
        ],
    }


def divergence(library: Any, pair: tuple[str, str]) -> tuple[Any, list[Any]]:
    parameters: list[Any] = []

    def parameter(*values: Any) -> Any:
        tensor = library.tensor(list(values), dtype=library.float64, requires_grad=True)
        parameters.append(tensor)
        return tensor

    made = samples(library.distributions, parameter)
    p, q = made[pair[0]][0], made[pair[1]][1]
    if p.batch_shape and q.batch_shape and p.batch_shape[-1] != q.batch_shape[-1]:
        size = min(p.batch_shape[-1], q.batch_shape[-1])
        p, q = (_first(library, x, size) for x in (p, q))
    value = library.distributions.kl_divergence(p, q)
    finite = value[value.isfinite()]
    weights = library.arange(1.0, 1 + finite.numel(), dtype=finite.dtype)
    if not finite.requires_grad or not finite.numel():
        return value.detach().numpy(), []
    found = library.autograd.grad((finite * weights).sum(), parameters, allow_unused=True)
    return value.detach().numpy(), [None if g is None else g.numpy() for g in found]


def _first(library: Any, d: Any, size: int) -> Any:
    """A distribution of the first of a batch."""
    if type(d).__name__ in ("Pareto", "Uniform"):
        names = ("scale", "alpha") if type(d).__name__ == "Pareto" else ("low", "high")
        return type(d)(*(getattr(d, name)[:size] for name in names))
    if type(d).__name__ == "Bernoulli":
        return type(d)(d.probs[:size])
    return d


@pytest.mark.parametrize("pair", REGISTERED, ids="-".join)
def test_every_pair(pair: tuple[str, str]) -> None:
    (found, found_grads), (expected, expected_grads) = (divergence(x, pair) for x in (ours, theirs))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    for mine, other in zip(found_grads, expected_grads, strict=True):
        if mine is None or other is None:
            rest = mine if other is None else other
            assert rest is None or not rest.any()
        elif not np.isnan(other).any():  # PyTorch's gradient beside an infinite divergence is NaN
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)


def test_the_same_pairs_are_there() -> None:
    registry = ours.distributions.kl._KL_REGISTRY
    pairs = [(p.__name__, q.__name__) for p, q in registry]
    known = [pair for pair in pairs if hasattr(ours.distributions, pair[0])]
    assert sorted(known) == REGISTERED  # without those that examples register


@pytest.mark.parametrize("pair", [
    ("Beta", "Normal"), ("Gamma", "Gumbel"), ("Gumbel", "Normal"), ("Laplace", "Normal"),
    ("Normal", "Laplace"), ("Normal", "Gumbel"), ("Uniform", "Beta"), ("Uniform", "Gamma"),
    ("Uniform", "Gumbel"), ("Beta", "Gamma"), ("Exponential", "Gumbel"), ("Cauchy", "Cauchy"),
], ids="-".join)  # fmt: skip
def test_a_divergence_is_a_mean(pair: tuple[str, str]) -> None:
    """Of the difference of log-densities, over many draws."""
    made = samples(ours.distributions, lambda *v: ours.tensor(list(v), dtype=ours.float64))
    p, q = (_first(ours, made[name][i], 2) for i, name in enumerate(pair))
    ours.manual_seed(0)
    x = p.sample((4000,))
    terms = p.log_prob(x) - q.log_prob(x.clamp(1e-12) if pair[1] in ("Gamma", "Beta") else x)
    error = 5 * terms.std(0) / math.sqrt(4000)
    assert ((terms.mean(0) - ours.distributions.kl_divergence(p, q)).abs() <= error).all()


def test_where_pytorch_is_wrong_about_the_ends_of_an_interval() -> None:
    d = ours.distributions
    p, q = d.ContinuousBernoulli(ours.tensor(0.3)), d.Uniform(ours.tensor(0.0), ours.tensor(1.0))
    assert abs(float(d.kl_divergence(p, q) + p.entropy())) < 1e-6
    assert d.kl_divergence(q, p).isfinite()
    wide = d.Uniform(ours.tensor(0.5), ours.tensor(2.0))
    assert d.kl_divergence(p, wide) == math.inf
    assert d.kl_divergence(wide, p) == math.inf


def test_registering() -> None:
    d = ours.distributions

    class Mine(d.Normal):
        pass

    assert float(d.kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0))) == 0.5
    d.register_kl(Mine, d.Normal)(lambda p, q: "left")
    d.register_kl(d.Normal, Mine)(lambda p, q: "right")
    try:
        assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(0.0, 1.0)) == "left"
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Mine, Mine\)"):
            assert d.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)) == "left"
    finally:
        del d.kl._KL_REGISTRY[Mine, d.Normal], d.kl._KL_REGISTRY[d.Normal, Mine]
        d.kl._KL_MEMOIZE.clear()
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass"):
        d.register_kl(int, d.Normal)
