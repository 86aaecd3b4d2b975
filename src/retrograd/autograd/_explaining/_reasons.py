"""Reasons for the value of ``.grad``: facts, likely causes, and what to do."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from retrograd import _source, arrays
from retrograd._modes import modes
from retrograd.arrays import dtypes
from retrograd.autograd._explaining import _facts as facts
from retrograd.autograd._explaining._amounts import amount_of
from retrograd.autograd._explaining._cuts import Cut, cuts_of
from retrograd.autograd._explaining._names import Names
from retrograd.autograd._explaining._pass import Measured
from retrograd.autograd._explaining._paths import Paths, in_order, reachable
from retrograd.autograd._history import edge
from retrograd.autograd._node import FREED, AccumulateGrad, Node
from retrograd.autograd._passes import Pass

ADDED_UP = "backward() adds to .grad; it never replaces what is there."


@dataclass
class Finding:
    """A reason and the evidence for it."""

    reason: str = ""
    because: str = ""  # ends the sentence that begins with ".grad is None"
    known: list[str] = field(default_factory=list)
    likely: list[str] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)


class Case:
    """A tensor whose gradient is asked about, and the loss that it is of, if one was named."""

    def __init__(self, tensor: Any, name: str, losses: tuple[Any, ...], loss: str, names: Names):
        self.tensor, self.name, self.names = tensor, name, names
        self.losses, self.loss = losses, loss
        self.grad = facts.grad_of(tensor)
        self.node: Node | None  # where its gradient goes; None: nowhere, or no graph uses it
        meta = tensor._meta
        if tensor.grad_fn is not None:
            self.node = tensor._node
        elif any(loss is tensor for loss in losses):
            self.node = edge(tensor)[0]
        elif meta is not None and meta.requires_grad and meta.ending is not None:
            self.node = meta.ending()  # not ``edge``, which would make one
        else:
            self.node = None

    @property
    def number(self) -> int | None:
        number: int | None = self.tensor._number
        return number

    def say(self, text: str, **more: Any) -> str:
        """A sentence with names in it. Lines of code come in ``more``: they may have braces."""
        return text.format(x=self.name, loss=self.loss, **more)


# -- from the tensor alone -------------------------------------------------------------------


def about_tensor(case: Case) -> Finding:
    """Why ``.grad`` is None, as far as the tensor itself tells."""
    tensor = case.tensor
    if not tensor.requires_grad:
        return _without_grad(case)
    if tensor._node is not None:
        return _result(case)
    if not tensor._meta.requires_grad:
        return _view_of_nothing(case)
    return _leaf(case)


def _without_grad(case: Case) -> Finding:
    tensor, names = case.tensor, case.names
    result = Finding("requires_grad_is_false", case.say("{x} does not require grad."))
    dtype = dtypes.from_numpy_dtype(tensor._data.dtype)
    if tensor._data.dtype.kind not in dtypes.INEXACT:
        result.reason = "not_floating"
        result.known.append(
            f"It holds {dtype.name}. Only floating point and complex tensors can require grad."
        )
        result.todo.append(case.say("Convert it first: {x} = {x}.float().requires_grad_()"))
        return result
    if tensor.is_inference():
        result.known.append("It was made in inference_mode, where nothing is recorded.")
    for name, other in facts.shared_with(tensor, names)[:1]:
        made = f", the result of {facts.operation_name(other._node)}" if other._node else ""
        result.known.append(
            f"It shows the same memory as {name}{made}, which requires grad, but without its "
            "history: detach(), .data and no_grad do that."
        )
    used = _uses(case) if case.losses else []
    result.known.extend(used)
    cuts = cuts_of(names.frame, case.name)
    if cuts:
        result.known = [*(cut.cause for cut in cuts), *used]
        result.todo.extend(cut.cure for cut in cuts)
        return result
    if not result.known:
        result.likely.append(
            "it was made without requires_grad=True, by detach(), or in a no_grad() block."
        )
    result.todo.append(
        case.say("Call {x}.requires_grad_() before it is used, or make it in grad mode.")
    )
    return result


def _result(case: Case) -> Finding:
    tensor, node = case.tensor, case.tensor._node
    made = f"{facts.operation_name(node)}{facts.at(node)}"
    version = tensor._version_counter
    result = Finding("not_a_leaf", case.say("{x} is not a leaf."))
    if tensor.retains_grad:
        result = Finding("not_yet", "no gradient has come to it.")
        result.known.append(
            case.say("{x} is the result of {made}. It retains its gradient.", made=made)
        )
        result.likely.append("backward() was not called after retain_grad().")
        return result
    if version is not None and version.count and version.written_at == (node.code, node.lasti):
        result.known.append(case.say("{x} was overwritten in place, by {made}", made=made))
    else:
        result.known.append(case.say("{x} is the result of {made}", made=made))
    result.known.append("Only leaves keep their gradient; a result does after retain_grad().")
    leaf = facts.only_reshaped(node)
    came_from = facts.leaves(reachable([node]), case.names)
    if leaf is not None:
        result.known.append(
            f"It holds the values of {came_from[0]} in another shape or dtype, but is another "
            f"tensor: gradients go to {came_from[0]}, and that is what an optimizer must hold."
        )
    elif came_from:
        result.known.append(f"Gradients flow through it to {facts.name_list(came_from)}.")
    result.todo.append(case.say("Call {x}.retain_grad() before backward(), or"))
    result.todo.append(case.say("use torch.autograd.grad({loss}, {x})."))
    return result


def _view_of_nothing(case: Case) -> Finding:
    return Finding(
        "view_in_no_grad",
        case.say("{x} is a view that was taken in a no_grad() block."),
        ["What is done with it is recorded, but its gradient goes nowhere."],
        todo=["Take the view in grad mode."],
    )


def _leaf(case: Case) -> Finding:
    result = Finding("unknown", "")
    meta = case.tensor._meta
    if meta.ending is None:
        result.reason, result.because = "never_used", case.say("nothing recorded has used {x}.")
        result.known.append(case.say("{x} is a leaf that requires grad."))
        result.likely.append(
            case.say("the model does not use {x}, or uses a copy of it, or runs in no_grad().")
        )
    elif case.node is None:
        result.because = case.say("no graph that still exists leads to {x}.")
        result.known.append(case.say("{x} is a leaf that requires grad, and was used before."))
        result.likely.append("it was set to None since, as optimizer.zero_grad() does, or")
        result.likely.append("backward() was not called while the loss was there, or with inputs=.")
    else:
        result.because = "nothing has been accumulated."
        result.known.append(case.say("{x} is a leaf that requires grad, and a graph uses it."))
        result.likely.append("backward() was not called yet, or")
        result.likely.append(".grad was set to None since, as optimizer.zero_grad() does.")
        result.todo.append(case.say("To know more, name the loss: explain({x}, loss)"))
    result.known.extend(hooks(case))
    return result


def hooks(case: Case) -> list[str]:
    """What is known of hooks that may have had a hand in it."""
    meta, result = case.tensor._meta, []
    for registered, what in (
        (meta.post_hooks, "is called when .grad is written, and may set it to None"),
        (meta.hooks, "may change its gradient"),
    ):
        for hook in (registered or {}).values():
            code = getattr(hook, "__code__", None)
            where = f" at {_source.short(_source.describe((code, 0)))}" if code is not None else "."
            name = getattr(hook, "__name__", type(hook).__name__)
            result.append(f"A hook {what}: {name}{where}")
    return result


# -- with a loss -----------------------------------------------------------------------------


def about_cut_loss(case: Case) -> Finding:
    """For a loss that has no history at all."""
    loss = case.losses[0]
    result = Finding("loss_is_cut", case.say("{loss} does not require grad, so it leads nowhere."))
    cuts = _source_cuts(case)
    if cuts:
        result.known.extend(cut.cause for cut in cuts)
        result.todo.extend(cut.cure for cut in cuts)
        return result
    if loss._data.dtype.kind not in dtypes.INEXACT:
        name = dtypes.from_numpy_dtype(loss._data.dtype).name
        result.known.append(case.say("{loss} holds {kind}, which has no gradient:", kind=name))
        result.known.append("comparisons, argmax() and conversions to int end a graph.")
    for name, _ in facts.shared_with(loss, case.names)[:1]:
        result.known.append(
            case.say("{loss} shows the memory of " + name + ", without its history.")
        )
    if loss.is_inference():
        result.known.append(case.say("{loss} was made in inference_mode."))
    if not modes.grad_enabled:
        result.known.append("Recording is switched off right now: this runs in no_grad().")
    if not case.tensor.requires_grad:
        result.known.append(case.say("{x} does not require grad either."))
    if not result.known:
        result.likely.append(
            case.say(
                "{loss} was computed in no_grad(), with detach(), .item() or NumPy, or of "
                "tensors none of which required grad at the time."
            )
        )
    result.todo.append(case.say("Look at .requires_grad of what {loss} is made of, line by line."))
    return result


def about_unconnected(case: Case, roots: list[Node]) -> Finding:
    """For a tensor that requires grad, and a loss that does not lead to it."""
    result = Finding("not_connected", case.say("{loss} does not lead to {x}."))
    nodes = in_order(reachable(roots))
    reached = facts.leaves(nodes, case.names)
    if reached:
        result.known.append(case.say("{loss} leads to {these}.", these=facts.name_list(reached)))
    else:
        result.known.append(case.say("{loss} leads to no leaf at all."))
    read = _source_cuts(case)
    result.todo.extend(cut.cure for cut in read)
    cuts = [cut.cause for cut in read] or _uses(case, nodes) + _cuts(case, nodes)
    result.known.extend(cuts)
    view = facts.into_nowhere(nodes)
    if view is not None:
        result.known.append(f"A view taken in no_grad() is used{facts.at(view)}")
    if case.node is None:
        ending = case.tensor._meta.ending
        never = "No recorded operation has used {x}." if ending is None else (
            "No graph that still exists leads to {x}.")  # fmt: skip
        result.known.append(case.say(never))
    elif roots and case.node.order < min(root.order for root in roots):
        result.known.append(case.say("{x} came into use only after {loss} was computed."))
    twins = [n.variable for n in nodes if isinstance(n, AccumulateGrad)
             and n.variable is not case.tensor and facts.same_memory(n.variable, case.tensor)
             ]  # fmt: skip
    for twin in twins[:1]:
        result.known.append(
            case.say("{loss} uses another leaf with the memory of {x}: ")
            + (case.names.of(twin) or facts.kind(twin)) + "."
        )  # fmt: skip
    if not cuts and not twins and view is None:
        result.likely.append(case.say("{x} was not used for {loss}: no line was found that uses"))
        result.likely.append("it for that and discards its history.")
    return result


def _source_cuts(case: Case) -> list[Cut]:
    """What cut the graph between the loss and the tensor, as the source shows it."""
    if case.names.of(case.tensor) is None or any(case.names.of(x) is None for x in case.losses):
        return []
    names = [str(case.names.of(loss)) for loss in case.losses]
    return [c for n in names for c in cuts_of(case.names.frame, n, case.tensor)]


def _uses(case: Case, nodes: Any = None) -> list[str]:
    """Where the loss was computed with a tensor's values as constants."""
    if nodes is None:
        made = [loss._node for loss in case.losses if loss._node is not None]
        nodes = in_order(reachable(made))
    data = case.tensor._data
    places = [
        f"{facts.operation_name(node)}{facts.at_line(node)}"
        for node, value in facts.constants(nodes)
        if value is data
    ]
    text = "{loss} used the values of {x} as a constant: {places}."
    return [case.say(text, places=facts.name_list(dict.fromkeys(places)))] if places else []


