"""Reductions of segments of a dimension: segment_reduce."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._batching import batches_of, refuse
from retrograd.ops._batching_declarations import Refused
from retrograd.ops._dims import numel, one_dim
from retrograd.ops._lifted import bare
from retrograd.ops._operation import raw
from retrograd.ops._public import public
from retrograd.ops.comparisons import gt, lt
from retrograd.ops.piecewise import where
from retrograd.ops.shapes.index_reduce import index_reduce
from retrograd.ops.shapes.index_select import index_add, index_select

_DYNAMIC = Refused("segment_reduce", "the segments must be the same for all entries.")
_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -float("inf"), "min": float("inf")}


@public("torch")
def segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
    axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> Any:  # fmt: skip
    """Reduces consecutive segments of a dimension, each to one slice.

    Args:
        data: The input tensor.
        reduce: ``"sum"``, ``"mean"``, ``"max"``, ``"min"`` or ``"prod"``.
        lengths: The length of each segment, along the last dimension. The dimensions before it are
            those of ``data`` before ``axis``.
        indices: Not supported, as in PyTorch.
        offsets: In place of ``lengths``, where each segment begins and, at the end, where the last
            one ends.
        axis: The dimension to reduce.
        unsafe: Whether not to check that the segments make up the dimension.
        initial: What every segment begins with, and what an empty one is; by default, 0 for sums,
            1 for products, and for maxima and minima an infinity. An empty mean is then NaN.

    Returns:
        A tensor with one slice along ``axis`` for each segment.

    Example:
        >>> torch.segment_reduce(torch.arange(6.0), "sum", lengths=torch.tensor([2, 4]))
        tensor([ 1., 14.])
    """
    plain, count, starts = _checked(data, reduce, lengths, indices, offsets, axis, unsafe)
    front, size, rest = data.shape[:plain], data.shape[plain], tuple(data.shape[plain + 1 :])
    rows, segments = arrays.sparse.segment_members(starts, count, size)
    slices = index_select(linear.reshape(data, (numel(front) * size, *rest)), 0, rows)
    result = _reduced(slices, segments, count.reshape(-1), reduce, initial)
    if plain == 0:
        return result
    return linear.unsafe_view(result, size=(*front, count.shape[-1], *rest))


def _reduced(slices: Any, segments: Raw, count: Raw, reduce: str, initial: float | None) -> Any:
    """The slices of each segment, reduced, in the order of segments."""
    base = linear.new_zeros(slices, (len(count), *slices.shape[1:]))
    base = base + (_EMPTY[reduce] if initial is None else initial)
    if reduce in ("max", "min"):
        start = base if initial is None else base * 0 + _EMPTY[reduce]
        result = index_reduce(start, 0, segments, slices, f"a{reduce}", include_self=False)
        beyond = gt(base, result) if reduce == "max" else lt(base, result)
        return where(beyond, base, result)  # an initial value that is as large gets no gradient
    if reduce == "prod":
        return index_reduce(base, 0, segments, slices, "prod")
    result = index_add(base, 0, segments, slices)
    if reduce == "mean":
        each = arrays.cast(count, raw(slices).dtype).reshape((-1,) + (1,) * (len(base.shape) - 1))
        result = result / (each if initial is None else arrays.maximum(each, each * 0 + 1))
    return result


def _checked(
    data: Any, reduce: str, lengths: Any, indices: Any, offsets: Any, axis: int, unsafe: bool
) -> tuple[int, Raw, Raw]:
    """The dimension, and the lengths and the starts of the segments."""
    plain = one_dim(axis, len(data.shape))
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if reduce not in _EMPTY:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    word = "offsets" if lengths is None else "lengths"
    segments = offsets if lengths is None else lengths
    if batches_of(raw(segments)):
        refuse(_DYNAMIC)
    given = bare(segments)
    if plain != given.ndim - 1:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of {word} but got {plain}."
        )
    if lengths is not None and not unsafe:
        if (given < 0).any():
            raise RuntimeError("lengths contains negative value!")
        if (given.sum(-1) != data.shape[plain]).any():
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    for x, kernel, kinds in ((given, f"{word}_cpu_kernel1", "iu"), (raw(data), "cpu", "f")):
        if x.dtype.kind not in kinds:
            raise NotImplementedError(
                f"\"_segment_reduce_{kernel}\" not implemented for '{dtypes.type_word(x.dtype)}'"
            )
    if lengths is None:
        return plain, given[..., 1:] - given[..., :-1], given[..., :-1]
    return plain, given, given.cumsum(-1) - given
