# ruff: noqa: N803 - matrices are called as in PyTorch, in capitals
"""Norms of vectors and matrices, distances and renormalization."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.ops import linear
from retrograd.ops._arguments import check_tensor
from retrograd.ops._dims import Dims, broadcast, is_integer, many_dims, one_dim
from retrograd.ops._operation import composite, raw, reduction
from retrograd.ops._public import public
from retrograd.ops._refusals import refuses
from retrograd.ops.algebra import svd
from retrograd.ops.algebra._matrix import check_float
from retrograd.ops.comparisons import eq, gt, isnan, logical_or
from retrograd.ops.copies import conj, real, to_dtype, zeros_like
from retrograd.ops.elementwise import pow_scalar, reciprocal
from retrograd.ops.piecewise import abs as absolute
from retrograd.ops.piecewise import sgn, where
from retrograd.ops.reductions import basic as reductions
from retrograd.ops.selecting import amax_dim, amin_dim

# -- the norm of vectors ---------------------------------------------------------------------


def norm_rule(g: Any, self: Any, result: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    """The derivative of a norm; none where there is a kink at zero."""
    shape = tuple(self.shape)
    dims = tuple(range(len(shape))) if dim is None else dim
    if ord == 0:
        return None
    if shape and not keepdim:
        g, result = (linear.kept(x, shape, dims) for x in (g, result))
    if ord == 1:
        return g * sgn(self)
    if ord == 2:
        if arrays.is_raw(self):
            return arrays.statistics.scaled_ratio(self, result, g)
        return g * _unless(eq(result, 0), self / result)
    if ord in (inf, -inf):
        return sgn(self) * _shared(g, self, ord, dims)
    if ord < 1:
        derivative = sgn(self) * _unless(eq(self, 0), pow_scalar(absolute(self), exponent=ord - 1))
        return derivative * g * pow_scalar(result, exponent=1 - ord)
    if ord < 2:
        derivative = sgn(self) * pow_scalar(absolute(self), exponent=ord - 1)
    else:
        derivative = self * pow_scalar(absolute(self), exponent=ord - 2)
    return derivative * _unless(eq(result, 0), g / pow_scalar(result, exponent=ord - 1))


def _unless(zero: Any, x: Any) -> Any:
    return where(zero, zeros_like(x), x)


def _shared(g: Any, self: Any, ord: float, dims: tuple[int, ...]) -> Any:
    """The gradient of an extreme, shared evenly among the elements that reach it. The extreme is
    looked for again: sizes that are computed otherwise may differ from it in the last digit."""
    sizes = absolute(raw(self))
    extreme = (amax_dim if ord > 0 else amin_dim)(sizes, dim=dims, keepdim=True)
    chosen, dtype = logical_or(eq(sizes, extreme), isnan(sizes)), raw(sizes).dtype
    count = linear.sum_dim(chosen, dim=dims, keepdim=True)
    return (g / to_dtype(count, dtype=dtype)) * to_dtype(chosen, dtype=dtype)


vector_norm_op = reduction(
    "linalg_vector_norm",
    lambda self, ord, dim, keepdim: arrays.statistics.vector_norm(self, ord, dim, keepdim),
    norm_rule, adjoint=True, batch="dims",
    words="Each element gets the gradient times its share of the norm: for the 2-norm, the input "
          "divided by its norm.",
)  # fmt: skip


def _check_floating(name: str, x: Any) -> None:
    words = f"{name}: Expected a floating point or complex tensor as input. Got {{}}"
    refuses("biu", words, RuntimeError)(raw(x))


def _in_dtype(name: str, x: Any, dtype: Any) -> Any:
    """``x`` in the dtype that a norm is asked for in, if it is a wider one of its kind."""
    if dtype is None:
        return x
    have, want = raw(x).dtype, dtype.numpy
    asked, given = dtypes.type_word(want), dtypes.type_word(have)
    if want.kind not in dtypes.INEXACT:
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {asked}")
    if (want.kind == "c") != (have.kind == "c") or have.kind not in dtypes.INEXACT:
        kind = "complex" if have.kind == "c" else "real"
        raise RuntimeError(f"{name}: dtype should be {kind} for {kind} inputs, but got {asked}")
    if dtypes.promote(have, want) != want:
        raise RuntimeError(
            f"{name}: the dtype of the input ({given}) should be convertible without narrowing to "
            f"the specified dtype ({asked})"
        )
    return reductions.in_dtype(x, dtype)


@public("linalg", out="same")
def vector_norm(
    x: Any, ord: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The norm of vectors: ``sum(abs(x)**ord)**(1 / ord)``.

    Args:
        x: a tensor.
        ord: order of the norm. Infinity gives the largest absolute value, minus infinity the
            smallest, and 0 the number of elements that are not zero.
        dim: dimension or dimensions that hold the elements of the vectors; all by default.
        dtype: dtype to compute in.

    Returns:
        The norms, real.

    Example:
        >>> torch.linalg.vector_norm(torch.tensor([[3.0, 4.0], [6.0, 8.0]]), dim=1)
        tensor([ 5., 10.])
    """
    name = "linalg.vector_norm"
    if isinstance(ord, str) or ord is None:
        raise TypeError(
            "linalg_vector_norm(): argument 'ord' (position 2) must be Number, not "
            f"{type(ord).__name__}"
        )
    _check_floating(name, x)
    if isinstance(ord, complex):
        raise RuntimeError(f"{name}: Expected a non-complex scalar as the order of norm.")
    x = _in_dtype(name, x, dtype)
    nothing = dim is None or (not is_integer(dim) and not len(dim))
    dims = None if nothing else many_dims(dim, len(x.shape))
    if (ord < 0 or ord == inf) and 0 in x.shape:
        _check_identity(ord, x.shape, dims)
    return vector_norm_op(x, ord=ord, dim=dims, keepdim=bool(keepdim))


