"""``squeeze_``, ``t_`` and other methods that give a tensor the shape of a view of itself."""

from __future__ import annotations

from functools import cache
from typing import Any

from retrograd import arrays
from retrograd.autograd._history import check_write, move_retained, set_node
from retrograd.autograd._operation_node import OperationNode
from retrograd.autograd._unrecorded import note_change
from retrograd.autograd._versions import version_of
from retrograd.ops._operation import Operation
from retrograd.tensor._calls import make_node
from retrograd.tensor._tensor import Tensor

# PyTorch counts the in-place forms among the overloads of an operation.
_NODES = {
    "squeeze": "SqueezeBackward3", "squeeze_dim": "SqueezeBackward4",
    "squeeze_dims": "SqueezeBackward5", "unsqueeze": "UnsqueezeBackward1", "t": "TBackward1",
    "transpose": "TransposeBackward1", "as_strided": "AsStridedBackward1",
}  # fmt: skip


def take_shape(op: Operation, target: Tensor, options: dict[str, Any]) -> Tensor:
    """Give ``target`` the shape that ``op`` would give a view of it.

    No memory is written, so its base, if it is a view, has the history it had. All the same it
    counts as a write, as in PyTorch: whoever saved the tensor saved it in another shape.
    """
    recorded = check_write(target, False)
    memory = target._data = arrays.writable(target._data)
    node = make_node(op, [target], [memory], options) if recorded else None
    before = memory.shape, memory.dtype
    target._data = op.forward(memory, **options)
    version = version_of(target)
    version.bump()
    if node is not None:
        node.__class__ = _in_place_class(op)
        move_retained(target, node)
        set_node(target, node)
        if target._meta is not None and target._meta.view is not None:
            target._meta.view.seen = version.count
    elif target.requires_grad:
        note_change(target, before)
    return target


@cache
def _in_place_class(op: Operation) -> type[OperationNode]:
    return type(_NODES[op.name], (op.node_class,), {"__slots__": ()})