def _cuts(case: Case, nodes: list[Node]) -> list[str]:
    """Where the loss was computed with the values of something that leads to the tensor, but
    without its history. Known for what variables hold."""
    target = case.node
    if target is None:
        return []
    holders = {id(t._data): (name, t) for name, t in case.names.tensors if t._node is not None}
    for node, value in facts.constants(nodes):
        name, tensor = holders.get(id(value), ("", None))
        if tensor is not None and tensor._data is value and facts.leads_to(tensor, target):
            where = f"{facts.operation_name(node)}{facts.at_line(node)}"
            return [
                f"{name} leads to {case.name}, but {where} used its values without its history: "
                "detach(), .data and no_grad do that."
            ]
    return []


def about_paths(case: Case, paths: Paths) -> Finding:
    """For a leaf without ``.grad`` that the loss leads to."""
    result = Finding("not_yet", case.say("no gradient has been accumulated."))
    result.known.append(case.say("{loss} leads to {x}."))
    saves = [n for n in paths.nodes if n.saved is not None]
    passed = [n for n in in_order(paths.all_nodes()) if n.saved is FREED]
    if passed and paths.used_up():
        result.reason, result.because = "cleared", ", though a backward pass has run."
        result.known.append("The values that the pass needed are freed.")
        result.likely.append(".grad was set to None since, as optimizer.zero_grad() does, or")
        result.likely.append("the pass was that of autograd.grad(), which does not write .grad.")
        result.known.extend(hooks(case))
        return result
    if passed:
        result.reason = "other_inputs"
        result.because = case.say("a backward pass has run, but not to {x}.")
        result.known.append(case.say("Values saved on the path to {x} are still there."))
        one = f"{facts.operation_name(passed[0])}{facts.at(passed[0])}"
        result.known.append(f"Others in the graph are freed: {one}")
        result.likely.append("backward(inputs=...) or autograd.grad() named other tensors.")
        return result
    if saves:
        result.known.append("All saved values are there: no pass has used them up.")
        result.likely.append(case.say("{loss}.backward() was not called yet."))
    else:
        result.known.append("No values are saved on the path, so a pass would leave no trace.")
        result.likely.append(case.say("{loss}.backward() was not called yet, or .grad was"))
        result.likely.append("set to None since, as optimizer.zero_grad() does.")
    result.known.extend(hooks(case))
    result.todo.append(case.say("Call {loss}.backward()."))
    return result


