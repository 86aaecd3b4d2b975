"""A program as Python: the text that people read, and that runs."""

from __future__ import annotations

import builtins
import keyword
import linecache
import math
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd._source import line_number
from retrograd.compiler._buffers import Plan
from retrograd.compiler._forms import FORMS
from retrograd.compiler._program import Line, Program, Var
from retrograd.ops._operation import Operation

programs = arrays.programs

OPERATORS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}",
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}",
    "ge": "{} >= {}",
}  # fmt: skip


def source(program: Program) -> str:
    """The text of a program."""
    return Text(program).text.rstrip("\n")


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
    """The text of a program, and the objects that names in it stand for."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.plan = Plan(program)
        self.renamed: dict[Var, str] = {}  # what is written in place keeps its name
        self.names: dict[str, Any] = {"np": programs.numpy}
        self.taken = {v.name for v in program.inputs}
        self.taken |= {v.name for line in program.lines for v in line.outputs}
        self._called: dict[Any, str] = {}
        self._place: Any = None
        self._backward = False
        body: list[str] = []
        for line in program.lines:
            body += self.comments(line)
            body.append(self.line(line))
            if freed := self.plan.freed[line]:
                body.append(f"del {', '.join(map(self.value, freed))}")
        outputs = ", ".join(map(self.value, program.outputs))
        single = "," if len(program.outputs) == 1 else ""
        body.append(f"return {outputs}{single}" if outputs else "return ()")
        inputs = ", ".join(v.name for v in program.inputs)
        lines = "".join(f"    {line}\n" for line in body)
        self.text = f"def {program.name}({inputs}):\n{lines}"

    # -- comments ----------------------------------------------------------------------------

    def comments(self, line: Line) -> list[str]:
        found = []
        if line.backward != self._backward:
            self._backward, self._place = line.backward, None
            found.append("# -- backward --" if line.backward else "# -- after backward --")
        code, offset = line.place
        if code is not None:
            number = line_number(code, offset)
            place = (code.co_filename, number)
            if place != self._place:
                self._place = place
                text = linecache.getline(*place).strip()
                if text:
                    found.append(f"# {text}")
        return found

    # -- lines -------------------------------------------------------------------------------

    def line(self, line: Line) -> str:
        if line in self.plan.in_place:
            return self.line_in_place(line)
        expression = self.expression(line)
        if not line.outputs:
            return expression
        if line.several and line.operation.name != "put":
            names = [v.name for v in line.outputs]
            return f"{', '.join(names)}{',' if len(names) == 1 else ''} = {expression}"
        return f"{line.outputs[0].name} = {expression}"

    def line_in_place(self, line: Line) -> str:
        """A kernel that overwrites arguments in their memory, after copying those that are still
        needed."""
        operation, positions = line.operation, self.plan.in_place[line]
        args = [self.value(x) for x in line.args]
        before = ""
        for k, position in enumerate(line.writes):
            if position in positions:
                self.renamed[line.outputs[k]] = args[position]
            else:
                name = line.outputs[k].name
                before += (
                    f"{name} = {self.named('copy', programs.copy_to_write)}({args[position]}); "
                )
                args[position] = name
        named = [f"{name}={self.value(x)}" for name, x in line.options.items()]
        wanted = "put_into" if operation.name == "put" else operation.name
        call = f"{self.named(wanted, operation.forward)}({', '.join([*args, *named])})"
        made = [v.name for v in line.outputs[len(line.writes) :]]
        return before + (f"{', '.join(made)}, = {call}" if made else call)

    def expression(self, line: Line) -> str:
        operation = line.operation
        args = [self.value(x) for x in line.args]
        if line in self.plan.out:
            function = programs.name_of(programs.ufunc_of(operation.forward))
            return f"{function}({', '.join(args)}, out={self.value(self.plan.out[line])})"
        if operation.name in OPERATORS and not line.options and _is_operator(operation):
            return OPERATORS[operation.name].format(*[_operand(x) for x in args])
        form = FORMS.get(operation.name) if isinstance(operation, Operation) else None
        text = None if form is None else form(line, [_operand(x) for x in args])
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
        if isinstance(x, Var):
            return self.renamed.get(x, x.name) if x.constant is None else self.constant(x)
        kind = type(x)
        if kind is tuple:
            return f"({', '.join(map(self.value, x))}{',' if len(x) == 1 else ''})"
        if kind is list:
            return f"[{', '.join(map(self.value, x))}]"
        if x is None or x is Ellipsis or kind in (bool, int, str):
            return repr(x)
        if kind is float and math.isfinite(x):
            return repr(x)
        if kind is slice:
            return f"slice({self.value(x.start)}, {self.value(x.stop)}, {self.value(x.step)})"
        if isinstance(x, programs.numpy.dtype):
            return f"np.dtype({x.name!r})"
        return self.named(getattr(x, "__name__", None) or kind.__name__.lower(), x)

    def constant(self, var: Var) -> str:
        value = var.constant
        if not isinstance(value, arrays.ndarray) and programs.numpy.isfinite(value):
            return repr(value)
        return self.named(var.name, value)

    def named(self, wanted: str, x: Any) -> str:
        """A name for an object of the program: the same one for the same object."""
        key = x if isinstance(x, (_Shared, _Copying)) else id(x)
        if key in self._called:
            return self._called[key]
        wanted = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted) or "x"
        if not wanted[0].isalpha() or keyword.iskeyword(wanted) or hasattr(builtins, wanted):
            wanted = f"_{wanted}"
        name, number = wanted, 1
        while name in self.names or name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.names[name] = x
        self._called[key] = name
        return name


class _Shared:
    """A function of one array, done by several threads."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, x: Any) -> Any:
        return arrays.shared(self.function, x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shared) and other.function is self.function

    def __hash__(self) -> int:
        return hash(self.function)


class _Copying:
    """A kernel that overwrites arguments, as one that gives new values for them."""

    def __init__(self, function: Callable[..., Any], writes: tuple[int, ...]) -> None:
        self.function, self.writes = function, writes

    def __call__(self, *args: Any, **options: Any) -> Any:
        given = list(args)
        for position in self.writes:
            given[position] = arrays.writable(arrays.copy(given[position]))
        returned = self.function(*given, **options) or ()
        return (*[given[position] for position in self.writes], *returned)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Copying) and other.function is self.function

    def __hash__(self) -> int:
        return hash(self.function)


def _is_large(var: Var) -> bool:
    count = 1
    for size in var.shape:
        count *= size
    return count > arrays.LARGE


def _is_operator(operation: Any) -> bool:
    function = operation.forward
    module = getattr(function, "__module__", None)
    return module in ("_operator", "operator") or programs.name_of(function) is not None


def _operand(text: str) -> str:
    return f"({text})" if text.startswith("-") or (" " in text and not text.endswith(")")) else text
