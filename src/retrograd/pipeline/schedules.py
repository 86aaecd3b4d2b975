"""Schedules: the order in which each stage runs its forward and backward passes.

A schedule is data. It is independent of processes, tensors and messages, so it can be printed,
checked, simulated and compared; a pipeline runs the same instructions. A schedule defines only the
order of passes on a rank (:meth:`Schedule.passes`). What is loaded, received and sent around each
pass follows from it.

>>> from retrograd.pipeline import schedules
>>> schedule = schedules.get("1f1b")(stages=2, microbatches=2)
>>> for instruction in schedule.instructions(1):
...     print(instruction)
load of micro-batch 0
receive activation of micro-batch 0 from virtual stage 0
forward of micro-batch 0
backward of micro-batch 0
send gradient of micro-batch 0 to virtual stage 0
load of micro-batch 1
receive activation of micro-batch 1 from virtual stage 0
forward of micro-batch 1
backward of micro-batch 1
send gradient of micro-batch 1 to virtual stage 0
reduce
step
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from operator import index
from typing import ClassVar

from retrograd.pipeline._instructions import PASSES, Instruction, Kind, ScheduleError
from retrograd.pipeline._simulator import simulate

Pass = tuple[Kind, int, int]  # which pass, of which micro-batch, on which chunk


class Schedule:
    """The order in which ``stages`` ranks do ``microbatches`` micro-batches.

    ``chunks`` is how many parts of the model each rank holds. ``links`` are pairs of virtual stages
    that exchange activations besides neighbours, for skip connections: ``(0, 2)`` sends something
    from virtual stage 0 directly to 2.
    """

    name: ClassVar[str] = ""
    trains: bool = True
    takes_chunks: ClassVar[bool] = False

    def __init__(
        self, stages: int, microbatches: int, chunks: int = 1,
        links: Iterable[tuple[int, int]] = (),
    ) -> None:  # fmt: skip
        self.stages = _at_least_one(stages, "stages")
        self.microbatches = _at_least_one(microbatches, "microbatches")
        self.chunks = _at_least_one(chunks, "chunks")
        if chunks > 1 and not self.takes_chunks:
            raise ValueError(
                f"{self.name} runs one chunk a stage, not {chunks}; several are for 'interleaved'"
            )
        last = self.stages * self.chunks - 1
        links = list(links)
        for link in links:
            if len(link) != 2 or not 0 <= link[0] < link[1] <= last:
                raise ValueError(
                    f"links are pairs (from, to) of virtual stages with 0 <= from < to <= {last}, "
                    f"not {link}"
                )
        self.links = frozenset((s, s + 1) for s in range(last)) | frozenset(links)
        self._before: list[list[int]] = [[] for _ in range(last + 1)]
        self._after: list[list[int]] = [[] for _ in range(last + 1)]
        for source, target in sorted(self.links):
            self._after[source].append(target)
            self._before[target].append(source)

    def passes(self, rank: int) -> Iterator[Pass]:
        """The order of a rank's passes: all that a schedule decides."""
        raise NotImplementedError

    def instructions(self, rank: int) -> Iterator[Instruction]:
        """The instructions of a rank in order, generated lazily. Results are sent as soon as they
        are computed, and what a pass needs is received right before it. So a rank waits only for
        what it needs to continue.
        """
        if not 0 <= rank < self.stages:
            raise ValueError(f"there is no rank {rank} in a pipeline of {self.stages} stages")
        return self._instructions(rank)

    def _instructions(self, rank: int) -> Iterator[Instruction]:
        p, last = self.stages, self.stages * self.chunks - 1
        for kind, microbatch, chunk in self.passes(rank):
            here = chunk * p + rank
            if kind is Kind.FORWARD:
                if here in (0, last):
                    yield Instruction(Kind.LOAD, microbatch, chunk)
                for peer in self._before[here]:
                    yield Instruction(Kind.RECEIVE_ACTIVATION, microbatch, chunk, peer)
                yield Instruction(kind, microbatch, chunk)
                for peer in self._after[here]:
                    yield Instruction(Kind.SEND_ACTIVATION, microbatch, chunk, peer)
            elif kind is Kind.BACKWARD_WEIGHT:
                yield Instruction(kind, microbatch, chunk)
            else:
                for peer in self._after[here]:
                    yield Instruction(Kind.RECEIVE_GRADIENT, microbatch, chunk, peer)
                yield Instruction(kind, microbatch, chunk)
                # The nearest stage first, since the others wait for it.
                for peer in reversed(self._before[here]):
                    yield Instruction(Kind.SEND_GRADIENT, microbatch, chunk, peer)
        if self.trains:
            yield Instruction(Kind.REDUCE)
            yield Instruction(Kind.STEP)

    def forward_only(self) -> Forward:
        """The schedule that evaluates with the same stages, micro-batches and links."""
        return Forward(self.stages, self.microbatches, self.chunks, self.links)

    def __str__(self) -> str:
        """Stages as lines and time from left to right, where backward takes two forwards."""
        try:
            return simulate(self).text()
        except ScheduleError as error:
            order = (
                " ".join(f"{i.kind.name[0]}{i.microbatch}" for i in self.instructions(rank)
                         if i.kind in PASSES)
                for rank in range(self.stages)
            )  # fmt: skip
            lines = [f"stage {rank}  {passes}" for rank, passes in enumerate(order)]
            return "\n".join([f"{self!r}, which cannot run", *lines, str(error)])

    def __repr__(self) -> str:
        chunks = f", chunks={self.chunks}" if self.chunks > 1 else ""
        return (
            f"<{self.name or type(self).__name__}: stages={self.stages}, "
            f"microbatches={self.microbatches}{chunks}>"
        )


