"""Writes to a part of some memory. The result is new memory, with the other elements unchanged.

The part is described by view operations. A view may have another dtype than the memory (the real
parts of complex numbers, the bits of floats). Memory and value are then both divided into units,
elements of the smaller of the two dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from retrograd import arrays
from retrograd.compiler.xla._boxes import put_box
from retrograd.compiler.xla._elementwise import to_dtype
from retrograd.compiler.xla._shapes import reinterpreted
from retrograd.compiler.xla._table import lowering

np = arrays.programs.numpy


@lowering("put")
def _put(base: Any, value: Any, views: Sequence[Any] = ()) -> Any:
    layout = arrays.layout.reserved(base.shape, base.dtype)
    for view in views:
        layout = view(layout)
    value = jnp.broadcast_to(to_dtype(jnp.asarray(value), layout.dtype), layout.shape)
    if not views or not layout.size:
        return (base if views else value,)
    shape, strides, start = layout.shape, arrays.strides(layout), arrays.layout.offset(layout)
    unit, memory_shape = base.dtype, base.shape
    if (count := base.dtype.itemsize // layout.dtype.itemsize) > 1:
        unit, memory_shape = layout.dtype, (*memory_shape, count)
    elif (count := layout.dtype.itemsize // base.dtype.itemsize) > 1:
        shape, strides, start = (*shape, count), (*[s * count for s in strides], 1), start * count
    elif layout.dtype != base.dtype:
        unit = layout.dtype
    memory = reinterpreted(base, unit).reshape(memory_shape)
    units = reinterpreted(value, unit).reshape(shape)
    memory = _written(memory, units, strides, start)
    return (reinterpreted(memory, base.dtype).reshape(base.shape),)


def _written(memory: Any, value: Any, strides: tuple[int, ...], start: int) -> Any:
    """Memory with a value at the elements described by strides and ``start``, in elements."""
    box = _find_box(memory.shape, value.shape, strides, start)
    if box is not None:
        value = jnp.transpose(value, box.order).reshape(box.sizes)
        return put_box(memory, value, box.starts, box.steps)
    positions = np.full(value.shape, start)
    for d, (n, stride) in enumerate(zip(value.shape, strides, strict=True)):
        positions += (np.arange(n) * stride).reshape(-1, *(1,) * (value.ndim - d - 1))
    return memory.reshape(-1).at[jnp.asarray(positions)].set(value).reshape(memory.shape)


class _Box(NamedTuple):
    """Regularly spaced elements along each dimension of some memory."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    order: tuple[int, ...]  # for each dimension of the memory, that of the view


def _find_box(
    memory: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...], start: int
) -> _Box | None:
    """The box that a view consists of, which can be written without a list of positions. None if
    the view is not a box, such as a diagonal."""
    steps_of = [math.prod(memory[d + 1 :]) for d in range(len(memory))]
    starts = [start // step % n for step, n in zip(steps_of, memory, strict=True)]
    sizes, steps, along = [1] * len(memory), [1] * len(memory), {}
    for i, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        if n == 1:
            continue
        wide = [d for d, step in enumerate(steps_of) if step <= stride and memory[d] > 1]
        if not wide or wide[0] in along or stride % steps_of[wide[0]]:
            return None
        d = wide[0]
        sizes[d], steps[d], along[d] = n, stride // steps_of[d], i
        if starts[d] + (n - 1) * steps[d] >= memory[d]:
            return None
    single = [i for i, n in enumerate(shape) if n == 1]
    order = (*[along[d] for d in sorted(along)], *single)
    return _Box(tuple(starts), tuple(sizes), tuple(steps), order)
