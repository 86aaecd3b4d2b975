"""Programs run by XLA, the compiler behind JAX.

``_stages.py`` divides a program into parts that XLA runs and parts that NumPy runs.
``_executable.py`` converts them to a function of arrays. The other modules contain the lowerings,
by family: the implementation of each primitive operation in JAX. JAX's differentiation is not used,
because a program already contains its derivatives.

JAX, and with it the other modules of this package, is imported only by
``compile(f, backend="xla")`` or a tensor on a device.
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


# Composites with a lowering, and another one for their derivative.
COMPOSITES = frozenset({"scaled_dot_product_attention"})


def check_available() -> None:
    """Raise an error that says what to install if JAX is missing."""
    import importlib.util

    if importlib.util.find_spec("jax") is None:
        raise ModuleNotFoundError(
            "compile(backend=\"xla\") needs JAX, which is not installed: "
            "pip install 'retrograd[xla]'"
        )


def load() -> None:
    """Import JAX and all lowerings."""
    check_available()
    import jax

    # Programs on the CPU are waited for at once, and start sooner in the calling thread. The
    # setting has no effect if JAX is already running.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    for name in MODULES:
        importlib.import_module(f"retrograd.compiler.xla._{name}")


def function_on_device(program: Program) -> tuple[Callable[..., Any], set[Var]]:
    """Like ``function_of``, for values on a device. The results stay there."""
    load()
    result: tuple[Callable[..., Any], set[Var]] = Plug.devices().function_of(program)
    return result


def function_of(program: Program) -> tuple[Callable[..., Any], set[Var]]:
    """The program as a function of NumPy arrays, run by XLA, which returns a tuple of arrays; and
    the set of inputs whose memory it writes."""
    load()
    module = importlib.import_module("retrograd.compiler.xla._executable")
    result: tuple[Callable[..., Any], set[Var]] = module.function_of(program)
    return result
