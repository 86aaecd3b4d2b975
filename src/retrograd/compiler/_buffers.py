"""Memory of a running program: what is written in place, into which memory, and what is freed when.

Variables of a program do not change. But where nobody reads a variable any more its memory may be
written: by a kernel that overwrites its argument, or by a function of NumPy that takes ``out=``.
State that a program was given, such as a parameter, may be written only once nothing can fail any
more, so lines that do that come last.
"""

from __future__ import annotations

from retrograd import arrays
from retrograd.compiler._program import Line, Program, Var

# Bytes from which on it pays to name memory for a result, and to free it early: below, NumPy keeps
# freed memory at hand itself, and a keyword takes longer to read than that.
WORTHWHILE = 1 << 15


class Plan:
    """For the lines of a program: which arguments are overwritten in place, which memory a result
    is put in, and which variables are no longer needed afterwards."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.state = {old: new for old, new in program.updates if old.root is old}
        program.lines = self.with_updates_last()
        self.last = self.last_uses()
        self.made = {v for line in program.lines for v in line.outputs}
        self.kept = {v.root for v in program.outputs}
        self.in_place: dict[Line, tuple[int, ...]] = {}
        self.out: dict[Line, Var] = {}
        self.freed: dict[Line, list[Var]] = {}
        self.written: set[Var] = set()  # inputs whose memory is written
        for number, line in enumerate(program.lines):
            self.plan(number, line)

    def with_updates_last(self) -> list[Line]:
        """Lines that overwrite state, and whose results no other line needs, come last."""
        needed: set[Var] = set()
        first, last = [], []
        for line in reversed(self.program.lines):
            overwrites = any(self.is_update(line, k) for k in range(len(line.writes)))
            if overwrites and not any(v.root in needed for v in line.outputs):
                last.append(line)
            else:
                first.append(line)
                needed.update(v.root for v in line.inputs)
        self.tail = set(last)
        return [*first[::-1], *last[::-1]]

    def is_update(self, line: Line, k: int) -> bool:
        """Whether the ``k``-th argument that a line overwrites is state that ends as its result."""
        old = line.args[line.writes[k]]
        return isinstance(old, Var) and self.state.get(old) is line.outputs[k]

    def last_uses(self) -> dict[Var, int]:
        """The number of the line that is the last to use the memory of a variable."""
        found: dict[Var, int] = {}
        for number, line in enumerate(self.program.lines):
            for v in (*line.inputs, *line.outputs):
                found[v.root] = number
        return found

    def plan(self, number: int, line: Line) -> None:
        positions = []
        for k, position in enumerate(line.writes):
            old = line.args[position]
            if not isinstance(old, Var) or old.root is not old or old.constant is not None:
                continue
            free = self.last[old] == number and old not in self.kept
            single = sum(v.root is old for v in line.inputs) == 1
            if free and single and (
                old in self.made or (line in self.tail and self.is_update(line, k))
            ):  # fmt: skip
                positions.append(position)
                if old not in self.made:
                    self.written.add(old)
        if positions:
            self.in_place[line] = tuple(positions)
        if not line.writes and not line.several and line.outputs:
            self.plan_out(number, line)
        taken = {self.out[line]} if line in self.out else set()
        taken |= {line.args[p] for p in positions}
        self.freed[line] = [
            v
            for v in dict.fromkeys(line.inputs)
            if v in self.made and v.root is v and v not in self.kept and v not in taken
            and self.last[v] == number and v.nbytes >= WORTHWHILE
        ]  # fmt: skip

    def plan_out(self, number: int, line: Line) -> None:
        """Put the result of a function of NumPy where an operand was that is not needed again."""
        result = line.outputs[0]
        if result.nbytes < WORTHWHILE or result.root is not result or line.options:
            return
        if arrays.programs.ufunc_of(line.operation.forward) is None or line.operation.heavy:
            return
        for x in line.args:
            if (
                isinstance(x, Var) and x in self.made and x.root is x and x.constant is None
                and x not in self.kept and self.last[x] == number
                and (x.shape, x.dtype, x.strides) == (result.shape, result.dtype, result.strides)
            ):  # fmt: skip
                self.out[line] = x
                return
