"""Several operations as one compiled function.

The definition of a composite and the rules of a node are Python code that calls operations. It runs
once for each signature, on values that hold JAX's tracers, and the operations that it calls are
compiled as one XLA function. Code that cannot be traced, because it reads values, draws random
numbers, writes to its operands or needs NumPy, runs operation by operation. So does all code on
meshes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.autograd._levels import opened
from retrograd.devices import _pending, _platforms
from retrograd.devices._calls import of_kind
from retrograd.devices._deferred import Function
from retrograd.devices._signatures import common_device, values_in
from retrograd.devices._values import DeviceValue, Kind, Memory, find_kind, marked
from retrograd.ops._lifted import Level, raw

CannotTraceError = _pending.CannotTraceError


class Fused(Function):
    """A function of values, compiled for one signature.

    ``function`` is called with operands of the given kinds, and returns a value or several, of
    which some may be None. An exception of any type is raised if it cannot be traced.
    """

    __slots__ = ("results", "several")

    def __init__(
        self, name: str, function: Callable[..., Any], operands: list[Any], flat: list[Any]
    ) -> None:
        # For each result its kind, the index of the operand that is returned, or None.
        self.results: list[Kind | int | None] = []
        self.several = False
        device = common_device(operands)
        if device is None or device._mesh is not None or _pending.tracing.expected is not None:
            raise CannotTraceError("it is being traced already, or on a mesh")
        if len(values_in(operands)) != len(flat):
            raise CannotTraceError("some operands are numbers, which may change, or on the CPU")
        super().__init__(name, device)
        templates = _templates(operands)

        def traced(*flat: Any) -> tuple[Any, ...]:
            values = _filled(templates, iter(flat))
            inputs = values_in(values)
            generator, thread = arrays.random.default_generator, _pending.tracing
            drawn, expected = generator.saved().tobytes(), list[Any]()
            with opened(_NoDraws()):
                try:  # twice, because an interrupt can stop one
                    try:
                        thread.expected, thread.calls = expected, 0
                        results = function(*values)
                        outputs = self._outputs(results, inputs, device)
                    finally:
                        thread.expected = None
                finally:
                    thread.expected = None
            if generator.saved().tobytes() != drawn:
                raise CannotTraceError("it draws random numbers")
            if any([x.memory.array is not array for x, array in zip(inputs, flat, strict=True)]):
                raise CannotTraceError("it writes to its operands")
            self.expects = bool(expected)
            if expected:
                outputs.append(_platforms.jax().numpy.stack(expected).all())
            return tuple(outputs)

        self.compile(traced, flat)

    def _outputs(self, results: Any, inputs: list[DeviceValue], device: Any) -> list[Any]:
        """Record the kinds of the results, and return the JAX arrays of those that are computed."""
        self.several = isinstance(results, (tuple, list))
        outputs, self.results = [], []
        memories = [x.memory for x in inputs]
        moves_only = True
        for y in map(raw, results if self.several else (results,)):
            if y is None:
                self.results.append(None)
                continue
            same = [i for i, x in enumerate(inputs) if x is y]
            if same:
                self.results.append(same[0])
                continue
            if type(y) is DeviceValue:
                moves_only = moves_only and y.memory in memories
                outputs.append(y.array)
            else:  # a constant
                outputs.append(_platforms.jax().numpy.asarray(y))
            self.results.append(find_kind(device, tuple(y.shape), marked(y.dtype)))
        if moves_only:
            raise CannotTraceError("there is nothing to compute: results are views of operands")
        return outputs

    def __call__(self, flat: list[Any], operands: list[Any]) -> Any:
        rest = iter(self.contents(flat))
        results = [
            None if x is None
            else of_kind(x, next(rest)) if isinstance(x, Kind) else values_in(operands)[x]
            for x in self.results
        ]  # fmt: skip
        return tuple(results) if self.several else results[0]


def _templates(x: Any) -> Any:
    """Operands without contents, so that the compiled function does not keep device memory."""
    x = raw(x)
    if type(x) in (list, tuple):
        return type(x)([_templates(part) for part in x])
    if type(x) is not DeviceValue:
        return x
    memory = Memory(None, x.memory.device)
    template = DeviceValue(memory, x.shape, x.dtype)
    if x.steps:
        template.steps, template._layout, memory.layout = x.steps, x.layout, x.memory.layout
    return template


def _filled(x: Any, flat: Any) -> Any:
    """Operands like the templates, with arrays as contents."""
    if type(x) in (list, tuple):
        return type(x)([_filled(part, flat) for part in x])
    if type(x) is not DeviceValue:
        return x
    memory = Memory(next(flat), x.memory.device)
    memory.layout = x.memory.layout
    value = DeviceValue(memory, x.shape, x.dtype)
    value.steps, value._layout = x.steps, x._layout
    return value


class _NoDraws(Level):
    """A level without values that is open while a function is traced. The innermost level draws
    random numbers; this one refuses, because traced numbers would be the same in every call."""

    name = "a device"
    transparent = True

    def run(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        raise CannotTraceError(f"{operation.name} draws random numbers")
