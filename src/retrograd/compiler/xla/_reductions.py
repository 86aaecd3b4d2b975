"""Lowerings of reductions, scans and order statistics, and of products of matrices."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from retrograd.compiler._program import Line
from retrograd.compiler.xla._table import is_on_mesh, lowering, lowerings

# -- extremes over devices -------------------------------------------------------------------


def _extreme(find: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """A maximum or minimum. That of several devices, as XLA computes it, ignores NaN."""
    result = find(x, axis=axis, keepdims=keepdims)
    if is_on_mesh() and jnp.issubdtype(x.dtype, jnp.floating):
        result = jnp.where(jnp.any(jnp.isnan(x), axis=axis, keepdims=keepdims), jnp.nan, result)
    return result


# -- sums ------------------------------------------------------------------------------------


def _sum(x: Any, line: Line, dim: Any = None, keepdim: bool = False) -> Any:
    dtype = line.outputs[0].dtype
    if dtype == "float16":  # sums are accumulated in float32
        return jnp.sum(x.astype("float32"), axis=dim, keepdims=keepdim)
    return jnp.sum(x, axis=dim, keepdims=keepdim, dtype=dtype)


@lowering("mean", "mean_dim")
def _mean(x: Any, line: Line, dim: Any = None, keepdim: bool = False) -> Any:
    total = _sum(x, line, dim, keepdim)
    count = math.prod(x.shape if dim is None else [x.shape[d] for d in dim])
    if not count:
        return jnp.full(total.shape, jnp.nan, total.dtype)
    return total / count


lowering("sum", "sum_dim")(_sum)


@lowering("prod", "prod_dim")
def _prod(x: Any, line: Line, dim: Any = None, keepdim: bool = False) -> Any:
    return jnp.prod(x, axis=dim if x.ndim else None, keepdims=keepdim and bool(x.ndim),
                    dtype=line.outputs[0].dtype)  # fmt: skip


# -- statistics and norms --------------------------------------------------------------------


def _variance(x: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    dims = tuple(range(x.ndim)) if dim is None else tuple(dim)
    count = math.prod([x.shape[d] for d in dims])
    x = x.astype("float32") if x.dtype == "float16" else x
    mean = jnp.sum(x, axis=dims, keepdims=True) / count if count else jnp.nan
    apart = x - mean
    squares = apart.real**2 + apart.imag**2 if x.dtype.kind == "c" else apart * apart
    rest = max(count - correction, 0)
    total = jnp.sum(squares, axis=dims, keepdims=keepdim)
    return total / jnp.asarray(rest, total.dtype)


@lowering("logsumexp")
def _logsumexp(x: Any, dim: Any, keepdim: bool) -> Any:
    if not x.size:
        total = jnp.sum(x, axis=dim, keepdims=keepdim)
        return jnp.full(total.shape, -jnp.inf, total.dtype)
    top = jnp.max(x.real, axis=dim, keepdims=True)
    top = jnp.where(jnp.isfinite(top), top, 0)
    total = jnp.sum(jnp.exp(x - top), axis=dim, keepdims=keepdim)
    return jnp.log(total) + top.reshape(total.shape)


def _norm(x: Any, order: float, dim: Any, keepdim: bool) -> Any:
    x = x.astype("float32") if x.dtype == "float16" else x

    def total(terms: Any) -> Any:
        return jnp.sum(terms, axis=dim, keepdims=keepdim)

    if order == 2:
        return jnp.sqrt(total(x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x))
    if order == 0:
        return total((x != 0).astype(x.real.dtype))
    sizes = jnp.abs(x)
    if order == 1:
        return total(sizes)
    if math.isinf(order):
        return _extreme(jnp.max if order > 0 else jnp.min, sizes, dim, keepdim)
    return jnp.power(total(jnp.power(sizes, order)), 1 / order)


lowerings(
    var=_variance,
    std=lambda x, dim, correction, keepdim: jnp.sqrt(_variance(x, dim, correction, keepdim)),
    linalg_vector_norm=lambda x, ord, dim, keepdim: _norm(x, ord, dim, keepdim),
    norm_of_differences=lambda x, p, dim, keepdim: _norm(x, p, dim, keepdim),
)


@lowering("length")
def _length(x: Any, p: float, dim: Any) -> Any:
    if p == 0:
        return jnp.sum(jnp.where(jnp.isnan(x), x, (x != 0).astype(x.dtype)), axis=dim)
    return _norm(x, p, dim, False)

# -- extremes --------------------------------------------------------------------------------


def _dim(x: Any, dim: Any) -> Any:
    return dim if x.ndim else None


@lowering("argmax", "argmin")
def _arg(x: Any, dim: Any, keepdim: bool, line: Line) -> Any:
    find = jnp.argmax if line.operation.name == "argmax" else jnp.argmin
    return find(x, axis=_dim(x, dim), keepdims=keepdim and bool(x.ndim))


@lowering("max_dim", "min_dim")
def _extreme_dim(x: Any, dim: int, keepdim: bool, line: Line) -> tuple[Any, Any]:
    if not x.ndim:
        return x, jnp.zeros((), "int64")
    largest = line.operation.name == "max_dim"
    values = _extreme(jnp.max if largest else jnp.min, x, dim, keepdim)
    return values, (jnp.argmax if largest else jnp.argmin)(x, axis=dim, keepdims=keepdim)


lowerings(
    max=lambda x: _extreme(jnp.max, x),
    min=lambda x: _extreme(jnp.min, x),
    amax=lambda x, dim, keepdim: _extreme(jnp.max, x, dim, keepdim),
    amin=lambda x, dim, keepdim: _extreme(jnp.min, x, dim, keepdim),
    all=lambda x, dim, keepdim: jnp.all(x != 0, axis=dim, keepdims=keepdim),
    any=lambda x, dim, keepdim: jnp.any(x != 0, axis=dim, keepdims=keepdim),
)


# -- scans -----------------------------------------------------------------------------------


@lowering("cumsum")
def _cumsum(x: Any, dim: int, line: Line) -> Any:
    return jnp.cumsum(x, axis=dim, dtype=line.outputs[0].dtype) if x.ndim else x


@lowering("cumsum_from_end")
def _cumsum_from_end(x: Any, dim: int, line: Line) -> Any:
    if not x.ndim:
        return x
    return jnp.flip(jnp.cumsum(jnp.flip(x, dim), axis=dim, dtype=line.outputs[0].dtype), dim)


@lowering("cumprod")
def _cumprod(x: Any, dim: int, line: Line) -> Any:
    return jnp.cumprod(x, axis=dim, dtype=line.outputs[0].dtype) if x.ndim else x


@lowering("cummax", "cummin")
def _running_extreme(x: Any, dim: int, line: Line) -> tuple[Any, Any]:
    """The cumulative maximum or minimum, and the last index that has this value."""
    if not x.ndim:
        return x, jnp.zeros((), "int64")
    choose = jnp.maximum if line.operation.name == "cummax" else jnp.minimum
    if not x.shape[dim]:
        return x, jnp.zeros(x.shape, "int64")
    values = lax.associative_scan(choose, x, axis=dim)
    has_it = x == values
    if x.dtype.kind == "f":
        has_it |= jnp.isnan(x)
    numbers = jnp.arange(x.shape[dim]).reshape(-1, *(1,) * (x.ndim - dim - 1))
    candidates = jnp.where(has_it, numbers, 0)
    return values, lax.associative_scan(jnp.maximum, candidates, axis=dim)


@lowering("recurrence")
def _recurrence(x: Any, factor: Any, dim: int, reverse: bool) -> Any:
    rows, factors = (jnp.moveaxis(a, dim, 0) for a in jnp.broadcast_arrays(x, factor))
    dtype = jnp.promote_types(x.dtype, factor.dtype)
    rows, factors = rows.astype(dtype), factors.astype(dtype)
    if not rows.shape[0]:
        return x

    def step(before: Any, xs: Any) -> Any:
        row, through, first = xs
        now = row + jnp.where(first, 0, through * before)
        return now, now

    firsts = jnp.zeros(rows.shape[0], bool).at[-1 if reverse else 0].set(True)
    start = jnp.zeros(rows.shape[1:], dtype)
    results = lax.scan(step, start, (rows, factors, firsts), reverse=reverse)[1]
    return jnp.moveaxis(results, 0, dim)


# -- order statistics ------------------------------------------------------------------------


def _kth(x: Any, k: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The element at index ``k`` of the sorted input, and its index in the input."""
    if not x.ndim:
        return x, jnp.zeros((), "int64")
    order = jnp.argsort(x, dim, stable=True)
    shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    indices = jnp.take_along_axis(order, jnp.broadcast_to(k, shape), dim)
    values = jnp.take_along_axis(x, indices, dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


@lowering("median_dim", "nanmedian_dim")
def _median(x: Any, dim: int, keepdim: bool, line: Line) -> tuple[Any, Any]:
    if not x.ndim:
        return x, jnp.zeros((), "int64")
    size = x.shape[dim]
    k: Any = jnp.asarray((size - 1) // 2)
    if x.dtype.kind == "f":
        count = jnp.sum(jnp.isnan(x), axis=dim, keepdims=True)
        if line.operation.name == "nanmedian_dim":
            k = jnp.maximum(size - count - 1, 0) // 2
        else:
            k = jnp.where(count > 0, size - count, k)
    return _kth(x, k, dim, keepdim)


@lowering("kthvalue")
def _kthvalue(x: Any, k: int, dim: int, keepdim: bool) -> tuple[Any, Any]:
    return _kth(x, jnp.asarray(k - 1), dim, keepdim)


@lowering("mode")
def _mode(x: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    if not x.ndim:
        return x, jnp.zeros((), "int64")
    order = jnp.argsort(x, dim, stable=True)
    rows = jnp.moveaxis(jnp.take_along_axis(x, order, dim), dim, -1)
    at = jnp.arange(rows.shape[-1])
    begins = jnp.ones(rows.shape, bool).at[..., 1:].set(rows[..., 1:] != rows[..., :-1])
    run = at - lax.cummax(jnp.where(begins, at, 0), axis=rows.ndim - 1)
    longest = jnp.expand_dims(jnp.argmax(run, axis=-1), dim)
    indices = jnp.take_along_axis(order, longest, dim)
    values = jnp.take_along_axis(x, indices, dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


# -- products --------------------------------------------------------------------------------


@lowering("mm", "bmm", "mv", "dot")
def _product(x: Any, y: Any, rounded: bool = False) -> Any:
    if x.dtype == y.dtype == jnp.bfloat16:  # sums are accumulated in float32 in either case
        return jnp.matmul(x, y, preferred_element_type=jnp.bfloat16 if rounded else jnp.float32)
    if x.dtype.kind in "fc":
        return jnp.matmul(x, y, precision=lax.Precision.HIGHEST)
    return jnp.matmul(x, y)


@lowering("linalg_cross")
def _cross(x: Any, y: Any, dim: int) -> Any:
    return jnp.cross(x, y, axis=dim)


