"""In-place writes under transforms.

What is lifted is made of parts that are Tensors themselves, with memory and views of their own. So
a write goes to the parts: to the whole batch, or to the value and its tangent.
"""

from __future__ import annotations

from typing import Any

from retrograd._modes import modes
from retrograd.autograd._history import check_write, rebase, set_node
from retrograd.autograd._versions import version_of
from retrograd.ops import elementwise
from retrograd.ops._lifted import Level, Lifted
from retrograd.ops._operation import Operation
from retrograd.tensor._calls import (
    any_requires_grad,
    apply_lifted,
    check_lifted,
    for_number,
    lifted_to,
    make_node,
    pack_saved,
    save_values,
)
from retrograd.tensor._tensor import Tensor
from retrograd.tensor._write_steps import check_result, with_result


def write_lifted(
    level: Level, op: Operation, operands: list[Any], options: dict[str, Any]
) -> Tensor:
    """``operands[0] = op(*operands)`` in its own memory, where some operands belong to a
    transform."""
    target: Tensor = operands[0]
    op, operands, options = for_number(op, operands, options)
    if not is_of(level, target):
        others = [level.below(x._data) if is_of(level, x) else (x, False) for x in operands[1:]]
        if not any(depends for _, depends in others):
            assert Operation.write is not None
            written: Tensor = Operation.write(op, [target, *(x for x, _ in others)], options)
            return written
        level.take_in(target)
    if op.view:
        return _take_shape(level, op, target, options)
    lifted = [target, *(lifted_to(level, x) for x in operands[1:])]
    recorded = check_write(target, any_requires_grad(lifted[1:])) and op.has_rules
    if recorded and target._meta is not None and target._meta.view is not None:
        raise view_written(level)
    raws = [x._data if isinstance(x, Tensor) else x for x in lifted]
    check_lifted(op, raws, options)
    node = make_node(op, lifted, raws, options) if recorded else None
    result = level.run(op, tuple(raws), options)
    check_result(op, target._data, result)
    level.check_write(target._data, result)
    values = dict(zip(op.inputs, raws, strict=True))
    if node is not None and op.inputs[0] in op.saves:  # what was there is about to go
        values[op.inputs[0]] = level.run(elementwise.clone, (raws[0],), {})
    saved = None if node is None else save_values(op, node, lifted, values)
    level.write(target._data, result)
    version_of(target).bump()
    if node is not None:
        node.saved = with_result(op, node, saved, target)
        if saved is not None and modes.saved_tensor_hooks:
            pack_saved(node)
        rebase(target, node)
    return target


def is_of(level: Level, x: Any) -> bool:
    data = x._data if isinstance(x, Tensor) else None
    return isinstance(data, Lifted) and data.level is level


def _take_shape(level: Level, op: Operation, target: Tensor, options: dict[str, Any]) -> Tensor:
    """Give ``target`` the shape that ``op`` would give a view of it."""
    view = apply_lifted(level, op, [target], options)
    target._data = view._data
    if view._node is not None:
        set_node(target, view._node)
    version_of(target).bump()
    return target


def view_written(level: Level) -> RuntimeError:
    return RuntimeError(
        f"A view is being modified inplace while it is differentiated under {level.name}. "
        "That is not supported: write to the tensor that it is a view of, or compute a new one."
    )
