"""NumPy's reductions and scans."""

# ruff: noqa: A001 - NumPy's names

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import retrograd as torch
from retrograd import Tensor
from retrograd.numpy_protocols._arguments import (
    Axis,
    along_one,
    array,
    axes_of,
    cast,
    count_of,
    dtype_of,
    floating,
    refuse,
)
from retrograd.ops._public import named


def _masked(a: Any, where: Any, otherwise: Any) -> Any:
    return a if where is True else torch.where(array(where), a, otherwise)


def _summed(a: Any, axis: Axis, keepdims: bool, dtype: Any = None) -> Any:
    """The sum over axes, which may be none at all."""
    axes = axes_of(axis, a.ndim)
    result_dtype = None if dtype is None else dtype_of(dtype)
    if not axes:
        return a[..., None].sum(-1, dtype=result_dtype)
    return torch.sum(a, axes, keepdim=keepdims, dtype=result_dtype)


def sum(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = None, where: Any = True) -> Any:  # fmt: skip
    result = _summed(_masked(array(a), where, 0), axis, keepdims, dtype)
    return result if initial is None else result + initial


def prod(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
         initial: Any = None, where: Any = True) -> Any:  # fmt: skip
    result = along_one(torch.prod, cast(_masked(array(a), where, 1), dtype), axis, keepdims)
    return result if initial is None else result * initial


def _counted(a: Tensor, axis: Axis, where: Any) -> Any:
    """How many elements each result is made of."""
    if where is True:
        return count_of(a.shape[d] for d in axes_of(axis, a.ndim))
    return _summed(array(where).expand(a.shape), axis, True)


def mean(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
         where: Any = True) -> Any:  # fmt: skip
    a = cast(array(a), dtype) if dtype is not None else floating(a)
    if where is True and axes_of(axis, a.ndim):
        return torch.mean(a, axes_of(axis, a.ndim), keepdim=keepdims)
    return _unless(keepdims, _summed(_masked(a, where, 0), axis, True) / _counted(a, axis, where),
                   a, axis)  # fmt: skip


def _unless(keepdims: bool, result: Any, a: Tensor, axis: Axis) -> Any:
    """A result that has all dimensions, without those that were reduced, unless they are kept."""
    if keepdims:
        return result
    axes = axes_of(axis, a.ndim)
    return result.reshape([n for d, n in enumerate(a.shape) if d not in axes])


def var(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0,
        keepdims: bool = False, where: Any = True, mean: Any = None,
        correction: Any = None) -> Any:  # fmt: skip
    a = cast(array(a), dtype) if dtype is not None else floating(a)
    ddof = ddof if correction is None else correction
    if where is True and mean is None and axes_of(axis, a.ndim):
        return torch.var(a, axes_of(axis, a.ndim), correction=ddof, keepdim=keepdims)
    count = _counted(a, axis, where)
    center = _summed(_masked(a, where, 0), axis, True) / count if mean is None else array(mean)
    squares = _masked(torch.abs(a - center) ** 2, where, 0)
    return _unless(keepdims, _summed(squares, axis, True) / (count - ddof), a, axis)


def std(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0,
        keepdims: bool = False, where: Any = True, mean: Any = None,
        correction: Any = None) -> Any:  # fmt: skip
    a = cast(array(a), dtype) if dtype is not None else floating(a)
    if where is True and mean is None and axes_of(axis, a.ndim):
        ddof = ddof if correction is None else correction
        return torch.std(a, axes_of(axis, a.ndim), correction=ddof, keepdim=keepdims)
    return torch.sqrt(var(a, axis, None, None, ddof, keepdims, where, mean, correction))


