# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals
"""Determinants: det, slogdet, logdet."""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching_declarations import Leading
from retrograd.ops._dims import numel
from retrograd.ops._lifted import LazyTangent, bare
from retrograd.ops._operands import is_differentiated
from retrograd.ops._operation import Operation, TensorLike, raw
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops.algebra._matrix import (
    adjoint,
    as_column,
    check_float,
    check_kernel,
    check_square,
    check_tensors,
    conj_of,
    diagonal,
    is_complex,
    on_diagonal,
    total,
)
from retrograd.ops.algebra.lu import factor_gradient, factor_tangent, lu_solved
from retrograd.ops.algebra.solving import solved
from retrograd.ops.comparisons import eq
from retrograd.ops.copies import conj, imag, real, to_dtype, zeros_like
from retrograd.ops.elementwise import log
from retrograd.ops.piecewise import where


def _det(A: Raw) -> tuple[Raw, Raw, Raw]:
    LU, pivots, _ = arrays.linalg.lu_factor(A)
    return arrays.linalg.product_of_pivots(LU, pivots), LU, pivots


def _det_rule(g: Any, A: Any, LU: Any, pivots: Any, result: Any) -> Any:
    factors = factor_gradient_adjoint(g[1], LU, pivots)
    if g[0] is None or not numel(A.shape):
        return factors if factors is not None else zeros_like(A)
    if A.shape[-1] == 1:
        return total(factors, as_column(as_column(g[0])))
    if isinstance(g[0], TensorLike) or is_differentiated(LU):
        return total(factors, _recorded_det_rule(g[0], A, result))
    if arrays.equal(bare(result), 0).any():
        return total(factors, as_column(as_column(g[0])) * conj_of(cofactors(A)))
    numbers = on_diagonal(_for_each(g[0] * conj_of(result), LU))
    return total(factors, lu_solved(LU, pivots, numbers, left=True, adjoint=True))


def _for_each(scale: Any, A: Any) -> Any:
    """One number for each matrix, as vectors as long as its sides."""
    return linear.expand(as_column(scale), size=tuple(A.shape[:-1]))


def _recorded_det_rule(g: Any, A: Any, result: Any) -> Any:
    """In a form that can be differentiated again."""
    if _any_singular(result):
        return as_column(as_column(g)) * conj_of(cofactors(A))
    return solved(adjoint(A), on_diagonal(_for_each(g * conj_of(result), A)))


def _any_singular(determinant: Any) -> bool:
    sizes = arrays.absolute(bare(determinant))
    return bool((sizes < 100 * arrays.linalg.eps(sizes.dtype)).any())


def _det_tangent(t: Any, A: Any, LU: Any, pivots: Any, result: Any) -> tuple[Any, ...]:
    factors = LazyTangent(lambda: factor_tangent(t, LU, pivots))
    if not numel(A.shape):
        return zeros_like(result), factors, None
    if _any_singular(result):
        dims = (len(A.shape) - 2, len(A.shape) - 1)
        return linear.sum_dim(cofactors(A) * t, dim=dims, keepdim=False), factors, None
    return result * _trace_of_quotient(t, A, LU, pivots), factors, None


def _trace_of_quotient(t: Any, A: Any, LU: Any, pivots: Any) -> Any:
    """The traces of ``A^-1 @ t``."""
    if is_differentiated(LU):
        quotient = solved(A, t)
    else:
        quotient = lu_solved(LU, pivots, t, left=True, adjoint=False)
    on_it = diagonal(quotient)
    return linear.sum_dim(on_it, dim=(len(on_it.shape) - 1,), keepdim=False)


def _no_third_derivative(g: Any) -> Any:
    raise NotImplementedError(
        "the third derivative of the determinant of a singular matrix is not implemented"
    )


cofactor_backward: Operation = Operation(
    "cofactor_backward", lambda A, t: arrays.linalg.cofactor_backward(A, t), inputs=("A", "t"),
    rules={"A": _no_third_derivative, "t": lambda g, A: cofactor_backward(A, g)},
    batch=Leading((2, 2)),
    reason="linear in one array; by the other it has a third derivative, which is refused",
)  # fmt: skip
cofactors = Operation(
    "cofactors", lambda A: arrays.linalg.cofactors(A), inputs=("A",),
    rules={"A": lambda g, A: cofactor_backward(A, g)}, symmetric=True, batch="leading",
    reason="a polynomial in the elements; cheaper expressions divide by the determinant",
)  # fmt: skip


def factor_gradient_adjoint(g: Any, LU: Any, pivots: Any) -> Any:
    """The gradient by the factors, for a rule that gives the adjoint."""
    if g is None:
        return None
    return conj_of(factor_gradient(conj_of(g), LU, pivots))


linalg_det = Operation(
    "linalg_det", _det, inputs=("A",), rules={"A": _det_rule}, outputs=("result", "LU", "pivots"),
    adjoint=True, batch="leading", jvp=_det_tangent,
    reason="for singular matrices the derivative goes by cofactors, not through the LU factors",
    words="The gradient times the determinant times the inverse, transposed.",
)  # fmt: skip


