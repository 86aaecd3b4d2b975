"""Assigns every nanosecond and byte to one event, or to the profiler itself.

An event is something that was begun and ended: an operation, a node of a backward pass, a call of a
Module, a range that the user named. Events are inside each other. The time between two readings of
the clock belongs to the innermost event that is open (its *self* time), so that the self times of
all events and what the profiler took add up to the whole exactly. Bytes are counted in the same
way, by what tracemalloc says is allocated.
"""

from __future__ import annotations

import tracemalloc
from _thread import get_ident
from time import perf_counter_ns as clock
from typing import Any

from retrograd._source import Place

NOWHERE: Place = (None, 0)
OUTSIDE = "Python and everything else"


class Event:
    """Something that was begun and ended."""

    __slots__ = (
        "backward", "end", "held", "kind", "module", "name", "order", "parent", "place",
        "self_bytes", "self_ns", "shapes", "stack", "start", "thread",
    )  # fmt: skip

    def __init__(self, name: str, kind: str, parent: Event | None) -> None:
        self.name = name
        # "operation", "backward" (a node), "pass", "module", "range", "step" (of an optimizer) or
        # "outside"
        self.kind = kind
        self.parent = parent
        self.start = self.end = 0  # nanoseconds by the clock, with the profiler's own in between
        self.self_ns = 0
        self.self_bytes = 0  # allocated less freed
        self.held = 0  # bytes that are allocated when it ends
        self.place: Place = NOWHERE  # for a node, where its forward operation is
        self.module: str = "" if parent is None else parent.module
        self.backward: bool = parent is not None and parent.backward
        self.shapes: list[Any] | None = None
        self.stack: tuple[Place, ...] = ()
        self.order: int | None = None  # the number of the node that it made or ran
        self.thread = get_ident()


def allocated() -> int:
    """The bytes that tracemalloc knows of."""
    return tracemalloc.get_traced_memory()[0]


class Ledger:
    """The events of one recording. The first represents the time outside of all others."""

    def __init__(self, memory: bool) -> None:
        self.memory = memory
        self.root = Event(OUTSIDE, "outside", None)
        self.open = [self.root]
        self.events: list[Event] = []  # in the order in which they began
        self.by_node: dict[int, Event] = {}  # the forward event of each node, by its number
        self.own_ns = self.own_bytes = 0  # what the profiler took itself
        self._bytes = allocated() if memory else 0
        self.begun_bytes = self.root.held = self._bytes
        self._clock = self.root.start = clock()

    @property
    def total_ns(self) -> int:
        """The time from begin to end."""
        return self.root.end - self.root.start

    @property
    def total_bytes(self) -> int:
        """What was allocated and not freed from begin to end."""
        return self.root.held - self.begun_bytes

    def pause(self) -> Event:
        """Account for the time so far; what follows is the profiler's own time. Returns the
        innermost open event."""
        now = clock()
        top = self.open[-1]
        top.self_ns += now - self._clock
        self._clock = now
        if self.memory:
            held = allocated()
            top.self_bytes += held - self._bytes
            self._bytes = held
        return top

    def go_on(self) -> None:
        """End the profiler's own time."""
        if self.memory:
            held = allocated()
            self.own_bytes += held - self._bytes
            self._bytes = held
        now = clock()
        self.own_ns += now - self._clock
        self._clock = now

    def begin(self, event: Event) -> None:
        """Open an event, between ``pause`` and ``go_on``."""
        self.events.append(event)
        self.open.append(event)
        self.go_on()
        event.start = self._clock

    def finish(self, event: Event) -> None:
        """Close an event, and those inside it that an error has left open; and ``pause``. Nothing
        happens if it is closed already."""
        last = self.pause()
        while last is not event and event in self.open:
            last.end, last.held = self._clock, self._bytes
            self.open.pop()
            last = self.open[-1]
        if last is event:
            event.end, event.held = self._clock, self._bytes
            self.open.pop()

    def close(self) -> None:
        """The end of the recording."""
        if len(self.open) > 1:
            self.finish(self.open[1])
        else:
            self.pause()
        self.root.end, self.root.held = self._clock, self._bytes
