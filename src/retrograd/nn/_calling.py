"""Calling a module: ``forward``, and the hooks around it."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from retrograd.autograd._hooks import RemovableHandle
from retrograd.autograd.function import Function
from retrograd.nn._state import Stateful
from retrograd.ops._sections import like
from retrograd.tensor._tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class HasForward(Protocol[P, R]):
    """A module where it is called: type checkers take arguments and result from ``forward``."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Compute the result."""


class Hook:
    """A hook of a module, and the options it was registered with."""

    __slots__ = ("always", "function", "with_kwargs")

    def __init__(
        self, function: Callable[..., Any], with_kwargs: bool = False, always: bool = False
    ) -> None:
        self.function = function
        self.with_kwargs = with_kwargs
        self.always = always

    def __call__(self, module: Any, args: Any, kwargs: Any, *rest: Any) -> Any:
        if self.with_kwargs:
            return self.function(module, args, kwargs, *rest)
        return self.function(module, args, *rest)


Registry = OrderedDict[int, Any]
KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
# Hooks of all modules, for debugging and profiling. They run before a module's own.
GLOBAL_HOOKS: dict[str, Registry] = {kind: OrderedDict() for kind in KINDS}


def add(registry: Registry, hook: Any, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(registry)
    registry[handle.id] = hook
    if prepend:
        registry.move_to_end(handle.id, last=False)
    return handle


class CallableModule(Stateful):
    """A module that can be called, with hooks around the call."""

    shared_hooks = tuple(GLOBAL_HOOKS.values())  # of all modules; compiled functions guard them

    def __init__(self) -> None:
        super().__init__()
        for kind in KINDS:
            self.__dict__[kind] = OrderedDict()
        # True for full hooks, False for the deprecated kind
        self.__dict__["_is_full_backward_hook"] = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result of the module. Every subclass defines its own."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        own = self.__dict__
        if not (
            own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]
            or own["_backward_pre_hooks"] or any(GLOBAL_HOOKS.values())
        ):  # fmt: skip
            return self.forward(*args, **kwargs)
        return self._with_hooks(args, kwargs)  # type: ignore[attr-defined, no-any-return]

    def _hooks(self, kind: str) -> list[Any]:
        if kind == "_backward_hooks" and not self._has_full_hooks():
            return list(GLOBAL_HOOKS[kind].values())
        return [*GLOBAL_HOOKS[kind].values(), *self.__dict__[kind].values()]

    def _has_full_hooks(self) -> bool:
        return self.__dict__.get("_is_full_backward_hook") is not False

    def _with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result, called = None, set()
        try:
            for hook in self._hooks("_forward_pre_hooks"):
                args, kwargs = _replaced_arguments(hook, hook(self, args, kwargs), args, kwargs)
            gradients = None
            if self._hooks("_backward_hooks") or self._hooks("_backward_pre_hooks"):
                gradients = GradientHooks(self)
                args = gradients.watch_inputs(args)
            result = self.forward(*args, **kwargs)
            for hook in self._hooks("_forward_hooks"):
                called.add(id(hook))
                replaced = hook(self, args, kwargs, result)
                result = result if replaced is None else replaced
            if gradients is not None:
                result = gradients.watch_outputs(result)
            if self._backward_hooks and not self._has_full_hooks():
                watch_last_node(self, result)
            return result
        except Exception:
            for hook in self._hooks("_forward_hooks"):
                if hook.always and id(hook) not in called:
                    _call_regardless(hook, self, args, kwargs, result)
            raise

    # -- registering ---------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``.

        Args:
            hook: what it returns, if not None, replaces the arguments.
            prepend: run the hook before those registered earlier.
            with_kwargs: call ``hook(module, args, kwargs)``, which returns a pair.

        Returns:
            A handle, whose ``remove()`` removes the hook.

        Example:
            >>> layer = torch.nn.ReLU()
            >>> handle = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
            >>> layer(torch.tensor(-0.5))
            tensor(0.5000)
        """
        return add(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    @like(register_forward_pre_hook)
    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:  # fmt: skip
        """Call ``hook(module, args, output)`` after ``forward``.

        Args:
            hook: what it returns, if not None, replaces the output.
            with_kwargs: call ``hook(module, args, kwargs, output)``.
            always_call: call the hook when ``forward`` raises, too.
        """
        return add(self._forward_hooks, Hook(hook, with_kwargs, always_call), prepend)

    @like(register_forward_pre_hook)
    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` once the gradients of the outputs are known.

        Args:
            hook: what it returns, if not None, replaces the gradients.
        """
        return add(self._backward_pre_hooks, hook, prepend)

    @like(register_forward_pre_hook)
    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` once the gradients of the inputs are
        known.

        Args:
            hook: what it returns, if not None, replaces the gradients of the inputs.

        Example:
            >>> layer = torch.nn.ReLU()
            >>> handle = layer.register_full_backward_hook(lambda module, grads, _: print(grads))
            >>> layer(torch.tensor([1.0, -1.0], requires_grad=True)).sum().backward()
            (tensor([1., 0.]),)
        """
        self._set_kind_of_hooks(full=True)
        return add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` with the gradients of the last node.

        These need not be the gradients of the module's inputs. Deprecated: use
        ``register_full_backward_hook``.
        """
        self._set_kind_of_hooks(full=False)
        return add(self._backward_hooks, hook)

    def _set_kind_of_hooks(self, full: bool) -> None:
        if self.__dict__.get("_is_full_backward_hook") not in (None, full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        self.__dict__["_is_full_backward_hook"] = full


def _replaced_arguments(hook: Hook, returned: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    if returned is None:
        return args, kwargs
    if not hook.with_kwargs:
        return returned if isinstance(returned, tuple) else (returned,), kwargs
    if isinstance(returned, tuple) and len(returned) == 2:
        return returned
    raise RuntimeError(
        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
        f"{returned}."
    )


def _call_regardless(hook: Hook, module: Any, args: Any, kwargs: Any, result: Any) -> None:
    try:
        hook(module, args, kwargs, result)
    except Exception as error:
        warnings.warn(
            "module forward hook with ``always_call=True`` raised an exception that was silenced "
            f"as another error was raised in forward: {error}",
            stacklevel=5,
        )


def watch_last_node(module: CallableModule, result: Any) -> None:
    """Register the deprecated backward hooks with the node of the first tensor of a result."""
    while not isinstance(result, Tensor):
        if isinstance(result, dict):
            result = next(x for x in result.values() if isinstance(x, Tensor))
        else:
            result = result[0]
    if result.grad_fn is not None:
        for hook in module._backward_hooks.values():
            result.grad_fn.register_hook(functools.partial(hook, module))


# -- gradients of inputs and outputs -----------------------------------------------------------


class BackwardHookFunction(Function):
    """The identity. Its node receives the gradients of several tensors at once."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        results = tuple(x.detach() for x in tensors)
        constant = [y for x, y in zip(tensors, results, strict=True) if not x.requires_grad]
        ctx.mark_non_differentiable(*constant)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class GradientHooks:
    """The backward hooks of one call of a module."""

    def __init__(self, module: CallableModule) -> None:
        self.module = module
        self.grad_outputs: Any = None
        self.inputs_watched = False
        self.count = 0

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.count = len(args)
        indices, passed = _through_one_node(args)
        if passed is None:
            return args
        self.inputs_watched = True
        node = _node_of(passed)

        def hook(grad_inputs: Any, _: Any) -> Any:
            if self.grad_outputs is None:  # no gradient arrived at the outputs
                return None
            grads: list[Any] = [None] * self.count
            for i, g in zip(indices, grad_inputs, strict=True):
                grads[i] = g
            replaced = self._call_hooks("_backward_hooks", tuple(grads), self.grad_outputs)
            self.grad_outputs = None
            return tuple(replaced[i] for i in indices)

        node.register_hook(hook)
        new = list(args)
        for i, x in zip(indices, passed, strict=True):
            new[i] = x
        return tuple(new)

    def watch_outputs(self, result: Any) -> Any:
        several = isinstance(result, tuple)
        outputs = result if several else (result,)
        indices, passed = _through_one_node(outputs)
        if passed is None:
            return result

        def pre_hook(grads: Any) -> Any:
            grad_outputs: list[Any] = [None] * len(outputs)
            for i, g in zip(indices, grads, strict=True):
                grad_outputs[i] = g
            replaced = self._call_hooks("_backward_pre_hooks", tuple(grad_outputs))
            self.grad_outputs = replaced
            if not self.inputs_watched:  # no gradients of inputs will follow
                self._call_hooks_without_inputs(replaced)
            return tuple(replaced[i] for i in indices)

        _node_of(passed).register_prehook(pre_hook)
        new = list(outputs)
        for i, x in zip(indices, passed, strict=True):
            new[i] = x
        if not several:
            return new[0]
        return tuple(new) if type(result) is tuple else type(result)(*new)

    def _call_hooks_without_inputs(self, grad_outputs: tuple[Any, ...]) -> None:
        for hook in self.module._hooks("_backward_hooks"):
            returned = hook(self.module, (None,) * self.count, grad_outputs)
            nothing = isinstance(returned, tuple) and all(x is None for x in returned)
            if returned is not None and not nothing:
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )

    def _call_hooks(self, kind: str, grads: tuple[Any, ...], *rest: Any) -> tuple[Any, ...]:
        for hook in self.module._hooks(kind):
            replaced = hook(self.module, grads, *rest)
            if replaced is not None:
                if len(replaced) != len(grads):
                    what = "pre hook" if kind == "_backward_pre_hooks" else "hook"
                    of = "grad_output" if kind == "_backward_pre_hooks" else "grad_input"
                    raise RuntimeError(
                        f"Backward {what} returned an invalid number of {of}, got "
                        f"{len(replaced)}, but expected {len(grads)}"
                    )
                grads = replaced
        return grads


def _through_one_node(values: tuple[Any, ...]) -> tuple[list[int], Any]:
    """The indices of the tensors among some values, and those tensors as outputs of one node, or
    None if none of them requires grad."""
    indices = [i for i, x in enumerate(values) if isinstance(x, Tensor)]
    if not any(values[i].requires_grad for i in indices):
        return indices, None
    return indices, BackwardHookFunction.apply(*(values[i] for i in indices))


def _node_of(passed: tuple[Any, ...]) -> Any:
    return next(x.grad_fn for x in passed if x.requires_grad)


# -- hooks of all modules ----------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before ``forward`` of every module."""
    return add(GLOBAL_HOOKS["_forward_pre_hooks"], Hook(hook))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after ``forward`` of every module."""
    return add(GLOBAL_HOOKS["_forward_hooks"], Hook(hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` for every module."""
    return add(GLOBAL_HOOKS["_backward_pre_hooks"], hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` for every module."""
    return add(GLOBAL_HOOKS["_backward_hooks"], hook)
