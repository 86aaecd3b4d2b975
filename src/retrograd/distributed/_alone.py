"""A communicator of one process, for programs that run without MPI.

It has the calls of ``mpi4py.MPI.Comm`` that the package uses, on the same arguments, so that
nothing above asks how many processes there are.
"""

from __future__ import annotations

from typing import Any

from retrograd import arrays

IN_PLACE = None  # stands for MPI.IN_PLACE, as None does in mpi4py


class Done:
    """A request that has been fulfilled."""

    def Test(self, status: Any = None) -> bool:  # noqa: N802 - mpi4py's name
        return True


def _copied(source: Any, target: Any) -> Done:
    if source is not IN_PLACE:
        arrays.write(target.reshape(-1), source.reshape(-1))
    return Done()


class Alone:
    """A communicator whose only member is this process."""

    rank, size = 0, 1

    def Iallreduce(self, source: Any, target: Any, op: Any = None) -> Done:  # noqa: N802
        return _copied(source, target)

    def Ireduce(self, source: Any, target: Any, op: Any = None, root: int = 0) -> Done:  # noqa: N802
        return _copied(source, target)

    def Ibcast(self, buffer: Any, root: int = 0) -> Done:  # noqa: N802
        return Done()

    def Igather(self, source: Any, target: Any, root: int = 0) -> Done:  # noqa: N802
        return _copied(source, target)

    def Iscatter(self, source: Any, target: Any, root: int = 0) -> Done:  # noqa: N802
        return _copied(source, target)

    def Iallgather(self, source: Any, target: Any) -> Done:  # noqa: N802
        return _copied(source, target)

    def Ireduce_scatter_block(self, source: Any, target: Any, op: Any = None) -> Done:  # noqa: N802
        return _copied(source, target)

    def Ialltoall(self, source: Any, target: Any) -> Done:  # noqa: N802
        return _copied(source, target)

    def Dup(self) -> Alone:  # noqa: N802
        return self

    def Split(self, color: int, key: int = 0) -> Alone:  # noqa: N802
        return self

    def Iprobe(self) -> bool:  # noqa: N802
        return False
