"""What users do on a mesh of 8 virtual devices of the CPU, besides training: run by
tests/devices/test_on_meshes.py in a process of its own."""

from __future__ import annotations

import copy
from collections import OrderedDict, namedtuple
from typing import Any

import jax
import numpy as np
import pytest

import retrograd as torch
from retrograd import nn
from retrograd.distributed.device_mesh import DeviceMesh, init_device_mesh
from retrograd.distributed.fsdp import (
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from retrograd.distributed.tensor import (
    DTensor,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
)
from retrograd.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInputOutput,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)

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


def test_placements_after_the_caches_of_jax_are_emptied() -> None:
    """JAX then traces programs again, each of which is for certain placements."""

    @torch.compile
    def double(x: Any) -> Any:
        x.mul_(2)
        return x.sum()

    tensors = [distribute_tensor(torch.ones(8, 2), ROW, [p]) for p in (S(0), R)]
    for x in (*tensors, *tensors):
        double(x)
    jax.clear_caches()
    for x, placement in zip(tensors, (S(0), R), strict=True):
        assert double(x).item() == 128
        assert x.placements == (placement,)


def test_a_compiled_function_on_one_device_after_another() -> None:
    weights = np.arange(3000.0, dtype=np.float32)
    devices = ["xla:cpu:0", "xla:cpu:1"]
    table = torch.ones(3000, device=devices[0])

    @torch.compile(fullgraph=True)
    def mean(x: Any) -> Any:
        return (x * torch.tensor(weights.tolist(), device=x.device)).mean(), x.device.index

    @torch.compile
    def add_table(x: Any) -> Any:
        return x + table

    for k in (0, 0, 1, 1, 0, 1):
        x = torch.ones(3000, device=devices[k])
        y, index = mean(x)
        assert (y.item(), y.device, index) == (1499.5, torch.device(devices[k]), k)
    assert len(mean.entries) == 2
    for _ in range(2):
        assert add_table(torch.ones(3000, device=devices[0])).sum().item() == 6000
    with (
        pytest.warns(UserWarning, match="tensors on two devices"),
        pytest.raises(RuntimeError, match="at least two devices, xla:cpu:1 and xla:cpu:0!"),
    ):
        add_table(torch.ones(3000, device=devices[1]))


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
        with pytest.raises(ValueError, match="must contain the numbers of devices"):
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


def test_mixed_precision_is_of_what_is_gathered() -> None:
    policy = MixedPrecisionPolicy(torch.bfloat16, output_dtype=torch.float32)
    model, seen = fully_shard(net(), mesh=ROW, mp_policy=policy), []
    model[2].register_forward_hook(
        lambda layer, x, y: seen.append((layer.weight.dtype, x[0].dtype, y.dtype))
    )
    expected = gradients(net())
    run = torch.compile(lambda x: model(x).sum(), fullgraph=True)
    for call in (lambda x: model(x).sum(), run):
        model.zero_grad()
        y = call(distribute_tensor(torch.ones(8, 16), ROW, [S(0)]))
        y.backward()
        assert y.dtype == torch.float32
        for p, g in zip(model.parameters(), expected, strict=True):
            assert p.dtype == p.grad.dtype == torch.float32
            assert p.placements == p.grad.placements == (S(0),)
            np.testing.assert_allclose(p.grad.cpu().numpy(), g, rtol=0.05, atol=0.05)
    assert set(seen) == {(torch.bfloat16,) * 3}
    g = model[0].weight.grad.cpu()
    assert not torch.equal(g, torch.from_numpy(expected[0]))


def test_options_of_fully_shard() -> None:
    both = fully_shard([nn.Linear(16, 8), nn.Linear(8, 16)], mesh=GRID)
    assert [m.weight.placements for m in both] == [(R, S(0)), (R, S(0))]
    both[0].set_requires_gradient_sync(False)
    both[0].set_is_last_backward(True)
    model = fully_shard(net(), mesh=ROW, offload_policy=OffloadPolicy())
    with pytest.raises(ValueError, match=r"passed to fully_shard\(\) before"):
        fully_shard(model, mesh=ROW)
    with pytest.raises(ValueError, match="containers that do not implement forward"):
        fully_shard(nn.ModuleList([net()]), mesh=ROW)
    with pytest.raises(TypeError, match="takes a module, not Tensor"):
        fully_shard(torch.ones(2), mesh=ROW)
    with pytest.raises(TypeError, match="expected a DeviceMesh"):
        fully_shard(net(), mesh="cuda")
    with pytest.raises(NotImplementedError, match="leave offload_policy out"):
        fully_shard(net(), mesh=ROW, offload_policy=CPUOffloadPolicy())
    with pytest.raises(NotImplementedError, match=r"Use fully_shard\(block\) for each block"):
        FullyShardedDataParallel(net())


