"""Data parallel training of modules."""

from retrograd.nn.parallel.data_parallel import DataParallel, data_parallel
from retrograd.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
