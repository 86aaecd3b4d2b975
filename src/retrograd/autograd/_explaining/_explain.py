"""``autograd.explain``: why ``.grad`` is None, or how its value came about."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

from retrograd import _source
from retrograd._modes import modes
from retrograd.autograd._explaining import _facts as facts
from retrograd.autograd._explaining import _reasons as reasons
from retrograd.autograd._explaining._amounts import together
from retrograd.autograd._explaining._model import Model
from retrograd.autograd._explaining._names import Names, is_module
from retrograd.autograd._explaining._pass import Measured, measure, unmeasured
from retrograd.autograd._explaining._paths import PathLink, Paths, along, next_numbers, strongest
from retrograd.autograd._explaining._reasons import Case, Finding
from retrograd.autograd._explaining._singular import cause
from retrograd.autograd._explaining._words import ENDS, Explanation, Part, Path, Step
from retrograd.autograd._node import FREED, NOWHERE, Node
from retrograd.autograd._roots import as_gradients, as_tuple, is_tensor, locate, make_roots
from retrograd.autograd._wrap import wrap
from retrograd.ops._lifted import Lifted, device_value

FROZEN = ("changed_in_place", "not_scalar")  # reasons that hold with and without a ``.grad``


def explain(
    tensor: Any, loss: Any = None, *, gradient: Any = None, paths: int = 3, name: str | None = None,
    optimizer: Any = None,
) -> Any:  # fmt: skip
    """Explain, as text, why ``tensor.grad`` is None, or where its value comes from.

    Of a Module, explain all parameters in one table: the norm of the gradient, or why there is
    none; how many passes have added to it since it was zeroed; how large the optimizer's next
    update is, relative to the parameter; and the three things most worth doing.

    Given a ``loss`` whose graph still exists, it runs a backward pass and observes it. Nothing
    changes: no ``.grad`` is written and nothing is freed. Hooks on tensors and nodes are called,
    since they are part of the gradient; hooks that run after ``.grad`` is written are not.

    Args:
        tensor: the tensor to explain, or a Module.
        loss: the tensor whose gradient is expected.
        gradient: for a loss of several elements, as in ``backward``.
        paths: number of paths from the loss to the tensor to list, those of the largest gradients
            first, with the line and the gradient of each step.
        name: what to call the tensor in the text; by default, its name in the calling code.
        optimizer: for a Module, the optimizer that is to train it.

    Returns:
        An explanation, to be printed. Its ``reason`` is, if ``.grad`` is None, one of "not_a_leaf",
        "requires_grad_is_false", "not_floating", "view_in_no_grad", "never_used", "loss_is_cut",
        "not_connected", "no_gradient", "not_yet", "cleared", "other_inputs", "changed_in_place",
        "not_scalar" and "unknown". If there is a gradient, it is "equal" to that of the loss,
        "accumulated" (a multiple of it), "different", "freed" (the graph cannot be run again) or
        "present" (no loss was given). For a Module, a table with ``rows`` and ``todo``.

    Example:
        >>> x = torch.tensor([1.0, 3.0], requires_grad=True)
        >>> y = x * x
        >>> print(torch.autograd.explain(y))  # doctest: +ELLIPSIS
        y.grad is None: y is not a leaf.
          y is the result of mul at ...y = x * x
          Only leaves keep their gradient; a result does after retain_grad().
          Gradients flow through it to x.
          What to do: Call y.retain_grad() before backward(), or
                      use torch.autograd.grad(loss, y).
        >>> story = torch.autograd.explain(x, y.sum())
        >>> story.reason, story.number_of_paths, story.gradient
        ('not_yet', 2, tensor([2., 6.]))
    """
    if not is_tensor(tensor) and not is_module(tensor):
        raise TypeError(f"explain() takes a Tensor or a Module, but got {type(tensor).__name__}")
    data = getattr(tensor, "_data", None)
    if modes.levels or (isinstance(data, Lifted) and device_value(data) is not data):
        raise RuntimeError(
            "explain() was called inside a function that is being transformed. Call it outside, on "
            "a loss computed without the transform."
        )
    names = Names(_source.user_frame(sys._getframe(1)))
    losses = () if loss is None else as_tuple(loss)
    for i, one in enumerate(losses):
        if not is_tensor(one):
            raise TypeError(f"the loss must be a Tensor, but element {i} is {type(one).__name__}")
    if is_module(tensor):
        return Model(tensor, losses, optimizer, names).explained()
    called = [names.of(one) for one in losses]
    loss_name = " and ".join(n for n in called if n) if called and all(called) else "loss"
    case = Case(tensor, name or names.of(tensor) or "tensor", losses, loss_name, names)
    if not losses:
        return _alone(case)
    return _with_loss(case, as_gradients(gradient, len(losses)), paths)


# -- putting it together ---------------------------------------------------------------------


def _told(case: Case, finding: Finding, **more: Any) -> Explanation:
    for plain in case.names.unregistered():
        if any(p is case.tensor for p in plain.parameters):
            finding.known.append(plain.sentence + " An optimizer does not get them.")
            finding.todo.insert(0, f"{plain.cure[0].upper()}{plain.cure[1:]}.")
    if case.grad is None:
        colon = "" if finding.because.startswith(",") else ": "
        headline = f"{case.name}.grad is None{colon}{finding.because}"
    else:
        headline = f"{case.name}.grad {finding.because}"
    return Explanation(
        finding.reason, headline, tuple(finding.known), tuple(finding.likely), tuple(finding.todo),
        name=case.name, loss=case.loss, **more,
    )  # fmt: skip


def _alone(case: Case) -> Explanation:
    """What is known from a tensor alone."""
    if case.grad is None:
        result = reasons.about_tensor(case)
    else:
        result = Finding("present", f"is there, of {facts.kind(case.grad)}.")
        result.todo.append(case.say("To see where it came from, name a loss whose graph is there:"))
        result.todo.append(case.say("explain({x}, loss)"))
        added = reasons.added_by(case.tensor)
        result.known.extend(added)
        if added:
            result.todo[:0] = map(case.say, reasons.ZERO_FIRST)
        result.known.extend(reasons.hooks(case))
    node = case.tensor._node
    if node is not None and node.saved is FREED:
        result.known.append("The values that its node had saved are freed: a pass has run.")
    version = case.tensor._version_counter
    if (
        version is not None
        and version.count
        and (node is None or not _made_by_write(node, version))
    ):
        line = _source.short(_source.describe(version.written_at))
        times = "once" if version.count == 1 else f"{version.count} times, last"
        result.known.append(f"Its memory was written in place {times} at {line}")
    return _told(case, result)


def _made_by_write(node: Node | None, version: Any) -> bool:
    """Whether a tensor is the result of the last write to its memory."""
    return node is not None and bool(version.written_at == (node.code, node.lasti))


def _with_loss(case: Case, given: tuple[Any, ...], count: int) -> Explanation:
    pairs = [(one, g) for one, g in zip(case.losses, given, strict=True) if one.requires_grad]
    ends = [locate(one) for one, _ in pairs]
    roots = [(n, number, None) for n, number in ends if n is not None and n is not NOWHERE]
    if not roots:
        return _told(case, reasons.about_cut_loss(case) if case.grad is None else _held(case))
    if not case.tensor.requires_grad or case.node is NOWHERE:
        return _told(case, reasons.about_tensor(case) if case.grad is None else _held(case))
    paths = Paths(roots, case.node, case.number) if case.node is not None else None
    if paths is None or not paths.count:
        result = reasons.about_unconnected(case, [node for node, _, _ in roots])
        if case.grad is not None:
            result.because = f"is there, but {result.because}"
        return _told(case, result)
    frozen = _cannot_run(case, paths, pairs)
    if frozen is not None:
        listed = _listed(paths, None, count)
        return _told(case, frozen, number_of_paths=paths.count, paths=listed)
    paths.roots = make_roots(tuple(o for o, _ in pairs), tuple(g for _, g in pairs), False)
    return _explained(case, paths, measure(paths), count)


def _held(case: Case) -> Finding:
    """For a ``.grad`` that is there, where the loss cannot lead to the tensor."""
    return Finding(
        "present", case.say("is there, but not from {loss}, which does not lead to {x}.")
    )


def _cannot_run(case: Case, paths: Paths, pairs: list[tuple[Any, Any]]) -> Finding | None:
    """Why no pass can be run over the paths; None if one can."""
    result = reasons.about_frozen(case, paths)
    if result is None and not paths.can_run():
        result = reasons.about_paths(case, paths) if case.tensor._node is None else None
        result = result or reasons.about_tensor(case)
        if case.grad is not None:
            result = Finding("freed", case.say("is there; the graph of {loss} is freed."))
            result.todo.append("To see the numbers, explain before backward(), or after")
            result.todo.append("backward(retain_graph=True).")
    elif result is None:
        big = next((o for o, g in pairs if g is None and o._data.size != 1), None)
        if big is not None:
            size = facts.shape_text(big._data.shape)
            result = Finding("not_scalar", case.say(f"{{loss}} is not a scalar, but {size}."))
            result.known.append("backward() then needs the vector v of the product Jᵀ·v:")
            result.known.append("grad can be implicitly created only for scalar outputs.")
            result.todo.append(
                case.say("{loss}.backward(gradient=v), with v of the shape of {loss};")
            )
            result.todo.append(case.say("ones give the gradient of {loss}.sum(). Here:"))
            result.todo.append(case.say("explain({x}, {loss}, gradient=v)"))
    if result is not None and case.grad is not None and result.reason in FROZEN:
        result.because = f"is there, but {result.because}"
    return result


def _explained(case: Case, paths: Paths, measured: Measured, count: int) -> Explanation:
    """With a pass that has been watched."""
    times = None
    if measured.gradient is None:
        result = reasons.about_lost(case, paths, measured)
    elif case.grad is not None:
        result, times = reasons.compared(case, measured.gradient)
    elif case.tensor._node is not None:
        result = reasons.about_tensor(case)
    else:
        result = reasons.about_paths(case, paths)
    gradient = None if measured.gradient is None else wrap(measured.gradient)
    listed = _listed(paths, measured, count) if gradient is not None else ()
    return _told(
        case, result, gradient=gradient, times=times, number_of_paths=paths.count, paths=listed,
        parts=_parts(paths, measured),
        notes=tuple(_notes(case, paths, measured)) if gradient is not None else (),
    )  # fmt: skip


def _parts(paths: Paths, measured: Measured) -> tuple[Part, ...]:
    """What is added up at the target."""
    results: list[Part] = []
    for user, amounts in measured.arrivals(paths.target):
        name, source = (facts.operation_name(user), user.source) if user else (None, None)
        results.extend(Part(name, source, amount) for amount in amounts)
    return tuple(results)


def _listed(paths: Paths, measured: Measured | None, count: int) -> tuple[Path, ...]:
    arrivals = unmeasured(paths) if measured is None else measured.arrivals
    result = strongest(paths, arrivals, count)
    first = list(along(result[0][0])) if result else []
    return tuple(_path(link, share, first, paths, measured) for link, share in result)


def _path(
    link: PathLink, share: float, first: list[PathLink], paths: Paths, measured: Measured | None
) -> Path:
    links = list(along(link))
    pairs = list(itertools.pairwise(links))
    alike = zip(links[1:], first[1:], strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda two: two[0].node is two[1].node, alike))
    if shared < ENDS or shared == len(pairs):
        shared = 0
    pairs = pairs[shared:]
    hidden = len(pairs) - 2 * ENDS
    hidden = hidden if hidden > 1 else 0
    shown = pairs[:ENDS] + pairs[ENDS + hidden :] if hidden else pairs
    steps = tuple(_step(one, following, paths, measured) for one, following in shown)
    return Path(links[0].sent[0], steps, shared, hidden, None if measured is None else share)


def _step(one: PathLink, following: PathLink, paths: Paths, measured: Measured | None) -> Step:
    node, total, factor = one.node, None, None
    if measured is not None:
        before, total = measured.norm(node), measured.amount(following.node)
        sent = together(a for a in following.sent if a is not None)
        factor = sent / before if before else None
    numbers = {next_numbers(user)[i] for user, i in paths.edges[following.node]}
    return Step(facts.operation_name(node), node.source, factor, following.sent,
                following.arrivals, total, len(numbers) == 1)  # fmt: skip


# -- what is remarkable ----------------------------------------------------------------------


def _notes(case: Case, paths: Paths, measured: Measured) -> list[str]:
    notes = []
    maker = _first(paths, measured, lambda norm: not math.isfinite(norm))
    if maker is not None:
        notes.append(
            "NaN or infinity first appears in what is passed on by "
            f"{facts.operation_name(maker)}{facts.at(maker)}"
        )
        norms = [measured.norm(n) for n in maker.next_nodes if n is not None]
        notes.extend(cause(maker, gave_nan=any(n is not None and math.isnan(n) for n in norms)))
        return notes
    if measured.norm(paths.target) == 0:
        cancelled = [n for n in paths.nodes if _cancels(n, measured)]
        if cancelled:
            what = case.name if cancelled[0] is paths.target else "one place"
            notes.append(f"The parts that meet at {what} cancel out: their sum is zero.")
        zero = _first(paths, measured, lambda norm: norm == 0)
        if zero is not None and not cancelled:
            notes.append(f"It becomes zero in {facts.operation_name(zero)}{facts.at(zero)}")
    return notes


def _first(paths: Paths, measured: Measured, odd: Any) -> Node | None:
    """The first node of the pass that gets a sound gradient and makes an odd one of it."""
    for node in paths.nodes:
        norm = measured.norm(node)
        if norm is not None and odd(norm):
            for arrival in measured.arrivals(node):
                sent = [a.norm for a in arrival.amounts if a is not None]
                before = measured.norm(arrival.user) if arrival.user is not None else None
                if before is not None and not odd(before) and any(map(odd, sent)):
                    return arrival.user
    return None


def _cancels(node: Node, measured: Measured) -> bool:
    arrivals = measured.arrivals(node)
    parts = [a.norm for arrival in arrivals for a in arrival.amounts if a is not None]
    return len(parts) > 1 and measured.norm(node) == 0 and any(parts)
