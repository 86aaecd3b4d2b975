"""Hints below the messages of common errors: the user's line, the cause, and what to do.

The messages stay PyTorch's, word for word; a hint is a note on the error, which a traceback shows
below it. Everything is worked out when an error is raised.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from retrograd import _source
from retrograd._modes import modes
from retrograd._source import Error, hinted
from retrograd.arrays import dtypes
from retrograd.autograd._explaining import _facts as facts
from retrograd.autograd._explaining._cuts import cuts_before, cuts_of
from retrograd.autograd._explaining._names import Names, is_module, variables_of
from retrograd.autograd._explaining._paths import in_order, reachable
from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.autograd._passes import Pass, recent


def names_here() -> Names:
    """The names of tensors in the user's code that is being run."""
    return Names(_source.user_frame(sys._getframe(1)))


def not_a_scalar(error: Error, output: Any, known: Any) -> Error:
    """For ``backward()`` of something that has more than one element, or none."""
    name = names_here().of(output) or "the tensor"
    shape = facts.shape_text(known.shape)
    call = f"{name if name.isidentifier() else 'loss'}"
    return hinted(
        error,
        f"{name} has shape {shape}. backward() starts from a single number.",
        to_do=f"reduce it first, {call}.mean().backward() or {call}.sum().backward(), or give the "
        f"weight of each element: {call}.backward(gradient=v), with v of shape {shape}.",
    )


def leaf_written(error: Error, tensor: Any) -> Error:
    """For a write to a leaf that requires grad."""
    meta = tensor._meta
    base = meta.view.base if meta is not None and meta.view is not None else tensor
    names = names_here()
    name = names.of(base) or "the tensor"
    return hinted(
        error,
        f"{name} is a leaf that requires grad. Recorded operations must not overwrite it.",
        to_do="to update it, write inside `with torch.no_grad():` (an optimizer does that); to "
        f"compute with a changed copy, take {name if name.isidentifier() else 'x'}.clone() first.",
    )


def of_integers(error: Error, dtype: Any) -> Error:
    """For integers that are to require grad. ``dtype``: the raw dtype."""
    name = dtypes.from_numpy_dtype(dtype).name
    return hinted(
        error,
        f"The tensor has dtype {name}. Integers and booleans have no derivatives.",
        to_do="write the numbers as 1.0, pass dtype=torch.float32, or call .float() first.",
    )


def without_history(error: Error) -> Error:
    """For ``backward()`` of a tensor that has no history: what cut it, or that nothing that it was
    computed from requires grad."""
    frame = _source.user_frame(sys._getframe(1))
    cuts = cuts_before(frame)
    if cuts:
        return hinted(error, *(cut.cause for cut in cuts), to_do=cuts[0].cure)
    if not modes.grad_enabled:
        return hinted(
            error,
            "Recording is switched off here: this runs in no_grad().",
            to_do="compute the loss outside of the no_grad() block.",
        )
    for name, value in variables_of(frame):
        parameters = list(value.parameters()) if is_module(value) else []
        if parameters and not any(p.requires_grad for p in parameters):
            return hinted(
                error,
                f"All parameters of {name} are frozen: requires_grad is False.",
                to_do=f"call {name}.requires_grad_(), or that of the layers you want to train.",
            )
    return hinted(
        error,
        "Nothing that it was computed from requires grad.",
        to_do="create the tensor whose gradient you want with requires_grad=True.",
    )


def not_used(error: Error, outputs: Sequence[Any], target: Any) -> Error:
    """For a gradient by something that a result was not computed from."""
    names = names_here()
    of, by = names.of(outputs[0]) if outputs else None, names.of(target)
    if of is None or by is None:
        return error
    cuts = cuts_of(names.frame, of, target)
    if not cuts:
        return hinted(error, f"{of} was not computed from {by}, as far as its graph shows.")
    return hinted(error, *(cut.cause for cut in cuts), to_do=cuts[0].cure)


def no_parameters(error: Error) -> Error:
    """For an optimizer without parameters: a Module whose parts are in a plain list, if there is
    one."""
    for plain in names_here().unregistered():
        return hinted(error, plain.sentence, to_do=f"{plain.cure}.")
    return hinted(
        error,
        to_do="pass the parameters of a Module, model.parameters(). Modules in a plain list are "
        "not found: use nn.ModuleList. A generator of parameters can be used only once.",
    )


# -- a second pass through a graph ---------------------------------------------------------------


def second_backward(error: Error, node: Node, roots: Sequence[Node]) -> Error:
    """For a pass that came to a node whose values an earlier pass has freed: which pass that was,
    and how this one got there."""
    first = _freed_by(node, roots)
    if first is None:
        return error
    where = first.line
    if any(root.order == first.root for root in roots):
        return hinted(
            error,
            f"The graph was used, and freed, by the first backward at {where}",
            to_do="compute the loss again before this call. If both passes are meant to use the "
            "same graph, call the first with retain_graph=True.",
        )
    nodes = in_order(reachable(roots))
    crossing = _crossing(nodes, first)
    if crossing is None:
        return hinted(
            error,
            f"The two losses share {facts.operation_name(node)}{facts.at(node)}",
            f"Its values were freed by the first backward at {where}",
            to_do="add the losses and call backward once, (loss1 + loss2).backward(), or call the "
            "first with retain_graph=True.",
        )
    user, old = crossing
    made = facts.at(old).lstrip()
    places = {(n.code, n.lasti) for n in nodes if n.order < first.began}
    names = names_here()
    if (old.code, old.lasti) in places:  # the same line made one of this graph too: a loop
        name = _made_at(old, names)
        return hinted(
            error,
            f"{name or 'A tensor'} is carried over from before the first backward, at {where}",
            f"It was made {made}",
            f"and is used again by {facts.operation_name(user)}{facts.at(user)}",
            to_do=f"cut its history where the next step begins: {name or 'h'} = "
            f"{name or 'h'}.detach(). With retain_graph=True each pass would go through all steps "
            "so far.",
        )
    name = _held(old, names)
    return hinted(
        error,
        f"{name or 'A tensor'} was computed once, {made}",
        f"and its graph was used, and freed, by the first backward at {where}",
        to_do="compute it again for each backward: move that line into the loop. If it needs no "
        f"gradient, use {name or 'x'}.detach().",
    )


def _freed_by(node: Node, roots: Sequence[Node]) -> Pass | None:
    """The pass that freed a node, if that is certain: passes that began at something older cannot
    have come to it."""
    started = [p for p in recent() if p.root <= node.order and p.frees]
    same = [p for p in started if any(p.root == root.order for root in roots)]
    matches = (same or started)[:1]
    lines = {p.line for p in (same or started)}
    return matches[0] if matches and (same or len(lines) == 1) else None


def _crossing(nodes: list[Node], first: Pass) -> tuple[Node, Node] | None:
    """An edge from a node recorded after a pass to a node recorded before it."""
    for user in nodes:
        if user.order < first.began:
            for old in user.next_nodes:
                if old is not None and old.order > first.began and not _is_leaf(old):
                    return user, old
    return None


def _is_leaf(node: Node) -> bool:
    return isinstance(node, AccumulateGrad) or not node.next_nodes


def _made_at(old: Node, names: Names) -> str | None:
    """The variable whose tensor was made by the line that made a node, in a later step."""
    for name, tensor in names.tensors:
        node = tensor._node
        if node is not None and (node.code, node.lasti) == (old.code, old.lasti):
            return name
    return None


def _held(node: Node, names: Names) -> str | None:
    """The variable whose tensor a node made."""
    return next((name for name, tensor in names.tensors if tensor._node is node), None)
