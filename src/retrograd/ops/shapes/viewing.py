"""Views of memory: unfold, as_strided; and copies with a part replaced: select_scatter,
slice_scatter."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._batching import BatchLevel
from retrograd.ops._batching_declarations import Dims, own
from retrograd.ops._dims import as_shape, numel, one_dim
from retrograd.ops._lifted import Lifted, memory_of
from retrograd.ops._operation import Composite, Linear, Operation, composite, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops.copies import zeros_like
from retrograd.ops.shapes import slicing
from retrograd.ops.shapes.diagonals import check_src

# -- windows along a dimension ---------------------------------------------------------------


def _unfold_transpose(g: Any, shape: Any, dimension: int, size: int, step: int) -> Any:
    if shape:
        return add_windows(g, shape=tuple(shape), dimension=dimension, size=size, step=step)
    windows = linear.reshape(g, (2 - size, size))  # of a scalar, which counts as a vector
    total = add_windows(windows, shape=(1,), dimension=0, size=size, step=step)
    return linear.reshape(total, ())


unfold_at: Linear = declare(
    "unfold", lambda self, dimension, size, step: arrays.layout.unfold(self, dimension, size, step),
    _unfold_transpose, view=True, batch=Dims(unchanged=("size",)),
)  # fmt: skip
add_windows: Linear = declare(
    "add_windows",
    lambda self, shape, dimension, size, step:
        arrays.layout.add_windows(shape, self, dimension, size, step),
    lambda g, dimension, size, step: unfold_at(g, dimension=dimension, size=size, step=step),
    node="UnfoldBackward0_T", batch=Dims(unchanged=("size",)),
)  # fmt: skip


@public("method")
def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """Extracts sliding windows along a dimension.

    Args:
        dimension: The dimension along which the windows lie.
        size: The size of a window.
        step: The distance between the starts of neighbouring windows.

    Returns:
        A view of ``input``, in which ``dimension`` counts the windows and a new last dimension
        holds the elements of each.

    Example:
        >>> torch.arange(5).unfold(0, 3, 2)
        tensor([[0, 1, 2],
                [2, 3, 4]])
    """
    plain = one_dim(dimension, len(input.shape))
    have = input.shape[plain] if input.shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > have:
        raise RuntimeError(
            f"maximum size for tensor at dimension {plain} is {have} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return unfold_at(input, dimension=plain, size=operator.index(size), step=operator.index(step))


# -- a copied slice --------------------------------------------------------------------------


narrow_copied = declare(
    "narrow_copy", lambda self, where: arrays.array(self[where]),
    lambda g, shape, where: linear.put_zeros(g, shape=tuple(shape), where=where),
)  # fmt: skip


@public("torch method", out="same")
def narrow_copy(input: Any, dim: int, start: int, length: int) -> Any:
    """Copies a range of slices along a dimension.

    Args:
        dim: The dimension to narrow.
        start: The index of the first slice.
        length: The number of slices.

    Returns:
        A copy of ``narrow(input, dim, start, length)``.

    Example:
        >>> torch.narrow_copy(torch.arange(5), 0, 1, 3)
        tensor([1, 2, 3])
    """
    return narrow_copied(input, where=slicing.checked_narrowing(input, dim, start, length))


# -- any strides -----------------------------------------------------------------------------


def _as_strided(
    self: Raw, size: tuple[int, ...], stride: tuple[int, ...], start: int, own: tuple[int, ...]
) -> Raw:
    if arrays.strides(self) != own:
        raise RuntimeError(
            "as_strided: a tangent does not lie in memory as its value does. Use a contiguous() "
            "tensor instead."
        )
    return arrays.layout.as_strided(self, size, stride, start)


Layout = tuple[tuple[int, ...], tuple[int, ...], int]  # sizes, strides, and where it starts


def _through_memory(x: Any, written: Layout, read: Layout) -> tuple[Any, Raw, Raw]:
    """Memory into which ``x`` is added in one layout, zeros elsewhere, and the positions there of
    both layouts."""
    into, out_of = (arrays.layout.strided_positions(*layout) for layout in (written, read))
    lowest = min([0, *(int(p.min()) for p in (into, out_of) if p.size)])
    size = max([0, *(int(p.max()) for p in (into, out_of) if p.size)]) - lowest + 1
    into, out_of = into - lowest, out_of - lowest
    return linear.add_flat(x, shape=(size,), positions=into), into, out_of


def _shared(x: Any, positions: Raw) -> Any:
    """``x``, divided among the elements of a tensor that are one and the same memory."""
    times = arrays.layout.times_each(positions)
    return x if times is None else x / arrays.cast(times, arrays.zeros((), raw(x).dtype).real.dtype)


def _as_strided_transpose(
    g: Any, shape: Any, size: tuple[int, ...], stride: tuple[int, ...], start: int,
    own: tuple[int, ...],
) -> Any:  # fmt: skip
    memory, _, out_of = _through_memory(g, (size, stride, start), (tuple(shape), own, 0))
    return _shared(linear.take_flat(memory, positions=out_of), out_of)


def _as_strided_tangent(
    t: Any, shape: Any, size: tuple[int, ...], stride: tuple[int, ...], start: int,
    own: tuple[int, ...],
) -> Any:  # fmt: skip
    layout = (tuple(shape), own, 0)
    t = _shared(t, arrays.layout.strided_positions(*layout))
    memory, _, out_of = _through_memory(t, layout, (size, stride, start))
    return linear.take_flat(memory, positions=out_of)


@own("the stride of the batch in memory is one more stride")
def _as_strided_batch(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    value = args[0].value
    own = arrays.strides(raw(value))
    size, stride = (level.size, *options["size"]), (own[0], *options["stride"])
    return op(value, size=size, stride=stride, start=options["start"], own=own)


as_strided_at = declare(
    "as_strided", _as_strided, _as_strided_transpose, view=True, jvp=_as_strided_tangent,
    batch=_as_strided_batch,
    reason="strides describe memory, and a tangent need not be laid out as its value is",
)  # fmt: skip


@public("torch method", in_place="torch method")
def as_strided(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """Creates a view of the memory of a tensor with a given size, stride and offset.

    Args:
        size: The shape of the view.
        stride: The stride of the view, in elements, for each dimension.
        storage_offset: The index in the storage of the first element. The default is that of
            ``input``.

    Returns:
        A view of the storage of ``input``.

    Example:
        >>> torch.arange(4).as_strided((3, 2), (1, 1))
        tensor([[0, 1],
                [1, 2],
                [2, 3]])
    """
    shape, steps, start = _layout(input, size, stride, storage_offset)
    own = arrays.strides(arrays.writable(raw(input)))
    return as_strided_at(input, size=shape, stride=steps, start=start - _offset(input), own=own)


def strided_from(base: Any, view: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options of ``as_strided`` for which it gives the same result from ``base`` as it gives
    with ``options`` from a view of ``base``."""
    start = options["start"] + _offset(view) - _offset(base)
    return {**options, "start": start, "own": arrays.strides(arrays.writable(raw(base)))}


