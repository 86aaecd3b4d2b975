"""Sums a profile by operation, source line or Module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from retrograd._source import describe, line_number, short
from retrograd.profiler._events import format_memory, format_time
from retrograd.profiler._ledger import OUTSIDE, Event, Ledger
from retrograd.profiler._tables import PROFILER, laid_out, shortened

KINDS = ("operation", "line", "module")
PASSES = ("forward", "backward")
AROUND = ("module", "range")  # what is in these and in no operation is Python
NO_MODULE = "outside of Modules"


class Row:
    """What belongs to one operation, line or Module.

    Attributes:
        name: the operation, the line (``train.py:12: loss = f(x)``) or the Module.
        count: how often it ran forward.
        forward: the time of that, in seconds.
        backward: the time of its backward, in seconds.
        bytes: what both allocated and did not free.
        place: the file and the number of the line, if the row is of a line.
    """

    def __init__(self, name: str, place: tuple[str, int] | None = None) -> None:
        self.name = name
        self.place = place
        self.count = 0
        self.forward = self.backward = 0.0
        self.bytes = 0

    @property
    def seconds(self) -> float:
        """The time, forward and backward."""
        return self.forward + self.backward

    def __repr__(self) -> str:
        return f"<{self.name}: {self.forward:.6f} s forward, {self.backward:.6f} s backward>"


class Summary(list[Row]):
    """Rows, those that took longest first. What is outside of all rows, and the profiler's own, are
    attributes: with ``outside`` and ``profiler``, the rows add up to ``total``, all in seconds.

    Args:
        rows: the rows.
        ledgers: what they were taken from.
        by: "operation", "line" or "module".
    """

    def __init__(self, rows: Iterable[Row], ledgers: Sequence[Ledger], by: str) -> None:
        super().__init__(sorted(rows, key=lambda row: -row.seconds))
        self.by = by
        self.memory = any(ledger.memory for ledger in ledgers)
        self.total = sum(ledger.total_ns for ledger in ledgers) / 1e9
        self.profiler = sum(ledger.own_ns for ledger in ledgers) / 1e9
        self.outside = self.total - self.profiler - sum(row.seconds for row in self)
        self.total_bytes = sum(ledger.total_bytes for ledger in ledgers)
        self.profiler_bytes = sum(ledger.own_bytes for ledger in ledgers)
        listed = sum(row.bytes for row in self)
        self.outside_bytes = self.total_bytes - self.profiler_bytes - listed

    def table(self, row_limit: int = 20) -> str:
        """The rows as text.

        Args:
            row_limit: the largest number of rows; -1 for all.
        """
        titles = [self.by.capitalize(), "% of time", "Time", "Forward", "Backward"]
        titles += ["Memory"] * self.memory + ["Calls"]
        rows = [self._cells(r.name, r.forward, r.backward, r.bytes, str(r.count)) for r in self]
        left_out = [] if row_limit < 0 else self[row_limit:]
        if left_out:
            forward, backward = (sum(getattr(r, n) for r in left_out) for n in PASSES)
            held = sum(r.bytes for r in left_out)
            rows[row_limit:] = [self._cells(f"{len(left_out)} more", forward, backward, held, "")]
        rows.append(self._cells(OUTSIDE, self.outside, None, self.outside_bytes, ""))
        rows.append(self._cells(PROFILER, self.profiler, None, self.profiler_bytes, ""))
        lines = laid_out(titles, rows)
        return "\n".join([*lines, f"Wall time: {format_time(1e6 * self.total)}"]) + "\n"

    def _cells(
        self, name: str, forward: float, backward: float | None, count: int, calls: str
    ) -> list[str]:
        time = forward + (backward or 0.0)
        share = f"{100 * time / self.total:.1f}%" if self.total else ""
        parts = ["", ""] if backward is None else [format_time(1e6 * forward)]
        parts += [] if backward is None else [format_time(1e6 * backward)]
        memory = [format_memory(count)] * self.memory
        return [shortened(name, 70), share, format_time(1e6 * time), *parts, *memory, calls]

    __str__ = table


def summary(ledgers: Sequence[Ledger], by: str) -> Summary:
    """Add up the self times of events."""
    if by not in KINDS:
        raise ValueError(f"by should be one of {', '.join(KINDS)}, not {by!r}")
    rows: dict[Any, Row] = {}
    for ledger in ledgers:
        key_of = _KEYS[by](ledger)
        for event in ledger.events:
            keyed = key_of(event)
            if keyed is None:
                continue
            key, make = keyed
            row = rows.get(key)
            if row is None:
                row = rows[key] = make()
            if event.backward:
                row.backward += event.self_ns / 1e9
            else:
                row.forward += event.self_ns / 1e9
                row.count += by != "module" or event.kind == "module"
            row.bytes += event.self_bytes
    return Summary(rows.values(), ledgers, by)


Key = tuple[Any, Callable[[], Row]] | None


def _by_operation(ledger: Ledger) -> Callable[[Event], Key]:
    def key(event: Event) -> Key:
        """The operation; for a node the one that made it."""
        if event.kind in AROUND:
            return None
        name = event.name
        if event.kind == "backward" and event.order in ledger.by_node:
            name = ledger.by_node[event.order].name
        return name, lambda: Row(name)

    return key


def _by_line(ledger: Ledger) -> Callable[[Event], Key]:
    lines: dict[Any, tuple[str, int] | None] = {}

    def key(event: Event) -> Key:
        if event.kind in AROUND:
            return None
        place = event.place
        if place not in lines:
            code, offset = place
            lines[place] = None if code is None else (code.co_filename, line_number(code, offset))
        where = lines[place]
        text = short(describe(place)) or "unknown"
        return where, lambda: Row(text, where)

    return key


def _by_module(ledger: Ledger) -> Callable[[Event], Key]:
    def key(event: Event) -> Key:
        name = event.module or NO_MODULE
        return name, lambda: Row(name)

    return key


_KEYS = {"operation": _by_operation, "line": _by_line, "module": _by_module}
