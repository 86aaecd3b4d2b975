"""Special functions and their derivatives."""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.arrays import _special as special
from retrograd.ops._arguments import check_int, check_tensor, either_number
from retrograd.ops._operation import Elementwise, elementwise
from retrograd.ops._public import public
from retrograd.ops._refusals import Check, both, kernel, refuses
from retrograd.ops.comparisons import ge, le, logical_and
from retrograd.ops.elementwise import exp, log
from retrograd.ops.piecewise import round_decimals, where


def no_half(name: str) -> Check:
    """A check for what PyTorch computes in single and double precision only."""

    def check(*operands: Any, **options: Any) -> None:
        kernel(name)(*operands, **options)
        common = arrays.dtypes.result_type(operands)
        if common.name in ("float16", "bfloat16"):
            word = arrays.dtypes.type_word(common)
            raise NotImplementedError(f"\"{name}\" not implemented for '{word}'")

    return check


# -- error functions -------------------------------------------------------------------------

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_2_PI = math.sqrt(2 * math.pi)

erf = elementwise(
    "erf", special.erf, lambda g, self: g * (_TWO_OVER_ROOT_PI * exp(-(self * self))),
    dtypes="float", check=kernel("erf_vml_cpu"),
    public="torch method special", in_place="torch method",
    doc="The error function.",
    example=("torch.erf(torch.tensor([0., 1.]))", "tensor([0.0000, 0.8427])"),
)  # fmt: skip
erfc = elementwise(
    "erfc", special.erfc, lambda g, self: -g * (_TWO_OVER_ROOT_PI * exp(-(self * self))),
    dtypes="float", check=kernel("erfc_vml_cpu"),
    public="torch method special", in_place="torch method",
    doc="The complementary error function, ``1 - erf(input)``, without loss of precision.",
    example=("torch.erfc(torch.tensor([0., 3.]))", "tensor([1.0000e+00, 2.2090e-05])"),
)  # fmt: skip


def _erfinv_rule(g: Any, self: Any) -> Any:
    inverse = erfinv(self)
    return g * (exp(inverse * inverse) / _TWO_OVER_ROOT_PI)


erfinv: Elementwise = elementwise(
    "erfinv", special.erfinv, _erfinv_rule, dtypes="float", check=kernel("erfinv_vml_cpu"),
    public="torch method special", in_place=True,
    doc="The inverse of the error function, on (-1, 1).",
    example=("torch.erfinv(torch.tensor([0., 0.5]))", "tensor([0.0000, 0.4769])"),
)  # fmt: skip
erfcx = elementwise(
    "special_erfcx", special.erfcx,
    lambda g, self, result: g * (2 * self * result - _TWO_OVER_ROOT_PI),
    dtypes="float", check=no_half("erfcx_cpu"),
    public="special.erfcx",
    doc="The scaled complementary error function, ``exp(input**2) * erfc(input)``.",
    example=("torch.special.erfcx(torch.tensor([0., 10.]))", "tensor([1.0000, 0.0561])"),
)  # fmt: skip
ndtr = elementwise(
    "special_ndtr", special.ndtr, lambda g, self: g * (exp(-0.5 * (self * self)) / _ROOT_2_PI),
    dtypes="float", check=kernel("erf_vml_cpu"),
    public="special.ndtr", out="cast, copied",
    doc="The cumulative distribution function of the standard normal distribution.",
    example=("torch.special.ndtr(torch.tensor([0., 1.]))", "tensor([0.5000, 0.8413])"),
)  # fmt: skip
ndtri = elementwise(
    "special_ndtri", special.ndtri,
    lambda g, result: g * (_ROOT_2_PI * exp(0.5 * (result * result))),
    dtypes="float", check=no_half("ndtri_cpu"),
    public="special.ndtri",
    doc="The quantile function of the standard normal distribution: the inverse of ``ndtr``.",
    example=("torch.special.ndtri(torch.tensor([0.5, 0.9]))", "tensor([0.0000, 1.2816])"),
)  # fmt: skip
log_ndtr = elementwise(
    "special_log_ndtr", special.log_ndtr,
    lambda g, self, result: g * (exp(-(result + 0.5 * (self * self))) / _ROOT_2_PI),
    dtypes="float", check=no_half("log_ndtr_cpu"),
    public="special.log_ndtr",
    doc="The logarithm of the cumulative distribution function of the standard normal.",
    example=("torch.special.log_ndtr(torch.tensor([0., -20.]))", "tensor([  -0.6931, -203.9172])"),
)  # fmt: skip

