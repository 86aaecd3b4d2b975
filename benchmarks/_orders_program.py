"""One way of computing derivatives of high order, timed in a process of its own:
`python -m benchmarks._orders_program METHOD PROGRAM` prints seconds, bytes and a check as JSON.

Programs are a function and a direction for `series`, or a network and points for `laplacian`. They
are written once for retrograd and PyTorch, which share the names, and once for JAX.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

ORDERS = range(1, 11)
PATIENCE = 0.4  # seconds; what takes longer is not tried at higher orders
TO_START = 20.0  # the same, for the first run, in which a function is compiled
SPENT = 0.3  # seconds for each figure
TURNS = 4  # of figures whose ratios are shown
POINTS, WIDTH = 64, 64  # of the network whose Laplacian is computed
TOKENS, HEADS = 32, 4


def layers(*sizes: int, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [
        (random.standard_normal((m, n)) * m**-0.5).astype(np.float32) for m, n in pairwise(sizes)
    ]


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# -- functions, in any of the libraries ---------------------------------------------------------


def scalar(xp: Any, of: Callable[[np.ndarray], Any]) -> tuple[Any, Any, Any]:
    def f(x: Any) -> Any:
        return xp.exp(xp.sin(x) * 0.5) / (1.0 + x * x) + xp.tanh(3.0 * x)

    return f, of(np.float32(0.3)), of(np.float32(1.0))


def mlp(xp: Any, of: Callable[[np.ndarray], Any]) -> tuple[Any, Any, Any]:
    weights = [of(w) for w in layers(64, 128, 128, 64)]

    def f(x: Any) -> Any:
        for w in weights[:-1]:
            x = xp.tanh(x @ w)
        return x @ weights[-1]

    return f, of(normal(32, 64)), of(normal(32, 64, seed=2))


def gpt(xp: Any, of: Callable[[np.ndarray], Any]) -> tuple[Any, Any, Any]:
    """A block of a GPT: attention and a network, each with a normalization and a residual."""
    q, k, v, out = (of(w) for n in range(4) for w in layers(WIDTH, WIDTH, seed=n))
    up, down = (of(w) for w in layers(WIDTH, 4 * WIDTH, WIDTH, seed=9))

    def normalized(x: Any) -> Any:
        x = x - x.mean(-1)[..., None]
        return x / xp.sqrt((x * x).mean(-1)[..., None] + 1e-5)

    def heads(x: Any) -> Any:
        return xp.moveaxis(x.reshape(TOKENS, HEADS, -1), 1, 0)

    def f(x: Any) -> Any:
        y = normalized(x)
        scores = heads(y @ q) @ xp.swapaxes(heads(y @ k), -1, -2) / (WIDTH // HEADS) ** 0.5
        weights = xp.exp(scores)
        weights = weights / weights.sum(-1)[..., None]
        mixed = xp.moveaxis(weights @ heads(y @ v), 0, 1).reshape(TOKENS, WIDTH)
        x = x + mixed @ out
        return x + xp.tanh(normalized(x) @ up) @ down

    return f, of(normal(TOKENS, WIDTH)), of(normal(TOKENS, WIDTH, seed=2))


FUNCTIONS = {"scalar": scalar, "mlp": mlp, "gpt": gpt}


def network(xp: Any, of: Callable[[np.ndarray], Any], dims: int) -> tuple[Any, Any]:
    """A network of three hidden layers, and points in so many dimensions."""
    weights = [of(w) for w in layers(dims, WIDTH, WIDTH, WIDTH, 1)]

    def u(x: Any) -> Any:
        for w in weights[:-1]:
            x = xp.tanh(x @ w)
        return (x @ weights[-1])[0]

    return u, of(normal(POINTS, dims))


# -- methods -----------------------------------------------------------------------------------


def nested(jvp: Any, f: Any, v: Any, order: int) -> Any:
    for _ in range(order):
        f = lambda x, f=f: jvp(f, (x,), (v,))[1]
    return f


class Library:
    """Arrays, functions and transforms of a library, by the names that programs use."""

    def __init__(self, name: str) -> None:
        import importlib

        self.name = name
        if name == "jax":
            import jax

            self.np: Any = importlib.import_module("jax.numpy")
            self.func: Any = jax
            self.of: Any = self.np.asarray
            self.wait: Any = jax.block_until_ready
            return
        self.np = importlib.import_module(name)
        self.func = importlib.import_module(f"{name}.func")
        self.of = lambda x: self.np.from_numpy(np.asarray(x).copy())
        self.wait = lambda x: x
        self.np.set_num_threads(1)

    def compile(self, f: Any, method: str) -> Any:
        if self.name == "jax":
            return self.func.jit(f)
        return self.np.compile(f, **({"backend": "xla"} if ":xla:" in method else {}))


def series(method: str, library: Library, program: str, order: int) -> Callable[[], Any]:
    """A call that computes the derivative of some order along a direction."""
    f, x, v = FUNCTIONS[program](library.np, library.of)
    kind = method.split(":")[1]
    if kind == "nested":
        run = nested(library.func.jvp, f, v, order)
    elif kind == "taylor":
        factor = float(np.prod(np.arange(1, order + 1)))
        run = lambda x: library.func.taylor(f, x, v, order)[order] * factor
    else:
        from jax.experimental.jet import jet

        zero = library.np.zeros_like(v)
        directions = [v, *[zero] * (order - 1)]
        run = lambda x: jet(f, (x,), (directions,))[1][-1]
    run = library.compile(run, method) if method.endswith("compiled") else run
    return lambda: library.wait(run(x))


def laplacian(method: str, library: Library, dims: int) -> Callable[[], Any]:
    """A call that computes the Laplacian of a network at all points."""
    u, points = network(library.np, library.of, dims)
    kind = method.split(":")[1]
    func, xp = library.func, library.np
    if method.startswith("jax:collapsed"):  # a package of forward Laplacians, where it is installed
        from folx import forward_laplacian

        at = lambda x: forward_laplacian(u)(x).laplacian
    elif kind == "collapsed":
        at = func.laplacian(u)
    elif kind == "hessian":
        at = lambda x: xp.trace(func.hessian(u)(x))
    else:  # a product with the Hessian for each unit vector
        unit = library.of(np.eye(dims, dtype=np.float32))
        product = lambda x, e: (func.jvp(func.grad(u), (x,), (e,))[1] * e).sum()
        at = lambda x: func.vmap(product, in_axes=(None, 0))(x, unit).sum() if (
            library.name == "jax"
        ) else func.vmap(product, in_dims=(None, 0))(x, unit).sum()  # fmt: skip
    run = func.vmap(at)
    run = library.compile(run, method) if method.endswith("compiled") else run
    return lambda: library.wait(run(points))


# -- timing ------------------------------------------------------------------------------------


def seconds(run: Callable[[], Any]) -> float:
    """The shortest of several runs, in time of the processor: all methods compute in one thread,
    and whatever else the machine does is not counted. The first two may trace and compile. One in
    fifty is left out: where a second thread computes, as XLA's does, some of its time is counted
    with the run after, and a few runs seem to take less time than passes."""
    times: list[float] = []
    for _ in range(2):
        run()
    while not times or (sum(times) < SPENT and len(times) < 1000):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return sorted(times)[len(times) // 50]


def memory(key: str) -> int:
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))


def numbers(x: Any) -> list[float]:
    x = x.detach().numpy() if hasattr(x, "detach") else np.asarray(x)
    flat = np.asarray(x, np.float64).reshape(-1)
    return [float(flat.sum()), float(np.abs(flat).max())]


def sparse(library: Library, program: str) -> dict[str, Any]:
    """The function, the plan of its sparse Jacobian, and the Jacobian itself: as it is evaluated at
    first, and later, when it has become a program."""
    from benchmarks.libraries import adbench

    make = adbench.bundle_adjustment if program == "ba" else adbench.hand_tracking
    f, x = make(library.np)
    jac = library.func.sparse_jacobian(f, x)
    for _ in range(5):
        jac(x)
    eager = library.func.sparse_jacobian(f, x, compile=False)
    runs = {
        "function": lambda: f(x), "plan": lambda: library.func.sparse_jacobian(f, x),
        "eager": lambda: eager(x), "jacobian": lambda: jac(x),
    }  # fmt: skip
    # In turns: what else the machine does changes from second to second, and ratios are wanted.
    found = [{k: seconds(run) for k, run in runs.items()} for _ in range(TURNS)]
    shortest = {k: min(one[k] for one in found) for k in runs}
    return {"seconds": shortest, "products": jac.color_count}


def main(method: str, program: str) -> None:
    library = Library(method.split(":")[0])
    found: dict[str, Any] = {"seconds": {}, "check": {}}
    if method.endswith("sparse"):
        found = sparse(library, program)
    elif program.startswith("laplacian"):
        run = laplacian(method, library, int(program.split(":")[1]))
        before = memory("VmRSS")
        found["check"][program] = numbers(run())
        found["bytes"] = max(memory("VmHWM") - before, 0)
        found["seconds"][program] = seconds(run)
    else:
        for order in ORDERS:
            start = time.process_time()
            run = series(method, library, program, order)
            found["check"][str(order)] = numbers(run())
            to_start = time.process_time() - start
            found["seconds"][str(order)] = seconds(run)
            if found["seconds"][str(order)] > PATIENCE or to_start > TO_START:
                break
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
