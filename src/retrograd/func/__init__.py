"""Functions of functions: derivatives and vectorization that nest freely.

PyTorch's ``functionalize`` is not here. It rewrites in-place code for tracing and compiling; there
is no tracer for it to serve, and under transforms in-place code runs as it is.
"""

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

__all__ = ["bilaplacian", "derivatives", "functional_call", "grad", "grad_and_value", "hessian",
           "jacfwd", "jacrev", "jet", "jvp", "laplacian", "linearize", "mixed_partial",
           "replace_all_batch_norm_modules_", "stack_module_state", "taylor", "vjp", "vmap",
           "weighted_directional"]  # fmt: skip
