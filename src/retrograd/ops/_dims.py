"""Dimensions as users pass them, normalized: non-negative, in range, without repeats."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # in typing from Python 3.13 on

Dims = int | Sequence[int] | None


def is_integer(x: Any) -> TypeIs[int]:
    """Whether ``x`` is one integer, not several: Python's, NumPy's, or what stands for one, as a
    tensor without dimensions does."""
    return isinstance(x, int) or (hasattr(x, "__index__") and not getattr(x, "ndim", 0))


def one_dim(dim: SupportsIndex, ndim: int) -> int:
    """``dim`` counted from the front, or PyTorch's IndexError."""
    if type(dim) is int and 0 <= dim < ndim:
        return dim
    dim = operator.index(dim)
    extent = max(ndim, 1)  # a zero-dimensional tensor is indexed as if it had one dimension
    if not -extent <= dim < extent:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-extent}, {extent - 1}], "
            f"but got {dim})"
        )
    return dim + extent if dim < 0 else dim


def many_dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The dimensions that ``dim`` names; None and an empty sequence name all of them."""
    if type(dim) is int and 0 <= dim < ndim:
        return (dim,)
    if dim is None or (not is_integer(dim) and len(dim) == 0):
        return tuple(range(ndim))
    dims = (dim,) if is_integer(dim) else tuple(dim)
    plain = tuple(one_dim(d, ndim) for d in dims)
    for d in plain:
        if plain.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(d for d in plain if d < ndim)


def as_shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """``f(2, 3)`` and ``f((2, 3))`` alike."""
    if len(sizes) == 1 and not hasattr(sizes[0], "__index__"):
        sizes = tuple(sizes[0])
    return tuple(operator.index(s) for s in sizes)


def sizes_of(function: str, argument: str, position: int, value: Any) -> tuple[int, ...]:
    """Sizes given as one integer or as several, or PyTorch's TypeError."""
    if is_integer(value):
        return (operator.index(value),)
    words = f"{function}(): argument '{argument}' (position {position}) must be tuple of ints, "
    if isinstance(value, (str, float, dict, set)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{words}not {type(value).__name__}")
    values = tuple(value)
    for i, size in enumerate(values):
        if not is_integer(size):
            raise TypeError(f"{words}but found element of type {type(size).__name__} at pos {i}")
    return tuple(operator.index(size) for size in values)


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to, or PyTorch's RuntimeError."""
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    for d in reversed(range(n)):
        if a[d] != b[d] and a[d] != 1 and b[d] != 1:
            raise RuntimeError(
                f"The size of tensor a ({a[d]}) must match the size of tensor b ({b[d]}) "
                f"at non-singleton dimension {d}"
            )
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


def numel(shape: Sequence[int]) -> int:
    n = 1
    for s in shape:
        n *= s
    return n


def infer(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """``shape`` with its one -1 filled in so that it holds ``count`` elements."""
    unknown = shape.count(-1)
    if unknown > 1:
        raise RuntimeError("only one dimension can be inferred")
    for d, s in enumerate(shape):
        if s < -1:
            raise RuntimeError(f"invalid shape dimension {s} at index {d} of shape {list(shape)}")
    known = numel([s for s in shape if s != -1])
    if unknown and known == count == 0:
        raise RuntimeError(
            f"cannot reshape tensor of {count} elements into shape {list(shape)} because the "
            "unspecified dimension size -1 can be any value and is ambiguous"
        )
    if (known == 0 or count % known) if unknown else known != count:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
    return tuple(count // known if s == -1 else s for s in shape)
