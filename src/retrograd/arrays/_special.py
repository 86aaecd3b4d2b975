"""Special functions, computed by SciPy, which is imported when one of them is first called.

SciPy computes in single precision where it is given that; half precision goes through single.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.arrays import _erf as single
from retrograd.arrays._blocks import in_blocks
from retrograd.arrays._erf import horner
from retrograd.arrays._numpy import Raw, where

_HALF = np.dtype("f2")


def of_scipy(name: str, part: int | None = None) -> Callable[..., Raw]:
    """A function of ``scipy.special`` on arrays of one dtype, which the result keeps; of one that
    gives several results, the one numbered ``part``. Large arrays are worked on by several
    threads."""
    found: Any = None

    def function(*xs: Raw) -> Raw:
        nonlocal found
        if found is None:
            import scipy.special  # type: ignore[import-untyped]

            whole = found = getattr(scipy.special, name)
            if part is not None:
                found = lambda *xs: whole(*xs)[part]
        return _shared(found, *xs)

    function.__name__ = function.__qualname__ = name
    return function


def _shared(function: Any, *xs: Raw) -> Raw:
    if xs[0].dtype == _HALF:
        return function(*[x.astype(np.float32) for x in xs]).astype(_HALF)
    return in_blocks(function, *xs)


def _or_in_single(name: str, single: Callable[[Raw], Raw]) -> Callable[[Raw], Raw]:
    """A function of SciPy, or for large arrays in single precision one that is faster."""
    of_any = of_scipy(name)

    def function(x: Raw) -> Raw:
        if x.dtype == np.float32 and x.size >= _MANY:
            return in_blocks(single, x)
        return of_any(x)

    return function


_MANY = 1 << 11  # elements from which many steps on all of them are faster than one by one


def epsilon(dtype: np.dtype[Any]) -> float:
    """The distance of 1 from the next number of a dtype."""
    return float(np.finfo(dtype).eps)


erf, erfc = _or_in_single("erf", single.erf), _or_in_single("erfc", single.erfc)
erfinv, ndtr = _or_in_single("erfinv", single.erfinv), _or_in_single("ndtr", single.ndtr)
_gammaln, gammainc, gammaincc = map(of_scipy, ("gammaln", "gammainc", "gammaincc"))
erfcx, ndtri, log_ndtr = map(of_scipy, ("erfcx", "ndtri", "log_ndtr"))
i0, i0e, i1, i1e = map(of_scipy, ("i0", "i0e", "i1", "i1e"))
j0, j1, y0, y1, k0, k1, k0e, k1e = map(of_scipy, ("j0", "j1", "y0", "y1", "k0", "k1", "k0e", "k1e"))
zeta = of_scipy("zeta")
airy_ai, airy_ai_derivative = of_scipy("airy", 0), of_scipy("airy", 1)


def xlogy(x: Raw, y: Raw) -> Raw:
    """``x * log(y)``, but 0 wherever ``x`` is 0 and ``y`` a number."""
    return in_blocks(_xlogy, x, y)


def xlog1py(x: Raw, y: Raw) -> Raw:
    return in_blocks(_xlog1py, x, y)


def entr(x: Raw) -> Raw:
    """``-x * log(x)``, 0 at 0 and -inf below."""
    return in_blocks(_entr, x)


def _xlogy(x: Raw, y: Raw) -> Raw:
    return _zero_where_zero(x, y, x * np.log(y))


def _xlog1py(x: Raw, y: Raw) -> Raw:
    return _zero_where_zero(x, y, x * np.log1p(y))


def _zero_where_zero(x: Raw, y: Raw, product: Raw) -> Raw:
    product = product + 0.0  # which has no negative zeros
    undefined = np.isnan(product)
    if undefined.any():
        return np.where(undefined & (x == 0) & ~np.isnan(y), x.dtype.type(0), product)
    return product


def _entr(x: Raw) -> Raw:
    # Zero less what is left, not its negative, which at 0 would be -0.0.
    return np.where(x < 0, x.dtype.type(-np.inf), 0 - _xlogy(x, x))


def lgamma(x: Raw) -> Raw:
    result = _gammaln(x)
    lowest = result == -np.inf  # SciPy's value at -inf, and nowhere else
    return np.where(lowest, x.dtype.type(np.inf), result) if np.any(lowest) else result


def lambertw(x: Raw) -> Raw:
    """The branch of Lambert's function that is real from -1 / e on; NaN below."""
    from scipy.special import lambertw

    result = _shared(lambda x: np.asarray(lambertw(x)).real.astype(x.dtype), x)
    return np.where(x < -np.exp(x.dtype.type(-1)), x.dtype.type(np.nan), result)


def hyp0f1(x: Raw, b: float) -> Raw:
    """The hypergeometric function 0F1: the sum of ``x**k / (k! * b * (b + 1) * ... (b + k - 1))``
    over k = 0, 1, 2..."""
    from scipy.special import hyp0f1

    return _shared(lambda x: hyp0f1(x.real.dtype.type(b), x), x)


def spherical_j0(x: Raw) -> Raw:
    """sin(x) / x, and 1 at 0; what it tends to at infinity is 0."""
    value = np.where(x == 0, x.dtype.type(1), np.sin(x) / x)
    return np.where(np.isinf(x), x.dtype.type(0), value)


# -- the gamma function's logarithmic derivatives --------------------------------------------

# Bernoulli numbers over what they are divided by in the expansions at infinity.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
# Where those expansions are exact to the last digit.
_FAR = {np.dtype("f4"): 5, np.dtype("f8"): 10}


def digamma(x: Raw) -> Raw:
    """The derivative of lgamma: steps up to where the expansion at infinity holds."""
    return _shared(_digamma, x)


