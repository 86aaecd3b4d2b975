"""Compiled programs on a device: their inputs come from there, and their results stay there.

What a program updates, such as parameters, is donated: XLA writes the new values in the memory of
the old, unless something else refers to it.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import jax

from retrograd import arrays
from retrograd.autograd._versions import version_of
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

np = arrays.programs.numpy
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
        return lambda *values: function(*map(_on_host, values))

    def arrays(self, *values: Any) -> tuple[Any, ...]:
        """The outputs, of which those that XLA computed are its arrays, and the device."""
        place = place_of(values)
        found = super().__call__(*values)
        return (*found, place)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        *found, place = self.arrays(*values)
        return tuple([
            y if stays else self.value(y, place) for y, stays in zip(found, self.stays, strict=True)
        ])  # fmt: skip

    @staticmethod
    def value(y: Any, place: Any) -> Any:
        """An output as a value on the device."""
        if arrays.is_raw(y):
            return y if place is None else put(y, place)
        return y if type(y) is DeviceValue else DeviceValue(Memory(y, place), y.shape, y.dtype)

    @staticmethod
    def write_over(tensor: Any, y: Any, at: Any) -> None:
        """Write an output over a tensor, at some place in the user's code. Nothing is copied."""
        data = tensor._data
        if type(data) is not DeviceValue:
            data = tensor._data = arrays.writable(data)
            arrays.write(data, _on_host(y))
        elif arrays.is_raw(y) or type(y) is DeviceValue or data.steps:
            data.level.write(data, OnDevice.value(y, data.memory.place))
        else:
            data.memory.hold(y)
        version = tensor._version_counter or version_of(tensor)
        version.count += 1
        version.written_at = at


def _apart(x: Any) -> Any:
    """An argument of a stage as a result of it, in memory of its own."""
    return x.apart() if type(x) is DeviceValue else x


def _on_host(x: Any) -> Any:
    """An argument of a stage as an array on the CPU."""
    if type(x) is DeviceValue or arrays.is_raw(x):
        return seen(x)
    if not x.is_fully_addressable:  # other processes have some of it
        whole = jax.sharding.NamedSharding(x.sharding.mesh, jax.sharding.PartitionSpec())
        x = jax.device_put(x, whole).addressable_data(0)
    return np.array(x)


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
            return self.program.run(*map(_on_host, values))
        alone = tuple([
            i for i in self.donated
            if type(x := values[i]) is DeviceValue and not x.steps
            and getrefcount(x.memory.array) <= _REFERENCES_OF_ONE_MEMORY
        ])  # fmt: skip
        args = [
            (x.array if x.steps else x.memory.array) if type(x) is DeviceValue else x
            for x in values
        ]
        where = () if place._mesh is None else tuple([getattr(x, "sharding", None) for x in args])
        with jax.enable_x64(True):
            call = self.calls.get((place, alone, where))
            if call is None:
                try:
                    call = self.compiled_for(place, alone, where)
                    self.calls[(place, alone, where)] = call
                except NotImplementedError as error:
                    self.explain(error)
                    return self.program.run(*map(_on_host, values))
            doubtful = [_on_host(x) for x in values] if self.in_doubt else values
            found = _platforms.within_memory(call, place, *args, *self.held)
        if self.in_doubt and not found[-1]:
            return self.program.run(*doubtful)
        return tuple([_apart(values[y.position]) if y.is_input else found[y.position]
                      for y in self.outputs])  # fmt: skip

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
        return self.jitted(shapes, donated)

    def trace(self, *values: Any) -> tuple[Any, ...]:
        results = list(super().trace(*values))
        for output, i in zip(self.outputs, self.like, strict=True):
            if self.where and i is not None and not output.is_input:
                results[output.position] = jax.lax.with_sharding_constraint(
                    results[output.position], self.where[i]
                )
        return tuple(results)
