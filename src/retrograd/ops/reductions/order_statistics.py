"""Order statistics: medians, the k-th smallest, the most frequent, and quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear, selecting
from retrograd.ops._arguments import check_int, invalid_combination
from retrograd.ops._dims import numel, one_dim
from retrograd.ops._lifted import bare, checked_by_line
from retrograd.ops._operation import Composite, Selecting, TensorLike, composite, raw
from retrograd.ops._public import named, public
from retrograd.ops._refusals import kernel
from retrograd.ops._results import named_result
from retrograd.ops._sections import like
from retrograd.ops._words import EXTREME, PICKED
from retrograd.ops.comparisons import isnan
from retrograd.ops.copies import to_dtype
from retrograd.ops.piecewise import ceil, floor, round, where
from retrograd.ops.pointwise import arithmetic as pointwise
from retrograd.ops.reductions import basic as reductions
from retrograd.ops.selecting import EQUALS, same_value, with_indices
from retrograd.ops.shapes import reshaping, sorting
from retrograd.ops.shapes.gather_scatter import gather

# -- medians ---------------------------------------------------------------------------------


def _of_all(self: Any, along: Selecting) -> Any:
    """The median of all elements. Those that are equal share its gradient, which goes to one of
    them if it is taken along a dimension: it is put as an extreme, for which that is so."""
    values = linear.reshape(self, (numel(self.shape),))
    if not values.shape[0]:
        nothing = arrays.statistics.median_of_all(arrays.zeros((0,), raw(values).dtype), False)
        return linear.sum_all(values) + nothing
    median, _ = along(values, dim=0, keepdim=True)
    if raw(values).dtype.kind in "iu":
        return linear.reshape(median, ())
    equal = same_value(raw(values), raw(median))
    lowest = arrays.asarray(float("-inf"), raw(values).dtype)
    return selecting.max_all(where(equal, values, lowest))


def _non_empty_dim(name: str, x: Any, dim: int) -> int:
    """``dim`` made plain, if there is anything to choose from along it."""
    shape = raw(x).shape
    plain = one_dim(dim, len(shape))
    if shape and shape[plain] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {plain} to have non-zero size.")
    return plain


def _median(
    name: str, ignore_nan: bool, summary: str, example: str
) -> tuple[Selecting, Composite, Callable[..., Any]]:
    """The operations and the function ``median`` or ``nanmedian``."""
    node = f"{name.capitalize()}Backward1"
    along = with_indices(
        f"{name}_dim", node,
        lambda self, dim, keepdim: arrays.statistics.median(self, dim, keepdim, ignore_nan),
        check=kernel("median_out", "bc"),
        words=PICKED,
    )  # fmt: skip
    whole = composite(
        name, lambda self: _of_all(self, along),
        lambda self: arrays.statistics.median_of_all(self, ignore_nan),
        rules={"self": EQUALS.scatter}, check=kernel("median_cpu", "bc"), batch="definition",
        words=EXTREME,
    )  # fmt: skip
    result_type = named_result(name, "values", "indices")

    def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return whole(input)
        plain = _non_empty_dim("median", input, dim)
        return result_type(along(input, dim=plain, keepdim=bool(keepdim)))

    doc = f"""{summary}

    Args:
        dim: dimension to reduce; by default, all elements are reduced.

    Returns:
        A tensor; with ``dim``, a named tuple ``(values, indices)``.

    Example:
        >>> torch.{name}(torch.tensor({example}))
        tensor(2.)
    """
    return along, whole, public("torch method", out="same")(named(median, name, doc))


median_dim, median_all, median = _median(
    "median", False,
    "The median of all elements, or along a dimension; of two middle elements, the lower.",
    "[3., 1., 4., 2.]",
)  # fmt: skip
nanmedian_dim, nanmedian_all, nanmedian = _median(
    "nanmedian", True,
    "The median of the elements that are not NaN, of all or along a dimension.",
    "[3., torch.nan, 1., 2.]",
)  # fmt: skip

# -- the k-th smallest, the most frequent ----------------------------------------------------


def _kthvalue(self: Raw, k: int, dim: int, keepdim: bool) -> tuple[Raw, Raw]:
    return arrays.statistics.kth_smallest(self, k - 1, dim, keepdim)


def _mode(self: Raw, dim: int, keepdim: bool) -> tuple[Raw, Raw]:
    return arrays.statistics.mode(self, dim, keepdim)


kthvalue_op = with_indices(
    "kthvalue", "KthvalueBackward0", _kthvalue, check=kernel("kthvalue_cpu", "bc")
)
mode_op = with_indices("mode", "ModeBackward0", _mode, check=kernel("mode_cpu", "c"))


@public("torch method", out="same")
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The ``k``-th smallest element along a dimension, and its index.

    Args:
        k: rank of the element; 1 is the smallest.
        dim: dimension to reduce.

    Returns:
        A named tuple ``(values, indices)``.

    Example:
        >>> torch.kthvalue(torch.tensor([3., 1., 4., 2.]), 3).values
        tensor(3.)
    """
    check_int("kthvalue", "k", 2, k)
    plain = _non_empty_dim("kthvalue", input, dim)
    size = input.shape[plain] if input.shape else 1
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {plain}")
    chosen = kthvalue_op(input, k=int(k), dim=plain, keepdim=bool(keepdim))
    return named_result("kthvalue", "values", "indices")(chosen)


