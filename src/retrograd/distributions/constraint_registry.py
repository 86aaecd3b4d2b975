"""Registry of transforms from unconstrained space to constrained space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.distributions import constraints, transforms
from retrograd.distributions.utils import Number

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Returns a transform from unconstrained values to those that satisfy a constraint.

    Args:
        constraint: the constraint.

    Returns:
        The transform.

    Example:
        >>> biject_to(constraints.unit_interval)
        SigmoidTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Registers a function that makes the transform. It can be used as a decorator.

        Args:
            constraint: a class of constraints, or one of them.
            factory: a function from a constraint to a transform.

        Returns:
            The function, or a decorator.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """Returns a transform to the region of a constraint.

        Args:
            constraint: the constraint.
        """
        if type(constraint) not in self._registry:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return self._registry[type(constraint)](constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _after_exp(bound: Any, sign: int) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(bound, sign)]
    )


def _to_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if all(isinstance(x, Number) for x in (low, high)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


def _register(registry: ConstraintRegistry) -> None:
    """What both registries know; parts are transformed by the same registry."""
    register = registry.register
    register(constraints.real, lambda c: transforms.identity_transform)
    for kind in (constraints.greater_than, constraints.greater_than_eq):
        register(kind, lambda c: _after_exp(c.lower_bound, 1))
    register(constraints.less_than, lambda c: _after_exp(c.upper_bound, -1))
    register(constraints.interval, _to_interval)
    register(constraints.half_open_interval, _to_interval)
    register(constraints.corr_cholesky, lambda c: transforms.CorrCholeskyTransform())
    register(constraints.independent, lambda c: transforms.IndependentTransform(
        registry(c.base_constraint), c.reinterpreted_batch_ndims))  # fmt: skip
    register(constraints.cat, lambda c: transforms.CatTransform(
        [registry(part) for part in c.cseq], c.dim, c.lengths))  # fmt: skip
    register(constraints.stack, lambda c: transforms.StackTransform(
        [registry(part) for part in c.cseq], c.dim))  # fmt: skip


_register(biject_to)
_register(transform_to)
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda c: transforms.PositiveDefiniteTransform())
