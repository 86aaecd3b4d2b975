"""Elementwise functions of the array API.

Most are the function of the same or a similar name in ``torch``, of operands that are promoted
first. The lists below are those of the standard.
"""

# ruff: noqa: A001 - the standard's names

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import retrograd as torch
from retrograd import Tensor
from retrograd.array_api._dtypes import Array, Number, iinfo, isdtype, result_type
from retrograd.numpy_protocols import _ufuncs

_UNARY = {
    name: name
    for name in ("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh",
                 "exp", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p",
                 "log2", "logical_not", "negative", "positive", "real", "reciprocal", "signbit",
                 "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc")
} | {"bitwise_invert": "bitwise_not", "imag": "imag", "conj": "conj_physical"}  # fmt: skip
_BINARY = {
    name: name
    for name in ("add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or",
                 "bitwise_right_shift", "bitwise_xor", "copysign", "divide", "floor_divide",
                 "greater", "greater_equal", "hypot", "less", "less_equal", "logaddexp",
                 "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply",
                 "nextafter", "not_equal", "pow", "remainder", "subtract")
} | {"equal": "eq"}  # fmt: skip
_DOC = """The array API's ``{0}``.

See https://data-apis.org/array-api/2024.12/API_specification/generated/array_api.{0}.html.
"""


def pair(name: str, x1: Any, x2: Any) -> tuple[Array, Array]:
    """Two operands of one dtype. One may be a Python number."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        raise TypeError(f"{name}: expected an array, got {type(x1)} and {type(x2)}")
    for x in (x1, x2):
        if not isinstance(x, (Tensor, *Number)):
            raise TypeError(f"{name}: expected an array or a number, got {type(x)}")
    dtype = result_type(x1, x2)
    if number := [x for x in (x1, x2) if isinstance(x, int) and not fits(x, dtype)]:
        raise OverflowError(f"{name}: {number[0]} is not a number of {dtype}")
    first, second = (
        x.to(dtype) if isinstance(x, Tensor) else torch.tensor(x, dtype=dtype) for x in (x1, x2)
    )
    return first, second


def fits(number: int, dtype: Any) -> bool:
    """Tests whether an integer is in the range of a dtype."""
    return not isdtype(dtype, "integral") or iinfo(dtype).min <= number <= iinfo(dtype).max


def fresh(result: Array) -> Array:
    """A result that may be written to, as programs for the standard do: a copy of one that its own
    derivative needs."""
    node = getattr(result, "grad_fn", None)
    op = getattr(node, "operation", None)
    return result.clone() if op is not None and "result" in op.saves else result


def _unary(name: str, ours: str) -> Callable[..., Any]:
    function = getattr(torch, ours)

    def called(x: Array, /) -> Array:
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected an array, got {type(x)}")
        result = function(x)
        return x.clone() if result is x else fresh(result)

    return _named(called, name)


def _binary(name: str, ours: str) -> Callable[..., Any]:
    function = getattr(torch, ours)

    def called(x1: Any, x2: Any, /) -> Array:
        return fresh(function(*pair(name, x1, x2)))

    return _named(called, name)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "retrograd.array_api"
    function.__doc__ = _DOC.format(name)
    return function


for _name, _ours in _UNARY.items():
    globals()[_name] = _unary(_name, _ours)
for _name, _ours in _BINARY.items():
    globals()[_name] = _binary(_name, _ours)


def expm1(x: Array, /) -> Array:
    """``exp(x) - 1``, without the loss of digits near 0. A complex infinity or NaN goes through
    ``exp``, whose special cases NumPy's ``expm1`` does not have."""
    if not isinstance(x, Tensor):
        raise TypeError(f"expm1: expected an array, got {type(x)}")
    if not x.is_complex():
        return fresh(torch.expm1(x))
    return torch.where(torch.isfinite(x) & (x != 0), torch.expm1(x), torch.exp(x) - 1)


def sign(x: Array, /) -> Array:
    """The sign: 1, 0 or -1, and for a complex number the number over its absolute value."""
    return _ufuncs.sign(x)


def round(x: Array, /) -> Array:
    """The nearest integers; of a number half-way between two, the even one."""
    if x.is_complex():
        return torch.complex(torch.round(torch.real(x)), torch.round(torch.imag(x)))
    return torch.round(x)


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """The elements, at least ``min`` and at most ``max``: numbers or arrays. The dtype is kept."""
    result = x
    integral = isdtype(x.dtype, "integral")
    if integral and isinstance(min, int) and min < iinfo(x.dtype).min:
        min = None
    if integral and isinstance(max, int) and max > iinfo(x.dtype).max:
        max = None
    if min is not None:
        result = torch.maximum(*pair("clip", result, min)).to(x.dtype)
    if max is not None:
        result = torch.minimum(*pair("clip", result, max)).to(x.dtype)
    return result.clone() if result is x else result


def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """The elements of ``x1`` where the condition is true, and of ``x2`` elsewhere."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        return torch.where(condition, x1, x2)
    return torch.where(condition, *pair("where", x1, x2))


__all__ = sorted({*_UNARY, *_BINARY, "expm1", "sign", "round", "clip", "where"})
