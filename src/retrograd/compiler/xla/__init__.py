"""Programs run by XLA, the compiler behind JAX.

``_stages.py`` cuts a program into parts that XLA runs and parts that NumPy runs. ``_executable.py``
makes a function of arrays of that. The other modules are the lowerings, by family: how each
primitive operation of the table is said in JAX's words. JAX's differentiation is not used: a
program contains its derivatives already.

Only what is asked for by ``compile(f, backend="xla")`` imports JAX, and with it this package's
other modules.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from retrograd.autograd._wrap import Plug
from retrograd.compiler._program import Program, Var

MODULES = (
    "attention", "control", "elementwise", "indexing", "linalg", "networks", "pooling",
    "reductions", "shapes", "signals", "special", "updates", "writing",
)  # fmt: skip


# Composites that have a lowering of their own, with one for their derivative.
COMPOSITES = frozenset({"scaled_dot_product_attention"})


def check_available() -> None:
    """Say what to install if JAX is not there."""
    import importlib.util

    if importlib.util.find_spec("jax") is None:
        raise ModuleNotFoundError(
            "compile(backend=\"xla\") needs JAX, which is not installed: "
            "pip install 'retrograd[xla]'"
        )


def load() -> None:
    """Import JAX and declare all lowerings."""
    check_available()
    import jax

    # What runs on the CPU is waited for anyway, and starts sooner in the thread that asks for it.
    # Once JAX has started this has no effect.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    for name in MODULES:
        importlib.import_module(f"retrograd.compiler.xla._{name}")


def function_on_device(program: Program) -> tuple[Callable[..., Any], set[Var]]:
    """As ``function_of``, of values on a device, where its results stay."""
    load()
    result: tuple[Callable[..., Any], set[Var]] = Plug.devices().function_of(program)
    return result


def function_of(program: Program) -> tuple[Callable[..., Any], set[Var]]:
    """The program as a function of arrays that gives a tuple of arrays, run by XLA, and the inputs
    whose memory it writes."""
    load()
    module = importlib.import_module("retrograd.compiler.xla._executable")
    result: tuple[Callable[..., Any], set[Var]] = module.function_of(program)
    return result
