"""Samples, forward and gradient, as programs: to the bit what an eager call gives. One in eight is
run by default, one in four with the slow tests, and all with ``COMPILE=all``.

The function that is compiled evaluates the expression and takes gradients inside. Eager calls,
the traced call and the run of the program must agree, and leave their arguments alike.
"""

import os
import re
from typing import Any

import numpy as np
import pytest
from samples import GROUPS, every_group, reason
from samples._pool import FIXED, INF, NAN, as_array, in_dtype, names_in, put, written

import retrograd as torch
from retrograd.arrays import _blocks
from retrograd.compiler import _tiles

# Where eager mode has a kernel for arrays that is no operation, or lays a result out in memory
# otherwise, so that sums are rounded in another order. The program still gives what its trace gave.
ROUNDED = re.compile(
    r"max_norm|embedding(_bag)?\(eb\d, \(?(w|ebw)|solve_triangular|lu_solve|tensorsolve|lstsq"
    r"|einsum\('ij,kl->lk'|bilinear"
)
DTYPES = ("float32", "complex128", "bfloat16")
TILED = ("activations", "grids", "losses", "pointwise")  # which have many elementwise operations
EVERY = 6  # of the samples, one is run in the second dtype, too, and another in the third


def function_of(expression: str, names: tuple[str, ...]) -> Any:
    # Evaluated outside: a function that calls eval() is not compiled.
    known = {"torch": torch, "put": put, "written": written, "INF": INF, "NAN": NAN}
    sample = eval(f"lambda {', '.join(names)}: ({expression})", known)

    def function(*values: Any) -> Any:
        tensors = {}
        for name, value in zip(names, values, strict=True):
            value = value.detach()
            tensors[name] = value if name in FIXED else value.requires_grad_(True)
        result = sample(**tensors)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        roots = [r for r in results if getattr(r, "requires_grad", False)]
        gradients = []
        if roots:
            leaves = [t for name, t in tensors.items() if name not in FIXED]
            given = [torch.full_like(r, 0.7) for r in roots]
            gradients = list(torch.autograd.grad(roots, leaves, given, allow_unused=True))
        return [r.detach() if isinstance(r, torch.Tensor) else r for r in results], gradients

    return function


def attempt(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return error


def same(a: Any, b: Any, rounded: bool = False) -> bool:
    if isinstance(a, (list, tuple)):
        pairs = zip(a, b, strict=False)
        return (
            type(b) is type(a) and len(a) == len(b) and all(same(x, y, rounded) for x, y in pairs)
        )
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and bool(a == b or a != a)
    if a.dtype == b.dtype == torch.bfloat16:
        a, b = a.float(), b.float()
        if rounded:
            return torch.allclose(a, b, 2**-6, 2**-6, equal_nan=True)
    x, y = as_array(a), as_array(b)
    if (x.dtype, x.shape) != (y.dtype, y.shape):
        return False
    if rounded:
        return np.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True)
    return np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")


def inputs(names: tuple[str, ...], dtype: str) -> list[Any]:
    if dtype != "bfloat16":
        return [torch.from_numpy(in_dtype(name, dtype)) for name in names]
    single = dict(zip(names, inputs(names, "float32"), strict=True))
    return [x if name in FIXED else x.bfloat16() for name, x in single.items()]


def differences(expression: str, dtype: str) -> str | None:
    names = names_in(expression)
    function = function_of(expression, names)
    torch.manual_seed(0)
    eager_inputs = inputs(names, dtype)
    eager = attempt(function, *eager_inputs)
    if isinstance(eager, Exception):
        return None  # a bad call, or one without a gradient
    again = function(*inputs(names, dtype))
    compiled = torch.compile(function)
    torch.manual_seed(0)
    first = compiled(*inputs(names, dtype))
    # Fused rules of complex numbers are differentiated by definition.
    rounded = dtype == "complex128" or ROUNDED.search(expression) is not None
    if not same(eager, first, rounded):
        return f"the traced call gives {first}, not {eager}"
    if compiled.eager_because is not None:
        return None
    given = inputs(names, dtype)
    second = compiled(*given)
    if len(compiled.entries) != 1:
        return "it was traced again"
    if not same(again, second, rounded):
        return f"the program gives {second}, not {again}:\n{compiled.source}"
    torch.manual_seed(0)
    if not same(eager_inputs, given, rounded):
        return f"the program leaves its arguments as {given}, not as {eager_inputs}"
    return None


def problems(group: str, start: int) -> list[str]:
    """What is wrong with every eighth sample of a group, from ``start`` on, or with all."""
    chosen = GROUPS[group] if os.environ.get("COMPILE") == "all" else GROUPS[group][start::8]
    found = []
    for number, expression in enumerate(chosen):
        fixed = all(name in FIXED for name in names_in(expression))
        if "._version" in expression:
            continue  # a program counts its writes to a tensor once
        dtypes = [DTYPES[0]]
        if number % EVERY == 0 and not fixed and not reason("NOT_COMPLEX", expression):
            dtypes.append(DTYPES[1])
        if number % EVERY == 3 and not fixed:
            dtypes.append(DTYPES[2])
        for dtype in dtypes:
            problem = differences(expression, dtype)
            if problem is not None:
                found.append(f"{expression} in {dtype}: {problem}")
    return found


def test_functions_of_samples_are_compiled() -> None:
    """The others would not notice if they ran eagerly."""
    compiled = torch.compile(function_of("torch.exp(mat)", ("mat",)))
    compiled(*inputs(("mat",), DTYPES[0]))
    assert compiled.eager_because is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", [g for g in GROUPS if g.partition(".")[0] in TILED])
def test_samples_in_tiles(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tiles, "LARGE", 1)
    monkeypatch.setattr(_tiles, "FEWEST_ROWS", 1)
    monkeypatch.setattr(_blocks, "TILE_BYTES", 8)
    monkeypatch.setattr(_blocks.workers, "count", 2)
    monkeypatch.setattr(_blocks.workers, "_pool", None)
    found = problems(group, 2)
    assert not found, "\n".join(found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", every_group(default=4))
def test_samples_are_the_same_as_programs(group: str) -> None:
    found = problems(group, 0)
    assert not found, "\n".join(found)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", GROUPS)
def test_more_samples_are_the_same_as_programs(group: str) -> None:
    found = problems(group, 4)
    assert not found, "\n".join(found)
