"""Snapshots of raw arrays: all elements of small arrays, a summary of others.

``Value.to_json`` gives what pages and files hold. Numbers are written with as many digits as their
dtype needs to be read back exactly, and what JSON has no number for is a string: ``"nan"``,
``"inf"``, ``"-inf"``. ``min``, ``max``, ``mean`` and ``norm`` are those of the finite elements, and
null if there is none; how many are not finite stands beside them. A summary has a ``histogram``,
where there is something to see in one.
"""

from __future__ import annotations

import math
import zlib
from functools import cache
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.autograd._explaining._amounts import norm_of
from retrograd.autograd._wrap import SPARSE, array_of
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import raw

MAX_ELEMENTS = 256  # larger arrays are summarised
SOME = 8  # how many elements of those are kept
BINS = 24  # of the histogram of those
SAMPLED = 2**16  # elements that it counts at least, of very many


MOST_WAITING = 2**28  # bytes of large arrays that are kept until they are summarised


class _Waiting:
    """How many bytes are kept of arrays that are not summarised yet."""

    bytes = 0


_waiting = _Waiting()


class Value:
    """A copy of a small array, or a summary of a large one."""

    __slots__ = ("_counted", "_elements", "_fingerprint", "_large", "_said", "complete", "dtype",
                 "shape")  # fmt: skip

    shape: tuple[int, ...]
    dtype: str
    complete: bool  # whether all elements are kept

    def __init__(self, array: Raw, max_elements: int = MAX_ELEMENTS) -> None:
        self.shape = tuple(array.shape)
        self.dtype = dtype_name(array.dtype)
        self.complete = array.size <= max_elements
        self._fingerprint = 0  # of elements that are not kept
        self._counted: list[int] | None = None  # the histogram
        self._said: dict[str, Any] | None = None  # the summary, created on demand
        # A large array is copied, and summarised when somebody asks: that takes longer by far. If
        # very much is waiting for that, it is summarised at once.
        self._large: Raw | None = None
        if self.complete:
            self._elements = arrays.copy(array)
        elif _waiting.bytes + array.nbytes <= MOST_WAITING:
            self._large = arrays.copy(array)
            _waiting.bytes += array.nbytes
        else:
            self._summarise(array)

    def __del__(self) -> None:
        if self._large is not None:
            _waiting.bytes -= self._large.nbytes

    def _summarise(self, array: Raw) -> None:
        self._elements = _first(array)
        self._said = summary(array)
        self._fingerprint = zlib.crc32(array.tobytes())
        self._counted = _histogram(array, self._said["min"], self._said["max"])

    def _summarise_copy(self) -> None:
        """Summarise a large array that was copied."""
        if self._large is not None:
            large, self._large = self._large, None
            _waiting.bytes -= large.nbytes
            self._summarise(large)

    @property
    def _kept(self) -> Raw:
        self._summarise_copy()
        return self._elements

    @property
    def _histogram(self) -> list[int] | None:
        self._summarise_copy()
        return self._counted

    @classmethod
    def of(cls, x: Any, max_elements: int = MAX_ELEMENTS) -> Value | None:
        """The value of a Tensor, a raw array or a Python number; None for None, and for values
        under a transform."""
        array = array_of(x) if type(x) in SPARSE else raw(x)
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
        self._summarise_copy()
        if self._said is None:
            self._said = summary(self._elements)
        return self._said

    @property
    def array(self) -> Raw | None:
        """The elements, in the shape that they had, where all are kept."""
        return self._kept if self.complete else None

    @property
    def first(self) -> float | None:
        """The first element, if there is one and it is real."""
        kept = self._kept
        real = kept.size and kept.dtype.kind in "fiuV"
        return float(kept.flat[0]) if real else None

    def same_as(self, other: Value) -> bool:
        """Whether two arrays are the same: bit for bit if they are small, by all that is known of
        them, with a fingerprint of their elements, if they are large."""
        if (self.shape, self.dtype, self.complete) != (other.shape, other.dtype, other.complete):
            return False
        if self._large is not None and other._large is not None:
            return bool(self._large.tobytes() == other._large.tobytes())
        return (
            bool(self._kept.tobytes() == other._kept.tobytes())
            and self._fingerprint == other._fingerprint
            and (self.complete or self.summary == other.summary)
        )

    def holds(self, array: Raw) -> bool:
        """Whether all elements are kept here, and are those of an array, bit for bit."""
        own = self._elements if self.complete else self._large
        return (
            own is not None
            and own.shape == array.shape
            and own.dtype == array.dtype
            and bool(own.tobytes() == array.tobytes())
        )

    @property
    def norm(self) -> float | None:
        """The Euclidean norm of the finite elements."""
        result = self.summary["norm"]
        return None if result is None else float(result)

    @property
    def nan(self) -> int:
        return int(self.summary["nan"])

    @property
    def inf(self) -> int:
        return int(self.summary["inf"])

    @property
    def finite(self) -> bool:
        """Whether there is neither nan nor inf."""
        if self._said is not None:
            return not (self._said["nan"] or self._said["inf"])
        array = self._elements if self._large is None else self._large
        return array.dtype.kind not in "fcV" or bool(arrays.isfinite(array).all())

    @property
    def size(self) -> int:
        """How many elements there were."""
        return math.prod(self.shape)

    def to_json(self, limit: int | None = None) -> dict[str, Any]:
        """As JSON has it: see the top of this file. ``limit``: on the elements to write, if there
        is a lower one."""
        whole = self.complete and (limit is None or self.size <= limit)
        numbers = _numbers(self._kept if whole else _first(self._kept))
        result: dict[str, Any] = {"shape": list(self.shape), "dtype": self.dtype}
        result |= {"data": numbers} if whole else {"data": None, "some": numbers}
        result |= self.summary
        return result if self._histogram is None else {**result, "histogram": self._histogram}

    def __repr__(self) -> str:
        return f"Value({self.to_json()})"


