"""Norms that parametrizations share with the older functions of the same names."""

from __future__ import annotations

from typing import Any

from retrograd import linalg
from retrograd.nn.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from retrograd.ops._dims import one_dim

WHOLE = -1  # in place of a dimension: one norm for the whole tensor


def norm_except_dim(v: Any, dim: int) -> Any:
    """The norm of each slice of a tensor along ``dim``, in a shape that broadcasts with the tensor.
    """
    if dim == WHOLE:
        return linalg.vector_norm(v)
    kept_dim = one_dim(dim, v.ndim)
    others = [d for d in range(v.ndim) if d != kept_dim]
    return linalg.vector_norm(v, dim=others, keepdim=True) if others else v.abs()


def normalized(v: Any, g: Any, dim: int) -> Any:
    """A tensor whose slices along ``dim`` have the directions of ``v`` and the norms ``g``."""
    return v * (g / norm_except_dim(v, dim))


def output_dim(module: Any, dim: int | None) -> int:
    """``dim``, by default the dimension of a weight that corresponds to outputs."""
    if dim is not None:
        return dim
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


def as_matrix(weight: Any, dim: int) -> Any:
    """A weight as a matrix with a row for each index of ``dim``."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.shape[0], -1)