@public("linalg", out="same")
def det(A: Any) -> Any:
    """The determinants of square matrices.

    Args:
        A: matrices ``(..., n, n)``.

    Returns:
        The determinants, of shape ``(...)``.

    Example:
        >>> torch.linalg.det(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
        tensor(2.)
    """
    check_tensors("linalg_det", A=A)
    check_square("linalg.det", A)
    check_float("linalg.det", A)
    check_kernel("lu_cpu", A)
    return linalg_det(A)[0]


@public("torch.det method.det")
def det_of_torch(input: Any) -> Any:
    """Computes the determinant of a square matrix.

    Args:
        input: A square matrix, or a batch of them.

    Returns:
        The determinant of each matrix.

    Example:
        >>> torch.det(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
        tensor(6.)
    """
    check_tensors("det", input=input)
    return det(input)


def _slogdet(A: Raw) -> tuple[Raw, Raw, Raw, Raw]:
    LU, pivots, _ = arrays.linalg.lu_factor(A)
    return (*arrays.linalg.sign_and_log_of_pivots(LU, pivots), LU, pivots)


def _slogdet_rule(g: Any, A: Any, LU: Any, pivots: Any, sign: Any) -> Any:
    factors = factor_gradient_adjoint(g[2], LU, pivots)
    scale = g[1]
    if g[0] is not None and is_complex(A):  # the sign turns; that of a real number stays
        scale = total(scale, imag(conj(g[0]) * sign) * -1j)
    if scale is None:
        return factors
    numbers = _in_dtype_of(A, on_diagonal(_for_each(scale, A)))
    if isinstance(numbers, TensorLike) or is_differentiated(LU):
        return total(factors, solved(adjoint(A), numbers))
    return total(factors, lu_solved(LU, pivots, numbers, left=True, adjoint=True))


def _in_dtype_of(A: Any, x: Any) -> Any:
    return to_dtype(x, dtype=raw(A).dtype) if raw(x).dtype != raw(A).dtype else x


def _slogdet_tangent(t: Any, A: Any, LU: Any, pivots: Any, sign: Any) -> tuple[Any, ...]:
    factors = LazyTangent(lambda: factor_tangent(t, LU, pivots))
    moved = _trace_of_quotient(t, A, LU, pivots)
    if not is_complex(A):
        return None, moved, factors, None
    return sign * (imag(moved) * 1j), real(moved), factors, None


linalg_slogdet = Operation(
    "linalg_slogdet", _slogdet, inputs=("A",), rules={"A": _slogdet_rule},
    outputs=("sign", "logabsdet", "LU", "pivots"), adjoint=True, batch="leading",
    jvp=_slogdet_tangent,
    reason="the derivative is the trace of a quotient, solved with the LU factors of the forward",
)  # fmt: skip


def _checked_slogdet(function: str, A: Any) -> Any:
    check_square(function, A)
    check_float(function, A, low_precision=False)
    return linalg_slogdet(A)[:2]


@public("linalg", out="same")
def slogdet(A: Any) -> Any:
    """The sign and the logarithm of the absolute value of determinants.

    The determinant is ``sign * exp(logabsdet)``, which may overflow where the logarithm does not.

    Args:
        A: matrices ``(..., n, n)``.

    Returns:
        A named tuple ``(sign, logabsdet)``, each of shape ``(...)``. For a singular matrix they are
        0 and minus infinity.

    Example:
        >>> torch.linalg.slogdet(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).sign
        tensor(-1.)
    """
    check_tensors("linalg_slogdet", A=A)
    return named_result("linalg_slogdet", "sign", "logabsdet")(
        _checked_slogdet("linalg.slogdet", A)
    )


@public("torch.slogdet method.slogdet", out="same")
def slogdet_of_torch(input: Any) -> Any:
    """Computes the sign and the logarithm of the absolute value of the determinant.

    Args:
        input: A square matrix, or a batch of them.

    Returns:
        A named tuple ``(sign, logabsdet)``.

    Example:
        >>> torch.slogdet(torch.tensor([[1.0, 0.0], [0.0, -1.0]])).sign
        tensor(-1.)
    """
    check_tensors("slogdet", input=input)
    return named_result("slogdet", "sign", "logabsdet")(_checked_slogdet("linalg.slogdet", input))


@public("torch method")
def logdet(input: Any) -> Any:
    """Computes the logarithm of the determinant.

    Args:
        input: A square matrix, or a batch of them.

    Returns:
        The logarithm for each matrix: NaN if the determinant is negative.

    Example:
        >>> torch.logdet(torch.eye(2))
        tensor(0.)
    """
    check_tensors("logdet", input=input)
    sign, logarithm = _checked_slogdet("logdet", input)
    if is_complex(input):
        return log(sign) + logarithm
    return where(eq(sign, -1.0), math.nan, logarithm)
