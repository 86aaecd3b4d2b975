"""Optimizer steps on a device.

The kernels of ``compiler/xla/_updates.py`` are compiled once for each combination of shapes.
Numbers such as learning rates are arguments, so changing them does not cause a new compilation.

``flattened`` and ``add_flat`` convert between parameters and one vector of all their elements. Each
is a single compiled function, because views of the vector would be compiled separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.compiler.xla import _updates
from retrograd.devices import _platforms
from retrograd.devices._caches import Cache
from retrograd.devices._calls import number_on
from retrograd.devices._deferred import Function
from retrograd.devices._signatures import two_devices
from retrograd.devices._values import DeviceValue, Memory

_compiled = Cache()


def update(kernel: Any, operands: Any, numbers: Any) -> None:
    """Update a parameter and its state in place by a kernel. ``operands`` are the parameter, its
    gradient and the state."""
    device = operands[0].memory.device
    flat = [x.content for x in operands if x is not None]
    # Options that are not floats, such as flags, are part of the key.
    fixed = tuple([float if isinstance(x, float) else x for x in numbers])
    likes = tuple([None if x is None else (x.shape, x.dtype.num) for x in operands])
    values = [float(x) for x in numbers if isinstance(x, float)]
    if device._mesh is None:  # most numbers were used by the previous parameter or step
        values = [number_on(x, device) for x in values]
    flat += values
    key = (kernel.__name__, fixed, device, likes)
    function = _compiled.get(key)
    if function is None:
        function = Function(kernel.__name__, device)
        function.compile(_flat(kernel.__name__, fixed, likes), flat)
        _compiled[key] = function
    results = iter(function.contents(flat))
    for x in (operands[0], *operands[2:]):
        if x is not None:
            _write(x, next(results))


def _flat(name: str, fixed: tuple[Any, ...], likes: tuple[Any, ...]) -> Any:
    """A kernel as a function of its operands, without those that are None, and of its floats."""

    def traced(*flat: Any) -> Any:
        rest = iter(flat)
        operands = [None if like is None else next(rest) for like in likes]
        values = [next(rest) if x is float else x for x in fixed]
        results = _updates.updated(name, operands, values)
        written = (operands[0], *operands[2:])
        return tuple([_updates.as_given(y, x)
                      for x, y in zip(written, results, strict=True) if x is not None])  # fmt: skip

    return traced


def _write(target: DeviceValue, content: Any) -> None:
    if target.steps:
        target.level.write(target, DeviceValue(Memory(content, target.memory.device), target.shape,
                                               target.dtype))  # fmt: skip
    else:
        target.memory.hold(content)


# -- parameters as one vector ----------------------------------------------------------------


def flattened(parts: Sequence[Any]) -> DeviceValue:
    """The elements of all parts as one vector (see ``arrays/_updates.py:flattened``)."""

    def joined(*parts: Any) -> Any:
        return (_platforms.jax().numpy.concatenate([_reals(x).reshape(-1) for x in parts]),)

    device = _only_device(parts)
    flat = [x.content for x in parts]
    content = _compiled_for("flattened", joined, parts, flat, device).contents(flat)[0]
    return DeviceValue(Memory(content, device), content.shape, content.dtype)


def add_flat(params: Sequence[Any], vector: DeviceValue, size: Any) -> None:
    """Add ``size`` times the elements of a vector to parameters (see
    ``arrays/_updates.py:add_flat``). They are written after all sums were computed or queued."""

    def added(vector: Any, size: Any, *params: Any) -> Any:
        sums, begin = [], 0
        for param in params:
            real = _reals(param)
            part = vector[begin : begin + real.size].reshape(real.shape)
            sums.append(_updates.as_given(real + size.astype(vector.dtype) * part, param))
            begin += real.size
        return tuple(sums)

    device = _only_device([vector, *params])
    flat = [vector.content, number_on(float(size), device), *[x.content for x in params]]
    function = _compiled_for("add_flat", added, [vector, *params], flat, device)
    for param, content in zip(params, function.contents(flat), strict=True):
        _write(param, content)


def _reals(x: Any) -> Any:
    """An array as real numbers: complex ones as pairs, and bfloat16 converted to float32."""
    if x.dtype.kind == "c":
        return _platforms.jax().numpy.stack([x.real, x.imag], -1)
    return x.astype("float32") if x.dtype == "bfloat16" else x


def _compiled_for(
    name: str, function: Any, values: Sequence[Any], flat: list[Any], device: Any
) -> Function:
    """The function, compiled for values of these shapes and dtypes."""
    key = (name, device, *[(x.shape, x.dtype.num) for x in values])
    compiled = _compiled.get(key)
    if compiled is None:
        compiled = Function(name, device)
        compiled.compile(function, flat)
        _compiled[key] = compiled
    return compiled


def _only_device(values: Sequence[Any]) -> Any:
    """The device of all values; RuntimeError if they are on different devices."""
    devices = [x.memory.device if isinstance(x, DeviceValue) else "cpu" for x in values]
    first = next(x for x in devices if x != "cpu")
    for other in devices:
        if other != first:
            raise two_devices(first, other)
    return first