def about_lost(case: Case, paths: Paths, measured: Measured) -> Finding:
    """For a path on which gradients end: a rule, or a hook, gives None for one."""
    result = Finding("no_gradient", case.say("{loss} leads to {x}, but no gradient comes through."))
    for node in paths.nodes:
        if node in measured.received:
            lost = [n for n in node.next_nodes if n in paths.needed and n not in measured.received]
            if lost:
                result.known.append(
                    "A gradient comes to, and None is given back by, "
                    f"{facts.operation_name(node)}{facts.at(node)}"
                )
                break
    result.todo.append("Look at the backward() of that Function, and at hooks on it.")
    return result


def compared(case: Case, gradient: Any) -> tuple[Finding, float | None]:
    """How a ``.grad`` that is there compares with what a pass of the loss brings, and how many
    times that it is, if it is a whole number of times."""
    grad = arrays.cast(case.grad._data, gradient.dtype)
    times = multiple(grad, gradient)
    if times == 1:
        return Finding("equal", case.say("is the gradient of {loss}.")), times
    there, here = amount_of(grad), amount_of(gradient)
    added = added_by(case.tensor)
    if times:
        result = Finding("accumulated", case.say("is {n:g} times the gradient of {loss}.", n=times))
        result.known.append(ADDED_UP)
        result.known.extend(added)
        if not added:
            result.likely.append(f"backward() ran {times:g} times since .grad was last None.")
    else:
        result = Finding("different", case.say("is not the gradient of {loss} alone."))
        rest = amount_of(grad - gradient)
        text = "In .grad: {a}. One pass of {loss}: {b}. The rest: {c}."
        result.known.append(case.say(text, a=there, b=here, c=rest))
        result.known.append(ADDED_UP)
        result.known.extend(added)
        if there.norm == 0:
            result.likely.append("it is zeros, set by zero_grad(set_to_none=False).")
        elif not added:
            result.likely.append(
                "it holds other passes, or was scaled, clipped or written."
            )
    result.todo.append(case.say("For one pass alone, set {x}.grad = None before backward()."))
    result.known.extend(hooks(case) if case.tensor._node is None else [])
    return result, times


