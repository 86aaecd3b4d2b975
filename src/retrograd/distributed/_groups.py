"""Groups of processes: the world, and parts of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from retrograd import arrays
from retrograd.distributed import _liveness, _mpi
from retrograd.distributed._arrival import Arrival
from retrograd.distributed._calls import Call
from retrograd.distributed._errors import MismatchError
from retrograd.distributed._work import ALL, ANY, NOT_YET, More, Steps, Work, finish_all

_DEFAULT_TIMEOUT = timedelta(minutes=30)
_DESCRIPTION_BYTES = 512


class ProcessGroup:
    """A group of processes. Created by ``init_process_group`` and ``new_group``.

    Args:
        number: the number of the group, the same in all its members.
        ranks: global ranks of the members, in the order of their ranks in the group.
        comm: the MPI communicator of the group.
        timeout: how long to wait for other ranks.
        wait: a function that waits for an MPI request.

    Example:
        >>> dist.new_group([0])
        <ProcessGroup of ranks [0]>
    """

    def __init__(
        self, number: int, ranks: Sequence[int], comm: Any, timeout: timedelta,
        wait: Callable[[Any], None],
    ) -> None:  # fmt: skip
        self.number = number  # the same in all its members
        self.ranks = list(ranks)  # global ranks, in the order of ranks in the group
        self.calls = comm  # communicator for agreeing on calls
        self.data = _mpi.duplicate(comm, wait)  # communicator for the tensors
        self.timeout = timeout
        self.issued = 0  # collective calls so far
        self.turn = 0  # the number of the call that may move tensors
        self.messages: dict[tuple[str, int, int], int] = {}  # by (direction, peer, tag)
        self.lost: list[Work] = []  # operations that an interrupt has cut short
        self._ranks = {global_rank: rank for rank, global_rank in enumerate(self.ranks)}

    def rank(self) -> int:
        """The number of this process in the group."""
        return int(self.calls.rank)

    def size(self) -> int:
        """The number of processes in the group."""
        return len(self.ranks)

    def rank_of(self, global_rank: int) -> int:
        """The rank in the group of a rank of the world.

        Args:
            global_rank: the rank among all processes.
        """
        if global_rank not in self._ranks:
            raise ValueError(f"Global rank {global_rank} is not part of group {self}")
        return self._ranks[global_rank]

    def count_message(self, direction: str, peer: int, tag: int, more: int = 1) -> int:
        """Count a message with a peer, so that a rank that leaves can report what it took part in.

        Args:
            direction: "sent" or "received".
            peer: the global rank of the peer, or ``ANY``.
            tag: the tag of the message.
            more: what to add to the count.

        Returns:
            The number of this message: among those with its peer or, from ``ANY``, among all.
        """
        self.messages[direction, peer, tag] = self.messages.get((direction, peer, tag), 0) + more
        if peer != ANY:
            return self.messages[direction, peer, tag]
        return sum(n for (w, _, t), n in self.messages.items() if (w, t) == (direction, tag))

    def done(self) -> dict[str, Any]:
        """What this process has done in the group, or will complete by itself. An operation that
        was lost does not count, and neither does anything after it.

        Returns:
            A dictionary with the number of collective calls and the numbers of messages.
        """
        calls, messages = self.issued, dict(self.messages)
        for work in self.lost:
            if work.peer == ALL:
                calls = min(calls, work.number - 1)
            else:
                key = ("sent" if work.call.name == "isend" else "received", work.peer, work.tag)
                messages[key] = min(messages.get(key, 0), work.number - 1)
        counts = {" ".join(map(str, key)): count for key, count in messages.items()}
        return {"calls": calls, "messages": counts}

    def __repr__(self) -> str:
        return f"<ProcessGroup of ranks {self.ranks}>"

    def agreed(self, call: Call, move: Callable[[], Steps]) -> Steps:
        """Move tensors when all ranks of the group have made the same call.

        MPI pairs the calls of ranks by their order on a communicator. Therefore each call makes one
        MPI call on ``calls`` immediately, and its MPI calls on ``data`` in turn: a call that makes
        several, with waits in between, holds back the others until it has made its last.

        Args:
            call: the call.
            move: a function that returns the steps that move the tensors.

        Returns:
            The steps of the whole call.
        """
        number = self.issued
        self.issued += 1
        print_ = call.fingerprint()
        sent = arrays.array([print_, -print_], arrays.int64)
        highest = arrays.array([0, 0], arrays.int64)
        yield [self.calls.Iallreduce(sent, highest, _largest())]
        while self.turn != number:
            yield NOT_YET
        try:
            if highest[0] != -highest[1]:
                yield from self._disagree(call)
            for requests in move():
                if not isinstance(requests, More):
                    self.turn = number + 1
                yield requests
        finally:
            self.turn = max(self.turn, number + 1)

    def agree(self, call: Call) -> None:
        """Wait until all ranks of the group have made the same call.

        Args:
            call: the call.
        """
        self.collective(call, lambda: iter(()), ()).wait()

    def collective(self, call: Call, move: Callable[[], Steps], results: Sequence[Any]) -> Work:
        """Begin a call that all ranks of the group make.

        Args:
            call: the call.
            move: a function that returns the steps that move the tensors.
            results: the tensors that are written.

        Returns:
            The ``Work``.
        """
        return Work(call, self, self.agreed(call, move), results, number=self.issued + 1)

    def _disagree(self, call: Call) -> Steps:
        mine = arrays.zeros(_DESCRIPTION_BYTES, "u1")
        text = f"{call} at {call.where()}".encode()[:_DESCRIPTION_BYTES]
        mine[: len(text)] = list(text)
        everyones = arrays.zeros(_DESCRIPTION_BYTES * self.size(), "u1")
        yield More([self.data.Iallgather(mine, everyones)])
        words = [bytes(row).rstrip(b"\0").decode(errors="replace")
                 for row in everyones.reshape(self.size(), -1)]  # fmt: skip
        lines = "\n".join(f"  rank {r}: {w}" for r, w in zip(self.ranks, words, strict=True))
        raise MismatchError(
            f"the ranks of a group must make the same calls in the same order, but call number "
            f"{self.turn + 1} of {self} was\n{lines}"
        )


class NonMember:
    """Stands for a group that this process is not in."""

    def __repr__(self) -> str:
        return "GroupMember.NON_GROUP_MEMBER"


class _World:
    """The groups that this process belongs to."""

    mpi: Any = None
    comm: Any = None
    group: ProcessGroup | None = None
    groups: list[ProcessGroup]
    joined: list[ProcessGroup]  # all groups ever, for what was done in them
    created = 0  # number of groups so far, the same in all processes
    process = -1  # the process that joined; a forked child has not

    def __init__(self) -> None:
        self.groups = []
        self.joined = []

    def add(self, added: ProcessGroup) -> None:
        """Note a group that this process is in."""
        self.groups.append(added)
        self.joined.append(added)


world = _World()


def _largest() -> Any:
    return world.mpi.MAX if world.mpi is not None else None


class _GroupMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802 - PyTorch's name
        return world.group


class GroupMember(metaclass=_GroupMeta):
    """``GroupMember.WORLD`` is the group of all processes, and ``GroupMember.NON_GROUP_MEMBER`` is
    what ``new_group`` returns to processes outside of the new group.

    Example:
        >>> dist.GroupMember.WORLD
        <ProcessGroup of ranks [0]>
    """

    NON_GROUP_MEMBER = NonMember()


class group(metaclass=_GroupMeta):  # noqa: N801 - PyTorch's name
    """``group.WORLD`` is the group of all processes.

    Example:
        >>> dist.group.WORLD
        <ProcessGroup of ranks [0]>
    """


def is_available() -> bool:
    """Whether this package can be used: always, with one process if there is no MPI.

    Example:
        >>> is_available()
        True
    """
    return True


def is_mpi_available() -> bool:
    """Whether ``mpi4py`` is installed.

    Example:
        >>> import retrograd.distributed as dist
        >>> backend = "MPI" if dist.is_mpi_available() else "one process"
    """
    return _mpi.is_installed()


def is_initialized() -> bool:
    """Whether ``init_process_group`` was called in this process.

    Example:
        >>> dist.is_initialized()
        True
    """
    return world.group is not None and world.process == os.getpid()


def init_process_group(
    backend: str | None = None, init_method: str | None = None,
    timeout: timedelta | None = None, world_size: int = -1, rank: int = -1,
    **unused: Any,
) -> None:  # fmt: skip
    """Join the processes that ``mpiexec`` started; without it, there is one process.

    Args:
        backend: "mpi".
        init_method: no effect.
        timeout: limit for the start and for later calls.
        world_size: number of processes, which is checked.
        rank: rank of this process, which is checked.
        unused: no effect.

    Example:
        >>> torch.distributed.init_process_group("mpi")
        >>> torch.distributed.get_rank(), torch.distributed.get_world_size()
        (0, 1)
        >>> torch.distributed.destroy_process_group()
    """
    if backend not in (None, "mpi"):
        raise ValueError(
            f"backend '{backend}' is not available: retrograd talks by MPI. Use "
            'init_process_group("mpi"), and start the program with mpiexec -n N'
        )
    if unused:
        raise TypeError(f"init_process_group takes no argument {', '.join(unused)}")
    if init_method is not None:
        raise ValueError("init_method is not used with MPI: mpiexec brings the processes together")
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    check_timeout(timeout)
    if world.process not in (-1, os.getpid()):
        raise RuntimeError("a process forked from a rank cannot be a rank: MPI does not allow it")
    limit = timeout or _DEFAULT_TIMEOUT
    arrival = Arrival(limit.total_seconds())
    with arrival.announced():
        world.mpi = _mpi.load()
    comm = _mpi.world(world.mpi, arrival.wait)
    for name, value, result in (("world_size", world_size, comm.size), ("rank", rank, comm.rank)):
        if value not in (-1, result):
            raise ValueError(f"{name}={value} was given, but in this run of MPI it is {result}")
    world.process = os.getpid()
    world.comm = comm
    everyone = ProcessGroup(world.created, range(comm.size), comm, limit, arrival.wait)
    _liveness.start(everyone, world.joined, arrival.wait)
    world.group = everyone
    world.created += 1
    world.add(everyone)


def check_timeout(timeout: Any) -> None:
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )


def default_group() -> ProcessGroup:
    """The group of all processes."""
    if world.group is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    if world.process != os.getpid():
        raise RuntimeError(
            "this process was forked from a rank (a DataLoader's worker?) and cannot talk to the "
            "others. Communicate in the rank itself"
        )
    return world.group


def resolve(chosen: Any) -> ProcessGroup:
    """The group that an argument ``group`` means."""
    if chosen is None:
        return default_group()
    default_group()
    if chosen not in world.groups:
        raise ValueError(f"{chosen} is not a group of this process, or was destroyed")
    result: ProcessGroup = chosen
    return result


def is_member(chosen: Any) -> bool:
    """Whether this process is in the group."""
    return not isinstance(chosen, NonMember)


def destroy_process_group(group: Any = None) -> None:
    """Leave a group, or all of them, after pending calls have finished.

    Args:
        group: the group; all groups by default.

    Example:
        >>> import retrograd.distributed as dist
        >>> dist.init_process_group()
        >>> dist.is_initialized()
        True
        >>> dist.destroy_process_group()
        >>> dist.is_initialized()
        False
    """
    if not is_member(group):
        return
    leaving = resolve(group)
    finish_all()
    if leaving is not world.group:
        world.groups.remove(leaving)
        return
    _liveness.leave(world.joined, world.created, over=False)
    world.group, world.groups = None, []


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | None = None,
    backend: str | None = None, **unused: Any,
) -> Any:  # fmt: skip
    """Create a group of some processes. All processes must make this call, members or not.

    Args:
        ranks: ranks of the members; all by default.
        timeout: limit for calls in the group.
        backend: "mpi".
        unused: no effect.

    Returns:
        The group.

    Example:
        >>> torch.distributed.init_process_group()
        >>> torch.distributed.get_world_size(torch.distributed.new_group([0]))
        1
        >>> torch.distributed.destroy_process_group()
    """
    everyone = default_group()
    if unused:
        raise TypeError(f"new_group takes no argument {', '.join(unused)}")
    check_timeout(timeout)
    if backend not in (None, "mpi"):
        raise ValueError(f"backend '{backend}' is not available: retrograd talks by MPI")
    chosen = list(everyone.ranks) if ranks is None else sorted(ranks)
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"ranks list must not contain duplicate entries, got {ranks}")
    if len(chosen) > everyone.size():
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    for rank in chosen:
        if not 0 <= rank < everyone.size():
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {everyone.size() - 1} "
                f"(world_size={everyone.size()})"
            )
    call = Call("new_group", detail=tuple(chosen), words=str(chosen))
    # All ranks have arrived when this completes, so that what follows does not wait.
    everyone.agree(call)
    me = everyone.rank()
    member = me in chosen
    with _liveness.blocked_in(call):
        comm = everyone.data.Split(0 if member else _undefined(), me)
    number = world.created
    world.created += 1
    if not member:
        return GroupMember.NON_GROUP_MEMBER

    def wait(request: Any) -> None:
        Work(call, everyone, iter([[request]]), number=everyone.issued).wait()

    result = ProcessGroup(number, chosen, comm, timeout or everyone.timeout, wait)
    world.add(result)
    return result


def _undefined() -> int:
    return 0 if world.mpi is None else int(world.mpi.UNDEFINED)


def new_subgroups(group_size: int) -> tuple[Any, list[Any]]:
    """Divide all processes into groups of equal size.

    Args:
        group_size: size of a group.

    Returns:
        The group of this process, and the list of all groups.

    Example:
        >>> mine, all_of_them = dist.new_subgroups(1)
        >>> mine
        <ProcessGroup of ranks [0]>
    """
    size = default_group().size()
    if group_size > size or size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by group_size={group_size}")
    mine, groups = None, []
    for start in range(0, size, group_size):
        one = new_group(range(start, start + group_size))
        groups.append(one)
        mine = one if is_member(one) else mine
    return mine, groups
