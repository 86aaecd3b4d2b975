"""``torch.storage``: descriptions of the memory of tensors."""

from retrograd.tensor._legacy import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
