"""Statistics: variance, standard deviation, covariance, sums that ignore NaN, logsumexp,
aminmax."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear, products
from retrograd.ops._dims import Dims, many_dims, numel, one_dim
from retrograd.ops._lifted import bare
from retrograd.ops._operation import Operation, Singular, composite, raw, reduction
from retrograd.ops._public import public
from retrograd.ops._refusals import refuses
from retrograd.ops._results import named_result
from retrograd.ops._sections import sections
from retrograd.ops.comparisons import eq, isnan, logical_not
from retrograd.ops.copies import conj, to_dtype, zeros_like
from retrograd.ops.elementwise import exp, sqrt
from retrograd.ops.piecewise import clamp, masked_fill, where
from retrograd.ops.pointwise import complex_numbers
from retrograd.ops.reductions import basic as reductions
from retrograd.ops.selecting import amax_dim, amin_dim, evenly_dim
from retrograd.ops.shapes import reshaping

# -- variance --------------------------------------------------------------------------------


def _all_dims(dim: tuple[int, ...] | None, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(len(shape))) if dim is None else dim


def _var(self: Raw, dim: tuple[int, ...] | None, correction: float, keepdim: bool) -> Raw:
    return arrays.statistics.variance(self, dim, correction, keepdim)[0]


def _var_rule(g: Any, self: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """Deviations from the mean, scaled. Without degrees of freedom there is no derivative:
    it is infinite, or NaN where there is no deviation either."""
    shape = tuple(self.shape)
    dims = _all_dims(dim, shape)
    freedom = numel([shape[d] for d in dims]) - correction
    if len(dims) == len(shape):
        mean = linear.mean_all(self)
    else:
        mean = linear.mean_dim(self, dim=dims, keepdim=True)
    if freedom <= 0 and (dim is None or not shape):
        still = eq(raw(self), raw(mean))
        infinite = zeros_like(to_dtype(still, dtype=raw(g).dtype)) + float("inf")
        derivative = g * where(still, infinite * 0, infinite)
        dtype = raw(self).dtype
        return to_dtype(derivative, dtype=dtype) if dtype.kind == "c" else derivative
    g = g if keepdim else linear.kept(g, shape, dims)
    scale = 2 / freedom if freedom else float("inf")
    if arrays.is_raw(self):
        return arrays.statistics.scaled_deviations(self, mean, g * scale)
    return (g * scale) * (self - mean)


def _std_rule(g: Any, self: Any, result: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    derivative = g / (result + result)
    derivative = where(eq(result, 0), zeros_like(derivative), derivative)
    return _var_rule(derivative, self, dim, correction, keepdim)


def _mean_rule(g: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    shape = tuple(self.shape)
    dims = _all_dims(dim, shape)
    g = g / (numel([shape[d] for d in dims]) or 1)
    return linear.expand(g if keepdim else linear.kept(g, shape, dims), size=shape)


def _var_mean_rule(g: Any, self: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    spread = None if g[0] is None else _var_rule(g[0], self, dim, correction, keepdim)
    return _sum_of(spread, None if g[1] is None else _mean_rule(g[1], self, dim, keepdim))


def _std_mean_rule(
    g: Any, self: Any, result0: Any, dim: Any, correction: float, keepdim: bool
) -> Any:
    spread = None if g[0] is None else _std_rule(g[0], self, result0, dim, correction, keepdim)
    return _sum_of(spread, None if g[1] is None else _mean_rule(g[1], self, dim, keepdim))


def _sum_of(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _with_mean(spread: Operation) -> Any:
    """A measure of spread, and the mean."""

    def definition(self: Any, dim: Any, correction: float, keepdim: bool) -> tuple[Any, Any]:
        mean = linear.mean_dim(self, dim=_all_dims(dim, self.shape), keepdim=keepdim)
        return spread(self, dim=dim, correction=correction, keepdim=keepdim), mean

    return definition


var_op = reduction(
    "var", _var, _var_rule, adjoint=True, batch="dims",
    words="Each element gets the gradient times twice its distance from the mean, divided by the "
          "number of elements (minus the correction).",
)  # fmt: skip
std_op = reduction(
    "std",
    lambda self, dim, correction, keepdim:
        arrays.statistics.variance(self, dim, correction, keepdim, root=True)[0],
    _std_rule, adjoint=True, batch="dims",
    words="As for the variance, divided by twice the standard deviation.",
    singular=(Singular("result", (float("nan"),), "the standard deviation of one element is 0/0",
                       "use more elements, or correction=0"),),
)  # fmt: skip
var_mean_op = composite(
    "var_mean", _with_mean(var_op),
    lambda self, dim, correction, keepdim:
        arrays.statistics.variance(self, dim, correction, keepdim),
    rules={"self": _var_mean_rule},
    outputs=("result0", "result1"), adjoint=True, batch="dims",
)  # fmt: skip
std_mean_op = composite(
    "std_mean", _with_mean(std_op),
    lambda self, dim, correction, keepdim:
        arrays.statistics.variance(self, dim, correction, keepdim, root=True),
    rules={"self": _std_mean_rule},
    outputs=("result0", "result1"), adjoint=True, batch="dims",
)  # fmt: skip


def _spread_options(
    name: str, words: str, self: Any, dim: Any, unbiased: Any, keepdim: Any, correction: Any
) -> dict[str, Any]:
    """The options of ``var`` and its kin, whichever way they are given: ``var(dim, unbiased)``,
    ``var(unbiased)`` or ``var(dim, correction=...)``."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{name}() received an invalid combination of arguments")
    refuses("biu", f"{words} only support floating point and complex dtypes", RuntimeError)(
        raw(self)
    )
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    # An empty sequence of dimensions means all of them too, but not in the rule.
    dims = None if dim is None else many_dims(dim, len(self.shape))
    return {"dim": dims, "correction": correction, "keepdim": bool(keepdim)}


