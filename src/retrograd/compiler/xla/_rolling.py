"""Loop rolling: detects repeated segments in a straight-line program.

A Python loop over time steps is traced as its steps, one after the other, and XLA would compile
each of them: minutes for a hundred steps of an LSTM and their gradients. ``rolled`` finds segments
of lines that repeat and replaces each run of them by one ``scan``, whose body is compiled once.

A segment repeats if its lines call the same operations with the same options on the same shapes
and dtypes, and if each operand of its lines is, in every repetition, one of these:

- an *invariant*: the same variable, from before the loop;
- a *local*: an output of a line of the same repetition;
- a *carried* value: an output of a line of the previous repetition. In the first repetition it is a
  variable from before the loop;
- a *slice*: a different variable from before the loop each time. All of them are stacked.

Variables that are used after the loop are the last carried values, or rows of stacked results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.compiler._control_lines import Scan
from retrograd.compiler._program import Line, Program, Var
from retrograd.ops._operation import TABLE

np = arrays.programs.numpy
LEAST_LINES = 200  # lines that a loop replaces; XLA compiles shorter programs in seconds
LEAST_COUNT = 16  # repetitions
# The largest size of the stacked inputs of one repetition, relative to the bytes that it computes.
# The layers of a network repeat, too, but stacking their weights takes longer than it saves.
MOST_STACKED = 0.25

# An output: the index of its line in a repetition, and its index among the outputs of the line.
Position = tuple[int, int]


class Slot(NamedTuple):
    """The role of an operand of a line in a segment."""

    kind: str  # "invariant", "local", "carried" or "slice"
    key: Any  # two slots with the same kind and key always have the same value


class Loop(NamedTuple):
    """A loop: lines ``start`` to ``start + period * times``, and the slots of the lines of one
    repetition."""

    start: int
    period: int
    times: int
    slots: list[list[Slot]]

    @property
    def end(self) -> int:
        return self.start + self.period * self.times


def rolled(program: Program, outputs: Sequence[Var]) -> Program:
    """The program with loops in place of repeated segments. ``outputs`` are the variables that it
    must define."""
    if any(v.dtype.kind == "V" for line in program.lines for v in line.outputs):
        return program  # rounding to bfloat16 depends on the whole program
    lines = reordered(program.lines)
    loops = list(Finder(lines).loops())
    if not loops:
        return program
    writer = Writer(lines, outputs)
    at = 0
    for loop in loops:
        writer.copy(lines[at : loop.start])
        writer.write(loop)
        at = loop.end
    writer.copy(lines[at:])
    writer.define(outputs)
    return Program(program.name, program.inputs, writer.lines, program.outputs, program.updates,
                   program.gradients)  # fmt: skip


def reordered(lines: Sequence[Line]) -> list[Line]:
    """The lines, with those moved whose options depend on the number of a step. ``x[t]`` is
    computed as soon as ``x`` is known. The gradient of ``x[t]``, which is zero except at step
    ``t``, and what depends on it, are computed last."""
    late: set[Var] = set()
    outputs: set[Var] = set()
    rest: list[Line] = []
    last: list[Line] = []
    parts: dict[Var, list[Line]] = {}
    for line in lines:
        outputs.update(line.outputs)
        if line.operation.name == "put_zeros" or not late.isdisjoint(line.inputs):
            late.update(line.outputs)
            last.append(line)
        elif line.operation.name in ("select", "slice"):
            parts.setdefault(line.inputs[0], []).append(line)
        else:
            rest.append(line)
    results: list[Line] = []
    postponed = [part for v in parts if v not in outputs for part in parts[v]]
    for line in (*postponed, *rest):
        waiting = [line]
        while waiting:
            results.append(waiting.pop())
            for v in reversed(results[-1].outputs):
                waiting += reversed(parts.get(v, ()))
    return [*results, *last]


# -- finding loops ---------------------------------------------------------------------------


class Finder:
    """Finds the loops of a program."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        numbers: dict[Any, int] = {}
        self.codes = [numbers.setdefault(signature(x), len(numbers)) for x in lines]
        self.made = {v: (i, k) for i, x in enumerate(lines) for k, v in enumerate(x.outputs)}

    def loops(self) -> Iterator[Loop]:
        at = 0
        while at < len(self.lines):
            loop = self.loop_at(at)
            if loop is not None:
                yield loop
            at = at + 1 if loop is None else loop.end

    def loop_at(self, start: int) -> Loop | None:
        """The loop with the shortest segment that starts at a line."""
        codes, left = self.codes, len(self.codes) - start
        for period in range(1, left // LEAST_COUNT + 1):
            far = start + period * (LEAST_COUNT - 1)
            if codes[start] != codes[start + period] or codes[start] != codes[far]:
                continue
            same = 0
            while same + period < left and codes[start + same] == codes[start + same + period]:
                same += 1
            count = same // period + 1
            if is_long(period, count):
                loop = self.checked(start, period, count)
                if loop is not None:
                    return loop
        return None

    def checked(self, start: int, period: int, count: int) -> Loop | None:
        """The loop, if operands have the same roles in enough repetitions."""
        slots = []
        for j in range(start, start + period):
            columns = zip(*[self.lines[j + k * period].inputs for k in range(count)], strict=True)
            row = []
            for column in columns:
                slot, holds = self.slot(column, start, period)
                if not is_long(period, holds):
                    return None
                count = min(count, holds)
                row.append(slot)
            slots.append(row)
        # Slices were recorded for more repetitions if the count was reduced later.
        slots = [[x._replace(key=x.key[:count]) if x.kind == "slice" else x for x in row]
                 for row in slots]  # fmt: skip
        stacked_variables = {x.key[1] for row in slots for x in row if x.kind == "slice"}
        stacked = sum([v.nbytes for v in stacked_variables if v.root not in self.made])
        computed = sum([v.nbytes for x in self.lines[start : start + period] for v in x.outputs])
        if stacked > MOST_STACKED * computed:
            return None
        return Loop(start, period, count, slots)

    def slot(self, column: Sequence[Var], start: int, period: int) -> tuple[Any, int]:
        """The role of one operand of a segment, and for how many repetitions it is the same."""
        sources = [self.made.get(v, (-1, 0)) for v in column]
        first, (line, which) = column[0], sources[1]
        line -= start
        if line < 0:
            if all(v is first for v in column):
                return Slot("invariant", first), len(column)
            holds = next((k for k, (i, _) in enumerate(sources) if i >= start), len(column))
            different = len(set(column[:holds])) == holds
            return Slot("slice", tuple(column)), holds if different else 0
        kind, ago = ("local", 0) if line >= period else ("carried", 1)
        source = line % period, which
        for k, output in enumerate(sources):
            if k < ago:
                if output[0] >= start:
                    return None, 0
            elif output != (start + (k - ago) * period + source[0], which):
                return Slot(kind, (source, first) if ago else source), k
        return Slot(kind, (source, first) if ago else source), len(column)


def is_long(period: int, count: int) -> bool:
    return count >= LEAST_COUNT and count * period >= LEAST_LINES


def signature(line: Line) -> Any:
    """A key that is equal for lines with the same operation and options, and with operands of the
    same shapes and dtypes."""
    return (
        line.operation, line.several, _frozen(line.args), _frozen(tuple(line.options.items())),
        _frozen(line.outputs),
    )  # fmt: skip


def _frozen(x: Any) -> Any:
    kind = type(x)
    if kind is Var:
        return Var, x.shape, x.dtype
    if kind in (list, tuple):
        return kind, *[_frozen(part) for part in x]
    if kind in (bool, int, str, type(None)):
        return kind, x
    if kind in (float, complex):
        return kind, repr(x)  # 0.0 and -0.0 are different numbers
    return kind, x if kind is np.dtype else id(x)


# -- writing loops ---------------------------------------------------------------------------


class Stack:
    """A variable whose rows are variables of the program. The line that computes it is written when
    it is first used."""

    __slots__ = ("args", "count", "operation", "options", "var")

    def __init__(self, row: Var, count: int, name: str = "", source: Any = None, **options: Any):
        self.var = Var("rows", np.empty((count, *row.shape), row.dtype))
        self.count = count
        self.operation = TABLE[name] if name else None  # None once the line is written
        self.args = (source,)
        self.options = options


class Writer:
    """Writes the lines of a program with loops."""

    def __init__(self, lines: list[Line], outputs: Sequence[Var]) -> None:
        self.source = lines
        self.lines: list[Line] = []
        self.rows: dict[Var, tuple[Stack, int]] = {}
        self.selected: dict[tuple[Var, int], Stack] = {}  # by variable and dimension
        self.last_use = {v: i for i, x in enumerate(lines) for v in x.inputs}
        self.last_use.update(dict.fromkeys(outputs, len(lines)))
        self.defined: set[Var] = set()  # the rows for which there are lines

    def copy(self, lines: Sequence[Line]) -> None:
        for line in lines:
            if line.operation.name in ("cat", "stack") and line.options["dim"] == 0:
                self.join(line.operation.name, line.args[0], line.outputs[0])
                continue
            self.define(line.inputs)
            self.lines.append(line)
            self.note_rows(line)

    def note_rows(self, line: Line) -> None:
        """Record the outputs of a line that divides a variable into rows."""
        name, options, outputs = line.operation.name, line.options, line.outputs
        if name in ("select", "unbind"):
            source, dim = line.inputs[0], options["dim"] % len(line.inputs[0].shape)
            order = (dim, *[d for d in range(len(source.shape)) if d != dim])
            if (source, dim) not in self.selected:
                stack = Stack(outputs[0], source.shape[dim], "permute", source, dims=order)
                self.selected[source, dim] = stack
            first = options["index"] % source.shape[dim] if name == "select" else 0
            self.note(outputs, self.selected[source, dim], first)
        elif name in ("split", "split_with_sizes") and options["dim"] == 0:
            if len({v.shape for v in outputs}) == 1:
                count = len(outputs)
                size = (count, *outputs[0].shape)
                self.note(outputs, Stack(outputs[0], count, "unsafe_view", line.args[0], size=size))
            self.defined.update(outputs)

    def note(self, outputs: Sequence[Var], stack: Stack, first: int = 0) -> None:
        for k, v in enumerate(outputs):
            self.rows.setdefault(v, (stack, first + k))
        self.defined.update(outputs)

    def define(self, variables: Sequence[Var]) -> None:
        """Write lines for those variables that so far exist only as rows of a stack."""
        for v in variables:
            if v in self.rows and v not in self.defined:
                stack, row = self.rows[v]
                self.call("select", (self.written(stack),), v, dim=0, index=row)
                self.defined.add(v)

    def call(self, name: str, args: tuple[Any, ...], result: Var, **options: Any) -> Var:
        place, backward = self.source[0].place, self.source[0].backward
        self.lines.append(Line((result,), TABLE[name], args, options, False, place, backward))
        return result

    def written(self, stack: Stack) -> Var:
        if stack.operation is not None:
            self.call(stack.operation.name, stack.args, stack.var, **stack.options)
            stack.operation = None
        return stack.var

    def run(self, variables: Sequence[Var]) -> int:
        """The number of leading variables that are consecutive rows of one stack."""
        stack, first = self.rows.get(variables[0], (None, 0))
        if stack is None:
            return 0
        count = 1
        while count < len(variables) and self.rows.get(variables[count]) == (stack, first + count):
            count += 1
        return count

    def part(self, variables: Sequence[Var]) -> Var:
        """Consecutive rows of a stack as one variable."""
        stack, first = self.rows[variables[0]]
        whole, count = self.written(stack), len(variables)
        if count == stack.count:
            return whole
        where = (slice(first, first + count),)
        return self.call("slice", (whole,), Stack(variables[0], count).var, where=where)

    def stacked(self, column: Sequence[Var]) -> Var:
        """One variable whose rows are the given variables."""
        if self.run(column) == len(column):
            return self.part(column)
        stack = Stack(column[0], len(column))
        self.join("stack", column, stack.var)
        for k, v in enumerate(column):  # the backward pass uses the same variables again
            if v not in self.rows:
                self.note([v], stack, k)
        return stack.var

    def join(self, name: str, variables: Sequence[Var], result: Var) -> None:
        """Concatenate variables along the first dimension or, for ``stack``, a new one. Consecutive
        rows of a stack are taken together."""
        rest = list(variables)
        runs: list[list[Var]] = []
        while rest:
            count = max(self.run(rest), 1)
            runs.append(rest[:count])
            rest = rest[count:]
        if len(runs) == len(variables):
            self.define(variables)
            self.call(name, (list(variables),), result, dim=0)
            return
        parts = [self.joined(name, run) for run in runs]
        self.call("cat", (parts,), result, dim=0)

    def joined(self, name: str, run: list[Var]) -> Var:
        """Consecutive rows, or a single variable, as one operand of the concatenation."""
        one = run[0]
        if len(run) > 1:
            part = self.part(run)
            size = (len(run) * one.shape[0], *one.shape[1:]) if name == "cat" else part.shape
        else:
            self.define(run)
            part, size = one, one.shape if name == "cat" else (1, *one.shape)
        if size == part.shape:
            return part
        return self.call("unsafe_view", (part,), Var("t", np.empty(size, part.dtype)), size=size)

    def descends(self, column: Sequence[Var]) -> bool:
        """Whether variables are rows in reverse order, as in a backward pass."""
        return self.run(column[1::-1]) == 2

    def write(self, loop: Loop) -> None:
        """Write a loop as one line."""
        body = Body(loop, self.source)
        columns = [x.key for x in body.slices]
        reverse = any(self.descends(column) for column in columns)
        first = [key[1] for _, key in body.carried]
        self.define(first)
        self.define([x.key for x in body.invariants])
        stacks = [self.stacked(column[::-1] if reverse else column) for column in columns]
        if not stacks:  # a scan needs a slice to determine the number of repetitions
            body.slices.append(Slot("slice", ()))
            stacks.append(counter(loop.times))
        kept = self.kept(loop, body)
        results = [Stack(self.output(loop, 0, position), loop.times) for position in kept]
        last = [self.output(loop, loop.times - 1, key[0]) for _, key in body.carried]
        scan = Scan(body.program(kept), len(first), len(stacks), reverse)
        args = (*first, *stacks, *[x.key for x in body.invariants])
        head = self.source[loop.start]
        outputs = (*[v if last.index(v) == i else Var(v.name, v) for i, v in enumerate(last)],
                   *[x.var for x in results])  # fmt: skip
        self.lines.append(Line(outputs, scan, args, {}, True, head.place, head.backward))
        self.defined.update(last)
        for position, stack in zip(kept, results, strict=True):
            for k in range(loop.times):
                row = loop.times - 1 - k if reverse else k
                self.rows[self.output(loop, k, position)] = stack, row

    def output(self, loop: Loop, repetition: int, position: Position) -> Var:
        line = self.source[loop.start + repetition * loop.period + position[0]]
        return line.outputs[position[1]]

    def kept(self, loop: Loop, body: Body) -> list[Position]:
        """The outputs that are used after the loop, other than the last carried values."""
        carried = {key[0] for _, key in body.carried}
        results = []
        for j, line in enumerate(self.source[loop.start : loop.start + loop.period]):
            for k in range(len(line.outputs)):
                count = loop.times - ((j, k) in carried)
                uses = [self.last_use.get(self.output(loop, i, (j, k)), 0) for i in range(count)]
                if max(uses) >= loop.end:
                    results.append((j, k))
        return results


class Body:
    """The program of one repetition."""

    def __init__(self, loop: Loop, lines: list[Line]) -> None:
        self.loop = loop
        self.source = lines[loop.start : loop.start + loop.period]
        slots = list(dict.fromkeys(x for row in loop.slots for x in row))
        self.carried = [x for x in slots if x.kind == "carried"]
        self.slices = [x for x in slots if x.kind == "slice"]
        self.invariants = [x for x in slots if x.kind == "invariant"]

    def program(self, kept: list[Position]) -> Program:
        """The program of the body: from carried values, slices and invariants to the next carried
        values and the stored outputs."""
        known: dict[Slot, Var] = {}
        for row, line in zip(self.loop.slots, self.source, strict=True):
            for slot, v in zip(row, line.inputs, strict=True):
                known.setdefault(slot, Var(v.name, v))
        for slot in self.slices:  # a counter is not used by any line
            known.setdefault(slot, Var("i", np.int64(0)))
        lines = []
        for j, (row, line) in enumerate(zip(self.loop.slots, self.source, strict=True)):
            outputs = [known.setdefault(Slot("local", (j, k)), Var(v.name, v))
                       for k, v in enumerate(line.outputs)]  # fmt: skip
            values = iter([known[slot] for slot in row])
            copy = Line(tuple(outputs), line.operation, line.args, line.options, line.several,
                        line.place, line.backward)  # fmt: skip
            copy.replaced(lambda v, values=values: next(values))  # type: ignore[misc]
            lines.append(copy)
        positions = [*[x.key[0] for x in self.carried], *kept]
        return Program(
            "step", [known[x] for x in (*self.carried, *self.slices, *self.invariants)], lines,
            [known[Slot("local", position)] for position in positions],
        )  # fmt: skip


def counter(count: int) -> Var:
    result = Var("steps", np.arange(count))
    result.constant = np.arange(count)
    return result
