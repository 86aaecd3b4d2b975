"""SciPy's integrators, and the coefficients of their methods."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import integrate as _integrate  # type: ignore[import-untyped]
from scipy.integrate._ivp import ivp as _ivp  # type: ignore[import-untyped]

from retrograd.arrays._solvers import Factors
from retrograd.arrays._switching import Piece as Piece
from retrograd.arrays._switching import first_rows as first_rows
from retrograd.arrays._switching import in_blocks as in_blocks
from retrograd.arrays._switching import padded as padded
from retrograd.arrays._switching import switches as switches
from retrograd.arrays._switching import with_short_ends as with_short_ends

solve_ivp, quad, quad_vec = _integrate.solve_ivp, _integrate.quad, _integrate.quad_vec
OdeResult = _ivp.OdeResult

EXPLICIT = {"RK23": _integrate.RK23, "RK45": _integrate.RK45, "DOP853": _integrate.DOP853}
IMPLICIT = ("Radau", "BDF", "LSODA")
MOST_STEEP = 64  # places where a function is searched for jumps
COARSE = 6  # up to so many subintervals, a function has no detail that could be overlooked

_ROOT = 6**0.5
# Radau's method of order 5, by which steps of all implicit methods are differentiated.
RADAU = (
    [[(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
     [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
     [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9]],
    [(4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0],
)  # fmt: skip


def tableau(method: str) -> tuple[list[list[float]], list[float], list[float]]:
    """The coefficients of an explicit method: of stages, of the result, and of times."""
    kind = EXPLICIT[method]
    count = kind.n_stages
    matrix = np.asarray(kind.A)[:count]
    rows = [[float(x) for x in matrix[i, :i]] for i in range(count)]
    return rows, [float(x) for x in kind.B[:count]], [float(x) for x in kind.C[:count]]


class Stages:
    """The equations of the stages of an implicit step: ``z - h (a ⊗ 1) f = 0`` for the rates ``f``
    at the stages, where ``z`` is how far the state moves until each of them. Rows are stages."""

    t: Any
    y: Any
    times: Any  # of the stages
    scaled: Any  # the coefficients, times the length of the step

    def __init__(self, matrix: Any, times: Any) -> None:
        self.matrix, self.places = np.asarray(matrix), np.asarray(times)
        self.unit = np.zeros((0, 0))

    def at(self, t: Any, h: Any, y: Any) -> Stages:
        """The equations of one step."""
        clone = copy.copy(self)
        clone.t, clone.y = t, y
        clone.times = np.asarray(t + self.places * h, y.dtype)
        clone.scaled = self.matrix * np.float64(h)
        if len(self.unit) != len(self.places) * len(y):
            self.unit = clone.unit = np.eye(len(self.places) * len(y))
        return clone

    def factors(self, jacobians: Any) -> Factors:
        """Of the derivative of the equations by ``z``."""
        blocks = self.scaled[:, None, :, None] * jacobians.transpose(1, 0, 2)
        return Factors(self.unit - blocks.reshape(self.unit.shape))

    def step(self, factors: Factors, z: Any, rates: Any) -> Any:
        """A step of Newton's method from ``z``, with the sign turned."""
        left = (z - self.scaled @ rates).reshape(-1)
        return factors.solved(left, False).reshape(z.shape).astype(z.dtype)

    def sizes(self, change: Any, z: Any) -> tuple[float, float]:
        """Of a change of ``z``, and of what is changed."""
        return float(np.abs(change).max()), float(np.abs(self.y).max() + np.abs(z).max())

    def adjoint(self, factors: Factors, rates: Any, g: Any) -> tuple[Any, Any]:
        """The gradients by the rates and by ``h``, as far as it stands before them, from that of
        the state after the step."""
        right = np.zeros(rates.shape)
        right[-1] = g
        w = factors.solved(right.reshape(-1), True).reshape(rates.shape)
        by_rates = (self.scaled.T @ w).astype(rates.dtype)
        return by_rates, (w * (self.matrix @ rates)).sum()

    def gathered(self, by_times: Any, by_states: Any, by_h: Any, g: Any) -> tuple[Any, Any, Any]:
        """The gradients by the time, the length of the step and the state before it."""
        by_length = (by_h + self.places @ by_times).astype(g.dtype)
        return by_times.sum(), by_length, g + by_states.sum(0)


