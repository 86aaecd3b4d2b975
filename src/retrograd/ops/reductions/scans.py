"""Scans: cumulative sums, products, minima and maxima along a dimension.

Their derivatives are scans themselves, from the other end. Those that are products need one more
operation, the linear recurrence ``y[k] = x[k] + a[k] * y[k - 1]``: it divides by nothing, so zeros
do no harm, and its own derivatives are recurrences again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._dims import one_dim
from retrograd.ops._operands import detached, is_lifted
from retrograd.ops._operation import Operation, Selecting, composite, raw
from retrograd.ops._public import named, public
from retrograd.ops._refusals import kernel, refuses
from retrograd.ops._results import named_result
from retrograd.ops.comparisons import eq, isinf, isnan, logical_and
from retrograd.ops.copies import clone, real, zeros_like
from retrograd.ops.elementwise import exp, log
from retrograd.ops.piecewise import where
from retrograd.ops.reductions.basic import check_running_dtype, cumsum, in_dtype, narrowed
from retrograd.ops.selecting import any_of, scattered, with_indices

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp", "product_of_others"]

# -- linear recurrences ----------------------------------------------------------------------


def _recurrence(self: Raw, factor: Raw, dim: int, reverse: bool) -> Raw:
    return arrays.statistics.recurrence(self, factor, dim, reverse)


def _shifted(x: Any, dim: int, back: bool, first: Any = 0) -> Any:
    """``x`` moved by one place along ``dim``, forward or back, with ``first`` in the free place."""
    before = (slice(None),) * dim
    kept = linear.slice_(x, where=(*before, slice(1, None) if back else slice(None, -1)))
    edge = linear.new_zeros(x, (*x.shape[:dim], 1, *x.shape[dim + 1 :])) + first
    return linear.cat([kept, edge] if back else [edge, kept], dim=dim)


def _recurrence_transposed(g: Any, factor: Any, dim: int, reverse: bool) -> Any:
    # Backwards, each passes on to its predecessor what its predecessor's factor let through.
    return recurrence(g, _shifted(factor, dim, not reverse), dim=dim, reverse=not reverse)


def _recurrence_factor_rule(g: Any, factor: Any, result: Any, dim: int, reverse: bool) -> Any:
    return _recurrence_transposed(g, factor, dim, reverse) * _shifted(result, dim, reverse)


def _recurrence_tangent(t: Any, factor: Any, result: Any, dim: int, reverse: bool) -> Any:
    moved, by_factor = t
    if by_factor is not None:
        pushed = by_factor * _shifted(result, dim, reverse)
        moved = pushed if moved is None else moved + pushed
    return recurrence(moved, factor, dim=dim, reverse=reverse)


recurrence: Operation = Operation(
    "recurrence", _recurrence, inputs=("self", "factor"), jvp=_recurrence_tangent,
    rules={"self": _recurrence_transposed, "factor": _recurrence_factor_rule},
    reason="linear in the first array only: a factor multiplies every later result",
)  # fmt: skip

# -- products --------------------------------------------------------------------------------


def _cumprod(self: Raw, dim: int) -> Raw:
    return arrays.statistics.cumprod(self, dim)


def _cumprod_rule(g: Any, self: Any, result: Any, dim: int) -> Any:
    if not self.shape or self.shape[dim] == 1 or 0 in self.shape:
        return g
    if is_lifted(self):
        zero = eq(self, 0)
        any_zero = any_of(raw(zero), dim=tuple(range(len(self.shape))), keepdim=True)
        harmless = where(zero, zeros_like(self) + 1, self)
        ratio = linear.cumsum_from_end(g * result, dim=dim) / harmless
        return where(any_zero, _cumprod_backward(g, self, result, dim), ratio)
    if arrays.all(raw(self)):
        return linear.cumsum_from_end(g * result, dim=dim) / self
    return _cumprod_backward(g, self, result, dim)


def _cumprod_backward(g: Any, self: Any, result: Any, dim: int) -> Any:
    """What comes after a place, times the product of all before it: no division."""
    after = recurrence(g, _shifted(self, dim, True), dim=dim, reverse=True)
    return after * _shifted(result, dim, False, 1)


cumprod_op = Operation(
    "cumprod", _cumprod, inputs=("self",), rules={"self": _cumprod_rule}, dtypes="sum",
    reason="a recurrence; as in PyTorch, derivatives divide by the factors where none is zero",
    words="An element is a factor of all later products and gets the sum of their contributions.",
)  # fmt: skip


@public("torch method", in_place=True, out="its dtype, aligned")
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The cumulative product of the elements along a dimension.

    Args:
        dim: dimension to accumulate along.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> torch.cumprod(torch.tensor([1., 2., 3., 4.]), 0)
        tensor([ 1.,  2.,  6., 24.])
    """
    given = in_dtype(input, dtype)
    check_running_dtype("cumprod_out_cpu", dtype)
    result = cumprod_op(given, dim=one_dim(dim, len(input.shape)))
    return narrowed(result, dtype)


def product_of_others(x: Any, dim: int) -> Any:
    """For each element, the product of all the others along ``dim``: no division, so that zeros
    do no harm. From the left and from the right, each a running product without its last."""
    if not x.shape[dim]:
        return x
    left = _shifted(cumprod_op(x, dim=dim), dim, False, 1)
    flipped = linear.flip(x, dims=(dim,))
    right = _shifted(cumprod_op(flipped, dim=dim), dim, False, 1)
    return left * linear.flip(right, dims=(dim,))


