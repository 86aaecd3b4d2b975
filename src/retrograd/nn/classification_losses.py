"""Losses of classification: one class, several, yes or no, distributions, sequences of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.nn._loss import SAME_SHAPE, Loss, WeightedLoss
from retrograd.ops._sections import sections
from retrograd.tensor._tensor import Tensor


class CrossEntropyLoss(WeightedLoss, function="cross_entropy"):
    """Cross entropy between logits and a target class, or target probabilities.

    For a target class ``y``: ``-weight[y] * log_softmax(input)[y]``. For target probabilities
    ``p``: ``-sum_c weight[c] * p[c] * log_softmax(input)[c]``.

    Args:
        weight: a weight for each class, of shape ``(C,)``. "mean" divides by the sum of the
            weights of the targets.
        ignore_index: target class that contributes nothing. Not for target probabilities.
        reduction: "mean", "sum", or "none" for a loss per sample.
        label_smoothing: share of the target that is spread evenly over all classes, from 0 to 1.

    Shape:
        Input: ``(C,)``, ``(N, C)`` or ``(N, C, d1, ..., dk)``.
        Target: class indices, the shape of the input without ``C``; or probabilities, the shape
        of the input.
        Output: a scalar; the shape of the input without ``C`` for "none".

    Example:
        >>> torch.nn.CrossEntropyLoss()(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
        tensor(0.1269)
    """

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction, ignore_index=ignore_index,
                         label_smoothing=label_smoothing)  # fmt: skip


class NLLLoss(WeightedLoss, function="nll_loss"):
    """Negative log likelihood of a target class ``y``: ``-weight[y] * input[y]``.

    Args:
        weight: a weight for each class, of shape ``(C,)``. "mean" divides by the sum of the
            weights of the targets.
        ignore_index: target class that contributes nothing.
        reduction: "mean", "sum", or "none" for a loss per sample.

    Shape:
        Input: log probabilities, ``(C,)``, ``(N, C)`` or ``(N, C, d1, ..., dk)``.
        Target: class indices, the shape of the input without ``C``.
        Output: a scalar; the shape of the target for "none".

    Example:
        >>> log_probabilities = torch.tensor([[0.25, 0.75]]).log()
        >>> torch.nn.NLLLoss()(log_probabilities, torch.tensor([1]))
        tensor(0.2877)
    """

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction, ignore_index=ignore_index)


@sections(SAME_SHAPE)
class KLDivLoss(Loss, function="kl_div"):
    """Kullback-Leibler divergence: ``target * (log(target) - input)`` for each element.

    The input is the logarithm of the predicted probabilities; the target holds the true ones.
    "mean" divides by the number of elements, which is not the divergence; use "batchmean".

    Args:
        reduction: "batchmean" (the sum divided by the size of the first dimension), "mean",
            "sum", or "none" for a value per element.
        log_target: whether the target holds logarithms of probabilities, too.

    Example:
        >>> loss = torch.nn.KLDivLoss(reduction="batchmean")
        >>> loss(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 0.0]]))
        tensor(0.6931)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", log_target: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, log_target=log_target)


class BCELoss(WeightedLoss, function="binary_cross_entropy"):
    """Binary cross entropy of probabilities.

    ``-weight * (target * log(input) + (1 - target) * log(1 - input))``, with logarithms clamped
    from below by -100. ``BCEWithLogitsLoss`` is more accurate.

    Args:
        weight: a factor for each element, of a shape that broadcasts with the input.

    Shape:
        Input and target: the same shape, any; elements from 0 to 1.
        Output: a scalar; the shape of the input for "none".

    Example:
        >>> torch.nn.BCELoss()(torch.tensor([0.5, 0.9]), torch.tensor([0.0, 1.0]))
        tensor(0.3993)
    """

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)


class BCEWithLogitsLoss(Loss, function="binary_cross_entropy_with_logits"):
    """Binary cross entropy of logits: ``BCELoss`` of their sigmoid, without overflow.

    Args:
        weight: a factor for each element, of a shape that broadcasts with the input.
        pos_weight: a factor for the term of positive targets, of a shape that broadcasts.

    Shape:
        Input and target: the same shape, any; targets from 0 to 1.
        Output: a scalar; the shape of the input for "none".

    Example:
        >>> torch.nn.BCEWithLogitsLoss()(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 1.0]))
        tensor(0.4100)
    """

    weights = ("weight", "pos_weight")

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", pos_weight: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, weight=weight, pos_weight=pos_weight)


