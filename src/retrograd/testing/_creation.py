"""``make_tensor``: random tensors for tests."""

from __future__ import annotations

import math
from typing import Any

from retrograd.arrays import dtypes
from retrograd.ops.shapes.reshaping import view_as_real
from retrograd.tensor._creation import empty
from retrograd.tensor._limits import finfo, iinfo
from retrograd.tensor._randoms import randint
from retrograd.tensor._tensor import Tensor


def make_tensor(
    *shape: Any, dtype: Any, device: Any = None, low: Any = None, high: Any = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Create a tensor of random numbers from ``[low, high)``.

    Args:
        shape: the shape, as integers or as one sequence.
        dtype: the dtype.
        device: the device.
        low: the lowest number; by default -9, or the lowest of the dtype if that is higher.
        high: the number above the highest one; by default 9, or 10 for integers.
        requires_grad: whether operations on the result are recorded for autograd.
        noncontiguous: whether there are gaps between the elements in memory.
        exclude_zero: whether zeros are replaced by small numbers.
        memory_format: the order of elements in memory.

    Returns:
        The tensor.

    Example:
        >>> torch.testing.make_tensor(2, 3, dtype=torch.int64).shape
        torch.Size([2, 3])
    """
    size = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)
    exact = not (dtype.is_floating_point or dtype.is_complex)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous!r} and memory_format={memory_format!r}"
        )
    if requires_grad and exact:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"dtype={dtype!r}"
        )
    noncontiguous = noncontiguous and math.prod(size) > 1
    if noncontiguous:
        size = (*size[:-1], 2 * size[-1])
    low, high = _bounds(dtype, low, high)
    if exact:
        result = randint(math.ceil(low), math.ceil(high), size, dtype=dtype, device=device)
    else:
        result = empty(size, dtype=dtype, device=device)
        _fill(view_as_real(result) if dtype.is_complex else result, low, high)
    if noncontiguous:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if exact else finfo(dtype).tiny
    return result.requires_grad_() if requires_grad else result


def _fill(target: Tensor, low: float, high: float) -> None:
    """Uniform numbers; of a range that is too wide for one call, in halves."""
    if high - low >= finfo(target.dtype).max:
        target.uniform_(low / 2, high / 2).mul_(2)
    else:
        target.uniform_(low, high)


def _bounds(dtype: Any, low: Any, high: Any) -> tuple[float, float]:
    if dtype is dtypes.bool_:
        least, above, usual = 0.0, 2.0, (0, 2)
    elif dtype.is_floating_point or dtype.is_complex:
        limits: Any = finfo(dtype)
        least, above, usual = limits.min, limits.max, (-9, 9)
    else:
        limits = iinfo(dtype)
        least, above, usual = limits.min, limits.max + (dtype is not dtypes.int64), (-9, 10)
    low = usual[0] if low is None else low
    high = usual[1] if high is None else high
    if any(isinstance(x, float) and math.isnan(x) for x in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low!r} and high={high!r}")
    if low > high or (low == high and not (dtype.is_floating_point or dtype.is_complex)):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if high < least or low >= above:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} "
            f"only supports [{least}, {above})"
        )
    return min(max(low, least), above), min(max(high, least), above)
