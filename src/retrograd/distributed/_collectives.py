"""Collectives on one tensor per rank: ``all_reduce``, ``broadcast`` and so on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from retrograd import arrays
from retrograd.distributed import _reductions as reductions
from retrograd.distributed._arguments import check_tensor, joined
from retrograd.distributed._buffers import as_bytes, flat, pieces, to_read, to_write
from retrograd.distributed._calls import Call
from retrograd.distributed._groups import ProcessGroup, world
from retrograd.distributed._ranks import in_group
from retrograd.distributed._reductions import ReduceOp
from retrograd.distributed._work import Steps, Work


def run(
    call: Call, group: ProcessGroup, move: Callable[[], Steps], results: Sequence[Any],
    async_op: bool, timeout: timedelta | None = None,
) -> Work | None:  # fmt: skip
    """Make a collective call: agree with the others on it, then move the tensors."""
    work = group.collective(call, move, results)
    if async_op:
        return work
    work.wait(timeout)
    return None


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:  # fmt: skip
    """Wait until all ranks have made this call.

    Args:
        device_ids: no effect.
        timeout: limit, if other than that of the group.

    Example:
        >>> dist.barrier()
    """
    if (chosen := joined("barrier", group)) is None:
        return None
    # Agreeing on the call is the whole barrier.
    return run(Call("barrier"), chosen, lambda: iter(()), [], async_op, timeout)


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy the tensor of rank ``src`` to all ranks, in place.

    Args:
        tensor: the tensor.

    Example:
        >>> x = torch.ones(2)
        >>> dist.broadcast(x, src=0)
        >>> x
        tensor([1., 1.])
    """
    if (chosen := joined("broadcast", group)) is None:
        return None
    root = in_group(chosen, src, group_src)
    check_tensor(tensor, "tensor")
    sends = chosen.rank() == root
    array, written = (to_read(tensor), None) if sends else to_write(tensor)

    def move() -> Steps:
        yield [chosen.data.Ibcast(piece, root) for piece in pieces(as_bytes(array))]
        if written is not None:
            written()

    call = Call("broadcast", tensor, (root,), f"src={chosen.ranks[root]}")
    return run(call, chosen, move, [tensor], async_op)


def all_reduce(
    tensor: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce the tensors of all ranks, in place on every rank.

    Args:
        tensor: the tensor of this rank.

    Example:
        >>> x = torch.ones(2)
        >>> dist.all_reduce(x)  # adds up as many as there are ranks: here, one
        >>> x
        tensor([1., 1.])
    """
    check_tensor(tensor, "tensor")
    if (chosen := joined("all_reduce", group)) is None:
        return None
    reductions.check("all_reduce", op, tensor._data.dtype.kind)
    array, written = to_write(tensor)

    def move() -> Steps:
        whole = flat(array)
        numbers, back = reductions.workable(whole)
        operation = reductions.in_mpi(world.mpi, op, array.dtype.kind)
        yield [chosen.data.Iallreduce(in_place(), p, operation) for p in pieces(numbers)]
        put_back(whole, numbers, back, op, chosen.size())
        written()

    call = Call("all_reduce", tensor, (op.value,), op.name)
    return run(call, chosen, move, [tensor], async_op)


def put_back(
    whole: Any, numbers: Any, back: Callable[[Any], Any], op: ReduceOp, count: int
) -> None:
    """Copy what MPI computed into the elements of a tensor."""
    reductions.averaged(numbers, op, count)
    if not arrays.may_overlap(whole, numbers):
        arrays.write(whole, back(numbers))


def in_place() -> Any:
    return None if world.mpi is None else world.mpi.IN_PLACE


def reduce(
    tensor: Any, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Reduce the tensors of all ranks, in place on rank ``dst``.

    Args:
        tensor: the tensor of this rank.

    Example:
        >>> x = torch.ones(2)
        >>> dist.reduce(x, dst=0, op=dist.ReduceOp.MAX)
        >>> x
        tensor([1., 1.])
    """
    if (chosen := joined("reduce", group)) is None:
        return None
    root = in_group(chosen, dst, group_dst)
    check_tensor(tensor, "tensor")
    reductions.check("reduce", op, tensor._data.dtype.kind)
    receives = chosen.rank() == root
    array, written = to_write(tensor) if receives else (to_read(tensor), None)

    def move() -> Steps:
        whole = flat(array)
        numbers, back = reductions.workable(whole)
        operation = reductions.in_mpi(world.mpi, op, array.dtype.kind)
        requests = []
        for piece in pieces(numbers):
            source, target = (in_place(), piece) if receives else (piece, None)
            requests.append(chosen.data.Ireduce(source, target, operation, root))
        yield requests
        if written is not None:
            put_back(whole, numbers, back, op, chosen.size())
            written()

    call = Call("reduce", tensor, (op.value, root), f"{op.name}, dst={chosen.ranks[root]}")
    return run(call, chosen, move, [tensor], async_op)
