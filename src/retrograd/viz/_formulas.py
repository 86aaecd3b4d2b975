"""Expressions in mathematical notation: ``g - g * (result * result)`` is grad · (1 − result²).

What readers need not know is left out (dtypes, values under transforms, the choice of a faster
path), short helper functions are inlined, sums with a common factor are written as products, and
operators get their usual signs.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from typing import Any

from retrograd.ops._operation import Operation
from retrograd.viz._algebra import simple
from retrograd.viz._expressions import TooLongError, expression_of, filled, parameters_of

CHOICE, SUM, PRODUCT, SIGN, POWER, ATOM = range(6)  # precedence of operators
Text = tuple[str, int]

SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
CONSTANTS = {"_LN2": "ln 2", "_LN10": "ln 10", "math.pi": "π", "_DEGREE": "(π / 180)",
             "_TWO_OVER_ROOT_PI": "(2 / √π)", "_ROOT_2_PI": "√(2π)", "math.nan": "nan",
             "math.log(2)": "ln 2"}  # fmt: skip
# Calls that do not matter to readers: shown as their argument.
SAME = {"raw", "to_dtype", "kept", "as_value", "_constant", "asarray", "tuple", "_in_dtype_of",
        "_as_it_is", "cast", "conj_physical_or_same", "index_for"}  # fmt: skip
ZERO = {"zeros_like", "new_zeros", "zeros"}
PRODUCTS = {"mm", "bmm", "mv", "matmul"}
TRANSPOSED = {"transposed", "t", "_transposed"}
# How operators and calls are written: the form, the lowest precedence of each operand without
# parentheses, and the precedence of the whole.
Notation = tuple[str, tuple[int, ...], int]
OPERATORS: dict[type[ast.operator], Notation] = {
    ast.Add: ("{} + {}", (SUM, SUM), SUM), ast.Sub: ("{} − {}", (SUM, PRODUCT), SUM),
    ast.Mult: ("{} · {}", (PRODUCT, PRODUCT), PRODUCT),
    ast.Div: ("{} / {}", (PRODUCT, SIGN), PRODUCT),
    ast.MatMult: ("{} @ {}", (PRODUCT, SIGN), PRODUCT),
}  # fmt: skip
CALLS: dict[str, Notation] = {
    "abs": ("|{}|", (CHOICE,), ATOM),
    "isnan": ("{} is nan", (SUM,), CHOICE),
    "logical_and": ("{} and {}", (SUM, SUM), CHOICE),
    "logical_not": ("not {}", (SUM,), CHOICE),
    "logical_or": ("{} or {}", (SUM, SUM), CHOICE),
    "not_defined": ("not defined", (), ATOM),
    "rsqrt": ("1 / sqrt({})", (CHOICE,), PRODUCT),
    "threshold_backward": ("{} where {} > 0, else 0", (SUM, SUM), CHOICE),
    "transposed_mm": ("{}ᵀ @ {}", (ATOM, SIGN), PRODUCT),
    "where": ("{1} where {0}, else {2}", (CHOICE, SUM, CHOICE), CHOICE),
    "_outer": ("{} ⊗ {}", (PRODUCT, SIGN), PRODUCT),
    **{name: (f"{{}} {sign} {{}}", (SUM, SUM), CHOICE) for name, sign in (
        ("eq", "="), ("equal", "="), ("ne", "≠"), ("lt", "<"), ("less", "<"), ("le", "≤"),
        ("gt", ">"), ("greater", ">"), ("ge", "≥"))},
    **dict.fromkeys(PRODUCTS, OPERATORS[ast.MatMult]),
    **dict.fromkeys(TRANSPOSED, ("{}ᵀ", (ATOM,), ATOM)),
}  # fmt: skip
NAMES = {"sum_dim": "sum", "sum_all": "sum", "sum_to_shape": "sum_to", "mean_dim": "mean",
         "slice_": "slice", "pow_scalar": "pow", "scatter_zeros": "scatter", "put_zeros": "place",
         "add_flat": "add_at", "take_flat": "take", "adjoint": "adjoint"}  # fmt: skip
AS_OPERATORS: dict[str, ast.operator] = {
    "total": ast.Add(), "_scaled": ast.Mult(), "scaled": ast.Mult(), "times": ast.Mult(),
    "over": ast.Div(),
}  # fmt: skip
FACTORS = {"alpha", "beta", "value", "scale", "input_scale"}  # options that are one by default
# Conditions whose value is known: no transform is active, and all gradients are needed.
FALSE = {"is_lifted", "isinstance", "is_differentiated"}
TRUE = {"is_raw"}


class Printer:
    """Writes the expression of one rule."""

    def __init__(
        self,
        names: Mapping[str, Any],
        of: str = "self",
        outputs: tuple[str, ...] = (),
        complex_numbers: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.globals = names  # the global names of the rule
        self.of = of  # the input that the rule is for
        self.outputs = outputs
        self.known = Known(complex_numbers, options or {})

    def write(self, expression: ast.expr) -> str:
        return self.text(simple(self.inlined(expression)))[0]

    # -- before writing ----------------------------------------------------------------------

    def meaning(self, function: ast.expr) -> Any:
        """The function or operation that is called, if it can be resolved."""
        if isinstance(function, ast.Name):
            return self.globals.get(function.id)
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            return getattr(self.globals.get(function.value.id), function.attr, None)
        return None

    def inlined(self, expression: ast.expr, depth: int = 3) -> ast.expr:
        """An expression with short helper functions inlined."""
        printer = self

        class Inliner(ast.NodeTransformer):
            def visit_Call(self, node: ast.Call) -> ast.expr:
                self.generic_visit(node)
                result = printer.body_of_helper(node)
                return node if result is None else result

        expression = self.known.ones(copy.deepcopy(expression))
        for _ in range(depth):
            before = ast.dump(expression)
            expression = pruned(Inliner().visit(expression), self.known)
            if ast.dump(expression) == before:
                break
        return expression

    def body_of_helper(self, call: ast.Call) -> ast.expr | None:
        name, function = name_of(call.func), self.meaning(call.func)
        plain = SAME | ZERO | TRANSPOSED | PRODUCTS | FALSE | TRUE | set(AS_OPERATORS)
        plain |= {"transposed_mm", "_outer", "numel"}
        if name in plain or isinstance(function, Operation) or not _is_ours(function):
            return None
        body = expression_of(function)
        parts = [] if body is None else list(ast.walk(body))
        has_unnamed_calls = any(isinstance(x, ast.Call) and not name_of(x.func) for x in parts)
        if body is None or len(parts) > 60 or has_unnamed_calls:
            return None
        arguments = dict(zip(parameters_of(function), call.args, strict=False))
        arguments.update({k.arg: k.value for k in call.keywords if k.arg is not None})
        if set(parameters_of(function)) - set(arguments):
            return None
        try:
            return filled(body, arguments)
        except TooLongError:
            return None

    # -- writing -----------------------------------------------------------------------------

    def text(self, node: ast.expr) -> Text:
        writer = getattr(self, f"write_{type(node).__name__.lower()}", None)
        return (self.code(node), ATOM) if writer is None else writer(node)

    def code(self, node: ast.expr) -> str:
        """A part that is shown as code."""
        try:
            return ast.unparse(filled(node, {"g": ast.Name("grad", ast.Load())}))
        except TooLongError:
            return "…"

    def inside(self, node: ast.expr, level: int) -> str:
        """A part, in parentheses if its precedence is lower than ``level``."""
        text, own = self.text(node)
        return text if own >= level else f"({text})"

    def write_name(self, node: ast.Name) -> Text:
        if node.id == "g":
            return "grad", ATOM
        if node.id == "shape":
            return f"{self.of}.shape", ATOM
        value = self.globals.get(node.id)
        if node.id not in CONSTANTS and node.id.startswith("_") and isinstance(value, float):
            return f"{value:.6g}", ATOM
        return CONSTANTS.get(node.id, node.id), ATOM

    def write_constant(self, node: ast.Constant) -> Text:
        return (f"{node.value:g}" if isinstance(node.value, float) else repr(node.value)), ATOM

    def write_attribute(self, node: ast.Attribute) -> Text:
        whole = ast.unparse(node)
        return CONSTANTS.get(whole, f"{self.inside(node.value, ATOM)}.{node.attr}"), ATOM

    def write_subscript(self, node: ast.Subscript) -> Text:
        of_grad = isinstance(node.value, ast.Name) and node.value.id == "g"
        index = self.code(node.slice)
        if of_grad and index.isdigit():
            known = int(index) < len(self.outputs)
            return (f"grad_{self.outputs[int(index)]}" if known else f"grad[{index}]"), ATOM
        return f"{self.inside(node.value, ATOM)}[{index}]", ATOM

    def write_unaryop(self, node: ast.UnaryOp) -> Text:
        if isinstance(node.op, ast.Not):
            return f"not {self.inside(node.operand, SIGN)}", CHOICE
        return f"−{self.inside(node.operand, SIGN)}", SIGN

    def write_binop(self, node: ast.BinOp) -> Text:
        left, right = node.left, node.right
        if isinstance(node.op, ast.Pow):
            return self.power(left, right)
        if type(node.op) not in OPERATORS:
            return ast.unparse(node), SUM
        if isinstance(node.op, ast.Mult):
            if isinstance(right, ast.Call) and name_of(right.func) == "rsqrt":
                return self.arranged(("{} / sqrt({})", (PRODUCT, CHOICE), PRODUCT),
                                     [left, right.args[0]])  # fmt: skip
            if isinstance(right, ast.BinOp) and isinstance(right.op, (ast.Div, ast.MatMult)):
                return self.arranged(("{} · {}", (PRODUCT, SIGN), PRODUCT), [left, right])
        return self.arranged(OPERATORS[type(node.op)], [left, right])

    def arranged(self, notation: Notation, parts: list[ast.expr]) -> Text:
        form, levels, own = notation
        texts = [self.inside(part, level) for part, level in zip(parts, levels, strict=True)]
        return form.format(*texts), own

    def power(self, base: ast.expr, exponent: ast.expr) -> Text:
        text = self.inside(base, ATOM)
        if isinstance(exponent, ast.Constant) and isinstance(exponent.value, int):
            return f"{text}{str(exponent.value).translate(SUPERSCRIPT)}", POWER
        return f"{text}^{self.inside(exponent, ATOM)}", POWER

    def write_compare(self, node: ast.Compare) -> Text:
        signs = {ast.Eq: "=", ast.NotEq: "≠", ast.Lt: "<", ast.LtE: "≤", ast.Gt: ">",
                 ast.GtE: "≥", ast.Is: "is", ast.IsNot: "is not", ast.In: "in",
                 ast.NotIn: "not in"}  # fmt: skip
        parts = [self.inside(node.left, SUM)]
        for op, right in zip(node.ops, node.comparators, strict=True):
            parts += [signs[type(op)], self.inside(right, SUM)]
        return " ".join(parts), CHOICE

    def write_boolop(self, node: ast.BoolOp) -> Text:
        word = " and " if isinstance(node.op, ast.And) else " or "
        return word.join(self.inside(v, SUM) for v in node.values), CHOICE

    def write_ifexp(self, node: ast.IfExp) -> Text:
        test, _ = self.text(node.test)
        then = self.inside(node.body, SUM)
        return f"{then} if {test}, else {self.text(node.orelse)[0]}", CHOICE

    def write_tuple(self, node: ast.Tuple) -> Text:
        return f"({', '.join(self.text(x)[0] for x in node.elts)})", ATOM

    def write_list(self, node: ast.List) -> Text:
        return f"[{', '.join(self.text(x)[0] for x in node.elts)}]", ATOM

    def write_listcomp(self, node: ast.ListComp) -> Text:
        loops = ", ".join(
            f"for {ast.unparse(loop.target)} in {self.text(loop.iter)[0]}"
            for loop in node.generators
        )
        return f"[{self.text(node.elt)[0]} {loops}]", ATOM

    def write_call(self, node: ast.Call) -> Text:
        name = name_of(node.func)
        args = node.args[:2] if name == "transposed_mm" else node.args  # the third is for speed
        if ast.unparse(node) in CONSTANTS:
            return CONSTANTS[ast.unparse(node)], ATOM
        if name in CALLS and len(args) == len(CALLS[name][1]):
            return self.arranged(CALLS[name], args)
        if name == "pow_scalar" and node.keywords:
            return self.power(args[0], node.keywords[0].value)
        if name == "numel" and ast.unparse(args[0]) in ("shape", f"{self.of}.shape"):
            return f"numel({self.of})", ATOM
        if name == "_bounded" and node.keywords:
            limit = self.inside(node.keywords[0].value, ATOM)
            return f"clamp({self.text(args[0])[0]}, −{limit}, {limit})", ATOM
        return self.plain_call(node), ATOM

    def plain_call(self, node: ast.Call) -> str:
        """A call, without the names of options that equal their values."""
        arguments = [self.text(x)[0] for x in node.args if not isinstance(x, ast.Starred)]
        for keyword in node.keywords:
            value = self.text(keyword.value)[0]
            same = value in (keyword.arg, f"({keyword.arg})", f"{self.of}.shape")
            arguments.append(value if same else f"{keyword.arg}={value}")
        name = name_of(node.func) or ast.unparse(node.func)
        return f"{NAMES.get(name, name.removeprefix('_'))}({', '.join(arguments)})"


def _is_ours(function: Any) -> bool:
    module = getattr(function, "__module__", None) or ""
    return hasattr(function, "__code__") and module.startswith("retrograd.ops")


def name_of(function: ast.expr) -> str:
    """The last part of a function's dotted name."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


