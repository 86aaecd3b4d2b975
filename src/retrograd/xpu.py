"""``torch.xpu``: reports that no Intel GPU is available.

>>> import retrograd as torch
>>> torch.xpu.is_available()
False
"""

from retrograd.cuda import (
    device_count,
    empty_cache,
    is_available,
    is_initialized,
    manual_seed,
    manual_seed_all,
    synchronize,
)

__all__ = ["device_count", "empty_cache", "is_available", "is_initialized", "manual_seed",
           "manual_seed_all", "synchronize"]  # fmt: skip