@public("torch method", out="same")
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along a dimension, and the index of its last occurrence.

    Of several that are equally frequent, the smallest is returned.

    Args:
        dim: dimension to reduce.

    Returns:
        A named tuple ``(values, indices)``.

    Example:
        >>> torch.mode(torch.tensor([3., 1., 3., 2.]))
        torch.return_types.mode(
        values=tensor(3.),
        indices=tensor(2))
    """
    plain = _non_empty_dim("mode", input, dim)
    chosen = mode_op(input, dim=plain, keepdim=bool(keepdim))
    return named_result("mode", "values", "indices")(chosen)


# -- quantiles -------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
_ROUNDED = {"lower": floor, "higher": ceil, "nearest": round}


def _check_quantile(input: Any, q: Any, interpolation: str) -> None:
    data = raw(input)
    if isinstance(q, TensorLike):
        if raw(q).ndim > 1:
            raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    elif not isinstance(q, (int, float)):
        raise invalid_combination("quantile", q)
    if data.dtype.kind != "f" or data.dtype.itemsize < 4:
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if not data.size:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if isinstance(q, TensorLike):
        if raw(q).dtype != data.dtype:
            raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
        if not checked_by_line(_check_fractions, q):
            _check_fractions(bare(q, looks=False))
    elif not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")


def _check_fractions(q: Raw) -> None:
    if not arrays.all((q >= 0) & (q <= 1)):
        raise RuntimeError("quantile() q values must be in the range [0, 1]")


def _sorted_along(input: Any, dim: int | None, keepdim: bool) -> Any:
    """The elements to choose from, in order along the last dimension; the others are those of the
    result."""
    shape = tuple(input.shape)
    if dim is None:
        rows = reshaping.flatten(input)
        kept = (1,) * len(shape) if keepdim else ()
    else:
        plain = one_dim(dim, len(shape))
        kept = tuple(1 if d == plain else s for d, s in enumerate(shape) if keepdim or d != plain)
        if plain == len(shape) - 1:
            rows = input
        else:
            rows = reshaping.transpose(reshaping.unsqueeze(input, -1), plain, -1)
    values, _ = sorting.sort_by_value(rows, dim=len(rows.shape) - 1, descending=False)
    return linear.view(values, size=(*kept, values.shape[-1]))


def _ranks(values: Any, q: Any, ignore_nan: bool) -> Any:
    """Where in a sorted row the quantiles lie: a place, and a fraction of the way to the next."""
    missing = isnan(values.detach())
    if ignore_nan:
        ranks = q * (values.shape[-1] - reductions.sum(missing, -1, True) - 1)
        return ranks.masked_fill(ranks.detach() < 0, 0)
    last = values.shape[-1] - 1
    any_missing = reductions.any(missing, -1, True)
    size = (*any_missing.shape[:-1], raw(q).size)
    # NaN stands last.
    return linear.expand(q * last, size=size).masked_fill(any_missing, last)


def _quantile(
    input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Any:
    _check_quantile(input, q, interpolation)
    if not isinstance(q, TensorLike):
        q = input.new_tensor(q, dtype=input.dtype)
    values = _sorted_along(input, dim, keepdim)
    ranks = _ranks(values, q, ignore_nan)
    if interpolation in _ROUNDED:
        ranks = _ROUNDED[interpolation](ranks)
    below = to_dtype(ranks.detach(), dtype=arrays.int64)
    result = gather(values, -1, below)
    if interpolation in ("linear", "midpoint"):
        weight = ranks - below if interpolation == "linear" else (ranks * 0 + 0.5).detach()
        above = gather(values, -1, to_dtype(ceil(ranks.detach()), dtype=arrays.int64))
        result = pointwise.lerp(result, above, weight)
    if len(q.shape):
        result = reshaping.transpose(reshaping.unsqueeze(result, 0), 0, -1)
    return linear.unsafe_squeeze(result, dims=(len(result.shape) - 1,))


@public("torch method", out="same")
def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Any:  # fmt: skip
    """The quantiles of all elements, or of the elements along a dimension.

    Args:
        q: probability between 0 and 1, a number or a vector of them.
        dim: dimension to reduce; by default, all elements are reduced.
        interpolation: how to choose between two neighbouring elements: "linear", "lower",
            "higher", "midpoint" or "nearest".

    Returns:
        A tensor; if ``q`` is a vector, its first dimension is that of ``q``.

    Example:
        >>> torch.quantile(torch.tensor([1., 2., 3., 4.]), 0.5)
        tensor(2.5000)
    """
    return _quantile(input, q, dim, keepdim, interpolation, False)


@public("torch method", out="same")
@like(quantile)
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Any:  # fmt: skip
    """The quantiles of the elements that are not NaN, of all or along a dimension.

    Example:
        >>> torch.nanquantile(torch.tensor([1., torch.nan, 2.]), 0.5)
        tensor(1.5000)
    """
    return _quantile(input, q, dim, keepdim, interpolation, True)
