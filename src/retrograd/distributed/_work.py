"""Operations in progress, and waiting for them.

An operation is a generator: it yields the MPI requests that must complete before it can continue.
Nothing blocks inside MPI. A thread that waits goes through all operations in progress and advances
each, so that they complete in whatever order their peers reach them, and checks that all peers are
alive.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from retrograd._modes import free_in_forks
from retrograd.distributed._calls import Call

Steps = Iterator[Sequence[Any]]

ALL, ANY = -1, -2  # the peer of an operation that needs all ranks, or any rank, of its group
NOT_YET: tuple[Any, ...] = ()  # yielded by an operation whose turn has not come


class More(list[Any]):
    """Requests after which the same operation will make others."""


_under_way: list[Work] = []
waiting: list[Work] = []  # what threads of this process have been waiting for
_given_up: list[Work] = []
_lock = threading.RLock()
free_in_forks(_lock)
_yield_processor = getattr(os, "sched_yield", lambda: time.sleep(0))

# How polling slows down: a short wait ends soonest without sleeping, and a long one should leave
# the processor to those that compute.
_STEP_ASIDE = 400
_NAPS = ((900, 50e-6), (3000, 200e-6))  # up to so many turns, so many seconds each
_LONG_NAP = 1e-3
_NEWS_COMES = 1.0
# After so many seconds of waiting, all ranks are asked where they are; a second later it is
# printed.
_ASK = (9.0, 59.0, 599.0)
_TELL = 1.0


class Watch:
    """Checks the peers during a wait. The liveness module sets its checks here, and how often to
    poll without a pause: seldom, if ranks must share processors."""

    check: Callable[[Work], None] = staticmethod(lambda work: None)
    ask: Callable[[], None] = staticmethod(lambda: None)  # asks all ranks where they are
    # Prints which ranks are late; the same as text for an error.
    tell: Callable[[Work, float], None] = staticmethod(lambda work, seconds: None)
    late: Callable[[Work], str] = staticmethod(lambda work: "")
    ask_again = 5


class Patience:
    """When a waiting thread should print which ranks it waits for."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._steps = [step for ask in _ASK for step in ((ask, False), (ask + _TELL, True))]
        self._next = self._began + self._steps[0][0]

    def is_over(self, now: float) -> bool:
        """Whether it is time to print it. Asks all ranks where they are some time before."""
        if now < self._next:
            return False
        _, tells = self._steps.pop(0)
        self._next = self._began + self._steps[0][0] if self._steps else float("inf")
        if not tells:
            Watch.ask()
        return tells


