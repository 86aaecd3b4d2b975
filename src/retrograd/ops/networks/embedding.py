"""Embeddings: rows of a table looked up by index, one by one or in bags that are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import Plug, check_int
from retrograd.ops._batching import BatchLevel, folded, unfolded
from retrograd.ops._batching_declarations import own
from retrograd.ops._dims import is_integer, numel
from retrograd.ops._lifted import bare, checked_by_line, device_value, tracer
from retrograd.ops._operands import is_lifted
from retrograd.ops._operation import Linear, Multilinear, Operation, Selecting, Selection, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops._sections import like
from retrograd.ops.comparisons import gt, logical_and, ne
from retrograd.ops.copies import index_for, to_dtype, zeros_like
from retrograd.ops.elementwise import add
from retrograd.ops.piecewise import clamp, where
from retrograd.ops.pointwise.division import remainder
from retrograd.ops.reductions.norms import vector_norm

type_word = arrays.dtypes.type_word
# The index of the padding row, or -1; for several stacked tables, also the number of rows of each.
Padding = int | tuple[int, int]

# -- single rows -----------------------------------------------------------------------------


def _look_up(
    weight: Raw, indices: Raw, padding_idx: Padding, scale_grad_by_freq: bool, sparse: bool
) -> Raw:
    return weight[indices]


def _share(
    indices: Any, rows: int, padding_idx: Padding, scale_grad_by_freq: bool, dtype: Any
) -> Any:
    """The factor for the gradient of each looked-up row: zero for padding, and one over the count
    with ``scale_grad_by_freq``. None if all factors are one."""
    result: Any = None
    if scale_grad_by_freq:
        each = linear.index(_counts(indices, rows, dtype), where=(indices,))
        result = 1 / each
    if padding_idx != -1:
        kept = to_dtype(_is_no_padding(indices, padding_idx), dtype=dtype)
        result = kept if result is None else result * kept
    return None if result is None else linear.unsqueeze(result, dim=len(result.shape))


def _is_no_padding(indices: Any, padding_idx: Padding) -> Any:
    if is_integer(padding_idx):
        return ne(indices, padding_idx)
    padding_idx, rows = padding_idx
    return ne(remainder(indices, rows), padding_idx)


def _counts(indices: Any, rows: int, dtype: Any) -> Any:
    """How often each row is looked up."""
    flat = linear.reshape(indices, (numel(indices.shape),))
    ones = to_dtype(zeros_like(flat) + 1, dtype=dtype)
    column = linear.unsqueeze(ones, dim=1)
    result = add_rows(column, indices=flat, rows=rows, padding_idx=-1, scale_grad_by_freq=False)
    return linear.reshape(result, (rows,))


def _add_rows(
    self: Raw, indices: Raw, rows: int, padding_idx: Padding, scale_grad_by_freq: bool
) -> Raw:
    flat = indices.reshape(-1)
    values = self.reshape(flat.size, self.shape[-1])
    share = _share(flat, rows, padding_idx, scale_grad_by_freq, self.dtype)
    return arrays.sorting.scatter_rows(rows, flat, values if share is None else values * share)


def _add_rows_rule(
    g: Any, indices: Any, rows: int, padding_idx: Padding, scale_grad_by_freq: bool
) -> Any:
    result = linear.index(g, where=(indices,))
    share = _share(indices, rows, padding_idx, scale_grad_by_freq, raw(g).dtype)
    return result if share is None else result * share


def _numbered(level: BatchLevel, indices: Any, rows: int) -> Any:
    """The rows of each entry's table as rows of all tables stacked."""
    ahead = arrays.arange(level.size).reshape(-1, *(1,) * len(indices.shape)) * rows
    return add(level.stacked(indices), ahead)


def _in_each(padding_idx: Padding, rows: int) -> Padding:
    """The padding of stacked tables."""
    return (padding_idx, rows) if is_integer(padding_idx) and padding_idx >= 0 else padding_idx


@own("tables of each entry are one below the other, and indices count from their start")
def _add_rows_of_many(
    level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]
) -> Any:
    rows = options["rows"]
    options = {
        **options, "rows": rows * level.size, "padding_idx": _in_each(options["padding_idx"], rows),
        "indices": raw(_numbered(level, options["indices"], rows)),
    }  # fmt: skip
    return unfolded(level, op(level.stacked(args[0]), **options), rows)


