"""bfloat16: stored in two bytes, computed in float32.

NumPy knows the dtype from the package ``ml_dtypes``, and little more of it than how to convert it.
So kernels never see it: operands are converted to float32, and results are rounded once, which is
what PyTorch's kernels do. That is also four times as fast as the arithmetic of ``ml_dtypes``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.arrays._dtypes import INEXACT, bfloat16
from retrograd.arrays._numpy import is_narrow, is_raw

FLOAT32 = np.dtype(np.float32)


def dtype() -> np.dtype[Any]:
    """NumPy's dtype of bfloat16."""
    numpy_dtype: np.dtype[Any] = bfloat16.numpy
    return numpy_dtype


def widened(x: Any) -> Any:
    """``x`` in float32 if it is an array of bfloat16, or such arrays in a list."""
    if is_narrow(x):
        return x.astype(FLOAT32)
    return type(x)(map(widened, x)) if type(x) in (list, tuple) else x


def rounded(x: Any) -> Any:
    """``x`` in bfloat16 if it is an array of float32, or such arrays in a list."""
    if is_raw(x) and x.dtype == FLOAT32:
        return x.astype(bfloat16.numpy)
    return type(x)(map(rounded, x)) if type(x) in (list, tuple) else x


def call(
    name: str, kernel: Callable[..., Any], args: Sequence[Any], options: dict[str, Any],
    widen: Callable[[Any], Any] = widened, round_: Callable[[Any], Any] = rounded,
) -> Any:  # fmt: skip
    """``kernel(*args, **options)`` of the operation ``name``, computed in float32. The results are
    in bfloat16 if the first float operand is: the kernels that take several dtypes give that of the
    first. Operands that are no arrays come with functions that convert them."""
    narrow = _first_is_narrow(args)
    if narrow and name not in _TAKE_WIDE_NUMBERS:
        args = [_as_narrow(x) if type(x) is float else x for x in args]
    wide_options = {
        key: _as_narrow(x) if type(x) is float and (name, key) in _NARROW_OPTIONS else widen(x)
        for key, x in options.items()
    }
    results = kernel(*map(widen, args), **wide_options)
    return round_(results) if narrow else results


# PyTorch's kernels take a Python operand in the dtype of the tensor, except for products and
# quotients, which take it in float32, as most kernels take other numbers.
_TAKE_WIDE_NUMBERS = frozenset(("mul", "div", "div_rounded"))
_NARROW_OPTIONS = frozenset((
    ("add_scaled", "alpha"), ("fmod_number", "other"), ("hardshrink", "lambd"),
    ("huber_loss", "delta"), ("pow_of_number", "self"), ("pow_scalar", "exponent"),
    ("remainder_number", "other"), ("rsub", "other"), ("rsub_number", "alpha"),
    ("rsub_number", "other"), ("sub_scaled", "alpha"), ("xlogy_by_number", "other"),
    ("xlogy_of_number", "self"),
))  # fmt: skip


def _as_narrow(number: float) -> float:
    return float(bfloat16.numpy.type(number))


def _first_is_narrow(args: Sequence[Any]) -> bool:
    for x in args:
        if type(x) in (list, tuple) and x:
            return _first_is_narrow(x)
        kind = getattr(getattr(x, "dtype", None), "kind", "")
        if kind and kind in INEXACT:
            return bool(kind == "V")
    return False
