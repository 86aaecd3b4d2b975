"""NumPy's functions that arrange, join, split and copy elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import retrograd as torch
from retrograd import Tensor, arrays
from retrograd.numpy_protocols._arguments import (
    Axis,
    array,
    axes_of,
    cast,
    count_of,
    dtype_of,
    is_number,
    promoted,
    refuse,
)


def shape(a: Any) -> tuple[int, ...]:
    return tuple(array(a).shape)


def ndim(a: Any) -> Any:
    return array(a).ndim


def size(a: Any, axis: Axis = None) -> int:
    a = array(a)
    return count_of(a.shape[d] for d in axes_of(axis, a.ndim))


def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None,
            copy: bool | None = None) -> Any:  # fmt: skip
    a = array(a)
    sizes = newshape if shape is None else shape
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    a = a.clone() if copy else a
    if order in ("F",):
        return _reversed(_reversed(a).reshape(sizes[::-1]))
    return a.view(sizes) if copy is False else a.reshape(sizes)


def _reversed(a: Tensor) -> Any:
    return a.permute(*range(a.ndim)[::-1])


def ravel(a: Any, order: str = "C") -> Any:
    return reshape(a, -1, "F" if order == "F" else "C")


def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    a = array(a)
    return _reversed(a) if axes is None else a.permute(*axes)


def matrix_transpose(x: Any, /) -> Any:
    return array(x).mT


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    a = array(a)
    axis, start = axis % a.ndim, start + a.ndim if start < 0 else start
    return torch.movedim(a, axis, start - 1 if axis < start else start)


def squeeze(a: Any, axis: Axis = None) -> Any:
    a = array(a)
    if axis is None:
        return a.squeeze()
    axes = axes_of(axis, a.ndim)
    if any(a.shape[d] != 1 for d in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return a.squeeze(axes)


def expand_dims(a: Any, axis: Any) -> Any:
    a = array(a)
    new_axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = axes_of(new_axes, a.ndim + len(new_axes))
    for d in sorted(axes):
        a = a.unsqueeze(d)
    return a


def broadcast_to(array_: Any, shape: Any, subok: bool = False) -> Any:
    return array(array_).broadcast_to((shape,) if isinstance(shape, int) else tuple(shape))


def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    return tuple(torch.broadcast_tensors(*[array(a) for a in args]))


def _at_least(count: int, inputs: tuple[Any, ...]) -> Any:
    function = getattr(torch, f"atleast_{count}d")
    results = tuple(function(array(a)) for a in inputs)
    return results[0] if len(results) == 1 else results


def atleast_1d(*arys: Any) -> Any:
    return _at_least(1, arys)


def atleast_2d(*arys: Any) -> Any:
    return _at_least(2, arys)


def atleast_3d(*arys: Any) -> Any:
    return _at_least(3, arys)


# -- joining and splitting -------------------------------------------------------------------


def _alike(inputs: Any, dtype: Any = None) -> list[Tensor]:
    tensors = [array(a) for a in inputs]
    return promoted(tensors) if dtype is None else [cast(a, dtype) for a in tensors]


def concatenate(arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None,
                casting: str = "same_kind") -> Any:  # fmt: skip
    tensors = _alike(arrays, dtype)
    return torch.cat([a.reshape(-1) for a in tensors] if axis is None else tensors, axis or 0)


def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None,
          casting: str = "same_kind") -> Any:  # fmt: skip
    return torch.stack(_alike(arrays, dtype), axis)


def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    return torch.vstack(_alike(tup, dtype))


def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    return torch.hstack(_alike(tup, dtype))


def dstack(tup: Any) -> Any:
    return torch.dstack(_alike(tup))


def column_stack(tup: Any) -> Any:
    return torch.column_stack(_alike(tup))


def block(arrays: Any) -> Any:
    def depth(tree: Any) -> int:
        return 1 + max(depth(part) for part in tree) if isinstance(tree, list) else 0

    def joined(tree: Any, level: int) -> Any:
        if not isinstance(tree, list):
            return tree.reshape((1,) * (rank - tree.ndim) + tuple(tree.shape))
        return torch.cat(promoted([joined(part, level - 1) for part in tree]), -level)

    def leaves(tree: Any) -> Any:
        return [leaves(part) for part in tree] if isinstance(tree, list) else array(tree)

    def ranks(tree: Any) -> int:
        return max(map(ranks, tree)) if isinstance(tree, list) else tree.ndim

    levels, tensors = depth(arrays), leaves(arrays)
    rank = max(levels, ranks(tensors))
    return joined(tensors, levels)


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    return concatenate((arr, values), axis)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    a = array(ary)
    if isinstance(indices_or_sections, int) and a.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(a, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    parts = indices_or_sections
    parts = parts if isinstance(parts, int) else [int(i) for i in parts]
    return list(torch.tensor_split(array(ary), parts, axis))


def hsplit(ary: Any, indices_or_sections: Any) -> Any:
    return split(ary, indices_or_sections, 1 if array(ary).ndim > 1 else 0)


def vsplit(ary: Any, indices_or_sections: Any) -> Any:
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> Any:
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    return tuple(array(x).unbind(axis))


# -- repeating, turning, padding -------------------------------------------------------------


def tile(A: Any, reps: Any) -> Any:  # noqa: N803
    return torch.tile(array(A), (reps,) if isinstance(reps, int) else tuple(reps))


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    a = array(a)
    a = a.reshape(-1) if axis is None or not a.ndim else a
    repeats = repeats if is_number(repeats) else array(repeats).to(torch.int64)
    return torch.repeat_interleave(a, repeats, axis or 0)


def flip(m: Any, axis: Axis = None) -> Any:
    m = array(m)
    return torch.flip(m, axes_of(axis, m.ndim))


def roll(a: Any, shift: Any, axis: Axis = None) -> Any:
    a = array(a)
    if axis is None:
        return torch.roll(a, shift)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    axes = axes * len(shifts) if len(axes) == 1 else axes
    for by, d in zip(shifts, axes, strict=True):
        a = torch.roll(a, int(by), d)
    return a


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    return torch.rot90(array(m), k, axes)


def pad(array_: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    a = array(array_)
    widths = _widths(pad_width, a.ndim)
    if mode == "constant":
        return _pad_constant(a, widths, kwargs.get("constant_values", 0))
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        refuse(f"numpy.pad(mode={mode!r})")
    for d, (before, after) in enumerate(widths):
        index = arrays.protocols.padded_indices(a.shape[d], before, after, mode, kwargs)
        if kwargs.get("reflect_type", "even") != "even":
            refuse("numpy.pad(reflect_type='odd')")
        a = torch.index_select(a, d, array(index))
    return a


def _widths(widths: Any, ndim: int) -> list[tuple[int, int]]:
    """The number of elements before and after along each axis, from any of NumPy's forms."""
    if isinstance(widths, dict):
        pairs = {d % ndim: w if isinstance(w, tuple) else (w, w) for d, w in widths.items()}
        return [pairs.get(d, (0, 0)) for d in range(ndim)]
    return [(int(b), int(a)) for b, a in array(widths).expand(ndim, 2).tolist()]


