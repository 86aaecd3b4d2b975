"""Helpers of rules and checks of linear algebra, for arrays and Tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.ops import linear
from retrograd.ops._lifted import TensorLike, bare, checked_by_line
from retrograd.ops._operation import raw
from retrograd.ops.copies import conj, zeros_like
from retrograd.ops.copies import is_complex as is_complex
from retrograd.ops.linear import transposed as transposed
from retrograd.ops.piecewise import where

type_word = arrays.dtypes.type_word


# -- parts of matrices -----------------------------------------------------------------------


def adjoint(x: Any) -> Any:
    """The matrices of ``x`` transposed and conjugated."""
    return conj(transposed(x)) if is_complex(x) else transposed(x)


def conj_of(x: Any) -> Any:
    """The conjugate of a value that may be complex."""
    return conj(x) if is_complex(x) else x


def real_dtype(x: Any) -> Any:
    """The real dtype that corresponds to the dtype of ``x``."""
    return arrays.real(arrays.zeros((), raw(x).dtype)).dtype


def lower(x: Any, k: int = 0) -> Any:
    """``x`` with zeros above its ``k``-th diagonal."""
    if arrays.is_raw(x):
        return arrays.linalg.tril(x, k)
    return where(arrays.linalg.tril(_all_true(x), k), x, zeros_like(x))


def upper(x: Any, k: int = 0) -> Any:
    """``x`` with zeros below its ``k``-th diagonal."""
    if arrays.is_raw(x):
        return arrays.linalg.triu(x, k)
    return where(arrays.linalg.triu(_all_true(x), k), x, zeros_like(x))


def _all_true(x: Any) -> Any:
    return arrays.ones(tuple(x.shape[-2:]), arrays.bool_)


def diagonal(x: Any) -> Any:
    """The diagonals of matrices."""
    if arrays.is_raw(x):
        return arrays.linalg.diagonal(x)
    indices = arrays.arange(min(x.shape[-2:]))
    return linear.index(x, where=(*(slice(None),) * (len(x.shape) - 2), indices, indices))


def on_diagonal(x: Any) -> Any:
    """Matrices with ``x`` on their diagonals and zeros elsewhere."""
    eye = arrays.eye(x.shape[-1], dtype=arrays.bool_)
    return where(eye, as_column(x), _zero(x))


def off_diagonal(x: Any) -> Any:
    """``x`` with zeros on its diagonal."""
    eye = arrays.eye(x.shape[-1], dtype=arrays.bool_)
    return where(eye, _zero(x), x)


def _zero(x: Any) -> Any:
    return arrays.zeros((), raw(x).dtype)


def halved_diagonal(x: Any) -> Any:
    """``x`` with half of its diagonal."""
    dtype = real_dtype(x)
    return x * arrays.cast(arrays.eye(x.shape[-1], dtype=dtype) * -0.5 + 1, dtype)


def columns_of(x: Any, start: int, stop: int) -> Any:
    """Some columns of matrices."""
    return linear.slice_(x, where=(..., slice(start, stop)))


def rows_of(x: Any, start: int, stop: int) -> Any:
    """Some rows of matrices."""
    return linear.slice_(x, where=(..., slice(start, stop), slice(None)))


def as_column(x: Any) -> Any:
    """Vectors as matrices with one column, for example to scale the rows of a matrix."""
    return linear.reshape(x, (*x.shape, 1))


def as_row(x: Any) -> Any:
    """Vectors as matrices with one row, for example to scale the columns of a matrix."""
    return linear.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def as_vectors(x: Any) -> Any:
    """Matrices of one column as vectors."""
    return linear.reshape(x, tuple(x.shape[:-1]))


def total(*parts: Any) -> Any:
    """The sum of the terms that are not None."""
    result = None
    for part in parts:
        if part is not None:
            result = part if result is None else result + part
    return result


# -- refusals --------------------------------------------------------------------------------


def check_tensors(function: str, **given: Any) -> None:
    """TypeError for an argument that is no tensor."""
    for position, (name, x) in enumerate(given.items()):
        if not isinstance(x, TensorLike) and not hasattr(x, "shape"):
            raise TypeError(
                f"{function}(): argument '{name}' (position {position + 1}) must be Tensor, not "
                f"{type(x).__name__}"
            )


def check_matrices(function: str, x: Any, name: str = "A") -> None:
    if len(x.shape) < 2:
        raise RuntimeError(f"{function}: The input tensor {name} must have at least 2 dimensions.")


def check_square(function: str, x: Any, name: str = "A") -> None:
    check_matrices(function, x, name)
    rows, columns = x.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{function}: {name} must be batches of square matrices, but they are {rows} by "
            f"{columns} matrices"
        )


def check_float(function: str, x: Any, low_precision: bool = True) -> None:
    """Refuse integers and, unless ``low_precision``, half floats."""
    dtype = raw(x).dtype
    if dtype.kind not in dtypes.INEXACT:
        raise RuntimeError(
            f"{function}: Expected a floating point or complex tensor as input. "
            f"Got {type_word(dtype)}"
        )
    if not low_precision and dtype.itemsize == 2:
        raise RuntimeError(
            f"{function}: Low precision dtypes not supported. Got {type_word(dtype)}"
        )


def check_kernel(kernel: str, x: Any) -> None:
    """Refuse what LAPACK has no numbers for."""
    dtype = raw(x).dtype
    if dtype.kind not in "fc" or dtype.name == "float16":
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{type_word(dtype)}'")


def check_same_dtype(function: str, a: tuple[str, Any], b: tuple[str, Any], end: str = "") -> None:
    (first, x), (second, y) = a, b
    have, want = raw(x).dtype, raw(y).dtype
    if have != want:
        raise RuntimeError(
            f"{function}Expected {first} and {second} to have the same dtype, but found {first} "
            f"of type {type_word(have)} and {second} of type {type_word(want)} instead{end}"
        )


def refuse(check: Callable[..., None], function: str, info: Any, matrices: Any) -> None:
    """Raise what a check raises for the ``info`` of a factorization, which is zero if it worked."""
    sides = matrices.shape[-2:]
    if not checked_by_line(check, function, info, (*info.shape, *sides)):
        known = bare(info, looks=False)
        check(function, known, (*known.shape, *sides))
