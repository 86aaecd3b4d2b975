"""Special functions and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.arrays import _special as special
from retrograd.ops._arguments import (
    check_int,
    check_tensor,
    either_number,
    invalid_combination,
    is_number,
    on_tensor,
    on_tensors,
)
from retrograd.ops._operation import (
    Constant,
    Elementwise,
    asking,
    constant,
    elementwise,
    raw,
)
from retrograd.ops._refusals import Check, both, kernel, refuses
from retrograd.ops.elementwise import abs as absolute
from retrograd.ops.elementwise import (
    exp,
    ge,
    gt,
    le,
    log,
    logical_and,
    round_decimals,
    sgn,
    where,
)


def _no_half(name: str) -> Check:
    """A check for what PyTorch computes in single and double precision only."""

    def check(*operands: Any, **options: Any) -> None:
        kernel(name)(*operands, **options)
        common = arrays.dtypes.result_type(operands)
        if common.name == "float16":
            raise NotImplementedError(f"\"{name}\" not implemented for 'Half'")

    return check


# -- error functions -------------------------------------------------------------------------

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_2_PI = math.sqrt(2 * math.pi)

erf = elementwise(
    "erf", special.erf, lambda g, self: g * (_TWO_OVER_ROOT_PI * exp(-(self * self))),
    dtypes="float", check=kernel("erf_vml_cpu"),
)  # fmt: skip
erfc = elementwise(
    "erfc", special.erfc, lambda g, self: -g * (_TWO_OVER_ROOT_PI * exp(-(self * self))),
    dtypes="float", check=kernel("erfc_vml_cpu"),
)  # fmt: skip


def _erfinv_rule(g: Any, self: Any) -> Any:
    inverse = erfinv(self)
    return g * (exp(inverse * inverse) / _TWO_OVER_ROOT_PI)


erfinv: Elementwise = elementwise(
    "erfinv", special.erfinv, _erfinv_rule, dtypes="float", check=kernel("erfinv_vml_cpu")
)
erfcx = on_tensor(
    elementwise(
        "special_erfcx", special.erfcx,
        lambda g, self, result: g * (2 * self * result - _TWO_OVER_ROOT_PI),
        dtypes="float", check=_no_half("erfcx_cpu"),
    ), "``exp(input ** 2) * erfc(input)``, without overflow on the way.",
)  # fmt: skip
ndtr = elementwise(
    "special_ndtr", special.ndtr, lambda g, self: g * (exp(-0.5 * (self * self)) / _ROOT_2_PI),
    dtypes="float", check=kernel("erf_vml_cpu"),
)  # fmt: skip
ndtri = elementwise(
    "special_ndtri", special.ndtri,
    lambda g, result: g * (_ROOT_2_PI * exp(0.5 * (result * result))),
    dtypes="float", check=_no_half("ndtri_cpu"),
)  # fmt: skip
log_ndtr = on_tensor(
    elementwise(
        "special_log_ndtr", special.log_ndtr,
        lambda g, self, result: g * (exp(-(result + 0.5 * (self * self))) / _ROOT_2_PI),
        dtypes="float", check=_no_half("log_ndtr_cpu"),
    ), "The logarithm of the area under the normal curve, from -inf to ``input``.",
)  # fmt: skip

# -- gamma functions -------------------------------------------------------------------------


def _polygamma(self: Raw, n: int) -> Raw:
    return special.polygamma(self, n)


def _check_polygamma(self: Raw, n: int) -> None:
    kernel("digamma" if n == 0 else "trigamma" if n == 1 else "polygamma")(self)


lgamma = elementwise(
    "lgamma", special.lgamma, lambda g, self: g * digamma(self), dtypes="float",
    check=kernel("lgamma_vml_cpu"),
)  # fmt: skip
digamma: Elementwise = elementwise(
    "digamma", special.digamma, lambda g, self: g * _polygamma_of(self, n=1), dtypes="float",
    check=kernel("digamma"),
)  # fmt: skip
_polygamma_of: Elementwise = elementwise(
    "polygamma", _polygamma, lambda g, self, n: g * _polygamma_of(self, n=n + 1), dtypes="float",
    check=_check_polygamma,
)  # fmt: skip


def polygamma_of(input: Any, n: int) -> Any:
    """The method: see ``polygamma``."""
    check_int("polygamma", "n", 1, n)
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return _polygamma_of(input, n=n)


def polygamma(n: int, input: Any) -> Any:
    """The n-th derivative of ``digamma``.

    >>> import retrograd as torch
    >>> torch.polygamma(1, torch.tensor([1., 0.5]))
    tensor([1.6449, 4.9348])
    """
    return polygamma_of(input, n)


def _mvlgamma(self: Raw, p: int) -> Raw:
    total = special.lgamma(self)
    for j in range(1, p):
        total = total + special.lgamma(self - 0.5 * j)
    return total + 0.25 * p * (p - 1) * math.log(math.pi)


def _mvlgamma_rule(g: Any, self: Any, p: int) -> Any:
    slope = digamma(self)
    for j in range(1, p):
        slope = slope + digamma(self - 0.5 * j)
    return g * slope


_mvlgamma_of = elementwise(
    "mvlgamma", _mvlgamma, _mvlgamma_rule, dtypes="float",
    check=both(refuses("b", "The input tensor may not be a boolean tensor.", RuntimeError),
               kernel("arange_cpu")),
)  # fmt: skip


def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the gamma function of ``p`` variables."""
    check_int("mvlgamma", "p", 2, p)
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    return _mvlgamma_of(input, p=p)