def product_of_fellows(x: Any, groups: Any, dim: int) -> Any:
    """For each element, the product of all the others along ``dim`` that are of the same group,
    without division. Groups are numbers, none of them negative. In the order of the groups, the
    product of those before an element is a recurrence that starts again with each group."""
    from retrograd.ops.shapes.sorting import argsort_by_value

    order = argsort_by_value(groups, dim=dim, descending=False)
    x, groups = (linear.gather(y, order, dim=dim) for y in (x, groups))
    product = zeros_like(x) + 1
    for reverse in (False, True):
        goes_on = eq(groups, _shifted(groups, dim, reverse, -1))
        start = where(goes_on, zeros_like(x), zeros_like(x) + 1)
        factor = where(goes_on, _shifted(x, dim, reverse), zeros_like(x))
        product = product * recurrence(start, factor, dim=dim, reverse=reverse)
    back = argsort_by_value(order, dim=dim, descending=False)
    return linear.gather(product, back, dim=dim)


# -- extremes --------------------------------------------------------------------------------


def _running_rule(g: Any, self: Any, indices: Any, dim: int) -> Any:
    if 0 in self.shape:
        return self  # PyTorch's choice, which is as good as any other array without elements
    return scattered(g, indices, self.shape, dim)


def _running(
    name: str, word: str, choose: Callable[..., Any], shown: str
) -> tuple[Selecting, Callable[..., Any]]:
    """The operation and the function ``cummax`` or ``cummin``."""
    operation = with_indices(
        name, f"{name.capitalize()}Backward0",
        lambda self, dim: arrays.statistics.running_extreme(self, dim, choose),
        rule=_running_rule, check=kernel(f"{name}_cpu"),
    )  # fmt: skip
    result_type = named_result(name, "values", "indices")

    def running(input: Any, dim: int) -> Any:
        ndim = len(input.shape)
        if not ndim and dim not in (0, -1):
            raise IndexError(f"{name}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
        return result_type(operation(input, dim=one_dim(dim, ndim)))

    doc = f"""The cumulative {word} of the elements along a dimension, and its indices.

    Args:
        dim: dimension to accumulate along.

    Returns:
        A named tuple ``(values, indices)`` of tensors of the shape of ``input``. Of several
        equal elements, the index is that of the last.

    Example:
        >>> torch.{name}(torch.tensor([1., 3., 2., 4.]), 0).values
        {shown}
    """
    return operation, public("torch method", out="same")(named(running, name, doc))


cummax_op, cummax = _running("cummax", "maximum", arrays.maximum, "tensor([1., 3., 3., 4.])")
cummin_op, cummin = _running("cummin", "minimum", arrays.minimum, "tensor([1., 1., 1., 1.])")


# -- logarithms of sums ----------------------------------------------------------------------


def _logcumsumexp_rule(g: Any, self: Any, result: Any, dim: int) -> Any:
    """From each sum to the next the share of an element shrinks by the ratio of the two, which is
    at most one: nothing overflows."""
    if not self.shape or 0 in self.shape:
        return g
    before = (slice(None),) * dim
    sums = linear.slice_(result, where=(*before, slice(None, -1)))
    step = sums - linear.slice_(result, where=(*before, slice(1, None)))
    stays_infinite = logical_and(isnan(raw(step)), isinf(raw(sums)))
    if is_lifted(self) or arrays.any(stays_infinite):
        step = where(stays_infinite, zeros_like(step), step)
    last = linear.new_zeros(step, (*self.shape[:dim], 1, *self.shape[dim + 1 :]))
    ratio = linear.cat([exp(step), last], dim=dim)
    return exp(self - result) * recurrence(g, ratio, dim=dim, reverse=True)


def _logcumsumexp_of(self: Any, dim: int) -> Any:
    """Sums as multiples of the exponential of the largest so far."""
    if not self.shape or 0 in self.shape:
        return clone(self)
    value = detached(self)
    largest = cummax_op(real(value) if raw(value).dtype.kind == "c" else value, dim=dim)[0]
    largest = where(isinf(largest), zeros_like(largest), largest)
    shrinks = exp(_shifted(largest, dim, False) - largest)
    sums = recurrence(exp(self - largest), shrinks, dim=dim, reverse=False)
    return log(sums) + largest


logcumsumexp_op = composite(
    "logcumsumexp", _logcumsumexp_of,
    lambda self, dim: arrays.statistics.logcumsumexp(self, dim), rules={"self": _logcumsumexp_rule},
    check=refuses("biu", "\"logcumsumexp_out_cpu\" not implemented for '{}'"),
)  # fmt: skip


@public("torch method", out="same, aligned")
def logcumsumexp(input: Any, dim: int) -> Any:
    """The logarithm of the cumulative sum of exponentials, computed without overflow.

    Args:
        dim: dimension to accumulate along.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> torch.logcumsumexp(torch.zeros(3), 0)
        tensor([0.0000, 0.6931, 1.0986])
    """
    return logcumsumexp_op(input, dim=one_dim(dim, len(input.shape)))