@cache
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
    if kind in "biu":
        return [int(x) for x in elements.tolist()]
    if kind == "c":
        pairs = zip(_numbers(elements.real), _numbers(elements.imag), strict=True)
        return [list(pair) for pair in pairs]
    # The shortest decimal that gives the same number in this dtype: 0.1 for float32's nearest to
    # it, not 0.10000000149011612. Python's floats are written so anyway.
    double = elements.dtype == arrays.float64
    floats = elements.tolist() if double else [float(str(x)) for x in elements]
    return [_float(x) for x in floats]


def _float(x: float) -> float | str:
    """A float in a form that JSON can represent."""
    return x if math.isfinite(x) else str(x)


def summary(array: Raw) -> dict[str, Any]:
    """The summary that is given in place of the elements of an array, and besides them."""
    array = arrays.asarray(array)
    kind, finite, nans = array.dtype.kind, array, 0
    if kind in "fcV":
        usual = arrays.isfinite(array)
        if not usual.all():
            nans, finite = int(arrays.isnan(array).sum()), array[usual]
    low = high = mean = norm = None
    if finite.size:
        parts = (finite.real, finite.imag) if kind == "c" else (finite,)
        means, norms = zip(*map(_mean_and_norm, parts), strict=True)
        mean = list(means) if kind == "c" else means[0]
        norm = _float(math.hypot(*norms))
        if kind != "c":
            low, high = (_numbers(end)[0] for end in (finite.min(), finite.max()))
    return {
        "min": low, "max": high, "mean": mean, "norm": norm,
        "nan": nans, "inf": array.size - finite.size - nans,
    }  # fmt: skip


def _histogram(array: Raw, low: Any, high: Any) -> list[int] | None:
    """How many finite elements lie in each of some ranges of one width from the smallest to the
    largest. Of very many elements, every second or third, and so on, is counted."""
    if array.dtype.kind not in "fiuV" or low is None:
        return None
    width = float(high) - float(low)
    if not 0 < width < math.inf:
        return None
    flat = arrays.asarray(array).reshape(-1)
    double = arrays.cast(flat[:: max(flat.size // SAMPLED, 1)], arrays.float64)
    bins = (double[arrays.isfinite(double)] - float(low)) / width * BINS
    counted = arrays.minimum(arrays.cast(bins, arrays.int64), BINS - 1)
    return [int(n) for n in arrays.statistics.bincount(counted, None, BINS)]


def _mean_and_norm(finite: Raw) -> tuple[float, float]:
    """The mean and norm in double precision, without overflow or underflow in between."""
    if finite.size <= MAX_ELEMENTS:
        values = finite.reshape(-1).tolist()
        try:
            return math.fsum(values) / len(values), math.hypot(*values)
        except OverflowError:
            return math.fsum(x / len(values) for x in values), math.hypot(*values)
    double = arrays.cast(finite, arrays.float64)
    largest = max(-float(double.min()), float(double.max()))
    scale = 1.0 if largest < 1e290 else largest  # a sum may overflow
    total = float(arrays.sum(double if scale == 1.0 else double / scale))
    return total / double.size * scale, norm_of(double)