def states_between(solution: Any, times: Any, dtype: Any) -> list[Any]:
    """The states at the ends of the steps, other than the first and the last one. Most methods keep
    the state that a step began with."""
    steps = getattr(solution, "interpolants", ())
    if len(steps) == len(times) - 1 and all(hasattr(step, "y_old") for step in steps):
        return [np.asarray(step.y_old, dtype) for step in steps[1:]]
    return list(states_at(solution, times[1:-1], dtype))


def states_at(solution: Any, times: Any, dtype: Any) -> Any:
    """The states at times in any order, a row for each."""
    times = np.asarray(times, np.float64)
    if not len(times):
        return np.zeros((0, 0), dtype)
    return np.ascontiguousarray(np.asarray(solution(times), dtype).T)


def segments(grid: Any, times: Any) -> Any:
    """For each time, the number of the step of a grid that it is in; the grid may go down."""
    grid, times = np.asarray(grid, np.float64), np.asarray(times, np.float64)
    sign = 1.0 if grid[-1] >= grid[0] else -1.0
    numbers = np.searchsorted(sign * grid, sign * times, side="left") - 1
    return np.clip(numbers, 0, max(len(grid) - 2, 0))


def distinct(times: Any) -> tuple[Any, Any]:
    """Times in order without repetitions, and for each of those given its place among them."""
    is_new = np.ones(len(times), bool)
    is_new[1:] = times[1:] != times[:-1]
    return times[is_new], np.cumsum(is_new) - 1


def jumps(f: Any, samples: Any, points: Any, dtype: Any) -> list[tuple[float, float]]:
    """Where a function of a number, which returns a vector, is discontinuous: pairs of numbers, as
    close as the dtype allows, between which it changes. ``samples`` are its values where SciPy
    integrated it, which are dense near a jump, and ``points`` are places to look at besides.

    A pair of neighbouring samples is looked at if the function changes more there than the slopes
    on both sides let expect: by a quarter, or at all where samples are dense. It is bisected as
    long as the change does not shrink as that of a continuous function.
    """
    finite = [(x, y) for x, y in samples if np.isfinite(y).all()]
    x, first = np.unique([x for x, _ in finite], return_index=True)
    if len(x) < 4:
        return []
    y = np.stack([finite[i][1] for i in first])
    scale = np.abs(y).max(0)
    scale[scale == 0] = 1.0
    width, change = np.diff(x), np.diff(y / scale, axis=0)
    slope = np.pad(change / width[:, None], ((2, 2), (0, 0)), "reflect")
    beside = np.median([slope[:-4], slope[1:-3], slope[3:-1], slope[4:]], axis=0)
    excess = np.abs(change - beside * width[:, None])
    dense = (width < (x[-1] - x[0]) / 64)[:, None] & (excess > np.finfo(dtype).eps ** 0.4)
    unexpected = ((excess > 0.25 * np.abs(change)) & (change != 0) | dense).any(1)
    steep = np.flatnonzero(unexpected)
    steep = steep[np.argsort(-(excess.max(1) / width)[steep])][:MOST_STEEP]
    jumps_at = []
    for i in steep:
        without_trend = lambda t, i=i: f(t) / scale - beside[i] * (t - x[i])
        jumps_at.append(_bisected(without_trend, x[i], x[i + 1], dtype))
    for p in points:
        if x[0] <= p <= x[-1]:
            left, right = (np.nextafter(p, side, dtype=dtype) for side in (-np.inf, np.inf))
            jumps_at.append(_bisected(lambda t: f(t) / scale, left, right, dtype))
    return [pair for pair in jumps_at if pair is not None]


