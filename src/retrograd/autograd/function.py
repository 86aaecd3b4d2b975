"""``Function``: custom operations with a user-defined forward and backward.

``Function.apply`` runs ``forward`` unrecorded and, if an input requires grad, leaves a node whose
backward is the user's. The node itself is the ``ctx`` that both receive.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from retrograd._modes import modes, within
from retrograd.autograd import _custom_results as custom_results
from retrograd.autograd._custom_context import FunctionCtx, UserContext
from retrograd.autograd._history import edge
from retrograd.autograd._once_differentiable import once_differentiable
from retrograd.autograd._wrap import Plug


class _FunctionMeta(type):
    """Gives every Function subclass its own class of nodes, named ``<Function>Backward``."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        seen = type(f"{name}Backward", (UserContext,), {"__slots__": ()})
        members = {"function": cls, "user_context": seen, "__doc__": f"The node of {name}."}
        cls._backward_cls = type(f"{name}Backward", (FunctionCtx,), members)


class Function(metaclass=_FunctionMeta):
    """The base class of custom operations.

    A subclass defines static methods: ``forward(ctx, *inputs)``, or ``forward(*inputs)`` together
    with ``setup_context``; ``backward``; and, if it is to be used under transforms, ``jvp`` and
    ``vmap``. It is called by ``apply``, never instantiated.

    Args:
        args: not used.
        kwargs: not used.

    Example:
        >>> class Exp(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         y = x.exp()
        ...         ctx.save_for_backward(y)
        ...         return y
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (y,) = ctx.saved_tensors
        ...         return grad * y
        >>> x = torch.zeros(2, requires_grad=True)
        >>> Exp.apply(x).sum().backward(); x.grad
        tensor([1., 1.])
    """

    _backward_cls: ClassVar[type[FunctionCtx]]
    generate_vmap_rule = False
    # Whether backward gets its gradients as one list, from which it can take them to free memory.
    boxed_grads_call = False
    # Whether ``ctx.saved_tensors`` may be read but once, and keeps nothing after that.
    clear_saved_tensors_on_access = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the operation: ``forward(ctx, *inputs)``, or ``forward(*inputs)`` together with
        ``setup_context``.

        Args:
            args: the context, unless there is a ``setup_context``, and the inputs.
            kwargs: not used.

        Returns:
            A tensor, or a tuple of tensors and other values.
        """
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Saves what ``backward`` needs, if ``forward`` takes no context.

        Args:
            ctx: the context.
            inputs: a tuple of the inputs of ``forward``.
            output: the result of ``forward``.

        Returns:
            None.
        """
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any, **_: Any) -> Any:
        """Computes the gradients of the inputs from those of the outputs.

        Args:
            ctx: the context.
            grad_outputs: the gradient of each output.

        Returns:
            A gradient, or None, for each input of ``forward``; a tuple if there are several.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any, **_: Any) -> Any:
        """Computes the tangents of the outputs from those of the inputs, for forward mode.

        Args:
            ctx: the context.
            grad_inputs: the tangent of each input, or None.

        Returns:
            The tangent of each output; a tuple if there are several.
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        """Computes the operation on batches. ``generate_vmap_rule = True`` makes it unnecessary.

        Args:
            info: has the attributes ``batch_size`` and ``randomness``.
            in_dims: the batch dimension of each input, or None.
            args: the inputs.

        Returns:
            The outputs, and the batch dimension of each.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs the operation, and records it if one of the inputs requires grad.

        Args:
            args: the inputs of ``forward``.
            kwargs: inputs of ``forward`` by name.

        Returns:
            The result of ``forward``.
        """
        args = _with_defaults(cls, args, kwargs)
        if modes.observer is not None:
            return modes.observer.custom(cls, args)
        for interceptor in reversed(modes.interceptors):  # which may have others in their place
            if (replaced := getattr(interceptor, "custom_args", None)) is not None:
                args = replaced(args)
        if modes.levels:
            return _under_transforms(cls, args)
        output, ctx = run_below(cls, args)
        ctx.saved_for_forward = ()  # which no jvp will ask for
        return output


FunctionCtx._base = Function

NEEDS_SETUP_CONTEXT = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, "
    "...), it must override the setup_context staticmethod. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)


