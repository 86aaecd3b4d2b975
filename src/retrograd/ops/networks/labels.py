"""Losses by margins between classes, and of several labels at once."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear, reducing
from retrograd.ops._batching import BatchLevel
from retrograd.ops._dims import numel
from retrograd.ops._operation import Operation, raw
from retrograd.ops._refusals import kernel, without_complex_history
from retrograd.ops.elementwise import exp
from retrograd.ops.networks.curves import logsigmoid
from retrograd.ops.networks.losses import (
    check_fits_input,
    in_dtype_of,
    moved_losses,
    not_differentiable,
    of_many,
    reduced,
    reduced_entries,
    reduced_raw,
    reduction_of,
    share,
)

# -- margins ---------------------------------------------------------------------------------


def _margins(self: Raw, target: Raw, margin: float) -> Raw:
    """What each class lacks to be a margin below the right one; nothing for that itself."""
    rows = arrays.arange(len(self))
    lack = margin - self[rows, target][:, None] + self
    lack = arrays.where(lack > 0, lack, self.dtype.type(0))  # NaN lacks nothing, as in PyTorch
    lack[rows, target] = 0
    return lack


def _as_rows(self: Raw, target: Raw) -> tuple[Raw, Raw]:
    x = arrays.reshape(self, (1, -1)) if self.ndim <= 1 else self
    return x, arrays.reshape(target, (-1,)) if self.ndim > 1 else arrays.reshape(target, (1, -1))


def _multi_margin(
    self: Raw, target: Raw, weight: Raw | None, p: int, margin: float, reduction: str
) -> Raw:
    x, target = _as_rows(self, target)[0], arrays.reshape(target, (-1,))
    losses = _margins(x, target, margin) ** p
    if weight is not None:
        losses = losses * weight[target][:, None]
    losses = arrays.sum(losses, 1) / x.dtype.type(x.shape[1])
    return reduced_raw(losses if self.ndim > 1 else losses[0], reduction)


def _multi_margin_rule(
    g: Any, self: Any, target: Any, weight: Any, p: int, margin: float, reduction: str
) -> Any:
    return margin_slope(
        g, self, target=raw(target), weight=None if weight is None else raw(weight), p=p,
        margin=margin, reduction=reduction,
    )  # fmt: skip


def _margin_slope(
    grad_output: Raw, self: Raw, target: Raw, weight: Raw | None, p: int, margin: float,
    reduction: str,
) -> Raw:  # fmt: skip
    x, target = _as_rows(self, target)[0], arrays.reshape(target, (-1,))
    lack = _margins(x, target, margin)
    slope = arrays.cast(lack > 0, x.dtype) if p == 1 else 2 * lack
    if weight is not None:
        slope = slope * weight[target][:, None]
    slope[arrays.arange(len(x)), target] = -arrays.sum(slope, 1)
    slope = slope / x.dtype.type(x.shape[1] * (len(x) if reduction == "mean" else 1))
    g = arrays.reshape(grad_output, (-1, 1))
    return arrays.reshape(slope * g, self.shape)


def _all_rows(level: BatchLevel, x: Any) -> Any:
    """The rows of all entries, whose last dimension they are."""
    x = level.stacked(x)
    return linear.reshape(x, (numel(x.shape[:-1]), x.shape[-1]))


def _own_weights(level: BatchLevel, weight: Any, target: Any) -> Any:
    """The weights of the classes of each entry, one for each of its rows."""
    rows = linear.reshape(level.stacked(target), (level.size, numel(target.shape)))
    return linear.gather(weight.value, rows, dim=1)


def _margins_of_many(
    level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]
) -> Any:
    self, target, weight = args
    flat = linear.reshape(level.stacked(target), (-1,))
    shared = None if level.owns(weight) else weight
    losses = op(_all_rows(level, self), flat, shared, **{**options, "reduction": "none"})
    losses = linear.reshape(losses, (level.size, *self.shape[:-1]))
    if level.owns(weight):
        factors = _own_weights(level, weight, target)
        losses = losses * linear.reshape(factors, tuple(losses.shape))
    return reduced_entries(losses, options["reduction"])


def _row_gradients(level: BatchLevel, grad_output: Any, self: Any, reduction: str) -> Any:
    """The gradient of the loss of each row of each entry."""
    rows = numel(self.shape[:-1])
    g = level.stacked(grad_output)
    if reduction == "none":  # one for each row, or one for all, as tangents ask for
        each = linear.reshape(g, (level.size, numel(grad_output.shape)))
        return linear.expand(each, size=(level.size, rows))
    return linear.expand(linear.reshape(share(g, (rows,), reduction), (level.size, 1)),
                         size=(level.size, rows))  # fmt: skip


def _slope_of_many(
    level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]
) -> Any:
    """The gradients of all rows, each by what it counts for in its entry."""
    g, self = args
    rows = _row_gradients(level, g, self, options["reduction"])
    target, weight = options["target"], options.get("weight")
    if level.owns(weight):
        rows = rows * _own_weights(level, weight, target)
        options = {**options, "weight": None}
    given = {**options, "target": raw(level.stacked(target)), "reduction": "none"}
    found = op(linear.reshape(rows, (-1,)), _all_rows(level, self), **given)
    return linear.reshape(found, (level.size, *self.shape))


def _not_twice(name: str) -> Any:
    def rule(g: Any) -> Any:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return rule


def _once(name: str, forward: Any) -> Operation:
    """The rule of an operation that cannot be differentiated twice."""
    refused = _not_twice(f"{name}_backward")
    return Operation(
        f"{name}_slope", forward, inputs=("grad_output", "self"),
        rules={"grad_output": refused, "self": refused}, node="NotImplemented",
        batch=_slope_of_many,
    )  # fmt: skip


margin_slope = _once("multi_margin_loss", _margin_slope)


def along_slope(t: Any, unit: Any, reduction: str) -> Any:
    """How losses of rows move with ``t``, given their slopes."""
    moved = t * unit
    rows = reduction == "none" and len(moved.shape) > 1
    return reducing.sum(moved, dim=-1) if rows else reducing.sum(moved)


def _multi_margin_jvp(
    t: Any, self: Any, target: Any, weight: Any, p: int, margin: float, reduction: str
) -> Any:
    if t[0] is None:
        return None
    one = raw(self).dtype.type(1)
    unit = _multi_margin_rule(one, self, target, weight, p, margin, reduction)
    return along_slope(t[0], unit, reduction)


multi_margin_op = Operation(
    "multi_margin_loss", _multi_margin, inputs=("self", "target", "weight"),
    rules={"self": _multi_margin_rule}, jvp=_multi_margin_jvp, batch=_margins_of_many,
    check=lambda self, *others, **options: kernel("multi_margin_loss_cpu_kernel", "biuc")(self),
)  # fmt: skip


def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """What the other classes lack to be ``margin`` below the right one, on average.

    >>> import retrograd as torch
    >>> torch.nn.functional.multi_margin_loss(torch.tensor([[0.0, 0.5]]), torch.tensor([0]))
    tensor(0.7500)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if raw(target).dtype != arrays.int64:
        found = arrays.dtypes.type_word(raw(target).dtype)
        raise RuntimeError(f"expected scalar type Long but found {found}")
    not_differentiable("multi_margin_loss", "weight", weight)
    return multi_margin_op(input, target, weight, p=p, margin=margin, reduction=reduction)