# -- modules on a mesh -------------------------------------------------------------------------


def test_a_module_that_cannot_be_placed_is_as_before() -> None:
    def refused(name: str, part: Any, mesh: Any) -> None:
        if name == "2":
            raise ArithmeticError

    uneven = {"0": ColwiseParallel(), "2": ColwiseParallel()}
    for place, error in (
        (lambda m: parallelize_module(m, ROW, uneven), ValueError),
        (lambda m: fully_shard(m, mesh=ROW, shard_placement_fn=lambda p: S(0)), ValueError),
        (lambda m: distribute_module(m, ROW, refused), ArithmeticError),
    ):
        model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 30))
        model(torch.ones(8, 16)).sum().backward()
        state = [*model.state_dict().values(), *[p.grad for p in model.parameters()]]
        with pytest.raises(error):
            place(model)
        assert {x.device for x in state} == {torch.device("cpu")}
        assert model[0].weight.device == model[0].weight.grad.device == torch.device("cpu")
        assert model[1].running_mean.device == torch.device("cpu")
        assert model(torch.ones(8, 16)).device == torch.device("cpu")
        assert type(model) is nn.Sequential
        assert not model[0]._forward_pre_hooks


def test_a_module_may_leave_the_mesh() -> None:
    x = torch.ones(8, 16)
    expected = net()(x).tolist()
    for model in (
        fully_shard(net(), mesh=ROW),
        parallelize_module(net(), ROW, {"0": ColwiseParallel(), "2": RowwiseParallel()}),
    ):
        assert isinstance(model(x), DTensor)
        y = model.cpu()(x)
        assert y.device == torch.device("cpu")
        np.testing.assert_allclose(y.tolist(), expected, rtol=1e-6)
        y.sum().backward()
        assert model[0].weight.grad.device == torch.device("cpu")


def test_arguments_by_name_and_in_containers() -> None:
    Batch = namedtuple("Batch", ["x", "size"])

    class Layer(nn.Linear):
        def forward(self, batch: Any, scale: Any = None) -> Any:
            seen.append(getattr(scale, "placements", None))
            x = batch["x"] if isinstance(batch, dict) else batch.x
            return super().forward(x if scale is None else x * scale)

    seen: list[Any] = []
    x = torch.ones(8, 16)
    for batch in (OrderedDict(x=x), Batch(x, 8)):
        assert fully_shard(Layer(16, 8), mesh=ROW)(batch).shape == (8, 8)
    style = PrepareModuleInputOutput(
        desired_input_kwarg_layouts={"scale": S(0)}, desired_output_layouts=S(1)
    )
    layer = parallelize_module(Layer(16, 8), ROW, style)
    with loss_parallel():
        y = layer(Batch(x, 8), scale=torch.ones(8, 16))
        loss = nn.functional.cross_entropy(y, distribute_tensor(torch.arange(8), ROW))
    assert (seen, y.placements) == ([None, None, (S(0),)], (S(1),))
    loss.backward()
    assert layer.weight.grad.placements == (R,)


def test_styles_of_users() -> None:
    class Half(ParallelStyle):
        def _apply(self, module: Any, device_mesh: Any) -> Any:
            return distribute_module(module, device_mesh, lambda name, part, mesh: (
                part.register_parameter("bias", None)))  # fmt: skip

    model = parallelize_module(net(), ROW, {"0": Half()})
    assert model[0].bias is None
    rows = RowwiseParallel()
    table, layer = nn.Embedding(16, 8), nn.Linear(16, 8)
    parallelize_module(table, ROW, rows)
    parallelize_module(layer, ROW, rows)
    seen: list[Any] = []
    layer.register_forward_pre_hook(lambda layer, x: seen.append(x[0].placements))
    assert layer(torch.ones(8, 16)).shape == (8, 8)
    assert seen == [(S(1),)]
    for style in ("colwise", ColwiseParallel):
        with pytest.raises(TypeError, match=r"a plan must have styles such as ColwiseParallel\(\)"):
            parallelize_module(net(), ROW, {"0": style})


