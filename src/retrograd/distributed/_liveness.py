"""Monitors which ranks are alive, so that no rank waits for a dead one.

A thread listens on the connections to other ranks and sends a heartbeat each second. What it
receives goes to ``news``, or to the whereabouts of ranks; every wait checks both. When a rank is
gone, the ranks that compute and do not wait are interrupted. A rank that is stopped may continue
later: only those that wait for it are told.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from retrograd._modes import free_in_forks
from retrograd.distributed import _network
from retrograd.distributed._calls import Call
from retrograd.distributed._errors import PeerError
from retrograd.distributed._whereabouts import BEAT, Whereabouts, wait_of
from retrograd.distributed._work import ALL, ANY, Watch, Work, give_up_all

# Seconds after a rank has ended: until a rank that computes is interrupted, until the news is
# printed if it cannot be interrupted, and until its process is ended.
_INTERRUPT, _PRINT, _END = 0.05, 0.2, 7.0
_ASK_AGAIN = 150  # times, which is about as many microseconds
_LAST = 1 << 30  # stands for the number of a rank's last news, which others relay
# How a rank can end. Ranks that stopped because of another are reported last; "left" is no fault.
_ENDS = ("died", "failed", "ended", "stopped")
_ANSWERS_COME = 0.6


class Monitor:
    """The connections of this rank and what it has received."""

    def __init__(
        self, rank: int, cards: list[dict[str, Any]], connections: dict[int, socket.socket],
        groups: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        self.rank = rank
        self.size = len(cards)
        self.cards = cards
        self.process = os.getpid()
        self.main = threading.current_thread()
        self.news: dict[int, dict[str, Any]] = {}  # how each rank ended, of those that have
        self.told = False  # whether the program was told, by an error, that a rank is gone
        self.printed = False
        self.over = False  # this rank's program has ended
        self.blocked: Call | None = None  # inside an MPI call that cannot be interrupted
        self.on_signal: Any = None  # the handler of SIGTERM
        self.where = Whereabouts(rank, cards, groups, self.main)
        self._said = 0
        self._questions = dict.fromkeys(range(len(cards)), 0)
        self._answered = 0.0
        self._noticed: set[tuple[str, float]] = set()
        self.lock = threading.RLock()  # a signal handler may announce during an announcement
        free_in_forks(self.lock)
        self._connections = dict(connections)
        self._heard = dict.fromkeys(connections, b"")
        self._selector = selectors.DefaultSelector()
        for peer, connection in connections.items():
            self._selector.register(connection, selectors.EVENT_READ, peer)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._let_go)
        threading.Thread(target=self._listen, name="retrograd-liveness", daemon=True).start()

    def _let_go(self) -> None:
        """In a forked process: close the connections of the parent, which would stay open when it
        dies."""
        for connection in self._connections.values():
            connection.close()
        self._selector.close()
        self._connections = {}

    # -- the thread --------------------------------------------------------------------------

    def _listen(self) -> None:
        before = time.monotonic() - BEAT
        while self._connections:
            passed = time.monotonic() - before
            if passed >= BEAT:
                before += passed
                self._beat(passed)
            for key, _ in self._selector.select(max(before + BEAT - time.monotonic(), 0)):
                self._hear(key.data)

    def _beat(self, passed: float) -> None:
        """Send a heartbeat to the neighbours, and check which of them are silent."""
        self._tell({**self.where.mine(), "kind": "beat"}, but=self.where.silent)
        for item in self.where.judge(list(self._connections), passed):
            self._learn(item, item["rank"])
        if self.blocked is not None and self.where.silent:
            self._end_blocked(self.blocked)

    def _end_blocked(self, call: Call) -> None:
        """End this process because a rank is stopped: it is inside MPI and cannot raise an
        exception."""
        item = next(iter(self.where.silent.values()))
        text = self.words(item) + f". Rank {self.rank} was in {call}"
        self.say_once(f" at {call.where()}", text)
        self.announce("stopped", text=text, about=item["rank"])
        os._exit(1)

    def _hear(self, peer: int) -> None:
        connection = self._connections[peer]
        try:
            got = connection.recv(65536)
        except OSError:  # reset, or silent for too long
            got = b""
        if got:
            self.where.heard(peer)
            *lines, self._heard[peer] = (self._heard[peer] + got).split(b"\n")
            for line in lines:
                self._learn(json.loads(line), peer)
            return
        self._selector.unregister(connection)
        del self._connections[peer]
        connection.close()
        # A rank whose program ends normally says so, and stays until all others have ended.
        if not (self.over and self.news.get(peer, {}).get("over")):
            self._learn({"rank": peer, "kind": "died", "number": _LAST}, peer)

    def _learn(self, item: dict[str, Any], source: int) -> None:
        """Note a piece of news, and relay it if it is new."""
        rank = item["rank"]
        if item["kind"] in ("beat", "state", "silent"):
            self._learn_where(item, source)
            return
        if item["kind"] == "ask":
            if item["number"] > self._questions[rank]:
                self._questions[rank] = item["number"]
                self._tell(item, but=(source,))
                self._answer()
            return
        known = self.news.get(rank)
        if known is not None and (item["number"] <= known["number"] or known["kind"] in _ENDS):
            return  # news comes by several paths, and a rank ends only once
        self.news[rank] = item
        self._tell(item, but=(source,))
        if item["kind"] in _ENDS and self.first_end() is item:
            threading.Thread(target=self._see_to_it, daemon=True).start()

    def _learn_where(self, item: dict[str, Any], source: int) -> None:
        """Note where a rank is. Heartbeats are for neighbours only, except for that of a rank that
        was silent."""
        was_silent = item["rank"] in self.where.silent
        if self.where.take(item) and (item["kind"] != "beat" or was_silent):
            if item["kind"] == "beat":
                item = {**item, "kind": "state"}
            self._tell(item, but=(source,))

    def _answer(self) -> None:
        """Tell all ranks where this one is, unless that has just been done."""
        if time.monotonic() - self._answered > _ANSWERS_COME / 3:
            self._answered = time.monotonic()
            self._tell(self.where.mine())

    def announce(self, kind: str, **more: Any) -> None:
        """Tell all others something about this rank."""
        self._said += 1
        self._tell({"rank": self.rank, "kind": kind, "number": self._said, **more})

    def _tell(self, item: dict[str, Any], but: Container[int] = ()) -> None:
        """Send a piece of news to all neighbours."""
        line = json.dumps(item).encode() + b"\n"
        with self.lock:
            for peer, connection in list(self._connections.items()):
                if peer not in but:
                    try:
                        connection.sendall(line)
                    except OSError:  # that rank is ending itself; the listening thread will notice
                        continue

    def _see_to_it(self) -> None:
        """Make a program end that does not wait for another rank."""
        time.sleep(_INTERRUPT)
        if not self.told and self.main is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is not self.on_signal:
                self.say_once("", "")  # the program's own handler is unlikely to say why
            signal.pthread_kill(self.main.ident or 0, signal.SIGTERM)
        time.sleep(_PRINT - _INTERRUPT)
        if not self.told:
            self.say_once("", "")
        time.sleep(_END - _PRINT)
        if not self.told:
            os._exit(1)

    # -- the program -------------------------------------------------------------------------

    def first_end(self) -> dict[str, Any] | None:
        """The first news of a rank that failed; preferably one that failed by itself."""
        ends = [item for item in list(self.news.values()) if item["kind"] in _ENDS]
        return min(ends, key=lambda item: item["kind"] == "stopped", default=None)

    def who(self, rank: int) -> str:
        """A rank, as errors name it."""
        card = self.cards[rank]
        return f"rank {rank} (pid {card['pid']} on {card['name']})"

    def words(self, item: dict[str, Any]) -> str:
        """A piece of news as text."""
        if item["kind"] == "stopped":
            return str(item["text"])
        if item["kind"] == "silent":
            return f"{self.who(item['rank'])} {self.where.words_of_silence(item)}"
        what = {
            "died": "died",
            "failed": f"failed: {item.get('text', '')}",
            "ended": f"was ended by {item.get('text', 'a signal')}",
            "left": "has left",
        }[item["kind"]]
        return f"{self.who(item['rank'])} {what}"

    def error(self, item: dict[str, Any], doing: str = "") -> PeerError:
        """The error for a rank that has died, which is then marked as reported."""
        self.told = True
        if item["kind"] == "stopped":
            return PeerError(self.words(item), item["about"])
        return PeerError(self.words(item) + doing, item["rank"])

    def say_once(self, where: str, what: str) -> None:
        """Print one line about the rank that is gone, from whichever thread is first."""
        item = self.first_end()
        what = what or (self.words(item) if item is not None else "")
        if what and not self.printed:
            self.printed = True
            say(f"rank {self.rank} stops{where}: {what}")

    def check(self, work: Work) -> None:
        """Raise an error if ranks that an operation needs are gone."""
        if self.where.silent:
            self._check_silent(work)
        if not self.news:
            return
        ended = self.first_end()
        if ended is not None:
            give_up_all()
            raise self.error(ended, f" while rank {self.rank} was in {work.call}")
        for rank, item in list(self.news.items()):
            if rank in work.group.ranks and _left_before(work, rank, item, self):
                give_up_all()
                raise self.error(item, _why_in_vain(self.rank, rank, work, item))

    def _check_silent(self, work: Work) -> None:
        """Raise an error if an operation needs a rank that is stopped."""
        for rank, item in list(self.where.silent.items()):
            if rank in work.group.ranks and work.peer in (rank, ALL):
                give_up_all()
                raise self.error(item, f". Rank {self.rank} was in {work.call}")
        if work.peer == ANY:
            others = set(work.group.ranks) - {self.rank}
            stopped = sorted(others & set(self.where.silent))
            if stopped and others <= set(stopped) | set(self.news):
                give_up_all()
                item = self.where.silent[stopped[0]]
                raise self.error(item, f". Rank {self.rank} was in {work.call}")

    def check_all(self, doing: str) -> None:
        """Raise an error if any rank is gone or stopped, for a call that needs all ranks."""
        item = self.first_end() or next(iter(list(self.where.silent.values())), None)
        if item is not None:
            raise self.error(item, doing)

    # -- who is late ---------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask all ranks where they are. The answers arrive in the whereabouts."""
        self._questions[self.rank] += 1
        self._tell({"rank": self.rank, "kind": "ask", "number": self._questions[self.rank]})
        self.where.mine()

    def notice(self, work: Work, seconds: float) -> None:
        """Print which ranks this one waits for: once for each line of the program and time."""
        key = (work.call.where(), round(seconds, -1))
        if key not in self._noticed:
            self._noticed.add(key)
            whom = self.where.words(wait_of(work, self.size), self.who)
            say(f"rank {self.rank} has waited for {seconds:.0f} s in {work.call} at "
                f"{work.call.where()} for {whom}")  # fmt: skip

    def notice_end(self, others: list[int]) -> None:
        """Print which ranks this one, whose program has ended, waits for."""
        wait = {"call": "its end", "group": -1, "number": 0, "peer": ALL, "ranks": others}
        say(f"rank {self.rank} has ended and waits for {self.where.words(wait, self.who)}")

    def late(self, work: Work) -> str:
        """The ranks that an operation was waiting for when it timed out."""
        began = time.monotonic()
        self.ask()
        wait = wait_of(work, self.size)
        while time.monotonic() < began + _ANSWERS_COME and any(
            self.where.came.get(rank, 0.0) < began for rank in range(self.size) if rank != self.rank
        ):
            time.sleep(0.01)
        return f"it waited for {self.where.words(wait, self.who)}"


