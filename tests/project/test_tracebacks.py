"""Tracebacks end at the user's line: frames of the package are left out, unless asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import retrograd as torch
from retrograd import _tracebacks
from retrograd._source import PACKAGE

# Each fails in its last line, or in the line that is marked.
PROGRAMS = {
    "shapes": "c = torch.ones(2, 3) + torch.ones(4, 5)",
    "second backward": """\
loss = (torch.ones(2, requires_grad=True) ** 2).sum()
loss.backward()
loss.backward()""",
    "in place": """\
y = torch.ones(2, requires_grad=True).exp()
y += 1
y.sum().backward()""",
    "no scalar": "(torch.ones(2, requires_grad=True) * 2).backward()",
    "module": """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)
    def forward(self, x):
        return self.layer(x).tanh()  # here
Net()(torch.ones(2, 5))""",
    "vmap and grad": """\
def f(x, y):
    return (x @ y).sum()  # here
torch.func.vmap(torch.func.grad(f))(torch.ones(3, 2), torch.ones(3, 4))""",
    "hook": """\
y = torch.ones(2, requires_grad=True) * 2
def hook(grad):
    return grad + torch.ones(3, 7)  # here
y.register_hook(hook)
y.sum().backward()""",
    "compiled": """\
@torch.compile
def f(x, y):
    return x.sin() @ y  # here
f(torch.ones(2, 3), torch.ones(2, 3))""",
    "checkpoint": """\
from retrograd.utils.checkpoint import checkpoint
def block(x):
    return x @ torch.ones(5, 5)  # here
checkpoint(block, torch.ones(2, 3, requires_grad=True), use_reentrant=False)""",
}  # fmt: skip
LOADER = """\
import retrograd as torch
from retrograd.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.ones(2) + torch.ones(3)
if __name__ == "__main__":
    list(DataLoader(Data(), batch_size=2, num_workers=1))
"""


def run(path: Path, source: str) -> None:
    path.write_text(source, encoding="utf-8")
    exec(compile(source, str(path), "exec"), {"torch": torch, "__name__": "program"})


def failing(path: Path, source: str) -> Exception:
    try:
        run(path, source)
    except Exception as error:
        return error
    raise AssertionError("the program did not fail")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_last_frame_is_the_users(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    error = failing(path, PROGRAMS[name])
    show = _tracebacks._for_scripts(sys.__excepthook__)
    show(type(error), error, error.__traceback__)
    shown = capsys.readouterr().err
    lines = PROGRAMS[name].splitlines()
    wrong = next((i for i, line in enumerate(lines) if "# here" in line), len(lines) - 1)
    files = re.findall(r'^  File "(.*?)", line (\d+)', shown, re.M)
    assert files[-1] == (str(path), str(wrong + 1))
    assert PACKAGE not in shown
    assert "<backward of" not in re.sub(r"recorded at.*", "", shown)
    # The exception itself keeps all of its frames.
    assert PACKAGE in "".join(traceback.format_exception(error))


def test_a_worker_tells_the_users_line(tmp_path: Path) -> None:
    path = tmp_path / "loader.py"
    path.write_text(LOADER, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=300
    )
    assert PACKAGE not in result.stderr
    files = re.findall(r'^  File "(.*?)", line (\d+)', result.stderr, re.M)
    assert files == [(str(path), "9"), (str(path), "7")]


def prompt(source: str, **more: str) -> str:
    """What the prompt of Python shows."""
    result = subprocess.run(
        [sys.executable, "-i"], input=source, capture_output=True, text=True, timeout=300,
        env={**os.environ, **more},
    )  # fmt: skip
    return result.stderr


def test_the_prompt_and_threads_show_it_so_too() -> None:
    source = """\
import threading
import retrograd as torch
torch.ones(2) + torch.ones(3)
thread = threading.Thread(target=lambda: torch.ones(2) + torch.ones(3))
thread.start(); thread.join()
"""
    shown = prompt(source)
    assert PACKAGE not in shown
    assert shown.count("The size of tensor a (2) must match the size of tensor b (3)") == 2
    assert PACKAGE in prompt(source, RETROGRAD_TRACEBACKS="full")


def test_errors_that_led_to_it_are_shortened_and_restored() -> None:
    def fail() -> None:
        try:
            torch.ones(2) + torch.ones(3)
        except RuntimeError as error:
            raise ExceptionGroup("both", [error, ValueError("other")]) from error

    with pytest.raises(ExceptionGroup) as caught:
        fail()
    first = caught.value.exceptions[0]
    before = first.__traceback__
    with _tracebacks.shortened(caught.value):
        assert len(list(_tracebacks.frames(first.__traceback__))) == 1
    assert first.__traceback__ is before


def test_a_defect_of_the_package_is_shown_whole() -> None:
    with pytest.raises(AssertionError) as caught:
        exec(compile("assert False", PACKAGE + "made_up.py", "exec"))
    assert _tracebacks.is_defect(caught.value)
    assert not _tracebacks.is_defect(ValueError("no traceback"))


def test_ipython_shows_it_so_too(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    result = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=NoColor", "--simple-prompt", "-c",
         "import retrograd as torch\ntorch.ones(2) + torch.ones(3)"],
        capture_output=True, text=True, timeout=300, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert "The size of tensor a (2)" in result.stdout
    assert "_fast.py" not in result.stdout
