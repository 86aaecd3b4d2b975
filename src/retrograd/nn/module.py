"""``Module``, the base class of layers and models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from retrograd.arrays import dtypes
from retrograd.autograd.grad_mode import no_grad
from retrograd.nn._calling import CallableModule
from retrograd.nn._state import IncompatibleKeys
from retrograd.nn._tree import Tree
from retrograd.nn.parameter import Parameter
from retrograd.tensor._device import device, is_meta
from retrograd.tensor._like import empty_like
from retrograd.tensor._tensor import Tensor


class Module(CallableModule):
    """The base class of all layers and models.

    A model assigns its layers and parameters to attributes and computes its result in ``forward``.

    Args:
        args, kwargs: none, unless the class sets ``call_super_init``: then they are passed on to
            further base classes.

    Example:
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
    call_super_init: bool = False  # whether ``__init__`` passes its arguments on to other bases

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            name = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(f"{name} got an unexpected keyword argument '{next(iter(kwargs))}'")
            if args:
                count = len(args) + 1
                raise TypeError(f"{name} takes 1 positional argument but {count} were given")
        super().__init__()
        self.training = True
        if self.call_super_init:
            super(Tree, self).__init__(*args, **kwargs)

    # -- modes ---------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below it to training mode, or to evaluation mode.

        Dropout and batch norms behave differently in the two modes.

        Args:
            mode: True for training mode, False for evaluation mode.

        Returns:
            The module.

        Example:
            >>> torch.nn.Dropout(0.5).train(False).training
            False
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch to evaluation mode: ``train(False)``.

        Returns:
            The module.
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of all parameters.

        Args:
            requires_grad: the value to set.

        Returns:
            The module.
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters.

        Args:
            set_to_none: set them to None, rather than to zeros.
        """
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach()
                parameter.grad.zero_()

    # -- everything at once ----------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call ``fn`` on every module below this one, children first, and then on this one.

        Args:
            fn: a function of a module, for example one that initializes it.

        Returns:
            The module.

        Example:
            >>> model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
            >>> _ = model.apply(lambda module: print(type(module).__name__))
            ReLU
            Tanh
            Sequential
        """
        for module in _children_first(self):
            fn(module)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of every parameter and buffer by ``fn(tensor)``. Parameters stay the
        same objects, since optimizers refer to them.
        """
        modules: list[Any] = [*self.modules()] if recurse else [self]
        parameters = [p for module in modules for p in module._parameters.values() if p is not None]
        before = [(p, p._data, p.grad) for p in parameters]
        buffers_before = [(module, {**module._buffers}) for module in modules]
        try:
            with no_grad():
                for p in parameters:
                    p.data = fn(p)
                    if p.grad is not None:
                        p.grad = fn(p.grad)
                buffers = [
                    (module, name, fn(buffer)) for module in modules
                    for name, buffer in module._buffers.items() if buffer is not None
                ]  # fmt: skip
            for module, name, buffer in buffers:
                module._buffers[name] = buffer
        except BaseException:  # nothing is half moved if memory runs out, or at an interrupt
            for p, data, grad in before:
                p._data, p.grad = data, grad
            for module, kept in buffers_before:
                module._buffers.update(kept)
            raise
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating-point parameters and buffers to a dtype, or move all to a device.

        Args:
            args, kwargs: a dtype, a device (``"cpu"`` or ``"meta"``), or a tensor whose dtype and
                device to take.

        Returns:
            The module.

        Example:
            >>> torch.nn.Linear(2, 1).to(torch.float64).weight.dtype
            torch.float64
        """
        dtype, target = kwargs.get("dtype"), kwargs.get("device")
        for value in (*args, *kwargs.values()):
            if isinstance(value, dtypes.dtype):
                dtype = value
            elif isinstance(value, Tensor):
                dtype, target = value.dtype, value.device
            elif type(value) is str or isinstance(value, device) or (
                type(value) is int and value is args[0]
            ):
                target = value
        order = kwargs.get("memory_format")
        if order is not None:
            ranks = {"channels_last": 4, "channels_last_3d": 5}
            self._apply(
                lambda x: x.to(memory_format=order) if x.ndim == ranks.get(order, x.ndim) else x
            )
        if target is not None:
            is_meta(target)  # for the error if there is no such device
            self._apply(lambda x: x.to(target))
        if dtype is None:
            return self
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        target = dtype
        return self._apply(
            lambda x: x.to(target) if x.is_floating_point() or x.is_complex() else x
        )

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to ``float32``.

        Returns:
            The module.
        """
        return self._apply(lambda x: x.float() if x.is_floating_point() else x)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to ``float64``.

        Returns:
            The module.
        """
        return self._apply(lambda x: x.double() if x.is_floating_point() else x)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to ``float16``.

        Returns:
            The module.
        """
        return self._apply(lambda x: x.half() if x.is_floating_point() else x)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to ``bfloat16``.

        Returns:
            The module.
        """
        return self._apply(lambda x: x.bfloat16() if x.is_floating_point() else x)

    def type(self, dst_type: dtypes.dtype | str) -> Self:
        """Convert all parameters and buffers.

        Args:
            dst_type: the dtype.

        Returns:
            The module.
        """
        return self._apply(lambda x: x.type(dst_type))

    def share_memory(self) -> Self:
        """Move parameters and buffers to shared memory: see ``Tensor.share_memory_``.

        Returns:
            The module.

        Example:
            >>> torch.nn.Linear(2, 1).share_memory().weight.is_shared()
            True
        """
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def cpu(self) -> Self:
        """Move parameters and buffers to the CPU.

        Returns:
            The module.
        """
        return self._apply(lambda x: x.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move parameters and buffers to a GPU.

        Args:
            device: the GPU; by default the current one.

        Returns:
            The module itself.
        """
        return self.to("cuda" if device is None else device)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without copying their values.

        Args:
            device: ``"cpu"`` or ``"meta"``.
            recurse: whether to do the same with submodules.

        Returns:
            The module, whose parameters are not initialized.

        Example:
            >>> with torch.device("meta"):
            ...     layer = torch.nn.Linear(3, 2)
            >>> layer.to_empty(device="cpu").weight.device
            device(type='cpu')
        """
        return self._apply(lambda x: empty_like(x, device=device), recurse)

    # -- printing --------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Describe the module when it is printed. Override it.

        Returns:
            The text between the parentheses.
        """
        return ""

    def _repr_html_(self) -> str:
        """What notebooks show: a table of modules and parameters."""
        from retrograd.nn._notebook import html

        return html(self)

    def __repr__(self) -> str:
        own = self.extra_repr().split("\n") if self.extra_repr() else []
        below = [f"({n}): " + repr(m).replace("\n", "\n  ") for n, m in self._modules.items()]
        if len(own) == 1 and not below:
            return f"{self._get_name()}({own[0]})"
        lines = "".join(f"  {line}\n" for line in (*own, *below))
        return f"{self._get_name()}(\n{lines})" if lines else f"{self._get_name()}()"


def _children_first(module: Any) -> list[Any]:
    """A module and all below it, every module after its children, which come in their order."""
    order, to_visit = [], [module]
    while to_visit:
        last = to_visit.pop()
        order.append(last)
        to_visit += last.children()
    return order[::-1]


__all__ = ["IncompatibleKeys", "Module", "Parameter"]
