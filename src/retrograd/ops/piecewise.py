"""Elementwise operations that are defined in pieces: signs, rounding, extremes, clamp and where."""

from __future__ import annotations

import builtins
import math
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops._arguments import element
from retrograd.ops._dims import broadcast
from retrograd.ops._operation import Elementwise, composite, elementwise, raw
from retrograd.ops._refusals import both, c_name, kernel, refuses
from retrograd.ops.comparisons import eq, ge, gt, le, logical_and, logical_or, lt
from retrograd.ops.copies import conj, is_complex, real, to_dtype, zeros_like

# -- pieces: sign, rounding, choice ----------------------------------------------------------


def _sgn_rule(g: Any, self: Any, result: Any) -> Any:
    if not is_complex(self):
        return zeros_like(g)
    size = abs(self)
    gradient = (g - real(g * conj(result)) * result) / size
    return where(eq(size, 0), zeros_like(gradient), gradient)


def _rounding(name: str, forward: Any, complexes: str, **face: Any) -> Elementwise:
    """Steps: flat wherever they have a derivative at all."""
    check = both(kernel(f"{name}_vml_cpu", "b"), refuses("c", complexes))
    return elementwise(name, forward, lambda g: zeros_like(g), check=check, **face)


sgn = elementwise(
    "sgn", arrays.sgn, _sgn_rule, adjoint=True,
    public="torch method", in_place=True,
    doc="The sign of each element; of a complex number z, ``z / abs(z)``, and 0 for 0.",
    example=("torch.sgn(torch.tensor([3 + 4j, 0j]))", "tensor([0.6000+0.8000j, 0.0000+0.0000j])"),
)  # fmt: skip
abs = elementwise(
    "abs", arrays.absolute, lambda g, self: g * sgn(self), adjoint=True,
    check=kernel("abs_cpu", "b"),
    public="torch method", alias="absolute", out="computed, or complex",
    words="The gradient passes where the input is positive, and is negated where it is negative; "
          "at zero it is zero.",
    doc="The absolute value of each element.",
    example=("torch.abs(torch.tensor([-1., 2.]))", "tensor([1., 2.])"),
)  # fmt: skip
sign = elementwise(
    "sign", arrays.sgn, lambda g: zeros_like(g),
    check=refuses("c", "Unlike NumPy, torch.sign is not intended to support complex numbers. "
                       "Please use torch.sgn instead."),
    public="torch method", in_place=True,
    doc="The sign of each element: -1, 0 or 1.",
    example=("torch.sign(torch.tensor([-3., 0., 2.]))", "tensor([-1.,  0.,  1.])"),
)  # fmt: skip
floor = _rounding(
    "floor", arrays.floor, "floor is not supported for complex inputs",
    public="torch method", in_place="torch method",
    doc="The largest integer that is less than or equal to each element.",
    example=("torch.floor(torch.tensor([1.5, -1.5]))", "tensor([ 1., -2.])"),
)  # fmt: skip
ceil = _rounding(
    "ceil", arrays.ceil, "ceil is not supported for complex inputs",
    public="torch method", in_place="torch method",
    doc="The smallest integer that is greater than or equal to each element.",
    example=("torch.ceil(torch.tensor([1.5, -1.5]))", "tensor([ 2., -1.])"),
)  # fmt: skip
trunc = _rounding(
    "trunc", arrays.trunc, "trunc is not supported for complex inputs",
    public="torch method", alias="fix", in_place="torch method",
    doc="The integer part of each element: rounding towards zero.",
    example=("torch.trunc(torch.tensor([1.5, -1.5]))", "tensor([ 1., -1.])"),
)  # fmt: skip
round = _rounding("round", arrays.rint, "\"round_vml_cpu\" not implemented for '{}'")


def _round_decimals(self: Raw, decimals: int) -> Raw:
    scale = 10.0 ** builtins.abs(decimals)
    if decimals < 0:
        return arrays.rint(self / scale) * scale
    return arrays.rint(self * scale) / scale if decimals else arrays.rint(self)


def _check_round_decimals(self: Raw, decimals: int) -> None:
    kernel("round_cpu" if decimals else "round_vml_cpu", "biuc")(self)


round_decimals = elementwise(
    "round_decimals", _round_decimals, lambda g: zeros_like(g), node="RoundBackward1",
    check=_check_round_decimals,
)  # fmt: skip


def _share_of_extreme(g: Any, self: Any, other: Any, lost: Any) -> Any:
    """All of ``g`` for the operand that was chosen, half of it if both are equal. If one is NaN,
    both get all of it."""
    return _except_where(lost, where(eq(self, other), g / 2, g))


