"""What is notable in a story: errors, NaN and infinity, gradients that explode or vanish, tensors
that were detached, unused parameters, and what a graph keeps in memory.

Thresholds compare the Euclidean norm of the gradient that arrives at a node with that of the
gradient that the pass began with. Norms, unlike elements, hardly change with sums and means: a sum
over n elements makes the norm √n times as large, a mean √n times smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from retrograd._source import Place, describe, short
from retrograd.autograd._explaining._words import bytes_text
from retrograd.autograd._node import NOWHERE, AccumulateGrad, Node
from retrograd.viz._facts import label_of
from retrograd.viz._node_info import Described, NodeInfo, recorded_info
from retrograd.viz._record_passes import PassRecord, Step
from retrograd.viz._values import Value

if TYPE_CHECKING:
    from retrograd.viz._story import Story

EXPLODING = 1e4  # times the norm that the pass began with
VANISHING = 1e-6
MOST = 20  # marks of cuts
NAMED = 4  # of several that a mark is about
WORDS = {"inf": "Inf", "nan": "NaN"}  # an infinity comes before the NaN that it causes
CUTS = {"detach": "detach()", "item": "item()", "no_grad": "being computed in no_grad mode"}
MUCH = 10**6  # bytes kept by a graph that are worth a mark
SEVERITY = (
    ("error", "differs"),
    ("nan", "inf"),
    ("not_stepped", "warning"),
    ("exploding",),
    ("unused", "no_gradient"),
    ("summed",),
    ("vanishing",),
    ("detached", "no_grad"),
)


@dataclass(slots=True)
class Mark:
    """Something notable, and where it is."""

    kind: str
    text: str
    node: Node | None = None
    step: tuple[int, int] | None = None  # the pass, and the number of the step in its list
    place: Place | None = None
    about: Any = None  # what is the same in every pass that it happens in
    passes: list[int] = field(default_factory=list)  # that it is about; none: about all
    later: list[tuple[int, int]] = field(default_factory=list)  # steps of later passes, as ``step``
    why: list[str] = field(default_factory=list)  # the cause, and what to do, in sentences

    @property
    def steps(self) -> list[tuple[int, int]]:
        """The steps of all passes that it happens in."""
        return [] if self.step is None else [self.step, *self.later]


def marks_of(story: Story) -> list[Mark]:
    """All marks of a story: the most severe first, and those of the same severity in the order in
    which things happened."""
    bad_numbers: list[Mark] = []
    in_forward: list[Mark] = []
    in_passes: list[Mark] = []
    known: set[Node] = set()
    for number, record in enumerate(story.passes):
        new = [node for node in story.nodes_by_pass[number] if node not in known]
        known.update(new)
        forward = [*forward_not_numbers(story, number, record, new)]
        backward = [*not_numbers(story, number, record)]
        in_forward += forward
        bad_numbers += [*forward, *backward]
        in_passes += sizes(story, number, record)
    later = {id(m) for kind in WORDS for m in [m for m in in_forward if m.kind == kind][1:]}
    first = [mark for mark in once(bad_numbers) if id(mark) not in later]
    marks = [
        *errors(story), *first, *cuts(story), *once(in_passes), *unused(story), *memory(story),
        *story.answers.all_marks(),
    ]  # fmt: skip
    return sorted(marks, key=severity)


def severity(mark: Mark) -> int:
    """The position of a mark among others: the worst comes first."""
    return next((i for i, kinds in enumerate(SEVERITY) if mark.kind in kinds), len(SEVERITY))


def once(marks: list[Mark]) -> list[Mark]:
    """Marks that several passes have in common are reported for the first, with their number."""
    passes: dict[Any, list[Mark]] = {}
    for mark in marks:
        passes.setdefault((mark.kind, mark.about), []).append(mark)
    for first, *later in passes.values():
        if later:
            later_passes = "in 1 later pass" if len(later) == 1 else f"in {len(later)} later passes"
            first.text += f" The same happens {later_passes}."
            first.passes += [number for mark in later for number in mark.passes]
            first.later += [mark.step for mark in later if mark.step is not None]
    return [first for first, *_ in passes.values()]


def errors(story: Story) -> Iterator[Mark]:
    """The errors that ended passes."""
    for number, record in enumerate(story.passes):
        error = record.error
        if error is None:
            continue
        start = "The pass" if len(story.passes) == 1 else f"Pass {number + 1}"
        at_node = "" if error.node is None else f" at {called(story, error.node)}"
        changed = "".join(
            f"A saved value was changed at {short(describe(place))}. " for place in error.changed
        )
        text = f"{start} ended in an error{at_node}. {changed}{error.first_sentence}."
        at, last = None, len(record.steps) - 1
        if record.steps and not record.steps[last].ran:
            at = (number, last)
        node = None if error.node is NOWHERE else error.node
        place = next(iter(error.changed), error.raised) or record.place
        why = [line.strip() for note in error.notes for line in note.splitlines()]
        yield Mark("error", text, node, at, place, passes=[number], why=why)


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


def forward_not_numbers(
    story: Story, number: int, record: PassRecord, nodes: list[Node]
) -> list[Mark]:
    """Where Inf and NaN first appear in the forward run of a pass, which created ``nodes``. If that
    was not recorded, the values that nodes have saved are used."""
    saved = {step.node: step.saved for step in record.steps}
    result: list[tuple[int, Mark]] = []
    for kind, word in WORDS.items():
        for at, node in enumerate(nodes):
            info = recorded_info(node)
            if info is None:
                text = _in_saved(story, node, saved.get(node, ()), kind)
            else:
                text = _in_info(story, node, info, kind)
            if text is not None:
                place = _place(node)
                text = f"{word} first appears in {text}."
                start = _when(story, number, "forward")
                mark = Mark(kind, f"{start}: {text}", node, None, place, (text, place), [number])
                mark.why = record.causes.get(node, [])
                result.append((at, mark))
                break
    return [mark for _, mark in sorted(result, key=lambda entry: entry[0])]


def _when(story: Story, number: int, phase: str) -> str:
    """The beginning of a text: ``Forward``, or ``Pass 2, forward`` where there are several."""
    return phase.capitalize() if len(story.passes) == 1 else f"Pass {number + 1}, {phase}"


def _in_info(story: Story, node: Node, info: NodeInfo, kind: str) -> str | None:
    """Whether an operation received or produced NaN or Inf, as text."""
    outputs = [d for d in info.outputs if bad([d.value], kind)]
    if not outputs and not (kind == "inf" and any(bad([d.value], "nan") for d in info.outputs)):
        return None  # an infinity in an input matters if it is passed on or becomes NaN
    for described in info.inputs:
        if described is not None and bad([described.value], kind):
            return f"{described.name or 'an input'}, which {called(story, node)} was given"
    if not outputs:
        return None
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


def not_numbers(story: Story, number: int, record: PassRecord) -> list[Mark]:
    """Where Inf and NaN first appear in a backward pass."""
    result: list[tuple[int, Mark]] = []
    for kind, word in WORDS.items():
        first = next(
            (k for k, step in enumerate(record.steps) if _came(step, kind) or _left(step, kind)),
            None,
        )
        node, when = record.first_late.get(kind, (None, 0))
        at = None
        if node is not None and (first is None or when < record.numbers[first]):
            name = called(story, node)
            text = f"first appears in a gradient that {name} passes on, step {when + 1}"
        elif first is not None:
            node, at, when = record.steps[first].node, (number, first), record.numbers[first]
            text = (
                f"is already in the gradient that arrives at {called(story, node)}"
                if _came(record.steps[first], kind)
                else f"first appears in a gradient that {called(story, node)} passes on"
            )
        else:
            continue
        place, start = _place(node), _when(story, number, "backward")
        mark = Mark(kind, f"{start}: {word} {text}.", node, at, place, (text, place), [number])
        mark.why = record.why.get(kind, [])
        result.append((when, mark))
    return [mark for _, mark in sorted(result, key=lambda entry: entry[0])]


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
            at, place = (number, zeros[0]), _place(nodes[0])
            yield Mark(kind, text, nodes[0], at, place, text, [number])


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
    return Mark(kind, text, nodes[0], (number, most), _place(nodes[0]), about, [number])


# -- what gets no gradient -----------------------------------------------------------------------


def cuts(story: Story) -> list[Mark]:
    """Inputs of the graph that were detached from their history."""
    result: dict[Any, Mark] = {}
    for number, nodes in enumerate(story.nodes_by_pass):
        for node in nodes:
            info = recorded_info(node)
            for described in info.inputs if info is not None else ():
                if described is None or described.cut is None:
                    continue
                mark = result.get(described.cut_place)
                if mark is None and len(result) < MOST:
                    mark = result[described.cut_place] = _cut(story, node, described)
                if mark is not None and number not in mark.passes:
                    mark.passes.append(number)
    return list(result.values())


def _cut(story: Story, node: Node, described: Described) -> Mark:
    """The mark of an input of a node that was detached."""
    assert described.cut is not None
    name = described.name or ("A number" if described.cut == "item" else "A tensor")
    text = (
        f"{name}, which {called(story, node)} uses, was cut off from its history by "
        f"{CUTS[described.cut]}: no gradient flows through it."
    )
    kind = "no_grad" if described.cut == "no_grad" else "detached"
    return Mark(kind, text, node, place=described.cut_place)


def unused(story: Story) -> list[Mark]:
    """Parameters that no pass has come to."""
    lost = {name: one for name, one in story.answers.expected.items() if not one.reached}
    if not lost:
        return []
    require, them = ("requires", "it") if len(lost) == 1 else ("require", "them")
    text = f"{listed(list(lost))} {require} grad, but no backward pass reaches {them}."
    return [Mark("unused", text, why=next(iter(lost.values())).why)]


# -- memory --------------------------------------------------------------------------------------


def memory(story: Story) -> list[Mark]:
    """The operation that keeps most memory, if a graph keeps much."""
    bytes_kept = story.kept()
    total = sum(size for _, size in bytes_kept)
    if total < MUCH:
        return []
    node, size = max(bytes_kept, key=lambda entry: entry[1])
    text = (
        f"The graph keeps {bytes_text(total)} for the backward pass, of which {bytes_text(size)} "
        f"are kept by {called(story, node)}."
    )
    passes = [i for i, record in enumerate(story.passes) if record.memory is bytes_kept]
    return [Mark("memory", text, node, place=_place(node), passes=passes)]
