"""The table of operations as a whole: nothing in it untested, and every entry right in both modes.

The samples are run with every operation's forward watched, which tells how each is called, by the
samples and by the rules of others. Each is then tried on its own: the tangents that its family
gives, and its gradients, against differences of the forward and against each other.
"""

import importlib
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from samples import NO_RULE, NO_SLOPE, SAMPLES, SYMMETRIC, reason
from samples._pool import FIXED, SMOOTH, evaluate, names_in, weights_for

import retrograd
from retrograd import _modes
from retrograd.autograd._forward import push_forward
from retrograd.ops._index import INDEX
from retrograd.ops._operation import TABLE, Composite, Operation
from retrograd.ops.elementwise import elementwise
from retrograd.tensor._public import names_in as public_names

for module in INDEX:
    importlib.import_module(f"retrograd.{module}")

# Operations that no sample leads to (name: reason).
NOT_REACHED = {
    "imag": "only compared, in the rule of a complex power; users get a view",
    "histogram_of": "only on devices and under transforms: tests/devices/layer_programs.py",
}


class Example(NamedTuple):
    """One call of an operation, on arrays."""

    operation: Operation
    inputs: list[Any]
    options: dict[str, Any]

    @property
    def outputs(self) -> tuple[Any, ...]:
        found = call(self.operation, self.inputs, self.options)
        return found if isinstance(found, tuple) else (found,)


def call(operation: Operation, inputs: list[Any], options: dict[str, Any]) -> Any:
    if operation.inputs == ("tensors",):
        return operation(inputs, **options)
    return operation(*inputs, **options)


# -- how operations are called ---------------------------------------------------------------


@contextmanager
def watched_forwards(notice: Any) -> Iterator[None]:
    """Tell ``notice`` of every call of an operation on Tensors.

    The switch makes all of them go the careful way, which looks for the forward at each call.
    """

    def watched(operation: Operation, forward: Any) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            found = forward(*args, **options)
            inputs = args[0] if operation.inputs == ("tensors",) else args
            notice(operation, inputs, options, found)
            return found

        return run

    forwards = {name: op.forward for name, op in TABLE.items()}
    for name, op in TABLE.items():
        op.forward = watched(op, forwards[name])
    somewhere = _modes.Key()
    mark = weakref.ref(somewhere)
    _modes.switch.active.add(mark)
    try:
        yield
    finally:
        _modes.switch.active.discard(mark)
        for name, forward in forwards.items():
            TABLE[name].forward = forward


def is_smooth(expression: str) -> bool:
    """Whether a sample stays away from points where derivatives are conventions."""
    names = set(names_in(expression))
    return bool(names & SMOOTH.keys() and names <= SMOOTH.keys() | FIXED.keys()) and not reason(
        "ROUGH", expression
    )


@cache
def examples() -> dict[str, list[Example]]:
    """For each operation that the samples exercise, some different calls at smooth points."""
    found: dict[str, dict[Any, Example]] = {}
    smooth = False
    calls: list[str] = []  # of the sample that is run

    def notice(operation: Operation, inputs: Any, options: dict[str, Any], result: Any) -> None:
        kinds = [(np.shape(x), np.asarray(x).dtype.kind) for x in inputs]
        way = repr((kinds, options))
        calls.append(operation.name + way)
        ways = found.setdefault(operation.name, {})
        if not smooth or len(ways) == 8 or way in ways:
            return
        outputs = result if isinstance(result, tuple) else (result,)
        if all(wide_enough(x) and small(x) for x in inputs) and all(map(is_finite, outputs)):
            copies = [np.copy(x) if isinstance(x, np.ndarray) else x for x in inputs]
            ways[way] = Example(operation, copies, options)

    differentiated: set[Any] = set()
    with watched_forwards(notice):
        for expression in SAMPLES:
            smooth = is_smooth(expression)
            names = names_in(expression)
            for dtype in ("float64", "complex128") if smooth else ("float64",):
                calls.clear()
                # A sample may be refused in some dtype, or not be differentiable: that the same
                # happens in PyTorch is tested in test_ops.
                with suppress(Exception):
                    tensors, results = evaluate(retrograd, expression, dtype)
                    # Gradients are the same for torch.exp(x) and x.exp(), which call the same.
                    kinds = tuple(n in FIXED for n in names) if smooth else names
                    key = smooth, dtype, kinds, *calls
                    if key not in differentiated:
                        differentiated.add(key)
                        run_gradients(tensors, results)
    return {name: list(ways.values()) for name, ways in found.items()}


def small(x: Any) -> bool:
    """Whether a step does not bring elements past each other: among many, some are close."""
    return np.size(x) <= 500


def is_finite(x: Any) -> bool:
    return np.asarray(x).dtype.kind not in "fc" or bool(np.isfinite(x).all())


def wide_enough(x: Any) -> bool:
    """Whether differences of a value make sense: not for narrow floats."""
    return np.asarray(x).dtype not in (np.float16, np.float32, np.complex64)


