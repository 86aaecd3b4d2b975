"""``Pipeline``: a model across the ranks of a grid, trained as if it were in one process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import index
from typing import Any

import retrograd as torch
from retrograd import distributed, nn
from retrograd.optim.lr_scheduler import ReduceLROnPlateau
from retrograd.pipeline import _checkpoints, schedules
from retrograd.pipeline._channels import Channels
from retrograd.pipeline._data import Items, Reader
from retrograd.pipeline._executor import Batch, Executor
from retrograd.pipeline._grid import Grid
from retrograd.pipeline._layers import built, layer_of, named_layers, sums_of, ties_of
from retrograd.pipeline._partition import Partition, boundaries_of
from retrograd.pipeline._reduction import Reducer, clip
from retrograd.pipeline._stage import Recompute, Routes, Stage
from retrograd.pipeline._stats import Stats

TRAIN, EVALUATE = 1, 2


class Pipeline:
    """A model that is split into stages, each on its own rank.

    Every rank makes the same ``Pipeline``, with the same arguments, and calls the same methods.
    A rank keeps only the layers of its own stage.

    Args:
        layers: an ``nn.Sequential`` or a list of layers that are called one after the other.
            Layers given as ``pipeline.Lazy`` are built only on the rank that keeps them.
        stages: the number of stages.
        microbatches: the number of micro-batches in a batch.
        partition: where to cut: "uniform" (as many layers everywhere), "parameters" (as many
            parameters), "profile" (as much time on ``example``), or the layers that stages begin
            with, such as ``[3, 7]``.
        schedule: the name of a schedule, or a class: see ``pipeline.schedules``.
        chunks: how many parts of the model a rank holds, for interleaved schedules.
        replicas: how many pipelines train side by side on different data. By default as many as
            there are ranks for.
        loss_fn: a function of outputs and targets. Each rank calls what it needs of this and the
            next two.
        optimizer: a function of parameters that makes an optimizer.
        scheduler: a function of the optimizer that makes a learning rate scheduler.
        clip_grad_norm: the largest norm that the gradients of the whole model may have.
        checkpoint: layers that are computed again in the backward pass: so many at a time, or
            those for which ``checkpoint(layer)`` is true.
        skips: pairs ``(i, j)``: what layer ``i`` gives (-1: the inputs) is given to layer ``j`` as
            a further argument.
        tied: tuples of names of parameters that are one, beside those that layers share anyway.
        example: a micro-batch of inputs, for the partition "profile".
        seed: the seed of random numbers that layers draw; the initial seed of ``torch`` by default.

    Example:
        >>> from retrograd import pipeline
        >>> _ = torch.manual_seed(0)
        >>> layers = [torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)]
        >>> pipe = pipeline.Pipeline(
        ...     layers, stages=1, microbatches=2, loss_fn=torch.nn.functional.mse_loss,
        ...     optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.05),
        ... )
        >>> x = torch.randn(8, 2)
        >>> data = iter([(x, x.sum(1, keepdim=True))] * 100)  # micro-batches: inputs and targets
        >>> losses = [pipe.train_batch(data) for _ in range(50)]
        >>> losses[-1] < losses[0] / 10
        True
        >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self, layers: Any, stages: int = 1, *, microbatches: int, partition: Partition = "uniform",
        schedule: str | type[schedules.Schedule] = "1f1b", chunks: int = 1,
        replicas: int | None = None, loss_fn: Callable[[Any, Any], Any] | None = None,
        optimizer: Callable[[list[Any]], Any] | None = None,
        scheduler: Callable[[Any], Any] | None = None, clip_grad_norm: float | None = None,
        checkpoint: Recompute = None, skips: Iterable[tuple[int, int]] = (),
        tied: Iterable[Sequence[str]] = (), example: Any = None, seed: int | None = None,
    ) -> None:  # fmt: skip
        _check_functions(loss_fn=loss_fn, optimizer=optimizer, scheduler=scheduler)
        if clip_grad_norm is not None and not float(clip_grad_norm) > 0:
            raise ValueError(f"clip_grad_norm must be larger than 0, not {clip_grad_norm!r}")
        named = named_layers(layers)
        del layers
        ties = ties_of(named, list(tied))
        make = schedules.get(schedule) if isinstance(schedule, str) else schedule
        make(stages, microbatches, chunks)  # so that mistakes are found before messages are sent
        self.grid = grid = Grid(stages, replicas)
        self.seed = grid.agreed([torch.initial_seed() if seed is None else seed])[0]
        pairs = _pairs(skips)
        # What is measured differs from rank to rank, so one rank decides for all.
        decides = grid.rank == 0 or partition != "profile"
        cuts = boundaries_of(partition, named, stages * chunks, pairs, example) if decides else []
        if partition == "profile":
            cuts = grid.agreed(cuts or [0] * (stages * chunks + 1))
        self.routes = Routes(cuts, pairs)
        self.schedule = make(stages, microbatches, chunks, self.routes.links)
        grid.check_same(
            stages=stages, replicas=grid.replicas, chunks=chunks, microbatches=microbatches,
            schedule=self.schedule.name, boundaries=cuts, skips=[list(s) for s in pairs],
            tied=[list(names) for names in ties], layers=[name for name, _ in named],
            clip_grad_norm=clip_grad_norm,
        )  # fmt: skip

        grid.check_weights(sums_of(named))

        self.loss_fn, self.clip_grad_norm = loss_fn, clip_grad_norm
        self.microbatches, self.chunks = microbatches, chunks
        self.steps = 0  # training steps done
        self.stats = Stats()
        self._generator = torch.Generator()  # the seed of the random numbers of layers
        self._calls = 0  # batches of both kinds, which number the messages
        self._make_stages(named, checkpoint)
        del named
        self._make_executor(self._tie(ties))
        self.optimizer: Any = (
            optimizer(self.parameters()) if optimizer and self.parameters() else None
        )
        self._check_optimizer()
        self.scheduler: Any = scheduler(self.optimizer) if scheduler and self.optimizer else None

    # -- making it -----------------------------------------------------------------------------

    def _make_stages(self, named: list[tuple[str, Any]], checkpoint: Recompute) -> None:
        grid, cuts = self.grid, self.routes.boundaries
        self.module = nn.Module()  # the layers of this rank, by their names in the whole model
        stages = []
        for number in range(grid.stage, len(cuts) - 1, grid.stages):
            own = []
            for i in range(cuts[number], cuts[number + 1]):
                name, layer = named[i][0], built(named[i][1], i, self.seed)
                if isinstance(layer, nn.Module):
                    self.module.add_module(name, layer)
                own.append((name, layer))
            stage = Stage(
                number, own, self.routes, loss_fn=self.loss_fn, seed=self.seed,
                scale=1 / (self.microbatches * grid.replicas), recompute=checkpoint,
            )  # fmt: skip
            stages.append(stage)
        self._layers_of = [set(stage.names) for stage in stages]
        self._stage_of = {
            name: self.routes.stage_of(i) % grid.stages for i, (name, _) in enumerate(named)
        }
        self._stages = stages

    def _tie(self, ties: list[tuple[str, ...]]) -> list[tuple[Any, Any]]:
        """Tie parameters that have several names: on this rank by assignment, between ranks by
        equal initial values and, in each step, equal gradients. Returns those that other ranks have
        too, with the group of these ranks."""
        grid = self.grid
        own = dict(self.module.named_parameters(remove_duplicate=False))
        self._first_name = {name: names[0] for names in ties for name in names}
        for name in self._first_name:
            layer = layer_of(name, self._stage_of) or ""
            if self._stage_of[layer] == grid.stage and name not in own:
                raise ValueError(f"tied: layer {layer!r} has no parameter {name!r}")
        for names in ties:
            here = [name for name in names if name in own]
            for name in here[1:]:
                self._assign(name, own[here[0]])
        self._named = dict(self.module.named_parameters(remove_duplicate=False))
        shared, counted_elsewhere = [], set()
        for names in ties:
            holders = [self._stage_of[layer_of(name, self._stage_of) or ""] for name in names]
            if len(set(holders)) == 1:
                continue
            group = grid.group_of_stages(set(holders))  # by all ranks, in the same order
            if grid.stage in holders:
                parameter = next(self._named[name] for name in names if name in self._named)
                distributed.broadcast(parameter, grid.rank_at(holders[0], 0), group=group)
                shared.append((parameter, group))
                if grid.stage != holders[0]:
                    counted_elsewhere.add(id(parameter))
        self._counted = [p for p in self.parameters() if id(p) not in counted_elsewhere]
        return shared

    def _make_executor(self, shared: list[tuple[Any, Any]]) -> None:
        """The executor of batches, with channels to other stages and the reducer of gradients."""
        grid = self.grid
        self._replicas = grid.group_of_replicas()
        if self._replicas is not None:
            for tensor in (*self.parameters(), *self.module.buffers()):
                distributed.broadcast(tensor, grid.rank_at(grid.stage, 0), group=self._replicas)
        channels = Channels(
            [stage.number for stage in self._stages], self.routes.links,
            lambda virtual: grid.rank_at(virtual % grid.stages, grid.replica), grid.everybody,
            self.stats,
        )  # fmt: skip
        self._reducer = Reducer(
            [p for p in self.parameters() if p.requires_grad], self._replicas, self._passes(),
            [(p, group) for p, group in shared if p.requires_grad],
        )  # fmt: skip
        self._executor = Executor(
            grid.stage, grid.stages, self._stages, channels, self._reducer, self._update, self.stats
        )

    def _check_optimizer(self) -> None:
        """Refuse an optimizer of parameters that are not used here: it would do nothing, and keep
        them in memory."""
        if self.optimizer is None:
            return
        own = {id(p) for p in self.parameters()}
        params = [p for group in self.optimizer.param_groups for p in group["params"]]
        others = sum(id(p) not in own for p in params)
        if others:
            raise ValueError(
                f"the optimizer of rank {self.grid.rank} has {others} parameters (of {len(params)})"
                f" that are not in stage {self.stage}. Use the parameters passed to the function: "
                "optimizer=lambda parameters: optim.Adam(parameters)"
            )

    def _assign(self, name: str, parameter: Any) -> None:
        """Put a parameter in the place of another."""
        path, _, last = name.rpartition(".")
        target = self.module.get_submodule(path)
        if getattr(target, last).shape != parameter.shape:
            raise ValueError(f"tied: {name!r} has another shape than the parameter it is tied to")
        setattr(target, last, parameter)

    def _passes(self) -> dict[int, int]:
        """How many backward passes of a batch reach each parameter."""
        passes: dict[int, int] = {}
        for layers in self._layers_of:
            reached = {id(p) for n, p in self._named.items() if layer_of(n, layers)}
            for key in reached:
                passes[key] = passes.get(key, 0) + self.microbatches
        return passes

    # -- what it is ----------------------------------------------------------------------------

    @property
    def stage(self) -> int:
        """The number of this rank's stage."""
        return self.grid.stage

    @property
    def replica(self) -> int:
        """The number of this rank's replica, whose data it must be given."""
        return self.grid.replica

    @property
    def replicas(self) -> int:
        """The number of replicas."""
        return self.grid.replicas

    @property
    def reads_data(self) -> bool:
        """Whether this rank uses the iterators it is given: on the first stage, and on the last if
        there is a ``loss_fn``."""
        targets = self.loss_fn is not None
        return any(stage.is_first or (stage.is_last and targets) for stage in self._stages)

    @property
    def boundaries(self) -> list[int]:
        """The layers that the stages begin with (with chunks, the virtual stages), and the end."""
        return list(self.routes.boundaries)

    def parameters(self) -> list[Any]:
        """The parameters of this rank's layers."""
        return list({id(p): p for p in self._named.values()}.values())

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """The parameters of this rank's layers, with their names in the whole model, as pairs."""
        return iter(self._named.items())

    def train(self, mode: bool = True) -> Pipeline:
        """Switch the layers to training mode, or to evaluation mode.

        Args:
            mode: True for training mode.

        Returns:
            The pipeline.
        """
        self.module.train(mode)
        return self

    def eval(self) -> Pipeline:
        """Switch the layers to evaluation mode.

        Returns:
            The pipeline.
        """
        return self.train(False)

    # -- batches -------------------------------------------------------------------------------

    def train_batch(self, iterator: Iterable[Any] | None) -> float:
        """Train on one batch.

        The first stage uses the inputs and the last stage the targets, each from its own iterator,
        so both need iterators over the same data. At the end of the data, all ranks raise
        StopIteration. Gradients stay in ``.grad`` until the next batch.

        Args:
            iterator: yields micro-batches, pairs of inputs and targets; None on ranks in between.

        Returns:
            The mean of the losses, the same on all ranks.
        """
        if self.loss_fn is None:
            raise ValueError(
                "to train, a pipeline needs a loss: Pipeline(..., loss_fn=...), a function of "
                "outputs and targets"
            )
        start = time.perf_counter()
        items = self._begin(iterator, TRAIN)
        for p in self.parameters():
            p.grad = None
        self._reducer.begin()
        loss, _ = self._run(items, TRAIN, start, keep_outputs=False)
        self.steps += 1
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(loss)
        elif self.scheduler is not None:
            self.scheduler.step()
        return loss

    def eval_batch(self, iterator: Iterable[Any] | None, outputs: bool = False) -> Any:
        """Run one batch forward, with the layers in evaluation mode.

        Args:
            iterator: yields micro-batches; inputs alone, if there is no ``loss_fn``.
            outputs: return the results of the model, too.

        Returns:
            The mean of the losses, or None without a ``loss_fn``; with ``outputs``, a pair of that
            and a list of results, on the last stage.
        """
        start = time.perf_counter()
        items = self._begin(iterator, EVALUATE)
        training = [module for module in self.module.modules() if module.training]
        self.module.eval()
        try:
            loss, given = self._run(items, EVALUATE, start, keep_outputs=outputs)
        finally:
            for module in training:
                module.training = True
        shown = None if self.loss_fn is None else loss
        return (shown, given) if outputs else shown

    def _begin(self, iterator: Iterable[Any] | None, kind: int) -> Items:
        """Check that all ranks are about to do the same, with data or without."""
        reader = None
        if self.reads_data:
            reader = Reader(iterator, self.microbatches, self.grid.rank)
        state = 2 if reader is None else int(reader.has_more())
        with self.stats.timed("waiting"):
            said = self.grid.gathered([kind, self.steps, self._calls, state])
        self.grid.check_batch(said)
        if all(rank[3] != 1 for rank in said):
            raise StopIteration(f"the data have ended after {self.steps} steps")
        self._calls += 1
        if self._replicas is not None:  # statistics are those of the first replica
            for buffer in self.module.buffers():
                distributed.broadcast(buffer, self.grid.rank_at(self.stage, 0), self._replicas)
        return Items(reader, self.loss_fn is not None, self._generator)

    def _run(
        self, items: Items, kind: int, start: float, keep_outputs: bool
    ) -> tuple[float, list[Any] | None]:  # fmt: skip
        keeps = keep_outputs and any(stage.is_last for stage in self._stages)
        batch = Batch(self._calls, items.item, self._moment(kind), outputs=[] if keeps else None)
        schedule = self.schedule if kind == TRAIN else self.schedule.forward_only()
        with items.own_random_numbers():
            self._executor.run(schedule.instructions(self.stage), batch, kind == TRAIN)
        loss = sum(float(loss) for loss in batch.losses)
        with self.stats.timed("waiting"):
            said = self.grid.gathered_floats([loss, items.checksum])
        self.grid.check_data([checksum for _, checksum in said], self.steps)
        self.stats.seconds += time.perf_counter() - start
        self.stats.batches += 1
        total = sum(loss for loss, _ in said) / (self.microbatches * self.replicas)
        return total, batch.outputs

    def _moment(self, kind: int) -> Callable[[int], tuple[int, ...]]:
        """What random numbers depend on besides the layer; the arrangement of ranks is not part of
        it."""
        return lambda microbatch: (kind, self.steps, microbatch * self.replicas + self.replica)

    def _update(self) -> None:
        if self.clip_grad_norm is not None:
            clip(
                self.parameters(), self._counted, self.clip_grad_norm, self.replica,
                self.grid.everybody,
            )  # fmt: skip
        if self.optimizer is not None:
            self.optimizer.step()

    # -- state ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state of this rank's layers, by their names in the whole model."""
        state: dict[str, Any] = self.module.state_dict()
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load this rank's layers.

        Args:
            state_dict: the state of the whole model.
        """
        layers = set(self.module._modules)
        own = {name: x for name, x in state_dict.items() if layer_of(name, layers)}
        self.module.load_state_dict(own)

    def save_checkpoint(
        self, folder: str | os.PathLike[str], *, keep: int | None = None, **values: Any
    ) -> str:
        """Save the state of training, by all ranks together, in a new folder that appears
        atomically.

        It contains parameters, buffers, the states of the optimizer, scheduler and random
        generators, and ``values``.

        Args:
            folder: folder for checkpoints.
            keep: number of checkpoints to keep; all by default.
            values: further values, which ``load_checkpoint`` returns.

        Returns:
            The path of the new folder.
        """
        return _checkpoints.save(self, os.fspath(folder), keep, values)

    def load_checkpoint(self, folder: str | os.PathLike[str]) -> dict[str, Any]:
        """Restore the state of training. The number of stages, chunks and replicas may differ.

        Args:
            folder: folder for checkpoints, of which the newest is loaded, or a single checkpoint.

        Returns:
            The values that were saved.
        """
        return _checkpoints.load(self, os.fspath(folder))


def _check_functions(**given: Any) -> None:
    """Check that arguments that will be called are callable."""
    for name, function in given.items():
        if function is not None and not callable(function):
            argument = {"optimizer": "parameters", "scheduler": "optimizer"}.get(name)
            instead = f"{name}=lambda {argument}: {type(function).__name__}({argument}, ...)"
            raise TypeError(
                f"{name} must be a function, not a {type(function).__name__}"
                + (f". Each rank makes its own: {instead}" if argument else "")
            )


def _pairs(skips: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    try:
        return sorted({(index(i), index(j)) for i, j in skips})
    except TypeError:
        raise TypeError(
            f"skips are pairs (i, j) of numbers of layers, such as [(0, 5)], not {skips!r}"
        ) from None
