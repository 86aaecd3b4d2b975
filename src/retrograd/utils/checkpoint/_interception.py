"""Interceptors, which see or replace operations as they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from retrograd._modes import ABOVE_ALL, Scope, call_below, modes, within
from retrograd.autograd._saved import pack_saved
from retrograd.ops._operation import Operation
from retrograd.tensor._calls import (
    any_requires_grad,
    apply,
    checked,
    for_number,
    make_node,
    save_values,
)
from retrograd.tensor._tensor import Tensor


class Interceptor(Scope):
    """A context in which every operation of this thread goes through ``handle``, which calls
    ``apply`` for what it does not do itself. One inside another sees operations first."""

    def changes(self) -> dict[str, Any]:
        return {"interceptors": (*modes.interceptors, self)}

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def __call__(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        interceptors = modes.interceptors
        if len(interceptors) == 1:
            return call_below(ABOVE_ALL, self.handle, op, args, options, computed)
        with within(interceptors=interceptors[:-1]):
            return self.handle(op, args, options, computed)

    def handle(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        """Handle an operation. ``computed``: its output if that is known."""
        raise NotImplementedError


class SavingAhead(Interceptor):
    """Saves the last missing values before they are used, not after: ``missing`` returns their
    number. Saving them ends the run, so the last operation need not be
    computed, which may be the largest."""

    def __init__(self, pack: Callable[[Any], Any], missing: Callable[[], int]) -> None:
        self.pack = pack
        self.missing = missing

    def handle(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        if len(op.saves) >= self.missing() and computed is None and self._saves_to_us():
            self._save(op, list(args), options)
        return apply(op, args, options, computed)

    def _saves_to_us(self) -> bool:
        hooks = modes.saved_tensor_hooks
        plainly = modes.grad_enabled and not modes.levels  # values under transforms are not arrays
        return plainly and bool(hooks) and hooks[-1][0] == self.pack

    def _save(self, op: Operation, operands: list[Any], options: dict[str, Any]) -> None:
        if op.inputs == ("tensors",):
            return
        op, operands, options = for_number(op, operands, options)
        only_inputs = op.differentiable and set(op.saves) <= set(op.inputs)
        if not (only_inputs and any_requires_grad(operands)):
            return
        raws = checked(op, operands, options)
        node = make_node(op, operands, raws, options)
        node.saved = save_values(op, node, operands, dict(zip(op.inputs, raws, strict=True)))
        values = [node.saved_tensor(i) for i in range(len(op.saves))]
        if sum(isinstance(value, Tensor) for value in values) >= self.missing():
            pack_saved(node)
