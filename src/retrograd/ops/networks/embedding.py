"""Embeddings: rows of a table looked up by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._arguments import Plug, check_int
from retrograd.ops._batching import BatchLevel, folded, unfolded
from retrograd.ops._batching_declarations import own
from retrograd.ops._dims import is_integer, numel
from retrograd.ops._lifted import bare, checked_by_line, device_value, tracer
from retrograd.ops._operands import is_lifted
from retrograd.ops._operation import Linear, Operation, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops.comparisons import gt, logical_and, ne
from retrograd.ops.copies import index_for, to_dtype, zeros_like
from retrograd.ops.elementwise import add
from retrograd.ops.piecewise import where
from retrograd.ops.pointwise.division import remainder
from retrograd.ops.reductions.norms import vector_norm

type_word = arrays.dtypes.type_word
# The index of the padding row, or -1; for several stacked tables, also the number of rows of each.
Padding = int | tuple[int, int]

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
        kept = to_dtype(is_no_padding(indices, padding_idx), dtype=dtype)
        result = kept if result is None else result * kept
    return None if result is None else linear.unsqueeze(result, dim=len(result.shape))


def is_no_padding(indices: Any, padding_idx: Padding) -> Any:
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


def stacked_indices(level: BatchLevel, indices: Any, rows: int) -> Any:
    """The rows of each entry's table as rows of all tables stacked."""
    ahead = arrays.arange(level.size).reshape(-1, *(1,) * len(indices.shape)) * rows
    return add(level.stacked(indices), ahead)


def stacked_padding(padding_idx: Padding, rows: int) -> Padding:
    """The padding of stacked tables."""
    return (padding_idx, rows) if is_integer(padding_idx) and padding_idx >= 0 else padding_idx


@own("tables of each entry are one below the other, and indices count from their start")
def _add_rows_of_many(
    level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]
) -> Any:
    rows = options["rows"]
    options = {
        **options, "rows": rows * level.size,
        "padding_idx": stacked_padding(options["padding_idx"], rows),
        "indices": raw(stacked_indices(level, options["indices"], rows)),
    }  # fmt: skip
    return unfolded(level, op(level.stacked(args[0]), **options), rows)


add_rows: Linear = declare(
    "add_rows", _add_rows, _add_rows_rule, node="EmbeddingDenseBackwardBackward0",
    batch=_add_rows_of_many,
)  # fmt: skip


def sparse_rows(
    rows: Any, indices: Raw, shape: Sequence[int], scale_grad_by_freq: bool
) -> Any:
    """The gradient of a table as a sparse tensor: the gradients of the rows that were looked up."""
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    return Plug.sparse().of_rows(indices, rows, shape)


def is_sparse(weight: Any, indices: Any, sparse: bool) -> bool:
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
        return sparse_rows(rows, flat, shape, scale_grad_by_freq)
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
    options = {**options, "padding_idx": stacked_padding(options["padding_idx"], rows)}
    return op(folded(level, weight), stacked_indices(level, indices, rows), **options)


# As in PyTorch, a tangent of the padding is looked up like any other.
embedding_rows = Linear(
    "embedding", _look_up, inputs=("weight", "indices"), rules={"weight": _embedding_rule},
    batch=_look_up_of_many,
    words="Each row of the table that was looked up gets the sum of the gradients of its uses; all "
          "others get zero.",
)  # fmt: skip


def check_indices(indices: Any, function: str) -> Raw:
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
    index_array = check_indices(indices, "embedding")
    if index_array.size:
        if not len(table):
            raise RuntimeError("index_select(): self indexing axis dim should be positive")
        known = device_value(index_array) is None  # or what the operation expects is asked later
        if known and not checked_by_line(_check_rows, index_array, len(table)):
            _check_rows(bare(index_array, looks=False), len(table))
    return embedding_rows(
        weight, indices, padding_idx=padding_idx, scale_grad_by_freq=bool(scale_grad_by_freq),
        sparse=is_sparse(weight, indices, bool(sparse)),
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
        limit_norms(weight, check_indices(input, "embedding_renorm_"), max_norm, norm_type)
    return look_up(
        weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse
    )


def limit_norms(weight: Any, indices: Raw, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``weight`` that are longer than ``max_norm``, in place and unrecorded."""
    table = raw(weight)
    if is_lifted(weight) or is_lifted(indices):
        _limit_norms_lifted(weight, indices, max_norm, norm_type)
        return
    if arrays.any(indices < 0):
        raise IndexError("index out of range in self")
    rows = arrays.nonzero(arrays.windows.counts_of(indices, len(table)))[0]
    if len(rows) and rows[-1] >= len(table):
        raise IndexError(
            f"select(): index {rows[-1]} out of range for tensor of size {list(table.shape)} at "
            "dimension 0"
        )
    norms = arrays.windows.row_norms(table[rows], norm_type)
    long = norms > max_norm
    rows = rows[long]
    scale = arrays.cast(max_norm / (norms[long] + 1e-7), table.dtype)
    weight.detach()[rows] = table[rows] * scale[:, None]  # a write also if no row is long


def _limit_norms_lifted(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """As ``limit_norms``, of values under transforms."""
    table = weight.detach()
    norms = vector_norm(table, norm_type, 1)
    used = gt(_counts(indices, len(table), raw(norms).dtype), 0)
    long = logical_and(used, gt(norms, max_norm))
    factors = where(long, max_norm / (norms + 1e-7), zeros_like(norms) + 1)
    table.copy_(table * linear.unsqueeze(factors, dim=1))
