"""Least squares: solutions of overdetermined and underdetermined linear systems."""

# ruff: noqa: N806 - matrices are called as in PyTorch, in capitals

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching import BatchLevel
from retrograd.ops._batching_declarations import own
from retrograd.ops._batching_matrices import apart, together
from retrograd.ops._dims import broadcast
from retrograd.ops._operation import Operation, raw
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops.algebra._batches import SYSTEMS, of_each, right_sides
from retrograd.ops.algebra._matrix import (
    adjoint,
    as_column,
    as_row,
    as_vectors,
    check_tensors,
    is_complex,
    total,
    type_word,
)
from retrograd.ops.algebra.ranks import pinv, pinv_gradient, pinv_tangent
from retrograd.ops.algebra.solving import is_vector
from retrograd.ops.copies import conj, real


def _lstsq(self: Raw, b: Raw, rcond: float, driver: str) -> tuple[Raw, Raw, Raw, Raw]:
    vector = b.ndim < self.ndim
    b = as_column(b) if vector else b
    wide = broadcast(self.shape[:-2], b.shape[:-2])
    A, B = (arrays.expand(x, (*wide, *x.shape[-2:])) for x in (self, b))
    solution, rank, values = arrays.linalg.lstsq(A, B, driver, rcond)
    residuals = arrays.zeros((0,), values.dtype)
    m, n = self.shape[-2:]
    known = driver == "gels" or (driver != "gelsy" and bool((rank == n).all()))
    if m > n and known:
        size = arrays.absolute(B - A @ solution)
        residuals = arrays.sum(size * size, -2)
    before = (1,) * (len(wide) + 2 - self.ndim) + self.shape[:-2]
    own = tuple(slice(0, s) for s in before)  # once for each matrix, however often it is used
    rank, values = (x[own].reshape(self.shape[:-2] + x.shape[len(wide) :]) for x in (rank, values))
    if driver == "gels":
        rank = arrays.zeros((0,), arrays.int64)
    if driver in ("gels", "gelsy"):
        values = arrays.zeros((0,), values.dtype)
    return solution[..., 0] if vector else solution, residuals, rank, values


def _lstsq_rule(g: Any, self: Any, b: Any, solution: Any, needs: Any) -> list[Any]:
    vector = len(b.shape) < len(self.shape)
    first = second = None
    gx, B, X = (x if x is None or not vector else as_column(x) for x in (g[0], b, solution))
    if gx is not None:
        inverse = pinv(self)
        second = adjoint(inverse) @ gx
        if needs[0]:
            first = pinv_gradient(gx @ adjoint(B), self, inverse)
    if g[1] is not None and 0 not in g[1].shape:
        error = (B - self @ X) * as_row(g[1] + g[1])
        second = total(second, error)
        first = total(first, -(error @ adjoint(X)))
    if vector and second is not None:
        second = linear.reshape(second, tuple(second.shape[:-1]))
    return [first, second]


def _lstsq_tangent(
    t: Any, self: Any, b: Any, solution: Any, residuals: Any
) -> tuple[Any, Any, None, None]:
    vector = len(b.shape) < len(self.shape)
    moved, right = t
    right, B, X = (x if x is None or not vector else as_column(x) for x in (right, b, solution))
    inverse = pinv(self)
    result = total(
        None if moved is None else pinv_tangent(moved, self, inverse) @ B,
        None if right is None else inverse @ right,
    )
    left_over = None
    if 0 not in residuals.shape:  # whose sum is smallest: that X moves too makes no difference
        error, shift = B - self @ X, total(right, None if moved is None else -(moved @ X))
        product = (conj(error) if is_complex(error) else error) * shift
        product = real(product) if is_complex(product) else product
        left_over = linear.sum_dim(product + product, dim=(len(error.shape) - 2,), keepdim=False)
    return as_vectors(result) if vector else result, left_over, None, None


