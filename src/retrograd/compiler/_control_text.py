"""Control flow as text: ``if``, ``while`` and ``for`` statements of the function around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.compiler._buffers import Plan
from retrograd.compiler._code import dtype_text
from retrograd.compiler._control_lines import Branch, Control, Scan, While, is_used
from retrograd.compiler._printing import Text, indented
from retrograd.compiler._program import Line, Program, Var

programs = arrays.programs


def statement(text: Text, line: Line) -> list[str]:
    """The statements of a line, whose outputs already have names."""
    operation: Control = line.operation
    outputs = [text.variables[v] for v in line.outputs]
    args = [text.value(x) for x in line.args]
    if isinstance(operation, Branch):
        return _if(text, operation, args, outputs)
    if isinstance(operation, While):
        return _while(text, operation, args, outputs)
    assert isinstance(operation, Scan)
    return _for(text, line, operation, args, outputs)


class BlockText(Text):
    """The statements of a program inside another one, where its inputs have names."""

    def __init__(self, outer: Text, program: Program, inputs: Sequence[str]) -> None:
        self.program = program
        self.plan = Plan(program)
        self.names, self._called = outer.names, outer._called
        self.texts, self.plans = outer.texts, outer.plans
        self.plans[program] = self.plan
        self.variables = outer.variables.inner()
        self._place, self._backward = outer._place, outer._backward
        for v, name in zip(program.inputs, inputs, strict=True):
            self.variables.call(v, name)
        self.outer = outer

    def lines(self) -> list[str]:
        """All statements."""
        result = self.body()
        self.outer._place, self.outer._backward = self._place, self._backward
        return result

    def assigned(self, names: Sequence[str], outputs: Sequence[Var]) -> list[str]:
        """The statement that assigns all outputs to their names outside."""
        pairs = [(name, str(self.value(v))) for name, v in zip(names, outputs, strict=True)]
        pairs = [(name, value) for name, value in pairs if name != value]
        if not pairs:
            return []
        left, right = (", ".join(side) for side in zip(*pairs, strict=True))
        return [f"{left} = {right}"]


def _if(text: Text, operation: Branch, args: Sequence[Any], outputs: Sequence[str]) -> list[str]:
    pred, *rest = args
    blocks = []
    for program in operation.programs:
        block = BlockText(text, program, rest)
        for name, v in zip(outputs, program.outputs, strict=True):
            block.variables.wanted[v] = name
        blocks.append([*block.lines(), *block.assigned(outputs, program.outputs)])
    yes, no = blocks
    if not yes and not no:
        return []
    if not yes:
        return [f"if not {pred}:", *indented(no)]
    return [f"if {pred}:", *indented(yes), *(["else:", *indented(no)] if no else [])]


def _while(text: Text, operation: While, args: Sequence[Any], outputs: Sequence[str]) -> list[str]:
    condition, body = operation.programs
    rest = args[operation.carried :]
    copy = text.named("copy", programs.copy_to_write)
    begin = [f"{name} = {copy}({x})" for name, x in zip(outputs, args, strict=False)]
    first = BlockText(text, condition, [*outputs, *rest])
    test, answer = first.lines(), first.value(condition.outputs[0])
    block = BlockText(text, body, [*outputs, *rest])
    inside = [*block.lines(), *block.assigned(outputs, body.outputs)] or ["pass"]
    comments = [x for x in test if x.startswith("# ")]
    if len(test) == len(comments) + 1 and test[-1].startswith(f"{answer} = "):
        expression = test[-1].removeprefix(f"{answer} = ")
        return [*begin, *comments, f"while {expression}:", *indented(inside)]
    return [*begin, "while True:", *indented([*test, f"if not {answer}:", "    break", *inside])]


def _for(
    text: Text, line: Line, operation: Scan, args: Sequence[Any], outputs: Sequence[str]
) -> list[str]:
    (body,) = operation.programs
    start, end = operation.carried, operation.carried + operation.sliced
    carried, stacked = outputs[:start], outputs[start:]
    count = line.args[start].shape[0]
    statements = [f"{name} = {x}" for name, x in zip(carried, args, strict=False)]
    for name, v in zip(stacked, line.outputs[start:], strict=True):
        statements.append(f"{name} = np.empty({text.value(v.shape)}, {dtype_text(v.dtype)})")
    block = BlockText(text, body, [*carried, *[""] * operation.sliced, *args[end:]])
    number = block.variables.borrow("i")
    slices = [f"{x}[{number}]" for x in args[start:end]]
    before = []
    for v, x in zip(body.inputs[start:end], slices, strict=True):
        name = block.variables.give(v)
        if is_used(body, v):
            before.append(f"{name} = {x}")
    inside = block.lines()
    for name, v in zip(stacked, body.outputs[start:], strict=True):
        inside.append(f"{name}[{number}] = {block.value(v)}")
    inside += block.assigned(carried, body.outputs[:start])
    order = operation.order(count)
    numbers = f"reversed(range({count}))" if operation.reverse else f"range({len(order)})"
    return [*statements, f"for {number} in {numbers}:", *indented([*before, *inside])]
