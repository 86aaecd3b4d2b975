"""Modules that train in several processes at once."""

from retrograd.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
