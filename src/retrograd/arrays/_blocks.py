"""Processing large arrays in blocks of rows, on several threads.

A kernel computes some rows of the result from the same rows of its arguments, step by step, each
step in the memory of the last. On a block these steps stay in the cache, where on the whole array
each would go through main memory. NumPy lets go of the interpreter lock while it computes, so
blocks run side by side.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.arrays._numpy import Raw, sigmoid, sigmoid_into

# Of one array. Smaller blocks would fit smaller caches, but each step on each block is a call of
# NumPy, and on blocks of 256 KB these calls take longer than what the cache saves.
BLOCK_BYTES = 1 << 20


class _Workers:
    """The threads that share the work, made when first needed."""

    def __init__(self) -> None:
        self.count = _available_processors()
        self._pool: Any = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Threads do not survive a fork."""
        self._pool = None

    def set_count(self, count: int) -> None:
        pool, self._pool, self.count = self._pool, None, count
        if pool is not None:
            pool.shutdown(wait=False)

    def run(self, work: Callable[[int], None]) -> None:
        """``work(0)``, ``work(1)``, ... one for each thread, the first in the calling one."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # takes longer than all else here

            self._pool = ThreadPoolExecutor(max(self.count - 1, 1), "retrograd")
        others = [self._pool.submit(work, n) for n in range(1, self.count)]
        try:
            work(0)
        finally:
            for other in others:
                if not other.cancel():  # what has not begun is not needed any more
                    other.result()


def _available_processors() -> int:
    """As many threads as there are processors to run on, or as the environment says."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdecimal() and int(said):
        return int(said)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


workers = _Workers()


def run(kernel: Callable[..., Any], *rows: Raw | None) -> None:
    """``kernel(*blocks)`` for every block of rows of some arrays, which share their first axis.

    The kernel writes into those of its arguments that are results. An argument of None is handed on
    as it is.
    """
    first = next(x for x in rows if x is not None)
    count = len(first)
    if not count:
        return
    size = max(x.nbytes for x in rows if x is not None)
    step = max(1, min(count, BLOCK_BYTES * count // max(size, 1)))
    if workers.count == 1 or step == count:
        for start in range(0, count, step):
            kernel(*[x if x is None else x[start : start + step] for x in rows])
        return
    starts = iter(range(0, count, step))  # each thread takes the next block that nobody has

    def share(number: int) -> None:
        for start in starts:
            kernel(*[x if x is None else x[start : start + step] for x in rows])

    workers.run(share)


# NumPy copies what is broadcast along rows that fit its buffer, which takes as long as the
# arithmetic. With a buffer this small it leaves all but short rows as they are.
_BUFFER = 1024  # elements


def with_small_buffer(kernel: Callable[..., Any]) -> Callable[..., None]:
    """A kernel that works on rows with columns, or with one row for all."""

    def buffered(*rows: Raw | None) -> None:
        before = np.setbufsize(_BUFFER)
        try:
            kernel(*rows)
        finally:
            np.setbufsize(before)

    return buffered


TILE_BYTES = 1 << 18  # of one array: several of them fit the cache next to each other


def by_blocks(kernel: Callable[..., None], shape: tuple[int, ...], *arrays: Raw) -> None:
    """``kernel(*blocks)`` for blocks of arrays that lie row by row in memory.

    Arrays are taken to have ``shape``, which is rows and their width or a count of elements, or
    one element for each row.
    """
    if len(shape) == 2:
        kernel = with_small_buffer(kernel)
    size = math.prod(shape)
    rows = [x.reshape(shape if x.size == size else (shape[0], 1)) for x in arrays]
    count = shape[0]
    widest = max(x.nbytes for x in rows)
    pieces = max(1, widest // TILE_BYTES)
    step = -(-count // pieces)  # of about equal size, so that none is small
    starts = iter(range(0, count, step))

    def share(number: int) -> None:
        for start in starts:
            kernel(*[x[start : start + step] for x in rows])

    if workers.count == 1 or step >= count:
        share(0)
    else:
        workers.run(share)


def pointwise(function: Callable[..., Raw], x: Raw) -> Raw:
    """``function(x)``, for a function that works element by element."""
    if not isinstance(x, np.ndarray) or not x.flags.c_contiguous or x.dtype.kind != "f":
        return function(x)
    out = np.empty_like(x)
    into = sigmoid_into if function is sigmoid else function
    by_itself = isinstance(function, np.ufunc) or function is sigmoid

    def fill(x: Raw, out: Raw) -> None:
        if by_itself:
            into(x, out)
        else:
            out[...] = function(x)

    run(fill, x.reshape(-1), out.reshape(-1))
    return out


WORTH_SHARING = 1 << 13  # elements


def in_blocks(kernel: Callable[..., Raw], *operands: Any) -> Raw:
    """``kernel(*operands)``, whose results depend on the elements at the same place only. Operands
    that are not large arrays in reading order and of the shape of the first are no reason to share.
    """
    first = operands[0]
    if not isinstance(first, np.ndarray) or first.size < WORTH_SHARING:
        return kernel(*operands)
    whole = [x if np.ndim(x) else None for x in operands]
    if any(x is not None and not _alike(x, first) for x in whole):
        return kernel(*operands)
    result = np.empty(first.shape, np.result_type(*operands))

    def fill(out: Raw, *parts: Raw | None) -> None:
        out[...] = kernel(*[o if p is None else p for o, p in zip(operands, parts, strict=True)])

    flat = [None if x is None else x.reshape(-1) for x in whole]
    run(fill, result.reshape(-1), *flat)
    return result


def _alike(x: Raw, first: Raw) -> bool:
    return bool(x.shape == first.shape and x.flags.c_contiguous)