# -- gamma functions -------------------------------------------------------------------------


def _check_polygamma(self: Raw, n: int) -> None:
    kernel("digamma" if n == 0 else "trigamma" if n == 1 else "polygamma")(self)


lgamma = elementwise(
    "lgamma", special.lgamma, lambda g, self: g * digamma(self), dtypes="float",
    check=kernel("lgamma_vml_cpu"),
    public="torch method special.gammaln", in_place=True,
    doc="The logarithm of the absolute value of the gamma function.",
    example=("torch.lgamma(torch.tensor([1., 5.]))", "tensor([0.0000, 3.1781])"),
)  # fmt: skip
digamma: Elementwise = elementwise(
    "digamma", special.digamma, lambda g, self: g * _polygamma_of(self, n=1), dtypes="float",
    check=kernel("digamma"),
    public="torch method special special.psi", in_place=True,
    doc="The digamma function, the derivative of ``lgamma``.",
    example=("torch.digamma(torch.tensor([1., 2.]))", "tensor([-0.5772,  0.4228])"),
)  # fmt: skip
_polygamma_of: Elementwise = elementwise(
    "polygamma", special.polygamma, lambda g, self, n: g * _polygamma_of(self, n=n + 1),
    dtypes="float", check=_check_polygamma,
)  # fmt: skip


@public("method.polygamma", in_place="method.polygamma")
def polygamma_of(input: Any, n: int) -> Any:
    """The ``n``-th derivative of the digamma function.

    Args:
        n: order of the derivative, a non-negative integer.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> torch.tensor([1., 0.5]).polygamma(1)
        tensor([1.6449, 4.9348])
    """
    check_int("polygamma", "n", 1, n)
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return _polygamma_of(input, n=n)


@public("torch special", out="cast")
def polygamma(n: int, input: Any) -> Any:
    """The ``n``-th derivative of the digamma function.

    Args:
        n: order of the derivative, a non-negative integer.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
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


@public("torch method special.multigammaln", in_place=True, out="cast, copied")
def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension ``p``.

    Args:
        input: the input tensor, with elements greater than ``(p - 1) / 2``.
        p: number of dimensions, a positive integer.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> torch.mvlgamma(torch.tensor([2., 3.]), 2)
        tensor([0.4516, 1.5502])
    """
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


def _incomplete_gamma(
    name: str, word: str, letter: str, limit: str, forward: Any, rule: Any, values: str
) -> Elementwise:
    return elementwise(
        name, forward, _no_derivative(f"{name}: input"), rule, dtypes="promote",
        check=kernel(f"{name}_cpu", "biuc"),
        public=f"torch method special.{name.replace('igamma', 'gammainc')}", in_place=True,
        accepts="tensors",
        doc=f"""The regularized {word} incomplete gamma function {letter}(``input``, ``other``).

    Args:
        input: the parameter, a tensor of values that are not negative.
        other: the {limit} limit of the integral, a tensor of values that are not negative.

    Returns:
        A tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.{name}(torch.tensor([1., 2.]), torch.tensor([1., 2.]))
    tensor([{values}])
    """,
    )  # fmt: skip


igamma = _incomplete_gamma(
    "igamma", "lower", "P", "upper", special.gammainc, _gamma_density, "0.6321, 0.5940"
)
igammac = _incomplete_gamma(
    "igammac", "upper", "Q", "lower", special.gammaincc,
    lambda g, self, other: -_gamma_density(g, self, other), "0.3679, 0.4060",
)  # fmt: skip


