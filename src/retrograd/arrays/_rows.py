"""Softmax, log-softmax and their gradients: kernels along the second of two or three axes, on
blocks that fit the processor's cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.arrays import _blocks as blocks
from retrograd.arrays._numpy import Raw

_SAFE = 60.0  # exponentials of numbers below can be summed and divided in float32


def _are_rows(x: Raw) -> bool:
    """Whether ``x`` is a large matrix of short rows. There reductions take several times as long as
    einsum, which on longer rows would lose digits."""
    return bool(x.ndim == 2 and x.size >= 1 << 14 and x.shape[1] <= 1 << 12)


def _sums(x: Raw) -> Raw:
    if _are_rows(x) and x.flags.c_contiguous:
        return np.einsum("ij->i", x)[:, None]
    return np.add.reduce(x, 1, keepdims=True)


def _products(x: Raw, y: Raw) -> Raw:
    """The sums of ``x * y``."""
    if _are_rows(x) and y.flags.c_contiguous:
        return np.vecdot(x, y)[:, None]
    return np.add.reduce(np.multiply(x, y), 1, keepdims=True)


def _maxima(x: Raw) -> Raw:
    if _are_rows(x) and x.shape[1] < 64 and x.flags.c_contiguous:
        return np.maximum.reduce(np.ascontiguousarray(x.T), 0)[:, None]
    return np.maximum.reduce(x, 1, keepdims=True)


def _exponentials(x: Raw, out: Raw) -> tuple[Raw, Any]:
    """``exp(x - shift)`` in ``out``; the sums of that, and the shift: none if the numbers are such
    that without it nothing overflows and no sum vanishes."""
    if x.size <= 1 << 12:
        shift = np.maximum.reduce(x, 1, keepdims=True)
        np.subtract(x, shift, out)
        np.exp(out, out)
        return np.add.reduce(out, 1, keepdims=True), shift
    if np.maximum.reduce(x, None) < _SAFE:
        np.exp(x, out=out)
        sums = _sums(out)
        if np.minimum.reduce(sums, None) > 1e-26:
            return sums, None
    shift = _maxima(x)
    np.subtract(x, shift, out=out)
    np.exp(out, out=out)
    return _sums(out), shift


def _softmax(x: Raw, out: Raw) -> None:
    sums, _ = _exponentials(x, out)
    np.divide(out, sums, out)


def _log_softmax(x: Raw, out: Raw) -> None:
    sums, shift = _exponentials(x, out)
    logs = np.log(sums)
    if shift is not None:
        x = np.subtract(x, shift, out)
    np.subtract(x, logs, out)


def _softmax_backward(g: Raw, y: Raw, out: Raw) -> None:
    np.subtract(g, _products(g, y), out)
    np.multiply(out, y, out)


def _log_softmax_backward(g: Raw, y: Raw, out: Raw) -> None:
    np.exp(y, out)
    np.multiply(out, _sums(g), out)
    np.subtract(g, out, out)


def _along(kernel: Callable[..., None], axis: int, *inputs: Raw) -> Raw:
    """A new array, filled by ``kernel(*inputs, out)`` with ``axis`` as the second of their axes."""
    like = inputs[-1]
    if like.dtype.char == "e":
        return _along(kernel, axis, *(x.astype(np.float32) for x in inputs)).astype(like.dtype)
    out = np.empty(like.shape, like.dtype)
    if not out.size:
        return out
    if out.ndim == 2 and axis == 1 and out.nbytes <= blocks.BLOCK_BYTES:
        kernel(*inputs, out)
        return out
    shape = out.shape or (1,)
    size, inner = shape[axis], math.prod(shape[axis + 1 :])
    parts = [np.reshape(x, (-1, size) if inner == 1 else (-1, size, inner)) for x in (*inputs, out)]
    if len(parts[0]) == 1 and inner > 1:
        parts = [x[0].T for x in parts]
    if out.nbytes <= blocks.BLOCK_BYTES:
        kernel(*parts)
    else:
        blocks.run(blocks.with_small_buffer(kernel), *parts)
    return out if out.ndim else out[()]


def softmax(x: Raw, dim: int) -> Raw:
    """Exponentials, divided by their sum along a dimension."""
    return _along(_softmax, dim, x)


def softmax_backward(g: Raw, y: Raw, dim: int) -> Raw:
    """``y * (g - sum(g * y))``."""
    return _along(_softmax_backward, dim, g, y)


def log_softmax(x: Raw, dim: int) -> Raw:
    """``x`` less the logarithm of the sum of exponentials along a dimension."""
    return _along(_log_softmax, dim, x)


def log_softmax_backward(g: Raw, y: Raw, dim: int) -> Raw:
    """``g - exp(y) * sum(g)``."""
    return _along(_log_softmax_backward, dim, g, y)


def log_softmax_backward_at(y: Raw, indices: Raw, values: Raw) -> Raw:
    """``log_softmax_backward`` along rows, for a gradient that is zero but for one element of each
    row: ``values``, or one number, at ``indices`` in reading order. To the bit, but without the
    zeros."""
    factors = np.empty((len(y), 1), y.dtype)
    factors[...] = np.reshape(values, (-1, 1))
    np.negative(factors, out=factors)
    np.add(factors, 0, out=factors)  # 0 for -0
    result = np.empty_like(y)

    def kernel(y: Raw, factors: Raw, out: Raw) -> None:
        np.exp(y, out=out)
        np.multiply(out, factors, out=out)
        if np.minimum.reduce(factors, None) < 0:
            np.add(out, 0, out=out)

    blocks.run(blocks.with_small_buffer(kernel), y, factors, result)
    flat = result.reshape(-1)
    products = flat[indices]
    nothing = (factors[:, 0] == 0) & (products == 0)
    flat[indices] = np.where(nothing, values, products + values)
    return result


def place(shape: tuple[int, ...], indices: Raw, values: Raw) -> Raw:
    """Zeros of ``shape`` but for ``values`` at ``indices`` in reading order, none of them twice."""
    out = np.zeros(shape, values.dtype)
    out.reshape(-1)[indices] = values
    return out
