"""``DataLoader``: the batches of a dataset, in an order, loaded here or by workers."""

from __future__ import annotations

import math
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from retrograd.tensor._rng import Generator, default_generator
from retrograd.utils.data._iterators import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)
from retrograd.utils.data._resuming import Progress, check_state, generators_of, put_back
from retrograd.utils.data._utils.collate import default_collate, default_convert
from retrograd.utils.data._utils.worker import get_worker_info
from retrograd.utils.data.dataset import IterableDataset, Samples
from retrograd.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

T_co = TypeVar("T_co", covariant=True)


class _InfiniteConstantSampler(Sampler[None]):
    """One None after another: an iterable dataset has an order of its own."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Iterates over the batches of a dataset.

    A loader can be saved and continue in the middle of an epoch, which PyTorch's cannot: see
    ``state_dict``.

    Args:
        dataset: the dataset, or a sequence.
        batch_size: number of samples in a batch; None for single samples.
        shuffle: draw a new order in every epoch.
        sampler: determines the order of samples, in place of ``shuffle``.
        batch_sampler: yields lists of indices, in place of ``batch_size``, ``shuffle``, ``sampler``
            and ``drop_last``.
        num_workers: number of processes that load batches ahead; 0 loads in this process.
        collate_fn: combines a list of samples into a batch; ``default_collate`` by default.
        pin_memory: ignored.
        drop_last: leave out the last batch if it is smaller.
        timeout: seconds to wait for a batch of a worker; 0 waits without limit.
        worker_init_fn: called in each worker, with its number.
        multiprocessing_context: how workers are started: "fork", "spawn", "forkserver" or a
            context.
        generator: random generator of the order and of the workers' seeds; the default one if None.
        prefetch_factor: number of batches that each worker loads ahead; 2 by default.
        persistent_workers: keep the workers between epochs.
        pin_memory_device: ignored.
        in_order: yield batches in order; otherwise as workers finish them.

    Example:
        >>> data = torch.utils.data.TensorDataset(torch.arange(5))
        >>> order = torch.Generator().manual_seed(0)
        >>> for (batch,) in torch.utils.data.DataLoader(data, 2, shuffle=True, generator=order):
        ...     print(batch)
        tensor([3, 1])
        tensor([0, 4])
        tensor([2])
    """

    __initialized = False
    _FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset",
              "persistent_workers")  # fmt: skip

    def __init__(
        self, dataset: Samples[T_co], batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None, batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_batching(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle))
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._promised_length: int | None = None  # what len() said of an iterable dataset
        self._iterator: _MultiProcessingDataLoaderIter | None = None  # with persistent workers
        self._progress: Progress | None = None  # of the latest epoch
        self._state_to_load: dict[str, Any] | None = None
        self.check_worker_number_rationality()
        self.__initialized = True

    def _default_sampler(self, shuffle: bool) -> Sampler[Any]:
        if self._iterable:
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """How workers are started; None is Python's own choice."""
        return self.__context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: str | BaseContext | None) -> None:
        if context is not None and not self.num_workers:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading "
                f"(num_workers > 0), but got num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            methods = multiprocessing.get_all_start_methods()
            if context not in methods:
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{methods!r}, but got multiprocessing_context={context!r}"
                )
            context = multiprocessing.get_context(context)
        if context is not None and not isinstance(context, BaseContext):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string "
                f"specifying the start method, but got multiprocessing_context={context}"
            )
        self.__context = context

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in self._FIXED:
            raise ValueError(
                f"{attr} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(attr, val)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    # -- a pass ------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        state = self._state_to_load
        if state is not None:
            iterator = self._resumed(state)
            self._state_to_load = None
        elif self._iterator is not None and not self._iterator.pool.stopped:
            self._iterator.reset(self)
            return self._iterator
        else:
            iterator = self._get_iterator()
            iterator.begin(0)
        if isinstance(iterator, _MultiProcessingDataLoaderIter) and self.persistent_workers:
            self._iterator = iterator
        return iterator

    def _get_iterator(self, base_seed: int | None = None) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self, base_seed)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self, base_seed)

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        length = self._promised_length = len(self.dataset)
        if self.batch_size is None:
            return length
        batches = length / self.batch_size
        return math.floor(batches) if self.drop_last else math.ceil(batches)

    def check_worker_number_rationality(self) -> None:
        """Warn if there would be more workers than processors."""
        affinity = getattr(os, "sched_getaffinity", None)
        most = len(affinity(0)) if affinity else os.cpu_count()
        if not self.num_workers or (most is not None and self.num_workers <= most):
            return
        advice = (
            "DataLoader is not able to compute a suggested max number of worker in current system."
        )
        if most is not None:
            unsure = "" if affinity else " (`cpuset` is not taken into account)"
            advice = (
                f"Our suggested max number of worker in current system is {most}{unsure}, which is "
                "smaller than what this DataLoader is going to create."
            )
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {advice} "
            "Please be aware that excessive worker creation might get DataLoader running slow or "
            "even freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )

    # -- stopping and going on ---------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The position of this loader in its epoch.

        A loader with the same arguments that loads it begins its next iteration with the next
        batch. An epoch that was left early counts as running until the next one begins. To continue
        a training run to the bit, save ``torch.get_rng_state()``, too, and set it again: a loader
        that continues leaves the default generator unchanged.

        Returns:
            A dictionary of numbers, and of tensors with the states of generators.

        >>> def loader():
        ...     return torch.utils.data.DataLoader(range(8), batch_size=2, shuffle=True)
        >>> before = loader()
        >>> batches = iter(before)
        >>> taken = next(batches)
        >>> state, expected = before.state_dict(), list(batches)
        >>> after = loader()
        >>> after.load_state_dict(state)
        >>> [torch.equal(x, y) for x, y in zip(after, expected, strict=True)]
        [True, True, True]
        """
        if self._state_to_load is not None:
            return dict(self._state_to_load)
        progress = self._progress
        if progress is None:
            progress = Progress(self)
            progress.finished = True
        if not self.in_order and self.num_workers and not progress.finished:
            raise RuntimeError(
                "a DataLoader with in_order=False has no state_dict during an epoch. Call it "
                "after the epoch, or use in_order=True."
            )
        return progress.state_dict(self._known_length(), self.persistent_workers)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Begins the next iteration where a state was saved.

        Earlier batches are not loaded again, except by workers, which draw random numbers while
        they load, and from an iterable dataset. Workers that stay alive between epochs
        (``persistent_workers``) are started again, so they draw the numbers of the first epoch.

        Args:
            state_dict: a state from ``state_dict``.
        """
        check_state(state_dict, self._known_length(), generators_of(self))
        self._state_to_load = dict(state_dict)
        self._iterator = None

    def _known_length(self) -> int | None:
        try:
            return None if self._iterable else len(self._index_sampler)
        except TypeError:
            return None

    def _resumed(self, state: dict[str, Any]) -> _BaseDataLoaderIter:
        generators = generators_of(self)
        if state["finished"]:
            put_back(generators, state["started"])
            iterator = self._get_iterator(state["base_seed"])
            iterator.begin(0)
            return iterator
        present = default_generator.get_state()
        try:
            put_back(generators, state["created"])
            iterator = self._get_iterator(state["base_seed"])
            put_back(generators, state["started"])
            iterator.begin(state["batches"])
            return iterator
        except StopIteration:
            raise RuntimeError(
                f"cannot go on after batch {state['batches']}: the dataset ends before. It must "
                "give the same as when the state was saved."
            ) from None
        finally:
            default_generator.set_state(present)


# -- what does not go together ---------------------------------------------------------------


def _check_workers(count: int, timeout: float, prefetch: int | None, persistent: bool) -> None:
    if count < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if count == 0 and prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch is not None and prefetch < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and count == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler),
                        ("batch_sampler", batch_sampler)):  # fmt: skip
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def _check_batching(
    batch_size: Any, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                "drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
