"""Losses of classification: negative log likelihood and cross entropy."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops._arguments import check_int
from retrograd.ops._dims import numel
from retrograd.ops._lifted import bare, checked_by_line, device_value, tracer
from retrograd.ops._operands import detached
from retrograd.ops._operation import Operation, composite, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops.comparisons import eq, logical_not
from retrograd.ops.copies import to_dtype, zeros_like
from retrograd.ops.elementwise import neg
from retrograd.ops.linear import (
    gather,
    index,
    new_zeros,
    reshape,
    scatter_zeros,
    squeeze,
    sum_all,
    unsqueeze,
)
from retrograd.ops.networks import layers
from retrograd.ops.networks.losses import not_differentiable, reduction_of
from retrograd.ops.networks.softmax import log_softmax_op
from retrograd.ops.piecewise import masked_fill
from retrograd.ops.pointwise.scalar_arithmetic import over, plus, times
from retrograd.ops.reductions import basic as reductions
from retrograd.ops.reductions.basic import in_dtype

# -- nll_loss: the logarithm of the probability of the right class ---------------------------


def _flat_indices(shape: tuple[int, ...], target: Raw) -> Raw:
    """Where, in reading order, the chosen classes are in an array of classes along dimension 1 (0
    of a vector)."""
    if len(shape) == 1:
        return target
    inner = numel(shape[2:])
    rows = arrays.arange(shape[0] * inner).reshape(shape[0], inner)
    sample, place = rows // max(inner, 1), rows % max(inner, 1)
    chosen = target.reshape(shape[0], inner)
    return ((sample * shape[1] + chosen) * inner + place).reshape(target.shape)


def _weights(x: Raw, target: Raw, weight: Raw | None, ignore_index: int) -> tuple[Raw, Raw, Raw]:
    """Targets with those to ignore made valid, the weight of each, which is zero for these, and
    which these are. A weight of zero does not suffice: zero times infinity is not zero."""
    _check_targets(target, x.shape[0] if x.ndim == 1 else x.shape[1], ignore_index)
    ignored = target == ignore_index
    target = arrays.where(ignored, 0, target)
    if weight is None:
        return target, arrays.cast(arrays.logical_not(ignored), x.dtype), ignored
    return target, arrays.where(ignored, x.dtype.type(0), weight[target]), ignored


def _check_targets(target: Raw, classes: int, ignore_index: int) -> None:
    wrong = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if arrays.any(wrong):
        raise IndexError(f"Target {int(target[wrong].reshape(-1)[0])} is out of bounds.")


def _is_plain(x: Raw, target: Raw, weight: Raw | None, ignore_index: int) -> bool:
    """Whether every target is a class and counts the same: the usual case, and the fastest."""
    if weight is not None or x.ndim != 2 or not target.size:
        return False
    classes = x.shape[1]
    return not 0 <= ignore_index < classes and arrays.are_indices(target, classes)


def _nll(
    self: Raw, target: Raw, weight: Raw | None, reduction: str, ignore_index: int
) -> tuple[Raw, Raw]:
    if reduction != "none" and _is_plain(self, target, weight, ignore_index):
        count = self.dtype.type(len(target))
        loss = -arrays.sum_all(self[arrays.arange(len(target)), target])
        return (loss / count if reduction == "mean" else loss), count
    target, weights, ignored = _weights(self, arrays.asarray(target), weight, ignore_index)
    total = arrays.sum_all(weights)
    losses = -(arrays.take_flat(self, _flat_indices(self.shape, target)) * weights)
    losses = arrays.where(ignored, self.dtype.type(0), losses)
    if reduction == "none":
        return losses, self.dtype.type(0)
    loss = arrays.sum_all(losses)
    return (loss / total if reduction == "mean" else loss), total


def _class_dim(x: Any) -> int:
    return 0 if len(x.shape) == 1 else 1


def _counted(self: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, Any, Any]:
    """As ``_weights``, by operations; the targets with a dimension for the classes."""
    class_dim = _class_dim(self)
    classes = self.shape[class_dim]
    known = device_value(target) is None  # or what gather() expects is asked later
    if known and not checked_by_line(_check_targets, target, classes, ignore_index):
        _check_targets(bare(target, looks=False), classes, ignore_index)
    target = in_dtype(target, arrays.int64)
    ignored = eq(target, ignore_index)
    target = masked_fill(target, ignored, 0)
    if weight is None:
        counted = to_dtype(logical_not(ignored), dtype=raw(self).dtype)
    else:
        counted = masked_fill(index(weight, where=(raw(target),)), ignored, 0)
    return unsqueeze(target, dim=class_dim), counted, ignored


def _every_target_counts(self: Any, target: Any, weight: Any, ignore_index: int) -> bool:
    """Whether every target is a class and counts the same, if its values may be looked at: the
    usual case, in which half of the operations are not needed."""
    if weight is not None or tracer() is not None or device_value(target) is not None:
        return False  # nobody waits for a device here
    values, classes = arrays.asarray(bare(target, looks=False)), self.shape[_class_dim(self)]
    _check_targets(values, classes, ignore_index)
    return bool(values.size) and not arrays.any(values == ignore_index)


def _nll_definition(
    self: Any, target: Any, weight: Any, reduction: str, ignore_index: int
) -> tuple[Any, Any]:
    class_dim = _class_dim(self)
    if reduction != "none" and _every_target_counts(self, target, weight, ignore_index):
        target = unsqueeze(in_dtype(target, arrays.int64), dim=class_dim)
        loss = neg(sum_all(gather(self, target, dim=class_dim)))
        total = arrays.asarray(numel(target.shape), raw(self).dtype)
        return (loss / float(total) if reduction == "mean" else loss), total
    target, counted, ignored = _counted(self, target, weight, ignore_index)
    losses = neg(squeeze(gather(self, target, dim=class_dim), dims=(class_dim,)))
    losses = masked_fill(losses if weight is None else losses * counted, ignored, 0)
    if reduction == "none":
        return losses, sum_all(zeros_like(counted))
    loss, total = sum_all(losses), sum_all(counted)
    return (loss / total if reduction == "mean" else loss), total


def _nll_backward(
    grad_output: Raw, self: Raw, target: Raw, weight: Raw | None, total_weight: Raw,
    reduction: str, ignore_index: int,
) -> Raw:  # fmt: skip
    entries = _nll_entries(
        grad_output, self, target, weight, total_weight, reduction, ignore_index
    )  # fmt: skip
    return arrays.rows.place(self.shape, *entries)


def _nll_entries(
    grad_output: Raw, self: Raw, target: Raw, weight: Raw | None, total_weight: Raw,
    reduction: str, ignore_index: int,
) -> tuple[Raw, Raw]:  # fmt: skip
    """The flat indices and values of the nonzero elements of the gradient of the scores."""
    target = arrays.asarray(target)
    divisor = total_weight if reduction == "mean" else self.dtype.type(1)
    if reduction != "none" and _is_plain(self, target, weight, ignore_index):
        indices = arrays.arange(len(target)) * self.shape[1] + target
        return indices, grad_output * (-1 / divisor)
    target, factors, ignored = _weights(self, target, weight, ignore_index)
    derivatives = arrays.where(ignored, self.dtype.type(0), grad_output * (-factors / divisor))
    return _flat_indices(self.shape, target), derivatives


def cross_entropy_backward(
    grad_output: Raw, output: Raw, target: Raw, weight: Raw | None, total_weight: Raw,
    reduction: str, ignore_index: int,
) -> Raw:  # fmt: skip
    """The gradient of a matrix of scores whose log-softmax along rows is ``output``: that of
    ``nll_loss`` and ``log_softmax`` in one, to the bit."""
    entries = _nll_entries(
        grad_output, output, target, weight, total_weight, reduction, ignore_index
    )  # fmt: skip
    return arrays.rows.log_softmax_backward_at(output, *entries)


def _nll_backward_definition(
    grad_output: Any, self: Any, target: Any, weight: Any, total_weight: Any, reduction: str,
    ignore_index: int,
) -> Any:  # fmt: skip
    target, counted, ignored = _counted(self, target, weight, ignore_index)
    factors = counted / total_weight if reduction == "mean" else counted
    derivatives = unsqueeze(masked_fill(grad_output * -factors, ignored, 0), dim=_class_dim(self))
    shape = tuple(self.shape)
    return scatter_zeros(derivatives, shape=shape, dim=_class_dim(self), indices=raw(target))


# The loss is linear: the transpose of its derivative is itself, and its derivative does not bend.
nll_backward = composite(
    "nll_loss_backward", _nll_backward_definition, _nll_backward,
    inputs=("grad_output", "self", "target", "weight", "total_weight"),
    rules={
        "grad_output": lambda g, target, weight, reduction, ignore_index: nll_op(
            g, target, weight, reduction=reduction, ignore_index=ignore_index)[0],
        "self": lambda g, shape: new_zeros(g, shape),
    },
    node="NllLossBackwardBackward0",
)  # fmt: skip


def _nll_rule(
    g: Any, self: Any, target: Any, weight: Any, total_weight: Any, reduction: str,
    ignore_index: int,
) -> Any:  # fmt: skip
    if g[0] is None:  # only the total weight is asked about, which depends on no score
        return None
    return nll_backward(
        g[0], self, target, weight, total_weight, reduction=reduction, ignore_index=ignore_index
    )


def _nll_operation(name: str, node: str, word: str, where: str) -> Operation:
    return composite(
        name, _nll_definition, _nll, inputs=("self", "target", "weight"),
        outputs=("result", "total_weight"), rules={"self": _nll_rule}, node=node,
        check=lambda self, target, weight, **options: _check_nll(self, target, weight, word),
        words="The gradient, negated and divided by the number of elements averaged, goes to the "
              f"element of the target class {where}; all others get zero.",
    )  # fmt: skip


def _check_nll(self: Raw, target: Raw, weight: Raw | None, word: str) -> None:
    if target.dtype != arrays.int64 and target.dtype.name != "uint8":
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {dtypes.type_word(target.dtype)}"
        )
    if self.dtype.kind not in dtypes.FLOATS:
        kernel(word, "biuc")(self)
    if weight is not None and weight.dtype != self.dtype:
        words = (dtypes.type_word(x.dtype) for x in (self, weight))
        raise RuntimeError("expected scalar type {} but found {}".format(*words))


nll_op: Operation = _nll_operation(
    "nll_loss", "NllLossBackward0", "nll_loss_out_frame", "of each row"
)
nll_2d_op = _nll_operation(
    "nll_loss_2d", "NllLoss2DBackward0", "nll_loss2d_forward_out_frame", "at each position"
)


def _check_nll_shapes(input: Any, target: Any, weight: Any) -> None:
    shape, sizes = tuple(input.shape), tuple(target.shape)
    if not shape:
        raise ValueError(f"Expected 1 or more dimensions (got {len(shape)})")
    if len(shape) != 1 and sizes and shape[0] != sizes[0]:
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size ({sizes[0]})."
        )
    classes = shape[0] if len(shape) == 1 else shape[1]
    if len(shape) <= 2:
        if len(sizes) > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if len(shape) == 2 and not sizes:
            raise ValueError(
                f"Expected input batch_size ({shape[0]}) to match target batch_size (0)."
            )
        classified = raw(target).dtype.kind in "iu"  # the operation refuses what is not
        if len(shape) == 1 and sizes not in ((), (1,)) and classified:
            raise ValueError(
                f"For 1D input, 1D target must have size 1, but got target size: {sizes[0]}"
            )
        if weight is not None and (weight.ndim != 1 or weight.shape[0] != classes):
            raise RuntimeError(
                "weight tensor should be defined either for all "
                f"{classes} classes or no classes but got weight tensor of shape: "
                f"{list(weight.shape)}"
            )
    elif len(shape) == 4 and len(sizes) != 3:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{len(sizes)}"
        )
    elif sizes != (shape[0], *shape[2:]):
        raise RuntimeError(
            f"Expected target size {[shape[0], *shape[2:]]}, got {list(sizes)}"
            if len(shape) != 4
            else f"size mismatch (got input: {list(shape)}, target: {list(sizes)})"
        )


def _nll_loss(
    input: Any, target: Any, weight: Any, reduction: str, ignore_index: int
) -> tuple[Any, Any]:
    """The loss, and the sum of the weights of what counts."""
    _check_nll_shapes(input, target, weight)
    if weight is not None:
        not_differentiable("nll_loss_forward", "weight", weight)
    options = {"reduction": reduction, "ignore_index": ignore_index}
    if input.ndim <= 2:
        loss, total = nll_op(input, target, weight, **options)
        return loss, total
    if input.ndim == 4:
        loss, total = nll_2d_op(input, target, weight, **options)
        return loss, total
    batch, classes, *rest = input.shape
    inner = numel(rest)
    flat = reshape(input, (batch, classes, 1, inner))
    loss, total = nll_2d_op(flat, reshape(target, (batch, 1, inner)), weight, **options)
    return (reshape(loss, (batch, *rest)) if reduction == "none" else loss), total


@public("functional")
def nll_loss(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Negative log likelihood of a target class ``y``: ``-weight[y] * input[y]``.

    Args:
        input: logarithms of probabilities, of shape ``(C,)``, ``(N, C)`` or ``(N, C, ...)``.
        target: classes, of the shape of ``input`` without ``C``.
        weight: a weight for each class, of shape ``(C,)``. "mean" divides by the sum of the weights
            of the targets.
        ignore_index: target class that contributes nothing.
        reduction: "mean", "sum", or "none" for a loss per sample.

    Returns:
        The loss: a scalar, or a tensor with a loss per sample if ``reduction`` is "none".

    Example:
        >>> torch.nn.functional.nll_loss(torch.tensor([[-1.0, -2.0]]), torch.tensor([1]))
        tensor(2.)
    """
    check_int("nll_loss_nd", "ignore_index", 5, ignore_index)
    reduction = reduction_of(size_average, reduce, reduction)
    return _nll_loss(input, target, weight, reduction, ignore_index)[0]


