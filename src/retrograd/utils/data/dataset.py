"""Datasets: indexed, or iterable."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from retrograd.tensor._indexing import getitem
from retrograd.tensor._randoms import randperm
from retrograd.tensor._rng import Generator, default_generator
from retrograd.tensor._tensor import Tensor

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """The base class of datasets whose samples have indices.

    A subclass defines ``__getitem__``, which returns the sample at an index, and ``__len__``. If it
    defines ``__getitems__``, that is called with the list of indices of a batch and returns a list
    of samples.

    Example:
        >>> class Squares(torch.utils.data.Dataset):
        ...     def __getitem__(self, index):
        ...         return index, index**2
        ...     def __len__(self):
        ...         return 5
        >>> [squares for _, squares in torch.utils.data.DataLoader(Squares(), batch_size=3)]
        [tensor([0, 1, 4]), tensor([ 9, 16])]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ConcatDataset([self, other])


Samples = Dataset[T_co] | Sequence[T_co]  # what loaders and subsets take samples from


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """The base class of datasets that are streams of samples.

    A subclass defines ``__iter__``, which yields the samples. Each worker of a ``DataLoader``
    iterates over a copy of the dataset; with ``get_worker_info``, each can yield a part of its own:

    Example:
        >>> class Numbers(torch.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         worker = torch.utils.data.get_worker_info()
        ...         first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        ...         return iter(range(first, 5, step))
        >>> list(torch.utils.data.DataLoader(Numbers(), batch_size=2))
        [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """A dataset of tensors: sample i is a tuple of the i-th entry of each.

    Args:
        tensors: tensors whose first dimension has the same size.

    Example:
        >>> x, y = torch.tensor([[1, 2], [3, 4]]), torch.tensor([5, 6])
        >>> data = torch.utils.data.TensorDataset(x, y)
        >>> data[1]
        (tensor([3, 4]), tensor(6))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if len({tensor.size(0) for tensor in tensors}) > 1:
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([getitem(tensor, index) for tensor in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Datasets side by side: a sample is a tuple, or a dictionary, of their samples.

    Args:
        args: datasets of the same length, for samples that are tuples.
        kwargs: datasets by name, for samples that are dictionaries.

    Example:
        >>> torch.utils.data.StackDataset(square=[0, 1, 4], cube=[0, 1, 8])[2]
        {'square': 4, 'cube': 8}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in args or kwargs.values()]
        if len(set(lengths)) > 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple([dataset[index] for dataset in self.datasets])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [_items(dataset, indices) for dataset in self.datasets.values()]
            rows = zip(*columns, strict=True)
            return [dict(zip(self.datasets, row, strict=True)) for row in rows]
        return list(zip(*[_items(dataset, indices) for dataset in self.datasets], strict=True))

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list[Any]) -> list[Any]:
    """Some samples of a dataset, in one step where it offers that."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    items: list[Any] = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}"
        )
    return items


class ConcatDataset(Dataset[T_co]):
    """A concatenation of datasets.

    Args:
        datasets: the datasets.

    Example:
        >>> list(torch.utils.data.ConcatDataset([[1, 2], [3]]))
        [1, 2, 3]
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """The running sum of the lengths of datasets.

        Args:
            sequence: the datasets.
        """
        return list(itertools.accumulate([len(part) for part in sequence]))

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: Any) -> Any:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        part = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][idx - start]

    @property
    def cummulative_sizes(self) -> list[int]:
        """An old, misspelled name."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
            FutureWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[T_co]):
    """A concatenation of iterable datasets.

    Args:
        datasets: the datasets.

    Example:
        >>> class Numbers(torch.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(torch.utils.data.ChainDataset([Numbers(), Numbers()]))
        [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def _parts(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[T_co]:
        for part in self._parts():
            yield from part

    def __len__(self) -> int:
        return sum([len(part) for part in self._parts()])


class Subset(Dataset[T_co]):
    """Some samples of a dataset.

    Args:
        dataset: the dataset.
        indices: the indices of the samples, in order.

    Example:
        >>> list(torch.utils.data.Subset("abcd", [3, 0]))
        ['d', 'a']
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Samples[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        kind = type(self)
        own_item = kind.__getitem__ is not Subset.__getitem__
        if own_item and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__. "
                "When subclassing Subset and overriding __getitem__, you must also override "
                "__getitems__ to ensure DataLoader works correctly with your custom logic. "
                "A simple implementation:\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        chosen = [self.indices[idx] for idx in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)  # type: ignore[no-any-return]
        return [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Samples[T], lengths: Sequence[int | float], generator: Generator = default_generator
) -> list[Subset[T]]:
    """Splits a dataset at random.

    Args:
        dataset: the dataset.
        lengths: the lengths of the parts, or fractions that add up to 1.
        generator: random generator.

    Returns:
        A list of subsets.

    Example:
        >>> generator = torch.Generator().manual_seed(42)
        >>> parts = torch.utils.data.random_split(range(10), [0.7, 0.3], generator=generator)
        >>> [part.indices for part in parts]
        [[2, 6, 1, 8, 4, 5, 0], [9, 3, 7]]
    """
    samples: Any = dataset
    total = sum(lengths)
    if math.isclose(total, 1) and total <= 1:
        lengths = _shares(len(samples), lengths)
    if sum(lengths) != len(samples):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = iter(randperm(len(samples), generator=generator).tolist())
    return [Subset(dataset, list(itertools.islice(order, int(length)))) for length in lengths]


def _shares(count: int, fractions: Sequence[float]) -> list[int]:
    """How many samples of ``count`` each fraction gets; what rounding leaves goes to the first."""
    for index, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {index} is not between 0 and 1")
    lengths = [math.floor(count * fraction) for fraction in fractions]
    for extra in range(count - sum(lengths)):
        lengths[extra % len(lengths)] += 1
    for index, length in enumerate(lengths):
        if length == 0:
            warnings.warn(
                f"Length of split at index {index} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return lengths


__all__ = ["ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset",
           "TensorDataset", "random_split"]  # fmt: skip
