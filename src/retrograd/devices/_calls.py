"""Operations on a device: each is compiled by XLA when it is first called with operands of some
shapes and dtypes, and kept for the next call like it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from retrograd import arrays
from retrograd.compiler._program import Line, Step, Var
from retrograd.devices import _pending, _platforms
from retrograd.devices._values import DeviceValue, Memory, seen
from retrograd.ops._meta_device import result_of
from retrograd.ops._operation import Operation, TensorLike

np = arrays.programs.numpy

# Operations whose numbers may be other ones in the next call, without being compiled again.
TAKES_NUMBERS = frozenset({
    "add", "sub", "mul", "div", "add_scaled", "sub_scaled", "plus_number", "minus_number",
    "times_number", "over_number", "addcmul", "addcdiv", "rsub", "rsub_number", "lerp_number",
    "eq", "ne", "lt", "le", "gt", "ge", "fill", "at_least", "bounded",
})  # fmt: skip


class Given:
    """The position of an array, or of a number, among those that a compiled function takes."""

    __slots__ = ("layout", "number", "steps")

    def __init__(self, number: int, layout: Any, steps: tuple[Step, ...] = ()) -> None:
        self.number = number
        self.layout = layout  # of the memory that the steps start from; None for a number
        self.steps = steps


class Signature:
    """The arguments of an operation, taken apart: arrays and numbers, which compiled functions
    take, and a key of all else, which they are compiled for."""

    __slots__ = ("_numbers", "flat", "place")

    def __init__(self, takes_numbers: bool) -> None:
        self.flat: list[Any] = []
        self.place: Any = None
        self._numbers = takes_numbers

    def key(self, x: Any) -> Any:
        """The key of an argument, whose arrays are noted."""
        kind = type(x)
        if kind is DeviceValue:
            memory = x.memory
            self.flat.append(memory.array)
            if self.place is None:
                self.place = memory.place
            elif memory.place is not self.place and memory.array.devices() != self.devices():
                raise two_devices(self.place, memory.place)
            if x.steps:
                kind = memory.array.dtype.num
                return (memory.array.shape, kind, memory_key(x), steps_key(x.steps))
            # A number, as the hash of a dtype takes long to compute.
            return (x.shape, x.dtype.num, memory_key(x))
        if kind is float and self._numbers:
            self.flat.append(x)
            return float
        if kind in (list, tuple):
            return (kind, *[self.key(part) for part in x])
        if kind in (int, bool, str, type(None)):
            return (kind, x)
        if isinstance(x, TensorLike):
            return self.key(x._data)
        if arrays.is_raw(x):
            self.flat.append(x)
            return (np, x.shape, x.dtype.num)
        return constant_key(x)

    def devices(self) -> Any:
        first = next(x for x in self.flat if hasattr(x, "devices"))
        return first.devices()


def two_devices(one: Any, other: Any) -> RuntimeError:
    """PyTorch's words for operands on two devices."""
    if one._mesh is not None or getattr(other, "_mesh", None) is not None:
        return RuntimeError(
            "got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor "
            f"before calling distributed operators! One is on {one}, another on {other}: "
            "distribute_tensor(x, mesh, placements) puts a tensor on a mesh, and so does "
            "x.to(y.device), whole on each device."
        )
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{one} and {other}!"
    )


def memory_key(x: DeviceValue) -> Any:
    """How the memory of a value is laid out, unless it is row by row."""
    layout = x.memory.layout
    return None if layout is None or layout.flags.c_contiguous else layout.strides


def constant_key(x: Any) -> Any:
    """A key for a value that is no array: floats by their text, as nan is not itself."""
    if isinstance(x, (float, complex)):
        return (type(x), repr(x))
    if isinstance(x, slice):
        return (slice, x.start, x.stop, x.step)
    if type(x) in (list, tuple):
        return (type(x), *map(constant_key, x))
    if type(x) is dict:
        return (dict, *[(name, constant_key(value)) for name, value in x.items()])
    return (type(x), x)


