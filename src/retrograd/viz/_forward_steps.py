"""The steps of a forward run, and formulas in the words of the program: its variables, its numbers.

A step is an operation as it was recorded: what it was given and what it returned. An operand
without a name is called by the expression that made it, ``(x · w)``, if that is short.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from retrograd.autograd._node import NOWHERE, Node
from retrograd.viz import _facts
from retrograd.viz._formulas import NAMES, SUPERSCRIPT
from retrograd.viz._model import Graph
from retrograd.viz._node_info import NodeInfo, recorded_info
from retrograd.viz._numbers import equation, identifiers, named, number
from retrograd.viz._record_passes import Step
from retrograd.viz._rules import rule_of
from retrograd.viz._values import Value

LONGEST_NAME = 24  # characters of an expression that stands for an operand
ATOM = r"\w+\([^()]*\)|[\w.]+ᵀ"  # expressions that need no parentheses
MOST_NAMED = 5000  # operations whose results are called by an expression

# The results of common operations, in the names of their inputs and options.
RESULTS = {
    "add": "self + other", "sub": "self − other", "rsub": "other − self", "mul": "self · other",
    "div": "self / other", "neg": "−self", "reciprocal": "1 / self", "mm": "self @ mat2",
    "bmm": "self @ mat2", "mv": "self @ vec", "addmm": "self + mat1 @ mat2", "t": "selfᵀ",
    "abs": "|self|", "pow_tensor": "self^exponent", "pow_of_number": "self^exponent",
}  # fmt: skip


class Formulas:
    """The formulas of a graph's nodes, in the words of the program."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names = {item.id: item.name for item in graph.items if item.name}
        self.short: dict[int, str] = {}  # expressions, for results without a name
        for node in graph.nodes[:MOST_NAMED]:
            for _, item in graph.result_items(node):
                text = "" if item in self.names else self.result(node)
                if text and len(text) <= LONGEST_NAME and self._is_known(node):
                    self.short[item] = text if re.fullmatch(ATOM, text) else f"({text})"

    def _is_known(self, node: Node) -> bool:
        """Whether all inputs have names."""
        names = self.input_names(node)
        return bool(names) and all(label != name for label, name in names.items())

    # -- inputs ------------------------------------------------------------------------------

    def operands(self, node: Node) -> list[int | None]:
        """The items of the inputs of a node, where they have one."""
        graph = self.graph
        first = graph.stand_ins.get(node, node)
        numbers = first.extras.next_numbers if first.extras is not None else None
        info = recorded_info(first)
        result: list[int | None] = []
        for position, origin in enumerate(first.next_nodes):
            described = info.inputs[position] if info and position < len(info.inputs) else None
            if origin is None or origin is NOWHERE:
                known = None if described is None else graph.constant_item(described.identity)
            elif _facts.is_leaf(origin):
                known = graph.leaf_item(origin)
            else:
                output = (numbers[position] if numbers else None) or 0
                made = dict(graph.result_items(origin)) if graph.has(origin) else {}
                known = made.get(output)
            result.append(known)
        return result

    def input_names(self, node: Node) -> dict[str, str]:
        """What the inputs of an operation are called; their own names where nothing is known."""
        operation = node.operation
        if operation is None or operation.inputs == ("tensors",):
            return {}
        info = recorded_info(node)
        given = (info.numbers if info else None) or {}
        result = {}
        pairs = zip(operation.inputs, self.operands(node), strict=False)
        for position, (label, item) in enumerate(pairs):
            name = None if item is None else self.names.get(item) or self.short.get(item)
            if name is None and position in given:
                name = number(given[position])
            result[label] = name or label
        options = getattr(node, "options", None) or {}
        numbers = {n: number(x) for n, x in options.items() if type(x) in (int, float)}
        return {n: x for n, x in numbers.items() if n not in ("dim", *result)} | result

    def variables(self, node: Node) -> dict[str, str]:
        """What is known of an operation's inputs, options and result by another name."""
        names = {own: name for own, name in self.input_names(node).items() if own != name}
        made = dict(self.graph.result_items(self.graph.stand_ins.get(node, node)))
        alone = node.operation is not None and node.operation.output_names == ("result",)
        if alone and (name := self.names.get(made.get(0, -1))):
            names["result"] = name
        return names

    # -- formulas ----------------------------------------------------------------------------

    def result(self, node: Node) -> str:
        """What a node computes, in the names of the program: ``x · w``."""
        return named(written(node), self.input_names(node))

    def forward(self, node: Node, info: NodeInfo) -> tuple[str, str]:
        """What a node computes, in names and in numbers."""
        text = self.result(node)
        if not text:
            return "", ""
        items = dict(self.graph.result_items(self.graph.stand_ins.get(node, node)))
        name = self.names.get(items.get(0, -1))
        outputs = info.outputs
        result = outputs[0].value if len(outputs) == 1 else None
        numbers = equation(written(node), values_of(node, info), result)
        return (f"{name} = {text}" if name else text), numbers

    def tangent(self, node: Node, info: NodeInfo, formulas: tuple[str, ...]) -> tuple[str, str]:
        """How a node moves its result, in names and in numbers."""
        operation = node.operation
        result = info.outputs[0].tangent if len(info.outputs) == 1 else None
        if operation is None or result is None or len(info.inputs) < len(operation.inputs):
            return "", ""
        values, names, moving = values_of(node, info), self.input_names(node), []
        for label, described in zip(operation.inputs, info.inputs, strict=False):
            if described is not None and described.tangent is not None:
                own = f"t_{label}"
                values[own], names[own] = described.tangent, f"t({names.get(label, label)})"
                moving.append(label)
        text = tangent_of(node, moving, dict(zip(operation.inputs, formulas, strict=False)))
        return named(text, names), equation(text, values, result)

    def backward(self, step: Step, formulas: list[str]) -> tuple[list[str], list[str]]:
        """The formulas of a rule in names, and in numbers."""
        node = step.node
        if node.operation is None:
            return formulas, ["" for _ in formulas]
        info = recorded_info(node)
        values = {} if info is None else values_of(node, info)
        values |= {name: value for name, value in step.saved if value is not None}
        if len(step.incoming) == 1 and step.incoming[0] is not None:
            values["grad"] = step.incoming[0]
        names = self.variables(node)
        sent = [value for _, value in step.outgoing]
        numbers = [
            equation(text.partition(" = ")[2], values, sent[i]) if text and i < len(sent) else ""
            for i, text in enumerate(formulas)
        ]
        return [named(text, names) if text else "" for text in formulas], numbers


