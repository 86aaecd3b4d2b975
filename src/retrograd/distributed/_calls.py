"""Descriptions of calls: text for messages, and fingerprints to compare across ranks."""

from __future__ import annotations

from typing import Any

from retrograd._source import describe, user_place
from retrograd.arrays import dtypes

_NAMES = (
    "barrier", "broadcast", "all_reduce", "reduce", "all_gather", "all_gather_into_tensor",
    "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all",
    "all_to_all_single", "new_group", "DistributedDataParallel", "isend", "irecv", "full_tensor",
    "distribute_tensor",
)  # fmt: skip
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}
DTYPES = tuple(dtypes._BY_NAME)
_DTYPE_NUMBERS = {name: number for number, name in enumerate(DTYPES)}
_POSITIVE = (1 << 62) - 1


class Call:
    """A call of this package: its name and what must be the same in all ranks."""

    __slots__ = ("detail", "dtype", "name", "place", "shape", "source", "words")

    def __init__(
        self, name: str, tensor: Any = None, detail: tuple[int, ...] = (), words: str = ""
    ) -> None:
        self.name = name
        self.shape: tuple[int, ...] = () if tensor is None else tensor._data.shape
        self.dtype = "" if tensor is None else tensor._data.dtype.name
        self.detail = detail  # what else must be the same
        self.words = words  # the same as text, and what may differ
        self.source = -1  # the global rank that a received message came from
        self.place = user_place(3)

    def fingerprint(self) -> int:
        """A hash of the call that is the same in every process."""
        dtype = _DTYPE_NUMBERS.get(self.dtype, -1)
        numbers = (_NUMBERS[self.name], dtype, len(self.shape), *self.shape, *self.detail)
        return hash(numbers) & _POSITIVE

    def __str__(self) -> str:
        tensor = f"{self.dtype}{list(self.shape)}" if self.dtype else ""
        return f"{self.name}({', '.join(part for part in (tensor, self.words) if part)})"

    def where(self) -> str:
        """The line of the user's code that made the call."""
        return describe(self.place) or "?"
