"""dtypes of the array API: promotion, casts, kinds and limits."""

from __future__ import annotations

from typing import Any, NamedTuple

import retrograd as torch
from retrograd import Tensor

Array = Any  # a Tensor
Number = (bool, int, float, complex)

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
REAL = (torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
KINDS: dict[str, tuple[Any, ...]] = {
    "bool": (torch.bool,), "signed integer": SIGNED, "unsigned integer": UNSIGNED,
    "integral": (*SIGNED, *UNSIGNED), "real floating": REAL, "complex floating": COMPLEX,
    "numeric": (*SIGNED, *UNSIGNED, *REAL, *COMPLEX),
}  # fmt: skip


def dtype_of(x: Any) -> Any:
    """The dtype of an array, or the dtype itself."""
    return x.dtype if isinstance(x, Tensor) else x


def isdtype(dtype: Any, kind: Any) -> bool:
    """Tests whether a dtype is of a kind: a dtype, a name such as "integral", or a tuple."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype: unknown kind {kind!r}; the kinds are {', '.join(KINDS)}")
        return dtype in KINDS[kind]
    if not isinstance(kind, torch.dtype):
        raise TypeError(f"isdtype: expected a dtype, a name or a tuple of them, got {kind!r}")
    return dtype is kind


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that arrays and dtypes are promoted to. A Python number counts by its kind."""
    known = [dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, Number)]
    if not known:
        raise ValueError("result_type: expected at least one array or dtype")
    result = known[0]
    for other in known[1:]:
        result = promoted(result, other)
    for x in arrays_and_dtypes:
        if isinstance(x, Number):
            result = torch.result_type(torch.zeros(1, dtype=result), x)
    return result


def promoted(a: Any, b: Any) -> Any:
    """The dtype that two are promoted to, in the table of the standard or by PyTorch's rules."""
    if {a, b} & {torch.uint64} and {a, b} & set(SIGNED):
        raise TypeError(f"{a} and {b} cannot be promoted: no integer dtype holds both")
    return torch.promote_types(a, b)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Tests whether a dtype, or that of an array, is promoted to another without a change."""
    source = dtype_of(from_)
    if {source, to} & {torch.uint64} and {source, to} & set(SIGNED):
        return False
    # Kinds do not mix in the standard's table.
    kinds = ("bool", "integral", ("real floating", "complex floating"))
    if not any(isdtype(source, kind) and isdtype(to, kind) for kind in kinds):
        return False
    return torch.promote_types(source, to) is to


def astype(x: Array, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """Converts an array to a dtype, in new memory unless ``copy`` is false and none is needed."""
    if x.is_complex() and dtype not in COMPLEX and dtype is not torch.bool:
        raise TypeError(
            "astype: a complex array cannot be converted to a real dtype. Take real(x), imag(x) or "
            "abs(x)."
        )
    return x.to(dtype, copy=copy) if device is None else x.to(device, dtype, copy=copy)


class finfo_object(NamedTuple):  # noqa: N801 - the name of the standard
    """Limits of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class iinfo_object(NamedTuple):  # noqa: N801 - the name of the standard
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: Any


def finfo(type: Any, /) -> finfo_object:
    """The limits of a floating-point dtype, or of that of an array. Of a complex one: of its
    parts."""
    dtype = dtype_of(type)
    real = dtype.to_real()
    limits = torch.finfo(real)
    return finfo_object(
        limits.bits, limits.eps, limits.max, limits.min, limits.smallest_normal, real
    )


def iinfo(type: Any, /) -> iinfo_object:
    """The limits of an integer dtype, or of that of an array."""
    dtype = dtype_of(type)
    limits = torch.iinfo(dtype)
    return iinfo_object(limits.bits, limits.max, limits.min, dtype)
