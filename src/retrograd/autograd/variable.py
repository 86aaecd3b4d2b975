"""``Variable``, PyTorch's old name for a tensor, for programs that still use it."""

from __future__ import annotations

from typing import Any

from retrograd.autograd._wrap import Plug


class _AnyTensor(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Plug.tensor)

    def __call__(cls, data: Any, requires_grad: bool = False) -> Any:
        return data.detach().requires_grad_(requires_grad)


class Variable(metaclass=_AnyTensor):
    """PyTorch's former class of tensors with gradients. Calling it returns a leaf that shares the
    data.

    >>> torch.autograd.Variable(torch.ones(1), requires_grad=True)
    tensor([1.], requires_grad=True)
    """


__all__ = ["Variable"]
