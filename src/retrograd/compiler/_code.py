"""Expressions as text, with parentheses where they are needed."""

from __future__ import annotations

from typing import Any

COMPARISON, SUM, PRODUCT, SIGN, ATOM = range(5)  # precedences of operators
LEVELS = {
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "@": PRODUCT, "==": COMPARISON,
    "!=": COMPARISON, "<": COMPARISON, "<=": COMPARISON, ">": COMPARISON, ">=": COMPARISON,
}  # fmt: skip


class Code(str):
    """An expression whose outermost operator has the precedence ``level``. An expression that never
    needs parentheses is a plain string."""

    __slots__ = ("level",)

    level: int

    def __new__(cls, text: str, level: int) -> Code:
        result = super().__new__(cls, text)
        result.level = level
        return result


def binary(operator: str, left: str, right: str) -> Code:
    """``left operator right``, in which the left operand is computed first."""
    level = LEVELS[operator]
    if type(left) is Code:
        left = inside(left, level + (level == COMPARISON))
    if type(right) is Code:
        right = inside(right, level + 1)
    return Code(f"{left} {operator} {right}", level)


def unary(operator: str, operand: str) -> Code:
    """``-x``."""
    return Code(f"{operator}{inside(operand, ATOM)}", SIGN)


def atom(code: str) -> str:
    """An expression that an attribute or an index can follow."""
    return inside(code, ATOM)


def inside(code: str, level: int) -> str:
    """An expression as an operand of an operator with the precedence ``level``."""
    return f"({code})" if isinstance(code, Code) and code.level < level else code


def dtype_text(dtype: Any) -> str:
    """An expression for a dtype. NumPy knows bfloat16 by its name, once ``ml_dtypes`` is loaded."""
    return f"np.dtype({dtype.name!r})" if dtype.kind == "V" else f"np.{dtype.name}"
