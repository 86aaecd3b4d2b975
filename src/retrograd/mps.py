"""``torch.mps``: reports that no Apple GPU is available.

>>> import retrograd as torch
>>> torch.mps.device_count()
0
"""

from retrograd.cuda import device_count, empty_cache, is_available, manual_seed, synchronize

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]