def _at_least_one(value: int, name: str) -> int:
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if not whole or index(value) < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return index(value)


class GPipe(Schedule):
    """All forward passes, then all backward passes (Huang et al., 2019).

    The simplest order, and the most memory: every micro-batch's activations are kept until the
    last one has gone forward.
    """

    name = "gpipe"

    def passes(self, rank: int) -> Iterator[Pass]:
        for kind in (Kind.FORWARD, Kind.BACKWARD):
            for microbatch in range(self.microbatches):
                yield kind, microbatch, 0


class OneForwardOneBackward(Schedule):
    """1F1B, also known as PipeDream-flush (Narayanan et al., 2021).

    As long as GPipe takes, but a stage goes backward as soon as it can. A stage that is ``k``
    stages from the end never has more than ``k + 1`` micro-batches in flight.
    """

    name = "1f1b"

    def passes(self, rank: int) -> Iterator[Pass]:
        ahead = min(self.stages - rank - 1, self.microbatches)
        for microbatch in range(ahead):
            yield Kind.FORWARD, microbatch, 0
        for microbatch in range(ahead, self.microbatches):
            yield Kind.FORWARD, microbatch, 0
            yield Kind.BACKWARD, microbatch - ahead, 0
        for microbatch in range(self.microbatches - ahead, self.microbatches):
            yield Kind.BACKWARD, microbatch, 0


