"""Reading micro-batches from an iterator, with separate random numbers for data and layers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from retrograd.arrays._generator import Generator
from retrograd.pipeline._layers import checksum
from retrograd.pipeline._values import tensors_of
from retrograd.tensor._rng import default_generator

_NOTHING = object()


class Reader:
    """Takes the items of one batch from an iterator, one at a time and in order."""

    def __init__(self, iterator: Iterable[Any] | None, count: int, rank: int) -> None:
        if iterator is None or not hasattr(iterator, "__next__"):
            raise TypeError(
                f"rank {rank} runs the first or the last stage and needs an iterator over pairs of "
                f"inputs and targets, such as iter(loader), not {_kind(iterator)}"
            )
        self.iterator, self.count, self.rank = iterator, count, rank
        self.taken: list[Any] = []
        self.next = _NOTHING

    def has_more(self) -> bool:
        """Whether there is another item."""
        if self.next is _NOTHING:
            self.next = next(self.iterator, _NOTHING)  # type: ignore[call-overload]
        return self.next is not _NOTHING

    def item(self, microbatch: int) -> Any:
        while len(self.taken) <= microbatch:
            if not self.has_more():
                raise RuntimeError(
                    f"the iterator of rank {self.rank} has ended after {len(self.taken)} of the "
                    f"{self.count} micro-batches of a batch. Leave incomplete batches out "
                    "(drop_last), or give a number of micro-batches that divides the data"
                )
            self.taken.append(self.next)
            self.next = _NOTHING
        return self.taken[microbatch]


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


class Items:
    """The items of a batch as pairs, and two streams of random numbers: the user's, which data
    are made with, and one of the pipeline's own, which layers draw from."""

    def __init__(self, reader: Reader | None, needs_targets: bool, own: Generator) -> None:
        self.reader, self.needs_targets, self.own = reader, needs_targets, own
        self.checksum = -1  # of the targets so far; -1 if there are none
        self._summed = 0

    @contextlib.contextmanager
    def own_random_numbers(self) -> Iterator[None]:
        """A context in which random numbers do not change the user's stream."""
        default_generator.exchange(self.own)
        try:
            yield
        finally:
            default_generator.exchange(self.own)

    def item(self, microbatch: int) -> tuple[Any, Any]:
        """Inputs and targets of a micro-batch, made with the user's random numbers."""
        if self.reader is None:  # the last stage, if no loss is wanted
            return None, None
        default_generator.exchange(self.own)
        try:
            item = self.reader.item(microbatch)
        finally:
            default_generator.exchange(self.own)
        if isinstance(item, (tuple, list)) and len(item) == 2:
            if microbatch >= self._summed:
                self._add(item[1])
            return item[0], item[1]
        if self.needs_targets:
            count = f" of {len(item)}" if isinstance(item, (tuple, list)) else ""
            raise TypeError(
                "an iterator for a pipeline gives pairs (inputs, targets), not "
                f"{_kind(item)}{count}"
            )
        return item, None

    def _add(self, targets: Any) -> None:
        """Add targets to the checksum, which tells whether two ranks read the same data."""
        self._summed += 1
        self.checksum = checksum(tensors_of(targets), max(self.checksum, 0))
