"""Compiled programs as items that can be drawn: a box for each statement."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from retrograd._source import line_number
from retrograd.viz._model import Graph, Item

if TYPE_CHECKING:
    from retrograd.compiler._printing import Text
    from retrograd.compiler._program import Line, Program, Var


def program_of(x: Any) -> Program | None:
    """The program of a compiled function, or a program itself; None for anything else."""
    compiler = sys.modules.get("retrograd.compiler._compiled")
    if compiler is None:  # nothing has been compiled
        return None
    x = vars(x).get("_compiled", x) if hasattr(x, "_orig_mod") else x  # of a module
    if isinstance(x, compiler.Compiled):
        program: Program = x.program
        return program
    return x if isinstance(x, compiler.Program) else None


def graph_of(program: Program, max_nodes: int) -> Graph:
    """The statements of a program, and which of them use results of which."""
    from retrograd.compiler._printing import Text

    maker = Maker(Text(program))
    maker.add_program(program, None)
    maker.mark_outputs()
    fold(maker, max_nodes)
    return maker.graph


class Maker:
    """Makes the items of a program, and of those inside of it."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.graph = Graph()
        self.sources: dict[Var, list[int]] = {}  # the items that a variable comes from
        self.top: list[tuple[Line, int]] = []  # statements of the program itself, and their items

    def add(self, kind: str, label: str, **what: Any) -> Item:
        item = Item(len(self.graph.items), kind, label, **what)
        self.graph.items.append(item)
        return item

    def add_program(self, program: Program, group: int | None) -> None:
        if group is None:
            for v in program.inputs:
                item = self.add("input", "input", name=v.name, shape=v.shape, dtype=v.dtype.name)
                self.sources[v] = [item.id]
        plan = self.text.plans[program]
        for line in plan.statements.lines:
            item = self.add_statement(line, plan.inputs[line], group)
            if group is None:
                self.top.append((line, item.id))

    def add_statement(self, line: Line, inputs: Iterable[Var], group: int | None) -> Item:
        statements = [x for x in self.text.texts[line] if not x.startswith("del ")]
        inner = programs_in(line)
        place = self.place(line)
        if inner:
            header = next((x for x in statements if x.endswith(":")), line.operation.name)
            item = self.add("group", header.rstrip(":"), group=group, place=place)
            used = [source for v in inputs for source in self.sources.get(v, ())]
            before = len(self.graph.edges)
            self.add_inner(line, item.id)
            item.count = sum(len(self.text.plans[p].statements.lines) for p in inner)
            lines = "line" if item.count == 1 else "lines"
            passed = "backward, " if line.backward else ""
            item.details = (f"{passed}{item.count} {lines} inside",)
            inside = {source for source, _ in self.graph.edges[before:]}
            self.graph.edges += [(s, item.id) for s in dict.fromkeys(used) if s not in inside]
            return item
        kind = "backward" if line.backward else "line"
        item = self.add(kind, "; ".join(statements), group=group, place=place)
        if len(line.outputs) == 1:
            item.shape, item.dtype = line.outputs[0].shape, line.outputs[0].dtype.name
        for source in dict.fromkeys(s for v in inputs for s in self.sources.get(v, ())):
            self.graph.edges.append((source, item.id))
        self.sources.update((v, [item.id]) for v in line.outputs)
        return item

    def add_inner(self, line: Line, group: int) -> None:
        """The statements of the programs that a line holds. What it gives comes from them."""
        operation = line.operation
        given = [x for x in line.args if operation.name != "branch" or x is not line.args[0]]
        results: dict[Var, list[int]] = {v: [] for v in line.outputs}
        for program in programs_in(line):
            for formal, x in zip(program.inputs, given, strict=False):
                self.sources[formal] = self.sources.get(x, [])
            self.add_program(program, group)
            if operation.name == "while_loop" and program is operation.programs[0]:
                continue
            for v, output in zip(line.outputs, program.outputs, strict=True):
                results[v] += self.sources.get(output, [])
        for v, items in results.items():
            inside = [i for i in items if self.graph.items[i].group == group]
            self.sources[v] = list(dict.fromkeys(inside)) or [group]

    def place(self, line: Line) -> tuple[int, int] | None:
        code, offset = line.place
        if code is None:
            return None
        return self.graph.files.place(code.co_filename, line_number(code, offset))

    def mark_outputs(self) -> None:
        """Mark what the program gives back, and what it writes over."""
        program = self.text.program
        state = {new: old for old, new in program.updates}
        for v in program.outputs:
            word = f"new value of {state[v].name}" if v in state else "output"
            for number in self.sources.get(v, ()):
                self.graph.roots.append(number)
                around: int | None = number
                while around is not None:  # the statement, and the groups that it is in
                    item = self.graph.items[around]
                    item.root = True
                    if word not in item.details:
                        item.details = (*item.details, word)
                    around = item.group


def programs_in(line: Line) -> list[Program]:
    """The programs that a line holds: of branches, of a body, of what is done block by block."""
    operation: Any = line.operation
    if hasattr(operation, "blocks"):
        return [operation.program]
    return list(getattr(operation, "programs", ()))


def fold(maker: Maker, max_nodes: int) -> None:
    """Put statements into groups if there are too many: those of one line of the user's, and these
    again in runs of equal length."""
    top = maker.top
    if len(top) <= max_nodes:
        return
    runs: list[list[int]] = []
    before = None
    for line, number in top:
        here = (maker.place(line), line.backward)
        if here != before:
            runs.append([])
        runs[-1].append(number)
        before = here
    while len(runs) > max_nodes:
        runs = [[*a, *b] for a, b in pairs(runs)]
    items = maker.graph.items
    for run in runs:
        if len(run) == 1:
            continue
        first = items[run[0]]
        group = maker.add("group", f"{len(run)} lines", place=first.place, count=len(run))
        group.root = any(items[number].root for number in run)
        if first.place is not None:
            group.name = maker.graph.files.text(first.place)
        if first.kind == "backward":
            group.details = ("backward",)
        for number in run:
            items[number].group = group.id


def pairs(runs: list[list[int]]) -> Iterator[tuple[list[int], list[int]]]:
    """Runs, two by two."""
    for i in range(0, len(runs), 2):
        yield runs[i], runs[i + 1] if i + 1 < len(runs) else []