@sections(SAME_SHAPE)
class SoftMarginLoss(Loss, function="soft_margin_loss"):
    """Logistic loss of targets 1 and -1: ``log(1 + exp(-target * input))``.

    Example:
        >>> torch.nn.SoftMarginLoss()(torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 1.0]))
        tensor(0.4100)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)


class MultiLabelMarginLoss(SoftMarginLoss, function="multilabel_margin_loss"):
    """Hinge loss of samples with several target classes.

    ``sum over targets y and other classes i of max(0, 1 - (input[y] - input[i])) / C``.

    Args:
        reduction: "mean", "sum", or "none" for a loss per sample.

    Shape:
        Input: ``(N, C)`` or ``(C,)``.
        Target: the same shape; the indices of the target classes, then -1 to the end.
        Output: a scalar; ``(N,)`` or ``()`` for "none".

    Example:
        >>> scores, target = torch.tensor([0.1, 0.2, 0.4, 0.8]), torch.tensor([3, 0, -1, -1])
        >>> torch.nn.MultiLabelMarginLoss()(scores, target)
        tensor(0.8500)
    """


class MultiLabelSoftMarginLoss(BCELoss, function="multilabel_soft_margin_loss"):
    """``BCEWithLogitsLoss`` averaged over the classes of each sample.

    Args:
        weight: a weight for each class, of shape ``(C,)``.
        reduction: "mean", "sum", or "none" for a loss per sample.

    Shape:
        Input and target: ``(N, C)``; targets 0 or 1.
        Output: a scalar; ``(N,)`` for "none".

    Example:
        >>> loss = torch.nn.MultiLabelSoftMarginLoss()
        >>> loss(torch.tensor([[0.0, 2.0]]), torch.tensor([[0.0, 1.0]]))
        tensor(0.4100)
    """


class MultiMarginLoss(WeightedLoss, function="multi_margin_loss"):
    """Multi-class hinge loss.

    For a target class ``y``: ``sum over i != y of max(0, margin - input[y] + input[i])**p / C``,
    times ``weight[y]``.

    Args:
        p: exponent, 1 or 2.
        margin: by how much the score of the target should exceed the others.
        weight: a weight for each class, of shape ``(C,)``.
        reduction: "mean", "sum", or "none" for a loss per sample.

    Shape:
        Input: ``(N, C)`` or ``(C,)``. Target: class indices, ``(N,)`` or ``()``.
        Output: a scalar; the shape of the target for "none".

    Example:
        >>> torch.nn.MultiMarginLoss()(torch.tensor([[0.1, 0.2, 0.8]]), torch.tensor([2]))
        tensor(0.2333)
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Any = None,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction, p=p, margin=margin)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                "MultiMarginLoss: expected weight to be None or 1D tensor, got "
                f"{weight.dim()}D instead"
            )


class CTCLoss(Loss, function="ctc_loss"):
    """Connectionist temporal classification: negative log likelihood of a sequence of labels,
    summed over all its alignments with a longer sequence of predictions.

    Args:
        blank: index of the blank label.
        reduction: "mean" (of the losses divided by the lengths of the targets), "sum", or "none"
            for a loss per sequence.
        zero_infinity: replace infinite losses, of targets too long for their input, by zero.

    Shape:
        log_probs: ``(T, N, C)`` or ``(T, C)``, log probabilities of each label at each time.
        targets: ``(N, S)``, or all targets in one row, ``(sum(target_lengths),)``.
        input_lengths, target_lengths: ``(N,)`` or ``()``.
        Output: a scalar; ``(N,)`` or ``()`` for "none".

    Example:
        >>> log_probs = torch.zeros(4, 1, 3).log_softmax(2)
        >>> target = torch.tensor([[1, 2]])
        >>> torch.nn.CTCLoss()(log_probs, target, torch.tensor([4]), torch.tensor([2]))
        tensor(0.8432)
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(None, None, reduction, blank=blank, zero_infinity=zero_infinity)

    def forward(  # type: ignore[override]
        self, log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        return self._of(log_probs, targets, input_lengths, target_lengths)


__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CrossEntropyLoss", "KLDivLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss",
    "SoftMarginLoss",
]  # fmt: skip
