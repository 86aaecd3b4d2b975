"""Decompositions of matrices of low rank: svd_lowrank, pca_lowrank; some eigenvalues: lobpcg."""

# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.ops import linear
from retrograd.ops._operation import raw
from retrograd.ops._public import public
from retrograd.ops.algebra._matrix import adjoint, columns_of
from retrograd.ops.algebra.eigenvalues import eigh
from retrograd.ops.algebra.qr import qr
from retrograd.ops.algebra.svd import svd
from retrograd.ops.algebra.triangular import cholesky, solve_triangular
from retrograd.ops.reductions.basic import mean
from retrograd.tensor._randoms import randn


def _orthonormal(X: Any) -> Any:
    return qr(X)[0]


def _basis(A: Any, q: int, niter: int) -> Any:
    """Orthonormal columns whose span approximates that of A's columns: Halko et al., "Finding
    structure with randomness", 2009, algorithm 4.4."""
    R = randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = _orthonormal(A @ R)
    for _ in range(niter):
        Q = _orthonormal(A @ _orthonormal(adjoint(A) @ Q))
    return Q


@public("torch")
def svd_lowrank(
    A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None
) -> tuple[Any, Any, Any]:
    """Approximates the largest singular values of matrices, and their vectors, by random
    projections.

    Args:
        A: matrices ``(..., m, n)``.
        q: how many to compute, a little more than the rank.
        niter: the number of iterations.
        M: what is subtracted from ``A``, for instance its mean.

    Returns:
        A tuple ``(U, S, V)`` such that ``A - M`` is approximately ``U @ diag(S) @ V.mH``.

    Example:
        >>> U, S, V = torch.svd_lowrank(torch.ones(4, 3), q=1)
        >>> S
        tensor([3.4641])
    """
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    A = A if M is None else A - M
    wide = A.shape[-2] < A.shape[-1]
    A = adjoint(A) if wide else A
    Q = _basis(A, q, niter)
    U, S, Vh = svd(adjoint(Q) @ A, full_matrices=False)
    U, V = Q @ U, adjoint(Vh)
    return (V, S, U) if wide else (U, S, V)


@public("torch")
def pca_lowrank(
    A: Any, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Any, Any, Any]:
    """Approximates the principal components of data by random projections.

    Args:
        A: the data, ``(..., m, n)``: m samples of n features.
        q: how many components to compute; by default, 6, or as many as there are.
        center: whether to subtract the mean of each feature.
        niter: the number of iterations.

    Returns:
        A tuple ``(U, S, V)``, as ``svd_lowrank`` returns it. The columns of V are the components.

    Example:
        >>> U, S, V = torch.pca_lowrank(torch.tensor([[1.0, 0.0], [3.0, 0.0]]))
        >>> S
        tensor([1.4142, 0.0000])
    """
    most = min(A.shape[-2:])
    if q is None:
        q = min(6, most)
    elif not 0 <= q <= most:
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={most}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - mean(A, dim=-2, keepdim=True) if center else A, q, niter)


@public("torch")
def lobpcg(
    A: Any, k: int | None = None, B: Any = None, X: Any = None, n: int | None = None,
    iK: Any = None, niter: int | None = None, tol: float | None = None,
    largest: bool | None = None, method: str | None = None,
    tracker: Callable[..., Any] | None = None, ortho_iparams: Any = None,
    ortho_fparams: Any = None, ortho_bparams: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The largest or smallest eigenvalues of symmetric matrices, and their vectors.

    They are computed from the whole decomposition, to rounding; PyTorch iterates until a tolerance
    is met.

    Args:
        A: symmetric matrices ``(..., m, m)``, with m at least ``3 * k``.
        k: how many to compute; by default, as many as ``X`` has columns, or 1.
        B: a positive definite matrix, for the equation ``A @ x = w * B @ x``.
        X: first approximations, of which only the number matters here.
        n: in place of ``k``, the number of columns of ``X``.
        iK: not needed here.
        niter: not needed here.
        tol: not needed here.
        largest: whether the largest are computed, in decreasing order, or the smallest, in
            increasing order. The default is True.
        method: not needed here.
        tracker: not supported: there are no steps to follow.
        ortho_iparams: not needed here.
        ortho_fparams: not needed here.
        ortho_bparams: not needed here.

    Returns:
        A tuple ``(w, X)``: the eigenvalues ``(..., k)``, and their vectors ``(..., m, k)``, whose
        signs are arbitrary.

    Example:
        >>> torch.lobpcg(torch.diag(torch.arange(1.0, 7.0)), k=2)[0]
        tensor([6., 5.])
    """
    if tracker is not None:
        raise NotImplementedError("lobpcg: tracker is not supported")
    if A.shape[-2] != A.shape[-1]:
        if A.requires_grad:
            A + A.mT  # PyTorch makes what is differentiated symmetric first
        raise AssertionError(f"A must be square, got shape torch.Size({list(A.shape)})")
    columns = n if n is not None else (1 if X is None else X.shape[-1])
    k = columns if k is None else k
    m = A.shape[-1]
    if m < 3 * max(k, columns):
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={max(k, columns)})"
        )
    if B is None:
        values, vectors = eigh(A)
    else:  # with B = L @ L.mH, the eigenvalues are those of inv(L) @ A @ inv(L).mH
        L = cholesky(B)
        half = solve_triangular(L, A, upper=False)
        values, vectors = eigh(adjoint(solve_triangular(L, adjoint(half), upper=False)))
        vectors = solve_triangular(adjoint(L), vectors, upper=True)
    if largest is False:
        return columns_of(values, 0, k), columns_of(vectors, 0, k)
    last = len(raw(vectors).shape) - 1
    return (
        linear.flip(columns_of(values, m - k, m), dims=(last - 1,)),
        linear.flip(columns_of(vectors, m - k, m), dims=(last,)),
    )
