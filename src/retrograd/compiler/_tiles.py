"""Tiles: elementwise lines on large arrays, which run together on one block of rows after another.

Line by line, each operation reads its operands from memory. A block that fits into the cache stays
there from the first line to the last, and the blocks are divided among several threads. The
computation of each element is unchanged, so results are bitwise equal.

Common parts of an activation and its gradient are computed once in a tile (``shared_steps``).

``with_tiles`` replaces each group of such lines by one line. Its operation is a ``Tile``, which
contains them as a program. Operands with the shape of the results, or with one element for each
row, are cut into blocks. A row that is the same for all, and numbers, are used as they are.
"""

from __future__ import annotations

import functools
import math
from collections import Counter

from retrograd import arrays
from retrograd.compiler._program import Kernel, Line, Program, Var, in_rows
from retrograd.ops import elementwise
from retrograd.ops._operation import Operation

LARGE = 1 << 18  # elements of a result
FEWEST_ROWS = 16
# Kernels that compute each element from the operands' elements at the same position, as NumPy's
# ufuncs do.
BY_ELEMENT = frozenset({
    "clamp", "gelu", "gelu_backward", "pow_scalar", "reciprocal", "relu", "rsqrt", "rsub", "sgn",
    "sigmoid", "silu", "silu_backward", "threshold_backward", "where", "zeros_like",
})  # fmt: skip


class Tile(Kernel):
    """Some lines as one operation, whose arguments are the inputs of their program."""

    __slots__ = ("blocks", "program", "shape")

    def __init__(self, program: Program, blocks: list[Var], shape: tuple[int, ...]) -> None:
        super().__init__("tile", program.run)
        self.program = program
        self.blocks = blocks  # the arguments that are cut into blocks
        self.shape = shape  # the number of rows and their length, or the number of elements


def with_tiles(program: Program) -> Program:
    """Replace lines that can run block by block by tiles."""
    # A byte is the smallest element.
    if not any([v.nbytes >= LARGE for line in program.lines for v in line.outputs]):
        return program
    fuse_cross_entropy(program)
    grouping = Grouping(program)
    for line in program.lines:
        grouping.take(line)
    grouping.close()
    program.lines = grouping.lines
    return program


def fuse_cross_entropy(program: Program) -> None:
    """Fuse the gradients of ``nll_loss`` and of the ``log_softmax`` of a large matrix to one line:
    the gradient between them is zero except for one element of each row."""
    users = Counter(v for line in program.lines for v in dict.fromkeys(line.inputs))
    users.update(program.outputs)
    made_by = {v: line for line in program.lines for v in line.outputs}
    left_out = set()
    for line in program.lines:
        if line.operation.name != "log_softmax_backward":
            continue
        g, y = line.args
        before = made_by.get(g)
        if before is None or before.operation.name != "nll_loss_backward" or users[g] != 1:
            continue
        if before.args[1] is not y or len(y.shape) != 2 or line.options["dim"] != 1:
            continue
        if math.prod(y.shape) < LARGE or y.dtype.itemsize < 4 or not in_rows(y):
            continue
        from retrograd.ops.networks.classification import cross_entropy_backward

        line.operation = Kernel("cross_entropy_backward", cross_entropy_backward)
        line.take(before.args, before.options)
        left_out.add(before)
    program.lines = [line for line in program.lines if line not in left_out]


def shared_steps(group: list[Line]) -> list[Line]:
    """Lines in which an activation and its gradient for the same float32 operand share common
    steps. Each computes the steps of its kernel, so results are bitwise equal."""
    operands: dict[tuple[str, Var], set[str]] = {}
    for line in group:
        name = line.operation.name
        activation = name.removesuffix("_backward")
        if activation in SHARED and _is_exact(line):
            operands.setdefault((activation, line.args[-1]), set()).add(name)
    both = {key for key, names in operands.items() if len(names) == 2}
    if not both:
        return group
    lines: list[Line] = []
    divisors: dict[tuple[str, Var], Var] = {}
    for line in group:
        name = line.operation.name
        activation = name.removesuffix("_backward")
        if activation not in SHARED or not _is_exact(line) or (
            (key := (activation, line.args[-1])) not in both
        ):  # fmt: skip
            lines.append(line)
            continue
        (to_divisor, to_gradient), x = _shared(activation), line.args[-1]
        rest = (False, line.place, line.backward)
        if key not in divisors:
            divisors[key] = Var("t", x)
            lines.append(Line((divisors[key],), to_divisor, (x,), {}, *rest))
        if name == activation:
            lines.append(Line(line.outputs, elementwise.div, (x, divisors[key]), {}, *rest))
        else:
            args = (*line.args, divisors[key])
            lines.append(Line(line.outputs, to_gradient, args, {}, *rest))
    return lines


