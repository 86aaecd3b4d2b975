"""LDL decomposition of symmetric indefinite matrices: ldl_factor, ldl_solve."""

# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops._batching import BatchLevel
from retrograd.ops._batching_declarations import own
from retrograd.ops._operation import Operation, raw, undifferentiable
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops.algebra._matrix import (
    check_float,
    check_kernel,
    check_square,
    check_tensors,
    refuse,
    type_word,
)


@own("the pivots have one dimension less than the matrices")
def _ldl_batch(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    rank = max(len(args[0].shape), len(args[2].shape))
    LD, pivots, B = (
        level.aligned(x, r) for x, r in zip(args, (rank, rank - 1, rank), strict=True)
    )
    return op(LD, pivots, B, **options)


ldl_factored = undifferentiable(
    "linalg_ldl_factor_ex", arrays.linalg.ldl_factor,
    RuntimeError("derivative for aten::linalg_ldl_factor_ex is not implemented"),
    outputs=("LD", "pivots", "info"), node="NotImplemented", batch="leading",
)  # fmt: skip
ldl_solved = undifferentiable(
    "linalg_ldl_solve", arrays.linalg.ldl_solve,
    RuntimeError("derivative for aten::linalg_ldl_solve is not implemented"),
    inputs=("LD", "pivots", "B"), node="NotImplemented", batch=_ldl_batch,
)  # fmt: skip


@public("linalg", out="same")
def ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """As ``ldl_factor``, without an error for singular matrices.

    Args:
        A: symmetric matrices ``(..., n, n)``, of which the lower triangle is read.
        hermitian: whether complex matrices are Hermitian rather than symmetric.
        check_errors: raise an error if a matrix is singular.

    Returns:
        A named tuple ``(LD, pivots, info)``: see ``ldl_factor``. ``info`` is 0, or the number of
        the first zero on the diagonal of D, counted from 1.

    Example:
        >>> torch.linalg.ldl_factor_ex(torch.zeros(2, 2)).info
        tensor(1, dtype=torch.int32)
    """
    result = _factored("torch.linalg.ldl_factor_ex", A, hermitian, check_errors)
    return named_result("linalg_ldl_factor_ex", "LD", "pivots", "info")(result)


@public("linalg", out="same")
def ldl_factor(A: Any, *, hermitian: bool = False) -> Any:
    """The decomposition of symmetric matrices in the compact form that ``ldl_solve`` takes.

    Args:
        A: symmetric matrices ``(..., n, n)``, of which the lower triangle is read.
        hermitian: whether complex matrices are Hermitian rather than symmetric.

    Returns:
        A named tuple ``(LD, pivots)``: D, whose blocks are 1 x 1 or 2 x 2, and L, whose diagonal
        is 1, in one lower triangle, and the exchanges of rows and columns as LAPACK's ``sytrf``
        writes them. Neither has a derivative.

    Example:
        >>> torch.linalg.ldl_factor(torch.tensor([[2.0, 1.0], [1.0, 2.0]])).LD
        tensor([[2.0000, 0.0000],
                [0.5000, 1.5000]])
    """
    result = _factored("torch.linalg.ldl_factor", A, hermitian, True)
    return named_result("linalg_ldl_factor", "LD", "pivots")(result[:2])


def _factored(function: str, A: Any, hermitian: bool, check_errors: bool) -> Any:
    check_square("torch.linalg.ldl_factor_ex", A)
    check_float("torch.linalg.ldl_factor_ex", A)
    check_kernel("ldl_factor_kernel_cpu", A)
    result = ldl_factored(A, hermitian=bool(hermitian))
    if check_errors:
        refuse(arrays.linalg.refuse_zero_block, function, result[2], A)
    return result


@public("linalg", out="same")
def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """Solves systems of equations whose matrices ``ldl_factor`` has decomposed.

    Args:
        LD: the factors, ``(..., n, n)``.
        pivots: the exchanges, ``(..., n)``.
        B: the right sides, ``(..., n, k)``.
        hermitian: what ``ldl_factor`` was told.

    Returns:
        The solutions ``(..., n, k)``, which have no derivative.

    Example:
        >>> A = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
        >>> torch.linalg.ldl_solve(*torch.linalg.ldl_factor(A), torch.ones(2, 1))
        tensor([[0.3333],
                [0.3333]])
    """
    check_tensors("linalg_ldl_solve", LD=LD, pivots=pivots, B=B)
    _check_systems(raw(LD), raw(pivots), raw(B))
    return ldl_solved(LD, pivots, B, hermitian=bool(hermitian))


def _check_systems(LD: Any, pivots: Any, B: Any) -> None:
    name = "torch.linalg.ldl_solve"
    check_square(name, LD, "LD")
    if B.ndim < 2:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(B.ndim, 1)}, "
            f"{max(B.ndim, 1) - 1}], but got -2)"
        )
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.shape)} instead"
        )
    if LD.dtype != B.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {type_word(B.dtype)} "
            f"and A of type {type_word(LD.dtype)} instead."
        )
    check_float(name, LD)
    if LD.shape[-1] != B.shape[-2]:
        n, (rows, columns) = LD.shape[-1], B.shape[-2:]
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {n} by {n} but each b matrix "
            f"is {rows} by {columns}"
        )
    check_kernel("ldl_solve_kernel_cpu", LD)
