# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals
"""Decompositions of matrices: singular values, eigenvalues, QR.

Singular vectors and eigenvectors are defined only up to a factor: a sign, or a phase where numbers
are complex. The rules hold for losses that do not depend on it; one that depends on the phase has
no gradient, and that is an error, as in PyTorch. The gradients are those of the adjoint, written
out, since none of these is complex-differentiable.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching_declarations import Leading
from retrograd.ops._lifted import bare
from retrograd.ops._operation import Operation, composite, raw
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops.algebra._matrix import (
    adjoint,
    as_column,
    as_row,
    check_float,
    check_kernel,
    check_matrices,
    check_square,
    check_tensors,
    columns_of,
    diagonal,
    halved_diagonal,
    is_complex,
    lower,
    off_diagonal,
    on_diagonal,
    rows_of,
    total,
    type_word,
    upper,
)
from retrograd.ops.algebra.solving import solved
from retrograd.ops.algebra.triangular import triangular_solved
from retrograd.ops.elementwise import conj, imag, real, to_dtype

_NO_EXPRESSION = "a matrix decomposition: no expression in other operations gives the factors"
_PHASE = 1e-2  # how far a loss may depend on a phase and still count as independent of it


def _depends_on_phase(turns: Any) -> bool:
    phases = arrays.imag(bare(turns))
    return not arrays.linalg.allclose(phases, 0.0, _PHASE, _PHASE)


def _gaps(values: Any) -> Any:
    """Each value less each other, and ones on the diagonal: what rotations are divided by. Where
    values repeat, the directions are not unique, and the gradient is infinite or NaN."""
    gaps = as_row(values) - as_column(values)
    return gaps + arrays.eye(values.shape[-1], dtype=raw(values).dtype)


# -- singular values -------------------------------------------------------------------------


def _svd(A: Raw, full_matrices: bool) -> tuple[Raw, Raw, Raw]:
    return arrays.linalg.svd(A, full_matrices)


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
    left = None if gu is None else _skew(adjoint(U) @ gu)
    right = None if gvh is None else _skew(Vh @ adjoint(gvh))
    if is_complex(U):
        _refuse_phase_of_svd(left, right)
    gaps = _gaps(S * S)
    inner = total(
        None if left is None else (left / gaps) * as_row(S),
        None if right is None else as_column(S) * (right / gaps),
    )
    if is_complex(U) and left is not None and right is not None:
        inner = inner + on_diagonal(diagonal(left) / (S + S))
    return inner


def _skew(x: Any) -> Any:
    return x - adjoint(x)


def _refuse_phase_of_svd(left: Any, right: Any) -> None:
    if _depends_on_phase(diagonal(total(left, right))):
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
    row, column, gaps = as_row(S), as_column(S), _gaps(S * S)
    turned = adjoint(inner)
    turns_u = off_diagonal((inner * row + column * turned) / gaps)
    turns_v = off_diagonal((column * inner + turned * row) / gaps)
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
    return moved_u, _real_diagonal(inner), moved_v


def _real_diagonal(x: Any) -> Any:
    return real(diagonal(x)) if is_complex(x) else diagonal(x)


linalg_svd: Operation = Operation(
    "linalg_svd", _svd, inputs=("A",), rules={"A": _svd_rule}, outputs=("U", "S", "Vh"),
    adjoint=True, batch="leading", jvp=_svd_tangent, reason=_NO_EXPRESSION,
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
        >>> import retrograd as torch
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
    found = linalg_svd(A, full_matrices=bool(full_matrices))
    return named_result("linalg_svd", "U", "S", "Vh")(found)


def _records(x: Any) -> bool:
    """Whether a gradient may be asked for, which needs the vectors too."""
    return bool(getattr(x, "requires_grad", False))


@public("linalg", out="same")
def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """The singular values of matrices, in descending order.

    Args:
        A: matrices ``(..., m, n)``.
        driver: ignored; it selects an algorithm on GPUs.

    Returns:
        The singular values, ``(..., min(m, n))``.

    Example:
        >>> import retrograd as torch
        >>> torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
        tensor([4., 3.])
    """
    check_tensors("linalg_svdvals", A=A)
    _check_svd(A)
    return linalg_svd(A, full_matrices=False)[1] if _records(A) else singular_values(A)


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
        >>> import retrograd as torch
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


# -- eigenvalues -----------------------------------------------------------------------------


def _eigh(A: Raw, UPLO: str) -> tuple[Raw, Raw]:
    return arrays.linalg.eigh(A, UPLO == "L")


def _eigh_rule(g: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    """The gradient as for all of a Hermitian matrix, though only one triangle of it is read."""
    values, vectors = g
    V, inverse = eigenvectors, adjoint(eigenvectors)
    if vectors is None:
        return (V * as_row(values)) @ inverse
    turns = inverse @ vectors
    if is_complex(V) and _depends_on_phase(diagonal(turns)):
        raise _eigenvectors_depend_on_phase("linalg_eigh_backward")
    turns = off_diagonal(_skew(turns) * 0.5 / _gaps(eigenvalues))
    return V @ (total(turns, None if values is None else on_diagonal(values)) @ inverse)


def _eigenvectors_depend_on_phase(function: str) -> RuntimeError:
    return RuntimeError(
        f"{function}: The eigenvectors in the complex case are specified up to multiplication by "
        "e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined."
    )


def _eigvalsh(A: Raw, UPLO: str) -> Raw:
    return arrays.linalg.eigvalsh(A, UPLO == "L")


def _eigvalsh_rule(g: Any, A: Any, UPLO: str) -> Any:
    return _eigh_rule((g, None), *linalg_eigh(A, UPLO=UPLO))


def _eigh_tangent(t: Any, eigenvalues: Any, eigenvectors: Any) -> tuple[Any, Any]:
    """As for a Hermitian matrix: of a tangent that is none, for the part of it that is."""
    V = eigenvectors
    inner = adjoint(V) @ (t @ V)
    turns = off_diagonal(0.5 * (inner + adjoint(inner)) / _gaps(eigenvalues))
    return _real_diagonal(inner), V @ turns


linalg_eigh: Operation = Operation(
    "linalg_eigh", _eigh, inputs=("A",), rules={"A": _eigh_rule},
    outputs=("eigenvalues", "eigenvectors"), adjoint=True, batch="leading", jvp=_eigh_tangent,
    reason=_NO_EXPRESSION,
)  # fmt: skip
hermitian_eigenvalues = composite(
    "hermitian_eigenvalues", lambda A, UPLO: linalg_eigh(A, UPLO=UPLO)[0], _eigvalsh,
    inputs=("A",), rules={"A": _eigvalsh_rule}, node="LinalgEighBackward0", adjoint=True,
    dtypes="real", batch="leading",
)  # fmt: skip


def _check_eigh(A: Any, UPLO: str) -> str:
    check_square("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    check_kernel("linalg_eigh_cpu", A)
    return UPLO.upper()


@public("linalg", out="same")
def eigh(input: Any, UPLO: str = "L") -> Any:
    """The eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Gradients with respect to the eigenvectors are finite only if the eigenvalues are distinct.

    Args:
        input: matrices ``(..., n, n)``. Only one triangle is read.
        UPLO: "L" to read the lower triangle, "U" to read the upper one.

    Returns:
        A named tuple ``(eigenvalues, eigenvectors)``: real eigenvalues ``(..., n)`` in ascending
        order, and eigenvectors ``(..., n, n)`` as columns of length 1.

    Example:
        >>> import retrograd as torch
        >>> torch.linalg.eigh(torch.tensor([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
        tensor([1., 3.])
    """
    check_tensors("linalg_eigh", input=input)
    found = linalg_eigh(input, UPLO=_check_eigh(input, UPLO))
    return named_result("linalg_eigh", "eigenvalues", "eigenvectors")(found)


@public("linalg", out="same")
def eigvalsh(input: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric or Hermitian matrices.

    Args:
        input: matrices ``(..., n, n)``. Only one triangle is read.
        UPLO: "L" to read the lower triangle, "U" to read the upper one.

    Returns:
        The eigenvalues, ``(..., n)``, real and in ascending order.

    Example:
        >>> import retrograd as torch
        >>> torch.linalg.eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
        tensor([1., 3.])
    """
    check_tensors("linalg_eigvalsh", input=input)
    UPLO = _check_eigh(input, UPLO)
    if _records(input):
        return linalg_eigh(input, UPLO=UPLO)[0]
    return hermitian_eigenvalues(input, UPLO=UPLO)


def _eig(A: Raw) -> tuple[Raw, Raw]:
    return arrays.linalg.eig(A)


def _eig_rule(g: Any, eigenvalues: Any, eigenvectors: Any) -> list[Any]:
    values, vectors = g
    V, Vh = eigenvectors, adjoint(eigenvectors)
    if vectors is None:
        return [solved(Vh, as_column(values) * Vh)]
    turns = Vh @ vectors
    stretch = diagonal(turns)
    if _depends_on_phase(stretch):
        raise _eigenvectors_depend_on_phase("linalg_eig_backward")
    # Vectors keep their length: what would change it is taken away.
    turns = turns - (Vh @ V) * as_row(real(stretch))
    turns = off_diagonal(turns / conj(_gaps(eigenvalues)))
    inner = total(turns, None if values is None else on_diagonal(values))
    return [solved(Vh, inner @ Vh)]


def _eig_tangent(t: Any, eigenvalues: Any, eigenvectors: Any) -> tuple[Any, Any]:
    V = eigenvectors
    inner = solved(V, to_dtype(t, dtype=raw(V).dtype) @ V)
    moved = V @ off_diagonal(inner / _gaps(eigenvalues))
    stretch = linear.sum_dim(real(conj(V) * moved), dim=(len(V.shape) - 2,), keepdim=True)
    return diagonal(inner), moved - V * stretch  # which keeps the length of vectors


def _eigvals_rule(g: Any, A: Any) -> list[Any]:
    return _eig_rule((g, None), *linalg_eig(A))


# Joint rules, so that the gradient of a real matrix is made real.
linalg_eig: Operation = Operation(
    "linalg_eig", _eig, inputs=("A",), joint=_eig_rule,
    outputs=("eigenvalues", "eigenvectors"), adjoint=True, dtypes="free", batch="leading",
    jvp=_eig_tangent, reason=_NO_EXPRESSION,
)  # fmt: skip
eigenvalues_alone = composite(
    "eigenvalues", lambda A: linalg_eig(A)[0], lambda A: arrays.linalg.eigvals(A), inputs=("A",),
    joint=_eigvals_rule, node="LinalgEigBackward0", adjoint=True, dtypes="free", batch="leading",
)  # fmt: skip


def _check_eig(function: str, A: Any) -> None:
    check_square(function, A)
    if raw(A).dtype.kind not in "fc":
        raise RuntimeError(f"Unknown Complex ScalarType for {type_word(raw(A).dtype)}")
    check_kernel("linalg_eig_out_cpu", A)


@public("linalg", out="same")
def eig(input: Any) -> Any:
    """The eigenvalues and eigenvectors of square matrices, which may be complex.

    Gradients with respect to the eigenvectors are finite only if the eigenvalues are distinct, and
    a loss must not depend on the phases of the eigenvectors.

    Args:
        input: matrices ``(..., n, n)``.

    Returns:
        A named tuple ``(eigenvalues, eigenvectors)``: complex eigenvalues ``(..., n)`` in no
        particular order, and eigenvectors ``(..., n, n)`` as columns of length 1.

    Example:
        >>> import retrograd as torch
        >>> torch.linalg.eig(torch.tensor([[2.0, 0.0], [1.0, 3.0]])).eigenvalues
        tensor([3.+0.j, 2.+0.j])
    """
    check_tensors("linalg_eig", input=input)
    _check_eig("linalg.eig", input)
    return named_result("linalg_eig", "eigenvalues", "eigenvectors")(linalg_eig(input))


@public("linalg", out="same")
def eigvals(input: Any) -> Any:
    """The eigenvalues of square matrices, which may be complex.

    Args:
        input: matrices ``(..., n, n)``.

    Returns:
        The eigenvalues, ``(..., n)``, complex and in no particular order.

    Example:
        >>> import retrograd as torch
        >>> torch.linalg.eigvals(torch.tensor([[2.0, 0.0], [1.0, 3.0]]))
        tensor([3.+0.j, 2.+0.j])
    """
    check_tensors("linalg_eigvals", input=input)
    _check_eig("linalg.eig" if _records(input) else "linalg.eigvals", input)
    return linalg_eig(input)[0] if _records(input) else eigenvalues_alone(input)


# -- QR --------------------------------------------------------------------------------------


def _qr(A: Raw, mode: str) -> tuple[Raw, Raw]:
    return arrays.linalg.qr(A, mode)


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
    # The first columns decide Q; the others are only turned by it.
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
    if n > k:  # columns that are only turned
        rest = adjoint(Q) @ (columns_of(t, k, n) - moved_q @ columns_of(R, k, n))
        moved_r = linear.cat([moved_r, rest], dim=len(t.shape) - 1)
    return moved_q, moved_r


linalg_qr = Operation(
    "linalg_qr", _qr, inputs=("A",), rules={"A": _qr_rule}, outputs=("Q", "R"), adjoint=True,
    jvp=_qr_tangent, batch=Leading(optional=("Q",)),
    reason=_NO_EXPRESSION,
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
        >>> import retrograd as torch
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
        >>> import retrograd as torch
        >>> q, r = torch.qr(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> torch.allclose(q @ r, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        True
    """
    check_tensors("qr", input=input)
    return named_result("qr", "Q", "R")(qr(input, "reduced" if some else "complete"))
