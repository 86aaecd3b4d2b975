"""In-place methods: write the result of an operation into the memory of its first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.autograd._history import check_write, rebase
from retrograd.autograd._saved import pack_saved
from retrograd.autograd._versions import version_of
from retrograd.ops._lifted import Lifted, LooksAtValues
from retrograd.ops._operands import Target
from retrograd.ops._operation import Operation, Planned
from retrograd.ops._public import NAMES
from retrograd.tensor._calls import (
    any_requires_grad,
    checked,
    for_number,
    in_pytorchs_words,
    level_of,
    make_node,
    save_values,
)
from retrograd.tensor._tensor import Tensor
from retrograd.tensor._write_steps import check_overlap, check_result, with_result


def write_in_place(op: Operation, operands: list[Any], options: dict[str, Any]) -> Tensor:
    """``operands[0] = op(*operands)`` in its own memory, and in the graph."""
    target: Tensor = operands[0]
    if modes.observer is not None:
        return modes.observer.write(write_in_place, op, operands, options)  # type: ignore[no-any-return]
    if modes.running is not None:
        modes.running.check_write(op.name, target)
    if modes.levels and (level := level_of(operands, options)) is not None:
        from retrograd.tensor._lifted_writes import write_lifted

        return write_lifted(level, op, operands, options)
    if op.view and not isinstance(target._data, Lifted):
        from retrograd.tensor._shape_in_place import take_shape

        return take_shape(op, target, options)
    op, operands, options = for_number(op, operands, options)
    recorded = check_write(target, any_requires_grad(operands[1:])) and op.has_rules
    target._data = memory = arrays.writable(target._data)
    if type(memory) is not arrays.ndarray and isinstance(memory, Lifted):
        from retrograd.tensor._lifted_writes import write_on_device

        return write_on_device(memory.level, op, operands, options)
    raws = checked(op, operands, options)
    if recorded:
        node = make_node(op, operands, raws, options)
    check_overlap(op, target, operands[1:], options)
    try:
        result = op.compute(raws, options)
    except LooksAtValues:
        from retrograd.tensor._lifted_writes import write_from_device

        return write_from_device(op, operands, options)
    except (TypeError, ValueError) as error:
        raise in_pytorchs_words(op, raws, error) from None
    check_result(op, memory, result)
    saved = None
    if recorded:
        values = dict(zip(op.inputs, raws, strict=True))
        overwritten = op.inputs[0]
        if overwritten in op.saves and raws[0] is memory:
            values[overwritten] = arrays.copy(memory)  # what was there is about to go
        # Before the write: another operand may share the memory, and then is changed by it.
        saved = save_values(op, node, operands, values)
    write(op, memory, result)
    version_of(target).bump()
    if recorded:
        node.saved = with_result(op, node, saved, target)
        if saved is not None and modes.saved_tensor_hooks:
            pack_saved(node)
        rebase(target, node)
    return target


Operation.write = staticmethod(write_in_place)


def write(op: Operation, memory: Any, result: Any) -> None:
    """Put the result where it belongs."""
    if "some" in op.writes and arrays.overlaps_itself(memory):
        # Several elements are one: those that the operation left as they were must not undo it.
        is_number = (result == result) | (memory == memory)
        changed = (result != memory) & is_number
        memory[changed] = result[changed]
    else:
        arrays.write(memory, result)


def in_place(op: Operation) -> Callable[..., Tensor]:
    """The method ``op_`` for an operation of the table."""

    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        positional = len(op.inputs) - 1
        options = {**dict(zip(op.options, args[positional:], strict=False)), **options}
        operands = [self, *args[:positional]]
        for name in op.inputs[len(operands) :]:
            operands.append(options.pop(name))
        return write_in_place(op, operands, options)

    method.__name__ = method.__qualname__ = f"{op.name}_"
    method.__doc__ = f"In-place version of ``{op.name}``."
    return method


def in_place_of(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """The method ``f_`` for a function that, once it has looked at its arguments, calls one
    operation on the first of them."""

    def method(self: Tensor, *args: Any, **named: Any) -> Tensor:
        plan = function(Target(self), *args, **named)
        assert isinstance(plan, Planned), f"{function.__name__} is more than one operation"
        return write_in_place(plan.operation, [self, *plan.operands[1:]], plan.options)

    method.__name__ = method.__qualname__ = f"{function.__name__}_"
    method.__doc__ = function.__doc__  # which is about this method if there is no other form
    if any(function.__name__ in names for names in NAMES.values()):
        method.__doc__ = f"In-place version of ``{function.__name__}``: {function.__doc__ or ''}"
    return method
