"""Continuous relaxations of discrete distributions, whose samples have gradients."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import retrograd as torch
from retrograd.distributions import constraints
from retrograd.distributions._categorical import Categorical, _OfCategorical
from retrograd.distributions._compound import TransformedDistribution
from retrograd.distributions._counts import CHANCE, _OfChance
from retrograd.distributions.distribution import EMPTY, ExponentialFamily
from retrograd.distributions.transforms import ExpTransform, SigmoidTransform
from retrograd.distributions.utils import (
    broadcast_all,
    clamp_probs,
    formula,
    lazy_property,
    logits_to_probs,
    standard_uniform,
)
from retrograd.nn import functional


class LogitRelaxedBernoulli(_OfChance):
    """The log-odds of a RelaxedBernoulli.

    Args:
        probs: the probability of a one.
        logits: its log-odds, in place of it.

    Example:
        >>> LogitRelaxedBernoulli(torch.tensor(1.0), 0.5).log_prob(torch.tensor(0.0))
        tensor(-1.3863)
    """

    arg_constraints: ClassVar[Any] = CHANCE
    support = constraints.real

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.temperature = temperature
        self._set_chance(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(standard_uniform(shape, probs))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value * self.temperature
        return self.temperature.log() + away - 2 * away.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A continuous relaxation of the Bernoulli distribution, with a temperature.

    Args:
        probs: the probability of a one.
        logits: its log-odds, in place of it.

    Example:
        >>> RelaxedBernoulli(torch.tensor(1.0), 0.5).log_prob(torch.tensor(0.5))
        tensor(0.)
    """

    arg_constraints: ClassVar[Any] = CHANCE
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    temperature = formula(lambda self: self.base_dist.temperature, "The temperature.")
    logits = formula(lambda self: self.base_dist.logits, "The log-odds.")
    probs = formula(lambda self: self.base_dist.probs, "The probabilities.")


class ExpRelaxedCategorical(_OfCategorical):
    """The logarithm of a RelaxedOneHotCategorical.

    Args:
        probs: the probabilities along the last dimension; they are normalized.
        logits: log-probabilities, up to a constant, in place of them.

    Example:
        >>> ExpRelaxedCategorical(torch.tensor(1.0), torch.ones(2)).event_shape
        torch.Size([2])
    """

    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        batch = self._categorical.batch_shape
        super().__init__(batch, self.param_shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(standard_uniform(shape, self.logits))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        k = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        constant = math.lgamma(k) + self.temperature.log() * (k - 1)
        score = logits - value * self.temperature
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + constant


class RelaxedOneHotCategorical(TransformedDistribution):
    """A continuous relaxation of the one-hot categorical distribution, with a temperature.

    Args:
        probs: the probabilities along the last dimension; they are normalized.
        logits: log-probabilities, up to a constant, in place of them.

    Example:
        >>> RelaxedOneHotCategorical(torch.tensor(1.0), torch.ones(2)).event_shape
        torch.Size([2])
    """

    arg_constraints: ClassVar[Any] = _OfCategorical.arg_constraints
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    temperature = formula(lambda self: self.base_dist.temperature, "The temperature.")
    logits = formula(lambda self: self.base_dist.logits, "The log-probabilities.")
    probs = formula(lambda self: self.base_dist.probs, "The probabilities.")


class ContinuousBernoulli(_OfChance, ExponentialFamily):
    """A distribution on the unit interval, with a density like ``p**x * (1 - p)**(1 - x)``.

    Args:
        probs: the parameter p.
        logits: its log-odds, in place of it.
        lims: the interval around one half in which series replace formulas that are 0 / 0 there.

    Example:
        >>> ContinuousBernoulli(torch.tensor(0.5)).mean
        tensor(0.5000)
    """

    arg_constraints: ClassVar[Any] = CHANCE
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True

    def __init__(self, probs: Any = None, logits: Any = None, lims: Any = (0.499, 0.501),
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._set_chance(probs, logits)
        if probs is not None:
            if validate_args and not CHANCE["probs"].check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = self._param = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Any:
        """The parameter."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _split(self) -> tuple[Any, Any]:
        """Where formulas hold, and the parameter there; elsewhere some number that does no harm."""
        apart = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return apart, torch.where(apart, self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Any:
        apart, p = self._split()
        low = p <= 0.5
        below, above = torch.where(low, p, 0.0), torch.where(p >= 0.5, p, 1.0)
        halves = torch.where(low, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0))
        formula = torch.log(torch.abs(torch.log1p(-p) - torch.log(p))) - halves
        x = (self.probs - 0.5) ** 2
        return torch.where(apart, formula, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Any:
        apart, p = self._split()
        formula = p / (2.0 * p - 1.0) + 1.0 / (torch.log1p(-p) - torch.log(p))
        x = self.probs - 0.5
        return torch.where(apart, formula, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x)

    @property
    def variance(self) -> Any:
        apart, p = self._split()
        logs = (torch.log1p(-p) - torch.log(p)) ** 2
        formula = p * (p - 1.0) / (1.0 - 2.0 * p) ** 2 + 1.0 / logs
        x = (self.probs - 0.5) ** 2
        return torch.where(apart, formula, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self.icdf(standard_uniform(self._extended_shape(sample_shape), self.probs))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        entropy = functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - entropy

    def cdf(self, value: Any) -> Any:
        self._check(value)
        apart, p = self._split()
        formula = (p**value * (1.0 - p) ** (1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = torch.where(apart, formula, value)
        return torch.where(value <= 0.0, 0.0, torch.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        apart, p = self._split()
        low = torch.log1p(-p)
        formula = (torch.log1p(-p + value * (2.0 * p - 1.0)) - low) / (torch.log(p) - low)
        return torch.where(apart, formula, value)

    def entropy(self) -> Any:
        low, high = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (low - high) - self._cont_bern_log_norm() - low

    _natural_params = formula(lambda self: (self.logits,))

    def _log_normalizer(self, *natural_params: Any) -> Any:
        (x,) = natural_params
        apart = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = torch.where(apart, x, self._lims[0] - 0.5)
        formula = torch.log(torch.abs(torch.expm1(cut))) - torch.log(torch.abs(cut))
        return torch.where(apart, formula, 0.5 * x + x**2 / 24.0 - x**4 / 2880.0)
