"""The rule of a node, in words and as formulas.

Formulas come from the source of the rules themselves: a reader sees the code that a node runs,
rearranged (``_expressions``, ``_formulas``). A rule that is too complex for a formula is shown as a
call.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from retrograd.autograd._history import CopySlices
from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.autograd._operation_node import OperationNode
from retrograd.autograd.function import Function, FunctionCtx
from retrograd.ops._operands import Rule
from retrograd.ops._operation import Operation
from retrograd.viz import _words
from retrograd.viz._expressions import expression_of
from retrograd.viz._formulas import formula, names_in

LONGEST = 180  # characters of a formula; beyond, a rule is shown as a call


@dataclass(slots=True)
class Described:
    """A rule as text."""

    words: str
    formulas: list[str] = field(default_factory=list)  # one for each input; "" where there is none
    source: str | None = None  # the source of a user's backward

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {"words": self.words, "formulas": list(self.formulas)}
        if self.source is not None:
            result["source"] = self.source
        return result


# -- operations of the table ---------------------------------------------------------------------


def expression_for(operation: Operation, position: int) -> ast.expr | None:
    """The gradient of one input as an expression in ``g`` and in what the rule names."""
    rule = operation.joint or operation.rules[position]
    if rule is None:
        return None
    name = operation.inputs[position]
    written = _words.EXPRESSIONS.get(operation.name, {}).get(name)
    if written is not None:
        return ast.parse(written, mode="eval").body
    result = expression_of(rule.function)
    if operation.joint is not None and isinstance(result, ast.List):
        return result.elts[position] if position < len(result.elts) else None
    return result


@lru_cache(maxsize=4096)
def formulas(
    operation: Operation, complex_numbers: bool = False, options: tuple[tuple[str, Any], ...] = ()
) -> tuple[str, ...]:
    """For each input of an operation, how its gradient is computed; "" where it has none. Known
    options decide between branches of a rule.

    >>> from retrograd.ops import products
    >>> from retrograd.ops.pointwise import trigonometry
    >>> formulas(trigonometry.tanh)
    ('grad_self = grad · (1 − result²)',)
    >>> formulas(products.mm)
    ('grad_self = grad @ mat2ᵀ', 'grad_mat2 = selfᵀ @ grad')
    """
    result = []
    about = {"complex_numbers": complex_numbers, "options": dict(options)}
    for position, name in enumerate(operation.inputs):
        rule = operation.joint or operation.rules[position]
        right = "" if rule is None else _right_side(operation, rule, position, about)
        result.append(f"grad_{name} = {right}" if right else "")
    return tuple(result)


def _right_side(operation: Operation, rule: Rule, position: int, about: dict[str, Any]) -> str:
    name = operation.inputs[position]
    text = _words.TEXTS.get(operation.name, {}).get(name)
    if text is not None:
        return text
    expression = expression_for(operation, position)
    if expression is not None:
        names = {} if operation.name in _words.EXPRESSIONS else names_in(rule.function)
        outputs = operation.output_names if operation.output_names != ("result",) else ()
        result = formula(expression, names, of=name, outputs=outputs, **about)
        if len(result) <= LONGEST:
            return result
    own = rule.function.__name__.strip("_")
    kernel = own if own not in ("<lambda>", "rule") else f"{operation.name}_backward"
    index = f"[{position}]" if operation.joint and len(operation.inputs) > 1 else ""
    needed = [n for n in rule.names if n not in ("shape", "shapes", "needs")]
    return f"{kernel}({', '.join(['grad', *needed])}){index}"


@cache
def words(operation: Operation) -> str:
    """What the rule of an operation does.

    >>> from retrograd.ops import elementwise
    >>> words(elementwise.relu)
    'Where the result is positive the gradient passes unchanged; elsewhere it is zero.'
    """
    if operation.words:
        return operation.words
    right = [f.partition(" = ")[2] for f in formulas(operation) if f]
    if right and all(x == "grad" for x in right):
        return _words.UNCHANGED
    if right and all(x == "0" for x in right):
        return _words.NOTHING
    if right and all(x == "not defined" for x in right):
        return _words.NOT_DEFINED
    return _words.BY_FAMILY[operation.family].format(name=operation.name)


# -- nodes ---------------------------------------------------------------------------------------


def rule_of(node: Node, shape: tuple[int, ...] | None = None) -> Described:
    """The rule of a node. ``shape``: that of the incoming gradient, if known."""
    if isinstance(node, AccumulateGrad):
        return Described("A leaf: what arrives is added to its .grad.", [".grad = .grad + grad"])
    if isinstance(node, CopySlices):
        inner = rule_of(node.write)
        return Described(
            "A view was written in place. Where the view lies, the rule of the write applies: "
            f"{inner.words} Elsewhere the gradient passes unchanged.",
            inner.formulas,
            inner.source,
        )
    if isinstance(node, FunctionCtx):
        return _rule_of_function(node)
    if isinstance(node, OperationNode):
        return _rule_of_operation(node, shape)
    about = (inspect.getdoc(type(node)) or type(node).__name__).split("\n\n")[0]
    return Described(" ".join(about.split()), ["" for _ in node.next_nodes])


def _rule_of_operation(node: OperationNode, shape: tuple[int, ...] | None) -> Described:
    operation, extras = node.operation, node.extras
    complex_numbers = extras is not None and extras.conjugate
    simple = (bool, int, float, str, type(None))
    options = getattr(node, "options", None) or {}
    known = tuple((k, v) for k, v in options.items() if type(v) in simple)
    result = list(formulas(operation, complex_numbers, known))
    if operation.inputs == ("tensors",):
        one = result[0].removeprefix("grad_tensors = ") if result else ""
        result = [f"grad_tensors[{i}] = {one}" for i in range(len(node.next_nodes))]
    # Gradients that are not needed are not computed.
    wanted = [*(to is not None for to in node.next_nodes), *[True] * len(result)]
    result = [text if is_wanted else "" for text, is_wanted in zip(result, wanted, strict=False)]
    said = words(operation)
    for position, needed in broadcast_inputs(node, result, shape) if shape is not None else ():
        assert shape is not None
        result[position] = summed(result[position], shape, needed)
        if not said.endswith(_words.SUMMED):
            said += _words.SUMMED
    if complex_numbers:
        said += " The numbers are complex: the values in the formula are conjugated."
    return Described(said, result)


def broadcast_inputs(
    node: OperationNode, formulas: list[str], shape: tuple[int, ...]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The inputs that were smaller than the result, whose gradients are summed: positions and
    shapes. ``shape``: of the gradient that comes."""
    fit = node.extras.fit if node.extras is not None else None
    pairs = zip(node.next_nodes, fit or (), formulas, strict=False)
    for position, (to, needed, text) in enumerate(pairs):
        right = text.partition(" = ")[2]
        of_elements = node.operation.of_elements and "[" not in right
        if to is None or needed is None or not (of_elements or right in ("grad", "grad · beta")):
            continue
        sizes = zip(reversed(shape), reversed(needed[0]), strict=False)
        is_smaller = len(needed[0]) <= len(shape) and shape != tuple(needed[0])
        if is_smaller and all(own in (1, size) for size, own in sizes):
            yield position, tuple(needed[0])


