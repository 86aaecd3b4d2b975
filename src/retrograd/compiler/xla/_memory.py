"""Memory that XLA and NumPy arrays share, and the order of its dimensions."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import jax.numpy as jnp

from retrograd import arrays
from retrograd.compiler._program import Var

np = arrays.programs.numpy


class Memory:
    """Memory of an XLA array: the ``base`` of the NumPy arrays that are views of it."""

    array: Any  # the XLA array, kept alive


class Room:
    """A preallocated XLA array for an argument, and a NumPy view of it.

    Converting a NumPy array to an XLA array takes longer than most programs on small arrays, and
    XLA copies memory that is not aligned to 64 bytes anyway. ``array`` is overwritten between calls
    although XLA's arrays are immutable. Therefore it is only passed to calls that are waited for.
    """

    __slots__ = ("array", "shown")

    def __init__(self, shape: tuple[int, ...], dtype: Any, order: tuple[int, ...] | None) -> None:
        self.array = jnp.zeros(ordered(shape, order), dtype)
        shown = shown_at(self.array.unsafe_buffer_pointer(), self.array.shape, np.dtype(dtype))
        self.shown = shown if order is None else shown.transpose(inverse(order))


def shown_at(address: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """A NumPy array at an address. The caller has to keep the memory alive."""
    size = dtype.itemsize * int(np.prod(shape, dtype=int))
    return np.ndarray(shape, dtype, block_of(size).from_address(address))


@functools.cache
def block_of(size: int) -> Any:
    """The type of a block of memory with the given number of bytes."""
    return type("Block", (ctypes.c_char * size, Memory), {})


def is_dense(v: Var) -> bool:
    """Whether a variable is contiguous in row-major order."""
    reach = int(v.dtype.itemsize)
    for size, step in zip(reversed(v.shape), reversed(v.strides), strict=True):
        if size != 1 and step != reach:
            return False
        reach *= size
    return 0 not in v.shape


def memory_order(v: Var) -> tuple[int, ...] | None:
    """The dimensions of a variable by decreasing stride, if it is dense but not in row-major order.
    None otherwise."""
    sizes = [(step, size) for step, size in zip(v.strides, v.shape, strict=True) if size != 1]
    if 0 in v.shape or any(step <= 0 for step, _ in sizes):
        return None
    order = sorted(range(len(v.shape)), key=lambda d: -v.strides[d])
    if order == list(range(len(v.shape))):
        return None
    reach = int(v.dtype.itemsize)
    for d in reversed(order):
        if v.shape[d] != 1:
            if v.strides[d] != reach:
                return None
            reach *= v.shape[d]
    return tuple(order)


def ordered(shape: tuple[int, ...], order: tuple[int, ...] | None) -> tuple[int, ...]:
    return shape if order is None else tuple([shape[d] for d in order])


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=lambda d: order[d]))
