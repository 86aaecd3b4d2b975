"""Data parallel training: every process has a replica of the model and a part of each batch."""

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
    """Data parallel training of a module in all processes of a group.

    All replicas start with the parameters of rank 0. Gradients are averaged over the processes
    while ``backward`` computes them.

    Args:
        module: the module, the same in all processes.
        device_ids, output_device: must be absent, since there is only the CPU.
        dim: no effect.
        broadcast_buffers: copy the buffers of rank 0 to all processes before each call.
        init_sync: copy the parameters and buffers of rank 0 at construction.
        process_group: the group; all processes by default.
        bucket_cap_mb: size in MiB of the buckets in which gradients are sent.
        find_unused_parameters: search the graph of each result for parameters that get no gradient.
        check_reduction: no effect.
        gradient_as_bucket_view: let gradients be views of the buckets, which saves memory.

    Shape:
        As ``module``.

    Example:
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
        bucket_bytes = int(cap * (1 << 20))
        self._reducer = Reducer(
            named, group, bucket_bytes, gradient_as_bucket_view, find_unused_parameters
        )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module and prepare the averaging of gradients."""
        self._reducer.check_finished()
        joining = self._join_settings.enable
        active = Join.notify_join_context(self) if joining else None
        self._reducer.divide_by = active if self._divides_by_active() else None
        if self.require_forward_param_sync and self.broadcast_buffers:
            self._share_buffers(self._highest_rank(True) if joining else 0)
        if joining:  # processes without batches must know whether gradients will be averaged
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
        """The numbers of the parameters that the graph of ``output`` contains."""
        numbers = {id(p): number for number, p in enumerate(self._reducer.parameters)}
        to_visit = [edge(tensor)[0] for tensor in _tensors_in(output)]
        seen: set[Any] = set()
        used = []
        while to_visit:
            node = to_visit.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            to_visit.extend(node.next_nodes)
            if isinstance(node, AccumulateGrad) and id(node.variable) in numbers:
                used.append(numbers[id(node.variable)])
        return used

    def _share_buffers(self, source: int) -> None:
        """Broadcast the buffers of one process. Only buffers that differ are written, so that a
        graph that saved a buffer stays valid if the values are the same.
        """
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
        """A context in which processes may have different numbers of batches.

        A process without batches contributes zeros to the averages. At the end, all processes get
        the model of one that had the most batches.

        Args:
            divide_by_initial_world_size: whether processes without batches count in the averages.
            enable: False turns the context off.
            throw_on_early_termination: raise an error when the first process runs out of batches.

        Example:
            >>> torch.distributed.init_process_group()
            >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
            >>> with model.join():
            ...     for batch in torch.ones(3, 4, 2):  # the batches of this process
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
        """Create the hook for a process that has run out of batches.

        Args:
            kwargs: the options of ``Join``.

        Returns:
            The hook.
        """
        self._divide_by_initial_world_size = kwargs.get("divide_by_initial_world_size", True)
        return _WithoutBatches(self)

    def _divides_by_active(self) -> bool:
        """Whether gradients are divided by the number of processes that still have batches."""
        return self._join_settings.counts and not self._divide_by_initial_world_size

    @property
    def join_process_group(self) -> Any:
        """The group in which gradients are averaged."""
        return self.process_group

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context in which gradients accumulate locally; the next backward pass outside averages
        them.

        Returns:
            A context manager.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before


class _WithoutBatches(JoinHook):
    """Takes part in the communication of a forward and backward pass without running either."""

    def __init__(self, model: DistributedDataParallel) -> None:
        self.model = model

    def main_hook(self) -> None:
        model = self.model
        if model.require_forward_param_sync and model.broadcast_buffers:
            model._share_buffers(model._highest_rank(False))
        model.require_forward_param_sync = model._reducer.anybody(False)
        if model.require_forward_param_sync:
            model._reducer.give_zeros(model._divides_by_active())

    def post_hook(self, is_last_joiner: bool) -> None:
        model = self.model
        model.require_forward_param_sync = True
        source = model._highest_rank(is_last_joiner)
        tensors = [*model.module.parameters(), *model.module.buffers()]
        _broadcast(tensors, model.process_group, source)


def _broadcast(tensors: list[Any], group: Any, source: int) -> None:
    """Broadcast the tensors of one rank to the group."""
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
    """Check that all processes have the same module, before anything is overwritten."""
    rows = [f"{name} {t._data.dtype.name}{list(t._data.shape)}"
            for name, t in (*module.named_parameters(), *module.named_buffers())]  # fmt: skip
    checksum = zlib.crc32("\n".join(rows).encode())
    call = Call("DistributedDataParallel", detail=(checksum,), words="; ".join(rows))
    group.agree(call)
