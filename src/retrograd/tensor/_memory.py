"""Tensors with given strides, or in the memory of another object: empty_strided, frombuffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.ops._sections import complete_all
from retrograd.tensor._creation import MEANINGS, new_tensor, numpy_dtype, size_of
from retrograd.tensor._tensor import Tensor


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0,
               requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Creates a tensor that shares the memory of an object with the buffer protocol.

    Args:
        buffer: The object, such as a bytearray.
        dtype: The dtype of the elements.
        count: The number of elements. By default, all that fit.
        offset: The number of bytes to skip at the start.

    Returns:
        A 1-D tensor.

    Example:
        >>> torch.frombuffer(bytearray(b"ab"), dtype=torch.uint8)
        tensor([97, 98], dtype=torch.uint8)
    """
    wanted = numpy_dtype(dtype, name="frombuffer")
    try:
        length = memoryview(buffer).nbytes
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    each = wanted.itemsize
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % each:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({each})"
        )
    if count * each > length - offset:
        raise ValueError(
            f"requested buffer length ({count} * {each} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({length} bytes)"
        )
    data = arrays.from_buffer(buffer, wanted, count, offset)
    return new_tensor(data, requires_grad, name="frombuffer")


def empty_strided(size: Sequence[int], stride: Sequence[int], *, dtype: Any = None,
                  layout: Any = None, device: Any = None, pin_memory: bool = False,
                  requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Creates an uninitialized tensor with a given stride.

    Args:
        size: The shape of the result.
        stride: The stride of each dimension, in elements.
        dtype: The dtype of the result.

    Example:
        >>> torch.empty_strided((2, 3), (1, 2)).stride()
        (1, 2)
    """
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides "
            f"({len(stride)})"
        )
    shape = size_of("empty_strided", (tuple(size),))
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(size)} and "
            f"strides={list(stride)}"
        )
    wanted = numpy_dtype(dtype, name="empty_strided")
    data = arrays.empty_strided(shape, tuple(stride), wanted)
    return new_tensor(data, requires_grad, device, "empty_strided")


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], *, dtype: Any = None,
                   layout: Any = None, device: Any = None, pin_memory: bool = False,
                   requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Creates an uninitialized tensor whose dimensions have a given order in memory.

    Args:
        size: The shape of the result.
        physical_layout: The dimensions from the outermost in memory to the innermost.
        dtype: The dtype of the result.

    Returns:
        An uninitialized tensor without gaps in memory.

    Example:
        >>> torch.empty_permuted((2, 3), (1, 0)).stride()
        (1, 2)
    """
    shape, order = size_of("empty_permuted", (tuple(size),)), tuple(physical_layout)
    if len(order) != len(shape):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for place, d in enumerate(order):
        if not 0 <= d < len(shape):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got "
                f"{d} at index {place}).  NB: negative dims not currently supported; file an issue "
                "if you want it."
            )
        if d in order[:place]:
            raise RuntimeError("Duplicate dim not allowed")
    wanted = numpy_dtype(dtype, name="empty_permuted")
    data = arrays.empty(tuple(shape[d] for d in order), wanted)
    dims = tuple(order.index(d) for d in range(len(order)))
    return new_tensor(arrays.permute(data, dims), requires_grad, device, "empty_permuted")


complete_all(globals(), MEANINGS)
