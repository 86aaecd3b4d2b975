"""Linear operations: sums, and everything that moves, repeats, joins or picks elements.

Each is declared by its forward and its transpose, which reverse mode applies to gradients. They
come in pairs, expanding and summing, picking and scattering, each the other's transpose. Those
marked ``view`` share the memory of their input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import copies, piecewise
from retrograd.ops._batching_declarations import AllElements, Dims
from retrograd.ops._dims import infer, numel, one_dim
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import Composite, Linear, composite, linear, raw
from retrograd.ops._words import CUT, JOINED, MOVED, PADDED, RESHAPED
from retrograd.ops.copies import new_zeros as new_zeros

# -- primitives ------------------------------------------------------------------------------


def _view(self: Raw, size: tuple[int, ...]) -> Raw:
    return arrays.reshape(self, size)


def _swapped(ndim: int, dim0: int, dim1: int) -> tuple[int, ...]:
    order = list(range(ndim))
    if ndim:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return tuple(order)


def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    order = [0] * len(dims)
    for position, d in enumerate(dims):
        order[d] = position
    return tuple(order)


def _unsqueeze(self: Raw, dim: int) -> Raw:
    return arrays.reshape(self, (*self.shape[:dim], 1, *self.shape[dim:]))


def _squeeze(self: Raw, dims: tuple[int, ...]) -> Raw:
    # The ellipsis makes a view of it even if nothing but numbers come before.
    return arrays.writable(self)[
        (*(0 if d in dims else slice(None) for d in range(self.ndim)), ...)
    ]


def _alias(self: Raw) -> Raw:
    return arrays.writable(self)[...]


def reshape(x: Any, size: Sequence[int]) -> Any:
    """The same elements in another shape, without copying if possible."""
    if arrays.is_raw(x):
        return arrays.reshape(x, size)
    if isinstance(raw(x), Lifted):
        size = tuple(size)
        if -1 in size:
            size = infer(size, raw(x).size)
        if isinstance(x, Lifted) and size == x.shape:
            return x
        return view(x, size=size) if viewable(x, size) else unsafe_view(x, size=size)
    if arrays.is_contiguous(raw(x)):
        return view(x, size=tuple(size))
    if arrays.view_as_shape(raw(x), size) is not None:
        return reshape_alias(x, size=tuple(size))
    return unsafe_view(x.clone(memory_format="contiguous"), size=tuple(size))


def viewable(x: Any, size: Sequence[int]) -> bool:
    """Whether the elements of a value can be seen in another shape without copying."""
    data, size = raw(x), tuple(size)
    while isinstance(data, Lifted):
        data, size = raw(data.layout), data.inside(size)
    return arrays.view_as_shape(data, size) is not None


def sum_to_shape(g: Any, shape: Sequence[int]) -> Any:
    """Sum ``g`` over what broadcasting from ``shape`` had added: the transpose of expanding."""
    if arrays.is_raw(g):
        return arrays.sum_to(g, shape)
    from_front = len(g.shape) - len(shape)
    dims = tuple(range(from_front)) + tuple(
        d + from_front for d, s in enumerate(shape) if s == 1 and g.shape[d + from_front] != 1
    )
    if not dims:
        return g
    return view(sum_dim(g, dim=dims, keepdim=False), size=tuple(shape))


def _rearranging(name: str, forward: Any, transpose: Any, view: bool = True, **face: Any) -> Linear:
    """The values of the input in another shape or order, and usually a view of it."""
    return linear(name, forward, transpose, view=view, rearranges=True, **face)


view = _rearranging(
    "view", _view, lambda g, shape: reshape(g, shape), node="ViewBackward0", batch="reshape",
    words=RESHAPED,
)  # fmt: skip
reshape_alias = _rearranging(
    "reshape_alias", _view, lambda g, shape: reshape(g, shape), node="ReshapeAliasBackward0",
    batch="reshape",
    words=RESHAPED,
)  # fmt: skip
# Of an array that nobody else can see, and so, for all that anybody can tell, no view.
unsafe_view = _rearranging(
    "unsafe_view", _view, lambda g, shape: reshape(g, shape), node="UnsafeViewBackward0",
    view=False, batch="reshape",
    words=RESHAPED,
)  # fmt: skip
permute: Linear = _rearranging(
    "permute", arrays.permute, lambda g, dims: permute(g, dims=_inverse(dims)),
    batch=Dims(scalars=False, order="dims"),
    words=MOVED,
)  # fmt: skip
transpose: Linear = _rearranging(
    "transpose", lambda self, dim0, dim1: arrays.permute(self, _swapped(self.ndim, dim0, dim1)),
    lambda g, dim0, dim1: transpose(g, dim0=dim0, dim1=dim1),
    words=MOVED,
)  # fmt: skip
t: Linear = _rearranging(
    "t", lambda self: arrays.permute(self, None), lambda g: t(g),
    words="The transpose of the gradient.",
)  # fmt: skip
expand = _rearranging(
    "expand", lambda self, size: arrays.expand(self, size), lambda g, shape: sum_to_shape(g, shape),
    batch=Dims(scalars=False, aligned="size"),
    words="An element that was repeated gets the sum of the gradients of its copies.",
)  # fmt: skip
unsqueeze = _rearranging(
    "unsqueeze", _unsqueeze, lambda g, dim: squeeze(g, dims=(dim,)), batch=Dims(scalars=False),
    words=RESHAPED,
)  # fmt: skip
squeeze: Linear = _rearranging(
    "squeeze", _squeeze, lambda g, shape: reshape(g, shape),
    words=RESHAPED,
)  # fmt: skip
squeeze_dim = _rearranging(
    "squeeze_dim", _squeeze, lambda g, shape: reshape(g, shape), node="SqueezeBackward1",
    words=RESHAPED,
)  # fmt: skip
squeeze_dims = _rearranging(
    "squeeze_dims", _squeeze, lambda g, shape: reshape(g, shape), node="SqueezeBackward2",
    words=RESHAPED,
)  # fmt: skip
# Of an array that nobody else can see, as unsafe_view.
unsafe_squeeze = _rearranging(
    "unsafe_squeeze", _squeeze, lambda g, shape: reshape(g, shape), node="SqueezeBackward4",
    view=False,
    words=RESHAPED,
)  # fmt: skip
alias = linear("alias", _alias, lambda g: g, view=True, batch="leading")
view_as_real = linear(
    "view_as_real", arrays.view_as_real, lambda g: view_as_complex(g), view=True, adjoint=True,
    batch="leading",
)  # fmt: skip
view_as_complex: Linear = linear(
    "view_as_complex", arrays.view_as_complex, lambda g: view_as_real(g), view=True, adjoint=True,
    batch="leading",
)  # fmt: skip


def _split(self: Raw, sizes: tuple[int, ...], dim: int) -> tuple[Raw, ...]:
    return tuple(arrays.writable(self)[piece] for piece in _pieces(sizes, dim))


def _pieces(sizes: tuple[int, ...], dim: int) -> list[tuple[slice, ...]]:
    before, pieces, start = (slice(None),) * dim, [], 0
    for size in sizes:
        pieces.append((*before, slice(start, start + size)))
        start += size
    return pieces


def _unbind(self: Raw, dim: int) -> tuple[Raw, ...]:
    self = arrays.writable(self)
    return tuple(self[(slice(None),) * dim + (i, ...)] for i in range(self.shape[dim]))


def _joined_gradients(g: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The gradients of several outputs, with zeros for those that nothing depends on."""
    sample = next(x for x in g if x is not None)
    return [new_zeros(sample, s) if x is None else x for x, s in zip(g, shapes, strict=True)]


