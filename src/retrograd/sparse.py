"""``torch.sparse``: sparse matrices as constants of programs, or with values to differentiate by.

A sparse matrix is its structure, which is fixed, and its values, which are a Tensor. Products with
dense matrices and solutions of systems of equations are differentiable by the values and by the
dense side, to any order and under all transforms.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.autograd.function import Function
from retrograd.ops._lifted import by_kernel
from retrograd.ops._operation import raw
from retrograd.ops.linear import stack
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor

__all__ = ["SparseMatrix", "mm", "sparse_coo_tensor", "sparse_csr_tensor", "spmm", "spsolve", "sum",
           "to_sparse", "to_sparse_csr"]  # fmt: skip


class SparseMatrix:
    """A matrix of which only some entries are stored. Made by ``sparse_coo_tensor``,
    ``sparse_csr_tensor`` or ``to_sparse``; multiplied by ``@``."""

    is_sparse = True

    def __init__(self, structure: Any, values: Tensor, layout: str) -> None:
        self._structure = structure
        self._values = values
        self.layout = f"torch.sparse_{layout}"

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        rows, columns = self._structure.shape
        return (rows, columns)

    @property
    def dtype(self) -> Any:
        """That of the values."""
        return self._values.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether the values require grad."""
        return self._values.requires_grad

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one number of it."""
        return self.shape if dim is None else self.shape[dim]

    def values(self) -> Tensor:
        """The values of the entries that are stored."""
        return self._values

    def indices(self) -> Tensor:
        """The row and the column of each entry, in two rows."""
        both = [wrap(self._structure.rows), wrap(self._structure.columns)]
        result: Tensor = stack(both, dim=0)
        return result

    def crow_indices(self) -> Tensor:
        """For each row the number of entries before it, and the number of all at the end."""
        result: Tensor = wrap(self._structure.crow)
        return result

    def col_indices(self) -> Tensor:
        """The column of each entry."""
        result: Tensor = wrap(self._structure.columns)
        return result

    def coalesce(self) -> SparseMatrix:
        """The same matrix with entries in order, those that are repeated added up."""
        which, structure = self._structure.distinct
        zeros = wrap(arrays.zeros((len(structure.rows),), raw(self._values).dtype))
        return SparseMatrix(structure, zeros.index_add(0, wrap(which), self._values), "coo")

    def to_dense(self) -> Tensor:
        """The matrix as a Tensor with all its elements."""
        rows, columns = self.shape
        flat = wrap(arrays.zeros((rows * columns,), raw(self._values).dtype))
        index = wrap(self._structure.rows * columns + self._structure.columns)
        result: Tensor = flat.index_add(0, index, self._values).reshape(rows, columns)
        return result

    def t(self) -> SparseMatrix:
        """The matrix with rows for columns."""
        return SparseMatrix(self._structure.transposed, self._values, "coo")

    def detach(self) -> SparseMatrix:
        """The same matrix without a history."""
        return SparseMatrix(self._structure, self._values.detach(), self.layout[13:])

    def __matmul__(self, dense: Tensor) -> Tensor:
        return mm(self, dense)

    def __mul__(self, number: Any) -> SparseMatrix:
        return SparseMatrix(self._structure, self._values * number, self.layout[13:])

    __rmul__ = __mul__

    def __repr__(self) -> str:
        rows, columns = self.shape
        count = len(self._structure.rows)
        return (
            f"<sparse matrix, {rows} × {columns}, {count} entries, dtype={self.dtype}, "
            f"layout={self.layout}>"
        )


# -- making them ---------------------------------------------------------------------------------


def sparse_coo_tensor(
    indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseMatrix:  # fmt: skip
    """A sparse matrix by the row and the column of each entry.

    Args:
        indices: The rows and the columns of the entries: two rows of integers. An entry that is
            repeated counts as the sum.
        values: The values of the entries. If it requires grad, so does what is computed with the
            matrix.
        size: The numbers of rows and columns; by default, as large as the indices need.
        dtype: The dtype of the values; by default, theirs.
        device: The device, which is the CPU.
        requires_grad: Whether the values become a leaf that requires grad.
        check_invariants: Accepted for compatibility: indices are always checked.
        is_coalesced: Accepted for compatibility; it has no effect.

    Returns:
        A ``SparseMatrix``.

    Example:
        >>> a = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
        >>> a.to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 5.]])
        >>> a @ torch.ones(3)
        tensor([3., 9.])
    """
    pair = _integers(indices)
    values = _values(values, dtype, device, requires_grad)
    if pair.ndim != 2 or len(pair) != 2 or values.ndim != 1:
        raise RuntimeError(
            "sparse_coo_tensor: only matrices are supported: expected indices in two rows and "
            f"values in one dimension, got shapes {list(pair.shape)} and {list(values.shape)}"
        )
    if size is None:
        size = (int(pair[0].max(initial=-1)) + 1, int(pair[1].max(initial=-1)) + 1)
    return _checked("sparse_coo_tensor", pair[0], pair[1], values, tuple(size), "coo")


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any, *, dtype: Any = None,
    device: Any = None, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseMatrix:  # fmt: skip
    """A sparse matrix row by row.

    Args:
        crow_indices: For each row the number of entries before it, and the number of all at the
            end.
        col_indices: The column of each entry.
        values: The value of each entry.
        size: The numbers of rows and columns.
        dtype: The dtype of the values; by default, theirs.
        device: The device, which is the CPU.
        requires_grad: Whether the values become a leaf that requires grad.
        check_invariants: Accepted for compatibility: indices are always checked.

    Returns:
        A ``SparseMatrix``.

    Example:
        >>> a = torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3))
        >>> a
        <sparse matrix, 2 × 3, 3 entries, dtype=torch.float32, layout=torch.sparse_csr>
        >>> a @ torch.ones(3)
        tensor([3., 9.])
    """
    crow, columns = _integers(crow_indices), _integers(col_indices)
    size = tuple(size)
    steps = crow[1:] - crow[:-1]
    if len(crow) != size[0] + 1 or (steps < 0).any() or crow[0] != 0 or crow[-1] != len(columns):
        raise RuntimeError(
            f"sparse_csr_tensor: crow_indices must rise from 0 to {len(columns)}, the number of "
            f"entries, in {size[0] + 1} numbers"
        )
    rows = arrays.sparse.rows_of(crow)
    made = _values(values, dtype, device, requires_grad)
    return _checked("sparse_csr_tensor", rows, columns, made, size, "csr")


def _values(values: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    made: Tensor = as_tensor(values, dtype=dtype, device=device)
    return made.detach().requires_grad_() if requires_grad else made


def _integers(indices: Any) -> Any:
    return arrays.asarray(raw(indices) if isinstance(indices, Tensor) else indices, arrays.int64)


def _checked(
    name: str, rows: Any, columns: Any, values: Tensor, size: tuple[int, ...], layout: str
) -> SparseMatrix:
    if len(size) != 2:
        raise RuntimeError(f"{name}: only matrices are supported, got the size {list(size)}")
    if not len(rows) == len(columns) == len(values):
        raise RuntimeError(
            f"{name}: got {len(rows)} rows, {len(columns)} columns and {len(values)} values"
        )
    for index, most, what in ((rows, size[0], "row"), (columns, size[1], "column")):
        if len(index) and (index.min() < 0 or index.max() >= most):
            raise RuntimeError(f"{name}: a {what} is out of range for the size {list(size)}")
    structure = arrays.sparse.Structure(rows, columns, (int(size[0]), int(size[1])))
    return SparseMatrix(structure, values, layout)


def to_sparse(x: Tensor, layout: str = "coo") -> SparseMatrix:
    """The elements of a matrix that are not zero. The values lead back to the matrix.

    Args:
        x: A matrix.
        layout: "coo" or "csr".

    Returns:
        A ``SparseMatrix``.

    Example:
        >>> torch.sparse.to_sparse(torch.eye(3))
        <sparse matrix, 3 × 3, 3 entries, dtype=torch.float32, layout=torch.sparse_coo>
    """
    if x.ndim != 2:
        raise RuntimeError(f"to_sparse: only matrices are supported, got {x.ndim} dimensions")
    rows, columns = arrays.sparse.nonzero(arrays.asarray(x.detach().numpy()))
    structure = arrays.sparse.Structure(rows, columns, (x.shape[0], x.shape[1]))
    return SparseMatrix(structure, x[wrap(rows), wrap(columns)], layout)


def to_sparse_csr(x: Tensor) -> SparseMatrix:
    """As ``to_sparse``, row by row.

    Args:
        x: A matrix.

    Returns:
        A ``SparseMatrix``.

    Example:
        >>> torch.sparse.to_sparse_csr(torch.eye(2)).crow_indices()
        tensor([0, 1, 2])
    """
    return to_sparse(x, "csr")


# -- computing with them ---------------------------------------------------------------------------


def mm(sparse: SparseMatrix, dense: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense matrix or vector.

    Args:
        sparse: A sparse matrix.
        dense: A matrix or a vector.

    Returns:
        A dense Tensor, differentiable by ``dense`` and by the values of ``sparse``.

    Example:
        >>> values = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> a = torch.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2))
        >>> torch.sparse.mm(a, torch.tensor([[1.0], [2.0]])).sum().backward()
        >>> values.grad
        tensor([2., 1.])
    """
    _check_sizes("mm", sparse, dense, sparse.shape[1])
    columns = dense if dense.ndim == 2 else dense[:, None]
    found: Tensor = _Product.apply(sparse._values, columns, sparse._structure)
    return found if dense.ndim == 2 else found[:, 0]


