"""Lowerings of special functions."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import jax.scipy.special as special
from jax import lax

from retrograd.compiler.xla._table import lowering, lowerings, on_host

on_host(
    "XLA has no such Bessel function",
    "special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1",
    "special_modified_bessel_k0", "special_modified_bessel_k1", "special_airy_ai",
    "special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1",
    "airy_ai_derivative", "hyp0f1",
)  # fmt: skip
on_host(
    "polynomials of a degree that is data, and their derivatives of any order",
    *[f"special_chebyshev_polynomial_{kind}" for kind in "tuvw"],
    *[f"special_shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"],
    "special_hermite_polynomial_h", "special_hermite_polynomial_he",
    "special_laguerre_polynomial_l", "special_legendre_polynomial_p",
)  # fmt: skip


def _like(x: Any, other: Any) -> Any:
    return jnp.asarray(x, other.dtype)


def _xlogy(x: Any, y: Any) -> Any:
    return jnp.where(jnp.isnan(y), y, jnp.where(x == 0, 0, x * jnp.log(y)))


def _xlog1py(x: Any, y: Any) -> Any:
    return jnp.where(jnp.isnan(y), y, jnp.where(x == 0, 0, x * jnp.log1p(y)))


@lowering("lgamma")
def _lgamma(x: Any) -> Any:
    if x.dtype == "float16":
        return lax.lgamma(x.astype("float32"))
    return lax.lgamma(x)


@lowering("digamma")
def _digamma(x: Any) -> Any:
    """Infinite at 0, with the opposite sign; NaN at negative integers."""
    pole = (x < 0) & (x == jnp.trunc(x))
    result = jnp.where(x == 0, jnp.copysign(jnp.inf, -x), lax.digamma(jnp.where(x == 0, 1, x)))
    result = jnp.where(jnp.isneginf(x), jnp.nan, result)
    return jnp.where(pole, jnp.nan, result)


@lowering("polygamma")
def _polygamma(x: Any, n: int) -> Any:
    if n == 0:
        return _digamma(x)
    if n == 1:
        return _trigamma(x)
    factor = -((-1) ** n) * math.factorial(n)
    return factor * _zeta(_like(n + 1, x), x)


def _trigamma(x: Any) -> Any:
    """Uses the reflection formula below 0.5, where JAX's series does not converge."""
    below = x < 0.5
    y = jnp.where(below, 1 - x, x)
    result = jnp.where(jnp.isposinf(y), 0, lax.polygamma(jnp.ones_like(y), y))
    sine = jnp.sin(math.pi * x)
    return jnp.where(below, -result + (math.pi / sine) ** 2, result)


@lowering("mvlgamma")
def _mvlgamma(x: Any, p: int) -> Any:
    total = _lgamma(x)
    for j in range(1, p):
        total = total + _lgamma(x - 0.5 * j)
    return total + 0.25 * p * (p - 1) * math.log(math.pi)


@lowering("special_zeta")
def _zeta(x: Any, q: Any) -> Any:
    """JAX's function, corrected at its poles and at infinity."""
    result = jnp.where((q <= 0) & (q == jnp.floor(q)), jnp.inf, special.zeta(x, q))
    result = jnp.where(jnp.isposinf(q), 0, result)
    return jnp.where(x > 1, result, special.zeta(x, q))


@lowering("igamma")
def _igamma(a: Any, x: Any) -> Any:
    return special.gammainc(a, x)


@lowering("igammac")
def _igammac(a: Any, x: Any) -> Any:
    return special.gammaincc(a, x)


@lowering("logit")
def _logit(x: Any, eps: float | None = None) -> Any:
    x = x if eps is None else jnp.clip(x, eps, 1 - eps)
    return jnp.log(x / (1 - x))


@lowering("special_spherical_bessel_j0")
def _spherical_j0(x: Any) -> Any:
    result = jnp.where(x == 0, 1, jnp.sin(x) / jnp.where(x == 0, 1, x))
    return jnp.where(jnp.isinf(x), 0, result)


@lowering("special_log_ndtr")
def _log_ndtr(x: Any) -> Any:
    return special.log_ndtr(x)


lowerings(
    erf=lax.erf,
    erfc=lax.erfc,
    erfinv=lambda x: jnp.where(jnp.abs(x) > 1, jnp.nan, lax.erf_inv(x)),
    special_erfcx=special.erfcx,
    special_ndtr=special.ndtr,
    special_ndtri=lambda p: jnp.where((p < 0) | (p > 1), jnp.nan, special.ndtri(p)),
    zeta_of_number=lambda other, self: _zeta(_like(self, other), other),
    zeta_by_number=lambda x, other: _zeta(x, _like(other, x)),
    i0=special.i0,
    special_i0e=special.i0e,
    special_i1=special.i1,
    special_i1e=special.i1e,
    special_modified_bessel_i0=special.i0,
    special_modified_bessel_i1=special.i1,
    special_entr=lambda x: jnp.where(
        jnp.isnan(x), x, jnp.where(x > 0, -x * jnp.log(x), jnp.where(x == 0, 0, -jnp.inf))
    ),
    xlogy=_xlogy,
    xlogy_of_number=lambda other, self: _xlogy(_like(self, other), other),
    xlogy_by_number=lambda x, other: _xlogy(x, _like(other, x)),
    special_xlog1py=_xlog1py,
    xlog1py_of_number=lambda other, self: _xlog1py(_like(self, other), other),
    xlog1py_by_number=lambda x, other: _xlog1py(x, _like(other, x)),
)