class Interleaved(Schedule):
    """Interleaved 1F1B (Narayanan et al., 2021): every rank holds several chunks of the model.

    A micro-batch goes round the ranks once for each chunk, so the pipeline fills in a fraction of
    the time, for more messages and more activations in flight. Micro-batches go round in groups
    of ``stages``. Where ``microbatches`` is not a multiple of that, groups are larger, the larger
    ones first: with a smaller group, ranks would wait for each other in a cycle.
    """

    name = "interleaved"
    takes_chunks = True

    def passes(self, rank: int) -> Iterator[Pass]:
        p, v = self.stages, self.chunks
        sizes = _groups(self.microbatches, p)
        if v == 1:
            ahead = p - rank - 1  # only one chunk: 1F1B
        else:
            # The first backward pass follows all chunks of a group. To and from the last rank a
            # micro-batch takes one step a rank, and in each of those a rank needs other work.
            ahead = (v - 1) * sizes[0] + 2 * (p - rank - 1)
        total = v * self.microbatches
        ahead = min(ahead, total)
        forward = self._rounds(sizes, range(v))
        backward = self._rounds(sizes, range(v - 1, -1, -1))
        for _ in range(ahead):
            yield Kind.FORWARD, *next(forward)
        for _ in range(total - ahead):
            yield Kind.FORWARD, *next(forward)
            yield Kind.BACKWARD, *next(backward)
        for _ in range(ahead):
            yield Kind.BACKWARD, *next(backward)

    def _rounds(self, sizes: Sequence[int], chunks: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Micro-batch and chunk: each group goes through all chunks before the next one starts."""
        first = 0
        for size in sizes:
            for chunk in chunks:
                for microbatch in range(first, first + size):
                    yield microbatch, chunk
            first += size


def _groups(microbatches: int, stages: int) -> list[int]:
    """Sizes of at least ``stages``, as equal as they can be, the larger first."""
    count = max(1, microbatches // stages)
    size, larger = divmod(microbatches, count)
    return [size + 1] * larger + [size] * (count - larger)


class ZeroBubbleH1(Schedule):
    """ZB-H1 (Qi et al., 2024): gradients for inputs first, those for weights to fill the gaps.

    Other stages wait only for the gradients of a stage's inputs. Rank ``r`` postpones the gradients
    of its weights by ``r`` micro-batches, to when the ranks behind it would be idle in 1F1B. No
    rank keeps more micro-batches than the first one does in 1F1B.
    """

    name = "zb-h1"

    def passes(self, rank: int) -> Iterator[Pass]:
        m = self.microbatches
        ahead = min(self.stages - rank, m)
        for microbatch in range(ahead):
            yield Kind.FORWARD, microbatch, 0
        for microbatch in range(m):
            yield Kind.BACKWARD_INPUT, microbatch, 0
            if microbatch >= rank:
                yield Kind.BACKWARD_WEIGHT, microbatch - rank, 0
            if microbatch + ahead < m:
                yield Kind.FORWARD, microbatch + ahead, 0
        for microbatch in range(max(0, m - rank), m):
            yield Kind.BACKWARD_WEIGHT, microbatch, 0


class Forward(Schedule):
    """Forward passes only, to evaluate. Nothing is kept, reduced or stepped."""

    name = "forward"
    trains = False
    takes_chunks = True

    def passes(self, rank: int) -> Iterator[Pass]:
        first = 0
        for size in _groups(self.microbatches, self.stages):
            for chunk in range(self.chunks):
                for microbatch in range(first, first + size):
                    yield Kind.FORWARD, microbatch, chunk
            first += size


class Written(Schedule):
    """A schedule given by its instructions, a list for each rank: for experiments, and to find out
    what is wrong with a schedule.
    """

    name = "written"
    takes_chunks = True

    def __init__(
        self, programs: Sequence[Iterable[Instruction]], microbatches: int, chunks: int = 1,
        links: Iterable[tuple[int, int]] = (), trains: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(len(programs), microbatches, chunks, links)
        self.trains = trains
        self.programs = [list(program) for program in programs]

    def _instructions(self, rank: int) -> Iterator[Instruction]:
        return iter(self.programs[rank])


_SCHEDULES: dict[str, type[Schedule]] = {
    schedule.name: schedule
    for schedule in (GPipe, OneForwardOneBackward, Interleaved, ZeroBubbleH1, Forward)
}
TRAINING = tuple(name for name, schedule in _SCHEDULES.items() if schedule.trains)


def names() -> tuple[str, ...]:
    """What :func:`get` knows.

    >>> names()
    ('gpipe', '1f1b', 'interleaved', 'zb-h1', 'forward')
    """
    return tuple(_SCHEDULES)


def get(name: str) -> type[Schedule]:
    """A schedule by its name.

    >>> get("zb-h1")(stages=4, microbatches=8)
    <zb-h1: stages=4, microbatches=8>
    """
    result = _SCHEDULES.get(name.lower().replace("_", "-"))
    if result is None:
        near = get_close_matches(name, _SCHEDULES, 1)
        advice = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(_SCHEDULES)}"
        raise ValueError(f"there is no schedule {name!r}; {advice}")
    return result
