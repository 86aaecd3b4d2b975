"""Events as a file for chrome://tracing, ui.perfetto.dev and TensorBoard."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from retrograd.profiler._events import frame_text
from retrograd.profiler._ledger import Event, Ledger

CATEGORIES = {
    "operation": "cpu_op", "backward": "cpu_op", "pass": "cpu_op", "module": "python_function",
    "range": "user_annotation", "step": "user_annotation",
}  # fmt: skip


def write_trace(
    ledgers: Sequence[Ledger], path: str, metadata: Mapping[str, Any], modules: bool
) -> None:
    """Write the events of ledgers in Chrome's format, compressed if the name says so."""
    content = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "host_name": socket.gethostname(),
        **metadata,
        "displayTimeUnit": "ms",
        "traceEvents": [entry for ledger in ledgers for entry in entries(ledger, modules)],
    }
    path = os.fspath(path)
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        json.dump(content, file)


def entries(ledger: Ledger, modules: bool) -> Iterator[dict[str, Any]]:
    """The entries of one recording: events, arrows from forward to backward, and memory."""
    process = os.getpid()
    main = ledger.root.thread
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0,
           "args": {"name": "python"}}  # fmt: skip
    for thread in {main, *(event.thread for event in ledger.events)}:
        name = "thread" if thread == main else "thread of a nested pass"
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "ts": 0,
               "args": {"name": f"{name} {thread}"}}  # fmt: skip
    for event in ledger.events:
        if event.kind == "module" and not modules:
            continue
        where = {"pid": process, "tid": event.thread}
        yield {
            "ph": "X", "cat": CATEGORIES[event.kind], "name": event.name, **where,
            "ts": event.start / 1000, "dur": (event.end - event.start) / 1000,
            "args": _arguments(event),
        }  # fmt: skip
        forward = None if event.order is None else ledger.by_node.get(event.order)
        if event.kind == "backward" and forward is not None:
            arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": event.order, "pid": process}
            yield {"ph": "s", **arrow, "tid": forward.thread, "ts": forward.start / 1000}
            yield {"ph": "f", "bp": "e", **arrow, "tid": event.thread, "ts": event.start / 1000}
        if ledger.memory and event.kind in ("operation", "backward"):
            yield {
                "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", **where,
                "ts": event.end / 1000,
                "args": {"Total Allocated": event.held, "Bytes": event.self_bytes},
            }  # fmt: skip


def _arguments(event: Event) -> dict[str, Any]:
    results: dict[str, Any] = {}
    if event.order is not None:
        results["Sequence number"] = event.order
    if event.shapes is not None:
        results["Input Dims"] = event.shapes
    if event.module:
        results["Module"] = event.module
    if event.place[0] is not None:
        results["Source"] = frame_text(event.place)
    if event.stack:
        results["Call stack"] = "; ".join(map(frame_text, event.stack))
    return results
