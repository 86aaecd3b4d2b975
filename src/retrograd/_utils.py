"""Helpers of PyTorch's that programs import by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def _assert_async(input: Any, assert_msg: str = "") -> None:
    """An error unless a number is true.

    Args:
        input: A tensor of one element.
        assert_msg: What the error says.
    """
    if not input:
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """An error unless a condition is true.

    Args:
        cond: What must be true.
        message: A function that returns what the error says.
    """
    if not cond:
        raise RuntimeError(message() if message else "Expected cond to be True")


class SymInt:
    """A symbolic size in PyTorch's tracing. It is never created here; it exists for ``isinstance``
    checks."""

    def __init__(self, *args: Any) -> None:
        raise NotImplementedError("retrograd has no symbolic numbers: every size is an int")


class SymFloat(SymInt):
    """A symbolic number in PyTorch's tracing."""


class SymBool(SymInt):
    """A symbolic condition in PyTorch's tracing."""


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


__all__ = ["SymBool", "SymFloat", "SymInt", "_assert", "_assert_async", "_check",
           "_flatten_dense_tensors", "_unflatten_dense_tensors"]  # fmt: skip
