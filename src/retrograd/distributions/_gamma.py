"""Gamma and beta distributions, and distributions derived from them."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import retrograd as torch
from retrograd.distributions import constraints
from retrograd.distributions.distribution import EMPTY, Distribution, ExponentialFamily
from retrograd.distributions.utils import Number, broadcast_all, formula, standard_normal
from retrograd.nn import functional
from retrograd.ops.gammas import _sample_dirichlet, _standard_gamma


class Gamma(ExponentialFamily):
    """The gamma distribution.

    Args:
        concentration: the shape parameter.
        rate: the inverse of the scale.

    Example:
        >>> Gamma(2.0, 4.0).mean
        tensor(0.5000)
    """

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive, "rate": constraints.positive,
    }  # fmt: skip
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = formula(lambda self: self.concentration / self.rate)
    mode = formula(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = formula(lambda self: self.concentration / self.rate.pow(2))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=torch.finfo(value.dtype).tiny)  # gradients are as without
        return value

    def log_prob(self, value: Any) -> Any:
        value = torch.as_tensor(value, dtype=self.rate.dtype)
        self._check(value)
        a, rate = self.concentration, self.rate
        powers = torch.xlogy(a, rate) + torch.xlogy(a - 1, value)
        return powers - rate * value - torch.lgamma(a)

    def entropy(self) -> Any:
        a = self.concentration
        return a - torch.log(self.rate) + torch.lgamma(a) + (1.0 - a) * torch.digamma(a)

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return torch.special.gammainc(self.concentration, self.rate * value)

    _natural_params = formula(lambda self: (self.concentration - 1, -self.rate))

    def _log_normalizer(self, *natural_params: Any) -> Any:
        x, y = natural_params
        return torch.lgamma(x + 1) + (x + 1) * torch.log(-y.reciprocal())


class Chi2(Gamma):
    """The chi-squared distribution: a sum of squares of normal numbers.

    Args:
        df: the degrees of freedom.

    Example:
        >>> Chi2(3.0).mean
        tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    df = formula(lambda self: self.concentration * 2, "The degrees of freedom.")


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution over the points of a simplex.

    Args:
        concentration: the parameters, along the last dimension.

    Example:
        >>> Dirichlet(torch.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        a = self.concentration
        powers = torch.xlogy(a - 1.0, value).sum(-1)
        return powers + torch.lgamma(a.sum(-1)) - torch.lgamma(a).sum(-1)

    mean = formula(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = functional.one_hot(mode.argmax(dim=-1), mode.shape[-1]).to(mode)
        return torch.where((self.concentration < 1).all(-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Any:
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        return (
            torch.lgamma(a).sum(-1) - torch.lgamma(total) - (k - total) * torch.digamma(total)
            - ((a - 1.0) * torch.digamma(a)).sum(-1)
        )  # fmt: skip

    _natural_params = formula(lambda self: (self.concentration,))

    def _log_normalizer(self, *natural_params: Any) -> Any:
        (x,) = natural_params
        return x.lgamma().sum(-1) - torch.lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """The beta distribution on the unit interval.

    Args:
        concentration1: the parameter of 1.
        concentration0: the parameter of 0.

    Example:
        >>> Beta(1.0, 3.0).mean
        tensor(0.2500)
    """

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if isinstance(concentration1, Number) and isinstance(concentration0, Number):
            both = torch.tensor([float(concentration1), float(concentration0)])  # type: ignore[arg-type]
        else:
            both = torch.stack(list(broadcast_all(concentration1, concentration0)), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Any:
        """The parameter of 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """The parameter of 0."""
        return self._dirichlet.concentration[..., 1]

    mean = formula(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = formula(lambda self: self._dirichlet.mode[..., 0])

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        return self._dirichlet.log_prob(torch.stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    _natural_params = formula(lambda self: (self.concentration1, self.concentration0))

    def _log_normalizer(self, *natural_params: Any) -> Any:
        x, y = natural_params
        return torch.lgamma(x) + torch.lgamma(y) - torch.lgamma(x + y)


class FisherSnedecor(Distribution):
    """The F distribution: the ratio of two scaled chi-squared variables.

    Args:
        df1: the degrees of freedom above the line.
        df2: the degrees of freedom below.

    Example:
        >>> FisherSnedecor(1.0, 4.0).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        df2 = torch.where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return torch.where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self) -> Any:
        df2 = torch.where(self.df2 <= 4, math.nan, self.df2)
        below = self.df1 * (df2 - 2).pow(2) * (df2 - 4)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / below

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        above, below = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        tiny = torch.finfo(below.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        constant = (a + b).lgamma() - a.lgamma() - b.lgamma()
        powers = a * ratio.log() + (a - 1) * torch.log(value)
        return constant + powers - (a + b) * torch.log1p(ratio * value)


class StudentT(Distribution):
    """Student's t distribution, with a location and a scale.

    Args:
        df: the degrees of freedom.
        loc: the location.
        scale: the scale.

    Example:
        >>> StudentT(4.0).variance
        tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    mean = formula(lambda self: torch.where(self.df <= 1, math.nan, self.loc))
    mode = formula(lambda self: self.loc)

    @property
    def variance(self) -> Any:
        finite = self.df > 2
        df = torch.where(finite, self.df, 3.0)
        rest = torch.where(self.df > 1, math.inf, math.nan).to(df.dtype)
        return torch.where(finite, self.scale.pow(2) * df / (df - 2), rest)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        normal = standard_normal(self._extended_shape(sample_shape), self.df)
        ratio = normal * torch.rsqrt(self._chi2.rsample(sample_shape) / self.df)
        return self.loc + self.scale * ratio

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        y, half = (value - self.loc) / self.scale, 0.5 * (self.df + 1.0)
        constant = (
            self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
            + torch.lgamma(0.5 * self.df) - torch.lgamma(half)
        )  # fmt: skip
        return -half * torch.log1p(y**2.0 / self.df) - constant

    def entropy(self) -> Any:
        half, low = 0.5 * (self.df + 1), 0.5 * self.df
        beta = torch.lgamma(low) + math.lgamma(0.5) - torch.lgamma(half)
        slopes = torch.digamma(half) - torch.digamma(low)
        return self.scale.log() + half * slopes + 0.5 * self.df.log() + beta
