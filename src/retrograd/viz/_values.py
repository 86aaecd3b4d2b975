"""A raw array as it was at one moment: all its elements if they are few, a summary otherwise.

``Value.to_json`` gives what pages and files hold. Numbers are written with as many digits as their
dtype needs to be read back exactly, and what JSON has no number for is a string: ``"nan"``,
``"inf"``, ``"-inf"``. ``min``, ``max``, ``mean`` and ``norm`` are those of the finite elements, and
null if there is none; how many are not finite stands beside them.
"""

from __future__ import annotations

import math
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import raw

MAX_ELEMENTS = 256  # larger arrays are summarised
SOME = 8  # how many elements of those are kept


class Value:
    """A copy of a small array, or a summary of a large one."""

    __slots__ = ("_kept", "_summary", "complete", "dtype", "shape")

    shape: tuple[int, ...]
    dtype: str
    complete: bool  # whether all elements are kept

    def __init__(self, array: Raw, max_elements: int = MAX_ELEMENTS) -> None:
        self.shape = tuple(array.shape)
        self.dtype = dtype_name(array.dtype)
        self.complete = array.size <= max_elements
        if self.complete:
            self._kept = arrays.copy(array)
            self._summary: dict[str, Any] | None = None  # made when somebody asks
        else:
            self._kept = _first(array)
            self._summary = summary(array)

    @classmethod
    def of(cls, x: Any, max_elements: int = MAX_ELEMENTS) -> Value | None:
        """The value of a Tensor, a raw array or a Python number; None where there is none to see:
        for None, and for what stands for arrays under a transform."""
        array = raw(x)
        if array is None or isinstance(array, Lifted):
            return None
        if not arrays.is_raw(array):
            if not isinstance(array, (bool, int, float, complex)):
                return None
            array = arrays.asarray(array)
        return cls(array, max_elements)

    @property
    def summary(self) -> dict[str, Any]:
        """min, max, mean and norm of the finite elements, and how many are nan and inf."""
        if self._summary is None:
            self._summary = summary(self._kept)
        return self._summary

    @property
    def array(self) -> Raw | None:
        """The elements, in the shape that they had, where all are kept."""
        return self._kept if self.complete else None

    def same_as(self, other: Value) -> bool:
        """Whether two small arrays are the same, bit for bit. Summaries are never said to be."""
        return (
            self.complete
            and other.complete
            and (self.shape, self.dtype) == (other.shape, other.dtype)
            and bool(self._kept.tobytes() == other._kept.tobytes())
        )

    @property
    def norm(self) -> float | None:
        """The Euclidean norm of the finite elements."""
        found = self.summary["norm"]
        return None if found is None else float(found)

    @property
    def nan(self) -> int:
        return int(self.summary["nan"])

    @property
    def inf(self) -> int:
        return int(self.summary["inf"])

    @property
    def size(self) -> int:
        """How many elements there were."""
        return math.prod(self.shape)

    def to_json(self, limit: int | None = None) -> dict[str, Any]:
        """As JSON has it: see the top of this file. ``limit``: on the elements to write, if there
        is a lower one."""
        whole = self.complete and (limit is None or self.size <= limit)
        numbers = _numbers(self._kept if whole else _first(self._kept))
        found: dict[str, Any] = {"shape": list(self.shape), "dtype": self.dtype}
        found |= {"data": numbers} if whole else {"data": None, "some": numbers}
        return {**found, **self.summary}

    def __repr__(self) -> str:
        return f"Value({self.to_json()})"


def dtype_name(dtype: Any) -> str:
    """``float32`` for the dtype of a raw array; NumPy's name for one that no tensor has."""
    try:
        return str(arrays.dtypes.from_numpy_dtype(dtype).name)
    except TypeError:
        return str(dtype)


def _first(array: Raw) -> Raw:
    """A few elements, in reading order."""
    flat = array.flat
    return arrays.asarray([flat[i] for i in range(min(SOME, array.size))], array.dtype)


def _numbers(array: Raw) -> list[Any]:
    kind = array.dtype.kind
    elements = arrays.asarray(array).reshape(-1)
    if kind == "b":
        return [int(x) for x in elements]
    if kind in "iu":
        return [int(x) for x in elements.tolist()]
    if kind == "c":
        pairs = zip(elements.real, elements.imag, strict=True)
        return [[number(re), number(im)] for re, im in pairs]
    return [number(x) for x in elements]


def number(x: Any) -> float | str:
    """A float as JSON can hold it. The shortest decimal that gives the same number in the dtype of
    ``x``: 0.1 for float32's nearest to it, not 0.10000000149011612."""
    if x != x:
        return "nan"
    shortest = float(str(x))
    if math.isinf(shortest):
        return "inf" if shortest > 0 else "-inf"
    return shortest


def summary(array: Raw) -> dict[str, Any]:
    """What is said of an array in place of its elements, and beside them."""
    kind = array.dtype.kind
    array = arrays.asarray(array)
    nans = infs = 0
    finite = array
    if kind in "fc":
        usual = arrays.isfinite(array)
        if not arrays.all(usual):
            nans = int(arrays.sum(arrays.isnan(array)))
            infs = int(array.size - int(arrays.sum(usual)) - nans)
            finite = array[usual]
    known: dict[str, Any] = dict.fromkeys(("min", "max", "mean", "norm"))
    if finite.size:
        if kind != "c":
            low, high = arrays.amin(finite), arrays.amax(finite)
            as_number = number if kind == "f" else int
            known["min"], known["max"] = as_number(low), as_number(high)
        known["mean"], norm = _mean_and_norm(finite, kind)
        known["norm"] = number(norm)
    return {**known, "nan": nans, "inf": infs}


def _mean_and_norm(finite: Raw, kind: str) -> tuple[Any, float]:
    """In double precision, and without overflow or underflow on the way."""
    if kind == "c":
        parts = (finite.real, finite.imag)
        means, norms = zip(*(_mean_and_norm(part, "f") for part in parts), strict=True)
        return list(means), math.hypot(*norms)
    double = arrays.cast(finite, arrays.float64)
    largest = float(arrays.amax(arrays.absolute(double)))
    if not 1e-140 < largest < 1e140:  # squares, or a sum, may leave the range of numbers
        if largest == 0:
            return 0.0, 0.0
        scaled = double / largest
        mean = float(arrays.sum(scaled)) / scaled.size * largest
        return mean, math.sqrt(float(arrays.sum(scaled * scaled))) * largest
    mean = float(arrays.sum(double)) / double.size
    return mean, math.sqrt(float(arrays.sum(double * double)))
