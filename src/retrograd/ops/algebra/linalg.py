# ruff: noqa: N803, N806 - matrices are called as in PyTorch, in capitals
"""Functions of matrices: powers, exponentials, products of several."""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Any

from retrograd import arrays
from retrograd.ops import linear, products
from retrograd.ops._dims import many_dims, one_dim
from retrograd.ops._operation import MatrixFunction, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import c_name
from retrograd.ops.algebra._matrix import (
    check_float,
    check_same_dtype,
    check_square,
    check_tensors,
    conj_of,
    transposed,
)
from retrograd.ops.algebra.matrices import vdot
from retrograd.ops.algebra.solving import inv
from retrograd.ops.copies import zeros_like

# -- powers and exponentials -----------------------------------------------------------------


@public("linalg", out="same")
def matrix_power(input: Any, n: int) -> Any:
    """Square matrices to an integer power.

    Args:
        input: matrices ``(..., n, n)``.
        n: the power. For a negative one, the matrices are inverted first.

    Returns:
        The powers, of the shape of the input; identity matrices for power 0.

    Example:
        >>> torch.linalg.matrix_power(torch.tensor([[1.0, 1.0], [1.0, 0.0]]), 5)
        tensor([[8., 5.],
                [5., 3.]])
    """
    check_tensors("linalg_matrix_power", input=input)
    return _power("linalg_matrix_power", input, n)


@public("torch.matrix_power method.matrix_power", out="same")
def matrix_power_of_torch(input: Any, n: int) -> Any:
    """Computes the power of a square matrix to an integer exponent.

    Args:
        input: A square matrix, or a batch of them.
        n: The exponent. If it is negative, the inverse is raised to ``-n``.

    Returns:
        The power of each matrix.

    Example:
        >>> torch.matrix_power(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
        tensor([[1., 3.],
                [0., 1.]])
    """
    check_tensors("matrix_power", input=input)
    return _power("matrix_power", input, n)


def _power(function: str, A: Any, n: Any) -> Any:
    if not hasattr(n, "__index__"):
        raise TypeError(
            f"{function}(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    check_square("linalg.matrix_power", A)
    n = operator.index(n)
    if n == 0:
        eye = arrays.eye(A.shape[-1], dtype=raw(A).dtype)
        return A.clone().copy_(eye)
    if n == 1:
        return A.clone()
    if n < 0:
        A, n = inv(A), -n
    if n == 1:
        return A
    if n == 2:
        return products.matmul(A, A)
    if n == 3:
        return products.matmul(products.matmul(A, A), A)
    result, square = None, None
    while n:
        square = A if square is None else products.matmul(square, square)
        if n % 2:
            result = square if result is None else products.matmul(result, square)
        n //= 2
    return result


def _exponential_rule(g: Any, self: Any) -> Any:
    """The exponential of a matrix of blocks holds the derivative in its corner."""
    self_t = transposed(self)
    n = self.shape[-1]
    zeros = zeros_like(self_t)
    dim = len(self.shape)
    top = linear.cat([self_t, g], dim=dim - 1)
    bottom = linear.cat([zeros, self_t], dim=dim - 1)
    whole = exponential(linear.cat([top, bottom], dim=dim - 2))
    return linear.slice_(whole, where=(..., slice(0, n), slice(n, 2 * n)))


exponential: MatrixFunction = MatrixFunction(
    "linalg_matrix_exp", lambda self: arrays.linalg.expm(self), inputs=("self",),
    rules={"self": _exponential_rule}, batch="leading",
)  # fmt: skip


@public("torch method linalg")
def matrix_exp(input: Any) -> Any:
    """The exponential of square matrices: the sum of ``input**k / k!`` over all k.

    Args:
        input: matrices ``(..., n, n)``.

    Returns:
        The exponentials, of the shape of the input.

    Example:
        >>> torch.linalg.matrix_exp(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
        tensor([[1., 1.],
                [0., 1.]])
    """
    check_tensors("linalg_matrix_exp", input=input)
    check_square("linalg.matrix_exp", input)
    check_float("linalg.matrix_exp", input)
    return exponential(input)


# -- products of several ---------------------------------------------------------------------


@public("linalg", out="same")
def multi_dot(tensors: Any) -> Any:
    """The product of several matrices, multiplied in the order that takes the fewest operations.

    Args:
        tensors: at least two matrices. The first may be a row vector and the last a column vector,
            each of one dimension.

    Example:
        >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
        tensor([12., 12.])
    """
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            "linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    for number, x in enumerate(tensors):
        if not hasattr(x, "shape"):
            raise TypeError(
                f"expected Tensor as element {number} in argument 0, but got {type(x).__name__}"
            )
    return _chain(list(tensors))


def _chain(tensors: list[Any]) -> Any:
    last = len(tensors) - 1
    if last < 1:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    for word, x in (("first", tensors[0]), ("last", tensors[-1])):
        if len(x.shape) not in (1, 2):
            raise RuntimeError(
                f"multi_dot(): the {word} tensor must be 1D or 2D but got {len(x.shape)}D"
            )
    shape: list[int] = []  # of the result
    matrices = list(tensors)
    if len(tensors[0].shape) == 1:
        matrices[0] = linear.unsqueeze(tensors[0], dim=0)
    else:
        shape.append(tensors[0].shape[0])
    if len(tensors[-1].shape) == 1:
        matrices[-1] = linear.unsqueeze(tensors[-1], dim=1)
    else:
        shape.append(tensors[-1].shape[1])
    _check_chain(tensors, matrices)
    if last == 1:
        product = products.mm(*matrices)
    else:
        sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
        product = _multiplied(matrices, _splits(sizes), 0, last)
    return linear.view(product, size=tuple(shape))


def _check_chain(tensors: list[Any], matrices: list[Any]) -> None:
    for number, (x, m) in enumerate(zip(tensors, matrices, strict=True)):
        if len(m.shape) != 2:
            raise RuntimeError(f"multi_dot(): tensor {number} must be 2D but got {len(x.shape)}D")
        if raw(x).dtype != raw(tensors[0]).dtype:
            words = [c_name(raw(y).dtype) for y in (tensors[0], x)]
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {words[0]} "
                f"and tensor {number} {words[1]}"
            )
    for number, (a, b) in enumerate(pairwise(matrices)):
        if a.shape[1] != b.shape[0]:
            shapes = [list(x.shape) for x in tensors[number : number + 2]]
            raise RuntimeError(
                f"multi_dot(): tensors {number} and {number + 1} with shapes {shapes[0]} and "
                f"{shapes[1]} cannot be multiplied"
            )


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each stretch of a chain of matrices into two products."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    best = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], best[i, j] = min(options)
            if count == 3 and options[-1][0] == cost[i, j]:  # of two equal ways, from the left
                best[i, j] = j - 1
    return best


