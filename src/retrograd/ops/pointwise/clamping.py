"""Elements bounded or replaced: fmax, fmin, clamp_min, clamp_max, nan_to_num, fill."""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.arrays import _pointwise as pointwise
from retrograd.ops._arguments import check_tensor, element, invalid_combination, is_number
from retrograd.ops._operation import Elementwise, Linear, elementwise, raw
from retrograd.ops._operation import linear as declare_linear
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel, refuses
from retrograd.ops.comparisons import ge, gt, isfinite, isnan, le, logical_or, lt
from retrograd.ops.copies import zeros_like
from retrograd.ops.piecewise import where


def _only_if(chosen: Any, g: Any) -> Any:
    return where(chosen, g, zeros_like(g))


def _unless(chosen: Any, g: Any) -> Any:
    return where(chosen, zeros_like(g), g)


# Of two that are equal, the first is taken; a NaN is never taken if there is a number.
fmax = elementwise(
    "fmax", pointwise.fmax,
    lambda g, self, other: _only_if(logical_or(ge(self, other), isnan(other)), g),
    lambda g, self, other: _unless(logical_or(ge(self, other), isnan(other)), g),
    dtypes="promote",
    check=refuses("c", "fmax not implemented for complex tensors.", RuntimeError),
    public="torch method", accepts="tensors",
    doc="The elementwise maximum of two tensors; of a number and NaN, the number.",
    example=("torch.fmax(torch.tensor([1., torch.nan]), torch.tensor([3., 2.]))",
             "tensor([3., 2.])"),
)  # fmt: skip
fmin = elementwise(
    "fmin", pointwise.fmin,
    lambda g, self, other: _only_if(logical_or(le(self, other), isnan(other)), g),
    lambda g, self, other: _unless(logical_or(le(self, other), isnan(other)), g),
    dtypes="promote",
    check=refuses("c", "fmin not implemented for complex tensors.", RuntimeError),
    public="torch method", accepts="tensors",
    doc="The elementwise minimum of two tensors; of a number and NaN, the number.",
    example=("torch.fmin(torch.tensor([1., torch.nan]), torch.tensor([3., 2.]))",
             "tensor([1., 2.])"),
)  # fmt: skip

_CLAMPED = refuses("c", "clamp is not supported for complex types")


# NumPy is faster with two bounds that are numbers than with one.
def _at_least(self: Raw, min: Any) -> Raw:
    if self.dtype.kind in dtypes.FLOATS:
        return arrays.clip(self, min, math.inf)
    return arrays.clip(self, element(min, self.dtype), None)


def _at_most(self: Raw, max: Any) -> Raw:
    if self.dtype.kind in dtypes.FLOATS:
        return arrays.clip(self, -math.inf, max)
    return arrays.clip(self, None, element(max, self.dtype))


_clamp_min_number = elementwise(
    "clamp_min", _at_least, lambda g, self, min: _only_if(ge(self, min), g), dtypes="promote",
    check=_CLAMPED,
)  # fmt: skip
_clamp_min_tensor = Elementwise(
    "clamp_min_tensor",
    lambda self, min: arrays.maximum(min, self), inputs=("self", "min"), node="ClampMinBackward1",
    rules={"self": lambda g, self, min: _only_if(ge(self, min), g),
           "min": lambda g, self, min: _only_if(lt(self, min), g)},
    dtypes="promote", check=kernel("maximum_cpu"),
)  # fmt: skip
_clamp_max_number = elementwise(
    "clamp_max", _at_most, lambda g, self, max: _only_if(le(self, max), g), dtypes="promote",
    check=_CLAMPED,
)  # fmt: skip
_clamp_max_tensor = Elementwise(
    "clamp_max_tensor",
    lambda self, max: arrays.minimum(max, self), inputs=("self", "max"), node="ClampMaxBackward1",
    rules={"self": lambda g, self, max: _only_if(le(self, max), g),
           "max": lambda g, self, max: _only_if(gt(self, max), g)},
    dtypes="promote", check=kernel("minimum_cpu"),
)  # fmt: skip


@public("torch method", in_place="torch method", out="computed")
def clamp_min(input: Any, min: Any) -> Any:
    """Each element, or ``min`` where the element is smaller.

    Args:
        min: lower bound, a number or a tensor, broadcast with ``input``.

    Returns:
        A tensor of the shape that the arguments broadcast to.

    Example:
        >>> torch.clamp_min(torch.tensor([-1., 2.]), 0)
        tensor([0., 2.])
    """
    if min is None or is_number(input):
        raise invalid_combination("clamp_min", input, min)
    return _clamp_min_number(input, min=min) if is_number(min) else _clamp_min_tensor(input, min)


@public("torch method", in_place="torch method", out="computed")
def clamp_max(input: Any, max: Any) -> Any:
    """Each element, or ``max`` where the element is larger.

    Args:
        max: upper bound, a number or a tensor, broadcast with ``input``.

    Returns:
        A tensor of the shape that the arguments broadcast to.

    Example:
        >>> torch.clamp_max(torch.tensor([-1., 2.]), 0)
        tensor([-1.,  0.])
    """
    if max is None or is_number(input):
        raise invalid_combination("clamp_max", input, max)
    return _clamp_max_number(input, max=max) if is_number(max) else _clamp_max_tensor(input, max)


_nan_to_num_of = elementwise(
    "nan_to_num", pointwise.nan_to_num, lambda g, self: _only_if(isfinite(self), g)
)


@public("torch method", in_place="torch method", out="computed")
def nan_to_num(input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """A tensor with NaN and infinities replaced by finite numbers.

    Args:
        nan: replacement for NaN; 0 by default.
        posinf: replacement for infinity; by default, the largest number of the dtype.
        neginf: replacement for negative infinity; by default, the lowest number of the dtype.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> torch.nan_to_num(torch.tensor([torch.nan, torch.inf, 2.]), posinf=9.)
        tensor([0., 9., 2.])
    """
    check_tensor("nan_to_num", "input", 1, input)
    if raw(input).dtype.kind == "V":  # which is computed with in a dtype that has larger numbers
        largest = arrays.float_limits(raw(input).dtype).max
        posinf = float(largest) if posinf is None else posinf
        neginf = -float(largest) if neginf is None else neginf
    return _nan_to_num_of(input, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


def _fill(self: Raw, value: Any) -> Raw:
    fit = element if is_number(value) else arrays.cast
    return arrays.full(self.shape, fit(value, self.dtype), self.dtype)


_fill_number = declare_linear(
    "fill_by_number", _fill, lambda g: zeros_like(g), offset="value", broadcasts=True,
    node="FillBackward0", dtypes="free",
)  # fmt: skip
_fill_tensor = Linear(
    "fill_by_tensor", _fill, inputs=("self", "value"), node="FillBackward1", dtypes="free",
    adjoint=True, broadcasts=True, rules={"self": lambda g: zeros_like(g), "value": lambda g: g},
    batch="overwrite",
)  # fmt: skip


@public("torch")
def fill(input: Any, value: Any) -> Any:
    """A tensor of the shape and dtype of ``input`` with every element set to ``value``.

    Args:
        value: a number, or a tensor without dimensions.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> torch.fill(torch.zeros(2), 3.)
        tensor([3., 3.])
    """
    if is_number(value):
        return _fill_number(input, value=value)
    if raw(value).ndim:
        raise RuntimeError(
            "fill_ only supports 0-dimension value tensor but got tensor with "
            f"{raw(value).ndim} dimensions."
        )
    return _fill_tensor(input, value)
