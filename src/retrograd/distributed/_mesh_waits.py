"""Waiting for XLA's programs on a mesh of several processes.

XLA waits forever for a process that runs no program, or a different one. So a process waits for a
program as it does for MPI, and checks its peers meanwhile. Before a tensor is read whose parts are
in several processes, these agree that each of them reads it. Tensors that are moved to the mesh are
copied from the first process. Otherwise each process would provide parts of a different tensor, if
it is random, for example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.distributed import _groups
from retrograd.distributed._buffers import as_bytes, pieces
from retrograd.distributed._calls import Call
from retrograd.distributed._work import Work

# After so many seconds, a peer that has left is assumed not to have run the program. The results of
# others may take a moment to arrive.
_ON_ITS_WAY = 3.0
_MORE_THAN_ANY = 1 << 62


class _Ready:
    """XLA arrays with the interface of an MPI request."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = arrays

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        return all(x.is_ready() for x in self.arrays)


def wait_for(arrays: Sequence[Any]) -> None:
    """Wait until arrays are computed. PeerError if a rank that has to take part is gone."""
    ready = _Ready(arrays)
    if not _groups.is_initialized() or ready.Test():
        return
    work = Work(Call("run_on_mesh"), _groups.default_group(), iter([[ready]]))
    if not work.is_over_in(_ON_ITS_WAY):
        work.timed_out, work.number = False, _MORE_THAN_ANY
        work.wait()


def agree_to_read(array: Any) -> None:
    """Wait until all ranks that hold parts of a tensor read it. MismatchError if one does not."""
    if includes_all_ranks(array.sharding):
        _groups.default_group().agree(_call("full_tensor", array))


def copy_from_first(arrays: Sequence[Any], sharding: Any) -> None:
    """Overwrite contiguous arrays by those of the first rank, before they are moved to a mesh.
    MismatchError if the arrays of another rank have other shapes or dtypes."""
    if includes_all_ranks(sharding) and arrays:
        group = _groups.default_group()
        call = _call("distribute_tensor", arrays[0])
        call.detail = tuple(x.nbytes for x in arrays)
        parts = [part for x in arrays for part in pieces(as_bytes(x))]
        group.collective(call, lambda: iter([[group.data.Ibcast(x, 0) for x in parts]]), ()).wait()


def includes_all_ranks(sharding: Any) -> bool:
    """Whether a mesh has devices of all ranks. If not, ranks cannot wait for each other."""
    processes = {d.process_index for d in sharding.device_set}
    return _groups.is_initialized() and len(processes) == _groups.default_group().size()


def _call(name: str, array: Any) -> Call:
    call = Call(name)
    call.shape, call.dtype = tuple(array.shape), array.dtype.name
    return call
