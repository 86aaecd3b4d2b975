"""Every operation under the transforms: each sample, with the values and gradients that
``test_ops.py`` compares with PyTorch's, again by other ways that must lead to the same.

- batches: ``vmap`` gives what a loop over the entries gives, without running entry by entry;
- batched gradients: ``vmap`` of a gradient gives what a loop of gradients gives;
- tangents: ``jvp`` and the gradient agree, J t . w = t . J^T w;
- forward over reverse and reverse over forward: both give the second derivative that reverse over
  reverse gives;
- beside PyTorch: its ``jvp`` and ``vmap`` give the same, where they work.
"""

import importlib.util
import math
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from samples import GROUPS, SAMPLES, every_group, reason
from samples._pool import FIXED, INF, NAN, SPECIAL, as_array, in_dtype, names_in, put, written

import retrograd
from retrograd.func import grad, jvp, vmap
from retrograd.ops import _batching

# Said, in PyTorch's words, where running statistics that all entries share would be written.
STATISTICS = "Batch norm got a batched tensor as input while the running_mean or running_var"
WORDS = {"put": put, "written": written, "INF": INF, "NAN": NAN}


def run(expression: str, tensors: dict[str, Any], library: Any = retrograd) -> list[Any]:
    """What an expression gives, as a list of tensors."""
    result = eval(compiled(expression), {"torch": library, **WORDS, **tensors})
    found = list(result) if isinstance(result, (tuple, list)) else [result]
    return [y for y in found if isinstance(y, library.Tensor)]


@cache
def compiled(expression: str) -> Any:
    """A sample is run some twenty times."""
    return compile(expression, "<sample>", "eval")


def variables(expression: str, dtype: str, entry: int = 0) -> dict[str, np.ndarray]:
    """The arrays of an expression that can be differentiated; those of another entry differ a
    little, in ways that leave special values special."""
    found = {n: in_dtype(n, dtype) for n in names_in(expression) if n not in FIXED}
    for name, array in found.items():
        if entry and name not in SPECIAL:
            array *= 0.95
    return found


def fixed(expression: str, entry: int = 0) -> dict[str, np.ndarray]:
    """The other arrays: places, masks. Those of another entry are in another order."""
    found = {n: in_dtype(n, "float64") for n in names_in(expression) if n in FIXED}
    return {n: np.flip(a).copy() if entry else a for n, a in found.items()}


def tensors(arrays: dict[str, np.ndarray], library: Any = retrograd) -> dict[str, Any]:
    return {n: library.from_numpy(a.copy()) for n, a in arrays.items()}


def stacked(*entries: dict[str, np.ndarray]) -> list[Any]:
    return [retrograd.from_numpy(np.stack([e[n] for e in entries])) for n in entries[0]]


def same(a: Any, b: Any, coarse: bool = False) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if np.array_equal(a, b):
        return True
    narrow = coarse or a.dtype.name in ("float32", "complex64", "float16")
    tolerance = 2e-3 if a.dtype == np.float16 else 1e-5 if narrow else 1e-9
    scale = np.abs(a[np.isfinite(a)]).max(initial=1.0) if a.dtype.kind in "fc" else 1
    parts = [(a.real, b.real), (a.imag, b.imag)] if a.dtype.kind == "c" else [(a, b)]
    return all(
        np.allclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True) for x, y in parts
    )


def plain_run(expression: str, dtype: str, *entries: dict[str, np.ndarray]) -> Any:
    """A sample for each entry, or None where it cannot be run: refused, of no tensors, or without
    a derivative under test."""
    try:
        return [run(expression, tensors(e)) for e in entries] or None
    except Exception:
        return None


# -- batches ---------------------------------------------------------------------------------


def check_batch(expression: str, dtype: str) -> Iterator[str]:
    """All arrays batched; then each on its own, with the others shared."""
    entries = [{**variables(expression, dtype, k), **fixed(expression, k)} for k in (0, 1)]
    every = list(entries[0])
    if not every:
        return
    choices = [every] + ([[n] for n in every] if len(every) > 1 else [])
    for chosen in choices:
        mixed = [{n: entries[k if n in chosen else 0][n] for n in every} for k in (0, 1)]
        expected = plain_run(expression, dtype, *mixed)
        if expected is None or not expected[0]:
            continue
        if [y.shape for y in expected[0]] != [y.shape for y in expected[1]]:
            continue  # as many elements as there are values of some kind: no batch
        shared = tensors({n: a for n, a in entries[0].items() if n not in chosen})

        def function(*given: Any, chosen: Any = chosen, shared: Any = shared) -> Any:
            return tuple(run(expression, {**shared, **dict(zip(chosen, given, strict=True))}))

        batch = stacked(*({n: e[n] for n in chosen} for e in entries))
        found, slow = watched(vmap(function), *batch)
        if slow:
            yield f"batch of {chosen}: entry by entry: {slow}"
        if isinstance(found, Exception):
            told = str(found).startswith(("vmap: ", STATISTICS))
            if not (told and refused(expression, entries, chosen)):
                yield f"batch of {chosen}: {words(found)}"
            continue
        for i, y in enumerate(found):
            wanted = np.stack([as_array(e[i]) for e in expected])
            if not same(wanted, as_array(y)):
                yield f"batch of {chosen}: result {i}: {as_array(y).tolist()}, a loop gives " \
                      f"{wanted.tolist()}"  # fmt: skip


