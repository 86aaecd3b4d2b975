"""Questions about tensors that are answered with plain Python values."""

from __future__ import annotations

from typing import Any

from retrograd.arrays import dtypes
from retrograd.ops import elementwise, reducing
from retrograd.ops._operation import hidden
from retrograd.tensor._tensor import Tensor, device


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor.

    >>> import retrograd as torch
    >>> torch.is_tensor(torch.ones(1)), torch.is_tensor(1)
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floats."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex."""
    return input.is_complex()


def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode."""
    return input.is_inference()


def detach(input: Tensor) -> Any:
    """The same memory without the history.

    >>> import retrograd as torch
    >>> torch.detach(torch.ones(1, requires_grad=True))
    tensor([1.])
    """
    return input.detach()


def get_default_device() -> device:
    """The device of new tensors: the CPU.

    >>> import retrograd as torch
    >>> torch.get_default_device()
    device(type='cpu')
    """
    return device("cpu")


def get_device(input: Tensor) -> int:
    """The number of the device of a tensor: -1, as for every tensor of the CPU."""
    return input.get_device()


def numel(input: Tensor) -> int:
    """How many elements a tensor has."""
    return input.numel()


def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype that an operation on the two would compute in.

    >>> import retrograd as torch
    >>> torch.result_type(torch.tensor([1, 2]), 1.0)
    torch.float32
    """
    raws = [x._data if isinstance(x, Tensor) else x for x in (tensor1, tensor2)]
    return dtypes.from_numpy_dtype(dtypes.result_type(raws))


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and the same elements."""
    a, b = input._data, other._data
    if hidden(a) or hidden(b):
        return bool(input.shape == other.shape and reducing.all(elementwise.eq(input, other)))
    return bool(a.shape == b.shape and (a == b).all())
