"""What cut a graph, and where: read from the source of the user's program.

Nothing is recorded of what has no history, so a tensor cannot tell that it was detached. But the
lines that computed it are there to be read. From the expression that is asked about, definitions
are followed backwards, through the functions and modules that are called, to whatever requires
grad; what discards the history on the way is a cut.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from retrograd import _source
from retrograd.autograd._explaining._names import is_module
from retrograd.autograd._roots import is_tensor

MOST_CALLS = 4  # how deep functions that call functions are followed

INTEGERS = "integers have no derivative"
BOOLEANS = "a comparison gives True or False, which has no derivative"

# What cuts, by the name of a method, function or attribute: why, and what to do about it.
KINDS = {
    "no_grad": ("nothing is recorded in the block", "compute it outside of the block"),
    "inference_mode": ("nothing is recorded in the block", "compute it outside of the block"),
    "set_grad_enabled": ("recording is switched off", "switch it on before this line"),
    "detach": ("it returns the values without their history", "leave out .detach()"),
    "data": ("it is the values without their history", "use the tensor itself, without .data"),
    "item": ("it returns a Python number", "keep the tensor: leave out .item()"),
    "tolist": ("it returns Python numbers", "keep the tensor: leave out .tolist()"),
    "float": ("it returns a Python number", "keep the tensor: leave out float()"),
    "int": ("it returns a Python number", "keep the tensor: leave out int()"),
    "numpy": (
        "an array does not record what is computed with it",
        "pass the tensor itself to functions of torch or of NumPy",
    ),
    "tensor": (
        "it copies the values, without their history",
        "use the tensor itself, or torch.stack([...]) for a list of tensors",
    ),
    "Parameter": ("it makes a new leaf of the values", "assign the tensor itself"),
    "argmax": (
        f"it returns indices, and {INTEGERS}",
        "compute the loss from the scores themselves (cross_entropy, softmax)",
    ),
    "comparison": (BOOLEANS, "use a function with a slope, such as sigmoid(x - threshold)"),
    "long": (f"{INTEGERS}", "keep floating point numbers"),
}
ALIASES = {
    "detach_": "detach", "argmin": "argmax", "argsort": "argmax", "as_tensor": "tensor",
    "from_numpy": "numpy", "FloatTensor": "tensor", "Tensor": "tensor", "bool": "long",
    "byte": "long", "short": "long", "no_grad": "no_grad", "gt": "comparison", "ge": "comparison",
    "lt": "comparison", "le": "comparison", "eq": "comparison", "ne": "comparison",
}  # fmt: skip
BLOCKS = ("no_grad", "inference_mode", "set_grad_enabled")
METHODS = {"detach", "detach_", "item", "tolist", "numpy", "argmax", "argmin", "argsort", "long",
           "int", "bool", "byte", "short", "gt", "ge", "lt", "le", "eq", "ne"}  # fmt: skip
FUNCTIONS = {"tensor", "as_tensor", "from_numpy", "FloatTensor", "Tensor", "Parameter", "float",
             "int", "argmax", "argmin", "argsort", "gt", "ge", "lt", "le", "eq", "ne"}  # fmt: skip

COPIED_BY_NUMPY = {"array", "asarray", "float32", "float64"}  # all else of NumPy's is recorded


class Cut(NamedTuple):
    """Something that discards the history of a value."""

    kind: str  # a key of KINDS
    shown: str  # as the user wrote it: ``.detach()``
    where: str  # ``train.py:12``
    code: str  # the line

    @property
    def cause(self) -> str:
        """``The graph is cut at train.py:12 by .detach(): it returns ...``."""
        return f"The graph is cut at {self.where} by {self.shown}: {KINDS[self.kind][0]}."

    @property
    def cure(self) -> str:
        return f"At {self.where}, {KINDS[self.kind][1]}."


class Definition(NamedTuple):
    """An assignment: what is assigned, and in which blocks."""

    value: ast.expr
    line: int
    block: str | None  # "no_grad" and the like, if it is in such a block


class Scope:
    """The body of a function, or of a file, as source; and the objects that its names stand for."""

    def __init__(
        self, tree: ast.AST, file: str, look_up: Callable[[str], Any], above: int = 0
    ) -> None:
        self.tree, self.file, self.look_up, self.above = tree, file, look_up, above
        self.definitions: dict[str, list[Definition]] = {}
        self.returns: list[Definition] = []
        self.parameters: set[str] = set()
        body = getattr(tree, "body", [])
        if isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            arguments = tree.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            self.parameters = {a.arg for a in every}
        if isinstance(tree, ast.Lambda):
            self.returns.append(Definition(tree.body, tree.lineno, None))
            return
        block = None
        for decorator in getattr(tree, "decorator_list", ()):
            block = _block(decorator) or block
        self._collect(body, block)

    def _collect(self, body: list[ast.stmt], block: str | None) -> None:
        for statement in body:
            line = statement.lineno
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self._define(target, statement.value, line, block)
            elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
                if statement.value is not None:
                    self._define(statement.target, statement.value, line, block)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                self.returns.append(Definition(statement.value, line, block))
            elif isinstance(statement, ast.For):
                self._define(statement.target, statement.iter, line, block)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                self._appended(statement.value, line, block)
            inner = block
            if isinstance(statement, (ast.With, ast.AsyncWith)):
                for item in statement.items:
                    inner = _block(item.context_expr) or inner
            for name in ("body", "orelse", "finalbody"):
                self._collect(getattr(statement, name, []), inner)
            for handler in getattr(statement, "handlers", ()):
                self._collect(handler.body, inner)

    def _define(self, target: ast.expr, value: ast.expr, line: int, block: str | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for one in target.elts:
                self._define(one, value, line, block)
        elif isinstance(target, ast.Starred):
            self._define(target.value, value, line, block)
        elif isinstance(target, (ast.Name, ast.Attribute)):
            name = ast.unparse(target)
            self.definitions.setdefault(name, []).append(Definition(value, line, block))
        elif isinstance(target, ast.Subscript):
            self._define(target.value, value, line, block)

    def _appended(self, call: ast.Call, line: int, block: str | None) -> None:
        """``outputs.append(h)`` makes ``outputs`` of ``h``."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "extend"):
            for argument in call.args:
                self._define(call.func.value, argument, line, block)

    def where(self, line: int) -> str:
        return f"{os.path.basename(self.file)}:{self.above + line}"

    def code(self, line: int) -> str:
        return linecache.getline(self.file, self.above + line).strip()


