"""Every operation beside PyTorch's: each sample is run in both, and everything is compared.

Values, dtypes and shapes of results; whether they share memory with the inputs; the names of the
nodes, what they lead to and which tensors they keep; gradients for a random incoming gradient, on
arrays and recorded; and second derivatives. A second source, which needs no PyTorch: finite
differences of the values.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from samples import ERRORS, GROUPS, OTHER_SAVED, SAMPLES, every_group, reason
from samples._pool import FIXED, FLOATS, POOL, SMOOTH, as_array, evaluate, names_in, weights_for

import retrograd

COMPLEX = ("complex128", "complex64")
COARSE = {"float32", "complex64", "f32", "c64", "f16"}  # what is computed in single precision

LAZY_CONJ = re.compile(r"conj|\.m?H$")  # shares memory in PyTorch, which conjugates on use


def dtypes_for(expression: str) -> Iterator[str]:
    """The dtypes to run a sample in; one is enough if no array has the dtype under test."""
    if all(name in FIXED for name in names_in(expression)):
        yield "float64"
        return
    for dtype in FLOATS:
        if dtype not in COMPLEX or not reason("NOT_COMPLEX", expression):
            yield dtype


# -- one comparison --------------------------------------------------------------------------


def attempt(function: Any, *args: Any) -> Any:
    """What a call gives, or the exception that it raises."""
    try:
        return function(*args)
    except Exception as error:
        return error


def words(outcome: Any) -> str:
    """An exception in one line; a hint that we add in further lines does not count."""
    if not isinstance(outcome, Exception):
        return "no error"
    first = next(iter(str(outcome).splitlines()), "")
    return f"{type(outcome).__name__}: {first}"


def compare_tensors(theirs: Any, ours: Any, what: str, coarse: bool) -> Iterator[str]:
    if theirs is None or ours is None or not hasattr(theirs, "numpy"):
        if (theirs is None) != (ours is None) or not (theirs is None or theirs == ours):
            yield f"{what}: {theirs} in PyTorch, {ours} here"
        return
    a, b = as_array(theirs), as_array(ours)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        yield f"{what}: {a.dtype}{a.shape} in PyTorch, {b.dtype}{b.shape} here"
        return
    close = np.array_equal(a, b)
    if a.dtype.kind in "fc" and not close:
        coarse = coarse or a.dtype.name in COARSE
        tolerance = 2e-3 if a.dtype == np.float16 else 1e-5 if coarse else 1e-12
        scale = np.abs(a[np.isfinite(a)]).max(initial=1.0)
        parts = [(a.real, b.real), (a.imag, b.imag)] if a.dtype.kind == "c" else [(a, b)]
        close = all(
            np.allclose(y, x, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
            for x, y in parts
        )
    if not close:
        yield f"{what}: {a.tolist()} in PyTorch, {b.tolist()} here"


def compare_memory(theirs: list[Any], ours: list[Any], results: Any) -> Iterator[str]:
    """A result must share memory with exactly those inputs that PyTorch's shares it with."""
    for i, (a, b) in enumerate(zip(*results, strict=True)):
        values = hasattr(a, "numel") and a.numel() and (a.is_floating_point() or a.is_complex())
        if values and a.storage_offset() != b.storage_offset():
            starts = f"{a.storage_offset()} in PyTorch, {b.storage_offset()} here"
            yield f"result {i} starts at another place of its memory: {starts}"
        for name in theirs:
            if not hasattr(a, "numel") or not a.numel() or not theirs[name].numel():
                continue
            storages = [x.untyped_storage().data_ptr() for x in (a, theirs[name])]
            shares = np.shares_memory(as_array(b), as_array(ours[name]))
            if (storages[0] == storages[1]) != shares:
                yield f"result {i} shares memory with {name}: {shares} here, not so in PyTorch"