def _check_identity(ord: float, shape: Sequence[int], dims: tuple[int, ...] | None) -> None:
    """Refuse the extreme of nothing."""
    cannot = f"linalg.vector_norm cannot compute the {ord:g} norm on"
    if dims is None:
        raise RuntimeError(
            f"{cannot} an empty tensor because the operation does not have an identity"
        )
    for d in dims:
        if shape[d] == 0:
            raise RuntimeError(
                f"{cannot} the dimension {d}because this dimension is empty and the operation does "
                "not have an identity"
            )


# -- the norm of matrices --------------------------------------------------------------------


def _matrix_dims(A: Any, dim: Sequence[int], name: str) -> tuple[int, int]:
    if len(A.shape) < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    _check_floating(name, A)
    if len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    rows, columns = (one_dim(d, len(A.shape)) for d in dim)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({rows}, {columns})")
    return rows, columns


@public("linalg", out="same")
def matrix_norm(
    input: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The norm of matrices.

    Args:
        input: matrices ``(..., m, n)``.
        ord: order of the norm: "fro" (root of the sum of squares), "nuc" (sum of the singular
            values), 2 or -2 (largest or smallest singular value), 1 or -1 (largest or smallest sum
            of a column), infinity or minus infinity (largest or smallest sum of a row).
        dim: the two dimensions of the matrices.
        dtype: dtype to compute in.

    Returns:
        The norms, real.

    Example:
        >>> torch.linalg.matrix_norm(torch.tensor([[1.0, -2.0], [3.0, 4.0]]), ord=1)
        tensor(6.)
    """
    name = "linalg.matrix_norm"
    if isinstance(ord, str) and ord not in ("fro", "nuc"):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    if is_integer(dim):
        raise TypeError(
            "linalg_matrix_norm() received an invalid combination of arguments: dim must be a tuple"
        )
    rows, columns = _matrix_dims(input, dim, name)
    if not isinstance(ord, str) and abs(ord) not in (1, 2, inf):
        raise RuntimeError(f"{name}: Order {ord:g} not supported.")
    input = _in_dtype(name, input, dtype)
    if ord == "fro":
        return vector_norm(input, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        check_float(name, input, low_precision=False)
    extreme = reductions.amin if not isinstance(ord, str) and ord < 0 else reductions.amax
    reduced = (rows, columns) if ord == 2 else (rows,) if ord == inf else (columns,)
    if ord in (1, 2, inf) and 0 in [input.shape[d] for d in reduced]:
        return _no_norms(input, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        reduce = reductions.sum if ord == "nuc" else extreme
        return _of_singular_values(input, (rows, columns), reduce, keepdim)
    if abs(ord) == inf:
        rows, columns = columns, rows
    if not keepdim and columns > rows:
        columns -= 1
    return extreme(vector_norm(input, 1.0, rows, keepdim), columns, keepdim)


def _no_norms(A: Any, dims: tuple[int, int], keepdim: bool) -> Any:
    """The norms of matrices without elements."""
    shape = [1 if d in dims else n for d, n in enumerate(A.shape) if keepdim or d not in dims]
    return A.detach().new_zeros(shape, dtype=A.dtype.to_real())


def _of_singular_values(A: Any, dims: tuple[int, int], reduce: Any, keepdim: bool) -> Any:
    order = (*(d for d in range(len(A.shape)) if d not in dims), *dims)
    values = svd.svdvals(linear.permute(A, dims=order))
    result = reduce(values, -1, keepdim)
    if not keepdim:
        return result
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    return linear.permute(linear.unsqueeze(result, dim=len(order) - 1), dims=back)


@public("torch method", out="same")
def norm(
    input: Any, p: Any = "fro", dim: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """The vector norm of all elements or along dimensions, or a matrix norm.

    Args:
        p: order of the vector norm, or "fro" for the Frobenius norm, or "nuc" for the nuclear
            norm of matrices.
        dim: dimension or dimensions to reduce; all by default.
        dtype: dtype to compute in.

    Example:
        >>> x = torch.tensor([[3., 0.], [4., 1.]])
        >>> torch.norm(x, dim=0), torch.norm(x, torch.inf)
        (tensor([5., 1.]), tensor(4.))
    """
    dims = [dim] if is_integer(dim) else dim
    if not isinstance(p, str):
        return vector_norm(input, 2.0 if p is None else p, dims, keepdim, dtype=dtype)
    if p == "fro" and (dims is None or len(dims) <= 2):
        return vector_norm(input, 2, dims, keepdim, dtype=dtype)
    dims = list(range(len(input.shape))) if dims is None else dims
    return matrix_norm(input, p, dims, keepdim, dtype=dtype)


@public("linalg.norm", out="same")
def linalg_norm(
    input: Any, ord: Any = None, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The norm of vectors or matrices.

    Args:
        ord: order of the norm: see ``vector_norm`` and ``matrix_norm``. None is the root of the sum
            of squares, over all elements if ``dim`` is None.
        dim: one dimension for vectors, two for matrices. By default, with ``ord``, a tensor of one
            dimension is a vector and one of two is a matrix.
        dtype: dtype to compute in.

    Returns:
        The norms, real.

    Example:
        >>> torch.linalg.norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor(5.)
    """
    dims = (dim,) if is_integer(dim) else dim
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
        )
    if dims is None and ord is not None and len(input.shape) not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{len(input.shape)}D."
        )
    if isinstance(ord, str):
        return matrix_norm(input, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    of_matrix = len(dims) == 2 if dims is not None else len(input.shape) == 2
    if ord is not None and of_matrix:
        return matrix_norm(input, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(input, 2.0 if ord is None else ord, dims, keepdim, dtype=dtype)


# -- distances -------------------------------------------------------------------------------


def _dist_rule(g: Any, self: Any, other: Any, result: Any, p: float) -> Any:
    return norm_rule(g, self - other, result, p, None, False)


def _dist_other_rule(g: Any, self: Any, other: Any, result: Any, p: float) -> Any:
    derivative = norm_rule(g, self - other, result, p, None, False)
    return None if derivative is None else -derivative


def _check_dist(self: Any, other: Any, p: float) -> None:
    words = "norm(): input dtype should be either floating point or complex. Got {} instead."
    refuses("biu", words, RuntimeError)(self, other)
    shape = broadcast(self.shape, other.shape)
    if (p < 0 or p == inf) and 0 in shape:
        _check_identity(p, shape, None)


dist_op = composite(
    "dist", lambda self, other, p: vector_norm_op(self - other, ord=p, dim=None, keepdim=False),
    lambda self, other, p: arrays.statistics.vector_norm(self - other, p, None, False),
    inputs=("self", "other"), rules={"self": _dist_rule, "other": _dist_other_rule},
    adjoint=True, dtypes="promote", broadcasts=True, check=_check_dist,
)  # fmt: skip


@public("torch method")
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The ``p``-norm of the difference ``input - other``.

    Args:
        input: the first tensor.
        other: the second tensor, broadcast with ``input``.
        p: order of the norm.

    Returns:
        A tensor without dimensions.

    Example:
        >>> torch.dist(torch.tensor([1., 2.]), torch.tensor([4., 6.]))
        tensor(5.)
    """
    check_tensor("dist", "other", 2, other)
    if isinstance(p, str):
        raise TypeError("dist(): argument 'p' (position 3) must be Number, not str")
    return dist_op(input, other, p=p)


# -- renormalization -------------------------------------------------------------------------

_MARGIN = 1e-7  # so that the norm stays below the greatest one allowed, rounding included


def _others(ndim: int, dim: int) -> tuple[int, ...]:
    return tuple(d for d in range(ndim) if d != dim)


def _renorm_rule(g: Any, self: Any, p: float, dim: int, maxnorm: float) -> Any:
    """Where a slice was scaled, so is its gradient, less what only changes the norm."""
    others = _others(len(self.shape), dim)
    size = vector_norm_op(self, ord=p, dim=others, keepdim=True)
    along = conj(self) * g if raw(self).dtype.kind == "c" else self * g
    along = real(along) if raw(along).dtype.kind == "c" else along
    share = linear.sum_dim(along, dim=others, keepdim=True)
    derivative = norm_rule(share, self, size, p, others, True)
    inverse = reciprocal(size + _MARGIN)
    scaled = maxnorm * inverse * (g - inverse * derivative)
    return where(gt(raw(size), maxnorm), scaled, g)


def _renorm_definition(self: Any, p: float, dim: int, maxnorm: float) -> Any:
    size = vector_norm_op(self, ord=p, dim=_others(len(self.shape), dim), keepdim=True)
    longer = gt(raw(size), maxnorm)
    # What is not scaled is not divided by either: the gradient of NaN would be NaN elsewhere, too.
    size = where(longer, size, zeros_like(size) + 1)
    return where(longer, self * (maxnorm * reciprocal(size + _MARGIN)), self)


renorm_op = composite(
    "renorm", _renorm_definition,
    lambda self, p, dim, maxnorm:
        arrays.statistics.renorm(self, p, _others(self.ndim, dim), maxnorm, _MARGIN),
    rules={"self": _renorm_rule}, adjoint=True,
)  # fmt: skip


@public("torch method", in_place=True, out="same")
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """A tensor whose slices along a dimension have a norm of at most ``maxnorm``.

    Slices with a larger norm are scaled down to it; the others are unchanged.

    Args:
        input: the input tensor, of at least two dimensions.
        p: order of the norm, positive.
        dim: dimension to take the slices along.
        maxnorm: largest norm of a slice.

    Returns:
        A tensor of the same shape as ``input``.

    Example:
        >>> torch.renorm(torch.tensor([[3., 4.], [0.3, 0.4]]), 2, 0, 1.)
        tensor([[0.6000, 0.8000],
                [0.3000, 0.4000]])
    """
    if isinstance(p, complex):
        raise RuntimeError("renorm: p must be real-valued")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if input.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions"
        )
    _check_floating("linalg.vector_norm", input)
    return renorm_op(input, p=p, dim=one_dim(dim, input.ndim), maxnorm=maxnorm)
