"""Samples, forward and gradient, on the device ``xla:cpu``, eager: equal to NumPy's to rounding.

``python tests/devices/device_samples.py START STEP [GROUP...]`` runs every STEP-th sample of each
group from START on, and prints what differs as JSON. It is a program of its own because JAX starts
threads, which must not be in a process that forks, as tests do. ``PYTHONPATH`` has to contain tests
and tests/compiler.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections import Counter
from typing import Any

from samples import GROUPS, reason
from samples._pool import FIXED, names_in
from test_compile_samples import DTYPES, EVERY, attempt, function_of, inputs
from xla_samples import ON_A_CUT, close

import retrograd as torch

DEVICE = "xla:cpu"
GAPS = "[:, ::2].normal_"  # numbers drawn for memory with gaps are others than for memory without
counts: Counter[str] = Counter()


def on_cpu(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [on_cpu(part) for part in x]
    return x.detach().cpu() if isinstance(x, torch.Tensor) else x


def same(a: Any, b: Any) -> bool:
    """Whether results are the same to rounding; bfloat16 has three digits, and sums fewer."""
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if torch.bfloat16 in (getattr(a, "dtype", None), getattr(b, "dtype", None)):
        scale = max([abs(x) for x in a.float().flatten().tolist() if math.isfinite(x)], default=1)
        near = torch.allclose(a.float(), b.float(), 0.04, 0.04 * max(scale, 1), equal_nan=True)
        return a.dtype is b.dtype and a.shape == b.shape and near
    return close(a, b, single=False)


def elsewhere(x: Any) -> Any:
    """The first tensor that is not on the device."""
    if isinstance(x, (list, tuple)):
        return next((y for part in x if (y := elsewhere(part)) is not None), None)
    return x if isinstance(x, torch.Tensor) and str(x.device) != f"{DEVICE}:0" else None


def difference(expression: str, dtype: str) -> str | None:
    names = names_in(expression)
    function = function_of(expression, names)
    torch.manual_seed(0)
    eager_inputs = inputs(names, dtype)
    eager = attempt(function, *eager_inputs)
    if isinstance(eager, Exception):
        counts["refused on the CPU"] += 1
        return None
    torch.manual_seed(0)
    given = [x.to(DEVICE) for x in inputs(names, dtype)]
    try:
        with torch.device(DEVICE):
            found = function(*given)
    except Exception as error:
        return f"it raises {type(error).__name__}: {error}"
    counts["the same"] += 1
    if (other := elsewhere(found)) is not None:
        return f"it gives a tensor on {other.device}"
    if not same(on_cpu(eager), on_cpu(found)):
        return f"it gives {found}, not {eager}"[:2000]
    if not same(on_cpu(eager_inputs), on_cpu(given)):
        return f"it leaves its arguments as {given}, not as {eager_inputs}"
    return None


def main(start: int, step: int, groups: list[str]) -> None:
    problems = []
    for group in groups or GROUPS:
        for number, expression in list(enumerate(GROUPS[group]))[start::step]:
            if "._version" in expression or expression in ON_A_CUT or GAPS in expression:
                continue
            fixed = all(name in FIXED for name in names_in(expression))
            once = number // step % EVERY or fixed or reason("NOT_COMPLEX", expression)
            for dtype in DTYPES[:1] if once else DTYPES:
                problem = difference(expression, dtype)
                if problem is not None:
                    problems.append(f"{group}: {expression} in {dtype}: {problem}")
                    print(problems[-1], file=sys.stderr, flush=True)
    print(json.dumps({"counts": counts, "problems": problems}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
