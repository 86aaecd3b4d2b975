"""Multivariate normal distributions, and distributions of matrices."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import retrograd as torch
from retrograd.distributions import constraints
from retrograd.distributions._gamma import Beta, Chi2
from retrograd.distributions.distribution import EMPTY, Distribution, ExponentialFamily, Size
from retrograd.distributions.utils import (
    Number,
    broadcast_all,
    formula,
    lazy_property,
    standard_normal,
)

_LOG_2_PI = math.log(2 * math.pi)


def diagonal(matrices: Any) -> Any:
    """The diagonals of matrices."""
    return matrices.diagonal(dim1=-2, dim2=-1)


def half_log_det(factor: Any) -> Any:
    """Half the logarithm of the determinant of a matrix, of its Cholesky factor."""
    return diagonal(factor).log().sum(-1)


def mahalanobis(factor: Any, x: Any) -> Any:
    """The squared length of vectors, measured by matrices given by their Cholesky factors."""
    n = x.shape[-1]
    if factor.dim() == 2:  # one matrix for all
        columns = torch.linalg.solve_triangular(factor, x.reshape(-1, n).mT, upper=False)
        return columns.pow(2).sum(0).reshape(x.shape[:-1])
    batch = torch.broadcast_shapes(factor.shape[:-2], x.shape[:-1])
    solved = torch.linalg.solve_triangular(
        factor.expand((*batch, n, n)), x.expand((*batch, n)).unsqueeze(-1), upper=False
    )
    return solved.squeeze(-1).pow(2).sum(-1)


def _times(matrix: Any, vector: Any) -> Any:
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _factor_of_precision(precision: Any) -> Any:
    """The Cholesky factor of the inverse of a matrix."""
    flipped = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    inverse = torch.flip(flipped, (-2, -1)).mT
    unit = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.linalg.solve_triangular(inverse, unit, upper=False)


_MATRICES = {
    "covariance_matrix": constraints.positive_definite,
    "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
}  # fmt: skip


class _OfCovariance(Distribution):
    """A distribution with a covariance matrix, given as such, by its inverse or by its factor."""

    _unbroadcasted_scale_tril: Any

    def _set_factor(self, covariance: Any, precision: Any, factor: Any) -> None:
        if factor is not None:
            self._unbroadcasted_scale_tril = factor
        elif covariance is not None:
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(covariance)
        else:
            self._unbroadcasted_scale_tril = _factor_of_precision(precision)

    def _matrix(self, matrix: Any) -> Any:
        n = self._event_shape[-1]
        return matrix.expand((*self._batch_shape, n, n))

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._matrix(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._matrix(torch.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(_OfCovariance):
    """The normal distribution of vectors. Exactly one of the three matrices is given.

    Args:
        loc: the mean.
        covariance_matrix: the covariance.
        precision_matrix: its inverse.
        scale_tril: its Cholesky factor.

    Example:
        >>> MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
        tensor(-1.8379)
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real_vector, **_MATRICES}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
                 scale_tril: Any = None, validate_args: bool | None = None) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
                 "scale_tril": scale_tril}  # fmt: skip
        matrices = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(matrices) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        ((name, matrix),) = matrices
        if matrix.dim() < 2:
            called = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{called} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._set_factor(covariance_matrix, precision_matrix, scale_tril)

    mean = mode = formula(lambda self: self.loc)

    @property
    def variance(self) -> Any:
        own = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return own.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + _times(self._unbroadcasted_scale_tril, drawn)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        square = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = half_log_det(self._unbroadcasted_scale_tril)
        return -0.5 * (self._event_shape[0] * _LOG_2_PI + square) - constant

    def entropy(self) -> Any:
        constant = 0.5 * self._event_shape[0] * (1.0 + _LOG_2_PI)
        return (constant + half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors, with a covariance of low rank plus a diagonal.

    Args:
        loc: the mean.
        cov_factor: a matrix W; its product with its transpose is part of the covariance.
        cov_diag: the diagonal that is added.

    Example:
        >>> d = LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2))
        >>> d.covariance_matrix
        tensor([[2., 1.],
                [1., 2.]])
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            batch = torch.broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = loc.expand((*batch, -1)), cov_diag.expand((*batch, -1))
        self.cov_factor = cov_factor.expand((*batch, -1, -1))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        unit = torch.eye(cov_factor.shape[-1], dtype=cov_factor.dtype, device=cov_factor.device)
        # I + W^T D^-1 W, which stands for the covariance in all that follows
        inner = unit + (cov_factor.mT / cov_diag.unsqueeze(-2)) @ cov_factor
        self._capacitance_tril = torch.linalg.cholesky(inner)
        super().__init__(batch, event, validate_args=validate_args)

    mean = mode = formula(lambda self: self.loc)

    def _matrix(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self) -> Any:
        """The variance of each element."""
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1)
        variance = squares + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        unit = torch.eye(self._event_shape[0], dtype=scaled.dtype, device=scaled.device)
        return self._matrix(root * torch.linalg.cholesky(unit + scaled @ scaled.mT))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        return self._matrix(factor @ factor.mT + torch.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        inner = self.inner_solved()
        reciprocals = torch.diag_embed(self._unbroadcasted_cov_diag.reciprocal())
        return self._matrix(reciprocals - inner.mT @ inner)

    def inner_solved(self) -> Any:
        """Returns a matrix A of low rank, such that the precision is ``diag(1 / D) - A^T A``."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        return torch.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)

    def log_det(self) -> Any:
        """Returns the logarithm of the determinant of the covariance."""
        diagonals = self._unbroadcasted_cov_diag.log().sum(-1)
        return 2 * half_log_det(self._capacitance_tril) + diagonals

    def squared_length(self, x: Any) -> Any:
        """Returns the squared length of vectors, measured by the covariance.

        Args:
            x: the vectors.
        """
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        whole = (x.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
        return whole - mahalanobis(self._capacitance_tril, _times(scaled, x))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        inner = standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc)
        own = standard_normal(shape, self.loc) * self._unbroadcasted_cov_diag.sqrt()
        return self.loc + _times(self._unbroadcasted_cov_factor, inner) + own

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        square = self.squared_length(value - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2_PI + self.log_det() + square)

    def entropy(self) -> Any:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + _LOG_2_PI) + self.log_det())
        return entropy.expand(self._batch_shape)


class Wishart(_OfCovariance, ExponentialFamily):
    """The distribution of the sum of outer products of normal vectors. Exactly one of the three
    matrices is given.

    Args:
        df: the degrees of freedom, more than the size of the matrix minus one.
        covariance_matrix: the covariance of the vectors.
        precision_matrix: its inverse.
        scale_tril: its Cholesky factor.

    Example:
        >>> Wishart(torch.tensor(3.0), torch.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _also_expanded: ClassVar[dict[str, int]] = {
        "df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
    }  # fmt: skip

    @property
    def arg_constraints(self) -> Any:
        """The constraints on the parameters."""
        return {**_MATRICES, "df": constraints.greater_than(self.event_shape[-1] - 1)}

    def __init__(self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
                 scale_tril: Any = None, validate_args: bool | None = None) -> None:  # fmt: skip
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
                 "scale_tril": scale_tril}  # fmt: skip
        matrices = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        assert len(matrices) == 1, (
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
        ((name, matrix),) = matrices
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if isinstance(df, Number):
            batch = matrix.shape[:-2]
            self.df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch)
        size = matrix.shape[-1]
        if (self.df <= size - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        super().__init__(batch, matrix.shape[-2:], validate_args=validate_args)
        self._set_factor(covariance_matrix, precision_matrix, scale_tril)

    def _columns(self, vector: Any) -> Any:
        return vector.reshape((*self._batch_shape, 1, 1)) if self._batch_shape else vector

    mean = formula(lambda self: self._columns(self.df) * self.covariance_matrix)

    @property
    def mode(self) -> Any:
        factor = self.df - self._event_shape[-1] - 1
        factor = torch.where(factor <= 0, math.nan, factor)
        return self._columns(factor) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        covariance = self.covariance_matrix
        own = diagonal(covariance)
        products = own.unsqueeze(-1) * own.unsqueeze(-2)
        return self._columns(self.df) * (covariance.pow(2) + products)

    def _drawn(self, sample_shape: Any) -> Any:
        """Bartlett's decomposition: normal numbers below a diagonal of chi-distributed ones."""
        p, like = self._event_shape[-1], self._unbroadcasted_scale_tril
        dtype, device = like.dtype, like.device
        freedom = self.df.unsqueeze(-1) - torch.arange(p, dtype=dtype, device=device).expand(
            (*self._batch_shape, -1)
        )
        roots = Chi2(freedom).rsample(sample_shape).sqrt().clamp(min=torch.finfo(dtype).eps)
        rows, columns = torch.tril_indices(p, p, offset=-1, device=device)
        shape = (*sample_shape, *self._batch_shape)
        triangle = torch.zeros((*shape, p, p), dtype=dtype, device=device)
        triangle[..., rows, columns] = standard_normal((*shape, p * (p - 1) // 2), like)
        factor = self._unbroadcasted_scale_tril @ (roots.diag_embed(dim1=-2, dim2=-1) + triangle)
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        sample_shape = Size(sample_shape)
        self._drawn(sample_shape)  # PyTorch takes its first draw for singular, and draws again
        return self._drawn(sample_shape)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        nu, p = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        traces = diagonal(torch.cholesky_solve(value, factor)).sum(-1)
        return (
            -nu * (p * math.log(2) / 2 + half_log_det(factor)) - torch.mvlgamma(nu / 2, p=p)
            + (nu - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet - traces / 2
        )  # fmt: skip

    def entropy(self) -> Any:
        nu, p = self.df, self._event_shape[-1]
        halves = torch.arange(p, dtype=nu.dtype, device=nu.device) / 2
        slopes = torch.digamma((nu / 2).unsqueeze(-1) - halves).sum(-1)
        return (
            (p + 1) * (p * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril))
            + torch.mvlgamma(nu / 2, p=p) - (nu - p - 1) / 2 * slopes + nu * p / 2
        )  # fmt: skip

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Any) -> Any:
        x, y = natural_params
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        log_det = torch.linalg.slogdet(-2 * x).logabsdet
        return half * (math.log(2) * p - log_det) + torch.mvlgamma(half, p=p)


class LKJCholesky(Distribution):
    """A distribution over Cholesky factors of correlation matrices.

    Args:
        dim: the size of the matrices.
        concentration: 1 for a uniform distribution of the correlations; more prefers the identity.

    Example:
        >>> LKJCholesky(3, 0.5).sample().shape
        torch.Size([3, 3])
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The squared length of the part of each row before the diagonal is beta-distributed.
        like = self.concentration
        offset = torch.arange(dim - 1, dtype=like.dtype, device=like.device)
        offset = torch.cat([offset.new_zeros((1,)), offset])
        below = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * offset
        self._beta = Beta(offset + 0.5, below)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args)

    def _expanded_part(self, name: str, part: Any, batch_shape: Any) -> Any:
        return part.expand((*batch_shape, self.dim))

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with torch.no_grad():
            squares = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normal = standard_normal(shape, squares).tril(-1)
            direction = normal / normal.norm(dim=-1, keepdim=True)
            direction[..., 0, :] = 0.0
            rows = torch.sqrt(squares) * direction
            left = torch.clamp(1 - torch.sum(rows**2, dim=-1), min=torch.finfo(rows.dtype).tiny)
            return rows + torch.diag_embed(left.sqrt())

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        numbers = torch.arange(2, self.dim + 1, device=self.concentration.device)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - numbers
        logs = torch.sum(powers * diagonal(value)[..., 1:].log(), dim=-1)
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        constant = torch.mvlgamma(alpha - 0.5, less) - torch.lgamma(alpha) * less
        return logs - (0.5 * less * math.log(math.pi) + constant)
