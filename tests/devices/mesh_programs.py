"""Programs on a mesh of 8 virtual devices of the CPU, run by tests/devices/test_on_meshes.py in a
process of their own."""

from __future__ import annotations

import copy
import io
from functools import cache
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import nn
from retrograd.distributed.device_mesh import DeviceMesh, init_device_mesh
from retrograd.distributed.fsdp import FSDPModule, fully_shard
from retrograd.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    zeros,
)
from retrograd.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from retrograd.nn import functional as F

ROW = init_device_mesh("cpu", (8,))
GRID = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
S, R = Shard, Replicate()


def held(x: Any) -> int:
    """The bytes of a tensor that its first device holds."""
    return int(x._data.memory.array.addressable_data(0).nbytes)


# -- meshes and placements ---------------------------------------------------------------------


def test_meshes() -> None:
    assert repr(GRID) == "DeviceMesh((dp=2, tp=4), 'xla:cpu')"
    assert (GRID.ndim, GRID.shape, GRID.size(), GRID.size(1)) == (2, (2, 4), 8, 4)
    assert repr(GRID["tp"]) == "DeviceMesh((tp=4), 'xla:cpu')"
    assert GRID["tp"].mesh.tolist() == [0, 1, 2, 3]
    assert GRID["dp"].mesh.tolist() == [0, 4]
    assert GRID["tp", "dp"].mesh.tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert GRID.get_coordinate() == (0, 0)
    reversed_mesh = DeviceMesh("cpu", [3, 2, 1, 0])
    x = distribute_tensor(torch.arange(4), reversed_mesh, [S(0)])
    assert x.to_local().tolist() == [0]
    assert x.to_local().device == torch.device("xla:cpu", 3)
    with pytest.raises(RuntimeError, match="default world size 8, but found 9 ranks! There are 8"):
        init_device_mesh("cpu", (9,))
    with pytest.raises(RuntimeError, match=r"Found len\(mesh_dim_names\): 1 and len\(mesh_shape\)"):
        init_device_mesh("cpu", (2, 4), mesh_dim_names=("a",))
    with pytest.raises(RuntimeError, match="Each mesh_dim_name must be unique"):
        init_device_mesh("cpu", (2, 4), mesh_dim_names=("a", "a"))
    with pytest.raises(RuntimeError, match="Device type with index is not supported but got cpu:1"):
        init_device_mesh("cpu:1", (1,))
    with pytest.raises(KeyError, match="Valid mesh_dim_names are"):
        GRID["pp"]
    with pytest.raises(RuntimeError, match="Cannot slice"):
        ROW["tp"]
    with pytest.raises(RuntimeError, match="device 'cuda' is not available"):
        init_device_mesh("cuda", (1,))


def test_a_tensor_is_where_its_placements_say() -> None:
    whole = torch.arange(64.0).reshape(8, 8)
    for placements, size in (
        ([R, R], 256), ([S(0), R], 128), ([S(0), S(1)], 32), ([S(1), S(1)], 32), ([R, S(-1)], 64),
    ):  # fmt: skip
        x = distribute_tensor(whole, GRID, placements)
        assert held(x) == size
        assert x.full_tensor().tolist() == whole.tolist()
        expected = tuple(S(p.dim % 2) if p.is_shard() else p for p in placements)
        assert x.placements == expected
        assert x.shape == whole.shape
        assert isinstance(x, DTensor)
        assert x.device_mesh is GRID
    x = distribute_tensor(whole, GRID, [S(0), S(1)])
    assert x.to_local().tolist() == whole[:4, :2].tolist()
    assert x.redistribute(placements=[R, S(0)]).placements == (R, S(0))
    assert x.redistribute(GRID["tp"], [R]).placements == (S(0), R)
    assert distribute_tensor(whole, GRID["tp"], [S(0)]).placements == (R, S(0))
    assert held(zeros(8, 4, device_mesh=ROW, placements=[S(0)])) == 16
    assert repr(x.device) == "device(type='xla:cpu', mesh=(2, 4))"
    assert torch.ones(3, device=x.device).placements == (R, R)
    assert x.to("xla:cpu") is x
    assert x.cpu().tolist() == whole.tolist()
    assert not isinstance(whole, DTensor)
    assert not hasattr(whole, "placements")
    assert (str(S(1)), repr(S(1)), str(R), repr(Partial())) == (
        "S(1)", "Shard(dim=1)", "R", "Partial(reduce_op='sum')"
    )  # fmt: skip


