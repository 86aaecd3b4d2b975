"""Type checkers on programs of users: what is right is accepted, what is wrong is reported.

``typing/`` has programs on which mypy and pyright must report nothing, and ``mistakes.py``, in
which both must report every line that is marked, and no other.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from generate_stubs import stubs
from samples import SAMPLES, _pool

import retrograd as torch
from retrograd.ops._results import NamedResult

SOURCE = Path(torch.__file__).parent.parent
PROGRAMS = Path(__file__).parents[1] / "typing"
CORRECT = sorted(p for p in PROGRAMS.glob("*.py") if p.name != "mistakes.py")
MISTAKE = re.compile(r"# mistake: ")
TENSOR = "retrograd.tensor._tensor.Tensor"


# -- the tools ---------------------------------------------------------------------------------


def mypy(files: list[Path], folder: Path) -> list[tuple[str, int, str, str]]:
    """What mypy says in strict mode: file, line, kind of message, message."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary",
               f"--cache-dir={folder.parent / 'cache of mypy'}", *map(str, files)]  # fmt: skip
    environment = {**os.environ, "MYPYPATH": str(SOURCE)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode < 2, done.stdout + done.stderr
    assert not done.stderr
    found = re.findall(r"^(.*?):(\d+): (\w+): (.*)$", done.stdout, re.M)
    return [(Path(file).name, int(line), kind, text) for file, line, kind, text in found]


def pyright(files: list[Path], folder: Path) -> list[tuple[str, int, str, str]]:
    """What pyright says: file, line, kind of message, message."""
    pytest.importorskip("pyright", reason="pyright is not installed")
    for file in files:  # it reads nothing outside the folder of its settings
        shutil.copy(file, folder)
    settings = {"extraPaths": [str(SOURCE)], "typeCheckingMode": "standard",
                "pythonVersion": "3.11"}  # fmt: skip
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable,
               "-p", str(folder)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if not done.stdout.startswith("{"):  # it is a program for Node.js, which pip may have to fetch
        pytest.skip(f"pyright does not run here: {(done.stdout + done.stderr).strip()[-300:]}")
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files)
    return [
        (Path(m["file"]).name, m["range"]["start"]["line"] + 1, m["severity"], m["message"])
        for m in report["generalDiagnostics"]
    ]


CHECKERS = pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])


# -- programs ----------------------------------------------------------------------------------


@CHECKERS
def test_correct_programs_are_accepted(checker: Any, tmp_path: Path) -> None:
    assert len(CORRECT) >= 8
    assert checker(CORRECT, tmp_path) == []


@pytest.mark.parametrize("program", CORRECT, ids=lambda path: path.stem)
def test_correct_programs_run(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program), run_name="__main__")


@CHECKERS
def test_mistakes_are_reported(checker: Any, tmp_path: Path) -> None:
    file = PROGRAMS / "mistakes.py"
    lines = file.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if MISTAKE.search(line)}
    assert len(marked) >= 12
    reported = {line for _, line, kind, _ in checker([file], tmp_path) if kind == "error"}
    missed = [lines[n - 1] for n in sorted(marked - reported)]
    unexpected = [lines[n - 1] for n in sorted(reported - marked)]
    assert (missed, unexpected) == ([], [])


# -- stubs -------------------------------------------------------------------------------------


def test_stubs_are_up_to_date() -> None:
    """If not: ``python tests/generate_stubs.py``."""
    old = [path.name for path, text in stubs().items() if path.read_text() != text]
    assert old == []


def distinct(calls: list[str]) -> list[str]:
    """One of each set of calls that differ in tensors and numbers only."""
    names = re.compile(rf"\b({'|'.join(_pool.POOL)})\b|(?<!\w)\d+(?!\w)")
    return list({names.sub("_", call): call for call in calls}.values())


@pytest.mark.filterwarnings("ignore")  # samples of what PyTorch warns of
def test_samples_are_accepted_and_have_the_declared_results(tmp_path: Path) -> None:
    """Every call that is compared with PyTorch is right, so mypy accepts it, and its result is of
    the type that is declared. (mypy knows nothing of the arguments of a lambda that is called.)"""
    skipped = re.compile(r"lambda|^[\d.]+ [!=]= ")  # a comparison is declared by its left operand
    calls = distinct([e for e in SAMPLES if not skipped.search(e)])
    head = ["import retrograd as torch", "from typing import Any", "INF = NAN = 1.0", "put: Any",
            "written: Any", *(f"{name}: torch.Tensor" for name in _pool.POOL)]  # fmt: skip
    file = tmp_path / "samples_as_a_program.py"
    file.write_text("\n".join([*head, *(f"reveal_type({call})" for call in calls)]) + "\n")
    revealed, rejected = {}, []
    for _, line, kind, text in mypy([file], tmp_path):
        call = calls[line - 1 - len(head)]
        if kind == "error":
            rejected.append(f"{call}: {text}")
        elif text.startswith("Revealed type is "):
            revealed[call] = text.removeprefix("Revealed type is ").strip('"')
    assert rejected == []
    assert len(revealed) == len(calls)
    wrong = [f"{call}: {kind}" for call, kind in revealed.items() if not is_of(call, kind)]
    assert wrong == []
    assert len(calls) > 1000


def is_of(call: str, declared: str) -> bool:
    """Whether the result of a sample is of the type that is declared."""
    if declared in ("Any", "object") or declared.startswith("list["):
        return True
    try:
        value = _pool.raw_result(torch, call)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return True  # some samples are about what is refused
    if declared.startswith("tuple["):
        fallback = re.search(r", fallback=(?:\w+\.)*(\w+)]$", declared)
        if bool(fallback) != isinstance(value, NamedResult):
            return False
        members = declared.count(TENSOR)
        return isinstance(value, tuple) and ("..." in declared or len(value) == members)
    kind = {TENSOR: torch.Tensor, "bool": bool, "int": int, "str": str,
            "retrograd.tensor._tensor.Size": torch.Size}.get(declared)  # fmt: skip
    return kind is None or isinstance(value, kind)
