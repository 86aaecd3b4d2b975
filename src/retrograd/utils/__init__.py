"""``torch.utils``: memory for time, by computing again what was not kept."""

from retrograd.utils import checkpoint

__all__ = ["checkpoint"]
