"""Gradient flow: the norm of each parameter's gradient in each backward pass."""

from __future__ import annotations

import csv
import io
import json
import math
import threading
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from retrograd.autograd._engine import Task, current_task
from retrograd.autograd._explaining._amounts import norm_of
from retrograd.autograd._wrap import array_of
from retrograd.files._atomic import write_as
from retrograd.nn.module import Module

VANISHING = 1e-6  # of the largest norm in the same pass
EXPLODING = 100.0  # times the median of the passes before,
USUAL = 100  # of so many of them
ENOUGH = 5  # the fewest passes for a median
NOT_FINITE = {"nan": math.isnan, "inf": math.isinf}
BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Mark:
    """A notable property of the gradients of a parameter."""

    name: str
    kind: str  # "nan", "inf", "exploding", "vanishing", "zero", "never" or "frozen"
    step: int | None  # the first pass in which it was seen; None: always

    def __str__(self) -> str:
        words = {"nan": "NaN", "inf": "infinite", "never": "no gradient"}
        when = "" if self.step is None else f" {'in' if self.kind in NOT_FINITE else 'since'} "
        return (
            words.get(self.kind, self.kind) + when + ("" if self.step is None else str(self.step))
        )


class GradientFlow:
    """Norms of gradients over steps, as ``gradient_flow`` collects them.

    - ``names``: the parameters, in the order of the module.
    - ``steps``: the number of each backward pass that was noted, from 0.
    - ``norms(name)``, ``weight_norms(name)``: a number for each of ``steps``; None where the pass
      did not reach the parameter.
    - ``marks``: what is notable.
    """

    def __init__(self, parameters: Mapping[str, Any], every: int, watch: bool) -> None:
        self.names = list(parameters)
        self._positions = {name: i for i, name in enumerate(self.names)}
        self.steps: list[int] = []
        self._parameters = list(parameters.values())
        self._every = every
        self._columns: list[list[tuple[float, float] | None]] = []
        self._passes = 0
        self._of_pass: weakref.WeakKeyDictionary[Task, int | None] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._handles = [
            p.register_post_accumulate_grad_hook(self._noting(i))
            for i, p in enumerate(self._parameters)
            if watch and p.requires_grad and p.is_leaf
        ]

    # -- collecting --------------------------------------------------------------------------

    def _noting(self, position: int) -> Any:
        def note(parameter: Any) -> None:
            task = current_task()
            with self._lock:
                if task not in self._of_pass:
                    self._of_pass[task] = self._new_column()
                column = self._of_pass[task]
            if column is not None and parameter.grad is not None:
                self._columns[column][position] = _norms_of(parameter)

        return note

    def _new_column(self) -> int | None:
        """The column of a new pass, or None for a pass that is left out."""
        step, self._passes = self._passes, self._passes + 1
        if step % self._every:
            return None
        self.steps.append(step)
        self._columns.append([None] * len(self.names))
        return len(self._columns) - 1

    def step(self) -> None:
        """Record every ``.grad`` as it is now: with ``watch=False``, for example after clipping."""
        with self._lock:
            column = self._new_column()
        if column is not None:
            self._columns[column] = self._now()

    def _now(self) -> list[tuple[float, float] | None]:
        return [None if p.grad is None else _norms_of(p) for p in self._parameters]

    def remove(self) -> None:
        """Stop recording. What has been recorded is kept."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    # -- what was found ----------------------------------------------------------------------

    def _record_if_empty(self) -> None:
        """If no pass was seen, record the current gradients."""
        if not self._columns:
            now = self._now()
            if any(entry is not None for entry in now):
                self.steps, self._columns, self._passes = [0], [now], 1

    def _series(self, name: str, which: int) -> list[float | None]:
        self._record_if_empty()
        position = self._positions[name]
        entries = [column[position] for column in self._columns]
        return [None if entry is None else entry[which] for entry in entries]

    def norms(self, name: str) -> list[float | None]:
        """The norms of a parameter's gradient, one for each of ``steps``."""
        return self._series(name, 0)

    def weight_norms(self, name: str) -> list[float | None]:
        """The norms of a parameter itself when the gradient came."""
        return self._series(name, 1)

    def ratio(self, name: str) -> float | None:
        """The latest norm of the gradient, relative to that of the parameter. Times the learning
        rate of plain SGD, it is the relative change of the parameter in a step."""
        pairs = zip(self.norms(name), self.weight_norms(name), strict=True)
        known = [(g, w) for g, w in pairs if g is not None and w is not None]
        return known[-1][0] / known[-1][1] if known and known[-1][1] else None

    @property
    def marks(self) -> list[Mark]:
        """What is notable, by parameter: see ``gradient_flow``."""
        self._record_if_empty()
        largest = [
            max((e[0] for e in column if e is not None and math.isfinite(e[0])), default=0.0)
            for column in self._columns
        ]
        named = zip(self.names, self._parameters, strict=True)
        return [mark for name, p in named for mark in self._marks_of(name, p, largest)]

    def _marks_of(self, name: str, parameter: Any, largest: list[float]) -> list[Mark]:
        norms = [(i, norm) for i, norm in enumerate(self.norms(name)) if norm is not None]
        if not norms:
            return [Mark(name, "never" if parameter.requires_grad else "frozen", None)]
        result = []
        for kind, bad in NOT_FINITE.items():
            first = next((i for i, norm in norms if bad(norm)), None)
            if first is not None:
                result.append(Mark(name, kind, self.steps[first]))
        norms = [(i, norm) for i, norm in norms if math.isfinite(norm)]
        now: str | None = None
        since = len(norms)
        while since:
            before = [norm for _, norm in norms[max(0, since - 1 - USUAL) : since - 1]]
            i, norm = norms[since - 1]
            this = _kind(norm, before, largest[i])
            if this is None or now not in (None, this):
                break
            since, now = since - 1, this
        if now is not None:
            result.append(Mark(name, now, self.steps[norms[since][0]]))
        return result

    def words(self) -> dict[str, str]:
        """The marks of each parameter that has any, in words."""
        result: dict[str, str] = {}
        for mark in self.marks:
            before = f"{result[mark.name]}, " if mark.name in result else ""
            result[mark.name] = before + str(mark)
        return result

    # -- showing -----------------------------------------------------------------------------

    def text(self, rows: int = 40) -> str:
        """A table: the latest norm of each parameter, its history, and its ratio to the weights."""
        self._record_if_empty()
        marks = self.words()
        shown = self.names
        if len(shown) > rows:  # marked rows are left out last
            kept = set([*marks, *shown][:rows])
            shown = [name for name in shown if name in kept]
        width = min(40, max((len(name) for name in shown), default=0))
        passes = "1 pass" if len(self.steps) == 1 else f"{len(self.steps)} passes"
        lines = [f"norms of gradients after {passes}"]
        if self.steps:
            lines.append(f"{'':<{width}}  {'latest':>9}  {'/ weight':>9}  course")
        for name in shown:
            lines.append(self._row(name, width, marks.get(name)))
        if len(shown) < len(self.names):
            lines.append(f"... and {len(self.names) - len(shown)} more")
        return "\n".join(lines)

    def _row(self, name: str, width: int, mark: str | None) -> str:
        from retrograd.viz._text import shortened

        norms = self.norms(name)
        known = [norm for norm in norms if norm is not None]
        latest = f"{known[-1]:.3g}" if known else ""
        ratio = self.ratio(name)
        parts = [f"{shortened(name, 40):<{width}}", f"{latest:>9}",
                 f"{'' if ratio is None else format(ratio, '.3g'):>9}",
                 f"{_course(norms):<16}", "" if mark is None else f"<- {mark}"]  # fmt: skip
        return "  ".join(parts).rstrip()

    def show(self, rows: int = 40) -> None:
        """Print ``text()``."""
        print(self.text(rows))

    __str__ = text

    def __repr__(self) -> str:
        return self.text()

    def _repr_svg_(self) -> str:
        return self._picture("svg").decode()

    def _repr_png_(self) -> bytes:
        return self._picture("png")

    def _picture(self, kind: str) -> bytes:
        from retrograd.viz._flow_picture import picture

        self._record_if_empty()
        return picture(self, kind)

    def to_json(self) -> dict[str, Any]:
        """All that was recorded. Numbers that JSON lacks are strings, as in the files of
        pictures."""
        self._record_if_empty()
        return {
            "steps": list(self.steps),
            "parameters": [
                {
                    "name": name,
                    "shape": list(parameter.shape),
                    "norms": [_json_number(x) for x in self.norms(name)],
                    "weight_norms": [_json_number(x) for x in self.weight_norms(name)],
                }
                for name, parameter in zip(self.names, self._parameters, strict=True)
            ],
            "marks": [{"name": m.name, "kind": m.kind, "step": m.step} for m in self.marks],
        }

    def _to_csv(self) -> str:
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["step", "parameter", "gradient_norm", "weight_norm"])
        self._record_if_empty()
        for step, column in zip(self.steps, self._columns, strict=True):
            for name, entry in zip(self.names, column, strict=True):
                writer.writerow([step, name, *(("", "") if entry is None else map(repr, entry))])
        return table.getvalue()

    def save(self, path: Any) -> None:
        """Write a picture (``.png``, ``.svg``) or the numbers (``.json``, ``.csv``)."""
        write_as(path, {
            ".png": lambda: self._picture("png"), ".svg": lambda: self._picture("svg"),
            ".json": lambda: json.dumps(self.to_json(), indent=1) + "\n", ".csv": self._to_csv,
        })  # fmt: skip


