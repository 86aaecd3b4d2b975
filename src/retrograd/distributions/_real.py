"""Distributions over real numbers with a location and a scale, and over intervals."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import retrograd as torch
from retrograd.distributions import constraints
from retrograd.distributions.distribution import EMPTY, Distribution, ExponentialFamily
from retrograd.distributions.utils import (
    broadcast_all,
    formula,
    lazy_property,
    standard_normal,
    standard_uniform,
    unfilled,
)

_PLACED = {"loc": constraints.real, "scale": constraints.positive}


class Normal(ExponentialFamily):
    """The normal distribution.

    Args:
        loc: the mean.
        scale: the standard deviation.

    Example:
        >>> Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
        tensor(-0.9189)
    """

    arg_constraints: ClassVar[Any] = _PLACED
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = formula(lambda self: self.loc)
    stddev = formula(lambda self: self.scale)
    variance = formula(lambda self: self.stddev.pow(2))

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        square = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -square - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Any:
        self._check(value)
        z = (value - self.loc) * self.scale.reciprocal() / math.sqrt(2)
        return 0.5 * (1 + torch.erf(z))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        precision = self.scale.pow(2).reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, *natural_params: Any) -> Any:
        x, y = natural_params
        return -0.25 * x.pow(2) / y + 0.5 * torch.log(-math.pi / y)


class Laplace(Distribution):
    """Laplace's distribution: exponential on both sides.

    Args:
        loc: the mean.
        scale: the scale.

    Example:
        >>> Laplace(0.0, 1.0).log_prob(torch.tensor(0.0))
        tensor(-0.6931)
    """

    arg_constraints: ClassVar[Any] = _PLACED
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = formula(lambda self: self.loc)
    variance = formula(lambda self: 2 * self.scale.pow(2))
    stddev = formula(lambda self: 2**0.5 * self.scale)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        u = unfilled(self._extended_shape(sample_shape), self.loc)
        u.uniform_(torch.finfo(u.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * torch.log1p(-u.abs())

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        return -torch.log(2 * self.scale) - torch.abs(value - self.loc) / self.scale

    def cdf(self, value: Any) -> Any:
        self._check(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * torch.expm1(-away.abs() / self.scale)

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * torch.log1p(-2 * term.abs())

    def entropy(self) -> Any:
        return 1 + torch.log(2 * self.scale)


class Cauchy(Distribution):
    """Cauchy's distribution, which has no mean.

    Args:
        loc: the median.
        scale: half the interquartile range.

    Example:
        >>> Cauchy(0.0, 1.0).cdf(torch.tensor(1.0))
        tensor(0.7500)
    """

    arg_constraints: ClassVar[Any] = _PLACED
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = formula(lambda self: self.loc.new_full(self._extended_shape(), math.nan))
    mode = formula(lambda self: self.loc)

    @property
    def variance(self) -> Any:
        return self.loc.new_full(self._extended_shape(), math.inf)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        drawn = unfilled(self._extended_shape(sample_shape), self.loc).cauchy_()
        return self.loc + drawn * self.scale

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z**2).log1p()

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return torch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """The uniform distribution on an interval.

    Args:
        low: the lower end.
        high: the upper end, which is not in the interval.

    Example:
        >>> Uniform(0.0, 4.0).mean
        tensor(2.)
    """

    has_rsample = True
    _also_expanded: ClassVar[dict[str, int]] = {"low": 0, "high": 0}

    @property
    def arg_constraints(self) -> Any:
        """The constraints on the limits: ``low < high``."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    mean = formula(lambda self: (self.high + self.low) / 2)
    mode = formula(lambda self: math.nan * self.high)
    stddev = formula(lambda self: (self.high - self.low) / 12**0.5)
    variance = formula(lambda self: (self.high - self.low).pow(2) / 12)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        drawn = standard_uniform(self._extended_shape(sample_shape), self.low)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return torch.log(inside) - torch.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return torch.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """The exponential distribution.

    Args:
        rate: the inverse of the mean.

    Example:
        >>> Exponential(2.0).mean
        tensor(0.5000)
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = stddev = formula(lambda self: self.rate.reciprocal())
    mode = formula(lambda self: torch.zeros_like(self.rate))
    variance = formula(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        drawn = unfilled(self._extended_shape(sample_shape), self.rate)
        return drawn.exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return 1 - torch.exp(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -torch.log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1.0 - torch.log(self.rate)

    _natural_params = formula(lambda self: (-self.rate,))

    def _log_normalizer(self, *natural_params: Any) -> Any:
        return -torch.log(-natural_params[0])


class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution, of values that exceed a threshold.

    Args:
        loc: the lower end.
        scale: the scale.
        concentration: the shape: of a heavy tail if positive, of an interval if negative.

    Example:
        >>> GeneralizedPareto(0.0, 1.0, 0.5).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {**_PLACED, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, torch.where(self.concentration < 0, end, math.inf))

    def _shape(self) -> tuple[Any, Any]:
        """Where the tail is exponential, and the concentration elsewhere."""
        zero = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return zero, torch.where(zero, torch.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self.icdf(standard_uniform(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        z, (zero, shape) = (value - self.loc) / self.scale, self._shape()
        power = 1 / shape + torch.ones_like(z)
        tail = torch.where(power == 0, power, power * torch.log1p(shape * z))
        return -self.scale.log() - torch.where(zero, z, tail)

    def log_survival_function(self, value: Any) -> Any:
        """Returns the logarithm of the probability of a larger value.

        Args:
            value: the values.
        """
        self._check(value)
        z, (zero, shape) = (value - self.loc) / self.scale, self._shape()
        return torch.where(zero, -z, -torch.log1p(shape * z) / shape)

    def log_cdf(self, value: Any) -> Any:
        """Returns the logarithm of the distribution function.

        Args:
            value: the values.
        """
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value: Any) -> Any:
        return torch.exp(self.log_cdf(value))

    def icdf(self, value: Any) -> Any:
        zero, shape = self._shape()
        logs = torch.log1p(-value)
        tail = self.loc + self.scale / shape * torch.expm1(-shape * logs)
        return torch.where(zero, self.loc - self.scale * logs, tail)

    @property
    def mean(self) -> Any:
        valid = self.concentration < 1
        shape = torch.where(valid, self.concentration, 0.5)
        return torch.where(valid, self.loc + self.scale / (1 - shape), math.nan)

    mode = formula(lambda self: self.loc)

    @property
    def variance(self) -> Any:
        valid = self.concentration < 0.5
        shape = torch.where(valid, self.concentration, 0.25)
        result = self.scale**2 / ((1 - shape) ** 2 * (1 - 2 * shape))
        return torch.where(valid, result, math.nan)

    def entropy(self) -> Any:
        return torch.log(self.scale) + self.concentration + 1


class VonMises(Distribution):
    """The von Mises distribution of angles.

    Args:
        loc: the angle in the middle.
        concentration: how close to it the angles are.

    Example:
        >>> VonMises(torch.tensor(0.0), torch.tensor(1.0)).log_prob(torch.tensor(0.0))
        tensor(-1.0738)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real, "concentration": constraints.positive,
    }  # fmt: skip
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        # I0(k) is i0e(k) exp(k)
        constant = math.log(2 * math.pi) + torch.special.i0e(self.concentration).log()
        return self.concentration * (torch.cos(value - self.loc) - 1) - constant

    mean = mode = formula(lambda self: self.loc)

    @lazy_property
    def variance(self) -> Any:
        """The circular variance."""
        return 1 - torch.special.i1e(self.concentration) / torch.special.i0e(self.concentration)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        """Draws values by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979).

        Args:
            sample_shape: the shape of the draws from each distribution.

        Returns:
            Angles from -pi to pi.
        """
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)
            loc, k = self.loc.double(), self.concentration.double()
            r = self._proposal(k)
            angle = torch.zeros(shape, dtype=torch.float64, device=k.device)
            done = torch.zeros(shape, dtype=torch.bool, device=k.device)
            while not done.all():
                u1, u2, u3 = standard_uniform((3, *shape), k).unbind()
                z = torch.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                angle = torch.where(accepted, (u3 - 0.5).sign() * f.acos(), angle)
                done = done | accepted
            wrapped = (angle + math.pi + loc) % (2 * math.pi) - math.pi
            return wrapped.to(self.loc.dtype)

    @staticmethod
    def _proposal(k: Any) -> Any:
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return torch.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))
