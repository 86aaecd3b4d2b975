"""Samplers: the order of samples, and how they form batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from retrograd.arrays import dtypes
from retrograd.ops.sampling import multinomial
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._creation import empty
from retrograd.tensor._randoms import randint, randperm
from retrograd.tensor._rng import Generator

T_co = TypeVar("T_co", covariant=True)


def draw_seed(generator: Any = None) -> int:
    """A seed for another stream, drawn from this one."""
    return int(empty((), dtype=dtypes.int64).random_(generator=generator).item())


class Sampler(Generic[T_co]):
    """The base class of samplers, which determine the order of samples.

    A subclass defines ``__iter__``, which yields indices or lists of indices, and, if their number
    is known, ``__len__``.

    Example:
        >>> class Backwards(torch.utils.data.Sampler):
        ...     def __iter__(self):
        ...         return iter([2, 1, 0])
        >>> list(torch.utils.data.DataLoader("abc", sampler=Backwards()))
        [['c'], ['b'], ['a']]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """Indices in order: 0, 1, 2...

    Args:
        data_source: the dataset.

    Example:
        >>> list(torch.utils.data.SequentialSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order.

    Args:
        data_source: the dataset.
        replacement: draw each index independently, so that one may occur several times.
        num_samples: number of indices to draw; the length of the dataset by default.
        generator: random generator; the default one if None.

    Example:
        >>> order = torch.Generator().manual_seed(0)
        >>> list(torch.utils.data.RandomSampler(range(5), generator=order))
        [4, 0, 1, 3, 2]
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
        generator: Any = None,
    ) -> None:  # fmt: skip
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                "num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """The number of samples to draw: as given, or the current size of the dataset."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        # Nothing is drawn before the first number is asked for: in PyTorch, too, the seed is taken
        # from the default generator then, after what a DataLoader draws for its workers.
        count, generator = len(self.data_source), self.generator
        if generator is None:
            generator = Generator().manual_seed(draw_seed())
        if self.replacement:
            blocks, rest = divmod(self.num_samples, 32)
            for size in (*itertools.repeat(32, blocks), rest):
                yield from randint(count, (size,), generator=generator).tolist()
        else:
            rounds, rest = divmod(self.num_samples, count)
            for _ in range(rounds):
                yield from randperm(count, generator=generator).tolist()
            # One more, as in PyTorch, even if nothing of it is taken: a generator that was given
            # is left where PyTorch leaves it.
            if rest or self.generator is not None:
                yield from randperm(count, generator=generator).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order.

    Args:
        indices: the indices.
        generator: random generator; the default one if None.

    Example:
        >>> order = torch.Generator().manual_seed(0)
        >>> list(torch.utils.data.SubsetRandomSampler([7, 8, 9], order))
        [9, 7, 8]
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for index in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[index]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given probabilities.

    Args:
        weights: the probability of each index, up to a common factor.
        num_samples: number of indices to draw.
        replacement: whether an index may be drawn several times.
        generator: random generator; the default one if None.

    Example:
        >>> list(torch.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], 3))
        [1, 1, 1]
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True,
        generator: Any = None,
    ) -> None:  # fmt: skip
        _check_positive("num_samples", num_samples)
        _check_bool("replacement", replacement)
        self.weights = as_tensor(weights, dtype=dtypes.float64)
        if self.weights.ndim != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn: Any = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Groups the indices of another sampler into batches.

    Args:
        sampler: a sampler, or any iterable of indices.
        batch_size: number of indices in a batch.
        drop_last: leave out the last batch if it is smaller.

    Example:
        >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        _check_positive("batch_size", batch_size)
        _check_bool("drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        numbers, size = iter(self.sampler), self.batch_size
        least = size if self.drop_last else 1
        while len(batch := list(itertools.islice(numbers, size))) >= least:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def _check_positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} should be a boolean value, but got {name}={value}")


__all__ = ["BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
           "WeightedRandomSampler"]  # fmt: skip
