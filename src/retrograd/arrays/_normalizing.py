"""Normalization and attention: kernels that go over rows step by step, in blocks on threads.

Statistics of half precision are computed, and sums taken, in single precision. Sums over rows that
several threads share are added up block by block, in the order of the rows, so that a result does
not depend on who computed what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrograd.arrays import _blocks as blocks
from retrograd.arrays._numpy import Raw
from retrograd.arrays._reducing import wide

_SMALL = 1 << 14  # elements up to which one block is all there is
_LONG = 1 << 12  # elements of a row from which on sums are better taken pairwise


def epsilon(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number of a dtype."""
    return float(np.finfo(dtype).eps)


def _run(kernel: Any, *rows: Raw | None) -> None:
    """``kernel`` on blocks of rows; what is small is not worth dividing."""
    assert rows[0] is not None
    if len(rows[0]) and rows[0].size <= _SMALL:
        kernel(*rows)
        return
    blocks.run(blocks.with_small_buffer(kernel), *rows)


def _row_sums(x: Raw) -> Raw:
    """The sum of each row, as a column."""
    width = x.shape[1]
    if width > _LONG:
        return np.add.reduce(x, 1, keepdims=True)
    return np.matmul(x, _ones(width, x.dtype))  # BLAS: three times faster


_ONES = {np.dtype(name): np.ones((_LONG, 1), name) for name in ("float32", "float64")}


def _ones(count: int, dtype: np.dtype[Any]) -> Raw:
    """A column of ones."""
    if count <= _LONG and dtype in _ONES:
        return _ONES[dtype][:count]
    return np.ones((count, 1), dtype)


def _row_products(x: Raw, y: Raw) -> Raw:
    """The scalar product of each row of ``x`` with that of ``y``, as a column."""
    if x.shape[1] > _LONG:
        return np.add.reduce(x * y, 1, keepdims=True)
    return np.vecdot(x, y)[:, None]


# -- rows, with a weight for each element of a row ---------------------------------------------


def norm_rows(x: Raw, weight: Raw | None, bias: Raw | None, eps: float) -> tuple[Raw, Raw, Raw]:
    """The rows of a matrix, each with mean 0 and variance 1, times ``weight`` plus ``bias``; their
    means; and the inverses of their deviations."""
    dtype = x.dtype
    x = wide(x)
    count, width = x.shape
    result = np.empty(x.shape, x.dtype)
    mean, scale = np.empty((count, 1), x.dtype), np.empty((count, 1), x.dtype)
    share = x.dtype.type(1 / width if width else np.nan)

    def kernel(x: Raw, result: Raw, mean: Raw, scale: Raw) -> None:
        np.multiply(_row_sums(x), share, out=mean)
        np.subtract(x, mean, out=result)
        variance = _row_products(result, result)
        variance *= share
        variance += eps
        np.sqrt(variance, out=variance)
        np.reciprocal(variance, out=scale)
        result *= scale
        if weight is not None:
            result *= weight
        if bias is not None:
            result += bias

    _run(kernel, x, result, mean, scale)
    return result if x.dtype is dtype else result.astype(dtype), mean, scale


def norm_rows_gradients(
    g: Raw, x: Raw, weight: Raw | None, mean: Raw, scale: Raw, needs: Sequence[bool]
) -> tuple[Raw | None, Raw | None, Raw | None]:
    """The gradients of the rows, of the weight and of the bias."""
    g, x, mean, scale = wide(g), wide(x), wide(mean), wide(scale)
    count, width = x.shape
    share = x.dtype.type(-1 / width if width else 0)
    result = np.empty(x.shape, x.dtype)
    weights = _ones(width, x.dtype) if weight is None else wide(weight)[:, None]
    of_weight: dict[int, Raw] = {}
    of_bias: dict[int, Raw] = {}

    def kernel(g: Raw, x: Raw, result: Raw, mean: Raw, scale: Raw, number: Raw) -> None:
        place = int(number[0])
        if needs[2]:
            of_bias[place] = np.add.reduce(g, 0)
        centred = x - mean
        product = np.multiply(g, centred, out=result)
        if needs[1]:
            of_weight[place] = np.matmul(scale[:, 0], product)
        if not needs[0]:
            return
        # With h = g * weight: scale * (h - mean of h - centred * scale**2 * mean of h * centred)
        of_mean = np.matmul(g, weights)
        of_scale = np.matmul(product, weights)
        less = scale * share
        of_mean *= less
        less *= scale
        less *= scale
        of_scale *= less
        if weight is None:
            np.multiply(g, scale, out=result)
        else:
            np.multiply(g, weight, out=result)
            result *= scale
        centred *= of_scale
        result += centred
        result += of_mean

    _run(kernel, g, x, result, mean, scale, np.arange(count))
    return (
        result if needs[0] else None,
        _in_order(of_weight, width, x.dtype) if needs[1] else None,
        _in_order(of_bias, width, x.dtype) if needs[2] else None,
    )


