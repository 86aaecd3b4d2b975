"""Nodes of the graph: the record of an operation that a backward pass uses.

A node knows the nodes that its inputs came from (``next_nodes``), the values that its rules need
(``saved``), and how to turn the gradient of its output into gradients of its inputs
(``backward``). It never refers to its own output tensor: an output that a rule needs is saved as
a bare array and attached again on demand. So nothing but the tensors a user holds keeps a graph
alive.

Nodes are numbered in the order they are made, counting down: a node is always *older* than
whatever used its output, which is all the engine needs to know to run them in a right order.
"""

from __future__ import annotations

import weakref
from _thread import RLock
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, ClassVar

from retrograd import _source, arrays
from retrograd._modes import free_in_forks, let_go, recording_in, sealed
from retrograd.arrays import add_to, can_add_to, ndarray, owned
from retrograd.autograd._hooks import RemovableHandle, add_hook
from retrograd.autograd._passes import current as current_pass
from retrograd.autograd._passes import orders as orders
from retrograd.autograd._wrap import SPARSE, total, wrap
from retrograd.ops import copies
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import Operation


class _Freed:
    """Stands where saved values were. Unpacking it is the error of using them a second time."""

    def __iter__(self) -> Any:
        raise RuntimeError(SECOND_BACKWARD)

    def __repr__(self) -> str:
        return "<freed>"


FREED: Any = _Freed()
Info = tuple[tuple[int, ...], Any]  # a tensor's shape and raw dtype

SECOND_BACKWARD = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class Extras:
    """Data that most nodes do not need: edges to one of several outputs, broadcasting, hooks. For
    nodes without it, the engine checks one ``is None``."""

    __slots__ = ("conjugate", "fit", "metadata", "needs_visit", "next_numbers", "packed",
                 "post_hooks", "pre_hooks", "retained", "tensor_hooks", "trace")  # fmt: skip

    def __init__(self) -> None:
        # Whether there is more to do than to fit gradients and to send them to the right output.
        self.needs_visit = False
        # Which output of each next node the gradient is for; None where it has only one.
        self.next_numbers: tuple[int | None, ...] | None = None
        # The shape and dtype that each gradient must be brought to (broadcasting, promotion).
        self.fit: tuple[Info | None, ...] | None = None
        self.conjugate = False  # complex numbers: run the rule on conjugated values
        self.packed = False  # saved values went through saved_tensors_hooks
        self.tensor_hooks: dict[int, OrderedDict[int, Callable[..., Any]]] | None = None
        self.retained: dict[int, Any] | None = None  # output number -> weak reference to a tensor
        self.pre_hooks: OrderedDict[int, Callable[..., Any]] | None = None
        self.post_hooks: OrderedDict[int, Callable[..., Any]] | None = None
        self.metadata: dict[Any, Any] | None = None
        self.trace: str | None = None  # anomaly mode: the whole forward traceback


