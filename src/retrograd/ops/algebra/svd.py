# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals
"""Singular values and vectors."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops import linear
from retrograd.ops._operation import Operation, composite
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops.algebra._decompositions import (
    NO_EXPRESSION,
    depends_on_phase,
    gaps_between,
    real_diagonal,
    records,
    skew_part,
)
from retrograd.ops.algebra._matrix import (
    adjoint,
    as_column,
    as_row,
    check_float,
    check_kernel,
    check_matrices,
    check_tensors,
    columns_of,
    diagonal,
    is_complex,
    off_diagonal,
    on_diagonal,
    rows_of,
    total,
)
from retrograd.ops.copies import imag


def _svd_rule(g: Any, U: Any, S: Any, Vh: Any, full_matrices: bool) -> Any:
    gu, gs, gvh = g
    k = S.shape[-1]
    if full_matrices and U.shape[-1] != Vh.shape[-2]:
        # The further columns are any basis of what is left: no loss can depend on them.
        gu, U = (x if x is None else columns_of(x, 0, k) for x in (gu, U))
        gvh, Vh = (x if x is None else rows_of(x, 0, k) for x in (gvh, Vh))
    tall = U.shape[-2] >= Vh.shape[-1]
    if gu is None and gvh is None:
        return U @ (as_column(gs) * Vh) if tall else (U * as_row(gs)) @ Vh
    inner = _rotations_of_svd(gu, gvh, U, S, Vh)
    if gs is not None:
        inner = inner + on_diagonal(gs)
    if gu is not None and U.shape[-2] > k:
        outside = gu / as_row(S)
        return (U @ inner + outside - U @ (adjoint(U) @ outside)) @ Vh
    if gvh is not None and Vh.shape[-1] > k:
        outside = gvh / as_column(S)
        return U @ (inner @ Vh + outside - (outside @ adjoint(Vh)) @ Vh)
    return U @ (inner @ Vh) if tall else (U @ inner) @ Vh


def _rotations_of_svd(gu: Any, gvh: Any, U: Any, S: Any, Vh: Any) -> Any:
    """How the loss changes as singular vectors turn towards each other."""
    left = None if gu is None else skew_part(adjoint(U) @ gu)
    right = None if gvh is None else skew_part(Vh @ adjoint(gvh))
    if is_complex(U):
        _refuse_phase_of_svd(left, right)
    gaps = gaps_between(S * S)
    inner = total(
        None if left is None else (left / gaps) * as_row(S),
        None if right is None else as_column(S) * (right / gaps),
    )
    if is_complex(U) and left is not None and right is not None:
        inner = inner + on_diagonal(diagonal(left) / (S + S))
    return inner


def _refuse_phase_of_svd(left: Any, right: Any) -> None:
    if depends_on_phase(diagonal(total(left, right))):
        raise RuntimeError(
            "svd_backward: The singular vectors in the complex case are specified up to "
            "multiplication by e^{i phi}. The specified loss function depends on this phase term, "
            "making it ill-defined."
        )


def _singular_values_rule(g: Any, A: Any) -> Any:
    U, S, Vh = linalg_svd(A, full_matrices=False)
    return _svd_rule((None, g, None), U, S, Vh, False)


def _svd_tangent(t: Any, U: Any, S: Any, Vh: Any, full_matrices: bool) -> tuple[Any, Any, Any]:
    k, m, n = S.shape[-1], U.shape[-2], Vh.shape[-1]
    further = (U.shape[-1] - k, Vh.shape[-2] - k)  # any basis of what is left, which stays
    U, Vh = columns_of(U, 0, k), rows_of(Vh, 0, k)
    right, left = t @ adjoint(Vh), adjoint(U) @ t
    inner = left @ adjoint(Vh)
    row, column, gaps = as_row(S), as_column(S), gaps_between(S * S)
    inner_h = adjoint(inner)
    turns_u = off_diagonal((inner * row + column * inner_h) / gaps)
    turns_v = off_diagonal((column * inner + inner_h * row) / gaps)
    if is_complex(U):
        turns_u = turns_u + on_diagonal(imag(diagonal(inner)) / S * 1j)
    moved_u, moved_v = U @ turns_u, -(turns_v @ Vh)
    if m > k:
        moved_u = moved_u + (right - U @ inner) / row
    if n > k:
        moved_v = moved_v + (left - inner @ Vh) / column
    dim = len(t.shape)
    if further[0]:
        rest = linear.new_zeros(moved_u, (*moved_u.shape[:-1], further[0]))
        moved_u = linear.cat([moved_u, rest], dim=dim - 1)
    if further[1]:
        rest = linear.new_zeros(moved_v, (*moved_v.shape[:-2], further[1], n))
        moved_v = linear.cat([moved_v, rest], dim=dim - 2)
    return moved_u, real_diagonal(inner), moved_v


linalg_svd: Operation = Operation(
    "linalg_svd", arrays.linalg.svd, inputs=("A",), rules={"A": _svd_rule},
    outputs=("U", "S", "Vh"), adjoint=True, batch="leading", jvp=_svd_tangent, reason=NO_EXPRESSION,
)  # fmt: skip
# Without the vectors, which take longer: for when no graph is recorded that would need them.
singular_values = composite(
    "singular_values", lambda A: linalg_svd(A, full_matrices=False)[1],
    lambda A: arrays.linalg.svdvals(A), inputs=("A",),
    rules={"A": _singular_values_rule}, node="LinalgSvdBackward0", adjoint=True, dtypes="real",
    batch="leading",
)  # fmt: skip


def _check_svd(A: Any) -> None:
    check_matrices("linalg.svd", A)
    check_float("linalg.svd", A)
    check_kernel("linalg_svd_cpu", A)


@public("linalg", out="same")
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """The singular value decomposition: ``A = U @ diag(S) @ Vh``.

    Gradients with respect to ``U`` and ``Vh`` are finite only if the singular values are distinct.
    In the complex case, a loss must not depend on the phases of the singular vectors.

    Args:
        A: matrices ``(..., m, n)``.
        full_matrices: return square ``U`` and ``Vh``; otherwise only the first ``min(m, n)``
            columns of ``U`` and rows of ``Vh``. Gradients need False.
        driver: ignored; it selects an algorithm on GPUs.

    Returns:
        A named tuple ``(U, S, Vh)``: ``S`` has shape ``(..., min(m, n))`` and is in descending
        order.

    Example:
        >>> A = torch.tensor([[3.0, 0.0], [4.0, 5.0]])
        >>> U, S, Vh = torch.linalg.svd(A)
        >>> S
        tensor([6.7082, 2.2361])
        >>> torch.allclose(U @ torch.diag(S) @ Vh, A, atol=1e-5)
        True
    """
    check_tensors("linalg_svd", A=A)
    _check_svd(A)
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )
    result = linalg_svd(A, full_matrices=bool(full_matrices))
    return named_result("linalg_svd", "U", "S", "Vh")(result)


@public("linalg", out="same")
def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """The singular values of matrices, in descending order.

    Args:
        A: matrices ``(..., m, n)``.
        driver: ignored; it selects an algorithm on GPUs.

    Returns:
        The singular values, ``(..., min(m, n))``.

    Example:
        >>> torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
        tensor([4., 3.])
    """
    check_tensors("linalg_svdvals", A=A)
    _check_svd(A)
    return linalg_svd(A, full_matrices=False)[1] if records(A) else singular_values(A)


@public("torch.svd method.svd", out="same")
def svd_of_torch(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """Computes the singular value decomposition; see also ``torch.linalg.svd``.

    Args:
        input: A matrix, or a batch of matrices.
        some: Whether ``U`` and ``V`` are reduced to as many columns as there are singular values.
        compute_uv: Whether to compute ``U`` and ``V``. Otherwise they are zero.

    Returns:
        A named tuple ``(U, S, V)`` with ``input = U @ diag(S) @ V.mH``. Unlike
        ``torch.linalg.svd``, it holds ``V`` and not its adjoint.

    Example:
        >>> torch.svd(torch.diag(torch.tensor([3.0, 2.0]))).S
        tensor([3., 2.])
    """
    check_tensors("svd", input=input)
    if len(input.shape) < 2:
        raise RuntimeError(
            "linalg.svd: input should have at least 2 dimensions, but has "
            f"{len(input.shape)} dimensions instead"
        )
    _check_svd(input)
    result = named_result("svd", "U", "S", "V")
    if compute_uv:
        U, S, Vh = linalg_svd(input, full_matrices=not some)
        return result((U, S, adjoint(Vh)))
    m, n = input.shape[-2:]
    batch = tuple(input.shape[:-2])
    zeros = (linear.new_zeros(input, (*batch, k, k)) for k in (m, n))
    return result((next(zeros), svdvals(input), next(zeros)))