spmm = mm  # as PyTorch calls it in the main namespace


def spsolve(sparse: SparseMatrix, right: Tensor) -> Tensor:
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
    if sparse.shape[0] != sparse.shape[1]:
        raise RuntimeError(f"spsolve: expected a square matrix, got the shape {sparse.shape}")
    _check_sizes("spsolve", sparse, right, sparse.shape[0])
    columns = right if right.ndim == 2 else right[:, None]
    found: Tensor = _Solution.apply(sparse._values, columns, sparse._structure)
    return found if right.ndim == 2 else found[:, 0]


def sum(  # noqa: A001 - as PyTorch calls it
    sparse: SparseMatrix, dim: int | None = None
) -> Tensor:
    """The sum of all entries, of each column (``dim=0``) or of each row (``dim=1``).

    Args:
        sparse: A sparse matrix.
        dim: The dimension that is summed over; by default both.

    Returns:
        A dense Tensor.

    Example:
        >>> a = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
        >>> torch.sparse.sum(a, 1)
        tensor([3., 9.])
    """
    if dim is None:
        return sparse._values.sum()
    matrix = sparse.t() if dim % 2 == 0 else sparse
    return mm(matrix, wrap(arrays.ones((matrix.shape[1],), raw(sparse._values).dtype)))


def _check_sizes(name: str, sparse: Any, dense: Any, wanted: int) -> None:
    if not isinstance(sparse, SparseMatrix) or not isinstance(dense, Tensor):
        raise TypeError(
            f"{name}: expected a sparse matrix and a Tensor, got {type(sparse).__name__} and "
            f"{type(dense).__name__}"
        )
    if dense.ndim not in (1, 2) or dense.shape[0] != wanted:
        raise RuntimeError(
            f"{name}: Expected dim 0 size {wanted}, got {list(dense.shape)} for a matrix of the "
            f"shape {list(sparse.shape)}"
        )
    if sparse.dtype != dense.dtype:
        raise RuntimeError(f"{name}: expected one dtype, got {sparse.dtype} and {dense.dtype}")


