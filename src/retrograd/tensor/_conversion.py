"""Tensors from existing data, without a copy where possible: as_tensor, asarray, from_numpy."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.arrays import dtypes
from retrograd.tensor._creation import check_array, new_tensor, numpy_dtype, tensor
from retrograd.tensor._device import CPU, is_meta
from retrograd.tensor._methods import to
from retrograd.tensor._tensor import Tensor


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Converts data to a tensor, without a copy if possible.

    Args:
        data: A number, nested sequences of numbers, an array or a tensor.
        dtype: The dtype of the result. By default, it is inferred from the data.
        device: The device of the result. By default, that of the data, or of new tensors.

    Returns:
        ``data`` itself if it is a tensor of that dtype, a tensor that shares the memory of an
        array, or else a new tensor.

    Example:
        >>> torch.as_tensor([1, 2])
        tensor([1, 2])
    """
    target = modes.device if device is None else device
    wanted = None if dtype is None else numpy_dtype(dtype, name="as_tensor")
    if arrays.is_raw(data) and (wanted is None or wanted == data.dtype):
        data = from_numpy(arrays.writable(data))
    if isinstance(data, Tensor):
        result: Tensor = to(data, dtype=dtype, device=target)
        return result
    return tensor(data, dtype=dtype, device=device)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Converts an object to a tensor.

    Args:
        obj: A tensor, an array, an object with the buffer protocol, or nested sequences of numbers.
        dtype: The dtype of the result. By default, it is inferred from the data.
        device: The device of the result. By default, that of the data, or of new tensors.
        copy: Whether to copy the data. By default, it is copied only if necessary. If false and a
            copy is necessary, ValueError is raised.
        requires_grad: Whether operations on the result are recorded for autograd.

    Returns:
        A tensor, which shares the memory of ``obj`` unless it was copied.

    Example:
        >>> torch.asarray([1.0, 2.0], requires_grad=True)
        tensor([1., 2.], requires_grad=True)
    """
    if isinstance(obj, Tensor):
        return _of_tensor(obj, dtype, device, copy, requires_grad)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        from retrograd.tensor._memory import frombuffer

        made = frombuffer(obj, dtype=dtype or dtypes.get_default_dtype())
        return new_tensor(arrays.copy(made._data) if copy else made._data, requires_grad, device)
    if copy is False and not arrays.is_raw(obj):
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    if copy is False and dtype is not None and obj.dtype != dtype.numpy:
        raise _no_alias(obj.dtype, dtype.numpy)
    made = tensor(obj, dtype=dtype) if copy else as_tensor(obj, dtype, device)
    return new_tensor(made._data, requires_grad, device, "asarray")


def _of_tensor(
    obj: Tensor, dtype: Any, device: Any, copy: bool | None, requires_grad: bool
) -> Tensor:
    target = modes.device if device is None else device
    wanted = obj._data.dtype if dtype is None else numpy_dtype(dtype, name="asarray")
    if wanted != obj._data.dtype and copy is False:
        raise _no_alias(obj._data.dtype, wanted)
    made: Tensor = to(obj, device=target)
    if made is not obj and copy is False:
        raise ValueError(
            f"can't alias tensor from device '{obj.device}' to '{made.device}'."
        )
    obj = made
    if copy:
        made = to(obj, dtypes.from_numpy_dtype(wanted), copy=True)
    elif wanted != obj._data.dtype:
        made = to(obj, dtypes.from_numpy_dtype(wanted))
    if requires_grad and not made.requires_grad:
        return new_tensor(made._data, True, made.device, "asarray")
    return made


def _no_alias(have: Any, wanted: Any) -> ValueError:
    return ValueError(
        f"can't alias tensor with dtype '{dtypes.type_word(have)}' into dtype "
        f"'{dtypes.type_word(wanted)}'."
    )


def from_numpy(ndarray: Any) -> Tensor:
    """Creates a tensor that shares the memory of a NumPy array.

    Args:
        ndarray: The array.

    Returns:
        A tensor. Changes to it are visible in the array, and the reverse.

    Example:
        >>> import numpy as np, retrograd as torch
        >>> a = np.zeros(2)
        >>> t = torch.from_numpy(a); a[0] = 5; t
        tensor([5., 0.], dtype=torch.float64)
    """
    if not isinstance(ndarray, arrays.ndarray):
        kind = type(ndarray)
        name = f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.")
        raise TypeError(f"expected np.ndarray (got {name})")
    check_array(ndarray)
    return new_tensor(arrays.layout.start_of_memory(ndarray), device=CPU)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Creates a tensor that shares the memory of an object with the DLPack protocol.

    Args:
        ext_tensor: An object with a method ``__dlpack__``, such as a NumPy array.
        device: The device of the result. By default, the CPU.
        copy: Whether to copy the memory: true, false, or only if that is necessary (the default).

    Returns:
        A tensor that shares the memory of the object, unless it was copied.

    Example:
        >>> import numpy as np
        >>> torch.from_dlpack(np.ones(2))
        tensor([1., 1.], dtype=torch.float64)
    """
    if device is not None and is_meta(device):
        raise BufferError("Cannot pack tensors on meta")
    target = CPU if device is None else device  # regardless of the default device
    return new_tensor(arrays.from_dlpack(ext_tensor, copy), device=target)
