"""Devices by name, the device of new tensors, and tensors on the meta device, beside PyTorch."""

from __future__ import annotations

import importlib.util
import os
import pickle
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from _side_by_side import outcome

import retrograd

M = "torch.empty(3, 4, device='meta')"
EXPRESSIONS = f"""
[torch.device('cuda:0'), torch.device('meta'), torch.device('mps'), torch.device('cuda', 1)]
str(torch.device('cuda:1')), torch.device('cpu') == torch.device('cpu:0'), torch.device('xpu').index
torch.device('cuda:0').type, torch.device(torch.device('cuda:0')), hash(torch.device('mps')) != 0
torch.device('foo')
torch.device('cuda:a')
torch.device('cuda:')
torch.device('cuda:1', 1)
{M}.device, {M}.is_meta, {M}.shape, {M}.stride(), {M}.dtype, {M}.numel(), {M}.is_contiguous()
{M}.exp(), {M} + {M}, {M} + 1, 1 - {M}, {M} * torch.tensor(2.0), {M} > 0, -{M}, {M} ** 2
{M}.T, {M}.T.stride(), {M}[:, 1:3].stride(), {M}[1:].storage_offset(), {M}.expand(2, 3, 4).stride()
{M} @ {M}.T, torch.einsum('ij,kj->ik', {M}, {M}), torch.outer({M}[0], {M}[:, 0])
torch.empty(10000, 20000, device='meta') @ torch.empty(20000, 30000, device='meta')
{M}.diagonal_scatter(torch.empty(3, device='meta')), {M}.select_scatter({M}[0], 0, 1)
torch.linalg.cross({M}, {M}[:, :1], dim=0), {M}.kthvalue(3, 1).values, {M}.kthvalue(2, 0).indices
{M}.all(dim=[], keepdim=True), {M}.any(dim=[]), {M}.all(dim=[0, 1])
{M}.sum(), {M}.sum(0), {M}.mean(1, keepdim=True), {M}.max(1).indices, {M}.argmax(0), {M}.var()
{M}.to(torch.float64), {M}.double(), {M}.long(), {M}.bool()
{M}[0], {M}[:, 1:3], {M}[None], {M}[[0, 1]], {M}[..., -1]
{M}.softmax(-1), {M}.log_softmax(0), F.gelu({M}), F.layer_norm({M}, (4,)), {M}.norm(dim=1)
torch.cat([{M}, {M}]), torch.stack([{M}, {M}]), {M}.chunk(2), torch.where({M} > 0, {M}, 0.0)
{M}.view(12), {M}.reshape(2, 6), {M}.flatten(), {M}.unsqueeze(0), {M}.permute(1, 0).contiguous()
{M}.sort().values, {M}.topk(2).indices, {M}.cumsum(0), {M}.flip(0), {M}.roll(1)
{M}.add_(1), {M}.normal_(), {M}.zero_(), {M}.fill_(2), {M}.copy_(torch.ones(3, 4)), {M}.mul_({M})
torch.zeros_like({M}), torch.randn_like({M}), {M}.new_zeros(2), {M}.new_tensor([1.0])
torch.empty_like({M}, device='cpu').device, torch.zeros(2).to('meta'), torch.zeros(2).to({M})
{M}.item()
{M}.sum().item()
{M}.numpy()
{M}.clone(), {M}.detach(), __import__('copy').deepcopy({M}), nn.Parameter({M})
F.cross_entropy({M}, torch.zeros(3, dtype=torch.long, device='meta')), F.cosine_similarity({M}, {M})
F.dropout({M}), F.scaled_dot_product_attention(*[torch.zeros(2, 3, 4, 5, device='meta')] * 3)
torch.zeros(2, device='meta', requires_grad=True) * 2
torch.arange(3, device='meta'), torch.eye(2, device='meta'), torch.tensor([1, 2], device='meta')
torch.linspace(0, 1, 5, device='meta'), torch.rand(2, device='meta')
torch.full((2,), 1, device='meta')
""".strip().split("\n")  # fmt: skip

