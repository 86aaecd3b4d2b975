"""bfloat16 at a level: operands are converted to float32 and results are rounded, by operations of
the level itself, as ``arrays.narrow`` does it for arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.ops._lifted import Lifted, raw


def is_narrow(x: Any) -> bool:
    """Whether ``x`` has dtype bfloat16, at any level."""
    return getattr(getattr(raw(x), "dtype", None), "kind", "") == "V"


def run_widened(
    run: Callable[..., Any], to_dtype: Callable[[Any, Any], Any], operation: Any,
    args: tuple[Any, ...], options: dict[str, Any],
) -> Any:  # fmt: skip
    """``run(operation, args, options)`` in float32, and its results in bfloat16 if the first float
    operand is. ``to_dtype(x, dtype)`` converts a value."""
    wide, narrow = arrays.float32, arrays.narrow.dtype()

    def in_dtype(x: Any, old: Any, new: Any) -> Any:
        if type(x) in (list, tuple):
            return type(x)([in_dtype(part, old, new) for part in x])
        value = raw(x)
        holds_numbers = isinstance(value, Lifted) or arrays.is_raw(value)
        return to_dtype(x, new) if holds_numbers and value.dtype == old else x

    return arrays.narrow.call(
        operation.name, lambda *a, **named: run(operation, a, named), args, options,
        lambda x: in_dtype(x, narrow, wide), lambda y: in_dtype(y, wide, narrow),
    )  # fmt: skip
