"""Lowerings of views and of operations that rearrange elements."""

from __future__ import annotations

from itertools import product
from typing import Any

import jax.numpy as jnp
from jax import lax

from retrograd import arrays
from retrograd.compiler._program import Line, Var
from retrograd.compiler.xla._boxes import two_positions
from retrograd.compiler.xla._table import lowering, lowerings

np = arrays.programs.numpy

# -- views -----------------------------------------------------------------------------------


@lowering(
    "view", "reshape_alias", "unsafe_view", "unsqueeze", "squeeze", "squeeze_dim", "squeeze_dims",
    "unsafe_squeeze", "alias",
)  # fmt: skip
def _reshaped(x: Any, line: Line, **options: Any) -> Any:
    return jnp.reshape(x, line.outputs[0].shape)


@lowering("expand")
def _expand(x: Any, line: Line, size: Any) -> Any:
    return jnp.broadcast_to(x, line.outputs[0].shape)


@lowering("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")
def _split(x: Any, sizes: tuple[int, ...], dim: int) -> list[Any]:
    ends = np.cumsum(sizes).tolist()
    starts = [0, *ends[:-1]]
    return [lax.slice_in_dim(x, a, b, axis=dim) for a, b in zip(starts, ends, strict=True)]


@lowering("unbind")
def _unbind(x: Any, dim: int) -> list[Any]:
    return [lax.index_in_dim(x, i, dim, keepdims=False) for i in range(x.shape[dim])]


@lowering("slice", "narrow_copy")
def _slice(x: Any, where: tuple[Any, ...]) -> Any:
    return x[where]


@lowering("view_as_real")
def _view_as_real(x: Any) -> Any:
    return jnp.stack([x.real, x.imag], -1)


@lowering("view_as_complex")
def _view_as_complex(x: Any) -> Any:
    return lax.complex(x[..., 0], x[..., 1])


@lowering("view_dtype")
def _view_dtype(x: Any, dtype: Any, line: Line) -> Any:
    return reinterpreted(x, np.dtype(dtype)).reshape(line.outputs[0].shape)


