"""A barrier that reports the ranks that do not arrive."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.distributed._arguments import outside
from retrograd.distributed._groups import ProcessGroup, check_timeout, is_member, resolve
from retrograd.distributed._point_to_point import TAGS, begin_receiving, begin_sending
from retrograd.distributed._work import Watch


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all ranks have made this call; rank 0 reports those that do not arrive in time.

    Args:
        timeout: limit, if other than that of the group.
        wait_all_ranks: report all missing ranks, rather than the first.

    Example:
        >>> dist.monitored_barrier()
    """
    if not is_member(group):
        outside("monitored_barrier")
        return
    chosen = resolve(group)
    check_timeout(timeout)
    limit = timeout or chosen.timeout
    if chosen.rank() == 0:
        _await_all(chosen, limit, wait_all_ranks)
        return
    sending = begin_sending(_token(), 0, chosen, TAGS)
    answer = begin_receiving(_token(), 0, chosen, TAGS)
    sending.wait()
    # Twice the limit: rank 0, whose error names the missing ranks, must be the first to report.
    if not answer.is_over_in(2 * limit.total_seconds()):
        raise RuntimeError(
            f"Rank {chosen.rank()} successfully reached monitoredBarrier, but received errors "
            "while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank."
        )


def _await_all(group: ProcessGroup, limit: timedelta, wait_all_ranks: bool) -> None:
    """The part of rank 0: receive from all ranks, then answer all."""
    ranks = range(1, group.size())
    arrivals = [begin_receiving(_token(), rank, group, TAGS) for rank in ranks]
    deadline = time.monotonic() + limit.total_seconds()
    missing = []
    for rank, arrival in zip(ranks, arrivals, strict=True):
        if not arrival.is_over_in(deadline - time.monotonic()):
            missing.append(rank)
            if not wait_all_ranks:
                break
    if missing:
        who = ", ".join(str(rank) for rank in missing)
        where = Watch.late(arrivals[missing[0] - 1])
        raise RuntimeError(
            f"[Rank 0]: Rank{'s' if wait_all_ranks else ''} {who} failed to pass monitoredBarrier "
            f"in {limit // timedelta(milliseconds=1)} ms{f': {where}' if where else ''}"
        )
    for answer in [begin_sending(_token(), rank, group, TAGS) for rank in ranks]:
        answer.wait()


def _token() -> Any:
    return wrap(arrays.zeros(1, "u1"))
