"""The base of all distributions."""

from __future__ import annotations

import functools
import warnings
from typing import Any, ClassVar

import retrograd as torch
from retrograd.distributions import constraints
from retrograd.distributions.utils import lazy_property

__all__ = ["Distribution", "ExponentialFamily"]

Size = torch.Size
EMPTY = Size()


def _own_class(cls: type) -> type:
    """The class of this package that a class is or derives from."""
    return next(c for c in cls.__mro__ if c.__module__.startswith("retrograd.distributions."))


@functools.cache
def _event_dims(cls: type) -> dict[str, int]:
    """For each attribute that has the shape of the batch, the dimensions of an event after it."""
    declared = [vars(c).get("arg_constraints") for c in reversed(cls.__mro__)]
    dims = {
        name: constraint.event_dim
        for constraints_of_class in declared if isinstance(constraints_of_class, dict)
        for name, constraint in constraints_of_class.items()
    }  # fmt: skip
    return dims | cls._also_expanded  # type: ignore[attr-defined, no-any-return]


class Distribution:
    """A probability distribution, or a batch of them.

    ``expand`` expands the parameters that ``arg_constraints`` names; a class with further
    attributes of the batch shape lists them in ``_also_expanded``, with the number of dimensions of
    an event that follow.

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of one draw.
        validate_args: whether parameters and values are checked. The default is True.

    Example:
        >>> Distribution(torch.Size([2])).batch_shape
        torch.Size([2])
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[Any]
    _validate_args = __debug__
    _also_expanded: ClassVar[dict[str, int]] = {}

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets the default of ``validate_args``: whether parameters and values are checked.

        Args:
            value: whether they do.
        """
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = EMPTY, event_shape: Any = EMPTY,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        if not hasattr(self, "arg_constraints"):
            if type(self) is not Distribution:
                warnings.warn(
                    f"{self.__class__} does not define `arg_constraints`. Please set "
                    "`arg_constraints = {}` or initialize the distribution with "
                    "`validate_args=False` to turn off validation.",
                    stacklevel=4,
                )
            return
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in vars(self) and isinstance(getattr(type(self), name), lazy_property):
                continue  # it follows from another parameter
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    # -- shapes --------------------------------------------------------------------------------

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Returns the distribution with its batch expanded, without copying memory.

        Args:
            batch_shape: the new shape of the batch.
        """
        new = self._new_instance(_instance)
        batch_shape, event_dims = Size(batch_shape), _event_dims(_own_class(type(self)))
        for name, value in vars(self).items():
            if name in event_dims:
                event_shape = value.shape[value.dim() - event_dims[name] :]
                value = value.expand((*batch_shape, *event_shape))
            elif isinstance(value, Distribution):
                value = self._expanded_part(name, value, batch_shape)
            elif name.startswith("__") or isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue  # computed from the parameters, which are others now
            vars(new)[name] = value
        new._batch_shape = batch_shape
        return new

    def _expanded_part(self, name: str, part: Distribution, batch_shape: Any) -> Any:
        return part.expand(batch_shape)

    def _new_instance(self, given: Any) -> Any:
        """A new object of the same class, to be filled."""
        if given is not None:
            return given
        owner = _own_class(type(self))
        if not hasattr(owner, "arg_constraints"):
            raise NotImplementedError
        return self._get_checked_instance(owner)

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """For subclasses with an ``expand`` of their own."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return object.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Any:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one draw from one distribution."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Any = EMPTY) -> Any:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    # -- what a distribution is asked ----------------------------------------------------------

    @property
    def support(self) -> Any:
        """The support of the distribution, as a constraint."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The value of the largest density or probability."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        """Draws values, without gradients.

        Args:
            sample_shape: the shape of the draws from each distribution.

        Returns:
            A tensor of the sample shape, the batch shape and the event shape.
        """
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        """Draws values that are differentiable with respect to the parameters.

        Args:
            sample_shape: the shape of the draws from each distribution.

        Returns:
            A tensor of the sample shape, the batch shape and the event shape.
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """Draws ``n`` values. Deprecated: use ``sample((n,))``.

        Args:
            n: the number of values.

        Returns:
            The values.
        """
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning,
            stacklevel=2,
        )  # fmt: skip
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """Returns the logarithm of the density or the probability of values.

        Args:
            value: the values.

        Returns:
            A tensor of the sample shape and the batch shape.
        """
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """Returns the cumulative distribution function at values.

        Args:
            value: the values.
        """
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """Returns the inverse of the cumulative distribution function (quantiles).

        Args:
            value: the probabilities.
        """
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """Returns all values of a discrete distribution.

        Args:
            expand: whether the result has the shape of the batch, or ones in its place.

        Returns:
            The values, along the first dimension.
        """
        raise NotImplementedError

    def entropy(self) -> Any:
        """Returns the entropy of each distribution, a tensor of the batch shape."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """Returns the exponential of the entropy, a tensor of the batch shape."""
        return torch.exp(self.entropy())

    # -- checks --------------------------------------------------------------------------------

    def _check(self, value: Any) -> None:
        """Refuse values out of the support, unless nothing is to be checked."""
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        first = value.dim() - len(self._event_shape)
        if value.shape[max(first, 0) :] != self._event_shape or first < 0:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.size()} vs "
                f"{self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.size()} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        known = getattr(self, "arg_constraints", {})
        own = {name: vars(self)[name] for name in known if name in vars(self)}
        text = ", ".join(f"{k}: {v if v.numel() == 1 else v.size()}" for k, v in own.items())
        return f"{self.__class__.__name__}({text})"


class ExponentialFamily(Distribution):
    """A distribution whose density is ``exp(<natural parameters, statistics> - F + k)``, where F is
    the logarithm of the normalization. Entropies and divergences follow from F by autograd.

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of one draw.

    Example:
        >>> isinstance(torch.distributions.Normal(0.0, 1.0), ExponentialFamily)
        True
    """

    def _unknown(self) -> Any:
        raise NotImplementedError

    _mean_carrier_measure: Any = property(_unknown)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        parameters = [p.detach().requires_grad_() for p in self._natural_params]
        with torch.enable_grad():
            normalizer = self._log_normalizer(*parameters)
            slopes = torch.autograd.grad(normalizer.sum(), parameters, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for parameter, gradient in zip(parameters, slopes, strict=True):
            result = result - (parameter * gradient).reshape((*self._batch_shape, -1)).sum(-1)
        return result
