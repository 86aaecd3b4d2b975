"""Converts programs to functions that XLA runs, compiled once for the shapes that were traced.

``_calling.py`` passes arrays to XLA and back. Arrays of the caller are never donated.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from retrograd import arrays
from retrograd.compiler import _printing
from retrograd.compiler._control_lines import Control
from retrograd.compiler._program import Line, Program, Var, mapped
from retrograd.compiler.xla._attention import remembered
from retrograd.compiler.xla._calling import Calling, in_order, strides_of
from retrograd.compiler.xla._elementwise import to_dtype
from retrograd.compiler.xla._memory import block_of, inverse, memory_order
from retrograd.compiler.xla._narrow import PRODUCTS, ROUNDING, Narrow
from retrograd.compiler.xla._rolling import LEAST_LINES, rolled
from retrograd.compiler.xla._stages import Stage, stages_of
from retrograd.compiler.xla._table import LOWERINGS, ON_HOST, doubts, lowered
from retrograd.compiler.xla._updates import UPDATE, Numbers, with_numbers
from retrograd.ops._operation import TABLE, Operation

np = arrays.programs.numpy
MANY_LINES = 1000  # XLA may take minutes to compile longer programs for the CPU
SMALL = 2048  # the bytes of a line's results below which fusion gains little
LARGE = 1024  # elements; larger constants are arguments, because XLA takes long to compile them


def function_of(program: Program) -> tuple[Callable[..., Any], set[Var]]:
    """The program as a function of arrays, which returns a tuple of arrays; and the set of inputs
    whose memory it writes."""
    explain_host_lines(program)
    program = with_numbers(program)
    executable = Executable(program, stages_of(program, runs_on_host))
    return executable.in_lines(range(len(program.inputs))), executable.written


def runs_on_host(line: Line) -> bool:
    """Whether NumPy runs a line, because its operation is not in the table or has no lowering."""
    operation = line.operation
    if operation.name not in LOWERINGS:
        return True
    if isinstance(operation, Control):
        return any(runs_on_host(x) for program in operation.programs for x in program.lines)
    listed = TABLE.get(operation.name) is operation or operation.name == "redistribute"
    return isinstance(operation, Operation) and not listed


def explain_host_lines(program: Program) -> None:
    """Warn about operations of the program that have no lowering."""
    for line in program.lines:
        operation = line.operation
        if isinstance(operation, Control):
            for inner in operation.programs:
                explain_host_lines(inner)
        if line.effects or not isinstance(operation, Operation) or not runs_on_host(line):
            continue
        reason = ON_HOST.get(operation.name, "it has no lowering")
        warnings.warn(
            f"compile(backend=\"xla\"): {operation.name}() is computed by NumPy, between two parts "
            f"of the program that XLA computes: {reason}.", UserWarning, stacklevel=7,
        )  # fmt: skip


class Executable:
    """A function of arrays that runs the stages of a program in order."""

    def __init__(self, program: Program, stages: Sequence[Stage]) -> None:
        number = {v: i for i, v in enumerate(program.inputs)}
        self.written: set[Var] = set()
        self.steps: list[tuple[Callable[..., Any], list[int], list[int]]] = []
        for stage in stages:
            part = stage.program
            for v in part.outputs:
                number[v] = len(number)
            inputs = [number[v] for v in part.inputs]
            outputs = [number[v] for v in part.outputs]
            if stage.on_host:
                function, written = _printing.function_of(part)
                function = self.on_host(function)
                self.written |= written
            else:
                function = self.compiled(part)
                if any(line.operation.name == UPDATE for line in part.lines):
                    function = Variants(self.compiled, part)
            self.steps.append((function, inputs, outputs))
        self.room = len(number) - len(program.inputs)
        self.outputs = [None if v.constant is not None else number[v] for v in program.outputs]
        self.constants = [v.constant for v in program.outputs]

    def compiled(self, part: Program) -> Compiled:
        """The function of a stage that XLA runs."""
        return Compiled(part)

    def on_host(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function of a stage that NumPy runs."""
        return function

    def in_lines(self, inputs: Sequence[int]) -> Callable[..., Any]:
        """This function as straight-line code. Its parameters are the values with the given
        numbers, the inputs of the program first."""
        names: dict[str, Any] = {}
        lines = []
        for k, (function, taken, outputs) in enumerate(self.steps):
            names[f"f{k}"] = function
            target = "".join([f"v{i}, " for i in outputs]) or "_"
            call = f"f{k}.call" if type(function) is Compiled else f"f{k}"
            lines.append(f"{target} = {call}({', '.join([f'v{i}' for i in taken])})")
        results = []
        for k, (i, constant) in enumerate(zip(self.outputs, self.constants, strict=True)):
            names[f"c{k}"] = constant
            results.append(f"c{k}, " if i is None else f"v{i}, ")
        body = "\n    ".join([*lines, f"return ({''.join(results)})"])
        exec(f"def run({', '.join([f'v{i}' for i in inputs])}):\n    {body}\n", names)
        run: Callable[..., Any] = names["run"]
        return run


