"""Distributions of binary values and of counts."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import retrograd as torch
from retrograd.distributions import constraints
from retrograd.distributions._gamma import Gamma
from retrograd.distributions.distribution import EMPTY, Distribution, ExponentialFamily
from retrograd.distributions.utils import (
    broadcast_all,
    formula,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    unfilled,
)
from retrograd.nn import functional


class _OfChance(Distribution):
    """A distribution with a probability, given as such or as log-odds."""

    _param: Any
    _also_expanded: ClassVar[dict[str, int]] = {"_param": 0}

    def _set_chance(self, probs: Any, logits: Any, *before: Any) -> tuple[Any, ...]:
        """Store the parameter, broadcast with the arguments ``before`` it."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        *others, self._param = broadcast_all(*before, logits if probs is None else probs)
        setattr(self, "logits" if probs is None else "probs", self._param)
        return tuple(x.type_as(self._param) for x in others)

    @lazy_property
    def logits(self) -> Any:
        """The log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    param_shape = formula(lambda self: self._param.size(), "The shape of the parameter.")

    def _counts_up_to(self, most: int, expand: bool) -> Any:
        values = torch.arange(1 + most, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


CHANCE = {"probs": constraints.unit_interval, "logits": constraints.real}


class Bernoulli(_OfChance, ExponentialFamily):
    """The Bernoulli distribution: 1 with probability ``probs``, else 0.

    Args:
        probs: the probability of a one.
        logits: its log-odds, in place of it.

    Example:
        >>> Bernoulli(torch.tensor([1.0, 0.0])).sample()
        tensor([1., 0.])
    """

    arg_constraints: ClassVar[Any] = CHANCE
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._set_chance(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    mean = formula(lambda self: self.probs)

    @property
    def mode(self) -> Any:
        mode = (self.probs >= 0.5).to(self.probs)
        return torch.where(self.probs == 0.5, math.nan, mode)

    variance = formula(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return functional.binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none"
        )

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._counts_up_to(1, expand)

    _natural_params = formula(lambda self: (torch.logit(self.probs),))

    def _log_normalizer(self, *natural_params: Any) -> Any:
        return torch.log1p(torch.exp(natural_params[0]))


class Binomial(_OfChance):
    """The binomial distribution: the number of successes in ``total_count`` trials.

    Args:
        total_count: the number of trials.
        probs: the probability of success.
        logits: its log-odds, in place of it.

    Example:
        >>> Binomial(10, torch.tensor(0.5)).mean
        tensor(5.)
    """

    arg_constraints: ClassVar[Any] = {"total_count": constraints.nonnegative_integer, **CHANCE}
    has_enumerate_support = True

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        (self.total_count,) = self._set_chance(probs, logits, total_count)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    mean = formula(lambda self: self.total_count * self.probs)

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    variance = formula(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        n, logits = self.total_count, self.logits
        choices = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(n - value + 1)
        # log(1 + exp(x)), of which half the gradient comes from either side at zero
        above = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        return value * logits + choices - n * (above + torch.log1p(torch.exp(-logits.abs())))

    def _same_count(self, method: str) -> int:
        most = int(self.total_count.max())
        if not self.total_count.min() == most:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{method}`.")
        return most

    def entropy(self) -> Any:
        self._same_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(torch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._counts_up_to(self._same_count("enumerate_support"), expand)


class Geometric(_OfChance):
    """The geometric distribution: the number of failures before the first success.

    Args:
        probs: the probability of success.
        logits: its log-odds, in place of it.

    Example:
        >>> Geometric(torch.tensor(0.5)).mean
        tensor(1.)
    """

    arg_constraints: ClassVar[Any] = CHANCE
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._set_chance(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            value = self.probs
            raise ValueError(
                f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"of distribution {self!r} to be positive but found invalid values:\n"
                f"{value.detach()[~(value > 0)]}"
            )

    mean = formula(lambda self: 1.0 / self.probs - 1.0)
    mode = formula(lambda self: torch.zeros_like(self.probs))
    variance = formula(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with torch.no_grad():
            u = unfilled(self._extended_shape(sample_shape), self.probs)
            u.uniform_(torch.finfo(u.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        value, probs = broadcast_all(value, self.probs)
        failing = torch.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Any:
        of_one = functional.binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none"
        )
        return of_one / self.probs


class NegativeBinomial(_OfChance):
    """The negative binomial distribution: successes before ``total_count`` failures.

    Args:
        total_count: the number of failures. It need not be whole.
        probs: the probability of success.
        logits: its log-odds, in place of it.

    Example:
        >>> NegativeBinomial(3, torch.tensor(0.5)).mean
        tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        (self.total_count,) = self._set_chance(probs, logits, total_count)
        super().__init__(self._param.shape, validate_args=validate_args)

    mean = formula(lambda self: self.total_count * torch.exp(self.logits))
    mode = formula(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = formula(lambda self: self.mean / torch.sigmoid(-self.logits))

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with torch.no_grad():
            rates = Gamma(self.total_count, torch.exp(-self.logits), validate_args=False)
            return torch.poisson(rates.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        n = self.total_count
        failures, successes = (functional.logsigmoid(x) for x in (-self.logits, self.logits))
        choices = torch.lgamma(n + value) - torch.lgamma(1.0 + value) - torch.lgamma(n)
        return n * failures + value * successes + choices.masked_fill(n + value == 0.0, 0.0)


class Poisson(ExponentialFamily):
    """The Poisson distribution: the number of independent events at a given rate.

    Args:
        rate: the mean number.

    Example:
        >>> Poisson(torch.tensor(2.0)).variance
        tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = variance = formula(lambda self: self.rate)
    mode = formula(lambda self: self.rate.floor())

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    _natural_params = formula(lambda self: (torch.log(self.rate),))

    def _log_normalizer(self, *natural_params: Any) -> Any:
        return torch.exp(natural_params[0])
