"""PyTorch's dtypes, their promotion rules, and their NumPy counterparts.

NumPy and PyTorch agree on what two arrays of the same dtype give; they differ where kinds mix.
In PyTorch a higher *kind* (bool < integer < float < complex) wins without widening
(``int64 + float32`` is ``float32``), and an operand takes part in the choice only through its
kind when another operand ranks above it: arrays with dimensions rank above zero-dimensional
ones, and those above Python numbers.
"""

from __future__ import annotations

from _thread import _local  # threading.local, without the rest of threading
from collections.abc import Iterable
from typing import Any

import numpy as np

Number = bool | int | float | complex

# The kinds of NumPy's dtypes that hold floats, and floats and complex numbers. "V" is bfloat16: to
# NumPy, a dtype that comes from elsewhere has no kind.
FLOATS, INEXACT = "fV", "fcV"


class dtype:  # noqa: N801 - PyTorch's name
    """A dtype as in PyTorch: one object for each kind and width, compared by identity.

    Args:
        name: The name that PyTorch uses.
        numpy_name: The name that NumPy uses.

    Example:
        >>> float32, float32.itemsize, float32.is_floating_point
        (torch.float32, 4, True)
    """

    __slots__ = ("is_complex", "is_floating_point", "is_signed", "itemsize", "name", "numpy",
                 "rank")  # fmt: skip

    def __init__(self, name: str, numpy_name: str) -> None:
        self.name = name
        self.numpy = np.dtype(numpy_name)
        self.itemsize = self.numpy.itemsize
        self.is_floating_point = self.numpy.kind == "f"
        self.is_complex = self.numpy.kind == "c"
        self.is_signed = self.numpy.kind in "ifc"
        self.rank = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}[self.numpy.kind]

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _dtype_named, (self.name,)

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """NumPy's dtype, which NumPy asks for where it wants one: ``np.zeros(3, dtype=x.dtype)``.

        Example:
            >>> import numpy, retrograd as torch
            >>> numpy.zeros(2, dtype=torch.int32).dtype
            dtype('int32')
        """
        return self.numpy

    @property
    def char(self) -> str:
        """NumPy's letter for the dtype, which products of SciPy's sparse matrices ask for."""
        return self.numpy.char

    def to_real(self) -> dtype:
        """Returns the dtype of the real part of a complex number of this dtype.

        Returns:
            The dtype; a real dtype is returned as it is.
        """
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def to_complex(self) -> dtype:
        """Returns the complex dtype whose parts have this dtype.

        Returns:
            complex128 for float64 and complex128, and complex64 for all others.
        """
        return complex128 if self.name in ("float64", "complex128") else complex64


# NumPy before 2.4 asks for this. (In the class, it would be what annotations mean by the name.)
setattr(dtype, "dtype", dtype.__numpy_dtype__)  # noqa: B010


class _FromElsewhere(dtype):
    """A dtype that NumPy knows when another package is imported, which is done on first use."""

    __slots__ = ("_numpy",)

    def __init__(self, name: str, itemsize: int) -> None:
        self.name, self.itemsize = name, itemsize
        self.is_floating_point = self.is_signed = True
        self.is_complex, self.rank = False, 2
        self._numpy: Any = None

    @property
    def numpy(self) -> Any:  # type: ignore[override]
        if self._numpy is None:
            try:
                import ml_dtypes
            except ImportError:
                raise ModuleNotFoundError(
                    f"tensors of torch.{self.name} need the package ml_dtypes, since NumPy has no "
                    "such dtype. Install it by `pip install ml_dtypes`, or use torch.float32, or "
                    "torch.float16 for half the memory.",
                    name="ml_dtypes",
                ) from None
            self._numpy = np.dtype(getattr(ml_dtypes, self.name))
            _BY_NUMPY[self._numpy] = self
        return self._numpy