add_rows: Linear = declare(
    "add_rows", _add_rows, _add_rows_rule, node="EmbeddingDenseBackwardBackward0",
    batch=_add_rows_of_many,
)  # fmt: skip


def _sparse_rows(
    rows: Any, indices: Raw, shape: Sequence[int], scale_grad_by_freq: bool
) -> Any:
    """The gradient of a table as a sparse tensor: the gradients of the rows that were looked up."""
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    return Plug.sparse().of_rows(indices, rows, shape)


def _is_sparse(weight: Any, indices: Any, sparse: bool) -> bool:
    """Whether the gradient of a table is to be sparse: if that was asked for, the table is a leaf
    (rules of operations that compute a table take dense gradients) and neither is transformed."""
    if not sparse or not getattr(weight, "is_leaf", False):
        return False
    if (level := tracer()) is not None:  # programs have no sparse tensors
        level.look("control flow: an embedding with sparse gradients")
    return not (is_lifted(weight) or is_lifted(indices))


def _embedding_rule(
    g: Any, indices: Any, shape: Sequence[int], padding_idx: Padding, scale_grad_by_freq: bool,
    sparse: bool,
) -> Any:  # fmt: skip
    if sparse and not is_lifted(g):
        flat = raw(indices).reshape(-1)
        rows = linear.reshape(g, (flat.size, g.shape[-1]))
        if padding_idx != -1:
            (kept,) = arrays.nonzero(flat != padding_idx)
            flat, rows = flat[kept], linear.index(rows, where=(kept,))
        return _sparse_rows(rows, flat, shape, scale_grad_by_freq)
    return add_rows(
        g, indices=index_for(indices, g), rows=shape[0], padding_idx=padding_idx,
        scale_grad_by_freq=scale_grad_by_freq,
    )  # fmt: skip


@own("tables of each entry are one below the other, and indices count from their start")
def _look_up_of_many(
    level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]
) -> Any:
    weight, indices = args
    if not level.owns(weight) and not options["scale_grad_by_freq"]:
        return op(weight, indices.value, **options)
    rows = weight.shape[0]
    options = {**options, "padding_idx": _in_each(options["padding_idx"], rows)}
    return op(folded(level, weight), _numbered(level, indices, rows), **options)


# As in PyTorch, a tangent of the padding is looked up like any other.
embedding_rows = Linear(
    "embedding", _look_up, inputs=("weight", "indices"), rules={"weight": _embedding_rule},
    batch=_look_up_of_many,
    words="Each row of the table that was looked up gets the sum of the gradients of its uses; all "
          "others get zero.",
)  # fmt: skip


def _check_indices(indices: Any, function: str) -> Raw:
    index_array = raw(indices)
    if index_array.dtype.name not in ("int64", "int32"):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got torch.{type_word(index_array.dtype)}Tensor instead (while "
            f"checking arguments for {function})"
        )
    return index_array


def _check_rows(indices: Raw, rows: int) -> None:
    if arrays.amin(indices) < 0 or arrays.amax(indices) >= rows:
        raise IndexError("index out of range in self")