def _in_order(parts: dict[int, Raw], width: int, dtype: np.dtype[Any]) -> Raw:
    """The sum of partial sums, in order."""
    if len(parts) == 1:
        return parts[0]
    total = np.zeros(width, dtype)
    for place in sorted(parts):
        total += parts[place]
    return total


# -- channels: arrays (batch, channels, positions), with one number for each channel -----------


def channel_moments(x: Raw) -> tuple[Raw, Raw]:
    """For each channel of each of the batch, the mean over the positions, and the sum of the
    squared distances from it."""
    x = wide(x)
    count = x.shape[2]
    if count == 1:
        return x[:, :, 0], np.zeros(x.shape[:2], x.dtype)
    rows = _rows(x)
    mean, squares = np.empty((2, len(rows), 1), x.dtype)

    def kernel(x: Raw, mean: Raw, squares: Raw) -> None:
        np.divide(_row_sums(x), count, out=mean)
        distance = x - mean
        squares[...] = _row_products(distance, distance)

    _run(kernel, rows, mean, squares)
    return mean.reshape(x.shape[:2]), squares.reshape(x.shape[:2])


def scale_channels(x: Raw, factor: Raw, shift: Raw) -> Raw:
    """``x * factor + shift``, with a factor and a shift for each channel (of each of the batch)."""
    dtype = x.dtype
    x = wide(x)
    if x.size <= _SMALL:
        result = x * factor[..., None]
        result += shift[..., None]
        return result.astype(dtype, copy=False)
    rows = _rows(x)
    result = np.empty(rows.shape, x.dtype)

    def kernel(x: Raw, result: Raw, factor: Raw, shift: Raw) -> None:
        np.multiply(x, factor, out=result)
        result += shift

    _run(kernel, rows, result, _per_row(factor, x), _per_row(shift, x))
    return result.reshape(x.shape).astype(dtype, copy=False)


def channel_sums(g: Raw, x: Raw, mean: Raw) -> tuple[Raw, Raw]:
    """For each channel of each of the batch, the sums over the positions of ``g`` and of
    ``g * (x - mean)``."""
    g, x = wide(g), wide(x)
    if x.shape[2] == 1:
        return g[:, :, 0], g[:, :, 0] * (x[:, :, 0] - mean)
    if x.size <= _SMALL:
        return np.add.reduce(g, 2), np.vecdot(g, x - mean[..., None])
    rows = _rows(x)
    total, product = np.empty((2, len(rows), 1), x.dtype)

    def kernel(g: Raw, x: Raw, mean: Raw, total: Raw, product: Raw) -> None:
        total[...] = _row_sums(g)
        product[...] = _row_products(g, x - mean)

    _run(kernel, _rows(g), rows, _per_row(mean, x), total, product)
    return total.reshape(x.shape[:2]), product.reshape(x.shape[:2])


def mix_channels(g: Raw, x: Raw, of_g: Raw, of_x: Raw, shift: Raw) -> Raw:
    """``g * of_g + x * of_x + shift``, with numbers for each channel (of each of the batch)."""
    g, x = wide(g), wide(x)
    if x.size <= _SMALL:
        result = x * of_x[..., None]
        result += shift[..., None]
        result += g * of_g[..., None]
        return result
    rows = _rows(x)
    result = np.empty(rows.shape, x.dtype)

    def kernel(g: Raw, x: Raw, result: Raw, of_g: Raw, of_x: Raw, shift: Raw) -> None:
        np.multiply(x, of_x, out=result)
        result += shift
        result += g * of_g

    tables = (_per_row(t, x) for t in (of_g, of_x, shift))
    _run(kernel, _rows(g), rows, result, *tables)
    return result.reshape(x.shape)


def _rows(x: Raw) -> Raw:
    """A row for each channel of each of the batch. Where a channel is one number, the whole is
    one row for each of the batch: short rows are slow."""
    batch, channels, positions = x.shape
    return x.reshape((batch, channels) if positions == 1 else (batch * channels, positions))


def _per_row(table: Raw, x: Raw) -> Raw:
    whole = np.broadcast_to(table, x.shape[:2]).astype(x.dtype, copy=False)
    return whole if x.shape[2] == 1 else whole.reshape(whole.size, 1)


# -- attention: queries, keys and values of shape (batch, heads, positions, size) --------------

_SCORES = 1 << 22  # elements of the matrices of scores that are in memory at a time


def triangle(length: int, width: int) -> Raw:
    """Truths on and below the diagonal of a matrix."""
    return np.tri(length, width, dtype=bool)


def safe_softmax(x: Raw) -> Raw:
    """The softmax of the last dimension; a row of nothing but ``-inf`` gives zeros."""
    widened = wide(x)
    result = x.copy(order="C") if widened is x else widened
    if result.ndim:
        rows = result.reshape(-1, result.shape[-1]) if result.size else result.reshape(0, 1)
    else:
        rows = result = np.reshape(result, (1, 1))
    _run(_divide_by_sums, rows)
    return result.reshape(x.shape).astype(x.dtype, copy=False)


def _divide_by_sums(rows: Raw) -> None:
    _, total = _exponentials(rows)
    rows /= total


