"""Prints a program as Python code, which is also the code that runs."""

from __future__ import annotations

import base64
import builtins
import linecache
import math
from collections.abc import Callable, Iterable
from typing import Any

from retrograd import arrays
from retrograd.compiler._buffers import AUGMENTED, Plan
from retrograd.compiler._code import SIGN, Code, dtype_text, unary
from retrograd.compiler._code import binary as written
from retrograd.compiler._control_lines import Control
from retrograd.compiler._forms import FORMS
from retrograd.compiler._names import Names
from retrograd.compiler._program import Kernel, Line, Program, Var
from retrograd.compiler._statements import WORTHWHILE, line_number
from retrograd.compiler._tiles import TAKE_OUT, Tile
from retrograd.ops._operation import Operation

programs = arrays.programs

OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=",
}  # fmt: skip
NUMBERS = {"0.0": "zero", "1.0": "one", "2.0": "two", "0.5": "half", "inf": "infinity"}
MOST_ELEMENTS = 64  # of a constant that is written as a list


def source(program: Program) -> str:
    """The text of a program, after that of the constants that it uses."""
    text = Text(program)
    constants = [
        f"{name} = {array_text(x)}" if x.size <= MOST_ELEMENTS
        else f"# {name}: {x.dtype.name}{list(x.shape)}, a constant"
        for name, x in text.names.items()
        if isinstance(x, (arrays.ndarray, programs.numpy.generic))
    ]  # fmt: skip
    before = "".join(f"{line}\n" for line in constants) + "\n" if constants else ""
    return before + text.text.rstrip("\n")


def function_of(program: Program) -> tuple[Callable[..., Any], set[Var]]:
    """The program as a function of arrays that gives a tuple of arrays, and the inputs whose memory
    it writes."""
    text = Text(program)
    file = f"<program {program.name} {id(program):#x}>"
    names = dict(text.names)
    exec(compile(text.text, file, "exec"), names)
    linecache.cache[file] = (len(text.text), None, text.text.splitlines(keepends=True), file)
    function: Callable[..., Any] = names[program.name]
    return function, text.plan.written


