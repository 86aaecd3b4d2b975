"""Events as PyTorch shows them: lists of them, averages by name, and tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from retrograd._source import Place, line_number
from retrograd.profiler._ledger import Event, Ledger

METRICS = ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total",
           "self_privateuse1_time_total"]  # fmt: skip


class Interval(NamedTuple):
    """When something began and ended, in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """The microseconds in between."""
        return self.end - self.start


@lru_cache(maxsize=10_000)
def frame_text(place: Place) -> str:
    """A frame as PyTorch writes it: ``train.py(12): step``."""
    code, offset = place
    if code is None:
        return ""
    file = code.co_filename.removeprefix(os.getcwd() + os.sep)
    return f"{file}({line_number(code, offset)}): {code.co_name}"


def format_time(microseconds: float) -> str:
    """A time as PyTorch writes it.

    >>> format_time(12.5), format_time(12_500), format_time(-2e6)
    ('12.500us', '12.500ms', '-2.000s')
    """
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if abs(microseconds) >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


def format_memory(count: int) -> str:
    """A number of bytes as PyTorch writes it.

    >>> format_memory(100), format_memory(-3 << 20)
    ('100 B', '-3.00 MB')
    """
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


class _Measured:
    """What events and averages of them have in common. There is no device but the CPU."""

    count: int
    cpu_time_total: float  # microseconds, without what the profiler took
    self_cpu_time_total: float
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    input_shapes: Any
    stack: list[str]
    device_time_total = self_device_time_total = device_time = 0.0
    device_memory_usage = self_device_memory_usage = 0
    flops = 0
    node_id = -1
    overload_name = ""

    @property
    def cpu_time(self) -> float:
        """The mean time of a call, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        """The mean time of a call as text."""
        return format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """The time as text."""
        return format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """The time without that of the events inside, as text."""
        return format_time(self.self_cpu_time_total)


class FunctionEvent(_Measured):
    """One event: an operation, a node of a backward pass, or a range that was named.

    Its attributes are those of PyTorch's class, and two more: ``module``, the Module that its
    forward operation ran in, and ``source``, the line of that.
    """

    count = 1

    def __init__(self, number: int, event: Event) -> None:
        self.id = number
        self.trace_name = event.name
        a_step = event.name.startswith("ProfilerStep#")
        self.name = self.key = "ProfilerStep*" if a_step else event.name
        self.kind = event.kind
        self.thread = self.fwd_thread = event.thread
        self.time_range = Interval(event.start / 1000, event.end / 1000)
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.input_shapes = event.shapes or []
        self.stack = [frame_text(place) for place in event.stack]
        self.scope = {"backward": 1, "range": 7, "step": 7}.get(event.kind, 0)
        self.sequence_nr = -1 if event.order is None else event.order
        self.is_user_annotation = event.kind in ("range", "step")
        self.is_async = self.is_remote = False
        self.module = event.module
        self.source = frame_text(event.place)
        self.self_cpu_time_total = self.cpu_time_total = 0.0
        self.self_cpu_memory_usage = self.cpu_memory_usage = 0
        self.add_self(event)

    def add_self(self, event: Event) -> None:
        """Adds the self time and memory of an event.

        Args:
            event: the event.
        """
        self.self_cpu_time_total += event.self_ns / 1000
        self.cpu_time_total += event.self_ns / 1000
        self.self_cpu_memory_usage += event.self_bytes
        self.cpu_memory_usage += event.self_bytes

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class FunctionEventAvg(_Measured):
    """The sums over all events of one name."""

    def __init__(self, key: str = "") -> None:
        self.key = key
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.input_shapes: Any = ""
        self.stack: list[str] = []
        self.scope = 0
        self.is_user_annotation = False
        self.cpu_parent: FunctionEvent | None = None

    def add(self, event: FunctionEvent) -> None:
        """Adds an event.

        Args:
            event: the event.
        """
        if not self.count:
            self.input_shapes, self.stack = event.input_shapes, event.stack
            self.scope, self.is_user_annotation = event.scope, event.is_user_annotation
            self.cpu_parent = event.cpu_parent
        self.count += 1
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.cpu_memory_usage += event.cpu_memory_usage
        self.self_cpu_memory_usage += event.self_cpu_memory_usage

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list[Any]):
    """A list of events or averages.

    Args:
        events: the events.
        ledgers: what they were taken from.
        modules: whether calls of Modules are among them.
    """

    def __init__(
        self, events: Iterable[Any], ledgers: Sequence[Ledger], modules: bool = False
    ) -> None:
        super().__init__(events)
        self._ledgers = ledgers
        self._modules = modules

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, in microseconds."""
        return float(sum(event.self_cpu_time_total for event in self))

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Adds up events of the same name.

        Args:
            group_by_input_shapes: keep different shapes of inputs apart.
            group_by_stack_n: keep apart what differs in this many frames, the innermost.
            group_by_overload_name: nothing: operations have one name each.

        Returns:
            The averages.
        """
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key: tuple[Any, ...] = (event.key, event.is_user_annotation)
            if group_by_input_shapes:
                key += (str(event.input_shapes),)
            key += tuple(event.stack[:group_by_stack_n])
            groups.setdefault(key, FunctionEventAvg(event.key)).add(event)
        for average in groups.values():
            average.stack = average.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
        return EventList(groups.values(), self._ledgers, self._modules)

    def total_average(self) -> FunctionEventAvg:
        """The sums over all events."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def export_chrome_trace(self, path: str) -> None:
        """Writes events as a file for chrome://tracing or ui.perfetto.dev.

        Args:
            path: the file; it is compressed if the name ends with ``.gz``.
        """
        from retrograd.profiler._export import write_trace

        write_trace(self._ledgers, path, {}, self._modules)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes the frames of each event and its time, for tools that make flame graphs.

        Args:
            path: the file.
            metric: what to count: "self_cpu_time_total".
        """
        if metric not in METRICS:
            raise ValueError(f"metric should be one of: {METRICS}")
        attribute = metric if "cpu" in metric else "self_device_time_total"
        replaced = str.maketrans(" ;\t\n", "____")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = int(getattr(event, attribute))
                if event.stack and value > 0:
                    frames = ";".join(frame.translate(replaced) for frame in reversed(event.stack))
                    file.write(f"{frames} {value}\n")

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80,
        header: str | None = None, top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """Shows events as a table. The last two rows are the time outside of all events, and what
        the profiler took; with these, the column of self times adds up to the wall time.

        Args:
            sort_by: an attribute such as "self_cpu_time_total", "cpu_time_total",
                "self_cpu_memory_usage" or "count"; the largest come first.
            row_limit: the largest number of rows; -1 for all.
            max_src_column_width: of the source lines, in characters.
            max_name_column_width: of the names.
            max_shapes_column_width: of the shapes of inputs.
            header: a title.
            top_level_events_only: leave out what is inside of other events.
            time_unit: "s", "ms" or "us" for all times.

        Returns:
            The text.
        """
        from retrograd.profiler._tables import event_table

        events = [e for e in self if not top_level_events_only or e.cpu_parent is None]
        if sort_by is not None:
            for device in ("cuda", "xpu", "privateuse1"):
                sort_by = sort_by.replace(device, "device")
            events.sort(key=lambda event: getattr(event, sort_by), reverse=True)
        widths = max_name_column_width, max_shapes_column_width, max_src_column_width
        shown = events if row_limit < 0 else events[:row_limit]
        return event_table(shown, events, self._ledgers, header or "", widths, time_unit)


def function_events(ledgers: Sequence[Ledger], modules: bool) -> EventList:
    """The events of ledgers. Without calls of Modules, what is inside of them is inside of what is
    around them."""
    results: list[FunctionEvent] = []
    known: dict[int, FunctionEvent | None] = {}  # by the id of the event

    for ledger in ledgers:
        known[id(ledger.root)] = None
        for event in ledger.events:
            parent = known[id(event.parent)]
            if event.kind == "module" and not modules:
                known[id(event)] = parent
                if parent is not None:
                    parent.add_self(event)
                continue
            shown = known[id(event)] = FunctionEvent(len(results), event)
            results.append(shown)
            if parent is not None:
                shown.cpu_parent = parent
                parent.cpu_children.append(shown)
    for shown in reversed(results):  # from the inside out
        if (around := shown.cpu_parent) is not None:
            around.cpu_time_total += shown.cpu_time_total
            around.cpu_memory_usage += shown.cpu_memory_usage
    return EventList(results, ledgers, modules)
