"""``assert_close``: compares values and reports how they differ."""

from __future__ import annotations

import cmath
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._creation import tensor
from retrograd.tensor._tensor import Tensor

_TOLERANCES = {  # relative and absolute
    "float16": (1e-3, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "bfloat16": (1.6e-2, 1e-5), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """Raise AssertionError unless two values are close: ``|actual - expected| <= atol + rtol *
    |expected|`` for all elements.

    Args:
        actual: a tensor, an array, a number, or a sequence or mapping of them.
        expected: the same kind of value.
        allow_subclasses: whether the types of the two may be different.
        rtol: the relative tolerance. By default, both depend on the dtype.
        atol: the absolute tolerance.
        equal_nan: whether NaN is equal to NaN.
        check_device: whether devices must be equal.
        check_dtype: whether dtypes must be equal.
        check_layout: accepted for compatibility; every tensor is strided.
        check_stride: whether strides must be equal.
        msg: the message of the error, or a function that makes one of the usual message.

    Example:
        >>> torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    """
    __tracebackhide__ = True
    if (rtol is None) is not (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
        )
    checks = {"device": check_device, "dtype": check_dtype, "stride": check_stride}
    problem = _compared(actual, expected, "", allow_subclasses, rtol, atol, equal_nan, checks)
    if problem is not None:
        raise AssertionError(msg(problem) if callable(msg) else problem if msg is None else msg)


def _compared(
    actual: Any, expected: Any, path: str, subclasses: bool, rtol: Any, atol: Any,
    equal_nan: bool, checks: dict[str, bool],
) -> str | None:  # fmt: skip
    """What is wrong with a pair of values, or None."""
    rest = (subclasses, rtol, atol, equal_nan, checks)
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
        for i, pair in enumerate(zip(actual, expected, strict=True)):
            if (problem := _compared(*pair, f"{path}[{i}]", *rest)) is not None:
                return problem
        return None
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return (
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(set(expected) - set(actual))}\n"
                f"Additional keys in the actual mapping: {sorted(set(actual) - set(expected))}"
            )
        for key in actual:
            where = f"{path}[{key!r}]"
            if (problem := _compared(actual[key], expected[key], where, *rest)) is not None:
                return problem
        return None
    problem = _one(actual, expected, *rest)
    return problem if problem is None or not path else (
        f"{problem}\n\nThe failure occurred for item {path}"
    )  # fmt: skip


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _one(
    actual: Any, expected: Any, subclasses: bool, rtol: Any, atol: Any, equal_nan: bool,
    checks: dict[str, bool],
) -> str | None:  # fmt: skip
    if actual is None and expected is None:
        return None
    numbers = (bool, int, float, complex)
    if isinstance(actual, numbers) and isinstance(expected, numbers) and not any(
        map(arrays.is_raw, (actual, expected))
    ):  # fmt: skip
        return _scalars(actual, expected, rtol, atol, equal_nan, checks["dtype"])
    known = (Tensor, *numbers)
    if not all(isinstance(x, known) or arrays.is_raw(x) for x in (actual, expected)):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and "
            f"{type(expected)}."
        )
    if not subclasses and type(actual) is not type(expected):
        return f"type(actual) is {type(actual)}, but type(expected) is {type(expected)}"
    a, b = (x if isinstance(x, Tensor) else as_tensor(x) for x in (actual, expected))
    for name, (x, y) in {
        "shape": (a.shape, b.shape), "device": (a.device, b.device), "dtype": (a.dtype, b.dtype),
        "stride()": (a.stride(), b.stride()),
    }.items():  # fmt: skip
        if checks.get(name.removesuffix("()"), True) and x != y:
            return f"The values for attribute {name!r} do not match: {x} != {y}."
    return _values(a.detach(), b.detach(), rtol, atol, equal_nan)


def _tolerances(kinds: Sequence[Any], rtol: Any, atol: Any) -> tuple[float, float]:
    if rtol is not None:
        return rtol, atol
    tolerances = [_TOLERANCES.get(kind.name, (0.0, 0.0)) for kind in kinds]
    return max(r for r, _ in tolerances), max(a for _, a in tolerances)


