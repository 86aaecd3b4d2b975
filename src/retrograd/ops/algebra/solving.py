# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals
"""Solving linear equations: by LU and by inverses.

What is computed by LU keeps the factors for its gradient, as PyTorch does: they are outputs of the
operation that users do not see. They have a gradient too, like every output.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching import BatchLevel
from retrograd.ops._batching_declarations import own
from retrograd.ops._batching_matrices import apart, together
from retrograd.ops._dims import broadcast, numel
from retrograd.ops._lifted import LazyTangent
from retrograd.ops._operands import is_differentiated
from retrograd.ops._operation import MatrixFunction, Operation, TensorLike, raw
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops.algebra._batches import SYSTEMS, of_each, right_sides
from retrograd.ops.algebra._matrix import (
    as_column,
    as_vectors,
    check_float,
    check_kernel,
    check_matrices,
    check_same_dtype,
    check_square,
    check_tensors,
    refuse,
    total,
    transposed,
)
from retrograd.ops.algebra.lu import (
    factor_gradient,
    factor_tangent,
    lu_solved,
    solved_with_factors,
    solved_with_transposed,
)
from retrograd.ops.algebra.triangular import check_fit
from retrograd.ops.shapes.reshaping import movedim, reshape

# -- solving and inverting -------------------------------------------------------------------


def is_vector(A: Any, B: Any) -> bool:
    """Whether the right side ``B`` is a vector, or a batch of them: by their shapes."""
    return len(B) == 1 or (len(A) - 1 == len(B) and tuple(B) == tuple(A[:-1]))


def _solve(A: Raw, B: Raw, left: bool = True) -> tuple[Raw, Raw, Raw, Raw]:
    LU, pivots, info = arrays.linalg.lu_factor(A)
    vector = is_vector(A.shape, B.shape)
    X = solved_with_factors(LU, pivots, as_column(B) if vector else B, left)
    return X[..., 0] if vector else X, LU, pivots, info


def _solve_rule(
    g: Any, A: Any, LU: Any, pivots: Any, result: Any, left: bool, needs: Any, shapes: Any
) -> list[Any]:
    factors = factor_gradient(g[1], LU, pivots)
    if g[0] is None:
        return [factors, None]
    vector = is_vector(*shapes)
    gx, X = (as_column(g[0]), as_column(result)) if vector else (g[0], result)
    if left and arrays.is_raw(gx) and arrays.is_raw(LU):
        gb = arrays.linalg.lu_solve(LU, pivots, gx, 1)
    elif not isinstance(gx, TensorLike) and not is_differentiated(LU):
        gb = solved_with_transposed(LU, pivots, gx, left)
    else:  # to be differentiated again, with respect to A too
        gb = solved(transposed(A), gx, left=left)
    ga = None
    if needs[0]:
        ga = total(factors, -(gb @ transposed(X) if left else transposed(X) @ gb))
    return [ga, as_vectors(gb) if vector else gb]


def _solve_tangent(
    t: Any, A: Any, B: Any, LU: Any, pivots: Any, result: Any, left: bool = True
) -> tuple[Any, ...]:
    moved, right = t
    vector = is_vector(tuple(A.shape), tuple(B.shape))
    X, right = (x if x is None or not vector else as_column(x) for x in (result, right))
    if moved is not None:
        right = total(right, -(moved @ X if left else X @ moved))
    if is_differentiated(LU):
        tangent = solved(A, right, left)
    else:
        tangent = lu_solved(LU, pivots, right, left=left, adjoint=False)
    if vector:
        tangent = as_vectors(tangent)
    factors = None if moved is None else LazyTangent(lambda: factor_tangent(moved, LU, pivots))
    return tangent, factors, None, None


@own(SYSTEMS)
def _solve_batch(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    A, B = args
    vector = is_vector(tuple(A.shape), tuple(B.shape))
    rank = max(len(A.shape), len(B.shape) + vector)
    right = right_sides(level, B, vector, rank)
    if not level.owns(A) and rank == 2:
        # One matrix for all: its factors are found once, and all right sides are one.
        left = options.get("left", True)
        X, *factors = op(A, together(right, left), **options)
        X = apart(X, tuple(right.shape), left)
    else:
        X, *factors = op(level.aligned(A, rank), right, **options)
    shapes = A.shape, A.shape[:-1], A.shape[:-2]
    factors = [of_each(level, A, x, s) for x, s in zip(factors, shapes, strict=True)]
    return as_vectors(X) if vector else X, *factors


linalg_solve = Operation(
    "linalg_solve_ex", _solve, inputs=("A", "B"), joint=_solve_rule,
    outputs=("result", "LU", "pivots", "info"), jvp=_solve_tangent, batch=_solve_batch,
    reason="the inverse of a product; the tangent reuses the LU factors of the forward",
    words="The right side gets the solution with the transposed matrix; the matrix gets minus the "
          "outer product of that and the solution.",
)  # fmt: skip


def solved(A: Any, B: Any, left: bool = True) -> Any:
    """X of ``A @ X = B``, or of ``X @ A = B``; an error if ``A`` is singular."""
    X, _, _, info = linalg_solve(A, B, left=left)
    _refuse_singular("torch.linalg.solve", info, A)
    return X


def _refuse_singular(function: str, info: Any, A: Any) -> None:
    if function.startswith("torch.linalg.solve"):
        refuse(arrays.linalg.refuse_singular_solve, function, info, A)
    else:
        refuse(arrays.linalg.refuse_singular_inverse, function, info, A)


def _check_solve(A: Any, B: Any, left: bool) -> None:
    check_square("linalg.solve", A)
    check_float("linalg.solve", A)
    check_same_dtype("linalg.solve: ", ("A", A), ("B", B))
    vector = is_vector(A.shape, B.shape)
    B = as_column(raw(B)) if vector else B
    check_matrices("linalg.solve", B, "B")
    check_fit("linalg.solve", A, B, left)
    broadcast(tuple(B.shape[:-2]), tuple(A.shape[:-2]))
    check_kernel("lu_cpu", A)


@public("linalg", out="same")
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """Solves square systems ``A @ X = B``.

    Args:
        A: invertible matrices ``(..., n, n)``.
        B: right-hand sides, ``(..., n, k)``, or ``(..., n)`` for single vectors.
        left: solve ``A @ X = B``; otherwise ``X @ A = B``.

    Returns:
        The solution X, of the shape of ``B``, broadcast.

    Example:
        >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [1.0, 4.0]]), torch.tensor([2.0, 9.0]))
        tensor([1., 2.])
    """
    check_tensors("linalg_solve", A=A, B=B)
    _check_solve(A, B, left)
    return solved(A, B, bool(left))


@public("linalg", out="same")
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """Solves square systems ``A @ X = B``, without an error for singular matrices.

    Args:
        A: matrices ``(..., n, n)``.
        B: right-hand sides, ``(..., n, k)``, or ``(..., n)`` for single vectors.
        left: solve ``A @ X = B``; otherwise ``X @ A = B``.
        check_errors: raise an error if a matrix is singular.

    Returns:
        A named tuple ``(result, info)``. ``info`` is 0 for the matrices that were solved, and
        positive for singular ones.

    Example:
        >>> torch.linalg.solve_ex(torch.zeros(2, 2), torch.ones(2)).info
        tensor(1, dtype=torch.int32)
    """
    check_tensors("linalg_solve_ex", A=A, B=B)
    _check_solve(A, B, left)
    X, _, _, info = linalg_solve(A, B, left=bool(left))
    if check_errors:
        _refuse_singular("torch.linalg.solve_ex", info, A)
    return named_result("linalg_solve_ex", "result", "info")((X, info))


linalg_inv = MatrixFunction(
    "linalg_inv_ex", arrays.linalg.inverse, inputs=("A",),
    rules={"A": lambda g, inverse: -(transposed(inverse) @ (g[0] @ transposed(inverse)))},
    outputs=("inverse", "info"), batch="leading",
    words="The derivative of the inverse: minus the inverse on both sides, transposed.",
)  # fmt: skip


def _inverted(function: str, A: Any, check_errors: bool) -> Any:
    check_square("linalg.inv", A)
    check_float("linalg.inv", A, low_precision=False)
    result = linalg_inv(A)
    if check_errors:
        _refuse_singular(function, result[1], A)
    return result


@public("linalg", out="same")
def inv(A: Any) -> Any:
    """The inverse of square matrices.

    To multiply by an inverse, ``solve`` is faster and more accurate.

    Args:
        A: invertible matrices ``(..., n, n)``.

    Returns:
        The inverses, of the shape of ``A``.

    Example:
        >>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [1.0, 4.0]]))
        tensor([[ 0.5000,  0.0000],
                [-0.1250,  0.2500]])
    """
    check_tensors("linalg_inv", A=A)
    return _inverted("linalg.inv", A, True)[0]


@public("torch method", out="same")
def inverse(input: Any) -> Any:
    """Computes the inverse of a square matrix.

    Args:
        input: A square matrix, or a batch of them.

    Returns:
        The inverse of each matrix.

    Example:
        >>> torch.inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    check_tensors("inverse", input=input)
    return inv(input)