# -- what a reader need not see ------------------------------------------------------------------


class Known:
    """What is known about a node: whether its numbers are complex, and simple options."""

    def __init__(self, complex_numbers: bool, options: Mapping[str, Any]) -> None:
        self.complex_numbers = complex_numbers
        self.options = options

    def ones(self, expression: ast.expr) -> ast.expr:
        """An expression without options that are one: a factor of one can be left out."""
        ones = {n: ast.Constant(1) for n, v in self.options.items() if type(v) is int and v == 1}
        in_calls = {
            k.arg for n in ast.walk(expression) if isinstance(n, ast.Call) for k in n.keywords
        }
        return filled(expression, {n: v for n, v in ones.items() if n in FACTORS - in_calls})

    def answer(self, test: ast.expr) -> bool | None:
        """The usual value of a condition; None if it depends."""
        text = ast.unparse(test)
        if text.endswith((".kind == 'c'", ".kind == 'c')")):
            return self.complex_numbers
        if text.endswith(".kind != 'c'"):
            return not self.complex_numbers
        names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
        calls = any(isinstance(n, (ast.Call, ast.Attribute)) for n in ast.walk(test))
        if names and names <= set(self.options) and not calls:
            code = compile(ast.fix_missing_locations(ast.Expression(test)), "<option>", "eval")
            return bool(eval(code, {"__builtins__": {}}, dict(self.options)))
        return self.usual_answer(test, text)

    def usual_answer(self, test: ast.expr, text: str) -> bool | None:
        if isinstance(test, ast.Constant) and isinstance(test.value, bool):
            return test.value
        if isinstance(test, ast.Call) and name_of(test.func) in FALSE | TRUE:
            return name_of(test.func) in TRUE
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.answer(test.operand)
            if inner is None and ast.unparse(test.operand).endswith("shape"):
                return False  # a tensor without dimensions: the same formula in another form
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            answers = [self.answer(v) for v in test.values]
            settles = isinstance(test.op, ast.Or)
            if settles in answers:
                return settles
            return (not settles) if None not in answers else None
        if text.startswith("needs["):
            return True
        if text == "g is None" or (text.startswith("g[") and text.endswith("is None")):
            return False
        return None


