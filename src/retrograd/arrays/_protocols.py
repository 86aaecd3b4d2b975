"""What NumPy's protocols need to know about NumPy: its functions, dtypes and index arithmetic."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from retrograd.arrays import _dtypes as dtypes


def library_of(ufunc: Any) -> str:
    """The module that has a ufunc by its own name: ``numpy``, ``scipy.special``, or ``""``."""
    for module in ("numpy", "scipy.special", "scipy.special._ufuncs"):
        if getattr(sys.modules.get(module), ufunc.__name__, None) is ufunc:
            return module.removesuffix("._ufuncs")
    return ""


def ufuncs() -> dict[str, Any]:
    """NumPy's ufuncs by name."""
    return {f.__name__: f for f in vars(np).values() if isinstance(f, np.ufunc)}


def dtype_of(given: Any) -> dtypes.dtype:
    """The dtype that anything which NumPy takes for one stands for: ``float``, ``"f4"``."""
    return given if isinstance(given, dtypes.dtype) else dtypes.from_numpy_dtype(np.dtype(given))


def padded_indices(size: int, before: int, after: int, mode: str, options: dict[str, Any]) -> Any:
    """Which elements along a dimension a padded array has."""
    return np.pad(np.arange(size), (before, after), mode=mode, **options)  # type: ignore[call-overload]


def deleted_indices(size: int, index: Any) -> Any:
    """Which elements along a dimension are left without those of an index."""
    return np.delete(np.arange(size), index)


def inserted_indices(size: int, index: Any, count: int) -> Any:
    """Which elements along a dimension an array has after insertions, those inserted counted after
    its own; and how many were inserted."""
    index = np.asarray(index)
    count = max(count, index.size)
    return np.insert(np.arange(size), index, np.arange(size, size + count)), count


def vector_indices(names: str, sizes: tuple[int, ...], offset: int) -> Any:
    """The indices of the diagonal or of a triangle of a matrix, as ``np.triu_indices`` gives."""
    if names == "diag":
        return np.diag_indices(sizes[0], len(sizes))
    return getattr(np, f"{names}_indices")(sizes[0], offset, sizes[1])


def unique(x: Any) -> Any:
    """Which of the values that occur is where, and how often each occurs. A NaN equals no other."""
    return np.unique(x, return_inverse=True, return_counts=True, equal_nan=False)[1:]


def array_of(given: Any) -> Any:
    """An array of nested sequences of numbers."""
    return np.asarray(given)
