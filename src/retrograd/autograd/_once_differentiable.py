"""Custom backwards that cannot be differentiated again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from retrograd._modes import modes, within
from retrograd._source import user_place
from retrograd.autograd._history import edge
from retrograd.autograd._node import Node, orders
from retrograd.autograd._wrap import Plug, wrap
from retrograd.ops._lifted import descending


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a ``backward`` whose result cannot be differentiated.

    It runs without recording. Differentiating its result is an error rather than a wrong result.

    Args:
        function: the static method ``backward`` of a custom Function.

    Returns:
        The decorated function.

    Example:
        >>> class Twice(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @torch.autograd.function.once_differentiable
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> x = torch.ones(1, requires_grad=True)
        >>> Twice.apply(x).backward(); x.grad
        tensor([2.])
    """

    @functools.wraps(function)
    def wrapped(ctx: Any, *given: Any) -> Any:
        grads = given[0] if len(given) == 1 and isinstance(given[0], list) else given
        tensors = [g for g in grads if isinstance(g, Plug.tensor)]
        if modes.levels and any(map(_is_differentiated, (*tensors, *ctx.saved_tensors))):
            raise RuntimeError(_ONCE)
        with within(grad_enabled=False):
            outputs = function(ctx, *given)
        if not modes.grad_enabled:
            return outputs
        edges = [edge(g) for g in tensors if g.requires_grad]
        if modes.running is not None and isinstance(ctx, Node):
            # The gradient depends on the inputs, and those on what a transform outside is about.
            # Without an error, its result would lack a part, and nobody would know.
            numbers = ctx.extras.next_numbers if ctx.extras else None
            edges += zip(ctx.next_nodes, numbers or repeat(None), strict=False)
        if not any(node is not None for node, _ in edges):
            return outputs
        many = outputs if isinstance(outputs, tuple) else (outputs,)
        failing = _Error(edges)
        failing.extras_for_visit()
        blocked = []
        for output in many:
            if isinstance(output, Plug.tensor):
                output = wrap(output._data, failing)
            blocked.append(output)
        return tuple(blocked) if isinstance(outputs, tuple) else blocked[0]

    return wrapped


_ONCE = "trying to differentiate twice a function that was marked with @once_differentiable"


def _is_differentiated(x: Any) -> bool:
    """Whether a value under transforms moves with something, or its parts have a history."""
    return any(
        (depends and level.differentiates) or getattr(part, "requires_grad", False)
        for level, part, depends in descending(getattr(x, "_data", None))
    )


class _Error(Node):
    """The node of a gradient that must not be differentiated again."""

    __slots__ = ()

    def __init__(self, edges: list[tuple[Node | None, int | None]]) -> None:
        # It lies between them and whatever asks for more.
        self.order = next(orders)
        self.next_nodes = tuple(node for node, _ in edges)
        self.saved = None
        self.extras = None
        if any(number is not None for _, number in edges):
            self.get_extras().next_numbers = tuple(number for _, number in edges)
        self.code, self.lasti = user_place(3)

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        raise RuntimeError(_ONCE)

    backward_recorded = backward


_Error.__name__ = "Error"
