"""Differentiable collectives."""

from retrograd.distributed.nn import functional
from retrograd.distributed.nn.functional import all_gather, all_reduce

__all__ = ["all_gather", "all_reduce", "functional"]
