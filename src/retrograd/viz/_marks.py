"""What deserves a look in a story: numbers that are none, gradients that explode or vanish, tensors
that were cut off, parameters that nothing used, and what a graph keeps in memory.

Thresholds compare the Euclidean norm of the gradient that comes to a node with that of the gradient
that the pass began with. Norms, unlike elements, hardly change with sums and means: a sum over n
elements makes the norm √n times as large, a mean √n times smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrograd._source import Place
from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.viz._facts import label_of
from retrograd.viz._made import Made, made_of
from retrograd.viz._record_passes import PassRecord, Step
from retrograd.viz._values import Value

if TYPE_CHECKING:
    from retrograd.viz._story import Story

EXPLODING = 1e4  # times the norm that the pass began with
VANISHING = 1e-6
MOST = 20  # marks of one kind, of leaves and of cuts
MUCH = 2**20  # bytes kept by a graph that are worth a mark


@dataclass(slots=True)
class Mark:
    """Something to point at."""

    kind: str
    text: str
    node: Node | None = None
    step: tuple[int, int] | None = None  # the pass, and the number of the step in its list
    place: Place | None = None


def marks_of(story: Story) -> list[Mark]:
    """All marks of a story, in the order in which things happened."""
    found = [*in_forward(story), *cuts(story)]
    for number, record in enumerate(story.passes):
        found += [*not_numbers(number, record), *sizes(number, record)]
    return [*found, *unused(story), *memory(story)]


def called(node: Node) -> str:
    """A node as a reader knows it."""
    if isinstance(node, AccumulateGrad):
        return "a leaf"
    return label_of(node)


# -- NaN and Inf ---------------------------------------------------------------------------------


def bad(values: list[Value | None], kind: str) -> int:
    """How many elements are not numbers, or not finite."""
    return sum(getattr(v, kind) for v in values if v is not None)


def in_forward(story: Story) -> list[Mark]:
    """Where NaN and Inf first appear in the forward run. Where that was not recorded, it is told by
    what nodes have saved of it."""
    saved = {step.node: step.saved for record in story.passes for step in record.steps}
    found = []
    for kind, word in (("nan", "NaN"), ("inf", "Inf")):
        for node in story.graph.nodes:
            made = made_of(node)
            text = _in_saved(node, saved, kind) if made is None else _in_made(node, made, kind)
            if text is not None:
                text = f"Forward: {word} first appears in {text}."
                found.append(Mark(kind, text, node, place=(node.code, node.lasti)))
                break
    return found


def _in_made(node: Node, made: Made, kind: str) -> str | None:
    """Whether an operation was given or gave numbers that are none, in words."""
    count = bad([d.value for d in made.outputs], kind)
    if not count:
        return None
    for given in made.inputs:
        if given is not None and bad([given.value], kind):
            return f"{given.name or 'an input'}, which {called(node)} was given"
    return f"the result of {called(node)}: {count} of them"


def _in_saved(
    node: Node, saved: dict[Node, list[tuple[str, Value | None]]], kind: str
) -> str | None:
    operation = node.operation
    values = [(n, bad([v], kind)) for n, v in saved.get(node, ()) if bad([v], kind)]
    if not values or operation is None:
        return None
    for name, _ in values:
        if name in operation.inputs:
            return f"{name}, which {called(node)} was given"
    return f"the result of {called(node)}: {values[0][1]} of them"


def not_numbers(number: int, record: PassRecord) -> list[Mark]:
    """Where NaN and Inf first appear in a backward pass."""
    found = []
    for kind, word in (("nan", "NaN"), ("inf", "Inf")):
        for k, step in enumerate(record.steps):
            came, sent = bad(step.incoming, kind), bad([v for _, v in step.outgoing], kind)
            if not came and not sent:
                continue
            where = "is already in the gradient that comes to" if came else "first appears in what"
            text = f"{word} {where} {called(step.node)}" + ("" if came else " sends on")
            found.append(Mark(kind, f"Backward: {text}.", step.node, (number, k), _made_at(step)))
            break
        else:
            found += _in_briefs(kind, word, record)
    return found


def _in_briefs(kind: str, word: str, record: PassRecord) -> list[Mark]:
    for at, brief in sorted(record.briefs.items()):
        if getattr(brief, kind) or getattr(brief, f"out_{kind}"):
            text = f"Backward: {word} first appears at {called(brief.node)}, step {at + 1}."
            return [Mark(kind, text, brief.node, place=(brief.node.code, brief.node.lasti))]
    return []


def _made_at(step: Step) -> Place:
    return step.node.code, step.node.lasti


# -- large and small -----------------------------------------------------------------------------


def sizes(number: int, record: PassRecord) -> list[Mark]:
    """The first operation of a pass at which gradients are too large, or too small, and the leaves
    that this reaches."""
    begin = next((norm for s in record.steps if (norm := s.norms()[0])), None)
    if not begin:
        return []
    found: list[Mark] = []
    for kind in ("exploding", "vanishing"):
        first, leaves = True, 0
        for k, step in enumerate(record.steps):
            norm = step.norms()[0]
            leaf = isinstance(step.node, AccumulateGrad)
            # An operation that gets nothing but zeros is none that makes gradients small.
            if norm is None or not _is(kind, norm / begin) or (norm == 0 and not leaf):
                continue
            if (leaf and leaves >= MOST) or (not leaf and not first):
                continue
            leaves += leaf
            first = first and leaf
            text = _size_in_words(kind, step.node, norm, begin, leaf)
            found.append(Mark(kind, text, step.node, (number, k), _made_at(step)))
    return found


def _is(kind: str, ratio: float) -> bool:
    return ratio > EXPLODING if kind == "exploding" else ratio < VANISHING


def _size_in_words(kind: str, node: Node, norm: float, begin: float, leaf: bool) -> str:
    if norm == 0:
        return "The gradient of this leaf is exactly zero."
    to = "this leaf" if leaf else called(node)
    much = f"{norm / begin:.1e} times the norm that the pass began with"
    grows = "large" if kind == "exploding" else "small"
    return f"The gradient that comes to {to} is {grows}: norm {norm:.3g}, {much}."


# -- what gets no gradient -----------------------------------------------------------------------


def cuts(story: Story) -> list[Mark]:
    """Inputs of the graph that had a history, and were cut off from it."""
    found: dict[Any, Mark] = {}
    for node in story.graph.nodes:
        made = made_of(node)
        for given in made.inputs if made is not None else ():
            if given is None or given.cut is None or given.cut_place in found:
                continue
            if len(found) >= MOST:
                return list(found.values())
            how = {"detach": "detach()", "item": "item()"}.get(given.cut, "no_grad")
            by = f"by {how}" if given.cut != "no_grad" else "by being computed in no_grad mode"
            name = given.name or "A tensor"
            text = (
                f"{name}, which {called(node)} uses, was cut off from its history {by}: "
                "no gradient flows through it."
            )
            kind = "no_grad" if given.cut == "no_grad" else "detached"
            found[given.cut_place] = Mark(kind, text, node, place=given.cut_place)
    return list(found.values())


def unused(story: Story) -> list[Mark]:
    """Parameters that no graph of the story leads to."""
    reached = {id(leaf.variable) for leaf in story.leaves}
    names = [
        name
        for name, tensor in story.parameters()
        if tensor.requires_grad and tensor.is_leaf and id(tensor) not in reached
    ]
    shown = [
        Mark("unused", f"{name} requires grad, but no backward pass reaches it.")
        for name in names[:MOST]
    ]
    if len(names) > MOST:
        more = len(names) - MOST
        shown.append(Mark("unused", f"{more} more parameters are reached by no backward pass."))
    return shown


# -- memory --------------------------------------------------------------------------------------


def memory(story: Story) -> list[Mark]:
    """The operation that keeps most, where a graph keeps much."""
    kept = story.kept()
    total = sum(size for _, size in kept)
    if total < MUCH:
        return []
    node, size = max(kept, key=lambda entry: entry[1])
    text = (
        f"The graph keeps {_size(total)} for backward. Most of it, {_size(size)}, is kept by "
        f"{called(node)}."
    )
    return [Mark("memory", text, node, place=(node.code, node.lasti))]


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
