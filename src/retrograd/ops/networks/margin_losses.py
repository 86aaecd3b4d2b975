"""Losses by margins between classes, and of several labels at once."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._dims import broadcast, numel
from retrograd.ops._lifted import bare
from retrograd.ops._operation import composite, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel, without_complex_history
from retrograd.ops.comparisons import eq, gt, logical_and, logical_not
from retrograd.ops.copies import index_for, to_dtype, zeros_like
from retrograd.ops.elementwise import exp, log1p
from retrograd.ops.linear import cumsum, gather, index, reshape, sum_dim, unsqueeze
from retrograd.ops.networks.losses import (
    check_fits_input,
    in_dtype_of,
    not_differentiable,
    reduced,
    reduction_of,
    share,
)
from retrograd.ops.networks.smooth_activations import logsigmoid
from retrograd.ops.piecewise import where
from retrograd.ops.reductions import basic as reductions
from retrograd.ops.selecting import any_of

# -- margins ---------------------------------------------------------------------------------


def _check_scores(word: str, self: Any) -> None:
    kernel(word, "biucV")(self)
    shape = list(self.shape)
    if len(shape) > 2 or 0 in shape[-1:]:
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {shape}"
        )


def _check_multi_margin(self: Any, target: Any, weight: Any, **options: Any) -> None:
    _check_scores("multi_margin_loss_cpu_kernel", self)
    shape, sizes = list(self.shape), list(target.shape)
    rows, classes = shape[0] if len(shape) == 2 else 1, shape[-1] if shape else 1
    if len(sizes) > 1 or numel(sizes) != rows:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{rows}], but got {sizes}. Input has "
            f"shape {shape}."
        )
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    if weight is not None and raw(weight).dtype != raw(self).dtype:
        have, given = (arrays.dtypes.type_word(raw(x).dtype) for x in (self, weight))
        raise RuntimeError(f"expected scalar type {have} but found {given}")
    result = bare(target)
    if arrays.any((result < 0) | (result >= classes)):
        raise RuntimeError("target out of range")


def _check_multilabel(self: Any, target: Any, **options: Any) -> None:
    _check_scores("multilabel_margin_loss_forward_out_frame", self)
    shape, sizes = list(self.shape), list(target.shape)
    if sizes != shape and (shape or sizes != [1]):
        raise RuntimeError(f"inconsistent target size: {sizes} for input of size: {shape}")
    if raw(target).dtype != arrays.int64:
        word = arrays.dtypes.type_word(raw(target).dtype)
        raise RuntimeError(f"expected scalar type Long but found {word}")
    result = bare(target)
    if arrays.any((result < -1) | (result >= (shape[-1] if shape else 1))):
        raise RuntimeError("argument #2 'target' is out of range")


def _is_class(labels: Any, classes: int) -> Any:
    """For each label, along one more dimension, which of the classes it is."""
    return eq(unsqueeze(labels, dim=len(labels.shape)), arrays.arange(classes))


def _above_zero(lack: Any, counts: Any) -> Any:
    """What lacks and counts. Chosen, not multiplied by zero, which would make NaN of an infinity
    that does not count; and NaN lacks nothing, as in PyTorch."""
    return where(logical_and(counts, gt(lack, 0)), lack, zeros_like(lack))


def _multi_margin(
    self: Any, target: Any, weight: Any, p: int, margin: float, reduction: str
) -> Any:
    last, classes = len(target.shape), self.shape[-1] if self.shape else 1
    scores = reshape(self, (*target.shape, classes))
    right = gather(scores, unsqueeze(target, dim=last), dim=last)
    # What each class lacks to be a margin below the right one; nothing for that itself.
    lack = _above_zero(margin - right + scores, logical_not(_is_class(target, classes)))
    losses = sum_dim(lack if p == 1 else lack * lack, dim=(last,), keepdim=False) / classes
    if weight is not None:
        losses = losses * index(weight, where=(index_for(target, weight),))
    return reduced(losses, reduction)


def _multi_margin_rule(
    g: Raw, self: Raw, target: Raw, weight: Raw | None, p: int, margin: float, reduction: str
) -> Raw:
    x, target = _rows(self), arrays.reshape(target, (-1,))
    rows = arrays.arange(len(x))
    lack = margin - x[rows, target][:, None] + x
    lack = arrays.where(lack > 0, lack, x.dtype.type(0))
    lack[rows, target] = 0
    derivative = arrays.cast(lack > 0, x.dtype) if p == 1 else 2 * lack
    if weight is not None:
        derivative = derivative * weight[target][:, None]
    derivative[rows, target] = -arrays.sum(derivative, 1)
    return _of_rows(derivative, g, self, reduction)


def _rows(self: Raw) -> Raw:
    return arrays.reshape(self, (1, -1)) if self.ndim <= 1 else self


def _of_rows(derivative: Raw, g: Raw, self: Raw, reduction: str) -> Raw:
    """The gradient of scores, from the derivatives of what their classes lack."""
    averaged = derivative.shape[1] * (len(derivative) if reduction == "mean" else 1)
    each = derivative / derivative.dtype.type(averaged) * arrays.reshape(g, (-1, 1))
    return arrays.reshape(each, self.shape)


multi_margin_op = composite(
    "multi_margin_loss", _multi_margin, inputs=("self", "target", "weight"),
    rules={"self": _multi_margin_rule}, fused=True,
    check=_check_multi_margin,
)  # fmt: skip


@public("functional")
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Multi-class hinge loss.

    For a target class ``y``: ``sum over i != y of max(0, margin - input[y] + input[i])**p / C``,
    times ``weight[y]``.

    Args:
        input: scores, of shape ``(N, C)`` or ``(C,)``.
        target: classes, of shape ``(N,)`` or ``()``.
        p: exponent, 1 or 2.
        margin: by how much the score of the target should exceed the others.
        weight: a weight for each class, of shape ``(C,)``.
        reduction: "mean", "sum", or "none" for a loss per sample.

    Example:
        >>> torch.nn.functional.multi_margin_loss(torch.tensor([[0.0, 0.5]]), torch.tensor([0]))
        tensor(0.7500)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if raw(target).dtype != arrays.int64:
        result = arrays.dtypes.type_word(raw(target).dtype)
        raise RuntimeError(f"expected scalar type Long but found {result}")
    not_differentiable("multi_margin_loss", "weight", weight)
    return multi_margin_op(input, target, weight, p=p, margin=margin, reduction=reduction)


# -- several labels --------------------------------------------------------------------------


def _multilabel(self: Any, target: Any, reduction: str) -> tuple[Any, Any]:
    shape = tuple(self.shape) or (1,)
    last, classes = len(shape) - 1, shape[-1]
    scores, target = (reshape(x, shape) for x in (self, target))
    counts = eq(cumsum(to_dtype(eq(target, -1), dtype=arrays.int64), dim=last), 0)
    labels = where(counts, target, zeros_like(target))  # up to the first -1
    counts = unsqueeze(counts, dim=last + 1)
    is_target = any_of(logical_and(_is_class(labels, classes), counts), dim=(last,), keepdim=False)
    # For each label and each other class: what the latter lacks to be 1 below.
    right = gather(scores, labels, dim=last)
    lack = 1 - unsqueeze(right, dim=last + 1) + unsqueeze(scores, dim=last)
    lack = _above_zero(lack, logical_and(counts, logical_not(unsqueeze(is_target, dim=last))))
    losses = sum_dim(lack, dim=(last, last + 1), keepdim=False) / classes
    is_target = reshape(to_dtype(is_target, dtype=raw(self).dtype), tuple(self.shape))
    return reduced(losses, reduction), is_target


def _multilabel_rule(g: Any, self: Raw, target: Raw, is_target: Raw, reduction: str) -> Raw:
    x = _rows(self)
    labels, others = arrays.reshape(target, x.shape), arrays.reshape(is_target, x.shape) == 0
    counts = arrays.cumsum(labels == -1, 1) == 0
    labels = arrays.where(counts, labels, 0)
    lack = 1 - arrays.take_along(x, labels, 1)[:, :, None] + x[:, None, :]
    active = arrays.cast(counts[:, :, None] & others[:, None, :] & (lack > 0), x.dtype)
    indices = arrays.arange(len(x))[:, None] * x.shape[1] + labels
    derivative = arrays.sum(active, 1) - arrays.add_flat(x.shape, indices, arrays.sum(active, 2))
    return _of_rows(derivative, g[0], self, reduction)


multilabel_op = composite(
    "multilabel_margin_loss", _multilabel, inputs=("self", "target"),
    outputs=("result", "is_target"), rules={"self": _multilabel_rule}, fused=True,
    check=_check_multilabel,
)  # fmt: skip


@public("functional")
def multilabel_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Hinge loss of samples with several target classes.

    ``sum over targets y and other classes i of max(0, 1 - (input[y] - input[i])) / C``.

    Args:
        input: scores, of shape ``(N, C)`` or ``(C,)``.
        target: the target classes of each sample, ended by -1, of the shape of ``input``.
        reduction: "mean", "sum", or "none" for a loss per sample.

    Example:
        >>> scores, labels = torch.tensor([[0.5, 0.0, 0.0]]), torch.tensor([[0, -1, 1]])
        >>> torch.nn.functional.multilabel_margin_loss(scores, labels)
        tensor(0.3333)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return multilabel_op(input, target, reduction=reduction)[0]


def _soft_margin_rule(g: Any, self: Any, target: Any, reduction: str) -> Any:
    z = exp(-target * self)
    return -target * (z / (z + 1)) * share(g, self.shape, reduction)


soft_margin_op = composite(
    "soft_margin_loss",
    lambda self, target, reduction: reduced(log1p(exp(-target * self)), reduction),
    inputs=("self", "target"),
    rules={"self": _soft_margin_rule}, dtypes="promote", broadcasts=True,
)  # fmt: skip


@public("functional")
def soft_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Logistic loss: ``log(1 + exp(-target * input))``.

    Args:
        input: scores.
        target: 1 or -1, of the shape of ``input``.

    Example:
        >>> torch.nn.functional.soft_margin_loss(torch.tensor([0.0]), torch.tensor([1.0]))
        tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    not_differentiable("soft_margin_loss", "target", target, forward=True)
    without_complex_history("soft_margin_loss", input)
    check_fits_input(input, target)
    shape, common = tuple(input.shape), broadcast(tuple(input.shape), tuple(target.shape))
    if common != shape:
        raise RuntimeError(
            f"output with shape {list(shape)} doesn't match the broadcast shape {list(common)}"
        )
    return in_dtype_of(input, soft_margin_op(input, target, reduction=reduction))


@public("functional")
def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Binary cross entropy of each class, averaged over the classes.

    Args:
        input: logits, of shape ``(N, C)``.
        target: 0 or 1 for each class, of the shape of ``input``.
        weight: a weight for each class, of shape ``(C,)``.
        reduction: "mean", "sum", or "none" for a loss per sample.

    Example:
        >>> F = torch.nn.functional
        >>> F.multilabel_soft_margin_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
        tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    last = input.ndim - 1
    return reduced(reductions.sum(loss, dim=last) / input.shape[last], reduction)
