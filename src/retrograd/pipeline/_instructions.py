"""The instructions of a pipeline stage."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, Protocol


class Kind(IntEnum):
    """The kind of an instruction. Every send has a matching receive.

    Example:
        >>> str(Kind.SEND_ACTIVATION)
        'send activation'
    """

    LOAD = 0
    RECEIVE_ACTIVATION = 1
    FORWARD = 2
    SEND_ACTIVATION = 3
    RECEIVE_GRADIENT = 4
    BACKWARD = 5
    BACKWARD_INPUT = 6
    BACKWARD_WEIGHT = 7
    SEND_GRADIENT = 8
    REDUCE = 9
    STEP = 10

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


RECEIVES = frozenset({Kind.RECEIVE_ACTIVATION, Kind.RECEIVE_GRADIENT})
SENDS = frozenset({Kind.SEND_ACTIVATION, Kind.SEND_GRADIENT})
BACKWARDS = frozenset({Kind.BACKWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT})
PARTNERS = {
    Kind.RECEIVE_ACTIVATION: Kind.SEND_ACTIVATION,
    Kind.SEND_ACTIVATION: Kind.RECEIVE_ACTIVATION,
    Kind.RECEIVE_GRADIENT: Kind.SEND_GRADIENT,
    Kind.SEND_GRADIENT: Kind.RECEIVE_GRADIENT,
}
PASSES = BACKWARDS | {Kind.FORWARD}


class Instruction(NamedTuple):
    """One instruction: a pass, a send or a receive, for one micro-batch and one chunk.

    A rank of a pipeline of ``p`` stages holds one chunk of the model, or several where they are
    interleaved. The chunks of all ranks in the order of the model are *virtual stages*: chunk
    ``c`` of rank ``r`` is number ``c * p + r``. ``peer`` is the virtual stage to send to or to
    receive from. It may be on the same rank; then nothing has to be sent, only handed over.

    Args:
        kind: what to do.
        microbatch: the number of the micro-batch, or -1 for what is done once in a batch.
        chunk: the number of the chunk, of those that the rank holds.
        peer: the virtual stage to send to or to receive from, or -1.

    Example:
        >>> print(Instruction(Kind.SEND_ACTIVATION, microbatch=3, chunk=0, peer=1))
        send activation of micro-batch 3 to virtual stage 1
    """

    kind: Kind
    microbatch: int = -1
    chunk: int = 0
    peer: int = -1

    def __str__(self) -> str:
        text = str(Kind(self.kind))
        if self.microbatch >= 0:
            text += f" of micro-batch {self.microbatch}"
        if self.chunk > 0:
            text += f" on chunk {self.chunk}"
        if self.peer >= 0:
            text += f" {'to' if self.kind in SENDS else 'from'} virtual stage {self.peer}"
        return text


class Program(Protocol):
    """What can be checked, simulated and run: a list of instructions for each rank."""

    @property
    def stages(self) -> int: ...

    @property
    def microbatches(self) -> int: ...

    @property
    def chunks(self) -> int: ...

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass for each forward pass."""
        ...

    @property
    def links(self) -> frozenset[tuple[int, int]]: ...

    @property
    def name(self) -> str: ...

    def instructions(self, rank: int) -> Iterator[Instruction]: ...


class ScheduleError(ValueError):
    """A list of instructions that cannot run, or does not train every micro-batch on every
    stage."""
