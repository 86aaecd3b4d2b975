"""Views and in-place writes: how the graph follows memory that several tensors share.

A view remembers its base. A write through either bumps the version counter that both share. A
write to the base gives the base a new node; a write through a view gives the base a ``CopySlices``
node, which knows that only the viewed part has a new history. Views find out by comparing version
counts when they are next used, and then take their place in the base's new graph.
"""

from __future__ import annotations

import weakref
from _thread import RLock
from collections.abc import Sequence
from typing import Any

from retrograd import _source, arrays
from retrograd._modes import free_in_forks, modes, within
from retrograd.autograd._levels import keep_up
from retrograd.autograd._node import (
    AMBIGUOUS,
    FREED,
    NOWHERE,
    SECOND_BACKWARD,
    AccumulateGrad,
    CallableNode,
    Extras,
    Node,
)
from retrograd.autograd._operation_node import OperationNode, run_rules
from retrograd.autograd._passes import Entry, orders
from retrograd.autograd._versions import version_of
from retrograd.ops import copies, linear, piecewise
from retrograd.ops._lifted import Lifted, memory_of


class View:
    """What a view knows: its base, and how the view was taken."""

    __slots__ = ("base", "created", "part", "seen")

    def __init__(self, base: Any, created: str, seen: int) -> None:
        self.base = base
        self.created = created  # "plainly", or why it must not be written in place: see below
        self.seen = seen  # the version for which the view's node holds
        self.part: Any = None  # of its base, where memory does not tell: under transforms


class Meta:
    """State that plain results do not need: of leaves that require grad, views, one of several
    outputs, and results that retain their gradient."""

    __slots__ = ("accumulator", "added", "ending", "first_pass", "grad", "hooks", "inference",
                 "last_pass", "number", "post_hooks", "requires_grad", "retains", "seen",
                 "view")  # fmt: skip

    def __init__(self) -> None:
        self.requires_grad = False
        self.number: int | None = None  # which output of its node, where that has several
        self.grad: Any = None
        self.added = 0  # how many passes have added to it since it was set, or zeroed in place
        self.seen = 0  # the version of it after the last of them, if it has one
        # The node of this tensor as a leaf. Weak, because the node refers to its leaf: what keeps
        # the node alive is the graphs that it is part of.
        self.ending: weakref.ref[AccumulateGrad] | None = None
        # The same as long as it holds whatever happens: not while the leaf does not require grad,
        # nor for a view, which may cease to be a leaf when its base is written.
        self.accumulator: weakref.ref[AccumulateGrad] | None = None
        self.view: View | None = None
        self.hooks: Any = None  # of a leaf; those of a result are with its node
        self.post_hooks: Any = None
        self.retains = False
        self.inference = False


    # The first and the last of the passes that have added to ``grad``, once one has.
    first_pass: Entry
    last_pass: Entry


def meta_of(tensor: Any) -> Meta:
    """The meta of a tensor, created if it has none."""
    if tensor._meta is None:
        tensor._meta = Meta()
    meta: Meta = tensor._meta
    return meta


def accumulator(tensor: Any) -> AccumulateGrad:
    """The AccumulateGrad node of a leaf. It is the same node as long as any graph uses it."""
    # As in ``let_go``, inlined because this runs for every leaf.
    try:
        try:
            _acquire()  # threads that use a leaf at once must get the same node
            meta: Meta = tensor._meta
            node: AccumulateGrad | None = meta.ending() if meta.ending is not None else None
            if node is None:
                node = AccumulateGrad(tensor)
                meta.ending = weakref.ref(node)
            if meta.view is None:
                meta.accumulator = meta.ending
            return node
        finally:
            if _is_held():
                _release()
    finally:
        if _is_held():
            _release()


_making_accumulators: Any = RLock()
free_in_forks(_making_accumulators)
_is_held, _acquire, _release = (
    _making_accumulators._is_owned, _making_accumulators.acquire, _making_accumulators.release
)  # fmt: skip


def origin(tensor: Any) -> Node | None:
    """The node that a tensor's gradient goes to, or None. ``_number`` says which output of it.

    Only for tensors with a meta; for all others it is their ``_node``.
    """
    meta: Meta = tensor._meta
    node: Node | None
    if meta.accumulator is not None:  # a leaf that was used before: the most frequent case
        node = meta.accumulator()
        if node is not None:
            return node
    if meta.view is not None:
        refresh(tensor, meta.view)
    node = tensor._node
    if node is not None:
        return node
    if meta.requires_grad:
        return accumulator(tensor)
    return NOWHERE if meta.view is not None and meta.view.base.requires_grad else None


