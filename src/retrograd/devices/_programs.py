"""Compiled programs on a device: their inputs come from there, and their results stay there.

What a program updates, such as parameters, is donated: XLA writes the new values in the memory of
the old, unless something else refers to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax

from retrograd import arrays
from retrograd.compiler._program import Program, Var
from retrograd.compiler.xla._executable import (
    Compiled,
    Executable,
    explain_host_lines,
    runs_on_host,
)
from retrograd.compiler.xla._stages import Stage, stages_of
from retrograd.compiler.xla._updates import with_numbers
from retrograd.devices import _platforms
from retrograd.devices._level import place_of
from retrograd.devices._values import DeviceValue, Memory, put, seen

# Of an array that a memory alone refers to: by the memory, and by the parameter of getrefcount.
_REFERENCES_OF_ONE_MEMORY = 2


def function_of(program: Program) -> tuple[Callable[..., Any], set[Var]]:
    """The program as a function of values on a device, and the inputs whose memory it writes:
    none."""
    explain_host_lines(program)
    program = with_numbers(program)
    return OnDevice(program, stages_of(program, runs_on_host)), set()


class OnDevice(Executable):
    """The stages of a program, of which XLA's run on a device."""

    def __init__(self, program: Program, stages: list[Stage]) -> None:
        later: set[Var] = set(program.outputs)
        updated = {old for old, _ in program.updates}
        self.donated: dict[int, list[int]] = {}
        for stage in reversed(stages):
            inputs = stage.program.inputs
            self.donated[id(stage.program)] = [
                i for i, v in enumerate(inputs) if v in updated and v not in later
            ]
            later.update(inputs)
        # On a mesh, state and gradients are placed as what was there before, and as parameters.
        self.like = {new: x for x, new in (*program.gradients, *program.updates)}
        super().__init__(program, stages)
        # The numbers of an optimizer stay on the CPU, where it computes them.
        numbers = {v for line in program.lines if line.operation.name == "optimizer_numbers"
                   for v in line.outputs}  # fmt: skip
        self.stays = [v in numbers for v in program.outputs]

    def compiled(self, part: Program) -> Compiled:
        return Part(part, self.donated[id(part)], self.like)

    def on_host(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values: function(*map(seen, values))

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        place = place_of(values)
        found = super().__call__(*values)
        return tuple([
            y if stays or not arrays.is_raw(y) or place is None else put(y, place)
            for y, stays in zip(found, self.stays, strict=True)
        ])  # fmt: skip


class Part(Compiled):
    """A part of a program that XLA runs on a device."""

    lays_out = False

    def __init__(self, program: Program, donated: list[int], like: dict[Var, Var]) -> None:
        super().__init__(program)
        self.donated = donated
        number = {v: i for i, v in enumerate(program.inputs)}
        self.like = [number.get(like[v]) if v in like else None for v in program.outputs]
        self.where: tuple[Any, ...] = ()  # on a mesh, the shardings of inputs
        self.calls: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        place = place_of(values)
        if place is None or self.without_lowering:
            return self.program.run(*map(seen, values))
        alone = tuple([i for i in self.donated if _is_alone(values[i])])
        args = [x.array if isinstance(x, DeviceValue) else x for x in values]
        where = () if place._mesh is None else tuple([getattr(x, "sharding", None) for x in args])
        with jax.enable_x64(True):
            call = self.calls.get((place, alone, where))
            if call is None:
                try:
                    call = self.compiled_for(place, alone, where)
                    self.calls[(place, alone, where)] = call
                except NotImplementedError as error:
                    self.explain(error)
                    return self.program.run(*map(seen, values))
            doubtful = [seen(x) for x in values] if self.in_doubt else values
            found = call(*args, *self.held)
        if self.in_doubt and not found[-1]:
            return self.program.run(*doubtful)
        results = []
        for v, y in zip(self.program.outputs, self.outputs, strict=True):
            if y.is_input:
                x = values[y.position]
                results.append(x.apart() if isinstance(x, DeviceValue) else put(x, place))
            else:
                results.append(DeviceValue(Memory(found[y.position], place), v.shape, v.dtype))
        return tuple(results)

    def compiled_for(
        self, place: Any, donated: tuple[int, ...], where: tuple[Any, ...]
    ) -> Callable[..., Any]:
        target = _platforms.target(place)
        self.orders = [None] * len(self.program.inputs)
        self.held = [jax.device_put(v.constant, target) for v in self.constants]
        self.where = where
        there = target if where else jax.sharding.SingleDeviceSharding(target)
        inputs = [*self.program.inputs, *self.constants]
        given = [x or there for x in where] + [there] * (len(inputs) - len(where))
        shapes = [
            jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=x)
            for v, x in zip(inputs, given, strict=True)
        ]
        # Not self.trace itself, which JAX would take for the one that it has traced already.
        function = jax.jit(lambda *x: self.trace(*x), keep_unused=True, donate_argnums=donated)
        function.lower(*shapes)  # traced now, for the errors; a call of what is compiled from it
        result: Callable[..., Any] = function  # takes five times as long as one of the function
        return result

    def trace(self, *values: Any) -> tuple[Any, ...]:
        results = list(super().trace(*values))
        for output, i in zip(self.outputs, self.like, strict=True):
            if self.where and i is not None and not output.is_input:
                results[output.position] = jax.lax.with_sharding_constraint(
                    results[output.position], self.where[i]
                )
        return tuple(results)


def _is_alone(x: Any) -> bool:
    """Whether nothing else refers to XLA's array of a value, so that its memory may be reused."""
    if not isinstance(x, DeviceValue) or x.steps:
        return False
    return sys.getrefcount(x.memory.array) <= _REFERENCES_OF_ONE_MEMORY