def _is_exact(line: Line) -> bool:
    approximate = line.options.get("approximate", "none")
    return approximate == "none" and bool(line.outputs[0].dtype == arrays.float32)


@functools.cache
def _shared(activation: str) -> tuple[Kernel, Kernel]:
    """The kernels of the divisor in an activation, and of the gradient, given the divisor."""
    names = (f"{activation}_divisor", f"{activation}_backward_of")
    divisor, gradient = [Kernel(name, getattr(arrays.networks, name)) for name in names]
    return divisor, gradient


SHARED = ("gelu", "silu")
TAKE_OUT = frozenset({f"{name}_backward_of" for name in SHARED})  # kernels that take ``out=``


class Grouping:
    """Collects lines of a program for the next tile. Other lines go before the tile, or after it if
    they depend on it."""

    def __init__(self, program: Program) -> None:
        self.lines: list[Line] = []
        self.users: dict[Var, list[Line]] = {}
        self.outputs = {v.root for v in program.outputs}
        for line in program.lines:
            for v in dict.fromkeys(line.inputs):
                self.users.setdefault(v, []).append(line)
        self.group: list[Line] = []
        self.inside: set[Var] = set()  # results of the group
        self.later: list[Line] = []
        self.after: set[Var] = set()  # results of lines after the group

    def take(self, line: Line) -> None:
        inputs = line.inputs
        if fits_tile(line):
            first = self.group[0].outputs[0] if self.group else None
            if first is not None and (
                first.shape != line.outputs[0].shape or not self.after.isdisjoint(inputs)
            ):  # fmt: skip
                self.close()
            self.group.append(line)
            self.inside.update(line.outputs)
        elif line.effects or not self.group:
            self.close()
            self.lines.append(line)
        elif self.inside.isdisjoint(inputs) and self.after.isdisjoint(inputs):
            self.lines.append(line)
        else:
            self.later.append(line)
            self.after.update(line.outputs)

    def close(self) -> None:
        """End a group."""
        group = self.group
        self.lines += [self.tile(group)] if len(group) > 1 else group
        self.lines += self.later
        self.group, self.later = [], []
        self.inside, self.after = set(), set()

    def tile(self, group: list[Line]) -> Line:
        """The line that replaces a group."""
        results = {v for line in group for v in line.outputs}
        inputs = list(dict.fromkeys(v for line in group for v in line.inputs if v not in results))
        lines = set(group)
        outputs = [
            v
            for line in group
            for v in line.outputs
            if v in self.outputs or any(user not in lines for user in self.users.get(v, ()))
        ]
        like = group[0].outputs[0]
        rows = math.prod(like.shape[:-1])
        blocks = [v for v in inputs if v.shape == like.shape or is_column(v, like)]
        flat = all(v.shape == like.shape or not v.shape for v in inputs)
        shape = (math.prod(like.shape),) if flat else (rows, like.shape[-1])
        operation = Tile(Program("tile", inputs, shared_steps(group), outputs), blocks, shape)
        first = group[0]
        return Line(tuple(outputs), operation, tuple(inputs), {}, True, (None, 0), first.backward)


def fits_tile(line: Line) -> bool:
    """Whether a line computes a large array element by element."""
    operation = line.operation
    if not isinstance(operation, Operation) or len(line.outputs) != 1 or line.several:
        return False
    result = line.outputs[0]
    if math.prod(result.shape) < LARGE or result.root is not result or not in_rows(result):
        return False
    if not result.shape or not result.nbytes:
        return False
    if operation.name in BY_ELEMENT:
        if result.dtype.kind != "f":
            return False
    elif line.options or not arrays.programs.is_elementwise(operation.forward):
        return False
    return all(fits_operand(v, result) for v in line.inputs)


def fits_operand(v: Var, result: Var) -> bool:
    """Whether an operand can be cut into blocks of rows, or is the same for all of them."""
    if not v.shape:
        return True
    if v.shape == result.shape:
        return in_rows(v)
    if math.prod(result.shape[:-1]) < FEWEST_ROWS:
        return False
    return is_column(v, result) or v.shape in (result.shape[-1:], (1, result.shape[-1]))


def is_column(v: Var, result: Var) -> bool:
    """Whether an operand has one element for each row."""
    return bool(v.shape) and v.shape == (*result.shape[:-1], 1) and in_rows(v)
