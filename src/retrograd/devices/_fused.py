"""Several operations as one compiled function.

A composite, or the rules of a node, is Python code that calls operations on values. It is run once
for each signature, on values that stand for JAX's tracers. What its operations do is one function
of XLA from then on. Code that cannot be traced, because it looks at values, draws random numbers,
writes to its operands or needs NumPy, is run operation by operation, as is all code on meshes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.autograd._levels import opened
from retrograd.devices import _pending, _platforms
from retrograd.devices._calls import of_kind
from retrograd.devices._deferred import Function
from retrograd.devices._signatures import place_in, values_in
from retrograd.devices._values import DeviceValue, Kind, Memory, find_kind, marked
from retrograd.ops._lifted import Level, raw

CannotTraceError = _pending.CannotTraceError


class Fused(Function):
    """A function of values, compiled for one signature.

    ``function`` is called with operands like those given, and gives a value or several. Of several,
    some may be None. RuntimeError, or any other exception, if it cannot be traced.
    """

    __slots__ = ("results", "several")

    def __init__(
        self, name: str, function: Callable[..., Any], operands: list[Any], flat: list[Any]
    ) -> None:
        self.results: list[Kind | int | None] = []  # what is computed, operands, and nothing
        self.several = False
        place = place_in(operands)
        if place is None or place._mesh is not None or _pending.tracing.expected is not None:
            raise CannotTraceError("it is being traced already, or on a mesh")
        if len(values_in(operands)) != len(flat):
            raise CannotTraceError("some operands are numbers that may change, or on the CPU")
        super().__init__(name, place)
        templates = _templates(operands)

        def traced(*flat: Any) -> tuple[Any, ...]:
            values = _filled(templates, iter(flat))
            inputs = values_in(values)
            with opened(_NoDraws()), _Tracing() as expected:
                found = function(*values)
                outputs = self._outputs(found, inputs, place)
            if any([x.memory.array is not array for x, array in zip(inputs, flat, strict=True)]):
                raise CannotTraceError("it writes to its operands")
            self.expects = bool(expected)
            if expected:
                outputs.append(_platforms.jax().numpy.stack(expected).all())
            return tuple(outputs)

        self.compile(traced, flat)

    def _outputs(self, found: Any, inputs: list[DeviceValue], place: Any) -> list[Any]:
        """Records the kinds of the results, and returns the JAX arrays of those that are
        computed."""
        self.several = isinstance(found, (tuple, list))
        outputs, self.results = [], []
        memories = [x.memory for x in inputs]
        moves_only = True
        for y in map(raw, found if self.several else (found,)):
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
            self.results.append(find_kind(place, tuple(y.shape), marked(y.dtype)))
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
    """Operands with the contents left out, as nobody may keep these."""
    x = raw(x)
    if type(x) in (list, tuple):
        return type(x)([_templates(part) for part in x])
    if type(x) is not DeviceValue:
        return x
    memory = Memory(None, x.memory.place)
    template = DeviceValue(memory, x.shape, x.dtype)
    if x.steps:
        template.steps, template._layout, memory.layout = x.steps, x.layout, x.memory.layout
    return template


def _filled(x: Any, flat: Any) -> Any:
    """Operands whose contents are some arrays."""
    if type(x) in (list, tuple):
        return type(x)([_filled(part, flat) for part in x])
    if type(x) is not DeviceValue:
        return x
    memory = Memory(next(flat), x.memory.place)
    memory.layout = x.memory.layout
    value = DeviceValue(memory, x.shape, x.dtype)
    value.steps, value._layout = x.steps, x._layout
    return value


class _NoDraws(Level):
    """A level without values, open while a function is traced: random numbers are a matter of the
    innermost level, and drawn once they would be the same in every call."""

    name = "a device"
    transparent = True

    def run(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        raise CannotTraceError(f"{operation.name} draws random numbers")


class _Tracing:
    """A block in which operations on values are traced. Gives the list of what they expect."""

    def __enter__(self) -> list[Any]:
        self.drawn = arrays.random.default_generator.saved().tobytes()
        _pending.tracing.expected, _pending.tracing.calls = [], 0
        return _pending.tracing.expected

    def __exit__(self, *error: Any) -> None:
        _pending.tracing.expected = None
        if arrays.random.default_generator.saved().tobytes() != self.drawn:
            raise CannotTraceError("it draws random numbers")
