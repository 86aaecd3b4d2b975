"""Steps of optimizers on a device: the kernels of ``compiler/xla/_updates.py``, compiled once for
the shapes of a parameter. Numbers such as learning rates may change without that."""

from __future__ import annotations

from typing import Any

from retrograd.compiler.xla import _updates
from retrograd.devices import _platforms
from retrograd.devices._calls import number_on
from retrograd.devices._values import DeviceValue

_compiled: dict[Any, Any] = {}


def update(kernel: Any, operands: Any, numbers: Any) -> None:
    """Write what a kernel gives over a parameter and its state."""
    given = [None if x is None else x.array for x in operands]
    # What is no number, such as whether there is a decay of weights, makes another program.
    fixed = tuple([float if isinstance(x, float) else x for x in numbers])
    key = (kernel.__name__, fixed, tuple([None if x is None else x.aval for x in given]))
    jax = _platforms.jax()
    with jax.enable_x64(True):
        function = _compiled.get(key)
        if function is None:
            function = _compiled[key] = jax.jit(_function(kernel.__name__, fixed))
        place = operands[0].memory.place
        values = [float(x) for x in numbers if isinstance(x, float)]
        if place._mesh is None:  # most are those of the last parameter, or of the last step
            values = [number_on(x, place) for x in values]
        found = function(given, values)
    for x, y in zip((operands[0], *operands[2:]), found, strict=True):
        if x is not None:
            _write(x, y)


def _function(name: str, fixed: tuple[Any, ...]) -> Any:
    def traced(operands: Any, numbers: Any) -> Any:
        rest = iter(numbers)
        values = [next(rest) if x is float else x for x in fixed]
        found = _updates.updated(name, operands, values)
        kept = (operands[0], *operands[2:])
        return [None if x is None else _updates.as_given(y, x)
                for x, y in zip(kept, found, strict=True)]  # fmt: skip

    return traced


def _write(target: DeviceValue, array: Any) -> None:
    from retrograd.devices._values import Memory

    if target.steps:
        target.level.write(target, DeviceValue(Memory(array, target.memory.place), target.shape,
                                               target.dtype))  # fmt: skip
    else:
        target.memory.hold(array)
