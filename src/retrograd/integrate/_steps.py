"""Single steps of the methods for initial value problems, as differentiable functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import within
from retrograd.autograd._wrap import wrap
from retrograd.func._jacobians import jacfwd
from retrograd.func._programs import Evaluation
from retrograd.func._reverse import vjp
from retrograd.ops._operation import raw
from retrograd.ops.shapes import slicing
from retrograd.optimize._implicit import Problem, Solution
from retrograd.tensor._limits import finfo
from retrograd.tensor._tensor import Tensor

Make = Callable[[str, Callable[..., Any], str], Evaluation]
Rate = Callable[..., Tensor]  # of time, state and the values of parameters


class Explicit:
    """A step of an explicit Runge–Kutta method."""

    def __init__(self, method: str, rate: Rate, make: Make) -> None:
        self.step = _explicit(rate, *arrays.integration.tableau(method))
        self._pulled = make("step, pulled", _pull(self.step), "matrix")

    def __call__(
        self, t: Tensor, h: Tensor, y: Tensor, values: Sequence[Tensor], guess: Any
    ) -> Tensor:
        return self.step(t, h, y, *values)

    def pulled(
        self, t: Tensor, h: Tensor, y: Tensor, values: Sequence[Tensor], guess: Any, g: Tensor
    ) -> Sequence[Tensor]:
        """The gradients by ``t``, ``h``, ``y`` and the values, from plain tensors."""
        found: Sequence[Tensor] = self._pulled(g, t, h, y, *values)
        return found


def _explicit(rate: Rate, stages: Any, weights: Any, times: Any) -> Callable[..., Tensor]:
    def step(t: Tensor, h: Tensor, y: Tensor, *values: Tensor) -> Tensor:
        rates: list[Tensor] = []
        for row, c in zip(stages, times, strict=True):
            rates.append(rate(t + c * h, _moved(y, h, row, rates), *values))
        return _moved(y, h, weights, rates)

    return step


def _pull(function: Callable[..., Any], plain: int = 0) -> Callable[..., Any]:
    """A function of a gradient and of the arguments of another function, which gives the gradients
    by these, but for the first ``plain`` of them."""

    def pulled(g: Tensor, *args: Tensor) -> Any:
        fixed = args[:plain]
        return vjp(lambda *some: function(*fixed, *some), *args[plain:])[1](g)

    return pulled


def _moved(y: Tensor, h: Tensor, weights: Sequence[float], rates: Sequence[Tensor]) -> Tensor:
    total: Any = None
    for w, k in zip(weights, rates, strict=True):
        if w:
            total = w * k if total is None else total + w * k
    return y if total is None else y + h * total


class Implicit:
    """A step of Radau's method of order 5, whose stages are defined by an equation."""

    def __init__(self, rate: Rate, make: Make) -> None:
        matrix, self.times = arrays.integration.RADAU
        self.residual = _stage_equations(rate, matrix, self.times)
        self.value = make("stages", self.residual, "value")
        self.jacobian = make("jacobian of stages", jacfwd(self.residual), "matrix")
        self._pulled = make("stages, pulled", _pull(self.residual, 1), "matrix")

    def __call__(
        self, t: Tensor, h: Tensor, y: Tensor, values: Sequence[Tensor], guess: Any
    ) -> Tensor:
        """``guess``: states at the times of the stages, one after the other."""
        start = wrap(arrays.asarray(guess, raw(y).dtype))
        moved: Tensor = Solution.apply(_Stages(self), start, t, h, y, *values)
        return y + moved[-y.numel() :]

    def pulled(
        self, t: Tensor, h: Tensor, y: Tensor, values: Sequence[Tensor], guess: Any, g: Tensor
    ) -> Sequence[Tensor]:
        """The gradients by ``t``, ``h``, ``y`` and the values, from plain tensors: the rule of
        ``Solution``."""
        problem, at = _Stages(self), (t, h, y, *values)
        with within(levels=(), grad_enabled=True):
            x = problem.solve(wrap(arrays.asarray(guess, raw(y).dtype)), at)
            right = slicing.cat([*[0.0 * g] * (len(self.times) - 1), g])
            w = problem.linear_solution(True, right, x, at)
            by_t, by_h, by_y, *others = self._pulled(-w, x, *at)
        return by_t, by_h, g + by_y, *others


def _stage_equations(rate: Rate, matrix: Any, times: Any) -> Callable[..., Tensor]:
    """What is zero if a vector holds how far the state moves until each of the stages."""

    def residual(x: Tensor, t: Tensor, h: Tensor, y: Tensor, *values: Tensor) -> Tensor:
        n = y.numel()
        moved = [x[i * n : (i + 1) * n] for i in range(len(times))]
        rates = [rate(t + c * h, y + z, *values) for c, z in zip(times, moved, strict=True)]
        zero = 0.0 * y
        rows = [z - _moved(zero, h, row, rates) for z, row in zip(moved, matrix, strict=True)]
        found: Tensor = slicing.cat(rows)
        return found

    return residual


class _Stages(Problem):
    """How far the state moves until each of the stages of a step."""

    name = "solve_ivp"

    def __init__(self, step: Implicit) -> None:
        super().__init__(())
        self.step = step

    def residual(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        return self.step.residual(x, *values)

    def value(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        found: Tensor = self.step.value(x, *values)
        return found

    def matrix(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        found: Tensor = self.step.jacobian(x, *values)
        return found

    def solve(self, x0: Any, values: Sequence[Tensor]) -> Tensor:
        """Newton's method, from the states that are expected at the stages."""
        y = values[2]
        x = x0 - slicing.cat([y] * len(self.step.times))
        eps = finfo(x.dtype).eps
        close, rounding = eps**0.83, eps**0.7  # 1e-13 and 1e-11 in double precision
        before = float("inf")
        factors: Any = None
        for _ in range(30):
            if factors is None:
                factors = arrays.solvers.Factors(raw(self.matrix(x, values)))
                if not factors.condition > 0.0:
                    break
            change = factors.solved(raw(self.value(x, values)), False)
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
