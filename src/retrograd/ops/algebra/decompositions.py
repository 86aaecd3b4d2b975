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
from retrograd.ops._operation import Operation, raw
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
    off_diagonal,
    on_diagonal,
    rows_of,
    total,
    type_word,
    upper,
)
from retrograd.ops.algebra.solving import solved
from retrograd.ops.algebra.triangular import triangular_solved
from retrograd.ops.elementwise import conj, real

_PHASE = 1e-2  # how far a loss may depend on a phase and still count as independent of it


def _depends_on_phase(x: Any, y: Any = 0.0) -> bool:
    phases = arrays.imag(raw(x)) + (arrays.imag(raw(y)) if arrays.is_raw(raw(y)) else y)
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
    turns = [raw(diagonal(raw(x))) for x in (left, right) if x is not None]
    if _depends_on_phase(*turns):
        raise RuntimeError(
            "svd_backward: The singular vectors in the complex case are specified up to "
            "multiplication by e^{i phi}. The specified loss function depends on this phase term, "
            "making it ill-defined."
        )


def _singular_values_rule(g: Any, A: Any) -> Any:
    U, S, Vh = linalg_svd(A, full_matrices=False)
    return _svd_rule((None, g, None), U, S, Vh, False)


linalg_svd = Operation(
    "linalg_svd", _svd, inputs=("A",), rules={"A": _svd_rule}, outputs=("U", "S", "Vh"),
    adjoint=True,
)  # fmt: skip
# Without the vectors, which take longer: for when no graph is recorded that would need them.
singular_values = Operation(
    "singular_values", lambda A: arrays.linalg.svdvals(A), inputs=("A",),
    rules={"A": _singular_values_rule}, node="LinalgSvdBackward0", adjoint=True, dtypes="real",
)  # fmt: skip


def _check_svd(A: Any) -> None:
    check_matrices("linalg.svd", A)
    check_float("linalg.svd", A)
    check_kernel("linalg_svd_cpu", A)


def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """``A`` as ``U @ diag(S) @ Vh``: rotations and, in descending order, singular values.

    >>> import retrograd as torch
    >>> A = torch.tensor([[3.0, 0.0], [0.0, -2.0]])
    >>> torch.linalg.svd(A).S
    tensor([3., 2.])
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


def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """The singular values, in descending order.

    >>> import retrograd as torch
    >>> torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, -2.0]]))
    tensor([3., 2.])
    """
    check_tensors("linalg_svdvals", A=A)
    _check_svd(A)
    return linalg_svd(A, full_matrices=False)[1] if _records(A) else singular_values(A)


def svd_of_torch(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """``torch.svd``: as ``torch.linalg.svd``, but gives ``V`` where that gives its adjoint."""
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
    if is_complex(V) and _depends_on_phase(diagonal(raw(turns))):
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


linalg_eigh = Operation(
    "linalg_eigh", _eigh, inputs=("A",), rules={"A": _eigh_rule},
    outputs=("eigenvalues", "eigenvectors"), adjoint=True,
)  # fmt: skip
hermitian_eigenvalues = Operation(
    "hermitian_eigenvalues", _eigvalsh, inputs=("A",), rules={"A": _eigvalsh_rule},
    node="LinalgEighBackward0", adjoint=True, dtypes="real",
)  # fmt: skip


def _check_eigh(A: Any, UPLO: str) -> str:
    check_square("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    check_kernel("linalg_eigh_cpu", A)
    return UPLO.upper()


def eigh(input: Any, UPLO: str = "L") -> Any:
    """The eigenvalues, ascending, and eigenvectors of a symmetric or Hermitian matrix, of which
    only the lower (``"L"``) or upper (``"U"``) triangle is read.

    >>> import retrograd as torch
    >>> torch.linalg.eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    check_tensors("linalg_eigh", input=input)
    found = linalg_eigh(input, UPLO=_check_eigh(input, UPLO))
    return named_result("linalg_eigh", "eigenvalues", "eigenvectors")(found)


def eigvalsh(input: Any, UPLO: str = "L") -> Any:
    """The eigenvalues, ascending, of a symmetric or Hermitian matrix."""
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
    if _depends_on_phase(raw(stretch)):
        raise _eigenvectors_depend_on_phase("linalg_eig_backward")
    # Vectors keep their length: what would change it is taken away.
    turns = turns - (Vh @ V) * as_row(real(stretch))
    turns = off_diagonal(turns / conj(_gaps(eigenvalues)))
    inner = total(turns, None if values is None else on_diagonal(values))
    return [solved(Vh, inner @ Vh)]


def _eigvals_rule(g: Any, A: Any) -> list[Any]:
    return _eig_rule((g, None), *linalg_eig(A))


# Joint rules, so that the gradient of a real matrix is made real.
linalg_eig = Operation(
    "linalg_eig", _eig, inputs=("A",), joint=_eig_rule,
    outputs=("eigenvalues", "eigenvectors"), adjoint=True, dtypes="free",
)  # fmt: skip
eigenvalues_alone = Operation(
    "eigenvalues", lambda A: arrays.linalg.eigvals(A), inputs=("A",), joint=_eigvals_rule,
    node="LinalgEigBackward0", adjoint=True, dtypes="free",
)  # fmt: skip


def _check_eig(function: str, A: Any) -> None:
    check_square(function, A)
    if raw(A).dtype.kind not in "fc":
        raise RuntimeError(f"Unknown Complex ScalarType for {type_word(raw(A).dtype)}")
    check_kernel("linalg_eig_out_cpu", A)


def eig(input: Any) -> Any:
    """The eigenvalues and eigenvectors, complex, of a square matrix.

    >>> import retrograd as torch
    >>> torch.linalg.eig(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues.abs()
    tensor([1., 1.])
    """
    check_tensors("linalg_eig", input=input)
    _check_eig("linalg.eig", input)
    return named_result("linalg_eig", "eigenvalues", "eigenvectors")(linalg_eig(input))


def eigvals(input: Any) -> Any:
    """The eigenvalues, complex, of a square matrix."""
    check_tensors("linalg_eigvals", input=input)
    _check_eig("linalg.eig" if _records(input) else "linalg.eigvals", input)
    return linalg_eig(input)[0] if _records(input) else eigenvalues_alone(input)


# -- QR --------------------------------------------------------------------------------------


def _qr(A: Raw, mode: str) -> tuple[Raw, Raw]:
    return arrays.linalg.qr(A, mode)


def _qr_rule(g: Any, Q: Any, R: Any, mode: str) -> Any:
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    gq, gr = g
    m, n = Q.shape[-2], R.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
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


linalg_qr = Operation(
    "linalg_qr", _qr, inputs=("A",), rules={"A": _qr_rule}, outputs=("Q", "R"), adjoint=True
)


def qr(A: Any, mode: str = "reduced") -> Any:
    """``A`` as ``Q @ R``: a matrix with orthonormal columns and an upper triangular one.

    >>> import retrograd as torch
    >>> torch.linalg.qr(torch.tensor([[3.0], [4.0]])).R
    tensor([[-5.]])
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


def qr_of_torch(input: Any, some: bool = True) -> Any:
    """``torch.qr``: as ``torch.linalg.qr``, complete unless ``some``."""
    check_tensors("qr", input=input)
    return named_result("qr", "Q", "R")(qr(input, "reduced" if some else "complete"))
