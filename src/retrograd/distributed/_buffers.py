"""Tensors as memory that MPI reads and writes, without copies where their layout allows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.autograd._versions import version_of
from retrograd.ops._lifted import Lifted, device_value

# MPI counts elements in 32 bits, and moves no more at once than this many bytes.
LIMITS = {"bytes": 1 << 30}


def memory_of(tensor: Any) -> Any:
    """The array of a tensor, with memory of its own."""
    if isinstance(tensor._data, Lifted):
        value = device_value(tensor)
        if value is not None and value is tensor._data:
            raise RuntimeError(
                f"a tensor on {value.memory.device} cannot be sent over MPI: send x.cpu(). On a "
                "mesh, XLA inserts what devices send each other"
            )
        raise RuntimeError(
            "tensors inside a transform (vmap, grad, jvp...) cannot be sent to other processes. "
            "Communicate outside of the function that is transformed"
        )
    tensor._data = arrays.writable(tensor._data)
    return tensor._data


def to_read(tensor: Any) -> Any:
    """The elements of a tensor as a contiguous array to send: its own memory if it is
    contiguous."""
    return arrays.in_reading_order(memory_of(tensor))


def check_writable(tensor: Any) -> Any:
    """The array of a tensor, into which elements can be received."""
    memory = memory_of(tensor)
    if arrays.overlaps_itself(memory):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    if not memory.flags.writeable:
        raise RuntimeError("a tensor on memory that cannot be written cannot receive anything")
    return memory


def to_write(tensor: Any) -> tuple[Any, Callable[[], None]]:
    """A contiguous array to receive a tensor's new elements, and a function to call when they have
    arrived. It holds the present elements."""
    memory = check_writable(tensor)
    version_of(tensor).bump()  # values saved for backward are outdated now
    array = arrays.in_reading_order(memory)

    def written() -> None:
        if array is not memory:
            arrays.write(memory, array)
        version_of(tensor).bump()

    return array, written


def flat(array: Any) -> Any:
    """A contiguous array as one dimension."""
    return array.reshape(-1)


def as_bytes(array: Any) -> Any:
    """The memory of a contiguous array as bytes: MPI can move it without knowing the dtype."""
    return array.reshape(-1).view("u1")


def pieces(array: Any) -> list[Any]:
    """A flat array, cut into pieces that MPI can move at once. An array without elements is one
    piece."""
    most = max(LIMITS["bytes"] // array.itemsize, 1)
    if array.size <= most:
        return [array]
    return [array[start : start + most] for start in range(0, array.size, most)]
