"""Products of matrices in bfloat16.

In a program, as in eager mode, operands are converted to float32 and multiplied, and the result is
rounded. Matrix units of processors do all of that in one instruction on bfloat16 operands. So
products get the operands before conversion, and return bfloat16 if only the rounded result is used.
Sums are accumulated in float32 in either case.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from retrograd.compiler._program import Line, Program, Var
from retrograd.compiler.xla._table import lowered

# Products whose lowering has the option ``rounded``: whether to return bfloat16.
ROUNDING = frozenset({"mm", "bmm", "mv", "dot"})
PRODUCTS = ROUNDING | {
    "scaled_dot_product_attention", "scaled_dot_product_attention_backward",
}  # fmt: skip


class Narrow:
    """Determines which values of a program can be represented in bfloat16."""

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
        """The value of a variable, in bfloat16 if it was converted from bfloat16."""
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
        for line in reversed(path):  # the views in between
            value = self.values[line.inputs[0]]
            self.values[line.outputs[0]] = lowered(line, [value], line.options)[0]
        return self.values[v]

    def is_rounded(self, v: Var) -> bool:
        """Whether a variable is only used after rounding to bfloat16."""
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
        """For each result of a line, whether it is represented in bfloat16. This applies to
        products and to views of their results."""
        if line.operation.name in PRODUCTS:
            return [self.is_rounded(v) for v in line.outputs]
        source = self.known.get(line.inputs[0]) if line.operation.view and line.inputs else None
        rounded = source is not None and source.dtype == jnp.bfloat16
        return [rounded and v.dtype == "float32" for v in line.outputs]