def summed(text: str, shape: tuple[int, ...], needed: tuple[int, ...]) -> str:
    """A formula with the sum that brings its gradient from one shape to another.

    >>> summed("grad_self = grad", (2, 1), (1,))
    'grad_self = sum(grad, dim=0)'
    >>> summed("grad_self = grad · other", (4, 3), (4, 1))
    'grad_self = sum(grad · other, dim=1, keepdim=True)'
    """
    left, _, right = text.partition(" = ")
    new = len(shape) - len(needed)
    kept = [i for i, size in enumerate(needed, new) if size == 1 and shape[i] != 1]
    dims = [*range(new), *kept]
    dims_text = str(tuple(dims)) if len(dims) > 1 else str(dims[0])
    if " where " in right or " with " in right:  # words
        return f"{text}; then summed over dim {dims_text.strip('()')}"
    total = f"sum({right}, dim={dims_text}"
    if not kept:
        return f"{left} = {total})"
    return f"{left} = {total}).reshape{needed}" if new else f"{left} = {total}, keepdim=True)"


def _rule_of_function(node: FunctionCtx) -> Described:
    """A user's backward: its location and its text."""
    function = type(node).function
    backward = function.vjp if function.vjp is not Function.vjp else function.backward
    backward = inspect.unwrap(backward)
    code = getattr(backward, "__code__", None)
    where = f" at {os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else ""
    if getattr(backward, "__module__", "").startswith("retrograd."):
        text = " ".join((inspect.getdoc(function) or function.__name__).split("\n\n")[0].split())
        return Described(text, ["" for _ in node.next_nodes])
    try:
        source = inspect.cleandoc("\n" + inspect.getsource(backward))
    except (OSError, TypeError):  # typed at a prompt, or made by exec
        source = None
    count = len(node.output_infos)
    gradients = "grad" if count == 1 else ", ".join(f"grad_{i}" for i in range(count))
    call = f"{function.__name__}.backward(ctx, {gradients})"
    names = _input_names(node, function)
    has_more_inputs = len(node.is_tensor) > 1
    formulas = [
        f"grad_{name} = {call}{f'[{i}]' if has_more_inputs else ''}"
        for i, name in enumerate(names)
        if node.is_tensor[i]
    ]
    return Described(f"Defined by you{where}: {function.__name__}.backward.", formulas, source)


def _input_names(node: FunctionCtx, function: Any) -> list[str]:
    """What forward calls its inputs."""
    try:
        names = list(inspect.signature(function.forward).parameters)
    except (TypeError, ValueError):
        names = []
    if function.setup_context is Function.setup_context:
        names = names[1:]  # without ctx
    count = len(node.is_tensor)
    return [names[i] if i < len(names) else f"input{i}" for i in range(count)]