def _split_transpose(g: Sequence[Any], shape: Any, sizes: tuple[int, ...], dim: int) -> Any:
    if None in [x if x is None else 0 for x in g]:
        g = _joined_gradients(g, [(*shape[:dim], size, *shape[dim + 1 :]) for size in sizes])
    return cat(g, dim=dim)


def _unbind_transpose(g: Sequence[Any], shape: Any, dim: int) -> Any:
    return stack(_joined_gradients(g, [(*shape[:dim], *shape[dim + 1 :])] * shape[dim]), dim=dim)


split = Linear(
    "split", _split, inputs=("self",), rules={"self": _split_transpose}, outputs=(), view=True,
    words=CUT,
)  # fmt: skip
split_with_sizes = Linear(
    "split_with_sizes", _split, inputs=("self",), rules={"self": _split_transpose}, outputs=(),
    view=True,
    words=CUT,
)  # fmt: skip
unbind = Linear(
    "unbind", _unbind, inputs=("self",), rules={"self": _unbind_transpose}, outputs=(), view=True,
    words=CUT,
)  # fmt: skip


def _cat(tensors: Sequence[Raw], dim: int) -> Raw:
    # Before empty tensors had shapes, an empty vector was the neutral element; it still is.
    return arrays.concatenate([x for x in tensors if x.shape != (0,)] or tensors, dim)