_ZETA = no_half("zeta_cpu")
_zeta: Elementwise = elementwise(
    "special_zeta", special.zeta, _no_derivative("zeta"),
    lambda g, self, other: g * -self * _zeta(self + 1, other), dtypes="float", check=_ZETA,
)  # fmt: skip
_zeta_of: Elementwise = Elementwise(
    "zeta_of_number", lambda other, self: special.zeta(other.dtype.type(self), other),
    inputs=("other",), node="SpecialZetaBackward1",
    rules={"other": lambda g, other, self: g * -self * _zeta_of(other, self=self + 1)},
    dtypes="float", check=_ZETA,
)  # fmt: skip
_zeta_by = elementwise(
    "zeta_by_number", lambda self, other: special.zeta(self, self.dtype.type(other)),
    _no_derivative("zeta"), node="SpecialZetaBackward2",
    dtypes="float", check=_ZETA,
)  # fmt: skip
zeta = either_number(
    "special_zeta", _zeta, _zeta_of, _zeta_by, public="special.zeta", out="cast",
    doc="""The Hurwitz zeta function, the sum of ``(k + other)**-input`` over k = 0, 1, 2...

    Args:
        input: the exponent, a tensor or a number.
        other: the offset, a tensor, or a number if ``input`` is a tensor.

    Returns:
        A tensor of the shape that ``input`` and ``other`` broadcast to.

    >>> torch.special.zeta(torch.tensor([2., 4.]), 1)
    tensor([1.6449, 1.0823])
    """,
)  # fmt: skip

# -- logit and entropy -----------------------------------------------------------------------


def _logit(self: Raw, eps: float | None = None) -> Raw:
    x = self if eps is None else arrays.clip(self, eps, 1 - eps)
    return arrays.log(x / (1 - x))


def _logit_rule(g: Any, self: Any, eps: float | None) -> Any:
    slope = g / (self * (1 - self) + 0.0)  # which makes 0 of -0
    low = 0 if eps is None else eps
    inside = logical_and(ge(self, low), le(self, 1 - low))
    return where(inside, slope, math.nan if eps is None else 0.0)


_logit_of = elementwise("logit", _logit, _logit_rule, dtypes="float", check=kernel("logit_cpu"))


@public("torch method special", in_place="torch method", out="cast")
def logit(input: Any, eps: float | None = None) -> Any:
    """The logit, ``log(input / (1 - input))``: the inverse of the sigmoid.

    Args:
        eps: if given, ``input`` is first clamped to the range from ``eps`` to ``1 - eps``.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> torch.logit(torch.tensor([0.5, 0.9]))
        tensor([0.0000, 2.1972])
    """
    if eps is not None and not isinstance(eps, (int, float)):
        raise TypeError(
            f"logit(): argument 'eps' (position 2) must be float, not {type(eps).__name__}"
        )
    check_tensor("logit", "input", 1, input)
    return _logit_of(input, eps=eps)


entr = elementwise(
    "special_entr", special.entr, lambda g, self: g * (-log(self) - 1), dtypes="float",
    check=kernel("entr_cpu"),
    public="special.entr",
    doc="The elementwise entropy, ``-input * log(input)``, which is 0 at 0.",
    example=("torch.special.entr(torch.tensor([0., 0.5]))", "tensor([0.0000, 0.3466])"),
)  # fmt: skip


@public("special", out="computed")
def round(input: Any, *, decimals: int = 0) -> Any:
    """Each element rounded to a number of decimal places; halves round to even.

    Args:
        decimals: number of decimal places; negative for tens, hundreds and so on.

    Example:
        >>> torch.special.round(torch.tensor([1.234, 5.678]), decimals=1)
        tensor([1.2000, 5.7000])
    """
    check_tensor("special_round", "input", 1, input)
    return round_decimals(input, decimals=decimals)
