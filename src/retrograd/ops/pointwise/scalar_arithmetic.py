"""Arithmetic with a Python number where PyTorch records that as a node of its own.

Sums, products and quotients that users write leave the same node whether the other side is a tensor
or a number. Some functions that PyTorch itself composes call the forms for numbers instead.
"""

from __future__ import annotations

from retrograd.arrays import Raw
from retrograd.ops._operation import Elementwise, elementwise


def _plus(self: Raw, number: float) -> Raw:
    return self + number


def _times(self: Raw, number: float) -> Raw:
    return self * number


def _over(self: Raw, number: float) -> Raw:
    return self / number


plus = elementwise("plus_number", _plus, lambda g: g, node="AddBackward1", dtypes="promote")
# A number taken away is given as its negative.
minus = elementwise("minus_number", _plus, lambda g: g, node="SubBackward1", dtypes="promote")
times: Elementwise = elementwise(
    "times_number", _times, lambda g, number: times(g, number=number), node="MulBackward1",
    dtypes="promote",
    words="The gradient is multiplied by the same number.",
)  # fmt: skip
over: Elementwise = elementwise(
    "over_number", _over, lambda g, number: over(g, number=number), node="DivBackward1",
    dtypes="float",
    words="The gradient is divided by the same number.",
)  # fmt: skip
