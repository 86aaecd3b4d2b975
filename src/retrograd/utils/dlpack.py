"""``torch.utils.dlpack``: sharing memory with other libraries."""

from __future__ import annotations

from typing import Any

from retrograd.tensor import _conversion


def to_dlpack(tensor: Any) -> Any:
    """A capsule that other libraries make an array of.

    Args:
        tensor: the tensor.

    Example:
        >>> from retrograd.utils.dlpack import to_dlpack
        >>> type(to_dlpack(torch.tensor([1.0, 2.0]))).__name__
        'PyCapsule'
    """
    return tensor.__dlpack__()


class _Holder:
    """What has made a capsule, for libraries that ask for it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def from_dlpack(ext_tensor: Any) -> Any:
    """A tensor that shares the memory of another library's array.

    Args:
        ext_tensor: The array, or a capsule that ``to_dlpack`` has made.

    Example:
        >>> torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2)))
        tensor([1., 1.])
    """
    has_one = hasattr(ext_tensor, "__dlpack__")
    return _conversion.from_dlpack(ext_tensor if has_one else _Holder(ext_tensor))


__all__ = ["from_dlpack", "to_dlpack"]
