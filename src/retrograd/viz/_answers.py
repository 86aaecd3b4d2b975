"""Diagnoses with advice, made during recording while the program's variables exist.

``autograd.explain`` and the hints of errors give the sentences. Here is when to ask: after a pass,
before an optimizer's step, and when the program fails or looks at a ``.grad`` that stays None.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from retrograd._modes import modes, within
from retrograd._source import Place, user_frame, user_place
from retrograd.autograd._explaining import _reasons as reasons
from retrograd.autograd._explaining._explain import explain
from retrograd.autograd._explaining._facts import grad_of
from retrograd.autograd._explaining._model import Model
from retrograd.autograd._explaining._names import Names
from retrograd.autograd._explaining._singular import points_of_values
from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.viz._marks import Mark
from retrograd.viz._node_info import recorded_info
from retrograd.viz._pass_errors import PassError, is_installed, raised_at

if TYPE_CHECKING:
    from retrograd.viz._story import Story

MOST = 20  # tensors without a gradient that are looked into
TO_DO = "What to do: "


@dataclass(slots=True)
class Expected:
    """A tensor that should get a gradient."""

    reached: bool = False  # whether a pass has come to it
    why: list[str] = field(default_factory=list)  # why it was not, and what to do


class Answers:
    """What a recording knows of causes and cures."""

    def __init__(self) -> None:
        self.expected: dict[str, Expected] = {}  # parameters of models, by name
        self.marks: dict[Any, Mark] = {}  # by what they are about
        self.error: PassError | None = None  # that ended the program
        self.wrong: list[tuple[str, str, int]] = []  # what, file and line that it names
        # By id, with a reference that says whether it is still the same tensor:
        self._lost: dict[int, tuple[weakref.ref[Any], Mark]] = {}  # leaves without a gradient
        self._outside: dict[int, tuple[weakref.ref[Any], Mark]] = {}  # not in an optimizer
        self._stepped: dict[int, weakref.ref[Any]] = {}  # in one

    def all_marks(self) -> Iterator[Mark]:
        """All that was noted, and is still true."""
        yield from self.marks.values()
        yield from (mark for _, mark in self._lost.values())
        left = [mark for key, (_, mark) in self._outside.items() if key not in self._stepped]
        yield from {mark.text: mark for mark in left}.values()

    @property
    def has_cure(self) -> bool:
        """Whether there is something that the program does not say by itself."""
        return any(mark.why for mark in self.marks.values())

    # -- after a pass ------------------------------------------------------------------------

    def after_pass(self, story: Story, roots: Sequence[Node], leaves: Sequence[Node]) -> None:
        """Note what got no gradient in a pass, and what got several."""
        frame = user_frame(sys._getframe(1))
        if modes.levels or frame is None:
            return
        reached = [leaf.variable for leaf in leaves if isinstance(leaf, AccumulateGrad)]
        ids = {id(tensor) for tensor in reached}
        with within(observer=None, pass_observer=None, interceptors=()):
            self._note_parameters(story, Names(frame), set(roots), ids)
        for tensor in reached:
            self._lost.pop(id(tensor), None)
        self._note_sums(story, reached)

    def _note_parameters(
        self, story: Story, names: Names, roots: set[Node], reached: set[int]
    ) -> None:
        losses = tuple(t for _, t in names.tensors if t._node is not None and t._node in roots)
        known: set[int] = set()
        for prefix, module in story.models():
            model = None
            for path, p in module.named_parameters():
                if id(p) in known or not p.requires_grad or not p.is_leaf:
                    continue
                known.add(id(p))
                one = self.expected.setdefault(prefix + path, Expected())
                one.reached = one.reached or id(p) in reached
                if not one.reached and not one.why and len(self.expected) <= MOST:
                    model = model or Model(module, losses, None, names)
                    one.why = _why_unused(model, path, p)
        for name, tensor in story.params or ():
            if tensor.requires_grad and tensor.is_leaf and id(tensor) not in known:
                known.add(id(tensor))
                one = self.expected.setdefault(name, Expected())
                one.reached = one.reached or id(tensor) in reached
        for _, tensor in names.tensors:
            lost = tensor.requires_grad and tensor.is_leaf and grad_of(tensor) is None
            if lost and losses and id(tensor) not in known | reached | self._lost.keys():
                self._note_cut(tensor, losses)

    def _note_cut(self, tensor: Any, losses: tuple[Any, ...]) -> None:
        """Note a leaf whose history the program has cut off, or that is in a plain list."""
        if len(self._lost) >= MOST:
            return
        story = explain(tensor, losses)
        if story.todo:
            why = [*story.known, f"{TO_DO}{' '.join(story.todo)}"]
            mark = Mark("unused", story.headline, why=why)
            self._lost[id(tensor)] = weakref.ref(tensor), mark

    def _note_sums(self, story: Story, reached: list[Any]) -> None:
        """Note that several passes have added to a gradient."""
        summed = [(tensor, added) for tensor in reached if (added := reasons.added_by(tensor))]
        if not summed:
            return
        tensor, added = summed[0]
        name = story.tensors.name_of(tensor) or "a leaf"
        also = f", and to {len(summed) - 1} more" if len(summed) > 1 else ""
        count = tensor._meta.added
        text = f"{name}.grad is the sum of {count} passes{also}."
        cure = TO_DO + " ".join(reasons.ZERO_FIRST).format(x=name)
        place = tensor._meta.last_pass[3:]
        self.marks["sum"] = Mark("summed", text, place=place, why=[" ".join(added), cure])

    # -- during the program ------------------------------------------------------------------

    def before_step(self, story: Story, optimizer: Any) -> None:
        """Note parameters with a gradient that an optimizer does not have."""
        frame = user_frame(sys._getframe(1))
        own = [p for group in optimizer.param_groups for p in group["params"]]
        self._stepped.update((id(p), weakref.ref(p)) for p in own)
        ids = {id(p) for p in own}
        for prefix, module in story.models():
            outside = [
                (name, p)
                for name, p in module.named_parameters()
                if id(p) not in ids and id(p) not in self._outside and grad_of(p) is not None
            ]
            model = Model(module, (), optimizer, Names(frame)) if outside else None
            for i, (name, p) in enumerate(outside):
                assert model is not None
                if not i:
                    model.name = prefix.rstrip(".") or model.name
                    mark = _not_stepped(model, name, p, user_place(2))
                self._outside[id(p)] = weakref.ref(p), mark

    def asked_for_grad(self, tensor: Any) -> None:
        """Note that the program looks at the ``.grad`` of a result, which is None."""
        place = user_place(2)
        if place not in self.marks:
            with within(observer=None, pass_observer=None, interceptors=()):
                story = explain(tensor)
            why = [*story.known, f"{TO_DO}{' '.join(story.todo)}"]
            self.marks[place] = Mark("no_gradient", story.headline, tensor._node, place=place,
                                     why=why)  # fmt: skip

    def warned(self, message: str) -> None:
        """Note a warning that says what to do."""
        first, *more = message.splitlines()
        frame: Any = sys._getframe(1)
        while frame is not None and is_installed(frame.f_code.co_filename):
            frame = frame.f_back
        place = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        self.marks[place, first] = Mark("warning", first, place=place,
                                        why=[line.strip() for line in more])  # fmt: skip

    def failed(self, story: Story, error: BaseException) -> None:
        """Note the error that ended the program, unless it ended a pass."""
        notes = getattr(error, "__notes__", ())
        self.wrong += cut_lines("\n".join(notes))
        if any(record.error is not None and record.error.notes is notes for record in story.passes):
            return
        self.error = PassError.of(error, None, (None, 0))
        place = self.error.raised or raised_at(error)
        text = f"The program ended in an error. {self.error.message}"
        lines = [line.strip() for note in notes for line in note.splitlines()]
        self.marks["error"] = Mark("error", text.partition("\n")[0], place=place, why=lines)


def _not_stepped(model: Model, name: str, p: Any, place: Place) -> Mark:
    """A parameter that no step changes."""
    cause, _, cure = model.outside(name, p)[2].partition(": ")
    text = f"{model.name}.{name} has a gradient, but no step changes it."
    return Mark("not_stepped", text, place=place, why=[f"{cause}.", f"{TO_DO}{cure}"])


def _why_unused(model: Model, path: str, p: Any) -> list[str]:
    """Why a parameter gets no gradient, and what to do."""
    before = len(model.to_do)
    why = model.why_none(path, p)
    to_do = [text for _, text in model.to_do[before:]]
    return [f"{model.name}.{path} is {why}.", *(TO_DO + text for text in to_do)]


def cut_lines(text: str) -> list[tuple[str, str, int]]:
    """The lines that cut a graph: what each does, its file, and its line."""
    cut = re.findall(r"is cut at (\S+):(\d+) by (\S+?):? ", text)
    return [(f"{how} cuts the graph", file, int(line)) for file, line, how in cut]


def forward_causes(nodes: Sequence[Node]) -> dict[Node, list[str]]:
    """Why the first results that are not finite are so, as far as operations know."""
    causes: dict[Node, list[str]] = {}
    for node in nodes:
        info = recorded_info(node)
        if info is not None and not all(d.value is None or d.value.finite for d in info.outputs):
            causes[node] = points_of_values(node)
            if len(causes) == 2:
                break
    return causes
