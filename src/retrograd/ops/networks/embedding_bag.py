"""Bags of embeddings: sums, means or maxima of groups of rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._batching import BatchLevel, folded, unfolded
from retrograd.ops._batching_declarations import own
from retrograd.ops._lifted import bare
from retrograd.ops._operands import is_lifted
from retrograd.ops._operation import Multilinear, Operation, Selecting, Selection, raw
from retrograd.ops._public import public
from retrograd.ops._sections import like
from retrograd.ops.comparisons import gt
from retrograd.ops.copies import index_for, to_dtype
from retrograd.ops.networks.embedding import (
    Padding,
    add_rows,
    check_indices,
    embedding,
    is_no_padding,
    is_sparse,
    limit_norms,
    sparse_rows,
    stacked_indices,
    stacked_padding,
)
from retrograd.ops.piecewise import clamp
from retrograd.ops.pointwise.division import remainder

type_word = dtypes.type_word
_MODES = {"sum": 0, "mean": 1, "max": 2}


def _bag(
    weight: Raw, indices: Raw, offsets: Raw, per_sample_weights: Raw | None, mode: int,
    include_last_offset: bool, padding_idx: Padding, scale_grad_by_freq: bool, sparse: bool,
) -> tuple[Raw, Raw, Raw, Raw]:  # fmt: skip
    starts = offsets[:-1] if include_last_offset else offsets
    count = len(starts)
    bags = arrays.windows.bag_numbers(starts, indices.size)
    index_array, members, factors = _members(indices, bags, per_sample_weights, padding_idx)
    sizes = arrays.windows.counts_of(members, count)
    rows = weight[index_array]
    if mode == _MODES["max"]:
        best, largest = arrays.windows.bag_maxima(rows, index_array, members, count)
        return best, bags, sizes, largest
    if factors is not None:
        rows *= factors[:, None]
    sums = arrays.sorting.scatter_rows(count, members, rows)
    if mode == _MODES["mean"]:
        sums /= arrays.cast(arrays.maximum(sizes, 1), sums.dtype)[:, None]
    return sums, bags, sizes, sizes


def _members(indices: Any, bags: Any, factors: Any, padding_idx: Padding) -> tuple[Any, Any, Any]:
    """Rows, their bags and their factors, without those of the padding, or with a factor of zero
    for these."""
    if padding_idx == -1:
        return indices, bags, factors
    kept = is_no_padding(indices, padding_idx)
    if is_lifted(indices):
        return indices, bags, kept if factors is None else factors * kept
    (kept,) = arrays.nonzero(kept)
    if factors is not None:
        factors = linear.index(factors, where=(kept,))
    return indices[kept], linear.index(bags, where=(kept,)), factors


def _bag_by_weight(
    g: Any, indices: Any, offsets: Any, per_sample_weights: Any, result1: Any, result2: Any,
    shape: Sequence[int], mode: int, padding_idx: Padding, scale_grad_by_freq: bool, sparse: bool,
) -> Any:  # fmt: skip
    g = g[0]
    index_array, members, factors = _members(
        index_for(indices, g), index_for(result1, g), per_sample_weights, padding_idx
    )
    if mode == _MODES["mean"]:
        sizes = linear.unsqueeze(to_dtype(raw(result2), dtype=raw(g).dtype), dim=1)
        g = g / clamp(sizes, min=1, max=None)
    rows = linear.index(g, where=(members,))
    if factors is not None:
        rows = rows * linear.reshape(factors, (len(members), 1))
    if sparse and not is_lifted(rows):
        return sparse_rows(rows, index_array, shape, scale_grad_by_freq)
    return add_rows(
        rows, indices=index_array, rows=shape[0], padding_idx=-1,
        scale_grad_by_freq=scale_grad_by_freq,
    )


def _bag_by_factors(
    g: Any, weight: Any, indices: Any, offsets: Any, result1: Any, padding_idx: Padding
) -> Any:
    index_array, numbers = index_for(indices, g[0]), index_for(result1, g[0])
    result = linear.index(g[0], where=(numbers,)) * linear.index(weight, where=(index_array,))
    result = linear.sum_dim(result, dim=(1,), keepdim=False)
    if padding_idx == -1:
        return result
    return result * to_dtype(is_no_padding(index_array, padding_idx), dtype=raw(result).dtype)


@own("tables of each entry are one below the other, and bags of each entry are more bags")
def _bag_of_many(level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]) -> Any:
    """The bags of all entries in one sequence, from the stacked tables of all entries."""
    weight, indices, offsets, factors = args
    rows, length = weight.shape[0], indices.shape[0]
    starts = stacked_indices(level, offsets, length)
    bags = offsets.shape[0]
    if options["include_last_offset"]:
        bags -= 1
        starts = linear.slice_(starts, where=(slice(None), slice(0, bags)))
    options = {
        **options, "include_last_offset": False,
        "padding_idx": stacked_padding(options["padding_idx"], rows),
    }  # fmt: skip
    flat = [linear.reshape(x, (-1,)) for x in (stacked_indices(level, indices, rows), starts)]
    factors = factors if factors is None else folded(level, factors)
    result, numbers, sizes, largest = op(folded(level, weight), *flat, factors, **options)
    numbers = unfolded(level, remainder(numbers, max(bags, 1)), length)
    if options["mode"] == _MODES["max"]:
        largest = remainder(largest, max(rows, 1))
    rest = (unfolded(level, x, bags) for x in (sizes, largest))
    return unfolded(level, result, bags), numbers, *rest


def _if_filled(x: Any, sizes: Any) -> Any:
    """Rows of bags that are not empty, and zeros for the others."""
    filled = linear.unsqueeze(gt(raw(sizes), 0), dim=1)
    return x * to_dtype(filled, dtype=raw(x).dtype)


def _gather_largest(t: Any, result2: Any, result3: Any) -> Any:
    return _if_filled(linear.gather(t, index_for(result3, t), dim=0), result2)


def _scatter_largest(g: Any, result2: Any, result3: Any, shape: Sequence[int]) -> Any:
    result = _if_filled(g[0], result2)
    indices = index_for(result3, result)
    return linear.scatter_zeros(result, shape=tuple(shape), dim=0, indices=indices)


_BAG: dict[str, Any] = {
    "inputs": ("weight", "indices", "offsets", "per_sample_weights"),
    "outputs": ("result0", "result1", "result2", "result3"), "node": "EmbeddingBagBackward0",
    "batch": _bag_of_many,
}  # fmt: skip
bag_sums = Multilinear(
    "embedding_bag", _bag,
    rules={"weight": _bag_by_weight, "per_sample_weights": _bag_by_factors}, **_BAG,
)  # fmt: skip
bag_maxima = Selecting(
    "embedding_bag_max", _bag, Selection(_gather_largest, _scatter_largest), **_BAG
)


def _check_bags(
    input: Any, weight: Any, offsets: Any, mode: str, sparse: bool, scale_grad_by_freq: bool,
    per_sample_weights: Any,
) -> None:  # fmt: skip
    """What PyTorch refuses about arguments, in the order in which it looks."""
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        shapes = (f"torch.Size({list(x.shape)})" for x in (per_sample_weights, input))
        raise ValueError(
            "embedding_bag: If per_sample_weights ({}) is not None, then it must have the same "
            "shape as the input ({})".format(*shapes)
        )
    if len(weight.shape) != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {len(weight.shape)}"
        )
    if len(input.shape) == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {_shown(offsets)}"
            )
    elif len(input.shape) == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if len(offsets.shape) != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {len(input.shape)}"
        )
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max":
        if scale_grad_by_freq:
            raise ValueError("max mode does not support scaling the gradient by the frequency")
        if sparse:
            raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )


def _shown(value: Any) -> str:
    return "<class 'torch.Tensor'>" if hasattr(value, "_data") else str(type(value))


def _check_arrays(table: Raw, indices: Raw, offsets: Raw, factors: Raw | None) -> None:
    name = "embedding_bag"
    if table.dtype.kind not in dtypes.FLOATS:
        word = type_word(table.dtype)
        kind = f"CPU{word}Type" if table.dtype.kind == "c" else f"torch.{word}Tensor"
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: "
            f"Half, BFloat16, Float, Double; but got {kind} instead (while checking arguments for "
            f"{name})"
        )
    length = indices.size
    indices, offsets = bare(indices), bare(offsets)
    if offsets.size and (offsets[..., 0] != 0).any():
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {offsets[..., 0]}"
        )
    if offsets.size and (offsets[..., -1] > length).any():
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {length} but got "
            f"offsets[-1] of {offsets[..., -1]}"
        )
    if factors is not None and factors.dtype != table.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument "
            f"#1 'per_sample_weights'; but type torch.{type_word(table.dtype)}Tensor does not "
            f"equal torch.{type_word(factors.dtype)}Tensor (while checking arguments for {name})"
        )
    wrong = indices[(indices < 0) | (indices >= len(table))]
    if wrong.size:
        raise RuntimeError(
            "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be "
            f"{wrong[0]}"
        )


@public("functional")
@like(embedding)
def embedding_bag(
    input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:  # fmt: skip
    """Sums, means or maxima of groups ("bags") of rows of a table.

    Computes the same as ``embedding`` followed by a reduction, without storing the rows.

    Args:
        input: indices: of shape ``(bags, size)``, or those of all bags joined, with ``offsets``.
        offsets: where each bag begins in ``input``.
        mode: "sum", "mean" or "max".
        per_sample_weights: a factor for each index, of the shape of ``input``. Only for "sum".
        include_last_offset: whether ``offsets`` ends with the total number of indices.
        padding_idx: index of a row that is left out of every bag.

    Returns:
        A row for each bag, of shape ``(bags, embedding_dim)``.

    Example:
        >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> bags = torch.tensor([0, 2, 1]), table, torch.tensor([0, 2])
        >>> torch.nn.functional.embedding_bag(*bags, mode="sum")
        tensor([[6., 8.],
                [3., 4.]])
    """
    if raw(weight).dtype.name == "int64" and raw(input).dtype.kind in dtypes.FLOATS:
        input, weight = weight, input  # the order that older programs have them in
    _check_bags(input, weight, offsets, mode, sparse, scale_grad_by_freq, per_sample_weights)
    check_indices(input, "embedding_bag")
    if len(input.shape) == 2:
        bags, length = input.shape
        if not length:
            raise RuntimeError("step must be nonzero")
        offsets = arrays.arange(0, bags * length, length)
        if per_sample_weights is not None:
            per_sample_weights = linear.reshape(per_sample_weights, (-1,))
        indices = linear.reshape(input, (-1,))
    else:
        indices = input
        check_indices(offsets, "embedding_bag")
    if padding_idx is not None:
        count = weight.shape[0]
        if not -count <= padding_idx < count:
            raise RuntimeError(
                f"padding_idx must be within the number of embeddings, {-count} through "
                f"{count - 1}, but got {padding_idx}"
            )
        padding_idx = int(padding_idx) % count
    factors = None if per_sample_weights is None else raw(per_sample_weights)
    _check_arrays(raw(weight), raw(indices), raw(offsets), factors)
    if max_norm is not None:
        limit_norms(weight, raw(indices), max_norm, norm_type)
    operation = bag_maxima if mode == "max" else bag_sums
    return operation(
        weight, indices, offsets, per_sample_weights, mode=_MODES[mode],
        include_last_offset=bool(include_last_offset),
        padding_idx=-1 if padding_idx is None else padding_idx,
        scale_grad_by_freq=bool(scale_grad_by_freq),
        sparse=is_sparse(weight, indices, bool(sparse)),
    )[0]  # fmt: skip
