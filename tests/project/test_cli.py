"""The command line: what it shows, what it leaves behind, and what it says to mistakes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import retrograd as torch
from retrograd.training._progress import Progress

# With threads, small products wait for each other, at great length where the machine is busy.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
QUICK = ("train", "digits", "--steps", "3")


def command(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "retrograd", *map(str, arguments)], env=ENVIRONMENT,
        capture_output=True, text=True, timeout=300, **options,
    )  # fmt: skip


def refused(*arguments: str | Path, **options: Any) -> str:
    """The one line that says what is wrong."""
    result = command(*arguments, **options)
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.rstrip("\n")


# -- help, versions, mistakes -------------------------------------------------------------------


def test_help() -> None:
    result = command("--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: retrograd [--help] [--version] [command] ...\n")
    assert "tour      run the programs of five notes on autograd" in result.stdout
    assert "train     train a model " in result.stdout
    for name in ("tour", "train"):
        about = command(name, "--help")
        assert (about.returncode, about.stderr) == (0, "")
        assert about.stdout.startswith(f"usage: retrograd {name} ")
    for option in ("--epochs", "--steps", "--seed", "--text", "--out", "--resume", "--threads"):
        assert f"  {option} " in about.stdout


def test_version() -> None:
    result = command("--version")
    assert (result.returncode, result.stdout) == (0, f"retrograd {torch.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["trian"], "retrograd: there is no command 'trian' (choose from "),
        (["--fast"], "retrograd: unrecognized arguments: --fast"),
        (["tour", "3", "4"], "retrograd: unrecognized arguments: 4"),
        (["train", "digits", "--fast"], "retrograd: unrecognized arguments: --fast"),
        (["train", "digits", "--steps", "0"],
         "retrograd train: argument --steps: '0' is not a whole number of at least 1"),
        (["train", "digits", "--seed", "-1"],
         "retrograd train: argument --seed: '-1' is not a whole number of at least 0"),
        (["train", "digits", "--threads", "two"],
         "retrograd train: argument --threads: 'two' is not a whole number of at least 1"),
        (["train", "digits", "--steps", "3", "--epochs", "3"],
         "retrograd train: argument --epochs: not allowed with argument --steps"),
    ],
)  # fmt: skip
def test_mistakes_in_options(arguments: list[str], complaint: str) -> None:
    said = refused(*arguments)
    assert said.startswith(complaint)
    assert said.endswith(f"; see retrograd{' train' if 'argument --' in said else ''} --help")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "specify what to train: digits, chars, or a configuration file"),
        (["digit"], "cannot train 'digit'; did you mean digits?"),
        (["mnist"], "cannot train 'mnist'; choose from digits, chars, or give the name of a .toml "
         "or .json file"),
        (["my.toml"], "there is no file 'my.toml'; choose from digits, chars, or give the name of "
         "a .toml or .json file"),
        (["digits", "--text", "x"], "--text is only for chars"),
        (["chars", "--text", "nowhere.txt"], "{here}/nowhere.txt: No such file or directory"),
        (["chars", "--text", "."], "{here}: Is a directory"),
        (["chars", "--text", "binary"], "{here}/binary is not text in UTF-8: byte 3 is 0xff"),
        (["chars", "--text", "short"], "{here}/short has only 12 characters: too few for windows "
         "of 64 (model.context) to train and to test on"),
        (["chars", "--text", "empty"], "{here}/empty has only 0 characters: too few for windows "
         "of 64 (model.context) to train and to test on"),
        (["digits", "--out", "short"], "short: File exists"),
        (["digits", "--out", "short/in"], "short/in: Not a directory"),
    ],
)  # fmt: skip
@pytest.mark.skipif(sys.platform == "win32", reason="the system's words are others on Windows")
def test_mistakes_in_what_to_train(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"abc\xff")
    (tmp_path / "short").write_text("Hello, world", encoding="utf-8")
    (tmp_path / "empty").write_text("", encoding="utf-8")
    said = refused("train", *arguments, cwd=tmp_path)
    assert said == f"retrograd: {complaint.format(here=tmp_path)}"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["binary", "empty", "short"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes on Windows")
@pytest.mark.parametrize("buffering", [[], ["-u"]])
@pytest.mark.parametrize("name", ["tour", "train"])
def test_nobody_reads_on(buffering: list[str], name: str, tmp_path: Path) -> None:
    """As in ``retrograd tour | head``, with a ``head`` that is gone before the first line."""
    what = ["digits", "--steps", "2"] if name == "train" else []
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            [sys.executable, *buffering, "-m", "retrograd", name, *what], cwd=tmp_path,
            stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120, env=ENVIRONMENT,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "Error" not in result.stderr


def closed(redirection: str, *arguments: str | Path, **variables: str) -> tuple[int, str, str]:
    """Run a command with a stream closed, as a shell does it."""
    words = " ".join(shlex.quote(str(a)) for a in (sys.executable, "-m", "retrograd", *arguments))
    result = subprocess.run(
        ["sh", "-c", f"{words} {redirection}"], env=ENVIRONMENT | variables, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    return result.returncode, result.stdout, result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="about a shell of Unix")
def test_closed_streams() -> None:
    plan = ("pipeline", "plan", "--stages", "2", "--microbatches", "4", "--show")
    for arguments in (["--help"], ["--version"], plan):
        assert closed(">&-", *arguments) == (0, "", "")
        assert closed("2>&-", *arguments)[0] == 0
        assert closed(">&- 2>&- <&-", *arguments) == (0, "", "")
    assert closed(">&-", "trian")[0] == 2
    assert closed("2>&-", "trian") == (2, "", "")
    assert closed("2>&-", "train") == (2, "", "")


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="about a shell of Unix")
def test_runs_with_closed_streams(tmp_path: Path) -> None:
    # Nothing that is written to a stream may end up in a file that took its number.
    for number, redirection in enumerate((">&-", "2>&-", ">&- 2>&-", "2>&1 >/dev/null | head -0")):
        folder = tmp_path / str(number)
        code, _, said = closed(redirection, *QUICK, "--out", folder)
        assert (code, said.count("Error")) == (0, 0)
        assert set(torch.load(folder / "model.safetensors"))
        assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["steps"] == 3
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        assert len([json.loads(line) for line in lines]) >= 3


def test_whoever_reads_progress_is_gone() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as stream:
        progress = Progress(2, 0, quiet=False, stream=stream)
        progress.step(0.5, {})
        progress.step(0.5, {})  # the last step is always told
        progress.close()
        with pytest.raises(BrokenPipeError):
            stream.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"},
                                       {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0",
                                        "PYTHONUTF8": "0"}])  # fmt: skip
def test_a_terminal_with_few_letters(variables: dict[str, str]) -> None:
    plan = ("pipeline", "plan", "--stages", "2", "--microbatches", "2", "--schedule", "gpipe",
            "--show")  # fmt: skip
    code, said, wrong = closed("", *plan, **variables)
    assert (code, wrong) == (0, "")
    code, in_full, _ = closed("", *plan, PYTHONIOENCODING="utf-8")
    assert "·" in in_full
    assert said == in_full.replace("·", ".").replace("─", "-")


# -- a run --------------------------------------------------------------------------------------


def test_where_files_go(tmp_path: Path) -> None:
    first = command(*QUICK, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    folder = tmp_path / "runs" / "digits-0"
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert {p.name for p in before} > {"config.json", "metrics.jsonl", "model.safetensors"}
    assert f"The files are in {Path('runs/digits-0')}:\n" in first.stdout
    for name in ("model.safetensors", "metrics.jsonl", "checkpoints/"):
        assert re.search(rf"^  {re.escape(name)} ", first.stdout, re.M)
    # The same again is another run, and leaves the first alone.
    again = command(*QUICK, "--quiet", cwd=tmp_path)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    other = tmp_path / "runs" / "digits-0-2"
    assert (other / "model.safetensors").read_bytes() == before[folder / "model.safetensors"]
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    seeded = command(*QUICK, "--seed", "1", "--quiet", cwd=tmp_path)
    assert seeded.returncode == 0
    weights = (tmp_path / "runs" / "digits-1" / "model.safetensors").read_bytes()
    assert weights != before[folder / "model.safetensors"]
    said = refused(*QUICK, "--out", folder)
    assert said == (
        f"retrograd: {folder} already contains a run: continue it with --resume {folder}, or "
        "choose another --out"
    )


def test_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    result = command(*QUICK, cwd=tmp_path)
    assert result.stdout.startswith(
        "digits: 1,437 training images, 360 test images; a model of 33,802 parameters\n"
        "training for 3 steps; files go to"
    )
    assert re.fullmatch(
        r"step 3 of 3, loss \d\.\d+, test accuracy \d+\.\d%, [\d.e+]+ steps/s, 0 s left\n",
        result.stderr,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals on Windows")
def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    pytest.importorskip("tqdm", reason="without tqdm there is no bar")
    shown = on_a_terminal(["-m", "retrograd", *QUICK], tmp_path)
    assert "100%" in shown
    assert "3/3" in shown
    assert re.search(r"loss \d\.\d+, test accuracy \d+\.\d%", shown)
    # The bar is through before the results begin.
    assert shown.rindex("100%") < shown.index("digits: test accuracy")


def on_a_terminal(arguments: list[str], folder: Path) -> str:
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=ENVIRONMENT | {"TERM": "xterm"},
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # what Linux says at the end
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait(120) == 0, shown
    return shown.decode()


def test_without_matplotlib_and_tqdm(tmp_path: Path) -> None:
    """Both are extras. Without them a run has lines and no pictures, and says so."""
    hide = "import sys; sys.modules.update(matplotlib=None, tqdm=None)\n"
    (tmp_path / "sitecustomize.py").write_text(hide, encoding="utf-8")
    environment = ENVIRONMENT | {"PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-m", "retrograd", *QUICK], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "There are no curves: they need matplotlib (pip install matplotlib).\n" in result.stdout
    assert not list(tmp_path.rglob("*.png"))
    assert (tmp_path / "runs" / "digits-0" / "model.safetensors").exists()


def test_threads(tmp_path: Path) -> None:
    shown = "import retrograd.__main__ as m, retrograd as t; m.main(%r); print(t.get_num_threads())"
    arguments = [*QUICK, "--threads", "3", "--quiet"]
    result = subprocess.run(
        [sys.executable, "-c", shown % arguments], cwd=tmp_path, env=ENVIRONMENT,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (result.stdout, result.stderr) == ("3\n", "")


@pytest.mark.long
def test_without_a_command_all_of_it(tmp_path: Path) -> None:
    """The main job: the tour, and then digits, read well enough and soon enough."""
    before = os.times()
    result = command(cwd=tmp_path)
    after = os.times()
    seconds = after.children_user - before.children_user  # of the processor: others use it too
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(command("tour").stdout)
    folder = tmp_path / "runs" / "digits-0"
    assert f"The files are in {folder.relative_to(tmp_path)}:" in result.stdout
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == 230
    assert records[-1]["test_accuracy"] >= 0.97
    assert seconds < 120
