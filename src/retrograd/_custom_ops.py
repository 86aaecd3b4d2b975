"""``torch.library.custom_op``: operations that a program declares as PyTorch has it, and
``torch.ops``, where they are found by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any

from retrograd import ops
from retrograd.autograd.function import Function
from retrograd.tensor._tensor import Tensor


class CustomOpDef:
    """An operation created by ``custom_op``. Call it like the function it was created from.

    Args:
        name: the name, with a namespace in front.
        function: what it computes, of Tensors.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._qualname = name
        self._function = function
        self._signature = inspect.signature(function)
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        self._kind: type[Function] | None = None
        update_wrapper(self, function)

    @property
    def default(self) -> CustomOpDef:
        """The one overload, as ``torch.ops.namespace.name.default``."""
        return self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._name})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if self._kind is None:
            self._kind = self._made()
        return self._kind.apply(*bound.arguments.values())

    def _called(self, *values: Any) -> Any:
        """Call the function with the values of all of its arguments."""
        names = self._signature.parameters
        positional, named = [], {}
        for parameter, value in zip(names.values(), values, strict=True):
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)
        result = self._function(*positional, **named)
        for y in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(y, Tensor) and any(y is x for x in values):
                raise RuntimeError(
                    f"The output of this custom operator ({self._name}) must not also be an input "
                    "to this custom operator and may not alias any inputs to this custom operator "
                    "or other returns. Return a clone."
                )
        return result

    def _made(self) -> type[Function]:
        """The Function that records the operation."""
        operation = self

        def forward(*args: Any) -> Any:
            return operation._called(*args)

        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            if operation._setup is not None:
                count = sum(p.kind is not p.KEYWORD_ONLY
                            for p in operation._signature.parameters.values())  # fmt: skip
                if count < len(inputs):
                    names = [*operation._signature.parameters][count:]
                    keyword = dict(zip(names, inputs[count:], strict=True))
                    operation._setup(ctx, inputs[:count], keyword, output)
                else:
                    operation._setup(ctx, inputs, output)

        def backward(ctx: Any, *gradients: Any) -> Any:
            if operation._backward is None:
                name = operation._name.replace("::", ".")
                raise RuntimeError(
                    f"Trying to backward through {name}.default but no autograd formula "
                    "was registered. Please use register_autograd to add one."
                )
            grads = operation._backward(ctx, *gradients)
            grads = grads if isinstance(grads, (tuple, list)) else (grads,)
            missing = len(operation._signature.parameters) - len(grads)
            return (*grads, *(None,) * missing)

        members: dict[str, Any] = {
            "forward": staticmethod(forward), "setup_context": staticmethod(setup_context),
            "backward": staticmethod(backward), "__module__": self.__module__,
        }  # fmt: skip
        if self._vmap is not None:
            members["vmap"] = staticmethod(self._vmap)
        return type(self._name.replace("::", "_"), (Function,), members)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Registers the function that computes gradients.

        Args:
            backward: a function of ``ctx`` and of the gradients of the results.
            setup_context: a function of ``ctx``, the inputs and the output that keeps what
                ``backward`` needs.
        """
        self._backward, self._setup, self._kind = backward, setup_context, None

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Registers the batching rule: ``func(info, in_dims, *args)`` returns the result and its
        batch dimension. Also usable as a decorator.

        Args:
            func: the function.

        Returns:
            The function.
        """
        if func is None:
            return self.register_vmap
        self._vmap, self._kind = func, None
        return func

    def register_kernel(self, device_types: Any, func: Callable[..., Any] | None = None, /) -> Any:
        """Registers the kernel for a device type; that of ``"cpu"`` replaces the declared function.
        Also usable as a decorator.

        Args:
            device_types: the kind or kinds of devices.
            func: the function.

        Returns:
            The function.
        """
        if func is None:
            return lambda function: self.register_kernel(device_types, function)
        kinds = (device_types,) if isinstance(device_types, str) else device_types
        if kinds is None or "cpu" in kinds:
            self._function = func
        return func

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Accepted for compatibility: shapes are known without it.

        Args:
            fn: a function of Tensors without values.

        Returns:
            The function.
        """
        return fn

    register_torch_dispatch = register_autocast = register_fake


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str] = (),
    device_types: Any = None, schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Creates an operation from a function of Tensors. Also usable as a decorator.

    Args:
        name: the name, with a namespace in front: ``"mine::sine"``.
        fn: the function.
        mutates_args: the names of the arguments that it writes to.
        device_types: accepted for compatibility; there is the CPU.
        schema: accepted for compatibility; the signature of the function says it.
        tags: accepted for compatibility.

    Returns:
        The operation, which ``torch.ops.mine.sine`` gives too, or a decorator.

    Example:
        >>> import numpy as np
        >>> @torch.library.custom_op("mine::sine", mutates_args=())
        ... def sine(x: torch.Tensor) -> torch.Tensor:
        ...     return torch.from_numpy(np.sin(x.numpy()))
        >>> def keep(ctx, inputs, output):
        ...     ctx.save_for_backward(*inputs)
        >>> sine.register_autograd(
        ...     lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=keep)
        >>> x = torch.zeros(2, requires_grad=True)
        >>> torch.ops.mine.sine(x).sum().backward()
        >>> x.grad
        tensor([1., 1.])
    """

    def made(function: Callable[..., Any]) -> CustomOpDef:
        operation = CustomOpDef(name, function)
        OPERATIONS[name] = operation
        space = name.partition("::")[0]
        ops.NAMESPACES.setdefault(space, Namespace(space))
        return operation

    if "::" not in name:
        raise ValueError(
            f"custom_op(name={name!r}): Please include a namespace in the name, such as "
            f"'mine::{name}'"
        )
    return made if fn is None else made(fn)


OPERATIONS: dict[str, CustomOpDef] = {}


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """Registers the function that computes gradients of a custom operation.

    Args:
        op: the operation, or its name.
        backward: a function of ``ctx`` and of the gradients of the results.
        setup_context: a function of ``ctx``, the inputs and the output.
        lib: accepted for compatibility.
    """
    _named(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Registers the batching rule of a custom operation.

    Args:
        op: the operation, or its name.
        func: see ``CustomOpDef.register_vmap``.
        lib: accepted for compatibility.

    Returns:
        The function, or a decorator.
    """
    return _named(op).register_vmap(func)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Registers the kernel of a custom operation for a device type.

    Args:
        op: the operation, or its name.
        device_types: the kind or kinds of devices.
        func: the function.
        lib: accepted for compatibility.

    Returns:
        The function, or a decorator.
    """
    return _named(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, **ignored: Any) -> Any:
    """Accepted for compatibility: shapes are known without it.

    Args:
        op: the operation, or its name.
        func: a function of Tensors without values.
        lib: accepted for compatibility.
        **ignored: accepted for compatibility.

    Returns:
        The function, or a decorator.
    """
    return func if func is not None else lambda function: function


def _named(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in OPERATIONS:
        raise RuntimeError(f"there is no operation {op!r}: declare it by torch.library.custom_op")
    return OPERATIONS[op]


class Namespace:
    """The operations of one namespace of ``torch.ops``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> CustomOpDef:
        operation = OPERATIONS.get(f"{self.name}::{name}")
        if operation is None:
            raise AttributeError(
                f"'_OpNamespace' '{self.name}' object has no attribute '{name}': retrograd knows "
                "the operations that torch.library.custom_op declares"
            )
        return operation


__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake",
           "register_kernel", "register_vmap"]  # fmt: skip
