"""Compiled programs on a device. Their inputs and results stay on the device.

The tensors that a program updates, such as parameters, are donated: XLA writes the new values to
the memory of the old ones, unless something else refers to it. So are the gradients of the previous
step, which this step replaces. Every step then uses the same addresses, which matters on GPUs: XLA
launches a program as one graph of kernels, and has to rebuild the graph if addresses change.

Optimizer updates form a second program, after the forward and backward pass. XLA returns no result
before a program ends. With one program, the loss would arrive after the updates, and the device
would be idle until the host has read it and called the next step. With two programs, the host does
that while the device updates parameters. Gradients are results of a step in any case, so this needs
no additional memory.

Checks of indices are part of the program. Their result is examined later (``_pending.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import starmap
from operator import itemgetter
from sys import getrefcount
from typing import Any, NamedTuple

import jax

from retrograd import arrays
from retrograd.autograd._versions import version_of
from retrograd.compiler._program import Kernel, Line, Program, Var
from retrograd.compiler.xla._executable import (
    Compiled,
    Executable,
    explain_host_lines,
    runs_on_host,
)
from retrograd.compiler.xla._stages import Stage, stages_of
from retrograd.compiler.xla._table import lowering, on_mesh
from retrograd.compiler.xla._updates import NUMBERS, with_numbers
from retrograd.devices import _pending, _platforms
from retrograd.devices._deferred import Later
from retrograd.devices._level import first_device
from retrograd.devices._values import DeviceValue, Memory, on_host, put, put_from_first

np = arrays.programs.numpy
# The count of an object with a single reference: that one, and the parameter of getrefcount.
_REFERENCES_OF_ONE = 2
_Array = type(jax.numpy.zeros(()))


def function_of(program: Program) -> tuple[Callable[..., Any], set[Var]]:
    """The program as a function of values on a device, and the set of inputs whose arrays it
    overwrites, which is empty."""
    explain_host_lines(program)
    program, checks = with_late_checks(with_numbers(program))
    return OnDevice(program, stages_of(program, runs_on_host, _begins_updates), checks), set()


def _begins_updates(line: Line) -> bool:
    """Whether a line computes the numbers that the optimizer updates take."""
    return bool(line.operation.name == NUMBERS)


# -- checks ----------------------------------------------------------------------------------


def _limits(line: Line) -> tuple[int, int, int | None] | None:
    """If a line only checks indices: the smallest valid index, the end of the range, and another
    valid index (``ignore_index``) or None."""
    name, (_, *rest) = line.operation.name, line.args
    if name == "check_rows":
        return 0, rest[0], None
    if name == "check_targets":
        return 0, rest[0], rest[1]
    if name == "check_in_bounds":
        size, negative = rest[1], rest[3]
        return (-size if negative else 0), size, None
    return None


def with_late_checks(program: Program) -> tuple[Program, bool]:
    """The program with its checks of indices combined into one more output, a bool, and whether it
    has any checks."""
    checked: dict[tuple[Var, Any], None] = {}
    lines = []
    for line in program.lines:
        limits = None if line.outputs or not line.args else _limits(line)
        if limits is not None and isinstance(line.args[0], Var):
            checked[line.args[0], limits] = None
        else:
            lines.append(line)
    if not checked:
        return program, False
    holds = Var("holds", np.bool_(True))
    lines.append(Line((holds,), Kernel("in_range", _in_range), tuple([v for v, _ in checked]),
                      {"limits": [limits for _, limits in checked]}, False, (None, 0),
                      False))  # fmt: skip
    return Program(program.name, program.inputs, lines, [*program.outputs, holds],
                   program.updates, program.gradients), True  # fmt: skip


@lowering("in_range")
def _in_range(*indices: Any, limits: list[tuple[int, int, int | None]]) -> Any:
    """Whether indices, in arrays of NumPy or JAX, are within limits."""
    holds: Any = np.bool_(True)
    for x, (least, end, other) in zip(indices, limits, strict=True):
        fine = (x >= least) & (x < end)
        if other is not None:
            fine = fine | (x == other)
        holds = holds & fine.all()
    return holds


# -- stages ----------------------------------------------------------------------------------


class OnDevice(Executable):
    """The stages of a program. Those for XLA run on a device. With ``checks``, the last output says
    whether indices are in range.

    ``recycled`` are the positions of the outputs that are gradients. For each, ``arrays`` takes an
    unused array of the same shape, whose memory XLA may reuse, or None.
    """

    def __init__(self, program: Program, stages: list[Stage], checks: bool) -> None:
        later: set[Var] = set(program.outputs)
        self.device: Any = None  # of results, if no input is on a device
        self.checks = checks
        self.name = program.name
        self.becomes = dict(program.updates)
        self.donated: dict[int, list[int]] = {}
        for stage in reversed(stages):
            inputs = stage.program.inputs
            made = set(stage.program.outputs)
            self.donated[id(stage.program)] = [
                i for i, v in enumerate(inputs) if self.becomes.get(v) in made and v not in later
            ]
            later.update(inputs)
        gradients = list(dict.fromkeys(new for _, new in program.gradients))
        self.gradients = {
            id(stage.program): [v for v in gradients if v in stage.program.outputs]
            for stage in stages if not stage.on_host
        }  # fmt: skip
        # On a mesh, state keeps its sharding, and gradients have that of their parameters.
        self.like = {new: x for x, new in (*program.gradients, *program.updates)}
        super().__init__(program, stages)
        self.recycled: list[int] = []
        self.kinds: list[tuple[tuple[int, ...], Any]] = []  # their shapes and dtypes
        first = len(program.inputs) + self.room
        for stage, (_, taken, _) in zip(stages, self.steps, strict=True):
            for v in self.gradients.get(id(stage.program), ()):
                taken.append(first + len(self.recycled))
                self.recycled.append(program.outputs.index(v))
                self.kinds.append((v.shape, v.dtype))
        self.nothing = (None,) * len(self.recycled)
        spares = range(first, first + len(self.recycled))
        self.run = self.in_lines([*range(len(program.inputs)), *spares])
        # The numbers of an optimizer stay on the CPU, where it computes them.
        numbers = {v for line in program.lines if line.operation.name == NUMBERS
                   for v in line.outputs}  # fmt: skip
        self.stays = [v in numbers for v in program.outputs]
        # Numbers such as the loss are usually read, so their transfer to the host starts early.
        self.read = [i for i, v in enumerate(program.outputs) if not v.shape and v not in numbers]

    def compiled(self, part: Program) -> Compiled:
        key = id(part)
        return Part(part, self.donated[key], self.becomes, self.gradients[key], self.like)

    def on_host(self, function: Callable[..., Any]) -> Callable[..., Any]:
        # Most arguments are numbers of an optimizer, which are on the CPU.
        return lambda *values: function(
            *[x if type(x) is arrays.ndarray else _on_host(x) for x in values]
        )

    def arrays(self, *values: Any, spares: Sequence[Any] = ()) -> tuple[Any, ...]:
        """The outputs, and the device. Outputs computed by XLA are XLA arrays."""
        device = first_device(values)
        device = self.device if device is None else device
        outputs = self.run(*values, *(spares or self.nothing))
        for i in self.read:
            if type(outputs[i]) is _Array:
                outputs[i].copy_to_host_async()
        if self.checks:
            _pending.note(self.name, outputs[-1])
            outputs = outputs[:-1]
        return (*outputs, device)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        *outputs, device = self.arrays(*values)
        return tuple([
            y if stays else self.value(y, device)
            for y, stays in zip(outputs, self.stays[: len(outputs)], strict=True)
        ])

    @staticmethod
    def alone(values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The spare values, or nothing if one of them is None."""
        return () if any([x is None for x in values]) else values

    @staticmethod
    def spare(tensor: Any) -> Any:
        """The value of a tensor's ``.grad`` if nothing else refers to it; otherwise None."""
        meta = tensor._meta
        if (
            getrefcount(meta.grad) > _REFERENCES_OF_ONE  # also true for None
            or type(meta.grad._data) is not DeviceValue
            or meta.grad._data.steps
            or getrefcount(meta.grad._data) > _REFERENCES_OF_ONE
            or getrefcount(meta.grad._data.memory) > _REFERENCES_OF_ONE
            or getrefcount(meta.grad._data.memory.array) > _REFERENCES_OF_ONE
        ):
            return None
        return meta.grad._data

    @staticmethod
    def value(y: Any, device: Any, shape: Any = None, dtype: Any = None) -> Any:
        """An output as a value on the device. ``shape`` and ``dtype`` may be passed because the
        attributes of JAX's arrays are slow."""
        if arrays.is_raw(y):
            return y if device is None else put(y, device)
        if type(y) is DeviceValue:
            return y
        return DeviceValue(Memory(y, device), y.shape if shape is None else shape, dtype or y.dtype)

    def as_gradients(self, outputs: tuple[Any, ...], spares: tuple[Any, ...]) -> list[Any]:
        """The outputs at ``recycled`` as values on the device. Spare values are reused."""
        values = [outputs[i] for i in self.recycled]
        for k, (y, spare) in enumerate(zip(values, spares or self.nothing, strict=True)):
            if spare is None or type(y) is not _Array:
                values[k] = self.value(y, outputs[-1], *self.kinds[k])
            else:
                spare.memory.content = y
                values[k] = spare
        return values

    @classmethod
    def write_over(cls, tensors: Any, values: Any, at: Any) -> None:
        """Replace the contents of tensors on the device by outputs, without copying. ``at`` is the
        location in the user's code."""
        for tensor, y in zip(tensors, values, strict=True):
            data = tensor._data
            memory = data.memory
            if memory.content is not y:  # unless it was donated
                if data.steps or type(y) is not _Array:
                    data.level.write(data, cls.value(y, memory.device))
                elif memory.device._mesh is None:
                    memory.content = y
                else:
                    memory.hold(y)
            version = tensor._version_counter or version_of(tensor)
            version.count += 1
            version.written_at = at

    @staticmethod
    def write_on_host(tensors: Any, values: Any, at: Any) -> None:
        """The same for tensors on the CPU, such as the step counts of an optimizer."""
        for tensor, y in zip(tensors, values, strict=True):
            data = tensor._data
            if type(data) is not arrays.ndarray:
                data = tensor._data = arrays.writable(data)
            if not isinstance(y, np.generic):
                y = _on_host(y)
            if data.shape:
                arrays.write(data, y)
            else:
                data[()] = y
            version = tensor._version_counter or version_of(tensor)
            version.count += 1
            version.written_at = at