def _multiplied(matrices: list[Any], splits: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return matrices[i]
    k = splits[i, j]
    left, right = _multiplied(matrices, splits, i, k), _multiplied(matrices, splits, k + 1, j)
    return products.mm(left, right)


@public("torch", out="same")
def chain_matmul(*matrices: Any) -> Any:
    """Computes the product of several matrices; an older name of ``torch.linalg.multi_dot``.

    Args:
        *matrices: The matrices.

    Returns:
        The product, computed in the order that needs the fewest operations.

    Example:
        >>> torch.chain_matmul(torch.ones(2, 3), torch.ones(3, 1), torch.ones(1, 2))
        tensor([[3., 3.],
                [3., 3.]])
    """
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for x in matrices:
        if len(x.shape) != 2:
            raise RuntimeError(f"Tensor dimension is {len(x.shape)}, expected 2 instead.")
    return matrices[0].clone() if len(matrices) == 1 else _chain(list(matrices))


@public("linalg", out="same")
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The dot products of vectors, ``sum(conj(x) * y)``.

    Args:
        x: the left factors, which are conjugated if they are complex.
        y: the right factors; broadcast with ``x``.
        dim: dimension that holds the elements of the vectors.

    Returns:
        The products, in the broadcast shape without ``dim``.

    Example:
        >>> torch.linalg.vecdot(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, -1.0]))
        tensor([-1., -1.])
    """
    check_tensors("linalg_vecdot", x=x, y=y)
    check_float("linalg.vecdot", x)
    check_same_dtype("linalg.vecdot: ", ("x", x), ("y", y))
    if len(x.shape) == len(y.shape) == 1:
        one_dim(dim, 1)
        return vdot(x, y)
    product = conj_of(x) * y
    dims = many_dims(dim, len(product.shape))
    return linear.sum_dim(product, dim=dims, keepdim=False)


@public("linalg", out="same")
def matmul(input: Any, other: Any) -> Any:
    """The matrix product; the same as ``torch.matmul``.

    Args:
        input: matrices ``(..., m, k)``, or a vector.
        other: matrices ``(..., k, n)``, or a vector; dimensions in front are broadcast.

    Returns:
        The products, ``(..., m, n)``.

    Example:
        >>> torch.linalg.matmul(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
        tensor([[11.]])
    """
    check_tensors("linalg_matmul", input=input, other=other)
    return products.matmul(input, other)
