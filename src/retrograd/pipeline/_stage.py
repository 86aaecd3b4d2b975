"""A stage: consecutive layers, run forward and backward for one micro-batch after the other.

A stage is independent of processes. It is given what arrived, returns what is to be sent, and keeps
what it needs for the backward pass of each micro-batch in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import retrograd as torch
from retrograd import nn
from retrograd.autograd._wrap import wrap
from retrograd.autograd.function import Function
from retrograd.autograd.graph import get_gradient_edge
from retrograd.pipeline._backward import Split, backward_inputs
from retrograd.pipeline._layers import call, mixed
from retrograd.pipeline._values import Form, taken_apart, tensors_of
from retrograd.utils.checkpoint import checkpoint

Recompute = int | Callable[[Any], bool] | None


class Routes:
    """What is sent between virtual stages: the output of every stage but the last to the next, and
    skip connections, ``(i, j)`` for a result of layer ``i`` that layer ``j`` receives. The result
    of layer -1 is the input of the model."""

    def __init__(self, boundaries: Sequence[int], skips: Sequence[tuple[int, int]]) -> None:
        self.boundaries = list(boundaries)
        self.skips = sorted(set(skips))
        for i, j in self.skips:
            if not -1 <= i < j < boundaries[-1]:
                raise ValueError(
                    f"skips are pairs (i, j) of layers with -1 <= i < j < {boundaries[-1]}, where "
                    f"-1 stands for the inputs of the model; not {(i, j)}"
                )
        self.last = len(boundaries) - 2
        self.links = {(s, s + 1) for s in range(self.last)}
        self.links |= {
            (self.stage_of(i), self.stage_of(j))
            for i, j in self.skips
            if self.stage_of(i) != self.stage_of(j)
        }

    def stage_of(self, layer: int) -> int:
        """The virtual stage that runs a layer."""
        inner = self.boundaries[1:-1]
        return sum(max(layer, 0) >= boundary for boundary in inner)

    def skipping(self, source: int, target: int) -> list[int]:
        """The layers in one stage whose results skip to the other."""
        return sorted(
            {i for i, j in self.skips if (self.stage_of(i), self.stage_of(j)) == (source, target)}
        )

    def sent(self, source: int, target: int) -> list[int | None]:
        """What goes from one stage to another: results of layers; None is the stage's output."""
        output = [None] if target == source + 1 else []
        return [*output, *self.skipping(source, target)]


class _Enter(Function):
    """Where gradients leave the graph of a stage. Layers are given a result and not the leaf
    itself, so that they may write into it, as in the middle of a model."""

    @staticmethod
    def forward(ctx: Any, leaf: Any) -> Any:
        return wrap(leaf._data)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


def entered(leaf: Any) -> Any:
    """The leaf as the layers receive it."""
    return _Enter.apply(leaf)


class Arrived:
    """What came from another stage: values, and the leaves that collect the gradients to send
    back."""

    def __init__(self, form: Form, tensors: Sequence[Any], recording: bool) -> None:
        self.leaves = [
            x.requires_grad_() if needs and recording else None
            for x, needs in zip(tensors, form.needs_grad, strict=True)
        ]
        given = [
            x if leaf is None else entered(leaf)
            for x, leaf in zip(tensors, self.leaves, strict=True)
        ]
        self.values: list[Any] = form.put_together(given)

    def gradients(self) -> list[Any]:
        """For each tensor its gradient, or None where there is none."""
        return [None if leaf is None else leaf.grad for leaf in self.leaves]


class Kept:
    """A value that skips to a later layer. It must not be changed in between: whether a layer
    writes into it or into a copy would depend on where the model is cut."""

    def __init__(self, layer: int, value: Any) -> None:
        self.layer, self.value = layer, value
        self.versions = self._versions()

    def _versions(self) -> list[int]:
        return [x._version for x in tensors_of(self.value)]

    def unchanged(self) -> Any:
        if self._versions() != self.versions:
            what = "the input of the model" if self.layer < 0 else f"what layer {self.layer} gives"
            raise RuntimeError(
                f"{what} skips to a later layer, but a layer in between has written into it in "
                "place. Let that layer make a new tensor, as with inplace=False"
            )
        return self.value


@dataclass
class InFlight:
    """A micro-batch between its forward and its backward pass."""

    arrived: dict[int, Arrived]
    # By target, the positions in the graph of the tensors that were sent there. The tensors
    # themselves need not be kept.
    sent: dict[int, list[Any]] = field(default_factory=dict)
    loss: Any = None
    weights: Split | None = None  # the second half of its backward pass


