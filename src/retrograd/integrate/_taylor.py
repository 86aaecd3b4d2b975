"""``odeint_taylor``: solving differential equations by Taylor series."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from retrograd.autograd._levels import as_tensor, opened
from retrograd.autograd._series import Series, SeriesLevel
from retrograd.autograd._wrap import wrap
from retrograd.func import _series as _series  # which completes what the level knows
from retrograd.ops.shapes import slicing
from retrograd.tensor._creation import tensor
from retrograd.tensor._tensor import Tensor

__all__ = ["odeint_taylor"]


def odeint_taylor(
    func: Callable[[Any, Any], Any], y0: Tensor, t: Tensor, *, rtol: float = 1e-9,
    atol: float = 1e-12, order: int | None = None, max_steps: int = 100_000,
) -> Tensor:  # fmt: skip
    """Solve ``dy/dt = func(t, y)`` by Taylor series of high order.

    Each step computes the series of the solution from the equation itself, order by order, and goes
    as far as the last two terms stay within the tolerance. Between steps the series is the
    solution, so output times cost nothing. The result is differentiable by ``y0`` and by whatever
    ``func`` uses.

    Args:
        func: The right-hand side: a function of the time, a Tensor of no dimensions, and of the
            state. It must not write Tensors in place, nor look at their values.
        y0: The state at ``t[0]``, of a floating-point dtype.
        t: The times to report, increasing or decreasing.
        rtol: The relative tolerance of one step.
        atol: The absolute tolerance of one step.
        order: The order of the series. By default it follows from ``rtol``, by the rule that
            minimizes the work: ``1 - log(rtol) / 2``.
        max_steps: The largest number of steps.

    Returns:
        The states at all times, of shape ``(len(t), *y0.shape)``.

    Example:
        >>> from retrograd.integrate import odeint_taylor
        >>> t = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
        >>> y0 = torch.tensor([1.0, 0.0], dtype=torch.float64)
        >>> odeint_taylor(lambda t, y: torch.stack([y[1], -y[0]]), y0, t)
        tensor([[ 1.0000,  0.0000],
                [ 0.5403, -0.8415],
                [-0.4161, -0.9093]], dtype=torch.float64)
    """
    times = _times(t, y0)
    if order is None:
        order = max(4, math.ceil(1 - math.log(rtol) / 2))
    if order < 2:
        raise ValueError(f"odeint_taylor: expected an order of at least 2, got {order}.")
    direction = 1.0 if times[-1] >= times[0] else -1.0
    now, y, result = times[0], y0, [y0]
    for _ in range(max_steps):
        if len(result) == len(times):
            break
        series = _expand(func, now, y, order)
        step = _step(series, rtol, atol)
        if not step > 0:
            raise RuntimeError(
                f"odeint_taylor: no step is small enough at t = {now:g}: the solution, or a "
                "coefficient of its series, is infinite or NaN there."
            )
        end = now + direction * step
        while len(result) < len(times) and direction * (times[len(result)] - end) <= 0:
            result.append(_evaluate(series, times[len(result)] - now))
        if end == now:
            raise RuntimeError(
                f"odeint_taylor: the step became too small at t = {now:g}, where the solution may "
                "have a singularity."
            )
        y, now = _evaluate(series, end - now), end
    else:
        raise RuntimeError(
            f"odeint_taylor: {max_steps} steps reached t = {now:g} only. Raise max_steps, or "
            "loosen the tolerances."
        )
    stacked: Tensor = slicing.stack(result)
    return stacked


def _times(t: Tensor, y0: Tensor) -> list[float]:
    if not isinstance(y0, Tensor) or not y0.is_floating_point():
        raise TypeError("odeint_taylor: expected y0 to be a Tensor of a floating-point dtype.")
    times: list[float] = [float(x) for x in t.tolist()] if t.ndim == 1 else []
    steps = [b - a for a, b in pairwise(times)]
    if not times or not (all(s > 0 for s in steps) or all(s < 0 for s in steps)):
        raise ValueError("odeint_taylor: t must be a vector of increasing or decreasing times.")
    return times


def _expand(func: Callable[[Any, Any], Any], now: float, y: Tensor, order: int) -> list[Any]:
    """The Taylor coefficients of the solution through ``y`` at the time ``now``."""
    with opened(SeriesLevel(order)) as level:
        clock = tensor(now, dtype=y.dtype)
        time = wrap(Series(level, [clock, tensor(1.0, dtype=y.dtype)], order))
        solution = Series(level, [y], order)

        def rate() -> Any:
            moved = func(time, wrap(solution))
            if not isinstance(moved, Tensor) or moved.shape != y.shape:
                shape = list(moved.shape) if isinstance(moved, Tensor) else type(moved)
                raise ValueError(
                    f"odeint_taylor: func must return a Tensor of the shape of y0, "
                    f"{list(y.shape)}, got {shape}."
                )
            return moved

        coefficients = level.solve(solution, rate)
        return [None if c is None else as_tensor(c) for c in coefficients]


def _step(series: list[Any], rtol: float, atol: float) -> float:
    """How far the series holds: its last two terms are within the tolerance there."""
    size = _size(series[0])
    tolerance = atol + rtol * size
    steps = [
        (tolerance / _size(series[k])) ** (1 / k)
        for k in (len(series) - 2, len(series) - 1)
        if series[k] is not None and _size(series[k]) != 0
    ]
    return min(steps, default=math.inf)


def _size(x: Any) -> float:
    return float(x.detach().abs().max()) if x.numel() else 0.0


def _evaluate(series: list[Any], h: float) -> Tensor:
    """The polynomial at ``h``."""
    total: Any = None
    for c in reversed(series):
        total = c if total is None else total * h if c is None else total * h + c
    result: Tensor = total
    return result
