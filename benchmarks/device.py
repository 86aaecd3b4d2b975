"""A GPU, or what XLA makes of the CPU: training steps and chains of operations, beside JAX and
PyTorch, eager and compiled.

`gpt2` is a step of AdamW on GPT-2 124M, batch 8 × 1024, in bfloat16 by `autocast`; `host` the same
with as many parameters and next to nothing to compute, which is what the host does; `large` a chain
of elementwise operations over 64 million floats, forward and backward; `chain` the 51 operations on
10 elements of the group `overhead`, eager. Retrograd and PyTorch run the same source. Without a GPU
(`--tiny` there, too) all sizes are small, which shows that the programs run and no more.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks._runner import (
    Column,
    Progress,
    Result,
    Row,
    Target,
    figures,
    measure,
    show_ratio,
    show_seconds,
)
from benchmarks.libraries import gpt2
from benchmarks.libraries._inputs import make_inputs

STEPS = 20  # that losses are followed for
REPEATS = 20  # of the chain before it is timed
FLOATS = 64 << 20
LABELS = {
    "retrograd": "retrograd", "compiled": "retrograd, compiled", "jax": "JAX, jitted",
    "torch": "PyTorch", "torch-compiled": "PyTorch, compiled",
}  # fmt: skip
MODULES = {"retrograd": "retrograd", "compiled": "retrograd", "torch": "torch",
           "torch-compiled": "torch"}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """Something to time, who takes part, and what is wanted."""

    name: str
    title: str
    keys: tuple[str, ...]
    targets: tuple[Target, ...]


PROGRAMS = (
    Program("gpt2", "a step of AdamW on GPT-2 124M, 8 × 1024, bfloat16 by autocast",
            ("compiled", "jax", "torch", "torch-compiled"),
            (Target("compiled", "ratio_jax", 1.1, "at most 1.1 of JAX's time"),
             Target("compiled", "ratio_torch-compiled", 1.0, "no slower than torch.compile"))),
    Program("host", "the step of a GPT of twelve tiny layers: what the host does",
            ("compiled", "jax", "torch-compiled"),
            (Target("compiled", "ratio_jax", 1.3, "at most 1.3 of JAX's time"),)),
    Program("large", "ten elementwise operations on 64 million floats, forward and backward",
            ("compiled", "jax", "torch", "torch-compiled"),
            (Target("compiled", "ratio_jax", 1.1, "at most 1.1 of JAX's time"),)),
    Program("chain", "51 operations on 10 elements, forward and backward, eager",
            ("retrograd", "torch"),
            (Target("retrograd", "ratio_torch", 2.0, "at most twice PyTorch's eager time"),)),
)  # fmt: skip
COLUMNS = (
    Column("median", "median", show_seconds),
    Column("min", "min", show_seconds),
    Column("ratio_jax", "× JAX", show_ratio),
    Column("ratio_torch", "× PyTorch", show_ratio),
    Column("ratio_torch-compiled", "× compiled", show_ratio),
)
FOLLOWED = (Column("last", "last loss", lambda x: f"{x:.4f}"),
            Column("off", "furthest apart", lambda x: f"{x:.1e}"))  # fmt: skip
NAMES = (*[program.name for program in PROGRAMS], "follow")


def has_gpu() -> bool:
    """Whether there is a GPU, without loading a library that takes its memory."""
    return os.path.exists("/dev/nvidia0")


def place(key: str, gpu: bool) -> str:
    if gpu:
        return "cuda"
    return "xla:cpu" if MODULES.get(key) == "retrograd" else "cpu"


def make_run(key: str, name: str, tiny: bool, gpu: bool) -> Callable[[], Any]:
    """A program in one library, to run again and again."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need memory, too
    device = place(key, gpu)
    if name in ("gpt2", "host"):
        size = gpt2.TINY if tiny else gpt2.FULL if name == "gpt2" else gpt2.HOST
        if key == "jax":
            return gpt2.jax_step(device, size)
        return gpt2.torch_step(MODULES[key], device, size, key.endswith("compiled"))
    if name == "large":
        count = 1 << 10 if tiny else FLOATS
        return jax_elements(count) if key == "jax" else torch_elements(key, device, count)
    return torch_chain(MODULES[key], device)


