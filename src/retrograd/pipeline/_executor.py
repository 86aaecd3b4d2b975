"""Runs the instructions of a schedule: a short method for each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import retrograd as torch
from retrograd.pipeline._channels import Channels
from retrograd.pipeline._instructions import Instruction, Kind
from retrograd.pipeline._reduction import Reducer
from retrograd.pipeline._stage import Arrived, Stage
from retrograd.pipeline._stats import Stats
from retrograd.pipeline._values import taken_apart


@dataclass
class Batch:
    """The inputs and results of a batch on this rank."""

    step: int
    item: Callable[[int], Any]  # inputs and targets of a micro-batch
    moment: Callable[[int], tuple[int, ...]]  # what a micro-batch's random numbers depend on
    losses: list[Any] = field(default_factory=list)
    outputs: list[Any] | None = None  # kept if it is a list


class Executor:
    """One rank of a pipeline: its stages, one for each chunk, and their channels."""

    def __init__(
        self, rank: int, ranks: int, stages: Sequence[Stage], channels: Channels, reducer: Reducer,
        update: Callable[[], None], stats: Stats,
    ) -> None:  # fmt: skip
        self.rank, self.ranks, self.stages = rank, ranks, stages
        self.channels, self.reducer, self.update, self.stats = channels, reducer, update, stats
        for stage in stages:
            stage.between = self.progress
            if ranks > 1:
                stage.watch_backward(self.progress)
        # Values that wait for the instruction that uses them, by chunk and micro-batch.
        self.loaded: dict[tuple[int, int], Any] = {}
        self.arrived: dict[tuple[int, int], dict[int, Arrived]] = {}
        self.outgoing: dict[tuple[int, int], dict[int, Any]] = {}
        self.received: dict[tuple[int, int], dict[int, Any]] = {}
        self.returning: dict[tuple[int, int], dict[int, Any]] = {}
        self.batch: Batch
        self.trains = True
        self.methods: dict[Kind, Callable[[Instruction, Stage], None]] = {
            Kind.LOAD: self.load,
            Kind.RECEIVE_ACTIVATION: self.receive_activation,
            Kind.FORWARD: self.forward,
            Kind.SEND_ACTIVATION: self.send_activation,
            Kind.RECEIVE_GRADIENT: self.receive_gradient,
            Kind.BACKWARD: self.backward,
            Kind.BACKWARD_INPUT: self.backward_input,
            Kind.BACKWARD_WEIGHT: self.backward_weight,
            Kind.SEND_GRADIENT: self.send_gradient,
            Kind.REDUCE: self.reduce,
            Kind.STEP: self.step,
        }

    def run(self, instructions: Iterable[Instruction], batch: Batch, trains: bool) -> None:
        """Run one batch."""
        program = list(instructions)
        self.batch, self.trains = batch, trains
        self._forget()
        self.channels.expect(self._messages(program))
        for instruction in program:
            self.methods[instruction.kind](instruction, self.stages[instruction.chunk])
            self.progress()
        self.channels.flush()

    def _forget(self) -> None:
        """Discard what a batch that ended with an error may have left."""
        for waiting in (self.loaded, self.arrived, self.outgoing, self.received, self.returning):
            waiting.clear()
        for stage in self.stages:
            stage.in_flight.clear()
        self.stats.live_activations = 0

    def progress(self) -> None:
        """Advance pending messages, between layers and between instructions."""
        self.channels.progress()
        self.reducer.progress()

    def _messages(self, program: Sequence[Instruction]) -> dict[tuple[int, int], int]:
        """How many messages come over each link."""
        receives = (Kind.RECEIVE_ACTIVATION, Kind.RECEIVE_GRADIENT)
        return Counter(
            (i.peer, i.chunk * self.ranks + self.rank) for i in program if i.kind in receives
        )

    # -- one method for each kind of instruction -------------------------------------------------

    def load(self, at: Instruction, stage: Stage) -> None:
        with self.stats.timed("loading"):
            self.loaded[at.chunk, at.microbatch] = self.batch.item(at.microbatch)

    def receive_activation(self, at: Instruction, stage: Stage) -> None:
        channel = self.channels.receivers[at.peer, stage.number]
        form, tensors = channel.receive(self.batch.step, at.microbatch)
        arrived = self.arrived.setdefault((at.chunk, at.microbatch), {})
        arrived[at.peer] = Arrived(form, tensors, recording=self.trains)

    def forward(self, at: Instruction, stage: Stage) -> None:
        key = (at.chunk, at.microbatch)
        inputs, targets = self.loaded.pop(key, (None, None))
        arrived = self.arrived.pop(key, {})
        with self.stats.timed("compute"), torch.set_grad_enabled(self.trains):
            result = stage.forward(
                at.microbatch, arrived, inputs=inputs, targets=targets,
                moment=self.batch.moment(at.microbatch), keep=self.trains,
            )  # fmt: skip
        if stage.is_last:
            outputs, loss = result.pop(-1)
            if loss is not None:
                self.batch.losses.append(loss.detach())
            if self.batch.outputs is not None:
                self.batch.outputs.append(outputs)
        self.outgoing[key] = result
        if self.trains:
            self.stats.live_activations += 1
            self.stats.peak_activations = max(
                self.stats.peak_activations, self.stats.live_activations
            )

    def send_activation(self, at: Instruction, stage: Stage) -> None:
        form, tensors = self.outgoing[at.chunk, at.microbatch].pop(at.peer)
        # What was not computed here can be a layer's buffer or the user's data, which may be
            # written to before it has been sent.
        own = [x if x.requires_grad else x.clone() for x in tensors]
        self._send((form, own), at, stage)

    def receive_gradient(self, at: Instruction, stage: Stage) -> None:
        channel = self.channels.receivers[at.peer, stage.number]
        form, tensors = channel.receive(self.batch.step, at.microbatch)
        gradients = form.put_together(tensors)
        self.received.setdefault((at.chunk, at.microbatch), {})[at.peer] = gradients

    def backward(self, at: Instruction, stage: Stage) -> None:
        key = (at.chunk, at.microbatch)
        with self.stats.timed("compute"):
            self.returning[key] = stage.backward(at.microbatch, self.received.pop(key, {}))
        self.stats.live_activations -= 1

    def backward_input(self, at: Instruction, stage: Stage) -> None:
        key = (at.chunk, at.microbatch)
        with self.stats.timed("compute"):
            self.returning[key] = stage.backward_input(at.microbatch, self.received.pop(key, {}))

    def backward_weight(self, at: Instruction, stage: Stage) -> None:
        with self.stats.timed("compute"):
            stage.backward_weight(at.microbatch)
        self.stats.live_activations -= 1

    def send_gradient(self, at: Instruction, stage: Stage) -> None:
        gradients = self.returning[at.chunk, at.microbatch].pop(at.peer)
        self._send(taken_apart(gradients), at, stage)

    def reduce(self, at: Instruction, stage: Stage) -> None:
        with self.stats.timed("reducing"):
            self.reducer.finish()

    def step(self, at: Instruction, stage: Stage) -> None:
        with self.stats.timed("stepping"):
            self.update()

    def _send(self, message: tuple[str, list[Any]], at: Instruction, stage: Stage) -> None:
        with self.stats.timed("communication"):
            channel = self.channels.senders[stage.number, at.peer]
            channel.send(self.batch.step, at.microbatch, *message)
