"""Recurrences for the series of single operations.

The rules of a quotient and of a power lead to further quotients and powers, one for each order.
Their series have direct recurrences, which follow from an equation without a quotient or a power.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import mul
from typing import Any

from retrograd import arrays
from retrograd.autograd._series import RECURRENCES, Call, Series, scaled
from retrograd.ops import elementwise
from retrograd.ops._operands import is_bare
from retrograd.ops._operation import raw
from retrograd.ops.algebra._matrix import total

Recurrence = Callable[[int], Any]


def quotient(call: Call) -> Recurrence:
    """``y = a / b`` from ``y * b = a``."""
    b, y = call.inputs[1], call.results[0]
    divisor = call.level.value_of(b)

    def coefficient(k: int) -> Any:
        known = total(*[call.term(mul, y, j, b, k - j) for j in range(k)])
        upper = call.coefficient(0, k)
        if known is not None:
            upper = -known if upper is None else upper - known
        return None if upper is None else upper / divisor

    return coefficient


def power(call: Call) -> Recurrence | None:
    """``y = x**n``: by products for a natural number ``n``, which is right at 0 as well; else from
    ``y' = n * w * x'`` with ``w = x**(n - 1)``, and ``x * w' = (n - 1) * x' * w``. Where some ``x``
    is 0, which that divides by, the rule is followed order by order instead (None)."""
    level, x = call.level, call.inputs[0]
    n = call.options["exponent"]
    if isinstance(n, (int, float)) and n == int(n) and n >= 0:
        return _natural_power(call, int(n))
    base = level.value_of(x)
    if is_bare(base) and not arrays.all(raw(base)):
        return None

    def of_lower_power(k: int) -> Any:
        terms = [
            scaled(call.term(mul, x, j, w, k - j), (n - 1) * j - (k - j)) for j in range(1, k + 1)
        ]
        result = total(*terms)
        return None if result is None else scaled(result, 1 / k) / base

    w = Series(level, [base ** (n - 1)], call.order, of_lower_power)

    def coefficient(k: int) -> Any:
        terms = [scaled(call.term(mul, x, j, w, k - j), j * n / k) for j in range(1, k + 1)]
        return total(*terms)

    return coefficient


def _natural_power(call: Call, n: int) -> Recurrence:
    if n == 0:
        return lambda k: None
    results: list[Any] = []

    def product() -> Any:
        result, square = None, call.inputs[0]
        for bit in bin(n)[:1:-1]:
            if bit == "1":
                result = square if result is None else elementwise.mul(result, square)
            square = elementwise.mul(square, square)
        return raw(result)

    def coefficient(k: int) -> Any:
        if not results:
            results.append(call.level.in_rule(product))
        return results[0].coefficient(k)

    return coefficient


def gate(call: Call) -> Recurrence:
    """What lets through, or does not, by a value whose changes make no difference."""
    other = call.level.value_of(call.inputs[1])

    def coefficient(k: int) -> Any:
        x = call.coefficient(0, k)
        return None if x is None else call.by(x, other)

    return coefficient


RECURRENCES.update(
    div=quotient,
    pow_scalar=power,
    threshold_backward=gate,
)