def tangent_of(node: Node, moving: list[str], gradients: dict[str, str]) -> str:
    """The formula of a tangent, by the family of the operation, as forward mode computes it; ""
    where there is no short one. ``moving``: the inputs that have tangents. ``gradients``: the
    formulas of their gradients."""
    operation, forward = node.operation, written(node)
    assert operation is not None
    if operation.family == "linear":  # the same, of the tangents
        return moved(forward, moving)
    if operation.family == "multilinear":  # one factor moves at a time
        return " + ".join(moved(forward, [label]) for label in moving)
    if operation.name == "addmm" and forward == RESULTS["addmm"]:
        parts = {"self": "t_self", "mat1": "t_mat1 @ mat2", "mat2": "mat1 @ t_mat2"}
        return " + ".join(parts[label] for label in moving)
    texts = [gradients.get(label, "").partition(" = ")[2] for label in moving]
    plain = all(text and " where " not in text and "sum(" not in text for text in texts)
    if operation.family != "elementwise" or not plain:
        return ""
    # A gradient and a tangent are both products with the derivative.
    terms = [text.replace("grad", f"t_{label}") for label, text in zip(moving, texts, strict=True)]
    return " + ".join(terms).replace("+ −", "− ")


def moved(text: str, labels: list[str]) -> str:
    """A formula with the tangents of some inputs in their places.

    >>> moved("self @ mat2", ["mat2"])
    'self @ t_mat2'
    """
    return identifiers(labels).sub(lambda m: f"t_{m[1]}", text)


