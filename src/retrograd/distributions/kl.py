"""Kullback-Leibler divergences of pairs of distributions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import retrograd as torch
from retrograd.distributions._categorical import Categorical, OneHotCategorical
from retrograd.distributions._compound import Independent, TransformedDistribution
from retrograd.distributions._counts import Bernoulli, Binomial, Geometric, Poisson
from retrograd.distributions._gamma import Beta, Dirichlet, Gamma
from retrograd.distributions._multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    mahalanobis,
)
from retrograd.distributions._real import Cauchy, Exponential, Laplace, Normal, Uniform
from retrograd.distributions._relaxed import ContinuousBernoulli
from retrograd.distributions._transformed import Gumbel, HalfNormal, Pareto
from retrograd.distributions.distribution import Distribution, ExponentialFamily
from retrograd.distributions.utils import euler_constant, sum_rightmost
from retrograd.nn import functional

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Any]
_KL_REGISTRY: dict[tuple[type, type], Rule] = {}
_KL_MEMOIZE: dict[tuple[type, type], Rule | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """Registers a function for the divergence of a pair of classes, as a decorator.

    Args:
        type_p: a class of distributions.
        type_q: a class of distributions.

    Returns:
        The decorator.

    Example:
        >>> class Mine(Normal): pass
        >>> @register_kl(Mine, Mine)
        ... def rule(p, q): return torch.zeros(())
        >>> kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0))
        tensor(0.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type) or not issubclass(kind, Distribution):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorator(rule: Rule) -> Rule:
        _KL_REGISTRY[type_p, type_q] = rule
        _KL_MEMOIZE.clear()
        return rule

    return decorator


