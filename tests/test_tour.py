"""The command line: the tour that ``python -m retrograd`` gives, and what it says to mistakes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from test_seeds import PRINTED, printed_by

import retrograd
from retrograd import tour
from retrograd.tour import Program


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "retrograd", *arguments],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shown() -> str:
    result = command()
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


def test_every_program_prints_what_it_prints_on_pytorch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
    namespace: dict[str, Any] = {}
    for _, program, printed in tour.walk():
        if not program.continues:
            namespace = {}
        source = program.source.replace("import retrograd as torch", "import torch")
        source = source.replace("from retrograd import", "from torch import")
        assert "retrograd" not in source
        assert printed == printed_by(source, "torch", namespace), program.title


def test_the_command_tour_is_the_default(shown: str) -> None:
    assert command("tour").stdout == shown


def test_the_tour_runs_its_programs_rather_than_reciting_them() -> None:
    namespace: dict[str, Any] = {"n": 20}
    assert tour.run(Program("", "", "print(n + 1)"), namespace) == "21\n"
    with pytest.raises(ZeroDivisionError):
        tour.run(Program("", "", "1 / 0"), {})
    failing = Program("", "", "print(1); 1 / 0", fails=ZeroDivisionError)
    assert tour.run(failing, {}) == "1\nZeroDivisionError: division by zero\n"
    with pytest.raises(RuntimeError, match="'It works' should have raised ValueError"):
        tour.run(Program("It works", "", "1", fails=ValueError), {})


def test_help() -> None:
    result = command("--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: retrograd [--help] [--version] [command] ...\n")
    assert "tour      run the programs of five notes on autograd" in result.stdout
    about = command("tour", "--help")
    assert (about.returncode, about.stderr) == (0, "")
    assert about.stdout.startswith("usage: retrograd tour ")


def test_version() -> None:
    result = command("--version")
    assert (result.returncode, result.stdout) == (0, f"retrograd {retrograd.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["trian"], "retrograd: there is no command 'trian' (choose from "),
        (["--fast"], "retrograd: unrecognized arguments: --fast"),
        (["tour", "3"], "retrograd: unrecognized arguments: 3"),
    ],
)
def test_mistakes_get_one_line(arguments: list[str], complaint: str) -> None:
    result = command(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(complaint)
    assert result.stderr.endswith("; see retrograd --help\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes on Windows")
@pytest.mark.parametrize("buffering", [[], ["-u"]])
def test_nobody_reads_on(buffering: list[str]) -> None:
    """As in ``python -m retrograd | head``, with a ``head`` that is gone before the first line."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            [sys.executable, *buffering, "-m", "retrograd"],
            stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")