def _stack(tensors: Sequence[Raw], dim: int) -> Raw:
    return arrays.stack(tensors, dim)


def _cat_transpose(g: Any, shapes: Sequence[tuple[int, ...]], dim: int) -> list[Any]:
    sizes = tuple(0 if s == (0,) else s[dim] for s in shapes)
    return [
        new_zeros(g, s) if s == (0,) else slice_(g, where=piece)
        for piece, s in zip(_pieces(sizes, dim), shapes, strict=True)
    ]


cat = Linear(
    "cat", _cat, inputs=("tensors",), joint=_cat_transpose, dtypes="promote",
    words=JOINED,
)  # fmt: skip
stack = Linear(
    "stack", _stack, inputs=("tensors",),
    joint=lambda g, shapes, dim: [select(g, dim=dim, index=i) for i in range(len(shapes))],
    dtypes="promote",
    batch=Dims(scalars=False),
    words="The gradient is split: each input gets its own slice.",
)  # fmt: skip

# -- basic indexing: select one, or take a slice ---------------------------------------------


def _put_zeros(self: Raw, shape: tuple[int, ...], where: tuple[Any, ...]) -> Raw:
    return arrays.put_slice(shape, where, self)


select: Linear = linear(
    "select", lambda self, dim, index: arrays.writable(self)[(slice(None),) * dim + (index, ...)],
    lambda g, shape, dim, index: put_zeros(
        g, shape=tuple(shape), where=(slice(None),) * dim + (index, ...)
    ), view=True,
    words=PADDED,
)  # fmt: skip
slice_ = linear(
    "slice", lambda self, where: arrays.writable(self)[where],
    lambda g, shape, where: put_zeros(g, shape=tuple(shape), where=where), view=True,
    words=PADDED,
)  # fmt: skip


def _put_zeros_transpose(g: Any, where: tuple[Any, ...]) -> Any:
    numbered = next((d for d, w in enumerate(where) if isinstance(w, int)), None)
    if numbered is None:
        return slice_(g, where=where)
    return select(g, dim=numbered, index=where[numbered])


put_zeros: Linear = linear("put_zeros", _put_zeros, _put_zeros_transpose, node="SelectBackward0_T")

# -- the same view of another array ----------------------------------------------------------


def take_positions(x: Any, positions: Any) -> Any:
    """The elements of ``x`` at positions in reading order."""
    return index(reshape(x, (numel(x.shape),)), where=(positions,))


def add_positions(values: Any, shape: tuple[int, ...], positions: Any) -> Any:
    """Zeros of ``shape`` with values added at positions in reading order."""
    return reshape(index_add_zeros(values, shape=(numel(shape),), where=(positions,)), shape)


