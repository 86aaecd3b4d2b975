"""Arguments of Fourier transforms: dimensions, sizes and norms, checked and normalized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.arrays import dtypes
from retrograd.ops import linear as moving
from retrograd.ops._dims import is_integer, one_dim
from retrograd.ops._operation import TensorLike, raw
from retrograd.ops.copies import to_dtype
from retrograd.ops.networks.padding import constant_pad_nd

Size = int | None
Sizes = int | Sequence[int] | None
Norm = str | None

# -- arguments made plain --------------------------------------------------------------------


def checked_input(input: Any, name: str) -> Any:
    if not isinstance(input, TensorLike):
        raise TypeError(
            f"fft_{name}(): argument 'input' (position 1) must be Tensor, not "
            f"{type(input).__name__}"
        )
    return input


def promoted(input: Any, to_complex: bool = False) -> Any:
    """``input`` in a dtype that there are transforms for."""
    have = raw(input).dtype
    wanted = have if have.kind in dtypes.INEXACT else dtypes.default_float()
    if wanted.itemsize == 2:
        raise RuntimeError(f"Unsupported dtype {dtypes.type_word(wanted)}")
    if to_complex:
        wanted = dtypes.promote(wanted, dtypes.complex64.numpy)
    return input if have == wanted else to_dtype(input, dtype=wanted)


def normalization_of(norm: Norm, forward: bool) -> int:
    if norm == "ortho":
        return 1
    if norm is None or norm == "backward":
        return 0 if forward else 2
    if norm == "forward":
        return 2 if forward else 0
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def one_axis(dim: int, ndim: int) -> int:
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return one_dim(dim, ndim)


def check_count(n: int) -> None:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def axes_and_sizes(
    input: Any, s: Sizes, dim: Sizes
) -> tuple[tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """The dimensions to transform, and the number of points along each."""
    shape, ndim = tuple(input.shape), len(input.shape)
    s = (s,) if is_integer(s) else s
    dims = (dim,) if is_integer(dim) else dim
    axes: tuple[int, ...] | None = None
    if dims is not None:
        axes = tuple(one_axis(d, ndim) for d in dims)
        if len(set(axes)) != len(axes):
            raise RuntimeError("FFT dims must be unique")
    if s is None:
        axes = tuple(range(ndim)) if axes is None else axes
        sizes = tuple(shape[d] for d in axes)
    else:
        if axes is not None and len(axes) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {ndim} dimensions."
            )
        axes = tuple(range(ndim - len(s), ndim)) if axes is None else axes
        sizes = tuple(shape[d] if n == -1 else n for n, d in zip(s, axes, strict=True))
    for n in sizes:
        check_count(n)
    return axes, sizes


def check_axes(name: str, axes: tuple[int, ...]) -> None:
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")


def resized(x: Any, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """``x`` cut off or filled up with zeros at the end, to some sizes along some dimensions."""
    shape = list(x.shape)
    for d, n in zip(axes, sizes, strict=True):
        if shape[d] > n:
            x = moving.slice_(x, where=(*(slice(None),) * d, slice(0, n)))
            shape[d] = n
    wanted = list(shape)
    for d, n in zip(axes, sizes, strict=True):
        wanted[d] = n
    if wanted == shape:
        return x
    added = [n for d in reversed(range(len(shape))) for n in (0, wanted[d] - shape[d])]
    return constant_pad_nd(x, pad=tuple(added), value=0)
