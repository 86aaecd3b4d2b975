# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals
"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.ops import linear
from retrograd.ops._operation import Operation, composite, raw
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
    check_kernel,
    check_square,
    check_tensors,
    diagonal,
    is_complex,
    off_diagonal,
    on_diagonal,
    total,
    type_word,
)
from retrograd.ops.algebra.solving import solved
from retrograd.ops.copies import conj, real, to_dtype


def _eigh_rule(g: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    """The gradient as for all of a Hermitian matrix, though only one triangle of it is read."""
    values, vectors = g
    V, inverse = eigenvectors, adjoint(eigenvectors)
    if vectors is None:
        return (V * as_row(values)) @ inverse
    turns = inverse @ vectors
    if is_complex(V) and depends_on_phase(diagonal(turns)):
        raise _eigenvectors_depend_on_phase("linalg_eigh_backward")
    turns = off_diagonal(skew_part(turns) * 0.5 / gaps_between(eigenvalues))
    return V @ (total(turns, None if values is None else on_diagonal(values)) @ inverse)


def _eigenvectors_depend_on_phase(function: str) -> RuntimeError:
    return RuntimeError(
        f"{function}: The eigenvectors in the complex case are specified up to multiplication by "
        "e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined."
    )


def _eigh_tangent(t: Any, eigenvalues: Any, eigenvectors: Any) -> tuple[Any, Any]:
    """As for a Hermitian matrix: of a tangent that is none, for the part of it that is."""
    V = eigenvectors
    inner = adjoint(V) @ (t @ V)
    turns = off_diagonal(0.5 * (inner + adjoint(inner)) / gaps_between(eigenvalues))
    return real_diagonal(inner), V @ turns


linalg_eigh: Operation = Operation(
    "linalg_eigh",
    lambda A, UPLO: arrays.linalg.eigh(A, UPLO == "L"), inputs=("A",), rules={"A": _eigh_rule},
    outputs=("eigenvalues", "eigenvectors"), adjoint=True, batch="leading", jvp=_eigh_tangent,
    reason=NO_EXPRESSION,
)  # fmt: skip
hermitian_eigenvalues = composite(
    "hermitian_eigenvalues", lambda A, UPLO: linalg_eigh(A, UPLO=UPLO)[0],
    lambda A, UPLO: arrays.linalg.eigvalsh(A, UPLO == "L"),
    inputs=("A",),
    rules={"A": lambda g, A, UPLO: _eigh_rule((g, None), *linalg_eigh(A, UPLO=UPLO))},
    node="LinalgEighBackward0", adjoint=True,
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
        >>> torch.linalg.eigh(torch.tensor([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
        tensor([1., 3.])
    """
    check_tensors("linalg_eigh", input=input)
    result = linalg_eigh(input, UPLO=_check_eigh(input, UPLO))
    return named_result("linalg_eigh", "eigenvalues", "eigenvectors")(result)


@public("linalg", out="same")
def eigvalsh(input: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric or Hermitian matrices.

    Args:
        input: matrices ``(..., n, n)``. Only one triangle is read.
        UPLO: "L" to read the lower triangle, "U" to read the upper one.

    Returns:
        The eigenvalues, ``(..., n)``, real and in ascending order.

    Example:
        >>> torch.linalg.eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
        tensor([1., 3.])
    """
    check_tensors("linalg_eigvalsh", input=input)
    UPLO = _check_eigh(input, UPLO)
    if records(input):
        return linalg_eigh(input, UPLO=UPLO)[0]
    return hermitian_eigenvalues(input, UPLO=UPLO)


def _eig_rule(g: Any, eigenvalues: Any, eigenvectors: Any) -> list[Any]:
    values, vectors = g
    V, Vh = eigenvectors, adjoint(eigenvectors)
    if vectors is None:
        return [solved(Vh, as_column(values) * Vh)]
    turns = Vh @ vectors
    stretch = diagonal(turns)
    if depends_on_phase(stretch):
        raise _eigenvectors_depend_on_phase("linalg_eig_backward")
    # Vectors keep their length: what would change it is taken away.
    turns = turns - (Vh @ V) * as_row(real(stretch))
    turns = off_diagonal(turns / conj(gaps_between(eigenvalues)))
    inner = total(turns, None if values is None else on_diagonal(values))
    return [solved(Vh, inner @ Vh)]


def _eig_tangent(t: Any, eigenvalues: Any, eigenvectors: Any) -> tuple[Any, Any]:
    V = eigenvectors
    inner = solved(V, to_dtype(t, dtype=raw(V).dtype) @ V)
    moved = V @ off_diagonal(inner / gaps_between(eigenvalues))
    stretch = linear.sum_dim(real(conj(V) * moved), dim=(len(V.shape) - 2,), keepdim=True)
    return diagonal(inner), moved - V * stretch  # which keeps the length of vectors


# Joint rules, so that the gradient of a real matrix is made real.
linalg_eig: Operation = Operation(
    "linalg_eig", arrays.linalg.eig, inputs=("A",), joint=_eig_rule,
    outputs=("eigenvalues", "eigenvectors"), adjoint=True, dtypes="free", batch="leading",
    jvp=_eig_tangent, reason=NO_EXPRESSION,
)  # fmt: skip
eigenvalues_alone = composite(
    "eigenvalues", lambda A: linalg_eig(A)[0], lambda A: arrays.linalg.eigvals(A), inputs=("A",),
    joint=lambda g, A: _eig_rule((g, None), *linalg_eig(A)), node="LinalgEigBackward0",
    adjoint=True, dtypes="free", batch="leading",
)  # fmt: skip


def _check_eig(function: str, A: Any) -> None:
    check_square(function, A)
    if raw(A).dtype.kind not in dtypes.INEXACT:
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
        >>> torch.linalg.eigvals(torch.tensor([[2.0, 0.0], [1.0, 3.0]]))
        tensor([3.+0.j, 2.+0.j])
    """
    check_tensors("linalg_eigvals", input=input)
    _check_eig("linalg.eig" if records(input) else "linalg.eigvals", input)
    return linalg_eig(input)[0] if records(input) else eigenvalues_alone(input)
