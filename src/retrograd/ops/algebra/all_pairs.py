"""Distances between all rows of two matrices, and the cross product."""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._batching_declarations import Leading
from retrograd.ops._dims import broadcast, one_dim
from retrograd.ops._operation import Multilinear, composite, multilinear, raw, reduction
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops.algebra._matrix import check_tensors, transposed, type_word
from retrograd.ops.comparisons import eq, gt, logical_and, ne
from retrograd.ops.copies import zeros_like
from retrograd.ops.elementwise import pow_scalar, sqrt
from retrograd.ops.piecewise import abs, sgn, where

# -- distances -------------------------------------------------------------------------------


def _distance_derivative(difference: Any, distance: Any, p: float) -> Any:
    """The derivative of a distance by each of the differences that make it. At a distance of zero,
    where it has none, it is zero."""
    if p == 1:
        return sgn(difference)
    if p == math.inf:
        largest = eq(abs(difference), distance)
        return where(largest, sgn(difference), zeros_like(difference))
    apart = ne(distance, 0)
    safe = where(apart, distance, zeros_like(distance) + 1)
    if p == 2:
        derivative = difference / safe
    else:
        moved = ne(difference, 0)
        size = where(moved, abs(difference), zeros_like(difference) + 1)
        derivative = sgn(difference) * pow_scalar(size / safe, exponent=p - 1)
        apart = logical_and(moved, apart)
    return where(apart, derivative, zeros_like(derivative))


def _length_rule(g: Any, self: Any, result: Any, p: float, dim: tuple[int, ...]) -> Any:
    wide, size = (linear.kept(x, self.shape, dim) for x in (g, result))
    return zeros_like(self) if p == 0 else wide * _distance_derivative(self, size, p)


# The p-norm of differences, as the derivative of distances sees it: all that are as long as the
# longest share its derivative, and at zero there is none.
def _length(self: Raw, p: float, dim: tuple[int, ...]) -> Raw:
    if p == 0:
        return arrays.linalg.unequal(self, dim)
    return arrays.statistics.vector_norm(self, p, dim, False)


length = reduction("length", _length, _length_rule, batch="dims")


def _pairs(x1: Any, x2: Any) -> tuple[Any, Any]:
    a = linear.reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1]))
    return a, linear.reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:]))


def _cdist_of(x1: Any, x2: Any, p: float) -> Any:
    a, b = _pairs(x1, x2)
    each = a - b
    return length(each, p=p, dim=(len(each.shape) - 1,))


def _euclidean_of(x1: Any, x2: Any) -> Any:
    squares = [linear.sum_dim(x * x, dim=(len(x.shape) - 1,), keepdim=True) for x in (x1, x2)]
    both = squares[0] + transposed(squares[1]) - 2 * (x1 @ transposed(x2))
    apart = gt(both, 0)
    return where(apart, sqrt(where(apart, both, zeros_like(both) + 1)), zeros_like(both))


def _cdist_rule(g: Any, x1: Any, x2: Any, result: Any, p: float, needs: Any) -> list[Any]:
    if p == 0:
        return [zeros_like(x) if need else None for x, need in zip((x1, x2), needs, strict=True)]
    a, b = _pairs(x1, x2)
    weight, distance = (linear.reshape(x, (*x.shape, 1)) for x in (g, result))
    each = weight * _distance_derivative(a - b, distance, p)
    ndim = len(each.shape)
    return [
        linear.sum_dim(each, dim=(ndim - 2,), keepdim=False) if needs[0] else None,
        -linear.sum_dim(each, dim=(ndim - 3,), keepdim=False) if needs[1] else None,
    ]


def _euclidean_rule(g: Any, x1: Any, x2: Any, result: Any, needs: Any) -> list[Any]:
    apart = ne(result, 0)
    safe = where(apart, result, zeros_like(result) + 1)
    ratio = where(apart, g / safe, zeros_like(g))
    ndim = len(ratio.shape)
    first = second = None
    if needs[0]:
        first = x1 * linear.sum_dim(ratio, dim=(ndim - 1,), keepdim=True) - ratio @ x2
    if needs[1]:
        ratio_t = transposed(ratio)
        second = x2 * linear.sum_dim(ratio_t, dim=(ndim - 1,), keepdim=True) - ratio_t @ x1
    return [first, second]


