"""``Module``: a function with parameters, made of other such functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.arrays import dtypes
from retrograd.autograd.grad_mode import no_grad
from retrograd.nn._calling import Callable_
from retrograd.nn._state import IncompatibleKeys
from retrograd.nn.parameter import Parameter
from retrograd.tensor._tensor import Tensor, device


class Module(Callable_):
    """Base class of all layers and models.

    A model sets its parts as attributes and says in ``forward`` what it computes:

    >>> import retrograd as torch
    >>> class Model(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = torch.nn.Linear(2, 8)
    ...         self.out = torch.nn.Linear(8, 1)
    ...     def forward(self, x):
    ...         return self.out(torch.relu(self.hidden(x)))
    >>> Model()
    Model(
      (hidden): Linear(in_features=2, out_features=8, bias=True)
      (out): Linear(in_features=8, out_features=1, bias=True)
    )
    """

    training: bool

    def __init__(self) -> None:
        super().__init__()
        self.training = True

    # -- modes ---------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Any:
        """Be as in training, this module and all below: dropout drops, averages are taken."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Any:
        """Be as in use: ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Begin or stop recording operations on all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Let go of all gradients, or set them to zero."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach()
                parameter.grad.zero_()

    # -- everything at once ----------------------------------------------------------------------

    def apply(self, fn: Callable[[Any], Any]) -> Any:
        """Call ``fn`` on every module below this one, children first, and on this one."""
        for module in _children_first(self):
            fn(module)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Put ``fn(tensor)`` in the place of every parameter and buffer. Parameters stay the same
        objects, which optimizers know them by."""
        for module in self.modules() if recurse else (self,):
            for parameter in module._parameters.values():
                if parameter is None:
                    continue
                with no_grad():
                    parameter.data = fn(parameter)
                    if parameter.grad is not None:
                        parameter.grad = fn(parameter.grad)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Change the dtype of floating-point parameters and buffers. A device must be the CPU."""
        dtype = kwargs.get("dtype")
        for value in (*args, *kwargs.values()):
            if isinstance(value, dtypes.dtype):
                dtype = value
            elif isinstance(value, Tensor):
                dtype = value.dtype
            elif isinstance(value, str):
                device(value)
        if dtype is None:
            return self
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        wanted = dtype
        return self._apply(
            lambda x: x.to(wanted) if x.is_floating_point() or x.is_complex() else x
        )

    def float(self) -> Any:
        """Parameters and buffers in single precision."""
        return self._apply(lambda x: x.float() if x.is_floating_point() else x)

    def double(self) -> Any:
        """Parameters and buffers in double precision."""
        return self._apply(lambda x: x.double() if x.is_floating_point() else x)

    def half(self) -> Any:
        """Parameters and buffers in half precision."""
        return self._apply(lambda x: x.half() if x.is_floating_point() else x)

    def type(self, dst_type: Any) -> Any:
        """All parameters and buffers in another dtype."""
        return self._apply(lambda x: x.type(dst_type))

    def cpu(self) -> Any:
        """The module as it is, since there is no other device."""
        return self

    # -- printing --------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What to print of this module besides its children; override it."""
        return ""

    def __repr__(self) -> str:
        own = self.extra_repr().split("\n") if self.extra_repr() else []
        below = [f"({n}): {_indented(repr(m))}" for n, m in self._modules.items()]
        if len(own) == 1 and not below:
            return f"{self._get_name()}({own[0]})"
        lines = "".join(f"  {line}\n" for line in (*own, *below))
        return f"{self._get_name()}(\n{lines})" if lines else f"{self._get_name()}()"


def _children_first(module: Any) -> list[Any]:
    """A module and all below it, every module after its children, which come in their order."""
    found, to_visit = [], [module]
    while to_visit:
        last = to_visit.pop()
        found.append(last)
        to_visit += last.children()
    return found[::-1]


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


__all__ = ["IncompatibleKeys", "Module", "Parameter"]
