"""A program: the operations that a function called while it was traced, as straight-line code.

Passes, printers and backends know only this about a function:

- ``Program.inputs``: variables whose values the caller passes;
- ``Program.lines``: calls of operations, in order. A variable is assigned once, before it is used;
- ``Program.outputs``: variables whose values the program returns.

A line calls an operation of the table or a ``Kernel``, a function without an entry in the table: a
fused derivative, a draw of random numbers, a write. Its arguments and options are variables, Python
values, and lists and tuples of these. Values are arrays or, without dimensions, scalars. They never
change: the result of an in-place write is a new variable, computed by ``PUT`` or by a kernel with
``writes``. A backend may use the memory of the old variable for it if that is not read again
(``_buffers.py``).

A backend has an entry for each operation by ``line.operation.name``. Composites have a
``definition``; a program traced with ``whole=False`` contains only those that the backend asked for
by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from retrograd import arrays
from retrograd._source import Place, describe
from retrograd.ops._operation import Operation


class Var:
    """A variable of a program: its name, shape, dtype and memory layout.

    The name is the one in the user's code, which several variables may share, or ``t`` and a
    number. ``root`` is the variable whose memory a view refers to, and else the variable itself.
    ``constant`` is the value of a constant, and else None.
    """

    __slots__ = ("constant", "dtype", "name", "nbytes", "root", "shape", "strides")

    def __init__(self, name: str, value: Any, root: Var | None = None) -> None:
        self.name = name
        self.shape: tuple[int, ...] = value.shape
        self.dtype = value.dtype
        self.strides: tuple[int, ...] = value.strides
        self.nbytes: int = value.nbytes  # of all elements, also of those that share memory
        self.root: Var = self if root is None else root
        self.constant: Any = None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.dtype.name}{list(self.shape)}>"


def in_rows(x: Var) -> bool:
    """Whether a variable is contiguous."""
    step = x.dtype.itemsize
    for size, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


class Kernel:
    """A function of arrays that a line calls and that is not an operation of the table.

    ``writes``: positions of arguments that the function overwrites. The line then has an output for
    each of these, in this order, followed by one for each array in the tuple that the function may
    return.
    """

    __slots__ = ("definition", "forward", "heavy", "name", "random", "view", "writes")

    batch = None  # like an operation of the table

    def __init__(
        self, name: str, forward: Callable[..., Any], writes: tuple[int, ...] = (),
        random: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.forward = forward
        self.writes = writes
        self.random = random
        self.view = self.heavy = False
        self.definition = None

    def compute(self, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """Call the function; like ``Operation.compute``."""
        return self.forward(*args, **options)

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


class Step:
    """A view operation, its options, and the index of its output. Steps lead from a whole memory to
    the part of it that ``PUT`` writes."""

    __slots__ = ("number", "operation", "options")

    def __init__(self, operation: Operation, options: dict[str, Any], number: int | None) -> None:
        self.operation = operation
        self.options = options
        self.number = number

    def __call__(self, x: Any) -> Any:
        if type(x) in arrays.RAW_CLASSES:
            result = self.operation.forward(x, **self.options)
        else:  # a value on a device
            result = self.operation(x, **self.options)
        return result if self.number is None else result[self.number]

    def __repr__(self) -> str:
        named = "".join(f", {name}={value!r}" for name, value in self.options.items())
        part = "" if self.number is None else f"[{self.number}]"
        return f"{self.operation.name}(_{named}){part}"


# ``put(base, value, views=steps)``: the base, with the value, broadcast and cast, written to the
# part that the steps lead to.
PUT = Kernel("put", arrays.programs.put_into, writes=(0,))
# ``in_layout_of(x, like)``: a copy of ``x`` with the memory layout of ``like``, used for gradients.
IN_LAYOUT = Kernel("in_layout_of", arrays.programs.in_layout_of)
# ``in_rows(x)``: a contiguous copy of ``x``, used for results of control flow.
IN_ROWS = Kernel("in_rows", arrays.programs.in_rows)


class Line:
    """``outputs = operation(*args, **options)``."""

    __slots__ = (
        "args", "backward", "effects", "inputs", "operation", "options", "outputs", "place",
        "several", "writes",
    )  # fmt: skip

    def __init__(
        self, outputs: tuple[Var, ...], operation: Any, args: tuple[Any, ...],
        options: dict[str, Any], several: bool, place: Place, backward: bool,
    ) -> None:  # fmt: skip
        self.outputs = outputs
        self.operation = operation
        self.several = several  # whether the operation returns a tuple
        self.place = place  # in the user's code
        self.backward = backward  # whether a backward pass called it
        # The positions of arguments that the operation overwrites.
        self.writes: tuple[int, ...] = operation.writes if isinstance(operation, Kernel) else ()
        # Whether it does more than compute its outputs, so that it must not be removed. An empty
        # tuple, such as that of ``x.unbind()``, is also an output.
        self.effects = bool(operation.random) or operation.batch == "random overwrite" or not (
            outputs or several
        )  # fmt: skip
        self.take(args, options)

    def take(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Use other arguments and options."""
        self.args = args
        self.options = options
        self.inputs: list[Var] = []  # the variables that the line uses, with repetitions
        for x in (*args, *options.values()) if options else args:
            if type(x) is Var:
                self.inputs.append(x)
            elif type(x) in (list, tuple, dict):
                self.inputs += variables(x)

    @property
    def source(self) -> str | None:
        """The user's line: ``file.py:12: y = x.exp()``."""
        return describe(self.place)

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return bool(self.operation.random) or self.operation.batch == "random overwrite"

    def replaced(self, new: Callable[[Var], Any]) -> None:
        """Replace the variables that the line uses by other values."""
        self.take(
            tuple([mapped(x, new) for x in self.args]),
            {name: mapped(x, new) for name, x in self.options.items()},
        )

    def rename(self, new: dict[Var, Var]) -> None:
        """Replace some variables by others."""
        if new and not new.keys().isdisjoint(self.inputs):
            self.replaced(lambda v: new.get(v, v))


