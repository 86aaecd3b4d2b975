"""Repetition of elements, and its inverse sums: repeat, tile, repeat_interleave, sum_to_size."""

from __future__ import annotations

import operator
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.ops import linear
from retrograd.ops._batching import BatchLevel
from retrograd.ops._batching_declarations import Dims, own
from retrograd.ops._dims import as_shape, broadcast, one_dim
from retrograd.ops._lifted import bare
from retrograd.ops._operation import Operation, constant, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops.shapes import reshaping
from retrograd.ops.shapes.index_select import index_select


@public("method")
def sum_to_size(input: Any, *sizes: Any, size: Any = None) -> Any:
    """Sums over dimensions so that the result has the given size.

    This is the reverse of broadcasting: ``size`` must be a size that can be broadcast to the shape
    of the tensor.

    Args:
        *sizes: The size of the result, as integers or as one sequence.
        size: The size of the result as a sequence, passed by keyword.

    Returns:
        A tensor of the given size. It is ``input`` itself if it has that size.
    """
    wanted, have = as_shape(sizes if size is None else (size,)), tuple(input.shape)
    added = len(have) - len(wanted)
    fits = added >= 0 and all(
        w in (1, h) for w, h in zip(wanted, have[max(added, 0) :], strict=False)
    )
    if not fits:
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(have)}}}.")
    if not wanted:
        return linear.sum_all(input)
    if wanted == have:
        return input
    dims = tuple(d for d in range(len(have)) if d < added or wanted[d - added] != have[d])
    if not dims:
        return linear.view(input, size=wanted)
    total = linear.sum_dim(input, dim=dims, keepdim=True)
    return linear.view(total, size=wanted) if added else total


# -- broadcasting ----------------------------------------------------------------------------


@public("torch")
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Broadcasts tensors to a common shape.

    Args:
        *tensors: Tensors whose shapes can be broadcast together.

    Returns:
        A tuple of views of the tensors, all of the same shape.

    Example:
        >>> [t.shape for t in torch.broadcast_tensors(torch.zeros(2, 1), torch.zeros(3))]
        [torch.Size([2, 3]), torch.Size([2, 3])]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    for number, x in enumerate(tensors):
        if not hasattr(x, "shape"):
            raise TypeError(
                f"expected Tensor as element {number} in argument 0, but got {type(x).__name__}"
            )
    common: tuple[int, ...] = ()
    for x in tensors:
        common = broadcast(common, tuple(x.shape))
    return tuple(x if tuple(x.shape) == common else linear.expand(x, size=common) for x in tensors)


# -- repeating -------------------------------------------------------------------------------


def _repeat_transpose(g: Any, shape: Any, repeats: tuple[int, ...]) -> Any:
    """Each repeated dimension as two, how often and how long, and the sum over the first."""
    full = (1,) * (len(repeats) - len(shape)) + tuple(shape)
    if 0 in repeats:
        return linear.new_zeros(g, tuple(shape))
    apart = [n for pair in zip(repeats, full, strict=True) for n in pair]
    summed = tuple(2 * d for d, n in enumerate(repeats) if n != 1)
    g = linear.reshape(g, apart)
    if summed:
        g = linear.sum_dim(g, dim=summed, keepdim=False)
    return linear.reshape(g, tuple(shape))


repeat_all = declare(
    "repeat", arrays.layout.tile, _repeat_transpose, batch=Dims(scalars=False, aligned="repeats"),
    words="An element that was repeated gets the sum of the gradients of its copies.",
)  # fmt: skip


