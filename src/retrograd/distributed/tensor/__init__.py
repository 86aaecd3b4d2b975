"""Tensors on a mesh of devices, under PyTorch's names.

A DTensor here is an ordinary tensor whose memory is distributed over the devices of a mesh, by a
JAX sharding. Its shape is that of the whole tensor. Operations, gradients, optimizers and
``torch.compile`` treat it as any tensor on a device, and XLA splits the computation.
"""

from retrograd.distributed.tensor import parallel
from retrograd.distributed.tensor._dtensor import (
    DTensor,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from retrograd.distributed.tensor._placements import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "ones", "parallel", "rand", "randn", "zeros",
]  # fmt: skip
