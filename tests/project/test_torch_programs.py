"""Programs written for PyTorch, run as they are with this package in its place, print the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "tests" / "programs").glob("*.py"))
SOURCE = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
# Threads of small products wait for each other where the machine is busy.
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
NUMBER = re.compile(r"-?\d+\.\d+")


@pytest.fixture(scope="module")
def pytorch() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported PyTorch, and runs scripts in children of its own."""
    pytest.importorskip("torch", reason="PyTorch is not installed to compare with")
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", str(ROOT / "tests" / "_forking_runner.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
    ) as process:  # fmt: skip
        yield process
        assert process.stdin is not None
        process.stdin.close()


def printed_by_pytorch(process: subprocess.Popen[str], program: Path) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{program}\n")
    process.stdin.flush()
    code, out, err = json.loads(process.stdout.readline())
    assert code == 0, err
    return str(out)


def printed_by_retrograd(program: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "retrograd", str(program)], capture_output=True,
        text=True, check=False, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def same(ours: str, theirs: str) -> None:
    """The same text, with numbers that agree up to two units of their last digit."""
    assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
    for a, b in zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True):
        unit = 10.0 ** -len(b.partition(".")[2])
        assert abs(float(a) - float(b)) <= 2.01 * unit, (a, b)


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.stem for p in PROGRAMS])
def test_prints_what_pytorch_prints(pytorch: subprocess.Popen[str], program: Path) -> None:
    ours = printed_by_retrograd(program)
    assert len(ours.splitlines()) >= 3
    same(ours, printed_by_pytorch(pytorch, program))
