"""Memory planning: in-place writes, reuse of buffers, and when each is freed.

Variables of a program do not change. But the memory of a variable that is not read again may be
overwritten: by a kernel that overwrites its argument, by an operator such as ``+=``, or by a NumPy
function that takes ``out=``. Inputs that are state, such as parameters, must not be written before
everything that can fail is done, so lines that write to them come last.
"""

from __future__ import annotations

from retrograd import arrays
from retrograd.compiler._program import Line, Program, Var
from retrograd.compiler._statements import WORTHWHILE, Statements, is_temporary

AUGMENTED = {"add": "+=", "sub": "-=", "mul": "*=", "div": "/="}
_COMMUTATIVE = ("add", "mul")


class Plan:
    """For the statements of a program: which arguments are overwritten in place, which memory a
    result is put in, and which variables are no longer needed afterwards."""

    def __init__(self, program: Program, in_blocks: bool = False) -> None:
        self.program = program
        self.in_blocks = in_blocks  # of a tile, which several threads already work on
        self.state = {old: new for old, new in program.updates if old.root is old}
        program.lines = self.with_updates_last()
        self.statements = Statements(program, program.lines)
        self.inputs = self.statements.inputs
        self.computed = {v for line in program.lines for v in line.outputs}
        self.outputs = set(program.outputs)
        self.kept = {v.root for v in program.outputs}
        self.in_place: dict[Line, tuple[int, ...]] = {}
        self.out: dict[Line, Var] = {}
        self.augmented: dict[Line, int] = {}  # the argument that an operator overwrites
        self.freed: dict[Line, list[Var]] = {}  # variables that no later statement names
        self.written: set[Var] = set()  # inputs whose memory is written
        self.later: set[Var] = set()  # whose memory later statements use
        self.unnamed = self.computed - self.outputs  # that no later statement names
        for line in reversed(self.statements.lines):
            self.plan(line)
        for line, position in self.augmented.items():
            if not is_temporary(line.outputs[0]):  # both names are the same variable
                line.args[position].name = line.outputs[0].name

    def with_updates_last(self) -> list[Line]:
        """Lines that overwrite state, and whose results no other line needs, come last."""
        self.tail: set[Line] = set()
        if not self.state:
            return self.program.lines
        needed: set[Var] = set()
        first, last = [], []
        for line in reversed(self.program.lines):
            overwrites = any(self.is_update(line, k) for k in range(len(line.writes)))
            if overwrites and not any(v.root in needed for v in line.outputs):
                last.append(line)
            else:
                first.append(line)
                needed.update(v.root for v in line.inputs)
        self.tail.update(last)
        return [*first[::-1], *last[::-1]]

    def is_update(self, line: Line, k: int) -> bool:
        """Whether the ``k``-th argument that a line overwrites is state that ends as its result."""
        old = line.args[line.writes[k]]
        return isinstance(old, Var) and self.state.get(old) is line.outputs[k]

    def plan(self, line: Line) -> None:
        """Plan a statement. All later statements have been planned."""
        inputs = self.inputs[line]
        if line.writes:
            self.plan_writes(line, inputs)
        elif not line.several and line.outputs and not line.options:
            self.plan_out(line)
        mentioned = (*inputs, *line.outputs)
        freed = [v for v in mentioned if v in self.unnamed]
        if len(freed) > 1:
            freed = list(dict.fromkeys(freed))
        self.freed[line] = freed
        self.unnamed.difference_update(freed)
        self.later.update([v.root for v in mentioned])

    def plan_writes(self, line: Line, inputs: list[Var]) -> None:
        """Find the arguments that a kernel may overwrite in place."""
        positions = []
        for k, position in enumerate(line.writes):
            old = line.args[position]
            if not isinstance(old, Var) or old.root is not old or old.constant is not None:
                continue
            free = old not in self.later and old not in self.kept
            single = sum(v.root is old for v in inputs) == 1
            # A value without dimensions may be a scalar, which cannot be written.
            computed = old in self.computed and bool(old.shape)
            if free and single and (computed or (line in self.tail and self.is_update(line, k))):
                positions.append(position)
                if old not in self.computed:
                    self.written.add(old)
        if positions:
            self.in_place[line] = tuple(positions)

    def plan_out(self, line: Line) -> None:
        """Put the result of an operator, or of a NumPy function, in the memory of an operand that
        is not needed again."""
        result, name = line.outputs[0], line.operation.name
        large = result.nbytes >= WORTHWHILE
        operator = name in AUGMENTED and (is_temporary(result) or result.name.endswith("_grad"))
        if not (large or operator) or result.root is not result or not result.shape:
            return
        if arrays.programs.ufunc_of(line.operation.forward) is None:
            return
        if large and line.operation.heavy and not self.in_blocks:
            return
        for position, x in enumerate(line.args):
            if not isinstance(x, Var) or not self.is_free(x) or not _alike(x, result):
                continue
            if operator and (position == 0 or name in _COMMUTATIVE):
                self.augmented[line] = position
                return
            if large:
                self.out[line] = x
                return

    def is_free(self, x: Var) -> bool:
        """Whether the memory of a variable may be written by the statement that is planned."""
        return (
            x not in self.later and x in self.computed and x.root is x and x.constant is None
            and x not in self.kept and x not in self.statements.nested
        )  # fmt: skip


def _alike(x: Var, y: Var) -> bool:
    return (x.shape, x.dtype, x.strides) == (y.shape, y.dtype, y.strides)
