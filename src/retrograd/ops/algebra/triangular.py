# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals
"""Triangular systems and Cholesky factors."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching_declarations import Leading
from retrograd.ops._dims import broadcast
from retrograd.ops._lifted import bare
from retrograd.ops._operation import Operation, composite, raw
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops.algebra._matrix import (
    adjoint,
    check_float,
    check_kernel,
    check_matrices,
    check_same_dtype,
    check_square,
    check_tensors,
    lower,
    refuse,
    total,
    transposed,
    upper,
)
from retrograd.ops.copies import clone

# -- triangular systems ----------------------------------------------------------------------


def _solve_triangular(
    self: Raw, B: Raw, upper: bool, left: bool = True, unitriangular: bool = False
) -> Raw:
    return arrays.linalg.solve_triangular(self, B, upper, left, unitriangular)


def _solve_triangular_rule(
    g: Any, self: Any, result: Any, upper: bool, left: bool, unitriangular: bool, needs: Any
) -> list[Any]:
    right = triangular_solved(
        transposed(self), g, upper=not upper, left=left, unitriangular=unitriangular
    )
    if not needs[0]:
        return [None, right]
    whole = right @ transposed(result) if left else transposed(result) @ right
    return [-_triangle(whole, upper, unitriangular), right if needs[1] else None]


def _triangle(x: Any, is_upper: bool, unit: bool = False) -> Any:
    """The part of ``x`` that a triangular matrix has."""
    return upper(x, 1 if unit else 0) if is_upper else lower(x, -1 if unit else 0)


def _solve_triangular_tangent(
    t: Any, self: Any, result: Any, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    moved, right = t
    if moved is not None:
        moved = _triangle(moved, upper, unitriangular)
        right = total(right, -(moved @ result if left else result @ moved))
    return triangular_solved(self, right, upper=upper, left=left, unitriangular=unitriangular)


triangular_solved: Operation = Operation(
    "linalg_solve_triangular", _solve_triangular, inputs=("self", "B"),
    joint=_solve_triangular_rule, dtypes="promote", jvp=_solve_triangular_tangent,
    batch=Leading((2, 2), right_sides=1),
    reason="the inverse of a product: the primitive that other linear systems are expressed in",
)  # fmt: skip


@public("linalg", out="same")
def solve_triangular(
    input: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """Solves ``input @ X = B`` for triangular matrices.

    Args:
        input: triangular matrices ``(..., n, n)``. The other triangle is not read.
        B: right-hand sides, ``(..., n, k)``.
        upper: whether the matrices are upper triangular rather than lower triangular.
        left: solve ``input @ X = B``; otherwise ``X @ input = B``.
        unitriangular: take the diagonal as ones, without reading it.

    Returns:
        The solution X, ``(..., n, k)``.

    Example:
        >>> A, B = torch.tensor([[2.0, 0.0], [1.0, 4.0]]), torch.tensor([[2.0], [9.0]])
        >>> torch.linalg.solve_triangular(A, B, upper=False)
        tensor([[1.],
                [2.]])
    """
    check_tensors("linalg_solve_triangular", input=input, B=B)
    check_square("linalg.solve_triangular", input)
    check_matrices("linalg.solve_triangular", B, "B")
    check_fit("linalg.solve_triangular", input, B, left)
    broadcast(tuple(B.shape[:-2]), tuple(input.shape[:-2]))
    for x in (input, B):
        check_kernel("triangular_solve_cpu", x)
    return triangular_solved(
        input, B, upper=bool(upper), left=bool(left), unitriangular=bool(unitriangular)
    )


def check_fit(function: str, A: Any, B: Any, left: bool) -> None:
    if A.shape[-2 if left else -1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{function}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({A.shape[-2]}x{A.shape[-1]} and "
            f"{B.shape[-2]}x{B.shape[-1]})"
        )


def _check_systems(function: str, b: Any, A: Any) -> None:
    """Whether ``b`` and ``A`` make a system, in the words of the older functions."""
    check_same_dtype("", ("b", b), ("A", A), ".")
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} "
            "matrices"
        )
    if A.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {function}: each A matrix is {A.shape[-1]} by "
            f"{A.shape[-1]} but each b matrix is {b.shape[-2]} by {b.shape[-1]}"
        )


# -- the older function ----------------------------------------------------------------------


def _older_solve(
    self: Raw, A: Raw, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Raw, Raw]:
    matrix = transposed(A) if transpose else A
    batch = broadcast(self.shape[:-2], A.shape[:-2])
    copy = arrays.ascontiguous(arrays.expand(A, (*batch, *A.shape[-2:])))
    solution = _solve_triangular(matrix, self, upper != transpose, True, unitriangular)
    return solution, arrays.copy(A) if A.shape == copy.shape else copy


def _older_solve_rule(
    g: Any, self: Any, A: Any, solution: Any, upper: bool, transpose: bool, unitriangular: bool,
    needs: Any,
) -> list[Any]:  # fmt: skip
    if g[0] is None:
        return [None, g[1]]
    matrix = A if transpose else transposed(A)
    right = triangular_solved(
        matrix, g[0], upper=upper == transpose, left=True, unitriangular=unitriangular
    )
    if not needs[1]:
        return [right, None]
    product = solution @ transposed(right) if transpose else right @ transposed(solution)
    return [right, total(-_triangle(product, upper, unitriangular), g[1])]


def _older_solve_of(self: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    solution = triangular_solved(
        transposed(A) if transpose else A, self, upper=upper != transpose, left=True,
        unitriangular=unitriangular,
    )  # fmt: skip
    batch = broadcast(tuple(self.shape[:-2]), tuple(A.shape[:-2]))
    return solution, clone(linear.expand(A, size=(*batch, *A.shape[-2:])))


older_solve = composite(
    "triangular_solve", _older_solve_of, _older_solve, inputs=("self", "A"),
    joint=_older_solve_rule,
    outputs=("solution", "cloned_coefficient"), batch=Leading((2, 2)),
)  # fmt: skip


@public("torch method", out="same")
def triangular_solve(
    input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """Solves ``A @ X = input`` for a triangular matrix; see also ``torch.linalg.solve_triangular``.

    Args:
        input: The right-hand sides, as columns.
        A: A triangular matrix, or a batch of them.
        upper: Whether ``A`` is upper triangular.
        transpose: Whether ``A`` is transposed first.
        unitriangular: Whether the diagonal of ``A`` counts as ones, whatever it holds.

    Returns:
        A named tuple ``(solution, cloned_coefficient)``: X and a copy of ``A``.

    Example:
        >>> A = torch.tensor([[1.0, 1.0], [0.0, 2.0]])
        >>> torch.triangular_solve(torch.tensor([[3.0], [4.0]]), A).solution
        tensor([[1.],
                [2.]])
    """
    check_tensors("triangular_solve", input=input, A=A)
    for name, x in (("b", input), ("A", A)):
        if len(x.shape) < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it "
                f"has {len(x.shape)} dimensions instead"
            )
    _check_systems("triangular_solve", input, A)
    broadcast(tuple(input.shape[:-2]), tuple(A.shape[:-2]))
    check_kernel("triangular_solve_cpu", A)
    result = older_solve(
        input, A, upper=bool(upper), transpose=bool(transpose), unitriangular=bool(unitriangular)
    )
    return named_result("triangular_solve", "solution", "cloned_coefficient")(result)


# -- positive definite matrices --------------------------------------------------------------


def _cholesky_rule(g: Any, L: Any, upper: bool) -> Any:
    """The gradient as for all of a Hermitian matrix, though only one triangle of it is read."""
    g, L = (adjoint(g), adjoint(L)) if upper else (g, L)
    inner = lower(adjoint(L) @ g)
    inner = 0.5 * (inner + adjoint(lower(inner, -1)))
    inner = triangular_solved(adjoint(L), inner, upper=True, left=True, unitriangular=False)
    return triangular_solved(L, inner, upper=False, left=False, unitriangular=False)


def _cholesky_tangent(t: Any, L: Any, upper: bool = False) -> Any:
    """As for a Hermitian matrix: of a tangent that is none, for the part of it that is."""
    t, L = (adjoint(t), adjoint(L)) if upper else (t, L)
    inner = triangular_solved(L, t, upper=False, left=True, unitriangular=False)
    inner = triangular_solved(adjoint(L), inner, upper=True, left=False, unitriangular=False)
    moved = L @ (0.5 * (lower(inner) + lower(adjoint(inner), -1)))
    return adjoint(moved) if upper else moved


def _older_cholesky(self: Raw, upper: bool = False) -> Raw:
    if not self.size:
        return arrays.copy(self)
    factor, infos = arrays.linalg.cholesky(self, upper)
    arrays.linalg.refuse_not_positive("cholesky", infos, self.shape)
    return factor


linalg_cholesky = Operation(
    "linalg_cholesky_ex", lambda self, upper=False: arrays.linalg.cholesky(self, upper),
    inputs=("self",),
    rules={"self": lambda g, L, upper: _cholesky_rule(g[0], L, upper)}, outputs=("L", "info"),
    adjoint=True, batch="leading", jvp=lambda t, L, upper: (_cholesky_tangent(t, L, upper), None),
    reason="a matrix decomposition: no expression in other operations gives the factors",
)  # fmt: skip


def _older_cholesky_of(self: Any, upper: bool) -> Any:
    if 0 in self.shape:
        return clone(self)
    L, info = linalg_cholesky(self, upper=upper)
    infos = bare(info)
    arrays.linalg.refuse_not_positive("cholesky", infos, (*infos.shape, *self.shape[-2:]))
    return L


older_cholesky = composite(
    "cholesky", _older_cholesky_of, _older_cholesky,
    rules={"self": lambda g, result, upper: _cholesky_rule(g, result, upper)}, adjoint=True,
    batch="leading",
)  # fmt: skip


@public("linalg", out="same")
def cholesky_ex(input: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The Cholesky factor of matrices, without an error if one is not positive definite.

    Args:
        input: symmetric or Hermitian matrices ``(..., n, n)``. Only one triangle is read.
        upper: return the upper triangular factor.
        check_errors: raise an error if a matrix is not positive definite.

    Returns:
        A named tuple ``(L, info)``. ``info`` is 0, or the order of the first leading minor that is
        not positive definite.

    Example:
        >>> torch.linalg.cholesky_ex(torch.tensor([[1.0, 2.0], [2.0, 1.0]])).info
        tensor(2, dtype=torch.int32)
    """
    check_tensors("linalg_cholesky_ex", input=input)
    return named_result("linalg_cholesky_ex", "L", "info")(
        _checked_cholesky("linalg.cholesky_ex", input, upper, check_errors)
    )


