"""Tracing a function of tensors on a device: on copies of them on the CPU, once. From the next call
on the program runs on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrograd import arrays
from retrograd.autograd._wrap import Plug
from retrograd.ops._lifted import device_value
from retrograd.optim._rules import TracedUpdate

if TYPE_CHECKING:
    from retrograd.compiler._trace import Trace


class HostCopies:
    """Has tensors hold copies on the CPU of what they hold on a device, while they are traced."""

    def __init__(self, tensors: list[Any]) -> None:
        self.held = [(x, x._data) for x in tensors if device_value(x) is not None]
        self.place = self.held[0][1].memory.place if self.held else None
        self.copies: list[Any] = []
        self.new: list[Any] = []

    def __enter__(self) -> HostCopies:
        for x, value in self.held:
            x._data = value.host
            self.copies.append(x._data)
        return self

    def take_over(self, trace: Trace) -> None:
        """Note what the traced run made that belongs on the device: all but the numbers of an
        optimizer, which computes them on the CPU."""
        if self.place is None:
            return
        numbers: set[Any] = set()
        for line in trace.level.lines:
            if isinstance(getattr(line.operation, "forward", None), TracedUpdate):
                numbers.update(v for v in line.outputs if not v.shape)
        kept = {id(x) for o, x in trace.tensors.items() if trace.outputs[o] in numbers}
        kept.update(id(x) for x in trace.watch.tensors)
        made = [*trace.tensors.values(), *[x for x, _ in trace._concrete]]
        self.new = [x for x in made if id(x) not in kept]

    def __exit__(self, *given: Any) -> None:
        for (x, value), copy in zip(self.held, self.copies, strict=True):
            now = x._data
            if now is copy:
                if not arrays.programs.same(copy, value.host):
                    value.level.write(value, Plug.devices().put(copy, self.place))
                x._data = value
            elif arrays.is_raw(now):
                x._data = Plug.devices().put(now, self.place)
        for x in self.new:
            if arrays.is_raw(x._data):
                x._data = Plug.devices().put(x._data, self.place)
