"""The number of threads of NumPy's BLAS.

By itself it takes all processors, for products of a few microseconds too. On those, threads wait
for each other longer than they compute: five times as long in the training of a small network.
"""

from __future__ import annotations

import ctypes
import importlib
from importlib import metadata

import numpy as np

# The names in OpenBLAS as NumPy's wheels have it, and as others build it.
_NAMES = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_",
          "openblas_set_num_threads")  # fmt: skip


def set_threads(count: int) -> bool:
    """Let products use up to ``count`` threads. False if this BLAS cannot be told."""
    try:
        own = importlib.import_module("numpy._core._multiarray_umath")
        library = ctypes.CDLL(own.__file__)
    except (AttributeError, ImportError, OSError):
        return False
    for name in _NAMES:
        if hasattr(library, name):  # found in the libraries that NumPy's own is linked with
            getattr(library, name)(ctypes.c_int(count))
            return True
    return False


def described() -> list[str]:
    """The versions of NumPy, SciPy and BLAS."""
    built: dict[str, dict[str, dict[str, str]]] = np.show_config(mode="dicts")  # type: ignore[assignment]
    blas = built.get("Build Dependencies", {}).get("blas", {})
    named = f"BLAS {blas.get('name', 'unknown')} {blas.get('version', '')}".rstrip()
    return [f"NumPy {np.__version__}", f"SciPy {metadata.version('scipy')}", named]
