"""Making tensors: from data, filled, in ranges, at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._history import meta_of
from retrograd.autograd._wrap import wrap
from retrograd.ops._dims import as_shape
from retrograd.tensor._methods import to
from retrograd.tensor._tensor import Tensor, device


def new_tensor(data: Raw, requires_grad: Any = False, place: Any = None) -> Tensor:
    """A leaf."""
    if place is not None:
        device(place)
    if not isinstance(requires_grad, bool):
        raise TypeError(
            f"argument 'requires_grad' must be bool, not {type(requires_grad).__name__}"
        )
    made: Tensor = wrap(data)
    if requires_grad:
        if data.dtype.kind not in "fc":
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        meta_of(made).requires_grad = True
    if modes.inference:
        meta_of(made).inference = True
    return made


def _numpy_dtype(dtype: Any, default: Any = None) -> Any:
    if dtype is None:
        return dtypes.default_float() if default is None else default
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"dtype must be torch.dtype, not {type(dtype).__name__}")
    return dtype.numpy


# -- from data -------------------------------------------------------------------------------


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A new leaf holding a copy of ``data``: a number, nested sequences of them, or an array.

    >>> import retrograd as torch
    >>> torch.tensor([1.0, 3.0], requires_grad=True)
    tensor([1., 3.], requires_grad=True)
    """
    wanted = None if dtype is None else _numpy_dtype(dtype)
    return new_tensor(from_data(data, wanted), requires_grad, device)


def from_data(data: Any, dtype: Any) -> Raw:
    """A new array of the dtype given, or of PyTorch's choice for such data."""
    if isinstance(data, Tensor):
        data = data._data
    if arrays.is_raw(data):
        dtypes.from_numpy_dtype(data.dtype)  # TypeError if there is no such dtype
        return arrays.array(data, dtype)
    flat, shape = flatten_data(data)
    if dtype is None:
        dtype = dtypes.result_type(flat) if flat else dtypes.default_float()
    flat = [x.item() if arrays.is_raw(x) else x for x in flat]
    if dtype.kind in "iu" and any(isinstance(x, int) and abs(x) >= 2**63 for x in flat):
        raise ValueError("Overflow when unpacking long long")
    return arrays.reshape(arrays.array(flat, dtype), shape)


