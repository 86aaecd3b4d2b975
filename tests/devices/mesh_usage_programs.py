"""What users do on a mesh of 8 virtual devices of the CPU, besides training: run by
tests/devices/test_on_meshes.py in a process of its own."""

from __future__ import annotations

import pytest

import retrograd as torch
from retrograd.distributed.device_mesh import init_device_mesh
from retrograd.distributed.tensor import Replicate, Shard, distribute_tensor

ROW = init_device_mesh("cpu", (8,))
GRID = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
S, R = Shard, Replicate()


def test_programs_are_waited_for() -> None:
    """Of more than 32 that wait for a device, one blocks a thread that another one lacks."""
    x = distribute_tensor(torch.full((1024, 1024), 1 / 1024), ROW, [S(1)])
    y = x @ x  # which adds up what 8 devices compute
    assert y._data.memory.array.is_ready()
    assert y.redistribute(placements=[S(0)])._data.memory.array.is_ready()
    run = torch.compile(lambda a: (a @ a, a @ a @ a), fullgraph=True)
    for z in run(y):
        assert z._data.memory.array.is_ready()
    for _ in range(100):
        y = y @ x
    assert y[0, 0].item() == pytest.approx(1 / 1024)