# -- cross_entropy ---------------------------------------------------------------------------


@public("functional")
def cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Cross entropy between logits and a target class, or target probabilities.

    For a target class ``y``: ``-weight[y] * log_softmax(input)[y]``. For target probabilities
    ``p``: ``-sum_c weight[c] * p[c] * log_softmax(input)[c]``.

    Args:
        input: logits, of shape ``(C,)``, ``(N, C)`` or ``(N, C, ...)``.
        target: classes, of the shape of ``input`` without ``C``; or probabilities, of the shape of
            ``input``.
        weight: a weight for each class, of shape ``(C,)``. "mean" divides by the sum of the weights
            of the targets.
        ignore_index: target class that contributes nothing. Not for target probabilities.
        reduction: "mean", "sum", or "none" for a loss per sample.
        label_smoothing: share of the target that is spread evenly over all classes, from 0 to 1.

    Returns:
        The loss: a scalar, or a tensor with a loss per sample if ``reduction`` is "none".

    Example:
        >>> torch.nn.functional.cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
        tensor(0.6931)
    """
    check_int("cross_entropy_loss", "ignore_index", 5, ignore_index)
    reduction = reduction_of(size_average, reduce, reduction)
    class_dim = 0 if input.ndim == 1 else 1
    if tuple(input.shape) == tuple(target.shape):
        return _of_probabilities(
            input, target, weight, class_dim, reduction, ignore_index, label_smoothing
        )
    logs = log_softmax_op(input, dim=class_dim)
    if label_smoothing == 0:
        return _nll_loss(logs, target, weight, reduction, ignore_index)[0]
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    hard, total = _nll_loss(logs, target, weight, reduction, ignore_index)
    soft = logs if weight is None else logs * _as_row(weight, input.ndim)
    soft = neg(reductions.sum(soft, dim=class_dim))
    ignored = raw(target) == ignore_index
    soft = masked_fill(soft, ignored, 0)
    if reduction != "none":
        soft = reductions.sum(soft)
    if reduction == "mean":
        soft = soft / detached(total)
    share_of_soft = label_smoothing / input.shape[class_dim]
    return times(hard, number=1 - label_smoothing) + times(soft, number=share_of_soft)


@public("functional")
def linear_cross_entropy(
    input: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None, weight: Any = None,
    reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:  # fmt: skip
    """The cross entropy of a linear layer's results.

    Args:
        input: the layer's inputs, of shape ``(F,)`` or ``(N, F)``.
        linear_weight: the layer's weight, of shape ``(C, F)`` or ``(C, ..., F)``.
        target: classes or probabilities, as for ``cross_entropy``.
        linear_bias: the layer's bias, of the shape of its weight without ``F``.
        weight: a weight for each class, of shape ``(C,)``.
        reduction: "mean", "sum", or "none" for a loss per sample.
        ignore_index: target class that contributes nothing. Not for target probabilities.
        label_smoothing: share of the target that is spread evenly over all classes, from 0 to 1.
        options: accepted for compatibility: all samples are computed at once.

    Returns:
        The loss: a scalar, or a tensor with a loss per sample if ``reduction`` is "none".

    Example:
        >>> x, w = torch.ones(1, 3), torch.zeros(2, 3)
        >>> torch.nn.functional.linear_cross_entropy(x, w, torch.tensor([1]))
        tensor(0.6931)
    """
    shape = _check_layer(input, linear_weight, linear_bias)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if len(linear_weight.shape) > 2:
        count = numel(linear_weight.shape[:-1])
        linear_weight = reshape(linear_weight, (count, input.shape[-1]))
        linear_bias = None if linear_bias is None else reshape(linear_bias, (count,))
    logits = layers.linear(input, linear_weight, linear_bias)
    return cross_entropy(
        reshape(logits, shape), target, weight, reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )  # fmt: skip


def _check_layer(input: Any, weight: Any, bias: Any) -> tuple[int, ...]:
    """The shape of the logits."""
    if not 1 <= input.ndim <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if weight.ndim < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {weight.ndim}"
        )
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {weight.shape[-1]}, respectively"
        )
    out = tuple(weight.shape[:-1])
    if bias is not None and tuple(bias.shape) != out:
        raise RuntimeError(f"expected linear_bias shape {out}, got {tuple(bias.shape)}")
    if len(out) > 1 and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires "
            f"batched input, (N, {input.shape[-1]}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    return (*input.shape[:-1], *out)


def _as_row(weight: Any, ndim: int) -> Any:
    """Weights of classes, to be multiplied with an array of classes along dimension 1."""
    return weight if ndim == 1 else reshape(weight, (1, -1, *(1,) * (ndim - 2)))


def _of_probabilities(
    input: Any, target: Any, weight: Any, class_dim: int, reduction: str, ignore_index: int,
    label_smoothing: float,
) -> Any:  # fmt: skip
    if raw(target).dtype.kind not in dtypes.FLOATS:
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{dtypes.type_word(raw(target).dtype)}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    if weight is not None and (weight.ndim != 1 or weight.shape[0] != input.shape[class_dim]):
        raise RuntimeError(
            "cross_entropy: weight tensor should be defined either for all "
            f"{input.shape[class_dim]} classes or no classes but got weight tensor of shape: "
            f"{list(weight.shape)}"
        )
    if label_smoothing > 0:
        if label_smoothing > 1:
            raise RuntimeError(
                f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}"
            )
        target = plus(
            times(target, number=1 - label_smoothing),
            number=label_smoothing / input.shape[class_dim],
        )
    losses = log_softmax_op(input, dim=class_dim) * target
    if weight is not None:
        losses = losses * _as_row(weight, input.ndim)
    if reduction == "none":
        return neg(reductions.sum(losses, dim=class_dim))
    total = neg(reductions.sum(losses))
    if reduction == "sum":
        return total
    return over(total, number=numel(input.shape) // input.shape[class_dim])
