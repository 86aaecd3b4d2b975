"""Plans compared with the figures of XLA's programs on 8 virtual devices of the CPU, and errors in
plans: run by tests/devices/test_on_meshes.py in a process of its own."""

from __future__ import annotations

import math
import re
import sys
from typing import Any

import jax
import pytest
from mesh_programs import GPT, ROW, SPLIT

import retrograd as torch
from retrograd import nn
from retrograd.__main__ import main
from retrograd.distributed.fsdp import fully_shard
from retrograd.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
from retrograd.distributed.tensor.parallel import parallelize_module
from retrograd.nn import functional as F
from retrograd.pipeline import _shards

S, R = Shard, Replicate()


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gpt = GPT(64, 64, 2)

    def forward(self, x: Any, y: Any) -> Any:
        return F.cross_entropy(self.gpt(x).flatten(0, 1), y.flatten())


def collected(text: str) -> dict[str, int]:
    """The bytes of the results of collectives in an XLA program, by kind."""
    sizes = dict.fromkeys(("all-gather", "all-reduce", "reduce-scatter", "all-to-all"), 0)
    for shapes, kind in re.findall(r"= (.*?) ([a-z-]+?)(?:-start)?\(", text):
        if kind in sizes:
            for dtype, shape in re.findall(r"(\w+)\[([\d,]*)\]", shapes):
                width = {"pred": 1, "s64": 8, "f64": 8}.get(dtype, 4)
                sizes[kind] += width * math.prod(map(int, filter(None, shape.split(","))))
    return sizes


def compiled_again(part: Any) -> Any:
    """XLA's program for the last call of a part of a step."""
    ((_, _, where, _), call), = part.calls.items()
    inputs = [jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=w)
              for v, w in zip(part.program.inputs, where, strict=True)]  # fmt: skip
    with jax.enable_x64(True):
        return call.function.lower(*inputs, *part.held).compile()


@pytest.mark.parametrize(
    ("strategy", "how"), [("fsdp", "fully"), ("data", "data"), ("tensor", "tensor")]
)
def test_a_plan_agrees_with_the_figures_of_xla(strategy: str, how: str) -> None:
    plan = {f"gpt.{path}": style for path, style in SPLIT.items() if path.startswith("blocks")}
    shape = (32, 8)
    with torch.device("meta"):
        ids = torch.empty(shape, dtype=torch.int64)
        what = _shards.measured(WithLoss(), (ids, ids), plan)
    planned = _shards.cost(strategy, what, 8, _shards.STATES["adamw"])
    model = WithLoss()
    if how == "data":
        distribute_module(model, ROW)
    elif how == "tensor":
        parallelize_module(model, ROW, plan)
    else:
        for block in model.gpt.blocks:
            fully_shard(block, mesh=ROW)
        fully_shard(model, mesh=ROW)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = torch.compile(step, fullgraph=True)
    x = distribute_tensor(torch.randint(0, 64, shape), ROW, [R if how == "tensor" else S(0)])
    for _ in range(3):
        run(x, x)
    (passes, *_), _, (updates, *_) = run.last.function.steps
    compiled = [compiled_again(part) for part in (passes, *updates.variants.values())]
    passes_memory, updates_memory = (part.memory_analysis() for part in compiled)
    # Donated bytes are exactly parameters and state, and new results are gradients.
    assert updates_memory.alias_size_in_bytes == planned.parameters + planned.state
    analyses = (passes_memory, updates_memory)
    new = sum(x.output_size_in_bytes - x.alias_size_in_bytes for x in analyses)
    assert new == pytest.approx(float(planned.gradients), rel=0.05)
    kept = float(planned.activations + planned.gathered)
    assert 0.8 * kept < passes_memory.temp_size_in_bytes < 1.4 * kept
    assert updates_memory.temp_size_in_bytes < 0.1 * kept
    # On the CPU, XLA adds up whole gradients and then splits them.
    sizes = collected("\n".join(part.as_text() for part in compiled))
    whole = sum(p.nbytes for p in model.parameters())
    sums = what.added_up if how == "tensor" else whole
    assert sizes["all-reduce"] == pytest.approx(sums, rel=0.01)
    gathers = float(planned.traffic) * 8 / 7 - whole if how == "fully" else 0
    assert sizes["all-gather"] == pytest.approx(gathers, rel=0.1, abs=0.02 * whole)
    assert sizes["reduce-scatter"] == sizes["all-to-all"] == 0


PROGRAM = """
import torch
from torch.distributed.tensor.parallel import ColwiseParallel

class Net(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x).sum()

def setup():
    return Net(8, 16), (torch.empty(64, 8),)

def split():
    return Net(8, 16), (torch.empty(64, 8),), {"": ColwiseParallel()}
"""


