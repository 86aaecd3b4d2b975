"""``torch.signal``: windows for spectral analysis."""

from retrograd.signal import windows as windows

__all__ = ["windows"]
