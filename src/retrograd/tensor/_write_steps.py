"""Steps common to all in-place writes."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.autograd._node import Node
from retrograd.autograd._versions import version_of
from retrograd.ops._lifted import Lifted, layout_of
from retrograd.ops._operation import Operation
from retrograd.tensor._tensor import Tensor


def with_result(op: Operation, node: Node, saved: Any, target: Tensor) -> Any:
    """The saved values of a write, completed by its result, which is there only now."""
    if "result" not in op.saves or all(n is None for n in node.next_nodes):
        return saved
    at, version = 3 * op.saves.index("result"), version_of(target)
    return (*saved[:at], target._data, version, version.count, *saved[at + 3 :])


def check_result(op: Operation, memory: Any, result: Any) -> None:
    """Whether a result can be written where it should go."""
    if op.dtypes not in ("free", "first"):
        have, want = dtypes.from_numpy_dtype(result.dtype), dtypes.from_numpy_dtype(memory.dtype)
        if op.family != "constant" and not dtypes.can_cast(have, want):
            raise RuntimeError(
                f"result type {dtypes.type_word(result.dtype)} can't be cast to the desired "
                f"output type {dtypes.type_word(memory.dtype)}"
            )
    shape = arrays.broadcast_shapes(memory.shape, result.shape)
    if tuple(shape) != memory.shape:
        raise RuntimeError(
            f"output with shape {list(memory.shape)} doesn't match the broadcast shape "
            f"{list(shape)}"
        )


def check_overlap(
    op: Operation, target: Tensor, others: list[Any], options: dict[str, Any]
) -> None:
    """Refuse writes whose result would depend on the order of elements, as PyTorch does."""
    memory = layout_in_memory(target)
    if not isinstance(memory, arrays.ndarray):
        return
    if "one value" not in op.writes and arrays.overlaps_itself(memory):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    for other in others:
        shared = isinstance(other, Tensor) and other._version_counter is target._version_counter
        if not shared or (target._version_counter is None and other is not target):
            continue
        if other is others[-1] and _is_read_before(op, other, options):
            continue
        how = "full" if other is target else arrays.overlap(memory, layout_in_memory(other))
        if how == "partial" or (how == "full" and "elements of others" in op.writes):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )


def layout_in_memory(x: Tensor) -> Any:
    """An array that overlaps itself and others as the memory of a tensor does, also on a device."""
    data = x._data
    if isinstance(data, Lifted) and data.level is Lifted.device_level:
        return data.layout
    return layout_of(x)


def _is_read_before(op: Operation, value: Tensor, options: dict[str, Any]) -> bool:
    """Whether the last operand of a write is one value that is read before anything is written. One
    value at the places of a mask, ``x[mask] = x[0]``, is filled in as by ``masked_fill_``."""
    if "a value read before" in op.writes:
        return True
    if op.name != "index_put" or options["accumulate"] or value.numel() != 1:
        return False
    indices = [w for w in options["where"] if not isinstance(w, slice)]
    return len(indices) == 1 and indices[0].dtype.kind == "b"
