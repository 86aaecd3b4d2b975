"""Slicing, splitting and joining tensors: cat, stack, split, select, narrow, flip."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.ops import linear
from retrograd.ops._arguments import invalid_combination
from retrograd.ops._dims import as_shape, is_integer, many_dims, one_dim
from retrograd.ops._operation import TensorLike, raw
from retrograd.ops._public import public


def listed_tensors(name: str, tensors: Any) -> list[Any]:
    """The tensors to join, or PyTorch's TypeError for what is no sequence of tensors."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    for number, x in enumerate(tensors):
        if not isinstance(x, TensorLike) and not arrays.is_raw(x):
            raise TypeError(
                f"expected Tensor as element {number} in argument 0, but got {type(x).__name__}"
            )
    return list(tensors)


@public("torch", alias="concat concatenate", out="joined, apart")
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Concatenates tensors along an existing dimension.

    Args:
        tensors: A sequence of tensors whose shapes agree in all other dimensions.
        dim: The dimension to concatenate along.

    Returns:
        The concatenated tensor.

    Example:
        >>> torch.cat((torch.tensor([1, 2]), torch.tensor([3])))
        tensor([1, 2, 3])
    """
    tensors = listed_tensors("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    shapes = [raw(x).shape for x in tensors]
    first = shapes[0]
    if () in shapes:
        raise RuntimeError(
            f"zero-dimensional tensor (at position {shapes.index(())}) cannot be concatenated"
        )
    if first == (0,):
        first = next((s for s in shapes if s != (0,)), first)
    plain = one_dim(dim, len(first))
    for number, shape in enumerate(shapes):
        if shape not in (first, (0,)):
            _check_joinable(first, shape, number, plain)
    return linear.cat(tensors, dim=plain)


def _check_joinable(first: tuple[int, ...], shape: tuple[int, ...], number: int, dim: int) -> None:
    if len(shape) != len(first):
        raise RuntimeError(
            f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}"
        )
    for d, (a, b) in enumerate(zip(first, shape, strict=True)):
        if d != dim and a != b:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}. "
                f"Expected size {a} but got size {b} for tensor number {number} in the list."
            )


@public("torch", out="joined, apart")
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Stacks tensors along a new dimension.

    Args:
        tensors: A sequence of tensors of the same shape.
        dim: The position of the new dimension.

    Returns:
        The stacked tensor, with one more dimension.

    Example:
        >>> torch.stack((torch.tensor([1, 2]), torch.tensor([3, 4])))
        tensor([[1, 2],
                [3, 4]])
    """
    tensors = listed_tensors("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    shapes = [raw(x).shape for x in tensors]
    first = shapes[0]
    for number, shape in enumerate(shapes):
        if shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 "
                f"and {list(shape)} at entry {number}"
            )
    return linear.stack(tensors, dim=one_dim(dim, len(first) + 1))


@public("torch.split")
def split_function(
    tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Any, ...]:
    """Splits a tensor into pieces along a dimension.

    Args:
        tensor: The tensor to split.
        split_size_or_sections: The size of each piece, the last of which may be smaller, or a
            sequence of sizes.
        dim: The dimension to split.

    Returns:
        A tuple of views of ``tensor``.

    Example:
        >>> torch.split(torch.arange(5), 2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return split(tensor, split_size_or_sections, dim)


@public("method", axis=False)
def split(self: Any, split_size: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Splits a tensor into pieces along a dimension.

    Args:
        split_size: The size of each piece, the last of which may be smaller, or a sequence of
            sizes.
        dim: The dimension to split.

    Returns:
        A tuple of views of ``input``.
    """
    if not hasattr(split_size, "__index__"):
        sizes, plain = checked_sizes(self, as_shape((split_size,)), dim)
        return tuple(linear.split_with_sizes(self, sizes=sizes, dim=plain))
    sizes, plain = sizes_of_pieces(self, operator.index(split_size), dim)
    return tuple(linear.split(self, sizes=sizes, dim=plain))


def sizes_of_pieces(self: Any, split_size: int, dim: int) -> tuple[tuple[int, ...], int]:
    """The sizes of pieces of one size, but for the last, and the dimension made plain."""
    if not self.shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    plain = one_dim(dim, len(self.shape))
    length = self.shape[plain]
    if split_size < 0:
        raise RuntimeError(
            f"split expects split_size be non-negative, but got split_size={split_size}"
        )
    if split_size == 0 and length:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {length}"
        )
    whole, rest = divmod(length, split_size) if split_size else (1, 0)
    sizes = (split_size,) * whole + ((rest,) if rest else ())
    return sizes or (0,), plain


