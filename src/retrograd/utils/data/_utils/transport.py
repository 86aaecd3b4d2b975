"""Sending batches from a worker to the main process.

A message is pickled and goes through the worker's pipe. The memory of large arrays does not: the
worker writes it to a piece of shared memory that has no name, only a file descriptor, and sends
that along. The receiver maps it, so its arrays lie in that very memory. The system frees it when
the last array or process that has it is gone, however that comes about: nothing can be left behind.
"""

from __future__ import annotations

import mmap
import os
import pickle
import weakref
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

# Smaller arrays are faster through the pipe, where a copy costs less than the calls that share.
SHARED_FROM = 128 << 10
_ALIGNMENT = 64  # of arrays, which kernels like to begin at the start of a cache line
# Python keeps a file descriptor open for each mapping, and there may be only a thousand. Who keeps
# more batches than this gets copies of the others.
_MOST_MAPPED = 64

_can_share = hasattr(os, "memfd_create")
_mapped: weakref.WeakSet[Any] = weakref.WeakSet()


class Parcel:
    """What came for a task: not unpickled before it is that task's turn."""

    __slots__ = ("_buffers", "_pickled", "kind")

    def __init__(self, kind: str, pickled: bytes, buffers: list[memoryview]) -> None:
        self.kind = kind
        self._pickled = pickled
        self._buffers = buffers

    def open(self) -> Any:
        """The object that was sent."""
        return pickle.loads(self._pickled, buffers=self._buffers)


class Packed:
    """What belongs to a task, ready to be sent."""

    __slots__ = ("_message", "_shared")

    def __init__(self, task: int, kind: str, content: Any) -> None:
        large: list[memoryview] = []

        def stays_inside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < SHARED_FROM or not _can_share:
                return True
            large.append(raw)
            return False

        pickled = pickle.dumps(content, 5, buffer_callback=stays_inside)
        self._shared = _shared(large) if large else None
        if large and self._shared is None:  # the system has no more such memory to give
            pickled, large = pickle.dumps(content, 5), []
        sizes = [raw.nbytes for raw in large]
        self._message = pickle.dumps((task, kind, sizes, pickled), 5)

    def send(self, connection: Connection) -> None:
        """Send it, once."""
        try:
            connection.send_bytes(self._message)
            if self._shared is not None:
                send_handle(connection, self._shared, None)
        finally:
            if self._shared is not None:
                os.close(self._shared)


def receive(connection: Connection) -> tuple[int, Parcel]:
    """The next message: its task and its contents."""
    task, kind, sizes, pickled = pickle.loads(connection.recv_bytes())
    buffers: list[memoryview] = []
    if sizes:
        shared = recv_handle(connection)
        try:
            memory = memoryview(_memory_of(shared, sum(map(_aligned, sizes))))
        finally:
            os.close(shared)
        start = 0
        for size in sizes:
            buffers.append(memory[start : start + size])
            start += _aligned(size)
    return task, Parcel(kind, pickled, buffers)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _shared(pieces: list[memoryview]) -> int | None:
    """The file descriptor of new shared memory with some pieces in it; None if there is no room."""
    try:
        shared = os.memfd_create("retrograd")
    except OSError:
        return None
    try:
        start = 0
        for piece in pieces:
            written = 0
            while written < piece.nbytes:  # at most 2 GB at a time
                written += os.pwrite(shared, piece[written:], start + written)
            start += _aligned(piece.nbytes)
        os.ftruncate(shared, start)
    except BaseException as error:
        os.close(shared)
        if isinstance(error, OSError):
            return None
        raise
    return shared


def _memory_of(shared: int, size: int) -> Any:
    """Shared memory, writable: mapped, or copied where that is the better way."""
    if len(_mapped) < _MOST_MAPPED:
        try:
            # All pages at once: one by one, as they are touched, takes longer than a copy.
            mapping = mmap.mmap(shared, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        except OSError:
            mapping = None  # too many files open, or too many mappings
        if mapping is not None:
            _mapped.add(mapping)
            return mapping
    copied = bytearray(size)
    room, read = memoryview(copied), 0
    while read < size:
        read += os.preadv(shared, [room[read:]], read)
    return copied