def test_errors_say_what_to_do() -> None:
    x = distribute_tensor(torch.ones(8), ROW, [S(0)])
    for other in (torch.ones(8), torch.ones(8, device="xla:cpu")):
        with pytest.raises(RuntimeError, match=r"got mixed .* with distribute_tensor"):
            x + other
    with pytest.raises(ValueError, match=r"shape \(7,\) cannot be split into 8 equal parts"):
        distribute_tensor(torch.ones(7), ROW, [S(0)])
    with pytest.raises(ValueError, match="Sharding dim 2 greater than tensor ndim 1"):
        distribute_tensor(torch.ones(8), ROW, [S(2)])
    with pytest.raises(ValueError, match="Found placements length: 2, and"):
        distribute_tensor(torch.ones(8), ROW, [S(0), R])
    with pytest.raises(RuntimeError, match="redistributing to Partial is for internal use only"):
        x.redistribute(placements=[Partial()])
    with pytest.raises(NotImplementedError, match="to another mesh"):
        x.redistribute(GRID, [R, R])
    with pytest.raises(ValueError, match="a mesh of one dimension, not 2"):
        parallelize_module(nn.Linear(8, 8), GRID, ColwiseParallel())
    with pytest.raises(NotImplementedError, match=r"only support nn\.Linear and nn\.Embedding"):
        parallelize_module(nn.ReLU(), ROW, ColwiseParallel())
    with pytest.warns(UserWarning, match="'nothing' could not be resolved"):
        parallelize_module(nn.Linear(8, 8), ROW, {"nothing": ColwiseParallel()})
    two = torch.compile(lambda a, b: (a + 1, b + 1))
    with pytest.warns(UserWarning, match="tensors on two devices"):
        found = two(x, torch.ones(8, device="xla:cpu"))
    assert [y.device for y in found] == [x.device, torch.device("xla:cpu", 0)]


