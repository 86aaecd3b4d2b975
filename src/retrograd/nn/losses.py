"""Losses as layers, and distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn.module import Module


class _Loss(Module):
    """A function of a prediction and a target, with options that are attributes. ``reduction`` says
    what is made of the losses of all elements: their "mean", their "sum", or "none"."""

    function: ClassVar[str]
    weights: ClassVar[tuple[str, ...]] = ()  # options that are tensors, kept as buffers

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if size_average is not None or reduce is not None:  # as it was said once
            each = reduce is False
            reduction = "none" if each else "sum" if size_average is False else "mean"
        self.reduction = reduction
        for name, value in options.items():
            if name in self.weights:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)
        self.__dict__["_options"] = ("reduction", *options)
        self.__dict__["_function"] = getattr(F, self.function)

    def forward(self, *inputs: Any) -> Any:
        return self._function(*inputs, **{name: getattr(self, name) for name in self._options})


class _Weighted(_Loss):
    """A loss with a weight for each class, or each element."""

    weights = ("weight",)

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, weight=weight, **options)


# -- of numbers --------------------------------------------------------------------------------


class L1Loss(_Loss):
    """The absolute difference."""

    function = "l1_loss"

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)


class MSELoss(L1Loss):
    """The square of the difference.

    >>> import retrograd as torch
    >>> torch.nn.MSELoss()(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0]))
    tensor(2.)
    """

    function = "mse_loss"


class SmoothL1Loss(_Loss):
    """The square of a difference below ``beta``, its absolute value above."""

    function = "smooth_l1_loss"

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", beta: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, beta=beta)


class HuberLoss(_Loss):
    """As ``SmoothL1Loss``, times ``delta``."""

    function = "huber_loss"

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(None, None, reduction, delta=delta)


class PoissonNLLLoss(_Loss):
    """How unlikely counts are, of a Poisson distribution."""

    function = "poisson_nll_loss"

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: bool | None = None,
        eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, log_input=log_input, full=full, eps=eps)


class GaussianNLLLoss(_Loss):
    """How unlikely targets are, of a normal distribution with the variance given."""

    function = "gaussian_nll_loss"

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction, full=full, eps=eps)


# -- of classes --------------------------------------------------------------------------------


class CrossEntropyLoss(_Weighted):
    """How unlikely the right classes are, from scores that are no probabilities yet.

    >>> import retrograd as torch
    >>> torch.nn.CrossEntropyLoss()(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.1269)
    """

    function = "cross_entropy"

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction, ignore_index=ignore_index,
                         label_smoothing=label_smoothing)  # fmt: skip


class NLLLoss(_Weighted):
    """The same from logarithms of probabilities."""

    function = "nll_loss"

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction, ignore_index=ignore_index)


class KLDivLoss(_Loss):
    """How far one distribution is from another."""

    function = "kl_div"

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", log_target: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, log_target=log_target)


class BCELoss(_Weighted):
    """How unlikely yes or no is, from probabilities of yes."""

    function = "binary_cross_entropy"

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)


class BCEWithLogitsLoss(_Loss):
    """The same from scores, of which the sigmoid is the probability."""

    function = "binary_cross_entropy_with_logits"
    weights = ("weight", "pos_weight")

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", pos_weight: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, weight=weight, pos_weight=pos_weight)


class SoftMarginLoss(L1Loss):
    """``log(1 + exp(-y * x))`` for targets of 1 and -1."""

    function = "soft_margin_loss"


class MultiLabelMarginLoss(L1Loss):
    """By how much wrong classes come close to right ones, of which there may be several."""

    function = "multilabel_margin_loss"


class MultiLabelSoftMarginLoss(BCELoss):
    """``BCEWithLogitsLoss`` of many labels, averaged for each sample."""

    function = "multilabel_soft_margin_loss"


class MultiMarginLoss(_Weighted):
    """By how much wrong classes come close to the right one."""

    function = "multi_margin_loss"

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


class CTCLoss(_Loss):
    """How unlikely a sequence of labels is, however it is spread over time."""

    function = "ctc_loss"

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(None, None, reduction, blank=blank, zero_infinity=zero_infinity)


# -- of pairs and triples ----------------------------------------------------------------------


class HingeEmbeddingLoss(_Loss):
    """A distance for alike pairs, and what it lacks of a margin for others."""

    function = "hinge_embedding_loss"

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, margin=margin)


class _Pair(_Loss):
    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, margin=margin)


class CosineEmbeddingLoss(_Pair):
    """The angle between alike pairs, and what it lacks for others."""

    function = "cosine_embedding_loss"


class MarginRankingLoss(_Pair):
    """By how much pairs are in the wrong order."""

    function = "margin_ranking_loss"


def _check_margin(name: str, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead")


class TripletMarginLoss(_Loss):
    """By how much an anchor is nearer to the negative than to the positive example."""

    function = "triplet_margin_loss"

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(
            size_average, reduce, reduction, margin=margin, p=p, eps=eps, swap=swap
        )
        _check_margin("TripletMarginLoss", margin)


class TripletMarginWithDistanceLoss(_Loss):
    """The same with a distance of one's own."""

    function = "triplet_margin_with_distance_loss"

    def __init__(
        self, *, distance_function: Callable[..., Any] | None = None, margin: float = 1.0,
        swap: bool = False, reduction: str = "mean",
    ) -> None:  # fmt: skip
        _check_margin("TripletMarginWithDistanceLoss", margin)
        distance = PairwiseDistance() if distance_function is None else distance_function
        super().__init__(
            None, None, reduction, distance_function=distance, margin=margin, swap=swap
        )


# -- distances -----------------------------------------------------------------------------------


class PairwiseDistance(Module):
    """The p-norm of differences of vectors."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Any, x2: Any) -> Any:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