def test_the_command(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.py"
    file.write_text(PROGRAM)
    options = ["--devices", "8", "--memory-gb", "1", "--bandwidth-gb", "1"]
    assert main(["shard", "plan", f"{file}:split", *options]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Net of 144 parameters on 8 devices, with adamw: bytes on each device")
    rows = [line.split() for line in text.splitlines() if line[:4] in ("data", "fsdp", "tens")][:3]
    assert [row[:5] for row in rows] == [
        ["data", "576", "B", "576", "B"], ["fsdp", "72", "B", "72", "B"],
        ["tensor", "72", "B", "72", "B"],
    ]  # fmt: skip
    assert "Of those that fit into 1 GB, data sends the least" in text
    assert main(["shard", "plan", f"{file}:setup", "--devices", "8", "--memory-gb", "1e-7"]) == 0
    text = capsys.readouterr().out
    assert "tensor" not in text
    assert "None fits into 107.4 B: fsdp needs the least" in text
    for arguments, words in (
        ([f"{file}:none"], "has no function none"), (["none.py:x"], "there is no file none.py"),
        ([f"{file}:setup", "--strategy", "tensor"], "returns no plan of split layers"),
        ([f"{file}:Net"], "fails: TypeError"), ([f"{file}:ColwiseParallel"], "has to return"),
    ):  # fmt: skip
        assert main(["shard", "plan", *arguments, "--devices", "8"]) == 2
        assert words in capsys.readouterr().err
    assert main(["shard"]) == 2


MISTAKES = """
import torch
from torch.distributed.tensor.parallel import ColwiseParallel

class Net(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x).sum()

net, x = Net(8, 12), torch.empty(64, 8)

def fails():
    raise ValueError("what it says")

def wrong_shape():
    return net, (torch.empty(64, 9),)

def no_model():
    return 3, (x,)

def no_tensors():
    return net, (3,)

def no_arguments():
    return net, ()

def wrong_layer():
    return net, (x,), {"up": ColwiseParallel()}

def no_style():
    return net, (x,), {"": "colwise"}

def no_plan():
    return net, (x,), ["up"]

def split():
    return net, (x,), {"": ColwiseParallel()}

def not_splittable():
    return torch.nn.Sequential(net), (x,), {"": ColwiseParallel()}
"""


def test_mistakes_in_plans(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.py"
    file.write_text(MISTAKES)
    for name, devices, words in (
        ("fails", 8, 'fails: ValueError: what it says (.*:12: raise ValueError("what it says"))'),
        ("wrong_shape", 8, "without memory: RuntimeError: mat1 and mat2 .*:7: return super"),
        ("no_model", 8, "has to return a model first, not int"),
        ("no_tensors", 8, "has to return tensors as arguments, not int"),
        ("no_arguments", 8, "returns no arguments for the model"),
        ("wrong_layer", 8, "the model has no layer 'up', which the plan splits"),
        ("no_style", 8, "has 'colwise' for '', which is not a style such as ColwiseParallel"),
        ("no_plan", 8, "has to return a plan such as {'up': ColwiseParallel()}, not list"),
        ("split", 8, r"splits dimension 0 of weight, of shape (12, 8), which 8 devices cannot"),
        ("not_splittable", 8, "ColwiseParallel() for '', a Sequential: it splits Linear and"),
        ("", 8, "give a Python file and a function in it"),
        ("split", 3, "a batch of 64 samples cannot be split into 3 equal parts"),
    ):
        assert main(["shard", "plan", f"{file}:{name}", "--devices", str(devices)]) == 2
        message = capsys.readouterr().err
        pattern = re.escape(words).replace(r"\.\*", ".*")
        assert re.search(pattern, message), message
        assert "Traceback" not in message
    options = ["--devices", "4", "--strategy", "tensor"]
    assert main(["shard", "plan", f"{file}:split", *options]) == 0
    assert re.search("tensor +108 B +108 B +216 B", capsys.readouterr().out)
    assert main(["shard", "plan", f"{file}:split", *options, "--bandwidth-gb", "0"]) == 2
    assert "--bandwidth-gb 0: nothing could be sent" in capsys.readouterr().err


FROZEN = """
import torch
from torch.distributed.tensor.parallel import ColwiseParallel
from batch_size import rows

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(16)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 5)
        self.norm.requires_grad_(False)
        self.up.requires_grad_(False)

    def forward(self, x):
        return self.down(torch.tanh(self.up(input=self.norm(x)))).sum()

def setup():
    return Net(), (torch.empty(rows, 16),), {"up": ColwiseParallel()}
"""


def short(size: int) -> str:
    return f"{size / 1024:.3g} KB"


def test_frozen_parameters_and_buffers(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.py"
    file.write_text(FROZEN)
    (tmp_path / "batch_size.py").write_text("rows = 64")
    before = sys.path[:]
    assert main(["shard", "plan", f"{file}:setup", "--devices", "8"]) == 0
    assert sys.path == before
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    table = {row[0]: row for row in rows if row and row[0] in ("data", "fsdp", "tensor")}
    # Of the 741 parameters, 165 are trained. Buffers: two vectors of 16 numbers and a count.
    buffers = 2 * 16 * 4 + 8
    assert table["data"][1:7] == f"{short(4 * 741 + buffers)} 660 B 1.29 KB".split()
    small = 5 * 4  # down.bias, which 8 devices cannot share
    own = (4 * 741 - small) // 8 + small + buffers
    assert table["fsdp"][1:7] == f"{own} B {640 // 8 + small} B {2 * (640 // 8 + small)} B".split()
    own = 4 * 32 * 17 // 8 + 4 * (32 + 165) + buffers
    assert table["tensor"][1:7] == f"{short(own)} 660 B 1.29 KB".split()
    assert main(["shard", "plan", f"{file}:setup", "--devices", "1"]) == 0
    assert "parameters on 1 device, with" in capsys.readouterr().out
