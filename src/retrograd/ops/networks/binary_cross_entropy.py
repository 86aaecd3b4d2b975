"""Binary cross entropy, of probabilities and of logits."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops._operation import Elementwise, composite, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops.copies import to_dtype
from retrograd.ops.elementwise import log, log1p, sigmoid
from retrograd.ops.linear import expand
from retrograd.ops.networks.losses import (
    _size,
    broadcast_hint,
    in_dtype_of,
    not_differentiable,
    reduced,
    reduction_of,
    share,
)
from retrograd.ops.networks.smooth_activations import logsigmoid, softplus_op
from retrograd.ops.piecewise import clamp


def _bce_losses(self: Raw, target: Raw) -> Raw:
    for name, x in (("input", self), ("target", target)):
        if not arrays.all((x >= 0) & (x <= 1)):  # NaN is not between them either
            raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    # Logarithms below -100 count as -100: a loss is to be finite.
    losses = (target - 1) * arrays.maximum(arrays.log1p(-self), -100)
    return losses - target * arrays.maximum(arrays.log(self), -100)


def _bce_rule(g: Any, self: Any, target: Any, weight: Any, reduction: str) -> Any:
    derivative = (self - target) / clamp((1 - self) * self, min=1e-12, max=None)
    derivative = derivative * share(g, self.shape, reduction)
    return derivative if weight is None else derivative * weight


def _bce_target_rule(g: Any, self: Any, weight: Any, reduction: str) -> Any:
    derivative = (log1p(-self) - log(self)) * share(g, self.shape, reduction)
    return derivative if weight is None else derivative * weight


# Not made of logarithms: at 0 and 1, where these are bounded, its derivative is PyTorch's.
bce_losses = Elementwise(
    "binary_cross_entropy_losses", _bce_losses, inputs=("self", "target"),
    rules={
        "self": lambda g, self, target: _bce_rule(g, self, target, None, "none"),
        "target": lambda g, self: _bce_target_rule(g, self, None, "none"),
    },
)  # fmt: skip


def _check_bce(self: Raw, target: Raw, weight: Raw | None, reduction: str) -> None:
    word = arrays.dtypes.type_word
    if self.dtype != target.dtype:
        raise RuntimeError(f"Found dtype {word(target.dtype)} but expected {word(self.dtype)}")
    kernel("binary_cross_entropy", "biuc")(self)
    if weight is not None and weight.dtype.kind == "c":
        raise RuntimeError(
            f"result type {word(weight.dtype)} can't be cast to the desired output type "
            f"{word(self.dtype)}"
        )


def _bce(self: Any, target: Any, weight: Any, reduction: str) -> Any:
    losses = bce_losses(self, target)
    return reduced(losses if weight is None else losses * weight, reduction)


bce_op = composite(
    "binary_cross_entropy", _bce, inputs=("self", "target", "weight"),
    rules={"self": _bce_rule, "target": _bce_target_rule}, check=_check_bce,
    words="The difference of prediction and target over self · (1 − self), times the gradient of "
          "each element.",
)  # fmt: skip


@public("functional")
def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Binary cross entropy between probabilities and targets.

    ``-weight * (target * log(input) + (1 - target) * log(1 - input))``, with logarithms clamped at
    -100.

    Args:
        input: probabilities, from 0 to 1.
        target: target probabilities, of the shape of ``input``.
        weight: a factor for each element, which broadcasts.

    Example:
        >>> torch.nn.functional.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.0]))
        tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if tuple(target.shape) != tuple(input.shape):
        error = ValueError(
            f"Using a target size ({_size(target)}) that is different to the input size "
            f"({_size(input)}) is deprecated. Please ensure they have the same size."
        )
        if hint := broadcast_hint(tuple(input.shape), tuple(target.shape)):
            error.add_note(hint.lstrip("\n"))
        raise error
    if raw(target).dtype != raw(input).dtype:
        words = [dtypes.type_word(raw(x).dtype) for x in (target, input)]
        raise RuntimeError("Found dtype {} but expected {}".format(*words))
    not_differentiable("binary_cross_entropy", "weight", weight, forward=True)
    if weight is not None:
        weight = expand(weight, size=tuple(target.shape))
    return in_dtype_of(input, bce_op(input, target, weight, reduction=reduction))


def _bce_logits(
    self: Raw, target: Raw, weight: Raw | None, pos_weight: Raw | None, reduction: str
) -> Raw:
    # What is lost of the positive share is soft, of the negative one self + soft.
    soft = -arrays.networks.log_sigmoid(self, arrays.networks.exp_minus_abs(self))
    if pos_weight is not None:
        soft = soft * ((pos_weight - 1) * target + 1)
    losses = (1 - target) * self + soft
    return reduced(losses if weight is None else losses * weight, reduction)


def _bce_logits_definition(
    self: Any, target: Any, weight: Any, pos_weight: Any, reduction: str
) -> Any:
    positive = target if pos_weight is None else target * pos_weight
    # Beyond 40 softplus is its argument to the last bit.
    negative_loss, positive_loss = (softplus_op(x, beta=1, threshold=40) for x in (self, -self))
    losses = positive * positive_loss + (1 - target) * negative_loss
    return reduced(losses if weight is None else losses * weight, reduction)


def _bce_logits_rule(
    g: Any, self: Any, target: Any, weight: Any, pos_weight: Any, reduction: str
) -> Any:
    if pos_weight is None:
        derivative = sigmoid(self) - target
    else:
        positive = target * pos_weight
        derivative = (positive + 1 - target) * sigmoid(self) - positive
    derivative = derivative * share(g, self.shape, reduction)
    return derivative if weight is None else derivative * weight


def _bce_logits_target_rule(g: Any, self: Any, weight: Any, pos_weight: Any, reduction: str) -> Any:
    if pos_weight is None:
        derivative = -self
    else:
        derivative = logsigmoid(-self) - pos_weight * logsigmoid(self)
    derivative = derivative * share(g, self.shape, reduction)
    return derivative if weight is None else derivative * weight


bce_logits_op = composite(
    "binary_cross_entropy_with_logits", _bce_logits_definition, _bce_logits,
    inputs=("self", "target", "weight", "pos_weight"),
    rules={"self": _bce_logits_rule, "target": _bce_logits_target_rule}, dtypes="promote",
    broadcasts=True,
    check=lambda self, *others, **options: kernel("log_sigmoid_cpu", "biuc")(self),
    words="The difference between sigmoid and target, times the gradient of each element.",
)  # fmt: skip


@public("functional")
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Any = None,
) -> Any:  # fmt: skip
    """Binary cross entropy between logits and targets.

    The same as ``binary_cross_entropy(sigmoid(input), target)``, without overflow for large logits.

    Args:
        input: logits, of any shape.
        target: target probabilities, of the shape of ``input``.
        weight: a factor for each element, which broadcasts.
        pos_weight: a factor for the positive targets of each class, which broadcasts.

    Example:
        >>> F = torch.nn.functional
        >>> F.binary_cross_entropy_with_logits(torch.tensor([-1000.0]), torch.tensor([1.0]))
        tensor(1000.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if tuple(target.shape) != tuple(input.shape):
        raise ValueError(
            f"Target size ({_size(target)}) must be the same as input size ({_size(input)})"
        )
    for name, value in (("weight", weight), ("pos_weight", pos_weight)):
        not_differentiable("binary_cross_entropy_with_logits", name, value, forward=True)
    loss = bce_logits_op(input, target, weight, pos_weight, reduction=reduction)
    common = dtypes.result_type([raw(input), raw(target)])  # weights do not count
    if common.kind not in dtypes.FLOATS or raw(loss).dtype == common:
        return loss
    return to_dtype(loss, dtype=common)