# NumPy prefers the second of two zeros of different signs, PyTorch the first.
maximum = elementwise(
    "maximum", lambda self, other: arrays.maximum(other, self),
    lambda g, self, other: _share_of_extreme(g, self, other, lt(self, other)),
    lambda g, self, other: _share_of_extreme(g, self, other, gt(self, other)), dtypes="promote",
    check=refuses("c", "maximum not implemented for complex tensors.", RuntimeError),
    public="torch method", accepts="tensors",
    doc="The elementwise maximum of two tensors; NaN if either element is NaN.",
    example=("torch.maximum(torch.tensor([1., 5.]), torch.tensor([3., 2.]))", "tensor([3., 5.])"),
    words="The gradient goes to the larger of the two; where they are equal each gets half.",
)  # fmt: skip
minimum = elementwise(
    "minimum", lambda self, other: arrays.minimum(other, self),
    lambda g, self, other: _share_of_extreme(g, self, other, gt(self, other)),
    lambda g, self, other: _share_of_extreme(g, self, other, lt(self, other)), dtypes="promote",
    check=refuses("c", "minimum not implemented for complex tensors.", RuntimeError),
    public="torch method", accepts="tensors",
    doc="The elementwise minimum of two tensors; NaN if either element is NaN.",
    example=("torch.minimum(torch.tensor([1., 5.]), torch.tensor([3., 2.]))", "tensor([1., 2.])"),
    words="The gradient goes to the smaller of the two; where they are equal each gets half.",
)  # fmt: skip


def _within(x: Any, low: Any, high: Any) -> Any:
    if low is None:
        return le(x, high)
    return ge(x, low) if high is None else logical_and(ge(x, low), le(x, high))


def _clamp(self: Raw, min: Any = None, max: Any = None) -> Raw:
    if self.dtype.kind in dtypes.FLOATS:  # NumPy is faster with two bounds than with one
        min, max = -math.inf if min is None else min, math.inf if max is None else max
    if self.dtype.kind in "iu" or self.dtype.itemsize == 2:  # bounds may not fit
        min, max = (x if x is None else element(x, self.dtype) for x in (min, max))
    return arrays.clip(self, min, max)


def _clamp_rule(g: Any, self: Any, min: Any, max: Any) -> Any:
    return _only_where(_within(self, min, max), g)


def _clamp_min_rule(g: Any, self: Any, min: Any, max: Any) -> Any:
    below = lt(self, min)
    return _only_where(below if max is None else logical_and(lt(min, max), below), g)


def _clamp_max_rule(g: Any, self: Any, min: Any, max: Any) -> Any:
    above = gt(self, max)
    return _only_where(above if min is None else logical_or(lt(max, min), above), g)


def _check_clamp(self: Raw, min: Any = None, max: Any = None) -> None:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    refuses("c", "clamp is not supported for complex types")(self, min, max)


def _check_clamp_tensor(self: Raw, min: Any = None, max: Any = None) -> None:
    _check_clamp(self, min, max)
    if min is not None and max is not None:
        kernel("clamp_cpu", "b")(self, min, max)


clamp = elementwise(
    "clamp", _clamp, _clamp_rule, node="ClampBackward1", dtypes="promote", check=_check_clamp,
    words="Within the limits the gradient passes unchanged; beyond them it is zero.",
)  # fmt: skip
clamp_tensor = Elementwise(
    "clamp_tensor", arrays.clip, inputs=("self", "min", "max"),
    rules={"self": _clamp_rule, "min": _clamp_min_rule, "max": _clamp_max_rule},
    node="ClampBackward0", dtypes="promote", check=_check_clamp_tensor,
)  # fmt: skip


def _only_where(condition: Any, g: Any) -> Any:
    """``g`` where ``condition`` holds, zero elsewhere."""
    if isinstance(g, arrays.ndarray) and isinstance(condition, arrays.ndarray):
        return arrays.keep(g, condition)
    return where(condition, g, zeros_like(g))


def _except_where(condition: Any, g: Any) -> Any:
    """Zero where ``condition`` holds, ``g`` elsewhere."""
    if isinstance(g, arrays.ndarray) and isinstance(condition, arrays.ndarray):
        return arrays.keep(g, arrays.logical_not(condition))
    return where(condition, zeros_like(g), g)


where: Elementwise = Elementwise(
    "where", arrays.where, inputs=("condition", "self", "other"),
    rules={
        "self": lambda g, condition: _only_where(condition, g),
        "other": lambda g, condition: _except_where(condition, g),
    }, dtypes="where",
    words="Each element of the gradient goes to the input that the element was taken from.",
)  # fmt: skip


def _check_fill(self: Any, mask: Any, value: Any) -> None:
    if raw(mask).dtype.kind != "b":
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype "
            f"{c_name(raw(mask).dtype)}"
        )
    if getattr(value, "ndim", 0):
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    if raw(mask).shape != raw(self).shape:
        broadcast(raw(mask).shape, raw(self).shape)


def _masked_fill(self: Raw, mask: Raw, value: Any) -> Raw:
    return arrays.in_reading_order(arrays.where(mask, element(value, self.dtype), self))


masked_fill = composite(
    "masked_fill",
    lambda self, mask, value: where(mask, to_dtype(value, dtype=raw(self).dtype), self),
    _masked_fill, inputs=("self", "mask", "value"), broadcasts=True, batch="definition",
    rules={
        "self": lambda g, mask: _except_where(mask, g),
        "value": lambda g, mask: _only_where(mask, g),
    }, node="MaskedFillBackward1", dtypes="free", check=_check_fill,
    in_place=True, writes="one value, some, a value read before",
    words="The gradient is zero where the mask was filled, and passes elsewhere.",
    number=Elementwise(
        "masked_fill_number", _masked_fill, inputs=("self", "mask"),
        rules={"self": lambda g, mask: _except_where(mask, g)},
        node="MaskedFillBackward0", dtypes="free", check=_check_fill, writes="one value, some",
        words="The gradient is zero where the mask was filled, and passes elsewhere.",
    ),
)  # fmt: skip
