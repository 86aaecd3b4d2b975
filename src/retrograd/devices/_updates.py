"""Steps of optimizers on a device: the kernels of ``compiler/xla/_updates.py``, compiled once for
the shapes of a parameter. Numbers such as learning rates may change without that. And parameters as
one vector, which one function takes apart: a view of each part would be compiled for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.compiler.xla import _updates
from retrograd.devices import _platforms
from retrograd.devices._calls import number_on
from retrograd.devices._deferred import Function
from retrograd.devices._signatures import two_devices
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


# -- parameters as one vector ----------------------------------------------------------------


def flattened(parts: Sequence[Any]) -> DeviceValue:
    """As ``arrays/_updates.py:flattened``."""

    def joined(*parts: Any) -> Any:
        return (_platforms.jax().numpy.concatenate([_reals(x).reshape(-1) for x in parts]),)

    place = _only_place(parts)
    flat = [x.content for x in parts]
    content = _compiled_for("flattened", joined, parts, flat, place).contents(flat)[0]
    return DeviceValue(Memory(content, place), content.shape, content.dtype)


def add_flat(params: Sequence[Any], vector: DeviceValue, size: Any) -> None:
    """As ``arrays/_updates.py:add_flat``. Nothing is written before all sums are known, or wait."""

    def added(vector: Any, size: Any, *params: Any) -> Any:
        found, begin = [], 0
        for param in params:
            real = _reals(param)
            part = vector[begin : begin + real.size].reshape(real.shape)
            found.append(_updates.as_given(real + size.astype(vector.dtype) * part, param))
            begin += real.size
        return tuple(found)

    place = _only_place([vector, *params])
    flat = [vector.content, number_on(float(size), place), *[x.content for x in params]]
    function = _compiled_for("add_flat", added, [vector, *params], flat, place)
    for param, content in zip(params, function.contents(flat), strict=True):
        _write(param, content)


def _reals(x: Any) -> Any:
    """Complex numbers as two real ones, and bfloat16 as float32."""
    if x.dtype.kind == "c":
        return _platforms.jax().numpy.stack([x.real, x.imag], -1)
    return x.astype("float32") if x.dtype == "bfloat16" else x


def _compiled_for(
    name: str, function: Any, values: Sequence[Any], flat: list[Any], place: Any
) -> Function:
    """A function, compiled for values of these shapes."""
    key = (name, place, *[(x.shape, x.dtype.num) for x in values])
    compiled = _compiled.get(key)
    if compiled is None:
        compiled = Function(name, place)
        compiled.compile(function, flat)
        _compiled[key] = compiled
    return compiled


def _only_place(values: Sequence[Any]) -> Any:
    """The device of all values; RuntimeError if one is elsewhere."""
    places = [x.memory.place if isinstance(x, DeviceValue) else "cpu" for x in values]
    first = next(x for x in places if x != "cpu")
    for other in places:
        if other != first:
            raise two_devices(first, other)
    return first
