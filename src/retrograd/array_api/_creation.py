"""Creation functions of the array API."""

from __future__ import annotations

from typing import Any

import retrograd as torch
from retrograd import Tensor, arrays
from retrograd.array_api._dtypes import Array, result_type

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def _sizes(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _buffer(obj: Any) -> Any:
    """An object with the buffer protocol as an array, of the dtype that the buffer says."""
    if isinstance(obj, (list, tuple)) or hasattr(obj, "__dlpack__"):
        return obj
    try:
        return arrays.asarray(memoryview(obj))
    except TypeError:
        return obj


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None,
            copy: bool | None = None) -> Array:  # fmt: skip
    """An array of a number, of nested sequences of numbers, of an array or of a buffer."""
    if isinstance(obj, (list, tuple)) and any(isinstance(x, Tensor) for x in obj):
        if copy is False:
            raise ValueError("asarray: a sequence of arrays cannot be shared")
        parts = [asarray(x) for x in obj]
        result = torch.stack([x.to(result_type(*parts)) for x in parts])
        return result if dtype is None else result.to(dtype)
    if isinstance(obj, (bool, int, float, complex)) and copy is False:
        raise ValueError("asarray: a number has no memory that could be shared")
    obj = _buffer(obj)
    if copy is False and not isinstance(obj, (Tensor, list, tuple)) and hasattr(obj, "__dlpack__"):
        result = torch.from_dlpack(obj)
        if dtype is not None and result.dtype is not dtype:
            raise ValueError(f"asarray: an array of {result.dtype} cannot be shared as {dtype}")
        return result
    return torch.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array from an object of another library, sharing its memory unless ``copy`` is true."""
    return torch.from_dlpack(x, device=device, copy=copy)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None,
           device: Any = None) -> Array:  # fmt: skip
    """Numbers from ``start``, in steps, up to but without ``stop``."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange: expected a step other than 0")
    exact = all(isinstance(x, int) for x in (start, stop, step))
    kind = dtype or (torch.int64 if exact else torch.get_default_dtype())
    if stop <= start if step > 0 else stop >= start:
        return torch.zeros(0, dtype=kind, device=device)
    return torch.arange(start, stop, step, dtype=kind, device=device)


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
             endpoint: bool = True) -> Array:  # fmt: skip
    """``num`` numbers at equal distances from ``start`` to ``stop``."""
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    kind = torch.get_default_dtype()
    kind = dtype or (kind.to_complex() if is_complex else kind)
    if not endpoint:
        return torch.linspace(start, stop, num + 1, dtype=kind, device=device)[:-1]
    return torch.linspace(start, stop, num, dtype=kind, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None,
        device: Any = None) -> Array:  # fmt: skip
    """A matrix with ones on its ``k``-th diagonal, and zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    rows, columns = torch.arange(n_rows)[:, None], torch.arange(n_cols)
    return (columns == rows + k).to(dtype or torch.get_default_dtype())


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array that is to be filled."""
    return torch.empty(_sizes(shape), dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of zeros."""
    return torch.zeros(_sizes(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of ones."""
    return torch.ones(_sizes(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of one number."""
    return torch.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of the shape and dtype of another, to be filled."""
    return torch.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros in the shape and dtype of an array."""
    return torch.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones in the shape and dtype of an array."""
    return torch.ones_like(x, dtype=dtype, device=device)


def full_like(x: Array, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """One number in the shape and dtype of an array."""
    return torch.full_like(x, fill_value, dtype=dtype, device=device)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """Coordinates on a grid, from those along each of its axes."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: expected indexing 'xy' or 'ij', got {indexing!r}")
    if len({x.dtype for x in arrays}) > 1:
        raise ValueError("meshgrid: expected arrays of one dtype")
    return list(torch.meshgrid(*arrays, indexing=indexing)) if arrays else []


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangle of matrices."""
    return torch.tril(x, k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangle of matrices."""
    return torch.triu(x, k)
