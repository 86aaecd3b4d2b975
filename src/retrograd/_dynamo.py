"""Names of PyTorch's compiler that programs mention, and settings that change nothing."""

from __future__ import annotations

from types import SimpleNamespace

from retrograd.compiler import allow_in_graph, disable, is_compiling, reset

config = SimpleNamespace(
    suppress_errors=False, verbose=False, cache_size_limit=8, recompile_limit=8,
    automatic_dynamic_shapes=True, capture_scalar_outputs=False, optimize_ddp=True,
)  # fmt: skip

__all__ = ["allow_in_graph", "config", "disable", "is_compiling", "reset"]
