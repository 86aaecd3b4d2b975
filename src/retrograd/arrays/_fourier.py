"""Fourier transforms of raw arrays, and framing and overlap-add of signals.

SciPy's transforms keep single precision and are several times faster than NumPy's. ``scaling`` says
what a transform of ``n`` points is divided by: nothing (0), the root of ``n`` (1) or ``n`` (2).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import fft as _fft  # type: ignore[import-untyped]

from retrograd.arrays._blocks import workers
from retrograd.arrays._numpy import Raw

# The same scaling is called otherwise by the transforms that are not scaled by default.
_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")
_PARALLEL_SIZE = 1 << 17  # points; below this, starting threads costs more than they save


def _threads(x: Raw) -> int:
    return workers.count if x.size >= _PARALLEL_SIZE else 1


def c2c(x: Raw, axes: tuple[int, ...], scaling: int, forward: bool) -> Raw:
    """The transform of complex numbers, or of real ones taken as such."""
    if not axes:
        return x.copy() if x.dtype.kind == "c" else x.astype(np.result_type(x, np.complex64))
    norm, threads = (_FORWARD if forward else _INVERSE)[scaling], _threads(x)
    if len(axes) == 1:
        transform = _fft.fft if forward else _fft.ifft
        return transform(x, axis=axes[0], norm=norm, workers=threads)
    transform_nd = _fft.fftn if forward else _fft.ifftn
    return transform_nd(x, axes=axes, norm=norm, workers=threads)


def r2c(x: Raw, axes: tuple[int, ...], scaling: int, onesided: bool) -> Raw:
    """The transform of real numbers; ``onesided`` leaves out what mirrors the rest."""
    if not onesided:
        return _with_positive_zeros(c2c(x, axes, scaling, True), axes[-1])
    norm, threads = _FORWARD[scaling], _threads(x)
    if len(axes) == 1:
        return _fft.rfft(x, axis=axes[0], norm=norm, workers=threads)
    return _fft.rfftn(x, axes=axes, norm=norm, workers=threads)


def _with_positive_zeros(x: Raw, axis: int) -> Raw:
    """``x`` without the minus signs of zeros that mirroring gives to what mirrors itself."""
    size = x.shape[axis]
    for place in (0, size // 2) if size % 2 == 0 else (0,):
        imaginary = x.imag[(*(slice(None),) * axis, slice(place, place + 1))]
        imaginary += 0.0
    return x


def c2r(x: Raw, axes: tuple[int, ...], scaling: int, last_size: int) -> Raw:
    """The inverse of a onesided ``r2c``, with ``last_size`` points along the last axis."""
    norm, threads = _INVERSE[scaling], _threads(x)
    if len(axes) == 1:
        return _fft.irfft(x, last_size, axis=axes[0], norm=norm, workers=threads)
    sizes = (*(x.shape[d] for d in axes[:-1]), last_size)
    return _fft.irfftn(x, sizes, axes=axes, norm=norm, workers=threads)


def mirrored_once(half: int, size: int, inner: float, dtype: Any) -> Raw:
    """Weights for the ``half`` points of a onesided transform of ``size``: ``inner`` for those that
    stand for a mirror image too, 1 for the others. They are real, as precise as ``dtype``."""
    weights = np.full(half, inner, np.empty(0, dtype).real.dtype)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    return weights


# -- frames ----------------------------------------------------------------------------------


def frames(x: Raw, size: int, step: int) -> Raw:
    """Stretches of ``size`` elements of the last axis, one every ``step``, in the same memory."""
    return sliding_window_view(x, size, -1, writeable=x.flags.writeable)[..., ::step, :]


def overlap_add(x: Raw, length: int, step: int) -> Raw:
    """The sum of frames, each put where ``frames`` takes it from."""
    *batch, count, size = x.shape
    if size > length or not count:
        return np.zeros((*batch, length), x.dtype)
    pieces = -(-size // step)
    if pieces > count:  # few long frames: one after the other
        out = np.zeros((*batch, length), x.dtype)
        for n in range(count):
            out[..., n * step : n * step + size] += x[..., n, :]
        return out
    # Many frames: the first steps of all of them, then the second, and so on.
    blocks = np.zeros((*batch, max(count + pieces, -(-length // step)), step), x.dtype)
    for n in range(pieces):
        part = x[..., n * step : (n + 1) * step]
        blocks[..., n : n + count, : part.shape[-1]] += part
    return blocks.reshape((*batch, -1))[..., :length].copy()


# -- windows ---------------------------------------------------------------------------------


def kaiser(steps: Raw, beta: float) -> Raw:
    """Kaiser's window at numbers from -1 to 1."""
    from scipy.special import i0  # type: ignore[import-untyped]

    inside = np.maximum(1 - steps.astype(np.float64) ** 2, 0)
    return (i0(beta * np.sqrt(inside)) / i0(beta)).astype(steps.dtype)


def cosine_window(count: int, weights: tuple[float, ...], dtype: Any) -> Raw:
    """A sum of cosines over one period of ``count - 1`` steps."""
    angle = np.arange(count, dtype=dtype) * dtype.type(2 * math.pi / (count - 1))
    window = np.full(count, weights[0], dtype)
    for multiple, weight in enumerate(weights[1:], 1):
        window += np.cos(angle * dtype.type(multiple)) * dtype.type(weight)
    return window
