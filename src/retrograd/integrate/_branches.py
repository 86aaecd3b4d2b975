"""The right-hand side of a differential equation with kinks, as smooth branches.

A step across a kink has a derivative that is wrong to first order in its length, as the stages on
both sides of the kink count by the weights of the method, and not by how long the solution is on
each side. So steps are differentiated in pieces: up to the kink, with the decisions that the
right-hand side takes before it (``_decisions.py``), and on from there with those after it. Within a
piece, the right-hand side is smooth even if a stage goes a little too far.

As the right-hand side is continuous, the first derivatives do not depend on how the time of a kink
moves: what one piece gains, the next one loses. Higher derivatives do. For these, that time is a
function of the inputs, by the implicit function theorem.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.func._jacobians import jacfwd
from retrograd.func._programs import Evaluation
from retrograd.func._vectorized import vmap
from retrograd.integrate._decisions import Deciding, decisions_of, margins_of, with_decisions
from retrograd.integrate._steps import Make, Rate, works
from retrograd.ops._operation import raw
from retrograd.optimize._captures import representative
from retrograd.optimize._implicit import Problem, Solution
from retrograd.tensor._tensor import Tensor

SECOND = (
    " Second derivatives depend on how it moves. End a solve there by a terminal event, and start "
    "the next one from its time and state."
)
BLOCK = 32  # times at which decisions are looked at together


class Branches:
    """The decisions of a right-hand side, and steps with given decisions."""

    def __init__(
        self, rate: Rate, evaluated: Evaluation, make: Make, step: Callable[..., Any]
    ) -> None:
        """``evaluated`` is the rate as it is called again and again; ``step`` makes steps of a
        rate."""
        self._rate, self._evaluated, self._make, self._make_step = rate, evaluated, make, step
        self._step: Any = None
        self._one: Any = None
        self._several: Any = None

    def exist(self, t: Tensor, y: Tensor, values: Sequence[Tensor]) -> bool:
        """Whether the right-hand side decides anything. A program does so always or never."""
        evaluated = self._evaluated
        if evaluated.is_program and evaluated.note is not None:
            return bool(evaluated.note)
        deciding, unfollowed = Deciding(), ""
        try:
            with deciding:
                self._rate(t, y, *values)
            unfollowed = ", ".join(sorted(deciding.unfollowed))
        except NotImplementedError as error:
            deciding.count, unfollowed = 0, str(error)
        if unfollowed:
            warnings.warn(
                f"solve_ivp: the kinks of {unfollowed} in fun are not "
                "looked for. If a step crosses one, derivatives are less accurate than the "
                "solution: the error is of first order in the length of the step.",
                stacklevel=2,
            )
        if evaluated.is_program and not unfollowed:
            evaluated.note = deciding.count > 0
        return deciding.count > 0

    def pieces(self, states: Any, times: Any, values: Sequence[Tensor], dtype: Any) -> Any:
        """Where decisions change along a trajectory, and the pieces of its steps."""
        if self._one is None:
            decided = decisions_of(self._rate)
            several = vmap(decided, in_dims=(0, 0, *[None] * len(values)))
            self._one = self._make("decisions", decided, "gradient")
            self._several = self._make("decisions at several times", several, "gradient")

        def look(times: Any) -> Any:
            rows = arrays.integration.states_at(states, times, dtype)
            return self._looked(arrays.asarray(times, dtype), rows, values)

        return arrays.integration.switches(look, times, dtype)

    def _looked(self, times: Any, rows: Any, values: Sequence[Tensor]) -> Any:
        """Decisions and margins at some times and states, a row for each."""
        several = self._several
        if several.note is None:
            block = [wrap(arrays.integration.first_rows(x, BLOCK)) for x in (times, rows)]
            several.note = works(several, *block, *values)
        if several.note and len(times) > 1:
            f = lambda t, y: several.arrays(wrap(t), wrap(y), *values)[0]
            found = arrays.integration.in_blocks(f, times, rows, BLOCK)
            return found[:, 0], found[:, 1]
        at = zip(times, rows, strict=True)
        return arrays.integration.padded(
            [self._one.arrays(wrap(arrays.asarray(t)), wrap(y), *values)[0] for t, y in at]
        )

    @property
    def step(self) -> Any:
        """A step of the method, with decisions before the values of parameters."""
        if self._step is None:
            make = lambda what, function, kind: self._make(f"branch: {what}", function, kind)
            self._step = self._make_step(with_decisions(self._rate), make)
        return self._step

    def stepped(
        self, t: Tensor, h: Tensor, y: Tensor, decisions: Any, values: Sequence[Tensor], guess: Any
    ) -> Tensor | None:
        """The state after a step. None if the branch is infinite or NaN at a stage beyond its end,
        as a root may be."""
        found: Tensor = self.step(t, h, y, [wrap(decisions), *values], guess)
        return found if arrays.isfinite(raw(representative(found))).all() else None

    def pulled(
        self, t: Any, h: Any, y: Any, decisions: Any, values: Sequence[Tensor], guess: Any, g: Any
    ) -> Sequence[Any] | None:
        """The gradients by ``t``, ``h``, ``y`` and the values; None as above."""
        found = self.step.pulled(t, h, y, [wrap(decisions), *values], guess, g)
        by_t, by_h, by_y, _, *others = found
        if not all(arrays.isfinite(x).all() for x in (by_h, by_y, *others)):
            return None
        return by_t, by_h, by_y, *others

    def margin(self, piece: Any) -> Callable[..., Tensor]:
        """What is zero at the end of a piece: a function of time, state and values."""
        margins, decisions = margins_of(self._rate), wrap(piece.decisions)

        def margin(t: Tensor, y: Tensor, values: Sequence[Tensor]) -> Tensor:
            found: Tensor = margins(t, y, decisions, *values)[piece.switch]
            return found.to(y.dtype)

        return margin


class Crossing(Problem):
    """When a function of time and state is zero within a step."""

    name = "solve_ivp"

    def __init__(
        self, function: Callable[..., Tensor], state: Callable[..., Tensor], what: str,
        near: float, wrong: str = "",
    ) -> None:  # fmt: skip
        """``state`` gives the state at a time, from the time and the state that a step starts with
        and the values of parameters. ``wrong``: why there are no derivatives, if so."""
        super().__init__(())
        self.wrong = wrong
        self.hint = SECOND if what == "a kink" else ""
        self.function, self.state, self.what, self.near = function, state, what, near

    def time(self, start: Tensor, y: Tensor, values: Sequence[Tensor]) -> Tensor:
        """The time, with derivatives."""
        guess = representative(y).new_tensor([self.near])
        found: Tensor = Solution.apply(self, guess, start, y, *values)[0]
        return found

    def residual(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        start, y, *others = values
        at = self.state(x[0], start, y, others)
        left: Tensor = self.function(x[0], at, others).reshape(1)
        return left

    def check(self, x: Tensor, values: Sequence[Tensor]) -> None:
        if self.wrong:
            raise RuntimeError(self.wrong)

    def solve(self, x0: Any, values: Sequence[Tensor]) -> Tensor:
        x: Tensor = x0

        def residual(x: Tensor) -> Tensor:
            return self.residual(x, values)

        for _ in range(20):
            change = residual(x) / jacfwd(residual)(x).reshape(1)
            x = x - change
            if float(change.abs()) <= 1e-12 * max(1.0, float(x.abs())):
                return x
        raise RuntimeError(
            f"solve_ivp: the time of {self.what} near t = {self.near:g} could not be computed to "
            "full precision, so it has no derivatives: the function may only touch zero there."
            + self.hint
        )
