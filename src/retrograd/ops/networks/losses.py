"""Losses for regression, and negative log likelihoods of distributions.

Those that PyTorch has a node for are operations; the others are made of simpler ones.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd._source import depth_of_user
from retrograd.arrays import Raw, dtypes
from retrograd.ops._dims import broadcast, numel
from retrograd.ops._lifted import bare, checked_by_line
from retrograd.ops._operands import is_differentiated
from retrograd.ops._operation import composite, elementwise, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel, refuses
from retrograd.ops._sections import like
from retrograd.ops._words import ROBUST
from retrograd.ops.copies import to_dtype, zeros_like
from retrograd.ops.elementwise import exp, log, mul, pow_scalar, sub
from retrograd.ops.linear import expand, unsqueeze
from retrograd.ops.piecewise import abs as absolute
from retrograd.ops.piecewise import masked_fill, where
from retrograd.ops.pointwise.arithmetic import xlogy
from retrograd.ops.pointwise.clamping import clamp_min
from retrograd.ops.pointwise.scalar_arithmetic import over as over
from retrograd.ops.pointwise.scalar_arithmetic import plus as plus
from retrograd.ops.pointwise.scalar_arithmetic import times as times
from retrograd.ops.reductions import basic as reductions

# -- reductions ------------------------------------------------------------------------------


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """``reduction``, or what the deprecated arguments ``size_average`` and ``reduce`` say."""
    if size_average is not None or reduce is not None:
        wants_mean, wants_one = size_average is not False, reduce is not False
        reduction = "none" if not wants_one else "mean" if wants_mean else "sum"
        warnings.warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{reduction}' instead.",
            stacklevel=4,
        )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(loss: Any, reduction: str) -> Any:
    """All losses, or their mean or sum."""
    if reduction == "mean":
        return reductions.mean(loss)
    return reductions.sum(loss) if reduction == "sum" else loss


def share(g: Any, shape: Any, reduction: str) -> Any:
    """The gradient of each loss, for that of all."""
    return g / max(numel(shape), 1) if reduction == "mean" else g


def not_differentiable(name: str, argument: str, value: Any, forward: bool = False) -> None:
    """Refuse gradients of what PyTorch has none for; and tangents, unless ``forward`` mode can."""
    recorded = modes.grad_enabled and getattr(value, "requires_grad", False)
    differentiated = not forward and (modes.grad_enabled or modes.levels)
    if recorded or (differentiated and is_differentiated(value)):
        raise RuntimeError(
            f"The function '{name}' is not differentiable with respect to argument '{argument}'. "
            "This input cannot have requires_grad True."
        )


def _expanded(input: Any, target: Any) -> tuple[Any, Any]:
    """Both operands expanded to their common shape."""
    shapes = tuple(input.shape), tuple(target.shape)
    if shapes[0] == shapes[1]:
        return input, target
    warnings.warn(
        f"Using a target size ({_size(target)}) that is different to the input size "
        f"({_size(input)}). This will likely lead to incorrect results due to broadcasting. "
        f"Please ensure they have the same size.{broadcast_hint(*shapes)}",
        stacklevel=depth_of_user(),
    )
    shape = broadcast(*shapes)
    first, second = (
        x if s == shape else expand(x, size=shape)
        for x, s in zip((input, target), shapes, strict=True)
    )
    return first, second


def broadcast_hint(input: tuple[int, ...], target: tuple[int, ...]) -> str:
    """What to add to the message about shapes that differ, if they broadcast to more than either:
    then every prediction is compared with every target."""
    try:
        shape = broadcast(input, target)
    except RuntimeError:
        return ""
    if numel(shape) in (numel(input), numel(target)):
        return ""
    cure = "reshape one of them: target.view_as(input)"
    if input[-1:] == (1,) and input[:-1] == target:
        cure = "use target.unsqueeze(-1), or input.squeeze(-1)"
    elif target[-1:] == (1,) and target[:-1] == input:
        cure = "use target.squeeze(-1)"
    return (
        f"\n  Input {list(input)} and target {list(target)} broadcast to {list(shape)}: every "
        f"input is compared with every target.\n  What to do: {cure}."
    )


def _size(x: Any) -> str:
    return f"torch.Size({list(x.shape)})"


def _weighted(errors: Any, input: Any, weight: Any, reduction: str, over_weights: bool) -> Any:
    """Errors times weights, reduced; the mean of some losses is over the weights."""
    if tuple(weight.shape) != tuple(input.shape):
        raise ValueError("Weights and input must have the same size.")
    errors = errors * weight
    if reduction == "mean" and over_weights:
        return reductions.sum(errors) / reductions.sum(weight)
    return reduced(errors, reduction)


def check_fits_input(input: Any, target: Any) -> None:
    """Refuse a target of a dtype that losses in the dtype of the input cannot be cast from."""
    have, common = raw(input).dtype, dtypes.result_type([raw(input), raw(target)])
    fits = have.kind in dtypes.INEXACT and (common.kind != "c" or have.kind == "c")
    if have != common and not fits:
        words = [dtypes.type_word(d) for d in (common, have)]
        raise RuntimeError(
            f"result type {words[0]} can't be cast to the desired output type {words[1]}"
        )


def in_dtype_of(input: Any, loss: Any) -> Any:
    """A loss in the dtype of the input, whatever that of the target is."""
    given = raw(input).dtype
    return loss if raw(loss).dtype == given else to_dtype(loss, dtype=given)


# -- mse, l1, huber --------------------------------------------------------------------------


def _mse(self: Raw, target: Raw, reduction: str) -> Raw:
    difference = self - target
    if reduction == "none" or difference.dtype.itemsize == 2:  # too narrow for a sum of squares
        return reduced(difference * difference, reduction)
    flat = difference.reshape(-1)
    total = arrays.matmul(flat, flat)  # BLAS: one pass
    return total / flat.size if reduction == "mean" else total


def _mse_definition(self: Any, target: Any, reduction: str) -> Any:
    difference = self - target
    return reduced(difference * difference, reduction)


def _mse_rule(g: Any, self: Any, target: Any, reduction: str) -> Any:
    return (self - target) * (share(g, self.shape, reduction) * 2)


mse_op = composite(
    "mse_loss", _mse_definition, _mse, inputs=("self", "target"),
    rules={
        "self": _mse_rule,
        "target": lambda g, self, target, reduction: _mse_rule(g, target, self, reduction),
    },
    dtypes="promote", broadcasts=True, check=kernel("mse_cpu", "biuc"),
    words="Twice the difference, times the gradient, divided by the number of elements averaged.",
)  # fmt: skip


@public("functional")
def mse_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Any = None,
) -> Any:  # fmt: skip
    """Squared error: ``(input - target)**2``.

    Args:
        input: the prediction.
        target: the target, of the shape of ``input``.
        weight: a weight for each element, which broadcasts. "mean" divides by the sum of the
            weights.

    Example:
        >>> torch.nn.functional.mse_loss(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0]))
        tensor(2.5000)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    first, second = _expanded(input, target)
    if weight is not None:
        return _weighted(pow_scalar(first - second, exponent=2), input, weight, reduction, True)
    return mse_op(first, second, reduction=reduction)


