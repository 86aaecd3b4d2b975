"""Sums of gradients across ranks: for replicas of a stage in buckets, as the backward pass produces
them, and for parameters that several stages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import retrograd as torch
from retrograd import distributed

BUCKET = 8 << 20  # bytes


class Bucket:
    """Gradients that are reduced as one array. In its last elements, each rank marks which
    gradients it has; a gradient that no rank has stays None."""

    def __init__(self, parameters: Sequence[Any], group: Any) -> None:
        self.parameters, self.group = list(parameters), group
        self.missing = len(self.parameters)  # gradients that may still change
        self.flat: Any = None
        self.work: Any = None

    def start(self) -> None:
        """Start to reduce the gradients computed so far."""
        total = sum(p.numel() for p in self.parameters)
        count = len(self.parameters)
        self.flat = torch.zeros(total + count, dtype=self.parameters[0].dtype)
        data, at = self.flat._data, 0
        for number, p in enumerate(self.parameters):
            if p.grad is not None:
                data[at : at + p.numel()] = p.grad._data.reshape(-1)
                data[total + number] = 1
            at += p.numel()
        self.work = distributed.all_reduce(self.flat, group=self.group, async_op=True)

    def finish(self) -> None:
        """Wait for the sums, and store them in the gradients."""
        self.work.wait()
        total, at = sum(p.numel() for p in self.parameters), 0
        with torch.no_grad():
            for number, p in enumerate(self.parameters):
                if self.flat._data[total + number]:
                    summed = self.flat[at : at + p.numel()].reshape(p.shape)
                    if p.grad is None:
                        p.grad = summed.clone()
                    else:
                        p.grad.copy_(summed)
                at += p.numel()
        self.flat = self.work = None
        self.missing = len(self.parameters)


class Reducer:
    """Reduces the gradients of a rank.

    ``passes`` says for each parameter how many backward passes of a batch reach it: after the last,
    its bucket may be reduced. Buckets are started in the same order on all ranks, that of the
    backward pass; the remaining ones are started after the passes.
    """

    def __init__(
        self, parameters: Sequence[Any], group: Any, passes: dict[int, int],
        shared: Iterable[tuple[Any, Any]],
    ) -> None:  # fmt: skip
        self.passes = passes
        self.left: dict[int, int] = {}
        self.ties = [Bucket([parameter], ranks) for parameter, ranks in shared]
        tied = {id(bucket.parameters[0]) for bucket in self.ties}
        own = [] if group is None else [p for p in reversed(parameters) if id(p) not in tied]
        self.buckets = [Bucket(some, group) for some in _in_buckets(own)]
        self.started = 0
        self._bucket_of = {id(p): bucket for bucket in self.buckets for p in bucket.parameters}
        self._hooks = [p.register_post_accumulate_grad_hook(self._arrived) for p in own]

    def begin(self) -> None:
        """Prepare for a batch."""
        self.left = dict(self.passes)
        self.started = 0

    def _arrived(self, parameter: Any) -> None:
        key = id(parameter)
        if not self.left:
            return  # a backward pass by the user
        self.left[key] -= 1
        if self.left[key] < 0:
            raise RuntimeError(
                f"a parameter of shape {tuple(parameter.shape)} was given a gradient more often "
                "than there were micro-batches, after its gradients had been sent to the other "
                "replicas. A layer that uses a parameter in several reentrant checkpoints does "
                "this: use checkpoint(..., use_reentrant=False)"
            )
        if self.left[key] == 0:
            self._bucket_of[key].missing -= 1
            while self.started < len(self.buckets) and not self.buckets[self.started].missing:
                self.buckets[self.started].start()
                self.started += 1

    def progress(self) -> None:
        """Advance the reductions in progress."""
        for bucket in self.buckets[: self.started]:
            if bucket.work is not None:
                bucket.work.is_completed()

    def finish(self) -> None:
        """Reduce the remaining gradients, and wait for all reductions."""
        self.left = {}
        for bucket in (*self.buckets[self.started :], *self.ties):
            bucket.start()
        for bucket in (*self.buckets, *self.ties):
            bucket.finish()


def _in_buckets(parameters: Sequence[Any]) -> list[list[Any]]:
    """The parameters in order, divided into buckets of one dtype each."""
    result: list[list[Any]] = []
    size = 0
    for p in parameters:
        size += p.numel() * p.element_size()
        if not result or size > BUCKET or result[-1][0].dtype != p.dtype:
            result.append([])
            size = p.numel() * p.element_size()
        result[-1].append(p)
    return result


def clip(parameters: Sequence[Any], counted: Sequence[Any], max_norm: float, replica: int,
         group: Any) -> None:  # fmt: skip
    """Scale gradients so that the norm of those of the whole model is at most ``max_norm``.
    ``counted`` are the parameters that this rank adds to the norm: no other rank does."""
    gradients = [p.grad for p in counted if p.grad is not None] if replica == 0 else []
    own = torch.nn.utils.get_total_norm(gradients).to(torch.float64) if gradients else None
    square = torch.zeros(1, dtype=torch.float64) if own is None else (own * own).reshape(1)
    distributed.all_reduce(square, group=group)
    # A number, so that gradients keep their dtype.
    norm = torch.tensor(float(square.sqrt()), dtype=torch.float64)
    torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
