"""Averaging of gradients over ranks, overlapped with the backward pass.

Parameters are divided into buckets, the last parameters first, since their gradients are computed
first. A bucket is sent as soon as all its gradients are there and the buckets before it have been
sent: all ranks must send the same buckets in the same order, whatever the order of their gradients.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from retrograd import arrays, distributed
from retrograd.autograd._engine import queue_callback
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import wrap
from retrograd.distributed import ReduceOp, Work
from retrograd.distributed._work import progress

FIRST_BUCKET_BYTES = 1 << 20  # small, so that it can be sent soon


class Bucket:
    """The gradients of several parameters in one array."""

    def __init__(self, numbers: list[int], parameters: list[Any]) -> None:
        self.numbers = numbers
        sizes = [parameters[number]._data.size for number in numbers]
        dtype = parameters[numbers[0]]._data.dtype
        self.tensor = wrap(arrays.zeros(sum(sizes), dtype))
        self.slots: dict[int, Any] = {}
        start = 0
        for number, size in zip(numbers, sizes, strict=True):
            part = self.tensor._data[start : start + size]
            self.slots[number] = part.reshape(parameters[number]._data.shape)
            start += size
        self.work: Work | None = None


def make_buckets(parameters: list[Any], cap: int) -> list[Bucket]:
    """Parameters in buckets of at most ``cap`` bytes (or of one parameter), from the last one to
    the first, each of one dtype."""
    filled: list[list[int]] = []
    open_: dict[Any, tuple[list[int], int]] = {}
    for number in reversed(range(len(parameters))):
        data = parameters[number]._data
        numbers, size = open_.get(data.dtype, ([], 0))
        limit = cap if filled else min(cap, FIRST_BUCKET_BYTES)
        if numbers and size + data.nbytes > limit:
            filled.append(numbers)
            numbers, size = [], 0
        numbers.append(number)
        open_[data.dtype] = (numbers, size + data.nbytes)
    filled += [numbers for numbers, _ in open_.values() if numbers]
    return [Bucket(numbers, parameters) for numbers in filled]


def _operation(divided: bool) -> ReduceOp:
    return ReduceOp.SUM if divided else ReduceOp.AVG


class Reducer:
    """Averages the gradients of parameters over the ranks of a group."""

    def __init__(
        self, named: list[tuple[str, Any]], group: Any, cap: int, as_views: bool, find_unused: bool
    ) -> None:
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.group = group
        self.as_views = as_views
        self.find_unused = find_unused
        self.buckets = make_buckets(self.parameters, cap)
        self.bucket_of = {n: bucket for bucket in self.buckets for n in bucket.numbers}
        self.divide_by: Work | None = None  # its result, in place of the number of ranks
        self.expecting = False  # gradients that are to be averaged
        self.unused: frozenset[int] = frozenset()
        self.begun = False
        self.ready: set[int] = set()
        self.launched = 0
        for number, parameter in enumerate(self.parameters):
            parameter.register_post_accumulate_grad_hook(partial(self._arrived, number))

    def prepare(self, used: Iterable[int] | None) -> None:
        """Expect a backward pass. ``used``: the parameters that it reaches; None: all."""
        self.check_finished()
        self.expecting = True
        everything = range(len(self.parameters))
        self.unused = frozenset() if used is None else frozenset(everything) - frozenset(used)

    def check_finished(self) -> None:
        """Raise an error if a pass did not produce all gradients."""
        if not self.begun:
            return
        missing = [n for n in range(len(self.parameters)) if n not in self.ready]
        rank = self.group.rank()
        names = ", ".join(self.names[number] for number in missing)
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. "
            "This error indicates that your module has parameters that were not used in producing "
            "loss. You can enable unused parameter detection by passing the keyword argument "
            "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by "
            "making sure all `forward` function outputs participate in calculating loss.\n"
            f"Parameters which did not receive grad for rank {rank}: {names}\n"
            f"Parameter indices which did not receive grad for rank {rank}: "
            f"{' '.join(str(number) for number in missing)}"
        )

    def _arrived(self, number: int, parameter: Any) -> None:
        if not self.expecting:
            return
        if not self.begun:
            self.begun, self.ready, self.launched = True, set(), 0
            for left_out in self.unused:
                self._copy_to_bucket(left_out)
        if number in self.ready:
            raise RuntimeError(
                "Expected to mark a variable ready only once. The parameter "
                f"{self.names[number]} received its gradient twice before all gradients were "
                "there. Reasons are a parameter that is used in several reentrant checkpoints "
                "(use checkpoint(..., use_reentrant=False)), or one that was left out of the "
                "graph of the forward call but not of the backward pass"
            )
        self._copy_to_bucket(number)
        while self.launched < len(self.buckets):
            bucket = self.buckets[self.launched]
            if not self.ready.issuperset(bucket.numbers):
                break
            bucket.work = distributed.all_reduce(
                bucket.tensor, _operation(self.divide_by is not None), self.group,
                async_op=True)  # fmt: skip
            self.launched += 1
            if self.launched == len(self.buckets):
                queue_callback(self._finish)
        progress()

    def anybody(self, mine: bool) -> bool:
        """Whether ``mine`` is True in any rank."""
        tensor = wrap(arrays.array([int(mine)], arrays.int64))
        distributed.all_reduce(tensor, ReduceOp.MAX, self.group)
        return bool(tensor._data[0])

    def give_zeros(self, divided: bool) -> None:
        """Contribute zeros to a pass that this rank does not run."""
        zeros = [wrap(arrays.zeros_like(bucket.tensor._data)) for bucket in self.buckets]
        works = [distributed.all_reduce(tensor, _operation(divided), self.group, async_op=True)
                 for tensor in zeros]  # fmt: skip
        if self.find_unused:
            works.append(distributed.all_reduce(
                wrap(arrays.zeros(len(self.parameters), "i4")), ReduceOp.MAX, self.group,
                async_op=True))  # fmt: skip
        for work in works:
            assert work is not None  # only outside of the group
            work.wait()

    def _copy_to_bucket(self, number: int) -> None:
        """Copy a gradient into its bucket."""
        self.ready.add(number)
        grad = self.parameters[number].grad
        slot = self.bucket_of[number].slots[number]
        if grad is None:
            arrays.write(slot, 0)
        elif not self._is_in(grad, slot):
            arrays.write(slot, grad._data)

    def _is_in(self, grad: Any, slot: Any) -> bool:
        return self.as_views and arrays.overlap(slot, grad._data) == "full"

    def _finish(self) -> None:
        """Wait for all buckets and write the averages to the parameters."""
        wanted = self._used_anywhere()
        for bucket in self.buckets:
            assert bucket.work is not None
            bucket.work.wait()
            bucket.work = None
            if self.divide_by is not None:
                self.divide_by.wait()
                count = float(self.divide_by.result()[0]._data[0])
                arrays.write(bucket.tensor._data, bucket.tensor._data / count)
            for number, slot in bucket.slots.items():
                if number in wanted:
                    self._set_gradient(self.parameters[number], slot)
        self.begun = False

    def _used_anywhere(self) -> set[int]:
        """The parameters that have a gradient in any rank; others are left alone."""
        everything = set(range(len(self.parameters)))
        if not self.find_unused:
            return everything
        used = arrays.zeros(len(self.parameters), "i4")
        used[sorted(everything - self.unused)] = 1
        for number in self.unused:  # one that has gathered a gradient before takes part, too
            used[number] = self.parameters[number].grad is not None
        tensor = wrap(used)
        distributed.all_reduce(tensor, ReduceOp.MAX, self.group)
        return {number for number in everything if tensor._data[number]}

    def _set_gradient(self, parameter: Any, slot: Any) -> None:
        grad = parameter.grad
        if grad is not None and self._is_in(grad, slot):
            version_of(grad).bump()
        elif self.as_views:
            parameter.grad = wrap(slot)
        elif grad is not None and arrays.can_add_to(grad._data):
            arrays.write(grad._data, slot)
            version_of(grad).bump()
        else:
            parameter.grad = wrap(arrays.copy(slot))
