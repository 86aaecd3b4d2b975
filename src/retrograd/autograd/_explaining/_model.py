"""``autograd.explain(model, loss, optimizer=...)``: every parameter in one table."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from retrograd.autograd._explaining._amounts import norm_of
from retrograd.autograd._explaining._cuts import BLOCKS, cuts_of
from retrograd.autograd._explaining._facts import grad_of
from retrograd.autograd._explaining._names import Names, unregistered
from retrograd.autograd._explaining._paths import reachable
from retrograd.autograd._history import edge
from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.autograd._passes import Pass

MOST_TO_DO = 3
LARGE, SMALL = 0.1, 1e-7  # ratios of update to weight that are worth a remark
HEADINGS = ("parameter", "gradient", "passes", "update/weight", "")


@dataclass(frozen=True)
class Row:
    """One parameter: its gradient, or why it has none."""

    name: str
    norm: float | None  # of the gradient; None if there is none
    why: str  # why there is no gradient, or what is remarkable; may be empty
    passes: int  # that have added to the gradient since it was set or zeroed
    ratio: float | None  # norm of the optimizer's next update over the norm of the parameter

    def cells(self) -> tuple[str, ...]:
        number = "none" if self.norm is None else f"{self.norm:.3g}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2g}"
        return self.name, number, str(self.passes or ""), ratio, self.why


@dataclass(frozen=True, repr=False)
class ModelExplanation:
    """A row for each parameter of a model, and what is most worth doing. Its ``str`` is a table."""

    rows: tuple[Row, ...]
    todo: tuple[str, ...]

    def __str__(self) -> str:
        cells = [HEADINGS, *(row.cells() for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(HEADINGS))]
        lines = [
            "  ".join(
                cell.rjust(width) if 0 < i < 4 else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        if self.todo:
            lines += ["", "What to do:", *(f"{i}. {x}" for i, x in enumerate(self.todo, 1))]
        return "\n".join(lines)

    __repr__ = __str__


class Model:
    """A model whose parameters are asked about, with the loss and the optimizer."""

    def __init__(self, model: Any, losses: tuple[Any, ...], optimizer: Any, names: Names) -> None:
        self.model, self.losses, self.optimizer, self.names = model, losses, optimizer, names
        self.name = next((n for n, v in names.variables() if v is model), "model")
        nodes = [edge(loss)[0] for loss in losses if loss.requires_grad]
        self.graph: set[Node] = reachable([n for n in nodes if n is not None])
        groups = optimizer.param_groups if optimizer is not None else []
        self.stepped = [p for group in groups for p in group["params"]]
        self.to_do: list[tuple[int, str]] = []  # how urgent, and what

    def explained(self) -> ModelExplanation:
        updates = self._updates()
        rows = [self._row(name, p, updates) for name, p in self.model.named_parameters()]
        for plain in unregistered(self.model, self.name):
            for i, p in enumerate(plain.parameters):
                grad = grad_of(p)
                norm = None if grad is None else norm_of(grad._data)
                why = f"in a plain {plain.kind}: not a parameter of {self.name}"
                rows.append(Row(f"{plain.path}[...] {i}", norm, why, p._meta.added, None))
            self._do(1, f"{plain.sentence} {plain.cure[0].upper()}{plain.cure[1:]}.")
        todo = dict.fromkeys(text for _, text in sorted(self.to_do, key=lambda pair: pair[0]))
        return ModelExplanation(tuple(rows), tuple(todo)[:MOST_TO_DO])

    def _do(self, urgency: int, text: str) -> None:
        self.to_do.append((urgency, text))

    def _row(self, name: str, p: Any, updates: dict[int, Any]) -> Row:
        grad = grad_of(p)
        passes = p._meta.added if p._meta is not None else 0
        size = norm_of(p._data)
        moved = updates.get(id(p))
        ratio = None if moved is None or not size else moved / size
        outside = self.optimizer is not None and not any(p is q for q in self.stepped)
        if grad is None:
            why = self.why_none(name, p)
            if outside and p.requires_grad:
                why += "; not in the optimizer"
            return Row(name, None, why, 0, ratio)
        norm = norm_of(grad._data)
        remarks = "; ".join(self._remarks(name, p, norm, ratio, outside))
        return Row(name, norm, remarks, passes, ratio)

    def _remarks(
        self, name: str, p: Any, norm: float, ratio: float | None, outside: bool
    ) -> Iterator[str]:
        """What is remarkable about a gradient that is there."""
        passes = p._meta.added
        if not math.isfinite(norm):
            yield "NaN or infinity"
            self._do(0, f"The gradient of {name} is not finite: explain({self.name}.{name}, loss) "
                        "says where that comes from.")  # fmt: skip
        if outside:
            urgency, remark, to_do = self.outside(name, p)
            yield remark
            self._do(urgency, to_do)
        if norm == 0:
            yield "zero"
        if passes > 1:
            first, last = Pass(*p._meta.first_pass).line, Pass(*p._meta.last_pass).line
            lines = first if first == last else f"{first} and {last}"
            self._do(3, f"{passes} passes have added to the gradients since they were zeroed, at "
                        f"{lines}. Call zero_grad() before each backward(), unless the sum is "
                        "meant.")  # fmt: skip
        if ratio is not None and ratio > LARGE:
            yield "a large step"
            self._do(4, f"A step changes {name} by {100 * ratio:.2g} % of its size: try a smaller "
                        "learning rate.")  # fmt: skip
        elif ratio is not None and ratio < SMALL and norm > 0:
            yield "a tiny step"
            self._do(5, f"A step hardly changes {name}: try a larger learning rate.")

    def outside(self, name: str, p: Any) -> tuple[int, str, str]:
        """A parameter that is not in the optimizer: the urgency, the problem, and the fix."""
        whole = f"{self.name}.{name}"
        if self._was_replaced(p):
            return 0, "replaced since the optimizer was made", (
                f"{whole} was replaced since the optimizer was made, which still updates the old "
                "tensor: make the optimizer after that."
            )  # fmt: skip
        return 1, "not in the optimizer", (
            f"{whole} is not in the optimizer, so no step changes it: make the optimizer with "
            f"{self.name}.parameters()."
        )  # fmt: skip

    def why_none(self, name: str, p: Any) -> str:
        """Why a parameter has no gradient."""
        whole = f"{self.name}.{name}"
        if not p.requires_grad:
            self._do(6, f"{whole} is frozen: call requires_grad_() on it if it is to be trained.")
            return "frozen: requires_grad is False"
        if not self.losses:
            unused = p._meta is None or p._meta.ending is None
            return "nothing recorded has used it" if unused else "no pass has come to it"
        if any(isinstance(n, AccumulateGrad) and n.variable is p for n in self.graph):
            self._do(3, f"Call backward(): the loss leads to {whole}, but it has no gradient.")
            return "the loss leads to it: call backward()"
        unused = p._meta is None or p._meta.ending is None
        for loss in self.losses:
            start = self.names.of(loss)
            for cut in cuts_of(self.names.frame, start, p) if start else ():
                if not unused or cut.kind in BLOCKS:  # otherwise an operation would be recorded
                    self._do(2, f"{cut.cause} {cut.cure}")
                    return f"cut at {cut.where} by {cut.shown}"
        self._do(5, f"{whole} is not used for the loss: remove it, or use it in forward().")
        return "unused: no recorded operation has used it" if unused else "not in the graph of loss"

    def _was_replaced(self, p: Any) -> bool:
        """Whether the optimizer holds a tensor like a parameter that the model does not have."""
        mine = {id(q) for q in self.model.parameters()}
        shape = tuple(p.shape)
        return any(id(q) not in mine and tuple(q.shape) == shape for q in self.stepped)

    def _updates(self) -> dict[int, float]:
        """How far the next step of the optimizer would move each parameter: a copy makes it."""
        optimizer = self.optimizer
        if optimizer is None or not any(grad_of(p) is not None for p in self.stepped):
            return {}
        if inspect.signature(optimizer.step).parameters["closure"].default is not None:
            return {}  # it evaluates the loss itself
        trial = copy.deepcopy(optimizer)
        after = [p for group in trial.param_groups for p in group["params"]]
        for p, q in zip(self.stepped, after, strict=True):
            q.grad = p.grad  # which a copy of a Parameter does not have
        trial.step()
        return {
            id(p): norm_of(q._data - p._data)
            for p, q in zip(self.stepped, after, strict=True)
            if grad_of(p) is not None
        }