# -- several labels --------------------------------------------------------------------------


def _labels(target: Raw, classes: int) -> tuple[Raw, Raw]:
    """For each row of labels, up to the first -1: which count, and the classes among them."""
    rows = arrays.reshape(target, (-1, classes))
    counts = arrays.cumsum(rows == -1, 1) == 0
    is_target = arrays.zeros(rows.shape, arrays.bool_)
    at = arrays.nonzero(counts)
    is_target[at[0], rows[at]] = True
    return counts, is_target


def _lacks(x: Raw, target: Raw) -> tuple[Raw, Raw, Raw]:
    """For each label and each other class: what the latter lacks to be 1 below. And the labels,
    and whether they count."""
    rows = arrays.reshape(target, x.shape)
    counts, is_target = _labels(target, x.shape[1])
    labels = arrays.where(counts, rows, 0)
    values = arrays.take_along(x, labels, 1)
    lack = 1 - values[:, :, None] + x[:, None, :]
    # Chosen, not multiplied by zero, which would make NaN of an infinity that does not count.
    matters = counts[:, :, None] & arrays.logical_not(is_target)[:, None, :] & (lack > 0)
    lack = arrays.where(matters, lack, x.dtype.type(0))
    return lack, labels, is_target


def _rows(self: Raw) -> Raw:
    return arrays.reshape(self, (1, -1)) if self.ndim <= 1 else self


