"""``difference``: the first step at which two recordings of a program differ."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from retrograd import arrays
from retrograd._source import describe, short
from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.viz._marks import Mark, called
from retrograd.viz._node_info import recorded_info
from retrograd.viz._page import Page
from retrograd.viz._story import Story
from retrograd.viz._values import Value

ROUNDING = 100  # times the precision of the coarser dtype, which is taken for rounding
EPSILON = {"float16": 2.0**-10, "complex64": 2.0**-23, "float32": 2.0**-23, "float64": 2.0**-52,
           "complex128": 2.0**-52, "bfloat16": 2.0**-7}  # fmt: skip
KINDS = {"operation": "operations", "leaf": "leaves", "value": "values", "gradient": "gradients"}
SHOWN = 6  # elements of a value in a text
LISTED = 10  # differences in a text


@dataclass(frozen=True)
class Part:
    """One thing in which two recordings differ."""

    kind: str  # "operation", "leaf", "value" or "gradient"
    text: str  # what differs: ``the result of Exp``
    number: int  # of the pass, from 0
    first: str | None  # the line in the first recording, ``train.py:12: y = x.exp()``
    second: str | None
    a: Value | None = None
    b: Value | None = None
    size: float = math.inf  # relative to the largest element
    node: Node | None = None  # of the first recording
    step: int | None = None  # of the pass, for a gradient

    def lines(self) -> list[str]:
        """All of it in sentences."""
        where = f" at {self.first}" if self.first else ""
        lines = [f"{self.text}{where}"]
        if self.second is not None and self.second != self.first:
            lines.append(f"  in the second recording at {self.second}")
        if self.a is not None and self.b is not None:
            far = "" if math.isinf(self.size) else f", {self.size:.2g} of the largest element"
            lines += [f"  first:  {shown(self.a)}", f"  second: {shown(self.b)}{far}"]
        return lines


@dataclass(frozen=True, repr=False)
class Difference:
    """The differences between two recordings, in order. ``str`` gives a report.

    - ``parts``: all differences; ``first``: the first of them, or None if there is none.
    - ``page()``: the first recording as a page, in which the places are marked; ``save(path)``
      writes it.
    """

    parts: tuple[Part, ...]
    a: Story
    compared: int  # how many values and gradients were compared

    @property
    def first(self) -> Part | None:
        return self.parts[0] if self.parts else None

    def __str__(self) -> str:
        if self.first is None:
            return f"No difference in {self.compared:,} values and gradients."
        lines = [f"Pass {self.first.number + 1}: the first difference is in {_first(self.first)}"]
        lines += self.first.lines()[1:]
        rest = self.parts[1:]
        if rest:
            lines.append(f"{len(rest):,} more of {self.compared:,} values and gradients differ:")
            lines += [
                f"  {part.lines()[0]}" + ("" if math.isinf(part.size) else f" ({part.size:.2g})")
                for part in rest[:LISTED]
            ]
            lines += [f"  ... {len(rest) - LISTED:,} more"] if len(rest) > LISTED else []
        return "\n".join(lines)

    __repr__ = __str__

    def page(self) -> Page:
        """The first recording as a page that steps through its passes, with a mark at the first
        difference of each kind."""
        kinds: dict[str, Part] = {}
        for part in self.parts:
            kinds.setdefault(part.kind, part)
        before = self.a.answers.marks
        self.a.answers.marks = {**before, **{kind: _mark(part) for kind, part in kinds.items()}}
        self.a.ends()
        try:
            return Page(self.a.to_json())
        finally:
            self.a.answers.marks = before
            self.a.ends()

    def save(self, path: Any) -> None:
        """Write the page to a file."""
        self.page().save(path)


def difference(a: Any, b: Any, *, tolerance: float | None = None) -> Difference:
    """Find the first step at which two recordings of a program differ: in double and single
    precision, with two seeds, before and after an edit, or with two versions of a library.

    Values of the forward run and gradients are compared pass by pass, in the order in which they
    were computed.

    Args:
        a: what ``viz.recording`` gave for the first run.
        b: the same for the second.
        tolerance: differences up to this share of the largest element are rounding. By default, a
            hundred times the precision of the coarser dtype of the two.

    Returns:
        The differences, to be printed; ``.save("page.html")`` shows them on the graph.

    Example:
        >>> import retrograd as torch
        >>> from retrograd import viz
        >>> def run(dtype):
        ...     x = torch.tensor([1.0, 1e-8], dtype=dtype, requires_grad=True)
        ...     with viz.recording() as story:
        ...         y = (1 + x) - 1
        ...         y.sum().backward()
        ...     return story
        >>> result = viz.difference(run(torch.float64), run(torch.float32), tolerance=1e-9)
        >>> print(result.first.kind, result.first.text)
        value the result of Add
    """
    for story in (a, b):
        if not isinstance(story, Story):
            raise TypeError(
                "viz.difference takes what viz.recording gave, two of it, but got a "
                f"{type(story).__name__}"
            )
    comparison = Comparison(a, b, tolerance)
    parts = tuple(comparison.parts())
    return Difference(parts, a, comparison.count)


class Comparison:
    """Goes through two stories side by side."""

    def __init__(self, a: Story, b: Story, tolerance: float | None) -> None:
        self.a, self.b, self.tolerance = a, b, tolerance
        self.count = 0
        self._seen: set[Node] = set()
        self._seen_constants: set[tuple[int, int]] = set()

    def parts(self) -> Iterator[Part]:
        for number, (first, second) in enumerate(zip(self.a.passes, self.b.passes, strict=False)):
            nodes = self.a.nodes_by_pass[number], self.b.nodes_by_pass[number]
            pairs = list(itertools.zip_longest(*nodes))
            apart = next((i for i, pair in enumerate(pairs) if not _alike(*pair)), None)
            yield from self._leaves(number, first.leaf_values, second.leaf_values)
            yield from self._forward(number, pairs[:apart])
            if apart is not None:
                yield self._operations(number, *pairs[apart])
                return  # what follows cannot be compared
            yield from self._backward(number, first.steps, second.steps)
        if len(self.a.passes) != len(self.b.passes):
            counts = f"{len(self.a.passes)} and {len(self.b.passes)}"
            last = min(len(self.a.passes), len(self.b.passes))
            yield Part("operation", f"the number of passes: {counts}", last, None, None)

    def _leaves(self, number: int, first: Any, second: Any) -> Iterator[Part]:
        for (node, a), (other, b) in zip(first.items(), second.items(), strict=False):
            part = self._compared("leaf", number, node, other, a, b)
            if part is not None:
                yield replace(part, text=called(self.a, node))

    def _forward(self, number: int, pairs: list[Any]) -> Iterator[Part]:
        for node, other in pairs:
            first, second = recorded_info(node), recorded_info(other)
            if node in self._seen or first is None or second is None:
                continue
            self._seen.add(node)
            for one, two in zip(first.inputs, second.inputs, strict=False):
                if one is None or two is None or not one.constant:
                    continue
                if (one.identity, two.identity) not in self._seen_constants:
                    self._seen_constants.add((one.identity, two.identity))
                    part = self._compared("value", number, node, other, one.value, two.value)
                    if part is not None:
                        name = one.name or "an input"
                        yield replace(part, text=f"{name}, which {called(self.a, node)} was given")
            for one, two in zip(first.outputs, second.outputs, strict=False):
                part = self._compared("value", number, node, other, one.value, two.value)
                if part is not None:
                    name = f", {one.name}" if one.name else ""
                    yield replace(part, text=f"the result of {called(self.a, node)}{name}")

    def _backward(self, number: int, first: Any, second: Any) -> Iterator[Part]:
        for at, (step, other) in enumerate(zip(first, second, strict=False)):
            for one, two in zip(step.incoming, other.incoming, strict=False):
                part = self._compared("gradient", number, step.node, other.node, one, two)
                if part is not None:
                    text = f"the gradient that arrives at {called(self.a, step.node)}"
                    yield replace(part, text=text, step=at)

    def _operations(self, number: int, node: Node | None, other: Node | None) -> Part:
        names = [
            "no operation" if n is None else called(story, n)
            for story, n in ((self.a, node), (self.b, other))
        ]
        text = f"the operation: {names[0]} in the first, {names[1]} in the second"
        return Part("operation", text, number, _line(node), _line(other), node=node)

    def _compared(
        self, kind: str, number: int, node: Node, other: Node, a: Value | None, b: Value | None
    ) -> Part | None:
        if a is None or b is None:
            return None
        self.count += 1
        size = distance(a, b)
        limit = self.tolerance
        if limit is None:
            limit = ROUNDING * max(EPSILON.get(a.dtype, 0.0), EPSILON.get(b.dtype, 0.0))
        if size <= limit:
            return None
        return Part(kind, "", number, _line(node), _line(other), a, b, size, node)


def distance(a: Value, b: Value) -> float:
    """How far two values are apart, relative to the largest element; of large ones, as far as their
    summaries tell. Infinite if their shapes differ, or only one has a NaN somewhere."""
    if a.shape != b.shape or (a.nan, a.inf) != (b.nan, b.inf):
        return math.inf
    first, second = a.array, b.array
    if first is None or second is None:
        keys = ("min", "max", "mean", "norm")
        pairs = [(a.summary[key], b.summary[key]) for key in keys]
        numbers = [(x, y) for x, y in pairs if isinstance(x, float) and isinstance(y, float)]
        scale = max((max(abs(x), abs(y)) for x, y in numbers), default=0.0)
        return max((abs(x - y) for x, y in numbers), default=0.0) / scale if scale else 0.0
    kind = arrays.complex128 if "c" in (first.dtype.kind, second.dtype.kind) else arrays.float64
    first, second = arrays.cast(first, kind), arrays.cast(second, kind)
    finite = arrays.isfinite(first)
    if not arrays.all(finite == arrays.isfinite(second)):
        return math.inf
    first, second = arrays.asarray(first)[finite], arrays.asarray(second)[finite]
    scale = max((float(abs(x).max()) for x in (first, second) if x.size), default=0.0)
    return float(abs(first - second).max()) / scale if scale else 0.0


def shown(value: Value) -> str:
    """The first elements of a value, with its dtype and shape."""
    summary = value.to_json()
    data = summary["data"] if summary["data"] is not None else summary["some"]
    numbers = ", ".join(f"{x:.9g}" if isinstance(x, float) else str(x) for x in data[:SHOWN])
    ellipsis = ", ..." if value.size > SHOWN else ""
    return f"{numbers}{ellipsis} ({value.dtype} {list(value.shape)})"


def _alike(node: Node | None, other: Node | None) -> bool:
    return node is not None and other is not None and node.name() == other.name()


def _line(node: Node | None) -> str | None:
    if node is None or isinstance(node, AccumulateGrad):
        return None
    return short(describe((node.code, node.lasti)))


def _first(part: Part) -> str:
    return part.lines()[0]


def _mark(part: Part) -> Mark:
    at = None if part.step is None else (part.number, part.step)
    text = f"Pass {part.number + 1}: the first difference of {KINDS[part.kind]}: {_first(part)}"
    why = [line.strip() for line in part.lines()[1:]]
    return Mark("differs", text, part.node, at, passes=[part.number], why=why)
