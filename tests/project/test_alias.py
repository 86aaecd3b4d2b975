"""Programs that import torch, run with this package in its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import torch.nn.functional as F, torch, torch.nn as nn
from torch.utils.data import DataLoader
import retrograd
assert nn is retrograd.nn and torch.Tensor is retrograd.Tensor and torch.nn is nn
assert nn.__spec__.name == "retrograd.nn" and torch.__spec__.name == "torch"
assert torch.__version__ == f"2.13.0+retrograd.{retrograd.__version__}"
print(sys.argv[1:], __name__, F.relu(torch.tensor([-1.0, 2.0])).tolist())
"""


def run(
    folder: Path, *arguments: str, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path}, timeout=timeout,
    )  # fmt: skip


@pytest.mark.parametrize("how", [["run", "program.py"], ["program.py"], ["run", "-m", "program"]])
def test_a_script_as_it_is(tmp_path: Path, how: list[str]) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    result = run(tmp_path, "-m", "retrograd", *how, "--epochs", "1")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "['--epochs', '1'] __main__ [0.0, 2.0]\n"


def test_from_inside(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"import retrograd.as_torch\n{PROGRAM}", encoding="utf-8")
    result = run(tmp_path, "program.py")
    assert (result.returncode, result.stderr) == (0, "")
    (tmp_path / "torch.py").write_text("", encoding="utf-8")  # stands for PyTorch
    late = run(tmp_path, "-c", "import torch, retrograd.as_torch")
    assert "PyTorch has been imported already" in late.stderr


def test_a_package_that_is_run(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "package" / "model.py").write_text("import torch\nx = torch.ones(2)\n", "utf-8")
    (tmp_path / "package" / "__main__.py").write_text(
        "from .model import x\nprint(x.sum().item())\n", encoding="utf-8"
    )
    result = run(tmp_path, "-m", "retrograd", "run", "-m", "package")
    assert (result.returncode, result.stdout, result.stderr) == (0, "2.0\n", "")


def test_a_script_ends_though_executors_are_open(tmp_path: Path) -> None:
    program = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
import torch
executor = ThreadPoolExecutor(1)
executor.submit(lambda: (time.sleep(0.2), print("submitted")))
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
torch.set_num_threads(2)
print(torch.zeros(1 << 20).exp().sum().item())  # shared with a thread of the package
from retrograd.arrays._blocks import workers
assert workers._pool is not None
"""
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    result = run(tmp_path, "-m", "retrograd", "program.py", timeout=100)
    assert (result.returncode, result.stderr) == (0, "")
    assert sorted(result.stdout.splitlines()) == ["1048576.0", "submitted", "thread"]


def test_names_that_do_not_exist_say_what_does(tmp_path: Path) -> None:
    program = """
for name in ("torch.lineer", "torch.nn.Liner", "torch.nn.functional.rellu", "torch.linalg.inve",
             "torch.utils.dat", "torch.zzzzzz"):
    try:
        eval(name, {"torch": __import__("torch")})
    except AttributeError as error:
        print(error)
for name in ("torch.functionl", "torch.nn.functionals", "torch.zzzzzz", "torch.nn.zzzzzz"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        print(error)
try:
    import torch, numpi
except ModuleNotFoundError as error:
    print(error)
"""
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    result = run(tmp_path, "-m", "retrograd", "run", "program.py")
    assert result.stderr == ""
    said = result.stdout.splitlines()
    assert said[1] == (
        "module 'retrograd.nn' has no attribute 'Liner'; the nearest names are torch.nn.Linear, "
        "torch.nn.linear and torch.nn.LazyLinear"
    )
    nearest = ["torch.inner", "torch.nn.Linear", "functional.relu", "torch.linalg.inv",
               "torch.utils.data", None, "torch.func", "torch.nn.functional", None, None,
               None]  # fmt: skip
    assert len(said) == len(nearest)
    for line, name in zip(said, nearest, strict=True):
        assert ("nearest" not in line) if name is None else (name in line.split("nearest")[1]), line
    assert said[6].startswith("No module named 'torch.functionl': retrograd does not have it; ")
    assert said[-1] == "No module named 'numpi'"


def test_mistakes_are_reported_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("x = (\n", encoding="utf-8")
    said = {
        ("run", "nope.py"): "there is no file 'nope.py'",
        ("nope.py",): "there is no file 'nope.py'",
        ("run",): "specify a script: retrograd run train.py",
        ("run", "-m"): "specify a module: retrograd run -m package.train",
        ("run", "-m", "no.module"): "there is no module 'no.module' to run",
        ("run", "wrong.py"): "wrong.py:1: '(' was never closed",
    }
    for arguments, message in said.items():
        result = run(tmp_path, "-m", "retrograd", *arguments)
        assert (result.returncode, result.stderr) == (2, f"retrograd: {message}\n"), arguments


def test_the_script_ends_as_it_would(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import sys, torch\nif sys.argv[1:]:\n    sys.exit(int(sys.argv[1]))\ntorch.ones(2) @ 1\n",
        encoding="utf-8",
    )
    assert run(tmp_path, "-m", "retrograd", "program.py", "7").returncode == 7
    result = run(tmp_path, "-m", "retrograd", "program.py")
    lines = result.stderr.splitlines()
    assert result.returncode == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('program.py", line 4, in <module>')
    assert "__main__" not in result.stderr


SPAWNING = """
import multiprocessing
import torch

def work(n, queue):
    queue.put((n, "retrograd" in torch.__version__, torch.ones(n).sum().item()))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    started = [context.Process(target=work, args=(n, queue)) for n in (1, 2)]
    for process in started:
        process.start()
    print(sorted(queue.get() for process in started))
    for process in started:
        process.join()
"""


@pytest.mark.parametrize("how", ["-m retrograd", "as_torch"])
def test_processes_that_a_program_spawns_import_the_same(tmp_path: Path, how: str) -> None:
    inside = "import retrograd.as_torch\n" if how == "as_torch" else ""
    (tmp_path / "program.py").write_text(inside + SPAWNING, encoding="utf-8")
    result = run(tmp_path, *([] if inside else ["-m", "retrograd"]), "program.py")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "[(1, True, 1.0), (2, True, 2.0)]\n"
