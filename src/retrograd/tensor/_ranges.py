"""Tensors of numbers in a range: evenly spaced, or their powers."""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.arrays._fused import evenly, stepped
from retrograd.ops._arguments import element
from retrograd.ops._refusals import c_name
from retrograd.ops._sections import complete_all
from retrograd.tensor._creation import MEANINGS, finished, numpy_dtype
from retrograd.tensor._tensor import Tensor


def arange(*bounds: Any, start: Any = None, end: Any = None, step: Any = None, out: Any = None,
           dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
           requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Creates a 1-D tensor of evenly spaced numbers on ``[start, end)``.

    It is called as ``arange(end)``, ``arange(start, end)`` or ``arange(start, end, step)``.

    Args:
        *bounds: The arguments ``start``, ``end`` and ``step`` by position.
        start: The first number. The default is 0.
        end: The end of the range, which is excluded.
        step: The difference between neighbouring numbers. The default is 1.
        dtype: The dtype of the result. By default, it is inferred from the other arguments.

    Example:
        >>> torch.arange(-1.0, 1.0, 0.5)
        tensor([-1.0000, -0.5000,  0.0000,  0.5000])
    """
    start, end, step = _bounds(bounds, start, end, step)
    whole = all(isinstance(x, int) for x in (start, end, step))
    default = arrays.int64 if whole else dtypes.default_float()
    wanted = numpy_dtype(dtype, default, "arange")
    if out is not None:
        wanted = out._data.dtype
    data = _spaced(start, end, step, wanted)
    return finished("arange", data, out, dtype, requires_grad, device, keeps_shape=True)


def range(  # noqa: A001 - PyTorch's name
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Creates a 1-D tensor of evenly spaced numbers on ``[start, end]``.

    Deprecated: use ``arange``, which excludes the end.

    Args:
        start: The first number.
        end: The end of the range, which is included.
        step: The difference between neighbouring numbers.
        dtype: The dtype of the result.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     print(torch.range(1, 3))
        tensor([1., 2., 3.])
    """
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        stacklevel=2,
    )
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    start, end, step = (
        _number("range", name, x) for name, x in (("start", start), ("end", end), ("step", step))
    )
    wanted = numpy_dtype(dtype, None, "range") if out is None else out._data.dtype
    if dtype is None and out is None and all(isinstance(x, int) for x in (start, end, step)):
        wanted = dtypes.default_float()
    if wanted.kind in "bc":
        raise NotImplementedError(f"\"range_cpu\" not implemented for '{dtypes.type_word(wanted)}'")
    _check_range(start, end, step)
    count = int((end - start) / step + 1)
    if wanted.kind in "iu":
        data = arrays.cast(int(start) + int(step) * arrays.arange(count), wanted)
    else:
        data = stepped(float(start), float(step), count, wanted)
    return finished("range", data, out, dtype, requires_grad, device, keeps_shape=True)


def _check_range(start: Any, end: Any, step: Any) -> None:
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _bounds(given: tuple[Any, ...], start: Any, end: Any, step: Any) -> tuple[Any, Any, Any]:
    if len(given) == 1 and end is None:
        end = given[0]
    elif len(given) == 1:
        start = given[0]
    elif given:
        start, end = given[:2]
        step = given[2] if len(given) > 2 else step
    if end is None:
        raise TypeError(
            "arange() received an invalid combination of arguments - got (), but expected one of:"
        )
    named = (
        ("start", 0 if start is None else start),
        ("end", end),
        ("step", 1 if step is None else step),
    )
    first, last, by = (_number("arange", name, value, given) for name, value in named)
    return first, last, by


def _number(function: str, name: str, value: Any, given: tuple[Any, ...] = ()) -> Any:
    """A number of Python's, from one, an array or a tensor that holds one."""
    if isinstance(value, Tensor) or arrays.is_raw(value):
        value = value.item()
    if isinstance(value, complex) and function == "arange":
        raise RuntimeError("value cannot be converted to type double without overflow")
    if not isinstance(value, (bool, int, float, complex)):
        raise TypeError(
            f"{function}(): argument '{name}' (position {max(len(given), 1)}) must be Number, not "
            f"{type(value).__name__}"
        )
    return int(value) if isinstance(value, bool) else value


