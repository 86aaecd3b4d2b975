"""Samples, forward and gradient, on the device ``xla:cpu``, eager: equal to NumPy's to rounding.

``python tests/devices/device_samples.py START STEP [GROUP...]`` runs every STEP-th sample of each
group from START on, and prints what differs as JSON. ``--all LEDGER [GROUP...]`` runs all that the
file LEDGER does not have yet. It is a program of its own because JAX starts
threads, which must not be in a process that forks, as tests do. ``PYTHONPATH`` has to contain tests
and tests/compiler.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

from sample_cases import Outcome, main
from samples._pool import names_in
from test_compile_samples import attempt, function_of, inputs
from xla_samples import close

import retrograd as torch

DEVICE = "xla:cpu"
GAPS = "[:, ::2].normal_"  # numbers drawn for memory with gaps are others than for memory without


hosted: set[str] = set()  # operations that NumPy has done since this was last emptied


def watch_host() -> None:
    """Note which operations NumPy does, on copies of their operands."""
    level = importlib.import_module("retrograd.devices._level")
    done = level.on_host

    def on_host(operation: Any, *args: Any) -> Any:
        hosted.add(operation.name)
        return done(operation, *args)

    level.on_host = on_host


def on_cpu(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [on_cpu(part) for part in x]
    return x.detach().cpu() if isinstance(x, torch.Tensor) else x


def same(a: Any, b: Any) -> bool:
    """Whether results are the same to rounding."""
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return close(a, b, single=False)


def elsewhere(x: Any) -> Any:
    """The first tensor that is not on the device."""
    if isinstance(x, (list, tuple)):
        return next((y for part in x if (y := elsewhere(part)) is not None), None)
    return x if isinstance(x, torch.Tensor) and str(x.device) != f"{DEVICE}:0" else None


def check(expression: str, dtype: str) -> Outcome:
    names = names_in(expression)
    function = function_of(expression, names)
    torch.manual_seed(0)
    eager_inputs = inputs(names, dtype)
    eager = attempt(function, *eager_inputs)
    if isinstance(eager, Exception):
        return Outcome("refused on the CPU")
    if GAPS in expression:
        return Outcome("draws other numbers")
    hosted.clear()
    torch.manual_seed(0)
    given = [x.to(DEVICE) for x in inputs(names, dtype)]
    try:
        with torch.device(DEVICE):
            found = function(*given)
        problem = None
        if (other := elsewhere(found)) is not None:
            problem = f"it gives a tensor on {other.device}"
        elif not same(on_cpu(eager), on_cpu(found)):
            problem = f"it gives {found}, not {eager}"[:2000]
        elif not same(on_cpu(eager_inputs), on_cpu(given)):
            problem = f"it leaves its arguments as {given}, not as {eager_inputs}"
    except Exception as error:
        problem = f"it raises {type(error).__name__}: {error}"
    kind = "the same" if problem is None else "different"
    return Outcome(kind, " ".join(sorted(hosted)), problem)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.zeros((), device=DEVICE)
    watch_host()
    main(check, sys.argv[1:])
