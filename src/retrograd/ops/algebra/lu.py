# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals
"""LU decompositions, and solving with them."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching_declarations import Leading
from retrograd.ops._dims import broadcast
from retrograd.ops._lifted import bare, checked_by_line
from retrograd.ops._operation import Composite, Operation, TensorLike, composite, constant, raw
from retrograd.ops._public import public
from retrograd.ops._results import named_result
from retrograd.ops.algebra._matrix import adjoint as _adjoint  # which is the name of an option, too
from retrograd.ops.algebra._matrix import (
    check_float,
    check_kernel,
    check_matrices,
    check_same_dtype,
    check_square,
    check_tensors,
    columns_of,
    is_complex,
    lower,
    refuse,
    rows_of,
    total,
    transposed,
    upper,
)
from retrograd.ops.algebra.triangular import check_fit, triangular_solved
from retrograd.ops.copies import conj


def _lu_gradient(gl: Any, gu: Any, L: Any, U: Any) -> Any:
    """The gradient of ``L @ U`` by those of L and U, either of which may be None."""
    m, n = L.shape[-2], U.shape[-1]
    k = min(m, n)
    below = beside = None
    square_l, square_u = rows_of(L, 0, k), columns_of(U, 0, k)
    if gu is not None and n > k:  # further columns of U, which L was divided out of
        beside = _divided_by_lower(square_l, columns_of(gu, k, n))
        gl = total(gl, -(beside @ transposed(columns_of(U, k, n))))
    if gl is not None and m > k:  # further rows of L, which U was divided out of
        below = _divided_by_upper(square_u, rows_of(gl, k, m))
        gu = total(gu, -(transposed(rows_of(L, k, m)) @ below))
    # What is zero or one by definition has no say, not even where its gradient is infinite.
    inner = total(
        None if gl is None else lower(transposed(square_l) @ lower(rows_of(gl, 0, k), -1), -1),
        None if gu is None else upper(upper(columns_of(gu, 0, k)) @ transposed(square_u)),
    )
    gradient = _divided_by_lower(square_l, _divided_by_upper(square_u, inner))
    dim = len(gradient.shape)
    if n > k:
        if beside is None:
            beside = linear.new_zeros(gradient, (*gradient.shape[:-1], n - k))
        gradient = linear.cat([gradient, beside], dim=dim - 1)
    if m > k:
        if below is None:
            below = linear.new_zeros(gradient, (*gradient.shape[:-2], m - k, gradient.shape[-1]))
        gradient = linear.cat([gradient, below], dim=dim - 2)
    return gradient


def _divided_by_lower(L: Any, x: Any) -> Any:
    return triangular_solved(transposed(L), x, upper=True, left=True, unitriangular=True)


def _divided_by_upper(U: Any, x: Any) -> Any:
    return triangular_solved(transposed(U), x, upper=False, left=False, unitriangular=False)


def _order(pivots: Raw, rows: int, inverse: bool) -> Raw:
    order = arrays.linalg.permutation(pivots, rows)
    return arrays.linalg.inverse_order(order) if inverse else order


# The indices where P takes rows from, and P itself.
order_of_rows = constant("order_of_rows", _order, inputs=("pivots",), batch="leading")
permutation_matrix = constant(
    "permutation_matrix", arrays.linalg.permutation_matrix, inputs=("pivots",), batch="leading"
)


def _permuted(x: Any, pivots: Any, inverse: bool = False) -> Any:
    """``P @ x``, or ``P.T @ x``."""
    order = order_of_rows(pivots, rows=x.shape[-2], inverse=inverse)
    indices = linear.expand(linear.reshape(order, (*order.shape, 1)), size=tuple(x.shape))
    return linear.gather(x, indices, dim=len(x.shape) - 2)


def factor_gradient(g: Any, LU: Any, pivots: Any) -> Any:
    """The gradient of a matrix by that of its two factors in one array; None has none."""
    if g is None:
        return None
    k = min(LU.shape[-2:])
    L, U = unit_lower(columns_of(LU, 0, k)), upper(rows_of(LU, 0, k))
    return _permuted(_lu_gradient(columns_of(g, 0, k), rows_of(g, 0, k), L, U), pivots)


def unit_lower(x: Any) -> Any:
    """``x`` below the diagonal, ones on it, zeros above."""
    return lower(x, -1) + arrays.eye(x.shape[-2], x.shape[-1], dtype=raw(x).dtype)


def _lu_tangents(t: Any, L: Any, U: Any) -> tuple[Any, Any]:
    """How L and U move when ``L @ U`` does by ``t``."""
    m, n = L.shape[-2], U.shape[-1]
    k = min(m, n)
    square_l, square_u = rows_of(L, 0, k), columns_of(U, 0, k)
    inner = triangular_solved(
        square_l, rows_of(columns_of(t, 0, k), 0, k), upper=False, left=True, unitriangular=True
    )
    inner = triangular_solved(square_u, inner, upper=True, left=False, unitriangular=False)
    moved_l, moved_u = square_l @ lower(inner, -1), upper(inner) @ square_u
    dim = len(t.shape)
    if m > k:
        rest = rows_of(t, k, m) - rows_of(L, k, m) @ moved_u
        rest = triangular_solved(square_u, rest, upper=True, left=False, unitriangular=False)
        moved_l = linear.cat([moved_l, rest], dim=dim - 2)
    if n > k:
        rest = columns_of(t, k, n) - moved_l @ columns_of(U, k, n)
        rest = triangular_solved(square_l, rest, upper=False, left=True, unitriangular=True)
        moved_u = linear.cat([moved_u, rest], dim=dim - 1)
    return moved_l, moved_u


def factor_tangent(t: Any, LU: Any, pivots: Any) -> Any:
    """How the two factors, in one array, move when their matrix does by ``t``."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    L, U = unit_lower(columns_of(LU, 0, k)), upper(rows_of(LU, 0, k))
    return _in_one_array(*_lu_tangents(_permuted(t, pivots, inverse=True), L, U))