def test_gradients_go_through_placements() -> None:
    w = torch.arange(8.0).reshape(2, 4).requires_grad_()
    x = distribute_tensor(w, GRID, [R, S(1)])
    assert x.is_leaf
    assert x.requires_grad
    y = DTensor.from_local(w, GRID, [S(0), S(1)])
    (y * y).redistribute(placements=[R, R]).full_tensor().sum().backward()
    assert w.grad.tolist() == (2 * w).tolist()
    assert w.grad.device == torch.device("cpu")
    (x.redistribute(placements=[S(0), R]) ** 3).sum().backward()
    assert x.grad.placements == (R, S(1))
    np.testing.assert_allclose(x.grad.cpu().numpy(), 3 * w.detach().numpy() ** 2)
    kept = x.grad
    x.to_local().sum().backward()  # of the first device
    assert x.grad is kept
    assert x.grad.placements == (R, S(1))
    expected = 3 * w.detach().numpy() ** 2
    expected[:, 0] += 1
    np.testing.assert_allclose(x.grad.cpu().numpy(), expected)
    (g,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(g.sum(), x)
    v = w.detach().numpy()
    np.testing.assert_allclose(second.cpu().numpy(), 2 * np.cos(v) - v * np.sin(v), atol=1e-5)


def test_writes_keep_placements() -> None:
    x = distribute_tensor(torch.zeros(8, 8), ROW, [S(1)])
    row = x[3]
    x[3] = 5.0
    x.add_(1)
    assert row.tolist() == [6.0] * 8
    x.copy_(torch.full((8, 8), 2.0))
    assert (x.placements, x.sum().item()) == ((S(1),), 128.0)
    x.view(-1)[9] = 0.0
    assert (x.placements, x[1, 1].item()) == ((S(1),), 0.0)
    assert copy.deepcopy(x).placements == (S(1),)
    assert x.clone().placements == (S(1),)


def test_zeros_like_and_related_functions_keep_placements() -> None:
    x = distribute_tensor(torch.ones(8, 16), GRID, [R, S(1)])
    for y in (
        torch.zeros_like(x), torch.ones_like(x.t()).t(), torch.full_like(x, 2.0),
        torch.empty_like(x, dtype=torch.int64), torch.rand_like(x), x.clone().requires_grad_(),
    ):  # fmt: skip
        assert y.placements == (R, S(1))
        assert held(y) == y.nbytes // 4
    assert torch.full_like(x[1], 2.0).tolist() == [2.0] * 16
    assert torch.zeros_like(x, device="cpu").device == torch.device("cpu")
    assert torch.vmap(torch.zeros_like)(x).tolist() == [[0.0] * 16] * 8
    layer = fully_shard(nn.Linear(16, 8), mesh=ROW)
    layer.weight.grad = torch.zeros_like(layer.weight)
    layer(torch.ones(8, 16)).sum().backward()
    assert layer.weight.grad.placements == (S(0),)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("function", [F.conv2d, F.conv_transpose2d])
def test_convolutions_of_split_arguments(function: Any, groups: int, compiled: bool) -> None:
    """XLA's partitioner computes wrong results if images are split along rows, for example, and
    wrong gradients of kernels for groups of channels if they are split along samples."""

    def step(x: Any, w: Any) -> Any:
        y = function(x, w, stride=2, padding=1, groups=groups)
        y.sin().sum().backward()
        return y.detach()

    torch.manual_seed(0)
    x, w = torch.randn(4, 4, 8, 8), torch.randn(4, 4 // groups, 4, 2)
    results = []
    for images, kernels in (
        (None, None), ([S(0), R], [R, R]), ([R, S(2)], [R, R]), ([S(0), S(3)], [S(0), S(2)]),
        ([S(1), R], [S(2), R]), ([R, S(1)], [S(1), R]),
    ):  # fmt: skip
        operands = [x, w]
        if images is not None:
            kernels = kernels if groups == 1 else [R, R]
            operands = [distribute_tensor(x, GRID, images),
                        distribute_tensor(w, GRID, kernels)]  # fmt: skip
        leaves = [v.detach().requires_grad_() for v in operands]
        run = torch.compile(step) if compiled and images is not None else step
        results.append([run(*leaves), *[v.grad for v in leaves]])
    for found in results[1:]:
        for v, expected in zip(found, results[0], strict=True):
            np.testing.assert_allclose(v.cpu().numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function", [
    torch.fft.fft2, torch.fft.rfftn, torch.fft.irfft2,
    lambda x: torch.fft.hfftn(x, (3, 2), (-1, 0)),
    lambda x: torch.stft(x.flatten(1), 8, window=torch.ones(8, device=x.device),
                         return_complex=True),
])  # fmt: skip
def test_fourier_transforms_along_split_dimensions(function: Any) -> None:
    """For some of them, XLA's partitioner would end the process."""
    torch.manual_seed(0)
    x = torch.randn(4, 4, 8)
    results = []
    for placements in (None, [R, R], [S(0), R], [R, S(2)], [S(1), S(2)], [S(2), S(0)]):
        leaf = x.clone() if placements is None else distribute_tensor(x, GRID, placements)
        y = function(leaf.requires_grad_())
        (y.abs() ** 2).sum().backward()
        results.append([y.detach(), leaf.grad])
    for found in results[1:]:
        for v, expected in zip(found, results[0], strict=True):
            np.testing.assert_allclose(v.cpu().numpy(), expected.numpy(), rtol=1e-4, atol=1e-3)


# -- training ----------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        parts = [f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                 for f in (self.q, self.k, self.v)]  # fmt: skip
        attention = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(x)))