def pruned(expression: ast.expr, known: Known) -> ast.expr:
    """An expression without branches that do not matter to readers."""

    class Pruner(ast.NodeTransformer):
        def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
            self.generic_visit(node)
            answer = known.answer(node.test)
            if answer is not None:
                return node.body if answer else node.orelse
            if ast.dump(node.body) == ast.dump(node.orelse):
                return node.body
            return node

        def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
            self.generic_visit(node)
            settles = isinstance(node.op, ast.Or)
            values = [v for v in node.values if known.answer(v) is not (not settles)]
            # ``size or 1``: the size, unless there is nothing at all
            if settles and values and ast.unparse(values[-1]) == "1":
                values = values[:-1]
            if not values:
                return ast.Constant(not settles)
            return values[0] if len(values) == 1 else ast.BoolOp(node.op, values)

        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            name = name_of(node.func)
            if name in SAME and node.args:
                return node.args[0]
            if name in ZERO:
                return ast.Constant(0)
            if name == "max" and [ast.unparse(x) for x in node.args[1:]] == ["1"]:
                return node.args[0]  # ``max(size, 1)``: the size, unless there is nothing at all
            operator = AS_OPERATORS.get(name)
            given = [*node.args, *(k.value for k in node.keywords)]
            if operator is not None and len(given) == 2:
                return ast.BinOp(given[0], operator, given[1])
            return node

    result: ast.expr = Pruner().visit(expression)
    return result


def formula(expression: ast.expr, names: Mapping[str, Any], **about: Any) -> str:
    """An expression in mathematical notation. ``names``: what they mean in it; ``about``: as for
    ``Printer``.

    >>> formula(ast.parse("g - g * (result * result)", mode="eval").body, {})
    'grad · (1 − result²)'
    """
    return Printer(names, **about).write(expression)


def names_in(function: Callable[..., Any]) -> dict[str, Any]:
    """The global names of a function."""
    names = dict(function.__globals__)
    closed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    names.update((name, cell.cell_contents) for name, cell in closed)
    return names