def graph(results: list[Any]) -> list[tuple[Any, ...]]:
    """Every node below the results: its name, where its edges lead, the tensors it keeps."""
    nodes, rows = [], []

    def number(node: Any) -> int:
        if not any(node is n for n in nodes):
            nodes.append(node)
        return next(i for i, n in enumerate(nodes) if n is node)

    for result in results:
        if getattr(result, "grad_fn", None) is not None:
            number(result.grad_fn)
    for node in nodes:  # which grows as edges are followed
        edges = [None if n is None else (number(n), k) for n, k in node.next_functions]
        name = type(node).__name__
        kept = {s for s in dir(node) if s.startswith("_saved_") and holds_tensor(getattr(node, s))}
        rows.append((name, edges, sorted(kept if name not in OTHER_SAVED else ())))
    return rows


def holds_tensor(value: Any) -> bool:
    return hasattr(value, "grad_fn") or (
        isinstance(value, tuple) and any(hasattr(v, "grad_fn") for v in value)
    )


def derivatives(library: Any, tensors: dict[str, Any], results: list[Any]) -> dict[str, Any]:
    """Gradients of the results by the tensors, got in all ways, and second derivatives. In place of
    what cannot be had, the exception."""
    leaves = [t for t in tensors.values() if t.requires_grad]
    roots = [r for r in results if getattr(r, "requires_grad", False)]
    if not roots:
        return {}
    grad = library.autograd.grad
    given = [library.from_numpy(w).requires_grad_(True) for w in weights_for(roots, 100)]
    ones = [library.ones((), dtype=r.dtype) for r in roots]
    sums = [r.sum() for r in roots]

    def first(roots: list[Any], given: list[Any], **how: bool) -> Any:
        return attempt(lambda: grad(roots, leaves, given, allow_unused=True, **how))

    found = {
        "gradient": first(roots, given, retain_graph=True),
        "gradient of the sum": first(sums, ones, retain_graph=True),
        "recorded gradient": first(roots, given, create_graph=True),
    }
    recorded = found["recorded gradient"]
    if isinstance(recorded, Exception):
        return found
    again = [g for g in recorded if g is not None and g.requires_grad]
    if again:
        weights = [library.from_numpy(w) for w in weights_for(again, 200)]
        found["second derivative"] = attempt(
            lambda: grad(again, leaves + given, weights, allow_unused=True)
        )
    return found


def differences(torch: Any, expression: str, dtype: str) -> Iterator[str]:
    """All that a sample does otherwise than in PyTorch."""
    theirs, ours = (attempt(evaluate, lib, expression, dtype) for lib in (torch, retrograd))
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        if words(theirs) != words(ours):
            yield f"{words(theirs)!r} in PyTorch, {words(ours)!r} here"
        return
    coarse = bool(COARSE & {dtype, *names_in(expression)})
    coarse = coarse or reason("COARSE", expression) is not None
    results = theirs[1], ours[1]
    if len(results[0]) != len(results[1]):
        yield f"{len(results[0])} results in PyTorch, {len(results[1])} here"
        return
    for i, (a, b) in enumerate(zip(*results, strict=True)):
        yield from compare_tensors(a, b, f"result {i}", coarse)
        flags = [getattr(x, "requires_grad", None) for x in (a, b)]
        only_ours = flags == [False, True] and reason("ONLY_OURS", expression)
        if flags[0] != flags[1] and not only_ours:
            yield f"requires_grad: {flags[0]} in PyTorch, {flags[1]} here"
    if not LAZY_CONJ.search(expression):
        yield from compare_memory(theirs[0], ours[0], results)
    if not reason("ONLY_OURS", expression):
        yield from compare_graphs(expression, *results)
        once = reason("NOT_TWICE", expression) is not None
        yield from compare_derivatives(torch, theirs, ours, coarse, once)


def compare_graphs(expression: str, theirs: list[Any], ours: list[Any]) -> Iterator[str]:
    graphs = graph(theirs), graph(ours)
    if graphs[0] != graphs[1] and not reason("OTHER_GRAPH", expression):
        yield f"graph:\n    {graphs[0]} in PyTorch,\n    {graphs[1]} here"


