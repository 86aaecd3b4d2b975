"""Products of matrices in bfloat16.

A program says what eager mode does: operands are converted to float32, multiplied, and the result
is rounded. Processors for matrices do all of that at once, from operands of two bytes to results of
two bytes. So products get the operands as they were before they were converted, and give a rounded
result at once if nothing but its rounding is asked for. The sums are in float32 all the same.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from retrograd.compiler._program import Line, Program, Var
from retrograd.compiler.xla._table import lowered

# Of these, products whose lowering takes ``rounded``: whether to give bfloat16.
ROUNDING = frozenset({"mm", "bmm", "mv", "dot"})
PRODUCTS = ROUNDING | {
    "scaled_dot_product_attention", "scaled_dot_product_attention_backward",
}  # fmt: skip


class Narrow:
    """Where the values of a program are in bfloat16, or might as well be."""

    def __init__(self, program: Program, known: dict[Var, Any]) -> None:
        self.known = known
        self.made_by = {v: line for line in program.lines for v in line.outputs}
        self.uses: dict[Var, list[Line]] = {}
        for line in program.lines:
            for v in line.inputs:
                self.uses.setdefault(v, []).append(line)
        self.outputs = set(program.outputs)
        self.values: dict[Var, Any] = {}
        self.any = any(v.dtype.kind == "V" for v in self.made_by)

    def operand(self, v: Var) -> Any:
        """The value of a variable: in bfloat16, if it was converted from that."""
        path = []
        at = v
        while at not in self.values:
            line = self.made_by.get(at)
            if line is None or at.dtype != "float32" or line.several or not line.inputs:
                return self.known.get(v, v.constant)
            path.append(line)
            at = line.inputs[0]
            if line.operation.name == "to_dtype":
                if at.dtype.kind != "V":
                    return self.known.get(v, v.constant)
                self.values[line.outputs[0]] = self.known.get(at, at.constant)
                path.pop()
                break
            if not line.operation.view:
                return self.known.get(v, v.constant)
        for line in reversed(path):  # the views that were taken of it
            value = self.values[line.inputs[0]]
            self.values[line.outputs[0]] = lowered(line, [value], line.options)[0]
        return self.values[v]

    def is_rounded(self, v: Var) -> bool:
        """Whether nothing but the value of a variable rounded to bfloat16 is used."""
        left = [v]
        while left:
            v = left.pop()
            if v in self.outputs or v.dtype != "float32":
                return False
            for line in self.uses.get(v, ()):
                if line.operation.name == "to_dtype" and line.outputs[0].dtype.kind == "V":
                    continue
                if not line.operation.view or line.several:
                    return False
                left += line.outputs
        return True

    def rounds(self, line: Line) -> list[bool]:
        """For each result of a line, whether it is given in bfloat16: of a product, and of a view
        of such a result."""
        if line.operation.name in PRODUCTS:
            return [self.is_rounded(v) for v in line.outputs]
        source = self.known.get(line.inputs[0]) if line.operation.view and line.inputs else None
        rounded = source is not None and source.dtype == jnp.bfloat16
        return [rounded and v.dtype == "float32" for v in line.outputs]
