"""Predicates on elements and tensors: isclose, isin, is_signed."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import _pointwise as pointwise
from retrograd.arrays import dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import check_operands, check_tensor, is_number
from retrograd.ops._batching_declarations import Dims
from retrograd.ops._dims import numel
from retrograd.ops._operation import constant, elementwise_constant, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import refuses
from retrograd.ops._sections import like
from retrograd.ops.comparisons import eq, logical_not
from retrograd.ops.selecting import all_of, any_of

isposinf = elementwise_constant(
    "isposinf", pointwise.isposinf,
    check=refuses("c", "isposinf does not support complex inputs.", RuntimeError),
    public="torch method",
    doc="Whether each element is positive infinity.",
    example=("torch.isposinf(torch.tensor([1., torch.inf]))",
             "tensor([False,  True])"), returns="A bool tensor",
)  # fmt: skip
isneginf = elementwise_constant(
    "isneginf", pointwise.isneginf,
    check=refuses("c", "isneginf does not support complex inputs.", RuntimeError),
    public="torch method",
    doc="Whether each element is negative infinity.",
    example=("torch.isneginf(torch.tensor([1., -torch.inf]))",
             "tensor([False,  True])"), returns="A bool tensor",
)  # fmt: skip
isreal = elementwise_constant(
    "isreal", pointwise.isreal,
    public="torch method", out="no",
    doc="Whether the imaginary part of each element is zero.",
    example=("torch.isreal(torch.tensor([1 + 0j, 2j]))",
             "tensor([ True, False])"), returns="A bool tensor",
)  # fmt: skip


_isclose_to = elementwise_constant("isclose", pointwise.isclose, ("self", "other"))


@public("torch method")
def isclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Whether elements are close: ``abs(input - other) <= atol + rtol * abs(other)``.

    Args:
        input: the first tensor.
        other: the second tensor, of the same dtype, broadcast with ``input``.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether NaN counts as close to NaN.

    Returns:
        A bool tensor of the shape that ``input`` and ``other`` broadcast to.

    Example:
        >>> torch.isclose(torch.tensor([1., 2.]), torch.tensor([1. + 1e-7, 2.1]))
        tensor([ True, False])
    """
    _check_close("isclose", input, other, rtol, atol)
    return _isclose_to(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _check_close(function: str, input: Any, other: Any, rtol: float, atol: float) -> None:
    check_tensor(function, "input", 1, input)
    check_tensor(function, "other", 2, other)
    words = [dtypes.type_word(raw(x).dtype) for x in (input, other)]
    if words[0] != words[1]:
        raise RuntimeError(f"{words[0]} did not match {words[1]}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")


@public("torch method")
@like(isclose)
def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close: ``abs(input - other) <= atol + rtol * abs(other)``.

    Example:
        >>> torch.allclose(torch.tensor([1., 2.]), torch.tensor([1. + 1e-7, 2.]))
        True
    """
    _check_close("allclose", input, other, rtol, atol)
    close = isclose(input, other, rtol, atol, equal_nan)
    return bool(all_of(close, dim=tuple(range(len(close.shape))), keepdim=False))


def _equals_any(self: Any, test_elements: Any, invert: bool) -> Any:
    """Each element beside each of those that it may be among."""
    if not hasattr(self, "shape"):
        self = arrays.asarray(self)
    shape = tuple(self.shape)
    column = linear.reshape(self, (numel(shape), 1))
    row = test_elements
    if hasattr(row, "shape"):
        row = linear.reshape(row, (1, numel(row.shape)))
    equal = any_of(raw(eq(column, row)), dim=(1,), keepdim=False)
    return linear.reshape(logical_not(equal) if invert else equal, shape)


_isin_of = constant(
    "isin", pointwise.isin, ("self", "test_elements"), definition=_equals_any,
    batch=Dims(shared=("test_elements",)),
)  # fmt: skip


@public("torch", out="same, constant")
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Whether each of ``elements`` is among ``test_elements``.

    Args:
        elements: a tensor, or a number if ``test_elements`` is a tensor.
        test_elements: the values to look for, a tensor or a number.
        assume_unique: whether neither argument has duplicates; has no effect here.
        invert: whether to return the opposite: which elements are not among them.

    Returns:
        A bool tensor of the shape of ``elements``.

    Example:
        >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 4]))
        tensor([False,  True, False])
    """
    check_operands("isin", elements, test_elements)
    for x in (elements, test_elements):
        if not is_number(x) and raw(x).dtype.kind in "bc":
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {dtypes.type_word(raw(x).dtype)}"
            )
    return _isin_of(elements, test_elements, invert=invert)


@public("torch method")
def is_signed(input: Any) -> bool:
    """Whether the dtype of a tensor can represent negative numbers.

    Example:
        >>> torch.is_signed(torch.tensor([1.])), torch.is_signed(torch.tensor([True]))
        (True, False)
    """
    check_tensor("is_signed", "input", 1, input)
    return bool(raw(input).dtype.kind in "ifcV")


@public("torch method")
def is_nonzero(input: Any) -> bool:
    """Whether the only element of a tensor is nonzero.

    Args:
        input: a tensor of one element.

    Example:
        >>> torch.is_nonzero(torch.tensor([2.]))
        True
    """
    check_tensor("is_nonzero", "input", 1, input)
    return bool(input)


@public("torch method")
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape.

    Args:
        input: the first tensor.
        other: the second tensor.

    Example:
        >>> torch.is_same_size(torch.zeros(2, 3), torch.ones(2, 3))
        True
    """
    check_tensor("is_same_size", "input", 1, input)
    check_tensor("is_same_size", "other", 2, other)
    return bool(raw(input).shape == raw(other).shape)