def _pad_constant(a: Tensor, widths: list[tuple[int, int]], values: Any) -> Any:
    pairs = array(values).expand(a.ndim, 2)
    for d, (before, after) in enumerate(widths):
        sizes = [[n if i == d else s for i, s in enumerate(a.shape)] for n in (before, after)]
        ends = [pairs[d, i].to(a.dtype).expand(sizes[i]) for i in (0, 1)]
        a = torch.cat([ends[0], a, ends[1]], d)
    return a


def resize(a: Any, new_shape: Any) -> Any:
    a = array(a).reshape(-1)
    sizes = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    if not a.numel():
        return a.new_zeros(sizes)
    return a[torch.arange(count_of(sizes)) % a.numel()].reshape(sizes)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    a = array(arr).reshape(-1) if axis is None else array(arr)
    obj = obj.tolist() if isinstance(obj, Tensor) else obj
    left = arrays.protocols.deleted_indices(a.shape[axis or 0], obj)
    return torch.index_select(a, axis or 0, array(left))


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    a = array(arr).reshape(-1) if axis is None else array(arr)
    axis = (axis or 0) % a.ndim
    values = array(values).to(a.dtype)
    values = values.reshape((1,) * (a.ndim - values.ndim) + tuple(values.shape))
    if is_number(obj):
        values = values.movedim(0, axis)
    order, count = arrays.protocols.inserted_indices(a.shape[axis], obj, values.shape[axis])
    sizes = [count if d == axis else n for d, n in enumerate(a.shape)]
    return torch.index_select(torch.cat([a, values.expand(sizes)], axis), axis, array(order))


