"""Random counts and choices, identical to those of PyTorch's CPU kernels.

Poisson and binomial counts take as many uniform numbers from the stream as it happens to need: few
ones are found by multiplying or adding up until a bound is passed, many by Hoermann's transformed
rejection.  So they are drawn one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.arrays._generator import Generator, default_generator, require
from retrograd.arrays._sampling import as_c_library, narrowed, unit_uniforms

Array = npt.NDArray[Any]
Uniform = Callable[[], float]


# ---- choices ------------------------------------------------------------------------------------


def multinomial(
    weights: Array, count: int, replacement: bool, generator: Generator | None = None
) -> Array:
    """Draw ``count`` indices from each row of ``weights``, as ``torch.multinomial``.

    >>> multinomial(np.array([0.0, 1.0]), 3, True).tolist()
    [1, 1, 1]
    """
    generator = generator or default_generator
    if not replacement or count == 1:
        return _by_a_race(weights, count, generator)
    rows = weights.reshape(-1, weights.shape[-1])
    chosen = np.empty((len(rows), count), np.int64)
    with generator.lock:
        for row, indices in zip(rows, chosen, strict=True):
            bounds = _cumulative(row)
            indices[...] = np.searchsorted(bounds, unit_uniforms(generator, count, np.float64))
    return chosen.reshape((*weights.shape[:-1], count))


def _by_a_race(weights: Array, count: int, generator: Generator) -> Array:
    """Those first to arrive, if the waiting time of each is exponential and its rate the weight."""
    if weights.size:
        require(
            bool(weights.max() < np.inf and weights.min() >= 0),
            "probability tensor contains either `inf`, `nan` or element < 0",
        )
        require(
            bool((weights.sum(-1) != 0).all()),
            "invalid multinomial distribution (sum of probabilities <= 0)",
        )
    fractions = unit_uniforms(generator, weights.size, np.float64)
    waiting = as_c_library(
        np.log1p, math.log1p, -fractions, lambda logs: narrowed(-1.0 * logs, weights.dtype)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        speed = weights / waiting.reshape(weights.shape)
    fastest: Array = np.argmax(speed, axis=-1, keepdims=True)
    if count > 1:
        fastest = np.argsort(-speed, axis=-1, kind="stable")[..., :count]
    return fastest


def _cumulative(weights: Array) -> Array:
    """Where the slots of a row end, if all together are 1 long."""
    problem = "invalid multinomial distribution (encountering probability entry "
    require(bool((weights >= 0).all() or np.isnan(weights).any()), f"{problem}< 0)")
    require(bool(np.isfinite(weights).all()), f"{problem}= infinity or NaN)")
    ends = np.cumsum(weights, dtype=np.float32 if weights.dtype == np.float16 else weights.dtype)
    require(bool(ends[-1] > 0), "invalid multinomial distribution (sum of probabilities <= 0)")
    bounds: Array = (ends / ends[-1]).astype(np.float64)
    bounds[-1] = 1
    return bounds


# ---- counts -------------------------------------------------------------------------------------


@contextmanager
def uniforms(generator: Generator) -> Iterator[Uniform]:
    """A function that returns the next uniform number. Numbers are drawn in bulk; unused ones are
    returned to the generator."""
    with generator.lock:
        taken, batch, start = 0, 64, generator.saved()
        waiting: Iterator[float] = iter(())

        def take() -> float:
            nonlocal taken, batch, waiting
            taken += 1
            for value in waiting:
                return value
            batch = min(2 * batch, 1 << 16)
            waiting = iter(unit_uniforms(generator, batch, np.float64).tolist())
            return next(waiting)

        try:
            yield take
        finally:
            generator.restore(start)
            for done in range(0, taken, 1 << 20):
                generator.words(2 * min(taken - done, 1 << 20))


def poisson(rates: Array, generator: Generator | None = None) -> Array:
    """Draw a count for each mean number of events, as ``torch.poisson``.

    >>> poisson(np.zeros(2)).tolist()
    [0.0, 0.0]
    """
    require(bool((rates >= 0).all()), "invalid Poisson rate, expected rate to be non-negative")
    with uniforms(generator or default_generator) as uniform:
        counts = [_poisson(rate, uniform) for rate in rates.astype(np.float64).ravel().tolist()]
    return narrowed(np.array(counts, np.float64).reshape(rates.shape), rates.dtype)


def _poisson(rate: float, uniform: Uniform) -> float:
    if rate == 0:
        return 0
    if rate < 10:  # as many as it takes for a product of uniforms to fall below exp(-rate)
        bound, product, count = math.exp(-rate), uniform(), 0
        while product > bound:
            product *= uniform()
            count += 1
        return count
    # Hoermann (1993), PTRS.
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = uniform() - 0.5, uniform()
        us = 0.5 - abs(u)
        k = _floor((2 * a / us + b) * u + rate + 0.43) if us else -1.0
        if us >= 0.07 and v <= quick:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        left = _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if left <= -rate + k * log_rate - math.lgamma(k + 1):
            return k


def binomial(counts: Array, chances: Array, generator: Generator | None = None) -> Array:
    """Draw a number of successes for each number of trials, as ``torch.binomial``.

    >>> binomial(np.array([3.0, 5.0]), np.array([0.0, 1.0])).tolist()
    [0.0, 5.0]
    """
    counts, chances = np.broadcast_arrays(counts, chances)
    pairs = zip(counts.ravel().tolist(), chances.ravel().tolist(), strict=True)
    with uniforms(generator or default_generator) as uniform:
        draws = [_binomial(count, chance, uniform) for count, chance in pairs]
    return narrowed(np.array(draws, np.float64).reshape(counts.shape), counts.dtype)


def _binomial(count: float, chance: float, uniform: Uniform) -> float:
    if count <= 0 or chance <= 0:
        return 0
    if chance >= 1:
        return count
    if chance > 0.5:
        return count - _few_successes(count, 1 - chance, uniform)
    return _few_successes(count, chance, uniform) if chance <= 0.5 else math.nan


def _few_successes(count: float, chance: float, uniform: Uniform) -> float:
    if count * chance >= 10:
        return _many_trials(count, chance, uniform)
    trials, successes, log_failure = 0.0, 0, math.log1p(-chance)
    while True:  # from success to success
        trials += math.ceil(_log(uniform()) / log_failure)
        if trials > count:
            return successes
        successes += 1


def _many_trials(count: float, chance: float, uniform: Uniform) -> float:
    # Hoermann (1993), BTRS.
    deviation = math.sqrt(count * chance * (1 - chance))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * chance
    c = count * chance + 0.5
    quick = 0.92 - 4.2 / b
    odds = chance / (1 - chance)
    alpha = (2.83 + 5.1 / b) * deviation
    m = math.floor((count + 1) * chance)
    while True:
        u, v = uniform() - 0.5, uniform()
        us = 0.5 - abs(u)
        k = _floor((2 * a / us + b) * u + c) if us else -1.0
        if us >= 0.07 and v <= quick:
            return k
        if k < 0 or k > count:
            continue
        bound = (
            (m + 0.5) * math.log((m + 1) / (odds * (count - m + 1)))
            + (count + 1) * math.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
            + (_beyond_stirling(m) + _beyond_stirling(count - m))
            - (_beyond_stirling(k) + _beyond_stirling(count - k))
        )
        if _log(v * alpha / (a / (us * us) + b)) <= bound:
            return k


def _beyond_stirling(k: float) -> float:
    """What Stirling's approximation of the logarithm of ``k!`` lacks."""
    after = k + 1
    if k <= 9:
        stirling = (k + 0.5) * math.log(after) - after + 0.5 * math.log(2 * math.pi)
        return math.lgamma(after) - stirling
    square = after * after
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / after


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _floor(x: float) -> float:
    return float(math.floor(x)) if math.isfinite(x) else x
