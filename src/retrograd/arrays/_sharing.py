"""Arrays in memory shared between processes, passed by file descriptor."""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import numpy as np


class Memory(mmap.mmap):
    """Memory that forked processes have in common, and others that get its file descriptor."""

    descriptor: int

    def __new__(cls, descriptor: int, size: int) -> Memory:
        memory = super().__new__(cls, descriptor, size)
        memory.descriptor = descriptor
        return memory

    def __del__(self) -> None:
        os.close(self.descriptor)


def _new_file(size: int) -> int:
    """A file without a name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tensor")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def memory_of(array: Any) -> Memory | None:
    """The shared memory that an array is in, if it is in one."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, Memory) else None


def shared(array: Any) -> Any:
    """A copy of an array in shared memory, with elements in the same order."""
    ForkingPickler.register(np.ndarray, _reduced)
    array = np.asarray(array)
    like = np.empty_like(array)
    size = max(like.nbytes, 1)
    copied = _placed(Memory(_new_file(size), size), like.shape, like.dtype, 0, like.strides)
    copied[...] = array
    return copied


def _placed(memory: Memory, shape: Any, dtype: Any, offset: int, strides: Any) -> Any:
    return np.ndarray(shape, dtype, memory, offset, strides)


def _reduced(array: Any) -> Any:
    """How an array is sent to another process: one in shared memory by where it is."""
    memory = memory_of(array)
    if memory is None:
        return array.__reduce_ex__(2)
    start = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    offset = array.__array_interface__["data"][0] - start
    described = (array.shape, array.dtype, offset, array.strides)
    return _received, (DupFd(memory.descriptor), len(memory), *described)


def _received(handle: Any, size: int, *described: Any) -> Any:
    return _placed(Memory(handle.detach(), size), *described)