def run_under_transforms(
    cls: type[Function], args: tuple[Any, ...]
) -> tuple[Any, FunctionCtx]:
    """Run the operation as the innermost transform that its inputs belong to says, if any. Also
    gives its node."""
    from retrograd.autograd import _custom_transforms as transforms  # loaded with the first of them

    level = transforms.level_of(args)
    if level is None or level.traces:  # a program is made of what its parts do
        return run_below(cls, args)
    if cls.setup_context is Function.setup_context:
        if level.transparent:  # dual numbers made by hand, which PyTorch takes here, too
            lifted = transforms.lifted(level, args)
            return run_below(
                cls, lifted, lambda ctx: transforms.run_with_context(level, cls, ctx, lifted)
            )
        raise RuntimeError(NEEDS_SETUP_CONTEXT)
    args = transforms.lifted(level, args)
    return run_below(cls, args, lambda ctx: transforms.run(level, cls, args))


def _under_transforms(cls: type[Function], args: tuple[Any, ...]) -> Any:
    from retrograd.autograd import _custom_transforms as transforms

    level = transforms.level_of(args)
    if level is not None and not level.traces:
        args = transforms.lifted(level, args)
        if not (modes.records and any(getattr(a, "requires_grad", False) for a in args)):
            return transforms.run(level, cls, args)
    output, ctx = run_under_transforms(cls, args)
    ctx.saved_for_forward = ()  # which no jvp will ask for
    return output


def run_below(
    cls: type[Function], args: tuple[Any, ...],
    forward: Callable[[FunctionCtx], Any] | None = None,
) -> tuple[Any, FunctionCtx]:  # fmt: skip
    """Run the operation, and record it if an input requires grad. Also gives its node.

    ``forward``: what computes its output, where that is not simply its forward."""
    ctx = cls._backward_cls()
    ctx.is_tensor = tuple(isinstance(a, Plug.tensor) for a in args)
    ctx.needs_input_grad = tuple(
        t and a.requires_grad for t, a in zip(ctx.is_tensor, args, strict=True)
    )
    tensors = [a for a, t in zip(args, ctx.is_tensor, strict=True) if t]
    recorded = modes.records and any(ctx.needs_input_grad)
    edges = [edge(t) for t in tensors] if recorded else ()  # as they are before forward writes
    try:
        output = _run_forward(cls, ctx, args, forward)
        outputs = output if isinstance(output, tuple) else (output,)
        marks = custom_results.Marks.take(ctx)
        if recorded:
            custom_results.connect(ctx, args, edges)
        results = custom_results.finish(ctx, marks, tensors, outputs, recorded)
        if recorded:
            custom_results.save(ctx, marks, tensors, outputs, results)
    except BaseException:
        ctx.saved_for_forward = ()  # which may be outputs, and those refer to the ctx
        raise
    return (results if isinstance(output, tuple) else results[0]), ctx


def _with_defaults(
    cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """All arguments in the order of ``forward``'s parameters, with its defaults for those that are
    not given. A forward that takes the ctx gets its own defaults when it is called."""
    separate = cls.setup_context is not Function.setup_context
    if not kwargs and (not separate or len(args) >= _count_of_parameters(cls.forward)):
        return args
    import inspect

    signature = inspect.signature(cls.forward)
    bound = signature.bind(*args, **kwargs) if separate else signature.bind(None, *args, **kwargs)
    bound.apply_defaults()
    for name in bound.kwargs:
        raise TypeError(
            f"forward() got an unexpected keyword argument '{name}'. The arguments of an "
            "autograd.Function are given to it by position, so none can be keyword-only."
        )
    return bound.args if separate else bound.args[1:]


def _count_of_parameters(forward: Callable[..., Any]) -> float:
    """With how many arguments, given by position, a function needs none of its defaults."""
    code = getattr(forward, "__code__", None)
    if code is None or hasattr(forward, "__wrapped__") or code.co_kwonlyargcount:
        return math.inf
    return int(code.co_argcount)


def _run_forward(
    cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...],
    forward: Callable[[FunctionCtx], Any] | None,
) -> Any:  # fmt: skip
    output = forward(ctx) if forward is not None else None
    with within(grad_enabled=False):
        if cls.setup_context is Function.setup_context:
            return output if forward is not None else cls.forward(ctx.user_context(ctx), *args)
        if forward is None:
            output = cls.forward(*args)
        cls.setup_context(ctx.user_context(ctx), args, output)
        return output


class InplaceFunction(Function):
    """The same as ``Function``; kept for programs that derive from it.

    Args:
        args: not used.
        kwargs: not used.

    Example:
        >>> issubclass(torch.autograd.function.InplaceFunction, torch.autograd.Function)
        True
    """


__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
