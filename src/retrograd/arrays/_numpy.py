"""The NumPy adapter: what each primitive does to raw arrays.

A raw array is an ``ndarray`` or, with no dimensions, the NumPy scalar that ufuncs and reductions
give back: scalars are several times faster than zero-dimensional arrays and cannot be written,
so nothing needs to copy them. ``writable`` makes an array of one when somebody wants to share or
write its memory.
"""

from __future__ import annotations

import builtins
import math
import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided as _numpy_as_strided

Raw = Any  # np.ndarray | np.generic; spelled Any because NumPy's own stubs differ between the two

ndarray = np.ndarray
bool_type = np.bool_
RAW_TYPES: tuple[type, ...] = (np.ndarray, np.generic)
float32, float64, int64, bool_ = (np.dtype(n) for n in ("float32", "float64", "int64", "bool"))

add_to = np.add  # add_to(total, x, total) adds in the memory of total

# Arithmetic goes through the operators, not the ufuncs: on scalars they are ten times faster.
add, subtract, multiply, true_divide = operator.add, operator.sub, operator.mul, operator.truediv
negative, positive = operator.neg, operator.pos
less, less_equal, greater, greater_equal = np.less, np.less_equal, np.greater, np.greater_equal
equal, not_equal = np.equal, np.not_equal
absolute, conj, real, imag = np.absolute, np.conj, np.real, np.imag
exp, exp2, expm1, log, log2, log10, log1p = (
    np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p)  # fmt: skip
sqrt, square, reciprocal = np.sqrt, np.square, np.reciprocal
sin, cos, tan, arcsin, arccos, arctan, arctan2 = (
    np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.arctan2)  # fmt: skip
sinh, cosh, tanh, arcsinh, arccosh, arctanh = (
    np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh)  # fmt: skip
floor, ceil, trunc = np.floor, np.ceil, np.trunc
maximum, minimum, isnan, isinf, isfinite = (
    np.maximum, np.minimum, np.isnan, np.isinf, np.isfinite)  # fmt: skip
logical_and, logical_or, logical_xor, logical_not = (
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not)  # fmt: skip
bitwise_and, bitwise_or, bitwise_xor, bitwise_not = (
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.bitwise_not)  # fmt: skip
left_shift, right_shift = np.left_shift, np.right_shift
matmul, concatenate, stack = np.matmul, np.concatenate, np.stack
broadcast_shapes = np.broadcast_shapes
zeros_like, full, zeros, empty, eye, arange = (
    np.zeros_like, np.full, np.zeros, np.empty, np.eye, np.arange)  # fmt: skip