def _in_one_array(L: Any, U: Any) -> Any:
    """L below the diagonal, U on it and above: what is linear in both, without L's ones."""
    (m, k), n = L.shape[-2:], U.shape[-1]
    dim = len(L.shape)
    if n > k:
        L = linear.cat([L, linear.new_zeros(L, (*L.shape[:-1], n - k))], dim=dim - 1)
    if m > k:
        U = linear.cat([U, linear.new_zeros(U, (*U.shape[:-2], m - k, n))], dim=dim - 2)
    return lower(L, -1) + U


lu_factored = Operation(
    "linalg_lu_factor_ex", lambda A, pivot=True: arrays.linalg.lu_factor(A), inputs=("A",),
    rules={"A": lambda g, LU, pivots: factor_gradient(g[0], LU, pivots)},
    outputs=("LU", "pivots", "info"), batch="leading",
    jvp=lambda t, LU, pivots: (factor_tangent(t, LU, pivots), None, None),
    reason="a matrix decomposition: no expression in other operations gives the factors",
)  # fmt: skip


def _check_lu(function: str, A: Any, pivot: bool) -> None:
    if len(A.shape) < 2:
        raise RuntimeError(
            f"{function}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} "
            "instead"
        )
    check_kernel("lu_cpu", A)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


@public("linalg", out="same")
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """The LU decomposition in compact form, without an error for singular matrices.

    Args:
        A: matrices ``(..., m, n)``.
        pivot: exchange rows for numerical stability; must be True on the CPU.
        check_errors: raise an error if a matrix is singular.

    Returns:
        A named tuple ``(LU, pivots, info)``: see ``lu_factor``. ``info`` is 0, or the number of the
        first zero on the diagonal of U, counted from 1.

    Example:
        >>> torch.linalg.lu_factor_ex(torch.tensor([[1.0, 2.0], [2.0, 4.0]])).info
        tensor(2, dtype=torch.int32)
    """
    check_tensors("linalg_lu_factor_ex", A=A)
    return named_result("linalg_lu_factor_ex", "LU", "pivots", "info")(
        _factored("torch.linalg.lu_factor_ex", A, pivot, check_errors)
    )


def _factored(function: str, A: Any, pivot: bool, check_errors: bool) -> Any:
    _check_lu("torch.lu_factor", A, pivot)
    result = lu_factored(A)
    if check_errors:
        refuse(arrays.linalg.refuse_zero_pivot, function, result[2], A)
    return result


