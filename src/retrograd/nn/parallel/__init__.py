"""Modules that are trained by several processes."""

from retrograd.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