_VARIANCE = """\
Args:
    input: the input tensor.
    dim: dimension or dimensions to reduce; all by default.
    unbiased: whether to divide by N - 1 rather than N: ``correction=1`` or
        ``correction=0``.
    keepdim: keep the reduced dimensions, with size 1.
    correction: number to subtract from the number of elements N in the divisor; 1 by
        default.
"""


@public("torch method", out="cast")
@sections(_VARIANCE)
def var(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None,
) -> Any:  # fmt: skip
    """The variance of all elements, or of the elements along dimensions.

    Example:
        >>> torch.var(torch.tensor([[1., 3.], [2., 8.]]), dim=1)
        tensor([ 2., 18.])
    """
    return var_op(
        input, **_spread_options("var", "std and var", input, dim, unbiased, keepdim, correction)
    )


@public("torch method", out="cast")
@sections(_VARIANCE)
def std(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None,
) -> Any:  # fmt: skip
    """The standard deviation of all elements, or of the elements along dimensions.

    Example:
        >>> torch.std(torch.tensor([1., 3., 5.]))
        tensor(2.)
    """
    return std_op(
        input, **_spread_options("std", "std and var", input, dim, unbiased, keepdim, correction)
    )


@public("torch", out="same")
@sections(_VARIANCE)
def var_mean(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None,
) -> Any:  # fmt: skip
    """The variance and the mean of all elements, or along dimensions.

    Returns:
        A tuple ``(var, mean)``.

    Example:
        >>> torch.var_mean(torch.tensor([1., 3., 5.]))
        (tensor(4.), tensor(3.))
    """
    options = _spread_options("var_mean", "var_mean", input, dim, unbiased, keepdim, correction)
    return var_mean_op(input, **options)


@public("torch", out="same")
@sections(_VARIANCE)
def std_mean(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None,
) -> Any:  # fmt: skip
    """The standard deviation and the mean of all elements, or along dimensions.

    Returns:
        A tuple ``(std, mean)``.

    Example:
        >>> torch.std_mean(torch.tensor([1., 3., 5.]))
        (tensor(2.), tensor(3.))
    """
    options = _spread_options("std_mean", "std_mean", input, dim, unbiased, keepdim, correction)
    return std_mean_op(input, **options)


# -- the logarithm of a sum of exponentials --------------------------------------------------


def _logsumexp(self: Raw, dim: tuple[int, ...], keepdim: bool) -> Raw:
    return arrays.statistics.logsumexp(self, dim, keepdim)


