"""Samples, forward and gradient, on the device ``xla:cpu``, eager: equal to NumPy's to rounding.

``python tests/devices/device_samples.py START STEP [GROUP...]`` runs every STEP-th sample of each
group from START on, and prints what differs as JSON. ``--all LEDGER [GROUP...]`` runs all that the
file LEDGER does not have yet. With ``QUEUES=whole`` in the environment, each queue of operations is
compiled as one function when it comes up for the first time, not for the eighth.

It is a program of its own because JAX starts threads, which must not be in a process that forks, as
tests do. ``PYTHONPATH`` has to contain tests and tests/compiler.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from typing import Any

from sample_cases import Outcome, main
from samples._pool import names_in
from test_compile_samples import attempt, function_of, inputs
from xla_samples import close

import retrograd as torch

DEVICE = "xla:cpu"
# Samples that may differ from NumPy, and why.
MAY_DIFFER = {
    "numbers drawn for memory that is not contiguous on the CPU": re.compile(
        r"\[:, ::2\]\.normal_|transpose\(0, 2\)\.\w+_\(|m\.t\(\), 'normal_'"
        r"|_like\([rb]tran|rtran\.clone\(\)\.bernoulli_|dropout\(\(?(dturn|tran)\b"
    ),
    "properties of a device": re.compile(
        r"\.numpy\(\)|\.cpu\(\)|to\('cpu'\)|is_cpu|get_device|\bstr\(|tran\.t\(\)\.view"
    ),
    "float32 rounded to float64, compared as float64": re.compile(
        r"out=torch\.zeros\(0, dtype=torch\.float64"
    ),
    "the sign of a zero": re.compile(r"signbit\(torch\.(relu|clamp_min|maximum|minimum)"),
    "rounding in a sum of 3,000 numbers": re.compile(r"log_softmax\(sm_short, 0\)"),
}


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
    note = " ".join(sorted(hosted))
    if problem is None:
        return Outcome("the same", note)
    for reason, expressions in MAY_DIFFER.items():
        if expressions.search(expression):
            return Outcome(f"different: {reason}")
    return Outcome("different", note, problem)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.zeros((), device=DEVICE)
    if os.environ.get("QUEUES") == "whole":
        importlib.import_module("retrograd.devices._deferred").REPEATS = 1
    watch_host()
    main(check, sys.argv[1:])
