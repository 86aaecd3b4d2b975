"""Copies on the CPU for tracing a function of tensors on a device. The first call runs on the
copies; later calls run the program on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrograd import arrays
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import Plug, wrap
from retrograd.compiler._guards import overlap_on_device
from retrograd.compiler._templates import Known
from retrograd.ops._lifted import device_value

if TYPE_CHECKING:
    from retrograd.compiler._trace import Trace


class HostCopies:
    """Replaces the values of tensors on a device by copies on the CPU while a function is traced,
    from ``begin`` to ``end``. If an error or an interrupt ends ``end``, it is called again."""

    def __init__(self, tensors: list[Any]) -> None:
        # Views are updated from their bases, so the bases are replaced, too.
        bases = [x._meta.view.base for x in tensors if x._meta is not None and x._meta.view]
        each = {id(x): x for x in (*tensors, *bases)}.values()
        self.held = [(x, x._data) for x in each if device_value(x) is not None]
        self.device: Any = self.held[0][1].memory.device if self.held else None
        on_cpu = [x for x in tensors if device_value(x) is None]
        self.is_mixed = any(value.memory.device != self.device for _, value in self.held) or (
            self.device is not None and any(x.is_leaf and x.requires_grad for x in on_cpu)
        )
        self.copies: list[Any] = []
        # For each tensor still to be put back: its value, the copy, and what the trace left it.
        self.left: list[tuple[Any, Any, Any, Any]] | None = None
        self.new: list[Any] = []
        self.parts: list[Any] = []  # new tensors that are views, their bases, and the view steps
        # On a mesh, for new tensors by id: the value whose sharding they get.
        self.like: dict[int, Any] = {}

    def begin(self) -> None:
        together: dict[int, list[tuple[Any, Any]]] = {}
        for x, value in self.held:
            together.setdefault(id(value.memory), []).append((x, value))
        wholes: dict[int, Any] = {}  # copies of memory in which tensors overlap, by id
        copies = []  # before the first value is replaced, as reading may raise an error
        for x, value in self.held:
            memory = id(value.memory)
            others = [y for other, y in together[memory] if other is not x]
            if others and overlap_on_device(value, others):
                if memory not in wholes:
                    wholes[memory] = value.whole.host
                copy = wholes[memory]
                for step in value.steps:
                    copy = step(copy)
            else:
                copy = value.host
            copies.append(copy)
        self.copies = copies
        for (x, _), copy in zip(self.held, copies, strict=True):
            x._data = copy

    def end(self, trace: Trace | None) -> None:
        """Put the tensors, and those that the traced run created, on the device."""
        if self.device is None:
            return
        if trace is not None:
            self.take_over(trace)
        self.put_back()

    def take_over(self, trace: Trace) -> None:
        """Record the new tensors of the traced run that belong on the device: all except the
        numbers of an optimizer, which stay on the CPU."""
        self.new, self.parts = [], []
        numbers = trace.level.numbers()
        recorded = {o for _, o in trace.recorded}  # outputs with a history
        wholes = trace.wholes
        values = {id(x): value for x, value in self.held}
        inputs = {v: values.get(id(x)) for v, x in zip(trace.inputs, trace.watch.tensors,
                                                       strict=True)}  # fmt: skip
        state: dict[Any, Any] = {}
        for line in trace.level.lines:
            if getattr(line.operation.forward, "updates_parameter", False):
                param = line.args[0]
                state.update((v, inputs.get(param)) for v in line.outputs if v.shape == param.shape)
        self.like = {id(x): state.get(trace.outputs[o]) for o, x in trace.tensors.items()}
        self.like.update((id(x.grad), value) for x, value in self.held if x.is_leaf)
        kept = {id(x) for o, x in trace.tensors.items() if trace.outputs[o] in numbers}
        kept.update(id(x) for x in trace.watch.tensors)
        tensors = [*trace.tensors.values(), *[x for x, _ in trace._concrete]]
        self.new = [x for x in tensors if id(x) not in kept]
        for x, template in trace.parts():
            if isinstance(template.of, Known):
                self.parts.append((x, trace.watch.tensors[template.of.number], template.steps))
            else:
                output = template.of.output
                whole = None if output in recorded else trace.tensors.get(output)
                if whole is None:
                    whole = wholes.setdefault(output, wrap(trace.values[output]))
                self.parts.append((x, whole, template.steps))
        self.new += wholes.values()

    def put_back(self) -> None:
        if self.left is None:  # the copies are empty before ``begin`` has made them
            pairs = zip(self.held, self.copies, strict=False)
            self.left = [(x, value, copy, x._data) for (x, value), copy in pairs]
        for x, value, _, now in self.left:  # all, before anything that may raise an error
            if arrays.is_raw(now):
                x._data = value
        while self.left:
            x, value, copy, now = self.left[-1]
            if now is copy:
                if not arrays.programs.same(copy, value.host):
                    value.level.write(value, self.put(copy, value))
            elif arrays.is_raw(now):
                x._data = self.put(now, value)
            self.left.pop()
        for x in self.new:
            if arrays.is_raw(x._data):
                x._data = self.put(x._data, self.like.get(id(x)))
        for x, whole, steps in self.parts:
            part = whole._data
            for step in steps:
                part = step(part)
            x._data = part
            x._version_counter = version_of(whole)
        for x, value in self.held:  # a gradient that arrived before an error
            grad = None if x._meta is None else x._meta.grad
            if grad is not None and arrays.is_raw(grad._data):
                grad._data = self.put(grad._data, value)

    def put(self, data: Any, like: Any) -> Any:
        """An array on the device. On a mesh, it gets the sharding of a value of the same shape."""
        whole = like is None or self.device._mesh is None or like.shape != data.shape
        where = None if whole else like.array.sharding
        return Plug.devices().put(data, self.device, where)
