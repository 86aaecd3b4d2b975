"""Functions that create sparse tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.ops._lifted import device_value
from retrograd.ops._operands import is_lifted
from retrograd.ops._operation import raw
from retrograd.sparse._arithmetic import empty_like, masked
from retrograd.sparse._layouts import (
    BLOCKED,
    COMPRESSED,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    spelled,
)
from retrograd.sparse._tensor import ON_DEVICE, SparseTensor
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._creation import zeros
from retrograd.tensor._tensor import Tensor


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None,
    device: Any = None, requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse tensor by the indices of its entries.

    Args:
        indices: The indices of the entries: a row of integers for each sparse dimension. An entry
            that is repeated counts as the sum. A size alone makes a tensor without entries.
        values: The values of the entries, one after the other: numbers, or tensors of the dense
            dimensions. If it requires grad, so does what is computed with the result.
        size: The shape; by default, as large as the indices need.
        dtype: The dtype of the values; by default, theirs.
        device: The device, which is the CPU.
        requires_grad: Whether the values become a leaf that requires grad.
        check_invariants: Accepted for compatibility: indices are always checked.
        is_coalesced: True says that the entries are in order and none is repeated.

    Returns:
        A ``SparseTensor``.

    Example:
        >>> a = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
        >>> a
        tensor(indices=tensor([[0, 1, 1],
                               [2, 0, 2]]),
               values=tensor([3., 4., 5.]),
               size=(2, 3), nnz=3, layout=torch.sparse_coo)
        >>> a @ torch.ones(3)
        tensor([3., 9.])
    """
    if values is None:
        size = tuple(indices if size is None else size)
        index_array, values = arrays.zeros((len(size), 0), arrays.int64), []
    else:
        index_array = _integers(indices)
    entries = _values(values, dtype, device, requires_grad)
    if index_array.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(index_array.shape)}")
    if not entries.ndim or index_array.shape[1] != len(entries):
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{index_array.shape[1]}, nnz from values: {len(entries) if entries.ndim else 1}"
        )
    if size is None:
        size = (*[int(row.max(initial=-1)) + 1 for row in index_array], *entries.shape[1:])
    size = tuple(int(n) for n in size)
    _check_dims(len(index_array), entries, size)
    _check_indices(index_array, size)
    if is_coalesced and not arrays.sparse.is_rising(
        arrays.sparse.flat(index_array, size[: len(index_array)])
    ):
        raise RuntimeError(
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
        )
    return SparseTensor(index_array, entries, size, bool(is_coalesced), leaf=requires_grad)


def of_rows(rows: Any, values: Any, shape: Any) -> SparseTensor:
    """The gradient of a table of which rows were looked up.

    Args:
        rows: Which rows: an array of integers.
        values: Their gradients, an array or a Tensor.
        shape: The shape of the table.

    Returns:
        A ``SparseTensor`` with one sparse dimension.

    Example:
        >>> torch.sparse.of_rows(torch.tensor([2]).numpy(), torch.ones(1, 2), (3, 2))._nnz()
        1
    """
    entries = values if isinstance(values, Tensor) else wrap(values)
    return SparseTensor(arrays.asarray(rows, arrays.int64)[None], entries, shape)


def _check_dims(count: int, entries: Tensor, size: tuple[int, ...]) -> None:
    dense = entries.ndim - 1
    if len(size) != count + dense:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(size)}, sparse_dim = {count}, dense_dim = {dense}"
        )
    if tuple(entries.shape[1:]) != size[count:]:
        raise RuntimeError(
            f"values has incorrect size, expected {[len(entries), *size[count:]]}, got "
            f"{list(entries.shape)}"
        )


