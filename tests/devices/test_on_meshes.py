"""Tensors on meshes of devices, by 8 virtual devices of the CPU, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import retrograd as torch

pytest.importorskip("jax")
HERE = Path(__file__).parent


def run(*arguments: str, devices: int = 8) -> str:
    """What a Python process prints, which must succeed."""
    flags = ("--xla_backend_optimization_level=0 "
             f"--xla_force_host_platform_device_count={devices}")  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(torch.__file__).parents[1]),
                   "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}  # fmt: skip
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=HERE, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_of_the_docs() -> None:
    page = (HERE.parents[1] / "docs" / "devices.md").read_text(encoding="utf-8")
    (program,) = [x for x in page.split("```") if "fully_shard(model, mesh" in x]
    assert run("-c", program.removeprefix("text")).strip() == "(Shard(dim=0), Shard(dim=0))"


def test_programs_on_a_mesh() -> None:
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "mesh_programs.py")