# -- diagonals and triangles -----------------------------------------------------------------


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return torch.diagonal(array(a), offset, axis1, axis2)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None,
          out: Any = None) -> Any:  # fmt: skip
    result_dtype = None if dtype is None else dtype_of(dtype)
    return torch.diagonal(array(a), offset, axis1, axis2).sum(-1, dtype=result_dtype)


def diag(v: Any, k: int = 0) -> Any:
    return torch.diag(array(v), k)


def diagflat(v: Any, k: int = 0) -> Any:
    return torch.diagflat(array(v), k)


def _matrices(m: Any) -> Any:
    """Matrices, or a vector as a matrix of equal rows, as NumPy has it."""
    m = array(m)
    return m.expand(m.shape[0], m.shape[0]) if m.ndim == 1 else m


def tril(m: Any, k: int = 0) -> Any:
    return torch.tril(_matrices(m), k)


def triu(m: Any, k: int = 0) -> Any:
    return torch.triu(_matrices(m), k)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803
    return torch.vander(array(x), N, increasing)


def tril_indices_from(arr: Any, k: int = 0) -> Any:
    return arrays.protocols.vector_indices("tril", tuple(arr.shape), k)


def triu_indices_from(arr: Any, k: int = 0) -> Any:
    return arrays.protocols.vector_indices("triu", tuple(arr.shape), k)


def diag_indices_from(arr: Any) -> Any:
    return arrays.protocols.vector_indices("diag", tuple(arr.shape), 0)


# -- copies, and arrays like others ----------------------------------------------------------


def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    return array(a).clone()


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return array(x).to(dtype_of(dtype), copy=copy)


def _like(a: Any, value: Any, dtype: Any, shape: Any) -> Any:
    a = array(a)
    sizes = a.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    made = a.new_zeros(sizes, dtype=a.dtype if dtype is None else dtype_of(dtype))
    return made if value is None else made + array(value).to(made.dtype)


def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
               *, device: Any = None) -> Any:  # fmt: skip
    return _like(a, None, dtype, shape)


def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
              *, device: Any = None) -> Any:  # fmt: skip
    return _like(a, 1, dtype, shape)


def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
              shape: Any = None, *, device: Any = None) -> Any:  # fmt: skip
    return _like(a, fill_value, dtype, shape)


def empty_like(prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True,
               shape: Any = None, *, device: Any = None) -> Any:  # fmt: skip
    return _like(prototype, None, dtype, shape)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    vectors = [array(x).reshape(-1) for x in xi]
    order = list(range(len(vectors)))
    if indexing == "xy":
        order[:2] = order[:2][::-1]
    grids = [x.reshape([-1 if order[d] == i else 1 for d in range(len(vectors))])
             for i, x in enumerate(vectors)]  # fmt: skip
    grids = grids if sparse else list(torch.broadcast_tensors(*grids))
    return tuple(g.clone() if copy else g for g in grids)
