"""Communication between processes over MPI, under PyTorch's names.

>>> import retrograd as torch
>>> import retrograd.distributed as dist
>>> dist.init_process_group("mpi")  # under mpiexec -n 4: one of four; here, alone
>>> x = torch.tensor([1.0, 2.0])
>>> dist.all_reduce(x)
>>> x
tensor([1., 2.])
>>> dist.destroy_process_group()

In the examples of the functions, ``dist`` is this package, and there is a process group.
"""

from retrograd.distributed._collectives import all_reduce, barrier, broadcast, reduce
from retrograd.distributed._endings import fail
from retrograd.distributed._errors import MismatchError, PeerError
from retrograd.distributed._groups import (
    GroupMember,
    ProcessGroup,
    destroy_process_group,
    group,
    init_process_group,
    is_available,
    is_initialized,
    is_mpi_available,
    new_group,
    new_subgroups,
)
from retrograd.distributed._monitored import monitored_barrier
from retrograd.distributed._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from retrograd.distributed._point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from retrograd.distributed._ranks import (
    get_backend,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
)
from retrograd.distributed._reductions import ReduceOp
from retrograd.distributed._sharing import (
    all_gather,
    all_gather_into_tensor,
    all_to_all,
    all_to_all_single,
    gather,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from retrograd.distributed._work import Work
from retrograd.ops._sections import complete_all as _complete_all

# PyTorch's later names.
all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor

__all__ = [
    "GroupMember", "MismatchError", "P2POp", "PeerError", "ProcessGroup", "ReduceOp", "Work",
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "destroy_process_group", "fail", "gather", "gather_object",
    "get_backend", "get_global_rank", "get_group_rank", "get_process_group_ranks", "get_rank",
    "get_world_size", "group", "init_process_group", "irecv", "is_available", "is_initialized",
    "is_mpi_available", "isend", "monitored_barrier", "new_group", "new_subgroups", "recv",
    "recv_object_list", "reduce", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_tensor", "scatter", "scatter_object_list", "send", "send_object_list",
]  # fmt: skip

_complete_all(globals(), {
    "group": "the process group; all processes by default.",
    "async_op": "return at once, with a ``Work``.",
    "src": "the sending rank.",
    "dst": "the receiving rank.",
    "group_src": "the sending rank, numbered within the group.",
    "group_dst": "the receiving rank, numbered within the group.",
    "tag": "number that sender and receiver must agree on.",
    "op": "a ``ReduceOp``.",
}, {"async_op": "The ``Work`` if ``async_op``, else None."})  # fmt: skip