@public("method")
def repeat(input: Any, *sizes: Any, repeats: Any = None) -> Any:
    """Repeats a tensor along each dimension.

    Args:
        *sizes: The number of repetitions per dimension, as integers or as one sequence. There may
            be more than the tensor has dimensions; the extra ones are new leading dimensions.
        repeats: The numbers of repetitions as a sequence, passed by keyword.

    Returns:
        A copy of the data, repeated.

    Example:
        >>> torch.tensor([1, 2]).repeat(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    if repeats is not None:
        sizes = (repeats,)
    if not sizes:
        raise TypeError('repeat() missing 1 required positional arguments: "repeats"')
    if isinstance(sizes[0], str):
        raise TypeError("repeat(): argument 'repeats' (position 1) must be tuple of ints, not str")
    times = as_shape(sizes)
    missing = len(times) - len(input.shape)
    if missing < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    shape = [n * s for n, s in zip(times, (1,) * missing + tuple(input.shape), strict=True)]
    for size in shape:
        if size < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {size}: {shape}")
    return repeat_all(input, repeats=times)


@public("torch method")
def tile(input: Any, *repeats: Any, dims: Any = None) -> Any:
    """Repeats a tensor along each dimension.

    Unlike ``repeat``, it accepts fewer numbers than there are dimensions. They then apply to the
    last dimensions.

    Args:
        *repeats: The number of repetitions per dimension, as integers or as one sequence.
        dims: The numbers of repetitions as a sequence, passed by keyword.

    Returns:
        A copy of the data, repeated.

    Example:
        >>> torch.tile(torch.tensor([[1, 2], [3, 4]]), (2,))
        tensor([[1, 2, 1, 2],
                [3, 4, 3, 4]])
    """
    times = as_shape(repeats if dims is None else (dims,))
    return repeat(input, (1,) * (len(input.shape) - len(times)) + times)


@public("torch method")
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Repeats each element, or each slice along a dimension, before the next one.

    Args:
        input: The input tensor. If it is the only argument, it holds the numbers of repetitions,
            and the result holds the indices.
        repeats: The number of repetitions: an integer, or a tensor with one integer per slice.
        dim: The dimension along which slices are repeated. By default, the input is flattened.
        output_size: The size of the result along ``dim``, which is checked if given.

    Returns:
        A tensor with the repeated elements.

    Example:
        >>> torch.repeat_interleave(torch.tensor([1, 2]), torch.tensor([1, 3]))
        tensor([1, 2, 2, 2])
    """
    if repeats is None:
        return _checked_repeats(input, output_size)
    if not hasattr(repeats, "shape"):
        return _each_repeated(input, operator.index(repeats), dim)
    if len(repeats.shape) > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if dim is None:
        input, dim = reshaping.flatten(input), 0
    plain = one_dim(dim, len(input.shape))
    size = input.shape[plain] if input.shape else 1
    if not repeats.shape or repeats.shape[0] == 1:
        repeats = reshaping.expand(linear.reshape(repeats, (1,)), size)
    elif repeats.shape[0] != size:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats.shape[0]} and input.size({plain}) = {size}"
        )
    return index_select(input, plain, _checked_repeats(repeats, output_size))


def _each_repeated(input: Any, times: int, dim: int | None) -> Any:
    """Every element as often: by expanding, as PyTorch does, and not by picking."""
    if times < 0:
        raise RuntimeError("Repeats must be non-negative")
    if dim is None:
        input, dim = reshaping.flatten(input), 0
    shape = tuple(input.shape)
    plain = one_dim(dim, len(shape))
    wide = reshaping.unsqueeze(input, plain + 1)
    wide = linear.expand(wide, size=(*shape[: plain + 1], times, *shape[plain + 1 :]))
    copied = wide.clone(memory_format="contiguous")
    return reshaping.flatten(copied, plain, plain + 1)


@own("refused only if the number of results differs between entries")
def _repeated_in_all(level: BatchLevel, op: Operation, args: list[Any], options: Any) -> Any:
    """The indices of all entries as if they were one, each then counted in its own entry."""
    repeats = args[0]
    totals = arrays.sum(bare(repeats.value), (-1,), False)
    if totals.size and totals.min() != totals.max():
        raise RuntimeError(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted "
            "to vmap over aten::repeat_interleave.Tensor with repeats that have another sum for "
            "each entry."
        )
    size = repeats.shape[0]
    result = op(linear.reshape(repeats.value, (level.size * size,)))
    count = result.shape[0] // max(level.size, 1)
    return linear.reshape(result % max(size, 1), (level.size, count))


_repeated_indices = constant(
    "repeat_interleave",
    lambda repeats: arrays.cast(arrays.sorting.repeated_indices(repeats), repeats.dtype),
    batch=_repeated_in_all,
)  # fmt: skip


def _checked_repeats(repeats: Any, output_size: int | None) -> Any:
    times = raw(repeats)
    if times.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if times.dtype.name not in ("int64", "int32"):
        word = dtypes.type_word(times.dtype)
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{word}'")
    known = bare(times)
    if known.size and known.min() < 0:
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and (arrays.sum(known, (-1,), False) != output_size).any():
        raise RuntimeError("allocated size does not match required size")
    return _repeated_indices(repeats)
