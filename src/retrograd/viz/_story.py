"""A recording and the graph that it is about, as one JSON document: a story.

The document has the keys that ``to_json`` puts together below. Beside what the name of a key says:

- ``place`` is a number of ``files`` and a line. The files of ``graph`` come first and have the same
  numbers here; for those that are not the program's own (site-packages) no lines are given.
- A pass has ``roots`` (all items that it began with), ``count`` (how many steps it took in all),
  ``left_out`` (steps beyond ``max_steps`` that are not in ``steps``; leaves are always there) and
  ``error`` (the message of the error that ended it, or null), and ``wrong`` (the lines of the
  program that caused the error, each with ``what`` it did).
  Its ``values`` are those of tensors in its forward run that differ from the ``value`` of their
  items, by item; null where the value is not known. ``forward`` has the operations that ran before
  it, oldest first (``_forward_steps.py``), and ``updates`` what optimizers did to leaves after it:
  one entry for each, with its value ``before`` and ``after``. A program without passes has its
  ``forward`` beside them.
- A step has ``name`` (of the node, as PyTorch gives it), ``number`` (its place among all steps of
  the pass), ``options`` (of the operation), ``arrived`` (as ``incoming``, before hooks changed it;
  null if none did), ``captured`` (the gradient was taken out here, by ``autograd.grad`` or
  ``inputs=``; it may go on from here nevertheless) and ``done`` (false for the step at which an
  error ended the pass). Its ``parts`` are there where more than one arrived, each with ``output``,
  the number of the output that it is for; one that is from null is what the pass was started with.
  Its rule has ``source`` where the user wrote it, ``named``: the formulas with the names of the
  program, and ``numbers``: with numbers.
- A mark has ``passes`` (numbers of the passes in which it is true; null: of the whole program),
  ``step`` (the pass, and the number of the step in its list: the first; null if it is about the
  forward run), ``steps`` (those of all these passes) and ``why`` (sentences: the cause, and what to
  do).
- ``wrong``: lines that the error which ended the program is about, as those of a pass.
- ``limits``: the most elements of which all are given, and how many passes were left out.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from retrograd._source import Place, is_own, line_number
from retrograd.autograd._node import NOWHERE, AccumulateGrad, Node
from retrograd.autograd._roots import GradientEdge
from retrograd.viz._answers import Answers
from retrograd.viz._forward_steps import Formulas, ForwardSteps
from retrograd.viz._marks import Mark, marks_of
from retrograd.viz._model import Files, Graph, walk
from retrograd.viz._naming import Names, named, tensors_in
from retrograd.viz._numbers import number
from retrograd.viz._pass_errors import PassError, is_installed
from retrograd.viz._pass_values import differing_values, make_room, use_first_values
from retrograd.viz._record_modules import Modules
from retrograd.viz._record_passes import PassRecord, Step
from retrograd.viz._record_tensors import Tensors
from retrograd.viz._record_updates import formulas
from retrograd.viz._repeats import stand_ins
from retrograd.viz._rules import rule_of
from retrograd.viz._values import Value

VERSION = 1
MOST_NUMBERS = 400_000  # elements in a document; larger arrays are summarised until it fits
MOST_LINES = 3000  # of a file
MOST_FORWARD = 2000  # steps of a program without passes
MOST_MEMORY = 1000  # items of which the memory is given
TAKEN_OUT = "The gradient is taken out here, because it was asked for; nothing is added to .grad."
LIMITS = (256, 64, 16, 4, 0)  # on the elements of an array, until the document is small enough


class Story:
    """What was recorded: forward on the nodes of a graph, backward in ``passes``."""

    def __init__(
        self, tensors: Tensors, modules: Modules, params: Any = None, title: str = ""
    ) -> None:
        self.passes: list[PassRecord] = []
        self.passes_left_out = 0
        self.results: list[Any] = []  # of a program without passes
        self.title = title
        self.tensors = tensors
        self.modules = modules
        self.answers = Answers()
        self.params = None if params is None else list(named(params))
        for name, tensor in self.params or ():
            tensors.name(tensor, name)

    def add(self, record: PassRecord) -> None:
        """Begin a pass."""
        self.passes.append(record)
        self.ends()

    def keep_results(self, variables: dict[str, Any]) -> None:
        """Keep what a program computed last, to be shown if it ran no backward pass: the tensors
        that its variables hold and that no other of them was computed from."""
        if self.passes:
            return
        held = list(variables.items())
        self.tensors.name_by(held)
        self.tensors.name_described()
        by_node = {t._node: t for _, t in tensors_in(held) if t._node is not None}
        used = set(walk(origin for node in by_node for origin in node.next_nodes)[0])
        self.results = [tensor for node, tensor in by_node.items() if node not in used]

    def ends(self) -> None:
        """Discard cached results: more has been recorded."""
        for known in ("graph", "leaves", "marks", "names", "nodes_by_pass"):
            self.__dict__.pop(known, None)

    # -- what it is about --------------------------------------------------------------------

    @cached_property
    def graph(self) -> Graph:
        """The graph of all nodes that passes began with; of graphs of the same structure, the
        first."""
        if not self.passes:
            if self.results:
                return Graph.of(self.results, names=self.names)
            if self.answers.has_cure:  # what went wrong is shown without a picture
                return Graph()
            raise RuntimeError(
                "nothing was recorded that could be shown: no backward pass was run in the "
                "recording. Call backward() or autograd.grad() inside it."
            )
        starts = [[node for node, _ in record.roots] for record in self.passes]
        alike = stand_ins(starts) if len(starts) > 1 else {}
        roots = dict.fromkeys(root for record in self.passes for root in record.roots)
        edges = [GradientEdge(node, number) for node, number in roots if node not in alike]
        graph = Graph.of(edges, names=self.names)
        graph.stand_ins = alike
        return graph

    @cached_property
    def nodes_by_pass(self) -> list[list[Node]]:
        """The operations that each pass could reach, oldest first."""
        return [walk(node for node, _ in record.roots)[0] for record in self.passes]

    @cached_property
    def names(self) -> Names:
        """What is known by name."""
        names = Names.of(self.params)
        for name, tensor in self.parameters():
            names.parameters.setdefault(id(tensor), name)
            names.add(name, tensor)
        for name, tensor in self.tensors.named():
            names.add(name, tensor)
        return names

    @cached_property
    def leaves(self) -> list[AccumulateGrad]:
        """The ends of the graph."""
        return [leaf for leaf in self.graph.leaves if isinstance(leaf, AccumulateGrad)]

    @cached_property
    def marks(self) -> list[Mark]:
        """What is notable."""
        return marks_of(self)

    def parameters(self) -> Iterator[tuple[str, Any]]:
        """The parameters that should have been used: those given, or those of modules called."""
        if self.params is not None:
            yield from self.params
            return
        for prefix, module in self.models():
            for name, tensor in module.named_parameters():
                yield prefix + name, tensor

    def models(self) -> Iterator[tuple[str, Any]]:
        """The outermost modules that were called, or that hold one which was and are held by a
        variable; and what comes before the names of their parameters. None if parameters were
        given."""
        if self.params is not None:
            return
        called = {id(module): module for r in self.modules.roots if (module := r()) is not None}
        for reference, prefix in list(self.tensors.models.values()):
            module = reference()
            if module is None or id(module) in called:
                continue
            inside = called.keys() & {id(part) for part in module.modules()}
            if inside:
                yield prefix, module
                called = {key: part for key, part in called.items() if key not in inside}
        for module in called.values():
            path = self.modules.path_of(module)
            yield (f"{path}." if path else ""), module

    def kept(self) -> list[tuple[Node, int]]:
        """How many bytes each node kept before the pass with the largest total."""
        totals = [sum(size for _, size in record.memory) for record in self.passes]
        if not totals:
            return []
        return self.passes[totals.index(max(totals))].memory

    def to_json(self, pictures: bool = True, **look: Any) -> dict[str, Any]:
        """The story in plain lists, dictionaries, strings and numbers, the same every time."""
        return Writer(self).write(pictures, look)


class Writer:
    """Makes the document of one story."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.graph = story.graph
        self.files = Files(self.graph.files)
        use_first_values(self.graph, story.passes)
        self.differing = [
            differing_values(self.graph, record, nodes)
            for record, nodes in zip(story.passes, story.nodes_by_pass, strict=True)
        ]
        self.limit = limit_for(story, self.differing)
        self.formulas = Formulas(self.graph)
        self.forward = ForwardSteps(self.formulas, self.value)
        self._items: dict[Node, int | None] = {}
        self._values: dict[int, dict[str, Any]] = {}  # by the id of the value; the story keeps it

    def write(self, pictures: bool, look: dict[str, Any]) -> dict[str, Any]:
        story = self.story
        marks = story.marks
        by_step: dict[tuple[int, int], list[int]] = {}
        for i, mark in enumerate(marks):
            for step in mark.steps:
                by_step.setdefault(step, []).append(i)
        bytes_kept = self.memory()
        make_room(self.graph, story.passes, self.differing)
        graph = self.graph.to_json(pictures=pictures, **look)
        sizes = dict(bytes_kept)
        for at in set().union(*self.differing):
            if graph["items"][at]["kind"] != "leaf":
                graph["items"][at]["grad"] = None  # of which pass it is would not be known
        for item in graph["items"]:
            if not item["bytes"] and item["id"] in sizes:
                item["bytes"] = sizes[item["id"]]
        passes = [self.one_pass(i, record, by_step) for i, record in enumerate(story.passes)]
        shown = [self.mark(mark) for mark in marks]
        return {
            "version": VERSION,
            "title": story.title or (passes[0]["how"] if passes else ""),
            "files": list(map(source_of, self.files.paths, self.files.lines)),
            "graph": graph,
            "passes": passes,
            "forward": [] if passes else self.forward.of(self.graph.nodes, MOST_FORWARD),
            "marks": shown,
            "wrong": self.wrong_lines(),
            "memory": {
                "total": sum(size for _, size in story.kept()),
                "items": [list(entry) for entry in bytes_kept[:MOST_MEMORY]],
            },
            "limits": {
                "elements": min(self.limit, story.tensors.max_elements),
                "passes_left_out": story.passes_left_out,
            },
        }

    # -- passes ------------------------------------------------------------------------------

    def one_pass(
        self, i: int, record: PassRecord, marks: dict[tuple[int, int], list[int]]
    ) -> dict[str, Any]:
        roots = [item for node, _ in record.roots if (item := self.item(node)) is not None]
        steps = [
            self.step(step, number, marks.get((i, k), []))
            for k, (step, number) in enumerate(zip(record.steps, record.numbers, strict=True))
        ]
        return {
            "root": roots[0] if roots else None,
            "roots": roots,
            "how": self.how(record.place),
            "place": self.place(record.place),
            "steps": steps,
            "forward": self.forward.of(self.story.nodes_by_pass[i], record.max_steps),
            "updates": list(self.updates(record)),
            "values": {str(item): self.value(value) for item, value in self.differing[i].items()},
            "count": record.count,
            "left_out": record.count - len(record.steps),
            "error": None if record.error is None else record.error.text,
            "wrong": [] if record.error is None else self.wrong(record.error),
        }

    def wrong(self, error: PassError) -> list[dict[str, Any]]:
        """The lines of the program that caused an error."""
        lines = [("changed a saved value", place) for place in error.changed]
        if error.raised is not None:
            lines.append(("raised the error", error.raised))
        lines_of = [(what, self.place(place)) for what, place in lines]
        return [{"what": what, "place": place} for what, place in lines_of if place is not None]

    def step(self, step: Step, number: int, marks: list[int]) -> dict[str, Any]:
        changed = any(a is not b for a, b in zip(step.arrived, step.incoming, strict=False))
        is_sum = len(step.parts) > 1
        known = self.formulas.variables(step.node)
        return {
            "item": self.item(step.node),
            "incoming": self.values(step.incoming),
            "parts": [
                {"from": self.item(part.sender), "output": part.number,
                 "value": self.value(part.value)}
                for part in (step.parts if is_sum else ())
            ],
            "rule": self.rule(step),
            "saved": [
                {"name": name, "variable": known.get(name), "value": self.value(value)}
                for name, value in step.saved
            ],
            "outgoing": [
                {"to": self.item(to), "value": self.value(value)} for to, value in step.outgoing
            ],
            "accumulate": self.accumulated(step),
            "marks": marks,
            "name": step.node.name(),
            "number": number,
            "options": step.options,
            "arrived": self.values(step.arrived) if changed else None,
            "captured": step.captured,
            "done": step.ran,
        }  # fmt: skip

    def rule(self, step: Step) -> dict[str, Any]:
        if step.captured and not step.outgoing:
            return {"words": TAKEN_OUT, "formulas": []}
        first = step.incoming[0] if step.incoming else None
        result = rule_of(step.node, None if first is None else first.shape).to_json()
        words, numbers = self.formulas.backward(step, result["formulas"])
        return {**result, "named": words, "numbers": numbers}

    def updates(self, record: PassRecord) -> Iterator[dict[str, Any]]:
        """What optimizers did to the leaves of the graph after a pass."""
        for update in record.updates:
            for change in update.changes:
                item = self.graph.tensor_item(change.tensor())
                if item is None or change.after is None:
                    continue
                name = self.graph.items[item].name or "leaf"
                simple = {n: x for n, x in change.options.items() if x and type(x) in (int, float)}
                yield {
                    "item": item, "optimizer": update.optimizer, "place": self.place(update.place),
                    "before": self.value(change.before), "grad": self.value(change.grad),
                    "after": self.value(change.after), "left_out": update.left_out,
                    "lines": formulas(update, change, name),
                    "options": {n: number(x) for n, x in simple.items()},
                }  # fmt: skip

    def accumulated(self, step: Step) -> dict[str, Any] | None:
        if not isinstance(step.node, AccumulateGrad) or step.captured or step.after is None:
            return None
        return {
            "leaf": self.item(step.node),
            "before": self.value(step.before),
            "after": self.value(step.after),
        }

    def values(self, values: list[Value | None]) -> list[dict[str, Any] | None]:
        return [self.value(value) for value in values]

    def value(self, value: Value | None) -> dict[str, Any] | None:
        """A value as JSON. The same value occurs several times: where it was sent, and where it
        arrived."""
        if value is None:
            return None
        result = self._values.get(id(value))
        if result is None:
            result = self._values[id(value)] = value.to_json(self.limit)
        return result

    def item(self, node: Node | None) -> int | None:
        """The item that represents a node; None if there is none."""
        if node is None or node is NOWHERE:
            return None
        if node not in self._items:
            self._items[node] = self.graph.item_of(node)
        return self._items[node]

    def how(self, place: Place) -> str:
        """The call that started a pass; its first line, if it has several."""
        code, offset = place
        if code is None:
            return "backward()"
        line = linecache.getline(code.co_filename, line_number(code, offset))
        first, last, start, end = list(code.co_positions())[offset // 2]
        if first == last and start is not None:
            line = line.encode()[start:end].decode(errors="replace")
        return line.strip() or "backward()"

    # -- the rest ----------------------------------------------------------------------------

    def mark(self, mark: Mark) -> dict[str, Any]:
        return {
            "kind": mark.kind,
            "item": self.item(mark.node),
            "step": None if mark.step is None else list(mark.step),
            "steps": [list(step) for step in mark.steps],
            "passes": mark.passes or None,
            "place": None if mark.place is None else self.place(mark.place),
            "text": mark.text,
            "why": mark.why,
        }

    def wrong_lines(self) -> list[dict[str, Any]]:
        """The lines that ended the program, and those that its error names."""
        answers = self.story.answers
        mark = answers.marks.get("error")
        ended = None if mark is None or mark.place is None else self.place(mark.place)
        lines = [] if ended is None else [{"what": "raised the error", "place": ended}]
        names = [os.path.basename(path) for path in self.files.paths]
        for what, file, line in answers.wrong:
            if os.path.basename(file) in names:
                place = [names.index(os.path.basename(file)), line]
                lines.append({"what": what, "place": place})
        return lines

    def memory(self) -> list[tuple[int, int]]:
        """Items and the bytes that they keep, the largest first."""
        sizes: dict[int, int] = {}
        for node, size in self.story.kept():
            item = self.item(node)
            if item is not None:
                sizes[item] = sizes.get(item, 0) + size
        return sorted(sizes.items(), key=lambda entry: (-entry[1], entry[0]))

    def place(self, place: Place) -> list[int] | None:
        code, offset = place
        if code is None or is_own(code.co_filename):
            return None
        return list(self.files.place(code.co_filename, line_number(code, offset)))


def source_of(path: str, used: set[int]) -> dict[str, Any]:
    """A file of the program, or the relevant part if it is very long."""
    lines = [] if is_installed(path) else [x.rstrip("\n") for x in linecache.getlines(path)]
    first = 1
    if len(lines) > MOST_LINES:
        first = max(min(used, default=1) - 50, 1)
        lines = lines[first - 1 : first - 1 + MOST_LINES]
    return {"name": os.path.basename(path), "first_line": first, "lines": lines}


def limit_for(story: Story, differing: list[dict[int, Value | None]]) -> int:
    """The size of the largest arrays whose elements are all given, so that the document stays small
    enough to open."""
    steps = [step for record in story.passes for step in record.steps]
    values = [value for step in steps for value in all_values(step)]
    values += [value for values in differing for value in values.values()]
    counts = [value.size for value in values if value is not None and value.complete]
    largest = story.tensors.max_elements
    for limit in (largest, *(x for x in LIMITS if x < largest)):
        if sum(count for count in counts if count <= limit) <= MOST_NUMBERS:
            return limit
    return 0


def all_values(step: Step) -> Iterator[Value | None]:
    yield from step.incoming
    yield from (part.value for part in step.parts)
    yield from (value for _, value in step.saved)
    yield from (value for _, value in step.outgoing)
    yield from (step.before, step.after)