def edge(tensor: Any) -> tuple[Node | None, int | None]:
    """The node that a tensor's gradient goes to, and the number of its output; None if it has only
    one."""
    if tensor._meta is None:
        return tensor._node, None
    return origin(tensor), tensor._meta.number


# -- views -----------------------------------------------------------------------------------


def become_view(result: Any, of: Any, created: str) -> None:
    """Make ``result``, which shares memory with ``of``, a view of the base of ``of``. As in
    PyTorch, tensors made in inference mode do not track their views."""
    meta = meta_of(result)
    source: Meta | None = of._meta
    if source is not None and source.inference and source.view is None:
        meta.inference = True
        return
    version = version_of(of)
    result._version_counter = version
    base = of
    if source is not None:
        meta.inference = source.inference
        if source.view is not None:
            base = source.view.base
            if created == "plainly":
                created = source.view.created
    meta.view = View(base, created, version.count)


def refresh(tensor: Any, view: View) -> None:
    """Give a view whose memory was written a node in its base's new graph."""
    now = tensor._version_counter.count
    if view.seen == now:
        return
    if isinstance(view.base._data, Lifted):
        keep_up(tensor)
        view = tensor._meta.view
    base_node, base_number = edge(view.base)
    if base_node is None and tensor._node is None:
        return
    if view.created != "plainly":
        raise forbidden_write(tensor, view, directly=False)
    if view.part is not None:
        view.part.check(view.base, tensor)
        node: Any = view.part.again(view.base)._node
    elif copies.is_complex(view.base) != copies.is_complex(tensor):
        node = Positions(view.base, tensor).again(view.base)._node
    else:
        node = _picking(view.base, base_node, base_number, tensor)
    move_retained(tensor, node)
    set_node(tensor, node)
    view.seen = now


def _picking(base: Any, base_node: Any, base_number: int | None, tensor: Any) -> OperationNode:
    """A node that selects the elements of a view from its base."""
    node: OperationNode = linear.take_flat.node_class()
    node.order = next(orders)
    node.next_nodes = (base_node,)
    node.saved = None
    node.extras = None
    if base_number is not None:
        node.get_extras().next_numbers = (base_number,)
    node.options = {"positions": arrays.positions(base._data, tensor._data)}
    node.infos = ((base._data.shape, base._data.dtype),)
    node.outputs = None
    node.code, node.lasti = _source.user_place()
    return node


_WHY_FORBIDDEN = {
    "no_grad": AMBIGUOUS,
    "inference": (
        "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
        "your code by moving both the view and the inplace either both inside the inference_mode "
        "block (if you don't want the inplace to be tracked) or both outside (if you want the "
        "inplace to be tracked)."
    ),
    "multi_output": (
        "This view is the output of a function that returns multiple views. Such functions do not "
        "allow the output views to be modified inplace. You should replace the inplace operation "
        "by an out-of-place one."
    ),
    "custom": (
        "This view was created inside a custom Function (or because an input was returned as-is) "
        "and the autograd logic to handle view+inplace would override the custom backward "
        "associated with the custom Function, leading to incorrect gradients. This behavior is "
        "forbidden. You can fix this by cloning the output of the custom Function."
    ),
}


def forbidden_write(tensor: Any, view: View, directly: bool) -> RuntimeError:
    """The error for an in-place write, through the view or past it, that cannot be recorded."""
    what = "is being" if directly else "its base or another view of its base has been"
    node = tensor._node
    maker = ""
    if node is not None:
        name = node.name().removesuffix("0").replace("Backward", "")
        maker = f"Output {tensor._number or 0} of {name} is a view"
    if view.created in ("no_grad", "inference") or node is None:
        maker = f"{maker} of a view which was" if maker else "A view was"
        if view.created == "inference":
            story = f"{maker} created in inference mode and {what} modified inplace in normal mode."
        else:
            story = f"{maker} created in no_grad mode and {what} modified inplace "
            story += "with grad mode enabled."
    else:
        story = f"{maker} and {what} modified inplace."
    return RuntimeError(f"{story} {_WHY_FORBIDDEN[view.created]}")


# -- in-place writes -------------------------------------------------------------------------