PROGRAMS = {
    "default device": """
with torch.device("meta"):
    made = torch.zeros(2), torch.tensor([1.0]), torch.arange(3), torch.zeros(1, device="cpu")
    inside = torch.get_default_device(), torch.zeros_like(made[3]), nn.Linear(3, 2).weight
made, inside, torch.zeros(1), torch.get_default_device()
""",
    "set_default_device": """
torch.set_default_device("meta")
made = torch.zeros(2), torch.get_default_device()
torch.set_default_device(None)
made, torch.zeros(2), torch.get_default_device()
""",
    "a large layer": """
with torch.device("meta"):
    layer = nn.Linear(100000, 100000)
    y = layer(torch.empty(5, 100000))
layer.weight.shape, y.shape, y.requires_grad
""",
    "backward": """
with torch.device("meta"):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2))
    y = model(torch.randn(5, 4))
    y.sum().backward()
y.shape, [p.grad for p in model.parameters()]
""",
    "convolutions": """
with torch.device("meta"):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(8 * 7 * 7, 10))
    y = model(torch.randn(2, 3, 16, 16))
y.shape
""",
    "sequences": """
with torch.device("meta"):
    layer, table = nn.TransformerEncoderLayer(16, 4, batch_first=True), nn.Embedding(10, 16)
    y = layer(table(torch.zeros(2, 5, dtype=torch.long)))
    z = nn.LSTM(4, 8)(torch.randn(3, 2, 4))[0]
y.shape, z.shape
""",
    "loading": """
with torch.device("meta"):
    layer = nn.Linear(3, 2)
source = nn.Linear(3, 2)
layer.load_state_dict(source.state_dict(), assign=True)
x = torch.ones(1, 3)
torch.equal(layer(x), source(x)), layer.weight.device, layer.weight.requires_grad, layer.weight
""",
    "to_empty": """
with torch.device("meta"):
    layer = nn.Linear(3, 2)
layer.to_empty(device="cpu")
layer.reset_parameters()
layer.weight.device, layer(torch.ones(1, 3)).shape
""",
    "ensembling": """
import copy
models = [nn.Linear(3, 2) for _ in range(4)]
params, buffers = torch.func.stack_module_state(models)
base = copy.deepcopy(models[0]).to("meta")
def call(params, buffers, x):
    return torch.func.functional_call(base, (params, buffers), (x,))
torch.vmap(call, (0, 0, None))(params, buffers, torch.ones(5, 3)), base.weight
""",
}


@pytest.mark.parametrize("code", [*EXPRESSIONS, *PROGRAMS.values()],
                         ids=[*EXPRESSIONS, *PROGRAMS])  # fmt: skip
def test_as_in_pytorch(torch: Any, code: str) -> None:
    assert outcome(retrograd, code) == outcome(torch, code)


def test_what_has_no_data_is_an_error() -> None:
    m = retrograd.empty(3, device="meta")
    for use in (m.tolist, m.cpu, lambda: m.to("cpu"), lambda: retrograd.ones(3).copy_(m)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            use()
    with pytest.raises(NotImplementedError, match="shape of the result depends on values"):
        m.nonzero()


NOT_THERE = """
import retrograd as torch
for place in ("cuda", "cuda:1", "mps", torch.device("xpu"), 0):
    for use in (lambda: torch.zeros(2, device=place), lambda: torch.ones(2).to(place),
                lambda: torch.nn.Linear(2, 2).to(place), lambda: torch.ones(2).cuda(),
                lambda: torch.nn.Linear(2, 2).cuda()):
        try:
            use()
        except (RuntimeError, ModuleNotFoundError) as error:
            print(error)
        else:
            raise AssertionError(place)
"""


def test_devices_that_are_not_there() -> None:
    """In a process of its own: where JAX is installed it is asked for GPUs, and starts threads."""
    source = str(Path(retrograd.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", NOT_THERE], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": source, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    absent = done.stdout.count("is not available: retrograd computes on the CPU")
    if importlib.util.find_spec("jax") is None:  # then nobody knows whether there are GPUs
        missing = done.stdout.count("need JAX, which is not installed: pip install")
        assert (absent, missing) == (6, 19)
    else:
        assert absent == 25


def test_no_memory_is_used() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with retrograd.device("meta"):
        layers = [retrograd.nn.Linear(20000, 20000) for _ in range(20)]
        x = retrograd.empty(4, 20000)
        for layer in layers:
            x = layer(x).relu()
        x.sum().backward()
    assert layers[0].weight.grad.shape == (20000, 20000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_the_device_of_new_tensors_is_of_a_thread() -> None:
    seen = []
    with retrograd.device("meta"):
        thread = threading.Thread(target=lambda: seen.append(retrograd.zeros(1).device.type))
        thread.start()
        thread.join()
    assert seen == ["cpu"]


def test_devices_are_pickled() -> None:
    place = retrograd.device("cuda:3")
    assert pickle.loads(pickle.dumps(place)) == place


def test_index_put_on_meta_has_the_shape_of_what_is_written() -> None:
    x, at = retrograd.empty(6, device="meta"), retrograd.tensor([[1], [0]]).to("meta")
    assert x.index_put((at,), retrograd.empty(2, 1, device="meta")).shape == (6,)  # as in PyTorch