@public("linalg", out="same")
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """The inverse of square matrices, without an error for singular ones.

    Args:
        A: matrices ``(..., n, n)``.
        check_errors: raise an error if a matrix is singular.

    Returns:
        A named tuple ``(inverse, info)``. ``info`` is 0 for the matrices that were inverted, and
        positive for singular ones.

    Example:
        >>> torch.linalg.inv_ex(torch.zeros(2, 2)).info
        tensor(1, dtype=torch.int32)
    """
    check_tensors("linalg_inv_ex", A=A)
    return named_result("linalg_inv_ex", "inverse", "info")(
        _inverted("linalg.inv_ex", A, check_errors)
    )


# -- tensors as matrices ---------------------------------------------------------------------


@public("linalg", out="same")
def tensorinv(input: Any, ind: int = 2) -> Any:
    """The inverse of a tensor for ``tensordot``.

    Args:
        input: a tensor whose first ``ind`` dimensions have as many elements as the others.
        ind: number of dimensions to take as rows.

    Returns:
        A tensor of shape ``input.shape[ind:] + input.shape[:ind]``.

    Example:
        >>> A = torch.eye(6).reshape(2, 3, 6)
        >>> torch.linalg.tensorinv(A).shape
        torch.Size([6, 2, 3])
    """
    check_tensors("linalg_tensorinv", input=input)
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = tuple(input.shape)
    if ind > len(shape):
        raise RuntimeError(f"ArrayRef: invalid slice, N = {ind}; size = {len(shape)}")
    rows, columns = numel(shape[:ind]), numel(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {columns} != {rows}"
        )
    inverted = inv_ex(_reshaped(input, (columns, rows)))
    _refuse_singular("inv", inverted[1], inverted[0])
    return linear.reshape(inverted[0], (*shape[ind:], *shape[:ind]))


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if tuple(x.shape) == shape else linear.reshape(x, shape)


@public("linalg", out="same")
def tensorsolve(input: Any, other: Any, dims: Any = None) -> Any:
    """Solves ``tensordot(input, X, X.ndim) = other``.

    Args:
        input: a tensor whose shape is ``other.shape + X.shape`` once ``dims`` are moved, and has as
            many elements for ``other.shape`` as for ``X.shape``.
        other: the right-hand side.
        dims: dimensions of ``input`` to move to the end first.

    Returns:
        The solution X, of shape ``input.shape[other.ndim:]``.

    Example:
        >>> A = 2 * torch.eye(6).reshape(2, 3, 6)
        >>> torch.linalg.tensorsolve(A, torch.ones(2, 3))
        tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000])
    """
    check_tensors("linalg_tensorsolve", input=input, other=other)
    if dims is not None:
        input = movedim(input, dims, tuple(range(len(input.shape) - len(dims), len(input.shape))))
    shape, ndim = tuple(input.shape), len(other.shape)
    rows, columns = numel(other.shape), numel(shape[ndim:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {columns} != {rows}"
        )
    flat = solve(reshape(input, (rows, rows)), _reshaped(other, (rows,)))
    return linear.reshape(flat, shape[ndim:])