def jumps_within_steps(
    f: Any, times: Any, evaluated: Sequence[float], dtype: Any
) -> list[tuple[float, float]]:
    """Where a function of the time, which returns a vector, is discontinuous, as in ``jumps``. A
    method that meets a jump has to try a smaller step, so only steps that were taken where a larger
    one had been tried are looked at. ``evaluated``: all times of evaluations, one after the other.
    """
    pairs = []
    for i in _tried_again(np.asarray(times), np.asarray(evaluated)):
        left, right = sorted((dtype.type(times[i]), dtype.type(times[i + 1])))
        scale = np.abs(f(left)) + np.abs(f(right))
        scale[scale == 0] = 1.0
        pairs.append(_bisected(lambda t, scale=scale: f(t) / scale, left, right, dtype))
    return [pair for pair in pairs if pair is not None]


def _tried_again(times: Any, evaluated: Any) -> list[int]:
    """The numbers of the steps that are within a longer one that was tried before, of each longer
    one the first few: the method gets over a jump by small steps."""
    sign = 1.0 if times[-1] >= times[0] else -1.0
    ends, at = sign * times, sign * evaluated
    farthest = np.maximum.accumulate(at)
    indices: set[int] = set()
    for i in range(1, len(ends)):
        reached = np.flatnonzero(at == ends[i])
        if len(reached) and farthest[reached[0]] > ends[i]:
            last = int(np.searchsorted(ends, farthest[reached[0]]))
            indices.update(range(i - 1, min(last, i + 3, len(ends) - 1)))
    return sorted(indices)


def jumps_among(f: Any, pairs: Any, times: Any, dtype: Any) -> list[tuple[float, float]]:
    """Those pairs of neighbouring times between which a function changes, relative to its size at
    all of them and at the ends of a trajectory. Each pair is widened by a few rounding errors: the
    function is evaluated at interpolated states, and at a time next to a jump, the rounding error
    of the state would determine the side of the jump."""
    if not pairs:
        return []
    low, high = min(times[0], times[-1]), max(times[0], times[-1])
    apart = 256 * float(np.finfo(dtype).eps) * max(abs(low), abs(high))
    pairs = [(max(left - apart, low), min(right + apart, high)) for left, right in pairs]
    sides = [(f(left), f(right)) for left, right in pairs]
    size = np.max(np.abs([f(times[0]), f(times[-1]), *[x for side in sides for x in side]]), 0)
    size[size == 0] = 1.0
    least = np.finfo(dtype).eps ** 0.4 * size
    jumps = [bool((np.abs(right - left) > least).any()) for left, right in sides]
    return [pair for pair, is_jump in zip(pairs, jumps, strict=True) if is_jump]


def has_moved(before: Any, after: Any, dtype: Any) -> bool:
    """Whether a jump is at another place. Both are vectors on the left and on the right of where
    it was: a jump that has passed by makes one side as the other was."""
    left, right = before
    jump = np.abs(right - left)
    counts = jump > np.finfo(dtype).eps ** 0.4 * np.maximum(np.abs(left), np.abs(right))
    change = [np.abs(b - a) for a, b in zip(before, after, strict=True)]
    return bool((counts & (np.maximum(*change) > jump / 2)).any())


def nearby(arrays: Sequence[Any]) -> list[Any]:
    """Arrays that have moved by half the digits of their dtypes, at random."""
    generator = np.random.default_rng(0)
    points = []
    for x in arrays:
        signs = generator.choice([-1.0, 1.0], x.shape) * generator.uniform(0.5, 1.5, x.shape)
        size = np.abs(x)
        size = np.where(size > 0, size, size.mean() or 1.0) if x.size else size
        points.append((x + np.finfo(x.dtype).eps ** 0.5 * signs * size).astype(x.dtype))
    return points


