"""``torch.sparse``: tensors of which only some entries are stored.

A sparse tensor is the indices of its entries, which are fixed, and their values, which are a
Tensor. Products with dense matrices, solutions of systems of equations and arithmetic are
differentiable by the values and by the dense side.
"""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.ops._operation import raw
from retrograd.sparse._products import Solution
from retrograd.sparse._tensor import SparseTensor, sparse_coo, sparse_csc, sparse_csr
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor

__all__ = [
    "SparseTensor", "addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "sparse_coo",
    "sparse_coo_tensor", "sparse_csc", "sparse_csr", "sparse_csr_tensor", "spmm", "spsolve", "sum",
    "to_sparse", "to_sparse_csr",
]  # fmt: skip


# -- making them ---------------------------------------------------------------------------------


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
        places, values = arrays.zeros((len(size), 0), arrays.int64), []
    else:
        places = _integers(indices)
    entries = _values(values, dtype, device, requires_grad)
    if places.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if not entries.ndim or places.shape[1] != len(entries):
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{places.shape[1]}, nnz from values: {len(entries) if entries.ndim else 1}"
        )
    if size is None:
        size = (*[int(row.max(initial=-1)) + 1 for row in places], *entries.shape[1:])
    size = tuple(int(n) for n in size)
    _check_places(places, entries, size)
    if is_coalesced and not arrays.sparse.is_rising(
        arrays.sparse.flat(places, size[: len(places)])
    ):
        raise RuntimeError(
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
        )
    return SparseTensor(places, entries, size, bool(is_coalesced), leaf=requires_grad)