def _checked_cholesky(function: str, input: Any, upper: bool, check_errors: bool) -> Any:
    check_square("linalg.cholesky", input)
    check_float("linalg.cholesky", input)
    check_kernel("cholesky_cpu", input)
    result = linalg_cholesky(input, upper=bool(upper))
    if check_errors:
        refuse(arrays.linalg.refuse_not_positive, function, result[1], input)
    return result


@public("linalg", out="cast")
def cholesky(input: Any, *, upper: bool = False) -> Any:
    """The Cholesky factor of positive definite matrices: ``input = L @ L.mH`` with L lower
    triangular.

    Args:
        input: symmetric or Hermitian matrices ``(..., n, n)``. Only one triangle is read.
        upper: return the upper triangular factor ``L.mH``.

    Returns:
        The factors, of the shape of the input.

    Example:
        >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    check_tensors("linalg_cholesky", input=input)
    return _checked_cholesky("linalg.cholesky", input, upper, True)[0]


@public("torch.cholesky method.cholesky", out="cast")
def cholesky_of_torch(input: Any, upper: bool = False) -> Any:
    """Computes the Cholesky decomposition of a positive definite matrix.

    Args:
        input: A Hermitian positive definite matrix, or a batch of them.
        upper: Whether the result is upper triangular. By default, it is lower triangular.

    Returns:
        The triangular factor of each matrix.

    Example:
        >>> torch.cholesky(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
        tensor([[2., 0.],
                [0., 3.]])
    """
    check_tensors("cholesky", input=input)
    if input.shape and 0 not in input.shape:
        check_square("cholesky", input)
    check_matrices("cholesky", input)
    check_kernel("cholesky_cpu", input)
    return older_cholesky(input, upper=bool(upper))


def _cholesky_solve_rule(
    g: Any, self: Any, input2: Any, result: Any, upper: bool, needs: Any
) -> list[Any]:
    right = solved_by_cholesky(g, input2, upper=upper)
    if not needs[1]:
        return [right, None]
    product = right @ adjoint(result)
    return [right, _factor_of(product + adjoint(product), input2, upper)]


def _factor_of(symmetric: Any, factor: Any, upper: bool) -> Any:
    """The gradient of a factor, by less that of the product: zero in the triangle that is not
    read."""
    factor = _triangle(factor, upper)
    return _triangle(-(factor @ symmetric if upper else symmetric @ factor), upper)


def _product_tangent(t: Any, factor: Any, upper: bool) -> Any:
    """How a product of a factor and its adjoint moves."""
    t, factor = _triangle(t, upper), _triangle(factor, upper)
    half = adjoint(factor) @ t if upper else t @ adjoint(factor)
    return half + adjoint(half)


def _cholesky_solve_tangent(t: Any, input2: Any, result: Any, upper: bool = False) -> Any:
    right, factor = t
    if factor is not None:
        right = total(right, -(_product_tangent(factor, input2, upper) @ result))
    return solved_by_cholesky(right, input2, upper=upper)


solved_by_cholesky: Operation = Operation(
    "cholesky_solve",
    lambda self, input2, upper=False: arrays.linalg.cholesky_solve(self, input2, upper),
    inputs=("self", "input2"), joint=_cholesky_solve_rule,
    adjoint=True, jvp=_cholesky_solve_tangent, batch=Leading((2, 2), right_sides=0),
    reason="its rules share the solution of a system",
)  # fmt: skip


@public("torch method", out="same")
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """Solves ``A @ X = input`` with the Cholesky factor of ``A``.

    Args:
        input: The right-hand sides, as columns.
        input2: The Cholesky factor of ``A``.
        upper: Whether the factor is upper triangular.

    Returns:
        The solution X.

    Example:
        >>> torch.cholesky_solve(torch.ones(2, 1), torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
        tensor([[0.2500],
                [1.0000]])
    """
    check_tensors("cholesky_solve", input=input, input2=input2)
    for name, x in (("b", input), ("u", input2)):
        if len(x.shape) < 2:
            raise RuntimeError(
                f"{name} should have at least 2 dimensions, but has {len(x.shape)} dimensions "
                "instead"
            )
    _check_systems("cholesky_solve", input, input2)
    broadcast(tuple(input.shape[:-2]), tuple(input2.shape[:-2]))
    check_kernel("cholesky_solve_cpu", input)
    return solved_by_cholesky(input, input2, upper=bool(upper))


def _cholesky_inverse(self: Raw, upper: bool = False) -> Raw:
    eye = arrays.eye(self.shape[-1], dtype=self.dtype)
    return arrays.linalg.cholesky_solve(eye, self, upper)


def _cholesky_inverse_rule(g: Any, self: Any, result: Any, upper: bool) -> Any:
    return _factor_of(result @ (g + adjoint(g)) @ result, self, upper)


def _cholesky_inverse_of(self: Any, upper: bool) -> Any:
    eye = arrays.eye(self.shape[-1], dtype=raw(self).dtype)
    return solved_by_cholesky(eye, self, upper=upper)


inverse_by_cholesky = composite(
    "cholesky_inverse", _cholesky_inverse_of, _cholesky_inverse,
    rules={"self": _cholesky_inverse_rule}, adjoint=True, batch="leading",
)  # fmt: skip


@public("torch method", out="same")
def cholesky_inverse(input: Any, upper: bool = False) -> Any:
    """Computes the inverse of a positive definite matrix from its Cholesky factor.

    Args:
        input: The Cholesky factor, or a batch of them.
        upper: Whether the factor is upper triangular.

    Returns:
        The inverse of each matrix.

    Example:
        >>> torch.cholesky_inverse(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
        tensor([[0.2500, 0.0000],
                [0.0000, 1.0000]])
    """
    check_tensors("cholesky_inverse", input=input)
    check_square("cholesky_inverse", input)
    check_kernel("cholesky_inverse_out_cpu", input)
    factor = bare(input)
    zero = arrays.equal(arrays.linalg.diagonal(factor), 0)
    arrays.linalg.refuse_singular_inverse(
        "cholesky_inverse", arrays.linalg.first_true(zero), factor.shape
    )
    return inverse_by_cholesky(input, upper=bool(upper))
