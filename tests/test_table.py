"""The table of operations as a whole: nothing in it untested, and every family keeps its promise.

The samples of ``op_samples`` are run, and the nodes they leave behind (their own, and those of
their gradients) tell which operations they exercise and with which options. From these, rules are
checked on bare arrays against what the family says they are: transposes, slopes, selections.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from op_pool import evaluate, weights_for
from op_samples import SAMPLES

import retrograd
from retrograd.ops import elementwise, linear
from retrograd.ops._operation import TABLE, Operation, Rule

# Operations that no sample leads to (name: reason).
NOT_REACHED = {"imag": "only compared, in the rule of a complex power; users get a view"}
# Inputs without a rule in operations that have others (operation and input: reason).
NO_RULE = {
    ("where", "condition"): "a condition is true or false",
    ("masked_fill", "mask"): "a mask is true or false",
    ("masked_fill_number", "mask"): "a mask is true or false",
}


NO_SLOPE = {
    **dict.fromkeys(("floor_divide", "floor_divide_number"), "has no derivative, as in PyTorch"),
    **NOT_REACHED,
}


class Example(NamedTuple):
    """How an operation was called: options, and the shapes and dtypes of its inputs."""

    operation: Operation
    options: dict[str, Any]
    infos: tuple[tuple[tuple[int, ...], Any], ...]


def operations_of(results: list[Any]) -> Iterator[Any]:
    """The nodes of operations of the table below some tensors, those of in-place writes too."""
    to_visit = [r.grad_fn for r in results if getattr(r, "grad_fn", None) is not None]
    seen = set()
    while to_visit:
        node = to_visit.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        to_visit += [*node.next_nodes, getattr(node, "write", None)]
        if node.operation is not None:
            yield node


def recorded_gradients(leaves: list[Any], results: list[Any]) -> list[Any]:
    """Gradients of the results and of those gradients, each with a graph."""
    found: list[Any] = []
    for _ in range(2):
        roots = [r for r in results if getattr(r, "requires_grad", False)]
        if not roots:
            break
        given = [retrograd.from_numpy(w).requires_grad_(True) for w in weights_for(roots, 100)]
        leaves = leaves + given
        grads = retrograd.autograd.grad(roots, leaves, given, create_graph=True, allow_unused=True)
        results = [g for g in grads if g is not None]
        found += results
    return found


@cache
def examples() -> dict[str, list[Example]]:
    """For each operation that the samples exercise, some different ways to call it."""
    found: dict[str, list[Example]] = {}
    for expression in SAMPLES:
        for dtype in ("float64", "complex128"):
            for node in operations_of(tensors_of(expression, dtype)):
                ways = found.setdefault(node.operation.name, [])
                if len(ways) < 6:
                    add_example(ways, node)
    return found


def tensors_of(expression: str, dtype: str) -> list[Any]:
    """What a sample gives, and its gradients. It may be refused in some dtype, or not be
    differentiable: that the same happens in PyTorch is tested in test_ops."""
    results: list[Any] = []
    with suppress(Exception):
        tensors, results = evaluate(retrograd, expression, dtype)
        leaves = [t for t in tensors.values() if t.requires_grad]
        results = results + recorded_gradients(leaves, results)
    return results


def add_example(ways: list[Example], node: Any) -> None:
    infos = infos_of(node)
    example = Example(node.operation, dict(getattr(node, "options", {})), infos)
    if None not in infos and all(repr(example) != repr(other) for other in ways):
        ways.append(example)


def infos_of(node: Any) -> tuple[Any, ...]:
    """Shapes and dtypes of the inputs of a node. One that no rule asks keeps none; then they are
    those of the saved values, or anything if it saves none."""
    operation = node.operation
    if hasattr(node, "infos"):
        return node.infos
    if not operation.saves or set(operation.saves) <= set(operation.output_names):
        return (((2, 3), np.dtype("float64")),) * len(operation.inputs)
    saved = dict(zip(operation.saves, node.saved[::3], strict=True))
    values = [saved.get(name) for name in operation.inputs]
    return tuple((v.shape, v.dtype) if hasattr(v, "shape") else None for v in values)


def missing() -> list[str]:
    """Differentiable operations that nothing exercises and that no reason is given for."""
    reached = examples()
    return [n for n, op in TABLE.items() if op.differentiable and n not in reached | NOT_REACHED]


def of_family(*families: str) -> list[str]:
    return [n for n, op in TABLE.items() if op.family in families and op.differentiable]


# -- nothing is left out ---------------------------------------------------------------------


def test_every_operation_has_samples() -> None:
    assert missing() == []


def test_an_operation_without_samples_is_noticed() -> None:
    elementwise.elementwise("unheard_of", np.cbrt, lambda g: g)
    try:
        assert missing() == ["unheard_of"]
    finally:
        del TABLE["unheard_of"]


def test_every_input_has_a_rule_or_a_reason() -> None:
    lacking = {
        (name, argument)
        for name, op in TABLE.items()
        if op.differentiable and not op.joint
        for argument, rule in zip(op.inputs, op.rules, strict=True)
        if rule is None
    }
    assert lacking == set(NO_RULE)


def test_every_operation_is_of_a_family() -> None:
    families = {op.family for op in TABLE.values()}
    general = "operation"
    assert families == {"elementwise", "linear", "multilinear", "selecting", "constant", general}
    assert all(op.family != general or op.differentiable for op in TABLE.values())


# -- rules on bare arrays --------------------------------------------------------------------


def draw(random: np.random.Generator, shape: tuple[int, ...], dtype: Any, low: float) -> Any:
    """Numbers between ``low`` and one more, away from the edges of most domains."""
    if dtype is None:
        return 2.0  # a Python number
    if dtype.kind not in "fc":
        return np.asarray(random.integers(0, 2, shape), dtype)
    values = random.uniform(low + 0.2, low + 0.9, (2, *shape))
    mixed = values[0] + 1j * values[1] if dtype.kind == "c" else values[0]
    return np.asarray(mixed, np.complex128 if dtype.kind == "c" else np.float64)


def run_rule(example: Example, rule: Rule, position: int, g: Any, inputs: Any, outputs: Any) -> Any:
    """What a rule gives for ``g``, brought to the shape of the input it is for."""
    operation, options, _ = example
    several = operation.inputs == ("tensors",)
    known = {**options, "shapes": [np.shape(x) for x in inputs], "needs": [True] * len(inputs)}
    known.update(zip(operation.output_names, outputs, strict=False))
    if not several:
        known["shape"] = np.shape(inputs[position])
        known.update(zip(operation.inputs, inputs, strict=True))
    found = rule.function(g, *(known[name] for name in rule.names))
    if several or not operation.broadcasts:
        return found
    return linear.sum_to_shape(np.asarray(found), np.shape(inputs[position]))


def outputs_of(example: Example, inputs: list[Any]) -> tuple[Any, ...]:
    operation, options, _ = example
    several = operation.inputs == ("tensors",)
    arguments = (inputs,) if several else inputs
    found = operation.forward(*arguments, **options)
    return found if isinstance(found, tuple) else (found,)


def pairing(adjoint: bool, xs: Any, ys: Any) -> Any:
    """The sum of products. Rules that give adjoints as they stand mean the real inner product."""
    total = sum(np.sum((np.conj(x) if adjoint else x) * y) for x, y in zip(xs, ys, strict=True))
    return np.real(total) if adjoint else total


def prepared(example: Example, seed: int, low: float = 0.0) -> tuple[list[Any], Any, Any]:
    """Random inputs, what the operation gives for them, and gradients of its float outputs."""
    random = np.random.default_rng(seed)
    inputs = [draw(random, shape, dtype, low) for shape, dtype in example.infos]
    outputs = outputs_of(example, inputs)
    floats = [np.asarray(y) for y in outputs if np.asarray(y).dtype.kind in "fc"]
    grads = [np.asarray(random.uniform(-1, 1, y.shape), y.dtype) for y in floats]
    single = len(outputs) == 1 and example.operation.output_names == ("result",)
    return inputs, outputs, grads[0] if single else grads


def listed(g: Any) -> list[Any]:
    return g if isinstance(g, list) else [g]


@pytest.mark.parametrize("name", of_family("linear", "multilinear", "selecting"))
def test_rule_is_the_transpose(name: str) -> None:
    """<rule(g), x> = <g, forward(x)>: in each array of a multilinear operation with the others
    fixed, and over all arrays together where elements are selected from them."""
    assert examples()[name]
    for seed, example in enumerate(examples()[name]):
        operation = example.operation
        inputs, outputs, g = prepared(example, seed)
        floats = [y for y in outputs if np.asarray(y).dtype.kind in "fc"]
        if not all(np.isfinite(y).all() for y in floats):
            continue  # the mean of nothing
        expected = pairing(operation.adjoint, listed(g), floats)
        if operation.joint:
            back = run_rule(example, operation.joint, 0, g, inputs, outputs)
            totals = [pairing(operation.adjoint, back, inputs)]
        else:
            terms = [
                pairing(operation.adjoint, [run_rule(example, r, i, g, inputs, outputs)], [x])
                for i, (r, x) in enumerate(zip(operation.rules, inputs, strict=True))
                if r is not None and example.infos[i][1] is not None
            ]
            totals = [sum(terms)] if operation.family == "selecting" else terms
        for total in totals:
            if name != "masked_fill_number":  # where the number goes, nothing comes back
                assert total == pytest.approx(expected, rel=1e-9, abs=1e-9), example


@pytest.mark.parametrize("name", of_family("elementwise", "operation"))
def test_rule_is_the_slope(name: str) -> None:
    """Rules agree with differences of the forward, in a direction for all inputs at once."""
    if name in NO_SLOPE:
        pytest.skip(NO_SLOPE[name])
    checked = 0
    for seed, example in enumerate(examples()[name]):
        if example.options.get("dtype") in map(np.dtype, ("float16", "float32", "complex64")):
            continue  # too narrow for differences
        if example.options.get("self") == 0 and example.infos[0][1].kind == "c":
            continue  # a power of zero by a complex number: NaN, as in PyTorch
        for low in (0.0, 1.0):  # where the logarithm is defined, and where acosh is
            inputs, outputs, g = prepared(example, seed, low)
            if all(np.isfinite(y).all() for y in outputs):
                check_slope(example, inputs, outputs, g)
                checked += 1
    assert checked, "nowhere finite"


def check_slope(example: Example, inputs: list[Any], outputs: Any, g: Any) -> None:
    operation = example.operation
    random = np.random.default_rng(7)
    complex_in = any(np.asarray(x).dtype.kind == "c" for x in inputs)
    step, expected, moved = 1e-6, 0.0, [list(inputs), list(inputs)]
    for i, rule in enumerate(operation.rules):
        if rule is None or example.infos[i][1] is None or inputs[i].dtype.kind not in "fc":
            continue
        direction = random.uniform(-1, 1, inputs[i].shape)
        back = run_rule(example, rule, i, np.conj(g) if operation.adjoint else g, inputs, outputs)
        expected += np.sum((np.conj(back) if operation.adjoint else back) * direction)
        for sign, values in zip((1, -1), moved, strict=True):
            values[i] = inputs[i] + sign * step * direction
    ahead, behind = (outputs_of(example, values)[0] for values in moved)
    slope = np.sum(g * (ahead - behind)) / (2 * step)
    if operation.adjoint or not complex_in:
        slope, expected = np.real(slope), np.real(expected)
    assert slope == pytest.approx(expected, rel=1e-6, abs=1e-6 * (1 + abs(expected))), example
