"""``torch.utils.dlpack``: sharing memory with other libraries."""

from __future__ import annotations

from typing import Any

from retrograd.tensor._conversion import from_dlpack


def to_dlpack(tensor: Any) -> Any:
    """A capsule that other libraries make an array of.

    Args:
        tensor: the tensor.

    Returns:
        The capsule.
    """
    return tensor.__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
