"""The tour that ``retrograd tour`` gives."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from test_seeds import PRINTED, printed_by

from retrograd import tour
from retrograd.tour import Program


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "retrograd", *arguments],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shown() -> str:
    result = command("tour")
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.parametrize("note", PRINTED)
def test_shows_what_the_notes_print(note: str, shown: str) -> None:
    position = 0
    for program, expected in PRINTED[note]:
        source = program.replace("import torch", "import retrograd as torch").splitlines()
        start = shown.find("".join(f"    {line}".rstrip() + "\n" for line in source), position)
        assert start >= 0, f"the tour does not show:\n{program}"
        position = shown.index("It prints", start)
        between = shown[start:position].splitlines()
        assert len([line for line in between if line]) == len([line for line in source if line])
        printed = f"It prints:\n\n{expected}\n" if expected else "It prints nothing.\n\n"
        assert shown.startswith(printed, position)


def test_draws_the_graph(shown: str) -> None:
    tree = """
SubBackward0
    MulBackward0
        PowBackward0
            AccumulateGrad of a
    PowBackward0
        AccumulateGrad of b
"""
    assert tree in shown


def test_hand_written_gradients_agree_with_backward(shown: str) -> None:
    gradients = "-0.1966 0.3932 -0.3932 -0.5898 0.1966"
    assert f"by hand:    {gradients}\nbackward(): {gradients}\n" in shown


def test_training_arrives(shown: str) -> None:
    assert "step 100  loss  0.0000  3.000 * x + 1.001\n" in shown


def test_compiles_derivatives(shown: str) -> None:
    chapter = shown[shown.index("Compiling. The derivative as a program") :]
    assert "t1 = x.T @ (t1 - t1 * (h * h))" in chapter
    assert "tensor([0.5403, 0.5403]) tensor([-2., -2.])\n1 program:" in chapter
    assert "for i in reversed(range(100)):" in chapter
    assert "loss 0.0000, 3.000 * x + 1.000\n" in chapter


def test_one_chapter(shown: str) -> None:
    result = command("tour", "3")
    assert (result.returncode, result.stderr) == (0, "")
    rule = "=" * tour.WIDTH
    start, end = (shown.index(f"{rule}\nNote {number}.") for number in (3, 4))
    assert result.stdout.partition("\nThat was all")[0].strip() == shown[start:end].strip()
    assert result.stdout.endswith(f"\nThat was all: {len(tour.NOTES[2].programs)} programs.\n")
    assert "Note 2." not in result.stdout
    assert "Note 4." not in result.stdout


def test_a_chapter_that_there_is_not() -> None:
    result = command("tour", "9")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "invalid choice: 9 (choose from 1, 2, 3, 4, 5, 6)" in result.stderr


def test_every_program_prints_what_it_prints_on_pytorch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
    namespace: dict[str, Any] = {}
    for note, program, printed in tour.walk():
        if note not in tour.NOTES:
            continue
        if not program.continues:
            namespace = {}
        source = program.source.replace("import retrograd as torch", "import torch")
        source = source.replace("from retrograd import", "from torch import")
        assert "retrograd" not in source
        assert printed == printed_by(source, "torch", namespace), program.title


def test_the_tour_runs_its_programs_rather_than_reciting_them() -> None:
    namespace: dict[str, Any] = {"n": 20}
    assert tour.run(Program("", "", "print(n + 1)"), namespace) == "21\n"
    with pytest.raises(ZeroDivisionError):
        tour.run(Program("", "", "1 / 0"), {})
    failing = Program("", "", "print(1); 1 / 0", fails=ZeroDivisionError)
    assert tour.run(failing, {}) == "1\nZeroDivisionError: division by zero\n"
    with pytest.raises(RuntimeError, match="'It works' should have raised ValueError"):
        tour.run(Program("It works", "", "1", fails=ValueError), {})
