"""Shapes and dtypes that change where nothing is recorded: ``t_()`` under ``no_grad``, or
``x.data = y``.

The history of the tensor then is that of another shape or dtype. What was recorded before the
change and what is recorded after it must not be added up as if they were the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import _source
from retrograd.autograd._history import accumulator, edge, meta_of, move_retained, set_node
from retrograd.autograd._node import AccumulateGrad, CallableNode, Info, Node
from retrograd.autograd._operation_node import fit
from retrograd.autograd._passes import orders
from retrograd.autograd._versions import version_of


def note_change(tensor: Any, before: Info) -> None:
    """Tell the graph that ``tensor``, which had the shape and dtype ``before``, has others now.

    A result gets a node between the change and its history. A leaf gets a new end for gradients;
    the old end, which earlier graphs refer to, leads to it.
    """
    if (tensor._data.shape, tensor._data.dtype) == before:
        return
    if tensor._node is not None:
        view = None if tensor._meta is None else tensor._meta.view
        if view is not None and view.seen != version_of(tensor).count:
            return  # at its next use it takes its place in the graph of its base, as it is then
        node, number = edge(tensor)
        change = UnrecordedChangeBackward()
        change.place(node, number, before)
        move_retained(tensor, change)
        set_node(tensor, change)
        return
    ending = meta_of(tensor).ending
    old = None if ending is None else ending()
    if old is None:
        return
    meta = tensor._meta
    meta.ending = meta.accumulator = None
    new = accumulator(tensor)
    new.order, new.extras = old.order, old.extras  # older than all that may use the leaf
    old.__class__ = FormerLeaf
    # It may run before all gradients have arrived, and then runs again: it is linear.
    old.order = next(orders)
    old.next_nodes, old.extras = (new,), None


class UnrecordedChangeBackward(CallableNode):
    """Brings gradients of the tensor as it is to the shape and dtype that its history knows."""

    __slots__ = ("before",)

    before: Info

    def place(self, node: Node | None, number: int | None, before: Info) -> None:
        self.order = next(orders)
        self.next_nodes = (node,)
        self.saved = self.extras = None
        if number is not None:
            self.get_extras().next_numbers = (number,)
        self.before = before
        self.code, self.lasti = _source.user_place()

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        shape, dtype = self.before
        extra = len(g.shape) - len(shape)
        if extra < 0 or any(m not in (1, n) for m, n in zip(shape, g.shape[extra:], strict=True)):
            former = self.next_nodes[0]
            assert former is not None
            raise _mismatch(
                f"a gradient of shape {list(g.shape)} cannot be passed on to {former.name()}, "
                f"which made a tensor of shape {list(shape)}"
            )
        return (fit(g, shape, dtype),)

    backward_recorded = backward


class FormerLeaf(AccumulateGrad):
    """The end of a leaf as it was before the change. Its gradients go to the new end, if they have
    the shape of the leaf as it is."""

    __slots__ = ()

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def backward(
        self, g: Any, next_nodes: Sequence[Node | None], tell: bool = True
    ) -> Sequence[Any]:
        leaf = self.variable._data
        if tuple(g.shape) != tuple(leaf.shape):
            raise _mismatch(
                f"a gradient of shape {list(g.shape)} cannot be added to that of a leaf of shape "
                f"{list(leaf.shape)}"
            )
        return (fit(g, leaf.shape, leaf.dtype),)

    backward_recorded = backward


def _mismatch(what: str) -> RuntimeError:
    return RuntimeError(
        f"{what}: the shape was changed in place where nothing is recorded (under no_grad, or by "
        "assigning to .data). Change it outside of no_grad, or compute with a new tensor."
    )