take_flat = composite(
    "take_flat", take_positions,
    lambda self, positions: arrays.take_flat(self, positions), batch="definition",
    rules={"self": lambda g, shape, positions:
           add_flat(g, shape=tuple(shape), positions=positions)},
    node="AsStridedBackward0",
    words="The gradient goes to the selected elements of the base, others get zero.",
)  # fmt: skip
add_flat: Composite = composite(
    "add_flat", add_positions,
    lambda self, shape, positions: arrays.add_flat(shape, positions, self), batch="definition",
    rules={"self": lambda g, positions: take_flat(g, positions=positions)},
    node="AsStridedScatterBackward0",
)  # fmt: skip


# -- sums ------------------------------------------------------------------------------------


def transposed(x: Any) -> Any:
    """The matrices of ``x``, rows for columns."""
    ndim = len(x.shape)
    return transpose(x, dim0=ndim - 2, dim1=ndim - 1)


def kept(g: Any, shape: Sequence[int], dims: Sequence[int]) -> Any:
    """``g`` with the reduced dimensions back, of size 1."""
    return reshape(g, tuple(1 if d in dims else s for d, s in enumerate(shape)))


def _spread(g: Any, shape: Sequence[int], dim: Sequence[int], keepdim: bool) -> Any:
    """The transpose of summing: every element summed gets the gradient of its sum."""
    return expand(g if keepdim else kept(g, shape, dim), size=tuple(shape))


def _sum_dim(self: Raw, dim: tuple[int, ...], keepdim: bool) -> Raw:
    return arrays.sum(self, dim, keepdim)


def _mean(self: Raw) -> Raw:
    if self.dtype.itemsize == 2:  # the sum of halves may be too large for one where the mean is not
        return arrays.cast(_mean(arrays.cast(self, arrays.float32)), self.dtype)
    return arrays.sum_all(self) / self.size


def _mean_dim(self: Raw, dim: tuple[int, ...], keepdim: bool) -> Raw:
    if self.dtype.itemsize == 2:
        wide = arrays.cast(self, arrays.float32)
        return arrays.cast(_mean_dim(wide, dim, keepdim), self.dtype)
    return arrays.sum(self, dim, keepdim) / _count(self.shape, dim)


def _count(shape: Sequence[int], dim: Sequence[int]) -> int:
    return numel([shape[d] for d in dim])


sum_all = linear(
    "sum", arrays.sum_all, lambda g, shape: expand(g, size=tuple(shape)), dtypes="sum",
    batch=AllElements("sum_dim"),
    words="Every element that was summed gets the gradient of the sum.",
)  # fmt: skip
sum_dim = linear(
    "sum_dim", _sum_dim, _spread, node="SumBackward1", dtypes="sum",
    words="Every element that was summed gets the gradient of its sum.",
)  # fmt: skip
mean_all = linear(
    "mean", _mean, lambda g, shape: expand(g / (numel(shape) or 1), size=tuple(shape)),
    batch=AllElements("mean_dim"),
    words="Every element gets the same share: the gradient of the mean divided by the number of "
          "elements.",
)  # fmt: skip
mean_dim = linear(
    "mean_dim", _mean_dim,
    lambda g, shape, dim, keepdim: _spread(g / (_count(shape, dim) or 1), shape, dim, keepdim),
    node="MeanBackward1",
    words="Every element gets the gradient of its mean, divided by the number of elements "
          "averaged.",
)  # fmt: skip


def _cumsum(self: Raw, dim: int) -> Raw:
    return arrays.cumsum(self, dim)


flip: Linear = linear(
    "flip", lambda self, dims: arrays.flip(self, dims), lambda g, dims: flip(g, dims=dims),
    words="The gradient is flipped back.",
)  # fmt: skip
cumsum = linear(
    "cumsum", _cumsum, lambda g, dim: cumsum_from_end(g, dim=dim), dtypes="sum",
    check=lambda self, dim: one_dim(dim, self.ndim),
    words="An element is part of all later sums: it gets the sum of their gradients.",
)  # fmt: skip
cumsum_from_end: Linear = linear(
    "cumsum_from_end",
    lambda self, dim: arrays.cumsum_from_end(self, dim), lambda g, dim: cumsum(g, dim=dim)
)

