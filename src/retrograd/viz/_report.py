"""``Report``: an HTML report of a training run, updated while it runs."""

from __future__ import annotations

import atexit
import math
import statistics
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from retrograd import arrays
from retrograd._modes import Scope, modes
from retrograd._source import describe, short
from retrograd.autograd._engine import Root, Task
from retrograd.autograd._explaining._amounts import norm_of
from retrograd.autograd._explaining._facts import grad_of
from retrograd.autograd._explaining._model import LARGE, SMALL
from retrograd.autograd._node import Node
from retrograd.files._atomic import write_whole
from retrograd.viz._flow import _kind as kind_of_norm
from retrograd.viz._marks import listed
from retrograd.viz._model import walk
from retrograd.viz._naming import named
from retrograd.viz._page import Page, filled
from retrograd.viz._recording import record_roots
from retrograd.viz._story import Story
from retrograd.viz._values import _histogram as histogram

SECONDS = 2.0  # between two versions of the file, at least
SHARE = 50  # writing takes at most one part of so many of the time
MOST_POINTS = 1000  # of a curve
MOST_SAMPLES = 100  # of each parameter
USUAL = 5  # samples whose median counts
ORDER = ("nan", "exploding", "unused", "vanishing", "recorded")  # of findings
SCRIPTS = ("dom", "values", "theme", "charts", "report")
ANOMALY = (
    "What to do: call torch.autograd.set_detect_anomaly(True), which names the operation that a "
    "NaN comes from."
)
NO_GRADIENT = "{names} {get} no gradient: no backward pass reaches {them}."


