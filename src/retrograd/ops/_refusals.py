"""Checks that are declared with operations, and raise PyTorch's errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd._modes import modes
from retrograd.arrays import dtypes
from retrograd.ops._operation import raw

Check = Callable[..., None]


def refuses(kinds: str, words: str, error: type[Exception] = NotImplementedError) -> Check:
    """A check that raises ``error(words)`` for operands whose common dtype is of one of ``kinds``
    (``b``, ``i``, ``f``, ``c``, or ``V`` for bfloat16 alone); ``{}`` in ``words`` stands for that
    dtype."""

    def check(*operands: Any, **options: Any) -> None:
        common = dtypes.result_type([x for x in operands if x is not None])
        if common.kind in kinds or (common.kind == "V" and "f" in kinds):
            raise error(words.format(dtypes.type_word(common)))

    check.takes_floats = "f" not in kinds  # type: ignore[attr-defined]
    return check


def takes_floats(check: Check | None) -> bool:
    """Whether a check has nothing to say about floats, so that it need not be asked."""
    return check is None or getattr(check, "takes_floats", False)


def kernel(name: str, kinds: str = "c") -> Check:
    """A check for what PyTorch has no kernel for."""
    return refuses(kinds, f"\"{name}\" not implemented for '{{}}'")


def both(*checks: Check) -> Check:
    """All of several checks."""

    def check(*operands: Any, **options: Any) -> None:
        for one in checks:
            one(*operands, **options)

    check.takes_floats = all(map(takes_floats, checks))  # type: ignore[attr-defined]
    return check


def no_bool_subtraction(*operands: Any, **options: Any) -> None:
    """Bools are not numbers that could be subtracted."""
    bools = [dtypes.result_type([x]).kind == "b" for x in (*operands, *options.values())]
    if len(operands) == 2 and all(bools):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if any(bools):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )


def without_complex_history(name: str, x: Any) -> Any:
    """``x``, for operations that PyTorch does not record on complex numbers."""
    if raw(x).dtype.kind == "c" and modes.grad_enabled and x.requires_grad:
        raise RuntimeError(
            f"{name} does not support automatic differentiation for outputs with complex dtype."
        )
    return x


def check_alpha(common: Any, alpha: Any) -> None:
    """Whether ``alpha`` may scale a sum of dtype ``common``."""
    if isinstance(alpha, bool) and common.kind != "b":
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, (float, complex)) and common.kind not in dtypes.INEXACT:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if isinstance(alpha, complex) and common.kind != "c":
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )


def c_name(dtype: Any) -> str:
    """What some messages call a dtype: the C type of its elements."""
    return _C_NAMES.get(dtype.name) or str(dtype.name)


_C_NAMES = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int",
    "int64": "long int", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "float32": "float", "float64": "double",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip
