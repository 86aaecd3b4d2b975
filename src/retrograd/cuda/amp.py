"""``torch.cuda.amp``: ``torch.amp`` for GPUs. Without a GPU, it warns and does nothing, as in
PyTorch."""

from __future__ import annotations

from typing import Any

from retrograd import amp
from retrograd.amp import custom_bwd, custom_fwd
from retrograd.arrays import dtypes
from retrograd.ops._sections import like

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):  # noqa: N801 - PyTorch's name
    """``torch.amp.autocast("cuda", ...)``.

    Args:
        enabled: whether anything is done.
        dtype: the lower precision.
        cache_enabled: accepted for compatibility.

    Example:
        >>> with autocast(enabled=False):
        ...     pass
    """

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.float16,
                 cache_enabled: bool = True) -> None:  # fmt: skip
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


@like(amp.GradScaler)
class GradScaler(amp.GradScaler):
    """``torch.amp.GradScaler("cuda", ...)``.

    Example:
        >>> GradScaler(enabled=False).get_scale()
        1.0
    """

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000,
                 enabled: bool = True) -> None:  # fmt: skip
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval,
                         enabled)  # fmt: skip