def _extreme(name: str, a: Any, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Any:
    a = array(a)
    if where is not True:
        if initial is None:
            raise ValueError(f"numpy.{name[1:]}: a where mask needs an initial value")
        a = _masked(a, where, initial)
    if initial is not None and not a.numel():  # what is reduced may be empty
        return torch.full_like(torch.sum(a, axes_of(axis, a.ndim), keepdim=keepdims), initial)
    result = along_one(getattr(torch, name), a, axis, keepdims)
    if initial is None:
        return result
    bound = torch.as_tensor(initial).to(result.dtype)
    return (torch.maximum if name == "amax" else torch.minimum)(result, bound)


def max(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None,
        where: Any = True) -> Any:  # fmt: skip
    return _extreme("amax", a, axis, keepdims, initial, where)


def min(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None,
        where: Any = True) -> Any:  # fmt: skip
    return _extreme("amin", a, axis, keepdims, initial, where)


amax, amin = max, min


def ptp(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False) -> Any:
    return max(a, axis, None, keepdims) - min(a, axis, None, keepdims)


def all(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, *,
        where: Any = True) -> Any:  # fmt: skip
    return along_one(torch.all, _masked(array(a) != 0, where, True), axis, keepdims)


def any(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, *,
        where: Any = True) -> Any:  # fmt: skip
    return along_one(torch.any, _masked(array(a) != 0, where, False), axis, keepdims)


def count_nonzero(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    return _summed(array(a) != 0, axis, keepdims)


def _ordered(a: Any) -> Any:
    """An array that can be compared: truth as 0 and 1."""
    a = array(a)
    return a.to(torch.uint8) if a.dtype is torch.bool else a


def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
    return along_one(torch.argmax, _ordered(a), axis, keepdims)


def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
    return along_one(torch.argmin, _ordered(a), axis, keepdims)


def average(a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *,
            keepdims: bool = False) -> Any:  # fmt: skip
    a = floating(a)
    if weights is None:
        result = mean(a, axis, None, None, keepdims)
        count = torch.full_like(result, _counted(a, axis, True))
        return (result, count) if returned else result
    weights = array(weights)
    if weights.shape != a.shape:
        axes = axes_of(axis, a.ndim)
        if axis is None or weights.shape != tuple(a.shape[d] for d in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along axis")
        sizes = [a.shape[d] if d in axes else 1 for d in range(a.ndim)]
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        weights = weights.permute(order).reshape(sizes)
    scale = _summed(weights.expand(a.shape), axis, keepdims)
    result = _summed(a * weights, axis, keepdims) / scale
    return (result, scale.to(result.dtype)) if returned else result


# -- order statistics ------------------------------------------------------------------------


def _quantile(
    name: str, a: Any, q: Any, axis: Axis, method: str, keepdims: bool, weights: Any = None
) -> Any:
    if weights is not None:
        refuse("numpy.quantile(weights=)")
    if method not in ("linear", "lower", "higher", "midpoint", "nearest"):
        refuse(f"numpy.quantile(method={method!r})")
    a = floating(a)
    q = array(q).detach().to(a.dtype)
    if not a.numel() and name == "quantile":
        empty = _summed(a, axis, keepdims) * torch.nan
        return empty.expand(*q.shape, *empty.shape)
    function = getattr(torch, name)
    result = along_one(
        lambda x, dim: function(x, q.reshape(-1), dim, interpolation=method), a, axis, keepdims
    )
    return result.reshape(*q.shape, *result.shape[1:])


def _quantiles(name: str, ours: str, percent: bool) -> Callable[..., Any]:
    def quantile(a: Any, q: Any, axis: Axis = None, out: Any = None, overwrite_input: bool = False,
                 method: str = "linear", keepdims: bool = False, *,
                 weights: Any = None) -> Any:  # fmt: skip
        if percent:  # as a share of one, in double precision
            q = array(q).to(torch.float64) / 100
        return _quantile(ours, a, q, axis, method, keepdims, weights)

    return named(quantile, name, None)


quantile = _quantiles("quantile", "quantile", False)
percentile = _quantiles("percentile", "quantile", True)
nanquantile = _quantiles("nanquantile", "nanquantile", False)
nanpercentile = _quantiles("nanpercentile", "nanquantile", True)


def median(a: Any, axis: Axis = None, out: Any = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Any:  # fmt: skip
    """The mean of the two values in the middle, where there are two."""
    return _quantile("quantile", a, 0.5, axis, "linear", keepdims)


def nanmedian(a: Any, axis: Axis = None, out: Any = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Any:  # fmt: skip
    return _quantile("nanquantile", a, 0.5, axis, "linear", keepdims)


# -- without what is not a number ------------------------------------------------------------


def _is_number(a: Any) -> Any:
    a = array(a)
    return ~torch.isnan(a) if a.is_floating_point() or a.is_complex() else True


def nansum(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
           initial: Any = None, where: Any = True) -> Any:  # fmt: skip
    return sum(_masked(array(a), _is_number(a), 0), axis, dtype, None, keepdims, initial, where)


def nanprod(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
            initial: Any = None, where: Any = True) -> Any:  # fmt: skip
    return prod(_masked(array(a), _is_number(a), 1), axis, dtype, None, keepdims, initial, where)


def nanmean(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
            *, where: Any = True) -> Any:  # fmt: skip
    return mean(_masked(array(a), _is_number(a), 0), axis, dtype, None, keepdims,
                _both(_is_number(a), where))  # fmt: skip


def _both(known: Any, where: Any) -> Any:
    if where is True:
        return known
    return array(where) if known is True else torch.logical_and(known, array(where))


def nanvar(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0,
           keepdims: bool = False, *, where: Any = True, mean: Any = None,
           correction: Any = None) -> Any:  # fmt: skip
    known = _is_number(a)
    return var(_masked(array(a), known, 0), axis, dtype, None, ddof, keepdims,
               _both(known, where), mean, correction)  # fmt: skip


def nanstd(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0,
           keepdims: bool = False, *, where: Any = True, mean: Any = None,
           correction: Any = None) -> Any:  # fmt: skip
    return torch.sqrt(
        nanvar(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    )


def _nan_extreme(name: str, a: Any, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Any:
    a, known = array(a), _is_number(a)
    if known is True:
        return _extreme(name, a, axis, keepdims, initial, where)
    worst = -torch.inf if name == "amax" else torch.inf
    result = _extreme(name, _masked(a, known, worst), axis, keepdims, initial, where)
    return torch.where(any(known, axis, None, keepdims), result, torch.nan)


def nanmax(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None,
           where: Any = True) -> Any:  # fmt: skip
    return _nan_extreme("amax", a, axis, keepdims, initial, where)


def nanmin(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None,
           where: Any = True) -> Any:  # fmt: skip
    return _nan_extreme("amin", a, axis, keepdims, initial, where)


def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
    return argmax(_masked(array(a), _is_number(a), -torch.inf), axis, keepdims=keepdims)


def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
    return argmin(_masked(array(a), _is_number(a), torch.inf), axis, keepdims=keepdims)


# -- scans -----------------------------------------------------------------------------------


def _scanned(name: str, a: Any, axis: Any, dtype: Any) -> Any:
    a = array(a)
    a = a.reshape(-1) if axis is None or not a.ndim else a
    options = {} if dtype is None else {"dtype": dtype_of(dtype)}
    return getattr(torch, name)(a, axis or 0, **options)


def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _scanned("cumsum", a, axis, dtype)


def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _scanned("cumprod", a, axis, dtype)


def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _scanned("cumsum", _masked(array(a), _is_number(a), 0), axis, dtype)


def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _scanned("cumprod", _masked(array(a), _is_number(a), 1), axis, dtype)


def _cumulative(name: str, x: Any, axis: Any, dtype: Any, include_initial: bool) -> Any:
    x = array(x)
    if axis is None:
        if x.ndim > 1:
            raise ValueError("For arrays which have more than one dimension `axis` is required.")
        axis = 0
    result = _scanned(name, x if x.ndim else x[None], axis, dtype)
    if not include_initial:
        return result
    shape = [*result.shape]
    shape[axis] = 1
    return torch.cat([result.new_full(shape, name == "cumprod"), result], axis)


def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None,
                   include_initial: bool = False) -> Any:  # fmt: skip
    return _cumulative("cumsum", x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None,
                    include_initial: bool = False) -> Any:  # fmt: skip
    return _cumulative("cumprod", x, axis, dtype, include_initial)
