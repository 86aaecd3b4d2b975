"""``autograd.graph``: nodes, edges, and hooks on saved tensors and on several gradients."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from retrograd import arrays
from retrograd._modes import Scope, modes
from retrograd.autograd._engine import Task, current_task
from retrograd.autograd._hooks import RemovableHandle
from retrograd.autograd._node import Node
from retrograd.autograd._roots import GradientEdge, get_gradient_edge
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import wrap
from retrograd.autograd.grad_mode import ModeContext

if TYPE_CHECKING:
    from retrograd.autograd._explaining._alive import Alive


class saved_tensors_hooks(Scope):  # noqa: N801 - PyTorch's name
    """A context manager that packs the values that operations save for the backward pass.

    Args:
        pack_hook: called with each tensor to save; what it returns is kept instead.
        unpack_hook: called with what ``pack_hook`` returned when the value is needed; must return a
            tensor of the same contents.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
        ...     y = x.exp()
        >>> y.sum().backward(); x.grad
        tensor([2.7183, 2.7183])
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def changes(self) -> dict[str, Any]:
        if modes.hooks_disabled is not None:
            raise RuntimeError(modes.hooks_disabled)
        pair = (self.pack_hook, self.unpack_hook)
        return {"saved_tensor_hooks": (*modes.saved_tensor_hooks, pair)}


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """A context manager that keeps copies of the values that operations save.

    Everything is on the CPU already, so this only protects saved values from later in-place writes.

    Args:
        pin_memory: ignored.
        device_type: ignored.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.autograd.graph.save_on_cpu():
        ...     a = x.clone(); b = a**2
        >>> with torch.no_grad():
        ...     a = a.zero_()
        >>> b.sum().backward(); x.grad
        tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: wrap(arrays.copy(t._data)), lambda t: t)


class disable_saved_tensors_hooks(ModeContext):  # noqa: N801
    """A context manager in which ``saved_tensors_hooks`` raises an error.

    Args:
        error_message: message of the error.

    Example:
        >>> from retrograd.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks
        >>> with disable_saved_tensors_hooks("no hooks here"), saved_tensors_hooks(id, id):
        ...     pass
        Traceback (most recent call last):
        ...
        RuntimeError: no hooks here
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def changes(self) -> dict[str, Any]:
        return {"hooks_disabled": self.error_message}

    def clone(self) -> Self:
        return type(self)(self.error_message)


class _AllowMutationOnSavedContext:
    """The copies of values that were saved and then written in place."""

    def __init__(self) -> None:
        self.saved: dict[int, list[weakref.ref[_Kept]]] = {}

    def clear(self) -> None:
        """Forget what was kept."""
        self.saved.clear()


