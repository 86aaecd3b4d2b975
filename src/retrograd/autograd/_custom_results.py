"""Turns the return values of a custom ``forward`` into results of its node.

An output may be new, a view of something, an input as it was, or an input that was written. For
each of these the graph goes on in another way. What was saved is kept such that the node does not
refer to its own outputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd._modes import modes
from retrograd.autograd._history import (
    View,
    edge,
    forbidden_write,
    leaf_error,
    meta_of,
    rebase,
    set_node,
)
from retrograd.autograd._node import AccumulateGrad, Node, Nowhere, orders
from retrograd.autograd._saved import pack_value
from retrograd.autograd._versions import UNCHANGING, Version, version_of
from retrograd.autograd._wrap import Plug, wrap

Edge = tuple[Node | None, int | None]


class Marks(NamedTuple):
    """What ``forward`` said about tensors. It is taken off the ctx before the outputs refer to
    that: otherwise each would keep the other alive."""

    to_save: tuple[Any, ...] | None
    dirty: tuple[Any, ...]
    constant: tuple[Any, ...]

    @classmethod
    def take(cls, ctx: Any) -> Marks:
        marks = cls(ctx.to_save, ctx.dirty_tensors, ctx.non_differentiable)
        ctx.to_save = None
        ctx.dirty_tensors = ctx.non_differentiable = ()
        return marks


def is_in(tensor: Any, others: Sequence[Any]) -> bool:
    """Whether a tensor is one of some others, and not just equal to one."""
    return any(tensor is other for other in others)


def connect(ctx: Any, args: tuple[Any, ...], edges: Sequence[Edge]) -> None:
    """Give the node its inputs: ``edges`` of the tensors among ``args``."""
    ctx.order = next(orders)  # after the edges: a node is newer than those its inputs came from
    ctx.next_nodes = tuple(node for node, _ in edges)
    if any(number is not None for _, number in edges):
        ctx.get_extras().next_numbers = tuple(number for _, number in edges)
    ctx.input_infos = tuple(
        (a._data.shape, a._data.dtype) if t else None
        for a, t in zip(args, ctx.is_tensor, strict=True)
    )


def finish(
    ctx: Any, marks: Marks, tensors: list[Any], outputs: tuple[Any, ...], recorded: bool
) -> tuple[Any, ...]:
    """The outputs as results of the node."""
    for dirty in marks.dirty:
        if not is_in(dirty, outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
    several = len(outputs) > 1
    if recorded:
        ctx.output_infos = tuple(
            (o._data.shape, o._data.dtype) if isinstance(o, Plug.tensor) else ((), None)
            for o in outputs
        )
        ctx.outputs = ctx.output_infos if several else None
    ctx.dirty_places = tuple(i for i, t in enumerate(tensors) if is_in(t, marks.dirty))
    moving = [recorded and _can_move(o, marks) for o in outputs]
    results = tuple(
        _one_output(ctx, o, marks, tensors, i if several else None, moves)
        for i, (o, moves) in enumerate(zip(outputs, moving, strict=True))
    )
    for result in results:
        if isinstance(result, Plug.tensor) and not is_in(result, marks.dirty):
            _mark_view(result, "multi_output" if sum(moving) > 1 else "custom")
    return results


def _can_move(output: Any, marks: Marks) -> bool:
    return (
        isinstance(output, Plug.tensor)
        and arrays.dtypes.has_derivative(output._data.dtype)
        and not is_in(output, marks.constant)
    )


def _one_output(
    ctx: Any, output: Any, marks: Marks, tensors: list[Any], number: int | None, moves: bool
) -> Any:
    if not isinstance(output, Plug.tensor):
        return output
    given = is_in(output, tensors)
    if is_in(output, marks.dirty):
        version_of(output).bump()
        if moves:
            place = next((i for i, t in enumerate(tensors) if t is output), None)
            before = output._node if place is None else ctx.next_nodes[place]
            _check_dirty(output, before, given, ctx.outputs is not None)
            rebase(output, ctx, number, place or 0)
        elif output.requires_grad:
            return output.detach()
        return output
    if given:
        if not moves and output.requires_grad:
            return output.detach()
        output = _view_of_all(output)
    elif not moves and output._node is not None and not _is_view(output):
        output = output.detach()  # recorded inside of forward, but a constant outside
    if moves:
        set_node(output, ctx)
        output._number = number
    return output


def _view_of_all(tensor: Any) -> Any:
    """What is returned for an input that is returned as it was: a view, with our own backward."""
    tensor._data = arrays.writable(tensor._data)
    view = wrap(tensor._data, version=version_of(tensor))
    base = tensor if tensor._base is None else tensor._base
    meta_of(view).view = View(base, "custom", view._version_counter.count)
    return view


def _is_view(tensor: Any) -> bool:
    return tensor._meta is not None and tensor._meta.view is not None


def _mark_view(result: Any, created: str) -> None:
    """Note that a view came out of a custom operation. Its node holds for its memory as it is now:
    ``forward`` may have written that after the view was taken."""
    if _is_view(result):
        view = result._meta.view
        view.created = created
        view.seen = version_of(result).count


def _check_dirty(tensor: Any, before: Node | None, given: bool, several: bool) -> None:
    """RuntimeError if a write by ``forward`` cannot be recorded. ``before``: the node that the
    tensor's gradient went to."""
    if isinstance(before, (AccumulateGrad, Nowhere)):
        raise RuntimeError(
            "a leaf Variable that requires grad has been used in an in-place operation."
        )
    if not given:
        warnings.warn(
            "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, "
            "there is no need to pass it to mark_dirty().",
            stacklevel=7,
        )
    if not _is_view(tensor):
        return
    view = tensor._meta.view
    if several:
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your "
            "Function cannot return more than one Tensor. This is not supported by the current "
            "autograd engine. You should either make sure the input is not a view (using .clone() "
            "for example) or make your Function only return one Tensor (potentially splitting it "
            "into two Functions: one doing the inplace that returns a single Tensor and a second "
            "one that does the other operations). You can ask on the forum "
            "https://discuss.pytorch.org/ if you need help to do this change."
        )
    if view.created != "plainly":
        raise forbidden_write(tensor, view, directly=True)
    if before is not None and view.base.is_leaf:
        raise leaf_error("a view of a leaf", tensor)


def save(
    ctx: Any, marks: Marks, tensors: list[Any], outputs: tuple[Any, ...], results: Any
) -> None:
    """Keep what ``save_for_backward`` was given. Outputs are kept as bare arrays, so that the node
    does not refer to what refers to it."""
    if marks.to_save is None:
        return
    hooks = modes.saved_tensor_hooks[-1] if modes.saved_tensor_hooks else None
    entries: list[tuple[Any, Version, int, int | None, Any]] = []
    for i, t in enumerate(marks.to_save):
        if t is None:
            entries.append((None, UNCHANGING, 0, None, None))
            continue
        if not isinstance(t, Plug.tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {i} is of type "
                f"{type(t).__name__}"
            )
        number = next((i for i, o in reversed(list(enumerate(outputs))) if o is t), None)
        if number is not None and (is_in(t, marks.dirty) or not is_in(t, tensors)):
            result = results[number]
            version, kept = version_of(result), wrap(t._data)
            number = number if result._node is ctx else -1
        else:
            version, kept, number = version_of(t), t, None
        if hooks is None:
            entries.append((kept, version, version.count, number, None))
        else:
            origin = edge(t) if number is None else None
            entries.append((pack_value(kept, *hooks), UNCHANGING, 0, number, origin))
    ctx.saved = tuple(entries)
