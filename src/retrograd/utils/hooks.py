"""``torch.utils.hooks``: handles of hooks."""

from retrograd.autograd._hooks import RemovableHandle

__all__ = ["RemovableHandle"]