class Program:
    """Lines of operations between inputs and outputs.

    ``updates`` are pairs of an input that is state and the output that is its new contents. A
    backend may write it into the memory of the input. ``gradients`` are pairs of an input and the
    output that is its gradient. ``folded`` maps variables that have become constants to their
    former roots.
    """

    __slots__ = ("folded", "gradients", "inputs", "lines", "name", "outputs", "updates")

    def __init__(
        self, name: str, inputs: Sequence[Var], lines: Sequence[Line], outputs: Sequence[Var],
        updates: Sequence[tuple[Var, Var]] = (), gradients: Sequence[tuple[Var, Var]] = (),
    ) -> None:  # fmt: skip
        self.updates = list(updates)
        self.gradients = list(gradients)
        self.folded: dict[Var, Var] = {}
        self.name = name
        self.inputs = list(inputs)
        self.lines = list(lines)
        self.outputs = list(outputs)

    def constants(self) -> list[Var]:
        """The constants that lines and outputs refer to, in order of their first use."""
        constants: dict[Var, None] = {}
        for line in self.lines:
            constants.update((v, None) for v in line.inputs if v.constant is not None)
        constants.update((v, None) for v in self.outputs if v.constant is not None)
        return list(constants)

    def run(self, *values: Any) -> tuple[Any, ...]:
        """Runs the program line by line and returns its outputs. This is the reference semantics:
        compiled code must return the same."""
        known: dict[Var, Any] = dict(zip(self.inputs, values, strict=True))

        def value(v: Var) -> Any:
            return known[v] if v.constant is None else v.constant

        for line in self.lines:
            args = [mapped(x, value) for x in line.args]
            for position in line.writes:
                args[position] = arrays.writable(arrays.copy(args[position]))
            options = {name: mapped(x, value) for name, x in line.options.items()}
            results = line.operation.forward(*args, **options)
            if not line.outputs:
                continue
            if line.writes:
                results = [*[args[position] for position in line.writes], *(results or ())]
            elif not line.several:
                results = [results]
            known.update(zip(line.outputs, results, strict=True))
        return tuple([value(v) for v in self.outputs])

    def __str__(self) -> str:
        from retrograd.compiler._printing import source

        return source(self)


def variables(x: Any) -> Iterator[Var]:
    """The variables in an argument, an option, or nested ones."""
    if isinstance(x, Var):
        yield x
    elif type(x) in (list, tuple):
        for part in x:
            yield from variables(part)
    elif type(x) is dict:
        for part in x.values():
            yield from variables(part)


def mapped(x: Any, new: Callable[[Var], Any]) -> Any:
    """An argument or an option with its variables replaced by other values."""
    if isinstance(x, Var):
        return new(x)
    if type(x) in (list, tuple):
        return type(x)([mapped(part, new) for part in x])
    return x