def steps_key(steps: tuple[Step, ...]) -> Any:
    return tuple([
        (step.operation.name, step.number, constant_key(step.options)) for step in steps
    ])  # fmt: skip


class Call:
    """An operation, compiled for one signature."""

    __slots__ = ("expects", "function", "in_doubt", "operation", "outputs", "several")

    def __init__(self, operation: Any, args: Any, options: dict[str, Any]) -> None:
        from retrograd.compiler.xla import _table
        from retrograd.compiler.xla._narrow import PRODUCTS

        self.operation = operation
        outputs = _outputs(operation, args, options)
        self.several = isinstance(outputs, (tuple, list))
        results = list(outputs) if self.several else [outputs]
        self.outputs = [(y.shape, y.dtype) for y in results]
        self.in_doubt = self.expects = False
        counter: list[Any] = []
        given = _taken_apart(list(args), counter, operation.name in TAKES_NUMBERS)
        named = _taken_apart(options, counter, operation.name in TAKES_NUMBERS)
        vars_ = [Var("y", y) for y in results]

        def traced(*flat: Any) -> Any:
            known: dict[Var, Any] = {}
            variables = [_variable(part, flat, known) for part in given]
            line = Line(tuple(vars_), operation, tuple(variables),
                        {name: _variable(part, flat, known) for name, part in named.items()},
                        self.several, (None, 0), False)  # fmt: skip
            if not operation.moves_only and operation.name not in PRODUCTS:
                for var, x in known.items():  # bfloat16 is computed with in float32
                    known[var] = x.astype("float32") if x.dtype == "bfloat16" else x
            _table.doubts()
            from retrograd.compiler.xla._executable import run_line

            with _table.expectations() as expected:
                run_line(line, known)
            conditions = _table.doubts()
            self.in_doubt, self.expects = bool(conditions), bool(expected)
            found = [known[v] for v in vars_]
            for several in (conditions, expected):
                if several:
                    jnp = _platforms.jax().numpy
                    found.append(jnp.stack([jnp.all(c) for c in several]).all())
            return tuple(found)

        self.function: Callable[..., Any] = _platforms.jax().jit(traced)

    def __call__(self, flat: list[Any], place: Any) -> Any:
        """New values, or NotImplemented if the answer is not to be trusted."""
        found = _platforms.within_memory(self.function, place, *flat)
        if self.expects:
            *found, holds = found
            _pending.note(self.operation.name, holds)
        if self.in_doubt:
            *found, holds = found
            if not holds:
                return NotImplemented
        results = [
            DeviceValue(Memory(y, place), shape, dtype)
            for y, (shape, dtype) in zip(found, self.outputs, strict=True)
        ]
        return tuple(results) if self.several else results[0]