def _by_entry(g: Tensor, x: Tensor, structure: Any) -> Tensor:
    """For each entry, the product of the row of ``g`` and the row of ``x`` that it connects."""
    rows, columns = wrap(structure.rows), wrap(structure.columns)
    return (g[rows] * x[columns].conj()).sum(1)


class _Batched:
    """Entries of a batch are further columns, unless the matrix differs between them."""

    @staticmethod
    def apply_to(function: Any, info: Any, in_dims: Any, args: Any) -> Any:
        values, dense, structure = args
        of_values, of_dense, _ = in_dims
        if of_values is None:
            wide = dense.movedim(of_dense, 1)  # (rows, batch, columns)
            found = function.apply(values, wide.reshape(wide.shape[0], -1), structure)
            return found.reshape(found.shape[0], info.batch_size, -1), 1
        entries = [
            function.apply(
                values.select(of_values, i),
                dense if of_dense is None else dense.select(of_dense, i), structure,
            )
            for i in range(info.batch_size)
        ]  # fmt: skip
        return stack(entries, dim=0), 0


class _Product(Function):
    """A sparse matrix times a dense one."""

    @staticmethod
    def forward(values: Tensor, dense: Tensor, structure: Any) -> Tensor:
        result: Tensor = wrap(by_kernel(structure.times, raw(values), raw(dense)))
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        values, dense, ctx.structure = inputs
        ctx.save_for_backward(values, dense)
        ctx.save_for_forward(values, dense)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        values, dense = ctx.saved_tensors
        by_values, by_dense, _ = ctx.needs_input_grad
        return (
            _by_entry(g, dense, ctx.structure) if by_values else None,
            _Product.apply(values.conj(), g, ctx.structure.transposed) if by_dense else None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, of_values: Any, of_dense: Any, _: Any) -> Any:
        values, dense = ctx.saved_tensors
        return _total(
            None if of_values is None else _Product.apply(of_values, dense, ctx.structure),
            None if of_dense is None else _Product.apply(values, of_dense, ctx.structure),
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        return _Batched.apply_to(_Product, info, in_dims, args)


class _Solution(Function):
    """What a sparse matrix must be multiplied by to get the right-hand side."""

    @staticmethod
    def forward(values: Tensor, right: Tensor, structure: Any) -> Tensor:
        result: Tensor = wrap(by_kernel(structure.solved, raw(values), raw(right)))
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        values, _, ctx.structure = inputs
        ctx.save_for_backward(values, output)
        ctx.save_for_forward(values, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        values, solution = ctx.saved_tensors
        by_right = _Solution.apply(values.conj(), g, ctx.structure.transposed)
        by_values = None
        if ctx.needs_input_grad[0]:
            by_values = -_by_entry(by_right, solution, ctx.structure)
        return by_values, by_right, None

    @staticmethod
    def jvp(ctx: Any, of_values: Any, of_right: Any, _: Any) -> Any:
        values, solution = ctx.saved_tensors
        moved = None if of_values is None else -_Product.apply(of_values, solution, ctx.structure)
        return _Solution.apply(values, _total(of_right, moved), ctx.structure)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        return _Batched.apply_to(_Solution, info, in_dims, args)


def _total(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b
