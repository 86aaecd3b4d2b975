"""Caches by signature. Most contain compiled functions. They are emptied when they are full.

XLA compiles a function for each signature of an operation. On the CPU, a function takes one or two
megabytes and several memory mappings, of which Linux allows a process 65,530. A program that keeps
using new shapes would run out of both.
"""

from __future__ import annotations

import gc
import itertools
from typing import Any

MOST_FUNCTIONS = 2000  # compilations after which all caches are emptied
_numbers = itertools.count(1)
_caches: list[Cache] = []  # never removed: there are a few for each operation


class Cache(dict[Any, Any]):
    """A dictionary that is emptied before it has more than ``most`` entries, and by
    ``count_function``. Another thread may empty it at any time, so use ``get``, and keep the
    result: a key that was found may be gone at the next access."""

    __slots__ = ("most",)

    def __init__(self, most: int = 10_000) -> None:
        super().__init__()
        self.most = most
        _caches.append(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= self.most:
            self.clear()
        super().__setitem__(key, value)


def count_function() -> None:
    """Count a function that is about to be compiled, and empty all caches after every
    ``MOST_FUNCTIONS``. Functions that are used again are compiled again. Programs of
    ``torch.compile`` are kept."""
    if next(_numbers) % MOST_FUNCTIONS == 0:
        for cache in _caches:
            cache.clear()
        gc.collect()  # compiled functions are parts of reference cycles
