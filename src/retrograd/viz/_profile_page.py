"""The page of a profile, as one HTML file: tables, a flame graph, a timeline and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.profiler._events import format_time
from retrograd.profiler._ledger import Event, Ledger
from retrograd.profiler._summary import AROUND, KINDS, Summary, summary
from retrograd.viz._page import Page, filled

SCRIPTS = ("dom", "theme", "profile_data", "profile_table", "profile_flame", "profile_timeline",
           "profile")  # fmt: skip
MAX_EVENTS = 20_000  # on the timeline: those that took longest
MAX_POINTS = 2_000  # of memory over time
MAX_ROWS = 500  # of a table
SMALLEST = 1 / 20_000  # part of the whole that a frame of the flame graph has at least


class ProfilePage(Page):
    """A page that shows where the time of a program went. A notebook shows it where it is the value
    of a cell. ``save`` writes it to a file, and ``show`` opens it in the browser."""

    def __init__(self, ledgers: Sequence[Ledger], title: str = "Profile") -> None:
        super().__init__(profile_data(ledgers), title)

    @property
    def html(self) -> str:
        """The whole file."""
        return filled("profile", SCRIPTS, self.title, self.story, {})

    def __repr__(self) -> str:
        wall = format_time(self.story["total"] / 1000)
        return f"<Page {self.title!r}: {wall}; .show() opens it, .save(path) writes it>"


def profile_data(ledgers: Sequence[Ledger]) -> dict[str, Any]:
    """Everything that the page shows; times are in nanoseconds."""
    tables = {kind: summary(ledgers, kind) for kind in KINDS}
    by_line = tables["line"]
    return {
        "total": round(1e9 * by_line.total),
        "profiler": round(1e9 * by_line.profiler),
        "bytes": by_line.total_bytes if by_line.memory else None,
        "steps": sum(e.self_ns for x in ledgers for e in x.events if e.kind == "step"),
        "peak": max((e.held for ledger in ledgers for e in ledger.events), default=0),
        "tables": {kind: _table(table) for kind, table in tables.items()},
        "flame": flame(ledgers),
        **timeline(ledgers),
    }


def _table(table: Summary) -> dict[str, Any]:
    rows = [
        {
            "name": row.name, "count": row.count, "forward": round(1e9 * row.forward),
            "backward": round(1e9 * row.backward), "bytes": row.bytes,
        }
        for row in table[:MAX_ROWS]
    ]  # fmt: skip
    left_out = sum(row.seconds for row in table[MAX_ROWS:])
    return {
        "rows": rows, "outside": round(1e9 * table.outside), "outsideBytes": table.outside_bytes,
        "rowsLeftOut": max(len(table) - MAX_ROWS, 0), "leftOut": round(1e9 * left_out),
    }  # fmt: skip


def kind_of(event: Event) -> str:
    """What an event is drawn as."""
    return "backward" if event.backward and event.kind not in AROUND else event.kind


def name_of(event: Event) -> str:
    """The name that an event has on the page: the colour says what it is."""
    return event.module if event.kind == "module" else event.name


def flame(ledgers: Sequence[Ledger]) -> list[list[Any]]:
    """Frames of the flame graph, a parent before what is inside of it: the number of the parent, a
    name, a kind, the time, the self time, the number of calls. Events of one name with the same
    parents are one frame."""
    frames: list[list[Any]] = [[-1, "program", "outside", 0, 0, 1]]
    numbers: dict[tuple[int, str, str], int] = {}
    for ledger in ledgers:
        known = {id(ledger.root): 0}
        frames[0][4] += ledger.root.self_ns
        for event in ledger.events:
            key = (known[id(event.parent)], name_of(event), kind_of(event))
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(frames)
                frames.append([*key, 0, 0, 0])
            known[id(event)] = number
            frames[number][4] += event.self_ns
            frames[number][5] += 1
    for frame in reversed(frames):  # from the inside out
        frame[3] += frame[4]
        if frame[0] >= 0:
            frames[frame[0]][3] += frame[3]
    least = frames[0][3] * SMALLEST
    new_numbers: dict[int, int] = {}
    shown: list[list[Any]] = []
    for number, frame in enumerate(frames):
        if number == 0 or (frame[3] >= least and frame[0] in new_numbers):
            new_numbers[number] = len(shown)
            shown.append([new_numbers.get(frame[0], -1), *frame[1:]])
    return shown


def timeline(ledgers: Sequence[Ledger]) -> dict[str, Any]:
    """Events as [start, duration, depth, name, kind], and memory as [time, bytes]. Times between
    recordings are left out."""
    events: list[tuple[int, int, int, str, str]] = []
    points: list[tuple[int, int]] = []
    before = deepest = 0
    for ledger in ledgers:
        begin = ledger.root.start - before
        before += ledger.total_ns
        depths = {id(ledger.root): -1}
        if ledger.memory:
            points.append((ledger.root.start - begin, ledger.begun_bytes))
        for event in ledger.events:
            depth = depths[id(event)] = depths[id(event.parent)] + 1
            deepest = max(deepest, depth)
            length = event.end - event.start
            events.append((event.start - begin, length, depth, name_of(event), kind_of(event)))
            if ledger.memory:
                points.append((event.end - begin, event.held))
    left_out = max(len(events) - MAX_EVENTS, 0)
    if left_out:
        events = sorted(events, key=lambda e: -e[1])[:MAX_EVENTS]
        events.sort()
    names = {name: i for i, name in enumerate(dict.fromkeys(e[3] for e in events))}
    kinds = {kind: i for i, kind in enumerate(dict.fromkeys(e[4] for e in events))}
    return {
        "events": [[e[0], e[1], e[2], names[e[3]], kinds[e[4]]] for e in events],
        "names": list(names), "kinds": list(kinds), "depth": deepest + 1,
        "eventsLeftOut": left_out, "memory": thinned(sorted(points)),
    }  # fmt: skip


def thinned(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Fewer points: of each stretch the one with the most bytes and the last."""
    size = -(-2 * len(points) // MAX_POINTS)
    if size <= 2:
        return points
    results: list[tuple[int, int]] = []
    for i in range(0, len(points), size):
        part = points[i : i + size]
        results += dict.fromkeys((max(part, key=lambda p: p[1]), part[-1]))
    return results