def _apart(x: Any) -> Any:
    """An argument of a stage that is also its result, in separate memory."""
    return x.apart() if type(x) is DeviceValue else x


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of JAX without its warning about donated memory that cannot be used. That happens
    if a gradient is an input or equal to another gradient."""

    def call(*args: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Some donated buffers were not usable")
            return function(*args)

    return call


def _on_host(x: Any) -> Any:
    """An argument of a stage as an array on the CPU."""
    if arrays.is_raw(x):
        return x
    if type(x) is DeviceValue:
        return x.host
    return on_host(x)


class DonatingCall(NamedTuple):
    """A function of XLA, and its donated arguments, whose memory it may overwrite. Each is paired
    with the result, or with the other argument, that is its new contents."""

    function: Callable[..., Any]
    by_results: list[tuple[int, int]]
    by_arguments: list[tuple[int, int]]

    def hold(self, results: Sequence[Any], args: Sequence[Any], memories: Sequence[Any]) -> None:
        """Replace the contents of donated memory by the results that were written there."""
        for i, k in self.by_results:
            if (memory := memories[i]) is not None:
                memory.content = results[k]
        for i, k in self.by_arguments:
            if (memory := memories[i]) is not None:
                memory.content = args[k]


class Part(Compiled):
    """A stage of a program that XLA runs on a device."""

    lays_out = False

    def __init__(
        self, program: Program, donated: list[int], becomes: dict[Var, Var],
        gradients: list[Var], like: dict[Var, Var],
    ) -> None:  # fmt: skip
        super().__init__(program)
        self.donated = donated
        self.gradients = gradients
        # JAX assigns the memory of each donated argument to the first output of its shape without
        # memory, so outputs are in the order of the arguments that they replace.
        updated = [becomes[program.inputs[i]] for i in donated]
        self.leading = [*updated, *gradients]
        position = {v: k for k, v in enumerate(program.outputs)}
        # The outputs that replace donated inputs and recycled gradients.
        self.instead = {i: position[v] for i, v in zip(donated, updated, strict=True)}
        self.instead.update((len(program.inputs) + i, position[v])
                            for i, v in enumerate(gradients))  # fmt: skip
        number = {v: i for i, v in enumerate(program.inputs)}
        self.like = [number.get(like[v]) if v in like else None for v in program.outputs]
        self.mesh: Any = None
        self.where: tuple[Any, ...] = ()  # on a mesh, the shardings of inputs
        self.calls: dict[Any, DonatingCall] = {}
        self.picked: Callable[..., Any] | None = None  # selects the outputs from XLA's results

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        count = len(self.program.inputs)
        device = first_device(values)
        if device is None or self.without_lowering:
            return self.program.run(*map(_on_host, values[:count]))
        if len(values) > count and (values[-1] is None or device._mesh is not None):
            values = values[:count]
        memories = [x.memory if type(x) is DeviceValue and not x.steps else None for x in values]
        args = [
            memory.content if memory is not None else x.array if type(x) is DeviceValue else x
            for x, memory in zip(values, memories, strict=True)
        ]
        if Later in map(type, args):
            args = [x.array if type(x) is DeviceValue else x for x in values]
        alone = tuple([i for i in self.donated if getrefcount(args[i]) <= _REFERENCES_OF_ONE + 1])
        where = () if device._mesh is None else tuple([getattr(x, "sharding", None) for x in args])
        with jax.enable_x64(True):
            if where:
                self.put_on_mesh(args, device)
            key = (device, alone, where, len(args))
            call = self.calls.get(key)
            if call is None:
                try:
                    call = self.compiled_for(device, alone, where, len(args))
                except NotImplementedError as error:
                    self.explain(error)
                    return self.program.run(*map(_on_host, values[:count]))
                self.calls[key] = call
                call = call._replace(function=_quiet(call.function))  # it is compiled now
            doubtful = [_on_host(x) for x in values[:count]] if self.in_doubt else ()
            results = self.results_of(call, args, memories, device)
        if self.in_doubt and not results[-1]:
            return self.program.run(*doubtful)
        if self.picked is not None:
            return self.picked(results)  # type: ignore[no-any-return]
        return tuple([_apart(values[y.position]) if y.is_input else results[y.position]
                      for y in self.outputs])  # fmt: skip

    def put_on_mesh(self, args: list[Any], device: Any) -> None:
        """If the mesh has devices of several processes, move arguments on the CPU to it."""
        target = _platforms.target(device)
        if not target.is_fully_addressable:
            at = [i for i, x in enumerate(args) if not isinstance(x, jax.Array)]
            sources = [np.array(args[i], self.program.inputs[i].dtype, order="C") for i in at]
            for i, array in zip(at, put_from_first(sources, target), strict=True):
                args[i] = array

    def results_of(
        self, call: DonatingCall, args: list[Any], memories: list[Any], device: Any
    ) -> Any:
        """The results of XLA's function. Donated memory holds its new contents at once, because an
        interrupt may arrive before the program writes its results."""
        held = args
        if self.held:
            count = len(self.program.inputs)
            held = [*args[:count], *self.held, *args[count:]]
        results: list[Any] = []
        try:
            # One call into C: Python delivers an interrupt as soon as a call returns to its code.
            results.extend(starmap(call.function, (held,)))
            call.hold(results[0], args, memories)
        except jax.errors.JaxRuntimeError as error:
            raise _platforms.explained(error, device) from None
        except BaseException:  # an interrupt
            if results:
                call.hold(results[0], args, memories)
            raise
        return results[0]

    def compiled_for(
        self, device: Any, alone: tuple[int, ...], where: tuple[Any, ...], count: int
    ) -> DonatingCall:
        target = _platforms.target(device)
        self.orders = [None] * len(self.program.inputs)
        self.held = [jax.device_put(v.constant, target) for v in self.constants]
        self.where, self.mesh = where, device._mesh
        there = target if where else jax.sharding.SingleDeviceSharding(target)
        inputs, donated = [*self.program.inputs, *self.constants], alone
        if count > len(self.program.inputs):  # spare gradients
            donated += tuple(range(len(inputs), len(inputs) + len(self.gradients)))
            inputs += self.gradients
        shardings = [x or there for x in where] + [there] * (len(inputs) - len(where))
        shapes = [
            jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=x)
            for v, x in zip(inputs, shardings, strict=True)
        ]
        compiled: Callable[..., Any] = _quiet(self.jitted)(shapes, donated)
        # An argument that is also an output, such as a copy taken before a write, is not donated.
        kept = {y.position for y in self.outputs if y.is_input}
        if not kept.isdisjoint(donated):
            donated = tuple([i for i in donated if i not in kept])
            compiled = _quiet(self.jitted)(shapes, donated)
        made = [y.position for y in self.outputs if not y.is_input]
        whole = len(made) == len(self.outputs) > 1
        self.picked = itemgetter(*made) if whole else None
        replaced = [(i, self.outputs[self.instead[i]])
                    for i in (*alone, *range(len(self.program.inputs), count)) if i not in kept]
        return DonatingCall(
            compiled, [(i, y.position) for i, y in replaced if not y.is_input],
            [(i, y.position) for i, y in replaced if y.is_input],
        )  # fmt: skip

    def traceable(self) -> Callable[..., Any]:
        mesh, where = self.mesh, self.where

        def function(*values: Any) -> tuple[Any, ...]:
            # JAX may trace it again later, such as after jax.clear_caches().
            self.mesh, self.where = mesh, where
            return self.trace(*values)

        return function

    def trace(self, *values: Any) -> tuple[Any, ...]:
        with on_mesh(self.mesh):
            results = list(super().trace(*values))
        for output, i in zip(self.outputs, self.like, strict=True):
            if self.where and i is not None and not output.is_input:
                results[output.position] = jax.lax.with_sharding_constraint(
                    results[output.position], self.where[i]
                )
        return tuple(results)
