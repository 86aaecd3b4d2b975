"""``torch.sparse``: sparse tensors.

A sparse tensor is the indices of its entries, which are fixed, and their values, which are a
Tensor. Products with dense matrices, solutions of systems of equations and arithmetic are
differentiable by the values and by the dense side.
"""

from __future__ import annotations

from typing import Any

from retrograd.autograd._wrap import wrap
from retrograd.sparse._arithmetic import masked as masked
from retrograd.sparse._layouts import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from retrograd.sparse._making import empty as empty
from retrograd.sparse._making import like as like
from retrograd.sparse._making import of_rows as of_rows
from retrograd.sparse._making import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    spdiags,
    to_sparse,
)
from retrograd.sparse._products import Solution
from retrograd.sparse._tensor import SparseTensor
from retrograd.tensor._tensor import Tensor

__all__ = [
    "SparseTensor", "addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "sparse_bsc",
    "sparse_bsc_tensor", "sparse_bsr", "sparse_bsr_tensor", "sparse_compressed_tensor",
    "sparse_coo", "sparse_coo_tensor", "sparse_csc", "sparse_csc_tensor", "sparse_csr",
    "sparse_csr_tensor", "spdiags", "spmm", "spsolve", "sum", "to_sparse",
]  # fmt: skip



# -- computing with them ---------------------------------------------------------------------------


def mm(sparse: Any, dense: Any) -> Any:
    """The product of a sparse matrix and a dense or sparse matrix, or a vector.

    Args:
        sparse: A sparse matrix.
        dense: A matrix or a vector.

    Returns:
        A dense Tensor, or a sparse one if both are, differentiable by both. The gradient by
        ``sparse`` leads to the entries that are stored; that of ``sparse @ dense`` leads to all
        elements of a dense tensor that ``sparse`` was made from.

    Example:
        >>> values = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> a = torch.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2))
        >>> torch.sparse.mm(a, torch.tensor([[1.0], [2.0]])).sum().backward()
        >>> values.grad
        tensor([2., 1.])
    """
    return sparse._times(dense, masked=True) if isinstance(sparse, SparseTensor) else sparse @ dense


def spmm(sparse: Any, dense: Any) -> Any:
    """The product of a sparse matrix and a dense or sparse matrix, or a vector: ``torch.mm``.

    Args:
        sparse: A sparse matrix.
        dense: A matrix or a vector.

    Returns:
        ``sparse @ dense``.

    Example:
        >>> torch.spmm(torch.eye(2).to_sparse(), torch.ones(2, 1))
        tensor([[1.],
                [1.]])
    """
    return sparse @ dense


dsmm = spmm


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
    result: Tensor = beta * mat + alpha * mm(mat1, mat2)
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
        >>> a = torch.eye(2).to_sparse_csr()
        >>> torch.sparse.sampled_addmm(a, torch.ones(2, 3), torch.ones(3, 2)).values()
        tensor([4., 4.])
    """
    *batch, rows, columns = (wrap(row) for row in input._index_array)
    products = (mat1[*batch, rows] * mat2.mT[*batch, columns]).sum(-1)
    return input._with(beta * input._entries + alpha * products)


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
    return input.softmax(dim, dtype)  # type: ignore[no-any-return]


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
    return input.log_softmax(dim, dtype)  # type: ignore[no-any-return]


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
    return input._masked_sum(dim, dtype)


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
    solution: Tensor = Solution.apply(sparse._entries, columns, structure)
    return solution if right.ndim == 2 else solution[:, 0]
