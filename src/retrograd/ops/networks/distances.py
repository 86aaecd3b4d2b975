"""Distances and angles between vectors, and the losses made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._dims import broadcast, one_dim
from retrograd.ops._operation import composite, raw, reduction, undifferentiable
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops._sections import like
from retrograd.ops.algebra.all_pairs import length
from retrograd.ops.comparisons import eq
from retrograd.ops.copies import fill_number, to_dtype, zeros_like
from retrograd.ops.elementwise import sqrt, sub
from retrograd.ops.networks.losses import _size, at_least, reduced, reduction_of
from retrograd.ops.piecewise import minimum, sgn, where
from retrograd.ops.pointwise.clamping import clamp_min
from retrograd.ops.pointwise.scalar_arithmetic import minus, plus
from retrograd.ops.reductions import basic as reductions
from retrograd.ops.reductions import norms

norm_op = reduction(
    "norm_of_differences",
    lambda self, p, dim, keepdim: arrays.statistics.vector_norm(self, p, dim, keepdim),
    lambda g, self, result, p, dim, keepdim: norms.norm_rule(g, self, result, p, dim, keepdim),
    node="NormBackward1", adjoint=True, dtypes="real", batch="dims",
)  # fmt: skip


@public("torch functional")
def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """Distance between corresponding vectors: ``norm(x1 - x2 + eps)``.

    Args:
        x1: the first vectors, of shape ``(N, D)`` or ``(D,)``.
        x2: the second vectors. Both shapes broadcast.
        p: order of the norm.
        eps: added to the differences, which avoids an infinite gradient at 0.
        keepdim: keep the last dimension with size 1.

    Returns:
        The distances, without the last dimension unless ``keepdim``.

    Example:
        >>> torch.pairwise_distance(torch.tensor([3.0, 4.0]), torch.zeros(2))
        tensor(5.0000)
    """
    last = max(len(x1.shape), len(x2.shape)) - 1
    moved = plus(x1 - x2, number=eps)
    return norm_op(moved, p=float(p), dim=(last,) if last >= 0 else (), keepdim=keepdim)


@public("torch functional")
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """Cosine of the angle between vectors along a dimension.

    ``sum(x1 * x2) / (max(norm(x1), eps) * max(norm(x2), eps))``.

    Args:
        x1: the first vectors.
        x2: the second vectors. Both shapes broadcast.
        dim: the dimension along which the vectors lie.
        eps: lower bound of the norms, which avoids division by zero.

    Returns:
        A tensor without the dimension ``dim``.

    Example:
        >>> torch.cosine_similarity(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]), dim=0)
        tensor(0.7071)
    """
    common = arrays.dtypes.promote(raw(x1).dtype, raw(x2).dtype)
    if common.kind not in dtypes.FLOATS:
        raise RuntimeError(
            "expected common dtype to be floating point, yet common dtype is "
            f"{arrays.dtypes.type_word(common)}"
        )
    shape = broadcast(tuple(x1.shape), tuple(x2.shape))
    plain = one_dim(dim, len(shape))
    sides = []
    for x in (x1, x2):
        x = x if raw(x).dtype == common else to_dtype(x, dtype=common)
        full = x if tuple(x1.shape) == tuple(x2.shape) else linear.expand(x, size=shape)
        size = norms.vector_norm(full, 2, plain, keepdim=True)
        sides.append(full / at_least(size, least=eps))  # short vectors are divided by eps
    return reductions.sum(sides[0] * sides[1], dim=plain)


@public("functional", out="same")
def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """Divide vectors by their norm: ``x / max(norm(x), eps)``.

    Args:
        p: order of the norm.
        dim: the dimension, or dimensions, along which the vectors lie.
        eps: lower bound of the norm, which avoids division by zero.

    Example:
        >>> torch.nn.functional.normalize(torch.tensor([3.0, 4.0]), dim=0)
        tensor([0.6000, 0.8000])
    """
    size = clamp_min(norms.norm(input, p, dim, keepdim=True), eps)
    return input / linear.expand(size, size=tuple(input.shape))


# -- all pairs -------------------------------------------------------------------------------


def _differences(x: Any) -> Any:
    """Of each row of matrices from every later one, in the order of ``pdist``."""
    rows, ahead = _pairs(x.shape[-2]), (slice(None),) * (len(x.shape) - 2)
    first, second = (linear.index(x, where=(*ahead, r)) for r in rows)
    return first - second


def _pairs(count: int) -> tuple[Raw, Raw]:
    rows = arrays.arange(count)
    before, after = arrays.nonzero(rows[:, None] < rows)
    return before, after


def _pdist(self: Raw, p: float) -> Raw:
    *lead, rows, width = self.shape
    if not width:
        return arrays.zeros((*lead, rows * (rows - 1) // 2), self.dtype)
    if p == 0:
        return arrays.linalg.unequal(_differences(self))
    return arrays.statistics.vector_norm(_differences(self), p, (len(lead) + 1,), False)


def _norm_backward(g: Any, difference: Any, result: Any, p: float, last: int) -> Any:
    """The derivative of a distance. Differences of which each is the largest each get all of the
    gradient, as in PyTorch, and not a share of it as by a norm."""
    if p != math.inf:
        return norms.norm_rule(g, difference, result, p, (last,), False)
    g, result = (linear.unsqueeze(x, dim=last) for x in (g, result))
    largest = eq(raw(abs(difference)), raw(result))
    return g * sgn(difference) * to_dtype(largest, dtype=raw(result).dtype)


def _pdist_backward(grad_output: Raw, self: Raw, result: Raw, p: float) -> Raw:
    difference = _differences(self)
    last, rows = self.ndim - 1, self.shape[-2]
    derivative = _norm_backward(grad_output, difference, result, p, last)
    total = arrays.zeros(self.shape, self.dtype)
    if derivative is None:
        return total
    start = 0
    for row in range(rows - 1):
        end = start + rows - 1 - row
        part = derivative[..., start:end, :]
        total[..., row, :] += arrays.sum(part, last - 1)
        total[..., row + 1 :, :] -= part
        start = end
    return total


pdist_backward = undifferentiable(
    "pdist_backward", _pdist_backward,
    NotImplementedError("the derivative for '_pdist_backward' is not implemented."),
    inputs=("grad_output", "self", "result"), node="PdistBackwardBackward0", batch="leading",
)  # fmt: skip
pdist_op = composite(
    "pdist", lambda self, p: length(_differences(self), p=p, dim=(len(self.shape) - 1,)), _pdist,
    rules={"self": lambda g, self, result, p: pdist_backward(g, self, result, p=p)},
    batch="leading", check=kernel("pdist", "biucV"),
)  # fmt: skip


@public("torch functional")
def pdist(input: Any, p: float = 2.0) -> Any:
    """Distances between all pairs of rows.

    Args:
        input: ``N`` vectors, of shape ``(N, M)``.
        p: order of the norm; not negative.

    Returns:
        The distances of the rows ``i < j``, of shape ``(N * (N - 1) / 2,)``, in the order (0, 1),
        (0, 2), ..., (1, 2), ....

    Example:
        >>> torch.pdist(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
        tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if raw(input).dtype.kind not in dtypes.FLOATS:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    return pdist_op(input, p=float(p))


# -- losses ----------------------------------------------------------------------------------


@public("functional")
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Loss of the order of two scores: ``max(0, -target * (input1 - input2) + margin)``.

    Args:
        input1: the first scores.
        input2: the second scores. The shapes broadcast.
        target: 1 if the first score should be larger, -1 if the second should.
        margin: by how much the one score should exceed the other.
        reduction: "mean", "sum", or "none" for a loss per pair.

    Example:
        >>> one, two, first = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([1])
        >>> torch.nn.functional.margin_ranking_loss(one, two, first)
        tensor(1.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {_size(input1)}, input2: {_size(input2)}, target: {_size(target)} "
        )
    return ranking_loss(input1, input2, target, margin, reduction)


def ranking_loss(input1: Any, input2: Any, target: Any, margin: float, reduction: str) -> Any:
    """As ``margin_ranking_loss``, of whatever broadcasts."""
    lack = plus(-target * (input1 - input2), number=margin)
    return reduced(clamp_min(lack, 0), reduction)


@public("functional")
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Loss of the cosine between similar (target 1) and dissimilar (target -1) vectors.

    ``1 - cos(x1, x2)`` for a target of 1, ``max(0, cos(x1, x2) - margin)`` for a target of -1.

    Args:
        input1: the first vectors, of shape ``(N, D)`` or ``(D,)``.
        input2: the second vectors, of the same shape.
        target: 1 or -1 for each pair, of shape ``(N,)`` or ``()``.
        margin: cosine up to which dissimilar vectors cost nothing, from -1 to 1.
        reduction: "mean", "sum", or "none" for a loss per pair.

    Example:
        >>> x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> torch.nn.functional.cosine_embedding_loss(x, y, torch.tensor([1]))
        tensor(1.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    dims = target.ndim
    if dims not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if dims == 1 and (input1.ndim != 2 or input2.ndim != 2):
        raise RuntimeError(
            "1D target tensor expects 2D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    if dims == 0 and (input1.ndim != 1 or input2.ndim != 1):
        raise RuntimeError(
            "0D target tensor expects 1D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    product = reductions.sum(input1 * input2, dim=dims)
    squares = [plus(reductions.sum(x * x, dim=dims), number=1e-12) for x in (input1, input2)]
    cosine = product / sqrt(squares[0] * squares[1])
    wanted, zero = raw(target), zeros_like(raw(cosine))
    together = where(wanted == 1, sub(fill_number(zero, value=1), cosine), zero)
    apart = where(wanted == -1, clamp_min(minus(cosine, number=-margin), 0), zero)
    return reduced(together + apart, reduction)


@public("functional")
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
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
        reduction: "mean", "sum", or "none" for a loss per triple.

    Example:
        >>> anchor, near, far = torch.zeros(1, 2), torch.zeros(1, 2), torch.tensor([[0.5, 0.0]])
        >>> torch.nn.functional.triplet_margin_loss(anchor, near, far)
        tensor(0.5000)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _same_dims(anchor, positive, negative)
    near, far = (pairwise_distance(anchor, x, p, eps) for x in (positive, negative))
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(clamp_min(plus(near, number=margin) - far, 0), reduction)


def _same_dims(anchor: Any, positive: Any, negative: Any) -> None:
    dims = anchor.ndim, positive.ndim, negative.ndim
    if len(set(dims)) != 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {dims[0]}D, positive {dims[1]}D, and negative "
            f"{dims[2]}D inputs"
        )


@public("functional")
@like(triplet_margin_loss)
def triplet_margin_with_distance_loss(
    anchor: Any, positive: Any, negative: Any, *,
    distance_function: Callable[[Any, Any], Any] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Triplet loss with a distance function of choice.

    ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    Args:
        distance_function: the function ``d`` of two tensors; ``pairwise_distance`` by default.

    Example:
        >>> anchor, near, far = torch.zeros(1, 2), torch.zeros(1, 2), torch.tensor([[0.5, 0.0]])
        >>> torch.nn.functional.triplet_margin_with_distance_loss(anchor, near, far)
        tensor(0.5000)
    """
    reduction = reduction_of(None, None, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _same_dims(anchor, positive, negative)
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp_min(near + margin - far, 0), reduction)