class Stage:
    """Layers ``routes.boundaries[number]`` to the next boundary of a model.

    ``loss_fn(outputs, targets)`` is given to the last stage. ``scale`` is what losses are
    multiplied by before they are differentiated. ``recompute`` says what is not kept for the
    backward pass but computed again: segments of so many layers, or the layers for which a
    function says so.
    """

    def __init__(
        self, number: int, layers: Sequence[tuple[str, Any]], routes: Routes, *,
        loss_fn: Callable[[Any, Any], Any] | None = None, scale: float = 1.0,
        recompute: Recompute = None, seed: int = 0,
    ) -> None:  # fmt: skip
        self.number, self.routes = number, routes
        self.first_layer = routes.boundaries[number]
        self.names = [name for name, _ in layers]
        self.layers = [layer for _, layer in layers]
        self.loss_fn, self.scale, self.seed = loss_fn, scale, seed
        self.segments = _segments(self.layers, recompute)
        self.in_flight: dict[int, InFlight] = {}
        self.between: Callable[[], None] = _nothing  # called after every layer
        # What comes from which stage and goes to which, as ``Routes.sent`` says.
        self.sources = {a: routes.sent(a, b) for a, b in routes.links if b == number}
        self.targets = {b: routes.sent(a, b) for a, b in sorted(routes.links) if a == number}
        inside = range(self.first_layer, self.first_layer + len(layers))
        self.stashed = {i for i, _ in routes.skips if i in inside or (i == -1 and number == 0)}

    @property
    def is_first(self) -> bool:
        return self.number == 0

    @property
    def is_last(self) -> bool:
        return self.number == self.routes.last

    def watch_backward(self, progress: Callable[[], None]) -> None:
        """Call a function in backward passes too, when the gradient of a module's first parameter
        has been computed. Calling it more often would cost more than it saves."""
        layers = [layer for layer in self.layers if isinstance(layer, nn.Module)]
        firsts = (next(m.parameters(recurse=False), None) for x in layers for m in x.modules())
        for parameter in {id(p): p for p in firsts if p is not None and p.requires_grad}.values():
            parameter.register_post_accumulate_grad_hook(lambda _: progress())

    # -- forward -------------------------------------------------------------------------------

    def forward(
        self, microbatch: int, arrived: dict[int, Arrived], *, inputs: Any = None,
        targets: Any = None, moment: tuple[int, ...] = (), keep: bool = True,
    ) -> dict[int, Any]:  # fmt: skip
        """Run the layers on what has arrived, by the stage it came from, or on ``inputs`` in the
        first stage. What is to be sent is given back by the stage it goes to; in the last stage,
        the outputs and the loss as ``{-1: (outputs, loss)}``.

        ``moment`` holds numbers, such as the step, that random numbers depend on besides the layer.
        """
        value = inputs
        stash: dict[int, Kept] = {}
        if self.is_first and -1 in self.stashed:
            stash[-1] = Kept(-1, inputs)
        for source, message in arrived.items():
            for layer, part in zip(self.sources[source], message.values, strict=True):
                if layer is None:
                    value = part
                else:
                    stash[layer] = Kept(layer, part)
        for start, end, recomputed in self.segments:
            value, made = self._segment(start, end, recomputed, value, stash, moment)
            stash |= made
        for message in arrived.values():
            message.values = []  # nodes that need them have saved them
        record = InFlight(arrived)
        if self.is_last:
            result: dict[int, Any] = {-1: (value, self._loss(value, targets, moment))}
            record.loss = result[-1][1]
        else:
            result = self._outgoing(value, stash, record)
        if keep:
            self.in_flight[microbatch] = record
        return result

    def _outgoing(self, value: Any, stash: dict[int, Kept], record: InFlight) -> dict[int, Any]:
        """What goes to which stage, taken apart."""
        result = {}
        for target, parts in self.targets.items():
            given = [value if i is None else stash[i].unchanged() for i in parts]
            form, tensors = taken_apart(given)
            result[target] = (form, tensors)
            record.sent[target] = [
                get_gradient_edge(x) if x.requires_grad else None for x in tensors
            ]
        return result

    def _segment(
        self, start: int, end: int, recomputed: bool, value: Any, stash: dict[int, Kept],
        moment: tuple[int, ...],
    ) -> tuple[Any, dict[int, Kept]]:  # fmt: skip
        """Run some of the layers, with a checkpoint if they are to be recomputed."""
        skips = [(i, j) for i, j in self.routes.skips if start <= j - self.first_layer < end]
        taken = {i: stash[i].unchanged() for i, _ in skips if i in stash}

        def run(value: Any, *others: Any) -> tuple[Any, dict[int, Kept]]:
            held = {i: Kept(i, x) for i, x in zip(taken, others, strict=True)}
            made: dict[int, Kept] = {}
            for position in range(start, end):
                number = self.first_layer + position
                skipped = [(made | held)[i].unchanged() for i, j in skips if j == number]
                value = self._layer(position, value, skipped, moment)
                if number in self.stashed:
                    made[number] = Kept(number, value)
                self.between()
            return value, made

        if not recomputed:
            return run(value, *taken.values())
        # The state of the generator need not be kept: layers are seeded each time.
        modules = [layer for layer in self.layers[start:end] if isinstance(layer, nn.Module)]
        result: tuple[Any, dict[int, Kept]] = checkpoint(
            run, value, *taken.values(), use_reentrant=False, preserve_rng_state=False,
            context_fn=lambda: (contextlib.nullcontext(), _copied_buffers(modules)),
        )  # fmt: skip
        return result

    def _layer(self, position: int, value: Any, skipped: list[Any], moment: tuple[int, ...]) -> Any:
        """Call one layer, with random numbers that depend on the layer and the moment alone: they
        are the same however the model is cut, and when the layer is run again."""
        torch.manual_seed(mixed(self.seed, *moment, self.first_layer + position))
        try:
            return call(self.layers[position], value, skipped)
        except Exception as error:
            error.add_note(f"in the forward pass of {self.describe(position)}")
            raise

    def describe(self, position: int) -> str:
        """A layer, as error messages name it."""
        kind = getattr(self.layers[position], "__name__", type(self.layers[position]).__name__)
        return f"layer {self.names[position]!r} ({kind}) of stage {self.number}"

    def _loss(self, outputs: Any, targets: Any, moment: tuple[int, ...]) -> Any:
        if self.loss_fn is None:
            return None
        torch.manual_seed(mixed(self.seed, *moment, self.routes.boundaries[-1]))
        loss = self.loss_fn(outputs, targets)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            what = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else (
                f"a {type(loss).__name__}"
            )  # fmt: skip
            raise TypeError(f"loss_fn must give a tensor of one element, not {what}")
        return loss

    # -- backward ------------------------------------------------------------------------------

    def backward(self, microbatch: int, received: dict[int, Sequence[Any]]) -> dict[int, list[Any]]:
        """Run the backward pass of a micro-batch. ``received`` are the gradients of what was sent,
        by the stage it went to; returns the gradients of what had arrived, by the stage it came
        from."""
        record = self.in_flight.pop(microbatch)
        outputs, gradients = self._roots(record, received)
        if outputs:
            self._explained(lambda: torch.autograd.backward(outputs, gradients))
        return {source: message.gradients() for source, message in record.arrived.items()}

    def backward_input(
        self, microbatch: int, received: dict[int, Sequence[Any]]
    ) -> dict[int, list[Any]]:
        """The first half of ``backward``: what other stages wait for. The second half is left to
        ``backward_weight``."""
        record = self.in_flight[microbatch]
        leaves = [
            leaf
            for message in record.arrived.values()
            for leaf in message.leaves
            if leaf is not None
        ]
        outputs, gradients = self._roots(record, received)
        halves = None
        if outputs:
            halves = self._explained(lambda: backward_inputs(outputs, gradients, leaves))
        if halves is None:
            result = self.backward(microbatch, received)
            self.in_flight[microbatch] = InFlight({})
            return result
        of_leaves, later = halves
        for leaf, g in zip(leaves, of_leaves, strict=True):
            leaf.grad = g
        result = {source: message.gradients() for source, message in record.arrived.items()}
        self.in_flight[microbatch] = InFlight({}, weights=later)
        return result

    def backward_weight(self, microbatch: int) -> None:
        """The second half of ``backward``."""
        weights = self.in_flight.pop(microbatch).weights
        if weights is not None:
            self._explained(weights.run)

    def _roots(
        self, record: InFlight, received: dict[int, Sequence[Any]]
    ) -> tuple[list[Any], list[Any]]:
        """Where a backward pass starts, and with which gradients."""
        if self.is_last:
            loss = record.loss
            if loss is None or not loss.requires_grad:
                return [], []
            return [loss], [torch.full_like(loss, self.scale)]
        outputs, gradients = [], []
        for target, edges in record.sent.items():
            for edge, g in zip(edges, received[target], strict=True):
                if g is not None and edge is not None:
                    outputs.append(edge)
                    gradients.append(g)
        return outputs, gradients

    def _explained(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Exception as error:
            error.add_note(f"in the backward pass of stage {self.number}")
            raise


def _nothing() -> None:
    """The default for what is done between layers."""


@contextlib.contextmanager
def _copied_buffers(modules: Sequence[nn.Module]) -> Iterator[None]:
    """A context in which modules write to copies of their buffers, so that statistics such as those
    of a normalization count a micro-batch once, although it is computed twice."""
    owners = {id(owner): owner for module in modules for owner in module.modules()}.values()
    kept = [(owner, dict(owner._buffers)) for owner in owners if owner._buffers]
    try:
        for owner, buffers in kept:
            for name, buffer in buffers.items():
                owner._buffers[name] = None if buffer is None else buffer.clone()
        yield
    finally:
        for owner, buffers in kept:
            owner._buffers.update(buffers)


def _segments(layers: Sequence[Any], recompute: Recompute) -> list[tuple[int, int, bool]]:
    """Layers from where to where are run together, and whether they are recomputed."""
    if recompute is None:
        return [(0, len(layers), False)]
    if callable(recompute):
        return [(i, i + 1, bool(recompute(layer))) for i, layer in enumerate(layers)]
    if isinstance(recompute, bool) or recompute < 1:
        raise ValueError(
            "checkpoint is the number of layers that are recomputed together, or a function that "
            f"says of a layer whether it is recomputed; not {recompute!r}"
        )
    return [(i, min(i + recompute, len(layers)), True) for i in range(0, len(layers), recompute)]