def along(x: Any, direction: Any) -> Any:
    """An array that has moved by half the digits of its dtype in a direction."""
    largest = max(np.abs(direction).max(initial=0), np.finfo(x.dtype).tiny)
    step = np.finfo(x.dtype).eps ** 0.5 * max(1.0, np.abs(x).max(initial=0))
    return x + (step / largest) * direction


def _bisected(f: Any, low: float, high: float, dtype: Any) -> tuple[float, float] | None:
    """The numbers between which a function jumps; None if it is continuous."""
    eps = float(np.finfo(dtype).eps)
    width = max(high - low, abs(low), abs(high)) * eps
    at_low, at_high = f(low), f(high)
    whole = change = np.abs(at_high - at_low).max()
    halvings = 0
    while high - low > 2 * width and low < (middle := dtype.type(low / 2 + high / 2)) < high:
        at = f(middle)
        left, right = np.abs(at - at_low).max(), np.abs(at_high - at).max()
        if left >= right:
            high, at_high, change = middle, at, left
        else:
            low, at_low, change = middle, at, right
        halvings += 1
        if change < 0.5 * whole * 2 ** (-0.75 * halvings):
            return None
    return (float(low), float(high)) if change > eps**0.4 else None


class Integral(NamedTuple):
    """An integral, an estimate of its error, the values of the integrand where it was evaluated,
    and the places between the subintervals, if more than a few were needed."""

    value: Any
    error: float
    samples: list[tuple[float, Any]]
    mesh: list[float]


def integral(f: Any, low: float, high: float, options: dict[str, Any], mesh: Any) -> Integral:
    """The integral of a function that returns a vector. ``mesh``: where to begin with subintervals,
    as the integral of another function that is steep at the same places needed them."""
    given = {name: x for name, x in options.items() if x is not None}
    infinite = not (np.isfinite(low) and np.isfinite(high))
    if "points" in given and infinite:
        raise ValueError("quad: infinite limits cannot be combined with points.")
    samples: list[tuple[float, Any]] = []

    def sampled(x: float) -> Any:
        samples.append((x, f(x)))
        return samples[-1][1]

    middle = 0.5 * (np.clip(low, -1e3, 1e3) + np.clip(high, -1e3, 1e3))
    width = len(sampled(float(middle)))
    if low == high or not width:
        return Integral(np.zeros(width), 0.0, [], [])
    start, end = min(low, high), max(low, high)
    if mesh:
        points = [float(x) for x in {*given.get("points", ()), *mesh} if start < x < end]
        given.update(points=points, limit=max(given["limit"], 2 * len(points) + 50))
    sign = 1.0 if start == low else -1.0
    if width == 1 and not (mesh and infinite):
        output = quad(lambda x: float(sampled(x)[0]), start, end, full_output=True, **given)
        value, error, info = np.asarray([output[0]]), output[1], output[2]
        message = output[3] if len(output) > 3 else ""
        ends = info["alist"][: info["last"]]
    else:
        value, error, info = quad_vec(sampled, start, end, norm="max", full_output=True, **given)
        message, ends = "" if info.success else info.message, info.intervals[:, 0]
    if len(ends) <= COARSE:
        ends = ends[:0]
    elif infinite:
        ends = _from_unit(np.abs(ends), start, end)
    if message:
        warnings.warn(f"quad: {message}", _integrate.IntegrationWarning, stacklevel=2)
    between = [float(x) for x in ends if start < x < end]
    return Integral(sign * value, float(error), samples, between)


def _from_unit(t: Any, low: float, high: float) -> Any:
    """Numbers of an infinite interval, from those of the unit interval that stands for it."""
    far = (1 - t[t > 0]) / t[t > 0]
    if np.isfinite(low):
        return low + far
    return high - far if np.isfinite(high) else np.r_[-far, far]
