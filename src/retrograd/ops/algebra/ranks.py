# ruff: noqa: N803 - matrices are called as in PyTorch, in capitals
"""Rank and condition number of matrices, and pseudo-inverses."""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.ops import linear
from retrograd.ops._batching_declarations import Leading
from retrograd.ops._operation import Operation, constant, raw
from retrograd.ops._public import public
from retrograd.ops._sections import like
from retrograd.ops.algebra._matrix import (
    adjoint,
    check_square,
    check_tensors,
    real_dtype,
    type_word,
)
from retrograd.ops.algebra.solving import inv_ex
from retrograd.ops.algebra.svd import svdvals
from retrograd.ops.comparisons import gt, le
from retrograd.ops.copies import to_dtype
from retrograd.ops.elementwise import reciprocal
from retrograd.ops.piecewise import masked_fill
from retrograd.ops.pointwise import clamping
from retrograd.ops.reductions import norms

# -- the pseudo-inverse ----------------------------------------------------------------------


def pinv_gradient(g: Any, self: Any, result: Any) -> Any:
    """The gradient of a pseudo-inverse, for a rank that does not change."""
    inverse, g_h = result, adjoint(g)
    if self.shape[-2] <= self.shape[-1]:
        product = g_h @ inverse
        ending = product @ adjoint(inverse)
        return (
            -adjoint(inverse @ product)
            + ending
            - (self @ inverse) @ ending
            + (adjoint(inverse) @ inverse) @ (g_h - product @ self)
        )
    product = inverse @ g_h
    beginning = adjoint(inverse) @ product
    return (
        -adjoint(product @ inverse)
        + (g_h - self @ product) @ inverse @ adjoint(inverse)
        + beginning
        - (beginning @ inverse) @ self
    )


def pinv_tangent(t: Any, self: Any, result: Any) -> Any:
    """How a pseudo-inverse moves, for a rank that does not change."""
    inverse, t_h = result, adjoint(t)
    outside = t_h - (t_h @ self) @ inverse  # what the columns of the matrix do not reach
    result = (inverse @ adjoint(inverse)) @ outside - inverse @ (t @ inverse)
    onward = t_h @ (adjoint(inverse) @ inverse)
    return result + onward - inverse @ (self @ onward)


linalg_pinv = Operation(
    "linalg_pinv", arrays.linalg.pinv, inputs=("self",), rules={"self": pinv_gradient},
    adjoint=True, jvp=pinv_tangent, batch=Leading((2,)),
    reason="a tolerance decides the rank, which derivatives take to be constant",
)  # fmt: skip


