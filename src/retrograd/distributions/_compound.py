"""Distributions built from others: ``Independent``, ``TransformedDistribution``, mixtures."""

from __future__ import annotations

from typing import Any, ClassVar

import retrograd as torch
from retrograd.distributions import constraints
from retrograd.distributions._categorical import Categorical
from retrograd.distributions.distribution import EMPTY, Distribution
from retrograd.distributions.transforms import ComposeTransform, Transform
from retrograd.distributions.utils import formula, sum_rightmost


class Independent(Distribution):
    """A distribution whose last batch dimensions are dimensions of the event.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: how many dimensions of the batch.

    Example:
        >>> d = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
        >>> Independent(d, 1).log_prob(torch.zeros(3))
        tensor(-2.7568)
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        have = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > have:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {have}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = have - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expanded_part(self, name: str, part: Any, batch_shape: Any) -> Any:
        return part.expand(batch_shape + self.event_shape[: self.reinterpreted_batch_ndims])

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether draws are differentiable."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether all values can be listed."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        dims = self.reinterpreted_batch_ndims
        support = self.base_dist.support
        return constraints.independent(support, dims) if dims else support

    mean = formula(lambda self: self.base_dist.mean, "The mean.")
    mode = formula(lambda self: self.base_dist.mode, "The value of the largest density.")
    variance = formula(lambda self: self.base_dist.variance, "The variance.")

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of a transformed random variable.

    Args:
        base_distribution: the distribution of the variable.
        transforms: the function, or a list of functions that are applied in turn.

    Example:
        >>> from retrograd.distributions import Normal, ExpTransform
        >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(torch.tensor(1.0))
        tensor(-0.9189)
    """

    arg_constraints: ClassVar[Any] = {}
    base_dist: Any

    def __init__(self, base_distribution: Any, transforms: Any,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if isinstance(transforms, Transform):
            transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms = transforms
        whole = ComposeTransform(transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        needed, event_dim = whole.domain.event_dim, len(base_distribution.event_shape)
        if len(shape) < needed:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{needed}, but got {shape}."
            )
        image = torch.Size(whole.forward_shape(shape))
        before = torch.Size(whole.inverse_shape(image))
        if before != shape:  # the parameters of a transform have a batch too
            base_distribution = base_distribution.expand(before[: len(before) - event_dim])
        if needed > event_dim:
            base_distribution = Independent(base_distribution, needed - event_dim)
        self.base_dist = base_distribution
        reached = whole.codomain.event_dim
        cut = len(image) - max(reached, event_dim + reached - needed)
        super().__init__(image[:cut], image[cut:], validate_args=validate_args)

    def _expanded_part(self, name: str, part: Any, batch_shape: Any) -> Any:
        shape = batch_shape + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        return part.expand(shape[: len(shape) - len(part.event_shape)])

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether draws are differentiable."""
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with torch.no_grad():
            return self._image(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self._image(self.base_dist.rsample(sample_shape))

    def _image(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        event_dim, result = len(self.event_shape), 0
        for transform in reversed(self.transforms):
            before = transform.inv(value)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            log_det = transform.log_abs_det_jacobian(before, value)
            result = result - sum_rightmost(log_det, event_dim - transform.domain.event_dim)
            value = before
        base = self.base_dist.log_prob(value)
        return result + sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _increasing(self, probability: Any) -> Any:
        """Probabilities as they are, or counted from the other end if the function decreases."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return probability
        return sign * (probability - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._increasing(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._image(self.base_dist.icdf(self._increasing(value)))


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one family.

    Args:
        mixture_distribution: a Categorical, with the probability of each component.
        component_distribution: the components, along the last dimension of the batch.

    Example:
        >>> from retrograd.distributions import Categorical, Normal
        >>> components = Normal(torch.tensor([-1.0, 1.0]), torch.ones(2))
        >>> MixtureSameFamily(Categorical(torch.ones(2)), components).mean
        tensor(0.)
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(self, mixture_distribution: Any, component_distribution: Any,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for i, j in zip(reversed(mixed), reversed(batch), strict=False):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        count = mixture_distribution.logits.shape[-1]
        components = component_distribution.batch_shape[-1]
        if count != components:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = count
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    def _expanded_part(self, name: str, part: Any, batch_shape: Any) -> Any:
        components = (self._num_component,) if name == "_component_distribution" else ()
        return part.expand((*batch_shape, *components))

    @property
    def mixture_distribution(self) -> Any:
        """The probabilities of the components."""
        return self._mixture_distribution

    component_distribution = formula(lambda self: self._component_distribution, "The components.")

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mean = formula(lambda self: self._averaged(self._component_distribution.mean))

    @property
    def variance(self) -> Any:
        means = self._component_distribution.mean
        between = (means - self._pad(self.mean)).pow(2.0)
        return self._averaged(self._component_distribution.variance) + self._averaged(between)

    def _averaged(self, values: Any) -> Any:
        probs = self._mixture_distribution.probs
        batch = len(self._mixture_distribution.batch_shape)
        missing = 0 if batch == 1 else len(self.batch_shape) - batch
        shape = (*probs.shape[:-1], *[1] * missing, probs.shape[-1], *[1] * self._event_ndims)
        return torch.sum(probs.reshape(shape) * values, dim=-1 - self._event_ndims)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def cdf(self, value: Any) -> Any:
        parts = self._component_distribution.cdf(self._pad(value))
        return torch.sum(parts * self._mixture_distribution.probs, dim=-1)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        parts = self._component_distribution.log_prob(self._pad(value))
        weights = torch.log_softmax(self._mixture_distribution.logits, dim=-1)
        return torch.logsumexp(parts + weights, dim=-1)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with torch.no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            index = chosen.reshape((*chosen.shape, *[1] * (self._event_ndims + 1)))
            index = index.repeat((*[1] * (chosen.dim() + 1), *self.event_shape))
            return torch.gather(drawn, dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
