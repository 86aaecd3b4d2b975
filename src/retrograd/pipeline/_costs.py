"""Costs of passes and messages, as exact numbers of ticks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from numbers import Rational

from retrograd.pipeline._instructions import Kind

Number = float | Fraction
Numbers = Number | Sequence[Number]


class Costs:
    """Costs of every virtual stage and link, in ticks: the largest time that divides them all.

    A number for a whole stage is shared equally by its chunks. ``communication`` is not divided: a
    message has the same size wherever the model is cut.
    """

    def __init__(
        self, stages: int, chunks: int, *, forward: Numbers, backward: Numbers | None,
        backward_input: Numbers | None, backward_weight: Numbers | None,
        communication: Numbers | Mapping[tuple[int, int], Number], latency: Number,
        activation_bytes: Numbers | None,
    ) -> None:  # fmt: skip
        self._stages, self._chunks = stages, chunks
        self.rounds = False  # whether a float was given, so that floats are expected back
        ahead = self._shared(forward, "forward")
        whole = [2 * cost for cost in ahead] if backward is None else None
        whole = self._shared(backward, "backward") if backward is not None else whole
        assert whole is not None
        inputs, weights = self._split(whole, backward_input, backward_weight)
        if backward is None:
            whole = [a + b for a, b in zip(inputs, weights, strict=True)]
        elif whole != [a + b for a, b in zip(inputs, weights, strict=True)]:
            raise ValueError("backward must be the sum of backward_input and backward_weight")
        links = self._links(communication)
        delay = self._exact(latency, "latency")
        every = [*ahead, *inputs, *weights, *whole, *links.values(), delay]
        self.tick = Fraction(1, math.lcm(*(cost.denominator for cost in every)))
        self.duration = {
            Kind.FORWARD: self._ticks(ahead),
            Kind.BACKWARD: self._ticks(whole),
            Kind.BACKWARD_INPUT: self._ticks(inputs),
            Kind.BACKWARD_WEIGHT: self._ticks(weights),
        }
        self._default = self._ticks([links.pop(None, Fraction(0))])[0]
        self._transfer = {link: int(cost / self.tick) for link, cost in links.items()}
        self.latency = int(delay / self.tick)
        self.counts_bytes = activation_bytes is not None
        kept = self._shared(activation_bytes or 0, "activation_bytes")
        self.byte = Fraction(1, math.lcm(*(size.denominator for size in kept)))
        self.bytes_kept = [int(size / self.byte) for size in kept]

    def transfer(self, link: tuple[int, int]) -> int:
        """How long a message keeps a link busy, in ticks."""
        return self._transfer.get(link, self._default)

    def number(self, value: Fraction | int) -> int | float | Fraction:
        """A result as the user expects it: a float if costs were floats, else exact."""
        if self.rounds:
            return float(value)
        value = Fraction(value)
        return value.numerator if value.denominator == 1 else value

    def _ticks(self, costs: Sequence[Fraction]) -> list[int]:
        return [int(cost / self.tick) for cost in costs]

    def _exact(self, value: Number, name: str) -> Fraction:
        if isinstance(value, Rational) and not isinstance(value, bool):
            exact = Fraction(value)
        else:
            try:
                self.rounds = True
                exact = Fraction(repr(float(value)))
            except (TypeError, ValueError):
                raise ValueError(f"{name} must be a number, not {value!r}") from None
        if exact < 0:
            raise ValueError(f"{name} must not be negative, but it is {value}")
        return exact

    def _shared(self, numbers: Numbers, name: str) -> list[Fraction]:
        """One number for each virtual stage."""
        virtual = self._stages * self._chunks
        if not isinstance(numbers, Sequence):
            return [self._exact(numbers, name) / self._chunks] * virtual
        exact = [self._exact(value, name) for value in numbers]
        if len(exact) == virtual:
            return exact
        if len(exact) == self._stages:
            return [value / self._chunks for value in exact] * self._chunks
        each = f" or {virtual}, one a virtual stage" if self._chunks > 1 else ""
        raise ValueError(
            f"{name} has {len(exact)} numbers; give {self._stages}, one a stage{each}, or a single "
            "one for all"
        )

    def _split(
        self, whole: list[Fraction], inputs: Numbers | None, weights: Numbers | None
    ) -> tuple[list[Fraction], list[Fraction]]:
        """The parts of a backward pass for inputs and for weights."""
        first = None if inputs is None else self._shared(inputs, "backward_input")
        second = None if weights is None else self._shared(weights, "backward_weight")
        if first is None and second is None:
            return [cost / 2 for cost in whole], [cost / 2 for cost in whole]
        if first is None:
            assert second is not None
            first = [a - b for a, b in zip(whole, second, strict=True)]
        if second is None:
            second = [a - b for a, b in zip(whole, first, strict=True)]
        if min(*first, *second) < 0:
            raise ValueError("a part of the backward pass must not take longer than all of it")
        return first, second

    def _links(
        self, given: Numbers | Mapping[tuple[int, int], Number]
    ) -> dict[tuple[int, int] | None, Fraction]:
        """The cost of a message on each link; under ``None`` for links that are not named."""
        name = "communication"
        if isinstance(given, Mapping):
            return {(a, b): self._exact(cost, name) for (a, b), cost in given.items()}
        if not isinstance(given, Sequence):
            return {None: self._exact(given, name)}
        last = self._stages * self._chunks - 1
        if len(given) != last:
            raise ValueError(
                f"{name} has {len(given)} numbers; give {last}, one between each two virtual "
                "stages, or a dictionary by (from, to), or a single number for all"
            )
        return {(s, s + 1): self._exact(cost, name) for s, cost in enumerate(given)}
