"""Ranks: who this process is in a group, and which processes a group has."""

from __future__ import annotations

from typing import Any

from retrograd.distributed._groups import ProcessGroup, is_member, resolve


def get_rank(group: Any = None) -> int:
    """The number of this process in a group.

    Returns:
        The rank, or -1 outside of the group.

    Example:
        >>> dist.get_rank()
        0
    """
    return resolve(group).rank() if is_member(group) else -1


def get_world_size(group: Any = None) -> int:
    """How many processes are in a group.

    Returns:
        The number of processes, or -1 outside of the group.

    Example:
        >>> dist.get_world_size()
        1
    """
    return resolve(group).size() if is_member(group) else -1


def get_backend(group: Any = None) -> str:
    """The name of the backend: always ``"mpi"``.

    Example:
        >>> dist.get_backend()
        'mpi'
    """
    resolve(group)
    return "mpi"


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The global ranks of a group's members.

    Args:
        group: the group.

    Example:
        >>> dist.get_process_group_ranks()
        [0]
    """
    return list(resolve(group).ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in a group of a rank of the world.

    Args:
        group: the process group.
        global_rank: the rank among all processes.

    Example:
        >>> dist.get_group_rank(dist.new_group([0]), 0)
        0
    """
    return resolve(group).rank_of(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank in the world of a rank of a group.

    Args:
        group: the process group.
        group_rank: the rank in the group.

    Example:
        >>> dist.get_global_rank(dist.new_group([0]), 0)
        0
    """
    ranks = resolve(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def in_group(group: ProcessGroup, rank: int | None, group_rank: int | None) -> int:
    """The rank in a group that was named by its rank in the world or by that in the group."""
    if group_rank is not None:
        if rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        get_global_rank(group, group_rank)
        return group_rank
    if rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    return group.rank_of(rank)