ZERO_FIRST = (
    "Set {x}.grad = None before each backward(), as",
    "optimizer.zero_grad() does, unless the sum is meant.",
)


def added_by(tensor: Any) -> list[str]:
    """Which passes have added to the ``.grad`` of a leaf, if more than one has."""
    meta = tensor._meta
    if meta is None or meta.added < 2:
        return []
    first, last = Pass(*meta.first_pass).line, Pass(*meta.last_pass).line
    since = "since it was last set or zeroed"
    if first == last:
        return [f"{meta.added} backward passes have added to it {since}, at {first}"]
    return [
        f"{meta.added} backward passes have added to it {since}:",
        f"the first at {first}",
        f"the last at {last}",
    ]


def multiple(grad: Any, gradient: Any) -> float | None:
    """How many times one gradient is another, if it is a whole number of times."""
    largest = float(arrays.amax(abs(gradient))) if gradient.size else 0.0
    if largest == 0:
        return 1.0 if not arrays.any(grad) else None
    if not math.isfinite(largest):
        alike = (grad == gradient) | (arrays.isnan(grad) & arrays.isnan(gradient))
        return 1.0 if arrays.all(alike) else None
    place = arrays.argmax(abs(gradient).ravel()).item()
    ratio = grad.ravel()[place].item() / gradient.ravel()[place].item()
    times = float(round(ratio.real)) if abs(ratio) < 1e6 else 0.0  # NaN is not below either
    precise = {2: 1e-2, 4: 1e-4, 8: 1e-10}[abs(gradient).dtype.itemsize]
    same = times >= 1 and arrays.all(abs(grad - times * gradient) <= precise * times * largest)
    return times if same else None


def about_frozen(case: Case, paths: Paths) -> Finding | None:
    """For a graph that cannot be run again, or at all: why not."""
    changed = facts.changed(n for n in paths.nodes if n is not paths.target)
    if changed is not None:
        node, written_at = changed
        saved = f"{facts.operation_name(node)}{facts.at(node)}"
        where = _source.short(_source.describe(written_at)) or "an unknown line"
        return Finding(
            "changed_in_place",
            case.say("backward() of {loss} cannot run: a value that it needs was overwritten."),
            [f"It was saved by {saved}", f"It was changed in place at {where}"],
            todo=["Write x = x + 1 in place of x += 1, or write after backward()."],
        )
    return None