def refused(expression: str, entries: Any, chosen: list[str]) -> bool:
    """Whether PyTorch, if it is here, refuses a batch as well: where shapes would depend on values,
    or where what all entries share would be written."""
    if importlib.util.find_spec("torch") is None:
        return True
    import torch

    shared = tensors({n: a for n, a in entries[0].items() if n not in chosen}, torch)
    batch = [torch.from_numpy(np.stack([e[n] for e in entries])) for n in chosen]

    def function(*given: Any) -> Any:
        return tuple(run(expression, {**shared, **dict(zip(chosen, given, strict=True))}, torch))

    return isinstance(watched(torch.func.vmap(function), *batch)[0], RuntimeError)


def watched(function: Callable[..., Any], *args: Any) -> tuple[Any, list[str]]:
    """What a call gives, or raises, and the operations that were run entry by entry."""
    _batching._announced.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = function(*args)
        except Exception as error:
            found = error
    told = [re.match(r"vmap: (\S+) has no batching rule", str(w.message)) for w in caught]
    return found, sorted({m.group(1) for m in told if m})


def words(error: Any) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')[:300]}"


# -- derivatives -----------------------------------------------------------------------------


def weighted(expression: str, names: list[str], shared: dict[str, Any]) -> Any:
    """A number made of all results of an expression, as a function of its variables."""

    def function(*given: Any) -> Any:
        total = None
        values = dict(zip(names, given, strict=True))
        for y in run(expression, {**shared, **values}):
            if y.dtype.is_floating_point or y.dtype.is_complex:
                part = (y * weight(y)).sum()
                part = part.real if part.dtype.is_complex else part
                part = part.to(retrograd.float64)
                total = part if total is None else total + part
        return total

    return function


def weight(y: Any) -> Any:
    """Numbers to multiply a result with, so that no two elements count the same."""
    return retrograd.from_numpy(numbers_of(tuple(y.shape))).to(y.dtype)


@cache
def numbers_of(shape: tuple[int, ...]) -> np.ndarray:
    return np.cos(1 + np.arange(math.prod(shape))).reshape(shape)


def direction(arrays: dict[str, np.ndarray], seed: int, library: Any = retrograd) -> list[Any]:
    """Ways to go from some arrays."""
    shapes = tuple((a.shape, a.dtype) for a in arrays.values())
    return [library.from_numpy(a.copy()) for a in directions(shapes, seed)]


