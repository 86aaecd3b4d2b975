"""Iterators over a dataset, in this process or with workers."""

from __future__ import annotations

import itertools
import multiprocessing
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

from retrograd.utils.data._resuming import Progress
from retrograd.utils.data._utils.fetch import fetcher
from retrograd.utils.data._utils.pool import WorkerPool
from retrograd.utils.data._utils.transport import Parcel
from retrograd.utils.data._utils.worker import Caught, Job
from retrograd.utils.data.sampler import draw_seed


class _BaseDataLoaderIter:
    """What both kinds do: count, warn, and note what an epoch began from."""

    def __init__(self, loader: Any, base_seed: int | None) -> None:
        # Not the loader itself: one with persistent workers holds this iterator, and both should
        # be gone when it is dropped.
        self._dataset = loader.dataset
        self._num_workers = loader.num_workers
        self._iterable = loader._iterable
        self._index_sampler = loader._index_sampler
        self._new_epoch(loader)
        # Drawn without workers, too: with any number of them, the same random numbers follow.
        self._base_seed = draw_seed(loader.generator) if base_seed is None else base_seed
        self._progress.base_seed = self._base_seed

    def _new_epoch(self, loader: Any) -> None:
        self._progress = loader._progress = Progress(loader)
        self._sampler_iter = self._progress.noted(iter(self._index_sampler))
        self._promised_length = loader._promised_length

    def begin(self, skip: int) -> None:
        """Be ready for ``next``, with that many batches left out."""
        raise NotImplementedError

    def _next_data(self) -> Any:
        """The next batch, or what a worker caught in its place."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        progress = self._progress
        try:
            data = self._next_data()
        except StopIteration:
            progress.finished = True
            raise
        if type(data) is Caught:
            # Who keeps the exception keeps this frame: not the iterator, and so not its workers.
            del self, progress
            data.reraise()
        progress.batches += 1
        if self._promised_length is not None and progress.batches > self._promised_length:
            self._warn_of_length(progress.batches)
        return data

    def _warn_of_length(self, batches: int) -> None:
        words = (
            f"Length of IterableDataset {self._dataset} was reported to be "
            f"{self._promised_length}(when accessing len(dataloader)), but {batches} samples have "
            "been fetched. "
        )
        if self._num_workers > 0:
            words += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for "
                "examples."
            )
        warnings.warn(words, stacklevel=3)

    def _skipped_indices(self, count: int) -> list[Any]:
        """What the sampler gives for batches that were taken earlier."""
        indices = list(itertools.islice(self._sampler_iter, count))
        if len(indices) < count:
            raise RuntimeError(
                f"cannot go on after batch {count}: the sampler gives only {len(indices)}. It must "
                "give the same as when the state was saved."
            )
        return indices

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Loads each batch when it is asked for."""

    def __init__(self, loader: Any, base_seed: int | None) -> None:
        super().__init__(loader, base_seed)
        if loader.timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._fetch = fetcher(
            loader.dataset, loader._iterable, loader._auto_collation, loader.collate_fn,
            loader.drop_last,
        )  # fmt: skip

    def begin(self, skip: int) -> None:
        indices = self._skipped_indices(skip)
        if self._iterable:
            for index in indices:
                self._fetch(index)
        self._progress.batches = skip

    def _next_data(self) -> Any:
        return self._fetch(next(self._sampler_iter))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Has workers load batches ahead of time, and gives them in the order of the sampler.

    Every task is answered, so that what is asked for and not yet returned is always known.
    """

    def __init__(self, loader: Any, base_seed: int | None) -> None:
        super().__init__(loader, base_seed)
        if loader.prefetch_factor <= 0:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
            )
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._timeout = loader.timeout
        self._persistent_workers = loader.persistent_workers
        self._tasks = itertools.count()  # never the same twice: old answers are told from new
        job = Job(
            loader.dataset, loader._iterable, loader._auto_collation, loader.collate_fn,
            loader.drop_last, self._base_seed, loader.worker_init_fn, loader.num_workers,
        )  # fmt: skip
        context = loader.multiprocessing_context or multiprocessing.get_context()
        self.pool = WorkerPool(job, context)
        # When the iterator is dropped, and at the end of the program.
        self._stop = weakref.finalize(self, self.pool.stop)

    @property
    def _workers(self) -> list[Any]:
        return self.pool.processes

    def reset(self, loader: Any) -> None:
        """Another epoch with the same workers."""
        self._new_epoch(loader)
        self._progress.base_seed = self._base_seed
        for worker in range(self._num_workers):
            self.pool.send(worker, None)
        self.begin(0)

    def begin(self, skip: int) -> None:
        count = self._num_workers
        self._worker_of: dict[int, int] = {}  # of each task not yet returned, oldest first
        self._arrived: dict[int, Parcel] = {}
        self._active = [True] * count
        self._turns = itertools.cycle(range(count))
        if not self._iterable:
            self._load_again(self._skipped_indices(skip))
        for _ in range(self._prefetch_factor * count):
            self._ask()
        if self._iterable:
            for _ in range(skip):
                if type(result := self._next_data()) is Caught:
                    result.reraise()
        self._progress.batches = skip

    def _load_again(self, indices: list[Any]) -> None:
        """Have workers load what they loaded before, for nobody: the random numbers they draw go
        on from where they were."""
        left = set()
        for index in indices:
            task = next(self._tasks)
            left.add(task)
            self.pool.send(next(self._turns), task, index, wanted=False)
        while left:
            task, _ = self.pool.receive(None)  # type: ignore[misc]
            left.discard(task)

    def _ask(self) -> None:
        """Hand the next task out, if there is one and somebody to do it."""
        if not any(self._active):
            return
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            return
        task, worker = next(self._tasks), self._next_worker()
        self.pool.send(worker, task, index)
        self._worker_of[task] = worker

    def _next_worker(self) -> int:
        if not self._in_order:  # who has least to do
            tasks = list(self._worker_of.values())
            able = [worker for worker, active in enumerate(self._active) if active]
            return min(able, key=tasks.count)
        return next(worker for worker in self._turns if self._active[worker])

    def _next_data(self) -> Any:
        while self._worker_of:
            task = self._next_arrival()
            worker, parcel = self._worker_of.pop(task), self._arrived.pop(task)
            if parcel.kind == "end":
                self._active[worker] = False
            self._ask()
            if parcel.kind in ("data", "error"):
                return parcel.open()
        if not self._persistent_workers:
            self._stop()
        raise StopIteration

    def _next_arrival(self) -> int:
        """The task whose turn it is, once its answer is there."""
        oldest = next(iter(self._worker_of))
        while True:
            if oldest in self._arrived:
                return oldest
            if self._arrived and not self._in_order:
                return next(iter(self._arrived))
            if self.pool.stopped:
                raise RuntimeError("the workers of this DataLoader iterator have been stopped")
            result = self.pool.receive(self._timeout or None)
            if result is None:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            task, parcel = result
            if task in self._worker_of:  # not of an epoch that was left
                self._arrived[task] = parcel
