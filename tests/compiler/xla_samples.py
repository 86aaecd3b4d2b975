"""Samples, forward and gradient, as programs on XLA: equal to eager to rounding.

``python tests/compiler/xla_samples.py START STEP [GROUP...]`` compiles every STEP-th sample of each
group from START on, and prints what differs as JSON. It is a program of its own because JAX starts
threads, which must not be in a process that forks, as tests do.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from typing import Any

import numpy as np
from samples import GROUPS, reason
from samples._pool import FIXED, as_array, names_in
from test_compile_samples import DTYPES, EVERY, attempt, function_of, inputs

import retrograd as torch

# On a branch cut, where the sign of a zero decides, which XLA's products of complex numbers lose.
ON_A_CUT = ("torch.asinh(edge * 2j)",)
counts: Counter[str] = Counter()


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
        return torch.allclose(a.float(), b.float(), 2**-5, 2**-6, equal_nan=True)
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


def difference(expression: str, dtype: str) -> str | None:
    names = names_in(expression)
    function = function_of(expression, names)
    torch.manual_seed(0)
    eager_inputs = inputs(names, dtype)
    single = not any(x.dtype in (torch.float64, torch.complex128) for x in eager_inputs)
    eager = attempt(function, *eager_inputs)
    if isinstance(eager, Exception):
        counts["refused by eager mode"] += 1
        return None
    compiled = torch.compile(function, backend="xla")
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            first = compiled(*inputs(names, dtype))
    except Exception as error:
        return f"the traced call raises {type(error).__name__}: {error}"
    if compiled.eager_because is not None:
        counts["eager"] += 1
        return None
    on_host = any("by NumPy" in str(w.message) for w in caught)
    counts["partly on NumPy" if on_host else "on XLA"] += 1
    given = inputs(names, dtype)
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = compiled(*given)
        counts["a part run by NumPy, for lack of a lowering"] += any(
            "is run by NumPy" in str(w.message) for w in caught
        )
    except Exception as error:
        return f"the program raises {type(error).__name__}: {error}"
    if len(compiled.entries) != 1:
        return "it was traced again"
    if not close(eager, found, single):
        return f"the program gives {found}, not {eager}"
    if differ(layouts(first), layouts(found)):
        return f"the program gives strides {layouts(found)}, not {layouts(first)}"
    if not close(eager_inputs, given, single):
        return f"the program leaves its arguments as {given}, not as {eager_inputs}"
    return None


def main(start: int, step: int, groups: list[str]) -> None:
    problems = []
    for group in groups or GROUPS:
        for number, expression in list(enumerate(GROUPS[group]))[start::step]:
            if "._version" in expression or expression in ON_A_CUT:
                continue  # a program counts its writes to a tensor once
            fixed = all(name in FIXED for name in names_in(expression))
            turn = -1 if fixed else number // step % EVERY
            also = {0: DTYPES[1:2], 3: DTYPES[2:]}.get(turn, ())
            if turn == 0 and reason("NOT_COMPLEX", expression):
                also = ()
            for dtype in (DTYPES[0], *also):
                problem = difference(expression, dtype)
                if problem is not None:
                    problems.append(f"{group}: {expression} in {dtype}: {problem}")
                    print(problems[-1], file=sys.stderr, flush=True)
    print(json.dumps({"counts": counts, "problems": problems}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
