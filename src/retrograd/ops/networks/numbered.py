"""Losses as functions of ``torch`` itself, where the reduction is a number: 0 for none, 1 for the
mean, 2 for the sum. ``nn.functional`` has the same losses with words. Without one there is no
reduction: PyTorch's signatures say the mean, but that is not what it does."""

from __future__ import annotations

from typing import Any

from retrograd.ops._public import public
from retrograd.ops.networks import classification, ctc, distances, losses

_REDUCTIONS = ("none", "mean", "sum")


def _word(reduction: int) -> str:
    if reduction not in (0, 1, 2):
        raise RuntimeError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


@public("torch")
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 0
) -> Any:
    """How unlikely the chances whose logits are given make yes or no.

    >>> import retrograd as torch
    >>> torch.binary_cross_entropy_with_logits(torch.zeros(2), torch.tensor([0.0, 1.0]))
    tensor([0.6931, 0.6931])
    """
    return classification.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_word(reduction), pos_weight=pos_weight
    )


@public("torch")
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """How far angles are from those that the targets, 1 or -1, ask for."""
    return distances.cosine_embedding_loss(
        input1, input2, target, margin, reduction=_word(reduction)
    )


@public("torch")
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """How unlikely frames make a sequence of labels, however they are drawn out."""
    return ctc.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _word(reduction), zero_infinity
    )


@public("torch")
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = 0) -> Any:
    """Distances of what belongs together, and what others lack to a margin."""
    return losses.hinge_embedding_loss(input, target, margin, reduction=_word(reduction))


@public("torch")
def kl_div(input: Any, target: Any, reduction: int = 0, *, log_target: bool = False) -> Any:
    """How much a distribution says that another, given by its logarithm, does not.

    >>> import retrograd as torch
    >>> torch.kl_div(torch.tensor([0.5, 0.5]).log(), torch.tensor([1.0, 0.0]), 2)
    tensor(0.6931)
    """
    return losses.kl_div(input, target, reduction=_word(reduction), log_target=log_target)


@public("torch")
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """What the one that should be greater lacks to be so by a margin."""
    return distances.ranking_loss(input1, input2, target, margin, _word(reduction))


@public("torch")
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    """How unlikely Poisson distributions make counts."""
    return losses.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_word(reduction)
    )


@public("torch")
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Any:  # fmt: skip
    """What a stranger lacks to be farther away than a relative by a margin."""
    return distances.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_word(reduction)
    )
