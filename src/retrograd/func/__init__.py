"""Transforms of functions: derivatives and vectorization, nested in any order.

PyTorch's ``functionalize`` is not here. It rewrites in-place code for tracing and compiling; there
is no tracer for it to serve, and under transforms in-place code runs as it is.
"""

from typing import TYPE_CHECKING, Any

from retrograd.func._forward import jvp
from retrograd.func._jacobians import hessian, jacfwd, jacrev
from retrograd.func._linearize import linearize
from retrograd.func._reverse import grad, grad_and_value, vjp
from retrograd.func._series import (
    bilaplacian,
    derivatives,
    jet,
    laplacian,
    mixed_partial,
    taylor,
    weighted_directional,
)
from retrograd.func._stateless import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from retrograd.func._vectorized import vmap

if TYPE_CHECKING:
    from retrograd.func._sparse import sparse_hessian, sparse_jacobian
    from retrograd.func._sparsity import banded, hessian_sparsity, sparsity

_SPARSE = {
    "banded": "_sparsity", "hessian_sparsity": "_sparsity", "sparse_hessian": "_sparse",
    "sparse_jacobian": "_sparse", "sparsity": "_sparsity",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _SPARSE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"retrograd.func.{_SPARSE[name]}")  # loads scipy.sparse
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_SPARSE})


__all__ = ["banded", "bilaplacian", "derivatives", "functional_call", "grad", "grad_and_value",
           "hessian", "hessian_sparsity", "jacfwd", "jacrev", "jet", "jvp", "laplacian",
           "linearize", "mixed_partial", "replace_all_batch_norm_modules_", "sparse_hessian",
           "sparse_jacobian", "sparsity", "stack_module_state", "taylor", "vjp", "vmap",
           "weighted_directional"]  # fmt: skip
