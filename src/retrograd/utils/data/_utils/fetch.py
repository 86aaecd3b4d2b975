"""Fetching the samples of a batch from a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from retrograd.arrays import _batches
from retrograd.tensor._creation import new_tensor
from retrograd.tensor._tensor import Tensor
from retrograd.utils.data._utils import collate
from retrograd.utils.data.dataset import Subset, TensorDataset

Fetch = Callable[[Any], Any]


def fetcher(dataset: Any, iterable: bool, batched: bool, collate_fn: Fetch, drop_last: bool) -> Any:
    """Create a function that maps an index, or a list of indices, to a batch. For an iterable
    dataset it raises ``StopIteration`` at the end."""
    if iterable:
        return _next_samples(iter(dataset), batched, collate_fn, drop_last)
    if not batched:
        return lambda index: collate_fn(dataset[index])
    if getattr(dataset, "__getitems__", None):
        one_by_one: Fetch = lambda indices: collate_fn(dataset.__getitems__(indices))
    else:
        one_by_one = lambda indices: collate_fn([dataset[index] for index in indices])
    return _by_rows(dataset, collate_fn, one_by_one) or one_by_one


def _next_samples(samples: Any, batched: bool, collate_fn: Fetch, drop_last: bool) -> Fetch:
    if not batched:
        return lambda index: collate_fn(next(samples))
    ended = False

    def fetch(indices: list[Any]) -> Any:
        nonlocal ended
        if ended:  # an iterator that has ended is not asked again
            raise StopIteration
        batch = list(itertools.islice(samples, len(indices)))
        ended = len(batch) < len(indices)
        if not batch or (ended and drop_last):
            raise StopIteration
        return collate_fn(batch)

    return fetch


# -- tensors by rows -------------------------------------------------------------------------


def _by_rows(dataset: Any, collate_fn: Fetch, one_by_one: Fetch) -> Fetch | None:
    """A faster way to the same batch where the samples are rows of tensors: all of them at once.

    None where a subclass or a change to the collating functions asks for something else.
    """
    chosen = None
    if type(dataset) is Subset:
        dataset, chosen = dataset.dataset, dataset.indices
    item = getattr(type(dataset), "__getitem__", None)
    usual = collate.default_collate_fn_map.get(Tensor) is collate.collate_tensor_fn
    if item is not TensorDataset.__getitem__ or hasattr(dataset, "__getitems__"):
        return None
    if not usual or collate_fn is not collate.default_collate:
        return None

    def fetch(indices: list[Any]) -> Any:
        tensors = dataset.tensors
        try:
            rows = indices if chosen is None else [chosen[index] for index in indices]
            if set(map(type, rows)) == {int} and all(map(collate.is_plain, tensors)):
                return [new_tensor(_batches.rows_at(x._data, rows)) for x in tensors]
        except IndexError:
            pass  # told below, in the words of the tensor
        return one_by_one(indices)

    return fetch
