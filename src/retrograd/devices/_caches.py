"""Caches of compiled functions, which are emptied when they hold too many.

XLA compiles a function for each signature of an operation. On the CPU it takes one or two megabytes
and about six memory mappings, of which Linux allows a process 65,530. So a program that goes on
meeting new shapes would run out of either.
"""

from __future__ import annotations

import gc
import itertools
from typing import Any

from retrograd.devices import _platforms

MOST = 2000  # functions in all caches together
_numbers = itertools.count(1)
_caches: list[Cache] = []  # for as long as the program runs: there are a few for each operation


class Cache(dict[Any, Any]):
    """Compiled functions, or what contains them, by signature."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        _caches.append(self)


def count_function() -> None:
    """Count a function that is about to be compiled, and empty all caches after every ``MOST``.
    Functions that are still needed are compiled again."""
    if next(_numbers) % MOST == 0:
        for cache in _caches:
            cache.clear()
        _platforms.jax().clear_caches()
        gc.collect()  # compiled functions are parts of reference cycles
