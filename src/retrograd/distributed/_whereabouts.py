"""Where each rank is in its program, and whether it is running.

A thread of every rank tells its neighbours each second where the program is and what it waits for.
A rank that computes keeps sending; one that is stopped falls silent. A rank that has waited for
long asks all ranks, and follows the chain from the rank it waits for to the rank that one waits
for, and so on, to the ranks that do not wait: these are late.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

from retrograd._source import describe, is_own
from retrograd.distributed._processes import standing
from retrograd.distributed._work import ALL, ANY, Work, waiting

BEAT = 1.0  # seconds between heartbeats
_NEAR = 6.0  # a rank on this host that is silent for so long and uses no processor time is stopped
_FAR = 60.0  # on another host it may be in an operation that lets no thread run
_LOOK = 2.0  # how long before that to read its processor time first
_LIBRARIES = os.path.dirname(os.__file__) + os.sep
_LONGEST = 300


_WAITING = Work._is_over_in_the_end.__code__


def place_of(thread: threading.Thread) -> tuple[str, bool]:
    """The line of the user's code that a thread is at: the innermost that is neither this package's
    nor an installed library's, if there is one. And whether it waits for an operation: not if other
    code runs during the wait, such as a signal handler."""
    frame = sys._current_frames().get(thread.ident or 0)
    best: FrameType | None = None
    waits = False
    while frame is not None:
        file = frame.f_code.co_filename
        waits = waits or (best is None and frame.f_code is _WAITING)
        if not is_own(file) and not file.startswith("<frozen"):
            best = best or frame
            if not file.startswith(_LIBRARIES):
                best = frame
                break
        frame = frame.f_back
    place = "" if best is None else describe((best.f_code, best.f_lasti)) or ""
    return place[:_LONGEST], waits


class Whereabouts:
    """What this rank knows about where the others are."""

    def __init__(self, rank: int, cards: list[dict[str, Any]], groups: Sequence[Any],
                 main: threading.Thread) -> None:  # fmt: skip
        self.rank = rank
        self.states: dict[int, dict[str, Any]] = {}  # the last report of each rank
        self.silent: dict[int, dict[str, Any]] = {}  # those that are stopped
        self.came: dict[int, float] = {}  # when it was heard
        self._cards = cards
        self._groups = groups
        self._main = main
        self._number = 0
        self._quiet: dict[int, float] = {}
        self._ticks: dict[int, int] = {}

    # -- this rank ---------------------------------------------------------------------------

    def mine(self) -> dict[str, Any]:
        """The report on this rank."""
        self._number += 2  # by twos: the odd numbers mean "and then it fell silent"
        at, in_wait = place_of(self._main)
        waits = next((wait_of(work, len(self._cards)) for work in reversed(waiting)
                      if in_wait or work.waiter != self._main.ident), None)  # fmt: skip
        state = {
            "rank": self.rank, "kind": "state", "number": self._number,
            "at": at or "the end of its program", "waits": waits,
            "calls": {str(group.number): group.issued for group in list(self._groups)},
        }  # fmt: skip
        self.states[self.rank] = state
        return state

    # -- the others --------------------------------------------------------------------------

    def take(self, item: dict[str, Any]) -> bool:
        """Note a report on a rank. Whether it is new."""
        rank = item["rank"]
        if rank == self.rank or item["number"] <= self.states.get(rank, {"number": 0})["number"]:
            return False
        self.states[rank] = item
        self.came[rank] = time.monotonic()
        if item["kind"] == "silent":
            self.silent[rank] = item
        else:
            self.silent.pop(rank, None)
        return True

    def heard(self, peer: int) -> None:
        """Note that a neighbour sent something."""
        self._quiet[peer] = 0.0
        self._ticks.pop(peer, None)

    def judge(self, peers: Iterable[int], passed: float) -> list[dict[str, Any]]:
        """Find neighbours that have fallen silent, ``passed`` seconds after the last check.

        If these are many, this rank itself was stopped, and they count little: the others have sent
        something meanwhile, or were stopped along with it.
        """
        result = []
        for peer in peers:
            quiet = self._quiet[peer] = self._quiet.get(peer, 0.0) + min(passed, 2 * BEAT)
            if peer not in self.silent and self._is_stopped(peer, quiet):
                known = self.states.get(peer, {"number": 0, "at": "", "waits": None, "calls": {}})
                result.append({
                    **known, "rank": peer, "kind": "silent", "number": known["number"] + 1,
                    "quiet": quiet, "how": self._how(peer), "at_time": time.time(),
                })  # fmt: skip
        return result

    def _is_stopped(self, peer: int, quiet: float) -> bool:
        """Whether a silent rank is stopped, as far as can be known."""
        card = self._cards[peer]
        known = None
        if card["host"] == self._cards[self.rank]["host"]:
            known = standing(card["pid"])
        if known is None or known.start != card["start"]:
            return quiet >= _FAR
        if quiet < _NEAR - _LOOK:
            return False
        if not known.is_stopped:
            before = self._ticks.get(peer)
            self._ticks[peer] = known.ticks
            if before != known.ticks or known.state == "R":  # it computes: start over
                self._quiet[peer] = min(quiet, _NEAR - _LOOK)
                return False
        return quiet >= _NEAR

    def _how(self, peer: int) -> str:
        if self._cards[peer]["host"] != self._cards[self.rank]["host"]:
            return "is stopped or hangs"
        known = standing(self._cards[peer]["pid"])
        if known is None:
            return "is stopped or hangs"
        if known.state == "t":
            return "is stopped by a debugger"
        return "is stopped by a signal" if known.is_stopped else "hangs"

    def words_of_silence(self, item: dict[str, Any]) -> str:
        """What is known about a rank that is stopped."""
        quiet = item["quiet"] + max(time.time() - item["at_time"], 0)
        since = time.strftime("%H:%M:%S", time.localtime(time.time() - quiet))
        last = f", when it was at {item['at']}" if item["at"] else ""
        return f"{item['how']}: no sign of life since {since} ({quiet:.0f} s ago){last}"

    # -- whom a wait is for --------------------------------------------------------------------

    def needed_by(self, wait: dict[str, Any], rank: int) -> list[int]:
        """The ranks that a waiting rank needs, as far as is known."""
        ranks = range(len(self._cards)) if wait["ranks"] is None else wait["ranks"]
        others = [other for other in ranks if other != rank]
        if wait["peer"] == ANY:
            return others
        if wait["peer"] != ALL:
            return [wait["peer"]]
        late = [other for other in others if self._calls(other, wait["group"]) < wait["number"]]
        return late or [other for other in others if not self._waits(other)]

    def _calls(self, rank: int, group: int) -> int:
        return int(self.states.get(rank, {"calls": {}})["calls"].get(str(group), 0))

    def _waits(self, rank: int) -> dict[str, Any] | None:
        if rank in self.silent:
            return None
        result: dict[str, Any] | None = self.states.get(rank, {"waits": None})["waits"]
        return result

    def late(self, wait: dict[str, Any]) -> list[int]:
        """The ranks at which a chain of waits ends; none if it is a cycle."""
        seen, result = {self.rank}, []
        following = self.needed_by(wait, self.rank)
        while following:
            rank = following.pop(0)
            if rank in seen:
                continue
            seen.add(rank)
            its = self._waits(rank)
            if its is None:
                result.append(rank)
            else:
                following += self.needed_by(its, rank)
        return sorted(result)

    def words(self, wait: dict[str, Any], who: Callable[[int], str]) -> str:
        """Which ranks a wait is for, and where they are."""
        result = self.late(wait)
        if result:
            return "; ".join(f"{who(rank)}, {self._where(rank)}" for rank in result)
        lines = [f"rank {self.rank} in {wait['call']}"]
        for rank in sorted(self.states):
            its = self._waits(rank)
            if its is not None and rank != self.rank:
                lines.append(f"rank {rank} in {its['call']} at {self.states[rank]['at']}")
        return f"ranks that wait for each other: {'; '.join(lines)}"

    def _where(self, rank: int) -> str:
        if rank in self.silent:
            return f"which {self.words_of_silence(self.silent[rank])}"
        state = self.states.get(rank)
        if state is None or not state["at"]:
            return "which has not said where it is"
        ago = time.monotonic() - self.came[rank]
        if ago > 3 * BEAT:
            return f"which has not been heard of for {ago:.0f} s, when it was at {state['at']}"
        return f"which is at {state['at']}"


def wait_of(work: Work, size: int) -> dict[str, Any]:
    """What an operation waits for, for the report to other ranks."""
    ranks = work.group.ranks
    return {
        "call": str(work.call)[:_LONGEST], "group": work.group.number, "peer": work.peer,
        "number": work.number, "ranks": None if len(ranks) == size else ranks,
    }  # fmt: skip