class Series:
    """Numbers by step. When there are too many, each pair becomes its mean."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self.points: list[tuple[int, float]] = []
        self._most, self._width = most, 1
        self._pending: list[float] = []

    def add(self, step: int, value: float) -> None:
        self._pending.append(value)
        if len(self._pending) < self._width:
            return
        self.points.append((step, _mean(self._pending)))
        self._pending = []
        if len(self.points) >= self._most:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            self.points = [(step, _mean([a, b])) for (_, a), (step, b) in pairs]
            self._width *= 2

    def to_json(self) -> dict[str, list[Any]]:
        points = self.points + ([(self.points[-1][0] + len(self._pending), _mean(self._pending))]
                                if self._pending and self.points else [])  # fmt: skip
        return {"x": [x for x, _ in points], "y": [_number(y) for _, y in points]}


class Samples:
    """What is known of one parameter at some steps."""

    def __init__(self, name: str, tensor: Any) -> None:
        self.name, self.tensor = name, tensor
        self.norms: list[tuple[int, float]] = []  # of gradients
        self.ratios: list[tuple[int, float]] = []  # of updates to weights
        self.norm: float | None = None  # of the gradient of the last pass
        self.before: Any = None  # the weights before a step
        self.gradient: dict[str, Any] | None = None  # its histogram

    def kind(self, largest: float) -> str | None:
        """What is remarkable about the latest gradient."""
        norms = [norm for _, norm in self.norms]
        if not norms or not math.isfinite(norms[-1]):
            return "nan" if norms else None
        return kind_of_norm(norms[-1], [x for x in norms[:-1] if math.isfinite(x)], largest)

    def to_json(self, largest: float) -> dict[str, Any]:
        tensor = self.tensor
        return {
            "name": self.name, "shape": list(tensor.shape), "mark": self.kind(largest),
            "frozen": not tensor.requires_grad,
            "norms": [[step, _number(x)] for step, x in self.norms],
            "ratios": [[step, _number(x)] for step, x in self.ratios],
            "weights": counted(tensor._data), "gradient": self.gradient,
        }  # fmt: skip


class Watching(Scope):
    """While it is open, a report is told of every backward pass of the thread."""

    def __init__(self, report: Report) -> None:
        self._report = weakref.ref(report)
        self._outer = modes.pass_observer

    def changes(self) -> dict[str, Any]:
        return {"pass_observer": self._observe}

    def _observe(self, task: Task, loop: Callable[[Task], Any]) -> Any:
        report, outer = self._report(), self._outer
        inner = loop if outer is None else lambda task: outer(task, loop)
        return inner(task) if report is None else report._pass(task, inner)


class Report:
    """A report of a training run, in one HTML file that can be opened at any time: the loss, the
    norms of gradients, the size of updates relative to the weights, histograms of both, and the
    first NaN with its cause.

    The file is replaced as the run goes on, every two seconds at most, and is always whole; an open
    page shows the new one. When a gradient is NaN or infinite for the first time, the pass that
    made it is recorded in a page of its own, which the report links to. To find out what was the
    cause, the graph is kept until the pass is over, not freed along the way.

    Args:
        path: the file, ``run.html``.
        model: the Module that is trained, or a dictionary of tensors by name.
        optimizer: for the learning rate.
        title: the title of the page.
        every: parameters are looked at in every so many steps. When there are many samples, every
            second is forgotten.
        passes: numbers of steps whose backward pass is to be recorded in a page of its own.
        causes: whether to find out where the first NaN comes from.

    Example:
        >>> import retrograd as torch, tempfile, os
        >>> from retrograd import viz
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> folder = tempfile.TemporaryDirectory()
        >>> report = viz.Report(os.path.join(folder.name, "run.html"), model, optimizer)
        >>> for _ in range(5):
        ...     optimizer.zero_grad()
        ...     loss = model(torch.ones(4, 2)).square().mean()
        ...     loss.backward()
        ...     optimizer.step()
        ...     report.step(loss)
        >>> report.close()
        >>> os.listdir(folder.name)
        ['run.html']
        >>> folder.cleanup()
    """

    def __init__(
        self,
        path: Any,
        model: Any,
        optimizer: Any = None,
        *,
        title: str | None = None,
        every: int = 10,
        passes: Sequence[int] = (),
        causes: bool = True,
    ) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, but is {every}")
        self.path = Path(path)
        self.title = self.path.stem if title is None else title
        self.marks: list[dict[str, Any]] = []
        self._model = model
        self._samples = [Samples(name, tensor) for name, tensor in named(model)]
        self._samples = [s for s in self._samples if s.tensor._data.dtype.kind in "fcV"]
        self._optimizer = optimizer
        self._every, self._passes, self._causes = every, set(passes), causes
        self._curves: dict[str, Series] = {}
        self._step = 0
        self._seen_pass = self._found = False
        self._began = time.monotonic()
        self._due = self._began + SECONDS  # when the file is written next
        self._done = False
        self._watching = Watching(self)
        self._watching.__enter__()
        reference = weakref.ref(self)
        self._at_exit = lambda: report.close() if (report := reference()) is not None else None
        atexit.register(self._at_exit)
        self._write()

    # -- what happens ------------------------------------------------------------------------

    def step(self, loss: Any = None, **figures: Any) -> None:
        """Records the end of a training step.

        Args:
            loss: its loss, a tensor of one element or a number.
            **figures: other numbers to draw a curve of: ``accuracy=0.97``.
        """
        self._step += 1
        if not self._seen_pass:
            self._look_at_gradients()
        self._seen_pass = False
        total = [s.norm for s in self._samples if s.norm is not None]
        if total:
            self._add("gradient norm", math.hypot(*total))
        if loss is not None:
            figures = {"loss": loss, **figures}
        for name, value in figures.items():
            number = float(value.item() if hasattr(value, "item") else value)
            self._add(name, number)
            if name == "loss" and not math.isfinite(number):
                self._note_loss(number)
        if self._optimizer is not None:
            self._add("learning rate", float(self._optimizer.param_groups[0]["lr"]))
        self._sample()
        now = time.monotonic()
        if now >= self._due:
            self._write()
            self._due = time.monotonic() + max(SECONDS, SHARE * (time.monotonic() - now))

    def continue_from(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Continues the report of a resumed run, given its previous curves.

        Args:
            records: the figures of some steps by name, each with its ``step``.
        """
        for record in records:
            self._step = int(record["step"])
            for name, value in record.items():
                if name not in ("step", "epoch", "seconds") and isinstance(value, (int, float)):
                    self._add(name, value)

    def _add(self, name: str, value: float) -> None:
        self._curves.setdefault(name.replace("_", " "), Series()).add(self._step, value)

    def _is_sampled(self, step: int) -> bool:
        return step % self._every == 0 or step == 1

    def _sample(self) -> None:
        """Note the parameters, and keep their values where the next step is compared with them."""
        step, following = self._is_sampled(self._step), self._is_sampled(self._step + 1)
        for one in self._samples:
            if step and one.norm is not None:
                one.norms.append((self._step, one.norm))
            if one.before is not None:
                size = size_of(one.before)
                if size:
                    one.ratios.append((self._step, size_of(one.tensor._data - one.before) / size))
                one.before = None
            if following and one.tensor.requires_grad:
                one.before = arrays.copy(one.tensor._data)
        if any(len(one.norms) >= MOST_SAMPLES for one in self._samples):
            self._every *= 2
            for one in self._samples:
                one.norms, one.ratios = one.norms[1::2], one.ratios[1::2]

    def _look_at_gradients(self) -> None:
        soon = time.monotonic() >= self._due
        for one in self._samples:
            grad = grad_of(one.tensor)
            one.norm = None if grad is None else size_of(grad._data)
            if grad is not None and (soon or one.gradient is None):
                one.gradient = counted(grad._data)

    # -- passes ------------------------------------------------------------------------------

    def _pass(self, task: Task, loop: Callable[[Task], Any]) -> Any:
        """Run a backward pass, and look at what it gave while its graph is there."""
        wanted = self._step + 1 in self._passes
        look = wanted or (self._causes and not self._found)
        if task.recorded or task.needed is not None or len(modes.tasks) > 1 or not look:
            return self._plain(task, loop)
        roots, kept = list(task.roots), task.keep_graph
        nodes, _ = walk([node for node, _, _ in roots])
        if not wanted and not all(map(_is_simple, nodes)):
            return self._plain(task, loop)  # what is recomputed in a pass is not to be kept
        task.keep_graph = True
        try:
            captured = loop(task)
            self._after_pass()
            if wanted:
                self._passes.discard(self._step + 1)
                self._recorded(roots, "recorded")
            if self._first_bad():
                self._note_cause(roots)
        finally:
            if not kept:
                for node in nodes:
                    node.release()
        return captured

    def _plain(self, task: Task, loop: Callable[[Task], Any]) -> Any:
        """Run a backward pass whose graph is not kept: where a NaN comes from is not known then."""
        captured = loop(task)
        self._after_pass()
        if self._first_bad():
            self._note_bad([ANOMALY], None)
        return captured

    def _after_pass(self) -> None:
        self._seen_pass = True
        self._look_at_gradients()

    def _first_bad(self) -> bool:
        """Whether a gradient is not finite, for the first time."""
        if self._found or all(math.isfinite(s.norm or 0.0) for s in self._samples):
            return False
        self._found = True
        return True

    def _recorded(self, roots: Sequence[Root], kind: str) -> tuple[Story, str]:
        """The story of a pass, and the name of its page."""
        params = [(s.name, s.tensor) for s in self._samples]
        step = self._step + 1
        story = record_roots(list(roots), params=params, title=f"{self.title}: step {step}")
        page = self.path.with_name(f"{self.path.stem}-step-{step}.html")
        Page(story.to_json()).save(page)
        if kind == "recorded":
            self.marks.append(_mark(kind, f"The pass of step {step} was recorded.", [], page.name))
        return story, page.name

    def _note_cause(self, roots: Sequence[Root]) -> None:
        """Note where the first NaN or infinity comes from."""
        story, page = self._recorded(roots, "nan")
        bad = [mark for mark in story.marks if mark.kind in ("nan", "inf")]
        best = next((mark for mark in bad if mark.why), bad[0] if bad else None)
        self._note_bad([] if best is None else [_at(best), *best.why], page)

    def _note_bad(self, why: list[str], page: str | None) -> None:
        """Note the gradients that are not finite."""
        names = [s.name for s in self._samples if not math.isfinite(s.norm or 0.0)]
        text = f"Step {self._step + 1}: the gradient of {listed(names)} is not finite."
        self.marks.append(_mark("nan", text, why, page))
        self._due = 0.0

    def _note_loss(self, loss: float) -> None:
        """Note the first loss that is not finite, where no gradient has been before."""
        if self._found:
            return
        self._found = True
        self.marks.append(_mark("nan", f"Step {self._step}: the loss is {loss}.", [ANOMALY]))
        self._due = 0.0

    # -- the file ----------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The contents of the page, in dictionaries and lists."""
        latest = [s.norms[-1][1] for s in self._samples if s.norms]
        largest = max((x for x in latest if math.isfinite(x)), default=0.0)
        return {
            "title": self.title, "step": self._step, "done": self._done,
            "seconds": round(time.monotonic() - self._began, 1), "every": self._every,
            "curves": {name: series.to_json() for name, series in self._curves.items()},
            "parameters": [one.to_json(largest) for one in self._samples],
            "marks": sorted(
                [*self.marks, *self._remarks()], key=lambda mark: ORDER.index(mark["kind"])
            ),
        }  # fmt: skip

    def _remarks(self) -> list[dict[str, Any]]:
        """What is remarkable now."""
        result = []
        trained = [s for s in self._samples if s.tensor.requires_grad]
        if self._step > 1:
            lost = [s.name for s in trained if s.norm is None]
            if lost:
                get, them = ("gets", "it") if len(lost) == 1 else ("get", "them")
                text = NO_GRADIENT.format(names=listed(lost), get=get, them=them)
                why = ["What to do: autograd.explain(model, loss) says why."]
                result.append(_mark("unused", text, why))
        moved = {s.name: statistics.median(x for _, x in s.ratios[-USUAL:])
                 for s in trained if s.ratios}  # fmt: skip
        large = [name for name, ratio in moved.items() if ratio > LARGE]
        if large:
            share = 100 * max(moved[name] for name in large)
            text = f"A step changes {listed(large)} by up to {share:.3g} % of its size."
            result.append(_mark("exploding", text, ["What to do: try a smaller learning rate."]))
        still = [s.name for s in trained if s.name in moved and moved[s.name] < SMALL and s.norm]
        if still:
            text = f"A step hardly changes {listed(still)}."
            result.append(_mark("vanishing", text, ["What to do: try a larger learning rate."]))
        return result

    def _write(self) -> None:
        """Put a new file in the place of the old one."""
        data = self.to_json()
        page = filled("report", SCRIPTS, data["title"], data, {})
        write_whole(self.path, page.encode("utf-8", "replace"))

    def close(self) -> None:
        """Writes the final version. This happens automatically when the program ends."""
        if self._done:
            return
        self._done = True
        atexit.unregister(self._at_exit)
        self._watching.__exit__(None, None, None)
        for one in self._samples:
            grad = grad_of(one.tensor)
            if grad is not None:
                one.gradient = counted(grad._data)
        self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def size_of(array: Any) -> float:
    """The Euclidean norm of a raw array: in its own precision, where squares are in range."""
    if array.dtype == arrays.float32 or array.dtype == arrays.float64:
        flat = array.ravel()
        squares = float(flat @ flat)
        if 1e-25 < squares < 1e30:
            return math.sqrt(squares)
    return norm_of(array)


