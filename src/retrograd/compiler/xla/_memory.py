"""Memory shared between XLA and NumPy arrays, and the order of its dimensions."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import jax.numpy as jnp

from retrograd import arrays
from retrograd.compiler._program import Var

np = arrays.programs.numpy


class Memory:
    """Memory of XLA, which NumPy's arrays show: the ``base`` of these."""

    array: Any  # XLA's, which lives as long


class Room:
    """Memory of XLA for an argument. Making an array of XLA of one of NumPy takes longer than most
    programs on small arrays, and XLA copies what does not begin at a multiple of 64 bytes anyway.
    ``array`` is written between two calls, which XLA does not expect of its arrays, so nothing but
    a call that is waited for may get to see it."""

    __slots__ = ("array", "shown")

    def __init__(self, shape: tuple[int, ...], dtype: Any, order: tuple[int, ...] | None) -> None:
        self.array = jnp.zeros(ordered(shape, order), dtype)
        shown = shown_at(self.array.unsafe_buffer_pointer(), self.array.shape, np.dtype(dtype))
        self.shown = shown if order is None else shown.transpose(inverse(order))


def shown_at(address: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of NumPy that shows memory, which somebody else has to keep."""
    size = dtype.itemsize * int(np.prod(shape, dtype=int))
    return np.ndarray(shape, dtype, block_of(size).from_address(address))


@functools.cache
def block_of(size: int) -> Any:
    """The type of so many bytes of such memory."""
    return type("Block", (ctypes.c_char * size, Memory), {})


def is_dense(v: Var) -> bool:
    """Whether a variable is laid out row by row and fills its memory."""
    reach = int(v.dtype.itemsize)
    for size, step in zip(reversed(v.shape), reversed(v.strides), strict=True):
        if size != 1 and step != reach:
            return False
        reach *= size
    return 0 not in v.shape


def memory_order(v: Var) -> tuple[int, ...] | None:
    """The order of dimensions that a variable lies in memory by, from the longest steps to the
    shortest, if it fills its memory and is not laid out row by row. None otherwise."""
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