def jax_elements(count: int) -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp

    x, y = (jnp.linspace(0.1, 0.9, count, dtype=jnp.float32) + k for k in (0, 0.5))

    def total(x: Any, y: Any) -> Any:
        return jnp.exp(jax.nn.sigmoid(jnp.tanh(x * y + 1.5) * x - y) * y + x - 0.25).sum()

    step = jax.jit(jax.value_and_grad(total, (0, 1)))
    def waited() -> Any:  # and the total is read, as below
        results = jax.block_until_ready(step(x, y))
        return float(results[0])

    return waited


def torch_elements(key: str, device: str, count: int) -> Callable[[], Any]:
    torch: Any = importlib.import_module(MODULES[key])
    first = torch.linspace(0.1, 0.9, count)
    x, y = ((first + k).to(device).requires_grad_() for k in (0, 0.5))

    def step() -> Any:
        total = (((x * y + 1.5).tanh() * x - y).sigmoid() * y + x - 0.25).exp().sum()
        return total.detach(), *torch.autograd.grad(total, (x, y))

    run = torch.compile(step) if key.endswith("compiled") else step

    def waited() -> Any:
        results = run()
        if device == "cuda":
            torch.cuda.synchronize()
        return float(results[0])

    return waited


def torch_chain(module: str, device: str) -> Callable[[], Any]:
    torch: Any = importlib.import_module(module)
    inputs = make_inputs()
    start = (inputs.chain_x, inputs.chain_y)
    x, y = (torch.from_numpy(v).to(device).requires_grad_() for v in start)

    def step() -> Any:
        z = x
        for _ in range(inputs.chain_steps):
            z = (z * y).tanh()
        total = z.sum()
        gradients = torch.autograd.grad(total, (x, y))
        return float(total.detach()), gradients

    for _ in range(REPEATS):  # retrograd compiles what an eager program repeats
        step()
    return step


def time_program(program: Program, tiny: bool, rounds: int, progress: Progress) -> Result:
    """A table of one program."""
    gpu = has_gpu()
    keys = [k for k in program.keys if importlib.util.find_spec(MODULES.get(k, "jax"))]
    makers = {key: (make_run, key, program.name, tiny, gpu) for key in keys}
    samples = measure(program.name, makers, rounds, progress)
    measured = figures(samples, ("jax", "torch", "torch-compiled"))
    rows = [Row(key, LABELS[key], measured[key]) for key in keys]
    columns = [c for c in COLUMNS if any(c.key in row.figures for row in rows)]
    title = program.title + (" (tiny)" if tiny else "")
    return Result(program.name, title, columns, rows, () if tiny else program.targets)


def follow(tiny: bool) -> Result:
    """The losses of compiled steps on the device, and of eager ones on the CPU, in float32."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    size = gpt2.TINY if tiny else gpt2.FOLLOWED
    device = place("compiled", has_gpu())
    steps = {
        "compiled": gpt2.torch_step("retrograd", device, size, True, precise=True),
        "retrograd": gpt2.torch_step("retrograd", "cpu", size, False, precise=True),
    }  # fmt: skip
    losses = {key: [step() for _ in range(STEPS)] for key, step in steps.items()}
    off = max(abs(a - b) for a, b in zip(*losses.values(), strict=True))
    rows = [Row("compiled", f"compiled, on {device}", {"last": losses["compiled"][-1], "off": off}),
            Row("retrograd", "eager, on the CPU", {"last": losses["retrograd"][-1]})]  # fmt: skip
    target = Target("compiled", "off", 1e-3, f"within 1e-3 of the CPU for {STEPS} steps")
    return Result("follow", f"the losses of {STEPS} steps of a GPT in float32", FOLLOWED, rows,
                  (target,))  # fmt: skip


def run(names: Sequence[str], tiny: bool, rounds: int, progress: Progress) -> list[Result]:
    tiny = tiny or not has_gpu()
    results = []
    for program in PROGRAMS:
        if program.name in names:
            results.append(time_program(program, tiny, rounds, progress))
            progress.clear()
            print(f"\n{results[-1]}", flush=True)
    if "follow" in names:
        results.append(follow(tiny))
        print(f"\n{results[-1]}", flush=True)
    return results