class Work:
    """A pending call, as returned by ``isend`` and with ``async_op=True``.

    Args:
        call: the call that began it.
        group: the process group.
        steps: what is left to do: an iterator of lists of MPI requests to wait for.
        results: the tensors that are written.
        peer: the global rank that it needs; all ranks or any rank, as constants.
        number: its number among the calls of its kind, in its group and with its peer.
        tag: the tag of a message.

    Example:
        >>> torch.distributed.init_process_group()
        >>> work = torch.distributed.all_reduce(torch.ones(2), async_op=True)
        >>> work.wait(), work.is_completed()
        (True, True)
        >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self, call: Call, group: Any, steps: Steps, results: Sequence[Any] = (), peer: int = ALL,
        number: int = 0, tag: int = 0,
    ) -> None:  # fmt: skip
        self.call = call
        self.group = group
        self.peer = peer  # the global rank that it needs, or ALL, or ANY
        self.number = number  # of its kind, in its group and with its peer
        self.tag = tag
        self._steps = steps
        self._results = list(results)
        self._requests: list[Any] = []
        self._error: BaseException | None = None
        self._done = False
        self.timed_out = False
        self.waiter = 0  # the thread that has been waiting for it
        with _lock:
            try:
                if not self._advance():
                    _under_way.append(self)
            except BaseException:
                group.lost.append(self)
                raise
        if self._error is not None:
            raise self._error

    def _advance(self) -> bool:
        """Advance as far as possible now. Whether the operation is over."""
        while True:
            requests = self._requests
            try:
                while requests and requests[-1].Test():
                    requests.pop()
                if requests:
                    return False
                following = next(self._steps)
            except StopIteration:
                self._done = True
                return True
            except Exception as error:
                self._error = _explained(self, error)
                self._done = True
                return True
            except BaseException as error:  # an interrupt, after which it cannot continue
                self._error = error
                self._done = True
                self.group.lost.append(self)
                raise
            if following is NOT_YET:
                return False
            self._requests = list(following)

    def is_completed(self) -> bool:
        """Whether the call has finished."""
        if not self._done:
            progress()
            if not self._done:
                Watch.check(self)
        return self._done

    def is_success(self) -> bool:
        """Whether the call has finished without an error."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """The exception that the call raised, or None."""
        return self._error

    def source_rank(self) -> int:
        """The rank that a received tensor came from."""
        return self.call.source

    def result(self) -> list[Any]:
        """The tensors that were written."""
        return self._results

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Wait until the call has finished.

        Raises a ``PeerError`` if a rank that it needs is gone, and a RuntimeError after the
        timeout.

        Args:
            timeout: a timedelta, or seconds.

        Returns:
            True.
        """
        if not self._done:
            limit = self.group.timeout if timeout is None else timeout
            seconds = limit.total_seconds() if isinstance(limit, timedelta) else float(limit)
            if not self.is_over_in(seconds):
                who = Watch.late(self) or "not all of the ranks that it needs have made its call"
                raise RuntimeError(
                    f"{self.call} timed out after {seconds:g} seconds, at {self.call.where()}: "
                    f"{who}"
                )
        if self._error is not None:
            raise self._error
        return True

    def is_over_in(self, seconds: float) -> bool:
        """Wait until the operation is over, with or without an error, up to a limit.

        Args:
            seconds: the limit.

        Returns:
            Whether the operation is over.
        """
        turn, ask_again, began = 0, Watch.ask_again, 0.0
        while not self._done:
            progress()
            if self._done:
                break
            Watch.check(self)
            turn += 1
            if turn <= ask_again:
                continue
            # Yielding may take long if others want the processor: it counts as waiting.
            began = began or time.monotonic()
            if turn > _STEP_ASIDE:
                return self._is_over_in_the_end(began, seconds)
            _yield_processor()
        return True

    def _is_over_in_the_end(self, began: float, seconds: float) -> bool:
        """The same for a longer wait, with pauses. It is reported to other ranks."""
        turn, now = _STEP_ASIDE, time.monotonic()
        deadline, patience = began + seconds, Patience(began)
        self.waiter = threading.get_ident()
        waiting.append(self)
        try:
            while now <= deadline:
                if patience.is_over(now):
                    Watch.tell(self, now - began)
                time.sleep(next((nap for turns, nap in _NAPS if turn < turns), _LONG_NAP))
                turn += 1
                progress()
                if self._done:
                    return True
                Watch.check(self)
                now = time.monotonic()
        finally:
            waiting.remove(self)
        self.timed_out = True
        return False


def _explained(work: Work, error: Exception) -> Exception:
    """The error to raise: if MPI says only that something failed, the reason may be a rank that is
    gone, about which news will arrive in a moment."""
    if not type(error).__module__.startswith("mpi4py"):
        return error
    end = time.monotonic() + _NEWS_COMES
    while time.monotonic() < end:
        try:
            Watch.check(work)
        except RuntimeError as known:
            return known
        time.sleep(_LONG_NAP)
    error.add_note(f"in {work.call} at {work.call.where()}")
    return error


def progress() -> None:
    """Advance every operation in progress as far as possible. Raises the error of one that failed:
    its peers may have stopped because of it, so that waiting for another would never end."""
    with _lock:
        if len(_under_way) == 1:
            work = _under_way[0]
            over = [work] if work._advance() else []
        else:
            over = [work for work in _under_way if work._advance()]
        for work in over:
            _under_way.remove(work)
    for work in over:
        if work._error is not None:
            raise work._error


def pending() -> list[Work]:
    """The operations in progress, except those whose wait has failed."""
    return [work for work in _under_way if not work.timed_out]


def finish_all() -> None:
    """Wait for all operations in progress."""
    while waiting := pending():
        waiting[0].wait()


def give_up_all() -> None:
    """Stop all operations: peers are gone. Memory that MPI may still write to is kept."""
    with _lock:
        _given_up.extend(_under_way)
        _under_way.clear()
