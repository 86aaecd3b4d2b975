"""Names for tensors: of parameters, of variables that hold them, of what a line assigns to.

A tensor has no name of its own. Its name is that of a parameter, of a variable in the code that
asks for a picture, or of the target of an assignment whose right side is its operation. The last is
exact: Python knows the source columns of each instruction.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

from retrograd.autograd._node import Node
from retrograd.nn.module import Module
from retrograd.tensor._tensor import Tensor

MOST_ENTRIES = 1000  # of a list that tensors are looked for in
Variables = Sequence[tuple[str, Any]]
Span = tuple[int, int, int, int]  # first line, last line, first column, last column
Operands = tuple[type[ast.operator], ast.expr, ast.expr]
OPERATORS: dict[str, type[ast.operator]] = {  # operations by which Tensors implement operators
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div, "matmul": ast.MatMult,
    "mm": ast.MatMult, "mv": ast.MatMult, "dot": ast.MatMult, "bmm": ast.MatMult,
}  # fmt: skip
REFLECTED = ("add", "mul")  # operations that take a number on the left as their second input
LONGEST_OPERAND = 20  # characters


class Names:
    """What is known by name: leaves, results and constants."""

    def __init__(self) -> None:
        self.tensors: dict[int, str] = {}  # by the id of the tensor
        self.results: dict[tuple[int, int], str] = {}  # by node and number of the output
        self.arrays: dict[int, str] = {}  # by the id of the raw array: constants
        self.parameters: dict[int, str] = {}  # names that contain a module path
        self.kinds: dict[str, str] = {}  # classes of modules, by their paths
        self._kept: list[Any] = []  # kept alive, so that ids stay valid

    @classmethod
    def of(cls, params: Any, frame: FrameType | None = None) -> Names:
        """Names of parameters, and of the variables of a piece of running code."""
        names = cls()
        if isinstance(params, Module):
            names.add_kinds("", params)
        for name, tensor in named(params):
            names.parameters[id(tensor)] = name
            names.add(name, tensor)
        if frame is not None:
            names.look_at(frame, with_modules=params is None)
        return names

    def add(self, name: str, tensor: Any) -> None:
        """Give a tensor a name, if it has none yet."""
        self._kept.append(tensor)
        self.tensors.setdefault(id(tensor), name)
        self.arrays.setdefault(id(tensor._data), name)
        if tensor._node is not None:
            self.results.setdefault((id(tensor._node), tensor._number or 0), name)

    def add_kinds(self, prefix: str, module: Module) -> None:
        """Note the classes of a Module and of those in it."""
        for path, inner in module.named_modules():
            self.kinds[prefix + path] = type(inner).__name__

    def look_at(self, frame: FrameType, with_modules: bool) -> None:
        """Take the names of variables, those of the function before those of its file."""
        result = [
            (name, value)
            for name, value in (*variables(frame), *frame.f_globals.items())
            if not name.startswith("_") and name not in ("In", "Out")
        ]
        if with_modules:
            for prefix, module in modules_in(result):
                self.add_kinds(prefix, module)
                for path, parameter in module.named_parameters():
                    self.parameters.setdefault(id(parameter), prefix + path)
                    self.add(prefix + path, parameter)
        for name, tensor in tensors_in(result):
            self.add(name, tensor)


def modules_in(variables: Variables) -> list[tuple[str, Module]]:
    """The Modules with parameters among variables, and what to put before the names of these: the
    variable, where there are several Modules."""
    result: dict[int, tuple[str, Module]] = {}
    for name, value in variables:
        if isinstance(value, Module) and next(value.parameters(), None) is not None:
            result.setdefault(id(value), (name, value))
    qualify = len(result) > 1
    return [(f"{name}." if qualify else "", module) for name, module in result.values()]


def tensors_in(variables: Variables) -> Iterator[tuple[str, Tensor]]:
    """The tensors among variables, and in lists that are not too long."""
    for name, value in variables:
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)) and len(value) <= MOST_ENTRIES:
            for i, entry in enumerate(value):
                if isinstance(entry, Tensor):
                    yield f"{name}[{i}]", entry


def variables(frame: FrameType) -> list[tuple[str, Any]]:
    """The local variables of a piece of running code."""
    space = frame.f_locals
    if space is frame.f_globals:
        return []
    result = list(space.items())
    # Before Python 3.13 a frame keeps this dictionary, and thus the graph, until the function ends.
    # Nobody else has it, unless locals() was called or a debugger is attached.
    if (
        sys.version_info < (3, 13)
        and frame.f_code.co_flags & inspect.CO_OPTIMIZED
        and sys.gettrace() is None
        and sys.getrefcount(space) <= 3
    ):
        space.clear()
    return result


def named(params: Any) -> Iterable[tuple[str, Any]]:
    """The names and tensors of a Module, a dictionary, or the result of ``named_parameters``."""
    if params is None:
        return []
    if isinstance(params, Module):
        return [*params.named_parameters(), *params.named_buffers()]
    pairs = params.items() if isinstance(params, Mapping) else params
    checked = []
    for pair in pairs:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[1], Tensor)):
            raise TypeError(
                "params must be a Module, a dictionary of tensors by name, or pairs of a name and "
                f"a tensor as named_parameters() gives them, but has {_kind(pair)} in it"
            )
        checked.append((str(pair[0]), pair[1]))
    return checked


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return "a Tensor without a name"
    return f"a {type(value).__name__}"


# -- names in the source -------------------------------------------------------------------------


class Source:
    """The files that a graph was made in: lines, and what they assign to."""

    def __init__(self) -> None:
        self._positions: dict[CodeType, list[Any]] = {}
        self._assigned: dict[str, dict[Span, tuple[str, ...]]] = {}
        self._operands: dict[str, dict[Span, Operands]] = {}

    def span(self, node: Node) -> tuple[str, Span] | None:
        """The file, and the piece of it that made a node."""
        code = node.code
        if code is None:
            return None
        if code not in self._positions:
            self._positions[code] = list(code.co_positions())
        positions = self._positions[code]
        at = node.lasti // 2
        first, last, left, right = positions[at] if at < len(positions) else (None,) * 4
        line = first or code.co_firstlineno
        return code.co_filename, (line, last or line, left or 0, right or 0)

    def assigned(self, node: Node, number: int) -> str | None:
        """The variable that output ``number`` of a node is assigned to where it is made."""
        outputs = getattr(node, "outputs", None)
        result = self.span(node)
        if result is None:
            return None
        file, span = result
        if file not in self._assigned:
            self._assigned[file] = assignments("".join(linecache.getlines(file)))
        targets = self._assigned[file].get(span, ())
        if outputs is None:
            return targets[0] if len(targets) == 1 else None
        return targets[number] if len(targets) == len(outputs) else None

    def operand(self, node: Node, position: int) -> str | None:
        """An input of a node as the source has it, where that is short and the node comes from an
        operator: ``x`` in ``x + y``."""
        operand = self._operand(node, position)
        text = None if operand is None else ast.unparse(operand)
        return text if text is not None and len(text) <= LONGEST_OPERAND else None

    def number(self, node: Node, position: int) -> str | None:
        """An input of a node, if it is a number in the source: ``2`` in ``x + 2``."""
        operand = self._operand(node, position)
        return ast.unparse(operand) if operand is not None and is_number(operand) else None

    def _operand(self, node: Node, position: int) -> ast.expr | None:
        result = self.span(node)
        operation = node.operation
        if result is None or operation is None or operation.name not in OPERATORS or position > 1:
            return None
        file, span = result
        if file not in self._operands:
            self._operands[file] = operators("".join(linecache.getlines(file)))
        kind, *operands = self._operands[file].get(span, (None,))
        if kind is not OPERATORS[operation.name]:
            return None
        if position == 0 or operation.name not in REFLECTED:
            return operands[position]
        # ``2 + x`` calls x.__radd__(2), and has the operands of ``x + 2``.
        left, right = operands
        if is_number(left) or self._makes(right, node.next_nodes[0]):
            return left
        return right if is_number(right) or self._makes(left, node.next_nodes[0]) else None

    def _makes(self, operand: ast.expr, node: Node | None) -> bool:
        """Whether an operand is the expression that made a node, or the variable it was assigned
        to."""
        if node is None:
            return False
        made = self.span(node)
        if isinstance(operand, ast.Name):
            return self.assigned(node, 0) == operand.id
        return made is not None and made[1] == _span(operand)


def is_number(expression: ast.expr) -> bool:
    """Whether an expression is a number."""
    plain = expression.operand if isinstance(expression, ast.UnaryOp) else expression
    return isinstance(plain, ast.Constant) and isinstance(plain.value, (int, float))


def operators(source: str) -> dict[Span, Operands]:
    """The operators of a program with their operands, by their places."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    result: dict[Span, Operands] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            result[_span(node)] = type(node.op), node.left, node.right
        elif isinstance(node, ast.AugAssign):
            result[_span(node)] = type(node.op), node.target, node.value
    return result


def assignments(source: str) -> dict[Span, tuple[str, ...]]:
    """The plain names that statements assign to, by the place of what is assigned.

    >>> assignments("y = x + 2\\na, b = f(x)\\n")
    {(1, 1, 4, 9): ('y',), (2, 2, 7, 11): ('a', 'b')}
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a cell with magic commands, or no Python at all
        return {}
    result: dict[Span, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        target: ast.expr
        if isinstance(node, ast.Assign):
            target, value = node.targets[-1], node.value
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            target, value = node.target, node.value
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                result[_span(node)] = (node.target.id,)
            continue
        else:
            continue
        unpacks = isinstance(target, ast.Tuple | ast.List)
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        if len(parts) == 1 and unpacks:  # unpacks a list of one element: the result is inside
            continue
        if all(isinstance(p, ast.Name) for p in parts):
            result[_span(value)] = tuple(p.id for p in parts if isinstance(p, ast.Name))
    return result


def _span(node: ast.AST) -> Span:
    at: Any = node
    return (at.lineno, at.end_lineno, at.col_offset, at.end_col_offset)
