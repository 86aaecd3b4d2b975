"""Sending tensors from one rank to another.

A message is announced before it is sent: its dtype, shape and number. The receiver checks these
against its tensor before anything is written to it.
"""

from __future__ import annotations

import itertools
from typing import Any

from retrograd import arrays
from retrograd.distributed._arguments import check_tensor, joined
from retrograd.distributed._buffers import as_bytes, check_writable, pieces, to_read, to_write
from retrograd.distributed._calls import DTYPES, Call
from retrograd.distributed._errors import MismatchError
from retrograd.distributed._groups import ProcessGroup, is_member, resolve, world
from retrograd.distributed._ranks import in_group
from retrograd.distributed._work import ANY, Steps, Work

_ANNOUNCED_DIMS = 28
_ANNOUNCEMENT = _ANNOUNCED_DIMS + 4  # number of the message, dtype, dimensions, elements, sizes
TAGS = 32767  # every MPI has this many and one more, which is not for messages of users
_numbers = itertools.count()


def _announcement(array: Any, number: int) -> Any:
    row = arrays.zeros(_ANNOUNCEMENT, arrays.int64)
    row[:4] = number, DTYPES.index(array.dtype.name), array.ndim, array.size
    row[4 : 4 + min(array.ndim, _ANNOUNCED_DIMS)] = array.shape[:_ANNOUNCED_DIMS]
    return row


def _announced(row: Any) -> tuple[str, tuple[int, ...]]:
    ndim = min(int(row[2]), _ANNOUNCED_DIMS)
    return DTYPES[int(row[1])], tuple(int(n) for n in row[4 : 4 + ndim])


def _sending(group: ProcessGroup, array: Any, peer: int, tag: int) -> Steps:
    number = next(_numbers) % TAGS
    announcement = _announcement(array, number)
    requests = [group.calls.Isend(announcement, peer, tag)]
    for piece in pieces(as_bytes(array)):
        requests.append(group.data.Isend(piece, peer, number))
    yield requests


def _receiving(group: ProcessGroup, tensor: Any, peer: int, tag: int, call: Call) -> Steps:
    announcement = arrays.zeros(_ANNOUNCEMENT, arrays.int64)
    if world.mpi is None:
        yield [group.calls.Irecv(announcement, 0, tag)]
        source = 0
    else:
        status = world.mpi.Status()
        wanted = world.mpi.ANY_SOURCE if peer == ANY else peer
        yield [_WithStatus(group.calls.Irecv(announcement, wanted, tag), status)]
        source = status.Get_source()
    if peer == ANY:
        group.count_message("received", ANY, tag, -1)
        group.count_message("received", group.ranks[source], tag)
    dtype, shape = _announced(announcement)
    if (dtype, shape) != (tensor._data.dtype.name, tensor._data.shape[:_ANNOUNCED_DIMS]):
        me = group.ranks[group.rank()]
        raise MismatchError(
            f"rank {group.ranks[source]} sent {dtype}{list(shape)} to rank {me}, which receives "
            f"{tensor._data.dtype.name}{list(tensor._data.shape)} at {call.where()}: they must "
            "have the same dtype and shape"
        )
    array, written = to_write(tensor)
    number = int(announcement[0])
    yield [group.data.Irecv(piece, source, number) for piece in pieces(as_bytes(array))]
    written()
    call.source = group.ranks[source]


class _WithStatus:
    """A request that fills in a status when it completes."""

    __slots__ = ("request", "status")

    def __init__(self, request: Any, status: Any) -> None:
        self.request = request
        self.status = status

    def Test(self) -> bool:  # noqa: N802 - mpi4py's name
        return bool(self.request.Test(self.status))


def _check_tag(tag: int) -> None:
    if not isinstance(tag, int) or not 0 <= tag < TAGS:
        raise ValueError(f"tag must be from 0 to {TAGS - 1}, got {tag}")