def _multilabel(self: Raw, target: Raw, reduction: str) -> tuple[Raw, Raw]:
    x = _rows(self)
    lack, _, is_target = _lacks(x, target)
    losses = arrays.sum(lack, (1, 2)) / x.dtype.type(x.shape[1])
    losses = reduced_raw(losses if self.ndim > 1 else losses[0], reduction)
    return losses, arrays.reshape(arrays.cast(is_target, x.dtype), self.shape)


def _multilabel_slope(grad_output: Raw, self: Raw, target: Raw, reduction: str) -> Raw:
    x = _rows(self)
    lack, labels, _ = _lacks(x, target)
    active = arrays.cast(lack > 0, x.dtype)
    slope = arrays.sum(active, 1)
    by_label = arrays.sum(active, 2)
    places = arrays.arange(len(x))[:, None] * x.shape[1] + labels
    slope = slope - arrays.add_flat(x.shape, places, by_label)
    slope = slope / x.dtype.type(x.shape[1] * (len(x) if reduction == "mean" else 1))
    return arrays.reshape(slope * arrays.reshape(grad_output, (-1, 1)), self.shape)


multilabel_slope = _once("multilabel_margin_loss", _multilabel_slope)


def _multilabel_jvp(t: Any, self: Any, target: Any, reduction: str) -> Any:
    one = raw(self).dtype.type(1)
    unit = multilabel_slope(one, self, target=raw(target), reduction=reduction)
    return along_slope(t[0], unit, reduction), None


def _labels_of_many(
    level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]
) -> Any:
    shape = args[0].shape
    rows = (_all_rows(level, x) for x in args)
    losses, is_target = op(*rows, **{**options, "reduction": "none"})
    losses = linear.reshape(losses, (level.size, *shape[:-1]))
    is_target = linear.reshape(is_target, (level.size, *shape))
    return reduced_entries(losses, options["reduction"]), is_target


multilabel_op = Operation(
    "multilabel_margin_loss", _multilabel, inputs=("self", "target"),
    outputs=("result", "is_target"),
    rules={"self": lambda g, self, target, is_target, reduction: multilabel_slope(
        g[0], self, target=raw(target), reduction=reduction)},
    jvp=_multilabel_jvp, batch=_labels_of_many,
    check=lambda self, *others, **options: kernel(
        "multilabel_margin_loss_forward_out_frame", "biuc")(self),
)  # fmt: skip


def multilabel_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """What the other classes lack to be 1 below each of the labels, which end with a -1.

    >>> import retrograd as torch
    >>> scores, labels = torch.tensor([[0.5, 0.0, 0.0]]), torch.tensor([[0, -1, 1]])
    >>> torch.nn.functional.multilabel_margin_loss(scores, labels)
    tensor(0.3333)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return multilabel_op(input, target, reduction=reduction)[0]


def _soft_margin(self: Raw, target: Raw, reduction: str) -> Raw:
    return reduced_raw(arrays.log1p(arrays.exp(-target * self)), reduction)


def _soft_margin_rule(g: Any, self: Any, target: Any, reduction: str) -> Any:
    z = exp(-target * self)
    return -target * (z / (z + 1)) * share(g, self.shape, reduction)


def _soft_margin_tangent(t: Any, self: Any, target: Any, reduction: str) -> Any:
    moved = None if t[0] is None else _soft_margin_rule(t[0], self, target, "none")
    by_target = None if t[1] is None else _soft_margin_rule(t[1], target, self, "none")
    return moved_losses([moved, by_target], reduction)


soft_margin_op = Operation(
    "soft_margin_loss", _soft_margin, inputs=("self", "target"),
    rules={"self": _soft_margin_rule}, dtypes="promote", broadcasts=True, batch=of_many,
    jvp=_soft_margin_tangent,
)  # fmt: skip


def soft_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """The mean of ``log(1 + exp(-target * input))``, for targets 1 and -1.

    >>> import retrograd as torch
    >>> torch.nn.functional.soft_margin_loss(torch.tensor([0.0]), torch.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    not_differentiable("soft_margin_loss", "target", target, forward=True)
    without_complex_history("soft_margin_loss", input)
    check_fits_input(input, target)
    return in_dtype_of(input, soft_margin_op(input, target, reduction=reduction))


def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """``binary_cross_entropy_with_logits``, averaged over the classes first.

    >>> import retrograd as torch
    >>> F = torch.nn.functional
    >>> F.multilabel_soft_margin_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    last = input.ndim - 1
    return reduced(reducing.sum(loss, dim=last) / input.shape[last], reduction)
