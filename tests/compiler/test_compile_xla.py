"""Programs on XLA, in processes of their own: JAX starts threads, which must not be in a process
that forks. Samples are compared with eager mode: one in 512 with the slow tests, one in 64 with the
exhaustive ones, and all with ``COMPILE=all``."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import _xla
import pytest
from operation_counts import load

import retrograd
from retrograd.compiler.xla import COMPOSITES
from retrograd.ops._operation import TABLE

HERE = Path(__file__).parent
TESTS = HERE.parent  # where samples and other helpers are
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs JAX")


def run(*arguments: str) -> str:
    """What a Python process prints, which must succeed."""
    source = str(Path(retrograd.__file__).parents[1])
    path = os.pathsep.join([source, str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu",
                   "XLA_FLAGS": _xla.FLAGS}  # fmt: skip
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=HERE, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def samples(start: int, step: int) -> None:
    found = json.loads(run("xla_samples.py", str(start), str(step)).splitlines()[-1])
    assert not found["problems"], "\n".join(found["problems"])
    counts = found["counts"]
    assert counts["on XLA"] > 5 * counts.get("eager", 0)


def test_jax_is_imported_only_when_asked_for() -> None:
    run("-c", "import sys, retrograd, retrograd.compiler.xla; retrograd.compile(abs);"
              "assert 'jax' not in sys.modules")  # fmt: skip


def test_without_jax_it_says_what_to_install() -> None:
    text = run("-c", "import sys; sys.modules['jax'] = None\nimport retrograd\n"
                     "try: retrograd.compile(lambda x: x, backend='xla')\n"
                     "except ModuleNotFoundError as error: print(error)")  # fmt: skip
    assert text == (
        'compile(backend="xla") needs JAX, which is not installed: '
        "pip install 'retrograd[xla]'\n"
    )


@needs_jax
def test_every_primitive_has_a_lowering_or_a_reason() -> None:
    text = run("-c", "import json\nfrom retrograd.compiler import xla\nxla.load()\n"
                     "from retrograd.compiler.xla import _table\n"
                     "print(json.dumps([sorted(_table.LOWERINGS), _table.ON_HOST]))")  # fmt: skip
    lowered: list[str]
    reasons: dict[str, str]
    lowered, reasons = json.loads(text)
    load()
    primitives = {name for name, operation in TABLE.items() if operation.family != "composite"}
    assert not primitives - set(lowered) - set(reasons)
    assert not set(reasons) & set(lowered), "these have both"
    assert set(reasons) <= primitives
    random = {name for name, reason in reasons.items() if "random numbers" in reason}
    sized = {name for name, reason in reasons.items() if "how many results" in reason}
    assert len(set(reasons) - random - sized) <= 27  # Bessel functions, polynomials, LAPACK
    # What is no operation of the table: lines that only programs have.
    kernels = {"put", "in_rows", "in_layout_of", "optimizer_update",
               "branch", "while_loop", "scan", "redistribute"}  # fmt: skip
    composites = COMPOSITES | {f"{name}_backward" for name in COMPOSITES}
    assert composites <= set(lowered)
    assert not set(lowered) - primitives - kernels - composites


QUICK = "test_transforms or test_optimizers"


@needs_jax
@pytest.mark.parametrize("chosen", [QUICK, pytest.param(f"not ({QUICK})", marks=pytest.mark.long)])
def test_programs_on_xla(chosen: str) -> None:
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "xla_programs.py", "-k", chosen)


@needs_jax
@pytest.mark.long
def test_samples_on_xla() -> None:
    samples(0, 512)


@needs_jax
@pytest.mark.long
def test_control_flow_on_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKENDS", "xla")
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_compile_control.py", "-k", "xla")


@needs_jax
@pytest.mark.exhaustive
def test_training_on_xla() -> None:
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "long", "xla_programs.py")


@needs_jax
@pytest.mark.exhaustive
def test_more_samples_on_xla() -> None:
    every: Any = {"all": 1}.get(os.environ.get("COMPILE", ""), 64)
    samples(7 % every, every)
