"""Statistics, norms and scans of raw arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from retrograd.arrays import _blocks as blocks
from retrograd.arrays._memory import in_reading_order
from retrograd.arrays._numpy import Raw
from retrograd.arrays._reducing import sum as plain_sum
from retrograd.arrays._reducing import wide

# -- sums over some dimensions ---------------------------------------------------------------


def variance(
    x: Raw, axes: tuple[int, ...] | None, correction: float, keepdims: Any, root: bool = False
) -> tuple[Raw, Raw]:
    """The variance, or its root, and the mean. A root may fit into half precision where the
    variance does not."""
    values = np.asarray(wide(x))
    axes = tuple(range(values.ndim)) if axes is None else axes
    count = math.prod([values.shape[a] for a in axes])
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.add.reduce(values, axis=axes, keepdims=True) / values.dtype.type(count)
        deviation = values - mean
        if deviation.dtype.kind == "c":
            squares = np.square(deviation.real) + np.square(deviation.imag)
        else:
            squares = deviation * deviation
        total = np.add.reduce(squares, axis=axes, keepdims=keepdims)
        result = total / total.dtype.type(max(count - correction, 0))
        result = np.sqrt(result) if root else result
    if not keepdims:
        mean = mean.reshape(result.shape)
    return _as_given(result, x), _as_given(mean, x)


def _as_given(result: Raw, x: Raw) -> Raw:
    """The dtype of ``x``, and row by row in memory, as PyTorch has it, whatever ``x`` is."""
    result = in_reading_order(result)
    return result.astype(np.float16) if x.dtype == np.float16 else result


def scaled_deviations(x: Raw, mean: Raw, scale: Raw) -> Raw:
    """``(x - mean) * scale``."""
    if not np.ndim(x) or not blocks_pay(x):
        return (x - mean) * scale
    out = np.empty(x.shape, np.result_type(x, scale))

    def kernel(values: Raw, centre: Raw, factor: Raw, result: Raw) -> None:
        np.subtract(values, centre, out=result)
        np.multiply(result, factor, out=result)

    blocks.run(kernel, x, np.broadcast_to(mean, x.shape), np.broadcast_to(scale, x.shape), out)
    return out


def scaled_ratio(x: Raw, divisor: Raw, scale: Raw) -> Raw:
    """``x / divisor * scale``, but zero where the divisor is."""
    divisor = np.where(divisor == 0, np.inf, divisor).astype(divisor.dtype)
    if not np.ndim(x) or not blocks_pay(x):
        return x / divisor * scale
    out = np.empty(x.shape, np.result_type(x, scale))

    def kernel(values: Raw, below: Raw, factor: Raw, result: Raw) -> None:
        np.divide(values, below, out=result)
        np.multiply(result, factor, out=result)

    divisor, scale = (np.broadcast_to(a, x.shape) for a in (divisor, scale))
    blocks.run(kernel, x, divisor, scale, out)
    return out


def blocks_pay(x: Raw) -> bool:
    """Whether an array is large enough to be worked on in blocks."""
    return bool(x.nbytes > blocks.BLOCK_BYTES and len(x) > 1)


def logsumexp(x: Raw, axes: tuple[int, ...], keepdims: Any) -> Raw:
    """``log(sum(exp(x)))``, with the largest element taken out first."""
    values = np.asarray(wide(x))
    if values.size == 0:
        empty = np.add.reduce(values, axis=axes, keepdims=keepdims)
        return _as_given(np.full_like(empty, -np.inf), x)
    rest = tuple(a for a in range(values.ndim) if a not in axes)
    if not rest or not blocks_pay(values):
        return _as_given(_logsumexp_rows(values, axes, keepdims), x)
    if axes == (0,) and values.flags.c_contiguous and values.dtype.kind == "f":
        total = _logsumexp_columns(values.reshape(len(values), -1))
        return total.reshape((1,) * bool(keepdims) + values.shape[1:])
    # Rows are what is not reduced, wherever in memory that lies.
    rows = values.transpose(rest + axes)
    out = np.empty([values.shape[a] for a in rest], values.dtype)
    inner = tuple(range(len(rest), values.ndim))

    def kernel(block: Raw, result: Raw) -> None:
        result[...] = _logsumexp_rows(block, inner, False)

    blocks.run(kernel, rows, out)
    if keepdims:
        out = out.reshape([1 if a in axes else s for a, s in enumerate(values.shape)])
    return _as_given(out, x)


def _logsumexp_rows(x: Raw, axes: tuple[int, ...], keepdims: Any) -> Raw:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        size = x.real if x.dtype.kind == "c" else x
        top = np.maximum.reduce(size, axis=axes, keepdims=True)
        top = np.where(np.isfinite(top), top, top.dtype.type(0))
        powers = np.asarray(x - top)
        total = np.add.reduce(np.exp(powers, out=powers), axis=axes, keepdims=keepdims)
        return np.log(total) + top.reshape(np.shape(total))


def _logsumexp_columns(x: Raw) -> Raw:
    """The same along columns, which are added up in stretches that fit the cache."""
    top = np.maximum.reduce(x, axis=0)
    top = np.where(np.isfinite(top), top, top.dtype.type(0))
    rows = max(1, blocks.BLOCK_BYTES // (x.itemsize * x.shape[1]))
    whole = len(x) - len(x) % rows
    stretches = x[:whole].reshape(-1, rows, x.shape[1])
    totals = np.empty((len(stretches) + 1, x.shape[1]), x.dtype)

    def kernel(block: Raw, result: Raw) -> None:
        powers = block - top
        np.add.reduce(np.exp(powers, out=powers), axis=1, out=result)

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        blocks.run(kernel, stretches, totals[:-1])
        totals[-1] = np.add.reduce(np.exp(x[whole:] - top), axis=0)
        return np.log(np.add.reduce(totals, axis=0)) + top


def scaled_exponentials(x: Raw, shift: Raw, scale: Raw) -> Raw:
    """``scale * exp(x - shift)``."""
    if not np.ndim(x) or not blocks_pay(x):
        return scale * np.exp(x - shift)
    out = np.empty(x.shape, np.result_type(x, scale))

    def kernel(values: Raw, moved: Raw, factor: Raw, result: Raw) -> None:
        np.subtract(values, moved, out=result)
        np.exp(result, out=result)
        np.multiply(result, factor, out=result)

    shift, scale = (np.broadcast_to(a, x.shape) for a in (shift, scale))
    blocks.run(kernel, x, shift, scale, out)
    return out


def nansum(x: Raw, axes: tuple[int, ...], keepdims: Any) -> Raw:
    total = plain_sum(x, axes, keepdims)
    if x.dtype.kind != "f" or not np.isnan(total).any():
        return total
    values = np.where(np.isnan(x), x.dtype.type(0), x)
    return np.add.reduce(values, axis=axes, keepdims=keepdims)


# -- scans -----------------------------------------------------------------------------------

_FEW_COLUMNS = 64  # fewer do not keep a processor busy while Python takes the next step


def cumsum(x: Raw, axis: int, from_end: bool) -> Raw:
    """Running sums of a large array of floats. NumPy adds one element after the other; this adds
    rows to rows or, along rows, multiplies stretches of them by a triangle of ones."""
    inner = math.prod(x.shape[axis + 1 :])
    if inner >= _FEW_COLUMNS:
        out = np.empty(x.shape, x.dtype)
        rows, sums = np.moveaxis(x, axis, 0), np.moveaxis(out, axis, 0)
        if from_end:
            rows, sums = rows[::-1], sums[::-1]
        sums[0] = rows[0]
        for k in range(1, len(rows)):
            np.add(sums[k - 1], rows[k], out=sums[k])
        return out
    if inner == 1 and x.shape[axis] >= 2 * _STRETCH:
        result = _cumsum_by_products(x.reshape(-1, x.shape[axis]), from_end)
        if result is not None:
            return result.reshape(x.shape)
    plain = np.cumsum(np.flip(x, axis) if from_end else x, axis=axis)
    return np.array(np.flip(plain, axis) if from_end else plain, order="C")


_STRETCH = 40


def _cumsum_by_products(x: Raw, from_end: bool) -> Raw | None:
    """Running sums along rows; None if there is infinity or NaN, which no product with zero may
    meet."""
    count, length = x.shape
    stretches = length // _STRETCH
    whole = stretches * _STRETCH
    part = slice(length - whole, None) if from_end else slice(whole)
    body = np.array(x[:, part], order="C").reshape(count, stretches, _STRETCH)
    totals = body.reshape(-1, _STRETCH) @ np.ones(_STRETCH, x.dtype)
    totals = totals.reshape(count, stretches)
    if not np.isfinite(np.add.reduce(totals, None)):
        return None
    if from_end:
        body[:, :-1, -1] += np.cumsum(totals[:, ::-1], axis=1)[:, -2::-1]
    else:
        body[:, 1:, 0] += np.cumsum(totals, axis=1)[:, :-1]
    ones = np.ones((_STRETCH, _STRETCH), x.dtype)
    triangle = np.tril(ones) if from_end else np.triu(ones)
    sums = np.matmul(body.reshape(-1, _STRETCH), triangle).reshape(count, whole)
    if whole == length:
        return sums
    out = np.empty(x.shape, x.dtype)
    out[:, part] = sums
    rest = range(length - whole - 1, -1, -1) if from_end else range(whole, length)
    step = 1 if from_end else -1
    for k in rest:
        np.add(out[:, k + step], x[:, k], out=out[:, k])
    return out


def prod(x: Raw, axis: int | None, keepdims: Any) -> Raw:
    """The product of all elements, or along ``axis``. A long row is folded first: NumPy multiplies
    many rows at once, but the elements of one row one after the other."""
    values = np.asarray(wide(x))
    if axis is None:
        values = values.reshape(-1)
    at = 0 if axis is None else axis
    while values.ndim and at == values.ndim - 1 and values.shape[-1] >= _LONG_ROW:
        width = values.shape[-1] // 8
        head = values[..., : 8 * width].reshape(*values.shape[:-1], 8, width)
        folded = np.multiply.reduce(head, axis=-2)
        values = np.concatenate([folded, values[..., 8 * width :]], axis=-1)
    if axis is None:
        return _as_given(np.multiply.reduce(values, axis=None, dtype=values.dtype), x)
    return _as_given(np.multiply.reduce(values, axis=at, keepdims=keepdims, dtype=values.dtype), x)


_LONG_ROW = 256


def cumprod(x: Raw, axis: int) -> Raw:
    if not np.ndim(x):
        return x.copy()
    values = wide(x)
    return _as_given(np.multiply.accumulate(values, axis=axis, dtype=values.dtype), x)


def running_extreme(x: Raw, axis: int, choose: Any) -> tuple[Raw, Raw]:
    """The extreme so far, and the last place so far that has it. NaN is more extreme than all."""
    if not np.ndim(x):
        return x.copy(), np.int64(0)
    values = choose.accumulate(x, axis=axis)
    has_it = np.equal(x, values)
    if x.dtype.kind == "f":
        has_it |= np.isnan(x)
    shape = [1] * x.ndim
    shape[axis] = -1
    indices = np.where(has_it, np.arange(x.shape[axis]).reshape(shape), 0)
    indices = np.maximum.accumulate(indices, axis=axis, out=indices)
    return in_reading_order(values), in_reading_order(indices)


def logcumsumexp(x: Raw, axis: int) -> Raw:
    if not np.ndim(x):
        return x.copy()
    values = wide(x)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if values.dtype.kind == "f":
            return _as_given(np.logaddexp.accumulate(values, axis=axis), x)
        rows = np.moveaxis(values, axis, 0)
        out = np.empty_like(values)
        sums = np.moveaxis(out, axis, 0)
        for k in range(len(rows)):
            sums[k] = _complex_logaddexp(sums[k - 1], rows[k]) if k else rows[k]
        return out


def _complex_logaddexp(a: Raw, b: Raw) -> Raw:
    larger: Raw = np.where(a.real >= b.real, a, b)
    smaller: Raw = np.where(a.real >= b.real, b, a)
    total = larger + np.log1p(np.exp(smaller - larger))
    return np.where(np.isinf(smaller.real), larger, total)


def recurrence(x: Raw, factor: Raw, axis: int, reverse: bool) -> Raw:
    """``y[k] = x[k] + factor[k] * y[k - 1]`` along ``axis``; ``y[k + 1]`` if reversed."""
    rows, factors = (np.moveaxis(a, axis, 0) for a in (x, factor))
    if reverse:
        rows, factors = rows[::-1], factors[::-1]
    out = np.array(rows, order="C", dtype=np.result_type(x, factor))
    count, columns = len(out), out.size // max(len(out), 1)
    with np.errstate(invalid="ignore", over="ignore"):
        if columns < _FEW_COLUMNS and count > 4 * _FEW_COLUMNS:
            _run_in_stretches(out, np.ascontiguousarray(factors))
        else:
            for k in range(1, count):
                out[k] += factors[k] * out[k - 1]
    return np.ascontiguousarray(np.moveaxis(out[::-1] if reverse else out, 0, axis))


def _run_in_stretches(out: Raw, factors: Raw) -> None:
    """A long recurrence, in place: many stretches side by side, each as if it were the first, and
    then what each lacks from the one before."""
    length = math.isqrt(len(out))
    whole = len(out) - len(out) % length
    shape = (-1, length, *out.shape[1:])
    stretches, through = out[:whole].reshape(shape), factors[:whole].reshape(shape).copy()
    for k in range(1, length):
        stretches[:, k] += through[:, k] * stretches[:, k - 1]
        through[:, k] *= through[:, k - 1]
    for before, stretch, let_through in zip(
        stretches[:-1], stretches[1:], through[1:], strict=True
    ):
        carried = before[-1]
        stretch += np.where(carried == 0, 0, let_through * carried)
    for k in range(whole, len(out)):
        out[k] += factors[k] * out[k - 1]


# -- norms -----------------------------------------------------------------------------------


def vector_norm(x: Raw, order: float, axes: tuple[int, ...] | None, keepdims: Any) -> Raw:
    values = np.asarray(wide(x))
    everything = axes is None or len(axes) == values.ndim
    if order == 2 and everything and not keepdims and values.dtype.kind == "f":
        flat = values.reshape(-1, order="A")
        return _as_given(np.sqrt(np.dot(flat, flat)), x)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _as_given(_norm(values, order, axes, keepdims), x)


def _norm(values: Raw, order: float, axes: tuple[int, ...] | None, keepdims: Any) -> Raw:
    def total(terms: Raw) -> Raw:
        return np.add.reduce(terms, axis=axes, keepdims=keepdims)

    if order == 2:
        if values.dtype.kind == "c":
            return np.sqrt(total(np.square(values.real) + np.square(values.imag)))
        if axes == (values.ndim - 1,) and not keepdims and values.flags.c_contiguous:
            return np.sqrt(np.vecdot(values, values))
        return np.sqrt(total(values * values))
    if order == 0:
        return total(np.not_equal(values, 0)).astype(values.real.dtype)
    sizes = np.absolute(values)
    if order == 1:
        return total(sizes)
    if order in (np.inf, -np.inf):
        extreme = np.maximum if order > 0 else np.minimum
        return extreme.reduce(sizes, axis=axes, keepdims=keepdims)
    powers = sizes * sizes * sizes if order == 3 else sizes**order
    return total(powers) ** (1 / order)


def renorm(x: Raw, order: float, axes: tuple[int, ...], limit: float, margin: float) -> Raw:
    """``x`` with slices whose norm over ``axes`` is above a limit scaled down to it."""
    values = wide(x)
    sizes = vector_norm(values, order, axes, True)
    scale = np.where(sizes > limit, limit / (sizes + margin), 1).astype(sizes.dtype)
    return _as_given(values * scale, x)


# -- order statistics ------------------------------------------------------------------------


def median_of_all(x: Raw, ignore_nan: bool) -> Raw:
    """The median of all elements, the lower of two in the middle."""
    flat = np.reshape(x, -1)
    if flat.dtype.kind == "f":
        missing = np.isnan(flat)
        if ignore_nan:
            flat = flat[~missing]
        elif missing.any():
            return flat.dtype.type(np.nan)
    if not flat.size:
        return flat.dtype.type(np.nan if flat.dtype.kind == "f" else np.iinfo(flat.dtype).min)
    k = (flat.size - 1) // 2
    return np.partition(flat, k)[k]


def median(x: Raw, axis: int, keepdims: Any, ignore_nan: bool) -> tuple[Raw, Raw]:
    """The median along ``axis`` and its place; NaN if there is one that is not ignored."""
    if not np.ndim(x):
        return x.copy(), np.int64(0)
    size = x.shape[axis]
    k: Raw = (size - 1) // 2
    if x.dtype.kind == "f":
        missing = np.isnan(x)
        if missing.any():
            count = np.add.reduce(missing, axis=axis, keepdims=True)
            ignored = np.maximum(size - count - 1, 0) // 2
            first_missing = size - count  # where the first NaN stands in a sorted row
            k = ignored if ignore_nan else np.where(count, first_missing, k)
    return kth_smallest(x, k, axis, keepdims)


def kth_smallest(x: Raw, k: Raw, axis: int, keepdims: Any) -> tuple[Raw, Raw]:
    """The element that stands at ``k`` once sorted along ``axis``, and its place; equal elements
    stand in the order they are in. NaN stands last."""
    if not np.ndim(x):
        return x.copy(), np.int64(0)
    if isinstance(k, int):
        values = np.take(np.partition(x, k, axis=axis), [k], axis=axis)
    else:
        values = np.take_along_axis(np.sort(x, axis=axis), k, axis)
    same = x == values
    before = x < values
    if x.dtype.kind == "f" and np.isnan(values).any():
        missing = np.isnan(x)
        is_missing = np.isnan(values)
        same |= missing & is_missing
        before |= ~missing & is_missing
    if np.add.reduce(same, axis=axis).max(initial=1) > 1:
        rank = k - np.add.reduce(before, axis=axis, keepdims=True)
        same &= np.cumsum(same, axis=axis) == rank + 1
    return _chosen(values, np.argmax(same, axis=axis, keepdims=True), axis, keepdims)


def _chosen(values: Raw, indices: Raw, axis: int, keepdims: Any) -> tuple[Raw, Raw]:
    return (values, indices) if keepdims else (values.squeeze(axis), indices.squeeze(axis))


def mode(x: Raw, axis: int, keepdims: Any) -> tuple[Raw, Raw]:
    """The most frequent element along ``axis``, the smallest of several, and its last place."""
    if not np.ndim(x):
        return x.copy(), np.int64(0)
    order = np.argsort(x, axis=axis, kind="stable")
    rows = np.moveaxis(np.take_along_axis(x, order, axis), axis, -1)
    at = np.arange(rows.shape[-1])
    begins = np.ones(rows.shape, bool)
    begins[..., 1:] = rows[..., 1:] != rows[..., :-1]
    run = at - np.maximum.accumulate(np.where(begins, at, 0), axis=-1)
    longest = np.expand_dims(np.argmax(run, axis=-1), axis)  # where the first such run ends
    indices = np.take_along_axis(order, longest, axis)
    return _chosen(np.take_along_axis(x, indices, axis), indices, axis, keepdims)


# -- counts ----------------------------------------------------------------------------------


def count_nonzero(x: Raw, axes: tuple[int, ...]) -> Raw:
    return np.asarray(np.count_nonzero(x, axis=axes), np.int64, order="C")


def bincount(x: Raw, weights: Raw | None, least: int) -> Raw:
    """How often each integer occurs, or the sum of the weights it occurs with."""
    if weights is None:
        return np.bincount(x, minlength=least)
    return np.bincount(x, weights, minlength=least).astype(weights.dtype)


def counts_in_range(x: Raw, bins: int, low: float, high: float) -> Raw:
    """How many elements lie in each of some bins of equal width."""
    values = np.reshape(x, -1)
    values = values[(values >= low) & (values <= high)]
    kind = values.dtype.type
    width = kind(high) - kind(low)
    indices = ((values - kind(low)) * kind(bins) / width).astype(np.int64)  # PyTorch's order
    counts = np.bincount(np.minimum(indices, bins - 1), minlength=bins)
    return counts.astype(x.dtype)


def even_edges(low: float, high: float, bins: int, dtype: np.dtype[Any]) -> Raw:
    """The edges of bins of equal width."""
    return np.linspace(low, high, bins + 1, dtype=dtype)


def histogram(x: Raw, weights: Raw | None, edges: Raw, density: bool) -> Raw:
    """The counts, or sums of weights, between edges; the last bin includes its upper end."""
    values = np.reshape(x, -1)
    inside = (values >= edges[0]) & (values <= edges[-1])
    indices = np.searchsorted(edges, values[inside], "right") - 1
    indices = np.minimum(indices, len(edges) - 2)
    given = None if weights is None else np.reshape(weights, -1)[inside]
    result = np.bincount(indices, given, minlength=len(edges) - 1).astype(x.dtype)
    if density:
        with np.errstate(divide="ignore", invalid="ignore"):
            result = result / (np.add.reduce(result) * np.diff(edges))
    return result


def histogramdd(
    x: Raw, weights: Raw | None, edges: tuple[Raw, ...], density: bool
) -> Raw:
    """As ``histogram``, of points along the last axis."""
    points = np.reshape(x, (-1, x.shape[-1]))
    inside = np.ones(len(points), bool)
    for column, e in zip(points.T, edges, strict=True):
        inside &= (column >= e[0]) & (column <= e[-1])
    shape = tuple(len(e) - 1 for e in edges)
    cells = [
        np.minimum(np.searchsorted(e, column[inside], "right") - 1, len(e) - 2)
        for column, e in zip(points.T, edges, strict=True)
    ]
    given = None if weights is None else np.reshape(weights, -1)[inside]
    size = math.prod(shape)
    flat = np.ravel_multi_index(cells, shape) if size and len(points) else np.zeros(0, int)
    result = np.bincount(flat, given, minlength=size).astype(x.dtype).reshape(shape)
    if density:
        with np.errstate(divide="ignore", invalid="ignore"):
            result = result / np.add.reduce(result, axis=None)
            for d, e in enumerate(edges):
                result = result / np.diff(e).reshape((-1,) + (1,) * (len(edges) - d - 1))
    return result


def xor_of_bits(x: Raw, axes: tuple[int, ...], keepdims: bool) -> Raw:
    """The exclusive or of the bits of elements, as doubles or 64-bit integers."""
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x.astype(np.int64)
    bits = np.ascontiguousarray(wide).view(np.uint64).reshape(x.shape)
    total: Raw = np.bitwise_xor.reduce(bits, axis=axes, keepdims=bool(keepdims))  # type: ignore[call-overload]
    return total