def ones(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Raw:
    return np.ones(shape, dtype) if shape else dtype.type(1)


_constants: dict[Any, dict[float, Raw]] = {float32: {}, float64: {}}
_MOST_CONSTANTS = 1000


def constant(number: float, x: Raw) -> Any:
    """``number`` for arithmetic with ``x``, a float array: an array of its dtype, made once.

    NumPy takes as long to convert a Python number as to multiply by it.
    """
    if type(x) is not np.ndarray or number == 0:  # 0.0 and -0.0 would share a place
        return number
    known = _constants[x.dtype]
    found = known.get(number)
    if found is None:
        found = np.array(number, x.dtype)
        found.flags.writeable = False
        if len(known) < _MOST_CONSTANTS:
            known[number] = found
    return found


def is_raw(value: object) -> bool:
    """Whether ``value`` is an array of this library (a Python number is not)."""
    return isinstance(value, RAW_TYPES)


def writable(x: Raw) -> Raw:
    """``x`` as an ndarray whose memory can be shared and, if it allows that, written."""
    return x if isinstance(x, np.ndarray) else np.array(x)


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
    return x.astype(dtype)


def wrapped(value: int, dtype: np.dtype[Any]) -> Raw:
    """An integer as an element of an integer dtype, which wraps around where it is too narrow."""
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return dtype.type(value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value)


def nonzero(x: Raw) -> tuple[Raw, ...]:
    """The places of the non-zero elements, an array of indices for each dimension."""
    return np.nonzero(np.atleast_1d(x))


def copy(x: Raw) -> Raw:
    """A copy in the memory order of ``x`` (a scalar is its own copy)."""
    return x.copy(order="K") if isinstance(x, np.ndarray) else x


def write(target: Raw, values: Raw) -> None:
    """Overwrite ``target`` with ``values``, broadcast and cast as needed."""
    np.copyto(target, values, casting="unsafe")


def can_add_to(x: Raw) -> bool:
    """Whether ``x`` is an array with memory that may be added to."""
    return isinstance(x, np.ndarray) and bool(x.flags.writeable) and 0 not in x.strides


# Held by the engine, by the node it is given to, by the parameter here, and by getrefcount. Later
# Pythons may borrow some of these references instead, and others count differently: there, copy.
_REFERENCES_OF_ONE_OWNER = 4
_COUNTS_ARE_KNOWN = (
    sys.implementation.name == "cpython"
    and sys.version_info < (3, 14)
    and getattr(sys, "_is_gil_enabled", lambda: True)()
)


def owned(x: Raw) -> Raw:
    """``x`` itself if its caller alone can see it, otherwise a copy that its caller owns.

    A gradient may be an array that other nodes, hooks or the user hold too (``add`` hands the
    same one to both of its inputs), or a view of one. Only an array that is seen from nowhere
    else may become somebody's ``.grad``, which is later accumulated into in place.
    """
    if not isinstance(x, np.ndarray):
        return x
    if (
        _COUNTS_ARE_KNOWN
        and x.base is None
        and sys.getrefcount(x) <= _REFERENCES_OF_ONE_OWNER
        and x.flags.writeable
    ):
        return x
    return x.copy(order="C") if 0 in x.strides else x.copy(order="K")


# A constant of the array's own dtype: a Python number in an expression costs NumPy as much as the
# whole operation on a small array.
_ONE = {d: np.ones((), d) for d in (np.dtype("f2"), float32, float64)}
_ZERO = {d: np.zeros((), d) for d in (np.dtype("f2"), float32, float64)}


def sigmoid(x: Raw) -> Raw:
    one = _ONE.get(x.dtype, 1)
    if not x.ndim or x.dtype not in _ONE:
        return one / (one + np.exp(-x))  # exp may overflow to inf, and one / inf is the right zero
    result = np.negative(x)
    np.exp(result, result)
    np.add(result, one, result)
    return np.divide(one, result, result)


def relu(x: Raw) -> Raw:
    if x.size > 16 * _MANY and x.dtype == float32 and 64 <= x.shape[-1] <= _ZEROS.size:
        # NumPy compares with a row of zeros more than twice as fast as with one zero.
        return np.maximum(x, _ZEROS[: x.shape[-1]])
    return np.maximum(_ZERO.get(x.dtype, 0), x)  # of two zeros, the second: -0.0 stays


_MANY = 512  # elements from which a few more passes cost less than branches that nobody can foresee
_ZEROS = np.zeros(1 << 15, np.float32)
_BITS = {float32: np.dtype("i4"), float64: np.dtype("i8")}


def where(condition: Raw, x: Raw, y: Raw) -> Raw:
    """``x`` where ``condition`` holds, ``y`` elsewhere."""
    bits = _BITS.get(getattr(x, "dtype", None))
    if (
        bits is None
        or not isinstance(condition, np.ndarray)
        or condition.size < _MANY
        or condition.dtype.kind != "b"
        or getattr(y, "dtype", None) != x.dtype
    ):
        return np.where(condition, x, y)
    # np.where branches on each element. Choosing among bits does not: y ^ ((x ^ y) & all or none).
    chosen = np.negative(condition.view(np.int8).astype(bits))
    y_bits = y.view(bits)
    changed = x.view(bits) ^ y_bits
    if changed.shape == chosen.shape:
        changed &= chosen
    else:
        changed = changed & chosen
    return (changed ^ y_bits).view(x.dtype)


def where_positive(x: Raw, y: Raw) -> Raw:
    """``x``, but zero wherever ``y`` is not positive (a NaN counts as positive)."""
    zero = _ZERO.get(x.dtype, 0)
    bits = _BITS.get(x.dtype)
    if bits is None or not isinstance(x, np.ndarray) or x.size < _MANY:
        return np.where(y <= zero, zero, x)
    kept = (y <= zero).view(np.int8).astype(bits)
    kept -= bits.type(1)  # all bits where y is positive, none where it is not
    if kept.shape != x.shape:
        return (kept & x.view(bits)).view(x.dtype)
    kept &= x.view(bits)
    return kept.view(x.dtype)


def sgn(x: Raw) -> Raw:
    """The sign; of a complex number, the number on the unit circle. That of NaN is zero."""
    if x.dtype.kind == "b":
        return copy(x)
    result = np.sign(x)
    if not isinstance(result, np.ndarray):
        return result if result == result else result.dtype.type(0)
    result[result != result] = 0
    return result


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
    if result.dtype.kind in "iu" and not np.all(y):
        raise RuntimeError("ZeroDivisionError")
    return result


def clip(x: Raw, low: Raw | None, high: Raw | None) -> Raw:
    """``x`` moved into ``[low, high]``; ``high`` wins where they contradict each other."""
    if x.dtype in _constants:  # for which NumPy takes long to convert numbers
        low = constant(low, x) if type(low) in (int, float) else low
        high = constant(high, x) if type(high) in (int, float) else high
        return x.clip(low, high)
    return np.clip(x, low, high)


def as_value(value: Any, dtype: np.dtype[Any]) -> Raw:
    """A value to fill elements of ``dtype`` with, or the error that it does not fit."""
    value = np.asarray(value)
    kind = dtype.kind
    loses_a_part: Any = value.dtype.kind == "c" and kind != "c" and np.any(value.imag)
    if kind in "iu" and value.dtype.kind in "iuf" and value.size:
        limits = np.iinfo(dtype)
        loses_a_part = not np.all((value >= limits.min) & (value <= limits.max))
    elif dtype in _LARGEST and value.dtype.kind in "iuf":
        loses_a_part = np.any((np.abs(value) > _LARGEST[dtype]) & ~np.isinf(value))
    if loses_a_part:
        name = _C_NAMES[dtype.name]
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return cast(value, dtype)


_LARGEST = {np.dtype(n): float(np.finfo(n).max) for n in ("float16", "float32")}
# What PyTorch's messages call the C types of elements.
_C_NAMES = {
    "bool": "bool", "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int",
    "int64": "int64_t", "float16": "c10::Half", "float32": "float", "float64": "double",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


Axes = int | tuple[int, ...] | None


def sum_all(x: Raw) -> Raw:
    if x.size >= 8 * _LONGEST and x.dtype in _ONES and x.flags.c_contiguous:
        return _sum_of_sums(x.reshape(-1))
    return np.add.reduce(x, None)


def sum(x: Raw, axes: Axes = None, keepdims: Any = False, dtype: Any = None) -> Raw:
    """Sums along axes. Long ones of floats are products with ones, which BLAS does several times
    faster than NumPy adds."""
    if (
        x.size >= _LONGEST
        and x.ndim == 2
        and x.dtype in _ONES
        and axes in ((0,), (1,))
        and dtype is None
        and x.flags.c_contiguous
    ):
        short = x.shape[axes[0]] <= _LONGEST  # type: ignore[index]
        if axes == (1,):
            sums = x @ _ONES[x.dtype][: x.shape[1]] if short else np.add.reduce(x, 1)
            return sums[:, None] if keepdims else sums
        if short:
            sums = _ONES[x.dtype][: x.shape[0]] @ x
            return sums[None] if keepdims else sums
    if x.dtype.char == "e" and dtype is None:  # too narrow to add up in
        return np.add.reduce(x, axis=axes, keepdims=keepdims, dtype=float32).astype(x.dtype)
    return np.add.reduce(x, axis=axes, keepdims=keepdims, dtype=dtype)


# What one product with ones adds up. BLAS adds in a few running sums, whose rounding errors grow
# with their length, so long rows are cut and the parts added up pairwise.
_LONGEST = 4096
_ONES = {d: np.ones(_LONGEST, d) for d in (float32, float64)}


def _sum_of_sums(x: Raw) -> Raw:
    """The sum of a long vector, by sums of stretches of it."""
    whole = x.size - x.size % 1024
    sums = x[:whole].reshape(-1, 1024) @ _ONES[x.dtype][:1024]
    return np.add.reduce(sums) + np.add.reduce(x[whole:])


def sum_to(x: Raw, shape: Sequence[int]) -> Raw:
    """``x`` summed over the dimensions that broadcasting from ``shape`` to its own had added."""
    added = x.ndim - len(shape)
    axes = tuple(range(added)) + tuple(
        added + d for d, s in enumerate(shape) if s == 1 and x.shape[added + d] != 1
    )
    if axes == (0,) and x.shape[0] == 1 and added == 1:
        return x[0]
    return np.add.reduce(x, axes).reshape(shape) if axes else x


def prod(x: Raw, axes: Axes = None, keepdims: Any = False) -> Raw:
    return np.multiply.reduce(x, axis=axes, keepdims=keepdims)


def amax(x: Raw, axes: Axes = None, keepdims: Any = False) -> Raw:
    return np.maximum.reduce(x, axis=axes, keepdims=keepdims)


def amin(x: Raw, axes: Axes = None, keepdims: Any = False) -> Raw:
    return np.minimum.reduce(x, axis=axes, keepdims=keepdims)


def any(x: Raw, axes: Axes = None, keepdims: bool = False) -> Raw:
    return np.any(x, axis=axes, keepdims=keepdims)


def all(x: Raw, axes: Axes = None, keepdims: bool = False) -> Raw:
    return np.all(x, axis=axes, keepdims=keepdims)


def argmax(x: Raw, axis: int | None = None, keepdims: bool = False) -> Raw:
    return np.argmax(x, axis=axis, keepdims=keepdims)


def argmin(x: Raw, axis: int | None = None, keepdims: bool = False) -> Raw:
    return np.argmin(x, axis=axis, keepdims=keepdims)


def cumsum(x: Raw, axis: int) -> Raw:
    if x.size >= _LONGEST and x.dtype in _ONES:
        from retrograd.arrays import _statistics

        return _statistics.cumsum(x, axis, False)
    if x.dtype.char == "e":  # too narrow to add up in
        return cumsum(x.astype(float32), axis).astype(x.dtype)
    return _in_reading_order(np.cumsum(x, axis=axis)) if np.ndim(x) else copy(x)


def cumsum_from_end(x: Raw, axis: int) -> Raw:
    """For each element, the sum of it and all that follow along ``axis``."""
    if x.size >= _LONGEST and x.dtype in _ONES:
        from retrograd.arrays import _statistics

        return _statistics.cumsum(x, axis, True)
    return flip(np.cumsum(np.flip(x, axis), axis=axis), axis) if np.ndim(x) else copy(x)


def flip(x: Raw, axes: Axes) -> Raw:
    """A copy with the elements in reverse order along ``axes``."""
    return np.array(np.flip(x, axes), order="C")


def _in_reading_order(x: Raw) -> Raw:
    return x if x.flags.c_contiguous else x.copy(order="C")


def take_along(x: Raw, indices: Raw, axis: int) -> Raw:
    return np.take_along_axis(x, indices, axis)


def mm(a: Raw, b: Raw) -> Raw:
    """The product of two matrices. Of a column and a row it is a product of numbers, which NumPy
    does several times faster as such."""
    return a * b if a.shape[1] == 1 else np.matmul(a, b)


def reshape(x: Raw, shape: Sequence[int]) -> Raw:
    return (x if isinstance(x, np.ndarray) else np.array(x)).reshape(shape)


def permute(x: Raw, dims: Sequence[int] | None) -> Raw:
    """``x`` with its dimensions in another order; None reverses them."""
    return (x if isinstance(x, np.ndarray) else np.array(x)).transpose(dims)


def view_as_real(x: Raw) -> Raw:
    """The same memory as pairs of real numbers along a new last dimension."""
    x = writable(x)
    part = x.real
    return _numpy_as_strided(part, (*x.shape, 2), (*part.strides, part.itemsize))


def view_as_complex(x: Raw) -> Raw:
    """Pairs of real numbers along the last dimension as complex ones, in the same memory if they
    lie side by side in it."""
    if x.strides[-1] != x.itemsize:
        x = np.ascontiguousarray(x)
    return x.view(f"c{2 * x.itemsize}")[..., 0]


def expand(x: Raw, shape: tuple[int, ...]) -> Raw:
    """``x`` repeated to ``shape`` without copying, and as writable as ``x`` is: writing through the
    overlap is refused one level up, in PyTorch's words."""
    x = writable(x)
    if x.size == 1:  # by far the most frequent case, the gradient of a sum, and ten times faster
        return np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    if not x.flags.c_contiguous:
        return _numpy_as_strided(x, shape, np.broadcast_to(x, shape).strides)
    # What as_strided does, without its checks: a size of 1 is repeated by a stride of 0.
    added = len(shape) - x.ndim
    steps = (0,) * added + tuple(
        step if size == want else 0
        for step, size, want in zip(x.strides, x.shape, shape[added:], strict=True)
    )
    return np.ndarray(shape, x.dtype, x, 0, steps)


def strides(x: Raw) -> tuple[int, ...]:
    """Strides in elements, as PyTorch counts them."""
    if x.size == 0:  # NumPy gives such an array no strides to speak of
        return tuple(math.prod(max(s, 1) for s in x.shape[d + 1 :]) for d in range(x.ndim))
    return tuple(s // x.itemsize for s in x.strides)


def is_contiguous(x: Raw) -> bool:
    return not isinstance(x, np.ndarray) or bool(x.flags.c_contiguous)


def ascontiguous(x: Raw) -> Raw:
    return np.ascontiguousarray(x) if np.ndim(x) else x


def view_as_shape(x: Raw, shape: Sequence[int]) -> Raw | None:
    """``x`` in another shape without copying, or None where its strides do not allow that."""
    x = writable(x)
    if x.flags.c_contiguous:
        return x.reshape(shape)
    view = np.reshape(x, shape)  # a copy if it must be, which is then not in the memory of x
    return view if not x.size or np.may_share_memory(view, x) else None


def positions(base: Raw, view: Raw) -> Raw:
    """Which element of ``base``, counted in reading order, each element of ``view`` shows.

    ``view`` must lie in the memory of ``base``. This is what makes "the same view of another
    array" (a gradient, a new version of the base) mean something for every layout, negative and
    zero strides included.
    """
    if base.itemsize != view.itemsize:
        raise RuntimeError(
            "the real and imaginary parts of a tensor that requires grad cannot be written in "
            "place, nor used after it was. Use a clone() of the part, or make a new complex tensor"
        )
    lowest, highest = np.lib.array_utils.byte_bounds(base)
    numbers = np.empty((highest - lowest) // base.itemsize, np.int64)

    def same_layout(x: Raw) -> Raw:
        start = (x.__array_interface__["data"][0] - lowest) // base.itemsize
        steps = tuple(s // base.itemsize * numbers.itemsize for s in x.strides)
        return _numpy_as_strided(numbers[start:], x.shape, steps)

    same_layout(base)[...] = np.arange(base.size).reshape(base.shape)
    return same_layout(view).copy()


def take_flat(x: Raw, where_from: Raw) -> Raw:
    """The elements of ``x`` at ``where_from``, positions in reading order."""
    return np.reshape(x, -1)[where_from]


def put_flat(x: Raw, where_to: Raw, values: Raw) -> Raw:
    """A copy of ``x`` with ``values`` written at ``where_to``."""
    out = np.array(x, order="C")
    out.reshape(-1)[where_to] = values
    return out


def add_flat(shape: tuple[int, ...], where_to: Raw, values: Raw) -> Raw:
    """Zeros of ``shape`` with ``values`` added at ``where_to``; places may repeat."""
    out = np.zeros(math.prod(shape), values.dtype)
    # In one dimension, and only there, this is as fast as a loop in C.
    np.add.at(out, np.reshape(where_to, -1), np.reshape(values, -1))
    return out.reshape(shape)


def index(x: Raw, where_from: tuple[Any, ...]) -> Raw:
    """The elements of ``x`` at an index with arrays in it: a copy."""
    x = writable(x)
    if len(where_from) == 1:  # by far the most frequent case, and taking is faster
        places = where_from[0]
        if places.dtype.kind != "b":
            return x.take(places, axis=0)
        if places.ndim and places.shape == x.shape[: places.ndim]:
            rows = x.reshape(places.size, *x.shape[places.ndim :])
            return rows.take(np.flatnonzero(places), axis=0)
    return _in_reading_order(x[where_from])


def index_put(x: Raw, where_to: tuple[Any, ...], values: Raw) -> Raw:
    """A copy of ``x`` with ``values`` put at an index."""
    out = copy(writable(x))
    out[where_to] = values
    return out


def put_slice(shape: tuple[int, ...], where_to: tuple[Any, ...], values: Raw) -> Raw:
    """Zeros of ``shape`` but for ``values`` at a basic index (which names no place twice)."""
    out = np.zeros(shape, values.dtype)
    out[where_to] = values
    return out


def is_dense(x: Raw) -> bool:
    """Whether ``x`` fills a stretch of memory, in any order of its dimensions, without gaps."""
    step = x.itemsize
    for stride, size in sorted(zip(x.strides, x.shape, strict=True)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def overlap(a: Raw, b: Raw) -> str:
    """Whether two arrays show the same memory: "full", "partial" or "none". As in PyTorch, arrays
    with gaps are given the benefit of the doubt."""
    if not isinstance(b, np.ndarray) or not a.size or not b.size:
        return "none"
    if not is_dense(a) or not is_dense(b):
        return "none"
    (a_start, a_end), (b_start, b_end) = map(np.lib.array_utils.byte_bounds, (a, b))
    if a_end <= b_start or b_end <= a_start:
        return "none"
    same = (a_start, a_end, a.strides) == (b_start, b_end, b.strides)
    return "full" if same else "partial"


def overlaps_itself(x: Raw) -> bool:
    """Whether two elements of ``x`` are one and the same memory, as after ``expand``."""
    steps = zip(x.strides, x.shape, strict=True)
    return x.size > 0 and builtins.any(stride == 0 and size > 1 for stride, size in steps)


def from_dlpack(value: Any) -> Raw:
    return np.from_dlpack(value)


def from_buffer(buffer: Any, dtype: np.dtype[Any], count: int, offset: int) -> Raw:
    """The memory of ``buffer`` as elements of ``dtype``."""
    return np.frombuffer(buffer, dtype, count, offset)


def empty_strided(shape: tuple[int, ...], steps: tuple[int, ...], dtype: np.dtype[Any]) -> Raw:
    """An array with strides (counted in elements) of one's own choice."""
    reach = 0 if 0 in shape else 1
    for size, step in zip(shape, steps, strict=True):
        reach += max(size - 1, 0) * step
    memory = np.empty(reach, dtype)
    return np.ndarray(shape, dtype, memory, 0, tuple(s * dtype.itemsize for s in steps))


def layout_order(x: Raw) -> list[int]:
    """The order of dimensions from outermost to innermost in memory that a new array like ``x``
    gets. An array with gaps or repeats has no order worth keeping."""
    plain = list(range(x.ndim))
    if not is_dense(x):
        strides = [abs(s) for s in x.strides]
        return sorted(plain, key=lambda d: -strides[d]) if 0 not in strides else plain
    return sorted(plain, key=lambda d: -x.strides[d])


def float_limits(dtype: np.dtype[Any]) -> np.finfo[Any]:
    return np.finfo(dtype)