class _Absent(dtype):
    """A dtype that programs compare others with, and that no tensor has."""

    __slots__ = ()

    def __init__(self, name: str, itemsize: int, kind: str) -> None:
        self.name, self.itemsize, self.is_signed = name, itemsize, not name.startswith("qu")
        self.is_floating_point, self.is_complex = kind == "f", kind == "c"

    @property
    def numpy(self) -> Any:  # type: ignore[override]
        raise TypeError(f"there are no tensors of torch.{self.name}: NumPy has no such dtype")


def _dtype_named(name: str) -> dtype:
    return _BY_NAME[name]


bool_ = dtype("bool", "bool")
uint8 = dtype("uint8", "uint8")
uint16 = dtype("uint16", "uint16")
uint32 = dtype("uint32", "uint32")
uint64 = dtype("uint64", "uint64")
int8 = dtype("int8", "int8")
int16 = short = dtype("int16", "int16")
int32 = int_ = dtype("int32", "int32")
int64 = long = dtype("int64", "int64")
float16 = half = dtype("float16", "float16")
float32 = float_ = dtype("float32", "float32")
float64 = double = dtype("float64", "float64")
complex64 = cfloat = dtype("complex64", "complex64")
complex128 = cdouble = dtype("complex128", "complex128")

_ALL = (bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
        float16, float32, float64, complex64, complex128)  # fmt: skip
bfloat16 = _FromElsewhere("bfloat16", 2)
complex32 = chalf = _Absent("complex32", 4, "c")
float8_e4m3fn = _Absent("float8_e4m3fn", 1, "f")
float8_e5m2 = _Absent("float8_e5m2", 1, "f")
qint8 = _Absent("qint8", 1, "q")
quint8 = _Absent("quint8", 1, "q")
qint32 = _Absent("qint32", 4, "q")
ABSENT = (complex32, float8_e4m3fn, float8_e5m2, qint8, quint8, qint32)
_BY_NAME = {t.name: t for t in (*_ALL, bfloat16, *ABSENT)}
_BY_NUMPY = {t.numpy: t for t in _ALL}

# The names PyTorch's messages use: "[torch.FloatTensor [3]]", "result type Float can't be cast".
TYPE_WORDS = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
    "int64": "Long", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
    "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def from_numpy_dtype(numpy_dtype: np.dtype[Any]) -> dtype:
    """The dtype of a NumPy array, or TypeError in PyTorch's words."""
    result = _BY_NUMPY.get(numpy_dtype) or _BY_NUMPY.get(numpy_dtype.newbyteorder("="))
    if result is None and numpy_dtype.name == "bfloat16" and numpy_dtype == bfloat16.numpy:
        return bfloat16
    if result is None:
        raise TypeError(
            f"can't convert np.ndarray of type {numpy_dtype}. The only supported types are: "
            + ", ".join(t.name for t in reversed(_ALL))
            + "."
        )
    return result


def type_word(numpy_dtype: np.dtype[Any]) -> str:
    """What PyTorch's messages call a dtype: ``Float`` for float32."""
    return TYPE_WORDS[from_numpy_dtype(numpy_dtype).name]


class _Default(_local):
    """The default floating dtype, one a thread, as everything a user can set."""

    float_dtype: dtype = float32


_default = _Default()


def get_default_dtype() -> dtype:
    """Returns the default floating-point dtype, which Python floats are converted to.

    Example:
        >>> get_default_dtype()
        torch.float32
    """
    return _default.float_dtype


def set_default_dtype(d: dtype) -> None:
    """Sets the default floating-point dtype of the current thread.

    Args:
        d: The dtype.

    Example:
        >>> set_default_dtype(float32)
    """
    if not isinstance(d, dtype):
        raise TypeError(f"invalid dtype object: expected a torch.dtype but got {type(d).__name__}")
    if not d.is_floating_point:
        raise TypeError(
            "only floating-point types are supported as the default type. "
            f"Use float16, bfloat16, float32 or float64, not {d.name}"
        )
    _ = d.numpy  # an error if a package is missing
    _default.float_dtype = d


