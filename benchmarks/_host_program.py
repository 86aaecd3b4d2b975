"""The time of the host in a training step of a GPT of twelve tiny layers, measured without a GPU.

    python -m benchmarks._host_program compiled
    python -m benchmarks._host_program jax

The XLA programs of the step are replaced by programs with the same arguments, results and donated
memory that compute nothing. XLA runs them on the CPU, in the calling thread, so the time of a step
is that of the host.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.libraries import gpt2

WARM_UP, STEPS = 20, 500


def jax_step() -> Callable[[], float]:
    """The step of JAX. Its new state is the old state, and its loss is zero."""
    jit = jax.jit

    def jit_without_work(function: Any, donate_argnums: int) -> Any:
        def without_work(state: Any) -> Any:
            return jax.tree.map(jax.lax.optimization_barrier, state), jnp.zeros(())

        return jit(without_work, donate_argnums=donate_argnums)

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    jax.jit = jit_without_work
    try:
        return gpt2.jax_step("xla:cpu", gpt2.HOST)
    finally:
        jax.jit = jit


def compiled_step() -> Callable[[], float]:
    """The compiled step of retrograd. The first results of its programs are the donated arguments,
    and the other results contain ones."""
    from retrograd.devices._programs import Part

    trace, jitted = Part.trace, Part.jitted
    donated_by: dict[Part, tuple[int, ...]] = {}

    def jitted_without_work(
        part: Part, shapes: Sequence[Any], donated: tuple[int, ...] = ()
    ) -> Any:
        donated_by[part] = donated
        return jitted(part, shapes, donated)

    def trace_without_work(part: Part, *values: Any) -> tuple[Any, ...]:
        results = [jnp.ones(x.shape, x.dtype) for x in trace(part, *values)]
        for k, i in enumerate(donated_by[part]):
            results[k] = jax.lax.optimization_barrier(values[i]).astype(results[k].dtype)
        return tuple(results)

    Part.jitted, Part.trace = jitted_without_work, trace_without_work
    return gpt2.torch_step("retrograd", "xla:cpu", gpt2.HOST, True)


def main() -> None:
    steps = {"compiled": compiled_step, "jax": jax_step}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", choices=steps)
    name = parser.parse_args().library
    step = steps[name]()
    for _ in range(WARM_UP):
        step()
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(f"{name}: median {statistics.median(times) * 1e6:.0f} µs, min {min(times) * 1e6:.0f} µs")


if __name__ == "__main__":
    main()
