"""A GPT-2 in PyTorch's words, for retrograd and for PyTorch, and the same in JAX's.

All start from the same weights. They compute in bfloat16 as `autocast` has it: parameters, norms,
softmax and loss are float32, products of matrices and attention bfloat16.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

BETAS, DECAY, EPS, RATE = (0.9, 0.95), 0.1, 1e-8, 3e-4


@dataclass(frozen=True)
class Size:
    """How large the model is, and a batch."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    words: int = 50304
    rows: int = 8
    length: int = 1024


FULL = Size()
FOLLOWED = Size(layers=4, heads=4, width=128, words=512, rows=4, length=128)
HOST = Size(heads=2, width=16, words=64, rows=1, length=64)
TINY = Size(layers=2, heads=2, width=32, words=65, rows=2, length=16)


def weights(size: Size) -> dict[str, np.ndarray]:
    """The weights to start from."""
    width = size.width
    shapes = {"wte": (size.words, width), "wpe": (size.length, width), "norm": (width,)}
    for i in range(size.layers):
        shapes |= {
            f"{i}.norm1": (width,), f"{i}.attend": (3 * width, width),
            f"{i}.project": (width, width), f"{i}.norm2": (width,),
            f"{i}.widen": (4 * width, width), f"{i}.narrow": (width, 4 * width),
        }  # fmt: skip
    random = np.random.default_rng(0)
    return {
        name: np.ones(shape, np.float32) if len(shape) == 1
        else 0.02 * random.standard_normal(shape, np.float32)
        for name, shape in shapes.items()
    }  # fmt: skip


def batch(size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Words, and the words that come after them."""
    words = np.random.default_rng(1).integers(0, size.words, (size.rows, size.length + 1))
    return words[:, :-1].copy(), words[:, 1:].copy()


# -- retrograd and PyTorch -----------------------------------------------------------------------


def torch_step(
    module: str, device: str, size: Size, compiled: bool, precise: bool = False
) -> Callable[[], float]:
    """A step of training that gives its loss. ``precise`` computes in float32 throughout."""
    torch: Any = importlib.import_module(module)
    functional = importlib.import_module(f"{module}.nn.functional")
    start = weights(size)
    parameters = {
        n: torch.nn.Parameter(torch.from_numpy(w).to(device)) for n, w in start.items()
    }  # fmt: skip
    words, following = (torch.from_numpy(x).to(device) for x in batch(size))
    optimizer = torch.optim.AdamW(
        parameters.values(), RATE, BETAS, EPS, DECAY, fused=device == "cuda" and not compiled
    )
    kind = device.partition(":")[0]

    def step() -> Any:
        with torch.autocast(kind, torch.bfloat16, enabled=not precise):
            loss = torch_loss(functional, parameters, words, following, size)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = torch.compile(step) if compiled else step
    return lambda: float(run())  # which waits for the device


def torch_loss(functional: Any, p: dict[str, Any], words: Any, following: Any, size: Size) -> Any:
    shape = (size.rows, size.length, size.heads, size.width // size.heads)
    h = functional.embedding(words, p["wte"]) + p["wpe"]
    for i in range(size.layers):
        x = functional.layer_norm(h, (size.width,), p[f"{i}.norm1"])
        parts = functional.linear(x, p[f"{i}.attend"]).split(size.width, -1)
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        x = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x.transpose(1, 2).reshape(size.rows, size.length, size.width)
        h = h + functional.linear(x, p[f"{i}.project"])
        x = functional.layer_norm(h, (size.width,), p[f"{i}.norm2"])
        x = functional.gelu(functional.linear(x, p[f"{i}.widen"]), approximate="tanh")
        h = h + functional.linear(x, p[f"{i}.narrow"])
    x = functional.layer_norm(h, (size.width,), p["norm"])
    logits = functional.linear(x, p["wte"])
    return functional.cross_entropy(logits.view(-1, size.words), following.view(-1))


# -- JAX -----------------------------------------------------------------------------------------


def jax_step(device: str, size: Size) -> Callable[[], float]:
    """The same step, written for JAX and jitted."""
    import jax
    import jax.numpy as jnp

    words, following = (jnp.asarray(x, jnp.int32) for x in batch(size))
    kernel = "cudnn" if device == "cuda" else "xla"

    def loss_of(p: dict[str, Any]) -> Any:
        h = p["wte"][words] + p["wpe"]
        for i in range(size.layers):
            x = narrow(norm(h) * p[f"{i}.norm1"]) @ narrow(p[f"{i}.attend"]).T
            q, k, v = (
                part.reshape(size.rows, size.length, size.heads, -1) for part in jnp.split(x, 3, -1)
            )  # fmt: skip
            x = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=kernel)
            h = h + x.reshape(h.shape) @ narrow(p[f"{i}.project"]).T
            x = narrow(norm(h) * p[f"{i}.norm2"]) @ narrow(p[f"{i}.widen"]).T
            h = h + jax.nn.gelu(x, approximate=True) @ narrow(p[f"{i}.narrow"]).T
        logits = narrow(norm(h) * p["norm"]) @ narrow(p["wte"]).T
        spread = jax.nn.log_softmax(logits.astype(jnp.float32), -1)
        return -jnp.take_along_axis(spread, following[..., None], -1).mean()

    def norm(x: Any) -> Any:
        x = x.astype(jnp.float32)
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def narrow(x: Any) -> Any:
        return x.astype(jnp.bfloat16)

    def update(state: Any) -> Any:
        p, first, second, count = state
        loss, gradients = jax.value_and_grad(loss_of)(p)
        count = count + 1
        (beta1, beta2), tree = BETAS, jax.tree.map
        first = tree(lambda m, g: beta1 * m + (1 - beta1) * g, first, gradients)
        second = tree(lambda s, g: beta2 * s + (1 - beta2) * g * g, second, gradients)
        root = jnp.sqrt(1 - beta2**count)

        def moved(w: Any, m: Any, s: Any) -> Any:
            change = m / (1 - beta1**count) / (jnp.sqrt(s) / root + EPS)
            return w * (1 - RATE * DECAY) - RATE * change

        return (tree(moved, p, first, second), first, second, count), loss

    p = {name: jnp.asarray(w) for name, w in weights(size).items()}
    zeros = lambda: jax.tree.map(jnp.zeros_like, p)
    state: Any = (p, zeros(), zeros(), jnp.float32(0))
    jitted = jax.jit(update, donate_argnums=0)

    def step() -> float:
        nonlocal state
        state, loss = jitted(state)
        return float(loss)

    return step