def gradient_flow(
    module: Module | Mapping[str, Any] | Iterable[tuple[str, Any]],
    *,
    every: int = 1,
    watch: bool = True,
) -> GradientFlow:
    """Record the norms of a module's gradients after each backward pass.

    Recording ends with ``remove()`` or at the end of a ``with`` block. If no pass has been seen,
    the current gradients are shown. Gradients are marked that are NaN, infinite or zero, that
    explode (more than 100 times the median of the previous hundred passes) or vanish (less than a
    millionth of the largest norm in the same pass), and parameters that never received one.

    Args:
        module: a module, or a dictionary of tensors.
        every: record every n-th pass.
        watch: if False, record only when ``step()`` is called.

    Returns:
        A ``GradientFlow``.

    Example:
        >>> import retrograd as torch
        >>> from retrograd import viz
        >>> model = torch.nn.Linear(2, 1)
        >>> flow = viz.gradient_flow(model)
        >>> for _ in range(3):
        ...     model.zero_grad()
        ...     model(torch.tensor([[3.0, 4.0]])).sum().backward()
        >>> flow.norms("weight"), flow.norms("bias")
        ([5.0, 5.0, 5.0], [1.0, 1.0, 1.0])
    """
    if isinstance(module, Module):
        parameters = dict(module.named_parameters())
    else:
        parameters = dict(module)
    if not parameters:
        raise ValueError("gradient_flow needs parameters, but there are none")
    for name, parameter in parameters.items():
        if not hasattr(parameter, "register_post_accumulate_grad_hook"):
            raise TypeError(f"{name} is not a Tensor, but {type(parameter).__name__}")
    if every < 1:
        raise ValueError(f"every must be at least 1, but is {every}")
    return GradientFlow(parameters, every, watch)