def _allowed(tolerance: float) -> str:
    return f" (up to {tolerance} allowed)" if tolerance else ""


def _scalars(
    actual: Any, expected: Any, rtol: Any, atol: Any, equal_nan: bool, check_dtype: bool
) -> str | None:
    kinds = [dtypes.from_numpy_dtype(tensor(x).numpy().dtype) for x in (actual, expected)]
    wide = {float: dtypes.float64, complex: dtypes.complex128}
    kinds = [wide.get(type(x), kind) for x, kind in zip((actual, expected), kinds, strict=True)]
    if check_dtype and type(actual) is not type(expected):
        return f"The (d)types do not match: {type(actual)} != {type(expected)}."
    rtol, atol = _tolerances(kinds, rtol, atol)
    if actual == expected or (equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return None
    difference = abs(actual - expected)
    if difference <= atol + rtol * abs(expected):
        return None
    relative = float("inf") if not expected else difference / abs(expected)
    if not rtol and not atol:
        heading, lines = "Scalars are not equal!", ""
        if not isinstance(actual, bool):
            lines = f"\nAbsolute difference: {difference}\nRelative difference: {relative}"
        return f"{heading}\n\nExpected {expected} but got {actual}.{lines}"
    return (
        f"Scalars are not close!\n\nExpected {expected} but got {actual}.\nAbsolute difference: "
        f"{difference}{_allowed(atol)}\nRelative difference: {relative}{_allowed(rtol)}"
    )


def _values(a: Tensor, b: Tensor, rtol: Any, atol: Any, equal_nan: bool) -> str | None:
    rtol, atol = _tolerances((a.dtype, b.dtype), rtol, atol)
    common = dtypes.promote_types(a.dtype, b.dtype)
    a, b = a.to(common), b.to(common)
    close = a.isclose(b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if close.all():
        return None
    exact = not (common.is_floating_point or common.is_complex)
    if exact:
        a, b = a.to(dtypes.int64), b.to(dtypes.int64)
    heading = f"Tensor-likes are not {'equal' if not rtol and not atol else 'close'}!"
    if not a.ndim:
        return _scalar_values(a.item(), b.item(), rtol, atol)
    count, total = int((~close).sum()), a.numel()
    absolute = (a - b).abs()
    absolute[close] = 0
    relative = absolute / b.abs()
    relative[close] = 0
    lines = [f"Mismatched elements: {count} / {total} ({count / total:.1%})"]
    for name, x, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        position = int(x.argmax())
        index: list[int] = []
        left = position
        for size in reversed(x.shape):
            left, place = divmod(left, size)
            index.insert(0, place)
        largest = x.reshape(-1)[position].item()
        where = f"at index {tuple(index)}{_allowed(tolerance)}"
        lines.append(f"Greatest {name} difference: {largest} {where}")
    text = "\n".join(lines)
    return f"{heading}\n\n{text}"


def _scalar_values(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    difference = abs(actual - expected)
    relative = float("inf") if not expected else difference / abs(expected)
    word = "equal" if not rtol and not atol else "close"
    return (
        f"Scalars are not {word}!\n\nExpected {expected} but got {actual}.\nAbsolute difference: "
        f"{difference}{_allowed(atol)}\nRelative difference: {relative}{_allowed(rtol)}"
    )


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = True, msg: str = "",
) -> None:  # fmt: skip
    """Raise AssertionError unless two values are close. Use ``assert_close``.

    Args:
        actual: a tensor, or what makes one.
        expected: the same kind of value.
        rtol: the relative tolerance.
        atol: the absolute tolerance.
        equal_nan: whether NaN is equal to NaN.
        msg: the message of the error.

    Example:
        >>> from retrograd.testing import assert_allclose
        >>> assert_allclose([1.0, 2.0], [1.0, 2.0 + 1e-8])
    """
    a, b = (x if isinstance(x, Tensor) else tensor(x) for x in (actual, expected))
    assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
                 msg=msg or None)  # fmt: skip
