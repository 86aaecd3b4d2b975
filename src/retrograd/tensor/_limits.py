"""``finfo``, ``iinfo``, and the number of threads."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes


def _check_dtype(name: str, given: Any) -> None:
    if not isinstance(given, dtypes.dtype):
        raise TypeError(
            f"{name}(): argument 'type' (position 1) must be torch.dtype, not "
            f"{type(given).__name__}"
        )


class finfo:  # noqa: N801 - PyTorch's name
    """The numerical limits of a floating-point dtype.

    The attributes are ``bits``, ``dtype``, ``eps``, ``max``, ``min``, ``resolution``,
    ``smallest_normal`` and ``tiny``.

    Args:
        type: The dtype. The default is the default floating-point dtype.

    Example:
        >>> torch.finfo(torch.float32).eps
        1.1920928955078125e-07
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: Any = None) -> None:
        given = dtypes.get_default_dtype() if type is None else type
        _check_dtype("finfo", given)
        if not (given.is_floating_point or given.is_complex):
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                "'torch.finfo'"
            )
        part = given.to_real()
        if part is dtypes.bfloat16:
            self.dtype, self.bits, self.eps, self.resolution = "bfloat16", 16, 2.0**-7, 0.01
            self.max = (2.0 - 2.0**-7) * 2.0**127
            self.min, self.tiny = -self.max, 2.0**-126
            self.smallest_normal = self.tiny
            return
        limits = arrays.float_limits(part.numpy)
        self.dtype, self.bits = part.name, 8 * part.itemsize
        self.eps, self.max, self.min = (float(x) for x in (limits.eps, limits.max, limits.min))
        self.tiny = self.smallest_normal = float(limits.tiny)
        self.resolution = 10.0**-limits.precision

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        said = ", ".join(f"{n}={getattr(self, n):g}" for n in names)
        return f"finfo({said}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:  # noqa: N801 - PyTorch's name
    """The numerical limits of an integer dtype.

    The attributes are ``bits``, ``dtype``, ``max`` and ``min``.

    Args:
        type: The dtype.

    Example:
        >>> torch.iinfo(torch.int8).max
        127
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: Any) -> None:
        _check_dtype("iinfo", type)
        if type.is_floating_point or type.is_complex:
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                "'torch.iinfo'"
            )
        if type is dtypes.bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        self.dtype, self.bits = type.name, 8 * type.itemsize
        self.max = (1 << (self.bits - type.is_signed)) - 1
        self.min = -self.max - 1 if type.is_signed else 0

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


def get_num_threads() -> int:
    """Returns the number of threads that operations on large arrays use.

    Example:
        >>> torch.get_num_threads() >= 1
        True
    """
    return int(arrays.blocks.workers.count)


def set_num_threads(num: int) -> None:
    """Sets the number of threads that operations on large arrays and matrix products use.

    Args:
        num: The number of threads, at least 1.

    Example:
        >>> torch.set_num_threads(torch.get_num_threads())
    """
    if not isinstance(num, int) or isinstance(num, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    arrays.blocks.workers.set_count(num)
    arrays.blas.set_threads(num)
