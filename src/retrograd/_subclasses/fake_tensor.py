"""Fake tensors, of which there are none: see the package."""

from __future__ import annotations

from typing import Any

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]


class FakeTensor:
    """The class of no tensor."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "retrograd has no fake tensors: use tensors on torch.device('meta'), which have a "
            "shape and a dtype, but no memory."
        )


FakeTensorMode = FakeTensor


def is_fake(x: Any) -> bool:
    """Tests whether an object is a fake tensor.

    Args:
        x: The object.

    Returns:
        False.
    """
    return isinstance(x, FakeTensor)
