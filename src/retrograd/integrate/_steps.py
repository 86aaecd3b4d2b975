"""Single steps of the methods for initial value problems, as differentiable functions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import within
from retrograd.autograd._wrap import wrap
from retrograd.func._jacobians import jacfwd
from retrograd.func._programs import Evaluation
from retrograd.func._reverse import vjp
from retrograd.func._vectorized import vmap
from retrograd.ops._operation import raw
from retrograd.ops.linear import stack
from retrograd.ops.shapes import slicing
from retrograd.optimize._implicit import Problem, Solution, check_regular
from retrograd.tensor._limits import finfo
from retrograd.tensor._tensor import Tensor

UNSOLVED = (
    "solve_ivp: the equations of a step at t = {:g} were not solved, so there are no derivatives. "
    "Ask for smaller tolerances."
)
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
        self, t: Any, h: Any, y: Any, values: Sequence[Tensor], guess: Any, g: Any
    ) -> Sequence[Any]:
        """The gradients by ``t``, ``h``, ``y`` and the values, which are plain tensors. All else
        are raw arrays."""
        return self._pulled.arrays(wrap(g), wrap(t), wrap(h), wrap(y), *values)


def _explicit(rate: Rate, stages: Any, weights: Any, times: Any) -> Callable[..., Tensor]:
    def step(t: Tensor, h: Tensor, y: Tensor, *values: Tensor) -> Tensor:
        rates: list[Tensor] = []
        for row, c in zip(stages, times, strict=True):
            rates.append(rate(t + c * h, _moved(y, h, row, rates), *values))
        return _moved(y, h, weights, rates)

    return step


def _pull(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a gradient and of the arguments of another function, which gives the gradients
    by these."""

    def pulled(g: Tensor, *args: Tensor) -> Any:
        return vjp(function, *args)[1](g)

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
        self.stages = _Rates(rate, make, matrix, self.times)

    def __call__(
        self, t: Tensor, h: Tensor, y: Tensor, values: Sequence[Tensor], guess: Any
    ) -> Tensor:
        """``guess``: states at the times of the stages, a row for each."""
        start = wrap(arrays.asarray(guess, raw(y).dtype).reshape(-1))
        moved: Tensor = Solution.apply(_Stages(self), start, t, h, y, *values)
        return y + moved[-y.numel() :]

    def pulled(
        self, t: Any, h: Any, y: Any, values: Sequence[Tensor], guess: Any, g: Any
    ) -> Sequence[Any]:
        """The gradients by ``t``, ``h``, ``y`` and the values, which are plain tensors. All else
        are raw arrays. That is the rule of ``Solution``."""
        with within(levels=(), grad_enabled=True):
            return self.stages.pulled(t, h, y, values, guess, g)


class _Rates:
    """The rates at all stages of a step at once, and gradients through the step from them."""

    def __init__(self, rate: Rate, make: Make, matrix: Any, times: Any) -> None:
        self.system = arrays.integration.Stages(matrix, times)
        every, pair = _together(rate), _together(_with_jacobian(rate))
        self._pair = make("rates of stages and their jacobians", pair, "matrix")
        self._pulled = make("rates of stages, pulled", _pull(every), "matrix")

    def pulled(
        self, t: Any, h: Any, y: Any, values: Sequence[Tensor], guess: Any, g: Any
    ) -> Sequence[Any]:
        system = self.system.at(t, h, y)
        times = wrap(system.times)
        states, rates, factors = self._solution(system, times, values, guess)
        by_rates, by_h = system.adjoint(factors, rates, g)
        by_times, by_states, *others = self._pulled.arrays(wrap(by_rates), times, states, *values)
        return *system.gathered(by_times, by_states, by_h, g), *others

    def _solution(
        self, system: Any, times: Tensor, values: Sequence[Tensor], guess: Any
    ) -> tuple[Tensor, Any, Any]:
        """The states and the rates at the stages, a row for each, and the factors of the equations
        there, by Newton's method. The guess is so good that one step is enough as a rule. Then
        derivatives are needed at the result anyway, and say that it is one."""
        y = system.y
        moved = arrays.asarray(guess, y.dtype) - y
        close, rounding = _tolerances(times.dtype)
        before = float("inf")
        for _ in range(30):
            states = wrap(y + moved)
            jacobians, rates = self._pair.arrays(times, states, *values)
            factors = system.factors(jacobians)
            check_regular("solve_ivp", factors)
            change = system.step(factors, moved, rates)
            far, size = system.sizes(change, moved)
            if far <= close * size or before <= far <= rounding * size:
                return states, rates, factors
            moved, before = moved - change, far
        raise RuntimeError(UNSOLVED.format(float(system.t)))


def _with_jacobian(rate: Rate) -> Callable[..., Any]:
    """The derivative of the rate by the state, and the rate."""

    def pair(t: Tensor, y: Tensor, *values: Tensor) -> Any:
        found = rate(t, y, *values)
        return found, found

    return jacfwd(pair, argnums=1, has_aux=True)  # type: ignore[no-any-return]


def _together(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a time, a state and values, for several times and states: as a batch if it can
    be evaluated so, which takes fewer operations, and else one after the other."""
    batched: bool | None = None

    def every(times: Tensor, states: Tensor, *values: Tensor) -> Any:
        nonlocal batched
        at_once = vmap(function, in_dims=(0, 0, *[None] * len(values)))
        if batched is None:
            batched = works(at_once, times, states, *values)
        if batched:
            return at_once(times, states, *values)
        pairs = zip(times.unbind(), states.unbind(), strict=True)
        found = [function(t, y, *values) for t, y in pairs]
        if isinstance(found[0], Tensor):
            return stack(found, dim=0)
        return tuple([stack(list(parts), dim=0) for parts in zip(*found, strict=True)])

    return every


def works(function: Callable[..., Any], *args: Tensor) -> bool:
    """Whether a function can be called, without a warning."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function(*args)
    except Exception:  # if it is the user's own, it is raised again by the next call
        return False
    return True


@functools.cache
def _tolerances(dtype: Any) -> tuple[float, float]:
    """When the stages of a step count as found: 1e-13 and 1e-11 in double precision."""
    eps = finfo(dtype).eps
    return eps**0.83, eps**0.7


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
        close, rounding = _tolerances(x.dtype)
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
        raise RuntimeError(UNSOLVED.format(float(values[0])))