def compare_derivatives(
    torch: Any, theirs: Any, ours: Any, coarse: bool, once: bool
) -> Iterator[str]:
    found = [
        derivatives(library, *evaluated)
        for library, evaluated in ((torch, theirs), (retrograd, ours))
    ]
    if found[0].keys() != found[1].keys():
        yield f"{list(found[0])} in PyTorch, {list(found[1])} here"
        return
    for kind, values in found[0].items():
        if once and kind == "second derivative":
            if not isinstance(values, Exception) or isinstance(found[1][kind], Exception):
                yield f"{kind}: {words(values)!r} in PyTorch, {words(found[1][kind])!r} here"
            continue
        if isinstance(values, Exception) or isinstance(found[1][kind], Exception):
            if words(values) != words(found[1][kind]):
                yield f"{kind}: {words(values)!r} in PyTorch, {words(found[1][kind])!r} here"
            continue
        for i, (a, b) in enumerate(zip(values, found[1][kind], strict=True)):
            yield from compare_tensors(a, b, f"{kind} {i}", coarse)


# -- the tests -------------------------------------------------------------------------------


def batches(expressions: list[str], default: int = 1) -> list[Any]:
    """Expressions, 20 a test: a test for each would spend a third of its time in pytest. One test
    in ``default`` is in the default suite."""
    return [
        pytest.param(
            expressions[i : i + 20], id=f"{i}: {expressions[i]}",
            marks=[pytest.mark.long] if i // 20 % default else [],
        )
        for i in range(0, len(expressions), 20)
    ]  # fmt: skip


