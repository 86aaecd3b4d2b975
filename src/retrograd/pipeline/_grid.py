"""The grid of ranks: stages of a pipeline in one direction, replicas in the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import retrograd as torch
from retrograd import distributed


class Grid:
    """Rank ``stage * replicas + replica`` of all runs ``stage`` of a pipeline in ``replica``. So
    replicas of a stage, which exchange the most, are neighbours."""

    def __init__(self, stages: int, replicas: int | None) -> None:
        if not distributed.is_initialized():
            distributed.init_process_group("mpi")
        self.rank, self.ranks = distributed.get_rank(), distributed.get_world_size()
        if replicas is None:
            replicas = max(1, self.ranks // stages)
        if stages * replicas != self.ranks:
            wanted = f"{stages} stages" + (f" × {replicas} replicas" if replicas > 1 else "")
            raise ValueError(
                f"{wanted} need {stages * replicas} processes, and there are {self.ranks}. Start "
                f"the program with: mpiexec -n {stages * replicas} python ..."
            )
        self.stages, self.replicas = stages, replicas
        self.stage, self.replica = divmod(self.rank, replicas)
        # A group of its own, so that messages are not confused with the user's.
        self.everybody = distributed.new_group(list(range(self.ranks)))

    def rank_at(self, stage: int, replica: int) -> int:
        return stage * self.replicas + replica

    def group_of_replicas(self) -> Any:
        """The ranks that run the same stage; None if this is the only one."""
        if self.replicas == 1:
            return None
        groups = [self.group_of_stages({stage}) for stage in range(self.stages)]
        return groups[self.stage]

    def group_of_stages(self, stages: Iterable[int]) -> Any:
        """All replicas of some stages. All ranks must make the same groups in the same order."""
        return distributed.new_group(
            [self.rank_at(stage, r) for stage in sorted(stages) for r in range(self.replicas)]
        )

    # -- agreeing ------------------------------------------------------------------------------

    def agreed(self, numbers: Sequence[int]) -> list[int]:
        """The value that rank 0 has."""
        words = [(n >> 32, n & 0xFFFFFFFF) for n in numbers]
        shared = torch.tensor(words, dtype=torch.int64)
        distributed.broadcast(shared, 0, group=self.everybody)
        return [high << 32 | low for high, low in shared.tolist()]

    def gathered(self, numbers: Sequence[int]) -> list[list[int]]:
        """The integers of each rank; all have the same number of them."""
        return self._gathered(torch.tensor(list(numbers), dtype=torch.int64))

    def gathered_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        """The same for floats."""
        return self._gathered(torch.tensor(list(numbers), dtype=torch.float64))

    def _gathered(self, own: Any) -> list[list[Any]]:
        if self.ranks == 1:
            return [own.tolist()]
        result = [torch.zeros_like(own) for _ in range(self.ranks)]
        distributed.all_gather(result, own, group=self.everybody)
        return [x.tolist() for x in result]

    def texts(self, text: str) -> list[str]:
        """A text of each rank."""
        own = text.encode()
        lengths = [length for (length,) in self.gathered([len(own)])]
        padded = torch.zeros(max(1, *lengths) if len(lengths) > 1 else max(1, lengths[0]),
                             dtype=torch.uint8)  # fmt: skip
        if own:
            padded[: len(own)] = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        result = [torch.zeros_like(padded) for _ in range(self.ranks)]
        distributed.all_gather(result, padded, group=self.everybody)
        return [bytes(x._data)[:n].decode() for x, n in zip(result, lengths, strict=True)]

    def check_same(self, **settings: Any) -> None:
        """Raise an error on the first rank whose settings differ from those of rank 0."""
        said = [json.loads(text) for text in self.texts(json.dumps(settings))]
        for rank, other in enumerate(said):
            for name, value in said[0].items():
                if other[name] != value:
                    self.blame(
                        rank,
                        f"the pipeline of rank {rank} has {name}={other[name]}, that of rank 0 has "
                        f"{name}={value}. All ranks must make it with the same arguments",
                    )

    def check_weights(self, sums: Sequence[int]) -> None:
        """Raise an error on the first rank whose model differs from that of rank 0, given a
        checksum for each layer. Each rank keeps some of the layers, which must belong to one
        model."""
        said = self.gathered(sums)
        for rank, other in enumerate(said):
            for layer, (own, first) in enumerate(zip(other, said[0], strict=True)):
                if own != first:
                    self.blame(
                        rank,
                        f"layer {layer} of the model of rank {rank} has other weights than that of "
                        "rank 0. Make the same model on all ranks: call torch.manual_seed with the "
                        "same seed before, load the same weights, or give layers as pipeline.Lazy",
                    )

    def check_batch(self, said: Sequence[Sequence[int]]) -> None:
        """Raise an error if ranks are about to do different things. Each passes what it calls, how
        many steps and calls it has done, and whether it has data: 1, 0, or 2 if it reads none."""
        names = {1: "train_batch", 2: "eval_batch"}
        for rank, (kind, steps, calls, _) in enumerate(said):
            first_kind, first_steps, first_calls, _ = said[0]
            if kind != first_kind:
                self.blame(
                    rank, f"rank {rank} calls {names[kind]} where rank 0 calls {names[first_kind]}"
                )
            if (steps, calls) != (first_steps, first_calls):
                self.blame(
                    rank, f"rank {rank} has done {steps} steps and rank 0 {first_steps}: they did "
                    "not load the same checkpoint",
                )  # fmt: skip
        states = {rank: state for rank, (*_, state) in enumerate(said) if state != 2}
        ended = [rank for rank, state in states.items() if state == 0]
        if ended and len(ended) < len(states):
            going = next(rank for rank, state in states.items() if state == 1)
            self.blame(
                ended[0], f"the iterator of rank {ended[0]} has no more data after {said[0][1]} "
                f"steps, while that of rank {going} has. The ranks of the first and of the last "
                "stage need iterators over the same number of micro-batches",
            )  # fmt: skip

    def check_data(self, checksums: Sequence[float], steps: int) -> None:
        """Raise an error if the first and the last stage of a replica did not read the same data.
        Ranks that read none pass -1."""
        for replica in range(self.replicas):
            first, last = self.rank_at(0, replica), self.rank_at(self.stages - 1, replica)
            if -1 not in (checksums[first], checksums[last]) and (
                checksums[first] != checksums[last]
            ):
                self.blame(
                    last, f"rank {last} has read other targets than rank {first} in step {steps}: "
                    "the first stage takes inputs from its iterator and the last one targets, so "
                    "both must go over the same data in the same order. Seed all ranks alike "
                    "before data are shuffled, or give both the same generator's seed",
                )  # fmt: skip

    def blame(self, rank: int, text: str) -> None:
        """An error on the rank concerned; others learn of it from that rank."""
        if rank == self.rank:
            raise RuntimeError(text)
        distributed.barrier(group=self.everybody)
        raise RuntimeError(text)
