"""Programs written for PyTorch, run as they are with this package in its place, print the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "tests" / "programs").glob("*.py"))
NUMBER = re.compile(r"-?\d+\.\d+")


def printed(*command: str) -> str:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path},
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
def test_prints_what_pytorch_prints(torch: Any, program: Path) -> None:
    ours = printed("-m", "retrograd", str(program))
    assert len(ours.splitlines()) >= 3
    same(ours, printed(str(program)))
