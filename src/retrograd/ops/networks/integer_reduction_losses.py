"""Losses as functions of ``torch`` itself, where the reduction is a number: 0 for none, 1 for the
mean, 2 for the sum. ``nn.functional`` has the same losses with words. Without one there is no
reduction: PyTorch's signatures say the mean, but that is not what it does."""

from __future__ import annotations

from typing import Any

from retrograd.ops._public import public
from retrograd.ops.networks import binary_cross_entropy, ctc, distances, losses

_REDUCTIONS = ("none", "mean", "sum")


def _word(reduction: int) -> str:
    if reduction not in (0, 1, 2):
        raise RuntimeError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


@public("torch")
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 0
) -> Any:
    """Binary cross entropy between logits and targets.

    The same as ``nn.functional.binary_cross_entropy_with_logits``, with a number for the reduction.

    Args:
        input: logits, of any shape.
        target: target probabilities, of the shape of ``input``.
        weight: a factor for each element, which broadcasts.
        pos_weight: a factor for the positive targets of each class, which broadcasts.
        reduction: 0 for a loss per element, 1 for the mean, 2 for the sum.

    Returns:
        The loss: a tensor with a loss per element, or a scalar if they are reduced.

    Example:
        >>> torch.binary_cross_entropy_with_logits(torch.zeros(2), torch.tensor([0.0, 1.0]))
        tensor([0.6931, 0.6931])
    """
    return binary_cross_entropy.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_word(reduction), pos_weight=pos_weight
    )


@public("torch")
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """Loss of the cosine between similar (target 1) and dissimilar (target -1) vectors.

    ``1 - cos(x1, x2)`` for a target of 1, ``max(0, cos(x1, x2) - margin)`` for a target of -1.

    Args:
        input1: the first vectors, of shape ``(N, D)`` or ``(D,)``.
        input2: the second vectors, of the same shape.
        target: 1 or -1 for each pair, of shape ``(N,)`` or ``()``.
        margin: cosine up to which dissimilar vectors cost nothing, from -1 to 1.
        reduction: 0 for a loss per pair, 1 for the mean, 2 for the sum.

    Returns:
        The loss: a tensor with a loss per pair, or a scalar if they are reduced.

    Example:
        >>> x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> torch.cosine_embedding_loss(x, y, torch.tensor([1]))
        tensor([1.])
    """
    return distances.cosine_embedding_loss(
        input1, input2, target, margin, reduction=_word(reduction)
    )


@public("torch")
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """Connectionist temporal classification loss.

    The same as ``nn.functional.ctc_loss``, with a number for the reduction.

    Args:
        log_probs: logarithms of probabilities, of shape ``(T, N, C)`` or ``(T, C)``.
        targets: labels, of shape ``(N, S)``, or those of all sequences joined.
        input_lengths: number of predictions of each sequence.
        target_lengths: number of labels of each sequence.
        blank: index of the blank label.
        reduction: 0 for a loss per sequence, 1 for the mean of the losses divided by the lengths of
            the targets, 2 for the sum.
        zero_infinity: replace infinite losses, of targets too long for their input, by zero.

    Returns:
        The loss: a tensor with a loss per sequence, or a scalar if they are reduced.

    Example:
        >>> frames = torch.full((2, 1, 2), 0.5).log()
        >>> torch.ctc_loss(frames, torch.tensor([[1]]), (2,), (1,))
        tensor([0.2877])
    """
    return ctc.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _word(reduction), zero_infinity
    )


@public("torch")
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = 0) -> Any:
    """Loss of distances between similar (target 1) and dissimilar (target -1) pairs.

    ``input`` for a target of 1, ``max(0, margin - input)`` for a target of -1.

    Args:
        input: distances.
        target: 1 for similar pairs, -1 for dissimilar ones.
        margin: distance from which on dissimilar pairs cost nothing.
        reduction: 0 for a loss per element, 1 for the mean, 2 for the sum.

    Returns:
        The loss: a tensor with a loss per element, or a scalar if they are reduced.

    Example:
        >>> torch.hinge_embedding_loss(torch.tensor([0.5, 0.25]), torch.tensor([1, -1]))
        tensor([0.5000, 0.7500])
    """
    return losses.hinge_embedding_loss(input, target, margin, reduction=_word(reduction))


@public("torch")
def kl_div(input: Any, target: Any, reduction: int = 0, *, log_target: bool = False) -> Any:
    """Kullback-Leibler divergence: ``target * (log(target) - input)`` for each element.

    Args:
        input: logarithms of the predicted probabilities.
        target: the true probabilities, of the shape of ``input``.
        reduction: 0 for a loss per element, 1 for the mean, 2 for the sum.
        log_target: whether the target holds logarithms of probabilities, too.

    Returns:
        The loss: a tensor with a loss per element, or a scalar if they are reduced.

    Example:
        >>> torch.kl_div(torch.tensor([0.5, 0.5]).log(), torch.tensor([1.0, 0.0]), 2)
        tensor(0.6931)
    """
    return losses.kl_div(input, target, reduction=_word(reduction), log_target=log_target)


@public("torch")
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """Loss of the order of two scores: ``max(0, -target * (input1 - input2) + margin)``.

    Args:
        input1: the first scores.
        input2: the second scores. The shapes broadcast.
        target: 1 if the first score should be larger, -1 if the second should.
        margin: by how much the one score should exceed the other.
        reduction: 0 for a loss per pair, 1 for the mean, 2 for the sum.

    Returns:
        The loss: a tensor with a loss per pair, or a scalar if they are reduced.

    Example:
        >>> torch.margin_ranking_loss(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([1]))
        tensor([1.])
    """
    return distances.ranking_loss(input1, input2, target, margin, _word(reduction))


@public("torch")
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
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
        reduction: 0 for a loss per element, 1 for the mean, 2 for the sum.

    Returns:
        The loss: a tensor with a loss per element, or a scalar if they are reduced.

    Example:
        >>> torch.poisson_nll_loss(torch.tensor([0.0]), torch.tensor([2.0]), True, False, 1e-8, 1)
        tensor(1.)
    """
    return losses.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_word(reduction)
    )


@public("torch")
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Any:  # fmt: skip
    """Triplet loss: ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    ``d`` is the distance that ``pairwise_distance`` computes.

    Args:
        anchor: vectors to compare with, of shape ``(N, D)`` or ``(D,)``.
        positive: vectors that should be near.
        negative: vectors that should be far.
        margin: by how much farther the negative example should be; positive.
        p: order of the norm.
        eps: added to the differences, see ``pairwise_distance``.
        swap: use ``d(positive, negative)`` where it is smaller than ``d(anchor, negative)``.
        reduction: 0 for a loss per triple, 1 for the mean, 2 for the sum.

    Returns:
        The loss: a tensor with a loss per triple, or a scalar if they are reduced.

    Example:
        >>> anchor, near, far = torch.zeros(1, 2), torch.zeros(1, 2), torch.tensor([[0.5, 0.0]])
        >>> torch.triplet_margin_loss(anchor, near, far)
        tensor([0.5000])
    """
    return distances.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_word(reduction)
    )
