"""Tensors that belong to a module: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

from typing import Any

from retrograd.autograd._history import meta_of
from retrograd.tensor._creation import empty
from retrograd.tensor._tensor import Tensor


def _of_kind(kind: Any, data: Any) -> Any:
    """A tensor of a subclass with the memory of another, without its history."""
    if data is None:
        data = empty(0)
    made = object.__new__(kind)
    made._data = data.detach()._data
    made._node = made._version_counter = made._meta = None
    return made


class Parameter(Tensor):
    """A tensor that is registered as a parameter when assigned to an attribute of a module.

    >>> import retrograd as torch
    >>> torch.nn.Parameter(torch.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        made = _of_kind(cls, data)
        if requires_grad:
            made.requires_grad_()
        return made

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        pass  # __new__ has done it

    def __repr__(self) -> str:
        return f"Parameter containing:\n{Tensor.__repr__(self)}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.detach().numpy(), self.requires_grad)


class Buffer(Tensor):
    """A tensor that is registered as a buffer when assigned to an attribute of a module.

    >>> import retrograd as torch
    >>> module = torch.nn.Module()
    >>> module.mean = torch.nn.Buffer(torch.zeros(2))
    >>> list(module.state_dict())
    ['mean']
    """

    __slots__ = ()

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        made = _of_kind(cls, data)
        made.persistent = persistent
        return made

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        pass


def _rebuild(kind: type[Parameter], data: Any, requires_grad: bool) -> Parameter:
    made: Parameter = object.__new__(kind)
    made._data = data
    made._node = made._version_counter = made._meta = None
    if requires_grad:
        meta_of(made).requires_grad = True
    return made


__all__ = ["Buffer", "Parameter"]
