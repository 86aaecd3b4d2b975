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
from retrograd.ops._public import public
from retrograd.ops.pointwise.special import no_half

_NO_DEGREE = 2.0**63  # from which on, as for NaN, the integer that C makes of it is negative


def _polynomial(name: str, polynomial: Any, summary: str, example: str) -> Any:
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

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Args:
        x: where to evaluate the polynomial, a tensor, or a number if ``n`` is a tensor.
        n: degree of the polynomial, a tensor or a number, broadcast with ``x``.

    Returns:
        A tensor of the shape that ``x`` and ``n`` broadcast to.

    Example:
        >>> torch.special.{name}(torch.tensor([0.5, 2.0]), 2)
        {example}
    """
    return public("special", out="cast")(function)


chebyshev_polynomial_t = _polynomial(
    "chebyshev_polynomial_t", special.chebyshev_t,
    "The Chebyshev polynomial of the first kind, of degree ``n``.",
    "tensor([-0.5000,  7.0000])",
)  # fmt: skip
chebyshev_polynomial_u = _polynomial(
    "chebyshev_polynomial_u", special.chebyshev_u,
    "The Chebyshev polynomial of the second kind, of degree ``n``.",
    "tensor([ 0., 15.])",
)  # fmt: skip
chebyshev_polynomial_v = _polynomial(
    "chebyshev_polynomial_v", special.chebyshev_v,
    "The Chebyshev polynomial of the third kind, of degree ``n``.",
    "tensor([-1., 11.])",
)  # fmt: skip
chebyshev_polynomial_w = _polynomial(
    "chebyshev_polynomial_w", special.chebyshev_w,
    "The Chebyshev polynomial of the fourth kind, of degree ``n``.",
    "tensor([ 1., 19.])",
)  # fmt: skip
shifted_chebyshev_polynomial_t = _polynomial(
    "shifted_chebyshev_polynomial_t", special.shifted_chebyshev_t,
    "The shifted Chebyshev polynomial of the first kind, of degree ``n``.",
    "tensor([-1., 17.])",
)  # fmt: skip
shifted_chebyshev_polynomial_u = _polynomial(
    "shifted_chebyshev_polynomial_u", special.shifted_chebyshev_u,
    "The shifted Chebyshev polynomial of the second kind, of degree ``n``.",
    "tensor([-1., 35.])",
)  # fmt: skip
shifted_chebyshev_polynomial_v = _polynomial(
    "shifted_chebyshev_polynomial_v", special.shifted_chebyshev_v,
    "The shifted Chebyshev polynomial of the third kind, of degree ``n``.",
    "tensor([-1., 29.])",
)  # fmt: skip
shifted_chebyshev_polynomial_w = _polynomial(
    "shifted_chebyshev_polynomial_w", special.shifted_chebyshev_w,
    "The shifted Chebyshev polynomial of the fourth kind, of degree ``n``.",
    "tensor([-1., 41.])",
)  # fmt: skip
hermite_polynomial_h = _polynomial(
    "hermite_polynomial_h", special.hermite_h,
    "The physicists' Hermite polynomial of degree ``n``.",
    "tensor([-1., 14.])",
)  # fmt: skip
hermite_polynomial_he = _polynomial(
    "hermite_polynomial_he", special.hermite_he,
    "The probabilists' Hermite polynomial of degree ``n``.",
    "tensor([-0.7500,  3.0000])",
)  # fmt: skip
laguerre_polynomial_l = _polynomial(
    "laguerre_polynomial_l", special.laguerre_l,
    "The Laguerre polynomial of degree ``n``.",
    "tensor([ 0.1250, -1.0000])",
)  # fmt: skip
legendre_polynomial_p = _polynomial(
    "legendre_polynomial_p", special.legendre_p,
    "The Legendre polynomial of degree ``n``.",
    "tensor([-0.1250,  5.5000])",
)  # fmt: skip