class Compiled:
    """A program without effects as one function, which XLA compiles at the first call."""

    lays_out = True  # whether results have the memory layout of the program's outputs

    def __init__(self, program: Program) -> None:
        self.program = program
        self.orders = [memory_order(v) for v in program.inputs]
        self.constants = [v for v in program.constants() if v.nbytes > LARGE * v.dtype.itemsize]
        self.held: list[Any] = []  # these constants as XLA arrays
        self.outputs: list[Output] = []
        self.leading: list[Var] = []  # the first results of the XLA function
        self.in_doubt = False  # whether the last result says if the results are valid
        self.call: Callable[..., Any] = self.first_call
        self.without_lowering = False
        self.chosen: dict[Numbers, int] = {}  # the signatures of updates that it is compiled for

    def compile(self) -> Callable[..., Any]:
        """The program as a function of NumPy arrays."""
        self.held = [jax.device_put(v.constant) for v in self.constants]
        calling = Calling(self, jax.default_backend() == "cpu")
        return calling.caller(calling.compiled(self.options()))

    def jitted(self, shapes: Sequence[Any], donated: tuple[int, ...] = ()) -> Callable[..., Any]:
        """The program as a JAX function of JAX arrays. It is traced now, so that errors are raised
        here."""
        function = jax.jit(
            self.traceable(), keep_unused=True, donate_argnums=donated,
            compiler_options=self.options(),
        )  # fmt: skip
        function.lower(*shapes)
        result: Callable[..., Any] = function
        return result

    def traceable(self) -> Callable[..., Any]:
        """The function that JAX traces: a new one, because JAX caches traces by function."""
        return lambda *x: self.trace(*x)

    def options(self) -> dict[str, Any] | None:
        """Options of XLA's compiler. Fusion is disabled for long chains of operations on small
        arrays, such as a loop over a hundred steps. Each fused kernel would repeat much of the
        chain before it, so the time to compile would grow with the square of the length, and there
        is little to gain."""
        lines = self.rolled.lines
        if len(lines) < MANY_LINES or jax.default_backend() != "cpu":
            return None
        moved = sum([v.nbytes for line in lines for v in line.outputs])
        return {"xla_disable_hlo_passes": "fusion"} if moved < SMALL * len(lines) else None

    @functools.cached_property
    def rolled(self) -> Program:
        """The program that is lowered to XLA. For the CPU, repeated lines are replaced by loops.
        For a GPU they are not, because each step of a loop waits for the previous one, and
        independent lines could run concurrently."""
        if len(self.program.lines) < LEAST_LINES or jax.default_backend() != "cpu":
            return self.program
        return rolled(self.program, (*self.program.outputs, *self.leading))

    def trace(self, *values: Any) -> tuple[Any, ...]:
        """Run the program on JAX's tracers."""
        known, trusted = self.evaluated(values)
        return (*self.results(known, self.program.outputs), *trusted)

    def evaluated(self, values: Sequence[Any]) -> tuple[dict[Var, Any], list[Any]]:
        """The JAX values of all variables, and a list: empty, or with a bool that says whether all
        conditions stated by lowerings hold."""
        program = self.rolled
        for numbers, k in self.chosen.items():  # other variants of the program choose, too
            numbers.choose(k)
        known: dict[Var, Any] = {}
        for v, order, x in zip(program.inputs, self.orders, values, strict=False):
            known[v] = x if order is None else jnp.transpose(x, inverse(order))
        known.update(zip(self.constants, values[len(program.inputs) :], strict=False))
        doubts()
        narrow = Narrow(program, known)
        with remembered():
            for line in program.lines:
                run_line(line, known, narrow if narrow.any else None)
        conditions = doubts()
        self.in_doubt = bool(conditions)
        trusted = [jnp.stack([jnp.all(c) for c in conditions]).all()] if conditions else []
        return known, trusted

    def results(self, known: dict[Var, Any], outputs: Sequence[Var]) -> list[Any]:
        """The results of the XLA function for some outputs. ``self.outputs`` describes how outputs
        are obtained from them."""
        inputs = {id(known[v]): i for i, v in enumerate(self.program.inputs)}
        computed = {id(known[v]): known[v] for v in (*self.leading, *outputs)
                    if id(known[v]) not in inputs}  # fmt: skip
        positions = {key: i for i, key in enumerate(computed)}
        self.outputs = []
        used: set[int] = set()
        for v in outputs:
            key = id(known[v])
            if key in inputs:
                self.outputs.append(Output(inputs[key], True, True, v))
                continue
            self.outputs.append(Output(positions[key], False, key in used, v))
            used.add(key)
        results = list(computed.values())
        for output in self.outputs:
            if self.lays_out and not output.copied:
                results[output.position] = in_order(results[output.position], output.order)
        return results

    def explain(self, error: NotImplementedError) -> None:
        """Warn that NumPy runs the program, and why."""
        self.without_lowering = True
        warnings.warn(
            f"compile(backend=\"xla\"): {self.program.name}() is run by NumPy, because XLA does "
            f"not support {error}.", UserWarning, stacklevel=6,
        )  # fmt: skip

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        results: tuple[Any, ...] = self.call(*values)
        return results

    def first_call(self, *values: Any) -> tuple[Any, ...]:
        """Compile the program, and call it."""
        try:
            with jax.enable_x64(True):
                self.call = self.compile()
        except NotImplementedError as error:
            self.explain(error)
            self.call = self.program.run
        return self(*values)