def _check_places(places: Any, entries: Tensor, size: tuple[int, ...]) -> None:
    count, dense = len(places), entries.ndim - 1
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
    if math.prod(size[:count]) >= 1 << 63:
        raise RuntimeError(f"numel: integer multiplication overflow for the size {list(size)}")
    for d, row in enumerate(places):
        if len(row) and row.min() < 0:
            raise RuntimeError(f"found negative index {row.min()} for dim {d}")
        if len(row) and row.max() >= size[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found "
                f"index {row.max()}"
            )


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse matrix row by row.

    Args:
        crow_indices: For each row the number of entries before it, and the number of all at the
            end.
        col_indices: The column of each entry.
        values: The value of each entry.
        size: The numbers of rows and columns; by default, as large as the indices need.
        dtype: The dtype of the values; by default, theirs.
        device: The device, which is the CPU.
        requires_grad: Whether the values become a leaf that requires grad.
        check_invariants: Accepted for compatibility: indices are always checked.

    Returns:
        A ``SparseTensor``.

    Example:
        >>> a = torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3))
        >>> a
        tensor(crow_indices=tensor([0, 1, 3]),
               col_indices=tensor([2, 0, 2]),
               values=tensor([3., 4., 5.]), size=(2, 3), nnz=3,
               layout=torch.sparse_csr)
    """
    crow, columns = _integers(crow_indices), _integers(col_indices)
    if crow.ndim != 1 or columns.ndim != 1:
        raise RuntimeError("sparse_csr_tensor: batches of matrices are not supported")
    if size is None:
        size = (len(crow) - 1, int(columns.max(initial=-1)) + 1)
    size = tuple(size)
    if len(size) != 2 or len(crow) != size[0] + 1:
        raise RuntimeError(
            "crow_indices.shape[-1] must be equal to the number of rows + 1 "
            f"(={size[0] + 1}), but got {len(crow)}"
        )
    if (crow[1:] < crow[:-1]).any() or crow[0] != 0 or crow[-1] != len(columns):
        raise RuntimeError(
            f"sparse_csr_tensor: crow_indices must rise from 0 to {len(columns)}, the number of "
            "entries"
        )
    places = arrays.stack((arrays.sparse.rows_of(crow), columns))
    entries = _values(values, dtype, device, requires_grad)
    if entries.ndim != 1 or len(entries) != len(columns):
        raise RuntimeError(
            f"sparse_csr_tensor: got {len(columns)} columns and values of the shape "
            f"{list(entries.shape)}"
        )
    _check_places(places, entries, size)
    return SparseTensor(places, entries, size, True, sparse_csr, leaf=requires_grad)


def _values(values: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    made: Tensor = as_tensor(values, dtype=dtype, device=device)
    return made.detach().requires_grad_() if requires_grad else made


def _integers(indices: Any) -> Any:
    return arrays.asarray(raw(indices) if isinstance(indices, Tensor) else indices, arrays.int64)


def to_sparse(x: Tensor, sparse_dim: Any = None, *, layout: Any = sparse_coo) -> SparseTensor:
    """The elements of a tensor that are not zero. The values lead back to the tensor.

    Args:
        x: A tensor.
        sparse_dim: The number of sparse dimensions; by default all.
        layout: ``torch.sparse_coo``, or ``torch.sparse_csr`` for a matrix.

    Returns:
        A ``SparseTensor``.

    Example:
        >>> torch.sparse.to_sparse(torch.eye(2)).indices()
        tensor([[0, 1],
                [0, 1]])
    """
    dims = x.ndim if sparse_dim is None else sparse_dim
    places = arrays.sparse.nonzero(arrays.asarray(x.detach().numpy()), dims)
    values = x[tuple(wrap(row) for row in places)] if dims else x[None][: places.shape[1]]
    made = SparseTensor(places, values, x.shape, True)
    return made.to_sparse_csr() if layout == sparse_csr else made


def to_sparse_csr(x: Tensor) -> SparseTensor:
    """As ``to_sparse``, row by row.

    Args:
        x: A matrix.

    Returns:
        A ``SparseTensor``.

    Example:
        >>> torch.sparse.to_sparse_csr(torch.eye(2)).crow_indices()
        tensor([0, 1, 2])
    """
    if x.ndim != 2:
        raise RuntimeError(f"to_sparse_csr: expected a matrix, got {x.ndim} dimensions")
    return to_sparse(x, layout=sparse_csr)


# -- computing with them ---------------------------------------------------------------------------


def mm(sparse: Any, dense: Any) -> Any:
    """The product of a sparse matrix and a dense or sparse matrix, or a vector.

    Args:
        sparse: A sparse matrix.
        dense: A matrix or a vector.

    Returns:
        A dense Tensor, or a sparse one if both are, differentiable by both.

    Example:
        >>> values = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> a = torch.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2))
        >>> torch.sparse.mm(a, torch.tensor([[1.0], [2.0]])).sum().backward()
        >>> values.grad
        tensor([2., 1.])
    """
    return sparse @ dense


spmm = dsmm = mm  # as PyTorch calls it in the main namespace


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """A matrix plus the product of a sparse matrix and a dense one.

    Args:
        mat: A dense matrix.
        mat1: A sparse matrix.
        mat2: A dense matrix.
        beta: A factor of ``mat``.
        alpha: A factor of the product.

    Returns:
        ``beta * mat + alpha * (mat1 @ mat2)``.

    Example:
        >>> a = torch.sparse.to_sparse(torch.eye(2))
        >>> torch.sparse.addmm(torch.ones(2, 1), a, torch.ones(2, 1), alpha=3)
        tensor([[4.],
                [4.]])
    """
    result: Tensor = beta * mat + alpha * (mat1 @ mat2)
    return result


def sampled_addmm(
    input: SparseTensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> SparseTensor:
    """A sparse matrix plus the product of two dense ones, at the indices of the sparse one.

    Args:
        input: A sparse matrix.
        mat1: A dense matrix.
        mat2: A dense matrix.
        beta: A factor of ``input``.
        alpha: A factor of the product.

    Returns:
        A ``SparseTensor`` with the indices of ``input``.

    Example:
        >>> a = torch.sparse.to_sparse_csr(torch.eye(2))
        >>> torch.sparse.sampled_addmm(a, torch.ones(2, 3), torch.ones(3, 2)).values()
        tensor([4., 4.])
    """
    rows, columns = (wrap(row) for row in input._places)
    products = (mat1[rows] * mat2.mT[columns]).sum(-1)
    return input._with(beta * input._values() + alpha * products)


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The softmax of the entries along a dimension, as if all others were minus infinity.

    Args:
        input: A sparse tensor.
        dim: The dimension.
        dtype: The dtype to compute in; by default, that of ``input``.

    Returns:
        A ``SparseTensor`` with the indices of ``input``.

    Example:
        >>> torch.sparse.softmax(torch.sparse.to_sparse(torch.eye(2) + 1), 1).values()
        tensor([0.7311, 0.2689, 0.2689, 0.7311])
    """
    return input.softmax(dim, dtype)


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The logarithm of ``softmax``.

    Args:
        input: A sparse tensor.
        dim: The dimension.
        dtype: The dtype to compute in; by default, that of ``input``.

    Returns:
        A ``SparseTensor`` with the indices of ``input``.

    Example:
        >>> torch.sparse.log_softmax(torch.sparse.to_sparse(torch.eye(2)), 1).values()
        tensor([0., 0.])
    """
    return input.log_softmax(dim, dtype)


def sum(  # noqa: A001 - as PyTorch calls it
    input: SparseTensor, dim: Any = None, dtype: Any = None
) -> Any:
    """The sum of all entries, or over some dimensions.

    Args:
        input: A sparse tensor.
        dim: The dimensions that are summed over; by default all.
        dtype: The dtype to sum in; by default, that of ``input``.

    Returns:
        A ``SparseTensor``, or a Tensor if no sparse dimension is left.

    Example:
        >>> a = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
        >>> torch.sparse.sum(a, 1).to_dense()
        tensor([3., 9.])
    """
    return input.sum(dim, dtype)


def spsolve(sparse: SparseTensor, right: Tensor) -> Tensor:
    """The solution of a system of linear equations with a sparse matrix, by LU decomposition.

    Args:
        sparse: A square sparse matrix.
        right: The right-hand side: a vector, or several as the columns of a matrix.

    Returns:
        A dense Tensor, differentiable by ``right`` and by the values of ``sparse``.

    Example:
        >>> a = torch.sparse.to_sparse(torch.tensor([[2.0, 0.0], [1.0, 4.0]]))
        >>> torch.sparse.spsolve(a, torch.tensor([2.0, 9.0]))
        tensor([1., 2.])
    """
    structure = sparse._structure
    if structure.shape[0] != structure.shape[1]:
        raise RuntimeError(f"spsolve: expected a square matrix, got the shape {sparse.shape}")
    if right.ndim not in (1, 2) or right.shape[0] != structure.shape[0]:
        raise RuntimeError(
            f"spsolve: Expected dim 0 size {structure.shape[0]}, got {list(right.shape)}"
        )
    if sparse.dtype != right.dtype:
        raise RuntimeError(f"spsolve: expected one dtype, got {sparse.dtype} and {right.dtype}")
    columns = right if right.ndim == 2 else right[:, None]
    found: Tensor = Solution.apply(sparse._values(), columns, structure)
    return found if right.ndim == 2 else found[:, 0]