class Node:
    """A node of the graph: one application of an operation.

    Example:
        >>> isinstance(torch.ones(2, requires_grad=True).exp().grad_fn, torch.autograd.graph.Node)
        True
    """

    __slots__ = ("__weakref__", "code", "extras", "lasti", "next_nodes", "order", "saved")

    operation: ClassVar[Operation | None] = None
    makes_zeros: ClassVar[bool] = False  # whether it runs even if no gradient arrives
    order: int
    next_nodes: tuple[Node | None, ...]
    saved: Any  # (value, its version counter, the count it was saved at) for each name, flat
    extras: Extras | None
    code: CodeType | None
    lasti: int

    # -- running -----------------------------------------------------------------------------

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        """Computes the gradients of the inputs from that of the output, on raw arrays.

        Args:
            g: the gradient of the output; a list of gradients if there are several.
            next_nodes: the nodes of the inputs; None where the gradient is not needed.

        Returns:
            A gradient, or None, for each input.
        """
        raise NotImplementedError

    def backward_recorded(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        """Computes the gradients of the inputs on Tensors, so that they have a graph of their own.

        Args:
            g: the gradient of the output; a list of gradients if there are several.
            next_nodes: the nodes of the inputs; None where the gradient is not needed.

        Returns:
            A gradient, or None, for each input.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Free the saved values."""
        if self.saved is not None:
            self.saved = FREED

    # -- what users see ----------------------------------------------------------------------

    def name(self) -> str:
        """The name of the node, as in PyTorch.

        >>> torch.ones(2, requires_grad=True).exp().grad_fn.name()
        'ExpBackward0'
        """
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input, the node its gradient goes to and which of that node's outputs it is."""
        numbers = self.extras.next_numbers if self.extras else None
        numbers = numbers or (None,) * len(self.next_nodes)
        nodes = [None if n is NOWHERE else n for n in self.next_nodes]
        return tuple((n, k or 0) for n, k in zip(nodes, numbers, strict=True))

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own data about the node."""
        extras = self.extras_for_visit()
        if extras.metadata is None:
            extras.metadata = {}
        return extras.metadata

    @property
    def requires_grad(self) -> bool:
        """Always True."""
        return True

    def _sequence_nr(self) -> int:
        return -self.order

    @property
    def source(self) -> str | None:
        """The line of user code that made this node: ``file.py:12: y = x.exp()``."""
        return _source.describe((self.code, self.lasti))

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Calls a function before the node runs in a backward pass.

        Args:
            fn: called with the tuple of gradients of the node's outputs; what it returns, if not
                None, replaces them.

        Returns:
            A handle, whose ``remove()`` removes the hook.
        """
        extras = self.extras_for_visit()
        if extras.pre_hooks is None:
            extras.pre_hooks = OrderedDict()
        return add_hook(extras.pre_hooks, fn)

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Calls a function after the node ran in a backward pass.

        Args:
            fn: called with the tuples of gradients of the node's inputs and outputs; what it
                returns, if not None, replaces those of the inputs.

        Returns:
            A handle, whose ``remove()`` removes the hook.
        """
        extras = self.extras_for_visit()
        if extras.post_hooks is None:
            extras.post_hooks = OrderedDict()
        return add_hook(extras.post_hooks, fn)

    def get_extras(self) -> Extras:
        """The extras of this node, created if there are none."""
        if self.extras is None:
            self.extras = Extras()
        return self.extras

    def extras_for_visit(self) -> Extras:
        """The extras of a node that has more to do from now on than to run its rules: the engine
        then runs it through ``visit``.
        """
        extras = self.get_extras()
        extras.needs_visit = True
        return extras


class CallableNode(Node):
    """A node that can be called by hand. That of a custom Function has ``apply`` instead."""

    __slots__ = ()

    def __call__(self, *grads: Any) -> Any:
        """What the node makes of the gradients of its outputs, hooks apart.

        >>> y = torch.tensor([1.0, 2.0], requires_grad=True) * 3
        >>> y.grad_fn(torch.ones(2))
        (tensor([3., 3.]), None)
        """
        from retrograd.autograd._node_calls import call_node  # few programs need it

        return call_node(self, grads)


# -- ends of the graph -----------------------------------------------------------------------


# Why a view that was taken in no_grad mode must not be written while recording, nor its base.
AMBIGUOUS = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the no_grad block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)


class Nowhere(Node):
    """The end of the gradient of a view that was taken in no_grad mode from a tensor that requires
    grad. PyTorch records operations on such a view and discards its gradient."""

    __slots__ = ()

    def __init__(self) -> None:
        self.order = OLDEST
        self.next_nodes = ()
        self.saved = self.extras = self.code = None
        self.lasti = 0

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        return ()

    backward_recorded = backward


OLDEST = 2  # orders count down from zero
NOWHERE = Nowhere()

_accumulating: Any = RLock()
free_in_forks(_accumulating)
_is_held, _acquire, _release = (
    _accumulating._is_owned, _accumulating.acquire, _accumulating.release
)  # fmt: skip


class AccumulateGrad(CallableNode):
    """The node of a leaf: adds the gradients that arrive to its ``.grad``."""

    __slots__ = ("variable",)

    variable: Any

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.order = next(orders)
        self.next_nodes = ()
        self.saved = None
        self.code, self.lasti = None, 0
        hooks = variable._meta.hooks
        self.extras = None
        if hooks:
            self.extras_for_visit().tensor_hooks = {0: hooks}

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def twin(self, value: Any, version: Any) -> Any:
        """A leaf with another value, such as one that hooks unpacked, whose gradient is accumulated
        here."""
        meta = type(self.variable._meta)()
        meta.requires_grad = True
        meta.ending = meta.accumulator = weakref.ref(self)
        return wrap(value, version=version, meta=meta)

    def backward(
        self, g: Any, next_nodes: Sequence[Node | None], tell: bool = True
    ) -> Sequence[Any]:
        variable = self.variable
        meta = variable._meta
        if variable._node is not None or not meta.requires_grad:
            self.stopped(meta)  # for the error, if it is one
            return ()
        if SPARSE and (type(g) in SPARSE or type(meta.grad) in SPARSE):
            return self.backward_sparse(g, tell)
        # As in ``let_go``, inlined because this runs for every leaf.
        try:
            try:
                _acquire()
                have = meta.grad
                if have is None:
                    meta.grad = wrap(owned(g, variable._data))
                elif isinstance(g, Lifted) and not isinstance(have._data, Lifted):
                    have._data = Lifted.operations["add"](have._data, g.as_gradient())
                elif can_add_to(have._data):
                    add_to(have._data, g, have._data)
                    version = have._version_counter
                    if version is not None:
                        if version.count != meta.seen:  # zeroed, or written otherwise
                            meta.added = 0
                        version.bump()
                        meta.seen = version.count
                elif isinstance(have._data, ndarray):
                    meta.grad = wrap(have._data + g)
                elif isinstance(have._data, Lifted):
                    have._data = have._data.plus(g)
                else:
                    have._data = have._data + g
                meta.last_pass = current_pass()
                if not meta.added:
                    meta.first_pass = meta.last_pass
                meta.added += 1
            finally:
                if _is_held():
                    _release()
        finally:
            if _is_held():
                _release()
        if meta.post_hooks and tell:
            self.tell_hooks(recorded=False)
        return ()

    def backward_sparse(self, g: Any, tell: bool) -> Sequence[Any]:
        """As ``backward``, if the gradient is sparse, or the one so far is."""

        def added(have: Any) -> Any:
            if have is None:
                return g.clone()
            return have.add_(g) if type(g) in SPARSE else wrap(g) + have

        with sealed(grad_enabled=False):
            self.replace_grad(added)
        if tell and self.variable._meta.post_hooks:
            self.tell_hooks(recorded=False)
        return ()

    def backward_shown(self, grads: list[Any]) -> Sequence[Any]:
        """As ``backward``, before hooks of the node that are shown the gradient. If it is the first
        that the leaf gets, they are shown what the leaf keeps, as in PyTorch."""
        meta = self.variable._meta
        first = meta.grad is None
        self.backward(grads[0], (), tell=False)
        if first and meta.grad is not None:
            grads[0] = meta.grad if type(meta.grad) in SPARSE else meta.grad._data
        if meta.post_hooks and not self.stopped(meta):
            self.tell_hooks(recorded=False)
        return ()

    def backward_recorded(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        meta = self.variable._meta
        if self.stopped(meta):
            return ()
        self.replace_grad(lambda have: _own_tensor(g) if have is None else total(have, g))
        if meta.post_hooks:
            self.tell_hooks(recorded=True)
        return ()

    def replace_grad(self, added: Callable[[Any], Any]) -> None:
        """Set the gradient of the leaf to ``added`` of the gradient so far."""
        meta = self.variable._meta
        try:
            try:
                _accumulating.acquire()
                meta.grad = added(meta.grad)
                meta.last_pass = current_pass()
                if not meta.added:
                    meta.first_pass = meta.last_pass
                meta.added += 1
            finally:
                let_go(_accumulating)
        finally:
            let_go(_accumulating)

    def stopped(self, meta: Any) -> bool:
        """Whether the leaf does not require grad any more."""
        if self.variable._node is not None:
            raise RuntimeError("leaf variable has been moved into the graph interior")
        return not meta.requires_grad

    def tell_hooks(self, recorded: bool) -> None:
        """Call the post-accumulate hooks of the leaf. They are recorded exactly if the pass is, so
        that an optimizer may step in one."""
        hooks = list(self.variable._meta.post_hooks.values())
        with sealed(grad_enabled=recording_in(recorded)):
            results = [hook(self.variable) for hook in hooks]
        for result in results:
            if result is not None:
                raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")


def _own_tensor(g: Any) -> Any:
    """A copy of a gradient, with its history: others may hold the same tensor, and ``.grad`` is
    written in place later."""
    if type(g) in SPARSE:
        return g.clone()
    copied = copies.copy(wrap(copies.zeros_like(g._data)), g)
    if not isinstance(copied._data, Lifted):
        copied._data = arrays.copy(copied._data)
    return copied
