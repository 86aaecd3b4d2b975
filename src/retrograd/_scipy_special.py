"""Functions of ``scipy.special`` that PyTorch does not have, with derivatives.

They are in ``retrograd.special``, under SciPy's names and with SciPy's order of arguments, and
stand for SciPy's functions where these are given tensors. Values are SciPy's. Rules are written
with functions of this module, so that derivatives of every order exist, and where it matters with
hypergeometric functions, which are smooth where a quotient would be 0 / 0. Where a derivative by a
parameter is not known in closed form (by the order of a Bessel function, say), asking for it is an
error.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import _special as kernels
from retrograd.ops._operation import Elementwise, Operation, raw
from retrograd.ops.comparisons import eq, gt
from retrograd.ops.elementwise import exp, expm1, log, log1p, sqrt
from retrograd.ops.piecewise import abs as absolute
from retrograd.ops.piecewise import sgn, where
from retrograd.ops.pointwise.arithmetic import _xlog1py as xlog1py
from retrograd.ops.pointwise.arithmetic import _xlogy as xlogy
from retrograd.ops.pointwise.arithmetic import hypot
from retrograd.ops.pointwise.special import digamma, erf, lgamma
from retrograd.ops.pointwise.trigonometry import cos, cosh, sin, sinh
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor

DOC = """{doc}

Args:{args}

Returns:
    What ``scipy.special.{name}`` gives: a Tensor, or a tuple of them, of the shape that the
    arguments broadcast to.
