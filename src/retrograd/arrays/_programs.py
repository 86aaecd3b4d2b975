"""What programs in straight lines need of arrays: writing into a copy, owning memory, knowing
which arrays share it, and NumPy's own names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.arrays._numpy import Raw, copy, writable, write

View = Callable[[Raw], Raw]


def put(base: Raw, value: Raw, views: Sequence[View] = ()) -> Raw:
    """A copy of ``base`` in which ``value`` has been written over the part that some views, each
    taken of the one before, lead to."""
    base = writable(copy(base))
    put_into(base, value, views)
    return base


def put_into(base: Raw, value: Raw, views: Sequence[View] = ()) -> None:
    """As ``put``, in the memory of ``base`` itself."""
    part = base
    for view in views:
        part = view(part)
    write(part, value)


def memory_of(x: Any) -> Any:
    """The object at the bottom that holds the memory of an array. A NumPy scalar has its own."""
    while isinstance(x, np.ndarray) and x.base is not None:
        x = x.base
    return x


def in_layout_of(x: Raw, like: Any) -> Raw:
    """A copy of ``x`` that lies in memory as ``like`` does, as gradients of leaves do."""
    if not isinstance(x, np.ndarray):
        return x
    if not isinstance(like, np.ndarray):
        return x.copy(order="C") if 0 in x.strides else x.copy(order="K")
    found = np.empty_like(like, x.dtype)
    if found.strides != like.strides:
        found = np.empty(x.shape, x.dtype)
    np.copyto(found, x)
    return found


def same(a: Raw, b: Raw) -> bool:
    """Whether two arrays are of one dtype and hold the same numbers."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def name_of(function: Any) -> str | None:
    """How a program calls a function of NumPy: ``np.tanh``; None for any other."""
    name = getattr(function, "__name__", "")
    return f"np.{name}" if name and getattr(np, name, None) is function else None


numpy = np