def kl_divergence(p: Any, q: Any) -> Any:
    """Returns the Kullback-Leibler divergence of two distributions.

    Args:
        p: the distribution that the mean is taken over.
        q: the distribution that it is compared with.

    Returns:
        A tensor of the batch shape.

    Example:
        >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
        tensor(0.5000)
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _most_specific(*pair)
    rule = _KL_MEMOIZE[pair]
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {pair[0].__name__} and q type "
            f"{pair[1].__name__}"
        )
    return rule(p, q)


def _most_specific(type_p: type, type_q: type) -> Rule | None:
    """The rule of the nearest classes above the two."""
    matches = [(a, b) for a, b in _KL_REGISTRY if issubclass(type_p, a) and issubclass(type_q, b)]
    if not matches:
        return None
    orders = (type_p.__mro__, type_q.__mro__)
    left = min(matches, key=lambda m: (orders[0].index(m[0]), orders[1].index(m[1])))
    right = min(matches, key=lambda m: (orders[1].index(m[1]), orders[0].index(m[0])))
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning, stacklevel=3,
        )  # fmt: skip
    return _KL_REGISTRY[left]


# -- infinite: values of p that q cannot have --------------------------------------------------

_ON_REALS = (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
_INFINITE: tuple[tuple[type, tuple[type, ...], str], ...] = (
    (Beta, (Pareto,), "concentration1"), (ContinuousBernoulli, (Pareto,), "probs"),
    (Exponential, (Beta, ContinuousBernoulli, Pareto, Uniform), "rate"),
    (Gamma, (Beta, ContinuousBernoulli, Pareto, Uniform), "concentration"),
    (Gumbel, _ON_REALS, "loc"), (Laplace, _ON_REALS, "loc"), (Normal, _ON_REALS, "loc"),
    (Pareto, (Beta, ContinuousBernoulli, Uniform), "scale"),
    (Poisson, (Bernoulli, Binomial), "rate"),
)  # fmt: skip


def _infinite(name: str) -> Rule:
    return lambda p, q: torch.full_like(getattr(p, name), math.inf)


for _p, _all_q, _name in _INFINITE:
    for _q in _all_q:
        register_kl(_p, _q)(_infinite(_name))


def _or_infinite(condition: Any, value: Any) -> Any:
    return torch.where(condition, math.inf, value)


# -- of the same class -------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_families(p: Any, q: Any) -> Any:
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    own = [x.detach().requires_grad_() for x in p._natural_params]
    with torch.enable_grad():
        normalizer = p._log_normalizer(*own)
        slopes = torch.autograd.grad(normalizer.sum(), own, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for a, b, gradient in zip(own, q._natural_params, slopes, strict=True):
        result = result - sum_rightmost((b - a) * gradient, len(q.event_shape))
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    softplus = functional.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    one = torch.where(p.probs == 0, 0.0, _or_infinite(q.probs == 0, one))
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return one + torch.where(p.probs == 1, 0.0, _or_infinite(q.probs == 1, zero))


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    of_one = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return _or_infinite(p.total_count > q.total_count, p.total_count * of_one)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    return torch.where(p.probs == 0, 0.0, _or_infinite(q.probs == 0, terms)).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    own = p._cont_bern_log_norm() + torch.log1p(-p.probs)
    return p.mean * (p.logits - q.logits) + own - q._cont_bern_log_norm() - torch.log1p(-q.probs)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    all_a, all_b = a.sum(-1), b.sum(-1)
    constants = all_a.lgamma() - all_b.lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    means = a.digamma() - all_a.digamma().unsqueeze(-1)
    return constants + ((a - b) * means).sum(-1)


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    constants = b * (p.rate / q.rate).log() + torch.lgamma(b) - torch.lgamma(a)
    return constants + (a - b) * torch.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return away / q.scale - ratio.log() + ratio * torch.exp(-away / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    above = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return above.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, away = p.scale / q.scale, (q.loc - p.loc) / q.scale
    tail = torch.exp(away + (1 + ratio).lgamma())
    return tail - ratio.log() - away + ratio * euler_constant - (1 + euler_constant)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    value = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _or_infinite(p.scale < q.scale, value)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    value = ((q.high - q.low) / (p.high - p.low)).log()
    return _or_infinite((q.low > p.low) | (q.high < p.high), value)


# -- normal vectors ----------------------------------------------------------------------------


def _check_events(p: Any, q: Any, kind: str) -> int:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {kind} with different event shapes cannot be computed"
        )
    return int(p.event_shape[0])


def _squares(matrices: Any) -> Any:
    """The trace of a matrix times its transpose."""
    return matrices.pow(2).sum((-2, -1))


def _solved(q: Any, matrix: Any) -> Any:
    factor, n = q._unbroadcasted_scale_tril, matrix.shape[-2]
    batch = torch.broadcast_shapes(factor.shape[:-2], matrix.shape[:-2])
    return torch.linalg.solve_triangular(
        factor.expand((*batch, n, n)), matrix.expand((*batch, n, matrix.shape[-1])), upper=False
    )


@register_kl(MultivariateNormal, MultivariateNormal)
def _vectors(p: Any, q: Any) -> Any:
    n = _check_events(p, q, "Multivariate Normals")
    own, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    spread = _squares(_solved(q, own)) + mahalanobis(other, q.loc - p.loc)
    return half_log_det(other) - half_log_det(own) + 0.5 * (spread - n)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_vectors(p: Any, q: Any) -> Any:
    n = _check_events(p, q, "(Low Rank) Multivariate Normals")
    other = q._unbroadcasted_scale_tril
    own = torch.diag_embed(p._unbroadcasted_cov_diag.sqrt())
    spread = _squares(_solved(q, p._unbroadcasted_cov_factor)) + _squares(_solved(q, own))
    away = mahalanobis(other, q.loc - p.loc)
    return 0.5 * (2 * half_log_det(other) - p.log_det() + spread + away - n)


def _spread_by_low_rank(q: Any, inner: Any, factor: Any) -> Any:
    """The trace of the precision of q times a matrix, given by a factor of the latter."""
    roots = q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
    return _squares(factor * roots) - _squares(inner.matmul(factor))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _vectors_low_rank(p: Any, q: Any) -> Any:
    n = _check_events(p, q, "(Low Rank) Multivariate Normals")
    own = p._unbroadcasted_scale_tril
    spread = _spread_by_low_rank(q, q.inner_solved(), own)
    away = q.squared_length(q.loc - p.loc)
    return 0.5 * (q.log_det() - 2 * half_log_det(own) + spread + away - n)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Any:
    n = _check_events(p, q, "Low Rank Multivariate Normals")
    inner, own = q.inner_solved(), p._unbroadcasted_cov_diag
    spread = _spread_by_low_rank(q, inner, p._unbroadcasted_cov_factor)
    spread = spread + (own / q._unbroadcasted_cov_diag).sum(-1)
    spread = spread - _squares(inner * own.sqrt().unsqueeze(-2))
    away = q.squared_length(q.loc - p.loc)
    return 0.5 * (q.log_det() - p.log_det() + spread + away - n)


# -- of different classes: minus the entropy of p, minus the mean of q's log-density ------------


def _against_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


def _against_normal(p: Any, q: Any) -> Any:
    square = p.variance + (p.mean - q.loc).pow(2)
    return 0.5 * (2 * math.pi * q.scale.pow(2)).log() + square / (2 * q.scale.pow(2)) - p.entropy()


def _with_moments(p: Any, order: int) -> Any:
    """A Pareto distribution with another tail where that of ``p`` has no moment of this order, so
    that nothing infinite is computed, nor its gradient."""
    alpha = torch.where(p.alpha <= order, order + 1.0, p.alpha)
    return Pareto(p.scale, alpha, validate_args=False)


def _against_gamma(p: Any, q: Any, mean_log: Any) -> Any:
    """Of a variable whose logarithm has that mean."""
    constant = q.concentration.lgamma() - q.concentration * q.rate.log()
    return -p.entropy() + constant - (q.concentration - 1) * mean_log + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Any:
    total = p.concentration1 + p.concentration0
    return _against_gamma(p, q, p.concentration1.digamma() - total.digamma())


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    own = _with_moments(p, 1)
    value = _against_gamma(own, q, own.scale.log() + own.alpha.reciprocal())
    return _or_infinite(p.alpha <= 1, value)


def _mean_log(low: Any, high: Any) -> Any:
    """The mean of log(x) of x between two bounds."""
    whole = torch.special.xlogy(high, high) - torch.special.xlogy(low, low)
    return whole / (high - low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    constant = a.lgamma() + b.lgamma() - (a + b).lgamma()
    logs = (a - 1) * _mean_log(p.low, p.high) + (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    return _or_infinite((p.high > 1) | (p.low < 0), constant - logs - p.entropy())


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    constant = q.alpha.log() + q.alpha * q.scale.log()
    value = (q.alpha + 1) * _mean_log(p.low, p.high) - constant - p.entropy()
    return _or_infinite(p.low < q.scale, value)


def _against_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


def _against_uniform(p: Any, q: Any) -> Any:
    """Of a variable between 0 and 1."""
    return _or_infinite((q.low > 0) | (q.high < 1), -p.entropy() + (q.high - q.low).log())


def _against_gumbel(p: Any, q: Any, mean_exp: Any) -> Any:
    """Where ``mean_exp`` is the mean of ``exp(-x / q.scale)``."""
    away = (p.mean - q.loc) / q.scale
    return -p.entropy() + q.scale.log() + away + torch.exp(q.loc / q.scale) * mean_exp


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    product = p.rate * q.scale
    return _against_gumbel(p, q, product / (product + 1))


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return _against_gumbel(p, q, torch.exp(-p.loc / q.scale + 0.5 * ratio))


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    ends = torch.exp(-p.low / q.scale) - torch.exp(-p.high / q.scale)
    return _against_gumbel(p, q, q.scale * ends / (p.high - p.low))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    away = p.loc - q.loc
    z = away / p.scale
    spread = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * z.pow(2))
    mean = spread + away * torch.erf(math.sqrt(0.5) * z)  # of |x - q.loc|
    return -p.entropy() + torch.log(2 * q.scale) + mean / q.scale


# -- rules of one expression, and those of several pairs -----------------------------------------

_RULES: dict[tuple[type, type], Rule] = {
    (Bernoulli, Poisson): lambda p, q: -p.entropy() - (p.probs * q.rate.log() - q.rate),
    (Beta, Beta): lambda p, q: _dirichlet(p._dirichlet, q._dirichlet),
    (Exponential, Gamma): lambda p, q: _against_gamma(p, q, -euler_constant - p.rate.log()),
    (Gamma, Gumbel): lambda p, q: _against_gumbel(
        p, q, (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration)
    ),
    (Geometric, Geometric): lambda p, q: (
        -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits
    ),
    (HalfNormal, HalfNormal): lambda p, q: _normal(p.base_dist, q.base_dist),
    (OneHotCategorical, OneHotCategorical): lambda p, q: _categorical(
        p._categorical, q._categorical
    ),
    (Pareto, Exponential): lambda p, q: _or_infinite(
        p.alpha <= 1, _against_exponential(_with_moments(p, 1), q)
    ),
    (Pareto, Normal): lambda p, q: _or_infinite(
        p.alpha <= 2, _against_normal(_with_moments(p, 2), q)
    ),
    (Poisson, Poisson): lambda p, q: (
        p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)
    ),
    (Uniform, ContinuousBernoulli): lambda p, q: _or_infinite(
        (p.high > 1) | (p.low < 0), _against_continuous_bernoulli(p, q)
    ),
    (Uniform, Exponential): lambda p, q: _or_infinite(p.low < 0, _against_exponential(p, q)),
    (Uniform, Gamma): lambda p, q: _or_infinite(
        p.low < 0, _against_gamma(p, q, _mean_log(p.low, p.high))
    ),
    **dict.fromkeys([(p, Exponential) for p in (Beta, ContinuousBernoulli, Gamma)],
                    _against_exponential),
    **dict.fromkeys([(p, Normal) for p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel,
                                           Laplace, Uniform)], _against_normal),
    **dict.fromkeys([(p, Uniform) for p in (Beta, ContinuousBernoulli)], _against_uniform),
    (Beta, ContinuousBernoulli): _against_continuous_bernoulli,
}  # fmt: skip
_KL_REGISTRY.update(_RULES)