cdist_of = composite(
    "cdist", _cdist_of, arrays.linalg.distances, inputs=("x1", "x2"), joint=_cdist_rule, fused=True,
    batch=Leading((2, 2)),
    words="Each distance passes a gradient to its two points, along the line between them.",
)  # fmt: skip
euclidean = composite(
    "euclidean_dist", _euclidean_of,
    lambda x1, x2: arrays.linalg.euclidean_distances(x1, x2),
    inputs=("x1", "x2"), joint=_euclidean_rule, batch=Leading((2, 2)),
)  # fmt: skip
_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": True,
    "donot_use_mm_for_euclid_dist": False,
}  # fmt: skip
_FEW_ROWS = 25  # up to so many, differences are taken one by one, which is more exact


@public("torch")
def cdist(
    x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Any:
    """Computes the p-norm distance between each pair of rows of two matrices.

    Args:
        x1: A matrix, or a batch of matrices.
        x2: A matrix, or a batch of matrices, with as many columns as ``x1``.
        p: The order of the norm, which may be infinite.
        compute_mode: Whether Euclidean distances are computed by a matrix product:
            ``"use_mm_for_euclid_dist_if_necessary"``, ``"use_mm_for_euclid_dist"`` or
            ``"donot_use_mm_for_euclid_dist"``.

    Returns:
        A matrix with a row for each row of ``x1`` and a column for each row of ``x2``.

    Example:
        >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    check_tensors("cdist", x1=x1, x2=x2)
    _check_cdist(x1, x2, p)
    with_products = _MODES[compute_mode]
    if with_products is None:
        with_products = x1.shape[-2] > _FEW_ROWS or x2.shape[-2] > _FEW_ROWS
    if p == 2 and with_products:
        result = euclidean(x1, x2)
        return linear.view(result, size=tuple(result.shape))
    return cdist_of(x1, x2, p=float(p))


def _check_cdist(x1: Any, x2: Any, p: float) -> None:
    for name, x in (("X1", x1), ("X2", x2)):
        if len(x.shape) < 2:
            raise RuntimeError(
                f"cdist only supports at least 2D tensors, {name} got: {len(x.shape)}D"
            )
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    for name, x in (("X1", x1), ("X2", x2)):
        if raw(x).dtype.kind not in dtypes.FLOATS:
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {type_word(raw(x).dtype)}"
            )
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    broadcast(tuple(x1.shape[:-2]), tuple(x2.shape[:-2]))
    a, b = raw(x1).dtype, raw(x2).dtype
    if a.itemsize == 2:
        raise NotImplementedError(f"\"cdist\" not implemented for '{type_word(a)}'")
    if a != b:
        raise RuntimeError(f"expected scalar type {type_word(a)} but found {type_word(b)}")


# -- the cross product -----------------------------------------------------------------------
#
# ``dim`` counts from the right, as operands of different ranks are aligned.


linalg_cross: Multilinear = multilinear(
    "linalg_cross", lambda self, other, dim: arrays.linalg.cross(self, other, dim),
    {"self": lambda g, other, dim: linalg_cross(other, g, dim=dim),
     "other": lambda g, self, dim: linalg_cross(g, self, dim=dim)},
    broadcasts=True, check=kernel("cross", "b"), batch="pointwise",
)  # fmt: skip


@public("linalg", out="same")
def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross product of vectors of three elements.

    Args:
        input: the left factors.
        other: the right factors; broadcast with ``input``.
        dim: dimension of size 3 that holds the elements of the vectors.

    Returns:
        The products, in the broadcast shape.

    Example:
        >>> torch.linalg.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))
        tensor([0., 0., 1.])
    """
    check_tensors("linalg_cross", input=input, other=other)
    ndim = len(input.shape)
    if ndim != len(other.shape):
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    plain = one_dim(dim, ndim)
    sizes = [x.shape[plain] for x in (input, other)]
    if sizes != [3, 3]:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and "
            f"{sizes[1]}"
        )
    broadcast(tuple(input.shape), tuple(other.shape))
    a, b = raw(input).dtype, raw(other).dtype
    if a != b:
        raise RuntimeError(f"expected scalar type {type_word(a)} but found {type_word(b)}")
    return linalg_cross(input, other, dim=plain - ndim)


@public("torch.cross method.cross", out="same")
def cross_of_torch(input: Any, other: Any, dim: int | None = None) -> Any:
    """Computes the cross product of vectors of three elements.

    Args:
        input: The first vectors.
        other: The second vectors, which are broadcast with the first.
        dim: The dimension that holds the three elements. The default is the first dimension of size
            3.

    Returns:
        The cross products.

    Example:
        >>> torch.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]), dim=0)
        tensor([0., 0., 1.])
    """
    check_tensors("cross", input=input, other=other)
    if dim is None:
        dim = next((d for d, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return cross(input, other, dim=dim)