def _block(expression: ast.expr) -> str | None:
    """Whether a context, or a decorator, switches recording off."""
    call = expression if isinstance(expression, ast.Call) else None
    name = ast.unparse(call.func if call else expression).rpartition(".")[2]
    if name not in BLOCKS:
        return None
    if name == "set_grad_enabled" and not (call and call.args and _is_false(call.args[0])):
        return None
    return name


def _is_false(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Constant) and expression.value is False


# -- following definitions -----------------------------------------------------------------------


class Reader:
    """Follows definitions from an expression to what ``wanted`` says it is about."""

    def __init__(self, wanted: Callable[[str, Any], bool], depth: int = 0) -> None:
        self.wanted = wanted  # of a name, and the object that it stands for
        self.depth = depth  # of calls
        self.known: dict[Any, list[Cut]] = {}

    def read(self, scope: Scope, definition: Definition) -> list[Cut]:
        """The cuts on the paths from an expression to what is wanted. Of several on one path, the
        last that is found counts, which is where the history was first lost."""
        key = (definition.line, ast.dump(definition.value))
        if key in self.known:
            return self.known[key]
        self.known[key] = []  # as long as it is being read: a loop leads back here
        value, line = definition.value, definition.line
        cuts: list[Cut] = []
        for node in ast.walk(value):
            for cut in self._read_node(scope, node, definition):
                if cut not in cuts:
                    cuts.append(cut)
        if definition.block is not None and not cuts and self._leads(scope, value, set()):
            cuts.append(_at(scope, definition.block, f"torch.{definition.block}()", line))
        self.known[key] = cuts
        return cuts

    def _read_node(self, scope: Scope, node: ast.AST, definition: Definition) -> list[Cut]:
        """The cuts at one node of an expression, or behind it."""
        cut = _cut(node, scope)
        if cut is not None:
            kind, shown, operands = cut
            operands = [x for x in operands if self._leads(scope, x, set())]
            if not operands:
                return []
            line = getattr(node, "lineno", definition.line)
            own = _at(scope, kind, shown, line)
            behind = [
                cut
                for x in operands
                if isinstance(x, ast.expr)
                for cut in self.read(scope, Definition(x, line, None))
            ]
            return behind if any(cut.where != own.where for cut in behind) else [own, *behind]
        if isinstance(node, ast.Call) and self.depth < MOST_CALLS:
            return [
                cut
                for called in _called(scope, node)
                for result in called.returns
                for cut in Reader(_parameter_of(called), self.depth + 1).read(called, result)
            ]
        if isinstance(node, (ast.Name, ast.Attribute)):
            definitions = scope.definitions.get(ast.unparse(node), ())
            return [cut for one in definitions for cut in self.read(scope, one)]
        return []

    def _leads(self, scope: Scope, expression: ast.AST, seen: set[str]) -> bool:
        """Whether an expression was computed from the target."""
        for node in ast.walk(expression):
            if not isinstance(node, (ast.Name, ast.Attribute)):
                continue
            name = ast.unparse(node)
            if name in seen:
                continue
            seen.add(name)
            if self.wanted(name, scope.look_up(name)):
                return True
            if any(self._leads(scope, d.value, seen) for d in scope.definitions.get(name, ())):
                return True
        return False


