"""What users do on a mesh of 8 virtual devices of the CPU, besides training: run by
tests/devices/test_on_meshes.py in a process of its own."""

from __future__ import annotations

import copy

import pytest

import retrograd as torch
from retrograd.distributed.device_mesh import DeviceMesh, init_device_mesh
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


# -- meshes ------------------------------------------------------------------------------------


def test_equal_meshes_are_one() -> None:
    again = init_device_mesh("cpu", (8,))
    assert again == ROW
    assert hash(again) == hash(ROW)
    assert GRID["tp"] == GRID["tp"] != GRID["dp"]
    assert copy.deepcopy(GRID) is GRID
    x = distribute_tensor(torch.arange(8.0), ROW, [S(0)])
    y = distribute_tensor(torch.arange(8.0), again, [R])
    assert x.device == y.device
    assert x.redistribute(again, [R]).placements == (R,)
    assert (x + y).redistribute(ROW, [S(0)]).tolist() == [2.0 * i for i in range(8)]
    assert GRID.get_local_rank("tp") == GRID["dp"].get_local_rank() == GRID.get_local_rank(0) == 0
    place = torch.device(x.device)
    assert place == x.device
    assert torch.ones(2, device=place).placements == (R,)
    with torch.device("meta"):
        assert init_device_mesh("cpu", (8,)) == ROW


def test_other_meshes_are_not_mixed() -> None:
    x = distribute_tensor(torch.arange(8.0), ROW, [S(0)])
    for numbers in ([*range(7, -1, -1)], [0, 1, 2, 3]):
        y = distribute_tensor(torch.arange(8.0), DeviceMesh("cpu", numbers), [R])
        with pytest.raises(RuntimeError, match="got mixed torch.Tensor and DTensor"):
            x + y


def test_mistakes_in_meshes() -> None:
    for shape in (8, (0,), (-1,), (2.0, 4)):
        with pytest.raises(ValueError, match="the number of devices along each dimension"):
            init_device_mesh("cpu", shape)
    with pytest.raises(RuntimeError, match="device type at start of device string: gpu"):
        init_device_mesh("gpu", (8,))
    with pytest.raises(RuntimeError, match="a mesh consists of devices of type .*, not 'meta'"):
        init_device_mesh("meta", (8,))
    with pytest.raises(TypeError, match="device_type is a string such as 'cuda', not device"):
        init_device_mesh(torch.device("cpu"), (8,))
    with pytest.raises(RuntimeError, match=r"cannot have duplicate values, but found \[0, 0, 1\]"):
        DeviceMesh("cpu", [0, 0, 1])
    for numbers in ([-1, 1], [0.0, 1.0], []):
        with pytest.raises(ValueError, match="given by their numbers"):
            DeviceMesh("cpu", numbers)
    for names in ("pp", ("tp", "tp"), 0):
        with pytest.raises(KeyError, match="Valid mesh_dim_names are"):
            GRID[names]
    with pytest.raises(RuntimeError, match="have 2 dimensions. Optional kwarg `mesh_dim`"):
        GRID.get_local_rank()
    with pytest.raises(NotImplementedError, match="a mesh has no process groups"):
        GRID.get_group("tp")
