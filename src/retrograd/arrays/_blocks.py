"""Large arrays worked on in blocks of rows that fit a processor's cache, on several threads.

A kernel computes some rows of the result from the same rows of its arguments, step by step, each
step in the memory of the last. On a block these steps stay in the cache, where on the whole array
each would go through main memory. NumPy lets go of the interpreter lock while it computes, so
blocks run side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from retrograd.arrays._numpy import Raw

BLOCK_BYTES = 1 << 18  # of one array: a few of them fit the second-level cache of most processors
PARALLEL_BYTES = 1 << 19  # below this, handing work to another thread costs more than it saves


class _Workers:
    """The threads that share the work, made when first needed."""

    def __init__(self) -> None:
        self.count = _available_processors()
        self._pool: ThreadPoolExecutor | None = None
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


def run(kernel: Callable[..., Any], *rows: Raw | None, work: int = 1) -> None:
    """``kernel(*blocks)`` for every block of rows of some arrays, which share their first axis.

    The kernel writes into those of its arguments that are results. An argument of None is handed on
    as it is. ``work`` is how many passes over the block the kernel makes, roughly: what takes
    longer pays on more threads sooner.
    """
    first = next(x for x in rows if x is not None)
    count = len(first)
    if not count:
        return
    size = max(x.nbytes for x in rows if x is not None)
    step = max(1, min(count, BLOCK_BYTES * count // max(size, 1)))
    threads = workers.count if size * work >= PARALLEL_BYTES else 1
    threads = min(threads, -(-count // step) if step < count else 1)
    if threads == 1 or step * 2 > count:
        for start in range(0, count, step):
            kernel(*[x if x is None else x[start : start + step] for x in rows])
        return
    starts = iter(range(0, count, step))  # each thread takes the next block that nobody has

    def share(number: int) -> None:
        for start in starts:
            kernel(*[x if x is None else x[start : start + step] for x in rows])

    workers.run(share)