def _spaced(start: Any, end: Any, step: Any, dtype: Any) -> Raw:
    if dtype.kind in "bc":
        word = dtypes.type_word(dtype)
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{word}'")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    count = math.ceil((end - start) / step) if step else 0
    if dtype.kind in "iu":
        if step and all(isinstance(x, int) for x in (start, end, step)):
            count = -((start - end) // step)  # exact, where a quotient of floats is not
        start, end, step = int(start), int(end), int(step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype == arrays.int64 and abs(step) < 1 << 63:
        return arrays.arange(start, end, step)
    if dtype.kind in "iu":  # counted as if the bounds had not been rounded
        wide = dtypes.uint64.numpy
        first, by = arrays.wrapped(start, wide), arrays.wrapped(step, wide)
        return arrays.cast(first + by * arrays.cast(arrays.arange(count), wide), dtype)
    return stepped(float(start), float(step), count, dtype)


def linspace(start: Any, end: Any, steps: int, *, out: Any = None, dtype: Any = None,
             layout: Any = None, device: Any = None, pin_memory: bool = False,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Creates a 1-D tensor of evenly spaced numbers from ``start`` to ``end``.

    Args:
        start: The first number.
        end: The last number.
        steps: The number of elements.
        dtype: The dtype of the result.

    Example:
        >>> torch.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    start, end, wanted = _ends("linspace", start, end, steps, dtype, out)
    data = arrays.cast(_even(start, end, steps, wanted), wanted)
    return finished("linspace", data, out, dtype, requires_grad, device, keeps_shape=True)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any = None,
             dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Creates a 1-D tensor of numbers that are evenly spaced on a logarithmic scale.

    Args:
        start: The exponent of the first number.
        end: The exponent of the last number.
        steps: The number of elements.
        base: The base of the powers.
        dtype: The dtype of the result.

    Returns:
        A 1-D tensor of the powers of ``base``.

    Example:
        >>> torch.logspace(0, 2, 3)
        tensor([  1.,  10., 100.])
    """
    start, end, wanted = _ends("logspace", start, end, steps, dtype, out)
    wide = arrays.float64 if wanted.kind != "c" else dtypes.complex128.numpy
    exponents = arrays.cast(_even(start, end, steps, wanted), wide)
    data = arrays.cast(arrays.power(wide.type(base), exponents), wanted)
    return finished("logspace", data, out, dtype, requires_grad, device, keeps_shape=True)


def _ends(
    name: str, start: Any, end: Any, steps: int, dtype: Any, out: Any
) -> tuple[Any, Any, Any]:
    """The ends of a range, and the dtype of its elements."""
    for label, x in (("start", start), ("end", end)):
        if isinstance(x, Tensor) and x.ndim:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got {label} with "
                f"{x.ndim} dimension(s)."
            )
    start, end = _number(name, "start", start), _number(name, "end", end)
    if operator.index(steps) < 0:
        raise RuntimeError("number of steps must be non-negative")
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    default = dtypes.default_complex() if is_complex else dtypes.default_float()
    wanted = numpy_dtype(dtype, default, name)
    if out is not None:
        wanted = out._data.dtype
    if is_complex and wanted.kind != "c":
        raise RuntimeError(
            f"torch.{name}(): inferred dtype {c_name(dtypes.default_complex())} can't be safely "
            f"cast to passed dtype {dtypes.type_word(wanted)}"
        )
    if wanted.kind == "b" and steps:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")
    return start, end, wanted


def _even(start: Any, end: Any, steps: int, dtype: Any) -> Raw:
    """Numbers counted from the nearer end. They are not rounded to an integer dtype yet."""
    if steps == 1:
        return arrays.full((1,), start, dtype)
    if dtype.kind == "f" and dtype.itemsize > 2:
        return evenly(float(start), float(end), steps, dtype)
    if dtype.kind in "iu":
        start, end = (int(element(x, dtype)) for x in (start, end))
    step = (end - start) / max(steps - 1, 1)
    index = arrays.arange(steps, dtype=arrays.float64)
    near, far = start + step * index, end - step * (steps - 1 - index)
    return arrays.where(index < steps // 2, near, far)


complete_all(globals(), {**MEANINGS, "out": "The tensor to write the result to."})
