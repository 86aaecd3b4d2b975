"""Signatures of calls, for each of which XLA compiles a function.

The arguments of a call are divided into the arrays (and for some operations, numbers) that are
passed to the compiled function, and a key that represents all else. The key of a value on a device
is its ``_values.py:Kind``, which the value stores.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.devices._pending import CannotTraceError
from retrograd.devices._values import DeviceValue, Memory, constant_key
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import TensorLike

np = arrays.programs.numpy


def keys_of(values: Any, flat: list[Any], numbers: tuple[type, ...] = ()) -> list[Any]:
    """The keys of some arguments. Their arrays, computed or pending, are appended to ``flat``, and
    so are Python numbers of the types in ``numbers``, whose values are then not part of the key.
    CannotTraceError for a value that belongs to a transform."""
    keys: list[Any] = []
    for x in values:
        kind = type(x)
        if kind is DeviceValue:
            flat.append(x.memory.content)
            keys.append(x._kind or x.kind)
        elif x is None:
            keys.append(None)
        elif kind in numbers and not is_large(x):
            flat.append(x)
            keys.append(kind)
        elif kind is list or kind is tuple:
            keys.append((kind, *keys_of(x, flat, numbers)))
        elif kind is int or kind is bool or kind is str:
            keys.append((kind, x))
        elif isinstance(x, TensorLike):
            keys += keys_of((x._data,), flat, numbers)
        elif arrays.is_raw(x):
            flat.append(x)
            keys.append((np, x.shape, x.dtype.num))
        elif isinstance(x, Lifted):  # as a constant, it would need a function for each value
            raise CannotTraceError(f"an operand is a value under {x.level.name}")
        else:
            keys.append(constant_key(x))
    return keys


def is_large(x: Any) -> bool:
    """Whether an argument is an integer of more than 64 bits, which JAX does not have."""
    return type(x) is int and not -(1 << 63) <= x < 1 << 63


def common_device(values: Any) -> Any:
    """The device of the values among some arguments, or None if there are none. RuntimeError if
    they are on different devices."""
    first = None
    for x in values_in(values):
        if first is None:
            first = x.memory
        elif not on_one_device(first, x.memory):
            raise two_devices(first.device, x.memory.device)
    return None if first is None else first.device


def on_one_device(one: Memory, other: Memory) -> bool:
    """Whether two pieces of memory are on the same device, which may have several names, or on the
    same mesh."""
    return one.device == other.device or _jax_devices(one) == _jax_devices(other)


def _jax_devices(memory: Memory) -> list[Any]:
    """JAX's devices that memory is spread over, in their order, which XLA's programs depend on."""
    mesh = memory.device._mesh
    return [*(memory.array.devices() if mesh is None else mesh._jax_mesh.devices.flat)]


def values_in(values: Any) -> list[DeviceValue]:
    """The values on devices among some arguments, in the order of ``keys_of``."""
    result: list[DeviceValue] = []
    for x in values:
        if isinstance(x, TensorLike):
            x = x._data
        if type(x) is DeviceValue:
            result.append(x)
        elif type(x) in (list, tuple):
            result += values_in(x)
    return result


def two_devices(one: Any, other: Any) -> RuntimeError:
    """The error for operands on two devices, with PyTorch's message."""
    if one._mesh is not None or getattr(other, "_mesh", None) is not None:
        return RuntimeError(
            "got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor "
            f"before calling distributed operators! One is on {one}, another on {other}. Move it "
            "to the mesh with distribute_tensor(x, mesh, placements), or with x.to(y.device), "
            "which replicates it."
        )
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{one} and {other}! Move them to one device with .to()."
    )
