"""What operations that users call as they are declared do, in words and by an example."""

from __future__ import annotations

_TOLD = """
abs: The absolute value of each element. >>> torch.abs(torch.tensor([-1., 2.])) -> tensor([1., 2.])
acos: The inverse of the cosine. >>> torch.acos(torch.tensor([0., 1.])) -> tensor([1.5708, 0.0000])
acosh: The inverse of the hyperbolic cosine.
  >>> torch.acosh(torch.tensor([1., 2.])) -> tensor([0.0000, 1.3170])
add: ``input + alpha * other``.
  >>> torch.add(torch.tensor([1., 2.]), torch.tensor([10., 20.])) -> tensor([11., 22.])
angle: The argument of each complex number.
  >>> torch.angle(torch.tensor([1j, -1.0 + 0j])) -> tensor([1.5708, 3.1416])
asin: The inverse of the sine. >>> torch.asin(torch.tensor([0., 1.])) -> tensor([0.0000, 1.5708])
asinh: The inverse of the hyperbolic sine.
  >>> torch.asinh(torch.tensor([0., 1.])) -> tensor([0.0000, 0.8814])
atan: The inverse of the tangent. >>> torch.atan(torch.tensor([0., 1.])) -> tensor([0.0000, 0.7854])
atanh: The inverse of the hyperbolic tangent.
  >>> torch.atanh(torch.tensor([0., 0.5])) -> tensor([0.0000, 0.5493])
bitwise_and: The bits that both have.
  >>> torch.bitwise_and(torch.tensor([6, 3]), torch.tensor([3, 3])) -> tensor([2, 3])
bitwise_not: Every bit of each element turned.
  >>> torch.bitwise_not(torch.tensor([0, 5])) -> tensor([-1, -6])
bitwise_or: The bits that one of both has.
  >>> torch.bitwise_or(torch.tensor([6, 3]), torch.tensor([3, 3])) -> tensor([7, 3])
bitwise_xor: The bits that exactly one of both has.
  >>> torch.bitwise_xor(torch.tensor([6, 3]), torch.tensor([3, 3])) -> tensor([5, 0])
ceil: The smallest whole number that is not below.
  >>> torch.ceil(torch.tensor([1.5, -1.5])) -> tensor([ 2., -1.])
cos: The cosine of each element. >>> torch.cos(torch.tensor([0., 1.])) -> tensor([1.0000, 0.5403])
cosh: The hyperbolic cosine of each element.
  >>> torch.cosh(torch.tensor([0., 1.])) -> tensor([1.0000, 1.5431])
deg2rad: Angles in degrees, in radians.
  >>> torch.deg2rad(torch.tensor([180., 90.])) -> tensor([3.1416, 1.5708])
digamma: The derivative of ``lgamma``.
  >>> torch.digamma(torch.tensor([1., 2.])) -> tensor([-0.5772,  0.4228])
special_entr: ``-x log(x)``, and 0 at 0.
  >>> torch.special.entr(torch.tensor([0., 0.5])) -> tensor([0.0000, 0.3466])
eq: Where two tensors are equal.
  >>> torch.eq(torch.tensor([1., 2.]), torch.tensor([1., 3.])) -> tensor([ True, False])
erf: The error function. >>> torch.erf(torch.tensor([0., 1.])) -> tensor([0.0000, 0.8427])
erfc: 1 less the error function, exact also where that is near 1.
  >>> torch.erfc(torch.tensor([0., 3.])) -> tensor([1.0000e+00, 2.2090e-05])
erfinv: The inverse of the error function.
  >>> torch.erfinv(torch.tensor([0., 0.5])) -> tensor([0.0000, 0.4769])
exp: e to the power of each element.
  >>> torch.exp(torch.tensor([0., 1.])) -> tensor([1.0000, 2.7183])
exp2: 2 to the power of each element. >>> torch.exp2(torch.tensor([0., 3.])) -> tensor([1., 8.])
expm1: ``exp(x) - 1``, exact also where x is small.
  >>> torch.expm1(torch.tensor([0., 1.])) -> tensor([0.0000, 1.7183])
floor: The largest whole number that is not above.
  >>> torch.floor(torch.tensor([1.5, -1.5])) -> tensor([ 1., -2.])
floor_divide: ``input / other``, rounded down.
  >>> torch.floor_divide(torch.tensor([7., -7.]), torch.tensor([2., 2.])) -> tensor([ 3., -4.])
frac: What is left of each element without its whole part.
  >>> torch.frac(torch.tensor([1.25, -2.5])) -> tensor([ 0.2500, -0.5000])
ge: Where ``input >= other``.
  >>> torch.ge(torch.tensor([1., 2.]), torch.tensor([1., 3.])) -> tensor([ True, False])
gt: Where ``input > other``.
  >>> torch.gt(torch.tensor([1., 2.]), torch.tensor([1., 0.])) -> tensor([False,  True])
i0: The modified Bessel function of the first kind, of order 0.
  >>> torch.i0(torch.tensor([0., 1.])) -> tensor([1.0000, 1.2661])
isfinite: Whether each element is neither infinite nor NaN.
  >>> torch.isfinite(torch.tensor([1., torch.inf])) -> tensor([ True, False])
isinf: Whether each element is infinite.
  >>> torch.isinf(torch.tensor([1., torch.inf])) -> tensor([False,  True])
isnan: Whether each element is NaN.
  >>> torch.isnan(torch.tensor([1., torch.nan])) -> tensor([False,  True])
isneginf: Whether each element is negative infinity.
  >>> torch.isneginf(torch.tensor([1., -torch.inf])) -> tensor([False,  True])
isposinf: Whether each element is positive infinity.
  >>> torch.isposinf(torch.tensor([1., torch.inf])) -> tensor([False,  True])
isreal: Whether the imaginary part of each element is 0.
  >>> torch.isreal(torch.tensor([1 + 0j, 2j])) -> tensor([ True, False])
le: Where ``input <= other``.
  >>> torch.le(torch.tensor([1., 2.]), torch.tensor([1., 3.])) -> tensor([True, True])
lgamma: The logarithm of the absolute value of the gamma function.
  >>> torch.lgamma(torch.tensor([1., 5.])) -> tensor([0.0000, 3.1781])
log: The natural logarithm of each element.
  >>> torch.log(torch.tensor([1., 10.])) -> tensor([0.0000, 2.3026])
log10: The logarithm to base 10.
  >>> torch.log10(torch.tensor([1., 20.])) -> tensor([0.0000, 1.3010])
log1p: ``log(1 + x)``, exact also where x is small.
  >>> torch.log1p(torch.tensor([0., 1.])) -> tensor([0.0000, 0.6931])
log2: The logarithm to base 2. >>> torch.log2(torch.tensor([1., 8.])) -> tensor([0., 3.])
logical_not: Whether each element is 0.
  >>> torch.logical_not(torch.tensor([0., 2.])) -> tensor([ True, False])
lt: Where ``input < other``.
  >>> torch.lt(torch.tensor([1., 2.]), torch.tensor([1., 3.])) -> tensor([False,  True])
mul: ``input * other``.
  >>> torch.mul(torch.tensor([1., 2.]), torch.tensor([10., 20.])) -> tensor([10., 40.])
special_ndtr: The normal distribution: the area below its bell up to each element.
  >>> torch.special.ndtr(torch.tensor([0., 1.])) -> tensor([0.5000, 0.8413])
special_ndtri: The inverse of ``ndtr``.
  >>> torch.special.ndtri(torch.tensor([0.5, 0.9])) -> tensor([0.0000, 1.2816])
ne: Where two tensors differ.
  >>> torch.ne(torch.tensor([1., 2.]), torch.tensor([1., 3.])) -> tensor([False,  True])
neg: Each element with the other sign. >>> torch.neg(torch.tensor([1., -2.])) -> tensor([-1.,  2.])
rad2deg: Angles in radians, in degrees.
  >>> torch.rad2deg(torch.tensor([3.141592653589793])) -> tensor([180.])
reciprocal: 1 over each element.
  >>> torch.reciprocal(torch.tensor([2., 4.])) -> tensor([0.5000, 0.2500])
relu: Each element that is positive, 0 for the others.
  >>> torch.relu(torch.tensor([-1., 2.])) -> tensor([0., 2.])
remainder: What is left of ``input`` after division by ``other``; it has the sign of ``other``.
  >>> torch.remainder(torch.tensor([5., -5.]), torch.tensor([3., 3.])) -> tensor([2., 1.])
rsqrt: 1 over the square root of each element.
  >>> torch.rsqrt(torch.tensor([4., 16.])) -> tensor([0.5000, 0.2500])
sigmoid: ``1 / (1 + exp(-x))``.
  >>> torch.sigmoid(torch.tensor([0., 1.])) -> tensor([0.5000, 0.7311])
sign: -1, 0 or 1, as the sign of each element says.
  >>> torch.sign(torch.tensor([-3., 0., 2.])) -> tensor([-1.,  0.,  1.])
signbit: Whether each element has its sign bit set, as -0.0 has.
  >>> torch.signbit(torch.tensor([-0.0, 1.])) -> tensor([ True, False])
sin: The sine of each element. >>> torch.sin(torch.tensor([0., 1.])) -> tensor([0.0000, 0.8415])
sinc: sin(pi x) / (pi x), which is 1 at 0.
  >>> torch.sinc(torch.tensor([0., 0.5])) -> tensor([1.0000, 0.6366])
sinh: The hyperbolic sine of each element.
  >>> torch.sinh(torch.tensor([0., 1.])) -> tensor([0.0000, 1.1752])
special_airy_ai: The Airy function Ai.
  >>> torch.special.airy_ai(torch.tensor([0., 1.])) -> tensor([0.3550, 0.1353])
special_bessel_j0: The Bessel function of the first kind, of order 0.
  >>> torch.special.bessel_j0(torch.tensor([0., 1.])) -> tensor([1.0000, 0.7652])
special_bessel_j1: The Bessel function of the first kind, of order 1.
  >>> torch.special.bessel_j1(torch.tensor([0., 1.])) -> tensor([0.0000, 0.4401])
special_bessel_y0: The Bessel function of the second kind, of order 0.
  >>> torch.special.bessel_y0(torch.tensor([1., 2.])) -> tensor([0.0883, 0.5104])
special_bessel_y1: The Bessel function of the second kind, of order 1.
  >>> torch.special.bessel_y1(torch.tensor([1., 2.])) -> tensor([-0.7812, -0.1070])
special_modified_bessel_i0: The modified Bessel function of the first kind, of order 0.
  >>> torch.special.modified_bessel_i0(torch.tensor([0., 1.])) -> tensor([1.0000, 1.2661])
special_modified_bessel_i1: The modified Bessel function of the first kind, of order 1.
  >>> torch.special.modified_bessel_i1(torch.tensor([0., 1.])) -> tensor([0.0000, 0.5652])
special_modified_bessel_k0: The modified Bessel function of the second kind, of order 0.
  >>> torch.special.modified_bessel_k0(torch.tensor([1., 2.])) -> tensor([0.4210, 0.1139])
special_modified_bessel_k1: The modified Bessel function of the second kind, of order 1.
  >>> torch.special.modified_bessel_k1(torch.tensor([1., 2.])) -> tensor([0.6019, 0.1399])
special_scaled_modified_bessel_k0: ``exp(x)`` times ``modified_bessel_k0``.
  >>> torch.special.scaled_modified_bessel_k0(torch.tensor([1., 2.])) -> tensor([1.1445, 0.8416])
special_scaled_modified_bessel_k1: ``exp(x)`` times ``modified_bessel_k1``.
  >>> torch.special.scaled_modified_bessel_k1(torch.tensor([1., 2.])) -> tensor([1.6362, 1.0335])
special_spherical_bessel_j0: The spherical Bessel function of the first kind, of order 0.
  >>> torch.special.spherical_bessel_j0(torch.tensor([0., 1.])) -> tensor([1.0000, 0.8415])
sqrt: The square root of each element. >>> torch.sqrt(torch.tensor([4., 9.])) -> tensor([2., 3.])
sub: ``input - alpha * other``.
  >>> torch.sub(torch.tensor([1., 2.]), torch.tensor([10., 20.])) -> tensor([ -9., -18.])
tan: The tangent of each element. >>> torch.tan(torch.tensor([0., 1.])) -> tensor([0.0000, 1.5574])
tanh: The hyperbolic tangent of each element.
  >>> torch.tanh(torch.tensor([0., 1.])) -> tensor([0.0000, 0.7616])
trunc: Each element without its fraction.
  >>> torch.trunc(torch.tensor([1.5, -1.5])) -> tensor([ 1., -1.])
"""


def _docstrings() -> dict[str, str]:
    found = {}
    for told in _TOLD.strip().replace("\n  >>>", " >>>").splitlines():
        name, _, rest = told.partition(": ")
        words, _, shown = rest.partition(" >>> ")
        call, _, result = shown.partition(" -> ")
        example = f">>> import retrograd as torch\n    >>> {call}\n    {result}"
        found[name] = f"{words}\n\n    {example}\n    "
    return found


DOCSTRINGS = _docstrings()
