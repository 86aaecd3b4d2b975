"""A program: the operations that a function ran when it was traced, in straight lines.

This is all that passes, printers and backends know of a function:

- ``Program.inputs``: variables that the caller gives values for;
- ``Program.lines``: calls of operations, in order. A variable is assigned once, before it is used;
- ``Program.outputs``: variables whose values the program gives back.

A line calls an entry of the operation table or a ``Kernel``, which is what the table has no entry
for: a fused derivative, a draw of random numbers, a write. Its arguments and options are variables,
Python values, and lists and tuples of these. Values are arrays or, with no dimensions, scalars;
they are never changed: what a program writes in place is a new variable, made by ``PUT`` or by a
kernel with ``writes``, and whoever runs the program may do it in the memory of the old one where
nobody reads that any more (``_buffers.py``).

A backend walks the lines and has an entry for each operation by ``line.operation.name``. Composites
have a ``definition``, and a program traced with ``whole=False`` has only those left that the
backend asked for by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from retrograd import arrays
from retrograd._source import Place, describe
from retrograd.ops._operation import Operation


class Var:
    """A value of a program: its name, its shape and dtype, and how it lies in memory.

    The name is the user's word for it, which several may have, or ``t`` and a number. ``root`` is
    the variable whose memory it shows, which is itself unless it is a view. A constant has its
    value in ``constant``; for all others that is None.
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
    """Whether a variable lies row by row in memory."""
    step = x.dtype.itemsize
    for size, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


class Kernel:
    """A function of arrays that a line calls and that is not an operation of the table.

    ``writes``: positions of arguments that the function overwrites. The line then gives a new
    variable for each of these, in this order, and after them one for each array that the function
    returns, in a tuple, if it returns any.
    """

    __slots__ = ("definition", "forward", "heavy", "name", "random", "view", "writes")

    batch = None  # as an operation of the table has it

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
        """As an operation of the table: the forward."""
        return self.forward(*args, **options)

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


class Step:
    """One view taken of the one before: the view operation, its options, and which of its outputs.
    Steps lead from a whole memory to the part of it that ``PUT`` writes."""

    __slots__ = ("number", "operation", "options")

    def __init__(self, operation: Operation, options: dict[str, Any], number: int | None) -> None:
        self.operation = operation
        self.options = options
        self.number = number

    def __call__(self, x: Any) -> Any:
        if type(x) in arrays.RAW_CLASSES:
            found = self.operation.forward(x, **self.options)
        else:  # a value on a device
            found = self.operation(x, **self.options)
        return found if self.number is None else found[self.number]

    def __repr__(self) -> str:
        named = "".join(f", {name}={value!r}" for name, value in self.options.items())
        part = "" if self.number is None else f"[{self.number}]"
        return f"{self.operation.name}(_{named}){part}"


# ``put(base, value, views=steps)``: the base, with the value written over the part that the steps
# lead to, broadcast and cast to it.
PUT = Kernel("put", arrays.programs.put_into, writes=(0,))
# ``in_layout_of(x, like)``: a copy of ``x`` that lies in memory as ``like`` does, as gradients do.
IN_LAYOUT = Kernel("in_layout_of", arrays.programs.in_layout_of)
# ``in_rows(x)``: a copy of ``x`` that lies row by row in memory, as results of control flow do.
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
        self.several = several  # whether the operation gives a tuple
        self.place = place  # in the user's code
        self.backward = backward  # whether a backward pass did it
        # The positions of arguments that the operation overwrites.
        self.writes: tuple[int, ...] = operation.writes if isinstance(operation, Kernel) else ()
        # Whether it does more than give its outputs, so that it may not be left out. An empty
        # tuple, as of ``x.unbind()``, is an output too.
        self.effects = bool(operation.random) or operation.batch == "random overwrite" or not (
            outputs or several
        )  # fmt: skip
        self.take(args, options)

    def take(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Use other arguments and options."""
        self.args = args
        self.options = options
        self.inputs: list[Var] = []  # the variables that the line uses, as often as it does
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
        """Put other values in place of the variables that the line uses."""
        self.take(
            tuple([mapped(x, new) for x in self.args]),
            {name: mapped(x, new) for name, x in self.options.items()},
        )

    def rename(self, new: dict[Var, Var]) -> None:
        """Use other variables in place of some."""
        if new and not new.keys().isdisjoint(self.inputs):
            self.replaced(lambda v: new.get(v, v))


class Program:
    """Lines of operations between inputs and outputs.

    ``updates`` says which inputs are state: what each is to hold afterwards, which is an output,
    too. Whoever runs the program may write it into the memory of the input. ``gradients`` says
    which outputs are gradients of which inputs. ``folded`` are the variables that have become
    constants, and the roots that they had.
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
        found: dict[Var, None] = {}
        for line in self.lines:
            found.update((v, None) for v in line.inputs if v.constant is not None)
        found.update((v, None) for v in self.outputs if v.constant is not None)
        return list(found)

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
            found = line.operation.forward(*args, **options)
            if not line.outputs:
                continue
            if line.writes:
                found = [*[args[position] for position in line.writes], *(found or ())]
            elif not line.several:
                found = [found]
            known.update(zip(line.outputs, found, strict=True))
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
    """An argument or an option with other values in place of its variables."""
    if isinstance(x, Var):
        return new(x)
    if type(x) in (list, tuple):
        return type(x)([mapped(part, new) for part in x])
    return x