class Variants:
    """A program that updates parameters, compiled separately for each signature of its numbers."""

    def __init__(self, compiled: Callable[[Program], Compiled], program: Program) -> None:
        self.compiled = compiled
        self.program = program
        number = {v: i for i, v in enumerate(program.inputs)}
        # The functions that compute numbers of optimizers, and the positions of these inputs.
        self.choosing: dict[Numbers, int] = {
            line.options["of"]: number[line.options["numbers"]]
            for line in program.lines if line.operation.name == UPDATE
        }  # fmt: skip
        self.variants: dict[tuple[int, ...], Compiled] = {}

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        chosen = tuple([int(values[i][0]) for i in self.choosing.values()])
        variant = self.variants.get(chosen)
        if variant is None:
            variant = self.variants[chosen] = self.compiled(self.program)
            variant.chosen = dict(zip(self.choosing, chosen, strict=True))
        return variant(*values)


class Output:
    """An output of a program: the position of an input, or of a result of XLA. If several outputs
    are the same result, all but the first are copied."""

    __slots__ = ("block", "copied", "dtype", "is_input", "order", "position", "shape", "strides")

    def __init__(self, position: int, is_input: bool, copied: bool, v: Var) -> None:
        self.position = position
        self.is_input = is_input
        self.copied = copied
        self.dtype = v.dtype
        self.shape = v.shape  # stored, because the attribute of a JAX array is slow
        self.block = block_of(v.nbytes)
        self.order = memory_order(v)
        self.strides = strides_of(v)

    def converted(self, array: Any) -> Any:
        """A copy of an XLA array as a NumPy array."""
        copy = np.array(array)
        return copy[()] if self.order is None else copy.transpose(inverse(self.order))

    def taken_over(self, array: Any) -> Any:
        """A NumPy array in the memory of an XLA array that nothing else refers to."""
        if 0 in self.shape or (self.copied and self.shape):
            return self.converted(array)
        block = self.block.from_address(array.unsafe_buffer_pointer())
        if not self.shape:  # faster than JAX's conversion
            return np.ndarray((), self.dtype, block)[()]
        block.array = array
        return np.ndarray(self.shape, self.dtype, block, 0, self.strides)


def run_line(line: Line, known: dict[Var, Any], narrow: Narrow | None = None) -> None:
    """Compute the outputs of a line, in their dtypes, or in bfloat16 if they are only used after
    rounding to it."""

    def value(v: Var) -> Any:
        if narrow is not None and line.operation.name in PRODUCTS:
            return narrow.operand(v)
        return known.get(v, v.constant)

    args = [_as_jax(mapped(x, value)) for x in line.args]
    if args and type(args[0]) in (bool, int, float, complex):
        args[0] = jnp.asarray(args[0])  # weakly typed: adopts the dtype of the other operand
    options = {name: mapped(x, value) for name, x in line.options.items()}
    if line.operation.name not in BIT_BY_BIT:
        args = [_widened(x) for x in args]
    rounds = [False] * len(line.outputs) if narrow is None else narrow.rounds(line)
    if rounds == [True] and line.operation.name in ROUNDING:
        options["rounded"] = True
    for v, y, rounded in zip(line.outputs, lowered(line, args, options), rounds, strict=True):
        y = jnp.asarray(y)
        if rounded:
            y = y.astype(jnp.bfloat16)
        elif y.dtype != v.dtype:
            y = to_dtype(y, v.dtype)
        assert y.shape == v.shape, f"{line.operation.name} gives {y.shape} and not {v.shape}"
        known[v] = y


# Operations whose half-precision operands must not be converted to float32.
BIT_BY_BIT = frozenset({
    "nextafter", "view_dtype", "nan_to_num", "put", "in_layout_of", "in_rows", "branch",
    "while_loop", "scan", UPDATE,
})  # fmt: skip


def _widened(x: Any) -> Any:
    """float16 as float32: NumPy computes in float32, and rounds only the results."""
    if type(x) in (list, tuple):
        return type(x)([_widened(part) for part in x])
    return x.astype("float32") if getattr(x, "dtype", None) == np.float16 else x


def _as_jax(x: Any) -> Any:
    if type(x) in (list, tuple):
        return type(x)([_as_jax(part) for part in x])
    return jnp.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x