def test_mistakes_in_placements() -> None:
    x = torch.ones(8, 8)
    for placements in (["S(0)"], [0], [S]):
        with pytest.raises(TypeError, match=r"a placement must be Shard\(dim\) or Replicate\(\)"):
            distribute_tensor(x, ROW, placements)
    with pytest.raises(TypeError, match=r"placements must be a list, .*: \[Shard\(dim=0\)\]"):
        distribute_tensor(x, ROW, S(0))
    with pytest.raises(TypeError, match=r"expected a DeviceMesh, .*, not None"):
        distribute_tensor(x, None, [S(0)])
    with pytest.raises(TypeError, match=r"takes a tensor, not ndarray: use torch\.tensor"):
        distribute_tensor(np.ones(8), ROW, [S(0)])
    with pytest.raises(RuntimeError, match="placements is needed for redistribute!"):
        distribute_tensor(x, ROW, [S(0)]).redistribute()
    with pytest.raises(NotImplementedError, match=r"src_data_rank=1: .* from the first process, 0"):
        distribute_tensor(x, ROW, [S(0)], src_data_rank=1)
    with torch.device("meta"):
        model = net()
    for place in (
        lambda: fully_shard(model, mesh=ROW), lambda: distribute_module(model, ROW),
        lambda: parallelize_module(model, ROW, {"0": ColwiseParallel()}),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match=r"create it, or the model, on the CPU"):
            place()


def test_the_text_of_a_tensor_shows_its_mesh() -> None:
    x = distribute_tensor(torch.ones(2), ROW)
    assert repr(x) == """tensor([1., 1.], device="a mesh of 8 devices 'xla:cpu'")"""


def test_constant_results_are_on_the_device_of_the_argument() -> None:
    x = distribute_tensor(torch.ones(8, 8), ROW, [S(0)])
    assert torch.isreal(x).placements == (R,)
    assert torch.linalg.pinv(x[:0, :0]).placements == (R,)
    x = torch.ones(8, device="xla:cpu:1")
    for _ in range(9):  # the last queues are compiled as one function
        (device,) = torch.isreal(x).float()._data.array.devices()
        assert device.id == 1


def test_star_imports() -> None:
    known: dict[str, Any] = {}
    exec("from retrograd.distributed.tensor.parallel import *", known)
    exec("from retrograd.distributed.device_mesh import *", known)
    assert known["DeviceMesh"] is DeviceMesh
    assert known["ColwiseParallel"] is ColwiseParallel
    assert known.keys().isdisjoint({"copy", "warnings", "math", "os", "Tensor", "mapped"})


# -- transforms --------------------------------------------------------------------------------


def transformed(model: Any, x: Any, y: Any) -> list[Any]:
    """Gradients for each sample and each of several models, tangents and a Jacobian."""
    parameters = dict(model.named_parameters())

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        found = torch.func.functional_call(model, parameters, (x,))
        return nn.functional.cross_entropy(found, y)

    def sample_loss(parameters: Any, x: Any, y: Any) -> Any:
        return loss(parameters, x[None], y[None])

    def called(parameters: Any) -> Any:
        return torch.func.functional_call(model, parameters, (x,))

    models = {name: torch.stack([p, 2 * p]) for name, p in parameters.items()}
    ones = {name: torch.ones_like(p) for name, p in parameters.items()}
    grad, vmap = torch.func.grad, torch.func.vmap
    found = [
        vmap(grad(sample_loss), (None, 0, 0))(parameters, x, y),
        vmap(grad(loss), (0, None, None))(models, x, y),
        torch.func.jacrev(lambda p: called(p).sum(0))(parameters),
        {"tangent": torch.func.jvp(called, (parameters,), (ones,))[1]},
    ]
    return [v.detach().cpu().numpy() for each in found for v in each.values()]


@pytest.mark.filterwarnings("error")  # operations without a batching rule warn
def test_transforms_of_sharded_modules() -> None:
    torch.manual_seed(1)
    x, y = torch.randn(8, 16), torch.randint(0, 8, (8,))
    expected = transformed(net(), x, y)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    both = parallelize_module(net(), GRID["tp"], plan)
    for model, mesh in (
        (fully_shard(net(), mesh=ROW), ROW), (parallelize_module(net(), ROW, plan), ROW),
        (fully_shard(both, mesh=GRID["dp"]), GRID["dp"]),
    ):  # fmt: skip
        batch = [distribute_tensor(t, mesh, [S(0)]) for t in (x, y)]
        for found, v in zip(transformed(model, *batch), expected, strict=True):
            np.testing.assert_allclose(found, v, rtol=1e-4, atol=1e-5)
