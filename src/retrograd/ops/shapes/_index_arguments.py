"""Index arguments: what PyTorch accepts as indices, and its errors for anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import copies
from retrograd.ops._dims import numel
from retrograd.ops._lifted import Lifted, bare, checked_by_line, device_value
from retrograd.ops._operation import TensorLike, raw


def tensor_argument(function: str, name: str, value: Any, position: int) -> None:
    """TypeError for an argument that must be a tensor and is none. Positions are counted as for
    methods, from 1 after ``self``."""
    if not isinstance(value, TensorLike) and not arrays.is_raw(value):
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be Tensor, not "
            f"{type(value).__name__}"
        )


def size_along(shape: Sequence[int], dim: int) -> int:
    """The size of a dimension; a zero-dimensional tensor counts as having one of size 1."""
    return shape[dim] if shape else 1


def nonempty_size(shape: Sequence[int], dim: int) -> int:
    """As ``size_along``, for a dimension that may not be there."""
    if shape and dim >= len(shape):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-len(shape)}, "
            f"{len(shape) - 1}], but got {dim})"
        )
    return size_along(shape, dim)


def is_index(x: Raw) -> bool:
    return is_index_dtype(x.dtype)


def is_index_dtype(dtype: Any) -> bool:
    """Whether it is int64 or int32. (The name of a dtype takes NumPy long to find.)"""
    return bool(dtype.kind == "i" and dtype.itemsize >= 4)


def is_byte(dtype: Any) -> bool:
    return bool(dtype.kind == "u" and dtype.itemsize == 1)


def check_in_bounds(
    indices: Raw, dim: int, size: int, words: str = "", negative: bool = False,
    error: type[Exception] = RuntimeError,
) -> None:  # fmt: skip
    """Refuse indices along ``dim`` that are not there; only some functions count from the end."""
    if isinstance(indices, Lifted):
        if device_value(indices) is not None:
            return  # what the operation expects is asked when the device has computed it
        if checked_by_line(check_in_bounds, indices, dim, size, words, negative, error):
            return
        indices = bare(indices, looks=False)
    bad = arrays.sorting.outside(indices, -size if negative else 0, size)
    if bad is not None:
        words = words or "index {} is out of bounds for dimension {} with size {}"
        raise error(words.format(bad, dim, size))


def check_same_dtype(words: str, self: Any, other: Any) -> None:
    """RuntimeError for two tensors of different dtypes; braces in ``words`` stand for these."""
    have, want = raw(other).dtype, raw(self).dtype
    if have != want:
        raise RuntimeError(words.format(dtypes.type_word(want), dtypes.type_word(have)))


# -- index arrays, as in x[...] --------------------------------------------------------------


def as_indices_or_mask(x: Raw) -> Raw:
    """A raw array as an index: integers, or a mask (which bytes are, too)."""
    dtype = x.dtype
    if dtype.kind == "b" or is_index_dtype(dtype):
        return x
    if not is_byte(dtype):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return copies.to_dtype(x, dtype=arrays.bool_)


def check_index(index: Raw, shape: Sequence[int], dim: int, position: int) -> None:
    """Whether an index array fits a tensor of ``shape`` from dimension ``dim`` on.
    ``position`` is the number of the array among all that index."""
    if index.dtype.kind == "b":
        for k, size in enumerate(index.shape):
            if shape[dim + k] != size:
                raise IndexError(
                    f"The shape of the mask {list(index.shape)} at index {k} does not match the "
                    f"shape of the indexed tensor {list(shape)} at index {dim + k}"
                )
        return
    size = shape[dim]
    if index.size and not size:
        raise IndexError("index is out of bounds for dimension with size 0")
    check_in_bounds(index, position, size, negative=True, error=IndexError)


def check_index_put(
    self: Any, values: Any, where_to: tuple[Any, ...], accumulate: bool = False
) -> None:
    """Whether the shape and dtype of values let them be put at an index. PyTorch converts a single
    value that is put at a mask and not added, and no other."""
    indices = [place for place in where_to if hasattr(place, "dtype")]  # not slices
    at_mask = len(indices) == 1 and indices[0].dtype.kind == "b"
    if at_mask and not accumulate and numel(values.shape) == 1:
        if arrays.is_raw(value := raw(values)):
            # or the error that it does not fit
            arrays.as_value(value.reshape(()) if value.ndim else value, raw(self).dtype)
    else:
        check_same_dtype(
            "Index put requires the source and destination dtypes match, got {} for the "
            "destination and {} for the source.", self, values,
        )  # fmt: skip
