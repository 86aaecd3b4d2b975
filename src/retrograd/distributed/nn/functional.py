"""Differentiable collectives: gradients are sent in the reverse direction.

The derivative is that of the sum of what all ranks compute, so every rank must run its backward
pass.
"""

from __future__ import annotations

from typing import Any

from retrograd import distributed as dist
from retrograd.autograd.function import Function
from retrograd.ops.linear import stack

__all__ = ["all_gather", "all_reduce"]


class _AllReduce(Function):
    """The sum over all ranks, whose gradient is the sum of all gradients."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        ctx.group = group
        total = tensor.detach().clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
        return _AllReduce.apply(gradient, ctx.group), None


class _AllGather(Function):
    """The tensors of all ranks, in the rows of a tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        ctx.group, ctx.rank = group, dist.get_rank(group)
        tensor = tensor.detach().contiguous()
        gathered = [tensor.new_empty(tensor.shape) for _ in range(dist.get_world_size(group))]
        dist.all_gather(gathered, tensor, group=group)
        return stack(gathered, dim=0)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
        return _AllReduce.apply(gradient, ctx.group)[ctx.rank], None


def all_reduce(tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None) -> Any:
    """Sums the tensors of all ranks.

    Args:
        tensor: the tensor of this rank, which is not changed.
        op: must be ``ReduceOp.SUM``.
        group: the process group; all processes by default.

    Returns:
        The sum. Its gradients are added up over all ranks, too.

    Example:
        >>> from retrograd.distributed.nn.functional import all_reduce
        >>> x = torch.ones(2, requires_grad=True)
        >>> all_reduce(x).sum().backward()
        >>> x.grad
        tensor([1., 1.])
    """
    if op is not dist.ReduceOp.SUM:
        raise NotImplementedError("all_reduce can be differentiated for ReduceOp.SUM only")
    return _AllReduce.apply(tensor, group)


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """Collects the tensors of all ranks, which have one shape.

    Args:
        tensor: the tensor of this rank.
        group: the process group; all processes by default.

    Returns:
        A tuple of the tensors of all ranks.

    Example:
        >>> from retrograd.distributed.nn.functional import all_gather
        >>> all_gather(torch.ones(2))
        (tensor([1., 1.]),)
    """
    gathered: tuple[Any, ...] = _AllGather.apply(tensor, group).unbind(0)
    return gathered
