"""Transforms of random numbers, vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

import retrograd as torch
from retrograd.distributions import constraints
from retrograd.distributions._transform import Transform
from retrograd.distributions.utils import (
    Number,
    broadcast_all,
    formula,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from retrograd.nn import functional

# -- functions of numbers ----------------------------------------------------------------------


class ExpTransform(Transform):
    """The exponential function.

    Example:
        >>> ExpTransform().inv(torch.ones(1))
        tensor([0.])
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign, _equal_by_type = True, 1, True

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """A power of positive numbers.

    Args:
        exponent: the exponent.

    Example:
        >>> PowerTransform(2.0)(torch.tensor([3.0]))
        tensor([9.])
    """

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def _copied(self, cache_size: int) -> Any:
        return PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self) -> Any:
        """1 if the transform is increasing, -1 if it is decreasing."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = None

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return torch.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _clipped_sigmoid(x: Any) -> Any:
    limits = torch.finfo(x.dtype)
    return torch.clamp(torch.sigmoid(x), min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(Transform):
    """The logistic function, clamped to stay inside (0, 1).

    Example:
        >>> SigmoidTransform()(torch.zeros(1))
        tensor([0.5000])
    """

    domain, codomain = constraints.real, constraints.unit_interval
    bijective, sign, _equal_by_type = True, 1, True

    def _call(self, x: Any) -> Any:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        limits = torch.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -functional.softplus(-x) - functional.softplus(x)


class SoftplusTransform(Transform):
    """``log(1 + exp(x))``.

    Example:
        >>> SoftplusTransform()(torch.zeros(1))
        tensor([0.6931])
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign, _equal_by_type = True, 1, True

    def _call(self, x: Any) -> Any:
        return functional.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -functional.softplus(-x)


class TanhTransform(Transform):
    """The hyperbolic tangent.

    Example:
        >>> TanhTransform()(torch.zeros(1))
        tensor([0.])
    """

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)
    bijective, sign, _equal_by_type = True, 1, True

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))


class AbsTransform(Transform):
    """The absolute value. Its inverse is the identity.

    Example:
        >>> AbsTransform()(torch.tensor([-2.0]))
        tensor([2.])
    """

    domain, codomain = constraints.real, constraints.positive
    _equal_by_type = True

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """``loc + scale * x``.

    Args:
        loc: what is added.
        scale: the factor.
        event_dim: how many dimensions belong to one value.

    Example:
        >>> AffineTransform(1.0, 2.0)(torch.ones(1))
        tensor([3.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = formula(lambda self: self._event_dim)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The constraint on its inputs and outputs."""
        if self._event_dim == 0:
            return constraints.real
        return constraints.independent(constraints.real, self._event_dim)

    codomain = domain

    def _copied(self, cache_size: int) -> Any:
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool(torch.as_tensor(a == b).all()) for a, b in pairs)

    __hash__ = None

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Number):
            return (self.scale > 0) - (self.scale < 0)  # type: ignore[operator]
        return self.scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        shape, scale = x.shape, self.scale
        if isinstance(scale, Number):
            result = torch.full_like(x, math.log(abs(scale)))
        else:
            result = torch.abs(scale).log()
        if self._event_dim:
            result = result.reshape((*result.shape[: -self._event_dim], -1)).sum(-1)
            shape = shape[: -self._event_dim]
        return result.expand(shape)

    def forward_shape(self, shape: Any) -> Any:
        parts = (getattr(x, "shape", ()) for x in (self.loc, self.scale))
        return torch.broadcast_shapes(shape, *parts)

    inverse_shape = forward_shape


# -- functions of vectors and matrices ---------------------------------------------------------


class _OfVectors(Transform):
    """A function of vectors, whose image has ``_more`` elements more."""

    domain, codomain = constraints.real_vector, constraints.simplex
    _more = 0

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return torch.Size((*shape[:-1], shape[-1] + self._more))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return torch.Size((*shape[:-1], shape[-1] - self._more))


class SoftmaxTransform(_OfVectors):
    """Softmax. It is not invertible; the inverse gives logarithms.

    Example:
        >>> SoftmaxTransform()(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """

    _equal_by_type = True

    def _call(self, x: Any) -> Any:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()


class StickBreakingTransform(_OfVectors):
    """Maps vectors to a simplex with one more element, by stick-breaking.

    Example:
        >>> StickBreakingTransform()(torch.zeros(1))
        tensor([0.5000, 0.5000])
    """

    bijective, _equal_by_type, _more = True, True, 1

    def _call(self, x: Any) -> Any:
        part = _clipped_sigmoid(x - self._offset(x, x.shape[-1]))
        left = (1 - part).cumprod(-1)
        return functional.pad(part, [0, 1], value=1) * functional.pad(left, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        first = y[..., :-1]
        left = torch.clamp(1 - first.cumsum(-1), min=torch.finfo(y.dtype).tiny)
        return first.log() - left.log() + self._offset(y, first.shape[-1])

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._offset(x, x.shape[-1])
        return (-x + functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    @staticmethod
    def _offset(like: Any, count: int) -> Any:
        """What makes zero the middle of the simplex."""
        return (count + 1 - like.new_ones(count).cumsum(-1)).log()


class CorrCholeskyTransform(Transform):
    """From vectors of D (D - 1) / 2 numbers to the Cholesky factors of D x D correlations.

    Example:
        >>> CorrCholeskyTransform()(torch.zeros(1))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = torch.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(torch.tanh(x).clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial**2).sqrt().cumprod(-1)
        rows = partial + torch.eye(partial.shape[-1], dtype=partial.dtype, device=partial.device)
        return rows * functional.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = functional.pad((1 - torch.cumsum(y * y, dim=-1))[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        of_tanh = -2 * (x + functional.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return 0.5 * left.log().sum(-1) + of_tanh

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        size = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return torch.Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return torch.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class LowerCholeskyTransform(Transform):
    """From square matrices to lower triangular ones with a positive diagonal.

    Example:
        >>> LowerCholeskyTransform()(torch.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky
    _equal_by_type = True

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """From square matrices to positive definite ones.

    Example:
        >>> PositiveDefiniteTransform()(torch.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite
    _equal_by_type = True

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))