def _why_in_vain(me: int, rank: int, work: Work, item: dict[str, Any]) -> str:
    how = "its program ended" if item["over"] else "it called destroy_process_group"
    return (
        f" ({how}), but rank {me} needs it for {work.call} at {work.call.where()}: "
        f"rank {rank} made fewer calls"
    )


def _left_before(work: Work, rank: int, item: dict[str, Any], monitor: Monitor) -> bool:
    """Whether a rank has left without doing its part of an operation."""
    group = work.group
    if not _is_gone(item, group):
        return False
    done = _done_in(item, group)
    if work.peer == ALL:
        return bool(work.number > done["calls"])
    if work.peer == ANY:
        return _nobody_sends(work, monitor)
    if work.peer != rank:
        return False
    counts, me = done["messages"], monitor.rank
    if work.call.name == "irecv":
        return bool(work.number > counts.get(f"sent {me} {work.tag}", 0))
    taken = [counts.get(f"received {peer} {work.tag}", 0) for peer in (me, ANY)]
    return bool(work.number > sum(taken))


def _is_gone(item: dict[str, Any], group: Any) -> bool:
    """Whether a rank that has left will not join a later world."""
    return bool(item["over"] or group.number < item["created"])


def _done_in(item: dict[str, Any], group: Any) -> dict[str, Any]:
    """What a rank that has left did in a group."""
    done: dict[str, Any] = item["groups"].get(str(group.number), {"calls": 0, "messages": {}})
    return done