def _outputs(operation: Any, args: Any, options: dict[str, Any]) -> Any:
    """Arrays of the shapes and dtypes that an operation gives."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return result_of(operation, tuple(_layouts(list(args))), _layouts(options))
        except Exception:  # values matter, and zeros will not do: as on the CPU, once
            return operation.compute(seen(list(args)), {n: seen(x) for n, x in options.items()})


def _layouts(x: Any) -> Any:
    if isinstance(x, TensorLike):
        x = x._data
    if isinstance(x, DeviceValue):
        return x.layout
    if type(x) in (list, tuple):
        return type(x)(map(_layouts, x))
    return {name: _layouts(value) for name, value in x.items()} if type(x) is dict else x


def _taken_apart(x: Any, count: list[Any], numbers: bool) -> Any:
    """Arguments with ``Given`` in place of what compiled functions take, in the same order as
    ``Signature`` notes it."""
    if isinstance(x, TensorLike):
        x = x._data
    if isinstance(x, DeviceValue):
        assert x.layout is not None  # which makes that of the memory
        count.append(None)
        return Given(len(count) - 1, x.memory.layout, x.steps)
    if arrays.is_raw(x):
        count.append(None)
        return Given(len(count) - 1, np.empty(x.shape, x.dtype))
    if type(x) is float and numbers:
        count.append(None)
        return Given(len(count) - 1, None)
    if type(x) in (list, tuple):
        return type(x)([_taken_apart(part, count, numbers) for part in x])
    if type(x) is dict:
        return {name: _taken_apart(part, count, numbers) for name, part in x.items()}
    return x


def _variable(part: Any, flat: Any, known: dict[Var, Any]) -> Any:
    """A variable that stands for an argument, whose value is noted."""
    if type(part) in (list, tuple):
        return type(part)([_variable(x, flat, known) for x in part])
    if not isinstance(part, Given):
        return part
    value, layout = flat[part.number], part.layout
    if layout is None:
        return value
    var = Var("x", layout)
    known[var] = _platforms.jax().numpy.asarray(value)
    for step in part.steps:
        var = viewed(var, step, layout, known)
        layout = step(layout)
    return var


def viewed(var: Var, step: Step, layout: Any, known: dict[Var, Any]) -> Var:
    """The view of a variable, by the lowering of the view operation."""
    from retrograd.compiler.xla._executable import run_line
    from retrograd.compiler.xla._table import LOWERINGS

    several = step.number is not None
    found = step.operation.forward(layout, **step.options)
    outputs = tuple([Var("x", y) for y in (found if several else [found])])
    if step.operation.name in LOWERINGS:
        run_line(Line(outputs, step.operation, (var,), step.options, several, (None, 0), False),
                 known)  # fmt: skip
        return outputs[step.number or 0]
    numbers = np.arange(known[var].size).reshape(known[var].shape)
    view = outputs[step.number or 0]
    known[view] = known[var].reshape(-1)[step(numbers)]
    return view


# -- the calls that were made before ---------------------------------------------------------

_NEW: Any = object()
_calls: dict[Any, Call | None] = {}


def run(operation: Any, args: Any, options: dict[str, Any]) -> Any:
    """An operation by its lowering. NotImplemented if NumPy has to do it."""
    signature = Signature(operation.name in TAKES_NUMBERS)
    key = (operation.name, *[signature.key(x) for x in args])
    if options:
        key = (key, *[(name, signature.key(x)) for name, x in options.items()])
    jax = _platforms.jax()
    with jax.enable_x64(True):
        call: Call | None = _calls.get(key, _NEW)
        if call is _NEW:
            try:
                call = Call(operation, args, options)
                found = call(signature.flat, signature.place)
            except (NotImplementedError, jax.errors.JAXTypeError):  # XLA has nothing for it
                call, found = None, NotImplemented
            _calls[key] = call
            return found
        return NotImplemented if call is None else call(signature.flat, signature.place)


def written(target: DeviceValue, value: Any) -> Any:
    """XLA's array of a memory after a write to a part of it."""
    from retrograd.compiler._program import PUT
    from retrograd.compiler.xla._table import lowered

    memory = target.memory
    signature = Signature(False)
    key = ("put", signature.key(DeviceValue(memory, memory.array.shape, memory.array.dtype)),
           signature.key(value), steps_key(target.steps))  # fmt: skip
    jax = _platforms.jax()
    with jax.enable_x64(True):
        function: Any = _calls.get(key)
        if function is None:
            given = _taken_apart([value], [None], False)
            steps = target.steps

            def traced(base: Any, *flat: Any) -> Any:
                known: dict[Var, Any] = {}
                var = _variable(given[0], (base, *flat), known)
                line = Line((), PUT, (), {}, True, (None, 0), False)
                line.outputs = (var,)
                return lowered(line, [base, known[var]], {"views": steps})[0]

            function = _calls[key] = jax.jit(traced)
        return function(*signature.flat)


@cache
def is_known(operation: Any) -> bool:
    """Whether an operation has a lowering: it is one of the table's. (The line ``put`` of programs
    has one, too, and is not the composite of that name.)"""
    from retrograd.compiler.xla import COMPOSITES
    from retrograd.compiler.xla._table import LOWERINGS
    from retrograd.ops._operation import TABLE

    own = isinstance(operation, Operation) and TABLE.get(operation.name) is operation
    whole = own and (operation.definition is None or operation.name in COMPOSITES)
    return whole and operation.name in LOWERINGS
