"""Transforms of functions: derivatives and vectorization, nested in any order.

PyTorch's ``functionalize`` is not here: in-place code runs under transforms, and is compiled, as it
is.
"""

from typing import TYPE_CHECKING

from retrograd._later import later
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

_SPARSE = ("sparse_hessian", "sparse_jacobian")
_SPARSITY = ("banded", "hessian_sparsity", "sparsity")
__getattr__, __dir__ = later(__name__, names={  # these load scipy.sparse
    **dict.fromkeys(_SPARSE, "func._sparse"), **dict.fromkeys(_SPARSITY, "func._sparsity"),
})  # fmt: skip

__all__ = ["banded", "bilaplacian", "derivatives", "functional_call", "grad", "grad_and_value",
           "hessian", "hessian_sparsity", "jacfwd", "jacrev", "jet", "jvp", "laplacian",
           "linearize", "mixed_partial", "replace_all_batch_norm_modules_", "sparse_hessian",
           "sparse_jacobian", "sparsity", "stack_module_state", "taylor", "vjp", "vmap",
           "weighted_directional"]  # fmt: skip