@cache
def directions(shapes: tuple[Any, ...], seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    found = []
    for shape, dtype in shapes:
        parts = random.uniform(-1, 1, (2, *shape))
        mixed = parts[0] + 1j * parts[1] if dtype.kind == "c" else parts[0]
        found.append(np.asarray(mixed, dtype))
    return found


def differentiable(expression: str, dtype: str) -> Any:
    """The function of a sample and its gradient at the arrays of the pool; None if it has none."""
    arrays = variables(expression, dtype)
    if not arrays:
        return None
    names, shared = list(arrays), tensors(fixed(expression))
    function = weighted(expression, names, shared)
    at = list(tensors(arrays).values())
    leaves = [x.requires_grad_() for x in at]
    try:
        value = function(*leaves)
        if value is None or not value.requires_grad:
            return None
        gradient = retrograd.autograd.grad(value, leaves, materialize_grads=True, create_graph=True)
    except Exception:
        return None  # refused; test_ops.py compares how
    return function, arrays, gradient, leaves


def inner(xs: Any, ys: Any) -> float:
    return sum(float(np.real(np.vdot(as_array(x), as_array(y)))) for x, y in
               zip(xs, ys, strict=True))  # fmt: skip


def close(a: Any, b: Any, expression: str) -> bool:
    tolerance = 2e-3 if re.search("half|float16", expression) else 1e-7
    return a == pytest.approx(b, rel=tolerance, abs=tolerance * (1 + abs(b)), nan_ok=True)


def check_derivatives(expression: str, dtype: str) -> Iterator[str]:
    subject = differentiable(expression, dtype)
    if subject is None:
        return
    function, arrays, gradient, leaves = subject
    at, numbers = list(tensors(arrays).values()), tuple(range(len(arrays)))
    t = direction(arrays, 1)
    outcome, _ = watched(jvp, function, tuple(tensors(arrays).values()), tuple(t))
    if isinstance(outcome, Exception):
        yield f"jvp: {words(outcome)}"
    elif not close(outcome[1].item(), inner(gradient, t), expression):
        yield f"jvp: {outcome[1].item()}, the gradient says {inner(gradient, t)}"
    coarse = reason("COARSE", expression) is not None
    yield from check_second_derivatives(function, at, gradient, leaves, t, numbers, coarse)


def check_second_derivatives(
    function: Any, at: list[Any], gradient: Any, leaves: list[Any], t: list[Any], numbers: Any,
    coarse: bool,
) -> Iterator[str]:  # fmt: skip
    """Forward over reverse, and reverse over forward, against reverse over reverse."""
    depends = [g for g in gradient if g.requires_grad]
    expected: Any = [retrograd.zeros_like(x) for x in leaves]
    if depends:
        pairs = [(g, d) for g, d in zip(gradient, t, strict=True) if g.requires_grad]
        try:
            expected = retrograd.autograd.grad(
                [g for g, _ in pairs], leaves, [d for _, d in pairs], materialize_grads=True
            )
        except Exception:
            return  # no second derivative
    found, _ = watched(jvp, grad(function, numbers), tuple(x.clone() for x in at), tuple(t))
    yield from compare("forward over reverse", found, expected, coarse)

    def tangent(*xs: Any) -> Any:
        return jvp(function, tuple(x.clone() for x in xs), tuple(t))[1]

    found, _ = watched(grad(tangent, numbers), *[x.clone() for x in at])
    yield from compare("reverse over forward", (None, found), expected, coarse)


def compare(what: str, found: Any, expected: Any, coarse: bool) -> Iterator[str]:
    if isinstance(found, Exception):
        yield f"{what}: {words(found)}"
        return
    if isinstance(found[1], Exception):
        yield f"{what}: {words(found[1])}"
        return
    for i, (a, b) in enumerate(zip(expected, found[1], strict=True)):
        a, b = as_array(a), as_array(b)
        # Where reverse over reverse meets 0 times infinity on its way there is nothing to compare.
        if a.shape != b.shape or not same(a[np.isfinite(a)], b[np.isfinite(a)], coarse):
            yield f"{what} {i}: {b.tolist()}, not {a.tolist()}"


def check_batched_gradient(expression: str, dtype: str) -> Iterator[str]:
    """``vmap`` of a gradient, against a loop. Each entry has a scale of its own: without it, what
    arrives at a linear operation would be the same for all, and its rule would see no batch."""
    subject = differentiable(expression, dtype)
    if subject is None:
        return
    function, arrays, first, _ = subject
    other = variables(expression, dtype, 1)
    leaves = [x.requires_grad_() for x in tensors(other).values()]
    scales = retrograd.tensor([1.0, 0.75], dtype=retrograd.float64)
    try:
        value = function(*leaves) * scales[1]
        second = retrograd.autograd.grad(value, leaves, materialize_grads=True)
    except Exception:
        return  # refused at that point

    def scaled(scale: Any, *given: Any) -> Any:
        return function(*given) * scale

    numbers = tuple(range(1, 1 + len(arrays)))
    found, slow = watched(vmap(grad(scaled, numbers)), scales, *stacked(arrays, other))
    if slow:
        yield f"batched gradient: entry by entry: {slow}"
    if isinstance(found, Exception):
        if not str(found).startswith(STATISTICS):
            yield f"batched gradient: {words(found)}"
        return
    for i, (a, b, c) in enumerate(zip(first, second, found, strict=True)):
        wanted = np.stack([as_array(a), as_array(b)])
        if not same(wanted, as_array(c)):
            yield f"batched gradient {i}: {as_array(c).tolist()}, a loop gives {wanted.tolist()}"


# -- beside PyTorch's own transforms ---------------------------------------------------------


def check_pytorch(expression: str, dtype: str) -> Iterator[str]:
    """``jvp`` and ``vmap`` give what PyTorch's give, where those work; and they refuse nothing but
    what PyTorch refuses in the same words without them."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    arrays = variables(expression, dtype)
    if not arrays:
        return
    coarse = reason("COARSE", expression) is not None
    entries = [arrays, variables(expression, dtype, 1)]
    results: dict[str, list[Any]] = {"tangent": [], "batch": []}
    for library in (torch, retrograd):
        shared = tensors(fixed(expression), library)

        def function(*given: Any, shared: Any = shared, library: Any = library) -> Any:
            values = dict(zip(arrays, given, strict=True))
            found = run(expression, {**shared, **values}, library)
            return tuple(y for y in found if y.dtype.is_floating_point or y.dtype.is_complex)

        at = tuple(tensors(arrays, library).values())
        t = tuple(direction(arrays, 1, library))
        batch = [library.from_numpy(np.stack([e[n] for e in entries])) for n in arrays]
        moved, _ = watched(lambda f, x, t, lib=library: lib.func.jvp(f, x, t)[1], function, at, t)
        results["tangent"].append(moved)
        results["batch"].append(watched(library.func.vmap(function), *batch)[0])
    for what, (theirs, ours) in results.items():
        if what == "tangent" and reason("ONLY_OURS", expression):
            continue  # which PyTorch takes for a constant
        if isinstance(theirs, Exception):
            continue  # where PyTorch's is missing, or refuses what ours can do
        if isinstance(ours, Exception):
            given = tensors({**arrays, **fixed(expression)}, torch)
            if words(ours) != words(watched(run, expression, given, torch)[0]):
                yield f"{what}: {words(ours)}"
            continue
        for i, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            if not same(as_array(a), as_array(b), coarse):
                yield f"{what} {i}: {as_array(b).tolist()}, PyTorch's {as_array(a).tolist()}"


# -- the tests -------------------------------------------------------------------------------

COLUMNS = {
    "batch": (check_batch, "NOT_BATCHED"),
    "derivatives": (check_derivatives, "NO_TANGENT"),
    "batched gradient": (check_batched_gradient, "NOT_BATCHED"),
    "beside PyTorch": (check_pytorch, "OTHER_TRANSFORM"),
}
PAIRS = [
    ("derivatives", "float64"), ("batched gradient", "float64"), ("beside PyTorch", "float64"),
    ("beside PyTorch", "complex128"),
]  # fmt: skip
RANDOM = re.compile(
    r"rand|dropout|bernoulli|multinomial|normal(?!iz)|poisson(?!_nll)|binomial|uniform|"
    r"exponential_|geometric_|cauchy_|gumbel|rrelu|seed"
)


def findings(expression: str, column: str, dtype: str) -> list[str]:
    if exception(expression, column, dtype) or RANDOM.search(expression):
        return []
    return unlisted(expression, column, dtype)


def exception(expression: str, column: str, dtype: str) -> str | None:
    """Why a sample is not tested in some way."""
    tables = [COLUMNS[column][1]]
    if dtype == "complex128":
        tables += ["NOT_COMPLEX", "OTHER_COMPLEX"]
    return next((why for table in tables if (why := reason(table, expression))), None)


def unlisted(expression: str, column: str, dtype: str) -> list[str]:
    """The same for a sample that is an exception."""
    check, _ = COLUMNS[column]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(check(expression, dtype))


@pytest.mark.parametrize("group", GROUPS)
def test_samples_batched(group: str) -> None:
    check(group, "batch", "float64")


@pytest.mark.parametrize(("column", "dtype"), PAIRS)
@pytest.mark.parametrize("group", every_group(default=8))
def test_samples_transformed(group: str, column: str, dtype: str) -> None:
    check(group, column, dtype)


def check(group: str, column: str, dtype: str) -> None:
    failed = [
        f"{expression}\n    {found}"
        for expression in GROUPS[group]
        for found in findings(expression, column, dtype)
    ]
    assert not failed, f"{len(failed)} of {len(GROUPS[group])}:\n" + "\n".join(failed[:40])


def listed(table: str) -> list[str]:
    """The samples in a table, but for those whose tangents are not compared at all."""
    return [e for e in SAMPLES if reason(table, e) and not reason("ONLY_OURS", e)]


@pytest.mark.parametrize("expression", listed("OTHER_TRANSFORM") + listed("OTHER_COMPLEX"))
def test_listed_transforms_do_differ(expression: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    dtypes = ("float64", "complex128") if reason("OTHER_TRANSFORM", expression) else ("complex128",)
    assert any(unlisted(expression, "beside PyTorch", dtype) for dtype in dtypes), (
        "PyTorch's transforms give the same: take it off the list"
    )


def test_there_are_samples() -> None:
    assert SAMPLES