def _nobody_sends(work: Work, monitor: Monitor) -> bool:
    """Whether all other ranks of a group have left, so that nobody can send a message any more."""
    group, me = work.group, monitor.rank
    sent = group.messages.get(("sent", me, work.tag), 0)
    for rank in group.ranks:
        if rank != me:
            item = monitor.news.get(rank)
            if item is None or not _is_gone(item, group):
                return False
            sent += _done_in(item, group)["messages"].get(f"sent {me} {work.tag}", 0)
    return bool(work.number > sent)


def say(line: str) -> None:
    """Print a line on standard error, from any thread and at any moment."""
    if sys.__stderr__ is not None:  # otherwise 2 may be any file of the program
        try:
            os.write(2, line.encode(errors="backslashreplace") + b"\n")
        except OSError:  # nobody reads it any more, which is no reason to stop
            return


class _Running:
    monitor: Monitor | None = None


running = _Running()
_at_start: list[Callable[[Monitor], None]] = []


def at_start(function: Callable[[Monitor], None]) -> None:
    """Call a function when the watching of ranks starts."""
    _at_start.append(function)


def _processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start(group: Any, groups: Sequence[Any], wait: Callable[[Any], None]) -> None:
    """Watch the ranks of the world, from the first ``init_process_group`` on. ``groups`` are those
    that this process joins, and ``wait`` waits for a request of MPI."""
    if running.monitor is not None or group.size() == 1:
        return
    cards, connections = _network.connect(group.calls, wait)
    monitor = running.monitor = Monitor(group.rank(), cards, connections, groups)
    Watch.check = staticmethod(monitor.check)
    Watch.ask, Watch.tell = staticmethod(monitor.ask), staticmethod(monitor.notice)
    Watch.late = staticmethod(monitor.late)
    here = [card for card in cards if card["name"] == cards[group.rank()]["name"]]
    if len(here) <= _processors():
        Watch.ask_again = _ASK_AGAIN
    for function in _at_start:
        function(running.monitor)


@contextmanager
def blocked_in(call: Call) -> Iterator[None]:
    """A context for an MPI call that blocks: if a rank is stopped meanwhile, this process ends."""
    monitor = running.monitor
    if monitor is None:
        yield
        return
    monitor.blocked = call
    try:
        yield
    finally:
        monitor.blocked = None


def leave(groups: list[Any], created: int, over: bool) -> None:
    """Tell the others that this rank makes no more calls, and how many it made."""
    monitor = running.monitor
    if monitor is None or monitor.process != os.getpid():
        return
    done = {str(group.number): group.done() for group in groups}
    monitor.over = over
    monitor.announce("left", groups=done, created=created, over=over)