def counted(array: Any) -> dict[str, Any] | None:
    """A histogram of the finite elements of an array."""
    array = arrays.asarray(abs(array) if array.dtype.kind == "c" else array)
    finite = arrays.isfinite(array)
    good = array if finite.all() else array[finite]
    if not good.size:
        return None
    low, high = float(good.min()), float(good.max())
    counts = histogram(good, low, high) or [int(good.size)]
    return {"low": low, "high": high, "counts": counts, "bad": int(array.size - good.size)}


def _mark(kind: str, text: str, why: list[str], page: str | None = None) -> dict[str, Any]:
    """Something remarkable; ``page``: the file that shows its pass."""
    return {"kind": kind, "text": text, "why": why, "page": page}


def _is_simple(node: Node) -> bool:
    """Whether a node keeps nothing but values that its rule needs."""
    extras = node.extras
    return node.operation is not None and not (extras is not None and extras.packed)


def _at(mark: Any) -> str:
    line = None if mark.place is None else short(describe(mark.place))
    text: str = mark.text
    return text.rstrip(".") + (f", at {line}" if line else ".")


def _mean(values: list[float]) -> float:
    return values[0] if len(values) == 1 else sum(values) / len(values)


def _number(value: float) -> float | None:
    """A number in few digits; None for what JSON has no number for."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
