"""``torch.mps``, as far as programs ask it whether there is one of Apple's GPUs: there is none.

>>> import retrograd as torch
>>> torch.mps.device_count()
0
"""

from retrograd.cuda import device_count, empty_cache, is_available, manual_seed, synchronize

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]