"""
OPERATIONS: dict[str, Operation] = {}
FUNCTIONS: dict[str, Callable[..., Any]] = {}
PI, ROOT_PI, DEGREE = math.pi, math.sqrt(math.pi), math.pi / 180


def _no_derivative(name: str, argument: str) -> Callable[..., Any]:
    def rule(g: Any) -> Any:
        raise NotImplementedError(f"{name}: there is no derivative by {argument}.")

    return rule


def _operation(name: str, inputs: str, rules: dict[str, Any], forward: Any = None) -> Elementwise:
    """An operation. Rules are given by the names of inputs; others have no derivative."""
    names = tuple(inputs.split())
    every = {n: rules.get(n, _no_derivative(name, n)) for n in names}
    return Elementwise(
        f"special_{name}", forward or kernels.of_scipy(name), inputs=names, rules=every,
        dtypes="float", table=OPERATIONS,
    )  # fmt: skip


def _public(name: str, names: str, function: Callable[..., Any], doc: str) -> None:
    """Enter a function of tensors, arrays and numbers, at least one of which is a Tensor."""
    arguments = names.split()

    def called(*args: Any) -> Any:
        if len(args) != len(arguments):
            raise TypeError(f"{name}() takes {', '.join(arguments)}, got {len(args)} arguments")
        first = next((x for x in args if isinstance(x, Tensor)), None)
        if first is None:
            raise TypeError(f"{name}(): one of the arguments must be a Tensor")
        dtype = first.dtype if first.is_floating_point() else None
        return function(*[x if isinstance(x, Tensor) else as_tensor(x, dtype=dtype) for x in args])

    called.__name__ = called.__qualname__ = name
    called.__doc__ = DOC.format(
        doc=doc, name=name,
        args="".join(f"\n    {n}: a Tensor, an array or a number." for n in arguments),
    )  # fmt: skip
    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in arguments]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    FUNCTIONS[name] = called


def _declare(name: str, inputs: str, doc: str, **rules: Any) -> Elementwise:
    """Declare a function of SciPy by its rules."""
    operation = _operation(name, inputs, rules)
    _public(name, inputs, operation, doc)
    return operation


def _parts(name: str, doc: str, *rules: Any) -> list[Elementwise]:
    """Declare a function of SciPy that gives several results, by the rules of each."""
    operations = [
        _operation(f"{name}_{i}", "x", {"x": rule}, kernels.of_scipy(name, i))
        for i, rule in enumerate(rules)
    ]
    _public(name, "x", lambda x: tuple([op(x) for op in operations]), doc)
    return operations


# -- hypergeometric functions ----------------------------------------------------------------

hyp0f1: Elementwise = _declare(
    "hyp0f1", "v z", "The confluent hypergeometric limit function 0F1(; v; z).",
    z=lambda g, v, z: g * hyp0f1(v + 1, z) / v,
)  # fmt: skip
hyp1f1: Elementwise = _declare(
    "hyp1f1", "a b x", "The confluent hypergeometric function 1F1(a; b; x).",
    x=lambda g, a, b, x: g * (a / b) * hyp1f1(a + 1, b + 1, x),
)  # fmt: skip
hyp2f1: Elementwise = _declare(
    "hyp2f1", "a b c z", "Gauss' hypergeometric function 2F1(a, b; c; z).",
    # Where the factor is 0, the function need not be finite.
    z=lambda g, a, b, c, z: (
        g * (a * b / c) * hyp2f1(where(eq(a * b, 0), 0 * a, a + 1), b + 1, c + 1, z)
    ),
)  # fmt: skip
hyperu: Elementwise = _declare(
    "hyperu", "a b x", "The confluent hypergeometric function U(a, b, x) of Tricomi.",
    x=lambda g, a, b, x: -g * a * hyperu(a + 1, b + 1, x),
)  # fmt: skip


def _at(operation: Operation, *numbers: float) -> Callable[[Any], Any]:
    """An operation of its last input, with numbers for the others."""
    return lambda z: operation(*[arrays.asarray(x, raw(z).dtype) for x in numbers], z)


def _f21(a: float, b: float, c: float, z: Any) -> Any:
    return _at(hyp2f1, a, b, c)(z)


# -- integrals of elementary functions ---------------------------------------------------------

_declare("dawsn", "x", "Dawson's integral, exp(-x**2) times the integral of exp(t**2) from 0 to x.",
         x=lambda g, x, result: g * (1 - 2 * x * result))  # fmt: skip
_declare("erfi", "z", "The imaginary error function, -i erf(i z).",
         z=lambda g, z: g * (2 / ROOT_PI * exp(z * z)))  # fmt: skip
_declare("erfcinv", "y", "The inverse of the complementary error function.",
         y=lambda g, result: g * (-ROOT_PI / 2 * exp(result * result)))  # fmt: skip
_declare(
    "ndtri_exp",
    "y",
    "The quantile of the normal distribution of exp(y).",
    y=lambda g, y, result: g * exp(y + 0.5 * result * result) * math.sqrt(2 * PI),
)
_declare("exp1", "z", "The exponential integral E1.", z=lambda g, z: -g * exp(-z) / z)
_declare("expi", "x", "The exponential integral Ei.", x=lambda g, x: g * exp(x) / x)
_parts("sici", "The sine and the cosine integral.",
       lambda g, x: g * _sinc(x), lambda g, x: g * cos(x) / x)  # fmt: skip
_parts("shichi", "The hyperbolic sine and cosine integral.",
       lambda g, x: g * _sinhc(x), lambda g, x: g * cosh(x) / x)  # fmt: skip
_parts("fresnel", "Fresnel's integrals S and C.",
       lambda g, x: g * sin(PI / 2 * x * x), lambda g, x: g * cos(PI / 2 * x * x))  # fmt: skip


def _sinc(x: Any) -> Any:
    """sin(x) / x, smooth at 0."""
    return _at(hyp0f1, 1.5)(-0.25 * x * x)


def _sinhc(x: Any) -> Any:
    """sinh(x) / x, smooth at 0; of large values as a quotient, where 0F1 is slow."""
    small = gt(1.0, absolute(x))
    safe = where(small, 1.0, x)
    return where(small, _at(hyp0f1, 1.5)(0.25 * where(small, x, 0 * x) ** 2), sinh(safe) / safe)


def _expn_rule(g: Any, n: Any, x: Any) -> Any:
    is_first = eq(n, 0)
    safe = where(is_first, x, 0 * x + 1)
    below = expn(where(is_first, n, n - 1), x)
    return -g * where(is_first, exp(-safe) * (1 + 1 / safe) / safe, below)


expn: Elementwise = _declare(
    "expn", "n x", "The generalized exponential integral of order n.", x=_expn_rule
)
_declare("spence", "z", "Spence's function, the dilogarithm of 1 - z.",
         z=lambda g, z: -g * _f21(1.0, 1.0, 2.0, 1 - z))  # fmt: skip
_declare("ellipk", "m", "The complete elliptic integral of the first kind.",
         m=lambda g, m: g * (PI / 8) * _f21(1.5, 1.5, 2.0, m))  # fmt: skip
_declare("ellipe", "m", "The complete elliptic integral of the second kind.",
         m=lambda g, m: g * (-PI / 8) * _f21(0.5, 1.5, 2.0, m))  # fmt: skip
_declare("ellipkinc", "phi m", "The incomplete elliptic integral of the first kind.",
         phi=lambda g, phi, m: g / sqrt(1 - m * sin(phi) ** 2))  # fmt: skip
_declare("ellipeinc", "phi m", "The incomplete elliptic integral of the second kind.",
         phi=lambda g, phi, m: g * sqrt(1 - m * sin(phi) ** 2))  # fmt: skip
_declare(
    "owens_t", "h a", "Owen's T function.",
    h=lambda g, h, a: g * exp(-0.5 * h * h) * erf(a * h * math.sqrt(0.5)) / -math.sqrt(8 * PI),
    a=lambda g, h, a: g * exp(-0.5 * h * h * (1 + a * a)) / (2 * PI * (1 + a * a)),
)  # fmt: skip

# -- Bessel functions ----------------------------------------------------------------------------

jv: Elementwise = _declare(
    "jv", "v z", "The Bessel function of the first kind, of order v.",
    z=lambda g, v, z: g * (jv(v - 1, z) - jv(v + 1, z)) / 2,
)  # fmt: skip
yv: Elementwise = _declare(
    "yv", "v z", "The Bessel function of the second kind, of order v.",
    z=lambda g, v, z: g * (yv(v - 1, z) - yv(v + 1, z)) / 2,
)  # fmt: skip
iv: Elementwise = _declare(
    "iv", "v z", "The modified Bessel function of the first kind, of order v.",
    z=lambda g, v, z: g * (iv(v - 1, z) + iv(v + 1, z)) / 2,
)  # fmt: skip
kv: Elementwise = _declare(
    "kv", "v z", "The modified Bessel function of the second kind, of order v.",
    z=lambda g, v, z: -g * (kv(v - 1, z) + kv(v + 1, z)) / 2,
)  # fmt: skip
ive: Elementwise = _declare(
    "ive", "v z", "The scaled Bessel function exp(-abs(z)) * iv(v, z).",
    z=lambda g, v, z, result: g * ((ive(v - 1, z) + ive(v + 1, z)) / 2 - sgn(z) * result),
)  # fmt: skip
kve: Elementwise = _declare(
    "kve", "v z", "The scaled Bessel function exp(z) * kv(v, z).",
    z=lambda g, v, z, result: g * (result - (kve(v - 1, z) + kve(v + 1, z)) / 2),
)  # fmt: skip
struve: Elementwise = _declare(
    "struve", "v x", "The Struve function of order v.",
    x=lambda g, v, x: g * (struve(v - 1, x) - struve(v + 1, x) + _power(v, x)) / 2,
)  # fmt: skip
modstruve: Elementwise = _declare(
    "modstruve", "v x", "The modified Struve function of order v.",
    x=lambda g, v, x: g * (modstruve(v - 1, x) + modstruve(v + 1, x) + _power(v, x)) / 2,
)  # fmt: skip
_airy: list[Elementwise] = _parts(
    "airy", "The Airy function Ai, its derivative, the Airy function Bi, and its derivative.",
    lambda g, x: g * _airy[1](x), lambda g, x: g * x * _airy[0](x),
    lambda g, x: g * _airy[3](x), lambda g, x: g * x * _airy[2](x),
)  # fmt: skip


def _power(v: Any, x: Any) -> Any:
    """``(x / 2)**v / (sqrt(pi) * gamma(v + 3/2))``."""
    return (x / 2) ** v * rgamma(v + 1.5) / ROOT_PI


# -- gamma and beta functions ------------------------------------------------------------------

gamma: Elementwise = _declare(
    "gamma", "z", "The gamma function.", z=lambda g, z, result: g * result * digamma(z)
)


def _rgamma_rule(g: Any, z: Any, result: Any) -> Any:
    """By reflection on the left, where the function is 0 at poles of digamma."""
    is_left = gt(0.5, z)
    left, right = where(is_left, z, 0 * z), where(is_left, 0 * z + 1, z)
    slope = gamma(1 - left) * (cos(PI * left) - sin(PI * left) * digamma(1 - left) / PI)
    return g * where(is_left, slope, -result * digamma(right))


rgamma: Elementwise = _declare(
    "rgamma", "z", "The reciprocal of the gamma function.", z=_rgamma_rule
)
_declare(
    "betaln", "a b", "The logarithm of the beta function.",
    a=lambda g, a, b: g * (digamma(a) - digamma(a + b)),
    b=lambda g, a, b: g * (digamma(b) - digamma(a + b)),
)  # fmt: skip
_declare(
    "beta", "a b", "The beta function.",
    a=lambda g, a, b, result: g * result * (digamma(a) - digamma(a + b)),
    b=lambda g, a, b, result: g * result * (digamma(b) - digamma(a + b)),
)  # fmt: skip
_declare(
    "poch", "z m", "Pochhammer's symbol, gamma(z + m) / gamma(z).",
    z=lambda g, z, m, result: g * result * (digamma(z + m) - digamma(z)),
    m=lambda g, z, m, result: g * result * digamma(z + m),
)  # fmt: skip
_declare(
    "binom", "n k", "The binomial coefficient as a function of real numbers.",
    n=lambda g, n, k, result: g * result * (digamma(n + 1) - digamma(n - k + 1)),
    k=lambda g, n, k, result: g * result * (digamma(n - k + 1) - digamma(k + 1)),
)  # fmt: skip


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    total = lgamma(a + b) - lgamma(a) - lgamma(b)
    return exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) + total)


def _gamma_density(a: Any, x: Any) -> Any:
    return exp(xlogy(a - 1, x) - x - lgamma(a))


_declare("betainc", "a b x", "The regularized incomplete beta function.",
         x=lambda g, a, b, x: g * _beta_density(a, b, x))  # fmt: skip
_declare("betaincc", "a b x", "The complement of the regularized incomplete beta function.",
         x=lambda g, a, b, x: -g * _beta_density(a, b, x))  # fmt: skip
_declare("betaincinv", "a b y", "The inverse of the regularized incomplete beta function.",
         y=lambda g, a, b, result: g / _beta_density(a, b, result))  # fmt: skip
_declare("gammaincinv", "a y", "The inverse of the lower incomplete gamma function.",
         y=lambda g, a, result: g / _gamma_density(a, result))  # fmt: skip
_declare("gammainccinv", "a y", "The inverse of the upper incomplete gamma function.",
         y=lambda g, a, result: -g / _gamma_density(a, result))  # fmt: skip
_declare("chdtr", "v x", "The cumulative chi-square distribution.",
         x=lambda g, v, x: g * _gamma_density(v / 2, x / 2) / 2)  # fmt: skip
_declare("chdtrc", "v x", "The complement of the cumulative chi-square distribution.",
         x=lambda g, v, x: -g * _gamma_density(v / 2, x / 2) / 2)  # fmt: skip
_declare(
    "stdtr", "df t", "The cumulative distribution of Student's t.",
    t=lambda g, df, t: g * exp(
        lgamma((df + 1) / 2) - lgamma(df / 2) - (df + 1) / 2 * log1p(t * t / df)
    ) / sqrt(df * PI),
)  # fmt: skip

# -- orthogonal polynomials --------------------------------------------------------------------


# Degrees are real numbers. For those below 0 there are reflections, which SciPy knows of the
# functions themselves, but not of Gegenbauer's, by which some derivatives are written.


def _lower(n: Any) -> Any:
    """``n - 1``, and 0 where there is no lower degree: the factor before it is 0 there."""
    return where(eq(n, 0), 0 * n, n - 1)


def _if_any(n: Any, x: Any) -> Any:
    return where(eq(n, 0), 0 * x, x)


def _legendre_rule(g: Any, n: Any, x: Any) -> Any:
    n = where(gt(-0.5, n), -1 - n, n)
    return g * _if_any(n, gegenbauer(_lower(n), 0 * n + 1.5, x))


def _chebyu_rule(g: Any, n: Any, x: Any) -> Any:
    sign = sgn(n + 1)
    n = where(eq(sign, 0), 0 * n, absolute(n + 1) - 1)
    return g * _if_any(n, 2 * sign * gegenbauer(_lower(n), 0 * n + 2.0, x))


def _chebyt_rule(g: Any, n: Any, x: Any) -> Any:
    n = absolute(n)
    return g * _if_any(n, n * chebyu(_lower(n), x))


gegenbauer: Elementwise = _declare(
    "eval_gegenbauer", "n alpha x", "Gegenbauer's polynomial of degree n.",
    x=lambda g, n, alpha, x: g * _if_any(n, 2 * alpha * gegenbauer(_lower(n), alpha + 1, x)),
)  # fmt: skip
genlaguerre: Elementwise = _declare(
    "eval_genlaguerre", "n alpha x", "The generalized Laguerre polynomial of degree n.",
    x=lambda g, n, alpha, x: -g * _if_any(n, genlaguerre(_lower(n), alpha + 1, x)),
)  # fmt: skip
jacobi: Elementwise = _declare(
    "eval_jacobi", "n alpha beta x", "Jacobi's polynomial of degree n.",
    x=lambda g, n, alpha, beta, x: g * _if_any(
        n, (n + alpha + beta + 1) / 2 * jacobi(_lower(n), alpha + 1, beta + 1, x)
    ),
)  # fmt: skip
_declare("eval_legendre", "n x", "Legendre's polynomial of degree n.", x=_legendre_rule)
_declare("eval_laguerre", "n x", "Laguerre's polynomial of degree n.",
         x=lambda g, n, x: -g * _if_any(n, genlaguerre(_lower(n), 0 * n + 1.0, x)))  # fmt: skip
chebyu: Elementwise = _declare(
    "eval_chebyu", "n x", "Chebyshev's polynomial of the second kind, of degree n.", x=_chebyu_rule
)
_declare("eval_chebyt", "n x", "Chebyshev's polynomial of the first kind, of degree n.",
         x=_chebyt_rule)  # fmt: skip

# -- elementary and piecewise functions, and equations -----------------------------------------

_declare("cbrt", "x", "The cube root.", x=lambda g, result: g / (3 * result * result))
_declare("exp10", "x", "10 to the power of x.", x=lambda g, result: g * result * math.log(10))
_declare("cosm1", "x", "cos(x) - 1, also where that is small.", x=lambda g, x: -g * sin(x))
_declare("sindg", "x", "The sine of an angle in degrees.", x=lambda g, x: g * DEGREE * cosdg(x))
cosdg: Elementwise = _declare(
    "cosdg", "x", "The cosine of an angle in degrees.",
    x=lambda g, x: -g * DEGREE * sin(DEGREE * x),
)  # fmt: skip
_declare("tandg", "x", "The tangent of an angle in degrees.",
         x=lambda g, result: g * DEGREE * (1 + result * result))  # fmt: skip
_declare("cotdg", "x", "The cotangent of an angle in degrees.",
         x=lambda g, result: -g * DEGREE * (1 + result * result))  # fmt: skip
_declare("exprel", "x", "(exp(x) - 1) / x, which is 1 at 0.",
         x=lambda g, x: g * _at(hyp1f1, 2.0, 3.0)(x) / 2)  # fmt: skip
_declare("log_expit", "x", "The logarithm of the sigmoid.", x=lambda g, result: -g * expm1(result))
_declare(
    "rel_entr", "x y", "The elements of the relative entropy, x * log(x / y).",
    x=lambda g, x, y: g * (log(x / y) + 1), y=lambda g, x, y: -g * x / y,
)  # fmt: skip
_declare(
    "kl_div", "x y", "The elements of the divergence x * log(x / y) - x + y.",
    x=lambda g, x, y: g * log(x / y), y=lambda g, x, y: g * (1 - x / y),
)  # fmt: skip
_declare(
    "huber", "delta r", "Huber's loss: half the square up to delta, linear beyond.",
    delta=lambda g, delta, r: g * where(gt(absolute(r), delta), absolute(r) - delta, 0 * r),
    r=lambda g, delta, r: g * where(gt(absolute(r), delta), delta * sgn(r), r),
)  # fmt: skip
_declare(
    "pseudo_huber", "delta r", "A smooth form of Huber's loss.",
    delta=lambda g, delta, r: (
        g * (r * r / (delta + hypot(delta, r))) ** 2 / hypot(delta, r)
    ),
    r=lambda g, delta, r: g * delta * r / hypot(delta, r),
)  # fmt: skip
_declare("boxcox", "x lmbda", "The transformation (x**lmbda - 1) / lmbda of Box and Cox.",
         x=lambda g, x, lmbda: g * x ** (lmbda - 1))  # fmt: skip
_declare("boxcox1p", "x lmbda", "The transformation of Box and Cox of 1 + x.",
         x=lambda g, x, lmbda: g * (1 + x) ** (lmbda - 1))  # fmt: skip
_declare("inv_boxcox", "y lmbda", "The inverse of the transformation of Box and Cox.",
         y=lambda g, lmbda, result: g * result ** (1 - lmbda))  # fmt: skip
_declare("inv_boxcox1p", "y lmbda", "The inverse of the transformation of Box and Cox of 1 + x.",
         y=lambda g, lmbda, result: g * (1 + result) ** (1 - lmbda))  # fmt: skip
_declare(
    "powm1", "x y", "x**y - 1, also where that is small.",
    x=lambda g, x, y: g * y * x ** (y - 1), y=lambda g, x, result: g * xlogy(result + 1, x),
)  # fmt: skip
_declare("wrightomega", "z", "Wright's omega function, the solution of w + log(w) = z.",
         z=lambda g, result: g * result / (1 + result))  # fmt: skip
_public("lambertw", "z", _operation(
    "lambertw", "z", {"z": lambda g, result: g * exp(-result) / (1 + result)}, kernels.lambertw,
), "Lambert's W, the solution of w * exp(w) = z: its real branch from -1 / e on.")  # fmt: skip