class GPT(nn.Module):
    def __init__(self, letters: int = 32, width: int = 16, layers: int = 1) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(8, width)
        self.blocks = nn.ModuleList([Block(width, 8) for _ in range(layers)])
        self.head = nn.Linear(width, letters, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.letters(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x: Any) -> Any:
        return self.down(torch.tanh(self.up(x)))


SPLIT = {
    "blocks.*.[qkv]": ColwiseParallel(), "blocks.*.out": RowwiseParallel(),
    "up": ColwiseParallel(), "down": RowwiseParallel(),
    "blocks.*.up": ColwiseParallel(), "blocks.*.down": RowwiseParallel(),
}  # fmt: skip


def prepared(model: Any, how: str) -> Any:
    """A model in the way that a name says, and the function that places a batch."""
    if how == "one":
        return model.to("xla:cpu"), lambda x: x.to("xla:cpu")
    if how == "data":
        return distribute_module(model, ROW), lambda x: distribute_tensor(x, ROW, [S(0)])
    mesh = GRID if how == "both" else ROW
    if how in ("tensor", "both"):
        plan = {path: style for path, style in SPLIT.items()
                if path.startswith("blocks") == hasattr(model, "blocks")}  # fmt: skip
        parallelize_module(model, mesh["tp"] if how == "both" else mesh, plan)
    if how in ("fully", "both"):
        rows = mesh["dp"] if how == "both" else mesh
        for block in getattr(model, "blocks", []):
            fully_shard(block, mesh=rows)
        fully_shard(model, mesh=rows)
        return model, lambda x: distribute_tensor(x, rows, [S(0)])
    return model, lambda x: x  # which it puts there itself


def trained(kind: Any, how: str, compiled: bool, steps: int = 20) -> tuple[list[float], Any, Any]:
    torch.manual_seed(0)
    model, put = prepared(kind(), how)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        found = model(x)
        loss = F.cross_entropy(found.flatten(0, -2), y.to(found.device).flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = torch.compile(step, fullgraph=True) if compiled else step
    generator = torch.Generator().manual_seed(1)
    if kind is MLP:
        x = torch.randn(8, 16, generator=generator)
        y = torch.randint(0, 8, (8,), generator=generator)
    else:
        ids = torch.randint(0, 32, (8, 9), generator=generator)
        x, y = ids[:, :-1], ids[:, 1:]
    x, y = put(x), put(y)
    if compiled and x.device.type == "cpu":
        x, y = distribute_tensor(x, ROW), distribute_tensor(y, ROW)
    return [run(x, y).item() for _ in range(steps)], model, optimizer


@cache
def on_one_device(kind: Any) -> list[float]:
    return trained(kind, "one", True)[0]


@pytest.mark.parametrize(("kind", "how", "compiled"), [
    (MLP, "data", False), (MLP, "tensor", False), (MLP, "fully", False), (MLP, "both", False),
    (GPT, "data", True), (GPT, "tensor", True), (GPT, "fully", True), (GPT, "both", True),
])  # fmt: skip
def test_training_follows_one_device(kind: Any, how: str, compiled: bool) -> None:
    found, model, optimizer = trained(kind, how, compiled)
    np.testing.assert_allclose(found, on_one_device(kind), rtol=2e-4)
    assert found[-1] < 0.6 * found[0]
    layer = model if kind is MLP else model.blocks[0]
    split = {"data": (R,), "tensor": (S(0),), "fully": (S(0),), "both": (S(0), S(0))}[how]
    down = {"data": (R,), "tensor": (S(1),), "fully": (S(0),), "both": (S(0), S(1))}[how]
    for parameter, placements in ((layer.up.weight, split), (layer.down.weight, down)):
        state = optimizer.state[parameter]
        for x in (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"]):
            assert x.placements == placements
            assert held(x) == x.numel() * 4 // (1 if how == "data" else 8)
    assert sum(map(held, model.parameters())) < sum(p.nbytes for p in model.parameters()) + 1
    assert isinstance(layer, FSDPModule) is (how in ("fully", "both"))


def test_double_precision_is_kept() -> None:
    runs = []
    for sharded in (False, True):
        torch.manual_seed(0)
        layer = nn.Linear(16, 8, dtype=torch.float64)
        if sharded:
            fully_shard(layer, mesh=ROW)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9)
        x = torch.randn(8, 16, dtype=torch.float64)
        for _ in range(2):
            optimizer.zero_grad()
            ((layer(x) - 1) ** 2).mean().backward()
            optimizer.step()
        runs.append(layer)
    for p, q in zip(runs[1].parameters(), runs[0].parameters(), strict=True):
        assert p.grad.placements == p.placements == (S(0),)
        assert p._data.memory.array.dtype == p.grad._data.memory.array.dtype == np.float64
        np.testing.assert_allclose(p.tolist(), q.tolist(), atol=1e-14)


def test_lbfgs_is_refused() -> None:
    layer = fully_shard(nn.Linear(16, 8), mesh=ROW)
    optimizer = torch.optim.LBFGS(layer.parameters())
    with pytest.raises(NotImplementedError, match="not support parameters on a mesh of devices"):
        optimizer.step(lambda: layer(torch.ones(8, 16)).sum())
    assert not optimizer.state


def test_a_step_with_a_state_on_another_accelerator_is_refused() -> None:
    layers = [nn.Linear(2, 2).to("xla:cpu"), nn.Linear(2, 2).to("xla:cpu")]
    optimizer = torch.optim.Adam([p for layer in layers for p in layer.parameters()])
    for layer in layers:
        layer(torch.ones(2, device="xla:cpu")).sum().backward()
    optimizer.step()
    layers[1].to("xla:cpu:1")
    before = layers[0].weight.tolist()
    with pytest.raises(RuntimeError, match="two devices, xla:cpu:1 and xla:cpu:0! The parameters"):
        optimizer.step()
    assert layers[0].weight.tolist() == before  # refused before anything was written
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert layers[0].weight.tolist() != before
    assert optimizer.state[layers[1].weight]["exp_avg"].device == torch.device("xla:cpu:1")


def test_a_state_from_the_cpu_is_split_as_the_parameters() -> None:
    model = fully_shard(MLP(), mesh=ROW)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = optimizer.state_dict()
    state["state"] = {i: {"momentum_buffer": torch.ones(p.shape)}
                      for i, p in enumerate(model.parameters())}  # fmt: skip
    optimizer.load_state_dict(state)
    for p in model.parameters():
        buffer = optimizer.state[p]["momentum_buffer"]
        assert buffer.placements == p.placements == (S(0),)
        assert buffer.sum().item() == p.numel()


def test_state_is_saved_whole_and_loaded_split() -> None:
    torch.manual_seed(0)
    model = fully_shard(MLP(), mesh=ROW)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(8, 16)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    found = torch.load(file, map_location="cpu")
    assert found["model"]["up.weight"].shape == (32, 16)
    assert found["model"]["up.weight"].device == torch.device("cpu")
    again = fully_shard(MLP(), mesh=ROW)
    again.load_state_dict(found["model"])
    assert again.up.weight.placements == (S(0),)
    assert torch.equal(again.up.weight, model.up.weight)
    other = torch.optim.SGD(again.parameters(), lr=0.1, momentum=0.9)
    other.load_state_dict(found["optimizer"])  # on the CPU
    for a, b in ((model, optimizer), (again, other)):
        b.zero_grad()
        a(torch.ones(8, 16)).sum().backward()
        b.step()
    assert torch.equal(again.down.weight, model.down.weight)
    assert other.state[again.up.weight]["momentum_buffer"].placements == (S(0),)


def test_a_failing_forward_leaves_parameters_split() -> None:
    model = fully_shard(MLP(), mesh=ROW)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        model(torch.ones(8, 5))
    assert model.up.weight is dict(model.named_parameters())["up.weight"]
    assert "weight" not in vars(model.up)


def test_other_styles() -> None:
    torch.manual_seed(0)
    seen: list[Any] = []

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(16, 8)
            self.norm, self.inner = nn.LayerNorm(8), nn.Linear(8, 8)

        def forward(self, ids: Any) -> Any:
            x = self.norm(self.table(ids))
            seen.append(getattr(x, "placements", None))
            return self.inner(x)

    model = Two()
    ids = torch.randint(0, 16, (2, 8))
    expected = model(ids)
    parallelize_module(model, ROW, {
        "table": RowwiseParallel(output_layouts=S(1)), "norm": SequenceParallel(),
        "inner": PrepareModuleInput(desired_input_layouts=(R,)),
    })  # fmt: skip
    parallelize_module(model.inner, ROW, PrepareModuleOutput(desired_output_layouts=S(1)))
    found = model(ids)
    assert seen == [None, (S(1),)]
    assert found.placements == (S(1),)
    assert model.table.weight.placements == (S(0),)
    np.testing.assert_allclose(found.detach().cpu().numpy(), expected.detach().numpy(), atol=1e-5)