def flatten_data(data: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The numbers in nested sequences, and the shape that the nesting spells."""
    shape: list[int] = []
    level: list[Any] = [data]
    while level and (isinstance(level[0], (list, tuple, range)) or _has_dims(level[0])):
        length = len(level[0])
        for x in level:
            if not isinstance(x, (list, tuple, range)) and not _has_dims(x):
                raise TypeError("not a sequence")
            if len(x) != length:
                raise ValueError(
                    f"expected sequence of length {length} at dim {len(shape)} (got {len(x)})"
                )
        shape.append(length)
        level = [y for x in level for y in (x.tolist() if _has_dims(x) else x)]
    for i, x in enumerate(level):
        if isinstance(x, Tensor):
            level[i] = x.item() if x.ndim == 0 else x
        elif isinstance(x, str):
            raise (
                ValueError("too many dimensions 'str'")
                if shape
                else TypeError("new(): invalid data type 'str'")
            )
        elif isinstance(x, (list, tuple)):
            raise ValueError(f"expected a number at dim {len(shape)}, but got a sequence")
        elif not isinstance(x, (bool, int, float, complex)) and not arrays.is_raw(x):
            raise RuntimeError(f"Could not infer dtype of {type(x).__name__}")
    return level, tuple(shape)


def _has_dims(x: Any) -> bool:
    return (isinstance(x, Tensor) or arrays.is_raw(x)) and x.ndim > 0


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, without a copy where it is one already or an array.

    >>> import retrograd as torch
    >>> torch.as_tensor([1, 2])
    tensor([1, 2])
    """
    if isinstance(data, Tensor):
        return to(data, dtype) if dtype is not None else data
    if arrays.is_raw(data) and (dtype is None or data.dtype == dtype.numpy):
        return from_numpy(arrays.writable(data))
    return tensor(data, dtype=dtype, device=device)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """``obj`` as a tensor; ``copy=True`` for one of its own."""
    made = tensor(obj, dtype=dtype) if copy else as_tensor(obj, dtype, device)
    if requires_grad:
        made.requires_grad_()
    return made


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array.

    >>> import numpy as np, retrograd as torch
    >>> a = np.zeros(2)
    >>> t = torch.from_numpy(a); a[0] = 5; t
    tensor([5., 0.], dtype=torch.float64)
    """
    if not isinstance(ndarray, arrays.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtypes.from_numpy_dtype(ndarray.dtype)
    return new_tensor(ndarray)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor that shares the memory of any array that speaks DLPack."""
    return new_tensor(arrays.from_dlpack(ext_tensor))


# -- filled ----------------------------------------------------------------------------------


def _filled(
    fill: Callable[[tuple[int, ...], Any], Raw], name: str, doc: str
) -> Callable[..., Tensor]:
    def function(
        *size: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None,
        **ignored: Any,
    ) -> Tensor:  # fmt: skip
        if "size" in ignored:
            size = (ignored.pop("size"),)
        return new_tensor(fill(as_shape(size), _numpy_dtype(dtype)), requires_grad, device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


zeros = _filled(arrays.zeros, "zeros", "A tensor of zeros of a shape.")
ones = _filled(arrays.ones, "ones", "A tensor of ones of a shape.")
empty = _filled(arrays.empty, "empty", "A tensor of a shape, not initialised.")


def full(size: Sequence[int], fill_value: Any, *, dtype: Any = None, requires_grad: bool = False,
         device: Any = None, **ignored: Any) -> Tensor:  # fmt: skip
    """A tensor of a shape with one value everywhere.

    >>> import retrograd as torch
    >>> torch.full((2,), 3)
    tensor([3, 3])
    """
    value = fill_value._data if isinstance(fill_value, Tensor) else fill_value
    wanted = _numpy_dtype(dtype, dtypes.result_type([value]))
    return new_tensor(arrays.full(as_shape((size,)), value, wanted), requires_grad, device)


def eye(n: int, m: int | None = None, *, dtype: Any = None, requires_grad: bool = False,
        device: Any = None, **ignored: Any) -> Tensor:  # fmt: skip
    """A matrix with ones on the diagonal."""
    return new_tensor(arrays.eye(n, m, dtype=_numpy_dtype(dtype)), requires_grad, device)


def zeros_like(input: Tensor, **options: Any) -> Tensor:
    """Zeros of the shape and dtype of another tensor."""
    return _like(input, arrays.zeros, options)


def ones_like(input: Tensor, **options: Any) -> Tensor:
    """Ones of the shape and dtype of another tensor."""
    return _like(input, arrays.ones, options)


def empty_like(input: Tensor, **options: Any) -> Tensor:
    """A tensor of the shape and dtype of another, not initialised."""
    return _like(input, arrays.empty, options)


def full_like(input: Tensor, fill_value: Any, **options: Any) -> Tensor:
    """One value everywhere, in the shape and dtype of another tensor."""
    return _like(input, lambda shape, dtype: arrays.full(shape, fill_value, dtype), options)


def _like(input: Tensor, fill: Callable[[Any, Any], Raw], options: dict[str, Any]) -> Tensor:
    wanted = _numpy_dtype(options.get("dtype"), input._data.dtype)
    data = fill(input._data.shape, wanted)
    return new_tensor(data, options.get("requires_grad", False), options.get("device"))


# -- ranges ----------------------------------------------------------------------------------


def arange(*bounds: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None,
           **named: Any) -> Tensor:  # fmt: skip
    """``arange(end)``, ``arange(start, end)`` or ``arange(start, end, step)``.

    >>> import retrograd as torch
    >>> torch.arange(-1.0, 1.0, 0.5)
    tensor([-1.0000, -0.5000,  0.0000,  0.5000])
    """
    start, end, step = _bounds(bounds, named)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(x, int) for x in (start, end, step))
    wanted = _numpy_dtype(dtype, arrays.int64 if whole else dtypes.default_float())
    count = math.ceil((end - start) / step)
    if whole and wanted.kind in "iu":
        data = arrays.cast(arrays.arange(start, end, step), wanted)
    else:  # as PyTorch: computed in double precision from the index, then rounded once
        data = arrays.cast(start + step * arrays.arange(count, dtype=arrays.float64), wanted)
    return new_tensor(data, requires_grad, device)


def _bounds(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    values = [x.item() if isinstance(x, Tensor) else x for x in given]
    if len(values) == 1:
        values = [0, *values]
    start = named.get("start", values[0] if values else 0)
    end = named.get("end", values[1] if len(values) > 1 else None)
    return start, end, named.get("step", values[2] if len(values) > 2 else 1)


def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, requires_grad: bool = False,
             device: Any = None, **ignored: Any) -> Tensor:  # fmt: skip
    """``steps`` numbers from ``start`` to ``end``, both included."""
    return new_tensor(
        arrays.linspace(float(start), float(end), steps, _numpy_dtype(dtype)), requires_grad, device
    )


# -- at random -------------------------------------------------------------------------------


def _sampled(distribution: str, name: str, doc: str) -> Callable[..., Tensor]:
    def function(
        *size: Any, dtype: Any = None, requires_grad: bool = False, generator: Any = None,
        device: Any = None, **ignored: Any,
    ) -> Tensor:  # fmt: skip
        sample = getattr(arrays.random, distribution)
        data = sample(as_shape(size), _numpy_dtype(dtype), generator)
        return new_tensor(data, requires_grad, device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


rand = _sampled("uniform", "rand", "Uniform random numbers in [0, 1).")
randn = _sampled("normal", "randn", "Normal random numbers, mean 0 and deviation 1.")


def randint(low: int, high: Any = None, size: Any = None, *, dtype: Any = None,
            requires_grad: bool = False, generator: Any = None, device: Any = None,
            **ignored: Any) -> Tensor:  # fmt: skip
    """Random integers: ``randint(high, size)`` or ``randint(low, high, size)``."""
    if size is None:
        low, high, size = 0, low, high
    wanted = _numpy_dtype(dtype, arrays.int64)
    data = arrays.random.integers(low, high, as_shape((size,)), wanted, generator)
    return new_tensor(data, requires_grad, device)


def randperm(n: int, *, dtype: Any = None, generator: Any = None, **ignored: Any) -> Tensor:
    """The numbers 0 to n - 1 in random order."""
    return new_tensor(arrays.random.permutation(n, _numpy_dtype(dtype, arrays.int64), generator))


def rand_like(input: Tensor, **options: Any) -> Tensor:
    """Uniform random numbers in the shape and dtype of another tensor."""
    return _like(input, arrays.random.uniform, options)


def randn_like(input: Tensor, **options: Any) -> Tensor:
    """Normal random numbers in the shape and dtype of another tensor."""
    return _like(input, arrays.random.normal, options)


def randint_like(input: Tensor, low: int, high: Any = None, **options: Any) -> Tensor:
    """Random integers in the shape and dtype of another tensor."""
    low, high = (0, low) if high is None else (low, high)
    return _like(
        input, lambda shape, dtype: arrays.random.integers(low, high, shape, dtype), options
    )


# -- of a tensor's own kind ------------------------------------------------------------------


def _new(fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        options.setdefault("dtype", self.dtype)
        return fill(*args, **options)

    return method


_FILLS: dict[str, Callable[..., Tensor]] = {
    "new_zeros": zeros, "new_ones": ones, "new_empty": empty, "new_full": full, "new_tensor": tensor
}  # fmt: skip
for _name, _fill in _FILLS.items():
    setattr(Tensor, _name, _new(_fill))
