"""Views, in-place writes and backward passes in any order leave tensors as they do in PyTorch.

A state machine keeps tensors in both libraries and applies one random line of code at a time to
both. After each, every tensor must agree: values (so memory must be shared in the same way),
flags, version counters and gradients; or both libraries must have raised the same error.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from _programs import (
    LARGEST,
    Draw,
    Program,
    a_leaf,
    a_view,
    broadcastable,
    examples,
    expands_to,
    pick,
)
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

MOST_TENSORS = 9

COMPUTED = [
    "{x} + 1", "{x} * 2", "{x} * {x}", "{x}.exp()", "{x}.sin()", "{x}.tanh()", "{x}.sigmoid()",
    "-{x}", "{x}.sum()", "{x} ** 2", "{x}.clone()", "1.5 - {x}", "{x} / 2", "1 / ({x} * {x} + 1)",
    "({x} * {x} + 1).sqrt()", "({x} * {x} + 1).log()", "{x}.mean()", "{x}.prod()",
    "{x}.contiguous()",
]  # fmt: skip
COMPUTED_FIRM = [
    "{x}.relu()",
    "{x}.clamp(-0.5, 0.5)",
    "{x}.abs()",
    "torch.where({x} > 0, {x}, 0.5)",
]
COMPUTED_PAIRS = ["{x} + {y}", "{x} * {y}", "{x} - {y}", "{x} / ({y} * {y} + 1)"]

WRITTEN = [
    "{x}.add_(1)", "{x}.mul_(0.5)", "{x}.zero_()", "{x}.fill_(0.5)", "{x}.tanh_()", "{x}.sin_()",
    "{x}.sigmoid_()", "{x}.neg_()", "{x} += 1", "{x} *= 2", "{x} -= 0.5", "{x} /= 2", "{x}.sub_(1)",
    "{x}.div_(2)", "{x}.cos_()", "{x}[...] = 0.25", "{x}.fill_(torch.tensor(0.5))",
]  # fmt: skip
WRITTEN_SMALL = ["{x}.exp_()", "{x}.pow_(2)", "{x}.mul_({x})", "{x} **= 2", "{x}.sinh_()"]
WRITTEN_FIRM = [
    "{x}.relu_()", "{x}.clamp_(-0.5, 0.5)", "{x}.abs_()", "{x}[{x} > 0] = 0.5",
    "{x}[{x} > 0] *= 0.5", "{x}.masked_fill_({x} > 0, 0.5)",
]  # fmt: skip
WRITTEN_PAIRS = [
    "{x}.add_({y})", "{x}.mul_({y})", "{x}.copy_({y})", "{x} += {y}", "{x} -= {y}", "{x} *= {y}",
    "{x}[...] = {y}", "{x}.add_({y}, alpha=2)", "{x}.div_({y} * {y} + 1)", "{x}.sub_({y})",
]  # fmt: skip

FLAGS = [
    "requires_grad_()", "requires_grad_(False)", "retain_grad()", "detach_()",
    "register_hook(lambda g: None if g is None else g * 2)",
]  # fmt: skip


def a_place(draw: Draw, shape: tuple[int, ...]) -> str:
    """An index that names no element twice."""
    parts: list[str] = []
    for size in shape[: draw(st.integers(1, len(shape)))] if shape else ():
        kind = pick(draw, ["int", "slice", "list"])
        if kind == "int":
            parts.append(str(draw(st.integers(-size, size - 1))))
        elif kind == "list" and not any("[" in p for p in parts):
            places = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=2, unique=True))
            parts.append(str(places))
        else:
            parts.append(f"{draw(st.integers(0, size - 1))}:")
    return ", ".join(parts) or "..."


class Tensors(RuleBasedStateMachine):
    """The pool of tensors, and the steps that change it."""

    def __init__(self) -> None:
        super().__init__()
        self.program = Program()
        self.over = False  # a backward pass failed half way: what it did until then is its own

    def line(self, line: str, makes: list[str] | None = None) -> Exception | None:
        note(line)
        return self.program.run(line, makes)

    def make(self, expression: str, results: int = 1, mode: str = "") -> None:
        names = self.program.new_names(results)
        targets = ", ".join(names)
        self.line(f"{mode}{targets} = {expression}", names)

    def a_name(self, draw: Draw) -> str:
        return draw(st.sampled_from(self.program.names[::-1]))

    def a_mode(self, draw: Draw) -> str:
        return pick(draw, ["", "", "", "", "with torch.no_grad(): "])

    @property
    def room(self) -> bool:
        return not self.over and len(self.program.names) < MOST_TENSORS

    def a_target(self, draw: Draw) -> str:
        """A tensor to change, which knows its history: see what PyTorch does with others."""
        x = self.a_name(draw)
        theirs, ours = self.program[x], self.program.ours[x]
        if theirs._is_view() and theirs.requires_grad and ours._node is None:
            self.ask_for_history(x)
        return x

    # -- making tensors ----------------------------------------------------------------------

    @initialize(data=st.data())
    def begin(self, data: Any) -> None:
        self.make(a_leaf(data.draw, "float64", grads=st.just(True)))

    @precondition(lambda self: self.over)
    @rule(data=st.data())
    def begin_again(self, data: Any) -> None:
        self.program, self.over = Program(), False
        note("# a new program:")
        self.make(a_leaf(data.draw, "float64", grads=st.just(True)))

    @precondition(lambda self: self.room)
    @rule(data=st.data())
    def leaf(self, data: Any) -> None:
        self.make(a_leaf(data.draw, "float64"))

    @precondition(lambda self: self.room)
    @rule(data=st.data())
    def compute(self, data: Any) -> None:
        draw, program = data.draw, self.program
        x = self.a_name(draw)
        fitting = [n for n in program.names if broadcastable(program[x].shape, program[n].shape)]
        y = pick(draw, fitting)
        choices = COMPUTED_PAIRS + COMPUTED + (COMPUTED_FIRM if program.firm(x) else [])
        if max(program.largest(x), program.largest(y)) > 8:
            choices = ["{x}.tanh()", "{x}.sin()", "{x} / 10"]
        self.make(pick(draw, choices).format(x=x, y=y), mode=self.a_mode(draw))

    @precondition(lambda self: self.room)
    @rule(data=st.data())
    def view(self, data: Any) -> None:
        expression, results = a_view(data.draw, self.program, self.a_name(data.draw))
        self.make(expression, results, self.a_mode(data.draw))

    @precondition(lambda self: self.room)
    @rule(data=st.data())
    def detach(self, data: Any) -> None:
        self.make(f"{self.a_name(data.draw)}.detach()")

    @precondition(lambda self: self.room)
    @rule(data=st.data())
    def take_the_gradient(self, data: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of results that do not keep theirs
            have = [n for n in self.program.names if self.program[n].grad is not None]
        if have:
            self.make(f"{pick(data.draw, have)}.grad")

    # -- writing -----------------------------------------------------------------------------

    def small(self, x: str, y: str) -> bool:
        return self.program.largest(x) * max(1, self.program.largest(y)) < LARGEST**0.5

    @precondition(lambda self: not self.over)
    @rule(data=st.data())
    def write(self, data: Any) -> None:
        draw, program = data.draw, self.program
        x = self.a_target(draw)
        choices = list(WRITTEN)
        if program.firm(x):
            choices += WRITTEN_FIRM
        if program.largest(x) < 3:
            choices += WRITTEN_SMALL
        self.line(self.a_mode(draw) + pick(draw, choices).format(x=x))

    @precondition(lambda self: not self.over)
    @rule(data=st.data())
    def write_another(self, data: Any) -> None:
        draw, program = data.draw, self.program
        x = self.a_target(draw)
        fitting = [n for n in program.names if expands_to(program[n].shape, program[x].shape)]
        y = pick(draw, fitting)
        if self.small(x, y) and not program.tangled(program[x], y):
            self.line(self.a_mode(draw) + pick(draw, WRITTEN_PAIRS).format(x=x, y=y))

    @precondition(lambda self: not self.over)
    @rule(data=st.data())
    def set_item(self, data: Any) -> None:
        draw, program = data.draw, self.program
        x = self.a_target(draw)
        if not program[x].numel():
            return
        where = a_place(draw, tuple(program[x].shape))
        place = eval(f"np.s_[{where}]", {"np": np})
        written = program[x].detach() if "[" in where else program[x].detach()[place]
        shape = program[x].detach()[place].shape
        values = [
            n
            for n in program.names
            if expands_to(program[n].shape, shape) and not program.tangled(written, n)
        ]
        value = pick(draw, ["0.5", *values])
        if value == "0.5" or self.small(x, value):
            # x[i] += y writes twice. The first write is to a view of x, and x is told later.
            twice = not program[x]._is_view() or program.ours[x]._node is not None
            how = pick(draw, [" = ", " = ", " += "] if twice else [" = "])
            self.line(f"{self.a_mode(draw)}{x}[{where}]{how}{value}")

    # -- flags, hooks ------------------------------------------------------------------------

    @precondition(lambda self: not self.over)
    @rule(data=st.data())
    def flag(self, data: Any) -> None:
        x, step = self.a_target(data.draw), pick(data.draw, FLAGS)
        needs_history = step.startswith(("register_hook", "retain_grad"))
        if needs_history and self.program[x]._is_view():
            step = "grad_fn is None or {x}." + step
        if step == "detach_()" and self.program[x].retains_grad:
            return  # a write to such a tensor fails with an internal error of PyTorch's
        self.line(f"{x}.{step}".format(x=x))

    @precondition(lambda self: not self.over and len(self.program.names) > 2)
    @rule(data=st.data())
    def forget(self, data: Any) -> None:
        name = self.a_name(data.draw)
        self.line(f"del {name}")
        self.program.names.remove(name)

    @precondition(lambda self: not self.over)
    @rule(data=st.data())
    def look_at_history(self, data: Any) -> None:
        self.ask_for_history(self.a_name(data.draw))

    def ask_for_history(self, name: str) -> None:
        note(f"{name}.grad_fn")
        self.program.lines.append(f"{name}.grad_fn")
        self.program.compare_history(name)

    # -- backward passes ---------------------------------------------------------------------

    def a_loss(self, draw: Draw) -> str:
        recorded = [n for n in self.program.names if self.program[n].requires_grad]
        x = pick(draw, recorded or self.program.names)
        return pick(draw, ["{x}.sum()", "({x} * {x}).sum()", "{x}.sin().sum()"]).format(x=x)

    @precondition(lambda self: not self.over)
    @rule(data=st.data())
    def backward(self, data: Any) -> None:
        options = pick(data.draw, ["", "", "retain_graph=True", "create_graph=True"])
        failed = self.line(f"{self.a_loss(data.draw)}.backward({options})")
        self.over = self.over or failed is not None

    @precondition(lambda self: self.room)
    @rule(data=st.data())
    def grad(self, data: Any) -> None:
        draw = data.draw
        recorded = [n for n in self.program.names if self.program[n].requires_grad]
        if not recorded:
            return
        target = pick(draw, recorded)
        options = pick(
            draw, ["", ", retain_graph=True", ", create_graph=True", ", allow_unused=True"]
        )
        failed = self.line(f"(g,) = torch.autograd.grad({self.a_loss(draw)}, {target}{options})")
        self.over = self.over or failed is not None
        if not self.over:
            self.program.compare("g", self.program.close)
            self.program.compare("g is not None and g.requires_grad")
            if self.program.theirs["g"] is not None:
                self.make("g.clone()")

    # -- agreement ---------------------------------------------------------------------------

    @invariant()
    def all_agree(self) -> None:
        if not self.over:
            for name in self.program.names:
                self.program.compare_tensor(name)
                self.program.compare_version(name)

    def teardown(self) -> None:
        if not self.over:
            for name in self.program.names:
                self.program.compare_history(name)


TestTensors = Tensors.TestCase
TestTensors.settings = examples(150, stateful_step_count=25)