class Text:
    """The text of a program, and the objects that its names refer to."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.plan = Plan(program)
        self.names: dict[str, Any] = {"np": programs.numpy}
        self.variables = Names([program.name])
        self._called: dict[Any, str] = {}
        self._place: Any = None
        self._backward = False
        # For pictures: the text of each statement, and the plans of programs inside of others.
        self.texts: dict[Line, list[str]] = {}
        self.plans = {program: self.plan}
        inputs = ", ".join([self.variables.give(v) for v in program.inputs])
        body = self.body()
        outputs = ", ".join([self.value(v) for v in program.outputs])
        single = "," if len(program.outputs) == 1 else ""
        body.append(f"return {outputs}{single}" if outputs else "return ()")
        self.text = "\n".join([f"def {program.name}({inputs}):", *indented(body)]) + "\n"

    def body(self) -> list[str]:
        results: list[str] = []
        for line in self.plan.statements.lines:
            results += self.comments(line)
            self.texts[line] = self.statement(line)
            results += self.texts[line]
        return results

    # -- comments ----------------------------------------------------------------------------

    def comments(self, line: Line) -> list[str]:
        results: list[str] = []
        if isinstance(line.operation, Tile):  # which has comments of its own
            return results
        if line.backward != self._backward:
            self._backward, self._place = line.backward, None
            results.append("# -- backward --" if line.backward else "# -- after backward --")
        code, offset = line.place
        if code is not None:
            number = line_number(code, offset)
            source_line = (code.co_filename, number)
            if source_line != self._place:
                self._place = source_line
                text = linecache.getline(*source_line).strip()
                if text:
                    results.append(f"# {text}")
        return results

    # -- statements --------------------------------------------------------------------------

    def statement(self, line: Line) -> list[str]:
        """The text of a line that is not nested in another. Names that are not needed afterwards
        become available again; large arrays are freed immediately."""
        freed = self.plan.freed[line]
        if isinstance(line.operation, Kernel):
            if isinstance(line.operation, Tile):
                return self.tile(line, freed)
            if isinstance(line.operation, Control):
                return self.control(line, freed)
            if line in self.plan.in_place:
                return self.in_place(line, freed)
        if line in self.plan.augmented:
            return self.augmented(line, freed)
        text = self.expression(line)
        now, memory = line.outputs, self.plan.out.get(line)
        large = []
        for v in freed:
            if v not in now:
                name = self.variables.free(v)
                if v.nbytes >= WORTHWHILE and v is not memory:
                    large.append(name)
        names = [self.variables.give(v) for v in now]
        for v in freed:
            if v in now:
                self.variables.free(v)
        if line.several and line.operation.name != "put":
            text = f"{', '.join(names)}{',' if len(names) == 1 else ''} = {text}"
        elif names:
            text = f"{names[0]} = {text}"
        return [text, *self.deleted([name for name in large if name not in names])]

    def deleted(self, large: list[str]) -> list[str]:
        """The statement that frees large arrays before their names are used again."""
        return [f"del {', '.join(large)}"] if large else []

    def freed(self, variables: Iterable[Var]) -> list[str]:
        """Make names of variables available again, and return the statement that frees large
        arrays."""
        names = [(self.variables.free(v), v.nbytes) for v in variables]
        return self.deleted([name for name, nbytes in names if nbytes >= WORTHWHILE])

    def augmented(self, line: Line, freed: list[Var]) -> list[str]:
        """``t += x``, where the memory of ``t`` is not needed any more."""
        position, result = self.plan.augmented[line], line.outputs[0]
        x, other = line.args[position], line.args[1 - position]
        text = f"{self.value(x)} {AUGMENTED[line.operation.name]} {self.operand(other, x)}"
        self.variables.hand_on(x, result)
        return [text, *self.freed(v for v in freed if v is not x)]

    def in_place(self, line: Line, freed: list[Var]) -> list[str]:
        """A kernel that overwrites some arguments. Those that are still needed are copied first."""
        operation, positions = line.operation, self.plan.in_place[line]
        args = [self.value(x) for x in line.args]
        before = ""
        for k, position in enumerate(line.writes):
            if position in positions:
                continue
            name = self.variables.give(line.outputs[k])
            before += f"{name} = {self.named('copy', programs.copy_to_write)}({args[position]}); "
            args[position] = name
        named = [f"{name}={self.value(x)}" for name, x in line.options.items()]
        wanted = "put_into" if operation.name == "put" else operation.name
        call = f"{self.named(wanted, operation.forward)}({', '.join([*args, *named])})"
        for k, position in enumerate(line.writes):
            if position in positions:
                self.variables.hand_on(line.args[position], line.outputs[k])
        written = {line.args[position] for position in positions}
        names = [self.variables.give(v) for v in line.outputs[len(line.writes) :]]
        text = before + (f"{', '.join(names)}, = {call}" if names else call)
        return [text, *self.freed(v for v in freed if v not in written)]

    def tile(self, line: Line, freed: list[Var]) -> list[str]:
        """Lines that run block by block: a function of blocks, and a call that applies it to all
        blocks."""
        tile = line.operation
        outputs = [self.variables.give(v) for v in line.outputs]
        arguments = [self.value(v) for v in tile.blocks]
        inner = TileText(self, tile)
        function = self.variables.reserve("tile")
        shape = self.value(tile.shape)
        calls = ", ".join([function, shape, *arguments, *outputs])
        text = [
            f"{name} = np.empty({self.value(v.shape)}, {dtype_text(v.dtype)})"
            for name, v in zip(outputs, line.outputs, strict=True)
        ]
        text += [f"def {function}({inner.parameters}):", *indented(inner.lines)]
        text.append(f"{self.named('by_blocks', arrays.blocks.by_blocks)}({calls})")
        return [*text, *self.freed(freed)]

    def control(self, line: Line, freed: list[Var]) -> list[str]:
        """An ``if``, a ``while`` or a ``for``."""
        from retrograd.compiler import _control_text

        for v in line.outputs:
            self.variables.give(v)
        text = _control_text.statement(self, line)
        return [*text, *self.freed(freed)]

    # -- expressions -------------------------------------------------------------------------

    def expression(self, line: Line) -> str:
        operation = line.operation
        name = operation.name
        if line in self.plan.out:
            args = [self.operand(x, self.plan.out[line]) for x in line.args]
            function = programs.name_of(programs.ufunc_of(operation.forward))
            return f"{function}({', '.join(args)}, out={self.value(self.plan.out[line])})"
        if not line.options and _is_operator(operation):
            if name in OPERATORS and len(line.args) == 2:
                x, y = line.args
                return written(OPERATORS[name], self.operand(x, y), self.operand(y, x))
            if name == "neg":
                return unary("-", self.value(line.args[0]))
        args = [self.value(x) for x in line.args]
        form = FORMS.get(name) if isinstance(operation, Operation) else None
        text = None if form is None else form(line, args, self.number)
        if text is not None:
            return text
        named = [f"{name}={self.value(x)}" for name, x in line.options.items()]
        return f"{self.called(line)}({', '.join([*args, *named])})"

    def called(self, line: Line) -> str:
        """The name of the function that a line calls."""
        operation, function = line.operation, line.operation.forward
        if line.writes:
            if operation.name == "put":
                return self.named("put", programs.put)
            return self.named(operation.name, _Copying(function, line.writes))
        if operation.heavy and isinstance(line.args[0], Var) and _is_large(line.args[0]):
            return self.named(f"{operation.name}_by_threads", _Shared(function))
        return programs.name_of(function) or self.named(operation.name, function)

    # -- values ------------------------------------------------------------------------------

    def value(self, x: Any) -> str:
        if type(x) is Var:
            return self.variable(x)
        kind = type(x)
        if kind is tuple:
            return f"({', '.join(map(self.value, x))}{',' if len(x) == 1 else ''})"
        if kind is list:
            return f"[{', '.join(map(self.value, x))}]"
        if x is None or x is Ellipsis or kind in (bool, int, str):
            return _literal(x)
        if kind is float and math.isfinite(x):
            return _literal(x)
        if kind is slice:
            return f"slice({self.value(x.start)}, {self.value(x.stop)}, {self.value(x.step)})"
        if isinstance(x, programs.numpy.dtype):
            return f"np.dtype({x.name!r})"
        return self.named(getattr(x, "__name__", None) or kind.__name__.lower(), x)

    def variable(self, var: Var) -> str:
        if var.constant is not None:
            value = var.constant
            number = not isinstance(value, arrays.ndarray) and value.dtype.kind != "V"
            if number and programs.numpy.isfinite(value):
                return repr(value)
            return self.named(var.name, value)
        inner = self.plan.statements.nested.get(var)
        return self.variables[var] if inner is None else self.expression(inner)

    def operand(self, x: Any, other: Any) -> str:
        """An operand of arithmetic. A number combined with an array is written as a constant of the
        array's dtype, which takes NumPy half the time of a Python number."""
        kind = type(x)
        if kind is Var and x.constant is None:
            return self.variable(x)
        if isinstance(other, Var) and other.shape and other.dtype.kind == "f":
            if kind in (int, float):
                number = programs.as_number(x, other.dtype)
                if number is not None:
                    return self.number(number, other.dtype)
            elif _is_constant_number(x) and x.dtype == other.dtype:
                return self.number(x.constant, x.dtype)
        return self.value(x)

    def number(self, x: Any, dtype: Any) -> str:
        """The name of a number as an array without dimensions."""
        key = ("number", repr(float(x)), dtype)
        if key not in self._called:
            name = NUMBERS.get(repr(float(x)), "c")
            self._called[key] = self.named(name, programs.number(x, dtype))
        return self._called[key]

    def named(self, wanted: str, x: Any) -> str:
        """The name of an object that the program uses."""
        key = x if isinstance(x, (_Shared, _Copying)) else id(x)
        if key in self._called:
            return self._called[key]
        wanted = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted) or "x"
        if not wanted[0].isalpha() or hasattr(builtins, wanted):
            wanted = f"_{wanted}"
        name = self.variables.reserve(wanted)
        self.names[name] = x
        self._called[key] = name
        return name


