"""What the host does in a step of a GPT of twelve tiny layers, measured without a GPU.

    python -m benchmarks._host_program compiled
    python -m benchmarks._host_program jax

XLA is given programs with the arguments, results and donated memory of the step that compute
nothing, and runs them on the CPU, in the calling thread. The time of a step is then that of the
host.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.libraries import gpt2

FIRST, STEPS = 20, 500


def jax_step() -> Callable[[], float]:
    """The step of JAX, whose new state is the old one."""
    jit = jax.jit

    def jitted(function: Any, donate_argnums: int) -> Any:
        def nothing(state: Any) -> Any:
            return jax.tree.map(jax.lax.optimization_barrier, state), jnp.zeros(())

        return jit(nothing, donate_argnums=donate_argnums)

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    jax.jit = jitted
    try:
        return gpt2.jax_step("xla:cpu", gpt2.HOST)
    finally:
        jax.jit = jit


def compiled_step() -> Callable[[], float]:
    """The step of retrograd, where the first results are the donated arguments, and others ones."""
    from retrograd.devices._programs import Part

    trace, jitted = Part.trace, Part.jitted
    donated: dict[Part, tuple[int, ...]] = {}

    def jitted_nothing(part: Part, shapes: Sequence[Any], numbers: tuple[int, ...] = ()) -> Any:
        donated[part] = numbers
        return jitted(part, shapes, numbers)

    def traced_nothing(part: Part, *values: Any) -> tuple[Any, ...]:
        results = [jnp.ones(x.shape, x.dtype) for x in trace(part, *values)]
        for k, i in enumerate(donated[part]):
            results[k] = jax.lax.optimization_barrier(values[i]).astype(results[k].dtype)
        return tuple(results)

    Part.jitted, Part.trace = jitted_nothing, traced_nothing
    return gpt2.torch_step("retrograd", "xla:cpu", gpt2.HOST, True)


def main(name: str) -> None:
    step = {"jax": jax_step, "compiled": compiled_step}[name]()
    for _ in range(FIRST):
        step()
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(f"{name}: median {statistics.median(times) * 1e6:.0f} µs, min {min(times) * 1e6:.0f} µs")


if __name__ == "__main__":
    main(*sys.argv[1:])
