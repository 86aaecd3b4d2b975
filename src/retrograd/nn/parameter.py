"""Parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

import importlib
from typing import Any

from retrograd._later import MissingNameError
from retrograd.autograd._history import meta_of
from retrograd.tensor._creation import empty
from retrograd.tensor._device import array_and_device, placed
from retrograd.tensor._overrides import disabled
from retrograd.tensor._tensor import Tensor


def _as_subclass(kind: Any, data: Any) -> Any:
    """A tensor of a subclass that shares the memory of ``data``, without its history."""
    if data is None:
        data = empty(0)
    tensor = object.__new__(kind)
    tensor._data = data.detach()._data
    tensor._node = tensor._version_counter = tensor._meta = None
    return tensor


class Parameter(Tensor):
    """A tensor that becomes a parameter when it is assigned to an attribute of a module.

    Args:
        data: the tensor, whose memory is shared.
        requires_grad: whether gradients are computed.

    Example:
        >>> torch.nn.Parameter(torch.zeros(2))
        Parameter containing:
        tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()
    __torch_function__ = disabled

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        tensor = _as_subclass(cls, data)
        if requires_grad:
            tensor.requires_grad_()
        return tensor

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        pass  # __new__ does all

    def __repr__(self) -> str:
        return f"Parameter containing:\n{Tensor.__repr__(self)}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        data, device = array_and_device(self._data)
        return _rebuild, (type(self), data, self.requires_grad, device)


class Buffer(Tensor):
    """A tensor that becomes a buffer when it is assigned to an attribute of a module.

    Args:
        data: the tensor, whose memory is shared.
        persistent: whether the buffer is part of ``state_dict``.

    Example:
        >>> module = torch.nn.Module()
        >>> module.mean = torch.nn.Buffer(torch.zeros(2))
        >>> list(module.state_dict())
        ['mean']
    """

    __slots__ = ()
    __torch_function__ = disabled

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        tensor = _as_subclass(cls, data)
        tensor.persistent = persistent
        return tensor

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        pass


def _rebuild(
    kind: type[Parameter], data: Any, requires_grad: bool, device: Any = None
) -> Parameter:
    tensor: Parameter = object.__new__(kind)
    tensor._data = data if device is None else placed(data, device)
    tensor._node = tensor._version_counter = tensor._meta = None
    if requires_grad:
        meta_of(tensor).requires_grad = True
    return tensor


__all__ = ["Buffer", "Parameter"]


def __getattr__(name: str) -> Any:
    """Parameters and buffers without a shape, which are defined with lazy modules."""
    if name not in ("UninitializedBuffer", "UninitializedParameter", "is_lazy"):
        raise MissingNameError(name, __name__)
    return getattr(importlib.import_module("retrograd.nn.lazy"), name)
