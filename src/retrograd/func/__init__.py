"""Functions of functions: derivatives and vectorization that nest freely."""

from retrograd.func._forward import jvp
from retrograd.func._reverse import grad, grad_and_value, vjp
from retrograd.func._vectorized import vmap

__all__ = ["grad", "grad_and_value", "jvp", "vjp", "vmap"]