class TileText(Text):
    """The body of a function that runs lines on blocks of arrays, and writes its results to blocks
    of other arrays."""

    def __init__(self, outer: Text, tile: Tile) -> None:
        self.program = tile.program
        self.plan = Plan(tile.program, in_blocks=True)
        self.names, self._called = outer.names, outer._called
        self.texts, self.plans = outer.texts, outer.plans
        self.plans[tile.program] = self.plan
        self.variables = outer.variables.inner()
        self._place, self._backward = outer._place, outer._backward
        outputs = tile.program.outputs
        for v in (*tile.program.inputs, *outputs):
            if v.constant is None:
                self.variables.call(v, outer.variables[v])
        self.results = set(outputs)
        self.constants = {v: self.variables.give(v) for v in tile.blocks if v.constant is not None}
        names = [self.constants.get(v) or self.variables[v] for v in tile.blocks]
        self.parameters = ", ".join([*names, *[self.variables[v] for v in outputs]])
        self.lines = self.body()
        outer._place, outer._backward = self._place, self._backward

    def statement(self, line: Line) -> list[str]:
        result = line.outputs[0]
        if result not in self.results:
            return super().statement(line)
        name = self.variables[result]
        function = programs.name_of(programs.ufunc_of(line.operation.forward))
        if line.operation.name == "sigmoid":
            function = self.named("sigmoid_into", arrays.sigmoid_into)
            text = f"{function}({self.value(line.args[0])}, {name})"
        elif line.operation.name in TAKE_OUT:
            args = [self.value(x) for x in line.args]
            text = f"{self.called(line)}({', '.join(args)}, out={name})"
        elif function is None or line.options:
            text = f"{name}[...] = {self.expression(line)}"
        else:
            args = [self.operand(x, result) for x in line.args]
            text = f"{function}({', '.join(args)}, out={name})"
        return [text, *self.freed(self.plan.freed[line])]

    def deleted(self, large: list[str]) -> list[str]:
        return []  # blocks are small

    def called(self, line: Line) -> str:
        function = line.operation.forward
        return programs.name_of(function) or self.named(line.operation.name, function)

    def variable(self, var: Var) -> str:
        return self.constants[var] if var in self.constants else super().variable(var)


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class _Shared:
    """A function of one array, run by several threads."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, x: Any) -> Any:
        return arrays.shared(self.function, x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shared) and other.function is self.function

    def __hash__(self) -> int:
        return hash(self.function)


class _Copying:
    """A kernel that overwrites arguments, as a function that returns new arrays instead."""

    def __init__(self, function: Callable[..., Any], writes: tuple[int, ...]) -> None:
        self.function, self.writes = function, writes

    def __call__(self, *args: Any, **options: Any) -> Any:
        copies = list(args)
        for position in self.writes:
            copies[position] = arrays.writable(arrays.copy(copies[position]))
        returned = self.function(*copies, **options) or ()
        return (*[copies[position] for position in self.writes], *returned)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Copying) and other.function is self.function

    def __hash__(self) -> int:
        return hash(self.function)


def array_text(x: Any) -> str:
    """An expression for a constant."""
    if not isinstance(x, arrays.ndarray):
        kind = f"{dtype_text(x.dtype)}.type" if x.dtype.kind == "V" else f"np.{x.dtype.name}"
        return f"{kind}({str(x)!r})"
    plain = x.size <= MOST_ELEMENTS and (
        x.dtype.kind in "biu" or (x.dtype.kind == "f" and all(map(math.isfinite, x.ravel())))
    )
    in_order = not x.flags.f_contiguous or x.flags.c_contiguous
    if plain and in_order and 0 not in x.shape:
        return f"np.array({x.tolist()}, {dtype_text(x.dtype)})"
    if x.ndim == 0:
        return f"np.array({str(x)!r}, {dtype_text(x.dtype)})"
    order: Any = "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"
    data = base64.b64encode(x.tobytes(order)).decode()
    return (
        f"np.frombuffer(__import__('base64').b64decode({data!r}), {dtype_text(x.dtype)})"
        f".reshape({x.shape}, order={order!r}).copy({order!r})"
    )


def _is_constant_number(x: Any) -> bool:
    return isinstance(x, Var) and x.constant is not None and not x.shape


def _literal(x: Any) -> str:
    text = repr(x)
    return Code(text, SIGN) if text.startswith("-") else text


def _is_large(var: Var) -> bool:
    count = 1
    for size in var.shape:
        count *= size
    return count > arrays.LARGE


def _is_operator(operation: Any) -> bool:
    result = _operators.get(operation)
    if result is None:
        function = operation.forward
        module = getattr(function, "__module__", None)
        result = module in ("_operator", "operator") or programs.name_of(function) is not None
        if isinstance(operation, Operation):
            _operators[operation] = result
    return result


_operators: dict[Operation, bool] = {}
