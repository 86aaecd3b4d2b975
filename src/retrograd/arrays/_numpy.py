"""The NumPy adapter: kernels of the primitive operations.

A raw array is an ``ndarray`` or, with no dimensions, the NumPy scalar that ufuncs and reductions
give back: scalars are several times faster than zero-dimensional arrays and cannot be written,
so nothing needs to copy them. ``writable`` makes an array of one when somebody wants to share or
write its memory.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Raw = Any  # np.ndarray | np.generic; spelled Any because NumPy's own stubs differ between the two

ndarray = np.ndarray
RAW_TYPES: tuple[type, ...] = (np.ndarray, np.generic)
# The same, one by one: looking a type up is faster than asking whether it derives from another.
RAW_CLASSES: frozenset[type] = frozenset({np.ndarray, *np.sctypeDict.values()})
float32, float64, int64, bool_ = (np.dtype(n) for n in ("float32", "float64", "int64", "bool"))

add_to = np.add  # add_to(total, x, total) adds in the memory of total

# Arithmetic goes through the operators, not the ufuncs: on scalars they are ten times faster.
add, subtract, multiply, true_divide = operator.add, operator.sub, operator.mul, operator.truediv
negative, positive = operator.neg, operator.pos
less, less_equal, greater, greater_equal = np.less, np.less_equal, np.greater, np.greater_equal
equal, not_equal = np.equal, np.not_equal
absolute, conj, real, imag = np.absolute, np.conj, np.real, np.imag
exp, exp2, expm1, log, log2, log10 = (
    np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10)  # fmt: skip
sqrt, square, reciprocal = np.sqrt, np.square, np.reciprocal
sin, cos, tan, arcsin, arccos, arctan, arctan2 = (
    np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.arctan2)  # fmt: skip
sinh, cosh, tanh, arcsinh, arccosh, arctanh = (
    np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh)  # fmt: skip
maximum, minimum, isnan, isinf, isfinite = (
    np.maximum, np.minimum, np.isnan, np.isinf, np.isfinite)  # fmt: skip
logical_and, logical_or, logical_xor, logical_not = (
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not)  # fmt: skip
bitwise_and, bitwise_or, bitwise_xor, bitwise_not = (
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.bitwise_not)  # fmt: skip
left_shift, right_shift = np.left_shift, np.right_shift
matmul = np.matmul
broadcast_shapes = np.broadcast_shapes
zeros_like, full, zeros, empty, eye, arange = (
    np.zeros_like, np.full, np.zeros, np.empty, np.eye, np.arange)  # fmt: skip


def log1p(x: Raw) -> Raw:
    """``log(1 + x)``. For complex numbers, NumPy adds the 1 first and loses the digits of small
    numbers."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    from scipy.special import log1p  # type: ignore[import-untyped]

    return log1p(x)


