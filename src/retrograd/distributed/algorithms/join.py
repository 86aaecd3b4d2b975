"""``Join``: training with different numbers of batches per rank.

A rank without batches makes the calls that the others need. Before each batch, all ranks determine
how many of them have one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.distributed._collectives import all_reduce
from retrograd.distributed._ranks import get_rank
from retrograd.distributed._work import Work


class JoinHook:
    """The work of a rank that has run out of batches, for the others."""

    def main_hook(self) -> None:
        """Make the calls that go with one batch of another rank."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once, when no rank has batches left; ``is_last_joiner``: this one had the most."""


class _Settings(NamedTuple):
    enable: bool = False
    throws: bool = False
    counts: bool = False  # the first of several joinables acts for all of them


class Joinable(ABC):
    """A class whose instances make calls for each batch, and take part in ``Join``."""

    _join_settings = _Settings()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What to do without batches."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group that the calls are made in."""


class Join:
    """Inside, ranks may have unequal numbers of batches.

    >>> from retrograd.distributed.algorithms import Join
    >>> torch.distributed.init_process_group()
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> with Join([model]):
    ...     for batch in torch.ones(3, 4, 2):  # as many as this rank has
    ...         model(batch).sum().backward()
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        groups = [joinable.join_process_group for joinable in joinables]
        if any(group is not groups[0] for group in groups):
            raise ValueError("Using join context manager with multiple process groups")
        self._group = groups[0]
        self._joinables = joinables
        self._enable = enable
        self._throws = throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]

    def __enter__(self) -> None:
        for index, joinable in enumerate(self._joinables):
            joinable._join_settings = _Settings(self._enable, self._throws, index == 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            if self._enable and kind is None:
                self._stay()
        finally:
            for joinable in self._joinables:
                joinable._join_settings = _Settings()

    def _stay(self) -> None:
        """Make the calls that the others still need from this rank."""
        last = True
        while _total(0.0, self._group):
            if self._throws:
                _total(1.0, self._group)
                raise RuntimeError(f"Rank {get_rank(self._group)} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            last = False
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable: Any) -> Work | None:
        """Say that this rank has a batch. To be called before the calls that go with it. The
        result of the work is the number of ranks that have one, too."""
        settings = joinable._join_settings
        if not settings.enable or not settings.counts:
            return None
        group = joinable.join_process_group
        work = all_reduce(_number(1.0), group=group, async_op=True)
        if settings.throws and _total(0.0, group):
            raise RuntimeError(
                "Detected at least one rank that exhausted inputs. Throwing across all ranks."
            )
        return work


def _number(value: float) -> Any:
    return wrap(arrays.array([value], arrays.float32))


def _total(mine: float, group: Any) -> float:
    """The sum of a number of each rank."""
    number = _number(mine)
    all_reduce(number, group=group)
    return float(number._data[0])


__all__ = ["Join", "JoinHook", "Joinable"]
