"""``retrograd profile``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import sys
import retrograd as torch
x = torch.ones(3, requires_grad=True)
y = (x * 2).sum()
y.backward()
print("given", sys.argv[1:])
"""


def ran(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "retrograd", "profile", *arguments], cwd=folder, timeout=120,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_page_and_a_trace(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = ran(tmp_path, "program.py", "--memory", "--trace=t.json", "--rows", "2", "--", "-o", "3")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "given ['-o', '3']"
    assert any("program.py:4: y = (x * 2).sum()" in line for line in lines)
    assert any("Python and everything else" in line for line in lines)
    assert lines[-2:] == ["The trace is t.json", "The page is program-profile.html"]
    assert "aten::mul" in (tmp_path / "program-profile.html").read_text()
    trace = json.loads((tmp_path / "t.json").read_text())
    assert "SumBackward0" in {event["name"] for event in trace["traceEvents"]}


def test_a_program_that_fails(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        PROGRAM.replace("import retrograd as torch", "import torch") + "1 / 0\n"
    )
    done = ran(tmp_path, "--as-torch", "-o", "page.html", "program.py")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "retrograd/profiler" not in done.stderr
    assert done.stdout.splitlines()[-1] == "The page is page.html"


@pytest.mark.parametrize(("arguments", "said"), [
    ((), "specify a script: retrograd profile program.py"),
    (("none.py",), "there is no file 'none.py'"),
    (("empty.py",), "the script called no operation, so no page was written"),
    (("empty.py", "-o", "nowhere/page.html"), "the folder nowhere does not exist"),
    (("empty.py", "--rows", "many"), "'many' is not a whole number"),
    (("wrong.py",), "wrong.py:1: "),
])  # fmt: skip
def test_mistakes(
    tmp_path: Path, arguments: tuple[str, ...], said: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from retrograd.__main__ import main

    (tmp_path / "empty.py").write_text("")
    (tmp_path / "wrong.py").write_text("x = = 1\n")
    monkeypatch.chdir(tmp_path)
    assert main(["profile", *arguments]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert "Traceback" not in printed.err
    assert len(printed.err.splitlines()) == 1
