"""What users do on a mesh of 8 virtual devices of the CPU, besides training: run by
tests/devices/test_on_meshes.py in a process of its own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import nn
from retrograd.distributed.device_mesh import DeviceMesh, init_device_mesh
from retrograd.distributed.fsdp import fully_shard
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
        with pytest.raises(RuntimeError, match=r"got mixed torch\.Tensor and DTensor"):
            x + y


def test_mistakes_in_meshes() -> None:
    for shape in (8, (0,), (-1,), (2.0, 4)):
        with pytest.raises(ValueError, match="the number of devices along each dimension"):
            init_device_mesh("cpu", shape)
    with pytest.raises(RuntimeError, match="device type at start of device string: gpu"):
        init_device_mesh("gpu", (8,))
    with pytest.raises(RuntimeError, match=r"a mesh consists of devices of type .*, not 'meta'"):
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
    with pytest.raises(RuntimeError, match=r"have 2 dimensions\. Optional kwarg `mesh_dim`"):
        GRID.get_local_rank()
    with pytest.raises(NotImplementedError, match="a mesh has no process groups"):
        GRID.get_group("tp")


# -- fully sharded modules ---------------------------------------------------------------------


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))


def gradients(model: Any) -> list[Any]:
    model.zero_grad()
    model(torch.ones(8, 16)).sum().backward()
    return [p.grad.cpu().numpy() for p in model.parameters()]


def test_layers_compute_with_gathered_parameters() -> None:
    model, seen = fully_shard(net(), mesh=ROW), []
    for layer in (model[0], model[2]):
        layer.register_forward_hook(
            lambda layer, x, y: seen.append((layer.weight.placements, layer.bias.placements))
        )
    y = model(torch.ones(8, 16)).sum()
    assert seen == [((R,), (R,))] * 2
    assert [p.placements for p in model.parameters()] == [(S(0),)] * 4
    assert not model._shards.gathered
    with torch.no_grad():  # before it is gathered again
        model[2].weight.mul_(2)
    with pytest.raises(RuntimeError, match=r"parameter 'weight' of shape \(8, 32\), which fully"):
        y.backward()


def test_a_copy_of_a_sharded_module_has_its_own_parameters() -> None:
    model = fully_shard(net(), mesh=ROW)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    for found, expected in zip(gradients(other), gradients(net()), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert other[0].weight.grad.placements == (S(0),)
    assert np.abs(gradients(model)[0]).sum() == 0
    average = torch.optim.swa_utils.AveragedModel(other)
    average.update_parameters(other)
    x = torch.ones(8, 16)
    assert average(x).tolist() == other(x).tolist()


def test_parameters_that_are_replaced_are_used() -> None:
    model = fully_shard(net(), mesh=ROW)
    model[2].weight = nn.Parameter(torch.zeros_like(model[2].weight))
    model.load_state_dict({**model.state_dict(), "2.bias": torch.ones(8)})
    assert model(torch.ones(8, 16)).tolist() == [[1.0] * 8] * 8
    gradients(model)
    assert model[2].weight.grad is not None


class Folded(nn.Module):
    """Calls itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: Any, times: int = 2) -> Any:
        x = torch.tanh(self.layer(x))
        return self(x, times - 1) if times else x


def test_a_sharded_module_may_call_itself() -> None:
    torch.manual_seed(0)
    plain = Folded()
    model = fully_shard(copy.deepcopy(plain), mesh=ROW)
    for found, expected in zip(gradients(model), gradients(plain), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert model.layer.weight.placements == (S(0),)
