"""Waiting for XLA's programs on a mesh of several processes.

XLA waits without an end for a process that runs no program, or another one. So a process waits for
a program as it does for MPI, and checks its peers meanwhile; and before a tensor is read that all
processes hold parts of, they agree that each of them reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.distributed import _groups
from retrograd.distributed._calls import Call
from retrograd.distributed._work import Work

# After so many seconds, a peer that has left is taken not to have run a program. What others send
# may take a moment.
_ON_ITS_WAY = 3.0
_MORE_THAN_ANY = 1 << 62


class _Ready:
    """Arrays of XLA as a request of MPI."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = arrays

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        return all(x.is_ready() for x in self.arrays)


def wait_for(arrays: Sequence[Any]) -> None:
    """Wait until arrays are computed. PeerError if a rank is gone that has to take part."""
    ready = _Ready(arrays)
    if not _groups.is_initialized() or ready.Test():
        return
    work = Work(Call("run_on_mesh"), _groups.default_group(), iter([[ready]]))
    if not work.is_over_in(_ON_ITS_WAY):
        work.timed_out, work.number = False, _MORE_THAN_ANY
        work.wait()


def agree_to_read(array: Any) -> None:
    """Wait until all ranks read a tensor whose parts they hold. MismatchError if one does not."""
    processes = {d.process_index for d in array.sharding.device_set}
    if _groups.is_initialized():
        group = _groups.default_group()
        if len(processes) == group.size():  # others cannot be waited for
            call = Call("full_tensor")
            call.shape, call.dtype = tuple(array.shape), array.dtype.name
            group.agree(call)
