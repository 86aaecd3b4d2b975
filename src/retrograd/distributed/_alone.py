"""A communicator of one process, for programs that run without MPI.

It has the calls of ``mpi4py.MPI.Comm`` that the package uses, with the same arguments, so that
no other code needs to know how many processes there are.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from retrograd import arrays

IN_PLACE = None  # stands for MPI.IN_PLACE, as None does in mpi4py


class Request:
    """A request, and whether it is complete."""

    def __init__(self, array: Any = None, done: bool = True) -> None:
        self.array = array
        self.done = done

    def Test(self) -> bool:  # noqa: N802 - mpi4py's name
        return self.done


def _copied(source: Any, target: Any, *op_and_root: Any) -> Request:
    """A collective in a group of one: copy the sent data to the receiving tensor."""
    if source is not IN_PLACE:
        arrays.write(target.reshape(-1), source.reshape(-1))
    return Request()


class Alone:
    """A communicator whose only member is this process."""

    rank, size = 0, 1

    def __init__(self) -> None:
        self._sent: dict[int, deque[Any]] = {}  # by tag, messages that nobody has received yet
        self._awaited: dict[int, deque[Request]] = {}  # by tag, receives that wait for a message

    def Isend(self, array: Any, place: int, tag: int) -> Request:  # noqa: N802
        if waiting := self._awaited.get(tag):
            request = waiting.popleft()
            arrays.write(request.array, array)
            request.done = True
        else:
            self._sent.setdefault(tag, deque()).append(arrays.copy(array))
        return Request()

    def Irecv(self, array: Any, place: int, tag: int) -> Request:  # noqa: N802
        if sent := self._sent.get(tag):
            arrays.write(array, sent.popleft())
            return Request()
        request = Request(array, done=False)
        self._awaited.setdefault(tag, deque()).append(request)
        return request

    Iallreduce = Ireduce = Igather = Iscatter = Iallgather = staticmethod(_copied)
    Ireduce_scatter_block = Ialltoall = staticmethod(_copied)

    def Ibcast(self, buffer: Any, root: int = 0) -> Request:  # noqa: N802
        return Request()

    def Idup(self) -> tuple[Alone, Request]:  # noqa: N802
        return Alone(), Request()

    def Split(self, color: int, key: int = 0) -> Alone:  # noqa: N802
        return Alone()

    def Iprobe(self) -> bool:  # noqa: N802
        return False
