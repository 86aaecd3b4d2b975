"""What is notable in a story: NaN and infinity, gradients that explode or vanish, tensors that were
detached, unused parameters, and what a graph keeps in memory.

Thresholds compare the Euclidean norm of the gradient that arrives at a node with that of the
gradient that the pass began with. Norms, unlike elements, hardly change with sums and means: a sum
over n elements makes the norm √n times as large, a mean √n times smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrograd._source import Place
from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.viz._facts import label_of
from retrograd.viz._node_info import NodeInfo, recorded_info
from retrograd.viz._record_passes import PassRecord, Step
from retrograd.viz._values import Value

if TYPE_CHECKING:
    from retrograd.viz._story import Story

EXPLODING = 1e4  # times the norm that the pass began with
VANISHING = 1e-6
MOST = 20  # marks of cuts
NAMED = 4  # of several that a mark is about
WORDS = {"nan": "NaN", "inf": "Inf"}
CUTS = {"detach": "detach()", "item": "item()", "no_grad": "being computed in no_grad mode"}
MUCH = 2**20  # bytes kept by a graph that are worth a mark


@dataclass(slots=True)
class Mark:
    """Something notable, and where it is."""

    kind: str
    text: str
    node: Node | None = None
    step: tuple[int, int] | None = None  # the pass, and the number of the step in its list
    place: Place | None = None
    about: Any = None  # what is the same in every pass that it happens in


def marks_of(story: Story) -> list[Mark]:
    """All marks of a story, in the order in which things happened."""
    result = [*in_forward(story), *cuts(story)]
    in_passes = []
    for number, record in enumerate(story.passes):
        in_passes += [*not_numbers(story, number, record), *sizes(story, number, record)]
    return [*result, *once(in_passes), *unused(story), *memory(story)]


def once(marks: list[Mark]) -> list[Mark]:
    """Marks that several passes have in common are reported for the first, with their number."""
    passes: dict[Any, list[Mark]] = {}
    for mark in marks:
        passes.setdefault((mark.kind, mark.about), []).append(mark)
    for first, *later in passes.values():
        if later:
            later_passes = "in 1 later pass" if len(later) == 1 else f"in {len(later)} later passes"
            first.text += f" The same happens {later_passes}."
    return [first for first, *_ in passes.values()]


def called(story: Story, node: Node) -> str:
    """A node as text: a leaf by its name, an operation with the Module it is in."""
    if isinstance(node, AccumulateGrad):
        return story.names.tensors.get(id(node.variable), "a leaf")
    info = recorded_info(node)
    return f"{label_of(node)} in {info.module}" if info and info.module else label_of(node)


def listed(names: list[str]) -> str:
    """Some names, and how many more there are.

    >>> listed(["a", "b", "c"]), listed([f"w{i}" for i in range(9)])
    ('a, b and c', 'w0, w1, w2, w3 and 5 more')
    """
    shown = names if len(names) <= NAMED + 1 else [*names[:NAMED], f"{len(names) - NAMED} more"]
    *most, last = shown
    return f"{', '.join(most)} and {last}" if most else last


# -- NaN and Inf ---------------------------------------------------------------------------------


def bad(values: list[Value | None], kind: str) -> int:
    """How many elements are NaN or infinite."""
    return sum(getattr(v, kind) for v in values if v is not None)


def in_forward(story: Story) -> list[Mark]:
    """Where NaN and Inf first appear in the forward pass. If that was not recorded, the values that
    nodes have saved are used."""
    saved = {step.node: step.saved for record in story.passes for step in record.steps}
    result = []
    for kind, word in WORDS.items():
        for node in story.nodes:
            info = recorded_info(node)
            if info is None:
                text = _in_saved(story, node, saved.get(node, ()), kind)
            else:
                text = _in_info(story, node, info, kind)
            if text is not None:
                text = f"Forward: {word} first appears in {text}."
                result.append(Mark(kind, text, node, place=_place(node)))
                break
    return result


def _in_info(story: Story, node: Node, info: NodeInfo, kind: str) -> str | None:
    """Whether an operation received or produced NaN or Inf, as text."""
    outputs = [d for d in info.outputs if bad([d.value], kind)]
    if not outputs:
        return None
    for given in info.inputs:
        if given is not None and bad([given.value], kind):
            return f"{given.name or 'an input'}, which {called(story, node)} was given"
    name, value = outputs[0].name, outputs[0].value
    result = f"{name}, the result of" if name else "the result of"
    return f"{result} {called(story, node)}{_how_many(value, kind)}"


def _in_saved(story: Story, node: Node, saved: Any, kind: str) -> str | None:
    operation = node.operation
    values = [(name, value) for name, value in saved if bad([value], kind)]
    if not values or operation is None:
        return None
    for name, _ in values:
        if name in operation.inputs:
            return f"{name}, which {called(story, node)} was given"
    return f"the result of {called(story, node)}{_how_many(values[0][1], kind)}"


def _how_many(value: Value | None, kind: str) -> str:
    if value is None or value.size == 1:
        return ""
    return f" ({bad([value], kind):,} of {value.size:,} elements)"


def not_numbers(story: Story, number: int, record: PassRecord) -> Iterator[Mark]:
    """Where NaN and Inf first appear in a backward pass."""
    for kind, word in WORDS.items():
        first = next(
            (k for k, step in enumerate(record.steps) if _came(step, kind) or _left(step, kind)),
            None,
        )
        node, late = record.first_late.get(kind, (None, 0))
        if node is not None and (first is None or late < record.numbers[first]):
            name = called(story, node)
            text = f"first appears in a gradient that {name} passes on, step {late + 1}"
            at = None
        elif first is not None:
            node, at = record.steps[first].node, (number, first)
            text = (
                f"is already in the gradient that arrives at {called(story, node)}"
                if _came(record.steps[first], kind)
                else f"first appears in a gradient that {called(story, node)} passes on"
            )
        else:
            continue
        yield Mark(kind, f"Backward: {word} {text}.", node, at, _place(node), (text, _place(node)))


def _came(step: Step, kind: str) -> int:
    return bad(step.incoming, kind)


def _left(step: Step, kind: str) -> int:
    return bad([value for _, value in step.outgoing], kind)


def _place(node: Node) -> Place:
    return node.code, node.lasti


# -- large and small -----------------------------------------------------------------------------


def sizes(story: Story, number: int, record: PassRecord) -> Iterator[Mark]:
    """The first operation of a pass at which gradients are too large, or too small, and the leaves
    that this reaches."""
    norms = [step.norms()[0] for step in record.steps]
    begin = next((norm for norm in norms if norm), None)
    if not begin:
        return
    for kind in ("exploding", "vanishing"):
        operations: list[int] = []
        leaves: list[int] = []
        zeros: list[int] = []
        for k, norm in enumerate(norms):
            if norm is None or not _is(kind, norm / begin):
                continue
            leaf = isinstance(record.steps[k].node, AccumulateGrad)
            if norm:
                (leaves if leaf else operations).append(k)
            elif leaf:  # an operation that receives only zeros does not cause them
                zeros.append(k)
        for some in (operations[:1], leaves):
            if some:
                yield _of_size(story, number, record, kind, some, begin)
        if zeros:
            nodes = [record.steps[k].node for k in zeros]
            text = f"The gradient of {listed([called(story, n) for n in nodes])} is exactly zero."
            yield Mark(kind, text, nodes[0], (number, zeros[0]), _place(nodes[0]), text)


def _is(kind: str, ratio: float) -> bool:
    return ratio > EXPLODING if kind == "exploding" else ratio < VANISHING


def _of_size(
    story: Story, number: int, record: PassRecord, kind: str, some: list[int], begin: float
) -> Mark:
    """A mark at the most extreme of some steps."""
    norms = {k: record.steps[k].norms()[0] or 0.0 for k in some}
    large = kind == "exploding"
    most = max(some, key=lambda k: norms[k] if large else -norms[k])
    nodes = [record.steps[k].node for k in [most, *(k for k in some if k != most)]]
    names = [called(story, node) for node in nodes]
    text = (
        f"The gradient that arrives at {names[0]} is {'large' if large else 'small'}: norm "
        f"{norms[most]:.3g}, {norms[most] / begin:.1e} times the norm at the start of the pass."
    )
    if len(names) > 1:
        text += f" The same is true of {listed(names[1:])}."
    about = (_place(nodes[0]), frozenset(names))
    return Mark(kind, text, nodes[0], (number, most), _place(nodes[0]), about)


# -- what gets no gradient -----------------------------------------------------------------------


def cuts(story: Story) -> list[Mark]:
    """Inputs of the graph that were detached from their history."""
    result: dict[Any, Mark] = {}
    for node in story.nodes:
        info = recorded_info(node)
        for given in info.inputs if info is not None else ():
            if given is None or given.cut is None or given.cut_place in result:
                continue
            if len(result) >= MOST:
                return list(result.values())
            by = CUTS[given.cut]
            name = given.name or ("A number" if given.cut == "item" else "A tensor")
            text = (
                f"{name}, which {called(story, node)} uses, was cut off from its history by {by}: "
                "no gradient flows through it."
            )
            kind = "no_grad" if given.cut == "no_grad" else "detached"
            result[given.cut_place] = Mark(kind, text, node, place=given.cut_place)
    return list(result.values())


def unused(story: Story) -> list[Mark]:
    """Parameters that no graph of the story leads to."""
    reached = {id(leaf.variable) for leaf in story.leaves}
    names = [
        name
        for name, tensor in story.parameters()
        if tensor.requires_grad and tensor.is_leaf and id(tensor) not in reached
    ]
    if not names:
        return []
    require, them = ("requires", "it") if len(names) == 1 else ("require", "them")
    text = f"{listed(names)} {require} grad, but no backward pass reaches {them}."
    return [Mark("unused", text)]


# -- memory --------------------------------------------------------------------------------------


def memory(story: Story) -> list[Mark]:
    """The operation that keeps most memory, if a graph keeps much."""
    kept = story.kept()
    total = sum(size for _, size in kept)
    if total < MUCH:
        return []
    node, size = max(kept, key=lambda entry: entry[1])
    text = (
        f"The graph keeps {_size(total)} for the backward pass, of which {_size(size)} are kept by "
        f"{called(story, node)}."
    )
    return [Mark("memory", text, node, place=_place(node))]


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