def checked_sizes(self: Any, sizes: tuple[int, ...], dim: int) -> tuple[tuple[int, ...], int]:
    """Sizes of pieces that make up a dimension, and that made plain."""
    if not self.shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    plain = one_dim(dim, len(self.shape))
    length = self.shape[plain]
    if any(s < 0 for s in sizes):
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={list(sizes)}"
        )
    if sum(sizes) != length:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {length} (input tensor's "
            f"size at dimension {plain}), but got split_sizes={list(sizes)}"
        )
    return sizes, plain


@public("torch method", axis=False)
def chunk(self: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Splits a tensor into a number of pieces of equal size, except for the last.

    Args:
        chunks: The number of pieces. There may be fewer if the dimension cannot be divided so.
        dim: The dimension to split.

    Returns:
        A tuple of views of ``input``.

    Example:
        >>> torch.chunk(torch.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return split(self, size_of_chunks(self, chunks, dim), dim)


def size_of_chunks(self: Any, chunks: int, dim: int) -> int | tuple[int, ...]:
    """The size of ``chunks`` pieces, or, of nothing, the sizes of as many."""
    if not self.shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    length = self.shape[one_dim(dim, len(self.shape))]
    return -(-length // chunks) if length else (0,) * chunks


@public("torch method")
def unbind(self: Any, dim: int = 0) -> tuple[Any, ...]:
    """Splits a tensor into its slices along a dimension, which is removed.

    Args:
        dim: The dimension to remove.

    Returns:
        A tuple of views of ``input``.

    Example:
        >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]))
        (tensor([1, 2]), tensor([3, 4]))
    """
    plain = one_dim(dim, len(self.shape))
    if not self.shape:
        raise IndexError(f"Dimension specified as {plain} but tensor has no dimensions")
    return tuple(linear.unbind(self, dim=plain))


@public("torch method", axis=False)
def select(self: Any, dim: int, index: int) -> Any:
    """Selects one slice along a dimension, which is removed.

    Args:
        dim: The dimension to remove.
        index: The index of the slice.

    Returns:
        A view of ``input``.

    Example:
        >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 1, 0)
        tensor([1, 3])
    """
    plain, place = checked_selection(self, dim, index)
    return linear.select(self, dim=plain, index=place)


def checked_selection(self: Any, dim: int, index: int) -> tuple[int, int]:
    """A dimension and a place along it, both counted from the front."""
    if not self.shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    plain = one_dim(dim, len(self.shape))
    size = self.shape[plain]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} "
            f"at dimension {plain}"
        )
    return plain, operator.index(index) % size


@public("torch method", axis=False)
def narrow(self: Any, dim: int, start: int, length: int) -> Any:
    """Selects a range of slices along a dimension.

    Args:
        dim: The dimension to narrow.
        start: The index of the first slice.
        length: The number of slices.

    Returns:
        A view of ``input``.

    Example:
        >>> torch.narrow(torch.arange(5), 0, 1, 3)
        tensor([1, 2, 3])
    """
    return linear.slice_(self, where=checked_narrowing(self, dim, start, length))


def _is_true_or_false(x: Any) -> bool:
    return isinstance(x, bool) or (isinstance(x, TensorLike) and raw(x).dtype.kind == "b")


def checked_narrowing(self: Any, dim: int, start: int, length: int) -> tuple[slice, ...]:
    """The index of ``length`` slices from ``start`` on."""
    if not self.shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, TensorLike) and (start.shape or raw(start).dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    if not all(is_integer(x) and not _is_true_or_false(x) for x in (dim, start, length)):
        raise invalid_combination("narrow", self, dim, start, length)
    length = operator.index(length)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    plain = one_dim(dim, len(self.shape))
    size, start = self.shape[plain], operator.index(start)
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    start += size if start < 0 else 0
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return (*(slice(None),) * plain, slice(start, start + length))


@public("torch method")
def flip(self: Any, *axes: Any, dims: Any = None) -> Any:
    """Reverses the order of elements along dimensions.

    Args:
        *axes: The dimensions, as integers or as one sequence.
        dims: The dimensions as a sequence, passed by keyword.

    Returns:
        A copy with the elements in reverse order.

    Example:
        >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), (0, 1))
        tensor([[4, 3],
                [2, 1]])
    """
    if not axes and dims is None:
        raise TypeError('flip() missing 1 required positional arguments: "dims"')
    given = as_shape(axes if dims is None else (dims,))
    return linear.flip(self, dims=many_dims(given, len(self.shape)) if given else ())
