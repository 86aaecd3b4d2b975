"""In-place writes under transforms.

What is lifted is made of parts that are Tensors themselves, with memory and views of their own. So
a write goes to the parts: to the whole batch, or to the value and its tangent.
"""

from __future__ import annotations

from typing import Any

from retrograd._modes import modes
from retrograd.autograd._history import (
    Positions,
    View,
    become_view,
    check_write,
    meta_of,
    rebase,
    set_node,
)
from retrograd.autograd._levels import as_tensor, is_of
from retrograd.autograd._saved import pack_saved
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import wrap
from retrograd.ops import copies
from retrograd.ops._lifted import Level, Lifted, bare_option
from retrograd.ops._operation import Operation
from retrograd.tensor._calls import (
    any_requires_grad,
    applied,
    apply_lifted,
    check_lifted,
    for_number,
    lifted_to,
    make_node,
    prepare,
    save_values,
)
from retrograd.tensor._tensor import Tensor
from retrograd.tensor._write_steps import check_overlap, check_result, with_result


def write_on_device(
    level: Any, op: Operation, operands: list[Any], options: dict[str, Any]
) -> Tensor:
    """A write to a tensor on a device, or on ``meta``, where the shape is checked and the history
    kept. Any tensor can be copied there."""
    target, *others = operands
    if op is copies.copy:
        others = [x.to(target.device) if isinstance(x, Tensor) else x for x in others]
    else:
        level.check_devices(operands)
        target, *others = level.with_recorded_numbers(operands)
    return write_lifted(level, op, [target, *others], options)


def write_from_device(op: Operation, operands: list[Any], options: dict[str, Any]) -> Tensor:
    """A write to a tensor on the CPU with others on a device, which can only be copied."""
    target, *others = operands
    below = [x for x in others if isinstance(x, Tensor) and isinstance(x._data, Lifted)]
    if op is not copies.copy:
        for x in below:
            x._data.level.check_devices(operands)
    assert Operation.write is not None
    moved = [x.to(target.device) if isinstance(x, Tensor) else x for x in others]
    written: Tensor = Operation.write(op, [target, *moved], options)
    return written


def write_lifted(
    level: Level, op: Operation, operands: list[Any], options: dict[str, Any]
) -> Tensor:
    """``operands[0] = op(*operands)`` in its own memory, where some operands belong to a
    transform."""
    target: Tensor = operands[0]
    op, operands, options = for_number(op, operands, options)
    if not is_of(level, target):
        others = [level.below(x._data) if is_of(level, x) else (x, False) for x in operands[1:]]
        indices = {name: _option_below(level, x) for name, x in options.items()}
        depends = any(depends for _, depends in (*others, *indices.values()))
        recorded = modes.grad_enabled and any_requires_grad(operands[1:])
        if not depends and not (recorded and any(is_of(level, x) for x in operands[1:])):
            assert Operation.write is not None
            below = {name: x for name, (x, _) in indices.items()}
            parts = [as_tensor(x) if isinstance(x, Lifted) else x for x, _ in others]
            written: Tensor = Operation.write(op, [target, *parts], below)
            return written
        if depends or level.takes_in:
            level.take_in(target)
        else:  # what is written is a constant of the level, but has a history there
            take_in_as_constant(level, target)
    if op.view:
        return _take_shape(level, op, target, options)
    target._data.hold(as_tensor)
    lifted = [target, *(lifted_to(level, x) for x in operands[1:])]
    recorded = check_write(target, any_requires_grad(lifted[1:])) and op.has_rules
    if recorded and target._meta is not None and target._meta.view is not None:
        check_part(target, target._meta.view)
    raws = [x._data if isinstance(x, Tensor) else x for x in lifted]
    check_lifted(op, raws, options)
    raws = prepare(op, raws, options)
    node = make_node(op, lifted, raws, options) if recorded else None
    check_overlap(op, target, operands[1:], options)
    if any(map(is_recorded, raws)):  # by levels below, which may keep what is about to be written
        raws[0] = level.run(copies.clone, (raws[0],), {})
    result = applied(level, op, tuple(raws), options)
    check_result(op, target._data, result)
    level.check_write(target._data, result)
    result.hold(as_tensor)  # its parts are operands of writes now
    values = dict(zip(op.inputs, raws, strict=True))
    if node is not None and op.inputs[0] in op.saves:  # what was there is about to go
        values[op.inputs[0]] = level.run(copies.clone, (raws[0],), {})
    saved = None if node is None else save_values(op, node, lifted, values)
    # What has no rules has none for tangents either: they stay, as the history does.
    level.write(target._data, result, moves=op.has_rules)
    version_of(target).bump()
    if node is not None:
        node.saved = with_result(op, node, saved, target)
        if saved is not None and modes.saved_tensor_hooks:
            pack_saved(node)
        rebase(target, node)
    return target


def take_in_as_constant(level: Level, tensor: Tensor) -> None:
    """Make a tensor from outside a constant of ``level``, so that it can have a history there."""
    view = tensor._meta.view if tensor._meta is not None else None
    inner = wrap(tensor._data, tensor._node, tensor._number, tensor._version_counter)
    if view is None:
        if tensor.requires_grad and tensor._node is None:
            inner.requires_grad_()  # and writing it will be refused
        tensor._data = level.constant(inner)
        tensor._node = tensor._meta = tensor._version_counter = None
        return
    if not is_of(level, view.base):
        take_in_as_constant(level, view.base)
    base = as_tensor(view.base._data.inner)
    inner_view = meta_of(inner).view = View(base, view.created, view.seen)
    part = inner_view.part = view.part or Positions(base, inner)
    tensor._data, tensor._node, tensor._meta = level.constant(inner), None, None
    become_view(tensor, view.base, view.created)
    now = meta_of(tensor).view
    assert now is not None
    now.part, now.seen = part, -1  # its history is that of the base


def is_recorded(x: Any) -> bool:
    """Whether a lower level records operations on a value."""
    parts = [x]
    while parts:
        part = parts.pop()
        if isinstance(part, Tensor):
            if part.requires_grad:
                return modes.grad_enabled
            part = part._data
        if isinstance(part, Lifted):
            parts += part.parts
    return False


def _option_below(level: Level, x: Any) -> tuple[Any, bool]:
    """As ``level.below``, for an option, which may be several indices or masks."""
    if type(x) is not tuple:
        result, depends = level.below(x)
        return bare_option(result), depends
    parts = [level.below(part) for part in x]
    return bare_option(tuple([part for part, _ in parts])), any(d for _, d in parts)


def _take_shape(level: Level, op: Operation, target: Tensor, options: dict[str, Any]) -> Tensor:
    """Give ``target`` the shape that ``op`` would give a view of it."""
    view = apply_lifted(level, op, [target], options)
    target._data = view._data
    version = version_of(target)
    version.bump()
    if view._node is not None:
        set_node(target, view._node)
    if target._meta is not None and target._meta.view is not None:
        assert view._meta is not None
        assert view._meta.view is not None
        target._meta.view.part, target._meta.view.seen = view._meta.view.part, version.count
    return target


def check_part(tensor: Tensor, view: View) -> None:
    """RuntimeError if it is not known which part of its base a view is."""
    if view.part is None:
        raise RuntimeError(
            "A view is being modified inplace with a value under a transform, in a tensor that is "
            "from outside of it. That is not supported: write to the tensor that it is a view of, "
            "or compute a new one."
        )
    view.part.check(view.base, tensor)