# -- pieces ----------------------------------------------------------------------------------


def _norms_of(parameter: Any) -> tuple[float, float]:
    return norm_of(array_of(parameter.grad)), norm_of(parameter._data)


def _kind(norm: float, before: list[float], largest: float) -> str | None:
    """What is notable about one norm, given the previous ones and the largest of its pass."""
    if norm == 0:
        return "zero"
    if norm < VANISHING * largest:
        return "vanishing"
    if len(before) >= ENOUGH:
        usual = sorted(before)[len(before) // 2]
        if usual > 0 and norm > EXPLODING * usual:
            return "exploding"
    return None


def _course(norms: list[float | None], width: int = 16) -> str:
    """Norms as a row of small bars, on a logarithmic scale."""
    size = -(-len(norms) // width) or 1
    parts = [norms[i : i + size] for i in range(0, len(norms), size)]
    tops = [max((x for x in part if x is not None), default=None) for part in parts]
    logs = [math.log10(x) for x in tops if x is not None and 0 < x < math.inf]
    if not logs:
        return ""
    low, high = min(logs), max(logs)
    spread = max(high - low, 1.0)  # small changes look flat
    return "".join(_bar(x, low, spread) for x in tops)


def _bar(x: float | None, low: float, spread: float) -> str:
    if x is None:
        return " "
    if not x < math.inf:
        return "!"
    if x <= 0:
        return "_"
    return BLOCKS[round((math.log10(x) - low) / spread * (len(BLOCKS) - 1))]


def _json_number(x: float | None) -> float | str | None:
    return x if x is None or math.isfinite(x) else str(x)
