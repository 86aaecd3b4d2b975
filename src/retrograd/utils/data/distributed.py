"""The samples that one of several processes takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar

from retrograd import distributed
from retrograd.tensor._randoms import randperm
from retrograd.tensor._rng import Generator
from retrograd.utils.data.sampler import Sampler

T_co = TypeVar("T_co", covariant=True)


class DistributedSampler(Sampler[T_co]):
    """The part of a dataset that belongs to one rank.

    Args:
        dataset: the dataset.
        num_replicas: number of ranks; that of the process group by default.
        rank: this rank; that of the process group by default.
        shuffle: shuffle the indices, differently in each epoch.
        seed: seed of the shuffling, the same on all ranks.
        drop_last: drop samples, rather than repeat some, so that all parts are equally long.

    Example:
        >>> import retrograd as torch
        >>> Part = torch.utils.data.DistributedSampler
        >>> [list(Part(range(5), num_replicas=2, rank=rank, shuffle=False)) for rank in (0, 1)]
        [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None,
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

    def __iter__(self) -> Iterator[T_co]:
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
        """Choose the order for an epoch.

        Args:
            epoch: number of the epoch.
        """
        self.epoch = epoch


__all__ = ["DistributedSampler"]