def _exponentials(rows: Raw) -> tuple[Raw, Raw]:
    """``exp(rows - largest)`` in the memory of ``rows``; the largest of each, and its sum. Of a row
    of nothing but ``-inf`` these are 0 and 1."""
    largest = np.maximum.reduce(rows, 1, keepdims=True)
    largest[largest == -np.inf] = 0
    rows -= largest
    np.exp(rows, out=rows)
    total = np.add.reduce(rows, 1, keepdims=True)
    total[total == 0] = 1
    return largest, total


def attention(
    query: Raw, key: Raw, value: Raw, mask: Raw | None, causal: bool, scale: float
) -> tuple[Raw, Raw]:
    """The mean of the values, weighted by the softmax of the scores; and for each query the
    logarithm of the sum of the exponentials of its scores."""
    given = query.dtype
    query, key, value = wide(query), wide(key), wide(value)
    batch, heads, length, _ = query.shape
    result = np.empty_like(query)  # in the same order in memory
    logarithm = np.empty((batch, heads, length, 1), query.dtype)
    for part in _parts(query, key):
        scores = _scores(query[part], key[part], _of_part(mask, part), causal, scale)
        largest, total = (np.empty((scores.size // scores.shape[-1], 1), scores.dtype)
                          for _ in range(2))  # fmt: skip

        def kernel(rows: Raw, largest: Raw, total: Raw) -> None:
            largest[...], total[...] = _exponentials(rows)

        _run(kernel, scores.reshape(-1, scores.shape[-1]), largest, total)
        shape = logarithm[part].shape
        total = total.reshape(shape)
        mean = _grouped(scores, key[part]) @ value[part][:, :, None]
        np.divide(mean.reshape(result[part].shape), total, out=result[part])
        logarithm[part] = np.log(total, out=total) + largest.reshape(shape)
    return result.astype(given, copy=False), logarithm[..., 0]


def attention_gradients(
    g: Raw, query: Raw, key: Raw, value: Raw, result: Raw, logarithm: Raw,
    mask: Raw | None, causal: bool, scale: float,
) -> tuple[Raw, Raw, Raw]:  # fmt: skip
    """The gradients of queries, keys and values. The weights are computed once more."""
    g, query, key, value, result = map(wide, (g, query, key, value, result))
    of_query, of_key, of_value = (np.empty(x.shape, x.dtype) for x in (query, key, value))
    shared = np.vecdot(g, result)[..., None]
    for part in _parts(query, key):
        weights = _scores(query[part], key[part], _of_part(mask, part), causal, scale)
        of_weights = _grouped(g[part], key[part]) @ value[part][:, :, None].swapaxes(-1, -2)
        width = weights.shape[-1]

        def kernel(weights: Raw, of_weights: Raw, logarithm: Raw, shared: Raw) -> None:
            weights -= logarithm
            np.exp(weights, out=weights)
            of_weights -= shared
            of_weights *= weights

        _run(kernel, weights.reshape(-1, width), of_weights.reshape(-1, width),
             logarithm[part].reshape(-1, 1), shared[part].reshape(-1, 1))  # fmt: skip
        weights = _grouped(weights, key[part])
        transposed, wide_g = weights.swapaxes(-1, -2), _grouped(g[part], key[part])
        np.add.reduce(transposed @ wide_g, 2, out=of_value[part])
        query_gradient = of_weights @ key[part][:, :, None]
        np.multiply(query_gradient.reshape(of_query[part].shape), scale, out=of_query[part])
        transposed = of_weights.swapaxes(-1, -2)
        np.add.reduce(transposed @ _grouped(query[part], key[part]), 2, out=of_key[part])
        of_key[part] *= scale
    return of_query, of_key, of_value


def _parts(query: Raw, key: Raw) -> list[Any]:
    """The batch in parts, so that not too many scores are in memory at a time."""
    batch, heads, length, _ = query.shape
    step = max(1, _SCORES // max(1, heads * length * key.shape[2]))
    return [slice(start, start + step) for start in range(0, batch, step)]


def _of_part(mask: Raw | None, part: slice) -> Raw | None:
    return mask if mask is None or mask.ndim < 4 or mask.shape[0] == 1 else mask[part]


def _scores(query: Raw, key: Raw, mask: Raw | None, causal: bool, scale: float) -> Raw:
    """For each query its products with the keys, scaled and masked: new memory."""
    scaled = _grouped(query * query.dtype.type(scale), key)
    scores = scaled @ key[:, :, None].swapaxes(-1, -2)
    batch, heads, length, _ = query.shape
    scores = scores.reshape(batch, heads, length, key.shape[2])
    if mask is not None:
        scores += mask
    if causal:
        np.copyto(scores, -np.inf, where=~triangle(length, key.shape[2]))
    return scores


def _grouped(x: Raw, key: Raw) -> Raw:
    """The heads of ``x`` in groups that share a head of the keys, as one more dimension."""
    batch, heads = x.shape[:2]
    return x.reshape(batch, key.shape[1], heads // key.shape[1], *x.shape[2:])
