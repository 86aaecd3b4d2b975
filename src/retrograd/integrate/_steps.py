"""Single steps of the methods for initial value problems, as differentiable functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.func._jacobians import jacfwd
from retrograd.ops._operation import raw
from retrograd.ops.shapes import slicing
from retrograd.optimize._implicit import Problem, Solution
from retrograd.tensor._limits import finfo
from retrograd.tensor._tensor import Tensor

Rate = Callable[[Tensor, Tensor, Sequence[Tensor]], Tensor]  # of time, state, parameters


class Explicit:
    """A step of an explicit Runge–Kutta method."""

    def __init__(self, method: str, rate: Rate) -> None:
        self.rate = rate
        self.stages, self.weights, self.times = arrays.integration.tableau(method)

    def __call__(
        self, t: Tensor, h: Tensor, y: Tensor, values: Sequence[Tensor], guess: Any
    ) -> Tensor:
        rates: list[Tensor] = []
        for row, c in zip(self.stages, self.times, strict=True):
            rates.append(self.rate(t + c * h, _moved(y, h, row, rates), values))
        return _moved(y, h, self.weights, rates)


def _moved(y: Tensor, h: Tensor, weights: Sequence[float], rates: Sequence[Tensor]) -> Tensor:
    total: Any = None
    for w, k in zip(weights, rates, strict=True):
        if w:
            total = w * k if total is None else total + w * k
    return y if total is None else y + h * total


class Implicit:
    """A step of Radau's method of order 5, whose stages are defined by an equation."""

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self.matrix, self.times = arrays.integration.RADAU

    def __call__(
        self, t: Tensor, h: Tensor, y: Tensor, values: Sequence[Tensor], guess: Any
    ) -> Tensor:
        """``guess``: states at the times of the stages, one after the other."""
        problem = _Stages(self, y.numel())
        start = wrap(arrays.asarray(guess, raw(y).dtype))
        moved: Tensor = Solution.apply(problem, start, t, h, y, *values)
        return y + moved[-y.numel() :]


class _Stages(Problem):
    """How far the state moves until each of the stages of a step."""

    name = "solve_ivp"

    def __init__(self, step: Implicit, count: int) -> None:
        super().__init__(())
        self.step, self.count = step, count

    def residual(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        t, h, y, *others = values
        step, n = self.step, self.count
        moved = [x[i * n : (i + 1) * n] for i in range(len(step.times))]
        pairs = zip(step.times, moved, strict=True)
        rates = [step.rate(t + c * h, y + z, others) for c, z in pairs]
        zero = 0.0 * y
        rows = [z - _moved(zero, h, row, rates) for z, row in zip(moved, step.matrix, strict=True)]
        found: Tensor = slicing.cat(rows)
        return found

    def solve(self, x0: Any, values: Sequence[Tensor]) -> Tensor:
        """Newton's method, from the states that are expected at the stages."""
        y = values[2]
        x = x0 - slicing.cat([y] * len(self.step.times))

        def residual(x: Tensor) -> Tensor:
            return self.residual(x, values)

        eps = finfo(x.dtype).eps
        close, rounding = eps**0.83, eps**0.7  # 1e-13 and 1e-11 in double precision
        before = float("inf")
        factors: Any = None
        for _ in range(30):
            if factors is None:
                factors = arrays.solvers.Factors(raw(jacfwd(residual)(x)))
                if not factors.condition > 0.0:
                    break
            change = factors.solved(raw(residual(x)), False)
            x = x - wrap(change)
            moved, size = float(abs(change).max()), float((y.abs().max() + x.abs().max()).item())
            if moved <= close * size or before <= moved <= rounding * size:
                return x  # type: ignore[no-any-return]
            if moved > 0.1 * before:  # the matrix is out of date
                factors = None
            before = moved
        raise RuntimeError(
            f"solve_ivp: the equations of a step at t = {float(values[0]):g} were not solved, so "
            "there are no derivatives. Ask for smaller tolerances."
        )
