"""Gamma and Dirichlet numbers as PyTorch's CPU kernels draw them, and their derivatives.

A number that was drawn by rejection is no differentiable function of the parameters. But its
distribution is: moving a parameter while the value of the distribution function F stays as it is
moves the number by ``dx/da = -(dF/da) / (dF/dx)``. F is an incomplete gamma or beta function,
whose derivatives follow from its series and its continued fraction, term by term.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.arrays import _special as special
from retrograd.arrays._discrete import uniforms
from retrograd.arrays._generator import Generator, default_generator

Array = npt.NDArray[Any]
_MOST_TERMS = 20_000
_LARGE = 1e5  # above, the number of terms grows, and an expansion is as exact
_TINY = 1e-300  # in place of a denominator of zero


# ---- drawing ------------------------------------------------------------------------------------


def standard_gamma(concentration: Array, generator: Generator | None = None) -> Array:
    """Draw a gamma number of rate 1 for each concentration, as ``torch._standard_gamma``."""
    dtype = concentration.dtype
    kind = np.float64 if dtype == np.float64 else np.float32
    drawn = _drawn(
        [kind(a) for a in concentration.ravel().tolist()], generator or default_generator
    )
    values: Any = np.maximum(np.array(drawn, np.float64).astype(dtype), np.finfo(dtype).tiny)
    shaped: Array = values.reshape(concentration.shape)
    return shaped


def dirichlet(concentration: Array, generator: Generator | None = None) -> Array:
    """Draw a point of the simplex for each row, as ``torch._sample_dirichlet``."""
    dtype = concentration.dtype
    wanted = [np.float64(a) for a in concentration.ravel().tolist()]
    drawn = np.array(_drawn(wanted, generator or default_generator), np.float64)
    gammas = np.maximum(drawn, np.finfo(np.float64).tiny).reshape(concentration.shape)
    values = (gammas / gammas.sum(-1, keepdims=True)).astype(dtype)
    one, zero = dtype.type(1), dtype.type(0)
    clipped: Array = np.clip(values, np.finfo(dtype).tiny, np.nextafter(one, zero))
    return clipped


def _drawn(concentrations: list[Any], generator: Generator) -> list[float]:
    """Gamma numbers one after the other. Each takes as many words as it happens to need."""
    with generator.lock:
        waiting = generator.next_normal
        with uniforms(generator) as uniform:

            def normal() -> float:
                nonlocal waiting
                if waiting is not None:
                    value, waiting = waiting, None
                    return float(value)
                turn, length = 2.0 * math.pi * uniform(), uniform()
                radius = math.sqrt(-2.0 * math.log1p(-length))
                waiting = radius * math.sin(turn)
                return radius * math.cos(turn)

            result = [_gamma(a, uniform, normal) for a in concentrations]
        generator.next_normal = waiting
    return result


def _gamma(concentration: Any, uniform: Callable[[], float], normal: Callable[[], float]) -> float:
    """Marsaglia and Tsang (2000). Constants are float32, and so are sums with a float32."""
    single, scale = np.float32, 1.0
    if concentration < 1:
        if concentration == 0:
            return 0.0
        scale = (1.0 - uniform()) ** float(single(1) / concentration)
        concentration = concentration + single(1)
    d = float(concentration - single(1) / single(3))
    c = 1.0 / math.sqrt(9.0 * d) if d > 0 else math.nan
    while True:
        x = normal()
        y = 1.0 + c * x
        if y <= 0:
            continue
        v, u, square = y * y * y, 1.0 - uniform(), x * x
        if u < 1.0 - _SQUEEZE * square * square:
            return scale * d * v
        if math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v
        if not y > 0:  # not a number: nothing would be accepted
            return math.nan


_SQUEEZE = float(np.float32(0.0331))


# ---- derivatives --------------------------------------------------------------------------------


def standard_gamma_grad(concentration: Array, x: Array) -> Array:
    """How a gamma number moves with its concentration: of ``x`` drawn with that one."""
    a, x = np.broadcast_arrays(concentration, x)
    wide_a, wide_x = a.astype(np.float64).ravel(), x.astype(np.float64).ravel()
    result = np.empty_like(wide_a)
    large = wide_a > _LARGE
    below = ~large & (wide_x <= wide_a + 1)
    above = ~large & ~below
    for where, rule in ((large, _gamma_slope_large), (below, _gamma_slope_below),
                        (above, _gamma_slope_above)):  # fmt: skip
        if where.any():
            with np.errstate(all="ignore"):
                result[where] = rule(wide_a[where], wide_x[where])
    return result.astype(x.dtype).reshape(x.shape)


def _gamma_slope_below(a: Array, x: Array) -> Array:
    """By the series of the lower incomplete gamma function and its derivative."""
    term = total = 1 / a
    slope = slopes = -1 / a**2
    for n in range(1, _MOST_TERMS):
        ratio = x / (a + n)
        slope = ratio * (slope - term / (a + n))
        term = term * ratio
        total, slopes = total + term, slopes + slope
        if n % 8 == 0 and (np.abs(slope) <= 1e-16 * np.abs(slopes)).all():
            break
    result: Array = -x * (total * (np.log(x) - special.digamma(a)) + slopes)
    return result


def _gamma_slope_above(a: Array, x: Array) -> Array:
    """By the continued fraction of the upper incomplete gamma function and its derivative."""
    def step(n: int) -> tuple[Any, Any, Any, Any]:
        return -n * (n - a), n, x + 1 - a + 2 * n, -1.0

    value, slope = _continued_fraction(1.0, 0.0, x + 1 - a, -np.ones_like(a), step)
    result: Array = x * (value * (np.log(x) - special.digamma(a)) + slope)
    return result


def _gamma_slope_large(a: Array, x: Array) -> Array:
    """By the expansion of Cornish and Fisher, where w is standard normal:
    x = a + sqrt(a) w + (w**2 - 1) / 3 + (w**3 - 7 w) / (36 sqrt(a))."""
    root = np.sqrt(a)
    w = (x - a) / root
    for _ in range(4):  # Newton's method
        value = a + root * w + (w * w - 1) / 3 + (w**3 - 7 * w) / (36 * root) - x
        w = w - value / (root + 2 * w / 3 + (3 * w * w - 7) / (36 * root))
    result: Array = 1 + w / (2 * root) - (w**3 - 7 * w) / (72 * a * root)
    return result


def dirichlet_grad(x: Array, concentration: Array, total: Array) -> Array:
    """How ``x`` of a beta distribution moves with its first parameter, over ``1 - x``; the second
    is ``total - concentration``. What ``torch._dirichlet_grad`` gives."""
    x, a, total = np.broadcast_arrays(x, concentration, total)
    wide_x, wide_a = (array.astype(np.float64).ravel() for array in (x, a))
    b = total.astype(np.float64).ravel() - wide_a
    below = wide_x < (wide_a + 1) / (wide_a + b + 2)
    result = np.empty_like(wide_x)
    for where, rule in ((below, _beta_slope_below), (~below, _beta_slope_above)):
        if where.any():
            with np.errstate(all="ignore"):
                result[where] = rule(wide_x[where], wide_a[where], b[where])
    return result.astype(x.dtype).reshape(x.shape)


def _beta_slope_below(x: Array, a: Array, b: Array) -> Array:
    value, slope = _beta_fraction(a, b, x, first=True)
    factor = np.log(x) - special.digamma(a) + special.digamma(a + b) - 1 / a
    result: Array = -x / a * (value * factor + slope)
    return result


def _beta_slope_above(x: Array, a: Array, b: Array) -> Array:
    value, slope = _beta_fraction(b, a, 1 - x, first=False)
    factor = np.log(x) - special.digamma(a) + special.digamma(a + b)
    result: Array = x / b * (value * factor + slope)
    return result


def _beta_fraction(a: Array, b: Array, x: Array, first: bool) -> tuple[Array, Array]:
    """The continued fraction of the incomplete beta function, and its derivative by the first or
    the second parameter."""

    def step(n: int) -> tuple[Any, Any, Any, Any]:
        m, odd = divmod(n, 2)
        if odd:
            factor, below = -(a + m) * (a + b + m) * x, (a + 2 * m) * (a + 2 * m + 1)
            moved = -x * ((2 * a + b + 2 * m) if first else (a + m))
            below_moved = (2 * (a + 2 * m) + 1) if first else 0.0
        else:
            factor, below = m * (b - m) * x, (a + 2 * m - 1) * (a + 2 * m)
            moved = 0.0 if first else m * x
            below_moved = (2 * (a + 2 * m) - 1) if first else 0.0
        return factor / below, (moved - factor / below * below_moved) / below, 1.0, 0.0

    one = np.ones_like(a)
    return _continued_fraction(1.0, 0.0, one, 0 * one, step)


def _continued_fraction(
    numerator: float, numerator_slope: float, first: Array, first_slope: Array,
    step: Callable[[int], tuple[Any, Any, Any, Any]],
) -> tuple[Array, Array]:  # fmt: skip
    """Lentz's method, with derivatives: of ``numerator / (first + a1 / (b1 + a2 / ...))``.

    ``step(n)`` gives ``a_n``, its derivative, ``b_n`` and its derivative.
    """
    d = 1 / _apart_from_zero(first)
    d_slope = -first_slope * d * d
    c, c_slope = np.full_like(first, 1 / _TINY), np.zeros_like(first)
    value, slope = numerator * d, numerator_slope * d + numerator * d_slope
    for n in range(1, _MOST_TERMS):
        a, a_slope, b, b_slope = step(n)
        raised = a_slope * d + a * d_slope + b_slope
        d = 1 / _apart_from_zero(a * d + b)
        d_slope = -raised * d * d
        c_slope = b_slope + (a_slope - a * c_slope / c) / c
        c = _apart_from_zero(b + a / c)
        change = c * d
        slope = slope * change + value * (c_slope * d + c * d_slope)
        value = value * change
        if n % 8 == 0 and (np.abs(change - 1) < 5e-16).all():
            break
    return value, slope


def _apart_from_zero(x: Array) -> Array:
    return np.where(np.abs(x) < _TINY, _TINY, x)
