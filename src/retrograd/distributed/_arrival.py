"""Startup: waiting for all ranks to call ``init_process_group``, and reporting those that do not.

MPI cannot report this itself: its first call waits for all processes in C code, during which no
Python thread runs. Therefore the ranks of a host first find each other by abstract Unix sockets,
which the system closes when the process ends. Only Linux has these. Elsewhere, or if the launcher
does not name the run, the time limit applies only after that call.
"""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from retrograd.distributed import _mpi, _processes
from retrograd.distributed._liveness import running, say

_RUN, _RANK = "PMIX_NAMESPACE", "PMIX_RANK"  # of Open MPI 5, and of others that start by PMIx
_HERE = "OMPI_COMM_WORLD_LOCAL_SIZE"
_LIBRARY = "libmpi"
_TELL = 10.0  # seconds after which missing ranks are printed
_SCAN = 1.0
_UNSEEN = 5.0


class Arrival:
    """This process in ``init_process_group``, with a time limit for the others in seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds

    @contextmanager
    def announced(self) -> Iterator[None]:
        """A context to start MPI in: this rank becomes visible to the ranks of its host, and waits
        for them."""
        run, rank = os.environ.get(_RUN), os.environ.get(_RANK, "")
        size = _mpi.launched_size()
        if (
            (_mpi.is_running() and running.monitor is not None)
            or sys.platform != "linux"
            or (run is None or size is None or size == 1 or not rank.isdigit())
        ):
            yield
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as here:
            try:
                here.bind(_name(run, int(rank)))
            except OSError as error:
                raise RuntimeError(
                    f"there is another process that is rank {rank} of this run of MPI"
                ) from error
            if not _mpi.is_running():
                local = int(os.environ.get(_HERE, "0"))
                self._meet(_Missing(run, int(rank), size, local))
                with self._limited(all_here=local == size):
                    yield
            else:
                yield

    def _meet(self, missing: _Missing) -> None:
        """Wait for the ranks of this host."""
        began = time.monotonic()
        reported = False
        while missing.look():
            now = time.monotonic()
            if now > self._deadline:
                raise RuntimeError(f"{self._timed_out()}: {missing.words()}")
            if now - began > _TELL and not reported:
                reported = True
                say(f"rank {missing.rank} has waited for {now - began:.0f} s in "
                    f"init_process_group: {missing.words()}")  # fmt: skip
            time.sleep(0.002 if now - began < 1 else 0.05)

    @contextmanager
    def _limited(self, all_here: bool) -> Iterator[None]:
        """End this process if ranks on other hosts do not arrive. MPI cannot be interrupted and
        lets no other thread run, so no exception can be raised."""
        if all_here:
            yield
            return
        left = max(self._deadline - time.monotonic(), 0.001)
        faulthandler.dump_traceback_later(left, exit=True, file=2)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def wait(self, request: Any) -> None:
        """Wait for a request of MPI that needs all ranks."""
        monitor = running.monitor
        while not request.Test():
            if monitor is not None:
                monitor.check_all(f". Rank {monitor.rank} was in init_process_group")
            if time.monotonic() > self._deadline:
                raise RuntimeError(f"{self._timed_out()}: not all ranks have come")
            time.sleep(50e-6)

    def _timed_out(self) -> str:
        return f"init_process_group timed out after {self._seconds:g} seconds"


def _name(run: str, rank: int) -> str:
    return f"\0retrograd {os.getuid()} {run} {rank}"


class _Missing:
    """The ranks of this host that have not arrived yet."""

    def __init__(self, run: str, rank: int, size: int, local: int) -> None:
        self.rank = rank
        self._run = run
        self._local = local
        self._ranks = set(range(size)) - {rank} if local == size else set()
        self._pids: dict[int, int] = {}
        self._come: set[int] = set()
        self._began = time.monotonic()
        self._next_scan = self._began + (_SCAN if local == size else 0)

    def look(self) -> bool:
        """Whether there are any."""
        for rank in sorted(self._ranks - self._come):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as caller:
                try:
                    caller.connect(_name(self._run, rank))
                except OSError:  # it has not arrived yet
                    continue
            self._come.add(rank)
        if time.monotonic() > self._next_scan and (self._is_short() or self._ranks - self._come):
            self._scan()
            self._next_scan = time.monotonic() + _SCAN
        return self._is_short() or bool(self._ranks - self._come)

    def _is_short(self) -> bool:
        """Whether not even all ranks of this host are known."""
        return len(self._ranks) + 1 < self._local

    def _scan(self) -> None:
        """Find the processes. Do not wait for one that has loaded MPI: it started MPI without
        coming here. Nor for one that cannot be seen: it is in a container of its own, or dead,
        which the launcher notices."""
        result = _processes.with_variable(_RUN, self._run, _RANK)
        self._pids = {int(rank): pid for rank, pid in result.items() if rank.isdigit()}
        self._ranks |= set(self._pids) - {self.rank}
        mine = _processes.network(os.getpid())
        unseen = time.monotonic() - self._began > _UNSEEN
        for rank in self._ranks - self._come:
            pid = self._pids.get(rank)
            if pid is None:
                in_vain = unseen
            else:
                in_vain = _processes.has_loaded(pid, _LIBRARY) or _processes.network(pid) != mine
            if in_vain:
                self._come.add(rank)
        if unseen:
            self._local = min(self._local, len(self._ranks) + 1)

    def words(self) -> str:
        """Who they are."""
        self._scan()
        host = socket.gethostname()
        lines = []
        for rank in sorted(self._ranks - self._come):
            pid = self._pids.get(rank)
            known = None if pid is None else _processes.standing(pid)
            stopped = known is not None and known.is_stopped
            what = ", which is stopped by a signal," if stopped else ""
            lines.append(f"rank {rank} ({f'pid {pid} ' if pid else ''}on {host}){what}")
        have = "has" if len(lines) == 1 else "have"
        return f"{' and '.join(lines)} {have} not called it" if lines else "ranks are missing"
