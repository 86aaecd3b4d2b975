"""Orthogonal polynomials, with derivatives of every order.

``order`` is the order of the derivative that an operation computes, so that its rule is the same
operation again. The degree is cut to an integer, and has no derivative.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.arrays import _special as special
from retrograd.ops._arguments import invalid_combination, is_number
from retrograd.ops._operation import elementwise
from retrograd.ops._public import named, public
from retrograd.ops.pointwise.special import no_half

_NO_DEGREE = 2.0**63  # from which on, as for NaN, the integer that C makes of it is negative


def _polynomial(name: str, what: str, values: str) -> None:
    polynomial = getattr(special, name.replace("_polynomial", ""))

    def forward(self: Raw, n: Raw, order: int) -> Raw:
        return polynomial(self, arrays.where(abs(n) < _NO_DEGREE, n, -1.0), order)

    operation = elementwise(
        f"special_{name}", forward,
        lambda g, self, n, order: g * operation(self, n, order=order + 1),
        inputs=("self", "n"), dtypes="float", check=no_half(f"{name}_cpu"),
    )  # fmt: skip

    def function(x: Any, n: Any) -> Any:
        if is_number(x) and is_number(n):
            raise invalid_combination(f"special_{name}", x, n)
        return operation(x, n, order=0)

    doc = f"""The {what} of degree ``n``.

    Args:
        x: where to evaluate the polynomial, a tensor, or a number if ``n`` is a tensor.
        n: degree of the polynomial, a tensor or a number, broadcast with ``x``.

    Returns:
        A tensor of the shape that ``x`` and ``n`` broadcast to.

    Example:
        >>> torch.special.{name}(torch.tensor([0.5, 2.0]), 2)
        tensor([{values}])
    """
    public("special", out="cast")(named(function, name, doc))


# What each is, and its values of degree 2 at 0.5 and 2.
_POLYNOMIALS = {
    "chebyshev_polynomial_t": ("Chebyshev polynomial of the first kind,", "-0.5000,  7.0000"),
    "chebyshev_polynomial_u": ("Chebyshev polynomial of the second kind,", " 0., 15."),
    "chebyshev_polynomial_v": ("Chebyshev polynomial of the third kind,", "-1., 11."),
    "chebyshev_polynomial_w": ("Chebyshev polynomial of the fourth kind,", " 1., 19."),
    "shifted_chebyshev_polynomial_t": (
        "shifted Chebyshev polynomial of the first kind,", "-1., 17."),
    "shifted_chebyshev_polynomial_u": (
        "shifted Chebyshev polynomial of the second kind,", "-1., 35."),
    "shifted_chebyshev_polynomial_v": (
        "shifted Chebyshev polynomial of the third kind,", "-1., 29."),
    "shifted_chebyshev_polynomial_w": (
        "shifted Chebyshev polynomial of the fourth kind,", "-1., 41."),
    "hermite_polynomial_h": ("physicists' Hermite polynomial", "-1., 14."),
    "hermite_polynomial_he": ("probabilists' Hermite polynomial", "-0.7500,  3.0000"),
    "laguerre_polynomial_l": ("Laguerre polynomial", " 0.1250, -1.0000"),
    "legendre_polynomial_p": ("Legendre polynomial", "-0.1250,  5.5000"),
}  # fmt: skip
for _name, _declared in _POLYNOMIALS.items():
    _polynomial(_name, *_declared)
