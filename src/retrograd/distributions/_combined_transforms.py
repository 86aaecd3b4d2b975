"""Transforms composed of others, reshaping, and cumulative distributions."""

from __future__ import annotations

import functools
import operator
from typing import Any

import retrograd as torch
from retrograd.distributions import constraints
from retrograd.distributions._transform import Transform
from retrograd.distributions.utils import formula, lazy_property, sum_rightmost


class ComposeTransform(Transform):
    """A composition of transforms, applied in order.

    Args:
        parts: the functions.

    Example:
        >>> from retrograd.distributions.transforms import AffineTransform, ExpTransform
        >>> ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)])(torch.zeros(1))
        tensor([3.])
    """

    def __init__(self, parts: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return _of_dims([(p.domain, p.codomain) for p in self.parts])

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return _of_dims([(p.codomain, p.domain) for p in reversed(self.parts)])

    @lazy_property
    def bijective(self) -> Any:
        return all(p.bijective for p in self.parts)

    @lazy_property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, (p.sign for p in self.parts), 1)

    @property
    def inv(self) -> Any:
        if self._inv is None:
            self._inv = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def _copied(self, cache_size: int) -> Any:
        return ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return torch.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        event_dim, result = self.domain.event_dim, 0
        for part, before, after in zip(self.parts, points[:-1], points[1:], strict=True):
            term = part.log_abs_det_jacobian(before, after)
            result = result + sum_rightmost(term, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return result

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inside = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {inside}\n)"


def _of_dims(steps: list[tuple[Any, Any]]) -> Any:
    """The region at the beginning of a chain of (from, to), with as many dimensions of an event as
    the steps after it need."""
    if not steps:
        return constraints.real
    first = steps[0][0]
    dims = steps[-1][1].event_dim
    for near, far in reversed(steps):
        dims = max(dims + near.event_dim - far.event_dim, near.event_dim)
    return (
        constraints.independent(first, dims - first.event_dim) if dims > first.event_dim else first
    )


class _Identity(ComposeTransform):
    """The identity.

    Args:
        x: the values.

    Returns:
        The values.

    Example:
        >>> identity_transform(torch.ones(1))
        tensor([1.])
    """

    def __init__(self) -> None:
        super().__init__([])

    def __repr__(self) -> str:
        return "ComposeTransform(\n    \n)"


identity_transform = _Identity()


class IndependentTransform(Transform):
    """Wraps a transform so that it treats more dimensions as parts of one event.

    Args:
        base_transform: the function.
        reinterpreted_batch_ndims: how many dimensions more.

    Example:
        >>> from retrograd.distributions.transforms import ExpTransform
        >>> IndependentTransform(ExpTransform(), 1).log_abs_det_jacobian(torch.ones(3), None)
        tensor(3.)
    """

    def __init__(self, base_transform: Any, reinterpreted_batch_ndims: int,
                 cache_size: int = 0) -> None:  # fmt: skip
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _copied(self, cache_size: int) -> Any:
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    bijective = formula(lambda self: self.base_transform.bijective)
    sign = formula(lambda self: self.base_transform.sign)

    def _call(self, x: Any) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        result = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(result, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Reshapes each event.

    Args:
        in_shape: the shape of an event.
        out_shape: the shape of its image.

    Example:
        >>> ReshapeTransform((4,), (2, 2))(torch.zeros(3, 4)).shape
        torch.Size([3, 2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = torch.Size(in_shape), torch.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _copied(self, cache_size: int) -> Any:
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Any) -> Any:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Any, old: Any, new: Any) -> Any:
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return torch.Size((*shape[:cut], *new))


class _Parts(Transform):
    """Functions of parts of a tensor."""

    def __init__(self, tseq: Any, dim: int, cache_size: int) -> None:
        assert all(isinstance(t, Transform) for t in tseq), (
            "All elements of tseq must be Transform instances"
        )
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    bijective = formula(lambda self: all(t.bijective for t in self.transforms))

    def _check_dim(self, x: Any, count: int) -> None:
        assert -x.dim() <= self.dim < x.dim(), (
            f"dim {self.dim} out of range for tensor with {x.dim()} dimensions"
        )
        size = x.size(self.dim)
        assert size == count, f"x.size({self.dim}) = {size} must equal length {count}"


class CatTransform(_Parts):
    """Applies transforms to consecutive parts of a tensor.

    Args:
        tseq: the functions.
        dim: the dimension along which the parts lie.
        lengths: the length of each part. The default is 1.

    Example:
        >>> from retrograd.distributions.transforms import ExpTransform
        >>> CatTransform([ExpTransform(), identity_transform], lengths=[1, 2])(torch.zeros(3))
        tensor([1., 0., 0.])
    """

    def __init__(self, tseq: Any, dim: int = 0, lengths: Any = None, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.transforms), (
            f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
        )

    @lazy_property
    def event_dim(self) -> Any:
        return max(t.event_dim for t in self.transforms)

    length = formula(lambda self: sum(self.lengths), "The length of all parts together.")

    def _copied(self, cache_size: int) -> Any:
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, x: Any) -> Any:
        self._check_dim(x, self.length)
        return torch.split(x, self.lengths, self.dim)

    def _call(self, x: Any) -> Any:
        parts = zip(self.transforms, self._split(x), strict=True)
        return torch.cat([t(part) for t, part in parts], dim=self.dim)

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._split(y), strict=True)
        return torch.cat([t.inv(part) for t, part in parts], dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        terms = []
        for t, a, b in zip(self.transforms, self._split(x), self._split(y), strict=True):
            term = t.log_abs_det_jacobian(a, b)
            terms.append(sum_rightmost(term, max(self.event_dim - t.event_dim, 0)))
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return torch.cat(terms, dim=dim) if dim < 0 else functools.reduce(operator.add, terms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Parts):
    """Applies a different transform to each index of a dimension.

    Args:
        tseq: the functions.
        dim: the dimension.

    Example:
        >>> from retrograd.distributions.transforms import ExpTransform
        >>> StackTransform([ExpTransform(), identity_transform])(torch.zeros(2))
        tensor([1., 0.])
    """

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def _copied(self, cache_size: int) -> Any:
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, x: Any) -> Any:
        self._check_dim(x, len(self.transforms))
        return x.unbind(self.dim)

    def _call(self, x: Any) -> Any:
        parts = zip(self.transforms, self._slices(x), strict=True)
        return torch.stack([t(part) for t, part in parts], dim=self.dim)

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._slices(y), strict=True)
        return torch.stack([t.inv(part) for t, part in parts], dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        parts = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return torch.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], dim=self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution, which maps its samples to uniform
    ones.

    Args:
        distribution: the distribution.

    Example:
        >>> CumulativeDistributionTransform(torch.distributions.Normal(0.0, 1.0))(torch.zeros(1))
        tensor([0.5000])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)

    def _copied(self, cache_size: int) -> Any:
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
