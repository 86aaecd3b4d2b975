"""Tensors on meshes of devices, by 8 virtual devices of the CPU, in processes of their own."""

from __future__ import annotations

import json
import os
import re
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


ALONE = """
import retrograd as torch
import retrograd.distributed as dist
from retrograd.distributed.device_mesh import init_device_mesh
from retrograd.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("mpi")
mesh = init_device_mesh("cpu", (4,))
x = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])
print("total", x.sum().item(), flush=True)
dist.barrier()
"""


@pytest.mark.long
@pytest.mark.skipif(not _mpi.is_installed(), reason="needs MPI")
@pytest.mark.parametrize(("program", "words"), [
    # One that alone reads what others have parts of, one that has left, and one that has failed.
    ("if dist.get_rank() == 0:\n    x.cpu()\ndist.barrier()",
     "rank 0: full_tensor(float32[8]) at .*\n  rank 1: barrier()"),
    ("if dist.get_rank() == 0:\n    x.sum().item()\ndist.destroy_process_group()",
     "has left (.*), but rank 0 needs it for run_on_mesh()"),
    ("if dist.get_rank() == 0:\n    x.cpu()",
     "has left (its program ended), but rank 0 needs it for full_tensor(float32[8])"),
    ("if dist.get_rank() == 0:\n    x.sum().item()\nraise ValueError('no')",
     "failed: ValueError: no while rank 0 was in run_on_mesh()"),
    ("dist.all_reduce(x)", "a tensor on a mesh of 4 devices 'xla:cpu' cannot be sent over MPI"),
])  # fmt: skip
def test_a_process_that_does_not_take_part_ends_all(program: str, words: str) -> None:
    flags = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": _xla.FLAGS}
    result = _mpi.run(ALONE + program, 2, env=flags, timeout=100, expect=None)
    assert all("total 28.0" in text for text in result.out)
    assert re.search(re.escape(words).replace(r"\.\*", ".*"), result.err[0]), result.report()
    assert result.seconds < 60


RANDOM = """
import retrograd as torch
import retrograd.distributed as dist
from retrograd import nn
from retrograd.distributed.device_mesh import DeviceMesh, init_device_mesh
from retrograd.distributed.fsdp import fully_shard
from retrograd.distributed.tensor import Shard, distribute_tensor
from retrograd.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module,
)

dist.init_process_group("mpi")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
torch.manual_seed(dist.get_rank())
found = []
for compiled in (False, True):
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 4), nn.Dropout(0.3))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    if compiled:
        fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = torch.compile(step, fullgraph=True) if compiled else step
    placements = [Shard(0)] if compiled else None
    x = distribute_tensor(torch.randn(8, 8), mesh["dp"], placements)
    y = distribute_tensor(torch.randint(0, 4, (8,)), mesh["dp"], placements)
    found += [run(x, y).item() for _ in range(4)]
found += nn.functional.dropout(distribute_tensor(torch.randn(32), mesh)).tolist()
print("found", len(found), found)
try:
    distribute_tensor(torch.ones(4 * (dist.get_rank() + 1)), mesh["dp"], [Shard(0)])
except dist.MismatchError as error:
    print("mismatch", "rank 1: distribute_tensor(float32[8])" in str(error))
other = DeviceMesh("cpu", [3, 2] if dist.get_rank() == 0 else [0, 1])
try:
    distribute_tensor(torch.ones(4), other)
except RuntimeError as error:
    print("not here", error)
dist.destroy_process_group()
"""


@pytest.mark.long
@pytest.mark.skipif(not _mpi.is_installed(), reason="needs MPI")
def test_tensors_on_a_mesh_are_copied_from_the_first_process() -> None:
    """Weights, batches and dropout, although each process draws its own numbers. Otherwise
    replicated tensors would differ between devices."""
    flags = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": _xla.FLAGS}
    lines = [
        [x for x in text.splitlines() if x.startswith(("found", "mismatch", "not here"))]
        for text in _mpi.run(RANDOM, 2, env=flags, timeout=200).out
    ]
    assert lines[0] == lines[1]
    assert lines[0][0].startswith("found 40 ")
    assert lines[0][1] == "mismatch True"
    assert lines[0][2].startswith("not here this process drives no device of the mesh")


def test_the_example_of_the_docs() -> None:
    page = (HERE.parents[1] / "docs" / "devices.md").read_text(encoding="utf-8")
    (program,) = [x for x in page.split("```") if "fully_shard(model, mesh" in x]
    assert run("-c", program.removeprefix("text")).strip() == "(Shard(dim=0), Shard(dim=0))"


@pytest.mark.long
@pytest.mark.parametrize(
    "file", ["mesh_programs.py", "mesh_usage_programs.py", "mesh_plan_programs.py",
             "mesh_operation_programs.py"]
)
def test_programs_on_a_mesh(file: str) -> None:
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", file)