def ones(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Raw:
    return np.ones(shape, dtype) if shape else dtype.type(1)


_constants: dict[Any, dict[float, Raw]] = {float32: {}, float64: {}}
_MOST_CONSTANTS = 1000


def constant(number: Any, x: Raw) -> Any:
    """``number`` for arithmetic with ``x``, a float array: an array of its dtype, made once.

    NumPy takes as long to convert a Python number as to multiply by it.
    """
    if type(x) is not np.ndarray or number == 0:  # 0.0 and -0.0 would share a place
        return number
    known = _constants[x.dtype]
    cached = known.get(number)
    if cached is None:
        cached = np.array(number, x.dtype)
        cached.flags.writeable = False
        if len(known) < _MOST_CONSTANTS:
            known[number] = cached
    return cached


def is_raw(value: object) -> bool:
    """Whether ``value`` is an array of this library (a Python number is not)."""
    return isinstance(value, RAW_TYPES)


def is_narrow(x: Any) -> bool:
    """Whether ``x`` is an array of bfloat16, which ``_narrow`` computes with."""
    return isinstance(x, RAW_TYPES) and x.dtype.kind == "V"  # type: ignore[attr-defined]


def any_narrow(values: Iterable[Any]) -> bool:
    """Whether some of the values, or of the lists among them, are arrays of bfloat16."""
    for x in values:
        if isinstance(x, RAW_TYPES):
            if x.dtype.kind == "V":  # type: ignore[attr-defined]
                return True
        elif type(x) in (list, tuple) and any_narrow(x):
            return True
    return False


def writable(x: Raw) -> Raw:
    """``x`` as an ndarray whose memory can be shared and, if it allows that, written."""
    return np.array(x) if isinstance(x, np.generic) else x


def asarray(value: object, dtype: np.dtype[Any] | None = None) -> Raw:
    return np.asarray(value, dtype=dtype)


def array(value: object, dtype: np.dtype[Any] | None = None) -> Raw:
    return np.array(value, dtype=dtype)


def cast(x: Raw, dtype: np.dtype[Any]) -> Raw:
    """``x`` in another dtype; complex to real keeps the real part, without NumPy's warning."""
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    return _spread(x, dtype) if 0 in x.strides else x.astype(dtype)


def wrapped(value: int, dtype: np.dtype[Any]) -> Raw:
    """An integer as an element of an integer dtype, which wraps around where it is too narrow."""
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return dtype.type(value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value)


def nonzero(x: Raw) -> tuple[Raw, ...]:
    """The indices of the non-zero elements, an array for each dimension."""
    return np.nonzero(np.atleast_1d(x))


def is_channels_last(x: Raw) -> bool:
    """Whether the channels of images or volumes are innermost in memory."""
    if x.ndim < 4 or x.flags.c_contiguous:
        return False
    return bool(x.transpose(0, *range(2, x.ndim), 1).flags.c_contiguous)


def concatenate(parts: Sequence[Raw], axis: int = 0) -> Raw:
    """Arrays one after the other along a dimension: row by row in memory, unless they are images
    that all have their channels innermost."""
    result = np.concatenate(parts, axis)
    if result.ndim > 3 and all([is_channels_last(x) for x in parts]):
        return result
    return np.ascontiguousarray(result)


def stack(parts: Sequence[Raw], axis: int = 0) -> Raw:
    """Arrays one after the other along a new dimension, row by row in memory."""
    if all([not x.shape for x in parts]) and parts:
        return np.array(parts)  # of single numbers, in a twentieth of the time
    return np.ascontiguousarray(np.stack(parts, axis))


def copy(x: Raw) -> Raw:
    """A copy in the memory order of ``x`` (a scalar is its own copy)."""
    if not isinstance(x, np.ndarray):
        return x
    return _spread(x, x.dtype) if 0 in x.strides else x.copy(order="K")


def _spread(x: Raw, dtype: np.dtype[Any]) -> Raw:
    """A copy of an array that repeats elements. NumPy would let repeats vary fastest."""
    order = layout_order(x)
    out = np.empty([x.shape[d] for d in order], dtype)
    out = out.transpose(sorted(range(x.ndim), key=order.__getitem__))
    np.copyto(out, x, casting="unsafe")
    return out


def layout_order(x: Raw) -> list[int]:
    """The order of dimensions from outermost to innermost in memory that a new array like ``x``
    gets: by their strides, except that what repeats stays where it is, as in PyTorch."""
    order = list(range(x.ndim))[::-1]  # from the innermost, while sorting
    for i in range(1, x.ndim):
        place = i
        for before in range(i - 1, -1, -1):
            a, b = order[before], order[place]
            if not x.strides[a] or not x.strides[b]:
                continue
            inner, outer = ((abs(x.strides[d]), x.shape[d]) for d in (a, b))
            if inner > outer:
                order[before], order[place] = b, a
                place = before
            elif inner[0] < outer[0]:
                break
    return order[::-1]


def write(target: Raw, values: Raw) -> None:
    """Overwrite ``target`` with ``values``, broadcast and cast as needed."""
    np.copyto(target, values, casting="unsafe")


def can_add_to(x: Raw) -> bool:
    """Whether ``x`` is an array with memory that may be added to."""
    return isinstance(x, np.ndarray) and bool(x.flags.writeable) and 0 not in x.strides


# Held by the engine, by the node it is given to, by the parameter here, and by getrefcount. Later
# Pythons may borrow some of these references instead, and others count differently: there, copy.
_REFERENCES_OF_ONE_OWNER = 4
_REFERENCES_OF_ONE_VIEW = 3  # by the view, by the parameter of a function, and by getrefcount
_COUNTS_ARE_KNOWN = (
    sys.implementation.name == "cpython"
    and sys.version_info < (3, 14)
    and getattr(sys, "_is_gil_enabled", lambda: True)()
)


def owned(x: Raw, like: Any = None) -> Raw:
    """``x`` itself if its caller alone can see it, otherwise a copy that its caller owns. If
    ``like`` is an array, the result lies in memory as that does, so that the two can be gone
    through together, or row by row where ``like`` has gaps.

    A gradient may be an array that other nodes, hooks or the user hold too (``add`` hands the
    same one to both of its inputs), or a view of one. Only an array that is seen from nowhere
    else may become somebody's ``.grad``, which is later accumulated into in place.
    """
    if not isinstance(x, np.ndarray):
        return x if isinstance(x, np.generic) else x.as_gradient(like)
    if _COUNTS_ARE_KNOWN and sys.getrefcount(x) <= _REFERENCES_OF_ONE_OWNER:
        flags = x.flags
        if (
            flags.writeable
            and (x.base is None or (0 not in x.strides and _is_all_of(x, x.base)))
            and (
                x.strides == like.strides or (flags.c_contiguous and like.flags.c_contiguous)
                if isinstance(like, np.ndarray)
                else not hasattr(like, "placed")
            )
        ):
            return x
    if not isinstance(like, np.ndarray):  # nothing to follow, or a value under a transform
        x = x.copy(order="C") if 0 in x.strides else x.copy(order="K")
        return like.placed(x) if hasattr(like, "placed") else x
    result = np.empty_like(like, x.dtype)
    if result.strides != like.strides:
        result = np.empty(x.shape, x.dtype)
    np.copyto(result, x)
    return result


def _is_all_of(x: Raw, base: Any) -> bool:
    """Whether an array shows the whole of another (the transpose of it, say) that nothing else
    refers to."""
    return (
        isinstance(base, np.ndarray)
        and base.base is None
        and base.size == x.size
        and sys.getrefcount(base) <= _REFERENCES_OF_ONE_VIEW
    )


LARGE = 600_000  # elements from which threads that share the work pay


def shared(function: Any, x: Raw) -> Raw:
    """``function(x)`` for a function of each element of a large array, on several threads."""
    from retrograd.arrays import _blocks  # which brings threads, and is loaded only for them

    return _blocks.pointwise(function, x)


# A constant of the array's own dtype: a Python number in an expression costs NumPy as much as the
# whole operation on a small array.
_ONE = {d: np.ones((), d) for d in (np.dtype("f2"), float32, float64)}
_ZERO = {d: np.zeros((), d) for d in (np.dtype("f2"), float32, float64)}


def sigmoid(x: Raw) -> Raw:
    one = _ONE.get(x.dtype, 1)
    if not x.ndim or x.dtype not in _ONE:
        return one / (one + np.exp(-x))  # exp may overflow to inf, and one / inf is the right zero
    return sigmoid_into(x, np.empty_like(x))


def sigmoid_into(x: Raw, out: Raw) -> Raw:
    """The sigmoid of an array of floats, in the memory of another."""
    one = _ONE[x.dtype]
    np.negative(x, out)
    np.exp(out, out)
    np.add(out, one, out)
    return np.divide(one, out, out)


def relu(x: Raw) -> Raw:
    if x.size > _MANY and x.dtype in _BITS:  # for which NumPy clips faster than it compares
        return _clip(x, _ZERO[x.dtype], _INFINITY[x.dtype])
    return np.maximum(_ZERO.get(x.dtype, 0), x)  # of two zeros, the second: -0.0 stays


_MANY = 512  # elements from which a few more passes cost less than branches that nobody can foresee
_BITS: dict[Any, Any] = {float32: np.dtype("i4"), float64: np.dtype("i8")}
_INFINITY = {d: np.full((), np.inf, d) for d in _BITS}


def where(condition: Raw, x: Raw, y: Raw) -> Raw:
    """``x`` where ``condition`` holds, ``y`` elsewhere."""
    bits = _BITS.get(getattr(x, "dtype", None))
    if (
        bits is None
        or not isinstance(condition, np.ndarray)
        or condition.size < _MANY
        or condition.dtype.kind != "b"
        or getattr(y, "dtype", object) != x.dtype  # None would count as float64
    ):
        return np.where(condition, x, y)
    # np.where branches on each element. Bits do not: y + (x - y) * (1 or 0), as integers.
    y_bits: Raw = y.view(bits)
    chosen: Raw = np.subtract(x.view(bits), y_bits)
    if chosen.shape == condition.shape:
        np.multiply(chosen, condition, chosen)
    else:
        chosen = np.multiply(chosen, condition)
    chosen += y_bits
    return chosen.view(x.dtype)


def keep(x: Raw, mask: Raw) -> Raw:
    """``x`` where ``mask`` holds, zero elsewhere."""
    bits = _BITS.get(x.dtype)
    if bits is None or x.size < _MANY or mask.dtype.kind != "b":
        return np.where(mask, x, _ZERO.get(x.dtype, x.dtype.type(0)))
    # As a factor of the bits: NaN and infinity times 0 are 0.
    return np.multiply(x.view(bits), mask).view(x.dtype)


def where_positive(x: Raw, y: Raw) -> Raw:
    """``x``, but zero wherever ``y`` is not positive (a NaN counts as positive)."""
    zero = _ZERO.get(x.dtype, 0)
    bits = _BITS.get(x.dtype)
    if bits is None or not isinstance(x, np.ndarray) or x.size < _MANY:
        return np.where(y <= zero, zero, x)
    kept = np.logical_not(np.less_equal(y, zero))  # as a factor of the bits, as in ``keep``
    return np.multiply(x.view(bits), kept).view(x.dtype)


def sgn(x: Raw) -> Raw:
    """The sign, which is zero for NaN; of a complex number, the number on the unit circle."""
    if x.dtype.kind == "b":
        return copy(x)
    result = np.sign(x)
    if x.dtype.kind == "c":
        return result  # which is NaN for NaN
    if not isinstance(result, np.ndarray):
        return result if result == result else result.dtype.type(0)
    result[result != result] = 0
    return result


def floor(x: Raw) -> Raw:
    """As ``numpy.floor``, which before NumPy 2.1 makes floats of integers."""
    return np.floor(x) if x.dtype.kind == "f" else copy(x)


def ceil(x: Raw) -> Raw:
    return np.ceil(x) if x.dtype.kind == "f" else copy(x)


def trunc(x: Raw) -> Raw:
    return np.trunc(x) if x.dtype.kind == "f" else copy(x)


def rint(x: Raw) -> Raw:
    return np.rint(x) if x.dtype.kind == "f" else copy(x)


def real_part(x: Raw) -> Raw:
    return np.real(x).copy()


def imag_part(x: Raw) -> Raw:
    return np.imag(x).copy()


def power(x: Raw, y: Raw) -> Raw:
    try:
        return x**y
    except ValueError:  # NumPy takes no negative powers of integers
        return _power_of_integers(x, y)


def _power_of_integers(x: Raw, y: Raw) -> Raw:
    """1 / x ** -y rounded towards zero: only 1 and -1 have inverses that are integers."""
    whole = x ** np.maximum(y, 0)
    inverse = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (np.abs(y) % 2), 0))
    return np.where(np.less(y, 0), inverse, whole).astype(whole.dtype)