def _at(scope: Scope, kind: str, shown: str, line: int) -> Cut:
    return Cut(kind, shown, scope.where(line), scope.code(line))


def _parameter_of(called: Scope) -> Callable[[str, Any], bool]:
    """In a called function: the parameter that corresponds to the target."""
    return lambda name, value: name in called.parameters


def _cut(node: ast.AST, scope: Scope) -> tuple[str, str, list[ast.AST]] | None:
    """Whether a piece of source discards history: the kind, how to show it, and of what."""
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return "data", ".data", [node.value]
    if isinstance(node, ast.Compare):
        operator = ast.unparse(node)
        kept = any(isinstance(o, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for o in node.ops)
        return None if kept else ("comparison", operator, [node.left, *node.comparators])
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
    operands: list[ast.AST] = [*node.args, *(k.value for k in node.keywords)]
    if isinstance(function, ast.Attribute):
        owner = scope.look_up(ast.unparse(function.value))
        if getattr(owner, "__name__", "") == "numpy" and name in COPIED_BY_NUMPY:
            return "numpy", f"{ast.unparse(function)}()", operands
        if inspect.ismodule(owner):
            shown = f"{ast.unparse(function)}()"
            return (ALIASES.get(name, name), shown, operands) if name in FUNCTIONS else None
        if name in METHODS:
            return ALIASES.get(name, name), f".{name}()", [function.value]
        if name == "to" and any(w in ast.unparse(x) for x in operands for w in ("int", "bool")):
            return "long", ast.unparse(node)[len(ast.unparse(function.value)) :], [function.value]
        return None
    if name in FUNCTIONS:
        return ALIASES.get(name, name), f"{name}()", operands
    return None


def _called(scope: Scope, call: ast.Call) -> Iterator[Scope]:
    """The functions of the user that a call runs: of a function, or the ``forward`` of modules."""
    target = scope.look_up(ast.unparse(call.func))
    if target is None:
        return
    if is_module(target):
        for part in target.modules():
            result = scope_of_function(type(part).forward, part)
            if result is not None:
                yield result
    elif inspect.isfunction(target) or inspect.ismethod(target):
        result = scope_of_function(target, getattr(target, "__self__", None))
        if result is not None:
            yield result


# -- where source comes from ---------------------------------------------------------------------


def scope_of_function(function: Any, owner: Any = None) -> Scope | None:
    """The body of a function of the user; None if there is no source, or it is not the user's."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(function, "__code__", None)
    if code is None or _source.is_own(code.co_filename):
        return None
    tree = _function_tree(code)
    names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    if owner is not None and code.co_argcount:
        names[code.co_varnames[0]] = owner
    return None if tree is None else Scope(tree, code.co_filename, _looking_in(names))


def scope_of_frame(frame: FrameType) -> Scope | None:
    """What a frame is running."""
    code = frame.f_code
    tree = _file_tree(code.co_filename) if code.co_name == "<module>" else _function_tree(code)
    names = {**frame.f_globals, **frame.f_locals}
    return None if tree is None else Scope(tree, code.co_filename, _looking_in(names))


def _looking_in(names: dict[str, Any]) -> Callable[[str], Any]:
    """The object that a dotted name stands for; None if it is not known. Properties are not run."""

    def look_up(name: str) -> Any:
        first, *rest = name.split(".")
        value = names.get(first)
        for part in rest:
            if value is None or is_tensor(value) or not part.isidentifier():
                return None
            if not is_module(value) and not inspect.ismodule(value):
                value = inspect.getattr_static(value, part, None)
            else:
                value = getattr(value, part, None)
        return value

    return look_up


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _file_tree(file: str) -> ast.Module | None:
    return _parsed("".join(linecache.getlines(file)))


def _function_tree(code: CodeType) -> ast.AST | None:
    """The definition of a function in its file."""
    tree = _file_tree(code.co_filename)
    kinds = ast.Lambda if code.co_name == "<lambda>" else (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, kinds):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            if first == code.co_firstlineno:
                return node
    return None


# -- what is asked -------------------------------------------------------------------------------


def cuts_of(frame: FrameType | None, start: str, target: Any = None) -> list[Cut]:
    """What cut the graph between an expression in a frame, such as a variable, and a tensor, or
    anything that requires grad."""
    scope = scope_of_frame(frame) if frame is not None else None
    try:
        expression = ast.parse(textwrap.dedent(start).strip(), mode="eval").body
    except SyntaxError:
        return []
    if scope is None or frame is None:
        return []
    reader = Reader(_wanted(target))
    return _by_line(reader.read(scope, Definition(expression, frame.f_lineno, None)))


def _by_line(cuts: list[Cut]) -> list[Cut]:
    """One cut for each line: of ``x.detach().numpy()``, NumPy is what matters."""
    order = ["numpy", "tensor", *KINDS]
    best: dict[str, Cut] = {}
    for cut in cuts:
        have = best.get(cut.where)
        if have is None or order.index(cut.kind) < order.index(have.kind):
            best[cut.where] = cut
    return list(best.values())


def cuts_before(frame: FrameType | None) -> list[Cut]:
    """What cut the graph of the tensor whose ``backward`` a frame is calling."""
    scope = scope_of_frame(frame) if frame is not None else None
    if scope is None or frame is None:
        return []
    for node in ast.walk(scope.tree):
        if isinstance(node, ast.Call) and node.lineno <= frame.f_lineno <= (node.end_lineno or 0):
            function = node.func
            if isinstance(function, ast.Attribute) and function.attr in ("backward", "grad"):
                owner = scope.look_up(ast.unparse(function.value))
                of = node.args[0] if inspect.ismodule(owner) and node.args else function.value
                reader = Reader(_wanted(None))
                return _by_line(reader.read(scope, Definition(of, node.lineno, None)))
    return []


def _wanted(target: Any) -> Callable[[str, Any], bool]:
    def wanted(name: str, value: Any) -> bool:
        if target is not None:
            return value is target or (
                is_module(value) and any(p is target for p in value.parameters())
            )
        if is_module(value):
            return any(p.requires_grad for p in value.parameters())
        return is_tensor(value) and bool(value.requires_grad)

    return wanted
