"""Helpers of PyTorch's that programs import by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.tensor._tensor import Tensor


def _assert(condition: Any, message: str) -> None:
    """``assert condition, message``, as a function.

    Args:
        condition: What must be true.
        message: What the error says if it is not.
    """
    if not condition:
        raise AssertionError(message)


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of tensors in one vector.

    Args:
        tensors: The tensors.

    Returns:
        The vector, a copy.

    Example:
        >>> torch._utils._flatten_dense_tensors([torch.ones(1), torch.zeros(1, 2)])
        tensor([1., 0., 0.])
    """
    from retrograd.ops.linear import cat

    flat: Tensor = cat([x.contiguous().view(-1) for x in tensors], dim=0)
    return flat


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Parts of a vector in the shapes of tensors.

    Args:
        flat: The vector.
        tensors: The tensors, of which only the shapes matter.

    Returns:
        Views of the vector.
    """
    parts = flat.split([x.numel() for x in tensors])
    return tuple(part.view(x.shape) for part, x in zip(parts, tensors, strict=True))


__all__ = ["_assert", "_flatten_dense_tensors", "_unflatten_dense_tensors"]
