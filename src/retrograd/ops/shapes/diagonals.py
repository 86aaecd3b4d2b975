"""Diagonals and triangles of matrices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import check_int, element
from retrograd.ops._batching_declarations import Dims
from retrograd.ops._dims import numel, one_dim
from retrograd.ops._operation import Composite, Linear, composite, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import named, public
from retrograd.ops._refusals import kernel
from retrograd.ops._sections import like
from retrograd.ops._words import PADDED
from retrograd.ops.copies import zeros_like
from retrograd.ops.piecewise import where
from retrograd.ops.reductions import scans
from retrograd.ops.shapes import reshaping, slicing

# -- diagonals -------------------------------------------------------------------------------


def _diagonal(self: Raw, offset: int, dim1: int, dim2: int) -> Raw:
    return arrays.layout.diagonal(self, offset, dim1, dim2)


def _put_diagonal(self: Raw, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Raw:
    out = arrays.zeros(shape, self.dtype)
    arrays.layout.diagonal(out, offset, dim1, dim2)[...] = self
    return out


def _onto_diagonal(g: Any, shape: Any, offset: int, dim1: int, dim2: int) -> Any:
    return put_diagonal(g, shape=tuple(shape), offset=offset, dim1=dim1, dim2=dim2)


def _of_diagonal(g: Any, offset: int, dim1: int, dim2: int) -> Any:
    return diagonal_at(g, offset=offset, dim1=dim1, dim2=dim2)


diagonal_at: Linear = declare(
    "diagonal", _diagonal, _onto_diagonal, view=True, batch="dims",
    words=PADDED,
)  # fmt: skip
diagonal_copied = declare(
    "diagonal_copy",
    lambda self, offset, dim1, dim2: arrays.array(arrays.layout.diagonal(self, offset, dim1, dim2)),
    _onto_diagonal, node="DiagonalBackward0_copy", batch="dims",
)  # fmt: skip
put_diagonal: Linear = declare("diag_embed", _put_diagonal, _of_diagonal, batch=Dims())


def _diagonal_scatter(self: Raw, src: Raw, offset: int, dim1: int, dim2: int) -> Raw:
    out = arrays.copy(arrays.writable(self))
    arrays.write(arrays.layout.diagonal(out, offset, dim1, dim2), src)
    return out


def _without_diagonal(g: Any, offset: int, dim1: int, dim2: int) -> Any:
    zeros = zeros_like(diagonal_at(g, offset=offset, dim1=dim1, dim2=dim2))
    return diagonal_scatter_at(g, zeros, offset=offset, dim1=dim1, dim2=dim2)


diagonal_scatter_at: Linear = Linear(
    "diagonal_scatter", _diagonal_scatter, inputs=("self", "src"), dtypes="first", broadcasts=True,
    batch="dims",
    rules={"self": _without_diagonal, "src": _of_diagonal},
)  # fmt: skip


def _fill_diagonal(self: Raw, value: Any, wrap: bool) -> Raw:
    out = arrays.copy(arrays.writable(self))
    arrays.layout.fill_diagonal(out, element(value, self.dtype), wrap)
    return out


def _filled_where(self: Any, value: Any, wrap: bool) -> Any:
    diagonal = _fill_diagonal(arrays.zeros(tuple(self.shape), arrays.bool_), True, wrap)
    return where(diagonal, element(value, raw(self).dtype), self)


fill_diagonal_at: Composite = composite(
    "fill_diagonal", _filled_where, _fill_diagonal, batch="definition",
    rules={"self": lambda g, wrap: fill_diagonal_at(g, value=0, wrap=wrap)},
)  # fmt: skip


def _two_dims(dim1: int, dim2: int, ndim: int) -> tuple[int, int]:
    first, second = one_dim(dim1, ndim), one_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return first, second


@public("torch method")
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Extracts diagonals with respect to two dimensions.

    Args:
        offset: Which diagonal: 0 is the main diagonal, positive numbers are above it, negative ones
            below.
        dim1: The first of the two dimensions.
        dim2: The second of the two dimensions.

    Returns:
        A view of ``input`` without the two dimensions, and with the diagonal as its last dimension.

    Example:
        >>> torch.diagonal(torch.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    first, second = _two_dims(dim1, dim2, len(input.shape))
    return diagonal_at(input, offset=operator.index(offset), dim1=first, dim2=second)


@public("torch method")
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Creates matrices whose diagonals are the last dimension of a tensor.

    Args:
        offset: Which diagonal: 0 is the main diagonal, positive numbers are above it, negative ones
            below.
        dim1: The first dimension of the matrices in the result.
        dim2: The second dimension of the matrices in the result.

    Returns:
        A tensor with one more dimension than ``input``, zero off the diagonals.

    Example:
        >>> torch.diag_embed(torch.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    ndim = len(input.shape)
    first, second = _two_dims(dim1, dim2, ndim + 1)
    size = (input.shape[-1] if ndim else 1) + abs(operator.index(offset))
    shape = list(input.shape[:-1])
    for d in sorted((first, second)):
        shape.insert(d, size)
    return put_diagonal(input, shape=tuple(shape), offset=offset, dim1=first, dim2=second)


@public("torch method", out="same")
def diag(input: Any, diagonal: int = 0) -> Any:
    """Creates a diagonal matrix from a vector, or extracts a diagonal from a matrix.

    Args:
        input: A vector or a matrix.
        diagonal: Which diagonal: 0 is the main diagonal, positive numbers are above it, negative
            ones below.

    Returns:
        A matrix if ``input`` is a vector, and a vector if it is a matrix.

    Example:
        >>> torch.diag(torch.tensor([1, 2]), 1)
        tensor([[0, 1, 0],
                [0, 0, 2],
                [0, 0, 0]])
    """
    ndim = len(input.shape)
    if ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {ndim}D")
    if ndim == 1:
        return diag_embed(input, diagonal)
    return diagonal_copied(input, offset=operator.index(diagonal), dim1=0, dim2=1)


@public("torch method")
def diagflat(input: Any, offset: int = 0) -> Any:
    """Creates a matrix whose diagonal holds all elements of a tensor.

    Args:
        input: A tensor of any shape. It is flattened first.
        offset: Which diagonal: 0 is the main diagonal, positive numbers are above it, negative ones
            below.

    Returns:
        A square matrix, zero off the diagonal.

    Example:
        >>> torch.diagflat(torch.tensor([[1, 2]]))
        tensor([[1, 0],
                [0, 2]])
    """
    flat = linear.view(input.contiguous(), size=(numel(input.shape),))
    return diag_embed(flat, offset)


@public("torch method")
@like(diagonal)
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Writes values to a diagonal of a copy of a tensor.

    Args:
        src: The values, in the shape of ``diagonal(input, offset, dim1, dim2)``.

    Returns:
        A copy of ``input`` with ``src`` on its diagonal.

    Example:
        >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.ones(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    first, second = _two_dims(dim1, dim2, len(input.shape))
    place = diagonal_at(input, offset=operator.index(offset), dim1=first, dim2=second)
    check_src(src, place.shape)
    return diagonal_scatter_at(input, src, offset=offset, dim1=first, dim2=second)


def check_src(src: Any, shape: Any) -> None:
    """Whether ``src`` has the shape of the place that it is to be put in."""
    if tuple(src.shape) != tuple(shape):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)},"
            f" slice size = {list(shape)}"
        )


@public(in_place=True)
def fill_diagonal(input: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Fills the main diagonal with a number.

    Args:
        input: A tensor with at least two dimensions.
        fill_value: The number.
        wrap: Whether the diagonal starts again below the square part of a tall matrix.
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) != 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    return fill_diagonal_at(input, value=fill_value, wrap=wrap)


def _trace_transpose(g: Any, shape: Any) -> Any:
    front, size = tuple(shape[:-2]), min(shape[-2:])
    spread = linear.expand(linear.reshape(g, (*front, 1)), size=(*front, size))
    dims = {"dim1": len(front), "dim2": len(front) + 1}
    return put_diagonal(spread, shape=tuple(shape), offset=0, **dims)


trace_of = declare(
    "trace", arrays.layout.trace, _trace_transpose, dtypes="sum", batch="leading",
    words="Every element of the diagonal gets the gradient of the sum.",
)  # fmt: skip


@public("torch method")
def trace(input: Any) -> Any:
    """Computes the sum of the main diagonal of a matrix.

    Args:
        input: A matrix.

    Returns:
        A tensor without dimensions.

    Example:
        >>> torch.trace(torch.tensor([[1., 2.], [3., 4.]]))
        tensor(5.)
    """
    if len(input.shape) != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {len(input.shape)}")
    kernel("trace", "b")(raw(input))
    return trace_of(input)


# -- triangles -------------------------------------------------------------------------------


def _triangle(
    name: str, word: str, limit: str, keep: Callable[..., Any], shown: str
) -> tuple[Linear, Callable[..., Any]]:
    """The operation and the function ``tril`` or ``triu``."""
    operation: Linear = declare(
        name, lambda self, diagonal: keep(self, diagonal),
        lambda g, diagonal: operation(g, diagonal=diagonal), batch="leading",
        words=f"The {word} triangle of the gradient.",
    )  # fmt: skip

    def triangle(input: Any, diagonal: int = 0) -> Any:
        if not hasattr(diagonal, "__index__"):
            raise TypeError(
                f"{name}(): argument 'diagonal' (position 1) must be int, not "
                f"{type(diagonal).__name__}"
            )
        if len(input.shape) < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return operation(input, diagonal=operator.index(diagonal))

    doc = f"""Keeps the {word} triangle of matrices and sets the other elements to zero.

    Args:
        input: A matrix, or a batch of matrices.
        diagonal: The {limit} diagonal to keep: 0 is the main diagonal, positive numbers are above
            it, negative ones below.

    Example:
        >>> torch.{name}(torch.tensor([[1, 2], [3, 4]]))
        {shown}
    """
    face = public("torch method", in_place=True, out="same")
    return operation, face(named(triangle, name, doc))


lower, tril = _triangle(
    "tril", "lower", "highest", arrays.layout.tril,
    "tensor([[1, 0],\n                [3, 4]])",
)  # fmt: skip
upper, triu = _triangle(
    "triu", "upper", "lowest", arrays.layout.triu,
    "tensor([[1, 2],\n                [0, 4]])",
)  # fmt: skip


@public("linalg.diagonal")
def linalg_diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:  # noqa: N803
    """The diagonals of matrices, as a view.

    Args:
        A: matrices ``(..., m, n)``.
        offset: which diagonal: 0 is the main one, positive ones are above it.
        dim1: dimension of the rows.
        dim2: dimension of the columns.

    Returns:
        The diagonals, as the last dimension.

    Example:
        >>> torch.linalg.diagonal(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([1., 4.])
    """
    return diagonal(A, offset, dim1, dim2)


# -- powers ----------------------------------------------------------------------------------


@public("torch")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803
    """Creates a Vandermonde matrix: the powers of the elements of a vector.

    Args:
        x: A vector.
        N: The number of columns. The default is the length of ``x``.
        increasing: Whether the powers increase from left to right. By default, they decrease.

    Returns:
        A matrix with one row for each element of ``x``.

    Example:
        >>> torch.vander(torch.tensor([2, 3]), 3)
        tensor([[4, 2, 1],
                [9, 3, 1]])
    """
    if N is not None:
        check_int("vander", "N", 2, N)
    if len(x.shape) != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    if N is not None and N < 0:
        raise RuntimeError("N must be non-negative.")
    count = x.shape[0] if N is None else N
    if raw(x).dtype.kind in "biu":
        x = x.to(dtypes.int64)
    if not count:
        return x.new_empty((x.shape[0], 0))
    powers = [zeros_like(x) + 1]
    while len(powers) < count:
        powers.append(x if len(powers) == 1 else powers[-1] * x)
    return slicing.stack(powers if increasing else powers[::-1], 1)


@public("linalg.vander")
def linalg_vander(x: Any, *, N: int | None = None) -> Any:  # noqa: N803
    """Vandermonde matrices: row i holds the powers 0, 1, 2... of ``x[i]``.

    Args:
        x: vectors ``(..., n)``.
        N: number of columns; n by default.

    Returns:
        The matrices, ``(..., n, N)``.

    Example:
        >>> torch.linalg.vander(torch.tensor([1, 2, 3]), N=4)
        tensor([[ 1,  1,  1,  1],
                [ 1,  2,  4,  8],
                [ 1,  3,  9, 27]])
    """
    if raw(x).dtype.name in ("bool", "float16", "bfloat16"):
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{dtypes.type_word(raw(x).dtype)}"
        )
    shape = tuple(x.shape) or (1,)
    count = shape[-1] if N is None else operator.index(N)
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    repeated = reshaping.expand(reshaping.unsqueeze(x, -1), (*shape, count - 1))
    powers = scans.cumprod(repeated, -1)
    return slicing.cat([powers.new_ones((*shape, 1)), powers], -1)
