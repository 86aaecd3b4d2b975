"""Tensors on meshes of devices, by 8 virtual devices of the CPU, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import _mpi
import _xla
import pytest

import retrograd as torch

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="needs JAX")
HERE = Path(__file__).parent


def run(*arguments: str, devices: int = 8) -> str:
    """What a Python process prints, which must succeed."""
    flags = f"{_xla.FLAGS} --xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "PYTHONPATH": str(Path(torch.__file__).parents[1]),
                   "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}  # fmt: skip
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=HERE, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.skipif(not _mpi.is_installed(), reason="needs MPI")
def test_two_processes_have_one_mesh() -> None:
    """Each has two devices. Loss and parameters are those of one process with four."""
    script = HERE / "mesh_processes.py"
    flags = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": _xla.FLAGS}
    expected = json.loads(run(str(script), devices=4).splitlines()[-1])
    assert expected["losses"][-1] < 0.9 * expected["losses"][0]
    assert expected["rows"] == [[4, 8]] * 4
    for rank, text in enumerate(_mpi.run(script, 2, env=flags, timeout=200).out):
        found = json.loads(next(x for x in text.splitlines() if x.startswith("{")))
        assert found["losses"] == pytest.approx(expected["losses"], rel=1e-5)
        assert found["weight"] == pytest.approx(expected["weight"], rel=1e-4)
        assert found["rows"] == [[4, 8]] * 2
        assert found["where"] == [2 * rank]
        assert found["local"] == [4, 8]
        assert found["placements"] == found["grad"] == "(Shard(dim=0),)"


def test_the_example_of_the_docs() -> None:
    page = (HERE.parents[1] / "docs" / "devices.md").read_text(encoding="utf-8")
    (program,) = [x for x in page.split("```") if "fully_shard(model, mesh" in x]
    assert run("-c", program.removeprefix("text")).strip() == "(Shard(dim=0), Shard(dim=0))"


@pytest.mark.long
@pytest.mark.parametrize("file", ["mesh_programs.py", "mesh_usage_programs.py"])
def test_programs_on_a_mesh(file: str) -> None:
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", file)