def default_float() -> np.dtype[Any]:
    return _default.float_dtype.numpy


def default_complex() -> np.dtype[Any]:
    return _default.float_dtype.to_complex().numpy


def has_derivative(numpy_dtype: np.dtype[Any]) -> bool:
    """Whether values of a dtype can have a derivative. Integers and booleans cannot: they are
    always constants."""
    return numpy_dtype.kind in INEXACT


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Returns the smallest dtype that two dtypes can be converted to, by PyTorch's rules.

    Args:
        type1: The first dtype.
        type2: The second dtype.

    Example:
        >>> promote_types(int64, float32), promote_types(uint8, int8)
        (torch.float32, torch.int16)
    """
    if type1 is bfloat16 or type2 is bfloat16:  # whose package may be missing
        return _with_bfloat16(type2 if type1 is bfloat16 else type1)
    return from_numpy_dtype(promote(type1.numpy, type2.numpy))


def _with_bfloat16(other: dtype) -> dtype:
    if other is float16:
        return float32  # holds both
    return other if other.rank >= bfloat16.rank else bfloat16


def promote(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """``promote_types`` on NumPy dtypes."""
    if a == b:
        return a
    if "V" in (a.kind, b.kind):
        return _with_bfloat16(_BY_NUMPY[b if a.kind == "V" else a]).numpy
    rank_a, rank_b = _BY_NUMPY[a].rank, _BY_NUMPY[b].rank
    if rank_a == rank_b:
        common = np.promote_types(a, b)
        if _BY_NUMPY[common].rank != rank_a:  # uint64 and a signed integer: no integer holds both
            raise RuntimeError(
                "Promotion for uint16, uint32, uint64 types is not supported, attempted to "
                f"promote {TYPE_WORDS[a.name]} and {TYPE_WORDS[b.name]}"
            )
        return common
    low, high = (a, b) if rank_a < rank_b else (b, a)
    # A complex result must hold the precision of a float that meets it; nothing else widens.
    return np.promote_types(low, high) if low.kind == "f" else high


def dtype_of_number(value: Number) -> np.dtype[Any]:
    """The dtype a Python number has when it stands alone."""
    if isinstance(value, bool):
        return bool_.numpy
    if isinstance(value, int):
        return int64.numpy
    return default_complex() if isinstance(value, complex) else default_float()


def _combine(higher: np.dtype[Any] | None, lower: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """What an operand of a lower priority changes: the kind, never the width."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.kind == "c":
        return higher
    if higher.kind in FLOATS:
        return _BY_NUMPY[higher].to_complex().numpy if lower.kind == "c" else higher
    if higher.kind == "b" or lower.kind in INEXACT:
        return promote(higher, lower)
    return higher


def result_type(operands: Iterable[Any]) -> np.dtype[Any]:
    """The NumPy dtype in which PyTorch computes with these raw arrays and Python numbers."""
    dimensioned = zero_dim = number = None
    for operand in operands:
        if isinstance(operand, (bool, int, float, complex)) and not isinstance(operand, np.generic):
            t = dtype_of_number(operand)
            number = t if number is None else promote(number, t)
        elif operand.ndim:
            t = operand.dtype
            dimensioned = t if dimensioned is None else promote(dimensioned, t)
        else:
            t = operand.dtype
            zero_dim = t if zero_dim is None else promote(zero_dim, t)
    result = _combine(_combine(dimensioned, zero_dim), number)
    assert result is not None, "result_type of no operands"
    return result


def can_cast(from_: dtype, to: dtype) -> bool:
    """Tests whether PyTorch's promotion rules allow a conversion between two dtypes.

    Args:
        from_: The dtype to convert from.
        to: The dtype to convert to.

    Example:
        >>> can_cast(float32, int64), can_cast(int64, float32)
        (False, True)
    """
    if from_.is_complex and not to.is_complex:
        return False
    if from_.is_floating_point and not (to.is_floating_point or to.is_complex):
        return False
    return from_.name == "bool" or to.name != "bool"
