"""Line search for a step length that satisfies the strong Wolfe conditions.

The search follows Nocedal and Wright, Numerical Optimization, chapter 3.5: first steps that grow
until a good length is passed, then an interval that closes in on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from retrograd.arrays import Raw

ENOUGH_FALL, ENOUGH_SLOPE = 1e-4, 0.9


class Point(NamedTuple):
    """A point on the line: the step length, and the value, gradient and directional derivative
    there."""

    at: Any
    value: float
    grad: Raw
    slope: Any


def cubic_minimum(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic with these two values and slopes is least, within the bounds; the middle if
    it has no minimum."""
    low, high = bounds or ((a.at, b.at) if a.at <= b.at else (b.at, a.at))
    mean = a.slope + b.slope - 3 * (a.value - b.value) / (a.at - b.at)
    square = mean**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    if a.at > b.at:
        a, b = b, a
    root = square**0.5
    part = (b.slope + root - mean) / (b.slope - a.slope + 2 * root)
    return min(max(b.at - (b.at - a.at) * part, low), high)


def strong_wolfe(
    evaluate: Callable[[Any], Point], start: Point, first: Any, length: Any, most: int,
    tolerance: float = 1e-9,
) -> tuple[Point, int]:  # fmt: skip
    """The point chosen, and how many were evaluated. ``length`` is that of a unit step."""

    def falls_too_little(point: Point) -> bool:
        return bool(point.value > start.value + ENOUGH_FALL * point.at * start.slope)

    def is_flat(point: Point) -> bool:
        return bool(abs(point.slope) <= -ENOUGH_SLOPE * start.slope)

    before, new, steps = start, evaluate(first), 0
    while True:
        if steps >= most:
            ends = [start, new]
            break
        if falls_too_little(new) or (steps > 1 and new.value >= before.value):
            ends = [before, new]
            break
        if is_flat(new):
            return new, steps + 1
        if new.slope >= 0:
            ends = [before, new]
            break
        bounds = (new.at + 0.01 * (new.at - before.at), new.at * 10)
        following = cubic_minimum(before, new, bounds)
        before, new, steps = new, evaluate(following), steps + 1

    low, high = (0, 1) if ends[0].value <= ends[1].value else (1, 0)
    stuck = False
    while steps < most and not abs(ends[1].at - ends[0].at) * length < tolerance:
        at, stuck = _away_from_ends(cubic_minimum(ends[0], ends[1]), ends[0].at, ends[1].at, stuck)
        new, steps = evaluate(at), steps + 1
        if falls_too_little(new) or new.value >= ends[low].value:
            ends[high] = new
            low, high = (0, 1) if ends[0].value <= ends[1].value else (1, 0)
            continue
        done = is_flat(new)
        if not done and new.slope * (ends[high].at - ends[low].at) >= 0:
            ends[high] = ends[low]
        ends[low] = new
        if done:
            break
    return ends[low], steps + 1


def _away_from_ends(at: Any, a: Any, b: Any, stuck: bool) -> tuple[Any, bool]:
    """A trial point that is not, for the second time, next to an end of the interval; and whether
    it is for the first time."""
    least, most = min(a, b), max(a, b)
    margin = 0.1 * (most - least)
    if min(most - at, at - least) >= margin:
        return at, False
    if not (stuck or at >= most or at <= least):
        return at, True
    return (most - margin if abs(at - most) < abs(at - least) else least + margin), False
