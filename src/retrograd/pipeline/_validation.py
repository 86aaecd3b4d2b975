"""Checks that a schedule runs every micro-batch on every part of the model once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from retrograd.pipeline._instructions import (
    BACKWARDS,
    PARTNERS,
    RECEIVES,
    SENDS,
    Instruction,
    Kind,
    Program,
    ScheduleError,
)
from retrograd.pipeline._simulator import simulate


def check(schedule: Program) -> None:
    """Raise a :class:`ScheduleError` that says what is wrong with a schedule, if anything is.

    - Every micro-batch goes forward once and backward once on every virtual stage, and is loaded
      on the first and on the last.
    - A pass comes after all that it needs was received, and before anything of it is sent; the
      backward pass for weights comes after that for inputs.
    - Every send has its receive, over a link that the schedule has.
    - Each rank ends with one reduce and one step, after all else.
    - It cannot deadlock, as long as sends do not wait for their receivers.

    Args:
        schedule: the schedule.

    Example:
        >>> from retrograd import pipeline
        >>> pipeline.check(pipeline.schedules.get("zb-h1")(stages=4, microbatches=8))
    """
    sent: set[tuple[Kind, int, int, int]] = set()
    received: set[tuple[Kind, int, int, int]] = set()
    for rank in range(schedule.stages):
        _Rank(schedule, rank).check(sent, received)
    for kind, source, target, microbatch in sorted(sent ^ received):
        was_sent = (kind, source, target, microbatch) in sent
        raise ScheduleError(
            f"the {str(kind).removeprefix('send ')} of micro-batch {microbatch} from virtual "
            f"stage {source} to {target} is "
            f"{'sent, but not received' if was_sent else 'received, but not sent'}"
        )
    simulate(schedule)


class _Rank:
    """The checks of one rank's instructions, in their order."""

    def __init__(self, schedule: Program, rank: int) -> None:
        self.schedule = schedule
        self.rank = rank
        self.last = schedule.stages * schedule.chunks - 1
        self.before: dict[int, list[int]] = {}
        self.after: dict[int, list[int]] = {}
        for source, target in sorted(schedule.links):
            self.before.setdefault(target, []).append(source)
            self.after.setdefault(source, []).append(target)
        self.done: Counter[Instruction] = Counter()
        self.ended: list[Kind] = []

    def check(
        self, sent: set[tuple[Kind, int, int, int]], received: set[tuple[Kind, int, int, int]]
    ) -> None:
        for instruction in self.schedule.instructions(self.rank):
            if self.ended == [Kind.REDUCE, Kind.STEP]:
                raise self._error(f"{instruction}, after the last step")
            if instruction.kind in (Kind.REDUCE, Kind.STEP):
                self.ended.append(instruction.kind)
                continue
            if self.ended:
                raise self._error(f"{instruction}, after gradients were reduced")
            self._known(instruction)
            here = instruction.chunk * self.schedule.stages + self.rank
            for needed in self._needed(instruction, here):
                if not self.done[needed]:
                    raise self._error(f"{instruction}, before {needed}")
            self.done[instruction] += 1
            if self.done[instruction] > 1:
                raise self._error(f"{instruction}, twice")
            kind, microbatch, _, peer = instruction
            if kind in SENDS:
                sent.add((kind, here, peer, microbatch))
            elif kind in RECEIVES:
                received.add((PARTNERS[kind], peer, here, microbatch))
        self._complete()

    def _known(self, instruction: Instruction) -> None:
        """Check that the instruction is possible on this rank."""
        kind, microbatch, chunk, peer = instruction
        here = chunk * self.schedule.stages + self.rank
        if not 0 <= microbatch < self.schedule.microbatches:
            raise self._error(f"{instruction}, of {self.schedule.microbatches} micro-batches")
        if not 0 <= chunk < self.schedule.chunks:
            raise self._error(f"{instruction}, of {self.schedule.chunks} chunks")
        gradients = {Kind.SEND_GRADIENT, Kind.RECEIVE_GRADIENT}
        if not self.schedule.trains and kind in BACKWARDS | gradients:
            raise self._error(f"{instruction}, where nothing is trained")
        if kind is Kind.LOAD and here not in (0, self.last):
            raise self._error(f"{instruction}, which only the first and the last chunk do")
        if kind in SENDS | RECEIVES:
            ahead = kind in (Kind.SEND_ACTIVATION, Kind.RECEIVE_GRADIENT)
            link = (here, peer) if ahead else (peer, here)
            if link not in self.schedule.links:
                raise self._error(f"{instruction}, but there is no link {link}")

    def _needed(self, instruction: Instruction, here: int) -> Iterator[Instruction]:
        """The instructions that must have been run before this one."""
        kind, microbatch, chunk, _ = instruction
        if kind is Kind.FORWARD:
            if here in (0, self.last):
                yield Instruction(Kind.LOAD, microbatch, chunk)
            for peer in self.before.get(here, ()):
                yield Instruction(Kind.RECEIVE_ACTIVATION, microbatch, chunk, peer)
        elif kind in (Kind.BACKWARD, Kind.BACKWARD_INPUT):
            for peer in self.after.get(here, ()):
                yield Instruction(Kind.RECEIVE_GRADIENT, microbatch, chunk, peer)
        if kind in BACKWARDS or kind is Kind.SEND_ACTIVATION:
            yield Instruction(Kind.FORWARD, microbatch, chunk)
        if kind is Kind.BACKWARD_WEIGHT:
            yield Instruction(Kind.BACKWARD_INPUT, microbatch, chunk)
        if kind is Kind.SEND_GRADIENT:
            whole = Instruction(Kind.BACKWARD, microbatch, chunk)
            if not self.done[whole]:
                yield Instruction(Kind.BACKWARD_INPUT, microbatch, chunk)

    def _complete(self) -> None:
        """Check that nothing is missing, and that no backward pass is both whole and divided."""
        trains = self.schedule.trains
        for chunk in range(self.schedule.chunks):
            here = chunk * self.schedule.stages + self.rank
            for microbatch in range(self.schedule.microbatches):
                forward, whole, inputs, weights = (
                    self.done[Instruction(kind, microbatch, chunk)]
                    for kind in (
                        Kind.FORWARD, Kind.BACKWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT
                    )
                )  # fmt: skip
                where = f"micro-batch {microbatch} on virtual stage {here}"
                if not forward:
                    raise self._error(f"no forward pass of {where}")
                if trains and whole + inputs != 1:
                    what = "two backward passes" if whole + inputs else "no backward pass"
                    raise self._error(f"{what} of {where}")
                if trains and whole + weights != 1:
                    what = "two backward passes for weights" if whole else "no weights' gradients"
                    raise self._error(f"{what} of {where}")
        if self.ended != ([Kind.REDUCE, Kind.STEP] if trains else []):
            raise self._error(
                "a rank must end with one reduce and one step"
                if trains
                else "nothing to reduce or step where nothing is trained"
            )

    def _error(self, problem: str) -> ScheduleError:
        return ScheduleError(f"{self.schedule.name}, rank {self.rank}: {problem}")