def reinterpreted(x: Any, dtype: Any) -> Any:
    """The bits of an array as elements of another dtype, in one dimension if there are more or
    fewer of them."""
    if x.dtype == dtype:
        return x
    x = x.reshape(-1)
    if x.dtype.kind == "c":  # XLA has no bits of complex numbers and truth values
        return reinterpreted(_view_as_real(x), dtype)
    if x.dtype.kind == "b":
        return reinterpreted(x.astype("uint8"), dtype)
    if dtype.kind == "c":
        parts = reinterpreted(x, np.dtype(f"f{dtype.itemsize // 2}"))
        return _view_as_complex(parts.reshape(-1, 2))
    if dtype.kind == "b":
        return reinterpreted(x, np.dtype("uint8")).astype(bool)
    if dtype.itemsize > x.dtype.itemsize:
        x = x.reshape(-1, dtype.itemsize // x.dtype.itemsize)
    return lax.bitcast_convert_type(x, dtype).reshape(-1)


lowerings(
    permute=lambda x, dims: jnp.transpose(x, dims),
    transpose=lambda x, dim0, dim1: jnp.swapaxes(x, dim0, dim1) if x.ndim else x,
    unsafe_transpose=lambda x, dim0, dim1: jnp.swapaxes(x, dim0, dim1),
    t=lambda x: jnp.transpose(x),
    select=lambda x, dim, index: lax.index_in_dim(x, index, dim, keepdims=False),
)

# -- joining and repeating -------------------------------------------------------------------


@lowering("cat")
def _cat(tensors: Any, dim: int) -> Any:
    return jnp.concatenate([x for x in tensors if x.shape != (0,)] or tensors, dim)


@lowering("block_diag")
def _block_diag(tensors: Any, line: Line) -> Any:
    out = jnp.zeros(line.outputs[0].shape, line.outputs[0].dtype)
    row = column = 0
    for x in tensors:
        block = x.reshape((1,) * (2 - x.ndim) + x.shape)
        m, n = block.shape[-2:]
        out = out.at[..., row : row + m, column : column + n].set(block)
        row, column = row + m, column + n
    return out


lowerings(
    stack=lambda tensors, dim: jnp.stack(tensors, dim),
    flip=lambda x, dims: jnp.flip(x, dims),
    rot90=lambda x, k, dims: jnp.rot90(x, k, dims),
    repeat=lambda x, repeats: jnp.tile(x, repeats),
)


@lowering("roll")
def _roll(x: Any, shifts: Any, dims: Any) -> Any:
    if not dims:
        return jnp.roll(x.reshape(-1), shifts).reshape(x.shape)
    return jnp.roll(x, shifts, dims) if x.ndim else x


# -- rearranged elements ---------------------------------------------------------------------
#
# The mapping from elements of the result to elements of the input depends on shapes alone. It is
# computed by applying the operation's kernel to an array of flat indices.


def _numbers(shape: tuple[int, ...]) -> Any:
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


@lowering("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "unfold", "frames")
def _rearranged(x: Any, line: Line, **options: Any) -> Any:
    which = line.operation.forward(_numbers(x.shape), **options)
    return x.reshape(-1)[jnp.asarray(which)]


@lowering("as_strided")
def _as_strided(x: Any, size: Any, stride: Any, start: int, own: Any, line: Line) -> Any:
    source = line.args[0]
    assert isinstance(source, Var)
    step = int(source.dtype.itemsize)
    # The position in memory of each element of the input, and the inverse mapping.
    reach = sum((n - 1) * (s // step) for n, s in zip(source.shape, source.strides, strict=True))
    held = np.full(max(reach, 0) + 1, -1)
    positions = np.zeros(source.shape, np.int64)
    for d, (n, s) in enumerate(zip(source.shape, source.strides, strict=True)):
        positions += (np.arange(n) * (s // step)).reshape(-1, *(1,) * (len(source.shape) - d - 1))
    held[positions.reshape(-1)] = np.arange(positions.size)
    wanted = np.full(tuple(size), start)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        wanted += (np.arange(n) * s).reshape(-1, *(1,) * (len(size) - d - 1))
    if wanted.size and (wanted.max() >= held.size or (held[wanted] < 0).any()):
        raise NotImplementedError("as_strided() of memory outside of its input")
    if not wanted.size:
        return jnp.zeros(wanted.shape, x.dtype)
    return x.reshape(-1)[jnp.asarray(held[wanted])]


def _added_up(x: Any, which: Any, shape: tuple[int, ...]) -> Any:
    """The transpose of a rearrangement: elements added at their flat indices."""
    count = int(np.prod(shape, dtype=np.int64))
    flat = jnp.zeros(count, x.dtype).at[jnp.asarray(which.reshape(-1))].add(x.reshape(-1))
    return flat.reshape(shape)


@lowering("add_windows")
def _add_windows(x: Any, shape: Any, dimension: int, size: int, step: int) -> Any:
    which = arrays.layout.unfold(_numbers(shape), dimension, size, step)
    return _added_up(x, which, tuple(shape))


@lowering("overlap_add")
def _overlap_add(x: Any, length: int, step: int) -> Any:
    *batch, count, size = x.shape
    shape = (*batch, length)
    if size > length or not count:
        return jnp.zeros(shape, x.dtype)
    which = arrays.fourier.frames(_numbers(shape), size, step)[..., :count, :]
    return _added_up(x, np.array(which), shape)


# -- diagonals and triangles -----------------------------------------------------------------


def _diagonal(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    return jnp.diagonal(x, offset, dim1, dim2)


def _on_diagonal(x: Any, values: Any, offset: int, dim1: int, dim2: int) -> Any:
    dim1, dim2 = dim1 % x.ndim, dim2 % x.ndim
    moved = jnp.moveaxis(x, (dim1, dim2), (-2, -1))
    n = jnp.diagonal(moved, offset, -2, -1).shape[-1]
    rows = two_positions(np.arange(n) + max(-offset, 0), moved.shape[-2])
    columns = two_positions(np.arange(n) + max(offset, 0), moved.shape[-1])
    return jnp.moveaxis(moved.at[..., rows, columns].set(values), (-2, -1), (dim1, dim2))


@lowering("diag_embed")
def _diag_embed(x: Any, shape: Any, offset: int, dim1: int, dim2: int) -> Any:
    return _on_diagonal(jnp.zeros(shape, x.dtype), x, offset, dim1, dim2)


lowerings(
    diagonal=_diagonal,
    diagonal_copy=_diagonal,
    diagonal_scatter=lambda x, src, offset, dim1, dim2: _on_diagonal(x, src, offset, dim1, dim2),
    trace=lambda x: jnp.trace(x, axis1=-2, axis2=-1),
    tril=lambda x, diagonal: jnp.tril(x, diagonal),
    triu=lambda x, diagonal: jnp.triu(x, diagonal),
)

# -- on a mesh of devices --------------------------------------------------------------------


@lowering("redistribute")
def _redistributed(x: Any, mesh: Any, placements: Any, source: Any, again: bool) -> Any:
    x = lax.optimization_barrier(x) if again else x
    return lax.with_sharding_constraint(x, mesh.sharding(placements, x.shape, partly=True))


# -- frames around images --------------------------------------------------------------------


@lowering("constant_pad_nd")
def _constant_pad(x: Any, pad: Any, value: Any) -> Any:
    sides = [(0, 0, 0)] * (x.ndim - len(pad) // 2)
    pairs = [(pad[i], pad[i + 1], 0) for i in range(0, len(pad), 2)]
    return lax.pad(x, jnp.asarray(value).astype(x.dtype), [*sides, *pairs[::-1]])


def windows_of(x: Any, kernel: Any, stride: Any, dilation: Any, counts: Any) -> list[Any]:
    """For each position in a window, the elements of all windows at this position."""
    results = []
    for position in product(*map(range, kernel)):
        where = [
            slice(p * d, p * d + s * (n - 1) + 1, s)
            for p, s, d, n in zip(position, stride, dilation, counts, strict=True)
        ]
        results.append(x[(..., *where)])
    return results
