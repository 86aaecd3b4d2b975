"""Who is still there. No wait outlives the rank it waits for.

A thread listens on the connections to other ranks, and gives a sign of life each second. What it
hears is put in ``news``, or among the whereabouts of ranks, at which every wait looks. When a rank
is gone, one that computes and does not wait is interrupted. A rank that is stopped may go on again:
only those that wait for it are told.
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

# After the news of a rank's end: how long until whoever computes is interrupted, until the news
# is printed for a program that cannot be, and until that is ended.
_INTERRUPT, _PRINT, _END = 0.05, 0.2, 7.0
# What a rank can come to. Whatever stopped because of another is told last; "left" is no fault.
_ASK_AGAIN = 150  # times, which is about as many microseconds
_LAST = 1 << 30  # the number of the last news of a rank, which others have to tell
_ENDS = ("died", "failed", "ended", "stopped")
_ANSWERS_COME = 0.6


class Monitor:
    """The connections of this rank and what it has heard."""

    def __init__(
        self, rank: int, cards: list[dict[str, Any]], made: dict[int, socket.socket],
        groups: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        self.rank = rank
        self.size = len(cards)
        self.cards = cards
        self.process = os.getpid()
        self.main = threading.current_thread()
        self.news: dict[int, dict[str, Any]] = {}  # the end of each rank that has come to one
        self.told = False  # that a rank is gone, to the program, by an error
        self.printed = False
        self.over = False  # this rank's program has come to its end
        self.blocked: Call | None = None  # inside a call of MPI that cannot be left
        self.on_signal: Any = None  # what handles SIGTERM for us
        self.where = Whereabouts(rank, cards, groups, self.main)
        self._said = 0
        self._questions = dict.fromkeys(range(len(cards)), 0)
        self._answered = 0.0
        self._noticed: set[tuple[str, float]] = set()
        self.lock = threading.RLock()  # a signal may come amid an announcement, and announce
        free_in_forks(self.lock)
        self._connections = dict(made)
        self._heard = dict.fromkeys(made, b"")
        self._selector = selectors.DefaultSelector()
        for peer, connection in made.items():
            self._selector.register(connection, selectors.EVENT_READ, peer)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._let_go)
        threading.Thread(target=self._listen, name="retrograd-liveness", daemon=True).start()

    def _let_go(self) -> None:
        """In a forked process: close what would keep the connections of its parent open when the
        parent dies."""
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
        """Give a sign of life to the neighbours, and look who gives none."""
        self._tell({**self.where.mine(), "kind": "beat"}, but=self.where.silent)
        for item in self.where.judge(list(self._connections), passed):
            self._learn(item, item["rank"])
        if self.blocked is not None and self.where.silent:
            self._end_blocked(self.blocked)

    def _end_blocked(self, call: Call) -> None:
        """End this process, which is inside MPI and cannot raise, because a rank is stopped."""
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
        # A rank whose program ends well says so, and stays until all others' have.
        if not (self.over and self.news.get(peer, {}).get("over")):
            self._learn({"rank": peer, "kind": "died", "number": _LAST}, peer)

    def _learn(self, item: dict[str, Any], source: int) -> None:
        """Take in a piece of news, and pass it on if it is new."""
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
            return  # it comes by several ways, and who has ended does not end again
        self.news[rank] = item
        self._tell(item, but=(source,))
        if item["kind"] in _ENDS and self.first_end() is item:
            threading.Thread(target=self._see_to_it, daemon=True).start()

    def _learn_where(self, item: dict[str, Any], source: int) -> None:
        """Take in where a rank is. A sign of life is for neighbours only, unless it is that of one
        that was silent."""
        was_silent = item["rank"] in self.where.silent
        if self.where.take(item) and (item["kind"] != "beat" or was_silent):
            if item["kind"] == "beat":
                item = {**item, "kind": "state"}
            self._tell(item, but=(source,))

    def _answer(self) -> None:
        """Tell all where this rank is, unless they have just been told."""
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
                    except OSError:  # it is going itself; the listening thread hears of that
                        continue

    def _see_to_it(self) -> None:
        """See to it that a program that does not wait for anybody ends, too."""
        time.sleep(_INTERRUPT)
        if not self.told and self.main is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is not self.on_signal:
                self.say_once("", "")  # the program's own handler will hardly say why
            signal.pthread_kill(self.main.ident or 0, signal.SIGTERM)
        time.sleep(_PRINT - _INTERRUPT)
        if not self.told:
            self.say_once("", "")
        time.sleep(_END - _PRINT)
        if not self.told:
            os._exit(1)

    # -- the program -------------------------------------------------------------------------

    def first_end(self) -> dict[str, Any] | None:
        """The first that was heard of a rank that did not end well, by its own doing if any."""
        ends = [item for item in list(self.news.values()) if item["kind"] in _ENDS]
        return min(ends, key=lambda item: item["kind"] == "stopped", default=None)

    def who(self, rank: int) -> str:
        """A rank, as errors name it."""
        card = self.cards[rank]
        return f"rank {rank} (pid {card['pid']} on {card['name']})"

    def words(self, item: dict[str, Any]) -> str:
        """A piece of news for people."""
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
        """The error for a rank that is gone. From here on the program knows."""
        self.told = True
        if item["kind"] == "stopped":
            return PeerError(self.words(item), item["about"])
        return PeerError(self.words(item) + doing, item["rank"])

    def say_once(self, where: str, what: str) -> None:
        """Print one line on the rank that is gone, whoever comes to it first."""
        item = self.first_end()
        what = what or (self.words(item) if item is not None else "")
        if what and not self.printed:
            self.printed = True
            say(f"rank {self.rank} stops{where}: {what}")

    def check(self, work: Work) -> None:
        """Raise if the ranks that an operation needs are not there any more."""
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
        """Raise if an operation needs a rank that is stopped."""
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
        """Raise if any rank is gone or stopped, for a call that needs all and is no operation."""
        item = self.first_end() or next(iter(list(self.where.silent.values())), None)
        if item is not None:
            raise self.error(item, doing)

    # -- who is late ---------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask all ranks where they are. The answers are among the whereabouts soon."""
        self._questions[self.rank] += 1
        self._tell({"rank": self.rank, "kind": "ask", "number": self._questions[self.rank]})
        self.where.mine()

    def notice(self, work: Work, seconds: float) -> None:
        """Print for whom this rank waits: once for a line of the program and a time."""
        key = (work.call.where(), round(seconds, -1))
        if key not in self._noticed:
            self._noticed.add(key)
            whom = self.where.words(wait_of(work, self.size), self.who)
            say(f"rank {self.rank} has waited for {seconds:.0f} s in {work.call} at "
                f"{work.call.where()} for {whom}")  # fmt: skip

    def notice_end(self, others: list[int]) -> None:
        """Print for whom this rank waits whose program has ended."""
        wait = {"call": "its end", "group": -1, "number": 0, "peer": ALL, "ranks": others}
        say(f"rank {self.rank} has ended and waits for {self.where.words(wait, self.who)}")

    def late(self, work: Work) -> str:
        """Whom an operation that has timed out was waiting for."""
        asked = time.monotonic()
        self.ask()
        wait = wait_of(work, self.size)
        while time.monotonic() < asked + _ANSWERS_COME and any(
            self.where.came.get(rank, 0.0) < asked for rank in range(self.size) if rank != self.rank
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
    """Whether a rank that has left will never do its part of an operation."""
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
    """Whether a rank that has left will not join a group later, in another world."""
    return bool(item["over"] or group.number < item["created"])


def _done_in(item: dict[str, Any], group: Any) -> dict[str, Any]:
    """What a rank that has left did in a group."""
    done: dict[str, Any] = item["groups"].get(str(group.number), {"calls": 0, "messages": {}})
    return done


def _nobody_sends(work: Work, monitor: Monitor) -> bool:
    """Whether all ranks of a group have left, and one that receives from any is one too many."""
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
    """Print a line for people, from any thread and at any moment."""
    if sys.__stderr__ is not None:  # else 2 may be the number of any file of the program's
        try:
            os.write(2, line.encode(errors="backslashreplace") + b"\n")
        except OSError:  # whoever was listening is gone; that is no reason to stop
            return


class _Running:
    monitor: Monitor | None = None


running = _Running()
_at_start: list[Callable[[Monitor], None]] = []


def at_start(function: Callable[[Monitor], None]) -> None:
    """Call a function once ranks are watched."""
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
    cards, made = _network.connect(group.calls, wait)
    monitor = running.monitor = Monitor(group.rank(), cards, made, groups)
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
    """Around a call of MPI that blocks: if a rank is stopped meanwhile, this process ends."""
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
    """Tell the others that this rank makes no more calls, and how many it has made."""
    monitor = running.monitor
    if monitor is None or monitor.process != os.getpid():
        return
    done = {str(group.number): group.done() for group in groups}
    monitor.over = over
    monitor.announce("left", groups=done, created=created, over=over)
