"""Losses as functions of ``torch`` itself, where the reduction is a number: 0 for none, 1 for the
mean, 2 for the sum. ``nn.functional`` has the same losses with words. Without one there is no
reduction: PyTorch's signatures say the mean, but that is not what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from retrograd.ops._dims import broadcast
from retrograd.ops._public import public
from retrograd.ops._sections import like, sections
from retrograd.ops.linear import expand
from retrograd.ops.networks import binary_cross_entropy, ctc, distances, losses

_REDUCTIONS = ("none", "mean", "sum")
T = TypeVar("T", bound=Callable[..., Any])


def _word(reduction: int) -> str:
    if reduction not in (0, 1, 2):
        raise RuntimeError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


def _numbered(source: Callable[..., Any]) -> Callable[[T], T]:
    """Make a loss public whose arguments mean the same as those of ``source``, but for one."""

    def insert(loss: T) -> T:
        sections("Returns:\n    A tensor of losses, or a scalar if they are reduced.\n")(loss)
        like(source, reduction="0 for no reduction, 1 for the mean, 2 for the sum.")(loss)
        return public("torch")(loss)

    return insert


@_numbered(binary_cross_entropy.binary_cross_entropy_with_logits)
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 0
) -> Any:
    """Binary cross entropy between logits and targets.

    The same as ``nn.functional.binary_cross_entropy_with_logits``, with a number for the reduction.

    Example:
        >>> torch.binary_cross_entropy_with_logits(torch.zeros(2), torch.tensor([0.0, 1.0]))
        tensor([0.6931, 0.6931])
    """
    shape = tuple(target.shape)
    if tuple(input.shape) != shape:  # which is an error there
        common = broadcast(shape, tuple(input.shape))
        if common != shape:
            raise RuntimeError(
                f"output with shape {list(shape)} doesn't match the broadcast shape {list(common)}"
            )
        input = expand(input, size=shape)
    return binary_cross_entropy.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_word(reduction), pos_weight=pos_weight
    )


@_numbered(distances.cosine_embedding_loss)
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """Loss of the cosine between similar (target 1) and dissimilar (target -1) vectors.

    ``1 - cos(x1, x2)`` for a target of 1, ``max(0, cos(x1, x2) - margin)`` for a target of -1.

    Example:
        >>> x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> torch.cosine_embedding_loss(x, y, torch.tensor([1]))
        tensor([1.])
    """
    return distances.cosine_embedding_loss(
        input1, input2, target, margin, reduction=_word(reduction)
    )


@_numbered(ctc.ctc_loss)
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """Connectionist temporal classification loss.

    The same as ``nn.functional.ctc_loss``, with a number for the reduction.

    Args:
        reduction: 0 for a loss per sequence, 1 for the mean of the losses divided by the lengths of
            the targets, 2 for the sum.

    Example:
        >>> frames = torch.full((2, 1, 2), 0.5).log()
        >>> torch.ctc_loss(frames, torch.tensor([[1]]), (2,), (1,))
        tensor([0.2877])
    """
    return ctc.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _word(reduction), zero_infinity
    )


@_numbered(losses.hinge_embedding_loss)
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = 0) -> Any:
    """Loss of distances between similar (target 1) and dissimilar (target -1) pairs.

    ``input`` for a target of 1, ``max(0, margin - input)`` for a target of -1.

    Example:
        >>> torch.hinge_embedding_loss(torch.tensor([0.5, 0.25]), torch.tensor([1, -1]))
        tensor([0.5000, 0.7500])
    """
    return losses.hinge_embedding_loss(input, target, margin, reduction=_word(reduction))


@_numbered(losses.kl_div)
def kl_div(input: Any, target: Any, reduction: int = 0, *, log_target: bool = False) -> Any:
    """Kullback-Leibler divergence: ``target * (log(target) - input)`` for each element.

    Example:
        >>> torch.kl_div(torch.tensor([0.5, 0.5]).log(), torch.tensor([1.0, 0.0]), 2)
        tensor(0.6931)
    """
    return losses.kl_div(input, target, reduction=_word(reduction), log_target=log_target)


@_numbered(distances.margin_ranking_loss)
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """Loss of the order of two scores: ``max(0, -target * (input1 - input2) + margin)``.

    Example:
        >>> torch.margin_ranking_loss(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([1]))
        tensor([1.])
    """
    return distances.ranking_loss(input1, input2, target, margin, _word(reduction))


@_numbered(losses.poisson_nll_loss)
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    """Negative log likelihood of counts with a Poisson distribution.

    ``exp(input) - target * input`` if ``log_input``, else ``input - target * log(input + eps)``.
    The constant term ``log(target!)`` is omitted, or approximated if ``full``.

    Example:
        >>> torch.poisson_nll_loss(torch.tensor([0.0]), torch.tensor([2.0]), True, False, 1e-8, 1)
        tensor(1.)
    """
    return losses.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_word(reduction)
    )


@_numbered(distances.triplet_margin_loss)
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Any:  # fmt: skip
    """Triplet loss: ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    ``d`` is the distance that ``pairwise_distance`` computes.

    Example:
        >>> anchor, near, far = torch.zeros(1, 2), torch.zeros(1, 2), torch.tensor([[0.5, 0.0]])
        >>> torch.triplet_margin_loss(anchor, near, far)
        tensor([0.5000])
    """
    return distances.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_word(reduction)
    )