def _layout(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes, strides and start that lie in the memory of a tensor."""
    shape, steps = as_shape((size,)), as_shape((stride,))
    start = _offset(input) if storage_offset is None else operator.index(storage_offset)
    if len(shape) != len(steps):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in steps):
        raise RuntimeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(steps)}"
        )
    if any(s < 0 for s in shape):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and "
            f"strides={list(steps)}"
        )
    array = arrays.writable(memory_of(input))
    have, itemsize = arrays.layout.memory_size(array), array.itemsize
    need = 0 if 0 in shape else start + _reach(shape, steps)
    if need > have or start < 0:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset {start}, and "
            f"itemsize {itemsize} requiring a storage size of {need * itemsize} are out of bounds "
            f"for storage of size {have * itemsize}"
        )
    if isinstance(raw(input), Lifted) and raw(input).shape != array.shape and 0 not in shape:
        _check_entry(input, shape, steps, start)
    return shape, steps, start


def _check_entry(input: Any, shape: tuple[int, ...], steps: tuple[int, ...], start: int) -> None:
    """RuntimeError if a layout reaches beyond an entry of a batch, as whose part it is given."""
    own = raw(input)
    first, end = _offset(input), start + _reach(shape, steps)
    last = first + _reach(own.shape, arrays.strides(own))
    if first <= start and end <= last:
        return
    raise RuntimeError(
        f"result = tensor.as_strided({list(shape)}, {list(steps)}, {start}) can access memory "
        f"outside of `tensor`. `result` can access some memory in range [{start}, {end}], but "
        f"`tensor` can only access some memory in range [{first}, {last}]. This is not supported "
        "inside of vmap, please try to rewrite the `as_strided` call as a sequence of PyTorch view "
        "operations"
    )


def _reach(shape: Sequence[int], steps: Sequence[int]) -> int:
    """How many elements of memory a layout spans."""
    return 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))


def _offset(input: Any) -> int:
    """How many elements into its memory a tensor starts; of a batch, its first entry."""
    return int(arrays.layout.offset(arrays.writable(memory_of(input))))


# -- copies with a part replaced -------------------------------------------------------------


def _put_positions(self: Any, src: Any, positions: Any) -> Any:
    flat = linear.reshape(self, (numel(self.shape),))
    flat = linear.index_put(flat, src, where=(positions,), accumulate=False)
    return linear.reshape(flat, tuple(self.shape))


put_flat: Composite = composite(
    "as_strided_scatter", _put_positions,
    lambda self, src, positions: arrays.put_flat(self, positions, src), inputs=("self", "src"),
    dtypes="first",
    broadcasts=True, batch="definition",
    rules={"self": lambda g, positions:
           put_flat(g, linear.new_zeros(g, positions.shape), positions=positions),
           "src": lambda g, positions: linear.take_flat(g, positions=positions)},
)  # fmt: skip


@public("torch method")
def as_strided_scatter(
    input: Any, src: Any, size: Sequence[int], stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:  # fmt: skip
    """Writes values to a strided view of a copy of a tensor.

    Args:
        src: The values, in the shape ``size``.
        size: The shape of the view.
        stride: The stride of the view, in elements, for each dimension.
        storage_offset: The index in the storage of the first element of the view.

    Returns:
        A copy of ``input`` with ``src`` in the elements that ``as_strided`` selects.

    Example:
        >>> torch.as_strided_scatter(torch.zeros(4), torch.ones(2), (2,), (2,))
        tensor([1., 0., 1., 0.])
    """
    if not arrays.is_contiguous(raw(input)):
        raise RuntimeError("as_strided_scatter is currently only supported for contiguous inputs")
    shape, steps, start = _layout(input, size, stride, storage_offset)
    check_src(src, shape)
    own = start - _offset(input)
    return put_flat(input, src, positions=arrays.layout.strided_positions(shape, steps, own))


def _put_at(self: Raw, src: Raw, where: tuple[Any, ...]) -> Raw:
    out = arrays.copy(arrays.writable(self))
    arrays.write(out[where], src)
    return out


def _putting(name: str, pick: Any) -> Operation:
    """A copy of ``self`` with ``src`` at a basic index: ``pick`` is the view that this writes."""

    def without(g: Any, where: tuple[Any, ...]) -> Any:
        return operation(g, zeros_like(pick(g, where)), where=where)

    operation = Linear(
        name, _put_at, inputs=("self", "src"), dtypes="first", broadcasts=True, batch="dims",
        rules={"self": without, "src": lambda g, where: pick(g, where)},
    )  # fmt: skip
    return operation


def _selected(x: Any, where: tuple[Any, ...]) -> Any:
    dim = len(where) - 2
    return linear.select(x, dim=dim, index=where[dim])


select_scatter_at = _putting("select_scatter", _selected)
slice_scatter_at = _putting("slice_scatter", lambda x, where: linear.slice_(x, where=where))


@public("torch method")
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """Writes values to one slice of a copy of a tensor.

    Args:
        src: The values, in the shape of ``select(input, dim, index)``.
        dim: The dimension along which the slice is taken.
        index: The index of the slice.

    Returns:
        A copy of ``input`` with ``src`` in the slice.

    Example:
        >>> torch.zeros(2, 2).select_scatter(torch.ones(2), 0, 1)
        tensor([[0., 0.],
                [1., 1.]])
    """
    plain, index = slicing.checked_selection(input, dim, index)
    check_src(src, (*input.shape[:plain], *input.shape[plain + 1 :]))
    return select_scatter_at(input, src, where=(slice(None),) * plain + (index, ...))


@public("torch method", out="same")
def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Any:  # fmt: skip
    """Writes values to a range of slices of a copy of a tensor.

    Args:
        src: The values, in the shape of the range.
        dim: The dimension along which slices are taken.
        start: The index of the first slice. The default is 0.
        end: The index after the last slice. The default is the size of the dimension.
        step: The distance between neighbouring slices.

    Returns:
        A copy of ``input`` with ``src`` in the range.

    Example:
        >>> torch.zeros(4).slice_scatter(torch.ones(2), start=1, end=3)
        tensor([0., 1., 1., 0.])
    """
    if not input.shape:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    plain = one_dim(dim, len(input.shape))
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    part = slice(start, end, step)
    count = len(range(*part.indices(input.shape[plain])))
    check_src(src, (*input.shape[:plain], count, *input.shape[plain + 1 :]))
    return slice_scatter_at(input, src, where=(slice(None),) * plain + (part,))
