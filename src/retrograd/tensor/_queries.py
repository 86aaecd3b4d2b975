"""Queries about tensors that return Python values."""

from __future__ import annotations

from typing import Any

from retrograd.arrays import dtypes
from retrograd.ops import comparisons
from retrograd.ops._operands import is_lifted
from retrograd.ops.reductions import basic as reductions
from retrograd.tensor._tensor import Tensor


def is_tensor(obj: Any) -> bool:
    """Tests whether an object is a tensor.

    Args:
        obj: Any object.

    Example:
        >>> torch.is_tensor(torch.ones(1)), torch.is_tensor(1)
        (True, False)
    """
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Tests whether the dtype of a tensor is a floating-point dtype.

    Args:
        input: The input tensor.

    Example:
        >>> torch.is_floating_point(torch.ones(1))
        True
    """
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Tests whether the dtype of a tensor is a complex dtype.

    Args:
        input: The input tensor.

    Example:
        >>> torch.is_complex(torch.ones(1))
        False
    """
    return input.is_complex()


def is_inference(input: Tensor) -> bool:
    """Tests whether a tensor was created in inference mode.

    Args:
        input: The input tensor.

    Example:
        >>> torch.is_inference(torch.ones(1))
        False
    """
    return input.is_inference()


def detach(input: Tensor) -> Any:
    """Returns a tensor that shares memory with ``input`` but has no history.

    Args:
        input: The input tensor.

    Returns:
        A tensor that does not require grad.

    Example:
        >>> torch.detach(torch.ones(1, requires_grad=True))
        tensor([1.])
    """
    return input.detach()


def get_device(input: Tensor) -> int:
    """Returns the index of the device of a tensor.

    Args:
        input: The input tensor.

    Returns:
        -1, the index of the CPU.

    Example:
        >>> torch.get_device(torch.ones(1))
        -1
    """
    return input.get_device()


def numel(input: Tensor) -> int:
    """Returns the number of elements of a tensor.

    Args:
        input: The input tensor.

    Example:
        >>> torch.numel(torch.zeros(2, 3))
        6
    """
    return input.numel()


def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """Returns the dtype that an operation on two operands computes in.

    Args:
        tensor1: The first operand: a tensor or a number.
        tensor2: The second operand: a tensor or a number.

    Example:
        >>> torch.result_type(torch.tensor([1, 2]), 1.0)
        torch.float32
    """
    raws = [x._data if isinstance(x, Tensor) else x for x in (tensor1, tensor2)]
    return dtypes.from_numpy_dtype(dtypes.result_type(raws))


def equal(input: Tensor, other: Tensor) -> bool:
    """Tests whether two tensors have the same shape and the same elements.

    Args:
        input: The first tensor.
        other: The second tensor.

    Example:
        >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
        True
    """
    a, b = input._data, other._data
    if is_lifted(a) or is_lifted(b):
        return bool(input.shape == other.shape and reductions.all(comparisons.eq(input, other)))
    return bool(a.shape == b.shape and (a == b).all())
