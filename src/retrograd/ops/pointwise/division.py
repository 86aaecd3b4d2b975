"""Division with rounding, and remainders."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.arrays import _dividing as division
from retrograd.ops._arguments import (
    check_operands,
    check_target,
    invalid_combination,
    is_number,
    operand,
    with_number,
)
from retrograd.ops._operation import elementwise
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops.copies import zeros_like


def _div_rounded(self: Raw, other: Any, rounding_mode: str) -> Raw:
    return (division.floor_divide if rounding_mode == "floor" else arrays.trunc_divide)(self, other)


def check_rounding_mode(rounding_mode: str) -> None:
    """Refuse an unknown rounding mode."""
    if rounding_mode not in ("floor", "trunc"):
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )


def _check_rounded(self: Any, other: Any, rounding_mode: str) -> None:
    kernel(f"div_{rounding_mode}_cpu", "bc")(self, other)


# Steps have no derivative, but their rules name what PyTorch's node keeps.
div_rounded = elementwise(
    "div_rounded", _div_rounded,
    lambda g, other: zeros_like(g), lambda g, self, other: zeros_like(g),
    node="DivBackward2", dtypes="promote", check=_check_rounded,
)  # fmt: skip


def _remainder_of(self: Raw, other: Any) -> Raw:
    return division.remainder(self, operand(other, self.dtype))


_REMAINDERS = kernel("remainder_cpu", "bc")
remainder = elementwise(
    "remainder", division.remainder, lambda g: g,
    lambda g, self, other: -g * div_rounded(self, other, rounding_mode="floor"),
    node="RemainderBackward1", dtypes="promote", check=_REMAINDERS,
    number=elementwise("remainder_number", _remainder_of, lambda g: g, node="RemainderBackward0",
                       dtypes="promote", check=with_number(_REMAINDERS)),
    public="torch method", in_place=True,
    doc="The remainder of ``input / other``, with the sign of ``other``.",
    example=("torch.remainder(torch.tensor([5., -5.]), torch.tensor([3., 3.]))",
             "tensor([2., 1.])"),
)  # fmt: skip


def _no_floor_divide_rule(g: Any) -> Any:
    raise RuntimeError("derivative for aten::floor_divide is not implemented")


def _floor_divide_by(self: Raw, other: Any) -> Raw:
    return division.floor_divide(self, operand(other, self.dtype))


_FLOOR_DIVISIONS = kernel("div_floor_cpu", "bc")
floor_divide = elementwise(
    "floor_divide", division.floor_divide, _no_floor_divide_rule, _no_floor_divide_rule,
    node="NotImplemented", dtypes="promote", check=_FLOOR_DIVISIONS,
    number=elementwise("floor_divide_number", _floor_divide_by, _no_floor_divide_rule,
                       node="NotImplemented", dtypes="promote",
                       check=with_number(_FLOOR_DIVISIONS)),
    public="torch method", in_place=True,
    doc="The quotient ``input / other``, rounded down (towards negative infinity).",
    example=("torch.floor_divide(torch.tensor([7., -7.]), torch.tensor([2., 2.]))",
             "tensor([ 3., -4.])"),
)  # fmt: skip


def _fmod_by(self: Raw, other: Any) -> Raw:
    return division.fmod(self, operand(other, self.dtype))


_FMOD = kernel("fmod_cpu", "bc")
_fmod = elementwise(
    "fmod", division.fmod, lambda g: g,
    lambda g, self, other: -g * div_rounded(self, other, rounding_mode="trunc"),
    node="FmodBackward1", dtypes="promote", check=_FMOD,
    number=elementwise("fmod_number", _fmod_by, lambda g: g, node="FmodBackward0",
                       dtypes="promote", check=with_number(_FMOD)),
)  # fmt: skip


@public("torch method", in_place=True, out="cast")
def fmod(input: Any, other: Any) -> Any:
    """The remainder of ``input / other``, with the sign of ``input``.

    Args:
        input: the dividend, a tensor.
        other: the divisor, a tensor or a number, broadcast with ``input``.

    Returns:
        A tensor of the shape that ``input`` and ``other`` broadcast to.

    Example:
        >>> torch.fmod(torch.tensor([-3., 5.]), 2)
        tensor([-1.,  1.])
    """
    check_operands("fmod", input, other)
    if is_number(input):
        raise invalid_combination("fmod", input, other)
    check_target(input, other)
    return _fmod(input, other)