@public("linalg", out="same")
def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """The LU decomposition in the compact form that ``lu_solve`` takes.

    Args:
        A: matrices ``(..., m, n)``.
        pivot: exchange rows for numerical stability; must be True on the CPU.

    Returns:
        A named tuple ``(LU, pivots)``: U on and above the diagonal of ``LU`` and L, whose diagonal
        is 1, below it. Row i was exchanged with row ``pivots[i]``, counted from 1.

    Example:
        >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
        >>> LU, pivots
        (tensor([[4.0000, 4.0000],
                [0.2500, 1.0000]]), tensor([2, 2], dtype=torch.int32))
    """
    check_tensors("linalg_lu_factor", A=A)
    result = _factored("torch.linalg.lu_factor", A, pivot, True)
    return named_result("linalg_lu_factor", "LU", "pivots")(result[:2])


@public("torch.lu method.lu", out="same")
def lu_of_torch(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """Computes the LU factorization; see also ``torch.linalg.lu_factor``.

    Args:
        A: A matrix, or a batch of matrices.
        pivot: Whether rows are exchanged for numerical stability. It must be true on the CPU.
        get_infos: Whether to return the status of the factorization of each matrix.

    Returns:
        A tuple of the compact factors and the pivots, and of the status if it is requested.

    Example:
        >>> factors, pivots = torch.lu(torch.tensor([[4.0, 3.0], [2.0, 3.0]]))
        >>> factors
        tensor([[4.0000, 3.0000],
                [0.5000, 1.5000]])
    """
    check_tensors("lu", A=A)
    result = _factored("torch.linalg.lu_factor_ex", A, pivot, check_errors=False)
    return tuple(result) if get_infos else tuple(result[:2])


def _lu(A: Raw, pivot: bool = True) -> tuple[Raw, Raw, Raw]:
    LU, pivots, _ = arrays.linalg.lu_factor(A)
    k = min(A.shape[-2:])
    P = arrays.linalg.permutation_matrix(pivots, A.shape[-2], A.dtype)
    return unit_lower(LU[..., :k]), arrays.linalg.triu(LU[..., :k, :]), P


def _lu_rule(g: Any, L: Any, U: Any, P: Any) -> Any:
    if g[0] is None and g[1] is None:  # nothing makes P move
        return None
    return _constant(P) @ _lu_gradient(g[0], g[1], L, U)


def _constant(x: Any) -> Any:
    """``x`` without its history."""
    return x.detach() if isinstance(x, TensorLike) else x  # type: ignore[attr-defined]


def _lu_of(A: Any, pivot: bool = True) -> tuple[Any, Any, Any]:
    LU, pivots, _ = lu_factored(A)
    P = permutation_matrix(pivots, rows=A.shape[-2], dtype=raw(A).dtype)
    return *_triangles(LU), P


linalg_lu = composite(
    "linalg_lu", _lu_of, _lu, inputs=("A",), rules={"A": _lu_rule}, outputs=("L", "U", "P"),
    batch="leading",
)  # fmt: skip


@public("linalg", out="same")
def lu(A: Any, *, pivot: bool = True) -> Any:
    """The LU decomposition: ``A = P @ L @ U``.

    Args:
        A: matrices ``(..., m, n)``.
        pivot: exchange rows for numerical stability; must be True on the CPU.

    Returns:
        A named tuple ``(P, L, U)``: a permutation matrix, a lower triangular matrix with ones on
        its diagonal, and an upper triangular one.

    Example:
        >>> P, L, U = torch.linalg.lu(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
        >>> U
        tensor([[4., 4.],
                [0., 1.]])
    """
    check_tensors("linalg_lu", A=A)
    _check_lu("linalg.lu", A, pivot)
    L, U, P = linalg_lu(A)
    return named_result("linalg_lu", "P", "L", "U")((_constant(P), L, U))


def _lu_unpack(LU_data: Raw, unpack_data: bool) -> tuple[Raw, Raw]:
    if not unpack_data:
        return arrays.zeros((0,), LU_data.dtype), arrays.zeros((0,), LU_data.dtype)
    k = min(LU_data.shape[-2:])
    return unit_lower(LU_data[..., :k]), arrays.linalg.triu(LU_data[..., :k, :])


def _lu_unpack_rule(g: Any, shape: Any, unpack_data: bool) -> Any:
    """Each triangle to where it came from."""
    if not unpack_data:
        return linear.new_zeros(total(*g), tuple(shape))
    m, n = shape[-2:]
    gl, gu = g
    below = None if gl is None else lower(gl, -1)
    above = None if gu is None else upper(gu)
    if n > m and below is not None:
        rest = linear.new_zeros(below, (*below.shape[:-1], n - m))
        below = linear.cat([below, rest], dim=len(shape) - 1)
    if m > n and above is not None:
        rest = linear.new_zeros(above, (*above.shape[:-2], m - n, n))
        above = linear.cat([above, rest], dim=len(shape) - 2)
    return total(below, above)


def _triangles(LU: Any) -> tuple[Any, Any]:
    k = min(LU.shape[-2:])
    return unit_lower(columns_of(LU, 0, k)), upper(rows_of(LU, 0, k))


def _lu_unpack_of(LU_data: Any, unpack_data: bool) -> tuple[Any, Any]:
    if not unpack_data:
        return linear.new_zeros(LU_data, (0,)), linear.new_zeros(LU_data, (0,))
    return _triangles(LU_data)


unpacked = composite(
    "lu_unpack", _lu_unpack_of, _lu_unpack, inputs=("LU_data",),
    rules={"LU_data": _lu_unpack_rule}, outputs=("L", "U"),
    batch=Leading(optional=("L", "U")),
)  # fmt: skip


def _check_pivots(pivots: Raw, rows: int) -> None:
    arrays.linalg.refuse_wrong_pivots("pivots passed to lu_unpack", pivots, rows)


@public("torch", out="same")
def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """Unpacks the compact result of ``torch.linalg.lu_factor``.

    Args:
        LU_data: The compact factors.
        LU_pivots: The pivots.
        unpack_data: Whether to unpack L and U. Otherwise they are empty.
        unpack_pivots: Whether to unpack P. Otherwise it is empty.

    Returns:
        A named tuple ``(P, L, U)`` with ``A = P @ L @ U``.

    Example:
        >>> factors = torch.linalg.lu_factor(torch.tensor([[4.0, 3.0], [2.0, 3.0]]))
        >>> torch.lu_unpack(*factors).U
        tensor([[4.0000, 3.0000],
                [0.0000, 1.5000]])
    """
    check_tensors("lu_unpack", LU_data=LU_data, LU_pivots=LU_pivots)
    if unpack_pivots and raw(LU_pivots).dtype.name != "int32":
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
            "dtype.\nNote: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor"
        )
    P = linear.new_zeros(LU_data, (0,))
    if unpack_pivots:
        if not checked_by_line(_check_pivots, LU_pivots, LU_data.shape[-2]):
            _check_pivots(bare(LU_pivots, looks=False), LU_data.shape[-2])
        P = permutation_matrix(LU_pivots, rows=LU_data.shape[-2], dtype=raw(LU_data).dtype)
    L, U = unpacked(LU_data, unpack_data=bool(unpack_data))
    return named_result("lu_unpack", "P", "L", "U")((P, L, U))


