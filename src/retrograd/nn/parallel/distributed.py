"""A module that is trained by several processes, each on its part of every batch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from retrograd import arrays, distributed
from retrograd.autograd._history import edge
from retrograd.autograd._node import AccumulateGrad
from retrograd.autograd._wrap import wrap
from retrograd.autograd.grad_mode import is_grad_enabled, no_grad
from retrograd.distributed import ReduceOp
from retrograd.distributed._calls import Call
from retrograd.distributed._groups import resolve
from retrograd.distributed.algorithms.join import Join, Joinable, JoinHook
from retrograd.nn.module import Module
from retrograd.nn.parallel._reducer import Reducer
from retrograd.tensor._tensor import Tensor

_DEFAULT_CAP_MB = 25


class DistributedDataParallel(Module, Joinable):
    """The module in every process of a group, with the same parameters in all of them: they
    start as those of rank 0, and their gradients are averaged while ``backward`` computes them.

    >>> import retrograd as torch
    >>> torch.distributed.init_process_group("mpi")
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(4, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[4., 4.]])
    >>> torch.distributed.destroy_process_group()
    """

    module: Module

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
        check_reduction: bool = False, gradient_as_bucket_view: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        group = resolve(process_group)
        if device_ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "accelerators; on the CPU leave them out"
            )
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient."
            )
        cap = _DEFAULT_CAP_MB if bucket_cap_mb is None else bucket_cap_mb
        if cap <= 0:
            raise ValueError(f"bucket_cap_mb must be above 0, got {cap}")
        self.module = module
        self.process_group = group
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._divide_by_initial_world_size = True
        _check_alike(module, group)
        if init_sync:
            _broadcast([*module.parameters(), *module.buffers()], group, 0)
        most = int(cap * (1 << 20))
        self._reducer = Reducer(named, group, most, gradient_as_bucket_view, find_unused_parameters)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives, with the averaging of gradients prepared."""
        self._reducer.check_finished()
        joining = self._join_settings.enable
        having_batches = Join.notify_join_context(self) if joining else None
        self._reducer.divide_by = having_batches if self._counts_those_with_batches() else None
        if self.require_forward_param_sync and self.broadcast_buffers:
            self._share_buffers(self._highest_rank(True) if joining else 0)
        if joining:  # those without batches must know whether there will be gradients
            self._reducer.anybody(self.require_backward_grad_sync and is_grad_enabled())
        output = self.module(*inputs, **kwargs)
        if is_grad_enabled() and self.require_backward_grad_sync:
            self.require_forward_param_sync = True
            used = self._used_by(output) if self.find_unused_parameters else None
            self._reducer.prepare(used)
        else:
            self.require_forward_param_sync = False
            if is_grad_enabled():
                self._reducer.expecting = False
        return output

    def _used_by(self, output: Any) -> list[int]:
        """The numbers of the parameters that the graph of ``output`` leads to."""
        numbers = {id(p): number for number, p in enumerate(self._reducer.parameters)}
        to_visit = [edge(tensor)[0] for tensor in _tensors_in(output)]
        seen: set[Any] = set()
        found = []
        while to_visit:
            node = to_visit.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            to_visit.extend(node.next_nodes)
            if isinstance(node, AccumulateGrad) and id(node.variable) in numbers:
                found.append(numbers[id(node.variable)])
        return found

    def _share_buffers(self, source: int) -> None:
        """Give all processes the buffers of one. Only what differs is written: a graph that has
        saved a buffer need not fail because it was given the same values again."""
        buffers = list(self.module.buffers())
        received = [wrap(arrays.copy(buffer._data)) for buffer in buffers]
        _broadcast(received, self.process_group, source)
        with no_grad():
            for buffer, given in zip(buffers, received, strict=True):
                if buffer._data.tobytes() != given._data.tobytes():
                    buffer.copy_(given)

    def _highest_rank(self, candidate: bool) -> int:
        """The highest rank of those that are candidates."""
        rank = wrap(arrays.array([self.process_group.rank() if candidate else -1], arrays.int64))
        distributed.all_reduce(rank, ReduceOp.MAX, self.process_group)
        return int(rank._data[0])

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:  # fmt: skip
        """Inside, processes may have unequal numbers of batches. Those that have none left give
        zeros to the averages, or, with ``divide_by_initial_world_size=False``, do not count. In
        the end all get the model of one that had the most.

        >>> import retrograd as torch
        >>> torch.distributed.init_process_group()
        >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        >>> with model.join():
        ...     for batch in torch.ones(3, 4, 2):  # as many as this process has
        ...         model(batch).sum().backward()
        >>> model.module.bias.grad
        tensor([12.])
        >>> torch.distributed.destroy_process_group()
        """
        return Join(
            [self], enable, throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )  # fmt: skip

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process does that has no more batches."""
        self._divide_by_initial_world_size = kwargs.get("divide_by_initial_world_size", True)
        return _WithoutBatches(self)

    def _counts_those_with_batches(self) -> bool:
        """Whether gradients are divided by the number of processes that still have batches."""
        return self._join_settings.counts and not self._divide_by_initial_world_size

    @property
    def join_process_group(self) -> Any:
        """The group in which gradients are averaged."""
        return self.process_group

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, forward calls lead to gradients that stay in this process and add up, until
        one outside averages the sum."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before


class _WithoutBatches(JoinHook):
    """Makes the calls of a forward and backward pass, without either."""

    def __init__(self, model: DistributedDataParallel) -> None:
        self.model = model

    def main_hook(self) -> None:
        model = self.model
        if model.require_forward_param_sync and model.broadcast_buffers:
            model._share_buffers(model._highest_rank(False))
        model.require_forward_param_sync = model._reducer.anybody(False)
        if model.require_forward_param_sync:
            model._reducer.give_zeros(model._counts_those_with_batches())

    def post_hook(self, is_last_joiner: bool) -> None:
        model = self.model
        model.require_forward_param_sync = True
        source = model._highest_rank(is_last_joiner)
        tensors = [*model.module.parameters(), *model.module.buffers()]
        _broadcast(tensors, model.process_group, source)


def _broadcast(tensors: list[Any], group: Any, source: int) -> None:
    """Give all ranks of a group the tensors of one."""
    works = [distributed.broadcast(t, group=group, group_src=source, async_op=True)
             for t in tensors]  # fmt: skip
    for work in works:
        assert work is not None  # only outside of the group
        work.wait()


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dicts, and in the attributes of plain objects."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, (tuple, list, set, frozenset)):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif hasattr(item, "__dict__") and not isinstance(item, (type, Module)):
            waiting.extend(vars(item).values())


def _check_alike(module: Module, group: Any) -> None:
    """See that all processes have the same module, before anything is overwritten."""
    rows = [f"{name} {t._data.dtype.name}{list(t._data.shape)}"
            for name, t in (*module.named_parameters(), *module.named_buffers())]  # fmt: skip
    print_ = zlib.crc32("\n".join(rows).encode())
    call = Call("DistributedDataParallel", detail=(print_,), words="; ".join(rows))
    group.agree(call)