def _logsumexp_rule(g: Any, self: Any, result: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    if not keepdim:
        g, result = (linear.kept(x, self.shape, dim) for x in (g, result))
    if arrays.is_raw(self):
        return arrays.statistics.scaled_exponentials(self, result, g)
    return g * exp(self - result)


logsumexp_op = reduction(
    "logsumexp", _logsumexp, _logsumexp_rule, dtypes="float",
    words="Each element gets the gradient times its share of the sum: softmax.",
)  # fmt: skip


@public("torch method special", out="cast")
def logsumexp(input: Any, dim: Dims, keepdim: bool = False) -> Any:
    """The logarithm of the sum of exponentials along dimensions, computed without overflow.

    Args:
        dim: dimension or dimensions to reduce.

    Example:
        >>> torch.logsumexp(torch.tensor([100., 100.]), 0)
        tensor(100.6931)
    """
    return logsumexp_op(input, dim=many_dims(dim, len(input.shape)), keepdim=bool(keepdim))


# -- sums that leave out NaN -----------------------------------------------------------------


def _nansum_rule(g: Any, self: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    counted = to_dtype(logical_not(isnan(raw(self))), dtype=raw(g).dtype)
    return (g if keepdim else linear.kept(g, self.shape, dim)) * counted


_refuse_complex = refuses("c", "nansum on CPU does not support complex inputs", RuntimeError)
nansum_op = composite(
    "nansum",
    lambda self, dim, keepdim: linear.sum_dim(
        masked_fill(self, isnan(raw(self)), 0), dim=dim, keepdim=keepdim
    ),
    lambda self, dim, keepdim: arrays.statistics.nansum(self, dim, keepdim),
    rules={"self": _nansum_rule}, dtypes="sum", check=_refuse_complex,
)  # fmt: skip


@public("torch method", out="cast")
def nansum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of all elements, or of the elements along dimensions, with NaN counted as zero.

    Args:
        dim: dimension or dimensions to reduce; all by default.

    Example:
        >>> torch.nansum(torch.tensor([1., torch.nan, 2.]))
        tensor(3.)
    """
    _refuse_complex(raw(input))
    given, wanted = raw(input).dtype.kind, None if dtype is None else dtype.numpy.kind
    if wanted == "c":
        if given in dtypes.FLOATS:
            word = arrays.dtypes.type_word(dtype.numpy)
            raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{word}'")
        return reductions.sum(input, dim, keepdim, dtype=dtype)
    if given in dtypes.FLOATS and wanted in ("b", "i", "u"):  # which have no NaN
        input = masked_fill(input, raw(isnan(input)), 0)
    self = reductions.in_dtype(input, dtype)
    total = nansum_op(self, dim=many_dims(dim, len(self.shape)), keepdim=bool(keepdim))
    return reductions.narrowed(total, dtype)


@public("torch method", out="cast")
def nanmean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean of the elements that are not NaN, of all or along dimensions.

    Args:
        input: the input tensor, floating-point or complex.
        dim: dimension or dimensions to reduce; all by default.

    Example:
        >>> torch.nanmean(torch.tensor([1., torch.nan, 2.]))
        tensor(1.5000)
    """
    refuses(
        "biu",
        "nanmean(): expected input to have floating point or complex dtype but got {}",
        RuntimeError,
    )(raw(input))
    reductions.check_mean_dtype("nanmean", dtype)
    total = nansum(input, dim, keepdim, dtype=dtype)
    return total / reductions.sum(logical_not(isnan(input.detach())), dim, keepdim)


# -- both extremes ---------------------------------------------------------------------------

Aminmax = named_result("aminmax", "min", "max")


def _aminmax_rule(
    g: Any, self: Any, min: Any, max: Any, dim: tuple[int, ...], keepdim: bool
) -> Any:
    low, high = (
        None if part is None else evenly_dim(part, self, extreme, dim, keepdim)
        for part, extreme in zip(g, (min, max), strict=True)
    )
    return _sum_of(low, high)


aminmax_op = composite(
    "aminmax",
    lambda self, dim, keepdim: (
        amin_dim(self, dim=dim, keepdim=keepdim), amax_dim(self, dim=dim, keepdim=keepdim)
    ),
    lambda self, dim, keepdim: (arrays.amin(self, dim, keepdim), arrays.amax(self, dim, keepdim)),
    rules={"self": _aminmax_rule}, outputs=("min", "max"),
)  # fmt: skip


@public("torch method", out="same")
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The minimum and the maximum of all elements, or along a dimension.

    Args:
        dim: dimension to reduce; by default, all elements are reduced.

    Returns:
        A named tuple ``(min, max)``.

    Example:
        >>> low, high = torch.aminmax(torch.tensor([3., 1., 2.]))
        >>> low, high
        (tensor(1.), tensor(3.))
    """
    shape = raw(input).shape
    if shape or dim is None:
        refuses("c", "\"aminmax_cpu\" not implemented for '{}'")(raw(input))
    refuses("c", "aminmax not implemented for {}", RuntimeError)(raw(input))
    if dim is None:
        if 0 in shape:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
                "identity."
            )
        dims = tuple(range(len(shape)))
    else:
        plain = one_dim(dim, len(shape))
        if shape and shape[plain] == 0:
            raise IndexError(f"aminmax: Expected reduction dim {plain} to have non-zero size.")
        dims = (plain,) if shape else ()
    return Aminmax(aminmax_op(input, dim=dims, keepdim=bool(keepdim)))


# -- covariance ------------------------------------------------------------------------------


def _weights(name: str, weights: Any, count: int, kinds: str, kind_words: str) -> Any:
    """Weights of observations, if they are fit to be that."""
    data = raw(weights)
    words = arrays.dtypes.type_word(data.dtype)
    if data.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{data.ndim} dimensions"
        )
    if data.dtype.kind not in kinds:
        raise RuntimeError(
            f"cov(): expected {name} to have {kind_words} dtype but got {name} with {words} dtype"
        )
    if data.size != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input "
            f"but got {data.size} != {count}"
        )
    if arrays.any(bare(weights) < 0):
        raise RuntimeError(f"cov(): {name} cannot be negative")
    return weights


@public("torch method")
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance matrix of variables (rows) over observations (columns).

    Args:
        input: a matrix of variables by observations, or a vector of observations of one
            variable.
        correction: number to subtract from the number of observations in the divisor.
        fweights: how often each observation is counted, a vector of integers.
        aweights: the weight of each observation, a vector of floating-point numbers.

    Returns:
        The covariance matrix; the variance if there is one variable.

    Example:
        >>> torch.cov(torch.tensor([[0., 1., 2.], [2., 1., 0.]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    refuses("b", "cov(): bool dtype is not supported for input", RuntimeError)(raw(input))
    values = reshaping.view(input, 1, -1) if input.ndim < 2 else input
    count = values.shape[1]
    weights = None
    if fweights is not None:
        weights = _weights("fweights", fweights, count, "iu", "integral")
    if aweights is not None:
        given = _weights("aweights", aweights, count, "f", "floating point")
        weights = given if weights is None else weights * given
    total = values.new_tensor(count, dtype=arrays.dtypes.int64) if weights is None else None
    if total is None:
        total = reductions.sum(weights)
        if arrays.any(bare(total) == 0):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = reductions.sum(values if weights is None else values * weights, 1) / total
    freedom = total - correction
    if aweights is not None and correction != 0:
        freedom = total - correction * reductions.sum(weights * aweights) / total
    if arrays.any(bare(freedom) <= 0):
        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "number of observations.",
            stacklevel=2,
        )
        freedom = clamp(freedom.detach(), min=0)
    values = values - reshaping.unsqueeze(mean, 1)
    transposed = reshaping.t(values if weights is None else values * weights)
    transposed = conj(transposed) if raw(transposed).dtype.kind == "c" else transposed
    return reshaping.squeeze(products.mm(values, transposed) / freedom)


@public("torch method")
def corrcoef(input: Any) -> Any:
    """The matrix of Pearson correlation coefficients of variables (rows) over observations.

    Args:
        input: a matrix of variables by observations, or a vector of observations of one
            variable.

    Returns:
        The matrix of correlation coefficients, which lie between -1 and 1.

    Example:
        >>> torch.corrcoef(torch.tensor([[0., 1., 2.], [4., 2., 0.]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    covariance = cov(input)
    if covariance.ndim == 0:
        return covariance / covariance
    variances = covariance.diagonal()
    complex_values = raw(covariance).dtype.kind == "c"
    deviations = sqrt(reshaping.real(variances) if complex_values else variances)
    ratio = covariance / reshaping.view(deviations, -1, 1) / reshaping.view(deviations, 1, -1)
    if not complex_values:
        return clamp(ratio, min=-1, max=1)
    parts = (clamp(part(ratio), min=-1, max=1) for part in (reshaping.real, reshaping.imag))
    return complex_numbers.complex(*parts)