def check_write(tensor: Any, others_require_grad: bool) -> bool:
    """Whether a write to ``tensor`` will be recorded; RuntimeError if it must not happen."""
    meta = tensor._meta
    others_require_grad &= arrays.dtypes.has_derivative(tensor._data.dtype)
    if meta is not None and meta.inference and not modes.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make "
            "a clone to get a normal tensor before doing inplace update.See "
            "https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    view = meta.view if meta is not None else None
    if modes.records and (requires_grad := tensor.requires_grad or others_require_grad):
        if view is not None:
            if view.created != "plainly":
                raise forbidden_write(tensor, view, directly=True)
            if tensor.requires_grad and view.base.is_leaf:
                raise leaf_error("a view of a leaf", tensor)
        elif tensor.requires_grad and tensor.is_leaf:
            raise leaf_error("a leaf", tensor)
        if modes.before_mutation is not None:
            modes.before_mutation(tensor)
        return requires_grad
    if modes.before_mutation is not None:
        modes.before_mutation(tensor)
    if not isinstance(tensor._data, arrays.ndarray):
        tensor._data = arrays.writable(tensor._data)
    return False


def leaf_error(what: str, tensor: Any) -> RuntimeError:
    from retrograd.autograd._explaining._hints import leaf_written

    return leaf_written(
        RuntimeError(f"{what} Variable that requires grad is being used in an in-place operation."),
        tensor,
    )


def rebase(tensor: Any, node: Node, number: int | None = None, place: int = 0) -> None:
    """Make ``node``, which recorded a write to ``tensor``, its history from now on: output
    ``number`` of it, where it has several. ``place``: which of the node's inputs was written."""
    view = tensor._meta.view if tensor._meta is not None else None
    if view is None:
        move_retained(tensor, node, number)
        set_node(tensor, node)
        tensor._number = number
        return
    base = view.base
    copy_slices = CopySlices(base, tensor, node, place)
    move_retained(base, copy_slices)
    set_node(base, copy_slices)
    view.seen = -1
    refresh(tensor, view)


def set_node(tensor: Any, node: Node | None) -> None:
    """Make ``node`` the history of a tensor, which is its only output."""
    tensor._node = node
    meta = tensor._meta
    if meta is not None:
        meta.number = meta.accumulator = None


def move_retained(tensor: Any, node: Node, number: int | None = None) -> None:
    """``retain_grad`` applies to the latest version of a tensor, so it moves to the new node."""
    if tensor._meta is None or not tensor._meta.retains:
        return
    old: Node | None = tensor._node  # None after detach_()
    if old is not None and old.extras is not None and old.extras.retained:
        old.extras.retained.pop(tensor._number or 0, None)
    extras = node.extras_for_visit()
    extras.retained = {**(extras.retained or {}), number or 0: weakref.ref(tensor)}


Layout = tuple[tuple[int, ...], tuple[int, ...]]


def layout_of(x: Any) -> Layout:
    """How a value lies in memory."""
    result = memory_of(x)
    return result.shape, result.strides


def check_layout(layout: Layout, base: Any) -> None:
    """RuntimeError if a base was given another shape since it was known which part a view is."""
    if layout != layout_of(base):
        raise RuntimeError(
            "A view is written, or used after a write, whose base was given another shape in "
            "place. Under transforms that is not supported: take the view afterwards."
        )


class PartOfBase:
    """Which part of its base a view is: how to take the same of another value."""

    __slots__ = ("layout", "shape")

    layout: Layout  # of the base
    shape: tuple[int, ...]  # of what the part is taken of

    def take(self, x: Any) -> Any:
        """The same part of another value, such as a gradient."""
        raise NotImplementedError

    def again(self, base: Any) -> Any:
        """The part of the base as that is now, and recorded."""
        with within(grad_enabled=True):
            return self.take(base)

    def check(self, base: Any, view: Any) -> None:
        """RuntimeError if the base has another shape by now."""
        check_layout(self.layout, base)