@public("functional")
@like(mse_loss)
def l1_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Any = None,
) -> Any:  # fmt: skip
    """Absolute error: ``abs(input - target)``.

    Example:
        >>> torch.nn.functional.l1_loss(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0]))
        tensor(1.5000)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    first, second = _expanded(input, target)
    errors = absolute(first - second)
    if weight is not None:
        return _weighted(errors, input, weight, reduction, True)
    return reduced(errors, reduction)


# Values moved between ``-limit`` and ``limit``; those that are there already have no derivative.
_bounded = elementwise(
    "bounded", lambda self, limit: arrays.clip(self, -limit, limit),
    lambda g, self, limit: where(abs(raw(self)) < limit, g, zeros_like(g)),
)  # fmt: skip


def _huber(self: Any, target: Any, reduction: str, delta: float) -> Any:
    """Half the square up to a limit, from there on along the tangent: limit * (error - limit/2)."""
    error = self - target
    near = _bounded(error, limit=delta)
    return reduced(near * (error - 0.5 * near), reduction)


def _huber_rule(g: Any, self: Any, target: Any, reduction: str, delta: float) -> Any:
    return _bounded(self - target, limit=delta) * share(g, self.shape, reduction)


def _smooth_l1_rule(g: Any, self: Any, target: Any, reduction: str, beta: float) -> Any:
    return _huber_rule(g / beta, self, target, reduction, beta)


huber_op = composite(
    "huber_loss", _huber, inputs=("self", "target"),
    rules={
        "self": _huber_rule,
        "target": lambda g, self, target, reduction, delta: _huber_rule(
            g, target, self, reduction, delta
        ),
    },
    dtypes="promote", broadcasts=True, check=kernel("huber_cpu", "biuc"),
    words=ROBUST,
)  # fmt: skip
smooth_l1_op = composite(
    "smooth_l1_loss",
    lambda self, target, reduction, beta:
        reduced(_huber(self, target, "none", beta) / beta, reduction),
    inputs=("self", "target"),
    rules={
        "self": _smooth_l1_rule,
        "target": lambda g, self, target, reduction, beta: _smooth_l1_rule(
            g, target, self, reduction, beta
        ),
    },
    node="SmoothL1LossBackward0", dtypes="promote", broadcasts=True,
    check=kernel("smooth_l1_cpu", "biuc"),
    words=ROBUST,
)  # fmt: skip


@public("functional")
def smooth_l1_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Any:  # fmt: skip
    """Absolute error, with a parabola near zero.

    With ``d = abs(input - target)``: ``0.5 * d**2 / beta`` if ``d < beta``, else
    ``d - 0.5 * beta``.

    Args:
        input: the prediction.
        target: the target, of the shape of ``input``.
        beta: difference at which the two parts meet; not negative.

    Example:
        >>> torch.nn.functional.smooth_l1_loss(torch.tensor([0.5, 2.0]), torch.tensor([0.0, 0.0]))
        tensor(0.8125)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    first, second = _expanded(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return reduced(absolute(first - second), reduction)
    return smooth_l1_op(first, second, reduction=reduction, beta=beta)


@public("functional")
def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """Huber loss: ``delta * smooth_l1_loss(beta=delta)``.

    With ``d = abs(input - target)``: ``0.5 * d**2`` if ``d < delta``, else
    ``delta * (d - 0.5 * delta)``.

    Args:
        input: the prediction.
        target: the target, of the shape of ``input``.
        delta: difference at which the two parts meet; positive.
        weight: a factor for each element. "mean" divides by the number of elements.

    Example:
        >>> torch.nn.functional.huber_loss(torch.tensor([0.5, 2.0]), torch.tensor([0.0, 0.0]))
        tensor(0.8125)
    """
    first, second = _expanded(input, target)
    reduction = reduction_of(None, None, reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    check_fits_input(input, target)
    if weight is None:
        loss = huber_op(first, second, reduction=reduction, delta=delta)
        return in_dtype_of(input, loss)
    errors = in_dtype_of(input, huber_op(first, second, reduction="none", delta=delta))
    return _weighted(errors, input, weight, reduction, False)


# Values below the minimum are replaced by it, but their gradient is passed on.
at_least = elementwise(
    "at_least", lambda self, least: arrays.maximum(self, least), lambda g: g, node="CloneBackward0"
)

# -- likelihoods -----------------------------------------------------------------------------


@public("functional")
def kl_div(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Any:  # fmt: skip
    """Kullback-Leibler divergence: ``target * (log(target) - input)`` for each element.

    "mean" divides by the number of elements, which is not the divergence; use "batchmean".

    Args:
        input: logarithms of the predicted probabilities.
        target: the true probabilities, of the shape of ``input``.
        reduction: "batchmean" (the sum divided by the size of the first dimension), "mean", "sum",
            or "none" for a value per element.
        log_target: whether the target holds logarithms of probabilities, too.

    Example:
        >>> half = torch.tensor([0.5, 0.5])
        >>> torch.nn.functional.kl_div(half.log(), torch.tensor([1.0, 0.0]), reduction="sum")
        tensor(0.6931)
    """
    by_batch = reduction == "batchmean" and size_average is None and reduce is None
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release.",
            stacklevel=3,
        )
    if "c" in (raw(input).dtype.kind, raw(target).dtype.kind):
        raise RuntimeError("kl_div: Complex inputs not supported.")
    if not {raw(input).dtype.kind, raw(target).dtype.kind} <= {"f", "V"}:
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        losses = mul(exp(target), sub(target, input))
    else:
        losses = sub(xlogy(target, target), mul(target, input))
    if not by_batch:
        return reduced(losses, reduction_of(size_average, reduce, reduction))
    total = reductions.sum(losses)
    return total / input.shape[0] if input.ndim else total


@public("functional")
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False,
    size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Negative log likelihood of counts with a Poisson distribution.

    ``exp(input) - target * input`` if ``log_input``, else ``input - target * log(input + eps)``.
    The constant term ``log(target!)`` is omitted, or approximated if ``full``.

    Args:
        input: the logarithm of the rate, or the rate if ``log_input`` is False.
        target: the counts.
        log_input: whether the input is the logarithm of the rate.
        full: add Stirling's approximation
            ``target * log(target) - target + 0.5 * log(2 * pi * target)`` for targets above 1.
        eps: added to the rate before the logarithm, if ``log_input`` is False.

    Example:
        >>> torch.nn.functional.poisson_nll_loss(torch.tensor([0.0]), torch.tensor([2.0]))
        tensor(1.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if log_input:
        loss = exp(input) - target * input
    else:
        loss = input - target * log(plus(input, number=eps))
    if full:
        kernel("le_cpu")(raw(target))
        stirling = target * log(target) - target
        stirling = stirling + times(log(times(target, number=2 * math.pi)), number=0.5)
        loss = loss + masked_fill(stirling, raw(target) <= 1, 0)
    return reduced(loss, reduction)


def _check_variance(var: Raw) -> None:
    if arrays.any(var < 0):
        raise ValueError("var has negative entry/entries")


@public("functional")
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Negative log likelihood of targets with a normal distribution of given mean and variance.

    ``0.5 * (log(var) + (input - target)**2 / var)``, with ``var`` clamped from below by ``eps``.

    Args:
        input: the means.
        target: the observed values.
        var: the variances: of the shape of ``input``, or with a last dimension of size 1 or none.
        full: add the constant ``0.5 * log(2 * pi)``.
        eps: lower bound of the variance.

    Example:
        >>> zero, one = torch.zeros(1), torch.ones(1)
        >>> torch.nn.functional.gaussian_nll_loss(zero, one, one)
        tensor(0.5000)
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        refuses("c", "clamp is not supported for complex types")(raw(input))
        var = zeros_like(input) + var
    else:
        kernel("lt_cpu")(raw(var))
        if not checked_by_line(_check_variance, var):
            _check_variance(bare(var, looks=False))
    shape, sizes = tuple(input.shape), tuple(var.shape)
    if sizes != shape:
        odd = [v for x, v in zip(shape, sizes, strict=False) if x != v]
        if shape[:-1] == sizes:
            var = unsqueeze(var, dim=len(sizes))
        elif len(shape) != len(sizes) or sum(odd) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = at_least(var, least=eps)
    loss = 0.5 * (log(var) + pow_scalar(input - target, exponent=2) / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


@public("functional")
def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Loss of distances between similar (target 1) and dissimilar (target -1) pairs.

    ``input`` for a target of 1, ``max(0, margin - input)`` for a target of -1.

    Args:
        input: distances.
        target: 1 for similar pairs, -1 for dissimilar ones.
        margin: distance from which on dissimilar pairs cost nothing.

    Example:
        >>> F = torch.nn.functional
        >>> x, target = torch.tensor([0.5, 0.25]), torch.tensor([1, -1])
        >>> F.hinge_embedding_loss(x, target, reduction="none")
        tensor([0.5000, 0.7500])
    """
    reduction = reduction_of(size_average, reduce, reduction)
    zero = zeros_like(raw(input))
    wanted = zero + arrays.as_value(margin, zero.dtype)
    lack = clamp_min(sub(wanted, input), 0)
    apart = where(raw(target) != 1, lack, zero)
    together = where(raw(target) != -1, input, zero)
    return reduced(apart + together, reduction)
