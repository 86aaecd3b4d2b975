"""Kernel and definition of every composite: the same values, gradients and second gradients.

The name puts this file next to test_table.py: one process is then likely to run both, and finds the
examples of operations, which takes a minute, only once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_table import Example, examples

import retrograd
from retrograd.ops._operation import TABLE, Operation, composite, raw

COMPOSITES = [name for name, op in TABLE.items() if op.definition is not None]

# Composites whose kernel and definition are not compared (name: reason).
NOT_COMPARED = {"histogram_of": "no sample calls it: see tests/devices/layer_programs.py"}
# Composites whose second gradient is an error, as in PyTorch.
ONLY_ONCE = ("pdist",)


def variables(example: Example) -> list[Any]:
    """The inputs as Tensors, which require grad where they are numbers that can be moved."""
    inputs: list[Any] = []
    for x in example.inputs:
        if isinstance(x, (np.ndarray, np.generic)):
            x = retrograd.tensor(np.array(x))
            if x.dtype.is_floating_point or x.dtype.is_complex:
                x.requires_grad_()
        inputs.append(x)
    return inputs


def moving(op: Operation, example: Example) -> int | None:
    """Which result to differentiate: the first that moves, which users see of several."""
    results = op.definition(*variables(example), **example.options)  # type: ignore[misc]
    results = results if isinstance(results, tuple) else (results,)
    return next((i for i, y in enumerate(results) if getattr(y, "requires_grad", False)), None)


def derivatives(
    function: Any, example: Example, differentiable: list[int], result: int, orders: int
) -> list[Any]:
    """Gradients of a weighted sum of a result, and of a weighted sum of these gradients."""
    inputs = variables(example)
    wanted = [inputs[i] for i in differentiable]
    results = function(*inputs, **example.options)
    first = [results[result] if isinstance(results, tuple) else results]
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for _ in range(orders):
        weights = [retrograd.tensor(rng.standard_normal(y.shape)).to(y.dtype) for y in first]
        pairs = [(y, w) for y, w in zip(first, weights, strict=True) if y.requires_grad]
        if not pairs:
            break
        roots, seeds = zip(*pairs, strict=True)
        gradients = retrograd.autograd.grad(
            roots, wanted, seeds, create_graph=True, allow_unused=True
        )
        # No gradient and a gradient of zero are the same to a comparison of two expressions.
        first = [
            g if g is not None else retrograd.zeros_like(x)
            for g, x in zip(gradients, wanted, strict=True)
        ]
        found += [g.detach().numpy() for g in first]
    return found


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", COMPOSITES)
def test_kernel_and_definition_agree(name: str) -> None:
    op = TABLE[name]
    assert op.definition is not None
    if name in NOT_COMPARED:
        pytest.skip(NOT_COMPARED[name])
    assert examples()[name], "no sample calls it"
    for example in examples()[name]:
        by_kernel = op.forward(*example.inputs, **example.options)
        by_definition = op.definition(*example.inputs, **example.options)
        if not isinstance(by_kernel, tuple):
            by_kernel, by_definition = (by_kernel,), (by_definition,)
        for kernel, definition in zip(by_kernel, by_definition, strict=True):
            close(kernel, raw(definition))
        differentiable = [
            i
            for i, x in enumerate(example.inputs)
            if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fc"
            and (op.joint or not op.has_rules or op.rules[i] is not None)
        ]  # fmt: skip
        result = moving(op, example)
        if result is None:
            continue
        orders = 1 if name in ONLY_ONCE else 2
        pairs = zip(
            derivatives(op, example, differentiable, result, orders),
            derivatives(op.definition, example, differentiable, result, orders), strict=False,
        )  # fmt: skip
        for kernel, definition in pairs:
            close(kernel, definition)


def test_fused_rules_do_not_see_saved_values_under_a_transform() -> None:
    """The gradient of a sum is the same for all entries of a batch; what was saved is not."""
    cube = composite(
        "cube", lambda self: self * self * self, lambda self: np.power(self, 3), batch="pointwise",
        rules={"self": lambda g, self: g * np.power(self, 2) * 3}, fused=True,
    )  # fmt: skip
    try:
        rows = retrograd.tensor([[1.0, 2.0], [3.0, -1.0]])
        found = retrograd.func.vmap(retrograd.func.grad(lambda x: cube(x).sum()))(rows)
        assert found.tolist() == [[3.0, 12.0], [27.0, 3.0]]
    finally:
        del TABLE["cube"]