# -- indexing by arrays ----------------------------------------------------------------------


def _index(self: Raw, where: tuple[Any, ...]) -> Raw:
    try:
        return arrays.index(self, where)
    except IndexError:
        raise _do_not_broadcast(where) from None


def _do_not_broadcast(where: tuple[Any, ...]) -> IndexError:
    """The error for indices that do not broadcast; indices out of bounds and masks of a wrong shape
    are found before."""
    arrays_given = [w for w in where if not isinstance(w, slice)]
    indices = [p for w in arrays_given for p in (arrays.nonzero(w) if w.dtype.kind == "b" else [w])]
    shapes = ", ".join(str(list(p.shape)) for p in indices)
    return IndexError(
        f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
    )


def _index_add_zeros(self: Raw, shape: tuple[int, ...], where: tuple[Any, ...]) -> Raw:
    return arrays.sorting.add_index(shape, where, self)


index = linear(
    "index", _index,
    lambda g, shape, where: index_add_zeros(g, shape=tuple(shape), where=where),
    words="Each selected element gets its gradient; one selected several times gets the sum, all "
          "others get zero.",
)  # fmt: skip
index_add_zeros: Linear = linear(
    "index_add_zeros", _index_add_zeros, lambda g, where: index(g, where=where),
    node="IndexPutBackward0",
)  # fmt: skip


def _scatter_zeros(self: Raw, shape: tuple[int, ...], dim: int, indices: Raw) -> Raw:
    return arrays.sorting.add_along(shape, indices, self, dim)


gather: Linear = Linear(
    "gather",
    lambda self, index, dim: arrays.sorting.gather(self, index, dim), inputs=("self", "index"),
    rules={"self": lambda g, index, shape, dim:
           scatter_zeros(g, shape=tuple(shape), dim=dim, indices=copies.index_for(index, g))},
    words="Each gathered element gets its gradient; if it was gathered several times, the sum.",
)  # fmt: skip
scatter_zeros: Linear = linear(
    "scatter_zeros", _scatter_zeros, lambda g, dim, indices: gather(g, indices, dim=dim),
    node="ScatterAddBackward0", batch=Dims(),
)  # fmt: skip


def _index_put(self: Raw, values: Raw, where: tuple[Any, ...], accumulate: bool) -> Raw:
    try:
        if accumulate:
            return self + arrays.sorting.add_index(self.shape, where, values)
        return arrays.index_put(self, where, values)
    except IndexError:
        raise _do_not_broadcast(where) from None
    except (ValueError, TypeError):
        target = list(arrays.index(self, where).shape)
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {target}"
        ) from None


def _without(g: Any, where: tuple[Any, ...], accumulate: bool) -> Any:
    """The gradient of the old values: zero where they were replaced."""
    if accumulate:
        return g
    zero = new_zeros(g, ())
    return index_put(g, zero, where=where, accumulate=False)


def _put_values(g: Any, where: tuple[Any, ...]) -> Any:
    """The gradient of the values that were written, summed over broadcast dimensions."""
    mask = where[-1]
    if not (isinstance(mask, Lifted) and mask.dtype.kind == "b" and mask.differs):
        return index(g, where=where)
    # At how many indices cannot be told, but it was the same for all.
    before, rank = len(where) - 1, len(mask.shape)
    holds = reshape(mask, (*mask.shape, *(1,) * (len(g.shape) - before - rank)))
    put = piecewise.where(holds, g, copies.zeros_like(g))
    total = sum_dim(put, dim=tuple(range(before, before + rank)), keepdim=True)
    shape = tuple(g.shape)
    return reshape(total, (*shape[:before], 1, *shape[before + rank :]))


index_put = Linear(
    "index_put", _index_put, inputs=("self", "values"),
    rules={"self": _without, "values": _put_values},
    dtypes="first", broadcasts=True, writes="one value, some, elements of others",
    words="Where values were written, they get the gradient; elsewhere the old values do.",
)  # fmt: skip
