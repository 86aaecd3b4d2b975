"""What programs in straight lines need of arrays: writing into a copy, owning memory, knowing
which arrays share it, and NumPy's own names."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.arrays import _layout as layout
from retrograd.arrays import _reducing
from retrograd.arrays._numpy import _MANY, Raw, copy, writable, write

MANY = _MANY  # elements from which on some kernels choose by bits

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


def copy_to_write(x: Raw) -> Raw:
    """A copy that may be written."""
    return writable(copy(x))


def memory_of(x: Any) -> Any:
    """The object at the bottom that holds the memory of an array. A NumPy scalar has its own."""
    if not isinstance(x, np.ndarray):
        return getattr(x, "memory", x)  # that of a value on a device
    while (owner := layout.owner_of(x)) is not None:
        x = owner
    return x if x.base is None else x.base


def in_layout_of(x: Raw, like: Any) -> Raw:
    """A copy of ``x`` that lies in memory as ``like`` does, as gradients of leaves do."""
    if not isinstance(x, np.ndarray):
        return x
    if not isinstance(like, np.ndarray):
        return x.copy(order="C") if 0 in x.strides else x.copy(order="K")
    result = np.empty_like(like, x.dtype)
    if result.strides != like.strides:
        result = np.empty(x.shape, x.dtype)
    np.copyto(result, x)
    return result


def in_rows(x: Raw) -> Raw:
    """A copy of ``x`` that lies row by row in memory."""
    return x.copy(order="C") if isinstance(x, np.ndarray) else x


def stacked(rows: Sequence[Raw]) -> Raw:
    """Arrays of one shape, stacked along a new first dimension."""
    return np.stack(rows)


def same(a: Raw, b: Raw) -> bool:
    """Whether two arrays are of one dtype and hold the same numbers."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "f" and np.logical_and.reduce(a == b, axis=None):
        return True  # most are, and nothing need be known of what is no number
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def same_bits(x: Raw, value: Raw) -> bool:
    """Whether all elements of an array of floats are one number, zeros of one sign."""
    return bool((x == value).all() and (np.signbit(x) == np.signbit(value)).all())


def name_of(function: Any) -> str | None:
    """How a program calls a function of NumPy: ``np.tanh``; None for any other."""
    name = getattr(function, "__name__", "")
    return f"np.{name}" if name and getattr(np, name, None) is function else None


_OF_OPERATORS = {
    operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply,
    operator.truediv: np.divide, operator.neg: np.negative,
}  # fmt: skip


def ufunc_of(function: Any) -> Any:
    """The function of NumPy, taking ``out=``, that does the same; None if there is none."""
    if isinstance(function, np.ufunc):
        return function
    return _OF_OPERATORS.get(function) if callable(function) else None


def is_elementwise(function: Any) -> bool:
    """Whether a function of NumPy computes each element from those in the same place."""
    ufunc = ufunc_of(function)
    return ufunc is not None and ufunc.signature is None and ufunc.nout == 1


def adds_plainly(x: Any, axes: tuple[int, ...] | None) -> bool:
    """Whether sums of an array of some shape, dtype and strides are those of ``np.add.reduce``."""
    if x.dtype.kind not in "fc" or x.dtype.itemsize < 4:
        return False
    size = 1
    for length in x.shape:
        size *= length
    if axes is None:
        return size < 8 * _reducing._LONGEST
    return size < _reducing._LONGEST or len(x.shape) != 2


def number(x: Any, dtype: Any) -> Raw:
    """A number as an array of no dimensions."""
    return np.array(x, dtype)


def as_number(x: float, dtype: Any) -> Any:
    """A Python number as NumPy takes it beside an array of some dtype; None where that fails."""
    try:
        with np.errstate(all="ignore"):
            number = dtype.type(x)
    except OverflowError:
        return None
    return number if np.isfinite(number) else None


def is_generator(x: Any) -> bool:
    """Whether an object draws random numbers of NumPy's."""
    return isinstance(x, (np.random.Generator, np.random.RandomState, np.random.BitGenerator))


def random_states(generators: Sequence[Any]) -> list[Any]:
    """What NumPy's own random numbers, and those of some generators, depend on."""
    states: list[Any] = [np.random.get_state(legacy=False)]
    for x in generators:
        if isinstance(x, np.random.RandomState):
            states.append(x.get_state(legacy=False))
        else:
            states.append((x if isinstance(x, np.random.BitGenerator) else x.bit_generator).state)
    return [_comparable(state) for state in states]


def _comparable(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: _comparable(value) for key, value in x.items()}
    return x.tobytes() if isinstance(x, np.ndarray) else x


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays may share memory."""
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)


numpy = np
