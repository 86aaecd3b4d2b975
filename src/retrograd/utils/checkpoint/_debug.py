"""The operations of the first run and of the recomputation, for the error if they differ."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import zip_longest
from typing import Any, Self

from retrograd import _source
from retrograd.autograd._wrap import Plug
from retrograd.ops._operation import Operation
from retrograd.tensor._calls import apply
from retrograd.utils.checkpoint._frames import TIP, CheckpointError
from retrograd.utils.checkpoint._interception import Interceptor


class OperationLog(Interceptor):
    """Notes the operations that ran, with the lines of the user's code that called them."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[str, _source.Place]] = []

    def __enter__(self) -> Self:
        self.entries.clear()
        return super().__enter__()

    def handle(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        arguments = ", ".join(
            [_word(x) for x in args] + [f"{k}={_word(v)}" for k, v in options.items()]
        )
        place = _source.user_place(2)
        try:
            result = apply(op, args, options, computed)
        except BaseException:
            # It has failed, or saved the last value that was wanted, which ends the run.
            self.entries.append((f"{op.name}({arguments})", place))
            raise
        self.entries.append((f"{op.name}({arguments}) -> {_word(result)}", place))
        return result


def _word(value: Any) -> str:
    if isinstance(value, Plug.tensor):
        return f"{value.dtype!r}{list(value.shape)}".removeprefix("torch.")
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_word, value))})"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


class Debugging:
    """The logs of both runs of a checkpointed function."""

    def __init__(self) -> None:
        self.first, self.second = OperationLog(), OperationLog()

    def contexts(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        return self.first, self.second

    def explain(self, error: CheckpointError) -> CheckpointError:
        """An error with the operations of both runs, and where they part."""
        return CheckpointError(
            "An error happened while unpacking tensors; dumping logs of latest computation\n"
            "because you passed `debug=True` to `torch.utils.checkpoint.checkpoint()`.\n\n"
            "Operations executed during the original forward:\n\n"
            f"{_listed(self.first)}\n"
            "Operations executed during recomputation:\n\n"
            f"{_listed(self.second)}\n"
            f"{self._difference()}\n\n"
            "ERROR: Detected non-determinism while running activation checkpointing\n\n"
            f"{str(error).removesuffix(TIP)}"
        )

    def _difference(self) -> str:
        pairs = zip_longest(self.first.entries, self.second.entries)
        for number, (one, other) in enumerate(pairs, 1):
            if one is None or other is None or not _alike(one[0], other[0]):
                return (
                    f"The first difference is at operation {number}:\n"
                    f"  forward:       {_line(one)}\n  recomputation: {_line(other)}"
                )
        return "The operations are the same. What differs is which of their values were saved."


def _alike(one: str, other: str) -> bool:
    """Whether two entries tell of the same; one that was not finished lacks its result."""
    return one.startswith(other) or other.startswith(one)


def _line(entry: tuple[str, _source.Place] | None) -> str:
    if entry is None:
        return "nothing more"
    text, place = entry
    line = _source.describe(place)
    return f"{text}    at {line}" if line else text


def _listed(log: OperationLog) -> str:
    return "".join(f"{i:5}  {_line(entry)}\n" for i, entry in enumerate(log.entries, 1))
