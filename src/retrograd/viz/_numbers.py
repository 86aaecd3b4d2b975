"""Formulas of one node: with the names of the program's variables, and with numbers put in.

A formula is text in the names of an operation, ``grad · other``. Here ``other`` becomes ``x``, and
then ``6.0 · 3.0 = 18.0``: for a tensor of several elements, of its first. The result is the value
that was recorded. An equation is given only if it is true: the left side is computed, and compared.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from retrograd.viz._values import Value

MOST_TERMS = 4  # of a sum or a product of matrices that are written out
LONGEST = 120  # characters of an equation
IDENTIFIER = re.compile(r"[^\W\d]\w*")
REAL = ("float", "bfloat", "int", "uint", "bool")
COARSE = {"float16": 2e-2, "bfloat16": 5e-2}  # how exact an equation is, relative to its terms
_DIGITS = {ord(raised): plain for plain, raised in zip("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", strict=True)}
_SIGNS = str.maketrans({"·": "*", "−": "-", "^": "**", "≥": ">=", "≤": "<=", "≠": "!="})
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "clamp": lambda x, low, high: min(max(x, low), high), "cos": math.cos,
    "cosh": math.cosh, "erf": math.erf, "exp": math.exp, "expm1": math.expm1, "log": math.log,
    "log1p": math.log1p, "log2": math.log2, "log10": math.log10, "relu": lambda x: max(x, 0.0),
    "sgn": lambda x: (x > 0) - (x < 0), "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sign": lambda x: (x > 0) - (x < 0), "sin": math.sin, "sinh": math.sinh,
    "softplus": lambda x: math.log1p(math.exp(x)), "sqrt": math.sqrt, "tan": math.tan,
    "tanh": math.tanh,
}  # fmt: skip
Index = tuple[int, ...]
SUM = r"sum\((.*), dim=(\(.*\)|\d+)(?:, keepdim=True)?\)(?:\.reshape\(.*\))?"
CHOICE = r"(.*) where (.*), else (.*)"
PRODUCT = r"(\w+?)(ᵀ?) @ (\w+?)(ᵀ?)(?!\w)"


class UnknownError(Exception):
    """A formula that cannot be written in numbers."""


def identifiers(names: Iterable[str]) -> re.Pattern[str]:
    """Where some names stand in a formula: not as a part of another, and not as that of an
    option."""
    longest_first = sorted(map(re.escape, names), key=len, reverse=True)
    return re.compile(rf"(?<![\w.])({'|'.join(longest_first) or '(?!)'})(?![A-Za-z0-9_=(])")


def named(formula: str, names: Mapping[str, str]) -> str:
    """A formula with other names.

    >>> named("grad_self = grad · other", {"self": "w", "other": "x"})
    'grad_w = grad · x'
    >>> named("grad_self = 2 · grad · self", {"self": "(y − 6)"})
    'grad of (y − 6) = 2 · grad · (y − 6)'
    """
    left, sign, right = formula.partition(" = ") if " = " in formula else ("", "", formula)
    own = left.removeprefix("grad_")
    if sign and own in names:
        name = names[own]
        left = f"grad_{name}" if IDENTIFIER.fullmatch(name) else f"grad of {name}"
    return left + sign + plain(identifiers(names).sub(lambda m: names[m[1]], right))


def plain(text: str) -> str:
    """A formula without parentheses right inside of others.

    >>> plain("sin(((y − 6)²)) + (a)")
    'sin((y − 6)²) + (a)'
    """
    opened: list[int] = []
    closing = {}  # where each parenthesis ends
    for at, sign in enumerate(text):
        if sign == "(":
            opened.append(at)
        elif sign == ")" and opened:
            closing[opened.pop()] = at
    twice = {at for at, end in closing.items() if closing.get(at - 1) == end + 1}
    left_out = twice | {closing[at] for at in twice}
    return "".join(sign for at, sign in enumerate(text) if at not in left_out)


def number(x: Any) -> str:
    """A number in few digits: ``2.0``, ``−0.5``."""
    if isinstance(x, bool) or (isinstance(x, int) and abs(x) < 10**6):
        return str(int(x)).replace("-", "−")
    text = f"{x:.5g}"
    if text.lstrip("-").isdigit():
        text += ".0"
    return text.replace("-", "−").replace("e−0", "e−").replace("e+0", "e")


def factor(x: Any) -> str:
    """A number inside of a formula."""
    text = number(x)
    return f"({text})" if text.startswith("−") else text


# -- values ------------------------------------------------------------------------------------


class Operand:
    """A value that a formula names: a recorded one, or a Python number."""

    def __init__(self, given: Any) -> None:
        if isinstance(given, Value):
            array = given.array
            if array is None or not given.dtype.startswith(REAL):
                raise UnknownError
            self.shape, self._array = given.shape, array
            self._convert: Any = int if given.dtype.startswith(REAL[2:]) else float
        elif isinstance(given, (bool, int, float)):
            self.shape, self._array, self._convert = (), None, lambda _: given
        else:
            raise UnknownError

    def at(self, index: Index) -> Any:
        """The element that has a part in that of the result, if shapes are broadcast."""
        if len(self.shape) > len(index):
            raise UnknownError
        own = index[len(index) - len(self.shape) :]
        if any(i >= size > 1 for i, size in zip(own, self.shape, strict=True)):
            raise UnknownError
        if self._array is None:
            return self._convert(None)
        place = tuple(0 if size == 1 else i for i, size in zip(own, self.shape, strict=True))
        return self._convert(self._array[place])


def equation(right: str, values: Mapping[str, Any], result: Value | None) -> str:
    """The right side of a formula in numbers, for the first element of its result; "" where it
    cannot be written, or is too long.

    >>> import numpy as np
    >>> value = lambda *x: Value(np.array(x if len(x) > 1 else x[0]))
    >>> equation("2 · grad · self", {"grad": value(1.0), "self": value(-0.5)}, value(-1.0))
    '2 · 1.0 · (−0.5) = −1.0'
    >>> known = {"grad": value(1.0), "self": value(3.0, 4.0)}
    >>> equation("grad / numel(self)", known, value(0.5, 0.5))
    '[0]: 1.0 / 2 = 0.5'
    >>> equation("grad · other", {"grad": value(2.0), "other": value(3.0)}, value(7.0))
    ''
    """
    try:
        wanted = Operand(result)
        index = (0,) * len(wanted.shape)
        if 0 in wanted.shape:
            return ""
        text = Written(values, wanted.shape).expression(right, index)
        end = wanted.at(index)
        assert result is not None
        if len(text) > LONGEST or not true(text, end, COARSE.get(result.dtype, 1e-4)):
            return ""
    except UnknownError:
        return ""
    where = f"[{', '.join(map(str, index))}]: " if math.prod(wanted.shape) > 1 else ""
    return where + equal(text, number(end))


def equal(text: str, result: str) -> str:
    """An equation, or just the result; of a choice, the part that was chosen.

    >>> equal("1.0 · 3.0 where 2.0 > 0, else 0", "3.0")
    '1.0 · 3.0 = 3.0, since 2.0 > 0'
    """
    choice = re.fullmatch(CHOICE, text)
    why = ""
    if choice is not None:
        chosen, test, other = choice.groups()
        holds = evaluated(ast.parse(comparison(test), mode="eval").body)
        text, why = (chosen, f", since {test}") if holds else (other, f", since not {test}")
    return (result if text in (result, f"({result})", "0") else f"{text} = {result}") + why


def of_numbers(right: str, values: Mapping[str, Any], result: float, exact: float) -> str:
    """The same of numbers.

    >>> of_numbers("p − lr · grad", {"p": 2.0, "lr": 0.1, "grad": 6.0}, 1.4, 1e-4)
    '2.0 − 0.1 · 6.0 = 1.4'
    """
    try:
        text = Written(values, ()).expression(right, ())
    except UnknownError:
        return ""
    return equal(text, number(result)) if true(text, result, exact) else ""


class Written:
    """Writes formulas in numbers."""

    def __init__(self, values: Mapping[str, Any], shape: Index) -> None:
        self.values, self.shape = values, shape
        self.names = identifiers(values)

    def operand(self, name: str) -> Operand:
        if name not in self.values:
            raise UnknownError
        return Operand(self.values[name])

    def expression(self, text: str, index: Index) -> str:
        """A formula, for one element of the result."""
        total = re.fullmatch(SUM, text)
        if total is not None:
            return self.sum_along(total[1], ast.literal_eval(total[2]))
        whole = re.fullmatch(r"(sum|mean)\((.*)\)", text)
        if whole is not None and not self.shape:
            return self.sum_of_all(whole[2], whole[1] == "mean")
        for form in (r"expand\((.*), \w+\.shape\)", r"reshape\((.*), \w+\.shape\)"):
            wrapped = re.fullmatch(form, text)
            text = text if wrapped is None else wrapped[1]
        text = re.sub(r"numel\((\w+)\)", lambda m: str(math.prod(self.operand(m[1]).shape)), text)
        text = re.sub(PRODUCT, lambda m: self.product(m, index), text)
        if "@" in text or "ᵀ" in text:
            raise UnknownError
        return self.names.sub(lambda m: factor(self.operand(m[1]).at(index)), text)

    def product(self, match: re.Match[str], index: Index) -> str:
        """An element of a product of matrices."""
        left, left_transposed, right, right_transposed = match.groups()
        a, b = self.operand(left), self.operand(right)
        if not len(index) == len(a.shape) == len(b.shape) == 2:
            raise UnknownError
        i, j = index
        inner = a.shape[0 if left_transposed else 1]
        if inner > MOST_TERMS:
            raise UnknownError
        pairs = [
            (
                a.at((k, i) if left_transposed else (i, k)),
                b.at((j, k) if right_transposed else (k, j)),
            )
            for k in range(inner)
        ]
        return " + ".join(f"{factor(x)} · {factor(y)}" for x, y in pairs)

    def sum_along(self, text: str, dims: Any) -> str:
        """The sum of a formula, for what is summed into the first element."""
        dims = dims if isinstance(dims, tuple) else (dims,)
        shape = self.largest(text)
        if any(d >= len(shape) for d in dims) or math.prod(shape[d] for d in dims) > MOST_TERMS:
            raise UnknownError
        ranges = [range(size) if d in dims else (0,) for d, size in enumerate(shape)]
        return self.added(text, ranges)

    def sum_of_all(self, text: str, is_mean: bool) -> str:
        shape = self.largest(text)
        count = math.prod(shape)
        if not 0 < count <= MOST_TERMS:
            raise UnknownError
        total = self.added(text, [range(size) for size in shape])
        return total if not is_mean else f"({total}) / {count}" if count > 1 else total

    def added(self, text: str, ranges: Iterable[Iterable[int]]) -> str:
        return " + ".join(self.expression(text, index) for index in itertools.product(*ranges))

    def largest(self, text: str) -> Index:
        """The shape of a formula."""
        shapes = [self.operand(m[1]).shape for m in self.names.finditer(text)]
        return max(shapes, key=len, default=())


# -- whether it is true --------------------------------------------------------------------------


def true(text: str, result: Any, exact: float) -> bool:
    """Whether a text in numbers is as large as a result."""
    try:
        tree = ast.parse(as_python(text), mode="eval").body
        value = evaluated(tree)
    except (SyntaxError, UnknownError, ArithmeticError, ValueError, TypeError):
        return False
    if not (math.isfinite(value) and math.isfinite(result)):
        return False
    constants = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    largest = max([abs(x) for x in (*constants, result) if isinstance(x, (int, float))])
    return bool(abs(value - result) <= exact * largest)


def as_python(text: str) -> str:
    """A formula in numbers as an expression of Python.

    >>> as_python("3.0 · (1 − 0.5²)")
    '3.0 * (1 - 0.5**(2))'
    """
    choice = re.fullmatch(CHOICE, text)
    if choice is not None:
        text = f"({choice[1]}) if ({comparison(choice[2])}) else ({choice[3]})"
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda m: f"**({m[0].translate(_DIGITS)})", text)
    text = re.sub(r"\|([^|]+)\|", r"abs(\1)", text)
    text = text.replace("√π", "sqrt(π)").replace("√(2π)", "sqrt(2 * π)").replace("ln ", "log")
    text = re.sub(r"log(2|10)\b", r"log(\1)", text).replace("π", repr(math.pi))
    return text.translate(_SIGNS)


def comparison(test: str) -> str:
    """A condition as Python has it."""
    return re.sub(r" = ", " == ", test).translate(_SIGNS)


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b, ast.Pow: lambda a, b: math.pow(a, b),
    ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b, ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b, ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b,
}  # fmt: skip


def evaluated(tree: ast.expr) -> Any:
    """The value of an expression in numbers. (Recursive: formulas are short.)"""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float)):
        return tree.value
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -evaluated(tree.operand)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _OPERATORS[type(tree.op)](evaluated(tree.left), evaluated(tree.right))
    if isinstance(tree, ast.Compare) and type(tree.ops[0]) in _OPERATORS and len(tree.ops) == 1:
        return _OPERATORS[type(tree.ops[0])](evaluated(tree.left), evaluated(tree.comparators[0]))
    if isinstance(tree, ast.BoolOp):
        values = [evaluated(x) for x in tree.values]
        return all(values) if isinstance(tree.op, ast.And) else any(values)
    if isinstance(tree, ast.IfExp):
        return evaluated(tree.body if evaluated(tree.test) else tree.orelse)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
        function = FUNCTIONS.get(tree.func.id)
        if function is not None:
            return function(*map(evaluated, tree.args))
    raise UnknownError