def isend(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Start to send a tensor. Do not write to it before the returned work has finished.

    Args:
        tensor: the tensor.

    Returns:
        The ``Work``, or None outside of the group.

    Example:
        >>> sent = dist.isend(torch.ones(2), 0)  # to this rank itself, which here is the only one
        >>> x = torch.zeros(2)
        >>> dist.irecv(x, 0).wait(), sent.wait()
        (True, True)
        >>> x
        tensor([1., 1.])
    """
    if (chosen := joined("isend", group)) is None:
        return None
    rank = in_group(chosen, dst, group_dst)
    check_tensor(tensor, "tensor")
    _check_tag(tag)
    return begin_sending(tensor, rank, chosen, tag)


def begin_sending(tensor: Any, rank: int, chosen: ProcessGroup, tag: int) -> Work:
    """Send to a rank of a group."""
    peer = chosen.ranks[rank]
    call = Call("isend", tensor, words=f"dst={peer}" + (f", tag={tag}" if tag else ""))
    steps = _sending(chosen, to_read(tensor), rank, tag)
    return Work(call, chosen, steps, [tensor], peer, chosen.count_message("sent", peer, tag), tag)


def irecv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Start to receive a tensor. It is written when the returned work has finished.

    Args:
        tensor: the tensor to write to, of the dtype and shape of the one that is sent.
        src: the sending rank; any rank by default.

    Returns:
        The ``Work``, or None outside of the group.

    Example:
        >>> x = torch.zeros(2)
        >>> received = dist.irecv(x, 0)  # from this rank itself, which here is the only one
        >>> dist.isend(torch.ones(2), 0).wait(), received.wait()
        (True, True)
        >>> x
        tensor([1., 1.])
    """
    check_tensor(tensor, "tensor")
    if (chosen := joined("irecv", group)) is None:
        return None
    anyone = src is None and group_src is None
    rank = ANY if anyone else in_group(chosen, src, group_src)
    _check_tag(tag)
    check_writable(tensor)
    return begin_receiving(tensor, rank, chosen, tag)


def begin_receiving(tensor: Any, rank: int, chosen: ProcessGroup, tag: int) -> Work:
    """Receive from a rank of a group, or from any."""
    peer = ANY if rank == ANY else chosen.ranks[rank]
    words = "from any rank" if rank == ANY else f"src={peer}"
    call = Call("irecv", tensor, words=words + (f", tag={tag}" if tag else ""))
    number = chosen.count_message("received", peer, tag)
    steps = _receiving(chosen, tensor, rank, tag, call)
    return Work(call, chosen, steps, [tensor], peer, number, tag)


def send(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Send a tensor to another rank. You may write to it after the call returns.

    Args:
        tensor: the tensor.
        dst: the receiving rank. A rank cannot send to itself.

    Example:
        >>> if dist.get_rank() == 1:  # with two processes or more; here there is one
        ...     dist.send(torch.ones(2), dst=0)
    """
    if is_member(group):
        chosen = resolve(group)
        _check_not_self(chosen, in_group(chosen, dst, group_dst), "destination")
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receive a tensor from another rank, and wait for it.

    Args:
        tensor: the tensor to write to, of the dtype and shape of the one that is sent.
        src: the sending rank; any rank by default.

    Returns:
        The rank that the tensor came from, or -1 outside of the group.

    Example:
        >>> sent = dist.isend(torch.ones(2), 0)  # to this rank itself, which is the only one
        >>> x = torch.zeros(2)
        >>> dist.recv(x)  # from any rank
        0
        >>> x
        tensor([1., 1.])
    """
    if is_member(group) and not (src is None and group_src is None):
        chosen = resolve(group)
        _check_not_self(chosen, in_group(chosen, src, group_src), "source")
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


def _check_not_self(group: ProcessGroup, rank: int, kind: str) -> None:
    if group.rank() == rank:
        raise ValueError(
            f"Invalid {kind} rank: {kind} rank should not be the same as "
            "the rank of the current process."
        )


class P2POp:
    """A message for ``batch_isend_irecv`` to start.

    Args:
        op: ``isend`` or ``irecv``.
        tensor: the tensor to send, or to write to.
        peer: the rank to send to or receive from.
        group_peer: the rank to send to or receive from, numbered within the group.

    Example:
        >>> dist.P2POp(dist.isend, torch.ones(2), 0).peer
        0
    """

    def __init__(
        self, op: Any, tensor: Any, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer = resolve(group).ranks[in_group(resolve(group), peer, group_peer)]


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several messages.

    Args:
        p2p_op_list: a list of ``P2POp``.

    Returns:
        A list with the ``Work`` of each message, without those outside of their group.

    Example:
        >>> x = torch.zeros(2)
        >>> ops = [dist.P2POp(dist.isend, torch.ones(2), 0), dist.P2POp(dist.irecv, x, 0)]
        >>> [work.wait() for work in dist.batch_isend_irecv(ops)]
        [True, True]
        >>> x
        tensor([1., 1.])
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    works = [p.op(p.tensor, p.peer, p.group, p.tag) for p in p2p_op_list]
    return [work for work in works if work is not None]


__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]