def _no_derivative(what: str) -> Any:
    def rule(g: Any) -> Any:
        raise NotImplementedError(f"the derivative for '{what}' is not implemented.")

    return rule


def _gamma_density(g: Any, self: Any, other: Any) -> Any:
    return g * exp((self - 1) * log(other) - other - lgamma(self))


igamma = on_tensors(
    elementwise(
        "igamma", special.gammainc, _no_derivative("igamma: input"), _gamma_density,
        dtypes="promote", check=kernel("igamma_cpu", "biuc"),
    ), "The regularized lower incomplete gamma function.",
)  # fmt: skip
igammac = on_tensors(
    elementwise(
        "igammac", special.gammaincc, _no_derivative("igammac: input"),
        lambda g, self, other: -_gamma_density(g, self, other),
        dtypes="promote", check=kernel("igammac_cpu", "biuc"),
    ), "The regularized upper incomplete gamma function.",
)  # fmt: skip


def _zeta_rule(g: Any, self: Any, other: Any) -> Any:
    return g * -self * _zeta(self + 1, other)


def _zeta_of_number_rule(g: Any, other: Any, self: Any) -> Any:
    return g * -self * _zeta_of(other, self=self + 1)


def _zeta_of_number(other: Raw, self: Any) -> Raw:
    return special.zeta(other.dtype.type(self), other)


def _zeta_by_number(self: Raw, other: Any) -> Raw:
    return special.zeta(self, self.dtype.type(other))


_ZETA = _no_half("zeta_cpu")
_zeta: Elementwise = elementwise(
    "special_zeta", special.zeta, _no_derivative("zeta"), _zeta_rule, dtypes="float", check=_ZETA
)
_zeta_of: Elementwise = Elementwise(
    "zeta_of_number", _zeta_of_number, inputs=("other",), node="SpecialZetaBackward1",
    rules={"other": _zeta_of_number_rule}, dtypes="float", check=_ZETA,
)  # fmt: skip
_zeta_by = elementwise(
    "zeta_by_number", _zeta_by_number, _no_derivative("zeta"), node="SpecialZetaBackward2",
    dtypes="float", check=_ZETA,
)  # fmt: skip
zeta = either_number(
    "special_zeta", _zeta, _zeta_of, _zeta_by,
    "Hurwitz's zeta function: the sum of ``(k + other) ** -input`` over k = 0, 1, 2...",
)  # fmt: skip

# -- modified Bessel functions ---------------------------------------------------------------


def _away_from_zero(self: Any) -> tuple[Any, Any]:
    """Where a quotient by ``self`` makes sense, and ``self`` there with something harmless
    elsewhere."""
    tiny = special.epsilon(raw(self).dtype)
    safe = gt(absolute(self), tiny)
    return safe, where(safe, self, tiny)


def _i1_rule(g: Any, self: Any, result: Any) -> Any:
    safe, x = _away_from_zero(self)
    return g * where(safe, i0(x) - result / x, 0.5)


def _i1e_rule(g: Any, self: Any, result: Any) -> Any:
    safe, x = _away_from_zero(self)
    return g * where(safe, i0e(x) - result * (sgn(self) + 1 / x), 0.5)


i0: Elementwise = elementwise(
    "i0", special.i0, lambda g, self: g * i1(self), dtypes="float", check=kernel("i0_vml_cpu")
)
i0e = on_tensor(
    elementwise(
        "special_i0e", special.i0e, lambda g, self, result: g * (i1e(self) - sgn(self) * result),
        node="SpecialI0EBackward0", dtypes="float", check=kernel("i0e_cpu"),
    ), "``i0`` without its exponential growth: times ``exp(-abs(input))``.",
)  # fmt: skip
i1: Callable[..., Any] = on_tensor(
    elementwise("special_i1", special.i1, _i1_rule, dtypes="float", check=kernel("i1_cpu")),
    "The modified Bessel function of the first kind, of order 1.",
)
i1e: Callable[..., Any] = on_tensor(
    elementwise(
        "special_i1e", special.i1e, _i1e_rule, node="SpecialI1EBackward0", dtypes="float",
        check=kernel("i1e_cpu"),
    ), "``i1`` without its exponential growth: times ``exp(-abs(input))``.",
)  # fmt: skip

