"""Steps of optimizers on a device: the kernels of ``compiler/xla/_updates.py``, compiled once for
the shapes of a parameter. Numbers such as learning rates may change without that."""

from __future__ import annotations

from typing import Any

from retrograd.compiler.xla import _updates
from retrograd.devices._calls import number_on
from retrograd.devices._deferred import Function
from retrograd.devices._values import DeviceValue, Memory

_compiled: dict[Any, Function] = {}


def update(kernel: Any, operands: Any, numbers: Any) -> None:
    """Write what a kernel gives over a parameter and its state."""
    place = operands[0].memory.place
    flat = [x.content for x in operands if x is not None]
    # What is no number, such as whether there is a decay of weights, makes another program.
    fixed = tuple([float if isinstance(x, float) else x for x in numbers])
    likes = tuple([None if x is None else (x.shape, x.dtype.num) for x in operands])
    values = [float(x) for x in numbers if isinstance(x, float)]
    if place._mesh is None:  # most are those of the last parameter, or of the last step
        values = [number_on(x, place) for x in values]
    flat += values
    key = (kernel.__name__, fixed, place, likes)
    function = _compiled.get(key)
    if function is None:
        function = Function(kernel.__name__, place)
        function.compile(_flat(kernel.__name__, fixed, likes), flat)
        _compiled[key] = function
    found = iter(function.contents(flat))
    for x in (operands[0], *operands[2:]):
        if x is not None:
            _write(x, next(found))


def _flat(name: str, fixed: tuple[Any, ...], likes: tuple[Any, ...]) -> Any:
    """A kernel as a function of the operands that there are, and of numbers."""

    def traced(*flat: Any) -> Any:
        rest = iter(flat)
        operands = [None if like is None else next(rest) for like in likes]
        values = [next(rest) if x is float else x for x in fixed]
        found = _updates.updated(name, operands, values)
        kept = (operands[0], *operands[2:])
        return tuple([_updates.as_given(y, x)
                      for x, y in zip(kept, found, strict=True) if x is not None])  # fmt: skip

    return traced


def _write(target: DeviceValue, content: Any) -> None:
    if target.steps:
        target.level.write(target, DeviceValue(Memory(content, target.memory.place), target.shape,
                                               target.dtype))  # fmt: skip
    else:
        target.memory.hold(content)