@public("torch.embedding")
def look_up(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    """Look up rows of a table by index.

    The same as ``nn.functional.embedding``, with the table first.

    Args:
        weight: the table, of shape ``(num_embeddings, embedding_dim)``.
        indices: indices, of any shape.
        padding_idx: index of a row that gets no gradient; -1 for none.
        scale_grad_by_freq: divide the gradient of a row by how often its index occurs in the batch.
        sparse: whether the gradient of ``weight``, if that is a leaf, is a sparse tensor.

    Returns:
        The rows, of shape ``(*indices.shape, embedding_dim)``.

    Example:
        >>> torch.embedding(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0]))
        tensor([[3., 4.],
                [1., 2.]])
    """
    table = raw(weight)
    if table.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    index_array = _check_indices(indices, "embedding")
    if index_array.size:
        if not len(table):
            raise RuntimeError("index_select(): self indexing axis dim should be positive")
        known = device_value(index_array) is None  # or what the operation expects is asked later
        if known and not checked_by_line(_check_rows, index_array, len(table)):
            _check_rows(bare(index_array, looks=False), len(table))
    return embedding_rows(
        weight, indices, padding_idx=padding_idx, scale_grad_by_freq=bool(scale_grad_by_freq),
        sparse=_is_sparse(weight, indices, bool(sparse)),
    )  # fmt: skip


@public("functional")
def embedding(
    input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    """Look up rows of a table by index.

    Args:
        input: indices, of any shape.
        weight: the table, of shape ``(num_embeddings, embedding_dim)``.
        padding_idx: index of a row that gets no gradient.
        max_norm: rows that are looked up and have a larger norm are scaled to this norm, in place.
        norm_type: order of the norm for ``max_norm``.
        scale_grad_by_freq: divide the gradient of a row by how often its index occurs in the batch.
        sparse: whether the gradient of ``weight``, if that is a leaf, is a sparse tensor, which
            holds the rows that were looked up only. SGD, Adagrad and SparseAdam accept those.

    Returns:
        The rows, of shape ``(*input.shape, embedding_dim)``.

    Example:
        >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> rows = torch.nn.functional.embedding(torch.tensor([1, 1, 0]), table)
        >>> rows.sum().backward()
        >>> table.grad
        tensor([[1., 1.],
                [2., 2.]])
    """
    if padding_idx is not None:
        check_int("embedding", "padding_idx", 3, padding_idx)
    if padding_idx is not None:
        count = weight.shape[0]
        if not -count <= padding_idx < count:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= count
    if max_norm is not None:
        if len(weight.shape) != 2:
            raise RuntimeError(
                f"Expected 2-dimensional tensor, but got {len(weight.shape)}-dimensional tensor "
                "for argument #1 'self' (while checking arguments for embedding_renorm_)"
            )
        _shorten(weight, _check_indices(input, "embedding_renorm_"), max_norm, norm_type)
    return look_up(
        weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse
    )


def _shorten(weight: Any, indices: Raw, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``weight`` that are longer than ``max_norm``, in place and unrecorded."""
    table = raw(weight)
    if is_lifted(weight) or is_lifted(indices):
        _shorten_lifted(weight, indices, max_norm, norm_type)
        return
    if arrays.any(indices < 0):
        raise IndexError("index out of range in self")
    rows = arrays.nonzero(arrays.windows.counts_of(indices, len(table)))[0]
    if not rows.size:
        return
    norms = arrays.windows.row_norms(table[rows], norm_type)
    long = norms > max_norm
    if not arrays.any(long):
        return
    scale = arrays.cast(max_norm / (norms[long] + 1e-7), table.dtype)
    fitted = arrays.copy(table)
    fitted[rows[long]] *= scale[:, None]
    weight.detach().copy_(fitted)


def _shorten_lifted(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """As ``_shorten``, of values under transforms."""
    table = weight.detach()
    norms = vector_norm(table, norm_type, 1)
    used = gt(_counts(indices, len(table), raw(norms).dtype), 0)
    long = logical_and(used, gt(norms, max_norm))
    factors = where(long, max_norm / (norms + 1e-7), zeros_like(norms) + 1)
    table.copy_(table * linear.unsqueeze(factors, dim=1))


# -- bags ------------------------------------------------------------------------------------

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
    kept = _is_no_padding(indices, padding_idx)
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
        return _sparse_rows(rows, index_array, shape, scale_grad_by_freq)
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
    return result * to_dtype(_is_no_padding(index_array, padding_idx), dtype=raw(result).dtype)


@own("tables of each entry are one below the other, and bags of each entry are more bags")
def _bag_of_many(level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]) -> Any:
    """The bags of all entries in one sequence, from the stacked tables of all entries."""
    weight, indices, offsets, factors = args
    rows, length = weight.shape[0], indices.shape[0]
    starts = _numbered(level, offsets, length)
    bags = offsets.shape[0]
    if options["include_last_offset"]:
        bags -= 1
        starts = linear.slice_(starts, where=(slice(None), slice(0, bags)))
    options = {
        **options, "include_last_offset": False,
        "padding_idx": _in_each(options["padding_idx"], rows),
    }  # fmt: skip
    flat = [linear.reshape(x, (-1,)) for x in (_numbered(level, indices, rows), starts)]
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
    _check_indices(input, "embedding_bag")
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
        _check_indices(offsets, "embedding_bag")
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
        _shorten(weight, raw(indices), max_norm, norm_type)
    operation = bag_maxima if mode == "max" else bag_sums
    return operation(
        weight, indices, offsets, per_sample_weights, mode=_MODES[mode],
        include_last_offset=bool(include_last_offset),
        padding_idx=-1 if padding_idx is None else padding_idx,
        scale_grad_by_freq=bool(scale_grad_by_freq),
        sparse=_is_sparse(weight, indices, bool(sparse)),
    )[0]  # fmt: skip