@public("linalg", out="same")
def pinv(
    A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Any:
    """The pseudoinverse (Moore-Penrose inverse) of matrices.

    Singular values that are at most ``max(atol, rtol * largest)`` are taken as zero.

    Args:
        A: matrices ``(..., m, n)``.
        rcond: an older name of ``rtol``.
        hermitian: whether the matrices are symmetric or Hermitian, which is faster.
        atol: absolute tolerance; 0 by default.
        rtol: relative tolerance; by default, the machine epsilon times ``max(m, n)``, or 0 if
            ``atol`` is positive.

    Returns:
        The pseudoinverses, ``(..., n, m)``.

    Example:
        >>> torch.linalg.pinv(torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.0000]])
    """
    check_tensors("linalg_pinv", A=A)
    dtype = raw(A).dtype
    if len(A.shape) < 2 or dtype.kind not in "fc" or dtype.name == "float16":
        raise RuntimeError(
            f"linalg.pinv({type_word(dtype)}{{{list(A.shape)}}}): expected a tensor with 2 or more "
            "dimensions of float, double, cfloat or cdouble types"
        )
    if isinstance(rcond, bool):  # torch.linalg.pinv(A, hermitian) has no rcond
        rcond, hermitian = None, rcond
    if hermitian and all(A.shape):
        check_square("linalg.eigh", A)
    absolute, relative = _tolerances(A, atol, rcond if rtol is None else rtol)
    return linalg_pinv(A, atol=absolute, rtol=relative, hermitian=bool(hermitian))


@public("torch method")
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """Computes the pseudo-inverse of a matrix; see also ``torch.linalg.pinv``.

    Args:
        input: A matrix, or a batch of matrices.
        rcond: Singular values below ``rcond`` times the largest one count as zero.

    Returns:
        The pseudo-inverse of each matrix.

    Example:
        >>> torch.pinverse(torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.0000]])
    """
    check_tensors("pinverse", input=input)
    return pinv(input, rtol=rcond)


def _tolerances(A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Absolute and relative tolerance, as arrays. Without either, the relative one is a few units
    in the last place; with an absolute one alone, none."""
    dtype = real_dtype(A)
    if rtol is None:
        usual = arrays.linalg.eps(dtype) * max(A.shape[-2:])
        if atol is None:
            rtol = usual
        elif hasattr(atol, "shape"):
            rtol = to_dtype(raw(le(raw(atol), 0)), dtype=dtype) * usual
        else:
            rtol = 0.0 if atol > 0 else usual
    atol = 0.0 if atol is None else atol
    results = [raw(x) if hasattr(x, "shape") else arrays.asarray(x) for x in (atol, rtol)]
    return to_dtype(results[0], dtype=dtype), to_dtype(results[1], dtype=dtype)


# -- rank ------------------------------------------------------------------------------------


rank_of = constant("matrix_rank", arrays.linalg.rank, batch=Leading((2,)))


@public("linalg", out="same")
@like(pinv)
def matrix_rank(
    input: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Any:
    """The rank of matrices: the number of singular values that count as positive.

    These are the ones above ``max(atol, rtol * largest)``.

    Args:
        input: matrices ``(..., m, n)``.
        tol: an older name of ``atol``.

    Returns:
        The ranks, integers of shape ``(...)``.

    Example:
        >>> torch.linalg.matrix_rank(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
        tensor(1)
    """
    check_tensors("linalg_matrix_rank", input=input)
    if isinstance(tol, bool):
        tol, hermitian = None, tol
    if len(input.shape) < 2:
        raise RuntimeError(
            "torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions."
        )
    dtype = raw(input).dtype
    if dtype.kind not in "fc" or dtype.name == "float16":
        raise RuntimeError("This function doesn't handle types other than float and double")
    if hermitian and all(input.shape[-2:]):
        check_square("linalg.eigh", input)
    if tol is not None:
        atol, rtol = tol, 0.0
    absolute, relative = _tolerances(input, atol, rtol)
    return rank_of(input, atol=absolute, rtol=relative, hermitian=bool(hermitian))


# -- condition -------------------------------------------------------------------------------


@public("linalg", out="same")
def cond(input: Any, p: Any = None) -> Any:
    """The condition number of matrices: ``norm(A, p) * norm(inv(A), p)``.

    Args:
        input: matrices ``(..., n, n)``; for ``p`` None, 2 or -2, ``(..., m, n)``.
        p: order of the norm: see ``matrix_norm``. None is 2: the largest singular value divided by
            the smallest.

    Returns:
        The condition numbers, of shape ``(...)``; infinity for singular matrices.

    Example:
        >>> torch.linalg.cond(torch.tensor([[2.0, 0.0], [0.0, 0.5]]))
        tensor(4.)
    """
    check_tensors("linalg_cond", input=input)
    if len(input.shape) < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    how = _COND[_checked_order(p)]
    if how is not _spectral and (isinstance(p, str) or 0 not in input.shape):
        check_square(f"linalg.cond(ord={p if isinstance(p, str) else f'{p:g}'})", input)
    if 0 in input.shape:
        return linear.new_zeros(svdvals(input.detach()), tuple(input.shape[:-2]))
    return how(input, p)


def _checked_order(p: Any) -> str:
    if p is None or p in (2, -2):
        return "spectral"
    if p == "nuc":
        return "nuclear"
    if p == "fro" or (not isinstance(p, str) and abs(p) in (1, math.inf)):
        return "other"
    word = p if isinstance(p, str) else f"{p:g}"
    raise RuntimeError(f"linalg.cond got an invalid norm type: {word}")


def _spectral(input: Any, p: Any) -> Any:
    values = svdvals(input)
    largest = linear.slice_(values, where=(..., slice(0, 1)))
    smallest = linear.slice_(values, where=(..., slice(values.shape[-1] - 1, values.shape[-1])))
    ratio = smallest / largest if p == -2 else largest / smallest
    return linear.squeeze_dim(ratio, dims=(len(ratio.shape) - 1,))


def _nuclear(input: Any, p: Any) -> Any:
    values = svdvals(input)
    dim = (len(values.shape) - 1,)
    inverse = linear.sum_dim(reciprocal(values), dim=dim, keepdim=False)
    return linear.sum_dim(values, dim=dim, keepdim=False) * inverse


def _by_inverse(input: Any, p: Any) -> Any:
    """Singular matrices have an infinite condition."""
    inverse, info = inv_ex(input)
    failed = gt(info, 0)
    inverse = masked_fill(inverse, linear.reshape(failed, (*failed.shape, 1, 1)), math.inf)
    product = norms.matrix_norm(input, p) * norms.matrix_norm(inverse, p)
    return clamping.nan_to_num(product, math.inf, math.inf, -math.inf)


_COND = {"spectral": _spectral, "nuclear": _nuclear, "other": _by_inverse}