def trigamma(x: Raw) -> Raw:
    return _shared(_trigamma, x)


def _digamma(x: Raw) -> Raw:
    left = x < 0
    y = np.where(left, 1 - x, x)
    total = _stepped_up(y, lambda y: -1 / y)
    inverse = 1 / (y * y)
    total += np.log(y) - 0.5 / y - inverse * horner(_DIGAMMA, inverse)
    if left.any():
        # pi x within a half turn, so that the tangent is exact for large x as well; in double
        # precision, of which little is left next to a pole.
        tangent = np.tan(math.pi * (x - np.trunc(x)).astype(np.float64))
        total = where(left, (total - math.pi / tangent).astype(total.dtype), total)
        total = where(left & (x == np.trunc(x)), np.full_like(total, np.nan), total)
    if np.all(x):
        return total
    return np.where(x == 0, np.copysign(x.dtype.type(np.inf), -x), total)


def _trigamma(x: Raw) -> Raw:
    left = x < 0.5
    y = np.where(left, 1 - x, x)
    total = _stepped_up(y, lambda y: 1 / (y * y))
    inverse = 1 / (y * y)
    total += (1 + 0.5 / y + inverse * horner(_TRIGAMMA, inverse)) / y
    if left.any():
        sine = np.sin(math.pi * x)
        total = where(left, math.pi**2 / (sine * sine) - total, total)
    return total


def _stepped_up(y: Raw, term: Callable[[Raw], Raw]) -> Raw:
    """Add 1 to ``y``, in place, until it is far; the sum of the terms for each step."""
    total, far = np.zeros_like(y), _FAR[y.dtype]
    for _ in range(far):
        near = y < far
        if not near.any():
            break
        total += near * term(y)
        y += near
    return total


def polygamma(x: Raw, n: int) -> Raw:
    """The n-th derivative of digamma."""
    if n < 2:
        return trigamma(x) if n else digamma(x)
    factor = -((-1) ** n) * math.factorial(n)
    order = np.asarray(n + 1, np.float32 if x.dtype == _HALF else x.dtype)
    if x.dtype == _HALF:
        return (factor * zeta(order, x.astype(np.float32))).astype(_HALF)
    return factor * zeta(order, x)


# -- orthogonal polynomials ------------------------------------------------------------------


Polynomial = Callable[[Any, Any, int], Raw]


def _recurrence(
    first: Callable[[Raw], Raw], first_coefficient: float,
    step: Callable[[Raw, int, Raw, Raw], Raw], step_coefficient: Callable[[int], float],
) -> Polynomial:  # fmt: skip
    """Polynomials by degree, or their derivatives of some order: 1, ``first(x)``, and
    ``step(x, k, p, q)`` of degree k + 1 from those of degrees k and k - 1, where ``x`` appears
    only as ``step_coefficient(k) * x * p``. Zero for negative degrees; degrees are cut to
    integers."""

    def polynomial(x: Any, degree: Any, order: int) -> Raw:
        dtype = x.dtype if hasattr(x, "dtype") else degree.dtype
        x, degree = np.broadcast_arrays(np.asarray(x, dtype), np.trunc(degree))
        zero, one = np.zeros_like(x), np.ones_like(x)
        # Derivatives of orders 0, 1, 2... of the last two polynomials, up to the one asked for.
        before = [one, *[zero] * order]
        now = [first(x), first_coefficient * one, *[zero] * order][: order + 1]
        result = np.where(degree == 0, before[-1], np.where(degree < 0, 0, now[-1]))
        for k in range(1, int(np.max(degree, initial=0))):
            then = [step(x, k, p, q) for p, q in zip(now, before, strict=True)]
            for m in range(1, order + 1):
                then[m] = then[m] + m * step_coefficient(k) * now[m - 1]
            before, now = now, then
            result = np.where(degree > k, now[-1], result)
        return result.astype(x.dtype, copy=False)

    return polynomial


def _twice(x: Raw, k: int, now: Raw, before: Raw) -> Raw:
    return 2 * x * now - before


def _chebyshev(first: Callable[[Raw], Raw], first_coefficient: float) -> Polynomial:
    return _recurrence(first, first_coefficient, _twice, lambda k: 2)


def _shifted(polynomial: Polynomial) -> Polynomial:
    """For x in [0, 1] what ``polynomial`` is in [-1, 1]."""

    def shifted(x: Any, degree: Any, order: int) -> Raw:
        value = polynomial(2 * x - 1, degree, order)
        return value * value.dtype.type(2**order) if order else value

    return shifted


chebyshev_t = _chebyshev(lambda x: x, 1)
chebyshev_u = _chebyshev(lambda x: 2 * x, 2)
chebyshev_v = _chebyshev(lambda x: 2 * x - 1, 2)
chebyshev_w = _chebyshev(lambda x: 2 * x + 1, 2)
shifted_chebyshev_t, shifted_chebyshev_u, shifted_chebyshev_v, shifted_chebyshev_w = map(
    _shifted, (chebyshev_t, chebyshev_u, chebyshev_v, chebyshev_w)
)
hermite_h = _recurrence(
    lambda x: 2 * x, 2,
    lambda x, k, now, before: 2 * x * now - 2 * k * before, lambda k: 2,
)  # fmt: skip
hermite_he = _recurrence(
    lambda x: x, 1, lambda x, k, now, before: x * now - k * before, lambda k: 1
)
laguerre_l = _recurrence(
    lambda x: 1 - x, -1,
    lambda x, k, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1),
    lambda k: -1 / (k + 1),
)  # fmt: skip
legendre_p = _recurrence(
    lambda x: x, 1,
    lambda x, k, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1),
    lambda k: (2 * k + 1) / (k + 1),
)  # fmt: skip
