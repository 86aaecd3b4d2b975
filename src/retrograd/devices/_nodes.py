"""Nodes of operations on devices: the rules of a node are one compiled function.

On the CPU, a rule such as ``g - g * (result * result)`` calls three NumPy kernels. On a device,
each of three calls of a compiled function would cost as much as one call for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.autograd._engine import plus
from retrograd.autograd._narrow_nodes import NarrowNode
from retrograd.autograd._node import FREED, Node
from retrograd.autograd._operation_node import (
    OperationNode,
    compile_backward,
    fit_all,
    is_transpose,
)
from retrograd.autograd._saved import show_saved
from retrograd.autograd._versions import UNCHANGING
from retrograd.devices._caches import Cache
from retrograd.devices._calls import NEW, numbers_of
from retrograd.devices._fused import CannotTraceError, Fused
from retrograd.devices._signatures import keys_of, values_in
from retrograd.devices._values import DeviceValue, acts_once
from retrograd.ops import linear
from retrograd.ops._operation import Operation


class _Parameters:
    """The parameters of an operation's rules besides ``g`` and saved values. If the rules take raw
    arrays only, the definition is differentiated instead, which takes all options and shapes."""

    __slots__ = ("all_options", "calls", "numbers", "options", "plain", "shapes", "transposed")

    def __init__(self, operation: Operation, plain: Any) -> None:
        rules = [rule for rule in (*operation.rules, operation.joint) if rule is not None]
        names = {name for rule in rules for name in rule.names}
        self.all_options = operation.fused
        self.shapes = operation.fused or bool(names & {"shape", "shapes"})
        self.transposed = "transposed_next" in names
        own = {*operation.saves, "shape", "shapes", "needs", "transposed_next"}
        self.options = sorted(names - own)
        self.numbers = numbers_of(operation)
        self.plain = plain  # runs the rules operation by operation
        self.calls = Cache()


class _Next:
    """A placeholder for a node that a gradient is passed to."""

    __slots__ = ("operation",)

    def __init__(self, operation: Any) -> None:
        self.operation = operation


class _OnDevice:
    """The part of node classes that is specific to devices."""

    __slots__ = ()

    parameters: _Parameters

    def backward(self: Any, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        parameters = self.parameters
        values = self._values(g)
        if values is None:
            return self._by_rules(g, next_nodes)  # type: ignore[no-any-return]
        sums = self._sums(next_nodes)
        if sums is not None:
            values += [entry[0] for entry in sums if entry is not None]
        flat: list[Any] = []
        try:
            key = keys_of(values, flat)
        except CannotTraceError:  # for example, gradients are batched
            return self._by_rules(g, next_nodes)  # type: ignore[no-any-return]
        for n in next_nodes:
            key.append(n is None or (parameters.transposed and is_transpose(n)))
        if sums is not None:
            key += [entry is None for entry in sums]
        if parameters.all_options:
            key += self._option_names()
        if parameters.shapes:
            key += [(shape, None if dtype is None else dtype.num) for shape, dtype in self.infos]
        extras = self.extras
        if extras is not None and extras.fit is not None:
            key += [None if info is None else (info[0], info[1].num) for info in extras.fit]
        signature = tuple(key)
        call = parameters.calls.get(signature, NEW)
        if call is NEW:
            call = parameters.calls[signature] = _traced(self, values, next_nodes, sums, flat)
        if call is None:
            return self._by_rules(g, next_nodes)  # type: ignore[no-any-return]
        received: Sequence[Any] = call(flat, values)
        return received if sums is None else _handed_over(received, sums)

    def _by_rules(self: Any, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        """Call the rules operation by operation. Constants that they return, such as the zeros for
        overwritten elements, are moved to the device of ``g``."""
        received: Sequence[Any] = self.parameters.plain(self, g, next_nodes)
        if not any(map(arrays.is_raw, received)):
            return received
        there = values_in((g,))
        return [there[0].placed(x) if there and arrays.is_raw(x) else x for x in received]

    def _values(self: Any, g: Any) -> list[Any] | None:
        """The gradient, saved values and options. None if the rules are not to be traced: because a
        saved number may change from call to call, or because running them raises an exception."""
        parameters, saved, values = self.parameters, self.saved, [g]
        if saved is FREED:
            return None
        if saved is not None:
            for i in range(0, len(saved), 3):
                if saved[i + 1].count != saved[i + 2]:
                    return None
                values.append(saved[i])
        for name in self._option_names():
            option = self.options[name]
            values.append(None if acts_once(option) else option)  # the forward pass has used it
        varies = any([type(x) in parameters.numbers for x in values])
        return None if varies else values

    def _option_names(self: Any) -> Sequence[str]:
        return sorted(self.options) if self.parameters.all_options else self.parameters.options

    def _sums(self: Any, next_nodes: Sequence[Node | None]) -> list[Any] | None:
        """For each next node, the engine's entry with the gradient that has already arrived there,
        if the compiled function can add the new gradient to it; otherwise None. It cannot if hooks
        or an observer have to see the new gradient alone. None if there is no such entry."""
        tasks, extras = modes.frame.tasks, self.extras
        if not tasks or (extras is not None and (extras.needs_visit or extras.next_numbers)):
            return None
        task = tasks[-1]
        if task.recorded or task.anomaly or task.observer is not None or self in task.wanted:
            return None
        waiting = task.waiting
        entries: list[Any] | None = None
        for i, n in enumerate(next_nodes):
            if n in waiting and n not in next_nodes[:i]:
                entry = waiting[n]
                if type(entry) is list and type(entry[0]) is DeviceValue:
                    entries = entries or [None] * len(next_nodes)
                    entries[i] = entry
        return entries


def _handed_over(received: Sequence[Any], sums: list[Any]) -> Sequence[Any]:
    """Store sums in the engine's entries, and return the other gradients, with None in place of
    the sums."""
    rest = list(received)
    for i, entry in enumerate(sums):
        if entry is not None:
            entry[0], rest[i] = rest[i], None
    return rest


def _traced(
    node: Any, values: list[Any], next_nodes: Sequence[Node | None],
    sums: list[Any] | None, flat: list[Any],
) -> Fused | None:  # fmt: skip
    """The rules of a node as one compiled function; None if they cannot be traced."""
    parameters, kind = node.parameters, type(node)
    count = 0 if node.saved is None else len(node.saved) // 3
    infos, outputs = getattr(node, "infos", None), getattr(node, "outputs", None)
    fit = None if node.extras is None else node.extras.fit
    following = [None if n is None else _Next(linear.t if is_transpose(n) else None)
                 for n in next_nodes]  # fmt: skip
    added = [entry is not None for entry in sums or ()]
    names = node._option_names()

    def function(g: Any, *values: Any) -> Sequence[Any]:
        rest = iter(values)
        twin = kind()
        twin.saved = tuple([x for _ in range(count) for x in (next(rest), UNCHANGING, 0)]) or None
        twin.options = {name: next(rest) for name in names}
        twin.infos, twin.outputs, twin.extras = infos, outputs, None
        twin.next_nodes = (None,) * len(following)
        received: Sequence[Any] = parameters.plain(twin, g, following)
        if fit is not None:
            received = fit_all(received, fit)
        if not added:
            return received
        return [plus(next(rest), x) if add else x for x, add in zip(received, added, strict=True)]

    try:
        return Fused(node.name(), function, values, flat)
    except Exception:  # the rules run next, and raise the error again if it is the user's
        return None


@cache
def node_class(operation: Operation, narrow: bool) -> type[OperationNode]:
    """The class of nodes that record an operation on devices."""
    show_saved(OperationNode, operation)
    base = NarrowNode if narrow else OperationNode
    plain = NarrowNode.backward if narrow else compile_backward(operation)
    parameters = _Parameters(operation, plain)
    return type(operation.node_name, (_OnDevice, base),
                {"__slots__": (), "operation": operation, "parameters": parameters})  # fmt: skip