class Positions(PartOfBase):
    """A part by the offsets of its elements; between complex and real numbers, by the offsets of
    real and imaginary parts."""

    __slots__ = ("positions", "splits")

    before = None  # as ``_parts.Part`` has it: this is a first step

    def __init__(self, base: Any, view: Any) -> None:
        whole, part = base._data, view._data
        # Whether the base and whether the view is complex; None if both or none are.
        self.splits: tuple[bool, bool] | None = (copies.is_complex(whole), copies.is_complex(part))
        if self.splits == (True, False):
            whole = arrays.view_as_real(whole)
        elif self.splits == (False, True):
            part = arrays.view_as_real(part)
        else:
            self.splits = None
        self.shape = tuple(whole.shape)
        self.layout = layout_of(base)
        self.positions = arrays.positions(whole, part)

    def take(self, x: Any) -> Any:
        if self.splits is None:
            return linear.take_flat(x, positions=self.positions)
        if self.splits[0]:
            x = linear.view_as_real(x)
            return x if self._is_all() else linear.take_flat(x, positions=self.positions)
        if not self._is_all():
            x = linear.take_flat(x, positions=self.positions)
        return linear.view_as_complex(x)

    def _is_all(self) -> bool:
        """Whether the part is the base, but for the dtype."""
        return self.positions.shape == self.shape and arrays.is_counting(self.positions)

    def back(self, g: Any) -> Any:
        """Zeros but for the part: the transpose of taking it."""
        if self.splits == (False, True):
            g = linear.view_as_real(g)
        result = linear.add_flat(g, shape=self.shape, positions=self.positions)
        return linear.view_as_complex(result) if self.splits == (True, False) else result

    step, step_back = take, back

    def elsewhere(self, x: Any) -> Any:
        """A value with zeros in place of the part."""
        inside = arrays.put_flat(arrays.zeros(self.shape, arrays.bool_), self.positions, True)
        split = self.splits == (True, False)
        return outside_of_complex(inside, x) if split else outside(inside, x)


def outside(inside: Any, x: Any) -> Any:
    """``x``, with zeros inside."""
    return piecewise.where(inside, copies.zeros_like(x), x)


def outside_of_complex(inside: Any, x: Any) -> Any:
    """The same for a complex ``x``, where ``inside`` is about real and imaginary parts."""
    return linear.view_as_complex(outside(inside, linear.view_as_real(x)))


class CopySlices(CallableNode):
    """The history of a base after a write to a view: gradients of the view's elements go to the
    node of the write, all others to the old history."""

    __slots__ = ("part", "place", "recorded", "write")

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def __init__(self, base: Any, view: Any, write: Node, place: int = 0) -> None:
        self.place = place  # which input of the write was written, by the base's gradient
        self.recorded = False  # whether there may be a graph that leads to the write by itself
        base_node, base_number = edge(base)
        self.order = next(orders)
        self.next_nodes = (base_node, *without(write.next_nodes, place))
        self.saved = None
        self.extras: Extras | None = None
        self.extras_for_visit()  # its release goes to the write
        write_numbers = write.extras.next_numbers if write.extras else None
        if base_number is not None or write_numbers is not None:
            numbers = write_numbers or (None,) * len(self.next_nodes)
            self.get_extras().next_numbers = (base_number, *without(numbers, place))
        self.write = write
        self.part = view._meta.view.part or Positions(base, view)
        self.code, self.lasti = write.code, write.lasti

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """As for every node, without what has no derivative by its nature (the indices of a
        scatter)."""
        pairs = super().next_functions
        operation = getattr(self.write, "operation", None)
        if operation is None or operation.joint:
            return pairs
        rest = zip(pairs[1:], operation.rules[1:], strict=True)
        return (pairs[0], *(pair for pair, rule in rest if rule))

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        return self._through_write(g, next_nodes, recorded=False)

    def backward_recorded(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        self.recorded = True  # its rules may have used its own result
        return self._through_write(g, next_nodes, recorded=True)

    def _through_write(
        self, g: Any, next_nodes: Sequence[Node | None], recorded: bool
    ) -> Sequence[Any]:
        if self.saved is FREED:
            raise RuntimeError(SECOND_BACKWARD)
        written, place = self.part.take(g), self.place
        in_order = (*next_nodes[1 : place + 1], next_nodes[0], *next_nodes[place + 1 :])
        inner = run_rules(self.write, written, in_order, recorded)
        if next_nodes[0] is None:
            return (None, *without(inner, place))
        base_grad = self.part.elsewhere(g)
        if inner[place] is not None:
            base_grad = base_grad + self.part.back(inner[place])
        return (base_grad, *without(inner, place))

    def release(self) -> None:
        if not self.recorded:
            self.write.release()
        self.saved = FREED  # the write counts as a saved value, as in PyTorch


def without(values: Sequence[Any], place: int) -> tuple[Any, ...]:
    """All values except the one at a position."""
    return (*values[:place], *values[place + 1 :])