def remainder(x: Raw, y: Raw) -> Raw:
    return _divided(np.remainder, x, y)


def fmod(x: Raw, y: Raw) -> Raw:
    return _divided(np.fmod, x, y)


def floor_divide(x: Raw, y: Raw) -> Raw:
    return _divided(np.floor_divide, x, y)


def trunc_divide(x: Raw, y: Raw) -> Raw:
    return _divided(_trunc_divide, x, y)


def _trunc_divide(x: Raw, y: Raw) -> Raw:
    if np.result_type(x, y).kind == "f":
        return np.trunc(np.true_divide(x, y))
    return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))


def _divided(divide: Any, x: Raw, y: Raw) -> Raw:
    result = divide(x, y)
    if result.dtype.kind in "iu" and result.size and not np.all(y):
        raise RuntimeError("ZeroDivisionError")
    return result


# The ufunc behind ``np.clip``, which takes twice as long on a small array to come to it.
_clip: Any = getattr(getattr(getattr(np, "_core", None), "umath", None), "clip", np.clip)
# NumPy 2.0 makes 0.0 of a -0.0 that is at a bound of zero.
_CLIP_KEEPS_SIGNS = bool(np.signbit(np.array([-0.0]).clip(0.0, np.inf))[0])


def clip(x: Raw, low: Raw | None, high: Raw | None) -> Raw:
    """``x`` moved into ``[low, high]``; ``high`` wins where they contradict each other."""
    if not _CLIP_KEEPS_SIGNS and x.dtype.kind == "f":
        x = x if low is None else np.maximum(low, x)
        return x if high is None else np.minimum(high, x)
    if x.dtype in _constants:  # for which NumPy takes long to convert numbers
        low, high = [constant(y, x) if type(y) in (int, float) else y for y in (low, high)]
        return x.clip(low, high) if low is None or high is None else _clip(x, low, high)
    return np.clip(x, low, high)