def written(node: Node) -> str:
    """What a node computes, in the names of its operation; "" where that is not known."""
    operation = node.operation
    if operation is None:
        return ""
    options = getattr(node, "options", None) or {}
    plain = options.get("alpha", 1) == 1 and options.get("beta", 1) == 1
    if operation.name == "pow_scalar":
        exponent = options["exponent"]
        whole = float(exponent).is_integer() and abs(exponent) < 100
        return f"self{str(int(exponent)).translate(SUPERSCRIPT)}" if whole else "self^exponent"
    if operation.name == "mse_loss" and options.get("reduction") in ("mean", "sum"):
        return f"{options['reduction']}((self − target)²)"
    if operation.name in RESULTS and plain:
        return RESULTS[operation.name]
    shown = [f"{name}={text}" for name, value in options.items()
             if (text := _facts.option_text(value)) is not None]  # fmt: skip
    name = NAMES.get(operation.name, operation.name)
    return f"{name}({', '.join([*operation.inputs, *shown])})"


def values_of(node: Node, info: NodeInfo) -> dict[str, Any]:
    """The values of inputs, results and options, by the names of the operation."""
    operation = node.operation
    assert operation is not None
    options = getattr(node, "options", None) or {}
    values = {name: x for name, x in options.items() if type(x) in (int, float)}
    for position, name in enumerate(operation.inputs):
        described = info.inputs[position] if position < len(info.inputs) else None
        if described is not None and described.value is not None:
            values[name] = described.value
        elif info.numbers and position in info.numbers:
            values[name] = info.numbers[position]
    for name, described in zip(operation.output_names, info.outputs, strict=False):
        if described.value is not None:
            values.setdefault(name, described.value)
    return values


def recorded(nodes: list[Node]) -> Iterator[tuple[Node, NodeInfo]]:
    """The operations that were seen to run."""
    for node in nodes:
        info = recorded_info(node)
        if info is not None and info.ran:
            yield node, info


# -- as JSON -------------------------------------------------------------------------------------


class ForwardSteps:
    """Writes the steps of forward runs, each operation once."""

    def __init__(self, formulas: Formulas, value: Callable[[Value | None], Any]) -> None:
        self.formulas, self.value = formulas, value
        self._told: set[Node] = set()

    def of(self, nodes: list[Node], most: int) -> list[dict[str, Any]]:
        """The operations that were seen to run and that no earlier run had, oldest first."""
        new = [(node, info) for node, info in recorded(nodes) if node not in self._told]
        self._told.update(node for node, _ in new)
        return [self.step(node, info) for node, info in new[:most]]

    def step(self, node: Node, info: NodeInfo) -> dict[str, Any]:
        graph = self.formulas.graph
        first = graph.stand_ins.get(node, node)
        formula, numbers = self.formulas.forward(node, info)
        labels = () if node.operation is None else node.operation.inputs
        inputs = []
        for position, item in enumerate(self.formulas.operands(node)):
            described = info.inputs[position] if position < len(info.inputs) else None
            plain = (info.numbers or {}).get(position)
            if item is None and plain is None:
                continue
            inputs.append({
                "item": item, "number": None if plain is None else number(plain),
                "label": labels[position] if position < len(labels) else "",
                "name": None if item is None else self.formulas.short.get(item),
                "tangent": None if described is None else self.value(described.tangent),
            })  # fmt: skip
        result: dict[str, Any] = {
            "item": graph.item_of(node), "inputs": inputs, "formula": formula, "numbers": numbers,
            "results": [item for _, item in graph.result_items(first)],
        }  # fmt: skip
        tangents = [self.value(described.tangent) for described in info.outputs]
        if any(tangent is not None for tangent in tangents):
            rules = tuple(rule_of(node).formulas)
            result["tangents"] = tangents
            result["moved"] = list(self.formulas.tangent(node, info, rules))
        return result
