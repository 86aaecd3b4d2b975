# ruff: noqa: N803 - matrices are called as in PyTorch, in capitals
"""The QR decomposition."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops import linear
from retrograd.ops._batching_declarations import Leading
from retrograd.ops._operation import Operation
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops.algebra._decompositions import NO_EXPRESSION
from retrograd.ops.algebra._matrix import (
    adjoint,
    check_float,
    check_kernel,
    check_matrices,
    check_tensors,
    columns_of,
    diagonal,
    halved_diagonal,
    is_complex,
    lower,
    on_diagonal,
    total,
    upper,
)
from retrograd.ops.algebra.triangular import triangular_solved
from retrograd.ops.copies import imag


def _check_mode(Q: Any, R: Any, mode: str) -> None:
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    if mode == "complete" and Q.shape[-2] > R.shape[-1]:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )


def _qr_rule(g: Any, Q: Any, R: Any, mode: str) -> Any:
    _check_mode(Q, R, mode)
    gq, gr = g
    m, n = Q.shape[-2], R.shape[-1]
    if m >= n:
        return _square_qr_rule(gq, gr, Q, R)
    # The first columns decide Q; the others are only rotated by it.
    if gr is None:
        first, rest = _square_qr_rule(gq, None, Q, columns_of(R, 0, m)), None
    else:
        rest = columns_of(gr, m, n)
        gq = total(gq, Q @ (columns_of(R, m, n) @ adjoint(rest)))
        first = _square_qr_rule(gq, columns_of(gr, 0, m), Q, columns_of(R, 0, m))
        rest = Q @ rest
    if rest is None:
        rest = linear.new_zeros(first, (*first.shape[:-1], n - m))
    return linear.cat([first, rest], dim=len(first.shape) - 1)


def _square_qr_rule(gq: Any, gr: Any, Q: Any, R: Any) -> Any:
    inner = total(
        None if gr is None else gr @ adjoint(R), None if gq is None else -(adjoint(Q) @ gq)
    )
    inner = upper(inner)
    symmetric = halved_diagonal(inner + adjoint(inner))
    outer = total(Q @ symmetric, gq)
    return triangular_solved(adjoint(R), outer, upper=False, left=False, unitriangular=False)


def _qr_tangent(t: Any, Q: Any, R: Any, mode: str) -> tuple[Any, Any]:
    _check_mode(Q, R, mode)
    m, n = Q.shape[-2], R.shape[-1]
    k = min(m, n)
    first = columns_of(R, 0, k)
    scaled = triangular_solved(
        first, columns_of(t, 0, k), upper=True, left=False, unitriangular=False
    )
    inner = adjoint(Q) @ scaled
    below = lower(inner, -1)
    turns = below - adjoint(below)
    if is_complex(Q):
        turns = turns + on_diagonal(imag(diagonal(inner)) * 1j)
    moved_q = Q @ turns
    if m > k:
        moved_q = moved_q + (scaled - Q @ inner)
    moved_r = upper(inner - turns) @ first
    if n > k:  # columns that are only rotated
        rest = adjoint(Q) @ (columns_of(t, k, n) - moved_q @ columns_of(R, k, n))
        moved_r = linear.cat([moved_r, rest], dim=len(t.shape) - 1)
    return moved_q, moved_r


linalg_qr = Operation(
    "linalg_qr", arrays.linalg.qr, inputs=("A",), rules={"A": _qr_rule}, outputs=("Q", "R"),
    adjoint=True, jvp=_qr_tangent, batch=Leading(optional=("Q",)),
    reason=NO_EXPRESSION,
)  # fmt: skip


@public("linalg", out="same")
def qr(A: Any, mode: str = "reduced") -> Any:
    """The QR decomposition: ``A = Q @ R`` with orthonormal columns of Q and upper triangular R.

    Args:
        A: matrices ``(..., m, n)``.
        mode: "reduced" for ``min(m, n)`` columns of Q, "complete" for a square Q, or "r" for R only
            (Q is empty). Only "reduced" has gradients for every shape.

    Returns:
        A named tuple ``(Q, R)``.

    Example:
        >>> Q, R = torch.linalg.qr(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> R
        tensor([[-5.0000, -2.2000],
                [ 0.0000,  0.4000]])
    """
    check_tensors("linalg_qr", A=A)
    check_matrices("linalg.qr", A)
    check_float("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            "'r', or 'complete'"
        )
    check_kernel("geqrf_cpu", A)
    return named_result("linalg_qr", "Q", "R")(linalg_qr(A, mode=mode))


@public("torch.qr method.qr", out="same")
def qr_of_torch(input: Any, some: bool = True) -> Any:
    """Computes the QR decomposition; see also ``torch.linalg.qr``.

    Args:
        input: A matrix, or a batch of matrices.
        some: Whether the decomposition is reduced. Otherwise ``Q`` is square.

    Returns:
        A named tuple ``(Q, R)`` with ``input = Q @ R``.

    Example:
        >>> q, r = torch.qr(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> torch.allclose(q @ r, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        True
    """
    check_tensors("qr", input=input)
    return named_result("qr", "Q", "R")(qr(input, "reduced" if some else "complete"))
