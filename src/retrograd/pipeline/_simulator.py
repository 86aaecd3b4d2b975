"""Simulates a schedule: its cost, and whether it deadlocks.

Ranks are followed one instruction at a time. What a rank may do next depends on its own clock and
on the messages it has been sent, never on what others do at the same moment. So each rank can be
run until it needs a message that has not been sent yet, and the times are exact with one visit per
instruction. If all remaining ranks wait, they wait for each other: a deadlock.

Times are whole numbers of ticks. Costs are fractions (a float is the decimal number it is written
as), and a tick is their common measure. Nothing is ever rounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index

from retrograd.pipeline._costs import Costs, Number, Numbers
from retrograd.pipeline._instructions import (
    PARTNERS,
    PASSES,
    RECEIVES,
    SENDS,
    Instruction,
    Kind,
    Program,
    ScheduleError,
)
from retrograd.pipeline._timeline import Event, Timeline

Message = tuple[bool, int, int, int]  # is a gradient, from virtual stage, to, micro-batch
_FREES = frozenset({Kind.BACKWARD, Kind.BACKWARD_WEIGHT})


class DeadlockError(ScheduleError):
    """Ranks wait for each other in a cycle, or for a message that nobody sends.

    ``cycle`` has the ranks and the instructions they wait at, each for the next one.
    """

    def __init__(self, message: str, cycle: Sequence[tuple[int, Instruction]]) -> None:
        super().__init__(message)
        self.cycle = tuple(cycle)


def simulate(
    schedule: Program, *, forward: Numbers = 1, backward: Numbers | None = None,
    backward_input: Numbers | None = None, backward_weight: Numbers | None = None,
    communication: Numbers | Mapping[tuple[int, int], Number] = 0, latency: Number = 0,
    contention: bool = False, buffers: int | None = None, activation_bytes: Numbers | None = None,
    progress: Callable[[float], None] | None = None,
) -> Timeline:  # fmt: skip
    """Simulate a schedule.

    Costs are times in any unit. A single number is for a whole stage, shared equally by its
    chunks; a list has one for each rank, or one for each virtual stage, taken as it is.

    Args:
        schedule: the schedule.
        forward: cost of a forward pass.
        backward: cost of a backward pass: twice ``forward`` by default, half of it for inputs.
        backward_input: cost of the part of a backward pass that computes gradients of inputs.
        backward_weight: cost of the part that computes gradients of weights.
        communication: cost of a message, beside ``latency``; a mapping has one for each pair of
            ranks. The sender goes on meanwhile. What stays on a rank takes no time.
        latency: time that is added to that of every message.
        contention: whether messages from one rank to another go one at a time, each keeping the
            connection for ``communication``.
        buffers: how many messages from one rank to another can wait to be received before a send
            blocks: any number by default. With 0, a send waits for its receiver.
        activation_bytes: what a micro-batch keeps on a stage from its forward pass to its backward
            pass.
        progress: a function that is called with the part that is done, from 0 to 1.

    Returns:
        A ``Timeline``.

    Example:
        >>> from retrograd.pipeline import schedules, simulate
        >>> schedule = schedules.get("1f1b")(stages=4, microbatches=8)
        >>> timeline = simulate(schedule, forward=1, backward=2)
        >>> timeline.time, timeline.bubble, timeline.peak_activations
        (33, Fraction(3, 8), (4, 3, 2, 1))
    """
    costs = Costs(
        schedule.stages, schedule.chunks, forward=forward, backward=backward,
        backward_input=backward_input, backward_weight=backward_weight, communication=communication,
        latency=latency, activation_bytes=activation_bytes,
    )  # fmt: skip
    if buffers is not None and (isinstance(buffers, bool) or index(buffers) < 0):
        raise ValueError(f"buffers must be a number of messages or None, not {buffers!r}")
    run = _Simulation(schedule, costs, contention, buffers)
    run.run(progress)
    return Timeline(
        schedule,
        costs,
        events=[rank.events for rank in run.ranks],
        ends=[rank.clock for rank in run.ranks],
        peaks=[(rank.peak, rank.peak_bytes) for rank in run.ranks],
    )


class _Rank:
    """One rank and its progress."""

    __slots__ = (
        "blocked", "clock", "events", "live", "live_bytes", "number", "peak", "peak_bytes", "rest",
    )  # fmt: skip

    def __init__(self, number: int, instructions: Iterator[Instruction]) -> None:
        self.number = number
        self.rest = instructions
        self.blocked: Instruction | None = None
        self.clock = 0
        self.events: list[Event] = []
        self.live = self.peak = self.live_bytes = self.peak_bytes = 0


class _Simulation:
    def __init__(
        self, schedule: Program, costs: Costs, contention: bool, buffers: int | None
    ) -> None:
        self.schedule = schedule
        self.costs = costs
        self.contention = contention
        self.buffers = buffers
        self.ranks = [_Rank(r, schedule.instructions(r)) for r in range(schedule.stages)]
        self.arrivals: dict[Message, tuple[int, int]] = {}  # when it was sent, and when it arrives
        self.awaited: dict[Message, _Rank] = {}  # who waits for a message
        self.offered: dict[Message, _Rank] = {}  # who waits for a receiver
        self.handed_over: dict[Message, tuple[int, int]] = {}  # when receiving began and ended
        self.sent: dict[tuple[int, int], int] = {}  # how many, from rank to rank
        self.taken: dict[tuple[int, int], list[int]] = {}  # when each of them was received
        self.crowded: dict[tuple[int, int], _Rank] = {}  # who waits for a free buffer
        self.free_from: dict[tuple[int, int], int] = {}  # when a connection is free again
        self.runnable = deque(self.ranks)
        self.passes = 0

    def run(self, progress: Callable[[float], None] | None) -> None:
        expected = self.schedule.microbatches * self.schedule.chunks * self.schedule.stages
        expected *= 2 if self.schedule.trains else 1
        finished = turns = 0
        while self.runnable:
            finished += self._advance(self.runnable.popleft())
            turns += 1
            if progress is not None and turns % 256 == 0:
                progress(min(1.0, self.passes / expected))
        if finished < len(self.ranks):
            raise self._deadlock()
        for message in self.arrivals:
            raise ScheduleError(f"{_sentence(message)} is sent, but nobody receives it")
        if progress is not None:
            progress(1.0)

    def _advance(self, rank: _Rank) -> bool:
        """Run a rank until it has to wait (False) or to its end (True)."""
        stages, number, trains = self.schedule.stages, rank.number, self.schedule.trains
        duration, sizes = self.costs.duration, self.costs.bytes_kept
        instruction = rank.blocked
        rank.blocked = None
        while True:
            if instruction is None:
                instruction = next(rank.rest, None)
                if instruction is None:
                    return True
            kind, microbatch, chunk, peer = instruction
            here = chunk * stages + number
            if kind in PASSES:
                start = rank.clock
                rank.clock = start + duration[kind][here]
                rank.events.append(Event(start, rank.clock, kind, microbatch, chunk))
                if kind is Kind.FORWARD:
                    self.passes += 1
                    rank.peak = max(rank.peak, rank.live + 1)
                    rank.peak_bytes = max(rank.peak_bytes, rank.live_bytes + sizes[here])
                    if trains:
                        rank.live += 1
                        rank.live_bytes += sizes[here]
                elif kind in _FREES:
                    self.passes += 1
                    rank.live -= 1
                    rank.live_bytes -= sizes[here]
            elif kind in RECEIVES:
                message = (kind is Kind.RECEIVE_GRADIENT, peer, here, microbatch)
                if not self._receive(rank, instruction, message):
                    rank.blocked = instruction
                    return False
            elif kind in SENDS:
                message = (kind is Kind.SEND_GRADIENT, here, peer, microbatch)
                if not self._send(rank, instruction, message):
                    rank.blocked = instruction
                    return False
            instruction = None

    # -- messages ------------------------------------------------------------------------------

    def _send(self, rank: _Rank, instruction: Instruction, message: Message) -> bool:
        """Send, or return False if the rank has to wait first."""
        here, target = rank.number, instruction.peer % self.schedule.stages
        if message in self.arrivals:
            raise ScheduleError(f"rank {here} sends {_sentence(message)} twice")
        start = rank.clock
        if here == target:
            end = start
        elif self.buffers is None:
            end = self._transfer(start, message, (here, target))
        elif self.buffers == 0:
            return self._meet(rank, instruction, message)
        else:
            pair = (here, target)
            count, taken = self.sent.get(pair, 0), self.taken.setdefault(pair, [])
            if count >= self.buffers:
                if len(taken) <= count - self.buffers:
                    self.crowded[pair] = rank
                    return False
                room = taken[count - self.buffers]
                self._wait(rank, instruction, room, room)
                start = rank.clock
            self.sent[pair] = count + 1
            end = self._transfer(start, message, pair)
        self.arrivals[message] = (start, end)
        waiting = self.awaited.pop(message, None)
        if waiting is not None:
            self.runnable.append(waiting)
        return True

    def _transfer(self, start: int, message: Message, pair: tuple[int, int]) -> int:
        """When a message that is sent at ``start`` arrives."""
        is_gradient, source, target, _ = message
        occupied = self.costs.transfer((target, source) if is_gradient else (source, target))
        if self.contention:
            start = max(start, self.free_from.get(pair, 0))
            self.free_from[pair] = start + occupied
        return start + occupied + self.costs.latency

    def _receive(self, rank: _Rank, instruction: Instruction, message: Message) -> bool:
        """Receive, or return False if the message has not been sent yet."""
        here, source = rank.number, instruction.peer % self.schedule.stages
        result = self.arrivals.pop(message, None)
        if result is None:
            sender = self.offered.pop(message, None)
            if sender is None:
                self.awaited[message] = rank
                return False
            start = max(sender.clock, rank.clock)
            result = start, self._transfer(start, message, (source, here))
            self.handed_over[message] = result
            self.runnable.append(sender)
        self._wait(rank, instruction, *result)
        if self.buffers and here != source:
            pair = (source, here)
            self.taken.setdefault(pair, []).append(rank.clock)
            crowded = self.crowded.pop(pair, None)
            if crowded is not None:
                self.runnable.append(crowded)
        return True

    def _meet(self, rank: _Rank, instruction: Instruction, message: Message) -> bool:
        """A send without buffers: both ranks take part until it is done."""
        result = self.handed_over.pop(message, None)
        if result is None:
            receiver = self.awaited.pop(message, None)
            if receiver is None:
                self.offered[message] = rank
                return False
            start = max(rank.clock, receiver.clock)
            result = start, self._transfer(start, message, (rank.number, receiver.number))
            self.arrivals[message] = result
            self.runnable.append(receiver)
        self._wait(rank, instruction, *result)
        return True

    @staticmethod
    def _wait(rank: _Rank, instruction: Instruction, start: int, end: int) -> None:
        """Wait until ``end``. A message was in transit from ``start`` on, which is recorded."""
        if end > rank.clock:
            start = max(start, rank.clock)
            if start < end:
                kind, microbatch, chunk, _ = instruction
                rank.events.append(Event(start, end, kind, microbatch, chunk))
            rank.clock = end

    # -- deadlocks -----------------------------------------------------------------------------

    def _deadlock(self) -> DeadlockError:
        """Each remaining rank waits for one other; following these waits leads into the cycle."""
        rank = next(rank for rank in self.ranks if rank.blocked is not None)
        seen: dict[int, tuple[int, Instruction]] = {}
        while rank.number not in seen:
            assert rank.blocked is not None
            seen[rank.number] = (rank.number, rank.blocked)
            other = self.ranks[rank.blocked.peer % self.schedule.stages]
            problem = self._cannot_come(rank, rank.blocked, other)
            if problem is not None:
                return DeadlockError(problem, [seen[rank.number]])
            rank = other
        cycle = list(seen.values())
        cycle = cycle[[number for number, _ in cycle].index(rank.number) :]
        lines = [f"  rank {number} waits: {instruction}" for number, instruction in cycle]
        return DeadlockError(
            f"{_title(self.schedule)} deadlocks: {_each_for_the_next(cycle)}\n" + "\n".join(lines),
            cycle,
        )

    def _cannot_come(self, rank: _Rank, blocked: Instruction, other: _Rank) -> str | None:
        """Why a rank waits for a message that is never sent, if the other rank is not at fault."""
        here = blocked.chunk * self.schedule.stages + rank.number
        partner = PARTNERS[blocked.kind]
        if blocked.kind in SENDS and self.buffers:
            partners = [i for i in _rest(other) if i.kind in RECEIVES]
            comes = any(i.peer % self.schedule.stages == rank.number for i in partners)
        else:
            chunk = blocked.peer // self.schedule.stages
            comes = Instruction(partner, blocked.microbatch, chunk, here) in _rest(other)
        if comes:
            return None
        verb = "receives" if blocked.kind in SENDS else "sends"
        return (
            f"{_title(self.schedule)} deadlocks: rank {rank.number} waits: {blocked}; but rank "
            f"{other.number} never {verb} that"
        )


def _rest(rank: _Rank) -> list[Instruction]:
    """The instructions that a rank still has to run, listed once."""
    rest = list(rank.rest)
    rank.rest = iter(rest)
    return rest if rank.blocked is None else [rank.blocked, *rest]


def _title(schedule: Program) -> str:
    return f"{schedule.name} on {schedule.stages} stages"


def _each_for_the_next(cycle: Sequence[tuple[int, Instruction]]) -> str:
    if len(cycle) == 1:
        return f"rank {cycle[0][0]} waits for itself"
    return " waits for ".join(f"rank {number}" for number, _ in [*cycle, cycle[0]])


def _sentence(message: Message) -> str:
    is_gradient, source, target, microbatch = message
    what = "the gradient" if is_gradient else "the activation"
    return f"{what} of micro-batch {microbatch} from virtual stage {source} to {target}"
