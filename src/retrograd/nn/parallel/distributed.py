"""A module that is trained by several processes, each on its part of every batch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from retrograd import distributed
from retrograd.autograd._history import edge
from retrograd.autograd._node import AccumulateGrad
from retrograd.autograd.grad_mode import is_grad_enabled
from retrograd.distributed._calls import Call
from retrograd.distributed._groups import resolve
from retrograd.distributed._work import Work
from retrograd.nn.module import Module
from retrograd.nn.parallel._reducer import Reducer
from retrograd.tensor._tensor import Tensor

_DEFAULT_CAP_MB = 25


class DistributedDataParallel(Module):
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
        _check_alike(module, group)
        if init_sync:
            for tensor in (*module.parameters(), *module.buffers()):
                distributed.broadcast(tensor, group=group, group_src=0)
        most = int(cap * (1 << 20))
        self._reducer = Reducer(named, group, most, gradient_as_bucket_view, find_unused_parameters)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives, with the averaging of gradients prepared."""
        self._reducer.check_finished()
        if self.require_forward_param_sync and self.broadcast_buffers:
            for buffer in self.module.buffers():
                distributed.broadcast(buffer, group=self.process_group, group_src=0)
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
    Work(call, group, group.agreed(call)).wait()
