"""What is published: a wheel that works by itself, and a source distribution that tests itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
import sys
import setuptools.build_meta as backend
print(getattr(backend, "build_" + sys.argv[1])(sys.argv[2]))
"""
USE = """
import pathlib, sys
import retrograd as torch
home = pathlib.Path(torch.__file__)
assert home.is_relative_to(sys.argv[1]), home
x = torch.tensor([1.0, 2.0], requires_grad=True)
torch.special.jv(1, torch.nn.Linear(2, 1)(x) * x).sum().backward()
assert x.grad is not None
for part in ("py.typed", "special.pyi", "viz/page", "training/data"):
    assert (home.parent / part).exists(), part
"""


def built(kind: str, folder: Path) -> Path:
    """Build a distribution from a copy of the files that git knows, so that nothing is left over
    from other builds."""
    source = folder / "source"
    if not source.exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
        ).stdout.decode()
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                target = source / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-W", "ignore", "-c", BUILD, kind, str(folder)]
    found = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    return folder / found.stdout.split()[-1]


@pytest.mark.long
def test_the_wheel_works_and_the_source_distribution_tests_itself(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77", reason="it builds distributions")
    if not (ROOT / ".git").exists():
        pytest.skip("what belongs to a distribution is what git knows")
    wheel, sdist = built("wheel", tmp_path), built("sdist", tmp_path)

    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert all(n.startswith(("retrograd/", "retrograd-")) for n in names)
        archive.extractall(tmp_path / "installed")  # which is what installing a pure wheel does
    environment = {
        **os.environ, "PYTHONPATH": str(tmp_path / "installed"), "PYTHONDONTWRITEBYTECODE": "1"
    }  # fmt: skip

    def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip

    found = run("-c", USE, str(tmp_path / "installed"), cwd=tmp_path)
    assert found.returncode == 0, found.stderr

    with tarfile.open(sdist) as tar:
        tar.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("retrograd-*[0-9]")
    for name in ("tests/conftest.py", "tests/samples/special.py", "docs/solvers.md", "run", "test",
                 "benchmarks/__main__.py", "conftest.py", "CHANGELOG.md", ".ci/run"):  # fmt: skip
        assert (unpacked / name).is_file(), name
    tests = ("tests/ops/test_scipy_special.py", "tests/project/test_imports.py")
    found = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, cwd=unpacked)
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-3000:]
