"""Distributions over categories: ``Categorical``, ``OneHotCategorical`` and ``Multinomial``."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import retrograd as torch
from retrograd.distributions import constraints
from retrograd.distributions._counts import Binomial
from retrograd.distributions.distribution import EMPTY, Distribution, Size
from retrograd.distributions.utils import (
    broadcast_all,
    formula,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from retrograd.nn import functional

_CHOICE = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(Distribution):
    """The categorical distribution; samples are indices of categories.

    Args:
        probs: the probabilities along the last dimension; they are normalized.
        logits: log-probabilities, up to a constant, in place of them.

    Example:
        >>> Categorical(torch.tensor([0.0, 1.0])).sample()
        tensor(1)
    """

    arg_constraints: ClassVar[Any] = _CHOICE
    has_enumerate_support = True
    _also_expanded: ClassVar[dict[str, int]] = {"_param": 1}

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, parameter = ("probs", probs) if logits is None else ("logits", logits)
        if parameter.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if logits is None:
            self.probs = self._param = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = self._param = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = self._param.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """The log-probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits)

    param_shape = formula(lambda self: self._param.size(), "The shape of the probabilities.")

    @property
    def mean(self) -> Any:
        return self.probs.new_full(self._extended_shape(), math.nan)

    variance = mean
    mode = formula(lambda self: self.probs.argmax(dim=-1))

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn = torch.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        index, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = torch.clamp(self.logits, min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = torch.arange(self._num_events, device=self._param.device)
        values = values.reshape((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class _OfCategorical(Distribution):
    """A distribution that has the parameters of a Categorical."""

    arg_constraints: ClassVar[Any] = _CHOICE
    _categorical: Any

    probs = formula(lambda self: self._categorical.probs, "The probabilities.")
    logits = formula(lambda self: self._categorical.logits, "The log-probabilities.")
    _param = property(lambda self: self._categorical._param)
    param_shape = property(
        lambda self: self._categorical.param_shape, doc="The shape of the probabilities."
    )


class OneHotCategorical(_OfCategorical):
    """The categorical distribution; samples are one-hot vectors.

    Args:
        probs: the probabilities along the last dimension; they are normalized.
        logits: log-probabilities, up to a constant, in place of them.

    Example:
        >>> OneHotCategorical(torch.tensor([0.0, 1.0])).sample()
        tensor([0., 1.])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._categorical = Categorical(probs, logits)
        batch = self._categorical.batch_shape
        super().__init__(batch, self.param_shape[-1:], validate_args=validate_args)

    mean = formula(lambda self: self.probs)
    mode = formula(lambda self: self._as_vectors(self.probs.argmax(dim=-1)))
    variance = formula(lambda self: self.probs * (1 - self.probs))

    def _as_vectors(self, index: Any) -> Any:
        return functional.one_hot(index, self._categorical._num_events).to(self.probs)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        return self._as_vectors(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self.event_shape[0]
        values = torch.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((n, *[1] * len(self.batch_shape), n))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A one-hot categorical distribution with the straight-through gradient estimator.

    Args:
        probs: the probabilities along the last dimension; they are normalized.
        logits: log-probabilities, up to a constant, in place of them.

    Example:
        >>> OneHotCategoricalStraightThrough(torch.tensor([0.0, 1.0])).rsample()
        tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OfCategorical):
    """The multinomial distribution: counts of each category in ``total_count`` choices.

    Args:
        total_count: the number of choices.
        probs: the probabilities along the last dimension; they are normalized.
        logits: log-probabilities, up to a constant, in place of them.

    Example:
        >>> Multinomial(3, torch.tensor([0.0, 1.0])).sample()
        tensor([0., 3.])
    """


    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        batch = self._categorical.batch_shape
        super().__init__(batch, self.param_shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    mean = formula(lambda self: self.probs * self.total_count)
    variance = formula(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        sample_shape = Size(sample_shape)
        chosen = self._categorical.sample(Size((self.total_count, *sample_shape))).movedim(0, -1)
        counts = chosen.new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, chosen, torch.ones_like(chosen))
        return counts.to(self.probs.dtype)

    def entropy(self) -> Any:
        n = torch.tensor(self.total_count, device=self.probs.device)
        binomial = Binomial(total_count=self.total_count, probs=self.probs)
        counts = binomial.enumerate_support(expand=False)[1:]
        weighted = torch.exp(binomial.log_prob(counts)) * torch.lgamma(counts + 1)
        own = n * self._categorical.entropy() - torch.lgamma(n + 1)
        return own + weighted.sum([0, -1])

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        logits = torch.where((value == 0) & (logits == -math.inf), 0.0, logits)
        factorials = torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1)
        return factorials + (logits * value).sum(-1)