def as_value(value: Any, dtype: np.dtype[Any]) -> Raw:
    """A value to fill elements of ``dtype`` with, or the error that it does not fit."""
    if (type(value) is float or type(value) is int) and dtype in _constants:
        size = abs(value)
        if size <= _LARGEST["float32"] or size == math.inf:  # most of what is filled in
            return np.array(value, dtype)
    value = np.asarray(value)
    kind = dtype.kind
    loses_a_part: Any = value.dtype.kind == "c" and kind not in "bc" and np.any(value.imag)
    if kind in "iu" and value.dtype.kind in "iuf" and value.size:
        limits = np.iinfo(dtype)
        wraps = kind == "u" and value.dtype.kind in "iu"  # -1 is 255, if it is an integer
        least = -int(limits.max) if wraps else limits.min
        loses_a_part = not np.all((value >= least) & (value <= limits.max))
    elif dtype.itemsize <= 4 and dtype.name in _LARGEST and value.dtype.kind in "iuf":
        loses_a_part = np.any((np.abs(value) > _LARGEST[dtype.name]) & ~np.isinf(value))
    if loses_a_part:
        name = _C_NAMES[dtype.name]
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return cast(value, dtype)


_LARGEST = {
    "float16": 65504.0, "float32": (2 - 2.0**-23) * 2.0**127, "bfloat16": (2 - 2.0**-7) * 2.0**127
}  # fmt: skip
# What PyTorch's messages call the C types of elements.
_C_NAMES = {
    "bool": "bool", "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int",
    "int64": "int64_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def take_along(x: Raw, indices: Raw, axis: int) -> Raw:
    return np.take_along_axis(x, indices, axis)


def mm(a: Raw, b: Raw) -> Raw:
    """The product of two matrices. Of a column and a row it is a product of numbers, which NumPy
    does several times faster as such."""
    return a * b if a.shape[1] == 1 else np.matmul(a, b)