def _check_indices(indices: Any, size: tuple[int, ...]) -> None:
    if math.prod(size[: len(indices)]) >= 1 << 63:
        raise RuntimeError(f"numel: integer multiplication overflow for the size {list(size)}")
    for d, row in enumerate(indices):
        if len(row) and row.min() < 0:
            raise RuntimeError(f"found negative index {row.min()} for dim {d}")
        if len(row) and row.max() >= size[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found "
                f"index {row.max()}"
            )


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse matrix row by row or column by column, by entries or by blocks of them; or a batch
    of matrices with the same number of entries each.

    Args:
        compressed_indices: For each row, or column, the number of entries before it, and the number
            of all at the end; after the batch dimensions.
        plain_indices: The column, or row, of each entry, after the batch dimensions.
        values: The value of each entry, after the batch dimensions. For a layout with blocks, these
            are matrices.
        size: The shape; by default, as large as the indices need.
        dtype: The dtype of the values; by default, theirs.
        layout: ``torch.sparse_csr``, ``sparse_csc``, ``sparse_bsr`` or ``sparse_bsc``.
        device: The device, which is the CPU.
        requires_grad: Whether the values become a leaf that requires grad.
        check_invariants: Accepted for compatibility: indices are always checked.

    Returns:
        A ``SparseTensor``.

    Example:
        >>> torch.sparse_compressed_tensor([0, 1], [1], [5.0], (1, 2), layout=torch.sparse_csr)
        tensor(crow_indices=tensor([0, 1]),
               col_indices=tensor([1]),
               values=tensor([5.]), size=(1, 2), nnz=1, layout=torch.sparse_csr)
    """
    if layout not in COMPRESSED:
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got "
            f"{'none' if layout is None else layout}"
        )
    name, dim = f"{layout.removeprefix('torch.')}_tensor", COMPRESSED[layout]
    starts, others = _integers(compressed_indices), _integers(plain_indices)
    batch = tuple(starts.shape[:-1])
    first = len(batch)
    entries: Tensor = as_tensor(values, dtype=dtype, device=device)
    block = tuple(entries.shape[first + 1 : first + 3]) if layout in BLOCKED else (1, 1)
    if (
        not starts.ndim
        or others.shape[:-1] != batch
        or tuple(entries.shape[: first + 1]) != others.shape
        or len(block) != 2
        or 0 in (*batch, *block)
    ):
        raise RuntimeError(
            f"{name}: got indices of the shapes {list(starts.shape)} and {list(others.shape)}, and "
            f"values of the shape {list(entries.shape)}"
        )
    dense = tuple(entries.shape[first + (3 if layout in BLOCKED else 1) :])
    if size is None:
        counts = (starts.shape[-1] - 1, int(others.max(initial=-1)) + 1)[:: 1 if dim == 0 else -1]
        size = (*batch, counts[0] * block[0], counts[1] * block[1], *dense)
    size = tuple(int(n) for n in size)
    if size[:first] != batch or size[first + 2 :] != dense:
        raise RuntimeError(f"{name}: values of the shape {list(entries.shape)} do not fit {size}")
    matrix = size[first : first + 2]
    _check_compressed(name, layout, starts, others, matrix, block)
    indices = arrays.sparse.decompressed(starts, others, dim)
    _check_indices(indices, (*batch, *(n // b for n, b in zip(matrix, block, strict=True))))
    entries = entries.flatten(0, first) if first else entries
    entries = entries.detach().requires_grad_() if requires_grad else entries
    return SparseTensor(indices, entries, size, True, layout, leaf=requires_grad)


def _check_compressed(
    name: str, layout: Any, starts: Any, others: Any, size: tuple[int, ...], block: Any
) -> None:
    dim, nnz = COMPRESSED[layout], others.shape[-1]
    if len(size) < 2 or any(n % b for n, b in zip(size, block, strict=False)):
        raise RuntimeError(f"{name}: the size {list(size)} is not one of blocks of {list(block)}")
    count = size[dim] // block[dim]
    if starts.shape[-1] != count + 1:
        raise RuntimeError(
            f"{('crow', 'ccol')[dim]}_indices.shape[-1] must be equal to the number of "
            f"{('rows', 'columns')[dim]} + 1 (={count + 1}), but got {starts.shape[-1]}"
        )
    falls = (starts[..., 1:] < starts[..., :-1]).any()
    if falls or (starts[..., 0] != 0).any() or (starts[..., -1] != nnz).any():
        raise RuntimeError(
            f"{name}: {('crow', 'ccol')[dim]}_indices must rise from 0 to {nnz}, the number of "
            "entries"
        )


def _of_layout(layout: Any, names: tuple[str, str], example: str) -> Callable[..., SparseTensor]:
    dim, blocked = COMPRESSED[layout], layout in BLOCKED
    entry = "block" if blocked else "entry"

    def function(*args: Any, **kwargs: Any) -> SparseTensor:
        for name, general in zip(names, ("compressed_indices", "plain_indices"), strict=True):
            if name in kwargs:
                kwargs[general] = kwargs.pop(name)
        return sparse_compressed_tensor(*args, **kwargs, layout=layout)

    function.__name__ = function.__qualname__ = f"{layout.removeprefix('torch.')}_tensor"
    function.__doc__ = f"""A sparse matrix {('row by row', 'column by column')[dim]}{
        ", by blocks" if blocked else ""}: ``sparse_compressed_tensor`` with a layout of its own.

    Args:
        *args: ``{names[0]}``, where each {('row', 'column')[dim]} begins; ``{names[1]}``, the
            {('column', 'row')[dim]} of each {entry}; ``values`` and ``size``.
        **kwargs: ``dtype``, ``requires_grad`` and so on.

    Returns:
        A ``SparseTensor``.

    Example:
        >>> {example}
    """
    return function


sparse_csr_tensor = _of_layout(
    sparse_csr, ("crow_indices", "col_indices"),
    "torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3)).to_dense()\n"
    "        tensor([[0., 0., 3.],\n                [4., 0., 5.]])",
)  # fmt: skip
sparse_csc_tensor = _of_layout(
    sparse_csc, ("ccol_indices", "row_indices"),
    "torch.sparse_csc_tensor([0, 1, 3], [1, 0, 1], [3.0, 4.0, 5.0], (2, 2)).to_dense()\n"
    "        tensor([[0., 4.],\n                [3., 5.]])",
)  # fmt: skip
sparse_bsr_tensor = _of_layout(
    sparse_bsr, ("crow_indices", "col_indices"),
    "torch.sparse_bsr_tensor([0, 1], [1], [[[3.0, 4.0]]], (1, 4)).to_dense()\n"
    "        tensor([[0., 0., 3., 4.]])",
)  # fmt: skip
sparse_bsc_tensor = _of_layout(
    sparse_bsc, ("ccol_indices", "row_indices"),
    "torch.sparse_bsc_tensor([0, 0, 1], [0], [[[3.0, 4.0]]], (1, 4)).to_dense()\n"
    "        tensor([[0., 0., 3., 4.]])",
)  # fmt: skip


def _values(values: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    made: Tensor = as_tensor(values, dtype=dtype, device=device)
    return made.detach().requires_grad_() if requires_grad else made


def _integers(indices: Any) -> Any:
    return arrays.asarray(raw(indices) if isinstance(indices, Tensor) else indices, arrays.int64)


def to_sparse(
    x: Tensor, sparse_dim: Any = None, *, layout: Any = sparse_coo, blocksize: Any = None,
    dense_dim: int | None = None,
) -> SparseTensor:  # fmt: skip
    """The elements of a tensor that are not zero. Gradients of what is computed with ``values()``,
    ``to_dense()`` and ``torch.sparse`` lead back to these elements; those of products (``@``,
    ``mm``, ``addmm``) and sums with dense tensors lead to all elements.

    Args:
        x: A tensor.
        sparse_dim: The number of sparse dimensions; by default all.
        layout: The layout of the result, such as ``torch.sparse_coo``.
        blocksize: The shape of blocks, for layouts that have them.
        dense_dim: The number of dense dimensions in a compressed layout. Dimensions in front of the
            matrix are batch dimensions.

    Returns:
        A ``SparseTensor``.

    Example:
        >>> torch.sparse.to_sparse(torch.eye(2)).indices()
        tensor([[0, 1],
                [0, 1]])
    """
    dims = x.ndim - (dense_dim or 0) if sparse_dim is None else sparse_dim
    if layout in COMPRESSED and dims < 2:
        raise RuntimeError(
            f"to_{layout.removeprefix('torch.')}: expected a matrix, got {dims} dimensions"
        )
    if layout in COMPRESSED and 0 in x.shape[: dims - 2]:
        raise RuntimeError(
            f"to_{layout.removeprefix('torch.')}: Expected product of batch dimensions to be "
            "non-zero."
        )
    if device_value(x) is not None:
        raise RuntimeError(ON_DEVICE.format(x.device))
    indices = arrays.sparse.nonzero(arrays.asarray(x.detach()._array()), dims)
    values = x[tuple(wrap(row) for row in indices)] if dims else x[None][: indices.shape[1]]
    made = SparseTensor(indices, values, x.shape, True)
    if layout in COMPRESSED:
        made = made._to_compressed(layout, blocksize, dims - 2)
    elif layout not in (None, sparse_coo):
        raise RuntimeError(f"to_sparse: {layout} is not a sparse layout")
    made = masked(x, made) if layout in BLOCKED else made
    if x.requires_grad or is_lifted(x):
        made._whole = lambda: x
    return made


def empty(size: Any, layout: Any, *, requires_grad: bool = False, **options: Any) -> SparseTensor:
    """A sparse tensor without entries.

    Args:
        size: The shape.
        layout: The layout, such as ``torch.sparse_coo``.
        requires_grad: Whether the values require grad.
        **options: The dtype and the device.

    Returns:
        A ``SparseTensor``.

    Example:
        >>> torch.zeros(2, 3, layout=torch.sparse_coo)
        tensor(indices=tensor([], size=(2, 0)),
               values=tensor([], size=(0,)),
               size=(2, 3), nnz=0, layout=torch.sparse_coo)
    """
    if layout in BLOCKED:
        raise RuntimeError(
            "zeros_sparse_compressed expected sparse compressed (non-block) tensor layout but got "
            f"{spelled(layout)}"
        )
    if layout in COMPRESSED and len(size) < 2:
        raise RuntimeError(
            "torch.zeros: Only batched sparse compressed (non-block) tensors are supported, but "
            f"got size {list(size)}"
        )
    none, entries = arrays.zeros((len(size), 0), arrays.int64), zeros(0, **options)
    made = SparseTensor(none, entries, size, True, layout)
    return made.requires_grad_() if requires_grad else made


def like(
    name: str, input: Any, dtype: Any, layout: Any, requires_grad: bool
) -> SparseTensor | Tensor:
    """What ``zeros_like`` and the like give for a sparse tensor, or for a sparse layout.

    Args:
        name: The function: ``zeros_like``, ``empty_like`` or ``ones_like``.
        input: A tensor.
        dtype: The dtype of the result; by default, that of ``input``.
        layout: The layout of the result; by default, that of ``input``.
        requires_grad: Whether the result requires grad.

    Returns:
        A sparse tensor, or a dense one if that is the layout.

    Example:
        >>> torch.zeros_like(torch.eye(2).to_sparse())._nnz()
        0
    """
    dtype = input.dtype if dtype is None else dtype
    if layout is not None and layout != input.layout:
        if name == "ones_like":
            raise RuntimeError("full(...) is not implemented for sparse layout")
        if layout in (sparse_coo, *COMPRESSED):
            return empty(input.shape, layout, dtype=dtype, requires_grad=requires_grad)
        return zeros(input.shape, dtype=dtype, requires_grad=requires_grad)
    if name == "ones_like":
        if input.layout == sparse_coo:
            raise NotImplementedError("ones_like of a sparse tensor: use x.to_dense()")
        made = input._with(zeros(input._entries.shape, dtype=dtype) + 1)
    else:
        made = empty_like(input).to(dtype)
    return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> SparseTensor:
    """Creates a sparse matrix from its diagonals.

    Args:
        diagonals: A matrix whose rows are the diagonals. Each is placed by columns: element ``j``
            is in column ``j``.
        offsets: For each, how far it is above the main diagonal.
        shape: The shape of the result.
        layout: The layout of the result; by default ``torch.sparse_coo``.

    Returns:
        A ``SparseTensor``.

    Example:
        >>> values = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.sparse.spdiags(values, torch.tensor([0, 1]), (2, 2)).to_dense()
        tensor([[1., 4.],
                [0., 2.]])
    """
    rows = diagonals if diagonals.ndim == 2 else diagonals[None]
    numbers = _integers(offsets).reshape(-1)
    if len(numbers) != rows.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({len(numbers)})"
        )
    if len(arrays.sparse.distinct(numbers)[0]) != len(numbers):
        raise RuntimeError("Offset tensor contains duplicate values")
    indices, taken = arrays.sparse.diagonals(numbers, rows.shape[1], (shape[0], shape[1]))
    made = SparseTensor(indices, rows[tuple(wrap(row) for row in taken)], shape)
    return made if layout is None else made.to_sparse(layout=layout)