class _Kept:
    """A saved tensor whose memory may be written: copied just before that happens."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


class allow_mutation_on_saved_tensors(ModeContext):  # noqa: N801
    """A context manager in which saved values may be written in place: they are copied before the
    write.

    Example:
        >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
        ...     x = torch.ones(2, requires_grad=True)
        ...     a = x.clone(); b = a**2; a.sin_()
        ...     b.sum().backward()
        tensor([0.8415, 0.8415], grad_fn=<SinBackward0>)
        >>> x.grad
        tensor([2., 2.])
    """

    def __init__(self) -> None:
        self.context = _AllowMutationOnSavedContext()

    def pack(self, tensor: Any) -> _Kept:
        """Wraps a tensor that is saved.

        Args:
            tensor: the tensor.

        Returns:
            What is saved for it.
        """
        kept = _Kept(tensor)
        key = id(version_of(tensor))
        self.context.saved.setdefault(key, []).append(weakref.ref(kept))
        return kept

    def before_mutation(self, tensor: Any) -> None:
        """Copies the saved values of a tensor that is about to be written.

        Args:
            tensor: the tensor.
        """
        for reference in self.context.saved.pop(id(version_of(tensor)), ()):
            kept = reference()
            if kept is not None:
                old = kept.tensor
                kept.tensor = wrap(arrays.copy(old._data), old._node, old._number)

    def changes(self) -> dict[str, Any]:
        if modes.hooks_disabled is not None:
            raise RuntimeError(modes.hooks_disabled)
        pair = (self.pack, lambda kept: kept.tensor)
        return {
            "saved_tensor_hooks": (*modes.saved_tensor_hooks, pair),
            "before_mutation": self.before_mutation,
        }

    def __enter__(self) -> _AllowMutationOnSavedContext:
        super().__enter__()
        return self.context

    def _finish(self, *exc: object) -> None:
        self.context.clear()


def increment_version(tensor: Any) -> None:
    """Increments the version of a tensor whose memory was written by other means than operations.

    A backward pass that needs its old value then raises an error.

    Args:
        tensor: a tensor, or several.

    Example:
        >>> x = torch.zeros(2); torch.autograd.graph.increment_version(x); x._version
        1
    """
    for t in [tensor] if hasattr(tensor, "_version_counter") else tensor:
        if t.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        version_of(t).bump()


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., None], *, mode: str = "all"
) -> RemovableHandle:
    """Calls a function once in each backward pass, with the gradients of several tensors.

    Args:
        tensors: tensors that require grad.
        fn: in mode "all", called with a list of gradients, in which those of tensors that the pass
            does not reach are None; in mode "any", called with the first gradient.
        mode: "all" to call ``fn`` when all gradients are computed, "any" when the first is.

    Returns:
        A handle, whose ``remove()`` removes the hook.

    Example:
        >>> a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
        >>> handle = torch.autograd.graph.register_multi_grad_hook((a, b), print)
        >>> (a * 2 + b * 3).backward()
        [tensor([2.]), tensor([3.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    nodes = [get_gradient_edge(t).node for t in tensors]  # kept, so that they stay the same
    seen: weakref.WeakKeyDictionary[Task, tuple[int, list[Any]]] = weakref.WeakKeyDictionary()
    lock = threading.Lock()

    def hook_for(position: int) -> Callable[[Any], None]:
        def hook(g: Any) -> None:
            task = current_task()
            with lock:
                if task not in seen:
                    expected = sum(task.will_run(node) for node in nodes)
                    seen[task] = (expected, [None] * len(nodes))
                expected, grads = seen[task]
                grads[position] = g
                arrived = sum(x is not None for x in grads)
            if mode == "any" and arrived == 1:
                fn(g)
            elif mode == "all" and arrived == expected:
                fn(grads)

        return hook

    return _Handles([t.register_hook(hook_for(i)) for i, t in enumerate(tensors)])


def alive() -> Alive:
    """Finds the graphs that are alive, and the variables that keep them alive.

    A list of losses keeps the graph of each, with all that it has saved: memory that grows from
    step to step. Every object of the program is looked at, which takes a moment.

    Returns:
        A list of graphs, the largest first, each with ``nodes``, ``bytes``, ``lines`` and
        ``held_by``. Printed, it is a text that says which variables hold them.

    Example:
        >>> w = torch.ones(1000, requires_grad=True)
        >>> def losses():
        ...     kept = [(w * 2).exp().sum() for _ in range(3)]
        ...     return torch.autograd.graph.alive()
        >>> graphs = losses()
        >>> sorted(graph.held_by[0] for graph in graphs if "kept" in str(graph.held_by))
        ['kept[...] in losses()', 'kept[...] in losses()', 'kept[...] in losses()']
    """
    from retrograd.autograd._explaining._alive import alive

    return alive()


class _Handles(RemovableHandle):
    """Removes several hooks at once."""

    __slots__ = ("_handles",)

    def __init__(self, handles: Iterable[RemovableHandle]) -> None:
        self._handles = list(handles)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


__all__ = ["GradientEdge", "Node", "alive", "allow_mutation_on_saved_tensors",
           "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version",
           "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]  # fmt: skip