def solved_with_factors(
    LU: Raw, pivots: Raw, B: Raw, left: bool = True, adjoint: bool = False
) -> Raw:
    if left:
        return arrays.linalg.lu_solve(LU, pivots, B, 2 if adjoint else 0)
    if adjoint:  # X A^H = B is A X^H = B^H
        result = arrays.linalg.lu_solve(LU, pivots, arrays.conj(transposed(B)))
        return arrays.conj(transposed(result))
    return transposed(arrays.linalg.lu_solve(LU, pivots, transposed(B), 1))


def _lu_solve_right(g: Any, LU: Any, pivots: Any, left: bool, adjoint: bool) -> Any:
    return lu_solved(LU, pivots, g, left=left, adjoint=not adjoint)


def _lu_solve_factors(g: Any, LU: Any, pivots: Any, result: Any, left: bool, adjoint: bool) -> Any:
    right = _lu_solve_right(g, LU, pivots, left, adjoint)
    product = _adjoint(result) @ right if not left else right @ _adjoint(result)
    permuted = _permuted(-(_adjoint(product) if adjoint else product), pivots, inverse=True)
    return lower(permuted @ _adjoint(upper(LU)), -1) + upper(_adjoint(unit_lower(LU)) @ permuted)


def _lu_solve_of(LU: Any, pivots: Any, B: Any, left: bool = True, adjoint: bool = False) -> Any:
    """``P @ L @ U``, or its adjoint, undone factor by factor."""
    if not left:  # X A = B is A^H X^H = B^H
        return _adjoint(_lu_solve_of(LU, pivots, _adjoint(B), True, not adjoint))
    batch = broadcast(tuple(LU.shape[:-2]), tuple(B.shape[:-2]))
    B = linear.expand(B, size=(*batch, *B.shape[-2:]))
    if adjoint:
        half = triangular_solved(_adjoint(LU), B, upper=False, left=True, unitriangular=False)
        whole = triangular_solved(_adjoint(LU), half, upper=True, left=True, unitriangular=True)
        return _permuted(whole, pivots)
    half = _permuted(B, pivots, inverse=True)
    half = triangular_solved(LU, half, upper=False, left=True, unitriangular=True)
    return triangular_solved(LU, half, upper=True, left=True, unitriangular=False)


