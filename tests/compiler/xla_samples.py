"""Samples, forward and gradient, as programs on XLA: equal to eager to rounding.

``python tests/compiler/xla_samples.py START STEP [GROUP...]`` compiles every STEP-th sample of each
group from START on, and prints what differs as JSON. ``--all LEDGER [GROUP...]`` compiles all that
the file LEDGER does not have yet. XLA compiles small programs in a third of the time with

    XLA_FLAGS="--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false
        --xla_llvm_disable_expensive_passes=true"

It is a program of its own because JAX starts threads, which must not be in a process that forks, as
tests do. ``PYTHONPATH`` has to contain tests and tests/compiler.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sample_cases import Outcome, main
from samples._pool import as_array, names_in
from test_compile_samples import attempt, function_of, inputs

import retrograd as torch


def close(a: Any, b: Any, single: bool) -> bool:
    """Whether results are the same to rounding. ``single``: also those of double precision were
    computed from single precision."""
    if isinstance(a, (list, tuple)):
        pairs = zip(a, b, strict=False)
        return (
            type(a) is type(b) and len(a) == len(b) and all(close(x, y, single) for x, y in pairs)
        )
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and bool(a == b or a != a)
    if a.dtype == b.dtype == torch.bfloat16:
        scale = max([abs(x) for x in a.float().flatten().tolist() if math.isfinite(x)], default=1)
        near = 0.04 * max(scale, 1)  # three digits, and sums have fewer
        return a.shape == b.shape and torch.allclose(a.float(), b.float(), 0.04, near,
                                                     equal_nan=True)  # fmt: skip
    x, y = as_array(a), as_array(b)
    if (x.dtype, x.shape) != (y.dtype, y.shape):
        return False
    if x.dtype.kind not in "fc":
        return bool(np.array_equal(x, y))
    if x.dtype.itemsize == 2:
        return bool(np.allclose(x, y, rtol=2e-3, atol=1e-3, equal_nan=True))
    single = single or x.dtype.itemsize <= (4 if x.dtype.kind == "f" else 8)
    rtol, atol = (2e-4, 2e-5) if single else (1e-9, 1e-10)
    return bool(np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True))


def layouts(x: Any) -> Any:
    """How results lie in memory, if they fill theirs."""
    if isinstance(x, (list, tuple)):
        return list(map(layouts, x))
    if not isinstance(x, torch.Tensor) or x.numel() < 2:
        return None
    steps = sorted((s, n) for s, n in zip(x.stride(), x.shape, strict=True) if n > 1)
    reach = [1]
    for _, size in steps:
        reach.append(reach[-1] * size)
    return x.stride() if [s for s, _ in steps] == reach[:-1] else None


def differ(a: Any, b: Any) -> bool:
    """Whether layouts differ that are known."""
    if isinstance(a, list):
        return any(map(differ, a, b))
    return a is not None and a != b


def check(expression: str, dtype: str) -> Outcome:
    names = names_in(expression)
    function = function_of(expression, names)
    torch.manual_seed(0)
    eager_inputs = inputs(names, dtype)
    single = not any(x.dtype in (torch.float64, torch.complex128) for x in eager_inputs)
    eager = attempt(function, *eager_inputs)
    if isinstance(eager, Exception):
        return Outcome("refused by eager mode")
    compiled = torch.compile(function, backend="xla")
    torch.manual_seed(0)
    notes: list[str] = []
    try:
        with noting(notes):
            first = compiled(*inputs(names, dtype))
    except Exception as error:
        return Outcome("raises", "", f"the traced call raises {type(error).__name__}: {error}")
    if compiled.eager_because is not None:
        return Outcome("eager", reason_of(str(compiled.eager_because)))
    given = inputs(names, dtype)
    torch.manual_seed(0)
    try:
        with noting(notes):
            found = compiled(*given)
    except Exception as error:
        return Outcome("raises", "", f"the program raises {type(error).__name__}: {error}")
    problem = None
    if len(compiled.entries) != 1:
        problem = "it was traced again"
    elif not close(eager, found, single):
        problem = f"the program gives {found}, not {eager}"
    elif differ(layouts(first), layouts(found)):
        problem = f"the program gives strides {layouts(found)}, not {layouts(first)}"
    elif not close(eager_inputs, given, single):
        problem = f"the program leaves its arguments as {given}, not as {eager_inputs}"
    return Outcome("partly on NumPy" if notes else "on XLA", "; ".join(notes), problem)


@contextmanager
def noting(notes: list[str]) -> Iterator[None]:
    """Note what a program says is computed by NumPy."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for w in caught:
        name, is_computed, _ = str(w.message).partition("() is computed by NumPy")
        _, is_run, why = str(w.message).partition("() is run by NumPy, because XLA has ")
        if is_computed or is_run:
            note = why if is_run else name.split()[-1]
            notes += [note] if note not in notes else []


def reason_of(why: str) -> str:
    """Why a function has no program, without what is particular to one."""
    return re.sub(r"'[^']*'|\d+", "...", why.splitlines()[0])[:120]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(check, sys.argv[1:])
