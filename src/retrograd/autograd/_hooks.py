"""Hooks: registries, handles that remove a hook, and calls during a backward pass.

Hooks see gradients as Tensors, and what they return replaces a gradient, if it is of the same shape
and dtype.
"""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from retrograd import arrays
from retrograd._modes import recording_in, sealed
from retrograd.autograd._wrap import SPARSE, as_tensor, wrap
from retrograd.ops import copies
from retrograd.ops._operation import raw

if TYPE_CHECKING:
    from retrograd.autograd._engine import Task
    from retrograd.autograd._node import Extras

_ids = itertools.count()


class RemovableHandle:
    """A handle that removes a hook, by ``remove()`` or at the end of a ``with`` block."""

    __slots__ = ("_registry", "id")

    def __init__(self, registry: Any) -> None:
        self.id = next(_ids)
        self._registry = weakref.ref(registry)

    def remove(self) -> None:
        """Remove the hook; removing it twice does nothing."""
        registry = self._registry()
        if registry is not None:
            registry.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(
    registry: OrderedDict[int, Callable[..., Any]], fn: Callable[..., Any]
) -> RemovableHandle:
    """Put a hook at the end of a registry."""
    handle = RemovableHandle(registry)
    registry[handle.id] = fn
    return handle


# -- in a backward pass ----------------------------------------------------------------------


def as_seen(task: Task, g: Any) -> Any:
    """A gradient as hooks see it."""
    return g if g is None or task.recorded else as_tensor(g)


def call_hook(task: Task, hook: Any, *args: Any) -> Any:
    """Call user code as PyTorch does: recorded exactly if the pass is."""
    with sealed(grad_enabled=recording_in(task.recorded)):
        return hook(*args)


def call_tensor_hooks(task: Task, extras: Extras, grads: list[Any]) -> None:
    for number, hooks in (extras.tensor_hooks or {}).items():
        for hook in list(hooks.values()):
            if grads[number] is None:
                continue
            result = call_hook(task, hook, as_seen(task, grads[number]))
            if result is not None:
                grads[number] = checked(task, grads[number], result, hook)
    for number, reference in (extras.retained or {}).items():
        tensor = reference()
        if tensor is not None and grads[number] is not None:
            retain(task, tensor._meta, grads[number])


def retain(task: Task, meta: Any, g: Any) -> None:
    """Add a gradient to the ``.grad`` of a result that keeps its own."""
    if task.recorded:
        meta.grad = copies.clone(g) if meta.grad is None else meta.grad + g
    else:
        meta.grad = wrap(arrays.copy(g) if meta.grad is None else meta.grad._data + g)


def checked(task: Task, old: Any, result: Any, hook: Any) -> Any:
    """What a hook returned in place of a gradient, if it is of the same dtype and shape."""
    if result is None:
        return None
    if type(result) not in SPARSE and not hasattr(result, "_node"):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if old is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    was, got = (_type_name(x) for x in (old, result))
    if was != got:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was {was} got {got})"
        )
    if tuple(result.shape) != tuple(old.shape):
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")
    return result if task.recorded or type(result) in SPARSE else result._data


def checked_all(task: Task, old: Sequence[Any], result: Any, hook: Any) -> list[Any]:
    """The same for all gradients of a node."""
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
    if len(result) != len(old):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(result)}, "
            f"but expected {len(old)})"
        )
    return [checked(task, x, r, hook) for x, r in zip(old, result, strict=True)]


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", None) or type(hook).__name__


def _type_name(g: Any) -> str:
    """PyTorch's older name of a tensor's type."""
    if type(g) in SPARSE:
        return f"torch.sparse.{arrays.dtypes.type_word(g.dtype.numpy)}Tensor"
    dtype = raw(g).dtype
    word = arrays.dtypes.type_word(dtype)
    return f"CPU{word}Type" if dtype.kind == "c" else f"torch.{word}Tensor"


def call_pre_hooks(task: Task, extras: Extras, grads: list[Any]) -> list[Any]:
    assert extras.pre_hooks is not None
    for hook in list(extras.pre_hooks.values()):
        result = call_hook(task, hook, tuple(as_seen(task, g) for g in grads))
        if result is not None:
            grads = checked_all(task, grads, result, hook)
    return grads


def call_post_hooks(task: Task, extras: Extras, received: Sequence[Any], grads: list[Any]) -> Any:
    assert extras.post_hooks is not None
    for hook in list(extras.post_hooks.values()):
        outgoing = tuple(as_seen(task, g) for g in received)
        incoming = tuple(as_seen(task, g) for g in grads)
        result = call_hook(task, hook, outgoing, incoming)
        if result is not None:
            received = checked_all(task, received, result, hook)
    return received
