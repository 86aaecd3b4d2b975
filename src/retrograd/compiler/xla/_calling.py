"""The code around a call of XLA on a CPU, generated as one function per program.

Each argument of a call costs half a microsecond, and each result two, which is more than most
operations on small arrays take. So small arguments of one dtype are slices of one XLA array, and
small results are slices of another. The latter is donated, so that XLA uses the same memory in each
call. NumPy views of that memory exist already, and results are copied from them. Larger arguments
are copied to preallocated XLA arrays. Larger results stay in the memory that XLA allocated, which
nothing else uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from retrograd import arrays
from retrograd.compiler._program import Var
from retrograd.compiler.xla._memory import Memory, Room, is_dense, memory_order, ordered, shown_at

np = arrays.programs.numpy
PACKED = 16384  # the largest argument or result, in bytes, that shares an XLA array with others
COPIED = 1 << 20  # the largest argument, in bytes, that is copied instead of converted by JAX


class Pack:
    """Small variables of one dtype, concatenated in one XLA array."""

    def __init__(self, variables: Sequence[Var], numbers: list[int]) -> None:
        self.numbers = numbers  # the positions of inputs or of outputs of the program
        self.dtype = variables[numbers[0]].dtype
        sizes = [variables[i].nbytes // self.dtype.itemsize for i in numbers]
        self.ends: list[int] = np.cumsum(sizes).tolist()
        self.starts = [0, *self.ends[:-1]]
        self.shape = (self.ends[-1],)

    def struct(self) -> Any:
        return jax.ShapeDtypeStruct(self.shape, self.dtype)

    def shown(self, array: Any, variables: Sequence[Var], strides: Callable[[Var], Any]) -> Any:
        """NumPy views of the variables in an XLA array."""
        memory = shown_at(array.unsafe_buffer_pointer(), self.shape, self.dtype)
        of = [variables[i] for i in self.numbers]
        return [np.ndarray(v.shape, v.dtype, memory, start * v.dtype.itemsize, strides(v))
                for v, start in zip(of, self.starts, strict=True)]  # fmt: skip


def packs_of(variables: Sequence[Var], fits: Callable[[Var], bool]) -> list[Pack]:
    """One pack for each dtype, of the variables that are small and fulfil a condition."""
    by_dtype: dict[Any, list[int]] = {}
    for i, v in enumerate(variables):
        if v.constant is None and 0 < v.nbytes <= PACKED and v.dtype.kind != "V" and fits(v):
            by_dtype.setdefault(v.dtype, []).append(i)
    return [Pack(variables, numbers) for numbers in by_dtype.values()]


def strides_of(v: Var) -> tuple[int, ...] | None:
    """The strides of an output in the program, which other programs may rely on; None for row-major
    order."""
    return v.strides if is_dense(v) or memory_order(v) is not None else None


def is_copied_as_it_is(v: Var) -> bool:
    """Whether a copy of an output by NumPy has the same strides."""
    strides = strides_of(v)
    shown = np.ndarray(v.shape, v.dtype, bytes(v.nbytes), 0, strides)
    return strides is None or shown.copy("K").strides == strides


class Calling:
    """The arguments and results of the XLA function of a program, ``part.program``."""

    def __init__(self, part: Any, on_cpu: bool) -> None:
        self.part = part
        self.inputs: list[Var] = part.program.inputs
        self.outputs: list[Var] = part.program.outputs
        self.on_cpu = on_cpu
        self.given = packs_of(self.inputs, lambda v: on_cpu)
        packed = {i for pack in self.given for i in pack.numbers}
        self.alone = [i for i in range(len(self.inputs)) if i not in packed]
        self.copied = [i for i in self.alone if on_cpu and 0 < self.inputs[i].nbytes <= COPIED]
        self.taken = packs_of(self.outputs, lambda v: on_cpu and is_copied_as_it_is(v))
        packed = {i for pack in self.taken for i in pack.numbers}
        self.kept = [v for i, v in enumerate(self.outputs) if i not in packed]

    # -- what XLA compiles -------------------------------------------------------------------------

    def compiled(self, options: Any) -> Callable[..., Any]:
        """The XLA function. Unlike a JAX function, it does not depend on JAX's settings when it is
        called."""
        shapes = [pack.struct() for pack in self.given]
        for i in self.alone:
            v = self.inputs[i]
            shapes.append(jax.ShapeDtypeStruct(ordered(v.shape, self.part.orders[i]), v.dtype))
        shapes += [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self.part.held]
        donated = tuple(range(len(shapes), len(shapes) + len(self.taken)))
        shapes += [pack.struct() for pack in self.taken]
        # A new function each time, because JAX caches the trace of self.function.
        function = jax.jit(
            lambda *x: self.function(*x), keep_unused=True, donate_argnums=donated,
            compiler_options=options,
        )  # fmt: skip
        result: Callable[..., Any] = function.lower(*shapes).compile()
        return result

    def function(self, *values: Any) -> tuple[Any, ...]:
        """The program as a function of packed inputs, other inputs, constants and the memory of
        packed results. It returns packed results and other results."""
        part = self.part
        inputs: list[Any] = [None] * len(self.inputs)
        for pack, x in zip(self.given, values, strict=False):
            for i, start, end in zip(pack.numbers, pack.starts, pack.ends, strict=True):
                part_of = lax.slice(x, (start,), (end,)).reshape(self.inputs[i].shape)
                inputs[i] = in_order(part_of, part.orders[i])
        rest = values[len(self.given) :]
        for i, x in zip(self.alone, rest, strict=False):
            inputs[i] = x
        constants = rest[len(self.alone) : len(self.alone) + len(part.held)]
        known, trusted = part.evaluated([*inputs, *constants])
        packs = list(values[len(values) - len(self.taken) :])
        for k, pack in enumerate(self.taken):
            for i, start in zip(pack.numbers, pack.starts, strict=True):
                x = in_order(known[self.outputs[i]], memory_order(self.outputs[i]))
                # This writes in place. A concatenation would fuse all results into one loop.
                packs[k] = lax.dynamic_update_slice(packs[k], x.reshape(-1), (start,))
        return (*packs, *part.results(known, self.kept), *trusted)

    # -- the function in straight lines ----------------------------------------------------------

    def caller(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The function of NumPy arrays that calls the XLA function and returns a tuple."""
        part = self.part
        names: dict[str, Any] = {
            "Memory": Memory, "call": call, "held": part.held,
            "copy": arrays.copy, "run": part.program.run, "enable_x64": jax.enable_x64,
            "rooms": [], "new_room": self.room, "show": self.shown,
        }  # fmt: skip
        parameters = ", ".join([f"x{i}" for i in range(len(self.inputs))])
        filled = [f"s{i}" for pack in self.given for i in pack.numbers]
        packs = [f"a{k}" for k in range(len(self.given))]
        donated = [f"r{k}" for k in range(len(self.taken))]
        shown = [f"y{i}" for pack in self.taken for i in pack.numbers]
        copies = [name for i in self.copied for name in (f"t{i}", f"b{i}")]
        # Not "if rooms": another thread may take the last element in between.
        lines = ["try: room = rooms.pop()", "except IndexError: room = new_room()"]
        if room := [*donated, *filled, *packs, *copies, *shown]:
            lines.append(f"{', '.join(room)}, addresses = room")
        lines += [f"s{i}[...] = x{i}" for pack in self.given for i in pack.numbers]
        for i in self.copied:
            other = f"t{i}[...] = x{i}"
            if self.inputs[i].shape:  # NumPy scalars have no base
                lines.append(f"if isinstance(x{i}.base, Memory): b{i} = x{i}.base.array")
                other = f"else: {other}"
            lines.append(other)
        args = [*packs, *[f"b{i}" if i in self.copied else self.handed(i) for i in self.alone],
                "*held", *donated]  # fmt: skip
        number = max([y.position + 1 for y in part.outputs if not y.is_input], default=0)
        made = [*donated, *[f"k{i}" for i in range(number)], *["trusted"] * part.in_doubt]
        target = "".join([f"{name}, " for name in made]) or "_"
        setting = "with enable_x64(True): " if len(self.copied) < len(self.alone) else ""
        lines.append(f"{setting}{target} = call({', '.join(args)})")
        if made:
            lines.append(f"{made[0]}.block_until_ready()")  # all results are ready at once
        if donated:
            pointers = "".join([f"{name}.unsafe_buffer_pointer(), " for name in donated])
            lines += [f"room[:{len(donated)}] = {', '.join(donated)},",
                      f"if ({pointers}) != addresses:",
                      f"    {', '.join(shown)}, _ = room[{-len(shown) - 1}:] = "
                      f"show({', '.join(donated)})"]  # fmt: skip
        if part.in_doubt:
            lines.append(f"if not trusted: return run({parameters})")
        results = self.results(names)
        lines += [f"results = ({results})", "rooms.append(room)", "return results"]
        body = "\n    ".join(lines)
        exec(f"def caller({parameters}):\n    {body}\n", names)
        function: Callable[..., Any] = names["caller"]
        return function

    def handed(self, i: int) -> str:
        """The expression of an argument that JAX converts to an XLA array."""
        order = self.part.orders[i]
        x = f"x{i}" if order is None else f"x{i}.transpose({order})"
        if not self.on_cpu or not self.inputs[i].shape:
            return x
        return f"x{i}.base.array if isinstance(x{i}.base, Memory) else {x}"

    def results(self, names: dict[str, Any]) -> str:
        """The expressions of all outputs."""
        texts: dict[int, str] = {}
        for pack in self.taken:
            for i in pack.numbers:
                texts[i] = f'y{i}.copy("K")' if self.outputs[i].shape else f"y{i}[()]"
        left = [i for i in range(len(self.outputs)) if i not in texts]
        for i, y in zip(left, self.part.outputs, strict=True):
            if y.is_input:
                texts[i] = f"copy(x{y.position})"
            else:
                names[f"o{i}"] = y.taken_over if self.on_cpu else y.converted
                texts[i] = f"o{i}(k{y.position})"
        return "".join([f"{texts[i]}, " for i in range(len(self.outputs))])

    def room(self) -> list[Any]:
        """XLA arrays for the arguments and small results of one call, and NumPy views of them."""
        with jax.enable_x64(True):
            taken = [jnp.zeros(pack.shape, pack.dtype) for pack in self.taken]
            given = [Room(pack.shape, pack.dtype, None) for pack in self.given]
            copies = [Room(self.inputs[i].shape, self.inputs[i].dtype, self.part.orders[i])
                      for i in self.copied]  # fmt: skip
        return [
            *taken, *[x for pack, room in zip(self.given, given, strict=True)
                      for x in pack.shown(room.array, self.inputs, lambda v: None)],
            *[x.array for x in given],
            *[part for x in copies for part in (x.shown, x.array)], *self.shown(*taken),
        ]  # fmt: skip

    def shown(self, *taken: Any) -> list[Any]:
        """NumPy views of small results, and the addresses of their packs."""
        results = [x for pack, array in zip(self.taken, taken, strict=True)
                   for x in pack.shown(array, self.outputs, strides_of)]  # fmt: skip
        return [*results, tuple([x.unsafe_buffer_pointer() for x in taken])]


def in_order(x: Any, order: tuple[int, ...] | None) -> Any:
    return x if order is None else jnp.transpose(x, order)