@own(SYSTEMS)
def _lstsq_batch(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    A, b = args
    vector = len(b.shape) < len(A.shape)
    rank = max(len(A.shape), len(b.shape) + vector)
    right = right_sides(level, b, vector, rank)
    if not level.owns(A) and rank == 2:  # one matrix for all: all right sides are one
        X, residuals, *results = op(A, together(right), **options)
        X = apart(X, tuple(right.shape))
        if 0 not in residuals.shape:
            residuals = linear.reshape(residuals, (level.size, right.shape[2]))
    else:
        X, residuals, *results = op(level.aligned(A, rank), right, **options)
    front = tuple(A.shape[:-2])
    shapes = front, (*front, min(A.shape[-2:]))
    results = [
        level.constant(x) if tuple(x.shape) == (0,) else of_each(level, A, x, shape)
        for x, shape in zip(results, shapes, strict=True)
    ]
    if tuple(residuals.shape) == (0,):  # not found, as may be the others
        residuals = level.constant(residuals)
    return as_vectors(X) if vector else X, residuals, *results


linalg_lstsq = Operation(
    "linalg_lstsq", _lstsq, inputs=("self", "b"), joint=_lstsq_rule,
    outputs=("solution", "residuals", "rank", "singular_values"), adjoint=True,
    jvp=_lstsq_tangent, batch=_lstsq_batch,
    reason="LAPACK is more accurate than the pseudo-inverse that its derivative is expressed in",
)  # fmt: skip
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@public("linalg")
def lstsq(input: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The least-squares solution of ``input @ X = b``.

    Args:
        input: matrices ``(..., m, n)``.
        b: right-hand sides, ``(..., m, k)``, or ``(..., m)`` for single vectors.
        rcond: singular values below ``rcond`` times the largest one are taken as zero; by default,
            the machine epsilon times ``max(m, n)``.
        driver: LAPACK's algorithm: "gelsy" (the default), "gels" (full rank only), "gelsd" or
            "gelss".

    Returns:
        A named tuple ``(solution, residuals, rank, singular_values)``. The sums of squared
        residuals are empty unless ``m > n`` and the rank is n; ``rank`` is empty for "gels"; the
        singular values are empty unless the driver is "gelsd" or "gelss".

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> torch.linalg.lstsq(x, torch.tensor([[1.0], [3.0], [5.0]])).solution
        tensor([[1.0000],
                [2.0000]])
    """
    check_tensors("linalg_lstsq", input=input, b=b)
    _check_lstsq(input, b, driver)
    if rcond is None:
        rcond = arrays.linalg.eps(raw(input).dtype) * max(input.shape[-2:])
    X, residuals, rank, values = linalg_lstsq(
        input, b, rcond=float(rcond), driver=driver or "gelsy"
    )
    names = ("solution", "residuals", "rank", "singular_values")
    return named_result("linalg_lstsq", *names)((X, residuals, rank, values.detach()))


def _check_lstsq(input: Any, b: Any, driver: str | None) -> None:
    dtype = raw(input).dtype
    if len(input.shape) < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if not b.shape:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if dtype != raw(b).dtype:
        raise RuntimeError(
            "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's "
            f"dtype {type_word(dtype)} and other's dtype {type_word(raw(b).dtype)}"
        )
    if not 0 <= len(input.shape) - len(b.shape) <= 1:
        raise RuntimeError(
            "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and "
            "(input.dim() - other.dim()) <= 1"
        )
    side = -1 if is_vector(input.shape, b.shape) else -2
    if input.shape[-2] != b.shape[side]:
        raise RuntimeError(f"torch.linalg.lstsq: input.size(-2) should match other.size({side})")
    if dtype.kind not in "fc" or dtype.name == "float16":
        raise RuntimeError("This function doesn't handle types other than float and double")
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of ({', '.join(_DRIVERS)})"
        )
    batch = tuple(b.shape[: -1 if len(b.shape) < len(input.shape) else -2])
    broadcast(tuple(input.shape[:-2]), batch)
