"""Reuse of the memory of freed arrays.

The C library of most Linux systems gives the memory of large arrays back to the system as soon as
they are freed. The next array of that size then gets it anew, page by page, each filled with zeros
first: that takes longer than most things one does with an array of a million elements. A training
step frees and makes arrays of the same sizes over and over, so up to 256 MB are kept instead.

This is asked for when the first graph is recorded, or the first transform begins. Who sets glibc's
own variables MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_THRESHOLD_ is left alone.
"""

from __future__ import annotations

import os
import sys
from functools import cache

KEPT_BYTES = 256 << 20
LARGEST_KEPT = 64 << 20  # an array above this always goes back to the system
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, in malloc.h


@cache
def keep_freed_memory() -> bool:
    """Make the C library keep freed memory for reuse; False if it is not supported."""
    chosen = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"} & os.environ.keys()
    if not sys.platform.startswith("linux") or chosen:
        return False
    import ctypes  # which NumPy has loaded already

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:  # another C library than glibc
        return False
    trim = set_option(_TRIM_THRESHOLD, KEPT_BYTES)
    return bool(trim and set_option(_MMAP_THRESHOLD, LARGEST_KEPT))
