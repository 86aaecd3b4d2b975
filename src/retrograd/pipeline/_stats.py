"""Statistics of a running pipeline."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields


@dataclass
class Stats:
    """Time and memory of this rank, since the pipeline was created or the last ``reset``.

    Args:
        batches: batches done.
        seconds: seconds in ``train_batch`` and ``eval_batch``.
        compute: seconds in forward and backward passes.
        processor: seconds in these by the processor's clock, which stops for other programs.
        communication: seconds sending, and receiving what is already on its way.
        waiting: seconds until another stage had something to send.
        loading: seconds in the iterator of the data.
        reducing: seconds adding up gradients with other ranks, beyond what was overlapped.
        stepping: seconds clipping gradients, and in the optimizer and scheduler.
        messages: messages sent to other ranks.
        bytes: bytes sent to other ranks.
        live_activations: micro-batches between forward and backward pass now.
        peak_activations: micro-batches between forward and backward pass, at most.

    Example:
        >>> stats = Stats(seconds=2.5, compute=1.9, communication=0.1, waiting=0.5)
        >>> stats.bubble
        0.25
    """

    batches: int = 0
    seconds: float = 0.0  # in train_batch and eval_batch
    compute: float = 0.0  # in forward and backward passes
    processor: float = 0.0  # in these by the processor's clock, which stops for other programs
    communication: float = 0.0  # sending, and receiving what is already on its way
    waiting: float = 0.0  # until another stage had something to send
    loading: float = 0.0  # in the iterator
    reducing: float = 0.0  # adding up gradients with other ranks, beyond what was overlapped
    stepping: float = 0.0  # clipping, optimizer and scheduler
    messages: int = 0  # sent to other ranks
    bytes: int = 0  # sent to other ranks
    live_activations: int = 0  # micro-batches between forward and backward, now
    peak_activations: int = 0  # and at most

    @property
    def bubble(self) -> float:
        """The time this rank waited for other stages, as a fraction of all other time."""
        busy = self.seconds - self.waiting
        return self.waiting / busy if busy > 0 else 0.0

    def reset(self) -> None:
        """Count from zero again."""
        for field in fields(self):
            setattr(self, field.name, field.default)

    def timed(self, name: str) -> Timer:
        """Measure the time of a block.

        Args:
            name: the figure that it is added to, such as "compute".

        Returns:
            A context manager.
        """
        return Timer(self, name)


class Timer:
    """Adds the time spent in it to a figure."""

    __slots__ = ("name", "processor", "start", "stats")

    def __init__(self, stats: Stats, name: str) -> None:
        self.stats, self.name = stats, name

    def __enter__(self) -> None:
        if self.name == "compute":
            self.processor = time.thread_time()
        self.start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        spent = time.perf_counter() - self.start
        setattr(self.stats, self.name, getattr(self.stats, self.name) + spent)
        if self.name == "compute":
            self.stats.processor += time.thread_time() - self.processor
