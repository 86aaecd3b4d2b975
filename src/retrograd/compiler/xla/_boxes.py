"""Writes to regularly spaced elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from retrograd import arrays

np = arrays.programs.numpy


def put_box(memory: Any, value: Any, starts: Sequence[int], steps: Sequence[int]) -> Any:
    """Memory with a value at regularly spaced elements along each dimension.

    This does not use ``lax.dynamic_update_slice``, which XLA also makes of
    ``memory.at[slices].set(value)``. XLA for CPUs fuses it with the operations that compute the
    value, and then writes in place. If the value depends on other elements of a reshaped memory,
    it reads some of them after they were overwritten (seen with jaxlib 0.10.2). A choice for each
    element has no such order. A small part of the memory is written by a scatter.
    """
    if value.shape == memory.shape or not value.size:
        return value if value.size else memory
    if _SMALL * value.size < memory.size and all(step == 1 for step in steps):
        dims = tuple(range(memory.ndim))
        numbers = lax.ScatterDimensionNumbers(tuple([d + 1 for d in dims]), (), dims)
        positions = [
            two_positions(np.array([start]), size)
            for start, size in zip(starts, memory.shape, strict=True)
        ]
        return lax.scatter(
            memory, np.stack(positions, axis=1), jnp.stack([value, value]), numbers,
            unique_indices=True, mode="drop",
        )  # fmt: skip
    inside = np.zeros((), bool) | True
    padding = []
    for d, (n, start, step) in enumerate(zip(value.shape, starts, steps, strict=True)):
        end = start + (n - 1) * step + 1
        padding.append((start, memory.shape[d] - end, step - 1))
        if n < memory.shape[d]:
            positions_along = lax.broadcasted_iota("int64", memory.shape, d)
            here = (positions_along >= start) & (positions_along < end)
            inside &= here if step == 1 else here & ((positions_along - start) % step == 0)
    return jnp.where(inside, lax.pad(value, jnp.zeros((), value.dtype), padding), memory)


def two_positions(positions: Any, size: int) -> Any:
    """Positions to write at along a dimension, with one outside if there is a single one. XLA makes
    ``lax.dynamic_update_slice`` of a scatter at a single constant position. See ``put_box``."""
    return positions if len(positions) != 1 else np.append(positions, size)


_SMALL = 8  # a part is small if the memory has at least this many times its size