lu_solved: Composite = composite(
    "linalg_lu_solve", _lu_solve_of, solved_with_factors, inputs=("LU", "pivots", "B"),
    rules={"LU": _lu_solve_factors, "B": _lu_solve_right}, adjoint=True, broadcasts=True,
    batch=Leading((2, 1, 2), right_sides=2),
)  # fmt: skip


def solved_with_transposed(LU: Any, pivots: Any, B: Any, left: bool = True) -> Any:
    """X of ``A.mT @ X = B``, or of ``X @ A.mT = B``, from the factors of ``A``."""
    if not is_complex(LU):
        return lu_solved(LU, pivots, B, left=left, adjoint=True)
    return conj(lu_solved(LU, pivots, conj(B), left=left, adjoint=True))


@public("linalg", out="same")
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """Solves ``A @ X = B``, given the LU decomposition of A.

    Args:
        LU: the factors of A in compact form, ``(..., n, n)``, from ``lu_factor``.
        pivots: the exchanges of rows, ``(..., n)``, from ``lu_factor``.
        B: right-hand sides, ``(..., n, k)``.
        left: solve ``A @ X = B``; otherwise ``X @ A = B``.
        adjoint: take the conjugate transpose of A in place of A.

    Returns:
        The solution X, ``(..., n, k)``.

    Example:
        >>> factors = torch.linalg.lu_factor(torch.tensor([[2.0, 0.0], [1.0, 4.0]]))
        >>> torch.linalg.lu_solve(*factors, torch.tensor([[2.0], [9.0]]))
        tensor([[1.],
                [2.]])
    """
    check_tensors("linalg_lu_solve", LU=LU, pivots=pivots, B=B)
    check_square("torch.linalg.lu_solve", LU)
    check_float("torch.linalg.lu_solve", LU)
    check_same_dtype("linalg.lu_solve: ", ("LU", LU), ("B", B))
    if raw(pivots).dtype.name != "int32":
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    check_matrices("linalg.lu_solve", B, "B")
    check_fit("linalg.lu_solve", LU, B, left)
    if LU.shape[-1] != pivots.shape[-1]:
        raise RuntimeError(
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the "
            "matrix"
        )
    if tuple(LU.shape[:-1]) != tuple(pivots.shape):
        raise RuntimeError(
            "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got "
            f"pivots with shape {list(pivots.shape)} instead"
        )
    broadcast(tuple(LU.shape[:-2]), tuple(B.shape[:-2]))
    check_kernel("linalg.lu_solve_cpu", LU)
    return lu_solved(LU, pivots, B, left=bool(left), adjoint=bool(adjoint))


@public("torch.lu_solve method.lu_solve", out="same")
def lu_solve_of_torch(input: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """Solves ``A @ X = input`` with the LU factorization of ``A``.

    Args:
        input: The right-hand sides, as columns.
        LU_data: The compact factors, as ``torch.linalg.lu_factor`` returns them.
        LU_pivots: The pivots.

    Returns:
        The solution X.

    Example:
        >>> factors = torch.linalg.lu_factor(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> torch.lu_solve(torch.ones(2, 1), *factors)
        tensor([[0.5000],
                [0.2500]])
    """
    check_tensors("lu_solve", input=input, LU_data=LU_data, LU_pivots=LU_pivots)
    return lu_solve(LU_data, LU_pivots, input)