def assert_all(check: Callable[[str], object], expressions: list[str]) -> None:
    """Fail with what fails for each of the expressions."""
    failed = []
    for expression in expressions:
        try:
            check(expression)
        except Exception as error:
            failed.append(f"{expression}\n    {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("wide", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("expressions", batches(SAMPLES))
@pytest.mark.filterwarnings("ignore")  # of PyTorch: deprecations, casting away imaginary parts
def test_samples_agree_with_pytorch(torch: Any, expressions: list[str], wide: bool) -> None:
    """In double precision, and then in all other dtypes."""

    def check(expression: str) -> None:
        for dtype in dtypes_for(expression):
            if (dtype == "float64") is not wide:
                continue
            found = list(differences(torch, expression, dtype))
            assert not found, "\n".join([dtype, *found])

    assert_all(check, expressions)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", [e for e in SAMPLES if reason("OTHER_GRAPH", e)])
def test_listed_graphs_do_differ(torch: Any, expression: str) -> None:
    for dtype in dtypes_for(expression):
        outcomes = [attempt(evaluate, lib, expression, dtype) for lib in (torch, retrograd)]
        evaluated = [o[1] for o in outcomes if not isinstance(o, Exception)]
        if len(evaluated) == 2 and graph(evaluated[0]) != graph(evaluated[1]):
            return
    pytest.fail(f"the graph of {expression} is PyTorch's: take it off OTHER_GRAPH")


@pytest.mark.parametrize("expressions", batches(ERRORS))
@pytest.mark.filterwarnings("ignore")
def test_bad_calls_fail_as_in_pytorch(torch: Any, expressions: list[str]) -> None:
    def check(expression: str) -> None:
        theirs, ours = (attempt(evaluate, lib, expression, "float64") for lib in (torch, retrograd))
        assert isinstance(theirs, Exception), "is no bad call"
        if reason("OTHER_WORDS", expression):
            assert type(ours) is type(theirs)
            assert words(ours) != words(theirs), "take it off OTHER_WORDS"
        else:
            assert words(ours) == words(theirs)

    assert_all(check, expressions)


NARROW = re.compile(r"float16|float32|complex64")  # too narrow for differences
SMOOTH_SAMPLES = [
    e
    for e in SAMPLES
    if (names := set(names_in(e))) & SMOOTH.keys()
    and names <= SMOOTH.keys() | FIXED.keys()
    and not names & COARSE
    and not NARROW.search(e)
    and not reason("ROUGH", e)
]


def inner(x: Any, y: Any) -> float:
    """The real inner product, in which gradients of complex numbers are meant too."""
    return float(np.real(np.vdot(x, y)))


@pytest.mark.parametrize("expressions", batches(SMOOTH_SAMPLES, default=4))
def test_gradients_are_limits_of_differences(expressions: list[str]) -> None:
    assert_all(check_differences, expressions)


def check_differences(expression: str) -> None:
    for dtype in ("float64", "complex128"):
        outcome = attempt(evaluate, retrograd, expression, dtype)
        if isinstance(outcome, Exception):
            continue  # refused; that PyTorch refuses it too is tested above
        tensors, results = outcome
        leaves = {name: t for name, t in tensors.items() if t.requires_grad}
        roots = {i: r for i, r in enumerate(results) if getattr(r, "requires_grad", False)}
        if not roots or not all(np.isfinite(as_array(r)).all() for r in roots.values()):
            continue  # no slope, or an infinite one
        weights = weights_for(list(roots.values()), 300)
        directions = weights_for(list(leaves.values()), 400)
        grads = retrograd.autograd.grad(
            list(roots.values()), list(leaves.values()),
            [retrograd.from_numpy(w) for w in weights], materialize_grads=True,
        )  # fmt: skip
        expected = sum(inner(as_array(g), d) for g, d in zip(grads, directions, strict=True))
        step = 1e-6
        moved = [moved_results(expression, dtype, leaves, directions, s) for s in (step, -step)]
        slope = sum(
            inner(w, (moved[0][i] - moved[1][i]) / (2 * step))
            for i, w in zip(roots, weights, strict=True)
        )
        assert slope == pytest.approx(expected, rel=1e-6, abs=1e-6 * (1 + abs(expected))), dtype


def moved_results(
    expression: str, dtype: str, leaves: dict[str, Any], directions: list[Any], step: float
) -> list[Any]:
    """What an expression gives a step away in a direction."""
    before = {name: POOL[name] for name in leaves}
    try:
        for (name, leaf), direction in zip(leaves.items(), directions, strict=True):
            POOL[name] = np.empty_like(before[name])  # in the same layout
            POOL[name][...] = as_array(leaf) + step * direction
        return [as_array(r) for r in evaluate(retrograd, expression, dtype)[1]]
    finally:
        POOL.update(before)


@pytest.mark.parametrize("group", every_group(default=4))
def test_values_do_not_depend_on_recording(group: str) -> None:
    """Without a graph, operations are called another way; the values must be the same."""
    for expression in GROUPS[group]:
        for dtype in ("float64", "float32", "complex64"):
            recorded = attempt(evaluate, retrograd, expression, dtype)
            with retrograd.no_grad():
                plain = attempt(evaluate, retrograd, expression, dtype)
            if re.search("not support automatic diff|is not differentiable with", words(recorded)):
                continue  # refused because it would be recorded
            assert words(plain) == words(recorded), expression
            if not isinstance(plain, Exception):
                for a, b in zip(plain[1], recorded[1], strict=True):
                    differing = list(compare_tensors(b, a, expression, dtype != "float64"))
                    assert not differing


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_rounding_leaves_integers_as_they_are(name: str) -> None:
    """With every version of NumPy: 2.0 makes floats of them."""
    for dtype in (retrograd.int64, retrograd.int32, retrograd.uint8):
        x = retrograd.tensor([3, 0, 7], dtype=dtype)
        found = getattr(retrograd, name)(x)
        assert found.dtype is dtype
        assert found.tolist() == [3, 0, 7]
        found[0] = 1
        assert x.tolist() == [3, 0, 7], "the result has memory of its own"
        assert getattr(x, f"{name}_")() is x
    assert getattr(retrograd, name)(retrograd.tensor(3)).dtype is retrograd.int64
