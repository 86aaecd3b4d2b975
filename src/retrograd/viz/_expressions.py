"""A derivative rule as one expression: the source of its function, with local names filled in.

A rule is a lambda or a short function. The expression of a lambda is its body. In a function, local
names are replaced by their values, and ``if`` becomes a conditional expression. A function with
loops, or one that would become too long, has no such expression.
"""

from __future__ import annotations

import ast
import copy
import linecache
from collections.abc import Callable, Mapping
from functools import cache
from types import CodeType
from typing import Any

LONGEST = 400  # the most nodes of an expression that is still readable


class TooLongError(Exception):
    """The function cannot be written as one expression."""


def expression_of(function: Callable[..., Any]) -> ast.expr | None:
    """What a function returns, in terms of its parameters; None if that is not one expression."""
    result = definition_of(function)
    if isinstance(result, ast.Lambda):
        return copy.deepcopy(result.body)
    if result is None:
        return None
    try:
        return _run(list(result.body), {})
    except TooLongError:
        return None


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters of a function."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def definition_of(function: Callable[..., Any]) -> ast.Lambda | ast.FunctionDef | None:
    """The piece of source that a function was made from. None if the file has been edited since:
    what is shown is the code that runs."""
    function = getattr(function, "written_as", function)
    code = function.__code__
    if code not in _compiled(code.co_filename):
        return None
    names = parameters_of(function)
    candidates = [
        node
        for node in _definitions(code.co_filename).get(code.co_firstlineno, ())
        if tuple(a.arg for a in (*node.args.args, *node.args.kwonlyargs)) == names
        and isinstance(node, ast.Lambda) == (code.co_name == "<lambda>")
    ]
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    # Several on one line: the one whose code has the same columns, which count bytes.
    positions = [p for p in code.co_positions() if None not in p and p[3]]
    first = min(((p[0] or 0, p[2] or 0) for p in positions), default=(0, 0))
    for node in candidates:
        body: Any = node.body
        start = (body.lineno, body.col_offset)
        if start <= first < (body.end_lineno, body.end_col_offset):
            return node
    return None


@cache
def _compiled(file: str) -> set[CodeType]:
    """The code of all functions in a file, as it is now."""
    try:
        waiting = [compile("".join(linecache.getlines(file)), file, "exec", dont_inherit=True)]
    except SyntaxError:
        return set()
    result: set[CodeType] = set()
    while waiting:
        inner = [x for x in waiting.pop().co_consts if isinstance(x, CodeType)]
        result.update(inner)
        waiting += inner
    return result


@cache
def _definitions(file: str) -> dict[int, list[ast.Lambda | ast.FunctionDef]]:
    """The functions of a file by the line that they begin at."""
    result: dict[int, list[ast.Lambda | ast.FunctionDef]] = {}
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return result
    for node in ast.walk(tree):
        if isinstance(node, (ast.Lambda, ast.FunctionDef)):
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
            line = min([node.lineno, *(d.lineno for d in decorators)])
            result.setdefault(line, []).append(node)
    return result


# -- statements to expressions -------------------------------------------------------------------


def _run(statements: list[ast.stmt], known: dict[str, ast.expr]) -> ast.expr:
    """The value that statements return, given the values of some local names."""
    known = dict(known)
    for i, statement in enumerate(statements):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Return) and statement.value is not None:
            return _small(filled(statement.value, known))
        if isinstance(statement, ast.Raise):
            return ast.Call(ast.Name("not_defined", ast.Load()), [], [])
        if isinstance(statement, ast.If):
            rest = statements[i + 1 :]
            test = filled(statement.test, known)
            then = _run([*statement.body, *rest], known)
            otherwise = _run([*statement.orelse, *rest], known)
            return _small(ast.IfExp(test, then, otherwise))
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                _assign(target, statement.value, known)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            _assign(statement.target, statement.value, known)
        else:
            raise TooLongError
    raise TooLongError


def _assign(target: ast.expr, value: ast.expr, known: dict[str, ast.expr]) -> None:
    if isinstance(target, ast.Name):
        known[target.id] = _small(filled(value, known))
        return
    if not isinstance(target, ast.Tuple):
        raise TooLongError
    parts = [_small(filled(part, known)) for part in _parts(value, len(target.elts))]
    for one, part in zip(target.elts, parts, strict=True):
        if not isinstance(one, ast.Name):
            raise TooLongError
        known[one.id] = part


def _parts(value: ast.expr, count: int) -> list[ast.expr]:
    """The values that are unpacked from one."""
    if isinstance(value, ast.Tuple) and len(value.elts) == count:
        return value.elts
    if isinstance(value, ast.GeneratorExp):  # the same expression for each of several
        loop = value.generators[0]
        over, target = loop.iter, loop.target
        if isinstance(over, ast.Tuple) and isinstance(target, ast.Name) and not loop.ifs:
            return [filled(value.elt, {target.id: one}) for one in over.elts]
        raise TooLongError
    if isinstance(value, (ast.Name, ast.Attribute)):
        return [ast.Subscript(value, ast.Constant(i), ast.Load()) for i in range(count)]
    raise TooLongError


def _small(expression: ast.expr) -> ast.expr:
    if sum(1 for _ in ast.walk(expression)) > LONGEST:
        raise TooLongError
    return expression


class _Filler(ast.NodeTransformer):
    def __init__(self, known: Mapping[str, ast.expr]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        result = self.known.get(node.id)
        return node if result is None else copy.deepcopy(result)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        raise TooLongError

    def _own_names(self, node: Any) -> ast.expr:
        bound = {
            n.id
            for loop in node.generators
            for n in ast.walk(loop.target)
            if isinstance(n, ast.Name)
        }
        inner = _Filler({name: x for name, x in self.known.items() if name not in bound})
        inner.generic_visit(node)
        return node  # type: ignore[no-any-return]

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._own_names(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self._own_names(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        raise TooLongError


def filled(expression: ast.expr, known: Mapping[str, ast.expr]) -> ast.expr:
    """An expression with names replaced by their values."""
    result: ast.expr = _Filler(known).visit(copy.deepcopy(expression))
    return result