def run_gradients(tensors: dict[str, Any], results: list[Any]) -> None:
    """Run the gradients of a sample and theirs, first in a pass that is not recorded: fused kernels
    run there, and definitions in one that is."""
    leaves = [t for t in tensors.values() if t.requires_grad]
    for _ in range(2):
        roots = [r for r in results if getattr(r, "requires_grad", False)]
        if not roots:
            break
        given = [retrograd.from_numpy(w) for w in weights_for(roots, 100)]
        retrograd.autograd.grad(roots, leaves, given, retain_graph=True, allow_unused=True)
        given = [w.requires_grad_(True) for w in given]
        leaves = leaves + given
        grads = retrograd.autograd.grad(roots, leaves, given, create_graph=True, allow_unused=True)
        results = [g for g in grads if g is not None]


# -- nothing is left out ---------------------------------------------------------------------


def missing() -> list[str]:
    """Operations that nothing exercises and that no reason is given for."""
    reached = examples()
    return [n for n, op in TABLE.items() if op.differentiable and n not in reached | NOT_REACHED]


def test_every_operation_has_samples() -> None:
    assert missing() == []


def test_an_operation_without_samples_is_noticed() -> None:
    examples()
    elementwise("unheard_of", np.cbrt, lambda g: g)
    try:
        assert missing() == ["unheard_of"]
    finally:
        del TABLE["unheard_of"]


SPACES = {
    "special": "special", "linalg": "linalg", "fft": "fft", "nn.functional": "functional",
    "torch": "torch",
}  # fmt: skip


# About memory and devices rather than values: compared with PyTorch in tests/project/test_names.py
# and tests/project/test_older_and_rarer_names.py; bfloat16 in tests/tensor/test_bfloat16.py.
ABOUT_MEMORY = {
    "_typed_storage", "bfloat16", "apply_", "as_strided_", "cuda", "is_pinned", "is_shared", "map_",
    "new_empty_strided", "pin_memory", "resize_", "resize_as_", "set_", "share_memory_",
    "sparse_mask", "storage", "to_dense", "to_sparse", "to_sparse_bsc",
    "to_sparse_bsr", "to_sparse_csc", "to_sparse_csr", "untyped_storage",
}  # fmt: skip


def test_every_public_name_has_samples() -> None:
    text = "\n".join(SAMPLES)
    called = set(re.findall(r"torch\.([\w.]+)\(", text))
    methods = set(re.findall(r"\.(\w+)\b", text)) | set(re.findall(r", '(\w+)'", text))
    lacking = []
    for module, space in SPACES.items():
        prefix = "" if space == "torch" else f"{module}."
        known = called if prefix else called | methods
        lacking += [prefix + n for n in public_names(space) if prefix + n not in known]
    lacking += [n for n in public_names("method") if n not in methods]
    assert set(lacking) == ABOUT_MEMORY


def test_every_public_name_is_pytorchs() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    unknown = [n for n in public_names("method") if not hasattr(torch.Tensor, n)]
    for name, space in SPACES.items():
        module = torch if space == "torch" else importlib.import_module(f"torch.{name}")
        unknown += [n for n in public_names(space) if not hasattr(module, n)]
    assert unknown == []


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
    assert families == {
        "elementwise", "linear", "multilinear", "reduction", "selecting", "matrix function",
        "composite", "constant", "undifferentiable", general,
    }  # fmt: skip
    assert all(op.family != general or op.differentiable for op in TABLE.values())


# -- both modes, of each operation on its own ------------------------------------------------


def like(x: Any, random: np.random.Generator) -> Any:
    """Random numbers of the shape and dtype of ``x``."""
    parts = random.uniform(-1, 1, (2, *np.shape(x)))
    mixed = parts[0] + 1j * parts[1] if np.asarray(x).dtype.kind == "c" else parts[0]
    return np.asarray(mixed, np.asarray(x).dtype)


def is_float(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fc"


def inner(xs: Any, ys: Any) -> float:
    """The real inner product, in which gradients of complex numbers are meant too."""
    return sum(float(np.real(np.vdot(x, y))) for x, y in zip(xs, ys, strict=True))


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -2, -1))


def is_hermitian(x: Any) -> bool:
    return np.ndim(x) > 1 and np.shape(x)[-1] == np.shape(x)[-2] and np.allclose(x, adjoint(x))


def tangents_of(example: Example, tangents: list[Any], shown: list[int]) -> Sequence[Any]:
    """The tangents of all results. Those of a composite come from its definition, which is what
    forward mode runs."""
    op, inputs, options = example
    if not isinstance(op, Composite):
        return push_forward(op, inputs, tangents, options, example.outputs)
    given = [
        retrograd.from_numpy(np.array(x)) if isinstance(x, (np.ndarray, np.generic)) else x
        for x in inputs
    ]
    moving = [i for i, t in enumerate(tangents) if t is not None]

    def results(*moved: Any) -> tuple[Any, ...]:
        arguments = list(given)
        for i, x in zip(moving, moved, strict=True):
            arguments[i] = x
        found = call(op, arguments, options)
        return tuple(found[i] for i in shown) if isinstance(found, tuple) else (found,)

    directions = tuple(retrograd.from_numpy(np.array(tangents[i])) for i in moving)
    _, pushed = retrograd.func.jvp(results, tuple(given[i] for i in moving), directions)
    found = dict(zip(shown, (t.numpy() for t in pushed), strict=True))
    return [found.get(i) for i in range(len(example.outputs))]


