"""``DistributedSampler``: the samples that each process loads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Any

from retrograd import distributed
from retrograd.tensor._randoms import randperm
from retrograd.tensor._rng import Generator
from retrograd.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Samples the part of a dataset that belongs to one process.

    All processes share an order, which depends only on the seed and the epoch. Each takes every
    ``num_replicas``-th index of it.

    Args:
        dataset: the dataset.
        num_replicas: number of processes; the size of the world by default.
        rank: rank of this process; that in the world by default.
        shuffle: shuffle the order in every epoch.
        seed: seed of the order, the same in all processes.
        drop_last: leave out the last samples if they do not divide evenly; otherwise some samples
            are repeated.

    Example:
        >>> Part = torch.utils.data.DistributedSampler
        >>> [list(Part(range(5), num_replicas=2, rank=rank, shuffle=False)) for rank in (0, 1)]
        [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None,
        shuffle: bool = True, seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        if num_replicas is None:
            num_replicas = distributed.get_world_size()
        if rank is None:
            rank = distributed.get_rank()
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        share = len(dataset) / num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order: Any = range(count)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = randperm(count, generator=generator).tolist()
        # Too few for equal shares: it begins again from the front. Too many: the rest is left out.
        mine = range(self.rank, self.total_size, self.num_replicas)
        return iter([order[index % count] for index in mine])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, on which the order depends. Call it before each epoch.

        Args:
            epoch: number of the epoch.
        """
        self.epoch = epoch


__all__ = ["DistributedSampler"]