# -- logit and entropy -----------------------------------------------------------------------


def _logit(self: Raw, eps: float | None = None) -> Raw:
    x = self if eps is None else arrays.clip(self, eps, 1 - eps)
    return arrays.log(x / (1 - x))


def _logit_rule(g: Any, self: Any, eps: float | None) -> Any:
    slope = g / (self * (1 - self))
    low = 0 if eps is None else eps
    inside = logical_and(ge(self, low), le(self, 1 - low))
    return where(inside, slope, math.nan if eps is None else 0.0)


_logit_of = elementwise("logit", _logit, _logit_rule, dtypes="float", check=kernel("logit_cpu"))


def logit(input: Any, eps: float | None = None) -> Any:
    """log(x / (1 - x)), the inverse of the sigmoid, of numbers kept ``eps`` away from 0 and 1."""
    if eps is not None and not isinstance(eps, (int, float)):
        raise TypeError(
            f"logit(): argument 'eps' (position 2) must be float, not {type(eps).__name__}"
        )
    check_tensor("logit", "input", 1, input)
    return _logit_of(input, eps=eps)


entr = elementwise(
    "special_entr", special.entr, lambda g, self: g * (-log(self) - 1), dtypes="float",
    check=kernel("entr_cpu"),
)  # fmt: skip


def round(input: Any, *, decimals: int = 0) -> Any:
    """Rounded to ``decimals`` places."""
    check_tensor("special_round", "input", 1, input)
    return round_decimals(input, decimals=decimals)


# -- functions that PyTorch does not differentiate -------------------------------------------


def _plain(name: str, forward: Any) -> Constant:
    return asking(f"special_{name}", forward, dtypes="float", check=_no_half(f"{name}_cpu"))


bessel_j0 = _plain("bessel_j0", special.j0)
bessel_j1 = _plain("bessel_j1", special.j1)
bessel_y0 = _plain("bessel_y0", special.y0)
bessel_y1 = _plain("bessel_y1", special.y1)
modified_bessel_i0 = _plain("modified_bessel_i0", special.i0)
modified_bessel_i1 = _plain("modified_bessel_i1", special.i1)
modified_bessel_k0 = _plain("modified_bessel_k0", special.k0)
modified_bessel_k1 = _plain("modified_bessel_k1", special.k1)
scaled_modified_bessel_k0 = _plain("scaled_modified_bessel_k0", special.k0e)
scaled_modified_bessel_k1 = _plain("scaled_modified_bessel_k1", special.k1e)
spherical_bessel_j0 = _plain("spherical_bessel_j0", special.spherical_j0)
airy_ai = _plain("airy_ai", special.airy_ai)


_NO_DEGREE = 2.0**63  # from which on, as for NaN, the integer that C makes of it is negative


def _polynomial(name: str, forward: Any) -> Any:
    def of_degree(self: Raw, n: Raw) -> Raw:
        return forward(self, arrays.where(abs(n) < _NO_DEGREE, n, -1.0))

    operation = constant(
        f"special_{name}", of_degree, ("self", "n"), dtypes="float", check=_no_half(f"{name}_cpu"),
        broadcasts=True,
    )  # fmt: skip

    def function(x: Any, n: Any) -> Any:
        if is_number(x) and is_number(n):
            raise invalid_combination(f"special_{name}", x, n)
        return operation(x, n)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name.replace('_', ' ')} of degree ``n`` at ``x``."
    return function


chebyshev_polynomial_t = _polynomial("chebyshev_polynomial_t", special.chebyshev_t)
chebyshev_polynomial_u = _polynomial("chebyshev_polynomial_u", special.chebyshev_u)
chebyshev_polynomial_v = _polynomial("chebyshev_polynomial_v", special.chebyshev_v)
chebyshev_polynomial_w = _polynomial("chebyshev_polynomial_w", special.chebyshev_w)
shifted_chebyshev_polynomial_t = _polynomial(
    "shifted_chebyshev_polynomial_t", special.shifted_chebyshev_t
)
shifted_chebyshev_polynomial_u = _polynomial(
    "shifted_chebyshev_polynomial_u", special.shifted_chebyshev_u
)
shifted_chebyshev_polynomial_v = _polynomial(
    "shifted_chebyshev_polynomial_v", special.shifted_chebyshev_v
)
shifted_chebyshev_polynomial_w = _polynomial(
    "shifted_chebyshev_polynomial_w", special.shifted_chebyshev_w
)
hermite_polynomial_h = _polynomial("hermite_polynomial_h", special.hermite_h)
hermite_polynomial_he = _polynomial("hermite_polynomial_he", special.hermite_he)
laguerre_polynomial_l = _polynomial("laguerre_polynomial_l", special.laguerre_l)
legendre_polynomial_p = _polynomial("legendre_polynomial_p", special.legendre_p)