def check_both_modes(example: Example, random: np.random.Generator) -> bool:
    """Tangents against differences, and gradients against tangents. False where nothing can be
    said: nothing to differentiate, or a result too narrow or not finite."""
    op, inputs, options = example
    outputs = example.outputs
    moving = [
        i for i, x in enumerate(inputs) if is_float(x) and (op.joint is not None or op.rules[i])
    ]
    shown = [i for i, y in enumerate(outputs) if is_float(y)]
    if not moving or not shown or not all(wide_enough(outputs[i]) for i in shown):
        return False
    if not all(np.isfinite(outputs[i]).all() for i in shown):
        return False
    tangents = [like(x, random) if i in moving else None for i, x in enumerate(inputs)]
    if op.name in SYMMETRIC:
        if not is_hermitian(inputs[0]) or (len(shown) > 1 and inputs[0].dtype.kind == "c"):
            return False  # complex vectors may turn by any phase
        tangents[0] = tangents[0] + adjoint(tangents[0])
    found = tangents_of(example, tangents, shown)
    pushed = [np.zeros_like(y) if t is None else t for t, y in zip(found, outputs, strict=True)]
    step = 1e-6
    ahead, behind = (
        Example(op, [x if t is None else x + sign * step * t for x, t in
                     zip(inputs, tangents, strict=True)], options).outputs
        for sign in (1, -1)
    )  # fmt: skip
    if not all(np.isfinite(y[i]).all() for y in (ahead, behind) for i in shown):
        return False
    for i in shown:
        slope = (ahead[i] - behind[i]) / (2 * step)
        assert np.shape(pushed[i]) == np.shape(slope)
        scale = 1 + np.abs(slope).max(initial=0)
        np.testing.assert_allclose(pushed[i], slope, rtol=2e-6, atol=2e-6 * scale)
    variables = [
        retrograd.from_numpy(np.array(x)).requires_grad_(True) if i in moving
        else retrograd.from_numpy(x) if isinstance(x, np.ndarray) else x
        for i, x in enumerate(inputs)
    ]  # fmt: skip
    results = call(op, variables, options)
    results = results if isinstance(results, tuple) else (results,)
    weights = [like(outputs[i], random) for i in shown]
    roots = [(results[i], retrograd.from_numpy(w)) for i, w in zip(shown, weights, strict=True)]
    roots = [(r, w) for r, w in roots if r.requires_grad]
    grads = retrograd.autograd.grad(
        [r for r, _ in roots], [variables[i] for i in moving], [w for _, w in roots],
        materialize_grads=True,
    )  # fmt: skip
    forwards = inner([np.asarray(w) for _, w in roots],
                     [pushed[i] for i in shown if results[i].requires_grad])  # fmt: skip
    backwards = inner([g.numpy() for g in grads], [tangents[i] for i in moving])
    assert forwards == pytest.approx(backwards, rel=1e-8, abs=1e-8 * (1 + abs(forwards)))
    return True


@pytest.mark.parametrize("name", [n for n, op in TABLE.items() if op.differentiable])
def test_both_modes_agree_with_differences(name: str) -> None:
    if name in NO_SLOPE | NOT_REACHED:
        pytest.skip((NO_SLOPE | NOT_REACHED)[name])
    random = np.random.default_rng(7)
    tried = [check_both_modes(example, random) for example in examples()[name]]
    assert any(tried), "no sample at which it is smooth"


def test_second_derivative_of_a_singular_determinant_is_differentiable_in_its_direction() -> None:
    """The one input of ``cofactor_backward`` that has a rule, which the check above cannot move
    alone: linear, so its gradient is found from values."""
    random = np.random.default_rng(3)
    vectors = random.standard_normal((2, 3, 3))
    singular = np.outer(vectors[0, 0], vectors[0, 1]) + np.outer(vectors[0, 2], vectors[1, 0])
    direction = retrograd.from_numpy(vectors[1]).requires_grad_(True)
    weights = retrograd.from_numpy(random.standard_normal((3, 3)))
    slope = TABLE["cofactor_backward"]
    (gradient,) = retrograd.autograd.grad(
        slope(retrograd.from_numpy(singular), direction), direction, weights
    )
    unit = np.eye(9).reshape(9, 3, 3)
    expected = [np.sum(slope(singular, u) * weights.numpy()) for u in unit]
    np.testing.assert_allclose(gradient.numpy().ravel(), expected, rtol=1e-10, atol=1e-12)
