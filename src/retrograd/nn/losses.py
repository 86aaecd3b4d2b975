"""Losses of regression and of pairs of vectors, and distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.nn import functional as F
from retrograd.nn._loss import SAME_SHAPE, Loss
from retrograd.nn.module import Module
from retrograd.ops._sections import sections
from retrograd.tensor._tensor import Tensor

# -- regression ----------------------------------------------------------------------------------


@sections(SAME_SHAPE)
class L1Loss(Loss, function="l1_loss"):
    """Absolute error: ``abs(input - target)``.

    Example:
        >>> torch.nn.L1Loss()(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0]))
        tensor(1.)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)


@sections(SAME_SHAPE)
class MSELoss(L1Loss, function="mse_loss"):
    """Squared error: ``(input - target)**2``.

    Example:
        >>> torch.nn.MSELoss()(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0]))
        tensor(2.)
    """


@sections(SAME_SHAPE)
class SmoothL1Loss(Loss, function="smooth_l1_loss"):
    """Squared error for small differences, absolute error for large ones.

    With ``d = abs(input - target)``: ``0.5 * d**2 / beta`` if ``d < beta``, else
    ``d - 0.5 * beta``.

    Args:
        beta: difference at which the two parts meet; 0 gives ``L1Loss``.

    Example:
        >>> loss = torch.nn.SmoothL1Loss(reduction="none")
        >>> loss(torch.tensor([0.5, 3.0]), torch.tensor([0.0, 0.0]))
        tensor([0.1250, 2.5000])
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", beta: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, beta=beta)


@sections(SAME_SHAPE)
class HuberLoss(Loss, function="huber_loss"):
    """Huber loss: ``delta`` times ``SmoothL1Loss(beta=delta)``.

    With ``d = abs(input - target)``: ``0.5 * d**2`` if ``d < delta``, else
    ``delta * (d - 0.5 * delta)``.

    Args:
        delta: difference at which the two parts meet; positive.

    Example:
        >>> loss = torch.nn.HuberLoss(reduction="none", delta=2.0)
        >>> loss(torch.tensor([0.5, 3.0]), torch.tensor([0.0, 0.0]))
        tensor([0.1250, 4.0000])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(None, None, reduction, delta=delta)


@sections(SAME_SHAPE)
class PoissonNLLLoss(Loss, function="poisson_nll_loss"):
    """Negative log likelihood of counts with a Poisson distribution.

    ``exp(input) - target * input`` if ``log_input``, else ``input - target * log(input + eps)``.
    The constant term ``log(target!)`` is omitted, or approximated if ``full``.

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: add Stirling's approximation ``target * log(target) - target +
            0.5 * log(2 * pi * target)`` for targets above 1.
        eps: added to the rate before the logarithm, if ``log_input`` is False.

    Example:
        >>> torch.nn.PoissonNLLLoss()(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]))
        tensor(0.3591)
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: bool | None = None,
        eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, log_input=log_input, full=full, eps=eps)


class GaussianNLLLoss(Loss, function="gaussian_nll_loss"):
    """Negative log likelihood of targets with a normal distribution of given mean and variance.

    ``0.5 * (log(var) + (input - target)**2 / var)``, with ``var`` clamped from below by ``eps``.

    Args:
        full: add the constant ``0.5 * log(2 * pi)``.
        eps: lower bound of the variance.

    Shape:
        Input (the mean) and target: the same shape, or such that they broadcast.
        var: the shape of the input, or with 1 for its last dimension, or without that dimension.
        Output: a scalar; the shape of the input for "none".

    Example:
        >>> mean, target = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])
        >>> torch.nn.GaussianNLLLoss()(mean, target, torch.tensor([1.0, 4.0]))
        tensor(0.5966)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction, full=full, eps=eps)

    def forward(  # type: ignore[override]
        self, input: Tensor, target: Tensor, var: Tensor | float
    ) -> Tensor:
        return self._of(input, target, var)


# -- pairs and triples -----------------------------------------------------------------------------


@sections(SAME_SHAPE)
class HingeEmbeddingLoss(Loss, function="hinge_embedding_loss"):
    """Loss of distances between similar (target 1) and dissimilar (target -1) pairs.

    ``input`` for a target of 1, ``max(0, margin - input)`` for a target of -1.

    Args:
        margin: distance from which on dissimilar pairs cost nothing.

    Example:
        >>> torch.nn.HingeEmbeddingLoss()(torch.tensor([0.5, 0.25]), torch.tensor([1.0, -1.0]))
        tensor(0.6250)
    """

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, margin=margin)


class _Pair(Loss):
    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, margin=margin)

    def forward(  # type: ignore[override]
        self, input1: Tensor, input2: Tensor, target: Tensor
    ) -> Tensor:
        return self._of(input1, input2, target)


class CosineEmbeddingLoss(_Pair, function="cosine_embedding_loss"):
    """Loss of the cosine between similar (target 1) and dissimilar (target -1) vectors.

    ``1 - cos(x1, x2)`` for a target of 1, ``max(0, cos(x1, x2) - margin)`` for a target of -1.

    Args:
        margin: cosine up to which dissimilar vectors cost nothing, from -1 to 1.
        reduction: "mean", "sum", or "none" for a loss per pair.

    Shape:
        input1, input2: ``(N, D)`` or ``(D,)``. Target: ``(N,)`` or ``()``.
        Output: a scalar; the shape of the target for "none".

    Example:
        >>> x1, x2 = torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]])
        >>> torch.nn.CosineEmbeddingLoss()(x1, x2, torch.tensor([1.0]))
        tensor(0.4000)
    """


class MarginRankingLoss(_Pair, function="margin_ranking_loss"):
    """Loss of pairs of scores: ``max(0, -target * (input1 - input2) + margin)``.

    A target of 1 says that the first score should be the larger, -1 that the second should.

    Args:
        margin: difference from which on a pair in the right order costs nothing.
        reduction: "mean", "sum", or "none" for a loss per pair.

    Shape:
        input1, input2, target: the same shape.
        Output: a scalar; the shape of the inputs for "none".

    Example:
        >>> first, second = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.0])
        >>> torch.nn.MarginRankingLoss()(first, second, torch.tensor([1.0, 1.0]))
        tensor(1.)
    """


def _check_margin(name: str, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead")


class _Triple(Loss):
    def forward(  # type: ignore[override]
        self, anchor: Tensor, positive: Tensor, negative: Tensor
    ) -> Tensor:
        return self._of(anchor, positive, negative)


class TripletMarginLoss(_Triple, function="triplet_margin_loss"):
    """Loss of triples: ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    ``d`` is the distance that ``PairwiseDistance(p, eps)`` computes.

    Args:
        margin: by how much farther the negative example should be; positive.
        p: order of the norm.
        eps: added to the differences, see ``PairwiseDistance``.
        swap: use ``d(positive, negative)`` where it is smaller than ``d(anchor, negative)``.
        reduction: "mean", "sum", or "none" for a loss per triple.

    Shape:
        anchor, positive, negative: ``(N, D)`` or ``(D,)``.
        Output: a scalar; ``(N,)`` or ``()`` for "none".

    Example:
        >>> anchor, positive = torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])
        >>> torch.nn.TripletMarginLoss()(anchor, positive, torch.tensor([[0.0, 4.0]]))
        tensor(2.0000)
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(
            size_average, reduce, reduction, margin=margin, p=p, eps=eps, swap=swap
        )
        _check_margin("TripletMarginLoss", margin)


class TripletMarginWithDistanceLoss(_Triple, function="triplet_margin_with_distance_loss"):
    """``TripletMarginLoss`` with any distance.

    Args:
        distance_function: called on two batches of vectors; ``PairwiseDistance()`` by default.
        margin: by how much farther the negative example should be; positive.
        swap: use ``d(positive, negative)`` where it is smaller than ``d(anchor, negative)``.
        reduction: "mean", "sum", or "none" for a loss per triple.

    Shape:
        anchor, positive, negative: ``(N, *)``, as the distance takes them.
        Output: a scalar; what the distance returns for "none".

    Example:
        >>> loss = torch.nn.TripletMarginWithDistanceLoss(
        ...     distance_function=lambda x, y: (x - y).abs().sum(-1))
        >>> loss(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 4.0]]))
        tensor(4.)
    """

    def __init__(
        self, *, distance_function: Callable[..., Any] | None = None, margin: float = 1.0,
        swap: bool = False, reduction: str = "mean",
    ) -> None:  # fmt: skip
        _check_margin("TripletMarginWithDistanceLoss", margin)
        distance = PairwiseDistance() if distance_function is None else distance_function
        super().__init__(
            None, None, reduction, distance_function=distance, margin=margin, swap=swap
        )


# -- distances -------------------------------------------------------------------------------------


class PairwiseDistance(Module):
    """Norm of differences of vectors: ``norm(x1 - x2 + eps, p)`` along the last dimension.

    Args:
        p: order of the norm.
        eps: added to every difference, so that the derivative is finite where vectors agree.
        keepdim: keep the last dimension with size 1.

    Shape:
        x1, x2: ``(N, D)`` or ``(D,)``.
        Output: ``(N,)`` or ``()``; ``(N, 1)`` or ``(1,)`` with ``keepdim``.

    Example:
        >>> torch.nn.PairwiseDistance()(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
        tensor([5.0000])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Cosine of the angle between vectors: ``dot(x1, x2) / (norm(x1) * norm(x2))``.

    Args:
        dim: dimension along which the vectors lie.
        eps: lower bound of each norm.

    Shape:
        x1, x2: any shapes that broadcast.
        Output: the broadcast shape without ``dim``.

    Example:
        >>> similarity = torch.nn.CosineSimilarity(dim=-1)
        >>> similarity(torch.tensor([1.0, 0.0]), torch.tensor([3.0, 4.0]))
        tensor(0.6000)
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


__all__ = [
    "CosineEmbeddingLoss", "CosineSimilarity", "GaussianNLLLoss", "HingeEmbeddingLoss",
    "HuberLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "PairwiseDistance", "PoissonNLLLoss",
    "SmoothL1Loss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip
